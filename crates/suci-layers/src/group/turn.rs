//! One turn of a driver at a group: sends and takes what it can for the members that it serves.

use super::failure::{Failure, MemberFailure};
use super::over::OverGroups;
use super::places::GroupPlaces;
use super::state::{Carrier, Changing, GroupState, GroupWork, Host, Out, Purpose, Said, Underway};
use crate::agreement::{Absence, Agreement};
use crate::collective::{Arguments, Kind, LONGEST_MESSAGE, Unexpected};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::iter;
use std::sync::Arc;
use suci_proto::limits::MESSAGE_CHARGE;
use suci_proto::types::{self, ChannelId, NodeId};
use suci_proto::{EndReason, LinkState, LostCause, MemberState, Outgoing};

/// Bytes that the messages of operations may take in the queue to a member, as the last of them is
/// charged. A group whose messages are not taken thus leaves room to others.
const MOST_QUEUED: u64 = 4 << 20;

/// Ends the report of a member that gave up.
const GAVE_UP: u8 = 0;

/// The tag of the report to a member that its session is over: no node and no agreement has it.
const OUTDATED: u64 = u64::MAX;

/// The bit of a tag that tells an answer from the question, whose other bits it has.
const ANSWER: u64 = 1;

/// Stands for the operation in the question of a member that waits in an agreement.
const AGREES: u8 = 0xff;

/// The result of a turn.
#[derive(Debug)]
pub(super) struct Progress<H: Host> {
    /// Something is to be sent.
    pub(super) sent: bool,
    /// Drivers of other members have something to do.
    pub(super) advanced: bool,
    /// This driver has nothing to do for the group any more.
    is_over: bool,
    /// The number of its channels on which nothing is taken any more, in their order.
    ended: usize,
    /// The group that this one became, if a member of it failed.
    failed: Option<Arc<GroupState<H>>>,
}

/// The groups that a driver serves at present.
#[derive(Debug)]
pub struct ServedGroups<H: Host> {
    served: Vec<ServedGroup<H>>,
    /// Groups whose questions nobody takes any more.
    over: OverGroups,
    /// The same groups, which the engine asks for the memory of their messages.
    places: Arc<GroupPlaces<H>>,
}

impl<H: Host> Default for ServedGroups<H> {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

#[derive(Debug)]
struct ServedGroup<H: Host> {
    group: Arc<GroupState<H>>,
    /// The number of its channels that were ended.
    ended: usize,
}

impl<H: Host> ServedGroups<H> {
    /// Returns an empty list. Memory for the groups' messages is named by `places`.
    #[must_use]
    pub fn new(places: Arc<GroupPlaces<H>>) -> Self {
        Self {
            served: Vec::new(),
            over: OverGroups::default(),
            places,
        }
    }

    /// Returns true if the driver serves none, and need not answer for one that is over.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.served.is_empty() && self.over.is_silent()
    }

    /// An operation of the group begins or goes on.
    pub fn add(&mut self, group: Arc<GroupState<H>>) {
        if !self
            .served
            .iter()
            .any(|one| Arc::ptr_eq(&one.group, &group))
        {
            self.places.add(Arc::clone(&group));
            self.served.push(ServedGroup { group, ended: 0 });
        }
    }

    /// Carries all operations on. Returns whether something is to be sent, and the groups at which
    /// other drivers have something to do.
    pub fn progress(&mut self, carrier: &mut impl Carrier<H>) -> (bool, Vec<Arc<GroupState<H>>>) {
        let (mut sent, mut advanced) = (self.answer_late(carrier), Vec::new());
        let mut failed = Vec::new();
        let over = &mut self.over;
        self.served.retain_mut(|served| {
            let progress = served.group.progress(carrier);
            failed.extend(progress.failed);
            sent |= progress.sent;
            if progress.advanced {
                advanced.push(Arc::clone(&served.group));
            }
            let ended = Purpose::ALL.get(served.ended..progress.ended);
            for purpose in ended.unwrap_or_default() {
                carrier.engine().end_group(served.group.channel(*purpose));
                if *purpose == Purpose::Questions {
                    over.add(&served.group);
                }
            }
            served.ended = progress.ended;
            if progress.is_over {
                self.places.remove(&served.group);
            }
            !progress.is_over
        });
        if !failed.is_empty() {
            failed.iter().for_each(|group| self.add(Arc::clone(group)));
            let (more, others) = self.progress(carrier);
            sent |= more;
            advanced.extend(failed.into_iter().chain(others));
        }
        (sent, advanced)
    }
}

