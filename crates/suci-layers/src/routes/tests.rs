//! Routers alone: packets go from one to the next without engines.

use super::*;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use suci_proto::message::Message;
use suci_proto::time::{Duration, Instant};
use suci_proto::types::{Incarnation, NodeId};
use suci_proto::{Config, Engine, Identity, RoutedPacket};

const START: Instant = Instant::ZERO;

fn router(own: u32, forwards: bool, neighbours: &[u32], routes: &[(u32, &[u32])]) -> Router {
    let mut table = Routes::default();
    for (node, vias) in routes {
        let vias: Vec<_> = vias.iter().copied().map(NodeId).collect();
        table.add(*node..=*node, &vias).unwrap();
    }
    Router::new(RouterSettings {
        own: NodeId(own),
        forwards,
        anyone: false,
        neighbours: neighbours.iter().copied().map(NodeId).collect(),
        routes: table,
    })
}

fn by_route(node: u32) -> Behind {
    Behind::by_route(NodeId(node))
}

fn through(neighbour: u32, node: u32) -> Behind {
    let neighbour = Some(NodeId(neighbour));
    let node = NodeId(node);
    Behind { node, neighbour }
}

fn message(header: OuterHeader, length: usize) -> Message {
    let outgoing = header.carry(vec![7; length].into());
    Message {
        channel: outgoing.channel,
        number: 0,
        tag: 0,
        kind: outgoing.kind,
        user_header: outgoing.user_header,
        payload: outgoing.payload.into(),
    }
}

/// Sends a packet and returns the nodes that it came to, and whether the last one took it.
fn travels(routers: &mut BTreeMap<u32, Router>, from: u32, to: u32) -> (Vec<u32>, bool) {
    let mut hop = routers.get_mut(&from).unwrap().originate(by_route(to));
    let (mut at, mut way) = (from, Vec::new());
    while let Some(Hop { next, header }) = hop {
        way.push(next.0);
        let next_router = routers.get_mut(&next.0).unwrap();
        let step = next_router.receive(NodeId(at), false, &message(header, 100));
        at = next.0;
        hop = match step {
            Step::Forward(hop) => Some(hop),
            Step::Deliver(source) => {
                assert_eq!((source.node, at), (NodeId(from), to));
                return (way, true);
            }
            Step::Drop(_) => None,
        };
    }
    (way, false)
}

fn by_node(routers: Vec<Router>, nodes: &[u32]) -> BTreeMap<u32, Router> {
    nodes.iter().copied().zip(routers).collect()
}

/// 1 - 2 - 3 - 4.
fn chain(forwards: bool) -> BTreeMap<u32, Router> {
    let routers = vec![
        router(1, false, &[2], &[(3, &[2]), (4, &[3])]),
        router(2, forwards, &[1, 3], &[(4, &[3])]),
        router(3, forwards, &[2, 4], &[(1, &[2])]),
        router(4, false, &[3], &[(2, &[3]), (1, &[2])]),
    ];
    by_node(routers, &[1, 2, 3, 4])
}

#[test]
fn packets_go_along_a_chain_and_back() {
    let mut routers = chain(true);
    assert_eq!(travels(&mut routers, 1, 4), (vec![2, 3, 4], true));
    assert_eq!(travels(&mut routers, 4, 1), (vec![3, 2, 1], true));
    assert_eq!(travels(&mut routers, 1, 3), (vec![2, 3], true));
}

#[test]
fn nobody_forwards_who_was_not_told_to() {
    let mut routers = chain(false);
    assert_eq!(travels(&mut routers, 1, 4), (vec![2], false));
}

