//! Two tables that exchange all messages at once.

use super::super::{Address, ConnectionFailure, Received, SocketId, SocketKind, Sockets};
use suci_proto::time::Instant;
use suci_proto::types::{NodeId, SessionNumber, Source};
use suci_proto::{Data, Message, Outgoing, PortInput};

pub(super) const PORT: u16 = 7;
pub(super) const NOW: Instant = Instant::from_nanos(5);
pub(super) const CLIENT: usize = 0;
pub(super) const SERVER: usize = 1;

/// The tables of node 0, the client, and of node 1.
#[derive(Default)]
pub(super) struct Pair {
    pub(super) tables: [Sockets; 2],
}

pub(super) const fn node(side: usize) -> NodeId {
    NodeId(side as u32)
}

/// The first session with a node.
pub(super) const fn source(node: NodeId) -> Source {
    let session = SessionNumber(0);
    Source { node, session }
}

pub(super) fn server() -> Address {
    Address {
        node: node(SERVER),
        port: PORT,
    }
}

pub(super) fn arrived(message: Outgoing) -> Message {
    Message {
        channel: message.channel,
        number: 0,
        tag: message.tag,
        kind: message.kind,
        user_header: message.user_header,
        payload: Data::from(message.payload),
    }
}

impl Pair {
    /// A pair whose server listens.
    pub(super) fn listening(kind: SocketKind, backlog: usize) -> (Self, SocketId) {
        let mut pair = Self::default();
        let listener = pair.tables[SERVER].listen(PORT, kind, backlog);
        (pair, listener.unwrap())
    }

    /// A pair with a connection: the client's socket, and the server's.
    pub(super) fn connected(kind: SocketKind) -> (Self, SocketId, SocketId) {
        let (mut pair, listener) = Self::listening(kind, 8);
        let client = pair.connect(kind);
        pair.settle();
        let (server, _) = pair.tables[SERVER].accept(listener).unwrap();
        (pair, client, server)
    }

    pub(super) fn connect(&mut self, kind: SocketKind) -> SocketId {
        let client = self.tables[CLIENT].connect(NOW, 40_000, server(), kind);
        client.unwrap()
    }

    /// Returns the messages of a side that wait.
    pub(super) fn sent_by(&mut self, side: usize) -> Vec<Outgoing> {
        let mut sent = Vec::new();
        self.tables[side].transmit(|_, message| {
            sent.push(message.clone());
            true
        });
        sent
    }

    /// Carries all messages of a side to the other. Returns how many.
    pub(super) fn carry(&mut self, from: usize) -> usize {
        let sent = self.sent_by(from);
        let count = sent.len();
        for message in sent {
            let input = PortInput::Message(source(node(from)), arrived(message));
            self.tables[1 - from].on_input(NOW, input);
        }
        count
    }

    /// Carries messages until there are none.
    pub(super) fn settle(&mut self) {
        while self.carry(CLIENT) + self.carry(SERVER) > 0 {}
    }

    /// Takes everything that arrived, and how it ends.
    pub(super) fn read(
        &mut self,
        side: usize,
        id: SocketId,
    ) -> (Vec<u8>, Result<Received, ConnectionFailure>) {
        let mut all = Vec::new();
        loop {
            match self.tables[side].take(id) {
                Ok(Received::Data { bytes, .. }) => all.extend_from_slice(&bytes),
                end => return (all, end),
            }
        }
    }
}
