//! Handing messages and replies to the program.

use super::Inbox;
use crate::message::Message;
use crate::message::incoming::{Freed, IncomingChannel};
use crate::message::sizes::len64;
use crate::port::Port;
use suci_link::limits::{REPLY_RESERVE, RESERVES};
use suci_link::types::{ChannelId, MessageNumber};

impl Inbox {
    /// Returns the next complete message: in order per channel, higher classes first, channels of a
    /// class in round robin. Taking it frees memory credit.
    pub fn pop(&mut self) -> Option<Message> {
        let mut popped = None;
        self.pop_some(1, &mut |message| popped = Some(message));
        popped
    }

    /// Hands up to `most` messages to `each`, as repeated calls of [`pop`](Self::pop) would, at a
    /// lower cost. Hands over at least one if there is one. Returns the number.
    #[inline]
    pub fn pop_some(&mut self, most: usize, each: &mut impl FnMut(Message)) -> usize {
        while most > 0
            && let Some(index) = self.ready.front()
        {
            let mut freed = Freed::default();
            let Some(channel) = self.channels.get_mut(index) else {
                self.ready.drop_front();
                continue;
            };
            // Channels that share the class are served one message at a time.
            let most = if self.ready.is_front_alone() { most } else { 1 };
            let popped = channel.pop(most, &mut self.accounts, &mut freed, each);
            // A channel that had nothing is removed, so the loop ends.
            if popped > 0 && channel.is_ready() {
                self.ready.pass();
            } else {
                self.ready.drop_front();
            }
            if popped > 0 {
                self.decided += len64(popped);
                self.free(index, freed);
                return popped;
            }
        }
        0
    }

    /// Returns the next complete message of one channel, whatever waits on other channels. Taking
    /// it frees memory credit.
    pub fn pop_on(&mut self, channel: ChannelId) -> Option<Message> {
        if !self.has_ready_on(channel) {
            return None;
        }
        let index = self.find(channel)?;
        let channel = self.channels.get_mut(index)?;
        let (message, freed) = channel.pop_one(&mut self.accounts)?;
        if !channel.is_ready() {
            self.ready.remove(index);
        }
        self.on_taken(index, freed);
        Some(message)
    }

    /// Returns the next complete message on a channel of a group. Taking it frees memory credit.
    pub fn pop_of_group(&mut self, channel: ChannelId) -> Option<Message> {
        if !self.has_message_of_group(channel) {
            return None;
        }
        let index = self.find(channel)?;
        let incoming = self.channels.get_mut(index)?;
        let (message, freed) = incoming.pop_one(&mut self.accounts)?;
        if !incoming.is_ready()
            && let Some(lists) = &mut self.for_layers
        {
            lists.groups.remove(&channel);
        }
        self.took_reserved = true;
        self.on_taken(index, freed);
        Some(message)
    }

    /// Returns the next complete message for `port`: in order per channel, channels in turn.
    /// Taking it frees memory credit.
    pub fn pop_for(&mut self, port: Port) -> Option<Message> {
        if port == Port::Remote {
            self.on_handled();
        }
        let list = port as usize;
        while let Some(channel) = self.for_layers.as_mut()?.by_port[list].pop_front() {
            let message = self.pop_handled(channel);
            if message.is_some() {
                return message;
            }
        }
        None
    }

    /// Returns the next complete active message of one channel. Taking it frees memory credit.
    pub fn pop_active_on(&mut self, channel: ChannelId) -> Option<Message> {
        let active = &mut self.for_layers.as_mut()?.by_port[Port::Active as usize];
        let at = active.iter().position(|listed| *listed == channel)?;
        active.remove(at);
        self.pop_handled(channel)
    }

    /// Notes that the layer of one-sided operations handled the last message that it was given.
    /// Asks it about the next one again, if that is announced. Returns true if there was such a
    /// message.
    pub fn on_handled(&mut self) -> bool {
        let handled = self
            .for_layers
            .as_mut()
            .and_then(|lists| lists.handled.take());
        if let Some(index) = handled.and_then(|id| self.find(id)) {
            self.judge_for_layer(index);
        }
        handled.is_some()
    }

    /// Returns the next message of a channel that was unlisted just now.
    fn pop_handled(&mut self, id: ChannelId) -> Option<Message> {
        let index = self.find(id)?;
        let channel = self.channels.get_mut(index)?;
        channel.listed.handled = false;
        let (message, freed) = channel.pop_one(&mut self.accounts)?;
        self.list_ready(index);
        if Port::of(id) == Port::Remote {
            self.for_layers.get_or_insert_default().handled = Some(id);
        } else {
            self.judge_for_layer(index);
        }
        self.took_reserved |= id.may_use_reserve();
        self.on_taken(index, freed);
        Some(message)
    }

    /// Returns true if [`pop_for`](Self::pop_for) returns a message.
    pub fn has_for(&self, port: Port) -> bool {
        let lists = self.for_layers.as_ref();
        lists.is_some_and(|lists| !lists.by_port[port as usize].is_empty())
    }