#[test]
fn only_nodes_of_the_book_are_forwarded_for_unless_anyone_is() {
    let header = OuterHeader {
        destination: NodeId(3),
        source: NodeId(9),
        hops: 5,
        turn: 0,
    };
    let mut forwarder = router(2, true, &[1, 3], &[]);
    assert_eq!(
        forwarder.receive(NodeId(1), false, &message(header, 10)),
        Step::Drop(RoutedPacket::NotAllowed)
    );
    forwarder = router(2, true, &[1, 3, 9], &[]);
    let step = forwarder.receive(NodeId(1), false, &message(header, 10));
    let onward = OuterHeader { hops: 4, ..header };
    let hop = Hop {
        next: NodeId(3),
        header: onward,
    };
    assert_eq!(step, Step::Forward(hop));
}

#[test]
fn the_hop_limit_ends_loops_and_nothing_goes_back() {
    let mut one = router(1, true, &[2, 8], &[(9, &[2])]);
    let mut header = OuterHeader {
        destination: NodeId(9),
        source: NodeId(8),
        hops: 1,
        turn: 0,
    };
    assert_eq!(
        one.receive(NodeId(8), false, &message(header, 10)),
        Step::Drop(RoutedPacket::HopLimit)
    );
    header.hops = 2;
    assert_eq!(
        one.receive(NodeId(2), false, &message(header, 10)),
        Step::Drop(RoutedPacket::HopLimit),
        "came from there"
    );
    header.source = NodeId(1);
    assert_eq!(
        one.receive(NodeId(2), false, &message(header, 10)),
        Step::Drop(RoutedPacket::HopLimit),
        "its own"
    );
    // Three nodes whose routes go round.
    let ring = |own, next: u32, last| router(own, true, &[next, last], &[(9, &[next])]);
    let routers = vec![
        router(0, false, &[1], &[(9, &[1])]),
        router(1, true, &[0, 2, 3], &[(9, &[2])]),
        ring(2, 3, 1),
        ring(3, 1, 2),
    ];
    let mut routers = by_node(routers, &[0, 1, 2, 3]);
    for node in [2, 3] {
        routers
            .get_mut(&node)
            .unwrap()
            .set_neighbour(NodeId(0), true);
    }
    let (way, arrived) = travels(&mut routers, 0, 9);
    assert!(!arrived);
    assert_eq!(way.len(), usize::from(MAX_HOPS));
}

#[test]
fn another_route_takes_over_from_a_silent_neighbour() {
    let mut one = router(1, false, &[3, 4], &[(7, &[3, 4])]);
    let next = |one: &mut Router| one.originate(by_route(7)).unwrap().next.0;
    assert_eq!(next(&mut one), 3);
    one.set_silent(NodeId(3), true);
    assert_eq!(next(&mut one), 4);
    one.set_silent(NodeId(4), true);
    assert_eq!(next(&mut one), 3, "none answers");
    one.set_silent(NodeId(3), false);
    assert_eq!(next(&mut one), 3);
}

#[test]
fn a_route_whose_far_end_does_not_answer_is_passed_over() {
    let mut one = router(1, false, &[3, 4], &[(7, &[3, 4])]);
    let next = |one: &mut Router| one.originate(by_route(7)).unwrap().next.0;
    one.on_unanswered(START, NodeId(7));
    assert_eq!(next(&mut one), 4);
    one.on_unanswered(START + Duration::from_millis(100), NodeId(7));
    assert_eq!(next(&mut one), 4, "it has its time");
    one.on_unanswered(START + Duration::from_secs(3), NodeId(7));
    assert_eq!(next(&mut one), 3);
}

/// Turn 2 of a node with two routes is the first of these again, and the second of the next choice.
#[test]
fn turns_try_all_combinations_of_routes() {
    let mut routers = by_node(
        vec![
            router(1, false, &[2], &[(9, &[2])]),
            router(2, true, &[1, 3, 4], &[(9, &[3, 4])]),
            router(3, true, &[2, 5, 6], &[(1, &[2]), (9, &[5, 6])]),
            router(4, true, &[2, 5, 6], &[(1, &[2]), (9, &[5, 6])]),
            router(5, true, &[3, 4, 9], &[(1, &[3, 4])]),
            router(6, true, &[3, 4, 9], &[(1, &[3, 4])]),
            router(9, false, &[5, 6], &[(1, &[5, 6])]),
        ],
        &[1, 2, 3, 4, 5, 6, 9],
    );
    let mut now = START;
    let mut next = |routers: &mut BTreeMap<u32, Router>| {
        let (way, arrived) = travels(routers, 1, 9);
        assert!(arrived);
        now += Duration::from_secs(2);
        routers.get_mut(&1).unwrap().on_unanswered(now, NodeId(9));
        way
    };
    let ways = [[2, 3, 5, 9], [2, 4, 5, 9], [2, 3, 6, 9], [2, 4, 6, 9]];
    for way in ways.iter().chain(&ways) {
        assert_eq!(next(&mut routers), way);
    }
}

