//! A bitmap of the states of packets: one bit for each state, 64 packets to a word.
//!
//! The packets of a train mostly share their fate, so changes and searches work on whole words.

use core::ops::Range;
use std::collections::VecDeque;

/// Positions that share a word.
const WORD: u64 = u64::BITS as u64;

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::recovery) enum PacketState {
    /// Eliciting and in flight.
    InFlight,
    /// Not eliciting and not acknowledged.
    Silent,
    /// Declared lost by a threshold. A late acknowledgement would prove the threshold too tight.
    Lost,
    /// Given up for another reason; a late acknowledgement proves nothing.
    Dropped,
    /// Acknowledged.
    Acked,
    /// Skipped (never sent), or forgotten.
    Gone,
}

impl PacketState {
    /// The fates that have a bit.
    const ALL: [Self; Self::Gone as usize] = [
        Self::InFlight,
        Self::Silent,
        Self::Lost,
        Self::Dropped,
        Self::Acked,
    ];
}

/// The fates of 64 positions. The word of a packet's fate holds its only bit; a packet that is gone
/// has no bit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Word([u64; PacketState::Gone as usize]);

impl Word {
    /// Returns the bits of packets that an acknowledgement would resolve.
    pub(super) const fn open(&self) -> u64 {
        let [in_flight, silent, lost, dropped, _acked] = self.0;
        in_flight | silent | lost | dropped
    }

    /// Returns the bits of packets with one fate, other than `Gone`.
    pub(super) fn of(&self, fate: PacketState) -> u64 {
        self.0.get(fate as usize).copied().unwrap_or_default()
    }

    fn change(&mut self, bits: u64, from: PacketState, to: PacketState) {
        if let Some(word) = self.0.get_mut(from as usize) {
            *word &= !bits;
        }
        if let Some(word) = self.0.get_mut(to as usize) {
            *word |= bits;
        }
    }
}

/// The fates of all positions from the oldest remembered one on.
#[derive(Debug, Default)]
pub(super) struct StateBitmap {
    /// Position of the first bit of `words[0]`, a multiple of [`WORD`].
    start: u64,
    words: VecDeque<Word>,
}

impl StateBitmap {
    fn index(&self, position: u64) -> Option<usize> {
        usize::try_from(position.checked_sub(self.start)? / WORD).ok()
    }

    /// Returns the fate of the packet at `position`.
    pub(super) fn get(&self, position: u64) -> PacketState {
        let word = self.index(position).and_then(|at| self.words.get(at));
        let bit = 1 << (position % WORD);
        let is = |fate: &PacketState| word.is_some_and(|word| word.of(*fate) & bit != 0);
        PacketState::ALL
            .into_iter()
            .find(is)
            .unwrap_or(PacketState::Gone)
    }

    /// Changes the fate of all positions in `range` from `from` to `to`. A position that was never
    /// changed is `Gone`.
    pub(super) fn change(&mut self, range: Range<u64>, from: PacketState, to: PacketState) {
        if self.words.is_empty() {
            self.start = range.start - range.start % WORD;
        }
        let mut at = range.start;
        while at < range.end {
            let Some(index) = self.index(at) else { return };
            while self.words.len() <= index {
                self.words.push_back(Word::default());
            }
            let end = word_end(at).min(range.end);
            let bits = u64::MAX >> (WORD - (end - at)) << (at % WORD);
            if let Some(word) = self.words.get_mut(index) {
                word.change(bits, from, to);
            }
            at = end;
        }
    }

    /// Returns the first position in `range` whose bit `pick` sets. Costs one step for each word.
    pub(super) fn find(&self, range: Range<u64>, pick: impl Fn(&Word) -> u64) -> Option<u64> {
        let mut at = range.start.max(self.start);
        while at < range.end {
            let bits = pick(self.words.get(self.index(at)?)?) >> (at % WORD);
            if bits != 0 {
                let found = at.saturating_add(bits.trailing_zeros().into());
                return (found < range.end).then_some(found);
            }
            at = word_end(at);
        }
        None
    }

    /// Forgets the positions below `position`.
    pub(super) fn drop_below(&mut self, position: u64) {
        while !self.words.is_empty() && word_end(self.start) <= position {
            self.words.pop_front();
            self.start = word_end(self.start);
        }
    }
}

/// Returns the end of the word that contains `position`.
const fn word_end(position: u64) -> u64 {
    (position | (WORD - 1)).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn fate() -> impl Strategy<Value = PacketState> {
        prop::sample::select(vec![
            PacketState::InFlight,
            PacketState::Silent,
            PacketState::Lost,
            PacketState::Dropped,
            PacketState::Acked,
            PacketState::Gone,
        ])
    }

    #[test]
    fn f06_a_repeated_ack_looks_at_64_packets_at_once() {
        let mut states = StateBitmap::default();
        states.change(0..10_000, PacketState::Gone, PacketState::InFlight);
        // The oldest stays open, so nothing can be dropped from the window.
        states.change(1..10_000, PacketState::InFlight, PacketState::Acked);
        for (from, most) in [(1, 157), (5_000, 79), (9_999, 1)] {
            let steps = core::cell::Cell::new(0);
            let open = |word: &Word| {
                steps.set(steps.get() + 1);
                word.open()
            };
            assert_eq!(states.find(from..10_000, open), None);
            assert_eq!(steps.get(), most, "from {from}");
        }
    }

    proptest! {
        /// The bitmap behaves as a map from positions to fates.
        #[test]
        fn a_state_bitmap_is_a_map(
            first in 0..1_000_u64,
            steps in prop::collection::vec((0..300_u64, 0..200_u64, fate()), 1..40),
            below in 0..400_u64,
        ) {
            let mut states = StateBitmap::default();
            let mut map = BTreeMap::new();
            // The first position is the oldest.
            states.change(first..first + 1, PacketState::Gone, PacketState::Gone);
            for (from, count, fate) in steps {
                // Change positions of one fate, as the ranges of sent packets are.
                let from = first + from;
                let before = *map.get(&from).unwrap_or(&PacketState::Gone);
                let alike = |at: &u64| *map.get(at).unwrap_or(&PacketState::Gone) == before;
                let end = (from..from + count).take_while(alike).last().map_or(from, |at| at + 1);
                states.change(from..end, before, fate);
                map.extend((from..end).map(|position| (position, fate)));
            }
            let below = first + below;
            states.drop_below(below);
            map.retain(|position, _| *position >= below);
            let fate_of = |position| map.get(&position).copied().unwrap_or(PacketState::Gone);
            for position in below..first + 600 {
                prop_assert_eq!(states.get(position), fate_of(position));
            }
            for (from, to) in [(below, first + 500), (below + 70, below + 90)] {
                let mut open = (from..to).filter(|at| !matches!(fate_of(*at), PacketState::Acked | PacketState::Gone));
                prop_assert_eq!(states.find(from..to, Word::open), open.next());
                let acked = (from..to).find(|at| fate_of(*at) == PacketState::Acked);
                prop_assert_eq!(states.find(from..to, |word| word.of(PacketState::Acked)), acked);
            }
        }
    }
}
