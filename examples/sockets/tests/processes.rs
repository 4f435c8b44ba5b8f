//! A server and three clients, of which some are killed.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader, Lines};
use std::process::{ChildStdout, Command, Stdio};
use xtask::exec::Process;

const SOCKETS: &str = env!("CARGO_BIN_EXE_sockets");

/// Starts a process. Returns what it writes, line by line, too.
fn start(arguments: &[&str]) -> (Process, Lines<BufReader<ChildStdout>>) {
    let mut command = Command::new(SOCKETS);
    command.args(arguments).stdout(Stdio::piped());
    let mut process = Process::spawn(&mut command).unwrap();
    let lines = BufReader::new(process.child().stdout.take().unwrap()).lines();
    (process, lines)
}

/// Starts a server. Returns its address, too.
fn serve(address: &str) -> (Process, Lines<BufReader<ChildStdout>>, String) {
    let (server, mut said) = start(&["--listen", address]);
    let first = said.next().unwrap().unwrap();
    let address = first.strip_prefix("listening at ").unwrap().to_owned();
    (server, said, address)
}

fn visit(address: &str, id: &str) {
    let (mut client, mut said) = start(&[address, id, "20"]);
    let right = "20 connections of each kind, all answers right";
    assert_eq!(said.next().unwrap().unwrap(), right);
    assert!(client.child().wait().unwrap().success());
}

#[test]
fn three_clients_use_a_server() {
    let (_server, _said, address) = serve("127.0.0.1:0");
    std::thread::scope(|scope| {
        for id in ["1", "2", "3"] {
            let address = &address;
            scope.spawn(move || visit(address, id));
        }
    });
}

#[test]
fn the_sockets_of_a_killed_client_end() {
    let (_server, mut said, address) = serve("127.0.0.1:0");
    let (mut client, mut held) = start(&[&address, "1", "hold"]);
    assert_eq!(held.next().unwrap().unwrap(), "connected");
    client.kill();
    // The next process with its ID connects at once, and shows that the first is gone.
    visit(&address, "1");
    assert_eq!(said.next().unwrap().unwrap(), "node 1: ConnectionReset");
    visit(&address, "2");
}

#[test]
fn the_sockets_of_a_killed_server_end_and_its_successor_serves() {
    let (mut server, _said, address) = serve("127.0.0.1:0");
    let (_client, mut held) = start(&[&address, "1", "hold"]);
    assert_eq!(held.next().unwrap().unwrap(), "connected");
    server.kill();
    let (_server, _said, again) = serve(&address);
    assert_eq!(again, address);
    visit(&address, "2");
    // Node 1 finds the new process, or that the old one does not answer.
    let ended = held.next().unwrap().unwrap();
    let known = ["ended: Err(ConnectionReset)", "ended: Err(TimedOut)"];
    assert!(known.contains(&ended.as_str()), "{ended}");
}
