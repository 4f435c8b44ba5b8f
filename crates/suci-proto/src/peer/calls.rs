//! Replies of the peer, and the end of calls to it.

use super::Peer;
use crate::counters::Counters;
use crate::event::EndReason;
use crate::shared::{Notices, Shared};
use suci_channels::message::{CANCELLED, IncomingInfo, Message, TOO_LONG};
use suci_link::types::{ChannelId, MessageNumber, SessionNumber, Source};

impl Peer {
    /// Returns the next reply, with this peer.
    pub(crate) fn next_reply(&mut self, counters: &mut Counters) -> Option<(&mut Self, Message)> {
        if !self.has_reply() {
            return None;
        }
        self.before_taking();
        let message = self.session.inbox.pop_reply()?;
        self.count_received(1, message.payload.received(), counters);
        Some((self, message))
    }

    /// Returns true if [`Peer::next_reply`] returns a reply.
    pub(crate) fn has_reply(&self) -> bool {
        self.session.inbox.has_reply()
    }

    /// Refuses a reply that is longer than messages taken without a decision, and ends its call.
    pub(super) fn refuse_reply(&mut self, info: &IncomingInfo, shared: &mut Shared) {
        let (channel, calls) = (info.channel, &mut shared.notices.calls);
        if calls.too_long(self.node, channel, info.tag, info.total) {
            self.session.open_calls = self.session.open_calls.saturating_sub(1);
        } else {
            shared.counters.late_replies += 1;
        }
        let refused = (self.session.inbox).refuse(channel, info.number, TOO_LONG);
        debug_assert!(refused.is_ok(), "it was announced just now");
    }

    /// Cancels a request for whose reply no call waits any more.
    pub(crate) fn cancel_request(
        &mut self,
        channel: ChannelId,
        number: MessageNumber,
        notices: &mut Notices,
    ) {
        let outbox = &mut self.session.outbox;
        if outbox.cancel_one(channel, number, CANCELLED) {
            self.report_room(notices);
        }
    }

    /// Returns true if the peer's process is known to have died: the one that has the session or,
    /// if none has it yet, the last one before.
    pub(crate) fn has_died(&self) -> bool {
        self.life.is_dead() || (self.life.is_gone() && !self.session.is_established())
    }

    /// Ends the calls to a process that has died. The next process with this node ID knows nothing
    /// of them.
    pub(super) fn end_calls_if_dead(&mut self, notices: &mut Notices) {
        if self.life.is_dead() {
            self.session.open_calls = 0;
            notices.calls.died(self.node);
        }
    }

    /// Ends the calls of a session that is over: received replies reach their calls, and the other
    /// calls end with it.
    pub(super) fn end_calls(
        &self,
        session: SessionNumber,
        replies: Vec<Message>,
        reason: EndReason,
        shared: &mut Shared,
    ) {
        let node = self.node;
        let replies = replies.into_iter();
        let late = (shared.notices.calls).end(Source { node, session }, reason, replies);
        shared.counters.late_replies += late;
    }
}
