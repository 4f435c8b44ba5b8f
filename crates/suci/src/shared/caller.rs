//! Callers that serve a shard: what a call leaves is sent by its own thread, and a call that waits
//! reads the socket itself. So neither wakes the I/O thread.

use super::SharedNode;
use super::inner::Inner;
use super::serving::Remaining;
use super::shard::Shard;
use super::thread::{After, Nap, Worker};
use crate::clock::{Clock, Deadline};
use crate::ownership_lock::OwnershipGuard;
use crate::sys::{self, Slept};
use std::cell::Cell;
use std::io;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::Duration;
use suci_proto::time::Instant;

/// Turns of a call that only sends, at most. What is left then is the sleeper's.
const MAX_TURNS: u32 = 3;

/// A call that serves its node. At its end its thread sends what it left.
///
/// While one lives, other threads rely on it: block only in [`wait`](Self::wait).
#[derive(Debug)]
pub struct Attendance<'a> {
    inner: &'a Inner,
    shard: &'a Shard,
    /// The bytes that the call sends, when it began, and whether more follow.
    sends: Cell<Option<(u64, Instant, bool)>>,
    /// It waits for several peers or connections.
    is_wide: Cell<bool>,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The call has what it waited for.
    Ready,
    /// One of the call's own descriptors is ready.
    Polled,
    /// The time is over.
    TimedOut,
    /// A signal's handler ran.
    Interrupted,
    /// Another call waits already, or the node ends: wait as if the call did not serve.
    Elsewhere,
}

impl Inner {
    /// Begins a call that serves the node. Returns nothing if it has several threads, ends, runs
    /// this call itself, or was opened in another network namespace.
    pub(super) fn attend(&self) -> Option<Attendance<'_>> {
        let [shard] = &*self.shards else {
            return None;
        };
        let is_open = !self.is_forked() && !self.closing.load(Ordering::Acquire);
        (is_open && self.is_of_this_network() && !self.is_served_here()).then(|| {
            shard.serving.attend();
            Attendance {
                inner: self,
                shard,
                sends: Cell::new(None),
                is_wide: Cell::new(false),
            }
        })
    }
}

impl<'a> Attendance<'a> {
    /// Begins a call that serves the node. Returns nothing if the node has several threads, ends,
    /// runs this call itself, or was opened in another network namespace. For the crate
    /// `suci-sockets` and the preloaded library.
    #[must_use]
    pub fn begin(node: &'a SharedNode) -> Option<Self> {
        node.inner.attend()
    }

    /// Serves until `ready` returns true, one of the `polled` descriptors is ready, a signal's
    /// handler ran, or `limit` is over. The signals of `mask` are blocked while it sleeps. It
    /// serves at least once. `ready` is called after each turn, and before each sleep; it must not
    /// block.
    ///
    /// # Errors
    /// Those of `ppoll`.
    pub fn wait(
        &self,
        polled: &mut [libc::pollfd],
        mask: Option<&libc::sigset_t>,
        limit: Option<Duration>,
        mut ready: impl FnMut() -> bool,
    ) -> io::Result<Waited> {
        let Some(wait) = Wait::begin(self) else {
            return Ok(Waited::Elsewhere);
        };
        let deadline = limit.map_or(Deadline::NEVER, Deadline::after);
        let mut fds = Vec::new();
        if let Some(worker) = &mut *self.shard.serving.take() {
            worker.on_wait();
        }
        loop {
            let Some((after, nap)) = wait.turn() else {
                return Ok(Waited::Elsewhere);
            };
            if ready() {
                return Ok(Waited::Ready);
            }
            if deadline.is_over() {
                return Ok(Waited::TimedOut);
            }
            fds.clear();
            fds.extend_from_slice(polled);
            let limit = match after {
                After::Sleep => nap.limit().into_iter().chain(deadline.left()).min(),
                After::Turn | After::Close => Some(Duration::ZERO),
            };
            let mut is_ready = false;
            let slept = wait.sleep(&mut fds, mask, limit, &nap, || {
                is_ready = ready();
                is_ready
            })?;
            wait.on_woken(&nap, slept);
            if is_ready {
                return Ok(Waited::Ready);
            }
            match slept {
                Some(Slept::Interrupted) => return Ok(Waited::Interrupted),
                Some(Slept::Woken { others: true, .. }) => {
                    for (polled, now) in polled.iter_mut().zip(&fds) {
                        polled.revents = now.revents;
                    }
                    return Ok(Waited::Polled);
                }
                Some(Slept::Woken { .. }) | None => {}
            }
        }
    }

