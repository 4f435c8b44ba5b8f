//! Sockets between the nodes of a Suci cluster, in the manner of the standard library's TCP types.
//!
//! | type | what it is |
//! |---|---|
//! | [`SuciListener`] | takes connections at a port of its node |
//! | [`SuciStream`] | a connection that carries bytes: [`Read`](std::io::Read), [`Write`](std::io::Write), polls |
//! | [`MessageListener`] | takes connections that carry messages |
//! | [`MessageSocket`] | a connection that carries messages of any length and keeps their boundaries |
//!
//! An [`Address`] is a node and a port. The node's address book says where the node is; all sockets
//! share the one UDP port of their node. The threads of the [`SharedNode`](suci::SharedNode) serve
//! them, also while the program computes.
//!
//! ```
//! use std::io::{Read, Write};
//! use suci::{AcceptPolicy, Node, NodeId};
//! use suci_sockets::{Address, SuciListener, SuciStream};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = Node::builder().id(NodeId(0)).accept(AcceptPolicy::Anyone).open_threads(1)?;
//!     let listener = SuciListener::bind(&server, 80)?;
//!     let echo = std::thread::spawn(move || -> std::io::Result<u64> {
//!         let (stream, _) = listener.accept()?;
//!         std::io::copy(&mut &stream, &mut &stream)
//!     });
//!
//!     let client = Node::builder().id(NodeId(1)).open_threads(1)?;
//!     client.add_peer(NodeId(0), server.local_addr())?;
//!     let mut stream = SuciStream::connect(&client, Address { node: NodeId(0), port: 80 })?;
//!     stream.write_all(b"hello")?;
//!     stream.shutdown(std::net::Shutdown::Write)?;
//!     let mut answer = String::new();
//!     stream.read_to_string(&mut answer)?;
//!     assert_eq!(answer, "hello");
//!     assert_eq!(echo.join().expect("the server ran")?, 5);
//!     Ok(())
//! }
//! ```
//!
//! # Where they differ from TCP
//!
//! * **Opening.** A connection waits in the listener's backlog from the first packet on. A full
//!   backlog refuses at once. Two sockets that connect to each other make no connection: each needs
//!   a listener.
//! * **Closing.** Dropping a socket closes both directions at once, as CDP does. The peer gets all
//!   that was sent, and may read it until it closes its own socket; what it sends is lost.
//!   [`SuciStream::shutdown`] ends one direction.
//! * **The end of a session.** Sockets with a peer end when its process does, when the session of
//!   the two nodes ends, and when the peer does not answer for `silence_timeout` (10 s). Bytes that
//!   arrived before can still be read.
//! * **Ports** are those of the node, from 1 to 65,535, and have nothing to do with those of UDP. A
//!   port is free as soon as its socket is closed.
//!
//! # Waiting
//!
//! A call blocks, unless the socket is [non-blocking](SuciStream::set_nonblocking): then it fails
//! with [`WouldBlock`](std::io::ErrorKind::WouldBlock). So it does when its time limit is over.
//! Methods that begin with `poll` never block and wake their task, under any async runtime or none;
//! those that end with `_async` are futures made of them. [`SuciStream::descriptor`] is a
//! descriptor for `poll`, `epoll` and whatever is built on these. Any number of threads may use a
//! socket at once. Wakers and steering functions that a node's own thread runs must not block on
//! its sockets.

mod connection;
mod descriptor;
mod listener;
mod messages;
mod stream;

pub use listener::{Accepted, Incoming, Listener, MessageListener, SuciListener};
pub use messages::{DEFAULT_MAX_MESSAGE, MessageSocket};
pub use stream::SuciStream;
pub use suci::sockets::{Address, BoundPort, SocketError};
