//! Many senders and a receiver that looks every 50 ms: the kernel drops nothing, and charges no
//! more than was granted.

use std::time::{Duration, Instant};
use suci::{AcceptPolicy, AddressBook, Node, NodeBuilder, NodeId};

/// Threads of this test.
const SENDERS: u32 = 16;
/// Messages of each, about a packet long.
const EACH: u64 = 2_000;
/// Messages taken after each poll.
const MOST: u64 = 1_000;
const LENGTH: usize = 1_400;
const POLL: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(60);

/// Node `id` on a port of its own.
fn builder(id: u32) -> NodeBuilder {
    Node::builder()
        .id(NodeId(id))
        .book(AddressBook::new())
        .listen(([127, 0, 0, 1], 0).into())
}

#[test]
fn f02_a_receiver_that_polls_every_50_ms_is_not_overrun() {
    let receiver = builder(0).accept(AcceptPolicy::Anyone).unattended();
    let mut receiver = receiver.open().unwrap();
    let address = receiver.local_addr();
    let senders: Vec<_> = (1..=SENDERS)
        .map(|id| {
            std::thread::spawn(move || {
                let node = builder(id).open_threads(1).unwrap();
                node.add_peer(NodeId(0), address).unwrap();
                for _ in 0..EACH {
                    node.send_timeout(NodeId(0), vec![7; LENGTH], LONG).unwrap();
                }
                node.flush(LONG).unwrap();
                node.close(LONG).unwrap();
            })
        })
        .collect();
    let start = Instant::now();
    let mut received = 0;
    let mut shared = None;
    while received < u64::from(SENDERS) * EACH {
        assert!(start.elapsed() < LONG, "{received} messages");
        std::thread::sleep(POLL);
        receiver.poll(Duration::ZERO).unwrap();
        let found = receiver.share_stats().unwrap().remove(0);
        // Reading looks at the socket too: it has to end, or there would be one long poll.
        for _ in 0..MOST {
            received += u64::from(receiver.try_recv().unwrap().is_some());
        }
        let left = receiver.share_stats().unwrap().remove(0);
        let unsatisfied = [left, found].into_iter().find(|s| s.unsatisfied > 0);
        shared = unsatisfied.or(shared);
    }
    for sender in senders {
        while !sender.is_finished() {
            receiver.poll(POLL).unwrap();
        }
        sender.join().unwrap();
    }
    let socket = receiver.socket_counters().unwrap();
    assert_eq!(socket.recv_drops, 0);
    assert!(socket.recv_charged_max > 0);
    assert_eq!(receiver.counters().unwrap().overcharged, 0);
    let shared = shared.expect("somebody needed more at some time");
    assert!(shared.jain > 0.0 && shared.jain <= 1.0, "{shared:?}");
}
