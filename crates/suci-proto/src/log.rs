//! Records for a log: how connections come up and end, and which packets were dropped and why.
//!
//! The engine has no log of its own. It queues records while its driver asks for them
//! ([`crate::Engine::set_logging`]), and the driver writes them where it likes. Only rare steps
//! make a record, never a packet of messages. The queue and two rates bound the records that peers,
//! and anyone who can send us a datagram, can cause (F04).

use crate::event::{EndReason, LostCause, RefusedReason, Unreachable};
use core::fmt;
use std::collections::VecDeque;
use std::net::SocketAddr;
use suci_link::time::Instant;
use suci_link::types::{Epoch, NodeId, SessionNumber};
use suci_link::wire::{HeaderError, PacketType};

/// Maximum number of records that wait for the driver. A record has about 100 B.
const QUEUE: usize = 256;

/// Maximum number of records in each second: about 150 KB of text.
const PER_SECOND: u32 = 1_000;

/// Maximum number of these records about packets whose sender proved nothing: anyone can send
/// those, from any address.
const UNPROVEN_PER_SECOND: u32 = 100;

/// A step of a connection's life, or a packet that was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRecord {
    /// A handshake packet is sent. For REFUSED there is [`LogRecord::Refuses`].
    Sent {
        /// Its type.
        packet: PacketType,
        /// The receiving node.
        peer: NodeId,
        /// The receiver's address.
        to: SocketAddr,
        /// How often this packet was sent, this time included; 1 for answers.
        tries: u32,
    },
    /// A handshake packet was received. A [`LogRecord::Dropped`] may follow.
    Received {
        /// Its type.
        packet: PacketType,
        /// The sending node, as the packet claims.
        peer: NodeId,
        /// The sender's address.
        from: SocketAddr,
    },
    /// A packet was dropped.
    Dropped {
        /// Its type, if it is a packet at all.
        packet: Option<PacketType>,
        /// The sending node, as the packet claims. Only handshake packets name one.
        peer: Option<NodeId>,
        /// The sender's address.
        from: SocketAddr,
        /// Why.
        reason: DropReason,
    },
    /// This node refuses a peer's HELLO or INIT, and sends REFUSED.
    Refuses {
        /// The refused node, as its packet claims.
        peer: NodeId,
        /// Its address.
        to: SocketAddr,
        /// Why.
        reason: RefusedReason,
    },
    /// A peer refuses this node, or this node itself has no room for the connection. Another
    /// attempt follows.
    Refused {
        /// The peer.
        peer: NodeId,
        /// Why.
        reason: RefusedReason,
    },
    /// A connection was made, or replaced.
    Connected {
        /// The peer.
        peer: NodeId,
        /// Its address.
        to: SocketAddr,
        /// The session's epoch.
        epoch: Epoch,
        /// The largest UDP payload to send, in bytes, as far as it is known yet.
        datagram: usize,
    },
    /// The peer answers.
    Up {
        /// The peer.
        peer: NodeId,
        /// The session.
        session: SessionNumber,
    },
    /// The peer was silent for too long.
    Lost {
        /// The peer.
        peer: NodeId,
        /// Its presumed address.
        at: Option<SocketAddr>,
        /// The reason, as far as it is known.
        cause: LostCause,
    },
    /// As `Lost`, for a peer whose silence shows nothing: its engine does not run while its program
    /// computes, or a launcher would report its end.
    Quiet {
        /// The peer.
        peer: NodeId,
    },
    /// A session ended.
    Ended {
        /// The peer.
        peer: NodeId,
        /// The session.
        session: SessionNumber,
        /// Why.
        reason: EndReason,
        /// How many messages to the peer were not delivered, or perhaps not.
        undelivered: u64,
    },
    /// The packet size to this address changed.
    PacketSize {
        /// The address.
        to: SocketAddr,
        /// The largest UDP payload, in bytes.
        datagram: usize,
    },
    /// The peer answers at another address: packets to it go there.
    Moved {
        /// The peer.
        peer: NodeId,
        /// Its former address.
        from: SocketAddr,
        /// Its new address.
        to: SocketAddr,
    },
    /// The system reports that a datagram to a peer was not delivered.
    Undelivered {
        /// The receiving node.
        peer: NodeId,
        /// The receiver's address.
        to: SocketAddr,
        /// Why.
        reason: Unreachable,
        /// True if this machine's own kernel reports it, for one of its own addresses.
        local: bool,
    },
    /// There were more records than the bounds allow.
    Suppressed {
        /// How many were omitted.
        records: u64,
    },
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// The datagram is no packet of this protocol version, or was damaged on the way.
    Header(HeaderError),
    /// The bytes after the header cannot be read.
    Malformed,
    /// DATA for a connection that this node does not have.
    UnknownConnection,
    /// DATA of a connection that is being made came before ACCEPT, which was late or lost. INIT is
    /// sent again.
    BeforeAccept,
    /// A HELLO that there is no room to answer yet.
    NoRoom,
    /// A HELLO or INIT to a node that is closing.
    Closing,
    /// An INIT whose cookie this process did not make for this sender, or whose cookie is too old.
    BadCookie,
    /// An INIT to another process, which was at this address before.
    OtherIncarnation,
    /// An INIT that was not read, because handshakes took too much work of late.
    Throttled,
    /// An INIT that is not newer than the last one accepted from the same peer.
    Outdated,
    /// An INIT that crossed one of ours, which wins.
    Crossing,
    /// An INIT under the ID of a peer that may be alive: that peer is asked for a sign of life
    /// first.
    Contested,
    /// An answer to nothing that this node asked.
    Unsolicited,
    /// An ACCEPT from another address than the INIT went to.
    OtherAddress,
    /// An ACCEPT of a session that is over.
    OldSession,
    /// A sealed packet or an ACCEPT that was changed, forged, or is under another key.
    NotAuthentic,
    /// An ACCEPT of a plain node to a sealed one, or the reverse.
    OtherMode,
    /// An INIT that cannot be answered, because this node cannot make keys now.
    NoKeys,
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header(error) => return error.fmt(f),
            Self::Malformed => "malformed",
            Self::UnknownConnection => "unknown connection",
            Self::BeforeAccept => "came before ACCEPT",
            Self::NoRoom => "no room to answer",
            Self::Closing => "this node is closing",
            Self::BadCookie => "invalid or expired cookie",
            Self::OtherIncarnation => "meant for an earlier process at this address",
            Self::Throttled => "too much work for handshakes of late",
            Self::Outdated => "outdated",
            Self::Crossing => "crossed this node's INIT, which wins",
            Self::Contested => "a process with this node ID may be alive",
            Self::Unsolicited => "answers nothing that this node asked",
            Self::OtherAddress => "comes from another address than INIT went to",
            Self::OldSession => "belongs to a session that is over",
            Self::NotAuthentic => "not authentic: changed, forged, or under another key",
            Self::OtherMode => "one side is sealed, the other plain",
            Self::NoKeys => "this node cannot make keys now",
        })
    }
}

