//! `suci keygen` and `suci key`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use crate::support::{errors, output, printed, suci};

fn key(args: &[&str], file: &Path) -> Output {
    let args: Vec<&str> = args.iter().copied().chain(file.to_str()).collect();
    output(&mut suci(&args))
}

/// The 64 digits of each key in the file.
fn secrets(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let lines = text.lines().filter(|line| line.starts_with("suci-key-1 "));
    lines
        .filter_map(|line| line.split(' ').nth(1).map(str::to_owned))
        .collect()
}

#[test]
fn a_key_is_made_compared_rotated_and_retired() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cluster.key");
    let mut all = String::new();
    let mut done = |args: &[&str]| {
        let output = key(args, &file);
        assert!(output.status.success(), "{}", errors(&output));
        all.push_str(&printed(&output));
        printed(&output)
    };
    let made = done(&["keygen"]);
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let mut known = secrets(&file);
    let id = done(&["key", "show"]).trim_end().replace(" used", "");
    assert!(
        id.len() == 8 && made.starts_with(&format!("key {id} is in")),
        "{made}"
    );
    assert!(done(&["key", "rotate"]).contains("suci key retire"));
    known.extend(secrets(&file));
    let both = done(&["key", "show"]);
    assert!(both.ends_with(&format!("\n{id} accepted\n")), "{both}");
    done(&["key", "retire"]);
    let last = done(&["key", "show"]);
    assert_eq!(both.lines().next(), Some(last.trim_end()));
    assert_eq!(known.len(), 3);
    assert!(known.iter().all(|secret| !all.contains(secret)), "{all}");
}

#[test]
fn files_that_do_not_fit_are_refused_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cluster.key");
    let refused = |args: &[&str], part: &str| {
        let output = key(args, &file);
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.contains(part) && said.contains(file.to_str().unwrap()),
            "{said}"
        );
        said
    };
    refused(&["key", "show"], "suci keygen");
    assert!(key(&["keygen"], &file).status.success());
    refused(&["keygen"], "exists");
    refused(&["key", "retire"], "one key");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let said = refused(&["key", "show"], "chmod 600");
    assert!(!said.contains(&secrets(&file)[0]), "{said}");
}
