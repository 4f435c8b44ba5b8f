//! The state that a [`Node`](crate::Node) and its helper share.

use crate::driver::Driver;
use crate::error::Error;
use crate::fork::OriginalProcess;
use crate::hold::Holds;
use crate::ownership_lock::{OwnershipGuard, OwnershipLock};
use crate::sys::{self, EventFd, IdentifiedFd, TimerFd};
use crate::waker::Wakes;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use suci_proto::time::Instant;

/// How soon a program that waits on the node's descriptor tries again a socket that is full or that
/// the kernel does not watch.
const RETRY: Duration = Duration::from_millis(1);

/// A driver that the program and the helper use alternately, and one descriptor for both to wait
/// on.
pub(crate) struct Core {
    pub(crate) lock: OwnershipLock<Work>,
    process: OriginalProcess,
    /// Nests `timer_fd` and `event_fd`, and the socket once the program asks for the descriptor:
    /// watching a socket costs the kernel half a microsecond for each packet.
    epoll: OwnedFd,
    timer_fd: TimerFd,
    event_fd: EventFd,
    /// The program asked for the descriptor, which must be kept up to date from then on.
    exposed: AtomicBool,
    /// The descriptors that the child of a fork closes with its first call: all but those that are
    /// `held`.
    copies: Vec<IdentifiedFd>,
    /// The descriptors that a child closes only when it drops the node: `epoll`, which its program
    /// may hold until then, and the wake-up's.
    held: [OnceLock<IdentifiedFd>; 2],
    /// True once the child of a fork has closed its copies of the descriptors.
    abandoned: AtomicBool,
    /// The same of those that are held.
    given_back: AtomicBool,
    /// Wakes the helper out of its sleep on the socket.
    pub(crate) helper_event_fd: EventFd,
    /// Output that calls left for the next call.
    pub(crate) holds: Holds,
    /// The helper has ended: only the program's calls send output that waits.
    pub(crate) alone: AtomicBool,
    pub(crate) stop: AtomicBool,
}

/// The driver, and the state of the node's descriptor.
pub(crate) struct Work {
    pub(crate) driver: Driver,
    /// `event_fd` is signalled: a message or an event waits.
    signalled: bool,
    /// The time for which `timer_fd` is set.
    armed: Option<Instant>,
    /// True if the kernel had no memory to watch the socket. The node then reads it every
    /// [`RETRY`].
    unwatched: bool,
}

impl Core {
    pub(crate) fn new(driver: Driver, process: OriginalProcess) -> Result<Self, Error> {
        let io_error = Error::io("making descriptors to wait on");
        let timer_fd = TimerFd::new().map_err(&io_error)?;
        let event_fd = EventFd::new().map_err(&io_error)?;
        let helper_event_fd = EventFd::new().map_err(&io_error)?;
        let ours = [&timer_fd as &dyn AsRawFd, &event_fd, &helper_event_fd].map(AsRawFd::as_raw_fd);
        let copies = ours.into_iter().chain(driver.descriptors());
        let copies = copies.map(IdentifiedFd::new).collect();
        let epoll =
            sys::epoll_of(&[timer_fd.as_raw_fd(), event_fd.as_raw_fd()]).map_err(&io_error)?;
        let held = [
            OnceLock::from(IdentifiedFd::new(epoll.as_raw_fd())),
            OnceLock::new(),
        ];
        Ok(Self {
            lock: OwnershipLock::new(Work {
                driver,
                signalled: false,
                armed: None,
                unwatched: false,
            }),
            process,
            epoll,
            timer_fd,
            event_fd,
            exposed: AtomicBool::new(false),
            copies,
            held,
            abandoned: AtomicBool::new(false),
            given_back: AtomicBool::new(false),
            helper_event_fd,
            holds: Holds::new(),
            alone: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        })
    }

