//! Waits for input: how long the driver may sleep, and the steps of a wait, which the
//! [`Waiter`](crate::wait::Waiter) decides.

use super::cycle::Poll;
use super::{Driver, Follows};
use crate::clock::Deadline;
use crate::error::Error;
use crate::launcher::Launcher;
use crate::security::KeyChanges;
use crate::sys;
use crate::wait::{Step, TIMED_SLEEP, WaitConditions};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;
use suci_proto::time::{Instant, earlier};

/// If a sleep ends sooner than this, a datagram was waiting already, and more are likely to follow.
const AT_ONCE: Duration = Duration::from_micros(5);

/// The input that a sleep on descriptors waits for. The driver may be used by others meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedSleep {
    pub(crate) interest: sys::Interest,
    /// The time of the plan.
    since: Instant,
    /// How long it may last; without a value, for ever.
    pub(crate) limit: Option<Duration>,
}

impl PlannedSleep {
    /// Returns when the sleep ends at the latest.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.limit.map(|limit| self.since + limit)
    }
}

impl Driver {
    /// Waits, then takes input and runs the timers that are due.
    pub(super) fn await_input(&mut self, deadline: Deadline) -> Result<(), Error> {
        self.coalescer.on_wait();
        if self.is_unfinished() {
            return self.input(Poll::Several);
        }
        match self.next_step(deadline) {
            step @ (Step::Poll | Step::YieldAndPoll) => step.pause(),
            Step::TimedSleep => return self.sleep_for(),
            Step::SleepInReceive => return self.wait_in_recv(),
            Step::SleepInPoll => {
                let event_fd = self.wakes.as_ref().map(|wakes| wakes.as_raw_fd());
                self.sleep(event_fd, deadline)?;
            }
        }
        self.input(Poll::OneFirst)
    }

    fn next_step(&mut self, deadline: Deadline) -> Step {
        if let Some(step) = self.waiter.poll(self.now) {
            return step;
        }
        let conditions = WaitConditions {
            due: self.punctual_time(),
            deadline,
            want_write: self.want_write,
            drained: self.last_poll.drained,
        };
        self.waiter.sleep(conditions)
    }

    /// Carries out the next step of a thread that also waits for other things than the socket.
    /// Pauses for a moment and returns true if the wait still polls; returns false if it should
    /// sleep.
    pub(crate) fn polls(&mut self) -> bool {
        let now = self.read_clock();
        let step = self.waiter.poll(now);
        step.inspect(|step| step.pause()).is_some()
    }

    /// Sleeps until the socket is ready, `event_fd` can be read, a timer is due, or `deadline`.
    pub(crate) fn sleep(
        &mut self,
        event_fd: Option<RawFd>,
        deadline: Deadline,
    ) -> Result<sys::Ready, Error> {
        let sleep = self.plan_sleep();
        let limit = sleep.limit.into_iter().chain(deadline.left()).min();
        let ready = sys::sleep_on(sleep.interest, event_fd, limit).map_err(Error::io("waiting"))?;
        self.on_woken(&sleep, ready);
        Ok(ready)
    }

    /// Returns what a sleep waits for that begins now.
    pub(crate) fn plan_sleep(&mut self) -> PlannedSleep {
        self.sleeps += 1;
        let since = self.read_clock();
        PlannedSleep {
            interest: self.interest(),
            since,
            limit: self.idle_time(),
        }
    }

    /// Notes what a sleep found ready.
    pub(crate) fn on_woken(&mut self, sleep: &PlannedSleep, ready: sys::Ready) {
        self.on_slept(ready);
        if ready.signalled
            && let Some(wakes) = &self.wakes
        {
            wakes.on_signalled();
        }
        let slept = self.read_clock().since(sleep.since);
        self.last_poll.expects_many = ready.input && slept < AT_ONCE;
    }

    /// Sleeps for [`TIMED_SLEEP`], then takes input and runs the timers that are due.
    fn sleep_for(&mut self) -> Result<(), Error> {
        let since = self.now;
        self.sleeps += 1;
        sys::sleep_for(TIMED_SLEEP);
        let woke = self.read_clock();
        self.input(Poll::Several)?;
        // Datagrams that are still in the socket arrived later than all that were taken.
        let newest = match self.last_poll.drained {
            true => self.last_poll.newest,
            false => Some(woke),
        };
        self.waiter.on_timed_sleep(since, woke, newest);
        Ok(())
    }

    /// Waits in a receive that blocks, takes the rest of the input, and runs the timers that are
    /// due.
    fn wait_in_recv(&mut self) -> Result<(), Error> {
        let since = self.now;
        self.check_charge();
        let (got, _) = self.take(since, true, |socket, sink| socket.recv_blocking(sink))?;
        let slept = self.now.since(since);
        self.last_poll.on_receive(self.now, got);
        self.waiter.on_receive(got.map(|_| slept));
        let got = got.unwrap_or(0);
        // A datagram that was already there is often followed by more.
        self.last_poll.expects_many = got > 1 || (got > 0 && slept < AT_ONCE);
        if self.last_poll.expects_many {
            self.drain(Follows::Output)?;
        }
        self.after_poll()
    }

    /// Whether the last cycle ended before everything was sent or taken: the next one is due at
    /// once.
    fn is_unfinished(&self) -> bool {
        self.tx_incomplete || self.last_poll.cut_short || self.engine.has_input_of_layers()
    }

    /// How long the driver may sleep if nothing arrives; without a value, for ever.
    pub(crate) fn idle_time(&self) -> Option<Duration> {
        let publisher = self.publishers.publisher.as_ref();
        let publish = publisher.and_then(|publisher| publisher.due_at(&self.engine));
        let key_file = self.keys.as_ref().and_then(KeyChanges::due_at);
        let late = publish.into_iter().chain(key_file);
        let late = late.map(|at| at.since(self.now));
        late.chain(self.punctual_time()).min()
    }

    /// The same without publishing the statistics and checking the key file, which may be late by a
    /// few of the system's ticks.
    fn punctual_time(&self) -> Option<Duration> {
        if self.is_unfinished() {
            return Some(Duration::ZERO);
        }
        let layers = earlier(self.membership_due(), self.sockets_due());
        let due = earlier(self.engine.next_timeout(), layers);
        let due = due.map(|at| at.since(self.now));
        due.into_iter().chain(self.backend.due_in()).min()
    }

    /// The descriptors to wait for: the socket (for room, too, if it did not take everything) and
    /// the launcher's pipe.
    pub(crate) fn interest(&self) -> sys::Interest {
        sys::Interest {
            // A negative descriptor is passed over.
            socket: self.backend.raw_fd().unwrap_or(-1),
            write: self.want_write,
            launcher: self.launcher.as_ref().map(Launcher::descriptor),
        }
    }

    /// Notes which descriptors of the [interest](Self::interest) a sleep found ready.
    pub(crate) fn on_slept(&mut self, ready: sys::Ready) {
        if let Some(launcher) = self.launcher.as_mut().filter(|_| ready.launcher) {
            launcher.on_readable();
        }
    }
}
