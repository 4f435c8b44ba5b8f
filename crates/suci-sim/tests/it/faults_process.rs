//! Faults of processes: entries of docs/faults.md about starting, stopping and dying.

use crate::scenario::{
    MS, SECOND, arrive, calm, chatty, ended, lost, ok, outcomes, quiet, send, spec, up, world,
};
use suci_proto::time::{Duration, Instant};
use suci_proto::types::NodeId;
use suci_proto::{Config, EndReason, Event, LostCause, Outcome};
use suci_sim::options::{DuplicateAt, Step};
use suci_sim::world::World;

/// F12: a second process with a live node's ID is refused, whatever it says about itself.
#[test]
fn f12_a_second_process_with_a_live_id_is_refused_without_effect() {
    let mut options = calm(2);
    options.duplicates = vec![DuplicateAt {
        of: 0,
        start: MS * 100,
    }];
    let mut world = world(options);
    send(&mut world, 0, 5, spec(2, 0, 100));
    ok(world.run_for(MS * 200));
    send(&mut world, 2, 1, spec(2, 0, 100));
    for _ in 0..20 {
        send(&mut world, 0, 5, spec(2, 0, 100));
        send(&mut world, 1, 5, spec(1, 0, 100));
        ok(world.run_for(MS * 200));
    }
    let refused = |(_, event): &(Instant, Event)| matches!(event, Event::Refused { .. });
    assert!(
        world.events(2).iter().any(refused),
        "the newcomer hears of it"
    );
    assert_eq!((ended(&world, 0), ended(&world, 1)), (vec![], vec![]));
    assert_eq!(
        world.oracle.delivered(),
        205,
        "the live node's messages, none of the newcomer's"
    );
}

/// F12, F14: when the live node falls silent, the newcomer takes its place.
#[test]
fn f12_a_newcomer_replaces_a_node_that_fell_silent() {
    let mut options = calm(2);
    options.duplicates = vec![DuplicateAt {
        of: 0,
        start: MS * 100,
    }];
    let mut world = world(options);
    send(&mut world, 0, 5, spec(2, 0, 100));
    ok(world.run_for(MS * 200));
    world.apply(&Step::Crash(0, None));
    send(&mut world, 2, 5, spec(2, 0, 100));
    ok(world.run_for(SECOND * 40));
    assert_eq!(ended(&world, 1), vec![EndReason::Restarted]);
    assert_eq!(world.oracle.delivered(), 10);
}

/// F14: a process of the same machine is killed and started again on another port: its peers need
/// not wait for the silence timeout, whether they were talking to it or not.
#[test]
fn f14_a_process_back_on_another_port_of_one_machine_is_accepted_at_once() {
    for (talks, loss) in [(true, 0), (false, 0), (true, 100_000), (false, 100_000)] {
        let mut options = calm(3);
        options.one_machine = true;
        options.faults.loss = loss;
        options.duplicates = vec![DuplicateAt {
            of: 0,
            start: SECOND * 5,
        }];
        let mut world = world(options);
        send(&mut world, 0, 5, spec(2, 0, 100));
        send(&mut world, 0, 5, spec(3, 0, 100));
        arrive(&mut world, SECOND * 2);
        ok(world.run_until(Instant::ZERO + SECOND * 5));
        world.apply(&Step::Crash(0, None));
        if talks {
            send(&mut world, 1, 1, spec(1, 0, 100));
            send(&mut world, 2, 1, spec(1, 0, 100));
        }
        send(&mut world, 3, 5, spec(2, 0, 100));
        send(&mut world, 3, 5, spec(3, 0, 100));
        ok(world.run_for(SECOND));
        for peer in [1, 2] {
            assert_eq!(
                ended(&world, peer),
                [EndReason::Restarted],
                "{talks} {loss}"
            );
        }
        let refused = |(_, event): &(Instant, Event)| matches!(event, Event::Refused { .. });
        assert!(!world.events(3).iter().any(refused), "nobody doubted it");
        assert_eq!(world.oracle.delivered(), 20);
    }
}

/// F17: peers of a process that died on the same machine hear of it within a few probe timeouts,
/// and why.
#[test]
fn f17_the_death_of_a_process_on_one_machine_is_known_at_once() {
    for one_machine in [true, false] {
        let mut options = calm(2);
        options.one_machine = one_machine;
        let mut world = world(options);
        send(&mut world, 0, 5, spec(2, 0, 100));
        arrive(&mut world, SECOND);
        world.apply(&Step::Crash(1, None));
        send(&mut world, 0, 1, spec(2, 0, 100));
        ok(world.run_for(MS * 100));
        let told: Vec<_> = world
            .events(0)
            .into_iter()
            .map(|(_, event)| event)
            .collect();
        let died = Event::Lost {
            node: NodeId(2),
            cause: LostCause::ProcessDied,
        };
        assert_eq!(told.contains(&died), one_machine, "{told:?}");
    }
}

