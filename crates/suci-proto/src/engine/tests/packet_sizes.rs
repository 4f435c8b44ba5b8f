//! The packet size of a connection, and the charge of its packets.

use super::*;
use crate::credit::data_charge;
use crate::shared::RouteQuery;
use suci_link::limits::{DATA_CHARGE, ETHERNET_MTU, JUMBO_DATAGRAM, MIN_MTU};

/// Two hosts whose routes to one another carry UDP payloads of `routes` bytes, after each heard of
/// the other.
fn met(routes: [Option<usize>; 2]) -> World {
    let mut world = World::new(2);
    world.routes = known(routes);
    meet(&mut world);
    world
}

fn known(routes: [Option<usize>; 2]) -> BTreeMap<usize, usize> {
    let known = |(host, mtu): (usize, Option<usize>)| mtu.map(|mtu| (host, mtu));
    routes.into_iter().enumerate().filter_map(known).collect()
}

fn meet(world: &mut World) {
    world.send(0, 1).unwrap();
    world.run(SECOND);
    world.send(1, 0).unwrap();
    world.run(SECOND);
}

/// The largest packets that `host` sends the other, and its charge for a packet of the other.
fn size_and_charge(world: &mut World, host: usize) -> (usize, u64) {
    let connection = world.peer(host, 1 - host).connection.as_ref().unwrap();
    (connection.link.mtu.current(), connection.grant.charge())
}

#[test]
fn packets_are_as_large_as_both_ways_carry() {
    for (routes, size) in [
        ([Some(8_972), Some(9_000)], JUMBO_DATAGRAM),
        ([Some(65_507), Some(65_507)], JUMBO_DATAGRAM),
        ([Some(4_000), Some(9_000)], 4_000),
        // All packets up to 4 KiB cost alike.
        ([Some(9_000), Some(2_016)], ETHERNET_MTU),
        // The charge does not grow by what only the other direction carries.
        ([Some(9_000), Some(ETHERNET_MTU)], ETHERNET_MTU),
        ([Some(ETHERNET_MTU), Some(9_000)], ETHERNET_MTU),
        ([Some(1_300), Some(9_000)], 1_300),
        ([Some(500), Some(9_000)], MIN_MTU),
    ] {
        let mut world = met(routes);
        for host in 0..2 {
            let found = size_and_charge(&mut world, host);
            assert_eq!(found, (size, data_charge(size)), "{routes:?}, host {host}");
        }
    }
}

#[test]
fn packets_have_ethernet_size_if_one_driver_knows_no_mtu() {
    for routes in [[None, None], [Some(9_000), None], [None, Some(9_000)]] {
        let mut world = met(routes);
        for host in 0..2 {
            let (size, charge) = size_and_charge(&mut world, host);
            assert!(size <= ETHERNET_MTU, "{routes:?}, host {host}: {size}");
            assert_eq!(charge, DATA_CHARGE, "{routes:?}, host {host}");
        }
    }
}

/// A new connection of the same session, to the same address.
fn connect_again(world: &mut World) {
    let now = world.now;
    world.peer(0, 1).open(now, 77);
    let key = world.engines[0].peer_key(id(1)).unwrap();
    world.engines[0].touch(key);
    world.settle();
}

fn first_window(world: &mut World, host: usize) -> u64 {
    let connection = world.peer(host, 1 - host).connection.as_ref().unwrap();
    let size = connection.link.mtu.current() as u64;
    assert!(
        connection.link.pacer.has(9 * size),
        "the first burst is free"
    );
    connection.link.congestion.window()
}

#[test]
fn a_new_connection_looks_for_a_route_that_widened() {
    let mut world = met([Some(ETHERNET_MTU); 2]);
    world.routes = known([Some(9_000); 2]);
    world.run(2 * SECOND);
    connect_again(&mut world);
    meet(&mut world);
    world.run(5 * SECOND);
    for host in 0..2 {
        let found = size_and_charge(&mut world, host);
        assert_eq!(
            found,
            (JUMBO_DATAGRAM, data_charge(JUMBO_DATAGRAM)),
            "host {host}"
        );
    }
}

