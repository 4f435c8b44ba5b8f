//! Unsigned integers in 1 to 9 bytes.
//!
//! The zero bits at the low end of the first byte tell the length, so that one load, one count
//! and two shifts decode any of the first eight lengths; LEB128 would need a branch per byte,
//! and RFC 9000's two-bit prefix reaches only 2^62, which a packet number may pass.

/// Bytes of the longest form.
pub const MAX: usize = 9;

/// Bytes that [`put`] needs for `v`: 1 to [`MAX`].
#[must_use]
#[inline]
pub const fn size(v: u64) -> usize {
    // 7 bits per byte up to 8 bytes (56 bits); beyond that a zero byte and all 64 bits.
    let bits = 64 - (v | 1).leading_zeros();
    if bits > 56 {
        MAX
    } else {
        bits.div_ceil(7) as usize
    }
}

/// Appends the shortest form of `v`.
#[inline]
pub fn put(buf: &mut Vec<u8>, v: u64) {
    if v < 0x80 {
        buf.push((v as u8) << 1 | 1);
        return;
    }
    let len = size(v);
    if len == MAX {
        buf.push(0);
        buf.extend_from_slice(&v.to_le_bytes());
        return;
    }
    // A fixed-size append and a cut compile to one store; a variable-size copy would be a call.
    let word = v << len | 1 << (len - 1);
    let end = buf.len() + len;
    buf.extend_from_slice(&word.to_le_bytes());
    buf.truncate(end);
}
