//! The fate of what packets carried.

use super::{Fate, Link, NumberedSetting, Pending};
use crate::ack::Received;
use crate::credit::SendCredit;
use crate::recovery::{Recovery, SentFrame, Sink};
use crate::types::PacketNumber;
use crate::wire::Mode;
use core::ops::RangeInclusive;

/// Tells the link's parts and its cargo the fate of frames.
pub(super) struct Fates<'a, F: Fate> {
    cargo: &'a mut F,
    pending: &'a mut Pending,
    modes: &'a mut NumberedSetting<Mode>,
    received: &'a mut Received,
    credit: &'a mut SendCredit,
    /// A range of data that arrived and of which the cargo was not told yet. The next packet often
    /// carried the range that follows it, and both are then reported together.
    arrived: Option<SentFrame>,
    pub(super) close_acked: bool,
}

impl Link {
    /// Returns the recovery state, and the receiver of packet fates in this link and its cargo.
    pub(super) fn fates<'a, F: Fate>(
        &'a mut self,
        cargo: &'a mut F,
    ) -> (&'a mut Recovery, Fates<'a, F>) {
        let fates = Fates {
            cargo,
            pending: &mut self.pending,
            modes: &mut self.modes,
            received: &mut self.received,
            credit: &mut self.credit,
            arrived: None,
            close_acked: false,
        };
        (&mut self.recovery, fates)
    }

    /// Gives up all packets in flight, without a sign of congestion.
    pub fn drop_all(&mut self, cargo: &mut impl Fate) {
        let (recovery, mut fates) = self.fates(cargo);
        recovery.drop_all(&mut fates);
    }
}

impl<F: Fate> Fates<'_, F> {
    /// Tells the cargo of the remaining range. Call it after all frames.
    pub(super) fn settle(&mut self) {
        if let Some(frame) = self.arrived.take() {
            self.cargo.acked(&frame);
        }
    }
}

impl<F: Fate> Sink for Fates<'_, F> {
    fn acked(&mut self, _numbers: RangeInclusive<PacketNumber>, frames: &[SentFrame]) {
        for frame in frames {
            match *frame {
                SentFrame::Data { .. } => {
                    let known = self.arrived.as_mut();
                    let adjoins = known.is_some_and(|part| part.adjoin(frame));
                    if !adjoins {
                        self.settle();
                        self.arrived = Some(*frame);
                    }
                }
                SentFrame::Ack { largest } => self.received.on_ack_acked(largest),
                SentFrame::Close => self.close_acked = true,
                SentFrame::Mode { .. } | SentFrame::Return { .. } => {}
                _ => {
                    self.settle();
                    self.cargo.acked(frame);
                }
            }
        }
    }

    fn lost(&mut self, _numbers: RangeInclusive<PacketNumber>, frames: &[SentFrame]) {
        self.settle();
        for frame in frames {
            match *frame {
                SentFrame::Return { generation } => self.credit.on_return_lost(generation),
                SentFrame::Close => self.pending.close = true,
                SentFrame::Mode { number } => self.modes.on_lost(number),
                SentFrame::Ack { .. } => {}
                _ => self.cargo.lost(frame),
            }
        }
    }
}
