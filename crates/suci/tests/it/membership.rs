//! Members of clusters over loopback.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::LONG;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use suci::{Error, Event, Membership, Next, Node, NodeBuilder, NodeId, SharedNode};

fn builder(id: u32) -> NodeBuilder {
    let listen = "127.0.0.1:0".parse().unwrap();
    let builder = Node::builder().id(NodeId(id)).listen(listen);
    builder.silence_timeout(Duration::from_secs(2))
}

fn cluster() -> Membership {
    Membership::new("test").suspicion(Duration::from_secs(1))
}

fn first() -> Node {
    builder(0).membership(cluster()).open().unwrap()
}

fn join(id: u32, seed: &Node) -> Node {
    let membership = cluster().seed(seed.id(), seed.local_addr());
    builder(id).membership(membership).open().unwrap()
}

fn ids(node: &Node) -> Vec<u32> {
    node.members().unwrap().iter().map(|it| it.node.0).collect()
}

/// Lets all nodes work until each knows these members.
fn settle(nodes: &mut [&mut Node], expected: &[u32]) {
    let end = Instant::now() + LONG;
    while nodes.iter().any(|node| ids(node) != expected) {
        let known: Vec<_> = nodes.iter().map(|node| ids(node)).collect();
        assert!(Instant::now() < end, "{known:?}, not {expected:?}");
        for node in nodes.iter_mut() {
            node.poll(Duration::from_millis(2)).unwrap();
        }
    }
}

/// Returns the next event about members.
fn member_event(node: &mut Node) -> Event {
    let end = Instant::now() + LONG;
    loop {
        let next = node.next_timeout(LONG).unwrap();
        match next {
            Some(Next::Event(
                event @ (Event::MemberJoined { .. }
                | Event::MemberLeft { .. }
                | Event::MemberFailed { .. }),
            )) => return event,
            _ => assert!(Instant::now() < end, "no event about a member"),
        }
    }
}

#[test]
fn a_node_joins_through_one_seed_and_sends_to_all() {
    let mut a = first();
    let mut b = join(1, &a);
    let mut c = join(2, &a);
    settle(&mut [&mut a, &mut b, &mut c], &[0, 1, 2]);
    b.wait_joined(LONG).unwrap();
    b.send_copy(c.id(), b"found by the seed").unwrap();
    let message = c.recv_timeout(LONG).unwrap().unwrap();
    assert_eq!(&message.payload[..], b"found by the seed");
    b.flush(LONG).unwrap();
    let known = a.members().unwrap();
    assert_eq!(known[1].address, b.local_addr());
    assert!(known.iter().all(|member| !member.is_suspect));
}

#[test]
fn joins_and_leaves_are_events_in_order() {
    let mut a = first();
    for _ in 0..2 {
        let mut b = join(1, &a);
        settle(&mut [&mut a, &mut b], &[0, 1]);
        let node = b.id();
        b.send_copy(a.id(), b"before it leaves").unwrap();
        b.close(LONG).unwrap();
        assert_eq!(member_event(&mut a), Event::MemberJoined { node });
        // Events come before the messages of a session that has not ended for the program.
        assert_eq!(member_event(&mut a), Event::MemberLeft { node });
        assert!(matches!(a.next().unwrap(), Next::Message(_)));
        assert!(matches!(
            a.next().unwrap(),
            Next::Event(Event::Ended { .. })
        ));
        assert_eq!(ids(&a), [0]);
    }
    assert!(a.flush(Duration::ZERO).is_ok());
}

#[test]
fn nodes_of_two_clusters_do_not_mix() {
    let mut a = first();
    let other = Membership::new("other").seed(a.id(), a.local_addr());
    let mut b = builder(1).membership(other).open().unwrap();
    let serve = std::thread::spawn(move || {
        a.recv_timeout(Duration::from_secs(2)).unwrap();
        a
    });
    let error = b.wait_joined(LONG).unwrap_err();
    assert_eq!(
        error.to_string(),
        "not in cluster \"other\" yet: seed 0 belongs to cluster \"test\": name that cluster, or \
         another seed"
    );
    assert_eq!(ids(&b), [1]);
    assert_eq!(ids(&serve.join().unwrap()), [0]);
}

#[test]
fn a_seed_that_is_not_there_or_no_member_is_named() {
    let nobody: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let membership = cluster().seed(NodeId(7), nobody);
    let mut alone = builder(1).membership(membership).open().unwrap();
    let error = alone.wait_joined(Duration::from_millis(300)).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("not in cluster \"test\" yet: seed 7 "),
        "{text}"
    );
    assert!(text.contains("start it"), "{text}");

    let plain = builder(0)
        .accept(suci::AcceptPolicy::Anyone)
        .open()
        .unwrap();
    let mut b = join(1, &plain);
    let error = b.wait_joined(Duration::from_millis(700)).unwrap_err();
    assert!(error.to_string().contains("not as a member"), "{error}");
    assert!(matches!(plain.members(), Err(Error::Missing { .. })));
}

#[test]
fn ids_are_chosen_if_none_is_set_and_names_are_checked() {
    let listen = "127.0.0.1:0".parse().unwrap();
    let node = Node::builder().listen(listen).membership(cluster());
    let (a, b) = (node.clone().open().unwrap(), node.open().unwrap());
    assert_ne!(a.id(), b.id());
    for name in ["", &"x".repeat(65), &"x".repeat(10_000)] {
        let refused = builder(0).membership(Membership::new(name)).open();
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::Config(_)), "{refused}");
        assert!(refused.to_string().len() < 200, "{refused}");
    }
}

#[test]
fn threads_serve_members_of_all_shards() {
    let mut a = first();
    let shared: Vec<SharedNode> = (1..4)
        .map(|id| {
            let membership = cluster().seed(a.id(), a.local_addr());
            builder(id).membership(membership).open_threads(2).unwrap()
        })
        .collect();
    settle(&mut [&mut a], &[0, 1, 2, 3]);
    for node in &shared {
        node.wait_joined(LONG).unwrap();
        let end = Instant::now() + LONG;
        while node.members().unwrap().len() < 4 {
            assert!(Instant::now() < end, "{:?}", node.members());
            a.poll(Duration::from_millis(2)).unwrap();
        }
    }
    shared[0].send_copy(NodeId(2), b"between shards").unwrap();
    let message = shared[1].recv_timeout(LONG).unwrap().unwrap();
    assert_eq!(&message.payload[..], b"between shards");
    shared[2].close(LONG).unwrap();
    settle(&mut [&mut a], &[0, 1, 2]);
}
