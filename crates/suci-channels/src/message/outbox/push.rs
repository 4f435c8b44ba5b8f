//! Queueing messages, and reporting to the program that a class of channels has room again.

use super::Outbox;
use crate::message::outgoing::{Fin, OutgoingChannel};
use crate::message::send_queue::SendBufferCaches;
use crate::message::sizes::len64;
use crate::message::{ByClass, ChannelLease, Held, Outgoing, SmallOutgoing, WantedRoom, has_room};
use suci_link::types::{ChannelId, Layer, MessageNumber};

/// The reason why a message is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoom {
    /// The queue is full; try again later.
    Full,
    /// The peer permits no more channels. The number counts those that are open, or were finished
    /// with gaps between their numbers.
    Channels(u64),
    /// The peer does not permit the channel's layer.
    NotPermitted(Layer),
    /// The channel was finished, or the channel of the request that this message answers.
    Finished(ChannelId),
}

/// Where a message is queued.
struct QueueSlot {
    /// The channel's index in the slab, and the sum that counts its messages.
    index: usize,
    sum: u8,
    /// The sizes of all messages in that sum, this message included.
    held: Held,
}

/// Returns the sum of [`ByClass`] that counts the messages of `channel`, which has this class.
const fn sum(class: u8, channel: ChannelId) -> u8 {
    match channel.is_internal() {
        true => ByClass::INTERNAL,
        false => class,
    }
}

impl Outbox {
    /// Returns the sum of [`ByClass`] that counts the messages of `channel`, which is open at
    /// `index`.
    pub(super) fn sum_of(&self, index: usize, channel: ChannelId) -> u8 {
        sum(self.scheduler.priority(index).class(), channel)
    }

    /// Returns the class of the next scheduled channel.
    #[must_use]
    #[inline]
    pub fn next_class(&self) -> Option<u8> {
        self.scheduler.front_class()
    }

    /// Queues a message.
    ///
    /// # Errors
    /// [`NoRoom`], with the message.
    #[inline(always)]
    pub fn push(&mut self, message: Outgoing) -> Result<MessageNumber, (NoRoom, Outgoing)> {
        if let Some(small) = message.as_small() {
            let pushed = self.push_small(&small);
            return pushed.map_err(|no| (no, message));
        }
        let size = Held::of(&message);
        match self.make_room(message.channel, size) {
            Ok(room) => Ok(self.queue(room, |channel, caches| channel.queue.push(message, caches))),
            Err(no) => Err((no, message)),
        }
    }

    /// Queues a small message, whose bytes are copied.
    ///
    /// # Errors
    /// [`NoRoom`].
    #[inline(always)]
    pub fn push_small(&mut self, message: &SmallOutgoing<'_>) -> Result<MessageNumber, NoRoom> {
        let payload = len64(message.payload.len());
        let size = Held::one(payload.saturating_add(len64(message.user_header.len())));
        let room = self.make_room(message.channel, size)?;
        Ok(self.queue(room, |channel, caches| {
            channel.queue.push_small(message, caches)
        }))
    }

    /// Lends room for messages that are like the last one on this channel; the lease accepts them
    /// itself. Returns `None` unless the last message is small and unsent, and the headers of
    /// others follow from its own. The lease must be [returned](Self::give_back) before any other
    /// method of the outbox is called.
    pub fn lend(&mut self, channel: ChannelId) -> Option<ChannelLease> {
        let index = self.find(channel)?;
        let (held, limits) = (self.queued.get(self.sum_of(index, channel)), &self.limits);
        let most = |each: Held| {
            let room = limits.max_queued_bytes.saturating_sub(held.charge());
            let messages = len64(limits.max_queued_messages).saturating_sub(held.messages);
            messages.min(room / each.charge())
        };
        let queued = self
            .channels
            .get_mut(index)
            .filter(|queued| queued.fin == Fin::Open)?;
        queued.queue.lend(channel, index, most)
    }

    /// Takes back a lease with the messages that it accepted.
    pub fn give_back(&mut self, lease: ChannelLease) {
        let held = lease.accepted();
        let (index, count, block) = lease.end();
        let Some(channel) = self.channels.get_mut(index) else {
            return;
        };
        channel.queue.put_back(count, block);
        if count > 0 {
            let id = channel.id();
            let sum = self.sum_of(index, id);
            self.queued.change(sum, |before| before.plus(held));
            self.accepted = self.accepted.saturating_add(held.messages);
            self.activate(index);
        }
    }

