//! Connections of the program to other nodes.

use crate::address::{canonical, in_family_of};
use crate::kernel::{self, ProgramSocket, Silence};
use crate::link::{Link, Opening};
use crate::settings::Settings;
use crate::table::{self, Ends, Entry};
use crate::{process, settings};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType};
use std::ffi::c_int;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use suci::NodeId;
use suci_sockets::{Address, SuciStream};

/// The first of the ports that the system and the node choose themselves.
const FIRST_EPHEMERAL: u16 = 32_768;

/// A socket of the program that waits for its connection.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) socket: ProgramSocket,
    /// Where it is.
    address: SocketAddr,
}

impl Program {
    /// Connects to it from the listener where it waits. Fails if the program closed it: its address
    /// may be that of another socket now.
    pub(crate) fn answer(&self, silence: &Silence) -> io::Result<TcpStream> {
        if self.socket.descriptor().is_none() {
            return Err(ErrorKind::NotConnected.into());
        }
        silence.answer(self.address)
    }

    /// Lets its connection fail. If only the child of a fork has the socket, the kernel does so
    /// within a second, because the silent listener is gone.
    pub(crate) fn fail(&self, errno: i32) {
        let cookie = self.socket.cookie;
        kernel::with(self.socket.descriptor().unwrap_or(-1), |fd| {
            // A copy, so that the socket stays the same for both calls.
            let Ok(socket) = fcntl_dupfd_cloexec(fd, 0) else {
                return;
            };
            if sockopt::socket_cookie(&socket) == Ok(cookie) {
                table::lock().fail(cookie, errno);
                let _ = rustix::net::shutdown(&socket, Shutdown::Both);
            }
        });
    }
}

/// Returns the number of an error.
pub(crate) fn errno_of(error: &io::Error) -> i32 {
    if let Some(errno) = error.raw_os_error() {
        return errno;
    }
    match error.kind() {
        ErrorKind::ConnectionRefused => libc::ECONNREFUSED,
        ErrorKind::TimedOut => libc::ETIMEDOUT,
        ErrorKind::HostUnreachable => libc::EHOSTUNREACH,
        ErrorKind::PermissionDenied => libc::EACCES,
        ErrorKind::AddrInUse => libc::EADDRINUSE,
        ErrorKind::AddrNotAvailable => libc::EADDRNOTAVAIL,
        ErrorKind::OutOfMemory => libc::ENOBUFS,
        ErrorKind::ConnectionReset => libc::ECONNRESET,
        _ => libc::ENETDOWN,
    }
}

/// Connects a socket of the program to another node, as `connect` does, if the destination belongs
/// to one. Returns nothing if it does not.
pub(crate) fn connect(fd: c_int, destination: SocketAddr) -> Option<Result<(), Errno>> {
    let settings = settings::get()?;
    let node = settings.node_at(destination.ip())?;
    kernel::with(fd, |socket| {
        kernel::is_tcp(socket).then(|| match begin(socket, destination, node, settings) {
            Ok(Begun::Connected) => Ok(()),
            Ok(Begun::Blocking) => finish(socket),
            Ok(Begun::Waiting) => Err(Errno::INPROGRESS),
            Err(error) => Err(Errno::from_raw_os_error(errno_of(&error))),
        })
    })?
}

/// How a call goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    /// The socket waits, and does not block.
    Waiting,
    /// The socket waits, and blocks its program.
    Blocking,
    /// The socket is connected by an earlier call.
    Connected,
}

