//! Rows of the report, made from turns.

use std::collections::BTreeMap;

use serde::Serialize;
use xtask::figures::median;

use crate::launch::Turn;
use crate::plan::{Net, Task, Wait, Workload};
use crate::store::{Key, Outcome, Record};

/// One contender in one task. Fields that `suci perf --json` has too have the same names.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    /// The tree that was measured, by [`crate::tree::name`].
    pub(crate) commit: String,
    #[serde(flatten)]
    pub(crate) task: Task,
    pub(crate) contender: String,
    pub(crate) wait: Wait,
    pub(crate) unit: String,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) rounds: usize,
    /// Rounds in which it failed.
    pub(crate) failures: usize,
    /// The value of each round, by its number.
    pub(crate) values: BTreeMap<u32, f64>,
    /// Processor seconds per GB of both sides, likewise.
    pub(crate) cpu_values: BTreeMap<u32, f64>,
    /// 99th percentiles in microseconds, likewise.
    pub(crate) p99_values: BTreeMap<u32, f64>,
    /// Median over rounds of Suci's figure by this one's, of the same round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) suci_ratio: Option<f64>,
    /// The same for `suci-batch`, if that takes part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) batch_ratio: Option<f64>,
    /// Medians over rounds of the percentiles of each, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) p99: Option<f64>,
    /// All rounds together.
    pub(crate) seconds: f64,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) cpu_seconds: f64,
    pub(crate) cpu_seconds_client: f64,
    pub(crate) cpu_seconds_server: f64,
    /// Both sides.
    pub(crate) cpu_seconds_per_gb: f64,
    pub(crate) cpu_us_per_message: f64,
}

impl Row {
    /// The round that went best.
    pub(crate) fn best(&self) -> f64 {
        if self.workload().less_is_better() {
            self.min
        } else {
            self.max
        }
    }

    /// The difference between the worst round and the best, as a part of the median.
    pub(crate) fn spread(&self) -> f64 {
        (self.max - self.min) / self.median
    }

    pub(crate) fn workload(&self) -> Workload {
        self.task.workload
    }

    pub(crate) fn net(&self) -> Net {
        self.task.net
    }
}

/// The figure of one turn.
pub(crate) fn value(task: &Task, turn: &Turn) -> f64 {
    let (messages, bytes) = (turn.messages as f64, turn.bytes as f64);
    match task.workload {
        Workload::PingPong => turn.seconds / messages * 1e6,
        Workload::Stream | Workload::Broadcast => bytes * 8.0 / turn.seconds / 1e9,
        Workload::Rate | Workload::Mix => messages / turn.seconds,
        // Messages to all receivers; one after the other, as far as the program is concerned.
        Workload::Data => turn.seconds / (messages / task.receivers as f64) * 1e6,
        // The same for all processes at once.
        Workload::AllToAll => {
            let each = messages / (task.receivers + 1) as f64;
            turn.seconds / (each / task.receivers as f64) * 1e6
        }
    }
}

/// All turns of one entrant in one task.
struct Series<'a> {
    contender: &'a str,
    wait: Wait,
    turns: BTreeMap<u32, Turn>,
    failures: usize,
}

impl Series<'_> {
    fn values(&self, task: &Task) -> BTreeMap<u32, f64> {
        self.each(|turn| Some(value(task, turn)))
    }

    /// A figure of each round.
    fn each(&self, figure: impl Fn(&Turn) -> Option<f64>) -> BTreeMap<u32, f64> {
        let rounds = self.turns.iter();
        rounds
            .filter_map(|(round, turn)| Some((*round, figure(turn)?)))
            .collect()
    }
}

/// The rows of `records`, which are all of `key`: one for each entrant that finished at least one
/// turn, in the order in which they had their first.
pub(crate) fn rows(key: &Key, records: &[Record]) -> Vec<Row> {
    let all = series(records);
    all.iter()
        .filter_map(|series| row(key, series, &all))
        .collect()
}

/// The turns of each entrant.
fn series(records: &[Record]) -> Vec<Series<'_>> {
    let mut all: Vec<Series<'_>> = Vec::new();
    for record in records {
        let same = |series: &Series<'_>| {
            series.contender == record.contender && series.wait == record.wait
        };
        let at = all.iter().position(same).unwrap_or_else(|| {
            all.push(Series {
                contender: &record.contender,
                wait: record.wait,
                turns: BTreeMap::new(),
                failures: 0,
            });
            all.len() - 1
        });
        let Some(series) = all.get_mut(at) else {
            continue;
        };
        match &record.outcome {
            Outcome::Turn(turn) => drop(series.turns.insert(record.round, *turn)),
            Outcome::Failed(_) => series.failures += 1,
        }
    }
    all
}

