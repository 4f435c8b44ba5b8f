//! The process that expands states.

use std::collections::{HashMap, VecDeque};

use super::HUB;
use super::wire::{Kind, Malformed, Packet, Reader, put, put_len, put_name, put_set, put_version};
use crate::expand::{Expansion, Name, State};
use crate::formula::{Formulas, Id};

/// States whose successors are being numbered, at most. More would hide a longer round trip, and
/// keep more steps waiting; this hides half a millisecond where an expansion takes 30 us.
const IN_FLIGHT: usize = 16;

/// Branches of an expansion between two looks at arriving messages: some milliseconds. Most states
/// have fewer.
const BRANCHES: u32 = 1_000;

/// Names in one question to the hub, at most: it stays small, and does not keep those of others
/// waiting.
const NAMES: usize = 256;

/// Bytes after which a batch is sent.
const BATCH: usize = 16 << 10;

/// Expansions after which it is sent in any case: its receiver may have nothing to do.
const EXPANSIONS: u32 = 64;

/// A worker, between two messages.
#[derive(Debug)]
pub struct Worker {
    me: u32,
    workers: u32,
    question: u64,
    expanded: u64,
    job: Option<Job>,
    out: VecDeque<Packet>,
}

/// The state of one question.
#[derive(Debug)]
struct Job {
    table: Formulas,
    /// Nodes whose contents came, by when they did; those before `next` were expanded.
    owned: Vec<(u32, State)>,
    next: usize,
    known: HashMap<Name, Known>,
    /// The expansion of the state at `next`, if it is begun.
    expansion: Option<Expansion>,
    expanded: VecDeque<Expanded>,
    /// The states of each question to the hub, the oldest first; and the numbers of questions and
    /// answers.
    asked: VecDeque<Vec<(Name, State)>>,
    questions: u64,
    answers: u64,
    /// For each worker.
    states: Vec<Batch>,
    steps: Batch,
    owed: HashMap<Box<[Id]>, u64>,
    new_owed: Batch,
    /// Contents that came and were compared; and how many of them the hub knows of.
    compared: u64,
    reported: u64,
}

/// The facts about a state. A state without a number was asked for.
#[derive(Debug, Default)]
struct Known {
    number: Option<u32>,
    /// Its place in [`Job::owned`].
    owned: Option<usize>,
}

/// A state that was expanded and whose successors have no numbers yet.
#[derive(Debug)]
struct Expanded {
    number: u32,
    /// The number of the set of untils that it owes, and where it leads.
    steps: Vec<(u64, Name)>,
    /// After this many answers all successors have numbers.
    after: u64,
}

/// Things that will be sent together.
#[derive(Debug, Default)]
struct Batch {
    count: u64,
    bytes: Vec<u8>,
    expansions: u32,
}

impl Batch {
    fn is_due(&self) -> bool {
        self.bytes.len() >= BATCH || self.expansions >= EXPANSIONS
    }
}

impl Worker {
    /// Process `me` (from 1) of a run with this many workers. It announces itself: a network
    /// notices that a process does not answer only after something was sent to it.
    #[must_use]
    pub fn new(me: u32, workers: u32) -> Self {
        let mut worker = Self {
            me,
            workers,
            question: 0,
            expanded: 0,
            job: None,
            out: VecDeque::new(),
        };
        worker.send(HUB, Kind::Ready, Vec::new());
        worker
    }

    /// The number of states that it has expanded, for all questions.
    #[must_use]
    pub fn expanded(&self) -> u64 {
        self.expanded
    }

    /// The next message to send.
    pub fn poll(&mut self) -> Option<Packet> {
        self.out.pop_front()
    }

    /// Takes a message about expanding. Those of questions that are over mean nothing.
    ///
    /// # Errors
    /// No process of this program sends that.
    pub fn on(
        &mut self,
        from: u32,
        kind: Kind,
        question: u64,
        body: &[u8],
    ) -> Result<(), Malformed> {
        let mut reader = Reader::new(body);
        if kind == Kind::Begin && from == HUB {
            return self.begin(question, &mut reader);
        }
        if question > self.question {
            return Err(Malformed::new("a question that has not begun"));
        }
        let Some(job) = self.job.as_mut().filter(|_| question == self.question) else {
            return Ok(());
        };
        match (kind, from) {
            (Kind::Numbers, HUB) => job.on_numbers(self.me, &mut reader)?,
            (Kind::States, _) => job.on_states(&mut reader)?,
            (Kind::Show, HUB) => {
                let shown = job.shown(&mut reader)?;
                self.job = None;
                for body in shown {
                    self.send(HUB, Kind::Shown, body);
                }
                return Ok(());
            }
            _ => return Err(Malformed::new("nothing that a worker is told")),
        }
        self.send_due();
        Ok(())
    }