impl<H: Host> ServedGroups<H> {
    /// Answers those that ask in a group which is over here, in later sessions than the group's:
    /// they may have missed its end. Returns whether something is to be sent.
    fn answer_late(&mut self, carrier: &mut impl Carrier<H>) -> bool {
        while let Some((node, session, channel)) = carrier.engine().poll_late_of_group() {
            self.over.on_question(node, session, channel);
        }
        let mut sent = false;
        self.over.tell(|number, node| {
            let mut reports = outdated(number).into_iter();
            // A queue may be full.
            reports.all(|report| {
                let offered = carrier.offer(node, report);
                sent |= matches!(offered, Ok(true));
                !matches!(offered, Ok(false))
            })
        });
        sent
    }
}

/// Why an operation of this member cannot go on.
enum Failed<E> {
    /// Another member failed.
    Member(NodeId, MemberFailure),
    /// This node's own call failed.
    Here(E),
}

pub(super) struct Turn<'a, H: Host, C> {
    group: &'a GroupState<H>,
    state: &'a mut Changing<H>,
    carrier: &'a mut C,
    /// Members whose queues are full.
    full: BTreeSet<usize>,
    sent: bool,
    failed: Option<Arc<GroupState<H>>>,
}

impl<'a, H: Host, C: Carrier<H>> Turn<'a, H, C> {
    pub(super) fn new(
        group: &'a GroupState<H>,
        state: &'a mut Changing<H>,
        carrier: &'a mut C,
    ) -> Self {
        Self {
            group,
            state,
            carrier,
            full: BTreeSet::new(),
            sent: false,
            failed: None,
        }
    }

    pub(super) fn run(mut self) -> Progress<H> {
        let before = self.state.stage();
        self.hear_last();
        // Messages that an earlier operation owes come before data: a member may need them to begin
        // the operation that takes the data, which may fill the queue meanwhile.
        self.send_owed();
        if let Some(mut current) = self.state.current.take() {
            let result = match current.is_over {
                true => Ok(false),
                false => self.advance(&mut current),
            };
            if let GroupWork::Agreement(work) = &mut current.work {
                let channel = self.group.channel(Purpose::Agreements);
                let message =
                    |bytes: Vec<u8>| outgoing(channel, current.number, Bytes::new(), bytes.into());
                let messages = iter::from_fn(|| work.poll_send());
                let owed = messages.map(|(to, bytes)| (to, message(bytes)));
                self.state.owed.extend(owed);
            }
            self.state.current = Some(current);
            match result {
                Ok(true) => self.group.finish(self.state),
                Err(Failed::Member(node, failure)) => {
                    self.group.fail(self.state, node, failure, None);
                }
                Err(Failed::Here(error)) => {
                    let (own, error) = (self.group.own, Failure::Here(error));
                    (self.group).fail(self.state, own, MemberFailure::GaveUp, Some(error));
                }
                Ok(false) => {}
            }
        }
        self.send_owed();
        self.watch();
        self.tell_failure();
        self.tell_outdated();
        let mut untold = self.state.untold.union(&self.state.outdated);
        let mut owed = self.state.owed.iter();
        let heard = !self.state.unheard.iter().any(|rank| self.serves(*rank));
        let is_over = !self.state.is_running()
            && !untold.any(|rank| self.serves(*rank))
            && !owed.any(|(rank, ..)| self.serves(*rank))
            && heard;
        Progress {
            sent: self.sent,
            advanced: before != self.state.stage(),
            is_over,
            ended: self.state.ended(heard),
            failed: self.failed,
        }
    }

    fn serves(&self, rank: usize) -> bool {
        let member = self.group.member(rank);
        member.is_some_and(|node| self.carrier.serves(node))
    }

