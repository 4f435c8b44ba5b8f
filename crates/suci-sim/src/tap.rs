//! A listener on the wire: it tells which parts of which messages a datagram carries.
//!
//! It is written from the wire format's text and shares no code with the engine, so that
//! "delivered" can be compared with the packets that really reached the other process. It reads
//! plain packets and believes nothing: bytes that do not parse carry nothing. Sealed ones it turns
//! into plain ones first, by the cipher for tests, which keeps no secrets.

use std::fmt;

use bytes::Bytes;
use toy_cipher::reveal;

/// Bytes of a plain header.
pub const HEADER: usize = 28;
/// First byte of a DATA packet of version 1.
pub const DATA: u8 = 0x10;
/// First byte of a HELLO.
pub const HELLO: u8 = 0x11;
/// First byte of an INIT, on which a packet may ride.
pub const INIT: u8 = 0x13;
/// First byte of an UNKNOWN.
pub const UNKNOWN: u8 = 0x15;
/// The kind of messages that were taken back before they were sent.
const VOID: u8 = 2;

/// Part of a message, as the wire names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The channel.
    pub channel: u32,
    /// The number of the message in it.
    pub number: u64,
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// The kind of the content.
    pub what: What,
}

/// The kind of content that a packet has of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Its bytes.
    Bytes,
    /// The question whether it may be sent.
    Request,
    /// The word that its sender took it back.
    Void,
}

/// The header of a plain packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Version and type.
    pub first: u8,
    /// The receiver's connection index, or the sender's node in handshake packets.
    pub index: u32,
    /// The packet's number.
    pub number: u64,
    /// The receiver's connection tag.
    pub tag: u64,
}

/// Returns a packet as the tap reads it. One of a `sealed` run has no tag: here it has tag 0.
#[must_use]
pub fn seen(bytes: &Bytes, sealed: bool) -> Bytes {
    const SEALED_HEADER: usize = 16;
    match bytes.get(..SEALED_HEADER) {
        Some(head) if sealed && head.first() == Some(&DATA) => {
            let mut plain = head.to_vec();
            plain.resize(HEADER, 0);
            plain.extend(reveal(bytes));
            plain.into()
        }
        _ => bytes.clone(),
    }
}

/// Reads the header of a plain packet.
#[must_use]
pub fn head(bytes: &[u8]) -> Option<Head> {
    let first = *bytes.first()?;
    let index = u32::from_le_bytes(bytes.get(4..8)?.try_into().ok()?);
    let number = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
    let tag = u64::from_le_bytes(bytes.get(16..24)?.try_into().ok()?);
    bytes.get(..HEADER)?;
    Some(Head {
        first,
        index,
        number,
        tag,
    })
}

/// Returns the parts of messages in a datagram.
#[must_use]
pub fn parts(bytes: &[u8]) -> Vec<Part> {
    let mut found = Vec::new();
    let mut cursor = Cursor::new(bytes, false);
    let ready = match bytes.first() {
        Some(&DATA) => Some(()),
        Some(&INIT) => skip_init(&mut cursor),
        _ => None,
    };
    if ready.is_some() {
        while !cursor.rest.is_empty() {
            if frame(&mut cursor, &mut found).is_none() {
                break;
            }
        }
    }
    found
}

/// Returns the node that an INIT is for, whichever process has its destination address.
#[must_use]
pub fn target(bytes: &[u8]) -> Option<u32> {
    if bytes.first() != Some(&INIT) {
        return None;
    }
    let target = Cursor::new(bytes, false).bytes(4)?;
    target.try_into().ok().map(u32::from_le_bytes)
}

/// The credit frames of a DATA packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The generation of a CREDIT or of the credit in an ACK.
    pub granted: Option<u64>,
    /// The generation of a RETURN.
    pub returned: Option<u64>,
    /// The packet carries parts of messages.
    pub parts: bool,
}

/// Reads the credit frames of a DATA packet.
#[must_use]
pub fn credit(bytes: &[u8]) -> Said {
    const CREDIT_BODY: usize = 4;
    let mut said = Said::default();
    let mut found = Vec::new();
    let mut cursor = Cursor::new(bytes, true);
    while let Some(&kind) = cursor.rest.first() {
        cursor.seen = Some(Vec::new());
        if frame(&mut cursor, &mut found).is_none() {
            break;
        }
        let numbers = cursor.seen.take().unwrap_or_default();
        match kind {
            0x03 => said.granted = numbers.first().copied(),
            0x12 | 0x13 => {
                let body = numbers.len().saturating_sub(CREDIT_BODY);
                said.granted = numbers.get(body).copied();
            }
            0x05 => said.returned = numbers.first().copied(),
            _ => {}
        }
    }
    said.parts = found.iter().any(|part| part.what != What::Request);
    said
}

