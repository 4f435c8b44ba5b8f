//! The process that asks, gives numbers and answers.

use std::collections::{HashMap, VecDeque};

use super::wire::{Kind, Malformed, Packet, Reader, put, put_set, put_table, put_version};
use crate::expand::{Name, State};
use crate::formula::{Formulas, Id};
use crate::sequential::Extent;
use crate::witness::{Lasso, Path};

/// The hub, between two messages.
#[derive(Debug)]
pub struct Hub {
    workers: u32,
    question: u64,
    phase: Phase,
    formulas: usize,
    root: Option<State>,
    numbers: HashMap<Name, u32>,
    /// Names for which a number was told, with repetitions, and the first state.
    answered: u64,
    /// States whose steps came: never more than have numbers.
    expanded: u64,
    /// Contents that owners compared, never more than were answered for; and the number of each
    /// worker.
    compared: u64,
    compared_by: Vec<u64>,
    out: VecDeque<Packet>,
}

/// The state of a question.
#[derive(Debug)]
enum Phase {
    /// None was asked, or the last is answered.
    Idle,
    /// Building has not begun; for each worker, whether it is ready.
    Gathering(Vec<bool>),
    Building,
    /// The contents of the states of a model, as far as they came.
    Showing(HashMap<u32, Option<State>>),
}

/// The work of the driver after a message, beside sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// Give the message to the [`Search`](super::Search), with the number of states that there are.
    Steps {
        /// The number of states that have numbers.
        found: u32,
    },
}

impl Hub {
    /// The hub of this many workers.
    #[must_use]
    pub fn new(workers: u32) -> Self {
        Self {
            workers,
            question: 0,
            phase: Phase::Idle,
            formulas: 0,
            root: None,
            numbers: HashMap::new(),
            answered: 0,
            expanded: 0,
            compared: 0,
            compared_by: Vec::new(),
            out: VecDeque::new(),
        }
    }

    /// The next message to send.
    pub fn poll(&mut self) -> Option<Packet> {
        self.out.pop_front()
    }

    /// The number of the question that is being answered, or was last.
    #[must_use]
    pub fn question(&self) -> u64 {
        self.question
    }

    /// Begins a question: whether `root` has a model.
    pub fn begin(&mut self, table: &Formulas, root: Id) {
        self.question += 1;
        self.phase = Phase::Gathering(self.all(false));
        self.formulas = table.len();
        self.root = Some(State::new(table, [root]));
        self.numbers.clear();
        self.answered = 0;
        (self.expanded, self.compared) = (0, 0);
        self.compared_by = self.all(0);
        let mut body = Vec::new();
        put_version(&mut body);
        put(&mut body, self.workers.into());
        put_table(&mut body, table);
        self.broadcast(Kind::Begin, &body);
    }

    fn all<T: Clone>(&self, value: T) -> Vec<T> {
        vec![value; self.workers as usize]
    }

    /// The size of the tableau so far.
    #[must_use]
    pub fn extent(&self) -> Extent {
        Extent {
            found: self.numbers.len(),
            expanded: usize::try_from(self.expanded).unwrap_or(usize::MAX),
        }
    }