    /// Carries the operation on as far as possible. Returns whether it is done.
    fn advance(&mut self, current: &mut Underway<H::Error>) -> Result<bool, Failed<H::Error>> {
        if self.carrier.engine().has_group_message() {
            let was_out = self.state.out.is_some();
            self.take_reports();
            if self.state.out.is_some() && !was_out {
                self.leave_agreements(current);
            }
            self.take_questions(current.asked_at);
        }
        self.check_reports(current)?;
        if let GroupWork::Agreement(work) = &mut current.work {
            for rank in &self.state.dead {
                work.on_failed(*rank, Absence::Dead);
            }
        }
        loop {
            self.send(current)?;
            let is_done = match &current.work {
                GroupWork::Collective(work) => work.is_done(),
                GroupWork::Agreement(work) => work.verdict().is_some(),
            };
            if is_done {
                return Ok(true);
            }
            let mut took = false;
            for rank in awaited(current) {
                if self.serves(rank) {
                    took |= self.take(current, rank)?;
                }
            }
            if let GroupWork::Agreement(work) = &mut current.work {
                took |= work.begin();
            }
            if !took {
                return Ok(false);
            }
        }
    }

    // ---- sending

    /// Sends the data that can be sent now to members that the carrier serves.
    fn send(&mut self, current: &mut Underway<H::Error>) -> Result<(), Failed<H::Error>> {
        let (header, tag) = (current.header.clone(), current.tag());
        let GroupWork::Collective(work) = &mut current.work else {
            return Ok(());
        };
        loop {
            let (group, full, carrier) = (self.group, &self.full, &*self.carrier);
            let next = work.poll_send(|rank| {
                let member = group.member(rank).filter(|_| !full.contains(&rank));
                member.is_some_and(|node| carrier.serves(node))
            });
            let Some((rank, payload)) = next else {
                return Ok(());
            };
            debug_assert!(payload.len() <= LONGEST_MESSAGE);
            let able = self.check_member(rank);
            let node = self.group.member(rank).unwrap_or(self.group.own);
            able.map_err(|failure| Failed::Member(node, failure))?;
            let channel = self.group.channel(Purpose::Data);
            let open = self.carrier.engine().open_on(node, channel);
            let each = MESSAGE_CHARGE.saturating_add(payload.len() as u64);
            let message = outgoing(channel, tag, header.clone(), payload);
            if open.saturating_mul(each) > MOST_QUEUED {
                self.full.insert(rank);
                work.unsend();
            } else if !self.offer(rank, message).map_err(Failed::Here)? {
                work.unsend();
            }
        }
    }

    /// Sends messages of agreements and answers, in order to each member, unless it is gone.
    fn send_owed(&mut self) {
        for (rank, message) in std::mem::take(&mut self.state.owed) {
            if self.serves(rank) && self.is_gone(rank) {
                continue;
            }
            let waits = !self.serves(rank) || self.full.contains(&rank);
            if waits || matches!(self.offer(rank, message.clone()), Ok(false)) {
                self.state.owed.push_back((rank, message));
            }
        }
    }

    /// Offers a message to a member. Returns false if its queue is full.
    fn offer(&mut self, rank: usize, message: Outgoing) -> Result<bool, H::Error> {
        let Some(to) = self.group.member(rank) else {
            return Ok(true);
        };
        let taken = self.carrier.offer(to, message)?;
        match taken {
            true => self.sent = true,
            false => _ = self.full.insert(rank),
        }
        Ok(taken)
    }

    // ---- taking

    /// Takes what has come from one member that is awaited. Fails if nothing has, and nothing will.
    fn take(
        &mut self,
        current: &mut Underway<H::Error>,
        rank: usize,
    ) -> Result<bool, Failed<H::Error>> {
        let Some(node) = self.group.member(rank) else {
            return Ok(false);
        };
        match current.arguments() {
            Some(ours) => {
                let taken = self.take_data(current, rank, node, ours);
                taken.map_err(|failure| Failed::Member(node, failure))
            }
            None => Ok(self.take_agreement(current, rank, node)),
        }
    }

