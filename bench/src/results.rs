//! RESULTS.md: the figures, the machine and the contenders.

use std::fmt::Write as _;
use std::path::Path;

use clap::ValueEnum as _;
use xtask::error::{Context, Result};

use crate::contenders::CONTENDERS;
use crate::machine::Machine;
use crate::plan::{self, Net, Wait};
use crate::report::{self, Row};
use crate::store::{self, Key, Record};
use crate::{plot, table};

const INTRODUCTION: &str = "\
# Suci beside its alternatives

Written by `make bench-report` from what `make bench` measured; not edited by hand. All figures are of
the commit named below, unless a task names another.

Two processes, one on each of two processors, started anew for every turn. Contenders take turns
within a round in alternating order, and before each round the machine must be idle. A hypervisor moves virtual
processors between real ones, and what two of them share decides what a copy costs (three times as much where that is
nothing as where it is a cache): what a cache line takes from one to the other and back is measured before each turn and after
it, and a turn counts if both are what is usual here (turns of less than a second; longer ones see several placements). Figures are
medians over rounds, `best` is the best round, `spread` the distance from the worst to the best by
the median; `rounds` are those with a figure, of all if some have none. `Suci/this` is the median over
rounds of the figure of `suci` by this one's in the same round, `batch/this` that of `suci-batch`. Those who sleep (`block`) are compared with Suci as it is by default (`adaptive`: it looks for up to
50 us before it sleeps), those who look again and again (`spin`) with Suci spinning where that takes
part. For times less is better, else more (percentiles of `data` and `all` tasks are of all messages of a group).
Tasks `all` have four processes, two on each processor, of which each broadcasts to the three others at once;
the server's CPU is that of three of them. `suci` sends each message by itself, and each request and reply of the mix, as `tcp-cubic` and
`quinn` do: compare those by `Suci/this`. `suci-batch`, `tcp-cubic-batch` and `quinn-batch` collect small
ones to 64 KiB, in the mix what is ready together: compare those by `batch/this`. ZeroMQ, Aeron, ENet and KCP
batch below their API, and so does `suci` where a program sends many in a row. The receiver reads every cache line of every message, and boundaries are kept. CPU is processor time of
both sides, what the kernel does on their behalf included: per GB, per message to one receiver (`CPU us/msg`; an answer is
part of what it answers, so that of a round trip and of the mix is per request), and the shares of client and server as
parts of the measured time. Pictures leave out contenders without a checksum (`no-crc`), which tables have.

Read with care: quinn, tls and the sealed variants of Suci encrypt, and nobody else does; MPICH, UCX and libfabric spin whatever is
asked, so their CPU is always that of a whole processor, and send messages one by one: `batch/this`
compares them with messages that are collected, `Suci/this` like with like, and where one of them sends to several,
which share a processor, these give way to one another between looks; Aeron cannot sleep until something
comes, so its `block` looks less and less often, up to once in 1 ms; `gso` and `udp` are bounds
that lose everything with the first packet.
";

/// Writes RESULTS.md, and plots beside it. Figures of different trees are only mixed when that is
/// wanted.
pub(crate) fn write(from: &Path, into: &Path, mixed: bool) -> Result<()> {
    let records = store::read(from)?;
    let last = records
        .last()
        .context(format!("{}: no rounds", from.display()))?;
    let all = sections(&records, last, mixed);
    let rows: Vec<Row> = all
        .iter()
        .flat_map(|section| section.rows.clone())
        .collect();
    let plots = into.join("plots");
    std::fs::create_dir_all(&plots).context(plots.display())?;
    let mut page = String::from(INTRODUCTION);
    about_machine(&mut page, last);
    for net in Net::value_variants() {
        for kind in plot::Kind::ALL {
            for wait in [Wait::Block, Wait::Spin] {
                let name = format!("{}-{}-{}.svg", kind.name(), net.name(), wait.name());
                let path = plots.join(&name);
                match plot::svg(&rows, kind, *net, wait)? {
                    Some(svg) => {
                        std::fs::write(path, svg).context(&name)?;
                        let text = plot::title(kind, *net, wait);
                        let _ = writeln!(page, "\n![{text}](plots/{name})");
                    }
                    // The plot of an earlier report would contradict this one.
                    None if path.exists() => std::fs::remove_file(path).context(&name)?,
                    None => {}
                }
            }
        }
    }
    for section in &all {
        page.push_str(&section.text(last));
    }
    page.push_str(&missing(&all));
    about_contenders(&mut page);
    let path = into.join("RESULTS.md");
    std::fs::write(&path, page).context(path.display())
}

