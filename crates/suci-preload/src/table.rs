//! Which addresses programs are told.

use crate::address::{canonical, in_family_of};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Failures that are kept until the program asks for them. It may never do.
const MOST_FAILURES: usize = 256;

/// The addresses of a connection between nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
}

impl Ends {
    /// Returns these as a socket has them whose peer is at `kernel_peer`.
    pub(crate) fn in_family_of(self, kernel_peer: SocketAddr) -> Self {
        Self {
            local: in_family_of(kernel_peer, self.local),
            peer: in_family_of(kernel_peer, self.peer),
        }
    }
}

/// The addresses and errors that the program is told instead of the kernel's.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// By the address of this library's end: the peer's address to the program's end.
    ends: BTreeMap<SocketAddr, Ends>,
    /// Clients that the program has not accepted yet. They may have gone.
    calls: BTreeMap<SocketAddr, Ends>,
    /// The addresses of connections that this process has, and whose own ends it has not: those of
    /// its parent, in a child of a fork; those of which another process answered; those of clients
    /// that have gone. Each holds until another connection from its address is accepted.
    others: BTreeMap<SocketAddr, Ends>,
    /// Errors of connections that failed, by the cookie of the program's socket.
    failures: VecDeque<(u64, i32)>,
}

static TABLE: Mutex<Table> = Mutex::new(Table {
    ends: BTreeMap::new(),
    calls: BTreeMap::new(),
    others: BTreeMap::new(),
    failures: VecDeque::new(),
});

/// Locks the table. Nobody keeps it locked for long, except for a fork.
pub(crate) fn lock() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection in the table, until this is dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    own_end: SocketAddr,
    /// The program's end exists, perhaps in a backlog.
    is_connected: bool,
}

impl Entry {
    /// Enters a connection by the address of this library's end.
    pub(crate) fn new(own_end: SocketAddr, ends: Ends) -> Self {
        lock().ends.insert(own_end, ends);
        Self {
            own_end,
            is_connected: true,
        }
    }

    /// Enters a client whose own end `make` makes, and tells where. No fork comes between: a child
    /// closes the ends that it finds in the table.
    pub(crate) fn of<T>(
        ends: Ends,
        make: impl FnOnce() -> io::Result<(T, SocketAddr)>,
    ) -> io::Result<(T, Self)> {
        let mut table = lock();
        let (made, own_end) = make()?;
        table.ends.insert(own_end, ends);
        table.calls.insert(own_end, ends);
        let is_connected = false;
        Ok((
            made,
            Self {
                own_end,
                is_connected,
            },
        ))
    }

    /// Returns the address of this library's end.
    pub(crate) const fn own_end(&self) -> SocketAddr {
        self.own_end
    }

    /// The program's listener has let the client in. The program may accept it even after it has
    /// gone.
    pub(crate) const fn connected(&mut self) {
        self.is_connected = true;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut table = lock();
        table.ends.remove(&self.own_end);
        if !self.is_connected {
            table.calls.remove(&self.own_end);
        }
    }
}

impl Table {
    /// Returns true if a socket of this library is at this address.
    pub(crate) fn has(&self, own_end: SocketAddr) -> bool {
        self.ends.contains_key(&own_end)
    }

    /// Returns the addresses for a socket whose peer, to the kernel, is at `kernel_peer`.
    pub(crate) fn ends(&self, kernel_peer: SocketAddr) -> Option<Ends> {
        let own_end = canonical(kernel_peer);
        let ends = (self.ends.get(&own_end)).or_else(|| self.others.get(&own_end))?;
        Some(ends.in_family_of(kernel_peer))
    }

    /// As [`ends`](Self::ends), for a socket that a program has just accepted, also if the client
    /// has gone. An earlier connection from this address is gone.
    pub(crate) fn accepted(&mut self, kernel_peer: SocketAddr) -> Option<Ends> {
        let own_end = canonical(kernel_peer);
        self.others.remove(&own_end);
        let client = self.calls.remove(&own_end);
        if let Some(ends) = client.filter(|_| !self.has(own_end)) {
            self.others.insert(own_end, ends);
        }
        self.ends(kernel_peer)
    }

