//! The delay-based controller.

use super::*;
use crate::congestion::{AckSample, Cause, CongestionEvent};
use crate::recovery::{AckDelays, Rtt};
use crate::time::Instant;

/// 100 Mbit/s with 50 ms of queue, as behind a token bucket filter.
fn deep() -> Link {
    link(100, micros(200), 425)
}

#[test]
fn the_queue_stays_short_where_cubic_fills_it() {
    let time = millis(5_000);
    let counts = after(deep(), &[lan], time, time);
    let beside = after(deep(), &[cubic], time, time);
    let (ours, cubics) = (queue(&counts), queue(&beside));
    println!("queue {ours:?}, with CUBIC {cubics:?}");
    assert!(utilisation(deep(), &counts, time) >= 0.95);
    assert!(ours <= millis(3), "{ours:?}");
    assert!(cubics >= millis(20), "{cubics:?}");
}

/// From machine rooms to slow links, with large and tiny buffers, and with hosts that do not always
/// run.
#[test]
fn links_of_all_speeds_are_filled() {
    for (rate, rtt, packets, time, stall) in [
        (10, micros(200), 50, millis(5_000), 0),
        (100, micros(200), 20, millis(3_000), 0),
        (100, micros(200), 425, millis(3_000), 3_000),
        (100, millis(5), 425, millis(5_000), 0),
        (1_000, micros(100), 200, millis(1_000), 0),
        (1_000, micros(100), 4_000, millis(1_000), 500),
        (10_000, micros(50), 1_000, millis(100), 0),
        (10_000, micros(300), 10_000, millis(100), 1_000),
        (40_000, micros(20), 2_000, millis(30), 0),
        (40_000, micros(100), 2_000, millis(30), 200),
    ] {
        let link = Link {
            stall: micros(stall),
            ..link(rate, rtt, packets)
        };
        let counts = after(link, &[lan], time / 2, time);
        let (utilisation, loss) = (utilisation(link, &counts, time), loss(&counts));
        let queue = queue(&counts);
        println!("{link:?}: utilisation {utilisation:.3}, loss {loss:.4}, queue {queue:?}");
        assert!(utilisation >= 0.93, "{link:?}: utilisation {utilisation}");
        assert!(loss < 0.005, "{link:?}: loss {loss}");
        assert!(queue < millis(5), "{link:?}: queue {queue:?}");
    }
}

#[test]
fn flows_share_evenly() {
    for (link, flows, least) in [
        (deep(), 2, 0.95),
        (deep(), 4, 0.9),
        (link(100, millis(1), 50), 2, 0.95),
        (link(100, millis(5), 425), 4, 0.95),
        (link(10, micros(200), 50), 2, 0.85),
    ] {
        let time = millis(10_000);
        let counts = after(link, &vec![lan as Make; flows], time, time);
        let (jain, queue) = (jain(&counts), queue(&counts));
        println!("{link:?}, {flows} flows: Jain {jain:.3}, queue {queue:?}");
        assert!(jain >= least, "{link:?}: Jain {jain}");
        assert!(utilisation(link, &counts, time) >= 0.95);
        assert!(loss(&counts) < 0.01);
    }
}

/// Only the flow that lost packets lowers its target, and mistakes the queue of the others for
/// competition.
#[test]
fn a_flow_that_lost_packets_returns_to_its_share() {
    let link = link(1_000, micros(100), 200);
    for (gap, seconds) in [
        (50, 6),
        (300, 6),
        (10, 14),
        (100, 14),
        (250, 14),
        (400, 14),
        (700, 14),
    ] {
        let mut sim = Sim::new(link);
        (0..4).for_each(|n| sim.add(lan(), millis(gap) * n, ENDLESS));
        sim.run(millis(seconds * 1_000));
        let jain = jain(&sim.run(millis(2_000)));
        assert!(jain >= 0.9, "begun {gap} ms apart: Jain {jain}");
    }
}

/// At gigabits windows are large, and one packet more per round trip is little: convergence takes
/// seconds, but is bounded.
#[test]
fn a_latecomer_at_gigabits_gets_its_share_in_time() {
    let link = link(1_000, micros(100), 4_000);
    let counts = after(link, &[lan, lan], millis(6_000), millis(2_000));
    let jain = jain(&counts);
    println!("Jain {jain}");
    assert!(jain >= 0.8, "Jain {jain}");
}

