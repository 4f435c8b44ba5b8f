//! Sockets: listeners, and connections between ports of nodes, which carry a stream of bytes or
//! messages.
//!
//! The model is CDP (University of Delaware), a socket interface of a reliable protocol in user
//! space. A connection is opened in three steps. Until the third the server keeps a *placeholder*
//! in place of a socket, for a limited time: an entry of some sixty bytes. So a client that gives
//! up leaves nothing that a program could accept. A connection is closed in two steps, at once in
//! both directions. A socket whose peer closed keeps its unread data until its own program closes
//! it.
//!
//! **All sockets of two nodes share 16 channels.** A channel of its own for each socket was
//! rejected: the channel's state at both ends, its window in the memory credit of the session, and
//! the frames that end it cost more than the socket, and the number of channels is bounded. A
//! shared channel would let a program that does not read hold up all others. So the layer takes
//! every message from the engine at once, and each socket has a window of its own: the bytes that
//! its peer may send before the program reads. The windows grow as programs read, and their sum
//! stays below the memory of the layer.
//!
//! **Numbers of sockets are not reused.** A message names its sender's and its receiver's socket.
//! After a reset messages to the socket may still be on their way; a new socket under the same
//! number would take them for its own.
//!
//! The layer relies on the engine for order and delivery within a session. A socket ends with the
//! session; only an OPEN that was not answered is sent again in the next one.

mod connection;
mod listener;
mod plant;
mod ports;
mod service;
mod table;
mod wire;

#[cfg(test)]
mod tests;

pub use ports::{PortError, Ports};
pub use service::{SharedSockets, SocketService};
pub use table::{AcceptError, OpenError, Readiness, Received, SendRefused, Sockets, Withdrawn};
pub use wire::{Packet, RefusedCode, channel};

use std::time::Duration;
use suci_proto::RefusedReason;
use suci_proto::types::NodeId;

/// The longest part of a message or stream that one message of the engine carries. Other sockets
/// wait at most for one such part, and no RTS is needed.
pub const SEGMENT: usize = 64 << 10;

/// Each part counts this in its socket's window beside its bytes, for the entry in the queue.
pub const SEGMENT_CHARGE: u64 = 64;

/// The smallest window. A node with [`MEMORY`] has room for 24,576 of them when three quarters of
/// it are left.
pub const MIN_WINDOW: u64 = 4 << 10;

/// The greatest window: what 10 Gbit/s carry in 200 us.
pub const MAX_WINDOW: u64 = 256 << 10;

/// The bytes that the sockets of one shard may promise to their peers in all.
pub const MEMORY: u64 = 128 << 20;

/// Bytes and charges for one node that the layer keeps while the engine's queue is full. Sockets
/// then wait.
pub const OUTPUT: usize = 1 << 20;

/// Messages for one node after which the layer takes no more from that node. A peer that sends
/// requests and takes no answers would otherwise fill the memory.
pub const MAX_ANSWERS: usize = 1 << 16;

/// The time after which a connection that was not answered fails, and a placeholder that was not
/// confirmed gives way. A node that does not answer is usually found lost before (after 10 s), with
/// a better reason.
pub const OPEN_TIMEOUT: Duration = Duration::from_secs(15);

/// The same for a node that was lost and not heard since, with the failure of that time: each
/// connection to a silent node fails for the same reason, and as soon as the first one (the default
/// silence timeout).
pub const LOST_TIMEOUT: Duration = Duration::from_secs(10);

/// Closed sockets of which a node has not taken everything, or not answered CLOSE. A node that
/// never does would otherwise fill the table, and the memory with the rests of messages. Beyond
/// them the oldest is reset: its peer loses the rest of the last message, if there was one.
pub const MAX_CLOSING: usize = 1 << 10;

/// Bytes and charges that a closed socket drops while its peer takes the rest of the last message.
/// A peer that sends more is reset. It would otherwise never hear that nobody reads.
pub const MAX_DROPPED: u64 = 64 << 20;

/// The number of sockets that a shard may have.
pub const MAX_SOCKETS: usize = 1 << 20;

const _: () = assert!(MAX_WINDOW > SEGMENT as u64 + SEGMENT_CHARGE && MIN_WINDOW <= MAX_WINDOW);
const _: () = assert!(MEMORY / MIN_WINDOW <= MAX_SOCKETS as u64);

/// A node and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The node.
    pub node: NodeId,
    /// The port, from 1; 0 asks for a free one.
    pub port: u16,
}

/// A socket of this node: unique as long as the node lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u64);

/// The content of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SocketKind {
    /// Bytes without boundaries.
    Stream,
    /// Messages of any length.
    Messages,
}

/// Why a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionFailure {
    /// The peer's node refused the connection.
    Refused(RefusedCode),
    /// No process answers at the peer's address.
    NoProcess,
    /// The peer's node refused to talk to this one.
    Rejected(RefusedReason),
    /// The peer's file of public keys permits this node no sockets.
    NotAllowed,
    /// The peer cannot be reached, or the book does not name it.
    Unreachable,
    /// The peer did not answer in time.
    TimedOut,
    /// The peer gave the connection up, or its session or process ended.
    Reset,
    /// This side has ended its direction, or the peer closed: nothing can be sent.
    BrokenPipe,
    /// There is no such socket: it was closed.
    Closed,
    /// The connection is not open yet.
    NotConnected,
}
