//! Packets that were read from the socket: what each does to its sender's grant.
//!
//! Dividing the budget costs several times what a packet in order does otherwise, and comes to the
//! same as long as nothing that it looks at moves. So it is done again only when something did.

use super::division::Wish;
use super::{Hungry, Shares};
use crate::credit::Grant;
use crate::credit::grant::Booked;
use crate::time::Instant;
use crate::types::PacketNumber;

/// What a share depends on beside the grant itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Basis {
    peers: u64,
    waiting: usize,
    waiting_bytes: u64,
    booked: Booked,
    hungry: Hungry,
}

impl Shares {
    /// Notes that an authentic packet was read from the socket. `eliciting`: it asks for an
    /// acknowledgement.
    pub fn on_drained(
        &mut self,
        grant: &mut Grant,
        number: PacketNumber,
        eliciting: bool,
        now: Instant,
    ) {
        if eliciting {
            self.watch(grant, number, now);
        }
        // Beyond its limit it used nothing that it was given.
        let wish = match eliciting && number <= grant.limit() {
            true => Wish::Sends,
            false => Wish::Rests,
        };
        let epoch = self.epoch();
        if grant.is_steady(epoch) && number >= grant.drained_end() {
            let share = grant.share();
            grant.drained(number, eliciting, share, now);
            if grant.booking() == grant.booked {
                debug_assert_eq!(self.share_for_active(grant), share, "steady");
                return;
            }
        }
        // Whatever moves its share or what is booked for it takes this back.
        grant.steady_at = epoch;
        grant.drained(number, eliciting, self.target(grant), now);
        self.allot(grant, wish, now);
    }

    /// As [`on_drained`](Self::on_drained) for each of the eliciting packets `first..=last`, one
    /// after the other.
    pub fn on_run_drained(
        &mut self,
        grant: &mut Grant,
        first: PacketNumber,
        last: PacketNumber,
        now: Instant,
    ) {
        for number in first..=last {
            self.on_drained(grant, number, true, now);
            let unmoved = self.basis == Some(self.present_basis());
            if unmoved
                && number < last
                && grant.is_steady(self.epoch)
                && grant.advances_linearly_to(last)
            {
                // What the last one does is then what all of them do.
                self.watch(grant, last, now);
                grant.drained(last, true, grant.share(), now);
                debug_assert!(
                    grant.is_steady(self.epoch) && grant.booking() == grant.booked,
                    "steady"
                );
                return;
            }
        }
    }

    /// Counts how often it changed what shares depend on. While that stands, and of a grant only
    /// the numbers drained and granted move, as they do together while packets come in order, the
    /// division comes to the same.
    fn epoch(&mut self) -> u64 {
        let basis = self.present_basis();
        if self.basis != Some(basis) {
            self.basis = Some(basis);
            self.epoch = self.epoch.saturating_add(1);
        }
        self.epoch
    }

    fn present_basis(&self) -> Basis {
        Basis {
            peers: self.peers,
            waiting: self.waiting.len(),
            waiting_bytes: self.waiting_bytes,
            booked: self.booked,
            hungry: self.hungry,
        }
    }
}
