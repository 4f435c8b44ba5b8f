//! `suci run`: environment, output, exit statuses, signals.

use std::io::{BufRead, Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{HEARING, PATIENCE, Running, errors, output, path, printed, suci, terminal};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// A process of one's own that a test may name: the pid that a child printed.
fn pid(line: &str) -> Pid {
    Pid::from_raw(line.trim().parse().unwrap()).unwrap()
}

/// The state of a process, as `ps` shows it.
fn state(pid: Pid) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

/// Waits until no such process runs. Its parent may have left it to init to reap.
fn gone(pid: Pid) -> bool {
    let end = Instant::now() + Duration::from_secs(10);
    while Instant::now() < end {
        if state(pid) == Some('Z') || test_kill_process(pid).is_err() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

#[test]
fn every_process_learns_its_id_and_the_addresses_of_the_others() {
    let script = "echo $SUCI_ID of $SUCI_SIZE; cat $SUCI_BOOK";
    let output = output(&mut suci(&[
        "run",
        "-n",
        "3",
        "--tag-output",
        "--",
        "sh",
        "-c",
        script,
    ]));
    assert!(output.status.success());
    let printed = printed(&output);
    let line = |id: u32, start: &str| {
        let start = format!("[{id}] {start}");
        printed
            .lines()
            .filter(|line| line.starts_with(&start))
            .count()
    };
    for id in 0..3 {
        assert_eq!(line(id, &format!("{id} of 3")), 1, "{printed}");
        for other in 0..3 {
            assert_eq!(line(id, &format!("{other} 127.0.0.1:")), 1, "{printed}");
        }
    }
}

#[test]
fn the_socket_is_inherited_bound_to_the_address_of_the_book() {
    // The kernel lists a bound socket by its inode and hexadecimal port.
    let script = r#"
        inode=$(readlink /proc/self/fd/$SUCI_FD | tr -dc 0-9)
        port=$(awk -v id=$SUCI_ID '$1 == id { sub(/.*:/, "", $2); printf "%04X", $2 }' $SUCI_BOOK)
        grep -q "0100007F:$port .* $inode " /proc/net/udp && echo bound
        echo sockets $(ls -l /proc/self/fd | grep -c socket:)"#;
    let output = output(&mut suci(&["run", "-n", "2", "sh", "-c", script]));
    let printed = printed(&output);
    assert_eq!(
        printed.lines().filter(|line| *line == "bound").count(),
        2,
        "{printed}"
    );
    // Its own, and no other's.
    assert_eq!(
        printed.lines().filter(|line| *line == "sockets 1").count(),
        2,
        "{printed}"
    );
}

#[test]
fn the_first_failure_gives_the_exit_status_and_is_reported() {
    let script = "if [ $SUCI_ID = 1 ]; then exit 3; fi; cat; exit 5";
    let mut running = Running::start(&mut suci(&["run", "-n", "2", "sh", "-c", script]));
    // Process 0 still reads its input, so this failure comes first.
    let said = running.first_error_line();
    assert!(
        said.contains("suci run: process 1 (pid ") && said.ends_with(") exited with 3"),
        "{said}"
    );
    let output = running.finish();
    assert_eq!(output.status.code(), Some(3));
    let said = errors(&output);
    assert!(said.contains("exited with 5\n"), "{said}");
}

#[test]
fn a_killed_process_is_reported_at_once_while_others_go_on() {
    let script = "if [ $SUCI_ID = 1 ]; then kill -9 $$; fi; cat; echo over";
    let mut running = Running::start(&mut suci(&["run", "-n", "2", "sh", "-c", script]));
    // Process 0 still reads its input, so this line comes while it lives.
    let said = running.first_error_line();
    assert!(
        said.contains("process 1 (pid ") && said.ends_with("was killed by signal 9"),
        "{said}"
    );
    let output = running.finish();
    assert_eq!(
        (output.status.code(), printed(&output).as_str()),
        (Some(137), "over\n")
    );
}

#[test]
fn one_failure_kills_all_if_asked_to() {
    let script = "if [ $SUCI_ID = 1 ]; then exit 4; fi; exec sleep 60";
    let begun = Instant::now();
    let output = output(&mut suci(&[
        "run",
        "-n",
        "3",
        "--kill-on-failure",
        "sh",
        "-c",
        script,
    ]));
    assert_eq!(output.status.code(), Some(4), "{}", errors(&output));
    assert!(begun.elapsed() < Duration::from_secs(50));
}

#[test]
fn only_process_0_reads_the_input() {
    let mut running = Running::start(&mut suci(&[
        "run",
        "-n",
        "2",
        "sh",
        "-c",
        "echo $SUCI_ID $(cat)",
    ]));
    running.feed(b"hello".to_vec());
    let output = running.finish();
    let printed = printed(&output);
    assert!(
        printed.contains("0 hello\n") && printed.contains("1\n"),
        "{printed}"
    );
}

#[test]
fn signals_are_passed_on() {
    let script = "trap 'echo term; exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    let mut running = Running::start(&mut suci(&["run", "-n", "1", "sh", "-c", script]));
    assert_eq!(running.first_line(), "ready\n");
    kill_process(Pid::from_child(&running.0), Signal::TERM).unwrap();
    let output = running.finish();
    assert_eq!(
        (output.status.code(), printed(&output).as_str()),
        (Some(7), "term\n")
    );
}

#[test]
fn a_second_interrupt_kills() {
    let script = "trap 'echo once' INT; echo ready; while :; do sleep 0.05; done";
    let mut running = Running::start(&mut suci(&["run", "-n", "1", "sh", "-c", script]));
    assert_eq!(running.first_line(), "ready\n");
    let launcher = Pid::from_child(&running.0);
    kill_process(launcher, Signal::INT).unwrap();
    assert_eq!(running.first_line(), "once\n");
    kill_process(launcher, Signal::INT).unwrap();
    assert_eq!(running.finish().status.code(), Some(137));
}

/// `count` shells in a terminal that run `script`, and the lines they say.
fn in_terminal(
    count: &str,
    script: &str,
) -> (Running, std::fs::File, impl Iterator<Item = String> + use<>) {
    let (keys, inside) = terminal();
    let mut command = Command::new("env");
    command
        .args([HEARING, "setsid", "--ctty", path()])
        .args(["run", "-n", count, "sh", "-c", script])
        .stdin(inside)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = Running(command.spawn().unwrap());
    let output = std::io::BufReader::new(running.0.stdout.take().unwrap());
    (running, keys, output.lines().map(Result::unwrap))
}

/// Eight processes in a terminal that say `name` when they get that signal, once all are ready.
fn at_terminal(name: &str) -> (Running, std::fs::File, impl Iterator<Item = String> + use<>) {
    let script = format!(
        "trap 'echo {name}' {name}; echo ready; for i in $(seq 200); do sleep 0.1 & wait; done"
    );
    let (running, keys, mut lines) = in_terminal("8", &script);
    assert!(lines.by_ref().take(8).all(|line| line == "ready"));
    let launcher = Pid::from_child(&running.0);
    let begun = Instant::now();
    while !has_started(launcher) {
        assert!(begun.elapsed() < PATIENCE, "it never waits");
        std::thread::sleep(Duration::from_millis(1));
    }
    (running, keys, lines)
}

/// Returns true if the launcher, all of whose processes run, sleeps and starts none: then it has no
/// copy of the book for a process. Before that it also passes on signals that the started processes
/// already got.
fn has_started(launcher: Pid) -> bool {
    let descriptors = format!("/proc/{}/fd", launcher.as_raw_nonzero());
    let links = std::fs::read_dir(descriptors).unwrap();
    let targets = links.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let books = targets.filter(|target| target.to_string_lossy().contains("suci-book"));
    books.count() == 1 && state(launcher) == Some('S')
}

/// Returns the output of the eight processes, and ends the launcher.
fn said_by_all(running: &mut Running, lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines = lines;
    let mut said: Vec<String> = lines.by_ref().take(8).collect();
    std::thread::sleep(Duration::from_millis(300));
    kill_process(Pid::from_child(&running.0), Signal::TERM).unwrap();
    said.extend(lines);
    running.wait();
    said
}

#[test]
fn ctrl_c_reaches_each_process_once() {
    let (mut running, mut keys, lines) = at_terminal("INT");
    keys.write_all(b"\x03").unwrap();
    assert_eq!(said_by_all(&mut running, lines), ["INT"; 8]);
}

/// Every process hears it, and ends by the trap or by the signal. The second of two interrupts
/// would have killed it.
#[test]
fn ctrl_c_while_processes_are_started_reaches_them_all() {
    let script =
        "trap exit INT; echo ready; for i in $(seq 100); do sleep 0.1 & wait; done; echo missed";
    let (mut running, mut keys, mut lines) = in_terminal("64", script);
    assert_eq!(lines.next().as_deref(), Some("ready"));
    keys.write_all(b"\x03").unwrap();
    assert_eq!(lines.filter(|line| line == "missed").count(), 0);
    let code = running.wait().code();
    assert!(matches!(code, Some(0 | 130)), "{code:?}");
}

/// The launcher leads its session, so the kernel tells no other process.
#[test]
fn the_end_of_the_terminal_reaches_each_process_once() {
    let (mut running, keys, lines) = at_terminal("HUP");
    drop(keys);
    assert_eq!(said_by_all(&mut running, lines), ["HUP"; 8]);
}

#[test]
fn no_process_outlives_its_launcher() {
    let mut running = Running::start(&mut suci(&[
        "run",
        "-n",
        "1",
        "sh",
        "-c",
        "echo $$; exec sleep 60",
    ]));
    let child = pid(&running.first_line());
    running.0.kill().unwrap();
    assert!(gone(child), "{child:?} outlived the launcher");
}

#[test]
fn a_program_that_cannot_be_run_is_named() {
    let missing = output(&mut suci(&["run", "-n", "2", "./no-such-program"]));
    assert_eq!(missing.status.code(), Some(127));
    assert!(
        errors(&missing).contains("\"./no-such-program\": No such file"),
        "{}",
        errors(&missing)
    );
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("job-of-mine"), "").unwrap();
    let beside = output(suci(&["run", "-n", "1", "job-of-mine"]).current_dir(&dir));
    assert_eq!(beside.status.code(), Some(127));
    assert!(
        errors(&beside).contains("did you mean \"./job-of-mine\"?"),
        "{}",
        errors(&beside)
    );
    let directory = output(&mut suci(&["run", "-n", "1", "/"]));
    assert_eq!(directory.status.code(), Some(126), "{}", errors(&directory));
}

#[test]
fn running_out_of_descriptors_is_not_blamed_on_the_program() {
    // Processes that end at once would give theirs back before the last one begins.
    let script = "ulimit -n 60; exec \"$0\" run -n 40 --tag-output sleep 60";
    let output = output(Command::new("sh").args(["-c", script, path()]));
    assert_eq!(output.status.code(), Some(1));
    let said = errors(&output);
    assert!(
        said.contains("Too many open files") && said.contains("raise `ulimit -n`"),
        "{said}"
    );
    assert!(!said.contains("executable"), "{said}");
}

/// A program that fails this many times and then ends well; each start leaves a mark in `dir`.
fn fails(dir: &tempfile::TempDir, times: u32, how: &str) -> String {
    let dir = dir.path().display();
    format!(
        "echo >> {dir}/$SUCI_ID; [ $(wc -l < {dir}/$SUCI_ID) -gt {times} ] || {how}; echo over $SUCI_ID"
    )
}

#[test]
fn a_process_that_fails_is_started_again_so_often_at_most() {
    for (option, fails_for, status, starts) in [
        ("--restart", 3, 0, 4),
        ("--restart", 4, 3, 4),
        ("--restart=1", 1, 0, 2),
        ("--restart=1", 2, 3, 2),
        ("--tag-output", 1, 3, 1),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let script = fails(&dir, fails_for, "exit 3");
        let output = output(&mut suci(&["run", "-n", "1", option, "sh", "-c", &script]));
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(status), "{option}: {said}");
        let marks = std::fs::read_to_string(dir.path().join("0")).unwrap();
        assert_eq!(marks.lines().count(), starts, "{option}: {said}");
        let lines: Vec<_> = said.lines().collect();
        let failures = usize::try_from(fails_for).unwrap().min(starts);
        assert_eq!(lines.len(), failures, "{said}");
        if option == "--restart" {
            let end = "exited with 3; it is started again, 3 of 3 times";
            assert!(lines[2].ends_with(end), "{said}");
        }
    }
}

/// Each process has its own restarts; output and address are those of the first start.
#[test]
fn a_process_that_was_killed_is_started_again_at_its_address() {
    let dir = tempfile::tempdir().unwrap();
    let port = r#"
        inode=$(readlink /proc/self/fd/$SUCI_FD | tr -dc 0-9)
        port=$(awk -v id=$SUCI_ID '$1 == id { sub(/.*:/, "", $2); printf "%04X", $2 }' $SUCI_BOOK)
        grep -q "0100007F:$port .* $inode " /proc/net/udp && echo bound"#;
    let script = format!("{}; {port}", fails(&dir, 2, "kill -9 $$"));
    let args = [
        "run",
        "-n",
        "3",
        "--restart=2",
        "--tag-output",
        "sh",
        "-c",
        &script,
    ];
    let output = output(&mut suci(&args));
    assert!(output.status.success(), "{}", errors(&output));
    let printed = printed(&output);
    for id in 0..3 {
        for line in [format!("[{id}] over {id}\n"), format!("[{id}] bound\n")] {
            assert_eq!(printed.matches(&line).count(), 1, "{printed}");
        }
    }
}

#[test]
fn tolerated_failures_are_counted_and_named() {
    let script = "case $SUCI_ID in 1) kill -9 $$;; 3) exit 7;; esac; echo over";
    let args = ["run", "-n", "4", "--tolerate-failures", "sh", "-c", script];
    let output = output(&mut suci(&args));
    let said = errors(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.ends_with("suci run: 2 of 4 processes failed: 1, 3\n"),
        "{said}"
    );
    assert_eq!(printed(&output), "over\nover\n");
    let well = crate::support::output(&mut suci(&[
        "run",
        "-n",
        "2",
        "--tolerate-failures",
        "true",
    ]));
    assert_eq!((well.status.code(), errors(&well).as_str()), (Some(0), ""));
    let many = crate::support::output(&mut suci(&[
        "run",
        "-n",
        "120",
        "--tolerate-failures",
        "false",
    ]));
    assert_eq!(many.status.code(), Some(101));
}

/// Users who ask a program to end do not want another one.
#[test]
fn nothing_is_started_again_after_a_signal_was_passed_on() {
    let script = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    let args = ["run", "-n", "1", "--restart", "sh", "-c", script];
    let mut running = Running::start(&mut suci(&args));
    assert_eq!(running.first_line(), "ready\n");
    kill_process(Pid::from_child(&running.0), Signal::TERM).unwrap();
    let output = running.finish();
    assert_eq!(output.status.code(), Some(7));
    assert!(!errors(&output).contains("again"), "{}", errors(&output));
}

/// The notices stand in the pipes of the other processes: that they are supervised, then one line
/// for each process that ended.
#[test]
fn processes_are_told_which_of_the_others_have_ended() {
    let script = r#"
        case $SUCI_ID in
        0) head -n 4 /dev/fd/$SUCI_NOTICES; echo known;;
        1) kill -9 $$;;
        esac"#;
    let output = output(&mut suci(&[
        "run",
        "-n",
        "3",
        "--restart=1",
        "sh",
        "-c",
        script,
    ]));
    assert_eq!(output.status.code(), Some(137), "{}", errors(&output));
    let printed = printed(&output);
    let told = |line: &str| printed.lines().filter(|it| *it == line).count();
    assert_eq!(
        (told("1 died 1"), told("1 failed 1"), told("1 gone 2")),
        (1, 1, 1),
        "{printed}"
    );
}

