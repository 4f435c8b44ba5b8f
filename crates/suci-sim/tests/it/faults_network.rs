//! Faults of the network: entries of docs/faults.md about packets on their way.

use crate::scenario::{
    MS, SECOND, arrive, calm, chatty, ended, lost, ok, record, send, spec, up, world,
};
use std::cell::Cell;
use std::rc::Rc;
use suci_proto::time::{Duration, Instant};
use suci_proto::types::NodeId;
use suci_proto::{Event, RefusedReason};
use suci_sim::options::{Faults, Marks, Options, Step};
use suci_sim::oracle::Spec;
use suci_sim::packet::Packet;
use suci_sim::runner;
use suci_sim::world::World;

/// F10: everything that was ever sent comes again minutes later, and again to a successor.
#[test]
fn f10_packets_replayed_minutes_later_change_nothing() {
    let mut world = world(calm(2));
    let packets = record(&mut world);
    for round in 0..20 {
        send(&mut world, 0, 5, spec(2, round % 3, u64::from(round) * 200));
        send(&mut world, 1, 5, spec(1, 0, 30));
        ok(world.run_for(MS));
    }
    arrive(&mut world, SECOND * 5);
    ok(world.run_for(SECOND * 180));
    let before = world.oracle.delivered();
    replay(&mut world, &packets.borrow().clone());
    ok(world.run_for(SECOND));
    assert_eq!(
        world.oracle.delivered(),
        before,
        "a replayed packet delivered something"
    );
    assert!(
        world
            .engine(1)
            .is_some_and(|engine| engine.counters().duplicates > 0)
    );
    world.apply(&Step::Crash(1, Some(MS)));
    ok(world.run_for(SECOND));
    let old = packets.borrow().clone();
    replay(&mut world, &old);
    ok(world.run_for(SECOND));
    assert_eq!(
        world.oracle.delivered(),
        before,
        "a replay reached the successor's program"
    );
    send(&mut world, 0, 3, spec(2, 0, 100));
    arrive(&mut world, SECOND * 20);
}

fn replay(world: &mut suci_sim::world::World, packets: &[Packet]) {
    for packet in packets {
        let mut packet = packet.clone();
        packet.fate.hostile = true;
        world.inject(packet);
    }
}

/// F13: the address changes amid a transfer, with the old one dead; the session goes on.
#[test]
fn f13_rebinding_amid_a_transfer_keeps_session_and_messages() {
    for keep in [true, false] {
        let mut world = world(calm(2));
        for round in 0..6_u32 {
            send(&mut world, 0, 20, spec(2, round % 2, 5_000));
            send(&mut world, 1, 20, spec(1, round % 2, 500));
            ok(world.run_for(Duration::from_micros(300)));
            world.apply(&Step::Rebind(0, keep));
            ok(world.run_for(MS * 50));
        }
        arrive(&mut world, SECOND * 30);
        send(&mut world, 0, 5, spec(2, 0, 100));
        ok(world.run_for(SECOND));
        assert_eq!(
            (ended(&world, 0), ended(&world, 1)),
            (vec![], vec![]),
            "no session ended"
        );
        assert_eq!(world.oracle.delivered(), 245);
        let seen = world
            .engine(1)
            .and_then(|e| e.peer_stats(suci_proto::types::NodeId(1)));
        assert_eq!(
            seen.and_then(|peer| peer.address),
            Some(world.network.address(0))
        );
    }
}

