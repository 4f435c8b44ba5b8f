//! The 28 bytes that every packet starts with, except sealed DATA: that has the first 16 of them.

use super::crc;
use super::reader::Reader;
use crate::limits::VERSION;
use crate::planted;
use crate::security::AEAD_TAG;
use core::fmt;
use core::ops::Range;

/// Version and type, flags, path, index, packet number.
pub const HEADER: usize = 16;
/// The connection tag.
pub(super) const TAG: usize = 8;
/// Offset of the packet number.
pub(super) const NUMBER: Range<usize> = 8..HEADER;
/// Offset of the tag.
pub(super) const TAGGED: Range<usize> = HEADER..HEADER + TAG;
/// Offset of the checksum.
pub(super) const CHECKSUM: Range<usize> = 24..28;
/// Bytes of a plain packet beside its frames: header, tag, CRC32C.
pub const PLAIN_OVERHEAD: usize = CHECKSUM.end;
/// Bytes of a sealed packet beside its frames: header, AEAD tag.
pub const SEALED_OVERHEAD: usize = HEADER + AEAD_TAG;

const HEADER_ONLY: u8 = 0b100;

/// Bits of the flags that hold the key phase.
const PHASE: u8 = 0b11;

const _: () = {
    assert!(HEADER + TAG == CHECKSUM.start && CHECKSUM.end - CHECKSUM.start == 4);
    assert!(
        PLAIN_OVERHEAD == 28 && SEALED_OVERHEAD == 32,
        "the published figures"
    );
    assert!(VERSION < 16, "the version has half a byte");
};

/// The purpose of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PacketType {
    /// Frames of an established connection.
    Data = 0,
    /// Asks for a cookie.
    Hello = 1,
    /// Answers HELLO; its sender keeps no peer yet.
    Cookie = 2,
    /// Opens a connection, with the cookie as proof of address.
    Init = 3,
    /// Answers INIT: the connection is there.
    Accept = 4,
    /// Hints that its sender does not know the connection index.
    Unknown = 5,
    /// Answers HELLO or INIT: refuses the connection, with a reason.
    Refused = 6,
}

impl PacketType {
    /// Returns the type with this number on the wire, if there is one.
    #[must_use]
    pub const fn from_wire(value: u8) -> Option<Self> {
        Some(match value {
            0 => Self::Data,
            1 => Self::Hello,
            2 => Self::Cookie,
            3 => Self::Init,
            4 => Self::Accept,
            5 => Self::Unknown,
            6 => Self::Refused,
            _ => return None,
        })
    }
}

impl fmt::Display for PacketType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Data => "DATA",
            Self::Hello => "HELLO",
            Self::Cookie => "COOKIE",
            Self::Init => "INIT",
            Self::Accept => "ACCEPT",
            Self::Unknown => "UNKNOWN",
            Self::Refused => "REFUSED",
        })
    }
}

/// The bytes that the checksum covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CrcScope {
    /// Header and payload.
    #[default]
    Datagram,
    /// The header alone; the payload is left to the UDP checksum. DATA only.
    Header,
}

/// The header of a plain packet, in version 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The purpose of the datagram.
    pub kind: PacketType,
    /// The bytes that the checksum covers; [`CrcScope::Datagram`] unless the packet is DATA.
    pub scope: CrcScope,
    /// DATA: the receiver's connection index. All others: the sender's node ID.
    pub index: u32,
    /// The packet number; in UNKNOWN that of the cause.
    pub number: u64,
    /// DATA: the receiver's connection tag. Handshake: the attempt's token. UNKNOWN: the cause's
    /// tag.
    pub tag: u64,
}

/// Why a datagram is no valid packet. Each case is only counted: noise must not end a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Shorter than a header.
    #[error("shorter than a header")]
    Short,
    /// Another protocol version.
    #[error("version {0}, expected {VERSION}")]
    Version(u8),
    /// A type that version 1 does not have.
    #[error("unknown packet type {0}")]
    Type(u8),
    /// Reserved flags, or flags that this type may not carry; the flags byte.
    #[error("flags {0:#04x} are reserved")]
    Flags(u8),
    /// A path other than 0.
    #[error("path {0} is reserved")]
    Path(u16),
    /// The checksum does not match: bits changed on the way.
    #[error("wrong checksum")]
    Checksum,
}

