//! Barrier, broadcast, gather and scatter.

use super::schedule::{Round, Schedule, block, data};
use super::{Arguments, Collective, Kind, LONG, Place};
use core::ops::Range;

/// A member's place in a binomial tree whose root has the relative rank 0.
struct Binomial {
    /// The relative rank of the parent; `None` for the root.
    parent: Option<usize>,
    /// The relative ranks of the children, the largest subtree first, and the number of members in
    /// their subtrees.
    children: Vec<(usize, usize)>,
}

impl Binomial {
    fn new(place: Place) -> Self {
        let Place { rank, size } = place;
        // A member's subtree begins with itself, and is as long as its lowest bit says.
        let reach = match rank {
            0 => size.next_power_of_two(),
            _ => rank & rank.wrapping_neg(),
        };
        let steps = core::iter::successors(Some(reach / 2), |step| Some(step / 2));
        let steps = steps.take_while(|step| *step > 0);
        let child =
            |step: usize| (rank + step < size).then(|| (rank + step, step.min(size - rank - step)));
        Self {
            parent: (rank > 0).then(|| rank - reach),
            children: steps.filter_map(child).collect(),
        }
    }
}

impl Collective {
    /// Returns a barrier: it is done once all members have begun it.
    #[must_use]
    pub fn barrier(place: Place) -> Self {
        let mut schedule = Schedule::default();
        // Two members that send to each other need no packets for acknowledgements alone.
        let is_pairwise = place.size.is_power_of_two();
        let mut step = 1;
        while step < place.size {
            let (to, from) = match is_pairwise {
                true => (place.rank ^ step, place.rank ^ step),
                false => (place.after(step), place.before(step)),
            };
            schedule.add(
                Round::default()
                    .send(to, data(0..0))
                    .receive(from, data(0..0)),
            );
            step *= 2;
        }
        #[cfg(suci_plant)]
        if place.rank == 1 && suci_proto::plant::active("barrier-left-early") {
            schedule.leave_early();
        }
        Self::new(Arguments::new(Kind::Barrier, 0), schedule, Vec::new(), None)
    }

    /// Returns a broadcast: afterwards each member's data are those of `root`. All have the same
    /// length.
    #[must_use]
    pub fn broadcast(place: Place, root: usize, data: Vec<u8>) -> Self {
        let schedule = match data.len() >= LONG && place.size > 2 {
            false => broadcast_whole(place, root, data.len()),
            true => broadcast_in_blocks(place, root, data.len()),
        };
        let arguments = Arguments::new(Kind::Broadcast, data.len()).at(root);
        Self::new(arguments, schedule, data, None)
    }

    /// Returns a gather: `root` gets the data of each member, in the order of their ranks. Member i
    /// has `lengths[i]` bytes; all members know all of these.
    #[must_use]
    pub fn gather(place: Place, root: usize, lengths: &[usize], own: Vec<u8>) -> Self {
        let arguments = Arguments::new(Kind::Gather, 0).at(root).in_parts(lengths);
        let mut schedule = Schedule::default();
        if place.rank != root {
            schedule.add(Round::default().send(root, data(0..own.len())));
            return Self::new(arguments, schedule, own, None);
        }
        let (ranges, total) = ranges(lengths);
        let mut all = vec![0; total];
        put(&mut all, ranges.get(root), &own);
        let mut round = Round::default();
        for (peer, range) in ranges.into_iter().enumerate() {
            if peer != root {
                round = round.receive(peer, data(range));
            }
        }
        schedule.add(round);
        Self::new(arguments, schedule, all, None)
    }

    /// Returns a scatter: member i gets the i-th part of `root`'s data, `lengths[i]` bytes. The
    /// data of other members do not matter.
    #[must_use]
    pub fn scatter(place: Place, root: usize, lengths: &[usize], all: Vec<u8>) -> Self {
        let arguments = Arguments::new(Kind::Scatter, 0).at(root).in_parts(lengths);
        let (ranges, _) = ranges(lengths);
        let mut schedule = Schedule::default();
        if place.rank != root {
            let own = lengths.get(place.rank).copied().unwrap_or_default();
            schedule.add(Round::default().receive(root, data(0..own)));
            return Self::new(arguments, schedule, vec![0; own], None);
        }
        let mut round = Round::default();
        for (peer, range) in ranges.into_iter().enumerate() {
            if peer != root {
                round = round.send(peer, data(range));
            }
        }
        schedule.add(round);
        Self::new(arguments, schedule, all, None)
    }
}

/// Returns where each of several consecutive parts begins and ends, and the length of all.
pub(super) fn ranges(lengths: &[usize]) -> (Vec<Range<usize>>, usize) {
    let mut end = 0;
    let range = |length: &usize| {
        let start = end;
        end += length;
        start..end
    };
    let ranges = lengths.iter().map(range).collect();
    (ranges, end)
}

/// Copies `part` to its range, as far as both reach.
pub(super) fn put(all: &mut [u8], range: Option<&Range<usize>>, part: &[u8]) {
    let place = range.and_then(|range| all.get_mut(range.clone()));
    for (to, from) in place.unwrap_or_default().iter_mut().zip(part) {
        *to = *from;
    }
}

/// Everything goes down a binomial tree.
fn broadcast_whole(place: Place, root: usize, length: usize) -> Schedule {
    let absolute = |relative: usize| (relative + root) % place.size;
    let tree = Binomial::new(place.relative_to(root));
    let mut schedule = Schedule::default();
    if let Some(parent) = tree.parent {
        schedule.add(Round::default().receive(absolute(parent), data(0..length)));
    }
    let mut round = Round::default();
    for (child, _) in tree.children {
        round = round.send(absolute(child), data(0..length));
    }
    schedule.add(round);
    schedule
}

/// Each member gets its block and those of its subtree; then the blocks go round a ring.
fn broadcast_in_blocks(place: Place, root: usize, length: usize) -> Schedule {
    let absolute = |relative: usize| (relative + root) % place.size;
    let own = place.relative_to(root);
    let blocks = |first: usize, count: usize| {
        let start = block(length, 1, place.size, first).start;
        let end = block(length, 1, place.size, first + count - 1).end;
        data(start..end)
    };
    let tree = Binomial::new(own);
    let subtree = tree
        .children
        .first()
        .map_or(1, |(first, count)| first + count - own.rank);
    let mut schedule = Schedule::default();
    if let Some(parent) = tree.parent {
        let round = Round::default();
        schedule.add(round.receive(absolute(parent), blocks(own.rank, subtree)));
    }
    let mut round = Round::default();
    for (child, count) in tree.children {
        round = round.send(absolute(child), blocks(child, count));
    }
    schedule.add(round);
    let (next, previous) = (place.after(1), place.before(1));
    for step in 0..place.size - 1 {
        let round = Round::default().send(next, blocks(own.before(step), 1));
        schedule.add(round.receive(previous, blocks(own.before(step + 1), 1)));
    }
    schedule
}
