//! The third capability: the fast path. A file for each subject.

mod bench;
mod peers;
mod shards;

use super::Line;

/// All subjects, in the order in which they are shown.
pub(super) const SUBJECTS: &[&[Line]] = &[bench::LINES, shards::LINES, peers::LINES];
