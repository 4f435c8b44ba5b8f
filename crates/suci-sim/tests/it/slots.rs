//! More peers than slots: each question is answered in time, whatever other peers do.

use crate::contact::{all_answered, newcomers, refusals};
use crate::scenario::{MS, SECOND, ok, send, spec, world};
use suci_proto::time::Duration;
use suci_sim::options::Step;
use suci_sim::profiles::Profile;
use suci_sim::runner::run_seed;

/// The receive buffer that Linux grants by its stock limit: 64 slots.
const STOCK: u64 = 2 * 212_992;

/// Clients ask once and again a second later, at once or in turn. The oracle judges each question
/// and each answer.
#[test]
fn f34_clients_that_share_slots_are_answered_within_a_second() {
    for (clients, sealed) in [(64, false), (70, false), (70, true), (200, false)] {
        for pause in [Duration::ZERO, MS * 3] {
            let mut options = newcomers(clients, STOCK);
            options.traffic.reply = 1_000_000;
            options.sealed = sealed;
            options.question_within = Some(SECOND / 2);
            let mut world = world(options);
            for round in 0..4 {
                for host in 1..=clients {
                    send(&mut world, host, 1, spec(1, 0, 100));
                    ok(world.run_for(pause));
                }
                ok(world.run_for(SECOND));
                let all = 2 * (round + 1) * clients as u64;
                assert_eq!(world.oracle.delivered(), all, "{clients}, {pause:?}");
            }
            assert_eq!(world.oracle.questions(), world.oracle.delivered());
        }
    }
}

/// 300 strangers stop while they say hello, each elsewhere within the handshake. Then others come:
/// there are slots for all of them.
#[test]
fn f34_strangers_that_stop_within_the_handshake_keep_nobody_out() {
    const STOPPED: usize = 300;
    const OTHERS: usize = 500;
    let mut options = newcomers(STOPPED + OTHERS, 8 << 20);
    options.traffic.reply = 1_000_000;
    let mut world = world(options);
    for host in 1..=STOPPED {
        send(&mut world, host, 1, spec(1, 0, 100));
    }
    for step in 0..10 {
        for host in (1..=STOPPED).filter(|host| host % 10 == step) {
            world.apply(&Step::Pause(host, SECOND * 60));
        }
        ok(world.run_for(Duration::from_micros(40)));
    }
    ok(world.run_for(MS * 20));
    let others = 1 + STOPPED..1 + STOPPED + OTHERS;
    let time = all_answered(&mut world, others.clone(), SECOND, |_| ());
    println!("{OTHERS} after {STOPPED} that stopped: {time:?}");
    assert!(time.is_some());
    assert_eq!(refusals(&world, others), 0);
}

/// Random visits in which a message once waited for long: the newest packet of each end was lost,
/// and no number was left for ten seconds; nodes that left after their HELLO kept places; a
/// node waited a second for a packet for the answer to its INIT; an end asked with its last number.
#[test]
fn f34_visits_with_losses_are_answered_in_time() {
    for seed in [
        754_238_684_049,
        754_238_684_557,
        754_238_685_720,
        754_238_686_171,
        754_238_687_340,
        754_238_688_292,
        754_238_689_430,
        111_000_001_564,
        111_000_002_033,
        131_000_001_267,
    ] {
        let outcome = run_seed(seed, Profile::Visits, None, false);
        assert_eq!(outcome.failure, None, "seed {seed}");
    }
}
