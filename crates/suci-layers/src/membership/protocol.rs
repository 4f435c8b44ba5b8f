//! One member's part of the protocol.

use super::outbox::Outbox;
use super::record::{Record, Status, is_usable};
use super::table::{MemberTable, position};
use super::wire::{MembershipBody, MembershipMessage, cluster_number};
use super::{Settings, random::Random};
use core::net::SocketAddr;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use suci_proto::time::Instant;
use suci_proto::types::{Incarnation, NodeId};

/// The most by which a record's version may exceed the known one. A member refutes a forged record
/// by a higher version, for which there must be room. It refutes far fewer than this many.
const MAX_VERSION_STEP: u64 = 1 << 32;

/// Seeds that are asked at the same time.
const SEEDS_AT_ONCE: usize = 3;

/// For so long after it joined, a member does not pass on what it learns from ranges: that is the
/// table itself, which the others have.
const SETTLING: Duration = Duration::from_secs(2);

/// A silent link proves nothing about a record that is newer than this many suspicion times and to
/// whose process the link was not up yet: it may be that of an earlier process.
const GRACE: u32 = 2;

/// Intervals between messages within which a neighbour of a node that left passes that on.
const NEWS: u32 = 2;

/// A change of the members, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A node joined, with a process that was no member before.
    Joined(NodeId, SocketAddr),
    /// A member has another address.
    Moved(NodeId, SocketAddr),
    /// A member left. It may have counted as failed before that was known.
    Left(NodeId),
    /// A member failed.
    Failed(NodeId),
    /// A node that left or failed long ago is forgotten.
    Forgotten(NodeId),
}

impl Change {
    /// Returns the node that it is about.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        match self {
            Self::Joined(node, _)
            | Self::Moved(node, _)
            | Self::Left(node)
            | Self::Failed(node)
            | Self::Forgotten(node) => *node,
        }
    }
}

/// The state of the link to a node, as its engine knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contact {
    /// The process answers.
    Up(Incarnation),
    /// The process does not answer; without an incarnation, none ever did at the address.
    Silent(Option<Incarnation>),
    /// The process is known to have ended.
    Ended(Option<Incarnation>),
    /// Nothing is known yet.
    Unknown,
}

/// Why a member did not join yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinState {
    /// It is a member.
    Joined,
    /// No seed answered yet.
    Waiting,
    /// No seed is left: each belongs to another cluster, as this one, or permits no membership.
    OtherCluster(NodeId, String),
    /// No seed permits this node membership; this is one of them.
    Denied(NodeId),
}

/// Counters of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MembershipCounters {
    /// Messages sent.
    pub messages_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Messages that could not be read, or that belong to another cluster.
    pub dropped: u64,
    /// Records that were not taken: their version is too high, there is no room, or they contradict
    /// what the engine knows.
    pub refused: u64,
}

/// One member's part of the protocol.
#[derive(Debug)]
pub struct Membership {
    settings: Settings,
    cluster: u64,
    own: NodeId,
    incarnation: Incarnation,
    table: MemberTable,
    seeds: BTreeSet<NodeId>,
    /// Seeds that belong to other clusters.
    strange_seeds: BTreeMap<NodeId, String>,
    /// Other seeds that do not permit this node membership. They are asked all the same: the right
    /// may come.
    denied_seeds: BTreeSet<NodeId>,
    joined_at: Option<Instant>,
    is_leaving: bool,
    neighbours: BTreeSet<NodeId>,
    /// The ring changed since the neighbours were chosen.
    ring_changed: bool,
    outbox: Outbox,
    /// Records that it learns now are new to others too.
    spreads: bool,
    changes: VecDeque<Change>,
    next_sync: Instant,
    next_retry: Instant,
    /// When the seeds are asked next.
    next_ask: Instant,
    random: Random,
    counters: MembershipCounters,
}

