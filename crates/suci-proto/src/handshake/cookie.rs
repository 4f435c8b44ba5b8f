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

/// Bakes and checks cookies, and keeps count of those that may still come back.
#[derive(Debug)]
pub(crate) struct CookieJar {
    key: [u8; 16],
    /// Cookies handed out in the current and in the previous lifetime.
    recent: [u64; 2],
    period: u64,
}

impl CookieJar {
    pub(crate) fn new(key: [u8; 16]) -> Self {
        Self {
            key,
            recent: [0; 2],
            period: 0,
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

    /// Cookies whose INIT may still come: each needs one packet of socket budget kept free.
    pub(crate) fn outstanding(&mut self, now: Instant) -> u64 {
        self.turn(now);
        self.recent[0] + self.recent[1]
    }

    /// Makes the cookie for `claim`.
    pub(crate) fn bake(&mut self, now: Instant, claim: &Claim) -> Cookie {
        self.turn(now);
        self.recent[0] += 1;
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

    /// An INIT came back with its cookie: it is outstanding no more.
    pub(crate) fn redeemed(&mut self) {
        let [current, previous] = &mut self.recent;
        let slot = if *previous > 0 { previous } else { current };
        *slot = slot.saturating_sub(1);
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
        let mut jar = CookieJar::new([3; 16]);
        let now = Instant::from_nanos(5);
        let cookie = jar.bake(now, &claim(1));
        assert_eq!(jar.check(now, &claim(1), &cookie), Some(now));
        assert_eq!(jar.check(now, &claim(2), &cookie), None, "another port");
        assert_eq!(
            CookieJar::new([4; 16]).check(now, &claim(1), &cookie),
            None,
            "another key"
        );
    }

    #[test]
    fn f10_a_cookie_ages() {
        let mut jar = CookieJar::new([3; 16]);
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

    #[test]
    fn f02_outstanding_cookies_are_counted_and_forgotten() {
        let mut jar = CookieJar::new([3; 16]);
        let start = Instant::ZERO;
        for port in 0..5 {
            jar.bake(start, &claim(port));
        }
        assert_eq!(jar.outstanding(start), 5);
        jar.redeemed();
        assert_eq!(jar.outstanding(start), 4);
        assert_eq!(
            jar.outstanding(start + COOKIE_LIFETIME),
            4,
            "still redeemable"
        );
        assert_eq!(jar.outstanding(start + COOKIE_LIFETIME * 3), 0);
    }
}
