//! Packets to nodes that are reached through others, and packets of others that this node sends on.

use super::Driver;
use super::input::hand_or_forward;
use crate::clock::Deadline;
use crate::error::Error;
use crate::shared::owner;
use std::sync::Arc;
use std::time::Duration;
use suci_layers::routes::{Behind, LOOK_EVERY, SharedRouter};
use suci_proto::time::Instant;
use suci_proto::types::{Ecn, NodeId};
use suci_proto::{Arrival, Engine, Outgoing, Port, RoutedPacket, TransmitResult};

/// How often a driver that closes asks whether the others have closed their peers.
const ASK_EVERY: Duration = Duration::from_millis(10);

/// A driver's part in its node's routes.
pub(crate) struct RoutesPart {
    router: Arc<SharedRouter>,
    /// The index of the driver's shard, and how many there are.
    index: usize,
    count: usize,
    /// When the driver next looks which neighbours answer.
    look_at: Instant,
}

impl RoutesPart {
    pub(crate) fn new(router: Arc<SharedRouter>, index: usize, count: usize) -> Self {
        Self {
            router,
            index,
            count,
            look_at: Instant::ZERO,
        }
    }

    /// Sends a message that another driver of the node had for a neighbour of this one. No other
    /// driver can tell whether that neighbour answers.
    pub(crate) fn send(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        next: NodeId,
        message: Outgoing,
    ) {
        self.look(engine, now);
        self.router.send(engine, now, next, message);
    }

    fn serves(&self) -> impl Fn(NodeId) -> bool + Copy + use<> {
        let (index, count) = (self.index, self.count);
        move |node| owner(node, count) == index
    }

    fn look(&mut self, engine: &Engine, now: Instant) {
        if now >= self.look_at {
            self.look_at = now + LOOK_EVERY;
            self.router.look(engine, now, self.serves());
        }
    }
}

impl Driver {
    /// Notes that the program entered a neighbour, or removed it.
    pub(super) fn set_neighbour(&self, node: NodeId, entered: bool) {
        if let Some(part) = &self.routes {
            part.router.set_neighbour(node, entered);
        }
    }

    /// Sends the train in the spill buffer, of packets of `segment` bytes, through a neighbour.
    /// Packets that find no room are dropped, as on any path.
    #[cold]
    pub(super) fn transmit_routed(&mut self, to: Behind, segment: usize) -> TransmitResult {
        let packets = self.spill.chunks(segment.max(1));
        let result = TransmitResult::Sent(packets.len());
        self.engine.transmit_done(self.now, result);
        let Some(part) = &mut self.routes else {
            return result;
        };
        part.look(&self.engine, self.now);
        let serves = part.serves();
        for packet in packets {
            let elsewhere = part
                .router
                .originate(&mut self.engine, self.now, to, packet, serves);
            if let (Some((next, message)), Some(shards)) = (elsewhere, &mut self.cross_shard)
                && !shards.route(next, message)
            {
                self.engine.count_routed(RoutedPacket::NoCredit);
            }
        }
        if let Some(shards) = &mut self.cross_shard {
            shards.wake();
        }
        result
    }

    /// Takes packets that neighbours sent on: hands the engine those for this node, and sends
    /// others on.
    #[inline]
    pub(super) fn serve_routes(&mut self) {
        if self.engine.has_port_input(Port::Forwarded) {
            self.take_routed();
        }
    }

    #[cold]
    fn take_routed(&mut self) {
        let (engine, now) = (&mut self.engine, self.now);
        let Some(part) = &mut self.routes else {
            while engine.poll_port(Port::Forwarded).is_some() {}
            return;
        };
        part.look(engine, now);
        let output = part.router.serve(engine, now, part.serves());
        for delivery in output.deliveries {
            let arrival = Arrival {
                from: delivery.from,
                to: None,
                ecn: Ecn::NotEct,
                at: now,
            };
            let mut bytes = Vec::from(delivery.packet);
            match &mut self.cross_shard {
                Some(shards) => hand_or_forward(engine, shards, now, &arrival, &mut bytes),
                None => engine.handle_datagram(now, &arrival, &mut bytes),
            }
        }
        let Some(shards) = &mut self.cross_shard else {
            return;
        };
        for (next, message) in output.elsewhere {
            if !shards.route(next, message) {
                engine.count_routed(RoutedPacket::NoCredit);
            }
        }
        shards.wake();
    }

    /// Closes the sessions with nodes behind others, while their neighbours still carry packets.
    pub(super) fn close_routed(
        &mut self,
        now: Instant,
        patience: Duration,
        wait: &mut impl FnMut(&mut Self, Deadline) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(part) = &self.routes else {
            return Ok(());
        };
        let router = Arc::clone(&part.router);
        if !router.is_in_use() {
            return Ok(());
        }
        let index = part.index;
        let deadline = Deadline::after(patience);
        let first = |address| Behind::at(address).is_some();
        self.engine.close_first(now, patience, first);
        self.run_cycle()?;
        loop {
            let closed = self.engine.has_closed_first();
            if closed {
                router.set_closed(index);
            }
            if router.is_closed() || deadline.is_over() {
                return Ok(());
            }
            let ask = Deadline::after(if closed { ASK_EVERY } else { patience });
            wait(self, deadline.earlier(ask))?;
        }
    }
}
