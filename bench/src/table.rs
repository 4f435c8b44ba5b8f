//! Rows for people.

use crate::plan::Workload;
use crate::report::Row;

/// The columns of a row: their heads, the same for all rows of a task, and the values.
fn columns(row: &Row) -> Vec<(String, String)> {
    let digits = |value: f64| match row.workload() {
        Workload::Rate | Workload::Mix => format!("{value:.0}"),
        Workload::PingPong | Workload::Data | Workload::AllToAll => format!("{value:.1}"),
        Workload::Stream | Workload::Broadcast => format!("{value:.2}"),
    };
    let optional = |value: Option<f64>, digits: usize| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
    };
    let rounds = match row.failures {
        0 => row.rounds.to_string(),
        failures => format!("{} of {}", row.rounds, row.rounds + failures),
    };
    let share = |cpu: f64| 100.0 * cpu / row.seconds;
    let (client, server) = (row.cpu_seconds_client, row.cpu_seconds_server);
    let median = format!("median {}", row.unit);
    let mut columns = vec![
        ("contender", row.contender.clone()),
        ("waits", row.wait.name().to_owned()),
        (median.as_str(), digits(row.median)),
        ("best", digits(row.best())),
        ("spread", format!("{:.0} %", 100.0 * row.spread())),
        ("rounds", rounds),
    ];
    match row.workload() {
        Workload::PingPong | Workload::Mix | Workload::Data | Workload::AllToAll => {
            columns.push(("p50 us", optional(row.p50, 1)));
            columns.push(("p99 us", optional(row.p99, 1)));
        }
        Workload::Stream | Workload::Rate | Workload::Broadcast => {
            columns.push(("CPU s/GB", format!("{:.2}", row.cpu_seconds_per_gb)));
        }
    }
    columns.extend([
        ("CPU us/msg", format!("{:.2}", row.cpu_us_per_message)),
        (
            "client/server CPU",
            format!("{:.0} % / {:.0} %", share(client), share(server)),
        ),
        ("Suci/this", optional(row.suci_ratio, 2)),
        ("batch/this", optional(row.batch_ratio, 2)),
    ]);
    let owned = columns.into_iter();
    owned.map(|(head, cell)| (head.to_owned(), cell)).collect()
}

/// The heads of the columns, then the cells of each row. Nothing without rows.
fn lines(rows: &[Row]) -> Vec<Vec<String>> {
    let heads = rows.first().map(columns);
    let heads = heads.map(|columns| columns.into_iter().map(|(head, _)| head).collect());
    let cells = |row: &Row| columns(row).into_iter().map(|(_, cell)| cell).collect();
    let rows = sorted(rows).into_iter().map(cells);
    heads.into_iter().chain(rows).collect()
}

/// The rows of one task: those that wait alike together, and the best first.
pub(crate) fn sorted(rows: &[Row]) -> Vec<&Row> {
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by(|a, b| {
        let by_figure = match a.workload().less_is_better() {
            true => a.median.total_cmp(&b.median),
            false => b.median.total_cmp(&a.median),
        };
        a.wait.name().cmp(b.wait.name()).then(by_figure)
    });
    sorted
}

/// A table with aligned columns.
pub(crate) fn plain(rows: &[Row]) -> String {
    let Some(first) = rows.first() else {
        return "nobody finished\n".to_owned();
    };
    let lines = lines(rows);
    let mut text = format!("{}: {}\n", first.task.name(), first.task.title());
    for line in &lines {
        for (at, cell) in line.iter().enumerate() {
            let width = lines.iter().map(|line| line[at].len()).max().unwrap_or(0);
            match at {
                0 => text.push_str(&format!("  {cell:<width$}")),
                1 => text.push_str(&format!("  {cell:<width$}")),
                _ => text.push_str(&format!("  {cell:>width$}")),
            }
        }
        text.push('\n');
    }
    text
}

/// The same for Markdown.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let mut text = String::new();
    for (at, line) in lines(rows).iter().enumerate() {
        text.push_str(&format!("| {} |\n", line.join(" | ")));
        if at == 0 {
            let figures = "---:|".repeat(line.len().saturating_sub(2));
            text.push_str(&format!("|---|---|{figures}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report;
    use crate::report::tests::{example, example_records};
    use crate::store::tests::key;

    /// The same turns as those of a task of another workload.
    fn example_of(workload: Workload) -> Vec<Row> {
        report::rows(&key(workload), &example_records())
    }

    #[test]
    fn a_table_has_aligned_columns_and_the_best_first() {
        let text = plain(&example());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[1].contains("median Gbit/s"), "{text}");
        assert!(
            lines[2..].iter().all(|line| line.len() == lines[1].len()),
            "{text}"
        );
        assert!(
            lines[3].trim_start().starts_with("tcp-cubic")
                && lines[3].ends_with("2.00           -"),
            "{text}"
        );
    }

    #[test]
    fn rounds_that_failed_are_told() {
        let mut row = example().remove(0);
        let told = |row: &Row| columns(row)[5].clone();
        assert_eq!(told(&row), ("rounds".to_owned(), "3".to_owned()));
        row.failures = 2;
        assert_eq!(told(&row).1, "3 of 5");
    }

    #[test]
    fn markdown_has_as_many_cells_in_each_line() {
        for (workload, cells) in [(Workload::Stream, 11), (Workload::Mix, 12)] {
            let text = markdown(&example_of(workload));
            assert_eq!(text.lines().count(), 4);
            for line in text.lines() {
                assert_eq!(line.matches('|').count(), cells + 1, "{text}");
            }
        }
        assert_eq!(markdown(&[]), "");
    }

    #[test]
    fn what_a_message_costs_is_told_whatever_the_task_is() {
        for workload in [
            Workload::PingPong,
            Workload::Stream,
            Workload::Rate,
            Workload::Mix,
            Workload::Broadcast,
            Workload::Data,
            Workload::AllToAll,
        ] {
            let columns = columns(&example_of(workload)[0]);
            let cost = ("CPU us/msg".to_owned(), "0.75".to_owned());
            assert!(columns.contains(&cost), "{columns:?}");
        }
    }
}
