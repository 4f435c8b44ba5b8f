//! The basic types of the protocol: nodes, sessions, channels, messages.

use crate::limits::{GROUP_RESERVE, GROUP_WINDOW_PART};
use core::fmt;
use core::num::NonZeroU16;

/// The ID of a process of the cluster, named once in the address book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// One start of a process: 128 random bits, which distinguish a restarted node from its earlier
/// process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Incarnation(pub u128);

/// How many sessions between one pair of incarnations ended before this one, as a serial number
/// (RFC 1982): after the highest comes 0 again. So each epoch has a successor, and no claim of
/// ended sessions can exhaust the epochs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Returns the next epoch.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// Returns true if this epoch equals `other` or follows it. Of two different epochs, at least
    /// one follows the other.
    #[must_use]
    pub const fn reaches(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0) <= 1 << 63
    }
}

/// The number of a session with a peer, as this node counts them: from 0 for each peer, and higher
/// for each later one. For a peer that was forgotten and connects again, the number is higher than
/// all earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionNumber(pub u32);

impl SessionNumber {
    /// Returns the number of the session that follows.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

impl fmt::Display for SessionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Where a message came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// The peer that sent it.
    pub node: NodeId,
    /// The session in which it was sent.
    pub session: SessionNumber,
}

/// An ordered sequence of messages between two nodes. The top byte names the layer (0: messages).
/// Channels never block one another.
///
/// Programs use [`ChannelId(0)`](ChannelId) to [`ChannelId::LAST_USER`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId(pub u32);

/// The layer of channels that carry replies, in the top byte.
const REPLIES: u32 = 1 << 24;

/// The layer of channels that carry messages of groups, in the top byte.
const GROUPS: u32 = 2 << 24;

/// The layer of active messages, in the top byte.
const ACTIVE: u32 = 3 << 24;

/// The layer of one-sided operations, in the top byte.
const REMOTE: u32 = 4 << 24;

/// The layer of the answers to one-sided operations, in the top byte.
const REMOTE_REPLIES: u32 = 5 << 24;

/// The layer of membership, in the top byte.
const MEMBERSHIP: u32 = 6 << 24;

/// The layer of sockets, in the top byte.
const SOCKETS: u32 = 7 << 24;

/// The layer of packets that nodes forward, in the top byte.
const FORWARDED: u32 = 8 << 24;

/// The layer of messages that receives of programs match, in the top byte.
const MATCHED: u32 = 9 << 24;

impl ChannelId {
    /// The last channel of programs. Higher channels belong to the library's other layers.
    pub const LAST_USER: Self = Self((1 << 24) - 1);

    /// Returns true if programs may use it: its top byte is 0.
    #[must_use]
    pub const fn is_user(self) -> bool {
        self.0 <= Self::LAST_USER.0
    }

    /// Returns the channel on which the requests of this one are answered: the same number in the
    /// layer of replies.
    #[must_use]
    pub const fn replies(self) -> Self {
        Self(REPLIES | (self.0 & 0x00ff_ffff))
    }

    /// Returns the channel whose priority it has: replies have that of the requests.
    pub const fn ranked_as(self) -> Self {
        if self.carries_replies() {
            Self(self.0 & 0x00ff_ffff)
        } else {
            self
        }
    }

    /// Returns the channel of the group with this number, of which the lower 24 bits count.
    #[must_use]
    pub const fn of_group(number: u32) -> Self {
        Self(GROUPS | (number & 0x00ff_ffff))
    }

    /// Returns the number of a channel of a group.
    #[must_use]
    pub const fn of_group_number(self) -> u32 {
        self.0 & 0x00ff_ffff
    }

    /// Returns the memory credit of this channel, where one of the program has `window` bytes. A
    /// group has less of it, though room for its longest message without RTS: its messages wait for
    /// an operation, while others of the session go on.
    #[must_use]
    pub fn window(self, window: u64) -> u64 {
        match self.is_of_group() {
            true => (window / GROUP_WINDOW_PART).max(GROUP_RESERVE).min(window),
            false => window,
        }
    }

