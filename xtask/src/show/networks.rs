//! Suci on imperfect networks: simulated clusters, and real nodes beside real TCP on emulated
//! links.

use super::flow::STRICT;
use super::tools::{count, planted_tests, process_tests, simulate, tests_of};
use super::{Ctx, Figure, Line};
use crate::error::Result;
use crate::ladders::{self, Comparison};

/// Tests on emulated links try all links that they know.
const FULL: (&str, &str) = ("SUCI_TEST_FULL", "1");

/// The receive buffer of an unprivileged process on a stock kernel, in bytes.
const STOCK: &str = "recv_buffer=212992";

pub(super) const LINES: &[Line] = &[
    Line {
        name: "emulator",
        must: "the emulated link carries 300 Mbit/s of 1,500 B packets on this machine",
        run: |_| {
            let mbit = ladders::goodput_of("cubic", &["round_trip=1000"])?;
            Ok(Figure::new(mbit >= 300.0, format!("{mbit:.0} Mbit/s")))
        },
    },
    Line {
        name: "clock-truths",
        must: "fault 1: no round trip below the link's, no acknowledgement delay above the wait, no loss where none was",
        run: |_| process_tests("truths::", &[STRICT, FULL]),
    },
    Line {
        name: "clock-sim",
        must: "fault 1: no loss is declared on simulated links that only reorder, once the thresholds have adapted",
        run: |_| tests_of("suci-sim", "only_reorders", &[]),
    },
    Line {
        name: "clock-late-25",
        must: "fault 1: 1 ms, a quarter of the packets up to 2 ms late: at least BBR",
        run: |_| {
            at_least(
                1.0,
                "bbr",
                &["round_trip=1000", "reorder=0.25", "late=2000"],
            )
        },
    },
    Line {
        name: "clock-late-5",
        must: "fault 1: 1 ms, 5 % of the packets up to 1 ms late: at least BBR",
        run: |_| {
            at_least(
                1.0,
                "bbr",
                &["round_trip=1000", "reorder=0.05", "late=1000"],
            )
        },
    },
    Line {
        name: "clock-late-20ms",
        must: "fault 1: 20 ms, a quarter of the packets up to 5 ms late: at least BBR",
        run: |_| {
            at_least(
                1.0,
                "bbr",
                &["round_trip=20000", "reorder=0.25", "late=5000"],
            )
        },
    },
    Line {
        name: "clock-loss",
        must: "fault 1: 1 ms, 1 % loss: at least BBR",
        run: |_| at_least(1.0, "bbr", &["round_trip=1000", "loss=0.01"]),
    },
    Line {
        name: "crowd",
        must: "fault 2: 1,000 newcomers answered within 0.5 s whatever those before them do",
        run: |_| tests_of("suci-sim", "f31_a_crowd", &[]),
    },
    Line {
        name: "crowd-strangers",
        must: "fault 2: strangers take turns at 64 slots, none told Full while slots are idle",
        run: |_| tests_of("suci-sim", "f31_400_newcomers", &[]),
    },
    Line {
        name: "ecn-sim",
        must: "fault 3 a: marked packets dropped, erased or always marked, from the start and midway (simulated)",
        run: |_| tests_of("suci-sim", "f39_", &[]),
    },
    Line {
        name: "ecn",
        must: "fault 3 a: the same on an emulated link: bytes within 0.5 s",
        run: |_| process_tests("paths::f39_", &[STRICT, FULL]),
    },
    Line {
        name: "jumbo-sim",
        must: "fault 3 b: jumbo frames on a path of 1,500 B: 400 Mbit/s at 20 ms within 2 s (simulated)",
        run: |_| tests_of("suci-sim", "f27_a_receiver_charges", &[]),
    },
    Line {
        name: "jumbo",
        must: "fault 3 b: on an emulated link: not three times slower than without jumbo frames",
        run: |_| process_tests("f27_jumbo_frames", &[STRICT, FULL]),
    },
    Line {
        name: "mtu-ladder",
        must: "fault 3 b: hosts of 1,500 to 9,000 B and paths of 1,280 to 9,000 B at 20 ms: no neighbours differ by two",
        run: |_| ladder("mtu"),
    },
    Line {
        name: "narrow-sim",
        must: "fault 3 c: a path below 1,200 B is told within 5 s, from the start and midway (simulated)",
        run: |_| tests_of("suci-sim", "f27_a_path_below", &[]),
    },
    Line {
        name: "narrow",
        must: "fault 3 c: the same on an emulated link",
        run: |_| process_tests("f27_a_path_below", &[STRICT, FULL]),
    },
    Line {
        name: "moved-sim",
        must: "fault 3 d: a receiver or sender that moves amid a stream is followed within 1 s (simulated)",
        run: |_| tests_of("suci-sim", "f13_a_receiver_that_moves", &[]),
    },
    Line {
        name: "moved",
        must: "fault 3 d: the same on an emulated link",
        run: |_| process_tests("f13_a_stream_goes_on", &[STRICT, FULL]),
    },
    Line {
        name: "answers",
        must: "fault 3 e: answers leave from the address that was called; a host that loses it goes on",
        run: |_| process_tests("f40_", &[STRICT]),
    },
    Line {
        name: "routes",
        must: "fault 3: routes that differ by direction hold nothing up (simulated)",
        run: |_| tests_of("suci-sim", "f31_routes", &[]),
    },
    Line {
        name: "loss-sim",
        must: "fault 4: losses of 0 to 5 % at 0.1, 1 and 20 ms: no neighbours and no seeds differ by two (simulated)",
        run: |_| tests_of("suci-sim", "losses_cost_little", &[]),
    },
    Line {
        name: "loss-ladder",
        must: "fault 4: losses of 0 to 5 % at 1 and 20 ms: no neighbours differ by two, each at least 0.8 x BBR",
        run: |_| ladder("loss"),
    },
    Line {
        name: "small-queue",
        must: "fault 4: 100 Mbit/s with 15 KB of queue at 1 ms: at least BBR",
        run: |_| {
            let link = ["round_trip=1000", "rate=100000000", "queue=15000"];
            at_least(1.0, "bbr", &link)
        },
    },
    Line {
        name: "buffer-sim",
        must: "fault 5: a stock receive buffer fills a long path; a receiver that stops loses no message (simulated)",
        run: |_| tests_of("suci-sim", "ladder::a_", &[]),
    },
    Line {
        name: "buffer-ladder",
        must: "fault 5: receive buffers of 64 KiB to 8 MiB at 20 ms: no neighbours differ by two, each at least 0.8 x BBR",
        run: |_| ladder("buffer"),
    },
    Line {
        name: "buffer-20ms",
        must: "fault 5: 20 ms with a stock receive buffer: at least 0.8 x TCP CUBIC",
        run: |_| at_least(0.8, "cubic", &["round_trip=20000", STOCK]),
    },
    Line {
        name: "buffer-100ms",
        must: "fault 5: 100 ms with a stock receive buffer: at least 0.8 x TCP CUBIC",
        run: |_| at_least(0.8, "cubic", &["round_trip=100000", STOCK]),
    },
    Line {
        name: "close-sim",
        must: "fault 6: both close at once, whatever is lost: within a second (simulated)",
        run: |_| tests_of("suci-sim", "f20_", &[]),
    },
    Line {
        name: "close",
        must: "fault 6: both close at once amid messages at 0, 10 and 30 % loss: within 3 s of 30 s",
        run: |_| process_tests("f20_both_close", &[STRICT, FULL]),
    },
    Line {
        name: "sim-seeds",
        must: "10,000 seeds pass",
        run: seeds,
    },
    Line {
        name: "planted",
        must: "a stale clock, marks that never stop and a reserve by what is left: tests of real nodes fail",
        run: |_| planted(),
    },
];

