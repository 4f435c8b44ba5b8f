//! Packets of one connection that carry one piece after the other of a message, and nothing else.
//!
//! They differ in number, offset, bytes and checksum only. So what the first of them says need not be asked of the others.

use super::crc;
use super::frame::kind::FRAG;
use super::header::{CHECKSUM, NUMBER, PLAIN_OVERHEAD, TAGGED};
use super::reader::Reader;
use crate::types::{ChannelId, MessageNumber, PacketNumber};
use core::ops::Range;

/// What follows a packet of which it is known to be good, as far as it goes on like that.
#[derive(Clone, Debug)]
pub(crate) struct Sequel<'a> {
    like: &'a [u8],
    /// Where the frame's offset lies in each packet: what is before it is the same but for number and checksum.
    lead: usize,
    channel: ChannelId,
    message: MessageNumber,
    /// Of the newest packet.
    number: PacketNumber,
    /// Where its piece ends.
    end: u64,
    /// Datagrams not taken yet.
    rest: &'a [u8],
}

impl<'a> Sequel<'a> {
    /// The run that goes on after `packet`, an authentic one, with the datagrams in `rest`: none if it holds anything but
    /// a piece of a message that is neither its first nor its last.
    pub(crate) fn after(packet: &'a [u8], rest: &'a [u8]) -> Option<Self> {
        let mut r = Reader::new(packet.get(PLAIN_OVERHEAD..)?);
        // Of the frame's flags none is set: it reaches to the packet's end, too.
        if r.u8().ok()? != FRAG {
            return None;
        }
        let channel = ChannelId(r.varint32("channel beyond 32 bits").ok()?);
        let message = r.varint().ok()?;
        let lead = packet.len().checked_sub(r.remaining())?;
        let offset = r.varint().ok()?;
        Some(Self {
            like: packet,
            lead,
            channel,
            message,
            number: Reader::new(packet.get(NUMBER)?).u64().ok()?,
            end: offset.checked_add(r.remaining() as u64)?,
            rest,
        })
    }

    /// The next piece, if it is the next packet's and at most `most` bytes long.
    pub(crate) fn next(&mut self, most: u64) -> Option<&'a [u8]> {
        let (packet, rest) = self.rest.split_at_checked(self.like.len())?;
        let number = self.number.checked_add(1)?;
        if packet.get(NUMBER)? != number.to_le_bytes() || !self.is_alike(packet) {
            return None;
        }
        let mut r = Reader::new(packet.get(self.lead..)?);
        let offset = r.varint().ok()?;
        let piece = r.rest();
        let len = piece.len() as u64;
        if offset != self.end || piece.is_empty() || len > most {
            return None;
        }
        let checksum = Reader::new(packet.get(CHECKSUM)?).u32().ok()?;
        if crc::expected(packet, core::iter::empty()) != checksum {
            return None;
        }
        self.number = number;
        self.end = offset.checked_add(len)?;
        self.rest = rest;
        Some(piece)
    }

    fn is_alike(&self, packet: &[u8]) -> bool {
        let same = |range: Range<usize>| packet.get(range.clone()) == self.like.get(range);
        same(0..NUMBER.start) && same(TAGGED) && same(PLAIN_OVERHEAD..self.lead)
    }

    /// The channel of its message.
    pub(crate) fn channel(&self) -> ChannelId {
        self.channel
    }

    /// Its message.
    pub(crate) fn message(&self) -> MessageNumber {
        self.message
    }

    /// The number of the newest packet.
    pub(crate) fn number(&self) -> PacketNumber {
        self.number
    }

    /// Where the newest piece ends.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes of each packet.
    pub(crate) fn packet_len(&self) -> usize {
        self.like.len()
    }

    /// The datagrams that were not taken.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}
