//! Messages of groups, and members that wait for the peer.

use super::Peer;
use super::event_queue::EndedSession;
use crate::counters::MemberState;
use crate::event::{EndReason, Side};
use crate::shared::{MemoryShares, Notices, Promise, Shared};
use std::collections::VecDeque;
use suci_channels::message::{IncomingInfo, Message};
use suci_link::limits::MAX_GROUP_MESSAGE;
use suci_link::ranges::RangeSet;
use suci_link::time::Instant;
use suci_link::types::{ChannelId, Layer, SessionNumber};

/// Messages of groups and active messages that a session left when it ended. They wait for the next
/// operation of their group or for their handlers, whether or not the program heard of the end.
#[derive(Debug)]
pub(super) struct LayerRemains {
    session: SessionNumber,
    messages: VecDeque<Message>,
    /// Memory promised to them, unless messages for the program hold it.
    promise: Promise,
}

impl Peer {
    /// Keeps messages of groups that a session left, if the peer is in the book: a stranger's would
    /// keep its state for ever. Remains of an earlier session go.
    pub(super) fn end_groups(
        &mut self,
        ended: &mut EndedSession,
        messages: VecDeque<Message>,
        memory: &mut MemoryShares,
    ) {
        self.last_end = Some(ended.reason);
        self.last_is_dead = matches!(ended.reason, EndReason::Restarted | EndReason::ProcessDied);
        if messages.is_empty() {
            return;
        }
        self.drop_layer_remains(memory);
        let promise = match ended.messages.is_empty() {
            true => core::mem::take(&mut ended.promise),
            false => Promise::default(),
        };
        if self.book.is_empty() {
            return memory.release(promise);
        }
        self.layer_remains = Some(Box::new(LayerRemains {
            session: ended.session,
            messages,
            promise,
        }));
    }

    /// The program took the last message of an ended session, which `freed` this memory: it stays
    /// promised if messages of groups remain.
    #[inline(never)]
    pub(super) fn keep_for_groups(
        &mut self,
        session: SessionNumber,
        freed: Promise,
        memory: &mut MemoryShares,
    ) {
        match &mut self.layer_remains {
            Some(remains) if remains.session == session && freed != Promise::default() => {
                remains.promise = freed;
            }
            _ => memory.release(freed),
        }
    }

    /// Drops messages of groups that an ended session left.
    pub(crate) fn drop_layer_remains(&mut self, memory: &mut MemoryShares) {
        if let Some(remains) = self.layer_remains.take() {
            memory.release(remains.promise);
        }
    }

    /// Returns the next message on a channel of a group, sessions in order, and its session.
    pub(crate) fn next_of_group(
        &mut self,
        channel: ChannelId,
        shared: &mut Shared,
    ) -> Option<(SessionNumber, Message)> {
        let is_next = |message: &Message| message.channel == channel;
        let left = self.next_of_remains(is_next, shared);
        if left.is_some() {
            return left;
        }
        if !self.session.inbox.has_message_of_group(channel) {
            return None;
        }
        self.before_taking();
        let message = self.session.inbox.pop_of_group(channel)?;
        Some((self.session.number, message))
    }

    /// Returns the next message that the last session left and that `is_next`, and the session.
    pub(super) fn next_of_remains(
        &mut self,
        is_next: impl Fn(&Message) -> bool,
        shared: &mut Shared,
    ) -> Option<(SessionNumber, Message)> {
        let remains = self.layer_remains.as_mut()?;
        let at = remains.messages.iter().position(is_next)?;
        let (session, message) = (remains.session, remains.messages.remove(at)?);
        if remains.messages.is_empty() {
            self.drop_layer_remains(&mut shared.memory);
        }
        Some((session, message))
    }

    /// Returns a channel of groups among `channels`, by their numbers, on which a message waits.
    pub(crate) fn group_message_on(&self, channels: &RangeSet) -> Option<ChannelId> {
        let remains = self.layer_remains.iter().flat_map(|left| &left.messages);
        let remains = remains.map(|message| message.channel);
        let mut all = remains.chain(self.session.inbox.group_channels());
        all.find(|channel| channels.contains(channel.0.into()))
    }

    /// Returns true if a message of a group waits.
    pub(crate) fn has_group_message(&self) -> bool {
        self.session.inbox.has_group_message() || self.layer_remains.is_some()
    }

    /// Refuses an announced message that no group sends, or whose group is over. Others wait until
    /// their group asks.
    pub(super) fn judge_for_group(&mut self, info: &IncomingInfo, notices: &Notices) {
        if notices.ended_groups.contains(info.channel.0.into()) {
            self.refuse_of_group(info.channel);
        } else if info.total > MAX_GROUP_MESSAGE as u64 {
            let inbox = &mut self.session.inbox;
            let refused = inbox.refuse(info.channel, info.number, info.total);
            debug_assert!(refused.is_ok(), "it was announced just now");
        }
    }

    /// Refuses the message that was announced on a channel of a group.
    pub(crate) fn refuse_of_group(&mut self, channel: ChannelId) {
        self.session.inbox.refuse_of_group(channel);
    }

    /// Notes whether a member of a group waits for a message of the peer.
    pub(crate) fn set_awaited(&mut self, now: Instant, awaited: bool, shared: &mut Shared) {
        self.awaited = match awaited {
            true => self.awaited.saturating_add(1),
            false => self.awaited.saturating_sub(1),
        };
        if awaited && !self.has_connection() && self.attempt.is_none() {
            self.open(now, shared.random());
        }
    }

    fn groups_denied_by(&self) -> Option<Side> {
        if !self.session.inbox.permits(Layer::Groups) {
            return Some(Side::Here);
        }
        let there = !self.session.outbox.permits(Layer::Groups);
        there.then_some(Side::There)
    }

    /// Returns the state that its group's members go by.
    pub(crate) fn member_state(&self) -> MemberState {
        MemberState {
            session: self.session.number,
            incarnation: self.session.remote,
            link: self.life.link(),
            cause: self.life.cause(),
            known: !self.book.is_empty(),
            suspended_here: self.session.suspension.ours(),
            is_dead: self.life.is_dead(),
            denied_by: self.groups_denied_by(),
            last_end: self.last_end,
            last_is_dead: self.last_is_dead,
        }
    }
}
