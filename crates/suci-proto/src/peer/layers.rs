//! Messages for the handlers of layers.

use super::Peer;
use crate::engine::{RemoteInput, Shared, SocketInput};
use crate::event::{EndReason, Event};
use crate::message::Message;
use crate::types::{ChannelId, NodeId, SessionNumber, Source};
use std::collections::VecDeque;

/// Most messages about membership that ended sessions leave and the driver did not take.
const MAX_LEFT: usize = 1024;

impl Peer {
    /// Returns the next active message, on the channel `only` if one is named, sessions in order.
    pub(crate) fn next_active(
        &mut self,
        only: Option<ChannelId>,
        shared: &mut Shared,
    ) -> Option<(Source, Message)> {
        let is_next = |message: &Message| match only {
            Some(channel) => message.channel == channel,
            None => message.channel.carries_active_messages(),
        };
        let left = self.next_of_remains(is_next, shared);
        let (session, message) = left.or_else(|| {
            let message = match only {
                Some(channel) if self.session.inbox.has_active_on(channel) => {
                    self.before_taking();
                    self.session.inbox.pop_active_on(channel)
                }
                None if self.session.inbox.has_active() => {
                    self.before_taking();
                    self.session.inbox.pop_active()
                }
                _ => None,
            }?;
            Some((self.session.number, message))
        })?;
        self.count_received(1, message.payload.received(), &mut shared.counters);
        let node = self.node;
        Some((Source { node, session }, message))
    }

    /// Returns true if an active message waits.
    pub(crate) fn has_active(&self) -> bool {
        self.session.inbox.has_active() || self.layer_remains.is_some()
    }

    /// Returns the next message about one-sided operations.
    pub(crate) fn next_remote(&mut self, shared: &mut Shared) -> Option<(Source, Message)> {
        if !self.has_remote() {
            return None;
        }
        self.before_taking();
        let message = self.session.inbox.pop_remote()?;
        self.count_received(1, message.payload.received(), &mut shared.counters);
        let from = Source {
            node: self.node,
            session: self.session.number,
        };
        Some((from, message))
    }

    /// Returns true if [`Peer::next_remote`] returns a message.
    pub(crate) fn has_remote(&self) -> bool {
        !self.remote_held && self.session.inbox.has_remote()
    }

    /// Returns the next message about membership.
    pub(crate) fn next_membership(&mut self, shared: &mut Shared) -> Option<(Source, Message)> {
        if !self.session.inbox.has_membership() {
            return None;
        }
        self.before_taking();
        let message = self.session.inbox.pop_membership()?;
        self.count_received(1, message.payload.received(), &mut shared.counters);
        let from = Source {
            node: self.node,
            session: self.session.number,
        };
        Some((from, message))
    }

    /// Returns the next forwarded packet.
    pub(crate) fn next_forwarded(&mut self, shared: &mut Shared) -> Option<(NodeId, Message)> {
        if !self.session.inbox.has_forwarded() {
            return None;
        }
        self.before_taking();
        let message = self.session.inbox.pop_forwarded()?;
        self.count_received(1, message.payload.received(), &mut shared.counters);
        Some((self.node, message))
    }

    /// Returns the next message of sockets.
    pub(crate) fn next_of_sockets(&mut self, shared: &mut Shared) -> Option<Message> {
        if !self.has_of_sockets() {
            return None;
        }
        self.before_taking();
        let message = self.session.inbox.pop_of_sockets()?;
        self.count_received(1, message.payload.received(), &mut shared.counters);
        Some(message)
    }

    /// Returns true if [`Peer::next_of_sockets`] returns a message.
    pub(crate) fn has_of_sockets(&self) -> bool {
        !self.sockets_held && self.session.inbox.has_of_sockets()
    }

    /// Tells the handlers of an event, if they want to know of it.
    pub(super) fn tell_layers(&self, event: &Event, shared: &mut Shared) {
        if let Event::Lost { node, cause, .. } = *event
            && shared.config.placement.is_some()
        {
            let input = RemoteInput::Lost(node, cause);
            shared.remote_inputs.push_back(input);
            shared
                .socket_inputs
                .push_back(SocketInput::Lost(node, cause));
        }
    }

    /// Tells the layer of sockets the end of a session, and its last messages before.
    pub(super) fn end_sockets(
        &mut self,
        messages: VecDeque<Message>,
        reason: EndReason,
        shared: &mut Shared,
    ) {
        let node = self.node;
        for message in messages {
            self.count_received(1, message.payload.received(), &mut shared.counters);
            let input = SocketInput::Message(node, message);
            shared.socket_inputs.push_back(input);
        }
        if shared.config.placement.is_some() {
            let input = SocketInput::Ended(node, reason);
            shared.socket_inputs.push_back(input);
        }
    }

    /// Tells the handlers the end of a session, and its last messages before.
    pub(super) fn end_layers(
        &mut self,
        session: SessionNumber,
        messages: VecDeque<Message>,
        reason: EndReason,
        shared: &mut Shared,
    ) {
        let node = self.node;
        for message in messages {
            self.count_received(1, message.payload.received(), &mut shared.counters);
            let from = Source { node, session };
            if message.channel.carries_membership() {
                // A driver that takes none of them must not hold more and more.
                if shared.membership_left.len() < MAX_LEFT {
                    shared.membership_left.push_back((from, message));
                }
                continue;
            }
            let input = RemoteInput::Last(from, message);
            shared.remote_inputs.push_back(input);
        }
        if shared.config.placement.is_some() {
            let input = RemoteInput::Ended(node, session, reason);
            shared.remote_inputs.push_back(input);
        }
    }
}
