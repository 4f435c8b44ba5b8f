//! The network: addresses that change, links with latency and rate, and every fault that a packet
//! can meet. It decides which packets arrive and when; it does not know the meaning of packets.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;

use bytes::Bytes;
use suci_proto::time::{Duration, Instant, nanos};
use suci_proto::types::Ecn;

use crate::options::{Faults, Links, Marks};
use crate::packet::{HostId, Packet};
use crate::report::Tally;
use crate::rng::Rng;

/// Hosts cut off from the rest.
#[derive(Clone, Debug)]
struct Cut {
    hosts: Vec<HostId>,
    outwards: bool,
    inwards: bool,
    until: Instant,
}

/// A packet that will arrive.
pub type Arrival = (Instant, HostId, Packet);

/// All links between all hosts.
#[derive(Debug)]
pub struct Network {
    /// The properties that may change during a run.
    pub links: Links,
    /// The faults of packets.
    pub faults: Faults,
    rng: Rng,
    salt: u64,
    routes: BTreeMap<SocketAddr, HostId>,
    /// The owner of every address that ever was.
    owners: BTreeMap<SocketAddr, HostId>,
    addresses: Vec<SocketAddr>,
    rebinds: u16,
    cuts: Vec<Cut>,
    /// The times until which each host's link is busy with its sent packets.
    busy: Vec<Instant>,
    /// Time at which the newest in-order packet of a pair arrives: jitter alone does not reorder.
    ordered: BTreeMap<(HostId, HostId), Instant>,
}

impl Network {
    /// Returns a network of that many hosts.
    #[must_use]
    pub fn new(seed: u64, hosts: usize, links: Links, faults: Faults) -> Self {
        let addresses: Vec<_> = (0..hosts)
            .map(|host| address(host, 7_000, links.ipv6))
            .collect();
        let routes: BTreeMap<_, _> = addresses.iter().copied().zip(0..).collect();
        let owners = routes.clone();
        let mut rng = Rng::new(seed, 2);
        let salt = rng.word();
        let busy = vec![Instant::ZERO; hosts];
        let ordered = BTreeMap::new();
        Self {
            links,
            faults,
            rng,
            salt,
            routes,
            owners,
            addresses,
            rebinds: 0,
            cuts: Vec::new(),
            busy,
            ordered,
        }
    }

