//! A task farm: process 0 hands out tasks, the others do them. A worker may die at any time: its
//! task goes to another.
//!
//! `suci run -n 5 --tolerate-failures task-farm 2000000` counts the primes below two million with
//! four workers.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use suci::{Error, Event, Message, Next, Node, NodeId};

const MASTER: NodeId = NodeId(0);

/// Numbers in one task.
const TASK: u64 = 20_000;

/// After this much silence a worker's task goes to another. If the worker was only slow, the task
/// is done twice, which does no harm.
const SILENCE: Duration = Duration::from_secs(2);

/// Longer than any process waits.
const LONG: Duration = Duration::from_secs(3600);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let below: u64 = match std::env::args().nth(1) {
        Some(argument) => argument.parse()?,
        None => 2_000_000,
    };
    let mut node = Node::builder()
        .silence_timeout(SILENCE)
        .keep_alive()
        .open()?;
    if node.id() == MASTER {
        let primes = Farm::new(below).run(&mut node)?;
        let primes = primes.ok_or("no worker is left, and not all tasks are done")?;
        println!("{primes} primes below {below}");
    } else {
        work(&mut node, below)?;
    }
    node.close(SILENCE)?;
    Ok(())
}

/// Asks for a task, does it, and asks for the next one with its result, until there is none.
fn work(node: &mut Node, below: u64) -> Result<(), Error> {
    let mut result = Vec::new();
    loop {
        let reply = node.call(MASTER, result, LONG)?;
        let Some([task]) = numbers(&reply.payload) else {
            return Ok(());
        };
        result = bytes([task, count_primes(range(task, below))]);
    }
}

/// The master's state.
struct Farm {
    below: u64,
    /// Tasks that no worker does.
    waiting: BTreeSet<u64>,
    /// The role of a process.
    running: BTreeMap<NodeId, u64>,
    /// The count of each task that was done.
    done: BTreeMap<u64, u64>,
    /// Requests of workers for which there is no task now.
    idle: Vec<Message>,
    /// Workers that were not told yet that all is done.
    workers: BTreeSet<NodeId>,
    /// Workers that do not answer, and may come back.
    lost: BTreeSet<NodeId>,
}

impl Farm {
    fn new(below: u64) -> Self {
        Self {
            below,
            waiting: (0..below.div_ceil(TASK)).collect(),
            running: BTreeMap::new(),
            done: BTreeMap::new(),
            idle: Vec::new(),
            workers: BTreeSet::new(),
            lost: BTreeSet::new(),
        }
    }

    /// Hands out all tasks, and tells the workers when all are done. Returns how many primes there
    /// are; none if there are tasks left and no worker.
    fn run(mut self, node: &mut Node) -> Result<Option<u64>, Error> {
        self.workers = node.peers()?.into_iter().map(|peer| peer.node).collect();
        while !self.is_done() || !self.workers.is_empty() {
            if self.workers.is_empty() && self.lost.is_empty() {
                return Ok(None);
            }
            match node.next()? {
                Next::Message(request) => self.take(request),
                Next::Event(Event::Lost { node, .. }) => self.lose(node, false),
                Next::Event(Event::Ended { node, .. }) => self.lose(node, true),
                Next::Event(_) => {}
            }
            self.hand_out(node)?;
        }
        Ok(Some(self.done.values().sum()))
    }

    fn tasks(&self) -> u64 {
        self.below.div_ceil(TASK)
    }

    fn is_done(&self) -> bool {
        self.done.len() as u64 == self.tasks()
    }

    /// A worker asks for a task. Except for its first time it has a result.
    fn take(&mut self, request: Message) {
        if let Some([task, primes]) = numbers(&request.payload) {
            self.done.insert(task, primes);
            self.waiting.remove(&task);
            if self.done.len().is_multiple_of(10) {
                eprintln!("{} of {} tasks", self.done.len(), self.tasks());
            }
        }
        self.running.remove(&request.from);
        self.lost.remove(&request.from);
        self.workers.insert(request.from);
        self.idle.push(request);
    }

    /// A worker does not answer, or is dead for certain.
    fn lose(&mut self, worker: NodeId, ended: bool) {
        let task = self.running.remove(&worker);
        let open = task.filter(|task| !self.done.contains_key(task));
        self.waiting.extend(open);
        self.idle.retain(|request| request.from != worker);
        self.workers.remove(&worker);
        match ended {
            true => self.lost.remove(&worker),
            false => self.lost.insert(worker),
        };
    }

    /// Gives each idle worker a task, or the word that there will be none.
    fn hand_out(&mut self, node: &mut Node) -> Result<(), Error> {
        let all_done = self.is_done();
        while let Some(request) = self.idle.pop() {
            if let Some(task) = self.waiting.pop_first() {
                self.running.insert(request.from, task);
                node.send(request.from, request.reply(bytes([task]))?)?;
            } else if all_done {
                self.workers.remove(&request.from);
                node.send(request.from, request.reply("")?)?;
            } else {
                // A task that runs may come back.
                self.idle.push(request);
                break;
            }
        }
        Ok(())
    }
}

/// The numbers of a task.
fn range(task: u64, below: u64) -> Range<u64> {
    let begin = task.saturating_mul(TASK);
    begin..below.min(begin.saturating_add(TASK))
}

/// By trial division: it is to take a while.
fn count_primes(range: Range<u64>) -> u64 {
    let is_prime = |n: &u64| {
        *n > 1
            && (2..)
                .take_while(|d| d * d <= *n)
                .all(|d| !n.is_multiple_of(d))
    };
    range.filter(is_prime).count() as u64
}

fn bytes<const N: usize>(numbers: [u64; N]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
}

/// The numbers in a payload, if there are exactly `N`.
fn numbers<const N: usize>(payload: &[u8]) -> Option<[u64; N]> {
    let (words, rest) = payload.as_chunks();
    let numbers: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    numbers.try_into().ok().filter(|_| rest.is_empty())
}
