//! docs/security.md against the tree: the tests that it names for the promises of SECURITY.md
//! exist, and so do the faults that are planted for the weaknesses of others.

use std::collections::BTreeSet;
use std::path::Path;

use crate::error::{Context, Failure, Result};
use crate::exec;

/// The page.
const PAGE: &str = "docs/security.md";

/// The heads of its two tables.
const PROMISES: &str = "| promise | tests |";
const WEAKNESSES: &str = "| weakness | found in | planted fault | found by |";

/// A weakness of another transport, built in by a planted fault.
#[derive(Debug, PartialEq)]
pub(crate) struct Weakness {
    /// The planted fault.
    pub(crate) fault: String,
    /// The attack of the red team that succeeds with it, or the profile of the simulator that sees
    /// it.
    pub(crate) finder: Finder,
}

/// The attack or the profile that finds a planted fault.
#[derive(Debug, PartialEq)]
pub(crate) enum Finder {
    Attack(String),
    Profile(String),
}

/// Returns what the page says that is not so. `tests` are the names of all tests.
///
/// # Errors
/// A file cannot be read, or a table is missing.
pub(crate) fn violations(root: &Path, tests: &BTreeSet<String>) -> Result<Vec<String>> {
    let page = read(root)?;
    let mut wrong: Vec<String> = promised(&page)?
        .into_iter()
        .filter(|name| !tests.contains(name))
        .map(|name| format!("{PAGE} names `{name}`, which is no test"))
        .collect();
    let path = root.join("crates/suci-link/src/plant.rs");
    let planted = std::fs::read_to_string(&path).context(path.display())?;
    for Weakness { fault, .. } in found(&page)? {
        if !planted.contains(&format!("\"{fault}\"")) {
            wrong.push(format!("{PAGE} names `{fault}`, which is no planted fault"));
        }
    }
    Ok(wrong)
}

/// The weaknesses that the page names.
///
/// # Errors
/// The page cannot be read, or its table is not as it should be.
pub(crate) fn weaknesses() -> Result<Vec<Weakness>> {
    found(&read(&exec::root())?)
}

fn read(root: &Path) -> Result<String> {
    let path = root.join(PAGE);
    std::fs::read_to_string(&path).context(path.display())
}

/// The cells of the rows below a table's head.
fn rows<'a>(page: &'a str, head: &str) -> Result<Vec<Vec<&'a str>>> {
    let (_, below) = page.split_once(head).context(format!("{PAGE}: {head}"))?;
    let rows = below
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    let cells = |row: &'a str| row.trim_matches('|').split('|').map(str::trim).collect();
    let rows: Vec<Vec<&str>> = rows.map(cells).collect();
    match rows.is_empty() {
        true => Err(Failure::new(format!("{PAGE}: no row below {head}"))),
        false => Ok(rows),
    }
}

/// The words of a cell that stand between backticks.
fn quoted(cell: &str) -> impl Iterator<Item = String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned)
}

/// The tests of promises.
fn promised(page: &str) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for row in rows(page, PROMISES)? {
        let of_row: Vec<String> = row
            .last()
            .into_iter()
            .flat_map(|cell| quoted(cell))
            .collect();
        if of_row.is_empty() {
            return Err(Failure::new(format!("{PAGE}: no test in {row:?}")));
        }
        names.extend(of_row);
    }
    Ok(names)
}

fn found(page: &str) -> Result<Vec<Weakness>> {
    let weakness = |row: Vec<&str>| {
        let [_, source, fault, finder] = row[..] else {
            return Err(Failure::new(format!("{PAGE}: {row:?}")));
        };
        let name = quoted(finder).next();
        let finder = match (finder.split(' ').next(), name) {
            (Some("attack"), Some(name)) => Finder::Attack(name),
            (Some("profile"), Some(name)) => Finder::Profile(name),
            _ => return Err(Failure::new(format!("{PAGE}: what is {finder}?"))),
        };
        let fault = quoted(fault).next().context(source)?;
        match source.contains("CVE-") {
            true => Ok(Weakness { fault, finder }),
            false => Err(Failure::new(format!("{PAGE}: {source} names no CVE"))),
        }
    };
    rows(page, WEAKNESSES)?.into_iter().map(weakness).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read() {
        let page = "text\n\n| promise | tests |\n|---|---|\n| nothing | `a_test`, `another` |\n\n\
                    | weakness | found in | planted fault | found by |\n|---|---|---|---|\n\
                    | x | TCP (CVE-2004-0230) | `tag-unchecked` | attack `index-guessing` |\n\
                    | y | WPA2 (CVE-2017-13077) | `again` | profile `sealed` |\n";
        assert_eq!(
            promised(page).ok(),
            Some(vec!["a_test".into(), "another".into()])
        );
        let weakness = |fault: &str, finder| Weakness {
            fault: fault.into(),
            finder,
        };
        let both = vec![
            weakness("tag-unchecked", Finder::Attack("index-guessing".into())),
            weakness("again", Finder::Profile("sealed".into())),
        ];
        assert_eq!(found(page).ok(), Some(both));
        assert!(found(&page.replace("CVE-2004-0230", "once")).is_err());
        assert!(promised(&page.replace('`', "")).is_err());
    }
}
