//! Agreement among the members of a group that are left, while more of them may fail.
//!
//! Each member follows a *leader*: the member of the lowest rank that it counts on. It *joins* the
//! leader with its value and its number. A leader that all members joined on which it counts
//! combines these into a proposal: those members go on, all others failed. Of two that take each
//! other for silent, it leaves one out. Members *accept* the
//! proposal of the leader that they follow. Once a *quorum* accepted it, the leader decides, and
//! says so to all. Each member that hears of the decision says so to all, too, and has its result.
//!
//! A member stops counting on another one that is dead, that is silent, or for which it is silent
//! itself (that one or the leader tells it). It never counts on it again, so that leaders only
//! become higher. A member joins each new leader, and tells it which proposal it accepted last. A
//! leader to which a proposal was told proposes that one, of several that of the highest leader.
//!
//! A set of members is a **quorum** if
//! * all others are dead for certain: their processes ended or closed, or they left the agreement;
//! * or it is more than half of the members; or it is half of them, with the lowest rank.
//!
//! A member that cannot reach a quorum any more leaves: it was [cut off](Verdict::CutOff). So a
//! network that falls into parts never has two groups, and nobody waits for a silent member.
//!
//! Why all members with a result have the same, if they are left: this is Paxos (Lamport, "Paxos
//! made simple", 2001), with the leader's rank as the number of its ballot, joining as its first
//! phase and accepting as its second. Half with the lowest rank counts as in dynamic linear voting
//! (Jajodia and Mutchler, "Dynamic voting algorithms", 1990). Any two quorums share a member, but
//! for one whose others are all dead. Its members may go on though the dead accepted something
//! else, which no member that is left has heard: each of the quorum takes nothing from the dead
//! any more, and its acceptance says so. What it heard before, it told all others.
//!
//! Why it ends: of the members without a result take that of the lowest rank. Those below it are
//! dead or tell it their result, or it stops counting on them; then it leads. Each member on which
//! it counts joins it, doubts it, has a result or fails. Without failures an agreement takes four
//! messages one after the other: join, propose, accept, decided.
//!
//! The meaning is that of `MPI_Comm_agree` (MPI 5.0 and Bland, Bouteiller, Herault, Bosilca,
//! Dongarra, "Post-failure recovery of MPI communication capability", 2013). The rounds of each
//! with each of FloodSet, which was here before, are right only if each silent member is dead.

mod message;
#[cfg(test)]
mod tests;

use crate::Unexpected;
use crate::collective::Place;
use message::{Join, Message};
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

/// The state with which a member begins an agreement.
#[derive(Clone, Debug, Default)]
pub struct AgreementStart {
    /// Its contribution, with the members that failed in earlier agreements.
    pub known: Knowledge,
    /// Other members that are known to be dead: those that left an earlier agreement.
    pub dead: BTreeSet<usize>,
    /// Each part of a network that fell apart goes on by itself, as if all other members had died.
    /// All members must begin alike.
    pub parts_go_on: bool,
}

/// The result for this member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All members that are left agree on this.
    Agreed(Knowledge),
    /// The others go on without this member, or it gave up.
    Excluded,
    /// This member cannot reach enough others: they may go on without it.
    CutOff,
}

/// Why a member counts on another one no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// It may be alive, and go on with others.
    Silent,
    /// For certain it takes part no more, and has no result.
    Dead,
}

/// One member's part of an agreement.
///
/// Its driver sends what [`poll_send`](Self::poll_send) returns, hands over messages of
/// [`awaited`](Self::awaited) members, and reports failed ones, until there is a
/// [`verdict`](Self::verdict).
#[derive(Debug)]
pub struct Agreement {
    place: Place,
    has_begun: bool,
    /// The members that take part: those that earlier agreements left.
    members: BTreeSet<usize>,
    /// Its contribution, with the members that failed in earlier agreements.
    own: Knowledge,
    /// Any set of members is a quorum: see [`AgreementStart::parts_go_on`].
    parts_go_on: bool,
    /// Members on which it does not count.
    failed: BTreeSet<usize>,
    /// Those of them that are dead.
    dead: BTreeSet<usize>,
    /// Members that left, as they said.
    left: BTreeSet<usize>,
    /// The leader that it joined last.
    leader: Option<usize>,
    /// The newest proposal that it accepted, and the leader that made it; a leader accepts its own.
    accepted: Option<(usize, Knowledge)>,
    /// Members that joined this one.
    joined: BTreeMap<usize, Join>,
    /// Members that accepted its proposal, each with the dead of which it takes nothing.
    votes: BTreeMap<usize, BTreeSet<usize>>,
    /// The member of whose decision it heard first.
    told_by: Option<usize>,
    /// In order, with the ranks of the receivers.
    to_send: VecDeque<(usize, Vec<u8>)>,
    /// The number of messages so far.
    made: usize,
    verdict: Option<Verdict>,
}

