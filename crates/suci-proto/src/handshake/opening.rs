//! One attempt to open a connection, on the initiator's side.

use suci_link::time::{Duration, Instant};

/// First wait for an answer; doubled each time.
pub(crate) const FIRST_WAIT: Duration = Duration::from_millis(100);
/// Longest wait: a peer that starts late is found within this time (F23).
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// A caller whose HELLO did not come for this time has gone: two repetitions may be lost.
pub(crate) const CALLER_TIMEOUT: Duration = Duration::from_millis(2_500);
/// INITs sent before the cookie may have aged and the attempt begins anew.
const MAX_INITS: u32 = 6;
/// The same of INITs that carry messages: a path that carries only small packets loses all of them.
const MAX_RIDDEN_INITS: u32 = 3;

/// The packet that the attempt repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AttemptPhase {
    /// Waiting for a cookie.
    Hello,
    /// Waiting for ACCEPT; the INIT is repeated byte for byte.
    Init(Vec<u8>),
}

/// An attempt: its token, the packet that it repeats, and when.
#[derive(Debug)]
pub(crate) struct Opening {
    token: u64,
    phase: AttemptPhase,
    tries: u32,
    next_at: Instant,
    /// When the current packet was sent for the first and for the last time.
    first_sent: Instant,
    last_sent: Instant,
    was_put_off: bool,
    /// The time that HELLO's answer took at most, once it came, of a far peer that was there.
    answer_time: Duration,
    /// The same as a round trip, if it is known to be one.
    round_trip: Option<Duration>,
}

impl Opening {
    /// Returns an attempt whose HELLO is due at `now`.
    pub(crate) fn new(token: u64, now: Instant) -> Self {
        Self {
            token,
            phase: AttemptPhase::Hello,
            tries: 0,
            next_at: now,
            first_sent: now,
            last_sent: now,
            was_put_off: false,
            answer_time: Duration::ZERO,
            round_trip: None,
        }
    }

    pub(crate) fn token(&self) -> u64 {
        self.token
    }

    pub(crate) fn phase(&self) -> &AttemptPhase {
        &self.phase
    }

    /// Returns when the current packet is due (again).
    pub(crate) fn next_at(&self) -> Instant {
        self.next_at
    }

    /// Returns how often the current packet was sent.
    pub(crate) fn tries(&self) -> u32 {
        self.tries
    }

    /// Notes that the cookie came: INIT is due.
    pub(crate) fn cookie_came(&mut self, now: Instant) {
        self.answer_time = now.since(self.first_sent).min(CALLER_TIMEOUT);
        let is_round_trip = self.tries == 1 && !self.was_put_off;
        self.round_trip = is_round_trip.then(|| now.since(self.last_sent));
        self.hasten(now);
    }

    /// From now on `init` is repeated. Returns the time that the cookie took, if the HELLO was sent
    /// only once, so that the time is a round trip.
    pub(crate) fn begin_init(&mut self, now: Instant, init: Vec<u8>) -> Option<Duration> {
        self.phase = AttemptPhase::Init(init);
        self.tries = 0;
        self.next_at = now;
        self.round_trip
    }

    /// Makes the current packet due at once.
    pub(crate) fn hasten(&mut self, now: Instant) {
        self.next_at = now;
    }

    /// Delays the current packet, which cannot be made yet.
    pub(crate) fn postpone(&mut self, now: Instant) {
        self.next_at = now + LONGEST_WAIT;
    }

    /// Notes that the peer has no room for the HELLO yet; it is repeated after `wait`. The peer may
    /// answer once it has room, so the time until then is no round trip.
    pub(crate) fn put_off(&mut self, now: Instant, wait: Duration) {
        self.next_at = now + wait;
        // The peer answered, so no other address is tried.
        self.tries = 0;
        self.was_put_off = true;
    }

    /// Returns a new attempt after one that was refused at `now`. Its HELLO waits for this long.
    pub(crate) fn later(token: u64, now: Instant, wait: Duration) -> Self {
        Self {
            next_at: now + wait,
            ..Self::new(token, now)
        }
    }

    /// Returns true if the INIT was repeated so often that its cookie may have aged or, if it
    /// carries messages (`rode`), that the path may not carry packets of its size. An answer that
    /// takes as long as HELLO's is waited for: of two nodes that give up too early and call each
    /// other, each would accept an INIT that the other gave up.
    pub(crate) fn is_stale(&self, now: Instant, rode: bool) -> bool {
        let most = if rode { MAX_RIDDEN_INITS } else { MAX_INITS };
        let waited = now.since(self.first_sent) >= self.answer_time;
        matches!(self.phase, AttemptPhase::Init(_)) && self.tries >= most && waited
    }

    /// Notes that the current packet was sent.
    pub(crate) fn sent(&mut self, now: Instant) {
        let doubled = FIRST_WAIT.saturating_mul(1 << self.tries.min(10));
        let wait = doubled.min(LONGEST_WAIT);
        if self.tries == 0 {
            self.first_sent = now;
        }
        self.tries = self.tries.saturating_add(1);
        self.last_sent = now;
        self.next_at = now + wait;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Returns the measured round trip of a HELLO whose answer came after 30 ms.
    fn round_trip(put_off: bool) -> Option<Duration> {
        let mut opening = Opening::new(7, at(0));
        opening.sent(at(0));
        if put_off {
            opening.put_off(at(1), LONGEST_WAIT);
            assert_eq!(opening.next_at(), at(1_001), "it is repeated later");
            assert_eq!(opening.tries(), 0, "at the same address");
            opening.sent(at(20));
        }
        opening.cookie_came(at(30));
        let round_trip = opening.begin_init(at(40), Vec::new());
        assert_eq!((opening.token(), opening.next_at()), (7, at(40)));
        round_trip
    }

    #[test]
    fn the_time_for_which_a_hello_waited_is_no_round_trip() {
        assert_eq!(round_trip(false), Some(Duration::from_millis(30)));
        assert_eq!(round_trip(true), None);
    }

    /// Returns when an INIT is given up whose HELLO was answered after `answer` ms.
    fn given_up_at(answer: u64, rode: bool) -> u64 {
        let mut opening = Opening::new(7, at(0));
        while opening.next_at() < at(answer) {
            opening.sent(opening.next_at());
        }
        opening.cookie_came(at(answer));
        opening.begin_init(at(answer), Vec::new());
        while !opening.is_stale(opening.next_at(), rode) {
            opening.sent(opening.next_at());
        }
        opening.next_at().since(at(answer)).as_millis() as u64
    }

    #[test]
    fn an_init_to_a_far_peer_is_not_given_up_before_its_answer_can_come() {
        assert_eq!(given_up_at(30, true), 700);
        assert_eq!(given_up_at(30, false), 3_500);
        assert_eq!(given_up_at(1_900, true), 2_500);
        assert_eq!(given_up_at(60_000, true), 2_500, "the peer began late");
    }
}
