//! Sockets of a shared node. Each thread serves those with its peers.

use super::SharedNode;
use super::shard::{Shard, lock};
use crate::clock::Clock;
use crate::error::Error;
use crate::sockets::SocketError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use suci_layers::sockets::{
    AcceptError, Address, ConnectionFailure, Readiness, Received, RefusedCode, SendRefused,
    SocketId, SocketKind, Sockets,
};

/// The readiness of a socket whose calls fail at once.
const ANYTHING: Readiness = Readiness {
    readable: true,
    writable: true,
};

impl SharedNode {
    /// Fails in the child of a fork, where another thread of the parent may have held the locks.
    fn check_not_forked(&self) -> Result<(), SocketError> {
        match self.inner.is_forked() {
            true => Err(Error::Forked.into()),
            false => Ok(()),
        }
    }

    /// Returns the sockets of the node, for the crate `suci-sockets`.
    #[must_use]
    pub fn sockets(&self) -> SocketLayer {
        SocketLayer { node: self.clone() }
    }
}

impl Shard {
    /// Changes the shard's sockets, and lets the thread send.
    fn update_sockets<T>(&self, change: impl FnOnce(&mut Sockets) -> T) -> T {
        let result = self.sockets.update(change);
        self.wake_for_sockets();
        result
    }

    fn poll_sockets<T>(
        &self,
        cx: &Context<'_>,
        id: SocketId,
        check: impl FnOnce(&mut Sockets) -> Poll<T>,
    ) -> Poll<T> {
        let result = self.sockets.poll(cx, id, check);
        self.wake_for_sockets();
        result
    }

    fn wake_for_sockets(&self) {
        if self.sockets.has_left_output() {
            self.unpark();
        }
    }
}

/// The sockets of a node. It keeps the node open, as the sockets do.
#[derive(Clone, Debug)]
pub struct SocketLayer {
    node: SharedNode,
}

impl SocketLayer {
    /// Returns the node.
    #[must_use]
    pub const fn node(&self) -> &SharedNode {
        &self.node
    }

    /// Binds a port, or a free one from 32768 on if it is 0, until the result is dropped.
    ///
    /// # Errors
    /// [`SocketError::PortInUse`], [`SocketError::NoPort`]; [`SocketError::Node`] if the node is
    /// closed.
    pub fn bind(&self, port: u16) -> Result<BoundPort, SocketError> {
        self.node.inner.check_open()?;
        let bound = lock(&self.node.inner.ports).bind(port);
        let port = bound.map_err(|error| SocketError::of_port(port, error))?;
        let node = self.node.clone();
        Ok(BoundPort { node, port })
    }

    /// Listens at a port. Up to `backlog` connections, but at least one, wait to be accepted; with
    /// several threads each has its part of them, rounded up.
    ///
    /// # Errors
    /// [`SocketError::NoMemory`] if there are a million sockets.
    pub fn listen(
        &self,
        port: BoundPort,
        kind: SocketKind,
        backlog: usize,
    ) -> Result<SocketListener, SocketError> {
        self.node.check_not_forked()?;
        let shards = &self.node.inner.shards;
        let mut listener = SocketListener {
            port,
            kind,
            ids: Vec::new(),
            next: AtomicUsize::new(0),
        };
        let part = backlog.div_ceil(shards.len());
        for shard in shards.iter() {
            let port = listener.port.port;
            let id = shard.update_sockets(|sockets| sockets.listen(port, kind, part));
            // If it fails, the listener is dropped and closes those before.
            listener.ids.push(id?);
        }
        Ok(listener)
    }

    /// Opens a connection to `peer`, from a bound port or an ephemeral one. Returns at once; the
    /// connection can be used when [`SocketHandle::poll_connected`] says so. Without an answer it
    /// fails after 15 s.
    ///
    /// # Errors
    /// [`SocketError::Connection`] for port 0, at which nobody listens;
    /// [`SocketError::PortInUse`] if a connection joins the two addresses, [`SocketError::NoPort`],
    /// [`SocketError::NoMemory`]; [`SocketError::Node`] if the node is closed.
    pub fn connect(
        &self,
        from: Option<BoundPort>,
        peer: Address,
        kind: SocketKind,
    ) -> Result<SocketHandle, SocketError> {
        let inner = &self.node.inner;
        inner.check_open()?;
        if peer.port == 0 {
            let failure = ConnectionFailure::Refused(RefusedCode::NoListener);
            return Err(SocketError::Connection { peer, failure });
        }
        let wanted = from.as_ref().map_or(0, BoundPort::port);
        let joined = lock(&inner.ports).join(wanted, peer);
        let port = joined.map_err(|error| SocketError::of_port(wanted, error))?;
        let connect = |sockets: &mut Sockets| sockets.connect(Clock.now(), port, peer, kind);
        let id = match inner.shard_of(peer.node).update_sockets(connect) {
            Ok(id) => id,
            Err(error) => {
                lock(&inner.ports).part(port, peer);
                return Err(error.into());
            }
        };
        Ok(SocketHandle {
            node: self.node.clone(),
            id,
            port,
            peer,
            kind,
            is_client: true,
            _bound: from,
        })
    }
}

