//! Why operations of groups fail.

use super::Operation;
use crate::error::Error;
use std::time::Duration;
use suci_layers::Arguments;
use suci_proto::types::NodeId;
use suci_proto::{EndReason, LostCause};

/// Why a collective operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The node's own call failed. If an operation had begun, it failed at all members, and the
    /// group is of no use.
    #[error(transparent)]
    Node(#[from] Error),
    /// The operation took longer than the [limit](super::Group::set_limit). It failed at all
    /// members.
    #[error(
        "group {group}: an operation took longer than {limit:?} and failed at all members: make a new group, with more time"
    )]
    TimedOut {
        /// The group's number.
        group: u32,
        /// The limit.
        limit: Duration,
    },
    /// A [`Waker`](crate::Waker) ended the operation. It failed at all members.
    #[error(
        "group {group}: a waker ended an operation, which failed at all members: make a new group"
    )]
    Woken {
        /// The group's number.
        group: u32,
    },
    /// The list of members or an argument makes no sense.
    #[error("group {group}: {problem}")]
    Argument {
        /// The group's number.
        group: u32,
        /// The fault and the remedy.
        problem: String,
    },
    /// The others count this member as failed, or it gave up an agreement: it takes part in nothing
    /// more.
    #[error("group {group}: the others go on without this member: make a new group with them")]
    Excluded {
        /// The group's number.
        group: u32,
    },
    /// A member cannot take part any more. So the group's operations fail at all others, too, and
    /// each later one fails in the same way.
    #[error("group {group}: node {node} failed in the operation {operation}: {failure}")]
    Member {
        /// The group's number.
        group: u32,
        /// The member.
        node: NodeId,
        /// The operation in which this member noticed it.
        operation: Operation,
        /// Its failure.
        failure: MemberFailure,
    },
}

/// The failure of a member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemberFailure {
    /// It does not answer, or its process died.
    #[error("it is lost ({0:?}); shrink the group to go on without it")]
    Lost(LostCause),
    /// The session with it ended before it had sent everything.
    #[error("its session ended ({0:?}); shrink the group to go on without it")]
    Ended(EndReason),
    /// It began another operation, so that the calls of the members differ.
    #[error(
        "it is at another operation, {} (number {number} of the group); all members must call the same ones in the same order",
        .operation.map_or("an unknown one".to_owned(), |operation| operation.to_string())
    )]
    Other {
        /// The number of its operation, from 1.
        number: u64,
        /// Its operation, if this library knows it.
        operation: Option<Operation>,
    },
    /// This node suspended the session with it.
    #[error("this node suspended the session with it; resume it, and make a new group")]
    Suspended,
    /// Its buffer has another length.
    #[error(
        "its buffer has {came} bytes instead of {awaited}; all members must name the same lengths"
    )]
    Length {
        /// Bytes of its message or buffer.
        came: u64,
        /// Bytes that this member's arguments demand.
        awaited: u64,
    },
    /// It named another root.
    #[error(
        "it named member {came} as the root instead of {awaited}; all members must name the same"
    )]
    Root {
        /// The rank that it named.
        came: u32,
        /// The rank that this member named.
        awaited: u32,
    },
    /// Its buffer holds other elements, its part has another length, or it combines differently.
    #[error(
        "it named other elements, lengths or another combination; all members must name the same"
    )]
    Arguments,
    /// Another member noticed that it failed, or that its calls differ.
    #[error("as node {0} reports; its error says why")]
    Reported(NodeId),
    /// Its own call failed, for example because its time was over.
    #[error("it gave up; its own error says why")]
    GaveUp,
}

impl MemberFailure {
    /// Returns the difference of a member's arguments, in its operation of this number.
    pub(super) fn of_arguments(number: u64, came: Arguments, awaited: Arguments) -> Option<Self> {
        if came == awaited {
            return None;
        }
        Some(if came.kind != awaited.kind {
            Self::Other {
                number,
                operation: Some(came.kind),
            }
        } else if came.root != awaited.root {
            let (came, awaited) = (came.root, awaited.root);
            Self::Root { came, awaited }
        } else if came.length != awaited.length {
            let (came, awaited) = (came.length, awaited.length);
            Self::Length { came, awaited }
        } else {
            Self::Arguments
        })
    }
}
