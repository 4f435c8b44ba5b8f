//! Programs on libfabric.

use crate::{compile, run, within_limit};

fn passes(name: &str) {
    let program = compile(name, "cc", &["-lfabric"]);
    run(&mut within_limit(program));
}

#[test]
fn messages_are_matched() {
    passes("messages");
}

#[test]
fn nonsense_is_refused() {
    passes("nonsense");
}

#[test]
fn a_killed_peer_is_an_error() {
    passes("killed");
}

#[test]
fn two_processes_find_each_other_by_name() {
    let server = std::thread::spawn(|| run(within_limit("fi_pingpong").args(PING)));
    // The server's control port is open a moment later.
    let client = || {
        within_limit("fi_pingpong")
            .args(PING)
            .arg("127.0.0.1")
            .output()
    };
    let worked = (0..50).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        client().is_ok_and(|output| output.status.success())
    });
    assert!(worked, "no client of fi_pingpong worked");
    server.join().unwrap();
}

/// Checks the data of tagged messages of 64 B and others.
const PING: [&str; 11] = [
    "-p", "suci", "-e", "rdm", "-m", "tagged", "-c", "-I", "100", "-B", "47611",
];
