//! A simulated network of members in virtual time. Links and their failures are those that an
//! engine would report.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use suci_layers::membership::{Change, Contact, Membership, Settings};
use suci_proto::time::Instant;
use suci_proto::types::{Incarnation, NodeId};

/// The time in which a watched node that is silent counts as lost.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);

/// A process and its member.
pub(crate) struct Process {
    pub(crate) member: Membership,
    pub(crate) incarnation: Incarnation,
    pub(crate) is_alive: bool,
    /// It stands still.
    pub(crate) is_stopped: bool,
    /// The halves of a divided network.
    pub(crate) side: u8,
    /// Since when it does not hear each node of its contacts.
    silent_since: BTreeMap<NodeId, Instant>,
    /// All changes, as its program hears of them.
    pub(crate) changes: Vec<(Instant, Change)>,
    pub(crate) received: u64,
    pub(crate) messages: u64,
}

enum Event {
    Turn(NodeId),
    Message(NodeId, NodeId, Incarnation, Vec<u8>),
}

/// All processes, by node.
pub(crate) struct Network {
    pub(crate) now: Instant,
    pub(crate) processes: BTreeMap<NodeId, Process>,
    queue: BinaryHeap<Reverse<(Instant, u64)>>,
    events: BTreeMap<u64, Event>,
    order: u64,
    random: u64,
    pub(crate) settings: Settings,
    started: u128,
}

pub(crate) fn address(node: u32, start: u128) -> SocketAddr {
    let port = 4_000 + u16::try_from(start % 50_000).unwrap();
    SocketAddr::from((Ipv4Addr::from(0x0a00_0000 + node), port))
}

