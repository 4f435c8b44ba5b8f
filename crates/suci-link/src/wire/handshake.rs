//! Bodies of the handshake packets, after their 28-byte header.

use super::frame::Credit;
use super::header::PLAIN_OVERHEAD;
use super::reader::{Malformed, Reader};
use super::tlv::Params;
use super::varint;
use crate::limits::CONTROL_PACKET;
use crate::types::{Epoch, Incarnation, NodeId};

/// Bytes of a cookie: 8 of coarse time, 16 of MAC. Opaque to the initiator.
pub const COOKIE: usize = 24;

/// Bytes that HELLO and COOKIE share: header, target, incarnation.
const PROLOGUE: usize = PLAIN_OVERHEAD + 4 + 16;
/// Bytes of the epoch in a COOKIE: of fixed length, so that every COOKIE is as long as the shortest
/// HELLO.
const EPOCH: usize = size_of::<u64>();
/// Length of a COOKIE packet.
pub const COOKIE_LEN: usize = PROLOGUE + COOKIE + EPOCH;
/// Least length of a HELLO packet, and the length that we send. The longest accepted is
/// [`CONTROL_PACKET`].
pub const HELLO_LEN: usize = COOKIE_LEN;

const _: () = {
    assert!(
        COOKIE_LEN <= HELLO_LEN,
        "a reply to an unproven address never amplifies"
    );
    assert!(
        HELLO_LEN <= CONTROL_PACKET,
        "HELLO may go beyond the data limit"
    );
};

/// HELLO: asks for a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The node asked.
    pub target: NodeId,
    /// The asker's incarnation.
    pub incarnation: Incarnation,
}

impl Hello {
    /// Reads a body.
    ///
    /// # Errors
    /// The packet is shorter than the COOKIE that would answer it, longer than a control packet, or
    /// padded with anything but zeros.
    pub fn read(body: &[u8]) -> Result<Self, Malformed> {
        const SHORTEST: usize = HELLO_LEN - PLAIN_OVERHEAD;
        const LONGEST: usize = CONTROL_PACKET - PLAIN_OVERHEAD;
        if !(SHORTEST..=LONGEST).contains(&body.len()) {
            return Err(Malformed("length of HELLO"));
        }
        let mut r = Reader::new(body);
        let hello = Self {
            target: NodeId(r.u32()?),
            incarnation: Incarnation(r.u128()?),
        };
        if r.rest().iter().any(|byte| *byte != 0) {
            return Err(Malformed("padding of HELLO"));
        }
        Ok(hello)
    }

    /// Appends the body, padded.
    pub fn put(&self, buf: &mut Vec<u8>) {
        put_prologue(buf, self.target, self.incarnation);
        buf.extend_from_slice(&[0; HELLO_LEN - PROLOGUE]);
    }
}

/// COOKIE: answers HELLO; its sender keeps no peer yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cookie {
    /// The initiator.
    pub target: NodeId,
    /// The responder's incarnation.
    pub incarnation: Incarnation,
    /// To be repeated in INIT.
    pub cookie: [u8; COOKIE],
    /// The epoch in which the responder would begin a session with the initiator's incarnation now.
    pub epoch: Epoch,
}

impl Cookie {
    /// Reads a body.
    ///
    /// # Errors
    /// Its length is not that of a COOKIE.
    pub fn read(body: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(body);
        let read = Self {
            target: NodeId(r.u32()?),
            incarnation: Incarnation(r.u128()?),
            cookie: r.fixed()?,
            epoch: Epoch(r.u64()?),
        };
        end(r, read)
    }

    /// Appends the body.
    pub fn put(&self, buf: &mut Vec<u8>) {
        put_prologue(buf, self.target, self.incarnation);
        buf.extend_from_slice(&self.cookie);
        buf.extend_from_slice(&self.epoch.0.to_le_bytes());
    }
}

/// INIT: opens a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Init<'a> {
    /// The responder.
    pub target: NodeId,
    /// The initiator's incarnation.
    pub incarnation: Incarnation,
    /// The responder's incarnation, from its COOKIE.
    pub peer_incarnation: Incarnation,
    /// The session's epoch as the initiator counts it.
    pub epoch: Epoch,
    /// Index field of packets to the initiator.
    pub index: u32,
    /// Tag field of packets to the initiator.
    pub tag: u64,
    /// From COOKIE.
    pub cookie: [u8; COOKIE],
    /// The responder's first credit; its first packet is ACCEPT.
    pub grant: Credit,
    /// Parameters that the initiator announces.
    pub params: Params,
    /// Frames of the data packet in the same datagram; empty if there is none.
    pub ride: &'a [u8],
}

impl<'a> Init<'a> {
    /// Reads a body. Does not check the frames of `ride`.
    ///
    /// # Errors
    /// It ends too early, or a parameter is wrong.
    pub fn read(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(body);
        Ok(Self {
            target: NodeId(r.u32()?),
            incarnation: Incarnation(r.u128()?),
            peer_incarnation: Incarnation(r.u128()?),
            epoch: Epoch(r.varint()?),
            index: r.u32()?,
            tag: r.u64()?,
            cookie: r.fixed()?,
            grant: Credit::read(&mut r)?,
            params: Params::read(&mut r)?,
            ride: r.rest(),
        })
    }

