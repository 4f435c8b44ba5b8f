//! Connections that carry messages.

use crate::connection::{Connection, Direction, lock};
use crate::listener::{Accepted, Sealed};
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use suci::sockets::{Address, BoundPort, Received, SocketHandle, SocketKind};
use suci::{Bytes, SharedNode};

/// The length of the longest message that is received, if the program sets no other.
pub const DEFAULT_MAX_MESSAGE: usize = 64 << 20;

/// A connection that carries messages of any length and keeps their boundaries, as `SOCK_SEQPACKET`
/// does. Empty messages are messages, too.
///
/// Clones share the connection, its time limits and its descriptor. Dropping the last one closes
/// the connection; messages that were sent are delivered.
#[derive(Clone, Debug)]
pub struct MessageSocket(Arc<Messages>);

#[derive(Debug)]
struct Messages {
    core: Arc<Connection>,
    /// The parts of a message that has not arrived completely.
    begun: Mutex<Vec<u8>>,
    max_message: AtomicUsize,
    /// The rest of a message whose first part was sent.
    unsent: Mutex<Bytes>,
}

impl Sealed for MessageSocket {
    const KIND: SocketKind = SocketKind::Messages;

    fn made_of(handle: SocketHandle) -> Self {
        Self::over(Connection::new(handle))
    }
}

impl Accepted for MessageSocket {}

impl MessageSocket {
    fn over(core: Arc<Connection>) -> Self {
        Self(Arc::new(Messages {
            core,
            begun: Mutex::default(),
            max_message: AtomicUsize::new(DEFAULT_MAX_MESSAGE),
            unsent: Mutex::default(),
        }))
    }

    /// Connects to a listener. Blocks until it is answered, for 15 s at most.
    ///
    /// # Errors
    /// As [`SuciStream::connect`](crate::SuciStream::connect).
    pub fn connect(node: &SharedNode, peer: Address) -> io::Result<Self> {
        let socket = Self::connect_from(node, 0, peer)?;
        socket.0.core.finish(None)?;
        Ok(socket)
    }

    /// The same, for at most `limit`.
    ///
    /// # Errors
    /// As [`SuciStream::connect`](crate::SuciStream::connect).
    pub fn connect_timeout(node: &SharedNode, peer: Address, limit: Duration) -> io::Result<Self> {
        let socket = Self::connect_from(node, 0, peer)?;
        socket.0.core.finish(Some(limit))?;
        Ok(socket)
    }

    /// Begins to connect from port `from` (0: an ephemeral one), and returns at once.
    ///
    /// # Errors
    /// As [`SuciStream::connect_from`](crate::SuciStream::connect_from).
    pub fn connect_from(node: &SharedNode, from: u16, peer: Address) -> io::Result<Self> {
        Connection::begin(node, from, peer, SocketKind::Messages).map(Self::over)
    }

    /// Begins to connect from a port that was bound before.
    ///
    /// # Errors
    /// As [`SuciStream::connect_from`](crate::SuciStream::connect_from).
    pub fn connect_at(port: BoundPort, peer: Address) -> io::Result<Self> {
        Connection::begin_at(port, peer, SocketKind::Messages).map(Self::over)
    }

    /// Connects without blocking.
    ///
    /// # Errors
    /// As [`SuciStream::connect`](crate::SuciStream::connect).
    pub async fn connect_async(node: &SharedNode, peer: Address) -> io::Result<Self> {
        let socket = Self::connect_from(node, 0, peer)?;
        poll_fn(|cx| socket.poll_connected(cx)).await?;
        Ok(socket)
    }

    /// Blocks until the connection is open.
    ///
    /// # Errors
    /// As [`SuciStream::connect`](crate::SuciStream::connect).
    pub fn wait_connected(&self) -> io::Result<()> {
        self.0.core.finish(None)
    }

    /// Waits until the connection is open.
    ///
    /// # Errors
    /// As [`SuciStream::connect`](crate::SuciStream::connect).
    pub fn poll_connected(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let connected = self.0.core.handle.poll_connected(cx);
        connected.map_err(io::Error::from)
    }

