//! docs/faults.md against the tree: every fault has a test that carries its id.
//!
//! A test carries an id when its name begins with it (`f07_overlaps_keep_first_bytes`) or when
//! the comment directly above it names it (`F07`).
//!
//! An entry of the page begins with `* **F07` and ends with its account, which is made from the
//! tree: how many tests the fault has and in which crates, and whether one of them runs in both
//! plain and sealed mode. Where none does, the account says `one mode:` and the reason. Where the
//! defence belongs to later work, it says `Later:` and which.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use crate::error::{Context, Failure, Result};
use crate::{exec, promises, source};

/// The page.
const PAGE: &str = "docs/faults.md";

/// Faults are numbered F01 to F40 without gaps.
const COUNT: u32 = 40;

/// Directories that may hold tests.
const TREES: &[&str] = &["crates", "tests", "xtask", "examples", "bindings"];

/// Beginnings of the paths of files whose tests run in both modes: the simulator's tests of faults,
/// which `each_fault_is_survived_with_keys_too` runs again, the attacks of the red team, and a test
/// with nodes of either mode.
const IN_BOTH_MODES: &[&str] = &[
    "crates/suci-sim/tests/it/faults_",
    "tests/red-team/tests/",
    "crates/suci/tests/fork.rs",
];

/// Columns of an account, and what it begins with.
const COLUMNS: usize = 100;
const TESTS: &str = "Tests: ";
const LATER: &str = "Later: ";
const ONE_MODE: &str = "; one mode: ";

/// A test: its crate without `suci-`, and its name.
type Test = (String, String);

/// The tests of the tree.
#[derive(Default)]
struct Tests {
    /// id to the tests that carry it.
    of: BTreeMap<String, BTreeSet<Test>>,
    /// The ids of which a test runs in both modes.
    in_both_modes: BTreeSet<String>,
    /// The names of all tests.
    names: BTreeSet<String>,
}

impl Tests {
    /// Returns the account of a fault that has tests. `said` is the account on the page, whose
    /// reason for one mode is kept. `None` if there is none.
    fn account(&self, id: &str, said: &str) -> Option<String> {
        let tests = self.of.get(id)?;
        let crates: BTreeSet<&str> = tests.iter().map(|(home, _)| home.as_str()).collect();
        let crates: Vec<&str> = crates.into_iter().collect();
        let modes = match self.in_both_modes.contains(id) {
            true => "; both modes.",
            false => said.find(ONE_MODE).and_then(|at| said.get(at..))?,
        };
        let count = tests.len();
        Some(format!("{TESTS}{count} in {}{modes}", crates.join(", ")))
    }
}

/// Checks the page, or writes the accounts of its entries when `write`; checks the tests that
/// docs/security.md names.
///
/// # Errors
/// An entry is missing, has no test, has another account than the tree, or the page names a test
/// that does not exist; or docs/security.md does.
pub fn check(write: bool) -> Result<()> {
    let root = exec::root();
    let page = root.join(PAGE);
    let text = std::fs::read_to_string(&page).context(page.display())?;
    let tests = tests(&root)?;
    if write {
        std::fs::write(&page, filled(&text, &tests)).context(page.display())?;
        return check(false);
    }
    let mut wrong = violations(&text, &tests);
    wrong.extend(promises::violations(&root, &tests.names)?);
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(wrong.join("\n")))
    }
}

/// Prints the tests of a fault.
///
/// # Errors
/// No test carries this id.
pub fn list(id: &str) -> Result<()> {
    let tests = tests(&exec::root())?;
    let of_fault = tests.of.get(&id.to_uppercase());
    let of_fault = of_fault.context(format!("faults: no test carries {id}"))?;
    for (home, name) in of_fault {
        println!("{home} {name}");
    }
    Ok(())
}

