//! Consecutive packets of one connection that carry messages and nothing else.
//!
//! Their headers differ in number and checksum only, so the other fields are checked in the first
//! packet alone.

use super::crc;
use super::frag::Frag;
use super::frame::kind::FRAG;
use super::frame::{PacketPart, frames};
use super::header::{CHECKSUM, HEADER, NUMBER, PLAIN_OVERHEAD, TAGGED};
use super::reader::Reader;
use crate::security::AEAD_TAG;
use crate::types::{ChannelId, MessageNumber, PacketNumber};
use core::ops::Range;

/// Bound of parts in a packet that is taken together with others. A packet of long messages never
/// has more. A packet of small ones of different channels or with headers may have more, and is
/// then processed frame by frame.
const PARTS: usize = 8;

/// An authentic packet of a connection and the datagrams that arrived with it. The ones that
/// continue the packet are read here one after the other.
#[derive(Clone, Debug)]
pub struct ContiguousPackets<'a> {
    /// The newest packet whose header was checked completely.
    like: &'a [u8],
    /// The body of that packet, behind its header.
    payload: &'a [u8],
    /// Number of the newest packet.
    number: PacketNumber,
    /// The position in a message behind the newest packet, if that is one piece of the message and
    /// nothing else.
    next: Option<Continuation>,
    /// Datagrams not taken yet.
    rest: &'a [u8],
    /// The packets were sealed. All of them were opened in place, so all are authentic.
    sealed: bool,
}

/// Reads a piece of a message, neither its first nor its last, that fills all of `payload`.
#[inline(always)]
fn lone_piece(payload: &[u8]) -> Option<Frag<'_>> {
    let (kind, fields) = payload.split_first()?;
    match *kind {
        // No flag of the frame is set, so its data reaches to the end of the packet.
        FRAG => Frag::read(FRAG, &mut Reader::new(fields)).ok(),
        _ => None,
    }
}

/// The position at which a message continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Continuation {
    channel: ChannelId,
    message: MessageNumber,
    offset: u64,
}

impl Continuation {
    /// Returns the position behind the piece that fills all of `payload`, if there is one.
    fn behind(payload: &[u8]) -> Option<Self> {
        lone_piece(payload).map(|piece| Self {
            channel: piece.channel,
            message: piece.message,
            offset: piece.end_offset(),
        })
    }
}

impl<'a> ContiguousPackets<'a> {
    /// Starts from `packet`, which is authentic and has the number `number`. All datagrams in
    /// `rest` but the last are as long as it.
    pub fn new(number: PacketNumber, packet: &'a [u8], rest: &'a [u8]) -> Self {
        Self::like(number, packet, rest, false)
    }

    /// Starts from `packet`, which was sealed. It and all of `rest` were opened in place.
    pub fn opened(number: PacketNumber, packet: &'a [u8], rest: &'a [u8]) -> Self {
        Self::like(number, packet, rest, true)
    }

    #[inline(always)]
    fn like(number: PacketNumber, packet: &'a [u8], rest: &'a [u8], sealed: bool) -> Self {
        let payload = body_of(packet, sealed).unwrap_or_default();
        Self {
            like: packet,
            payload,
            number,
            // No packet continues one that came alone.
            next: match rest {
                [] => None,
                _ => Continuation::behind(payload),
            },
            rest,
            sealed,
        }
    }

    /// Starts from the frames of the packet `number` alone, without its header and without other
    /// packets.
    pub fn alone(number: PacketNumber, payload: &'a [u8]) -> Self {
        Self {
            payload,
            ..Self::new(number, &[], &[])
        }
    }

    /// Returns the body of the first packet, behind its header.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Returns the channel and number of the message, if the newest packet is one piece of it and
    /// nothing else.
    pub fn message(&self) -> Option<(ChannelId, MessageNumber)> {
        self.next.map(|next| (next.channel, next.message))
    }

    /// Returns the offset in that message behind the newest piece.
    pub fn end(&self) -> u64 {
        self.next.map_or(0, |next| next.offset)
    }

