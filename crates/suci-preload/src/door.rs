//! Listeners of the program, as other nodes see them.

use crate::address::canonical;
use crate::kernel::{self, Caller};
use crate::link::Link;
use crate::reactor::Reactor;
use crate::settings::Settings;
use crate::table::{Ends, Entry};
use crate::task::{self, Serial, Task};
use crate::{process, settings};
use rustix::net::sockopt;
use std::ffi::c_int;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use suci_sockets::{Address, SuciListener, SuciStream};

/// A port of the node, whose connections go to the program's listener.
#[derive(Debug)]
pub(crate) struct Door {
    port: u16,
    /// Where the program listens.
    target: SocketAddr,
    settings: &'static Settings,
    reactor: Arc<Reactor>,
    /// Nothing once it is closed.
    listener: Serial<Option<SuciListener>>,
    is_closed: AtomicBool,
}

/// The program listens at a socket: so does the node at its port, if other nodes reach the socket.
pub(crate) fn listen(fd: c_int, backlog: c_int) {
    let Some(Some(bound)) = kernel::with(fd, listening_at) else {
        return;
    };
    let Some(settings) = settings::get().filter(|it| it.is_reached_at(bound.ip())) else {
        return;
    };
    let Some(reactor) = process::reactor(settings) else {
        return;
    };
    // Several sockets may share a port, and `listen` may be called again.
    if reactor.has_door(bound.port()) {
        return;
    }
    if let Err(error) = Door::open(fd, backlog, bound, settings, &reactor) {
        let port = bound.port();
        crate::tell(format!(
            "port {port} of node {}: {error}. Clients reach it by TCP only",
            settings.own
        ));
    }
}

/// Returns the address of a socket of TCP.
fn listening_at(fd: rustix::fd::BorrowedFd<'_>) -> Option<SocketAddr> {
    kernel::is_tcp(fd).then(|| kernel::local(fd).ok()).flatten()
}

/// Returns where a socket that listens at `bound` is reached from this host.
fn target(fd: c_int, bound: SocketAddr) -> SocketAddr {
    let is_v6_only = || kernel::with(fd, |fd| sockopt::ipv6_v6only(fd)) == Some(Ok(true));
    let ip = match bound {
        _ if !bound.ip().is_unspecified() => bound.ip(),
        SocketAddr::V6(_) if is_v6_only() => Ipv6Addr::LOCALHOST.into(),
        _ => Ipv4Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, bound.port())
}

impl Door {
    fn open(
        fd: c_int,
        backlog: c_int,
        bound: SocketAddr,
        settings: &'static Settings,
        reactor: &Arc<Reactor>,
    ) -> io::Result<()> {
        let port = bound.port();
        let backlog = usize::try_from(backlog).unwrap_or(usize::MAX);
        let listener = SuciListener::with_backlog(&reactor.node, port, backlog.clamp(1, 1 << 16))?;
        let door = Arc::new(Self {
            port,
            target: target(fd, bound),
            settings,
            reactor: Arc::clone(reactor),
            listener: Serial::new(Some(listener)),
            is_closed: AtomicBool::new(false),
        });
        reactor.keep_door(port, Arc::clone(&door));
        task::run(door);
        Ok(())
    }

    /// Closes it.
    pub(crate) fn close(self: Arc<Self>) {
        self.is_closed.store(true, Ordering::Release);
        task::run(self);
    }

    fn accept(self: &Arc<Self>, listener: &mut Option<SuciListener>) {
        let waker = Waker::from(Arc::clone(self));
        let mut cx = Context::from_waker(&waker);
        while let Some(open) = listener
            && !self.is_closed.load(Ordering::Acquire)
        {
            match open.poll_accept(&mut cx) {
                Poll::Pending => return,
                Poll::Ready(Ok((stream, client))) => match self.admit(stream, client) {
                    // The program closed its listener. Clients are refused from now on.
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => break,
                    // No descriptor is left, say. The client sees the end.
                    Ok(()) | Err(_) => {}
                },
                Poll::Ready(Err(_)) => break,
            }
        }
        *listener = None;
        self.reactor.forget_door(self.port);
    }

    /// Lets a client in.
    fn admit(self: &Arc<Self>, stream: SuciStream, client: Address) -> io::Result<()> {
        let caller = Caller::new(self.target)?;
        let address_of = |of: Address| {
            let like = canonical(self.target).ip();
            self.settings.address_of(of.node, of.port, like)
        };
        let ends = Ends {
            local: address_of(stream.local_addr()),
            peer: address_of(client),
        };
        // The program may accept as soon as the call begins.
        let entry = Entry::new(caller.address, ends);
        let kernel = caller.call(self.target)?;
        Link::copy(&self.reactor, Arc::clone(self), stream, kernel, entry)
    }
}

impl Task for Door {
    fn step(self: Arc<Self>) {
        self.listener.run(|listener| self.accept(listener));
    }
}

impl Wake for Door {
    fn wake(self: Arc<Self>) {
        task::run(self);
    }
}
