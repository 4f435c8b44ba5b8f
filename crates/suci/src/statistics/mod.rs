//! The numbers of the nodes on this machine, also of other processes.
//!
//! Every node keeps its counters in a small file in memory (see
//! [`NodeBuilder::statistics`](crate::NodeBuilder::statistics)), stored by driver cycles that it
//! makes anyway, without a system call. [`find`] lists these files, [`StatFile`] reads one.
//! docs/statistics.md tells other programs how.
//!
//! Any process may have written such a file. So every word is checked, and a file is never mapped,
//! since cutting a mapped file short would end its reader.

mod directory;
mod layout;
mod map;
mod publisher;
#[cfg(test)]
mod tests;

pub use layout::{Field, FieldKind, NODE_FIELDS, PEER_FIELDS, SOCKET_FIELDS};
pub use publisher::{NoFile, check};
pub(crate) use publisher::{NodeInfo, Publisher};

use directory::Process;
pub(crate) use layout::MAX_PEERS;
use layout::{HEADER, RECORD, Request, head, node, slot};
use std::fs::{File, OpenOptions};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use suci_proto::types::NodeId;
use suci_proto::wire::Mode;
use suci_proto::{Counters, PeerStats};

/// How often a record is read again that was being written, before it is left out.
const ATTEMPTS: usize = 20;

/// A statistics file that was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// The process, by the file's name.
    pub pid: u32,
    /// The node, by the file's name.
    pub node: NodeId,
    /// Its path.
    pub path: PathBuf,
    /// Whether this user may write there.
    ours: bool,
}

/// All files of nodes on this machine that this user may read, those of processes that have ended
/// included.
#[must_use]
pub fn find() -> Vec<Found> {
    let mut all: Vec<Found> = directory::all()
        .iter()
        .flat_map(|dir| find_in(dir))
        .collect();
    all.sort();
    all
}

fn find_in(dir: &Path) -> Vec<Found> {
    let Ok((_, owner)) = directory::enter(dir) else {
        return Vec::new();
    };
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let found = |entry: std::fs::DirEntry| {
        let (pid, node) = of_name(entry.file_name().to_str()?)?;
        Some(Found {
            pid,
            node,
            path: entry.path(),
            ours: owner == crate::sys::user(),
        })
    };
    entries.filter_map(found).collect()
}

fn file_name(pid: u32, node: NodeId) -> String {
    format!("{pid}-{node}.stat")
}

fn of_name(name: &str) -> Option<(u32, NodeId)> {
    let (pid, node) = name.strip_suffix(".stat")?.split_once('-')?;
    Some((pid.parse().ok()?, NodeId(node.parse().ok()?)))
}

impl Found {
    /// Opens it. A file whose process has ended is removed instead, if this user may, and answered
    /// by `NotFound`.
    ///
    /// # Errors
    /// Those of the system; `InvalidData` if it is no statistics file.
    pub fn open(&self) -> io::Result<StatFile> {
        let file = StatFile::open(&self.path)?;
        if file.may_live() {
            return Ok(file);
        }
        if self.ours {
            std::fs::remove_file(&self.path)?;
        }
        Err(io::ErrorKind::NotFound.into())
    }
}

/// A statistics file, open.
#[derive(Debug)]
pub struct StatFile {
    file: File,
    process: Process,
    node: NodeId,
    opened: u64,
    program: String,
    address: Option<SocketAddr>,
}

impl AsRawFd for StatFile {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

/// The content of a file at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The process.
    pub pid: u32,
    /// Its program's name, in printable ASCII.
    pub program: String,
    /// The node.
    pub node: NodeId,
    /// The address where it listens.
    pub address: Option<SocketAddr>,
    /// Time at which the node was opened.
    pub opened: SystemTime,
    /// Time at which these numbers were stored.
    pub published: SystemTime,
    /// The same by the node's monotonic clock. Divide by its differences to get rates.
    pub clock: Duration,
    /// The node's counters.
    pub counters: Counters,
    /// The counters of its socket.
    pub socket: crate::SocketCounters,
    /// Number of peers that it knows; larger than the length of `peers` if they are too many for
    /// the file.
    pub peers_known: u64,
    /// Its peers, by ID.
    pub peers: Vec<PeerStats>,
    /// The last request of [`StatFile::prefer`], if the node has not done it yet.
    pub asked: Option<(NodeId, Mode)>,
}

impl StatFile {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// Those of the system; `InvalidData` if it is no statistics file, is not complete yet, or of
    /// another version.
    pub fn open(path: &Path) -> io::Result<Self> {
        // The path may name something other than a file: opening it must neither block nor lead
        // elsewhere.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(path)?;
        Self::over(file)
    }

    /// Reads the head of `file`.
    pub(crate) fn over(file: File) -> io::Result<Self> {
        if !file.metadata()?.is_file() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let words = words(&file)?;
        let expected = [
            (head::MAGIC, layout::MAGIC),
            (head::VERSION, layout::VERSION),
            (head::HEADER, len64(HEADER * 8)),
            (head::RECORD, len64(RECORD * 8)),
            (head::CAPACITY, len64(MAX_PEERS)),
        ];
        if expected
            .iter()
            .any(|&(index, word)| words.at(index) != word)
        {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let narrow = |index| u32::try_from(words.at(index)).map_err(|_| io::ErrorKind::InvalidData);
        let process = Process {
            pid: narrow(head::PID)?,
            started: words.at(head::STARTED),
            namespace: words.at(head::NAMESPACE),
        };
        let name = [0, 1]
            .map(|at| words.at(head::PROGRAM + at).to_le_bytes())
            .concat();
        let program = name.iter().take_while(|byte| **byte != 0);
        let program = program.map(|&byte| {
            if byte.is_ascii_graphic() {
                char::from(byte)
            } else {
                '?'
            }
        });
        Ok(Self {
            process,
            node: NodeId(narrow(head::NODE)?),
            opened: words.at(head::OPENED),
            program: program.collect(),
            address: layout::address_of([0, 1, 2].map(|at| words.at(head::ADDRESS + at))),
            file,
        })
    }

    /// The process that writes it.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid
    }

