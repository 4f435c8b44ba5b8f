//! The common header of a sequence of packets to send: only number, offset and checksum differ.

use super::crc::Crc;
use super::header::{CHECKSUM, CrcScope, NUMBER, PLAIN_OVERHEAD, scope};
use super::varint;
use crate::types::PacketNumber;

/// Bytes of the longest head: header, type, channel, message and offset of a frame. Every head is
/// copied with this fixed size, which takes a few instructions; a variable size would be a call.
const LONGEST: usize = 64;

const _: () = assert!(PLAIN_OVERHEAD + 1 + 5 + varint::MAX + varint::MAX <= LONGEST);

/// Header and frame head of packets that each carry the next piece of one message, and nothing
/// else.
#[derive(Clone, Debug)]
pub struct HeaderTemplate {
    head: [u8; LONGEST],
    /// The head without the checksum, over which the checksum is computed in one step.
    summed: [u8; LONGEST],
    /// Where the offset begins, and where the head ends.
    lead: usize,
    len: usize,
    /// The bytes that the checksum covers; `None` for packets that are sealed afterwards.
    scope: Option<CrcScope>,
    crc: Crc,
}

impl HeaderTemplate {
    /// Maximum number of bytes of a head that [`stamp`](Self::stamp) makes.
    pub const ROOM: usize = LONGEST;

    /// Makes the template of packets that equal `packet` up to `lead`. Their offsets follow there,
    /// encoded as long as `offset`. Packets that are `sealed` afterwards have no checksum.
    pub fn new(packet: &[u8], lead: usize, offset: u64, sealed: bool) -> Option<Self> {
        let (mut head, mut summed) = ([0; LONGEST], [0; LONGEST]);
        let len = lead.checked_add(varint::size(offset))?;
        // The offset is written as a whole word.
        (len < varint::MAX + lead && lead <= LONGEST - varint::MAX).then_some(())?;
        head.get_mut(..lead)?.copy_from_slice(packet.get(..lead)?);
        if !sealed {
            let behind = packet.get(CHECKSUM.end..lead)?;
            let (front, back) = summed.split_at_mut(CHECKSUM.start);
            front.copy_from_slice(packet.get(..CHECKSUM.start)?);
            back.get_mut(..behind.len())?.copy_from_slice(behind);
        }
        Some(Self {
            head,
            summed,
            lead,
            len,
            scope: (!sealed).then(|| scope(packet)),
            crc: Crc::new(),
        })
    }

    /// Returns the bytes of each head.
    pub fn head_len(&self) -> usize {
        self.len
    }

    /// Returns the head of the packet `number` that carries `body` from `offset` on. The bytes
    /// behind the head mean nothing.
    pub fn stamp(&mut self, number: PacketNumber, offset: u64, body: &[u8]) -> &[u8; LONGEST] {
        let offset = varint::word(offset).to_le_bytes();
        let (at, end) = (self.lead, self.len);
        for (bytes, at) in [
            (&mut self.head, at),
            (&mut self.summed, at.saturating_sub(CHECKSUM.len())),
        ] {
            bytes[NUMBER].copy_from_slice(&number.to_le_bytes());
            if let Some(target) = bytes.get_mut(at..at.saturating_add(offset.len())) {
                target.copy_from_slice(&offset);
            }
        }
        let Some(scope) = self.scope else {
            return &self.head;
        };
        self.crc.reset();
        match scope {
            CrcScope::Header => self.crc.update(&self.summed[..CHECKSUM.start]),
            CrcScope::Datagram => {
                let summed = end.saturating_sub(CHECKSUM.len());
                self.crc
                    .update(self.summed.get(..summed).unwrap_or_default());
                self.crc.update(body);
            }
        }
        self.head[CHECKSUM].copy_from_slice(&self.crc.finish().to_le_bytes());
        &self.head
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{ChannelId, MessageNumber};
    use crate::wire::{FragHead, Header, PacketType, put_header, seal};
    use proptest::prelude::*;

    const HEADER: Header = Header {
        kind: PacketType::Data,
        scope: CrcScope::Datagram,
        index: 7,
        number: 40,
        tag: 9,
    };

    fn packet(
        header: &Header,
        channel: u32,
        message: MessageNumber,
        offset: u64,
        body: &[u8],
    ) -> Vec<u8> {
        let head = FragHead {
            channel: ChannelId(channel),
            message,
            offset,
            end: false,
            start: None,
        };
        let mut bytes = Vec::new();
        put_header(&mut bytes, header);
        head.put(&mut bytes, body.len(), true);
        bytes.extend_from_slice(body);
        seal(&mut bytes);
        bytes
    }

    proptest! {
        /// A stamped head equals the beginning of the same packet made by itself, independent of
        /// earlier casts.
        #[test]
        fn heads_cast_are_heads_written(
            whole in any::<bool>(),
            channel in any::<u32>(),
            message in any::<u64>(),
            numbers in prop::collection::vec(any::<u64>(), 1..4),
            bits in 1..48_u32,
            body in prop::collection::vec(any::<u8>(), 1..2_000),
        ) {
            let scope = if whole { CrcScope::Datagram } else { CrcScope::Header };
            let header = Header { scope, ..HEADER };
            let first = packet(&header, channel, message, 1, &body);
            let lead = first.len() - body.len() - 1;
            // All offsets have one encoded length.
            let offset = 1 << (bits - 1);
            let mut template = HeaderTemplate::new(&first, lead, offset, false).unwrap();
            for (at, number) in numbers.into_iter().enumerate() {
                let offset = offset + if bits % 7 == 1 { at as u64 } else { 0 };
                let header = Header { number, ..header };
                let alone = packet(&header, channel, message, offset, &body);
                let len = template.head_len();
                prop_assert_eq!(len, alone.len() - body.len());
                prop_assert_eq!(&template.stamp(number, offset, &body)[..len], &alone[..len]);
            }
        }
    }
}
