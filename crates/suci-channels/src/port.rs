//! The ports at which the layers of the library take messages without the program.

use suci_link::types::ChannelId;

/// Where a layer takes its input: the messages on its channels ([`ChannelId::is_handled`]), and
/// news of peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
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
    /// Messages that receives of programs match.
    Matching,
}

/// How many ports there are.
pub const PORTS: usize = Port::ALL.len();

impl Port {
    /// All ports. Their numbers are the positions here.
    pub const ALL: [Self; 6] = [
        Self::Active,
        Self::Remote,
        Self::Membership,
        Self::Sockets,
        Self::Forwarded,
        Self::Matching,
    ];

    /// Returns true if its layer is told what becomes of peers.
    #[must_use]
    pub const fn hears_of_peers(self) -> bool {
        matches!(self, Self::Remote | Self::Sockets | Self::Matching)
    }

    /// Returns true if its layer is told which of its messages the receiver refused. The program is
    /// told of others.
    #[must_use]
    pub const fn hears_of_refusals(self) -> bool {
        matches!(self, Self::Remote | Self::Sockets)
    }

    /// Returns the port of messages on a channel of the library.
    #[must_use]
    pub const fn of(channel: ChannelId) -> Self {
        if channel.carries_active_messages() {
            Self::Active
        } else if channel.carries_membership() {
            Self::Membership
        } else if channel.carries_sockets() {
            Self::Sockets
        } else if channel.carries_forwarded() {
            Self::Forwarded
        } else if channel.carries_matched() {
            Self::Matching
        } else {
            Self::Remote
        }
    }
}

const _: () = {
    let mut at = 0;
    while at < PORTS {
        assert!(
            Port::ALL[at] as usize == at,
            "they are numbered by position"
        );
        at += 1;
    }
};

/// A set of ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ports(u8);

impl Ports {
    /// All ports.
    pub const ALL: Self = Self((1 << PORTS) - 1);

    /// Returns the set with this port, too.
    #[must_use]
    pub const fn with(self, port: Port) -> Self {
        Self(self.0 | 1 << port as u8)
    }

    /// Returns true if the port is in the set.
    #[must_use]
    pub const fn has(self, port: Port) -> bool {
        self.0 & 1 << port as u8 != 0
    }
}