    /// The node that it is about.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Whether its process runs, as far as can be told: of one in another namespace nothing is
    /// known.
    #[must_use]
    pub fn may_live(&self) -> bool {
        self.process.may_live(directory::namespace())
    }

    /// Asks the node for this mode of its traffic to `peer`. The node changes it in its next cycle:
    /// at once while messages flow, else when something happens. One request waits at a time; the
    /// last wins.
    ///
    /// # Errors
    /// Those of the system: only the user of the process may.
    pub fn prefer(&self, peer: NodeId, mode: Mode) -> io::Result<()> {
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let file = OpenOptions::new().write(true).open(own)?;
        let at = len64(slot::REQUEST * 8);
        let number = Request::next(words(&self.file)?.at(slot::REQUEST));
        let request = Request {
            node: peer,
            mode,
            number,
        };
        file.write_all_at(&request.word().to_le_bytes(), at)
    }

    /// Reads the file's content now.
    ///
    /// # Errors
    /// Those of the system; `InvalidData` if the node's record makes no sense or is always being
    /// written.
    pub fn read(&self) -> io::Result<Snapshot> {
        let mut words = words(&self.file)?;
        let mut whole = Whole::default();
        for _ in 0..ATTEMPTS {
            // A record is whole if its generation is even, and the same before and after.
            let before = words;
            let now = self::words(&self.file)?;
            words = self::words(&self.file)?;
            whole.take(&before, &now, &words);
            if whole.is_complete() {
                break;
            }
            std::thread::yield_now();
        }
        self.snapshot(whole)
    }

    fn snapshot(&self, whole: Whole) -> io::Result<Snapshot> {
        let words = whole.node.ok_or(io::ErrorKind::InvalidData)?;
        let mut counters = Counters::default();
        for (index, field) in (node::COUNTERS..).zip(NODE_FIELDS) {
            (field.put)(&mut counters, words.at(index));
        }
        let mut socket = crate::SocketCounters::default();
        for (index, field) in (node::SOCKET..).zip(SOCKET_FIELDS) {
            (field.put)(&mut socket, words.at(index));
        }
        let mut peers: Vec<PeerStats> = whole.peers.into_values().collect();
        peers.sort_unstable_by_key(|stats| stats.node);
        // A peer that moved between records while they were read is in two of them.
        peers.dedup_by_key(|stats| stats.node);
        Ok(Snapshot {
            pid: self.process.pid,
            program: self.program.clone(),
            node: self.node,
            address: self.address,
            opened: moment(self.opened),
            published: moment(words.at(node::PUBLISHED)),
            clock: Duration::from_nanos(words.at(node::CLOCK)),
            counters,
            socket,
            peers_known: words.at(node::PEERS_KNOWN),
            peers,
            asked: Request::of(words.at(slot::REQUEST))
                .filter(|request| request.word() != words.at(slot::DONE))
                .map(|request| (request.node, request.mode)),
        })
    }
}

/// The words of a file.
struct Words(Vec<u8>);

impl Words {
    fn at(&self, index: usize) -> u64 {
        let bytes = self.0.get(index * 8..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }
}

fn words(file: &File) -> io::Result<Words> {
    let mut bytes = vec![0; layout::BYTES];
    file.read_exact_at(&mut bytes, 0)
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => io::ErrorKind::InvalidData.into(),
            _ => error,
        })?;
    Ok(Words(bytes))
}

/// The records that were found whole so far.
#[derive(Default)]
struct Whole {
    node: Option<Words>,
    shown: usize,
    peers: std::collections::BTreeMap<usize, PeerStats>,
}

impl Whole {
    /// Takes the whole records of `now`, which was read between `before` and `after`.
    fn take(&mut self, before: &Words, now: &Words, after: &Words) {
        let is_whole = |generation| {
            let all = [before, now, after].map(|words| words.at(generation));
            all[0] % 2 == 0 && all[0] == all[1] && all[1] == all[2]
        };
        if self.node.is_none() && is_whole(node::GENERATION) {
            self.shown = usize::try_from(now.at(node::PEERS_SHOWN))
                .map_or(MAX_PEERS, |count| count.min(MAX_PEERS));
            self.node = Some(Words(now.0.clone()));
        }
        for index in 0..self.shown {
            let base = HEADER + index * RECORD;
            if !self.peers.contains_key(&index)
                && is_whole(base + layout::peer::GENERATION)
                && let Some(stats) = layout::peer_of(|at| now.at(base + at))
            {
                self.peers.insert(index, stats);
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.node.is_some() && self.peers.len() == self.shown
    }
}

fn moment(since_1970: u64) -> SystemTime {
    UNIX_EPOCH
        .checked_add(Duration::from_nanos(since_1970))
        .unwrap_or(UNIX_EPOCH)
}

fn len64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
