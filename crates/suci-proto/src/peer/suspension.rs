//! Suspension of a session by either side, and the frames that announce it.
//!
//! Every SUSPEND and RESUME has a number, and the newest counts: a late copy cannot undo a later
//! frame. The newest is sent until it is acknowledged, and once more on each new connection.

use super::{Connection, Peer, Session};
use crate::engine::Shared;
use crate::event::{Event, Side};
use crate::wire::{EXTENSION_SUSPENSION, Frame};

/// The sides that suspended a session. It ends with the session.
#[derive(Debug, Default)]
pub(crate) struct Suspension {
    here: bool,
    there: bool,
    /// Number of the newest SUSPEND or RESUME of ours, 0 if there was none.
    said: u64,
    /// The newest must be sent (again).
    due: bool,
    /// The highest number received from the peer.
    heard: u64,
}

impl Suspension {
    /// Applies the decision of this side's program. Returns false if nothing changes.
    pub(crate) fn decide(&mut self, suspended: bool) -> bool {
        if self.here == suspended {
            return false;
        }
        self.here = suspended;
        self.said = self.said.saturating_add(1);
        self.due = true;
        true
    }

    /// Applies a SUSPEND or RESUME of the peer. Returns true if the state changed.
    pub(crate) fn hear(&mut self, number: u64, suspended: bool) -> bool {
        if number <= self.heard {
            return false;
        }
        self.heard = number;
        core::mem::replace(&mut self.there, suspended) != suspended
    }

    /// Returns the side that suspended the session; this side if both did, since only its program
    /// can undo that.
    pub(crate) fn by(&self) -> Option<Side> {
        match (self.here, self.there) {
            (true, _) => Some(Side::Here),
            (false, true) => Some(Side::There),
            (false, false) => None,
        }
    }

    pub(crate) fn is_here(&self) -> bool {
        self.here
    }

    pub(crate) fn is_there(&self) -> bool {
        self.there
    }

    /// Returns the frame that must be sent, with its number.
    pub(crate) fn due(&self) -> Option<(Frame<'static>, u64)> {
        let number = self.said;
        let frame = match self.here {
            true => Frame::Suspend { number },
            false => Frame::Resume { number },
        };
        self.due.then_some((frame, number))
    }

    /// Notes that the frame was sent.
    pub(crate) fn on_sent(&mut self) {
        self.due = false;
    }

    /// Notes that the frame with this number was lost.
    pub(crate) fn on_lost(&mut self, number: u64) {
        self.due |= number == self.said;
    }

    /// Makes the newest frame due on a new connection: the peer may not have received it.
    pub(crate) fn on_connected(&mut self) {
        self.due = self.said > 0;
    }
}

impl Connection {
    /// Returns the SUSPEND or RESUME of `session` that must be sent to the peer. Without the
    /// extension, messages are only held back on this side.
    pub(super) fn suspension_due(
        &self,
        session: &Session,
        is_over: bool,
    ) -> Option<(Frame<'static>, u64)> {
        let spoken = self.speaks(EXTENSION_SUSPENSION);
        session.suspension.due().filter(|_| spoken && !is_over)
    }
}

impl Peer {
    /// Suspends or resumes the session for this side's program.
    pub(crate) fn set_suspended(&mut self, suspended: bool, shared: &mut Shared) {
        if self.session.suspension.decide(suspended) {
            self.tell_suspension(Side::Here, suspended, shared);
        }
    }

    /// Tells the program that one side suspended or resumed the session.
    pub(super) fn tell_suspension(&mut self, by: Side, suspended: bool, shared: &mut Shared) {
        let node = self.node;
        shared.on_suspension(node);
        let event = match suspended {
            true => Event::Suspended { node, by },
            false => Event::Resumed { node, by },
        };
        self.push_event(event, shared);
        #[cfg(suci_plant)]
        if !suspended && crate::plant::active("resume-forgets-channel") {
            self.session.outbox.plant_forgotten_channel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f10_a_late_copy_undoes_nothing() {
        let mut suspension = Suspension::default();
        assert!(suspension.hear(1, true));
        assert!(suspension.hear(2, false));
        assert!(!suspension.hear(1, true), "overtaken");
        assert!(!suspension.hear(2, false), "repeated");
        assert_eq!(suspension.by(), None);
        assert!(!suspension.hear(5, false), "no news, though newer");
        assert!(!suspension.hear(4, true));
    }

    #[test]
    fn the_newest_is_said_until_it_arrives_and_on_each_connection() {
        let mut suspension = Suspension::default();
        suspension.on_connected();
        assert_eq!(suspension.due(), None, "nothing was ever said");
        assert!(suspension.decide(true));
        assert!(!suspension.decide(true));
        assert_eq!(suspension.due(), Some((Frame::Suspend { number: 1 }, 1)));
        suspension.on_sent();
        assert!(suspension.decide(false));
        suspension.on_sent();
        suspension.on_lost(1);
        assert_eq!(suspension.due(), None, "history");
        suspension.on_lost(2);
        assert_eq!(suspension.due(), Some((Frame::Resume { number: 2 }, 2)));
        suspension.on_sent();
        suspension.on_connected();
        assert_eq!(suspension.due(), Some((Frame::Resume { number: 2 }, 2)));
    }

    #[test]
    fn either_side_suspends_and_only_itself_resumes() {
        let mut suspension = Suspension::default();
        suspension.hear(1, true);
        suspension.decide(true);
        assert_eq!(suspension.by(), Some(Side::Here));
        suspension.decide(false);
        assert_eq!(suspension.by(), Some(Side::There));
        suspension.hear(2, false);
        assert_eq!(suspension.by(), None);
    }
}