/// F13: the address of one end changes amid a steady stream, of which the receiver has acknowledged
/// everything so far, and the old address is dead. Only the receiver can tell the sender its new
/// address, and only the silence makes it do so. The stream goes on within a second.
#[test]
fn f13_a_receiver_that_moves_amid_a_stream_tells_its_new_address() {
    for moved in [1, 0] {
        for (gap, length) in [(MS, 1_000), (MS * 20, 100), (MS * 200, 30_000)] {
            let mut world = world(calm(2));
            let stream = |world: &mut World, time: Duration| {
                let end = world.now + time;
                while world.now < end {
                    send(world, 0, 1, spec(2, 0, length));
                    ok(world.run_for(gap));
                }
            };
            stream(&mut world, SECOND * 2);
            arrive(&mut world, SECOND);
            world.apply(&Step::Rebind(moved, false));
            let (sent, before) = (world.now, world.oracle.delivered());
            stream(&mut world, SECOND);
            let after = world.oracle.delivered();
            assert!(
                after > before,
                "{moved} {gap:?}: nothing arrived since {sent:?}"
            );
            arrive(&mut world, MS * 100);
            assert_eq!((lost(&world, 0), lost(&world, 1)), (vec![], vec![]));
        }
    }
}

/// F13: the address of one end changes at some moment of the handshake. The old one of the
/// initiator is dead. Silence alone tells that its cookie is good no more, or that the ACCEPT came
/// from elsewhere than the INIT went to.
#[test]
fn f13_an_address_that_changes_during_the_handshake_is_followed() {
    for moved in [0, 1] {
        for step in 1..12 {
            let mut world = world(calm(2));
            send(&mut world, 0, 1, spec(2, 0, 100));
            ok(world.run_for(Duration::from_micros(20) * step));
            world.apply(&Step::Rebind(moved, moved == 1));
            let begun = world.now;
            arrive(&mut world, SECOND * 20);
            let took = world.now.since(begun);
            assert!(took < SECOND * 4, "{moved} {step}: {took:?}");
        }
    }
}

/// F27: the path shrinks without a report, below the size that worked before; then EMSGSIZE says
/// so.
#[test]
fn f27_a_black_hole_and_emsgsize_lower_the_packet_size() {
    for announced in [false, true] {
        let mut options = calm(2);
        options.links.mtu_announced = announced;
        let mut world = world(options);
        send(&mut world, 0, 20, spec(2, 0, 20_000));
        arrive(&mut world, SECOND * 5);
        world.apply(&Step::Mtu(1_200, announced));
        send(&mut world, 0, 100, spec(2, 0, 20_000));
        arrive(&mut world, SECOND * 60);
        assert_eq!(ended(&world, 0), vec![]);
        let node = suci_proto::types::NodeId(2);
        let mtu = world
            .engine(0)
            .and_then(|engine| engine.peer_stats(node))
            .map(|peer| peer.mtu);
        assert!(
            mtu.is_some_and(|mtu| (1_000..=1_200).contains(&mtu)),
            "{mtu:?}"
        );
    }
}

/// F39: a middle box drops marked packets, from the beginning or from the middle of a transfer on.
#[test]
fn f39_a_path_that_drops_marked_packets_is_sent_packets_without_marks() {
    for from_start in [true, false] {
        let mut options = calm(2);
        options.links.latency = MS * 10;
        let mut world = world(options);
        if !from_start {
            send(&mut world, 0, 20, spec(2, 0, 20_000));
            arrive(&mut world, SECOND * 5);
        }
        world.apply(&Step::Marks(Marks::Dropped));
        // Messages in the very first packet arrive, since that packet is unmarked.
        send(&mut world, 0, 60, spec(2, 0, 20_000));
        let before = world.oracle.delivered();
        // Some probe timeouts: one is two round trips and the peer's acknowledgement delay, at
        // most.
        ok(world.run_for(MS * 500));
        let came = world.oracle.delivered() - before;
        assert!(came >= 20, "{came} messages, from the start: {from_start}");
        arrive(&mut world, SECOND * 5);
        assert!(marks_stopped(&world, 0));
        send(&mut world, 1, 5, spec(1, 0, 3_000));
        arrive(&mut world, SECOND);
        // Both ends were never lost, and each found it out by itself.
        assert!(marks_stopped(&world, 1));
        assert_eq!((lost(&world, 0), lost(&world, 1)), (vec![], vec![]));
        let dropped = world.tally.marks_dropped;
        send(&mut world, 0, 60, spec(2, 0, 20_000));
        arrive(&mut world, SECOND * 5);
        assert_eq!(world.tally.marks_dropped, dropped, "nothing is marked");
        // The way back: the box is gone, and ten minutes later marks are tried.
        world.apply(&Step::Marks(Marks::Pass));
        ok(world.run_for(SECOND * 601));
        send(&mut world, 0, 20, spec(2, 0, 20_000));
        arrive(&mut world, SECOND * 5);
        send(&mut world, 0, 1, spec(2, 0, 2_000));
        arrive(&mut world, SECOND * 5);
        assert!(!marks_stopped(&world, 0));
    }
}

