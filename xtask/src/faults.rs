//! docs/faults.md against the tree: every fault has a test that carries its id.
//!
//! A test carries an id when its name begins with it (`f07_overlaps_keep_first_bytes`) or when
//! the comment directly above it names it (`F07`). A row whose defence belongs to a later issue
//! says `later: NAME` instead.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::{Context, Failure, Result};
use crate::{exec, source};

/// Faults are numbered F01 to F32 without gaps.
const COUNT: u32 = 32;

/// Directories that may hold tests.
const TREES: &[&str] = &["crates", "tests", "xtask", "examples", "bindings"];

/// id to names of the tests that carry it.
type Tests = BTreeMap<String, Vec<String>>;

/// Checks the table, or fills its last column from the tree when `write`.
///
/// # Errors
/// A row is missing, has no test, or names a test that does not exist.
pub fn check(write: bool) -> Result<()> {
    let root = exec::root();
    let page = root.join("docs/faults.md");
    let text = std::fs::read_to_string(&page).context(page.display())?;
    let tests = tests(&root)?;
    if write {
        std::fs::write(&page, filled(&text, &tests)).context(page.display())?;
        return check(false);
    }
    let wrong = violations(&text, &tests);
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(wrong.join("\n")))
    }
}

fn violations(text: &str, tests: &Tests) -> Vec<String> {
    let rows: BTreeMap<&str, &str> = text.lines().filter_map(row).collect();
    let mut wrong = Vec::new();
    for number in 1..=COUNT {
        let id = format!("F{number:02}");
        let Some(named) = rows.get(id.as_str()) else {
            wrong.push(format!("faults: {id} has no row"));
            continue;
        };
        if named.starts_with("later:") {
            continue;
        }
        let existing = tests.get(&id).map(Vec::as_slice).unwrap_or_default();
        if existing.is_empty() {
            let prefix = id.to_lowercase();
            wrong.push(format!(
                "faults: {id} has no test (name one `{prefix}_...`)"
            ));
        } else if named.is_empty() {
            wrong.push(format!(
                "faults: {id} names no test; run cargo xtask faults --write"
            ));
        }
        for name in named.split(',').map(|name| name.trim().trim_matches('`')) {
            if !name.is_empty() && !existing.iter().any(|test| test == name) {
                wrong.push(format!(
                    "faults: {id} names `{name}`, which is no test of it"
                ));
            }
        }
    }
    wrong
}

/// Id and tests of a table row.
fn row(line: &str) -> Option<(&str, &str)> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    match cells.as_slice() {
        ["", id, .., tests, ""] if id.starts_with('F') && id.len() == 3 => Some((id, tests)),
        _ => None,
    }
}

fn filled(text: &str, tests: &Tests) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let replaced = row(line)
            .filter(|(_, named)| !named.starts_with("later:"))
            .map(|(id, _)| {
                let names = tests.get(id).map(Vec::as_slice).unwrap_or_default();
                let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
                let kept = line
                    .trim_end()
                    .trim_end_matches('|')
                    .rsplit_once('|')
                    .map_or("", |s| s.0);
                format!("{kept}| {} |", names.join(", "))
            });
        out.push_str(replaced.as_deref().unwrap_or(line));
        out.push('\n');
    }
    out
}

fn tests(root: &Path) -> Result<Tests> {
    let mut found = Tests::new();
    for tree in TREES {
        for file in source::rust_files(&root.join(tree))? {
            let text = std::fs::read_to_string(&file).context(file.display())?;
            for (id, name) in carried(&text) {
                found.entry(id).or_default().push(name);
            }
        }
    }
    for names in found.values_mut() {
        names.sort();
        names.dedup();
    }
    Ok(found)
}

/// The (id, test) pairs of one source file.
fn carried(text: &str) -> Vec<(String, String)> {
    // Blanking keeps lines: a test inside a string or a comment is not one.
    let blanked = source::blanked(text);
    let lines: Vec<(&str, &str)> = text.lines().zip(blanked.lines()).collect();
    let mut found = Vec::new();
    for (at, (_, code)) in lines.iter().enumerate() {
        let Some(name) = function_name(code) else {
            continue;
        };
        let above = lines[..at].iter().rev().map(|(line, _)| line.trim());
        let above: Vec<&str> = above
            .take_while(|line| line.starts_with("//") || line.starts_with("#["))
            .collect();
        let is_test = |line: &&str| {
            line.starts_with("#[") && (line.contains("test]") || line.contains("test("))
        };
        if !above.iter().any(is_test) {
            continue;
        }
        let comments = above.iter().filter(|line| line.starts_with("//"));
        let mut ids: Vec<String> = comments.flat_map(|line| ids(line)).collect();
        ids.extend(ids_of_name(name));
        ids.sort();
        ids.dedup();
        found.extend(ids.into_iter().map(|id| (id, name.to_owned())));
    }
    found
}

fn function_name(code: &str) -> Option<&str> {
    let words = code.trim().split("fn ").nth(1)?;
    let name = words
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .next()?;
    (!name.is_empty()).then_some(name)
}

/// `F07` and the like in a comment.
fn ids(comment: &str) -> Vec<String> {
    let words = comment.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|word| is_id(word, 'F'))
        .map(str::to_owned)
        .collect()
}

/// Leading ids of a test's name: `f07_...`, `f10_f14_...`.
fn ids_of_name(name: &str) -> Vec<String> {
    name.split('_')
        .take_while(|word| is_id(word, 'f'))
        .map(str::to_uppercase)
        .collect()
}

fn is_id(word: &str, letter: char) -> bool {
    let digits = word.strip_prefix(letter).unwrap_or_default();
    digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "
        #[test]
        fn f07_first_bytes_win() {}

        /// F10 and F14: old packets.
        #[tokio::test]
        async fn old_packets() {}

        /// F20
        fn helper() {}

        // #[test]
        // fn f21_gone() {}
        fn f22_helper() {}
    ";

    #[test]
    fn names_and_comments_carry_ids() {
        let pairs = carried(SOURCE);
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(id, name)| (id.as_str(), name.as_str()))
            .collect();
        assert_eq!(
            pairs,
            [
                ("F07", "f07_first_bytes_win"),
                ("F10", "old_packets"),
                ("F14", "old_packets")
            ]
        );
    }

    #[test]
    fn a_row_needs_a_test_that_exists() {
        let mut tests = Tests::new();
        for number in 1..=COUNT {
            tests.insert(format!("F{number:02}"), vec![format!("f{number:02}_test")]);
        }
        let table: String = (1..=COUNT)
            .map(|n| format!("| F{n:02} | x | y | |\n"))
            .collect();
        assert_eq!(violations(&table, &tests).len(), COUNT as usize);
        let table = filled(&table, &tests);
        assert_eq!(violations(&table, &tests), Vec::<String>::new());
        tests.remove("F03");
        assert_eq!(violations(&table, &tests).len(), 2);
        let later = table.replace("`f03_test`", "later: flow control");
        assert_eq!(violations(&later, &tests), Vec::<String>::new());
        assert_eq!(filled(&later, &tests), later);
        let missing = table.replace("| F03 |", "| x |");
        assert_eq!(violations(&missing, &tests), ["faults: F03 has no row"]);
    }
}
