//! A table of sockets that gets arbitrary messages from peers and arbitrary calls of its program.
//! The fuzz target `sockets` and a property test use it.
//!
//! A message that can be read is written again with the same meaning. Peers never make the table
//! larger than its program allows: beside the sockets that the program opened or accepted there are
//! as many as the backlogs of its listeners. When sessions and sockets are over, nothing is left.

use std::collections::BTreeSet;
use suci_layers::sockets::{Address, MEMORY, Packet, SocketId, SocketKind, Sockets};
use suci_proto::time::Instant;
use suci_proto::types::{ChannelId, Kind, NodeId, SessionNumber, Source};
use suci_proto::{Data, EndReason, LostCause, Message, PortInput};

const BACKLOG: usize = 3;
const PORTS: [(u16, SocketKind); 2] = [(7, SocketKind::Messages), (8, SocketKind::Stream)];
const NODES: u8 = 4;

/// The first kind of the layer's messages. Smaller first bytes of a piece are calls.
const FIRST_KIND: u8 = 64;

/// Runs what the bytes say, in pieces: the first byte of each is what happens, the second the node,
/// the third its length.
pub(crate) fn run(data: &[u8]) {
    let mut table = Table::new();
    let mut rest = data;
    while let [what, node, length, after @ ..] = rest {
        let (piece, more) = after.split_at(usize::from(*length).min(after.len()));
        rest = more;
        let node = NodeId(u32::from(node % NODES));
        match *what {
            kind if kind >= FIRST_KIND => table.message(Kind(kind), node, piece),
            call => table.call(call, node, piece),
        }
        table.check();
    }
    table.finish();
}

struct Table {
    sockets: Sockets,
    listeners: Vec<SocketId>,
    /// Sockets that the program opened or accepted.
    held: Vec<SocketId>,
    now: u64,
}

impl Table {
    fn new() -> Self {
        let mut sockets = Sockets::new();
        let mut listeners = Vec::new();
        for (port, kind) in PORTS {
            listeners.extend(sockets.listen(port, kind, BACKLOG));
        }
        Self {
            sockets,
            listeners,
            held: Vec::new(),
            now: 1,
        }
    }

    /// A peer's message: 2 bytes of its tag, which names a socket, then the user header.
    fn message(&mut self, kind: Kind, node: NodeId, piece: &[u8]) {
        let (tag, header) = match piece {
            [slot, use_of_slot, header @ ..] => {
                let tag = u64::from(*slot) + (u64::from(*use_of_slot) << 20);
                (tag, header)
            }
            _ => (0, piece),
        };
        if let Ok(packet) = Packet::read(kind, tag, header) {
            let (kind, tag, header) = packet.write();
            assert_eq!(Packet::read(kind, tag, &header), Ok(packet));
        }
        let message = Message {
            channel: ChannelId::of_sockets(u32::from(kind.0 % 16)),
            number: 0,
            tag,
            kind,
            user_header: header.to_vec().into(),
            payload: Data::from(bytes::Bytes::copy_from_slice(header)),
        };
        let (now, session) = (Instant::from_nanos(self.now), SessionNumber(0));
        let from = Source { node, session };
        self.sockets
            .on_input(now, PortInput::Message(from, message));
    }

    /// A call of the program, or news of the engine.
    fn call(&mut self, call: u8, node: NodeId, piece: &[u8]) {
        let chosen = piece.first().map_or(0, |at| usize::from(*at));
        let id = self.held.get(chosen % self.held.len().max(1)).copied();
        let id = id.unwrap_or_default();
        let now = Instant::from_nanos(self.now);
        let sockets = &mut self.sockets;
        match call % 12 {
            0 => {
                let (port, kind) = PORTS[chosen % 2];
                let peer = Address { node, port };
                self.held.extend(sockets.connect(now, 40_000, peer, kind));
            }
            1 => {
                let accepted = sockets.accept(self.listeners[chosen % 2]);
                self.held.extend(accepted.map(|(id, _)| id));
            }
            2 => drop(sockets.send(id, piece, chosen.is_multiple_of(2))),
            3 => drop(sockets.take(id)),
            4 => drop(sockets.shutdown(id)),
            5 => {
                sockets.close(id);
                // It stays in the table until the peer answers.
            }
            6 => sockets.on_input(now, PortInput::Lost(node, LostCause::NoAnswer)),
            7 => sockets.on_input(
                now,
                PortInput::Ended(node, SessionNumber(0), EndReason::PeerEnded),
            ),
            8 => {
                self.now += 1_000_000_000 * chosen as u64;
                sockets.on_timeout(Instant::from_nanos(self.now));
            }
            9 => sockets.transmit(|_, _| true),
            10 => sockets.on_input(now, PortInput::Up(node)),
            _ => {
                let (channel, token, reason) = (ChannelId::of_sockets(0), 0, 0);
                let refused = PortInput::Refused {
                    node,
                    channel,
                    token,
                    reason,
                };
                sockets.on_input(now, refused);
            }
        }
    }

    fn check(&mut self) {
        while self.sockets.poll_changed().is_some() {}
        let own = self.listeners.len() * (1 + BACKLOG) + self.held.len();
        let count = self.sockets.count();
        assert!(count <= own, "{count} sockets, at most {own} expected");
        assert!(self.sockets.promised() <= MEMORY);
    }

    fn finish(mut self) {
        for id in self.held.drain(..).collect::<BTreeSet<_>>() {
            self.sockets.close(id);
        }
        for node in 0..NODES {
            let ended =
                PortInput::Ended(NodeId(node.into()), SessionNumber(0), EndReason::PeerEnded);
            self.sockets.on_input(Instant::from_nanos(self.now), ended);
        }
        for id in self.listeners {
            self.sockets.close(id);
        }
        // Connections whose OPEN waits go into the next session, but their sockets were closed.
        assert_eq!((self.sockets.count(), self.sockets.promised()), (0, 0));
        assert_eq!(self.sockets.next_timeout(), None);
    }
}
