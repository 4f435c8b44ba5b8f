//! What became of packets, and whom it concerns.

use super::{Connection, Session, mode, pending};
use crate::recovery::{Recovery, SentFrame, Sink};

/// Tells the parts of a session what became of a packet's frames.
pub(super) struct Fate<'a> {
    session: &'a mut Session,
    pending: &'a mut pending::Pending,
    modes: &'a mut mode::Modes,
    received: &'a mut crate::ack::Received,
    credit: &'a mut crate::credit::SendCredit,
    pub(super) close_acked: bool,
    /// Lost messages wait until the program wants them to be sent again.
    pub(super) withhold: bool,
}

impl Connection {
    /// What became of packets, and whom in this connection and in `session` it concerns.
    pub(super) fn fates<'a>(
        &'a mut self,
        session: &'a mut Session,
    ) -> (&'a mut Recovery, Fate<'a>) {
        let withhold = session.manual;
        let fate = Fate {
            withhold,
            session,
            pending: &mut self.pending,
            modes: &mut self.modes,
            received: &mut self.received,
            credit: &mut self.credit,
            close_acked: false,
        };
        (&mut self.recovery, fate)
    }
}

impl Sink for Fate<'_> {
    fn acked(&mut self, _number: u64, frames: &[SentFrame]) {
        for frame in frames {
            match *frame {
                SentFrame::Whole { .. } | SentFrame::Part { .. } | SentFrame::Rts { .. } => {
                    self.session.outbox.on_acked(frame);
                }
                SentFrame::Ack { largest } => self.received.on_ack_acked(largest),
                SentFrame::Close => self.close_acked = true,
                _ => {}
            }
        }
    }

    fn lost(&mut self, _number: u64, frames: &[SentFrame]) {
        for frame in frames {
            match *frame {
                SentFrame::Whole { .. } | SentFrame::Part { .. } | SentFrame::Rts { .. }
                    if self.withhold => {}
                SentFrame::Whole { .. }
                | SentFrame::Part { .. }
                | SentFrame::Rts { .. }
                | SentFrame::ChannelBlocked { .. } => self.session.outbox.on_lost(frame),
                SentFrame::Cts { .. } | SentFrame::Refuse { .. } | SentFrame::MaxChannel { .. } => {
                    self.session.inbox.on_lost(frame);
                }
                SentFrame::Return { generation } => self.credit.on_return_lost(generation),
                SentFrame::Close => self.pending.close = true,
                SentFrame::Mode { number } => self.modes.on_lost(number),
                SentFrame::Suspension { number } => self.session.suspension.on_lost(number),
                _ => {}
            }
        }
    }
}
