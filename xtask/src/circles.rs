//! Which files of a crate use each other in a circle, so that none can be read without the others.
//!
//! A file uses another if it names something that is defined there: in a `use`, or by a path from
//! `crate` or `super`. A name that a module only passes on (`pub use`) counts for the file that
//! defines it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::error::{Context, Result};
use crate::source;

/// The path of a module in its crate.
type Module = Vec<String>;

/// Passed on from module to module more often than this, a name counts as unknown.
const MOST_STEPS: usize = 8;

/// The modules of a crate.
#[derive(Default)]
struct Crate {
    files: BTreeMap<Module, PathBuf>,
    /// The names that each module imports, and their paths.
    imports: BTreeMap<Module, BTreeMap<String, Module>>,
    /// All paths that each module mentions.
    mentions: BTreeMap<Module, BTreeSet<Module>>,
}

/// Returns the files of the largest circle below a crate's `src`, without tests.
///
/// # Errors
/// A file that cannot be read.
pub(crate) fn largest(src: &Path) -> Result<Vec<PathBuf>> {
    let known = Crate::read(src)?;
    let uses: BTreeMap<&Module, BTreeSet<Module>> = known
        .mentions
        .iter()
        .map(|(module, paths)| {
            let found = paths.iter().filter_map(|path| known.definer(path, 0));
            (module, found.filter(|used| used != module).collect())
        })
        .collect();
    let reached = |from: &Module| {
        let mut seen = BTreeSet::new();
        let mut open = vec![from.clone()];
        while let Some(module) = open.pop() {
            for next in uses.get(&module).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&Module, BTreeSet<Module>> = known
        .files
        .keys()
        .map(|module| (module, reached(module)))
        .collect();
    let circle_of = |module: &Module| -> Vec<PathBuf> {
        let both = reach[module]
            .iter()
            .filter(|other| reach[*other].contains(module));
        both.map(|other| known.files[other].clone()).collect()
    };
    let circles = known.files.keys().map(circle_of);
    Ok(circles.max_by_key(Vec::len).unwrap_or_default())
}

impl Crate {
    fn read(src: &Path) -> Result<Self> {
        let mut known = Self::default();
        let mut tests = BTreeSet::new();
        let mut texts = Vec::new();
        for path in source::rust_files(src)? {
            let text = std::fs::read_to_string(&path).context(path.display())?;
            let text = source::blanked(&text);
            let inner = path
                .strip_prefix(src)
                .context(path.display())?
                .with_extension("");
            let names = inner.iter().map(|name| name.to_string_lossy().into_owned());
            let module: Module = names
                .filter(|name| name != "lib" && name != "mod")
                .collect();
            let of_tests = source::test_modules(&text).into_iter();
            tests.extend(of_tests.map(|name| [&module[..], &[name]].concat()));
            texts.push((module, path, text));
        }
        texts.retain(|(module, _, _)| !tests.iter().any(|test| module.starts_with(test)));
        for (module, path, _) in &texts {
            known.files.insert(module.clone(), path.clone());
        }
        for (module, _, text) in texts {
            let lines = source::lines_before_tests(&text);
            let text = text.lines().take(lines).collect::<Vec<_>>().join("\n");
            let (imports, mentions) = known.paths_in(&module, &text);
            known.imports.insert(module.clone(), imports);
            known.mentions.insert(module, mentions);
        }
        Ok(known)
    }

    /// Returns the names that `text` imports into `module`, and all paths within the crate that it
    /// mentions.
    fn paths_in(
        &self,
        module: &Module,
        text: &str,
    ) -> (BTreeMap<String, Module>, BTreeSet<Module>) {
        let (mut imports, mut mentions) = (BTreeMap::new(), BTreeSet::new());
        let mut rest = text;
        while let Some(at) = rest.find("use ") {
            let starts = rest[..at]
                .chars()
                .next_back()
                .is_none_or(|before| !is_word(before));
            rest = &rest[at + 4..];
            let end = rest.find(';').unwrap_or(rest.len());
            if starts && end < 2_000 {
                for (path, name) in flat(&rest[..end]) {
                    if let Some(path) = self.absolute(module, &path) {
                        mentions.insert(path.clone());
                        imports.insert(name, path);
                    }
                }
            }
        }
        for root in ["crate::", "super::"] {
            for (at, _) in text.match_indices(root) {
                let is_path = |c: char| is_word(c) || c == ':';
                let starts = text[..at]
                    .chars()
                    .next_back()
                    .is_none_or(|before| !is_path(before));
                // `pub(in crate::a)` says who may use a thing, and uses nothing.
                let starts = starts && !text[..at].ends_with("(in ");
                let path = text[at..].split(|c| !is_path(c)).next().unwrap_or_default();
                // The names in braces behind it were found above.
                if starts && !path.ends_with(':') {
                    mentions.extend(self.absolute(module, &words(path)));
                }
            }
        }
        (imports, mentions)
    }

    /// Returns a path from the crate's root, if `path`, which `module` mentions, is in the crate.
    fn absolute(&self, module: &Module, path: &[String]) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        let mut from = module.clone();
        match first.as_str() {
            "crate" => from.clear(),
            "self" => {}
            "super" => {
                from.pop();
                let is_super = |name: &&String| *name == "super";
                let more = rest.iter().take_while(is_super).count();
                from.truncate(from.len().saturating_sub(more));
                from.extend(rest.iter().skip(more).cloned());
                return Some(from);
            }
            _ => {
                from.push(first.clone());
                self.files.contains_key(&from).then_some(())?;
            }
        }
        from.extend(rest.iter().cloned());
        Some(from)
    }

    /// Returns the module in whose file the end of `path` is defined, after so many `steps`.
    fn definer(&self, path: &Module, steps: usize) -> Option<Module> {
        let mut module = Module::new();
        for (at, name) in path.iter().enumerate() {
            module.push(name.clone());
            if self.files.contains_key(&module) {
                continue;
            }
            module.pop();
            let imported = self.imports.get(&module).and_then(|names| names.get(name));
            return match imported {
                Some(next) if steps < MOST_STEPS => {
                    let next = [&next[..], &path[at + 1..]].concat();
                    self.definer(&next, steps + 1)
                }
                _ => Some(module),
            };
        }
        Some(module)
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the paths of a `use` and the names that it gives them.
fn flat(text: &str) -> Vec<(Module, String)> {
    let text = text.trim();
    if let Some((before, inner)) = text.split_once('{') {
        let inner = inner.rsplit_once('}').map_or(inner, |(inner, _)| inner);
        let head: Module = words(before);
        let parts = split_at_commas(inner);
        let paths = parts.into_iter().flat_map(|part| flat(&part));
        return paths
            .map(|(path, name)| {
                let path = match path.as_slice() {
                    [only] if only == "self" => head.clone(),
                    _ => [&head[..], &path].concat(),
                };
                (path, name)
            })
            .collect();
    }
    let (path, name) = match text.split_once(" as ") {
        Some((path, name)) => (words(path), Some(name.trim().to_owned())),
        None => (words(text), None),
    };
    let name = name.or_else(|| path.last().cloned());
    name.map(|name| (path, name)).into_iter().collect()
}

fn words(path: &str) -> Module {
    let names = path
        .split("::")
        .map(str::trim)
        .filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// Splits at the commas outside of braces.
fn split_at_commas(text: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in text.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        match (c, depth) {
            (',', 0) => parts.push(String::new()),
            _ => parts.last_mut().into_iter().for_each(|part| part.push(c)),
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_use_each_other_through_others_are_a_circle() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "lib.rs",
            "mod a;\nmod b;\npub use a::{A, deep::D as Deep};\n",
        );
        write("a/mod.rs", "mod deep;\npub struct A;\npub use deep::D;\n");
        write(
            "a/deep.rs",
            "use crate::b::B;\npub(in crate::a) struct D(B);\n",
        );
        write(
            "b.rs",
            "use crate::{\n    Deep,\n};\npub struct B(Option<Box<Deep>>);\n",
        );
        write(
            "c.rs",
            "use super::b::B;\n\n#[cfg(test)]\nmod tests {\n    use crate::d::D;\n}\n",
        );
        write("d.rs", "use crate::c::C;\npub struct D;\n");
        let circle = largest(dir.path()).unwrap();
        let names: Vec<_> = circle
            .iter()
            .map(|path| path.strip_prefix(dir.path()).unwrap().to_str().unwrap())
            .collect();
        assert_eq!(names, ["a/deep.rs", "b.rs"]);
    }
}
