//! Counters and statistics, copied into structs of C.

use crate::entry::{Host, on_host};
use crate::error::{Failure, NODE_KIND, NOT_FOUND, UNKNOWN_PEER};
use crate::guard::guard;
use crate::handle::Handle;
use crate::options::{mode_code, nanoseconds};
use crate::peer::{link_code, with_peer};
use crate::pointer::{self, Growable};
use crate::text::{self, ADDRESS_SIZE, AddressText};
use std::ffi::{CStr, c_char, c_int};
use suci::{Counters, PeerStats, ShareStats, SocketCounters, WaitReason};

/// `suci_waited`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawWaited {
    pub(crate) nanoseconds: u64,
    pub(crate) times: u64,
}

/// `SUCI_WAITS_FOR_NOTHING`.
const FOR_NOTHING: u32 = 255;

/// `suci_peer_stats`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawPeerStats {
    pub(crate) size: u32,
    pub(crate) node: u32,
    pub(crate) link: u32,
    pub(crate) mode: u32,
    pub(crate) remote_mode: u32,
    pub(crate) mtu: u32,
    pub(crate) waiting: u32,
    pub(crate) suspended_here: u8,
    pub(crate) suspended_there: u8,
    pub(crate) marks_stopped: u8,
    pub(crate) reserved: u8,
    pub(crate) address: AddressText,
    pub(crate) rtt: i64,
    pub(crate) min_rtt: i64,
    pub(crate) rtt_variance: i64,
    pub(crate) congestion_window: u64,
    pub(crate) in_flight: u64,
    pub(crate) socket_credit: u64,
    pub(crate) queued_messages: u64,
    pub(crate) queued_bytes: u64,
    pub(crate) packets_sent: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) packets_received: u64,
    pub(crate) bytes_received: u64,
    pub(crate) messages_sent: u64,
    pub(crate) message_bytes_sent: u64,
    pub(crate) messages_received: u64,
    pub(crate) message_bytes_received: u64,
    pub(crate) bytes_resent: u64,
    pub(crate) acks_sent: u64,
    pub(crate) packets_lost: u64,
    pub(crate) spurious_losses: u64,
    pub(crate) probes: u64,
    pub(crate) duplicates: u64,
    pub(crate) waits: [RawWaited; WaitReason::COUNT],
}

// SAFETY: `repr(C)`, the size comes first, and numbers take any bytes.
unsafe impl Growable for RawPeerStats {
    const NAME: &'static str = "suci_peer_stats";
    const SMALLEST: usize = 448;
}

impl Default for RawPeerStats {
    fn default() -> Self {
        Self {
            size: 0,
            node: 0,
            link: 0,
            mode: 0,
            remote_mode: 0,
            mtu: 0,
            waiting: 0,
            suspended_here: 0,
            suspended_there: 0,
            marks_stopped: 0,
            reserved: 0,
            address: [0; ADDRESS_SIZE],
            rtt: 0,
            min_rtt: 0,
            rtt_variance: 0,
            congestion_window: 0,
            in_flight: 0,
            socket_credit: 0,
            queued_messages: 0,
            queued_bytes: 0,
            packets_sent: 0,
            bytes_sent: 0,
            packets_received: 0,
            bytes_received: 0,
            messages_sent: 0,
            message_bytes_sent: 0,
            messages_received: 0,
            message_bytes_received: 0,
            bytes_resent: 0,
            acks_sent: 0,
            packets_lost: 0,
            spurious_losses: 0,
            probes: 0,
            duplicates: 0,
            waits: [RawWaited::default(); WaitReason::COUNT],
        }
    }
}

