//! Connections that carry bytes.

use crate::connection::{Connection, Direction};
use crate::listener::{Accepted, Sealed};
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use suci::sockets::{Address, BoundPort, SocketHandle, SocketKind};
use suci::{Bytes, SharedNode};

/// A connection that carries bytes without boundaries, as [`TcpStream`](std::net::TcpStream) does.
///
/// Clones share the connection, its time limits and its descriptor. Dropping the last one closes
/// the connection.
#[derive(Clone, Debug)]
pub struct SuciStream(Arc<Connection>);

impl Sealed for SuciStream {
    const KIND: SocketKind = SocketKind::Stream;

    fn made_of(handle: SocketHandle) -> Self {
        Self(Connection::new(handle))
    }
}

impl Accepted for SuciStream {}

impl SuciStream {
    /// Connects to a listener. Blocks until it is answered, for 15 s at most.
    ///
    /// # Errors
    /// [`ConnectionRefused`](io::ErrorKind::ConnectionRefused) if nobody listens there, the backlog
    /// is full, or no process answers; [`TimedOut`](io::ErrorKind::TimedOut),
    /// [`HostUnreachable`](io::ErrorKind::HostUnreachable),
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied) if the peer's address book lacks this
    /// node; [`OutOfMemory`](io::ErrorKind::OutOfMemory),
    /// [`AddrNotAvailable`](io::ErrorKind::AddrNotAvailable) if this node has no socket or port
    /// left. The error's source is a [`SocketError`](crate::SocketError).
    pub fn connect(node: &SharedNode, peer: Address) -> io::Result<Self> {
        let stream = Self::connect_from(node, 0, peer)?;
        stream.0.finish(None)?;
        Ok(stream)
    }

    /// The same, for at most `limit`.
    ///
    /// # Errors
    /// As [`SuciStream::connect`].
    pub fn connect_timeout(node: &SharedNode, peer: Address, limit: Duration) -> io::Result<Self> {
        let stream = Self::connect_from(node, 0, peer)?;
        stream.0.finish(Some(limit))?;
        Ok(stream)
    }

    /// Begins to connect from port `from` (0: an ephemeral one), and returns at once. Calls that
    /// send or receive wait for the answer; [`SuciStream::poll_connected`] tells it.
    ///
    /// # Errors
    /// [`AddrInUse`](io::ErrorKind::AddrInUse), and those of this node as in
    /// [`SuciStream::connect`].
    pub fn connect_from(node: &SharedNode, from: u16, peer: Address) -> io::Result<Self> {
        Connection::begin(node, from, peer, SocketKind::Stream).map(Self)
    }

    /// Begins to connect from a port that was bound before.
    ///
    /// # Errors
    /// As [`SuciStream::connect_from`].
    pub fn connect_at(port: BoundPort, peer: Address) -> io::Result<Self> {
        Connection::begin_at(port, peer, SocketKind::Stream).map(Self)
    }

    /// Connects without blocking.
    ///
    /// # Errors
    /// As [`SuciStream::connect`].
    pub async fn connect_async(node: &SharedNode, peer: Address) -> io::Result<Self> {
        let stream = Self::connect_from(node, 0, peer)?;
        poll_fn(|cx| stream.poll_connected(cx)).await?;
        Ok(stream)
    }

    /// Blocks until the connection is open.
    ///
    /// # Errors
    /// As [`SuciStream::connect`].
    pub fn wait_connected(&self) -> io::Result<()> {
        self.0.finish(None)
    }

    /// Waits until the connection is open.
    ///
    /// # Errors
    /// As [`SuciStream::connect`].
    pub fn poll_connected(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.handle.poll_connected(cx).map_err(io::Error::from)
    }

    /// Copies bytes that arrived into `bytes`; 0 of them at the end.
    ///
    /// # Errors
    /// [`ConnectionReset`](io::ErrorKind::ConnectionReset),
    /// [`TimedOut`](io::ErrorKind::TimedOut), after everything that had arrived.
    pub fn poll_read(&self, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        self.0.poll_read(cx, bytes)
    }

    /// Takes bytes that arrived, at most `most`, without a copy; none at the end. A call returns
    /// one part as it was sent, although more may be there.
    ///
    /// # Errors
    /// As [`SuciStream::poll_read`].
    pub fn poll_read_bytes(&self, cx: &mut Context<'_>, most: usize) -> Poll<io::Result<Bytes>> {
        self.0.poll_read_bytes(cx, most)
    }

    /// The same, blocking as a read does.
    ///
    /// # Errors
    /// As [`SuciStream::poll_read`]; [`WouldBlock`](io::ErrorKind::WouldBlock).
    pub fn read_bytes(&self, most: usize) -> io::Result<Bytes> {
        let waits = &self.0.waits;
        waits.wait(self.0.handle.node(), Direction::Read, |cx| {
            self.poll_read_bytes(cx, most)
        })
    }

    /// Sends a copy of `bytes` or of their first part, and returns how many it sent.
    ///
    /// # Errors
    /// [`BrokenPipe`](io::ErrorKind::BrokenPipe) after [`SuciStream::shutdown`] or when the peer
    /// closed; [`ConnectionReset`](io::ErrorKind::ConnectionReset),
    /// [`TimedOut`](io::ErrorKind::TimedOut).
    pub fn poll_write(&self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        self.0.poll_send(cx, bytes, false)
    }

    /// Reads without blocking.
    ///
    /// # Errors
    /// As [`SuciStream::poll_read`].
    pub async fn read_async(&self, bytes: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_read(cx, bytes)).await
    }

    /// Writes without blocking.
    ///
    /// # Errors
    /// As [`SuciStream::poll_write`].
    pub async fn write_async(&self, bytes: &[u8]) -> io::Result<usize> {
        poll_fn(|cx| self.poll_write(cx, bytes)).await
    }

    /// Ends the direction towards the peer with [`Shutdown::Write`]: the peer reads all that was
    /// sent, then the end.
    ///
    /// # Errors
    /// [`Unsupported`](io::ErrorKind::Unsupported) for the other directions; those of
    /// [`SuciStream::poll_write`].
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.shutdown(how)
    }

    /// Returns the address of this end (`getsockname`).
    #[must_use]
    pub fn local_addr(&self) -> Address {
        self.0.handle.local()
    }

    /// Returns the address of the other end (`getpeername`).
    #[must_use]
    pub fn peer_addr(&self) -> Address {
        self.0.handle.peer()
    }

    /// Lets calls that would wait fail with [`WouldBlock`](io::ErrorKind::WouldBlock), or wait
    /// again.
    pub fn set_nonblocking(&self, nonblocking: bool) {
        self.0.waits.set_nonblocking(nonblocking);
    }

    /// Sets how long a read may wait; for ever without a limit, as at first.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) for a limit of 0.
    pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.0.waits.set_timeout(Direction::Read, limit)
    }

    /// Sets how long a write may wait; for ever without a limit, as at first.
    ///
    /// # Errors
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) for a limit of 0.
    pub fn set_write_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.0.waits.set_timeout(Direction::Write, limit)
    }

    /// Returns how long a read may wait.
    #[must_use]
    pub fn read_timeout(&self) -> Option<Duration> {
        self.0.waits.timeout(Direction::Read)
    }

    /// Returns how long a write may wait.
    #[must_use]
    pub fn write_timeout(&self) -> Option<Duration> {
        self.0.waits.timeout(Direction::Write)
    }

    /// Returns a descriptor that is readable when a read would not wait, and writable when a write
    /// would not: level-triggered, for `poll`, `epoll` and runtimes. It is made at the first call
    /// and takes two descriptors of the process. Do not read, write or close it.
    ///
    /// # Errors
    /// Those of `socketpair`: the process has no descriptor left.
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        self.0.descriptor()
    }
}

impl Read for &SuciStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let waits = &self.0.waits;
        waits.wait(self.0.handle.node(), Direction::Read, |cx| {
            self.poll_read(cx, bytes)
        })
    }
}

impl Write for &SuciStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let waits = &self.0.waits;
        waits.wait(self.0.handle.node(), Direction::Write, |cx| {
            self.poll_write(cx, bytes)
        })
    }

    /// Does nothing: what was written is sent at once.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for SuciStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        (&*self).read(bytes)
    }
}

impl Write for SuciStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
