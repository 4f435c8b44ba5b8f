//! Hosts whose process starts again and again while those of the others stay.

use suci_proto::time::{Duration, nanos};
use suci_proto::types::NodeId;

use super::{Due, Failure, World};
use crate::node::Process;
use crate::options::Step;
use crate::oracle::Violation;
use crate::packet::{HostId, ProcId};

/// How long a closing process waits for its peers: longer than anything takes that works.
const PATIENCE: Duration = Duration::from_secs(120);

impl World {
    /// Moves the host to another address, sometimes, before a process starts there.
    pub(super) fn move_before_start(&mut self, host: HostId) {
        let again = self.hosts.get(host).is_some_and(|it| it.starts > 0);
        if let Some(churn) = self.options.churn_at(host)
            && again
            && !self.mended
            && self.rng.chance(churn.moved)
        {
            self.tally.rebinds += 1;
            self.network.rebind(host, false);
        }
    }

    /// Begins the life of a started process: its program sends a first message to each of its
    /// peers. The process closes or is killed some time later, and the next one starts.
    pub(super) fn begin_life(&mut self, host: HostId, id: ProcId) {
        let Some(churn) = self.options.churn_at(host).filter(|_| !self.mended) else {
            return;
        };
        if self
            .hosts
            .get(host)
            .is_none_or(|it| it.starts > churn.starts)
        {
            return;
        }
        let within = self.options.first_within();
        let arrives = self.options.must_arrive(host);
        self.oracle.judge_first(id, within, arrives);
        let now = self.now;
        if let Some(it) = self.hosts.get_mut(host) {
            it.workload.start_anew(now);
        }
        // Many programs send one message and close at once.
        let most = if self.rng.chance(500_000) {
            1_000
        } else {
            nanos(churn.life)
        };
        let life = Duration::from_nanos(self.rng.range(0, most.max(1)));
        let pause = Duration::from_nanos(self.rng.range(0, nanos(churn.pause).max(1)));
        let end = if self.rng.chance(churn.killed) {
            Step::Crash(host, Some(pause))
        } else {
            Step::Close(host, PATIENCE, pause)
        };
        self.queue.push(now + life, Due::Step(end));
    }

    /// Enters the nodes to which a host's program sends.
    pub(super) fn fill_with_targets(&self, host: HostId, process: &mut Process) {
        let Some(it) = self.hosts.get(host) else {
            return;
        };
        let own = self.node_of(host).0;
        for node in it.workload.targets().filter(|node| *node != own) {
            // Node IDs are the numbers of hosts plus one.
            let at = (node as usize).saturating_sub(1);
            let address = self.network.book_address(at);
            let added = process.engine.add_peer(self.now, NodeId(node), address);
            debug_assert!(added.is_ok(), "{added:?}");
        }
    }

    /// Audits every engine, whatever happened there.
    ///
    /// # Errors
    /// The first limit that does not hold.
    pub(crate) fn audit(&self) -> Result<(), Failure> {
        let processes = self.hosts.iter().filter_map(|it| it.process.as_ref());
        for process in processes {
            let audited = crate::invariants::audit(&process.engine, self.now);
            audited.map_err(|violation| self.failure(violation))?;
        }
        Ok(())
    }

    pub(super) fn failure(&self, violation: Violation) -> Failure {
        Failure {
            at: self.now,
            violation,
        }
    }
}