fn violations(text: &str, tests: &Tests) -> Vec<String> {
    let entries: BTreeMap<String, Entry> = entries(text)
        .into_iter()
        .map(|entry| (entry.id.clone(), entry))
        .collect();
    let mut wrong = Vec::new();
    for number in 1..=COUNT {
        let id = format!("F{number:02}");
        wrong.extend(match entries.get(&id) {
            Some(entry) => wrong_account(entry, tests),
            None => Some(format!("faults: {id} has no entry with an account")),
        });
    }
    let spans = text.split('`').skip(1).step_by(2);
    let unknown = spans.filter(|span| is_like_a_test(span) && !tests.names.contains(*span));
    wrong.extend(unknown.map(|span| format!("faults: {PAGE} names `{span}`, which is no test")));
    wrong
}

/// Returns the complaint about an entry whose account is not that of the tree.
fn wrong_account(entry: &Entry, tests: &Tests) -> Option<String> {
    let Entry { id, said, .. } = entry;
    let has_tests = tests.of.contains_key(id);
    if said.starts_with(LATER) {
        return has_tests.then(|| format!("faults: {id} has tests, so its defence is not `later`"));
    }
    if !has_tests {
        let prefix = id.to_lowercase();
        return Some(format!(
            "faults: {id} has no test (name one `{prefix}_...`)"
        ));
    }
    match tests.account(id, said) {
        Some(account) if account == *said => None,
        Some(account) => Some(format!(
            "faults: {id}: `{said}` on the page, `{account}` in the tree; if no test went \
             unnoticed, run cargo xtask faults --write"
        )),
        None => Some(format!(
            "faults: no test of {id} runs in both modes: add one to a file of `IN_BOTH_MODES` in \
             xtask/src/faults.rs, or end the account by `{ONE_MODE}` and the reason"
        )),
    }
}

/// Returns true for what can only be the name of a test.
fn is_like_a_test(span: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    span.chars().all(is_part) && span.matches('_').count() > 2
}

/// An entry of the page.
struct Entry {
    id: String,
    /// Its account, in one line.
    said: String,
    /// The lines of the account, from 0.
    lines: Range<usize>,
}

/// Reads the entries that have an account.
fn entries(text: &str) -> Vec<Entry> {
    let mut found = Vec::new();
    let mut id = None;
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if let Some(rest) = line.strip_prefix("* **") {
            let word = rest.split(' ').next().filter(|word| is_id(word, 'F'));
            id = word.map(str::to_owned);
        }
        let begins = |text: &str| line.trim_start().starts_with(text);
        if !(begins(TESTS) || begins(LATER)) {
            continue;
        }
        if let Some(id) = id.take() {
            let account = lines.iter().skip(at);
            let account: Vec<&str> = account
                .take_while(|line| line.starts_with("  "))
                .map(|line| line.trim())
                .collect();
            let lines = at..at + account.len();
            let said = account.join(" ");
            found.push(Entry { id, said, lines });
        }
    }
    found
}

/// Returns the page with the accounts of the tree.
fn filled(text: &str, tests: &Tests) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for Entry {
        id,
        said,
        lines: at,
    } in entries(text).into_iter().rev()
    {
        if let Some(account) = tests.account(&id, &said) {
            lines.splice(at, wrapped(&account));
        }
    }
    lines.join("\n") + "\n"
}

/// Returns the lines of an account.
fn wrapped(account: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in account.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("  {word}")),
        }
    }
    lines
}

fn tests(root: &Path) -> Result<Tests> {
    let mut found = Tests::default();
    for tree in TREES {
        for file in source::rust_files(&root.join(tree))? {
            let text = std::fs::read_to_string(&file).context(file.display())?;
            let path = file.strip_prefix(root).unwrap_or(&file).to_string_lossy();
            let in_both = IN_BOTH_MODES.iter().any(|some| path.starts_with(some));
            let home = home(&path);
            let names = test_functions(&text).into_iter().map(|(name, _)| name);
            found.names.extend(names);
            for (id, name) in carried(&text) {
                if in_both {
                    found.in_both_modes.insert(id.clone());
                }
                let test = (home.to_owned(), name);
                found.of.entry(id).or_default().insert(test);
            }
        }
    }
    Ok(found)
}

