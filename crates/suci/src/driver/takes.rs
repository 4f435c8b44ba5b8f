//! How fast the program takes messages that are there already, and how seldom the clock may be read meanwhile.

use super::STALE;
use suci_proto::time::Instant;

/// Messages between two readings of the clock at most: a reading costs as much as taking a small message.
const UNTIMED: u32 = 16;

/// Messages taken without a look at the socket.
pub(super) struct Takes {
    /// Messages since the clock was read.
    untimed: u32,
    /// After how many it is read again.
    most: u32,
    timed_at: Instant,
}

impl Takes {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            untimed: 0,
            most: 1,
            timed_at: now,
        }
    }

    /// The program took a message. Whether to read the clock: after each one, unless the program took many in much
    /// less time than a look may be old.
    pub(super) fn wants_time(&mut self) -> bool {
        self.untimed += 1;
        self.untimed >= self.most
    }

    /// It was read.
    pub(super) fn note(&mut self, now: Instant) {
        let fast = now.since(self.timed_at) < STALE / 8;
        *self = Self {
            untimed: 0,
            most: if fast {
                (self.most * 2).min(UNTIMED)
            } else {
                1
            },
            timed_at: now,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// How often the clock is read while `messages` are taken that take so long each.
    fn readings(takes: &mut Takes, now: &mut Instant, messages: u32, each: Duration) -> u32 {
        let mut readings = 0;
        for _ in 0..messages {
            *now += each;
            if takes.wants_time() {
                takes.note(*now);
                readings += 1;
            }
        }
        readings
    }

    #[test]
    fn a_fast_program_is_timed_seldom_and_a_slow_one_after_each_message() {
        let mut now = Instant::ZERO;
        let mut takes = Takes::new(now);
        let fast = readings(&mut takes, &mut now, 1_600, Duration::from_nanos(50));
        assert!((100..110).contains(&fast), "{fast}");
        let slow = readings(&mut takes, &mut now, 100, Duration::from_millis(1));
        assert!(
            slow > 100 - UNTIMED,
            "{slow}: only the first few are not timed"
        );
    }
}
