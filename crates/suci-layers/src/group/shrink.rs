//! The steps of a shrink: one agreement on the members and a number, one that the number is free.

use crate::agreement::Knowledge;
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Numbers of groups are below this: each has four channels of 2^24.
const NUMBERS: u32 = 1 << 22;

/// The numbers that programs choose are below this. Those above are for groups that shrank.
pub const SHRUNK: u32 = NUMBERS / 2;

/// The numbers that shrunk groups of a node have or had, and those that agreements refused. None
/// is used again.
#[derive(Debug, Default)]
pub struct ShrunkNumbers(Mutex<BTreeSet<u32>>);

impl ShrunkNumbers {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        // Nothing panics while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a number. Returns false if it was not free.
    fn take(&self, number: u32) -> bool {
        number > SHRUNK && self.lock().insert(number)
    }

    /// Returns a free number, `beyond` places above the lowest that exceeds all used ones: most
    /// often that is free at all members. If there is no such number, because a member proposed one
    /// of the last, it is counted from the lowest free number; `NUMBERS` if none is left.
    fn propose(&self, beyond: u32) -> u32 {
        let used = self.lock();
        let next = used.last().unwrap_or(&SHRUNK) + 1 + beyond;
        if next < NUMBERS {
            return next;
        }
        let mut free = (SHRUNK + 1..NUMBERS).filter(|number| !used.contains(number));
        free.nth(beyond as usize).unwrap_or(NUMBERS)
    }
}

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
    /// Returns the shrink of this group, and its first step. `numbers` are those of this node.
    pub fn begin(group: u32, numbers: &ShrunkNumbers) -> (Self, ShrinkStep) {
        let new = Self {
            group,
            proposed: None,
            attempt: 0,
        };
        (new, ShrinkStep::Agree(0, numbers.propose(0)))
    }

    /// Returns the step after an agreement.
    pub fn next(&mut self, known: Knowledge, numbers: &ShrunkNumbers) -> ShrinkStep {
        match self.proposed {
            None if known.number >= NUMBERS => ShrinkStep::NoNumber,
            None => {
                self.proposed = Some(known.number);
                let is_free = numbers.take(known.number);
                ShrinkStep::Agree(is_free.into(), known.number)
            }
            Some(number) if known.value == 1 => ShrinkStep::Done(known, number),
            // Another group of the same members may try again at the same time. In one of four
            // attempts their numbers differ, and both are free everywhere.
            Some(_) => {
                self.proposed = None;
                self.attempt = (self.attempt + 1) % 4;
                let beyond = self.group >> (self.attempt * 6) & 63;
                ShrinkStep::Agree(0, numbers.propose(beyond))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(value: u64, number: u32) -> Knowledge {
        Knowledge {
            value,
            number,
            ..Knowledge::default()
        }
    }

    /// A shrink in which the members agree on this number, which is free.
    fn shrink_to(number: u32, numbers: &ShrunkNumbers) -> ShrinkStep {
        let (mut shrinking, _) = Shrinking::begin(4, numbers);
        let step = shrinking.next(known(0, number), numbers);
        assert_eq!(step, ShrinkStep::Agree(1, number));
        shrinking.next(known(1, number), numbers)
    }

    /// One message of a hostile member would end all later shrinks of those it was in a group with.
    #[test]
    fn a_member_that_proposes_the_last_number_leaves_others_to_later_groups() {
        let numbers = ShrunkNumbers::default();
        for number in [SHRUNK + 1, NUMBERS - 2, NUMBERS - 1] {
            shrink_to(number, &numbers);
        }
        for number in SHRUNK + 2..SHRUNK + 5 {
            let (_, step) = Shrinking::begin(4, &numbers);
            assert_eq!(step, ShrinkStep::Agree(0, number));
            let done = ShrinkStep::Done(known(1, number), number);
            assert_eq!(shrink_to(number, &numbers), done);
        }
    }

    #[test]
    fn numbers_in_use_and_those_of_programs_are_not_free() {
        let numbers = ShrunkNumbers::default();
        for number in [5, SHRUNK, NUMBERS - 1] {
            let (mut shrinking, _) = Shrinking::begin(4, &numbers);
            let step = shrinking.next(known(0, number), &numbers);
            assert_eq!(step, ShrinkStep::Agree((number > SHRUNK).into(), number));
        }
        let (mut shrinking, _) = Shrinking::begin(3 << 6, &numbers);
        let step = shrinking.next(known(0, NUMBERS - 1), &numbers);
        assert_eq!(step, ShrinkStep::Agree(0, NUMBERS - 1));
        // Another attempt passes over as many as the group's number says, also in what is left.
        let step = shrinking.next(known(0, NUMBERS - 1), &numbers);
        assert_eq!(step, ShrinkStep::Agree(0, SHRUNK + 4));
        let (mut shrinking, _) = Shrinking::begin(4, &numbers);
        let step = shrinking.next(known(0, NUMBERS), &numbers);
        assert_eq!(step, ShrinkStep::NoNumber);
    }
}
