//! `suci keygen` and `suci key`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Running, errors, free_address, output, path, printed, suci};

fn key(args: &[&str], file: &Path) -> Output {
    let args: Vec<&str> = args.iter().copied().chain(file.to_str()).collect();
    output(&mut suci(&args))
}

/// The 64 digits of each key in the file.
fn secrets(file: &Path) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let is_key = |line: &&str| line.starts_with("suci-key-1 ") || line.starts_with("suci-node-key");
    let lines = text.lines().filter(is_key);
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
fn a_file_that_cannot_be_written_is_not_left_behind() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cluster.key");
    let limited = "trap '' XFSZ; ulimit -f 0; exec \"$0\" keygen \"$1\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", limited]).arg(path());
    let refused = output(shell.arg(&file));
    assert!(!refused.status.success() && errors(&refused).contains("cluster.key"));
    assert!(!file.exists(), "an empty file");
    assert!(key(&["keygen"], &file).status.success());
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

#[test]
fn a_nodes_key_is_made_printed_rotated_and_retired() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("node7.key");
    let done = |args: &[&str]| {
        let output = key(args, &file);
        assert!(output.status.success(), "{}", errors(&output));
        printed(&output)
    };
    assert!(done(&["keygen", "--node"]).contains("suci key public"));
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut known = secrets(&file);
    let public = ["key", "public", "--id", "7"];
    let line = done(&public);
    assert!(line.starts_with("7 suci-public-1 "), "{line}");
    let id = done(&["key", "show"]).trim_end().replace(" used", "");
    assert!(line.trim_end().ends_with(&id), "{line}");
    assert!(done(&["key", "rotate"]).contains("suci key public"));
    known.extend(secrets(&file));
    let both = done(&public);
    assert_eq!(both.lines().count(), 2);
    assert!(both.ends_with(&line));
    done(&["key", "retire"]);
    let last = done(&public);
    assert_eq!(last.lines().count(), 1);
    assert!(both.starts_with(&last));
    assert_eq!(known.len(), 3);
    assert!(known.iter().all(|secret| !both.contains(secret)));
    // The key of a cluster has no public half.
    let cluster = dir.path().join("cluster.key");
    assert!(key(&["keygen"], &cluster).status.success());
    let refused = key(&public, &cluster);
    assert!(errors(&refused).contains("--node"), "{}", errors(&refused));
}

/// The files of nodes 0 and 1, made by the commands.
fn node_files(dir: &Path) {
    let mut lines = String::new();
    for id in ["0", "1"] {
        let file = dir.join(format!("node{id}.key"));
        assert!(key(&["keygen", "--node"], &file).status.success());
        lines += &printed(&key(&["key", "public", "--id", id], &file));
    }
    fs::write(dir.join("public.keys"), lines).unwrap();
}

/// `ping` and `perf` take keys of nodes from their environment where the nodes have IDs.
#[test]
fn commands_with_ids_take_keys_of_nodes() {
    let dir = tempfile::tempdir().unwrap();
    node_files(dir.path());
    let public = dir.path().join("public.keys");
    let launch = |command: &str| {
        let own = dir.path().join("node").display().to_string();
        let script = format!(
            "SUCI_NODE_KEY_FILE={own}$SUCI_ID.key exec {} {command}",
            path()
        );
        let mut launch = suci(&["run", "-n", "2", "sh", "-c", &script]);
        output(launch.env("SUCI_PUBLIC_KEYS_FILE", &public))
    };
    let ping = "ping --count 2 --interval 0 --timeout 5";
    for command in [ping, "perf --workload ping-pong --rounds 1 --seconds 0.01"] {
        let done = launch(command);
        assert!(done.status.success(), "{command}: {}", errors(&done));
    }
    let (zero, one) = (free_address(), free_address());
    let book = dir.path().join("book").display().to_string();
    fs::write(&book, format!("0 {zero}\n1 {one}\n")).unwrap();
    let of_book = |id: &str, more: &[&str]| {
        let args = [&["ping", "--book", &book, "--id", id], more].concat();
        let mut command = suci(&args);
        command.env("SUCI_PUBLIC_KEYS_FILE", &public);
        command.env(
            "SUCI_NODE_KEY_FILE",
            dir.path().join(format!("node{id}.key")),
        );
        command
    };
    let mut answering = Running::start(&mut of_book("1", &[]));
    answering.first_error_line();
    let done = output(&mut of_book("0", &["1", "--count", "2", "--interval", "0"]));
    assert!(done.status.success(), "{}", errors(&done));
    let lines = fs::read_to_string(&public).unwrap();
    a_caller_that_permits_no_answer_ends_nothing(dir.path(), &lines, &of_book);
    drop(answering);
    // The keys count: without its line node 1 is no member.
    let first = lines.lines().next().unwrap();
    fs::write(&public, format!("{first}\n")).unwrap();
    let done = launch(ping);
    assert!(!done.status.success());
    assert!(
        errors(&done).contains("enter the line `1 suci-public-1"),
        "{}",
        errors(&done)
    );
}

