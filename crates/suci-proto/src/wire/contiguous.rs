//! Packets of one connection that carry messages, one after the other, and nothing else.
//!
//! Their headers differ in number and checksum only; where they carry a long message piece by
//! piece, they differ in offset and bytes beside that. So what the first of them says need not be
//! asked of the others.

use super::crc;
use super::frag::Frag;
use super::frame::frames;
use super::frame::kind::FRAG;
use super::header::{CHECKSUM, NUMBER, PLAIN_OVERHEAD, TAGGED};
use super::reader::Reader;
use super::run::Run;
use crate::types::{ChannelId, MessageNumber, PacketNumber};
use core::ops::Range;

/// Most parts of a packet that is taken in a run. Messages longer than those of runs are never
/// more; small ones of different channels or with headers may be, and such a packet goes the
/// general way.
const PARTS: usize = 8;

/// What follows a packet of which it is known to be good, as far as it goes on like that.
#[derive(Clone, Debug)]
pub(crate) struct ContiguousPackets<'a> {
    /// The newest of them that was looked at as a whole.
    like: &'a [u8],
    /// Of the newest packet.
    number: PacketNumber,
    /// What the newest packet was a piece of, if it was nothing else.
    piece: Option<MiddleFragment>,
    /// Datagrams not taken yet.
    rest: &'a [u8],
}

/// A piece of a message that is neither its first nor its last, alone in its packet.
#[derive(Clone, Copy, Debug)]
struct MiddleFragment {
    channel: ChannelId,
    message: MessageNumber,
    /// Where the frame's offset lies in each packet: what is before it is the same but for number
    /// and checksum.
    lead: usize,
    /// Where the newest piece ends.
    end: u64,
}

impl MiddleFragment {
    /// What `packet` is, if it is that and nothing else.
    fn read(packet: &[u8]) -> Option<Self> {
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
            channel,
            message,
            lead,
            end: offset.checked_add(r.remaining() as u64)?,
        })
    }
}

impl<'a> ContiguousPackets<'a> {
    /// What follows `packet`, an authentic one, among the datagrams in `rest`, of which all but the
    /// last are as long.
    pub(crate) fn after(packet: &'a [u8], rest: &'a [u8]) -> Option<Self> {
        Some(Self {
            like: packet,
            number: Reader::new(packet.get(NUMBER)?).u64().ok()?,
            piece: MiddleFragment::read(packet),
            rest,
        })
    }

    /// The message, by its channel and number, of which the newest packet was a piece and nothing
    /// else.
    pub(crate) fn message(&self) -> Option<(ChannelId, MessageNumber)> {
        self.piece.map(|piece| (piece.channel, piece.message))
    }

    /// Where in that message the newest piece ends.
    pub(crate) fn end(&self) -> u64 {
        self.piece.map_or(0, |piece| piece.end)
    }

    /// The next piece of it, if the next packet is that and nothing else, and the piece at most
    /// `most` bytes long.
    pub(crate) fn next_piece(&mut self, most: u64) -> Option<&'a [u8]> {
        let piece = self.piece.as_mut()?;
        let (packet, rest) = self.rest.split_at_checked(self.like.len())?;
        let number = self.number.checked_add(1)?;
        let lead = PLAIN_OVERHEAD..piece.lead;
        if !is_next(self.like, packet, number) || packet.get(lead.clone()) != self.like.get(lead) {
            return None;
        }
        let mut r = Reader::new(packet.get(piece.lead..)?);
        let offset = r.varint().ok()?;
        let bytes = r.rest();
        let len = bytes.len() as u64;
        if offset != piece.end || bytes.is_empty() || len > most || !is_intact(packet) {
            return None;
        }
        // Nothing is changed unless all is well.
        piece.end = offset.checked_add(len)?;
        (self.number, self.rest) = (number, rest);
        Some(bytes)
    }

    /// Reads the next packet into `messages`, if it is that and holds nothing but a few parts of
    /// messages. False, and nothing taken, if not.
    pub(crate) fn next_messages(&mut self, messages: &mut Messages<'a>) -> bool {
        let len = self.like.len().min(self.rest.len());
        let (packet, rest) = self.rest.split_at(len);
        let Some(number) = self.number.checked_add(1) else {
            return false;
        };
        let good = is_next(self.like, packet, number)
            && messages.read(packet.get(PLAIN_OVERHEAD..).unwrap_or_default())
            && is_intact(packet);
        if good {
            (self.like, self.number, self.rest) = (packet, number, rest);
            self.piece = MiddleFragment::read(packet);
        }
        good
    }

    /// The number of the newest packet.
    pub(crate) fn number(&self) -> PacketNumber {
        self.number
    }

    /// The datagrams that were not taken.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