/// F14: a peer dies and is back at once; one event, its old traffic dropped, both usable.
#[test]
fn f14_a_restarted_peer_is_one_event_and_usable_at_once() {
    for back in [Duration::from_micros(10), MS * 20, SECOND * 3] {
        let mut world = world(calm(3));
        for host in 0..3 {
            for to in (1..4).filter(|to| *to != host + 1) {
                send(&mut world, host as usize, 10, spec(to, 0, 2_000));
            }
        }
        ok(world.run_for(Duration::from_micros(400)));
        world.apply(&Step::Crash(1, Some(back)));
        ok(world.run_for(back + MS));
        send(&mut world, 0, 10, spec(2, 1, 100));
        send(&mut world, 1, 10, spec(1, 1, 100));
        ok(world.run_for(SECOND * 8));
        assert_eq!(
            ended(&world, 0),
            vec![EndReason::Restarted],
            "back after {back:?}"
        );
        assert!(
            ended(&world, 1).is_empty(),
            "the successor knows of no session before"
        );
        assert!(
            lost(&world, 0).is_empty(),
            "it answered before it could be lost"
        );
        send(&mut world, 0, 10, spec(2, 2, 100));
        send(&mut world, 1, 10, spec(3, 2, 100));
        arrive(&mut world, SECOND * 5);
    }
}

/// F16: stopped for five seconds, half a minute, three minutes, with messages on the way.
#[test]
fn f16_a_stopped_process_goes_on_where_it_was() {
    for seconds in [5, 30, 180] {
        let mut world = world(calm(3));
        send(&mut world, 0, 5, spec(2, 0, 1_000));
        send(&mut world, 1, 5, spec(1, 0, 1_000));
        arrive(&mut world, SECOND);
        send(&mut world, 1, 50, spec(1, 0, 5_000));
        world.apply(&Step::Pause(1, SECOND * seconds));
        for _ in 0..10 {
            send(&mut world, 0, 5, spec(2, 0, 3_000));
            send(&mut world, 0, 5, spec(3, 0, 3_000));
            ok(world.run_for(SECOND / 10 * seconds));
        }
        arrive(&mut world, SECOND * 20);
        assert!(
            lost(&world, 1).is_empty(),
            "its own stop is nobody's silence ({seconds} s)"
        );
        assert_eq!(
            lost(&world, 0).len(),
            usize::from(seconds > 10),
            "{seconds} s"
        );
        assert_eq!((ended(&world, 0), ended(&world, 1)), (vec![], vec![]));
        assert_eq!(world.oracle.delivered(), 160);
    }
}

/// F17: kill -9 of one of four under load.
#[test]
fn f17_a_killed_process_is_lost_once_and_ended_once() {
    let mut options = calm(4);
    options.traffic = chatty(3_000);
    let mut world = world(options);
    ok(world.run_for(SECOND));
    let died = world.now;
    world.apply(&Step::Crash(3, None));
    ok(world.run_for(SECOND * 13));
    for host in 0..3 {
        let times = lost(&world, host);
        let silence = Duration::from_secs(10);
        assert_eq!(times.len(), 1, "host {host}");
        assert!(
            times.iter().all(|at| at.since(died) <= silence * 5 / 4),
            "host {host}: {times:?}"
        );
        assert!(ended(&world, host).is_empty());
    }
    ok(world.run_for(SECOND * 300));
    for host in 0..3 {
        assert_eq!(ended(&world, host), vec![EndReason::Silent], "host {host}");
        let outcomes = outcomes(&world, host);
        assert!(
            outcomes
                .iter()
                .all(|outcome| *outcome != Outcome::Delivered)
                || outcomes.len() > 1
        );
        let others = (0..3).filter(|other| *other != host);
        for other in others {
            let node = NodeId(world.options.node(other));
            let link = world
                .engine(host)
                .and_then(|e| e.peer_stats(node))
                .map(|peer| peer.link);
            assert_eq!(
                link,
                Some(suci_proto::LinkState::Up),
                "{host} still has {other}"
            );
        }
    }
}

