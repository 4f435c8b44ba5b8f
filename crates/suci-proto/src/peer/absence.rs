//! Reports that nobody is at a peer's addresses.

use crate::event::Unreachable;
use crate::undelivered::Undelivered;
use std::net::SocketAddr;
use suci_link::time::Instant;

/// Reports that nobody is at addresses of a peer to which an attempt sent HELLO. Each question of
/// the program has an attempt of its own, so that no late report of an earlier question counts.
#[derive(Debug, Default)]
pub(super) struct Absence {
    /// The addresses, each once; at most all of one peer.
    pub(super) addresses: Vec<SocketAddr>,
    /// A report says that a port is closed, and not only that there is no way.
    pub(super) is_port: bool,
    /// A report came from the network, where anyone can forge it.
    pub(super) is_hint: bool,
    /// When the last report came.
    pub(super) reported: Option<Instant>,
    /// How many HELLOs must have been sent before the reports from all addresses count.
    pub(super) due: Option<u32>,
    /// The reports count, and the layer of sockets was told.
    pub(super) is_told: bool,
}

impl Absence {
    /// Notes a report. Returns true if it is the first one about its address.
    pub(super) fn add(&mut self, now: Instant, report: &Undelivered<'_>) -> bool {
        self.is_port |= report.why == Unreachable::Port;
        self.is_hint |= !report.local;
        self.reported = Some(now);
        let first = !self.addresses.contains(&report.to);
        if first {
            self.addresses.push(report.to);
        }
        first
    }
}

/// The result of an attempt: the network's reports, and HELLOs without answers, showed that nobody
/// is at any address of a peer. The peer was not heard since.
#[derive(Debug)]
pub(super) struct KnownAbsence {
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) is_port: bool,
    /// How many HELLOs had to be sent before the reports counted. In that time an answer would have
    /// come, too.
    pub(super) due: u32,
    /// When the last report came.
    pub(super) reported: Instant,
}
