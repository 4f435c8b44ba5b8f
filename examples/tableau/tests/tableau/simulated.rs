//! The hub and its workers over a network that delays at will: only the messages from one process
//! to another on one channel keep their order, as the library promises.

use std::collections::{BTreeMap, VecDeque};

use super::oracle::random::{Random, formula};
use super::verdicts::{broken, counter, promises};
use tableau::parallel::{Effect, HUB, Hub, Kind, Malformed, Packet, Search, Worker};
use tableau::{Formulas, Id, Path, decide, parse};

/// Messages under way: by sender, receiver and urgency.
type Network = BTreeMap<(u32, u32, bool), VecDeque<Packet>>;

struct Cluster {
    hub: Hub,
    workers: Vec<Worker>,
    search: Search,
    /// Messages given to the search and not yet looked at: the search has a thread of its own.
    unread: VecDeque<(u32, Vec<u8>, u32)>,
    network: Network,
    random: Random,
    /// A model that was found, and whether the tableau was complete.
    found: Option<Path>,
    complete: bool,
    /// Whether a worker was told to rest and its messages are not in flight yet.
    rested: bool,
    seen: Seen,
}

/// The situations that runs have met, which they should.
#[derive(Default)]
struct Seen {
    /// Models that were found while states were being expanded.
    busy_models: u32,
    /// Batches that were sent because they were full.
    full_batches: u32,
    /// Questions to the hub with as many names as one may have.
    full_questions: u32,
}

/// The answer to a question: whether there is a model, and the number of states.
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
            rested: false,
            seen: Seen::default(),
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

    /// Checks a tableau that is said to be complete: no process may have anything left to send or
    /// do.
    fn assert_quiet(&mut self) {
        assert_eq!(self.under_way(), 0, "complete, but something is under way");
        assert_eq!(self.hub.poll(), None, "complete, but the hub has news");
        for worker in &mut self.workers {
            assert!(!worker.work(), "complete, but a state is not expanded");
            worker.rest();
            assert_eq!(worker.poll(), None, "complete, but somebody has news");
        }
    }

    /// Messages about the question; some about earlier ones may be left.
    fn under_way(&self) -> usize {
        let packets = self.network.values().flatten();
        let question = self.hub.question();
        packets.filter(|one| one.question == question).count()
    }

    fn found(&mut self, path: Path) {
        self.seen.busy_models += u32::from(self.under_way() > 0);
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
            // There may be something for it to do: its message is true all the same.
            let resting = chosen - self.workers.len();
            self.workers[resting].rest();
            self.rested = true;
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
        if !self.complete && self.hub.is_complete() {
            self.complete = true;
            self.assert_quiet();
        }
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
        let rested = std::mem::take(&mut self.rested);
        for (from, packet) in sent {
            let is_batch = matches!(packet.kind, Kind::States | Kind::Steps);
            // Without a rest nothing else makes a worker send one.
            self.seen.full_batches += u32::from(from != HUB && is_batch && !rested);
            let is_full = packet.kind == Kind::Ask && packet.body.len() == 256 * 16;
            self.seen.full_questions += u32::from(is_full);
            let way = (from, packet.to, packet.kind.is_urgent());
            self.network.entry(way).or_default().push_back(packet);
        }
    }
}

/// Many are expanded at once: from 4 promises with a model that is found at the first look, of 32
/// states, and from 3 without one.
fn branching(model: bool) -> String {
    match model {
        true => promises(&[2, 2, 3, 3]).replace(" & F G !z", ""),
        false => promises(&[2, 2, 3]),
    }
}

/// A state with 512 successors, more than one question to the hub names. Without a model.
fn wide() -> String {
    let choices: Vec<String> = (0..8).map(|i| format!("(X a{i} | X b{i})")).collect();
    format!("{} & {}", choices.join(" & "), promises(&[]))
}

/// Asks about `text`, and compares with the result of one process. Returns whether there is a
/// model, and how many states.
fn compare(cluster: &mut Cluster, text: &str) -> Outcome {
    let mut table = Formulas::default();
    let root = table.read(&parse(text).unwrap(), true);
    let alone = decide(&table, root, |_| {});
    let (model, states) = cluster.ask(&table, root);
    assert_eq!(model, alone.model.is_some(), "{text}");
    if !model {
        assert_eq!(states, alone.states, "{text}");
    }
    (model, states)
}

/// Runs one question after the other in the same cluster, so that messages of the last question
/// meet the next one.
#[test]
fn the_end_is_seen_at_last_and_never_early() {
    let (mut models, mut busy, mut full) = (0, 0, 0);
    for seed in 0..150 {
        let workers = 1 + u32::try_from(seed % 5).unwrap();
        let mut cluster = Cluster::new(workers, seed);
        let bits = 2 + usize::try_from(seed % 3).unwrap();
        for text in [
            counter(bits).to_string(),
            branching(true),
            broken(counter(bits), bits).to_string(),
            formula(4 * seed + 2).to_string(),
            formula(4 * seed + 3).to_string(),
        ] {
            models += u64::from(compare(&mut cluster, &text).0);
        }
        busy += cluster.seen.busy_models;
        full += cluster.seen.full_batches;
    }
    println!("{models} of 750 have a model, {busy} found at work; {full} batches became full");
    assert!(models > 250 && models < 650 && busy > 50);
}

