//! The charge of packets in the receive buffer, and the largest packets of which the buffer holds
//! enough.

use super::Shares;
use crate::credit::grant::Grant;
use suci_link::credit::data_charge;
use suci_link::limits::{ETHERNET_MTU, MAX_DATAGRAM};

/// The budget should hold at least this many of the largest packets, and this many for each peer.
/// Otherwise even a few peers would have to take turns.
const FEWEST_PACKETS: u64 = 128;
const FEWEST_EACH: u64 = 8;

/// Packets above Ethernet's size but below this one cost more than they save: all up to 4 KiB are
/// charged alike.
const FEWEST_BYTES: usize = ETHERNET_MTU * 5 / 2;

/// Largest payloads to choose from: those of usual MTUs over IPv4.
const DATAGRAM_SIZES: [usize; 5] = [MAX_DATAGRAM, 32_740, 16_356, 8_972, 4_068];

impl Shares {
    /// Returns the largest UDP payload, of at most `most` bytes, that one of `peers` peers should
    /// be allowed. It is the largest size of which the budget holds 128 packets, and 8 for each
    /// peer. It is Ethernet's size if there is none, or if the result is only a little larger.
    #[must_use]
    pub fn datagram_for(&self, most: usize, peers: usize) -> usize {
        let packets = FEWEST_PACKETS.max(FEWEST_EACH.saturating_mul(peers as u64));
        let fits = |payload: &usize| data_charge(*payload) <= self.data_part / packets;
        DATAGRAM_SIZES
            .into_iter()
            .map(|size| size.min(most))
            .find(fits)
            .filter(|size| *size >= FEWEST_BYTES)
            .unwrap_or_else(|| most.min(ETHERNET_MTU))
    }

    /// Charges less for a peer that was [admitted](Self::admit) just now, if its UDP payloads of at
    /// most `max_datagram` bytes are smaller than assumed.
    pub fn recharge(&mut self, grant: &mut Grant, max_datagram: usize) {
        debug_assert!(
            !grant.need.unsatisfied && grant.waiting.is_none(),
            "it is new"
        );
        grant.charge = grant.charge.min(data_charge(max_datagram));
        self.settle(grant);
    }
}
