//! A value that each end tells the other in numbered frames: the mode of its traffic, and whether
//! it suspended the session.
//!
//! The newest frame counts: a late copy cannot undo a later one. The newest is sent until it is
//! acknowledged.

/// The values of both ends.
#[derive(Debug, Default)]
pub struct NumberedSetting<T> {
    ours: T,
    theirs: T,
    /// Number of our newest frame, 0 if there was none.
    number: u64,
    /// That frame must be sent, again if it was lost.
    due: bool,
    /// The highest number received from the peer.
    heard: u64,
}

impl<T: Copy + PartialEq> NumberedSetting<T> {
    /// Both ends begin with these values.
    pub fn new(ours: T, theirs: T) -> Self {
        Self {
            ours,
            theirs,
            number: 0,
            due: false,
            heard: 0,
        }
    }

    /// Returns our value.
    pub fn ours(&self) -> T {
        self.ours
    }

    /// Returns the peer's value.
    pub fn theirs(&self) -> T {
        self.theirs
    }

    /// Sets our value. Returns false if nothing changes.
    pub fn set_ours(&mut self, value: T) -> bool {
        if value == self.ours {
            return false;
        }
        self.ours = value;
        self.number = self.number.saturating_add(1);
        self.due = true;
        true
    }

    /// Returns the number of the frame that must be sent, and its value.
    pub fn due(&self) -> Option<(u64, T)> {
        self.due.then_some((self.number, self.ours))
    }

    /// Notes that the frame was sent.
    pub fn on_sent(&mut self) {
        self.due = false;
    }

    /// Notes that the frame with this number was lost.
    pub fn on_lost(&mut self, number: u64) {
        self.due |= number == self.number;
    }

    /// Makes the newest frame due on a new connection: the peer may not have received it.
    pub fn on_connected(&mut self) {
        self.due = self.number > 0;
    }

    /// Handles a frame of the peer. Returns true if its value changed.
    pub fn on_heard(&mut self, number: u64, value: T) -> bool {
        if number <= self.heard {
            return false;
        }
        self.heard = number;
        core::mem::replace(&mut self.theirs, value) != value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f10_a_late_copy_undoes_nothing() {
        let mut value = NumberedSetting::default();
        assert!(value.on_heard(1, true));
        assert!(value.on_heard(2, false));
        assert!(!value.on_heard(1, true), "overtaken");
        assert!(!value.on_heard(2, false), "repeated");
        assert!(!value.theirs());
        assert!(!value.on_heard(5, false), "no news, though newer");
        assert!(!value.on_heard(4, true));
    }

    #[test]
    fn the_newest_is_told_until_it_arrives_and_on_each_connection() {
        let mut value = NumberedSetting::new('a', 'a');
        value.on_connected();
        assert_eq!(value.due(), None, "nothing was ever said");
        assert!(value.set_ours('b'));
        assert!(!value.set_ours('b'));
        assert_eq!(value.due(), Some((1, 'b')));
        value.on_sent();
        assert_eq!(value.due(), None);
        assert!(value.set_ours('c'));
        value.on_sent();
        value.on_lost(1);
        assert_eq!(value.due(), None, "of no interest any more");
        value.on_lost(2);
        assert_eq!(value.due(), Some((2, 'c')));
        value.on_sent();
        value.on_connected();
        assert_eq!(value.due(), Some((2, 'c')));
        assert_eq!((value.ours(), value.theirs()), ('c', 'a'));
    }
}
