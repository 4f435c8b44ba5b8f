//! Reads the nodes of this machine through their statistics files.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::Duration;

use suci::statistics::{self, Snapshot, StatFile};
use suci::{LinkState, Mode, NodeId, PeerStats, WaitReason, Waits};

use crate::error::{Failure, Result};

/// A node whose numbers are older than this does nothing: a busy node stores them ten times a
/// second.
const QUIET: Duration = Duration::from_millis(1_500);

/// Returns all nodes of this machine that can be seen, or those of one process.
pub(crate) fn read_nodes(pid: Option<u32>) -> Vec<(StatFile, Snapshot)> {
    let found = statistics::find().into_iter();
    let wanted = found.filter(|found| pid.is_none_or(|pid| pid == found.pid));
    // Skip a file that is removed at this moment, or that is broken.
    let open = |found: statistics::Found| {
        let file = found.open().ok()?;
        let snapshot = file.read().ok()?;
        Some((file, snapshot))
    };
    wanted.filter_map(open).collect()
}

/// Returns the error for a process that has no node.
pub(crate) fn no_node_error(pid: u32) -> Failure {
    let found = statistics::find().into_iter();
    let broken = found.filter(|found| found.pid == pid).find_map(|found| {
        let error = found.open().and_then(|file| file.read()).err()?;
        let problem = match error.kind() {
            // The process has ended.
            ErrorKind::NotFound => return None,
            ErrorKind::InvalidData => {
                "no statistics that this release can read; use the program's, or remove the file"
                    .into()
            }
            _ => error.to_string(),
        };
        Some(format!("{}: {problem}", found.path.display()))
    });
    Failure::new(broken.unwrap_or_else(|| {
        let reason = why_none().unwrap_or_else(|| {
            "it must run, as this user, with statistics on (the default)".to_owned()
        });
        format!("no node of process {pid} can be seen: {reason}")
    }))
}

/// Says why nodes of this user cannot publish statistics, if they cannot.
pub(crate) fn why_none() -> Option<String> {
    let reason = statistics::check().err()?;
    Some(format!(
        "nodes of this user cannot publish statistics: {reason}; then start them again"
    ))
}

/// Fails early if a process was named that has no node.
pub(crate) fn require(pid: Option<u32>) -> Result<()> {
    match pid {
        Some(pid) if read_nodes(Some(pid)).is_empty() => Err(no_node_error(pid)),
        _ => Ok(()),
    }
}

/// The key of a peer: its process, the node and the peer's ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PeerKey {
    pub(crate) pid: u32,
    pub(crate) node: NodeId,
    pub(crate) peer: NodeId,
}

/// A peer and its recent activity.
#[derive(Clone, Debug)]
pub(crate) struct PeerRow {
    pub(crate) name: PeerKey,
    pub(crate) program: String,
    pub(crate) stats: PeerStats,
    /// The mode that another process requested and that is not in force yet.
    pub(crate) asked: Option<Mode>,
    /// Payload of messages, in Mbit/s.
    pub(crate) out_rate: f64,
    pub(crate) in_rate: f64,
    /// Messages per second.
    pub(crate) out_messages: f64,
    pub(crate) in_messages: f64,
    /// The lost part of the packets sent.
    pub(crate) loss: f64,
    /// The time that messages waited within `span`, in nanoseconds, by reason.
    pub(crate) waits: Waits,
    pub(crate) span: Duration,
}

impl PeerRow {
    /// Returns the part of the time in which messages waited for `reason`.
    pub(crate) fn share(&self, reason: WaitReason) -> f64 {
        share(self.waits.get(reason).nanos, self.span)
    }

    /// Returns the reason for which messages waited longest, and its share.
    pub(crate) fn worst(&self) -> Option<(WaitReason, f64)> {
        let worst = self.waits.worst()?;
        Some((worst, self.share(worst)))
    }
}

/// Returns a part of `span`, at most all of it.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(crate) fn share(nanos: u64, span: Duration) -> f64 {
    if span.is_zero() {
        return 0.0;
    }
    (nanos as f64 / 1e9 / span.as_secs_f64()).min(1.0)
}

/// The last two snapshots of each node, to compute rates.
#[derive(Debug, Default)]
pub(crate) struct SnapshotHistory {
    /// The present and the previous snapshot, by process and node.
    seen: BTreeMap<(u32, NodeId), (Snapshot, Option<Snapshot>)>,
}

