//! `cargo xtask evaluate cdp`: throughput and round trips by message size, as in the evaluation of
//! CDP, and bandwidth and latency of raw datagrams, Fast Messages and TCP, as in that of Fast
//! Messages.
//!
//! `tests/src/bin/protocols` runs between two network namespaces, whose cable is paced to 1 Gbit/s
//! or not at all. Methods take turns in each round, and medians count.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use suci_plot::{Axis, Better, Panel, Picture, Series, Unit};

use super::findings;
use crate::error::{Context, Result};
use crate::exec::{self, Process};
use crate::figures::median;
use crate::machine;
use crate::netns::{MTU, Netns, Pair};
use crate::progress::Progress;

/// The paced cable: Mbit/s, and milliseconds that its queue holds.
const PACE: (u32, u32) = (1_000, 5);

/// The bytes of a frame before its IP packet. Linux paces packets with them and without the
/// checksum behind, and counts the headers of each packet of a train (`qdisc_pkt_len_init`).
pub(crate) const ETHERNET: u32 = 14;

/// The headers of IPv4 and UDP, in bytes.
pub(crate) const IP_AND_UDP: u32 = 20 + 8;

/// The longest datagram on the cable, in bytes.
const DATAGRAM: u32 = MTU - IP_AND_UDP;

/// The longest time of a turn beyond its measurement.
const PATIENCE: Duration = Duration::from_secs(30);

/// One way to carry messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Method {
    /// Its name for people.
    pub(crate) name: &'static str,
    /// Its name for the program.
    argument: &'static str,
    /// How Suci's datagrams reach the network.
    backend: &'static str,
}

const fn method(name: &'static str, argument: &'static str, backend: &'static str) -> Method {
    Method {
        name,
        argument,
        backend,
    }
}

pub(crate) const TCP: Method = method("tcp", "tcp", "udp");
pub(crate) const UDP: Method = method("udp", "udp", "udp");
pub(crate) const SUCI: Method = method("suci", "suci", "udp");
pub(crate) const SUCI_PACKET: Method = method("suci, AF_PACKET", "suci", "af_packet");
pub(crate) const SUCI_OWN_TYPE: Method = method("suci, own EtherType", "suci", "ethernet");
pub(crate) const SUCI_XDP: Method = method("suci, AF_XDP", "suci", "af_xdp");
const FAST_MESSAGES: Method = method("suci, Fast Messages", "fm", "udp");
const RAW: Method = method("raw datagrams", "udp", "udp");

/// The methods that CDP is compared with, and those of Fast Messages. On the paced cable AF_XDP is
/// missing: in its copy mode the kernel hands frames to the device past the queue that paces.
const OF_CDP: &[Method] = &[TCP, UDP, SUCI, SUCI_PACKET, SUCI_OWN_TYPE, SUCI_XDP];
const PACED: &[Method] = &[TCP, UDP, SUCI, SUCI_PACKET, SUCI_OWN_TYPE];
const OF_FM: &[Method] = &[RAW, FAST_MESSAGES, TCP];

/// Lengths of messages in bytes: up to one packet, and beyond.
const IN_A_PACKET: &[u32] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1472];
const BEYOND: &[u32] = &[16, 64, 256, 1024, 4096, 16_384, 65_536];

/// How much is measured.
struct Effort {
    rounds: usize,
    seconds: f64,
    in_a_packet: &'static [u32],
    beyond: &'static [u32],
}

const FULL: Effort = Effort {
    rounds: 5,
    seconds: 0.5,
    in_a_packet: IN_A_PACKET,
    beyond: BEYOND,
};

/// Shows that everything works.
const QUICK: Effort = Effort {
    rounds: 1,
    seconds: 0.1,
    in_a_packet: &[64, 1472],
    beyond: &[64, 4096],
};

/// One diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// On the paced cable.
    PacedThroughput,
    Throughput,
    RoundTrip,
    /// Of the methods of Fast Messages.
    Bandwidth,
    Latency,
}

const KINDS: [Kind; 5] = [
    Kind::PacedThroughput,
    Kind::Throughput,
    Kind::RoundTrip,
    Kind::Bandwidth,
    Kind::Latency,
];

