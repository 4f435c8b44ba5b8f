//! The pace of a sender that its congestion window does not limit.
//!
//! Messages that come in bursts, or a receiver's credit, may keep less in flight than the congestion window allows.
//! The window then says nothing about the path (RFC 7661 calls it not validated): sent at its pace, each burst would
//! leave at once, fill the queue of the slowest link, and make whoever else uses that link wait. What the path
//! delivered of late says more.

use crate::recovery::RateSample;
use crate::time::{Duration, Instant};

/// Samples of fewer bytes say how often the program sends, not what the path carries: requests and replies.
const BULK: u64 = 32 << 10;

/// Round trips for which the window counts as not validated after messages or credit ran out.
const UNVALIDATED: u32 = 4;

/// Round trips, and time at least, after which half of what was measured is forgotten.
const SPAN_ROUNDS: u32 = 16;
const SPAN: Duration = Duration::from_millis(2);

/// What the path delivered of late, and whether that bounds the pace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slack {
    /// Highest rates in bytes per second of this span and of the one before.
    rates: [u64; 2],
    span_ends: Instant,
    /// Until when the window is not what limits.
    until: Option<Instant>,
}

impl Slack {
    /// A sample of the delivery rate was taken.
    pub(crate) fn on_sample(&mut self, now: Instant, rtt: Duration, sample: &RateSample) {
        if sample.delivered < BULK {
            return;
        }
        if now >= self.span_ends {
            self.rates = [0, self.rates[0]];
            self.span_ends = now + (rtt * SPAN_ROUNDS).max(SPAN);
        }
        self.rates[0] = self.rates[0].max(sample.per_second());
    }

    /// Sending stopped: for want of messages or credit if `slack`, else for whatever reason.
    pub(crate) fn on_stopped(&mut self, now: Instant, rtt: Duration, slack: bool) {
        if slack {
            self.until = Some(now + rtt * UNVALIDATED);
        } else if self.until.is_some_and(|until| until <= now) {
            self.until = None;
        }
    }

    /// The highest pace, in bytes per second: a quarter more than the path delivered, so that one that became faster
    /// is found out. `None` while the window is what limits, or nothing is known.
    pub(crate) fn bound(&self) -> Option<u64> {
        self.until?;
        let rate = self.rates[0].max(self.rates[1]);
        (rate > 0).then(|| rate.saturating_add(rate / 4))
    }

    /// What was measured speaks of another path.
    pub(crate) fn on_path_changed(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_micros(500);

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
        let mut slack = Slack::default();
        slack.on_stopped(at(0), RTT, true);
        assert_eq!(slack.bound(), None, "nothing is known");
        slack.on_sample(at(0), RTT, &sample(125_000, 1_000));
        slack.on_sample(at(10), RTT, &sample(100_000, 1_000));
        assert_eq!(slack.bound(), Some(156_250_000));
        slack.on_stopped(at(1_999), RTT, false);
        assert!(slack.bound().is_some(), "four round trips");
        slack.on_stopped(at(2_000), RTT, false);
        assert_eq!(slack.bound(), None, "the window limits");
    }

    #[test]
    fn requests_and_replies_say_nothing_about_the_path() {
        let mut slack = Slack::default();
        slack.on_stopped(at(0), RTT, true);
        slack.on_sample(at(0), RTT, &sample(BULK - 1, 1_000));
        assert_eq!(slack.bound(), None);
        slack.on_sample(at(0), RTT, &sample(BULK, 1_000));
        assert_eq!(slack.bound(), Some(BULK * 1_250));
        slack.on_path_changed();
        assert_eq!(slack.bound(), None);
    }

    #[test]
    fn a_path_that_became_slower_is_learnt_in_two_spans() {
        let mut slack = Slack::default();
        slack.on_sample(at(0), RTT, &sample(1_000_000, 1_000));
        for (micros, fast) in [(7_999, true), (8_000, true), (16_000, false)] {
            slack.on_stopped(at(micros), RTT, true);
            slack.on_sample(at(micros), RTT, &sample(100_000, 1_000));
            let bound = slack.bound().unwrap();
            assert_eq!(bound, if fast { 1_250_000_000 } else { 125_000_000 });
        }
    }
}