/// A port that is kept for a socket until this is dropped.
#[derive(Debug)]
pub struct BoundPort {
    node: SharedNode,
    port: u16,
}

impl BoundPort {
    /// Returns the sockets of its node.
    #[must_use]
    pub fn sockets(&self) -> SocketLayer {
        self.node.sockets()
    }

    /// Returns the port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for BoundPort {
    fn drop(&mut self) {
        if self.node.check_not_forked().is_ok() {
            lock(&self.node.inner.ports).unbind(self.port);
        }
    }
}

/// A listener. Dropping it closes it: connections that wait to be accepted are reset, and its port
/// is free.
#[derive(Debug)]
pub struct SocketListener {
    port: BoundPort,
    kind: SocketKind,
    /// Its socket in each shard.
    ids: Vec<SocketId>,
    /// The shard that is asked first, so that none is preferred.
    next: AtomicUsize,
}

impl SocketListener {
    /// Returns its node.
    #[must_use]
    pub const fn node(&self) -> &SharedNode {
        &self.port.node
    }

    /// Returns its address.
    #[must_use]
    pub fn local(&self) -> Address {
        Address {
            node: self.node().id(),
            port: self.port.port,
        }
    }

    /// Returns the kind of its connections.
    #[must_use]
    pub const fn kind(&self) -> SocketKind {
        self.kind
    }

    fn shards(&self) -> impl Iterator<Item = (&Shard, SocketId)> {
        let shards = self.node().inner.shards.iter();
        shards.zip(self.ids.iter().copied())
    }

    /// Takes a connection that waits.
    ///
    /// # Errors
    /// [`SocketError::NotListening`] once the node is closed.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<SocketHandle, SocketError>> {
        self.node().check_not_forked()?;
        let first = self.next.fetch_add(1, Ordering::Relaxed) % self.ids.len().max(1);
        let shards = self.shards().skip(first);
        for (shard, listener) in shards.chain(self.shards().take(first)) {
            let accepted = shard.poll_sockets(cx, listener, |sockets| {
                if self.node().inner.closing.load(Ordering::Acquire) {
                    return Poll::Ready(Err(SocketError::NotListening));
                }
                match sockets.accept(listener) {
                    Ok(accepted) => Poll::Ready(Ok(accepted)),
                    Err(AcceptError::Pending) => Poll::Pending,
                    Err(AcceptError::NotListening) => Poll::Ready(Err(SocketError::NotListening)),
                }
            });
            if let Poll::Ready(accepted) = accepted {
                let (id, peer) = accepted?;
                return Poll::Ready(Ok(SocketHandle {
                    node: self.node().clone(),
                    id,
                    port: self.port.port,
                    peer,
                    kind: self.kind,
                    is_client: false,
                    _bound: None,
                }));
            }
        }
        Poll::Pending
    }

    /// Returns whether a connection waits. The task is woken when that changes.
    pub fn watch(&self, cx: &mut Context<'_>) -> Readiness {
        if self.node().check_not_forked().is_err() {
            return ANYTHING;
        }
        let mut ready = Readiness::default();
        for (shard, id) in self.shards() {
            let of_shard = shard.sockets.watch(cx, id, |sockets| sockets.readiness(id));
            ready.readable |= of_shard.readable;
        }
        ready.readable |= self.node().inner.closing.load(Ordering::Acquire);
        ready
    }
}

impl Drop for SocketListener {
    fn drop(&mut self) {
        if self.node().check_not_forked().is_err() {
            return;
        }
        for (shard, id) in self.shards() {
            shard.update_sockets(|sockets| sockets.close(id));
        }
    }
}

