//! The tree that is measured: figures of different trees are never mixed.

use std::path::Path;
use std::process::{Command, Stdio};

use xtask::error::{Context, Result};
use xtask::exec;

/// The sources of the measured programs. A commit that touches nothing else changes no figure.
const MEASURED: [&str; 8] = [
    "crates",
    "Cargo.toml",
    "Cargo.lock",
    "bench/contenders",
    "bench/src",
    "bench/Cargo.toml",
    "rust-toolchain.toml",
    // The network between the two ends.
    "xtask/src/netns.rs",
];

/// A name for the tree: the last commit that changed a measured program, and a hash of uncommitted
/// changes, if there are any. So two states of an edited tree are not taken for one.
pub(crate) fn name() -> Result<String> {
    name_of(&exec::root(), &MEASURED)
}

fn name_of(root: &Path, measured: &[&str]) -> Result<String> {
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command
            .current_dir(root)
            .args(args)
            .arg("--")
            .args(measured);
        exec::capture(command.stdin(Stdio::null()))
    };
    let commit = git(&["log", "-1", "--abbrev=10", "--format=%h"])?;
    let mut changes = git(&["diff", "HEAD"])?.into_bytes();
    // Files that git does not know yet are built all the same.
    let new = git(&["ls-files", "-z", "--others", "--exclude-standard"])?;
    for file in new.split_terminator('\0') {
        changes.extend(file.bytes());
        changes.extend(std::fs::read(root.join(file)).context(file)?);
    }
    let commit = commit.trim();
    if changes.is_empty() {
        return Ok(commit.to_owned());
    }
    Ok(format!("{commit}-dirty-{:08x}", hash(&changes)))
}

/// FNV-1a: the hash only tells trees apart; it need not withstand attacks.
fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
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
        assert_eq!(hash(b""), 0x811c_9dc5);
        assert_eq!(hash(b"a"), 0xe40c_292c);
        assert_ne!(hash(b"+ a"), hash(b"+ b"));
    }

    #[test]
    fn what_is_measured_is_there() {
        for path in MEASURED {
            assert!(exec::root().join(path).exists(), "{path}");
        }
    }

    #[test]
    fn a_file_that_git_does_not_know_changes_the_name() {
        let dir = std::env::temp_dir().join(format!("suci-bench-tree-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("src")).unwrap();
        let git = |line: &str| {
            let own = ["-c", "user.name=x", "-c", "user.email=x@example.com"];
            let words = own.into_iter().chain(line.split(' '));
            exec::capture(Command::new("git").current_dir(&dir).args(words)).unwrap();
        };
        std::fs::write(dir.join("src/a"), "a").unwrap();
        git("init -q");
        git("add -A");
        git("commit -q -m a");
        let names = [None, Some("b"), Some("c")].map(|new| {
            if let Some(text) = new {
                std::fs::write(dir.join("src/new"), text).unwrap();
            }
            name_of(&dir, &["src"]).unwrap()
        });
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(!names[0].contains("dirty"), "{names:?}");
        assert!(
            names[1].contains("dirty") && names[1] != names[2],
            "{names:?}"
        );
    }
}
