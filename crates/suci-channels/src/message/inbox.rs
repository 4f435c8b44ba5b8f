//! The receiving half of a session: reassembles messages, in order per channel, within memory
//! credit.
//!
//! Polling: after each batch of frames, call [`Inbox::poll_incoming`], [`Inbox::pop`] and
//! [`Inbox::poll_answer`] until empty. Read the session credit with [`Inbox::session_limit`]
//! whenever a packet carries a CREDIT body.
//!
//! **Large messages** (RTS) are not charged with their length. They are permitted one after the
//! other as their budget allows, in the order of their RTS over all channels. So none starves,
//! and one is always in progress if any fits at all. A waiting RTS delays only the later
//! messages of its own channel (F22).

mod cold;
mod contiguous;
mod finish;
mod idle;
mod large;
mod take;

use super::SentFrame;
use super::answer::{Answer, IncomingInfo};
use super::assembly::budgeted;
use super::cold::ColdChannels;
use super::finished::Finished;
use super::incoming::{
    Accounts, Announcement, AnnouncementState, ColdIncoming, Freed, IncomingChannel, RtsOrder,
    planted_consumption,
};
use super::packed_queue::PackedQueueCache;
use super::placement::{PlacedBy, Places};
use super::pool::{Chunk, Pool};
use super::slot::SlotCache;
use crate::port::{PORTS, Port, Ports};
use crate::scheduler::{Priority, Scheduler};
use slab::Slab;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use suci_link::limits::{REPLY_RESERVE, RESERVES};
use suci_link::types::{ChannelId, Layer, Layers, ProtocolError, SessionNumber, Source};
use suci_link::wire::{self, Frag, FrameBatch, PacketPart, Rts};

/// Smallest memory window of a session, in bytes. Each channel has half of it. It has room for
/// messages that cannot be announced (see [`Outbox`](super::Outbox)), however small the session's
/// part of the memory is.
pub const MIN_WINDOW: u64 = 16_384;

const _: () = assert!(
    MIN_WINDOW / 2 >= REPLY_RESERVE && MIN_WINDOW / 2 + RESERVES <= MIN_WINDOW,
    "a channel has all of its half, and room for the longest message without RTS"
);

const _: () = assert!(
    MIN_WINDOW - RESERVES - REPLY_RESERVE >= MIN_WINDOW / 4,
    "a sender that waits used so much that the limit is told when its messages are taken"
);

/// The bounds of an [`Inbox`].
#[derive(Clone, Copy, Debug)]
pub struct InboxLimits {
    /// Memory credit of each channel, in bytes. Zero until [`Inbox::set_windows`] sets it.
    pub channel_window: u64,
    /// Memory credit of the session, in bytes. Zero until [`Inbox::set_windows`] sets it.
    pub session_window: u64,
    /// Longest message accepted without asking the program, in bytes.
    pub max_message: u64,
    /// Bound of channels that the peer has open plus ranges of finished channel numbers, until
    /// [`Inbox::set_max_channels`] raises it.
    pub max_channels: u64,
    /// Bytes of large messages held at once. Also the longest message that is received into our own
    /// memory.
    pub max_large: u64,
}

/// The receiving half of a session.
#[derive(Debug)]
pub struct Inbox {
    /// As in [`InboxLimits`].
    max_message: u64,
    max_large: u64,
    /// Memory credit that every channel starts with, but for those of groups
    /// ([`ChannelId::window`]).
    first_limit: u64,
    /// The present window of each channel, but for those of groups.
    each_window: u64,
    session_window: u64,
    /// The present budget of large messages.
    large_budget: u64,
    accounts: Accounts,
    /// Messages that the program received or refused.
    decided: u64,
    /// Channels with full state: all that have something to do, and some idle ones.
    channels: Slab<IncomingChannel>,
    by_id: BTreeMap<ChannelId, usize>,
    /// Open channels that are idle and of which only a few numbers are kept.
    cold: ColdChannels<ColdIncoming>,
    /// The newest RTS of each cold channel, if the program refused it.
    refusals: BTreeMap<ChannelId, Announcement>,
    /// The layers that the peer may use.
    permitted: Layers,
    /// Where messages of layers wait.
    ports: Ports,
    /// Channels that the peer finished and whose messages the program took.
    finished: Finished,
    /// Channels in `finished` whose end was not reported to the program yet.
    unreported: Finished,
    /// The number of channels that the peer ever opened.
    opened: u64,
    /// The bound of open channels.
    max_channels: u64,
    /// The number of channels that the newest MAX_CHANNELS lets the peer open in all.
    channels_announced: u64,
    /// True if the packet with the newest MAX_CHANNELS was lost.
    channels_lost: bool,
    /// The channel used last, since most frames belong to it.
    recent: Option<(ChannelId, usize)>,
    /// Channels with a message that the program can take. Each channel is served one message at a
    /// time.
    ready: Scheduler,
    /// Reply channels with a complete reply, in order.
    replies: VecDeque<usize>,
    /// Messages of other layers. Few programs use these, so there is nothing until a message comes.
    for_layers: Option<Box<ForLayers>>,
    /// The session's limit that the peer named in its last BLOCKED.
    blocked_at: Option<u64>,
    /// A message that may use a reserve was taken since the session's limit was last announced.
    took_reserved: bool,
    /// Priorities that the program set, also for channels that are not open.
    priorities: BTreeMap<ChannelId, Priority>,
    /// Channels whose RTS waits for the budget of large messages, in order.
    waiting: VecDeque<usize>,
    /// Channels whose CTS or REFUSE must be sent.
    answers: VecDeque<ChannelId>,
    /// Channels whose MAX_CHANNEL must be sent.
    updates: VecDeque<ChannelId>,
    /// Messages about which the program must decide, and was not asked yet.
    incoming: VecDeque<IncomingInfo>,
}

