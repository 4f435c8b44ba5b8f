//! The steps of a shrink: one agreement on the members and a number, one that the number is free.

use crate::agreement::Knowledge;
use std::sync::atomic::{AtomicU32, Ordering};

/// Numbers of groups are below this: each has four channels of 2^24.
const NUMBERS: u32 = 1 << 22;

/// The numbers that programs choose are below this. Those above are for groups that shrank.
pub const SHRUNK: u32 = NUMBERS / 2;

/// The next step of a shrink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShrinkStep {
    /// The member takes part in an agreement with this value and number, and then calls
    /// [`Shrinking::next`].
    Agree(u64, u32),
    /// The members that are left go on with the group of this number
    /// ([`GroupState::without`](super::GroupState::without)).
    Done(Knowledge, u32),
    /// A member has no number left.
    NoNumber,
}

/// A shrink under way at one member. Members agree on the greatest number that one of them
/// proposes. Another group of some member may have taken it since: then they begin anew.
#[derive(Debug)]
pub struct Shrinking {
    /// The number of the group that shrinks.
    group: u32,
    /// The number that the members agreed on, if they did.
    proposed: Option<u32>,
    attempt: u32,
}

impl Shrinking {
    /// Returns the shrink of this group, and its first step. `last` is the greatest number of a
    /// group that shrank at this node.
    pub fn begin(group: u32, last: &AtomicU32) -> (Self, ShrinkStep) {
        let new = Self {
            group,
            proposed: None,
            attempt: 0,
        };
        (new, propose(0, last))
    }

    /// Returns the step after an agreement.
    pub fn next(&mut self, known: Knowledge, last: &AtomicU32) -> ShrinkStep {
        match self.proposed {
            None if known.number >= NUMBERS => ShrinkStep::NoNumber,
            None => {
                self.proposed = Some(known.number);
                let is_free = last.fetch_max(known.number, Ordering::Relaxed) < known.number;
                ShrinkStep::Agree(is_free.into(), known.number)
            }
            Some(number) if known.value == 1 => ShrinkStep::Done(known, number),
            // Another group of the same members may try again at the same time. In one of four
            // attempts their numbers differ, and the greater of them is free everywhere.
            Some(_) => {
                self.proposed = None;
                self.attempt = (self.attempt + 1) % 4;
                propose(self.group >> (self.attempt * 6) & 63, last)
            }
        }
    }
}

/// Returns the step that proposes a number, `beyond` the next one.
fn propose(beyond: u32, last: &AtomicU32) -> ShrinkStep {
    let next = last.load(Ordering::Relaxed).max(SHRUNK) + 1;
    ShrinkStep::Agree(0, next + beyond)
}
