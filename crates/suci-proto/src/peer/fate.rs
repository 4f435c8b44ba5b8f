//! The fate of packets, and the parts of a session that it concerns.

use super::{Connection, Session};
use core::ops::RangeInclusive;
use suci_link::link::{NumberedSetting, Pending};
use suci_link::recovery::{Recovery, SentFrame, Sink};
use suci_link::wire::Mode;

/// Tells the parts of a session the fate of a packet's frames.
pub(super) struct FrameFates<'a> {
    session: &'a mut Session,
    pending: &'a mut Pending,
    modes: &'a mut NumberedSetting<Mode>,
    received: &'a mut suci_link::ack::Received,
    credit: &'a mut suci_link::credit::SendCredit,
    /// A range of data that arrived and of which the outbox was not told yet. The next packet often
    /// carried the range that follows it, and both are then reported together.
    arrived: Option<SentFrame>,
    pub(super) close_acked: bool,
    /// Lost messages are not sent again until the program asks for it.
    pub(super) withhold: bool,
}

impl Connection {
    /// Returns the recovery state, and the receiver of packet fates in this connection and in
    /// `session`.
    pub(super) fn fates<'a>(
        &'a mut self,
        session: &'a mut Session,
    ) -> (&'a mut Recovery, FrameFates<'a>) {
        let withhold = session.manual;
        let fate = FrameFates {
            withhold,
            session,
            pending: &mut self.link.pending,
            modes: &mut self.link.modes,
            received: &mut self.link.received,
            credit: &mut self.link.credit,
            arrived: None,
            close_acked: false,
        };
        (&mut self.link.recovery, fate)
    }
}

impl FrameFates<'_> {
    /// Tells the outbox of the remaining range. Call it after all frames.
    pub(super) fn settle(&mut self) {
        if let Some(frame) = self.arrived.take() {
            self.session.outbox.on_acked(&frame);
        }
    }
}

impl Sink for FrameFates<'_> {
    fn acked(&mut self, _numbers: RangeInclusive<u64>, frames: &[SentFrame]) {
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
                SentFrame::Rts { .. } | SentFrame::Fin { .. } => {
                    self.settle();
                    self.session.outbox.on_acked(frame);
                }
                SentFrame::Ack { largest } => self.received.on_ack_acked(largest),
                SentFrame::Close => self.close_acked = true,
                _ => {}
            }
        }
    }

    fn lost(&mut self, _numbers: RangeInclusive<u64>, frames: &[SentFrame]) {
        self.settle();
        for frame in frames {
            match *frame {
                SentFrame::Data { .. } | SentFrame::Rts { .. } if self.withhold => {}
                SentFrame::Data { .. }
                | SentFrame::Rts { .. }
                | SentFrame::ChannelBlocked { .. }
                | SentFrame::Fin { .. } => self.session.outbox.on_lost(frame),
                SentFrame::Cts { .. }
                | SentFrame::Refuse { .. }
                | SentFrame::MaxChannel { .. }
                | SentFrame::MaxChannels => self.session.inbox.on_lost(frame),
                SentFrame::Return { generation } => self.credit.on_return_lost(generation),
                SentFrame::Close => self.pending.close = true,
                SentFrame::Mode { number } => self.modes.on_lost(number),
                SentFrame::Suspension { number } => self.session.suspension.on_lost(number),
                _ => {}
            }
        }
    }
}
