//! The path of packets, and how a new source address becomes the path (RFC 9000 sections 8.2 and
//! 9).
//!
//! A valid packet from another address only proves that it was relayed. The new address is
//! challenged; the path moves when the challenge comes back (F13).

use crate::limits::CREDIT_LAPSE;
use crate::time::{Duration, Instant};
use crate::train::Destination;
use std::net::{IpAddr, SocketAddr};

/// A challenge is repeated this often, and again when the new address is heard again.
const MAX_CHALLENGES: u32 = 5;
/// Wait between challenges.
const CHALLENGE_WAIT: Duration = Duration::from_millis(200);
/// The same if packets may be sent only after pauses of up to [`CREDIT_LAPSE`]: every other one
/// goes to the address in use, where the peer may well be.
const SELDOM_WAIT: Duration = Duration::from_nanos(CREDIT_LAPSE.as_nanos() as u64 / 2 * 3);

/// Probe timeouts in a row after which this host's own address may be the cause.
const DOUBTED_AFTER: u32 = 3;

/// An address under validation (RFC 9000 section 8.2).
#[derive(Clone, Copy, Debug)]
struct PathValidation {
    address: SocketAddr,
    nonce: u64,
    tries: u32,
    /// When the current series of challenges began.
    asked_at: Option<Instant>,
    /// When the next challenge is due; `None` after enough of them.
    next_at: Option<Instant>,
}

/// The path in use and the one that may replace it.
#[derive(Debug)]
pub struct Path {
    address: SocketAddr,
    /// The address of this host that the peer called: packets leave from it. `None` if this host
    /// called, or if the socket has a single address.
    source: Option<IpAddr>,
    validation: Option<Box<PathValidation>>,
}

impl Path {
    /// Begins at this address.
    #[must_use]
    pub fn new(destination: Destination) -> Self {
        Self {
            address: destination.to,
            source: destination.source,
            validation: None,
        }
    }

    /// Returns the peer's address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address from which the newest packets came, if it is not yet the path's.
    pub fn new_address(&self) -> Option<SocketAddr> {
        self.validation.as_deref().map(|p| p.address)
    }

    /// Returns the destination of packets, and their source address. The address that the peer
    /// called may have become useless: from the third probe timeout in a row on (`timeouts`), every
    /// other time the system chooses.
    pub fn destination(&self, timeouts: u32) -> Destination {
        let doubted = timeouts >= DOUBTED_AFTER && timeouts % 2 == 1;
        Destination {
            to: self.address,
            source: self.source.filter(|_| !doubted),
        }
    }

    /// Returns the destination and source of packets to another address of the peer.
    pub fn destination_at(&self, to: SocketAddr) -> Destination {
        let source = self.source;
        Destination { to, source }
    }

    /// Returns true if the path goes to `address`.
    pub fn leads_to(&self, address: &SocketAddr) -> bool {
        self.address == *address
    }

    /// Notes the source `from` of a fresh, authentic packet, the newest so far. A new address is
    /// challenged with a `nonce`.
    pub fn heard_from(&mut self, from: SocketAddr, nonce: impl FnOnce() -> u64, now: Instant) {
        if from == self.address {
            self.validation = None;
            return;
        }
        match &mut self.validation {
            Some(p) if p.address == from => {
                // The answer to its last challenge may be under way: the nonce stays.
                if p.next_at.is_none() {
                    (p.tries, p.next_at) = (0, Some(now));
                }
            }
            validation => {
                *validation = Some(Box::new(PathValidation {
                    address: from,
                    nonce: nonce(),
                    tries: 0,
                    asked_at: None,
                    next_at: Some(now),
                }));
            }
        }
    }

    /// Returns the challenge that is due at `now`: its destination and nonce.
    pub fn challenge_due(&self, now: Instant) -> Option<(SocketAddr, u64)> {
        self.validation
            .as_deref()
            .filter(|p| p.next_at.is_some_and(|at| at <= now))
            .map(|p| (p.address, p.nonce))
    }

