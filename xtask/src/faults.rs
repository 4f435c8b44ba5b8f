//! docs/faults.md against the tree: every fault has a test that carries its id.
//!
//! A test carries an id when its name begins with it (`f07_overlaps_keep_first_bytes`) or when
//! the comment directly above it names it (`F07`). A row whose defence belongs to a later issue
//! says `later: NAME` instead.
//!
//! A row says `both` if a test of it runs in plain and in sealed mode, and else `one:` with the
//! reason.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::error::{Context, Failure, Result};
use crate::{exec, promises, source};

/// Faults are numbered F01 to F32 without gaps.
const COUNT: u32 = 32;

/// Directories that may hold tests.
pub(crate) const TREES: &[&str] = &["crates", "tests", "xtask", "examples", "bindings"];

/// Beginnings of the paths of files whose tests run in both modes: the simulator's tests of faults,
/// which `each_fault_is_survived_with_keys_too` runs again, the attacks of the red team, and a test
/// with nodes of either mode.
const IN_BOTH_MODES: &[&str] = &[
    "crates/suci-sim/tests/it/faults_",
    "tests/red-team/tests/",
    "crates/suci/tests/fork.rs",
];

/// The state of a row that has a test in both modes, and the beginning of the reason of others.
const BOTH: &str = "both";
const ONE: &str = "one: ";

/// The tests of the tree.
#[derive(Default)]
struct Tests {
    /// id to names of the tests that carry it.
    named: BTreeMap<String, Vec<String>>,
    /// The ids of which a test runs in both modes.
    in_both_modes: BTreeSet<String>,
}

impl Tests {
    /// Returns the names of the tests of a row.
    fn of(&self, id: &str) -> &[String] {
        self.named.get(id).map(Vec::as_slice).unwrap_or_default()
    }
}

/// A row of the table.
struct Row<'a> {
    id: &'a str,
    modes: &'a str,
    tests: &'a str,
}

/// Checks the table, or fills its last columns from the tree when `write`; checks the tests that
/// docs/security.md names.
///
/// # Errors
/// A row is missing, has no test, does not say for which modes, or names a test that does not
/// exist; or that page does.
pub fn check(write: bool) -> Result<()> {
    let root = exec::root();
    let page = root.join("docs/faults.md");
    let text = std::fs::read_to_string(&page).context(page.display())?;
    let tests = tests(&root)?;
    if write {
        std::fs::write(&page, filled(&text, &tests)).context(page.display())?;
        return check(false);
    }
    let mut wrong = violations(&text, &tests);
    wrong.extend(promises::violations(&root)?);
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(wrong.join("\n")))
    }
}

fn violations(text: &str, tests: &Tests) -> Vec<String> {
    let rows: BTreeMap<&str, Row<'_>> = text.lines().filter_map(row).map(|r| (r.id, r)).collect();
    let mut wrong = Vec::new();
    for number in 1..=COUNT {
        let id = format!("F{number:02}");
        let Some(row) = rows.get(id.as_str()) else {
            wrong.push(format!("faults: {id} has no row"));
            continue;
        };
        if row.tests.starts_with("later:") {
            continue;
        }
        wrong.extend(wrong_modes(row, tests));
        let existing = tests.of(&id);
        if existing.is_empty() {
            let prefix = id.to_lowercase();
            wrong.push(format!(
                "faults: {id} has no test (name one `{prefix}_...`)"
            ));
        } else if row.tests.is_empty() {
            wrong.push(format!(
                "faults: {id} names no test; run cargo xtask faults --write"
            ));
        }
        let named = row.tests.split(',');
        for name in named.map(|name| name.trim().trim_matches('`')) {
            if !name.is_empty() && !existing.iter().any(|test| test == name) {
                wrong.push(format!(
                    "faults: {id} names `{name}`, which is no test of it"
                ));
            }
        }
    }
    wrong
}

/// A row that says `both` has a test in both modes; each other one says why it has none.
fn wrong_modes(row: &Row<'_>, tests: &Tests) -> Option<String> {
    let Row { id, modes, .. } = row;
    match (tests.in_both_modes.contains(*id), *modes) {
        (true, BOTH) => None,
        (true, _) => Some(format!(
            "faults: {id} has a test in both modes; run cargo xtask faults --write"
        )),
        (false, said) if said.starts_with(ONE) => None,
        (false, _) => Some(format!(
            "faults: no test of {id} runs in both modes: add one to a file of `IN_BOTH_MODES` in \
             xtask/src/faults.rs, or say `{ONE}` and the reason in the row"
        )),
    }
}

