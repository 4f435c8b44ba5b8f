//! Satisfiability of linear temporal logic by tableau.
//!
//! A formula speaks about an endless row of moments. The tableau takes it apart into what must hold now and what
//! must hold from the next moment on; that again is a set of formulas, a *state*. There are finitely many of them. The
//! formula is satisfiable if a run through them can go on for ever and keep every promise.
//!
//! ```
//! let tree = tableau::parse("G F p & G F !p")?;
//! let mut formulas = tableau::Formulas::default();
//! let root = formulas.read(&tree, true);
//! let found = tableau::decide(&formulas, root, |_| {});
//! assert!(found.model.is_some());
//! # Ok::<(), tableau::SyntaxError>(())
//! ```

mod expand;
mod fair;
mod formula;
mod graph;
mod syntax;
mod witness;

pub use expand::{Name, State, Step, expand};
pub use formula::{Formula, Formulas, Id, Literal};
pub use graph::Graph;
pub use syntax::{Binary, Node, SyntaxError, Tree, Unary, parse};
pub use witness::{Lasso, Moment};

/// States that are expanded before the first look for a fair component.
const FIRST_LOOK: usize = 32;

/// What became of a question.
#[derive(Debug)]
pub struct Decision {
    /// A model of the formula, unless it has none.
    pub model: Option<Lasso>,
    /// The tableau, as far as it had to be built.
    pub graph: Graph,
}

/// Builds the tableau of `root` until it has a model or is complete. `watch` is called before every expansion.
///
/// Looks for a model whenever the tableau has doubled, so that all looks together cost at most about as much as two at
/// its end; a model is found before twice the necessary states are expanded.
pub fn decide(formulas: &Formulas, root: Id, mut watch: impl FnMut(&Graph)) -> Decision {
    let mut graph = Graph::new(formulas, root);
    let mut look_at = FIRST_LOOK;
    loop {
        watch(&graph);
        let complete = !graph.expand_next(formulas);
        if complete || graph.expanded() >= look_at {
            look_at = look_at.saturating_mul(2);
            let members = fair::component(&graph);
            let model = members.map(|members| witness::lasso(formulas, &graph, &members));
            if complete || model.is_some() {
                return Decision { model, graph };
            }
        }
    }
}
