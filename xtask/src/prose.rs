//! The language of comments and documents, as far as a program can check it.

use std::path::PathBuf;

use crate::error::{Context, Failure, Result};
use crate::{exec, source};

/// Lines of comments and prose end by this column.
const COLUMNS: usize = 100;

/// Words that the code once used for things that have a standard name, and that name.
const BANNED: &[(&str, &str)] = &[
    ("Appetite", "Demand"),
    ("Beacon", "EventFd"),
    ("Company", "CompetitiveMode"),
    ("Doze", "Parker"),
    ("Farewell", "EndedSession"),
    ("Flight", "SentBatch"),
    ("Gather", "SendCoalescer"),
    ("Habit", "SpinPolicy"),
    ("Ledger", "SentPackets"),
    ("Letter", "CrossShardMessage"),
    ("Mould", "HeaderTemplate"),
    ("Naps", "TimedSleep"),
    ("Post", "CrossShardQueue"),
    ("Rota", "RoundRobin"),
    ("Sequel", "ContiguousPackets"),
    ("Slack", "CwndValidation"),
    ("Standing", "Trust"),
    ("Stretch", "SentRange"),
    ("Tries", "Backoff"),
];

/// Checks the width of comments and prose, and that no banned name came back.
///
/// # Errors
/// All violations found, one per line.
pub fn check() -> Result<()> {
    let mut wrong = Vec::new();
    for file in tracked()? {
        let path = exec::root().join(&file);
        let text = std::fs::read_to_string(&path).context(path.display())?;
        let found = match file.extension().is_some_and(|kind| kind == "rs") {
            true => [wide_comments(&text), banned_names(&text)].concat(),
            false => wide_prose(&text),
        };
        let shown = file.display();
        wrong.extend(
            found
                .into_iter()
                .map(|(line, what)| format!("prose: {shown}:{line}: {what}")),
        );
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(wrong.join("\n"))),
    }
}

/// Documents and Rust files of the repository that exist, also those that are not committed yet.
fn tracked() -> Result<Vec<PathBuf>> {
    let listed = exec::capture(
        std::process::Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .args(["*.rs", "*.md"])
            .current_dir(exec::root()),
    )?;
    let exists = |file: &PathBuf| exec::root().join(file).exists();
    Ok(listed.lines().map(PathBuf::from).filter(exists).collect())
}

type Finding = (usize, String);

/// Why the line is too wide, if it is. One that has no place to break is not.
fn too_wide(line: &str) -> Option<String> {
    let width = line.chars().count();
    let words = line.split_whitespace().filter(|word| word.len() > 3);
    (width > COLUMNS && words.count() > 1)
        .then(|| format!("{width} columns of prose, at most {COLUMNS}"))
}

/// Returns true for lines of Markdown that cannot be broken: rows of tables, and headings.
fn is_unbreakable(text: &str) -> bool {
    text.trim_start().starts_with(['|', '#'])
}

fn wide_comments(text: &str) -> Vec<Finding> {
    let mut fenced = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            continue;
        };
        let content = comment.trim_start_matches(['/', '!']);
        if content.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && !is_unbreakable(content) {
            found.extend(too_wide(line).map(|what| (number, what)));
        }
    }
    found
}

fn wide_prose(text: &str) -> Vec<Finding> {
    let mut fenced = false;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && !is_unbreakable(line) {
            found.extend(too_wide(line).map(|what| (number, what)));
        }
    }
    found
}

fn banned_names(text: &str) -> Vec<Finding> {
    let blanked = source::blanked(text);
    let mut found = Vec::new();
    for (number, line) in (1..).zip(blanked.lines()) {
        let names = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        for name in names {
            let entry = BANNED.iter().find(|(banned, _)| *banned == name);
            found.extend(entry.map(|(_, term)| (number, format!("`{name}` is called `{term}`"))));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(found: &[Finding]) -> Vec<usize> {
        found.iter().map(|(line, _)| *line).collect()
    }

    #[test]
    fn wide_comments_are_found_and_wide_code_is_not() {
        let wide = "word ".repeat(21);
        let text = format!(
            "// {wide}\nlet a = \"{wide}\";\n/// | {wide}\n/// ```\n/// {wide}\n/// ```\n//! {wide}\n"
        );
        assert_eq!(lines(&wide_comments(&text)), [1, 7]);
    }

    #[test]
    fn wide_prose_is_found_but_tables_code_and_addresses_may_be_wide() {
        let wide = "word ".repeat(21);
        let address = format!("* https://{}", "a".repeat(120));
        let text = format!("{wide}\n| {wide}\n```\n{wide}\n```\n{address}\n{wide}\n");
        assert_eq!(lines(&wide_prose(&text)), [1, 7]);
    }

    #[test]
    fn banned_names_are_found_in_code_only() {
        let text = "struct Mould;\n// Mould\nlet a = \"Mould\";\nstruct Moulds;\n";
        assert_eq!(lines(&banned_names(text)), [1]);
    }
}
