//! The mode of traffic to a peer: the program's choice, the mode derived from the traffic, and the
//! mode announced to the other end.
//!
//! A mode applies to the traffic of the end that announces it. The sender of MODE adapts how it
//! asks for acknowledgements and cuts trains, its receiver how it acknowledges and grants
//! ([`Connection::apply_peer_mode`](super::Connection::apply_peer_mode)).

use crate::time::{Duration, Instant};
use crate::wire::Mode;

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

/// The modes of both directions of a connection.
#[derive(Debug)]
pub(crate) struct Modes {
    /// Both ends announced the extension.
    supported: bool,
    ours: Mode,
    /// The newest MODE of ours; 0 is the parameter of the handshake.
    number: u64,
    /// MODE must be sent, again if it was lost.
    due: bool,
    /// MODE does not wait for a packet that carries it.
    urgent: bool,
    theirs: Mode,
    /// The newest MODE of theirs.
    heard: u64,
}

impl Modes {
    /// Returns the modes of the handshake.
    pub(crate) fn new(supported: bool, ours: Mode, theirs: Mode) -> Self {
        Self {
            supported,
            ours,
            number: 0,
            due: false,
            urgent: false,
            theirs,
            heard: 0,
        }
    }

    /// Returns the mode of our traffic.
    pub(crate) fn ours(&self) -> Mode {
        self.ours
    }

    /// Returns the mode of the peer's traffic.
    pub(crate) fn theirs(&self) -> Mode {
        self.theirs
    }

    /// Sets the mode of our traffic. The program's choice (`wished`) is announced at once, a
    /// derived mode with the next packet.
    pub(crate) fn set_ours(&mut self, mode: Mode, wished: bool) {
        if mode == self.ours {
            return;
        }
        self.ours = mode;
        self.number = self.number.saturating_add(1);
        self.due = self.supported;
        self.urgent = self.supported && wished;
    }

    /// Returns the MODE that must be sent, with its number.
    pub(crate) fn due(&self) -> Option<(u64, Mode)> {
        self.due.then_some((self.number, self.ours))
    }

    /// Returns true if it should be sent in a packet of its own.
    pub(crate) fn is_urgent(&self) -> bool {
        self.due && self.urgent
    }

    pub(crate) fn on_sent(&mut self) {
        self.due = false;
    }

    /// Notes that the MODE with this number was lost: the newest is sent again.
    pub(crate) fn on_lost(&mut self, number: u64) {
        self.due |= number == self.number;
    }

    /// Handles MODE. Returns true if the peer's mode changed.
    pub(crate) fn on_heard(&mut self, number: u64, mode: Mode) -> bool {
        if number <= self.heard {
            return false;
        }
        self.heard = number;
        core::mem::replace(&mut self.theirs, mode) != mode
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

    #[test]
    fn the_newest_mode_counts_and_is_told_until_it_arrives() {
        let (mut a, mut b) = (
            Modes::new(true, Mode::Adaptive, Mode::Adaptive),
            Modes::new(true, Mode::Adaptive, Mode::Adaptive),
        );
        a.set_ours(Mode::Throughput, true);
        let first = a.due().unwrap();
        a.on_sent();
        assert_eq!(a.due(), None);
        a.set_ours(Mode::Response, true);
        let second = a.due().unwrap();
        a.on_sent();
        assert!(b.on_heard(second.0, second.1));
        assert!(!b.on_heard(first.0, first.1), "overtaken");
        assert_eq!(b.theirs(), Mode::Response);
        a.on_lost(first.0);
        assert_eq!(a.due(), None, "of no interest any more");
        a.on_lost(second.0);
        assert_eq!(a.due(), Some(second));
    }

    #[test]
    fn a_peer_without_the_extension_is_sent_no_mode() {
        let mut modes = Modes::new(false, Mode::Adaptive, Mode::Adaptive);
        modes.set_ours(Mode::Response, true);
        assert_eq!((modes.ours(), modes.due()), (Mode::Response, None));
    }
}
