//! Compares the structs of this crate with the committed list of their layout, which a test in
//! `tests/it` compares with the header.

use crate::{
    context, error, event, handle, matching, members, message, options, outgoing, peer, receive,
    remote, send, stats,
};
use std::collections::BTreeSet;
use std::mem::offset_of;

/// Adds a struct's lines: its size, and the offset of each field. A field may have another name
/// than in C.
macro_rules! lay_out {
    ($lines:ident, $($name:literal = $kind:ty { $($c:literal = $field:ident),* $(,)? })*) => {
        $(
            $lines.insert(format!("{} {}", $name, size_of::<$kind>()));
            $($lines.insert(format!("{}.{} {}", $name, $c, offset_of!($kind, $field)));)*
        )*
    };
}

#[test]
fn structs_are_laid_out_as_the_list_says() {
    let mut lines = BTreeSet::new();
    some(&mut lines);
    of_one_sided(&mut lines);
    of_events(&mut lines);
    of_stats(&mut lines);
    let committed: BTreeSet<String> = include_str!("../abi/layout.txt")
        .lines()
        .map(str::to_owned)
        .collect();
    let differ: Vec<_> = committed.symmetric_difference(&lines).collect();
    assert!(differ.is_empty(), "{differ:?}");
}

fn some(lines: &mut BTreeSet<String>) {
    lay_out! { lines,
        "suci_error_info" = error::ErrorInfo {
            "size" = size, "result" = result, "node" = node, "channel" = channel,
            "number" = number, "length" = length, "limit" = limit, "reason" = reason,
            "count" = count,
        }
        "suci_unflushed" = error::Unflushed {
            "node" = node, "reserved" = reserved, "messages" = messages,
        }
        "suci_book" = handle::Handle {
            "id" = id,
        }
        "suci_node" = handle::Handle {
            "id" = id,
        }
        "suci_node_options" = options::NodeOptions {
            "size" = size, "threads" = threads, "id" = id, "listen" = listen, "book" = book,
            "book_file" = book_file, "metrics" = metrics, "faults" = faults, "accept" = accept,
            "mode" = mode, "controller" = controller, "wait" = wait,
            "controller_window" = controller_window, "spin" = spin, "rate_cap" = rate_cap,
            "memory" = memory, "max_message" = max_message, "send_queue" = send_queue,
            "rts_threshold" = rts_threshold, "max_peers" = max_peers,
            "silence_timeout" = silence_timeout, "give_up_after" = give_up_after,
            "max_ack_delay" = max_ack_delay, "max_datagram" = max_datagram,
            "recv_buffer" = recv_buffer, "send_buffer" = send_buffer, "recv_slot" = recv_slot,
            "allow_insecure_network" = allow_insecure_network,
            "payload_checksum" = payload_checksum, "unattended" = unattended,
            "keep_alive" = keep_alive, "statistics" = statistics, "ecn" = ecn, "gso" = gso,
            "gro" = gro, "reuse_port" = reuse_port, "only_v6" = only_v6,
            "ignore_supervision" = ignore_supervision, "reserved" = reserved,
            "key_file" = key_file, "cluster" = cluster, "node_key_file" = node_key_file,
            "public_keys_file" = public_keys_file,
        }
        "suci_peer_info" = peer::RawPeerInfo {
            "node" = node, "link" = link, "known" = known, "reserved" = reserved,
            "address" = address,
        }
        "suci_send_options" = outgoing::SendOptions {
            "size" = size, "flags" = flags, "channel" = channel, "kind" = kind,
            "user_header_length" = user_header_length, "reserved" = reserved,
            "user_header" = user_header, "tag" = tag, "cookie" = cookie, "deadline" = deadline,
        }
        "suci_outgoing" = send::BatchMessage {
            "to" = to, "reserved" = reserved, "data" = data, "length" = length,
            "options" = options,
        }
        "suci_message" = message::RawMessage {
            "payload" = payload, "length" = length, "user_header" = user_header, "tag" = tag,
            "number" = number, "from" = from, "session" = session, "channel" = channel,
            "kind" = kind, "user_header_length" = user_header_length, "is_request" = is_request,
            "reserved" = reserved, "opaque" = opaque,
        }
        "suci_filter" = receive::RawFilter {
            "flags" = flags, "node" = node, "channel" = channel, "reserved" = reserved,
        }
        "suci_peer_options" = peer::RawPeerOptions {
            "size" = size, "mode" = mode, "controller" = controller,
            "priority_class" = priority_class, "priority_weight" = priority_weight,
            "keep_alive" = keep_alive, "manual_retransmission" = manual_retransmission,
            "controller_window" = controller_window, "rate_cap" = rate_cap,
            "silence_timeout" = silence_timeout, "give_up_after" = give_up_after,
        }
        "suci_limits" = peer::Limits {
            "window" = window, "pace" = pace, "ack_interval" = ack_interval,
        }
    }
}

