//! Rounds that were measured, kept in a file: a line of JSON for each turn, written when its round
//! is over. Tasks already measured of the same tree are not measured again, so that a run can be
//! cut into tasks, killed and resumed.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use xtask::error::{Context, Failure, Result};

use crate::launch::Turn;
use crate::machine::Machine;
use crate::plan::{Entrant, Task, Wait};

/// After this many failures in a task a contender is not tried again in the same run: some failures
/// take long. Each failure counts as a turn, so another run tries again only in rounds that are
/// still missing.
const GIVE_UP: usize = 3;

/// A record of one turn of one entrant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The tree that was measured, by [`crate::tree::name`].
    pub(crate) commit: String,
    pub(crate) machine: Machine,
    pub(crate) day: String,
    #[serde(flatten)]
    pub(crate) task: Task,
    /// The intended length of the turn, in seconds.
    pub(crate) lasts: f64,
    /// The round of the task to which it belongs.
    pub(crate) round: u32,
    pub(crate) contender: String,
    pub(crate) wait: Wait,
    /// The round-trip time of a cache line between the processors, in nanoseconds, before the turn
    /// and after it; none if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) apart: Option<f64>,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

/// The end of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    Turn(Turn),
    /// Reason why there are no figures.
    Failed(String),
}

impl Record {
    pub(crate) fn is_of(&self, entrant: &Entrant) -> bool {
        self.contender == entrant.contender.name && self.wait == entrant.wait
    }
}

/// The key of rounds that are measured together: rounds of the same task, tree, machine and length
/// can be compared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    pub(crate) commit: String,
    pub(crate) machine: Machine,
    pub(crate) task: Task,
    pub(crate) lasts: f64,
}

impl Key {
    pub(crate) fn has(&self, record: &Record) -> bool {
        record.commit == self.commit
            && record.machine == self.machine
            && record.task == self.task
            && record.lasts.total_cmp(&self.lasts).is_eq()
    }
}

/// The file and its content.
pub(crate) struct Store {
    /// Nothing is kept without one.
    file: Option<File>,
    records: Vec<Record>,
}

impl Store {
    /// Opens the file to add to it. An incomplete last line, of a killed process, is cut off.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.create(true).read(true).append(true).open(path);
        let mut file = file.context(path.display())?;
        let mut text = String::new();
        file.read_to_string(&mut text).context(path.display())?;
        let whole = text.rfind('\n').map_or(0, |at| at + 1);
        if whole < text.len() {
            file.set_len(u64::try_from(whole).context(path.display())?)?;
        }
        Ok(Self {
            file: Some(file),
            records: parse(path, text.get(..whole).unwrap_or_default())?,
        })
    }

    /// A store without a file.
    pub(crate) fn nowhere() -> Self {
        Self {
            file: None,
            records: Vec::new(),
        }
    }

    /// Adds the turns of a round.
    pub(crate) fn add(&mut self, round: Vec<Record>) -> Result<()> {
        let mut lines = String::new();
        for record in &round {
            lines.push_str(&serde_json::to_string(record)?);
            lines.push('\n');
        }
        if let Some(file) = &mut self.file {
            file.write_all(lines.as_bytes())?;
        }
        self.records.extend(round);
        Ok(())
    }

    /// The records of `key`.
    pub(crate) fn of(&self, key: &Key) -> Vec<Record> {
        let own = self.records.iter().filter(|record| key.has(record));
        own.cloned().collect()
    }

    /// Rounds of `key` in which all of `entrants` had their turns, or failed in them.
    pub(crate) fn complete(&self, key: &Key, entrants: &[Entrant]) -> u32 {
        let own = self.of(key);
        let is_whole = |round: u32| {
            let turns = || own.iter().filter(|record| record.round == round);
            let had = |entrant: &Entrant| turns().any(|record| record.is_of(entrant));
            entrants.iter().all(had)
        };
        let whole = rounds(&own).into_iter().filter(|round| is_whole(*round));
        u32::try_from(whole.count()).unwrap_or(u32::MAX)
    }

    /// A number for another round of `key`.
    pub(crate) fn next_round(&self, key: &Key) -> u32 {
        let last = rounds(&self.of(key)).into_iter().max();
        last.map_or(0, |last| last.saturating_add(1))
    }
}

/// Returns the reason why `entrant` is not tried again, if it has failed too often in the run of
/// `records`: a fault of another run may have been mended.
pub(crate) fn given_up<'a>(records: &'a [Record], entrant: &Entrant) -> Option<&'a str> {
    let own = records.iter().filter(|record| record.is_of(entrant));
    let failed = own.filter_map(|record| match &record.outcome {
        Outcome::Failed(why) => Some(why.as_str()),
        Outcome::Turn(_) => None,
    });
    failed.skip(GIVE_UP - 1).last()
}

/// All rounds, each once.
fn rounds(records: &[Record]) -> Vec<u32> {
    let mut rounds: Vec<u32> = records.iter().map(|record| record.round).collect();
    rounds.sort_unstable();
    rounds.dedup();
    rounds
}

/// The records of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<Record>> {
    parse(
        path,
        &std::fs::read_to_string(path).context(path.display())?,
    )
}