/// The records of one task.
struct Section {
    key: Key,
    day: String,
    rows: Vec<Row>,
    failures: Vec<(String, String)>,
    /// The distances of the processors, in nanoseconds, where measured.
    apart: Vec<f64>,
}

/// Makes a section for each task that was measured of the tree and on the machine of `last`. If
/// trees may be `mixed`, a task without records of that tree takes the last tree that has some. Of
/// turns of several lengths the longest count. Sections come in the order of `make bench`.
fn sections(records: &[Record], last: &Record, mixed: bool) -> Vec<Section> {
    let mut keys: Vec<Key> = Vec::new();
    for record in records.iter().rev() {
        let key = Key {
            commit: record.commit.clone(),
            machine: record.machine.clone(),
            task: record.task.clone(),
            lasts: record.lasts,
        };
        match keys.iter_mut().find(|other| other.task == key.task) {
            None if mixed || is_alike(&key, &last.commit, &last.machine) => keys.push(key),
            Some(other)
                if is_alike(other, &key.commit, &key.machine) && other.lasts < key.lasts =>
            {
                *other = key;
            }
            _ => {}
        }
    }
    let known = plan::known();
    let place = |key: &Key| known.iter().position(|task| *task == key.task);
    keys.sort_by_key(|key| (place(key).unwrap_or(usize::MAX), key.task.name()));
    keys.into_iter().map(|key| section(key, records)).collect()
}

fn is_alike(key: &Key, commit: &str, machine: &Machine) -> bool {
    key.commit == commit && key.machine == *machine
}

fn section(key: Key, records: &[Record]) -> Section {
    let own: Vec<Record> = records
        .iter()
        .filter(|record| key.has(record))
        .cloned()
        .collect();
    Section {
        day: own
            .last()
            .map(|record| record.day.clone())
            .unwrap_or_default(),
        rows: report::rows(&key, &own),
        failures: report::failures(&own),
        apart: own.iter().filter_map(|record| record.apart).collect(),
        key,
    }
}

impl Section {
    fn text(&self, last: &Record) -> String {
        let Key { task, lasts, .. } = &self.key;
        let rounds = self.rows.iter().map(|row| row.rounds + row.failures);
        let rounds = rounds.max().unwrap_or(0);
        let mut text = format!("\n## {}: {}\n\n", task.name(), task.title());
        let _ = write!(text, "{rounds} rounds of {lasts} s each");
        let apart = |pick: fn(f64, f64) -> f64| self.apart.iter().copied().reduce(pick);
        if let (Some(least), Some(most)) = (apart(f64::min), apart(f64::max)) {
            let _ = match least.total_cmp(&most).is_eq() {
                true => write!(text, ", the processors {least:.0} ns apart"),
                false => write!(text, ", the processors {least:.0} to {most:.0} ns apart"),
            };
        }
        if self.key.commit != last.commit {
            let _ = write!(text, ", **of {}**, {}", self.key.commit, self.day);
        }
        if self.key.machine != last.machine {
            text.push_str(", **on another machine**");
        }
        text.push_str(".\n\n");
        text.push_str(&table::markdown(&self.rows));
        for (who, why) in &self.failures {
            let _ = writeln!(text, "\n{who} {}", why.replace('\n', " "));
        }
        text
    }
}

fn about_machine(page: &mut String, last: &Record) {
    page.push_str("\n## The machine\n\n| | |\n|---|---|\n");
    let measured = [("Suci", last.commit.clone()), ("Day", last.day.clone())];
    let facts = last
        .machine
        .0
        .iter()
        .map(|(what, text)| (what.as_str(), text.clone()));
    for (what, text) in facts.chain(measured) {
        let _ = writeln!(page, "| {what} | {} |", text.replace('\t', " "));
    }
}

/// The tasks that this report lacks. They include those over loopback, which `make bench` does only
/// if it is asked to.
fn missing(all: &[Section]) -> String {
    let measured = |task| all.iter().any(|section| section.key.task == task);
    let missing = plan::known()
        .into_iter()
        .map(|task| (task.name(), measured(task)));
    let names: Vec<String> = missing
        .filter(|(_, measured)| !measured)
        .map(|(name, _)| name)
        .collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("\n## Not measured here\n\n{}.\n", names.join(", ")),
    }
}

