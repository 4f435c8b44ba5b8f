//! The driver cycle, and the parts of it that single calls run.
//!
//! A full cycle ([`Driver::run_cycle`]) has these steps:
//!
//! 1. Begin ([`input`](Driver::input)): acknowledgements that no packet carried become due. Take
//!    what other shards and neighbours forwarded.
//! 2. Poll the socket ([`drain`](Driver::drain)).
//! 3. Run timers and what else a poll may have made due ([`after_poll`](Driver::after_poll)):
//!    always after input, because an acknowledgement that is still in the socket must not count as
//!    missing.
//! 4. Output ([`output`](Driver::output)): serve the layers, transmit, publish statistics.
//!
//! A call runs only the steps that it needs:
//!
//! | method | steps 1 to 3 | step 4 |
//! |---|---|---|
//! | [`run_cycle`](Driver::run_cycle) | yes | yes |
//! | [`run_cycle_with`](Driver::run_cycle_with) | the poll may depend on timers | yes |
//! | [`run_cycle_if_stale`](Driver::run_cycle_if_stale) | if stale | if stale |
//! | [`input_if_stale`](Driver::input_if_stale) | if stale | no |
//! | [`output_now`](Driver::output_now) | no | yes |
//! | [`output_rest`](Driver::output_rest) | no | unless that has to wait for a cycle |
//! | [`output_urgent`](Driver::output_urgent) | no | urgent trains only |
//! | [`output_if_wanted`](Driver::output_if_wanted) | no | if a message should leave at once |
//! | [`send_accepted_now`](Driver::send_accepted_now) | if stale, after step 4 | yes |
//! | [`wait_and_run_cycle`](Driver::wait_and_run_cycle) | after a wait | yes |
//! | [`wait_for_message`](Driver::wait_for_message) | after a wait | unless the message can be taken first |
//!
//! *Stale*: the last poll of the socket is older than [`STALE`].

use super::{Driver, Follows};
use crate::clock::Deadline;
use crate::error::Error;
use crate::launcher::Launcher;
use std::time::Duration;

/// The greatest age of the last poll of the socket in a call that only sends, or only takes
/// received messages. After a longer time the call polls again: acknowledgements must flow both
/// ways whatever the program calls.
pub(super) const STALE: Duration = Duration::from_micros(200);

/// How a cycle polls the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Poll {
    /// Only if a timer is due.
    IfTimerDue,
    /// Asks for one datagram and hands it on before others, unless the last poll found several.
    OneFirst,
    /// Asks for several datagrams at once.
    Several,
}

impl Driver {
    /// Runs a full cycle. It takes as much input as [`drain`](Self::drain) takes at once, and sends
    /// as much as one output may.
    pub(crate) fn run_cycle(&mut self) -> Result<(), Error> {
        self.run_cycle_with(Poll::Several).map(drop)
    }

    /// Runs a cycle that polls the socket as `poll` says. Returns whether it sent anything.
    pub(crate) fn run_cycle_with(&mut self, poll: Poll) -> Result<bool, Error> {
        self.read_clock();
        self.input(poll)?;
        self.output()
    }

    /// Runs a full cycle if the last poll of the socket is too long ago.
    pub(crate) fn run_cycle_if_stale(&mut self) -> Result<(), Error> {
        match self.is_stale() {
            true => self.run_cycle(),
            false => Ok(()),
        }
    }

    /// Takes input if the last poll of the socket is too long ago, for a call that only reads
    /// state. Acknowledgements and other output leave with the next call, or the helper sends them.
    pub(crate) fn input_if_stale(&mut self) -> Result<(), Error> {
        if self.is_stale() {
            self.input(Poll::Several)?;
            if self.engine.has_output() && !self.tx_incomplete {
                self.tx_incomplete = true;
                self.coalescer.on_left_output();
            }
        }
        Ok(())
    }

    /// Sends all that may be sent, for [`TX_BUDGET`](suci_proto::TX_BUDGET) at most.
    pub(crate) fn output_now(&mut self) -> Result<(), Error> {
        self.read_clock();
        self.output().map(drop)
    }

    /// Waits until something may have happened, at most until `deadline`, then runs a cycle. The
    /// wait has [begun](crate::wait::Waiter::begin).
    pub(crate) fn wait_and_run_cycle(&mut self, deadline: Deadline) -> Result<(), Error> {
        self.read_clock();
        self.await_input(deadline)?;
        self.output().map(drop)
    }

    /// As [`wait_and_run_cycle`](Self::wait_and_run_cycle), for a program that takes its message at
    /// once. The caller has just read the clock.
    ///
    /// The program gets a single message before output, if nothing but the acknowledgement would be
    /// sent; the next call does the rest. If the node's descriptor is `exposed`, output comes
    /// first, since the descriptor could not say when it is due. The socket is emptied, too,
    /// because an edge-triggered descriptor would not report data that stays behind.
    pub(crate) fn wait_for_message(
        &mut self,
        deadline: Deadline,
        exposed: bool,
    ) -> Result<(), Error> {
        self.await_input(deadline)?;
        if exposed {
            if !self.last_poll.drained {
                self.poll_socket(Poll::Several)?;
            }
        } else if !self.last_poll.expects_many && self.engine.defer_output(self.now) {
            return Ok(());
        }
        self.output().map(drop)
    }

    pub(super) fn is_stale(&self) -> bool {
        self.now.since(self.last_poll.at) > STALE
    }

    fn is_due(&self) -> bool {
        self.engine.next_timeout().is_some_and(|at| at <= self.now)
    }

    /// Begins a cycle: takes input, then runs the timers that are due.
    pub(super) fn input(&mut self, poll: Poll) -> Result<(), Error> {
        self.engine.begin_cycle(self.now);
        self.take_forwarded();
        self.serve_routes();
        match poll != Poll::IfTimerDue || self.is_due() {
            true => self.poll_socket(poll),
            false => Ok(()),
        }
    }

    fn poll_socket(&mut self, poll: Poll) -> Result<(), Error> {
        self.last_poll.expects_many |= poll == Poll::Several;
        self.drain(Follows::Output)?;
        self.after_poll()
    }

    /// Does what follows a poll of the socket: hands on reports and notices, runs the timers that
    /// are due, and carries on operations of groups.
    pub(super) fn after_poll(&mut self) -> Result<(), Error> {
        self.take_reports();
        // Acknowledgements may be among the packets that neighbours sent on.
        self.serve_routes();
        let due = |launcher: &Launcher| launcher.is_due(self.now);
        if self.launcher.as_ref().is_some_and(due) || !self.notices.is_empty() {
            self.take_notices();
        }
        if self.is_due() {
            if !self.last_poll.drained {
                self.last_poll.expects_many = true;
                self.drain(Follows::Timers)?;
            }
            self.engine.handle_timeout(self.now);
            if let Some(names) = &mut self.names {
                names.renew(self.now, &mut self.engine);
            }
        }
        self.renew_keys();
        if !self.groups.is_empty() || self.engine.has_late_of_group() {
            self.progress_groups();
        }
        Ok(())
    }
}
