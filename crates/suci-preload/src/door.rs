//! Listeners of the program, as other nodes see them.

use crate::address::canonical;
use crate::kernel::{self, Caller, ProgramSocket};
use crate::link::Link;
use crate::reactor::Reactor;
use crate::settings::Settings;
use crate::table::{Ends, Entry};
use crate::task::{self, Serial, Task};
use crate::{direct, process, settings};
use rustix::fd::BorrowedFd;
use rustix::net::sockopt;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use suci_sockets::{Address, SuciListener, SuciStream};

/// Clients of one listener that wait at once until the program's backlog has room. Others wait in
/// the node's backlog, or are refused.
const MOST_CALLS: usize = 16;

/// A port of the node, whose connections go to the program's listener.
#[derive(Debug)]
pub(crate) struct Door {
    port: u16,
    settings: &'static Settings,
    reactor: Arc<Reactor>,
    /// Nothing once it is closed.
    listener: Serial<Option<SuciListener>>,
    /// Changes with the reactor's listeners locked.
    program: Mutex<Listening>,
    /// Changes with the reactor's listeners locked. The program may open the port again before the
    /// door is gone; then it stays.
    is_closed: AtomicBool,
    calls: AtomicUsize,
    most_calls: usize,
}

/// A listener of the program.
#[derive(Clone, Copy, Debug)]
struct Listening {
    socket: ProgramSocket,
    /// Where it is reached.
    address: SocketAddr,
    /// The address of this host from which it is called.
    source: IpAddr,
    /// How often the program had opened the port.
    generation: u64,
}

/// The program's listener to which a client was sent.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    door: Arc<Door>,
    generation: u64,
}

impl Target {
    /// Closes the door, since the program has closed the listener, unless it has another one there
    /// by now.
    pub(crate) fn refused(&self) {
        let door = &self.door;
        let doors = door.reactor.doors();
        if door.program().generation == self.generation {
            door.is_closed.store(true, Ordering::Release);
        }
        drop(doors);
        task::run(Arc::<Door>::clone(door));
    }
}

/// A client that waits until the program's backlog has room, until this is dropped.
#[derive(Debug)]
pub(crate) struct Call(Target);

impl Call {
    fn new(door: &Arc<Door>, generation: u64) -> Self {
        door.calls.fetch_add(1, Ordering::AcqRel);
        Self(Target {
            door: Arc::clone(door),
            generation,
        })
    }

    /// Returns the listener that is called.
    pub(crate) fn target(&self) -> Target {
        self.0.clone()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let door = &self.0.door;
        if door.calls.fetch_sub(1, Ordering::AcqRel) == door.most_calls {
            task::run(Arc::<Door>::clone(door));
        }
    }
}

/// The program listens at a socket: so does the node at its port, if other nodes reach the socket.
pub(crate) fn listen(fd: c_int, backlog: c_int) {
    let Some(Some((socket, bound))) = kernel::with(fd, listening_at) else {
        return;
    };
    let Some(settings) = settings::get().filter(|it| it.is_reached_at(bound.ip())) else {
        return;
    };
    let Some(reactor) = process::reactor(settings) else {
        return;
    };
    if let Err(error) = Door::open(socket, bound, backlog, settings, &reactor) {
        let port = bound.port();
        crate::tell(format!(
            "port {port} of node {}: {error}. Clients reach it by TCP only",
            settings.own
        ));
    }
}

/// Returns the descriptors of the listening sockets that other nodes can reach, one for each, and
/// their backlogs.
pub(crate) fn listeners() -> Vec<(c_int, c_int)> {
    let Some(settings) = settings::get() else {
        return Vec::new();
    };
    let mut found = BTreeMap::new();
    for fd in kernel::descriptors() {
        let listener = kernel::with(fd, |fd| {
            let (socket, bound) = listening_at(fd)?;
            let backlog = kernel::backlog(fd)?;
            let is_reached = settings.is_reached_at(bound.ip());
            is_reached.then_some((socket.cookie, (socket.fd, backlog)))
        });
        found.extend(listener.flatten());
    }
    found.into_values().collect()
}

/// Returns the name and the address of a socket of TCP.
fn listening_at(fd: BorrowedFd<'_>) -> Option<(ProgramSocket, SocketAddr)> {
    let socket = kernel::is_tcp(fd).then(|| ProgramSocket::new(fd).ok())??;
    Some((socket, kernel::local(fd).ok()?))
}

/// Returns where a socket that listens at `bound` is reached from this host.
fn reached_at(socket: ProgramSocket, bound: SocketAddr) -> SocketAddr {
    let is_v6_only = || kernel::with(socket.fd, |fd| sockopt::ipv6_v6only(fd)) == Some(Ok(true));
    let ip = match bound {
        _ if !bound.ip().is_unspecified() => bound.ip(),
        SocketAddr::V6(_) if is_v6_only() => Ipv6Addr::LOCALHOST.into(),
        _ => Ipv4Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, bound.port())
}