fn about_contenders(page: &mut String) {
    page.push_str(
        "\n## Who they are\n\n| contender | what it is, and how it is tuned |\n|---|---|\n",
    );
    for contender in CONTENDERS {
        let _ = writeln!(page, "| {} | {} |", contender.name, contender.what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example_records;

    /// Records as if everything had been measured of another tree before.
    fn two_trees() -> Vec<Record> {
        let mut records = example_records();
        for record in &mut records {
            record.commit = "before".to_owned();
        }
        let mut other = records[0].clone();
        other.task.size = 77;
        records.push(other);
        records.extend(example_records());
        records
    }

    #[test]
    fn trees_are_not_mixed_unless_that_is_wanted() {
        let records = two_trees();
        let [own] = &sections(&records, &records[records.len() - 1], false)[..] else {
            panic!("one task was measured of the newest tree");
        };
        assert_eq!((own.key.task.size, own.rows.len()), (1000, 2));
        let last = &records[records.len() - 1];
        let text = own.text(last);
        assert!(!text.contains("**") && text.contains("3 rounds of 0.3 s each.\n"));
        let both = sections(&records, last, true);
        let [own, other] = &both[..] else {
            panic!("two tasks were measured");
        };
        let commits = (own.key.commit.as_str(), other.key.commit.as_str());
        assert_eq!(commits, ("0123456789", "before"));
        assert!(other.text(last).contains("**of before**"));
    }

    #[test]
    fn machines_are_not_mixed_unless_that_is_wanted() {
        let mut records = example_records();
        let mut other = records[0].clone();
        (other.task.size, other.machine) = (77, Machine(Vec::new()));
        records.insert(0, other);
        let last = &records[records.len() - 1];
        assert_eq!(sections(&records, last, false).len(), 1);
        let both = sections(&records, last, true);
        assert!(both[1].text(last).contains(", **on another machine**."));
    }

    #[test]
    fn it_is_told_how_far_apart_the_processors_were() {
        let mut records = example_records();
        for (record, apart) in records.iter_mut().zip([65.2, 64.0, 71.4]) {
            record.apart = Some(apart);
        }
        let all = sections(&records, &records[0], false);
        let text = all[0].text(&records[0]);
        assert!(
            text.contains("each, the processors 64 to 71 ns apart."),
            "{text}"
        );
    }

    #[test]
    fn of_turns_of_several_lengths_the_longest_count() {
        let mut records = example_records();
        let mut short = records[0].clone();
        short.lasts = 0.05;
        records.push(short);
        let all = sections(&records, &records[0], false);
        assert_eq!((all.len(), all[0].key.lasts), (1, 0.3));
        assert_eq!(all[0].rows.len(), 2);
    }

    #[test]
    fn loopback_is_shown_if_it_was_measured_and_else_told_to_be_missing() {
        let mut records = example_records();
        let all = sections(&records, &records[0], false);
        assert!(missing(&all).contains(", stream-65536@loopback, "));
        for record in &mut records {
            (record.task.net, record.task.size) = (Net::Loopback, 65_536);
        }
        let all = sections(&records, &records[0], false);
        let text = all[0].text(&records[0]);
        assert!(text.contains("## stream-65536@loopback: "), "{text}");
        let missing = missing(&all);
        assert!(missing.contains(", stream-65536@veth, "), "{missing}");
        assert!(!missing.contains("stream-65536@loopback"), "{missing}");
    }

    #[test]
    fn the_page_has_machine_tables_and_contenders() {
        let dir = std::env::temp_dir().join(format!("suci-bench-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let lines: Vec<String> = two_trees()
            .iter()
            .map(|record| serde_json::to_string(record).unwrap() + "\n")
            .collect();
        std::fs::write(dir.join("rounds"), lines.concat()).unwrap();
        write(&dir.join("rounds"), &dir, false).unwrap();
        let page = std::fs::read_to_string(dir.join("RESULTS.md")).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        for part in [
            "## The machine",
            "| Suci | 0123456789 |",
            "## stream-1000@veth",
            "| Kernel | Linux 6.1 |",
            "3 rounds of 0.3 s each.",
            "## Not measured here\n\nrtt-64@veth, ",
            "| tcp-cubic | block |",
            "## Who they are",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }
}