    fn begin(&mut self, question: u64, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        reader.version()?;
        if reader.number()? != u64::from(self.workers) {
            return Err(Malformed::new("a run of another number of processes"));
        }
        let table = reader.table()?;
        reader.end()?;
        if question <= self.question {
            return Err(Malformed::new("a question that is over"));
        }
        self.question = question;
        self.job = Some(Job::new(table, self.workers));
        let mut body = Vec::new();
        put_version(&mut body);
        self.send(HUB, Kind::Ready, body);
        Ok(())
    }

    /// Expands one state, or a part of one that goes on in very many ways, so that messages are
    /// looked at between two calls. Returns whether there was one to expand, and not too many wait
    /// for numbers.
    pub fn work(&mut self) -> bool {
        let Some(job) = &mut self.job else {
            return false;
        };
        let before = job.next;
        let Some(asks) = job.expand_next() else {
            return false;
        };
        self.expanded += (job.next - before) as u64;
        for body in asks {
            self.send(HUB, Kind::Ask, body);
        }
        self.send_due();
        true
    }

    /// There is nothing to do before a message comes: sends messages that others may wait for.
    pub fn rest(&mut self) {
        let Some(job) = &mut self.job else {
            return;
        };
        let idle = job.next == job.owned.len() && job.expanded.is_empty();
        let news = job.steps.count > 0 || job.compared > job.reported;
        self.flush(|batch| batch.count > 0, idle && news);
    }

    fn send_due(&mut self) {
        let due = self.job.as_ref().is_some_and(|job| job.steps.is_due());
        self.flush(Batch::is_due, due);
    }

    /// Sends the batches of states for which `which` holds, and that of steps.
    fn flush(&mut self, which: impl Fn(&Batch) -> bool, steps: bool) {
        let Some(job) = &mut self.job else {
            return;
        };
        let (me, question) = (self.me, self.question);
        for (owner, batch) in (1..).zip(&mut job.states) {
            // One's own are taken without a message.
            if owner != me && which(batch) {
                let body = std::mem::take(batch).bytes;
                self.out.push_back(Packet {
                    to: owner,
                    kind: Kind::States,
                    question,
                    body,
                });
            }
        }
        if steps {
            let body = job.take_steps();
            self.send(HUB, Kind::Steps, body);
        }
    }

    fn send(&mut self, to: u32, kind: Kind, body: Vec<u8>) {
        self.out.push_back(Packet {
            to,
            kind,
            question: self.question,
            body,
        });
    }
}

impl Job {
    fn new(table: Formulas, workers: u32) -> Self {
        Self {
            table,
            owned: Vec::new(),
            next: 0,
            known: HashMap::new(),
            expansion: None,
            expanded: VecDeque::new(),
            asked: VecDeque::new(),
            questions: 0,
            answers: 0,
            states: (0..workers).map(|_| Batch::default()).collect(),
            steps: Batch::default(),
            owed: HashMap::new(),
            new_owed: Batch::default(),
            compared: 0,
            reported: 0,
        }
    }

    /// Goes on expanding the next state, if it may; returns the questions about its successors when
    /// it has them.
    fn expand_next(&mut self) -> Option<Vec<Vec<u8>>> {
        if self.expanded.len() >= IN_FLIGHT {
            return None;
        }
        let (number, state) = self.owned.get(self.next)?;
        let number = *number;
        let begin = || Expansion::new(&self.table, state);
        self.expansion.get_or_insert_with(begin);
        let go_on = |expansion: &mut Expansion| expansion.go_on(&self.table, BRANCHES);
        let Some(done) = self.expansion.take_if(go_on) else {
            return Some(Vec::new());
        };
        self.next += 1;
        let found = done.steps();
        let mut new = Vec::new();
        let mut steps = Vec::with_capacity(found.len());
        for step in found {
            let name = step.next.name();
            steps.push((self.owed_number(step.owed), name));
            self.known.entry(name).or_insert_with(|| {
                new.push((name, step.next));
                Known::default()
            });
        }
        let asks = self.ask(new);
        let after = self.questions;
        self.expanded.push_back(Expanded {
            number,
            steps,
            after,
        });
        for batch in self.states.iter_mut().filter(|batch| batch.count > 0) {
            batch.expansions += 1;
        }
        // Without new successors nothing may be left to wait for.
        self.settle();
        Some(asks)
    }

