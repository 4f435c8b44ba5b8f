//! Helpers of tests across processes: they start the `subject` program in a namespace, drive it by
//! lines, and read its output.
//!
//! Everything panics on failure: this crate is part of tests and of nothing else.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may panic, and this is part of tests only"
)]

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use serde_json::Value;
use suci::{AddressBook, Error, Node, NodeBuilder, NodeId, SharedNode};
use tempfile::TempDir;
use xtask::exec::{self, Process};
use xtask::netns::{Netns, Pair};

/// Longer than anything here takes: a test that waits this long has failed.
pub const LONG: Duration = Duration::from_secs(60);

/// Set when figures are to be judged by the project's promises (`cargo xtask show`), on a machine
/// that does nothing else. Without it timings are only bounded generously.
pub const STRICT: &str = "SUCI_TEST_STRICT";

/// Milliseconds that a program computes that must not be taken for lost; 3,000 without it.
pub const COMPUTES: &str = "SUCI_TEST_COMPUTE_MS";

/// Milliseconds that a cable is down; 3,000 without it.
pub const DOWN: &str = "SUCI_TEST_DOWN_MS";

/// Milliseconds that a session is suspended; 2,000 without it.
pub const SUSPENDED: &str = "SUCI_TEST_SUSPEND_MS";

/// Starts of a process under one node ID; 30 without it.
pub const STARTS: &str = "SUCI_TEST_STARTS";

/// Processes that join a cluster and leave it; 100 without it.
pub const MEMBERS: &str = "SUCI_TEST_MEMBERS";

/// Set when tests on emulated links try all links that they know; without it a few.
pub const FULL: &str = "SUCI_TEST_FULL";

/// The fault to plant in every node, in builds that have planted faults.
pub const PLANT: &str = "SUCI_TEST_PLANT";

/// Plants the fault that the environment names.
pub fn plant() {
    #[cfg(suci_plant)]
    if let Ok(name) = std::env::var(PLANT) {
        assert!(suci::plant::select(&name), "no such fault: {name}");
    }
}

/// The number that the environment gives.
#[must_use]
pub fn count(variable: &str, otherwise: u32) -> u32 {
    let said = std::env::var(variable).ok();
    said.map_or(otherwise, |said| said.parse().expect("a number"))
}

/// The time that the environment gives, in milliseconds.
#[must_use]
pub fn time(variable: &str, otherwise: u64) -> Duration {
    let said = std::env::var(variable).ok();
    let millis = said.map_or(otherwise, |said| said.parse().expect("milliseconds"));
    Duration::from_millis(millis)
}

/// Whether figures are judged by the project's promises.
#[must_use]
pub fn strict() -> bool {
    std::env::var_os(STRICT).is_some()
}

/// Whether tests on emulated links try all links that they know.
#[must_use]
pub fn in_full() -> bool {
    std::env::var_os(FULL).is_some()
}

/// Node `id` at `address` of a namespace, with an empty address book.
#[must_use]
pub fn builder_at(id: u32, address: impl Into<SocketAddr>) -> NodeBuilder {
    plant();
    Node::builder()
        .id(NodeId(id))
        .book(AddressBook::new())
        .listen(address.into())
        .allow_insecure_network()
}

/// A node at each end of `pair`, served by threads and known to the other.
#[must_use]
pub fn nodes_across(
    pair: &Pair,
    configure: impl Fn(NodeBuilder) -> NodeBuilder,
) -> [SharedNode; 2] {
    let ends = [(0, &pair.a, pair.a_addr()), (1, &pair.b, pair.b_addr())];
    let nodes = ends.map(|(id, host, address)| {
        let builder = configure(builder_at(id, (address, 7000)));
        host.inside(|| builder.open_threads(1)).unwrap().unwrap()
    });
    let [a, b] = &nodes;
    a.add_peer(b.id(), b.local_addr()).unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
    nodes
}

/// Sends as soon as there is room.
fn push(node: &SharedNode, to: NodeId, payload: Vec<u8>) {
    while let Err(error) = node.send(to, payload.clone()) {
        assert!(matches!(error, Error::WouldBlock { .. }), "{error}");
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Sends `count` messages of 20,000 bytes from `a` to `b`, which takes them, and waits until all
/// are acknowledged.
pub fn exchange(a: &SharedNode, b: &SharedNode, count: u32) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..count).for_each(|_| push(a, b.id(), vec![7; 20_000]));
            a.flush(LONG).unwrap();
        });
        for _ in 0..count {
            b.recv_timeout(LONG).unwrap().unwrap();
        }
    });
}

