//! Every interleaving of the lock-free parts, by loom.
#![expect(dead_code, reason = "every part is included whole")]

#[path = "../src/hold.rs"]
mod hold;
#[path = "../src/ownership_lock.rs"]
mod ownership_lock;
#[path = "../src/shared/parker.rs"]
mod parker;
#[path = "../src/shared/readiness.rs"]
mod readiness;
#[path = "../src/shared/ring.rs"]
mod ring;
#[path = "../src/shared/serving.rs"]
mod serving;
#[path = "../src/shared/sleepers.rs"]
mod sleepers;
/// There are no forks here.
mod fork {
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct OriginalProcess;

    impl OriginalProcess {
        pub(crate) fn known() -> Option<Self> {
            None
        }

        pub(crate) fn is_forked(self) -> bool {
            false
        }
    }
}
/// The primitives that the parts use here.
mod sync {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::hint;
    pub(crate) use loom::sync::{Mutex, MutexGuard, atomic};
    pub(crate) use loom::thread::yield_now;
}

use hold::Holds;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Arc, Notify};
use loom::thread;
use ownership_lock::OwnershipLock;
use parker::Parker;
use readiness::Readiness;
use ring::Ring;
use serving::{Remaining, Serving};
use sleepers::{Registration, Sleepers};
use std::task::{Context, Poll, Wake, Waker};

/// As loom advises for models with more than two threads: in all known cases, a fault that needs
/// more preemptions than this is found with this many, too.
fn bounded(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

#[test]
fn what_two_threads_push_is_popped_once() {
    bounded(|| {
        let ring = Arc::new(Ring::new(2));
        let pushers = [1, 2].map(|number| {
            let ring = Arc::clone(&ring);
            thread::spawn(move || ring.push(Box::new(number)).expect("there is room"))
        });
        let mut popped = Vec::new();
        while popped.len() < 2 {
            match ring.pop() {
                Some(number) => popped.push(*number),
                None => thread::yield_now(),
            }
        }
        pushers
            .into_iter()
            .for_each(|pusher| pusher.join().unwrap());
        assert!(ring.pop().is_none() && ring.is_empty());
        popped.sort_unstable();
        assert_eq!(popped, [1, 2]);
    });
}

#[test]
fn a_full_ring_takes_more_when_there_is_room_and_keeps_the_order() {
    bounded(|| {
        let ring = Arc::new(Ring::new(2));
        ring.push(Box::new(0)).unwrap();
        ring.push(Box::new(1)).unwrap();
        let other = Arc::clone(&ring);
        let pusher = thread::spawn(move || {
            let mut next = Box::new(2);
            while let Err(back) = other.push(next) {
                next = back;
                thread::yield_now();
            }
        });
        assert_eq!(ring.pop().as_deref(), Some(&0));
        assert_eq!(ring.pop().as_deref(), Some(&1));
        pusher.join().unwrap();
        assert_eq!(ring.pop().as_deref(), Some(&2));
        assert!(ring.is_empty());
    });
}

#[test]
fn two_threads_pop_different_values() {
    loom::model(|| {
        let ring = Arc::new(Ring::new(2));
        ring.push(1).unwrap();
        ring.push(2).unwrap();
        assert_eq!(ring.push(3), Err(3), "full");
        let other = Arc::clone(&ring);
        let popper = thread::spawn(move || other.pop());
        let mine = ring.pop();
        let theirs = popper.join().unwrap();
        let mut both = [mine.unwrap(), theirs.unwrap()];
        both.sort_unstable();
        assert_eq!(both, [1, 2]);
    });
}

#[test]
fn what_is_left_in_the_ring_is_dropped_once() {
    struct Counted(std::sync::Arc<std::sync::atomic::AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }
    loom::model(|| {
        let drops = std::sync::Arc::default();
        let ring = Arc::new(Ring::new(2));
        let (other, counted) = (Arc::clone(&ring), Counted(std::sync::Arc::clone(&drops)));
        let pusher = thread::spawn(move || drop(other.push(counted)));
        drop(ring.pop());
        pusher.join().unwrap();
        drop(ring);
        assert_eq!(drops.load(std::sync::atomic::Ordering::Relaxed), 1);
    });
}

/// When a ring is closed, one thread takes all that is left, all of it younger than the values that
/// the other thread took.
#[test]
fn what_is_left_in_a_closed_ring_is_younger_than_what_was_taken() {
    loom::model(|| {
        let ring = Arc::new(Ring::new(2));
        ring.push(0).unwrap();
        ring.push(1).unwrap();
        let other = Arc::clone(&ring);
        let popper = thread::spawn(move || [other.pop(), other.pop()]);
        ring.close();
        let mut left = Vec::new();
        while let Some((place, value)) = ring.pop_closed() {
            assert_eq!(place, value);
            left.push(value);
        }
        let theirs = popper.join().unwrap().into_iter().flatten();
        let all: Vec<_> = theirs.chain(left).collect();
        assert_eq!(all, [0, 1]);
        assert!(ring.pop().is_none() && ring.is_empty());
        ring.push(2).unwrap();
        assert_eq!((ring.pop(), ring.pop_closed()), (None, Some((2, 2))));
    });
}

/// loom's own thread parking does not bear a thread that is unparked while it joins another.
struct Signal(Notify);

impl Wake for Signal {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.notify();
    }
}

