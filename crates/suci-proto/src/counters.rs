//! Counters: one struct for the node, one for a peer. Plain numbers that only rise, except gauges.

use crate::event::{EndReason, LostCause, Side};
use std::net::SocketAddr;
use suci_channels::waits::{WaitReason, Waits};
use suci_link::time::Duration;
use suci_link::types::{Incarnation, NodeId, SessionNumber};
use suci_link::wire::Mode;

/// The counters of one engine since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams received, of any kind.
    pub datagrams_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Packets handed to the network.
    pub packets_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Trains (gathered sends) handed to the network.
    pub trains_out: u64,
    /// Messages accepted from the program.
    pub messages_sent: u64,
    /// Messages handed to the program.
    pub messages_received: u64,
    /// Dropped: too short or of unknown type, flags or path.
    pub malformed: u64,
    /// Dropped: another protocol version.
    pub wrong_version: u64,
    /// Dropped: CRC32C or, in sealed mode, the AEAD tag did not match.
    pub bad_checksum: u64,
    /// Dropped: no such connection, or the wrong tag.
    pub unknown_connection: u64,
    /// Dropped: seen before, or too old to tell.
    pub duplicates: u64,
    /// Handshake packets dropped because they did not fit the state, cookie or cap.
    pub handshake_rejected: u64,
    /// HELLOs that found no room when they came: they wait, or get no answer.
    pub hello_unanswered: u64,
    /// UNKNOWN hints sent.
    pub unknown_sent: u64,
    /// Peers closed because they broke the protocol.
    pub protocol_errors: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Packets declared lost that arrived after all.
    pub spurious_losses: u64,
    /// Probes because no acknowledgement came within the probe timeout.
    pub probes: u64,
    /// Trains that the socket did not take at once.
    pub socket_full: u64,
    /// Sends refused because the datagram was too big for the route.
    pub too_big: u64,
    /// Reports that a destination was unreachable.
    pub unreachable: u64,
    /// Payload bytes copied on the sending side (small messages, and those to this node itself;
    /// large ones are gathered).
    pub payload_copied: u64,
    /// Times that the socket held more bytes than the grants of its peers explain, by
    /// [`crate::Engine::on_charged`].
    pub overcharged: u64,
    /// Suspensions that began or ended, by either side.
    pub suspensions: u64,
    /// Times that the driver was late by more than a gap (program busy, process stopped).
    pub gaps: u64,
    /// Datagrams that came to the socket of another shard than their peer's, and were forwarded
    /// there.
    pub misdirected: u64,
    /// Misdirected datagrams that were dropped, because too many waited there already.
    pub misdirected_dropped: u64,
    /// Replies dropped because no call waited for them: the call was over, or there never was one.
    pub late_replies: u64,
    /// Packets between nodes that reach each other through others.
    pub routes: RouteCounters,
}

/// Adds the counters of another shard.
impl core::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        // Name every field, so that a new one cannot be forgotten.
        let Self {
            datagrams_in,
            bytes_in,
            packets_out,
            bytes_out,
            trains_out,
            messages_sent,
            messages_received,
            malformed,
            wrong_version,
            bad_checksum,
            unknown_connection,
            duplicates,
            handshake_rejected,
            hello_unanswered,
            unknown_sent,
            protocol_errors,
            packets_lost,
            spurious_losses,
            probes,
            socket_full,
            too_big,
            unreachable,
            payload_copied,
            overcharged,
            suspensions,
            gaps,
            misdirected,
            misdirected_dropped,
            late_replies,
            routes,
        } = other;
        self.datagrams_in += datagrams_in;
        self.bytes_in += bytes_in;
        self.packets_out += packets_out;
        self.bytes_out += bytes_out;
        self.trains_out += trains_out;
        self.messages_sent += messages_sent;
        self.messages_received += messages_received;
        self.malformed += malformed;
        self.wrong_version += wrong_version;
        self.bad_checksum += bad_checksum;
        self.unknown_connection += unknown_connection;
        self.duplicates += duplicates;
        self.handshake_rejected += handshake_rejected;
        self.hello_unanswered += hello_unanswered;
        self.unknown_sent += unknown_sent;
        self.protocol_errors += protocol_errors;
        self.packets_lost += packets_lost;
        self.spurious_losses += spurious_losses;
        self.probes += probes;
        self.socket_full += socket_full;
        self.too_big += too_big;
        self.unreachable += unreachable;
        self.payload_copied += payload_copied;
        self.overcharged += overcharged;
        self.suspensions += suspensions;
        self.gaps += gaps;
        self.misdirected += misdirected;
        self.misdirected_dropped += misdirected_dropped;
        self.late_replies += late_replies;
        self.routes += routes;
    }
}

/// The counters of packets between nodes that reach each other through others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteCounters {
    /// Packets of this node that went to a neighbour, to be sent on.
    pub sent: u64,
    /// Packets for this node that a neighbour sent on.
    pub received: u64,
    /// Packets between other nodes that this node sent on.
    pub forwarded: u64,
    /// Packets to be sent on that were dropped, because too many waited for the neighbour's credit.
    pub no_credit: u64,
    /// Packets to be sent on that were dropped, because they were sent on as often as they may, or
    /// would have gone back.
    pub hop_limit: u64,
    /// Packets that were dropped, because this node does not send on packets between these nodes.
    pub not_allowed: u64,
    /// Packets to be sent on that were dropped, because no way led to their destination.
    pub unknown: u64,
}

