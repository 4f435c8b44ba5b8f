//! A server and 500 clients, some of whose calls are cancelled.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;
use suci::{Node, NodeId};
use xtask::exec::Process;
use xtask::launch::Launch;

const KV: &str = env!("CARGO_BIN_EXE_kv");

/// Sends an ordinary message where calls are expected.
fn send_what_is_no_call(server: &str) {
    let mut node = Node::builder().id(NodeId(501)).open().unwrap();
    node.add_peer(NodeId(0), server.parse().unwrap()).unwrap();
    node.send(NodeId(0), "key=value").unwrap();
    node.close(Duration::from_secs(10)).unwrap();
}

#[test]
fn five_hundred_clients_come_and_go() {
    let mut server = Command::new(KV);
    server
        .args(["--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped());
    let mut server = Process::spawn(&mut server).unwrap();
    let mut said = BufReader::new(server.child().stdout.take().unwrap()).lines();
    let said = said.next().unwrap().unwrap();
    let address = said.strip_prefix("listening at ").unwrap();
    send_what_is_no_call(address);
    let clients = Launch::begin(Command::new(KV).args([address, "500"])).unwrap();
    let ended = clients.end().unwrap();
    assert_eq!(ended.status, 0, "{}", ended.err);
    let start = "500 clients, all answers right, ";
    let cancelled = ended.out.strip_prefix(start).unwrap();
    let cancelled: u32 = cancelled.split(' ').next().unwrap().parse().unwrap();
    assert!(cancelled > 0, "no call was cancelled");
}
