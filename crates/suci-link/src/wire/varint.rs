//! Unsigned integers in 1 to 9 bytes.
//!
//! The zero bits at the low end of the first byte give the length, so that one load, one count and
//! two shifts decode any of the first eight lengths; LEB128 would need a branch per byte, and RFC
//! 9000's two-bit prefix reaches only 2^62, which a packet number may pass.

/// Bytes of the longest form.
pub const MAX: usize = 9;

/// Returns the bytes that [`put`] needs for `v`: 1 to [`MAX`].
#[must_use]
#[inline]
pub const fn size(v: u64) -> usize {
    // 7 bits per byte up to 8 bytes (56 bits); beyond that a zero byte and all 64 bits. Avoid a
    // division by seven, since this runs for each field of each frame.
    let bits = 64 - (v | 1).leading_zeros() as usize;
    let len = (9 * bits + 64) / 64;
    if len < MAX { len } else { MAX }
}

/// Returns the largest number whose shortest form is as long as that of `v`.
pub const fn last_like(v: u64) -> u64 {
    let len = size(v);
    if len == MAX {
        u64::MAX
    } else {
        (1 << (7 * len)) - 1
    }
}

/// Returns a little-endian word that begins with the shortest form of `v`, followed by zeros, if
/// that form is shorter than [`MAX`].
pub(super) const fn word(v: u64) -> u64 {
    let len = size(v);
    v << len | 1 << (len - 1)
}

/// Appends the shortest form of `v`.
#[inline]
pub fn put(buf: &mut Vec<u8>, v: u64) {
    let mut fields = Fields::NONE;
    fields.add(buf, v);
    fields.put(buf);
}

/// Short fields that are appended together with one store. Appended one by one, each would check
/// the room, and a copy of variable size would be a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields {
    word: u64,
    len: usize,
}

impl Fields {
    /// No fields yet.
    pub(super) const NONE: Self = Self { word: 0, len: 0 };

    /// Begins with a byte.
    pub(super) const fn new(byte: u8) -> Self {
        Self {
            word: byte as u64,
            len: 1,
        }
    }

    /// Adds the shortest form of `v`. If it does not fit beside the other fields, appends those to
    /// `buf` first.
    #[inline(always)]
    pub(super) fn add(&mut self, buf: &mut Vec<u8>, v: u64) {
        let len = size(v);
        if self.len + len > size_of::<u64>() {
            *self = self.flushed(buf);
            if len == MAX {
                buf.push(0);
                buf.extend_from_slice(&v.to_le_bytes());
                return;
            }
        }
        self.word |= word(v) << (8 * self.len);
        self.len += len;
    }

    /// Appends the fields; none are left.
    #[inline(never)]
    fn flushed(self, buf: &mut Vec<u8>) -> Self {
        self.put(buf);
        Self::NONE
    }

    /// Returns the bytes of the fields that were not appended yet.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Appends the fields.
    #[inline]
    pub(super) fn put(self, buf: &mut Vec<u8>) {
        let end = buf.len() + self.len;
        buf.extend_from_slice(&self.word.to_le_bytes());
        buf.truncate(end);
    }
}
