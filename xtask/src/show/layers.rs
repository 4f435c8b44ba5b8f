//! One-sided operations, collective operations and what runs on them.

use std::collections::BTreeMap;
use std::time::Instant;

use super::tools::{count, median, simulate, tests_of};
use super::{Ctx, Figure, Line, silent_cut};
use crate::error::{Context, Result};
use crate::evaluate::dse::{OTHELLO, Programs, SOR, TRANSPORTS, cores};
use crate::{bench, conformance, guards, planted};

/// Rounds of a comparison in turns.
const ROUNDS: usize = 5;

/// A product and a plate that take a second and more: shorter ones measure how processes start.
const MATRIX: &[&str] = &["matrix", "1536"];
const PLATE: &[&str] = &["sor", "1024", "--sweeps", "1000", "--tolerance", "0"];

/// The least speed-up of two processes.
const SPEED_UP: f64 = 1.7;

pub(super) const LINES: &[Line] = &[
    Line {
        name: "one-sided",
        must: "put and get of 8 B to 1 MiB, fetch-and-add and atomics: between namespaces in less time than MPICH and Open MPI over TCP, on one machine over shared memory in at most 2 x theirs",
        run: |_| beside_mpi("put,get,add,atomics"),
    },
    Line {
        name: "collectives",
        must: "barrier and allreduce of 8 B and 1 MiB, 2, 4 and 8 processes: between namespaces in less time than MPICH and Open MPI over TCP, on one machine in at most 2 x theirs over shared memory",
        run: |_| beside_mpi("barrier,allreduce"),
    },
    Line {
        name: "one-copy",
        must: "put and recv_into of 64 KiB: the receiver copies each byte once, from the datagram to the program's memory",
        run: |_| one_copy(),
    },
    Line {
        name: "simulator",
        must: "1,000 seeds of each of one-sided operations, groups and members under all faults: no seed fails",
        run: simulated,
    },
    Line {
        name: "planted",
        must: "within 1,000 seeds: placement after withdrawal, an atomic applied twice after loss, a fence that does not wait, a barrier that one member leaves early, a key not checked",
        run: |_| find_planted(),
    },
    Line {
        name: "thousand-members",
        must: "1,000 simulated members come and go: all know all, nobody who lives is told dead",
        run: |_| {
            tests_of(
                "suci-sim",
                "a_crowd_comes_and_goes",
                &[("SUCI_SIM_MEMBERS", "1000")],
            )
        },
    },
    Line {
        name: "killed-member",
        must: "kill -9 of one of 8 in an allreduce: the others have the error within 1.25 x the silence timeout, shrink, and have the right sum",
        run: |_| tests_of("suci-tests", "f17_a_group_whose_member_is_killed", &[]),
    },
    Line {
        name: "member-cut-off",
        must: "one of 8 namespaces is cut off silently in an allreduce: the same",
        run: silent_cut::measure,
    },
    Line {
        name: "openshmem",
        must: "each function of OpenSHMEM and examples of its specification, 1 to 5 processes, also under 3 % loss",
        run: |_| tests_of("suci-shmem", "", &[]),
    },
    Line {
        name: "conformance",
        must: "the public unit tests of OpenSHMEM with 2 and 4 processes: all that apply pass, without and with 3 % loss",
        run: |_| conformance(),
    },
    Line {
        name: "applications",
        must: "the applications of DSE: results of 1, 2 and 4 processes equal the sequential ones",
        run: |_| tests_of("dse", "", &[]),
    },
    Line {
        name: "speed-up",
        must: "SOR and matrix product with 2 processes at least 1.7 x as fast as with 1",
        run: |_| speed_up(),
    },
    Line {
        name: "topologies",
        must: "Othello and SOR over Suci, with one socket for each process, no slower than over TCP's complete graph and faster than over chain, tree, ring and torus",
        run: |_| topologies(),
    },
];

/// The variable that names a clone of github.com/openshmem-org/tests-sos.
const TESTS: &str = "SUCI_SHMEM_TESTS";