/// Records for the driver.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// The driver asks for records.
    on: bool,
    queue: VecDeque<LogRecord>,
    /// The present second, and how many records of either kind it had.
    second: u64,
    taken: u32,
    unproven: u32,
    /// Records omitted since that was last told.
    suppressed: u64,
}

impl Log {
    pub(crate) fn set_on(&mut self, on: bool) {
        self.on = on;
        if !on {
            *self = Self::default();
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Adds the record that `record` makes, if the driver asks for records.
    #[inline]
    pub(crate) fn add(&mut self, now: Instant, record: impl FnOnce() -> LogRecord) {
        if self.on {
            self.push(now, false, record());
        }
    }

    /// As [`add`](Self::add), about a packet whose sender proved nothing.
    #[inline]
    pub(crate) fn add_unproven(&mut self, now: Instant, record: impl FnOnce() -> LogRecord) {
        if self.on {
            self.push(now, true, record());
        }
    }

    #[cold]
    fn push(&mut self, now: Instant, unproven: bool, record: LogRecord) {
        self.begin_second(now);
        let full = self.queue.len() >= QUEUE || self.taken >= PER_SECOND;
        if full || unproven && self.unproven >= UNPROVEN_PER_SECOND {
            self.suppressed += 1;
            return;
        }
        self.taken += 1;
        self.unproven += u32::from(unproven);
        self.queue.push_back(record);
    }

    /// Begins a new second, in which as many records are allowed again. A record of how many were
    /// omitted before comes first.
    fn begin_second(&mut self, now: Instant) {
        let second = now.as_nanos() / 1_000_000_000;
        if second == self.second {
            return;
        }
        (self.second, self.taken, self.unproven) = (second, 0, 0);
        let records = core::mem::take(&mut self.suppressed);
        if records > 0 {
            self.queue.push_back(LogRecord::Suppressed { records });
        }
    }

    /// Returns the next record for the driver, whose cycle began at `now`.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<LogRecord> {
        if self.suppressed > 0 {
            self.begin_second(now);
        }
        self.queue.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suci_link::time::Duration;

    const RECORD: LogRecord = LogRecord::Quiet { peer: NodeId(7) };

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn told(log: &mut Log, now: Instant) -> Vec<LogRecord> {
        core::iter::from_fn(|| log.poll(now)).collect()
    }

    fn on() -> Log {
        let mut log = Log::default();
        log.set_on(true);
        log
    }

    #[test]
    fn nothing_is_made_unless_the_driver_asks() {
        let mut log = Log::default();
        log.add(at(0), || unreachable!("made"));
        assert_eq!(told(&mut log, at(0)), []);
        log.set_on(true);
        log.add(at(0), || RECORD);
        log.set_on(false);
        assert_eq!(told(&mut log, at(0)), [], "nobody asks any more");
    }

    #[test]
    fn f04_records_that_wait_for_the_driver_are_bounded() {
        let mut log = on();
        for _ in 0..10_000 {
            log.add(at(0), || RECORD);
        }
        assert_eq!(told(&mut log, at(999)), [RECORD; QUEUE]);
        let records = 10_000 - QUEUE as u64;
        let suppressed = LogRecord::Suppressed { records };
        assert_eq!(told(&mut log, at(1_000)), [suppressed]);
        assert_eq!(told(&mut log, at(2_000)), [], "told once");
    }

    #[test]
    fn f04_records_of_a_second_are_bounded_however_often_the_driver_asks() {
        let mut log = on();
        let mut flood = |millis: u64, unproven: bool| {
            let mut records = Vec::new();
            for _ in 0..5_000 {
                match unproven {
                    true => log.add_unproven(at(millis), || RECORD),
                    false => log.add(at(millis), || RECORD),
                }
                records.extend(told(&mut log, at(millis)));
            }
            records
        };
        let unproven = UNPROVEN_PER_SECOND as usize;
        assert_eq!(flood(0, true).len(), unproven);
        let rest = PER_SECOND as usize - unproven;
        assert_eq!(flood(500, false).len(), rest, "others still have room");
        let next = flood(1_000, true);
        let records = 10_000 - u64::from(PER_SECOND);
        assert_eq!(next[0], LogRecord::Suppressed { records });
        assert_eq!(next.len(), unproven + 1);
    }
}
