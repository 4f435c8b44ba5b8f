//! `suci run --hosts`, over a command in the place of ssh that stays on this machine.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::support::{Running, errors, output, path, printed, suci};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;

/// A folder with a command that runs what `ssh HOST COMMAND` would on this machine, for the hosts
/// `a` and `b` alone. As a server does, it lets the command hear the signals that ssh ignores.
fn scene() -> (TempDir, String) {
    let dir = TempDir::with_prefix("suci-hosts-").unwrap();
    let ssh = dir.path().join("reach");
    let script = "#!/bin/sh\ncase $1 in a | b) ;; *) echo \"no host $1\" >&2; exit 255 ;; esac\n\
        cd /; exec env --default-signal=HUP,INT sh -c \"exec $2\"\n";
    std::fs::write(&ssh, script).unwrap();
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
    let ssh = ssh.display().to_string();
    (dir, ssh)
}

/// `suci run` of two processes on each of two hosts, with further arguments.
fn run(ssh: &str, more: &[&str]) -> std::process::Command {
    let mut args = vec!["run", "--hosts", "a:2,b:2", "--ssh", ssh];
    args.extend_from_slice(more);
    suci(&args)
}

/// The lines of a process, without the number in front, in order.
fn lines(text: &str, id: u32) -> Vec<&str> {
    let tag = format!("[{id}] ");
    text.lines()
        .filter_map(|line| line.strip_prefix(tag.as_str()))
        .collect()
}

fn is_gone(pid: &str) -> bool {
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        if test_kill_process(pid).is_err() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn processes_of_all_hosts_reach_each_other() {
    let (_dir, ssh) = scene();
    let out = output(&mut run(&ssh, &[path(), "demo"]));
    let text = printed(&out);
    assert!(out.status.success(), "{text}{}", errors(&out));
    for id in 0..4 {
        let said = lines(&text, id).join("\n");
        assert!(said.starts_with(&format!("node {id}: ")), "{text}");
    }
}

#[test]
fn processes_have_the_directory_the_variables_and_no_input() {
    let (dir, ssh) = scene();
    let script = "pwd; echo $SUCI_ID of $SUCI_SIZE; echo rmem $SUCI_RMEM_MAX; wc -c; \
        wc -l < $SUCI_BOOK; test -s $SUCI_KEY_FILE && echo sealed";
    let mut command = run(&ssh, &["-n", "3", "sh", "-c", script]);
    let command = command
        .current_dir(dir.path())
        .env("SUCI_RMEM_MAX", "212992");
    let out = output(command);
    let text = printed(&out);
    let here = std::fs::canonicalize(dir.path())
        .unwrap()
        .display()
        .to_string();
    for id in 0..3 {
        let place = format!("{id} of 3");
        assert_eq!(
            lines(&text, id),
            [&here, &place, "rmem 212992", "0", "3", "sealed"],
            "{}",
            errors(&out)
        );
    }
}

#[test]
fn failures_are_those_of_one_machine() {
    let (_dir, ssh) = scene();
    let failing = ["sh", "-c", "test $SUCI_ID != 3 || exit 7"];
    let out = output(&mut run(&ssh, &failing));
    assert_eq!(out.status.code(), Some(7), "{}", errors(&out));
    assert!(errors(&out).contains("process 3 (pid "), "{}", errors(&out));
    let tolerant = ["--tolerate-failures", "sh", "-c", "exit $SUCI_ID"];
    let out = output(&mut run(&ssh, &tolerant));
    assert_eq!(out.status.code(), Some(3), "{}", errors(&out));
    assert!(
        errors(&out).contains("3 of 4 processes failed: 1, 2, 3"),
        "{}",
        errors(&out)
    );
    let killing = [
        "--kill-on-failure",
        "sh",
        "-c",
        "test $SUCI_ID = 1 && exit 9; sleep 60",
    ];
    let begun = Instant::now();
    let out = output(&mut run(&ssh, &killing));
    assert_eq!(out.status.code(), Some(9), "{}", errors(&out));
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn ends_are_told_to_processes_of_other_hosts() {
    let (dir, ssh) = scene();
    // Process 3 fails once, is started again, and ends; process 0 hears of both.
    let script = r#"
        case $SUCI_ID in
        0) head -n 3 < /proc/self/fd/$SUCI_NOTICES ;;
        3) test -e failed || { touch failed; exit 1; } ;;
        *) sleep 1 ;;
        esac"#;
    let mut command = run(&ssh, &["--restart=1", "sh", "-c", script]);
    let out = output(command.current_dir(dir.path()));
    assert!(out.status.success(), "{}", errors(&out));
    let text = printed(&out);
    assert_eq!(
        lines(&text, 0),
        ["1 supervised 0 3", "1 died 3", "1 gone 3"],
        "{}",
        errors(&out)
    );
}

