//! The first capability: any process sends messages to any other over one UDP socket.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::tools::{self, Ends, MIB, Meter, PORT};
use super::{Ctx, Figure, Line};
use crate::distance::Placement;
use crate::error::{Context, Result};
use crate::exec::{self, Process};
use crate::netns::Pair;
use crate::{faults, fuzz, mutants, perf, planted, tcp};

pub(super) const LINES: &[Line] = &[
    Line {
        name: "demo",
        must: "fresh clone, make demo in under 300 s",
        run: demo,
    },
    Line {
        name: "test",
        must: "fresh clone, make test in under 900 s",
        run: test,
    },
    Line {
        name: "cat-faults",
        must: "1 GiB over loopback, 5 % loss, 5 % dup, 10 % reorder, 0.1 % corrupt, under 120 s",
        run: cat_faults,
    },
    Line {
        name: "cat-drops",
        must: "256 MiB between namespaces, 2 % drops each way, equal hash",
        run: cat_drops,
    },
    Line {
        name: "sim-seeds",
        must: "10,000 seeds pass, 10^7 messages, 10^6 faults, 10 seeds of 100 nodes",
        run: simulator,
    },
    Line {
        name: "sim-planted",
        must: "at least ten, each within 1,000 seeds",
        run: planted_faults,
    },
    Line {
        name: "mutants",
        must: "at least 85 % caught",
        run: mutants,
    },
    Line {
        name: "tbf-alone",
        must: "at least 90 Mbit/s of 100, loss under 1 %",
        run: alone,
    },
    Line {
        name: "tbf-two",
        must: "Jain's index at least 0.9",
        run: two_flows,
    },
    Line {
        name: "tbf-tcp",
        must: "TCP cubic keeps at least 30 % of the link",
        run: beside_tcp,
    },
    Line {
        name: "perf-rtt",
        must: "64 B round trip at most 1.10 x TCP",
        run: round_trip,
    },
    Line {
        name: "perf-stream",
        must: "1 MiB messages at least 0.7 x TCP",
        run: stream,
    },
    Line {
        name: "packets-rtt",
        must: "2.00 packets per round trip of 64 B (at most 2.005), counted",
        run: round_trip_packets,
    },
    Line {
        name: "packets-batch",
        must: "at least 30 messages of 32 B per packet in batches at MTU 1500, counted",
        run: batch_packets,
    },
    Line {
        name: "lone",
        must: "a lone 32 B message takes the time of the 64 B ping (at most 1.10 x)",
        run: |ctx| lone(ctx, "sleep"),
    },
    Line {
        name: "kill",
        must: "Lost within 1.25 silence timeouts, Ended at give_up_after, 0.9 of the rate kept",
        run: kill,
    },
    Line {
        name: "computing",
        must: "a Caller that computes for 30 s is not declared Lost",
        run: computing,
    },
    Line {
        name: "faults",
        must: "every fault row has its test",
        run: fault_rows,
    },
    Line {
        name: "fuzz",
        must: "each target clean for 60 s",
        run: fuzzing,
    },
];

/// The rate of the slow cable, Mbit/s, and its queue: 50 ms, as tc's manual page suggests.
const LINK: u32 = 100;
const QUEUE_MS: u32 = 50;

/// Flows are judged from second 5, when they have found their share, to second 25.
const SETTLED: Duration = Duration::from_secs(5);
const JUDGED: Duration = Duration::from_secs(25);

fn demo(ctx: &Ctx) -> Result<Figure> {
    fresh_clone(ctx, "demo", Duration::from_secs(300))
}

pub(super) fn test(ctx: &Ctx) -> Result<Figure> {
    fresh_clone(ctx, "test", Duration::from_secs(900))
}

/// Clones the committed tree and runs a make target there with nothing built before.
fn fresh_clone(ctx: &Ctx, target: &str, limit: Duration) -> Result<Figure> {
    let clone = ctx.scratch(target);
    let root = exec::root();
    exec::run(
        Command::new("git")
            .args(["clone", "-q"])
            .arg(&root)
            .arg(&clone),
    )?;
    // Dependencies may be fetched, but not built.
    exec::run(exec::cargo(["fetch", "-q", "--locked"]).current_dir(&clone))?;
    let begun = Instant::now();
    let mut make = Command::new("make");
    make.arg(target)
        .current_dir(&clone)
        .env_remove("CARGO")
        .env_remove("CARGO_TARGET_DIR")
        .stdin(Stdio::null());
    // Beyond the limit it goes on for a while, so that the figure tells by how much it missed.
    let done = Process::spawn(&mut make)?.finish_by(begun + 2 * limit);
    let seconds = begun.elapsed();
    std::fs::remove_dir_all(&clone)?;
    done?;
    Ok(Figure::new(
        seconds < limit,
        format!("{:.0} s", seconds.as_secs_f64()),
    ))
}

