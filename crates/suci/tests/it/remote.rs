//! One-sided operations between real nodes.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::calls::block_on;
use crate::common::{LONG, builder, introduce, pair, shared_pair};
use std::future::Future;
use std::net::UdpSocket;
use std::pin::pin;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};
use suci::remote::{
    AtomicOp, Cause, Layout, OperationError, Region, RegionId, Remote, RemoteErrorKind,
    RemoteFailure, RemoteNode, RemoteRegion, Rights, Signal, SignalUpdate, Width,
};
use suci::{Error, Node, NodeId, SharedNode};

const ALL: fn() -> Rights = || Rights::READ | Rights::WRITE | Rights::ATOMIC;

/// Two nodes that threads serve, and a region of `bytes` of the second.
fn with_shared_nodes(bytes: usize, use_it: impl FnOnce(&SharedNode, &RemoteRegion, &Region)) {
    let (a, b) = shared_pair();
    let region = b.allocate_region(bytes, ALL()).unwrap();
    use_it(&a, &region.handle(), &region);
}

/// A node that only waits, in a thread, and its region of `bytes`; it waits while `use_it` runs.
fn with_target(bytes: usize, use_it: impl FnOnce(&mut Node, &RemoteRegion, &Region)) {
    let (mut a, mut b) = pair();
    let region = b.allocate_region(bytes, ALL()).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                b.poll(Duration::from_millis(1)).unwrap();
            }
        });
        let handle = region.handle();
        let used = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            use_it(&mut a, &handle, &region);
        }));
        over.store(true, Ordering::Relaxed);
        if let Err(panic) = used {
            std::panic::resume_unwind(panic);
        }
    });
}

fn pattern(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8 ^ seed).collect()
}

#[test]
fn bytes_are_put_and_got_whatever_their_length() {
    fn put_and_get(remote: &Remote<'_, impl RemoteNode>, handle: &RemoteRegion, region: &Region) {
        for (seed, length) in (1..).zip([0, 1, 8, 1_000, 1_500, 65_536, 300_000, 4 << 20]) {
            let bytes = pattern(seed, length);
            remote.put(handle, 24, bytes.clone()).unwrap();
            remote.quiet().unwrap();
            let mut there = vec![0; length];
            region.read(24, &mut there).unwrap();
            assert!(there == bytes, "put of {length} bytes");
            let mut got = vec![0; length];
            remote.get(handle, 24, &mut got).unwrap();
            assert!(got == bytes, "get of {length} bytes");
        }
    }
    with_target(5 << 20, |a, handle, region| {
        put_and_get(&a.remote().limit(LONG), handle, region);
    });
    with_shared_nodes(5 << 20, |a, handle, region| {
        put_and_get(&a.remote().limit(LONG), handle, region);
    });
}

#[test]
fn layouts_signals_and_atomics_have_their_effect() {
    fn change(remote: &Remote<'_, impl RemoteNode>, handle: &RemoteRegion, region: &Region) {
        let every_other = Layout::strided(64, 2, 4, 3).unwrap();
        let signal = Signal {
            offset: 8,
            update: SignalUpdate::Add(5),
        };
        let data = &[1_u8, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12][..6];
        let put = remote.put_layout(handle, every_other.clone(), data, Some(signal));
        put.unwrap();
        assert_eq!(remote.fetch_add(handle, 8, 2).unwrap(), 5);
        assert_eq!(remote.compare_swap(handle, 8, 7, 100).unwrap(), 7);
        assert_eq!(remote.compare_swap(handle, 8, 7, 200).unwrap(), 100);
        let swap = AtomicOp::Swap(9);
        let before = remote.fetch_atomic(handle, 8, Width::Bits32, swap);
        assert_eq!(before.unwrap(), 100);
        remote.fence(handle.node).unwrap();
        let mut got = [0; 6];
        remote.get_layout(handle, every_other, &mut got).unwrap();
        assert_eq!(got, data);
        assert_eq!(region.atomic(8, Width::Bits64, AtomicOp::Fetch).unwrap(), 9);
    }
    with_target(4096, |a, handle, region| {
        change(&a.remote().limit(LONG), handle, region);
    });
    with_shared_nodes(4096, |a, handle, region| {
        change(&a.remote().limit(LONG), handle, region);
    });
}