#[test]
fn beside_cubic_neither_starves() {
    for (link, ours, cubics) in [
        (deep(), 0.3, 0.3),
        (link(100, millis(2), 200), 0.3, 0.3),
        (link(100, micros(200), 50), 0.03, 0.3),
    ] {
        for (flows, ours_at) in [([lan as Make, cubic], 0), ([cubic, lan], 1)] {
            let time = millis(20_000);
            let counts = after(link, &flows, time, time);
            let share = share(&counts, ours_at);
            println!("{link:?}: ours {share:.3}");
            assert!(share >= ours, "{link:?}: ours {share}");
            assert!(1.0 - share >= cubics, "{link:?}: ours {share}");
        }
    }
}

#[test]
fn the_queue_drains_when_competing_flows_end() {
    let mut sim = Sim::new(deep());
    sim.add(lan(), Duration::ZERO, ENDLESS);
    // About fifteen seconds of half the link.
    sim.add(cubic(), millis(1_000), 90_000_000);
    let beside = sim.run(millis(10_000));
    assert!(
        queue(&beside[..1]) > millis(10),
        "the competing flow fills it"
    );
    sim.run(millis(25_000));
    let time = millis(5_000);
    let alone = sim.run(time);
    assert_eq!(alone[1].sent, 0, "the competing flow ended");
    let queue = queue(&alone[..1]);
    assert!(queue < millis(5), "{queue:?}");
    assert!(utilisation(deep(), &alone[..1], time) >= 0.9);
}

/// A route changed somewhere, without notice.
#[test]
fn a_path_that_grows_longer_is_learnt() {
    let mut sim = Sim::new(deep());
    sim.add(lan(), Duration::ZERO, ENDLESS);
    sim.run(millis(5_000));
    let longer = link(100, millis(12), 425);
    sim.set_link(longer);
    sim.run(millis(40_000));
    let time = millis(10_000);
    let counts = sim.run(time);
    let utilisation = utilisation(longer, &counts, time);
    assert!(utilisation >= 0.9, "{utilisation}");
}

#[test]
fn a_link_that_becomes_faster_or_slower_is_followed() {
    let mut sim = Sim::new(link(100, micros(200), 425));
    sim.add(lan(), Duration::ZERO, ENDLESS);
    for rate in [100, 1_000, 50, 5] {
        let link = link(rate, micros(200), 425);
        sim.set_link(link);
        sim.run(millis(1_000));
        let time = millis(2_000);
        let counts = sim.run(time);
        let utilisation = utilisation(link, &counts, time);
        assert!(utilisation >= 0.9, "{rate}: {utilisation}");
        assert!(queue(&counts) < millis(6), "{rate}: {:?}", queue(&counts));
    }
}

#[test]
fn a_path_that_is_said_to_be_another_begins_anew() {
    let mut sim = Sim::new(deep());
    sim.add(lan(), Duration::ZERO, ENDLESS);
    sim.run(millis(1_000));
    let before = sim.window(0);
    sim.change_path(0);
    assert_ne!(sim.window(0), before);
    assert_eq!(sim.window(0), lan().window());
}

#[test]
fn marks_keep_the_queue_shorter_still() {
    let marking = Link { mark: 5, ..deep() };
    let time = millis(5_000);
    let counts = after(marking, &[lan], time, time);
    assert!(counts[0].marked > 0);
    assert_eq!(counts[0].dropped, 0);
    assert!(utilisation(marking, &counts, time) >= 0.9);
    let without = queue(&after(deep(), &[lan], time, time));
    assert!(queue(&counts) < without * 3 / 4, "{:?}", queue(&counts));
}

/// One percent is lost at random, and the link stays full.
#[test]
fn random_losses_do_not_stop_it() {
    for (rate, rtt, packets, time) in [
        (40_000, micros(50), 2_000, millis(100)),
        (10_000, micros(50), 1_000, millis(200)),
        (10_000, micros(100), 300, millis(200)),
        (10_000, millis(1), 1_000, millis(200)),
        (1_000, micros(100), 200, millis(1_000)),
        (1_000, millis(1), 400, millis(2_000)),
        (1_000, millis(4), 400, millis(2_000)),
        (100, micros(200), 50, millis(2_000)),
    ] {
        let sound = link(rate, rtt, packets);
        let lossy = Link {
            lose_one_in: 100,
            ..sound
        };
        let goodput = |link| utilisation(link, &after(link, &[lan], time, time), time);
        let (without, with) = (goodput(sound), goodput(lossy));
        println!(
            "{sound:?}: {without:.3}, of it with losses {:.3}",
            with / without
        );
        assert!(with >= 0.9 * without, "{sound:?}: {with} of {without}");
    }
}