impl Network {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            now: Instant::from_nanos(1),
            processes: BTreeMap::new(),
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            order: 0,
            random: seed,
            settings: Settings {
                cluster: "test".into(),
                ..Settings::default()
            },
            started: 0,
        }
    }

    pub(crate) fn below(&mut self, most: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.random >> 33) % most.max(1)
    }

    /// Starts a process of `node`, in place of an earlier one.
    pub(crate) fn start(&mut self, node: u32, seeds: &[u32]) -> Incarnation {
        self.started += 1;
        let incarnation = Incarnation(self.started);
        let at = address(node, self.started);
        self.start_at(node, seeds, at, incarnation);
        incarnation
    }

    pub(crate) fn start_at(
        &mut self,
        node: u32,
        seeds: &[u32],
        at: SocketAddr,
        process: Incarnation,
    ) {
        let random = self.below(u64::MAX);
        let seeds = seeds.iter().copied().map(NodeId);
        let node = NodeId(node);
        let member = Membership::new(
            self.now,
            self.settings.clone(),
            (node, process),
            at,
            seeds,
            random,
        );
        let started = Process {
            member,
            incarnation: process,
            is_alive: true,
            is_stopped: false,
            side: 0,
            silent_since: BTreeMap::new(),
            changes: Vec::new(),
            received: 0,
            messages: 0,
        };
        self.processes.insert(node, started);
        self.push(self.now, Event::Turn(node));
    }

    pub(crate) fn kill(&mut self, node: u32) {
        self.processes.get_mut(&NodeId(node)).unwrap().is_alive = false;
    }

    pub(crate) fn leave(&mut self, node: u32) {
        let now = self.now;
        self.processes
            .get_mut(&NodeId(node))
            .unwrap()
            .member
            .leave(now);
        self.send(NodeId(node));
        self.kill(node);
    }

    fn push(&mut self, at: Instant, event: Event) {
        self.order += 1;
        self.queue.push(Reverse((at, self.order)));
        self.events.insert(self.order, event);
    }

    /// Whether a process hears another one.
    fn hears(&self, one: NodeId, other: NodeId) -> bool {
        let (Some(one), Some(other)) = (self.processes.get(&one), self.processes.get(&other))
        else {
            return false;
        };
        one.side == other.side && [one, other].iter().all(|it| it.is_alive && !it.is_stopped)
    }

    /// Runs for a time.
    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(Reverse((at, order))) = self.queue.peek().copied()
            && at <= end
        {
            self.queue.pop();
            self.now = at;
            match self.events.remove(&order).unwrap() {
                Event::Turn(node) => self.turn(node),
                Event::Message(from, to, incarnation, bytes) => {
                    self.receive(from, to, incarnation, &bytes);
                }
            }
        }
        self.now = end;
    }

    fn turn(&mut self, node: NodeId) {
        let now = self.now;
        let process = self.processes.get_mut(&node).unwrap();
        if !process.is_alive {
            return;
        }
        if process.is_stopped {
            return self.push(now + Duration::from_secs(1), Event::Turn(node));
        }
        let contacts: Vec<_> = process.member.contacts().collect();
        for (other, is_watched) in contacts {
            let contact = self.contact(node, other, is_watched);
            let process = self.processes.get_mut(&node).unwrap();
            process.member.on_contact(now, other, contact);
        }
        let process = self.processes.get_mut(&node).unwrap();
        process.member.on_time(now);
        let next = process.member.next_time(now);
        let early = Duration::from_millis(self.below(20));
        self.push(next + early, Event::Turn(node));
        self.send(node);
    }

    /// Returns what the engine of `node` would know of another one.
    fn contact(&mut self, node: NodeId, other: NodeId, is_watched: bool) -> Contact {
        let (now, hears) = (self.now, self.hears(node, other));
        let theirs = self.processes.get(&other).map(|it| it.incarnation);
        let process = self.processes.get_mut(&node).unwrap();
        if hears {
            process.silent_since.remove(&other);
            return Contact::Up(theirs.unwrap());
        }
        if !is_watched {
            return Contact::Unknown;
        }
        let since = *process.silent_since.entry(other).or_insert(now);
        match now >= since + SILENCE {
            true => Contact::Silent(process.member.record(other).map(|it| it.incarnation)),
            false => Contact::Unknown,
        }
    }

    fn send(&mut self, node: NodeId) {
        let now = self.now;
        let mut sent = BTreeSet::new();
        loop {
            let reached: BTreeSet<NodeId> = {
                let contacts = self.processes[&node].member.contacts();
                contacts
                    .map(|it| it.0)
                    .filter(|to| self.hears(node, *to))
                    .collect()
            };
            let process = self.processes.get_mut(&node).unwrap();
            let at = process.member.record(node).unwrap().address;
            let may_get = |to| reached.contains(&to) && !sent.contains(&to);
            let polled = process.member.poll_message(now, may_get, |_| Some(at));
            let incarnation = process.incarnation;
            process.changes.extend(
                std::iter::from_fn(|| process.member.poll_change(|_| true)).map(|it| (now, it)),
            );
            let Some((to, bytes)) = polled else {
                return;
            };
            process.messages += 1;
            sent.insert(to);
            let delay = Duration::from_micros(100 + self.below(2_000));
            self.push(now + delay, Event::Message(node, to, incarnation, bytes));
        }
    }

    fn receive(&mut self, from: NodeId, to: NodeId, incarnation: Incarnation, bytes: &[u8]) {
        let now = self.now;
        let divided = match (self.processes.get(&from), self.processes.get(&to)) {
            (Some(one), Some(other)) => one.side != other.side || !other.is_alive,
            _ => true,
        };
        if divided {
            return;
        }
        let up: BTreeMap<NodeId, Incarnation> = {
            let neighbours = self.processes[&to].member.contacts();
            let up = neighbours.filter(|(node, _)| self.hears(to, *node));
            up.map(|(node, _)| (node, self.processes[&node].incarnation))
                .chain([(from, incarnation)])
                .collect()
        };
        let process = self.processes.get_mut(&to).unwrap();
        process.received += bytes.len() as u64;
        process
            .member
            .on_message(now, from, bytes, |node| up.get(&node).copied());
        self.send(to);
    }

    /// Returns the nodes of the processes that run.
    pub(crate) fn alive(&self) -> BTreeSet<NodeId> {
        let alive = self.processes.iter().filter(|(_, it)| it.is_alive);
        alive.map(|(node, _)| *node).collect()
    }

    /// Returns the processes that do not know exactly the members that are alive on their side.
    pub(crate) fn wrong(&self) -> Vec<NodeId> {
        let sides: BTreeMap<u8, BTreeSet<NodeId>> = self
            .processes
            .iter()
            .filter(|(_, it)| it.is_alive)
            .fold(BTreeMap::new(), |mut sides, (node, it)| {
                sides.entry(it.side).or_default().insert(*node);
                sides
            });
        let is_wrong = |(_, process): &(&NodeId, &Process)| {
            let side = &sides[&process.side];
            if !process.is_alive || process.member.present() != side.len() {
                return process.is_alive;
            }
            let members = process.member.members();
            !members.iter().map(|it| it.node).eq(side.iter().copied())
        };
        self.processes
            .iter()
            .filter(is_wrong)
            .map(|(node, _)| *node)
            .collect()
    }

    /// Runs until all know exactly the members that are alive. Returns how long that took.
    pub(crate) fn settle(&mut self, limit: Duration) -> Duration {
        let began = self.now;
        while !self.wrong().is_empty() {
            assert!(
                self.now.since(began) < limit,
                "{:?} do not know all",
                self.wrong()
            );
            self.run(Duration::from_millis(100));
        }
        self.now.since(began)
    }
}
