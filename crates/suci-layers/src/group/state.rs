//! The state of a group: its members, and the operation under way.
//!
//! The drivers that serve its members carry the operation on, each for its own members, whenever
//! something arrived for them.

use super::failure::{Failure, MemberFailure};
use super::turn::{Progress, Turn};
use crate::agreement::{Agreement, AgreementStart, Knowledge, Verdict};
use crate::collective::{Arguments, Collective, DataPlace, Kind, Place};
use bytes::Bytes;
use core::fmt::Debug;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use suci_proto::message::IncomingInfo;
use suci_proto::time::Instant;
use suci_proto::types::{ChannelId, NodeId, SessionNumber, Source};
use suci_proto::{Engine, Outgoing};

/// The part of a group's state that belongs to the library that drives it.
pub trait Host: Debug {
    /// Its errors.
    type Error: Debug;

    /// The group's operation has a result.
    fn settled(&self);
}

/// A driver, as groups use it.
pub trait Carrier<H: Host> {
    /// Returns its engine.
    fn engine(&mut self) -> &mut Engine;

    /// Returns the time.
    fn now(&self) -> Instant;

    /// Returns whether messages to and from the node pass through it.
    fn serves(&self, node: NodeId) -> bool;

    /// Offers a message to the queue of a member that it serves. Returns false if the queue is
    /// full, or the member suspended the session.
    ///
    /// # Errors
    /// The message can never be sent.
    fn offer(&mut self, to: NodeId, message: Outgoing) -> Result<bool, H::Error>;
}

/// The purpose of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Data of collective operations.
    Data,
    /// Reports of failures.
    Failures,
    /// Messages of agreements.
    Agreements,
    /// Reports of the operations in which members wait. A member whose operation differs answers.
    /// They are answered, also once the group is over, if the session is not one of a member's.
    Questions,
}

impl Purpose {
    /// In the order in which they end.
    pub(super) const ALL: [Self; 4] = [
        Self::Data,
        Self::Failures,
        Self::Questions,
        Self::Agreements,
    ];

    /// Returns the channel of a group for this purpose.
    #[must_use]
    pub const fn channel(self, group: u32) -> ChannelId {
        ChannelId::of_group(group * 4 + self as u32)
    }

    /// Returns the group of a channel for questions.
    pub(super) const fn group_of_questions(channel: ChannelId) -> Option<u32> {
        let number = channel.of_group_number();
        match number % 4 == Self::Questions as u32 {
            true => Some(number / 4),
            false => None,
        }
    }
}

/// One member's part of what the group does.
#[derive(Debug)]
pub enum GroupWork {
    /// A collective operation.
    Collective(Collective),
    /// An agreement.
    Agreement(Agreement),
}

/// The result of an operation.
#[derive(Debug)]
pub enum Finished {
    /// The data of this member after a collective operation.
    Data(Vec<u8>),
    /// The knowledge on which the members that are left agree.
    Agreed(Knowledge),
}

/// An operation that was begun.
#[derive(Debug)]
pub(super) struct Underway<E> {
    pub(super) work: GroupWork,
    /// Its number in the group, from 1: collective operations and agreements count apart.
    pub(super) number: u64,
    /// The arguments, as each message has them; empty for an agreement.
    pub(super) header: Bytes,
    /// Whether silent members that keep it waiting are to be noticed, and those that are watched,
    /// also since an earlier operation.
    pub(super) is_watching: bool,
    pub(super) watched: BTreeSet<usize>,
    /// Members that are to hear which operation this one waits in.
    pub(super) unasked: BTreeSet<usize>,
    /// When the first of them heard it, in nanoseconds: answers name it.
    pub(super) asked_at: Option<u64>,
    /// It is over, and its result until the program takes it.
    pub(super) is_over: bool,
    pub(super) result: Option<Result<Finished, Failure<E>>>,
    /// The program does not wait for the result any more.
    pub(super) is_released: bool,
}

impl<E> Underway<E> {
    pub(super) fn end(&mut self, result: Result<Finished, Failure<E>>) {
        self.is_over = true;
        self.result = Some(result);
    }

