//! Programs as users write them: they get right results, and their mistakes harm no other process.

use std::time::{Duration, Instant};

use super::flow::STRICT;
use super::tools::{count, process_tests, simulate, tests_of};
use super::{Ctx, Figure, Line, control, foundation};
use crate::error::Result;
use crate::{guards, planted, soak};

pub(super) const LINES: &[Line] = &[
    Line {
        name: "program-task-farm",
        must: "work is shared out, a worker is killed: the right number",
        run: |_| tests_of("task-farm", "", &[STRICT]),
    },
    Line {
        name: "program-halo",
        must: "Jacobi iteration on 2 x 2 processes: the result of one process",
        run: |_| tests_of("halo", "", &[STRICT]),
    },
    Line {
        name: "program-kv",
        must: "500 tokio clients come and go, calls are cancelled half-way: right answers",
        run: |_| tests_of("kv", "", &[STRICT]),
    },
    Line {
        name: "program-parameter-server",
        must: "gradients and parameters, a question meanwhile, a worker is killed: right parameters",
        run: |_| tests_of("parameter-server", "", &[STRICT]),
    },
    Line {
        name: "program-members",
        must: "500 joins and leaves under reused node IDs: each is heard",
        run: |_| tests_of("members", "", &[STRICT]),
    },
    Line {
        name: "starts-order",
        must: "1,000 starts under one node ID, on one port and on others: each first message arrives, memory flat",
        run: |_| starts("starts_in_order"),
    },
    Line {
        name: "starts-kill",
        must: "the same, each ended by kill -9",
        run: |_| starts("starts_after_a_kill"),
    },
    Line {
        name: "restart-port",
        must: "killed and started on another port of one machine: accepted within 1 s",
        run: |_| process_tests("starts_again_on_another_port", &[STRICT]),
    },
    Line {
        name: "launch-restart",
        must: "suci run --restart: a killed process is heard to be lost, starts again, the job ends right",
        run: |_| process_tests("f14_f17_a_killed_process_is_started_again", &[STRICT]),
    },
    Line {
        name: "launch-tolerate",
        must: "suci run --tolerate-failures: survivors hear of a death and that it is final",
        run: |_| process_tests("f17_a_killed_process_is_gone", &[STRICT]),
    },
    Line {
        name: "handshake",
        must: "one handshake packet lost, overtaken or doubled, at 64 KiB, 212,992 B and 8 MiB: first answer within 5 probe timeouts",
        run: |_| tests_of("suci-sim", "f31_one_faulty_packet", &[]),
    },
    Line {
        name: "newcomers",
        must: "400 newcomers at once, at 64 KiB, 212,992 B and 8 MiB: all answered within 2 s",
        run: |_| tests_of("suci-sim", "f31_400_newcomers", &[]),
    },
    Line {
        name: "call-cost",
        must: "64 B there and back by a call: at most 3 % more instructions than by send and recv",
        run: |_| call_cost(),
    },
    Line {
        name: "churn",
        must: "10,000 seeds in which a node starts hundreds of times",
        run: churn,
    },
    Line {
        name: "planted-epoch",
        must: "planted fault higher-epoch-ends-session: found within 1,000 seeds",
        run: |_| {
            let said = planted::find("higher-epoch-ends-session", "default")?;
            Ok(Figure::new(true, said))
        },
    },
    Line {
        name: "nodes-1000",
        must: "a seed of 1,000 nodes in at most 30 s",
        run: |ctx| {
            let seed = ["--seeds", "5466029639..5466029640"];
            seed_within(ctx, &seed, Duration::from_secs(30))
        },
    },
    Line {
        name: "nodes-10000",
        must: "a seed of 10,000 nodes in at most 600 s",
        run: |ctx| {
            let seed = ["--seeds", "0..1", "--profile", "vast"];
            seed_within(ctx, &seed, Duration::from_secs(600))
        },
    },
    Line {
        name: "control",
        must: "a question beside bulk, Node and SharedNode: p99 at most TCP's or 5 ms, bulk keeps 0.9 of its rate",
        run: control::beside_bulk,
    },
    Line {
        name: "snippets",
        must: "every README snippet and each example 5 times in a row with the stock rmem_max: no refusal, no hang",
        run: |_| {
            soak::build()?;
            process_tests("snippets_", &[(soak::ROUNDS, "5")])
        },
    },
    Line {
        name: "soak",
        must: "the same 200 times in a row",
        run: |_| {
            soak::build()?;
            process_tests("snippets_", &[(soak::ROUNDS, "200")])
        },
    },
    Line {
        name: "test",
        must: "fresh clone, make test in under 900 s",
        run: foundation::test,
    },
];

/// Tests in which a process starts again and again, at full length.
fn starts(filter: &str) -> Result<Figure> {
    process_tests(filter, &[STRICT, ("SUCI_TEST_STARTS", "1000")])
}

fn call_cost() -> Result<Figure> {
    let [call, round_trip] = guards::call_and_round_trip()?;
    let more = 100.0 * (call / round_trip - 1.0);
    let text = format!("{call:.0} instructions, {round_trip:.0} without: {more:+.1} %");
    Ok(Figure::new(more <= 3.0, text))
}

fn churn(ctx: &Ctx) -> Result<Figure> {
    let summary = simulate(ctx, &["--profile", "churn", "--seeds", "0..10000"])?;
    let count = |name| count(&summary, name);
    let (seeds, messages) = (count("seeds")?, count("messages")?);
    Ok(Figure::new(
        seeds == 10_000,
        format!("{seeds} seeds, {messages} messages"),
    ))
}

/// Runs one simulated seed and measures the wall time.
fn seed_within(ctx: &Ctx, seed: &[&str], limit: Duration) -> Result<Figure> {
    ctx.simulator()?;
    let begun = Instant::now();
    let summary = simulate(ctx, seed)?;
    let took = begun.elapsed();
    let text = format!(
        "{:.1} s, {} messages",
        took.as_secs_f64(),
        count(&summary, "messages")?
    );
    Ok(Figure::new(took <= limit, text))
}
