//! The parts of a schedule.

use super::LONGEST_MESSAGE;
use crate::element::Combine;
use core::ops::Range;

/// A part of one of the two buffers of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    /// In the scratch buffer, else in the member's data.
    pub(super) scratch: bool,
    pub(super) range: Range<usize>,
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

/// A message to or from another member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transfer {
    pub(super) peer: usize,
    pub(super) slice: Slice,
}

impl Transfer {
    fn is_long(&self) -> bool {
        self.slice.range.len() > LONGEST_MESSAGE
    }

    /// Returns its parts, in order.
    fn parts(&self) -> impl Iterator<Item = Self> + use<> {
        let Self { peer, slice } = self.clone();
        let starts = slice.range.clone().step_by(LONGEST_MESSAGE);
        // One without bytes is a message, too.
        let starts = starts.chain(slice.range.is_empty().then_some(slice.range.start));
        starts.map(move |start| {
            let end = slice.range.end.min(start + LONGEST_MESSAGE);
            let range = start..end;
            let slice = Slice {
                scratch: slice.scratch,
                range,
            };
            Self { peer, slice }
        })
    }
}

/// Work on a member's own buffers, parts of equal length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Local {
    /// Copies a part of one buffer into the other one.
    Copy { from: Slice, into: Slice },
    /// Replaces `into` by the combination of `left` and `into`, parts of different buffers.
    Combine { left: Slice, into: Slice },
}

impl Local {
    pub(super) fn run(&self, data: &mut [u8], scratch: &mut [u8], combine: Option<&Combine>) {
        let (Self::Copy { from, into } | Self::Combine { left: from, into }) = self;
        debug_assert_ne!(from.scratch, into.scratch, "two buffers");
        let (source, target) = match from.scratch {
            true => (&*scratch, data),
            false => (&*data, scratch),
        };
        let source = source.get(from.range.clone()).unwrap_or_default();
        let target = target.get_mut(into.range.clone()).unwrap_or_default();
        match self {
            Self::Copy { .. } => target.copy_from_slice(source),
            Self::Combine { .. } => {
                if let Some(combine) = combine {
                    combine.apply(source, target);
                }
            }
        }
    }
}

/// Sends and receives that may happen in any order, and what follows once all are done. No receive
/// touches what a send of the same round reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Round {
    pub(super) sends: Vec<Transfer>,
    pub(super) receives: Vec<Transfer>,
    pub(super) then: Vec<Local>,
}

impl Round {
    pub(super) fn send(mut self, peer: usize, slice: Slice) -> Self {
        self.sends.push(Transfer { peer, slice });
        self
    }

    pub(super) fn receive(mut self, peer: usize, slice: Slice) -> Self {
        self.receives.push(Transfer { peer, slice });
        self
    }

    /// Cuts long transfers into several.
    pub(super) fn cut(&mut self) {
        for transfers in [&mut self.sends, &mut self.receives] {
            if transfers.iter().any(Transfer::is_long) {
                *transfers = transfers.iter().flat_map(Transfer::parts).collect();
            }
        }
    }

    pub(super) fn copy(mut self, from: Slice, into: Slice) -> Self {
        self.then.push(Local::Copy { from, into });
        self
    }

    pub(super) fn combine(mut self, left: Slice, into: Slice) -> Self {
        self.then.push(Local::Combine { left, into });
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
