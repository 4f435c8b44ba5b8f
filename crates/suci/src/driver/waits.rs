//! One wait for input: carries out the steps that the [`Waiter`](crate::wait::Waiter) decides.

use super::{Driver, Follows};
use crate::clock::Deadline;
use crate::error::Error;
use crate::sys;
use crate::wait::{Step, TIMED_SLEEP, WaitConditions};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// If a sleep ends sooner than this, a datagram was waiting already, and more are likely to follow.
const AT_ONCE: Duration = Duration::from_micros(5);

impl Driver {
    /// Waits, then takes input and runs the timers that are due.
    pub(super) fn await_input(&mut self, deadline: Deadline) -> Result<(), Error> {
        self.coalescer.on_wait();
        if self.is_unfinished() {
            self.last_poll.expects_many = true;
            return self.input(true);
        }
        match self.next_step(deadline) {
            step @ (Step::Poll | Step::YieldAndPoll) => step.pause(),
            Step::TimedSleep => return self.sleep_for(),
            Step::SleepInReceive => return self.wait_in_recv(),
            Step::SleepBeside => {
                let event_fd = self.wakes.as_ref().map(|wakes| wakes.as_raw_fd());
                self.sleep(event_fd, deadline)?;
            }
        }
        self.input(true)
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
        let interest = self.interest();
        let before = self.read_clock();
        let idle = self.idle_time();
        let limit = idle.into_iter().chain(deadline.left()).min();
        self.sleeps += 1;
        let ready = sys::sleep_on(interest, event_fd, limit).map_err(Error::io("waiting"))?;
        self.on_slept(ready);
        if ready.signalled
            && let Some(wakes) = &self.wakes
        {
            wakes.on_signalled();
        }
        let slept = self.read_clock().since(before);
        self.last_poll.expects_many = ready.input && slept < AT_ONCE;
        Ok(ready)
    }

    /// Sleeps for [`TIMED_SLEEP`], then takes input and runs the timers that are due.
    fn sleep_for(&mut self) -> Result<(), Error> {
        let since = self.now;
        self.sleeps += 1;
        sys::sleep_for(TIMED_SLEEP);
        let woke = self.read_clock();
        self.last_poll.expects_many = true;
        self.input(true)?;
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
}
