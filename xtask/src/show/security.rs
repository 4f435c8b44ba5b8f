//! Encryption as a dial: nobody gets in, nothing gets through, and what sealing costs.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::flow::STRICT;
use super::speed;
use super::tools::{PORT, count, median, number_of, simulate, tests_of};
use super::{Ctx, Figure, Line};
use crate::error::{Context, Failure, Result};
use crate::exec::{self, Process};
use crate::netns::{Netns, Pair};
use crate::{fuzz, planted};

pub(super) const LINES: &[Line] = &[
    Line {
        name: "different-keys",
        must: "two nodes with different keys, or of different modes, exchange nothing; both say why",
        run: |_| tests_of("suci", "never_talk_and_both_sides_say_why", &[STRICT]),
    },
    Line {
        name: "rotation",
        must: "a key rotated and retired live under load at 8 nodes: nothing lost",
        run: |_| {
            let nodes = ("SUCI_TEST_NODES", "8");
            tests_of("suci", "a_key_that_is_changed_under_load", &[STRICT, nodes])
        },
    },
    Line {
        name: "reflection",
        must: "no handshake reply exceeds its request",
        run: |_| red_team("reflection", "20000"),
    },
    Line {
        name: "spoofed",
        must: "10^6 spoofed first packets: memory and peer table unchanged, newcomers of the book come in within 1 s meanwhile",
        run: |_| spoofed(),
    },
    Line {
        name: "red-team",
        must: "every attack fails in both modes, all messages of others arrive",
        run: |_| red_team("", "20000"),
    },
    Line {
        name: "defences",
        must: "every attack succeeds once its defence is gone",
        run: |_| {
            Ok(Figure::new(
                true,
                format!("{} succeed", planted::break_in()?),
            ))
        },
    },
    Line {
        name: "weaknesses",
        must: "each of ten weaknesses that others had is found once it is built in",
        run: |_| {
            let found = planted::find_weaknesses()?;
            Ok(Figure::new(found >= 10, format!("{found} are found")))
        },
    },
    Line {
        name: "noise-plain",
        must: "100,000 packets of noise a second: at least 0.8 of the goodput beside a UDP sink of the same noise",
        run: |ctx| noise(ctx, false),
    },
    Line {
        name: "noise-sealed",
        must: "the same in sealed mode",
        run: |ctx| noise(ctx, true),
    },
    Line {
        name: "replays",
        must: "recorded sessions change nothing and are counted, at the same and at a restarted node",
        run: |_| red_team("replay", "20000"),
    },
    Line {
        name: "nonces",
        must: "no pair of key and number twice in 10,000 seeds with restored snapshots",
        run: nonces,
    },
    Line {
        name: "sealed-64k",
        must: "64 KiB sealed: 1.5 x quinn, 0.75 x rustls over TCP; all but the cipher at most 1.1 x plain's processor time",
        run: |_| sealed_stream(),
    },
    Line {
        name: "sealed-rtt",
        must: "64 B round trip sealed: at most 1.15 x plain",
        run: |_| speed::sealed_round_trip(),
    },
    Line {
        name: "sealed-batches",
        must: "32 B in batches sealed: at least 0.55 x plain",
        run: |_| speed::sealed_batches(),
    },
    Line {
        name: "metrics",
        must: "slow and hostile HTTP clients hold up neither scrapers nor the node",
        run: |_| tests_of("suci", "statistics::", &[STRICT]),
    },
    Line {
        name: "fuzz",
        must: "an hour of fuzzing in all finds nothing",
        run: |_| {
            let targets = fuzz::count()?;
            fuzz::check(HOUR / targets, None)?;
            Ok(Figure::new(
                true,
                format!("{targets} targets, nothing found"),
            ))
        },
    },
    Line {
        name: "soak",
        must: "24 simulated hours: the heap stays flat",
        run: |_| tests_of("suci-proto", "f32_a_day_leaves_the_heap", &[STRICT]),
    },
];

