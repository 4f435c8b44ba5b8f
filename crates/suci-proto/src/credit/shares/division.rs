//! The division of a socket's budget among its peers.

use super::{NEWCOMER_PART, Shares, Unsatisfied};
use crate::credit::grant::Grant;
use crate::credit::need::{Demand, Use};
use suci_link::link::DrainedKind;
use suci_link::planted;
use suci_link::time::Instant;
use suci_link::types::PacketNumber;

/// A new peer should start with this many packets (the initial window of RFC 6928).
const FIRST_PACKETS: u64 = 10;

/// A new peer starts with at most this part of the free credit.
const FIRST_PART: u64 = 16;

/// Packets that stay free when the remainder of the division is given to some peers.
const KEPT_FREE: u64 = 4;

/// Packets that an idle peer keeps while others need more: it can send its next request without
/// BLOCKED.
const IDLE_PACKETS: u64 = 4;

/// If these packets of all peers exceed this part of the budget, each idle peer keeps fewer, or
/// none.
const IDLE_PART: u64 = 4;

/// A share that is more than its peer uses is halved down to this many packets while others need
/// more.
const FEWEST_SATISFIED: u64 = 8;

/// The state of a peer without credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// It has messages and sent BLOCKED.
    Blocked,
    /// It used all its credit.
    Sends,
    /// It returned its unused credit, or needs numbers for control only.
    Idle,
}

impl Unsatisfied {
    /// Adds the amounts of a peer to the sums, or subtracts them.
    fn change(&mut self, grant: &Grant, sum: impl Fn(u64, u64) -> u64) {
        let demand = grant.need.demand;
        self.weight = sum(self.weight, demand.weight());
        self.bytes = sum(self.bytes, grant.booked.bytes);
        if demand.is_bounded() {
            self.bounded = sum(self.bounded, most_bytes(grant));
            self.bounded_weight = sum(self.bounded_weight, demand.weight());
        }
    }
}

impl Shares {
    /// Returns true if a peer other than this one lacks credit.
    pub(super) fn is_wanted_by_others(&self, grant: &Grant) -> bool {
        let own = if grant.need.unsatisfied {
            grant.need.demand.weight()
        } else {
            0
        };
        self.unsatisfied.weight > own || self.free() < self.reserve()
    }

    /// Notes how near to its limit the packet `number` came.
    pub(super) fn watch(
        &mut self,
        grant: &mut Grant,
        number: PacketNumber,
        kind: DrainedKind,
        now: Instant,
    ) {
        let Some(left) = grant.left_after(number) else {
            return;
        };
        let share = grant.share();
        match grant.need.watch(left, share, kind, now) {
            Use::Unclear => {}
            Use::Much => self.mark_unsatisfied(grant),
            Use::Enough => self.mark_satisfied(grant),
            Use::Little => {
                self.mark_satisfied(grant);
                if self.is_wanted_by_others(grant) {
                    grant.lower((share / 2).max(FEWEST_SATISFIED));
                }
            }
        }
    }

    /// Notes the peer's report that its messages had to wait at its limit. Does nothing for a peer
    /// without a share: that peer waits in the queue for credit.
    pub(crate) fn on_used_up(&mut self, grant: &mut Grant, now: Instant) {
        if grant.share() > 0 {
            grant.need.begin(now);
            self.mark_unsatisfied(grant);
        }
    }

    /// Counts the peer as unsatisfied from now on.
    pub(crate) fn mark_unsatisfied(&mut self, grant: &mut Grant) {
        if !grant.need.unsatisfied && !grant.retired && !grant.dismissed {
            grant.need.unsatisfied = true;
            self.unsatisfied.change(grant, u64::saturating_add);
        }
    }

    /// Counts the peer as satisfied from now on.
    pub(super) fn mark_satisfied(&mut self, grant: &mut Grant) {
        if grant.need.unsatisfied {
            grant.need.unsatisfied = false;
            self.unsatisfied.change(grant, u64::saturating_sub);
        }
    }

    /// Returns the share that this peer should have, in packets. A satisfied peer keeps its share.
    /// While others are unsatisfied, it keeps no more than it would get if it were unsatisfied too,
    /// or an even part if that is more.
    pub(super) fn target(&self, grant: &Grant) -> u64 {
        let demand = grant.need.demand;
        let (mut weight, mut bytes) = (self.unsatisfied.weight, self.unsatisfied.bytes);
        if !grant.need.unsatisfied {
            if weight == 0 && self.waiting.is_empty() && self.free() >= self.reserve() {
                return grant.share().min(demand.most()).max(1);
            }
            weight = weight.saturating_add(demand.weight());
            bytes = bytes.saturating_add(grant.booked.bytes);
        }
        let others = self.booked.bytes.saturating_sub(bytes);
        let divided = self
            .data_budget
            .saturating_sub(self.reserve())
            .saturating_sub(others)
            .saturating_sub(self.waiting_bytes);
        let (divided, weight) = self.beyond_bounded(demand, divided, weight);
        let fair = divided
            .saturating_mul(demand.weight())
            .checked_div(weight)
            .unwrap_or(0);
        let fair = self.rounded(fair, grant).min(demand.most()).max(1);
        if grant.need.unsatisfied {
            fair
        } else {
            let even = packets(self.even(), grant.charge());
            fair.max(even).min(grant.share()).max(1)
        }
    }

    /// Returns the bytes that a peer of this demand divides with others, and the sum of their
    /// weights. If peers of bounded demand cannot use their parts, the other peers divide the rest.
    fn beyond_bounded(&self, demand: Demand, divided: u64, weight: u64) -> (u64, u64) {
        let Unsatisfied {
            bounded,
            bounded_weight,
            ..
        } = self.unsatisfied;
        let parts = divided
            .saturating_mul(bounded_weight)
            .checked_div(weight)
            .unwrap_or(0);
        if demand.is_bounded() || parts <= bounded {
            return (divided, weight);
        }
        let weight = weight.saturating_sub(bounded_weight);
        (divided.saturating_sub(bounded), weight)
    }