impl Kind {
    fn title(self) -> &'static str {
        match self {
            Self::PacedThroughput => "Throughput at 1 Gbit/s",
            Self::Throughput => "Throughput without a limit",
            Self::RoundTrip => "Round trips",
            Self::Bandwidth => "Bandwidth of Fast Messages",
            Self::Latency => "Latency of Fast Messages",
        }
    }

    fn file(self) -> String {
        self.title().to_lowercase().replace([' ', '/'], "-") + ".svg"
    }

    fn about(self) -> &'static str {
        match self {
            Self::PacedThroughput | Self::Throughput => {
                "Messages go one way. What arrives counts; of UDP some datagrams may be lost."
            }
            Self::RoundTrip => "A message goes there and back. Both ends spin.",
            Self::Bandwidth => {
                "Messages go one way. Raw datagrams carry long messages in pieces, and may be lost."
            }
            Self::Latency => "Half the time of a message there and back. Both ends spin.",
        }
    }

    fn up(self) -> &'static str {
        match self {
            Self::PacedThroughput | Self::Throughput => "throughput, Mbit/s",
            Self::RoundTrip => "round trip, us",
            Self::Bandwidth => "bandwidth, MB/s",
            Self::Latency => "latency, us",
        }
    }

    fn methods(self) -> &'static [Method] {
        match self {
            Self::PacedThroughput => PACED,
            Self::Throughput | Self::RoundTrip => OF_CDP,
            Self::Bandwidth | Self::Latency => OF_FM,
        }
    }

    fn sizes(self, effort: &Effort) -> &'static [u32] {
        match self {
            Self::PacedThroughput | Self::Throughput | Self::RoundTrip => effort.in_a_packet,
            Self::Bandwidth | Self::Latency => effort.beyond,
        }
    }

    fn is_stream(self) -> bool {
        !matches!(self, Self::RoundTrip | Self::Latency)
    }

    fn figure(self, turn: &Turn) -> f64 {
        match self {
            Self::PacedThroughput | Self::Throughput => turn.mbit(),
            Self::RoundTrip => turn.micros(),
            Self::Bandwidth => turn.mbit() / 8.0,
            Self::Latency => turn.micros() / 2.0,
        }
    }
}

/// The counts of one turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    bytes: f64,
    messages: f64,
    seconds: f64,
    /// Processor time of both ends.
    cpu_seconds: f64,
    /// All messages that the client sent.
    sent: f64,
}

impl Turn {
    /// Megabits of payload per second.
    pub(crate) fn mbit(&self) -> f64 {
        self.bytes * 8.0 / self.seconds / 1e6
    }

    /// Microseconds of a round trip.
    pub(crate) fn micros(&self) -> f64 {
        self.seconds / self.messages * 1e6
    }

    /// Microseconds of processor time of both ends for each message sent.
    pub(crate) fn cpu_micros(&self) -> f64 {
        self.cpu_seconds / self.sent * 1e6
    }

    /// The messages that the client sent.
    pub(crate) fn sent(&self) -> f64 {
        self.sent
    }
}

/// The packets in which Suci sends a stream over UDP if none is lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Framing {
    pub(crate) packets: f64,
    /// Bytes of all packets as the pace counts them.
    pub(crate) wire_bytes: f64,
}

/// Both ends of a turn, and where they are.
pub(super) struct Ends<'a> {
    pub(super) client: &'a Netns,
    pub(super) server: &'a Netns,
    /// The server's address and the client's.
    pub(super) at: SocketAddr,
    pub(super) own: SocketAddr,
    /// The books of the client and the server, if their nodes have some.
    pub(super) books: Option<[PathBuf; 2]>,
}

/// The program, and where it runs.
pub(crate) struct Bench {
    pub(super) program: PathBuf,
    pub(super) scratch: PathBuf,
}

/// A cable between two namespaces, paced or not.
///
/// # Errors
/// They cannot be made.
pub(crate) fn cable(is_paced: bool) -> Result<Pair> {
    let pair = Pair::new()?;
    if is_paced {
        pair.limit_rate(PACE.0, PACE.1)?;
    }
    Ok(pair)
}

impl Bench {
    /// Makes a release build of the program.
    ///
    /// # Errors
    /// The build fails.
    pub(crate) fn build() -> Result<Self> {
        let build = ["build", "-q", "--locked", "--release", "-p", "suci-tests"];
        exec::run(&mut exec::cargo(
            build.into_iter().chain(["--bin", "protocols"]),
        ))?;
        let scratch = exec::target_dir().join("evaluate-cdp");
        std::fs::create_dir_all(&scratch).context(scratch.display())?;
        Ok(Self {
            program: exec::target_dir().join("release/protocols"),
            scratch,
        })
    }