/// Builds a program of a package. Returns its path.
fn built(package: &str, binary: &str) -> Result<std::path::PathBuf> {
    let build = [
        "build",
        "-q",
        "--locked",
        "--release",
        "-p",
        package,
        "--bin",
        binary,
    ];
    exec::run(&mut exec::cargo(build))?;
    Ok(exec::target_dir().join("release").join(binary))
}

/// The table of the red team: the attacks whose names begin with `name`, each in both modes.
fn attacks(name: &str, volume: &str) -> Result<Vec<String>> {
    let program = built("red-team", "red-team")?;
    let listed = exec::capture(Command::new(&program).arg("--list"))?;
    let mut names: Vec<&str> = listed
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    names.dedup();
    let mut table = Vec::new();
    // The last line counts them.
    for attack in names
        .into_iter()
        .filter(|a| a.starts_with(name) && !a.starts_with(char::is_numeric))
    {
        let mut run = Command::new(&program);
        run.args(["--attack", attack, "--volume", volume]);
        let output = run.stderr(Stdio::inherit()).output().context("red-team")?;
        let said = String::from_utf8_lossy(&output.stdout);
        table.extend(said.lines().map(|line| format!("   {line}")));
    }
    table.iter().for_each(|line| println!("{line}"));
    Ok(table)
}

fn red_team(name: &str, volume: &str) -> Result<Figure> {
    let table = attacks(name, volume)?;
    let failed = table
        .iter()
        .filter(|line| line.starts_with("   ok "))
        .count();
    let won = table
        .iter()
        .filter(|line| line.starts_with("   FAIL "))
        .count();
    let text = format!("{failed} attacks fail, {won} succeed");
    Ok(Figure::new(won == 0 && failed > 0, text))
}

fn spoofed() -> Result<Figure> {
    let table = attacks("spoofed-hellos", "1000000")?;
    let rows = table.iter().filter(|line| line.starts_with("   ok "));
    let newcomers: Vec<u64> = rows.filter_map(|row| number_of(row, "in")).collect();
    let text = format!("newcomers in {newcomers:?} ms, plain and sealed");
    let holds = newcomers.len() == 2 && newcomers.iter().all(|millis| *millis <= 1_000);
    Ok(Figure::new(holds, text))
}

const HOUR: Duration = Duration::from_secs(3_600);

/// Packets of noise a second, how many of them must be sent, and the seconds of a measurement.
const NOISE: &str = "100000";
const LEAST_NOISE: f64 = 95_000.0;
const SECONDS: &str = "5";

/// Starts a program in a namespace. Its output goes to `output`.
fn start(host: &Netns, program: &Path, args: &[&str], output: Stdio) -> Result<Process> {
    let mut command = host.command(program);
    command.args(args).stdout(output).stderr(Stdio::null());
    Process::spawn(&mut command)
}

/// The mean number of datagrams a second in what `--noise` or `--drain` told: until the last full
/// second before it was killed.
fn mean_rate(told: &Path) -> Result<f64> {
    let told = std::fs::read_to_string(told)?;
    let counts: Vec<f64> = told.lines().filter_map(|line| line.parse().ok()).collect();
    let last = counts.last().context("no noise for a second")?;
    Ok(last / counts.len() as f64)
}

/// The figures of a stream of 64 KiB beside noise.
struct Beside {
    /// Mbit/s.
    goodput: f64,
    /// Packets of noise a second.
    sent: f64,
    /// Packets of noise a second that the sink received. `None` without a sink.
    arrived: Option<f64>,
}