    /// Returns the slot for a message of `size` on the channel, or why it is not accepted.
    #[inline(always)]
    fn make_room(&mut self, channel: ChannelId, size: Held) -> Result<QueueSlot, NoRoom> {
        let opened = self.find(channel);
        let class = match opened {
            Some(index) => self.scheduler.priority(index).class(),
            None => self.priority(channel).class(),
        };
        let sum = sum(class, channel);
        let held = self.queued.get(sum);
        let fits = has_room(held.charge(), size.charge(), self.limits.max_queued_bytes);
        let is_full = !fits || held.messages >= len64(self.limits.max_queued_messages);
        if is_full && !self.has_own_room(opened, channel) {
            return Err(NoRoom::Full);
        }
        let index = match opened {
            Some(index) => index,
            None => self.open_one_more(channel)?,
        };
        if (self.channels.get(index)).is_some_and(|channel| channel.fin != Fin::Open) {
            return Err(NoRoom::Finished(channel.ranked_as()));
        }
        let held = held.plus(size);
        Ok(QueueSlot { index, sum, held })
    }

    /// Returns true if the channel, which is open at index `opened`, takes a message although its
    /// class is full. The channel of a group takes one: the receiver takes none of another group or
    /// of the program in its place, so that they would keep each other waiting for ever.
    #[cold]
    fn has_own_room(&self, opened: Option<usize>, channel: ChannelId) -> bool {
        let opened = opened.and_then(|index| self.channels.get(index));
        channel.is_of_group() && opened.is_none_or(|channel| channel.open() == 0)
    }

    /// Moves the channel's messages to `class`. O(messages).
    pub(super) fn move_class(&mut self, index: usize, class: u8) {
        let Some(channel) = self.channels.get(index) else {
            return;
        };
        let (held, id) = (channel.queue.held(), channel.id());
        let before = self.sum_of(index, id);
        self.queued.change(before, |all| all.minus(held));
        self.queued.change(sum(class, id), |all| all.plus(held));
    }

    #[cold]
    pub(super) fn open_one_more(&mut self, channel: ChannelId) -> Result<usize, NoRoom> {
        // Programs see replies on the channel of their requests.
        if !self.permits(channel.layer()) {
            Err(NoRoom::NotPermitted(channel.layer()))
        } else if self.is_ended(channel) || self.is_ended(channel.ranked_as()) {
            Err(NoRoom::Finished(channel.ranked_as()))
        } else if self.opened < self.max_channels {
            Ok(self.open(channel))
        } else if self.may_open_early(channel) {
            let early = self.early.get_or_insert_default();
            early.ordinals.insert(channel, self.opened);
            Ok(self.open(channel))
        } else {
            Err(NoRoom::Channels(self.channels_at_once()))
        }
    }

    #[inline(always)]
    fn queue(
        &mut self,
        QueueSlot { index, sum, held }: QueueSlot,
        push: impl FnOnce(&mut OutgoingChannel, &mut SendBufferCaches) -> MessageNumber,
    ) -> MessageNumber {
        let (channel, caches) = (self.channels.get_mut(index), &mut self.caches);
        let number = channel.map_or(0, |channel| push(channel, caches));
        self.queued.change(sum, |_| held);
        self.accepted = self.accepted.saturating_add(1);
        self.activate(index);
        number
    }
}

impl Outbox {
    /// Notes that the program waits for room for `message`. The smallest waiting message of a class
    /// decides. Returns the class of the message's channel.
    pub fn want_room(&mut self, message: &Outgoing) -> u8 {
        let class = self.priority(message.channel).class();
        self.wanted.add(class, Held::of(message).charge());
        class
    }

    /// Returns true if the program waits for room.
    #[inline]
    pub const fn wants_room(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Returns true if [`poll_room`](Self::poll_room) returns a class.
    #[inline]
    pub fn has_wanted_room(&self) -> bool {
        self.wants_room() && self.find_room().is_some()
    }

    /// Returns a class that has the room that the program waits for, and ends that wait.
    pub fn poll_room(&mut self) -> Option<u8> {
        let class = self.find_room()?;
        self.wanted.remove(class);
        Some(class)
    }

    /// Removes and returns the room that the program waits for, for the next session.
    pub fn take_wanted_room(&mut self) -> WantedRoom {
        core::mem::take(&mut self.wanted)
    }

    /// Sets the room that the program has waited for since an earlier session.
    pub fn set_wanted_room(&mut self, wanted: WantedRoom) {
        self.wanted = wanted;
    }

    #[cold]
    fn find_room(&self) -> Option<u8> {
        self.wanted.find(|class, charge| {
            let held = self.queued.get(class);
            held.messages < len64(self.limits.max_queued_messages)
                && has_room(held.charge(), charge, self.limits.max_queued_bytes)
        })
    }
}