impl Agreement {
    /// Returns the part of the member at `place`, which [begins](Self::begin) later.
    #[must_use]
    pub fn new(place: Place, start: AgreementStart) -> Self {
        let all = (0..place.size).filter(|rank| !start.known.failed.contains(rank));
        let mut new = Self {
            place,
            has_begun: false,
            members: all.collect(),
            own: start.known,
            parts_go_on: start.parts_go_on,
            failed: BTreeSet::new(),
            dead: BTreeSet::new(),
            left: BTreeSet::new(),
            leader: None,
            accepted: None,
            joined: BTreeMap::new(),
            votes: BTreeMap::new(),
            told_by: None,
            to_send: VecDeque::new(),
            made: 0,
            verdict: None,
        };
        new.note_dead(&start.dead);
        new
    }

    /// Begins to send, once what came before was taken, and failures were noted. Later calls return
    /// false, and do nothing.
    pub fn begin(&mut self) -> bool {
        let begins = !self.has_begun;
        if begins {
            self.has_begun = true;
            self.go_on();
        }
        begins
    }

    /// Returns the next message: the receiver's rank and the bytes. Messages to a member must
    /// arrive in this order.
    pub fn poll_send(&mut self) -> Option<(usize, Vec<u8>)> {
        self.to_send.pop_front()
    }

    /// Returns the ranks of the members whose next message or failure it waits for.
    pub fn awaited(&self) -> impl Iterator<Item = usize> {
        let others = self.others().filter(|_| self.verdict.is_none());
        others.filter(|rank| !self.dead.contains(rank))
    }

    /// Returns the members that left, as they said.
    #[must_use]
    pub const fn left(&self) -> &BTreeSet<usize> {
        &self.left
    }

    /// Returns the members that go on and whose last message has not come.
    #[must_use]
    pub fn unheard(&self) -> BTreeSet<usize> {
        let Some(Verdict::Agreed(known)) = &self.verdict else {
            return BTreeSet::new();
        };
        let heard = |rank: &usize| Some(*rank) == self.told_by || self.left.contains(rank);
        let others = self.others().filter(|rank| !known.failed.contains(rank));
        others.filter(|rank| !heard(rank)).collect()
    }

    /// Returns whether a member that sends this has a result, and sends nothing more: `Some(false)`
    /// if it left without one.
    #[must_use]
    pub fn has_result(message: &[u8], size: usize) -> Option<bool> {
        match Message::from_bytes(message, size)? {
            Message::Decided(_) => Some(true),
            Message::Left => Some(false),
            _ => None,
        }
    }

    /// Returns the message of a member that takes part in no agreement any more.
    #[must_use]
    pub fn left_message() -> Vec<u8> {
        Message::Left.to_bytes()
    }

    /// Takes the next message of the member `from`.
    ///
    /// # Errors
    /// [`Unexpected::NotAwaited`]: it is no message that a member sends now. Nothing has changed.
    pub fn on_message(&mut self, from: usize, message: &[u8]) -> Result<(), Unexpected> {
        if !self.awaited().any(|rank| rank == from) {
            return Err(Unexpected::NotAwaited);
        }
        let message = Message::from_bytes(message, self.place.size);
        let counts = !self.failed.contains(&from);
        match message.ok_or(Unexpected::NotAwaited)? {
            Message::Decided(known) => {
                self.told_by = Some(from);
                self.decide(known);
            }
            Message::Left => {
                self.left.insert(from);
                self.note_dead(&BTreeSet::from([from]));
            }
            Message::Dead(dead) => self.note_dead(&dead),
            // Nothing else counts any more: each side goes on without the other.
            _ if !counts => {}
            Message::Doubt(by) => {
                for rank in by.intersection(&self.members.clone()) {
                    self.note_silent(*rank);
                }
            }
            Message::Join(join) => self.on_join(from, join),
            Message::Propose(known) if self.leader == Some(from) && !self.has_accepted(from) => {
                self.accepted = Some((from, known));
                self.send(from, &Message::Accept(self.dead.clone()));
            }
            Message::Accept(dead) if self.has_proposed() => {
                self.note_dead(&dead);
                self.votes.insert(from, dead);
            }
            _ => return Err(Unexpected::NotAwaited),
        }
        self.go_on();
        Ok(())
    }