/// Reads a row of the table.
fn row(line: &str) -> Option<Row<'_>> {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    match cells.as_slice() {
        ["", id, .., modes, tests, ""] if id.starts_with('F') && id.len() == 3 => {
            Some(Row { id, modes, tests })
        }
        _ => None,
    }
}

fn filled(text: &str, tests: &Tests) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let replaced = row(line)
            .filter(|row| !row.tests.starts_with("later:"))
            .map(|Row { id, modes, .. }| {
                let names = tests.of(id).iter().map(|name| format!("`{name}`"));
                let names: Vec<String> = names.collect();
                // The last two cells, and what stands before them.
                let mut cells = line.trim_end().trim_end_matches('|').rsplitn(3, '|');
                let kept = cells.nth(2).unwrap_or_default();
                let modes = match tests.in_both_modes.contains(id) {
                    true => BOTH,
                    false => modes,
                };
                format!("{kept}| {modes} | {} |", names.join(", "))
            });
        out.push_str(replaced.as_deref().unwrap_or(line));
        out.push('\n');
    }
    out
}

fn tests(root: &Path) -> Result<Tests> {
    let mut found = Tests::default();
    for tree in TREES {
        for file in source::rust_files(&root.join(tree))? {
            let text = std::fs::read_to_string(&file).context(file.display())?;
            let path = file.strip_prefix(root).unwrap_or(&file).to_string_lossy();
            let in_both = IN_BOTH_MODES.iter().any(|some| path.starts_with(some));
            for (id, name) in carried(&text) {
                if in_both {
                    found.in_both_modes.insert(id.clone());
                }
                found.named.entry(id).or_default().push(name);
            }
        }
    }
    for names in found.named.values_mut() {
        names.sort();
        names.dedup();
    }
    Ok(found)
}

/// The (id, test) pairs of one source file.
fn carried(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (name, above) in test_functions(text) {
        let comments = above.iter().filter(|line| line.starts_with("//"));
        let mut ids: Vec<String> = comments.flat_map(|line| ids(line)).collect();
        ids.extend(ids_of_name(&name));
        ids.sort();
        ids.dedup();
        found.extend(ids.into_iter().map(|id| (id, name.clone())));
    }
    found
}

/// The tests of one source file, with the comments and attributes above each.
pub(crate) fn test_functions(text: &str) -> Vec<(String, Vec<&str>)> {
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
        if above.iter().any(is_test) {
            found.push((name.to_owned(), above));
        }
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

    /// A test for each row, and the table that names them.
    fn complete() -> (Tests, String) {
        let mut tests = Tests::default();
        for number in 1..=COUNT {
            let (id, name) = (format!("F{number:02}"), format!("f{number:02}_test"));
            tests.named.insert(id.clone(), vec![name]);
            tests.in_both_modes.insert(id);
        }
        let row = |n| format!("| F{n:02} | x | y | | |\n");
        let table: String = (1..=COUNT).map(row).collect();
        // Neither the tests nor the modes are there.
        assert_eq!(violations(&table, &tests).len(), 2 * COUNT as usize);
        let table = filled(&table, &tests);
        assert_eq!(violations(&table, &tests), Vec::<String>::new());
        (tests, table)
    }

    #[test]
    fn a_row_needs_a_test_that_exists() {
        let (mut tests, table) = complete();
        tests.named.remove("F03");
        assert_eq!(violations(&table, &tests).len(), 2);
        let later = table.replace("`f03_test`", "later: flow control");
        assert_eq!(violations(&later, &tests), Vec::<String>::new());
        assert_eq!(filled(&later, &tests), later);
        let missing = table.replace("| F03 |", "| x |");
        assert_eq!(violations(&missing, &tests), ["faults: F03 has no row"]);
    }

    #[test]
    fn a_row_without_a_test_in_both_modes_says_why() {
        let (mut tests, table) = complete();
        tests.in_both_modes.remove("F29");
        assert_eq!(violations(&table, &tests).len(), 1);
        let one = table.replace("| both | `f29_test`", "| one: below packets | `f29_test`");
        assert_eq!(violations(&one, &tests), Vec::<String>::new());
        assert_eq!(filled(&one, &tests), one);
        // Once it has one, the reason goes.
        tests.in_both_modes.insert("F29".into());
        assert_eq!(violations(&one, &tests).len(), 1);
        assert_eq!(filled(&one, &tests), table);
    }
}
