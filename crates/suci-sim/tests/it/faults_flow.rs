//! Slow readers, full buffers, closed windows: entries of docs/faults.md about flow.

use crate::scenario::{
    MS, SECOND, arrive, calm, chatty, ended, lost, ok, receive, send, spec, world,
};
use suci_proto::Config;
use suci_proto::time::Duration;
use suci_proto::types::NodeId;
use suci_sim::options::{Consume, Step, Traffic};
use suci_sim::oracle::Spec;
use suci_sim::runner;
use suci_sim::workload::Sent;

fn small_memory() -> Config {
    Config {
        memory: 1 << 20,
        max_message: 1 << 19,
        send_queue: 1 << 20,
        ..Config::default()
    }
}

/// F18: the program stops taking messages; the sender is told to wait, the kernel drops
/// nothing (the simulator fails on a drop), and nothing is missing afterwards.
#[test]
fn f18_a_stopped_consumer_holds_the_sender_back_and_loses_nothing() {
    let mut options = calm(2);
    options.configs = vec![small_memory()];
    let mut world = world(options);
    send(&mut world, 0, 1, spec(2, 0, 10));
    arrive(&mut world, SECOND);
    world.apply(&Step::StopConsuming(1, SECOND * 30));
    let mut accepted = 0_u64;
    let mut blocked = 0;
    for _ in 0..2_000 {
        match world.send(0, spec(2, 0, 10_000)) {
            Ok(Some((Sent::Accepted, _))) => accepted += 1,
            Ok(Some((Sent::Blocked, _))) => blocked += 1,
            other => panic!("{other:?}"),
        }
        ok(world.run_for(MS * 10));
    }
    assert!(blocked > 1_000, "{blocked} of 2000 sends were told to wait");
    assert!(
        accepted * 10_000 < 4 << 20,
        "{accepted} accepted with 1 MiB at either side"
    );
    assert!(
        lost(&world, 0).is_empty(),
        "a slow reader is not a dead one"
    );
    assert_eq!(world.tally.overrun_excused, 0);
    receive(&mut world, accepted + 1, SECOND * 40);
}

/// F19: while the window is closed, everything that would open it again is lost for seconds.
#[test]
fn f19_a_lost_credit_update_does_not_close_the_window_for_ever() {
    let mut options = calm(2);
    options.configs = vec![small_memory()];
    let mut world = world(options);
    world.apply(&Step::StopConsuming(1, SECOND * 3));
    for _ in 0..300 {
        let _ = world.send(0, spec(2, 0, 10_000));
    }
    ok(world.run_for(SECOND * 2));
    // The reader goes on at 3 s; its engine's packets about that vanish until 6 s.
    world.apply(&Step::Cut(vec![1], true, false, SECOND * 4));
    ok(world.run_for(SECOND * 4));
    arrive(&mut world, SECOND * 10);
    assert_eq!(ended(&world, 0), vec![]);
}

/// F21: acknowledgements, probes and CLOSE pass a window that lets no data through.
#[test]
fn f21_control_passes_a_closed_window() {
    let mut options = calm(2);
    options.configs = vec![small_memory()];
    options.consumes = vec![Consume::Eager];
    let mut world = world(options);
    world.apply(&Step::StopConsuming(1, SECOND * 60));
    let mut accepted = 0;
    for _ in 0..300 {
        let sent = world.send(0, spec(2, 0, 10_000));
        accepted += u64::from(matches!(sent, Ok(Some((Sent::Accepted, _)))));
    }
    ok(world.run_for(SECOND * 30));
    assert!(
        lost(&world, 0).is_empty() && lost(&world, 1).is_empty(),
        "probes are answered"
    );
    // The other direction is not blocked by it.
    send(&mut world, 1, 20, spec(1, 0, 5_000));
    let before = world.oracle.delivered();
    ok(world.run_for(SECOND));
    assert!(world.oracle.delivered() >= before + 20);
    world.apply(&Step::Close(0, SECOND * 2, SECOND * 100));
    ok(world.run_for(SECOND * 5));
    assert!(world.engine(0).is_none(), "closed at its deadline");
    world.apply(&Step::Crash(0, None));
    ok(world.run_for(SECOND * 40));
    // The other side's 20 arrived.
    let missing = accepted + 20 - world.oracle.delivered();
    assert_eq!(
        ended(&world, 1),
        vec![suci_proto::EndReason::CutShort { missing }],
        "and the peer heard of it"
    );
}

