//! The effect of packets read from the socket on their sender's grant.

use super::Shares;
use super::division::Activity;
use crate::credit::grant::Grant;
use core::ops::RangeInclusive;
use suci_link::link::DrainedKind;
use suci_link::time::Instant;
use suci_link::types::PacketNumber;

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
            let is_steady = kind != DrainedKind::Ack
                && grant.advances_linearly_to(last)
                && self.allots_the_same(grant);
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
        grant.drained(number, eliciting, self.target(grant), now);
        self.allot(grant, activity, now);
    }
}
