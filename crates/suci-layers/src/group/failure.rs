//! Why operations of groups fail.

use crate::collective::{Arguments, Kind};
use suci_proto::types::NodeId;
use suci_proto::{EndReason, LostCause, Side};

/// Why an operation of a group failed. `E` are the errors of the library that drives the group.
#[derive(Debug)]
pub enum Failure<E> {
    /// An argument makes no sense, or the group cannot begin an operation: the fault and the
    /// remedy.
    Argument(String),
    /// The others count this member as failed, or it gave up an agreement.
    Excluded,
    /// This member could not reach enough others in an agreement: they may go on without it.
    CutOff,
    /// A member cannot take part any more.
    Member {
        /// The member.
        node: NodeId,
        /// The operation in which this member noticed it.
        operation: Kind,
        /// Its failure.
        failure: MemberFailure,
    },
    /// This member's own call failed.
    Here(E),
}

/// The failure of a member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemberFailure {
    /// This member itself: its session with that member is over there.
    #[error(
        "its session with node {0} is over, which has another process or session of it in the group; make a new group, of another number"
    )]
    Outdated(NodeId),
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
        operation: Option<Kind>,
    },
    /// This node suspended the session with it.
    #[error("this node suspended the session with it; resume it, and make a new group")]
    Suspended,
    /// A file of public keys does not permit one of the two groups.
    #[error(
        "{} does not permit it: add the word groups to that line in the file of public keys, and make a new group",
        match .0 {
            Side::Here => "its line at this node",
            Side::There => "this node's line at it",
        }
    )]
    NotPermitted(Side),
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
