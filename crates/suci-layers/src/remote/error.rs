//! Why an operation failed.

use super::layout::InvalidLayout;
use super::region::RegionId;
use core::fmt;
use suci_proto::types::NodeId;

/// Why a target did not apply a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RemoteErrorKind {
    /// The target never registered a region of this number.
    NoRegion = 1,
    /// The region was withdrawn.
    Withdrawn,
    /// The key is not the region's.
    WrongKey,
    /// The region was registered without the right that the request needs.
    NoRight,
    /// Some of the bytes lie beyond the end of the region.
    OutOfBounds,
    /// The integer's address is no multiple of its width.
    Unaligned,
    /// The request asks for more bytes than one reply carries.
    TooLong,
    /// The target could not parse the request.
    Malformed,
}

impl RemoteErrorKind {
    const ALL: [Self; 8] = [
        Self::NoRegion,
        Self::Withdrawn,
        Self::WrongKey,
        Self::NoRight,
        Self::OutOfBounds,
        Self::Unaligned,
        Self::TooLong,
        Self::Malformed,
    ];

    pub(super) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Returns what to do about it.
    const fn remedy(self) -> &'static str {
        match self {
            Self::NoRegion => {
                "the target has no such region: take number and key from the node that registered it"
            }
            Self::Withdrawn => "the region was withdrawn: let its owner register it again",
            Self::WrongKey => {
                "the key is wrong: each registration has a new one, which its owner must tell"
            }
            Self::NoRight => {
                "the region lacks the right: let its owner register it with read, write or atomic"
            }
            Self::OutOfBounds => {
                "the bytes lie beyond the end of the region: register more, or correct the offset"
            }
            Self::Unaligned => {
                "the integer is not aligned: use an offset that is a multiple of its width, in \
                 memory that begins at a multiple of 8"
            }
            Self::TooLong => "the reply would be too long: ask for at most 1,048,576 bytes at once",
            Self::Malformed => {
                "the target cannot parse the request: install the same version at both ends"
            }
        }
    }
}

/// The failure of a request at its target. The target changed nothing, except that a region that
/// is withdrawn during a long put may hold a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteError {
    /// The rule that the request broke.
    pub kind: RemoteErrorKind,
    /// The region that the request named; 0 if it was malformed.
    pub region: RegionId,
    /// The lowest offset of the request; 0 if it was malformed.
    pub offset: u64,
    /// The number of bytes of the request.
    pub length: u64,
}

impl fmt::Display for RemoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            region,
            offset,
            length,
        } = self;
        let remedy = kind.remedy();
        write!(
            f,
            "region {region}, offset {offset}, {length} bytes: {remedy}"
        )
    }
}

impl core::error::Error for RemoteError {}

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The target reports an error.
    Remote(RemoteError),
    /// The session with the target ended. Whether the target applied the operation is unknown.
    Ended,
    /// The target's library refused the message. It was not applied.
    Refused,
    /// The target's file of public keys does not permit this node one-sided operations. It was not
    /// applied.
    NotPermitted,
    /// This node's program cancelled it. Whether the target applied it is unknown.
    Cancelled,
    /// The target's reply does not suit the request.
    InvalidReply,
}

/// The failure of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationError {
    /// The target.
    pub node: NodeId,
    /// Why it failed.
    pub cause: Cause,
    /// How many operations failed at this target since the last flush or quiet. The cause is that
    /// of the first. For other operations: 1.
    pub count: u64,
}

impl OperationError {
    pub(super) const fn new(node: NodeId, cause: Cause) -> Self {
        let count = 1;
        Self { node, cause, count }
    }
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, cause, count } = self;
        write!(f, "node {node}: ")?;
        match cause {
            Cause::Remote(error) => write!(f, "{error}")?,
            Cause::Ended => f.write_str(
                "its session ended before the operation was done: exchange regions and keys again",
            )?,
            Cause::Refused => f.write_str(
                "it refused the message: check region and key, or put fewer bytes at once",
            )?,
            Cause::NotPermitted => f.write_str(
                "it does not permit this node one-sided operations: add the word one-sided to this node's line in \
                 the file of public keys there",
            )?,
            Cause::Cancelled => f.write_str("this node's program cancelled the operation")?,
            Cause::InvalidReply => {
                f.write_str("its reply is invalid: install the same version at both ends")?;
            }
        }
        match count {
            0 | 1 => Ok(()),
            count => write!(f, " (the first of {count} failed operations)"),
        }
    }
}

impl core::error::Error for OperationError {}

/// Why an operation was not begun. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeginError {
    /// As many requests to this target wait to be sent as may: let the node send first.
    QueueFull,
    /// As many operations are open as may: wait for one to complete.
    TooManyOperations,
    /// The data, or the memory for the result, has another length than the layout.
    Length {
        /// Bytes that the layout has.
        layout: u64,
        /// Bytes that are there.
        given: u64,
    },
    /// A get has more bytes than it may: split it.
    TooLong,
    /// The memory for the result is shorter than its layout.
    Destination,
    /// The numbers are no layout.
    Layout(InvalidLayout),
}

impl From<InvalidLayout> for BeginError {
    fn from(error: InvalidLayout) -> Self {
        Self::Layout(error)
    }
}

impl fmt::Display for BeginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueFull => {
                f.write_str("too many requests wait for this target: let the node send first")
            }
            Self::TooManyOperations => {
                f.write_str("too many operations are open: wait for one to complete")
            }
            Self::Length { layout, given } => write!(
                f,
                "the layout has {layout} bytes and the data {given}: give as many"
            ),
            Self::TooLong => f.write_str("the get is too long: split it"),
            Self::Destination => {
                f.write_str("the memory for the result is shorter than its layout: lend more")
            }
            Self::Layout(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for BeginError {}
