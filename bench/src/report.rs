//! From turns to rows.

use serde::{Deserialize, Serialize};

use crate::launch::Turn;
use crate::plan::{Entrant, Net, Task, Wait, Workload};

/// All turns of one entrant in one task.
pub(crate) struct Series {
    pub(crate) entrant: Entrant,
    pub(crate) turns: Vec<Turn>,
    /// Why it has no more turns.
    pub(crate) failed: Option<String>,
}

/// One line of the results; the fields that `suci perf --json` has too are called as there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) net: Net,
    pub(crate) workload: Workload,
    pub(crate) contender: String,
    pub(crate) wait: Wait,
    pub(crate) size: usize,
    pub(crate) receivers: usize,
    pub(crate) unit: String,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    pub(crate) rounds: usize,
    /// Of each round.
    pub(crate) values: Vec<f64>,
    /// Median over rounds of Suci's figure by this one's, of the same round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) suci_ratio: Option<f64>,
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
        if self.workload.less_is_better() {
            self.min
        } else {
            self.max
        }
    }

    /// From the worst round to the best, as a part of the median.
    pub(crate) fn spread(&self) -> f64 {
        (self.max - self.min) / self.median
    }

    /// The task that this is a row of.
    pub(crate) fn task(&self) -> Task {
        Task {
            net: self.net,
            workload: self.workload,
            size: self.size,
            receivers: self.receivers,
        }
    }
}

/// The figure of one turn.
pub(crate) fn value(workload: Workload, turn: &Turn) -> f64 {
    let (messages, bytes) = (turn.messages as f64, turn.bytes as f64);
    match workload {
        Workload::PingPong => turn.seconds / messages * 1e6,
        Workload::Stream | Workload::Broadcast => bytes * 8.0 / turn.seconds / 1e9,
        Workload::Rate | Workload::Mix => messages / turn.seconds,
    }
}

/// The rows of a task, of all that finished.
pub(crate) fn rows(task: &Task, all: &[Series]) -> Vec<Row> {
    let finished = all.iter().filter(|series| series.failed.is_none());
    finished
        .filter_map(|series| {
            // Nobody else looks for a while before it sleeps.
            let wait = match series.entrant.wait {
                Wait::Adaptive => Wait::Block,
                other => other,
            };
            let by = all.iter().find(|other| {
                other.entrant.contender.name == task.baseline() && other.entrant.wait == wait
            });
            row(task, series, by.filter(|by| by.failed.is_none()))
        })
        .collect()
}

fn row(task: &Task, series: &Series, baseline: Option<&Series>) -> Option<Row> {
    let workload = task.workload;
    let turns = &series.turns;
    let figures =
        |turns: &[Turn]| -> Vec<f64> { turns.iter().map(|turn| value(workload, turn)).collect() };
    let values = figures(turns);
    let sum = |count: fn(&Turn) -> f64| turns.iter().map(count).sum::<f64>();
    let (client, server) = (sum(|t| t.cpu_seconds_client), sum(|t| t.cpu_seconds_server));
    let messages = turns.iter().map(|turn| turn.messages).sum::<u64>();
    let bytes = turns.iter().map(|turn| turn.bytes).sum::<u64>();
    let percentile = |of: fn(&Turn) -> Option<f64>| median(turns.iter().filter_map(of).collect());
    Some(Row {
        net: task.net,
        workload,
        contender: series.entrant.contender.name.to_owned(),
        wait: series.entrant.wait,
        size: task.size,
        receivers: task.receivers,
        unit: workload.unit().to_owned(),
        median: median(values.clone())?,
        min: values.iter().copied().reduce(f64::min)?,
        max: values.iter().copied().reduce(f64::max)?,
        rounds: values.len(),
        suci_ratio: baseline.and_then(|suci| median_ratio(&figures(&suci.turns), &values)),
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

/// The middle one (of two, their mean); nothing of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(*values.get(middle.checked_sub(1)?)?, upper))
}

/// The median over rounds of one's figure by the other's.
pub(crate) fn median_ratio(of: &[f64], by: &[f64]) -> Option<f64> {
    median(of.iter().zip(by).map(|(of, by)| of / by).collect())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::contenders::CONTENDERS;

    fn turn(messages: u64, bytes: u64, seconds: f64) -> Turn {
        Turn {
            messages,
            bytes,
            seconds,
            cpu_seconds_client: 0.5,
            cpu_seconds_server: 0.25,
            p50: Some(seconds),
            p99: None,
        }
    }

    fn series(name: &str, wait: Wait, turns: Vec<Turn>) -> Series {
        let contender = CONTENDERS.iter().find(|c| c.name == name).unwrap();
        Series {
            entrant: Entrant { contender, wait },
            turns,
            failed: None,
        }
    }

    fn task(workload: Workload) -> Task {
        Task {
            net: Net::Veth,
            workload,
            size: 1000,
            receivers: 1,
        }
    }

    /// Rows of Suci and TCP as a measurement would give them.
    pub(crate) fn example() -> Vec<Row> {
        let one = |name, seconds: [f64; 3]| {
            let turns = seconds.map(|seconds| turn(1_000_000, 1_000_000_000, seconds));
            series(name, Wait::Block, turns.to_vec())
        };
        let all = [
            one("suci", [1.0, 2.0, 4.0]),
            one("tcp-cubic", [2.0, 2.0, 16.0]),
        ];
        rows(&task(Workload::Stream), &all)
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
    fn figures_are_in_the_units_of_the_workload() {
        let turn = turn(1_000, 1_000_000_000, 2.0);
        assert_eq!(value(Workload::PingPong, &turn), 2000.0);
        assert_eq!(value(Workload::Broadcast, &turn), 4.0);
        assert_eq!(value(Workload::Mix, &turn), 500.0);
    }

    #[test]
    fn only_those_who_wait_alike_are_compared_and_who_failed_is_left_out() {
        let one = |name, wait| series(name, wait, vec![turn(1, 1, 1.0)]);
        let mut failed = one("udp", Wait::Spin);
        failed.failed = Some("it fell over".to_owned());
        let all = [
            one("suci", Wait::Spin),
            one("tcp-cubic", Wait::Block),
            failed,
        ];
        let rows = rows(&task(Workload::PingPong), &all);
        let ratios: Vec<_> = rows
            .iter()
            .map(|row| (row.contender.as_str(), row.suci_ratio))
            .collect();
        assert_eq!(ratios, [("suci", Some(1.0)), ("tcp-cubic", None)]);
    }

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn rows_survive_json() {
        for row in example() {
            let line = serde_json::to_string(&row).unwrap();
            assert_eq!(serde_json::from_str::<Row>(&line).unwrap(), row);
            assert!(line.contains(r#""workload":"stream""#) && line.contains(r#""cpu_seconds":"#));
        }
    }
}