/// A path that loses a tenth is congested, even without delay.
#[test]
fn many_losses_are_answered_without_a_queue() {
    let link = Link {
        lose_one_in: 10,
        ..link(10_000, micros(100), 300)
    };
    let time = millis(200);
    let utilisation = utilisation(link, &after(link, &[lan], time, time), time);
    assert!(utilisation < 0.4, "{utilisation}");
}

/// Buffers that overflow below the target, so that delay alone would never limit the window.
#[test]
fn small_buffers_are_not_kept_overflowing() {
    for (rate, rtt, packets, flows, most) in [
        (40_000, micros(20), 800, 1, 0.005),
        (1_000, millis(1), 50, 1, 0.005),
        (1_000, millis(1), 50, 2, 0.005),
        (100, millis(1), 10, 1, 0.005),
        (10_000, micros(100), 50, 1, 0.06),
        (10_000, micros(100), 50, 4, 0.06),
    ] {
        let link = link(rate, rtt, packets);
        let time = millis(if rate > 1_000 { 300 } else { 4_000 });
        let counts = after(link, &vec![lan as Make; flows], time, time);
        let (loss, jain) = (loss(&counts), jain(&counts));
        println!("{link:?}, {flows} flows: loss {loss:.4}, Jain {jain:.3}");
        assert!(loss < most, "{link:?}: loss {loss}");
        assert!(jain >= 0.85, "{link:?}: Jain {jain}");
        assert!(utilisation(link, &counts, time) >= 0.95);
    }
    let link = link(1_000, millis(1), 50);
    let time = millis(8_000);
    let cubics = share(&after(link, &[lan as Make, cubic], time, time), 1);
    assert!(cubics >= 0.3, "CUBIC beside it has {cubics}");
}

fn lose(lan: &mut Lan, now: Instant, packets: u64, persistent: bool) {
    let event = CongestionEvent {
        cause: Cause::Loss,
        bytes_lost: packets * MTU,
        largest_lost_sent_at: now,
        persistent,
        in_flight: MTU,
        overlaps: false,
    };
    lan.on_congestion(now, &event);
}

/// A controller that knows its path: rounds without a queue, and one that met `queue`.
fn having_met(queue: Duration) -> (Lan, Instant) {
    let mut lan = Lan::new(MTU as usize);
    let mut now = Instant::from_nanos(1_000_000_000);
    for _ in 0..5 {
        round(&mut lan, &mut now);
    }
    round_through(&mut lan, &mut now, queue);
    (lan, now)
}

#[test]
fn without_a_queue_the_third_loss_in_a_hundred_packets_is_answered() {
    let (mut lan, now) = having_met(Duration::ZERO);
    let before = lan.window();
    lose(&mut lan, now, 1, false);
    lose(&mut lan, now, 1, false);
    assert_eq!(lan.window(), before);
    lose(&mut lan, now, 1, false);
    assert_eq!(lan.window(), (before as f64 * 0.7 + 0.5) as u64);
    lose(&mut lan, now, 50, false);
    assert_eq!(
        lan.window(),
        (before as f64 * 0.7 + 0.5) as u64,
        "the same window"
    );
}

#[test]
fn behind_a_queue_the_first_loss_is_answered() {
    // The target is between 1 and 2.5 ms.
    for (queue, answered) in [(micros(200), false), (micros(650), true)] {
        let (mut lan, now) = having_met(queue);
        let before = lan.window();
        lose(&mut lan, now, 1, false);
        assert_eq!(lan.window() < before, answered, "{queue:?}");
    }
}

#[test]
fn before_anything_was_measured_each_loss_is_answered() {
    let mut lan = Lan::new(MTU as usize);
    let before = lan.window();
    lose(&mut lan, Instant::from_nanos(1), 1, false);
    assert!(lan.window() < before);
}

#[test]
fn losses_that_were_none_do_not_count() {
    let (mut lan, now) = having_met(Duration::ZERO);
    let before = lan.window();
    lose(&mut lan, now, 2, false);
    lan.on_spurious(now);
    lose(&mut lan, now, 2, false);
    assert_eq!(lan.window(), before);
    lose(&mut lan, now, 1, false);
    assert!(lan.window() < before);
    lan.on_spurious(now);
    assert_eq!(lan.window(), before);
}

/// One round: a packet sent when the last one was acknowledged, which met no queue.
fn round(lan: &mut Lan, now: &mut Instant) {
    round_through(lan, now, Duration::ZERO);
}