    /// Whether the search was given the whole tableau: see the module's proof.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let Extent { found, expanded } = self.extent();
        matches!(self.phase, Phase::Building) && expanded == found && self.compared == self.answered
    }

    /// Takes a message from a worker. Those of questions that are over mean nothing.
    ///
    /// # Errors
    /// No process of this program sends that.
    pub fn on(
        &mut self,
        from: u32,
        kind: Kind,
        question: u64,
        body: &[u8],
    ) -> Result<Effect, Malformed> {
        if question > self.question {
            return Err(Malformed::new("a question that nobody asked"));
        }
        if question < self.question || (kind, question) == (Kind::Ready, 0) {
            return Ok(Effect::None);
        }
        let place = from.checked_sub(1).filter(|place| *place < self.workers);
        let place = place.ok_or_else(|| Malformed::new("what only workers say"))? as usize;
        let mut reader = Reader::new(body);
        match (kind, &mut self.phase) {
            (Kind::Ready, Phase::Gathering(ready)) => {
                reader.version()?;
                if let Some(ready) = ready.get_mut(place) {
                    *ready = true;
                }
                if ready.iter().all(|&ready| ready) {
                    self.start();
                }
                reader.end()?;
            }
            (Kind::Ask, Phase::Building) => self.answer(from, &mut reader)?,
            (Kind::Steps, Phase::Building) => {
                // The counts alone: the search reads the rest, while numbers are given here.
                let (compared, expanded) = (reader.number()?, reader.number()?);
                self.count(place, compared, expanded)?;
                let found = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
                return Ok(Effect::Steps { found });
            }
            (Kind::Shown, Phase::Showing(states)) => {
                while reader.end().is_err() {
                    let number = reader.small()?;
                    let state = reader.state(self.formulas)?;
                    if self.numbers.get(&state.name()) != Some(&number) {
                        return Err(Malformed::new("a state of another name"));
                    }
                    let wanted = states.get_mut(&number);
                    *wanted.ok_or_else(|| Malformed::new("a state that nobody wanted"))? =
                        Some(state);
                }
            }
            // A model was found while they were at work.
            (Kind::Ask | Kind::Steps, Phase::Showing(_) | Phase::Idle) => {}
            _ => return Err(Malformed::new("nothing that a hub is told now")),
        }
        Ok(Effect::None)
    }

    /// All are ready: the first state is told to its owner.
    fn start(&mut self) {
        self.phase = Phase::Building;
        let Some(root) = self.root.take() else {
            return;
        };
        let name = root.name();
        self.numbers.insert(name, 0);
        self.answered = 1;
        let mut body = Vec::new();
        put(&mut body, 0);
        put_set(&mut body, root.ids());
        self.send(name.owner(self.workers) + 1, Kind::States, body);
    }

    fn answer(&mut self, to: u32, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        let mut body = Vec::new();
        while reader.end().is_err() {
            let name = reader.name()?;
            let new = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
            let number = *self.numbers.entry(name).or_insert(new);
            if number == u32::MAX {
                return Err(Malformed::new("more states than numbers for them"));
            }
            self.answered += 1;
            put(&mut body, u64::from(number));
        }
        self.send(to, Kind::Numbers, body);
        Ok(())
    }

    /// Takes the counts of a worker: the contents that it has compared in all, and the number of
    /// steps that it sends now. Counts that are too large would end the question before its time.
    fn count(&mut self, place: usize, compared: u64, expanded: u64) -> Result<(), Malformed> {
        let found = self.numbers.len() as u64;
        let sum = self.expanded.checked_add(expanded);
        let sum = sum.filter(|&sum| sum <= found);
        self.expanded = sum.ok_or_else(|| Malformed::new("steps of more states than there are"))?;
        let before = self.compared_by.get_mut(place);
        let new = before.and_then(|before| {
            let new = compared.checked_sub(*before)?;
            *before = compared;
            self.compared.checked_add(new)
        });
        let new = new.filter(|&new| new <= self.answered);
        self.compared = new.ok_or_else(|| Malformed::new("more states than it was given"))?;
        Ok(())
    }

    /// A model was found: asks for the contents of its states, and lets all workers stop.
    pub fn show(&mut self, path: &Path) {
        let wanted: HashMap<u32, Option<State>> =
            path.states().map(|state| (state, None)).collect();
        let mut body = Vec::new();
        for number in wanted.keys() {
            put(&mut body, u64::from(*number));
        }
        self.phase = Phase::Showing(wanted);
        self.broadcast(Kind::Show, &body);
    }

    /// The model, when all its states were shown.
    ///
    /// # Errors
    /// The states do not fit the steps that were sent before.
    pub fn model(&mut self, table: &Formulas, path: &Path) -> Result<Option<Lasso>, Malformed> {
        let Phase::Showing(states) = &self.phase else {
            return Ok(None);
        };
        if states.values().any(Option::is_none) {
            return Ok(None);
        }
        let lasso = path.lasso(table, |number| states.get(&number)?.as_ref());
        let lasso =
            lasso.ok_or_else(|| Malformed::new("states without the steps that were told"))?;
        self.phase = Phase::Idle;
        Ok(Some(lasso))
    }

    /// There is no model: the question is answered.
    pub fn refute(&mut self) {
        self.phase = Phase::Idle;
    }

    fn broadcast(&mut self, kind: Kind, body: &[u8]) {
        for to in 1..=self.workers {
            self.send(to, kind, body.to_vec());
        }
    }

    fn send(&mut self, to: u32, kind: Kind, body: Vec<u8>) {
        let question = self.question;
        self.out.push_back(Packet {
            to,
            kind,
            question,
            body,
        });
    }
}
