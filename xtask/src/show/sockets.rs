//! Sockets, and the ways of packets below them.

use super::tools::{count, median, simulate, tests_of};
use super::{Ctx, Figure, Line};
use crate::error::Result;
use crate::evaluate::cdp::{
    Bench, ETHERNET, IP_AND_UDP, Method, SUCI, SUCI_OWN_TYPE, SUCI_PACKET, SUCI_XDP, TCP, Turn,
    UDP, cable,
};
use crate::evaluate::hops::{Chain, Forwarding};

/// Rounds of a comparison in turns, and seconds of a turn.
const ROUNDS: usize = 5;
const SECONDS: f64 = 1.0;

/// Mbit/s of the paced cable.
const WIRE: f64 = 1_000.0;

pub(super) const LINES: &[Line] = &[
    Line {
        name: "throughput",
        must: "at 1 Gbit/s 0.99 of what its framing allows; 0.90 of TCP at 64 B, 0.98 from 4 KiB on; 0.97 of UDP at 1,472 B",
        run: throughput,
    },
    Line {
        name: "raw-round-trip",
        must: "64 B over AF_PACKET or AF_XDP in 0.85 of the time over UDP, spinning; processor time of a message of each",
        run: raw_round_trip,
    },
    Line {
        name: "mesh",
        must: "27 nodes in a cube, all to all, a forwarder killed and returned: nothing lost, nothing twice; the next route takes over; messages to it are delivered or end with an error",
        run: |_| tests_of("suci-tests", "a_cube_of_27_nodes", &[]),
    },
    Line {
        name: "hops",
        must: "64 KiB through one and two nodes, beside the kernel's forwarding of Suci and of TCP (no bound)",
        run: hops,
    },
    Line {
        name: "ten-thousand",
        must: "10,000 connections at once; 1,000 connects and closes a second for a minute, memory flat; a listener under 100,000 forged opens serves",
        run: |_| {
            tests_of(
                "suci-sockets",
                "memory_stays_flat",
                &[("SUCI_TEST_FULL", "1")],
            )
        },
    },
    Line {
        name: "silent-peers",
        must: "100,000 opens that a peer never confirms leave a bounded number of placeholders, and the listener serves others",
        run: |_| tests_of("suci-layers", "f04_opens_that_are_never_confirmed", &[]),
    },
    Line {
        name: "model",
        must: "a model tries all interleavings of both ends, and finds each of seven planted faults",
        run: |_| tests_of("suci-layers", "sockets::tests::model", &[]),
    },
    super::cores::LINE,
    Line {
        name: "simulator",
        must: "1,000 seeds of sockets under all faults: bytes and messages in order, once, whole or with an error at both ends",
        run: simulated,
    },
];

/// Measures the methods in turns. Returns the turns of each.
fn in_turns<const N: usize>(
    methods: [Method; N],
    is_paced: bool,
    is_stream: bool,
    size: u32,
) -> Result<[Vec<Turn>; N]> {
    let (bench, pair) = (Bench::build()?, cable(is_paced)?);
    let mut turns = [const { Vec::new() }; N];
    for _ in 0..ROUNDS {
        for (method, turns) in methods.into_iter().zip(&mut turns) {
            turns.push(bench.turn(&pair, method, is_stream, size, SECONDS)?);
        }
    }
    Ok(turns)
}

fn of(turns: &[Turn], figure: fn(&Turn) -> f64) -> f64 {
    median(turns.iter().map(figure).collect())
}

fn throughput(_: &Ctx) -> Result<Figure> {
    let mut holds = true;
    let mut said = vec![format!(
        "framing: packets without losses, each Ethernet {ETHERNET} B, IP and UDP {IP_AND_UDP} B, \
         Suci's header and frames"
    )];
    let bench = Bench::build()?;
    for size in [64, 1_472, 4_096, 65_536] {
        let turns = in_turns([TCP, UDP, SUCI], true, true, size)?;
        let [tcp, udp, suci] = turns.each_ref().map(|turns| of(turns, Turn::mbit));
        let messages = of(&turns[2], Turn::sent);
        let framing = bench.framing(size, messages)?;
        let allowed = WIRE * messages * f64::from(size) / framing.wire_bytes;
        let (packet, each) = (
            framing.wire_bytes / framing.packets,
            messages / framing.packets,
        );
        let (of_allowed, of_tcp, of_udp) = (suci / allowed, suci / tcp, suci / udp);
        holds &= of_allowed >= 0.99
            && match size {
                64 => of_tcp >= 0.90,
                1_472 => of_udp >= 0.97,
                _ => of_tcp >= 0.98,
            };
        said.push(format!(
            "{size} B: {suci:.0} Mbit/s, {of_allowed:.3} of the {allowed:.1} that framing allows \
             ({packet:.0} B for {each:.3} messages), {of_tcp:.3} of TCP, {of_udp:.3} of UDP"
        ));
    }
    Ok(Figure::new(holds, said.join("; ")))
}

fn raw_round_trip(_: &Ctx) -> Result<Figure> {
    let methods = [SUCI, SUCI_PACKET, SUCI_OWN_TYPE, SUCI_XDP];
    let turns = in_turns(methods, false, false, 64)?;
    let [udp, ..] = turns.each_ref().map(|turns| of(turns, Turn::micros));
    let mut said = Vec::new();
    let mut least = f64::INFINITY;
    for (method, turns) in methods.iter().zip(&turns) {
        let (micros, cpu) = (of(turns, Turn::micros), of(turns, Turn::cpu_micros));
        least = least.min(micros / udp);
        let (name, share) = (method.name, micros / udp);
        said.push(format!(
            "{name}: {micros:.1} us, {share:.3} of UDP, processor time of both ends {cpu:.1} us"
        ));
    }
    Ok(Figure::new(least <= 0.85, said.join("; ")))
}

fn hops(_: &Ctx) -> Result<Figure> {
    let ways = [
        ("nodes", SUCI, Forwarding::Nodes),
        ("kernel", SUCI, Forwarding::Kernel),
        ("kernel, TCP", TCP, Forwarding::Kernel),
    ];
    let bench = Bench::build()?;
    let mut said = Vec::new();
    let mut holds = true;
    for hops in 1..=2 {
        let chain = Chain::new(hops)?;
        let mut figures = ways.map(|_| Vec::new());
        for _ in 0..ROUNDS {
            for ((_, method, forwarding), figures) in ways.iter().zip(&mut figures) {
                figures.push(chain.mbit(&bench, *method, *forwarding, SECONDS)?);
            }
        }
        for ((name, ..), figures) in ways.iter().zip(figures) {
            let mbit = median(figures);
            holds &= mbit > 0.0;
            said.push(format!("{hops} hops, {name}: {mbit:.0} Mbit/s"));
        }
    }
    Ok(Figure::new(holds, said.join("; ")))
}

fn simulated(ctx: &Ctx) -> Result<Figure> {
    let summary = simulate(ctx, &["--profile", "sockets", "--seeds", "0..1000"])?;
    let (failed, faults) = (count(&summary, "failed")?, count(&summary, "faults")?);
    let connections = count(&summary, "connections")?;
    let text = format!("{connections} connections, {faults} faults, {failed} seeds failed");
    Ok(Figure::new(failed == 0 && connections > 10_000, text))
}
