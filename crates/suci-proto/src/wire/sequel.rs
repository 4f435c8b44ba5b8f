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
        if crc::expected(packet) != checksum {
            return None;
        }
        // Nothing is changed unless all is well.
        let end = offset.checked_add(len)?;
        (self.number, self.end, self.rest) = (number, end, rest);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{CrcScope, Header, PacketType, put_header, seal};

    const PIECE: usize = 100;
    const HEADER_ONLY: Header = Header {
        kind: PacketType::Data,
        key_phase: 0,
        scope: CrcScope::Header,
        index: 7,
        number: 40,
        tag: 9,
    };
    const WHOLE: Header = Header {
        scope: CrcScope::Datagram,
        ..HEADER_ONLY
    };

    /// A packet with a piece of message 3 in channel 2 that begins at `offset`, below 128 for a varint of one byte.
    fn packet(header: &Header, offset: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_header(&mut bytes, header);
        bytes.push(FRAG);
        bytes.extend([2, 3, offset].map(|number| number << 1 | 1));
        bytes.extend_from_slice(&[5; PIECE]);
        seal(&mut bytes);
        bytes
    }

    /// How long the piece of `next` is, where it may be after a first packet that ends at 100.
    fn taken(header: &Header, next: &[u8], most: u64) -> Option<usize> {
        let first = packet(header, 0);
        let mut run = Sequel::after(&first, next).unwrap();
        let taken = run.next(most).map(<[u8]>::len);
        assert_eq!(run.rest().is_empty(), taken.is_some() || next.is_empty());
        assert_eq!(run.number(), 40 + u64::from(taken.is_some()));
        taken
    }

    fn next(header: &Header) -> Header {
        Header {
            number: header.number + 1,
            ..*header
        }
    }

    #[test]
    fn the_next_piece_under_the_next_number_is_taken() {
        for header in [WHOLE, HEADER_ONLY] {
            let good = packet(&next(&header), 100);
            assert_eq!(taken(&header, &good, PIECE as u64), Some(PIECE));
            assert_eq!(taken(&header, &good, PIECE as u64 - 1), None);
            assert_eq!(taken(&header, &good[..good.len() - 1], u64::MAX), None);
            assert_eq!(taken(&header, &[], u64::MAX), None);
        }
    }

    /// F07: whatever differs is for who reads packets one by one.
    #[test]
    fn f07_nothing_else_is() {
        let like = next(&WHOLE);
        let others = [
            Header { number: 40, ..like },
            Header { number: 42, ..like },
            Header { index: 8, ..like },
            Header { tag: 8, ..like },
            Header {
                key_phase: 1,
                ..like
            },
            Header {
                scope: CrcScope::Header,
                ..like
            },
        ];
        for other in others {
            assert_eq!(
                taken(&WHOLE, &packet(&other, 100), u64::MAX),
                None,
                "{other:?}"
            );
        }
        // A piece that overlaps, and one behind a hole.
        for offset in [99, 101] {
            assert_eq!(taken(&WHOLE, &packet(&like, offset), u64::MAX), None);
        }
        // Another type, channel or message, all with the right checksum.
        for place in PLAIN_OVERHEAD..PLAIN_OVERHEAD + 3 {
            let mut bytes = packet(&like, 100);
            bytes[place] ^= 2;
            seal(&mut bytes);
            assert_eq!(taken(&WHOLE, &bytes, u64::MAX), None, "byte {place}");
        }
        // F30: any bit that flipped on the way.
        for place in 0..packet(&like, 100).len() {
            let mut bytes = packet(&like, 100);
            bytes[place] ^= 0x10;
            assert_eq!(taken(&WHOLE, &bytes, u64::MAX), None, "byte {place}");
        }
    }
}
