//! The page docs/costs.md: written from figures, and read back.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::{WORKLOADS, Workload};
use crate::error::{Context, Result};

/// The text above the tables.
const HEAD: &str = "# What a message costs

These costs are counted, not timed: programs (`tests/guarded`) run under valgrind, with a clock and
random numbers that are the same each time. Both nodes live in one thread. Every figure is the cost
of one unit that the table names (a round trip, a message, a full packet). It is the difference
between two runs with different numbers of rounds, so costs that arise once are not in it. Copies
are calls of `memcpy` and `memmove`, whatever they move; a short copy may be compiled into
instructions instead. Instructions of the kernel are not counted. Packets are those of both nodes,
and their bytes are what UDP carries.

Valgrind runs AES-NI and AVX2, but not VAES, AVX-512, ADX and the instructions for SHA. A processor
that has these takes other code of the cryptographic library, with fewer instructions for sealed
packets and handshakes than counted here.

`cargo xtask guards`, a step of `make test`, counts again and compares: instructions within 1 %,
everything else exactly, in both directions. To accept other figures run `cargo xtask guards
--write`, and commit this page with what changed them.
";

/// The text before the tools on which the figures depend.
const TOOLS: &str = "Counted with ";

/// The figures, and the tools that counted them.
#[derive(Debug, PartialEq)]
pub(super) struct Page {
    pub(super) tools: String,
    pub(super) rows: Vec<Row>,
}

/// One figure of a workload.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) workload: String,
    pub(super) figure: String,
    pub(super) value: f64,
}

impl Row {
    pub(super) fn is_instructions(&self) -> bool {
        self.figure.starts_with("instructions")
    }

    /// The value as it stands on the page, which is compared. Its four digits tell one packet in a
    /// thousand rounds.
    pub(super) fn shown(&self) -> String {
        shown(self.value)
    }
}

fn shown(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 1_000.0 || v == 0.0 => 0,
        v if v >= 1.0 => 3,
        _ => 5,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

impl Page {
    /// The page as text.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{HEAD}\n{TOOLS}{}.\n", self.tools);
        for workload in WORKLOADS {
            self.table(&mut text, workload);
        }
        text
    }

    fn table(&self, text: &mut String, workload: &Workload) {
        let Workload {
            name, what, unit, ..
        } = workload;
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n## {name}\n{what}.\n\n| | per {unit} |\n|---|---|\n"
        );
        for row in self.rows.iter().filter(|row| row.workload == *name) {
            let _ = writeln!(text, "| {} | {} |", row.figure, row.shown());
        }
    }

    /// Reads a page.
    ///
    /// # Errors
    /// The text was not written by [`Page::text`].
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut workload = None;
        let mut tools = None;
        let mut rows = Vec::new();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("## ") {
                workload = Some(name);
            } else if let Some(named) = line.strip_prefix(TOOLS) {
                tools = Some(named.trim_end_matches('.').to_owned());
            } else if let (Some(workload), Some((figure, value))) = (workload, cells(line)) {
                rows.push(Row {
                    workload: workload.to_owned(),
                    figure: figure.to_owned(),
                    value: value.parse().context(line)?,
                });
            }
        }
        let tools = tools.context("docs/costs.md does not say what it was counted with")?;
        Ok(Self { tools, rows })
    }
}

/// A figure's name and its value, of a table's row that is no head.
fn cells(line: &str) -> Option<(&str, &str)> {
    let (figure, value) = line
        .strip_prefix("| ")?
        .strip_suffix(" |")?
        .split_once(" | ")?;
    (!figure.is_empty()).then_some((figure, value))
}

/// The differences, a sentence for each.
pub(super) fn differences(expected: &Page, measured: &Page, within: f64) -> Vec<String> {
    let keys: BTreeSet<_> = [expected, measured]
        .iter()
        .flat_map(|page| page.rows.iter().map(|row| (&row.workload, &row.figure)))
        .collect();
    let find = |page: &Page, (workload, figure): (&String, &String)| {
        let mut rows = page.rows.iter();
        let row = rows.find(|row| row.workload == *workload && row.figure == *figure);
        row.cloned()
    };
    let mut wrong = Vec::new();
    for key in keys {
        let (workload, figure) = key;
        match (find(expected, key), find(measured, key)) {
            (Some(was), Some(is)) => {
                let change = (is.value - was.value) / was.value;
                let same = if was.is_instructions() {
                    change.abs() <= within
                } else {
                    was.shown() == is.shown()
                };
                if !same {
                    let (was, is) = (was.shown(), is.shown());
                    let percent = change * 100.0;
                    wrong.push(if change.is_finite() {
                        format!("{workload}: {figure}: from {was} to {is} ({percent:+.1} %)")
                    } else {
                        format!("{workload}: {figure}: from {was} to {is}")
                    });
                }
            }
            (None, Some(is)) => {
                wrong.push(format!("{workload}: {figure}: {} is new", is.shown()));
            }
            _ => wrong.push(format!("{workload}: {figure}: is not counted any more")),
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(rows: &[(&str, &str, f64)]) -> Page {
        let row = |&(workload, figure, value): &(&str, &str, f64)| Row {
            workload: workload.to_owned(),
            figure: figure.to_owned(),
            value,
        };
        Page {
            tools: "rustc 1.2.3, valgrind-4, x".to_owned(),
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn a_page_is_read_as_it_was_written() {
        let name = WORKLOADS[0].name;
        let page = page(&[
            (name, "instructions, sender", 15_161.0),
            (name, "packets", 2.0),
            (name, "copies, sender", 12.063),
        ]);
        let read = Page::parse(&page.text());
        assert_eq!(read.ok(), Some(page));
    }

    #[test]
    fn instructions_may_differ_by_one_percent_and_counts_by_nothing() {
        let was = page(&[
            ("w", "instructions, sender", 1_000.0),
            ("w", "packets", 2.0),
        ]);
        let near = page(&[("w", "instructions, sender", 991.0), ("w", "packets", 2.0)]);
        assert!(differences(&was, &near, 0.01).is_empty());
        let far = page(&[("w", "instructions, sender", 989.0), ("w", "packets", 2.01)]);
        let said = differences(&was, &far, 0.01);
        let expected = [
            "w: instructions, sender: from 1000 to 989 (-1.1 %)",
            "w: packets: from 2 to 2.01 (+0.5 %)",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn figures_that_come_or_go_are_differences() {
        let was = page(&[("w", "packets", 2.0)]);
        let is = page(&[("w", "copies, sender", 1.0)]);
        let said = differences(&was, &is, 0.01);
        let expected = [
            "w: copies, sender: 1 is new",
            "w: packets: is not counted any more",
        ];
        assert_eq!(said, expected);
    }
}
