//! Prometheus: the numbers of a node as text (format 0.0.4), over HTTP.
//!
//! A thread of its own answers, from the statistics file that the node stores its numbers in anyway: whoever
//! scrapes, and however slowly, the node does not notice. One request at a time, of bounded length and time.

use crate::error::Error;
use crate::statistics::{
    Field, FieldKind, MAX_PEERS, NODE_FIELDS, PEER_FIELDS, SOCKET_FIELDS, Snapshot, StatFile,
};
use crate::sys::{self, Bell};
use crate::{Link, PeerStats, WaitReason};
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use suci_proto::Waited;

/// Longest request that is read.
const LONGEST: usize = 8 << 10;

/// How long a request and its answer may take in all.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait after an error that is not a client's: no descriptors left, no memory.
const RETRY: Duration = Duration::from_secs(1);

/// What a scraper must be told that the text is.
const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Answers until it is dropped.
#[derive(Debug)]
pub(crate) struct Responder {
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    listener: TcpListener,
    bell: Bell,
    stop: AtomicBool,
    file: StatFile,
}

impl Responder {
    /// Answers at `address` from `file`.
    pub(crate) fn new(address: SocketAddr, file: StatFile) -> Result<Self, Error> {
        let listener = TcpListener::bind(address).map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => Error::AddressInUse { address },
            _ => Error::Bind { address, source },
        })?;
        let trouble = Error::io("starting the thread that serves metrics");
        // A connection that is gone again must not make accepting block.
        listener.set_nonblocking(true).map_err(&trouble)?;
        let shared = Arc::new(Shared {
            listener,
            bell: Bell::new().map_err(&trouble)?,
            stop: AtomicBool::new(false),
            file,
        });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("suci-metrics".into());
        let thread = thread.spawn(move || own.serve()).map_err(&trouble)?;
        Ok(Self {
            thread: Some(thread),
            shared,
        })
    }

    /// What a forked child must close.
    pub(crate) fn descriptors(&self) -> [RawFd; 3] {
        [
            self.shared.listener.as_raw_fd(),
            self.shared.bell.as_raw_fd(),
            self.shared.file.as_raw_fd(),
        ]
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.bell.ring();
        if let Some(thread) = self.thread.take() {
            // If it panicked, it has said so.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn serve(&self) {
        let (listener, bell) = (self.listener.as_raw_fd(), self.bell.as_raw_fd());
        while !self.stop.load(Ordering::SeqCst) {
            if sys::sleep(listener, Some(bell), false, None).is_err() {
                std::thread::sleep(RETRY);
                continue;
            }
            match self.listener.accept() {
                // What goes wrong with one scraper is no news for the next.
                Ok((stream, _)) => drop(self.answer(stream)),
                Err(error) if is_transient(&error) => {}
                Err(_) => drop(sys::sleep(-1, Some(bell), false, Some(RETRY))),
            }
        }
    }

    fn answer(&self, stream: TcpStream) -> io::Result<()> {
        let mut stream = Exchange {
            bell: self.bell.as_raw_fd(),
            stream,
            end: Instant::now() + PATIENCE,
        };
        stream.stream.set_nonblocking(true)?;
        let request = stream.request()?;
        let (status, kind, body) = match path_of(&request) {
            Some("/metrics") => match self.file.read() {
                Ok(snapshot) => ("200 OK", TYPE, render(&snapshot)),
                Err(_) => (
                    "503 Service Unavailable",
                    "text/plain",
                    "not readable now\n".into(),
                ),
            },
            Some(_) => (
                "404 Not Found",
                "text/plain",
                "only /metrics is here\n".into(),
            ),
            None => (
                "400 Bad Request",
                "text/plain",
                "GET /metrics is understood\n".into(),
            ),
        };
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        stream.write(answer.as_bytes())
    }
}

fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted | WouldBlock
    )
}

/// One connection, for as long as it may last.
struct Exchange {
    stream: TcpStream,
    bell: RawFd,
    end: Instant,
}

