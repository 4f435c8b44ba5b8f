//! A node ID that is used again and again, against a server that stays.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, builder};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use suci::{AcceptPolicy, EndReason, Event, Node, NodeId};

const STARTS: u32 = 1_000;

/// Takes messages and events until `stop`. Returns the payloads, each of which must come from node
/// 1, the only peer.
fn serve(mut server: Node, stop: &AtomicBool) -> Vec<u32> {
    let mut got = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        if let Some(message) = server.recv_timeout(Duration::from_millis(10)).unwrap() {
            assert_eq!(message.from, NodeId(1));
            got.push(u32::from_le_bytes(message.payload[..].try_into().unwrap()));
        }
        let events = server.events().unwrap();
        let fine = |event: &Event| match event {
            Event::Ended { reason, .. } => *reason == EndReason::Closed,
            event => matches!(event, Event::Up { .. }),
        };
        assert!(events.iter().all(fine), "{events:?}");
        assert!(
            server.peers().unwrap().len() <= 1,
            "one peer, however often it starts"
        );
    }
    got
}

/// Node 1 starts, sends a message and closes, again and again; `listen` says where it is the next
/// time.
fn start_again_and_again(mut listen: impl FnMut() -> SocketAddr) {
    let server = builder(0).accept(AcceptPolicy::Anyone).open().unwrap();
    let address = server.local_addr();
    let stop = AtomicBool::new(false);
    let got = std::thread::scope(|scope| {
        let serving = scope.spawn(|| serve(server, &stop));
        for start in 0..STARTS {
            let mut client = builder(1).listen(listen()).open().unwrap();
            client.add_peer(NodeId(0), address).unwrap();
            client.send_copy(NodeId(0), &start.to_le_bytes()).unwrap();
            client.close(LONG).unwrap();
            let events = client.events().unwrap();
            let ended = |event: &Event| match event {
                Event::Ended {
                    reason, outcomes, ..
                } => *reason == EndReason::ClosedHere && outcomes.is_empty(),
                event => matches!(event, Event::Up { .. }),
            };
            assert!(
                events.len() == 2 && events.iter().all(ended),
                "{start}: {events:?}"
            );
        }
        stop.store(true, Ordering::Relaxed);
        serving.join().unwrap()
    });
    assert!(got.into_iter().eq(0..STARTS), "each message, once");
}

#[test]
fn f14_each_first_message_of_a_node_id_arrives_from_the_same_port() {
    // On a host of its own: no other test takes the port meanwhile.
    let first = builder(1).listen("127.0.14.1:0".parse().unwrap());
    let address = first.open().unwrap().local_addr();
    start_again_and_again(|| address);
}

#[test]
fn f14_each_first_message_of_a_node_id_arrives_from_other_ports() {
    start_again_and_again(|| "127.0.0.1:0".parse().unwrap());
}
