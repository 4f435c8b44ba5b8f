//! The states that were found and the steps between them.

use std::collections::HashMap;

use crate::expand::{Name, State, expand};
use crate::formula::{Formulas, Id};

/// A step to another state. What the moment must be like is not kept: it is found again for the few steps of a
/// witness, and would be most of the memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    /// The state that it leads to.
    pub(crate) to: u32,
    /// The untils that it owes, a number for [`Graph::owed`].
    pub(crate) owed: u32,
}

/// The tableau, as far as it is built. States are numbered in the order in which they were found and expanded in that
/// order, so what is expanded is a prefix, and the way by which a state was first found is a shortest one.
#[derive(Debug, Default)]
pub struct Graph {
    states: Vec<State>,
    numbers: HashMap<Name, u32>,
    /// Of those that are expanded.
    edges: Vec<Box<[Edge]>>,
    edge_count: u64,
    owed: Vec<Box<[Id]>>,
    owed_numbers: HashMap<Box<[Id]>, u32>,
}

impl Graph {
    /// A graph of one state, which holds `root` and is not expanded.
    pub(crate) fn new(table: &Formulas, root: Id) -> Self {
        let mut graph = Self::default();
        graph.number(State::new(table, [root]));
        graph
    }

    /// Expands the next state; false if all are expanded.
    pub(crate) fn expand_next(&mut self, table: &Formulas) -> bool {
        let Some(state) = self.states.get(self.edges.len()) else {
            return false;
        };
        let mut edges = Vec::new();
        for step in expand(table, state) {
            let owed = self.owed_number(step.owed);
            let to = self.number(step.next);
            edges.push(Edge { to, owed });
        }
        self.edge_count += edges.len() as u64;
        self.edges.push(edges.into());
        true
    }

    /// The number of a state, which is added if it is new.
    fn number(&mut self, state: State) -> u32 {
        let new = u32::try_from(self.states.len()).unwrap_or(u32::MAX);
        assert!(new < u32::MAX, "more states than numbers for them");
        let number = *self.numbers.entry(state.name()).or_insert(new);
        if number == new {
            self.states.push(state);
        } else {
            let known = &self.states[number as usize];
            // Better no verdict than a wrong one.
            assert_eq!(*known, state, "two states of one name");
        }
        number
    }

    fn owed_number(&mut self, owed: Box<[Id]>) -> u32 {
        if let Some(&number) = self.owed_numbers.get(&owed) {
            return number;
        }
        let number = u32::try_from(self.owed.len()).unwrap_or(u32::MAX);
        assert!(
            number < u32::MAX,
            "more sets of untils than numbers for them"
        );
        self.owed.push(owed.clone());
        self.owed_numbers.insert(owed, number);
        number
    }

    /// The state of a number.
    pub(crate) fn state(&self, number: u32) -> &State {
        &self.states[number as usize]
    }

    /// The steps from a state; none while it is not expanded.
    pub(crate) fn edges(&self, number: u32) -> &[Edge] {
        self.edges.get(number as usize).map_or(&[], |edges| edges)
    }

    /// The untils of [`Edge::owed`], in order.
    pub(crate) fn owed(&self, number: u32) -> &[Id] {
        &self.owed[number as usize]
    }

    /// How many states were found.
    #[must_use]
    pub fn found(&self) -> usize {
        self.states.len()
    }

    /// How many of them were expanded.
    #[must_use]
    pub fn expanded(&self) -> usize {
        self.edges.len()
    }

    /// How many steps there are from those.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.edge_count
    }
}
