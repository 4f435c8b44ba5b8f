//! The language of comments and documents, as far as a program can check it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::{Context, Failure, Result};
use crate::links::{self, Tree};
use crate::{exec, source};

/// Lines of comments and prose end by this column.
const COLUMNS: usize = 100;

/// Documents that a newcomer reads first, and the maximum size of each in KiB.
pub const DOCUMENTS: [(&str, u64); 4] = [
    ("README.md", 8),
    ("ARCHITECTURE.md", 32),
    ("CONTRIBUTING.md", 8),
    ("CHANGELOG.md", 4),
];

/// Decisions have one page each: at most so many bytes.
const DECISIONS: &str = "docs/decisions/";
const PAGE: usize = 4 << 10;

/// Words that the code once used for things that have a standard name, and that name.
const BANNED: &[(&str, &str)] = &[
    ("AckWaits", "AckDelays"),
    ("Appetite", "Demand"),
    ("Beacon", "Readiness"),
    ("begin_turn", "begin_cycle"),
    ("Bell", "EventFd"),
    ("Company", "CompetitiveMode"),
    ("Doze", "Parker"),
    ("Farewell", "EndedSession"),
    ("Flight", "SentBatch"),
    ("Habit", "Waiter"),
    ("heard_at", "last_source"),
    ("Heed", "WaitConditions"),
    ("heed_mode", "apply_peer_mode"),
    ("Hungry", "Unsatisfied"),
    ("last_words", "final_close"),
    ("LastLook", "LastPoll"),
    ("Lean", "TrafficClassifier"),
    ("Ledger", "SentPackets"),
    ("left_off", "tx_incomplete"),
    ("Letter", "CrossShardMessage"),
    ("Mould", "HeaderTemplate"),
    ("Naps", "timed sleep"),
    ("News", "EventQueue"),
    ("newsworthy", "peers_with_events"),
    ("Outlook", "Publishers"),
    ("Post", "CrossShardQueue"),
    ("RateMark", "RateSnapshot"),
    ("Rota", "RoundRobin"),
    ("Runs", "FrameBatch"),
    ("sate", "mark_satisfied"),
    ("Seat", "Registration"),
    ("Seated", "Admitted"),
    ("Sequel", "ContiguousPackets"),
    ("Slack", "CwndValidation"),
    ("Spare", "BufferCache"),
    ("Spares", "SendBufferCaches"),
    ("Standing", "Trust"),
    ("Stretch", "SentRange"),
    ("Tries", "Backoff"),
    ("Turns", "Scheduler"),
    ("Willing", "SendingPeer"),
];

/// Checks the width of comments and prose, the size of the first documents, that what documents
/// point at exists, that no comment begins with a pronoun instead of its subject, that no banned
/// name came back, and that no two types of a crate share a name.
///
/// # Errors
/// All violations found, one per line.
pub fn check() -> Result<()> {
    let mut wrong = Vec::new();
    let mut types = Types::new();
    let files = tracked()?;
    let mut tree = Tree::default();
    for (file, text) in &files {
        tree.add(file, text);
    }
    for (file, text) in &files {
        let found = match file.extension().is_some_and(|kind| kind == "rs") {
            true => {
                note_types(file, text, &mut types);
                [wide_comments(text), riddles(text), banned_names(text)].concat()
            }
            false => [wide_prose(text), links::broken(file, text, &tree)?].concat(),
        };
        let shown = file.display();
        wrong.extend(
            found
                .into_iter()
                .map(|(line, what)| format!("prose: {shown}:{line}: {what}")),
        );
    }
    wrong.extend(doubled(&types));
    wrong.extend(files.iter().filter_map(|(file, text)| too_long(file, text)));
    for (name, most) in DOCUMENTS {
        let bytes = size(name)?;
        if bytes > most << 10 {
            wrong.push(format!("prose: {name}: {bytes} bytes, at most {most} KiB"));
        }
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Failure::new(wrong.join("\n"))),
    }
}

/// Returns the bytes of a document.
///
/// # Errors
/// The document is missing.
pub fn size(name: &str) -> Result<u64> {
    let path = exec::root().join(name);
    Ok(std::fs::metadata(&path).context(path.display())?.len())
}

/// Documents and Rust files of the repository that exist, also those that are not committed yet,
/// with their texts.
fn tracked() -> Result<Vec<(PathBuf, String)>> {
    let listed = exec::capture(
        std::process::Command::new("git")
            .args(["ls-files", "--cached", "--others", "--exclude-standard"])
            .args(["*.rs", "*.md"])
            .current_dir(exec::root()),
    )?;
    let files = listed.lines().map(PathBuf::from);
    let existing = files.filter(|file| exec::root().join(file).exists());
    let read = existing.map(|file| {
        let path = exec::root().join(&file);
        let text = std::fs::read_to_string(&path).context(path.display())?;
        Ok((file, text))
    });
    read.collect()
}

/// Returns the complaint about a decision that is longer than a page, if it is.
fn too_long(file: &Path, text: &str) -> Option<String> {
    let (bytes, shown) = (text.len(), file.display());
    (file.starts_with(DECISIONS) && bytes > PAGE)
        .then(|| format!("prose: {shown}: {bytes} bytes, at most {PAGE}: a decision is one page"))
}

