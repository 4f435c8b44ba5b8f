//! The outer packet (docs/protocol-layers.md, "Routes").

use bytes::Bytes;
use suci_proto::Outgoing;
use suci_proto::limits::ETHERNET_MTU;
use suci_proto::types::{ChannelId, Kind, NodeId};
use suci_proto::wire::{Malformed, Reader, varint};

/// The kind of the layer's messages.
pub const PACKET: Kind = Kind(64);

/// The hops of a packet at its origin. It must be larger than the longest way, and small, since a
/// packet in a loop goes round so many times.
pub const MAX_HOPS: u8 = 16;

/// The bits of the header's last byte that hold the hops. Those above hold the turn.
const HOPS_BITS: u32 = 5;

/// Turns that a header can name.
pub(super) const TURNS: u8 = 1 << (8 - HOPS_BITS);

/// Longest packet that the engine of an end makes, in bytes: with its outer header and what usually
/// rides with it, it fits one packet of [`ETHERNET_MTU`]. A hop with smaller packets cuts it, as
/// any message.
pub const CARRIED: usize = ETHERNET_MTU - 96;

/// Longest packet that is carried.
pub(super) const LONGEST: usize = ETHERNET_MTU;

/// Channels that the packets to a neighbour share. A lost packet holds up those of its channel
/// only.
pub(super) const CHANNELS: u32 = 8;

/// The header of an outer packet: the user header of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OuterHeader {
    /// The node that the packet is for.
    pub destination: NodeId,
    /// The node that made it.
    pub source: NodeId,
    /// How often it may be sent, this time included: 1 to [`MAX_HOPS`].
    pub hops: u8,
    /// Which of their routes the nodes on the way take, below 8: 0 is the first of each.
    pub turn: u8,
}

impl OuterHeader {
    /// Reads the header.
    ///
    /// # Errors
    /// It is cut short, something follows, a node ID is too large, or the hops are out of range.
    pub fn read(kind: Kind, user_header: &[u8]) -> Result<Self, Malformed> {
        if kind != PACKET {
            return Err(Malformed("a kind that no outer packet has"));
        }
        let mut reader = Reader::new(user_header);
        let mut node = || {
            let id = u32::try_from(reader.varint()?);
            id.map_err(|_| Malformed("a node ID beyond 32 bits"))
        };
        let (destination, source) = (NodeId(node()?), NodeId(node()?));
        let last = reader.u8()?;
        let (hops, turn) = (last & ((1 << HOPS_BITS) - 1), last >> HOPS_BITS);
        if !reader.is_empty() || !(1..=MAX_HOPS).contains(&hops) {
            return Err(Malformed("hops out of range, or bytes behind them"));
        }
        Ok(Self {
            destination,
            source,
            hops,
            turn,
        })
    }

    /// Returns the bytes of the header.
    #[must_use]
    pub fn write(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(11);
        varint::put(&mut bytes, self.destination.0.into());
        varint::put(&mut bytes, self.source.0.into());
        bytes.push(self.hops | (self.turn % TURNS) << HOPS_BITS);
        bytes.into()
    }

    /// Returns the channel: packets between the same two nodes stay in order.
    #[must_use]
    pub const fn channel(&self) -> ChannelId {
        let mixed = (self.destination.0 ^ self.source.0.rotate_left(16)).wrapping_mul(0x9e37_79b1);
        ChannelId::of_forwarded((mixed >> 16) % CHANNELS)
    }

    /// Returns the message to a neighbour that carries `packet`.
    #[must_use]
    pub fn carry(&self, packet: Bytes) -> Outgoing {
        Outgoing {
            channel: self.channel(),
            tag: 0,
            kind: PACKET,
            user_header: self.write(),
            payload: packet,
            notify: false,
            token: 0,
            deadline: None,
        }
    }
}
