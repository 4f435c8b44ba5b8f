//! Members of a cluster: each process joins through the first hosts and is told of the others.

use std::collections::BTreeSet;

use suci_layers::membership::{Membership, Record, Settings, SharedMembership};
use suci_proto::time::Instant;
use suci_proto::types::NodeId;
use suci_proto::{Engine, Event, Identity, Port};

use crate::network::Network;
use crate::oracle::{Kind, Verdict, broken};
use crate::packet::HostId;
use crate::world::World;

/// The membership of one process.
#[derive(Debug)]
pub struct MemberProgram {
    own: Identity,
    shared: SharedMembership,
    next_at: Instant,
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
            own,
            shared: SharedMembership::new(now, member),
            next_at: now,
        }
    }

    /// Does what is due, as a driver does before it sends.
    pub fn serve(&mut self, engine: &mut Engine, now: Instant) {
        if now >= self.next_at || engine.has_port_input(Port::Membership) {
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

    /// Returns its process.
    #[must_use]
    pub const fn own(&self) -> Identity {
        self.own
    }

    /// Returns the messages that it sent, and their bytes.
    #[must_use]
    pub fn sent(&self) -> (u64, u64) {
        let counters = self.shared.counters();
        (counters.messages_out, counters.bytes_out)
    }
}

impl World {
    /// Checks that each member knows the processes of all, and no others.
    ///
    /// # Errors
    /// One knows too few, or too many.
    pub(crate) fn check_members(&self) -> Verdict {
        let hosts = 0..self.options.nodes;
        let members: Vec<_> = hosts.filter_map(|host| self.member(host)).collect();
        let all: BTreeSet<_> = members.iter().map(|member| key(member.own())).collect();
        for member in members {
            let known = member.members();
            let known = known.iter().map(|it| (it.node.0, it.incarnation.0));
            let known: BTreeSet<_> = known.collect();
            if known != all {
                let text = format!(
                    "node {} does not know {:?}, and takes {:?} for members",
                    member.own().node,
                    all.difference(&known).collect::<Vec<_>>(),
                    known.difference(&all).collect::<Vec<_>>()
                );
                return broken(Kind::Membership, text);
            }
        }
        Ok(())
    }

    /// Checks that no process was told without a reason that a node failed, in a run in which no
    /// living member is silent for long. Each process that ended is a reason for two: the record of
    /// one that starts again counts less than that of the one before it, until it contradicts that
    /// by a higher version.
    ///
    /// # Errors
    /// One was.
    pub(crate) fn check_failures(&self) -> Verdict {
        if self.options.seeds == 0 || !self.options.loses_only_the_dead() {
            return Ok(());
        }
        for process in self.hosts.iter().filter_map(|it| it.process.as_ref()) {
            for (host, it) in self.hosts.iter().enumerate() {
                let node = self.node_of(host);
                let failed = |event: &Event| *event == Event::MemberFailed { node };
                let told = process.log.iter().filter(|(_, event)| failed(event));
                let ended = it.starts - u32::from(it.process.is_some());
                if told.count() > 2 * ended as usize {
                    let text = format!(
                        "process {} was told too often that node {node} failed: {ended} of its \
                         processes ended",
                        process.id
                    );
                    return broken(Kind::Membership, text);
                }
            }
        }
        Ok(())
    }
}

fn key(own: Identity) -> (u32, u128) {
    (own.node.0, own.incarnation.0)
}
