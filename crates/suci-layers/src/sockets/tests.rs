//! Tests of the automaton: each transition alone, and all interleavings by a model.

mod model;
mod pair;
mod transitions;
mod windows;
