//! One socket, from its making to its end.

use crate::error::{ERRNO_BIT, Failure, TIMED_OUT};
use std::ffi::c_int;
use std::io::{self, ErrorKind, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use suci::sockets::ConnectionFailure;
use suci::{Bytes, NodeId, SharedNode};
use suci_sockets::{
    Address, BoundPort, MessageListener, MessageSocket, SocketError, SuciListener, SuciStream,
};

/// Options of `cdp_setopt`, in the order of the header.
const STREAM: c_int = 1;
const NONBLOCKING: c_int = 2;
const RECV_TIMEOUT: c_int = 3;
const SEND_TIMEOUT: c_int = 4;
const MAX_MESSAGE: c_int = 5;

/// Whether a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    Allowed,
    Refused,
}

impl Waiting {
    pub(super) const fn of(nonblocking: c_int) -> Self {
        match nonblocking {
            0 => Self::Allowed,
            _ => Self::Refused,
        }
    }
}

/// The state of a socket.
enum State {
    /// Made; perhaps bound.
    New(Option<BoundPort>),
    /// Listening for streams.
    Streams(Arc<SuciListener>),
    /// Listening for connections with messages.
    MessageSockets(Arc<MessageListener>),
    Stream(SuciStream),
    Messages(MessageSocket),
    Closed,
}

/// The options of a socket. Those of a listener are not inherited.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    stream: bool,
    nonblocking: bool,
    recv_timeout: Option<Duration>,
    send_timeout: Option<Duration>,
    max_message: Option<usize>,
}

/// A socket of the process.
pub(super) struct CdpSocket {
    state: Mutex<State>,
    options: Mutex<Options>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wrong(errno: c_int, text: &'static str) -> Failure {
    Failure::new(ERRNO_BIT | errno, text)
}

fn not_connected() -> Failure {
    wrong(
        libc::ENOTCONN,
        "the socket is not connected: call cdp_connect() first",
    )
}

/// Returns true if another thread closed the node during the call.
fn is_of_closed_node(error: &io::Error) -> bool {
    let source = error.get_ref().and_then(|it| it.downcast_ref());
    let Some(SocketError::Connection { failure, .. }) = source else {
        return matches!(source, Some(SocketError::NotListening));
    };
    *failure == ConnectionFailure::Closed
}

/// Turns an error of a socket into the failure with its errno.
fn failure(error: io::Error) -> Failure {
    let errno = match error.kind() {
        _ if is_of_closed_node(&error) => libc::EBADF,
        ErrorKind::WouldBlock => return Failure::new(TIMED_OUT, "the call would have to wait"),
        ErrorKind::AddrInUse => libc::EADDRINUSE,
        ErrorKind::AddrNotAvailable => libc::EADDRNOTAVAIL,
        ErrorKind::OutOfMemory => libc::ENOBUFS,
        ErrorKind::ConnectionRefused => libc::ECONNREFUSED,
        ErrorKind::PermissionDenied => libc::EACCES,
        ErrorKind::HostUnreachable => libc::EHOSTUNREACH,
        ErrorKind::TimedOut => libc::ETIMEDOUT,
        ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => libc::ECONNRESET,
        ErrorKind::BrokenPipe => libc::EPIPE,
        ErrorKind::InvalidData => libc::EMSGSIZE,
        ErrorKind::NotConnected => libc::ENOTCONN,
        ErrorKind::Unsupported => libc::EOPNOTSUPP,
        ErrorKind::Other => libc::EBADF,
        _ => libc::EINVAL,
    };
    Failure::new(ERRNO_BIT | errno, error.to_string())
}

fn of_socket(error: SocketError) -> Failure {
    failure(error.into())
}

/// Returns the result of a poll in a call that must not wait.
fn at_once<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(ErrorKind::WouldBlock.into()),
    }
}

impl CdpSocket {
    fn over(state: State) -> Self {
        Self {
            state: Mutex::new(state),
            options: Mutex::default(),
        }
    }

