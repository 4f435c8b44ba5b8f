//! The tableau's rule: from what must hold now to all the ways in which it can, and what each leaves for the next
//! moment.
//!
//! A function of its arguments alone, so that it does not matter which process applies it.

use std::hash::{Hash, Hasher};

use siphasher::sip128::{Hasher128, SipHasher24};

use crate::formula::{Formula, Formulas, Id, Literal};

/// What must hold from some moment on: a set of formulas.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State(Box<[Id]>);

/// A state's name: a hash of what it contains, the same in every process that read the same text.
///
/// 128 bits: of 2^32 states two would share a name with a probability of 2^-65.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub u128);

impl Name {
    /// Which of `count` processes looks after the state, from 0.
    pub(crate) fn owner(self, count: u32) -> u32 {
        u32::try_from(self.0 % u128::from(count.max(1))).unwrap_or(0)
    }
}

/// One way to go on from a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What the moment must be like; what is not named is free.
    pub when: Box<[Literal]>,
    /// The untils that must hold and are not fulfilled at this moment, in order. A run that owes one for ever is no
    /// model: promises are kept some day.
    pub owed: Box<[Id]>,
    /// What must hold from the next moment on.
    pub next: State,
}

impl State {
    /// The state in which all of `formulas` must hold. Conjunctions are taken apart, so that the same demands are
    /// the same state.
    pub fn new(table: &Formulas, formulas: impl IntoIterator<Item = Id>) -> Self {
        let mut todo: Vec<Id> = formulas.into_iter().collect();
        let mut parts = Vec::with_capacity(todo.len());
        while let Some(id) = todo.pop() {
            match table.get(id) {
                Formula::And(a, b) => todo.extend([a, b]),
                Formula::True => {}
                _ => parts.push(id),
            }
        }
        parts.sort_unstable();
        parts.dedup();
        Self(parts.into())
    }

    /// What another process says that it contains: formulas in order, each once.
    pub(crate) fn from_set(ids: Box<[Id]>) -> Self {
        Self(ids)
    }

    /// What it contains, in order.
    pub(crate) fn ids(&self) -> &[Id] {
        &self.0
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> Name {
        let mut hasher = SipHasher24::new();
        for id in &self.0 {
            hasher.write(&id.to_bytes());
        }
        Name(hasher.finish128().as_u128())
    }
}

/// All ways to go on from `state`; none if it contradicts itself. The order follows from the arguments.
#[must_use]
pub fn expand(table: &Formulas, state: &State) -> Vec<Step> {
    let mut open = vec![Branch::new(table, state)];
    let mut steps = Vec::new();
    while let Some(mut branch) = open.pop() {
        if !branch.settle() {
            continue;
        }
        match branch.choices.pop() {
            None => steps.push(branch.finish()),
            Some(choice) => {
                let mut other = branch.clone();
                other.choose_second(choice);
                branch.choose_first(choice);
                open.extend([other, branch]);
            }
        }
    }
    without_the_worse(steps)
}

/// Of steps to one state, those that owe least: whoever can take another can take one of these.
fn without_the_worse(mut steps: Vec<Step>) -> Vec<Step> {
    steps.sort_by(|a, b| (&a.next, a.owed.len()).cmp(&(&b.next, b.owed.len())));
    let mut kept: Vec<Step> = Vec::new();
    for step in steps {
        let better = |other: &Step| other.owed.iter().all(|until| step.owed.contains(until));
        let mut same_next = kept
            .iter()
            .rev()
            .take_while(|other| other.next == step.next);
        if !same_next.any(better) {
            kept.push(step);
        }
    }
    kept
}

/// A way to go on that is not settled yet.
#[derive(Clone)]
struct Branch<'a> {
    table: &'a Formulas,
    /// Must hold, and is not looked at yet.
    todo: Vec<Id>,
    /// Must hold, and can in two ways.
    choices: Vec<Id>,
    /// Holds in this branch.
    holds: Bits,
    /// What the propositions are, where that is settled.
    values: Vec<Option<bool>>,
    /// Must hold from the next moment on.
    next: Bits,
    /// Untils that were put off to the next moment.
    put_off: Vec<Id>,
}

/// The two ways in which a formula can hold.
struct Ways {
    first: Id,
    second: Second,
}

#[derive(Clone, Copy)]
enum Second {
    /// This one holds.
    Now(Id),
    /// This one holds now, and the whole at the next moment, where it is still owed.
    Owe(Id),
    /// The whole holds at the next moment.
    Later,
}

/// What is known of a formula with two ways.
enum Judgement {
    Holds,
    Fails,
    OnlyFirst,
    OnlySecond,
    Open,
}

impl<'a> Branch<'a> {
    fn new(table: &'a Formulas, state: &State) -> Self {
        Self {
            table,
            todo: state.0.to_vec(),
            choices: Vec::new(),
            holds: Bits::new(table.len()),
            values: vec![None; table.atoms().len()],
            next: Bits::new(table.len()),
            put_off: Vec::new(),
        }
    }

    /// Draws all conclusions that need no choice; false if they contradict one another.
    fn settle(&mut self) -> bool {
        loop {
            while let Some(id) = self.todo.pop() {
                if !self.demand(id) {
                    return false;
                }
            }
            let mut concluded = false;
            for id in std::mem::take(&mut self.choices) {
                match self.judge(id) {
                    Judgement::Holds => {}
                    Judgement::Fails => return false,
                    Judgement::Open => self.choices.push(id),
                    Judgement::OnlyFirst => {
                        self.todo.push(self.ways(id).first);
                        concluded = true;
                    }
                    Judgement::OnlySecond => {
                        self.take_second(id);
                        concluded = true;
                    }
                }
            }
            if !concluded {
                return true;
            }
        }
    }

