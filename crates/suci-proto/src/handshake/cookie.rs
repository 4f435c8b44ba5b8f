//! The stateless cookie: proof that the initiator receives at the address it sends from.
//!
//! Bound to that address, the HELLO's token, the initiator's node and incarnation and our own
//! incarnation (the key is drawn per engine), and to a coarse time. A keyed 128-bit SipHash-2-4
//! suffices: a cookie protects memory, not secrets, and lives for seconds.

use crate::limits::COOKIE_LIFETIME;
use crate::time::{Instant, nanos};
use crate::types::{Incarnation, NodeId};
use core::hash::Hasher;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::net::{IpAddr, SocketAddr};

/// Bytes of a cookie on the wire.
pub(crate) type Cookie = [u8; 24];

/// What a cookie vouches for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) from: SocketAddr,
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) token: u64,
}

/// Seats among which a claim chooses.
const WAYS: usize = 8;

/// Seats for each claim that the socket's budget lets be outstanding, so that hardly any finds its seats taken.
const SPARE: u64 = 2;

/// Most seats: a MiB of them.
const MOST_SEATS: u64 = 1 << 16;

/// A claim whose cookie is outstanding.
#[derive(Clone, Copy, Debug, Default)]
struct Seat {
    /// The claim's keyed hash; 0 if the seat is free.
    claim: u64,
    /// The lifetime in which its newest cookie was made.
    period: u64,
}

/// Bakes and checks cookies, and keeps count of the claims whose cookie may still come back.
///
/// A claim is counted once, however often its HELLO is repeated: else one client that asks and never comes
/// would keep newcomers out. The claims counted sit in a table of fixed size, by a keyed hash. One that was
/// driven from its seat may be counted again and stays counted until its cookies aged: the count errs upwards.
#[derive(Debug)]
pub(crate) struct CookieJar {
    key: [u8; 16],
    /// Claims counted whose newest cookie was made in the current and in the previous lifetime.
    recent: [u64; 2],
    period: u64,
    seats: Box<[Seat]>,
}

impl CookieJar {
    /// A jar for at most about `most` claims at once.
    pub(crate) fn new(key: [u8; 16], most: u64) -> Self {
        let seats = most.saturating_mul(SPARE).min(MOST_SEATS);
        let groups = usize::try_from(seats).unwrap_or(0).div_ceil(WAYS).max(1);
        Self {
            key,
            recent: [0; 2],
            period: 0,
            seats: vec![Seat::default(); groups * WAYS].into_boxed_slice(),
        }
    }

    fn turn(&mut self, now: Instant) {
        let period = now.as_nanos() / nanos(COOKIE_LIFETIME).max(1);
        match period.saturating_sub(self.period) {
            0 => {}
            1 => self.recent = [0, self.recent[0]],
            _ => self.recent = [0, 0],
        }
        self.period = period;
    }

    /// Claims beside this one whose INIT may still come: each needs one packet of socket budget kept free.
    pub(crate) fn outstanding_beside(&mut self, now: Instant, claim: &Claim) -> u64 {
        self.turn(now);
        let name = self.name(claim);
        let own = u64::from(self.seat(name).is_some());
        let [current, previous] = self.recent;
        current.saturating_add(previous).saturating_sub(own)
    }

    /// Makes the cookie for `claim`.
    pub(crate) fn bake(&mut self, now: Instant, claim: &Claim) -> Cookie {
        self.turn(now);
        self.count(claim);
        let stamp = now.as_nanos();
        let mut cookie = [0; 24];
        cookie[..8].copy_from_slice(&stamp.to_le_bytes());
        cookie[8..].copy_from_slice(&self.mac(stamp, claim));
        cookie
    }

    /// When we made `cookie` for `claim`; none if we did not, or too long ago.
    pub(crate) fn check(&self, now: Instant, claim: &Claim, cookie: &Cookie) -> Option<Instant> {
        let (stamp, mac) = cookie.split_at(8);
        let stamp = u64::from_le_bytes(stamp.try_into().unwrap_or_default());
        let baked = Instant::from_nanos(stamp);
        // Constant time is not needed: a guess costs 2^64 packets within the lifetime.
        let genuine = mac == self.mac(stamp, claim);
        let fresh = baked <= now && now.since(baked) <= COOKIE_LIFETIME;
        (genuine && fresh).then_some(baked)
    }

    /// An INIT came back with a cookie for `claim`: it is outstanding no more.
    pub(crate) fn redeemed(&mut self, now: Instant, claim: &Claim) {
        self.turn(now);
        let name = self.name(claim);
        let period = self.period;
        if let Some(seat) = self.seat(name) {
            let counted = usize::from(seat.period != period);
            *seat = Seat::default();
            self.uncount(counted);
        }
    }

    /// Counts a claim, or counts it for the current lifetime instead of the previous one.
    fn count(&mut self, claim: &Claim) {
        let name = self.name(claim);
        let period = self.period;
        let mut moved = false;
        if let Some(seat) = self.seat(name) {
            if seat.period == period {
                return;
            }
            seat.period = period;
            moved = true;
        } else if let Some(seat) = self
            .seats_for(name)
            .iter_mut()
            .min_by_key(|seat| (seat.claim != 0, seat.period))
        {
            *seat = Seat {
                claim: name,
                period,
            };
        }
        if moved {
            self.uncount(1);
        }
        let [current, _] = &mut self.recent;
        *current = current.saturating_add(1);
    }

    fn uncount(&mut self, which: usize) {
        if let Some(count) = self.recent.get_mut(which) {
            *count = count.saturating_sub(1);
        }
    }

