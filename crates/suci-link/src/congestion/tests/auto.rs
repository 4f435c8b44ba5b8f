//! The choice by the path.

use super::*;
use crate::congestion::hystart::growth;
use crate::congestion::{AckSample, Auto, CongestionEvent, Controller, Cubic};
use crate::recovery::Rtt;
use crate::time::Instant;

fn measure(auto: &mut Auto, micros: u64) -> &'static str {
    let rtt = Rtt::new(millis(100));
    let sample = AckSample {
        bytes: MTU,
        in_flight_before: MTU,
        in_flight: 0,
        delivered: MTU,
        largest_sent_at: Instant::from_nanos(1),
        rtt: &rtt,
        path: Some(Duration::from_micros(micros)),
        rate: None,
        app_limited: true,
        paced: false,
    };
    auto.on_ack(Instant::from_nanos(1_000), &sample);
    auto.name()
}

#[test]
fn the_first_measurement_decides() {
    let mut auto = Auto::new(MTU as usize);
    assert_eq!(auto.name(), "lan", "until then, the one for short paths");
    assert_eq!(measure(&mut auto, 300), "lan");
    assert_eq!(measure(&mut auto, 20_000), "lan", "a queue, not the path");
    auto.on_path_changed(MTU as usize);
    assert_eq!(measure(&mut auto, 20_000), "wan");
    auto.on_path_changed(MTU as usize);
    assert_eq!(measure(&mut auto, 300), "lan", "another path");
}

/// The path is the same: its length stays known, its capacity does not.
#[test]
fn beginning_anew_it_chooses_no_other() {
    for (micros, name) in [(300, "lan"), (20_000, "wan")] {
        let mut auto = Auto::new(MTU as usize);
        measure(&mut auto, micros);
        for (most, window) in [(u64::MAX, 10), (0, if name == "lan" { 2 } else { 4 })] {
            auto.restart(1_200, most);
            assert_eq!((auto.window(), auto.name()), (window * 1_200, name));
        }
        measure(&mut auto, 20_000);
        assert_eq!(auto.name(), name);
        assert!(auto.window() <= 5 * 1_200 + MTU);
    }
}

#[test]
fn a_path_measured_through_a_queue_is_judged_again_once() {
    let mut auto = Auto::new(MTU as usize);
    assert_eq!(measure(&mut auto, 9_000), "wan");
    assert_eq!(measure(&mut auto, 4_500), "wan", "hardly shorter than long");
    assert_eq!(measure(&mut auto, 1_000), "lan");
    assert_eq!(measure(&mut auto, 9_000), "lan");
}

#[test]
fn each_choice_makes_the_controller_that_it_names() {
    for (choice, name) in [
        (ControllerChoice::Auto, "lan"),
        (ControllerChoice::Lan, "lan"),
        (ControllerChoice::Wan, "wan"),
        (ControllerChoice::Cubic, "cubic"),
        (ControllerChoice::Fixed { bytes: 1 }, "fixed"),
    ] {
        assert_eq!(choice.make(MTU as usize).name(), name);
    }
    assert_eq!(ControllerChoice::default(), ControllerChoice::Auto);
}

#[test]
fn over_a_short_and_a_long_path_it_does_as_the_one_it_chose() {
    let time = millis(4_000);
    let short = link(100, micros(200), 425);
    let counts = after(short, &[auto], time, time);
    assert!(queue(&counts) < millis(5), "{:?}", queue(&counts));
    assert!(utilisation(short, &counts, time) >= 0.9);
    let long = Link {
        lose_one_in: 100,
        ..link(100, millis(50), 425)
    };
    let counts = after(long, &[auto], time * 2, time * 2);
    assert!(utilisation(long, &counts, time * 2) >= 0.9);
}