/// Returns the connection index (in handshake packets: the sender's node ID), at the same offset in
/// all versions; its lowest byte names the shard. Nothing is verified. `None` if too short.
#[must_use]
pub fn peek_index(datagram: &[u8]) -> Option<u32> {
    Reader::new(datagram.get(4..)?).u32().ok()
}

/// Returns the connection index and the tag, or the token, of a packet from its first bytes.
/// Nothing is verified. `None` if too short.
#[must_use]
pub fn peek_tag(beginning: &[u8]) -> Option<(u32, u64)> {
    let tag = Reader::new(beginning.get(TAGGED)?).u64().ok()?;
    Some((peek_index(beginning)?, tag))
}

/// Returns the connection index and the number of a packet from its first bytes. Nothing is
/// verified. `None` if too short.
#[must_use]
pub fn peek_number(beginning: &[u8]) -> Option<(u32, u64)> {
    let number = Reader::new(beginning.get(8..)?).u64().ok()?;
    Some((peek_index(beginning)?, number))
}

/// Checks length, version, type, flags, path and checksum of a plain packet; returns its header and
/// the bytes behind it.
///
/// # Errors
/// The first check that failed, in the order above.
pub fn open(datagram: &[u8]) -> Result<(Header, &[u8]), HeaderError> {
    let body = datagram.get(PLAIN_OVERHEAD..).ok_or(HeaderError::Short)?;
    let (header, checksum) = read(&mut Reader::new(datagram))?;
    if crc::expected(datagram) != checksum && !planted("checksum-unchecked") {
        return Err(HeaderError::Checksum);
    }
    Ok((header, body))
}

/// Reads and checks the fields; returns the checksum as found, too.
fn read(r: &mut Reader<'_>) -> Result<(Header, u32), HeaderError> {
    let short = |_| HeaderError::Short;
    let (kind, flags) = read_type(r, HEADER_ONLY)?;
    let header = Header {
        kind,
        scope: if flags & HEADER_ONLY == 0 {
            CrcScope::Datagram
        } else {
            CrcScope::Header
        },
        index: r.u32().map_err(short)?,
        number: r.u64().map_err(short)?,
        tag: r.u64().map_err(short)?,
    };
    Ok((header, r.u32().map_err(short)?))
}

/// Reads and checks type, flags and path; `data_flags` are those that DATA may carry. Returns type
/// and flags.
#[inline(always)]
fn read_type(r: &mut Reader<'_>, data_flags: u8) -> Result<(PacketType, u8), HeaderError> {
    let short = |_| HeaderError::Short;
    let first = r.u8().map_err(short)?;
    let flags = r.u8().map_err(short)?;
    let path = r.u16().map_err(short)?;
    if first >> 4 != VERSION {
        return Err(HeaderError::Version(first >> 4));
    }
    let kind = PacketType::from_wire(first & 0xf).ok_or(HeaderError::Type(first & 0xf))?;
    let allowed = if kind == PacketType::Data {
        data_flags
    } else {
        0
    };
    if flags & !allowed != 0 {
        return Err(HeaderError::Flags(flags));
    }
    if path != 0 {
        return Err(HeaderError::Path(path));
    }
    Ok((kind, flags))
}

/// Reads a HELLO or REFUSED of another version: in all versions they begin alike. Returns the
/// header and the bytes behind it; `None` if it is no such packet, or its checksum is wrong.
#[must_use]
pub fn open_other_version(datagram: &[u8]) -> Option<(Header, &[u8])> {
    let (beginning, fields) = datagram.split_first_chunk::<4>()?;
    let [first, zeros @ ..] = beginning;
    let kind = PacketType::from_wire(first & 0xf)?;
    let is_common = matches!(kind, PacketType::Hello | PacketType::Refused);
    if first >> 4 == VERSION || !is_common || *zeros != [0; 3] {
        return None;
    }
    let mut r = Reader::new(fields);
    let header = Header {
        kind,
        scope: CrcScope::Datagram,
        index: r.u32().ok()?,
        number: r.u64().ok()?,
        tag: r.u64().ok()?,
    };
    let is_whole = r.u32().ok()? == crc::expected(datagram);
    let body = datagram.get(PLAIN_OVERHEAD..)?;
    is_whole.then_some((header, body))
}