    /// Converts `bytes` to packets. The remainder of the division gives some peers one packet more.
    /// They lose it again before the last packets are gone, so that a peer without its part finds
    /// some.
    fn rounded(&self, bytes: u64, grant: &Grant) -> u64 {
        let whole = packets(bytes, grant.charge());
        let spare = self.free().saturating_sub(self.reserve());
        let kept = if grant.share() > whole {
            KEPT_FREE
        } else {
            KEPT_FREE * 2
        };
        let more = spare >= kept.saturating_mul(grant.charge())
            && bytes > whole.saturating_mul(grant.charge());
        whole.saturating_add(u64::from(more))
    }

    /// Returns the number of free bytes below which idle peers are asked to return their credit.
    pub(super) fn scarce(&self) -> u64 {
        self.reserve().saturating_mul(2)
    }

    /// Returns the bytes of each peer if all had the same, with one more peer.
    fn even(&self) -> u64 {
        self.data_budget / self.peers.saturating_add(1)
    }

    /// Returns the packets that an idle peer keeps while others need more.
    pub(super) fn idle_packets(&self, grant: &Grant) -> u64 {
        let each = (self.data_budget / IDLE_PART)
            .checked_div(self.peers)
            .unwrap_or(0);
        packets(each, grant.charge()).min(IDLE_PACKETS)
    }

    /// Returns the packets for a peer that has none: a part of the free ones, but at least one if
    /// one is free. While others wait or are expected, the peer gets no more than an even part.
    pub(super) fn room_for_newcomer(&self, booked: u64, charge: u64) -> u64 {
        let free = self.free();
        let first = (free / FIRST_PART).min(charge.saturating_mul(FIRST_PACKETS));
        let most = match self.expected == 0 && self.waiting.is_empty() {
            true => free,
            false => self.data_budget / self.peers.saturating_add(self.expected).max(1),
        };
        let part = (free / NEWCOMER_PART).max(first).min(most);
        let bytes = part.max(free.min(charge));
        packets(booked.saturating_add(bytes), charge)
    }

    /// Sets a share to the size that the policy allows now, and updates the books.
    pub(super) fn allot(&mut self, grant: &mut Grant, activity: Activity, now: Instant) {
        if !grant.retired && !grant.dismissed && !grant.is_reclaiming() {
            let share = if grant.share() == 0 {
                // Release the packets that were drained just now: they count as free below.
                self.settle(grant);
                self.share_for_dormant(grant, activity)
            } else {
                self.share_for_active(grant)
            };
            if share > 0 {
                self.stop_waiting(grant);
            }
            let control = self.control_for(grant.booked.control);
            grant.set_share(share, control, now);
        }
        self.settle(grant);
    }

    /// Returns true if [`allot`](Self::allot) would leave the share and the reserve of a peer with
    /// a share as they are.
    pub(super) fn allots_the_same(&self, grant: &Grant) -> bool {
        grant.share() == self.share_for_active(grant)
            && grant.next_control() == self.control_for(grant.booked.control)
    }

    /// Returns the share for a peer without one. Waiting peers are served in order, before all
    /// others. A peer that did not send BLOCKED gets no more than idle peers may have while others
    /// need more.
    pub(super) fn share_for_dormant(&self, grant: &Grant, activity: Activity) -> u64 {
        let before = match grant.waiting {
            Some(ticket) => self
                .waiting
                .range(..ticket)
                .map(|(_, (_, charge))| *charge)
                .sum(),
            None => self.waiting_bytes,
        };
        if self.free() < before.saturating_add(grant.charge()) {
            return 0;
        }
        if planted("idle-never-regains") && grant.generation() > 0 {
            return 0;
        }
        let newcomer = self.room_for_newcomer(grant.booked.bytes, grant.charge());
        let given = newcomer.saturating_mul(grant.charge());
        let less = match activity {
            Activity::Blocked => false,
            Activity::Sends => self.is_wanted_by_others(grant),
            // A share that leaves too little free would be reclaimed from the idle peer again, and
            // so on for ever.
            Activity::Idle => {
                let left = self.free().saturating_sub(given);
                self.is_wanted_by_others(grant) || left < self.scarce()
            }
        };
        if less {
            newcomer.min(self.idle_packets(grant))
        } else {
            newcomer
        }
    }

    pub(super) fn share_for_active(&self, grant: &Grant) -> u64 {
        let target = self.target(grant);
        if target <= grant.share() {
            return target;
        }
        let spare = self
            .free()
            .saturating_sub(self.reserve().max(self.waiting_bytes));
        let bytes = grant.booked.bytes.saturating_add(spare);
        packets(bytes, grant.charge()).clamp(grant.share(), target)
    }

    /// Control packets for a peer for which `booked` are booked: the target, but at most `booked`
    /// plus half of the free ones. A lower number takes effect once the peer knows it.
    pub(super) fn control_for(&self, booked: u64) -> u64 {
        let plenty = booked.saturating_add(self.control_free().div_ceil(2));
        self.control_target().min(plenty)
    }
}

/// Returns the most bytes that a peer's demand takes.
const fn most_bytes(grant: &Grant) -> u64 {
    grant.need.demand.most().saturating_mul(grant.charge())
}

/// Returns the number of whole packets of `charge` bytes in `bytes`.
const fn packets(bytes: u64, charge: u64) -> u64 {
    match bytes.checked_div(charge) {
        Some(packets) => packets,
        None => 0,
    }
}
