use super::inner::EVENTS;
use super::*;
use crate::{AddressBook, Node};
use std::net::UdpSocket;

const LONG: Duration = Duration::from_secs(30);

fn node(id: u32) -> SharedNode {
    let builder = Node::builder().id(NodeId(id)).book(AddressBook::new());
    let builder = builder.listen("127.0.0.1:0".parse().unwrap());
    builder.open_threads(1).unwrap()
}

/// A program that takes no events holds a bounded number of them; the rest waits in the engine, is known to
/// `flush`, and follows when there is room.
#[test]
fn f04_events_that_nobody_takes_wait_in_the_engine_and_follow() {
    let count = EVENTS as u64 + 500;
    let (a, b) = (node(0), node(1));
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    a.add_peer(NodeId(1), b.local_addr()).unwrap();
    a.add_peer(NodeId(2), nobody.local_addr().unwrap()).unwrap();
    b.add_peer(NodeId(0), a.local_addr()).unwrap();
    let taker = std::thread::spawn(move || {
        (0..count).for_each(|_| drop(b.recv_timeout(LONG).unwrap().unwrap()));
        b
    });
    for token in 0..count {
        let draft = Draft::new("x").notify(token);
        a.send_timeout(NodeId(1), draft, LONG).unwrap();
    }
    a.flush(LONG).unwrap();
    let b = taker.join().unwrap();
    a.send(NodeId(2), "to nobody").unwrap();
    a.abandon(NodeId(2)).unwrap();
    assert_eq!(lock(&a.inner.events).queue.len(), EVENTS);
    match a.flush(LONG) {
        Err(Error::NotFlushed { peers }) => assert_eq!(peers, [(NodeId(2), 1)]),
        other => panic!("{other:?}"),
    }
    let mut delivered = 0;
    let mut ended = 0;
    while delivered < count || ended < 1 {
        match a.event_timeout(LONG).unwrap().expect("it follows") {
            Event::Delivered { token, .. } => {
                assert_eq!(token, delivered, "in order");
                delivered += 1;
            }
            Event::Ended { node, .. } => {
                assert_eq!(node, NodeId(2));
                ended += 1;
            }
            _ => {}
        }
    }
    a.flush(LONG).unwrap();
    drop(b);
}

/// The gate lets a message in while the thread has begun to suspend the session: it is kept, and has its outcome
/// should the node be closed first.
#[test]
fn what_a_suspension_kept_is_told_of_when_the_node_closes() {
    let (a, b) = (node(0), node(1));
    a.add_peer(NodeId(1), b.local_addr()).unwrap();
    let (suspended, is_suspended) = std::sync::mpsc::channel();
    let (go, may_go) = std::sync::mpsc::channel();
    let other = a.clone();
    let asking = std::thread::spawn(move || {
        other.ask(move |driver| {
            driver.engine.suspend(NodeId(1)).unwrap();
            suspended.send(()).unwrap();
            may_go.recv().unwrap();
        })
    });
    is_suspended.recv().unwrap();
    a.send(NodeId(1), Draft::new("late")).unwrap();
    go.send(()).unwrap();
    asking.join().unwrap().unwrap();
    match a.close(Duration::ZERO) {
        Err(Error::NotFlushed { peers }) => assert_eq!(peers, [(NodeId(1), 1)]),
        other => panic!("{other:?}"),
    }
    let events = std::iter::from_fn(|| a.next_event().ok().flatten());
    let refused =
        |event: &Event| matches!(event, Event::NotDelivered { node, .. } if *node == NodeId(1));
    assert_eq!(events.filter(refused).count(), 1);
}

/// Whoever came once leaves nothing behind for ever; what a call still uses stays.
#[test]
fn f02_gates_of_forgotten_nodes_are_forgotten() {
    let (a, b) = (node(0), node(1));
    let gone = 1_000..1_500;
    for id in gone.clone() {
        a.inner.gate_or_new(NodeId(id));
    }
    let in_use = a.inner.gate(NodeId(1_001)).unwrap();
    assert!(
        a.inner.gate(NodeId(1_000)).unwrap().debit(1),
        "holds a message"
    );
    a.add_peer(NodeId(1), b.local_addr()).unwrap();
    b.add_peer(NodeId(0), a.local_addr()).unwrap();
    a.send(NodeId(1), "comes").unwrap();
    let up = a.event_timeout(LONG).unwrap();
    assert_eq!(up, Some(Event::Up { node: NodeId(1) }));
    // The turn that told of it is over when the thread answers.
    a.peers().unwrap();
    let left: Vec<_> = gone
        .filter(|id| a.inner.gate(NodeId(*id)).is_some())
        .collect();
    assert_eq!(left, [1_000, 1_001]);
    assert!(a.inner.gate(NodeId(1)).is_some(), "is known");
    drop(in_use);
}