/// Channels of layers with a complete message.
#[derive(Debug, Default)]
struct ForLayers {
    /// Those of groups.
    groups: BTreeSet<ChannelId>,
    /// Those of each [`Port`], in order.
    by_port: [VecDeque<ChannelId>; PORTS],
    /// The channel of the last message about one-sided operations. The layer is asked about the
    /// message that is announced there once it has handled that one.
    handled: Option<ChannelId>,
}

impl Inbox {
    /// Returns an empty inbox.
    #[must_use]
    pub fn new(limits: InboxLimits, pool: Pool) -> Self {
        Self {
            max_message: limits.max_message,
            max_large: limits.max_large,
            first_limit: limits.channel_window,
            each_window: limits.channel_window,
            session_window: limits.session_window,
            large_budget: limits.max_large,
            accounts: Accounts {
                charged: 0,
                taken: 0,
                session_limit: limits.session_window,
                large: 0,
                complete: 0,
                unfinished: 0,
                unfinished_bytes: 0,
                places: Places::default(),
                pool,
                chunk: Chunk::default(),
                blank: None,
                slot_cache: SlotCache::default(),
                packed_queue_cache: PackedQueueCache::default(),
            },
            decided: 0,
            channels: Slab::new(),
            by_id: BTreeMap::new(),
            recent: None,
            cold: ColdChannels::default(),
            refusals: BTreeMap::new(),
            permitted: Layers::ALL,
            ports: Ports::default(),
            finished: Finished::default(),
            unreported: Finished::default(),
            opened: 0,
            max_channels: limits.max_channels,
            channels_announced: limits.max_channels,
            channels_lost: false,
            ready: Scheduler::default(),
            replies: VecDeque::new(),
            for_layers: None,
            blocked_at: None,
            took_reserved: false,
            priorities: BTreeMap::new(),
            waiting: VecDeque::new(),
            answers: VecDeque::new(),
            updates: VecDeque::new(),
            incoming: VecDeque::new(),
        }
    }

    /// Has memory for messages from `from` named by `by`, and messages of layers wait at these
    /// ports. At others they go to the program.
    pub fn set_layers(&mut self, from: Source, by: PlacedBy, ports: Ports) {
        self.accounts.places = Places::new(from, by);
        self.ports = ports;
    }

    /// Sets the number of its session.
    pub fn set_session(&mut self, session: SessionNumber) {
        self.accounts.places.set_session(session);
    }

    /// Sets the layers that the peer may use, as it was told. They never become fewer.
    pub fn set_permitted(&mut self, layers: Layers) {
        self.permitted = layers;
    }

    /// Returns the layers that the peer may use.
    pub fn permitted(&self) -> Layers {
        self.permitted
    }

    /// Returns true if the peer may use this layer.
    pub fn permits(&self, layer: Layer) -> bool {
        self.permitted.permits(layer)
    }

    // ---- handlers

    /// Handles a part of a packet that carries messages.
    ///
    /// # Errors
    /// The peer broke a rule: its connection is to be closed. What was received before stays good.
    #[inline]
    pub fn on_part(&mut self, part: &PacketPart<'_>) -> Result<(), ProtocolError> {
        match part {
            PacketPart::FrameBatch(batch) => self.on_batch(batch),
            PacketPart::Frag(frag) => self.on_frag(frag),
        }
    }

