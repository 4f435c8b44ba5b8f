//! Collective operations: one member's part as a schedule of sends, receives and local work.
//!
//! All members of a group begin the same operations in the same order. Members are named by their
//! ranks, from 0. The schedule of a member follows from its rank, the number of members and the
//! lengths alone, so that members agree on it without a message. The idea is that of LibNBC
//! (Hoefler, Lumsdaine, Rehm: "Implementation and performance analysis of non-blocking collective
//! operations for MPI", SC 2007).
//!
//! | operation | short | long |
//! |---|---|---|
//! | barrier | pairwise exchange; dissemination, if the number of members is no power of two | |
//! | broadcast | binomial tree | scatter by a binomial tree, then a ring |
//! | reduce | binomial tree | ring, then each member sends its block to the root |
//! | allreduce | recursive doubling | ring |
//! | gather, scatter | directly to or from the root | the same |
//! | allgather | Bruck | ring |
//! | all-to-all | all at once | one partner after the other |
//! | scan | recursive doubling | the same |
//!
//! Sources: dissemination: Hensgen, Finkel, Manber, "Two algorithms for barrier synchronization"
//! (1988). The rest: Thakur, Rabenseifner, Gropp, "Optimization of collective communication
//! operations in MPICH" (2005); rings for reductions: Patarasuk, Yuan, "Bandwidth optimal
//! all-reduce algorithms for clusters of workstations" (2009).

mod arguments;
mod data;
mod exchange;
mod reduce;
mod schedule;
#[cfg(test)]
mod tests;
mod tree;

pub use arguments::Arguments;
pub use data::DataPlace;

use crate::element::Combine;
use bytes::Bytes;
use core::fmt;
use data::Data;
use schedule::{Intake, Round, Schedule, Transfer};

/// Buffers of at least this many bytes go the way that sends the fewest bytes, shorter ones the way
/// with the fewest rounds. At this length an allreduce of 8 members takes about as long either way
/// over gigabit Ethernet with 30 us from node to node.
const LONG: usize = 32 * 1024;

/// Longest message. Longer parts of buffers go as several ones, so that a receiver holds little
/// that it cannot use yet.
pub const LONGEST_MESSAGE: usize = 64 * 1024;

/// The kinds of operations, to notice that two members began different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// [`Collective::barrier`]
    Barrier = 1,
    /// [`Collective::broadcast`]
    Broadcast,
    /// [`Collective::reduce`]
    Reduce,
    /// [`Collective::allreduce`]
    Allreduce,
    /// [`Collective::gather`]
    Gather,
    /// [`Collective::scatter`]
    Scatter,
    /// [`Collective::allgather`]
    Allgather,
    /// [`Collective::all_to_all`]
    AllToAll,
    /// [`Collective::scan`]
    Scan,
    /// [`Collective::exclusive_scan`]
    ExclusiveScan,
}

impl Kind {
    const ALL: [Self; 10] = [
        Self::Barrier,
        Self::Broadcast,
        Self::Reduce,
        Self::Allreduce,
        Self::Gather,
        Self::Scatter,
        Self::Allgather,
        Self::AllToAll,
        Self::Scan,
        Self::ExclusiveScan,
    ];

    /// Returns the kind of this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Barrier => "barrier",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::Allreduce => "allreduce",
            Self::Gather => "gather",
            Self::Scatter => "scatter",
            Self::Allgather => "allgather",
            Self::AllToAll => "all-to-all",
            Self::Scan => "scan",
            Self::ExclusiveScan => "exclusive scan",
        })
    }
}

/// A message that no member with the same arguments sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unexpected {
    /// This member awaits nothing of that one now.
    NotAwaited,
    /// The lengths of the two members' buffers differ.
    Length {
        /// Bytes that came.
        came: usize,
        /// Bytes that this member's arguments demand.
        awaited: usize,
    },
}

