//! The sending half of a session: a bounded queue per channel, and a scheduler that serves channels
//! by their priorities.
//!
//! Polling: call [`Outbox::has_sendable`] and [`Outbox::next`] while packets are built, then
//! [`Outbox::poll_channel_blocked`] and [`Outbox::poll_completion`] until empty.

mod announcing;
mod cancel;
mod cold;
mod fate;
mod finish;
mod permission;
mod pieces;
mod priorities;
mod push;

pub use push::NoRoom;

use super::cold::ColdChannels;
use super::finished::Finished;
use super::outgoing::{Block, ColdOutgoing, OutgoingChannel, Status};
use super::segment::Filling;
use super::send_queue::SendBufferCaches;
use super::sizes::to_usize;
use super::{ByClass, Completion, Held, Queued, SentFrame, WantedRoom};
use crate::scheduler::{CLASSES, Priority, Scheduler};
use crate::waits::WaitReason;
use bytes::Bytes;
use core::ops::Range;
use slab::Slab;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use suci_link::limits::MIN_CHANNELS;
use suci_link::time::Instant;
use suci_link::types::{ChannelId, Layers, MessageNumber, ProtocolError};

/// The bounds of an [`Outbox`].
#[derive(Clone, Copy, Debug)]
pub struct OutboxLimits {
    /// Messages longer than this many bytes are announced by RTS before their bytes are sent.
    pub rts_threshold: u64,
    /// Bound of the sizes ([`Held::charge`](super::Held)) of messages [`Queued`] on channels of one
    /// class. One longer message is accepted if the class has nothing else queued.
    pub max_queued_bytes: u64,
    /// Bound of messages on channels of one class that are unacknowledged, or behind an
    /// unacknowledged one.
    pub max_queued_messages: usize,
    /// Memory credit of each channel, and of the session, that every receiver grants before the
    /// handshake: the bytes that the INIT may carry.
    pub ride: u64,
    /// Memory credit of the session that only replies may use.
    pub reply_reserve: u64,
    /// Memory credit of the session that only messages of groups, and replies, may use.
    pub group_reserve: u64,
}

/// One piece of a packet's content.
#[derive(Clone, Debug)]
pub struct Put<'a> {
    /// The frame to report once the packet is acknowledged or lost.
    pub sent: SentFrame,
    /// Bytes of payload.
    pub payload: u64,
    /// True if these bytes were sent before.
    pub resent: bool,
    /// True if the packet has no room for the next frame, nor for a part of it.
    pub full: bool,
    /// True if the last frame reaches to the packet's end, so that no frame may follow.
    pub closed: bool,
    /// A payload and the range of its bytes that follow the frame header. They are sent from where
    /// they are, without a copy, and count in `payload`.
    pub reference: Option<(&'a Bytes, Range<usize>)>,
}

/// Parameters of the handshake that the peer announced.
#[derive(Clone, Copy, Debug)]
struct PeerParams {
    /// The memory credit that every channel starts with.
    window: u64,
    /// The layers that this node may use.
    permitted: Layers,
    /// The others of which the program knows that.
    denied: Layers,
}

impl Default for PeerParams {
    fn default() -> Self {
        Self {
            window: 0,
            permitted: Layers::ALL,
            denied: Layers::NONE,
        }
    }
}

/// Channels of the program beyond [`MIN_CHANNELS`] that were opened before the peer announced how
/// many it permits. They are not scheduled.
#[derive(Debug, Default)]
struct EarlyChannels {
    /// The number of channels that were opened before each of them.
    ordinals: BTreeMap<ChannelId, u64>,
}

