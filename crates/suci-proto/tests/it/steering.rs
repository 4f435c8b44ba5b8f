//! The program's control: its own controllers, the choice of the congestion controller, and manual
//! retransmission.

use crate::net::message;
use crate::net::{Net, id};
use crate::pair::Pair;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use suci_proto::time::Duration;
use suci_proto::types::NodeId;
use suci_proto::{
    Config, ControllerChoice, Decision, Engine, Event, LinkState, Observation, Steer, WaitReason,
};

const MOMENT: Duration = Duration::from_millis(5);

/// Two hosts that know each other.
fn opened() -> Pair {
    let mut pair = Pair::new();
    pair.send(0, message(b"open"));
    // The answer acknowledges it, so that no probe has to repeat it.
    pair.send(1, message(b"welcome"));
    pair.run(Duration::from_secs(1));
    assert_eq!((pair.received(0).len(), pair.received(1).len()), (1, 1));
    pair.events(1);
    pair.events(0);
    pair
}

fn steer(pair: &mut Pair, host: usize, steer: impl Steer + 'static) {
    assert!(pair.ask(host, |engine, now, node| {
        engine.steer(now, node, Some(Box::new(steer)))
    }));
}

fn unsteer(pair: &mut Pair, host: usize) {
    assert!(pair.ask(host, |engine, now, node| engine.steer(now, node, None)));
}

fn controller(pair: &Pair) -> &'static str {
    pair.engine(0).controller(pair.id(1)).unwrap()
}

const PAUSE: Decision = Decision {
    window: Some(0),
    pace: None,
    ack_interval: None,
    again: None,
};

#[test]
fn a_pause_holds_messages_and_nothing_else() {
    let mut pair = opened();
    steer(&mut pair, 0, |_: &Observation| PAUSE);
    pair.send(0, message(b"waits"));
    pair.run(Duration::from_secs(60));
    assert!(pair.received(1).is_empty());
    let stats = pair.stats(0);
    assert_eq!(stats.waiting, Some(WaitReason::Steering));
    assert_eq!(stats.link, LinkState::Up, "signs of life go on");
    assert!(pair.events(0).is_empty());
    // The other direction is controlled by the other host.
    pair.send(1, message(b"there"));
    pair.run(MOMENT);
    assert_eq!(pair.received(0).len(), 1, "and acknowledgements go on");
    assert_eq!(pair.stats(1).queued_messages, 0);
    unsteer(&mut pair, 0);
    pair.run(MOMENT);
    assert_eq!(pair.received(1).len(), 1);
}

#[test]
fn a_pause_keeps_the_first_message_off_the_handshake() {
    let mut pair = Pair::new();
    steer(&mut pair, 0, |_: &Observation| PAUSE);
    pair.send(0, message(b"first"));
    pair.run(Duration::from_secs(5));
    assert!(pair.received(1).is_empty());
    unsteer(&mut pair, 0);
    pair.run(MOMENT);
    assert_eq!(pair.received(1).len(), 1);
}

#[test]
fn a_pause_while_packets_are_lost_probes_without_messages() {
    let mut pair = opened();
    for _ in 0..5 {
        pair.queue(0, message(&[1; 1_000]));
    }
    pair.send(0, message(b"last"));
    steer(&mut pair, 0, |_: &Observation| PAUSE);
    pair.drop_wire();
    let before = pair.stats(0).traffic;
    pair.run(Duration::from_secs(5));
    let after = pair.stats(0).traffic;
    assert!(after.probes > before.probes);
    assert_eq!(after.bytes_resent, before.bytes_resent);
    assert!(pair.received(1).is_empty());
    assert_eq!(pair.stats(0).link, LinkState::Up);
    unsteer(&mut pair, 0);
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.received(1).len(), 6);
}

/// A controller that pauses three times, to be asked `again` each time; and a counter of its calls.
fn pauses_thrice(again: Option<Duration>) -> (impl Steer + 'static, Arc<AtomicU64>) {
    let asked = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&asked);
    let steer = move |_: &Observation| {
        if count.fetch_add(1, Relaxed) < 3 {
            Decision { again, ..PAUSE }
        } else {
            Decision::default()
        }
    };
    (steer, asked)
}