/// Waits until the word at 8 is set, then checks the bytes at 16 that were put before it.
fn await_signal(
    mut wait: impl FnMut(&mut dyn FnMut() -> Option<u64>) -> Option<u64>,
    region: &Region,
) {
    let mut set = || {
        let word = region.atomic(8, Width::Bits64, AtomicOp::Fetch).unwrap();
        (word != 0).then_some(word)
    };
    assert_eq!(wait(&mut set), Some(7));
    let mut bytes = vec![0; 100_000];
    region.read(16, &mut bytes).unwrap();
    assert!(bytes == pattern(5, 100_000));
}

/// Puts bytes at 16, then sets the word at 8, after a while.
fn signal_later(remote: &Remote<'_, impl RemoteNode>, handle: &RemoteRegion) {
    thread::sleep(Duration::from_millis(30));
    remote.put(handle, 0, vec![1]).unwrap();
    remote.quiet().unwrap();
    thread::sleep(Duration::from_millis(30));
    let signal = Signal {
        offset: 8,
        update: SignalUpdate::Set(7),
    };
    remote
        .put_signal(handle, 16, pattern(5, 100_000), signal)
        .unwrap();
    remote.quiet().unwrap();
}

#[test]
fn a_wait_for_a_change_ends_with_it() {
    let (mut a, mut b) = pair();
    let region = b.allocate_region(1 << 20, ALL()).unwrap();
    let handle = region.handle();
    thread::scope(|scope| {
        scope.spawn(|| signal_later(&a.remote().limit(LONG), &handle));
        await_signal(|set| b.wait_until(LONG, set).unwrap(), &region);
        // The other node's `quiet` needs its answer.
        b.flush(LONG).unwrap();
        b.poll(Duration::from_millis(100)).unwrap();
    });
    let (a, b) = shared_pair();
    let region = b.allocate_region(1 << 20, ALL()).unwrap();
    let handle = region.handle();
    thread::scope(|scope| {
        scope.spawn(|| signal_later(&a.remote().limit(LONG), &handle));
        await_signal(|set| b.wait_until(LONG, set).unwrap(), &region);
    });
    let nothing = b.wait_until(Duration::from_millis(5), || None::<()>);
    assert_eq!(nothing.unwrap(), None);
    b.close(LONG).unwrap();
    let closed = b.wait_until(LONG, || Some(()));
    assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
}

/// Polls a future once, then drops it. It may be ready by then.
fn give_up<F: Future>(future: F) {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    let _ = future.as_mut().poll(&mut cx);
}

#[test]
fn tasks_operate_and_wait_as_threads_do() {
    with_shared_nodes(2 << 20, |a, handle, region| {
        let remote = a.remote();
        let contiguous = |length| Layout::contiguous(16, length).unwrap();
        block_on(async {
            remote.put_async(handle, 16, pattern(4, 900_000)).await?;
            let add = AtomicOp::Add(3);
            remote.atomic_async(handle, 8, Width::Bits64, add).await?;
            remote.quiet_async().await?;
            let before = remote
                .fetch_atomic_async(handle, 8, Width::Bits64, add)
                .await?;
            assert_eq!(before, 3);
            let got = remote.get_async(handle, contiguous(900_000)).await?;
            assert!(got == pattern(4, 900_000));
            let begun = remote.begin_fetch_atomic(handle, 8, Width::Bits64, add)?;
            assert_eq!(remote.wait_async(begun).await?, Some(6));
            let taken = remote.wait_async(begun).await;
            assert!(matches!(taken, Err(RemoteFailure::Taken)), "{taken:?}");
            Ok::<_, RemoteFailure>(())
        })
        .unwrap();
        let mut wrong = *handle;
        wrong.key ^= 1;
        let refused = block_on(remote.get_async(&wrong, contiguous(8)));
        let wrong_key = |cause| matches!(cause, Cause::Remote(error) if error.kind == RemoteErrorKind::WrongKey);
        match refused {
            Err(RemoteFailure::Operation(OperationError { cause, .. })) if wrong_key(cause) => {}
            other => panic!("{other:?}"),
        }
        block_on(remote.put_async(&wrong, 0, vec![1])).unwrap();
        assert!(block_on(remote.quiet_async()).is_err());
        // Operations whose futures are dropped leave nothing behind: there is room for others.
        for _ in 0..100 {
            give_up(remote.get_async(handle, contiguous(1_000_000)));
        }
        block_on(remote.quiet_async()).unwrap();
        assert_eq!(region.atomic(8, Width::Bits64, AtomicOp::Fetch).unwrap(), 9);
    });
}