    /// Returns true if it belongs to a group.
    #[must_use]
    pub const fn is_of_group(self) -> bool {
        self.0 & 0xff00_0000 == GROUPS
    }

    /// Returns true if it carries replies.
    #[must_use]
    pub const fn carries_replies(self) -> bool {
        self.0 & 0xff00_0000 == REPLIES
    }

    /// Returns the channel of active messages with this number, of which the lower 24 bits count.
    #[must_use]
    pub const fn of_active_messages(number: u32) -> Self {
        Self(ACTIVE | (number & 0x00ff_ffff))
    }

    /// The channel of the active messages that programs send.
    pub const ACTIVE: Self = Self::of_active_messages(0);

    /// The channel of the active messages that handlers send: they need not wait for those of
    /// programs.
    pub const ACTIVE_BY_HANDLERS: Self = Self::of_active_messages(1);

    /// Returns true if it carries active messages.
    #[must_use]
    pub const fn carries_active_messages(self) -> bool {
        self.0 & 0xff00_0000 == ACTIVE
    }

    /// Returns the channel of one-sided operations with this number, of which the lower 24 bits
    /// count.
    #[must_use]
    pub const fn of_remote(number: u32) -> Self {
        Self(REMOTE | (number & 0x00ff_ffff))
    }

    /// Returns true if it carries one-sided operations.
    #[must_use]
    pub const fn carries_remote(self) -> bool {
        self.0 & 0xff00_0000 == REMOTE
    }

    /// Returns true if it carries answers to one-sided operations.
    #[must_use]
    pub const fn carries_remote_replies(self) -> bool {
        self.0 & 0xff00_0000 == REMOTE_REPLIES
    }

    /// The channel on which members of a cluster tell each other of members.
    pub const MEMBERSHIP: Self = Self(MEMBERSHIP);

    /// Returns true if it belongs to the layer of membership.
    #[must_use]
    pub const fn carries_membership(self) -> bool {
        self.0 & 0xff00_0000 == MEMBERSHIP
    }

    /// Returns the channel of sockets with this number, of which the lower 24 bits count.
    #[must_use]
    pub const fn of_sockets(number: u32) -> Self {
        Self(SOCKETS | (number & 0x00ff_ffff))
    }

    /// Returns true if it carries messages of sockets.
    #[must_use]
    pub const fn carries_sockets(self) -> bool {
        self.0 & 0xff00_0000 == SOCKETS
    }

    /// Returns the channel of forwarded packets with this number, of which the lower 24 bits count.
    #[must_use]
    pub const fn of_forwarded(number: u32) -> Self {
        Self(FORWARDED | (number & 0x00ff_ffff))
    }

    /// Returns true if it carries forwarded packets.
    #[must_use]
    pub const fn carries_forwarded(self) -> bool {
        self.0 & 0xff00_0000 == FORWARDED
    }

    /// Returns the channel of matched messages with this number, of which the lower 24 bits count.
    #[must_use]
    pub const fn of_matching(number: u32) -> Self {
        Self(MATCHED | (number & 0x00ff_ffff))
    }

    /// Returns true if it carries messages that receives of programs match.
    #[must_use]
    pub const fn carries_matched(self) -> bool {
        self.0 & 0xff00_0000 == MATCHED
    }

    /// Returns true if its messages depend on no program: no event tells of their outcomes, and no
    /// flush waits for them.
    #[must_use]
    pub const fn is_internal(self) -> bool {
        self.carries_membership() || self.carries_forwarded()
    }

    /// Returns true if its messages go to the port of a layer, where there is one, and not to the
    /// program.
    #[must_use]
    pub const fn is_handled(self) -> bool {
        self.0 >= ACTIVE && self.0 < MATCHED + (1 << 24)
    }