fn cat_faults(ctx: &Ctx) -> Result<Figure> {
    let cat = |seed: u32| -> Result<Command> {
        let mut command = Command::new(ctx.suci()?);
        let faults = format!("loss=0.05,dup=0.05,reorder=0.1,corrupt=0.001,seed={seed}");
        command.args(["cat", "--faults", &faults]);
        Ok(command)
    };
    let at = ([127, 0, 0, 1], tools::free_port()?).into();
    let ends = Ends {
        receiver: cat(7)?,
        sender: cat(8)?,
        at,
    };
    let limit = Duration::from_secs(120);
    let seconds = tools::transfer(ctx, ends, 1024 * MIB, limit)?;
    Ok(Figure::new(true, format!("equal hash, {seconds:.1} s")))
}

fn cat_drops(ctx: &Ctx) -> Result<Figure> {
    let pair = Pair::new()?;
    pair.offloads_off()?;
    pair.drop_randomly(0.02)?;
    let ends = Ends::between(ctx, &pair, PORT)?;
    let seconds = tools::transfer(ctx, ends, 256 * MIB, Duration::from_secs(300))?;
    Ok(Figure::new(true, format!("equal hash, {seconds:.1} s")))
}

fn simulator(ctx: &Ctx) -> Result<Figure> {
    let summary = tools::simulate(ctx, &["--seeds", "0..10000"])?;
    let count = |name| tools::count(&summary, name);
    let (messages, faults, big) = (count("messages")?, count("faults")?, count("big")?);
    let enough = messages >= 10_000_000 && faults >= 1_000_000 && big >= 10;
    let text = format!("{messages} messages, {faults} faults, {big} seeds of 100 nodes");
    Ok(Figure::new(enough, text))
}

fn planted_faults(_: &Ctx) -> Result<Figure> {
    let found = planted::find_all()?;
    Ok(Figure::new(
        found >= 10,
        format!("{found} of {found} found"),
    ))
}

fn mutants(_: &Ctx) -> Result<Figure> {
    let score = mutants::measure(None)?;
    let (percent, hung) = (score.percent(), score.hung);
    let text = format!(
        "{percent:.1} %, {} missed, {hung} of the caught hung",
        score.missed
    );
    Ok(Figure::new(score.percent() >= mutants::BOUND, text))
}

/// Two hosts with a switch of 100 Mbit/s between them; without offloads, so that queues hold
/// packets.
fn slow_pair() -> Result<Pair> {
    let pair = Pair::across_switch(LINK, QUEUE_MS)?;
    pair.offloads_off()?;
    Ok(pair)
}

fn alone(ctx: &Ctx) -> Result<Figure> {
    let pair = slow_pair()?;
    let out = ctx.scratch("flow");
    let _flow = Ends::between(ctx, &pair, PORT)?.start(Path::new("/dev/zero"), &out)?;
    let [rate] = tools::rates([&|| tools::length(&out)], SETTLED, JUDGED)?;
    let loss = pair.queue_to_b()?.loss();
    let holds = rate >= 0.9 * f64::from(LINK) && loss < 0.01;
    Ok(Figure::new(
        holds,
        format!("{rate:.1} Mbit/s, loss {:.2} %", 100.0 * loss),
    ))
}