/// While a controller pauses, no acknowledgement comes that would cause it to be asked.
#[test]
fn a_pausing_controller_is_asked_again() {
    let mut pair = opened();
    let (pausing, asked) = pauses_thrice(None);
    steer(&mut pair, 0, pausing);
    assert_eq!(asked.load(Relaxed), 1, "at once");
    pair.run(Duration::from_secs(10));
    assert_eq!(asked.load(Relaxed), 1, "nothing waits");
    pair.send(0, message(b"waits"));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.received(1).len(), 1);
}

/// A decision that pauses messages delays the next decision by no more than the length of a pause.
#[test]
fn a_pausing_controller_is_asked_again_even_with_a_long_timer() {
    let mut pair = opened();
    let (pausing, _) = pauses_thrice(Some(Duration::from_secs(10)));
    steer(&mut pair, 0, pausing);
    pair.send(0, message(b"waits"));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.received(1).len(), 1);
}

#[test]
fn a_timer_runs_only_as_wished() {
    let mut pair = opened();
    let asked = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&asked);
    steer(&mut pair, 0, move |_: &Observation| {
        count.fetch_add(1, Relaxed);
        Decision {
            again: Some(Duration::from_millis(10)),
            ..PAUSE
        }
    });
    pair.send(0, message(b"waits"));
    pair.run(Duration::from_secs(1));
    assert!(
        (95..=105).contains(&asked.load(Relaxed)),
        "{}",
        asked.load(Relaxed)
    );
}

/// A controller should not panic, but other peers must not suffer from it.
#[test]
fn a_controller_that_panics_takes_nobody_elses_timer_with_it() {
    let mut net = Net::new(4, |_| Config::default());
    for other in 1..4 {
        net.send(0, id(other), message(b"open"));
    }
    net.run(Duration::from_secs(1));
    net.discard_events();
    let now = net.now;
    let mut install = |other, steer| {
        assert!(net.engine(0).steer(now, id(other), Some(steer)));
        net.send(0, id(other), message(b"waits"));
    };
    let asked_before = AtomicU64::new(0);
    let panics = move |_: &Observation| {
        assert_eq!(asked_before.fetch_add(1, Relaxed), 0, "a test's");
        PAUSE
    };
    install(1, Box::new(panics));
    let others = [2, 3].map(|other| {
        let (pausing, asked) = pauses_thrice(None);
        install(other, Box::new(pausing));
        asked
    });
    let asked = || others.each_ref().map(|asked| asked.load(Relaxed));
    let run = AssertUnwindSafe(|| net.run(Duration::from_secs(1)));
    assert!(catch_unwind(run).is_err());
    assert_eq!(asked(), [1, 1], "they were due in the same turn, after it");
    // Flush, as a driver does before it sleeps.
    net.flush(0);
    net.run(Duration::from_secs(1));
    assert_eq!(asked().map(|asked| asked > 3), [true, true]);
    assert_eq!([2, 3].map(|other| net.received(other).len()), [1, 1]);
}

#[test]
fn a_window_bounds_what_is_in_flight() {
    let mut pair = opened();
    let most = Arc::new(AtomicU64::new(0));
    let seen_most = Arc::clone(&most);
    steer(&mut pair, 0, move |seen: &Observation| {
        seen_most.fetch_max(seen.in_flight, Relaxed);
        Decision {
            window: Some(4_000),
            ..Decision::default()
        }
    });
    pair.send(0, message(&[7; 100_000]));
    for _ in 0..1_000 {
        pair.run(Duration::from_micros(50));
        assert!(pair.stats(0).in_flight <= 4_000);
    }
    assert_eq!(pair.received(1).len(), 1);
    let most = most.load(Relaxed);
    assert!(most <= 4_000, "{most}");
}

#[test]
fn a_window_smaller_than_a_packet_lets_one_fly() {
    let mut pair = opened();
    steer(&mut pair, 0, |_: &Observation| Decision {
        window: Some(1),
        ..Decision::default()
    });
    pair.send(0, message(&[7; 50_000]));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.received(1).len(), 1);
}

