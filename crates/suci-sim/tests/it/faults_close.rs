//! Ends: entries of docs/faults.md about closing.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use crate::scenario::{MS, SECOND, arrive, calm, ended, ok, outcomes, send, spec, world};
use suci_proto::time::{Duration, Instant};
use suci_proto::{EndReason, Outcome};
use suci_sim::options::Step;

/// F20: the first packets after `close` vanish, CLOSE among them; then their answers do.
#[test]
fn f20_a_lost_close_or_its_answer_is_repeated() {
    for from in [0_usize, 1] {
        let mut world = world(calm(2));
        send(&mut world, 0, 10, spec(2, 0, 2_000));
        arrive(&mut world, SECOND);
        let mut left = 3;
        world.filter = Some(Box::new(move |_: Instant, packet| {
            let drop = packet.source == from && left > 0;
            left -= i32::from(drop);
            drop
        }));
        world.apply(&Step::Close(0, SECOND * 8, SECOND * 1_000));
        ok(world.run_for(SECOND * 9));
        assert!(world.engine(0).is_none(), "closed");
        assert_eq!(
            ended(&world, 0),
            vec![EndReason::ClosedHere],
            "packets from {from} lost"
        );
        assert_eq!(
            ended(&world, 1),
            vec![EndReason::Closed],
            "packets from {from} lost"
        );
    }
}

/// Promise 4: close drains first; everything accepted before it arrives.
#[test]
fn f20_close_drains_accepted_messages() {
    let mut options = calm(3);
    options.faults.loss = 100_000;
    let mut world = world(options);
    send(&mut world, 0, 50, spec(2, 0, 3_000));
    send(&mut world, 0, 50, spec(3, 0, 3_000));
    world.apply(&Step::Close(0, SECOND * 20, SECOND * 1_000));
    ok(world.run_for(SECOND * 30));
    assert_eq!(world.oracle.delivered(), 100);
    assert_eq!(ended(&world, 0).len(), 2);
    assert!(
        outcomes(&world, 0)
            .iter()
            .all(|outcome| *outcome == Outcome::Delivered)
    );
}

/// Promise 4: one deadline for all peers, dead ones included.
#[test]
fn f20_a_dead_peer_delays_close_to_the_deadline_only() {
    let mut world = world(calm(3));
    send(&mut world, 0, 1, spec(2, 0, 100));
    send(&mut world, 0, 1, spec(3, 0, 100));
    arrive(&mut world, SECOND);
    world.apply(&Step::Crash(2, None));
    send(&mut world, 0, 5, spec(3, 0, 100));
    world.apply(&Step::Close(0, SECOND * 2, SECOND * 1_000));
    ok(world.run_for(SECOND * 2 + MS * 50));
    assert!(world.engine(0).is_none(), "closed at its deadline");
    assert_eq!(ended(&world, 0), vec![EndReason::ClosedHere; 2]);
    assert_eq!(outcomes(&world, 0), vec![Outcome::Unknown; 5]);
    assert_eq!(ended(&world, 1), vec![EndReason::Closed]);
}

/// Promise 4: given up here, ended there; the next message opens a new session.
#[test]
fn f14_an_abandoned_session_is_followed_by_a_new_one() {
    let mut world = world(calm(2));
    send(&mut world, 0, 20, spec(2, 0, 30_000));
    send(&mut world, 1, 5, spec(1, 0, 100));
    // Sealed messages do not ride on INIT: the connection has to be there.
    ok(world.run_for(if world.options.sealed { MS / 4 } else { MS / 5 }));
    world.apply(&Step::Reset(0, 1));
    ok(world.run_for(MS));
    send(&mut world, 0, 5, spec(2, 0, 100));
    arrive(&mut world, SECOND * 5);
    assert_eq!(ended(&world, 0), vec![EndReason::Reset]);
    let there = ended(&world, 1);
    match world.options.sealed {
        // A CLOSE says how many messages are missing.
        true => assert!(matches!(there[..], [EndReason::CutShort { .. }])),
        false => assert_eq!(there, vec![EndReason::PeerEnded]),
    }
}

