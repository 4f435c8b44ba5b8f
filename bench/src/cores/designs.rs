//! The receive path of CDP with coarse and with fine locks, and that of Suci's shards.
//!
//! CDP: a thread takes a packet from its port, which hands out one after the other, and finds the
//! connection in a table by destination port, source node and source port. With coarse locks one
//! lock holds table and connections. With fine locks a lookup enters and leaves the read lock of a
//! bucket (two atomic operations), and each connection has a lock of its own. A packet changes
//! three lines of its connection: state, queue, and the link of the packet that came before.
//!
//! Suci: a connection belongs to one thread. A port has one reader, which passes packets of other
//! threads' connections on.

use std::collections::VecDeque;

use super::costs::Costs;
use super::machine::{Act, Machine, Step, Time, time};

/// Packets of a connection that are under way: CDP's window.
const WINDOW: u64 = 50;

/// Connections at a time.
pub(super) const CONNECTIONS: usize = 128;

/// Buckets of the table: twice the connections.
const BUCKETS: u64 = 256;

/// The work for a packet differs from the mean by up to this part.
const SPREAD: f64 = 0.1;

/// The rule by which threads share connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Design {
    Coarse,
    Fine,
    /// Connections come from nodes 0 to 127.
    Consecutive,
    /// Each connection comes from any node.
    Random,
}

impl Design {
    fn is_sharded(self) -> bool {
        matches!(self, Self::Consecutive | Self::Random)
    }
}

/// A choice that the figures of the thesis leave open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Assumption {
    pub(super) name: &'static str,
    /// A thread holds its port while it receives the packet, not only to unlink it.
    pub(super) receives_at_port: bool,
    /// Atomic operations of each packet on one line that all packets share.
    pub(super) shared: usize,
}

/// The first one was chosen before costs were measured. The others show what the answer hangs on.
pub(super) const ASSUMPTIONS: [Assumption; 4] = [
    Assumption {
        name: "a port is held while a packet is received",
        receives_at_port: true,
        shared: 0,
    },
    Assumption {
        name: "a port is held to unlink a packet",
        receives_at_port: false,
        shared: 0,
    },
    Assumption {
        name: "so, and all packets count in one line",
        receives_at_port: false,
        shared: 1,
    },
    Assumption {
        name: "so, and the table has one read lock",
        receives_at_port: false,
        shared: 2,
    },
];

/// One run of the model.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) design: Design,
    /// For CDP's designs.
    pub(super) assumption: Assumption,
    pub(super) threads: usize,
    pub(super) ports: usize,
    /// Packets of a connection before it closes and the next one opens, if it ever does.
    pub(super) life: Option<u64>,
    /// Packets until the run is over.
    pub(super) packets: u64,
    pub(super) costs: Costs,
    /// Work for a packet beside what the other costs are, in nanoseconds.
    pub(super) work: f64,
}

impl Setup {
    /// Returns the time of the run, in picoseconds.
    pub(super) fn run(self) -> Time {
        let mut path = Path::new(self);
        (0..self.threads).for_each(|thread| path.machine.resume(thread, 0));
        while path.finished < self.packets
            && let Some(thread) = path.machine.next()
        {
            path.go_on(thread);
        }
        path.machine.now
    }

    /// Returns the speed of these threads by that of one.
    pub(super) fn speed_up(self) -> f64 {
        let alone = Self { threads: 1, ..self };
        alone.run() as f64 / self.run() as f64
    }
}

/// A connection, or rather the place of one after the other.
#[derive(Debug)]
struct Connection {
    node: u64,
    to_send: u64,
    to_finish: u64,
    bucket: usize,
    lock: usize,
    lines: [usize; 3],
}

#[derive(Debug, Default)]
struct Thread {
    steps: VecDeque<Step>,
    /// Packets that other threads passed to it, and the line of the queue's end.
    passed: VecDeque<usize>,
    end: usize,
    is_idle: bool,
    /// The port that it looks at first.
    next_port: usize,
    /// It took a passed packet last.
    took_passed: bool,
}

/// The receive path in a run.
struct Path {
    setup: Setup,
    machine: Machine,
    ports: Vec<VecDeque<usize>>,
    port_locks: Vec<usize>,
    /// The head of each port's queue.
    port_heads: Vec<usize>,
    /// The line that all packets share.
    shared: usize,
    /// The lock of the table with coarse locks, otherwise of what only opening and closing change.
    table: usize,
    buckets: Vec<usize>,
    connections: Vec<Connection>,
    threads: Vec<Thread>,
    finished: u64,
    random: u64,
}

