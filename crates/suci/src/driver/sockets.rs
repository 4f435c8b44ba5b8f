//! The layer of sockets.

use super::Driver;
use crate::clock::Clock;
use std::collections::BTreeSet;
use std::time::Duration;
use suci_layers::sockets::Sockets;
use suci_proto::time::Instant;
use suci_proto::types::NodeId;
use suci_proto::{Engine, Outgoing, SendError, SocketInput};

/// The time after which a cycle takes no more messages of sockets. Answers must leave, and other
/// messages wait.
const TIME: Duration = Duration::from_micros(500);

/// The things for which the layer of sockets waits.
#[derive(Debug, Default)]
pub(super) struct SocketWaits {
    /// Messages wait for room in the engine's queue.
    output: bool,
    /// Messages were sent at some time.
    sent: bool,
    /// The time when an attempt to connect is over.
    due: Option<Instant>,
    /// Nodes whose messages wait until answers to them find room.
    held: Vec<NodeId>,
    /// Nodes whose silence is noticed, since sockets are open with them.
    watched: BTreeSet<NodeId>,
}

impl SocketWaits {
    /// Lets the engine notice the silence of these nodes, and of no others.
    fn watch(&mut self, live: BTreeSet<NodeId>, engine: &mut Engine, now: Instant) {
        for node in self.watched.difference(&live) {
            engine.await_member(now, *node, false);
        }
        // A node that the engine does not know yet has no count that could be lowered later.
        let known = |node: &NodeId| self.watched.contains(node) || engine.knows(*node);
        let live: BTreeSet<_> = live.into_iter().filter(known).collect();
        for node in live.difference(&self.watched) {
            engine.await_member(now, *node, true);
        }
        self.watched = live;
    }
}

impl Driver {
    /// Returns true if the layer of sockets has something to do.
    pub(super) fn has_socket_work(&self) -> bool {
        self.socket_waits.output
            || self.sockets.has_left_output()
            || self.engine.has_socket_input()
            || self.socket_waits.due.is_some_and(|at| at <= self.now)
    }

    /// Returns the time when the layer has something to do.
    pub(super) const fn sockets_due(&self) -> Option<Instant> {
        self.socket_waits.due
    }

    /// Returns true if messages of sockets may be in the engine's queues, of which the gates of a
    /// shared node know nothing.
    pub(crate) const fn sends_for_sockets(&self) -> bool {
        self.socket_waits.sent
    }

    /// Returns true if messages of sockets wait for room in the engine's queue.
    pub(crate) const fn sockets_wait(&self) -> bool {
        self.socket_waits.output
    }

    /// Takes what came for sockets, and sends. If more came than one call takes, the next cycle is
    /// due at once.
    ///
    /// It sends only when the layer knows of each session that ended: a message that belongs to an
    /// ended session must not go into the next one.
    #[cold]
    pub(crate) fn serve_sockets(&mut self) {
        self.sockets.begin_serving();
        let (engine, waits, now) = (&mut self.engine, &mut self.socket_waits, self.now);
        let began = Clock.now();
        let table = &self.sockets;
        while engine.has_socket_news() || Clock.now().since(began) <= TIME {
            let Some(input) = engine.poll_sockets() else {
                break;
            };
            let from = match &input {
                SocketInput::Message(from, _) => Some(*from),
                _ => None,
            };
            let takes = table.serve(|sockets| {
                sockets.on_input(input);
                from.is_none_or(|node| sockets.takes(node))
            });
            if let Some(node) = from.filter(|_| !takes) {
                engine.hold_sockets(node, true);
                waits.held.push(node);
            }
        }
        table.serve(|sockets| {
            sockets.on_timeout(now);
            waits.sent |= sockets.has_output();
            send(sockets, engine, now);
            waits.output = sockets.has_output();
            if let Some(live) = sockets.poll_live() {
                waits.watch(live, engine, now);
            }
            waits.due = sockets.next_timeout();
            waits.held.retain(|node| {
                let held = !sockets.takes(*node);
                if !held {
                    engine.hold_sockets(*node, false);
                }
                held
            });
        });
    }
}

/// Sends messages of sockets, as far as the engine's queues have room. Sockets use half of a
/// peer's queue, as active messages do.
fn send(sockets: &mut Sockets, engine: &mut Engine, now: Instant) {
    let mut unknown = Vec::new();
    sockets.transmit(|to, message: &Outgoing| {
        if !engine.has_room_for_active(to, message.payload.len() as u64) {
            return false;
        }
        match engine.send(now, to, message.clone()) {
            Ok(_) => true,
            Err(SendError::UnknownPeer(_) | SendError::Closed) => {
                unknown.push(to);
                true
            }
            // Room or the session may come again.
            Err(_) => false,
        }
    });
    for node in unknown {
        sockets.on_unknown(node);
    }
}
