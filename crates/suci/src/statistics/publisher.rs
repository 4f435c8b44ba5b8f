//! The writing side: the numbers that a node's own cycles store into its file.

use super::directory::{self, Process};
use super::layout::{self, HEADER, MAX_PEERS, RECORD, Request, head, node, slot};
use super::map::Map;
use crate::shared::owner;
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use suci_proto::time::Instant;
use suci_proto::types::NodeId;
use suci_proto::{Counters, Engine, PeerStats};

/// The greatest age of published numbers while something happens. Readers look ten times a second
/// at most, and publishing so often costs microseconds.
const INTERVAL: Duration = Duration::from_millis(100);

/// Time between choices of the busiest peers, if there are more than a file shows: a choice looks
/// at all peers.
const CHOICE: Duration = Duration::from_secs(1);

/// Files of processes that do not run here, as far as can be seen, which a new node opens. Some may
/// run in other namespaces.
const SWEPT: usize = 64;

/// A node as its file describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeInfo {
    pub(crate) node: NodeId,
    pub(crate) local: SocketAddr,
}

/// Puts the numbers of a node's thread into the node's file, which has those of all of its threads
/// together.
#[derive(Debug)]
pub(crate) struct Publisher {
    file: Arc<Mutex<NodeFile>>,
    /// The index of this thread among the node's.
    index: usize,
    /// The number of the node's threads.
    count: usize,
    due: Instant,
    /// The count of events at the last publication.
    published: u64,
    shown: Vec<NodeId>,
    choose_at: Instant,
    /// Packets of each peer at the last choice, while there are more than can be shown.
    before: HashMap<NodeId, u64>,
}

/// Why a node of this user has no statistics file: the directories that could not take it.
#[derive(Debug)]
pub struct NoFile(pub(super) Vec<(PathBuf, io::Error)>);

impl fmt::Display for NoFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const REMEDY: &str = "name a directory in memory that is this user's by XDG_RUNTIME_DIR";
        if self.0.is_empty() {
            let what = "neither /dev/shm nor /tmp is in memory";
            return write!(f, "{what}: mount /dev/shm (tmpfs), or {REMEDY}");
        }
        let mut or = "";
        for (dir, error) in &self.0 {
            let dir = dir.display();
            let remedy = match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    write!(f, "{dir} is not this user's alone, or may not be made")?;
                    "remove it, or make it with mode 0700"
                }
                kind => {
                    write!(f, "{dir}: {error}")?;
                    match kind {
                        io::ErrorKind::StorageFull => "free memory there",
                        io::ErrorKind::NotADirectory => "remove it",
                        _ => "",
                    }
                }
            };
            if remedy.is_empty() {
                write!(f, "; ")?;
            } else {
                write!(f, ": {remedy}; ")?;
                or = "or ";
            }
        }
        write!(f, "{or}{REMEDY}")
    }
}

impl std::error::Error for NoFile {}

/// Makes and removes a statistics file as a node of this user does when it is opened: says why
/// nodes have none. Blocks for the file system.
///
/// # Errors
/// Each directory that could not take the file, and the remedy.
pub fn check() -> Result<(), NoFile> {
    let about = NodeInfo {
        node: NodeId(0),
        local: SocketAddr::from(([0, 0, 0, 0], 0)),
    };
    Publisher::new(about, Instant::ZERO).map(drop)
}

/// A node's file, and the last numbers of each of its threads.
#[derive(Debug)]
struct NodeFile {
    map: Map,
    /// To be removed at the end; memory without a name has none.
    path: Option<Arc<Path>>,
    clock: Instant,
    parts: Vec<Part>,
}

/// The numbers of one thread.
#[derive(Clone, Debug, Default)]
struct Part {
    counters: Counters,
    socket: suci_net::Counters,
    known: usize,
    peers: Vec<PeerStats>,
}

impl Publisher {
    /// Makes the file in the first directory that allows it.
    pub(crate) fn new(about: NodeInfo, now: Instant) -> Result<Self, NoFile> {
        let mut refused = NoFile(Vec::new());
        for dir in directory::own() {
            match Self::within(&dir, about, now) {
                Ok(publisher) => {
                    sweep(&dir);
                    return Ok(publisher);
                }
                Err(error) => refused.0.push((dir, error)),
            }
        }
        Err(refused)
    }