    /// Runs both ends. Returns the counts of the client and of the server.
    pub(super) fn run(
        &self,
        ends: &Ends<'_>,
        method: Method,
        is_stream: bool,
        size: u32,
        seconds: f64,
    ) -> Result<[Half; 2]> {
        let workload = if is_stream { "stream" } else { "ping" };
        let (at, own) = (ends.at.to_string(), ends.own.to_string());
        let (size, seconds) = (size.to_string(), seconds.to_string());
        let words = [method.argument, workload, &size, &seconds];
        let output = self.scratch.join("server");
        let mut command = ends.server.command(&self.program);
        command.args(words).args(["serve", &at]);
        command.env("SUCI_BACKEND", method.backend);
        // `timeout` ends a program that hangs.
        let mut client = Command::new("timeout");
        let mut inner = ends.client.command(&self.program);
        inner.args(words).args(["call", &at, &own]);
        client.arg("60").arg(inner.get_program());
        client.args(inner.get_args());
        client.env("SUCI_BACKEND", method.backend);
        if let Some([of_client, of_server]) = &ends.books {
            client.env("SUCI_BOOK", of_client);
            command.env("SUCI_BOOK", of_server);
        }
        command.stdout(Stdio::from(File::create(&output)?));
        let mut server = Process::spawn(&mut command)?;
        await_line(&output, "ready")?;
        let client = parse(&exec::capture(&mut client)?)?;
        server.finish_by(Instant::now() + PATIENCE)?;
        let server = parse(&std::fs::read_to_string(&output)?)?;
        Ok([client, server])
    }

    /// Measures one method for one size.
    ///
    /// # Errors
    /// The program fails.
    pub(crate) fn turn(
        &self,
        pair: &Pair,
        method: Method,
        is_stream: bool,
        size: u32,
        seconds: f64,
    ) -> Result<Turn> {
        let port = next_port();
        let ends = Ends {
            client: &pair.a,
            server: &pair.b,
            at: (pair.b_addr(), port).into(),
            own: (pair.a_addr(), port).into(),
            books: None,
        };
        let [client, server] = self.run(&ends, method, is_stream, size, seconds)?;
        let measured = if is_stream { &server } else { &client };
        Ok(Turn {
            bytes: measured.bytes,
            messages: measured.messages,
            seconds: measured.seconds,
            cpu_seconds: client.cpu_seconds + server.cpu_seconds,
            sent: client.messages,
        })
    }

    /// Packs so many messages by the library's own frames. Nothing is sent.
    ///
    /// # Errors
    /// The program fails.
    pub(crate) fn framing(&self, size: u32, count: f64) -> Result<Framing> {
        let numbers = [u64::from(size), count as u64, u64::from(DATAGRAM)];
        let mut program = Command::new(&self.program);
        program.arg("framing");
        let said = exec::capture(program.args(numbers.map(|number| number.to_string())))?;
        let row: Value = serde_json::from_str(&said).context(&said)?;
        let number = |name: &str| row[name].as_f64().context(format!("no {name}: {said}"));
        let packets = number("packets")?;
        let wire_bytes = number("bytes")? + packets * f64::from(ETHERNET + IP_AND_UDP);
        Ok(Framing {
            packets,
            wire_bytes,
        })
    }
}

/// A port that was not used before in this run, as TCP's ends stay for a while.
pub(super) fn next_port() -> u16 {
    static PORT: AtomicU16 = AtomicU16::new(0);
    20_000 + PORT.fetch_add(1, Ordering::Relaxed) % 12_000
}

pub(super) fn await_line(file: &Path, line: &str) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if std::fs::read_to_string(file)?.lines().any(|it| it == line) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(crate::error::Failure::new("the server is not ready"))
}

/// The counts of one end.
pub(super) struct Half {
    pub(super) bytes: f64,
    messages: f64,
    pub(super) seconds: f64,
    cpu_seconds: f64,
}

fn parse(said: &str) -> Result<Half> {
    let row: Value = serde_json::from_str(said.lines().last().unwrap_or_default()).context(said)?;
    let number = |name: &str| row[name].as_f64().context(format!("no {name}: {said}"));
    Ok(Half {
        bytes: number("bytes")?,
        messages: number("messages")?,
        seconds: number("seconds")?,
        cpu_seconds: number("cpu_seconds")?,
    })
}

