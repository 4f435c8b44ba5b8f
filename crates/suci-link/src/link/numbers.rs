//! The numbers of packets.

use crate::limits;
use crate::types::PacketNumber;

/// Chooses packet numbers: rising, with about one in [`limits::SKIP_INTERVAL`] skipped.
#[derive(Debug)]
pub struct Numbers {
    first: PacketNumber,
    next: PacketNumber,
    skip_at: PacketNumber,
}

impl Numbers {
    /// The first number, and a random number that decides which ones are skipped.
    #[must_use]
    pub fn new(first: PacketNumber, random: u64) -> Self {
        let mut numbers = Self {
            first,
            next: first,
            skip_at: first,
        };
        numbers.plan_skip(random);
        numbers
    }

    fn plan_skip(&mut self, random: u64) {
        let ahead = limits::SKIP_INTERVAL / 2 + random % limits::SKIP_INTERVAL;
        self.skip_at = self.next.saturating_add(ahead);
    }

    /// Returns the next number, if any is left: numbers never wrap.
    pub fn peek(&self) -> Option<PacketNumber> {
        (self.next < PacketNumber::MAX).then_some(self.next)
    }

    /// Notes that the next `count` numbers were used: one, or at most [`in_a_row`](Self::in_a_row).
    pub fn advance(&mut self, count: u64, random: impl FnOnce() -> u64) {
        debug_assert!(count <= self.in_a_row().max(1), "none of them is skipped");
        self.next = self.next.saturating_add(count);
        if self.next == self.skip_at {
            self.next = self.next.saturating_add(1);
            self.plan_skip(random());
        }
    }

    /// Returns how many consecutive numbers come before a skipped one, without the last of them.
    pub fn in_a_row(&self) -> u64 {
        self.skip_at.saturating_sub(self.next).saturating_sub(1)
    }

    /// Returns true if `number` was used or skipped.
    pub fn used(&self, number: PacketNumber) -> bool {
        (self.first..self.next).contains(&number)
    }

    /// Uses no number any more: the connection is replaced.
    pub fn use_up(&mut self) {
        self.next = PacketNumber::MAX;
    }

    /// Plans to skip the number after the next `count`.
    pub fn skip_after(&mut self, count: u64) {
        self.skip_at = self.next.saturating_add(count.max(1));
    }

    /// Moves on until only `count` numbers are left.
    pub fn leave(&mut self, count: u64) {
        self.next = PacketNumber::MAX.saturating_sub(count);
        self.skip_at = PacketNumber::MAX;
    }

    /// Returns the number of the first packet.
    pub fn first(&self) -> PacketNumber {
        self.first
    }
}