    /// Takes the driver for a call of the program.
    pub(crate) fn enter(&self) -> Result<DriverGuard<'_>, Error> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        Ok(DriverGuard {
            core: self,
            work: self.lock.take(),
            by_helper: false,
        })
    }

    /// Takes the driver for the helper, unless a call used it since the helper read `word`.
    pub(crate) fn enter_at(&self, word: u64) -> Option<DriverGuard<'_>> {
        Some(DriverGuard {
            core: self,
            work: self.lock.take_at(word)?,
            by_helper: true,
        })
    }

    /// Whether this process is the child of a fork. The first call in a child closes its copies of
    /// the descriptors. The driver is left alone: a thread that does not exist here may have been
    /// using it.
    pub(crate) fn is_forked(&self) -> bool {
        let forked = self.process.is_forked();
        if forked && !self.abandoned.swap(true, Ordering::Relaxed) {
            for copy in &self.copies {
                // SAFETY: the descriptor belongs to this core, whose memory is never dropped in
                // this process (`Node::drop` leaks it), so nothing uses or closes it after this.
                unsafe { copy.close_if_same() };
            }
        }
        forked
    }

    /// In the child of a fork: closes every descriptor that the node had when it forked. The
    /// program gives its handle back.
    pub(crate) fn abandon(&self) {
        if self.is_forked() && !self.given_back.swap(true, Ordering::Relaxed) {
            for held in self.held.iter().filter_map(OnceLock::get) {
                // SAFETY: as in `is_forked`; the program that asked for the descriptor has given
                // the node back, with which it is valid.
                unsafe { held.close_if_same() };
            }
        }
    }

    /// Returns the wake-up that ends the waits of the program's calls. The first call makes it and
    /// adds it to the node's descriptor.
    pub(crate) fn wakes(&self) -> Result<Arc<Wakes>, Error> {
        let mut driver = self.enter()?;
        if let Some(wakes) = &driver.wakes {
            return Ok(Arc::clone(wakes));
        }
        let wakes = Arc::new(Wakes::new()?);
        let io_error = Error::io("watching the descriptor that wakes the node");
        sys::watch(&self.epoll, wakes.as_raw_fd()).map_err(io_error)?;
        let [_, held] = &self.held;
        let _ = held.set(IdentifiedFd::new(wakes.as_raw_fd()));
        driver.wakes = Some(Arc::clone(&wakes));
        Ok(wakes)
    }

    /// Returns the descriptor for the program's own epoll.
    pub(crate) fn expose(&self) -> RawFd {
        if !self.is_exposed()
            && let Ok(mut driver) = self.enter()
        {
            // A program that sleeps on the descriptor makes no call until that is readable.
            driver.coalescer.allowed = false;
            driver.send_accepted_now();
            let socket = driver.interest().socket;
            driver.work.unwatched = sys::watch(&self.epoll, socket).is_err();
            if let Some(launcher) = &mut driver.launcher
                && sys::watch(&self.epoll, launcher.descriptor()).is_ok()
            {
                launcher.watch();
            }
            self.exposed.store(true, Ordering::Relaxed);
            // Dropping the guard updates the descriptor.
            drop(driver);
        }
        self.epoll.as_raw_fd()
    }

    /// Whether the program has the descriptor.
    pub(crate) fn is_exposed(&self) -> bool {
        self.exposed.load(Ordering::Relaxed)
    }

    /// Returns the same descriptor, borrowed.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// The right to use the driver for one call. Dropping it gives the driver back.
pub(crate) struct DriverGuard<'a> {
    core: &'a Core,
    work: OwnershipGuard<'a, Work>,
    /// The helper took the driver, not a call of the program.
    by_helper: bool,
}

impl DriverGuard<'_> {
    /// Shows the helper that the call goes on. A helper that sleeps while it lasts wakes up.
    pub(crate) fn show_life(&self) {
        self.work.show_life(|| self.core.helper_event_fd.signal());
    }

    /// Whether the program has the node's descriptor.
    pub(crate) fn is_exposed(&self) -> bool {
        self.core.is_exposed()
    }

    /// Makes the descriptor readable exactly when a call would find something to do.
    fn publish(&mut self) {
        let Work {
            driver,
            signalled,
            armed,
            unwatched,
        } = &mut *self.work;
        let readable = driver.has_message_or_event();
        if readable != *signalled {
            *signalled = readable;
            if readable {
                self.core.event_fd.signal()
            } else {
                self.core.event_fd.clear();
            }
        }
        let now = driver.read_clock();
        let retries = driver.interest().write || *unwatched;
        let idle = driver.idle_time().into_iter();
        let limit = idle.chain(retries.then_some(RETRY)).min();
        let next = limit.map(|limit| now + limit);
        let expired = armed.is_some_and(|at| at <= now);
        let earlier = next.is_some_and(|at| armed.is_none_or(|armed| at < armed));
        // A timer that expires too early costs one needless call. Setting it anew each time would
        // always cost a system call.
        if (expired || earlier) && self.core.timer_fd.set(limit).is_ok() {
            *armed = next;
        }
    }
}

impl Deref for DriverGuard<'_> {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        &self.work.driver
    }
}

impl DerefMut for DriverGuard<'_> {
    fn deref_mut(&mut self) -> &mut Driver {
        &mut self.work.driver
    }
}

impl Drop for DriverGuard<'_> {
    fn drop(&mut self) {
        // The program can fork while it holds the driver (`Batch`): the child's descriptors are
        // closed by then, and the number of the eventfd may name another descriptor.
        if let Some(hold) = self.work.driver.hold_number()
            && !self.core.is_forked()
        {
            if !self.core.alone.load(Ordering::Relaxed) {
                self.core.holds.note(hold, || {
                    // The helper need not be woken for output that it leaves itself.
                    if !self.by_helper {
                        self.core.helper_event_fd.signal();
                    }
                });
            } else if self.coalescer.holds_messages() && !std::thread::panicking() {
                // After a panic, sending would call a steering function that panicked again.
                self.coalescer.allowed = false;
                self.send_accepted_now();
            }
        }
        let is_exposed = self.core.is_exposed();
        if is_exposed && !std::thread::panicking() && !self.core.is_forked() {
            self.publish();
        }
    }
}