/// One member's part of an operation.
///
/// Its driver repeats: send what [`poll_send`](Self::poll_send) returns until it returns nothing;
/// then hand over a message of one of the [`awaited`](Self::awaited) members, until
/// [`is_done`](Self::is_done). Sends and receives of a round may happen in any order, if messages
/// between two members keep theirs.
#[derive(Debug)]
pub struct Collective {
    arguments: Arguments,
    rounds: Vec<Round>,
    /// The round that goes on.
    round: usize,
    /// Sends of this round that were not handed over yet, in order.
    to_send: Vec<Transfer>,
    /// The send that was handed over last, and its place among those before it was.
    last: Option<(usize, Transfer)>,
    /// Receives of this round that are still awaited, in order.
    awaited: Vec<Transfer>,
    data: Data,
    scratch: Vec<u8>,
    combine: Option<Combine>,
}

/// The member that an operation is planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its rank, below `size`.
    pub rank: usize,
    /// The number of members, at least 1.
    pub size: usize,
}

impl Place {
    /// Returns the rank `by` places further, past the last one from 0 again.
    const fn after(self, by: usize) -> usize {
        (self.rank + by) % self.size
    }

    /// Returns the rank `by` places before.
    const fn before(self, by: usize) -> usize {
        (self.rank + self.size - by % self.size) % self.size
    }

    /// Returns the rank relative to `root`, which becomes 0.
    const fn relative_to(self, root: usize) -> Self {
        Self {
            rank: self.before(root),
            size: self.size,
        }
    }
}

impl Collective {
    fn new(
        arguments: Arguments,
        schedule: Schedule,
        data: Vec<u8>,
        combine: Option<Combine>,
    ) -> Self {
        let Schedule {
            mut rounds,
            scratch,
        } = schedule;
        // A message has whole elements.
        let size = combine.as_ref().map_or(1, |combine| combine.size);
        let longest = LONGEST_MESSAGE - LONGEST_MESSAGE % size;
        rounds.iter_mut().for_each(|round| round.cut(longest));
        let mut new = Self {
            arguments,
            rounds,
            round: 0,
            to_send: Vec::new(),
            last: None,
            awaited: Vec::new(),
            data: Data::new(data),
            scratch: vec![0; scratch],
            combine,
        };
        new.begin_round();
        new
    }

