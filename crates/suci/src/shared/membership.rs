//! The members of a shared node's cluster. Its threads share one member, which each drives for the
//! peers that it serves.

use super::SharedNode;
use crate::clock::Deadline;
use crate::error::Error;
use crate::membership::{self, Member};
use std::time::Duration;
use suci_layers::membership::MembershipCounters;

/// Time between two looks at whether the node joined.
const LOOK: Duration = Duration::from_millis(20);

impl SharedNode {
    /// As [`Node::members`](crate::Node::members).
    ///
    /// # Errors
    /// [`Error::Missing`]; [`Error::Closed`].
    pub fn members(&self) -> Result<Vec<Member>, Error> {
        let membership = membership::of(&self.inner.fixed)?;
        self.inner.check_open()?;
        Ok(membership.members())
    }

    /// As [`Node::wait_joined`](crate::Node::wait_joined); blocks the thread that calls it.
    ///
    /// # Errors
    /// [`Error::NotJoined`]; [`Error::Missing`]; [`Error::Closed`].
    pub fn wait_joined(&self, limit: Duration) -> Result<(), Error> {
        let membership = membership::of(&self.inner.fixed)?;
        let deadline = Deadline::after(limit);
        while !membership.has_joined()? {
            if deadline.is_over() {
                let seeds = membership.shared.seeds().into_iter();
                let state = |seed| {
                    let state = self.ask(seed, move |driver| driver.engine.member_state(seed))?;
                    Ok((seed, state))
                };
                let states = seeds.map(state).collect::<Result<Vec<_>, Error>>()?;
                return Err(membership.why_not(&states));
            }
            self.inner.check_open()?;
            std::thread::sleep(LOOK.min(limit));
        }
        Ok(())
    }

    /// As [`Node::membership_counters`](crate::Node::membership_counters).
    ///
    /// # Errors
    /// [`Error::Missing`].
    pub fn membership_counters(&self) -> Result<MembershipCounters, Error> {
        Ok(membership::of(&self.inner.fixed)?.shared.counters())
    }
}
