//! Satisfiability of linear temporal logic by tableau.
//!
//! A formula speaks about an endless row of moments. The tableau splits it into formulas that must
//! hold now and formulas that must hold from the next moment on; the latter are a *state*. There
//! are finitely many states. The formula is satisfiable if a run through them can go on for ever
//! and keep every promise.
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
pub mod parallel;
mod sequential;
mod syntax;
mod witness;

pub use expand::{Name, State, Step, expand};
pub use formula::{Formula, Formulas, Id, Literal};
pub use sequential::{Decision, Extent, decide};
pub use syntax::{Binary, Node, SyntaxError, Tree, Unary, parse};
pub use witness::{Lasso, Moment, Path};
