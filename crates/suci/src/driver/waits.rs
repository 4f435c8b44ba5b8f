//! One wait for input: looks, timed sleeps, or sleeps in a receive or beside it.

use super::timed_sleep::TIMED_SLEEP;
use super::{AT_ONCE, Driver, PRECISE};
use crate::clock::Deadline;
use crate::error::Error;
use crate::sys;
use crate::wait::Spinner;
use std::os::fd::AsRawFd;
use suci_proto::time::Instant;

impl Driver {
    /// Waits, then takes input and runs the timers that are due. Returns the time afterwards.
    pub(super) fn await_input(
        &mut self,
        now: Instant,
        deadline: Deadline,
        spinner: &mut Spinner,
    ) -> Result<Instant, Error> {
        self.coalescer.on_wait();
        let now = if self.is_unfinished() {
            self.bulk = true;
            self.input(now, true)?
        } else if spinner.pauses(now) {
            let now = self.input(now, true)?;
            // A message that was there at the first look is sometimes followed by more.
            if spinner.looked_once() && (self.engine.has_message() || self.engine.has_call()) {
                self.expects = self.crowds.take();
            }
            now
        } else if !self.may_block(now, deadline) {
            let bell = self.wakes.as_ref().map(|wakes| wakes.as_raw_fd());
            self.sleep(bell, deadline)?;
            self.input(self.clock.now(), true)?
        } else if spinner.may_sleep() && self.drained && self.timed_sleep.pays() {
            self.sleep_for(now)?
        } else {
            self.wait_in_recv(now, spinner.may_sleep())?
        };
        Ok(now)
    }

    /// Whether to wait in a receive that blocks: no precise timer is due, nothing waits to be sent,
    /// and the last such receive did not time out. Otherwise a long sleep would become a row of
    /// short ones.
    fn may_block(&self, now: Instant, deadline: Deadline) -> bool {
        let Some(limit) = (self.block_limit).filter(|_| !self.want_write && !self.undisturbed)
        else {
            return false;
        };
        self.punctual_time(now).is_none_or(|idle| idle >= PRECISE)
            && deadline.left().is_none_or(|left| left >= limit)
    }

    /// Sleeps for [`TIMED_SLEEP`], then takes input and runs the timers that are due.
    fn sleep_for(&mut self, since: Instant) -> Result<Instant, Error> {
        self.sleeps += 1;
        sys::sleep_for(TIMED_SLEEP);
        let woke = self.clock.now();
        self.newest = None;
        self.bulk = true;
        let now = self.input(woke, true)?;
        // Datagrams that are still in the socket arrived later than all that were taken.
        let newest = if self.drained {
            self.newest
        } else {
            Some(woke)
        };
        self.timed_sleep.on_sleep(since, woke, newest);
        Ok(now)
    }

    /// Waits in a receive that blocks, takes the rest of the input, and runs the timers that are
    /// due.
    fn wait_in_recv(&mut self, since: Instant, may_sleep: bool) -> Result<Instant, Error> {
        self.check_charge(since);
        let (got, mut now) = self.take_blocking()?;
        self.looked_at = now;
        self.undisturbed = got.is_none();
        self.drained = got.is_none();
        if self.drained {
            self.drained_at = now;
        }
        if may_sleep {
            self.timed_sleep.on_slept(got.map(|_| now.since(since)));
        }
        let got = got.unwrap_or(0);
        // A datagram that was already there is often followed by more.
        self.bulk = got > 1 || (got > 0 && now.since(since) < AT_ONCE);
        if self.bulk {
            now = self.drain(now, true)?;
        }
        self.expire(now)
    }
}