fn conformance() -> Result<Figure> {
    let tests = std::env::var_os(TESTS);
    let tests = tests.context(format!(
        "{TESTS} names no clone of openshmem-org/tests-sos: set it"
    ))?;
    let count = |faults| {
        conformance::count(conformance::Choice {
            tests: tests.as_ref(),
            only: None,
            faults,
            json: false,
        })
    };
    let (plain, lossy) = (count(None)?, count(Some("loss=0.03"))?);
    let holds = [plain, lossy]
        .iter()
        .all(|[passed, failed, _]| *passed > 0 && *failed == 0);
    let said = |[passed, failed, not]: [usize; 3]| {
        format!("{passed} passed, {failed} failed, {not} not applicable")
    };
    Ok(Figure::new(
        holds,
        format!("{}; under loss {}", said(plain), said(lossy)),
    ))
}

/// The bench's rows of these operations: Suci's time by that of each contender in the same place.
fn beside_mpi(only: &str) -> Result<Figure> {
    let rounds = ROUNDS.to_string();
    let rows = bench::layers(&["--only", only, "--rounds", &rounds])?;
    let mut said: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut absent = Vec::new();
    let mut compared = [0; 2];
    let mut holds = true;
    for row in &rows {
        let text = |name: &str| row[name].as_str().unwrap_or_default();
        let number = |name: &str| row[name].as_f64().context(format!("the bench's {name}"));
        let contender = text("contender");
        if row["absent"].is_string() {
            absent.push(format!("{contender} is absent ({})", text("absent")));
            continue;
        }
        let is_machine = text("place") == "machine";
        let (bytes, ratio) = (number("bytes")?, number("suci_of_it")?);
        if row["is_suci"] != true {
            compared[usize::from(is_machine)] += 1;
            holds &= if is_machine {
                ratio <= 2.0
            } else {
                ratio < 1.0
            };
        }
        let mark = match row["oversubscribed"] == true {
            true => ", oversubscribed",
            false => "",
        };
        let (operation, processes) = (text("operation"), number("processes")?);
        let mut figure = match row["is_suci"] == true {
            true => format!("{contender} {:.1} us", number("micros")?),
            false => format!("{ratio:.2} of {contender}"),
        };
        if ["add", "atomics"].contains(&operation) {
            figure += &format!(" ({:.0}/s)", number("per_second")?);
        }
        let label = format!("{operation} {bytes} B, {processes} processes{mark}");
        said.entry(label).or_default().push(figure);
    }
    let figures = said
        .iter()
        .map(|(label, figures)| format!("{label}: {}", figures.join(", ")));
    let said: Vec<_> = figures.chain(absent).collect();
    holds &= compared.iter().all(|count| *count > 0);
    Ok(Figure::new(holds, said.join("; ")))
}

/// Counts under valgrind all bytes that the receiver's library moves by `memcpy` and `memmove`. A
/// put is stored into its region word by word, which valgrind does not see: the test of the engine
/// counts that, and here a second copy of the payload would show. The rest is headers and events.
fn one_copy() -> Result<Figure> {
    let counted = guards::copies_of_placed()?;
    let mut holds = counted.len() == 2;
    let mut said = Vec::new();
    for (call, copied) in counted {
        let (least, stores) = match call {
            "put" => (0.0, " beside the stores into the region"),
            _ => (1.0, ""),
        };
        holds &= (least..least + 0.5).contains(&copied);
        said.push(format!(
            "{call}: {copied:.3} B copied for each byte{stores}"
        ));
    }
    let engine = tests_of("suci-proto", "placed_bytes_are_copied_once", &[])?;
    Ok(Figure::new(
        holds && engine.holds,
        format!("{}; {}", said.join("; "), engine.text),
    ))
}

