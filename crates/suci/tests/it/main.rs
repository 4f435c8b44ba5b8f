//! Nodes over loopback. Tests that need a process or the machine for themselves are programs of
//! their own, beside this one.

mod active;
mod basic;
mod calls;
mod cancel;
mod cluster_key;
mod common;
mod descriptor;
mod errors;
mod flow;
mod groups;
mod itself;
mod large;
mod life;
mod log;
mod matching;
mod meanings;
mod membership;
mod next;
mod node_keys;
mod remote;
mod room;
mod routes;
mod sealed;
mod select;
mod shared;
mod starts;
mod statistics;
mod steering;
mod threads;
mod waker;
