//! Prometheus: the numbers of a node as text (format 0.0.4), over HTTP.
//!
//! A thread of its own answers, from the statistics file in which the node stores its numbers
//! anyway. So the node does not notice scrapers, even slow ones. The thread serves several at once,
//! so that silent connections hold none up. Their number, and the length and time of each request,
//! are bounded. The kernel hands over only connections that brought a byte, so those that say
//! nothing take no slot.

use crate::error::{Error, bind_error};
use crate::statistics::{
    Field, FieldKind, MAX_PEERS, NODE_FIELDS, PEER_FIELDS, SOCKET_FIELDS, Snapshot, StatFile,
};
use crate::sys::{self, EventFd};
use crate::{LinkState, PeerStats, WaitReason};
use std::collections::VecDeque;
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

/// The longest time for a request and its answer in all.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many connections are served at once.
const PLACES: usize = 16;

/// How often open connections are polled. Polling takes no descriptor that a fork would leave to
/// its child, and most requests are there when their connection is.
const LOOK: Duration = Duration::from_millis(10);

/// How long to wait after an error that is not a client's: no descriptors left, no memory.
const RETRY: Duration = Duration::from_secs(1);

/// The content type of the text, as a scraper expects it.
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
    event_fd: EventFd,
    stop: AtomicBool,
    file: StatFile,
}