    /// Makes the file in `dir`.
    pub(super) fn within(dir: &Path, about: NodeInfo, now: Instant) -> io::Result<Self> {
        let name = super::file_name(std::process::id(), about.node);
        let path = dir.join(&name);
        let file = match directory::create(dir, &name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // Left by a process that had our ID before, or this process has two nodes of one
                // name.
                if super::StatFile::open(&path).is_ok_and(|file| file.may_live()) {
                    return Err(error);
                }
                std::fs::remove_file(&path)?;
                directory::create(dir, &name)?
            }
            made => made?,
        };
        let made = Self::over(&file, Some(Arc::from(path.as_path())), about, now);
        if made.is_err() {
            std::fs::remove_file(&path)?;
        }
        made
    }

    /// Publishes to memory without a name. Also returns a handle to read it.
    pub(crate) fn anonymous(about: NodeInfo, now: Instant) -> io::Result<(Self, File)> {
        let file = directory::anonymous()?;
        Ok((Self::over(&file, None, about, now)?, file))
    }

    fn over(
        file: &File,
        path: Option<Arc<Path>>,
        about: NodeInfo,
        now: Instant,
    ) -> io::Result<Self> {
        let map = Map::new(file, layout::WORDS)?;
        describe(&map, about);
        let file = NodeFile {
            map,
            path,
            clock: now,
            parts: vec![Part::default()],
        };
        Ok(Self::at(Arc::new(Mutex::new(file)), 0, 1, now))
    }

    fn at(file: Arc<Mutex<NodeFile>>, index: usize, count: usize, now: Instant) -> Self {
        Self {
            file,
            index,
            count,
            due: now,
            published: 0,
            shown: Vec::new(),
            choose_at: now,
            before: HashMap::new(),
        }
    }

    /// Makes one publisher for each of the node's `count` threads. The file goes away with the
    /// last.
    pub(crate) fn divide(self, count: usize) -> Vec<Self> {
        self.file().parts = vec![Part::default(); count];
        let part = |index| Self::at(Arc::clone(&self.file), index, count, self.due);
        (0..count).map(part).collect()
    }

    fn file(&self) -> MutexGuard<'_, NodeFile> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file's path, if it has a name.
    pub(crate) fn path(&self) -> Option<Arc<Path>> {
        self.file().path.clone()
    }

    /// Whether it is time.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.due
    }

    /// Returns the time of the next publication, if something happened since the last.
    pub(crate) fn due_at(&self, engine: &Engine) -> Option<Instant> {
        (happened(engine) != self.published).then_some(self.due)
    }

    /// Does the request from outside. Only the user of this process can write to the file.
    pub(crate) fn serve(&self, now: Instant, engine: &mut Engine) {
        let file = self.file();
        let word = file.map.get(slot::REQUEST);
        if word == file.map.get(slot::DONE) {
            return;
        }
        if let Some(request) = Request::of(word) {
            if owner(request.node, self.count) != self.index {
                return;
            }
            // A peer that is unknown has no mode: the request is done with.
            let _ = engine.change_options(now, request.node, |o| o.mode = request.mode);
        }
        file.map.put_last(slot::DONE, word);
    }

    /// Stores everything.
    pub(crate) fn publish(&mut self, now: Instant, engine: &Engine, socket: &suci_net::Counters) {
        self.due = now + INTERVAL;
        self.published = happened(engine);
        self.choose(now, engine);
        let mut file = self.file();
        if let Some(part) = file.parts.get_mut(self.index) {
            part.counters = *engine.counters();
            part.socket = *socket;
            part.known = engine.peer_count();
            part.peers.clear();
            let shown = self.shown.iter();
            part.peers
                .extend(shown.filter_map(|&node| engine.peer_stats(node)));
        }
        file.store(now);
    }

    /// Chooses the peers to be shown: all, or those with most packets since the last choice. Each
    /// thread shows as many.
    fn choose(&mut self, now: Instant, engine: &Engine) {
        let count = engine.peer_count();
        let room = (MAX_PEERS / self.count).max(1);
        if count <= room {
            // Always: one may have gone and another come since, and it costs less than to find out.
            self.shown.clear();
            self.shown.extend(engine.peers());
            self.before = HashMap::new();
            return;
        }
        if now < self.choose_at {
            return;
        }
        self.choose_at = now + CHOICE;
        let before = &mut self.before;
        let recent = |(node, packets): (NodeId, u64)| {
            let old = before.insert(node, packets).unwrap_or(0);
            (packets.saturating_sub(old), node)
        };
        self.shown = busiest(engine.peer_packets().map(recent).collect(), room);
        // Peers that were forgotten leave their numbers behind.
        if self.before.len() > 2 * count {
            self.before.retain(|node, _| engine.knows(*node));
        }
    }
}

