//! The queues of receives and of messages, as a pure state machine.

use super::completion::{Completion, Completions, Matched, Unmatched};
use super::index::{PostedIndex, UnexpectedIndex};
use super::memory::{Buffer, MessagePlace};
use super::room::charge_of;
use super::{Envelope, MEMORY, MessageId, Pattern, ReceiveId};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use suci_proto::message::IncomingInfo;
use suci_proto::types::{ChannelId, Kind, MessageNumber, NodeId, SessionNumber, Source};
use suci_proto::{Data, EndReason, LostCause, Message, PortInput};

/// Messages of up to this many bytes share memory with others in the engine. One that is kept for
/// long gets memory of its own, so that it keeps no other's.
const SHARES_MEMORY: usize = 2 << 10;

/// Messages of up to this many bytes are stored in [`Data`] itself.
const INLINE: usize = 32;

/// A message of which not all has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Landing {
    pub(super) from: Source,
    pub(super) channel: ChannelId,
    pub(super) number: MessageNumber,
}

/// The description of a message, beside its payload.
#[derive(Clone, Debug)]
pub(super) struct Arriving {
    pub(super) place: Landing,
    tag: u64,
    kind: Kind,
    pub(super) user_header: Bytes,
}

impl Arriving {
    const fn envelope(&self) -> Envelope {
        Envelope {
            channel: self.place.channel,
            node: self.place.from.node,
            tag: self.tag,
        }
    }
}

/// The part of a receive's buffer that a message gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed {
    receive: ReceiveId,
    offset: u64,
    room: u64,
}

/// A receive that waits, or whose messages are on their way.
#[derive(Debug)]
struct Receive {
    pattern: Pattern,
    buffer: Buffer,
    /// Bytes of the buffer that messages have, or will have.
    used: u64,
    /// Messages on their way to it.
    open: usize,
    /// It is in the index, and waits for messages.
    is_listed: bool,
    /// It takes no more messages.
    is_full: bool,
    /// The program does not want its completions any more.
    is_abandoned: bool,
}

/// A message that no receive has taken, or whose bytes come into memory of the engine although one
/// has.
#[derive(Debug)]
pub(super) struct Untaken {
    pub(super) description: Arriving,
    pub(super) total: u64,
    /// The payload, once it is complete.
    data: Option<Data>,
    /// The bytes that it counts in the memory of the layer.
    pub(super) charge: u64,
    pub(super) owner: Owner,
}

/// The receives that may take a message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner {
    /// The first receive that admits it.
    Nobody,
    /// The program, which claimed it.
    Program,
    /// A receive, as soon as it is complete.
    Receive(Listed),
}

/// Where the bytes of a message go that is not complete.
#[derive(Debug)]
pub(super) enum Coming {
    /// Into the buffer of a receive.
    Placed {
        slot: Listed,
        description: Arriving,
        /// Set once no more byte may be written there.
        is_over: Arc<AtomicBool>,
    },
    /// Into memory of the engine.
    Untaken(MessageId),
}

/// An answer to the sender of an announced message.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) place: Landing,
    pub(super) id: MessageId,
    /// The part of a receive's buffer where the bytes shall go, and if they may not any more; into
    /// memory of the engine if there is none.
    into: Option<(Listed, Arc<AtomicBool>)>,
}

/// The decision about a message that begins.
#[derive(Debug)]
pub(super) enum Begin {
    /// Its bytes go to the buffer of a receive.
    Placed(RevocablePlace),
    /// Its bytes go to the engine. If it is announced, that is decided later.
    Kept,
    /// The end of the session before it must be heard of first.
    TooEarly,
}

/// The memory of a message, until the layer takes it back.
#[derive(Debug)]
pub(super) struct RevocablePlace {
    place: MessagePlace,
    is_over: Arc<AtomicBool>,
}

impl suci_proto::LentMemory for RevocablePlace {
    fn length(&self) -> usize {
        self.place.length()
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        if !self.is_over.load(Ordering::Relaxed) {
            self.place.write(at, bytes);
        }
    }

    fn read(&self, at: usize, bytes: &mut [u8]) {
        self.place.read(at, bytes);
    }
}

/// The description of a message that no receive has taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peeked {
    /// The message, for [`Matching::receive_claimed`].
    pub message: MessageId,
    /// The node and the session that it came from.
    pub from: Source,
    /// Its channel.
    pub channel: ChannelId,
    /// Its tag.
    pub tag: u64,
    /// The program's kind of message.
    pub kind: Kind,
    /// The program's header.
    pub user_header: Bytes,
    /// Its length in bytes. They may still be on their way.
    pub total: u64,
}