impl SnapshotHistory {
    /// Adds the present snapshots, and drops nodes that are gone.
    pub(crate) fn take(&mut self, now: Vec<Snapshot>) {
        let mut old = std::mem::take(&mut self.seen);
        for snapshot in now {
            let key = (snapshot.pid, snapshot.node);
            let entry = match old.remove(&key) {
                Some((last, before)) if last.clock == snapshot.clock => (snapshot, before),
                Some((last, _)) if last.clock < snapshot.clock => (snapshot, Some(last)),
                _ => (snapshot, None),
            };
            self.seen.insert(key, entry);
        }
    }

    /// Returns the number of nodes.
    pub(crate) fn nodes(&self) -> usize {
        self.seen.len()
    }

    /// Returns the number of peers that these nodes know.
    pub(crate) fn peers(&self) -> u64 {
        self.seen.values().map(|(now, _)| now.peers_known).sum()
    }

    /// Returns all peers.
    pub(crate) fn rows(&self) -> Vec<PeerRow> {
        let rows = |(now, before): &(Snapshot, Option<Snapshot>)| {
            let quiet = now.published.elapsed().is_ok_and(|age| age > QUIET);
            let before = before.as_ref().filter(|_| !quiet);
            let row = |stats: &PeerStats| {
                let old = before.and_then(|before| {
                    let old = before.peers.iter().find(|old| old.node == stats.node)?;
                    Some((old, now.clock.saturating_sub(before.clock)))
                });
                row(now, stats, old)
            };
            now.peers.iter().map(row).collect::<Vec<_>>()
        };
        self.seen.values().flat_map(rows).collect()
    }
}

/// Makes a row. `old` is an earlier state of the peer, and the time since then.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn row(now: &Snapshot, stats: &PeerStats, old: Option<(&PeerStats, Duration)>) -> PeerRow {
    let (before, span) = old.unwrap_or((stats, Duration::ZERO));
    let (new, old) = (&stats.traffic, &before.traffic);
    let rate = |new: u64, old: u64| match span.is_zero() {
        true => 0.0,
        false => new.saturating_sub(old) as f64 / span.as_secs_f64(),
    };
    let sent = new.packets_sent.saturating_sub(old.packets_sent);
    let lost = new.packets_lost.saturating_sub(old.packets_lost);
    PeerRow {
        name: PeerKey {
            pid: now.pid,
            node: now.node,
            peer: stats.node,
        },
        program: now.program.clone(),
        stats: *stats,
        asked: now
            .asked
            .filter(|(peer, _)| *peer == stats.node)
            .map(|(_, mode)| mode),
        out_rate: rate(new.message_bytes_sent, old.message_bytes_sent) * 8e-6,
        in_rate: rate(new.message_bytes_received, old.message_bytes_received) * 8e-6,
        out_messages: rate(new.messages_sent, old.messages_sent),
        in_messages: rate(new.messages_received, old.messages_received),
        loss: lost as f64 / (sent.max(1)) as f64,
        waits: stats.waits.since(&before.waits),
        span,
    }
}

/// Returns a link in a word.
pub(crate) fn state(link: LinkState) -> &'static str {
    match link {
        LinkState::Idle => "idle",
        LinkState::Connecting => "opens",
        LinkState::Up => "up",
        LinkState::Lost => "lost",
        LinkState::Quiet => "quiet",
    }
}

/// Returns a link and whether it is suspended, in a word.
pub(crate) fn condition(stats: &PeerStats) -> &'static str {
    match stats.link {
        LinkState::Up if stats.suspended_here || stats.suspended_there => "held",
        link => state(link),
    }
}

/// Returns a mode by the name that `--prefer` takes.
pub(crate) fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Adaptive => "adaptive",
        Mode::Throughput => "throughput",
        Mode::Response => "response",
    }
}

/// Returns a mode in a word that fits a column.
pub(crate) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Adaptive => "adapt",
        Mode::Throughput => "bulk",
        Mode::Response => "quick",
    }
}

/// Returns a count in at most five characters: 99999, 123k, 1.2M.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(crate) fn short(count: u64) -> String {
    brief(count as f64)
}

