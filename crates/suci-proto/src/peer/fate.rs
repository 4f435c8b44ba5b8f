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
    /// Bytes of one message that arrived and the outbox was not told yet: packets in a row carried what adjoins.
    arrived: Option<SentFrame>,
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
            arrived: None,
            close_acked: false,
        };
        (&mut self.recovery, fate)
    }
}

impl Fate<'_> {
    /// Tells the outbox what is left to tell: after everything else.
    pub(super) fn settle(&mut self) {
        if let Some(frame) = self.arrived.take() {
            self.session.outbox.on_acked(&frame);
        }
    }
}

impl Sink for Fate<'_> {
    fn acked(&mut self, _number: u64, frames: &[SentFrame]) {
        for frame in frames {
            match *frame {
                SentFrame::Part { .. } => {
                    let known = self.arrived.as_mut();
                    let adjoins = known.is_some_and(|part| adjoin(part, frame));
                    if !adjoins {
                        self.settle();
                        self.arrived = Some(*frame);
                    }
                }
                SentFrame::Whole { .. } | SentFrame::Rts { .. } => {
                    self.settle();
                    self.session.outbox.on_acked(frame);
                }
                SentFrame::Ack { largest } => self.received.on_ack_acked(largest),
                SentFrame::Close => self.close_acked = true,
                _ => {}
            }
        }
    }

    fn lost(&mut self, _number: u64, frames: &[SentFrame]) {
        self.settle();
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

/// Makes `part` reach to the end of `next`, if that is a part of the same message and begins where it ends.
fn adjoin(part: &mut SentFrame, next: &SentFrame) -> bool {
    let (
        SentFrame::Part {
            channel,
            message,
            end,
            ..
        },
        &SentFrame::Part {
            channel: of,
            message: number,
            start,
            end: reach,
        },
    ) = (part, next)
    else {
        return false;
    };
    let adjoins = (*channel, *message, *end) == (of, number, start);
    if adjoins {
        *end = reach;
    }
    adjoins
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ChannelId;

    fn part(channel: u32, message: u64, start: u64, end: u64) -> SentFrame {
        SentFrame::Part {
            channel: ChannelId(channel),
            message,
            start,
            end,
        }
    }

    #[test]
    fn parts_of_one_message_adjoin_where_one_ends_and_the_next_begins() {
        let mut sum = part(1, 2, 10, 20);
        assert!(adjoin(&mut sum, &part(1, 2, 20, 25)));
        assert_eq!(sum, part(1, 2, 10, 25));
        for other in [
            part(2, 2, 25, 30),
            part(1, 3, 25, 30),
            part(1, 2, 26, 30),
            part(1, 2, 24, 30),
            SentFrame::Close,
        ] {
            assert!(!adjoin(&mut sum, &other));
            assert_eq!(sum, part(1, 2, 10, 25), "nothing changed");
        }
    }
}
