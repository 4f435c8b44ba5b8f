//! The graph that workers tell of, and the search for a model in it.

use super::wire::{Malformed, Reader};
use crate::fair::{self, Looks};
use crate::graph::{Edge, Graph};
use crate::witness::Path;

/// The graph of one question. Apart from the hub, since a look at a large graph takes long, and
/// workers wait for numbers.
pub struct Search {
    graph: Graph,
    looks: Looks,
    formulas: usize,
    /// For each worker, the sets of untils behind its numbers.
    owed: Vec<Vec<u32>>,
}

impl Search {
    /// A search in a table of this many formulas ([`Formulas::len`](crate::Formulas::len)), with
    /// steps from this many workers.
    #[must_use]
    pub fn new(formulas: usize, workers: u32) -> Self {
        let mut graph = Graph::default();
        graph.grow(1);
        Self {
            graph,
            looks: Looks::default(),
            formulas,
            owed: vec![Vec::new(); workers as usize],
        }
    }

    /// Takes a message of steps, when `found` states have numbers. Returns a model if it looked for
    /// one and there is one.
    ///
    /// # Errors
    /// No process of this program sends that.
    pub fn on_steps(
        &mut self,
        from: u32,
        body: &[u8],
        found: u32,
    ) -> Result<Option<Path>, Malformed> {
        self.graph.grow(found as usize);
        let mut reader = Reader::new(body);
        let _compared = reader.number()?;
        let (expansions, new_owed) = (reader.number()?, reader.number()?);
        let place = (from as usize).checked_sub(1);
        let owed = place.and_then(|place| self.owed.get_mut(place));
        let owed = owed.ok_or_else(|| Malformed::new("what only workers say"))?;
        for _ in 0..new_owed {
            let set = reader.set(self.formulas)?;
            owed.push(self.graph.owed_number(set));
        }
        for _ in 0..expansions {
            let state = reader.state_number(found)?;
            let mut edges = Vec::new();
            for _ in 0..reader.count(2)? {
                let owed = usize::try_from(reader.number()?)
                    .ok()
                    .and_then(|at| owed.get(at));
                let owed = *owed.ok_or_else(|| Malformed::new("untils that were not told"))?;
                let to = reader.state_number(found)?;
                edges.push(Edge { to, owed });
            }
            if !self.graph.expand(state, edges) {
                return Err(Malformed::new("steps of a state that were told before"));
            }
        }
        reader.end()?;
        let due = self.looks.due(self.graph.expanded());
        Ok(due.then(|| self.look()).flatten())
    }

    /// A run that keeps all its promises, if there is one so far.
    #[must_use]
    pub fn look(&self) -> Option<Path> {
        let members = fair::component(&self.graph)?;
        Some(Path::new(&self.graph, &members))
    }

    /// The number of steps so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.graph.steps()
    }
}