impl Membership {
    /// Returns a member that begins now and asks `seeds`, if there are any beside itself. Its
    /// `address` may have no IP address, if it does not know it: others then tell it.
    #[must_use]
    pub fn new(
        now: Instant,
        settings: Settings,
        (own, incarnation): (NodeId, Incarnation),
        address: SocketAddr,
        seeds: impl IntoIterator<Item = NodeId>,
        random: u64,
    ) -> Self {
        let seeds: BTreeSet<_> = seeds.into_iter().filter(|seed| *seed != own).collect();
        let mut table = MemberTable::default();
        let record = Record {
            node: own,
            incarnation,
            version: 1,
            status: Status::Alive,
            address,
        };
        table.set(record, now);
        Self {
            cluster: cluster_number(&settings.cluster),
            next_sync: now + settings.sync_interval,
            next_retry: now + settings.retry_interval,
            next_ask: now,
            settings,
            own,
            incarnation,
            table,
            joined_at: seeds.is_empty().then_some(now),
            seeds,
            strange_seeds: BTreeMap::new(),
            denied_seeds: BTreeSet::new(),
            is_leaving: false,
            neighbours: BTreeSet::new(),
            ring_changed: true,
            outbox: Outbox::default(),
            spreads: true,
            changes: VecDeque::new(),
            random: Random::new(random),
            counters: MembershipCounters::default(),
        }
    }

    // ---- handlers

    /// Takes a message of `from`. `live` tells the process of a node to which a session is up.
    pub fn on_message(
        &mut self,
        now: Instant,
        from: NodeId,
        bytes: &[u8],
        live: impl Fn(NodeId) -> Option<Incarnation>,
    ) {
        let Ok(message) = MembershipMessage::read(bytes) else {
            self.counters.dropped += 1;
            return;
        };
        if let MembershipBody::OtherCluster(name) = &message.body {
            if self.seeds.contains(&from) && self.joined_at.is_none() {
                self.denied_seeds.remove(&from);
                self.strange_seeds.insert(from, name.clone());
            }
            return;
        }
        if message.cluster != self.cluster {
            self.counters.dropped += 1;
            self.outbox.to(from).other_cluster = true;
            return;
        }
        if self.is_leaving {
            return;
        }
        self.learn_own_address(now, message.observed);
        self.spreads = self.joined_at.is_some();
        match message.body {
            MembershipBody::Digest { own, buckets } => {
                // One that does not know its address learns it by the answer.
                if own.has_address() || own.node != from {
                    self.apply(now, from, own, &live);
                }
                let ours = self.table.digest();
                if ours == buckets {
                    // It has nothing to tell, now or in an answer.
                    self.joined_at.get_or_insert(now);
                }
                self.outbox.to(from).answer(&ours, &buckets);
            }
            MembershipBody::Records(records) => {
                for record in records {
                    self.apply(now, from, record, &live);
                }
                self.joined_at.get_or_insert(now);
            }
            MembershipBody::Range {
                first,
                last,
                records,
            } => {
                self.spreads = self.joined_at.is_some_and(|at| now >= at + SETTLING);
                for record in &records {
                    self.apply(now, from, *record, &live);
                }
                self.joined_at.get_or_insert(now);
                self.tell_missing(from, (first, last), &records);
            }
            MembershipBody::OtherCluster(_) => {}
        }
        self.spreads = true;
    }

    /// Tells `from` of the members in a range that it does not know.
    fn tell_missing(&mut self, from: NodeId, (first, last): (u32, u32), theirs: &[Record]) {
        if first > last {
            return;
        }
        let theirs: BTreeSet<_> = theirs.iter().map(|it| it.node).collect();
        let ours = self.table.present_in(first..=last);
        let missing =
            ours.filter(|(_, record)| !theirs.contains(&record.node) && record.node != from);
        let pending = self.outbox.to(from);
        missing.for_each(|(at, _)| pending.insert(at));
    }

