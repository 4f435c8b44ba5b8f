//! How large the packets of a connection are, and what each is booked with.

use super::*;
use crate::credit::data_charge;
use crate::limits::{DATA_CHARGE, ETHERNET_MTU, JUMBO_DATAGRAM, MIN_MTU};

/// Two hosts whose routes to one another carry so much, after each heard of the other.
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

/// The largest packets that `host` sends the other, and what it books for one of the other's.
fn size_and_charge(world: &mut World, host: usize) -> (usize, u64) {
    let connection = world.peer(host, 1 - host).connection.as_ref().unwrap();
    (connection.mtu.current(), connection.grant.charge())
}

#[test]
fn packets_are_as_large_as_both_ways_carry() {
    for (routes, size) in [
        ([Some(8_972), Some(9_000)], JUMBO_DATAGRAM),
        ([Some(65_507), Some(65_507)], JUMBO_DATAGRAM),
        ([Some(4_000), Some(9_000)], 4_000),
        // Nothing is charged for what the other way alone would carry.
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
fn where_one_driver_cannot_tell_packets_are_those_of_ethernet() {
    for routes in [[None, None], [Some(9_000), None], [None, Some(9_000)]] {
        let mut world = met(routes);
        for host in 0..2 {
            let (size, charge) = size_and_charge(&mut world, host);
            assert!(size <= ETHERNET_MTU, "{routes:?}, host {host}: {size}");
            assert_eq!(charge, DATA_CHARGE, "{routes:?}, host {host}");
        }
    }
}

#[test]
fn a_new_connection_follows_a_route_that_widened() {
    let mut world = met([Some(ETHERNET_MTU); 2]);
    world.routes = known([Some(9_000); 2]);
    world.restart(1);
    world.run(20 * SECOND);
    meet(&mut world);
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