    /// Handles a batch of frames, as [`on_frag`](Self::on_frag) handles its frames one by one.
    ///
    /// # Errors
    /// As [`on_frag`](Self::on_frag). Frames before the faulty one were handled.
    #[inline]
    pub fn on_batch(&mut self, batch: &FrameBatch<'_>) -> Result<(), ProtocolError> {
        let Some(index) = self.find_or_open(batch.channel())? else {
            return Ok(());
        };
        if let Some(channel) = self.channels.get_mut(index)
            && channel.on_batch(batch, &mut self.accounts)
        {
            self.list_ready(index);
            return Ok(());
        }
        let mut frames = wire::frames(batch.frames());
        while let Some(frag) = frames.next_frag() {
            self.on_frag(&frag?)?;
        }
        Ok(())
    }

    /// Handles a fragment. Duplicates and fragments of delivered messages are ignored.
    ///
    /// # Errors
    /// The peer broke a rule: its connection is to be closed. What was received before stays good.
    #[inline]
    pub fn on_frag(&mut self, frag: &Frag<'_>) -> Result<(), ProtocolError> {
        let Some(index) = self.find_or_open(frag.channel)? else {
            return Ok(());
        };
        let Some(channel) = self.channels.get_mut(index) else {
            return Ok(());
        };
        let freed = channel.on_frag(frag, &mut self.accounts)?;
        self.list_ready(index);
        if let Some(freed) = freed {
            // On a reply channel, a void message also frees credit for replies.
            self.took_reserved |= frag.channel.may_use_reserve();
            if self.is_handled(frag.channel) {
                self.judge_for_layer(index);
            }
            self.free(index, freed);
        }
        Ok(())
    }

    /// Handles an RTS. A repeated one that was answered is answered again.
    ///
    /// # Errors
    /// The peer broke a rule: its connection is to be closed.
    pub fn on_rts(&mut self, rts: &Rts<'_>) -> Result<(), ProtocolError> {
        let Some(index) = self.find_or_open(rts.channel)? else {
            return Ok(());
        };
        // For a group memory is given only once an operation asks for the message, for a handled
        // layer once the earlier messages of the channel were handled.
        let handled = self.is_handled(rts.channel);
        let waits = rts.channel.is_of_group() || handled;
        let welcome = self.is_short(rts.total) && !waits;
        let first = if welcome {
            AnnouncementState::Waiting
        } else {
            AnnouncementState::Undecided
        };
        let Some(channel) = self.channels.get_mut(index) else {
            return Ok(());
        };
        match channel.on_rts(rts, first, &mut self.accounts)? {
            RtsOrder::Stale => {}
            RtsOrder::Again => self.list_answer(index),
            RtsOrder::New if handled => self.judge_for_layer(index),
            RtsOrder::New if welcome => {
                self.waiting.push_back(index);
                self.grant_waiting();
            }
            RtsOrder::New => {
                if let Some(channel) = self.channels.get(index) {
                    self.incoming.push_back(channel.info(rts));
                }
            }
        }
        Ok(())
    }

    /// Handles BLOCKED: the peer waits at this limit of the session.
    pub fn on_blocked(&mut self, limit: u64) {
        self.blocked_at = Some(limit);
    }

    /// Handles CHANNEL_BLOCKED: the channel's limit is announced again, since the peer may not know
    /// it, and as soon as it rises.
    pub fn repeat_limit(&mut self, channel: ChannelId) {
        if let Some(index) = self.find(channel) {
            if let Some(channel) = self.channels.get_mut(index) {
                channel.on_blocked();
            }
            self.list_update(index);
        }
    }

    /// Handles the loss of a sent frame: schedules it again if it is still valid. Frames that are
    /// not the inbox's are ignored.
    pub fn on_lost(&mut self, frame: &SentFrame) {
        match *frame {
            SentFrame::Cts { channel, message } | SentFrame::Refuse { channel, message } => {
                let Some(index) = self.find(channel) else {
                    return;
                };
                if (self.channels.get(index)).is_some_and(|channel| channel.answered(message)) {
                    self.list_answer(index);
                }
                self.cool_down(index);
            }
            SentFrame::MaxChannel { channel } => {
                if let Some(index) = self.find(channel) {
                    self.list_update(index);
                }
            }
            SentFrame::MaxChannels => self.channels_lost = true,
            _ => {}
        }
    }

    // ---- polls

    /// Returns a large message that needs a decision: [`accept`](Self::accept) or
    /// [`refuse`](Self::refuse).
    pub fn poll_incoming(&mut self) -> Option<IncomingInfo> {
        self.incoming.pop_front()
    }

