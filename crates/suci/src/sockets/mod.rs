//! The part of sockets that a node drives: ports, listeners and connections, without blocking
//! calls. Programs use the crate `suci-sockets`, which is made of these and of nothing else.
//!
//! The threads of a [`SharedNode`](crate::SharedNode) serve the sockets, also while the program
//! computes. Calls here never wait: those that begin with `poll` return [`Poll::Pending`] and wake
//! the task later, as futures do. A wake-up may come too often, never too late.
//!
//! A [`Node`](crate::Node) has no sockets; it refuses connections.
//!
//! ```
//! use std::task::{Context, Poll, Waker};
//! use suci::sockets::{Address, SocketKind};
//! use suci::{Node, NodeId};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let node = Node::builder().id(NodeId(0)).open_threads(1)?;
//! let sockets = node.sockets();
//! let listener = sockets.listen(sockets.bind(80)?, SocketKind::Stream, 16)?;
//! let server = Address { node: NodeId(0), port: 80 };
//! let client = sockets.connect(None, server, SocketKind::Stream)?;
//! let mut cx = Context::from_waker(Waker::noop());
//! let accepted = loop {
//!     if let Poll::Ready(accepted) = listener.poll_accept(&mut cx) {
//!         break accepted?;
//!     }
//!     std::thread::yield_now();
//! };
//! assert_eq!(accepted.peer(), client.local());
//! # Ok(())
//! # }
//! ```

mod error;
mod table;

pub use crate::shared::{
    Attendance, BoundPort, SocketHandle, SocketLayer, SocketListener, Waited, block_on,
};
pub use error::SocketError;
#[cfg(doc)]
use std::task::Poll;
pub use suci_layers::sockets::{
    Address, ConnectionFailure, Readiness, Received, RefusedCode, SocketKind,
};
pub(crate) use table::SocketTable;