    fn take_data(
        &mut self,
        current: &mut Underway<H::Error>,
        rank: usize,
        node: NodeId,
        ours: Arguments,
    ) -> Result<bool, MemberFailure> {
        let channel = self.group.channel(Purpose::Data);
        let mut any = false;
        let GroupWork::Collective(work) = &mut current.work else {
            return Ok(false);
        };
        // Its message waits for one of this member's, which another driver may send.
        if !work.can_take(rank) {
            return Ok(false);
        }
        while work.can_take(rank) {
            let Some((session, message)) = self.carrier.engine().recv_of_group(node, channel)
            else {
                break;
            };
            if Some(&session) != self.group.sessions.get(rank) {
                return Err(MemberFailure::Ended(EndReason::Restarted));
            }
            let number = message.tag >> 8;
            let kind = u8::try_from(message.tag & 0xff).ok();
            let kind = kind.and_then(Kind::from_number);
            let theirs = kind.and_then(|kind| Arguments::from_bytes(kind, &message.user_header));
            self.check_arguments(number, theirs, (current.number, ours))?;
            let taken = match message.payload.placed() {
                Some(_) => work.on_placed(rank),
                None => work.on_message(rank, &message.payload),
            };
            match taken {
                Ok(()) => any = true,
                Err(Unexpected::Length { came, awaited }) => {
                    let [came, awaited] = [came, awaited].map(|length| length as u64);
                    return Err(MemberFailure::Length { came, awaited });
                }
                Err(Unexpected::NotAwaited) => break,
            }
        }
        match any {
            true => Ok(true),
            false => self.check_member(rank).map(|()| false),
        }
    }

    /// Checks that a member's message belongs to this call.
    fn check_arguments(
        &self,
        number: u64,
        theirs: Option<Arguments>,
        ours: (u64, Arguments),
    ) -> Result<(), MemberFailure> {
        let same = [Some(ours), self.state.last].into_iter().flatten();
        let mut same = same.filter(|(at, _)| *at == number);
        if let (Some((_, ours)), Some(theirs)) = (same.next(), theirs) {
            let difference = MemberFailure::of_arguments(number, theirs, ours);
            difference.map_or(Ok(()), Err)?;
        }
        match (number == ours.0, theirs) {
            (true, Some(_)) => Ok(()),
            _ => Err(MemberFailure::Other {
                number,
                operation: theirs.map(|theirs| theirs.kind),
            }),
        }
    }

    /// Takes all that came from a member. Returns whether that, or its failure, changed something.
    fn take_agreement(
        &mut self,
        current: &mut Underway<H::Error>,
        rank: usize,
        node: NodeId,
    ) -> bool {
        let channel = self.group.channel(Purpose::Agreements);
        let (session, size) = (self.group.sessions.get(rank), self.group.place.size);
        let GroupWork::Agreement(work) = &mut current.work else {
            return false;
        };
        let mut any = false;
        while work.awaited().any(|awaited| awaited == rank) {
            let Some((of, message)) = self.carrier.engine().recv_of_group(node, channel) else {
                break;
            };
            let is_ours = Some(&of) == session;
            if is_ours && message.tag == OUTDATED {
                self.state.out = Some(Out::Excluded);
                work.leave();
                return true;
            }
            // The rest of earlier agreements.
            if is_ours && message.tag < current.number {
                if Agreement::has_result(&message.payload, size) == Some(false) {
                    self.state.dead.insert(rank);
                    any |= work.on_failed(rank, Absence::Dead);
                }
                continue;
            }
            let is_sound = is_ours
                && message.tag == current.number
                && work.on_message(rank, &message.payload).is_ok();
            any |= is_sound || work.on_failed(rank, Absence::Silent);
        }
        let absence = match self.check_member(rank) {
            // The program may resume it.
            Ok(()) | Err(MemberFailure::Suspended) => return any,
            Err(_) if self.is_dead(rank) => Absence::Dead,
            Err(_) => Absence::Silent,
        };
        if absence == Absence::Dead {
            self.state.dead.insert(rank);
        }
        work.on_failed(rank, absence) || any
    }

    /// Takes what members sent last in the agreement that is over: one that it counts in may have
    /// given up.
    fn hear_last(&mut self) {
        let channel = self.group.channel(Purpose::Agreements);
        let mut unheard = std::mem::take(&mut self.state.unheard);
        unheard.retain(|&rank| {
            let Some(node) = self.group.member(rank).filter(|_| self.serves(rank)) else {
                return true;
            };
            while let Some((session, message)) = self.carrier.engine().recv_of_group(node, channel)
            {
                if Some(&session) != self.group.sessions.get(rank) {
                    return false;
                }
                let result = Agreement::has_result(&message.payload, self.group.place.size);
                if result == Some(false) {
                    let successor = self.group.note_left(self.state, rank);
                    self.failed = successor.or(self.failed.take());
                    return false;
                }
                if result == Some(true) && message.tag == self.state.agreements {
                    return false;
                }
            }
            !self.is_gone(rank)
        });
        self.state.unheard = unheard;
    }