    /// The tag of its messages.
    pub(super) fn tag(&self) -> u64 {
        match &self.work {
            GroupWork::Collective(work) => (self.number << 8) | u64::from(work.kind() as u8),
            GroupWork::Agreement(_) => self.number,
        }
    }

    pub(super) fn arguments(&self) -> Option<Arguments> {
        match &self.work {
            GroupWork::Collective(work) => Some(work.arguments()),
            GroupWork::Agreement(_) => None,
        }
    }
}

/// An operation that another member says it is in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    pub(super) number: u64,
    pub(super) arguments: Arguments,
    /// The tag of its question; nothing if it answered one of the present operation.
    pub(super) question: Option<u64>,
}

/// Why a member takes part in nothing more.
#[derive(Clone, Copy, Debug)]
pub(super) enum Out {
    /// The others go on without it, or it gave up an agreement.
    Excluded,
    /// It could not reach enough others.
    CutOff,
}

impl Out {
    const fn error<E>(self) -> Failure<E> {
        match self {
            Self::Excluded => Failure::Excluded,
            Self::CutOff => Failure::CutOff,
        }
    }
}

/// The part that changes.
#[derive(Debug)]
pub(super) struct Changing<H: Host> {
    /// Collective operations that were begun, and agreements.
    pub(super) begun: u64,
    pub(super) agreements: u64,
    /// Collective operations that had been begun when the last agreement ended.
    begun_before: u64,
    pub(super) current: Option<Underway<H::Error>>,
    /// The arguments of the operation before the current one.
    pub(super) last: Option<(u64, Arguments)>,
    /// The operations in which others wait, as they said.
    pub(super) said: BTreeMap<usize, Said>,
    /// The earliest failure that others reported: in the operation of this number, of a member.
    pub(super) reported: Option<(u64, NodeId, MemberFailure)>,
    /// Members whose sessions are over, and which ask in later ones what keeps them waiting. They
    /// are to hear that.
    pub(super) outdated: BTreeSet<usize>,
    /// The member that failed, in which operation, and why.
    pub(super) failed: Option<(NodeId, Kind, MemberFailure)>,
    /// Members that are to hear of the failure.
    pub(super) untold: BTreeSet<usize>,
    /// Messages of agreements that are to be sent, and answers to questions, with the receivers.
    /// They outlive the operation: a silent member may come back, and must not wait then.
    pub(super) owed: VecDeque<(usize, Outgoing)>,
    /// Members whose last message of the last agreement has not come. It says whether they have the
    /// result, too, or gave up.
    pub(super) unheard: BTreeSet<usize>,
    /// Members that gave up an agreement which counts them in.
    quit: BTreeSet<usize>,
    /// These members, and those that are dead for certain.
    pub(super) dead: BTreeSet<usize>,
    /// Members that all agreed to count as failed.
    gone: BTreeSet<usize>,
    /// This member takes part in nothing more.
    pub(super) out: Option<Out>,
    /// Silence counts as death.
    parts_go_on: bool,
    /// The group of the members that are left.
    successor: Option<Weak<GroupState<H>>>,
}

impl<H: Host> Default for Changing<H> {
    fn default() -> Self {
        Self {
            begun: 0,
            agreements: 0,
            begun_before: 0,
            current: None,
            last: None,
            said: BTreeMap::new(),
            reported: None,
            outdated: BTreeSet::new(),
            failed: None,
            untold: BTreeSet::new(),
            owed: VecDeque::new(),
            unheard: BTreeSet::new(),
            quit: BTreeSet::new(),
            dead: BTreeSet::new(),
            gone: BTreeSet::new(),
            out: None,
            parts_go_on: false,
            successor: None,
        }
    }
}

