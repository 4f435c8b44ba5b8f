//! The pace of a sender that its congestion window does not limit.
//!
//! Messages that come in bursts, or a receiver's credit, may keep less in flight than the
//! congestion window allows. The window then says nothing about the path (RFC 7661 calls it not
//! validated). At the pace of such a window each burst would leave at once, fill the queue of the
//! slowest link, and delay all other traffic there. The recent delivery rate is a better bound.

use crate::limits::ETHERNET_MTU;
use crate::recent_max::RecentMax;
use crate::recovery::{RateSample, Rtt};
use crate::time::{Duration, Instant, nanos};

/// Samples of fewer bytes (requests and replies) show how often the program sends, not the rate of
/// the path.
const BULK: u64 = 32 << 10;

/// Length of a span: so many round trips, but no less than [`SPAN`]. After two spans a rate is
/// forgotten. Each span without a sample raises the bound.
const SPAN_ROUNDS: u32 = 16;
const SPAN: Duration = Duration::from_millis(2);

/// Paths with a round trip this long or longer have no bound: a window that is spread over it is no
/// burst, and a bound that grows by a quarter in each round trip would rise too slowly.
const LONG: Duration = Duration::from_millis(5);

/// After so many spans without a sample there is no bound: it would be a thousand times the rate.
const OLD: u64 = 32;

/// The recent delivery rate, and whether it bounds the pace.
#[derive(Clone, Debug, Default)]
pub(super) struct CwndValidation {
    /// Highest rate in bytes per second, by spans.
    rates: RecentMax<u64>,
    span_ends: Instant,
    /// Messages or credit ran out since the window was last full.
    unvalidated: bool,
}

impl CwndValidation {
    /// Takes a sample of the delivery rate.
    pub(super) fn on_sample(&mut self, now: Instant, rtt: &Rtt, sample: &RateSample) {
        if sample.delivered < BULK {
            return;
        }
        if now >= self.span_ends {
            self.rates.end_period();
            self.span_ends = now + span(rtt);
        }
        self.rates.note(sample.per_second());
    }

    /// Notes that the sender ran out of messages or credit.
    pub(super) fn on_short(&mut self) {
        self.unvalidated = true;
    }

    /// Notes that the window is full: it limits the sender now.
    pub(super) fn on_full_window(&mut self) {
        self.unvalidated = false;
    }

    /// Returns the highest pace, in bytes per second: a quarter above the delivery rate, which
    /// detects a path that became faster, and a quarter more for each span without a sample. A
    /// receiver that answered late makes the path look slow, and at that pace too little may be in
    /// flight for another sample. `None` while the window is the limit, or no rate is known.
    pub(super) fn bound(&self, now: Instant, rtt: &Rtt) -> Option<u64> {
        let rate = self.rates.get();
        if !self.unvalidated || rate == 0 || rtt.min() >= LONG {
            return None;
        }
        let unheard = match now.since(self.span_ends) {
            Duration::ZERO => 0,
            late => nanos(late) / nanos(span(rtt)),
        };
        let least = rate.max(least(rtt));
        (unheard < OLD).then(|| (0..=unheard).fold(least, |rate, _| rate.saturating_add(rate / 4)))
    }

    /// Forgets the rates, which were measured on another path.
    pub(super) fn on_path_changed(&mut self) {
        *self = Self::default();
    }
}

/// Returns the least rate, in bytes per second, of a path that carried a full packet of Ethernet
/// within its shortest round trip. A lower measured rate shows a stall of the path or of the peer,
/// which must not slow the pace: messages would wait for as long as the stall, again and again. A
/// path whose shortest round trip was that of a small packet may be slower; the window is its
/// bound.
fn least(rtt: &Rtt) -> u64 {
    let second = Duration::from_secs(1);
    ETHERNET_MTU as u64 * nanos(second) / nanos(rtt.min()).max(1)
}