/// Returns a number in at most five characters.
pub(crate) fn brief(number: f64) -> String {
    let units = [(1e12, 'T'), (1e9, 'G'), (1e6, 'M'), (1e3, 'k')];
    if number < 10.0 && number.fract() != 0.0 {
        return format!("{number:.2}");
    }
    if number < 99_999.5 {
        return format!("{number:.0}");
    }
    let unit = units.into_iter().find(|(size, _)| number >= *size);
    match unit {
        Some((size, letter)) if number / size < 9.95 => format!("{:.1}{letter}", number / size),
        Some((size, letter)) => format!("{:.0}{letter}", number / size),
        None => format!("{number:.0}"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::time::SystemTime;
    use suci::{Counters, SocketCounters, Traffic, Waited};

    /// Returns a node with `peers` peers, `seconds` after it began: each got 1 MB and 100 messages
    /// a second, and waited a quarter of the time for credit.
    pub(crate) fn snapshot(pid: u32, peers: u32, seconds: u64) -> Snapshot {
        let peer = |number: u32| {
            let mut waits = Waits::default();
            let nanos = seconds * 250_000_000;
            waits.set(
                WaitReason::SocketCredit,
                Waited {
                    nanos,
                    times: seconds,
                },
            );
            let times = seconds * u64::from(number + 1);
            PeerStats {
                node: NodeId(number),
                address: Some("192.0.2.1:7000".parse().unwrap()),
                link: LinkState::Up,
                suspended_here: false,
                suspended_there: false,
                rtt: Duration::from_micros(120),
                min_rtt: Duration::from_micros(80),
                rtt_variance: Duration::from_micros(9),
                congestion_window: 150_000,
                in_flight: 14_720,
                mode: Mode::Adaptive,
                remote_mode: Mode::Adaptive,
                mtu: 1_472,
                marks_stopped: false,
                socket_credit: 711,
                queued_messages: 12,
                queued_bytes: 1_200_000,
                traffic: Traffic {
                    packets_sent: 1_000 * seconds,
                    packets_lost: 10 * seconds,
                    messages_sent: 100 * times,
                    message_bytes_sent: 1_000_000 * times,
                    ..Traffic::default()
                },
                waits,
                waiting: Some(WaitReason::SocketCredit),
            }
        };
        Snapshot {
            pid,
            program: "solver".into(),
            node: NodeId(pid),
            address: Some("192.0.2.7:7000".parse().unwrap()),
            opened: SystemTime::now(),
            published: SystemTime::now(),
            clock: Duration::from_secs(seconds),
            counters: Counters::default(),
            socket: SocketCounters::default(),
            peers_known: peers.into(),
            peers: (0..peers).map(peer).collect(),
            asked: None,
        }
    }

    #[test]
    fn rates_are_differences_by_the_nodes_own_clock() {
        let mut history = SnapshotHistory::default();
        history.take(vec![snapshot(7, 1, 10)]);
        assert_eq!(history.rows()[0].out_rate, 0.0, "one look tells no rate");
        history.take(vec![snapshot(7, 1, 12)]);
        let row = &history.rows()[0];
        assert_eq!(
            (row.out_rate, row.out_messages, row.in_rate),
            (8.0, 100.0, 0.0)
        );
        assert_eq!(
            (row.loss, row.worst()),
            (0.01, Some((WaitReason::SocketCredit, 0.25)))
        );
        // If no new numbers are published, the rates stay until that lasts too long.
        history.take(vec![snapshot(7, 1, 12)]);
        assert_eq!(history.rows()[0].out_rate, 8.0);
        let mut stale = snapshot(7, 1, 12);
        stale.published -= Duration::from_secs(5);
        history.take(vec![stale]);
        assert_eq!(history.rows()[0].out_rate, 0.0);
        // Another node with that key, or a node that is gone.
        history.take(vec![snapshot(7, 1, 1)]);
        assert_eq!((history.rows()[0].out_rate, history.nodes()), (0.0, 1));
        history.take(Vec::new());
        assert!(history.rows().is_empty());
    }

    #[test]
    fn a_suspended_peer_is_held_as_long_as_it_is_up() {
        let mut stats = snapshot(7, 1, 10).peers[0];
        assert_eq!(condition(&stats), "up");
        stats.suspended_there = true;
        assert_eq!(condition(&stats), "held");
        stats.link = LinkState::Lost;
        assert_eq!(condition(&stats), "lost");
    }

    #[test]
    fn numbers_are_brief() {
        let all = [0, 7, 99_999, 100_000, 1_234_567, 12_345_678_901];
        let text = all.map(short);
        assert_eq!(text, ["0", "7", "99999", "100k", "1.2M", "12G"]);
        assert_eq!((brief(0.5), brief(1234.5)), ("0.50".into(), "1234".into()));
        for power in 0..15 {
            assert!(short(9 * 10_u64.pow(power)).len() <= 5);
        }
    }
}
