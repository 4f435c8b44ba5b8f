//! Agreement among the members of a group that are left, while more of them may fail.
//!
//! The members exchange what they know in rounds: who failed, the bits that all values have in
//! common, and the greatest number. In each round a member sends its state to all others, and waits
//! for the state of each that it does not know to have failed, or for news of its failure. It then
//! joins the states. If all of them were equal, it decides on that state, and says so to all
//! others; who hears of a decision decides likewise.
//!
//! This is FloodSet with the rule for stopping early (Lynch, "Distributed Algorithms", 1996,
//! section 6.2; Dolev, Reischuk, Strong, "Early stopping in Byzantine agreement", 1990), in rounds
//! that a failure detector ends (Chandra, Toueg, "Unreliable failure detectors for reliable
//! distributed systems", 1996). Without failures it takes two rounds, or one if all values are
//! equal; each failure adds one at most. Its meaning is that of MPI_Comm_agree (MPI 5.0 and Bland,
//! Bouteiller, Herault, Bosilca, Dongarra, "Post-failure recovery of MPI communication capability",
//! 2013).
//!
//! Why no two members decide differently: let p decide in round r, and let q be a member that p
//! counts as there. Then q sent the same state in round r. If q goes on to another round, it needs
//! a message of p for that round. There is none but that of p's decision, unless q hears that p
//! failed. So a member that is left decides as all others that are left. One that fails right after
//! its decision may have decided differently, if nobody got its messages.
//!
//! A member that others believe to have failed is out, even if it did not: it hears of that. If the
//! network falls into two parts that each believe the other to have failed, each decides alone.

#[cfg(test)]
mod tests;

use crate::Unexpected;
use crate::collective::Place;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The knowledge of a member, on which members agree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Knowledge {
    /// The ranks of members that failed.
    pub failed: BTreeSet<usize>,
    /// The bits that all values have in common.
    pub value: u64,
    /// The greatest number.
    pub number: u32,
}

impl Knowledge {
    fn join(&mut self, other: &Self) {
        self.failed.extend(&other.failed);
        self.value &= other.value;
        self.number = self.number.max(other.number);
    }
}

/// A message between two members.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Message {
    /// The state of its sender at the beginning of a round.
    Round(u32, Knowledge),
    /// Its sender decided.
    Decided(Knowledge),
    /// Its sender takes part no longer.
    Left,
}

impl Message {
    fn to_bytes(&self) -> Vec<u8> {
        let (kind, round, known) = match self {
            Self::Round(round, known) => (1, *round, Some(known)),
            Self::Decided(known) => (2, 0, Some(known)),
            Self::Left => (3, 0, None),
        };
        let mut bytes = vec![kind];
        bytes.extend(round.to_le_bytes());
        if let Some(Knowledge {
            failed,
            value,
            number,
        }) = known
        {
            bytes.extend(number.to_le_bytes());
            bytes.extend(value.to_le_bytes());
            for rank in failed {
                bytes.extend(u32::try_from(*rank).unwrap_or(u32::MAX).to_le_bytes());
            }
        }
        bytes
    }

    fn from_bytes(bytes: &[u8], size: usize) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let (round, rest) = rest.split_first_chunk()?;
        if *kind == 3 {
            return Some(Self::Left);
        }
        let (number, rest) = rest.split_first_chunk()?;
        let (value, rest) = rest.split_first_chunk()?;
        let (ranks, rest) = rest.as_chunks();
        let ranks = ranks.iter().map(|rank| u32::from_le_bytes(*rank) as usize);
        let known = Knowledge {
            failed: ranks.collect(),
            value: u64::from_le_bytes(*value),
            number: u32::from_le_bytes(*number),
        };
        let is_sound = rest.is_empty() && known.failed.iter().all(|rank| *rank < size);
        match kind {
            1 if is_sound => Some(Self::Round(u32::from_le_bytes(*round), known)),
            2 if is_sound => Some(Self::Decided(known)),
            _ => None,
        }
    }
}

/// The result for this member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All members that are left agree on this.
    Agreed(Knowledge),
    /// Others believe that this member failed.
    Excluded,
}

/// One member's part of an agreement.
///
/// Its driver does as with a [`Collective`](crate::Collective): it sends what
/// [`poll_send`](Self::poll_send) returns, hands over messages of [`awaited`](Self::awaited)
/// members, and reports failed ones, until [`is_done`](Self::is_done).
#[derive(Debug)]
pub struct Agreement {
    place: Place,
    round: u32,
    /// Its knowledge when the round began, as it was sent.
    sent: Knowledge,
    /// Its knowledge now.
    known: Knowledge,
    /// The states of others in this round.
    received: BTreeMap<usize, Knowledge>,
    to_send: VecDeque<(usize, Vec<u8>)>,
    verdict: Option<Verdict>,
}