/// The sending half of a session.
#[derive(Debug)]
pub struct Outbox {
    limits: OutboxLimits,
    /// Channels with full state: all that have something to do, and some idle ones.
    channels: Slab<OutgoingChannel>,
    by_id: BTreeMap<ChannelId, usize>,
    /// The channel used last, since most calls are about it.
    recent: Option<(ChannelId, usize)>,
    /// Open channels that are idle and of which only a few numbers are kept.
    cold: ColdChannels<ColdOutgoing>,
    /// A position above those of all messages of cold channels. A restored channel begins here: a
    /// packet that was declared lost may still be acknowledged, and must not name new bytes.
    cold_end: u64,
    finished: Finished,
    /// Channels whose FIN must be sent.
    fins: VecDeque<ChannelId>,
    /// The number of channels that were ever opened.
    opened: u64,
    /// The number of channels that the peer lets this side open in all: [`MIN_CHANNELS`] until it
    /// announces it.
    max_channels: u64,
    /// The peer announced that number.
    channels_announced: bool,
    /// Channels that were opened before that. Few peers ever have one.
    early: Option<Box<EarlyChannels>>,
    /// Channels that may have something to send.
    scheduler: Scheduler,
    /// Priorities that the program set, also for channels that are not open.
    priorities: BTreeMap<ChannelId, Priority>,
    /// The number of open channels of each class.
    open_by_class: [u32; CLASSES],
    /// Channels that wait for session credit.
    session_parked: Vec<usize>,
    /// The number of channels that wait for their own credit, and of those that wait for an answer.
    channel_parked: usize,
    answer_parked: usize,
    /// Channels that wait for their own credit and must be reported to the peer.
    to_report: VecDeque<usize>,
    /// Messages above this length are announced, whatever our own threshold is, since the peer asks
    /// its program about them.
    peer_max_message: u64,
    /// Over the present path, messages up to this length need no RTS, whatever our own threshold
    /// is.
    unannounced: u64,
    /// The memory credit that every channel starts with, but for those of groups
    /// ([`ChannelId::window`]).
    channel_limit: u64,
    /// Parameters of the peer, once the handshake announced them.
    peer_params: Option<PeerParams>,
    /// The memory credit of the session: granted, and used.
    session_limit: u64,
    session_used: u64,
    /// The messages that count against the bounds of the queue.
    queued: ByClass,
    /// The part of the programs' messages that is acknowledged or refused: [`Queued::over`].
    over: Held,
    /// The number of messages accepted in this session.
    accepted: u64,
    /// Void messages that the peer has not acknowledged. They do not count in the queue.
    voids: u64,
    /// Unsent messages with a deadline, by that time.
    deadlines: BTreeSet<(Instant, ChannelId, MessageNumber)>,
    completions: VecDeque<Completion>,
    wanted: WantedRoom,
    caches: SendBufferCaches,
}

impl Outbox {
    /// Returns an empty outbox. Until the handshake sets the peer's limits, only `limits.ride` may
    /// be used.
    #[must_use]
    pub fn new(limits: OutboxLimits) -> Self {
        Self {
            limits,
            channels: Slab::new(),
            by_id: BTreeMap::new(),
            recent: None,
            cold: ColdChannels::default(),
            cold_end: 0,
            finished: Finished::default(),
            fins: VecDeque::new(),
            opened: 0,
            max_channels: MIN_CHANNELS,
            channels_announced: false,
            early: None,
            scheduler: Scheduler::default(),
            priorities: BTreeMap::new(),
            open_by_class: [0; CLASSES],
            session_parked: Vec::new(),
            channel_parked: 0,
            answer_parked: 0,
            to_report: VecDeque::new(),
            peer_max_message: u64::MAX,
            unannounced: 0,
            channel_limit: limits.ride,
            peer_params: None,
            session_limit: limits.ride,
            session_used: 0,
            queued: ByClass::default(),
            over: Held::default(),
            accepted: 0,
            voids: 0,
            deadlines: BTreeSet::new(),
            completions: VecDeque::new(),
            wanted: WantedRoom::default(),
            caches: SendBufferCaches::default(),
        }
    }

    // ---- verbs

    /// Plants the fault `resume-forgets-channel`: a channel is never scheduled again.
    #[cfg(suci_plant)]
    pub fn plant_forgotten_channel(&mut self) {
        self.scheduler.plant_forgotten();
    }

    /// Ends the session. Returns exactly one outcome for every outstanding message, by channel and
    /// number, whether the program asked for it or not. Completions that were not polled stay.
    pub fn end(&mut self) -> Vec<Completion> {
        let mut outcomes = Vec::with_capacity(to_usize(self.queued().open().messages));
        for index in self.by_id.values() {
            if let Some(channel) = self.channels.get_mut(*index) {
                channel.end_all(&mut outcomes);
                channel.wait.parked = None;
            }
        }
        self.session_parked.clear();
        (self.channel_parked, self.answer_parked) = (0, 0);
        self.queued = ByClass::default();
        self.over = Held::default();
        self.voids = 0;
        self.deadlines.clear();
        outcomes
    }

    // ---- what the peer says

    /// Sets the memory credit that every channel starts with, from the handshake. Never lowers it.
    pub fn set_initial_channel_limit(&mut self, limit: u64) {
        let params = self.peer_params.get_or_insert_default();
        params.window = params.window.max(limit);
        self.channel_limit = self.channel_limit.max(limit);
        let channels: Vec<_> = self.by_id.iter().map(|(id, at)| (*id, *at)).collect();
        channels
            .into_iter()
            .for_each(|(id, index)| self.raise(index, id.window(limit)));
        for (id, cold) in self.cold.iter_mut() {
            cold.raise_limit(id.window(limit));
        }
    }