impl Exchange {
    /// Waits for the stream; an error when the time is over or the node closes.
    fn wait(&self, write: bool) -> io::Result<()> {
        let left = self.end.saturating_duration_since(Instant::now());
        let ready = sys::sleep(self.stream.as_raw_fd(), Some(self.bell), write, Some(left))?;
        if left.is_zero() || ready.rung {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Reads until the empty line that ends a request's head.
    fn request(&mut self) -> io::Result<Vec<u8>> {
        let mut request = Vec::new();
        let mut piece = [0; 1024];
        while !request.windows(4).any(|four| four == b"\r\n\r\n") {
            if request.len() >= LONGEST {
                return Err(io::ErrorKind::InvalidData.into());
            }
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => request.extend_from_slice(piece.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(false)?,
                Err(error) => return Err(error),
            }
        }
        Ok(request)
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait(true)?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The path that a GET asks for, without its query.
fn path_of(request: &[u8]) -> Option<&str> {
    let line = request.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    (method == "GET" && version.starts_with("HTTP/1."))
        .then(|| target.split('?').next().unwrap_or(target))
}

/// All numbers of a snapshot as text.
pub(crate) fn render(all: &Snapshot) -> String {
    let mut text = String::new();
    let node = format!("node=\"{}\"", all.node);
    let info = format!(
        "{node},pid=\"{}\",program=\"{}\"",
        all.pid,
        escaped(&all.program)
    );
    head(
        &mut text,
        "suci_node_info",
        "gauge",
        "Which process the node is in.",
    );
    sample(&mut text, "suci_node_info", &info, "1");
    head(
        &mut text,
        "suci_node_peers",
        "gauge",
        &format!("Peers known; at most {MAX_PEERS} of them are shown."),
    );
    sample(
        &mut text,
        "suci_node_peers",
        &node,
        &all.peers_known.to_string(),
    );
    family(
        &mut text,
        "suci_node",
        NODE_FIELDS,
        &[(node.clone(), &all.counters)],
    );
    family(
        &mut text,
        "suci_socket",
        SOCKET_FIELDS,
        &[(node.clone(), &all.socket)],
    );
    let peers: Vec<_> = all
        .peers
        .iter()
        .map(|stats| (format!("{node},peer=\"{}\"", stats.node), stats))
        .collect();
    head(
        &mut text,
        "suci_peer_up",
        "gauge",
        "Whether the peer answers.",
    );
    for (labels, stats) in &peers {
        let up = if stats.link == Link::Up { "1" } else { "0" };
        sample(&mut text, "suci_peer_up", labels, up);
    }
    family(&mut text, "suci_peer", PEER_FIELDS, &peers);
    waits(&mut text, &peers);
    text
}

/// Why messages waited, reason by reason.
fn waits(text: &mut String, peers: &[(String, &PeerStats)]) {
    let mut family = |name: &str, help: &str, value: fn(Waited) -> String| {
        head(text, name, "counter", help);
        for (labels, stats) in peers {
            for reason in WaitReason::ALL {
                let labels = format!("{labels},reason=\"{}\"", reason.name());
                sample(text, name, &labels, &value(stats.waits.get(reason)));
            }
        }
    };
    let help = "How long messages waited, by the reason.";
    family("suci_peer_wait_seconds_total", help, |wait| {
        seconds(wait.nanos)
    });
    let help = "How often messages began to wait, by the reason.";
    family("suci_peer_waits_total", help, |wait| wait.times.to_string());
}

/// Every field of a table, for everything that has it: samples of one name stand together.
fn family<T>(text: &mut String, prefix: &str, fields: &[Field<T>], all: &[(String, &T)]) {
    for field in fields {
        let (suffix, kind) = match field.kind {
            FieldKind::Counter => ("_total", "counter"),
            FieldKind::Gauge => ("", "gauge"),
            FieldKind::Time => ("_seconds", "gauge"),
        };
        let name = format!("{prefix}_{}{suffix}", field.name);
        head(text, &name, kind, field.help);
        for (labels, one) in all {
            let value = (field.get)(one);
            let value = match field.kind {
                FieldKind::Time => seconds(value),
                FieldKind::Counter | FieldKind::Gauge => value.to_string(),
            };
            sample(text, &name, labels, &value);
        }
    }
}

// Writing into a string cannot fail.

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

fn sample(text: &mut String, name: &str, labels: &str, value: &str) {
    let _ = writeln!(text, "{name}{{{labels}}} {value}");
}

fn seconds(nanos: u64) -> String {
    let (whole, rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    format!("{whole}.{rest:09}")
}

/// A label's value, in which quotes and backslashes mean something.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"")
}