    fn owed_number(&mut self, owed: Box<[Id]>) -> u64 {
        if let Some(&number) = self.owed.get(&owed) {
            return number;
        }
        let number = self.owed.len() as u64;
        put_set(&mut self.new_owed.bytes, &owed);
        self.new_owed.count += 1;
        self.owed.insert(owed, number);
        number
    }

    fn ask(&mut self, mut new: Vec<(Name, State)>) -> Vec<Vec<u8>> {
        let mut asks = Vec::new();
        while !new.is_empty() {
            let rest = new.split_off(new.len().min(NAMES));
            let mut body = Vec::with_capacity(16 * new.len());
            for (name, _) in &new {
                put_name(&mut body, *name);
            }
            asks.push(body);
            self.asked.push_back(std::mem::replace(&mut new, rest));
            self.questions += 1;
        }
        asks
    }

    /// The hub's answer to the oldest question: each state goes to its owner.
    fn on_numbers(&mut self, me: u32, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        let unasked = || Malformed::new("numbers that nobody asked for");
        let asked = self.asked.pop_front().ok_or_else(unasked)?;
        self.answers += 1;
        for (name, state) in asked {
            let number = reader.small()?;
            self.known.entry(name).or_default().number = Some(number);
            let workers = u32::try_from(self.states.len()).unwrap_or(u32::MAX);
            let owner = name.owner(workers);
            if owner + 1 == me {
                self.take(number, state)?;
            } else if let Some(batch) = self.states.get_mut(owner as usize) {
                batch.count += 1;
                put(&mut batch.bytes, u64::from(number));
                put_set(&mut batch.bytes, state.ids());
            }
        }
        reader.end()?;
        self.settle();
        Ok(())
    }

    fn on_states(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        while reader.end().is_err() {
            let number = reader.small()?;
            let state = reader.state(self.table.len())?;
            self.take(number, state)?;
        }
        Ok(())
    }

    /// A state of one's own: to be expanded if it is new, else compared.
    fn take(&mut self, number: u32, state: State) -> Result<(), Malformed> {
        let known = self.known.entry(state.name()).or_default();
        if known.number.is_some_and(|known| known != number) {
            return Err(Malformed::new("another number for a state that has one"));
        }
        known.number = Some(number);
        match known.owned.and_then(|place| self.owned.get(place)) {
            // Better no verdict than a wrong one.
            Some((_, before)) if *before != state => {
                return Err(Malformed::new("two states of one name"));
            }
            Some(_) => {}
            None => {
                known.owned = Some(self.owned.len());
                self.owned.push((number, state));
            }
        }
        self.compared += 1;
        Ok(())
    }

    /// Steps all of whose ends have numbers are ready to be sent.
    fn settle(&mut self) {
        let answers = self.answers;
        while let Some(done) = self.expanded.pop_front_if(|first| first.after <= answers) {
            let batch = &mut self.steps;
            batch.count += 1;
            batch.expansions += 1;
            put(&mut batch.bytes, u64::from(done.number));
            put_len(&mut batch.bytes, done.steps.len());
            for (owed, name) in done.steps {
                put(&mut batch.bytes, owed);
                let number = self.known.get(&name).and_then(|known| known.number);
                debug_assert!(
                    number.is_some(),
                    "the questions up to `after` were answered"
                );
                put(&mut batch.bytes, u64::from(number.unwrap_or(u32::MAX)));
            }
        }
    }

    fn take_steps(&mut self) -> Vec<u8> {
        let (new_owed, steps) = (
            std::mem::take(&mut self.new_owed),
            std::mem::take(&mut self.steps),
        );
        self.reported = self.compared;
        let mut body = Vec::with_capacity(new_owed.bytes.len() + steps.bytes.len() + 24);
        put(&mut body, self.compared);
        put(&mut body, steps.count);
        put(&mut body, new_owed.count);
        body.extend(new_owed.bytes);
        body.extend(steps.bytes);
        body
    }

    /// The contents of the wanted states, as far as this worker owns them: a few bodies of
    /// messages.
    fn shown(&self, reader: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, Malformed> {
        let mut wanted = std::collections::HashSet::new();
        while reader.end().is_err() {
            wanted.insert(reader.small()?);
        }
        let mut bodies = vec![Vec::new()];
        for (number, state) in self.owned.iter().filter(|(n, _)| wanted.contains(n)) {
            if bodies.last().is_none_or(|body| body.len() >= BATCH) {
                bodies.push(Vec::new());
            }
            if let Some(body) = bodies.last_mut() {
                put(body, u64::from(*number));
                put_set(body, state.ids());
            }
        }
        bodies.retain(|body| !body.is_empty());
        Ok(bodies)
    }
}