impl Path {
    fn new(setup: Setup) -> Self {
        let mut machine = Machine::new(setup.costs);
        let ports = match setup.design.is_sharded() {
            true => setup.ports.min(setup.threads),
            false => setup.ports,
        };
        let threads = (0..setup.threads).map(|thread| Thread {
            end: machine.line(),
            next_port: thread % ports,
            ..Thread::default()
        });
        let threads = threads.collect();
        let mut path = Self {
            setup,
            ports: vec![VecDeque::new(); ports],
            port_locks: (0..ports).map(|_| machine.lock()).collect(),
            port_heads: (0..ports).map(|_| machine.line()).collect(),
            shared: machine.line(),
            table: machine.lock(),
            buckets: (0..BUCKETS).map(|_| machine.line()).collect(),
            connections: Vec::new(),
            threads,
            finished: 0,
            random: 0,
            machine,
        };
        for number in 0..CONNECTIONS {
            let bucket = path.draw() % BUCKETS;
            let connection = Connection {
                node: 0,
                to_send: 0,
                to_finish: 0,
                bucket: path.buckets[bucket as usize],
                lock: path.machine.lock(),
                lines: [(); 3].map(|()| path.machine.line()),
            };
            path.connections.push(connection);
            path.open(number);
        }
        for number in 0..CONNECTIONS {
            (0..WINDOW).for_each(|_| path.send(number));
        }
        path
    }