/// A program that waits for its first message hears of the process that died before it sent one.
#[test]
fn f17_a_process_that_fails_before_it_talked_ends_those_that_wait_for_it() {
    let script = "test $SUCI_ID != 0 || exit 3; exec \"$0\" ping";
    let program = env!("CARGO_BIN_EXE_suci");
    let begun = std::time::Instant::now();
    let output = output(&mut suci(&["run", "-n", "3", "sh", "-c", script, program]));
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    assert!(begun.elapsed() < std::time::Duration::from_secs(20));
}

/// A kill by the launcher itself is not reported; a kill by another process is.
#[test]
fn own_killing_is_not_reported() {
    let script = "if [ $SUCI_ID = 1 ]; then kill -9 $$; fi; exec sleep 60";
    let args = ["run", "-n", "3", "--kill-on-failure", "sh", "-c", script];
    let output = output(&mut suci(&args));
    assert_eq!(output.status.code(), Some(137));
    let said = errors(&output);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.contains("process 1 (pid ") && said.contains("killed by signal 9"),
        "{said}"
    );
}

#[test]
fn options_of_the_program_are_not_ours() {
    let output = output(&mut suci(&["run", "-n", "1", "echo", "--help", "-n"]));
    assert_eq!(printed(&output), "--help -n\n");
}

