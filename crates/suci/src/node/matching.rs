//! Matching on a node.

use super::Node;
use super::receive::wait_to_take;
use crate::clock::Deadline;
use crate::error::Error;
use crate::matching::{AwaitedMatch, Matching, MatchingHost, MatchingState};
use crate::message::OutgoingMessage;
use crate::wait::Awaited;
use std::sync::Arc;
use suci_layers::matching::Matching as Queues;
use suci_proto::types::NodeId;

impl Node {
    /// The program's receives, which take messages by tag and source, and messages for those of
    /// other nodes.
    pub fn matching(&mut self) -> Matching<'_> {
        Matching::new(self)
    }
}

impl MatchingHost for Node {
    fn state(&self) -> &Arc<MatchingState> {
        &self.fixed.matched
    }

    fn check_open(&self) -> Result<(), Error> {
        match (self.core.is_forked(), self.closed) {
            (true, _) => Err(Error::Forked),
            (false, true) => Err(Error::Closed),
            (false, false) => Ok(()),
        }
    }

    fn send_matched(&self, to: NodeId, message: OutgoingMessage) -> Result<(), Error> {
        let mut driver = self.enter_to_send()?;
        let sent = driver.send(None, message.len(), |driver| driver.push(to, message));
        sent.map(drop)
    }

    fn serve(&self) -> Result<(), Error> {
        self.enter_to_send()?.run_cycle()
    }

    fn turn(&self) -> Result<(), Error> {
        self.enter_to_send()?.run_cycle()
    }

    fn await_match<T>(
        &self,
        _: AwaitedMatch,
        deadline: Deadline,
        mut take: impl FnMut(&mut Queues) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let mut driver = self.enter_to_send()?;
        let table = &self.fixed.matched.table;
        let awaited = (self.fixed.wait, Awaited::Message);
        wait_to_take(&mut driver, deadline, awaited, |driver| {
            driver.match_arrived();
            let taken = table.with(&mut take)?;
            driver.waiter.on_taken(1);
            Some(taken)
        })
    }

    fn watch(&self, node: NodeId, awaited: bool) -> Result<(), Error> {
        let mut driver = self.enter_to_send()?;
        let now = driver.read_clock();
        driver.engine.await_member(now, node, awaited);
        Ok(())
    }
}
