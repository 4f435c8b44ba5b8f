//! Nodes that reach each other through others: each process has a router, as drivers have.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use suci_layers::routes::{
    Behind, Delivery, LOOK_EVERY, Router, RouterSettings, Routes, SharedRouter,
};
use suci_proto::Engine;
use suci_proto::Port;
use suci_proto::time::{Duration, Instant};
use suci_proto::types::NodeId;

use crate::options::Options;
use crate::packet::{HostId, Packet};

/// Which hosts exchange packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Each host with the one before it and the one after it.
    Chain,
    /// The first hosts, as many as this, with all others. The others reach each other through
    /// these.
    Gateways(usize),
}

impl Topology {
    /// Returns the hosts through which one reaches another, in the order in which they are tried;
    /// none if the two are neighbours.
    #[must_use]
    pub fn vias(&self, from: HostId, to: HostId) -> Vec<HostId> {
        match *self {
            Self::Chain if from.abs_diff(to) <= 1 => Vec::new(),
            Self::Chain if from < to => vec![from + 1],
            Self::Chain => vec![from - 1],
            Self::Gateways(count) if from < count || to < count => Vec::new(),
            // The same order at both ends.
            Self::Gateways(count) => (0..count).map(|it| (it + from + to) % count).collect(),
        }
    }
}

impl Topology {
    /// Returns the packets that one packet between two of these hosts takes at most: on each hop
    /// one, and its acknowledgement.
    #[must_use]
    pub const fn packets(&self, hosts: usize) -> u64 {
        match self {
            Self::Chain => 2 * hosts as u64,
            Self::Gateways(_) => 4,
        }
    }
}

/// The packets on the way through others, by their bytes: no two have the same.
#[derive(Debug, Default)]
pub struct Carriage(BTreeMap<Bytes, Packet>);

impl Carriage {
    /// Notes that a process sent a packet.
    pub fn load(&mut self, packet: Packet) {
        // A repeated INIT is the same packet.
        self.0.entry(packet.bytes.clone()).or_insert(packet);
    }

    /// Returns the packet that arrived, as it was made.
    #[must_use]
    pub fn unload(&self, delivery: &Delivery) -> Option<Packet> {
        self.0.get(&delivery.packet).cloned()
    }
}

/// The router of one process.
#[derive(Debug)]
pub struct RouteProgram {
    router: SharedRouter,
    look_at: Instant,
    /// The process closes: when it closes its neighbours, too, and by when these must have
    /// answered.
    closing: Option<(Instant, Instant)>,
}

impl RouteProgram {
    /// Returns the router of a process on a host.
    #[must_use]
    pub fn new(options: &Options, topology: Topology, host: HostId) -> Self {
        let mut routes = Routes::default();
        let mut neighbours = BTreeSet::new();
        // Clients are in no book.
        let known = options.nodes - options.clients;
        for other in (0..known).filter(|other| *other != host) {
            let node = options.node(other);
            let vias = topology.vias(host, other);
            if vias.is_empty() {
                neighbours.insert(NodeId(node));
                continue;
            }
            let vias: Vec<_> = vias
                .into_iter()
                .map(|via| NodeId(options.node(via)))
                .collect();
            let added = routes.add(node..=node, &vias);
            debug_assert!(added.is_ok(), "{added:?}");
        }
        let router = Router::new(RouterSettings {
            own: NodeId(options.node(host)),
            forwards: true,
            anyone: options.clients > 0,
            neighbours,
            routes,
        });
        Self {
            router: SharedRouter::new(router, 1),
            look_at: Instant::ZERO,
            closing: None,
        }
    }

    /// Sends a packet to a node behind others.
    pub fn originate(&mut self, engine: &mut Engine, now: Instant, to: Behind, packet: &[u8]) {
        self.look(engine, now);
        let elsewhere = self.router.originate(engine, now, to, packet, |_| true);
        debug_assert!(elsewhere.is_none(), "one engine serves all nodes");
    }

    /// Takes packets of neighbours, sends those of others on, and returns those for this node.
    pub fn serve(&mut self, engine: &mut Engine, now: Instant) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        while engine.has_port_input(Port::Forwarded) {
            self.look(engine, now);
            deliveries.extend(self.router.serve(engine, now, |_| true).deliveries);
        }
        deliveries
    }

    fn look(&mut self, engine: &Engine, now: Instant) {
        if now >= self.look_at {
            self.look_at = now + LOOK_EVERY;
            self.router.look(engine, now, |_| true);
        }
    }

    /// Begins to close: the nodes behind others first.
    pub fn close(&mut self, engine: &mut Engine, now: Instant, patience: Duration) {
        let first = |address| Behind::at(address).is_some();
        engine.close_first(now, patience / 2, first);
        self.closing = Some((now + patience / 2, now + patience));
        self.go_on_closing(engine, now);
    }

    /// Closes the neighbours if nothing is left for them to carry. Returns when it is due.
    pub fn go_on_closing(&mut self, engine: &mut Engine, now: Instant) -> Option<Instant> {
        let (rest, end) = self.closing?;
        if now < rest && !engine.has_closed_first() {
            return Some(rest);
        }
        self.closing = None;
        engine.close(now, end.since(now));
        None
    }
}
