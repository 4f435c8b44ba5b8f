//! Bounds of events per second.

use suci_link::time::Instant;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// The events of the present second, whose number is bounded because anyone may cause them.
#[derive(Debug, Default)]
pub(crate) struct EventRate {
    second: u64,
    events: u64,
}

impl EventRate {
    /// Counts an event at `now`. Returns false and does not count it if the present second has had
    /// `most` events.
    pub(crate) fn admit(&mut self, now: Instant, most: u64) -> bool {
        let second = now.as_nanos() / SECOND;
        if second != self.second {
            (self.second, self.events) = (second, 0);
        }
        let admitted = self.events < most;
        self.events += u64::from(admitted);
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suci_link::time::Duration;

    #[test]
    fn each_second_has_a_bound_of_its_own() {
        let mut rate = EventRate::default();
        let mut admitted = |millis| {
            let now = Instant::ZERO + Duration::from_millis(millis);
            (0..5).filter(|_| rate.admit(now, 3)).count()
        };
        assert_eq!([0, 999, 1_000, 4_500].map(&mut admitted), [3, 0, 3, 3]);
    }
}