    // ---- failures

    /// Checks that a member can still take part.
    fn check_member(&mut self, rank: usize) -> Result<(), MemberFailure> {
        let session = self.group.sessions.get(rank).copied().unwrap_or_default();
        let engine = self.carrier.engine();
        let state = self
            .group
            .member(rank)
            .and_then(|node| engine.member_state(node));
        match state {
            Some(state) if state.session != session => {
                let reason = state.last_end.unwrap_or(EndReason::Restarted);
                Err(MemberFailure::Ended(reason))
            }
            Some(MemberState {
                denied_by: Some(side),
                ..
            }) => Err(MemberFailure::NotPermitted(side)),
            Some(state) if state.suspended_here => Err(MemberFailure::Suspended),
            Some(state) if state.link == LinkState::Lost => Err(MemberFailure::Lost(state.cause)),
            _ => Ok(()),
        }
    }

    /// Whether the process that the group counts as the member takes part in nothing any more, for
    /// certain.
    fn is_dead(&mut self, rank: usize) -> bool {
        let session = self.group.sessions.get(rank).copied().unwrap_or_default();
        let node = self.group.member(rank);
        let state = node.and_then(|node| self.carrier.engine().member_state(node));
        state.is_some_and(|state| state.is_dead || (state.session != session && state.last_is_dead))
    }

    /// Whether a message to the member would wait for its next process. One that is only silent may
    /// come back, and must not wait for this member then.
    fn is_gone(&mut self, rank: usize) -> bool {
        matches!(
            self.check_member(rank),
            Err(MemberFailure::Ended(_) | MemberFailure::Lost(LostCause::ProcessDied))
        )
    }

    /// Takes what other members tell: that one failed, also this one.
    fn take_reports(&mut self) {
        let channel = self.group.channel(Purpose::Failures);
        for rank in 0..self.group.place.size {
            let Some(node) = self.group.member(rank).filter(|_| self.serves(rank)) else {
                continue;
            };
            while let Some((session, message)) = self.carrier.engine().recv_of_group(node, channel)
            {
                let payload = message.payload.as_ref().split_first_chunk();
                let (Some((begun, rest)), true) =
                    (payload, Some(&session) == self.group.sessions.get(rank))
                else {
                    continue;
                };
                let begun = u64::from_le_bytes(*begun);
                match (rest, u32::try_from(message.tag).map(NodeId)) {
                    ([], Ok(about)) => {
                        let (about, failure) = self.reported(rank, node, about);
                        self.state.report(begun, about, failure);
                    }
                    ([], Err(_)) if message.tag == OUTDATED => {
                        let own = self.group.own;
                        self.state.report(0, own, MemberFailure::Outdated(node));
                        self.state.out = Some(Out::Excluded);
                    }
                    (&[GAVE_UP], _) => self.state.report(begun, node, MemberFailure::GaveUp),
                    _ => {}
                }
            }
        }
    }

    /// This member is out in a collective operation: no other one may wait for it in the next
    /// agreement, which it does not begin.
    fn leave_agreements(&mut self, current: &Underway<H::Error>) {
        if let GroupWork::Agreement(_) = current.work {
            return;
        }
        let (channel, number) = (
            self.group.channel(Purpose::Agreements),
            self.state.agreements + 1,
        );
        let place = self.group.place;
        for rank in (0..place.size).filter(|rank| *rank != place.rank) {
            let left = Agreement::left_message().into();
            let message = outgoing(channel, number, Bytes::new(), left);
            self.state.owed.push_back((rank, message));
        }
    }

    /// Returns what a member's report says. If it counts this member as failed since one of the two
    /// permits no groups, that is known here, too, and says more.
    fn reported(&mut self, rank: usize, by: NodeId, about: NodeId) -> (NodeId, MemberFailure) {
        match self.check_member(rank) {
            Err(denied @ MemberFailure::NotPermitted(_)) if about == self.group.own => (by, denied),
            _ => (about, MemberFailure::Reported(by)),
        }
    }

