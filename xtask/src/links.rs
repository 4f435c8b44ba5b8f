//! Checks that the files, headings and names of the code that documents point at exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::error::{Context, Result};
use crate::{exec, source};

/// Beginnings of the paths of documents whose names of the code are looked up.
const ABOUT_THE_CODE: [&str; 2] = ["ARCHITECTURE.md", "docs/decisions/"];

/// The documents and Rust files of the repository, with the words of Rust code, without those of
/// comments and texts.
#[derive(Default)]
pub(crate) struct Tree(BTreeMap<String, BTreeSet<String>>);

impl Tree {
    /// Adds a file.
    pub(crate) fn add(&mut self, file: &Path, text: &str) {
        let found = match file.extension().is_some_and(|kind| kind == "rs") {
            true => words(&source::blanked(text)).map(str::to_owned).collect(),
            false => BTreeSet::new(),
        };
        self.0.insert(file.display().to_string(), found);
    }

    /// Returns the words of the files that a document may call by this path: it is the end of a
    /// path, whose crate may stand without `crates/` and `src/`.
    fn called<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a BTreeSet<String>> {
        let end = format!("/{name}");
        let parts = name.split_once('/');
        let in_crate = parts.map(|(owner, rest)| format!("crates/{owner}/src/{rest}"));
        let whole = in_crate.filter(|path| self.0.contains_key(path));
        let is_called = move |path: &str| match &whole {
            Some(whole) => path == whole,
            None => format!("/{path}").ends_with(&end),
        };
        let files = self.0.iter();
        files.filter_map(move |(path, words)| is_called(path).then_some(words))
    }

    fn has_word(&self, word: &str) -> bool {
        self.0.values().any(|words| words.contains(word))
    }
}

/// Returns what a document points at and does not exist, with the line of each.
///
/// # Errors
/// A document that is linked to cannot be read.
pub(crate) fn broken(file: &Path, text: &str, tree: &Tree) -> Result<Vec<(usize, String)>> {
    let mut found = Vec::new();
    let shown = file.display().to_string();
    let names_code = ABOUT_THE_CODE.iter().any(|some| shown.starts_with(some));
    for (number, line) in (1..).zip(unfenced(text)) {
        for target in targets(&without_code(line)) {
            found.extend(wrong_link(file, text, target)?.map(|what| (number, what)));
        }
        if names_code {
            let missing = spans(line).flat_map(|span| unknown_names(span, tree));
            let missing = missing.chain(misplaced(line, tree));
            found.extend(missing.map(|what| (number, what)));
        }
    }
    Ok(found)
}

/// The lines of a document, those of fenced blocks empty.
fn unfenced(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().map(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if fenced || fence { "" } else { line }
    })
}

/// The texts between backticks of a line.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// A line without the texts between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// The targets of the links that a line holds the end of, as `](target)`.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let after = line.split("](").skip(1);
    after.filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// Returns the complaint about a link to a file or heading of the repository that is not there.
fn wrong_link(file: &Path, text: &str, target: &str) -> Result<Option<String>> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(None);
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let linked = linked(file, path);
    let full = exec::root().join(&linked);
    if !path.is_empty() && !full.exists() {
        return Ok(Some(format!("`{target}`: no such file")));
    }
    if heading.is_empty() {
        return Ok(None);
    }
    let has_heading = match path.is_empty() {
        true => anchors(text).any(|anchor| anchor == heading),
        false => {
            let other = std::fs::read_to_string(&full).context(full.display())?;
            anchors(&other).any(|anchor| anchor == heading)
        }
    };
    Ok((!has_heading).then(|| format!("`{target}`: no such heading")))
}

/// Returns the path, from the repository's root, that a document means by a relative one.
fn linked(file: &Path, path: &str) -> PathBuf {
    let mut result = file.parent().unwrap_or(Path::new("")).to_path_buf();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => {
                result.pop();
            }
            Component::CurDir => {}
            other => result.push(other),
        }
    }
    result
}

/// The anchors that GitHub makes of the headings of a document.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let headings = unfenced(text).filter(|line| line.starts_with('#'));
    headings.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            c => (c.is_alphanumeric() || c == '-' || c == '_').then_some(c),
        });
        kept.collect()
    })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_'))
}

/// Returns complaints about the files and the paths of names, `Type::name`, of a piece of code in a
/// document that the tree does not have.
fn unknown_names(span: &str, tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for word in span.split(|c: char| c.is_whitespace() || "(),;<>".contains(c)) {
        if word.ends_with(".rs") && tree.called(word).next().is_none() {
            found.push(format!("`{word}`: no such file"));
        } else if word.contains("::") {
            let missing = words(word).find(|name| !name.is_empty() && !tree.has_word(name));
            found.extend(missing.map(|name| format!("`{word}`: no `{name}` in the code")));
        }
    }
    found
}

/// Returns complaints about names that a line places into files that do not have them: "`name` in
/// `file.rs`" or "`name` (`file.rs`".
fn misplaced(line: &str, tree: &Tree) -> Vec<String> {
    let parts: Vec<&str> = line.split('`').collect();
    let mut found = Vec::new();
    for place in parts.windows(3).skip(1).step_by(2) {
        let [name, " in " | " (", file] = place else {
            continue;
        };
        let last = name.rsplit("::").next().unwrap_or_default();
        let is_name = last.chars().all(|c| c.is_alphanumeric() || c == '_');
        let mut files = tree.called(file).peekable();
        if is_name
            && file.ends_with(".rs")
            && files.peek().is_some()
            && !files.any(|words| words.contains(last))
        {
            found.push(format!("`{name}` is not in `{file}`"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, tree: &Tree) -> Vec<usize> {
        let found = broken(Path::new("docs/decisions/README.md"), text, tree).unwrap();
        found.iter().map(|(line, _)| *line).collect()
    }

    #[test]
    fn links_to_missing_files_and_headings_are_found() {
        let text = "# One: `two`, 3\n[a](../../README.md) [b](#one-two-3)\n[c](README.md#none)\n\
                    ```\n[d](none)\n```\n[e](../none.md), `[f](none)` [g](https://none)\n\
                    [h](#two)\n[i](../../PROTOCOL.md#18-sealed-mode)\n";
        assert_eq!(lines(text, &Tree::default()), [3, 7, 8]);
    }

    #[test]
    fn names_that_are_not_in_the_code_are_found() {
        let mut tree = Tree::default();
        tree.add(
            Path::new("crates/suci/src/driver/cycle.rs"),
            "impl Driver { fn sleep(&self) {} // wake\n}",
        );
        tree.add(Path::new("src/cycle.rs"), "");
        let text = "`Driver::sleep` and `suci/driver/cycle.rs`\n`Driver::wake(1)`\n\
                    `suci/cycle.rs`\n```\nDriver::wake\n```\n`cycle.rs`\nDriver::wake\n\
                    `Driver::sleep` (`driver/cycle.rs`), `sleep` in `cycle.rs`\n\
                    `Driver::sleep` in `src/cycle.rs`\n`Driver::sleep` (`suci/driver/cycle.rs`)";
        assert_eq!(lines(text, &tree), [2, 3, 10]);
        assert_eq!(
            broken(Path::new("docs/limits.md"), text, &tree).unwrap(),
            []
        );
    }
}
