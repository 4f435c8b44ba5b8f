//! Simulated clusters for Suci: many engines, virtual time, one seed that decides everything.
//!
//! A run has two phases, as in TigerBeetle's VOPR. *Safety*: there are faults throughout, and no
//! promise may break. *Liveness*: the network is mended, every process runs, and everything that
//! was accepted must arrive within bounded virtual time, after which the cluster must fall silent.
//! The [`oracle`] judges what programs are told, the socket model judges the receive budget, and
//! every engine's own audit runs after every cycle (in clusters of more than 16 nodes it audits the
//! peers that the cycle touched, and all of them now and then).
//!
//! # Replaying
//! A seed that fails prints one command, which replays it event by event:
//! ```text
//! seed 17 (lossy, 3 nodes) failed at 2.000123 s: Gap: process 1 got number 9 of channel 0 ...
//!   replay: suci-sim --seeds 17..18 --trace
//! ```
//! The same run, from a program or a test:
//! ```
//! use suci_sim::{profiles::Profile, runner};
//!
//! let outcome = runner::run_seed(17, Profile::Lossy, Some(2), false);
//! assert!(outcome.failure.is_none(), "{}", outcome.failure.unwrap());
//! ```
//! A scenario of one's own starts from [`options::Options::quiet`], adds faults to its script
//! and drives a [`world::World`] by hand: `tests/` holds one for each entry of docs/faults.md
//! that virtual time can provoke.
#![forbid(unsafe_code)]

pub mod content;
pub mod groups;
pub mod hostile;
pub mod invariants;
pub mod ladder;
pub mod matching;
pub mod membership;
pub mod network;
pub mod node;
pub mod options;
pub mod oracle;
pub mod packet;
pub mod profiles;
pub mod queue;
pub mod remote;
pub mod report;
pub mod rng;
pub mod routes;
pub mod runner;
pub mod scheduler;
mod script;
pub mod socket;
pub mod sockets;
pub mod steering;
pub mod tap;
pub mod trace;
pub mod workload;
pub mod world;
