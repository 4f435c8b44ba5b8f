//! The state that a [`Node`](crate::Node) and its helper share.

use crate::cell::{Cell, Taken};
use crate::driver::Driver;
use crate::error::Error;
use crate::fork::Birth;
use crate::hold::Holds;
use crate::sys::{self, Alarm, Bell, Known};
use crate::waker::Wakes;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use suci_proto::time::Instant;

/// How soon a program that waits on the node's descriptor tries again a socket that is full or that
/// the kernel does not watch.
const RETRY: Duration = Duration::from_millis(1);

/// A driver that the program and the helper use in turn, and one descriptor for both to wait on.
pub(crate) struct Core {
    pub(crate) cell: Cell<Work>,
    birth: Birth,
    /// Nests `alarm` and `bell`, and the socket once the program asks for the descriptor: watching
    /// a socket costs the kernel half a microsecond for each packet.
    epoll: OwnedFd,
    alarm: Alarm,
    bell: Bell,
    /// The program asked for the descriptor, which must be kept up to date from then on.
    exposed: AtomicBool,
    /// The descriptors that the child of a fork closes: all but `epoll`, which the program may
    /// hold.
    copies: Vec<Known>,
    /// True once the child of a fork has closed its copies of the descriptors.
    abandoned: AtomicBool,
    /// Wakes the helper out of its sleep on the socket.
    pub(crate) helper_bell: Bell,
    /// Output that calls left for the next call.
    pub(crate) holds: Holds,
    /// The helper has ended: only the program's calls send output that waits.
    pub(crate) alone: AtomicBool,
    pub(crate) stop: AtomicBool,
}

/// The driver, and the state of the node's descriptor.
pub(crate) struct Work {
    pub(crate) driver: Driver,
    /// `bell` is rung: a message or an event waits.
    rung: bool,
    /// The time for which `alarm` is set.
    armed: Option<Instant>,
    /// True if the kernel had no memory to watch the socket. The node then reads it every
    /// [`RETRY`].
    unwatched: bool,
}

impl Core {
    pub(crate) fn new(driver: Driver, birth: Birth) -> Result<Self, Error> {
        let io_error = Error::io("making descriptors to wait on");
        let alarm = Alarm::new().map_err(&io_error)?;
        let bell = Bell::new().map_err(&io_error)?;
        let helper_bell = Bell::new().map_err(&io_error)?;
        let ours = [&alarm as &dyn AsRawFd, &bell, &helper_bell].map(AsRawFd::as_raw_fd);
        let copies = ours.into_iter().chain(driver.descriptors());
        let copies = copies.map(Known::new).collect();
        let epoll = sys::epoll_of(&[alarm.as_raw_fd(), bell.as_raw_fd()]).map_err(&io_error)?;
        Ok(Self {
            cell: Cell::new(Work {
                driver,
                rung: false,
                armed: None,
                unwatched: false,
            }),
            birth,
            epoll,
            alarm,
            bell,
            exposed: AtomicBool::new(false),
            copies,
            abandoned: AtomicBool::new(false),
            helper_bell,
            holds: Holds::new(),
            alone: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        })
    }