#[test]
fn a_task_waits_for_a_change_and_for_the_end_of_its_node() {
    let (a, b) = shared_pair();
    let region = b.allocate_region(1 << 20, ALL()).unwrap();
    let handle = region.handle();
    thread::scope(|scope| {
        scope.spawn(|| signal_later(&a.remote().limit(LONG), &handle));
        let wait = |set: &mut dyn FnMut() -> Option<u64>| block_on(b.wait_until_async(set));
        await_signal(|set| Some(wait(set).unwrap()), &region);
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(20));
            b.close(LONG).unwrap();
        });
        let ended = block_on(b.wait_until_async(|| None::<()>));
        assert!(matches!(ended, Err(Error::Closed)), "{ended:?}");
    });
}

#[test]
fn operations_that_were_begun_overlap_and_are_waited_for() {
    const LENGTH: usize = 1 << 20;
    fn overlap(
        remote: &Remote<'_, impl RemoteNode>,
        handle: &RemoteRegion,
        region: &Region,
        local: &Region,
    ) {
        region.write(0, &pattern(3, LENGTH)).unwrap();
        let part = |n: u64| Layout::contiguous(n * 65_536, 65_536).unwrap();
        let begun: Vec<_> = (0..16)
            .map(|n| remote.begin_get(handle, part(n), local, part(n)).unwrap())
            .collect();
        let add = AtomicOp::Add(1);
        let last = remote
            .begin_fetch_atomic(handle, 0, Width::Bits64, add)
            .unwrap();
        for operation in begun {
            assert_eq!(remote.wait(operation).unwrap(), None);
        }
        while remote.test(last).unwrap().is_none() {}
        let mut got = vec![0; LENGTH];
        local.read(0, &mut got).unwrap();
        assert!(got == pattern(3, LENGTH));
    }
    with_target(LENGTH, |a, handle, region| {
        let local = a.allocate_region(LENGTH, Rights::READ).unwrap();
        overlap(&a.remote().limit(LONG), handle, region, &local);
    });
    with_shared_nodes(LENGTH, |a, handle, region| {
        let local = a.allocate_region(LENGTH, Rights::READ).unwrap();
        overlap(&a.remote().limit(LONG), handle, region, &local);
    });
}

/// More puts than the queues take, so that threads wait for room; each thread sees its own in
/// order.
#[test]
fn threads_of_a_shared_node_operate_at_the_same_time() {
    const EACH: u64 = 50;
    let a = builder(0).send_queue(1 << 20).open_threads(2).unwrap();
    let targets: Vec<_> = (1..=3)
        .map(|id| builder(id).open_threads(1).unwrap())
        .collect();
    for target in &targets {
        a.add_peer(target.id(), target.local_addr()).unwrap();
        target.add_peer(a.id(), a.local_addr()).unwrap();
    }
    let nodes = || targets.iter().chain([&a]);
    let regions: Vec<_> = nodes()
        .map(|node| node.allocate_region(1 << 20, ALL()).unwrap())
        .collect();
    let remote = a.remote().limit(LONG);
    let bytes = |thread: u8| pattern(thread, 200_000);
    let work = |thread: u8| {
        let at = 64 + u64::from(thread) * 200_000;
        for turn in 0..EACH {
            for region in &regions {
                remote.put(&region.handle(), at, bytes(thread)).unwrap();
                let add = AtomicOp::Add(1);
                remote
                    .atomic(&region.handle(), 0, Width::Bits64, add)
                    .unwrap();
            }
            let one = &regions[usize::from(thread) % regions.len()];
            let before = remote.fetch_add(&one.handle(), 8, 1).unwrap();
            assert!(before >= turn);
        }
        remote.quiet().unwrap();
        for region in &regions {
            let mut there = vec![0; 200_000];
            region.read(at, &mut there).unwrap();
            assert!(there == bytes(thread));
        }
    };
    thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || work(number));
        }
    });
    for region in &regions {
        let sum = region.atomic(0, Width::Bits64, AtomicOp::Fetch).unwrap();
        assert_eq!(sum, 4 * EACH);
    }
}