/// One end of a connection. Dropping it closes it in both directions: the program loses what it has
/// not read, and the peer gets what was sent.
#[derive(Debug)]
pub struct SocketHandle {
    node: SharedNode,
    id: SocketId,
    port: u16,
    peer: Address,
    kind: SocketKind,
    is_client: bool,
    /// Held for its [`Drop`].
    _bound: Option<BoundPort>,
}

impl SocketHandle {
    /// Returns its node.
    #[must_use]
    pub const fn node(&self) -> &SharedNode {
        &self.node
    }

    fn shard(&self) -> Result<&Shard, SocketError> {
        self.node.check_not_forked()?;
        Ok(self.node.inner.shard_of(self.peer.node))
    }

    fn failed(&self, failure: ConnectionFailure) -> SocketError {
        let peer = self.peer;
        SocketError::Connection { peer, failure }
    }

    /// Returns this end's address.
    #[must_use]
    pub fn local(&self) -> Address {
        Address {
            node: self.node.id(),
            port: self.port,
        }
    }

    /// Returns the peer's address.
    #[must_use]
    pub const fn peer(&self) -> Address {
        self.peer
    }

    /// Returns what it carries.
    #[must_use]
    pub const fn kind(&self) -> SocketKind {
        self.kind
    }

    /// Waits until the connection is open.
    ///
    /// # Errors
    /// [`SocketError::Connection`] if it failed.
    pub fn poll_connected(&self, cx: &mut Context<'_>) -> Poll<Result<(), SocketError>> {
        let (id, shard) = (self.id, self.shard()?);
        let status = shard.poll_sockets(cx, id, |sockets| match sockets.status(id) {
            None => Poll::Pending,
            Some(status) => Poll::Ready(status),
        });
        status.map_err(|failure| self.failed(failure))
    }

    /// Sends a copy of `bytes`, or of their first part. With `last` they end a message, and all of
    /// them are accepted: what finds no room is sent when there is some, and until then the socket
    /// accepts nothing else. Returns how many were accepted. The bytes are delivered while both
    /// processes live and the session lasts, also after the socket was closed. A node that is
    /// closed waits for them, within its patience.
    ///
    /// # Errors
    /// [`SocketError::Connection`]
    pub fn poll_send(
        &self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        last: bool,
    ) -> Poll<Result<usize, SocketError>> {
        let (id, shard) = (self.id, self.shard()?);
        let sent = shard.poll_sockets(cx, id, |sockets| match sockets.send(id, bytes, last) {
            Ok(sent) => Poll::Ready(Ok(sent)),
            Err(SendRefused::Full | SendRefused::Failed(ConnectionFailure::NotConnected)) => {
                Poll::Pending
            }
            Err(SendRefused::Failed(failure)) => Poll::Ready(Err(failure)),
        });
        sent.map_err(|failure| self.failed(failure))
    }

    /// Takes the next part of what arrived: [`Received::Data`], or [`Received::End`] once the peer
    /// sends nothing more.
    ///
    /// # Errors
    /// [`SocketError::Connection`], after everything that had arrived.
    pub fn poll_take(&self, cx: &mut Context<'_>) -> Poll<Result<Received, SocketError>> {
        let (id, shard) = (self.id, self.shard()?);
        let taken = shard.poll_sockets(cx, id, |sockets| match sockets.take(id) {
            Ok(Received::Pending) => Poll::Pending,
            taken => Poll::Ready(taken),
        });
        taken.map_err(|failure| self.failed(failure))
    }

    /// Ends the direction towards the peer, which reads all that was sent and then the end.
    ///
    /// # Errors
    /// [`SocketError::Connection`] if the connection failed or is not open yet.
    pub fn shutdown(&self) -> Result<(), SocketError> {
        let id = self.id;
        let done = self.shard()?.update_sockets(|sockets| sockets.shutdown(id));
        done.map_err(|failure| self.failed(failure))
    }

    /// Returns the calls for which the socket is ready. The task is woken when that changes.
    pub fn watch(&self, cx: &mut Context<'_>) -> Readiness {
        let Ok(shard) = self.shard() else {
            return ANYTHING;
        };
        let id = self.id;
        shard.sockets.watch(cx, id, |sockets| {
            sockets.want_room(id);
            sockets.readiness(id)
        })
    }
}

impl Drop for SocketHandle {
    fn drop(&mut self) {
        let (id, Ok(shard)) = (self.id, self.shard()) else {
            return;
        };
        shard.update_sockets(|sockets| sockets.close(id));
        if self.is_client {
            lock(&self.node.inner.ports).part(self.port, self.peer);
        }
    }
}