/// Faults planted in real nodes, and the test that finds each.
const PLANTED: [(&str, &str); 3] = [
    ("stale-clock", "truths::what_a_path_takes"),
    ("marks-never-stop", "paths::f39_a_path_that_drops"),
    ("reserve-by-what-is-left", "crowd::f31_newcomers"),
];

/// Runs those tests with their faults, and each without.
fn planted() -> Result<Figure> {
    let mut found = 0;
    for (fault, test) in PLANTED {
        planted_tests(test, None)?;
        match planted_tests(test, Some(fault)) {
            Ok(_) => println!("   {fault} is not found by {test}"),
            Err(_) => found += 1,
        }
    }
    let text = format!("{found} of {} found", PLANTED.len());
    Ok(Figure::new(found == PLANTED.len(), text))
}

/// Whether Suci reaches `share` of the goodput of TCP with that congestion control on the same
/// link. TCP sizes its receive buffer itself, as it does by default.
fn at_least(share: f64, control: &str, link: &[&str]) -> Result<Figure> {
    let Comparison { suci, tcp } = ladders::compare(control, link)?;
    let text = format!("{suci:.1} Mbit/s, TCP {control} {tcp:.1}");
    Ok(Figure::new(suci >= share * tcp, text))
}

fn ladder(only: &str) -> Result<Figure> {
    let wrong = ladders::faults(only)?;
    let text = match wrong.as_slice() {
        [] => "nothing named".to_owned(),
        some => some.join("; "),
    };
    Ok(Figure::new(wrong.is_empty(), text))
}

fn seeds(ctx: &Ctx) -> Result<Figure> {
    let summary = simulate(ctx, &["--seeds", "0..10000"])?;
    let (messages, faults) = (count(&summary, "messages")?, count(&summary, "faults")?);
    let text = format!("{messages} messages, {faults} faults");
    Ok(Figure::new(true, text))
}
