//! Teams: processes that take part in collective operations, and number each other.

use crate::end;
use crate::fabric::node;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};
use suci::SharedNode;
use suci::group::{BitOr, Group, GroupError};

/// The number of the group of `SHMEM_TEAM_SHARED`; that of all processes is 0.
pub(crate) const SHARED_NUMBER: usize = 1;

/// Numbers of teams' groups. Those of active sets follow.
pub(crate) const TEAM_NUMBERS: usize = 1_024;

/// Numbers of groups that a program may choose are below this, a limit of [`Group::new`].
const GROUP_NUMBERS: usize = 1 << 21;

/// Processes in the order of their ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Members(Arc<[usize]>);

impl FromIterator<usize> for Members {
    fn from_iter<I: IntoIterator<Item = usize>>(pes: I) -> Self {
        Self(pes.into_iter().collect())
    }
}

impl Members {
    /// How many they are.
    pub(crate) fn size(&self) -> usize {
        self.0.len()
    }

    /// The process with a rank.
    pub(crate) fn pe(&self, rank: usize) -> Option<usize> {
        self.0.get(rank).copied()
    }

    /// The rank of a process, if it is a member.
    pub(crate) fn rank(&self, pe: usize) -> Option<usize> {
        self.0.iter().position(|member| *member == pe)
    }

    /// Some of the members, by their ranks; nothing if one is none. One member may have any
    /// distance to a next one.
    pub(crate) fn select(&self, start: c_int, stride: c_int, size: c_int) -> Option<Self> {
        if size <= 0 || size > 1 && stride == 0 {
            return None;
        }
        let (start, stride) = (i64::from(start), i64::from(stride));
        let ranks = (0..i64::from(size)).map(|place| start + stride * place);
        ranks
            .map(|rank| self.pe(usize::try_from(rank).ok()?))
            .collect()
    }
}

/// A team of which this process is a member, or an active set.
pub(crate) struct Team {
    pub(crate) members: Members,
    /// This process's number in the team.
    pub(crate) rank: usize,
    /// The number of its group.
    pub(crate) number: usize,
    /// `num_contexts` of its configuration.
    pub(crate) contexts: c_int,
    group: Mutex<Option<Group>>,
}

impl Team {
    /// The team of `members` and this process, one of them.
    pub(crate) fn new(members: Members, rank: usize, number: usize, contexts: c_int) -> Self {
        Self {
            members,
            rank,
            number,
            contexts,
            group: Mutex::new(None),
        }
    }

    /// The team of a group.
    pub(crate) fn of_group(group: Group) -> Self {
        let members = (0..group.size()).collect();
        let rank = group.rank();
        Self {
            group: Mutex::new(Some(group)),
            ..Self::new(members, rank, 0, 0)
        }
    }

    /// Runs a collective operation. Ends the program if it fails: OpenSHMEM has no errors of
    /// operations.
    pub(crate) fn run<T>(
        &self,
        node: &SharedNode,
        operation: impl FnOnce(&mut Group, &mut SharedNode) -> Result<T, GroupError>,
    ) -> T {
        let mut group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        let node = &mut node.clone();
        let result = match group.as_mut() {
            Some(group) => operation(group, node),
            None => self
                .open(node)
                .and_then(|made| operation(group.insert(made), node)),
        };
        result.unwrap_or_else(|error| end::fail_by_group(error))
    }

    /// Gives all members the bits that some of them have.
    pub(crate) fn combine(&self, node: &SharedNode, words: &mut [u64]) {
        if self.members.size() > 1 {
            self.run(node, |group, node| group.allreduce(node, words, BitOr));
        }
    }

    fn open(&self, shared: &SharedNode) -> Result<Group, GroupError> {
        let members: Vec<_> = self.members.0.iter().copied().map(node).collect();
        Group::new(
            shared,
            u32::try_from(self.number).unwrap_or(u32::MAX),
            &members,
        )
    }
}

/// The number of the group of an active set among `world` processes: each set has its own, without
/// any message. Nothing if there are not enough numbers, above a thousand processes.
pub(crate) fn active_set_number(world: usize, set: ActiveSet) -> Option<usize> {
    // Sets of each distance: `world` beginnings, and sizes up to `sizes`.
    let sizes = |log: u32| (world - 1).checked_shr(log).unwrap_or(0) + 1;
    let before: usize = (0..set.log).map(sizes).sum();
    let number = TEAM_NUMBERS + world * before + set.start * sizes(set.log) + (set.size - 1);
    (number < GROUP_NUMBERS).then_some(number)
}

/// The processes of a deprecated collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ActiveSet {
    pub(crate) start: usize,
    /// The logarithm of the distance.
    pub(crate) log: u32,
    pub(crate) size: usize,
}

impl ActiveSet {
    /// The set that the arguments describe among `world` processes.
    pub(crate) fn new(world: usize, start: c_int, log: c_int, size: c_int) -> Option<Self> {
        let set = Self {
            start: usize::try_from(start).ok()?,
            log: u32::try_from(log).ok().filter(|log| *log < 31)?,
            size: usize::try_from(size).ok().filter(|size| *size > 0)?,
        };
        let last = (set.size - 1).checked_mul(1 << set.log)?;
        (set.start.checked_add(last)? < world).then_some(set)
    }

    pub(crate) fn members(self) -> Members {
        let pes = (self.start..).step_by(1 << self.log);
        pes.take(self.size).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn members_are_selected_by_rank() {
        let world: Members = (0..12).collect();
        let odd = world.select(1, 2, 6).unwrap();
        assert_eq!(
            (0..6).map(|rank| odd.pe(rank).unwrap()).collect::<Vec<_>>(),
            [1, 3, 5, 7, 9, 11]
        );
        let back = odd.select(5, -2, 3).unwrap();
        assert_eq!(
            (0..3)
                .map(|rank| back.pe(rank).unwrap())
                .collect::<Vec<_>>(),
            [11, 7, 3]
        );
        assert_eq!(
            (back.rank(7), back.rank(5), back.pe(3)),
            (Some(1), None, None)
        );
        assert_eq!(world.select(11, 0, 1).unwrap().pe(0), Some(11));
        for (start, stride, size) in [
            (0, 1, 13),
            (0, 1, 0),
            (0, 1, -1),
            (-1, 1, 1),
            (12, 1, 1),
            (0, 0, 2),
            (0, -1, 2),
            (0, 12, 2),
            (0, i32::MAX, i32::MAX),
        ] {
            assert_eq!(
                world.select(start, stride, size),
                None,
                "{start} {stride} {size}"
            );
        }
    }

    #[test]
    fn active_sets_have_numbers_of_their_own() {
        for world in [1, 2, 3, 8, 21] {
            let mut numbers = BTreeSet::new();
            let count = c_int::try_from(world).unwrap();
            for start in -1..=count {
                for log in -1..6 {
                    for size in -1..=count + 1 {
                        let Some(set) = ActiveSet::new(world, start, log, size) else {
                            continue;
                        };
                        let number = active_set_number(world, set).unwrap();
                        assert!(numbers.insert(number), "{world}: {set:?}");
                    }
                }
            }
            assert!(numbers.first() == Some(&TEAM_NUMBERS));
        }
        let last = ActiveSet::new(1_000, 999, 9, 1).unwrap();
        assert!(active_set_number(1_000, last).is_some());
        let last = ActiveSet::new(5_000, 4_999, 12, 1).unwrap();
        assert_eq!(active_set_number(5_000, last), None);
    }
}
