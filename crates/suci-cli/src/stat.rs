//! `suci stat`: the numbers of running nodes, once or again and again.

use std::fmt::Write as _;
use std::process::ExitCode;

use serde_json::{Map, Value, json};
use suci::statistics::{Field, FieldKind, NODE_FIELDS, PEER_FIELDS, SOCKET_FIELDS, Snapshot};
use suci::{PeerStats, WaitReason};

use crate::args::StatArgs;
use crate::error::{self, Result};
use crate::stats_reader::{self, short};

/// Prints the statistics that are there.
pub(crate) fn run(args: &StatArgs) -> Result<ExitCode> {
    loop {
        let nodes: Vec<Snapshot> = stats_reader::read_nodes(args.pid)
            .into_iter()
            .map(|(_, now)| now)
            .collect();
        if let Some(pid) = args.pid.filter(|_| nodes.is_empty()) {
            return Err(stats_reader::no_node_error(pid));
        }
        if nodes.is_empty()
            && let Some(reason) = stats_reader::why_none()
        {
            error::tell(format_args!("suci stat: {reason}"));
        }
        error::print(format_args!("{}", shown(args.json, &nodes)))?;
        let Some(pause) = args.watch else {
            return Ok(ExitCode::SUCCESS);
        };
        std::thread::sleep(pause);
    }
}

fn shown(as_json: bool, nodes: &[Snapshot]) -> String {
    if as_json {
        let nodes: Vec<Value> = nodes.iter().map(node_json).collect();
        json!({ "nodes": nodes }).to_string()
    } else if nodes.is_empty() {
        "no node of this user publishes statistics".to_owned()
    } else {
        let texts: Vec<String> = nodes.iter().map(node_text).collect();
        texts.join("\n").trim_end().to_owned()
    }
}

fn object<T>(fields: &[Field<T>], of: &T) -> Map<String, Value> {
    let value = |field: &Field<T>| {
        let name = match field.kind {
            FieldKind::Time => format!("{}_ns", field.name),
            FieldKind::Counter | FieldKind::Gauge => field.name.to_owned(),
        };
        (name, Value::from((field.get)(of)))
    };
    fields.iter().map(value).collect()
}

fn node_json(now: &Snapshot) -> Value {
    let nanos = |time: std::time::SystemTime| {
        let since_1970 = time.duration_since(std::time::UNIX_EPOCH);
        since_1970.map_or(0.0, |time| time.as_secs_f64())
    };
    json!({
        "pid": now.pid,
        "program": now.program,
        "node": now.node.0,
        "address": now.address.map(|address| address.to_string()),
        "opened": nanos(now.opened),
        "published": nanos(now.published),
        "clock": now.clock.as_secs_f64(),
        "counters": object(NODE_FIELDS, &now.counters),
        "socket": object(SOCKET_FIELDS, &now.socket),
        "peers_known": now.peers_known,
        "peers": now.peers.iter().map(peer_json).collect::<Vec<_>>(),
    })
}

fn peer_json(stats: &PeerStats) -> Value {
    let mut peer = Map::new();
    peer.insert("peer".into(), stats.node.0.into());
    peer.insert(
        "address".into(),
        stats.address.map(|address| address.to_string()).into(),
    );
    peer.insert("state".into(), stats_reader::state(stats.link).into());
    peer.insert("suspended_here".into(), stats.suspended_here.into());
    peer.insert("suspended_there".into(), stats.suspended_there.into());
    peer.insert("mode".into(), stats_reader::mode_name(stats.mode).into());
    peer.insert("waiting".into(), stats.waiting.map(WaitReason::name).into());
    peer.extend(object(PEER_FIELDS, stats));
    let waits = WaitReason::ALL.into_iter().map(|reason| {
        let wait = stats.waits.get(reason);
        let wait = json!({ "ns": wait.nanos, "times": wait.times });
        (reason.name().to_owned(), wait)
    });
    peer.insert("waits".into(), Value::Object(waits.collect()));
    Value::Object(peer)
}