    /// Notes that the call sends so many bytes. Calls that send in quick succession leave their
    /// bytes to each other, so that they share packets. `more`: such a call probably follows.
    pub fn sends(&self, bytes: usize, more: bool) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.sends.set(Some((bytes, Clock.now(), more)));
    }

    /// Notes that the call waits for several connections. It takes all that has arrived, not the
    /// first message for itself, so the program can answer them together.
    pub fn takes_all(&self) {
        self.is_wide.set(true);
    }

    /// Has the I/O thread serve at once. A call that waits otherwise than by [`wait`](Self::wait)
    /// depends on it.
    pub fn hand_back(&self) {
        self.shard.hand_back();
    }

    /// Has the call that waits, if one does, call its `ready` again.
    pub fn rouse(&self) {
        self.shard.rouse();
    }

    /// Runs a turn. Returns nothing if the node ends: the I/O thread sees to that.
    fn turn(&self, state: &mut Option<Box<Worker>>) -> Option<After> {
        let worker = state.as_mut()?;
        let turn = || self.inner.serving_here(|| worker.turn());
        // The state is dropped after a panic.
        match catch_unwind(AssertUnwindSafe(turn)) {
            Ok(Ok(After::Close)) => {}
            Ok(Ok(after)) => return Some(after),
            Ok(Err(error)) => worker.fail(error),
            Err(_) => drop(state.take()),
        }
        self.hand_back();
        None
    }

    /// Sends what calls left, unless it waits for the next call.
    fn send(&self, state: &mut Option<Box<Worker>>) -> Remaining {
        let sends = self.sends.take();
        if let (Some(worker), Some((bytes, began, more))) = (state.as_mut(), sends)
            && worker.keeps(began, bytes, more)
            && self.is_looked_after()
        {
            return Remaining::Waits;
        }
        for _ in 0..MAX_TURNS {
            if let Some(worker) = state {
                worker.expect_no_input();
            }
            let after = self.turn(state);
            let (Some(after), Some(worker)) = (after, state.as_mut()) else {
                return Remaining::Left;
            };
            if after == After::Sleep {
                if sends.is_some() {
                    worker.on_sent();
                }
                return match self.shard.sleeps_past(worker.due()) {
                    true => Remaining::Left,
                    false => Remaining::Done,
                };
            }
        }
        Remaining::Left
    }

    /// Whether only bytes of sockets are left, and the I/O thread looks soon whether somebody sends
    /// them.
    fn is_looked_after(&self) -> bool {
        let shard = self.shard;
        let is_waiting = shard.serving.waits() & 1 == 1;
        !is_waiting && !shard.serving.thread_serves() && shard.has_only_bytes()
    }
}

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        let shard = self.shard;
        let work = shard
            .serving
            .leave(|| shard.has_work(), |state| self.send(state));
        if work == Remaining::Left {
            shard.rouse();
        }
    }
}

/// The wait of a call, of which there is one at a time.
struct Wait<'a> {
    call: &'a Attendance<'a>,
    place: OwnershipGuard<'a, ()>,
}

impl<'a> Wait<'a> {
    /// Returns nothing if another call waits.
    fn begin(call: &'a Attendance<'a>) -> Option<Self> {
        let shard = call.shard;
        let place = shard.serving.begin_wait(|| shard.wake_thread())?;
        Some(Self { call, place })
    }

    /// Runs a turn. Returns nothing if the node ends.
    fn turn(&self) -> Option<(After, Nap)> {
        let shard = self.call.shard;
        let mut state = shard.serving.take();
        if let Some(worker) = state.as_mut().filter(|_| self.call.is_wide.get()) {
            worker.expect_many();
        }
        let mut after = self.call.turn(&mut state)?;
        let worker = state.as_mut()?;
        if after == After::Sleep && worker.driver.polls() {
            after = After::Turn;
        }
        let nap = worker.plan_sleep();
        shard.plan(nap.until());
        Some((after, nap))
    }

    /// Sleeps until something is ready, unless there is work or what the call waits for.
    fn sleep(
        &self,
        fds: &mut Vec<libc::pollfd>,
        mask: Option<&libc::sigset_t>,
        limit: Option<Duration>,
        nap: &Nap,
        ready: impl FnOnce() -> bool,
    ) -> io::Result<Option<Slept>> {
        let shard = self.call.shard;
        let event_fd = shard.event_fd.as_raw_fd();
        // Another thread may have brought it since the last turn.
        let idle = || !ready() && shard.is_idle(nap.left());
        let sleep = || sys::sleep_among(fds, nap.interest(), event_fd, limit, mask);
        let slept = shard.serving.park_caller(idle, sleep).transpose()?;
        self.place.show_life(|| shard.rouse_thread());
        if slept.is_some_and(|slept| matches!(slept, Slept::Woken { ready, .. } if ready.signalled))
        {
            shard.clear_for_caller();
        }
        Ok(slept)
    }

    fn on_woken(&self, nap: &Nap, slept: Option<Slept>) {
        let ready = match slept {
            Some(Slept::Woken { ready, .. }) => Some(ready),
            Some(Slept::Interrupted) => Some(sys::Ready::default()),
            None => None,
        };
        if let Some(worker) = &mut *self.call.shard.serving.take() {
            worker.on_woken(nap, ready);
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.call.shard.plan_nothing();
    }
}