    /// Notes that a member is absent. Returns false if that changes nothing.
    pub fn on_failed(&mut self, rank: usize, absence: Absence) -> bool {
        let known = match absence {
            Absence::Silent => &self.failed,
            Absence::Dead => &self.dead,
        };
        let is_news = self.awaited().any(|one| one == rank) && !known.contains(&rank);
        if is_news {
            match absence {
                Absence::Silent => {
                    self.note_silent(rank);
                    self.send(rank, &Message::Doubt(BTreeSet::from([self.place.rank])));
                }
                Absence::Dead => self.note_dead(&BTreeSet::from([rank])),
            }
            self.go_on();
        }
        is_news
    }

    /// This member takes part no longer: all others are to count it as failed.
    pub fn leave(&mut self) {
        self.leave_with(Verdict::Excluded);
    }

    /// Returns the result, if there is one. Messages to others may be left.
    #[must_use]
    pub const fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// Returns a number that grows whenever there is something new to send.
    #[must_use]
    pub const fn stage(&self) -> usize {
        self.made
    }

    fn others(&self) -> impl Iterator<Item = usize> {
        let own = self.place.rank;
        let members = self.members.iter().copied();
        members.filter(move |rank| *rank != own)
    }

    fn send(&mut self, to: usize, message: &Message) {
        self.made += 1;
        self.to_send.push_back((to, message.to_bytes()));
    }

    /// Tells all other members that are not in `without`.
    fn tell(&mut self, message: &Message, without: &BTreeSet<usize>) {
        let others: Vec<_> = self.others().collect();
        for to in others.into_iter().filter(|to| !without.contains(to)) {
            self.send(to, message);
        }
    }

    /// A member follows this one. Those that it takes for silent hear of that, once: they may not
    /// know.
    fn on_join(&mut self, from: usize, mut join: Join) {
        let earlier = self.joined.remove(&from);
        let known = earlier.map_or(BTreeSet::new(), |earlier| earlier.silent);
        join.silent
            .retain(|rank| ![from, self.place.rank].contains(rank));
        for rank in (&join.silent - &self.failed).difference(&known) {
            self.send(*rank, &Message::Doubt(BTreeSet::from([from])));
        }
        join.silent.extend(known);
        self.joined.insert(from, join);
    }

    /// Counts on a silent member no more. Its leader hears of that unless it has proposed.
    fn note_silent(&mut self, rank: usize) {
        if rank == self.place.rank || !self.failed.insert(rank) {
            return;
        }
        self.joined.remove(&rank);
        let accepted = self.accepted.as_ref().map(|(leader, _)| *leader);
        if self.leader != Some(rank) && self.leader != accepted {
            self.join();
        }
    }

    /// Takes nothing from these members any more, and tells all others, also the leader whose
    /// proposal it accepted.
    fn note_dead(&mut self, dead: &BTreeSet<usize>) {
        let new: BTreeSet<_> = (dead & &self.members)
            .difference(&self.dead)
            .copied()
            .collect();
        if new.contains(&self.place.rank) {
            return self.leave();
        }
        if new.is_empty() || self.verdict.is_some() {
            return;
        }
        self.dead.extend(&new);
        self.failed.extend(&new);
        self.joined.retain(|rank, _| !new.contains(rank));
        self.votes.retain(|rank, _| !new.contains(rank));
        self.tell(&Message::Dead(self.dead.clone()), &self.failed.clone());
        if let Some((leader, _)) = self.accepted
            && self.leader == Some(leader)
            && leader != self.place.rank
            && !self.failed.contains(&leader)
        {
            self.send(leader, &Message::Accept(self.dead.clone()));
        }
    }

    /// Does what a change makes possible.
    fn go_on(&mut self) {
        if self.verdict.is_some() || !self.has_begun {
            return;
        }
        let counted: BTreeSet<_> = &self.members - &self.failed;
        let voters = self.votes.keys().copied();
        let votes = counted.iter().copied().chain(voters).collect();
        if !self.is_majority(&votes) && self.failed != self.dead {
            return self.leave_with(Verdict::CutOff);
        }
        let leader = counted.first().copied();
        if self.leader != leader {
            self.leader = leader;
            self.join();
        }
        if leader == Some(self.place.rank) {
            self.lead(&counted);
        }
    }

    /// Joins its leader.
    fn join(&mut self) {
        let own = self.place.rank;
        if let Some(leader) = self.leader.filter(|leader| *leader != own) {
            let join = Join {
                value: self.own.value,
                number: self.own.number,
                silent: &self.failed - &self.dead,
                accepted: self.accepted.clone(),
            };
            self.send(leader, &Message::Join(join));
        }
    }