#[test]
fn a_controller_cannot_loosen_what_the_network_allows() {
    let mut pair = opened();
    pair.change(0, |o| {
        o.controller = ControllerChoice::Fixed { bytes: 5_000 }
    });
    steer(&mut pair, 0, |_: &Observation| Decision {
        window: Some(u64::MAX),
        pace: Some(u64::MAX),
        ack_interval: Some(Duration::from_secs(100)),
        again: None,
    });
    assert_eq!(controller(&pair), "fixed");
    pair.send(0, message(&[7; 100_000]));
    for _ in 0..1_000 {
        pair.run(Duration::from_micros(50));
        assert!(pair.stats(0).in_flight <= 5_000);
    }
    assert_eq!(pair.received(1).len(), 1);
}

#[test]
fn a_pace_spreads_packets_over_time() {
    let mut pair = opened();
    steer(&mut pair, 0, |_: &Observation| Decision {
        pace: Some(200_000),
        ..Decision::default()
    });
    pair.send(0, message(&[7; 100_000]));
    pair.run(Duration::from_millis(350));
    assert!(pair.received(1).is_empty(), "half a second at that pace");
    let waited = pair.stats(0).waits.get(WaitReason::Steering).nanos;
    assert!(waited > 200_000_000, "{waited}");
    pair.run(Duration::from_millis(300));
    assert_eq!(pair.received(1).len(), 1);
}

#[test]
fn a_controller_sees_what_goes_on() {
    let mut pair = opened();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    steer(&mut pair, 0, move |now: &Observation| {
        log.lock().unwrap().push(*now);
        Decision::default()
    });
    pair.send(0, message(&[7; 100_000]));
    pair.run(Duration::from_secs(1));
    let seen = seen.lock().unwrap();
    let any = |what: fn(&Observation) -> bool| seen.iter().any(what);
    assert!(any(|o| o.queued_messages == 1 && o.queued_bytes == 100_000));
    assert!(any(|o| o.window > 14_000 && o.in_flight <= o.window));
    assert!(any(|o| o.delivery_rate > 1_000_000));
    assert!(
        seen.iter()
            .all(|o| o.packet == 1_472 && o.socket_credit > 0)
    );
    assert!(
        seen.iter()
            .all(|o| o.rtt >= o.min_rtt && o.min_rtt.as_micros() >= 100)
    );
    assert!(seen.is_sorted_by_key(|o| o.now));
}

#[test]
fn the_same_run_makes_the_same_observations() {
    let run = || {
        let mut pair = opened();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        steer(&mut pair, 0, move |now: &Observation| {
            log.lock().unwrap().push(*now);
            Decision {
                window: Some(now.window / 2),
                ..Decision::default()
            }
        });
        pair.send(0, message(&[7; 200_000]));
        pair.run(Duration::from_secs(1));
        seen.lock().unwrap().clone()
    };
    assert_eq!(run(), run());
}

#[test]
fn a_controller_outlives_its_connection() {
    let mut pair = opened();
    steer(&mut pair, 0, |_: &Observation| PAUSE);
    pair.restart(1);
    pair.send(0, message(b"to the one before"));
    pair.run(Duration::from_secs(30));
    pair.events(0);
    pair.send(0, message(b"to the one after"));
    pair.run(Duration::from_secs(30));
    assert!(pair.received(1).is_empty());
    unsteer(&mut pair, 0);
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.received(1).len(), 1);
}

#[test]
fn an_unknown_node_is_not_steered() {
    let mut pair = Pair::new();
    let nobody = NodeId(99);
    assert!(!pair.ask(0, |engine, now, _| engine.steer(now, nobody, None)));
    assert!(!pair.ask(0, |engine, _, _| engine.retransmit(nobody)));
    let set = |engine: &mut Engine, now, _| {
        engine
            .change_options(now, nobody, |o| o.controller = ControllerChoice::Cubic)
            .is_ok()
    };
    assert!(!pair.ask(0, set));
}