/// The message is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no message {} is claimed: it was received, or its session ended before it was complete", .0.0
)]
pub struct NoSuchMessage(pub MessageId);

/// The posted receives of a node, and the messages that none of them has taken.
#[derive(Debug)]
pub struct Matching {
    pub(super) memory: u64,
    next_receive: u64,
    next_message: u64,
    receives: HashMap<ReceiveId, Receive>,
    pub(super) posted: PostedIndex,
    pub(super) unexpected: BTreeMap<MessageId, Untaken>,
    index: UnexpectedIndex,
    pub(super) coming: BTreeMap<Landing, Coming>,
    /// The session of each node to which its next messages belong.
    sessions: HashMap<NodeId, SessionNumber>,
    /// Announced messages for which there was no memory.
    pub(super) parked: BTreeSet<MessageId>,
    /// Announced messages that are to be answered.
    decisions: VecDeque<(Landing, MessageId)>,
    /// Bytes that messages count, of all nodes and of each.
    pub(super) held: u64,
    pub(super) held_by: HashMap<NodeId, u64>,
    /// The session that ends, once there was no memory for one of its last messages.
    pub(super) cut_short: Option<Source>,
    done: Completions,
}

impl Default for Matching {
    fn default() -> Self {
        Self::with_memory(MEMORY)
    }
}

impl Matching {
    /// Returns empty queues that keep at most `memory` bytes of messages, beside one of each node.
    #[must_use]
    pub fn with_memory(memory: u64) -> Self {
        Self {
            memory,
            next_receive: 0,
            next_message: 0,
            receives: HashMap::new(),
            posted: PostedIndex::default(),
            unexpected: BTreeMap::new(),
            index: UnexpectedIndex::default(),
            coming: BTreeMap::new(),
            sessions: HashMap::new(),
            parked: BTreeSet::new(),
            decisions: VecDeque::new(),
            held: 0,
            held_by: HashMap::new(),
            cut_short: None,
            done: Completions::default(),
        }
    }

    // ---- the program's verbs

    /// Posts a receive. Messages that it admits are taken at once, if some are there.
    pub fn post(&mut self, pattern: Pattern, buffer: Buffer) -> ReceiveId {
        let id = self.open_receive(pattern, buffer);
        while self.wants_more(id)
            && let Some(message) = self.find(&pattern)
        {
            self.take(message, id);
        }
        if let Some(receive) = self.receives.get_mut(&id).filter(|one| !one.is_full) {
            receive.is_listed = true;
            self.posted.insert(&pattern, id.0);
        }
        id
    }

    /// Withdraws a receive that waits. Returns true if it was the last that the program hears of
    /// it. Otherwise a message is on its way to it, or has come: its completion says so.
    pub fn cancel(&mut self, receive: ReceiveId) -> bool {
        self.fill_up(receive);
        let is_idle = self.receives.get(&receive).is_some_and(|one| one.open == 0);
        if is_idle {
            self.receives.remove(&receive);
        }
        is_idle
    }

    /// Withdraws a receive whose buffer is not there any more. The program hears nothing of it.
    pub fn abandon(&mut self, receive: ReceiveId) {
        self.done.drop_all(receive);
        if !self.cancel(receive)
            && let Some(receive) = self.receives.get_mut(&receive)
        {
            receive.is_abandoned = true;
        }
    }

    /// Returns the oldest message that a pattern admits and no receive has taken.
    pub fn peek(&mut self, pattern: &Pattern) -> Option<Peeked> {
        let id = self.find(pattern)?;
        let message = self.unexpected.get(&id)?;
        let description = &message.description;
        Some(Peeked {
            message: id,
            from: description.place.from,
            channel: description.place.channel,
            tag: description.tag,
            kind: description.kind,
            user_header: description.user_header.clone(),
            total: message.total,
        })
    }

    /// As [`peek`](Self::peek), and keeps the message for
    /// [`receive_claimed`](Self::receive_claimed): no other receive gets it.
    pub fn claim(&mut self, pattern: &Pattern) -> Option<Peeked> {
        let peeked = self.peek(pattern)?;
        self.own(peeked.message, Owner::Program);
        Some(peeked)
    }

