//! The effect of packets read from the socket on their sender's grant.
//!
//! Dividing the budget costs several times as much as the rest of a packet in order, and its result
//! stays the same as long as its inputs do. So it is done again only after an input changed.

use super::division::Activity;
use super::{Shares, Unsatisfied};
use crate::credit::grant::Booked;
use crate::credit::{DrainedKind, Grant};
use crate::time::Instant;
use crate::types::PacketNumber;
use core::ops::RangeInclusive;

/// The inputs of a share beside the grant itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Basis {
    peers: u64,
    waiting: usize,
    waiting_bytes: u64,
    booked: Booked,
    unsatisfied: Unsatisfied,
}

impl Shares {
    /// Notes that authentic packets with the consecutive numbers `numbers` were read from the
    /// socket, each of this `kind`.
    ///
    /// The result is the same as for the packets one by one.
    pub fn on_drained(
        &mut self,
        grant: &mut Grant,
        numbers: RangeInclusive<PacketNumber>,
        kind: DrainedKind,
        now: Instant,
    ) {
        let (mut number, last) = numbers.into_inner();
        while number <= last {
            self.on_packet_drained(grant, number, kind, now);
            if number == last {
                return;
            }
            // If the packets up to the last only move the numbers drained and granted, process the
            // last one alone.
            let is_steady = self.basis == Some(self.present_basis())
                && grant.is_steady(self.epoch)
                && kind != DrainedKind::Ack
                && grant.advances_linearly_to(last);
            number = if is_steady { last } else { number + 1 };
        }
    }

    #[inline]
    fn on_packet_drained(
        &mut self,
        grant: &mut Grant,
        number: PacketNumber,
        kind: DrainedKind,
        now: Instant,
    ) {
        let eliciting = kind != DrainedKind::Ack;
        if eliciting {
            self.watch(grant, number, kind, now);
        }
        // A packet beyond the limit used no granted number.
        let activity = match eliciting && number <= grant.limit() {
            true => Activity::Sends,
            false => Activity::Idle,
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
        // A change of the share or of its booking resets this.
        grant.steady_at = epoch;
        grant.drained(number, eliciting, self.target(grant), now);
        self.allot(grant, activity, now);
    }

    /// Counts the changes of the inputs that shares depend on. Within an epoch the division gives a
    /// grant the same share, as long as the numbers drained and granted only move together, as they
    /// do while packets come in order.
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
            unsatisfied: self.unsatisfied,
        }
    }
}
