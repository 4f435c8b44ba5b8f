//! The states that were found, by number, and the steps between them.

use std::collections::HashMap;

use crate::formula::Id;

/// A step to another state. The literals of the moment are not kept: they are found again for the
/// few steps of a witness, and would take most of the memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    /// The state that it leads to.
    pub(crate) to: u32,
    /// The untils that it owes, a number for [`Graph::owed`].
    pub(crate) owed: u32,
}

/// The tableau without the contents of its states, as far as it is built. Runs begin at state 0.
/// States are expanded in any order; their numbers tell the order in which they were found.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    /// The edges of each state; nothing while it is not expanded.
    edges: Vec<Option<Box<[Edge]>>>,
    expanded: usize,
    edge_count: u64,
    owed: Vec<Box<[Id]>>,
    owed_numbers: HashMap<Box<[Id]>, u32>,
}

impl Graph {
    /// Makes room for at least this many states.
    pub(crate) fn grow(&mut self, found: usize) {
        if found > self.edges.len() {
            self.edges.resize(found, None);
        }
    }

    /// Enters the steps of a state that was found. False if they were known already: nothing is
    /// changed then.
    pub(crate) fn expand(&mut self, state: u32, edges: Vec<Edge>) -> bool {
        let place = &mut self.edges[state as usize];
        let new = place.is_none();
        if new {
            self.expanded += 1;
            self.edge_count += edges.len() as u64;
            *place = Some(edges.into());
        }
        new
    }

    /// The number of a set of untils, which is added if it is new.
    pub(crate) fn owed_number(&mut self, owed: Box<[Id]>) -> u32 {
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

    /// The steps from a state; none while it is not expanded.
    pub(crate) fn edges(&self, state: u32) -> &[Edge] {
        self.edges[state as usize].as_deref().unwrap_or_default()
    }

    /// The untils of [`Edge::owed`], in order.
    pub(crate) fn owed(&self, number: u32) -> &[Id] {
        &self.owed[number as usize]
    }

    /// The number of states found.
    pub(crate) fn found(&self) -> usize {
        self.edges.len()
    }

    /// The number of expanded states.
    pub(crate) fn expanded(&self) -> usize {
        self.expanded
    }

    /// The number of steps from expanded states.
    pub(crate) fn steps(&self) -> u64 {
        self.edge_count
    }
}
