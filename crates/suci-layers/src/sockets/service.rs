//! Carries the messages of a table of sockets over an engine.

use super::Sockets;
use std::collections::BTreeSet;
use suci_proto::time::Instant;
use suci_proto::types::NodeId;
use suci_proto::{Engine, Outgoing, Port, PortInput, SendError};

/// A table of sockets that a driver may share with calls of the program.
pub trait SharedSockets {
    /// Changes the table, and wakes those for whom something changed.
    fn serve<T>(&self, change: impl FnOnce(&mut Sockets) -> T) -> T;
}

/// The part of a driver that serves one table. It remembers what the table waits for.
#[derive(Debug, Default)]
pub struct SocketService {
    /// Messages wait for room in the engine's queue.
    waits: bool,
    /// Messages were sent at some time.
    sent: bool,
    /// The time when an attempt to connect is over.
    due: Option<Instant>,
    /// Nodes whose messages wait until answers to them find room.
    held: Vec<NodeId>,
    /// Nodes whose silence is noticed, since sockets are open with them.
    watched: BTreeSet<NodeId>,
}

impl SocketService {
    /// Returns true if messages of sockets were handed to the engine at some time.
    #[must_use]
    pub const fn has_sent(&self) -> bool {
        self.sent
    }

    /// Returns the time when the table has something to do.
    #[must_use]
    pub const fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns true if [`SocketService::serve`] has something to do at `now`, beside messages that
    /// calls of the program left.
    #[must_use]
    pub fn has_work(&self, engine: &Engine, now: Instant) -> bool {
        self.waits || engine.has_port_input(Port::Sockets) || self.due.is_some_and(|at| at <= now)
    }

    /// Takes what came for the sockets as long as `goes_on` returns true, and sends. It never
    /// blocks.
    ///
    /// News about sessions is always taken. A message that belongs to an ended session must not go
    /// into the next one, so the table must know of each session that ended before it sends.
    pub fn serve(
        &mut self,
        table: &impl SharedSockets,
        engine: &mut Engine,
        now: Instant,
        mut goes_on: impl FnMut() -> bool,
    ) {
        while engine.has_port_news(Port::Sockets) || goes_on() {
            let Some(input) = engine.poll_port(Port::Sockets) else {
                break;
            };
            let from = match &input {
                PortInput::Message(from, _) => Some(from.node),
                _ => None,
            };
            let takes = table.serve(|sockets| {
                sockets.on_input(now, input);
                from.is_none_or(|node| sockets.takes(node))
            });
            if let Some(node) = from.filter(|_| !takes) {
                engine.hold_port(Port::Sockets, node, true);
                self.held.push(node);
            }
        }
        table.serve(|sockets| {
            sockets.on_timeout(now);
            self.sent |= sockets.has_output();
            withdraw(sockets, engine);
            send(sockets, engine, now);
            self.waits = sockets.has_output();
            if let Some(live) = sockets.poll_live() {
                self.watch(live, engine, now);
            }
            self.due = sockets.next_timeout();
            self.held.retain(|node| {
                let held = !sockets.takes(*node);
                if !held {
                    engine.hold_port(Port::Sockets, *node, false);
                }
                held
            });
        });
    }

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

/// Cancels OPENs that nobody waits for, as far as they were not sent.
fn withdraw(sockets: &mut Sockets, engine: &mut Engine) {
    while let Some(open) = sockets.poll_withdrawn() {
        // It fails if the engine does not know the node, which was told then.
        let _ = engine.cancel(open.node, open.channel, open.token);
    }
}

/// Sends messages of sockets, as far as the engine's queues have room. Sockets use half of a
/// peer's queue, as active messages do.
fn send(sockets: &mut Sockets, engine: &mut Engine, now: Instant) {
    let (mut unknown, mut denied) = (Vec::new(), Vec::new());
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
            Err(SendError::NotPermitted { .. }) => {
                denied.push(to);
                true
            }
            // Room or the session may come again.
            Err(_) => false,
        }
    });
    for node in unknown {
        sockets.on_unknown(node);
    }
    for node in denied {
        sockets.on_denied(node);
    }
}