/// The figures of Suci that a contender is compared with: one that spins with Suci spinning, if
/// that took part, any other with Suci as it is by default.
fn baseline<'a>(form: &str, all: &'a [Series<'a>], wait: Wait) -> Option<&'a Series<'a>> {
    let suci = |wait: Wait| {
        let is = |series: &&Series<'_>| series.contender == form && series.wait == wait;
        all.iter().find(is)
    };
    let alike = (wait == Wait::Spin).then(|| suci(Wait::Spin)).flatten();
    alike.or_else(|| suci(Wait::Adaptive))
}

fn row(key: &Key, series: &Series<'_>, all: &[Series<'_>]) -> Option<Row> {
    let task = &key.task;
    let values = series.values(task);
    let turns = || series.turns.values();
    let sum = |count: fn(&Turn) -> f64| turns().map(count).sum::<f64>();
    let (client, server) = (sum(|t| t.cpu_seconds_client), sum(|t| t.cpu_seconds_server));
    let messages = turns().map(|turn| turn.messages).sum::<u64>();
    let bytes = turns().map(|turn| turn.bytes).sum::<u64>();
    let percentile = |of: fn(&Turn) -> Option<f64>| median(turns().filter_map(of).collect());
    let ratio = |form| {
        let suci = baseline(form, all, series.wait)?;
        median_ratio(&suci.values(task), &values)
    };
    Some(Row {
        commit: key.commit.clone(),
        task: task.clone(),
        contender: series.contender.to_owned(),
        wait: series.wait,
        unit: task.workload.unit().to_owned(),
        median: median(values.values().copied().collect())?,
        min: values.values().copied().reduce(f64::min)?,
        max: values.values().copied().reduce(f64::max)?,
        rounds: values.len(),
        failures: series.failures,
        suci_ratio: ratio("suci"),
        batch_ratio: ratio("suci-batch"),
        cpu_values: series.each(|turn| {
            let cpu = turn.cpu_seconds_client + turn.cpu_seconds_server;
            Some(cpu / (turn.bytes as f64 / 1e9))
        }),
        p99_values: series.each(|turn| turn.p99),
        values,
        p50: percentile(|turn| turn.p50),
        p99: percentile(|turn| turn.p99),
        seconds: sum(|turn| turn.seconds),
        messages,
        bytes,
        cpu_seconds: client + server,
        cpu_seconds_client: client,
        cpu_seconds_server: server,
        cpu_seconds_per_gb: (client + server) / (bytes as f64 / 1e9),
        cpu_us_per_message: (client + server) / messages as f64 * 1e6,
    })
}

/// Contenders that finished no round at all, how they waited, and in how many rounds they failed.
pub(crate) fn fruitless(records: &[Record]) -> Vec<(&str, Wait, usize)> {
    let all = series(records).into_iter();
    all.filter(|series| series.turns.is_empty())
        .map(|series| (series.contender, series.wait, series.failures))
        .collect()
}

/// Contenders that failed, in how many rounds, and why the last time.
pub(crate) fn failures(records: &[Record]) -> Vec<(String, String)> {
    let mut all: BTreeMap<String, (usize, &str)> = BTreeMap::new();
    for record in records {
        if let Outcome::Failed(why) = &record.outcome {
            let who = format!("{} {}", record.contender, record.wait.name());
            let (count, last) = all.entry(who).or_default();
            (*count, *last) = (*count + 1, why);
        }
    }
    let said = |(who, (count, why))| match count {
        1 => (who, format!("has no figure of one round: {why}")),
        _ => (who, format!("has no figures of {count} rounds: {why}")),
    };
    all.into_iter().map(said).collect()
}