impl Listening {
    fn new(socket: ProgramSocket, bound: SocketAddr, settings: &Settings) -> io::Result<Self> {
        let address = reached_at(socket, bound);
        Ok(Self {
            socket,
            address,
            source: settings.source_for(address)?,
            generation: 0,
        })
    }
}

impl Door {
    /// Opens the port, or leads an open one to another listener.
    fn open(
        socket: ProgramSocket,
        bound: SocketAddr,
        backlog: c_int,
        settings: &'static Settings,
        reactor: &Arc<Reactor>,
    ) -> io::Result<()> {
        let port = bound.port();
        let mut doors = reactor.doors();
        if doors.get(&port).is_some_and(|door| door.has_other(socket)) {
            return Ok(());
        }
        let program = Listening::new(socket, bound, settings)?;
        let door = match doors.get(&port) {
            Some(door) => {
                door.lead_to(program);
                Arc::clone(door)
            }
            None => {
                let backlog = usize::try_from(backlog).unwrap_or(usize::MAX);
                let backlog = backlog.clamp(1, 1 << 16);
                // It wakes nobody who would wait for the lock.
                let listener = SuciListener::with_backlog(&reactor.node, port, backlog)?;
                let door = Arc::new(Self {
                    port,
                    settings,
                    reactor: Arc::clone(reactor),
                    listener: Serial::new(Some(listener)),
                    program: Mutex::new(program),
                    is_closed: AtomicBool::new(false),
                    calls: AtomicUsize::new(0),
                    most_calls: backlog.min(MOST_CALLS),
                });
                doors.insert(port, Arc::clone(&door));
                door
            }
        };
        drop(doors);
        task::run(door);
        Ok(())
    }

    fn program(&self) -> Listening {
        *self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if an earlier socket that shares the port serves all clients.
    fn has_other(&self, socket: ProgramSocket) -> bool {
        let own = self.program().socket;
        let is_closed = self.is_closed.load(Ordering::Acquire);
        own != socket && !is_closed && own.descriptor().is_some()
    }

    /// The program listens again.
    fn lead_to(&self, program: Listening) {
        let generation = self.program().generation + 1;
        let next = Listening {
            generation,
            ..program
        };
        *self.program.lock().unwrap_or_else(PoisonError::into_inner) = next;
        self.is_closed.store(false, Ordering::Release);
    }

    /// Closes it.
    pub(crate) fn close(self: Arc<Self>) {
        self.is_closed.store(true, Ordering::Release);
        task::run(self);
    }

    /// Lets clients in, as long as there are some, and the program's backlog has room. Closes the
    /// port once the door is closed.
    fn serve(self: &Arc<Self>, listener: &mut Option<SuciListener>) {
        while let Some(open) = listener {
            if !self.is_closed.load(Ordering::Acquire) {
                match self.accept(open) {
                    Poll::Pending => return,
                    Poll::Ready(Ok(())) => {}
                    // The node is closed.
                    Poll::Ready(Err(_)) => self.is_closed.store(true, Ordering::Release),
                }
                continue;
            }
            // Locked, so that a listener that the program opens finds either this door or the port
            // free.
            let mut doors = self.reactor.doors();
            if self.is_closed.load(Ordering::Acquire) {
                *listener = None;
                doors.remove(&self.port);
            }
        }
    }

    /// Lets the next client in.
    fn accept(self: &Arc<Self>, listener: &SuciListener) -> Poll<io::Result<()>> {
        if self.calls.load(Ordering::Acquire) >= self.most_calls {
            return Poll::Pending;
        }
        let waker = Waker::from(Arc::clone(self));
        let accepted = listener.poll_accept(&mut Context::from_waker(&waker));
        accepted.map_ok(|(stream, client)| {
            let program = self.program();
            let call = Call::new(self, program.generation);
            let target = call.target();
            match self.admit(stream, client, &program, call) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => target.refused(),
                // No descriptor is left, say. The client sees the end.
                Ok(()) | Err(_) => {}
            }
        })
    }

    /// Lets a client in.
    fn admit(
        &self,
        stream: SuciStream,
        client: Address,
        program: &Listening,
        call: Call,
    ) -> io::Result<()> {
        let address_of = |of: Address| {
            let like = canonical(program.address).ip();
            self.settings.address_of(of.node, of.port, like)
        };
        let ends = Ends {
            local: address_of(stream.local_addr()),
            peer: address_of(client),
        };
        // The program may accept as soon as the call begins.
        let (caller, entry) = Entry::of(ends, || {
            let caller = Caller::new(program.source, program.address)?;
            let at = caller.address;
            Ok((caller, at))
        })?;
        let link = direct::expect(entry.own_end(), || {
            let kernel = caller.call(program.address)?;
            Link::admitted(&self.reactor, call, stream, kernel, entry)
        })?;
        task::run(link);
        Ok(())
    }
}

impl Task for Door {
    fn step(self: Arc<Self>) {
        self.listener.run(|listener| self.serve(listener));
    }
}

impl Wake for Door {
    fn wake(self: Arc<Self>) {
        task::run(self);
    }
}