/// One point of a curve: a figure of each round.
struct Point {
    kind: Kind,
    size: u32,
    method: Method,
    figures: Vec<f64>,
    cpu_micros: Vec<f64>,
}

/// Measures everything and writes the results; with `quick` only a little, into the folder for
/// cargo's output.
///
/// # Errors
/// A program fails, namespaces cannot be made, or the results cannot be written.
pub(super) fn run(quick: bool) -> Result<()> {
    let effort = if quick { &QUICK } else { &FULL };
    let bench = Bench::build()?;
    let dir = match quick {
        true => bench.scratch.clone(),
        false => exec::root().join("bench/cdp"),
    };
    std::fs::create_dir_all(&dir).context(dir.display())?;
    let cables = [cable(false)?, cable(true)?];
    let mut points = points(effort);
    let turn = Duration::from_secs_f64(effort.seconds + 0.1);
    let mut progress = Progress::new(points.len() * effort.rounds, turn);
    for _ in 0..effort.rounds {
        for point in &mut points {
            let (kind, size, method) = (point.kind, point.size, point.method);
            progress.say(&format!("{}, {size} B, {}", kind.title(), method.name));
            let pair = &cables[usize::from(kind == Kind::PacedThroughput)];
            let turn = bench.turn(pair, method, kind.is_stream(), size, effort.seconds)?;
            point.figures.push(kind.figure(&turn));
            point.cpu_micros.push(turn.cpu_micros());
            progress.passed();
        }
    }
    progress.clear();
    let file = dir.join("README.md");
    let page = page(&dir, effort, &points)?;
    std::fs::write(&file, page).context(file.display())?;
    println!("{}", file.display());
    Ok(())
}

fn points(effort: &Effort) -> Vec<Point> {
    let mut points = Vec::new();
    for kind in KINDS {
        for &size in kind.sizes(effort) {
            points.extend(kind.methods().iter().map(|method| Point {
                kind,
                size,
                method: *method,
                figures: Vec::new(),
                cpu_micros: Vec::new(),
            }));
        }
    }
    points
}

impl Point {
    fn median(&self) -> f64 {
        median(self.figures.clone()).unwrap_or(f64::NAN)
    }

    fn cpu(&self) -> f64 {
        median(self.cpu_micros.clone()).unwrap_or(f64::NAN)
    }
}

/// Writes the plots. Returns the page.
fn page(dir: &Path, effort: &Effort, points: &[Point]) -> Result<String> {
    let mut page = format!(
        "# Throughput, round trips, bandwidth and latency by message size

Written by `make evaluate-cdp`, between two network namespaces on one machine: compare ratios.
Medians of rounds in turns, of which there are {}. Suci over UDP is `suci`; `AF_PACKET` and `AF_XDP`
are its backends of that name, `own EtherType` is AF_PACKET without UDP in the frames. At 1 Gbit/s
AF_XDP is missing: in copy mode the kernel hands its frames to the device past the queue that paces.

",
        effort.rounds
    );
    for (name, text) in machine::facts() {
        let _ = writeln!(page, "* {name}: {text}");
    }
    for kind in KINDS {
        let of_kind: Vec<&Point> = points.iter().filter(|point| point.kind == kind).collect();
        let found = findings::wrapped(&finding(kind, &of_kind));
        let (title, file) = (kind.title(), kind.file());
        let _ = writeln!(page, "\n## {title}\n\n{}\n", kind.about());
        let _ = writeln!(page, "**Found.** {found}\n");
        let _ = writeln!(page, "In {}:\n\n![{title}]({file})\n", kind.up());
        page += &table(kind, &of_kind, Point::median);
        page += "\nProcessor time of both ends for each message sent, in us:\n\n";
        page += &table(kind, &of_kind, Point::cpu);
        let svg = picture(kind, &of_kind).svg().context(&file)?;
        std::fs::write(dir.join(&file), svg).context(&file)?;
    }
    Ok(page)
}

