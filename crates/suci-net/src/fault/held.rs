//! Packets held back: by time, or until others have passed.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use crate::Ecn;

/// Bytes held at most; beyond it a packet is lost instead, as in any queue of a network.
pub(super) const MAX_HELD: usize = 64 << 20;

/// Bookkeeping charged per held packet, so that empty ones are not free.
const OVERHEAD: usize = 128;

/// How long a held-back packet waits for others to pass it.
pub(super) const REORDER_PATIENCE: Duration = Duration::from_millis(5);

/// One packet, copied.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HeldPacket {
    pub(super) dest: SocketAddr,
    pub(super) source: Option<IpAddr>,
    pub(super) ecn: u8,
    pub(super) bytes: Vec<u8>,
}

impl HeldPacket {
    pub(super) fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.ecn)
    }

    fn cost(&self) -> usize {
        self.bytes.len().saturating_add(OVERHEAD)
    }
}

/// Waits for `after` packets to pass, or for `until`.
#[derive(Debug)]
struct Overtaken {
    after: u64,
    until: Instant,
    packet: HeldPacket,
}

#[derive(Debug, Default)]
pub(super) struct Held {
    overtaken: Vec<Overtaken>,
    /// Ordered by time, then by arrival, so that equal delays keep the order.
    delayed: BinaryHeap<Reverse<(Instant, u64, HeldPacket)>>,
    arrivals: u64,
    /// Free to go, in order.
    due: VecDeque<HeldPacket>,
    bytes: usize,
}

impl Held {
    /// Whether one more packet of `len` bytes fits.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.bytes.saturating_add(len) <= MAX_HELD
    }

    /// Holds `packet` until the `after`-th packet of the sender was sent, or `until`.
    pub(super) fn until_overtaken(&mut self, packet: HeldPacket, after: u64, until: Instant) {
        self.bytes = self.bytes.saturating_add(packet.cost());
        self.overtaken.push(Overtaken {
            after,
            until,
            packet,
        });
    }

    pub(super) fn until(&mut self, packet: HeldPacket, until: Instant) {
        self.bytes = self.bytes.saturating_add(packet.cost());
        self.arrivals += 1;
        self.delayed.push(Reverse((until, self.arrivals, packet)));
    }

    /// Moves packets that are free at `now`, with `sent` packets sent, to the queue of due packets.
    pub(super) fn release(&mut self, now: Instant, sent: u64) {
        let free = |held: &mut Overtaken| held.after <= sent || held.until <= now;
        self.due
            .extend(self.overtaken.extract_if(.., free).map(|held| held.packet));
        while self
            .delayed
            .peek()
            .is_some_and(|Reverse((until, _, _))| *until <= now)
        {
            if let Some(Reverse((_, _, packet))) = self.delayed.pop() {
                self.due.push_back(packet);
            }
        }
    }

    /// Packets free to go.
    pub(super) fn due(&self) -> &VecDeque<HeldPacket> {
        &self.due
    }

    /// Forgets the first `count` due packets.
    pub(super) fn done(&mut self, count: usize) {
        for packet in self.due.drain(..count.min(self.due.len())) {
            self.bytes = self.bytes.saturating_sub(packet.cost());
        }
    }

    /// Returns the time at which the next packet becomes free by time alone.
    pub(super) fn next_release(&self) -> Option<Instant> {
        let overtaken = self.overtaken.iter().map(|held| held.until);
        let delayed = self.delayed.peek().map(|Reverse((until, _, _))| *until);
        overtaken.chain(delayed).min()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.overtaken.is_empty() && self.delayed.is_empty() && self.due.is_empty()
    }
}