    /// Takes what others see as this member's address, if it does not know it itself.
    fn learn_own_address(&mut self, now: Instant, observed: Option<SocketAddr>) {
        let own = self.own_record();
        if let Some(address) = observed.filter(|it| is_usable(*it) && !own.has_address()) {
            let version = own.version.saturating_add(1);
            self.assert_own(
                now,
                Record {
                    address,
                    version,
                    ..own
                },
            );
        }
    }

    /// Takes a record, if it is newer. If the sender's is older, it will be told.
    fn apply(
        &mut self,
        now: Instant,
        from: NodeId,
        record: Record,
        live: &impl Fn(NodeId) -> Option<Incarnation>,
    ) {
        if record.node == self.own {
            return self.defend(now, from, &record);
        }
        if !record.has_address() {
            self.counters.refused += 1;
            return;
        }
        let known = self.table.get(record.node).map(|entry| entry.record);
        match known {
            // There is nothing to bury.
            None if !record.status.is_present() => {}
            None if !self.make_room() => self.counters.refused += 1,
            None => self.set(now, Some(from), record, None),
            Some(known) if known.replaces(&record) => {
                self.outbox.to(from).insert(position(record.node));
            }
            Some(known) if !record.replaces(&known) => {
                self.outbox.forget(from, position(record.node));
            }
            Some(known) => {
                let too_new = record.version - known.version > MAX_VERSION_STEP;
                // Only the node itself may say so while its session proves the contrary.
                let contradicted = from != record.node
                    && known.status.is_present()
                    && record.incarnation != known.incarnation
                    && live(record.node) == Some(known.incarnation);
                if contradicted {
                    // The node contradicts by a higher version, once it hears of the record. The
                    // session may only seem to be up: if nobody answers there any more, the record
                    // is taken when it comes again.
                    self.outbox.to(record.node).claim(record);
                }
                if too_new || contradicted {
                    self.counters.refused += 1;
                    return;
                }
                self.set(now, Some(from), record, Some(known));
            }
        }
    }

    /// Contradicts what others say of this member.
    fn defend(&mut self, now: Instant, from: NodeId, record: &Record) {
        let own = self.own_record();
        #[cfg(suci_plant)]
        if suci_proto::plant::active("suspicion-unrefuted") {
            return;
        }
        if *record == own {
            self.outbox.forget(from, position(self.own));
        } else if record.replaces(&own) && record.version - own.version <= MAX_VERSION_STEP {
            let version = record.version.saturating_add(1);
            self.assert_own(now, Record { version, ..own });
            self.outbox.to(from).insert(position(self.own));
        } else {
            self.outbox.to(from).insert(position(self.own));
        }
    }

    /// Changes this member's own record.
    fn assert_own(&mut self, now: Instant, record: Record) {
        self.table.set(record, now);
        self.announce(None, record.node);
    }

    /// Enters a record that is newer than the `known` one, and passes it on.
    fn set(&mut self, now: Instant, from: Option<NodeId>, record: Record, known: Option<Record>) {
        let (node, address) = (record.node, record.address);
        self.table.set(record, now);
        let before = known.map(|known| known.status);
        let was_present = before.is_some_and(Status::is_present);
        let is_present = record.status.is_present();
        let same = known.is_some_and(|known| known.incarnation == record.incarnation);
        match (was_present, is_present) {
            (true, true) if !same => {
                self.changes.push_back(Change::Failed(node));
                self.changes.push_back(Change::Joined(node, address));
            }
            (true, true) if known.is_some_and(|known| known.address != address) => {
                self.changes.push_back(Change::Moved(node, address));
            }
            (false, true) => self.changes.push_back(Change::Joined(node, address)),
            (true, false) if record.status == Status::Left => {
                self.changes.push_back(Change::Left(node));
            }
            (true, false) => self.changes.push_back(Change::Failed(node)),
            // Its end was noticed first.
            (false, false)
                if same && before == Some(Status::Failed) && record.status == Status::Left =>
            {
                self.changes.push_back(Change::Left(node));
            }
            _ => {}
        }
        self.ring_changed |= before != Some(record.status);
        self.announce(from, node);
    }

