//! Input of the ports of layers.

use super::Peer;
use crate::counters::Counters;
use crate::event::{EndReason, Event, RefusedReason};
use crate::shared::{Notices, PortInput, Shared};
use std::collections::VecDeque;
use suci_channels::message::Message;
use suci_channels::port::Port;
use suci_link::types::{ChannelId, Layer, SessionNumber, Source};

/// Maximum number of messages that ended sessions leave at a port whose layer hears of no ends.
const MAX_LEFT: usize = 1024;

impl Peer {
    /// Returns the next message at a port, sessions in order.
    pub(crate) fn next_for(
        &mut self,
        port: Port,
        shared: &mut Shared,
    ) -> Option<(Source, Message)> {
        let is_active = |message: &Message| message.channel.carries_active_messages();
        let left = match port {
            Port::Active => self.next_of_remains(is_active, shared),
            _ => None,
        };
        let taken = match left {
            Some(left) => left,
            None if self.session_has_for(port) => {
                self.before_taking();
                (self.session.number, self.session.inbox.pop_for(port)?)
            }
            None => return None,
        };
        Some(self.hand_over(taken, &mut shared.counters))
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
        Some(self.hand_over(taken, &mut shared.counters))
    }

    /// Counts a message that a layer takes, and adds its source.
    fn hand_over(
        &mut self,
        (session, message): (SessionNumber, Message),
        counters: &mut Counters,
    ) -> (Source, Message) {
        self.count_received(1, message.payload.received(), counters);
        let node = self.node;
        (Source { node, session }, message)
    }

    fn session_has_for(&self, port: Port) -> bool {
        !self.held[port as usize] && self.session.inbox.has_for(port)
    }

    /// Returns true if [`Peer::next_for`] may return a message.
    pub(crate) fn has_for(&self, port: Port) -> bool {
        let may_be_left = port == Port::Active && self.layer_remains.is_some();
        may_be_left || self.session_has_for(port)
    }

    /// Returns true if a message for another layer may be here.
    #[inline]
    pub(crate) fn may_have_for_layers(&self) -> bool {
        self.session.inbox.may_have_for_layers() || self.layer_remains.is_some()
    }

    /// Tells the program that the peer does not permit a layer that the library itself uses: once
    /// in a session.
    pub(crate) fn tell_denied(&mut self, layer: Layer, notices: &mut Notices) {
        if self.session.outbox.note_denied(layer) {
            let (node, reason) = (self.node, RefusedReason::Layer(layer));
            self.push_event(Event::Refused { node, reason }, notices);
        }
    }

    /// Tells layers of an event, if they want to know of it.
    pub(super) fn tell_layers(&self, event: &Event, notices: &mut Notices) {
        match *event {
            Event::Up { node, .. } => notices.tell_ports(|| PortInput::Up(node)),
            Event::Lost { node, cause, .. } => {
                notices.tell_ports(|| PortInput::Lost(node, cause));
            }
            _ => {}
        }
    }

    /// Tells layers the end of a session, and its last messages before.
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
            let port = Port::of(message.channel);
            // A driver that takes none of them must not hold more and more.
            if !port.hears_of_peers() && shared.notices.inputs[port as usize].len() >= MAX_LEFT {
                continue;
            }
            let from = Source { node, session };
            shared
                .notices
                .tell_port(port, PortInput::Last(from, message));
        }
        shared
            .notices
            .tell_ports(|| PortInput::Ended(node, session, reason));
    }
}
