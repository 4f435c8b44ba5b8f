//! The verbs for groups that both kinds of node have.

use super::GroupError;
use crate::clock::Deadline;
use crate::error::Error;
use crate::shared::Sleepers;
use std::sync::Arc;
use suci_layers::group::{self, Host, ShrunkNumbers};
use suci_proto::types::{ChannelId, NodeId};
use suci_proto::{MemberState, Side};

/// A group's state, with the threads that wait for its result.
pub(crate) type GroupState = group::GroupState<Waiting>;

/// The groups that a driver serves at present.
pub(crate) type ServedGroups = group::ServedGroups<Waiting>;

/// The threads that wait for the result of a group.
#[derive(Debug, Default)]
pub struct Waiting(pub(crate) Sleepers);

impl Host for Waiting {
    type Error = GroupError;

    fn settled(&self) {
        self.0.wake();
    }
}

/// Returns false if a message of a group must wait for room, or until its receiver resumes.
pub(crate) fn has_room(offered: Result<(), Error>) -> Result<bool, GroupError> {
    match offered {
        Ok(()) => Ok(true),
        Err(
            Error::WouldBlock { .. }
            | Error::Suspended {
                by: Side::There, ..
            },
        ) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A node that can be a member of groups: a [`Node`](crate::Node) or a
/// [`SharedNode`](crate::SharedNode).
pub trait GroupNode: GroupHost {}

impl<N: GroupHost> GroupNode for N {}

/// The verbs that the operations of a group need of its node.
pub trait GroupHost {
    /// The node's ID.
    fn node_id(&self) -> NodeId;

    /// The states of nodes, and whether messages on this channel of a group are dropped.
    fn member_states(
        &self,
        nodes: &[NodeId],
        channel: ChannelId,
    ) -> Result<(Vec<Option<MemberState>>, bool), Error>;

    /// The numbers of groups that [`Group::shrink`](super::Group::shrink) made here.
    fn shrunk_numbers(&self) -> &ShrunkNumbers;

    /// Lets the drivers carry the group's operation on from now on.
    fn serve_group(&mut self, group: &Arc<GroupState>) -> Result<(), Error>;

    /// Takes what has arrived, if that is not done without the program.
    fn turn(&mut self) -> Result<(), Error>;

    /// Waits until the group's operation has a result. Returns false if `deadline` comes first.
    fn await_group(&mut self, group: &GroupState, deadline: Deadline) -> Result<bool, Error>;
}