impl<H: Host> Changing<H> {
    pub(super) fn is_running(&self) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|current| !current.is_over)
    }

    /// The number of channels on which nothing is taken any more: those of collective operations
    /// after a failure, all after the group shrank and, if it is `heard`, all have its result; or
    /// if this member is out.
    pub(super) fn ended(&self, heard: bool) -> usize {
        let is_over = self.successor.is_some() || self.out.is_some();
        match (is_over, self.failed.is_some()) {
            (true, _) if heard => Purpose::ALL.len(),
            (true, _) | (false, true) => Purpose::ALL.len() - 1,
            (false, false) => 0,
        }
    }

    /// Notes that a member failed in the operation of this number: all later ones fail, too.
    pub(super) fn report(&mut self, begun: u64, about: NodeId, failure: MemberFailure) {
        if self.reported.is_none_or(|(earlier, ..)| begun < earlier) {
            self.reported = Some((begun, about, failure));
        }
    }

    /// A value that changes when other drivers have something to do.
    pub(super) fn stage(&self) -> (Option<(usize, usize)>, bool, usize) {
        let stage = self.current.as_ref().map(|current| match &current.work {
            GroupWork::Collective(work) => work.stage(),
            GroupWork::Agreement(work) => (work.stage(), 0),
        });
        (stage, self.is_running(), self.untold.len())
    }
}

/// A group, as its handle, its operation and the drivers share it.
#[derive(Debug)]
pub struct GroupState<H: Host> {
    pub(super) number: u32,
    pub(super) members: Vec<NodeId>,
    /// The session with each member, or the one that will be the first.
    pub(super) sessions: Vec<SessionNumber>,
    pub(super) place: Place,
    pub(super) own: NodeId,
    changing: Mutex<Changing<H>>,
    /// The library's part.
    pub host: H,
}

