//! The hub and its workers over a network that delays at will: only what one process tells another on one channel keeps
//! its order, as the library promises.

use std::collections::{BTreeMap, VecDeque};

use super::oracle::random::{Random, formula};
use super::verdicts::{broken_counter, counter};
use tableau::parallel::{Effect, HUB, Hub, Malformed, Packet, Search, Worker};
use tableau::{Formulas, Id, Path, decide, parse};

/// Messages under way: by sender, receiver and urgency.
type Network = BTreeMap<(u32, u32, bool), VecDeque<Packet>>;

struct Cluster {
    hub: Hub,
    workers: Vec<Worker>,
    search: Search,
    /// What was given to the search and not looked at yet: it has a thread of its own.
    unread: VecDeque<(u32, Vec<u8>, u32)>,
    network: Network,
    random: Random,
    /// A model that was found, and whether the tableau was complete.
    found: Option<Path>,
    complete: bool,
}

/// What came out of a question: whether there is a model, and how many states there were.
type Outcome = (bool, usize);

impl Cluster {
    fn new(workers: u32, seed: u64) -> Self {
        Self {
            hub: Hub::new(workers),
            workers: (1..=workers).map(|me| Worker::new(me, workers)).collect(),
            search: Search::new(0, workers),
            unread: VecDeque::new(),
            network: Network::new(),
            random: Random(seed),
            found: None,
            complete: false,
        }
    }

    fn ask(&mut self, table: &Formulas, root: Id) -> Outcome {
        self.search = Search::new(table.len(), u32::try_from(self.workers.len()).unwrap());
        self.unread.clear();
        (self.found, self.complete) = (None, false);
        self.hub.begin(table, root);
        loop {
            self.send();
            if let Some(outcome) = self.outcome(table) {
                return outcome;
            }
            self.one_thing();
        }
    }

    fn outcome(&mut self, table: &Formulas) -> Option<Outcome> {
        if let Some(path) = &self.found {
            let model = self.hub.model(table, path).unwrap()?;
            assert!(!model.cycle.is_empty());
            return Some((true, self.hub.extent().found));
        }
        if self.complete && self.unread.is_empty() {
            self.assert_quiet();
            match self.search.look() {
                Some(path) => self.found(path),
                None => {
                    self.hub.refute();
                    return Some((false, self.hub.extent().found));
                }
            }
        }
        None
    }

    /// The tableau is said to be complete: nobody may have anything left to say or do.
    fn assert_quiet(&mut self) {
        let under_way = self.network.values().flatten().count();
        assert_eq!(under_way, 0, "complete, but something is under way");
        for worker in &mut self.workers {
            assert!(!worker.work(), "complete, but a state is not expanded");
            worker.rest();
            assert_eq!(worker.poll(), None, "complete, but somebody has news");
        }
    }

    fn found(&mut self, path: Path) {
        self.hub.show(&path);
        self.found = Some(path);
    }

    /// Some process does something: takes a message, works, or rests.
    fn one_thing(&mut self) {
        let ways: Vec<_> = self.network.keys().copied().collect();
        let workers = self.workers.len() as u64;
        let choice = self.random.below(2 * workers + 1 + 2 * ways.len() as u64);
        let chosen = usize::try_from(choice).unwrap();
        if chosen < self.workers.len() {
            self.workers[chosen].work();
        } else if chosen < 2 * self.workers.len() {
            // Rests only when there is nothing else for it to do.
            let worker = &mut self.workers[chosen - usize::try_from(workers).unwrap()];
            if !worker.work() {
                worker.rest();
            }
        } else if chosen == 2 * self.workers.len() {
            if let Some((from, body, found)) = self.unread.pop_front() {
                let model = self.search.on_steps(from, &body, found).unwrap();
                if let Some(path) = model.filter(|_| self.found.is_none()) {
                    self.found(path);
                }
            }
        } else {
            let way = ways[(chosen - 2 * self.workers.len() - 1) % ways.len()];
            self.deliver(way);
        }
        self.complete |= self.hub.is_complete();
    }