impl Responder {
    /// Answers at `address` from `file`.
    pub(crate) fn new(address: SocketAddr, file: StatFile) -> Result<Self, Error> {
        let listener = TcpListener::bind(address).map_err(|source| bind_error(address, source))?;
        let trouble = Error::io("starting the thread that serves metrics");
        // A connection that is gone again must not make accepting block.
        listener.set_nonblocking(true).map_err(&trouble)?;
        sys::defer_accept(&listener, PATIENCE).map_err(&trouble)?;
        let shared = Arc::new(Shared {
            listener,
            event_fd: EventFd::new().map_err(&trouble)?,
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

    /// Returns the descriptors that a forked child must close.
    pub(crate) fn descriptors(&self) -> [RawFd; 3] {
        [
            self.shared.listener.as_raw_fd(),
            self.shared.event_fd.as_raw_fd(),
            self.shared.file.as_raw_fd(),
        ]
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.event_fd.signal();
        if let Some(thread) = self.thread.take() {
            // If it panicked, it has said so.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn serve(&self) {
        let (listener, event_fd) = (self.listener.as_raw_fd(), self.event_fd.as_raw_fd());
        let mut open: VecDeque<Exchange> = VecDeque::new();
        while !self.stop.load(Ordering::SeqCst) {
            let limit = (!open.is_empty()).then_some(LOOK);
            let called = sys::sleep(listener, Some(event_fd), limit);
            if called.and_then(|_| self.accept(&mut open)).is_err() {
                let _ = sys::sleep(-1, Some(event_fd), Some(RETRY));
            }
            // An error with one scraper does not affect the others.
            open.retain_mut(|exchange| exchange.go_on(&self.file).unwrap_or(false));
        }
    }

    /// Accepts new connections, and answers those whose request is there. The others take a slot.
    fn accept(&self, open: &mut VecDeque<Exchange>) -> io::Result<()> {
        // No more at once than there are slots: those that have one want to go on, too.
        for _ in 0..PLACES {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(true)?;
                    let mut exchange = Exchange::new(stream);
                    if exchange.go_on(&self.file).unwrap_or(false) {
                        take_slot(open, exchange);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The connection is already gone again.
                Err(error) if is_transient(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Gives `exchange` a slot. If all are taken, the oldest connection without a whole request goes,
/// or else the oldest one: it has had the most time.
fn take_slot(open: &mut VecDeque<Exchange>, exchange: Exchange) {
    if open.len() >= PLACES {
        let unasked = open.iter().position(|other| other.answer.is_empty());
        drop(open.remove(unasked.unwrap_or(0)));
    }
    open.push_back(exchange);
}

fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted
    )
}

/// One connection, for as long as it may last.
struct Exchange {
    stream: TcpStream,
    end: Instant,
    request: Vec<u8>,
    /// Empty until the request is whole.
    answer: Vec<u8>,
    written: usize,
}

impl Exchange {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            end: Instant::now() + PATIENCE,
            request: Vec::new(),
            answer: Vec::new(),
            written: 0,
        }
    }

    /// Reads and writes as much as is possible now. Returns whether anything is left to do.
    fn go_on(&mut self, file: &StatFile) -> io::Result<bool> {
        match self.all_that_can_be(file) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Ok(Instant::now() < self.end)
            }
            done => done.map(|()| false),
        }
    }

    fn all_that_can_be(&mut self, file: &StatFile) -> io::Result<()> {
        if self.answer.is_empty() {
            self.read()?;
            self.answer = answer(&self.request, file).into_bytes();
        }
        self.write()
    }

    fn write(&mut self) -> io::Result<()> {
        while let Some(rest @ [_, ..]) = self.answer.get(self.written..) {
            match self.stream.write(rest)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => self.written += count,
            }
        }
        Ok(())
    }

    /// Reads until the empty line that ends a request's head.
    fn read(&mut self) -> io::Result<()> {
        let mut piece = [0; 1024];
        while !self.request.windows(4).any(|four| four == b"\r\n\r\n") {
            if self.request.len() >= LONGEST {
                return Err(io::ErrorKind::InvalidData.into());
            }
            match self.stream.read(&mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self
                    .request
                    .extend_from_slice(piece.get(..count).unwrap_or_default()),
            }
        }
        Ok(())
    }
}

/// Returns the response to a request.
fn answer(request: &[u8], file: &StatFile) -> String {
    let plain = |status, body: &str| (status, "text/plain", body.to_owned());
    let (status, kind, body) = match path_of(request) {
        Some("/metrics") => match file.read() {
            Ok(snapshot) => ("200 OK", TYPE, render(&snapshot)),
            Err(_) => plain("503 Service Unavailable", "not readable now\n"),
        },
        Some(_) => plain("404 Not Found", "only /metrics is here\n"),
        None => plain("400 Bad Request", "GET /metrics is understood\n"),
    };
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
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
    let (name, help) = ("suci_node_info", "Which process the node is in.");
    head(&mut text, name, "gauge", help);
    sample(&mut text, name, &info, "1");
    let help = format!("Peers known; at most {MAX_PEERS} of them are shown.");
    let (name, known) = ("suci_node_peers", all.peers_known.to_string());
    head(&mut text, name, "gauge", &help);
    sample(&mut text, name, &node, &known);
    let counters = [(node.clone(), &all.counters)];
    family(&mut text, "suci_node", NODE_FIELDS, &counters);
    let socket = [(node.clone(), &all.socket)];
    family(&mut text, "suci_socket", SOCKET_FIELDS, &socket);
    let peers: Vec<_> = all
        .peers
        .iter()
        .map(|stats| (format!("{node},peer=\"{}\"", stats.node), stats))
        .collect();
    let (name, help) = ("suci_peer_up", "Whether the peer answers.");
    head(&mut text, name, "gauge", help);
    for (labels, stats) in &peers {
        let up = if stats.link == LinkState::Up {
            "1"
        } else {
            "0"
        };
        sample(&mut text, name, labels, up);
    }
    family(&mut text, "suci_peer", PEER_FIELDS, &peers);
    waits(&mut text, &peers);
    text
}

/// The time that messages waited and the number of waits, reason by reason.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Those whose request came whole wait for their client to read, or for room.
    #[test]
    fn a_connection_without_a_whole_request_gives_up_its_slot_first() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (mut clients, mut open) = (Vec::new(), VecDeque::new());
        let mut take = |open: &mut VecDeque<Exchange>, answer: String| {
            clients.push(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            let mut exchange = Exchange::new(listener.accept().unwrap().0);
            exchange.answer = answer.into_bytes();
            take_slot(open, exchange);
            let answers = open.iter().map(|exchange| exchange.answer.clone());
            String::from_utf8(answers.collect::<Vec<_>>().join(&b' ')).unwrap()
        };
        for name in 1..PLACES {
            take(&mut open, name.to_string());
        }
        let asked = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15";
        for _ in 0..40 {
            assert_eq!(take(&mut open, String::new()), format!("{asked} "));
        }
        assert_eq!(take(&mut open, "16".into()), format!("{asked} 16"));
        let rest = asked.strip_prefix("1 ").unwrap();
        assert_eq!(take(&mut open, "17".into()), format!("{rest} 16 17"));
    }

    #[test]
    fn an_answer_that_is_taken_late_is_whole() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut exchange = Exchange::new(stream);
        // More than the system keeps for a connection.
        exchange.answer = (0..32 << 20_u32).map(|at| (at / 7 % 251) as u8).collect();
        let expected = exchange.answer.clone();
        let full = exchange.write().unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            client.take(64 << 20).read_to_end(&mut all).unwrap();
            all
        });
        while let Err(error) = exchange.write() {
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            std::thread::sleep(LOOK);
        }
        drop(exchange);
        assert!(reader.join().unwrap() == expected);
    }
}
