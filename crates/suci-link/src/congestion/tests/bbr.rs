//! The model-based controller.

use super::*;

#[test]
fn random_losses_do_not_stop_it() {
    for (rate, rtt, packets) in [(100, 50, 425), (100, 100, 2_000), (500, 50, 2_000)] {
        let link = Link {
            lose_one_in: 100,
            ..link(rate, millis(rtt), packets)
        };
        let time = millis(8_000);
        let counts = after(link, &[bbr], time, time);
        let beside = after(link, &[cubic], time, time);
        let ours = utilisation(link, &counts, time);
        let cubics = utilisation(link, &beside, time);
        println!("figure: {rate} Mbit/s, {rtt} ms: {ours:.3} of the link, CUBIC {cubics:.3}");
        assert!(ours >= 0.9, "{ours}");
        assert!(ours >= 3.0 * cubics, "{ours} and {cubics}");
    }
}

#[test]
fn long_paths_are_filled_with_short_queues() {
    for (rate, rtt, packets) in [
        (10, 50, 50),
        (100, 10, 50),
        (100, 50, 425),
        (100, 50, 50),
        (500, 20, 1_000),
    ] {
        let link = link(rate, millis(rtt), packets);
        let time = millis(8_000);
        let counts = after(link, &[bbr], time, time);
        let (utilisation, loss) = (utilisation(link, &counts, time), loss(&counts));
        println!(
            "{link:?}: {utilisation:.3}, loss {loss:.4}, queue {:?}",
            queue(&counts)
        );
        assert!(utilisation >= 0.9, "{utilisation}");
        assert!(loss < 0.01, "{loss}");
        assert!(queue(&counts) < millis(rtt) / 2, "{:?}", queue(&counts));
    }
}

/// The flow that begins first has the whole link, and gives up half of it within half a minute.
#[test]
fn two_flows_share_evenly() {
    for (rate, rtt, packets) in [
        (100, 50, 425),
        (100, 50, 900),
        (100, 20, 425),
        (500, 20, 1_000),
        (50, 100, 425),
        (10, 50, 50),
    ] {
        let link = link(rate, millis(rtt), packets);
        let time = millis(20_000);
        let counts = after(link, &[bbr, bbr], time, time);
        let jain = jain(&counts);
        println!("{rate} Mbit/s, {rtt} ms, {packets} packets: Jain {jain:.3}");
        assert!(jain >= 0.9, "Jain {jain}");
    }
}

/// More flows converge more slowly (in the draft too): none starves, and the link is full.
#[test]
fn of_several_flows_none_starves() {
    for flows in [2, 4] {
        let link = link(100, millis(50), 425);
        let time = millis(20_000);
        let counts = after(link, &vec![bbr as Make; flows], time, time);
        let (loss, jain) = (loss(&counts), jain(&counts));
        println!(
            "{flows} flows: Jain {jain:.3}, loss {loss:.4}, queue {:?}",
            queue(&counts)
        );
        assert!(utilisation(link, &counts, time) >= 0.9);
        assert!(loss < 0.02, "{loss}");
        for flow in 0..flows {
            let share = share(&counts, flow);
            assert!(share >= 0.2 / flows as f64, "{share}");
        }
    }
}

#[test]
fn beside_cubic_neither_starves() {
    for (flows, ours_at) in [([bbr as Make, cubic], 0), ([cubic, bbr], 1)] {
        let time = millis(20_000);
        let counts = after(link(100, millis(30), 400), &flows, time, time);
        let share = share(&counts, ours_at);
        println!("ours {share:.3}");
        assert!((0.1..0.7).contains(&share), "ours {share}");
    }
}

#[test]
fn a_link_that_becomes_faster_or_slower_is_followed() {
    let mut sim = Sim::new(link(50, millis(20), 400));
    sim.add(bbr(), Duration::ZERO, ENDLESS);
    for rate in [50, 200, 20] {
        let link = link(rate, millis(20), 400);
        sim.set_link(link);
        sim.run(millis(8_000));
        let time = millis(8_000);
        let counts = sim.run(time);
        let utilisation = utilisation(link, &counts, time);
        println!(
            "{rate}: {utilisation:.3}, loss {:.4}, queue {:?}",
            loss(&counts),
            queue(&counts)
        );
        assert!(utilisation >= 0.9, "{rate}: {utilisation}");
        assert!(loss(&counts) < 0.01, "{rate}: {}", loss(&counts));
    }
}

/// A probe upwards goes on while the bandwidth grows, and finds ten times as much in one go.
#[test]
fn new_bandwidth_is_found_within_seconds() {
    for (rtt, seconds) in [(20, 3), (100, 8)] {
        let mut sim = Sim::new(link(10, millis(rtt), 400));
        sim.add(bbr(), Duration::ZERO, ENDLESS);
        sim.run(millis(5_000));
        let faster = link(100, millis(rtt), 400);
        sim.set_link(faster);
        let slice = millis(200);
        let mut time = Duration::ZERO;
        while utilisation(faster, &sim.run(slice), slice) < 0.9 {
            time += slice;
        }
        println!("figure: 10 to 100 Mbit/s at {rtt} ms: {time:?}");
        assert!(time <= Duration::from_secs(seconds), "{time:?}");
        let counts = sim.run(millis(10_000));
        assert!(loss(&counts) < 0.01, "{}", loss(&counts));
    }
}

#[test]
fn a_path_that_grows_longer_is_learnt() {
    let mut sim = Sim::new(link(100, millis(10), 400));
    sim.add(bbr(), Duration::ZERO, ENDLESS);
    sim.run(millis(5_000));
    let longer = link(100, millis(80), 400);
    sim.set_link(longer);
    sim.run(millis(15_000));
    let time = millis(10_000);
    let utilisation = utilisation(longer, &sim.run(time), time);
    assert!(utilisation >= 0.9, "{utilisation}");
}

#[test]
fn a_path_that_is_said_to_be_another_begins_anew() {
    let mut sim = Sim::new(link(100, millis(20), 400));
    sim.add(bbr(), Duration::ZERO, ENDLESS);
    sim.run(millis(2_000));
    assert_ne!(sim.window(0), bbr().window());
    sim.change_path(0);
    assert_eq!(sim.window(0), bbr().window());
}

/// If the path itself delays some packets, its least round trip underestimates the window: a window
/// cut by losses must grow again when they are over.
#[test]
fn a_path_with_jitter_is_filled_again_after_losses() {
    for (rate, jitter) in [(2, 125), (10, 125), (10, 30), (100, 20)] {
        let link = Link {
            jitter: millis(jitter),
            ..link(rate, millis(10), 4_000)
        };
        for lose_one_in in [0, 20, 8] {
            let mut sim = Sim::new(Link {
                lose_one_in,
                ..link
            });
            sim.add(bbr(), Duration::ZERO, ENDLESS);
            sim.run(millis(20_000));
            sim.set_link(link);
            sim.run(millis(30_000));
            let time = millis(10_000);
            let utilisation = utilisation(link, &sim.run(time), time);
            println!("{rate} Mbit/s, jitter {jitter} ms, one in {lose_one_in}: {utilisation:.3}");
            assert!(utilisation >= 0.8, "{utilisation}");
        }
    }
}