    /// Remembers the answer of another process. Returns it for a socket whose peer, to the kernel,
    /// is at `kernel_peer`.
    pub(crate) fn learn(&mut self, kernel_peer: SocketAddr, ends: Ends) -> Ends {
        self.others.insert(canonical(kernel_peer), ends);
        ends.in_family_of(kernel_peer)
    }

    /// Makes the table of a parent that of its child, whose sockets are connected to `peers`.
    pub(crate) fn inherit(&mut self, peers: &BTreeSet<SocketAddr>) {
        self.calls.clear();
        self.others.append(&mut self.ends);
        self.others.retain(|own_end, _| peers.contains(own_end));
    }

    /// Keeps the error of a connection that failed.
    pub(crate) fn fail(&mut self, cookie: u64, errno: i32) {
        if self.failures.len() >= MOST_FAILURES {
            self.failures.pop_front();
        }
        self.failures.push_back((cookie, errno));
    }

    /// Takes the error of a connection that failed.
    pub(crate) fn take_failure(&mut self, cookie: u64) -> Option<i32> {
        let at = self.failures.iter().position(|(of, _)| *of == cookie)?;
        self.failures.remove(at).map(|(_, errno)| errno)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_follow_the_family_of_the_socket() {
        // No kernel gives this port to a socket.
        let own_end: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let ends = Ends {
            local: "192.0.2.1:80".parse().unwrap(),
            peer: "192.0.2.2:32768".parse().unwrap(),
        };
        let entry = Entry::new(own_end, ends);
        assert_eq!(lock().ends(own_end).unwrap().peer, ends.peer);
        let mapped = in_family_of("[::]:0".parse().unwrap(), own_end);
        let found = lock().ends(mapped).unwrap();
        assert_eq!(found.local.to_string(), "[::ffff:192.0.2.1]:80");
        drop(entry);
        assert!(lock().ends(own_end).is_none());
    }

    /// The parent's connections end without a word to the child, and their ports are used again.
    #[test]
    fn a_child_keeps_what_its_sockets_are_connected_to_until_it_accepts_another() {
        let at = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let (local, peer) = (at(80), at(9));
        let mut table = Table::default();
        for port in [1, 2] {
            table.ends.insert(at(port), Ends { local, peer });
        }
        table.inherit(&BTreeSet::from([at(1), at(3)]));
        assert!(table.ends(at(1)).is_some() && table.ends(at(2)).is_none());
        assert!(!table.has(at(1)));
        assert!(table.accepted(at(1)).is_none() && table.ends(at(1)).is_none());
    }

    #[test]
    fn a_client_that_has_gone_is_known_when_it_is_accepted() {
        // No other test uses these.
        let at = |port: u16| SocketAddr::from(([127, 9, 9, 9], port));
        let (local, peer) = (at(80), at(9));
        let enter = |port| {
            Entry::of(Ends { local, peer }, || Ok(((), at(port))))
                .unwrap()
                .1
        };
        let mut gone = enter(1);
        gone.connected();
        drop((gone, enter(2)));
        assert_eq!(lock().accepted(at(1)).unwrap().peer, peer);
        assert_eq!(lock().ends(at(1)).unwrap().peer, peer);
        assert!(!lock().has(at(1)));
        // The second one never reached the listener. A client of TCP may have its address, and then
        // also the first one's.
        assert!(lock().accepted(at(2)).is_none());
        assert!(lock().accepted(at(1)).is_none() && lock().ends(at(1)).is_none());
    }

    #[test]
    fn a_failure_is_told_once_and_old_ones_are_forgotten() {
        let mut table = Table::default();
        for cookie in 0..=MOST_FAILURES as u64 {
            table.fail(cookie, libc::ECONNREFUSED);
        }
        assert_eq!(table.take_failure(0), None);
        assert_eq!(table.take_failure(9), Some(libc::ECONNREFUSED));
        assert_eq!(table.take_failure(9), None);
    }
}
