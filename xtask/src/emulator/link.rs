//! The parameters of an emulated link.

use std::net::Ipv4Addr;
use std::time::Duration;

/// One direction of a link: its treatment of packets. The default passes each packet at once.
///
/// A packet meets these in the order of the fields: the size limit, the ECN field, the queue, loss,
/// duplication, delay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Direction {
    /// Largest IP packet that passes; any size without it.
    pub size_limit: Option<SizeLimit>,
    /// Treatment of the ECN field.
    pub ecn: Ecn,
    /// Rate in bits per second, of whole IP packets; unlimited without it.
    pub rate: Option<u64>,
    /// Bytes that may wait for their transmission; a packet that finds no room is dropped.
    /// Unlimited without it, and of no effect without a rate.
    pub queue: Option<u64>,
    /// Packets that are dropped at random, after they took their share of the rate.
    pub loss: Loss,
    /// Share of packets (0 to 1) that arrive twice, the second time immediately after the first.
    pub duplicate: f64,
    /// Time from the end of a packet's transmission to its arrival.
    pub delay: Duration,
    /// Each packet takes up to this much longer, and never overtakes an earlier one.
    pub jitter: Duration,
    /// Packets that are overtaken.
    pub reorder: Reorder,
}

/// Packets that are dropped at random.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each packet with this probability (0 to 1), independently of others.
    Even(f64),
    /// Runs of packets (Gilbert's model, 1960): all packets of a run are dropped.
    Bursts {
        /// Share of all packets that is dropped, 0 to below 1.
        share: f64,
        /// Mean number of packets in a run, 1 or more.
        length: f64,
    },
}

/// Packets that leave the order: each is chosen independently, takes up to `late` longer, and lets
/// others pass meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reorder {
    /// Share of packets that is chosen, 0 to 1.
    pub share: f64,
    /// Longest additional delay.
    pub late: Duration,
}

/// The largest IP packet that passes. A larger one is dropped, whether or not it may be fragmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeLimit {
    /// The limit in bytes, IP header included.
    pub bytes: u16,
    /// Whether the sender is told by ICMP ("fragmentation needed", "packet too big").
    pub icmp: bool,
}

/// A link's treatment of the ECN field (RFC 3168).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Ecn {
    /// Leaves it as it is.
    #[default]
    Pass,
    /// Bleaches it: all packets become Not-ECT.
    Bleach,
    /// Strips congestion marks: CE becomes ECT(0).
    Strip,
    /// Sets CE in this share (0 to 1) of the ECN-capable packets.
    Mark(f64),
    /// Drops ECN-capable packets.
    Drop,
}

/// An address translator (NAT) in front of a host: others see and reach the host at this address,
/// and no more at its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The address that others see.
    pub address: Ipv4Addr,
    /// The offset added to the port numbers of the host (modulo 65,536).
    pub port_shift: u16,
}

/// Both directions of a link, and the translators at its ends. The default is a link without limits
/// and without translators.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Link {
    /// From `a` to `b`.
    pub to_b: Direction,
    /// From `b` to `a`.
    pub to_a: Direction,
    /// The translator in front of `a`. Only IPv4 is translated; IPv6 passes unchanged.
    pub alias_of_a: Option<Alias>,
    /// The translator in front of `b`.
    pub alias_of_b: Option<Alias>,
}

impl Link {
    /// The same treatment in both directions.
    #[must_use]
    pub fn symmetric(direction: Direction) -> Self {
        Self {
            to_b: direction.clone(),
            to_a: direction,
            ..Self::default()
        }
    }

    /// A link that takes `round_trip` there and back, half of it each way.
    #[must_use]
    pub fn with_round_trip(round_trip: Duration) -> Self {
        Self::symmetric(Direction {
            delay: round_trip / 2,
            ..Direction::default()
        })
    }
}