fn of_one_sided(lines: &mut BTreeSet<String>) {
    lay_out! { lines,
        "suci_region" = handle::Handle {
            "id" = id,
        }
        "suci_context" = handle::Handle {
            "id" = id,
        }
        "suci_member" = members::RawMember {
            "node" = node, "suspect" = suspect, "reserved" = reserved,
            "incarnation" = incarnation, "address" = address,
        }
        "suci_group" = handle::Handle {
            "id" = id,
        }
        "suci_pending" = handle::Handle {
            "id" = id,
        }
        "suci_extent" = context::RawExtent {
            "offset" = offset, "length" = length,
        }
        "suci_layout" = context::RawLayout {
            "offset" = offset, "element" = element, "stride" = stride, "extents" = extents,
            "count" = count, "reserved" = reserved,
        }
        "suci_operation" = context::RawOperation {
            "id" = id, "layer" = layer, "reserved" = reserved,
        }
        "suci_match_pattern" = matching::RawPattern {
            "tag" = tag, "ignore" = ignore, "from" = from, "channel" = channel, "flags" = flags,
            "reserved" = reserved,
        }
        "suci_match" = matching::RawMatch {
            "receive" = receive, "message" = message, "tag" = tag, "number" = number,
            "offset" = offset, "length" = length, "total" = total, "from" = from,
            "session" = session, "channel" = channel, "kind" = kind, "released" = released,
            "reserved" = reserved, "user_header_length" = user_header_length,
            "user_header" = user_header,
        }
        "suci_remote_region" = remote::RawRemoteRegion {
            "key" = key, "node" = node, "region" = region,
        }
        "suci_signal" = remote::RawSignal {
            "offset" = offset, "value" = value, "update" = update, "reserved" = reserved,
        }
    }
}

fn of_events(lines: &mut BTreeSet<String>) {
    lay_out! { lines,
        "suci_outcome" = event::RawOutcome {
            "number" = number, "cookie" = cookie, "channel" = channel, "fate" = fate,
            "notify" = notify, "reserved" = reserved,
        }
        "suci_event_up" = event::UpEvent {
            "session" = session,
        }
        "suci_event_lost" = event::LostEvent {
            "code" = code, "cause" = cause, "refusal" = refusal,
        }
        "suci_event_side" = event::SideEvent {
            "here" = here,
        }
        "suci_event_ended" = event::EndedEvent {
            "session" = session, "sessions" = sessions, "reason" = reason, "reserved" = reserved,
            "missing" = missing, "code" = code, "outcomes" = outcomes,
            "outcome_count" = outcome_count,
        }
        "suci_event_delivery" = event::DeliveryEvent {
            "number" = number, "cookie" = cookie, "reason" = reason, "channel" = channel,
        }
        "suci_event_writable" = event::WritableEvent {
            "priority_class" = priority_class,
        }
        "suci_event_incoming" = event::IncomingEvent {
            "number" = number, "length" = length, "tag" = tag, "user_header" = user_header,
            "channel" = channel, "kind" = kind, "user_header_length" = user_header_length,
            "reserved" = reserved,
        }
        "suci_event_finished" = event::FinishedEvent {
            "channel" = channel,
        }
        "suci_event_refused" = event::RefusedEvent {
            "code" = code, "reason" = reason,
        }
        "suci_event_released" = event::ReleasedEvent {
            "cookie" = cookie,
        }
        "suci_event" = event::RawEvent {
            "type" = kind, "node" = node, "up" = details, "lost" = details, "side" = details,
            "ended" = details, "delivery" = details, "writable" = details, "incoming" = details,
            "finished" = details, "refused" = details, "released" = details, "reserved" = details,
            "opaque" = opaque,
        }
        "suci_item" = event::RawItem {
            "type" = kind, "reserved" = reserved, "message" = details, "event" = details,
        }
    }
}

