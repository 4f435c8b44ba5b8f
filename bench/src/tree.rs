//! Which tree is measured: figures of different ones are never mixed.

use std::process::{Command, Stdio};

use xtask::error::Result;
use xtask::exec;

/// What the measured programs are made of. A commit that touches nothing else changes no figure.
const MEASURED: [&str; 6] = [
    "crates",
    "Cargo.toml",
    "Cargo.lock",
    "bench/contenders",
    "bench/src",
    "bench/Cargo.lock",
];

/// A name for the tree: the last commit that changed what is measured, and, if something of that is not
/// committed, a hash of what, so that two states of an edited tree are not taken for one.
pub(crate) fn name() -> Result<String> {
    let commit = git(&["log", "-1", "--abbrev=10", "--format=%h", "--"])?;
    let changes = git(&["diff", "HEAD", "--"])?;
    let commit = commit.trim();
    if changes.is_empty() {
        return Ok(commit.to_owned());
    }
    Ok(format!("{commit}-dirty-{:08x}", hash(&changes)))
}

fn git(args: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    command.current_dir(exec::root()).args(args).args(MEASURED);
    exec::capture(command.stdin(Stdio::null()))
}

/// FNV-1a: it tells apart, nobody attacks it.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_named_after_its_commit() {
        let name = name().unwrap();
        let commit = name.split('-').next().unwrap();
        assert!(
            commit.len() >= 10 && commit.chars().all(|c| c.is_ascii_hexdigit()),
            "{name}"
        );
    }

    #[test]
    fn different_changes_have_different_hashes() {
        assert_eq!(hash(""), 0x811c_9dc5);
        assert_eq!(hash("a"), 0xe40c_292c);
        assert_ne!(hash("+ a"), hash("+ b"));
    }
}