    /// Tells the neighbours of a node's record, but not the one that told it.
    fn announce(&mut self, from: Option<NodeId>, node: NodeId) {
        let at = position(node);
        if self.spreads {
            for neighbour in self.neighbours.iter().filter(|it| Some(**it) != from) {
                self.outbox.to(*neighbour).insert(at);
            }
        }
        if let Some(from) = from {
            self.outbox.forget(from, at);
        }
    }

    /// Returns true if one more node finds room, if need be in the place of one that is gone.
    fn make_room(&mut self) -> bool {
        if self.table.len() < self.settings.max_members {
            return true;
        }
        let gone = |entry: &&super::table::Entry| !entry.record.status.is_present();
        let oldest = self.table.waning().filter(gone).min_by_key(|it| it.since);
        let Some(node) = oldest.map(|entry| entry.record.node) else {
            return false;
        };
        self.forget(node);
        true
    }

    fn forget(&mut self, node: NodeId) {
        self.table.remove(node);
        self.changes.push_back(Change::Forgotten(node));
    }

    /// Notes the state of the link to a node of [`contacts`](Self::contacts). Ignores a link to
    /// this node itself, which proves nothing about it.
    pub fn on_contact(&mut self, now: Instant, node: NodeId, contact: Contact) {
        let grace = self.settings.suspicion * GRACE;
        let other = self.table.get_mut(node).filter(|_| node != self.own);
        let Some(entry) = other else {
            return;
        };
        let record = entry.record;
        let is_fresh = !entry.was_up && now < entry.since + grace;
        match contact {
            Contact::Up(process) if process == record.incarnation => {
                (entry.replaced_since, entry.ended_since) = (None, None);
                let is_new = !core::mem::replace(&mut entry.was_up, true);
                if is_new && record.status != Status::Alive {
                    // It can refute only what it hears of.
                    self.outbox.to(node).insert(position(node));
                }
            }
            Contact::Up(_) => {
                let since = *entry.replaced_since.get_or_insert(now);
                if now >= since + grace {
                    self.suspect(now, record);
                }
            }
            Contact::Silent(Some(process)) | Contact::Ended(Some(process))
                if process != record.incarnation => {}
            Contact::Silent(_) | Contact::Ended(None) if is_fresh => {}
            Contact::Silent(_) => self.suspect(now, record),
            Contact::Ended(_) => {
                // It may have left, and told others.
                let since = *entry.ended_since.get_or_insert(now);
                if now >= since + self.settings.interval * NEWS {
                    self.bury(now, record);
                }
            }
            Contact::Unknown => {}
        }
    }

    fn suspect(&mut self, now: Instant, known: Record) {
        if known.status == Status::Alive {
            let status = Status::Suspect;
            self.set(now, None, Record { status, ..known }, Some(known));
        }
    }

    fn bury(&mut self, now: Instant, known: Record) {
        if known.status.is_present() {
            let status = Status::Failed;
            self.set(now, None, Record { status, ..known }, Some(known));
        }
    }

    /// Does what is due.
    pub fn on_time(&mut self, now: Instant) {
        if self.is_leaving {
            return;
        }
        self.end_suspicions(now);
        if core::mem::take(&mut self.ring_changed) {
            self.choose_neighbours();
        }
        let limit = self.settings.retry_interval * 2;
        self.outbox.expire(now, limit, &self.neighbours);
        if self.joined_at.is_none() && now >= self.next_ask {
            self.next_ask = now + self.settings.check_interval;
            for seed in self.asked_seeds() {
                self.outbox.to(seed).digest = true;
            }
        }
        if now >= self.next_sync {
            self.next_sync = now + self.random.around(self.settings.sync_interval);
            let index = self.random.below(self.neighbours.len());
            if let Some(node) = self.neighbours.iter().nth(index) {
                self.outbox.to(*node).digest = true;
            }
        }
        if now >= self.next_retry {
            self.next_retry = now + self.random.around(self.settings.retry_interval);
            self.retry();
        }
    }