    /// Makes `id` hold; false if it cannot.
    fn demand(&mut self, id: Id) -> bool {
        if !self.holds.insert(id) {
            return true;
        }
        match self.table.get(id) {
            Formula::False => return false,
            Formula::True => {}
            Formula::Literal(literal) => {
                let value = &mut self.values[literal.atom];
                return *value.get_or_insert(literal.positive) == literal.positive;
            }
            Formula::And(a, b) => self.todo.extend([a, b]),
            Formula::Next(a) => {
                self.next.insert(a);
            }
            Formula::Or(..) | Formula::Until(..) => self.choices.push(id),
            Formula::Release(_, b) => {
                self.todo.push(b);
                self.choices.push(id);
            }
        }
        true
    }

    /// The two ways of a formula that is in `choices`.
    fn ways(&self, id: Id) -> Ways {
        let (first, second) = match self.table.get(id) {
            Formula::Until(a, b) => (b, Second::Owe(a)),
            Formula::Release(a, _) => (a, Second::Later),
            // A literal first: its opposite makes the two ways exclude one another.
            Formula::Or(a, b) if self.literal(a).is_some() => (a, Second::Now(b)),
            Formula::Or(a, b) => (b, Second::Now(a)),
            // Nothing else has two.
            _ => (id, Second::Now(id)),
        };
        Ways { first, second }
    }

    fn judge(&self, id: Id) -> Judgement {
        let ways = self.ways(id);
        let first = self.value(ways.first, DEPTH);
        let second = match ways.second {
            Second::Now(other) => self.value(other, DEPTH),
            Second::Later => self.next.contains(id).then_some(true),
            // Never known to suffice: a moment that does fulfil the until must be found as one that does.
            Second::Owe(meanwhile) => self.value(meanwhile, DEPTH).filter(|&holds| !holds),
        };
        match (first, second) {
            (Some(true), _) | (_, Some(true)) => Judgement::Holds,
            (Some(false), Some(false)) => Judgement::Fails,
            (Some(false), None) => Judgement::OnlySecond,
            (None, Some(false)) => Judgement::OnlyFirst,
            (None, None) => Judgement::Open,
        }
    }

    /// What is known of a formula at this moment. Looks only so deep: a guess that is found wrong later costs less than
    /// looking through everything.
    fn value(&self, id: Id, depth: u8) -> Option<bool> {
        if self.holds.contains(id) {
            return Some(true);
        }
        match (self.table.get(id), depth) {
            (Formula::False, _) => Some(false),
            (Formula::True, _) => Some(true),
            (Formula::Literal(literal), _) => {
                self.values[literal.atom].map(|value| value == literal.positive)
            }
            (Formula::Next(a), _) => self.next.contains(a).then_some(true),
            (Formula::And(a, b), 1..) => {
                match (self.value(a, depth - 1), self.value(b, depth - 1)) {
                    (Some(true), Some(true)) => Some(true),
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    _ => None,
                }
            }
            (Formula::Or(a, b), 1..) => {
                match (self.value(a, depth - 1), self.value(b, depth - 1)) {
                    (Some(false), Some(false)) => Some(false),
                    (Some(true), _) | (_, Some(true)) => Some(true),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn literal(&self, id: Id) -> Option<Literal> {
        match self.table.get(id) {
            Formula::Literal(literal) => Some(literal),
            _ => None,
        }
    }

    fn choose_first(&mut self, id: Id) {
        self.todo.push(self.ways(id).first);
    }

    /// Takes the second way, and excludes the first where that is a matter of one proposition.
    fn choose_second(&mut self, id: Id) {
        if let Some(literal) = self.literal(self.ways(id).first) {
            self.values[literal.atom] = Some(!literal.positive);
        }
        self.take_second(id);
    }

    fn take_second(&mut self, id: Id) {
        match self.ways(id).second {
            Second::Now(other) => self.todo.push(other),
            Second::Owe(meanwhile) => {
                self.todo.push(meanwhile);
                self.next.insert(id);
                self.put_off.push(id);
            }
            Second::Later => {
                self.next.insert(id);
            }
        }
    }

    fn finish(self) -> Step {
        let mut owed = self.put_off;
        owed.sort_unstable();
        let values = self.values.iter().enumerate();
        let when = values
            .filter_map(|(atom, value)| value.map(|positive| Literal { atom, positive }))
            .collect();
        Step {
            when,
            owed: owed.into(),
            next: State::new(self.table, self.next.ids()),
        }
    }
}

/// How deep [`Branch::value`] looks. A table of formulas is a graph: without a limit the paths through it are many more
/// than its nodes.
const DEPTH: u8 = 4;

/// A set of formulas of a table.
#[derive(Clone)]
struct Bits {
    words: Vec<u64>,
    ids: Vec<Id>,
}

impl Bits {
    fn new(len: usize) -> Self {
        Self {
            words: vec![0; len.div_ceil(64)],
            ids: Vec::new(),
        }
    }

    /// False if it was there.
    fn insert(&mut self, id: Id) -> bool {
        let new = !self.contains(id);
        if new {
            self.words[id.index() / 64] |= 1 << (id.index() % 64);
            self.ids.push(id);
        }
        new
    }

    fn contains(&self, id: Id) -> bool {
        self.words[id.index() / 64] & (1 << (id.index() % 64)) != 0
    }

    fn ids(&self) -> impl Iterator<Item = Id> {
        self.ids.iter().copied()
    }
}
