//! A member of a cluster, until its standard input ends: then it leaves.
//!
//! Arguments: its node ID, and the ID and address of each of its seeds. It prints `at ADDRESS`,
//! then after each change `members COUNT SUM FAILED`: the number of members, the sum of their IDs,
//! and how many it was told failed.
#![expect(
    clippy::expect_used,
    reason = "a test program: whatever goes wrong must be seen"
)]

use std::io::Read;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use suci::{Event, Membership, Next, Node, NodeId};

/// How often it looks whether its input ended.
const TURN: Duration = Duration::from_millis(100);

const PATIENCE: Duration = Duration::from_secs(5);

fn parse<T: FromStr>(text: Option<&String>) -> T {
    let parsed = text.and_then(|text| text.parse().ok());
    parsed.expect("an ID, and pairs of ID and address")
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let id: u32 = parse(arguments.first());
    let mut membership = Membership::new("processes").suspicion(Duration::from_secs(2));
    for seed in arguments.get(1..).unwrap_or_default().chunks(2) {
        let address: SocketAddr = parse(seed.get(1));
        membership = membership.seed(NodeId(parse(seed.first())), address);
    }
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let node = Node::builder().id(NodeId(id)).listen(listen);
    let node = node.silence_timeout(Duration::from_secs(4));
    let mut node = node.membership(membership).open().expect("a node");
    println!("at {}", node.local_addr());
    let ended = Arc::new(AtomicBool::new(false));
    let noticed = Arc::clone(&ended);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        noticed.store(true, Ordering::Relaxed);
    });
    let (mut failed, mut told) = (0, (0, 0, 0));
    while !ended.load(Ordering::Relaxed) {
        let next = node.next_timeout(TURN).expect("an event");
        failed += u32::from(matches!(
            next,
            Some(Next::Event(Event::MemberFailed { .. }))
        ));
        let members = node.members().expect("a member");
        let sum: u32 = members.iter().map(|member| member.node.0).sum();
        let now = (members.len(), sum, failed);
        if now != told {
            println!("members {} {} {}", now.0, now.1, now.2);
            told = now;
        }
    }
    node.close(PATIENCE).expect("an orderly end");
}
