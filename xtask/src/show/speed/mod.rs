//! The third capability: the fast path. A file for each subject.

mod bench;
mod peers;
mod sealed;
mod shards;

pub(super) use sealed::{sealed_batches, sealed_round_trip, sealed_stream};

use super::{Figure, Line, foundation};
use crate::guards;

/// All subjects, in the order in which they are shown.
pub(super) const SUBJECTS: &[&[Line]] = &[bench::LINES, shards::LINES, peers::LINES, OWN];

const OWN: &[Line] = &[
    Line {
        name: "lone",
        must: "a lone 32 B message, by default: the time of the 64 B ping (at most 1.10 x)",
        run: |ctx| foundation::lone(ctx, "adaptive"),
    },
    Line {
        name: "guards",
        must: "the guards pass twice in a row with the same counts",
        run: |_| Ok(Figure::new(true, guards::twice()?)),
    },
];
