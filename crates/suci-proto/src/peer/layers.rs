//! Messages for the handlers of layers.

use super::Peer;
use crate::engine::{RemoteInput, Shared, SocketInput};
use crate::event::{EndReason, Event, RefusedReason};
use std::collections::VecDeque;
use suci_channels::handler::Handler;
use suci_channels::message::Message;
use suci_link::types::{ChannelId, Layer, SessionNumber, Source};

/// Most messages about membership that ended sessions leave and the driver did not take.
const MAX_LEFT: usize = 1024;

impl Peer {
    /// Returns the next message for `handler`, sessions in order.
    pub(crate) fn next_for(
        &mut self,
        handler: Handler,
        shared: &mut Shared,
    ) -> Option<(Source, Message)> {
        let is_active = |message: &Message| message.channel.carries_active_messages();
        let left = match handler {
            Handler::Active => self.next_of_remains(is_active, shared),
            _ => None,
        };
        let taken = match left {
            Some(left) => left,
            None if self.session_has_for(handler) => {
                self.before_taking();
                (self.session.number, self.session.inbox.pop_for(handler)?)
            }
            None => return None,
        };
        Some(self.hand_over(taken, shared))
    }

    /// Returns the next active message on `channel`, sessions in order.
    pub(crate) fn next_active_on(
        &mut self,
        channel: ChannelId,
        shared: &mut Shared,
    ) -> Option<(Source, Message)> {
        let left = self.next_of_remains(|message| message.channel == channel, shared);
        let taken = match left {
            Some(left) => left,
            None if self.session.inbox.has_active_on(channel) => {
                self.before_taking();
                let message = self.session.inbox.pop_active_on(channel)?;
                (self.session.number, message)
            }
            None => return None,
        };
        Some(self.hand_over(taken, shared))
    }

    /// Counts a message that a handler takes, and adds its source.
    fn hand_over(
        &mut self,
        (session, message): (SessionNumber, Message),
        shared: &mut Shared,
    ) -> (Source, Message) {
        self.count_received(1, message.payload.received(), &mut shared.counters);
        let node = self.node;
        (Source { node, session }, message)
    }

    fn session_has_for(&self, handler: Handler) -> bool {
        !self.held[handler as usize] && self.session.inbox.has_for(handler)
    }

    /// Returns true if [`Peer::next_for`] may return a message.
    pub(crate) fn has_for(&self, handler: Handler) -> bool {
        let may_be_left = handler == Handler::Active && self.layer_remains.is_some();
        may_be_left || self.session_has_for(handler)
    }

    /// Returns true if a message for another layer may be here.
    #[inline]
    pub(crate) fn may_have_for_layers(&self) -> bool {
        self.session.inbox.may_have_for_layers() || self.layer_remains.is_some()
    }

    /// Tells the program that the peer does not permit a layer that the library itself uses: once
    /// in a session.
    pub(crate) fn tell_denied(&mut self, layer: Layer, shared: &mut Shared) {
        if self.session.outbox.note_denied(layer) {
            let (node, reason) = (self.node, RefusedReason::Layer(layer));
            self.push_event(Event::Refused { node, reason }, shared);
        }
    }

    /// Tells the handlers of an event, if they want to know of it.
    pub(super) fn tell_layers(&self, event: &Event, shared: &mut Shared) {
        if !shared.config.placement.is_some() {
            return;
        }
        match *event {
            Event::Up { node, .. } => shared.socket_inputs.push_back(SocketInput::Up(node)),
            Event::Lost { node, cause, .. } => {
                let input = RemoteInput::Lost(node, cause);
                shared.remote_inputs.push_back(input);
                let input = SocketInput::Lost(node, cause);
                shared.socket_inputs.push_back(input);
            }
            _ => {}
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