    /// Returns which operation it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.arguments.kind
    }

    /// Returns the arguments that all members must have in common.
    #[must_use]
    pub const fn arguments(&self) -> Arguments {
        self.arguments
    }

    /// Adds the name of the elements to the arguments.
    #[must_use]
    pub fn of_elements(mut self, name: &str) -> Self {
        self.arguments.add(name.as_bytes());
        self
    }

    /// Returns a value that changes when there is something new to send or to take: the number of
    /// the round, and of the messages to send if others' messages wait for these.
    #[must_use]
    pub fn stage(&self) -> (usize, usize) {
        let guards = self.is_guarded().then_some(self.to_send.len());
        (self.round, guards.unwrap_or_default())
    }

    fn is_guarded(&self) -> bool {
        let round = self.rounds.get(self.round);
        round.is_some_and(|round| round.is_guarded)
    }

    /// Returns the next message to a member that `may_get` one: the receiver's rank and the bytes.
    /// The message counts as sent.
    pub fn poll_send(&mut self, may_get: impl Fn(usize) -> bool) -> Option<(usize, Bytes)> {
        self.end_rounds();
        let at = self.to_send.iter().position(|send| may_get(send.peer))?;
        let send = self.to_send.remove(at);
        let (_, Transfer { peer, slice, .. }) = self.last.insert((at, send));
        let data = self.data.lock();
        let whole = if slice.scratch { &self.scratch } else { &*data };
        let bytes = whole.get(slice.range.clone()).unwrap_or_default();
        Some((*peer, Bytes::copy_from_slice(bytes)))
    }

    /// Takes back the last message of [`poll_send`](Self::poll_send), which could not be sent: it
    /// comes again.
    pub fn unsend(&mut self) {
        if let Some((at, send)) = self.last.take() {
            self.to_send.insert(at, send);
        }
    }

    /// Returns the ranks whose messages it awaits in this round. A member may come more than once:
    /// it sends several.
    pub fn awaited(&self) -> impl Iterator<Item = usize> {
        self.awaited.iter().map(|receive| receive.peer)
    }

    /// Returns whether it can take the next message of the member `from` now. It cannot while bytes
    /// that the message changes are to be sent first.
    #[must_use]
    pub fn can_take(&self, from: usize) -> bool {
        self.next_of(from).is_some()
    }

    fn next_of(&self, from: usize) -> Option<usize> {
        let of_peer = |receive: &Transfer| receive.peer == from;
        let at = self.awaited.iter().position(of_peer)?;
        let into = &self.awaited.get(at)?.slice;
        let mut sends = self.to_send.iter();
        let waits = self.is_guarded() && sends.any(|send| send.slice.overlaps(into));
        (!waits).then_some(at)
    }

    /// Takes the next message of the member `from`.
    ///
    /// # Errors
    /// [`Unexpected`]: nothing has changed.
    pub fn on_message(&mut self, from: usize, message: &[u8]) -> Result<(), Unexpected> {
        let at = self.next_of(from).ok_or(Unexpected::NotAwaited)?;
        let receive = self.awaited.get(at).ok_or(Unexpected::NotAwaited)?;
        let mut data = self.data.lock();
        let slice = &receive.slice;
        let whole = if slice.scratch {
            &mut self.scratch
        } else {
            &mut *data
        };
        let place = whole.get_mut(slice.range.clone()).unwrap_or_default();
        if place.len() != message.len() {
            return Err(Unexpected::Length {
                came: message.len(),
                awaited: place.len(),
            });
        }
        match (receive.intake, &self.combine) {
            (Intake::Combine(side), Some(combine)) => {
                combine.apply(message, place, side);
                #[cfg(suci_plant)]
                if suci_proto::plant::active("member-counted-twice") {
                    combine.apply(message, place, side);
                }
            }
            _ => place.copy_from_slice(message),
        }
        drop(data);
        self.awaited.remove(at);
        self.end_rounds();
        Ok(())
    }

    /// Returns the place of the bytes of a message of the member `from`, which has `length` bytes,
    /// if they may go there as they come. All its messages before were taken, or have places.
    pub fn place(&mut self, from: usize, length: u64) -> Option<DataPlace> {
        let is_next = |receive: &Transfer| receive.peer == from && !receive.is_placed;
        let at = self.awaited.iter().position(is_next)?;
        let slice = &self.awaited.get(at)?.slice;
        // Bytes that a send of the round reads change only afterwards.
        let is_free = !slice.scratch && !self.is_guarded();
        let receive = self.awaited.get_mut(at).filter(|_| is_free)?;
        let fits = receive.slice.range.len() as u64 == length;
        receive.is_placed = fits && receive.intake == Intake::Replace;
        receive.is_placed.then(|| DataPlace {
            data: self.data.clone(),
            range: receive.slice.range.clone(),
        })
    }

    /// Takes the next message of the member `from`, whose bytes are in the [place](Self::place)
    /// that it was given.
    ///
    /// # Errors
    /// [`Unexpected`]: nothing has changed.
    pub fn on_placed(&mut self, from: usize) -> Result<(), Unexpected> {
        let at = self.next_of(from).ok_or(Unexpected::NotAwaited)?;
        if !self
            .awaited
            .get(at)
            .is_some_and(|receive| receive.is_placed)
        {
            return Err(Unexpected::NotAwaited);
        }
        self.awaited.remove(at);
        self.end_rounds();
        Ok(())
    }

    /// Returns true if the member has its result and owes no message.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.round >= self.rounds.len()
    }

    /// Takes the bytes of the result.
    pub fn take_data(&mut self) -> Vec<u8> {
        core::mem::take(&mut *self.data.lock())
    }

    fn begin_round(&mut self) {
        self.last = None;
        if let Some(round) = self.rounds.get(self.round) {
            self.to_send.clone_from(&round.sends);
            self.awaited.clone_from(&round.receives);
        }
    }

    /// Ends the round if all of it was sent and received.
    fn end_rounds(&mut self) {
        while let Some(round) = self.rounds.get(self.round)
            && self.to_send.is_empty()
            && self.awaited.is_empty()
        {
            for copy in &round.then {
                copy.run(&mut self.data.lock(), &self.scratch);
            }
            self.round += 1;
            self.begin_round();
        }
    }
}