/// Computes CRC32C (RFC 3720 appendix B.4) bit by bit: only attackers here need one.
#[must_use]
pub fn crc32c(parts: &[&[u8]]) -> u32 {
    let mut crc = !0u32;
    for byte in parts.iter().copied().flatten() {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

/// Returns a plain packet with a right checksum, as an attacker would make it.
#[must_use]
pub fn forge(head: Head, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![head.first, 0, 0, 0];
    bytes.extend_from_slice(&head.index.to_le_bytes());
    bytes.extend_from_slice(&head.number.to_le_bytes());
    bytes.extend_from_slice(&head.tag.to_le_bytes());
    let crc = crc32c(&[&bytes, body]);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// Writes a number the way the wire does: trailing zero bits of the first byte tell the length.
pub fn put_varint(into: &mut Vec<u8>, value: u64) {
    let bits = 64 - value.leading_zeros();
    let length = bits.div_ceil(7).max(1);
    if length > 8 {
        into.push(0);
        into.extend_from_slice(&value.to_le_bytes());
        return;
    }
    let coded = ((u128::from(value) << length) | (1 << (length - 1))).to_le_bytes();
    into.extend(coded.iter().take(length as usize));
}

/// A datagram in words, for traces: type, number, then each frame with its numbers.
#[derive(Debug)]
pub struct Described<'a>(pub &'a [u8]);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&describe(self.0))
    }
}

fn describe(bytes: &[u8]) -> String {
    const TYPES: [&str; 7] = [
        "DATA", "HELLO", "COOKIE", "INIT", "ACCEPT", "UNKNOWN", "REFUSED",
    ];
    let Some(head) = head(bytes) else {
        return "garbage".into();
    };
    let name = TYPES.get(usize::from(head.first & 15)).copied();
    let mut text = format!("{} #{}", name.unwrap_or("?"), head.number);
    let mut cursor = Cursor::new(bytes, true);
    let ready = match head.first {
        DATA => Some(()),
        INIT => skip_init(&mut cursor),
        _ => None,
    };
    if ready.is_none() {
        return text;
    }
    let mut found = Vec::new();
    let mut padding = 0;
    while let Some(&kind) = cursor.rest.first() {
        cursor.seen = Some(Vec::new());
        if frame(&mut cursor, &mut found).is_none() {
            text += " ?";
            break;
        }
        if kind == 0 {
            padding += 1;
            continue;
        }
        let numbers = cursor.seen.take().unwrap_or_default();
        text += &format!(" {}{numbers:?}", frame_name(kind));
    }
    if padding > 0 {
        text += &format!(" PADDING {padding}");
    }
    text
}

fn frame_name(kind: u8) -> &'static str {
    match kind {
        0x01 => "PING",
        0x03 => "CREDIT",
        0x04 => "RECLAIM",
        0x05 => "RETURN",
        0x06 => "BLOCKED",
        0x07 => "MAX_CHANNEL",
        0x08 => "CHANNEL_BLOCKED",
        0x09 => "RTS",
        0x0a => "CTS",
        0x0b => "REFUSE",
        0x0c => "MODE",
        0x0d => "SUSPEND",
        0x0e => "RESUME",
        0x0f => "CLOSE",
        0x10..=0x13 => "ACK",
        0x18 => "CHALLENGE",
        0x19 => "RESPONSE",
        0x1a => "FIN",
        0x1b => "MAX_CHANNELS",
        _ => "FRAG",
    }
}

struct Cursor<'a> {
    rest: &'a [u8],
    /// Numbers read, if the caller wants to see them.
    seen: Option<Vec<u64>>,
}