    /// Returns true if [`pop_active_on`](Self::pop_active_on) returns a message.
    #[must_use]
    pub fn has_active_on(&self, channel: ChannelId) -> bool {
        let lists = self.for_layers.as_ref();
        lists.is_some_and(|lists| lists.by_port[Port::Active as usize].contains(&channel))
    }

    /// Returns true if a message for another layer may be here.
    #[inline]
    pub const fn may_have_for_layers(&self) -> bool {
        self.for_layers.is_some()
    }

    /// Grants memory for the message that waits on a channel of a group, once there is some.
    /// Returns true if one waits that had not been granted it.
    pub fn welcome_for_group(&mut self, channel: ChannelId) -> bool {
        let number = self.undecided_of_group(channel);
        number.is_some_and(|number| self.accept(channel, number, None).is_ok())
    }

    /// Refuses the message that waits on a channel of a group.
    pub fn refuse_of_group(&mut self, channel: ChannelId) {
        if let Some(number) = self.undecided_of_group(channel) {
            let refused = self.refuse(channel, number, 0);
            debug_assert!(refused.is_ok(), "nobody decided about it");
        }
    }

    fn undecided_of_group(&self, channel: ChannelId) -> Option<MessageNumber> {
        let index = self.by_id.get(&channel).copied();
        let incoming = index.and_then(|index| self.channels.get(index));
        incoming.and_then(IncomingChannel::undecided)
    }

    /// Returns the next complete message of any group.
    pub fn pop_of_any_group(&mut self) -> Option<Message> {
        self.pop_of_group(*self.for_layers.as_ref()?.groups.first()?)
    }

    /// Returns true if [`pop_of_group`](Self::pop_of_group) returns a message.
    #[must_use]
    pub fn has_message_of_group(&self, channel: ChannelId) -> bool {
        let lists = self.for_layers.as_ref();
        lists.is_some_and(|lists| lists.groups.contains(&channel))
    }

    /// Returns the channels of groups on which a message is complete.
    pub fn group_channels(&self) -> impl Iterator<Item = ChannelId> {
        let lists = self.for_layers.iter();
        lists.flat_map(|lists| lists.groups.iter().copied())
    }

    /// Returns true if a message of any group is complete.
    #[must_use]
    pub fn has_group_message(&self) -> bool {
        let lists = self.for_layers.as_ref();
        lists.is_some_and(|lists| !lists.groups.is_empty())
    }

    /// Returns the class of the channel whose message [`pop`](Self::pop) gives next.
    #[must_use]
    #[inline]
    pub fn next_class(&self) -> Option<u8> {
        self.ready.front_class()
    }

    /// Returns the next complete reply, in order per channel. Taking it frees memory credit.
    pub fn pop_reply(&mut self) -> Option<Message> {
        while let Some(index) = self.replies.pop_front() {
            let channel = self.channels.get_mut(index)?;
            let popped = channel.pop_one(&mut self.accounts);
            // One reply at a time, channels in round robin.
            channel.listed.reply = false;
            self.list_ready(index);
            if let Some((message, freed)) = popped {
                self.took_reserved = true;
                self.on_taken(index, freed);
                return Some(message);
            }
        }
        None
    }

    /// Counts a message that was taken out of the channel at `index`, and credits what it `freed`.
    fn on_taken(&mut self, index: usize, freed: Freed) {
        self.decided += 1;
        self.free(index, freed);
    }

    /// Returns true if the program can take a message.
    #[must_use]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns true if [`pop_on`](Self::pop_on) returns a message.
    #[must_use]
    pub fn has_ready_on(&self, channel: ChannelId) -> bool {
        let index = self.by_id.get(&channel).copied();
        index.is_some_and(|index| self.ready.is_listed(index))
    }

    /// Detects that the peer can begin no message on `channel`, and has begun none, because untaken
    /// messages fill the session's memory. Returns the bytes that these messages count, and the
    /// channels on which the program can take some.
    #[must_use]
    pub fn blocked_by_unread(&self, channel: ChannelId) -> Option<(u64, Vec<ChannelId>)> {
        let accounts = &self.accounts;
        let left = accounts.session_limit.saturating_sub(accounts.charged);
        // The peer waits at the present limit, and the longest message without RTS
        // finds no room.
        if self.blocked_at != Some(accounts.session_limit) || left >= RESERVES + REPLY_RESERVE {
            return None;
        }
        let at = |index: usize| self.channels.get(index);
        let own = self.by_id.get(&channel).and_then(|index| at(*index));
        let ready = self.ready.flows().filter_map(at).map(IncomingChannel::id);
        let ready: Vec<_> = ready.collect();
        if own.is_some_and(IncomingChannel::has_begun) || ready.is_empty() {
            return None;
        }
        Some((accounts.charged.saturating_sub(accounts.taken), ready))
    }

    /// Returns true if [`pop_reply`](Self::pop_reply) returns a reply.
    #[must_use]
    pub fn has_reply(&self) -> bool {
        !self.replies.is_empty()
    }
}
