//! The fate of what packets carried, as far as it concerns a session.

use super::Session;
use suci_channels::message::SentFrame;
use suci_link::link::Fate;

impl Fate<SentFrame> for Session {
    fn acked(&mut self, frame: &SentFrame) {
        self.outbox.on_acked(frame);
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
            SentFrame::Suspension { number } => self.suspension.on_lost(number),
            _ => {
                self.outbox.on_lost(frame);
                self.inbox.on_lost(frame);
            }
        }
    }
}

/// A session whose packets never left this machine: they are sent again even if the program decides
/// about losses.
pub(super) struct Unsent<'a>(pub(super) &'a mut Session);

impl Fate<SentFrame> for Unsent<'_> {
    fn acked(&mut self, frame: &SentFrame) {
        self.0.acked(frame);
    }

    fn lost(&mut self, frame: &SentFrame) {
        self.0.send_again(frame);
    }
}
