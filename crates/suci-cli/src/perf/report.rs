//! The output: a table for people, JSON for programs.

use std::collections::BTreeMap;

use serde::Serialize;
use suci::WaitReason;

use super::control::{Account, Contender, Entrant, Trips, Waited};
use super::usage::Spent;
use crate::args::{Prefer, Workload};
use crate::error::{Context, Result, print_for_reader};
use crate::stats::Samples;

/// All rounds of one contender in one workload and size.
#[derive(Debug)]
pub(super) struct Series {
    workload: Workload,
    pub(super) entrant: Entrant,
    size: usize,
    receivers: usize,
    values: Vec<f64>,
    seconds: f64,
    trips: Vec<Trips>,
    client: Account,
    server: Account,
}

/// One line of the output.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) workload: Workload,
    contender: Contender,
    /// The mode, if the command line named one.
    #[serde(skip_serializing_if = "Option::is_none")]
    prefer: Option<Prefer>,
    pub(super) size: usize,
    receivers: usize,
    pub(super) unit: &'static str,
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    rounds: usize,
    /// Medians over rounds of the percentiles of each, in microseconds; of round trips.
    #[serde(skip_serializing_if = "Option::is_none")]
    p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99: Option<f64>,
    /// All rounds together.
    seconds: f64,
    bytes: u64,
    /// Both sides, all rounds.
    cpu_seconds: f64,
    cpu_seconds_client: f64,
    cpu_seconds_server: f64,
    /// Sent by both sides in all rounds.
    packets: u64,
    /// Messages (or round trips) in all rounds.
    messages: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    packets_per_round_trip: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    packets_per_message: Option<f64>,
    /// In the direction of the messages alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    messages_per_packet: Option<f64>,
    /// The time lost by each reason; only Suci knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    waited: Option<Waits>,
    /// The split of the processes' time, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<Profile>,
    /// Packets that the receivers sent for each that came.
    #[serde(skip_serializing_if = "Option::is_none")]
    acks_per_packet: Option<f64>,
}

impl Row {
    /// Returns the name of the contender in the table.
    pub(super) fn contender(&self) -> &'static str {
        match (self.contender, self.prefer) {
            (Contender::Tcp, _) => "tcp cubic",
            (_, Some(Prefer::Adaptive)) => "suci adaptive",
            (_, Some(Prefer::Throughput)) => "suci throughput",
            (_, Some(Prefer::Response)) => "suci response",
            (other, None) => other.name(),
        }
    }
}

/// For each reason, the part of the time in which messages waited for it.
#[derive(Debug, Serialize)]
struct Waits {
    client: BTreeMap<&'static str, f64>,
    server: BTreeMap<&'static str, f64>,
}

/// The time of both sides, by use; with several servers, of all of them together.
#[derive(Debug, PartialEq, Serialize)]
struct Profile {
    client: Split,
    server: Split,
}

/// Parts of the time that passed. With more than one thread at work they exceed it.
#[derive(Debug, PartialEq, Serialize)]
struct Split {
    user: f64,
    kernel: f64,
    /// Time in which it did not use a processor: asleep, or without one to run on.
    waiting: f64,
}

impl Split {
    fn of(spent: &Spent) -> Self {
        let part = |seconds: f64| seconds / spent.wall.max(f64::MIN_POSITIVE);
        Self {
            user: part(spent.cpu - spent.kernel),
            kernel: part(spent.kernel),
            waiting: part(spent.wall - spent.cpu).max(0.0),
        }
    }
}

/// Parts of the time below this are not worth a word.
const LEAST_SHARE: f64 = 0.0005;

impl Series {
    pub(super) fn new(workload: Workload, entrant: Entrant, size: usize, receivers: usize) -> Self {
        let (client, server) = (Account::default(), Account::default());
        Self {
            workload,
            entrant,
            size,
            receivers,
            values: Vec::new(),
            seconds: 0.0,
            trips: Vec::new(),
            client,
            server,
        }
    }

    /// Counts a round in.
    pub(super) fn add(&mut self, client: &Account, server: &Account) {
        // A wire that loses messages is measured by the messages that arrived.
        let (account, seconds) = match self.entrant.contender {
            Contender::Udp if self.workload != Workload::PingPong => (server, server.seconds),
            _ => (client, client.seconds),
        };
        let value = value(self.workload, self.receivers, account, seconds);
        self.values.push(value);
        self.seconds += seconds;
        self.trips.extend(client.trips);
        for (total, one) in [(&mut self.client, client), (&mut self.server, server)] {
            let seconds = total.seconds + one.seconds;
            super::fan::add(total, one);
            total.seconds = seconds;
        }
    }