    /// Handles MAX_CHANNEL: the channel may use credit up to `limit`. Never lowers it. An unknown
    /// channel needs no credit.
    pub fn set_channel_limit(&mut self, channel: ChannelId, limit: u64) {
        if let Some(cold) = self.cold.get_mut(channel) {
            cold.raise_limit(limit);
        } else if let Some(index) = self.find(channel) {
            self.raise(index, limit);
        }
    }

    /// Sets the session's memory credit to `limit`. Never lowers it.
    pub fn set_session_limit(&mut self, limit: u64) {
        if limit <= self.session_limit {
            return;
        }
        self.session_limit = limit;
        for index in core::mem::take(&mut self.session_parked) {
            if let Some(channel) = self.channels.get_mut(index) {
                channel.wait.parked = None;
            }
            self.activate(index);
        }
    }

    /// Handles CTS: the receiver permits an announced message. Repetitions are ignored.
    ///
    /// # Errors
    /// `OutOfPlace` for a message that was never announced.
    pub fn on_cts(
        &mut self,
        channel: ChannelId,
        message: MessageNumber,
    ) -> Result<(), ProtocolError> {
        let Some(index) = self.known(channel)? else {
            return Ok(());
        };
        if let Some(channel) = self.channels.get_mut(index)
            && channel.granted(message)?
        {
            self.activate(index);
        }
        self.cool_down(index);
        Ok(())
    }

    /// Handles REFUSE: the receiver refuses an announced message. Repetitions are ignored.
    ///
    /// # Errors
    /// `OutOfPlace` for a message that was never announced.
    pub fn on_refused(
        &mut self,
        channel: ChannelId,
        message: MessageNumber,
        reason: u64,
    ) -> Result<(), ProtocolError> {
        let Some(index) = self.known(channel)? else {
            return Ok(());
        };
        if let Some(channel) = self.channels.get_mut(index) {
            let released = channel.refused(message, reason, &mut self.completions)?;
            self.activate(index);
            self.release(index, released);
        }
        Ok(())
    }

    // ---- polls

    /// Returns true if [`next`](Self::next) would put something into an empty packet. Updates which
    /// channels are blocked.
    #[inline]
    pub fn has_sendable(&mut self) -> bool {
        !self.scheduler.is_empty() && self.find_ready().is_some()
    }

    /// Returns true if all that waits fits a packet with `room` bytes for messages: only one
    /// channel has something to send, and none of it was lost.
    #[must_use]
    pub fn fits(&self, room: usize) -> bool {
        let only = self.scheduler.only();
        let only = only.and_then(|index| self.channels.get(index));
        only.is_some_and(|channel| channel.unsent().is_some_and(|bytes| bytes <= room as u64))
    }

    /// Returns the next scheduled channel that has something for an empty packet.
    fn find_ready(&mut self) -> Option<usize> {
        let limits = self.send_limits();
        while let Some(index) = self.scheduler.front() {
            let status = self
                .channels
                .get(index)
                .map_or(Status::Idle, |c| c.status(limits));
            if status == Status::Ready {
                return Some(index);
            }
            self.scheduler.drop_front();
            self.park(index, status);
            self.cool_down(index);
        }
        None
    }