    /// Receives a message that was claimed. The completion comes at once if the message is
    /// complete.
    ///
    /// # Errors
    /// [`NoSuchMessage`]
    pub fn receive_claimed(
        &mut self,
        message: MessageId,
        buffer: Buffer,
    ) -> Result<ReceiveId, NoSuchMessage> {
        let claimed = self.unexpected.get(&message);
        let claimed = claimed.filter(|one| matches!(one.owner, Owner::Program));
        let envelope = claimed
            .ok_or(NoSuchMessage(message))?
            .description
            .envelope();
        let pattern = Pattern::tag(envelope.tag).from(envelope.node);
        let receive = self.open_receive(pattern, buffer);
        self.fill_up(receive);
        self.take(message, receive);
        Ok(receive)
    }

    /// Discards a message that was claimed.
    ///
    /// # Errors
    /// [`NoSuchMessage`]
    pub fn discard(&mut self, message: MessageId) -> Result<(), NoSuchMessage> {
        let nothing = Buffer::new([]).map_err(|_| NoSuchMessage(message))?;
        let receive = self.receive_claimed(message, nothing)?;
        self.abandon(receive);
        Ok(())
    }

    /// Takes the oldest completion.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.done.pop()
    }

    /// Takes the oldest completion of a receive.
    pub fn take_completion(&mut self, receive: ReceiveId) -> Option<Completion> {
        self.done.take(receive)
    }

    // ---- questions

    /// Returns true if [`poll_completion`](Self::poll_completion) returns something.
    #[must_use]
    pub fn has_completion(&self) -> bool {
        !self.done.is_empty()
    }

    /// Returns true if [`take_completion`](Self::take_completion) returns something.
    #[must_use]
    pub fn is_complete(&self, receive: ReceiveId) -> bool {
        self.done.has(receive)
    }

    /// Returns true if a receive waits, or a message is on its way to it.
    #[must_use]
    pub fn is_open(&self, receive: ReceiveId) -> bool {
        self.receives.contains_key(&receive)
    }

    /// Returns the number of messages that no receive has taken and nobody claimed, and the bytes
    /// that all kept messages count.
    #[must_use]
    pub fn unexpected(&self) -> (usize, u64) {
        let free = |one: &&Untaken| matches!(one.owner, Owner::Nobody);
        (self.unexpected.values().filter(free).count(), self.held)
    }

    // ---- handlers

    /// Takes what came at the port.
    pub fn on_input(&mut self, input: PortInput) {
        match input {
            PortInput::Message(from, message) => {
                self.sessions.insert(from.node, from.session);
                self.arrive(from, message);
            }
            PortInput::Last(from, message) => {
                if self.keeps_last(from, &message) {
                    self.arrive(from, message);
                }
            }
            PortInput::Ended(node, session, reason) => {
                self.cut_short = None;
                self.sessions.insert(node, session.next());
                self.end(Source { node, session }, reason);
            }
            PortInput::Lost(node, LostCause::ProcessDied) => {
                self.fail_directed(node, EndReason::ProcessDied);
                self.fail_coming(node, EndReason::ProcessDied, |_| true);
            }
            // The program hears which of its messages were refused. The others may come to nothing.
            PortInput::Refused { .. }
            | PortInput::Up(_)
            | PortInput::Lost(..)
            | PortInput::NoProcess(_)
            | PortInput::NoWay(_) => {}
        }
    }

    /// Notes that the ends of all sessions with the node of `from` before that one were heard of.
    pub(super) fn hear_of(&mut self, from: Source) {
        let expected = self.sessions.entry(from.node).or_default();
        *expected = from.session.max(*expected);
    }

    /// Decides where the bytes of a message go that begins, or is announced.
    pub(super) fn begin(&mut self, from: Source, message: &IncomingInfo) -> Begin {
        let (channel, number) = (message.channel, message.number);
        let place = Landing {
            from,
            channel,
            number,
        };
        // Messages of the session before come first.
        let expected = self.sessions.get(&from.node).copied().unwrap_or_default();
        match from.session.cmp(&expected) {
            core::cmp::Ordering::Less => return Begin::Kept,
            core::cmp::Ordering::Equal => {}
            core::cmp::Ordering::Greater => return Begin::TooEarly,
        }
        if self.coming.contains_key(&place) {
            // It is asked about again. Its answer is in the queue, or was given.
            return Begin::Kept;
        }
        let description = Arriving {
            place,
            tag: message.tag,
            kind: message.kind,
            user_header: message.user_header.clone(),
        };
        if let Some(receive) = self.posted.first(&description.envelope()) {
            let is_over = Arc::default();
            let slot = self.bind(ReceiveId(receive), message.total);
            let memory = slot.and_then(|slot| self.memory_of(slot, message.total, &is_over));
            if let (Some(slot), Some(memory)) = (slot, memory) {
                let placed = Coming::Placed {
                    slot,
                    description,
                    is_over,
                };
                self.coming.insert(place, placed);
                return Begin::Placed(memory);
            }
            return Begin::Kept;
        }
        let id = self.keep(description, message.total, None);
        self.coming.insert(place, Coming::Untaken(id));
        self.pull(id);
        Begin::Kept
    }

    /// Returns the next answer to an announced message of a node that `knows` accepts, with the
    /// memory of a receive if its bytes shall go there. Messages that were not announced have an
    /// answer, too: the engine does not take it, and their bytes come to the engine.
    pub(super) fn poll_decision(
        &mut self,
        knows: impl Fn(NodeId) -> bool,
    ) -> Option<(Decision, Option<RevocablePlace>)> {
        let of_node = |(place, _): &(Landing, MessageId)| knows(place.from.node);
        let at = self.decisions.iter().position(of_node)?;
        let (place, id) = self.decisions.remove(at)?;
        let mut decision = Decision {
            place,
            id,
            into: None,
        };
        let message = self.unexpected.get(&id);
        let Some((slot, total)) = message.and_then(|one| match one.owner {
            Owner::Receive(slot) => Some((slot, one.total)),
            Owner::Nobody | Owner::Program => None,
        }) else {
            return Some((decision, None));
        };
        let is_over = Arc::default();
        let memory = self.memory_of(slot, total, &is_over);
        decision.into = Some((slot, is_over));
        Some((decision, memory))
    }

    /// Returns true if [`poll_decision`](Self::poll_decision) may return something.
    pub(super) fn has_decisions(&self) -> bool {
        !self.decisions.is_empty()
    }

    /// Notes that the engine took the answer to an announced message.
    pub(super) fn on_decided(&mut self, decision: Decision) {
        let Decision { place, id, into } = decision;
        if let Some((slot, is_over)) = into
            && let Some(message) = self.forget(id)
        {
            let placed = Coming::Placed {
                slot,
                description: message.description,
                is_over,
            };
            self.coming.insert(place, placed);
        }
    }

    // ---- inside: receives

    fn open_receive(&mut self, pattern: Pattern, buffer: Buffer) -> ReceiveId {
        let id = ReceiveId(self.next_receive);
        self.next_receive = self.next_receive.wrapping_add(1);
        let receive = Receive {
            pattern,
            buffer,
            used: 0,
            open: 0,
            is_listed: false,
            is_full: false,
            is_abandoned: false,
        };
        self.receives.insert(id, receive);
        id
    }

    fn wants_more(&self, id: ReceiveId) -> bool {
        self.receives.get(&id).is_some_and(|one| !one.is_full)
    }

    /// Has a receive take no more messages.
    fn fill_up(&mut self, id: ReceiveId) {
        if let Some(receive) = self.receives.get_mut(&id) {
            receive.is_full = true;
            if core::mem::take(&mut receive.is_listed) {
                self.posted.remove(&receive.pattern, id.0);
            }
        }
    }

    /// Returns the memory for a message of `total` bytes in a part of a receive's buffer.
    fn memory_of(
        &self,
        slot: Listed,
        total: u64,
        is_over: &Arc<AtomicBool>,
    ) -> Option<RevocablePlace> {
        let place = MessagePlace {
            buffer: self.receives.get(&slot.receive)?.buffer.clone(),
            offset: slot.offset,
            room: slot.room,
            total: usize::try_from(total).ok()?,
        };
        let is_over = Arc::clone(is_over);
        Some(RevocablePlace { place, is_over })
    }

    /// Gives a message of `total` bytes a part of the buffer of a receive.
    fn bind(&mut self, id: ReceiveId, total: u64) -> Option<Listed> {
        let receive = self.receives.get_mut(&id)?;
        let slot = Listed {
            receive: id,
            offset: receive.used,
            room: receive.buffer.length().saturating_sub(receive.used),
        };
        receive.open += 1;
        receive.used = receive.used.saturating_add(slot.room.min(total));
        let free = slot.room.saturating_sub(total);
        if receive.buffer.least().is_none_or(|least| free < least) {
            self.fill_up(id);
        }
        Some(slot)
    }

    /// Completes the part of a receive that one message has.
    fn complete(&mut self, slot: Listed, result: Result<Matched, Unmatched>) {
        let Some(receive) = self.receives.get_mut(&slot.receive) else {
            return;
        };
        receive.open = receive.open.saturating_sub(1);
        let released = receive.open == 0 && receive.is_full;
        let wanted = !receive.is_abandoned;
        if released {
            self.receives.remove(&slot.receive);
        }
        if wanted {
            self.done.push(Completion {
                receive: slot.receive,
                result,
                released,
            });
        }
    }

    /// Fails the receives that wait for messages of one node alone.
    fn fail_directed(&mut self, node: NodeId, reason: EndReason) {
        let directed = self.receives.iter().filter_map(|(id, receive)| {
            let is_directed = receive.is_listed && receive.pattern.from == Some(node);
            is_directed.then_some(*id)
        });
        let mut directed: Vec<_> = directed.collect();
        directed.sort_unstable();
        for id in directed {
            // Those with a message on its way are complete with that.
            if self.cancel(id) {
                self.done.push(Completion {
                    receive: id,
                    result: Err(Unmatched { node, reason }),
                    released: true,
                });
            }
        }
    }

    // ---- inside: messages

    fn find(&mut self, pattern: &Pattern) -> Option<MessageId> {
        let free = |(id, one): (&MessageId, &'_ Untaken)| {
            let is_free = matches!(one.owner, Owner::Nobody);
            is_free.then(|| (id.0, one.description.envelope()))
        };
        let all = self.unexpected.iter().filter_map(free);
        self.index.first(pattern, all).map(MessageId)
    }

    /// A complete message came.
    fn arrive(&mut self, from: Source, message: Message) {
        let place = Landing {
            from,
            channel: message.channel,
            number: message.number,
        };
        let total = message.payload.received();
        match self.coming.remove(&place) {
            Some(Coming::Placed {
                slot, description, ..
            }) => self.finish(slot, description, total, &message.payload),
            Some(Coming::Untaken(id)) => self.fill(id, message.payload),
            // It was on its way to a receive that failed meanwhile.
            None if message.payload.placed().is_some() => {}
            None => {
                let description = Arriving {
                    place,
                    tag: message.tag,
                    kind: message.kind,
                    user_header: message.user_header,
                };
                let receive = self.posted.first(&description.envelope());
                match receive.and_then(|receive| self.bind(ReceiveId(receive), total)) {
                    Some(slot) => self.finish(slot, description, total, &message.payload),
                    None => _ = self.keep(description, total, Some(message.payload)),
                }
            }
        }
    }

    /// Completes a receive with a complete message.
    fn finish(&mut self, slot: Listed, description: Arriving, total: u64, payload: &Data) {
        if payload.placed().is_none()
            && let Some(receive) = self.receives.get(&slot.receive)
        {
            let fitting = usize::try_from(slot.room).unwrap_or(usize::MAX);
            let bytes = payload.get(..fitting).unwrap_or(payload);
            receive.buffer.write(slot.offset, bytes);
        }
        let Arriving {
            place,
            tag,
            kind,
            user_header,
        } = description;
        let matched = Matched {
            from: place.from,
            channel: place.channel,
            number: place.number,
            tag,
            kind,
            user_header,
            offset: slot.offset,
            length: slot.room.min(total),
            total,
        };
        self.complete(slot, Ok(matched));
    }

    /// The bytes of a message came that were to be kept.
    fn fill(&mut self, id: MessageId, payload: Data) {
        let Some(message) = self.unexpected.get_mut(&id) else {
            return;
        };
        match message.owner {
            Owner::Receive(slot) => {
                let total = message.total;
                if let Some(message) = self.forget(id) {
                    self.finish(slot, message.description, total, &payload);
                }
            }
            Owner::Nobody | Owner::Program => {
                message.data = Some(kept(payload));
                self.parked.remove(&id);
                self.charge(id);
            }
        }
    }

    /// Keeps a message that no receive admits.
    fn keep(&mut self, description: Arriving, total: u64, payload: Option<Data>) -> MessageId {
        let id = MessageId(self.next_message);
        self.next_message = self.next_message.wrapping_add(1);
        self.index.insert(&description.envelope(), id.0);
        let is_complete = payload.is_some();
        let message = Untaken {
            description,
            total,
            data: payload.map(kept),
            charge: 0,
            owner: Owner::Nobody,
        };
        self.unexpected.insert(id, message);
        if is_complete {
            self.charge(id);
        }
        id
    }

    /// Has the bytes of an announced message come into the engine's memory, if there is room for
    /// it. What comes without announcement counts in the engine's memory until it is complete.
    pub(super) fn pull(&mut self, id: MessageId) {
        let Some(message) = self.unexpected.get(&id) else {
            return;
        };
        let place = message.description.place;
        let charge = charge_of(message);
        if !self.has_room(place.from.node, charge) {
            self.parked.insert(id);
            return;
        }
        self.parked.remove(&id);
        self.charge(id);
        self.decisions.push_back((place, id));
    }

    /// Gives a message to a receive. One that is not complete counts no more: the layer will not
    /// keep it.
    fn take(&mut self, id: MessageId, receive: ReceiveId) {
        let total = self.unexpected.get(&id).map(|message| message.total);
        let Some((total, slot)) = total.and_then(|total| Some((total, self.bind(receive, total)?)))
        else {
            return;
        };
        self.own(id, Owner::Receive(slot));
        match self.unexpected.get_mut(&id) {
            Some(message) if message.data.is_none() => {
                let place = message.description.place;
                let charge = core::mem::take(&mut message.charge);
                self.parked.remove(&id);
                self.decisions.push_back((place, id));
                self.refund(place.from.node, charge);
            }
            _ => {
                if let Some(message) = self.forget(id) {
                    let payload = message.data.unwrap_or_default();
                    self.finish(slot, message.description, total, &payload);
                }
            }
        }
    }

    /// Changes who may take a message.
    fn own(&mut self, id: MessageId, owner: Owner) {
        if let Some(message) = self.unexpected.get_mut(&id) {
            if matches!(message.owner, Owner::Nobody) {
                self.index.remove(&message.description.envelope(), id.0);
            }
            message.owner = owner;
        }
    }

    /// Removes a message, and frees its memory.
    fn forget(&mut self, id: MessageId) -> Option<Untaken> {
        self.own(id, Owner::Program);
        self.parked.remove(&id);
        let message = self.unexpected.remove(&id)?;
        self.refund(message.description.place.from.node, message.charge);
        Some(message)
    }

    /// The session is over: its incomplete messages never become complete.
    fn end(&mut self, from: Source, reason: EndReason) {
        self.decisions.retain(|(place, _)| place.from != from);
        self.fail_coming(from.node, reason, |session| session == from.session);
        let left = self.coming.iter().filter(|(place, _)| place.from == from);
        let left: Vec<Landing> = left.map(|(place, _)| *place).collect();
        for place in left {
            if let Some(Coming::Untaken(id)) = self.coming.remove(&place) {
                self.forget(id);
            }
        }
        self.fail_directed(from.node, reason);
    }

    /// Fails the receives that messages of some sessions of a node are on their way to.
    fn fail_coming(&mut self, node: NodeId, reason: EndReason, of: impl Fn(SessionNumber) -> bool) {
        let from_node = self.coming.keys().copied();
        let from_node = from_node.filter(|place| place.from.node == node && of(place.from.session));
        for place in from_node.collect::<Vec<_>>() {
            let slot = match self.coming.get(&place) {
                Some(Coming::Placed { slot, is_over, .. }) => {
                    is_over.store(true, Ordering::Relaxed);
                    *slot
                }
                Some(Coming::Untaken(id)) => {
                    let (id, message) = (*id, self.unexpected.get(id));
                    let Some(Owner::Receive(slot)) = message.map(|message| message.owner) else {
                        continue;
                    };
                    self.forget(id);
                    slot
                }
                None => continue,
            };
            self.coming.remove(&place);
            self.complete(slot, Err(Unmatched { node, reason }));
        }
    }
}

#[cfg(test)]
impl Matching {
    /// Returns where a claimed message came from.
    pub(super) fn claimed(&self, id: MessageId) -> Option<(Source, ChannelId, MessageNumber)> {
        let message = self.unexpected.get(&id)?;
        let place = message.description.place;
        matches!(message.owner, Owner::Program).then_some((place.from, place.channel, place.number))
    }
}

/// Returns the payload in memory that it shares with no other.
fn kept(payload: Data) -> Data {
    match payload.len() {
        len if len > INLINE && len <= SHARES_MEMORY => Data::from(Bytes::copy_from_slice(&payload)),
        _ => payload,
    }
}
