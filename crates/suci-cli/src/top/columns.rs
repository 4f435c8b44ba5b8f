//! The columns of the table: their content, their width, and which of them are left out if there is
//! no room.

use std::cmp::Ordering;

use crate::stats_reader::{self, PeerRow, brief, short};

/// The sort key of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Out,
    In,
    Rtt,
    Queue,
    Loss,
    Waits,
    Name,
}

impl Key {
    pub(super) fn next(self) -> Self {
        match self {
            Self::Out => Self::In,
            Self::In => Self::Rtt,
            Self::Rtt => Self::Queue,
            Self::Queue => Self::Loss,
            Self::Loss => Self::Waits,
            Self::Waits => Self::Name,
            Self::Name => Self::Out,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Out => "rate out",
            Self::In => "rate in",
            Self::Rtt => "RTT",
            Self::Queue => "queue",
            Self::Loss => "loss",
            Self::Waits => "waiting",
            Self::Name => "node",
        }
    }

    /// Returns the greatest first.
    pub(super) fn order(self, a: &PeerRow, b: &PeerRow) -> Ordering {
        let waited = |row: &PeerRow| stats_reader::share(row.waits.nanos(), row.span);
        match self {
            Self::Out => b.out_rate.total_cmp(&a.out_rate),
            Self::In => b.in_rate.total_cmp(&a.in_rate),
            Self::Rtt => b.stats.rtt.cmp(&a.stats.rtt),
            Self::Queue => b.stats.queued_bytes.cmp(&a.stats.queued_bytes),
            Self::Loss => b.loss.total_cmp(&a.loss),
            Self::Waits => waited(b).total_cmp(&waited(a)),
            Self::Name => a.name.cmp(&b.name),
        }
    }
}

/// One column of the table.
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) width: u16,
    pub(super) right: bool,
    /// The table shows it from this rank's width on: the lower, the more important.
    rank: u8,
    pub(super) value: fn(&PeerRow) -> String,
}

const fn left(title: &'static str, width: u16, rank: u8, value: fn(&PeerRow) -> String) -> Column {
    Column {
        title,
        width,
        right: false,
        rank,
        value,
    }
}

const fn right(title: &'static str, width: u16, rank: u8, value: fn(&PeerRow) -> String) -> Column {
    Column {
        title,
        width,
        right: true,
        rank,
        value,
    }
}

/// All columns, in their order on the screen.
const ALL: &[Column] = &[
    left("PROGRAM", 15, 4, |row| row.program.clone()),
    right("PID", 7, 3, |row| row.name.pid.to_string()),
    right("NODE", 6, 0, |row| id(row.name.node.0)),
    right("PEER", 6, 0, |row| id(row.name.peer.0)),
    left("ADDRESS", 21, 6, |row| {
        row.stats
            .address
            .map_or_else(|| "-".into(), |at| at.to_string())
    }),
    left("STATE", 5, 0, |row| {
        stats_reader::condition(&row.stats).into()
    }),
    left("MODE", 6, 0, mode),
    right("OUT Mb", 7, 0, |row| brief(row.out_rate)),
    right("IN Mb", 7, 0, |row| brief(row.in_rate)),
    right("OUT/s", 6, 1, |row| brief(row.out_messages.round())),
    right("IN/s", 6, 1, |row| brief(row.in_messages.round())),
    right("RTT us", 7, 0, |row| row.stats.rtt.as_micros().to_string()),
    right("MIN us", 7, 5, |row| {
        row.stats.min_rtt.as_micros().to_string()
    }),
    right("QUEUE", 5, 0, |row| short(row.stats.queued_messages)),
    right("QUEUE B", 7, 3, |row| short(row.stats.queued_bytes)),
    right("CREDIT", 6, 2, |row| short(row.stats.socket_credit)),
    right("WINDOW", 6, 2, |row| short(row.stats.congestion_window)),
    right("FLIGHT", 6, 4, |row| short(row.stats.in_flight)),
    right("LOSS%", 5, 2, |row| percent(row.loss)),
    right("RESENT", 6, 5, |row| short(row.stats.traffic.bytes_resent)),
    left("WAITS FOR", 20, 0, waits),
];

/// Returns the columns that fit into `width`: the most important ones.
pub(super) fn fitting(width: u16) -> Vec<&'static Column> {
    let highest = ALL.iter().map(|column| column.rank).max().unwrap_or(0);
    let up_to = |rank: u8| ALL.iter().filter(move |column| column.rank <= rank);
    let total = |rank: u8| up_to(rank).map(|column| column.width + 1).sum::<u16>();
    let rank = (0..=highest).rev().find(|&rank| total(rank) <= width + 1);
    up_to(rank.unwrap_or(0)).collect()
}

/// Returns a node's ID. Commands that only call have long random IDs, which their ends tell apart.
fn id(node: u32) -> String {
    let all = node.to_string();
    match all.get(all.len().saturating_sub(5)..) {
        Some(end) if all.len() > 6 => format!("~{end}"),
        _ => all,
    }
}

/// Returns the mode, or the one that was asked for.
fn mode(row: &PeerRow) -> String {
    match row.asked {
        Some(asked) => format!(">{}", stats_reader::mode(asked)),
        None => stats_reader::mode(row.stats.mode).into(),
    }
}

fn percent(part: f64) -> String {
    match part * 100.0 {
        0.0 => "0".into(),
        percent if percent < 10.0 => format!("{percent:.2}"),
        percent => format!("{percent:.1}"),
    }
}

fn waits(row: &PeerRow) -> String {
    match row.worst() {
        Some((reason, share)) => format!("{:>3.0}% {}", share * 100.0, reason.name()),
        None => String::new(),
    }
}