    /// Where the claim sits that is called `name`, if it is counted.
    fn seat(&mut self, name: u64) -> Option<&mut Seat> {
        let oldest = self.period.saturating_sub(1);
        self.seats_for(name)
            .iter_mut()
            .find(|seat| seat.claim == name && seat.period >= oldest)
    }

    fn seats_for(&mut self, name: u64) -> &mut [Seat] {
        let groups = (self.seats.len() / WAYS).max(1) as u64;
        let first = (name % groups) as usize * WAYS;
        self.seats.get_mut(first..first + WAYS).unwrap_or_default()
    }

    /// What a claim is called among the seats: a hash that nobody outside can make collide.
    fn name(&self, claim: &Claim) -> u64 {
        // No cookie bears this time.
        let name = u128::from_le_bytes(self.mac(u64::MAX, claim)) as u64;
        name.max(1)
    }

    fn mac(&self, stamp: u64, claim: &Claim) -> [u8; 16] {
        let mut hash = SipHasher24::new_with_key(&self.key);
        hash.write_u64(stamp);
        match claim.from.ip() {
            IpAddr::V4(ip) => hash.write(&ip.octets()),
            IpAddr::V6(ip) => hash.write(&ip.octets()),
        }
        hash.write_u16(claim.from.port());
        hash.write_u32(claim.node.0);
        hash.write_u128(claim.incarnation.0);
        hash.write_u64(claim.token);
        hash.finish128().as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Duration;

    fn claim(port: u16) -> Claim {
        Claim {
            from: SocketAddr::from(([127, 0, 0, 1], port)),
            node: NodeId(7),
            incarnation: Incarnation(1),
            token: 9,
        }
    }

    #[test]
    fn f01_a_cookie_is_bound_to_its_address() {
        let mut jar = CookieJar::new([3; 16], 32);
        let now = Instant::from_nanos(5);
        let cookie = jar.bake(now, &claim(1));
        assert_eq!(jar.check(now, &claim(1), &cookie), Some(now));
        assert_eq!(jar.check(now, &claim(2), &cookie), None, "another port");
        assert_eq!(
            CookieJar::new([4; 16], 32).check(now, &claim(1), &cookie),
            None,
            "another key"
        );
    }

    #[test]
    fn f10_a_cookie_ages() {
        let mut jar = CookieJar::new([3; 16], 32);
        let baked = Instant::from_nanos(1_000_000_000);
        let cookie = jar.bake(baked, &claim(1));
        assert!(
            jar.check(baked + COOKIE_LIFETIME, &claim(1), &cookie)
                .is_some()
        );
        assert!(
            jar.check(
                baked + COOKIE_LIFETIME + Duration::from_nanos(1),
                &claim(1),
                &cookie
            )
            .is_none()
        );
        assert!(
            jar.check(Instant::ZERO, &claim(1), &cookie).is_none(),
            "from the future"
        );
    }

    fn outstanding(jar: &mut CookieJar, now: Instant) -> u64 {
        jar.outstanding_beside(now, &claim(u16::MAX))
    }

    #[test]
    fn f02_outstanding_cookies_are_counted_and_forgotten() {
        let mut jar = CookieJar::new([3; 16], 32);
        let start = Instant::ZERO;
        for port in 0..5 {
            jar.bake(start, &claim(port));
        }
        assert_eq!(outstanding(&mut jar, start), 5);
        assert_eq!(jar.outstanding_beside(start, &claim(4)), 4, "its own place");
        jar.redeemed(start, &claim(0));
        jar.redeemed(start, &claim(0));
        assert_eq!(outstanding(&mut jar, start), 4, "an INIT counts once");
        assert_eq!(
            outstanding(&mut jar, start + COOKIE_LIFETIME),
            4,
            "still redeemable"
        );
        assert_eq!(outstanding(&mut jar, start + COOKIE_LIFETIME * 3), 0);
    }

    #[test]
    fn f02_a_repeated_hello_counts_once_while_its_cookies_live() {
        let mut jar = CookieJar::new([3; 16], 32);
        let mut now = Instant::ZERO;
        for _ in 0..100 {
            jar.bake(now, &claim(1));
            assert_eq!(outstanding(&mut jar, now), 1);
            now += Duration::from_secs(1);
        }
        let last = now - Duration::from_secs(1);
        let newest = jar.bake(last, &claim(1));
        assert!(
            jar.check(last + COOKIE_LIFETIME, &claim(1), &newest)
                .is_some(),
            "redeemable, "
        );
        assert_eq!(
            outstanding(&mut jar, last + COOKIE_LIFETIME),
            1,
            "so it is counted"
        );
        assert_eq!(outstanding(&mut jar, last + COOKIE_LIFETIME * 2), 0);
    }

    #[test]
    fn f02_claims_beyond_the_table_are_never_counted_too_low() {
        let mut jar = CookieJar::new([3; 16], 8);
        let most = jar.seats.len() as u64;
        for _ in 0..3 {
            for port in 0..100 {
                jar.bake(Instant::ZERO, &claim(port));
            }
        }
        let counted = outstanding(&mut jar, Instant::ZERO);
        assert!((100..=300).contains(&counted), "{counted}");
        (0..100).for_each(|port| jar.redeemed(Instant::ZERO, &claim(port)));
        let left = outstanding(&mut jar, Instant::ZERO);
        assert_eq!(left, counted - most, "who had a seat gave it back");
        assert_eq!(jar.seats.len() as u64, most, "however many came");
    }
}