    fn row(&self) -> Option<Row> {
        let samples = Samples::new(self.values.clone())?;
        let (messages, bytes) = match self.entrant.contender {
            Contender::Udp if self.workload != Workload::PingPong => {
                (self.server.messages, self.server.bytes)
            }
            _ => (self.client.messages, self.client.bytes),
        };
        let packets = self.client.packets.saturating_add(self.server.packets);
        let trip = self.workload == Workload::PingPong || self.workload.is_mix();
        let each = ratio(packets, messages);
        Some(Row {
            workload: self.workload,
            contender: self.entrant.contender,
            prefer: self.entrant.prefer,
            size: self.size,
            receivers: self.receivers,
            unit: unit(self.workload),
            median: samples.median(),
            min: samples.min(),
            max: samples.max(),
            rounds: samples.len(),
            p50: self.trip(|trips| trips.p50),
            p99: self.trip(|trips| trips.p99),
            seconds: self.seconds,
            bytes,
            cpu_seconds: self.client.spent.cpu + self.server.spent.cpu,
            cpu_seconds_client: self.client.spent.cpu,
            cpu_seconds_server: self.server.spent.cpu,
            packets,
            messages,
            packets_per_round_trip: each.filter(|_| trip),
            packets_per_message: each.filter(|_| !trip),
            messages_per_packet: ratio(messages, self.client.packets).filter(|_| !trip),
            waited: (self.entrant.contender == Contender::Suci).then(|| Waits {
                client: self.shares(&self.client.waits),
                server: self.shares(&self.server.waits),
            }),
            profile: Some(Profile {
                client: Split::of(&self.client.spent),
                server: Split::of(&self.server.spent),
            }),
            acks_per_packet: ratio(self.server.packets, self.client.packets).filter(|_| !trip),
        })
    }

    /// Returns the median of one percentile over rounds.
    fn trip(&self, percentile: impl Fn(&Trips) -> f64) -> Option<f64> {
        let of_rounds = self.trips.iter().map(percentile).collect();
        Some(Samples::new(of_rounds)?.median())
    }

    /// Returns the parts of the time of all rounds that messages waited, by reason; with several
    /// receivers, of all of them together.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn shares(&self, waits: &Waited) -> BTreeMap<&'static str, f64> {
        let nanos = self.client.seconds * self.receivers as f64 * 1e9;
        let share = |&(_, wait): &(WaitReason, u64)| wait as f64 / nanos;
        let all = WaitReason::ALL.into_iter().zip(waits.iter().copied());
        let worth = all.filter(|wait| share(wait) >= LEAST_SHARE);
        worth
            .map(|wait| (wait.0.name(), share(&wait).min(1.0)))
            .collect()
    }
}

/// Returns the name on the command line.
pub(super) fn name(workload: Workload) -> &'static str {
    match workload {
        Workload::PingPong => "ping-pong",
        Workload::Stream => "stream",
        Workload::StreamBatch => "stream-batch",
        Workload::Rate => "rate",
        Workload::RateBatch => "rate-batch",
        Workload::Broadcast => "broadcast",
        Workload::NData => "n-data",
        Workload::NDataBatch => "n-data-batch",
        Workload::AllToAll => "all-to-all",
        Workload::AllToAllBatch => "all-to-all-batch",
        Workload::Mix => "mix",
        Workload::MixBatch => "mix-batch",
    }
}

