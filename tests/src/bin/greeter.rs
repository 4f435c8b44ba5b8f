//! A process of `suci run` that greets all others when it starts, and prints to standard error the
//! messages and events that it gets.
//!
//! Arguments: `node` or `threads` (which kind of node), and the path of a file: once that exists,
//! the process closes its node and ends well. Lines: `[ID] hello from NODE in session NUMBER`, and
//! `[ID] EVENT` as `Debug` writes it.
#![expect(
    clippy::expect_used,
    reason = "a test program: whatever goes wrong must be seen"
)]

use std::io::Write;
use std::path::Path;
use std::time::Duration;

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