impl From<PeerStats> for RawPeerStats {
    fn from(stats: PeerStats) -> Self {
        let waited = |reason| {
            let waited = stats.waits.get(reason);
            RawWaited {
                nanoseconds: waited.nanos,
                times: waited.times,
            }
        };
        let traffic = stats.traffic;
        Self {
            size: 0,
            node: stats.node.0,
            link: link_code(stats.link),
            mode: mode_code(stats.mode),
            remote_mode: mode_code(stats.remote_mode),
            mtu: u32::try_from(stats.mtu).unwrap_or(u32::MAX),
            waiting: stats.waiting.map_or(FOR_NOTHING, |reason| reason as u32),
            suspended_here: stats.suspended_here.into(),
            suspended_there: stats.suspended_there.into(),
            marks_stopped: stats.marks_stopped.into(),
            reserved: 0,
            address: text::address_text(stats.address),
            rtt: nanoseconds(stats.rtt),
            min_rtt: nanoseconds(stats.min_rtt),
            rtt_variance: nanoseconds(stats.rtt_variance),
            congestion_window: stats.congestion_window,
            in_flight: stats.in_flight,
            socket_credit: stats.socket_credit,
            queued_messages: stats.queued_messages,
            queued_bytes: stats.queued_bytes,
            packets_sent: traffic.packets_sent,
            bytes_sent: traffic.bytes_sent,
            packets_received: traffic.packets_received,
            bytes_received: traffic.bytes_received,
            messages_sent: traffic.messages_sent,
            message_bytes_sent: traffic.message_bytes_sent,
            messages_received: traffic.messages_received,
            message_bytes_received: traffic.message_bytes_received,
            bytes_resent: traffic.bytes_resent,
            acks_sent: traffic.acks_sent,
            packets_lost: traffic.packets_lost,
            spurious_losses: traffic.spurious_losses,
            probes: traffic.probes,
            duplicates: traffic.duplicates,
            waits: WaitReason::ALL.map(waited),
        }
    }
}

/// `suci_counters`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawCounters {
    pub(crate) size: u32,
    pub(crate) reserved: u32,
    pub(crate) datagrams_in: u64,
    pub(crate) bytes_in: u64,
    pub(crate) packets_out: u64,
    pub(crate) bytes_out: u64,
    pub(crate) trains_out: u64,
    pub(crate) messages_sent: u64,
    pub(crate) messages_received: u64,
    pub(crate) malformed: u64,
    pub(crate) wrong_version: u64,
    pub(crate) bad_checksum: u64,
    pub(crate) unknown_connection: u64,
    pub(crate) duplicates: u64,
    pub(crate) handshake_rejected: u64,
    pub(crate) hello_unanswered: u64,
    pub(crate) unknown_sent: u64,
    pub(crate) protocol_errors: u64,
    pub(crate) packets_lost: u64,
    pub(crate) spurious_losses: u64,
    pub(crate) probes: u64,
    pub(crate) socket_full: u64,
    pub(crate) too_big: u64,
    pub(crate) unreachable: u64,
    pub(crate) payload_copied: u64,
    pub(crate) overcharged: u64,
    pub(crate) suspensions: u64,
    pub(crate) gaps: u64,
    pub(crate) misdirected: u64,
    pub(crate) misdirected_dropped: u64,
    pub(crate) late_replies: u64,
}

// SAFETY: `repr(C)`, the size comes first, and numbers take any bytes.
unsafe impl Growable for RawCounters {
    const NAME: &'static str = "suci_counters";
    const SMALLEST: usize = 240;
}

impl From<Counters> for RawCounters {
    fn from(counters: Counters) -> Self {
        Self {
            size: 0,
            reserved: 0,
            datagrams_in: counters.datagrams_in,
            bytes_in: counters.bytes_in,
            packets_out: counters.packets_out,
            bytes_out: counters.bytes_out,
            trains_out: counters.trains_out,
            messages_sent: counters.messages_sent,
            messages_received: counters.messages_received,
            malformed: counters.malformed,
            wrong_version: counters.wrong_version,
            bad_checksum: counters.bad_checksum,
            unknown_connection: counters.unknown_connection,
            duplicates: counters.duplicates,
            handshake_rejected: counters.handshake_rejected,
            hello_unanswered: counters.hello_unanswered,
            unknown_sent: counters.unknown_sent,
            protocol_errors: counters.protocol_errors,
            packets_lost: counters.packets_lost,
            spurious_losses: counters.spurious_losses,
            probes: counters.probes,
            socket_full: counters.socket_full,
            too_big: counters.too_big,
            unreachable: counters.unreachable,
            payload_copied: counters.payload_copied,
            overcharged: counters.overcharged,
            suspensions: counters.suspensions,
            gaps: counters.gaps,
            misdirected: counters.misdirected,
            misdirected_dropped: counters.misdirected_dropped,
            late_replies: counters.late_replies,
        }
    }
}