/// Returns true if the first byte of `datagram` names DATA, in any version.
#[must_use]
pub fn is_data(datagram: &[u8]) -> bool {
    let first = datagram.first();
    first.is_some_and(|first| first & 0xf == PacketType::Data as u8)
}

/// The header of a sealed packet. It is not authentic until the packet was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedHeader {
    /// The receiver's connection index.
    pub index: u32,
    /// The packet number.
    pub number: u64,
    /// The key phase, modulo 4.
    pub phase: u8,
}

impl SealedHeader {
    /// Checks length, version, type, flags and path of a sealed DATA packet.
    ///
    /// # Errors
    /// The first check that failed, in the order above.
    pub fn read(datagram: &[u8]) -> Result<Self, HeaderError> {
        if datagram.len() < SEALED_OVERHEAD {
            return Err(HeaderError::Short);
        }
        let mut r = Reader::new(datagram);
        let short = |_| HeaderError::Short;
        let (kind, flags) = read_type(&mut r, PHASE)?;
        if kind != PacketType::Data {
            return Err(HeaderError::Type(kind as u8));
        }
        Ok(Self {
            phase: flags & PHASE,
            index: r.u32().map_err(short)?,
            number: r.u64().map_err(short)?,
        })
    }

    /// Returns the 16 bytes of the header.
    #[must_use]
    pub fn bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let fixed = [VERSION << 4 | PacketType::Data as u8, self.phase & PHASE];
        let (index, number) = (self.index.to_le_bytes(), self.number.to_le_bytes());
        let all = fixed.into_iter().chain([0; 2]).chain(index).chain(number);
        bytes.iter_mut().zip(all).for_each(|(to, byte)| *to = byte);
        bytes
    }
}

/// Returns the last 8 bytes of a packet. In sealed mode UNKNOWN has those of its cause for a tag.
#[must_use]
pub fn tail(packet: &[u8]) -> u64 {
    packet
        .last_chunk()
        .map_or(0, |tail| u64::from_le_bytes(*tail))
}

/// Returns the context of the handshake message in the last `message` bytes of an INIT or ACCEPT:
/// the packet with zeros for the message and for the checksum.
#[must_use]
pub fn handshake_context(packet: &[u8], message: usize) -> Vec<u8> {
    let mut context = packet.to_vec();
    let kept = context.len().saturating_sub(message);
    context.iter_mut().skip(kept).for_each(|byte| *byte = 0);
    if let Some(checksum) = context.get_mut(CHECKSUM) {
        checksum.fill(0);
    }
    context
}

/// Appends the 28 bytes of `header` with a checksum of zero; [`seal`](super::seal) or
/// [`seal_gathered`](super::seal_gathered) fills it in when the packet is complete.
pub fn put_header(buf: &mut Vec<u8>, header: &Header) {
    buf.extend_from_slice(&[VERSION << 4 | header.kind as u8, flags_of(header), 0, 0]);
    buf.extend_from_slice(&header.index.to_le_bytes());
    buf.extend_from_slice(&header.number.to_le_bytes());
    buf.extend_from_slice(&header.tag.to_le_bytes());
    buf.extend_from_slice(&[0; 4]);
}

const fn flags_of(header: &Header) -> u8 {
    match header.scope {
        CrcScope::Datagram => 0,
        CrcScope::Header => HEADER_ONLY,
    }
}

/// Returns the bytes that the checksum of this packet covers, by its flags.
pub(super) fn scope(packet: &[u8]) -> CrcScope {
    match packet.get(1) {
        Some(flags) if flags & HEADER_ONLY != 0 => CrcScope::Header,
        _ => CrcScope::Datagram,
    }
}
