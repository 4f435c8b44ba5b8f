//! The common part of streams and message sockets.

use crate::descriptor::{Descriptor, Watched};
use std::io::{self, ErrorKind};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use suci::sockets::{
    Address, BoundPort, Readiness, Received, SocketError, SocketHandle, SocketKind, block_on,
};
use suci::{Bytes, SharedNode};

/// Locks state that no code leaves half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How calls wait.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    nonblocking: AtomicBool,
    read: Mutex<Option<Duration>>,
    write: Mutex<Option<Duration>>,
}

/// The direction of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Direction {
    Read,
    Write,
}

impl Waits {
    pub(crate) fn set_nonblocking(&self, nonblocking: bool) {
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
    }

    const fn limit(&self, direction: Direction) -> &Mutex<Option<Duration>> {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }

    pub(crate) fn timeout(&self, direction: Direction) -> Option<Duration> {
        *lock(self.limit(direction))
    }

    pub(crate) fn set_timeout(
        &self,
        direction: Direction,
        limit: Option<Duration>,
    ) -> io::Result<()> {
        if limit.is_some_and(|limit| limit.is_zero()) {
            let text = "a time limit of 0: use None for no limit, or set_nonblocking";
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        *lock(self.limit(direction)) = limit;
        Ok(())
    }

    /// Polls as long as a call of this direction may wait.
    pub(crate) fn wait<T>(
        &self,
        node: &SharedNode,
        direction: Direction,
        poll: impl FnMut(&mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> io::Result<T> {
        let limit = match self.nonblocking.load(Ordering::Relaxed) {
            true => Some(Duration::ZERO),
            false => self.timeout(direction),
        };
        let done = block_on(node, limit, poll).map_err(SocketError::from)?;
        done.unwrap_or_else(|| Err(ErrorKind::WouldBlock.into()))
    }
}

/// One end of a connection, and what its program has set.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) handle: SocketHandle,
    pub(crate) waits: Waits,
    /// The rest of a part, or message, of which the program took some bytes.
    rest: Mutex<Bytes>,
    /// A message is there that is longer than the program takes.
    refused: AtomicBool,
    descriptor: OnceLock<Arc<Descriptor>>,
}

impl Connection {
    pub(crate) fn new(handle: SocketHandle) -> Arc<Self> {
        Arc::new(Self {
            handle,
            waits: Waits::default(),
            rest: Mutex::default(),
            refused: AtomicBool::new(false),
            descriptor: OnceLock::new(),
        })
    }

    /// Begins to connect from port `from`, or from an ephemeral one if that is 0.
    pub(crate) fn begin(
        node: &SharedNode,
        from: u16,
        peer: Address,
        kind: SocketKind,
    ) -> io::Result<Arc<Self>> {
        match from {
            0 => Ok(Self::new(node.sockets().connect(None, peer, kind)?)),
            _ => Self::begin_at(node.sockets().bind(from)?, peer, kind),
        }
    }

    /// Begins to connect from a bound port.
    pub(crate) fn begin_at(
        port: BoundPort,
        peer: Address,
        kind: SocketKind,
    ) -> io::Result<Arc<Self>> {
        Ok(Self::new(port.sockets().connect(Some(port), peer, kind)?))
    }

    /// Waits until the connection is open.
    pub(crate) fn finish(&self, limit: Option<Duration>) -> io::Result<()> {
        let node = self.handle.node();
        let connected = block_on(node, limit, |cx| self.handle.poll_connected(cx));
        match connected.map_err(SocketError::from)? {
            Some(connected) => Ok(connected?),
            None => Err(ErrorKind::TimedOut.into()),
        }
    }

    /// Copies bytes that arrived to `bytes`. Returns 0 at the end.
    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        bytes: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let read = self.poll_fill(cx, bytes);
        self.show();
        read
    }

    fn poll_fill(&self, cx: &mut Context<'_>, bytes: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut rest = lock(&self.rest);
        let mut filled = 0;
        while let Some(free) = bytes.get_mut(filled..)
            && !free.is_empty()
        {
            if rest.is_empty() {
                // A call that has something does not wait, and leaves errors to the next one.
                let mut quiet = Context::from_waker(std::task::Waker::noop());
                let cx = if filled == 0 { &mut *cx } else { &mut quiet };
                match self.handle.poll_take(cx) {
                    Poll::Ready(Ok(Received::Data { bytes, .. })) => *rest = bytes,
                    _ if filled > 0 => break,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                    Poll::Ready(Ok(Received::End)) => return Poll::Ready(Ok(0)),
                    Poll::Ready(Ok(Received::Pending)) | Poll::Pending => return Poll::Pending,
                }
                continue;
            }
            let length = rest.len().min(free.len());
            let part = rest.split_to(length);
            if let Some(to) = free.get_mut(..part.len()) {
                to.copy_from_slice(&part);
            }
            filled += part.len();
        }
        Poll::Ready(Ok(filled))
    }

    /// Takes bytes that arrived, at most so many, without a copy. Returns none at the end.
    pub(crate) fn poll_read_bytes(
        &self,
        cx: &mut Context<'_>,
        most: usize,
    ) -> Poll<io::Result<Bytes>> {
        let read = self.poll_part(cx, most);
        self.show();
        read
    }

    fn poll_part(&self, cx: &mut Context<'_>, most: usize) -> Poll<io::Result<Bytes>> {
        let mut rest = lock(&self.rest);
        while rest.is_empty() && most > 0 {
            match self.handle.poll_take(cx) {
                Poll::Ready(Ok(Received::Data { bytes, .. })) => *rest = bytes,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                Poll::Ready(Ok(Received::End)) => break,
                Poll::Ready(Ok(Received::Pending)) | Poll::Pending => return Poll::Pending,
            }
        }
        let length = rest.len().min(most);
        Poll::Ready(Ok(rest.split_to(length)))
    }

    /// Takes the next part of a message.
    pub(crate) fn poll_take(&self, cx: &mut Context<'_>) -> Poll<io::Result<Received>> {
        let taken = self.handle.poll_take(cx);
        self.show();
        taken.map_err(io::Error::from)
    }

    /// Takes at most `most` bytes of the rest, if there is one.
    pub(crate) fn take_rest(&self, most: usize) -> Option<Bytes> {
        let mut rest = lock(&self.rest);
        let length = rest.len().min(most);
        let taken = (!rest.is_empty()).then(|| rest.split_to(length));
        drop(rest);
        if taken.is_some() {
            self.show();
        }
        taken
    }

    /// Keeps the rest of a message, after which the descriptor is readable until it is taken.
    pub(crate) fn keep_rest(&self, rest: Bytes) {
        if !rest.is_empty() {
            *lock(&self.rest) = rest;
            self.show();
        }
    }

    pub(crate) fn has_rest(&self) -> bool {
        !lock(&self.rest).is_empty()
    }

    /// Sets whether a message is there that is longer than the program takes, which a call that
    /// receives says at once.
    pub(crate) fn set_refused(&self, refused: bool) {
        self.refused.store(refused, Ordering::Relaxed);
        self.show();
    }

    /// Sends bytes, or their first part; with `last` a message.
    pub(crate) fn poll_send(
        &self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        last: bool,
    ) -> Poll<io::Result<usize>> {
        let sent = self.handle.poll_send(cx, bytes, last);
        self.show();
        sent.map_err(io::Error::from)
    }

    /// Ends the direction towards the peer.
    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match how {
            Shutdown::Write => Ok(self.handle.shutdown()?),
            Shutdown::Read | Shutdown::Both => {
                let text = "only Shutdown::Write ends a direction: drop the socket to close it";
                Err(io::Error::new(ErrorKind::Unsupported, text))
            }
        }
    }

    /// Makes the descriptor, if there is none yet.
    pub(crate) fn descriptor(self: &Arc<Self>) -> io::Result<BorrowedFd<'_>> {
        if self.descriptor.get().is_none() {
            let core: Arc<dyn Watched> = Arc::<Self>::clone(self);
            let new = Descriptor::new(Arc::downgrade(&core))?;
            // Another thread may have been faster.
            let _ = self.descriptor.set(new);
            self.show();
        }
        let made = self.descriptor.get().map(|descriptor| descriptor.as_fd());
        made.ok_or_else(|| ErrorKind::Other.into())
    }

    /// Lets the descriptor show what the socket is ready for.
    fn show(&self) {
        if let Some(descriptor) = self.descriptor.get() {
            descriptor.update();
        }
    }
}

impl Watched for Connection {
    fn watch(&self, cx: &mut Context<'_>) -> Readiness {
        let mut ready = self.handle.watch(cx);
        ready.readable |= self.has_rest() || self.refused.load(Ordering::Relaxed);
        ready
    }
}