    /// Takes what members say about the operations in which they wait, and their answers to what
    /// this one said at `asked_at`.
    fn take_questions(&mut self, asked_at: Option<u64>) {
        let channel = self.group.channel(Purpose::Questions);
        for rank in 0..self.group.place.size {
            let Some(node) = self.group.member(rank).filter(|_| self.serves(rank)) else {
                continue;
            };
            while let Some((session, message)) = self.carrier.engine().recv_of_group(node, channel)
            {
                let ours = self.group.sessions.get(rank).copied().unwrap_or_default();
                let (Some((number, &[kind])), true) = (
                    message.payload.as_ref().split_first_chunk(),
                    session >= ours,
                ) else {
                    continue;
                };
                let number = u64::from_le_bytes(*number);
                if session > ours {
                    // It waits for members that take nothing from it any more.
                    let restarted = MemberFailure::Ended(EndReason::Restarted);
                    let failure = self.check_member(rank).err().unwrap_or(restarted);
                    self.state.report(self.state.begun, node, failure);
                    self.state.outdated.insert(rank);
                    continue;
                }
                let is_answer = message.tag & ANSWER != 0;
                let asked = asked_at.map(|at| question(at) | ANSWER);
                if is_answer && asked != Some(message.tag) {
                    continue;
                }
                let kind = Kind::from_number(kind);
                let said = kind.and_then(|kind| Arguments::from_bytes(kind, &message.user_header));
                let said = said.map(|arguments| Said {
                    number,
                    arguments,
                    question: (!is_answer).then_some(message.tag),
                });
                self.state.said.extend(said.map(|said| (rank, said)));
            }
        }
    }

    /// Fails if another member reported a failure, or is in another operation. A failure in a later
    /// operation than this one does not count: the member still did its part of this one.
    fn check_reports(&mut self, current: &mut Underway<H::Error>) -> Result<(), Failed<H::Error>> {
        let Some(ours) = current.arguments() else {
            if let (GroupWork::Agreement(work), Some(_)) = (&mut current.work, self.state.out) {
                work.leave();
            }
            return Ok(());
        };
        if let Some((begun, about, failure)) = self.state.reported
            && begun <= current.number
        {
            return Err(Failed::Member(about, failure));
        }
        self.check_said([Some((current.number, ours)), self.state.last])
    }

    /// Fails if a member answered that it is in another operation. One that asked may have done so
    /// in an earlier group of this number. It hears which operation this one is in, and fails if it
    /// still waits in the one that it asked about.
    fn check_said(&mut self, ours: [Option<(u64, Arguments)>; 2]) -> Result<(), Failed<H::Error>> {
        for (rank, said) in std::mem::take(&mut self.state.said) {
            let mut same = ours
                .into_iter()
                .flatten()
                .filter(|(at, _)| *at == said.number);
            let difference = same.find_map(|(number, ours)| {
                let failure = MemberFailure::of_arguments(number, said.arguments, ours)?;
                Some((failure, ours))
            });
            match (difference, said.question) {
                (None, _) => _ = self.state.said.insert(rank, said),
                (Some((failure, _)), None) => {
                    let node = self.group.member(rank).unwrap_or(self.group.own);
                    return Err(Failed::Member(node, failure));
                }
                (Some((_, ours)), Some(question)) => {
                    let (header, payload) = (ours.to_bytes(), stated(said.number, ours.kind as u8));
                    let (channel, tag) =
                        (self.group.channel(Purpose::Questions), question | ANSWER);
                    let answer = outgoing(channel, tag, Bytes::copy_from_slice(&header), payload);
                    // A member waits for the answer to its last question only.
                    let is_older =
                        |(to, one): &(usize, Outgoing)| *to == rank && one.channel == channel;
                    self.state.owed.retain(|owed| !is_older(owed));
                    self.state.owed.push_back((rank, answer));
                }
            }
        }
        Ok(())
    }

