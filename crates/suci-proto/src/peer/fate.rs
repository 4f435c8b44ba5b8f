//! The fate of what packets carried, as far as it concerns a session.

use super::Session;
use suci_link::link::Fate;
use suci_link::recovery::SentFrame;

impl Fate for Session {
    fn acked(&mut self, frame: &SentFrame) {
        if let SentFrame::Data { .. } | SentFrame::Rts { .. } | SentFrame::Fin { .. } = frame {
            self.outbox.on_acked(frame);
        }
    }

    fn lost(&mut self, frame: &SentFrame) {
        match frame {
            // The program asks for the repetition.
            SentFrame::Data { .. } | SentFrame::Rts { .. } if self.manual => {}
            _ => self.send_again(frame),
        }
    }
}

impl Session {
    fn send_again(&mut self, frame: &SentFrame) {
        match *frame {
            SentFrame::Data { .. }
            | SentFrame::Rts { .. }
            | SentFrame::ChannelBlocked { .. }
            | SentFrame::Fin { .. } => self.outbox.on_lost(frame),
            SentFrame::Cts { .. }
            | SentFrame::Refuse { .. }
            | SentFrame::MaxChannel { .. }
            | SentFrame::MaxChannels => self.inbox.on_lost(frame),
            SentFrame::Suspension { number } => self.suspension.on_lost(number),
            _ => {}
        }
    }
}

/// A session whose packets never left this machine: they are sent again even if the program decides
/// about losses.
pub(super) struct Unsent<'a>(pub(super) &'a mut Session);

impl Fate for Unsent<'_> {
    fn acked(&mut self, frame: &SentFrame) {
        self.0.acked(frame);
    }

    fn lost(&mut self, frame: &SentFrame) {
        self.0.send_again(frame);
    }
}
