//! Each program in one, two and four processes, over Suci and over TCP.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use xtask::launch::{Ended, Launch};

const DSE: &str = env!("CARGO_BIN_EXE_dse");

/// The ways messages go, and the most sockets of a process if there are four.
const TRANSPORTS: [(&str, u64); 6] = [
    ("suci", 1),
    ("tcp-complete", 3),
    ("tcp-chain", 2),
    ("tcp-tree", 2),
    ("tcp-ring", 2),
    ("tcp-torus", 2),
];

fn launch(processes: u32, arguments: &[&str]) -> Ended {
    let launch = Launch::start(processes, &[], Path::new(DSE), arguments).unwrap();
    launch.end().unwrap()
}

/// Runs a program that must succeed. Returns what it reports.
fn report(processes: u32, arguments: &[&str]) -> Value {
    let ended = launch(processes, &[arguments, &["--json"]].concat());
    assert_eq!(ended.status, 0, "{arguments:?}: {ended:?}");
    serde_json::from_str(&ended.out).unwrap()
}

/// Runs a program in one, two and four processes over Suci, and in four over each topology of TCP.
/// The program compares each result with that of one process.
fn equals_its_sequential_form(arguments: &[&str]) -> Value {
    let arguments = [arguments, &["--check"]].concat();
    for processes in [1, 2] {
        let report = report(processes, &arguments);
        assert_eq!(report["processes"], processes);
    }
    let mut last = Value::Null;
    for (transport, sockets) in TRANSPORTS {
        last = report(4, &[&arguments[..], &["--transport", transport]].concat());
        assert_eq!(last["checked"], true);
        assert_eq!(last["sockets"], sockets, "{transport}: {last}");
    }
    last
}

#[test]
fn knights_tours_are_counted() {
    let report = equals_its_sequential_form(&["knights", "6", "6"]);
    assert_eq!(report["tours"], 9_862);
    // Tasks and results are short.
    let lengths = &report["messages_by_length"];
    assert!(lengths[0].as_u64() > Some(0), "{lengths}");
    assert!(
        lengths.as_array().unwrap()[1..]
            .iter()
            .all(|count| *count == 0),
        "{lengths}"
    );
}

#[test]
fn othello_is_played_as_by_one_process() {
    let report = equals_its_sequential_form(&["othello", "--depth", "4", "--moves", "12"]);
    assert_eq!(report["moves"].as_array().unwrap().len(), 12);
}

#[test]
fn matrices_are_multiplied() {
    equals_its_sequential_form(&["matrix", "61"]);
}

#[test]
fn heat_is_computed() {
    let report = equals_its_sequential_form(&["sor", "33", "--tolerance", "1e-9"]);
    let mean = report["mean"].as_f64().unwrap();
    assert!((mean - 0.25).abs() < 1e-6, "{report}");
}

#[test]
fn an_image_is_transformed() {
    let report = equals_its_sequential_form(&["dct"]);
    let error = report["mean_squared_error"].as_f64().unwrap();
    assert!((0.1..10.0).contains(&error), "{report}");
}

/// More processes than there are parts: some have nothing to do.
#[test]
fn processes_without_work_do_not_disturb() {
    report(4, &["matrix", "3", "--check"]);
    report(4, &["knights", "5", "6", "--check"]);
    report(4, &["knights", "3", "3", "--check"]);
}

/// The image that was written is read again: a second transform changes it little.
#[test]
fn images_are_written_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("image.png");
    let path = path.to_str().unwrap();
    let first = report(2, &["dct", "--output", path]);
    let second = report(2, &["dct", path, "--check"]);
    let error = |report: Value| report["mean_squared_error"].as_f64().unwrap();
    assert!(error(second) < error(first));
}

#[test]
fn the_game_is_printed_move_by_move() {
    let ended = launch(2, &["othello", "--depth", "2", "--moves", "2", "--show"]);
    assert!(ended.out.starts_with(" 1. black "), "{ended:?}");
    assert!(ended.out.contains("\n 2. white "), "{ended:?}");
    assert_eq!(ended.out.matches("a b c d e f g h").count(), 2);
}

#[test]
fn traffic_is_received() {
    for (transport, _) in TRANSPORTS {
        for program in ["burst", "pingpong"] {
            let load = ["--size", "2000", "--count", "50", "--transport", transport];
            let report = report(3, &[&[program], &load[..]].concat());
            assert_eq!(report["messages"], 100);
            assert_eq!(report["bytes"], 200_000);
        }
    }
}

fn alone(arguments: &[&str]) -> (bool, String) {
    let output = Command::new(DSE).args(arguments).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.success(), said)
}

#[test]
fn bad_arguments_are_refused() {
    for (arguments, reason) in [
        (&["knights", "9", "9"][..], "choose at most 64"),
        (&["knights", "6"], "<COLUMNS>"),
        (&["knights", "0", "6"], "0 is not in 1..=64"),
        (&["othello", "--depth", "1"], "1 is not in 2..=20"),
        (&["matrix", "many"], "invalid value 'many'"),
        (&["sor", "--tolerance", "-1"], "a number from 0 is wanted"),
        (&["dct", "/no/such/file"], "/no/such/file: No such file"),
        (&["dct", "/dev/null"], "/dev/null: "),
        (&["burst"], "start 2 processes"),
        (&["chess"], "unrecognized subcommand"),
        (&["sor", "--transport", "tcp"], "tcp-complete"),
    ] {
        let (success, said) = alone(arguments);
        assert!(!success && said.contains(reason), "{arguments:?}: {said}");
    }
}

#[test]
fn more_processes_than_rows_are_refused() {
    let ended = launch(3, &["sor", "2"]);
    assert_ne!(ended.status, 0);
    assert!(ended.err.contains("2 rows for 3 processes"), "{ended:?}");
}

/// All others notice that a process has died, whatever connects them.
#[test]
fn a_killed_process_ends_the_run() {
    for (transport, _) in TRANSPORTS {
        let sor = ["sor", "64", "--sweeps", "1000000", "--tolerance", "0"];
        let arguments = [&sor[..], &["--transport", transport]].concat();
        let mut launch = Launch::start(4, &[], Path::new(DSE), &arguments).unwrap();
        launch.says("of 1000000").unwrap();
        launch.kill(3).unwrap();
        let ended = launch.end().unwrap();
        // Which process ends first decides the status.
        assert_ne!(ended.status, 0, "{ended:?}");
        assert_eq!(ended.err.matches("dse: ").count(), 3, "{ended:?}");
    }
}