    /// Watches members that keep the operation waiting, and tells all in which one this member
    /// waits.
    fn watch(&mut self) {
        let Some(current) = &mut self.state.current else {
            return;
        };
        if !current.is_watching && current.watched.is_empty() {
            return;
        }
        // One that suspended this node and died holds back what is to be sent, and nothing else.
        let awaited = match current.is_watching && !current.is_over {
            true => &awaited(current) | &self.full,
            false => BTreeSet::new(),
        };
        let watched = std::mem::take(&mut current.watched);
        let unasked = std::mem::take(&mut current.unasked);
        let kind = current.arguments().map_or(AGREES, |ours| ours.kind as u8);
        let (header, payload) = (current.header.clone(), stated(current.number, kind));
        let is_over = current.is_over;
        let now = self.carrier.now();
        let asked_at = current.asked_at.unwrap_or(now.as_nanos());
        current.asked_at = current.is_watching.then_some(asked_at);
        let mut still = BTreeSet::new();
        for rank in &watched | &awaited {
            let Some(node) = self.group.member(rank).filter(|_| self.serves(rank)) else {
                still.extend(watched.contains(&rank).then_some(rank));
                continue;
            };
            let is_awaited = awaited.contains(&rank);
            if is_awaited != watched.contains(&rank) {
                self.carrier.engine().await_member(now, node, is_awaited);
            }
            still.extend(is_awaited.then_some(rank));
        }
        let mut left = BTreeSet::new();
        for rank in unasked {
            if !self.serves(rank) {
                left.insert(rank);
            } else if !is_over && !self.is_gone(rank) {
                let channel = self.group.channel(Purpose::Questions);
                let tag = question(asked_at);
                let message = outgoing(channel, tag, header.clone(), payload.clone());
                left.extend(matches!(self.offer(rank, message), Ok(false)).then_some(rank));
            }
        }
        if let Some(current) = &mut self.state.current {
            current.watched = still;
            current.unasked = left;
        }
    }

    /// Tells the members that the carrier serves that one failed.
    fn tell_failure(&mut self) {
        let Some((about, _, failure)) = self.state.failed else {
            return;
        };
        #[cfg(suci_plant)]
        if suci_proto::plant::active("failure-not-told") {
            self.state.untold.clear();
            return;
        }
        let mut payload = self.state.begun.to_le_bytes().to_vec();
        // Another member may have reported this one, which did not give up then.
        if about == self.group.own && failure == MemberFailure::GaveUp {
            payload.push(GAVE_UP);
        }
        let payload = Bytes::from(payload);
        for rank in std::mem::take(&mut self.state.untold) {
            if !self.serves(rank) {
                self.state.untold.insert(rank);
                continue;
            }
            let node = self.group.member(rank);
            let state = node.and_then(|node| self.carrier.engine().member_state(node));
            let is_unreachable =
                node == Some(about) && state.is_some_and(|state| state.link == LinkState::Idle);
            if is_unreachable || self.is_gone(rank) {
                continue;
            }
            let channel = self.group.channel(Purpose::Failures);
            let report = outgoing(channel, about.0.into(), Bytes::new(), payload.clone());
            // A queue may be full.
            if matches!(self.offer(rank, report), Ok(false)) {
                self.state.untold.insert(rank);
            }
        }
    }
}

impl<H: Host, C: Carrier<H>> Turn<'_, H, C> {
    /// Tells members whose sessions are over that this one takes nothing from them any more.
    fn tell_outdated(&mut self) {
        for rank in std::mem::take(&mut self.state.outdated) {
            let mut reports = outdated(self.group.number).into_iter();
            // A queue may be full.
            if !self.serves(rank) || reports.any(|one| matches!(self.offer(rank, one), Ok(false))) {
                self.state.outdated.insert(rank);
            }
        }
    }
}

/// Returns the reports to a member of a group that its session is over: one of them is where it
/// waits, be that in a collective operation or in an agreement.
fn outdated(group: u32) -> [Outgoing; 2] {
    let report = |purpose: Purpose| {
        let payload = Bytes::from_static(&[0; 8]);
        outgoing(purpose.channel(group), OUTDATED, Bytes::new(), payload)
    };
    [report(Purpose::Failures), report(Purpose::Agreements)]
}

/// Returns the tag of questions of this time.
const fn question(asked_at: u64) -> u64 {
    asked_at << 1
}

/// Returns the payload of a message that says in which operation its sender is.
fn stated(number: u64, kind: u8) -> Bytes {
    let mut payload = number.to_le_bytes().to_vec();
    payload.push(kind);
    payload.into()
}

/// The members whose messages the operation can take now.
fn awaited<E>(current: &Underway<E>) -> BTreeSet<usize> {
    match &current.work {
        GroupWork::Collective(work) => work.awaited().collect(),
        GroupWork::Agreement(work) => work.awaited().collect(),
    }
}

fn outgoing(channel: ChannelId, tag: u64, user_header: Bytes, payload: Bytes) -> Outgoing {
    Outgoing {
        channel,
        tag,
        kind: types::Kind::USER,
        user_header,
        payload,
        notify: false,
        token: 0,
        deadline: None,
    }
}