/// Node 9, which the node knows and where nobody answers.
fn nobody() -> (NodeId, UdpSocket) {
    (NodeId(9), UdpSocket::bind("127.0.0.1:0").unwrap())
}

#[test]
fn contexts_wait_and_fail_apart_from_each_other() {
    fn use_contexts(remote: &Remote<'_, impl RemoteNode>, handle: &RemoteRegion, region: &Region) {
        let [failing, waiting, third] = [(); 3].map(|()| remote.context().unwrap());
        let lost = RemoteRegion {
            node: NodeId(9),
            ..*handle
        };
        waiting.put(&lost, 0, "nobody takes it").unwrap();
        failing.put(handle, 60, "behind the end").unwrap();
        third.put(handle, 0, "third").unwrap();
        remote.put(handle, 8, "node").unwrap();
        third.fence(handle.node).unwrap();
        third.quiet().unwrap();
        remote.quiet().unwrap();
        let mut there = [0; 12];
        region.read(0, &mut there).unwrap();
        assert_eq!(&there, b"third\0\0\0node");
        let add = AtomicOp::Add(1);
        let begun = third.begin_fetch_atomic(handle, 16, Width::Bits64, add);
        assert_eq!(
            remote.wait(begun.unwrap()).unwrap(),
            Some(0),
            "whoever asks"
        );
        let failed = failing.quiet().unwrap_err();
        assert_eq!(kind(failed), RemoteErrorKind::OutOfBounds);
        failing.quiet().unwrap();
        let begun = third.begin_fetch_atomic(handle, 16, Width::Bits64, add);
        third.put(handle, 24, "last").unwrap();
        drop(third);
        assert!(matches!(
            remote.wait(begun.unwrap()),
            Err(RemoteFailure::Taken)
        ));
        while region.read(24, &mut there[..4]).is_ok() && &there[..4] != b"last" {
            remote.fetch_add(handle, 32, 1).unwrap();
        }
        // Those that are closed can be opened again, once all of them is applied.
        for _ in 0..3 {
            let mut all: Vec<_> = (0..253).map_while(|_| remote.context().ok()).collect();
            remote.fetch_add(handle, 32, 1).unwrap();
            all.extend(remote.context().ok());
            assert!(all.len() >= 252, "{}", all.len());
            let none = remote.context().unwrap_err();
            assert!(none.to_string().contains("255"), "{none}");
            drop(all);
        }
    }
    let limit = Duration::from_millis(200);
    with_target(64, |a, handle, region| {
        let (id, socket) = nobody();
        a.add_peer(id, socket.local_addr().unwrap()).unwrap();
        use_contexts(&a.remote().limit(LONG), handle, region);
        let context = a.remote().limit(limit).context().unwrap();
        let lost = RemoteRegion {
            node: id,
            ..*handle
        };
        context.put(&lost, 0, "nobody takes it").unwrap();
        let late = context.quiet().unwrap_err();
        assert!(matches!(late, RemoteFailure::Node(Error::TimedOut { .. })));
    });
    with_shared_nodes(64, |a, handle, region| {
        let (id, socket) = nobody();
        a.add_peer(id, socket.local_addr().unwrap()).unwrap();
        use_contexts(&a.remote().limit(LONG), handle, region);
    });
}

/// Nobody answers, and nothing else wakes those that wait.
#[test]
fn waits_for_an_operation_end_when_its_context_is_closed() {
    let (a, _b) = shared_pair();
    let (node, socket) = nobody();
    a.add_peer(node, socket.local_addr().unwrap()).unwrap();
    let region = a.allocate_region(8, ALL()).unwrap();
    let lost = RemoteRegion {
        node,
        ..region.handle()
    };
    let remote = a.remote().limit(LONG);
    let context = remote.context().unwrap();
    let begun = context.begin_fetch_atomic(&lost, 0, Width::Bits64, AtomicOp::Fetch);
    let begun = begun.unwrap();
    let began = Instant::now();
    thread::scope(|scope| {
        let waits = scope.spawn(|| remote.wait(begun));
        let awaits = scope.spawn(|| block_on(remote.wait_async(begun)));
        thread::sleep(Duration::from_millis(100));
        drop(context);
        for waited in [waits.join().unwrap(), awaits.join().unwrap()] {
            assert!(matches!(waited, Err(RemoteFailure::Taken)), "{waited:?}");
        }
    });
    assert!(began.elapsed() < LONG, "nobody woke it");
}