    /// Returns the next answer to send: answers to RTS, and a channel's credit once it moved by a
    /// quarter of the window or the peer asked for it. The caller reports an answer that is not
    /// sent as lost ([`on_lost`](Self::on_lost)).
    pub fn poll_answer(&mut self) -> Option<Answer> {
        while let Some(channel) = self.answers.pop_front() {
            let answer = self.take_answer(channel, |channel| {
                channel.listed.answer = false;
                channel.answer()
            });
            if answer.is_some() {
                return answer;
            }
        }
        if self.channels_due() {
            return Some(self.announce_channels());
        }
        while let Some(channel) = self.updates.pop_front() {
            let update = self.take_answer(channel, |channel| {
                channel.listed.update = false;
                Some(channel.announce())
            });
            if update.is_some() {
                return update;
            }
        }
        None
    }

    /// Returns true if [`poll_answer`](Self::poll_answer) returns an answer.
    #[must_use]
    pub fn has_answers(&self) -> bool {
        !self.answers.is_empty() || !self.updates.is_empty() || self.channels_due()
    }

    // ---- verbs

    /// Sets the priority with which a channel's messages are handed over. Only its class counts,
    /// not its weight.
    pub fn set_priority(&mut self, channel: ChannelId, priority: Priority) {
        self.priorities.insert(channel, priority);
        if let Some(&index) = self.by_id.get(&channel) {
            self.ready.set_priority(index, priority);
        }
    }

    /// Sets the priorities of all channels of a new session.
    pub fn set_priorities(&mut self, priorities: BTreeMap<ChannelId, Priority>) {
        self.priorities = priorities;
    }

    /// Sets the windows of each channel and of the session. Announced credit stays. The session
    /// should have at least [`MIN_WINDOW`] and a channel half of it; otherwise messages that cannot
    /// be announced may wait for ever.
    pub fn set_windows(&mut self, channel: u64, session: u64) {
        self.session_window = session;
        self.move_session_limit();
        self.each_window = channel;
        if self.first_limit == 0 {
            self.first_limit = channel;
        }
        let indices: Vec<usize> = self.by_id.values().copied().collect();
        for index in indices {
            if let Some(changed) = self.channels.get_mut(index) {
                changed.set_window(changed.id().window(channel));
                self.list_due_update(index);
            }
        }
    }

    /// Sets the budget of large messages, at most `max_large`. Granted messages stay granted.
    pub fn set_large_budget(&mut self, bytes: u64) {
        self.large_budget = bytes.min(self.max_large);
        self.grant_waiting();
    }

    // ---- questions

    /// Returns the absolute memory credit of the session. Never decreases.
    #[must_use]
    pub fn session_limit(&self) -> u64 {
        self.accounts.session_limit
    }

    /// Returns true if the session's limit should be announced. `told` is the newest announced one.
    /// It should if it moved by a quarter of the window, or if messages were taken that may use a
    /// reserve and the peer may have no other credit left.
    #[must_use]
    pub fn session_limit_due(&self, told: u64) -> bool {
        let moved = self.accounts.session_limit.saturating_sub(told);
        let left = told.saturating_sub(self.accounts.charged);
        let urgent = self.took_reserved && left < RESERVES + REPLY_RESERVE;
        moved > 0 && (urgent || moved >= self.session_window / 4)
    }

    /// Notes that the session's limit was announced.
    pub fn on_session_limit_announced(&mut self) {
        self.took_reserved = false;
    }

    /// Returns the limit that every channel starts with, for the handshake: the first window that
    /// was set. It stays, so that a later handshake of the session does not contradict the first.
    #[must_use]
    pub fn channel_window(&self) -> u64 {
        self.first_limit
    }

    /// Returns the session's present window.
    #[must_use]
    pub fn session_window(&self) -> u64 {
        self.session_window
    }

    /// Returns the memory held for the peer: the charges of its incomplete and unread messages, and
    /// large messages granted into our own memory. Bytes that the program took or supplied do not
    /// count.
    #[must_use]
    pub fn memory_used(&self) -> u64 {
        self.accounts
            .charged
            .saturating_sub(self.accounts.taken)
            .saturating_add(self.accounts.large)
    }

    /// Returns the bytes of large messages granted and not yet taken by the program.
    #[must_use]
    pub fn large_held(&self) -> u64 {
        self.accounts.large
    }

    /// Returns true if a granted large message is incomplete.
    #[must_use]
    pub fn has_unfinished(&self) -> bool {
        self.accounts.unfinished > 0
    }

    /// Returns the part of [`large_held`](Self::large_held) that is for incomplete messages.
    #[must_use]
    pub fn unfinished_bytes(&self) -> u64 {
        self.accounts.unfinished_bytes
    }