    /// Proposes once all members joined that count, and decides once a quorum accepted.
    fn lead(&mut self, counted: &BTreeSet<usize>) {
        if !self.has_proposed() {
            let others = counted.iter().filter(|rank| **rank != self.place.rank);
            let mut pairs = others
                .clone()
                .flat_map(|one| others.clone().map(move |o| (one, o)));
            // One that takes another one for silent may have lost the network, or the other one
            // has. Once each says so, or this member hears one of them no more, that is known.
            let is_complete = others.clone().all(|rank| self.joined.contains_key(rank))
                && pairs.all(|(one, other)| {
                    self.is_silent_for(*one, *other) == self.is_silent_for(*other, *one)
                });
            #[cfg(suci_plant)]
            let is_complete = is_complete || suci_proto::plant::active("agreement-without-consent");
            if !is_complete {
                return;
            }
            let proposal = self.proposal();
            self.accepted = Some((self.place.rank, proposal.clone()));
            for to in others.copied().collect::<Vec<_>>() {
                self.send(to, &Message::Propose(proposal.clone()));
            }
        }
        if let Some((_, known)) = self.accepted.clone()
            && self.has_quorum()
        {
            self.decide(known);
        }
    }

    fn has_proposed(&self) -> bool {
        self.has_accepted(self.place.rank)
    }

    /// Whether this member accepted the leader's proposal, and no later one. A leader makes one.
    fn has_accepted(&self, leader: usize) -> bool {
        let accepted = self.accepted.as_ref();
        accepted.is_some_and(|(by, _)| *by == leader)
    }

    /// Returns the proposal of the highest leader that a member accepted, or else what all members
    /// contribute that go on.
    fn proposal(&self) -> Knowledge {
        let joins = self.joined.values();
        let accepted = joins.clone().filter_map(|join| join.accepted.as_ref());
        let newest = accepted.chain(&self.accepted).max_by_key(|(by, _)| *by);
        if let Some((_, known)) = newest {
            return known.clone();
        }
        let left = self.hearing();
        let counts = |rank: &usize| *rank == self.place.rank || left.contains(rank);
        let mut known = self.own.clone();
        known.failed = (0..self.place.size).filter(|rank| !counts(rank)).collect();
        for (_, join) in self.joined.iter().filter(|(rank, _)| left.contains(rank)) {
            known.value &= join.value;
            known.number = known.number.max(join.number);
        }
        known
    }

    /// Whether the member takes that one for silent, as it said when it joined.
    fn is_silent_for(&self, one: usize, other: usize) -> bool {
        let join = self.joined.get(&one);
        join.is_some_and(|join| join.silent.contains(&other))
    }

    /// Returns the members that joined and hear each other. While two of them do not, the one goes
    /// that does not hear most others, or else the one with the higher rank.
    fn hearing(&self) -> BTreeSet<usize> {
        let mut left: BTreeSet<_> = self.joined.keys().copied().collect();
        loop {
            let unheard = |one: &usize| {
                let others = left.iter();
                others
                    .filter(|other| self.is_silent_for(**other, *one))
                    .count()
            };
            let most = left.iter().map(|rank| (unheard(rank), *rank)).max();
            match most {
                Some((1.., rank)) => _ = left.remove(&rank),
                _ => return left,
            }
        }
    }

    /// Whether a quorum accepted this leader's proposal. Members count as dead only if each of the
    /// quorum takes nothing from them.
    fn has_quorum(&self) -> bool {
        let own = self.place.rank;
        let voters: BTreeSet<_> = self.votes.keys().copied().chain([own]).collect();
        let rest = &self.members - &voters;
        let mut known = self.votes.values().chain([&self.dead]);
        self.is_majority(&voters) || known.all(|dead| rest.is_subset(dead))
    }

    /// Whether these are more than half of the members, or half with the lowest rank.
    fn is_majority(&self, some: &BTreeSet<usize>) -> bool {
        #[cfg(suci_plant)]
        if suci_proto::plant::active("silence-is-death") {
            return true;
        }
        let lowest = self.members.first().filter(|rank| some.contains(rank));
        self.parts_go_on || 2 * some.len() + usize::from(lowest.is_some()) > self.members.len()
    }

    /// Decides, and tells all others, also those that go on no more.
    fn decide(&mut self, known: Knowledge) {
        if self.verdict.is_none() {
            self.tell(&Message::Decided(known.clone()), &self.dead.clone());
            self.verdict = Some(match known.failed.contains(&self.place.rank) {
                true => Verdict::Excluded,
                false => Verdict::Agreed(known),
            });
        }
    }

    fn leave_with(&mut self, verdict: Verdict) {
        if self.verdict.is_none() {
            self.tell(&Message::Left, &self.dead.clone());
            self.verdict = Some(verdict);
        }
    }
}
