//! The C library of Suci.
//!
//! `include/suci/suci.h` is its documentation: each exported function has its text there, and the
//! doc comment here names what the Rust side adds. Every function that can fail goes through
//! [`guard`]: no panic crosses into C, and the error is kept for `suci_last_error_message`.
//!
//! | part | content |
//! |---|---|
//! | `handle` | handles with generations, and the table of nodes |
//! | `entry` | the node behind a handle, of either kind |
//! | `guard`, `error` | results, and the last error of each thread |
//! | `pointer`, `text` | checked access to the caller's memory |
//! | `limit` | time limits and wakes of waiting calls |
//! | `lent` | memory of the program that the library uses for a time |
//! | `options`, `node` | opening and closing a node, descriptor, wake |
//! | `table` | handles of objects that are used seldom |
//! | `book`, `peer`, `stats` | the address book; one peer; counters |
//! | `remote`, `context` | one-sided operations |
//! | `group`, `elements` | groups and collective operations |
//! | `members` | members of a cluster |
//! | `outgoing`, `send`, `requests` | sending |
//! | `message`, `receive`, `matching`, `event` | what the program receives |
//! | `log`, `environment`, `version` | what is not about one node |
//! | `errno`, `memory` | for the headers below: results by errno; memory sent without a copy |
//! | `classic` | the classic interface, `datagram.h` |
//! | `fm` | Illinois Fast Messages, `fm.h` |
//! | `cdp` | sockets, `cdp.h` |
#![expect(
    clippy::missing_safety_doc,
    reason = "suci.h says once what the pointers of all functions have to be"
)]

pub mod book;
pub mod cdp;
pub mod classic;
pub mod combination;
pub mod context;
mod elements;
pub mod entry;
pub mod environment;
mod errno;
pub mod error;
pub mod event;
pub mod fm;
pub mod group;
pub mod guard;
pub mod handle;
#[cfg(test)]
mod layout;
pub mod lent;
pub mod limit;
pub mod log;
pub mod matching;
pub mod members;
mod memory;
pub mod message;
pub mod node;
pub mod options;
pub mod outgoing;
pub mod peer;
pub mod pointer;
pub mod receive;
pub mod remote;
pub mod requests;
pub mod send;
pub mod stats;
mod table;
pub mod text;
pub mod version;

#[cfg(panic = "abort")]
compile_error!("a panic must unwind: guard turns it into an error code");
