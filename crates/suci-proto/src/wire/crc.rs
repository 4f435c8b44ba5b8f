//! CRC32C (Castagnoli, RFC 9260 appendix A): catches what the 16-bit UDP checksum lets pass.

use super::header::{CHECKSUM, CrcScope, HEADER, PLAIN_OVERHEAD, TAG, scope};
use crc_fast::{CrcAlgorithm, Digest};

/// A CRC32C over bytes that lie in several places.
#[derive(Clone, Debug)]
pub struct Crc(Digest);

impl Crc {
    /// The checksum of nothing so far.
    #[must_use]
    pub fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Begins anew, which is cheaper than another: that would copy tables.
    pub(super) fn reset(&mut self) {
        self.0.reset();
    }

    /// Takes in the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes taken in.
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

/// The checksum that a plain packet must carry: over all of it but the checksum's own four
/// bytes, or over the header alone if its flags say so.
pub(super) fn expected<'b>(head: &[u8], rest: impl Iterator<Item = &'b [u8]>) -> u32 {
    let mut crc = Crc::new();
    crc.update(head.get(..HEADER + TAG).unwrap_or(head));
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

/// Computes the checksum of a plain packet that will be gathered on sending, and writes it into
/// its header. `head` starts at the packet's first byte and holds at least the header; `rest`
/// are the other pieces in order.
///
/// A `head` shorter than a header is left alone: it is no packet.
pub fn seal_gathered<'b>(head: &mut [u8], rest: impl Iterator<Item = &'b [u8]>) {
    let crc = expected(head, rest);
    if let Some(place) = head.get_mut(CHECKSUM) {
        place.copy_from_slice(&crc.to_le_bytes());
    }
}
