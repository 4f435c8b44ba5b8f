//! The sent packets while nothing is in flight.

use super::{Content, SentPackets, StateBitmap};
use std::collections::VecDeque;

impl<T: Content> SentPackets<T> {
    /// Forgets all packets and frees their memory: no more is expected of the peer. Returns false
    /// if a packet is in flight.
    pub(in crate::recovery) fn shrink(&mut self) -> bool {
        if self.packets_in_flight > 0 {
            return false;
        }
        self.remembered = VecDeque::new();
        self.confirmed = self.confirmed.saturating_add(self.doubtful);
        self.doubtful = 0;
        self.base = self.next;
        self.frames_base = self.frames_base.saturating_add(self.frames.len() as u64);
        self.states = StateBitmap::default();
        self.batches = VecDeque::new();
        self.frames = Vec::new();
        self.frames_swept = 0;
        self.silent = 0;
        self.trim();
        true
    }
}