/// Returns the crate of a file, without `suci-`: the folder that holds its `src` or `tests`.
fn home(path: &str) -> &str {
    let mut before = "";
    for part in path.split('/') {
        if matches!(part, "src" | "tests") && !before.is_empty() {
            break;
        }
        before = part;
    }
    before.strip_prefix("suci-").unwrap_or(before)
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
fn test_functions(text: &str) -> Vec<(String, Vec<&str>)> {
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

    /// A test for each entry, and the page with their accounts.
    fn complete() -> (Tests, String) {
        let mut tests = Tests::default();
        for number in 1..=COUNT {
            let (id, name) = (format!("F{number:02}"), format!("f{number:02}_a_b_c"));
            tests.names.insert(name.clone());
            let test = BTreeSet::from([("link".to_owned(), name)]);
            tests.of.insert(id.clone(), test);
            tests.in_both_modes.insert(id);
        }
        let entry = |n| format!("* **F{n:02} x.** y\n  Tests: .\n");
        let page: String = (1..=COUNT).map(entry).collect();
        assert_eq!(violations(&page, &tests).len(), COUNT as usize);
        let page = filled(&page, &tests);
        assert_eq!(violations(&page, &tests), Vec::<String>::new());
        (tests, page)
    }

    #[test]
    fn an_entry_needs_a_test_and_its_number_is_that_of_the_tree() {
        let (mut tests, page) = complete();
        assert!(page.contains("* **F03 x.** y\n  Tests: 1 in link; both modes.\n"));
        let named = page.clone() + "`f03_a_b_c` `give_up_after` `f03_a_b_d`\n";
        assert_eq!(violations(&named, &tests).len(), 1);
        let missing = page.replace("* **F03", "* F03");
        assert_eq!(violations(&missing, &tests).len(), 1);
        let more = BTreeSet::from(["link", "proto"].map(|home| (home.into(), "f03_a".into())));
        tests.of.insert("F03".into(), more);
        assert_eq!(violations(&page, &tests).len(), 1);
        let page = filled(&page, &tests);
        assert!(page.contains("  Tests: 2 in link, proto; both modes.\n"));
        let later = page.replace(
            "Tests: 2 in link, proto; both modes.",
            "Later: flow control.",
        );
        assert_eq!(violations(&later, &tests).len(), 1);
        tests.of.remove("F03");
        assert_eq!(violations(&page, &tests).len(), 1);
        assert_eq!(violations(&later, &tests), Vec::<String>::new());
        assert_eq!(filled(&later, &tests), later);
    }

    #[test]
    fn an_entry_without_a_test_in_both_modes_says_why() {
        let (mut tests, page) = complete();
        tests.in_both_modes.remove("F29");
        assert_eq!(violations(&page, &tests).len(), 1);
        let both = "* **F29 x.** y\n  Tests: 1 in link; both modes.";
        let one = page.replace(both, &both.replace("both modes", "one mode: below packets"));
        assert_eq!(violations(&one, &tests), Vec::<String>::new());
        assert_eq!(filled(&one, &tests), one);
        // Once it has one, the reason goes.
        tests.in_both_modes.insert("F29".into());
        assert_eq!(violations(&one, &tests).len(), 1);
        assert_eq!(filled(&one, &tests), page);
    }

    #[test]
    fn a_long_account_is_wrapped_and_read_again() {
        let account = format!("Tests: 3 in {}; both modes.", ["red-team"; 20].join(", "));
        let lines = wrapped(&account);
        assert!(lines.len() > 1 && lines.iter().all(|line| line.len() <= COLUMNS));
        let page = format!("* **F01 x.** y\n{}\n\n  z\n", lines.join("\n"));
        let said: Vec<String> = entries(&page).into_iter().map(|entry| entry.said).collect();
        assert_eq!(said, [account]);
    }

    #[test]
    fn a_test_is_at_home_in_its_crate() {
        let homes = [
            "crates/suci-link/src/ack/tests.rs",
            "tests/red-team/tests/it.rs",
            "tests/tests/processes/paths.rs",
            "crates/suci/tests/fork.rs",
        ];
        assert_eq!(homes.map(home), ["link", "red-team", "tests", "suci"]);
    }
}
