//! A router, as engines drive it.

use super::router::{NEXT_ROUTE_AFTER, Router, Step};
use super::wire::{CHANNELS, MAX_HOPS, OuterHeader};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use suci_proto::time::{Duration, Instant};
use suci_proto::types::{ChannelId, NodeId};
use suci_proto::{Engine, Outgoing, RoutedPacket, SendError};

/// Most packets that wait for a neighbour on one channel, or are not acknowledged. More are
/// dropped: packets that wait long are repeated by their sender in any case.
///
/// As many as the queue of a network card usually holds. While a neighbour's process sleeps for a
/// millisecond, 90 packets come at 1 Gbit/s, 900 at 10 Gbit/s. If these found no room, their sender
/// would take the loss for congestion.
pub(super) const MAX_WAITING: u64 = 1_024;

/// Most packets taken in one turn.
const BUDGET: usize = 256;

/// Time without an answer of a neighbour after which packets take another route.
const SILENT_AFTER: Duration = Duration::from_secs(1);

/// Time between two [looks](SharedRouter::look) at the neighbours, while there is traffic.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A packet for this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The node that made it.
    pub source: NodeId,
    /// The packet, as its engine made it.
    pub packet: Bytes,
}

/// The rest of an engine's turn, for its driver.
#[derive(Debug, Default)]
pub struct RoutedOutput {
    /// Packets for this node.
    pub deliveries: Vec<Delivery>,
    /// Messages to neighbours that another engine of the node serves.
    pub elsewhere: Vec<(NodeId, Outgoing)>,
}

/// A router that one or several engines drive: a node with several threads has an engine for each.
#[derive(Debug)]
pub struct SharedRouter {
    router: Mutex<Router>,
    /// Which of the engines have closed all sessions but those with carriers.
    closed: Box<[AtomicBool]>,
}

