//! What packets cost in the receive buffer, and how large they may be for it to hold enough of
//! them.

use super::Shares;
use crate::credit::Grant;
use crate::limits::{CONTROL_CHARGE, CONTROL_PACKET, DATA_CHARGE, ETHERNET_MTU, MAX_DATAGRAM};

/// The budget should hold at least so many of the largest packets, and so many for each peer, or
/// few peers would have to take turns.
const FEWEST_PACKETS: u64 = 128;
const FEWEST_EACH: u64 = 8;

/// Beyond Ethernet's size, packets of fewer bytes cost more than they save: all up to 4 KiB are
/// charged alike.
const FEWEST_BYTES: usize = ETHERNET_MTU * 5 / 2;

/// Largest payloads to choose from: what usual MTUs carry over IPv4.
const DATAGRAM_SIZES: [usize; 5] = [MAX_DATAGRAM, 32_740, 16_356, 8_972, 4_068];

/// What one UDP payload of at most `max_datagram` bytes is charged in the receiver's socket
/// buffer, measured on Linux (true size). Between 4 KiB and 64 KiB a linear buffer is rounded up to
/// a power of two; beyond 32 KiB the kernel uses pages.
#[must_use]
pub fn data_charge(max_datagram: usize) -> u64 {
    const MEASURED: [(usize, u64); 4] = [
        (CONTROL_PACKET, CONTROL_CHARGE),
        (512, 1_280),
        (ETHERNET_MTU, DATA_CHARGE),
        (4_096, 8_448),
    ];
    const LARGEST: u64 = 66_339;
    MEASURED
        .iter()
        .find(|(payload, _)| max_datagram <= *payload)
        .map_or_else(
            || {
                let payload = u64::try_from(max_datagram.min(MAX_DATAGRAM)).unwrap_or(LARGEST);
                payload.saturating_mul(2).saturating_add(1_280).min(LARGEST)
            },
            |(_, charge)| *charge,
        )
}

impl Shares {
    /// Largest UDP payload, of at most `most` bytes, that one of `peers` peers should be allowed:
    /// the budget holds 128 of them and 8 for each; or they are of Ethernet's size, as they are if
    /// they were little larger.
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

    /// A peer that was [admitted](Self::admit) just now sends UDP payloads of at most
    /// `max_datagram` bytes, if those are smaller than was thought.
    pub fn recharge(&mut self, grant: &mut Grant, max_datagram: usize) {
        debug_assert!(!grant.need.hungry && grant.waiting.is_none(), "it is new");
        grant.charge = grant.charge.min(data_charge(max_datagram));
        self.settle(grant);
    }
}