/// A stream of 64 KiB, while noise comes to the stream's own port, or to a sink at the same host.
fn beside_noise(ctx: &Ctx, pair: &Pair, security: &[&str], to_sink: bool) -> Result<Beside> {
    let red_team = built("red-team", "red-team")?;
    let at = format!("{}:{PORT}", pair.b_addr());
    let sink = format!("{}:{}", pair.b_addr(), PORT + 1);
    let listen = [&["perf", "--listen", &at][..], security].concat();
    let _server = start(&pair.b, ctx.suci()?, &listen, Stdio::null())?;
    let (sent, came) = (ctx.scratch("noise.sent"), ctx.scratch("noise.came"));
    let told = |path: &Path| Ok::<_, Failure>(Stdio::from(std::fs::File::create(path)?));
    // Longer than the measurement with its warming up; both are killed after it.
    let drain = ["--drain", &sink, "60"];
    let drain = start(&pair.b, &red_team, &drain, told(&came)?)?;
    std::thread::sleep(Duration::from_millis(300));
    let to = if to_sink { &sink } else { &at };
    let noise = ["--noise", to, NOISE, "60"];
    let noise = start(&pair.a, &red_team, &noise, told(&sent)?)?;
    let mut client = pair.a.command(ctx.suci()?);
    client.args([
        "perf",
        "--json",
        "--rounds",
        "1",
        "--workload",
        "stream",
        "--size",
        "65536",
    ]);
    client.args(["--seconds", SECONDS]).args(security).arg(&at);
    let said = exec::capture(&mut client)?;
    drop((noise, drain));
    let row: Value = serde_json::from_str(said.lines().last().unwrap_or_default())?;
    let figure = |name: &str| row[name].as_f64().context(format!("suci perf: no {name}"));
    Ok(Beside {
        goodput: figure("bytes")? * 8.0 / 1e6 / figure("seconds")?,
        sent: mean_rate(&sent)?,
        arrived: to_sink.then(|| mean_rate(&came)).transpose()?,
    })
}

/// The median of three rounds in turns.
fn noise(ctx: &Ctx, sealed: bool) -> Result<Figure> {
    let key = ctx.scratch("noise.key");
    if !key.is_file() {
        exec::capture(Command::new(ctx.suci()?).arg("keygen").arg(&key))?;
    }
    let file = key.to_str().context("UTF-8")?;
    let security: &[&str] = match sealed {
        true => &["--key-file", file],
        false => &["--plain"],
    };
    let (mut ratios, mut said, mut least) = (Vec::new(), Vec::new(), f64::MAX);
    for _ in 0..3 {
        let pair = Pair::new()?;
        let beside = beside_noise(ctx, &pair, security, true)?;
        let pair = Pair::new()?;
        let within = beside_noise(ctx, &pair, security, false)?;
        ratios.push(within.goodput / beside.goodput);
        least = least.min(within.sent).min(beside.sent);
        said.push(format!(
            "{:.0} of {:.0} Mbit/s beside {:.0} and {:.0} packets/s, of which the sink got {:.0}",
            within.goodput,
            beside.goodput,
            within.sent,
            beside.sent,
            beside.arrived.unwrap_or_default(),
        ));
    }
    let ratio = median(ratios);
    let mut text = format!(
        "{ratio:.2} of the goodput beside a sink ({})",
        said.join("; ")
    );
    if least < LEAST_NOISE {
        text = format!("{text}; {LEAST_NOISE:.0} packets/s of noise are wanted");
    }
    Ok(Figure::new(ratio >= 0.8 && least >= LEAST_NOISE, text))
}

/// Seeds of the simulator's sealed profile.
const SEEDS: &str = "0..10000";

fn nonces(ctx: &Ctx) -> Result<Figure> {
    let summary = simulate(ctx, &["--seeds", SEEDS, "--profile", "sealed", "--quiet"])?;
    let (seeds, failed) = (count(&summary, "seeds")?, count(&summary, "failed")?);
    let text = format!("{seeds} seeds, {failed} failed");
    Ok(Figure::new(seeds == 10_000 && failed == 0, text))
}

/// The time that the cipher alone takes for one byte, sealed and opened, in ns, and its name.
fn cipher_cost() -> Result<(f64, String)> {
    let program = built("suci-tests", "cipher-cost")?;
    let said = exec::capture(&mut Command::new(program))?;
    let parts = said.trim().split_once(' ');
    let read = parts.and_then(|(time, name)| Some((time.parse().ok()?, name.to_owned())));
    read.ok_or_else(|| Failure::new(format!("cipher-cost: {said:?}")))
}

fn sealed_stream() -> Result<Figure> {
    let (cost, name) = cipher_cost()?;
    speed::sealed_stream(cost, &name)
}
