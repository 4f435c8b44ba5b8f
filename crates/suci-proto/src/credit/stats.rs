//! Statistics of how the budget of a socket is shared at the moment.

use crate::credit::grant::Grant;
use crate::credit::shares::Shares;

/// How the receive buffer of a socket is shared out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShareStats {
    /// Peers that hold a grant.
    pub peers: u64,
    /// Peers that are unsatisfied: they use up their share.
    pub unsatisfied: u64,
    /// Peers that have to send BLOCKED before they may send data.
    pub dormant: u64,
    /// Peers that sent BLOCKED and wait.
    pub waiting: u64,
    /// Bytes that peers may have or put into the buffer, as the kernel charges them.
    pub granted: u64,
    /// Bytes that peers were granted beyond the buffer: long paths hold them while this node drains
    /// its socket at once.
    pub beyond: u64,
    /// Bytes for data that are granted to no peer.
    pub free: u64,
    /// How evenly the unsatisfied peers share, by their weights: Jain's index, 1 if all have the
    /// same, 1/n if one of n has everything. 1 if no peer is unsatisfied.
    pub jain: f64,
}

impl ShareStats {
    /// Computes the statistics of `grants`, which belong to `shares`.
    pub(crate) fn new<'a>(shares: &Shares, grants: impl Iterator<Item = &'a Grant>) -> Self {
        let mut stats = Self {
            peers: shares.peers(),
            unsatisfied: 0,
            dormant: 0,
            waiting: shares.waiting(),
            granted: shares.booked_bytes(),
            beyond: shares.beyond(),
            free: shares.free(),
            jain: 1.0,
        };
        let (mut sum, mut squares) = (0.0, 0.0);
        for grant in grants {
            stats.dormant += u64::from(grant.is_dormant());
            if let Some(part) = grant.part() {
                stats.unsatisfied += 1;
                sum += part;
                squares += part * part;
            }
        }
        if squares > 0.0 {
            stats.jain = sum * sum / (squares * stats.unsatisfied as f64);
        }
        stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::Demand;
    use suci_link::limits::ETHERNET_MTU;
    use suci_link::time::Instant;

    #[test]
    fn the_index_says_how_evenly_peers_share() {
        let mut shares = Shares::new(8 << 20);
        let mut grants: Vec<Grant> = (0..4)
            .filter_map(|_| shares.admit(0, ETHERNET_MTU, Instant::ZERO))
            .collect();
        let stats = ShareStats::new(&shares, grants.iter());
        assert_eq!((stats.peers, stats.unsatisfied, stats.dormant), (4, 0, 0));
        assert!((stats.jain - 1.0).abs() < 1e-9);
        if let [one, other, ..] = &mut grants[..] {
            shares.set_demand(other, Demand::Large);
            shares.mark_unsatisfied(one);
            shares.mark_unsatisfied(other);
            shares.serve(one, Instant::ZERO);
        }
        // One has a third of the budget. The other should have two thirds, and has the share of a
        // new peer.
        let stats = ShareStats::new(&shares, grants.iter());
        assert_eq!(stats.unsatisfied, 2);
        assert!((0.5..0.6).contains(&stats.jain), "{}", stats.jain);
        if let [_, other, ..] = &mut grants[..] {
            shares.serve(other, Instant::ZERO);
        }
        let stats = ShareStats::new(&shares, grants.iter());
        assert!(stats.jain > 0.99, "{}", stats.jain);
        assert_eq!(stats.granted + stats.free, Shares::new(8 << 20).free());
    }
}
