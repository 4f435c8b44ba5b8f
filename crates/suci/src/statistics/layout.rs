//! The indices of all values in a statistics file: docs/statistics.md in numbers.
//!
//! The file is an array of 64-bit little-endian words. The order of the tables here is the order in
//! the file: a new field goes to the end of its table, and [`VERSION`] rises when one moves.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use suci_net::Counters as SocketCounters;
use suci_proto::types::NodeId;
use suci_proto::wire::Mode;
use suci_proto::{Counters, LinkState, PeerStats, Traffic, WaitReason, Waited, Waits};

/// The first word of a file that is complete: `SUCISTAT`.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"SUCISTAT");
/// The version of this layout.
pub(crate) const VERSION: u64 = 1;

/// The most peers in a file. Each costs the memory of a record; if there are more, the busiest are
/// shown.
pub(crate) const MAX_PEERS: usize = 128;

/// Words of the header, a page of 4 KiB.
pub(crate) const HEADER: usize = 512;
/// Words of a peer's record.
pub(crate) const RECORD: usize = 96;
/// Words of a file.
pub(crate) const WORDS: usize = HEADER + MAX_PEERS * RECORD;
/// Bytes of a file.
pub(crate) const BYTES: usize = WORDS * 8;

/// Words of the header that never change once [`MAGIC`] stands there.
pub(crate) mod head {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const VERSION: usize = 1;
    pub(crate) const HEADER: usize = 2;
    pub(crate) const RECORD: usize = 3;
    pub(crate) const CAPACITY: usize = 4;
    pub(crate) const PID: usize = 5;
    pub(crate) const STARTED: usize = 6;
    pub(crate) const NAMESPACE: usize = 7;
    pub(crate) const NODE: usize = 8;
    pub(crate) const OPENED: usize = 9;
    /// Two words.
    pub(crate) const PROGRAM: usize = 10;
    /// Three words.
    pub(crate) const ADDRESS: usize = 12;
}

/// Words of the node's record, which begins with its generation.
pub(crate) mod node {
    pub(crate) const GENERATION: usize = 64;
    pub(crate) const CLOCK: usize = 65;
    pub(crate) const PUBLISHED: usize = 66;
    pub(crate) const PEERS_KNOWN: usize = 67;
    pub(crate) const PEERS_SHOWN: usize = 68;
    pub(crate) const COUNTERS: usize = 72;
    pub(crate) const SOCKET: usize = 128;
    pub(crate) const END: usize = 192;
}

/// Words of the slot in which the node is asked for something, and of its answer: the request done
/// last.
pub(crate) mod slot {
    pub(crate) const REQUEST: usize = 192;
    pub(crate) const DONE: usize = 193;
}

/// Words within a peer's record, which begins with its generation.
pub(crate) mod peer {
    pub(crate) const GENERATION: usize = 0;
    pub(crate) const NODE: usize = 1;
    /// Bits 0..8 the link, bit 8 suspended by this side, bit 9 by the peer.
    pub(crate) const LINK: usize = 2;
    /// The mode of traffic to the peer, and from bit 8 that of traffic from it.
    pub(crate) const MODES: usize = 3;
    /// 0: nothing; else the reason's number and 1.
    pub(crate) const WAITING: usize = 4;
    /// Three words.
    pub(crate) const ADDRESS: usize = 5;
    pub(crate) const FIELDS: usize = 16;
    /// Two words for each reason: nanoseconds, times.
    pub(crate) const WAITS: usize = 48;
}

// Tables end before the next one begins.
const _: () = assert!(node::COUNTERS + NODE_FIELDS.len() <= node::SOCKET);
const _: () = assert!(node::SOCKET + SOCKET_FIELDS.len() <= node::END && node::END <= HEADER);
const _: () = assert!(peer::FIELDS + PEER_FIELDS.len() <= peer::WAITS);
const _: () = assert!(peer::WAITS + 2 * WaitReason::COUNT <= RECORD);

/// The kind of number in a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Only rises.
    Counter,
    /// Rises and falls.
    Gauge,
    /// A span of time in nanoseconds, which rises and falls.
    Time,
}

/// One number of a `T`: its name, and a function that reads it.
#[derive(Clone, Copy, Debug)]
pub struct Field<T> {
    /// Lower case, words joined by underscores.
    pub name: &'static str,
    /// The kind of its number.
    pub kind: FieldKind,
    /// Its meaning, in one sentence.
    pub help: &'static str,
    /// Reads it.
    pub get: fn(&T) -> u64,
    pub(crate) put: fn(&mut T, u64),
}

macro_rules! field {
    ($kind:ident $name:literal, $($path:ident).+, $help:literal) => {
        Field {
            name: $name,
            kind: FieldKind::$kind,
            help: $help,
            get: |all| all.$($path).+,
            put: |all, value| all.$($path).+ = value,
        }
    };
}

