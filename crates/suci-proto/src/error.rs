//! The errors of an engine's calls.

use crate::config::ConfigError;
use crate::event::Side;
use crate::peer::MAX_UNREAD;
use suci_channels::message::{self, Outgoing};
use suci_link::limits;
use suci_link::types::{ChannelId, Layer, NodeId};

/// Why a message was not accepted. Returns the message where trying again makes sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The node is not in the address book and has not opened a session.
    #[error("node {0} is unknown: add it to the address book")]
    UnknownPeer(NodeId),
    /// The queue to this peer is full: try again when something was acknowledged
    /// ([`Engine::want_room`](crate::Engine::want_room) tells).
    #[error("the queue is full: receive or wait, then send again")]
    WouldBlock(Outgoing),
    /// Messages of several ended sessions wait for the program: until it takes some, no session
    /// with this peer begins.
    #[error(
        "messages of {} ended sessions are unread: receive them, then send again",
        MAX_UNREAD
    )]
    Unread(Outgoing),
    /// The message is longer than any may be.
    #[error(
        "message of {length} bytes: at most {} are possible; send it in parts",
        limits::MAX_MESSAGE
    )]
    TooLong {
        /// Its length.
        length: u64,
    },
    /// The user header is too long.
    #[error(
        "user header of {length} bytes: at most {} are possible; put the rest into the payload",
        limits::MAX_USER_HEADER
    )]
    HeaderTooLong {
        /// Its length.
        length: usize,
    },
    /// The peer allows no more open channels.
    #[error("{open} channels are open, as many as the peer allows: finish some")]
    Channels {
        /// How many may be open at once.
        open: u64,
    },
    /// The peer does not permit this node the channel's layer.
    #[error(
        "the peer does not permit {layer} to this node: add the word {layer} to this node's line in the file of \
         public keys there"
    )]
    NotPermitted {
        /// The layer.
        layer: Layer,
    },
    /// This side finished the channel.
    #[error("channel {} was finished: use a number not used before in this session", .channel.0)]
    Finished {
        /// The channel.
        channel: ChannelId,
    },
    /// The session is suspended: no message is accepted until `by` resumes it.
    #[error(
        "suspended by {}",
        match .by {
            Side::Here => "this side: resume it",
            Side::There => "the peer: wait until it resumes",
        }
    )]
    Suspended {
        /// The message.
        message: Outgoing,
        /// The side that suspended it; this side if both did.
        by: Side,
    },
    /// The session with this peer is being closed: the next one begins when its end was told.
    #[error("the session is closing: wait for the event Ended, then send again")]
    Closing(Outgoing),
    /// The engine is being closed.
    #[error("the engine is closing: it accepts no more messages")]
    Closed,
}

impl SendError {
    /// Returns the message that this error returns, if any.
    pub(super) fn message_mut(&mut self) -> Option<&mut Outgoing> {
        match self {
            Self::WouldBlock(message) | Self::Closing(message) | Self::Unread(message) => {
                Some(message)
            }
            Self::Suspended { message, .. } => Some(message),
            _ => None,
        }
    }
}

/// Why a peer was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// A node reaches itself without an address.
    #[error("node {0} is this node: leave it out")]
    Itself(NodeId),
    /// The cap on peers is reached.
    #[error("max_peers ({0}) peers are known: raise max_peers, or remove a peer")]
    TooMany(usize),
}

/// Why accept or refuse did not apply.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum IncomingError {
    /// No such node.
    #[error("node {0} is unknown: name the node of the event Incoming")]
    UnknownPeer(NodeId),
    /// No such message waits for an answer (any more).
    #[error("{0}")]
    Inbox(message::AnswerError),
}

/// Why a peer's options were not set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// No such node.
    #[error(transparent)]
    Peer(#[from] SendError),
    /// A limit of silence is out of its range.
    #[error(transparent)]
    Range(#[from] ConfigError),
}