/// F39: the peer is stopped for a while. Its silence has nothing to do with marks.
#[test]
fn f39_a_peer_that_was_stopped_is_sent_marked_packets_again() {
    let mut world = world(calm(2));
    send(&mut world, 0, 20, spec(2, 0, 20_000));
    arrive(&mut world, SECOND * 5);
    world.apply(&Step::Pause(1, SECOND * 2));
    send(&mut world, 0, 20, spec(2, 0, 20_000));
    ok(world.run_for(SECOND));
    assert!(marks_stopped(&world, 0));
    arrive(&mut world, SECOND * 5);
    assert!(!marks_stopped(&world, 0));
}

/// F39: a middle box erases marks, or says of every marked packet that it met congestion.
#[test]
fn f39_marks_that_are_erased_or_always_congested_stop_nothing() {
    for (marks, from_start) in [
        (Marks::Erased, true),
        (Marks::Erased, false),
        (Marks::Congested, true),
        (Marks::Congested, false),
    ] {
        for latency in [MS / 20, MS * 10] {
            let mut options = calm(2);
            options.links.latency = latency;
            options.links.rate = Some(100_000_000);
            let mut world = world(options);
            if !from_start {
                send(&mut world, 0, 20, spec(2, 0, 20_000));
                arrive(&mut world, SECOND * 5);
            }
            world.apply(&Step::Marks(marks));
            let begun = world.now;
            send(&mut world, 0, 250, spec(2, 0, 20_000));
            arrive(&mut world, SECOND * 60);
            let took = world.now.since(begun);
            assert!(
                took < SECOND,
                "{marks:?} {from_start} {latency:?}: {took:?}"
            );
            // Amid a transfer and on a long path, the window may be large, since the bandwidth
            // grows in spite of marks. A single mark for each round trip hardly hurts it.
            if from_start && latency < MS {
                assert_eq!(marks_stopped(&world, 0), marks == Marks::Congested);
            }
        }
    }
}

/// Returns true if one of two hosts does not mark its packets any more.
fn marks_stopped(world: &World, host: usize) -> bool {
    let other = NodeId(if host == 0 { 2 } else { 1 });
    let engine = world.engine(host);
    engine
        .and_then(|engine| engine.peer_stats(other))
        .is_some_and(|stats| stats.marks_stopped)
}

/// Point at which a path becomes too narrow.
#[derive(Clone, Copy, Debug)]
enum Narrowed {
    BeforeHello,
    AfterSmallMessages,
    Midway,
}

/// F27: the path carries less than every path must, and no report says so: from the first packet,
/// after small messages, or in the middle of a transfer. Small messages arrive. For the others the
/// program hears the reason once, within 5 s.
#[test]
fn f27_a_path_below_the_floor_is_told() {
    use Narrowed::{AfterSmallMessages, BeforeHello, Midway};
    let mut longest = Duration::ZERO;
    for latency in [MS / 20, MS * 5, MS * 50] {
        for size in [600, 1_000, 1_199] {
            for narrowed in [BeforeHello, AfterSmallMessages, Midway] {
                for (count, length) in [(5, 700), (1, 1_300), (20, 20_000), (1, 1_000_000)] {
                    let mut options = calm(2);
                    options.links.latency = latency;
                    let took = narrow_is_told(options, size, narrowed, spec(2, 0, length), count);
                    println!("{latency:?} {size} B {narrowed:?} {count} x {length} B: {took:?}");
                    longest = longest.max(took);
                }
            }
        }
    }
    println!("figure: told after {longest:?} at most");
    assert!(longest < SECOND * 5, "{longest:?}");
}