/// A node that asks for much and takes nothing fills a part of the target's queue only.
#[test]
fn f04_answers_to_a_node_that_takes_none_are_bounded() {
    const LENGTH: u64 = 1 << 20;
    const COUNT: u64 = 60;
    let mut a = builder(0).unattended().open().unwrap();
    let mut b = builder(1).open().unwrap();
    introduce(&mut a, &mut b);
    let region = b.allocate_region(LENGTH as usize, ALL()).unwrap();
    region.write(0, &pattern(6, LENGTH as usize)).unwrap();
    let local = a.allocate_region(LENGTH as usize, ALL()).unwrap();
    let all = Layout::contiguous(0, LENGTH).unwrap();
    // All requests leave together, once there is a connection.
    let begin = |_| {
        let remote = a.remote();
        let get = remote.begin_get(&region.handle(), all.clone(), &local, all.clone());
        get.unwrap()
    };
    let begun: Vec<_> = (0..COUNT).map(begin).collect();
    let (mut now, mut before) = (0, u64::MAX);
    while b.peer(NodeId(0)).queue_len().unwrap().1 == 0 {
        a.poll(Duration::ZERO).unwrap();
        b.poll(Duration::from_millis(1)).unwrap();
    }
    for _ in 0..10 {
        a.poll(Duration::from_millis(1)).unwrap();
    }
    while now < 7 << 20 || now != before {
        before = now;
        for _ in 0..20 {
            b.poll(Duration::from_millis(5)).unwrap();
        }
        now = b.peer(NodeId(0)).queue_len().unwrap().1;
    }
    assert!(now < 10 << 20, "{now} bytes");
    let remote = a.remote().limit(LONG);
    for get in begun {
        remote.wait(get).unwrap();
    }
    let mut there = vec![0; LENGTH as usize];
    local.read(0, &mut there).unwrap();
    assert!(there == pattern(6, LENGTH as usize));
}

/// Memory of the program at an odd address, which is as long as the node's region lives.
#[test]
fn memory_that_the_program_lends_is_its_own_again_afterwards() {
    const LENGTH: usize = 100_001;
    fn use_lent(
        remote: &Remote<'_, impl RemoteNode>,
        lend: impl Fn(NonNull<u8>) -> Region,
        from: &Region,
    ) {
        let mut words = vec![0_u64; LENGTH / 8 + 3];
        let first = NonNull::new(words.as_mut_ptr()).unwrap().cast::<u8>();
        // SAFETY: the vector is longer.
        let first = unsafe { first.add(1) };
        let region = lend(first);
        assert_eq!(
            (region.as_ptr(), region.len()),
            (first.as_ptr(), LENGTH as u64)
        );
        let handle = region.handle();
        remote.put(&handle, 0, pattern(1, LENGTH)).unwrap();
        for at in [7, 8] {
            let unaligned = remote.fetch_add(&handle, at, 2).unwrap_err();
            assert_eq!(kind(unaligned), RemoteErrorKind::Unaligned);
        }
        // SAFETY: as above.
        let aligned = lend(unsafe { first.add(7) });
        let before = remote.fetch_add(&aligned.handle(), 8, 2).unwrap();
        assert_eq!(before.to_ne_bytes(), pattern(1, 23)[15..]);
        drop(aligned);
        from.write(0, &pattern(2, LENGTH)).unwrap();
        let all = Layout::contiguous(0, LENGTH as u64).unwrap();
        let get = remote.begin_get(&from.handle(), all.clone(), &region, all);
        remote.wait(get.unwrap()).unwrap();
        let mut there = vec![0; LENGTH];
        region.read(0, &mut there).unwrap();
        assert!(there == pattern(2, LENGTH));
        let part = Layout::contiguous(0, 70_000).unwrap();
        let late = remote.begin_get(&from.handle(), part.clone(), &region, part);
        drop(region);
        words.fill(5);
        let failed = remote.fetch_add(&handle, 0, 2).unwrap_err();
        assert_eq!(kind(failed), RemoteErrorKind::Withdrawn);
        _ = remote.wait(late.unwrap());
        assert!(words.iter().all(|word| *word == 5), "it is withdrawn");
    }
    with_target(LENGTH, |a, _, from| {
        let lent = builder(7).open_threads(1).unwrap();
        a.add_peer(lent.id(), lent.local_addr()).unwrap();
        lent.add_peer(a.id(), a.local_addr()).unwrap();
        // SAFETY: the memory lives on, and is used only while no operation goes on.
        let lend = |first| unsafe { lent.lend_region(first, LENGTH, ALL()).unwrap() };
        use_lent(&a.remote().limit(LONG), lend, from);
    });
    let (a, b) = shared_pair();
    let from = b.allocate_region(LENGTH, ALL()).unwrap();
    // SAFETY: as above.
    let lend = |first| unsafe { a.lend_region(first, LENGTH, ALL()).unwrap() };
    use_lent(&a.remote().limit(LONG), lend, &from);
}