    fn end_suspicions(&mut self, now: Instant) {
        let Settings {
            suspicion,
            forget_after,
            ..
        } = self.settings;
        let (mut dead, mut old) = (Vec::new(), Vec::new());
        for entry in self.table.waning() {
            match entry.record.status {
                Status::Suspect if now >= entry.since + suspicion => dead.push(entry.record),
                Status::Failed | Status::Left if now >= entry.since + forget_after => {
                    old.push(entry.record.node);
                }
                _ => {}
            }
        }
        dead.into_iter().for_each(|record| self.bury(now, record));
        old.into_iter().for_each(|node| self.forget(node));
    }

    fn choose_neighbours(&mut self) {
        let chosen = self.table.neighbours(position(self.own));
        for new in chosen.difference(&self.neighbours) {
            self.outbox.to(*new).digest = true;
        }
        for old in self.neighbours.difference(&chosen) {
            self.outbox.remove(*old);
        }
        self.neighbours = chosen;
    }

    /// Chooses a node that failed, or a seed that is no member, to be asked whether it is back. So
    /// the halves of a network that was divided find each other again.
    fn retry(&mut self) {
        let failed = self.table.waning().map(|entry| &entry.record);
        let failed = failed
            .filter(|it| it.status == Status::Failed)
            .map(|it| it.node);
        let is_present = |node: NodeId| {
            let entry = self.table.get(node);
            entry.is_some_and(|entry| entry.record.status.is_present())
        };
        let seeds = self.seeds.iter().copied().filter(|seed| !is_present(*seed));
        let absent: BTreeSet<NodeId> = failed.chain(seeds).collect();
        let index = self.random.below(absent.len());
        if let Some(node) = absent.into_iter().nth(index) {
            self.outbox.to(node).digest = true;
        }
    }

    /// Leaves: tells its neighbours, its seeds and others that it dealt with lately, by the
    /// messages that [`poll_message`](Self::poll_message) returns.
    pub fn leave(&mut self, now: Instant) {
        if core::mem::replace(&mut self.is_leaving, true) {
            return;
        }
        self.choose_neighbours();
        self.neighbours.extend(self.outbox.partners());
        // Soon after it joined, a seed may be the only one that knows it.
        let strange = |seed: &&NodeId| self.strange_seeds.contains_key(*seed);
        let seeds = self.seeds.iter().filter(|seed| !strange(seed));
        self.neighbours.extend(seeds);
        self.outbox = Outbox::default();
        let own = self.own_record();
        let status = Status::Left;
        self.assert_own(now, Record { status, ..own });
    }

    // ---- polls

    /// Returns the next message to a node for which `may_get` returns true, given the address at
    /// which `observed` sees it.
    pub fn poll_message(
        &mut self,
        now: Instant,
        may_get: impl Fn(NodeId) -> bool,
        observed: impl Fn(NodeId) -> Option<SocketAddr>,
    ) -> Option<(NodeId, Vec<u8>)> {
        let (own, interval) = (self.own_record(), self.settings.interval);
        let polled = self.outbox.poll(now, interval, &self.table, &own, may_get);
        let (to, body) = polled?;
        let body = match body {
            MembershipBody::OtherCluster(_) => {
                MembershipBody::OtherCluster(self.settings.cluster.clone())
            }
            other => other,
        };
        let message = MembershipMessage {
            cluster: self.cluster,
            observed: observed(to),
            body,
        };
        let bytes = message.write();
        self.counters.messages_out += 1;
        self.counters.bytes_out += bytes.len() as u64;
        Some((to, bytes))
    }

    /// Returns the next change about a node that `serves` admits, in order for each node.
    pub fn poll_change(&mut self, serves: impl Fn(NodeId) -> bool) -> Option<Change> {
        let at = self.changes.iter().position(|it| serves(it.node()))?;
        self.changes.remove(at)
    }

    // ---- questions

