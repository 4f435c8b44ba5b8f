//! The header and the library have the same functions.

use crate::toolchain::{prefix, run};
use std::collections::BTreeSet;
use std::process::Command;

/// The words of a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

fn is_function(word: &str) -> bool {
    word.starts_with("shmem_") || word.starts_with("pshmem_")
}

#[test]
fn every_declared_function_is_in_the_library_and_no_other() {
    let source = prefix().join("all.c");
    std::fs::write(&source, "#include <pshmem.h>\n").unwrap();
    let mut expand = Command::new(prefix().join("bin/oshcc"));
    let header = run(expand.args(["-E", "-P"]).arg(source));
    // Functions whose text is in the header are no symbols; their calls name those that are.
    let parts = header.split([';', '{', '}']);
    let prototypes = parts.filter(|part| part.contains('(') && !part.contains("static"));
    let named = |part: &str| {
        let before = part.split('(').next().unwrap_or_default().to_owned();
        words(&before).last().unwrap_or_default().to_owned()
    };
    let declared: BTreeSet<String> = prototypes
        .map(named)
        .filter(|word| is_function(word))
        .collect();
    let library = prefix().join("lib/libsma.so");
    let symbols = run(Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library));
    let exported: BTreeSet<String> = words(&symbols)
        .filter(|word| is_function(word))
        .map(str::to_owned)
        .collect();
    assert!(declared.len() > 3_000, "{}", declared.len());
    let differ: Vec<_> = declared.symmetric_difference(&exported).collect();
    assert!(differ.is_empty(), "{differ:?}");
}
