//! What a [`Node`](crate::Node) and its helper share.

use crate::cell::{Cell, Taken};
use crate::clock::Deadline;
use crate::driver::Driver;
use crate::error::Error;
use crate::fork::Birth;
use crate::hold::Holds;
use crate::sys::{self, Alarm, Bell, Known};
use crate::wait::Spinner;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use suci_proto::time::Instant;

/// How soon a socket that is full, or that the kernel does not watch, is tried again by programs
/// that wait on the node's own descriptor.
const RETRY: Duration = Duration::from_millis(1);

/// A driver that its program and its helper take in turn, and the descriptor that stands for both.
pub(crate) struct Core {
    pub(crate) cell: Cell<Work>,
    birth: Birth,
    /// Nests `alarm` and `bell`, and the socket once somebody asks for it: being watched costs the
    /// kernel half a microsecond for each packet.
    epoll: OwnedFd,
    alarm: Alarm,
    bell: Bell,
    /// The program asked for the descriptor: it must be kept right from then on.
    exposed: AtomicBool,
    socket: RawFd,
    /// What the child of a fork closes: all but `epoll`, which the program may hold.
    copies: Vec<Known>,
    /// The child of a fork closed its copies.
    abandoned: AtomicBool,
    /// Wakes the helper out of its sleep on the socket.
    pub(crate) helper_bell: Bell,
    /// What calls leave that waits for the next one.
    pub(crate) holds: Holds,
    /// The helper has ended: nobody looks.
    pub(crate) alone: AtomicBool,
    pub(crate) stop: AtomicBool,
}

/// The driver, and how its descriptor stands.
pub(crate) struct Work {
    pub(crate) driver: Driver,
    rung: bool,
    armed: Option<Instant>,
    /// The kernel had no memory to watch the socket: it is looked at every now and then instead.
    unwatched: bool,
}

impl Core {
    pub(crate) fn new(driver: Driver, birth: Birth) -> Result<Self, Error> {
        let trouble = Error::io("making descriptors to wait on");
        let socket = driver.interest().socket;
        let alarm = Alarm::new().map_err(&trouble)?;
        let bell = Bell::new().map_err(&trouble)?;
        let helper_bell = Bell::new().map_err(&trouble)?;
        let ours = [&alarm as &dyn AsRawFd, &bell, &helper_bell].map(AsRawFd::as_raw_fd);
        let copies = ours.into_iter().chain([socket]).chain(driver.descriptors());
        let copies = copies.map(Known::new).collect();
        let epoll = sys::epoll_of(&[alarm.as_raw_fd(), bell.as_raw_fd()]).map_err(&trouble)?;
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
            socket,
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
        })
    }

    /// Takes the driver for the helper, if nobody used it since its word was `word`.
    pub(crate) fn enter_at(&self, word: u64) -> Option<Turn<'_>> {
        Some(Turn {
            core: self,
            work: self.cell.take_at(word)?,
        })
    }

    /// Whether this is the child of a fork; the first time, its copies of the descriptors are
    /// closed. The driver itself is left alone: a thread that exists no longer may have been in the
    /// middle of it.
    pub(crate) fn is_forked(&self) -> bool {
        let forked = self.birth.is_forked();
        if forked && !self.abandoned.swap(true, Ordering::Relaxed) {
            for copy in &self.copies {
                // SAFETY: the descriptor belongs to this core, whose memory is never dropped in
                // this process (`Node::drop` leaks it), so nobody uses or closes it after this.
                unsafe { copy.close_if_same() };
            }
        }
        forked
    }

    /// The descriptor for the program's own epoll.
    pub(crate) fn expose(&self) -> RawFd {
        if !self.is_exposed()
            && let Ok(mut turn) = self.enter()
        {
            // A program that sleeps on the descriptor makes no next call before it says so.
            turn.coalescer.allowed = false;
            turn.send_on();
            turn.work.unwatched = sys::watch(&self.epoll, self.socket).is_err();
            if let Some(launcher) = turn.launcher()
                && sys::watch(&self.epoll, launcher.descriptor()).is_ok()
            {
                launcher.watch();
            }
            self.exposed.store(true, Ordering::Relaxed);
            // Leaving makes the descriptor right.
            drop(turn);
        }
        self.epoll.as_raw_fd()
    }

    /// Whether the program has the descriptor.
    pub(crate) fn is_exposed(&self) -> bool {
        self.exposed.load(Ordering::Relaxed)
    }

    /// The same, borrowed.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// The right to use the driver for one call.
pub(crate) struct Turn<'a> {
    core: &'a Core,
    work: Taken<'a, Work>,
}

impl Turn<'_> {
    /// A call lasts: a helper that watches for signs of life sees one, and does not sleep on after
    /// it.
    pub(crate) fn show_life(&self) {
        self.work.show_life(|| self.core.helper_bell.ring());
    }

    /// As [`Driver::wait`], for a program that takes its message at once: output may follow in the
    /// next call. Not if it waits on the descriptor, which would have to say when; and if it asks
    /// for edges, it hears of what is left in the socket only when more arrives.
    pub(crate) fn wait_for_message(
        &mut self,
        now: Option<Instant>,
        deadline: Deadline,
        spinner: &mut Spinner,
    ) -> Result<(), Error> {
        if self.core.is_exposed() {
            self.work.driver.wait(deadline, spinner)?;
            self.work.driver.look_through()
        } else {
            self.work.driver.wait_for_message(now, deadline, spinner)
        }
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
                self.core.bell.hush()
            }
        }
        let now = driver.now();
        let full = driver.interest().write;
        let limit = driver
            .idle_time(now)
            .into_iter()
            .chain((full || *unwatched).then_some(RETRY))
            .min();
        let next = limit.map(|limit| now + limit);
        let expired = armed.is_some_and(|at| at <= now);
        let earlier = next.is_some_and(|at| armed.is_none_or(|armed| at < armed));
        // An alarm that comes too early costs one needless call; one set anew each time costs one
        // always.
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
        // Not where a controller panicked, which sending would ask again.
        if let Some(hold) = self.work.driver.hold_number()
            && !std::thread::panicking()
        {
            if !self.core.alone.load(Ordering::Relaxed) {
                let helper = &self.core.helper_bell;
                self.core.holds.note(hold, || helper.ring());
            } else if self.coalescer.hold_number().is_some() {
                self.coalescer.allowed = false;
                self.send_on();
            }
        }
        let is_exposed = self.core.is_exposed();
        // The program can fork while the turn lasts (`Batch`): the child's descriptors are closed
        // by then.
        if is_exposed && !std::thread::panicking() && !self.core.is_forked() {
            self.publish();
        }
    }
}