#[test]
fn a_lost_host_is_the_failure_of_its_processes() {
    let (_dir, ssh) = scene();
    // The agent at the other end of ssh is the parent of processes 2 and 3.
    let script = r#"
        case $SUCI_ID in
        0) head -n 3 < /proc/self/fd/$SUCI_NOTICES | sort ;;
        1) ;;
        2) echo $$; sleep 60 ;;
        3) sleep 1; kill -KILL $PPID; sleep 60 ;;
        esac"#;
    let out = output(&mut run(&ssh, &["sh", "-c", script]));
    let (text, told) = (printed(&out), errors(&out));
    assert_eq!(out.status.code(), Some(128 + 9), "{told}");
    assert!(
        told.contains("suci run: host b is gone (signal: 9 (SIGKILL)), and processes 2, 3 with it"),
        "{told}"
    );
    assert_eq!(
        lines(&text, 0),
        ["1 failed 2", "1 gone 1", "1 supervised 0 3"],
        "{told}"
    );
    assert!(is_gone(lines(&text, 2)[0]));
}

#[test]
fn a_signal_is_passed_on_and_nothing_outlives_the_launcher() {
    let (dir, ssh) = scene();
    for signal in [Signal::INT, Signal::KILL] {
        let script = "echo $$ > pid-$SUCI_ID; exec sleep 60";
        let mut command = run(&ssh, &["sh", "-c", script]);
        let mut running = Running::start(command.current_dir(dir.path()));
        let file = |id: u32| -> PathBuf { dir.path().join(format!("pid-{id}")) };
        let end = Instant::now() + Duration::from_secs(40);
        let pids = loop {
            let pids: Vec<_> = (0..4)
                .filter_map(|id| std::fs::read_to_string(file(id)).ok())
                .collect();
            if pids.iter().filter(|pid| pid.ends_with('\n')).count() == 4 {
                break pids;
            }
            assert!(Instant::now() < end, "{pids:?}");
            std::thread::sleep(Duration::from_millis(5));
        };
        kill_process(Pid::from_child(&running.0), signal).unwrap();
        let status = running.wait();
        if signal == Signal::INT {
            assert_eq!(status.code(), Some(128 + 2));
        }
        for (id, pid) in pids.iter().enumerate() {
            assert!(is_gone(pid), "process {id} after {signal:?}");
            std::fs::remove_file(file(u32::try_from(id).unwrap())).unwrap();
        }
    }
}

#[test]
fn a_host_that_cannot_be_reached_is_named() {
    let (_dir, ssh) = scene();
    let out = output(&mut suci(&["run", "--hosts", "a,c", "--ssh", &ssh, "true"]));
    let told = errors(&out);
    assert_eq!(out.status.code(), Some(1), "{told}");
    assert!(
        told.contains("no host c") && told.contains("suci run: host c: nothing was started"),
        "{told}"
    );
    let out = output(&mut suci(&[
        "run",
        "--hosts",
        "a",
        "--ssh",
        "/nonexistent",
        "true",
    ]));
    assert!(
        errors(&out).contains("/nonexistent: No such file"),
        "{}",
        errors(&out)
    );
    let out = output(&mut suci(&["run", "--hosts", "a:0", "true"]));
    assert!(
        errors(&out).contains("--hosts a:0: \"0\": write a number"),
        "{}",
        errors(&out)
    );
    let out = output(&mut run(&ssh, &["no-such-program"]));
    assert_eq!(out.status.code(), Some(127), "{}", errors(&out));
    assert!(
        errors(&out).contains("\"no-such-program\": "),
        "{}",
        errors(&out)
    );
}

#[test]
fn copies_are_started_where_nothing_is_installed() {
    let (dir, ssh) = scene();
    let home = dir.path().join("home");
    std::fs::create_dir(&home).unwrap();
    // In the host's home directory, where logins begin.
    let script = format!(
        "#!/bin/sh\nHOME={0}; export HOME; cd {0}; exec sh -c \"$2\"\n",
        home.display()
    );
    std::fs::write(&ssh, script).unwrap();
    let program = dir.path().join("program");
    std::fs::write(&program, "#!/bin/sh\necho $0\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = run(&ssh, &["--copy", "./program"]);
    let out = output(command.current_dir(dir.path()));
    let text = printed(&out);
    assert!(out.status.success(), "{}", errors(&out));
    let copied = std::fs::canonicalize(home.join(".cache/suci")).unwrap();
    assert_eq!(
        lines(&text, 3),
        [copied.join("program").display().to_string()]
    );
    assert!(copied.join("suci").is_file());
}