    /// Appends the body.
    pub fn put(&self, buf: &mut Vec<u8>) {
        put_prologue(buf, self.target, self.incarnation);
        buf.extend_from_slice(&self.peer_incarnation.0.to_le_bytes());
        put_connection(buf, self.epoch, self.index, self.tag);
        buf.extend_from_slice(&self.cookie);
        self.grant.put(buf);
        self.params.put(buf);
        buf.extend_from_slice(self.ride);
    }
}

/// ACCEPT: the connection is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept {
    /// The initiator.
    pub target: NodeId,
    /// The responder's incarnation.
    pub incarnation: Incarnation,
    /// The initiator's incarnation.
    pub peer_incarnation: Incarnation,
    /// The session's epoch: the higher of both sides' counts.
    pub epoch: Epoch,
    /// Index field of packets to the responder.
    pub index: u32,
    /// Tag field of packets to the responder.
    pub tag: u64,
    /// The initiator's first credit.
    pub grant: Credit,
    /// Parameters that the responder announces.
    pub params: Params,
}

impl Accept {
    /// Reads a body.
    ///
    /// # Errors
    /// It ends too early or too late, or a parameter is wrong.
    pub fn read(body: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(body);
        let read = Self {
            target: NodeId(r.u32()?),
            incarnation: Incarnation(r.u128()?),
            peer_incarnation: Incarnation(r.u128()?),
            epoch: Epoch(r.varint()?),
            index: r.u32()?,
            tag: r.u64()?,
            grant: Credit::read(&mut r)?,
            params: Params::read(&mut r)?,
        };
        end(r, read)
    }

    /// Appends the body.
    pub fn put(&self, buf: &mut Vec<u8>) {
        put_prologue(buf, self.target, self.incarnation);
        buf.extend_from_slice(&self.peer_incarnation.0.to_le_bytes());
        put_connection(buf, self.epoch, self.index, self.tag);
        self.grant.put(buf);
        self.params.put(buf);
    }
}

/// Why a node refuses a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusedCode {
    /// A live node has this ID already.
    DuplicateNode,
    /// The accept policy does not admit this node.
    NotAllowed,
    /// The target is not the node that was reached.
    WrongNode,
    /// One side is plain, the other sealed.
    Mode,
    /// No slot in the receive buffer for another connection.
    NoSocketCredit,
    /// This pair of incarnations has ended, at this epoch or a later one.
    Stale,
    /// No common version.
    Version,
    /// No memory for another session.
    NoMemory,
    /// The limit of known nodes is reached.
    TooManyPeers,
    /// Messages of earlier sessions are unread.
    Unread,
    /// The handshake is under a key that the refuser does not accept.
    Key,
    /// The refuser's file of public keys has no key for this node, or another one.
    NodeKey,
    /// Places are free, or will be shortly: the caller asks again soon.
    Wait,
    /// A reason that this version does not know.
    Other(u64),
}

impl RefusedCode {
    /// Returns the code with this number on the wire.
    #[must_use]
    pub const fn from_wire(value: u64) -> Self {
        match value {
            1 => Self::DuplicateNode,
            2 => Self::NotAllowed,
            3 => Self::WrongNode,
            4 => Self::Mode,
            5 => Self::NoSocketCredit,
            6 => Self::Stale,
            7 => Self::Version,
            8 => Self::NoMemory,
            9 => Self::TooManyPeers,
            10 => Self::Unread,
            11 => Self::Key,
            12 => Self::NodeKey,
            13 => Self::Wait,
            other => Self::Other(other),
        }
    }

    /// Returns its number on the wire.
    #[must_use]
    pub const fn to_wire(self) -> u64 {
        match self {
            Self::DuplicateNode => 1,
            Self::NotAllowed => 2,
            Self::WrongNode => 3,
            Self::Mode => 4,
            Self::NoSocketCredit => 5,
            Self::Stale => 6,
            Self::Version => 7,
            Self::NoMemory => 8,
            Self::TooManyPeers => 9,
            Self::Unread => 10,
            Self::Key => 11,
            Self::NodeKey => 12,
            Self::Wait => 13,
            Self::Other(other) => other,
        }
    }
}

/// REFUSED: there will be no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The node refused.
    pub target: NodeId,
    /// The refuser's incarnation.
    pub incarnation: Incarnation,
    /// Why.
    pub code: RefusedCode,
}

impl Refused {
    /// Reads a body.
    ///
    /// # Errors
    /// It ends too early or too late.
    pub fn read(body: &[u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(body);
        let read = Self {
            target: NodeId(r.u32()?),
            incarnation: Incarnation(r.u128()?),
            code: RefusedCode::from_wire(r.varint()?),
        };
        end(r, read)
    }

    /// Appends the body.
    pub fn put(&self, buf: &mut Vec<u8>) {
        put_prologue(buf, self.target, self.incarnation);
        varint::put(buf, self.code.to_wire());
    }
}

fn put_prologue(buf: &mut Vec<u8>, target: NodeId, incarnation: Incarnation) {
    buf.extend_from_slice(&target.0.to_le_bytes());
    buf.extend_from_slice(&incarnation.0.to_le_bytes());
}

fn put_connection(buf: &mut Vec<u8>, epoch: Epoch, index: u32, tag: u64) {
    varint::put(buf, epoch.0);
    buf.extend_from_slice(&index.to_le_bytes());
    buf.extend_from_slice(&tag.to_le_bytes());
}

/// Returns `read` if no bytes follow it.
fn end<T>(r: Reader<'_>, read: T) -> Result<T, Malformed> {
    if r.is_empty() {
        Ok(read)
    } else {
        Err(Malformed("bytes behind a handshake body"))
    }
}
