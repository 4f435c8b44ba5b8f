//! Messages between the members of groups. They wait apart from the program's messages until an
//! operation of their group takes them: so their memory credit holds back members that are ahead.

use super::Engine;
use crate::counters::MemberState;
use suci_channels::message::Message;
use suci_link::time::Instant;
use suci_link::types::{ChannelId, NodeId, SessionNumber};

impl Engine {
    /// Returns the next message of `node` on a channel of a group ([`ChannelId::of_group`]), and
    /// its session. Taking it gives its sender memory credit back.
    pub fn recv_of_group(
        &mut self,
        node: NodeId,
        channel: ChannelId,
    ) -> Option<(SessionNumber, Message)> {
        let key = self.peer_key(node)?;
        // An idle peer has no message.
        self.peers.active(key)?;
        let (peer, shared) = (self.peers.get_mut(key)?, &mut self.shared);
        let received = peer.next_of_group(channel, shared);
        if received.is_none() && peer.session.inbox.welcome_for_group(channel) {
            self.touch(key);
            return None;
        }
        if !peer.has_group_message() {
            self.with_group_messages.remove(key);
        }
        let (session, message) = received?;
        self.dirty.add(key);
        self.yields_since = None;
        let bytes = message.payload.received();
        peer.count_received(1, bytes, &mut self.shared.counters);
        Some((session, message))
    }

    /// Drops all messages on a channel of a group, also those that come later: the group is over,
    /// and its number is not used again.
    pub fn end_group(&mut self, channel: ChannelId) {
        let number = u64::from(channel.0);
        self.shared.notices.ended_groups.insert(number..number + 1);
        for key in self.peers.keys() {
            if self.peers.active(key).is_some() {
                self.update(key, |peer, _| peer.refuse_of_group(channel));
                self.dirty.add(key);
            }
        }
    }

    /// Returns true if [`poll_late_of_group`](Self::poll_late_of_group) returns something.
    #[must_use]
    pub fn has_late_of_group(&self) -> bool {
        !self.shared.notices.late_of_groups.is_empty()
    }

    /// Returns a peer of which a message on a channel was dropped because of
    /// [`end_group`](Self::end_group), the last session in which one was, and the channel.
    pub fn poll_late_of_group(&mut self) -> Option<(NodeId, SessionNumber, ChannelId)> {
        let ((node, channel), session) = self.shared.notices.late_of_groups.pop_first()?;
        Some((node, session, channel))
    }

    /// Returns true after [`end_group`](Self::end_group).
    #[must_use]
    pub fn is_group_over(&self, channel: ChannelId) -> bool {
        self.shared.notices.ended_groups.contains(channel.0.into())
    }

    /// Notes that a peer has messages of groups, and drops those of groups that are over.
    #[cold]
    pub(super) fn on_group_message(&mut self, key: usize) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        let ended = core::mem::take(&mut self.shared.notices.ended_groups);
        while let Some(channel) = peer.group_message_on(&ended)
            && let Some((session, _)) = peer.next_of_group(channel, &mut self.shared)
        {
            if !peer.book.is_empty() {
                self.shared
                    .notices
                    .late_of_groups
                    .insert((peer.node, channel), session);
            }
            // The peer must be told its new credit.
            self.dirty.add(key);
        }
        self.shared.notices.ended_groups = ended;
        if peer.has_group_message() {
            self.with_group_messages.add(key);
        } else {
            self.with_group_messages.remove(key);
        }
    }

    /// Returns true if a message of a group waits.
    #[must_use]
    pub fn has_group_message(&self) -> bool {
        !self.with_group_messages.is_empty()
    }

    /// Notes that a wait for a message of `node` began or, if it is not `awaited` any more, ended.
    /// During waits the peer counts as watched, and a connection to it is opened if there is none.
    pub fn await_member(&mut self, now: Instant, node: NodeId, awaited: bool) {
        if let Some(key) = self.peer_key(node) {
            self.update(key, |peer, shared| peer.set_awaited(now, awaited, shared));
        }
    }

    /// Returns the state of a peer; `None` if it is unknown.
    #[must_use]
    pub fn member_state(&self, node: NodeId) -> Option<MemberState> {
        Some(self.peer(node)?.member_state())
    }
}