/// F17: after the death of one of four that all talk to all, each flow between the others has at
/// least nine tenths of what it has where the dead one never talked: 64 messages of 1 KB are
/// outstanding on each, on links of 1 Gbit/s that they fill.
#[test]
fn f17_the_death_of_one_of_four_slows_no_other_flow_down() {
    let pairs = |nodes: usize| -> Vec<(usize, usize)> {
        let all = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
        all.filter(|(from, to)| from != to).collect()
    };
    let fresh = || {
        let mut options = calm(4);
        options.links.rate = Some(125_000_000);
        world(options)
    };
    // Keeps the flows full, and returns the messages that left on each.
    let run = |world: &mut World, flows: &[(usize, usize)], millis: u64| -> Vec<u64> {
        let queue = |world: &World, (from, to): (usize, usize)| {
            let node = NodeId(world.options.node(to));
            let stats = world.engine(from).and_then(|e| e.peer_stats(node)).unwrap();
            let queued = stats.queued_messages;
            (stats.traffic.messages_sent - queued, queued)
        };
        let begun: Vec<_> = flows.iter().map(|flow| queue(world, *flow).0).collect();
        let end = world.now + Duration::from_millis(millis);
        while world.now < end {
            for (from, to) in flows {
                let missing = 64_u64.saturating_sub(queue(world, (*from, *to)).1);
                let node = world.options.node(*to);
                send(world, *from, missing as u32, spec(node, 0, 1_000));
            }
            ok(world.run_for(Duration::from_micros(200)));
        }
        let now = flows.iter().map(|flow| queue(world, *flow).0);
        now.zip(begun).map(|(now, begun)| now - begun).collect()
    };
    let (mut without, mut with) = (fresh(), fresh());
    run(&mut without, &pairs(3), 200);
    let before = run(&mut without, &pairs(3), 400);
    run(&mut with, &pairs(4), 200);
    with.apply(&Step::Crash(3, None));
    let after = run(&mut with, &pairs(3), 400);
    assert!(
        before.iter().all(|messages| *messages > 10_000),
        "{before:?}"
    );
    let kept = before
        .iter()
        .zip(&after)
        .all(|(before, after)| *after >= before * 9 / 10);
    assert!(
        kept,
        "{before:?} without the dead one, {after:?} after its death"
    );
}

/// F23: both open at the same instant; the handshake packets cross.
#[test]
fn f23_crossing_opens_make_one_connection() {
    for seed in 0..20 {
        let mut options = calm(2);
        options.seed = seed;
        options.faults.loss = if seed % 2 == 0 { 0 } else { 200_000 };
        let mut world = world(options);
        send(&mut world, 0, 3, spec(2, 0, 100));
        send(&mut world, 1, 3, spec(1, 0, 100));
        arrive(&mut world, SECOND * 20);
        assert_eq!((up(&world, 0), up(&world, 1)), (1, 1), "seed {seed}");
        assert_eq!((ended(&world, 0), ended(&world, 1)), (vec![], vec![]));
    }
}

/// F23: a client that starts a minute before its server keeps trying.
#[test]
fn f23_a_client_that_starts_long_before_its_server_keeps_trying() {
    let mut options = calm(2);
    options.port_unreachable = true;
    let mut world = world(options);
    world.apply(&Step::Crash(1, Some(SECOND * 60)));
    send(&mut world, 0, 10, spec(2, 0, 5_000));
    ok(world.run_for(SECOND * 60));
    assert_eq!(world.oracle.delivered(), 0);
    arrive(&mut world, SECOND * 10);
    assert_eq!(ended(&world, 0), vec![]);
}

/// F17: a process that nothing serves while it computes, for longer than the silence timeout, is
/// reported as quiet, not lost, and goes on where it was.
#[test]
fn f17_an_unattended_program_that_computes_is_quiet_and_not_lost() {
    let mut options = calm(2);
    let unattended = Config {
        unattended: true,
        ..Config::default()
    };
    options.configs = vec![Config::default(), unattended];
    let mut world = world(options);
    send(&mut world, 0, 5, spec(2, 0, 100));
    arrive(&mut world, SECOND);
    world.apply(&Step::Pause(1, SECOND * 400));
    send(&mut world, 0, 5, spec(2, 0, 100));
    ok(world.run_for(SECOND * 15));
    assert_eq!(quiet(&world, 0), 1);
    ok(world.run_for(SECOND * 380));
    assert_eq!(
        world
            .engine(0)
            .and_then(|engine| engine.peer_stats(NodeId(2)))
            .map(|stats| stats.link),
        Some(suci_proto::LinkState::Quiet),
    );
    arrive(&mut world, SECOND * 20);
    assert_eq!((quiet(&world, 0), lost(&world, 0).len()), (1, 0));
    assert_eq!((up(&world, 0), ended(&world, 0)), (2, vec![]));
}

/// A program that closes before everything left says so: ten messages of 1 MiB over 20 Mbit/s, and
/// a second of patience. The receiver hears how many are missing; where patience suffices, that the
/// close was in order.
#[test]
fn a_close_that_gave_messages_up_is_none_in_order() {
    for (patience, whole) in [(SECOND, false), (SECOND * 30, true)] {
        let mut options = calm(2);
        options.links.rate = Some(20_000_000 / 8);
        let mut world = world(options);
        send(&mut world, 0, 10, spec(2, 0, 1 << 20));
        world.apply(&Step::Close(0, patience, SECOND * 1_000));
        ok(world.run_for(SECOND * 40));
        let received = world.oracle.delivered();
        let missing = 10 - received;
        let expected = if whole {
            EndReason::Closed
        } else {
            assert!((1..10).contains(&received), "{received}");
            EndReason::CutShort { missing }
        };
        assert_eq!(ended(&world, 1), [expected]);
    }
}
