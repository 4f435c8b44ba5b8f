//! Helpers for several lines: files of noise, hashes, transfers by `suci cat`, and flows whose
//! progress is the length of a file.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Ctx, Figure};
use crate::error::{Context, Failure, Result};
use crate::exec::{self, Process};
use crate::figures;
use crate::netns::{Netns, Pair};
use crate::planted;

/// Mebibyte.
pub(super) const MIB: u64 = 1 << 20;

/// The port of everything inside namespaces, which have no other programs.
pub(super) const PORT: u16 = 7000;

/// Writes `length` bytes of noise that no compression and no repeated block can hide behind.
pub(super) fn noise(path: &Path, length: u64) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).context(path.display())?);
    // xorshift64: quality enough for a payload, and a gigabyte takes a second.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..length / 8 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.write_all(&state.to_le_bytes())?;
    }
    Ok(out.flush()?)
}

/// The SHA-256 of a file, by the system's own tool rather than by code that we also ship.
pub(super) fn sha256(path: &Path) -> Result<String> {
    let said = exec::capture(Command::new("sha256sum").arg(path))?;
    said.split_whitespace()
        .next()
        .map(str::to_owned)
        .context("sha256sum printed nothing")
}

/// A UDP port on loopback that was free a moment ago.
pub(super) fn free_port() -> Result<u16> {
    Ok(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

/// The two ends of a transfer: commands that still lack their addresses and streams.
pub(super) struct Ends {
    /// `suci`, where the data goes.
    pub(super) receiver: Command,
    /// `suci`, where it comes from.
    pub(super) sender: Command,
    /// The receiver's address.
    pub(super) at: SocketAddr,
}

impl Ends {
    /// `suci cat` from `a` to `b` of a pair, unsealed.
    pub(super) fn between(ctx: &Ctx, pair: &Pair, port: u16) -> Result<Self> {
        let cat = |end: &Netns| -> Result<Command> {
            let mut command = end.command(ctx.suci()?);
            command.args(["cat", "--plain"]);
            Ok(command)
        };
        let at = SocketAddr::from((pair.b_addr(), port));
        Ok(Self {
            receiver: cat(&pair.b)?,
            sender: cat(&pair.a)?,
            at,
        })
    }

    /// Starts both: `input` is sent, arriving bytes are written to `output`.
    pub(super) fn start(mut self, input: &Path, output: &Path) -> Result<Flow> {
        self.receiver.arg("--listen").arg(self.at.to_string());
        self.receiver
            .stdin(Stdio::null())
            .stdout(File::create(output)?);
        self.sender.arg(self.at.to_string());
        self.sender.stdin(File::open(input)?).stdout(Stdio::null());
        let receiver = Process::spawn(&mut self.receiver)?;
        Ok(Flow {
            receiver,
            sender: Process::spawn(&mut self.sender)?,
        })
    }
}

/// A transfer that runs; killed when dropped.
pub(super) struct Flow {
    receiver: Process,
    sender: Process,
}

impl Flow {
    /// Waits for both ends to succeed.
    pub(super) fn finish_by(&mut self, deadline: Instant) -> Result<()> {
        self.sender.finish_by(deadline)?;
        self.receiver.finish_by(deadline)
    }
}

/// Carries a file of noise and compares hashes; returns the seconds it took.
pub(super) fn transfer(ctx: &Ctx, ends: Ends, length: u64, limit: Duration) -> Result<f64> {
    let (input, output) = (ctx.scratch("in"), ctx.scratch("out"));
    noise(&input, length)?;
    let begun = Instant::now();
    let done = ends.start(&input, &output)?.finish_by(begun + limit);
    let seconds = begun.elapsed().as_secs_f64();
    let same = done.and_then(|()| Ok(sha256(&input)? == sha256(&output)?));
    for file in [&input, &output] {
        std::fs::remove_file(file)?;
    }
    if same? {
        Ok(seconds)
    } else {
        Err(Failure::new("the hashes differ"))
    }
}

/// Something that tells how many bytes have arrived so far.
pub(super) type Meter<'a> = &'a dyn Fn() -> Result<u64>;

/// The length of a file, as a meter of the bytes written to it.
pub(super) fn length(path: &Path) -> Result<u64> {
    Ok(std::fs::metadata(path).context(path.display())?.len())
}

/// The rate that each of `N` meters measures between two moments from now, in Mbit/s.
pub(super) fn rates<const N: usize>(
    meters: [Meter<'_>; N],
    from: Duration,
    to: Duration,
) -> Result<[f64; N]> {
    let read = || -> Result<Vec<u64>> { meters.iter().map(|meter| meter()).collect() };
    std::thread::sleep(from);
    let (first, begun) = (read()?, Instant::now());
    std::thread::sleep(to.saturating_sub(from));
    let (last, seconds) = (read()?, begun.elapsed().as_secs_f64());
    let mut rates = [0.0; N];
    for (rate, (first, last)) in rates.iter_mut().zip(first.iter().zip(&last)) {
        *rate = mbit(last.saturating_sub(*first)) / seconds;
    }
    Ok(rates)
}

/// Bytes as megabits.
#[expect(clippy::cast_precision_loss, reason = "a figure for people to read")]
pub(super) fn mbit(bytes: u64) -> f64 {
    bytes as f64 * 8.0 / 1e6
}

/// Runs the tests across processes whose names contain `filter`, under `settings` (tests/src/lib.rs
/// lists ours, and cargo has some); there must be one. The figure that they print is returned.
pub(super) fn process_tests(filter: &str, settings: &[(&str, &str)]) -> Result<Figure> {
    tests_of("suci-tests", filter, settings)
}

/// The same in a build that has planted faults, with one of them in every node, or none.
pub(super) fn planted_tests(filter: &str, fault: Option<&str>) -> Result<Figure> {
    let target = planted::dir();
    let mut settings = planted::SETTINGS.to_vec();
    settings.push(("CARGO_TARGET_DIR", target.to_str().context("UTF-8")?));
    settings.extend(fault.map(|fault| ("SUCI_TEST_PLANT", fault)));
    process_tests(filter, &settings)
}

/// The same for the tests of another package.
pub(super) fn tests_of(package: &str, filter: &str, settings: &[(&str, &str)]) -> Result<Figure> {
    let build = ["build", "-q", "--locked", "--release", "-p", "suci-cli"];
    exec::run(exec::cargo(build).envs(settings.iter().copied()))?;
    let args = [
        "test",
        "-q",
        "--locked",
        "--release",
        "-p",
        package,
        // Before `--`, a filter would keep cargo from building examples, which tests may run.
        "--",
        filter,
        "--nocapture",
    ];
    let said = exec::capture(exec::cargo(args).envs(settings.iter().copied()))?;
    let passed: u64 = said
        .lines()
        .filter(|line| line.starts_with("test result:"))
        .filter_map(|line| number_of(line, "passed"))
        .sum();
    let mut text = format!("{passed} tests passed");
    // A progress dot may stand in front of it.
    let figures = said.lines().filter_map(|line| line.split_once("figure: "));
    for (_, figure) in figures {
        text = format!("{text}; {figure}");
    }
    Ok(Figure::new(passed > 0, text))
}

/// Returns the simulator's report of a run; fails unless everything passed.
pub(super) fn simulate(ctx: &Ctx, args: &[&str]) -> Result<Value> {
    let mut run = Command::new(ctx.simulator()?);
    let said = exec::capture(run.args(args).arg("--json"))?;
    Ok(serde_json::from_str(
        said.lines().last().unwrap_or_default(),
    )?)
}

/// A number of a simulator's summary.
pub(super) fn count(summary: &Value, name: &str) -> Result<u64> {
    summary[name]
        .as_u64()
        .context(format!("suci-sim: no {name}"))
}

/// The median of some figures; NaN, which no bound holds for, if there are none.
pub(crate) fn median(figures: Vec<f64>) -> f64 {
    figures::median(figures).unwrap_or(f64::NAN)
}

/// Jain's fairness index of some rates: 1 when all are equal, 1/n when one has everything.
#[expect(clippy::cast_precision_loss, reason = "a handful of flows")]
pub(super) fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    if squares == 0.0 {
        0.0
    } else {
        sum * sum / (rates.len() as f64 * squares)
    }
}

/// The number that stands beside `word` in a line of words: `12 messages` or `messages=12`.
pub(super) fn number_of(line: &str, word: &str) -> Option<u64> {
    let words: Vec<&str> = line
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|w| !w.is_empty())
        .collect();
    let at = words.iter().position(|w| *w == word)?;
    let number = |at: usize| words.get(at)?.replace('_', "").parse().ok();
    at.checked_sub(1)
        .and_then(number)
        .or_else(|| number(at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_beside_their_words() {
        let line = "seeds 0..300: 300 passed, messages=1_204, 77 faults";
        assert_eq!(number_of(line, "passed"), Some(300));
        assert_eq!(number_of(line, "faults"), Some(77));
        assert_eq!(number_of("messages=1_204", "messages"), Some(1204));
        assert_eq!(number_of(line, "bytes"), None);
    }

    #[test]
    fn no_bound_holds_for_the_median_of_nothing() {
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn fairness() {
        assert!((jain(&[2.0, 2.0]) - 1.0).abs() < 1e-9);
        assert!((jain(&[4.0, 0.0]) - 0.5).abs() < 1e-9);
    }
}