/// One round whose packet met `queue`.
fn round_through(lan: &mut Lan, now: &mut Instant, queue: Duration) {
    let sent_at = *now;
    let path = millis(1) + queue;
    *now += path;
    let mut rtt = Rtt::new(millis(100));
    rtt.update(path, AckDelays::default());
    let sample = AckSample {
        bytes: MTU,
        in_flight_before: lan.window(),
        in_flight: lan.window() - MTU,
        delivered: MTU,
        largest_sent_at: sent_at,
        rtt: &rtt,
        path: Some(path),
        rate: None,
        app_limited: false,
        paced: false,
    };
    lan.on_ack(*now, &sample);
}

/// Lets at most `most` rounds pass until the controller drains. Returns the window before, whether
/// it drains, and how many rounds passed.
fn until_it_drains(lan: &mut Lan, now: &mut Instant, most: usize) -> (u64, bool, usize) {
    let mut before = lan.window();
    for passed in 0..most {
        round(lan, now);
        if lan.window() < before / 2 {
            return (before, true, passed);
        }
        before = lan.window();
    }
    (before, false, most)
}

/// A controller that was told of a loss, which ends slow start.
fn steady() -> (Lan, Instant) {
    let mut lan = Lan::new(MTU as usize);
    let mut now = Instant::from_nanos(1_000_000_000);
    round(&mut lan, &mut now);
    lose(&mut lan, now, 3, false);
    (lan, now)
}

/// If packets are late again and again, the next event comes before the last one's losses proved
/// spurious.
#[test]
fn losses_of_overlapping_events_that_were_none_are_undone_together() {
    let (mut lan, mut now) = having_met(Duration::ZERO);
    let before = lan.window();
    lose(&mut lan, now, 50, false);
    let mut event = CongestionEvent {
        cause: Cause::Loss,
        bytes_lost: 50 * MTU,
        largest_lost_sent_at: now,
        persistent: false,
        in_flight: MTU,
        overlaps: true,
    };
    for _ in 0..3 {
        now += Duration::from_millis(10);
        event.largest_lost_sent_at = now;
        let shrunk = lan.window();
        lan.on_congestion(now, &event);
        assert!(lan.window() < shrunk);
    }
    // A few losses without a queue are not answered, and undo nothing.
    event.bytes_lost = MTU;
    lan.on_congestion(now + Duration::from_millis(10), &event);
    lan.on_spurious(now);
    assert_eq!(lan.window(), before);
}

#[test]
fn a_loss_while_draining_that_was_none_is_undone() {
    let (mut lan, mut now) = steady();
    let (before, drains, _) = until_it_drains(&mut lan, &mut now, 2_000);
    assert!(drains);
    let drained = lan.window();
    lose(&mut lan, now, 50, false);
    lan.on_spurious(now);
    assert_eq!(lan.window(), drained, "it goes on draining");
    (0..2).for_each(|_| round(&mut lan, &mut now));
    assert_eq!(lan.window(), before);
}

#[test]
fn a_loss_before_draining_that_was_none_is_undone_afterwards() {
    let (mut lan, mut now) = steady();
    let (_, _, passed) = until_it_drains(&mut lan, &mut now, 2_000);
    let (mut lan, mut now) = steady();
    let (before, drains, _) = until_it_drains(&mut lan, &mut now, passed - 1);
    assert!(!drains);
    lose(&mut lan, now, 50, false);
    let (shrunk, drains, _) = until_it_drains(&mut lan, &mut now, 5);
    assert!(drains && shrunk < before * 9 / 10, "{shrunk} of {before}");
    let drained = lan.window();
    lan.on_spurious(now);
    assert_eq!(lan.window(), drained, "it goes on draining");
    (0..2).for_each(|_| round(&mut lan, &mut now));
    assert_eq!(lan.window(), before);
}

#[test]
fn persistent_congestion_while_draining_is_not_forgotten() {
    let (mut lan, mut now) = steady();
    let (_, drains, _) = until_it_drains(&mut lan, &mut now, 2_000);
    assert!(drains);
    lose(&mut lan, now, 1, true);
    for _ in 0..3 {
        round(&mut lan, &mut now);
        assert!(lan.window() <= 4 * MTU, "{}", lan.window());
    }
}

/// CUBIC reacts, but no acknowledgement may come with which its window would be adopted.
#[test]
fn persistent_congestion_in_competitive_mode_is_answered_at_once() {
    let (mut lan, mut now) = steady();
    for _ in 0..400 {
        round_through(&mut lan, &mut now, millis(30));
    }
    assert!(
        lan.window() > 20 * MTU,
        "in competitive mode: {}",
        lan.window()
    );
    lose(&mut lan, now, 1, true);
    assert!(lan.window() <= 2 * MTU, "{}", lan.window());
}
