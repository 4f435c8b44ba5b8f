//! A node's part in the operations of groups.

use super::Node;
use super::receive::wait_to_take;
use crate::clock::Deadline;
use crate::error::Error;
use crate::group::{GroupHost, GroupState};
use crate::wait::Awaited;
use std::sync::Arc;
use suci_layers::group::ShrunkNumbers;
use suci_proto::MemberState;
use suci_proto::types::{ChannelId, NodeId};

impl GroupHost for Node {
    fn node_id(&self) -> NodeId {
        self.fixed.id
    }

    fn member_states(
        &self,
        nodes: &[NodeId],
        channel: ChannelId,
    ) -> Result<(Vec<Option<MemberState>>, bool), Error> {
        let engine = &self.enter_open()?.engine;
        let states = nodes.iter().map(|node| engine.member_state(*node));
        Ok((states.collect(), engine.is_group_over(channel)))
    }

    fn shrunk_numbers(&self) -> &ShrunkNumbers {
        &self.fixed.shrunk_numbers
    }

    fn serve_group(&mut self, group: &Arc<GroupState>) -> Result<(), Error> {
        let mut driver = self.enter_to_send()?;
        driver.read_clock();
        driver.groups.add(Arc::clone(group));
        if driver.progress_groups() {
            driver.send_accepted_now();
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<(), Error> {
        self.enter_to_send()?.run_cycle()
    }

    fn await_group(&mut self, group: &GroupState, deadline: Deadline) -> Result<bool, Error> {
        let wait = self.fixed.wait;
        let mut driver = self.enter_to_send()?;
        if group.is_settled() {
            return Ok(true);
        }
        let settled = || group.is_settled().then_some(());
        let taken = wait_to_take(&mut driver, deadline, (wait, Awaited::Answer), |_| {
            settled()
        })?;
        Ok(taken.is_some())
    }
}
