//! The parts of a schedule.

use crate::element::Side;
use core::ops::Range;

/// A part of one of the two buffers of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    /// In the scratch buffer, else in the member's data.
    pub(super) scratch: bool,
    pub(super) range: Range<usize>,
}

impl Slice {
    /// Returns true if both have bytes in common.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let (one, two) = (&self.range, &other.range);
        self.scratch == other.scratch && one.start.max(two.start) < one.end.min(two.end)
    }
}

/// Returns a part of the member's data.
pub(super) const fn data(range: Range<usize>) -> Slice {
    Slice {
        scratch: false,
        range,
    }
}

/// Returns a part of the scratch buffer.
pub(super) const fn scratch(range: Range<usize>) -> Slice {
    Slice {
        scratch: true,
        range,
    }
}

/// The way in which the bytes of a message are taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intake {
    /// They replace those of the slice.
    Replace,
    /// They are combined with those of the slice, on this side of them.
    Combine(Side),
}

/// A message to or from another member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) peer: usize,
    pub(super) slice: Slice,
    /// For a receive.
    pub(super) intake: Intake,
    /// Of a receive: its bytes go to the slice as they come.
    pub(super) is_placed: bool,
}

impl Transfer {
    /// Returns its parts of at most `longest` bytes, in order.
    fn parts(&self, longest: usize) -> impl Iterator<Item = Self> + use<> {
        let whole = self.clone();
        let Range { start, end } = whole.slice.range;
        let starts = (start..end).step_by(longest);
        // One without bytes is a message, too.
        let starts = starts.chain((start == end).then_some(start));
        starts.map(move |start| {
            let mut part = whole.clone();
            part.slice.range = start..end.min(start + longest);
            part
        })
    }
}

/// A copy of a part of the scratch buffer into the member's data, of equal length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LocalCopy {
    from: Range<usize>,
    into: Range<usize>,
}

impl LocalCopy {
    pub(super) fn run(&self, data: &mut [u8], scratch: &[u8]) {
        let source = scratch.get(self.from.clone()).unwrap_or_default();
        let target = data.get_mut(self.into.clone()).unwrap_or_default();
        target.copy_from_slice(source);
    }
}

/// Sends and receives that may happen in any order, and what follows once all are done. A receive
/// that changes what a send of the same round reads waits for that send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Round {
    pub(super) sends: Vec<Transfer>,
    pub(super) receives: Vec<Transfer>,
    pub(super) then: Vec<LocalCopy>,
    /// A receive changes what a send reads.
    pub(super) is_guarded: bool,
}

impl Round {
    pub(super) fn send(mut self, peer: usize, slice: Slice) -> Self {
        let intake = Intake::Replace;
        self.sends.push(Transfer {
            peer,
            slice,
            intake,
            is_placed: false,
        });
        self
    }

    pub(super) fn receive(self, peer: usize, slice: Slice) -> Self {
        self.take(peer, slice, Intake::Replace)
    }

    /// Receives data of another member that stand on this side of the slice's in a combination.
    pub(super) fn combine(self, peer: usize, side: Side, slice: Slice) -> Self {
        self.take(peer, slice, Intake::Combine(side))
    }

    fn take(mut self, peer: usize, slice: Slice, intake: Intake) -> Self {
        self.receives.push(Transfer {
            peer,
            slice,
            intake,
            is_placed: false,
        });
        self
    }

    /// Cuts transfers into several of at most `longest` bytes.
    pub(super) fn cut(&mut self, longest: usize) {
        let is_sent = |slice: &Slice| self.sends.iter().any(|send| send.slice.overlaps(slice));
        self.is_guarded = self.receives.iter().any(|receive| is_sent(&receive.slice));
        for transfers in [&mut self.sends, &mut self.receives] {
            if transfers.iter().any(|one| one.slice.range.len() > longest) {
                let parts = transfers.iter().flat_map(|one| one.parts(longest));
                *transfers = parts.collect();
            }
        }
    }

    /// Copies a part of the scratch buffer into the member's data in the end.
    pub(super) fn copy(mut self, from: Range<usize>, into: Range<usize>) -> Self {
        self.then.push(LocalCopy { from, into });
        self
    }
}

/// A member's part of an operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Schedule {
    pub(super) rounds: Vec<Round>,
    /// Bytes of the scratch buffer.
    pub(super) scratch: usize,
}

impl Schedule {
    /// Returns an empty schedule with a scratch buffer.
    pub(super) const fn with_scratch(scratch: usize) -> Self {
        Self {
            rounds: Vec::new(),
            scratch,
        }
    }

    pub(super) fn add(&mut self, round: Round) {
        self.rounds.push(round);
    }

    /// The last round ends before its messages came.
    #[cfg(suci_plant)]
    pub(super) fn leave_early(&mut self) {
        if let Some(last) = self.rounds.last_mut() {
            last.receives.clear();
        }
    }
}

/// Cuts a buffer of `length` bytes into `blocks` of whole elements that differ by one element at
/// most, and returns the range of the one at `index`.
pub(super) fn block(length: usize, size: usize, blocks: usize, index: usize) -> Range<usize> {
    let elements = length / size.max(1);
    let start = |index: usize| {
        let longer = index.min(elements % blocks);
        (elements / blocks * index + longer) * size
    };
    start(index)..start(index + 1)
}
