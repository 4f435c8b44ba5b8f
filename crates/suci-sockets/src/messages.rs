//! Connections that carry messages.

use crate::connection::{Connection, Direction, lock};
use crate::listener::{Accepted, Sealed};
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use suci::sockets::{Address, BoundPort, Received, SocketHandle, SocketKind};
use suci::{Bytes, SharedNode};

/// The length of the longest message that is received, if the program sets no other. Peers can fill
/// this much memory, and 64 KiB more, for each socket that the program accepts.
pub const DEFAULT_MAX_MESSAGE: usize = 1 << 20;

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
    /// Locked by each call that receives, so that several threads take whole messages.
    partial: Mutex<PartialMessage>,
}

#[derive(Debug)]
struct PartialMessage {
    /// The parts of a message of which the program got nothing yet.
    begun: Vec<u8>,
    /// These are all of them: the message was longer than the program takes.
    is_complete: bool,
    max_message: usize,
}

impl PartialMessage {
    const fn is_too_long(&self) -> bool {
        self.begun.len() > self.max_message
    }
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
            partial: Mutex::new(PartialMessage {
                begun: Vec::new(),
                is_complete: false,
                max_message: DEFAULT_MAX_MESSAGE,
            }),
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
        waits.wait(self.0.core.handle.node(), Direction::Write, |cx| {
            self.poll_send(cx, message)
        })
    }

    /// As [`MessageSocket::send`], without blocking.
    ///
    /// # Errors
    /// Those of [`SuciStream::poll_write`](crate::SuciStream::poll_write).
    pub fn poll_send(&self, cx: &mut Context<'_>, message: &[u8]) -> Poll<io::Result<()>> {
        let sent = ready!(self.0.core.poll_send(cx, message, true));
        // The node has the rest.
        Poll::Ready(sent.map(drop))
    }

    /// The same as a future.
    ///
    /// # Errors
    /// As [`MessageSocket::poll_send`].
    pub async fn send_async(&self, message: &[u8]) -> io::Result<()> {
        poll_fn(|cx| self.poll_send(cx, message)).await
    }

    /// Receives a message, or what [`MessageSocket::recv_part`] left of one; nothing once the peer
    /// sends no more. Blocks until a message has arrived completely.
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) if it must not wait (longer);
    /// [`InvalidData`](ErrorKind::InvalidData) if the message is longer than
    /// [`MessageSocket::set_max_message`] allows: it can be received once more is allowed;
    /// [`UnexpectedEof`](ErrorKind::UnexpectedEof) if the connection ended within a message;
    /// [`ConnectionReset`](ErrorKind::ConnectionReset), [`TimedOut`](ErrorKind::TimedOut).
    pub fn recv(&self) -> io::Result<Option<Bytes>> {
        self.recv_part(usize::MAX)
    }

    /// As [`MessageSocket::recv`], without blocking.
    ///
    /// # Errors
    /// As [`MessageSocket::recv`].
    pub fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        self.poll_recv_part(cx, usize::MAX)
    }

    /// Receives at most `most` bytes of a message. The next calls get its rest, for which they do
    /// not wait: see [`MessageSocket::has_rest`].
    ///
    /// # Errors
    /// As [`MessageSocket::recv`].
    pub fn recv_part(&self, most: usize) -> io::Result<Option<Bytes>> {
        let waits = &self.0.core.waits;
        waits.wait(self.0.core.handle.node(), Direction::Read, |cx| {
            self.poll_recv_part(cx, most)
        })
    }

    /// As [`MessageSocket::recv_part`], without blocking.
    ///
    /// # Errors
    /// As [`MessageSocket::recv`].
    pub fn poll_recv_part(
        &self,
        cx: &mut Context<'_>,
        most: usize,
    ) -> Poll<io::Result<Option<Bytes>>> {
        let mut partial = lock(&self.0.partial);
        if let Some(part) = self.0.core.take_rest(most) {
            return Poll::Ready(Ok(Some(part)));
        }
        let Some(mut message) = ready!(self.0.poll_message(cx, &mut partial))? else {
            return Poll::Ready(Ok(None));
        };
        let part = message.split_to(message.len().min(most));
        self.0.core.keep_rest(message);
        Poll::Ready(Ok(Some(part)))
    }

    /// Returns true if the last message has bytes left that the next call gets.
    #[must_use]
    pub fn has_rest(&self) -> bool {
        self.0.core.has_rest()
    }

    /// The same as a future.
    ///
    /// # Errors
    /// As [`MessageSocket::recv`].
    pub async fn recv_async(&self) -> io::Result<Option<Bytes>> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Sets the length of the longest message that is received, in bytes; 1 MiB at first. The
    /// peer can fill so much memory with a message that it does not end, and 64 KiB more.
    pub fn set_max_message(&self, bytes: usize) {
        let mut partial = lock(&self.0.partial);
        partial.max_message = bytes;
        self.0.core.set_refused(partial.is_too_long());
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
    /// for the others. So it is while a message has a rest, or is longer than allowed.
    ///
    /// # Errors
    /// Those of `socketpair`.
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        self.0.core.descriptor()
    }
}

impl Messages {
    /// Takes the next message from what arrived; nothing at the end.
    fn poll_message(
        &self,
        cx: &mut Context<'_>,
        partial: &mut PartialMessage,
    ) -> Poll<io::Result<Option<Bytes>>> {
        loop {
            if partial.is_too_long() {
                self.core.set_refused(true);
                return Poll::Ready(Err(too_long(partial.max_message)));
            }
            if std::mem::take(&mut partial.is_complete) {
                return Poll::Ready(Ok(Some(std::mem::take(&mut partial.begun).into())));
            }
            match ready!(self.core.poll_take(cx))? {
                Received::Data { bytes, last } => {
                    if last && partial.begun.is_empty() && bytes.len() <= partial.max_message {
                        return Poll::Ready(Ok(Some(bytes)));
                    }
                    partial.begun.extend_from_slice(&bytes);
                    partial.is_complete = last;
                }
                Received::End if partial.begun.is_empty() => return Poll::Ready(Ok(None)),
                Received::End => {
                    let text = "the connection ended within a message";
                    let error = io::Error::new(ErrorKind::UnexpectedEof, text);
                    return Poll::Ready(Err(error));
                }
                Received::Pending => return Poll::Pending,
            }
        }
    }
}

fn too_long(most: usize) -> io::Error {
    let text = format!(
        "a message of more than {most} bytes: receive it after allowing longer ones, or close the \
         socket"
    );
    io::Error::new(ErrorKind::InvalidData, text)
}