/// While `sleep` runs with a place to sleep, a task to wake, and a condition to check, another
/// thread makes the condition true. A lost wake-up would wait for ever, which loom reports as a
/// deadlock.
fn while_woken(sleep: fn(&Sleepers, &std::sync::Arc<Signal>, &mut dyn FnMut() -> Poll<()>)) {
    loom::model(move || {
        let shared = Arc::new((Sleepers::new(), AtomicBool::new(false)));
        let other = Arc::clone(&shared);
        let waker = thread::spawn(move || {
            other.1.store(true, Ordering::Relaxed);
            other.0.wake();
        });
        let signal = std::sync::Arc::new(Signal(Notify::new()));
        sleep(
            &shared.0,
            &signal,
            &mut || match shared.1.load(Ordering::Relaxed) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            },
        );
        assert!(waker.join().is_ok());
        assert_eq!(
            std::sync::Arc::strong_count(&signal),
            1,
            "nobody has its waker"
        );
    });
}

#[test]
fn a_sleeper_is_never_forgotten() {
    while_woken(|sleepers, signal, look| {
        let me: Waker = std::sync::Arc::clone(signal).into();
        let mut cx = Context::from_waker(&me);
        let mut registration = Registration::new(sleepers);
        while registration.poll(&mut cx, &mut *look).is_pending() {
            signal.0.wait();
        }
    });
}

/// Two calls of one task have the same waker: the end of one is not that of the other.
#[test]
fn a_sleeper_that_leaves_takes_none_with_it() {
    while_woken(|sleepers, signal, look| {
        let me: Waker = std::sync::Arc::clone(signal).into();
        let mut cx = Context::from_waker(&me);
        let mut stays = Registration::new(sleepers);
        while stays.poll(&mut cx, &mut *look).is_pending() {
            // Enters, and leaves at once.
            let _ = Registration::new(sleepers).poll(&mut cx, &mut *look);
            signal.0.wait();
        }
    });
}

#[test]
fn a_dozing_thread_gets_its_work() {
    loom::model(|| {
        let shared = Arc::new((Parker::new(), Ring::new(2)));
        let other = Arc::clone(&shared);
        let worker = thread::spawn(move || {
            loop {
                if other.1.pop().is_some() {
                    return;
                }
                other.0.park(|| other.1.is_empty(), thread::park);
            }
        });
        let sleeper = worker.thread().clone();
        shared.1.push(7).unwrap();
        shared.0.unpark(|| sleeper.unpark());
        worker.join().unwrap();
    });
}

