//! Reports of datagrams that were not delivered.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

/// Bytes of a datagram that a report quotes at most.
pub(crate) const QUOTED: usize = 32;

/// The most reports that wait to be taken. Later ones are dropped: a report is a hint, and repeats
/// itself.
const MOST: usize = 64;

/// A datagram was not delivered, as an ICMP message says. Any host can forge those, except the
/// `local` ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// Address that the datagram was sent to.
    pub to: SocketAddr,
    /// Reason why it did not arrive: `ConnectionRefused` (the port is closed), `HostUnreachable`,
    /// `NetworkUnreachable`, `PermissionDenied` or another.
    pub kind: io::ErrorKind,
    /// Whether this host's own kernel says that the port is closed on this host.
    pub local: bool,
    quoted: [u8; QUOTED],
    len: usize,
}

impl Report {
    /// A report that quotes the first bytes of `datagram`.
    #[must_use]
    pub fn new(to: SocketAddr, kind: io::ErrorKind, local: bool, datagram: &[u8]) -> Self {
        let mut quoted = [0; QUOTED];
        let len = datagram.len().min(QUOTED);
        quoted
            .iter_mut()
            .zip(datagram)
            .for_each(|(to, from)| *to = *from);
        Self {
            to,
            kind,
            local,
            quoted,
            len,
        }
    }

    /// The beginning of the datagram, as far as the report tells: 32 bytes at most.
    #[must_use]
    pub fn quoted(&self) -> &[u8] {
        self.quoted.get(..self.len).unwrap_or_default()
    }
}

/// Reports that wait to be taken.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    queue: VecDeque<Report>,
}

impl Reports {
    pub(crate) fn push(&mut self, report: Report) {
        if self.queue.len() < MOST {
            self.queue.push_back(report);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Report> {
        self.queue.pop_front()
    }
}