impl Agreement {
    /// Begins an agreement of a member that contributes `known`.
    #[must_use]
    pub fn new(place: Place, known: Knowledge) -> Self {
        let mut new = Self {
            place,
            round: 0,
            sent: known.clone(),
            known,
            received: BTreeMap::new(),
            to_send: VecDeque::new(),
            verdict: None,
        };
        new.begin_round();
        new.end_rounds();
        new
    }

    /// Returns the next message to a member that `may_get` one: the receiver's rank and the bytes.
    /// The message counts as sent. Messages to members that [failed](Self::has_failed) are only
    /// news for those that did not: they need not arrive.
    pub fn poll_send(&mut self, may_get: impl Fn(usize) -> bool) -> Option<(usize, Vec<u8>)> {
        let at = self.to_send.iter().position(|(to, _)| may_get(*to))?;
        self.to_send.remove(at)
    }

    /// Takes back a message that could not be sent: it comes again.
    pub fn unsend(&mut self, to: usize, message: Vec<u8>) {
        self.to_send.push_front((to, message));
    }

    /// Returns whether the member is known to have failed.
    #[must_use]
    pub fn has_failed(&self, rank: usize) -> bool {
        self.known.failed.contains(&rank)
    }

    /// Returns the ranks of the members whose next message or failure it waits for.
    pub fn awaited(&self) -> impl Iterator<Item = usize> {
        let others = self.others().filter(|_| self.verdict.is_none());
        others.filter(|rank| !self.has_failed(*rank) && !self.received.contains_key(rank))
    }

    /// Takes the next message of the member `from`.
    ///
    /// # Errors
    /// [`Unexpected::NotAwaited`]: it is no message that a member sends now. Nothing has changed.
    pub fn on_message(&mut self, from: usize, message: &[u8]) -> Result<(), Unexpected> {
        if !self.awaited().any(|rank| rank == from) {
            return Err(Unexpected::NotAwaited);
        }
        match Message::from_bytes(message, self.place.size) {
            Some(Message::Round(_, known)) if known.failed.contains(&self.place.rank) => {
                self.leave()
            }
            Some(Message::Round(round, known)) if round == self.round => {
                self.known.failed.extend(&known.failed);
                self.received.insert(from, known);
            }
            Some(Message::Decided(known)) => self.decide(known),
            Some(Message::Left) => _ = self.known.failed.insert(from),
            _ => return Err(Unexpected::NotAwaited),
        }
        self.end_rounds();
        Ok(())
    }

    /// Notes that a member failed: no message of it comes any more.
    pub fn on_failed(&mut self, rank: usize) {
        self.known.failed.insert(rank);
        self.end_rounds();
    }

    /// This member takes part no longer: all others are to count it as failed.
    pub fn leave(&mut self) {
        if self.verdict.is_none() {
            self.to_send.clear();
            self.tell_others(&Message::Left);
            self.verdict = Some(Verdict::Excluded);
        }
    }

    /// Returns true if the member has its result and owes no message.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.verdict.is_some() && self.to_send.is_empty()
    }

    /// Returns the result, if there is one.
    #[must_use]
    pub const fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// Returns a number that grows whenever there is something new to send.
    #[must_use]
    pub fn stage(&self) -> usize {
        self.round as usize * 2 + usize::from(self.verdict.is_some())
    }

    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let Place { rank, size } = self.place;
        (0..size).filter(move |other| *other != rank)
    }

    fn tell_others(&mut self, message: &Message) {
        let bytes = message.to_bytes();
        let messages = self.others().map(|to| (to, bytes.clone()));
        self.to_send.extend(messages);
    }

    fn begin_round(&mut self) {
        self.received.clear();
        self.sent = self.known.clone();
        // A member that did not fail, whatever others believe, hears that it is out.
        self.tell_others(&Message::Round(self.round, self.sent.clone()));
    }

    /// Ends rounds in which nothing is awaited any more.
    fn end_rounds(&mut self) {
        while self.verdict.is_none() && self.awaited().next().is_none() {
            let mut states = self.received.values();
            #[cfg(suci_plant)]
            if suci_proto::plant::active("agreement-without-consent") {
                self.decide(self.known.clone());
                return;
            }
            if self.known == self.sent && states.all(|state| *state == self.sent) {
                self.decide(self.sent.clone());
                return;
            }
            for state in std::mem::take(&mut self.received).values() {
                self.known.join(state);
            }
            self.round += 1;
            self.begin_round();
        }
    }

    /// Decides, and tells all others, also those that are believed to have failed.
    fn decide(&mut self, known: Knowledge) {
        self.tell_others(&Message::Decided(known.clone()));
        self.verdict = Some(match known.failed.contains(&self.place.rank) {
            true => Verdict::Excluded,
            false => Verdict::Agreed(known),
        });
    }
}