    fn deliver(&mut self, way: (u32, u32, bool)) {
        let queue = self.network.get_mut(&way).unwrap();
        let packet = queue.pop_front().unwrap();
        if queue.is_empty() {
            self.network.remove(&way);
        }
        let (from, to) = (way.0, way.1);
        let Packet {
            kind,
            question,
            body,
            ..
        } = packet;
        if to == HUB {
            let effect = self.hub.on(from, kind, question, &body).unwrap();
            if let Effect::Steps { found } = effect {
                self.unread.push_back((from, body, found));
            }
        } else {
            let worker = &mut self.workers[to as usize - 1];
            worker.on(from, kind, question, &body).unwrap();
        }
    }

    fn send(&mut self) {
        let mut sent = Vec::new();
        sent.extend(std::iter::from_fn(|| self.hub.poll()).map(|packet| (HUB, packet)));
        for (from, worker) in (1..).zip(&mut self.workers) {
            sent.extend(std::iter::from_fn(|| worker.poll()).map(|packet| (from, packet)));
        }
        for (from, packet) in sent {
            let way = (from, packet.to, packet.kind.is_urgent());
            self.network.entry(way).or_default().push_back(packet);
        }
    }
}

/// One run after the other in the same cluster, so that messages of the last question meet the next one.
#[test]
fn the_end_is_seen_at_last_and_never_early() {
    let (mut models, mut largest) = (0, 0);
    for seed in 0..150 {
        let workers = 1 + u32::try_from(seed % 5).unwrap();
        let mut cluster = Cluster::new(workers, seed);
        for part in 0..4 {
            let bits = 2 + usize::try_from(seed % 3).unwrap();
            let formula = match part {
                0 => counter(bits),
                1 => broken_counter(bits),
                _ => formula(4 * seed + part),
            };
            let text = formula.to_string();
            let mut table = Formulas::default();
            let root = table.read(&parse(&text).unwrap(), true);
            let alone = decide(&table, root, |_| {});
            let (model, states) = cluster.ask(&table, root);
            assert_eq!(model, alone.model.is_some(), "{text}");
            if !model {
                assert_eq!(states, alone.states, "{text}");
            }
            models += u64::from(model);
            largest = largest.max(states);
        }
    }
    println!("{models} of 600 have a model; the largest tableau has {largest} states");
    assert!(models > 100 && models < 500 && largest > 40);
}

/// What is cut or damaged is refused, or taken for something else; it never ends a process.
#[test]
fn damaged_messages_do_no_harm() {
    let mut random = Random(7);
    let (mut damaged, mut refused) = (0, 0);
    for seed in 0..400 {
        let text = formula(4 * seed + 1).to_string();
        let mut table = Formulas::default();
        let root = table.read(&parse(&text).unwrap(), true);
        let mut hub = Hub::new(1);
        let mut worker = Worker::new(1, 1);
        let mut search = Search::new(table.len(), 1);
        hub.begin(&table, root);
        // A process that was told what cannot be ends.
        let _ = (0..60)
            .try_for_each(|_| {
                let mut packets: Vec<_> = std::iter::from_fn(|| hub.poll()).collect();
                packets.extend(std::iter::from_fn(|| worker.poll()));
                for mut packet in packets {
                    if random.below(8) == 0 && !packet.body.is_empty() {
                        let at = usize::try_from(random.below(packet.body.len() as u64)).unwrap();
                        packet.body[at] ^= 1 << random.below(8);
                        damaged += 1;
                    }
                    let Packet {
                        to,
                        kind,
                        question,
                        body,
                    } = packet;
                    if to == HUB {
                        if let Effect::Steps { found } = hub.on(1, kind, question, &body)? {
                            search.on_steps(1, &body, found)?;
                        }
                    } else {
                        worker.on(HUB, kind, question, &body)?;
                    }
                }
                if !worker.work() {
                    worker.rest();
                }
                Ok::<(), Malformed>(())
            })
            .map_err(|_| refused += 1);
    }
    println!("{damaged} messages were damaged, {refused} refused");
    assert!(damaged > refused && refused > 100);
}
