//! Counters: one struct for the node, one for a peer. Plain numbers that only rise, except gauges.

use crate::time::Duration;
use crate::types::NodeId;
use crate::waits::{WaitReason, Waits};
use crate::wire::Mode;
use std::net::SocketAddr;

/// What one engine counted since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams received, of any kind.
    pub datagrams_in: u64,
    /// Bytes of them.
    pub bytes_in: u64,
    /// Packets handed to the network.
    pub packets_out: u64,
    /// Bytes of them.
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
    /// Dropped: CRC32C did not match.
    pub bad_checksum: u64,
    /// Dropped: no such connection, or the wrong tag.
    pub unknown_connection: u64,
    /// Dropped: seen before, or too old to tell.
    pub duplicates: u64,
    /// Handshake packets dropped because they did not fit the state, cookie or cap.
    pub handshake_rejected: u64,
    /// HELLOs that found no room when they came: they wait, or are left unanswered.
    pub hello_unanswered: u64,
    /// UNKNOWN hints sent.
    pub unknown_sent: u64,
    /// Peers closed because they broke the protocol.
    pub protocol_errors: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Packets declared lost that arrived after all.
    pub spurious_losses: u64,
    /// Probes because nothing was heard for a probe timeout.
    pub probes: u64,
    /// Trains that the socket did not take at once.
    pub socket_full: u64,
    /// Sends refused because the datagram was too big for the route.
    pub too_big: u64,
    /// Hints that a destination was unreachable.
    pub unreachable: u64,
    /// Payload bytes copied on the sending side (small messages, and those to this node itself;
    /// large ones are gathered).
    pub payload_copied: u64,
    /// Times that the socket held more than peers were allowed to put there, by
    /// [`crate::Engine::on_charged`].
    pub overcharged: u64,
    /// Suspensions that began or ended, by either side.
    pub suspensions: u64,
    /// Times that the driver was late by more than a gap (program busy, process stopped).
    pub gaps: u64,
    /// Datagrams that came to the socket of another shard than their peer's, and were forwarded
    /// there.
    pub misdirected: u64,
    /// Those of them that were dropped, because too many waited there already.
    pub misdirected_dropped: u64,
    /// Replies dropped because nobody waited for them any more: the call was over, or there never
    /// was one.
    pub late_replies: u64,
}

/// What several shards counted together.
impl core::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        // Naming every field, so that a new one cannot be forgotten.
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
    }
}

/// A peer, and how the link to it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerInfo {
    /// Its node ID.
    pub node: NodeId,
    /// Where it is believed to be: of several addresses, the one in use, or where it was heard, or
    /// the one that is tried first.
    pub address: Option<SocketAddr>,
    /// How the link stands. [`Link::Up`] is a peer that answers; [`Link::Idle`] one with whom
    /// nothing was begun yet, or whose session has ended.
    pub link: Link,
    /// The program or its address book named it. Others came by themselves, and are forgotten some
    /// time after their session has ended.
    pub known: bool,
}

/// What is known of one peer now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStats {
    /// Who.
    pub node: NodeId,
    /// Where.
    pub address: Option<SocketAddr>,
    /// Whether it answers.
    pub link: Link,
    /// Whether this side suspended the session.
    pub suspended_here: bool,
    /// Whether the peer did, as far as is known.
    pub suspended_there: bool,
    /// Smoothed round-trip time of the path: what either program let lie is not in it.
    pub rtt: Duration,
    /// Smallest round-trip time of the path that was seen; zero before any was.
    pub min_rtt: Duration,
    /// Mean deviation of the round-trip time from the smoothed one.
    pub rtt_variance: Duration,
    /// Congestion window in bytes.
    pub congestion_window: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// How our traffic to it flows: as the program wishes, or as the traffic shows.
    pub mode: Mode,
    /// How its traffic to us flows, as far as it said.
    pub remote_mode: Mode,
    /// UDP payload per packet on this path.
    pub mtu: usize,
    /// Whether packets go without ECN marks because the path seems to drop marked packets or to set
    /// CE on each.
    pub marks_stopped: bool,
    /// Packets that the peer still lets us send.
    pub socket_credit: u64,
    /// Messages accepted and not yet acknowledged.
    pub queued_messages: u64,
    /// Bytes of them.
    pub queued_bytes: u64,
    /// What went there and came from there since the peer is known.
    pub traffic: Traffic,
    /// Why messages waited since then.
    pub waits: Waits,
    /// What they wait for now.
    pub waiting: Option<WaitReason>,
}

/// What went to one peer and came from it, over all its sessions and connections. Only rises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets sent, handshakes apart but what rides on them included.
    pub packets_sent: u64,
    /// UDP payload of them in bytes.
    pub bytes_sent: u64,
    /// Packets received, duplicates and handshakes apart but what rides on them included.
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
    /// Payload sent again in bytes, because it was lost or its connection was.
    pub bytes_resent: u64,
    /// Packets that carried an acknowledgement.
    pub acks_sent: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// Packets declared lost that arrived after all.
    pub spurious_losses: u64,
    /// Probes because nothing was heard for a probe timeout.
    pub probes: u64,
    /// Packets dropped because they had come before, or were too old to tell.
    pub duplicates: u64,
}

/// Whether a peer answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Link {
    /// Never needed yet, or over.
    #[default]
    Idle,
    /// Being opened.
    Connecting,
    /// Answering.
    Up,
    /// Silent for longer than the silence timeout.
    Lost,
    /// As long silent, but nobody serves it while its program computes (`unattended`).
    Quiet,
}
