//! RESULTS.md: what was measured, on which machine, with whom.

use std::fmt::Write as _;
use std::path::Path;

use clap::ValueEnum as _;
use xtask::error::{Context, Result};

use crate::contenders::CONTENDERS;
use crate::plan::{self, Net, Task, Wait};
use crate::report::Row;
use crate::{machine, plot, table};

const INTRODUCTION: &str = "\
# Suci beside its alternatives

Written by `make bench-report` from what `make bench` measured; not edited by hand.

Two processes, one on each of two processors, started anew for every turn. Contenders take turns
within a round in alternating order, and before each round the machine must be idle. Figures are
medians over rounds, `best` is the best round, `spread` the distance from the worst to the best by
the median. `Suci/this` is the median over rounds of Suci's figure by this one's in the same round,
among those who wait alike (`block`: asleep, `spin`: looking again and again; `adaptive`, Suci's
default, looks for up to 50 us before it sleeps, and stands beside `block`); where messages per
second are counted, Suci's is that of `suci-batch`. For round trips less is better, else more. The
receiver reads every cache line of every message, and boundaries are kept. CPU is processor time of
both processes, what the kernel does on their behalf included; the shares of client and server are
parts of the measured time.

Read with care: quinn encrypts and nobody else does; MPICH, UCX and libfabric spin whatever is
asked, so their CPU is always that of a whole processor; `gso` and `udp` are bounds that lose
everything with the first packet; copies of large messages are bimodal by process on many machines,
which the spread shows.
";

/// Writes RESULTS.md, and plots beside it.
pub(crate) fn write(from: &Path, into: &Path) -> Result<()> {
    let text = std::fs::read_to_string(from).context(from.display())?;
    let rows = latest(&text)?;
    let plots = into.join("plots");
    std::fs::create_dir_all(&plots).context(plots.display())?;
    let mut page = String::from(INTRODUCTION);
    about_machine(&mut page);
    for net in Net::value_variants() {
        for kind in plot::Kind::ALL {
            for wait in Wait::value_variants() {
                if let Some(svg) = plot::svg(&rows, kind, *net, *wait)? {
                    let name = format!("{}-{}-{}.svg", kind.name(), net.name(), wait.name());
                    std::fs::write(plots.join(&name), svg).context(&name)?;
                    let _ = writeln!(page, "\n![{name}](plots/{name})");
                }
            }
        }
    }
    page.push_str(&tables(&rows));
    page.push_str(&missing(&rows));
    about_contenders(&mut page);
    let path = into.join("RESULTS.md");
    std::fs::write(&path, page).context(path.display())
}

/// The rows of a file, of several of the same task and contender the last one, tasks in the order in which they
/// came first.
fn latest(text: &str) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    for line in text.lines() {
        let row: Row = serde_json::from_str(line).context(line)?;
        let same = |other: &Row| {
            other.task() == row.task() && other.contender == row.contender && other.wait == row.wait
        };
        match rows.iter().position(same) {
            Some(at) => rows[at] = row,
            None => rows.push(row),
        }
    }
    Ok(rows)
}

fn about_machine(page: &mut String) {
    page.push_str("\n## The machine\n\n| | |\n|---|---|\n");
    for (what, text) in machine::facts() {
        let _ = writeln!(page, "| {what} | {} |", text.replace('\t', " "));
    }
}

/// A section for each task.
fn tables(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut done = Vec::new();
    for row in rows {
        let task = row.task();
        if done.contains(&task) {
            continue;
        }
        let own: Vec<Row> = rows
            .iter()
            .filter(|row| row.task() == task)
            .cloned()
            .collect();
        let rounds = own.iter().map(|row| row.rounds).max().unwrap_or(0);
        let title = task.title();
        let _ = write!(
            text,
            "\n## {}: {title}\n\n{rounds} rounds.\n\n",
            task.name()
        );
        text.push_str(&table::markdown(&own));
        done.push(task);
    }
    text
}

/// What `make bench` measures and these rows lack.
fn missing(rows: &[Row]) -> String {
    let measured = |task: &Task| rows.iter().any(|row| row.task() == *task);
    let missing = plan::usual().into_iter().filter(|task| !measured(task));
    let names: Vec<String> = missing.map(|task| task.name()).collect();
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
    use crate::report::tests::example;

    #[test]
    fn the_last_row_of_the_same_counts() {
        let line = |row: &Row| serde_json::to_string(row).unwrap();
        let mut rows = example();
        let mut text: Vec<String> = rows.iter().map(line).collect();
        rows[0].median = 77.0;
        text.push(line(&rows[0]));
        rows[0].size = 5;
        text.push(line(&rows[0]));
        let found = latest(&text.join("\n")).unwrap();
        assert_eq!(found.len(), 3);
        assert_eq!((found[0].median, found[0].size), (77.0, 1000));
        assert_eq!(tables(&found).matches("\n## ").count(), 2);
        assert!(latest("no row").is_err());
    }

    #[test]
    fn the_page_has_machine_tables_and_contenders() {
        let dir = std::env::temp_dir().join(format!("suci-bench-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let rows: Vec<String> = example()
            .iter()
            .map(|row| serde_json::to_string(row).unwrap())
            .collect();
        std::fs::write(dir.join("rows"), rows.join("\n")).unwrap();
        write(&dir.join("rows"), &dir).unwrap();
        let page = std::fs::read_to_string(dir.join("RESULTS.md")).unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        for part in [
            "## The machine",
            "## stream-1000@veth",
            "## Not measured here\n\nrtt-64@veth, ",
            "| tcp-cubic | block |",
            "## Who they are",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }
}
