//! The node in Rust of three that are written in Rust, C and Prolog: see README.md.
use std::fmt::Write as _;
use std::time::Duration;
use suci::{Error, Node, NodeId};

const PATIENCE: Duration = Duration::from_secs(20);

fn short(from: NodeId, to: NodeId) -> String {
    format!("short from {from} to {to}")
}

/// 1 MiB: 65,536 numbered lines of 16 bytes.
fn long(from: NodeId, to: NodeId) -> String {
    let mut text = String::with_capacity(1 << 20);
    for line in 0..65_536 {
        // A string takes all that is written to it.
        let _ = writeln!(text, "{from}>{to} {line:011}");
    }
    text
}

fn main() -> Result<(), Error> {
    let mut node = Node::from_env()?;
    let size = suci::env::size()?.unwrap_or(1);
    let me = node.id();
    let others = || (0..size).map(NodeId).filter(|id| *id != me);
    for to in others() {
        node.send(to, short(me, to))?;
        node.send(to, long(me, to))?;
    }
    for from in others() {
        for expected in [short(from, me), long(from, me)] {
            let message = node.recv_from_timeout(from, PATIENCE)?;
            let message = message.unwrap_or_else(|| panic!("nothing came from node {from}"));
            assert!(
                message.payload[..] == *expected.as_bytes(),
                "node {from} sent something else"
            );
        }
    }
    node.close(PATIENCE)?;
    println!("node {me} in Rust: all messages are right");
    Ok(())
}
