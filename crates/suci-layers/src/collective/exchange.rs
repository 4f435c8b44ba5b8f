//! Allgather and all-to-all.

use super::schedule::{Round, Schedule, data, scratch};
use super::tree::{put, ranges};
use super::{Arguments, Collective, Kind, LONG, Place};

impl Collective {
    /// Returns an allgather: each member gets the data of all, in the order of their ranks. Member
    /// i has `lengths[i]` bytes; all members know all of these.
    #[must_use]
    pub fn allgather(place: Place, lengths: &[usize], own: &[u8]) -> Self {
        let arguments = Arguments::new(Kind::Allgather, 0).in_parts(lengths);
        let (ranges, total) = ranges(lengths);
        let equal = lengths.windows(2).all(|pair| pair.first() == pair.last());
        let mut all = vec![0; total];
        let schedule = match equal && total < LONG {
            true => bruck(place, own.len()),
            false => {
                let mut schedule = Schedule::default();
                let of = |rank: usize| data(ranges.get(rank).cloned().unwrap_or_default());
                for step in 0..place.size - 1 {
                    let round = Round::default().send(place.after(1), of(place.before(step)));
                    schedule.add(round.receive(place.before(1), of(place.before(step + 1))));
                }
                schedule
            }
        };
        put(&mut all, ranges.get(place.rank), own);
        let mut new = Self::new(arguments, schedule, all, None);
        // Bruck's algorithm begins with it in the other buffer.
        put(&mut new.scratch, Some(&(0..own.len())), own);
        new
    }

    /// Returns an all-to-all exchange: of `all`, this member's data, member i gets the i-th part,
    /// `sent[i]` bytes. It gets `received[i]` bytes from member i.
    #[must_use]
    pub fn all_to_all(place: Place, sent: &[usize], received: &[usize], all: &[u8]) -> Self {
        let (out, sent) = ranges(sent);
        let (into, total) = ranges(received);
        let mut schedule = Schedule::with_scratch(all.len());
        let at_once = sent.max(total) < LONG;
        let mut round = Round::default();
        for step in 1..place.size {
            let (to, from) = (place.after(step), place.before(step));
            let part = scratch(out.get(to).cloned().unwrap_or_default());
            round = round.send(to, part);
            let part = data(into.get(from).cloned().unwrap_or_default());
            round = round.receive(from, part);
            if !at_once {
                schedule.add(core::mem::take(&mut round));
            }
        }
        schedule.add(round);
        let mut result = vec![0; total];
        let own = out.get(place.rank).and_then(|own| all.get(own.clone()));
        put(&mut result, into.get(place.rank), own.unwrap_or_default());
        // A member does not know how much others send each other.
        let arguments = Arguments::new(Kind::AllToAll, 0);
        let mut new = Self::new(arguments, schedule, result, None);
        put(&mut new.scratch, Some(&(0..all.len())), all);
        new
    }
}

/// In each round the number of blocks doubles. The scratch buffer has them in the order of the
/// ranks from this one on (Bruck, Ho, Kipnis, Upfal, Weathersby, 1997).
fn bruck(place: Place, length: usize) -> Schedule {
    let Place { rank, size } = place;
    let mut schedule = Schedule::with_scratch(length * size);
    let mut have = 1;
    while have < size {
        let more = have.min(size - have);
        let round = Round::default().send(place.before(have), scratch(0..more * length));
        let into = scratch(have * length..(have + more) * length);
        schedule.add(round.receive(place.after(have), into));
        have += more;
    }
    // Blocks from this rank to the last one, then from 0 on.
    let first = size - rank;
    let round = Round::default()
        .copy(0..first * length, rank * length..size * length)
        .copy(first * length..size * length, 0..rank * length);
    schedule.add(round);
    schedule
}