/// Tests that keep all cores busy run alone; the others together.
static CORES: RwLock<()> = RwLock::new(());

/// Held by a test that needs little of the machine.
pub fn light() -> RwLockReadGuard<'static, ()> {
    // A test that panicked while holding it left nothing half done.
    CORES
        .read()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Held by a test that loads the machine, or whose figures suffer when others do.
pub fn heavy() -> RwLockWriteGuard<'static, ()> {
    CORES
        .write()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// An address book on disk.
#[derive(Debug)]
pub struct Cast {
    dir: TempDir,
    addresses: Vec<SocketAddr>,
}

impl Cast {
    /// Node `i` is at `addresses[i]`.
    #[must_use]
    pub fn new(addresses: &[SocketAddr]) -> Self {
        let dir = TempDir::with_prefix("suci-tests-").unwrap();
        let lines: String = (addresses.iter().enumerate())
            .map(|(id, address)| format!("{id} {address}\n"))
            .collect();
        std::fs::write(dir.path().join("book"), lines).unwrap();
        let addresses = addresses.to_vec();
        Self { dir, addresses }
    }

    /// Nodes 0 to `count` - 1, each with a book of its own: of node `i`, the text `book(i)`.
    #[must_use]
    pub fn with_books(count: u32, book: impl Fn(u32) -> String) -> Self {
        let dir = TempDir::with_prefix("suci-tests-").unwrap();
        for id in 0..count {
            std::fs::write(dir.path().join(format!("book{id}")), book(id)).unwrap();
        }
        let addresses = Vec::new();
        Self { dir, addresses }
    }

    /// `count` nodes on the loopback of one namespace, whose ports no other process uses.
    #[must_use]
    pub fn local(count: u16) -> Self {
        let address = |id| SocketAddr::from(([127, 0, 0, 1], 7000 + id));
        Self::new(&(0..count).map(address).collect::<Vec<_>>())
    }

    /// Returns the address of node `id`.
    #[must_use]
    pub fn address(&self, id: usize) -> SocketAddr {
        self.addresses[id]
    }

    fn book(&self, id: u32) -> PathBuf {
        let own = self.dir.path().join(format!("book{id}"));
        match own.exists() {
            true => own,
            false => self.dir.path().join("book"),
        }
    }

    /// Starts node `id` in `netns`, with the environment that `suci run` gives its processes.
    /// `settings` are the subject's own: see there.
    #[must_use]
    pub fn start(&self, netns: &Netns, id: u32, settings: &[&str]) -> Subject {
        Subject::start(id, &mut self.command(netns, id, settings))
    }

    /// As [`Cast::start`], with a socket bound beforehand, as `suci run` does it.
    #[must_use]
    pub fn start_with(&self, netns: &Netns, id: u32, socket: UdpSocket) -> Subject {
        let mut command = self.command(netns, id, &[]);
        let fd = socket.as_raw_fd();
        command.env("SUCI_FD", fd.to_string());
        // SAFETY: fcntl may be called between fork and exec; the descriptor is open until after
        // spawning.
        unsafe {
            command.pre_exec(move || match libc::fcntl(fd, libc::F_SETFD, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        Subject::start(id, &mut command)
    }

    fn command(&self, netns: &Netns, id: u32, settings: &[&str]) -> Command {
        let program = exec::built("subject").unwrap();
        let mut command = netns.command(program);
        command
            .args(settings)
            .env("SUCI_ID", id.to_string())
            .env("SUCI_BOOK", self.book(id))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        // A book with routes has fewer addresses than nodes.
        if !self.addresses.is_empty() {
            command.env("SUCI_SIZE", self.addresses.len().to_string());
        }
        command
    }
}

/// A statement of a subject about itself, and when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Time at which it was read.
    pub at: Instant,
    /// Such as `lost 2`, or `ended 2 Silent delivered=0 not_delivered=3 unknown=5`.
    pub what: String,
}

/// A process with a node. Killed when dropped.
#[derive(Debug)]
pub struct Subject {
    /// Its node ID.
    pub id: u32,
    process: Process,
    stdin: Option<ChildStdin>,
    lines: Receiver<(Instant, String)>,
    /// Every event so far, in order.
    events: Vec<Told>,
    stats: VecDeque<Value>,
    ready: bool,
}

impl Subject {
    fn start(id: u32, command: &mut Command) -> Self {
        let mut process = Process::spawn(command).unwrap();
        let stdin = process.child().stdin.take().unwrap();
        let stdout = process.child().stdout.take().unwrap();
        let (told, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if told.send((Instant::now(), line)).is_err() {
                    break;
                }
            }
        });
        let mut subject = Self {
            id,
            process,
            stdin: Some(stdin),
            lines,
            events: Vec::new(),
            stats: VecDeque::new(),
            ready: false,
        };
        subject.until("ready", |subject| subject.ready.then_some(()));
        subject
    }