impl<H: Host> GroupState<H> {
    /// Returns the group `number` of `members`, with the present or first session of each, of which
    /// the one of this rank is this node.
    #[must_use]
    pub fn new(
        number: u32,
        members: Vec<NodeId>,
        sessions: Vec<SessionNumber>,
        (rank, own): (usize, NodeId),
        host: H,
    ) -> Self {
        let size = members.len();
        Self {
            number,
            members,
            sessions,
            place: Place { rank, size },
            own,
            changing: Mutex::default(),
            host,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Changing<H>> {
        // A function of the program may have panicked. No operation ends well after that.
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the group's number.
    #[must_use]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Returns this member's rank and the number of members.
    #[must_use]
    pub const fn place(&self) -> Place {
        self.place
    }

    /// Returns the members' node IDs, in the order of their ranks.
    #[must_use]
    pub fn members(&self) -> &[NodeId] {
        &self.members
    }

    pub(super) fn member(&self, rank: usize) -> Option<NodeId> {
        self.members.get(rank).copied()
    }

    pub(super) const fn channel(&self, purpose: Purpose) -> ChannelId {
        purpose.channel(self.number)
    }

    /// Returns the place of a message's bytes in the data of the collective operation, if they may
    /// go there as they come.
    pub(super) fn place_of(&self, from: Source, message: &IncomingInfo) -> Option<DataPlace> {
        let rank = self.members.iter().position(|node| *node == from.node)?;
        let is_of_session = self.sessions.get(rank) == Some(&from.session);
        // A thread that carries the operation on may have the lock: the message is not placed then.
        let mut state = self.changing.try_lock().ok().filter(|_| is_of_session)?;
        let current = state.current.as_mut().filter(|current| !current.is_over)?;
        let is_of_this = message.tag == current.tag() && message.user_header == current.header;
        match &mut current.work {
            GroupWork::Collective(work) if is_of_this => work.place(rank, message.total),
            _ => None,
        }
    }

    /// Checks that the group was made for the node `node`: another one of the process has other
    /// messages under the group's number.
    ///
    /// # Errors
    /// It was not.
    pub fn check_node(&self, node: NodeId) -> Result<(), Failure<H::Error>> {
        match self.own == node {
            true => Ok(()),
            false => Err(Failure::Argument(format!(
                "node {node} did not make it: use it with the node that it was made for"
            ))),
        }
    }

    /// Begins an operation of the node `node`.
    ///
    /// # Errors
    /// An earlier operation failed, or is under way still.
    pub fn begin(&self, node: NodeId, work: GroupWork) -> Result<(), Failure<H::Error>> {
        let refuse = |problem: &str| Err(Failure::Argument(problem.to_owned()));
        self.check_node(node)?;
        let mut state = self.lock();
        if state.successor.is_some() {
            return refuse("it has shrunk: use the group that it became");
        }
        if let Some(out) = state.out {
            return Err(out.error());
        }
        let is_busy = |current: &Underway<_>| !(current.is_released && current.is_over);
        if state.current.as_ref().is_some_and(is_busy) {
            return refuse("an operation is under way: wait for it first");
        }
        let (number, header) = match &work {
            GroupWork::Collective(work) => {
                state.begun += 1;
                let header = Bytes::copy_from_slice(&work.arguments().to_bytes());
                (state.begun, header)
            }
            GroupWork::Agreement(_) => {
                state.agreements += 1;
                state.unheard.clear();
                (state.agreements, Bytes::new())
            }
        };
        if let (GroupWork::Collective(_), Some(failed)) = (&work, state.failed) {
            return Err(error(failed));
        }
        // Drivers that did not run since it ended have members of theirs to watch no more.
        let watched = state.current.take().map(|before| before.watched);
        state.current = Some(Underway {
            work,
            number,
            header,
            is_watching: false,
            watched: watched.unwrap_or_default(),
            unasked: BTreeSet::new(),
            asked_at: None,
            is_over: false,
            result: None,
            is_released: false,
        });
        Ok(())
    }

    /// Returns this member's part of an agreement, to which it contributes a value and a number.
    ///
    /// # Errors
    /// The member is excluded, or was cut off.
    pub fn agreement(&self, value: u64, number: u32) -> Result<Agreement, Failure<H::Error>> {
        let state = self.lock();
        if let Some(out) = state.out {
            return Err(out.error());
        }
        let failed = state.gone.clone();
        let start = AgreementStart {
            known: Knowledge {
                failed,
                value,
                number,
            },
            dead: state.dead.clone(),
            parts_go_on: state.parts_go_on,
        };
        Ok(Agreement::new(self.place, start))
    }

    /// From the next agreement on, silence counts as death
    /// ([`AgreementStart::parts_go_on`]), also in the groups that this one becomes.
    pub fn let_parts_go_on(&self, parts_go_on: bool) {
        self.lock().parts_go_on = parts_go_on;
    }

    /// Carries the operation on for the members that `carrier` serves.
    pub(super) fn progress(&self, carrier: &mut impl Carrier<H>) -> Progress<H> {
        let mut state = self.lock();
        let was_running = state.is_running();
        let progress = Turn::new(self, &mut state, carrier).run();
        let has_settled = was_running && !state.is_running();
        drop(state);
        if has_settled {
            self.host.settled();
        }
        progress
    }

    /// Members that keep the operation waiting are watched from now on, and all hear which
    /// operation it is. Returns false if that was so already.
    pub fn watch(&self) -> bool {
        let mut state = self.lock();
        let Some(current) = state.current.as_mut().filter(|one| !one.is_watching) else {
            return false;
        };
        current.is_watching = true;
        let own = self.place.rank;
        current.unasked = (0..self.place.size).filter(|rank| *rank != own).collect();
        true
    }

    /// Returns whether the operation has a result.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !self.lock().is_running()
    }

    /// This member gives the operation up because of `error`, unless it has a result.
    pub fn give_up(&self, error: H::Error) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let Some(current) = state.current.as_mut().filter(|c| !c.is_over) else {
            return;
        };
        match &mut current.work {
            GroupWork::Collective(_) => {
                let own = MemberFailure::GaveUp;
                self.fail(state, self.own, own, Some(Failure::Here(error)));
            }
            GroupWork::Agreement(work) => {
                work.leave();
                current.end(Err(Failure::Here(error)));
                state.out = Some(Out::Excluded);
            }
        }
    }

    /// The operation failed because a member did. The program gets `error`, if it is another one.
    pub(super) fn fail(
        &self,
        state: &mut Changing<H>,
        node: NodeId,
        failure: MemberFailure,
        given: Option<Failure<H::Error>>,
    ) {
        let Some(current) = &mut state.current else {
            return;
        };
        if let GroupWork::Collective(work) = &current.work {
            let failed = (node, work.kind(), failure);
            state.failed = Some(failed);
            let own = self.place.rank;
            state.untold = (0..self.place.size).filter(|rank| *rank != own).collect();
            current.end(Err(given.unwrap_or_else(|| error(failed))));
        }
    }

    /// Takes note of the end of an operation.
    pub(super) fn finish(&self, state: &mut Changing<H>) {
        let Some(mut current) = state.current.take() else {
            return;
        };
        let result = match &mut current.work {
            GroupWork::Collective(work) => {
                state.last = Some((current.number, work.arguments()));
                Ok(Finished::Data(work.take_data()))
            }
            GroupWork::Agreement(work) => match work.verdict() {
                Some(Verdict::Agreed(known)) => {
                    state.gone.clone_from(&known.failed);
                    state.unheard = work.unheard();
                    state.begun_before = state.begun;
                    for rank in work.left() - &known.failed {
                        self.note_left(state, rank);
                    }
                    Ok(Finished::Agreed(known.clone()))
                }
                Some(Verdict::CutOff) => Err(state.out.insert(Out::CutOff).error()),
                Some(Verdict::Excluded) | None => Err(state.out.insert(Out::Excluded).error()),
            },
        };
        current.end(result);
        state.current = Some(current);
    }

    /// Takes the result for the program.
    pub fn take_result(&self) -> Option<Result<Finished, Failure<H::Error>>> {
        let mut state = self.lock();
        let current = state.current.as_mut()?;
        current.result.take()
    }

    /// A member gave up the last agreement, which counts it in: all later operations fail, also
    /// those of the group that this one became, which is returned.
    pub(super) fn note_left(&self, state: &mut Changing<H>, rank: usize) -> Option<Arc<Self>> {
        let node = self.member(rank)?;
        state.quit.insert(rank);
        state.dead.insert(rank);
        state.report(state.begun_before + 1, node, MemberFailure::GaveUp);
        let successor = state.successor.as_ref()?.upgrade()?;
        let rank = successor.members.iter().position(|one| *one == node)?;
        successor.note_left(&mut successor.lock(), rank);
        Some(successor)
    }

    /// Returns the group of this number that the members go on with that `known` does not count as
    /// failed. This group is over.
    #[must_use]
    pub fn without(&self, known: &Knowledge, number: u32, host: H) -> Arc<Self> {
        let left = |rank: &usize| !known.failed.contains(rank);
        let ranks: Vec<_> = (0..self.place.size).filter(left).collect();
        let pick = |rank: &usize| Some((*self.members.get(*rank)?, *self.sessions.get(*rank)?));
        let (members, sessions) = ranks.iter().filter_map(pick).unzip();
        let rank = ranks.iter().position(|rank| *rank == self.place.rank);
        let own = (rank.unwrap_or_default(), self.own);
        let new = Arc::new(Self::new(number, members, sessions, own, host));
        let mut state = self.lock();
        state.successor = Some(Arc::downgrade(&new));
        let mut later = new.lock();
        later.parts_go_on = state.parts_go_on;
        let place = |old: &usize| ranks.binary_search(old).ok();
        later.dead = state.dead.iter().filter_map(place).collect();
        for rank in state.quit.iter().filter_map(place) {
            new.note_left(&mut later, rank);
        }
        drop((later, state));
        new
    }

    /// The program does not wait for the result.
    pub fn release(&self) {
        if let Some(current) = &mut self.lock().current {
            current.is_released = true;
        }
    }
}

/// Returns the error of each operation after a member failed.
const fn error<E>((node, operation, failure): (NodeId, Kind, MemberFailure)) -> Failure<E> {
    Failure::Member {
        node,
        operation,
        failure,
    }
}
