//! CRC32C (Castagnoli, RFC 9260 appendix A): it detects errors that the 16-bit UDP checksum misses.

use super::header::{CHECKSUM, CrcScope, HEADER, PLAIN_OVERHEAD, TAG, scope};
use crc_fast::{CrcAlgorithm, Digest};

/// A CRC32C over bytes that lie in several slices.
#[derive(Clone, Debug)]
pub struct Crc(Digest);

impl Crc {
    /// Returns a checksum over no bytes yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Starts anew. A new `Crc` would cost more: it copies tables.
    pub(super) fn reset(&mut self) {
        self.0.reset();
    }

    /// Takes in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the checksum of all bytes taken in.
    #[must_use]
    pub fn finish(&self) -> u32 {
        // The algorithm's width is 32: the upper half is zero.
        self.0.finalize() as u32
    }
}

impl Default for Crc {
    fn default() -> Self {
        Self::new()
    }
}

/// Bytes of the header that the checksum covers: all before it.
const COVERED: usize = HEADER + TAG;

/// Up to this many bytes in several slices are copied together for their checksum: an incremental
/// one costs more than the copy.
const SHORT: usize = 192;

/// Aligned for the checksum, which takes words.
#[repr(align(8))]
struct Short([u8; SHORT]);

/// Returns the checksum of `header` and `body`, one behind the other.
#[inline]
fn of(header: &[u8; COVERED], body: &[u8]) -> u32 {
    if body.len() > SHORT - COVERED {
        let mut crc = Crc::new();
        crc.update(header);
        crc.update(body);
        return crc.finish();
    }
    let mut short = Short([0; SHORT]);
    let (front, back) = short.0.split_at_mut(COVERED);
    front.copy_from_slice(header);
    if let Some(back) = back.get_mut(..body.len()) {
        back.copy_from_slice(body);
    }
    let len = COVERED + body.len();
    crc_fast::crc32_iscsi(short.0.get(..len).unwrap_or_default())
}

/// Returns the checksum that a plain packet lying in one slice must carry: over all bytes but its
/// own four, or over the header alone, depending on the packet's flags.
#[inline]
pub fn expected(packet: &[u8]) -> u32 {
    let Some(header) = packet.first_chunk() else {
        return crc_fast::crc32_iscsi(packet);
    };
    match scope(packet) {
        CrcScope::Datagram => of(header, packet.get(PLAIN_OVERHEAD..).unwrap_or_default()),
        CrcScope::Header => crc_fast::crc32_iscsi(header),
    }
}

/// As [`expected`], for a packet that begins with `head`, which holds at least the header, and
/// continues with `rest`.
fn expected_gathered<'b>(head: &[u8], rest: impl Iterator<Item = &'b [u8]>) -> u32 {
    let mut crc = Crc::new();
    crc.update(head.get(..COVERED).unwrap_or(head));
    if scope(head) == CrcScope::Datagram {
        crc.update(head.get(PLAIN_OVERHEAD..).unwrap_or_default());
        rest.for_each(|piece| crc.update(piece));
    }
    crc.finish()
}

/// Computes the checksum of a plain packet lying in one slice and writes it into its header.
///
/// A slice shorter than a header is left alone: it is no packet.
pub fn seal(packet: &mut [u8]) {
    seal_gathered(packet, core::iter::empty());
}

/// Computes the checksum of a plain packet that will be gathered on sending, and writes it into its
/// header. `head` starts at the packet's first byte and holds at least the header; `rest` are the
/// other pieces in order.
///
/// A `head` shorter than a header is left alone: it is no packet.
pub fn seal_gathered<'b>(head: &mut [u8], rest: impl Iterator<Item = &'b [u8]>) {
    let crc = expected_gathered(head, rest);
    if let Some(target) = head.get_mut(CHECKSUM) {
        target.copy_from_slice(&crc.to_le_bytes());
    }
}