    /// Returns the time at which [`on_time`](Self::on_time) is to be called next.
    #[must_use]
    pub fn next_time(&self, now: Instant) -> Instant {
        let waits = self.joined_at.is_none()
            || self.ring_changed
            || self.has_messages()
            || self
                .table
                .waning()
                .any(|it| it.record.status == Status::Suspect);
        now + match waits {
            true => self.settings.interval,
            false => self.settings.check_interval,
        }
    }

    /// Returns true if messages wait to be sent.
    #[must_use]
    pub fn has_messages(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Returns the nodes whose link counts: the neighbours, and nodes that are asked. The first are
    /// to be watched.
    pub fn contacts(&self) -> impl Iterator<Item = (NodeId, bool)> + '_ {
        let watched = self.neighbours.iter().map(|node| (*node, true));
        let asked = self
            .outbox
            .nodes()
            .filter(|it| !self.neighbours.contains(it));
        watched.chain(asked.map(|node| (node, false)))
    }

    /// Returns the records of all members that are present, this one among them, by node ID.
    #[must_use]
    pub fn members(&self) -> Vec<Record> {
        let present = self.table.iter().map(|entry| entry.record);
        let mut present: Vec<_> = present.filter(|it| it.status.is_present()).collect();
        present.sort_unstable_by_key(|record| record.node.0);
        present
    }

    /// Returns the record of a node, also of one that is gone.
    #[must_use]
    pub fn record(&self, node: NodeId) -> Option<&Record> {
        self.table.get(node).map(|entry| &entry.record)
    }

    /// Returns the number of members that are present, this one among them.
    #[must_use]
    pub fn present(&self) -> usize {
        self.table.present()
    }

    /// Returns whether it joined.
    #[must_use]
    pub fn join_state(&self) -> JoinState {
        if self.joined_at.is_some() {
            return JoinState::Joined;
        }
        let none = self.strange_seeds.len() + self.denied_seeds.len() == self.seeds.len();
        let (strange, denied) = (self.strange_seeds.iter().next(), self.denied_seeds.first());
        match (strange.filter(|_| none), denied.filter(|_| none)) {
            (Some((node, name)), _) => JoinState::OtherCluster(*node, name.clone()),
            (None, Some(node)) => JoinState::Denied(*node),
            (None, None) => JoinState::Waiting,
        }
    }

    /// Notes whether a node that a message is for permits this node membership.
    pub fn set_denied(&mut self, node: NodeId, denied: bool) {
        if !denied {
            self.denied_seeds.remove(&node);
        } else if self.seeds.contains(&node) && !self.strange_seeds.contains_key(&node) {
            self.denied_seeds.insert(node);
        }
    }

    /// Returns true if this seed does not permit this node membership.
    #[must_use]
    pub fn is_denied_by(&self, seed: NodeId) -> bool {
        self.denied_seeds.contains(&seed)
    }

    /// Returns the seeds, without this node.
    pub fn seeds(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.seeds.iter().copied()
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> MembershipCounters {
        self.counters
    }

    fn asked_seeds(&mut self) -> Vec<NodeId> {
        let known = self.seeds.iter().copied();
        let ours: Vec<_> = known
            .filter(|seed| !self.strange_seeds.contains_key(seed))
            .collect();
        // A few of many, but the same ones for as long as they are asked.
        let asked: BTreeSet<_> = self.outbox.nodes().collect();
        let asked = ours.iter().filter(|seed| asked.contains(seed));
        let mut chosen: Vec<_> = asked.copied().take(SEEDS_AT_ONCE).collect();
        while chosen.len() < SEEDS_AT_ONCE.min(ours.len()) {
            let index = self.random.below(ours.len());
            chosen.extend(ours.get(index).filter(|seed| !chosen.contains(seed)));
        }
        chosen
    }

    fn own_record(&self) -> Record {
        let own = self.table.get(self.own).map(|entry| entry.record);
        own.unwrap_or(Record {
            node: self.own,
            incarnation: self.incarnation,
            version: 1,
            status: Status::Alive,
            address: SocketAddr::from(([0, 0, 0, 0], 0)),
        })
    }
}