/// `suci_socket_counters`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawSocketCounters {
    pub(crate) size: u32,
    pub(crate) reserved: u32,
    pub(crate) send_calls: u64,
    pub(crate) recv_calls: u64,
    pub(crate) wait_calls: u64,
    pub(crate) datagrams_sent: u64,
    pub(crate) datagrams_received: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) trains_sent: u64,
    pub(crate) trains_received: u64,
    pub(crate) truncated: u64,
    pub(crate) recv_drops: u64,
    pub(crate) recv_charged: u64,
    pub(crate) recv_charged_max: u64,
    pub(crate) again: u64,
    pub(crate) too_big: u64,
    pub(crate) gso_refused: u64,
    pub(crate) unreachable: u64,
    pub(crate) recv_errors: u64,
    pub(crate) fault_packets: u64,
    pub(crate) fault_lost: u64,
    pub(crate) fault_doubled: u64,
    pub(crate) fault_reordered: u64,
    pub(crate) fault_corrupted: u64,
    pub(crate) fault_delayed: u64,
    pub(crate) fault_discarded: u64,
}

// SAFETY: `repr(C)`, the size comes first, and numbers take any bytes.
unsafe impl Growable for RawSocketCounters {
    const NAME: &'static str = "suci_socket_counters";
    const SMALLEST: usize = 208;
}

impl From<SocketCounters> for RawSocketCounters {
    fn from(counters: SocketCounters) -> Self {
        Self {
            size: 0,
            reserved: 0,
            send_calls: counters.send_calls,
            recv_calls: counters.recv_calls,
            wait_calls: counters.wait_calls,
            datagrams_sent: counters.datagrams_sent,
            datagrams_received: counters.datagrams_received,
            bytes_sent: counters.bytes_sent,
            bytes_received: counters.bytes_received,
            trains_sent: counters.trains_sent,
            trains_received: counters.trains_received,
            truncated: counters.truncated,
            recv_drops: counters.recv_drops,
            recv_charged: counters.recv_charged,
            recv_charged_max: counters.recv_charged_max,
            again: counters.again,
            too_big: counters.too_big,
            gso_refused: counters.gso_refused,
            unreachable: counters.unreachable,
            recv_errors: counters.recv_errors,
            fault_packets: counters.faults.packets,
            fault_lost: counters.faults.lost,
            fault_doubled: counters.faults.doubled,
            fault_reordered: counters.faults.reordered,
            fault_corrupted: counters.faults.corrupted,
            fault_delayed: counters.faults.delayed,
            fault_discarded: counters.faults.discarded,
        }
    }
}

/// `suci_share_stats`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawShareStats {
    pub(crate) size: u32,
    pub(crate) reserved: u32,
    pub(crate) peers: u64,
    pub(crate) unsatisfied: u64,
    pub(crate) dormant: u64,
    pub(crate) waiting: u64,
    pub(crate) granted: u64,
    pub(crate) beyond: u64,
    pub(crate) free_bytes: u64,
    pub(crate) jain: f64,
}

// SAFETY: `repr(C)`, the size comes first, and numbers take any bytes.
unsafe impl Growable for RawShareStats {
    const NAME: &'static str = "suci_share_stats";
    const SMALLEST: usize = 72;
}