/// Returns a node and its peers for people; fits 80 columns.
fn node_text(now: &Snapshot) -> String {
    let mut text = String::new();
    let address = now
        .address
        .map_or_else(|| "nowhere".into(), |at| at.to_string());
    let up = now.published.duration_since(now.opened).unwrap_or_default();
    let Snapshot {
        counters, socket, ..
    } = now;
    // Writing into a string cannot fail.
    let _ = writeln!(
        text,
        "node {} at {address}: process {} ({}), up {} s, {} peers",
        now.node,
        now.pid,
        now.program,
        up.as_secs(),
        now.peers_known,
    );
    let _ = writeln!(
        text,
        "  messages {} out, {} in; packets {} out, {} in, {} lost; socket drops {}",
        short(counters.messages_sent),
        short(counters.messages_received),
        short(counters.packets_out),
        short(counters.datagrams_in),
        short(counters.packets_lost),
        short(socket.recv_drops),
    );
    if now.peers.is_empty() {
        return text;
    }
    let _ = writeln!(
        text,
        "  {:>10} {:<5} {:<5} {:>7} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} waited",
        "peer", "state", "mode", "rtt us", "m out", "m in", "B out", "B in", "lost", "queue",
    );
    for stats in &now.peers {
        let traffic = &stats.traffic;
        let _ = writeln!(
            text,
            "  {:>10} {:<5} {:<5} {:>7} {:>5} {:>5} {:>5} {:>5} {:>5} {:>5} {}",
            stats.node.0,
            stats_reader::condition(stats),
            stats_reader::mode(stats.mode),
            stats.rtt.as_micros(),
            short(traffic.messages_sent),
            short(traffic.messages_received),
            short(traffic.message_bytes_sent),
            short(traffic.message_bytes_received),
            short(traffic.packets_lost),
            short(stats.queued_messages),
            waited(stats),
        );
    }
    if u64::try_from(now.peers.len()).is_ok_and(|shown| shown < now.peers_known) {
        let _ = writeln!(text, "  ... the busiest of {}", now.peers_known);
    }
    text
}

/// Returns how long messages waited, and the reason for most of that time.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn waited(stats: &PeerStats) -> String {
    let seconds = |nanos: u64| stats_reader::brief(nanos as f64 / 1e9);
    match stats.waits.worst() {
        Some(worst) => format!("{} s {}", seconds(stats.waits.nanos()), worst.name()),
        None => "-".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats_reader::tests::snapshot;

    #[test]
    fn a_node_fits_a_terminal() {
        let text = node_text(&snapshot(4_000_000, 3, 100_000));
        assert!(
            text.lines().all(|line| line.chars().count() <= 90),
            "{text}"
        );
        assert_eq!(text.lines().count(), 6);
        for part in [
            "process 4000000 (solver)",
            "3 peers",
            "25000 s socket_credit",
            "adapt",
        ] {
            assert!(text.contains(part), "no {part} in:\n{text}");
        }
    }

    #[test]
    fn json_has_every_field() {
        let value = node_json(&snapshot(7, 1, 10));
        let peer = &value["peers"][0];
        for field in PEER_FIELDS
            .iter()
            .filter(|field| field.kind != FieldKind::Time)
        {
            assert!(peer[field.name].is_u64(), "{}", field.name);
        }
        assert_eq!(peer["rtt_ns"], 120_000);
        assert_eq!(peer["waits"]["socket_credit"]["times"], 10);
        assert_eq!(
            (&peer["waiting"], &peer["state"]),
            (&json!("socket_credit"), &json!("up"))
        );
        assert_eq!(peer["suspended_here"], false);
        assert!(
            value["counters"]["messages_sent"].is_u64() && value["socket"]["recv_drops"].is_u64()
        );
    }
}
