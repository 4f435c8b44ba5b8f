//! The ports at which the layers of the library take messages without the program.
//!
//! Steps to a new layer; `matching` is the template, `sockets` one with timers:
//! 1. Its number and channels: [`Layer`] and [`ChannelId`] in `suci-link/src/types.rs`, its name
//!    for files of public keys with it. Its [`Port`] here, unless it has no port as groups have
//!    none: does it hear what becomes of peers, and which of its messages were refused? What
//!    becomes of the last messages of a session is said in `suci-proto/src/peer/end.rs`.
//! 2. Its rules in a folder of `suci-layers`, without input and output, with a model and hostile
//!    peers in its tests.
//! 3. In `suci`: `driver/NAME.rs` serves the port. It must be called in `Driver::output`, since the
//!    builder opens all ports and an input that nobody takes keeps the driver awake; its timers go
//!    into `Driver::punctual_time`. Calls of `Node` and `SharedNode` go through one host trait, as
//!    in `matching/host.rs`.
//! 4. In `suci-sim`: a program (`src/NAME.rs`), an oracle, a profile, and their places in
//!    `node.rs`, `world.rs`, `script.rs` and `options.rs`; a planted fault that the oracle finds
//!    (`suci-link/src/plant.rs`).
//! 5. `suci.h` with its table of Rust's methods, the list of words in `suci/src/security/key.rs`
//!    and SECURITY.md, `docs/protocol-layers.md` with vectors, a decision, a fuzz target.

use suci_link::types::{ChannelId, Layer};

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
        match channel.layer() {
            Layer::Active => Self::Active,
            Layer::Membership => Self::Membership,
            Layer::Sockets => Self::Sockets,
            Layer::Routes => Self::Forwarded,
            Layer::Matching => Self::Matching,
            // The first three have no port, and nobody asks for it.
            Layer::Messages
            | Layer::Replies
            | Layer::Groups
            | Layer::OneSided
            | Layer::OneSidedReplies => Self::Remote,
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
