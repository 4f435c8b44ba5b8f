//! The fate of what packets carried.

use super::{Fate, Link, NumberedSetting, Pending, Recorded};
use crate::ack::Received;
use crate::credit::SendCredit;
use crate::recovery::{Content, Recovery, Sink};
use crate::types::PacketNumber;
use crate::wire::Mode;
use core::ops::RangeInclusive;

/// Tells the link's parts and its cargo the fate of frames.
pub(super) struct Fates<'a, T, F> {
    cargo: &'a mut F,
    pending: &'a mut Pending,
    modes: &'a mut NumberedSetting<Mode>,
    received: &'a mut Received,
    credit: &'a mut SendCredit,
    /// Content that arrived and of which the cargo was not told yet. The next packet often carried
    /// what adjoins it, and both are then reported together.
    arrived: Option<T>,
    pub(super) close_acked: bool,
}

impl<T: Content> Link<T> {
    /// Returns the recovery state, and the receiver of packet fates in this link and its cargo.
    pub(super) fn fates<'a, F: Fate<T>>(
        &'a mut self,
        cargo: &'a mut F,
    ) -> (&'a mut Recovery<Recorded<T>>, Fates<'a, T, F>) {
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
    pub fn drop_all(&mut self, cargo: &mut impl Fate<T>) {
        let (recovery, mut fates) = self.fates(cargo);
        recovery.drop_all(&mut fates);
    }
}

impl<T, F: Fate<T>> Fates<'_, T, F> {
    /// Tells the cargo of the remaining content. Call it after all frames.
    pub(super) fn settle(&mut self) {
        if let Some(content) = self.arrived.take() {
            self.cargo.acked(&content);
        }
    }
}

impl<T: Content, F: Fate<T>> Sink<Recorded<T>> for Fates<'_, T, F> {
    fn acked(&mut self, _numbers: RangeInclusive<PacketNumber>, frames: &[Recorded<T>]) {
        for frame in frames {
            match *frame {
                Recorded::Cargo(content) => {
                    let known = self.arrived.as_mut();
                    let adjoins = known.is_some_and(|known| known.adjoin(&content));
                    if !adjoins {
                        self.settle();
                        self.arrived = Some(content);
                    }
                }
                Recorded::Ack { largest } => self.received.on_ack_acked(largest),
                Recorded::Close => self.close_acked = true,
                Recorded::Mode { .. } | Recorded::Return { .. } => {}
            }
        }
    }

    fn lost(&mut self, _numbers: RangeInclusive<PacketNumber>, frames: &[Recorded<T>]) {
        self.settle();
        for frame in frames {
            match *frame {
                Recorded::Return { generation } => self.credit.on_return_lost(generation),
                Recorded::Close => self.pending.close = true,
                Recorded::Mode { number } => self.modes.on_lost(number),
                Recorded::Ack { .. } => {}
                Recorded::Cargo(content) => self.cargo.lost(&content),
            }
        }
    }
}
