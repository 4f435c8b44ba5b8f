//! The door of the layers: each takes its input at its [`Port`].

use super::Engine;
use crate::event::Event;
use crate::shared::{MemberChange, PortInput};
use suci_channels::message::{Held, Message, has_room};
use suci_channels::port::Port;
use suci_link::limits;
use suci_link::types::{ChannelId, Layer, NodeId, Source};

impl Engine {
    /// Returns the next input at a port. Taking a message gives its sender memory credit back;
    /// those of peers that are [held](Self::hold_port) wait. The layer of one-sided operations has
    /// handled the message before.
    pub fn poll_port(&mut self, port: Port) -> Option<PortInput> {
        if port == Port::Remote
            && let Some(key) = self.remote_taken.take()
            && let Some(peer) = self.peers.get_mut(key)
            && peer.session.inbox.on_handled()
        {
            // The peer must be told if the next message is permitted.
            self.touch(key);
        }
        if let Some(input) = self.shared.notices.inputs[port as usize].pop_front() {
            return Some(input);
        }
        let (key, from, message) = self.take_for(port)?;
        if port == Port::Remote {
            self.remote_taken = Some(key);
        }
        Some(PortInput::Message(from, message))
    }

    /// Returns true if [`Engine::poll_port`] may have something.
    #[must_use]
    pub fn has_port_input(&self, port: Port) -> bool {
        let is_handled = port == Port::Remote && self.remote_taken.is_some();
        is_handled || !self.by_port[port as usize].is_empty() || self.has_port_news(port)
    }

    /// Returns true if [`Engine::poll_port`] has something beside messages of open sessions. It
    /// comes first.
    #[must_use]
    pub fn has_port_news(&self, port: Port) -> bool {
        !self.shared.notices.inputs[port as usize].is_empty()
    }

    /// Returns true if [`Engine::poll_port`] may have something for the library itself, not for the
    /// program.
    #[must_use]
    pub fn has_input_of_layers(&self) -> bool {
        let of_library = Port::ALL.iter().filter(|port| **port != Port::Active);
        of_library.copied().any(|port| self.has_port_input(port))
    }

    /// Leaves messages of `node` at a port where they are, or no longer: while answers to them find
    /// no room, its memory credit holds it back.
    pub fn hold_port(&mut self, port: Port, node: NodeId, held: bool) {
        let Some(key) = self.peer_key(node) else {
            return;
        };
        if let Some(peer) = self.peers.get_mut(key) {
            peer.held[port as usize] = held;
        }
        if held {
            self.by_port[port as usize].remove(key);
        } else {
            self.touch(key);
        }
    }

    /// Returns the next active message. Taking it gives its sender memory credit back.
    pub fn recv_active(&mut self) -> Option<(Source, Message)> {
        let (_, from, message) = self.take_for(Port::Active)?;
        self.yields_since = None;
        Some((from, message))
    }

    /// Returns the next active message on `channel`, whatever waits on others.
    pub fn recv_active_on(&mut self, channel: ChannelId) -> Option<(Source, Message)> {
        let mut keys = self.by_port[Port::Active as usize].flows();
        let (key, received) = keys.find_map(|key| {
            let peer = self.peers.get_mut(key)?;
            let received = peer.next_active_on(channel, &mut self.shared)?;
            Some((key, received))
        })?;
        drop(keys);
        self.dirty.add(key);
        self.yields_since = None;
        Some(received)
    }

    /// Returns true if the program may queue one more active message of `bytes` for `node`. The
    /// program may fill half of the queue with them. The other half is left to the messages that
    /// handlers send: these must not wait for messages whose receiver waits likewise.
    #[must_use]
    pub fn has_room_for_active(&self, node: NodeId, bytes: u64) -> bool {
        let held = self.queued(node).open();
        let most = self.shared.config.send_queue / 2;
        let messages = limits::MAX_QUEUED_MESSAGES as u64 / 2;
        has_room(held.charge(), Held::one(bytes).charge(), most) && held.messages < messages
    }

    /// Reports to the program that `node` joined, left or failed as a member of the cluster, in
    /// order with the peer's other events. Nothing happens if the node is unknown.
    pub fn report_member(&mut self, node: NodeId, change: MemberChange) {
        if let Some(key) = self.peer_key(node) {
            let event = match change {
                MemberChange::Joined => Event::MemberJoined { node },
                MemberChange::Left => Event::MemberLeft { node },
                MemberChange::Failed => Event::MemberFailed { node },
            };
            self.update(key, |peer, shared| {
                peer.push_event(event, &mut shared.notices)
            });
        }
    }

    /// Reports to the program that `node` does not permit this node a layer that the library itself
    /// uses: once in a session. Nothing happens if the node is unknown.
    pub fn report_denied(&mut self, node: NodeId, layer: Layer) {
        if let Some(key) = self.peer_key(node) {
            self.update(key, |peer, shared| {
                peer.tell_denied(layer, &mut shared.notices)
            });
        }
    }

    /// Returns true if [`Engine::recv_active`] may have something.
    #[must_use]
    pub fn has_active(&self) -> bool {
        self.has_port_input(Port::Active)
    }

    /// Returns the next message at a port, and the key of its peer; peers in turn.
    fn take_for(&mut self, port: Port) -> Option<(usize, Source, Message)> {
        let peers = &mut self.by_port[port as usize];
        while let Some(key) = peers.front() {
            let peer = self.peers.get_mut(key);
            let next = peer.and_then(|peer| peer.next_for(port, &mut self.shared));
            let Some((from, message)) = next else {
                peers.drop_front();
                continue;
            };
            peers.pass();
            // The peer must be told its new credit.
            self.dirty.add(key);
            return Some((key, from, message));
        }
        None
    }

    /// Moves messages of `node` to the program from the memory that was named for them to memory of
    /// the engine. Bytes that are still to come go there, too.
    pub fn take_back(&mut self, node: NodeId) {
        if let Some(peer) = self.peer_key(node).and_then(|key| self.peers.get_mut(key)) {
            peer.session.inbox.take_back();
        }
    }
}