    pub(super) fn new() -> Self {
        Self::over(State::New(None))
    }

    pub(super) fn bind(&self, node: &SharedNode, port: u16) -> Result<(), Failure> {
        match &mut *lock(&self.state) {
            State::New(bound @ None) => {
                *bound = Some(node.sockets().bind(port).map_err(of_socket)?);
                Ok(())
            }
            _ => Err(Failure::argument(
                "the socket is bound or in use: bind a new one",
            )),
        }
    }

    pub(super) fn listen(&self, node: &SharedNode, backlog: usize) -> Result<(), Failure> {
        let mut state = lock(&self.state);
        let State::New(bound) = &mut *state else {
            return Err(Failure::argument(
                "the socket is in use: listen with a new one",
            ));
        };
        let port = match bound.take() {
            Some(port) => port,
            None => node.sockets().bind(0).map_err(of_socket)?,
        };
        *state = match lock(&self.options).stream {
            true => {
                let listener = SuciListener::at(port, backlog).map_err(failure)?;
                State::Streams(Arc::new(listener))
            }
            false => {
                let listener = MessageListener::at(port, backlog).map_err(failure)?;
                State::MessageSockets(Arc::new(listener))
            }
        };
        drop(state);
        let options = *lock(&self.options);
        self.apply(options)
    }

    pub(super) fn accept(&self, waiting: Waiting) -> Result<(Self, Address), Failure> {
        let options = *lock(&self.options);
        let waits = waiting == Waiting::Allowed && !options.nonblocking;
        let mut cx = Context::from_waker(Waker::noop());
        let state = lock(&self.state);
        let accepted = match &*state {
            State::Streams(listener) => {
                let listener = Arc::clone(listener);
                drop(state);
                let accepted = match waits {
                    true => listener.accept(),
                    false => at_once(listener.poll_accept(&mut cx)),
                };
                accepted.map(|(stream, peer)| (State::Stream(stream), peer))
            }
            State::MessageSockets(listener) => {
                let listener = Arc::clone(listener);
                drop(state);
                let accepted = match waits {
                    true => listener.accept(),
                    false => at_once(listener.poll_accept(&mut cx)),
                };
                accepted.map(|(socket, peer)| (State::Messages(socket), peer))
            }
            _ => {
                return Err(Failure::argument(
                    "the socket does not listen: call cdp_listen()",
                ));
            }
        };
        let (state, peer) = accepted.map_err(failure)?;
        let socket = Self::over(state);
        lock(&socket.options).stream = options.stream;
        Ok((socket, peer))
    }

    pub(super) fn connect(&self, node: &SharedNode, peer: Address) -> Result<(), Failure> {
        let options = *lock(&self.options);
        let waits = !options.nonblocking;
        let port = self.bound_port();
        let began = self.begin_to_connect(node, peer, options.stream);
        let began = began.inspect_err(|_| self.bind_again(node, port))?;
        self.apply(options)?;
        let mut cx = Context::from_waker(Waker::noop());
        if !waits {
            return match began.poll(&mut cx) {
                Poll::Ready(connected) => connected.map_err(failure),
                Poll::Pending => {
                    let text = "the connection is being opened: wait until it is writable";
                    Err(wrong(libc::EINPROGRESS, text))
                }
            };
        }
        let connected = began.wait();
        if connected.is_err() {
            // The program may try again with the same socket. The port is free once the
            // connection is gone.
            drop(began);
            *lock(&self.state) = State::New(None);
            self.bind_again(node, port);
        }
        connected.map_err(failure)
    }

    /// Returns the port to which the program bound the socket.
    fn bound_port(&self) -> Option<u16> {
        match &*lock(&self.state) {
            State::New(Some(bound)) => Some(bound.port()),
            _ => None,
        }
    }

    /// Binds a new socket to the port that it had before an attempt to connect, which failed.
    fn bind_again(&self, node: &SharedNode, port: Option<u16>) {
        if let Some(port) = port
            && let State::New(bound @ None) = &mut *lock(&self.state)
        {
            // Another socket may have taken the port meanwhile.
            *bound = node.sockets().bind(port).ok();
        }
    }