    /// Returns the next number of a fixed sequence (SplitMix64).
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = self.random;
        it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        it ^ (it >> 31)
    }

    /// A connection opens in the place of the last one.
    fn open(&mut self, number: usize) {
        let node = match self.setup.design {
            Design::Random => self.draw(),
            _ => number as u64,
        };
        let packets = self.setup.life.unwrap_or(u64::MAX);
        let it = &mut self.connections[number];
        (it.node, it.to_send, it.to_finish) = (node, packets, packets);
    }

    /// A connection sends a packet, if it has one, to the port that its node chooses.
    fn send(&mut self, number: usize) {
        let it = &mut self.connections[number];
        if it.to_send == 0 {
            return;
        }
        it.to_send -= 1;
        let port = (it.node % self.ports.len() as u64) as usize;
        self.ports[port].push_back(number);
        // The threads that read this port, of which a shard's has one.
        let (ports, threads) = (self.ports.len(), self.setup.threads);
        let mut readers = (port % threads..threads).step_by(ports);
        if let Some(reader) = readers.find(|thread| self.threads[*thread].is_idle) {
            self.wake(reader);
        }
    }

    /// A thread that found nothing to do sees that there is something.
    fn wake(&mut self, thread: usize) {
        if core::mem::take(&mut self.threads[thread].is_idle) {
            let at = self.machine.now + time(self.setup.costs.line);
            self.machine.resume(thread, at);
        }
    }

    /// A thread does its next step.
    fn go_on(&mut self, thread: usize) {
        if self.threads[thread].steps.is_empty() {
            let steps = match self.setup.design.is_sharded() {
                true => self.begin_sharded(thread),
                false => self.begin_locked(thread),
            };
            self.threads[thread].steps.extend(steps);
        }
        let Some(step) = self.threads[thread].steps.pop_front() else {
            self.threads[thread].is_idle = true;
            return;
        };
        if let Step::Act(act) = step {
            let more = self.act(thread, act);
            self.threads[thread].steps.extend(more);
        }
        self.machine.begin(thread, step);
    }

    /// The thread goes to a port that has a packet: to its own, or in turns to its own ones.
    fn begin_locked(&mut self, thread: usize) -> Vec<Step> {
        let (ports, threads) = (self.ports.len(), self.setup.threads);
        let first = self.threads[thread].next_port;
        let step = if threads < ports { threads } else { ports };
        let mut own = (0..ports).map(|turn| (first + turn * step) % ports);
        let Some(port) = own.find(|port| !self.ports[*port].is_empty()) else {
            return Vec::new();
        };
        self.threads[thread].next_port = (port + step) % ports;
        let lock = Step::Lock(self.port_locks[port]);
        let head = Step::Write(self.port_heads[port]);
        vec![lock, head, Step::Act(Act::Take(port))]
    }

    /// The thread takes what others passed to it and what is at its port in turns.
    fn begin_sharded(&mut self, thread: usize) -> Vec<Step> {
        let it = &mut self.threads[thread];
        let passed = !it.passed.is_empty();
        let arrived = self.ports.get(thread).is_some_and(|port| !port.is_empty());
        it.took_passed = passed && !(arrived && it.took_passed);
        let costs = self.setup.costs;
        match (it.took_passed, arrived) {
            (true, _) => vec![Step::Work(time(costs.line)), Step::Act(Act::Collect)],
            (false, true) => vec![
                Step::Work(time(costs.receive)),
                Step::Act(Act::Take(thread)),
            ],
            (false, false) => Vec::new(),
        }
    }

    /// Changes the state. Returns the steps that follow.
    fn act(&mut self, thread: usize, act: Act) -> Vec<Step> {
        match act {
            Act::Take(port) => {
                let taken = self.arrival(port);
                if self.setup.design.is_sharded() {
                    return taken.map_or_else(Vec::new, |it| self.sort(thread, it));
                }
                let unlock = Step::Unlock(self.port_locks[port]);
                let Some(number) = taken else {
                    return vec![unlock];
                };
                let mut steps = vec![Step::Work(time(self.setup.costs.receive)), unlock];
                if !self.setup.assumption.receives_at_port {
                    steps.reverse();
                }
                let shared = Step::Count(self.shared);
                steps.extend([shared].repeat(self.setup.assumption.shared));
                steps.extend(self.steps_of(number));
                steps
            }
            Act::Forward(to, number) => {
                self.threads[to].passed.push_back(number);
                self.wake(to);
                Vec::new()
            }
            Act::Collect => {
                let number = self.threads[thread].passed.pop_front();
                number.map_or_else(Vec::new, |number| self.steps_of(number))
            }
            Act::Finish(number) => {
                self.finish(number);
                Vec::new()
            }
        }
    }

    /// Takes a packet of a port. Packets of different connections arrive in any order.
    fn arrival(&mut self, port: usize) -> Option<usize> {
        let any = self.draw() % (self.ports[port].len() as u64).max(1);
        self.ports[port].swap_remove_back(any as usize)
    }

    /// A shard has a packet from its port: its own, or another one's.
    fn sort(&mut self, thread: usize, number: usize) -> Vec<Step> {
        let owner = (self.connections[number].node % self.setup.threads as u64) as usize;
        if owner == thread {
            return self.steps_of(number);
        }
        let end = Step::Count(self.threads[owner].end);
        let entry = Step::Work(time(self.setup.costs.line));
        vec![end, entry, Step::Act(Act::Forward(owner, number))]
    }

    /// Returns the steps that a packet takes after it was read.
    fn steps_of(&mut self, number: usize) -> Vec<Step> {
        let part = (self.draw() % 1_001) as f64 / 500.0 - 1.0;
        let half = Step::Work(time(self.setup.work * (1.0 + SPREAD * part) / 2.0));
        let find = Step::Work(time(self.setup.costs.find));
        let it = &self.connections[number];
        let mut change = it.lines.map(Step::Write).to_vec();
        change.push(find);
        let within = |lock: usize, mut steps: Vec<Step>| {
            steps.insert(0, Step::Lock(lock));
            steps.push(Step::Unlock(lock));
            steps
        };
        let middle = match self.setup.design {
            Design::Coarse => within(self.table, change),
            Design::Fine => {
                let mut steps = within(it.lock, change);
                steps.insert(0, Step::Count(it.bucket));
                steps.push(Step::Count(it.bucket));
                steps
            }
            Design::Consecutive | Design::Random => vec![find],
        };
        let mut steps = vec![half];
        steps.extend(middle);
        steps.push(half);
        if it.to_finish == 1 {
            // The connection closes, and the next one opens.
            steps.extend(within(self.table, vec![find, find]));
        }
        steps.push(Step::Act(Act::Finish(number)));
        steps
    }

    fn finish(&mut self, number: usize) {
        self.finished += 1;
        let it = &mut self.connections[number];
        it.to_finish -= 1;
        if it.to_finish > 0 {
            self.send(number);
            return;
        }
        self.open(number);
        (0..WINDOW).for_each(|_| self.send(number));
    }
}