/// Work that is left while a call attends is done by that call or by the I/O thread, which sleeps.
#[test]
fn work_that_is_left_during_a_call_is_done() {
    bounded(|| {
        let shared = Arc::new((Serving::new(), AtomicBool::new(false)));
        *shared.0.take() = Some(());
        let (io, call) = (Arc::clone(&shared), Arc::clone(&shared));
        let io = thread::spawn(move || {
            let (serving, work) = &*io;
            // It stands back, and sleeps until somebody has it serve.
            serving.park_thread(|| !work.load(Ordering::Relaxed), thread::park);
            let held = serving.take();
            work.store(false, Ordering::Relaxed);
            drop(held);
        });
        let sleeper = io.thread().clone();
        let done = Arc::clone(&shared);
        let call = thread::spawn(move || {
            let (serving, work) = &*call;
            serving.attend();
            serving.leave(
                || work.load(Ordering::Relaxed),
                |_| {
                    work.store(false, Ordering::Relaxed);
                    Remaining::Done
                },
            )
        });
        // A swap, as loom concludes nothing about the order of a store and another thread's swap.
        shared.1.swap(true, Ordering::Relaxed);
        let wake = sleeper.clone();
        shared.0.notify(|| (), || wake.unpark());
        assert_ne!(call.join().unwrap(), Remaining::Left);
        // Either it is done by now, or the I/O thread was woken and does it.
        let woken = shared.1.load(Ordering::Relaxed);
        if !woken {
            sleeper.unpark();
        }
        io.join().unwrap();
        assert!(!done.1.load(Ordering::Relaxed));
    });
}

/// A caller that waits sleeps only if no work is left, and is woken by work that comes later.
#[test]
fn a_caller_that_waits_gets_its_work() {
    bounded(|| {
        let shared = Arc::new((Serving::new(), AtomicBool::new(false)));
        *shared.0.take() = Some(());
        let other = Arc::clone(&shared);
        let caller = thread::spawn(move || {
            let (serving, work) = &*other;
            serving.attend();
            let place = serving.begin_wait(|| ()).expect("nobody else waits");
            loop {
                let held = serving.take();
                let found = work.swap(false, Ordering::Relaxed);
                drop(held);
                if found {
                    break;
                }
                serving.park_caller(|| !work.load(Ordering::Relaxed), thread::park);
            }
            drop(place);
            serving.leave(|| work.load(Ordering::Relaxed), |_| Remaining::Done);
        });
        let sleeper = caller.thread().clone();
        // A swap, as loom concludes nothing about the order of a store and another thread's swap.
        shared.1.swap(true, Ordering::Relaxed);
        let wake = sleeper.clone();
        // If the caller has not begun, it finds the work when it does.
        shared.0.notify(|| wake.unpark(), || ());
        caller.join().unwrap();
        assert!(!shared.1.load(Ordering::Relaxed));
    });
}

/// The I/O thread does not serve beside a caller that waits: they would take each other's wakes.
#[test]
fn the_thread_stands_back_for_a_caller_that_waits() {
    bounded(|| {
        let serving = Arc::new(Serving::<()>::new());
        let io = Arc::clone(&serving);
        let io = thread::spawn(move || {
            if let Some(waits) = io.begin_serving(false) {
                while io.waits() == waits {
                    io.park_thread(|| io.waits() == waits, thread::park);
                }
                io.end_serving();
            }
        });
        let sleeper = io.thread().clone();
        let place = serving.begin_wait(|| sleeper.unpark());
        io.join().unwrap();
        assert!(place.is_some() && !serving.thread_serves());
    });
}

/// A wake for a caller that does not wait leaves the sleep of the I/O thread to those with work.
#[test]
fn a_wake_for_a_caller_takes_none_of_the_thread() {
    bounded(|| {
        let shared = Arc::new((Serving::<()>::new(), AtomicBool::new(false)));
        let io = Arc::clone(&shared);
        let io = thread::spawn(move || {
            let (serving, work) = &*io;
            while !work.load(Ordering::Relaxed) {
                serving.park_thread(|| !work.load(Ordering::Relaxed), thread::park);
            }
        });
        let sleeper = io.thread().clone();
        let (serving, work) = &*shared;
        serving.wake_caller(|| ());
        // A swap, as loom concludes nothing about the order of a store and another thread's swap.
        work.swap(true, Ordering::Relaxed);
        serving.notify(|| (), || sleeper.unpark());
        io.join().unwrap();
    });
}

