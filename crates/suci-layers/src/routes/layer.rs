//! A router, as engines drive it.

use super::address::Behind;
use super::router::{NEXT_ROUTE_AFTER, Router, Step};
use super::wire::{CHANNELS, MAX_HOPS, OuterHeader};
use bytes::Bytes;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use suci_proto::time::{Duration, Instant};
use suci_proto::types::{ChannelId, NodeId};
use suci_proto::{Engine, Outgoing, Port, PortInput, RoutedPacket, SendError};

/// Maximum number of packets that wait for a neighbour on one channel, or are not acknowledged.
/// More are dropped: packets that wait long are repeated by their sender in any case.
///
/// As many as the queue of a network card usually holds. While a neighbour's process sleeps for a
/// millisecond, 90 packets come at 1 Gbit/s, 900 at 10 Gbit/s. If these found no room, their sender
/// would take the loss for congestion.
pub(super) const MAX_WAITING: u64 = 1_024;

/// Maximum number of packets taken in one turn.
const BUDGET: usize = 256;

/// Time without an answer of a neighbour after which packets take another route.
const SILENT_AFTER: Duration = Duration::from_secs(1);

/// Time between two [looks](SharedRouter::look) at the neighbours, while there is traffic.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A packet for this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The address that stands for the node that made it.
    pub from: SocketAddr,
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
    /// Which of the engines have closed all sessions that go through others.
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

    /// Notes that an engine has closed all sessions that go through others.
    pub fn set_closed(&self, engine: usize) {
        if let Some(closed) = self.closed.get(engine) {
            closed.store(true, Ordering::Relaxed);
        }
    }

    /// Returns true if all engines have: no neighbour has to carry packets any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.iter().all(|it| it.load(Ordering::Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, Router> {
        // A panic in the layer is a fault of the library; the node goes on with what is there.
        self.router.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if sessions of this node may go through others. They are closed first.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.lock().is_in_use()
    }

    /// Notes that the program entered a neighbour, or removed it.
    pub fn set_neighbour(&self, node: NodeId, entered: bool) {
        self.lock().set_neighbour(node, entered);
    }

    /// Sends a packet of this node to another one, or drops it. `serves` tells the nodes that the
    /// engine serves; a message to another neighbour is returned.
    pub fn originate(
        &self,
        engine: &mut Engine,
        now: Instant,
        to: Behind,
        packet: &[u8],
        serves: impl Fn(NodeId) -> bool,
    ) -> Option<(NodeId, Outgoing)> {
        let mut router = self.lock();
        if engine.is_silent(now, to.node, NEXT_ROUTE_AFTER) {
            router.on_unanswered(now, to.node);
        }
        let Some(hop) = router.originate(to) else {
            engine.count_routed(RoutedPacket::Unknown);
            return None;
        };
        drop(router);
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

    /// Takes packets of neighbours and sends them on. Call it if [`Engine::has_port_input`]; it may
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
            let Some(PortInput::Message(from, message)) = engine.poll_port(Port::Forwarded) else {
                break;
            };
            let from = from.node;
            match router.receive(from, is_carried(engine, from), &message) {
                Step::Deliver(source) => {
                    engine.count_routed(RoutedPacket::Received);
                    output.deliveries.push(Delivery {
                        from: source.address(),
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

    /// Looks which of the engine's neighbours answer: packets take routes over others. Call it each
    /// [`LOOK_EVERY`] while there is traffic.
    pub fn look(&self, engine: &Engine, now: Instant, serves: impl Fn(NodeId) -> bool) {
        let mut router = self.lock();
        let carriers = router.carriers().iter().filter(|node| serves(**node));
        let looks = |node: &NodeId| (*node, engine.is_silent(now, *node, SILENT_AFTER));
        let looks: Vec<_> = carriers.map(looks).collect();
        for (carrier, silent) in looks {
            router.set_silent(carrier, silent);
        }
    }
}

/// Returns true if the session with this neighbour goes through others: it carries nothing.
fn is_carried(engine: &Engine, neighbour: NodeId) -> bool {
    let address = engine.presumed_address(neighbour);
    address.and_then(Behind::at).is_some()
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
        _ if is_carried(engine, next) => RoutedPacket::NotAllowed,
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