/// Here many states are under way, and batches and questions become full.
#[test]
fn the_end_is_seen_where_much_is_under_way() {
    let (mut batches, mut questions) = (0, 0);
    for seed in 0..10 {
        let workers = 1 + u32::try_from(seed % 5).unwrap();
        let mut cluster = Cluster::new(workers, seed);
        for text in [branching(false), branching(true), wide()] {
            let (_, states) = compare(&mut cluster, &text);
            assert!(states > 32, "{text}");
        }
        batches += cluster.seen.full_batches;
        questions += cluster.seen.full_questions;
    }
    println!("{batches} batches and {questions} questions were full");
    assert!(batches >= 10 && questions >= 10);
}

/// A hub and its only worker, when they have begun a question: one state has a number.
fn begun() -> (Hub, Worker) {
    let mut table = Formulas::default();
    let root = table.read(&parse("G F p").unwrap(), true);
    let (mut hub, mut worker) = (Hub::new(1), Worker::new(1, 1));
    hub.begin(&table, root);
    let begin = hub.poll().unwrap();
    let told = |worker: &mut Worker| worker.on(HUB, begin.kind, begin.question, &begin.body);
    told(&mut worker).unwrap();
    assert!(told(&mut Worker::new(1, 2)).is_err(), "2 workers, said 1");
    for packet in std::iter::from_fn(|| worker.poll()) {
        let done = hub.on(1, packet.kind, packet.question, &packet.body);
        done.unwrap();
    }
    (hub, worker)
}

#[test]
fn counts_that_cannot_be_are_refused() {
    let steps = |hub: &mut Hub, body: &[u8]| hub.on(1, Kind::Steps, 1, body);
    let most = [&[0xff; 9][..], &[1]].concat();
    // Compared contents, expanded states, and no sets of untils.
    for body in [
        vec![2, 0, 0],
        vec![0, 2, 0],
        [&most[..], &[0, 0]].concat(),
        [&[0], &most[..], &[0]].concat(),
    ] {
        assert!(steps(&mut begun().0, &body).is_err(), "{body:?}");
    }
    let (mut hub, _) = begun();
    assert!(steps(&mut hub, &[1, 0, 0]).is_ok() && !hub.is_complete());
    assert!(steps(&mut hub, &[0, 0, 0]).is_err(), "counts backwards");
    assert!(steps(&mut hub, &[1, 1, 0]).is_ok() && hub.is_complete());
    assert!(steps(&mut hub, &[1, 1, 0]).is_err(), "one too many");
}

/// A message that is cut or damaged is refused, or taken for another one. It never ends a process.
#[test]
fn damaged_messages_do_no_harm() {
    let mut damage = Damage::default();
    for seed in 0..400 {
        // A process that gets an impossible message ends.
        let text = match seed % 4 {
            0 => counter(3).to_string(),
            _ => formula(seed).to_string(),
        };
        damage.refused += u32::from(damage.run(&text).is_err());
    }
    let Damage {
        done,
        refused,
        models,
        ..
    } = damage;
    println!("{done} messages were damaged, {refused} refused; {models} models were shown");
    assert!(done > refused && refused > 100 && models > 50);
}

/// Something on the way that damages messages.
#[derive(Default)]
struct Damage {
    random: Random,
    done: u32,
    refused: u32,
    /// Runs that came to a model all the same.
    models: u32,
}

impl Damage {
    /// A hub and two workers.
    fn run(&mut self, text: &str) -> Result<(), Malformed> {
        let mut table = Formulas::default();
        let root = table.read(&parse(text).unwrap(), true);
        let mut hub = Hub::new(2);
        let mut workers = [1, 2].map(|me| Worker::new(me, 2));
        let mut search = Search::new(table.len(), 2);
        let mut found = None;
        hub.begin(&table, root);
        for _ in 0..200 {
            let mut packets: Vec<_> =
                std::iter::from_fn(|| hub.poll().map(|one| (HUB, one))).collect();
            for (from, worker) in (1..).zip(&mut workers) {
                packets.extend(std::iter::from_fn(|| worker.poll().map(|one| (from, one))));
            }
            for (from, mut packet) in packets {
                self.damage(&mut packet.body);
                let (kind, question, body) = (packet.kind, packet.question, packet.body);
                if packet.to != HUB {
                    workers[packet.to as usize - 1].on(from, kind, question, &body)?;
                } else if let Effect::Steps { found: states } =
                    hub.on(from, kind, question, &body)?
                {
                    let path = search.on_steps(from, &body, states)?;
                    show(&mut hub, &mut found, path);
                }
            }
            if found.is_none() && hub.is_complete() {
                show(&mut hub, &mut found, search.look());
            }
            if let Some(path) = &found
                && hub.model(&table, path)?.is_some()
            {
                self.models += 1;
                return Ok(());
            }
            for worker in &mut workers {
                if !worker.work() {
                    worker.rest();
                }
            }
        }
        Ok(())
    }

    fn damage(&mut self, body: &mut [u8]) {
        if self.random.below(20) == 0 && !body.is_empty() {
            let at = usize::try_from(self.random.below(body.len() as u64)).unwrap();
            body[at] ^= 1 << self.random.below(8);
            self.done += 1;
        }
    }
}

fn show(hub: &mut Hub, found: &mut Option<Path>, path: Option<Path>) {
    if let Some(path) = path.filter(|_| found.is_none()) {
        hub.show(&path);
        *found = Some(path);
    }
}
