//! The handlers of the library, which take messages without the program.

use suci_link::types::ChannelId;

/// A part of the library above the engine that takes the messages of its channels itself
/// ([`ChannelId::is_handled`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handler {
    /// Active messages: the program extracts them.
    Active,
    /// One-sided operations, and the answers to them.
    Remote,
    /// Membership of a cluster.
    Membership,
    /// Sockets.
    Sockets,
    /// Routes: packets of other nodes.
    Forwarded,
}

/// How many handlers there are.
pub const HANDLERS: usize = Handler::ALL.len();

impl Handler {
    /// All handlers. Their numbers are the positions here.
    pub const ALL: [Self; 5] = [
        Self::Active,
        Self::Remote,
        Self::Membership,
        Self::Sockets,
        Self::Forwarded,
    ];

    /// Returns the handler of messages on a channel of the library.
    pub const fn of(channel: ChannelId) -> Self {
        if channel.carries_active_messages() {
            Self::Active
        } else if channel.carries_membership() {
            Self::Membership
        } else if channel.carries_sockets() {
            Self::Sockets
        } else if channel.carries_forwarded() {
            Self::Forwarded
        } else {
            Self::Remote
        }
    }
}