fn unit(workload: Workload) -> &'static str {
    match workload {
        Workload::PingPong
        | Workload::NData
        | Workload::NDataBatch
        | Workload::AllToAll
        | Workload::AllToAllBatch => "us",
        Workload::Stream | Workload::StreamBatch | Workload::Broadcast => "Gbit/s",
        Workload::Rate | Workload::RateBatch => "messages/s",
        Workload::Mix | Workload::MixBatch => "requests/s",
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn value(workload: Workload, receivers: usize, account: &Account, seconds: f64) -> f64 {
    let (messages, bytes) = (account.messages as f64, account.bytes as f64);
    if messages == 0.0 || seconds <= 0.0 {
        return 0.0;
    }
    match workload {
        Workload::PingPong => seconds / messages * 1e6,
        // Counted at each receiver.
        Workload::NData | Workload::NDataBatch => seconds / messages * receivers as f64 * 1e6,
        // And of each sender.
        Workload::AllToAll | Workload::AllToAllBatch => {
            seconds / messages * (receivers * (receivers + 1)) as f64 * 1e6
        }
        Workload::Stream | Workload::StreamBatch | Workload::Broadcast => {
            bytes * 8.0 / seconds / 1e9
        }
        Workload::Rate | Workload::RateBatch | Workload::Mix | Workload::MixBatch => {
            messages / seconds
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn ratio(of: u64, to: u64) -> Option<f64> {
    (to > 0).then(|| of as f64 / to as f64)
}

/// Prints rows as they come.
pub(super) struct Report {
    json: bool,
    profile: bool,
    rows: Vec<Row>,
}

impl Report {
    pub(super) fn new(json: bool, profile: bool) -> Self {
        Self {
            json,
            profile,
            rows: Vec::new(),
        }
    }

    /// Returns the rows printed so far.
    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Prints a row. Returns whether a reader is left.
    pub(super) fn print(&mut self, series: &Series) -> Result<bool> {
        let Some(mut row) = series.row() else {
            return Ok(true);
        };
        if !self.profile {
            row.profile = None;
        }
        let first = self.rows.is_empty();
        let row = self.rows.push_mut(row);
        if self.json {
            let row = serde_json::to_string(row).context("JSON")?;
            return print_for_reader(format_args!("{row}"));
        }
        let mut text = Vec::new();
        if first {
            text.push(format!(
                "{:<19}{:>9}  {:<16}{:>12}{:>12}{:>12} {:<11}{:>9}{:>12}{:>10}",
                "workload",
                "bytes",
                "contender",
                "median",
                "min",
                "max",
                "unit",
                "cpu s",
                "packets/msg",
                "acks/pkt"
            ));
        }
        text.push(line(row));
        text.extend(row.waited.as_ref().map(waited));
        text.extend(row.profile.as_ref().map(profiled));
        print_for_reader(format_args!("{}", text.join("\n")))
    }
}

/// Writes the split of the time.
fn profiled(profile: &Profile) -> String {
    let side = |split: &Split| {
        let percent = |part: f64| format!("{:.1} %", part * 100.0);
        let [user, kernel, waiting] = [split.user, split.kernel, split.waiting].map(percent);
        format!("user {user}, kernel {kernel}, waiting {waiting}")
    };
    let (client, server) = (side(&profile.client), side(&profile.server));
    format!("  time at the client: {client}; at the server: {server}")
}

/// Writes the time lost by each reason, the most of it first.
fn waited(sides: &Waits) -> String {
    let side = |shares: &BTreeMap<&str, f64>| {
        let mut shares: Vec<_> = shares.iter().collect();
        shares.sort_by(|a, b| b.1.total_cmp(a.1));
        let text = |(name, share): (&&str, &f64)| format!("{name} {:.1} %", share * 100.0);
        match shares.is_empty() {
            true => "nothing".to_owned(),
            false => shares.into_iter().map(text).collect::<Vec<_>>().join(", "),
        }
    };
    let (client, server) = (side(&sides.client), side(&sides.server));
    format!("  messages waited for: {client}; at the server: {server}")
}

fn line(row: &Row) -> String {
    let name = match row.workload {
        Workload::Broadcast => format!("bcast 1:{}", row.receivers),
        Workload::NData | Workload::NDataBatch => {
            format!("{} 1:{}", name(row.workload), row.receivers)
        }
        Workload::AllToAll | Workload::AllToAllBatch => {
            format!("{} {}", name(row.workload), row.receivers + 1)
        }
        other => name(other).to_owned(),
    };
    let contender = row.contender();
    let digits = |value: f64| match row.unit {
        "messages/s" | "requests/s" => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    };
    let each = row
        .packets_per_round_trip
        .or(row.packets_per_message)
        .unwrap_or(f64::NAN);
    let acks = row
        .acks_per_packet
        .map_or_else(|| "-".to_owned(), |acks| format!("{acks:.3}"));
    format!(
        "{name:<19}{:>9}  {contender:<16}{:>12}{:>12}{:>12} {:<11}{:>9.2}{each:>12.3}{acks:>10}",
        row.size,
        digits(row.median),
        digits(row.min),
        digits(row.max),
        row.unit,
        row.cpu_seconds,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(messages: u64, bytes: u64, seconds: f64, packets: u64) -> Account {
        Account {
            messages,
            bytes,
            seconds,
            spent: Spent {
                wall: 2.0,
                cpu: 0.5,
                kernel: 0.375,
            },
            packets,
            trips: None,
            waits: Waited::default(),
        }
    }

    fn plain(contender: Contender) -> Entrant {
        Entrant {
            contender,
            prefer: None,
        }
    }

    #[test]
    fn time_lost_is_a_part_of_the_run() {
        let mut series = Series::new(Workload::Broadcast, plain(Contender::Suci), 64, 2);
        let mut client = account(10, 640, 2.0, 10);
        client.waits[WaitReason::Congestion as usize] = 1_000_000_000;
        client.waits[WaitReason::Pacing as usize] = 2_000_000_000;
        client.waits[WaitReason::Link as usize] = 1_000;
        let server = account(10, 640, 0.0, 10);
        series.add(&client, &server);
        series.add(&client, &server);
        let sides = series.row().unwrap().waited.unwrap();
        let shares: Vec<_> = sides
            .client
            .iter()
            .map(|(name, share)| (*name, *share))
            .collect();
        assert_eq!(shares, [("congestion", 0.25), ("pacing", 0.5)]);
        assert_eq!(
            waited(&sides),
            "  messages waited for: pacing 50.0 %, congestion 25.0 %; at the server: nothing"
        );
        let tcp = Series {
            entrant: plain(Contender::Tcp),
            ..series
        };
        assert!(tcp.row().unwrap().waited.is_none());
    }

    #[test]
    fn a_round_trip_is_counted_in_microseconds_and_packets() {
        let mut series = Series::new(Workload::PingPong, plain(Contender::Suci), 64, 1);
        for seconds in [1.0, 2.0, 4.0] {
            series.add(
                &account(1000, 64_000, seconds, 1000),
                &account(1000, 64_000, 0.0, 1000),
            );
        }
        let row = series.row().unwrap();
        assert_eq!((row.min, row.median, row.max), (1000.0, 2000.0, 4000.0));
        assert_eq!(
            (row.packets_per_round_trip, row.packets_per_message),
            (Some(2.0), None)
        );
        assert_eq!(
            (row.packets, row.messages, row.cpu_seconds),
            (6000, 3000, 3.0)
        );
    }

    #[test]
    fn a_profile_divides_the_time_of_each_side() {
        let mut series = Series::new(Workload::Stream, plain(Contender::Tcp), 64, 1);
        let client = account(10, 640, 2.0, 10);
        let mut server = client;
        // Two threads at work.
        server.spent.cpu = 3.0;
        for _ in 0..2 {
            series.add(&client, &server);
        }
        let profile = series.row().unwrap().profile.unwrap();
        assert_eq!(
            profiled(&profile),
            "  time at the client: user 6.2 %, kernel 18.8 %, waiting 75.0 %; \
             at the server: user 131.2 %, kernel 18.8 %, waiting 0.0 %"
        );
    }

    #[test]
    fn modes_are_told_apart() {
        let entrant = Entrant {
            contender: Contender::Suci,
            prefer: Some(Prefer::Response),
        };
        let mut series = Series::new(Workload::Stream, entrant, 1000, 1);
        series.add(
            &account(100, 100_000, 1.0, 100),
            &account(100, 100_000, 0.0, 25),
        );
        let row = series.row().unwrap();
        let line = line(&row);
        assert!(
            line.contains("suci response") && line.ends_with("0.250"),
            "{line}"
        );
        let row = serde_json::to_value(row).unwrap();
        assert_eq!(
            (&row["prefer"], &row["contender"]),
            (&"response".into(), &"suci".into())
        );
    }

    #[test]
    fn percentiles_are_medians_over_rounds() {
        let mut series = Series::new(Workload::PingPong, plain(Contender::Tcp), 64, 1);
        for slow in [9_000, 30_000, 20_000] {
            let mut client = account(100, 6400, 0.5, 100);
            client.trips = Trips::of((1..=98).map(|_| 5_000).chain([slow, slow]).collect());
            series.add(&client, &account(100, 6400, 0.0, 100));
        }
        let row = series.row().unwrap();
        assert_eq!((row.p50, row.p99), (Some(5.0), Some(20.0)));
        assert_eq!((row.seconds, row.bytes), (1.5, 19_200));
        assert!(Trips::of(Vec::new()).is_none());
    }

    #[test]
    fn raw_udp_is_measured_by_what_arrived() {
        let mut series = Series::new(Workload::Stream, plain(Contender::Udp), 1000, 1);
        series.add(
            &account(100, 100_000_000, 1.0, 100),
            &account(50, 50_000_000, 2.0, 0),
        );
        let row = series.row().unwrap();
        assert_eq!((row.median, row.messages), (0.2, 50));
    }

    #[test]
    fn rows_have_the_fields_that_programs_read() {
        let mut series = Series::new(Workload::Rate, plain(Contender::Tcp), 32, 1);
        series.add(
            &account(640, 20_480, 1.0, 10),
            &account(640, 20_480, 0.0, 2),
        );
        let row = serde_json::to_value(series.row().unwrap()).unwrap();
        assert_eq!(row["workload"], "rate");
        assert_eq!(row["contender"], "tcp");
        assert_eq!(row["unit"], "messages/s");
        assert_eq!(row["messages_per_packet"], 64.0);
        assert_eq!(row["acks_per_packet"], 0.2);
        assert!(row.get("prefer").is_none());
        for field in [
            "size",
            "median",
            "min",
            "max",
            "rounds",
            "cpu_seconds",
            "packets",
        ] {
            assert!(row[field].is_number(), "{field} in {row}");
        }
    }
}