/// F22: both sides begin with messages larger than every window, and read whenever they like.
#[test]
fn f22_huge_messages_from_both_sides_at_once_make_progress() {
    for (memory, drain) in [
        (1 << 20, Consume::Eager),
        (
            8 << 20,
            Consume::Slow {
                period: MS * 50,
                count: 1,
            },
        ),
    ] {
        let mut options = calm(2);
        options.configs = vec![Config {
            memory,
            max_message: memory / 2,
            ..Config::default()
        }];
        options.consumes = vec![drain];
        let mut world = world(options);
        for round in 0..3_u32 {
            send(&mut world, 0, 1, spec(2, round % 2, 3_000_000));
            send(&mut world, 1, 1, spec(1, round % 2, 3_000_000));
            send(&mut world, 0, 3, spec(2, 7, 100));
            send(&mut world, 1, 3, spec(1, 7, 100));
        }
        receive(&mut world, 24, SECOND * 60);
    }
}

/// F25, F26, F28: sockets that are full, refuse segmentation or report an error of another
/// destination.
#[test]
fn f26_full_sockets_and_f25_stray_errors_lose_nothing() {
    let mut options = calm(3);
    options.socket_full = 200_000;
    options.no_gso = 50_000;
    options.port_unreachable = true;
    options.script = vec![(MS * 30, Step::Crash(2, Some(SECOND)))];
    options.traffic = chatty(200);
    let outcome = runner::run(options, false);
    assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
    assert!(outcome.tally.refused_sends > 100, "{}", outcome.tally);
}

/// F32: seven senders push far more than the receiver may hold. Its engine's audit (called in every
/// cycle) and the accepted bytes that its program has not taken both stay under the cap.
#[test]
fn f32_memory_stays_under_the_cap_whatever_peers_send() {
    let mut options = calm(8);
    options.configs = vec![small_memory()];
    options.traffic = Traffic {
        to_first: true,
        sizes: vec![(1, 5_000, 20_000)],
        ..chatty(2_000)
    };
    options.script = vec![(MS * 2, Step::StopConsuming(0, SECOND * 20))];
    let mut world = world(options);
    ok(world.run_for(SECOND * 15));
    let carried: u64 = (1..8)
        .filter_map(|host| world.engine(host)?.peer_stats(NodeId(1)))
        .map(|peer| peer.queued_bytes)
        .sum();
    assert!(carried > 0, "senders keep what the receiver cannot hold");
    assert!(
        world.held(0) <= 1 << 20,
        "{} B held for the program",
        world.held(0)
    );
    world.mend();
    ok(world.settle());
}

/// F32: hours of virtual time, one message now and then: nothing grows.
#[test]
fn f32_a_long_soak_leaves_nothing_queued() {
    let mut world = world(calm(2));
    let small = Spec {
        notify: false,
        ..spec(2, 0, 200)
    };
    for _ in 0..2_000 {
        send(&mut world, 0, 3, small);
        ok(world.run_for(Duration::from_secs(7)));
        let queued = world
            .engine(0)
            .and_then(|e| e.peer_stats(NodeId(2)))
            .map(|p| p.queued_messages);
        assert_eq!(queued, Some(0));
    }
    assert_eq!(world.oracle.delivered(), 6_000);
    assert!(world.now.as_nanos() > 3 * 3_600 * 1_000_000_000);
}
