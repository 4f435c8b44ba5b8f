//! A descriptor that is readable and writable when a socket is.
//!
//! It is one end of an `AF_UNIX` pair. A byte from the other end makes it readable. Bytes of its
//! own that the other end has not read fill its send buffer, so that it is not writable. This
//! process holds both ends and takes the bytes back itself; so the program must only wait for the
//! descriptor, not read or write it.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Wake, Waker};
use suci::sockets::Readiness;

/// The size of the send buffer that is asked for: the smallest.
const SEND_BUFFER: usize = 1;

/// A socket whose readiness can be watched.
pub(crate) trait Watched: Send + Sync {
    /// Returns the readiness. The task is woken when it changes.
    fn watch(&self, cx: &mut Context<'_>) -> Readiness;
}

/// The descriptor of a socket.
pub(crate) struct Descriptor {
    program: UnixStream,
    own: UnixStream,
    /// The readiness that the descriptor shows.
    shown: Mutex<Readiness>,
    socket: Weak<dyn Watched>,
}

impl std::fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Descriptor").field(&self.program).finish()
    }
}

impl Descriptor {
    pub(crate) fn new(socket: Weak<dyn Watched>) -> io::Result<Arc<Self>> {
        let (program, own) = UnixStream::pair()?;
        program.set_nonblocking(true)?;
        own.set_nonblocking(true)?;
        rustix::net::sockopt::set_socket_send_buffer_size(&program, SEND_BUFFER)?;
        let descriptor = Arc::new(Self {
            program,
            own,
            // A new pair is writable.
            shown: Mutex::new(Readiness {
                readable: false,
                writable: true,
            }),
            socket,
        });
        descriptor.update();
        Ok(descriptor)
    }

    /// Shows the socket's readiness. Whoever comes last asks the socket last, so that the latest
    /// change is shown.
    pub(crate) fn update(self: &Arc<Self>) {
        let Some(socket) = self.socket.upgrade() else {
            return;
        };
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let waker = Waker::from(Arc::clone(self));
        let ready = socket.watch(&mut Context::from_waker(&waker));
        if ready.readable != shown.readable {
            match ready.readable {
                true => write(&self.own, &[0]),
                false => drain(&self.program),
            }
        }
        if ready.writable != shown.writable {
            match ready.writable {
                true => drain(&self.own),
                false => write(&self.program, &[0; 256]),
            }
        }
        *shown = ready;
        drop(shown);
        // If this is the last reference, the socket closes and wakes this descriptor.
        drop(socket);
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

impl Wake for Descriptor {
    fn wake(self: Arc<Self>) {
        self.update();
    }
}

/// Writes `bytes`; those of more than one until no more fit.
fn write(mut end: &UnixStream, bytes: &[u8]) {
    loop {
        match end.write(bytes) {
            Ok(_) if bytes.len() > 1 => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Written, or full. There is no other end that could be closed.
            _ => return,
        }
    }
}

/// Takes all bytes back.
fn drain(mut end: &UnixStream) {
    let mut bytes = [0; 4096];
    loop {
        match end.read(&mut bytes) {
            Ok(1..) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}