    /// Returns the bytes of the next packet, if its header follows that of the newest.
    fn peek(&self) -> Option<&'a [u8]> {
        let packet = self.rest.get(..self.like.len().min(self.rest.len()))?;
        let number = self.number.checked_add(1)?;
        is_next(self.like, packet, number, self.sealed).then_some(packet)
    }

    /// Moves behind the next packet.
    fn advance(&mut self, packet: &'a [u8]) {
        self.number = self.number.saturating_add(1);
        self.rest = self.rest.get(packet.len()..).unwrap_or_default();
    }

    /// Takes the next piece of the message, if it alone fills the next packet, that packet is as
    /// long as the one before, and the piece has at most `most` bytes.
    pub fn next_piece(&mut self, most: u64) -> Option<&'a [u8]> {
        let packet = self.peek().filter(|p| p.len() == self.like.len())?;
        let piece = lone_piece(body_of(packet, self.sealed)?)?;
        let sealed = self.sealed;
        let next = self.next.as_mut()?;
        let continues = (piece.channel, piece.message, piece.offset)
            == (next.channel, next.message, next.offset);
        if !continues || piece.data.len() as u64 > most || !is_intact(packet, sealed) {
            return None;
        }
        // Change state only after all checks passed.
        next.offset = piece.end_offset();
        self.advance(packet);
        Some(piece.data)
    }

    /// Reads the next packet into `messages`, if it is consecutive and holds only a few parts of
    /// messages. [`take`](Self::take) takes it.
    pub fn read_messages(&self, messages: &mut Messages<'a>) -> Option<&'a [u8]> {
        let packet = self.peek()?;
        let payload = body_of(packet, self.sealed).unwrap_or_default();
        (messages.read(payload) && is_intact(packet, self.sealed)).then_some(packet)
    }

    /// Takes `packet`, the next packet, as a whole.
    pub fn take(&mut self, packet: &'a [u8]) {
        self.like = packet;
        self.next = Continuation::behind(body_of(packet, self.sealed).unwrap_or_default());
        self.advance(packet);
    }

    /// Returns the number of the newest packet.
    pub fn number(&self) -> PacketNumber {
        self.number
    }

    /// Returns the datagrams not taken yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

/// Returns the body of a packet.
#[inline(always)]
fn body_of(packet: &[u8], sealed: bool) -> Option<&[u8]> {
    match sealed {
        false => packet.get(PLAIN_OVERHEAD..),
        true => packet.get(HEADER..packet.len().checked_sub(AEAD_TAG)?),
    }
}

/// Returns true if the header of `packet` has this number, and otherwise equals that of `like`,
/// except for the checksum.
#[inline]
fn is_next(like: &[u8], packet: &[u8], number: PacketNumber, sealed: bool) -> bool {
    let same = |range: Range<usize>| packet.get(range.clone()) == like.get(range);
    let numbered = packet.get(NUMBER) == Some(&number.to_le_bytes());
    numbered && same(0..NUMBER.start) && (sealed || same(TAGGED))
}

/// Returns true if the checksum is right. A packet that was opened has none.
#[inline]
fn is_intact(packet: &[u8], sealed: bool) -> bool {
    if sealed {
        return true;
    }
    let checksum = packet.get(CHECKSUM).map(|field| Reader::new(field).u32());
    checksum == Some(Ok(crc::expected(packet)))
}

/// The parts of messages in a packet.
#[derive(Debug, Default)]
pub struct Messages<'a> {
    parts: [Option<PacketPart<'a>>; PARTS],
    count: usize,
}

impl<'a> Messages<'a> {
    /// Reads the parts of messages in `payload`, the body of a packet. Returns false if it has
    /// none, too many, or another frame.
    fn read(&mut self, payload: &'a [u8]) -> bool {
        self.count = 0;
        let mut left = frames(payload);
        while !left.is_empty() {
            let Some(target) = self.parts.get_mut(self.count) else {
                return false;
            };
            *target = Some(match left.next_part() {
                Some(Ok(part)) => part,
                _ => return false,
            });
            self.count = self.count.saturating_add(1);
            left.skip_padding();
        }
        self.count > 0
    }

    /// Returns the parts in their order.
    pub fn parts(&self) -> impl Iterator<Item = &PacketPart<'a>> {
        self.parts.iter().take(self.count).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{CrcScope, Frame, Header, PacketType, put_header, seal};

    const PIECE: usize = 100;
    const HEADER_ONLY: Header = Header {
        kind: PacketType::Data,
        scope: CrcScope::Header,
        index: 7,
        number: 40,
        tag: 9,
    };
    const WHOLE: Header = Header {
        scope: CrcScope::Datagram,
        ..HEADER_ONLY
    };

    /// Returns a packet with a piece of message 3 in channel 2 that begins at `offset`, below 128
    /// for a varint of one byte.
    fn packet(header: &Header, offset: u8) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_header(&mut bytes, header);
        bytes.push(FRAG);
        bytes.extend([2, 3, offset].map(|number| number << 1 | 1));
        bytes.extend_from_slice(&[5; PIECE]);
        seal(&mut bytes);
        bytes
    }

    /// Returns the length of the piece in `next`, if it is taken after a first packet that ends at
    /// 101.
    fn taken(header: &Header, next: &[u8], most: u64) -> Option<usize> {
        let first = packet(header, 1);
        let mut packets = ContiguousPackets::new(40, &first, next);
        let taken = packets.next_piece(most).map(<[u8]>::len);
        assert_eq!(
            packets.rest().is_empty(),
            taken.is_some() || next.is_empty()
        );
        assert_eq!(packets.number(), 40 + u64::from(taken.is_some()));
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
            let good = packet(&next(&header), 101);
            assert_eq!(taken(&header, &good, PIECE as u64), Some(PIECE));
            assert_eq!(taken(&header, &good, PIECE as u64 - 1), None);
            assert_eq!(taken(&header, &good[..good.len() - 1], u64::MAX), None);
            assert_eq!(taken(&header, &[], u64::MAX), None);
        }
    }

    /// F07: a packet that differs is left to the reader of single packets.
    #[test]
    fn f07_nothing_else_is() {
        let like = next(&WHOLE);
        let others = [
            Header { number: 40, ..like },
            Header { number: 42, ..like },
            Header { index: 8, ..like },
            Header { tag: 8, ..like },
            Header {
                scope: CrcScope::Header,
                ..like
            },
        ];
        for other in others {
            assert_eq!(
                taken(&WHOLE, &packet(&other, 101), u64::MAX),
                None,
                "{other:?}"
            );
        }
        // A piece that overlaps, and one behind a hole.
        for offset in [100, 102] {
            assert_eq!(taken(&WHOLE, &packet(&like, offset), u64::MAX), None);
        }
        // Another type, channel or message, all with the right checksum.
        for at in PLAIN_OVERHEAD..PLAIN_OVERHEAD + 3 {
            let mut bytes = packet(&like, 101);
            bytes[at] ^= 2;
            seal(&mut bytes);
            assert_eq!(taken(&WHOLE, &bytes, u64::MAX), None, "byte {at}");
        }
        // F30: any bit that flipped on the way.
        for at in 0..packet(&like, 101).len() {
            let mut bytes = packet(&like, 101);
            bytes[at] ^= 0x10;
            assert_eq!(taken(&WHOLE, &bytes, u64::MAX), None, "byte {at}");
        }
    }

    /// Returns a packet of `frames`.
    fn holding(header: &Header, frames: &[Frame<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_header(&mut bytes, header);
        frames.iter().for_each(|frame| frame.put(&mut bytes));
        seal(&mut bytes);
        bytes
    }

    /// Returns the last piece of a message.
    fn end(message: MessageNumber) -> Frag<'static> {
        Frag {
            channel: ChannelId(2),
            message,
            offset: 50,
            end: true,
            start: None,
            data: &[6; 40],
        }
    }

    /// Returns how many parts `next` holds behind a first packet, if it is taken.
    fn parts(header: &Header, next: &[u8]) -> Option<usize> {
        let mut first = packet(header, 1);
        first.resize(1_000, 0);
        seal(&mut first);
        let mut packets = ContiguousPackets::new(40, &first, next);
        let mut messages = Messages::default();
        let packet = packets.read_messages(&mut messages);
        let taken = packet.is_some();
        packet.into_iter().for_each(|packet| packets.take(packet));
        assert_eq!(packets.rest().is_empty(), taken);
        assert_eq!(packets.number(), 40 + u64::from(taken));
        assert_eq!(packets.message().is_some(), !taken);
        taken.then(|| messages.parts().count())
    }

    #[test]
    fn the_messages_of_the_next_packet_are_read_together() {
        for header in [WHOLE, HEADER_ONLY] {
            let ends = [3, 4, 5].map(|message| Frame::Frag(end(message)));
            let padded = [ends[0], Frame::Padding(9), ends[1]];
            for (frames, count) in [(&ends[..1], 1), (&ends, 3), (&padded, 2)] {
                let good = holding(&next(&header), frames);
                assert_eq!(parts(&header, &good), Some(count), "{frames:?}");
            }
        }
    }

    /// F07: a packet with other frames or too many parts, or with another header.
    #[test]
    fn f07_other_packets_are_left_alone() {
        let ends = [Frame::Frag(end(3)); PARTS + 1];
        let most = holding(&next(&WHOLE), &ends[1..]);
        assert_eq!(parts(&WHOLE, &most), Some(PARTS));
        let others: [&[Frame<'_>]; 5] = [
            &[],
            &ends,
            &[Frame::Padding(1), ends[0]],
            &[Frame::Ping, ends[0]],
            &[ends[0], Frame::Ping],
        ];
        for frames in others {
            let other = holding(&next(&WHOLE), frames);
            assert_eq!(parts(&WHOLE, &other), None, "{frames:?}");
        }
        // F30: any bit that flipped on the way.
        for at in 0..most.len() {
            let mut bytes = most.clone();
            bytes[at] ^= 0x10;
            assert_eq!(parts(&WHOLE, &bytes), None, "byte {at}");
        }
        let short = most.get(..PLAIN_OVERHEAD - 1).unwrap();
        assert_eq!(parts(&WHOLE, short), None);
    }
}
