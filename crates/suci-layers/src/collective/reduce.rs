//! Reduce, allreduce and scans.

use super::schedule::{Round, Schedule, Slice, block, data};
use super::{Arguments, Collective, Kind, LONG, Place};
use crate::element::{Combine, Side};

impl Collective {
    /// Returns a reduction: `root` gets the combination of all members' data, which have the same
    /// length. The data of other members are lost.
    #[must_use]
    pub fn reduce(place: Place, root: usize, data: Vec<u8>, combine: Combine) -> Self {
        let schedule = match is_for_ring(place, data.len(), &combine) {
            true => reduce_in_blocks(place, root, data.len(), combine.size),
            false => reduce_whole(place, root, data.len(), combine.commutative),
        };
        let arguments = Arguments::new(Kind::Reduce, data.len());
        let arguments = arguments.at(root).by(combine.name);
        Self::new(arguments, schedule, data, Some(combine))
    }

    /// Returns a reduction whose result all members get, equal to the last bit.
    #[must_use]
    pub fn allreduce(place: Place, data: Vec<u8>, combine: Combine) -> Self {
        let schedule = match is_for_ring(place, data.len(), &combine) {
            true => allreduce_in_blocks(place, data.len(), combine.size),
            false => allreduce_whole(place, data.len()),
        };
        let arguments = Arguments::new(Kind::Allreduce, data.len()).by(combine.name);
        Self::new(arguments, schedule, data, Some(combine))
    }

    /// Returns a scan: each member gets the combination of the data of all members up to itself.
    #[must_use]
    pub fn scan(place: Place, data: Vec<u8>, combine: Combine) -> Self {
        let mut schedule = Schedule::default();
        add_scan(&mut schedule, place, 0, data.len());
        let arguments = Arguments::new(Kind::Scan, data.len()).by(combine.name);
        Self::new(arguments, schedule, data, Some(combine))
    }

    /// Returns an exclusive scan: each member gets the combination of the data of all members
    /// before it. Those of member 0 stay as they are.
    #[must_use]
    pub fn exclusive_scan(place: Place, own: Vec<u8>, combine: Combine) -> Self {
        let whole = 0..own.len();
        let mut schedule = Schedule::default();
        let mut round = Round::default();
        if place.rank + 1 < place.size {
            round = round.send(place.rank + 1, data(whole.clone()));
        }
        if place.rank > 0 {
            round = round.receive(place.rank - 1, data(whole));
        }
        schedule.add(round);
        if place.rank > 0 {
            add_scan(&mut schedule, place, 1, own.len());
        }
        let arguments = Arguments::new(Kind::ExclusiveScan, own.len()).by(combine.name);
        Self::new(arguments, schedule, own, Some(combine))
    }
}

/// Whether a ring takes less time, and may combine the members' data in the order that it needs.
fn is_for_ring(place: Place, length: usize, combine: &Combine) -> bool {
    let enough = length >= LONG && length / combine.size >= place.size;
    enough && place.size > 2 && combine.commutative
}

/// Adds an inclusive scan among the members from `first` on: in each round the data comprise those
/// of twice as many members.
fn add_scan(schedule: &mut Schedule, place: Place, first: usize, length: usize) {
    let Place { rank, size } = place;
    let mut step = 1;
    while step < size - first {
        let mut round = Round::default();
        if rank + step < size {
            round = round.send(rank + step, data(0..length));
        }
        if rank >= first + step {
            round = round.combine(rank - step, Side::Left, data(0..length));
        }
        schedule.add(round);
        step *= 2;
    }
}

/// Receives the data of a member, and combines them with those of this one.
fn take_in(peer: usize, is_lower: bool, length: usize) -> Round {
    let side = if is_lower { Side::Left } else { Side::Right };
    Round::default().combine(peer, side, data(0..length))
}

/// Up a binomial tree. If arguments may not be exchanged, its root is member 0, so that subtrees
/// hold consecutive members.
fn reduce_whole(place: Place, root: usize, length: usize, commutative: bool) -> Schedule {
    let top = if commutative { root } else { 0 };
    let absolute = |relative: usize| (relative + top) % place.size;
    let own = place.relative_to(top).rank;
    let mut schedule = Schedule::default();
    let mut step = 1;
    while step < place.size {
        if own & step > 0 {
            let parent = absolute(own - step);
            schedule.add(Round::default().send(parent, data(0..length)));
            break;
        }
        if own + step < place.size {
            // That member's subtree is the higher one.
            schedule.add(take_in(absolute(own + step), commutative, length));
        }
        step *= 2;
    }
    if top != root && place.rank == top {
        schedule.add(Round::default().send(root, data(0..length)));
    }
    if top != root && place.rank == root {
        schedule.add(Round::default().receive(top, data(0..length)));
    }
    schedule
}

/// Recursive doubling. Where the number of members is no power of two, some members first give
/// their data to their neighbours and get the result in the end.
fn allreduce_whole(place: Place, length: usize) -> Schedule {
    let Place { rank, size } = place;
    let mut schedule = Schedule::default();
    let among = 1 << size.ilog2();
    let extra = size - among;
    let absent = rank < 2 * extra && rank.is_multiple_of(2);
    if absent {
        schedule.add(Round::default().send(rank + 1, data(0..length)));
        schedule.add(Round::default().receive(rank + 1, data(0..length)));
        return schedule;
    }
    let gave = rank < 2 * extra;
    if gave {
        schedule.add(take_in(rank - 1, true, length));
    }
    // The rank among those that stay, and back.
    let own = if gave { rank / 2 } else { rank - extra };
    let absolute = |other: usize| match other < extra {
        true => 2 * other + 1,
        false => other + extra,
    };
    let mut step = 1;
    while step < among {
        let partner = absolute(own ^ step);
        let round = take_in(partner, partner < rank, length);
        schedule.add(round.send(partner, data(0..length)));
        step *= 2;
    }
    if gave {
        schedule.add(Round::default().send(rank - 1, data(0..length)));
    }
    schedule
}

/// Round a ring: afterwards each member holds the combination of one block, that of the member
/// after it.
fn add_reduce_scatter(schedule: &mut Schedule, place: Place, of: &impl Fn(usize) -> Slice) {
    for step in 0..place.size - 1 {
        let block = of(place.before(step + 1));
        let round = Round::default().send(place.after(1), of(place.before(step)));
        schedule.add(round.combine(place.before(1), Side::Left, block));
    }
}

fn reduce_in_blocks(place: Place, root: usize, length: usize, size: usize) -> Schedule {
    let of = |index: usize| data(block(length, size, place.size, index));
    let mut schedule = Schedule::default();
    add_reduce_scatter(&mut schedule, place, &of);
    let mut round = Round::default();
    if place.rank != root {
        round = round.send(root, of(place.after(1)));
    } else {
        for peer in (0..place.size).filter(|peer| *peer != root) {
            round = round.receive(peer, of((peer + 1) % place.size));
        }
    }
    schedule.add(round);
    schedule
}

fn allreduce_in_blocks(place: Place, length: usize, size: usize) -> Schedule {
    let of = |index: usize| data(block(length, size, place.size, index));
    let mut schedule = Schedule::default();
    add_reduce_scatter(&mut schedule, place, &of);
    for step in 0..place.size - 1 {
        let next = Place {
            rank: place.after(1),
            size: place.size,
        };
        let round = Round::default().send(place.after(1), of(next.before(step)));
        schedule.add(round.receive(place.before(1), of(next.before(step + 1))));
    }
    schedule
}