/// Returns the time of a span, at least [`SPAN`], so never zero. The round trip is capped: after a
/// stall it seems as long as the stall, and too little would be sent to measure a shorter one. A
/// queue is shorter than the cap.
fn span(rtt: &Rtt) -> Duration {
    (rtt.path().min(LONG * 4) * SPAN_ROUNDS).max(SPAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::AckDelays;

    fn rtt(micros: u64) -> Rtt {
        let mut rtt = Rtt::new(Duration::from_micros(micros));
        rtt.update(Duration::from_micros(micros), AckDelays::default());
        rtt
    }

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(1) + Duration::from_micros(micros)
    }

    fn sample(delivered: u64, micros: u64) -> RateSample {
        RateSample {
            delivered,
            interval: Duration::from_micros(micros),
            app_limited: true,
        }
    }

    #[test]
    fn bulk_that_the_window_does_not_limit_goes_a_quarter_faster_than_it_was_delivered() {
        let (mut cwnd_validation, rtt) = (CwndValidation::default(), rtt(500));
        cwnd_validation.on_short();
        assert_eq!(cwnd_validation.bound(at(0), &rtt), None, "nothing is known");
        cwnd_validation.on_sample(at(0), &rtt, &sample(125_000, 1_000));
        cwnd_validation.on_sample(at(10), &rtt, &sample(100_000, 1_000));
        assert_eq!(cwnd_validation.bound(at(20), &rtt), Some(156_250_000));
        cwnd_validation.on_full_window();
        assert_eq!(
            cwnd_validation.bound(at(20), &rtt),
            None,
            "the window limits"
        );
    }

    #[test]
    fn requests_and_replies_say_nothing_about_the_path() {
        let (mut cwnd_validation, rtt) = (CwndValidation::default(), rtt(500));
        cwnd_validation.on_short();
        cwnd_validation.on_sample(at(0), &rtt, &sample(BULK - 1, 1_000));
        assert_eq!(cwnd_validation.bound(at(0), &rtt), None);
        cwnd_validation.on_sample(at(0), &rtt, &sample(BULK, 1_000));
        assert_eq!(cwnd_validation.bound(at(0), &rtt), Some(BULK * 1_250));
        cwnd_validation.on_path_changed();
        cwnd_validation.on_short();
        assert_eq!(cwnd_validation.bound(at(0), &rtt), None);
    }

    #[test]
    fn long_paths_are_left_to_their_window() {
        let mut cwnd_validation = CwndValidation::default();
        cwnd_validation.on_short();
        cwnd_validation.on_sample(at(0), &rtt(5_000), &sample(BULK, 1_000));
        assert_eq!(cwnd_validation.bound(at(0), &rtt(5_000)), None);
        assert!(cwnd_validation.bound(at(0), &rtt(4_999)).is_some());
    }

    /// Time for which the peer's program waits does not count as part of the path.
    #[test]
    fn a_short_path_to_a_program_that_pauses_is_short() {
        let (mut cwnd_validation, mut rtt) = (CwndValidation::default(), Rtt::new(Duration::ZERO));
        let delays = AckDelays {
            reported: Duration::from_millis(100),
            ..AckDelays::default()
        };
        rtt.update(Duration::from_micros(100_500), delays);
        cwnd_validation.on_short();
        cwnd_validation.on_sample(at(0), &rtt, &sample(BULK, 1_000));
        let bound = |micros| cwnd_validation.bound(at(micros), &rtt);
        assert_eq!(bound(7_999), Some(BULK * 1_250));
        assert_eq!(
            bound(16_000),
            Some(BULK * 1_250 * 5 / 4),
            "sixteen of 500 us passed"
        );
    }

    /// Everything stalled for three seconds, and is as before since. The stall must not slow the
    /// pace for long.
    #[test]
    fn f16_a_stall_does_not_count_as_a_slow_path() {
        let (mut cwnd_validation, mut rtt) = (CwndValidation::default(), rtt(100));
        cwnd_validation.on_short();
        rtt.update(Duration::from_secs(3), AckDelays::default());
        cwnd_validation.on_sample(at(0), &rtt, &sample(2 * BULK, 3_000_000));
        let bound = |millis: u64| cwnd_validation.bound(at(1_000 * millis), &rtt).unwrap();
        // A packet in 100 us.
        let least = ETHERNET_MTU as u64 * 10_000;
        assert_eq!(bound(319), least * 5 / 4);
        assert_eq!(bound(640), least * 25 / 16, "two of sixteen of 20 ms");
        assert!(bound(6_400) > 80 * least);
    }

    #[test]
    fn a_path_that_became_slower_is_learnt_in_two_spans() {
        let (mut cwnd_validation, rtt) = (CwndValidation::default(), rtt(500));
        cwnd_validation.on_short();
        cwnd_validation.on_sample(at(0), &rtt, &sample(1_000_000, 1_000));
        for (micros, fast) in [(7_999, true), (8_000, true), (16_000, false)] {
            cwnd_validation.on_sample(at(micros), &rtt, &sample(100_000, 1_000));
            let expected = if fast { 1_250_000_000 } else { 125_000_000 };
            assert_eq!(cwnd_validation.bound(at(micros), &rtt), Some(expected));
        }
    }

    #[test]
    fn old_measurements_bound_less_and_less() {
        let (mut cwnd_validation, rtt) = (CwndValidation::default(), rtt(500));
        cwnd_validation.on_short();
        cwnd_validation.on_sample(at(0), &rtt, &sample(BULK, 8_000));
        let bound = |spans: u64| cwnd_validation.bound(at(8_000 * spans), &rtt);
        assert_eq!(bound(1), Some(BULK * 125 * 5 / 4), "a span has passed");
        assert_eq!(
            bound(2),
            Some(BULK * 125 * 25 / 16),
            "and one without a sample"
        );
        assert!(bound(32).unwrap() > 1_000 * BULK * 125);
        assert_eq!(bound(33), None);
    }
}
