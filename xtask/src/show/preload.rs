//! Programs made for TCP under the preloaded library, beside the same ones without it.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Figure, Line, median};
use crate::error::{Context, Failure, Result};
use crate::exec::{self, Process};
use crate::netns::{Netns, Pair};

/// Rounds in turns, and seconds of a measurement.
const ROUNDS: usize = 3;
const SECONDS: &str = "2";

/// Requests of a run of redis-benchmark, and with sixteen under way on each connection.
const REQUESTS: &str = "20000";
const PIPELINED: &str = "400000";

/// A configuration of nginx that serves at the address `$0`.
const NGINX: &str = "printf 'daemon off; master_process off; pid /dev/null; error_log stderr crit;\
    events {} http { access_log off; client_body_temp_path /tmp; proxy_temp_path /tmp; \
    fastcgi_temp_path /tmp; uwsgi_temp_path /tmp; scgi_temp_path /tmp; \
    server { listen %s:8080; return 200 \"hello\\n\"; } }' \"$0\" > \"$CONF\" \
    && exec nginx -c \"$CONF\"";

/// Of TCP's throughput at least this part, and at most this multiple of its latency.
const LEAST: f64 = 0.5;
const MOST: f64 = 2.0;

/// The kernel's counter of UDP datagrams that left a host, and more of them than a connection takes
/// that then sends nothing.
const DATAGRAMS: &str = "UdpOutDatagrams";
const FEW: u64 = 100;

/// The longest time until a server listens, and of a client.
const PATIENCE: Duration = Duration::from_secs(20);
const LIMIT: &str = "90";

pub(super) const LINES: &[Line] = &[
    Line {
        name: "preload",
        must: "programs run unmodified between two namespaces: half of TCP's rate, twice its latency",
        run: |_| compare(0.0, false),
    },
    Line {
        name: "preload-sealed",
        must: "the same, sealed, beside plain TCP",
        run: |_| compare(0.0, true),
    },
    Line {
        name: "preload-loss",
        must: "the same with 1 % of the packets lost, plain",
        run: |_| compare(0.01, false),
    },
];

/// A program with its server, and its figure.
struct Program {
    name: &'static str,
    port: &'static str,
    /// The words of the server and of the client, before the server's address.
    server: &'static [&'static str],
    client: &'static [&'static str],
    unit: &'static str,
    figure: fn(&str) -> Option<f64>,
}

const PROGRAMS: &[Program] = &[
    Program {
        name: "iperf3",
        port: "5201",
        server: &["iperf3", "-s", "-B"],
        client: &["iperf3", "-J", "-t", SECONDS, "-c"],
        unit: "Mbit/s",
        figure: iperf3,
    },
    Program {
        name: "iperf3 -R",
        port: "5201",
        server: &["iperf3", "-s", "-B"],
        client: &["iperf3", "-R", "-J", "-t", SECONDS, "-c"],
        unit: "Mbit/s",
        figure: iperf3,
    },
    Program {
        name: "sockperf",
        port: "11111",
        server: &["sockperf", "server", "--tcp", "-i"],
        client: &[
            "sockperf",
            "ping-pong",
            "--tcp",
            "-m",
            "64",
            "-t",
            SECONDS,
            "-i",
        ],
        unit: LATENCY,
        figure: |said| {
            let median = said.split("percentile 50.000 =").nth(1)?;
            median.split_whitespace().next()?.parse().ok()
        },
    },
    Program {
        name: "redis-benchmark",
        port: "6379",
        server: REDIS,
        client: &[
            "redis-benchmark",
            "--csv",
            "-t",
            "get",
            "-n",
            REQUESTS,
            "-h",
        ],
        unit: "requests/s",
        figure: redis,
    },
    Program {
        name: "redis-benchmark -P 16",
        port: "6379",
        server: REDIS,
        client: &[
            "redis-benchmark",
            "--csv",
            "-t",
            "get",
            "-P",
            "16",
            "-n",
            PIPELINED,
            "-h",
        ],
        unit: "requests/s",
        figure: redis,
    },
    Program {
        name: "memcached",
        port: "11211",
        server: &["memcached", "-u", "root", "-l"],
        client: &[
            "sh",
            "-c",
            "exec memcslap --concurrency=8 --execute-number=4000 --test=get --servers=$0:11211",
        ],
        unit: "requests/s",
        // "Time to get 80000 keys by 8 threads: 0.436 seconds."
        figure: |said| {
            let line = said.lines().find(|line| line.contains("Time to get"))?;
            let keys: f64 = line.split_whitespace().nth(3)?.parse().ok()?;
            let seconds = line.split(':').nth(1)?.split_whitespace().next()?;
            Some(keys / seconds.parse::<f64>().ok()?)
        },
    },
    Program {
        name: "nginx",
        port: "8080",
        server: &["sh", "-c", NGINX],
        client: &["sh", "-c", "exec wrk -t1 -c50 -d2 http://$0:8080/"],
        unit: "requests/s",
        figure: |said| {
            let line = said
                .lines()
                .find(|line| line.starts_with("Requests/sec:"))?;
            line.split_whitespace().nth(1)?.parse().ok()
        },
    },
];

/// The unit of figures of which less is better.
const LATENCY: &str = "us each way in the median";

const REDIS: &[&str] = &[
    "redis-server",
    "--protected-mode",
    "no",
    "--save",
    "",
    "--bind",
];