/// Ten messages of 1 MiB at 20 Mbit/s by a program that closes with a second of patience. From 5 ms
/// before that is over, the packets `lost` of those it sends vanish. Returns how many packets it
/// sent then, how many messages arrived, and what the receiver heard half a second later.
fn close_too_early(lost: Range<usize>) -> (usize, u64, Vec<EndReason>) {
    let mut options = calm(2);
    options.links.rate = Some(20_000_000 / 8);
    let mut world = world(options);
    send(&mut world, 0, 10, spec(2, 0, 1 << 20));
    let near = world.now + SECOND - MS * 5;
    let sent = Rc::new(Cell::new(0));
    let count = Rc::clone(&sent);
    world.filter = Some(Box::new(move |now: Instant, packet| {
        let late = packet.source == 0 && now >= near;
        let number = count.get();
        count.set(number + usize::from(late));
        late && lost.contains(&number)
    }));
    world.apply(&Step::Close(0, SECOND, SECOND * 1_000));
    ok(world.run_for(SECOND + MS * 500));
    assert!(world.engine(0).is_none(), "closed at its deadline");
    (sent.get(), world.oracle.delivered(), ended(&world, 1))
}

/// F20: no process is left to repeat the CLOSE of a close that gave messages up. If any packets
/// near the end vanish, one or two in a row, the receiver hears how many messages are missing, and
/// not minutes later that the peer fell silent.
#[test]
fn f20_a_close_that_gave_up_is_heard_though_packets_are_lost() {
    let (sent, ..) = close_too_early(0..0);
    assert!(sent >= 5, "{sent} packets near the end");
    for first in 0..sent {
        for in_a_row in [1, 2] {
            let (_, received, heard) = close_too_early(first..first + in_a_row);
            let missing = 10 - received;
            assert!((1..10).contains(&missing), "{missing}");
            let lost = format!("{in_a_row} lost from packet {first} of {sent}");
            assert_eq!(heard, [EndReason::CutShort { missing }], "{lost}");
        }
    }
}

/// Two processes close `apart` from each other with messages of both in flight. The packets `lost`
/// of those that process `from` sends after the first close vanish. Returns how many packets each
/// sent.
fn both_close(apart: Duration, from: usize, lost: Range<usize>) -> [usize; 2] {
    let mut world = world(calm(2));
    let sends = |world: &mut _, count| {
        for (host, node) in [(0, 2), (1, 1)] {
            send(world, host, count, spec(node, 0, 3_000));
        }
    };
    sends(&mut world, 1);
    arrive(&mut world, SECOND);
    sends(&mut world, 5);
    let sent = Rc::new(Cell::new([0; 2]));
    let count = Rc::clone(&sent);
    let case = format!("{apart:?} apart, of {from} {lost:?} lost");
    world.filter = Some(Box::new(move |_: Instant, packet| {
        let mut counts = count.get();
        let number = counts[packet.source];
        counts[packet.source] += 1;
        count.set(counts);
        packet.source == from && lost.contains(&number)
    }));
    let (patience, never) = (SECOND * 60, SECOND * 1_000);
    world.apply(&Step::Close(0, patience, never));
    ok(world.run_for(apart));
    world.apply(&Step::Close(1, patience, never));
    ok(world.run_for(SECOND));
    let closed = [0, 1].map(|host| world.engine(host).is_none());
    assert_eq!(closed, [true; 2], "{case}");
    assert_eq!(
        [0, 1].map(|host| ended(&world, host).len()),
        [1; 2],
        "{case}"
    );
    sent.get()
}

/// F20: whichever packets near the end are lost, `close` takes some round trips and probe timeouts,
/// not its deadline. Each process is gone within a second, half of which it may answer repeated
/// CLOSEs.
#[test]
fn f20_both_close_at_once_within_a_second() {
    for apart in [0, 1, 2, 4, 8].map(|n| MS * n / 10) {
        let sent = both_close(apart, 0, 0..0);
        for (from, count) in sent.into_iter().enumerate() {
            assert!(count >= 5, "{count} packets of {from}");
            for first in 0..count {
                for in_a_row in 1..=3 {
                    both_close(apart, from, first..first + in_a_row);
                }
            }
        }
    }
}

/// F20: a program asks and closes; the other one answers when it is gone, and closes, too.
#[test]
fn f20_an_answer_to_a_node_that_closed_delays_no_close() {
    let mut world = world(calm(2));
    send(&mut world, 0, 3, spec(2, 0, 100));
    world.apply(&Step::Close(0, SECOND * 60, SECOND * 1_000));
    ok(world.run_for(SECOND));
    assert_eq!(ended(&world, 1), [EndReason::Closed]);
    send(&mut world, 1, 3, spec(1, 0, 100));
    ok(world.run_for(SECOND));
    world.apply(&Step::Close(1, SECOND * 60, SECOND * 1_000));
    ok(world.run_for(MS * 10));
    assert!(world.engine(1).is_none(), "nobody is there to wait for");
    assert_eq!(outcomes(&world, 1), [Outcome::NotDelivered; 3]);
}