/// Whether the headers of both are the same but for the number, which is this, and the checksum.
fn is_next(like: &[u8], packet: &[u8], number: PacketNumber) -> bool {
    let same = |range: Range<usize>| packet.get(range.clone()) == like.get(range);
    let numbered = packet.get(NUMBER) == Some(&number.to_le_bytes());
    numbered && same(0..NUMBER.start) && same(TAGGED)
}

fn is_intact(packet: &[u8]) -> bool {
    let checksum = packet.get(CHECKSUM).map(|field| Reader::new(field).u32());
    checksum == Some(Ok(crc::expected(packet)))
}

/// What a packet of messages holds.
#[derive(Debug, Default)]
pub(crate) struct Messages<'a> {
    parts: [Option<PacketPart<'a>>; PARTS],
    count: usize,
}

/// A part of what a packet of messages holds.
#[derive(Clone, Debug)]
pub(crate) enum PacketPart<'a> {
    /// Small messages side by side.
    Run(Run<'a>),
    /// One fragment.
    Frag(Frag<'a>),
}

impl<'a> Messages<'a> {
    /// Reads what `payload` holds behind its header. False if it is nothing, too much, or anything
    /// else.
    fn read(&mut self, payload: &'a [u8]) -> bool {
        self.count = 0;
        let mut left = frames(payload);
        while !left.is_empty() {
            let Some(place) = self.parts.get_mut(self.count) else {
                return false;
            };
            *place = Some(match left.next_run() {
                Some(run) => PacketPart::Run(run),
                None => match left.next_frag() {
                    Some(Ok(frag)) => PacketPart::Frag(frag),
                    _ => return false,
                },
            });
            self.count = self.count.saturating_add(1);
            left.skip_padding();
        }
        self.count > 0
    }

    /// The parts in their order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &PacketPart<'a>> {
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

    /// A packet with a piece of message 3 in channel 2 that begins at `offset`, below 128 for a
    /// varint of one byte.
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
        let mut run = ContiguousPackets::after(&first, next).unwrap();
        let taken = run.next_piece(most).map(<[u8]>::len);
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

    /// A packet of `frames`.
    fn holding(header: &Header, frames: &[Frame<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_header(&mut bytes, header);
        frames.iter().for_each(|frame| frame.put(&mut bytes));
        seal(&mut bytes);
        bytes
    }

    /// What a message ends with.
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

    /// How many parts `next` holds behind a first packet, if it is taken.
    fn parts(header: &Header, next: &[u8]) -> Option<usize> {
        let mut first = packet(header, 1);
        first.resize(1_000, 0);
        seal(&mut first);
        let mut run = ContiguousPackets::after(&first, next).unwrap();
        let mut messages = Messages::default();
        let taken = run.next_messages(&mut messages);
        assert_eq!(run.rest().is_empty(), taken);
        assert_eq!(run.number(), 40 + u64::from(taken));
        assert_eq!(run.message().is_some(), !taken);
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

    /// F07: what is not messages, or of too many parts, or not the next packet.
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
        for place in 0..most.len() {
            let mut bytes = most.clone();
            bytes[place] ^= 0x10;
            assert_eq!(parts(&WHOLE, &bytes), None, "byte {place}");
        }
        let short = most.get(..PLAIN_OVERHEAD - 1).unwrap();
        assert_eq!(parts(&WHOLE, short), None);
    }
}