#[test]
fn a_cell_has_one_user_at_a_time() {
    loom::model(|| {
        let lock = Arc::new(OwnershipLock::new(0));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let lock = Arc::clone(&lock);
                // loom itself reports two that touch the value at once.
                thread::spawn(move || *lock.take() += 1)
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!((*lock.take(), lock.word()), (2, 5));
    });
}

#[test]
fn a_watcher_takes_the_cell_only_if_nobody_was_there() {
    loom::model(|| {
        let lock = Arc::new(OwnershipLock::new(0));
        let uses = Arc::new(AtomicUsize::new(0));
        let (other, theirs) = (Arc::clone(&lock), Arc::clone(&uses));
        let user = thread::spawn(move || {
            *other.take() += 1;
            theirs.fetch_add(1, Ordering::Relaxed);
        });
        let seen = lock.word();
        if let Some(value) = lock.take_at(seen) {
            assert_eq!(*value as u64 * 2, seen, "as it was when the word was read");
        }
        user.join().unwrap();
        assert_eq!(*lock.take(), 1);
    });
}

#[test]
fn a_sleeping_watcher_is_woken_by_signs_of_life() {
    loom::model(|| {
        let lock = Arc::new(OwnershipLock::new(()));
        let taken = lock.take();
        let word = lock.word();
        let other = Arc::clone(&lock);
        let watcher = thread::spawn(move || other.sleep_while(word, thread::park));
        let sleeper = watcher.thread().clone();
        taken.show_life(|| sleeper.unpark());
        drop(taken);
        watcher.join().unwrap();
    });
}

/// A receiver of a node with several threads: each leaves messages in a ring of its own, and all
/// wake the same sleepers.
#[test]
fn a_waiter_on_several_rings_misses_no_value() {
    bounded(|| {
        let shared = Arc::new((Sleepers::new(), [Ring::new(2), Ring::new(2)]));
        let threads = [0, 1].map(|place| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1[place].push(place).unwrap();
                shared.0.wake();
            })
        });
        let signal = std::sync::Arc::new(Signal(Notify::new()));
        let me: Waker = std::sync::Arc::clone(&signal).into();
        let mut cx = Context::from_waker(&me);
        let mut turn = 0;
        let mut got = Vec::new();
        let mut registration = Registration::new(&shared.0);
        while got.len() < 2 {
            let mut look = || {
                for passed in 0..2 {
                    if let Some(taken) = shared.1[(turn + passed) % 2].pop() {
                        return Poll::Ready(taken);
                    }
                }
                Poll::Pending
            };
            match registration.poll(&mut cx, &mut look) {
                Poll::Ready(taken) => {
                    got.push(taken);
                    turn = taken + 1;
                }
                Poll::Pending => signal.0.wait(),
            }
        }
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        got.sort_unstable();
        assert_eq!(got, [0, 1]);
    });
}

/// A thread gets work from handles and from another thread's socket, each by a ring of its own.
#[test]
fn a_dozing_thread_gets_its_work_from_both_rings() {
    bounded(|| {
        let shared = Arc::new((Parker::new(), Ring::new(2), Ring::new(2), Notify::new()));
        let handle = Arc::clone(&shared);
        let handle = thread::spawn(move || {
            handle.1.push(1).unwrap();
            handle.0.unpark(|| handle.3.notify());
        });
        let socket = Arc::clone(&shared);
        let socket = thread::spawn(move || {
            socket.2.push(2).unwrap();
            socket.0.unpark(|| socket.3.notify());
        });
        let (mut commands, mut forwarded) = (0, 0);
        while commands + forwarded < 2 {
            commands += usize::from(shared.1.pop().is_some());
            forwarded += usize::from(shared.2.pop().is_some());
            let idle = || commands + forwarded < 2 && shared.1.is_empty() && shared.2.is_empty();
            shared.0.park(idle, || shared.3.wait());
        }
        assert_eq!((commands, forwarded), (1, 1));
        handle.join().unwrap();
        socket.join().unwrap();
    });
}

