//! Strongly connected components, and those in which a run can stay for ever and keep its promises.
//!
//! A run of the tableau is a model if no until is owed for ever. A run that stays in a component
//! can take every step of it again and again. So a component is fair if it has a step, and no until
//! is owed by all of its steps; and a formula is satisfiable if and only if a fair component can be
//! reached (Lichtenstein and Pnueli, POPL 1985).

use std::collections::HashSet;

use crate::formula::Id;
use crate::graph::Graph;

/// States that are expanded before the first look for a fair component.
const FIRST_LOOK: usize = 32;

/// When to look for a fair component: whenever the tableau has doubled.
pub(crate) struct Looks(usize);

impl Default for Looks {
    fn default() -> Self {
        Self(FIRST_LOOK)
    }
}

impl Looks {
    /// Whether to look now that this many states are expanded.
    pub(crate) fn due(&mut self, expanded: usize) -> bool {
        let due = expanded >= self.0;
        while expanded >= self.0 {
            self.0 = self.0.saturating_mul(2);
        }
        due
    }
}

/// The states of a fair component, in no order; `None` if there is none yet.
pub(crate) fn component(graph: &Graph) -> Option<HashSet<u32>> {
    Tarjan::new(graph).run()
}

/// Whether a run can stay among `members` and owe nothing for ever.
fn is_fair(graph: &Graph, members: &HashSet<u32>) -> bool {
    let mut seen = HashSet::new();
    // The untils that every step so far owes; `None` before the first step.
    let mut by_all: Option<Vec<Id>> = None;
    for &member in members {
        for edge in graph.edges(member) {
            if !members.contains(&edge.to) || !seen.insert(edge.owed) {
                continue;
            }
            let owed = graph.owed(edge.owed);
            let mut both = by_all.unwrap_or_else(|| owed.to_vec());
            both.retain(|until| owed.binary_search(until).is_ok());
            if both.is_empty() {
                return true;
            }
            by_all = Some(both);
        }
    }
    false
}

/// Tarjan's algorithm (1972) with a stack of its own: a component may be as deep as there are
/// states.
struct Tarjan<'a> {
    graph: &'a Graph,
    /// Number of each state in the order in which they were first seen, from 1; 0 before.
    seen: Vec<u32>,
    /// The earliest state known to be in the same component.
    low: Vec<u32>,
    /// States whose components are not complete.
    open: Vec<u32>,
    is_open: Vec<bool>,
    /// The way from the root to here, and how many steps of each state were taken.
    path: Vec<(u32, usize)>,
    clock: u32,
}

impl<'a> Tarjan<'a> {
    fn new(graph: &'a Graph) -> Self {
        Self {
            graph,
            seen: vec![0; graph.found()],
            low: vec![0; graph.found()],
            open: Vec::new(),
            is_open: vec![false; graph.found()],
            path: Vec::new(),
            clock: 0,
        }
    }

    /// Every state can be reached from the first.
    fn run(mut self) -> Option<HashSet<u32>> {
        self.enter(0);
        while let Some((state, taken)) = self.path.last_mut() {
            let state = *state;
            let Some(edge) = self.graph.edges(state).get(*taken) else {
                let complete = self.leave(state);
                if let Some(members) = complete.filter(|members| is_fair(self.graph, members)) {
                    return Some(members);
                }
                continue;
            };
            *taken += 1;
            if self.seen[edge.to as usize] == 0 {
                self.enter(edge.to);
            } else if self.is_open[edge.to as usize] {
                let seen = self.seen[edge.to as usize];
                self.lower(state, seen);
            }
        }
        None
    }

    fn enter(&mut self, state: u32) {
        self.clock += 1;
        self.seen[state as usize] = self.clock;
        self.low[state as usize] = self.clock;
        self.open.push(state);
        self.is_open[state as usize] = true;
        self.path.push((state, 0));
    }

    /// All steps of `state` were taken. Returns its component if it was the first state of it.
    fn leave(&mut self, state: u32) -> Option<HashSet<u32>> {
        self.path.pop();
        let low = self.low[state as usize];
        if let Some(&(parent, _)) = self.path.last() {
            self.lower(parent, low);
        }
        if low != self.seen[state as usize] {
            return None;
        }
        let mut members = HashSet::new();
        while let Some(member) = self.open.pop() {
            self.is_open[member as usize] = false;
            members.insert(member);
            if member == state {
                break;
            }
        }
        Some(members)
    }

    fn lower(&mut self, state: u32, to: u32) {
        let low = &mut self.low[state as usize];
        *low = to.min(*low);
    }
}
