//! Messages for the layer of sockets, which needs no program to take them.

use super::Engine;
use crate::event::{EndReason, LostCause};
use suci_channels::handler::Handler;
use suci_channels::message::Message;
use suci_link::types::NodeId;

/// News for the layer of sockets, in order for each peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketInput {
    /// A message.
    Message(NodeId, Message),
    /// The receiver refused a message.
    Refused(NodeId),
    /// The peer does not permit this node sockets.
    Denied(NodeId),
    /// The peer answers, for the first time or again.
    Up(NodeId),
    /// The peer does not answer.
    Lost(NodeId, LostCause),
    /// No process has the peer's port at any of its addresses: this machine's kernel reports it, or
    /// the network does and a few questions stayed unanswered. The peer may start later.
    NoProcess(NodeId),
    /// No way leads to any of the peer's addresses: the network reports it of each, and a few
    /// questions stayed unanswered.
    NoWay(NodeId),
    /// The session is over. All its messages came before.
    Ended(NodeId, EndReason),
}

impl Engine {
    /// Returns the next news for the layer of sockets. Taking a message gives its sender memory
    /// credit back. Messages of peers that are [held](Engine::hold_sockets) wait.
    pub fn poll_sockets(&mut self) -> Option<SocketInput> {
        if let Some(input) = self.shared.socket_inputs.pop_front() {
            return Some(input);
        }
        let (_, from, message) = self.take_for(Handler::Sockets)?;
        Some(SocketInput::Message(from.node, message))
    }

    /// Returns true if [`Engine::poll_sockets`] may have something.
    #[must_use]
    pub fn has_socket_input(&self) -> bool {
        self.lists_for(Handler::Sockets) || self.has_socket_news()
    }

    /// Returns true if [`Engine::poll_sockets`] has news beside messages of open sessions. They
    /// come first.
    #[must_use]
    pub fn has_socket_news(&self) -> bool {
        !self.shared.socket_inputs.is_empty()
    }

    /// Leaves messages of sockets of `node` where they are, or no longer: while answers to them
    /// find no room, its memory credit holds it back.
    pub fn hold_sockets(&mut self, node: NodeId, held: bool) {
        self.hold(Handler::Sockets, node, held);
    }
}