    /// Returns the bytes that the first waiting large message counts in the budget.
    #[must_use]
    pub fn large_wanted(&self) -> Option<u64> {
        let index = *self.waiting.front()?;
        self.channels
            .get(index)?
            .unanswered()
            .map(|(_, total)| budgeted(total))
    }

    /// Returns the messages received completely in this session.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.accounts.complete
    }

    // ---- inside

    fn find(&mut self, channel: ChannelId) -> Option<usize> {
        if let Some((id, index)) = self.recent
            && id == channel
        {
            return Some(index);
        }
        let Some(&index) = self.by_id.get(&channel) else {
            return self.restore(channel);
        };
        self.recent = Some((channel, index));
        Some(index)
    }

    /// Returns the index of a channel that the peer sends on; the channel may be new. Returns
    /// `None` if it is finished: the frame was a repetition.
    #[inline]
    fn find_or_open(&mut self, id: ChannelId) -> Result<Option<usize>, ProtocolError> {
        match self.find(id) {
            None => self.open(id),
            index => Ok(index),
        }
    }

    /// Credits what a message freed that the program took.
    fn free(&mut self, index: usize, freed: Freed) {
        self.accounts.taken = self.accounts.taken.saturating_add(freed.charge);
        self.move_session_limit();
        if freed.large > 0 {
            self.accounts.large = self.accounts.large.saturating_sub(freed.large);
            self.grant_waiting();
        }
        self.list_due_update(index);
        self.leave_if_over(index);
    }

    fn move_session_limit(&mut self) {
        let taken = planted_consumption(self.accounts.taken);
        let target = taken.saturating_add(self.session_window);
        self.accounts.session_limit = self.accounts.session_limit.max(target);
    }

    /// Adds the channel to the scheduler if the program can take a message of it.
    #[inline]
    fn list_ready(&mut self, index: usize) {
        let Some(channel) = self.channels.get_mut(index).filter(|c| c.is_ready()) else {
            return;
        };
        let id = channel.id();
        if id.is_user() {
            self.ready.add(index);
        } else {
            self.list_for_layer(index, id);
        }
    }

    /// Lists a channel of another layer, which has a message.
    #[inline(never)]
    fn list_for_layer(&mut self, index: usize, id: ChannelId) {
        if id.is_of_group() {
            self.for_layers.get_or_insert_default().groups.insert(id);
        } else if self.is_handled(id) {
            if let Some(channel) = self.channels.get_mut(index)
                && !core::mem::replace(&mut channel.listed.handled, true)
            {
                let lists = self.for_layers.get_or_insert_default();
                lists.by_port[Port::of(id) as usize].push_back(id);
            }
        } else if !id.carries_replies() {
            self.ready.add(index);
        } else if let Some(channel) = self.channels.get_mut(index)
            && !core::mem::replace(&mut channel.listed.reply, true)
        {
            self.replies.push_back(index);
        }
    }

    /// Returns true if messages on the channel go to a layer.
    fn is_handled(&self, channel: ChannelId) -> bool {
        channel.is_handled() && self.ports.has(Port::of(channel))
    }

    fn list_answer(&mut self, index: usize) {
        if let Some(channel) = self.channels.get_mut(index)
            && !channel.listed.answer
        {
            channel.listed.answer = true;
            self.answers.push_back(channel.id());
        }
    }

    fn list_due_update(&mut self, index: usize) {
        if self
            .channels
            .get(index)
            .is_some_and(IncomingChannel::update_due)
        {
            self.list_update(index);
        }
    }

    fn list_update(&mut self, index: usize) {
        if let Some(channel) = self.channels.get_mut(index)
            && !channel.listed.update
        {
            channel.listed.update = true;
            self.updates.push_back(channel.id());
        }
    }
}

#[cfg(test)]
impl Inbox {
    /// Returns the number of packed messages that the program did not take.
    pub(super) fn held_packed(&self) -> u64 {
        self.channels.iter().map(|(_, c)| c.held_packed()).sum()
    }

    /// Returns the bytes allocated for messages that the program did not take yet.
    pub(super) fn footprint(&self) -> usize {
        let held = self.channels.iter().map(|(_, c)| c.footprint());
        let (slots, packed) = (&self.accounts.slot_cache, &self.accounts.packed_queue_cache);
        held.sum::<usize>() + slots.footprint() + packed.footprint()
    }

    /// Returns the bytes of all chunks that messages ever shared.
    pub(super) fn chunks(&self) -> usize {
        self.accounts.chunk.allocated
    }
}
