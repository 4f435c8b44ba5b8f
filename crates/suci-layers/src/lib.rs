//! Layers on top of messages, as pure state machines: no sockets, clocks or threads. The library
//! (`suci`) carries the messages.
//!
//! A [`Collective`] is one member's part of an operation in which all members of a group take part.
//! An [`Agreement`] is one member's part of finding out together who of them is left. [`group`]
//! runs both over an engine. [`remote`] has one-sided operations, with which a node reads and
//! changes memory of another. [`matching`] has receives that take messages by tag and source.
//! [`sockets`] has listeners and connections between ports of nodes.
//! [`routes`] has nodes that are reached through others. An
//! [`ActiveHeader`] is the part of an active message that names its handler.

#![forbid(unsafe_code)]

mod active;
mod agreement;
mod collective;
mod element;
pub mod group;
pub mod matching;
pub mod membership;
mod output;
pub mod remote;
pub mod routes;
pub mod sockets;

pub use active::{ActiveHeader, MAX_WORDS};
pub use agreement::{Absence, Agreement, AgreementStart, Knowledge, Verdict};
pub use collective::{Arguments, Collective, DataPlace, Kind, LONGEST_MESSAGE, Place, Unexpected};
pub use element::{
    BitAnd, BitOr, BitXor, Combine, Custom, Element, Max, Min, Operation, Product, Sum, bytes_of,
    elements_of,
};
