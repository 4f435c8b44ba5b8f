//! The third capability: the fast path. A file for each subject.

mod peers;
mod shards;

use super::Line;

/// All subjects, in the order in which they are shown.
pub(super) const SUBJECTS: &[&[Line]] = &[shards::LINES, peers::LINES];