impl SharedRouter {
    /// Returns the router for this number of engines to drive.
    #[must_use]
    pub fn new(router: Router, engines: usize) -> Self {
        Self {
            router: Mutex::new(router),
            closed: (0..engines).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// Notes that an engine has closed all sessions but those with
    /// [carriers](Self::carriers).
    pub fn set_closed(&self, engine: usize) {
        if let Some(closed) = self.closed.get(engine) {
            closed.store(true, Ordering::Relaxed);
        }
    }

    /// Returns true if all engines have: no carrier is needed any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.iter().all(|it| it.load(Ordering::Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, Router> {
        // A panic in the layer is a fault of the library; the node goes on with what is there.
        self.router.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the neighbours that carry packets of this node. They are closed last.
    #[must_use]
    pub fn carriers(&self) -> BTreeSet<NodeId> {
        self.lock().carriers()
    }

    /// Notes that the program entered a neighbour, or removed it.
    pub fn set_neighbour(&self, node: NodeId, entered: bool) {
        self.lock().set_neighbour(node, entered);
    }

    /// Sends a packet of this node to `destination`, or drops it. `serves` tells the nodes that the
    /// engine serves; a message to another neighbour is returned.
    pub fn originate(
        &self,
        engine: &mut Engine,
        now: Instant,
        destination: NodeId,
        packet: &[u8],
        serves: impl Fn(NodeId) -> bool,
    ) -> Option<(NodeId, Outgoing)> {
        let Some(hop) = self.lock().originate(destination) else {
            engine.count_routed(RoutedPacket::Unknown);
            return None;
        };
        let message = hop.header.carry(Bytes::copy_from_slice(packet));
        if !serves(hop.next) {
            return Some((hop.next, message));
        }
        send(engine, now, hop.next, message, RoutedPacket::Sent);
        None
    }

    /// Sends a message that another engine of the node had for a neighbour of this one.
    pub fn send(&self, engine: &mut Engine, now: Instant, next: NodeId, message: Outgoing) {
        let header = OuterHeader::read(message.kind, &message.user_header);
        // Those of others were sent before.
        let kind = match header.is_ok_and(|header| header.hops == MAX_HOPS) {
            true => RoutedPacket::Sent,
            false => RoutedPacket::Forwarded,
        };
        send(engine, now, next, message, kind);
    }

    /// Takes packets of neighbours and sends them on. Call it if [`Engine::has_forwarded`]; it may
    /// leave some for the next call.
    pub fn serve(
        &self,
        engine: &mut Engine,
        now: Instant,
        serves: impl Fn(NodeId) -> bool,
    ) -> RoutedOutput {
        let mut router = self.lock();
        let mut output = RoutedOutput::default();
        for _ in 0..BUDGET {
            let Some((from, message)) = engine.recv_forwarded() else {
                break;
            };
            match router.receive(from, &message) {
                Step::Deliver(source) => {
                    engine.count_routed(RoutedPacket::Received);
                    output.deliveries.push(Delivery {
                        source,
                        packet: message.payload.into_bytes(),
                    });
                }
                Step::Forward(hop) => {
                    // A copy: the received bytes may be a slice of a much larger buffer.
                    let packet = planted_packet(Bytes::copy_from_slice(&message.payload));
                    let onward = hop.header.carry(packet);
                    if serves(hop.next) {
                        send(engine, now, hop.next, onward, RoutedPacket::Forwarded);
                    } else {
                        output.elsewhere.push((hop.next, onward));
                    }
                }
                Step::Drop(reason) => engine.count_routed(reason),
            }
        }
        output
    }

    /// Looks which of the engine's neighbours and nodes answer: others may be reached over other
    /// routes. Call it each [`LOOK_EVERY`] while there is traffic.
    pub fn look(&self, engine: &Engine, now: Instant, serves: impl Fn(NodeId) -> bool) {
        let mut router = self.lock();
        let carriers = router.carriers();
        for carrier in carriers.into_iter().filter(|node| serves(*node)) {
            router.set_silent(carrier, engine.is_silent(now, carrier, SILENT_AFTER));
        }
        let choices: Vec<_> = router.choices().filter(|node| serves(*node)).collect();
        for node in choices {
            if engine.is_silent(now, node, NEXT_ROUTE_AFTER) {
                router.on_unanswered(now, node);
            }
        }
    }
}

#[cfg(not(suci_plant))]
fn planted_packet(packet: Bytes) -> Bytes {
    packet
}

/// Returns `packet`, or with the planted fault `forwarded-altered` another one.
#[cfg(suci_plant)]
fn planted_packet(packet: Bytes) -> Bytes {
    if !suci_proto::plant::active("forwarded-altered") {
        return packet;
    }
    let mut bytes = Vec::from(packet);
    if let Some(last) = bytes.last_mut() {
        *last = !*last;
    }
    bytes.into()
}

/// Sends a message, as far as the neighbour's queue has room. Counts it as `kind` then.
fn send(engine: &mut Engine, now: Instant, next: NodeId, message: Outgoing, kind: RoutedPacket) {
    let counted = match engine.open_on(next, message.channel) {
        0..MAX_WAITING => match engine.send(now, next, message) {
            Ok(_) => kind,
            Err(SendError::UnknownPeer(_)) => RoutedPacket::Unknown,
            Err(SendError::NotPermitted { layer }) => {
                engine.report_denied(next, layer);
                RoutedPacket::Unknown
            }
            // The queue is full of other messages, or the session is suspended or closing.
            Err(_) => RoutedPacket::NoCredit,
        },
        _ => RoutedPacket::NoCredit,
    };
    engine.count_routed(counted);
}

const _: () = {
    // All that waits for a neighbour fits the queue that programs leave to layers.
    assert!(MAX_WAITING * CHANNELS as u64 * 2_048 <= 32 << 20);
    assert!(CHANNELS < 1 << 16 && ChannelId::of_forwarded(0).0 >> 24 == 8);
};
