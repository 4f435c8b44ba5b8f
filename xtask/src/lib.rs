//! The project's own chores, run as `cargo xtask CHORE`, and helpers of tests across processes:
//! [`netns`], [`emulator`] and [`exec`].

pub mod advisories;
pub mod bench;
pub mod ci;
mod circles;
pub mod conformance;
pub mod demo;
pub mod distance;
pub mod emulator;
pub mod error;
pub mod evaluate;
pub mod exec;
pub mod faults;
pub mod figures;
pub mod fuzz;
pub mod guards;
pub mod ladders;
pub mod launch;
pub mod layers;
mod links;
pub mod machine;
pub mod mutants;
pub mod netns;
mod perf;
pub mod pictures;
pub mod planted;
mod progress;
pub mod prolog;
mod promises;
pub mod prose;
pub mod sanitize;
mod shmem4py;
pub mod show;
mod signals;
pub mod soak;
pub mod source;
pub mod suite;
pub mod tableau;
pub mod tcp;

pub use error::{Failure, Result};