fn two_flows(ctx: &Ctx) -> Result<Figure> {
    let pair = slow_pair()?;
    let (one, two) = (ctx.scratch("flow-1"), ctx.scratch("flow-2"));
    let zero = Path::new("/dev/zero");
    let _first = Ends::between(ctx, &pair, PORT)?.start(zero, &one)?;
    let _second = Ends::between(ctx, &pair, PORT + 1)?.start(zero, &two)?;
    let meters: [Meter<'_>; 2] = [&|| tools::length(&one), &|| tools::length(&two)];
    let rates = tools::rates(meters, SETTLED, JUDGED)?;
    let index = tools::jain(&rates);
    let text = format!("{index:.3}: {:.1} and {:.1} Mbit/s", rates[0], rates[1]);
    Ok(Figure::new(index >= 0.9, text))
}

fn beside_tcp(ctx: &Ctx) -> Result<Figure> {
    let pair = slow_pair()?;
    let ours = ctx.scratch("ours");
    // Both begin at once, however long it takes to build ours.
    let ends = Ends::between(ctx, &pair, PORT)?;
    let tcp = tcp::Flow::start(&pair, PORT)?;
    let _suci = ends.start(Path::new("/dev/zero"), &ours)?;
    let meters: [Meter<'_>; 2] = [&|| Ok(tcp.arrived()), &|| tools::length(&ours)];
    let rates = tools::rates(meters, SETTLED, JUDGED)?;
    let text = format!("TCP {:.1}, Suci {:.1} Mbit/s", rates[0], rates[1]);
    Ok(Figure::new(rates[0] >= 0.3 * f64::from(LINK), text))
}

fn round_trip(ctx: &Ctx) -> Result<Figure> {
    let [suci, tcp] = median_beside_tcp(ctx, "ping-pong", 64)?;
    let ratio = suci / tcp;
    Ok(Figure::new(
        ratio <= 1.10,
        format!("{suci:.1} us, TCP {tcp:.1} us, ratio {ratio:.3}"),
    ))
}

fn stream(ctx: &Ctx) -> Result<Figure> {
    let [suci, tcp] = median_beside_tcp(ctx, "stream", MIB)?;
    let ratio = suci / tcp;
    Ok(Figure::new(
        ratio >= 0.7,
        format!("{suci:.2} Gbit/s, TCP {tcp:.2}, ratio {ratio:.2}"),
    ))
}

/// Suci's median and TCP's, of nine times there and back between namespaces, all in one placement
/// of the processors.
fn median_beside_tcp(ctx: &Ctx, workload: &str, size: u64) -> Result<[f64; 2]> {
    const TIMES: usize = 9;
    let settings = ["--vs", "tcp", "--rounds", "2", "--wait", "sleep"];
    let (pair, placement) = (Pair::new()?, Placement::usual()?);
    let (mut suci, mut tcp) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let run = || perf_rows(ctx, &pair, workload, &size.to_string(), &settings);
        let moved = "the hypervisor keeps moving the processors: measure again later";
        let rows = placement.steady(run)?.context(moved)??;
        suci.push(perf::median(&rows, workload, "suci", size)?);
        tcp.push(perf::median(&rows, workload, "tcp", size)?);
    }
    Ok([tools::median(suci), tools::median(tcp)])
}

fn perf_rows(
    ctx: &Ctx,
    pair: &Pair,
    workload: &str,
    sizes: &str,
    settings: &[&str],
) -> Result<Vec<Value>> {
    let what = ["--workload", workload, "--size", sizes];
    perf::rows(ctx.suci()?, pair, &[&what[..], settings].concat())
}

fn round_trip_packets(ctx: &Ctx) -> Result<Figure> {
    let [packets, trips] = counted(ctx, "ping-pong", "64", ["packets", "messages"])?;
    let each = packets / trips;
    let text = format!("{each:.4}: {packets} packets for {trips} round trips");
    Ok(Figure::new(each <= 2.005, text))
}

fn batch_packets(ctx: &Ctx) -> Result<Figure> {
    let [each, messages] = counted(ctx, "rate-batch", "32", ["messages_per_packet", "messages"])?;
    let text = format!("{each:.1} per packet, of {messages} messages");
    Ok(Figure::new(each >= 30.0, text))
}

/// Two figures of one row of `suci perf` between namespaces, over all its rounds.
fn counted(ctx: &Ctx, workload: &str, size: &str, names: [&str; 2]) -> Result<[f64; 2]> {
    let settings = ["--rounds", "9", "--wait", "sleep"];
    let rows = perf_rows(ctx, &Pair::new()?, workload, size, &settings)?;
    let row = rows.first().context("suci perf printed no row")?;
    let figure = |name: &str| row[name].as_f64().context(format!("suci perf: no {name}"));
    Ok([figure(names[0])?, figure(names[1])?])
}

/// A message that nothing follows must not wait for company. Each way of a round trip is such a
/// one.
pub(super) fn lone(ctx: &Ctx, wait: &str) -> Result<Figure> {
    const ALTERNATIONS: u32 = 15;
    let pair = Pair::new()?;
    let (mut lone, mut ping) = (Vec::new(), Vec::new());
    for turn in 0..ALTERNATIONS {
        let sizes = if turn % 2 == 0 { "32,64" } else { "64,32" };
        let settings = ["--rounds", "1", "--wait", wait];
        let rows = perf_rows(ctx, &pair, "ping-pong", sizes, &settings)?;
        lone.push(perf::median(&rows, "ping-pong", "suci", 32)?);
        ping.push(perf::median(&rows, "ping-pong", "suci", 64)?);
    }
    let (lone, ping) = (tools::median(lone), tools::median(ping));
    let ratio = lone / ping;
    let text = format!("32 B {lone:.1} us, 64 B {ping:.1} us there and back, ratio {ratio:.2}");
    Ok(Figure::new(ratio <= 1.10, text))
}

/// The tests that carry F17 are the measurement: Lost and Ended once, in time, outcomes exact,
/// the others' rate kept.
fn kill(_: &Ctx) -> Result<Figure> {
    tools::process_tests("f17_", &[("SUCI_TEST_STRICT", "1")])
}

/// Measures the duration that the project promises, where `make test` is content with three
/// seconds.
fn computing(_: &Ctx) -> Result<Figure> {
    tools::process_tests("computing_caller", &[("SUCI_TEST_COMPUTE_MS", "30000")])
}

fn fault_rows(_: &Ctx) -> Result<Figure> {
    faults::check(false)?;
    Ok(Figure::new(true, "all 40 faults"))
}

fn fuzzing(_: &Ctx) -> Result<Figure> {
    fuzz::check(Duration::from_secs(60), None)?;
    Ok(Figure::new(true, "all targets clean"))
}
