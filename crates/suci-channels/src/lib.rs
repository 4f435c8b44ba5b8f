//! The messages of one session, as pure state machines: no sockets, clocks, threads.
//!
//! | part | question it answers |
//! |---|---|
//! | [`message`] | which bytes of which message are next, and which messages are complete? |
//! | [`scheduler`] | whose turn is it? |
//! | [`waits`] | what do messages wait for? |
//! | [`port`] | which layer takes the messages of a channel? |
//!
//! A session outlives its connections ([`suci_link`]), and none of its state is named by packets.
#![forbid(unsafe_code)]

pub mod message;
pub mod port;
pub mod scheduler;
pub mod waits;
