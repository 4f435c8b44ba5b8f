//! Reliable messages to every process of a cluster through one UDP socket.
//!
//! A [`Node`] is one process. It sends messages of any length to any other node of its
//! [`AddressBook`]: complete, unmodified, in order per channel, at most once. Connections are made
//! when needed, kept while possible, and replaced without the program noticing.
//!
//! ```
//! use std::time::Duration;
//! use suci::{AcceptPolicy, Node, NodeId};
//!
//! fn main() -> Result<(), suci::Error> {
//!     let mut server = Node::builder().id(NodeId(0)).accept(AcceptPolicy::Anyone).open()?;
//!     let address = server.local_addr();
//!     let client = std::thread::spawn(move || -> Result<String, suci::Error> {
//!         let mut node = Node::builder().id(NodeId(1)).open()?;
//!         node.add_peer(NodeId(0), address)?;
//!         node.send(NodeId(0), "hello")?;
//!         let answer = node.recv()?;
//!         node.close(Duration::from_secs(5))?;
//!         Ok(String::from_utf8_lossy(&answer.payload).into_owned())
//!     });
//!     let question = server.recv()?;
//!     server.send(question.from, "hello yourself")?;
//!     server.close(Duration::from_secs(5))?;
//!     assert_eq!(client.join().expect("the client ran")?, "hello yourself");
//!     Ok(())
//! }
//! ```
//!
//! Two ways to drive it:
//!
//! * [`NodeBuilder::open`] gives a [`Node`]: the program's own calls do the work. Lowest latency,
//!   no threads but a sleeping one that answers peers while the program computes.
//! * [`NodeBuilder::open_threads`] gives a [`SharedNode`]: one or more threads do the work, and
//!   handles to it can be cloned, shared and awaited, under any async runtime or none.
//!
//! # What a program can say
//!
//! | call | what it does |
//! |---|---|
//! | `add_peer`, `remove_peer`, `peers` | which nodes there are, and where |
//! | `send`, `send_copy`, `send_timeout` | accepts a message and sends what may go (those of a burst share packets); a full queue is `WouldBlock`, or waited for |
//! | `batch`, `broadcast` | messages leave together and share packets; one payload goes to many and, if it has more than 256 bytes, is held once |
//! | `OutgoingMessage::new(..).channel(..).tag(..).user_header(..).notify(..).deadline(..)` | channel, tag, header; `notify` asks for `Event::Delivered`; a message of which nothing was sent by its deadline is dropped |
//! | `call`, `Message::reply` | a request and its reply: `call` blocks (or `call_async` waits) until the reply comes, the session ends or the time is over; the other side receives the request as any message and sends `request.reply(..)?` |
//! | `recv`, `try_recv`, `recv_timeout`, `recv_many`, `recv_into`, `poll` | messages; `recv_many` takes all that are there, `recv_into` puts one into the program's memory |
//! | `next`, `next_timeout`, `try_next` (`next_async`) | the next message or event, in exact order |
//! | `recv_from`, `recv_from_timeout`, `try_recv_from` | messages of one peer, on one channel, or both; others wait in order |
//! | `events`, `next_event`, `event_timeout` | `Up`, `Lost`, `Quiet`, `Ended` with outcomes, `Delivered`, `NotDelivered`, `Incoming`, `Refused`, `Suspended`, `Resumed`, `Writable`, `ChannelFinished`, `MemberJoined`, `MemberLeft`, `MemberFailed` |
//! | `accept`, `accept_into`, `refuse` | the answer to a message too long to be taken without the program's consent (`Incoming`) |
//! | `waker`: [`Waker`] | another thread or a signal handler ends a wait |
//! | `flush` | waits until everything is acknowledged |
//! | `peer(id)`: [`Peer`] | one peer: |
//! | … `configure`, `options`, `set_options` ([`PeerOptions`]) | throughput or early answers; whose packets go first; congestion controller; bytes per second at most; how long silence is borne; keep-alive; manual retransmission |
//! | … `set_channel_priority`, `finish_channel` | how urgent a channel is; no more messages go on it, and both ends forget it |
//! | … `cancel` | takes back the messages with one token of which nothing was sent |
//! | … `queue_len`, `delivered`, `remote_window`, `stats`, `controller` | what is acknowledged and what is not; how much the peer will take now; what was counted, and why messages waited |
//! | … `steer`, `unsteer` | a steering function of the program, which can only hold back (example `yield_to_urgent`) |
//! | … `connect`, `suspend`, `resume`, `retransmit` | a connection before there is anything to send; messages are held back, and flow again; sends again what is not acknowledged |
//! | … `close`, `reset` | an end of the session with a deadline; an end now |
//! | `close` | the end of the node, with one deadline for all peers |
//! | `counters`, `socket_counters` | what was counted |
//! | `share_stats`, `peer_limit`, `warning` | how the receive buffer is shared out, for how many peers it suffices, and whether the system grants too little of it |
//! | `NodeBuilder::statistics`, `metrics` | whether others see the counters: `suci stat` and `suci top`, Prometheus |
//!
//! # Where the two kinds of node differ
//!
//! All other calls have the same names, arguments, results and meaning.
//!
//! | a [`Node`] | a [`SharedNode`] | why |
//! |---|---|---|
//! | verbs take `&mut self` | `&self`; handles are cloned | threads share it |
//! | operations of a [`group`] go on in the program's calls and in the helper | in the threads, also while the program computes | |
//! | `send`, `send_copy`, `send_timeout` and `broadcast` return the message's number | they return nothing; events name the number | the thread that serves the peer numbers messages later |
//! | `send` fails with `Closing`, `Channels` or `FinishedChannel` | the event `NotDelivered` says so ([`UNNUMBERED`]) | the thread finds out later |
//! | `send` fails with `Unread` | the message waits until the program took those messages | likewise |
//! | `batch`, `poll` | | the threads send what is queued together, and need no driver cycle of the program |
//! | `recv_into` | | a message that is handed over cannot be put back; copy what `recv` returns |
//! | | `send_async`, `call_async`, `recv_async`, `recv_from_async`, `next_async`, `event_async`, `flush_async`, `close_async` | a `Node` works only while its program calls; its descriptor is for event loops |
//! | | `threads`, `thread_counters` | a `Node` has no threads of its own |
//! | `call` to the own node fails with `CallToItself` | another thread replies | the only program waits |
//! | `recv_from` fails with `MemoryFull` when other channels leave the wanted one no memory | it waits | another thread may take those messages |
//! | `recv_from` of an unknown node fails with `UnknownPeer` | it waits | another thread may add the node |
//! | `try_recv`, `try_next` and `next_event` may poll the socket | they take what the threads handed over | |
//! | `counters`, `peers`, `share_stats` and the questions of [`Peer`] work after `close` | they fail with `Closed` | the threads that would answer are gone |
//! | what only asks returns at once | it blocks for about one cycle of a thread | the thread owns the answer |
//! | `memory` bounds all that waits for the program | for each thread, 4 MiB of messages and 4 MiB of replies may wait beside it | they wait where the program takes them without the thread |
//! | | `OwnThread`: a waker or steering function that an I/O thread runs cannot block on the node | the thread would wait for itself |
//!
//! Each thread of a [`SharedNode`] has a socket of its own at the node's port. It serves the peers
//! whose node ID, modulo 256 and then modulo the number of threads, is its index; so give nodes
//! consecutive IDs. One thread suffices for a few peers. More pay where many are busy at once and
//! processors are free.
//!
//! # Log
//!
//! Each node tells [`tracing`](https://docs.rs/tracing) how its connections come up and end, under
//! target `suci` at level `DEBUG`: handshake packets sent and received, refusals with their reason,
//! dropped packets with the reason, peers up and lost, sessions that end, changes of address and
//! packet size, and reports of the system about unreachable addresses. So a subscriber with the
//! filter `suci=debug` (in many programs `RUST_LOG=suci=debug`) shows why a connection does not
//! come up. Every event has the field `node`, and `peer`, `address`, `packet` and `reason` where
//! they apply.
//!
//! * The subscriber must be that of the process (`tracing::subscriber::set_global_default`, or
//!   `init` of `tracing-subscriber`), since threads of the library write events, too. It may be
//!   installed, and its filter changed, at any time; a node notices in its next call or driver
//!   cycle. It runs inside a call of the node, so it must not wait for one.
//! * A node writes at most 1,000 events in each second, at most 100 of them about packets that
//!   anybody can send. One more event says how many were left out.
//! * Messages make no events. Without a subscriber that wants them, events cost one comparison in
//!   each driver cycle.
//!
//! Layers on messages: [`group`] has collective operations, [`remote`] one-sided ones, [`active`]
//! messages that run a handler of the program at their receiver, [`matching`] receives that take
//! messages by tag and source. [`sockets`] is the part of sockets
//! that a node drives; the crate `suci-sockets` has those for programs.
//!
//! This crate joins the protocol (`suci-proto`) to sockets (`suci-net`); it runs on Linux.