    /// Takes the driver for a call of the program.
    pub(crate) fn enter(&self) -> Result<Turn<'_>, Error> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        Ok(Turn {
            core: self,
            work: self.cell.take(),
            by_helper: false,
        })
    }

    /// Takes the driver for the helper, unless a call used it since the helper read `word`.
    pub(crate) fn enter_at(&self, word: u64) -> Option<Turn<'_>> {
        Some(Turn {
            core: self,
            work: self.cell.take_at(word)?,
            by_helper: true,
        })
    }

    /// Whether this process is the child of a fork. The first call in a child closes its copies of
    /// the descriptors. The driver is left alone: a thread that does not exist here may have been
    /// using it.
    pub(crate) fn is_forked(&self) -> bool {
        let forked = self.birth.is_forked();
        if forked && !self.abandoned.swap(true, Ordering::Relaxed) {
            for copy in &self.copies {
                // SAFETY: the descriptor belongs to this core, whose memory is never dropped in
                // this process (`Node::drop` leaks it), so nothing uses or closes it after this.
                unsafe { copy.close_if_same() };
            }
        }
        forked
    }

    /// Returns the wake-up that ends the waits of the program's calls. The first call makes it and
    /// adds it to the node's descriptor.
    pub(crate) fn wakes(&self) -> Result<Arc<Wakes>, Error> {
        let mut turn = self.enter()?;
        if let Some(wakes) = &turn.wakes {
            return Ok(Arc::clone(wakes));
        }
        let wakes = Arc::new(Wakes::new()?);
        let io_error = Error::io("watching the descriptor that wakes the node");
        sys::watch(&self.epoll, wakes.as_raw_fd()).map_err(io_error)?;
        turn.wakes = Some(Arc::clone(&wakes));
        Ok(wakes)
    }

    /// Returns the descriptor for the program's own epoll.
    pub(crate) fn expose(&self) -> RawFd {
        if !self.is_exposed()
            && let Ok(mut turn) = self.enter()
        {
            // A program that sleeps on the descriptor makes no call until that is readable.
            turn.coalescer.allowed = false;
            turn.send_on();
            let socket = turn.interest().socket;
            turn.work.unwatched = sys::watch(&self.epoll, socket).is_err();
            if let Some(launcher) = &mut turn.launcher
                && sys::watch(&self.epoll, launcher.descriptor()).is_ok()
            {
                launcher.watch();
            }
            self.exposed.store(true, Ordering::Relaxed);
            // Dropping the turn updates the descriptor.
            drop(turn);
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

/// The right to use the driver for one call. (`Driver::turn` is a driver cycle, not this.)
pub(crate) struct Turn<'a> {
    core: &'a Core,
    work: Taken<'a, Work>,
    /// The helper took the driver, not a call of the program.
    by_helper: bool,
}

impl Turn<'_> {
    /// Shows the helper that the call goes on. A helper that sleeps while it lasts wakes up.
    pub(crate) fn show_life(&self) {
        self.work.show_life(|| self.core.helper_bell.ring());
    }

    /// Whether the program has the node's descriptor.
    pub(crate) fn is_exposed(&self) -> bool {
        self.core.is_exposed()
    }

    /// Makes the descriptor readable exactly when a call would find something to do.
    fn publish(&mut self) {
        let Work {
            driver,
            rung,
            armed,
            unwatched,
        } = &mut *self.work;
        let news = driver.has_news();
        if news != *rung {
            *rung = news;
            if news {
                self.core.bell.ring()
            } else {
                self.core.bell.hush();
            }
        }
        let now = driver.read_clock();
        let retries = driver.interest().write || *unwatched;
        let idle = driver.idle_time().into_iter();
        let limit = idle.chain(retries.then_some(RETRY)).min();
        let next = limit.map(|limit| now + limit);
        let expired = armed.is_some_and(|at| at <= now);
        let earlier = next.is_some_and(|at| armed.is_none_or(|armed| at < armed));
        // An alarm that comes too early costs one needless call. Setting it anew each time would
        // always cost a system call.
        if (expired || earlier) && self.core.alarm.set(limit).is_ok() {
            *armed = next;
        }
    }
}

impl Deref for Turn<'_> {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        &self.work.driver
    }
}

impl DerefMut for Turn<'_> {
    fn deref_mut(&mut self) -> &mut Driver {
        &mut self.work.driver
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // After a panic, sending would call a controller that panicked again. The program can fork
        // while the turn lasts (`Batch`): the child's descriptors are closed by then, and the
        // number of the bell may name another descriptor.
        if let Some(hold) = self.work.driver.hold_number()
            && !std::thread::panicking()
            && !self.core.is_forked()
        {
            if !self.core.alone.load(Ordering::Relaxed) {
                self.core.holds.note(hold, || {
                    // The helper needs no bell for what it leaves itself.
                    if !self.by_helper {
                        self.core.helper_bell.ring();
                    }
                });
            } else if self.coalescer.holds_messages() {
                self.coalescer.allowed = false;
                self.send_on();
            }
        }
        let is_exposed = self.core.is_exposed();
        if is_exposed && !std::thread::panicking() && !self.core.is_forked() {
            self.publish();
        }
    }
}