    /// Makes a new socket one that connects.
    fn begin_to_connect(
        &self,
        node: &SharedNode,
        peer: Address,
        stream: bool,
    ) -> Result<Connecting, Failure> {
        let mut state = lock(&self.state);
        let State::New(bound) = &mut *state else {
            return Err(wrong(
                libc::EISCONN,
                "the socket is in use: connect a new one",
            ));
        };
        let bound = bound.take();
        let (next, connecting) = match stream {
            true => {
                let stream = match bound {
                    Some(port) => SuciStream::connect_at(port, peer),
                    None => SuciStream::connect_from(node, 0, peer),
                };
                let stream = stream.map_err(failure)?;
                (State::Stream(stream.clone()), Connecting::Stream(stream))
            }
            false => {
                let socket = match bound {
                    Some(port) => MessageSocket::connect_at(port, peer),
                    None => MessageSocket::connect_from(node, 0, peer),
                };
                let socket = socket.map_err(failure)?;
                (
                    State::Messages(socket.clone()),
                    Connecting::Messages(socket),
                )
            }
        };
        *state = next;
        Ok(connecting)
    }

    pub(super) fn send(&self, bytes: &[u8]) -> Result<usize, Failure> {
        match self.connected()? {
            Connecting::Stream(stream) => (&stream).write(bytes).map_err(failure),
            Connecting::Messages(socket) => {
                socket.send(bytes).map_err(failure)?;
                Ok(bytes.len())
            }
        }
    }

    /// Receives at most `most` bytes; none at the end.
    pub(super) fn recv(&self, most: usize, waiting: Waiting) -> Result<Bytes, Failure> {
        let mut cx = Context::from_waker(Waker::noop());
        match (self.connected()?, waiting) {
            (Connecting::Stream(stream), Waiting::Allowed) => {
                stream.read_bytes(most).map_err(failure)
            }
            (Connecting::Stream(stream), Waiting::Refused) => {
                at_once(stream.poll_read_bytes(&mut cx, most)).map_err(failure)
            }
            (Connecting::Messages(socket), waiting) => {
                let part = match waiting {
                    Waiting::Allowed => socket.recv_part(most),
                    Waiting::Refused => at_once(socket.poll_recv_part(&mut cx, most)),
                };
                Ok(part.map_err(failure)?.unwrap_or_default())
            }
        }
    }

    pub(super) fn has_rest(&self) -> bool {
        matches!(&*lock(&self.state), State::Messages(socket) if socket.has_rest())
    }

    pub(super) fn shutdown(&self) -> Result<(), Failure> {
        match self.connected()? {
            Connecting::Stream(stream) => stream.shutdown(Shutdown::Write).map_err(failure),
            Connecting::Messages(_) => {
                let text = "the socket carries messages: close it, or use a stream (CDP_STREAM)";
                Err(wrong(libc::EOPNOTSUPP, text))
            }
        }
    }

    /// Closes it. Calls of other threads that use it go on until they return.
    pub(super) fn close(&self) {
        drop(core::mem::replace(&mut *lock(&self.state), State::Closed));
    }

    pub(super) fn descriptor(&self) -> Result<c_int, Failure> {
        let descriptor = match &*lock(&self.state) {
            State::Streams(listener) => listener.descriptor().map(|fd| fd.as_raw_fd()),
            State::MessageSockets(listener) => listener.descriptor().map(|fd| fd.as_raw_fd()),
            State::Stream(stream) => stream.descriptor().map(|fd| fd.as_raw_fd()),
            State::Messages(socket) => socket.descriptor().map(|fd| fd.as_raw_fd()),
            State::New(_) | State::Closed => return Err(not_connected()),
        };
        descriptor.map_err(|error| match error.raw_os_error() {
            Some(errno) => Failure::new(ERRNO_BIT | errno, error.to_string()),
            None => failure(error),
        })
    }

