//! Why operations of groups fail.

use super::{MemberFailure, Operation};
use crate::error::Error;
use std::time::Duration;
use suci_layers::group::Failure;
use suci_proto::types::NodeId;

/// Why a collective operation failed.
#[derive(thiserror::Error)]
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
    /// In an agreement this member could not reach enough others, which may go on without it:
    /// [`Group::agree`](super::Group::agree) has the rule. It takes part in nothing more.
    #[error(
        "group {group}: this member was cut off from too many others, which may go on without it: once it reaches them again, start its process anew or make a new group, of another number, with those that are left"
    )]
    CutOff {
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

impl GroupError {
    /// Returns the error of an operation of the group of this number.
    pub(super) fn of(group: u32, failure: Failure<Self>) -> Self {
        match failure {
            Failure::Argument(problem) => Self::Argument { group, problem },
            Failure::Excluded => Self::Excluded { group },
            Failure::CutOff => Self::CutOff { group },
            Failure::Member {
                node,
                operation,
                failure,
            } => Self::Member {
                group,
                node,
                operation,
                failure,
            },
            Failure::Here(error) => error,
        }
    }
}