fn parse(path: &Path, text: &str) -> Result<Vec<Record>> {
    let record = |(at, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| {
            let place = format!("{}:{}", path.display(), at + 1);
            Failure::new(format!(
                "{place}: not a round of this version ({error}); move the file away"
            ))
        })
    };
    text.lines().enumerate().map(record).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::contenders::CONTENDERS;
    use crate::plan::{Net, Workload};

    pub(crate) fn task(workload: Workload) -> Task {
        Task {
            net: Net::Veth,
            workload,
            size: 1000,
            receivers: 1,
            data: 1,
        }
    }

    pub(crate) fn machine(kernel: &str) -> Machine {
        Machine(vec![("Kernel".to_owned(), kernel.to_owned())])
    }

    pub(crate) fn key(workload: Workload) -> Key {
        Key {
            commit: "0123456789".to_owned(),
            machine: machine("Linux 6.1"),
            task: task(workload),
            lasts: 0.3,
        }
    }

    pub(crate) fn entrant(name: &str, wait: Wait) -> Entrant {
        let contender = CONTENDERS.iter().find(|c| c.name == name).unwrap();
        Entrant { contender, wait }
    }

    pub(crate) fn record(
        key: &Key,
        round: u32,
        name: &str,
        wait: Wait,
        outcome: Outcome,
    ) -> Record {
        Record {
            commit: key.commit.clone(),
            machine: key.machine.clone(),
            day: "1 May 2026".to_owned(),
            task: key.task.clone(),
            lasts: key.lasts,
            round,
            contender: name.to_owned(),
            wait,
            apart: None,
            outcome,
        }
    }

    pub(crate) fn turn(messages: u64, bytes: u64, seconds: f64) -> Turn {
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

    fn scratch(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("suci-bench-{name}-{}", std::process::id()))
    }

    #[test]
    fn a_run_that_was_killed_is_resumed_where_it_was() {
        let path = scratch("resumed");
        let key = key(Workload::Stream);
        let one = |round, name| {
            record(
                &key,
                round,
                name,
                Wait::Block,
                Outcome::Turn(turn(1, 1, 1.0)),
            )
        };
        let mut store = Store::open(&path).unwrap();
        store.add(vec![one(0, "gso"), one(0, "udp")]).unwrap();
        store.add(vec![one(1, "gso"), one(1, "udp")]).unwrap();
        drop(store);
        // Killed in the middle of a line.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"commit\":\"01").unwrap();
        let mut store = Store::open(&path).unwrap();
        let both = [entrant("gso", Wait::Block), entrant("udp", Wait::Block)];
        assert_eq!(
            (store.complete(&key, &both), store.next_round(&key)),
            (2, 2)
        );
        store.add(vec![one(2, "gso")]).unwrap();
        drop(store);
        let store = Store::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(
            (store.complete(&key, &both), store.next_round(&key)),
            (2, 3)
        );
        assert_eq!(store.complete(&key, &both[..1]), 3);
        assert_eq!(store.of(&key).last(), Some(&one(2, "gso")));
    }

    #[test]
    fn other_trees_machines_tasks_and_lengths_do_not_count() {
        let own = key(Workload::Stream);
        let mut store = Store::nowhere();
        let gso = [entrant("gso", Wait::Block)];
        let others = [
            Key {
                commit: "fedcba9876".to_owned(),
                ..own.clone()
            },
            Key {
                machine: machine("Linux 6.2"),
                ..own.clone()
            },
            Key {
                lasts: 0.05,
                ..own.clone()
            },
            key(Workload::Rate),
        ];
        for key in &others {
            let figures = Outcome::Turn(turn(1, 1, 1.0));
            store
                .add(vec![record(key, 7, "gso", Wait::Block, figures)])
                .unwrap();
        }
        assert_eq!((store.complete(&own, &gso), store.next_round(&own)), (0, 0));
    }

    #[test]
    fn a_contender_that_fails_three_times_is_not_tried_again() {
        let key = key(Workload::Stream);
        let udp = entrant("udp", Wait::Block);
        let mut run = Vec::new();
        for round in 0..3 {
            assert_eq!(given_up(&run, &udp), None);
            let failed = Outcome::Failed(format!("it fell over {round}"));
            run.push(record(&key, round, "udp", Wait::Block, failed));
        }
        assert_eq!(given_up(&run, &udp), Some("it fell over 2"));
        assert_eq!(given_up(&run, &entrant("gso", Wait::Block)), None);
    }

    #[test]
    fn a_line_of_another_version_is_named_with_the_remedy() {
        let path = scratch("older");
        let key = key(Workload::Stream);
        let figures = Outcome::Turn(turn(1, 1, 1.0));
        let mut store = Store::open(&path).unwrap();
        store
            .add(vec![record(&key, 0, "gso", Wait::Block, figures)])
            .unwrap();
        drop(store);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"commit\":\"01\"}\n").unwrap();
        let why = Store::open(&path).err().unwrap().to_string();
        std::fs::remove_file(&path).unwrap();
        let place = format!("{}:2: not a round of this version", path.display());
        assert!(why.starts_with(&place), "{why}");
        assert!(why.ends_with("move the file away"), "{why}");
    }
}
