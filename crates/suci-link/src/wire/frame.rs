//! Frames, the content of packets.
//!
//! Steps to a new frame; MODE is the template of one that links exchange, MAX_CHANNELS of one of
//! their sessions:
//! 1. Here: its type, its reading and writing, the extension that both ends must announce
//!    ([`Frame::extension`]) and whether it asks for an acknowledgement. The bit of the extension
//!    stands in `tlv.rs`, which also lists what this node announces.
//! 2. Its generator and the known types in `tests/frames.rs`.
//! 3. Its content in `link/receive.rs` (`take_control`) or, for a session's, in
//!    `Consignee::on_frame` (`suci-proto/src/peer/carried.rs`). What is due is written in
//!    `link/build.rs`, and `link/fill.rs` (`wants_control`) says that a packet is wanted for it. If
//!    it must be repeated when lost: `link/recorded.rs` and `link/fates.rs`.
//! 4. The simulator reads packets by a parser of its own: `suci-sim/src/tap.rs`. Fuzzed worlds send
//!    it only if an operation of `fuzz/fuzz_targets/world.rs` leads to it.
//! 5. PROTOCOL.md (sections 3 and 4), and a vector in `docs/protocol-vectors.md`, which
//!    `suci-proto/tests/it/vectors.rs` demands for every frame.

use super::ack::{self, Ack, put_ack};
use super::frag::{self, Frag, Rts};
use super::frame_batch::FrameBatch;
use super::reader::{Malformed, Reader};
use super::tlv::{EXTENSION_CHANNELS, EXTENSION_MODE, EXTENSION_SUSPENSION, Mode};
use super::varint::{self, Fields};
use crate::planted;
use crate::types::{ChannelId, MessageNumber, PacketNumber, ProtocolError};

/// Frame types on the wire.
pub(super) mod kind {
    pub(in super::super) const PADDING: u8 = 0x00;
    pub(in super::super) const PING: u8 = 0x01;
    pub(in super::super) const CREDIT: u8 = 0x03;
    pub(in super::super) const RECLAIM: u8 = 0x04;
    pub(in super::super) const RETURN: u8 = 0x05;
    pub(in super::super) const BLOCKED: u8 = 0x06;
    pub(in super::super) const MAX_CHANNEL: u8 = 0x07;
    pub(in super::super) const CHANNEL_BLOCKED: u8 = 0x08;
    pub(in super::super) const RTS: u8 = 0x09;
    pub(in super::super) const CTS: u8 = 0x0a;
    pub(in super::super) const REFUSE: u8 = 0x0b;
    pub(in super::super) const MODE: u8 = 0x0c;
    pub(in super::super) const SUSPEND: u8 = 0x0d;
    pub(in super::super) const RESUME: u8 = 0x0e;
    pub(in super::super) const CLOSE: u8 = 0x0f;
    /// The first of four: bit 0 adds ECN counts, bit 1 a credit.
    pub(in super::super) const ACK: u8 = 0x10;
    pub(in super::super) const CHALLENGE: u8 = 0x18;
    pub(in super::super) const RESPONSE: u8 = 0x19;
    pub(in super::super) const FIN: u8 = 0x1a;
    pub(in super::super) const MAX_CHANNELS: u8 = 0x1b;
    /// The first of 64: bits 0 to 5 tell which fields follow.
    pub(in super::super) const FRAG: u8 = 0x80;
}

/// Socket credit and session memory credit of the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    /// The generation of the grant; within one, limit and memory never fall.
    pub generation: u64,
    /// The highest packet number that the peer may send.
    pub limit: PacketNumber,
    /// How many numbers beyond `limit` control packets may use (k).
    pub control: u64,
    /// Session memory: the absolute sum of message charges that the peer may reach.
    pub memory: u64,
}

