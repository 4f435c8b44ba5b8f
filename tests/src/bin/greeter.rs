//! A process of `suci run` that greets all others when it starts, and prints to standard error the
//! messages and events that it gets.
//!
//! Arguments: `node` or `threads` (which kind of node) or `group`, and the path of a file: once
//! that exists, the process closes its node and ends well. Lines: `[ID] hello from NODE in session
//! NUMBER`, and `[ID] EVENT` as `Debug` writes it.
//!
//! A `group` adds numbers up again and again. Lines: `[ID] began`; `[ID] ERROR` once that fails;
//! then the sum of the node IDs of those that are left, in a group of their own, `[ID] sum SUM`.
//! `group-threads` does so with threads.
#![expect(
    clippy::expect_used,
    reason = "a test program: whatever goes wrong must be seen"
)]

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use suci::group::{Group, GroupNode, Sum};
use suci::{Next, Node, NodeId, SharedNode};

/// How often it looks for the file.
const TURN: Duration = Duration::from_millis(50);

const PATIENCE: Duration = Duration::from_secs(20);

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [kind, stop] = &arguments[..] else {
        panic!("two arguments, not {arguments:?}");
    };
    match &kind[..] {
        "node" => greet(Node::from_env().expect("a node"), Path::new(stop)),
        "threads" => greet_by_threads(Path::new(stop)),
        "group" => {
            // Also between namespaces.
            let builder = Node::builder().allow_insecure_network();
            let mut node = builder.open().expect("a node");
            let me = node.id();
            add_up(me, &mut node, Path::new(stop));
            // A message for the one that died may be left.
            let _ = node.close(Duration::from_millis(100));
        }
        "group-threads" => {
            let mut node = Node::builder().open_threads(2).expect("a node");
            add_up(node.id(), &mut node, Path::new(stop));
            let _ = node.close(Duration::from_millis(100));
        }
        _ => panic!("unknown kind {kind}"),
    }
}

fn greet(mut node: Node, stop: &Path) {
    let me = node.id();
    for other in others(me) {
        node.send(other, "hello").expect("a peer");
    }
    while !stop.exists() {
        tell(me, node.next_timeout(TURN).expect("a message or event"));
    }
    node.close(PATIENCE).expect("everything arrived");
}

fn greet_by_threads(stop: &Path) {
    let node: SharedNode = Node::builder().open_threads(2).expect("a node");
    let me = node.id();
    for other in others(me) {
        node.send(other, "hello").expect("a peer");
    }
    while !stop.exists() {
        tell(me, node.next_timeout(TURN).expect("a message or event"));
    }
    node.close(PATIENCE).expect("everything arrived");
}

fn add_up(me: NodeId, node: &mut impl GroupNode, stop: &Path) {
    let size = suci::env::size().expect("a number").expect("suci run");
    let members: Vec<_> = (0..size).map(NodeId).collect();
    let mut group = Group::new(node, 1, &members).expect("a group");
    group.barrier(node).expect("all are there");
    say(&format!("[{me}] began\n"));
    let error = loop {
        match group.allreduce(node, &mut [1_u64], Sum) {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    say(&format!("[{me}] {error}\n"));
    let mut group = group.shrink(node).expect("the others are there");
    let mut sum = [u64::from(me.0)];
    group.allreduce(node, &mut sum, Sum).expect("all are there");
    say(&format!("[{me}] sum {}\n", sum[0]));
    while !stop.exists() {
        std::thread::sleep(TURN);
    }
}

fn others(me: NodeId) -> impl Iterator<Item = NodeId> {
    let size = suci::env::size().expect("a number").expect("suci run");
    (0..size).map(NodeId).filter(move |node| *node != me)
}

fn tell(me: NodeId, next: Option<Next>) {
    match next {
        Some(Next::Message(message)) => {
            let (from, session) = (message.from, message.session);
            say(&format!("[{me}] hello from {from} in session {session}\n"));
        }
        Some(Next::Event(event)) => say(&format!("[{me}] {event:?}\n")),
        None => {}
    }
}

/// In one piece: others write to the same pipe.
fn say(line: &str) {
    let mut out = std::io::stderr();
    out.write_all(line.as_bytes()).expect("standard error");
}