/// Suci's backends have a panel of their own, as multiples of Suci over UDP: they differ little.
fn picture(kind: Kind, points: &[&Point]) -> Picture {
    let (name, unit, scale, better) = match kind {
        Kind::PacedThroughput | Kind::Throughput => {
            ("throughput", Unit::BitsPerSecond, 1e6, Better::Higher)
        }
        Kind::RoundTrip => ("round trip", Unit::Seconds, 1e-6, Better::Lower),
        Kind::Bandwidth => ("throughput", Unit::BytesPerSecond, 1e6, Better::Higher),
        Kind::Latency => ("half a round trip", Unit::Seconds, 1e-6, Better::Lower),
    };
    let panel = |title: &str, methods: &[Method]| Panel {
        title: title.to_owned(),
        better,
        across: Axis::logarithmic("message size", Unit::Bytes),
        up: Axis::logarithmic(name, unit),
        series: methods
            .iter()
            .filter_map(|method| series(*method, points, scale))
            .collect(),
    };
    let title = kind.title();
    let panels = match kind.methods() == OF_FM {
        true => vec![panel(title, &[FAST_MESSAGES, TCP, RAW])],
        false => {
            let backends = [SUCI, SUCI_PACKET, SUCI_OWN_TYPE, SUCI_XDP];
            let of_backends = panel(&format!("{title}: Suci's backends"), &backends);
            vec![
                panel(title, &[SUCI, TCP, UDP]),
                of_backends.relative_to(SUCI.name),
            ]
        }
    };
    Picture { panels }
}

/// The figures of one method, if it takes part.
fn series(method: Method, points: &[&Point], scale: f64) -> Option<Series> {
    let own = points.iter().filter(|point| point.method == method);
    let spread = |it: &&Point| suci_plot::Point::of_rounds(f64::from(it.size), &it.figures);
    let points: Vec<_> = own.filter_map(spread).map(|it| it.scaled(scale)).collect();
    (!points.is_empty()).then(|| Series {
        name: method.name.to_owned(),
        points,
    })
}

/// A row for each size, a column for each method.
fn table(kind: Kind, points: &[&Point], cell: fn(&Point) -> f64) -> String {
    let mut rows: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for point in points {
        let shown = match cell(point) {
            figure @ 0.0..10.0 => format!("{figure:.3}"),
            figure @ 10.0..100.0 => format!("{figure:.1}"),
            figure => format!("{figure:.0}"),
        };
        rows.entry(point.size).or_default().push(shown);
    }
    let names: Vec<&str> = kind.methods().iter().map(|method| method.name).collect();
    let mut text = format!("| message, bytes | {} |\n|---|", names.join(" | "));
    text += &"---|".repeat(names.len());
    text.push('\n');
    for (size, cells) in rows {
        let _ = writeln!(text, "| {size} | {} |", cells.join(" | "));
    }
    text
}

/// A sentence made of the figures, so that it does not outlive them.
fn finding(kind: Kind, points: &[&Point]) -> String {
    let at = |size: u32, method: Method| {
        let mut of_size = points.iter().filter(|point| point.size == size);
        let found = of_size.find(|point| point.method == method);
        found.map_or(f64::NAN, |point| point.median())
    };
    let sizes = points.iter().map(|point| point.size);
    let (least, most) = (
        sizes.clone().min().unwrap_or_default(),
        sizes.max().unwrap_or_default(),
    );
    let (ours, others): (Method, &[Method]) = match kind.methods() == OF_FM {
        true => (FAST_MESSAGES, &[RAW, TCP]),
        false => (SUCI, kind.methods()),
    };
    let ratios = others.iter().filter(|other| **other != ours).map(|other| {
        let ratio = |size| at(size, ours) / at(size, *other);
        let name = other.name;
        format!(
            "{:.2} of {name} at {least} B, {:.2} at {most} B",
            ratio(least),
            ratio(most)
        )
    });
    format!(
        "{} has {}.",
        ours.name,
        ratios.collect::<Vec<_>>().join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_is_written_from_any_figures() {
        for kind in KINDS {
            let mut points = points(&QUICK);
            for point in &mut points {
                point.figures = vec![2.0];
                point.cpu_micros = vec![1.0];
            }
            let of_kind: Vec<&Point> = points.iter().filter(|it| it.kind == kind).collect();
            let text = finding(kind, &of_kind);
            assert!(text.contains("1.00 of") && !text.contains("NaN"), "{text}");
            let rows = table(kind, &of_kind, Point::median).lines().count();
            assert_eq!(rows, 2 + kind.sizes(&QUICK).len());
        }
    }

    #[test]
    fn counts_are_read_from_the_last_line() {
        let said = "ready\n{\"bytes\":8,\"messages\":2,\"seconds\":0.5,\"cpu_seconds\":0.1}\n";
        let half = parse(said).unwrap();
        assert!((half.bytes - 8.0).abs() < 1e-9 && (half.seconds - 0.5).abs() < 1e-9);
        assert!(parse("ready\n").is_err());
    }
}