#[test]
fn regions_lie_on_huge_pages_or_say_that_they_do_not() {
    with_shared_nodes(8, |a, _, _| {
        let region = a.allocate_region_on_huge_pages(5 << 20, ALL()).unwrap();
        assert_eq!(region.as_ptr().addr() % (2 << 20), 0);
        let huge = region.bytes_on_huge_pages();
        assert!(huge <= 5 << 20, "{huge} of 5 MiB");
        let remote = a.remote().limit(LONG);
        let bytes = pattern(4, 5 << 20);
        remote.put(&region.handle(), 0, bytes.clone()).unwrap();
        remote.quiet().unwrap();
        let mut there = vec![0; 5 << 20];
        region.read(0, &mut there).unwrap();
        assert!(there == bytes);
        let usual = a.allocate_region(64, ALL()).unwrap();
        assert_eq!(usual.bytes_on_huge_pages(), 0);
        let none = a.allocate_region_on_huge_pages(usize::MAX, ALL());
        assert!(none.unwrap_err().to_string().contains("allocate less"));
    });
}

fn kind(failure: RemoteFailure) -> RemoteErrorKind {
    match failure {
        RemoteFailure::Operation(OperationError {
            cause: Cause::Remote(error),
            ..
        }) => error.kind,
        other => panic!("{other}"),
    }
}

#[test]
fn f04_a_target_checks_key_rights_and_bounds() {
    let (mut a, mut b) = pair();
    let region = b.allocate_region(100, Rights::READ).unwrap();
    let handle = region.handle();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                b.poll(Duration::from_millis(1)).unwrap();
            }
        });
        let remote = a.remote().limit(LONG);
        let mut bytes = [0; 10];
        let wrong = RemoteRegion {
            key: handle.key ^ 1,
            ..handle
        };
        let failed = [
            remote.get(&wrong, 0, &mut bytes),
            remote.get(&handle, 91, &mut bytes),
            remote.get(&handle, u64::MAX - 5, &mut bytes),
            remote
                .put(&handle, 0, vec![1; 70_000])
                .and_then(|()| remote.quiet()),
            remote.fetch_add(&handle, 0, 1).map(drop),
        ]
        .map(|result| result.map_err(|failure| failure.to_string()).unwrap_err());
        for (text, says) in failed
            .iter()
            .zip(["key", "bounds|end", "", "right|bytes", "right"])
        {
            assert!(says.split('|').any(|word| text.contains(word)), "{text}");
        }
        drop(region);
        let withdrawn = remote.get(&handle, 0, &mut bytes).unwrap_err();
        assert_eq!(kind(withdrawn), RemoteErrorKind::Withdrawn);
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_node_uses_its_own_regions_as_those_of_others() {
    let mut a = builder(0).open().unwrap();
    let region = a.allocate_region(200_000, ALL()).unwrap();
    let remote = a.remote().limit(LONG);
    remote
        .put(&region.handle(), 0, pattern(1, 200_000))
        .unwrap();
    let mut got = vec![0; 200_000];
    remote.get(&region.handle(), 0, &mut got).unwrap();
    assert!(got == pattern(1, 200_000));
}