/// Returns the time after which the sender hears that the path is narrow, or the messages arrived
/// in smaller packets. Checks that the sender is told once, and then sends few packets.
fn narrow_is_told(
    options: Options,
    size: usize,
    narrowed: Narrowed,
    message: Spec,
    count: u32,
) -> Duration {
    let latency = options.links.latency;
    let mut world = world(options);
    if !matches!(narrowed, Narrowed::BeforeHello) {
        send(&mut world, 0, 5, spec(2, 0, 100));
        arrive(&mut world, SECOND * 5);
    }
    if matches!(narrowed, Narrowed::Midway) {
        send(&mut world, 0, 20, spec(2, 0, 20_000));
        ok(world.run_for(latency));
    }
    world.apply(&Step::Mtu(size, false));
    let begun = world.now;
    send(&mut world, 0, count, message);
    let mut took = None;
    while took.is_none() {
        let passed = world.now.since(begun);
        assert!(passed < SECOND * 30, "neither told nor delivered");
        if world.oracle.is_settled() {
            return passed;
        }
        ok(world.run_for(MS));
        took = told_narrow(&world).first().map(|at| at.since(begun));
    }
    ok(world.run_for(SECOND * 10));
    let packets = record(&mut world);
    ok(world.run_for(SECOND * 10));
    let sent = packets.borrow().len();
    assert!(sent < 200, "{sent} packets in 10 s, to no avail");
    assert_eq!(told_narrow(&world).len(), 1, "once");
    took.unwrap_or_default()
}

/// Returns the times at which the first host heard that the path is narrow.
fn told_narrow(world: &World) -> Vec<Instant> {
    let reason = RefusedReason::Narrow;
    let narrow = |event: &Event| matches!(event, Event::Refused { reason: r, .. } if *r == reason);
    let events = world.events(0);
    let told = events.into_iter().filter(|(_, event)| narrow(event));
    told.map(|(at, _)| at).collect()
}

/// F27: a path of the smallest size that loses packets of any size is never taken for a narrow one.
#[test]
fn f27_losses_alone_do_not_prove_a_path_narrow() {
    let mut told = 0;
    for percent in [1, 5, 10, 20, 30] {
        for seed in 0..10 {
            let mut options = calm(2);
            options.seed = seed;
            options.links.route_mtu = 1_200;
            options.links.mtu = 1_200;
            options.faults.loss = percent * 10_000;
            let mut world = world(options);
            for length in [1_100, 3_000, 100, 1_000, 40_000] {
                send(&mut world, 0, 10, spec(2, 0, length));
                arrive(&mut world, SECOND * 30);
            }
            told += told_narrow(&world).len();
        }
    }
    assert_eq!(told, 0, "told of paths that are wide enough");
}

/// F27: hosts with jumbo frames, and a path that carries Ethernet's size from the beginning or from
/// the middle of a transfer on, without a report. Once the size is found, the receiver charges for
/// the size that comes, and not for the size that both ends could receive: the buffer holds more
/// packets.
#[test]
fn f27_a_receiver_charges_for_the_size_that_the_path_carries() {
    for from_start in [true, false] {
        let mut options = calm(2);
        options.links.latency = MS * 10;
        options.links.rate = Some(125_000_000);
        options.links.route_mtu = 8_972;
        options.links.mtu = if from_start { 1_472 } else { 8_972 };
        options.links.mtu_announced = false;
        let mut world = world(options);
        send(&mut world, 0, 20, spec(2, 0, 100_000));
        arrive(&mut world, SECOND * 20);
        if !from_start {
            world.apply(&Step::Mtu(1_472, false));
        }
        // The size is found while messages are under way.
        send(&mut world, 0, 400, spec(2, 0, 100_000));
        arrive(&mut world, SECOND * 2);
        let begun = world.now;
        send(&mut world, 0, 1_000, spec(2, 0, 100_000));
        arrive(&mut world, SECOND * 60);
        let took = world.now.since(begun);
        let rate = 1_000.0 * 100_000.0 * 8.0 / took.as_secs_f64() / 1e6;
        assert!(rate > 400.0, "{from_start}: {rate} Mbit/s");
    }
}

