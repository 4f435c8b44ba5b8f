//! Encryption as the engine sees it: traits that a cryptographic library implements.
//!
//! The engine decides when a handshake is made, which packet is sealed under which number and key
//! phase, and what an unauthentic packet does. An implementation of these traits holds the keys and
//! the randomness. PROTOCOL.md, section 18, fixes the bytes.
//!
//! The life of a connection's keys:
//! 1. The initiator calls [`Handshakes::initiate`] and puts message 1 into INIT.
//! 2. The responder reads it ([`Handshakes::respond`]), before INIT changes any state, writes
//!    message 2 into ACCEPT ([`Responder::answer`]) and has the connection's keys.
//! 3. The initiator reads message 2 ([`Initiator::finish`]) and has the same keys.
//! 4. Each packet is sealed by [`Seal`] and opened by [`Open`] under its packet number. A direction
//!    moves to its next key phase by [`Seal::next`] and [`Open::next`].
//!
//! Messages are never made twice: a repeated INIT or ACCEPT repeats the bytes. Dropping a value of
//! these traits must erase its keys. `Debug` output must not show any.

mod phases;

pub use phases::{PhaseLimit, Readiness, Sealing};

use crate::types::{Layers, NodeId, PacketNumber};
use crate::wire::HEADER;
use core::fmt;
use std::sync::Arc;

/// Bytes of the tag at the end of a sealed packet.
pub const AEAD_TAG: usize = 16;

/// Protection of the packets of a node. Both ends of a connection need the same mode.
#[derive(Clone, Default)]
pub enum Security {
    /// A checksum and a random connection tag: they detect accidents, not attackers.
    #[default]
    Plain,
    /// Packets are encrypted and authenticated with keys that these handshakes make.
    Sealed(Arc<dyn Handshakes>),
}

impl Security {
    /// Returns true if packets are sealed.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        matches!(self, Self::Sealed(_))
    }

    /// Returns the layers that `peer` may use towards this node.
    pub fn layers(&self, peer: NodeId) -> Layers {
        match self {
            Self::Plain => Layers::ALL,
            Self::Sealed(makes) => makes.layers(peer),
        }
    }

    /// Returns true if packets are sealed under the keys of nodes.
    pub fn has_node_keys(&self) -> bool {
        matches!(self, Self::Sealed(makes) if makes.kind() == KeyKind::Node)
    }
}

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "Plain",
            Self::Sealed(_) => "Sealed",
        })
    }
}

/// The keys that handshakes are made under. Both ends of a connection need the same kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// One key that all nodes share: who has it can pose as any node.
    Cluster,
    /// A key pair for each node.
    Node,
}

/// Why a handshake message is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// No key that this node accepts fits, or the message or its context was changed on the way.
    #[error("the handshake message is under another key, or was changed on the way")]
    WrongKey,
    /// This node has no key for the peer.
    #[error("there is no key for that node")]
    UnknownPeer,
    /// The library failed, or the system gave no random bytes. Another attempt may succeed.
    #[error("no keys can be made now: the library or the system's randomness failed")]
    Unavailable,
}

/// The packet is not authentic: it was changed, forged, or sealed under another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the packet is not authentic")]
pub struct NotAuthentic;

/// Makes the handshakes of a node. Shared by its shards; it may change its keys at any time.
///
/// `context` is public and authenticated: the whole INIT or ACCEPT, with zeros for the checksum and
/// for the handshake message. The other side must pass the same bytes, else its call fails.
pub trait Handshakes: Send + Sync {
    /// Returns the length of every handshake message in bytes, at most
    /// [`MAX_SEALED`](crate::limits::MAX_SEALED). It never changes.
    fn message_len(&self) -> usize;

    /// Returns the kind of the keys. It never changes.
    fn kind(&self) -> KeyKind {
        KeyKind::Cluster
    }

    /// Returns the layers that `peer` may use towards this node.
    fn layers(&self, _peer: NodeId) -> Layers {
        Layers::ALL
    }

