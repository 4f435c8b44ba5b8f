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
use core::ops::RangeInclusive;

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
    /// Notes that authentic packets with the consecutive numbers `numbers` were read from the
    /// socket. `eliciting`: each of them asks for an acknowledgement.
    ///
    /// The outcome is that of one packet after the other, whatever was read together.
    pub fn on_drained(
        &mut self,
        grant: &mut Grant,
        numbers: RangeInclusive<PacketNumber>,
        eliciting: bool,
        now: Instant,
    ) {
        let (mut number, last) = numbers.into_inner();
        while number <= last {
            self.on_packet_drained(grant, number, eliciting, now);
            if number == last {
                return;
            }
            // Where the packets up to the last only move the numbers drained and granted, the last
            // one does it for all.
            let is_steady = self.basis == Some(self.present_basis())
                && grant.is_steady(self.epoch)
                && eliciting
                && grant.advances_linearly_to(last);
            number = if is_steady { last } else { number + 1 };
        }
    }

    #[inline]
    fn on_packet_drained(
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