/// Removes a few of the files in `dir` of processes that were killed. So they do not pile up where
/// `suci stat` is never called.
pub(super) fn sweep(dir: &Path) {
    let found = super::find_in(dir).into_iter();
    let dead = found.filter(|found| !Path::new(&format!("/proc/{}", found.pid)).exists());
    for found in dead.take(SWEPT) {
        // Opening a file of the dead removes it.
        drop(found.open());
    }
}

/// The `room` with most packets.
pub(super) fn busiest(mut all: Vec<(u64, NodeId)>, room: usize) -> Vec<NodeId> {
    if all.len() > room {
        all.select_nth_unstable_by(room.saturating_sub(1), |a, b| b.cmp(a));
    }
    all.iter().take(room).map(|(_, node)| *node).collect()
}

impl NodeFile {
    /// Stores the numbers of the threads: counters in sum, peers one after the other.
    fn store(&mut self, now: Instant) {
        self.clock = self.clock.max(now);
        let mut whole = Part::default();
        let mut used = 0;
        for part in &self.parts {
            whole.counters += part.counters;
            whole.socket += part.socket;
            whole.known += part.known;
            for stats in part.peers.iter().take(MAX_PEERS - used) {
                let base = HEADER + used * RECORD;
                self.map.change(base + layout::peer::GENERATION, |map| {
                    layout::put_peer(stats, |index, word| map.put(base + index, word));
                });
                used += 1;
            }
        }
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        self.map.change(node::GENERATION, |map| {
            map.put(node::CLOCK, self.clock.as_nanos());
            map.put(node::PUBLISHED, since_1970.map_or(0, layout::nanos));
            map.put(node::PEERS_KNOWN, word(whole.known));
            map.put(node::PEERS_SHOWN, word(used));
            for (index, field) in (node::COUNTERS..).zip(layout::NODE_FIELDS) {
                map.put(index, (field.get)(&whole.counters));
            }
            for (index, field) in (node::SOCKET..).zip(layout::SOCKET_FIELDS) {
                map.put(index, (field.get)(&whole.socket));
            }
        });
    }
}

/// Removes the file's name. A reader that has the file open reads the last publication.
impl Drop for NodeFile {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            // Another thread that removed it first did the same.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Rises with everything that is worth publishing.
fn happened(engine: &Engine) -> u64 {
    let all = engine.counters();
    all.datagrams_in
        .wrapping_add(all.packets_out)
        .wrapping_add(all.messages_sent)
        .wrapping_add(all.messages_received)
}

fn word(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Writes the values that never change, and at last that the file is complete.
fn describe(map: &Map, about: NodeInfo) {
    let process = Process::own();
    let mut name = [0; 16];
    if let Ok(comm) = std::fs::read("/proc/self/comm") {
        let comm = comm.trim_ascii_end();
        name.iter_mut().zip(comm).for_each(|(to, from)| *to = *from);
    }
    let name = u128::from_le_bytes(name);
    let halves =
        [name, name >> 64].map(|half| u64::try_from(half & u128::from(u64::MAX)).unwrap_or(0));
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    map.put(head::VERSION, layout::VERSION);
    map.put(head::HEADER, word(HEADER * 8));
    map.put(head::RECORD, word(RECORD * 8));
    map.put(head::CAPACITY, word(MAX_PEERS));
    map.put(head::PID, process.pid.into());
    map.put(head::STARTED, process.started);
    map.put(head::NAMESPACE, process.namespace);
    map.put(head::NODE, about.node.0.into());
    map.put(head::OPENED, since_1970.map_or(0, layout::nanos));
    for (index, half) in (head::PROGRAM..).zip(halves) {
        map.put(index, half);
    }
    for (index, part) in (head::ADDRESS..).zip(layout::address_words(Some(about.local))) {
        map.put(index, part);
    }
    map.put_last(head::MAGIC, layout::MAGIC);
}
