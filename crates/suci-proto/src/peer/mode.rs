//! The mode of traffic to a peer: the program's choice, the mode derived from the traffic, and the
//! mode announced to the other end.
//!
//! A mode applies to the traffic of the end that announces it. The sender of MODE adapts how it
//! asks for acknowledgements and cuts trains, its receiver how it acknowledges and grants
//! ([`AckSettings`](suci_link::link::AckSettings)).

use suci_link::time::{Duration, Instant};
use suci_link::wire::Mode;

/// Time after which a long queue (more than a window or 1 MiB) selects Throughput, and a shorter
/// queue ends it.
const LONG: Duration = Duration::from_millis(20);

/// Consecutive exchanges, each ended by a message that acknowledges everything, which show that a
/// program waits for answers. The number doubles, up to the second constant, each time that this
/// proves wrong: if answers are too late to carry the acknowledgement, each wrong guess costs a
/// packet.
const EXCHANGES: u32 = 16;
const MOST_EXCHANGES: u32 = 4_096;

/// Bound of packets in an exchange that counts: half of the grant of a receiver in Response.
pub(super) const SHORT: u64 = 8;

/// The mode derived from the traffic to an Adaptive peer.
#[derive(Debug)]
pub(crate) struct TrafficClassifier {
    mode: Mode,
    /// The time since which the traffic contradicts `mode`.
    otherwise_since: Option<Instant>,
    exchanges: u32,
    /// Exchanges needed for Response.
    needed: u32,
}

impl Default for TrafficClassifier {
    fn default() -> Self {
        Self {
            mode: Mode::Adaptive,
            otherwise_since: None,
            exchanges: 0,
            needed: EXCHANGES,
        }
    }
}

impl TrafficClassifier {
    /// Notes that packets to the peer were built. `long`: a long queue remains.
    pub(crate) fn on_queue(&mut self, now: Instant, long: bool) {
        if long {
            self.exchanges = 0;
        }
        if long == (self.mode == Mode::Throughput) {
            self.otherwise_since = None;
            return;
        }
        let since = *self.otherwise_since.get_or_insert(now);
        if now.since(since) >= LONG {
            self.otherwise_since = None;
            self.mode = if long {
                Mode::Throughput
            } else {
                Mode::Adaptive
            };
        }
    }

    /// Notes a message that would wait for credit with the receiver's share for Response: Response
    /// does not suit such exchanges.
    pub(crate) fn on_long_message(&mut self) {
        self.exchanges = 0;
        if self.mode == Mode::Response {
            self.doubt();
            self.mode = Mode::Adaptive;
        }
    }

    /// Notes that everything sent was acknowledged. `answered`: the acknowledging packet carried a
    /// message.
    pub(crate) fn on_exchange(&mut self, answered: bool) {
        if self.mode == Mode::Throughput {
            return;
        }
        if answered {
            self.exchanges = self.exchanges.saturating_add(1);
        } else {
            if self.mode == Mode::Response {
                self.doubt();
            }
            self.exchanges = 0;
        }
        self.mode = if self.exchanges >= self.needed {
            Mode::Response
        } else {
            Mode::Adaptive
        };
    }

    /// Raises the exchanges needed, because Response proved wrong.
    fn doubt(&mut self) {
        self.needed = (self.needed * 2).min(MOST_EXCHANGES);
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_long_queue_selects_throughput_until_it_is_short_again() {
        let mut classifier = TrafficClassifier::default();
        classifier.on_queue(at(0), true);
        classifier.on_queue(at(19), true);
        assert_eq!(classifier.mode(), Mode::Adaptive);
        classifier.on_queue(at(20), true);
        assert_eq!(classifier.mode(), Mode::Throughput);
        classifier.on_queue(at(21), false);
        classifier.on_queue(at(30), true);
        classifier.on_queue(at(31), false);
        assert_eq!(classifier.mode(), Mode::Throughput, "a short pause is none");
        classifier.on_queue(at(51), false);
        assert_eq!(classifier.mode(), Mode::Adaptive);
    }

    #[test]
    fn a_queue_that_empties_in_between_stays_adaptive() {
        let mut classifier = TrafficClassifier::default();
        for ms in 0..100 {
            classifier.on_queue(at(ms), ms % 2 == 0);
        }
        assert_eq!(classifier.mode(), Mode::Adaptive);
    }

    #[test]
    fn answers_select_response_until_one_is_missing() {
        let mut classifier = TrafficClassifier::default();
        for _ in 1..EXCHANGES {
            classifier.on_exchange(true);
        }
        assert_eq!(classifier.mode(), Mode::Adaptive);
        classifier.on_exchange(true);
        assert_eq!(classifier.mode(), Mode::Response);
        classifier.on_exchange(false);
        assert_eq!(classifier.mode(), Mode::Adaptive);
        for _ in 0..EXCHANGES {
            classifier.on_exchange(true);
        }
        assert_eq!(classifier.mode(), Mode::Adaptive, "once bitten");
        for _ in 0..EXCHANGES {
            classifier.on_exchange(true);
        }
        assert_eq!(classifier.mode(), Mode::Response);
        classifier.on_queue(at(0), true);
        classifier.on_queue(at(20), true);
        assert_eq!(classifier.mode(), Mode::Throughput, "whatever was answered");
    }
}