type Finding = (usize, String);

/// Returns the complaint about a line that is too wide, if it is. A line without a place to break
/// is not.
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

/// Finds comments that begin with a relative pronoun, and are no questions, and those of items that
/// name a bound `Most`.
fn riddles(text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut before = false;
    for (number, line) in (1..).zip(text.lines()) {
        let comment = line.trim_start().strip_prefix("//");
        let content = comment.map_or("", |comment| comment.trim_start_matches(['/', '!']).trim());
        let first = content.split(' ').next().filter(|_| !before);
        let pronoun = first.filter(|word| ["What", "Who", "Whom", "Whoever"].contains(word));
        if let Some(word) = pronoun.filter(|_| !content.contains('?')) {
            found.push((number, format!("`{word}` is no subject: name the thing")));
        }
        let of_item = line.trim_start().starts_with("///");
        if of_item && first == Some("Most") {
            found.push((number, "`Most` names no quantity: maximum of what?".into()));
        }
        before = !content.is_empty();
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

/// The files that define a type, by its crate and name.
type Types = BTreeMap<(String, String), Vec<String>>;

/// Notes the types that a source file of a crate defines outside of functions and tests.
fn note_types(file: &Path, text: &str, types: &mut Types) {
    let shown = file.display().to_string();
    let Some((owner, _)) = shown
        .strip_prefix("crates/")
        .and_then(|rest| rest.split_once("/src/"))
    else {
        return;
    };
    if shown.contains("/tests/") || shown.ends_with("/tests.rs") {
        return;
    }
    let blanked = source::blanked(text);
    let code = blanked.split("\nmod tests {").next().unwrap_or_default();
    for line in code.lines() {
        let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        let first = words.next();
        let mut words = first.into_iter().chain(words).skip_while(|word| {
            matches!(
                *word,
                "pub" | "crate" | "super" | "in" | "self" | "message" | "recovery" | ""
            ) && !line.starts_with(' ')
        });
        if matches!(words.next(), Some("struct" | "enum" | "trait" | "union"))
            && let Some(name) = words.next()
        {
            let key = (owner.to_owned(), name.to_owned());
            types.entry(key).or_default().push(shown.clone());
        }
    }
}

/// Two types of one crate that share a name.
fn doubled(types: &Types) -> impl Iterator<Item = String> + '_ {
    let several = types.iter().filter(|(_, files)| files.len() > 1);
    several.map(|((owner, name), files)| {
        let files = files.join(", ");
        format!("prose: {owner} has several types `{name}`: {files}")
    })
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
    fn comments_that_begin_with_a_pronoun_are_found() {
        let text = "/// Who waits?\n/// What it does.\n\n// What comes\n// Those.\n//! Whom\n";
        assert_eq!(lines(&riddles(text)), [4]);
        assert_eq!(lines(&riddles("let a = 1;\n    /// Who waits.\n")), [2]);
        let text = "/// Most peers.\n// Most wait.\n\n/// A bound.\n/// Most wait.\n";
        assert_eq!(lines(&riddles(text)), [1]);
    }

    #[test]
    fn wide_prose_is_found_but_tables_code_and_addresses_may_be_wide() {
        let wide = "word ".repeat(21);
        let address = format!("* https://{}", "a".repeat(120));
        let text = format!("{wide}\n| {wide}\n```\n{wide}\n```\n{address}\n{wide}\n");
        assert_eq!(lines(&wide_prose(&text)), [1, 7]);
    }

    #[test]
    fn decisions_longer_than_a_page_are_found() {
        let too_long = |file: &str, bytes| too_long(Path::new(file), &"x".repeat(bytes));
        assert!(too_long("docs/decisions/01-x.md", PAGE + 1).is_some());
        assert_eq!(too_long("docs/decisions/01-x.md", PAGE), None);
        assert_eq!(too_long("docs/limits.md", PAGE + 1), None);
    }

    #[test]
    fn types_of_a_crate_that_share_a_name_are_found() {
        let mut types = Types::new();
        let text = "pub(crate) struct One;\nenum Two {\n    struct Three,\n}\n#[cfg(test)]\nmod tests {\nstruct One;\n}\n";
        note_types(Path::new("crates/a/src/x.rs"), text, &mut types);
        note_types(Path::new("crates/b/src/x.rs"), text, &mut types);
        note_types(Path::new("crates/a/src/x/tests.rs"), text, &mut types);
        assert_eq!(doubled(&types).count(), 0, "{types:?}");
        let again = "pub(in crate::message) enum Two {}\n";
        note_types(Path::new("crates/a/src/y.rs"), again, &mut types);
        let said: Vec<String> = doubled(&types).collect();
        assert_eq!(
            said,
            ["prose: a has several types `Two`: crates/a/src/x.rs, crates/a/src/y.rs"]
        );
    }

    #[test]
    fn banned_names_are_found_in_code_only() {
        let text = "struct Mould;\n// Mould\nlet a = \"Mould\";\nstruct Moulds;\n";
        assert_eq!(lines(&banned_names(text)), [1]);
    }
}