/// A node descriptor, its state, and what it tells of.
struct Descriptor {
    readiness: Readiness,
    readable: AtomicBool,
    /// Each write to it.
    edges: Notify,
    sleepers: Sleepers,
    ring: Ring<u32>,
}

impl Descriptor {
    fn new() -> Self {
        Self {
            readiness: Readiness::new(),
            readable: AtomicBool::new(true),
            edges: Notify::new(),
            sleepers: Sleepers::new(),
            ring: Ring::new(2),
        }
    }

    fn write(&self) {
        self.readable.store(true, Ordering::SeqCst);
        self.edges.notify();
    }
}

struct DescriptorWaker(Arc<Descriptor>);

impl Wake for DescriptorWaker {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.readiness.signal(|| self.0.write());
    }
}

/// Takes a value, if there is one. Returns whether there was.
fn try_take(descriptor: &Arc<Descriptor>) -> bool {
    let found = descriptor.ring.pop().is_some();
    if !found {
        descriptor.readiness.clear(
            || descriptor.readable.store(false, Ordering::SeqCst),
            || {
                let waker = DescriptorWaker(Arc::clone(descriptor));
                descriptor.sleepers.enter(std::sync::Arc::new(waker).into());
            },
            || !descriptor.ring.is_empty(),
            || descriptor.write(),
        );
    }
    found
}

#[test]
fn a_descriptor_is_readable_whenever_something_waits() {
    bounded(|| {
        let descriptor = Arc::new(Descriptor::new());
        let other = Arc::clone(&descriptor);
        let pusher = thread::spawn(move || {
            other.ring.push(1).unwrap();
            other.sleepers.wake();
        });
        let mut taken = usize::from(try_take(&descriptor));
        taken += usize::from(try_take(&descriptor));
        pusher.join().unwrap();
        if taken == 0 {
            assert!(
                descriptor.readable.load(Ordering::SeqCst),
                "something waits"
            );
            taken += usize::from(try_take(&descriptor));
        }
        assert_eq!(taken, 1);
        // Two takes that find nothing clear the descriptor, whatever happened before.
        try_take(&descriptor);
        try_take(&descriptor);
        assert!(!descriptor.readable.load(Ordering::SeqCst));
        // Its waker is among its own sleepers.
        descriptor.sleepers.wake();
    });
}

/// A program that takes until it finds nothing, and then waits for the next write.
#[test]
fn a_descriptor_is_written_for_all_that_comes_after_a_take_that_found_nothing() {
    bounded(|| {
        let descriptor = Arc::new(Descriptor::new());
        let other = Arc::clone(&descriptor);
        let pusher = thread::spawn(move || {
            for number in 0..2 {
                other.ring.push(number).unwrap();
                other.sleepers.wake();
            }
        });
        let mut taken = 0;
        while taken < 2 {
            while try_take(&descriptor) {
                taken += 1;
            }
            if taken < 2 {
                descriptor.edges.wait();
            }
        }
        pusher.join().unwrap();
        // Its waker may be among its own sleepers.
        descriptor.sleepers.wake();
    });
}

/// The helper hears of output that a call leaves, whether it looks again soon or not.
#[test]
fn what_waits_for_the_next_call_is_never_forgotten() {
    loom::model(|| {
        let holds = Arc::new(Holds::new());
        let event_fd = Arc::new(Notify::new());
        let program = thread::spawn({
            let (holds, event_fd) = (Arc::clone(&holds), Arc::clone(&event_fd));
            move || holds.note(1, || event_fd.notify())
        });
        // The helper looks soon once more, then sleeps.
        let mut hold = holds.last(true);
        while hold == 0 {
            hold = holds.last(false);
            if hold == 0 {
                event_fd.wait();
            }
        }
        assert_eq!(hold, 1);
        program.join().unwrap();
    });
}