macro_rules! time {
    ($name:literal, $member:ident, $help:literal) => {
        Field {
            name: $name,
            kind: FieldKind::Time,
            help: $help,
            get: |all| nanos(all.$member),
            put: |all, value| all.$member = Duration::from_nanos(value),
        }
    };
}

/// The numbers of a peer.
pub const PEER_FIELDS: &[Field<PeerStats>] = &[
    time!("rtt", rtt, "Smoothed round-trip time of the path."),
    time!("min_rtt", min_rtt, "Smallest round-trip time seen."),
    time!(
        "rtt_variance",
        rtt_variance,
        "Mean deviation of the round-trip time."
    ),
    field!(Gauge "congestion_window_bytes", congestion_window, "Congestion window."),
    field!(Gauge "in_flight_bytes", in_flight, "Bytes sent and not acknowledged."),
    Field {
        name: "mtu_bytes",
        kind: FieldKind::Gauge,
        help: "UDP payload per packet on the path.",
        get: |all| u64::try_from(all.mtu).unwrap_or(u64::MAX),
        put: |all, value| all.mtu = usize::try_from(value).unwrap_or(usize::MAX),
    },
    field!(Gauge "socket_credit_packets", socket_credit, "Packets that the peer still lets us send."),
    field!(Gauge "queued_messages", queued_messages, "Messages accepted and not acknowledged."),
    field!(Gauge "queued_bytes", queued_bytes, "Payload and user headers of messages accepted and not acknowledged."),
    field!(Counter "packets_sent", traffic.packets_sent, "Packets sent."),
    field!(Counter "bytes_sent", traffic.bytes_sent, "UDP payload sent."),
    field!(Counter "packets_received", traffic.packets_received, "Packets received."),
    field!(Counter "bytes_received", traffic.bytes_received, "UDP payload received."),
    field!(Counter "messages_sent", traffic.messages_sent, "Messages accepted from the program."),
    field!(Counter "message_bytes_sent", traffic.message_bytes_sent, "Payload of messages accepted from the program."),
    field!(Counter "messages_received", traffic.messages_received, "Messages handed to the program."),
    field!(Counter "message_bytes_received", traffic.message_bytes_received, "Payload of messages handed to the program."),
    field!(Counter "bytes_resent", traffic.bytes_resent, "Payload sent again."),
    field!(Counter "acks_sent", traffic.acks_sent, "Packets that carried an acknowledgement."),
    field!(Counter "packets_lost", traffic.packets_lost, "Packets declared lost."),
    field!(Counter "spurious_losses", traffic.spurious_losses, "Packets declared lost that arrived after all."),
    field!(Counter "probes", traffic.probes, "Probes because nothing was heard."),
    field!(Counter "duplicates", traffic.duplicates, "Packets dropped because they came before."),
    Field {
        name: "marks_stopped",
        kind: FieldKind::Gauge,
        help: "1 if packets are not marked as ECN-capable: marked ones seem to be dropped on the path, or all arrive with CE.",
        get: |all| u64::from(all.marks_stopped),
        put: |all, value| all.marks_stopped = value != 0,
    },
];

