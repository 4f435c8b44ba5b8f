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
    // For the programs' own exchange. The system gives no socket such a low port by itself: a
    // client that is early would connect to itself.
    let port = (10_000 + std::process::id() % 20_000).to_string();
    let ping = |more: &[&str]| {
        let mut ping = within_limit("fi_pingpong");
        // It checks the data of tagged messages of several lengths.
        ping.args(["-p", "suci", "-e", "rdm", "-m", "tagged", "-c", "-I", "100"]);
        ping.args(more);
        ping
    };
    let mut server = ping(&["-B", &port]);
    let server = std::thread::spawn(move || run(&mut server));
    // The server's port is open a moment later.
    let worked = (0..50).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let client = ping(&["-P", &port, "127.0.0.1"]).output();
        client.is_ok_and(|output| output.status.success())
    });
    assert!(worked, "no client of fi_pingpong worked");
    server.join().unwrap();
}
