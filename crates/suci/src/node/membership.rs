//! The members of a node's cluster.

use super::Node;
use super::receive::wait_to_take;
use crate::clock::Deadline;
use crate::driver::Driver;
use crate::error::Error;
use crate::membership::{self, Member};
use crate::wait::Awaited;
use std::sync::Arc;
use std::time::Duration;
use suci_layers::membership::MembershipCounters;

impl Node {
    /// Returns the members of the cluster, this node among them, by ID. Members that failed or left
    /// are not there any more. [`Event::MemberJoined`](crate::Event::MemberJoined) and others tell
    /// of changes, in order with the other events about the same node.
    ///
    /// # Errors
    /// [`Error::Missing`] if the node was built without
    /// [`membership`](crate::NodeBuilder::membership); [`Error::Forked`].
    pub fn members(&self) -> Result<Vec<Member>, Error> {
        let membership = membership::of(&self.fixed)?;
        drop(self.enter_to_ask()?);
        Ok(membership.members())
    }

    /// Blocks until a seed told the members, for at most `limit`; returns at once if the node has
    /// no other seed than itself. The node goes on trying also after an error.
    ///
    /// # Errors
    /// [`Error::NotJoined`] says for each seed what is wrong; [`Error::Missing`] as
    /// [`members`](Self::members).
    pub fn wait_joined(&mut self, limit: Duration) -> Result<(), Error> {
        let membership = Arc::clone(membership::of(&self.fixed)?);
        let awaited = (self.fixed.wait, Awaited::Progress);
        let mut driver = self.enter_open()?;
        // A program that repeats the call, since what is wrong may change, drives the node.
        driver.run_cycle()?;
        let mut joined = |_: &mut Driver| match membership.has_joined() {
            Ok(true) => Some(Ok(())),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        };
        if let Some(joined) = joined(&mut driver) {
            return joined;
        }
        let deadline = Deadline::after(limit);
        if let Some(joined) = wait_to_take(&mut driver, deadline, awaited, &mut joined)? {
            return joined;
        }
        let seeds = membership.shared.seeds().into_iter();
        let states: Vec<_> = seeds
            .map(|seed| (seed, driver.engine.member_state(seed)))
            .collect();
        Err(membership.why_not(&states))
    }

    /// Returns what membership sent and dropped since the node was opened.
    ///
    /// # Errors
    /// As [`members`](Self::members).
    pub fn membership_counters(&self) -> Result<MembershipCounters, Error> {
        Ok(membership::of(&self.fixed)?.shared.counters())
    }
}
