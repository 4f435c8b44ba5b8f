//! The stateless cookie: proof that the initiator receives packets at the address that it sends
//! from.
//!
//! Bound to that address, the HELLO's token, the initiator's node and incarnation and our own
//! incarnation (the key is drawn per engine), and to a coarse time. A keyed 128-bit SipHash-2-4
//! suffices: a cookie protects memory, not secrets, and lives for seconds.

use super::pending_inits::{Caller, Trust};
use super::sources::SourcePrefix;
use core::hash::Hasher;
use siphasher::sip128::{Hasher128, SipHasher24};
use std::net::SocketAddr;
use suci_link::limits::COOKIE_LIFETIME;
use suci_link::time::Instant;
use suci_link::train::Destination;
use suci_link::types::{Incarnation, NodeId};

/// Bytes of a cookie on the wire.
pub(crate) type CookieBytes = [u8; 24];

/// The facts that a cookie proves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// Where the HELLO came from, and the answer goes.
    pub(crate) origin: Destination,
    pub(crate) node: NodeId,
    pub(crate) incarnation: Incarnation,
    pub(crate) token: u64,
}

/// Bakes and checks cookies.
#[derive(Debug)]
pub(crate) struct CookieKey {
    key: [u8; 16],
}

impl CookieKey {
    pub(crate) fn new(key: [u8; 16]) -> Self {
        Self { key }
    }

    /// Makes the cookie for `claim`.
    pub(crate) fn make(&self, now: Instant, claim: &Claim) -> CookieBytes {
        let stamp = now.as_nanos();
        let mut cookie = [0; 24];
        cookie[..8].copy_from_slice(&stamp.to_le_bytes());
        cookie[8..].copy_from_slice(&self.mac(stamp, claim));
        cookie
    }

    /// Returns the time when we made `cookie` for `claim`; `None` if we did not, or too long ago.
    pub(crate) fn check(
        &self,
        now: Instant,
        claim: &Claim,
        cookie: &CookieBytes,
    ) -> Option<Instant> {
        let (stamp, mac) = cookie.split_at(8);
        let stamp = u64::from_le_bytes(stamp.try_into().unwrap_or_default());
        let made = Instant::from_nanos(stamp);
        // Constant time is not needed: a guess costs 2^64 packets within the lifetime.
        let genuine = mac == self.mac(stamp, claim);
        let fresh = made <= now && now.since(made) <= COOKIE_LIFETIME;
        (genuine && fresh).then_some(made)
    }

    /// Returns the name of the sender of `claim` among the callers whose INIT is
    /// [expected](super::PendingInits). A known node's name depends on its ID alone.
    pub(crate) fn caller(&self, claim: &Claim, trust: Trust) -> Caller {
        let name = |bytes: [u8; 16]| (u128::from_le_bytes(bytes) as u64).max(1);
        let node = || {
            let mut hash = SipHasher24::new_with_key(&self.key);
            hash.write_u32(claim.node.0);
            name(hash.finish128().as_bytes())
        };
        match trust {
            Trust::Admitted => Caller::Admitted(node()),
            Trust::Known => Caller::Known(node()),
            Trust::Stranger => Caller::Stranger {
                // No cookie has this time.
                name: name(self.mac(u64::MAX, claim)),
                source: self.source(claim),
            },
        }
    }

    /// Returns the keyed hash of the network prefix that `claim` came from.
    pub(crate) fn source(&self, claim: &Claim) -> u64 {
        let mut hash = SipHasher24::new_with_key(&self.key);
        hash.write_u64(SourcePrefix::from(claim.origin.to.ip()).bits());
        u128::from_le_bytes(hash.finish128().as_bytes()) as u64
    }

    fn mac(&self, stamp: u64, claim: &Claim) -> [u8; 16] {
        let mut hash = SipHasher24::new_with_key(&self.key);
        hash.write_u64(stamp);
        match claim.origin.to {
            SocketAddr::V4(at) => hash.write(&at.ip().octets()),
            SocketAddr::V6(at) => {
                hash.write(&at.ip().octets());
                hash.write_u32(at.scope_id());
            }
        }
        hash.write_u16(claim.origin.to.port());
        hash.write_u32(claim.node.0);
        hash.write_u128(claim.incarnation.0);
        hash.write_u64(claim.token);
        hash.finish128().as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv6Addr, SocketAddrV6};
    use suci_link::time::Duration;

    fn claim(port: u16) -> Claim {
        Claim {
            origin: SocketAddr::from(([127, 0, 0, 1], port)).into(),
            node: NodeId(7),
            incarnation: Incarnation(1),
            token: 9,
        }
    }

    #[test]
    fn f01_a_cookie_is_bound_to_its_address() {
        let key = CookieKey::new([3; 16]);
        let now = Instant::from_nanos(5);
        let cookie = key.make(now, &claim(1));
        assert_eq!(key.check(now, &claim(1), &cookie), Some(now));
        assert_eq!(key.check(now, &claim(2), &cookie), None, "another port");
        let zoned = |zone: u32| Claim {
            origin: SocketAddr::from(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 1, 0, zone)).into(),
            ..claim(1)
        };
        let cookie = key.make(now, &zoned(1));
        assert_eq!(key.check(now, &zoned(1), &cookie), Some(now));
        assert_eq!(key.check(now, &zoned(2), &cookie), None, "another zone");
        assert_eq!(
            CookieKey::new([4; 16]).check(now, &claim(1), &cookie),
            None,
            "another key"
        );
    }

    #[test]
    fn f10_a_cookie_ages() {
        let key = CookieKey::new([3; 16]);
        let made = Instant::from_nanos(1_000_000_000);
        let cookie = key.make(made, &claim(1));
        assert!(
            key.check(made + COOKIE_LIFETIME, &claim(1), &cookie)
                .is_some()
        );
        assert!(
            key.check(
                made + COOKIE_LIFETIME + Duration::from_nanos(1),
                &claim(1),
                &cookie
            )
            .is_none()
        );
        assert!(
            key.check(Instant::ZERO, &claim(1), &cookie).is_none(),
            "from the future"
        );
    }

    #[test]
    fn f02_a_known_node_is_one_caller_whatever_it_claims() {
        let key = CookieKey::new([3; 16]);
        let other = Claim {
            node: NodeId(8),
            ..claim(1)
        };
        assert_eq!(
            key.caller(&claim(1), Trust::Known),
            key.caller(&claim(2), Trust::Known)
        );
        assert_ne!(
            key.caller(&claim(1), Trust::Known),
            key.caller(&other, Trust::Known)
        );
        assert_ne!(
            key.caller(&claim(1), Trust::Stranger),
            key.caller(&claim(2), Trust::Stranger)
        );
        assert_eq!(
            key.caller(&claim(1), Trust::Stranger),
            key.caller(&claim(1), Trust::Stranger)
        );
    }
}