    /// Begins a handshake with `peer`: writes message 1, which fills `message`, under a fresh
    /// ephemeral key.
    ///
    /// While keys are rotated a node has several. `keys_refused`, the number of handshakes in a row
    /// that the peer refused for their key, selects one of them, modulo their number; 0 is the
    /// newest.
    ///
    /// # Errors
    /// [`HandshakeError::UnknownPeer`], [`HandshakeError::Unavailable`].
    fn initiate(
        &self,
        peer: NodeId,
        keys_refused: u32,
        context: &[u8],
        message: &mut [u8],
    ) -> Result<Box<dyn Initiator>, HandshakeError>;

    /// Reads message 1 under every key that this node accepts of `peer`. Called with bytes of
    /// anybody who proved an address, so it should cost little: no key exchange.
    ///
    /// # Errors
    /// [`HandshakeError::WrongKey`] if no key fits, also for a message of another length.
    fn respond(
        &self,
        peer: NodeId,
        context: &[u8],
        message: &[u8],
    ) -> Result<Box<dyn Responder>, HandshakeError>;
}

/// The state of an initiator between messages 1 and 2.
pub trait Initiator: Send {
    /// Reads message 2 and returns the connection's keys. It is not called again after that.
    ///
    /// # Errors
    /// The message does not belong to this handshake. The state is unchanged, since anybody may
    /// have sent that message: the engine calls it again for another one.
    fn finish(&mut self, context: &[u8], message: &[u8]) -> Result<ConnectionKeys, HandshakeError>;
}

/// The state of a responder between messages 1 and 2.
pub trait Responder: Send {
    /// Writes message 2, which fills `message`, under a fresh ephemeral key, and returns the
    /// connection's keys.
    ///
    /// # Errors
    /// [`HandshakeError::Unavailable`].
    fn answer(
        self: Box<Self>,
        context: &[u8],
        message: &mut [u8],
    ) -> Result<ConnectionKeys, HandshakeError>;
}

/// The keys of one connection, at its end that these belong to. Both are in key phase 0.
pub struct ConnectionKeys {
    /// For packets to the peer.
    pub seal: Box<dyn Seal>,
    /// For packets from the peer.
    pub open: Box<dyn Open>,
}

impl fmt::Debug for ConnectionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectionKeys")
    }
}

/// Seals the packets of one connection, direction and key phase.
///
/// The engine never passes a number twice, and at most
/// [`PHASE_PACKETS`](crate::limits::PHASE_PACKETS) of them. The nonce is made of the number alone.
pub trait Seal: Send {
    /// Encrypts the concatenation of `body` and writes it to `sealed`, followed by the tag, which
    /// also authenticates `header`. `sealed` is [`AEAD_TAG`] bytes longer than the pieces together;
    /// its content before means nothing. A library that only encrypts in place copies the pieces
    /// there first.
    ///
    /// If the library fails, `sealed` must be filled with zeros: the receiver drops such a packet.
    fn seal(
        &mut self,
        number: PacketNumber,
        header: &[u8; HEADER],
        body: &[&[u8]],
        sealed: &mut [u8],
    );

    /// Returns the next key phase. Its key is derived one-way: this phase's key does not follow
    /// from it. It is not called again: what it is derived from should be erased.
    fn next(&self) -> Box<dyn Seal>;
}

/// Opens the packets of one connection, direction and key phase.
pub trait Open: Send {
    /// Checks the tag in the last [`AEAD_TAG`] bytes of `body` over `header` and the bytes before
    /// it, and decrypts these in place.
    ///
    /// # Errors
    /// The packet is not authentic, or `body` is shorter than a tag. `body` then means nothing.
    fn open(
        &self,
        number: PacketNumber,
        header: &[u8; HEADER],
        body: &mut [u8],
    ) -> Result<(), NotAuthentic>;

    /// Returns the next key phase, as [`Seal::next`].
    fn next(&self) -> Box<dyn Open>;
}