/// The limits that every default must keep: two flows, and a flow beside TCP's.
#[test]
fn the_default_shares() {
    for (rtt, packets) in [(micros(200), 425), (millis(1), 50), (millis(2), 100)] {
        let link = link(100, rtt, packets);
        let time = millis(15_000);
        let two = after(link, &[auto, auto], time, time);
        let (jain, loss) = (jain(&two), loss(&two));
        println!("{link:?}: Jain {jain:.3}, loss {loss:.4}");
        assert!(jain >= 0.9, "Jain {jain}");
        assert!(loss < 0.01, "loss {loss}");
        assert!(utilisation(link, &two, time) >= 0.9);
        for (flows, cubics_at) in [([auto as Make, cubic], 1), ([cubic, auto], 0)] {
            let share = share(&after(link, &flows, time, time), cubics_at);
            println!("{link:?}: CUBIC beside it {share:.3}");
            assert!(share >= 0.3, "{share}");
        }
    }
}

#[test]
fn a_fixed_window_does_not_change() {
    let mut fixed = ControllerChoice::Fixed { bytes: 14_720 }.make(MTU as usize);
    assert_eq!(fixed.window(), 14_720);
    assert_eq!(fixed.pacing_rate(&Rtt::new(millis(1))), None);
    fixed.on_mtu(9_000);
    assert_eq!(fixed.window(), 18_000, "two packets at least");
    let link = link(100, millis(1), 50);
    let make = || ControllerChoice::Fixed { bytes: 14_720 }.make(MTU as usize);
    let counts = after(link, &[make], millis(500), millis(1_000));
    // Ten packets per millisecond, and the time of their transmission.
    assert_eq!(counts[0].dropped, 0);
    let utilisation = utilisation(link, &counts, millis(1_000));
    assert!(utilisation >= 0.75, "{utilisation}");
}

/// CUBIC as Linux begins it: slow start ends as soon as the delay exceeds the least by more than
/// HyStart allows.
#[derive(Debug)]
struct Linux {
    cubic: Cubic,
    least: Duration,
}

impl Controller for Linux {
    fn on_sent(&mut self, now: Instant, bytes: u64, in_flight: u64) {
        self.cubic.on_sent(now, bytes, in_flight);
    }

    fn on_ack(&mut self, now: Instant, sample: &AckSample<'_>) {
        if let Some(path) = sample.path {
            self.least = self.least.min(path);
            let grown = path > self.least + growth(self.least);
            if grown && self.cubic.is_searching() && self.window() > 16 * MTU {
                self.cubic.end_slow_start();
            }
        }
        self.cubic.on_ack(now, sample);
    }

    fn on_congestion(&mut self, now: Instant, event: &CongestionEvent) {
        self.cubic.on_congestion(now, event);
    }

    fn on_spurious(&mut self, now: Instant) {
        self.cubic.on_spurious(now);
    }

    fn restart(&mut self, mtu: usize, most: u64) {
        self.cubic.restart(mtu, most);
    }

    fn on_mtu(&mut self, mtu: usize) {
        self.cubic.on_mtu(mtu);
    }

    fn window(&self) -> u64 {
        self.cubic.window()
    }

    fn pacing_rate(&self, _: &Rtt) -> Option<u64> {
        None
    }

    fn name(&self) -> &'static str {
        "linux"
    }
}

fn linux() -> Box<dyn Controller> {
    let cubic = Cubic::new(MTU as usize);
    let least = Duration::MAX;
    Box::new(Linux { cubic, least })
}

/// Either flow may begin first, by some milliseconds.
#[test]
fn it_shares_with_a_flow_that_leaves_slow_start_early() {
    for (rtt, queue) in [(micros(100), 425), (micros(100), 170), (millis(2), 425)] {
        for (ours, theirs) in [(0, 0), (0, 5), (0, 20), (0, 100), (5, 0), (20, 0), (100, 0)] {
            let link = link(100, rtt, queue);
            let mut sim = Sim::new(link);
            sim.add(lan(), millis(ours), ENDLESS);
            sim.add(linux(), millis(theirs), ENDLESS);
            sim.run(millis(5_000));
            let share = share(&sim.run(millis(25_000)), 1);
            println!("{link:?}, {ours} and {theirs} ms later: theirs {share:.3}");
            assert!((0.4..0.6).contains(&share), "{share}");
        }
    }
}