    /// Accepts a copy of a message: all of it, or nothing. The peer's window takes its first part
    /// at once; the node sends the rest as the peer reads. Blocks until the window has room, and
    /// the rest of an earlier message has left.
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) if it must not wait (longer); those of
    /// [`SuciStream::poll_write`](crate::SuciStream::poll_write).
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        let waits = &self.0.core.waits;
        waits.wait(Direction::Write, |cx| self.poll_send(cx, message))
    }

    /// As [`MessageSocket::send`], without blocking.
    ///
    /// # Errors
    /// Those of [`SuciStream::poll_write`](crate::SuciStream::poll_write).
    pub fn poll_send(&self, cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<()>> {
        let mut unsent = lock(&self.0.unsent);
        // The rest of an earlier message goes first.
        if !unsent.is_empty() && self.0.push(cx, &mut unsent)?.is_pending() {
            return Poll::Pending;
        }
        let sent = match self.0.core.poll_send(cx, message, true) {
            Poll::Ready(sent) => sent?,
            Poll::Pending => return Poll::Pending,
        };
        let rest = message.get(sent..).unwrap_or_default();
        if !rest.is_empty() {
            *unsent = Bytes::copy_from_slice(rest);
            drop(unsent);
            Arc::new(Pump(Arc::clone(&self.0))).wake();
        }
        Poll::Ready(Ok(()))
    }

    /// The same as a future.
    ///
    /// # Errors
    /// As [`MessageSocket::poll_send`].
    pub async fn send_async(&self, message: &[u8]) -> io::Result<()> {
        poll_fn(|cx| self.poll_send(cx, message)).await
    }

    /// Receives a message; nothing once the peer sends no more. Blocks until one has arrived
    /// completely.
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) if it must not wait (longer);
    /// [`InvalidData`](ErrorKind::InvalidData) if the message is longer than
    /// [`MessageSocket::set_max_message`] allows; [`UnexpectedEof`](ErrorKind::UnexpectedEof) if
    /// the connection ended within a message;
    /// [`ConnectionReset`](ErrorKind::ConnectionReset), [`TimedOut`](ErrorKind::TimedOut).
    pub fn recv(&self) -> io::Result<Option<Bytes>> {
        let waits = &self.0.core.waits;
        waits.wait(Direction::Read, |cx| self.poll_recv(cx))
    }

    /// As [`MessageSocket::recv`], without blocking.
    ///
    /// # Errors
    /// As [`MessageSocket::recv`].
    pub fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        let mut begun = lock(&self.0.begun);
        loop {
            let (bytes, last) = match self.0.core.poll_take(cx) {
                Poll::Ready(Ok(Received::Data { bytes, last })) => (bytes, last),
                Poll::Ready(Ok(Received::End)) if begun.is_empty() => return Poll::Ready(Ok(None)),
                Poll::Ready(Ok(Received::End)) => {
                    let text = "the connection ended within a message";
                    let error = io::Error::new(ErrorKind::UnexpectedEof, text);
                    return Poll::Ready(Err(error));
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(Received::Pending)) | Poll::Pending => return Poll::Pending,
            };
            let most = self.0.max_message.load(Ordering::Relaxed);
            if begun.len().saturating_add(bytes.len()) > most {
                let text = format!(
                    "a message of more than {most} bytes: receive it after set_max_message with \
                     more, or close the socket"
                );
                return Poll::Ready(Err(io::Error::new(ErrorKind::InvalidData, text)));
            }
            if last && begun.is_empty() {
                return Poll::Ready(Ok(Some(bytes)));
            }
            begun.extend_from_slice(&bytes);
            if last {
                return Poll::Ready(Ok(Some(std::mem::take(&mut *begun).into())));
            }
        }
    }

    /// The same as a future.
    ///
    /// # Errors
    /// As [`MessageSocket::recv`].
    pub async fn recv_async(&self) -> io::Result<Option<Bytes>> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Sets the length of the longest message that is received, in bytes; 64 MiB at first. It
    /// bounds the memory that the peer can take up.
    pub fn set_max_message(&self, bytes: usize) {
        self.0.max_message.store(bytes, Ordering::Relaxed);
    }

    /// Returns the address of this end (`getsockname`).
    #[must_use]
    pub fn local_addr(&self) -> Address {
        self.0.core.handle.local()
    }

    /// Returns the address of the other end (`getpeername`).
    #[must_use]
    pub fn peer_addr(&self) -> Address {
        self.0.core.handle.peer()
    }

    /// Lets calls that would wait fail with [`WouldBlock`](ErrorKind::WouldBlock), or wait again.
    pub fn set_nonblocking(&self, nonblocking: bool) {
        self.0.core.waits.set_nonblocking(nonblocking);
    }

    /// Sets how long [`MessageSocket::recv`] may wait; for ever without a limit, as at first.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a limit of 0.
    pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.0.core.waits.set_timeout(Direction::Read, limit)
    }

    /// Sets how long [`MessageSocket::send`] may wait; for ever without a limit, as at first.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a limit of 0.
    pub fn set_write_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.0.core.waits.set_timeout(Direction::Write, limit)
    }

    /// Returns a descriptor, as [`SuciStream::descriptor`](crate::SuciStream::descriptor). It is
    /// readable when a part of a message is there; [`MessageSocket::recv`] may still have to wait
    /// for the others.
    ///
    /// # Errors
    /// Those of `socketpair`.
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        self.0.core.descriptor()
    }
}

impl Messages {
    /// Sends what is left of a message. Ready when all of it was sent.
    fn push(&self, cx: &mut Context<'_>, unsent: &mut Bytes) -> io::Result<Poll<()>> {
        while !unsent.is_empty() {
            match self.core.poll_send(cx, unsent, true) {
                Poll::Ready(Ok(sent)) => drop(unsent.split_to(sent)),
                Poll::Ready(Err(error)) => {
                    *unsent = Bytes::new();
                    return Err(error);
                }
                Poll::Pending => return Ok(Poll::Pending),
            }
        }
        Ok(Poll::Ready(()))
    }
}

/// Sends the rest of a message whenever there is room. It keeps the connection open until then.
struct Pump(Arc<Messages>);

impl Wake for Pump {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(Arc::clone(&self));
        let mut unsent = lock(&self.0.unsent);
        // The next call of the program hears of an error.
        let _ = self.0.push(&mut Context::from_waker(&waker), &mut unsent);
    }
}