/// The median of one's figure by the other's, over the rounds that both finished.
fn median_ratio(of: &BTreeMap<u32, f64>, by: &BTreeMap<u32, f64>) -> Option<f64> {
    let ratio = |(round, of): (&u32, &f64)| Some(of / by.get(round)?);
    median(of.iter().filter_map(ratio).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::store::tests::{key, record, task, turn};

    /// Rows of Suci and TCP as a measurement would give them.
    pub(crate) fn example() -> Vec<Row> {
        rows(&key(Workload::Stream), &example_records())
    }

    pub(crate) fn example_records() -> Vec<Record> {
        let key = key(Workload::Stream);
        let mut records = Vec::new();
        for (round, (own, other)) in (0..).zip([(1.0, 2.0), (2.0, 2.0), (4.0, 16.0)]) {
            let of = |name, wait, seconds| {
                let turn = Outcome::Turn(turn(1_000_000, 1_000_000_000, seconds));
                record(&key, round, name, wait, turn)
            };
            records.push(of("suci", Wait::Adaptive, own));
            records.push(of("tcp-cubic", Wait::Block, other));
        }
        records
    }

    #[test]
    fn a_row_has_medians_and_the_ratio_of_each_round() {
        let rows = example();
        let [suci, tcp] = rows.as_slice() else {
            panic!("{rows:?}")
        };
        assert_eq!(
            (suci.median, suci.min, suci.max, suci.best()),
            (4.0, 2.0, 8.0, 8.0)
        );
        assert_eq!(
            (suci.suci_ratio, suci.rounds, suci.spread()),
            (Some(1.0), 3, 1.5)
        );
        // Rounds of 2, 1 and 4 times, whatever the quotient of the medians is.
        assert_eq!((tcp.median, tcp.suci_ratio), (4.0, Some(2.0)));
        assert_eq!((tcp.p50, tcp.p99), (Some(2.0), None));
        assert_eq!(
            (
                tcp.cpu_seconds,
                tcp.cpu_seconds_per_gb,
                tcp.cpu_us_per_message
            ),
            (2.25, 0.75, 0.75)
        );
    }

    #[test]
    fn a_round_that_one_of_two_did_not_finish_does_not_count_for_their_ratio() {
        let mut records = example_records();
        records[1].outcome = Outcome::Failed("it fell over".to_owned());
        let rows = rows(&key(Workload::Stream), &records);
        let tcp = &rows[1];
        let failed = failures(&records);
        assert_eq!(failed.len(), 1);
        assert_eq!(
            (failed[0].0.as_str(), failed[0].1.as_str()),
            (
                "tcp-cubic block",
                "has no figure of one round: it fell over"
            )
        );
        assert_eq!((tcp.rounds, tcp.failures), (2, 1));
        assert_eq!(tcp.suci_ratio, Some(2.5));
    }

    #[test]
    fn a_contender_without_results_is_named() {
        let mut records = example_records();
        assert_eq!(fruitless(&records), []);
        for record in &mut records {
            if record.contender == "tcp-cubic" {
                record.outcome = Outcome::Failed("it fell over".to_owned());
            }
        }
        assert_eq!(fruitless(&records), [("tcp-cubic", Wait::Block, 3)]);
        assert_eq!(rows(&key(Workload::Stream), &records).len(), 1);
    }

    #[test]
    fn figures_are_in_the_units_of_the_workload() {
        let turn = turn(1_000, 1_000_000_000, 2.0);
        let value = |workload| value(&task(workload), &turn);
        assert_eq!(value(Workload::PingPong), 2000.0);
        assert_eq!(value(Workload::Broadcast), 4.0);
        assert_eq!(value(Workload::Mix), 500.0);
        assert_eq!(value(Workload::Data), 2000.0);
        // Two processes, each to the other.
        assert_eq!(value(Workload::AllToAll), 4000.0);
    }

    #[test]
    fn a_spinning_contender_is_compared_with_spinning_suci_if_that_took_part() {
        let key = key(Workload::PingPong);
        let one =
            |name, wait, seconds| record(&key, 0, name, wait, Outcome::Turn(turn(1, 1, seconds)));
        let mut records = vec![
            one("suci", Wait::Adaptive, 4.0),
            one("suci", Wait::Spin, 2.0),
            one("udp", Wait::Spin, 1.0),
            one("udp", Wait::Block, 1.0),
        ];
        let ratios = |records: &[Record]| -> Vec<Option<f64>> {
            rows(&key, records)
                .iter()
                .map(|row| row.suci_ratio)
                .collect()
        };
        assert_eq!(
            ratios(&records),
            [Some(1.0), Some(1.0), Some(2.0), Some(4.0)]
        );
        records.remove(1);
        assert_eq!(ratios(&records), [Some(1.0), Some(4.0), Some(4.0)]);
        records.remove(0);
        assert_eq!(ratios(&records), [None, None]);
    }

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn rows_are_json_for_the_lines_that_judge_them() {
        let text = serde_json::to_string(&example()[1]).unwrap();
        for part in [
            r#""commit":"0123456789""#,
            r#""workload":"stream""#,
            r#""cpu_seconds":"#,
            r#""values":{"0":4.0,"1":4.0,"2":0.5}"#,
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }
}
