//! The whole procedure in one process.

use std::collections::HashMap;

use crate::expand::{Name, State, expand};
use crate::fair::{self, Looks};
use crate::formula::{Formulas, Id};
use crate::graph::{Edge, Graph};
use crate::witness::{Lasso, Path};

/// The answer to a question.
#[derive(Debug)]
pub struct Decision {
    /// A model of the formula, unless it has none.
    pub model: Option<Lasso>,
    /// The number of states found.
    pub states: usize,
    /// The number of steps found between them.
    pub steps: u64,
}

/// The size of a search so far.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// States that were found.
    pub found: usize,
    /// The number of expanded states.
    pub expanded: usize,
}

/// Builds the tableau of `root` until it has a model or is complete. `watch` is called before every
/// expansion.
///
/// Looks for a model whenever the tableau has doubled, so that all looks together cost at most
/// about as much as two at its end; a model is found before twice the necessary states are
/// expanded.
pub fn decide(formulas: &Formulas, root: Id, mut watch: impl FnMut(Extent)) -> Decision {
    let mut tableau = Tableau::new(formulas, root);
    let mut looks = Looks::default();
    loop {
        watch(tableau.extent());
        let complete = !tableau.expand_next(formulas);
        if complete || looks.due(tableau.graph.expanded()) {
            let members = fair::component(&tableau.graph);
            let model = members.map(|members| tableau.lasso(formulas, &members));
            if complete || model.is_some() {
                return Decision {
                    model,
                    states: tableau.graph.found(),
                    steps: tableau.graph.steps(),
                };
            }
        }
    }
}

/// The graph and the contents of its states. States are numbered in the order in which they were
/// found, and expanded in that order, so the expanded ones are a prefix.
#[derive(Default)]
struct Tableau {
    graph: Graph,
    states: Vec<State>,
    numbers: HashMap<Name, u32>,
}

impl Tableau {
    /// Makes a tableau of one state, which holds `root` and is not expanded.
    fn new(table: &Formulas, root: Id) -> Self {
        let mut tableau = Self::default();
        tableau.number(State::new(table, [root]));
        tableau
    }

    fn extent(&self) -> Extent {
        Extent {
            found: self.graph.found(),
            expanded: self.graph.expanded(),
        }
    }

    /// Expands the next state; false if all are expanded.
    fn expand_next(&mut self, table: &Formulas) -> bool {
        let next = self.graph.expanded();
        let Some(state) = self.states.get(next) else {
            return false;
        };
        let mut edges = Vec::new();
        for step in expand(table, state) {
            let owed = self.graph.owed_number(step.owed);
            let to = self.number(step.next);
            edges.push(Edge { to, owed });
        }
        // All that are expanded have numbers.
        self.graph
            .expand(u32::try_from(next).unwrap_or(u32::MAX), edges)
    }

    /// The number of a state, which is added if it is new.
    fn number(&mut self, state: State) -> u32 {
        let new = u32::try_from(self.states.len()).unwrap_or(u32::MAX);
        assert!(new < u32::MAX, "more states than numbers for them");
        let number = *self.numbers.entry(state.name()).or_insert(new);
        if number == new {
            self.states.push(state);
            self.graph.grow(self.states.len());
        } else {
            let known = &self.states[number as usize];
            // Better no verdict than a wrong one.
            assert_eq!(*known, state, "two states of one name");
        }
        number
    }

    fn lasso(&self, table: &Formulas, members: &std::collections::HashSet<u32>) -> Lasso {
        let path = Path::new(&self.graph, members);
        let lasso = path.lasso(table, |number| self.states.get(number as usize));
        lasso.unwrap_or_else(|| unreachable!("a state expands in the same way every time"))
    }
}