    /// Returns a host's address as others see it now.
    #[must_use]
    pub fn address(&self, host: HostId) -> SocketAddr {
        self.addresses
            .get(host)
            .copied()
            .unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))
    }

    /// Returns a host's address in the address books: the one it began with.
    #[must_use]
    pub fn book_address(&self, host: HostId) -> SocketAddr {
        address(host, 7_000, self.links.ipv6)
    }

    /// Returns the host that an address leads to.
    #[must_use]
    pub fn host_at(&self, to: SocketAddr) -> Option<HostId> {
        self.routes.get(&to).copied()
    }

    /// Gives a host a new address: port and sometimes IP address. `keep`: the old one still leads
    /// to it.
    pub fn rebind(&mut self, host: HostId, keep: bool) {
        self.rebinds += 1;
        let number = if self.rng.chance(300_000) {
            host + 0x8000
        } else {
            host
        };
        let fresh = address(number, 7_000 + self.rebinds, self.links.ipv6);
        if let Some(current) = self.addresses.get_mut(host) {
            if !keep {
                self.routes.remove(current);
            }
            *current = fresh;
            self.routes.insert(fresh, host);
            self.owners.insert(fresh, host);
        }
    }

    /// Returns the owner of an address, now or before, wherever it leads now.
    #[must_use]
    pub fn owner_of(&self, address: SocketAddr) -> Option<HostId> {
        self.owners.get(&address).copied()
    }

    /// Cuts hosts off, in one direction or both.
    pub fn cut(&mut self, hosts: Vec<HostId>, outwards: bool, inwards: bool, until: Instant) {
        self.cuts.push(Cut {
            hosts,
            outwards,
            inwards,
            until,
        });
    }

    /// Stops every fault. Addresses of the book lead to their hosts again; the newest stay.
    pub fn mend(&mut self) {
        self.faults = Faults::NONE;
        self.cuts.clear();
        self.links.mtu = self.links.mtu.max(1_200);
        self.links.marks = Marks::Pass;
        for host in 0..self.addresses.len() {
            self.routes
                .insert(address(host, 7_000, self.links.ipv6), host);
        }
    }

    /// Sends a packet. Adds its arrivals, and their times, to `arrivals`.
    pub fn carry(
        &mut self,
        now: Instant,
        packet: Packet,
        tally: &mut Tally,
        arrivals: &mut Vec<Arrival>,
    ) {
        tally.packets += 1;
        let Some(to) = self.host_at(packet.to) else {
            tally.unroutable += 1;
            return;
        };
        let from = packet.source;
        if packet.bytes.len() > self.links.mtu {
            tally.oversized += 1;
            return;
        }
        let mut packet = packet;
        if packet.ecn != Ecn::NotEct {
            match self.links.marks {
                Marks::Pass => {}
                Marks::Dropped => {
                    tally.marks_dropped += 1;
                    return;
                }
                Marks::Erased => packet.ecn = Ecn::NotEct,
                Marks::Congested => packet.ecn = Ecn::Ce,
            }
        }
        if self.is_cut(now, from, to) {
            tally.cut += 1;
            return;
        }
        let Some(leaves) = self.transmit(now, from, packet.bytes.len()) else {
            tally.queue_full += 1;
            return;
        };
        let spared = self.is_spared(from, to);
        if self.happens(self.faults.loss, spared) {
            tally.lost += 1;
            return;
        }
        if self.happens(self.faults.duplicate, spared) {
            tally.duplicated += 1;
            let mut copy = packet.clone();
            copy.fate.duplicate = true;
            let at = self.arrives(leaves, from, to, spared, &mut copy, tally);
            arrivals.push((at, to, copy));
        }
        let at = self.arrives(leaves, from, to, spared, &mut packet, tally);
        arrivals.push((at, to, packet));
    }

    fn is_cut(&mut self, now: Instant, from: HostId, to: HostId) -> bool {
        self.cuts.retain(|cut| cut.until > now);
        self.cuts.iter().any(|cut| {
            let (inside, towards) = (cut.hosts.contains(&from), cut.hosts.contains(&to));
            (cut.outwards && inside && !towards) || (cut.inwards && towards && !inside)
        })
    }

    /// Returns the time at which the last bit leaves the sending host; none if its queue is full.
    fn transmit(&mut self, now: Instant, from: HostId, size: usize) -> Option<Instant> {
        let Some(rate) = self.links.rate else {
            return Some(now);
        };
        let Some(busy) = self.busy.get_mut(from) else {
            return Some(now);
        };
        let begins = now.max(*busy);
        if begins.since(now) > self.links.queue {
            return None;
        }
        let wire = (size as u64 + 28) * 1_000_000_000 / rate.max(1);
        *busy = begins + Duration::from_nanos(wire);
        Some(*busy)
    }

    fn arrives(
        &mut self,
        leaves: Instant,
        from: HostId,
        to: HostId,
        spared: bool,
        packet: &mut Packet,
        tally: &mut Tally,
    ) -> Instant {
        if self.happens(self.faults.flip, spared) {
            self.flip(packet);
            tally.flipped += u64::from(packet.fate.damaged);
        }
        if packet.ecn == Ecn::Ect0 && self.happens(self.faults.mark, spared) {
            tally.marked += 1;
            packet.ecn = Ecn::Ce;
        }
        let jitter = self.rng.range(0, nanos(self.links.jitter).max(1));
        let mut at = leaves + self.latency(from, to) + Duration::from_nanos(jitter);
        if self.happens(self.faults.hold, spared) {
            tally.held += 1;
            packet.fate.held = true;
            return at
                + self
                    .rng
                    .duration(Duration::from_millis(100), self.faults.hold_by);
        }
        if self.happens(self.faults.reorder, spared) {
            tally.reordered += 1;
            packet.fate.held = true;
            return at
                + self
                    .rng
                    .duration(Duration::from_micros(1), self.faults.reorder_by);
        }
        let ordered = self.ordered.entry((from, to)).or_default();
        at = at.max(*ordered);
        *ordered = at;
        at
    }

    /// Returns the least time from one host to another and back.
    #[must_use]
    pub fn round_trip(&self, one: HostId, other: HostId) -> Duration {
        self.latency(one, other) + self.latency(other, one)
    }

    /// Returns the shortest round trip from this host to any other, without detours.
    #[must_use]
    pub fn least_round_trip(&self, host: HostId, hosts: usize) -> Duration {
        let others = (0..hosts).filter(|other| *other != host);
        let both = others.map(|other| self.direct(host, other) + self.direct(other, host));
        both.min().unwrap_or_default()
    }

    fn latency(&self, from: HostId, to: HostId) -> Duration {
        let detour = match to {
            0 => self.links.detour,
            _ => Duration::ZERO,
        };
        self.direct(from, to) + detour
    }

    /// Returns the time on the way without a detour.
    fn direct(&self, from: HostId, to: HostId) -> Duration {
        let pair = (from as u64) << 32 | to as u64;
        let percent = 75 + crate::rng::mix(self.salt ^ pair) % 75;
        Duration::from_nanos(nanos(self.links.latency) / 100 * percent)
    }

    /// Returns true if this direction is the better one of its pair.
    fn is_spared(&self, from: HostId, to: HostId) -> bool {
        let (low, high) = (from.min(to) as u64, from.max(to) as u64);
        let bit = crate::rng::mix(self.salt ^ (low << 32 | high) ^ 1) & 1 == 1;
        (from < to) == bit
    }

    fn happens(&mut self, ppm: u32, spared: bool) -> bool {
        let share = if spared {
            100 - self.faults.asymmetry.min(100)
        } else {
            100
        };
        let ppm = u64::from(ppm) * u64::from(share) / 100;
        self.rng.chance(u32::try_from(ppm).unwrap_or(u32::MAX))
    }

    fn flip(&mut self, packet: &mut Packet) {
        let mut bytes = packet.bytes.to_vec();
        damage(&mut self.rng, &mut bytes);
        // Two flips of one bit are none.
        if packet.bytes != bytes {
            packet.fate.damaged = true;
            packet.carries = Rc::new([]);
            packet.bytes = Bytes::from(bytes);
        }
    }
}

/// Flips one to three bits: CRC32C sees all of those at any length that a datagram has (Hamming
/// distance 4, Castagnoli 1993), so that none may pass.
pub fn damage(rng: &mut Rng, bytes: &mut [u8]) {
    if bytes.is_empty() {
        return;
    }
    let near = rng.index(0, bytes.len());
    for _ in 0..rng.range(1, 4) {
        let at = if rng.chance(500_000) {
            near
        } else {
            rng.index(0, bytes.len())
        };
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << rng.range(0, 8);
        }
    }
}

fn address(host: usize, port: u16, ipv6: bool) -> SocketAddr {
    let host = u32::try_from(host).unwrap_or(0);
    if ipv6 {
        let bits = (0xfd00_u128 << 112) | u128::from(host + 1);
        SocketAddr::from((Ipv6Addr::from_bits(bits), port))
    } else {
        SocketAddr::from((Ipv4Addr::from_bits(0x0a00_0000 + host + 1), port))
    }
}
