//! The manual pages that `suci man` makes.

use std::collections::BTreeSet;
use std::path::Path;

use crate::support::{commands, errors, help, output, printed, suci};

/// The requests that the generator and we use. Any other line that begins like a request would
/// vanish from the page.
const REQUESTS: [&str; 12] = [
    ".TH", ".SH", ".TP", ".PP", ".RS", ".RE", ".IP", ".br", ".nf", ".fi", ".ie", ".el",
];

/// The pages by the arguments that they are about.
fn pages(dir: &Path) -> Vec<(Vec<String>, String)> {
    let written = output(&mut suci(&["man", dir.to_str().unwrap()]));
    assert!(written.status.success(), "{}", errors(&written));
    assert_eq!(printed(&written), "");
    let names: BTreeSet<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let about = std::iter::once(vec![]).chain(commands().into_iter().map(|name| vec![name]));
    let pages: Vec<_> = about
        .map(|args| (args.clone(), [vec!["suci".to_owned()], args].concat()))
        .map(|(args, words)| (args, format!("{}.1", words.join("-"))))
        .collect();
    let expected = pages.iter().map(|(_, file)| file.clone());
    assert_eq!(names, expected.collect());
    let read = |file| std::fs::read_to_string(dir.join(file)).unwrap();
    pages
        .into_iter()
        .map(|(args, file)| (args, read(file)))
        .collect()
}

/// Text as a formatter shows it.
fn shown(page: &str) -> String {
    let escapes = [
        (r"\-", "-"),
        (r"\fB", ""),
        (r"\fI", ""),
        (r"\fR", ""),
        (r"\*(Aq", "'"),
        (r"\(ga", "`"),
        (r"\(ti", "~"),
    ];
    let undo = |text: String, (from, to): &(&str, &str)| text.replace(from, to);
    escapes.iter().fold(page.to_owned(), undo)
}

#[test]
fn every_command_has_a_page_that_says_what_help_says() {
    let dir = tempfile::tempdir().unwrap();
    for (args, page) in pages(dir.path()) {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES"] {
            let heading = format!("\n.SH {section}\n");
            assert_eq!(page.matches(&heading).count(), 1, "{args:?} {section}");
        }
        for line in page.lines().filter(|line| line.starts_with(['.', '\''])) {
            let request = line.split(' ').next().unwrap();
            assert!(REQUESTS.contains(&request), "{args:?}: {line}");
        }
        let lines = shown(&page);
        let lines: BTreeSet<&str> = lines.lines().collect();
        let examples = help(&args, "Examples:");
        assert!(!examples.is_empty(), "{args:?}");
        for example in &examples {
            assert!(lines.contains(example.as_str()), "{args:?}: {example}");
        }
        let options = help(&args, "Options:");
        let named = options.iter().filter(|line| line.starts_with('-'));
        for option in named.map(|line| line.split("  ").next().unwrap()) {
            let found = lines.iter().any(|line| line.starts_with(option));
            assert!(found, "{args:?}: {option}");
        }
    }
}

#[test]
fn without_a_directory_the_first_page_is_printed() {
    let dir = tempfile::tempdir().unwrap();
    let (_, first) = pages(dir.path()).swap_remove(0);
    assert_eq!(printed(&output(&mut suci(&["man"]))), first);
    for name in commands() {
        let entry = format!("suci\\-{name}(1)");
        assert!(first.contains(&entry), "{name}");
    }
}

#[test]
fn a_directory_that_cannot_be_written_to_is_named_with_the_remedy() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let file = file.path().to_str().unwrap();
    for (dir, trouble) in [("/nope", "No such file"), (file, "Not a directory")] {
        let refused = output(&mut suci(&["man", dir]));
        assert_eq!(refused.status.code(), Some(1), "{dir}");
        let said = errors(&refused);
        let begin = format!("suci man: {dir}/suci.1: {trouble}");
        assert!(said.starts_with(&begin), "{said}");
        assert!(said.contains("name a directory that exists"), "{said}");
    }
}