impl Credit {
    /// Reads a credit.
    ///
    /// # Errors
    /// The bytes end too early.
    pub fn read(r: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            generation: r.varint()?,
            limit: r.varint()?,
            control: r.varint()?,
            memory: r.varint()?,
        })
    }

    /// Appends it.
    pub fn put(&self, buf: &mut Vec<u8>) {
        let mut fields = Fields::NONE;
        self.put_with(&mut fields, buf);
        fields.put(buf);
    }

    /// Appends it behind `fields`.
    pub(super) fn put_with(&self, fields: &mut Fields, buf: &mut Vec<u8>) {
        self.fields()
            .into_iter()
            .for_each(|field| fields.add(buf, field));
    }

    /// Returns the bytes that [`put`](Self::put) appends.
    #[must_use]
    pub fn size(&self) -> usize {
        self.fields().into_iter().map(varint::size).sum()
    }

    const fn fields(&self) -> [u64; 4] {
        [self.generation, self.limit, self.control, self.memory]
    }
}

/// BLOCKED: data waits for credit. An idle peer also asks for its first credit with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocked {
    /// The generation of the newest grant the sender knows.
    pub generation: u64,
    /// The packet number limit that the sender knows, or an earlier one at which messages had to
    /// wait.
    pub limit: PacketNumber,
    /// The session memory limit that the sender knows.
    pub memory: u64,
    /// The largest of three counts that wait to be sent: bytes of messages, messages, and answers
    /// (CHALLENGE and the like).
    pub waiting: u64,
}

/// CLOSE: the session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// Why: see [`close_code`].
    pub code: u64,
    /// Messages sent in this session, over all channels.
    pub sent: u64,
    /// Messages received completely in this session, over all channels.
    pub received: u64,
}

/// CLOSE code of a session that ended because the program wanted it.
pub const CLOSE_FINISHED: u64 = 0;
/// CLOSE code of a session that ended because its sender's node closes: that process opens no
/// session again.
pub const CLOSE_LEAVING: u64 = 8;
/// CLOSE code of a session that ended because its sender's file of public keys changed: the peer's
/// key was taken out, or layers that it could use.
pub const CLOSE_REVOKED: u64 = 9;
/// First CLOSE code that is free for programs.
pub const CLOSE_USER: u64 = 0x100;

/// Returns the CLOSE code that reports the peer's protocol error to it: 1 to 255.
#[must_use]
pub const fn close_code(error: &ProtocolError) -> u64 {
    match error {
        ProtocolError::Malformed(_) => 1,
        ProtocolError::UnknownFrame(_) => 2,
        ProtocolError::NeverSent(_) => 3,
        ProtocolError::MemoryCredit(_) => 4,
        ProtocolError::Contradiction { .. } => 5,
        ProtocolError::OutOfPlace(_) => 6,
        ProtocolError::Limit(_) => 7,
        ProtocolError::NotPermitted(_) => 10,
    }
}