    pub(super) fn set_option(&self, option: c_int, value: i64) -> Result<(), Failure> {
        let is_new = matches!(*lock(&self.state), State::New(_));
        let unsigned = || {
            u64::try_from(value)
                .map_err(|_| Failure::argument(format!("value is {value}: pass 0 or more")))
        };
        let time = |value: u64| (value > 0).then(|| Duration::from_millis(value));
        let mut options = *lock(&self.options);
        match option {
            STREAM if is_new => options.stream = value != 0,
            STREAM => {
                let text = "the socket is in use: set CDP_STREAM before it listens or connects";
                return Err(Failure::argument(text));
            }
            NONBLOCKING => options.nonblocking = value != 0,
            RECV_TIMEOUT => options.recv_timeout = time(unsigned()?),
            SEND_TIMEOUT => options.send_timeout = time(unsigned()?),
            MAX_MESSAGE => {
                options.max_message = Some(usize::try_from(unsigned()?).unwrap_or(usize::MAX));
            }
            _ => {
                let text = format!("option is {option}: pass one of enum cdp_option");
                return Err(wrong_option(text));
            }
        }
        *lock(&self.options) = options;
        self.apply(options)
    }

    /// Sets the options of what the socket is now.
    fn apply(&self, options: Options) -> Result<(), Failure> {
        let Options {
            nonblocking,
            recv_timeout,
            send_timeout,
            ..
        } = options;
        let set = match &*lock(&self.state) {
            State::Stream(stream) => {
                stream.set_nonblocking(nonblocking);
                let recv = stream.set_read_timeout(recv_timeout);
                recv.and_then(|()| stream.set_write_timeout(send_timeout))
            }
            State::Messages(socket) => {
                socket.set_nonblocking(nonblocking);
                if let Some(most) = options.max_message {
                    socket.set_max_message(most);
                }
                let recv = socket.set_read_timeout(recv_timeout);
                recv.and_then(|()| socket.set_write_timeout(send_timeout))
            }
            State::Streams(listener) => listener.set_timeout(recv_timeout),
            State::MessageSockets(listener) => listener.set_timeout(recv_timeout),
            State::New(_) | State::Closed => Ok(()),
        };
        set.map_err(failure)
    }

    pub(super) fn local(&self, node: NodeId) -> Result<Address, Failure> {
        let port = match &*lock(&self.state) {
            State::New(Some(bound)) => bound.port(),
            State::Streams(listener) => listener.local_addr().port,
            State::MessageSockets(listener) => listener.local_addr().port,
            State::Stream(stream) => stream.local_addr().port,
            State::Messages(socket) => socket.local_addr().port,
            State::New(None) | State::Closed => 0,
        };
        Ok(Address { node, port })
    }

    pub(super) fn peer(&self) -> Result<Address, Failure> {
        Ok(match self.connected()? {
            Connecting::Stream(stream) => stream.peer_addr(),
            Connecting::Messages(socket) => socket.peer_addr(),
        })
    }

    fn connected(&self) -> Result<Connecting, Failure> {
        match &*lock(&self.state) {
            State::Stream(stream) => Ok(Connecting::Stream(stream.clone())),
            State::Messages(socket) => Ok(Connecting::Messages(socket.clone())),
            _ => Err(not_connected()),
        }
    }
}

fn wrong_option(text: String) -> Failure {
    Failure::new(ERRNO_BIT | libc::ENOPROTOOPT, text)
}

/// A connection that a call uses without the lock of its socket.
enum Connecting {
    Stream(SuciStream),
    Messages(MessageSocket),
}

impl Connecting {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Stream(stream) => stream.poll_connected(cx),
            Self::Messages(socket) => socket.poll_connected(cx),
        }
    }

    fn wait(&self) -> io::Result<()> {
        match self {
            Self::Stream(stream) => stream.wait_connected(),
            Self::Messages(socket) => socket.wait_connected(),
        }
    }
}
