//! Messages for the handlers of layers: active messages, which the program takes, and one-sided
//! operations and membership, which need no program. The layer of one-sided operations is also told
//! of peers.

use super::Engine;
use crate::event::{EndReason, Event, LostCause};
use suci_channels::handler::Handler;
use suci_channels::message::{Held, Message, has_room};
use suci_link::limits;
use suci_link::types::{ChannelId, Layer, NodeId, SessionNumber, Source};

/// News for the layer of one-sided operations, in order for each peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemoteInput {
    /// A request, or an answer.
    Message(Source, Message),
    /// The same of a session that is over: no answer can reach it.
    Last(Source, Message),
    /// The receiver refused a message, or does not permit this node one-sided operations.
    Refused {
        /// The receiver.
        node: NodeId,
        /// The channel.
        channel: ChannelId,
        /// The message's token.
        token: u64,
        /// The receiver's reason, or [`NOT_PERMITTED`](crate::NOT_PERMITTED).
        reason: u64,
    },
    /// The peer does not answer.
    Lost(NodeId, LostCause),
    /// The session is over. All its messages came before.
    Ended(NodeId, SessionNumber, EndReason),
}

/// A change of the cluster's members ([`Engine::report_member`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// A node joined.
    Joined,
    /// A member left.
    Left,
    /// A member failed.
    Failed,
}

impl Engine {
    /// Returns the next news for the layer of one-sided operations. It has handled the one before.
    /// Taking a message gives its sender memory credit back. Messages of peers that are
    /// [held](Engine::hold_remote) wait.
    pub fn poll_remote(&mut self) -> Option<RemoteInput> {
        if let Some(key) = self.remote_taken.take()
            && let Some(peer) = self.peers.get_mut(key)
            && peer.session.inbox.on_handled()
        {
            // The peer must be told if the next message is permitted.
            self.touch(key);
        }
        if let Some(input) = self.shared.remote_inputs.pop_front() {
            return Some(input);
        }
        let (key, from, message) = self.take_for(Handler::Remote)?;
        self.remote_taken = Some(key);
        Some(RemoteInput::Message(from, message))
    }

    /// Returns the next active message. Taking it gives its sender memory credit back.
    pub fn recv_active(&mut self) -> Option<(Source, Message)> {
        let (_, from, message) = self.take_for(Handler::Active)?;
        self.yields_since = None;
        Some((from, message))
    }

    /// Returns the next active message on `channel`, whatever waits on others.
    pub fn recv_active_on(&mut self, channel: ChannelId) -> Option<(Source, Message)> {
        let mut keys = self.by_handler[Handler::Active as usize].flows();
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

    /// Returns the next message about membership. Taking it gives its sender memory credit back.
    pub fn recv_membership(&mut self) -> Option<(Source, Message)> {
        if let Some(left) = self.shared.membership_left.pop_front() {
            return Some(left);
        }
        let (_, from, message) = self.take_for(Handler::Membership)?;
        Some((from, message))
    }

    /// Returns true if [`Engine::recv_membership`] may have something.
    #[must_use]
    pub fn has_membership(&self) -> bool {
        self.lists_for(Handler::Membership) || !self.shared.membership_left.is_empty()
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
            self.update(key, |peer, shared| peer.push_event(event, shared));
        }
    }

    /// Reports to the program that `node` does not permit this node a layer that the library itself
    /// uses: once in a session. Nothing happens if the node is unknown.
    pub fn report_denied(&mut self, node: NodeId, layer: Layer) {
        if let Some(key) = self.peer_key(node) {
            self.update(key, |peer, shared| peer.tell_denied(layer, shared));
        }
    }

    /// Returns true if [`Engine::recv_active`] may have something.
    #[must_use]
    pub fn has_active(&self) -> bool {
        self.lists_for(Handler::Active)
    }

    /// Returns true if [`Engine::poll_remote`] may have something.
    #[must_use]
    pub fn has_remote_input(&self) -> bool {
        self.lists_for(Handler::Remote) || self.has_remote_news() || self.remote_taken.is_some()
    }

    /// Returns true if [`Engine::poll_remote`] has news beside messages of open sessions. They come
    /// first.
    #[must_use]
    pub fn has_remote_news(&self) -> bool {
        !self.shared.remote_inputs.is_empty()
    }

    /// Leaves one-sided operations of `node` where they are, or no longer: while answers to it
    /// find no room, its memory credit holds it back.
    pub fn hold_remote(&mut self, node: NodeId, held: bool) {
        self.hold(Handler::Remote, node, held);
    }

    /// Leaves messages of `node` for `handler` where they are, or no longer.
    pub(super) fn hold(&mut self, handler: Handler, node: NodeId, held: bool) {
        let Some(key) = self.peer_key(node) else {
            return;
        };
        if let Some(peer) = self.peers.get_mut(key) {
            peer.held[handler as usize] = held;
        }
        if held {
            self.by_handler[handler as usize].remove(key);
        } else {
            self.touch(key);
        }
    }

    /// Returns the next message for `handler`, and the key of its peer; peers in turn.
    pub(super) fn take_for(&mut self, handler: Handler) -> Option<(usize, Source, Message)> {
        let peers = &mut self.by_handler[handler as usize];
        while let Some(key) = peers.front() {
            let peer = self.peers.get_mut(key);
            let next = peer.and_then(|peer| peer.next_for(handler, &mut self.shared));
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

    /// Returns true if [`Engine::take_for`] may return a message.
    pub(super) fn lists_for(&self, handler: Handler) -> bool {
        !self.by_handler[handler as usize].is_empty()
    }

    /// Moves messages of `node` to the program from the memory that was named for them to memory of
    /// the engine. Bytes that are still to come go there, too.
    pub fn take_back(&mut self, node: NodeId) {
        if let Some(peer) = self.peer_key(node).and_then(|key| self.peers.get_mut(key)) {
            peer.session.inbox.take_back();
        }
    }
}