#[test]
fn another_route_of_a_range_takes_over() {
    let mut table = Routes::default();
    table.add(10..=u32::MAX, &[NodeId(3), NodeId(4)]).unwrap();
    let mut one = Router::new(RouterSettings {
        own: NodeId(1),
        forwards: false,
        anyone: true,
        neighbours: [NodeId(3), NodeId(4)].into(),
        routes: table,
    });
    let next = |one: &Router| one.originate(by_route(70)).unwrap().next.0;
    assert_eq!((next(&one), one.carriers().len()), (3, 2));
    // Where it was heard comes first, if a route begins there.
    let step = one.receive(NodeId(4), false, &message(for_one(70), 10));
    assert_eq!(step, Step::Deliver(through(4, 70)));
    let step = one.receive(NodeId(5), false, &message(for_one(70), 10));
    assert_eq!(step, Step::Deliver(by_route(70)));
    let heard = |one: &Router| one.originate(through(4, 70)).unwrap().next.0;
    assert_eq!(heard(&one), 4);
    one.set_silent(NodeId(4), true);
    assert_eq!(heard(&one), 3);
    one.set_silent(NodeId(4), false);
    one.on_unanswered(START, NodeId(70));
    assert_eq!((next(&one), heard(&one)), (4, 3));
    one.on_unanswered(START + Duration::from_secs(2), NodeId(70));
    assert_eq!(heard(&one), 4);
    let other = one.originate(by_route(71)).unwrap().next.0;
    assert_eq!(other, 3, "it answers");
    // Nobody decides how many nodes are remembered.
    for node in 0..10_000 {
        one.on_unanswered(START, NodeId(100 + node));
    }
    assert_eq!(one.passed(), 4_096);
}

/// Nine layers of eight nodes, each behind all of the layer before: 8^9 ways, of which none leads
/// to a neighbour.
#[test]
fn the_search_for_a_way_is_bounded() {
    let mut routes: Vec<(u32, Vec<u32>)> = Vec::new();
    for layer in 1..=9 {
        let vias: Vec<_> = (0..8).map(|via| 10 * (layer - 1) + via).collect();
        routes.extend((0..8).map(|node| (10 * layer + node, vias.clone())));
    }
    let routes: Vec<_> = routes.iter().map(|(to, vias)| (*to, &vias[..])).collect();
    let one = router(99, true, &[98], &routes);
    // Unbounded, this takes hours.
    for _ in 0..1_000 {
        assert_eq!(one.originate(by_route(90)), None);
    }
}

fn for_one(source: u32) -> OuterHeader {
    OuterHeader {
        destination: NodeId(1),
        source: NodeId(source),
        hops: 3,
        turn: 0,
    }
}

