//! Reports that a peer's port is closed.

use super::absence::KnownAbsence;
use suci_link::time::{Duration, Instant};

/// A packet of ours that the peer answers if it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// A packet of the connection, by its number.
    Packet(u64),
    /// A packet of an attempt: the token, and how often it was sent.
    Handshake(u64, u32),
}

impl Question {
    /// Returns true if this question was sent after `other`, or is `other`.
    pub(super) fn follows(self, other: Self) -> bool {
        match (self, other) {
            (Self::Packet(this), Self::Packet(other)) => this >= other,
            // An attempt is known by its token only while it is the present one.
            (Self::Handshake(token, this), Self::Handshake(other_token, other)) => {
                token != other_token || this >= other
            }
            (Self::Packet(_), Self::Handshake(..)) | (Self::Handshake(..), Self::Packet(_)) => {
                false
            }
        }
    }
}

/// The meaning of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reported {
    /// It is the first one since the peer was last heard.
    First,
    /// It concerns a question that was sent after the first report.
    Again,
    /// It says nothing new.
    Known,
}

/// The reports about a peer's port since the peer was last heard.
#[derive(Debug, Default)]
pub(super) struct PortReports {
    /// When this machine's kernel first reported that the port, on this machine, is closed, or the
    /// peer's launcher that its process has ended.
    pub(super) closed_since: Option<Instant>,
    /// When the kernel reported the same of `next` or of a later question.
    pub(super) confirmed_at: Option<Instant>,
    /// When the network first reported that the port is closed.
    pub(super) reported_since: Option<Instant>,
    /// No process seems to have the port: the network's report was challenged.
    pub(super) absent: bool,
    /// The first question whose report says something new.
    pub(super) next: Option<Question>,
    /// The result of earlier attempts to open a connection.
    pub(super) known_absence: Option<KnownAbsence>,
}

impl PortReports {
    /// Shifts all times by `late`, for which the socket was not drained.
    pub(super) fn shift(&mut self, late: Duration) {
        let marks = [
            &mut self.closed_since,
            &mut self.confirmed_at,
            &mut self.reported_since,
        ];
        for mark in marks.into_iter().flatten() {
            *mark += late;
        }
    }
}