    /// Appends the next piece to `out`, a packet with `room` bytes left. Lost bytes go before new
    /// ones. Returns `None` if nothing fits; the caller then closes the packet.
    ///
    /// The piece counts as sent. If the packet is not sent, report the piece as lost.
    pub fn next(&mut self, room: usize, out: &mut Vec<u8>) -> Option<Put<'_>> {
        let mut index = self.scheduler.front()?;
        let mut filling = Filling::new(room);
        if !self.fill(index, &mut filling, out) {
            let ready = self.find_ready()?;
            // The channel is ready, so its next piece does not fit.
            if ready == index {
                return None;
            }
            (index, filling) = (ready, Filling::new(room));
            if !self.fill(index, &mut filling, out) {
                return None;
            }
        }
        let queued = self.channels.get(index)?;
        let channel = queued.id();
        let gathered = |(number, range)| Some((queued.queue.gathered(number)?, range));
        Some(Put {
            sent: match filling.rts {
                Some(message) => SentFrame::Rts { channel, message },
                None => SentFrame::Data {
                    channel,
                    start: filling.start,
                    end: filling.end,
                },
            },
            payload: filling.payload,
            resent: filling.resent,
            full: filling.full,
            closed: filling.closed,
            reference: filling.reference.and_then(gathered),
        })
    }

    /// Appends the next piece of the scheduled channel at `index`.
    fn fill(&mut self, index: usize, filling: &mut Filling, out: &mut Vec<u8>) -> bool {
        let limits = self.send_limits();
        filling.left_in_round = usize::try_from(self.scheduler.left(index)).unwrap_or(0);
        let Some(channel) = self.channels.get_mut(index) else {
            return false;
        };
        channel.fill(limits, filling, out);
        if filling.bytes == 0 {
            return false;
        }
        self.session_used = self.session_used.saturating_add(filling.charged);
        if let Some((at, number)) = filling.deadline {
            self.deadlines.remove(&(at, channel.id(), number));
        }
        if channel.has_sent_all() {
            self.scheduler.finish_front(filling.bytes);
            self.park(index, Status::Idle);
        } else {
            self.scheduler.charge(filling.bytes);
        }
        true
    }

    /// Returns true if [`poll_channel_blocked`](Self::poll_channel_blocked) may return a channel.
    #[must_use]
    pub fn has_blocked_channels(&self) -> bool {
        !self.to_report.is_empty()
    }

    /// Returns a channel to report in CHANNEL_BLOCKED, and its limit: once each time that the limit
    /// is used up, and again if the report is lost.
    pub fn poll_channel_blocked(&mut self) -> Option<(ChannelId, u64)> {
        while let Some(index) = self.to_report.pop_front() {
            let Some(channel) = self.channels.get_mut(index) else {
                continue;
            };
            channel.wait.to_report = false;
            if channel.wait.parked == Some(Block::ChannelCredit) {
                return Some((channel.id(), channel.limit()));
            }
        }
        None
    }

    /// Returns the completion of a message, in order per channel: of messages whose program asked
    /// for it, and of refused ones.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    // ---- questions

    /// Returns the session limit at which messages wait, for BLOCKED. Exact after
    /// [`has_sendable`](Self::has_sendable) returned false.
    #[must_use]
    pub fn blocked_by_session(&self) -> Option<u64> {
        (!self.session_parked.is_empty()).then_some(self.session_limit)
    }

    /// Returns the reason why messages wait, if they wait for anything but packets. Exact after
    /// [`has_sendable`](Self::has_sendable) returned false.
    #[must_use]
    pub fn wait_reason(&self) -> Option<WaitReason> {
        if !self.session_parked.is_empty() {
            Some(WaitReason::SessionMemory)
        } else if self.channel_parked > 0 {
            Some(WaitReason::ChannelMemory)
        } else {
            (self.answer_parked > 0).then_some(WaitReason::Answer)
        }
    }

    /// Returns the messages of this channel not yet acknowledged or refused.
    #[cfg(test)]
    pub fn queue_len(&self, channel: ChannelId) -> usize {
        self.get(channel).map_or(0, |channel| channel.queue.open())
    }

    /// Returns the content of the queue.
    #[must_use]
    pub fn queued(&self) -> Queued {
        Queued {
            all: self.queued.all(),
            over: self.over,
        }
    }

    /// Returns the content of the queue by class.
    #[must_use]
    pub fn queued_by_class(&self) -> ByClass {
        self.queued
    }

    /// Returns true if every message was acknowledged or refused, and every void message
    /// acknowledged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queued.is_empty() && self.voids == 0
    }

    /// Returns true if no message waits for its outcome: cancelled ones may not be acknowledged.
    #[must_use]
    pub fn has_voids_only(&self) -> bool {
        self.queued.is_empty()
    }

    /// Returns the messages accepted in this session, on all channels; cancelled ones do not count.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Returns the number of messages at the front of this channel that are all acknowledged,
    /// refused or cancelled.
    #[must_use]
    pub fn delivered(&self, channel: ChannelId) -> u64 {
        let cold = || self.cold.get(channel).map_or(0, ColdOutgoing::number);
        let channel = self.get(channel);
        channel.map_or_else(cold, OutgoingChannel::delivered)
    }

    /// Returns the number of messages on this channel that are neither acknowledged nor refused,
    /// and of those between them.
    #[must_use]
    pub fn open_on(&self, channel: ChannelId) -> u64 {
        self.get(channel).map_or(0, OutgoingChannel::open)
    }

    /// Returns the messages in the queue that no program sends.
    #[must_use]
    pub fn open_internal(&self) -> u64 {
        self.queued.get(ByClass::INTERNAL).messages
    }

    /// Returns the messages on the channels of sockets in the queue. Looks at each channel of a
    /// layer.
    #[must_use]
    pub fn open_of_sockets(&self) -> u64 {
        let layers = self.by_id.range(ChannelId::MEMBERSHIP..);
        let sockets = layers.filter(|(id, _)| id.carries_sockets());
        let open = sockets.filter_map(|(_, index)| Some(self.channels.get(*index)?.open()));
        open.sum()
    }

    /// Returns true if the next message is of a lower class than an open channel, which may want to
    /// send at any time and should find room.
    #[must_use]
    pub fn is_outranked(&self) -> bool {
        self.scheduler
            .front_class()
            .is_some_and(|class| self.has_class_above(class))
    }

    /// Returns the memory credit that is left for a message on `channel`, in bytes as messages are
    /// charged.
    #[must_use]
    pub fn room(&self, channel: ChannelId) -> u64 {
        let session = self.send_limits().room_on(channel);
        let cold = || self.cold.get(channel).map(ColdOutgoing::room);
        let room = self.get(channel).map(OutgoingChannel::room).or_else(cold);
        room.unwrap_or_else(|| channel.window(self.channel_limit))
            .min(session)
    }

    /// Returns the memory credit used and granted in this session.
    #[must_use]
    pub fn session_credit(&self) -> (u64, u64) {
        (self.session_used, self.session_limit)
    }

    // ---- inside

    #[inline]
    fn find(&mut self, channel: ChannelId) -> Option<usize> {
        match self.recent {
            Some((id, index)) if id == channel => Some(index),
            _ => self.look_up(channel),
        }
    }

    #[inline(never)]
    fn look_up(&mut self, channel: ChannelId) -> Option<usize> {
        let index = match self.by_id.get(&channel) {
            Some(index) => *index,
            None => self.restore(channel)?,
        };
        self.recent = Some((channel, index));
        Some(index)
    }

    fn get(&self, channel: ChannelId) -> Option<&OutgoingChannel> {
        self.channels.get(*self.by_id.get(&channel)?)
    }

    /// Returns the index of a channel that an answer of the peer names. Returns `None` if it is
    /// finished: the answer was a repetition.
    fn known(&mut self, channel: ChannelId) -> Result<Option<usize>, ProtocolError> {
        let index = self.find(channel);
        if index.is_none() && !self.finished.contains(channel) {
            return Err(ProtocolError::OutOfPlace(
                "an answer on a channel never used",
            ));
        }
        Ok(index)
    }

    fn raise(&mut self, index: usize, limit: u64) {
        if let Some(channel) = self.channels.get_mut(index)
            && channel.raise_limit(limit)
            && channel.wait.parked == Some(Block::ChannelCredit)
        {
            channel.wait.parked = None;
            self.channel_parked = self.channel_parked.saturating_sub(1);
            self.activate(index);
        }
    }

    /// Adds the channel to the scheduler, since its state changed.
    #[inline]
    fn activate(&mut self, index: usize) {
        // Usually the peer has announced how many channels it permits.
        if self.early.is_none() || !self.is_early(index) {
            self.scheduler.add(index);
        }
    }

    /// Notes why the channel left the scheduler.
    fn park(&mut self, index: usize, status: Status) {
        let Some(channel) = self.channels.get_mut(index) else {
            return;
        };
        let block = match status {
            Status::Blocked(block) => Some(block),
            Status::Ready | Status::Idle => None,
        };
        let before = core::mem::replace(&mut channel.wait.parked, block);
        if before == Some(Block::SessionCredit) && block != before {
            self.session_parked.retain(|parked| *parked != index);
        }
        if before == block {
            return;
        }
        match before {
            Some(Block::ChannelCredit) => {
                self.channel_parked = self.channel_parked.saturating_sub(1)
            }
            Some(Block::RtsAnswer) => self.answer_parked = self.answer_parked.saturating_sub(1),
            Some(Block::SessionCredit) | None => {}
        }
        match block {
            Some(Block::SessionCredit) => self.session_parked.push(index),
            Some(Block::ChannelCredit) => {
                self.channel_parked = self.channel_parked.saturating_add(1);
                self.report(index);
            }
            Some(Block::RtsAnswer) => self.answer_parked = self.answer_parked.saturating_add(1),
            None => {}
        }
    }

    fn report(&mut self, index: usize) {
        if let Some(channel) = self.channels.get_mut(index)
            && channel.wait.parked == Some(Block::ChannelCredit)
            && !channel.wait.to_report
        {
            channel.wait.to_report = true;
            self.to_report.push_back(index);
        }
    }
}

#[cfg(test)]
impl Outbox {
    /// Returns the bytes of frames that are kept for messages not yet acknowledged.
    pub(super) fn frames_held(&self) -> usize {
        self.channels
            .iter()
            .map(|(_, c)| c.queue.frames_held())
            .sum()
    }
}