/// One frame. A frame that was read holds only values that the format allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// This many bytes without meaning, at least one.
    Padding(usize),
    /// Asks for an acknowledgement.
    Ping,
    /// The packets that arrived.
    Ack(Ack<'a>),
    /// Credit for the peer.
    Credit(Credit),
    /// Asks for the credit of this generation back.
    Reclaim {
        /// The grant's generation.
        generation: u64,
    },
    /// Gives credit back.
    Return {
        /// The grant's generation.
        generation: u64,
        /// The highest packet number sent; nothing higher will be sent under this grant.
        highest: PacketNumber,
        /// Largest UDP payload, in bytes, of packets with a higher number; 0 if the agreed size
        /// still holds.
        size: u64,
    },
    /// Data waits for credit.
    Blocked(Blocked),
    /// Memory credit of one channel.
    MaxChannel {
        /// The channel.
        channel: ChannelId,
        /// The absolute sum of message charges that the channel may reach.
        limit: u64,
    },
    /// Data waits for memory credit of one channel.
    ChannelBlocked {
        /// The channel.
        channel: ChannelId,
        /// The limit at which the data waits.
        limit: u64,
    },
    /// Announces a message that waits for the receiver's CTS.
    Rts(Rts<'a>),
    /// The receiver takes the message.
    Cts {
        /// The message's channel.
        channel: ChannelId,
        /// The message's number in it.
        message: MessageNumber,
    },
    /// The receiver does not take the message.
    Refuse {
        /// The message's channel.
        channel: ChannelId,
        /// The message's number in it.
        message: MessageNumber,
        /// The receiving program's reason; 0 if it gives none.
        reason: u64,
    },
    /// The mode of the sender's traffic from now on.
    Mode {
        /// Counts MODE frames of this connection; the highest wins.
        number: u64,
        /// The mode.
        mode: Mode,
    },
    /// The sender's program suspends the data of both directions.
    Suspend {
        /// Counts SUSPEND and RESUME frames of this session together; the highest wins.
        number: u64,
    },
    /// Undoes SUSPEND.
    Resume {
        /// See [`Suspend`](Self::Suspend).
        number: u64,
    },
    /// The session ends.
    Close(Close),
    /// Asks for a RESPONSE on the path it came from.
    Challenge(u64),
    /// Repeats the CHALLENGE's value.
    Response(u64),
    /// Its sender sends nothing more on a channel, and all its messages there were acknowledged.
    Fin {
        /// The channel.
        channel: ChannelId,
        /// How many messages it had.
        count: u64,
    },
    /// How many channels its receiver may open in the session, including all that it opened before.
    MaxChannels {
        /// The number.
        limit: u64,
    },
    /// Bytes of a message.
    Frag(Frag<'a>),
}

impl<'a> Frame<'a> {
    #[inline]
    fn read(r: &mut Reader<'a>) -> Result<Self, ProtocolError> {
        let byte = r.u8()?;
        if is_frag(byte) {
            return Ok(Self::Frag(Frag::read(byte, r)?));
        }
        Self::read_control(byte, r)
    }

    /// Reads a frame that is not FRAG. A function of its own, so that reading a FRAG needs no stack
    /// for the largest frame.
    #[inline(never)]
    fn read_control(byte: u8, r: &mut Reader<'a>) -> Result<Self, ProtocolError> {
        if is_ack(byte) {
            return Ok(Self::Ack(Ack::read(byte, r)?));
        }
        Ok(match byte {
            kind::PADDING => Self::Padding(r.skip_run(kind::PADDING).saturating_add(1)),
            kind::PING => Self::Ping,
            kind::CREDIT => Self::Credit(Credit::read(r)?),
            kind::RECLAIM => Self::Reclaim {
                generation: r.varint()?,
            },
            kind::RETURN => Self::Return {
                generation: r.varint()?,
                highest: r.varint()?,
                size: r.varint()?,
            },
            kind::BLOCKED => Self::Blocked(Blocked {
                generation: r.varint()?,
                limit: r.varint()?,
                memory: r.varint()?,
                waiting: r.varint()?,
            }),
            kind::MAX_CHANNEL => Self::MaxChannel {
                channel: channel(r)?,
                limit: r.varint()?,
            },
            kind::CHANNEL_BLOCKED => Self::ChannelBlocked {
                channel: channel(r)?,
                limit: r.varint()?,
            },
            kind::RTS => Self::Rts(Rts::read(r)?),
            kind::CTS => Self::Cts {
                channel: channel(r)?,
                message: r.varint()?,
            },
            kind::REFUSE => Self::Refuse {
                channel: channel(r)?,
                message: r.varint()?,
                reason: r.varint()?,
            },
            kind::MODE => Self::Mode {
                number: r.varint()?,
                mode: Mode::from_wire(r.u8()?.into())?,
            },
            kind::SUSPEND => Self::Suspend {
                number: r.varint()?,
            },
            kind::RESUME => Self::Resume {
                number: r.varint()?,
            },
            kind::CLOSE => Self::Close(Close {
                code: r.varint()?,
                sent: r.varint()?,
                received: r.varint()?,
            }),
            kind::CHALLENGE => Self::Challenge(r.u64()?),
            kind::RESPONSE => Self::Response(r.u64()?),
            kind::FIN => Self::Fin {
                channel: channel(r)?,
                count: r.varint()?,
            },
            kind::MAX_CHANNELS => Self::MaxChannels { limit: r.varint()? },
            _ if planted("unknown-frames-skipped") => Self::Padding(1),
            unknown => return Err(ProtocolError::UnknownFrame(unknown)),
        })
    }

    /// Appends the frame. A FRAG is written as if another frame followed, that is with its length;
    /// the fast path for fragments is [`FragHead::put`](super::FragHead::put).
    pub fn put(&self, buf: &mut Vec<u8>) {
        match *self {
            Self::Padding(len) => buf.resize(buf.len().saturating_add(len), kind::PADDING),
            Self::Ack(a) => {
                put_ack(buf, a.ranges(), a.delay, a.ecn, a.credit, usize::MAX);
            }
            Self::Rts(rts) => {
                buf.push(kind::RTS);
                rts.put(buf);
            }
            Self::Mode { number, mode } => {
                buf.push(kind::MODE);
                varint::put(buf, number);
                buf.push(mode as u8);
            }
            Self::Challenge(value) => put_u64(buf, kind::CHALLENGE, value),
            Self::Response(value) => put_u64(buf, kind::RESPONSE, value),
            Self::Frag(f) => {
                f.head().put(buf, f.data.len(), false);
                buf.extend_from_slice(f.data);
            }
            _ => {
                let (kind, values) = self.varints();
                buf.push(kind);
                values.for_each(|value| varint::put(buf, value));
            }
        }
    }

    /// Returns the bytes that [`put`](Self::put) appends.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Padding(len) => *len,
            Self::Ack(a) => a.size(),
            Self::Rts(rts) => 1 + rts.size(),
            Self::Mode { number, .. } => 2 + varint::size(*number),
            Self::Challenge(_) | Self::Response(_) => 9,
            Self::Frag(f) => f.head().size(f.data.len(), false) + f.data.len(),
            _ => 1 + self.varints().1.map(varint::size).sum::<usize>(),
        }
    }

    /// Returns the type and fields of a frame that holds only varints.
    fn varints(&self) -> (u8, impl Iterator<Item = u64> + use<>) {
        let (kind, values, count) = match *self {
            Self::Credit(c) => (kind::CREDIT, c.fields(), 4),
            Self::Reclaim { generation } => (kind::RECLAIM, [generation, 0, 0, 0], 1),
            Self::Return {
                generation,
                highest,
                size,
            } => (kind::RETURN, [generation, highest, size, 0], 3),
            Self::Blocked(Blocked {
                generation,
                limit,
                memory,
                waiting,
            }) => (kind::BLOCKED, [generation, limit, memory, waiting], 4),
            Self::MaxChannel { channel, limit } => {
                (kind::MAX_CHANNEL, [channel.0.into(), limit, 0, 0], 2)
            }
            Self::ChannelBlocked { channel, limit } => {
                (kind::CHANNEL_BLOCKED, [channel.0.into(), limit, 0, 0], 2)
            }
            Self::Cts { channel, message } => (kind::CTS, [channel.0.into(), message, 0, 0], 2),
            Self::Refuse {
                channel,
                message,
                reason,
            } => (kind::REFUSE, [channel.0.into(), message, reason, 0], 3),
            Self::Fin { channel, count } => (kind::FIN, [channel.0.into(), count, 0, 0], 2),
            Self::MaxChannels { limit } => (kind::MAX_CHANNELS, [limit, 0, 0, 0], 1),
            Self::Suspend { number } => (kind::SUSPEND, [number, 0, 0, 0], 1),
            Self::Resume { number } => (kind::RESUME, [number, 0, 0, 0], 1),
            Self::Close(Close {
                code,
                sent,
                received,
            }) => (kind::CLOSE, [code, sent, received, 0], 3),
            Self::Ping
            | Self::Padding(_)
            | Self::Ack(_)
            | Self::Rts(_)
            | Self::Mode { .. }
            | Self::Challenge(_)
            | Self::Response(_)
            | Self::Frag(_) => (kind::PING, [0; 4], 0),
        };
        (kind, values.into_iter().take(count))
    }

    /// Returns the extension that both ends must announce before they send this frame, and the
    /// frame's type. `None` for a frame that belongs to no extension.
    pub const fn extension(&self) -> Option<(u64, u8)> {
        match self {
            Self::Mode { .. } => Some((EXTENSION_MODE, kind::MODE)),
            Self::Suspend { .. } => Some((EXTENSION_SUSPENSION, kind::SUSPEND)),
            Self::Resume { .. } => Some((EXTENSION_SUSPENSION, kind::RESUME)),
            Self::Fin { .. } => Some((EXTENSION_CHANNELS, kind::FIN)),
            Self::MaxChannels { .. } => Some((EXTENSION_CHANNELS, kind::MAX_CHANNELS)),
            Self::Padding(_)
            | Self::Ping
            | Self::Ack(_)
            | Self::Credit(_)
            | Self::Reclaim { .. }
            | Self::Return { .. }
            | Self::Blocked(_)
            | Self::MaxChannel { .. }
            | Self::ChannelBlocked { .. }
            | Self::Rts(_)
            | Self::Cts { .. }
            | Self::Refuse { .. }
            | Self::Close(_)
            | Self::Challenge(_)
            | Self::Response(_)
            | Self::Frag(_) => None,
        }
    }

    /// Returns true if a packet with this frame asks for an acknowledgement. ACK and CREDIT do not:
    /// they are repeated anyway, and acknowledging them would never end.
    #[must_use]
    pub const fn is_eliciting(&self) -> bool {
        !matches!(self, Self::Padding(_) | Self::Ack(_) | Self::Credit(_))
    }
}

