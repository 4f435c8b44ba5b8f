//! The tableau's rule: from the formulas that must hold now to all the ways in which they can, and
//! the formulas that each way leaves for the next moment.
//!
//! A function of its arguments alone, so that it does not matter which process applies it.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use siphasher::sip128::{Hasher128, SipHasher24};

use crate::formula::{Formula, Formulas, Id, Literal};

/// The formulas that must hold from some moment on: a set.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct State(Box<[Id]>);

/// A state's name: a hash of its content, the same in every process that read the same text.
///
/// 128 bits: of 2^32 states two would share a name with a probability of 2^-65.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub u128);

impl Name {
    /// Which of `count` processes owns the state, from 0.
    pub(crate) fn owner(self, count: u32) -> u32 {
        u32::try_from(self.0 % u128::from(count.max(1))).unwrap_or(0)
    }
}

/// One way to go on from a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The literals of the moment; other propositions are free.
    pub when: Box<[Literal]>,
    /// The untils that must hold and are not fulfilled at this moment, in order. A run that owes
    /// one for ever is no model: promises are kept some day.
    pub owed: Box<[Id]>,
    /// The formulas that must hold from the next moment on.
    pub next: State,
}

impl State {
    /// The state in which all of `formulas` must hold. Conjunctions are taken apart, so that the
    /// same demands are the same state.
    pub fn new(table: &Formulas, formulas: impl IntoIterator<Item = Id>) -> Self {
        let mut todo: Vec<Id> = formulas.into_iter().collect();
        let mut parts = Vec::with_capacity(todo.len());
        // Formulas share their parts: without this the paths to one could be too many to follow.
        let mut seen = Bits::new(table.len());
        while let Some(id) = todo.pop() {
            if !seen.insert(id) {
                continue;
            }
            match table.get(id) {
                Formula::And(a, b) => todo.extend([a, b]),
                Formula::True => {}
                _ => parts.push(id),
            }
        }
        parts.sort_unstable();
        Self(parts.into())
    }

    /// Makes a set from the formulas that another process names, in order, each once.
    pub(crate) fn from_set(ids: Box<[Id]>) -> Self {
        Self(ids)
    }

    /// Its formulas, in order.
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

/// All ways to go on from `state`; none if it contradicts itself. The order follows from the
/// arguments.
#[must_use]
pub fn expand(table: &Formulas, state: &State) -> Vec<Step> {
    let mut expansion = Expansion::new(table, state);
    while !expansion.go_on(table, u32::MAX) {}
    expansion.steps()
}

/// An expansion that can be left and taken up again: one state can have more branches than any
/// caller waits for, and the expanding process may have to listen meanwhile.
#[derive(Debug)]
pub(crate) struct Expansion {
    open: Vec<Branch>,
    /// For each next state the steps that owe least, in the order found. Any other step can be
    /// replaced by one of these.
    found: BTreeMap<State, Vec<Way>>,
}

/// A step without the state that it leads to.
#[derive(Debug)]
struct Way {
    when: Box<[Literal]>,
    owed: Box<[Id]>,
}

impl Expansion {
    /// None of `state` is expanded yet.
    pub(crate) fn new(table: &Formulas, state: &State) -> Self {
        Self {
            open: vec![Branch::new(table, state)],
            found: BTreeMap::new(),
        }
    }

    /// Looks at up to `branches` more branches. Returns whether no others are left.
    pub(crate) fn go_on(&mut self, table: &Formulas, branches: u32) -> bool {
        for _ in 0..branches {
            let Some(mut branch) = self.open.pop() else {
                break;
            };
            if !branch.settle(table) {
                continue;
            }
            match branch.choices.pop() {
                None => self.find(branch.finish(table)),
                Some(choice) => {
                    let mut other = branch.clone();
                    other.choose_second(table, choice);
                    branch.choose_first(table, choice);
                    self.open.extend([other, branch]);
                }
            }
        }
        self.open.is_empty()
    }

    fn find(&mut self, step: Step) {
        let Step { when, owed, next } = step;
        let way = Way { when, owed };
        let same_next = self.found.entry(next).or_default();
        let owes_all = |one: &Way, other: &Way| {
            let mut owed = other.owed.iter();
            owed.all(|until| one.owed.binary_search(until).is_ok())
        };
        if !same_next.iter().any(|other| owes_all(&way, other)) {
            same_next.retain(|other| !owes_all(other, &way));
            same_next.push(way);
        }
    }

    /// Returns the steps that were found.
    pub(crate) fn steps(self) -> Vec<Step> {
        let mut steps = Vec::with_capacity(self.found.len());
        for (next, mut ways) in self.found {
            ways.sort_by_key(|way| way.owed.len());
            steps.extend(ways.into_iter().map(|way| Step {
                when: way.when,
                owed: way.owed,
                next: next.clone(),
            }));
        }
        steps
    }
}

/// A way to go on that is not settled yet.
#[derive(Clone, Debug)]
struct Branch {
    /// Must hold, and is not looked at yet.
    todo: Vec<Id>,
    /// Must hold, and can in two ways.
    choices: Vec<Id>,
    /// Holds in this branch.
    holds: Bits,
    /// The values of the propositions, where settled.
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
    /// This formula holds.
    Now(Id),
    /// This formula holds now, and the whole at the next moment, where it is still owed.
    Owe(Id),
    /// The whole holds at the next moment.
    Later,
}

impl Ways {
    /// The two ways of a formula that is among a branch's choices.
    fn of(table: &Formulas, id: Id) -> Self {
        let (first, second) = match table.get(id) {
            Formula::Until(a, b) => (b, Second::Owe(a)),
            Formula::Release(a, _) => (a, Second::Later),
            // A literal first: its opposite makes the two ways exclude one another.
            Formula::Or(a, b) if literal(table, a).is_some() => (a, Second::Now(b)),
            Formula::Or(a, b) => (b, Second::Now(a)),
            // Nothing else has two.
            _ => (id, Second::Now(id)),
        };
        Self { first, second }
    }
}

fn literal(table: &Formulas, id: Id) -> Option<Literal> {
    match table.get(id) {
        Formula::Literal(literal) => Some(literal),
        _ => None,
    }
}

/// The judgement on a formula with two ways.
enum Judgement {
    Holds,
    Fails,
    OnlyFirst,
    OnlySecond,
    Open,
}

impl Branch {
    fn new(table: &Formulas, state: &State) -> Self {
        Self {
            todo: state.0.to_vec(),
            choices: Vec::new(),
            holds: Bits::new(table.len()),
            values: vec![None; table.atoms().len()],
            next: Bits::new(table.len()),
            put_off: Vec::new(),
        }
    }