/// The helper serves operations while the program computes, and a shared node's thread always.
#[test]
fn targets_are_served_without_their_program() {
    let (mut a, b) = pair();
    let shared = builder(7).open_threads(2).unwrap();
    a.add_peer(shared.id(), shared.local_addr()).unwrap();
    shared.add_peer(a.id(), a.local_addr()).unwrap();
    let regions = [
        b.allocate_region(64, ALL()).unwrap(),
        shared.allocate_region(64, ALL()).unwrap(),
    ];
    let remote = a.remote().limit(LONG);
    for region in &regions {
        for turn in 0..20 {
            assert_eq!(remote.fetch_add(&region.handle(), 0, 1).unwrap(), turn);
        }
    }
}

#[test]
fn increments_of_several_nodes_are_all_there() {
    const EACH: u64 = 300;
    let (mut a, mut b) = pair();
    let mut c = builder(2).open().unwrap();
    introduce(&mut b, &mut c);
    let region = b.allocate_region(8, ALL()).unwrap();
    let (handle, over) = (region.handle(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                b.poll(Duration::from_millis(1)).unwrap();
            }
        });
        let add = |node: &mut Node| {
            let mut before: Vec<_> = (0..EACH)
                .map(|_| node.remote().limit(LONG).fetch_add(&handle, 0, 1).unwrap())
                .collect();
            assert!(before.is_sorted());
            before.dedup();
            assert_eq!(before.len() as u64, EACH);
        };
        let other = scope.spawn(move || add(&mut c));
        add(&mut a);
        other.join().unwrap();
        over.store(true, Ordering::Relaxed);
    });
    let sum = region.atomic(0, Width::Bits64, AtomicOp::Fetch).unwrap();
    assert_eq!(sum, 2 * EACH);
}

#[test]
fn f17_the_end_of_a_session_ends_its_operations() {
    let (mut a, b) = pair();
    let region = b.allocate_region(64, ALL()).unwrap();
    let handle = region.handle();
    let remote = a.remote().limit(LONG);
    assert_eq!(remote.fetch_add(&handle, 0, 1).unwrap(), 0);
    let operation = remote.begin_fetch_atomic(&handle, 0, Width::Bits64, AtomicOp::Fetch);
    let operation = operation.unwrap();
    drop(b);
    match remote.wait(operation) {
        // It was answered before the node closed.
        Ok(Some(1)) => {}
        Err(RemoteFailure::Operation(error)) => assert_eq!(error.cause, Cause::Ended),
        other => panic!("{other:?}"),
    }
    let limit = Duration::from_millis(300);
    let late = a
        .remote()
        .limit(limit)
        .fetch_add(&handle, 0, 1)
        .unwrap_err();
    let timed_out = matches!(late, RemoteFailure::Node(Error::TimedOut { .. }));
    assert!(timed_out, "{late}");
    let unknown = RemoteRegion {
        node: NodeId(99),
        ..handle
    };
    let failed = a.remote().put(&unknown, 0, "x").unwrap_err();
    assert!(matches!(failed, RemoteFailure::Node(Error::UnknownPeer(_))));
}

#[test]
fn operations_of_a_shared_node_end_with_the_session_or_the_node() {
    let (a, b) = shared_pair();
    let region = b.allocate_region(64, ALL()).unwrap();
    let handle = region.handle();
    let remote = a.remote().limit(LONG);
    assert_eq!(remote.fetch_add(&handle, 0, 1).unwrap(), 0);
    a.peer(handle.node).suspend().unwrap();
    let suspended = remote.fetch_add(&handle, 0, 1).unwrap_err();
    assert!(matches!(suspended, RemoteFailure::Suspended(_)));
    a.peer(handle.node).resume().unwrap();
    let unknown = RemoteRegion {
        node: NodeId(99),
        ..handle
    };
    let failed = remote.put(&unknown, 0, "x").unwrap_err();
    assert!(matches!(failed, RemoteFailure::Node(Error::UnknownPeer(_))));
    remote.put(&handle, 60, "behind the end").unwrap();
    assert_eq!(
        kind(remote.quiet().unwrap_err()),
        RemoteErrorKind::OutOfBounds
    );
    remote.quiet().unwrap();
    let begun = remote.begin_fetch_atomic(&handle, 0, Width::Bits64, AtomicOp::Fetch);
    let begun = begun.unwrap();
    drop(b);
    match remote.wait(begun) {
        // It was answered before the node closed.
        Ok(Some(1)) => {}
        Err(RemoteFailure::Operation(error)) => assert_eq!(error.cause, Cause::Ended),
        other => panic!("{other:?}"),
    }
    assert!(matches!(remote.wait(begun), Err(RemoteFailure::Taken)));
    let limit = Duration::from_millis(300);
    let late = a.remote().limit(limit).fetch_add(&handle, 0, 1);
    let timed_out = matches!(late, Err(RemoteFailure::Node(Error::TimedOut { .. })));
    assert!(timed_out, "{late:?}");
    thread::scope(|scope| {
        let waits = scope.spawn(|| remote.fetch_add(&handle, 0, 1));
        thread::sleep(Duration::from_millis(50));
        a.clone().close(Duration::ZERO).unwrap_err();
        let closed = waits.join().unwrap();
        let ended = matches!(
            closed,
            Err(RemoteFailure::Node(Error::Closed) | RemoteFailure::Operation(_))
        );
        assert!(ended, "{closed:?}");
    });
}