/// Node 1 answers. Node 0, whose file lets node 1 use nothing, gets no answer, and node 1 goes on.
fn a_caller_that_permits_no_answer_ends_nothing(
    dir: &Path,
    lines: &str,
    of_book: &dyn Fn(&str, &[&str]) -> Command,
) {
    let strict = dir.join("strict.keys");
    let line = |line: &str| match line.starts_with("1 ") {
        true => format!("{line} nothing\n"),
        false => format!("{line}\n"),
    };
    let text: String = lines.lines().map(line).collect();
    assert!(text.contains(" nothing\n"), "{text}");
    fs::write(&strict, text).unwrap();
    let mut call = of_book("0", &["1", "--count", "1", "--timeout", "1"]);
    let done = output(call.env("SUCI_PUBLIC_KEYS_FILE", &strict));
    assert!(!done.status.success());
    let done = output(&mut of_book("0", &["1", "--count", "1"]));
    assert!(done.status.success(), "{}", errors(&done));
}

/// An empty name is no key: the remedy is not that of a node's key.
#[test]
fn commands_say_that_a_blank_variable_names_no_file() {
    for name in ["SUCI_NODE_KEY_FILE", "SUCI_KEY_FILE"] {
        for (value, args) in [
            ("", &["ping", "127.0.0.1:9"][..]),
            (" ", &["ping", "--listen", "127.0.0.1:0"]),
            ("", &["cat", "127.0.0.1:9"]),
            (" ", &["perf", "127.0.0.1:9"]),
        ] {
            if (name, args[0]) == ("SUCI_KEY_FILE", "perf") {
                // Without a server it does not come to the key.
                continue;
            }
            let done = output(suci(args).env(name, value));
            let said = errors(&done);
            let told = format!("{name}={value}: it names no file: name one, or unset the variable");
            assert!(said.contains(&told), "{args:?}: {said}");
        }
    }
}

/// One that calls an address has an ID that no file of public keys could name.
#[test]
fn commands_without_ids_say_that_keys_of_nodes_need_them() {
    let dir = tempfile::tempdir().unwrap();
    node_files(dir.path());
    for args in [
        &["ping", "127.0.0.1:9"][..],
        &["ping", "--listen", "127.0.0.1:0"],
        &["cat", "127.0.0.1:9"],
        &["perf", "--listen", "127.0.0.1:0"],
        &["perf", "127.0.0.1:9"],
    ] {
        let mut command = suci(args);
        command.env("SUCI_NODE_KEY_FILE", dir.path().join("node0.key"));
        command.env("SUCI_PUBLIC_KEYS_FILE", dir.path().join("public.keys"));
        let done = output(&mut command);
        assert_eq!(done.status.code(), Some(1), "{args:?}");
        let said = errors(&done);
        assert!(
            said.contains("suci ping --book FILE --id N"),
            "{args:?}: {said}"
        );
    }
}