    /// Returns its layer. A layer that is not known here counts as messages: the program gets them.
    #[must_use]
    pub const fn layer(self) -> Layer {
        let number = (self.0 >> 24) as usize;
        if number < Layer::ALL.len() {
            Layer::ALL[number]
        } else {
            Layer::Messages
        }
    }

    /// Returns true if its messages may use the memory credit that is kept for replies: the
    /// receiver takes them without its program.
    pub const fn may_use_reserve(self) -> bool {
        self.carries_replies() || self.carries_remote_replies()
    }
}

/// The purpose of messages. The number is the top byte of their channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Layer {
    /// Messages of programs, and their requests.
    Messages = 0,
    /// Replies to requests.
    Replies = 1,
    /// Collective operations of groups.
    Groups = 2,
    /// Active messages.
    Active = 3,
    /// One-sided operations.
    OneSided = 4,
    /// Answers to one-sided operations.
    OneSidedReplies = 5,
    /// Membership of the cluster.
    Membership = 6,
    /// Sockets.
    Sockets = 7,
    /// Packets that nodes forward.
    Routes = 8,
    /// Messages that receives of programs match.
    Matching = 9,
}

impl Layer {
    /// All layers, by their numbers.
    pub const ALL: [Self; 10] = [
        Self::Messages,
        Self::Replies,
        Self::Groups,
        Self::Active,
        Self::OneSided,
        Self::OneSidedReplies,
        Self::Membership,
        Self::Sockets,
        Self::Routes,
        Self::Matching,
    ];

    /// Returns true if its messages go to a port, and not to the program.
    const fn is_handled(self) -> bool {
        match self {
            Self::Messages | Self::Replies | Self::Groups => false,
            Self::Active
            | Self::OneSided
            | Self::OneSidedReplies
            | Self::Membership
            | Self::Sockets
            | Self::Routes
            | Self::Matching => true,
        }
    }

    /// Returns true if a node may be denied it.
    const fn is_deniable(self) -> bool {
        match self {
            Self::Replies | Self::OneSidedReplies => false,
            Self::Messages
            | Self::Groups
            | Self::Active
            | Self::OneSided
            | Self::Membership
            | Self::Sockets
            | Self::Routes
            | Self::Matching => true,
        }
    }

    /// The layers that a node may be denied. Answers are not among them: a node answers only what
    /// it was asked.
    pub const DENIABLE: [Self; 8] = [
        Self::Messages,
        Self::Groups,
        Self::Active,
        Self::OneSided,
        Self::Membership,
        Self::Sockets,
        Self::Routes,
        Self::Matching,
    ];

    /// Returns its name in files of public keys.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Replies => "replies",
            Self::Groups => "groups",
            Self::Active => "active",
            Self::OneSided => "one-sided",
            Self::OneSidedReplies => "one-sided-replies",
            Self::Membership => "membership",
            Self::Sockets => "sockets",
            Self::Routes => "routes",
            Self::Matching => "matching",
        }
    }
}

// The lists agree with the layers, and with the channels that are handled.
const _: () = {
    let (mut at, mut deniable) = (0, 0);
    while at < Layer::ALL.len() {
        let layer = Layer::ALL[at];
        assert!(layer as usize == at, "they are numbered by position");
        let channel = ChannelId((at as u32) << 24);
        assert!(channel.is_handled() == layer.is_handled());
        if layer.is_deniable() {
            assert!(Layer::DENIABLE[deniable] as usize == at);
            deniable += 1;
        }
        at += 1;
    }
    assert!(deniable == Layer::DENIABLE.len());
};

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The layers that one node may use towards another. Answers are always among them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Layers(NonZeroU16);

impl Layers {
    /// All layers, also those of later versions.
    pub const ALL: Self = Self(NonZeroU16::MAX);

    /// Answers alone.
    pub const NONE: Self = Self::of(0);

    /// Returns the layers with these bits, one for each number of a layer, and answers.
    const fn of(bits: u16) -> Self {
        let answers = 1 << Layer::Replies as u8 | 1 << Layer::OneSidedReplies as u8;
        match NonZeroU16::new(bits | answers) {
            Some(bits) => Self(bits),
            None => Self::ALL,
        }
    }

