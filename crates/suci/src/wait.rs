//! How blocking calls wait.

use std::time::Duration;
use suci_proto::time::Instant;

/// Looks before a spinning thread lets others run: on a machine with a processor for each, what is waited
/// for has come by then; on any other, spinning on keeps the peer from answering.
const UNDISTURBED: u32 = 64;

/// How a blocking call waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Sleeps until something happens. Costs no processor time.
    #[default]
    Block,
    /// Looks again and again for so long, then sleeps. Saves the price of waking up (microseconds) at the
    /// price of one processor.
    Spin(Duration),
}

impl Wait {
    /// Spinning for up to 5 ms: longer than any round trip of a local network.
    pub const SPIN: Self = Self::Spin(Duration::from_millis(5));
}

/// One wait: looks at first, sleeps later.
#[derive(Debug)]
pub(crate) struct Spinner {
    wait: Wait,
    until: Option<Instant>,
    looks: u32,
}

impl Spinner {
    pub(crate) fn new(wait: Wait) -> Self {
        Self {
            wait,
            until: None,
            looks: 0,
        }
    }

    /// What was waited for came: the next wait begins.
    pub(crate) fn restart(&mut self) {
        *self = Self::new(self.wait);
    }

    /// Pauses for a moment and says that looking again is in order; or that sleeping is.
    pub(crate) fn pauses(&mut self, now: Instant) -> bool {
        let Wait::Spin(bound) = self.wait else {
            return false;
        };
        if now >= *self.until.get_or_insert(now + bound) {
            return false;
        }
        self.looks += 1;
        if self.looks <= UNDISTURBED {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spins_for_its_bound_then_sleeps_until_restarted() {
        let start = Instant::ZERO;
        let mut spinner = Spinner::new(Wait::Spin(Duration::from_millis(1)));
        assert!(spinner.pauses(start));
        assert!(spinner.pauses(start + Duration::from_micros(999)));
        assert!(!spinner.pauses(start + Duration::from_millis(1)));
        spinner.restart();
        assert!(spinner.pauses(start + Duration::from_millis(2)));
        assert!(!Spinner::new(Wait::Block).pauses(start));
    }
}
