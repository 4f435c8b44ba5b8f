//! Members of a cluster: each process joins through the first hosts and is told of the others.

use std::sync::Arc;

use suci_layers::membership::{Membership, Record, Settings, SharedMembership};
use suci_proto::message::IncomingInfo;
use suci_proto::time::Instant;
use suci_proto::types::{NodeId, Source};
use suci_proto::{Engine, Identity, Place, PlacedBy, Placement};

use crate::network::Network;
use crate::packet::HostId;

/// The membership of one process.
#[derive(Debug)]
pub struct MemberProgram {
    shared: SharedMembership,
    next_at: Instant,
}

/// Names no memory: the engine then hands messages of layers to their handlers.
struct NoPlaces;

impl Placement for NoPlaces {
    fn place(&self, _: Source, _: &IncomingInfo) -> Place {
        Place::Own
    }
}

/// Returns where the engine of a member asks for the places of messages.
#[must_use]
pub fn placement() -> PlacedBy {
    PlacedBy::new(Arc::new(NoPlaces))
}

impl MemberProgram {
    /// Returns the member of a process that starts on a host, and whose seeds have these IDs.
    #[must_use]
    pub fn new(
        now: Instant,
        own: Identity,
        host: HostId,
        network: &Network,
        seeds: impl IntoIterator<Item = u32>,
    ) -> Self {
        let settings = Settings {
            cluster: "simulated".into(),
            ..Settings::default()
        };
        let process = (own.node, own.incarnation);
        let seeds = seeds.into_iter().map(NodeId);
        let random = u64::from(own.node.0) ^ now.as_nanos();
        let at = network.book_address(host);
        let member = Membership::new(now, settings, process, at, seeds, random);
        Self {
            shared: SharedMembership::new(now, member),
            next_at: now,
        }
    }

    /// Does what is due, as a driver does before it sends.
    pub fn serve(&mut self, engine: &mut Engine, now: Instant) {
        // There are no one-sided operations to be told of ends.
        while engine.poll_remote().is_some() {}
        if now >= self.next_at || engine.has_membership() {
            self.shared.serve(engine, now, |_| true);
            self.next_at = self.shared.next_at();
        }
    }

    /// Leaves the cluster, before the engine closes.
    pub fn leave(&mut self, engine: &mut Engine, now: Instant) {
        self.shared.leave(engine, now);
        self.shared.serve(engine, now, |_| true);
    }

    /// Returns the time at which it has something to do.
    #[must_use]
    pub fn next_at(&self) -> Instant {
        self.next_at
    }

    /// Returns the members that it knows.
    #[must_use]
    pub fn members(&self) -> Vec<Record> {
        self.shared.members()
    }

    /// Returns the messages that it sent, and their bytes.
    #[must_use]
    pub fn sent(&self) -> (u64, u64) {
        let counters = self.shared.counters();
        (counters.messages_out, counters.bytes_out)
    }
}
