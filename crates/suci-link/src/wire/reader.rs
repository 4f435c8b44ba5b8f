//! A cursor over received bytes that cannot run past them.

use crate::types::ProtocolError;

/// Bytes that break the format, with the rule that they break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed: {0}")]
pub struct Malformed(pub &'static str);

impl From<Malformed> for ProtocolError {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error.0)
    }
}

/// Reads little-endian fields off the front of a slice. After an error the position is unspecified,
/// but reading on is safe.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

const TRUNCATED: Malformed = Malformed("truncated");

impl<'a> Reader<'a> {
    /// Returns a reader of all of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, tail) = self.bytes.split_first_chunk::<N>().ok_or(TRUNCATED)?;
        self.bytes = tail;
        Ok(*head)
    }

    /// Returns the next byte, without consuming it.
    #[must_use]
    #[inline]
    pub const fn peek(&self) -> Option<u8> {
        match self.bytes {
            [first, ..] => Some(*first),
            [] => None,
        }
    }

    /// Returns the next byte.
    ///
    /// # Errors
    /// Nothing is left.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Returns the next two bytes.
    ///
    /// # Errors
    /// Fewer are left.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    /// Returns the next four bytes.
    ///
    /// # Errors
    /// Fewer are left.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    /// Returns the next eight bytes.
    ///
    /// # Errors
    /// Fewer are left.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// Returns the next sixteen bytes.
    ///
    /// # Errors
    /// Fewer are left.
    #[inline]
    pub fn u128(&mut self) -> Result<u128, Malformed> {
        self.array().map(u128::from_le_bytes)
    }

    /// Returns the next `N` bytes as they are.
    ///
    /// # Errors
    /// Fewer are left.
    #[inline]
    pub fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.array()
    }

    /// Returns the next varint, in its shortest form or any longer one.
    ///
    /// # Errors
    /// It runs past the end.
    #[inline(always)]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        // One load for every length: a branch per length is mispredicted whenever lengths change.
        if let Some(chunk) = self.bytes.first_chunk::<8>() {
            let word = u64::from_le_bytes(*chunk);
            let len = word.trailing_zeros() + 1;
            if let Some(tail) = self.bytes.get(len as usize..).filter(|_| len <= 8) {
                self.bytes = tail;
                return Ok(word << (64 - 8 * len) >> (64 - 7 * len));
            }
        }
        let &first = self.bytes.first().ok_or(TRUNCATED)?;
        self.rare_varint(first)
    }

    /// Returns the next `N` varints, for fields that usually are so short that they share a word.
    ///
    /// # Errors
    /// They run past the end.
    #[inline]
    pub fn varints<const N: usize>(&mut self) -> Result<[u64; N], Malformed> {
        if let Some((values, used)) = short_varints(self.bytes)
            && let Some(tail) = self.bytes.get(used..)
        {
            self.bytes = tail;
            return Ok(values);
        }
        self.long_varints()
    }

    #[inline(never)]
    fn long_varints<const N: usize>(&mut self) -> Result<[u64; N], Malformed> {
        let mut values = [0; N];
        for value in &mut values {
            *value = self.varint()?;
        }
        Ok(values)
    }

    /// Reads a varint of the longest form, or one within the last 8 bytes.
    #[inline(never)]
    fn rare_varint(&mut self, first: u8) -> Result<u64, Malformed> {
        if first == 0 {
            self.u8()?;
            return self.u64();
        }
        let len = first.trailing_zeros() + 1;
        let raw = self.bytes(u64::from(len))?;
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(raw) {
            *to = *from;
        }
        Ok(u64::from_le_bytes(word) >> len)
    }

    /// Returns a varint that must fit 32 bits; `what` names it in the error.
    ///
    /// # Errors
    /// It runs past the end or is 2^32 or more.
    #[inline]
    pub fn varint32(&mut self, what: &'static str) -> Result<u32, Malformed> {
        u32::try_from(self.varint()?).map_err(|_| Malformed(what))
    }

    /// Returns the next `n` bytes, borrowed: a claimed length allocates nothing.
    ///
    /// # Errors
    /// Fewer are left.
    #[inline]
    pub fn bytes(&mut self, n: u64) -> Result<&'a [u8], Malformed> {
        let n = usize::try_from(n).map_err(|_| TRUNCATED)?;
        let (head, tail) = self.bytes.split_at_checked(n).ok_or(TRUNCATED)?;
        self.bytes = tail;
        Ok(head)
    }

    /// Returns all remaining bytes; afterwards the reader is empty.
    #[inline]
    pub fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.bytes)
    }

    /// Returns true if nothing is left.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the bytes left.
    #[must_use]
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Skips all bytes equal to `value` at the front and returns how many there were.
    pub fn skip_run(&mut self, value: u8) -> usize {
        let run = self.bytes.iter().take_while(|byte| **byte == value).count();
        self.bytes = self.bytes.get(run..).unwrap_or_default();
        run
    }
}

/// Reads the varints at the front of `bytes`, if all lie within eight bytes. Returns them and how
/// many bytes they take. One load suffices for all, as in most frames of small messages.
#[inline]
fn short_varints<const N: usize>(bytes: &[u8]) -> Option<([u64; N], usize)> {
    let mut word = u64::from_le_bytes(*bytes.first_chunk::<8>()?);
    let mut used = 0;
    let mut values = [0; N];
    for value in &mut values {
        let len = word.trailing_zeros() + 1;
        used += len;
        if used > 8 {
            return None;
        }
        *value = word << (64 - 8 * len) >> (64 - 7 * len);
        // Zeros follow the last byte: no varint begins with that many.
        word = word.checked_shr(8 * len).unwrap_or(0);
    }
    Some((values, used as usize))
}