#[test]
fn f27_a_new_connection_does_not_forget_a_black_hole() {
    let mut world = met([Some(4_068), Some(9_000)]);
    let connection = world.peer(0, 1).connection.as_mut().unwrap();
    connection.link.mtu.on_peer_lost();
    world.routes = known([Some(9_000); 2]);
    connect_again(&mut world);
    assert_eq!(size_and_charge(&mut world, 0).0, MIN_MTU);
}

#[test]
fn the_first_window_is_of_ten_packets_of_the_path() {
    let mut world = met([Some(9_000); 2]);
    assert_eq!(first_window(&mut world, 0), 10 * JUMBO_DATAGRAM as u64);
    connect_again(&mut world);
    assert_eq!(first_window(&mut world, 0), 10 * JUMBO_DATAGRAM as u64);
    // The driver answers late.
    let mut world = met([None; 2]);
    assert_eq!(first_window(&mut world, 0), 10 * MIN_MTU as u64);
    world.routes = known([Some(ETHERNET_MTU); 2]);
    let query = RouteQuery::of_connection(id(1), address(1));
    world.engines[0].set_route_mtu(query, Some(ETHERNET_MTU));
    assert_eq!(first_window(&mut world, 0), 14_600);
}

#[test]
fn a_late_answer_about_another_path_is_ignored() {
    let mut world = met([Some(9_000); 2]);
    let query = RouteQuery::of_connection(id(1), address(7));
    world.engines[0].set_route_mtu(query, Some(MIN_MTU));
    assert_eq!(size_and_charge(&mut world, 0).0, JUMBO_DATAGRAM);
}

/// Otherwise a sender could choose its charge by the size that it announces.
#[test]
fn f02_a_packet_longer_than_agreed_ends_the_session() {
    for (longer, kept) in [(0, true), (1, false), (8_000, false)] {
        let mut world = met([Some(9_000), Some(1_300)]);
        world.deliver_ping(1_300 + longer);
        let errors = world.engines[0].counters().protocol_errors;
        assert_eq!(errors == 0, kept, "{longer} B longer");
    }
}

/// The size stays for the connection's life, so it does not depend on what is free at the moment.
#[test]
fn a_peer_that_comes_while_the_buffer_is_full_gets_large_packets_too() {
    let count = 24;
    let mut world = World::new(count);
    world.routes = (0..count).map(|host| (host, 9_000)).collect();
    let payload = Bytes::from(vec![7; 16_384]);
    for round in 0..40 {
        while world.engines[0].queue_len(id(1)).0 < 100 {
            let message = Outgoing {
                payload: payload.clone(),
                ..message(b"")
            };
            world.engines[0].send(world.now, id(1), message).unwrap();
        }
        if round == 20 {
            for other in 2..count {
                world.send(other, 1).unwrap();
            }
        }
        world.run(Duration::from_millis(10));
        world.received(1);
    }
    world.run(2 * SECOND);
    for host in (0..count).filter(|host| *host != 1) {
        let connection = world.peer(1, host).connection.as_ref().unwrap();
        assert_eq!(
            connection.link.params.max_datagram, JUMBO_DATAGRAM,
            "{host}"
        );
    }
}

#[test]
fn many_peers_get_packets_that_the_budget_holds() {
    let mut world = World::new(66);
    world.routes = (0..66).map(|host| (host, 9_000)).collect();
    meet(&mut world);
    assert_eq!(size_and_charge(&mut world, 0), (ETHERNET_MTU, DATA_CHARGE));
}

#[test]
fn a_round_trip_takes_two_packets_however_large_they_may_be() {
    let mut world = met([Some(9_000); 2]);
    let before = world.seen.len();
    for _ in 0..100 {
        for host in 0..2 {
            world.send(host, 1 - host).unwrap();
            world.settle();
            world.received(1 - host);
        }
    }
    assert_eq!(world.seen.len() - before, 200);
}