const fn is_ack(byte: u8) -> bool {
    byte & !(ack::ECN | ack::CREDIT) == kind::ACK
}

const fn is_frag(byte: u8) -> bool {
    byte & (kind::FRAG | frag::RESERVED) == kind::FRAG
}

fn channel(r: &mut Reader<'_>) -> Result<ChannelId, Malformed> {
    r.varint32("channel beyond 32 bits").map(ChannelId)
}

fn put_u64(buf: &mut Vec<u8>, kind: u8, value: u64) {
    buf.push(kind);
    buf.extend_from_slice(&value.to_le_bytes());
}

/// A part of the messages in a packet.
#[derive(Clone, Debug)]
pub enum PacketPart<'a> {
    /// Adjacent small messages.
    FrameBatch(FrameBatch<'a>),
    /// One fragment.
    Frag(Frag<'a>),
}

/// The frames of a packet, in order. After an error the iterator ends.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    left: Reader<'a>,
}

/// Returns the frames in `payload`, the body of a packet.
#[must_use]
pub const fn frames(payload: &[u8]) -> Frames<'_> {
    Frames {
        left: Reader::new(payload),
    }
}

impl<'a> Frames<'a> {
    /// Returns the next batch, if a batch comes next. [`next_frag`](Self::next_frag) would return
    /// its frames one by one.
    #[inline]
    pub fn next_batch(&mut self) -> Option<FrameBatch<'a>> {
        let batch = FrameBatch::read(self.left.clone().rest())?;
        self.left.bytes(batch.frames().len() as u64).ok()?;
        Some(batch)
    }

    /// Returns true if no frame is left.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// Skips padding.
    #[inline]
    pub(super) fn skip_padding(&mut self) {
        self.left.skip_run(kind::PADDING);
    }

    /// Returns the next FRAG, or a batch of them that are alike; `None` if another frame comes
    /// next.
    #[inline(always)]
    pub fn next_part(&mut self) -> Option<Result<PacketPart<'a>, ProtocolError>> {
        match self.next_batch() {
            Some(batch) => Some(Ok(PacketPart::FrameBatch(batch))),
            None => Some(self.next_frag()?.map(PacketPart::Frag)),
        }
    }

    /// Returns the next frame, if it is an ACK. Most packets begin with one; reading it here needs
    /// no stack for the largest frame.
    #[inline]
    pub fn next_ack(&mut self) -> Option<Result<Ack<'a>, ProtocolError>> {
        let byte = self.left.peek().filter(|byte| is_ack(*byte))?;
        let mut left = self.left;
        let ack = left.u8().and_then(|_| Ack::read(byte, &mut left));
        if ack.is_err() {
            left.rest();
        }
        self.left = left;
        Some(ack.map_err(ProtocolError::from))
    }

    /// Returns the next frame, if it is a FRAG. Most frames are; reading them here needs no stack
    /// for the largest frame. Inlined, so that the result is built in place: moving it would stall
    /// the processor.
    #[inline(always)]
    pub fn next_frag(&mut self) -> Option<Result<Frag<'a>, ProtocolError>> {
        let byte = self.left.peek()?;
        if !is_frag(byte) {
            return None;
        }
        let mut left = self.left;
        let frag = left.u8().and_then(|bits| Frag::read(bits, &mut left));
        if frag.is_err() {
            left.rest();
        }
        self.left = left;
        Some(frag.map_err(ProtocolError::from))
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, ProtocolError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left.is_empty() {
            return None;
        }
        let frame = Frame::read(&mut self.left);
        if frame.is_err() {
            self.left.rest();
        }
        Some(frame)
    }
}
