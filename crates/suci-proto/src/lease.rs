//! Room for messages that are accepted outside of the engine: a program that sends many similar
//! messages borrows it, and looks up neither peer nor channel for each.

use suci_channels::message;
use suci_channels::message::{Held, SmallOutgoing};
use suci_link::types::{MessageNumber, NodeId};

/// Room for messages to one peer that are like the last one, to be accepted without the engine.
#[must_use = "dropped, it takes messages along that the engine has accepted"]
#[derive(Debug)]
pub struct Lease {
    pub(crate) node: NodeId,
    pub(crate) room: message::ChannelLease,
}

impl Lease {
    /// Returns the node to which the messages go.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Accepts a message and returns its number. Returns `None` and does nothing if the message is
    /// not like the others, or there is no room for more.
    #[inline(always)]
    pub fn push(&mut self, message: &SmallOutgoing<'_>) -> Option<MessageNumber> {
        self.room.push(message)
    }

    /// Returns the messages that were accepted, and their bytes.
    #[must_use]
    pub fn accepted(&self) -> Held {
        self.room.accepted()
    }
}