    /// Notes that the challenge was sent; `seldom` if even the reserve for control is used up.
    pub fn challenge_sent(&mut self, now: Instant, seldom: bool) {
        if let Some(p) = &mut self.validation {
            if p.tries == 0 {
                p.asked_at = Some(now);
            }
            p.tries += 1;
            let wait = if seldom { SELDOM_WAIT } else { CHALLENGE_WAIT };
            p.next_at = (p.tries <= MAX_CHALLENGES).then(|| now + wait);
        }
    }

    /// Returns when the next challenge is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.validation.as_deref().and_then(|p| p.next_at)
    }

    /// Handles a RESPONSE. If it moves the path, returns an upper bound of the new round trip: all
    /// challenges carry the same nonce, so the time counts from the first.
    pub fn on_response(&mut self, nonce: u64, now: Instant) -> Option<Duration> {
        let validated = self.validation.as_deref().filter(|p| p.nonce == nonce)?;
        let asked_at = validated.asked_at?;
        self.address = validated.address;
        self.validation = None;
        Some(now.since(asked_at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn f13_the_path_moves_only_when_the_challenge_came_back() {
        let mut path = Path::new(address(1).into());
        path.heard_from(address(2), || 77, Instant::ZERO);
        assert_eq!(path.challenge_due(Instant::ZERO), Some((address(2), 77)));
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        assert_eq!(path.on_response(77, at(0)), None, "nothing was asked yet");
        path.challenge_sent(at(1), false);
        assert_eq!(path.address(), address(1));
        path.challenge_sent(at(201), false);
        assert_eq!(path.on_response(78, at(210)), None);
        let round_trip = path.on_response(77, at(210));
        assert_eq!(round_trip, Some(Duration::from_millis(209)));
        assert_eq!(path.address(), address(2));
        assert_eq!(path.deadline(), None);
    }

    #[test]
    fn f04_challenges_are_bounded() {
        for (seldom, time) in [(false, 1), (true, 75)] {
            let mut path = Path::new(address(1).into());
            path.heard_from(address(2), || 77, Instant::ZERO);
            let mut now = Instant::ZERO;
            let mut sent = 0;
            while let Some(at) = path.deadline() {
                now = now.max(at);
                assert!(path.challenge_due(now).is_some());
                path.challenge_sent(now, seldom);
                sent += 1;
            }
            assert_eq!(sent, MAX_CHALLENGES + 1);
            assert_eq!(now, Instant::ZERO + Duration::from_secs(time));
            path.heard_from(address(2), || 78, now);
            assert_eq!(path.challenge_due(now), Some((address(2), 77)), "again");
        }
    }

    #[test]
    fn f13_the_answer_to_the_last_challenge_counts() {
        let mut path = Path::new(address(1).into());
        path.heard_from(address(2), || 77, Instant::ZERO);
        let mut now = Instant::ZERO;
        while let Some(at) = path.deadline() {
            now = at;
            path.challenge_sent(now, false);
        }
        // The packet with the response is noted before its frames are read.
        path.heard_from(address(2), || 78, now);
        assert!(path.on_response(77, now).is_some());
        assert_eq!(path.address(), address(2));
    }

    #[test]
    fn f40_packets_leave_from_the_address_called_until_that_is_in_doubt() {
        let called = Some(IpAddr::from([127, 0, 0, 2]));
        let (to, source) = (address(1), called);
        let path = Path::new(Destination { to, source });
        let source = |timeouts| path.destination(timeouts).source;
        assert_eq!([0, 1, 2, 4].map(source), [called; 4]);
        assert_eq!([3, 5].map(source), [None; 2]);
        assert_eq!(path.destination_at(address(2)).source, called);
    }

    #[test]
    fn a_packet_from_the_old_address_ends_the_validation() {
        let mut path = Path::new(address(1).into());
        path.heard_from(address(2), || 77, Instant::ZERO);
        path.heard_from(address(1), || 78, Instant::ZERO);
        assert_eq!(path.deadline(), None);
    }
}
