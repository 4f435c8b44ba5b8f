//! Groups of a shared node: each thread carries operations on for the members that it serves, and
//! tells the others when these have something to do.

use super::SharedNode;
use super::inner::Inner;
use super::shard::{Command, owner};
use super::sleepers::Registration;
use super::thread::Worker;
use crate::clock::Deadline;
use crate::error::Error;
use crate::group::{GroupHost, GroupState};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use suci_layers::group::ShrunkNumbers;
use suci_proto::MemberState;
use suci_proto::types::{ChannelId, NodeId};

impl Inner {
    /// Calls `each` with the index of each shard that serves members of the group.
    fn shards_of(&self, group: &GroupState) -> impl Iterator<Item = usize> {
        let count = self.shards.len();
        let serves = move |index: &usize| {
            let mut members = group.members().iter();
            members.any(|member| owner(*member, count) == *index)
        };
        (0..count).filter(serves)
    }

    /// Polls until the group's operation has a result.
    fn settling(
        &self,
        group: &GroupState,
    ) -> impl FnMut(&mut Context<'_>) -> Poll<Result<(), Error>> {
        let mut registration = Registration::new(&group.host.0);
        let mut ending = self.ending();
        move |cx| {
            let settled = registration.poll_until(cx, || group.is_settled());
            match settled {
                Poll::Ready(()) => Poll::Ready(Ok(())),
                Poll::Pending => ending(cx).map(Err),
            }
        }
    }

    /// Wakes the threads other than `own` that serve members of the group. One whose ring is full
    /// is awake.
    pub(super) fn wake_others(&self, group: &GroupState, own: usize) {
        for index in self.shards_of(group).filter(|index| *index != own) {
            if let Some(shard) = self.shards.get(index) {
                let _ = shard.push(Command::run(|_| ()));
            }
        }
    }
}

impl SharedNode {
    /// Waits until the group's operation has a result.
    pub(crate) async fn settled(&self, group: &GroupState) -> Result<(), Error> {
        poll_fn(self.inner.settling(group)).await
    }
}

impl GroupHost for SharedNode {
    fn node_id(&self) -> NodeId {
        self.inner.fixed.id
    }

    fn member_states(
        &self,
        nodes: &[NodeId],
        channel: ChannelId,
    ) -> Result<(Vec<Option<MemberState>>, bool), Error> {
        let ask = |&node: &NodeId| {
            self.ask(node, move |driver| {
                let engine = &driver.engine;
                (engine.member_state(node), engine.is_group_over(channel))
            })
        };
        let answers: Vec<_> = nodes.iter().map(ask).collect::<Result<_, _>>()?;
        let is_over = answers.iter().any(|(_, is_over)| *is_over);
        Ok((
            answers.into_iter().map(|(state, _)| state).collect(),
            is_over,
        ))
    }

    fn shrunk_numbers(&self) -> &ShrunkNumbers {
        &self.inner.fixed.shrunk_numbers
    }

    fn serve_group(&mut self, group: &Arc<GroupState>) -> Result<(), Error> {
        self.inner.check_open()?;
        for index in self.inner.shards_of(group) {
            let group = Arc::clone(group);
            let serve = Command::run(move |worker: &mut Worker| worker.groups.add(group));
            if let Some(shard) = self.inner.shards.get(index) {
                self.inner.wait_for(self.inner.pushing(shard, serve))??;
            }
        }
        Ok(())
    }

    fn turn(&mut self) -> Result<(), Error> {
        self.inner.check_open()
    }

    fn await_group(&mut self, group: &GroupState, deadline: Deadline) -> Result<bool, Error> {
        let settled = self
            .inner
            .wait_until(deadline, self.inner.settling(group))?;
        settled.transpose().map(|settled| settled.is_some())
    }
}