impl<'a> Cursor<'a> {
    /// Returns a cursor behind the header.
    fn new(bytes: &'a [u8], seen: bool) -> Self {
        let rest = bytes.get(HEADER..).unwrap_or(&[]);
        Self {
            rest,
            seen: seen.then(Vec::new),
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn bytes(&mut self, count: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(count).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let first = *self.rest.first()?;
        let value = if first == 0 {
            let coded = self.bytes(9)?;
            u64::from_le_bytes(coded.get(1..9)?.try_into().ok()?)
        } else {
            let length = first.trailing_zeros() + 1;
            let mut word = [0; 16];
            for (to, from) in word.iter_mut().zip(self.bytes(u64::from(length))?) {
                *to = *from;
            }
            u64::try_from(u128::from_le_bytes(word) >> length).ok()?
        };
        if let Some(seen) = &mut self.seen {
            seen.push(value);
        }
        Some(value)
    }

    fn varints(&mut self, count: u64) -> Option<()> {
        (0..count).try_for_each(|_| self.varint().map(|_| ()))
    }
}

/// Skips target, both incarnations, epoch, index, tag, cookie, grant and parameters; then comes the
/// ride.
fn skip_init(cursor: &mut Cursor<'_>) -> Option<()> {
    cursor.bytes(4 + 16 + 16)?;
    cursor.varint()?;
    cursor.bytes(4 + 8 + 24)?;
    cursor.varints(4)?;
    let parameters = cursor.varint()?;
    cursor.bytes(parameters).map(|_| ())
}

fn frame(cursor: &mut Cursor<'_>, found: &mut Vec<Part>) -> Option<()> {
    let kind = cursor.byte()?;
    match kind {
        0x00 | 0x01 => Some(()),
        0x10..=0x13 => ack(cursor, kind),
        0x03 | 0x06 => cursor.varints(4),
        0x04 | 0x0d | 0x0e | 0x1b => cursor.varints(1),
        0x07 | 0x08 | 0x0a | 0x1a => cursor.varints(2),
        0x05 | 0x0b | 0x0f => cursor.varints(3),
        0x09 => request(cursor).map(|part| found.push(part)),
        0x0c => {
            cursor.varint()?;
            cursor.byte().map(|_| ())
        }
        0x18 | 0x19 => cursor.bytes(8).map(|_| ()),
        0x80..=0xff => fragment(cursor, kind).map(|part| found.push(part)),
        _ => None,
    }
}

fn ack(cursor: &mut Cursor<'_>, kind: u8) -> Option<()> {
    cursor.varints(2)?;
    let further = cursor.varint()?;
    cursor.varint()?;
    cursor.varints(further.min(1_000).checked_mul(2)?)?;
    if kind & 1 != 0 {
        cursor.varints(3)?;
    }
    if kind & 2 != 0 {
        cursor.varints(4)?;
    }
    Some(())
}

fn request(cursor: &mut Cursor<'_>) -> Option<Part> {
    let channel = u32::try_from(cursor.varint()?).ok()?;
    let number = cursor.varint()?;
    cursor.varints(2)?;
    cursor.byte()?;
    let length = cursor.byte()?;
    cursor.bytes(u64::from(length))?;
    Some(Part {
        channel,
        number,
        start: 0,
        end: 0,
        what: What::Request,
    })
}

fn fragment(cursor: &mut Cursor<'_>, bits: u8) -> Option<Part> {
    let has = |bit: u8| bits & (1 << bit) != 0;
    let (first, end, with_length) = (has(0), has(1), has(2));
    let channel = u32::try_from(cursor.varint()?).ok()?;
    let number = cursor.varint()?;
    let start = if first { 0 } else { cursor.varint()? };
    if first && !end {
        cursor.varint()?;
    }
    if has(3) {
        cursor.varint()?;
    }
    let kind = if has(4) { cursor.byte()? } else { 128 };
    if has(5) {
        let length = cursor.byte()?;
        cursor.bytes(u64::from(length))?;
    }
    let length = if with_length {
        cursor.varint()?
    } else {
        cursor.rest.len() as u64
    };
    cursor.bytes(length)?;
    Some(Part {
        channel,
        number,
        start,
        end: start.checked_add(length)?,
        what: match kind {
            VOID => What::Void,
            _ => What::Bytes,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_read_back() {
        for value in [
            0,
            1,
            127,
            128,
            16_383,
            16_384,
            (1 << 56) - 1,
            1 << 56,
            u64::MAX,
        ] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut cursor = Cursor {
                rest: &bytes,
                seen: None,
            };
            assert_eq!(cursor.varint(), Some(value));
            assert!(cursor.rest.is_empty(), "{value}");
        }
    }

    #[test]
    fn crc_of_the_rfc_vectors() {
        assert_eq!(crc32c(&[&[0; 32]]), 0x8a91_36aa);
        assert_eq!(crc32c(&[b"1234", b"56789"]), 0xe306_9283);
    }

    #[test]
    fn parts_are_found_behind_other_frames() {
        let mut body = vec![0x01, 0x12];
        for value in [9, 0, 0, 0, 1, 2, 3, 4] {
            put_varint(&mut body, value);
        }
        // A whole message of 3 bytes on channel 5, with length.
        body.push(0x80 | 0b111);
        for value in [5, 7, 3] {
            put_varint(&mut body, value);
        }
        body.extend_from_slice(b"abc");
        // The end of another, to the end of the packet.
        body.push(0x80 | 0b10);
        for value in [6, 8, 1_000] {
            put_varint(&mut body, value);
        }
        body.extend_from_slice(b"tail");
        let packet = forge(
            Head {
                first: DATA,
                index: 1,
                number: 2,
                tag: 3,
            },
            &body,
        );
        assert_eq!(
            parts(&packet),
            [
                Part {
                    channel: 5,
                    number: 7,
                    start: 0,
                    end: 3,
                    what: What::Bytes
                },
                Part {
                    channel: 6,
                    number: 8,
                    start: 1_000,
                    end: 1_004,
                    what: What::Bytes
                }
            ]
        );
        assert_eq!(head(&packet).map(|head| head.tag), Some(3));
        let said = credit(&packet);
        assert!(said.parts && said.granted == Some(1) && said.returned.is_none());
        assert!(parts(&packet[..20]).is_empty());
    }
}