/// F27: hosts of every MTU, and a path that carries Ethernet's size without a report.
#[test]
fn f27_hosts_of_every_mtu_find_the_size_of_the_path_within_a_second() {
    for host in (1_500..=9_000).step_by(100) {
        let mut options = calm(2);
        options.links.latency = MS * 10;
        options.links.rate = Some(37_500_000);
        options.links.route_mtu = host - 28;
        options.links.mtu = 1_472;
        options.links.mtu_announced = false;
        let mut world = world(options);
        send(&mut world, 0, 5, spec(2, 0, 65_536));
        arrive(&mut world, SECOND);
    }
}

/// F30: every tenth packet has bits flipped past the UDP checksum.
#[test]
fn f30_flipped_bits_are_counted_and_never_delivered() {
    let mut options = calm(2);
    options.faults.flip = 100_000;
    options.traffic = chatty(400);
    let mut world = world(options);
    ok(world.run_for(SECOND * 10));
    let (mut refused, mut elsewhere) = (0, 0);
    for engine in (0..2).filter_map(|host| world.engine(host)) {
        let counted = engine.counters();
        refused += counted.bad_checksum + counted.malformed + counted.wrong_version;
        elsewhere += counted.unknown_connection;
    }
    let flipped = world.tally.flipped;
    assert!(flipped > 50, "{}", world.tally);
    if world.options.sealed {
        // Without a checksum, a changed index is that of another connection.
        assert!((flipped..=flipped + elsewhere).contains(&(refused + elsewhere)));
    } else {
        assert_eq!(refused, flipped, "each one counted");
    }
    world.mend();
    ok(world.settle());
}

/// F31: loss up to one half in either direction, with everything else a network does.
#[test]
fn f31_promises_hold_at_every_loss_up_to_one_half() {
    for percent in [1, 5, 10, 20, 30, 40, 50] {
        let mut options = calm(3);
        options.seed = percent;
        options.traffic = chatty(30);
        options.faults = Faults {
            loss: u32::try_from(percent).unwrap_or(0) * 10_000,
            duplicate: 50_000,
            reorder: 100_000,
            reorder_by: Duration::from_millis(5),
            asymmetry: if percent % 20 == 0 { 100 } else { 0 },
            ..Faults::NONE
        };
        let outcome = runner::run(options, false);
        assert!(
            outcome.failure.is_none(),
            "{percent} %: {:?}",
            outcome.failure
        );
        assert!(outcome.tally.lost > 0);
    }
}

/// F31: one direction is cut for longer than the silence timeout; nothing is lost by it.
#[test]
fn f31_an_asymmetric_partition_is_survived() {
    for (outwards, inwards) in [(true, false), (false, true), (true, true)] {
        let mut world = world(calm(2));
        send(&mut world, 0, 5, spec(2, 0, 1_000));
        arrive(&mut world, SECOND * 5);
        world.apply(&Step::Cut(vec![0], outwards, inwards, SECOND * 25));
        send(&mut world, 0, 50, spec(2, 0, 3_000));
        ok(world.run_for(SECOND * 25));
        assert_eq!(
            lost(&world, 0).len(),
            1,
            "lost once ({outwards}, {inwards})"
        );
        arrive(&mut world, SECOND * 30);
        assert_eq!(up(&world, 0), 2, "up again");
        assert_eq!(ended(&world, 0), vec![]);
        assert_eq!(world.oracle.delivered(), 55);
    }
}

/// F31: one direction is cut before anything was said. The program hears of it within the silence
/// timeout, and everything arrives once the direction is mended.
#[test]
fn f31_a_direction_that_is_cut_from_the_beginning_is_told() {
    for (outwards, inwards) in [(true, false), (false, true)] {
        let mut world = world(calm(2));
        world.apply(&Step::Cut(vec![0], outwards, inwards, SECOND * 25));
        send(&mut world, 0, 5, spec(2, 0, 3_000));
        ok(world.run_for(SECOND * 11));
        assert_eq!(lost(&world, 0).len(), 1, "({outwards}, {inwards})");
        arrive(&mut world, SECOND * 20);
        assert_eq!((up(&world, 0), ended(&world, 0)), (1, vec![]));
    }
}