#[test]
fn clumsy_use_is_told_what_to_do() {
    with_target(64, |a, handle, _| {
        let huge = a.allocate_region(usize::MAX, ALL()).unwrap_err();
        assert!(huge.to_string().contains("allocate less"), "{huge}");
        let remote = a.remote().limit(LONG);
        let begun = remote.begin_fetch_atomic(handle, 0, Width::Bits64, AtomicOp::Add(1));
        let begun = begun.unwrap();
        assert_eq!(remote.wait(begun).unwrap(), Some(0));
        assert!(matches!(remote.wait(begun), Err(RemoteFailure::Taken)));
        assert!(matches!(remote.test(begun), Err(RemoteFailure::Taken)));
        a.peer(handle.node).suspend().unwrap();
        let suspended = a.remote().fetch_add(handle, 0, 1).unwrap_err();
        assert!(
            matches!(suspended, RemoteFailure::Suspended(_)),
            "{suspended}"
        );
        a.peer(handle.node).resume().unwrap();
        assert_eq!(a.remote().limit(LONG).fetch_add(handle, 0, 1).unwrap(), 1);
    });
}

/// A buffer that a call lent which unwinds is not touched afterwards.
#[test]
fn a_get_that_unwinds_lends_its_buffer_no_more() {
    with_target(300_000, |a, handle, region| {
        region.write(0, &pattern(1, 300_000)).unwrap();
        a.remote().limit(LONG).fetch_add(handle, 0, 0).unwrap();
        let steered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let fails = |_: &suci::Observation| panic!("a steering function that fails");
            a.peer(handle.node).steer(fails)
        }));
        let mut buffer = vec![7; 300_000];
        let got = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            a.remote().limit(LONG).get(handle, 0, &mut buffer)
        }));
        assert!(steered.is_err() || got.is_err(), "it was asked");
        let before = buffer.clone();
        let removed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            a.peer(handle.node).unsteer()
        }));
        drop(removed);
        thread::sleep(Duration::from_millis(300));
        assert!(buffer == before, "nobody writes to it any more");
    });
}

/// The requests wait in the layer or in the engine, and not in the queue of the program's messages.
#[test]
fn requests_that_a_target_does_not_have_are_queued_and_not_flushed() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let node = builder(0).open_threads(1).unwrap();
    let to = NodeId(1);
    node.add_peer(to, silent.local_addr().unwrap()).unwrap();
    node.flush(Duration::ZERO).unwrap();
    let region = RemoteRegion {
        node: to,
        region: RegionId(0),
        key: 5,
    };
    for count in 1..4 {
        node.remote().put(&region, 0, vec![7; 100]).unwrap();
        assert_eq!(node.peer(to).queue_len().unwrap().0, count);
        let flushed = node.flush(Duration::from_millis(10));
        let Err(Error::NotFlushed { peers }) = flushed else {
            panic!("{flushed:?}");
        };
        assert_eq!(peers, [(to, count)]);
    }
    let (a, b) = shared_pair();
    let region = b.allocate_region(8, ALL()).unwrap();
    a.remote().put(&region.handle(), 0, vec![7; 8]).unwrap();
    a.flush(LONG).unwrap();
    assert_eq!(a.peer(b.id()).queue_len().unwrap(), (0, 0));
    a.remote().put(&region.handle(), 0, vec![7; 8]).unwrap();
    block_on(a.flush_async()).unwrap();
}
