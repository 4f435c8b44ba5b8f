//! The sent packets while nothing is in flight.

use super::{Marks, SentPackets};
use crate::fold::{Fold, Words};
use std::collections::VecDeque;

/// Only once [`SentPackets::rest`] found nothing in flight.
impl Fold for SentPackets {
    fn fold(&self, to: &mut Words) {
        let Self {
            first,
            base,
            next: _,
            marks: _,
            flights: _,
            frames: _,
            frames_swept: _,
            frames_base,
            skips,
            remembered: _,
            doubtful: _,
            confirmed,
            oldest_flying,
            oldest_silent,
            silent: _,
            flying: _,
            control: _,
            in_flight: _,
            settled,
        } = self;
        first.fold(to);
        to.put_position(*base);
        frames_base.fold(to);
        skips.fold(to);
        confirmed.fold(to);
        for position in [oldest_flying, oldest_silent, settled] {
            to.put_position(*position);
        }
    }

    fn unfold(from: &mut Words) -> Self {
        let mut sent_packets = Self::new(Fold::unfold(from));
        sent_packets.base = from.take_position();
        sent_packets.next = sent_packets.base;
        sent_packets.frames_base = Fold::unfold(from);
        sent_packets.skips = Fold::unfold(from);
        sent_packets.confirmed = Fold::unfold(from);
        sent_packets.oldest_flying = from.take_position();
        sent_packets.oldest_silent = from.take_position();
        sent_packets.settled = from.take_position();
        sent_packets
    }
}

impl SentPackets {
    /// Nothing is expected of the peer any more: forgets what nobody waits for, and gives its
    /// memory back. False if something is in flight.
    pub(in crate::recovery) fn rest(&mut self) -> bool {
        if self.flying > 0 {
            return false;
        }
        self.remembered = VecDeque::new();
        self.confirmed = self.confirmed.saturating_add(self.doubtful);
        self.doubtful = 0;
        self.base = self.next;
        self.frames_base = self.frames_base.saturating_add(self.frames.len() as u64);
        self.marks = Marks::default();
        self.flights = VecDeque::new();
        self.frames = Vec::new();
        self.frames_swept = 0;
        self.silent = 0;
        self.trim();
        true
    }
}