#[test]
fn a_stranger_is_answered_where_it_was_heard() {
    let mut one = router(1, false, &[2, 3], &[(7, &[2])]);
    assert_eq!(one.originate(by_route(9)), None);
    let step = one.receive(NodeId(2), false, &message(for_one(9), 10));
    assert_eq!(step, Step::Deliver(through(2, 9)));
    let hop = one.originate(through(2, 9)).unwrap();
    assert_eq!((hop.next, hop.header.destination), (NodeId(2), NodeId(9)));
    // A packet by another neighbour changes nothing there: that is another address.
    let step = one.receive(NodeId(3), false, &message(for_one(9), 10));
    assert_eq!(step, Step::Deliver(through(3, 9)));
    assert_eq!(one.originate(through(2, 9)).unwrap().next, NodeId(2));
    assert_eq!(one.originate(by_route(9)), None, "nothing was learned");
    // The book's route comes before any neighbour.
    let step = one.receive(NodeId(3), false, &message(for_one(7), 10));
    assert_eq!(step, Step::Deliver(by_route(7)));
    assert_eq!(one.originate(by_route(7)).unwrap().next, NodeId(2));
}

/// `10.. via 1` in a book that node 1 reads, too: these nodes call it, and it answers them.
#[test]
fn who_is_reached_through_this_node_is_its_neighbour() {
    let mut table = Routes::default();
    let vias = [NodeId(2), NodeId(1)];
    table.add(10..=20, &vias).unwrap();
    let mut one = Router::new(RouterSettings {
        own: NodeId(1),
        forwards: true,
        anyone: false,
        neighbours: [NodeId(2)].into(),
        routes: table,
    });
    let to_it = OuterHeader {
        destination: NodeId(15),
        source: NodeId(2),
        hops: 3,
        turn: 0,
    };
    let Step::Forward(hop) = one.receive(NodeId(2), false, &message(to_it, 10)) else {
        panic!("it is sent on");
    };
    assert_eq!(hop.next, NodeId(15));
    let from_it = OuterHeader {
        destination: NodeId(2),
        source: NodeId(15),
        ..to_it
    };
    let step = one.receive(NodeId(15), false, &message(from_it, 10));
    assert!(matches!(step, Step::Forward(_)), "{step:?}");
}

/// Sessions that go through others forward nothing. Otherwise packets could be put into packets
/// without an end.
#[test]
fn what_is_carried_carries_nothing() {
    let mut one = router(1, true, &[2], &[(7, &[2])]);
    let refused = Step::Drop(RoutedPacket::NotAllowed);
    let mut receives = |from, is_carried, source| {
        one.receive(NodeId(from), is_carried, &message(for_one(source), 10))
    };
    assert_eq!(receives(7, true, 9), refused);
    assert_eq!(receives(2, false, 2), refused, "a neighbour");
    assert_eq!(receives(8, false, 8), refused, "a neighbour that called");
    assert_eq!(
        one.originate(by_route(2)),
        None,
        "a neighbour is no route to itself"
    );
}

#[test]
fn long_packets_and_unreadable_ones_are_dropped() {
    let mut one = router(1, false, &[2], &[]);
    let header = OuterHeader {
        destination: NodeId(1),
        source: NodeId(9),
        hops: 3,
        turn: 0,
    };
    let longest = message(header, wire::LONGEST);
    assert_eq!(
        one.receive(NodeId(2), false, &longest),
        Step::Deliver(through(2, 9))
    );
    let too_long = message(header, wire::LONGEST + 1);
    assert_eq!(
        one.receive(NodeId(2), false, &too_long),
        Step::Drop(RoutedPacket::Malformed)
    );
    let mut cut = message(header, 10);
    cut.user_header = cut.user_header.slice(1..);
    assert_eq!(
        one.receive(NodeId(2), false, &cut),
        Step::Drop(RoutedPacket::Malformed)
    );
}

/// The neighbour never answers.
#[test]
fn f04_packets_that_wait_for_a_neighbour_are_bounded() {
    let identity = Identity {
        node: NodeId(1),
        incarnation: Incarnation(7),
    };
    let mut engine = Engine::new(Config::default(), identity, [1; 32], 1 << 20, START).unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 2));
    engine.add_peer(START, NodeId(2), address).unwrap();
    let shared = SharedRouter::new(router(1, false, &[2], &[(7, &[2])]), 1);
    for _ in 0..layer::MAX_WAITING + 10 {
        let packet = [7; CARRIED];
        let elsewhere = shared.originate(&mut engine, START, by_route(7), &packet, |_| true);
        assert!(elsewhere.is_none());
    }
    let counted = engine.counters().routes;
    assert_eq!((counted.sent, counted.no_credit), (layer::MAX_WAITING, 10));
}

