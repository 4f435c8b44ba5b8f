//! Suspension of a session by either side, and the frames that announce it: SUSPEND and RESUME.

use super::{Peer, Session};
use crate::event::{Event, Side};
use crate::shared::Shared;

impl Session {
    /// Returns the side that suspended the session; this side if both did, since only its program
    /// can undo that.
    pub(crate) fn suspended_by(&self) -> Option<Side> {
        match (self.suspension.ours(), self.suspension.theirs()) {
            (true, _) => Some(Side::Here),
            (false, true) => Some(Side::There),
            (false, false) => None,
        }
    }
}

impl Peer {
    /// Suspends or resumes the session for this side's program.
    pub(crate) fn set_suspended(&mut self, suspended: bool, shared: &mut Shared) {
        if self.session.suspension.set_ours(suspended) {
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
        self.push_event(event, &mut shared.notices);
        #[cfg(suci_plant)]
        if !suspended && suci_link::plant::active("resume-forgets-channel") {
            self.session.outbox.plant_forgotten_channel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use suci_channels::message::Pool;
    use suci_link::types::NodeId;

    #[test]
    fn either_side_suspends_and_only_itself_resumes() {
        let mut session = Session::new(NodeId(1), &Config::default(), &Pool::new(0));
        session.suspension.on_heard(1, true);
        session.suspension.set_ours(true);
        assert_eq!(session.suspended_by(), Some(Side::Here));
        session.suspension.set_ours(false);
        assert_eq!(session.suspended_by(), Some(Side::There));
        session.suspension.on_heard(2, false);
        assert_eq!(session.suspended_by(), None);
    }
}