/// F31: packets to one end take a route that is 500 times as long as the way back, from the
/// beginning or from the middle of a stream on. Streams both ways go on.
#[test]
fn f31_routes_that_differ_by_direction_hold_nothing_up() {
    for from_start in [true, false] {
        let mut options = calm(2);
        if from_start {
            options.links.detour = MS * 50;
        }
        let mut world = world(options);
        if !from_start {
            send(&mut world, 0, 20, spec(2, 0, 20_000));
            arrive(&mut world, SECOND);
            world.network.links.detour = MS * 50;
        }
        let begun = world.now;
        for (host, to) in [(0, 2), (1, 1)] {
            send(&mut world, host, 250, spec(to, 0, 20_000));
        }
        arrive(&mut world, SECOND * 60);
        let took = world.now.since(begun);
        assert!(took < SECOND * 2, "{from_start}: {took:?}");
        assert_eq!((lost(&world, 0), lost(&world, 1)), (vec![], vec![]));
    }
}

/// F31: a thousand senders and one receiver, whose kernel buffer must never overflow; the simulator
/// fails on any drop that the receiver could have prevented.
#[test]
fn f31_incast_of_a_thousand_overruns_nothing() {
    let mut options = calm(1_001);
    options.star = true;
    options.traffic = suci_sim::options::Traffic {
        messages: 3,
        to_first: true,
        sizes: vec![(1, 1_000, 1_300)],
        burst: 3,
        ..chatty(3)
    };
    options.faults_for = SECOND * 3;
    let outcome = runner::run(options, false);
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    assert_eq!(outcome.tally.overrun_excused, 0);
    assert!(outcome.tally.messages >= 3_000, "{}", outcome.tally);
}

/// F31: the last packet of a burst is lost, and no later one tells. The first probe brings its
/// content.
#[test]
fn f31_a_lost_tail_comes_with_the_first_probe() {
    let mut world = world(calm(2));
    send(&mut world, 0, 5, spec(2, 0, 100));
    arrive(&mut world, SECOND);
    let sent = Rc::new(Cell::new(0));
    let count = Rc::clone(&sent);
    world.filter = Some(Box::new(move |_, packet| {
        let ours = packet.source == 0;
        count.set(count.get() + u32::from(ours));
        ours && count.get() == 1
    }));
    send(&mut world, 0, 1, spec(2, 0, 100));
    let before = world.oracle.delivered();
    while world.oracle.delivered() == before {
        ok(world.run_for(Duration::from_micros(10)));
    }
    assert_eq!(sent.get(), 2, "the message, and the probe with it");
}

/// F13: measurements of the old path are forgotten with it.
#[test]
fn f13_a_moved_path_is_measured_anew() {
    let mut options = calm(2);
    options.links.latency = MS * 50;
    let mut world = world(options);
    send(&mut world, 1, 20, spec(1, 0, 100));
    arrive(&mut world, SECOND * 5);
    let rtt = |world: &World| {
        let engine = world.engine(1);
        let stats = engine.and_then(|engine| engine.peer_stats(NodeId(1)));
        stats.map(|stats| stats.rtt).unwrap_or_default()
    };
    let before = rtt(&world);
    assert!(before > MS * 50, "{before:?}");
    world.network.links.latency = Duration::from_micros(50);
    send(&mut world, 1, 5, spec(1, 0, 5_000));
    world.apply(&Step::Rebind(0, false));
    send(&mut world, 0, 1, spec(2, 0, 100));
    arrive(&mut world, SECOND * 5);
    send(&mut world, 1, 5, spec(1, 0, 5_000));
    arrive(&mut world, SECOND * 5);
    let after = rtt(&world);
    assert!(after < MS * 5, "{after:?}");
}