#[test]
fn ranges_are_less_than_single_routes_and_do_not_overlap() {
    let mut routes = Routes::default();
    let vias = |node| [NodeId(node)];
    routes.add(10..=u32::MAX, &vias(2)).unwrap();
    routes.add(3..=5, &vias(2)).unwrap();
    routes.add(12..=12, &vias(3)).unwrap();
    for (node, via) in [
        (2, None),
        (3, Some(2)),
        (5, Some(2)),
        (6, None),
        (11, Some(2)),
    ] {
        let found = routes.of(NodeId(node)).and_then(|vias| vias.first());
        assert_eq!(found, via.map(NodeId).as_ref(), "{node}");
    }
    assert_eq!(routes.of(NodeId(12)), Some(&vias(3)[..]));
    assert_eq!(routes.of(NodeId(u32::MAX)), Some(&vias(2)[..]));
    for (range, error) in [
        (5..=6, RouteError::Taken(NodeId(5))),
        (0..=20, RouteError::Taken(NodeId(3))),
        (12..=12, RouteError::Taken(NodeId(12))),
    ] {
        assert_eq!(routes.add(range, &vias(2)), Err(error));
    }
    let itself = routes.add(2..=2, &vias(2));
    assert_eq!(itself, Err(RouteError::ThroughItself(NodeId(2))));
    assert_eq!(routes.add(6..=6, &[]), Err(RouteError::Vias));
    let twice = routes.add(6..=6, &[NodeId(1), NodeId(1)]);
    assert_eq!(twice, Err(RouteError::Vias));
}

#[test]
fn a_loop_is_found_and_named() {
    let mut routes = Routes::default();
    routes.add(7..=7, &[NodeId(1), NodeId(3)]).unwrap();
    routes.add(3..=3, &[NodeId(5)]).unwrap();
    let placed = |node: NodeId| node.0 <= 2;
    assert_eq!(routes.find_loop(placed), None);
    routes.add(5..=5, &[NodeId(2), NodeId(7)]).unwrap();
    let mut found = routes.find_loop(placed).unwrap();
    found.sort_unstable();
    assert_eq!(found, [NodeId(3), NodeId(5), NodeId(7)]);
}

/// Each node is behind the next: the search for loops passes each once.
#[test]
fn a_long_chain_is_searched_for_loops_at_once() {
    let mut routes = Routes::default();
    let count = 1_000_000;
    for node in 0..count {
        routes.add(node..=node, &[NodeId(node + 1)]).unwrap();
    }
    // A search of the whole way for each node takes minutes.
    assert_eq!(routes.find_loop(|node| node.0 == count), None);
}

#[test]
fn addresses_stand_for_nodes() {
    for node in [0, 7, 65_536, u32::MAX] {
        for neighbour in [None, Some(0), Some(70_000), Some(u32::MAX)] {
            let (node, neighbour) = (NodeId(node), neighbour.map(NodeId));
            let behind = Behind { node, neighbour };
            assert_eq!(Behind::at(behind.address()), Some(behind));
        }
    }
    let text = |behind: Behind| behind.address().to_string();
    assert_eq!(text(by_route(7)), "[100::%7]:1");
    assert_eq!(text(through(3, 7)), "[100:0:0:3::%7]:2");
    // Engines count strangers for each address, and callers for each 64 bits.
    let ip = |neighbour, node| through(neighbour, node).address().ip();
    assert_eq!(ip(3, 7), ip(3, 8));
    assert_ne!(ip(3, 7), ip(4, 7));
    for other in ["127.0.0.1:1", "[100::7]:1", "[100::]:3", "[100:0:0:1::]:1"] {
        assert_eq!(Behind::at(other.parse().unwrap()), None, "{other}");
    }
}