impl core::ops::AddAssign for RouteCounters {
    fn add_assign(&mut self, other: Self) {
        let Self {
            sent,
            received,
            forwarded,
            no_credit,
            hop_limit,
            not_allowed,
            unknown,
        } = other;
        self.sent += sent;
        self.received += received;
        self.forwarded += forwarded;
        self.no_credit += no_credit;
        self.hop_limit += hop_limit;
        self.not_allowed += not_allowed;
        self.unknown += unknown;
    }
}

/// A peer, and the state of the link to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// Its node ID.
    pub node: NodeId,
    /// Its presumed address: of several, the one in use, or where it was heard, or the one tried
    /// first.
    pub address: Option<SocketAddr>,
    /// State of the link. [`LinkState::Up`] is a peer that answers; [`LinkState::Idle`] one without
    /// a session so far, or whose session has ended.
    pub link: LinkState,
    /// True if the program or its address book named the peer. Others are strangers, and are
    /// forgotten some time after their session has ended.
    pub known: bool,
    /// True if no process has the peer's port at any of its addresses, as this machine's kernel
    /// reports, or as the network reports and a few questions stayed unanswered. The peer may start
    /// later, and is asked on.
    pub absent: bool,
}

/// Statistics of one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStats {
    /// Its node ID.
    pub node: NodeId,
    /// Its address.
    pub address: Option<SocketAddr>,
    /// The state of the link.
    pub link: LinkState,
    /// True if this side suspended the session.
    pub suspended_here: bool,
    /// True if the peer suspended the session, as far as is known.
    pub suspended_there: bool,
    /// Smoothed round-trip time of the path, without delays within either program.
    pub rtt: Duration,
    /// Smallest round-trip time of the path that was seen; zero before any was.
    pub min_rtt: Duration,
    /// Mean deviation of the round-trip time from the smoothed one.
    pub rtt_variance: Duration,
    /// Congestion window in bytes.
    pub congestion_window: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Mode of our traffic to the peer: the program's choice, or the one derived from the traffic.
    pub mode: Mode,
    /// Mode of the peer's traffic to us, as far as it announced it.
    pub remote_mode: Mode,
    /// UDP payload per packet on this path.
    pub mtu: usize,
    /// True if packets are sent without ECN because the path seems to drop ECN-capable packets or
    /// to set CE on each.
    pub marks_stopped: bool,
    /// Packets that the peer still lets us send.
    pub socket_credit: u64,
    /// Messages accepted and not yet acknowledged.
    pub queued_messages: u64,
    /// Their bytes.
    pub queued_bytes: u64,
    /// Traffic in both directions since the peer is known.
    pub traffic: Traffic,
    /// Waits of messages since then, by reason.
    pub waits: Waits,
    /// The reason for which messages wait now.
    pub waiting: Option<WaitReason>,
}

/// Traffic to and from one peer, over all its sessions and connections. Only rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets sent, without handshake packets but including data packets on them.
    pub packets_sent: u64,
    /// UDP payload of them in bytes.
    pub bytes_sent: u64,
    /// Packets received, without duplicates and handshake packets but including data packets on
    /// them.
    pub packets_received: u64,
    /// UDP payload of them in bytes.
    pub bytes_received: u64,
    /// Messages accepted from the program.
    pub messages_sent: u64,
    /// Their payload in bytes.
    pub message_bytes_sent: u64,
    /// Messages handed to the program.
    pub messages_received: u64,
    /// Their payload in bytes.
    pub message_bytes_received: u64,
    /// Payload bytes sent again, because they or their connection were lost.
    pub bytes_resent: u64,
    /// Packets that carried an acknowledgement.
    pub acks_sent: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Packets declared lost that arrived after all.
    pub spurious_losses: u64,
    /// Probes because no acknowledgement came within the probe timeout.
    pub probes: u64,
    /// Packets dropped because they were received before, or were too old to tell.
    pub duplicates: u64,
}

/// The state of the link to a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// Never needed yet, or over.
    #[default]
    Idle,
    /// Being opened.
    Connecting,
    /// Answering.
    Up,
    /// Silent for longer than the silence timeout.
    Lost,
    /// As long silent, but its engine does not run while its program computes (`unattended`), or a
    /// launcher would report its end.
    Quiet,
}

/// The fate of a packet that nodes carry for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoutedPacket {
    /// One of this node went to a neighbour.
    Sent,
    /// One for this node came.
    Received,
    /// One between other nodes went on.
    Forwarded,
    /// Dropped: too many waited for the neighbour's credit.
    NoCredit,
    /// Dropped: it was sent on as often as it may, or would have gone back.
    HopLimit,
    /// Dropped: the node does not send on packets between these nodes.
    NotAllowed,
    /// Dropped: no way led to its destination.
    Unknown,
    /// Dropped: it could not be read, or was too long.
    Malformed,
}

/// The state of a peer that belongs to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberState {
    /// The present session, or the next one.
    pub session: SessionNumber,
    /// The process that the session is with; none before a handshake told it.
    pub incarnation: Option<Incarnation>,
    /// State of the link.
    pub link: LinkState,
    /// Why the peer is lost, if it is.
    pub cause: LostCause,
    /// True if the program or its address book named the peer.
    pub known: bool,
    /// True if this side suspended the session.
    pub suspended_here: bool,
    /// True if the process that the session is with has ended for certain: this machine's kernel
    /// or its launcher reported it, and it does not answer.
    pub is_dead: bool,
    /// The side whose file of public keys does not permit the other groups; this side, if both.
    pub denied_by: Option<Side>,
    /// Why the last session ended, if one did.
    pub last_end: Option<EndReason>,
    /// True if the process that had the last session has ended for certain, or closed its node.
    pub last_is_dead: bool,
}