/// The numbers of a node.
pub const NODE_FIELDS: &[Field<Counters>] = &[
    field!(Counter "datagrams_received", datagrams_in, "Datagrams received, of any kind."),
    field!(Counter "bytes_received", bytes_in, "UDP payload received."),
    field!(Counter "packets_sent", packets_out, "Packets handed to the network."),
    field!(Counter "bytes_sent", bytes_out, "UDP payload handed to the network."),
    field!(Counter "trains_sent", trains_out, "Gathered sends."),
    field!(Counter "messages_sent", messages_sent, "Messages accepted from the program."),
    field!(Counter "messages_received", messages_received, "Messages handed to the program."),
    field!(Counter "malformed", malformed, "Datagrams dropped: malformed."),
    field!(Counter "wrong_version", wrong_version, "Datagrams dropped: another version."),
    field!(Counter "bad_checksum", bad_checksum, "Datagrams dropped: CRC32C or AEAD tag did not match."),
    field!(Counter "unknown_connection", unknown_connection, "Datagrams dropped: no such connection."),
    field!(Counter "duplicates", duplicates, "Datagrams dropped: seen before."),
    field!(Counter "handshake_rejected", handshake_rejected, "Handshake packets dropped."),
    field!(Counter "hello_unanswered", hello_unanswered, "HELLOs left unanswered for want of budget."),
    field!(Counter "unknown_sent", unknown_sent, "UNKNOWN hints sent."),
    field!(Counter "protocol_errors", protocol_errors, "Peers closed because they broke the protocol."),
    field!(Counter "packets_lost", packets_lost, "Packets declared lost."),
    field!(Counter "spurious_losses", spurious_losses, "Packets declared lost that arrived after all."),
    field!(Counter "probes", probes, "Probes because nothing was heard."),
    field!(Counter "socket_full", socket_full, "Trains that the socket did not take at once."),
    field!(Counter "too_big", too_big, "Datagrams too big for the route."),
    field!(Counter "unreachable", unreachable, "Hints that a destination was unreachable."),
    field!(Counter "payload_copied_bytes", payload_copied, "Payload copied on the sending side."),
    field!(Counter "gaps", gaps, "Times that the program was held up."),
    field!(Counter "overcharged", overcharged, "Times that the socket held more than peers were granted."),
    field!(Counter "suspensions", suspensions, "Suspensions that began or ended, by either side."),
    field!(Counter "misdirected", misdirected, "Datagrams that came to the socket of another thread than their peer's."),
    field!(Counter "misdirected_dropped", misdirected_dropped, "Those of them that were dropped: too many waited there."),
    field!(Counter "late_replies", late_replies, "Replies dropped because nobody waited for them any more."),
    field!(Counter "routed_sent", routes.sent, "Packets of this node to nodes behind others."),
    field!(Counter "routed_received", routes.received, "Packets for this node from nodes behind others."),
    field!(Counter "forwarded", routes.forwarded, "Packets between other nodes that were sent on."),
    field!(Counter "route_no_credit", routes.no_credit, "Packets to be sent on that were dropped: too many waited for the neighbour's credit."),
    field!(Counter "route_hop_limit", routes.hop_limit, "Packets to be sent on that were dropped: they went round, or too far."),
    field!(Counter "route_not_allowed", routes.not_allowed, "Packets that were dropped: this node does not send them on."),
    field!(Counter "route_unknown", routes.unknown, "Packets to be sent on that were dropped: no way led to their destination."),
];

/// The numbers of a node's socket.
pub const SOCKET_FIELDS: &[Field<SocketCounters>] = &[
    field!(Counter "send_calls", send_calls, "Calls that tried to send."),
    field!(Counter "recv_calls", recv_calls, "Calls that tried to receive."),
    field!(Counter "wait_calls", wait_calls, "Calls that waited for something beside a receive, timed sleeps included."),
    field!(Counter "datagrams_sent", datagrams_sent, "Datagrams handed to the network."),
    field!(Counter "datagrams_received", datagrams_received, "Datagrams taken from it."),
    field!(Counter "bytes_sent", bytes_sent, "UDP payload handed to the network."),
    field!(Counter "bytes_received", bytes_received, "UDP payload taken from it."),
    field!(Counter "trains_sent", trains_sent, "Sends of more than one segment."),
    field!(Counter "trains_received", trains_received, "Receives of more than one datagram."),
    field!(Counter "truncated", truncated, "Datagrams that did not fit."),
    field!(Counter "recv_drops", recv_drops, "Datagrams that the kernel dropped: the receive buffer was full."),
    field!(Counter "again", again, "Sends for which the socket had no room."),
    field!(Counter "too_big", too_big, "Sends too big for the route."),
    field!(Counter "gso_refused", gso_refused, "Times that segmentation offload was refused."),
    field!(Counter "unreachable", unreachable, "Sends whose destination was unreachable."),
    field!(Counter "recv_errors", recv_errors, "Errors that the network reported as hints."),
    field!(Gauge "recv_charged_bytes", recv_charged, "Bytes charged to the receive buffer when last checked."),
    field!(Gauge "recv_charged_max_bytes", recv_charged_max, "Most bytes charged to the receive buffer when checked."),
];

/// A span of time as a word.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Links by their words.
const LINKS: [LinkState; 5] = [
    LinkState::Idle,
    LinkState::Connecting,
    LinkState::Up,
    LinkState::Lost,
    LinkState::Quiet,
];

/// A link as a word.
fn link_word(link: LinkState) -> u64 {
    (0..)
        .zip(LINKS)
        .find(|it| it.1 == link)
        .map_or(0, |it| it.0)
}

/// Decodes a word of [`link_word`]; an unknown word is an idle link.
fn link_of(word: u64) -> LinkState {
    let index = usize::try_from(word).unwrap_or(usize::MAX);
    LINKS.get(index).copied().unwrap_or(LinkState::Idle)
}

/// The mode with this number.
pub(crate) fn mode_of(number: u64) -> Option<Mode> {
    [Mode::Adaptive, Mode::Throughput, Mode::Response]
        .into_iter()
        .find(|mode| *mode as u64 == number)
}

/// A request to a node from outside: the mode of one peer. It is one word, so that no half of it
/// can be read. The number tells a request from the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) node: NodeId,
    pub(crate) mode: Mode,
    /// 24 bits, never 0.
    pub(crate) number: u64,
}