impl From<ShareStats> for RawShareStats {
    fn from(stats: ShareStats) -> Self {
        Self {
            size: 0,
            reserved: 0,
            peers: stats.peers,
            unsatisfied: stats.unsatisfied,
            dormant: stats.dormant,
            waiting: stats.waiting,
            granted: stats.granted,
            beyond: stats.beyond,
            free_bytes: stats.free,
            jain: stats.jain,
        }
    }
}

/// Returns the name of a reason.
#[unsafe(no_mangle)]
pub extern "C" fn suci_wait_reason_name(reason: u32) -> *const c_char {
    let name: &CStr = match reason {
        0 => c"link",
        1 => c"suspended",
        2 => c"congestion",
        3 => c"pacing",
        4 => c"socket_credit",
        5 => c"session_memory",
        6 => c"channel_memory",
        7 => c"answer",
        8 => c"steering",
        9 => c"cap",
        10 => c"socket",
        _ => c"",
    };
    name.as_ptr()
}

/// Gives the statistics of a peer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_peer_get_stats(
    node: Handle,
    peer: u32,
    stats: *mut RawPeerStats,
) -> c_int {
    guard(|| {
        let known = with_peer(node, peer, |peer| peer.stats())?;
        let unknown = || {
            let text = format!(
                "node {peer} is unknown: add it to the address book, or call suci_add_peer"
            );
            Failure::new(UNKNOWN_PEER, text)
        };
        // SAFETY: as suci.h asks.
        unsafe { pointer::fill(stats, known.ok_or_else(unknown)?.into()) }
    })
}

/// Gives the counters of a node.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_node_counters(node: Handle, counters: *mut RawCounters) -> c_int {
    guard(|| {
        let mut node = node.enter()?;
        let counted = on_host!(node.host(), node => node.counters())?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::fill(counters, counted.into()) }
    })
}

/// Gives the counters of a node's sockets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_node_socket_counters(
    node: Handle,
    counters: *mut RawSocketCounters,
) -> c_int {
    guard(|| {
        let mut node = node.enter()?;
        let counted = on_host!(node.host(), node => node.socket_counters())?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::fill(counters, counted.into()) }
    })
}

fn no_thread(thread: u32) -> Failure {
    let text =
        format!("the node has no thread {thread}: count from 0, to suci_node_threads less 1");
    Failure::new(NOT_FOUND, text)
}

/// Gives the counters of a thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_node_thread_counters(
    node: Handle,
    thread: u32,
    counters: *mut RawCounters,
    socket: *mut RawSocketCounters,
) -> c_int {
    guard(|| {
        let mut node = node.enter()?;
        let Host::Shared(node) = node.host() else {
            let text = "a caller-driven node has no threads: use suci_node_counters";
            return Err(Failure::new(NODE_KIND, text));
        };
        let all = node.thread_counters()?;
        let (own, of_socket) = all.get(thread as usize).ok_or_else(|| no_thread(thread))?;
        // SAFETY: as suci.h asks.
        unsafe {
            if !counters.is_null() {
                pointer::fill(counters, (*own).into())?;
            }
            match socket.is_null() {
                true => Ok(()),
                false => pointer::fill(socket, (*of_socket).into()),
            }
        }
    })
}

/// Gives how a receive buffer is shared out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_node_share_stats(
    node: Handle,
    thread: u32,
    stats: *mut RawShareStats,
) -> c_int {
    guard(|| {
        let mut node = node.enter()?;
        let all = on_host!(node.host(), node => node.share_stats())?;
        let own = all.get(thread as usize).ok_or_else(|| no_thread(thread))?;
        // SAFETY: as suci.h asks.
        unsafe { pointer::fill(stats, (*own).into()) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_the_names_that_rust_gives_them() {
        for reason in WaitReason::ALL {
            // SAFETY: the function returns static texts.
            let name = unsafe { CStr::from_ptr(suci_wait_reason_name(reason as u32)) };
            assert_eq!(name.to_str(), Ok(reason.name()));
        }
    }
}