fn of_stats(lines: &mut BTreeSet<String>) {
    lay_out! { lines,
        "suci_waited" = stats::RawWaited {
            "nanoseconds" = nanoseconds, "times" = times,
        }
        "suci_peer_stats" = stats::RawPeerStats {
            "size" = size, "node" = node, "link" = link, "mode" = mode,
            "remote_mode" = remote_mode, "mtu" = mtu, "waiting" = waiting,
            "suspended_here" = suspended_here, "suspended_there" = suspended_there,
            "marks_stopped" = marks_stopped, "reserved" = reserved, "address" = address,
            "rtt" = rtt, "min_rtt" = min_rtt, "rtt_variance" = rtt_variance,
            "congestion_window" = congestion_window, "in_flight" = in_flight,
            "socket_credit" = socket_credit, "queued_messages" = queued_messages,
            "queued_bytes" = queued_bytes, "packets_sent" = packets_sent,
            "bytes_sent" = bytes_sent, "packets_received" = packets_received,
            "bytes_received" = bytes_received, "messages_sent" = messages_sent,
            "message_bytes_sent" = message_bytes_sent, "messages_received" = messages_received,
            "message_bytes_received" = message_bytes_received, "bytes_resent" = bytes_resent,
            "acks_sent" = acks_sent, "packets_lost" = packets_lost,
            "spurious_losses" = spurious_losses, "probes" = probes, "duplicates" = duplicates,
            "waits" = waits,
        }
        "suci_counters" = stats::RawCounters {
            "size" = size, "reserved" = reserved, "datagrams_in" = datagrams_in,
            "bytes_in" = bytes_in, "packets_out" = packets_out, "bytes_out" = bytes_out,
            "trains_out" = trains_out, "messages_sent" = messages_sent,
            "messages_received" = messages_received, "malformed" = malformed,
            "wrong_version" = wrong_version, "bad_checksum" = bad_checksum,
            "unknown_connection" = unknown_connection, "duplicates" = duplicates,
            "handshake_rejected" = handshake_rejected, "hello_unanswered" = hello_unanswered,
            "unknown_sent" = unknown_sent, "protocol_errors" = protocol_errors,
            "packets_lost" = packets_lost, "spurious_losses" = spurious_losses, "probes" = probes,
            "socket_full" = socket_full, "too_big" = too_big, "unreachable" = unreachable,
            "payload_copied" = payload_copied, "overcharged" = overcharged,
            "suspensions" = suspensions, "gaps" = gaps, "misdirected" = misdirected,
            "misdirected_dropped" = misdirected_dropped, "late_replies" = late_replies,
        }
        "suci_socket_counters" = stats::RawSocketCounters {
            "size" = size, "reserved" = reserved, "send_calls" = send_calls,
            "recv_calls" = recv_calls, "wait_calls" = wait_calls,
            "datagrams_sent" = datagrams_sent, "datagrams_received" = datagrams_received,
            "bytes_sent" = bytes_sent, "bytes_received" = bytes_received,
            "trains_sent" = trains_sent, "trains_received" = trains_received,
            "truncated" = truncated, "recv_drops" = recv_drops, "recv_charged" = recv_charged,
            "recv_charged_max" = recv_charged_max, "again" = again, "too_big" = too_big,
            "gso_refused" = gso_refused, "unreachable" = unreachable, "recv_errors" = recv_errors,
            "fault_packets" = fault_packets, "fault_lost" = fault_lost,
            "fault_doubled" = fault_doubled, "fault_reordered" = fault_reordered,
            "fault_corrupted" = fault_corrupted, "fault_delayed" = fault_delayed,
            "fault_discarded" = fault_discarded,
        }
        "suci_share_stats" = stats::RawShareStats {
            "size" = size, "reserved" = reserved, "peers" = peers, "unsatisfied" = unsatisfied,
            "dormant" = dormant, "waiting" = waiting, "granted" = granted, "beyond" = beyond,
            "free_bytes" = free_bytes, "jain" = jain,
        }
    }
}