impl Request {
    pub(crate) fn word(self) -> u64 {
        u64::from(self.node.0) | (self.mode as u64) << 32 | self.number << 40
    }

    /// Decodes a word of [`Request::word`]; returns nothing if the word is invalid.
    pub(crate) fn of(word: u64) -> Option<Self> {
        Some(Self {
            node: NodeId(u32::try_from(word & 0xffff_ffff).ok()?),
            mode: mode_of(word >> 32 & 0xff)?,
            number: Some(word >> 40).filter(|number| *number != 0)?,
        })
    }

    /// The number after this one's.
    pub(crate) fn next(word: u64) -> u64 {
        (word >> 40) % 0xff_ffff + 1
    }
}

/// An address as words: port and, above it, the family (4 or 6; 0 for none); then the bytes of the
/// address.
pub(crate) fn address_words(address: Option<SocketAddr>) -> [u64; 3] {
    let Some(address) = address else {
        return [0; 3];
    };
    let (family, bits) = match address.ip() {
        IpAddr::V4(ip) => (4, u128::from(u32::from(ip))),
        IpAddr::V6(ip) => (6, u128::from(ip)),
    };
    let [high, low] =
        [bits >> 64, bits].map(|half| u64::try_from(half & u128::from(u64::MAX)).unwrap_or(0));
    [u64::from(address.port()) | family << 16, high, low]
}

/// Decodes the words of [`address_words`]; invalid words are no address.
pub(crate) fn address_of(words: [u64; 3]) -> Option<SocketAddr> {
    let [first, high, low] = words;
    let port = u16::try_from(first & 0xffff).ok()?;
    let ip = match first >> 16 {
        4 => IpAddr::V4(Ipv4Addr::from(u32::try_from(low).ok()?)),
        6 => IpAddr::V6(Ipv6Addr::from(u128::from(high) << 64 | u128::from(low))),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// Puts a peer's numbers into a record, behind its generation.
pub(crate) fn put_peer(stats: &PeerStats, mut put: impl FnMut(usize, u64)) {
    put(peer::NODE, stats.node.0.into());
    let suspended = u64::from(stats.suspended_here) | u64::from(stats.suspended_there) << 1;
    put(peer::LINK, link_word(stats.link) | suspended << 8);
    put(
        peer::MODES,
        stats.mode as u64 | (stats.remote_mode as u64) << 8,
    );
    put(
        peer::WAITING,
        stats.waiting.map_or(0, |reason| reason as u64 + 1),
    );
    for (index, word) in (peer::ADDRESS..).zip(address_words(stats.address)) {
        put(index, word);
    }
    for (index, field) in (peer::FIELDS..).zip(PEER_FIELDS) {
        put(index, (field.get)(stats));
    }
    for (index, reason) in (peer::WAITS..).step_by(2).zip(WaitReason::ALL) {
        let wait = stats.waits.get(reason);
        put(index, wait.nanos);
        put(index + 1, wait.times);
    }
}

/// Decodes the peer that [`put_peer`] wrote; `word` returns the word at an index. Returns nothing
/// if it cannot be a peer.
pub(crate) fn peer_of(word: impl Fn(usize) -> u64) -> Option<PeerStats> {
    let node = NodeId(u32::try_from(word(peer::NODE)).ok()?);
    let mut stats = PeerStats {
        node,
        address: address_of([0, 1, 2].map(|at| word(peer::ADDRESS + at))),
        link: link_of(word(peer::LINK) & 0xff),
        suspended_here: word(peer::LINK) & 1 << 8 != 0,
        suspended_there: word(peer::LINK) & 1 << 9 != 0,
        rtt: Duration::ZERO,
        min_rtt: Duration::ZERO,
        rtt_variance: Duration::ZERO,
        congestion_window: 0,
        in_flight: 0,
        mode: mode_of(word(peer::MODES) & 0xff).unwrap_or_default(),
        remote_mode: mode_of(word(peer::MODES) >> 8 & 0xff).unwrap_or_default(),
        mtu: 0,
        marks_stopped: false,
        socket_credit: 0,
        queued_messages: 0,
        queued_bytes: 0,
        traffic: Traffic::default(),
        waits: Waits::default(),
        waiting: word(peer::WAITING)
            .checked_sub(1)
            .and_then(|number| usize::try_from(number).ok())
            .and_then(|number| WaitReason::ALL.get(number).copied()),
    };
    for (index, field) in (peer::FIELDS..).zip(PEER_FIELDS) {
        (field.put)(&mut stats, word(index));
    }
    for (index, reason) in (peer::WAITS..).step_by(2).zip(WaitReason::ALL) {
        let (nanos, times) = (word(index), word(index + 1));
        stats.waits.set(reason, Waited { nanos, times });
    }
    Some(stats)
}
