//! Each process greets its neighbour: `suci run -n 3 target/debug/examples/ring`.
use std::time::Duration;
use suci::{Error, Node, NodeId};

fn main() -> Result<(), Error> {
    let mut node = Node::from_env()?;
    let size = suci::env::size()?.unwrap_or(1);
    let me = node.id();
    let next = NodeId((me.0 + 1) % size);
    node.send(next, format!("greetings from node {me}"))?;
    let message = node.recv()?;
    let text = String::from_utf8_lossy(&message.payload);
    println!("node {me} got: {text}");
    node.close(Duration::from_secs(5))
}