fn iperf3(said: &str) -> Option<f64> {
    let said: Value = serde_json::from_str(said).ok()?;
    Some(said["end"]["sum_received"]["bits_per_second"].as_f64()? / 1e6)
}

fn redis(said: &str) -> Option<f64> {
    let row = said.lines().find(|line| line.starts_with("\"GET\""))?;
    row.split(',').nth(1)?.trim_matches('"').parse().ok()
}

/// Two hosts with a node each.
struct Hosts {
    pair: Pair,
    library: PathBuf,
    book: PathBuf,
    /// The cluster's key, if nodes are sealed.
    key: Option<PathBuf>,
    scratch: tempfile::TempDir,
}

impl Hosts {
    fn new(loss: f64, is_sealed: bool) -> Result<Self> {
        let build = ["build", "-q", "--locked", "--release", "-p", "suci-preload"];
        exec::run(&mut exec::cargo(build))?;
        let pair = Pair::new()?;
        // Else one loss takes a train of packets, as no network does.
        pair.offloads_off()?;
        if loss > 0.0 {
            pair.drop_randomly(loss)?;
        }
        let scratch = tempfile::tempdir()?;
        let book = scratch.path().join("book");
        let (server, client) = (pair.b_addr(), pair.a_addr());
        std::fs::write(&book, format!("0 {server}:7000\n1 {client}:7000\n"))?;
        let key = is_sealed.then(|| scratch.path().join("key"));
        if let Some(key) = &key {
            let keygen = ["run", "-q", "--locked", "--release", "-p", "suci-cli", "--"];
            exec::run(exec::cargo(keygen).arg("keygen").arg(key))?;
        }
        Ok(Self {
            pair,
            library: exec::target_dir().join("release/libsuci_preload.so"),
            book,
            key,
            scratch,
        })
    }

    /// A command on a host, under the library or not.
    fn command(&self, host: &Netns, node: &str, is_preloaded: bool, program: &str) -> Command {
        let mut command = host.command(program);
        command.env("CONF", self.scratch.path().join("nginx.conf"));
        if is_preloaded {
            command
                .env("LD_PRELOAD", &self.library)
                .env("SUCI_BOOK", &self.book)
                .env("SUCI_ID", node);
            match &self.key {
                Some(key) => command.env("SUCI_KEY_FILE", key),
                None => command.env("SUCI_PRELOAD_PLAIN", "1"),
            };
        }
        command
    }

    /// Runs a program once. Returns its figure.
    fn run(&self, program: &Program, is_preloaded: bool) -> Result<f64> {
        let host = &self.pair.b;
        let at = self.pair.b_addr().to_string();
        let name = program.server.first().context("no server")?;
        let mut server = self.command(host, "0", is_preloaded, name);
        server.args(program.server.iter().skip(1)).arg(&at);
        server.stdout(std::process::Stdio::null());
        let _server = Process::spawn(&mut server)?;
        self.await_listener(program)?;
        let mut client = self.command(&self.pair.a, "1", is_preloaded, "timeout");
        let said = exec::capture(client.arg(LIMIT).args(program.client).arg(&at))?;
        (program.figure)(&said).context(format!("{} printed no figure: {said}", program.name))
    }

    fn await_listener(&self, program: &Program) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let at = format!(":{}", program.port);
            let sockets = self.pair.b.run(&["ss", "-Hltn"])?;
            if sockets.split_whitespace().any(|word| word.ends_with(&at)) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(Failure::new(format!(
            "the server of {} is not ready",
            program.name
        )))
    }
}

/// Fails if a program is missing.
fn check_installed() -> Result<()> {
    let all = PROGRAMS.iter().flat_map(|it| [it.server[0], it.client[0]]);
    let all = all.chain(["nginx", "wrk", "memcslap"]);
    let is_missing = |name: &&str| {
        let mut which = Command::new("which");
        exec::capture(which.arg(name)).is_err()
    };
    let missing: Vec<_> = all.filter(is_missing).collect();
    match missing.as_slice() {
        [] => Ok(()),
        missing => Err(Failure::new(format!(
            "{} missing; `make setup-preload` installs them",
            missing.join(", ")
        ))),
    }
}

fn compare(loss: f64, is_sealed: bool) -> Result<Figure> {
    check_installed()?;
    let hosts = Hosts::new(loss, is_sealed)?;
    let mut said = Vec::new();
    let mut holds = true;
    for program in PROGRAMS {
        let mut figures = [Vec::new(), Vec::new()];
        let mut datagrams = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (at, is_preloaded) in [true, false].into_iter().enumerate() {
                let before = hosts.pair.a.counter(DATAGRAMS)?;
                figures[at].push(hosts.run(program, is_preloaded)?);
                datagrams[at].push(hosts.pair.a.counter(DATAGRAMS)? - before);
            }
        }
        let [suci, tcp] = figures.map(median);
        let [ours, theirs] = datagrams;
        // Else the library was not loaded, and TCP is compared with TCP.
        holds &= ours.iter().all(|sent| *sent > FEW) && theirs.iter().all(|sent| *sent == 0);
        let (name, unit) = (program.name, program.unit);
        holds &= match unit {
            LATENCY => suci <= MOST * tcp,
            _ => suci >= LEAST * tcp,
        };
        let least = ours.iter().min().copied().unwrap_or_default();
        said.push(format!(
            "{name}: {suci:.0} {unit} ({:.2} of TCP's {tcp:.0}) in at least {least} UDP datagrams of \
             the client",
            suci / tcp
        ));
    }
    Ok(Figure::new(holds, said.join("; ")))
}