fn simulated(ctx: &Ctx) -> Result<Figure> {
    let mut said = Vec::new();
    let mut holds = true;
    for profile in ["remote", "groups", "members"] {
        let begun = Instant::now();
        let summary = simulate(ctx, &["--profile", profile, "--seeds", "0..1000"])?;
        let (failed, faults) = (count(&summary, "failed")?, count(&summary, "faults")?);
        holds &= failed == 0 && faults > 0;
        let seconds = begun.elapsed().as_secs();
        said.push(format!(
            "{profile}: {failed} seeds failed, {faults} faults, {seconds} s"
        ));
    }
    let begun = Instant::now();
    let seeds = [("SUCI_SIM_SEEDS", "1000")];
    let members = tests_of("suci-sim", "members_come_and_go", &seeds)?;
    let seconds = begun.elapsed().as_secs();
    holds &= members.holds;
    said.push(format!("members: {}, {seconds} s", members.text));
    Ok(Figure::new(holds, said.join("; ")))
}

fn find_planted() -> Result<Figure> {
    const FAULTS: [(&str, &str); 5] = [
        ("placement-after-withdrawal", "remote"),
        ("atomic-applied-twice", "remote"),
        ("fence-without-wait", "remote"),
        ("barrier-left-early", "groups"),
        ("region-key-unchecked", "remote"),
    ];
    let find = |(fault, profile): (&str, &str)| -> Result<String> {
        Ok(format!("{fault}: {}", planted::find(fault, profile)?))
    };
    let found: Vec<_> = FAULTS.into_iter().map(find).collect::<Result<_>>()?;
    Ok(Figure::new(true, found.join("; ")))
}

/// Runs a program in turns with each number of processes over each transport. Returns the medians
/// of the times, and the most sockets of a process in each.
fn in_turns(
    programs: &Programs,
    arguments: &[&str],
    ways: &[(u32, &str)],
) -> Result<Vec<(f64, u64)>> {
    let mut turns = vec![(Vec::new(), 0); ways.len()];
    for _ in 0..ROUNDS {
        for ((processes, transport), (times, sockets)) in ways.iter().zip(&mut turns) {
            let report = programs.run(*processes, transport, arguments)?;
            times.push(report["seconds"].as_f64().context("no seconds")?);
            let now = report["sockets"].as_u64().context("no sockets")?;
            *sockets = now.max(*sockets);
        }
    }
    let medians = turns.into_iter();
    Ok(medians
        .map(|(times, sockets)| (median(times), sockets))
        .collect())
}

fn speed_up() -> Result<Figure> {
    let programs = Programs::build()?;
    let mut said = Vec::new();
    let mut holds = true;
    for (name, arguments) in [("SOR", PLATE), ("matrix product", MATRIX)] {
        let turns = in_turns(&programs, arguments, &[(1, "suci"), (2, "suci")])?;
        let [(alone, _), (together, _)] = turns[..] else {
            continue;
        };
        let ratio = alone / together;
        holds &= ratio >= SPEED_UP;
        said.push(format!(
            "{name}: {ratio:.2} ({alone:.2} s, {together:.2} s)"
        ));
    }
    Ok(Figure::new(holds, said.join("; ")))
}

/// With two processes all topologies are the same; with four they differ.
fn topologies() -> Result<Figure> {
    const PROCESSES: u32 = 4;
    let programs = Programs::build()?;
    let ways = TRANSPORTS.map(|transport| (PROCESSES, transport));
    let mut said = Vec::new();
    let mut holds = true;
    for (name, arguments) in [("Othello", OTHELLO), ("SOR", SOR)] {
        let turns = in_turns(&programs, arguments, &ways)?;
        let [(own, sockets), others @ ..] = &turns[..] else {
            continue;
        };
        holds &= *sockets == 1;
        let mut ratios = Vec::new();
        for (transport, (time, _)) in TRANSPORTS.iter().skip(1).zip(others) {
            let ratio = own / time;
            holds &= match *transport {
                "tcp-complete" => ratio <= 1.0,
                _ => ratio < 1.0,
            };
            ratios.push(format!("{ratio:.2} of {transport}"));
        }
        let ratios = ratios.join(", ");
        said.push(format!("{name}: {own:.2} s, {sockets} socket, {ratios}"));
    }
    let mark = if PROCESSES > cores() {
        " (oversubscribed)"
    } else {
        ""
    };
    Ok(Figure::new(
        holds,
        format!("{PROCESSES} processes{mark}: {}", said.join("; ")),
    ))
}
