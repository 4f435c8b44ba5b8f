//! Listeners.

use crate::connection::{Direction, Waits};
use crate::descriptor::{Descriptor, Watched};
use crate::{MessageSocket, SuciStream};
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;
use suci::SharedNode;
use suci::sockets::{Address, BoundPort, Readiness, SocketHandle, SocketKind, SocketListener};

/// Connections that wait to be accepted, if the program names no number.
const BACKLOG: usize = 128;

/// Methods of connections that only this crate calls.
pub trait Sealed: Sized {
    /// The content of the connection.
    const KIND: SocketKind;

    /// Makes a connection.
    fn made_of(handle: SocketHandle) -> Self;
}

/// A kind of connection: [`SuciStream`] or [`MessageSocket`].
pub trait Accepted: Sealed {}

/// Takes connections that carry bytes.
pub type SuciListener = Listener<SuciStream>;

/// Takes connections that carry messages.
pub type MessageListener = Listener<MessageSocket>;

/// Takes connections at a port of a node. Dropping it resets those that were not accepted.
///
/// A port has one listener. A listener refuses connections of the other kind.
#[derive(Debug)]
pub struct Listener<S> {
    socket: Arc<Socket>,
    accepts: PhantomData<fn() -> S>,
}

#[derive(Debug)]
struct Socket {
    listener: SocketListener,
    waits: Waits,
    descriptor: OnceLock<Arc<Descriptor>>,
}

impl Watched for Socket {
    fn watch(&self, cx: &mut Context<'_>) -> Readiness {
        self.listener.watch(cx)
    }
}

impl<S: Accepted> Listener<S> {
    /// Listens at a port of the node, or at a free one if it is 0. Up to 128 connections may wait
    /// to be accepted.
    ///
    /// # Errors
    /// [`AddrInUse`](ErrorKind::AddrInUse), [`AddrNotAvailable`](ErrorKind::AddrNotAvailable) if no
    /// port is free, [`OutOfMemory`](ErrorKind::OutOfMemory).
    pub fn bind(node: &SharedNode, port: u16) -> io::Result<Self> {
        Self::with_backlog(node, port, BACKLOG)
    }

    /// The same with `backlog` connections that may wait, at least one. Further ones are refused
    /// at once. Each thread of the node has its part of the backlog.
    ///
    /// # Errors
    /// As [`Listener::bind`].
    pub fn with_backlog(node: &SharedNode, port: u16, backlog: usize) -> io::Result<Self> {
        Self::at(node.sockets().bind(port)?, backlog)
    }

    /// The same at a port that was bound before.
    ///
    /// # Errors
    /// [`OutOfMemory`](ErrorKind::OutOfMemory).
    pub fn at(port: BoundPort, backlog: usize) -> io::Result<Self> {
        let listener = port.sockets().listen(port, S::KIND, backlog)?;
        let socket = Socket {
            listener,
            waits: Waits::default(),
            descriptor: OnceLock::new(),
        };
        Ok(Self {
            socket: Arc::new(socket),
            accepts: PhantomData,
        })
    }

    /// Takes the next connection, and its peer's address. Blocks until there is one.
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) if it must not wait (longer);
    /// [`InvalidInput`](ErrorKind::InvalidInput) once the node is closed.
    pub fn accept(&self) -> io::Result<(S, Address)> {
        let waits = &self.socket.waits;
        waits.wait(self.socket.listener.node(), Direction::Read, |cx| {
            self.poll_accept(cx)
        })
    }

    /// Takes the next connection, and its peer's address.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) once the node is closed.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(S, Address)>> {
        let accepted = self.socket.listener.poll_accept(cx);
        if let Some(descriptor) = self.socket.descriptor.get() {
            descriptor.update();
        }
        accepted.map(|handle| {
            let handle = handle?;
            let peer = handle.peer();
            Ok((S::made_of(handle), peer))
        })
    }

    /// Accepts without blocking.
    ///
    /// # Errors
    /// As [`Listener::poll_accept`].
    pub async fn accept_async(&self) -> io::Result<(S, Address)> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// Returns an iterator over the connections, which ends at the first error.
    pub const fn incoming(&self) -> Incoming<'_, S> {
        Incoming(self)
    }

    /// Returns its address, with the port that was chosen.
    #[must_use]
    pub fn local_addr(&self) -> Address {
        self.socket.listener.local()
    }

    /// Lets [`Listener::accept`] fail with [`WouldBlock`](ErrorKind::WouldBlock) instead of
    /// waiting, or wait again.
    pub fn set_nonblocking(&self, nonblocking: bool) {
        self.socket.waits.set_nonblocking(nonblocking);
    }

    /// Sets how long [`Listener::accept`] may wait; for ever without a limit, as at first.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a limit of 0.
    pub fn set_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.socket.waits.set_timeout(Direction::Read, limit)
    }

    /// Returns a descriptor that is readable when a connection waits, as
    /// [`SuciStream::descriptor`]. It is never writable.
    ///
    /// # Errors
    /// Those of `socketpair`.
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        let socket = &self.socket;
        if socket.descriptor.get().is_none() {
            let watched: Arc<dyn Watched> = Arc::<Socket>::clone(socket);
            let new = Descriptor::new(Arc::downgrade(&watched))?;
            // Another thread may have been faster.
            let _ = socket.descriptor.set(new);
        }
        let made = socket.descriptor.get().map(|descriptor| descriptor.as_fd());
        made.ok_or_else(|| ErrorKind::Other.into())
    }
}

/// The connections of a listener ([`Listener::incoming`]).
#[derive(Debug)]
pub struct Incoming<'a, S>(&'a Listener<S>);

impl<S: Accepted> Iterator for Incoming<'_, S> {
    type Item = S;

    fn next(&mut self) -> Option<S> {
        self.0.accept().ok().map(|(socket, _)| socket)
    }
}