#[test]
fn the_network_controller_is_chosen_at_run_time() {
    let mut pair = opened();
    assert_eq!(controller(&pair), "lan");
    for (choice, name) in [
        (ControllerChoice::Cubic, "cubic"),
        (ControllerChoice::Wan, "wan"),
        (ControllerChoice::Lan, "lan"),
    ] {
        pair.change(0, |o| o.controller = choice);
        assert_eq!(controller(&pair), name);
        // Change it in the middle of a transfer, too.
        pair.send(0, message(&[7; 200_000]));
        pair.run(Duration::from_micros(300));
        pair.change(0, |o| o.controller = choice);
        pair.run(Duration::from_secs(1));
        assert_eq!(pair.received(1).len(), 1);
    }
}

/// Loses a burst of small messages and the packets right behind it, with manual retransmission.
fn lossy() -> Pair {
    let mut pair = opened();
    pair.change(0, |o| o.manual_retransmission = true);
    pair.send(0, message(b"lost"));
    pair.send(0, message(&[1; 20_000]));
    pair.drop_wire();
    pair
}

#[test]
fn nothing_is_sent_again_until_the_program_says_so() {
    let mut pair = lossy();
    let before = pair.stats(0).traffic.bytes_resent;
    pair.run(Duration::from_secs(20));
    let stats = pair.stats(0);
    assert!(pair.received(1).is_empty());
    assert!(stats.traffic.probes > 0, "probes look for signs of life");
    let resent = stats.traffic.bytes_resent - before;
    assert_eq!((resent, stats.link), (0, LinkState::Up));
    assert!(
        pair.events(0)
            .iter()
            .all(|e| !matches!(e, Event::Lost { .. }))
    );
    // A new message is sent, but is not delivered before the lost ones.
    pair.send(0, message(b"new"));
    pair.run(Duration::from_secs(5));
    assert!(pair.received(1).is_empty());
    assert!(pair.ask(0, |engine, _, node| engine.retransmit(node)));
    pair.run(MOMENT);
    assert_eq!(pair.received(1).len(), 3);
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.stats(0).queued_messages, 0);
}

#[test]
fn retransmissions_may_be_lost_too() {
    let mut pair = lossy();
    pair.run(Duration::from_secs(1));
    pair.ask(0, |engine, _, node| engine.retransmit(node));
    pair.drop_wire();
    pair.run(Duration::from_secs(5));
    assert!(pair.received(1).is_empty());
    pair.ask(0, |engine, _, node| engine.retransmit(node));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.received(1).len(), 2);
}

#[test]
fn packets_in_flight_are_sent_again_and_taken_once() {
    let mut pair = opened();
    pair.change(0, |o| o.manual_retransmission = true);
    pair.send(0, message(b"twice"));
    pair.ask(0, |engine, _, node| engine.retransmit(node));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.received(1).len(), 1);
    assert!(pair.stats(0).traffic.bytes_resent > 0);
}

#[test]
fn returning_to_automatic_sends_withheld_messages() {
    let mut pair = lossy();
    pair.run(Duration::from_secs(5));
    pair.change(0, |o| o.manual_retransmission = false);
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.received(1).len(), 2);
}

#[test]
fn without_loss_manual_retransmission_changes_nothing() {
    let mut pair = opened();
    let before = pair.stats(0).traffic.bytes_resent;
    pair.change(0, |o| o.manual_retransmission = true);
    for size in [0, 10, 5_000, 300_000, 1_000_000] {
        pair.send(0, message(&vec![3; size]));
    }
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.received(1).len(), 5);
    assert_eq!(pair.stats(0).traffic.bytes_resent, before);
}

#[test]
fn a_request_to_send_is_withheld_too() {
    let mut pair = opened();
    pair.change(0, |o| o.manual_retransmission = true);
    pair.send(0, message(&vec![3; 300_000]));
    pair.drop_wire();
    pair.run(Duration::from_secs(5));
    assert!(pair.received(1).is_empty());
    pair.ask(0, |engine, _, node| engine.retransmit(node));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.received(1).len(), 1);
}