    /// Draws all conclusions that need no choice; false if they contradict one another.
    fn settle(&mut self, table: &Formulas) -> bool {
        loop {
            while let Some(id) = self.todo.pop() {
                if !self.demand(table, id) {
                    return false;
                }
            }
            let mut concluded = false;
            for id in std::mem::take(&mut self.choices) {
                match self.judge(table, id) {
                    Judgement::Holds => {}
                    Judgement::Fails => return false,
                    Judgement::Open => self.choices.push(id),
                    Judgement::OnlyFirst => {
                        self.todo.push(Ways::of(table, id).first);
                        concluded = true;
                    }
                    Judgement::OnlySecond => {
                        self.take_second(table, id);
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
    fn demand(&mut self, table: &Formulas, id: Id) -> bool {
        if !self.holds.insert(id) {
            return true;
        }
        match table.get(id) {
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

    fn judge(&self, table: &Formulas, id: Id) -> Judgement {
        let ways = Ways::of(table, id);
        let first = self.value(table, ways.first, DEPTH);
        let second = match ways.second {
            Second::Now(other) => self.value(table, other, DEPTH),
            Second::Later => self.next.contains(id).then_some(true),
            // Never known to suffice: a moment that does fulfil the until must be found as one that
            // does.
            Second::Owe(meanwhile) => self.value(table, meanwhile, DEPTH).filter(|&holds| !holds),
        };
        match (first, second) {
            (Some(true), _) | (_, Some(true)) => Judgement::Holds,
            (Some(false), Some(false)) => Judgement::Fails,
            (Some(false), None) => Judgement::OnlySecond,
            (None, Some(false)) => Judgement::OnlyFirst,
            (None, None) => Judgement::Open,
        }
    }

    /// The value of a formula at this moment, if it is known. Looks only to this depth: a guess
    /// that is found wrong later costs less than looking through everything.
    fn value(&self, table: &Formulas, id: Id, depth: u8) -> Option<bool> {
        if self.holds.contains(id) {
            return Some(true);
        }
        match (table.get(id), depth) {
            (Formula::False, _) => Some(false),
            (Formula::True, _) => Some(true),
            (Formula::Literal(literal), _) => {
                self.values[literal.atom].map(|value| value == literal.positive)
            }
            (Formula::Next(a), _) => self.next.contains(a).then_some(true),
            (Formula::And(a, b), 1..) => {
                match (
                    self.value(table, a, depth - 1),
                    self.value(table, b, depth - 1),
                ) {
                    (Some(true), Some(true)) => Some(true),
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    _ => None,
                }
            }
            (Formula::Or(a, b), 1..) => {
                match (
                    self.value(table, a, depth - 1),
                    self.value(table, b, depth - 1),
                ) {
                    (Some(false), Some(false)) => Some(false),
                    (Some(true), _) | (_, Some(true)) => Some(true),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn choose_first(&mut self, table: &Formulas, id: Id) {
        self.todo.push(Ways::of(table, id).first);
    }

    /// Takes the second way, and excludes the first where that is a matter of one proposition.
    fn choose_second(&mut self, table: &Formulas, id: Id) {
        if let Some(literal) = literal(table, Ways::of(table, id).first) {
            self.values[literal.atom] = Some(!literal.positive);
        }
        self.take_second(table, id);
    }

    fn take_second(&mut self, table: &Formulas, id: Id) {
        match Ways::of(table, id).second {
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

    fn finish(self, table: &Formulas) -> Step {
        let mut owed = self.put_off;
        owed.sort_unstable();
        let values = self.values.iter().enumerate();
        let when = values
            .filter_map(|(atom, value)| value.map(|positive| Literal { atom, positive }))
            .collect();
        Step {
            when,
            owed: owed.into(),
            next: State::new(table, self.next.ids()),
        }
    }
}

/// The depth to which [`Branch::value`] looks. A table of formulas is a graph: without a limit the
/// paths through it are many more than its nodes.
const DEPTH: u8 = 4;

/// A set of formulas of a table.
#[derive(Clone, Debug)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_parts_are_looked_at_once() {
        let mut table = Formulas::default();
        let mut last = ["p & X q", "X r"].map(|text| {
            let tree = crate::parse(text).unwrap();
            table.read(&tree, true)
        });
        // Too many paths to follow lead from the last one down.
        for _ in 0..200 {
            last = [last[1], table.and(last[0], last[1])];
        }
        assert_eq!(State::new(&table, [last[1]]).ids().len(), 3);
    }
}
