//! Texts of errors name settings and actions in words of both languages: C programs show them.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::header::{functions, other_functions, structs};
use crate::toolchain::crate_dir;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the sources of a crate, without the files of tests.
fn sources(of: &str) -> Vec<PathBuf> {
    let mut dirs = vec![crate_dir().join("..").join(of).join("src")];
    let mut files = Vec::new();
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let is_test = path.file_stem().unwrap() == "tests";
            match path.is_dir() {
                _ if is_test => {}
                true => dirs.push(path),
                false => files.push(path),
            }
        }
    }
    files
}

/// Returns the literal that begins behind a quotation mark, with its line breaks joined, and what
/// follows it.
fn literal(rest: &str) -> (String, &str) {
    let mut text = String::new();
    let mut letters = rest.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (text, rest.get(at + 1..).unwrap_or_default()),
            '\\' => text.extend(letters.next().map(|(_, letter)| letter)),
            _ => text.push(letter),
        }
    }
    (text, "")
}

/// Returns the literals of several words in a file, up to its tests.
fn texts(path: &Path) -> Vec<String> {
    let file = fs::read_to_string(path).unwrap();
    let code = file.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let mut all = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let after = rest.get(at + 1..).unwrap_or_default();
        rest = match rest.as_bytes().get(at) {
            Some(b'"') => {
                let (text, after) = literal(after);
                all.push(text);
                after
            }
            Some(b'/') if after.starts_with('/') => after.split_once('\n').map_or("", |it| it.1),
            // A quotation mark as a character.
            _ => after.strip_prefix("\"'").unwrap_or(after),
        };
    }
    all.retain(|text| text.contains(' '));
    all
}

/// Returns the words of `text`, each with what stands before and behind it.
fn words(text: &str) -> Vec<(&str, &str, &str)> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(start) = text[at..].find(is_part).map(|found| at + found) {
        let end = text[start..]
            .find(|letter| !is_part(letter))
            .map_or(text.len(), |found| start + found);
        all.push((&text[..start], &text[start..end], &text[end..]));
        at = end;
    }
    all
}

/// Names that a text may or may not use.
struct Names {
    /// Methods of Rust.
    methods: BTreeSet<String>,
    /// Functions of C.
    functions: BTreeSet<String>,
    /// Fields of structs of C.
    fields: BTreeSet<String>,
}

impl Names {
    fn read() -> Self {
        let methods = crate::interface::methods();
        let methods = methods
            .iter()
            .filter_map(|method| Some(method.split_once("::")?.1.to_owned()));
        Self {
            methods: methods.collect(),
            functions: (functions().into_iter().chain(other_functions()))
                .map(|it| it.name)
                .collect(),
            fields: structs().into_iter().flat_map(|it| it.fields).collect(),
        }
    }

    /// Returns what of `text` only a program in Rust could mean: calls, paths and methods. A word
    /// of one part, as "call" or "send", means what it says; `accept_into` means suci_accept_into()
    /// as well.
    fn of_rust_alone<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let suspect = |(before, word, behind): &(&str, &str, &str)| {
            let path = behind.strip_prefix("::");
            let is_path = path.is_some_and(|name| name.starts_with(char::is_alphabetic));
            let is_value = before.ends_with('{');
            // In C the same name has a prefix.
            let is_shared = self.functions.contains(&format!("suci_{word}"));
            let is_method =
                word.contains('_') && self.methods.contains(*word) && !is_value && !is_shared;
            let is_called = behind.starts_with('(') && !behind.starts_with("(s)");
            is_path
                || is_called && !self.functions.contains(*word)
                || is_method && !self.fields.contains(*word)
        };
        let found = words(text).into_iter().filter(suspect);
        found.map(|(_, word, _)| word).collect()
    }
}

#[test]
fn texts_of_errors_name_nothing_that_only_rust_has() {
    let names = Names::read();
    let mut faults = Vec::new();
    let mut seen = 0;
    for of in [
        "suci",
        "suci-link",
        "suci-channels",
        "suci-proto",
        "suci-net",
        "suci-capi",
    ] {
        for path in sources(of) {
            for text in texts(&path) {
                seen += 1;
                for word in names.of_rust_alone(&text) {
                    faults.push(format!("{}: {word} in {text:?}", path.display()));
                }
            }
        }
    }
    assert!(seen > 300, "{seen} texts: the sources are not understood");
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn calls_paths_and_methods_of_rust_are_found() {
    let names = Names::read();
    for (text, found) in [
        (
            "wait (send_timeout does), Event::Writable says",
            vec!["send_timeout", "Event"],
        ),
        ("say .plain() or id() on the builder", vec!["plain", "id"]),
        ("raise max_message (64 MiB), or call suci_wake()", vec![]),
        ("[fe80::1]:7000 serves {peer_limit} peers", vec![]),
    ] {
        assert_eq!(names.of_rust_alone(text), found, "{text}");
    }
}
