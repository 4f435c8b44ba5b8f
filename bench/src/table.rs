//! Rows for people.

use crate::plan::Workload;
use crate::report::Row;

/// The columns of a task's table, and how wide they are.
fn columns(workload: Workload) -> [&'static str; 11] {
    let [left, right] = match workload {
        Workload::PingPong | Workload::Mix | Workload::Data | Workload::AllToAll => {
            ["p50 us", "p99 us"]
        }
        Workload::Stream | Workload::Rate | Workload::Broadcast => ["CPU s/GB", "CPU us/msg"],
    };
    [
        "contender",
        "waits",
        "median",
        "best",
        "spread",
        "rounds",
        left,
        right,
        "client/server CPU",
        "Suci/this",
        "batch/this",
    ]
}

/// The cells of one row, under [`columns`].
pub(crate) fn cells(row: &Row) -> [String; 11] {
    let digits = |value: f64| match row.workload() {
        Workload::Rate | Workload::Mix => format!("{value:.0}"),
        Workload::PingPong | Workload::Data | Workload::AllToAll => format!("{value:.1}"),
        Workload::Stream | Workload::Broadcast => format!("{value:.2}"),
    };
    let optional = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.1}"));
    let [left, right] = match row.workload() {
        Workload::PingPong | Workload::Mix | Workload::Data | Workload::AllToAll => {
            [optional(row.p50), optional(row.p99)]
        }
        Workload::Stream | Workload::Rate | Workload::Broadcast => [
            format!("{:.2}", row.cpu_seconds_per_gb),
            format!("{:.2}", row.cpu_us_per_message),
        ],
    };
    let ratio = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"));
    let per_second = |cpu: f64| 100.0 * cpu / row.seconds;
    let (client, server) = (row.cpu_seconds_client, row.cpu_seconds_server);
    [
        row.contender.clone(),
        row.wait.name().to_owned(),
        digits(row.median),
        digits(row.best()),
        format!("{:.0} %", 100.0 * row.spread()),
        match row.failures {
            0 => row.rounds.to_string(),
            failures => format!("{} of {}", row.rounds, row.rounds + failures),
        },
        left,
        right,
        format!("{:.0} % / {:.0} %", per_second(client), per_second(server)),
        ratio(row.suci_ratio),
        ratio(row.batch_ratio),
    ]
}

/// The rows of one task, those who wait alike together and the best first.
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
    let mut lines = vec![columns(first.workload()).map(str::to_owned)];
    lines[0][2] = format!("median {}", first.unit);
    lines.extend(sorted(rows).into_iter().map(cells));
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
    let Some(first) = rows.first() else {
        return String::new();
    };
    let mut head = columns(first.workload()).map(str::to_owned);
    head[2] = format!("median {}", first.unit);
    let mut text = format!("| {} |\n|---|---|{}\n", head.join(" | "), "---:|".repeat(9));
    for row in sorted(rows) {
        text.push_str(&format!("| {} |\n", cells(row).join(" | ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

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
        assert_eq!(cells(&row)[5], "3");
        row.failures = 2;
        assert_eq!(cells(&row)[5], "3 of 5");
    }

    #[test]
    fn markdown_has_as_many_cells_in_each_line() {
        let text = markdown(&example());
        assert!(
            text.lines().all(|line| line.matches('|').count() == 12),
            "{text}"
        );
        assert_eq!(markdown(&[]), "");
    }
}