#[test]
fn nodes_of_a_launch_reach_each_other() {
    let args = [
        "run",
        "-n",
        "3",
        path(),
        "ping",
        "--count",
        "3",
        "--interval",
        "0",
        "--json",
    ];
    let output = output(&mut suci(&args));
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(printed(&output).matches(r#""count":3"#).count(), 2);
}

/// The programs need not know of it.
#[test]
fn faults_of_a_launch_are_those_of_its_nodes() {
    let ping = [path(), "ping", "--count", "2", "--interval", "0", "--json"];
    let launch = ["run", "-n", "2", "--faults", "delay=30ms"];
    let output = output(&mut suci(&[&launch[..], &ping].concat()));
    assert!(output.status.success(), "{}", errors(&output));
    let line: serde_json::Value = serde_json::from_str(&printed(&output)).unwrap();
    assert!(line["min"].as_f64().unwrap() >= 60_000.0, "{line}");
}

#[test]
fn faults_in_the_environment_that_cannot_be_are_named() {
    let mut ping = suci(&["ping", "127.0.0.1:9"]);
    let output = output(ping.env("SUCI_FAULTS", "loss=5"));
    assert_eq!(output.status.code(), Some(1));
    let said = errors(&output);
    assert!(
        said.contains("SUCI_FAULTS") && said.contains("`loss=5`: expected a probability"),
        "{said}"
    );
}

/// `suci perf` warns of a buffer below 2 MiB.
#[test]
fn the_environment_can_lower_the_receive_buffer() {
    let perf = [
        "perf",
        "--workload",
        "ping-pong",
        "--rounds",
        "1",
        "--seconds",
        "0.01",
    ];
    let done = output(suci(&perf).env("SUCI_RMEM_MAX", "212992"));
    assert!(done.status.success(), "{}", errors(&done));
    let said = errors(&done);
    assert!(said.contains("has only 425984 bytes"), "{said}");
    let done = output(suci(&perf).env("SUCI_RMEM_MAX", "much"));
    assert_eq!(done.status.code(), Some(1));
    let said = errors(&done);
    assert!(
        said.contains("SUCI_RMEM_MAX") && said.contains("much"),
        "{said}"
    );
}

#[test]
fn everybody_talks_to_everybody_and_a_file_reaches_all() {
    let dir = tempfile::tempdir().unwrap();
    let (file, into) = (dir.path().join("file"), dir.path().to_str().unwrap());
    let content = crate::support::noise(3_000_000);
    std::fs::write(&file, &content).unwrap();
    let demo = [
        "demo",
        "--messages",
        "40",
        "--file",
        file.to_str().unwrap(),
        "--into",
        into,
    ];
    let args = [&["run", "-n", "3", "--kill-on-failure", path()], &demo[..]].concat();
    let output = output(&mut suci(&args));
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(
        printed(&output).matches("80 messages").count(),
        3,
        "{}",
        printed(&output)
    );
    assert!(
        printed(&output).contains("node 0: 0 payload bytes copied"),
        "{}",
        printed(&output)
    );
    for node in 1..3 {
        let copy = std::fs::read(dir.path().join(format!("copy-{node}"))).unwrap();
        assert!(copy == content, "copy {node} differs");
    }
}

#[test]
fn output_that_cannot_be_passed_on_is_a_failure() {
    let mut command = suci(&["run", "-n", "1", "--tag-output", "echo", "lost"]);
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut running = Running(
        command
            .stdin(Stdio::null())
            .stdout(full)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    assert_eq!(running.wait().code(), Some(1));
    let said = errors(&running.finish());
    assert!(
        said.contains("standard output: No space left on device"),
        "{said}"
    );
}

#[test]
fn a_slow_reader_gets_all_tagged_output() {
    // More than pipes hold, and a reader that begins long after the process has ended.
    let mut running = Running::start(&mut suci(&[
        "run",
        "-n",
        "1",
        "--tag-output",
        "sh",
        "-c",
        "yes | head -n 40000",
    ]));
    std::thread::sleep(Duration::from_secs(5));
    let lines = std::io::BufReader::new(running.0.stdout.take().unwrap()).lines();
    assert_eq!(lines.count(), 40_000);
    assert!(running.finish().status.success());
}

#[test]
fn a_terminal_that_went_away_ends_no_process() {
    let script = "if [ $SUCI_ID = 0 ]; then exit 3; fi; sleep 0.5; echo alive";
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let running = Running(
        suci(&["run", "-n", "2", "sh", "-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(full)
            .spawn()
            .unwrap(),
    );
    let output = running.finish();
    assert_eq!(
        (output.status.code(), printed(&output).as_str()),
        (Some(3), "alive\n")
    );
}

#[test]
fn a_ping_alone_says_so() {
    let output = output(&mut suci(&["run", "-n", "1", path(), "ping"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        errors(&output).contains("nobody to ping"),
        "{}",
        errors(&output)
    );
}

#[test]
fn signals_that_are_ignored_are_not_passed_on_and_stay_ignored() {
    // `nohup` starts a program so, and a shell its background commands.
    for (name, signal) in [("HUP", Signal::HUP), ("INT", Signal::INT)] {
        let launch = format!(
            "trap '' {name}; exec \"$0\" run -n 1 sh -c 'echo ready; kill -{name} $$; sleep 1; echo done'"
        );
        let mut running = Running::start(Command::new("sh").args(["-c", &launch, path()]));
        assert_eq!(running.first_line(), "ready\n");
        kill_process(Pid::from_child(&running.0), signal).unwrap();
        let output = running.finish();
        assert!(output.status.success(), "{name}: {}", errors(&output));
        assert_eq!(printed(&output), "done\n");
    }
}

#[test]
fn a_launcher_waits_although_its_parent_ignored_sigchld() {
    let launch = "$SIG{CHLD} = 'IGNORE'; exec @ARGV";
    let script = "sleep $SUCI_ID; echo done";
    let mut perl = Command::new("perl");
    perl.args(["-e", launch, path(), "run", "-n", "2", "sh", "-c", script]);
    let output = output(&mut perl);
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(printed(&output), "done\ndone\n");
}

#[test]
fn others_are_killed_although_the_reason_cannot_be_written() {
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let script = "if [ $SUCI_ID = 0 ]; then echo $$ >pid; exec sleep 60; fi; while [ ! -s pid ]; do sleep 0.05; done; exit 3";
    let mut full = 0;
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    while let Ok(count) = writer.write(&[b'.'; 512]) {
        full += count;
    }
    rustix::io::ioctl_fionbio(&writer, false).unwrap();
    let mut command = suci(&["run", "-n", "2", "--kill-on-failure", "sh", "-c", script]);
    command.current_dir(&directory).stderr(writer);
    let mut running = Running(command.spawn().unwrap());
    drop(command);
    let begun = Instant::now();
    // A killed process is there until its parent asks how it ended.
    let is_dead = |pid: &str| match std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())) {
        Ok(state) => state.contains(") Z "),
        Err(_) => true,
    };
    let is_there = || match std::fs::read_to_string(directory.path().join("pid")) {
        Ok(pid) => !(pid.ends_with('\n') && is_dead(&pid)),
        Err(_) => true,
    };
    while is_there() {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "process 0 lives on"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut said = Vec::new();
    reader.read_to_end(&mut said).unwrap();
    assert_eq!(running.0.wait().unwrap().code(), Some(3));
    let said = String::from_utf8(said.split_off(full)).unwrap();
    assert!(said.contains("exited with 3"), "{said}");
}

/// The launcher writes into no directory, so that nothing is left of one that was killed. Nobody
/// can change the book, and a process that starts again finds it, too.
#[test]
fn the_address_book_is_in_no_directory() {
    let directory = tempfile::tempdir().unwrap();
    let script = r#"
        test -s $SUCI_BOOK || exit 9
        echo 7 127.0.0.1:7 2>/dev/null >> $SUCI_BOOK && exit 8
        test -e "$0/$SUCI_ID" && cat $SUCI_BOOK && exit 0
        touch "$0/$SUCI_ID"; exit 3"#;
    let marks = directory.path().join("marks");
    std::fs::create_dir(&marks).unwrap();
    let marks = marks.to_str().unwrap();
    let mut command = suci(&["run", "-n", "2", "--restart=1", "sh", "-c", script, marks]);
    let done = output(command.env("TMPDIR", "/nonexistent"));
    assert!(done.status.success(), "{}", errors(&done));
    assert_eq!(printed(&done).lines().count(), 4, "{}", printed(&done));
    assert!(!printed(&done).contains("7 127.0.0.1:7\n"));
}

/// The number may be left out, so it cannot be a word of its own: that would be the program.
#[test]
fn a_number_of_restarts_apart_is_refused_with_the_remedy() {
    for (words, status) in [
        (["run", "-n", "2", "--restart", "1", "true"], 1),
        (["run", "--restart", "1", "-n", "2", "true"], 2),
    ] {
        let refused = output(&mut suci(&words));
        let said = errors(&refused);
        assert_eq!(refused.status.code(), Some(status), "{said}");
        assert!(said.contains("behind `=`: --restart=1"), "{said}");
    }
}