pub mod active;
mod backend;
mod backoff;
mod batch;
mod book;
mod budget;
mod builder;
mod calls;
mod clock;
mod core;
mod driver;
pub mod env;
mod error;
mod fork;
pub mod group;
mod helper;
mod hold;
mod huge_pages;
mod job;
mod launcher;
mod lent;
mod log;
pub mod matching;
mod membership;
mod message;
mod metrics;
mod names;
mod next;
mod node;
mod opened;
mod ownership_lock;
mod peer;
mod placement;
mod reach;
pub mod remote;
pub mod security;
mod shared;
mod shared_bytes;
mod shared_memory;
pub mod sockets;
pub mod statistics;
mod sync;
mod sys;
mod wait;
mod waker;

pub use backend::{BackendKind, EtherType, UnknownBackend};
pub use batch::Batch;
pub use book::AddressBook;
pub use budget::Warning;
pub use builder::NodeBuilder;
pub use bytes::Bytes;
pub use error::{BookError, Error};
pub use membership::{Member, Membership};
pub use message::{Message, OutgoingMessage};
pub use next::Next;
pub use node::{Accepted, Node};
pub use peer::Peer;
pub use shared::SharedNode;
pub use suci_layers::membership::MembershipCounters;
pub use suci_net::Counters as SocketCounters;
pub use suci_net::fault::FaultSpec;
pub use suci_net::udp::UdpOptions;
pub use suci_proto::message::AnswerError;
#[cfg(suci_plant)]
pub use suci_proto::plant;
pub use suci_proto::types::{
    ChannelId, Incarnation, Kind, Layer, Layers, MessageNumber, NodeId, ProtocolError,
    SessionNumber,
};
pub use suci_proto::wire::Mode;
pub use suci_proto::{
    AcceptPolicy, CANCELLED, Config, ConfigError, ControllerChoice, Counters, Data, Decision,
    EXPIRED, EndReason, Event, Filter, IncomingError, LinkState, LostCause, MessageOutcome,
    NOT_PERMITTED, Observation, Outcome, PeerError, PeerInfo, PeerOptions, PeerStats, Priority,
    PriorityError, ReceiveBuffer, RefusedReason, RouteCounters, ShareStats, Side, Steer,
    TOO_MANY_CHANNELS, Traffic, UNNUMBERED, Unreachable, WaitReason, Waited, Waits,
};
pub use wait::WaitPolicy;
pub use waker::Waker;