/// Begins to connect.
fn begin(
    socket: BorrowedFd<'_>,
    destination: SocketAddr,
    node: NodeId,
    settings: &'static Settings,
) -> io::Result<Begun> {
    let waiting = ProgramSocket::new(socket)?;
    // The program may ask by a second call how the first one ended. It is told once.
    let failure = table::lock().take_failure(waiting.cookie);
    if let Some(errno) = failure {
        let _ = sockopt::socket_error(socket);
        return Err(io::Error::from_raw_os_error(errno));
    }
    check_route(canonical(destination))?;
    let reactor = process::reactor(settings).ok_or(ErrorKind::NetworkDown)?;
    let bound = kernel::local(socket)?.port();
    let silence = Silence::new(destination)?;
    let begun = begin_silently(socket, in_family_of(destination, silence.address))?;
    if begun == Begun::Connected {
        return Ok(begun);
    }
    let peer = Address {
        node,
        port: destination.port(),
    };
    let from = if bound < FIRST_EPHEMERAL { bound } else { 0 };
    let stream = SuciStream::connect_from(&reactor.node, from, peer).inspect_err(|_| {
        // Back to where it was; the error that this leaves is not the program's.
        let _ = rustix::net::shutdown(socket, Shutdown::Both);
        let _ = sockopt::socket_error(socket);
    })?;
    // Written bytes stay on this host for a moment only: TCP need not collect them.
    sockopt::set_tcp_nodelay(socket, true)?;
    let local = stream.local_addr();
    let ends = Ends {
        local: settings.address_of(local.node, local.port, canonical(destination).ip()),
        peer: canonical(destination),
    };
    let opening = Opening {
        stream,
        program: Program {
            socket: waiting,
            address: kernel::local(socket)?,
        },
        entry: Some(Entry::new(silence.address, ends)),
        silence,
    };
    Link::open(&reactor, opening);
    Ok(begun)
}

/// Fails as TCP does, at once, if this host has no route to the node. Packets to it would count as
/// lost, and the call as unanswered.
fn check_route(to: SocketAddr) -> Result<(), Errno> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC;
    let Ok(socket) = rustix::net::socket_with(family, SocketType::DGRAM, flags, None) else {
        // Connecting tells what is wrong.
        return Ok(());
    };
    // Sends nothing.
    match rustix::net::connect(&socket, &to) {
        Err(error @ (Errno::NETUNREACH | Errno::HOSTUNREACH)) => Err(error),
        _ => Ok(()),
    }
}

/// Begins to connect to where nobody answers, without blocking. It fails as `connect` does for a
/// socket that is connected or waits already.
fn begin_silently(socket: BorrowedFd<'_>, to: SocketAddr) -> io::Result<Begun> {
    let flags = fcntl_getfl(socket)?;
    let blocks = !flags.contains(OFlags::NONBLOCK);
    if blocks {
        fcntl_setfl(socket, flags | OFlags::NONBLOCK)?;
    }
    let begun = rustix::net::connect(socket, &to);
    if blocks {
        fcntl_setfl(socket, flags)?;
    }
    match begun {
        Err(Errno::INPROGRESS) if blocks => Ok(Begun::Blocking),
        Err(Errno::INPROGRESS) => Ok(Begun::Waiting),
        Err(error) => Err(error.into()),
        // The first call after a socket stopped waiting succeeds.
        Ok(()) => Ok(Begun::Connected),
    }
}

/// Waits for a connection that was begun, at most for the socket's time limit for sending. Signals
/// do not end the wait; without an answer it ends after 15 s.
fn finish(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    let limit = sockopt::socket_timeout(socket, Timeout::Send)?;
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    loop {
        let mut polled = [PollFd::new(&socket, PollFlags::OUT)];
        match poll(&mut polled, limit.as_ref()) {
            Ok(0) => return Err(Errno::INPROGRESS),
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    match sockopt::socket_error(socket)? {
        Ok(()) => {
            // Tells the kernel that nobody waits any more. The address is not used.
            if let Some(peer) = rustix::net::getpeername(socket)? {
                rustix::net::connect(socket, &peer)?;
            }
            Ok(())
        }
        Err(error) => Err(failure_of(socket).unwrap_or(error)),
    }
}

/// Takes the reason for which the connection of a socket failed.
pub(crate) fn failure_of(socket: BorrowedFd<'_>) -> Option<Errno> {
    let cookie = sockopt::socket_cookie(socket).ok()?;
    let errno = table::lock().take_failure(cookie)?;
    Some(Errno::from_raw_os_error(errno))
}
