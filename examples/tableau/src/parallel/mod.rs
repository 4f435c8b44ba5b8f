//! The tableau, built by many processes.
//!
//! Process 0 is the *hub*. It alone knows the question. It sends every *worker* (processes 1 and
//! up) the numbered formulas, gives states their numbers, and keeps the graph of them, in which it
//! looks for a model. A worker owns the states whose names fall to it: it gets their contents, and
//! expands each once.
//!
//! ```text
//! worker                      hub                         owner of a state
//!   | Ask (names)     ------>  |                                |
//!   | <------ Numbers          |     urgent: the worker's expansion waits for it
//!   | States (number, contents) ------------------------------> |   bulk
//!   | Steps (from, owed, to) > |     bulk
//! ```
//!
//! Everything here is a pure state machine, from one message to the messages that follow from it
//! ([`Hub`], [`Worker`]), or a function of the messages that came ([`Search`]). The driver owns
//! sockets, clocks and threads.
//!
//! # When the tableau is complete
//! The hub says so when each state that it numbered has its steps, and as many contents were
//! compared by owners as it gave answers (each worker asks at most once for each name, and then
//! sends the state's content to the owner; the hub sends the first state).
//!
//! *It is complete then.* A worker sends the steps of a state only when all states that they lead
//! to have numbers. So the graph at the hub is closed: it has every state that can be reached from
//! state 0, with all its steps. This needs no assumption about messages in flight: it is a property
//! of the hub's own data. In particular no worker is expanding anything, since every state is
//! expanded once and its steps are here.
//!
//! *It is said at last.* The process that asked first for a state sends its contents to the owner,
//! and messages arrive. The owner expands it; its names are asked for and answered; its steps are
//! sent when the batch is full, or when the owner has nothing left to do. There are finitely many
//! states. The last count of compared contents is sent then, too.
//!
//! No message is sent for this while there is work: the counts ride on the steps.

mod hub;
mod search;
mod wire;
mod worker;

pub use hub::{Effect, Hub};
pub use search::Search;
pub use wire::{Kind, Malformed, Packet};
pub use worker::Worker;

/// The hub's place.
pub const HUB: u32 = 0;
