//! The sent packets while nothing is in flight.

use super::{SentPackets, StateBitmap};
use std::collections::VecDeque;

impl SentPackets {
    /// Nothing is expected of the peer any more: forgets what nobody waits for, and gives its
    /// memory back. False if something is in flight.
    pub(in crate::recovery) fn shrink(&mut self) -> bool {
        if self.flying > 0 {
            return false;
        }
        self.remembered = VecDeque::new();
        self.confirmed = self.confirmed.saturating_add(self.doubtful);
        self.doubtful = 0;
        self.base = self.next;
        self.frames_base = self.frames_base.saturating_add(self.frames.len() as u64);
        self.marks = StateBitmap::default();
        self.flights = VecDeque::new();
        self.frames = Vec::new();
        self.frames_swept = 0;
        self.silent = 0;
        self.trim();
        true
    }
}