    /// Gives a command.
    pub fn say(&mut self, command: &str) {
        let stdin = self.stdin.as_mut().expect("not closed yet");
        writeln!(stdin, "{command}").expect("the subject reads its commands");
    }

    /// Sends `signal` to it.
    pub fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.process.pid()).unwrap();
        // SAFETY: kill takes any numbers; the process is our child and not reaped, so the pid is
        // its own.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "signal {signal}");
    }

    /// The memory of the process that is in RAM, in KiB.
    #[must_use]
    pub fn resident(&self) -> u64 {
        let status = format!("/proc/{}/status", self.process.pid());
        let status = std::fs::read_to_string(status).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.unwrap().trim().trim_end_matches("kB").trim();
        number.parse().unwrap()
    }

    /// kill -9, and waits until it is gone.
    pub fn kill(mut self) {
        self.process.kill();
    }

    /// Returns its counters now.
    pub fn stat(&mut self) -> Value {
        self.say("stat");
        self.until("stat", |subject| subject.stats.pop_front())
    }

    /// A number of [`Subject::stat`], by its path.
    pub fn number(&mut self, path: &str) -> u64 {
        let stat = self.stat();
        let number = stat.pointer(path).and_then(Value::as_u64);
        number.unwrap_or_else(|| panic!("no number {path} in {stat}"))
    }

    /// Waits until the number at `path` is at least `least`.
    pub fn reaches(&mut self, path: &str, least: u64) {
        let deadline = Instant::now() + LONG;
        loop {
            let number = self.number(path);
            if number >= least {
                return;
            }
            assert!(Instant::now() < deadline, "{path} is {number}, not {least}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for an event that begins with `prefix`; earlier ones count.
    pub fn event(&mut self, prefix: &str) -> Told {
        self.until(prefix, |subject| {
            let found = subject
                .events
                .iter()
                .find(|told| told.what.starts_with(prefix));
            found.cloned()
        })
    }

    /// All events so far that begin with `prefix`.
    pub fn events(&mut self, prefix: &str) -> Vec<Told> {
        while let Ok(line) = self.lines.try_recv() {
            self.note(line);
        }
        let told = self
            .events
            .iter()
            .filter(|told| told.what.starts_with(prefix));
        told.cloned().collect()
    }

    /// Has it send nothing more to `other`, and waits until the messages that it has accepted for
    /// it were delivered. A closing node takes nothing more, so all rest before the first one
    /// closes.
    pub fn rest(&mut self, other: u32) {
        self.say(&format!("rest {other}"));
        let accepted = self.number(&format!("/accepted/{other}"));
        self.reaches(&format!("/delivered/{other}"), accepted);
    }

    /// Tells it to close its node, which must succeed, and to end.
    pub fn finish(mut self) {
        self.say("close");
        self.stdin = None;
        if let Err(failure) = self.process.finish_by(Instant::now() + LONG) {
            panic!("node {}: {failure}, events {:?}", self.id, self.events);
        }
    }

    fn until<T>(&mut self, what: &str, found: impl Fn(&mut Self) -> Option<T>) -> T {
        let deadline = Instant::now() + LONG;
        loop {
            if let Some(value) = found(self) {
                return value;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.note(line),
                Err(RecvTimeoutError::Timeout) => {
                    panic!("node {} never told `{what}`: {:?}", self.id, self.events)
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("node {} ended before `{what}`: {:?}", self.id, self.events)
                }
            }
        }
    }

    fn note(&mut self, (at, line): (Instant, String)) {
        if let Some(what) = line.strip_prefix("event ") {
            let what = what.to_owned();
            self.events.push(Told { at, what });
        } else if let Some(json) = line.strip_prefix("stat ") {
            self.stats.push_back(serde_json::from_str(json).unwrap());
        } else if line == "ready" {
            self.ready = true;
        } else {
            panic!("node {}: {line}", self.id);
        }
    }
}

/// Closes all at once: a node that waits for another's acknowledgement must not wait for its end.
pub fn finish_together(subjects: Vec<Subject>) {
    std::thread::scope(|scope| {
        for subject in subjects {
            scope.spawn(|| subject.finish());
        }
    });
}