    /// Returns these layers and `layer`.
    #[must_use]
    pub const fn with(self, layer: Layer) -> Self {
        Self::of(self.0.get() | 1 << layer as u8)
    }

    /// Returns the layers of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self::of(self.0.get() | other.0.get())
    }

    /// Returns true if `layer` may be used.
    #[must_use]
    pub const fn permits(self, layer: Layer) -> bool {
        self.0.get() & 1 << layer as u8 != 0
    }

    /// Returns true if all layers of `other` may be used.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        other.0.get() & !self.0.get() == 0
    }

    /// Returns the layers with these bits.
    #[must_use]
    pub fn from_wire(bits: u64) -> Self {
        Self::of(u16::try_from(bits & u64::from(u16::MAX)).unwrap_or(0))
    }

    /// Returns their bits.
    #[must_use]
    pub fn to_wire(self) -> u64 {
        self.0.get().into()
    }
}

impl Default for Layers {
    fn default() -> Self {
        Self::ALL
    }
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL {
            return f.write_str("all");
        }
        let named = Layer::DENIABLE.iter().filter(|layer| self.permits(**layer));
        f.debug_set().entries(named).finish()
    }
}

/// The position of a message in its channel, from 0.
pub type MessageNumber = u64;

/// The number of a packet on one connection: never reused, never truncated, never wrapping.
pub type PacketNumber = u64;

/// The kind of a message, defined by the program. Programs use 128 to 255; 0 to 127 belong to the
/// library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kind(pub u8);

impl Kind {
    /// A request: its receiver may answer it.
    pub const REQUEST: Self = Self(1);

    /// An empty message in the place of one that its sender cancelled before any of it was sent.
    /// The receiving library discards it; programs never see it.
    pub const VOID: Self = Self(2);

    /// An active message: its user header names its handler.
    pub const ACTIVE: Self = Self(48);

    /// The kind of a message for which the program set none.
    ///
    /// The lowest kind that programs may use.
    pub const USER: Self = Self(128);

    /// Returns true if programs may use it: it is at least 128.
    #[must_use]
    pub const fn is_user(self) -> bool {
        self.0 >= Self::USER.0
    }
}

impl Default for Kind {
    fn default() -> Self {
        Self::USER
    }
}

/// The congestion mark of a datagram (RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// The sender does not support ECN.
    #[default]
    NotEct,
    /// ECN-capable; the mark that Suci sends.
    Ect0,
    /// ECN-capable, the other code point.
    Ect1,
    /// A queue on the way was congested.
    Ce,
}

/// An authentic packet of a peer breaks the protocol. The session with that peer ends with this as
/// its reason; other peers are not affected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Bytes that do not parse although checksum or seal were right.
    #[error("malformed frame: {0}")]
    Malformed(&'static str),
    /// A frame type that was not announced in the handshake.
    #[error("unannounced frame type {0:#04x}")]
    UnknownFrame(u8),
    /// An acknowledgement of a packet that was never sent (optimistic ack).
    #[error("acknowledged packet {0}, which was never sent")]
    NeverSent(PacketNumber),
    /// Data beyond the memory that was granted.
    #[error("sent beyond its memory credit on channel {0}")]
    MemoryCredit(u32),
    /// Fragments that contradict each other about a message's length or description.
    #[error("contradictory fragments of message {message} on channel {channel}")]
    Contradiction {
        /// The channel.
        channel: u32,
        /// The message's number.
        message: MessageNumber,
    },
    /// A frame about a message or channel that cannot exist.
    #[error("frame out of place: {0}")]
    OutOfPlace(&'static str),
    /// The peer used a layer that it may not use here, as this side told it in the handshake.
    #[error("used {0}, which this node's file of public keys does not permit it")]
    NotPermitted(Layer),
    /// The peer exceeds a limit of the state that it may make us keep.
    #[error("limit exceeded: {0}")]
    Limit(&'static str),
}
