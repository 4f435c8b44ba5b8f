//! A service whose members come and go: process 0 stays and knows which members are up, the others
//! join and leave again and again.
//!
//! `suci run -n 5 members 125` makes 500 joins under four node IDs.

use std::collections::BTreeSet;
use std::time::Duration;

use suci::{Error, Event, Next, Node, NodeId};

const SEED: NodeId = NodeId(0);

/// The longest wait for an answer.
const SOON: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let times: u32 = match std::env::args().nth(1) {
        Some(argument) => argument.parse()?,
        None => 125,
    };
    if suci::env::id()? == Some(SEED) {
        keep(times)
    } else {
        (0..times).try_for_each(|_| Ok(join_and_leave()?))
    }
}

/// Joins with a node of its own, asks which members are up, and leaves.
fn join_and_leave() -> Result<(), Error> {
    let mut node = Node::from_env()?;
    let up = node.call(SEED, "who is up?", SOON)?;
    let up = String::from_utf8_lossy(&up.payload);
    let me = node.id().to_string();
    assert!(up.split(' ').any(|id| id == me), "{me} is not among {up}");
    node.close(SOON)
}

/// Tells members which others are up, until each of the others has left for the last time.
fn keep(times: u32) -> Result<(), Box<dyn std::error::Error>> {
    let mut node = Node::from_env()?;
    let others = node.peers()?.len();
    let expected = u64::from(times) * others as u64;
    let (mut members, mut joins, mut leaves) = (BTreeSet::new(), 0, 0);
    while leaves < expected {
        match node.next()? {
            Next::Event(Event::Up { node, .. }) => {
                joins += 1;
                members.insert(node);
            }
            Next::Event(Event::Ended { node, .. }) => {
                leaves += 1;
                members.remove(&node);
            }
            Next::Event(_) => {}
            Next::Message(request) => {
                let up: Vec<String> = members.iter().map(NodeId::to_string).collect();
                node.send(request.from, request.reply(up.join(" "))?)?;
            }
        }
    }
    println!(
        "{joins} joins, {leaves} leaves, {} members left",
        members.len()
    );
    node.close(SOON)?;
    Ok(())
}
