//! Lengths of messages, and what they are charged.

use suci_link::limits::MESSAGE_CHARGE;

/// Returns the memory credit that a message of `total` bytes with a header of `user_header` bytes
/// takes.
#[must_use]
pub fn charge(total: u64, user_header: usize) -> u64 {
    MESSAGE_CHARGE
        .saturating_add(len64(user_header))
        .saturating_add(total)
}

/// Converts a length in memory to a length of the protocol.
pub(super) const fn len64(len: usize) -> u64 {
    len as u64
}

/// Converts a length of the protocol to a length in memory. A length beyond `usize` becomes
/// `usize::MAX`, which no buffer reaches.
pub(super) fn to_usize(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

/// A `u64` with the alignment of a `u32`, so that a struct with shorter numbers needs no padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SplitU64([u32; 2]);

impl SplitU64 {
    pub(super) const fn of(number: u64) -> Self {
        Self([number as u32, (number >> 32) as u32])
    }

    pub(super) const fn whole(self) -> u64 {
        let [low, high] = self.0;
        (high as u64) << 32 | low as u64
    }
}
