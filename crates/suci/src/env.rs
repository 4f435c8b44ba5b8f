//! The environment of processes that `suci run` or another launcher started.

use crate::backend::{BackendKind, UnknownBackend};
use crate::book::{self, AddressBook, shown};
use crate::error::{BookError, Error};
use crate::job;
use crate::launcher::{self, Launcher, Notice};
use crate::security::{KeyError, KeyFile, KeySource, NodeFiles, PublicKeysFile};
use crate::sys;
use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{FromRawFd, RawFd};
use std::sync::{Mutex, PoisonError};
use suci_net::fault::{FaultSpec, FaultSpecError};
pub use suci_proto::ProcessEnd;
use suci_proto::types::NodeId;

/// This process's node ID.
pub const ID: &str = "SUCI_ID";
/// How many nodes were started; their IDs are 0 to this number minus 1.
pub const SIZE: &str = "SUCI_SIZE";
/// The path of the address book.
pub const BOOK: &str = "SUCI_BOOK";
/// A descriptor of a UDP socket that is already bound to this node's address, so that no other
/// process can take the port between its choice and its use.
pub const FD: &str = "SUCI_FD";
/// A descriptor of a pipe from which to read which processes of the launch have ended, and whose
/// ends would be reported: lines as [`notice`] and [`supervision`] make them. The first node that
/// is opened with the environment's ID reads it. The library skips lines that it does not know.
pub const NOTICES: &str = "SUCI_NOTICES";
/// Faults to inject into the packets of nodes whose builders name none, written as a [`FaultSpec`]:
/// for tests of any program.
pub const FAULTS: &str = "SUCI_FAULTS";
/// The path of a file with the cluster's keys ([`KeyFile`]): nodes whose builders name no key are
/// sealed under it.
pub const KEY_FILE: &str = "SUCI_KEY_FILE";
/// The path of a file with the node's own key: nodes whose builders name no key are sealed under it
/// and under the keys of [`PUBLIC_KEYS_FILE`].
pub const NODE_KEY_FILE: &str = "SUCI_NODE_KEY_FILE";
/// The path of a file with the public keys of all nodes ([`PublicKeysFile`]).
pub const PUBLIC_KEYS_FILE: &str = "SUCI_PUBLIC_KEYS_FILE";
/// The most bytes of receive buffer that a node may ask the system for, as if `net.core.rmem_max`
/// were that: to try a program with another system's buffer. Linux ships with 212,992.
pub const RMEM_MAX: &str = "SUCI_RMEM_MAX";

/// How the datagrams of nodes whose builders do not say reach the network: `udp`, `af_packet`,
/// `af_xdp`, or `ethernet` (`ethernet:88b6` for another EtherType than 88b5), as [`BackendKind`]
/// explains them.
pub const BACKEND: &str = "SUCI_BACKEND";

/// Whether nodes whose builders do not say use
/// [shared memory](crate::NodeBuilder::shared_memory): 1 or 0.
pub const SHARED_MEMORY: &str = "SUCI_SHARED_MEMORY";

/// The UDP port of process 0 of a Slurm step whose processes exchange nothing (the others have
/// those that follow), or of each pod of Kubernetes. Launchers that exchange addresses need none.
pub const PORT: &str = "SUCI_PORT";

/// How many seconds a process waits for its launcher and the other processes, when its first node
/// is opened. Default 120.
pub const LAUNCH_TIMEOUT: &str = "SUCI_LAUNCH_TIMEOUT";

/// The path of `libpmix.so.2`, where the system does not find it.
pub const PMIX_LIBRARY: &str = "SUCI_PMIX_LIBRARY";

/// The number of sockets that systemd opened for the process [`LISTEN_PID`], from descriptor 3 on
/// (`sd_listen_fds(3)`). A node takes one of UDP: that of the address at which it is to listen, or
/// if neither its builder nor the book says one, the first. A process takes each one once.
pub const LISTEN_FDS: &str = "LISTEN_FDS";
/// The process that [`LISTEN_FDS`] is for. Others ignore both variables.
pub const LISTEN_PID: &str = "LISTEN_PID";

/// The remedy of a wrong number of a launch.
const BY_RUN: &str = "let suci run set it";

/// A variable's value, if it is set.
fn value(name: &'static str) -> Result<Option<String>, Error> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(value)) => Err(wrong(
            name,
            &value.to_string_lossy(),
            "not Unicode: set it anew",
        )),
    }
}

/// The file that a variable names, if it is set.
fn file(name: &'static str) -> Result<Option<String>, Error> {
    match value(name)? {
        // Blanks are what a script leaves of a variable that is not set.
        Some(path) if path.trim().is_empty() => Err(wrong(
            name,
            &path,
            "it names no file: name one, or unset the variable",
        )),
        path => Ok(path),
    }
}

fn wrong(name: &'static str, value: &str, problem: impl Into<String>) -> Error {
    Error::Variable {
        name,
        value: shown(value),
        problem: problem.into(),
    }
}

/// A variable's number, if it is set. `remedy` says how to get a right one.
fn number(name: &'static str, remedy: &str) -> Result<Option<u32>, Error> {
    let Some(value) = value(name)? else {
        return Ok(None);
    };
    let problem = format!("not a number from 0 to {}: {remedy}", u32::MAX);
    book::number(&value)
        .map(Some)
        .ok_or_else(|| wrong(name, &value, problem))
}

/// This process's node ID, if the environment tells it: `SUCI_ID`, or its rank under another
/// launcher ([`launchers`]). [`NodeBuilder::open`](crate::NodeBuilder::open) asks by itself; this
/// is for programs whose processes begin with different work. Blocks, with a limit
/// ([`LAUNCH_TIMEOUT`]), if the launcher must be asked (hydra with `-pmi-port`).
///
/// # Errors
/// [`Error::Variable`] if it is not a number below `SUCI_SIZE`, [`Error::Launcher`].
pub fn id() -> Result<Option<NodeId>, Error> {
    match own_id()? {
        None => job::rank(),
        id => Ok(id),
    }
}

/// The ID that `SUCI_ID` tells.
pub(crate) fn own_id() -> Result<Option<NodeId>, Error> {
    let Some(id) = number(ID, BY_RUN)? else {
        return Ok(None);
    };
    match own_size()? {
        Some(size) if id >= size => {
            let problem = format!("not below {SIZE}={size}: let suci run set both");
            Err(wrong(ID, &id.to_string(), problem))
        }
        _ => Ok(Some(NodeId(id))),
    }
}

/// The number of processes that the launcher started, if the environment tells it: `SUCI_SIZE`, or
/// what another launcher says ([`launchers`]). Blocks, with a limit ([`LAUNCH_TIMEOUT`]), if the
/// launcher must be asked (PMIx, hydra with `-pmi-port`).
///
/// # Errors
/// [`Error::Variable`] if it is not a number, [`Error::Launcher`].
pub fn size() -> Result<Option<u32>, Error> {
    match own_size()? {
        None if own_id()?.is_none() => job::size(),
        size => Ok(size),
    }
}

/// The number that `SUCI_SIZE` tells.
fn own_size() -> Result<Option<u32>, Error> {
    match number(SIZE, BY_RUN)? {
        Some(0) => Err(wrong(
            SIZE,
            "0",
            "at least this process is there: let suci run set it",
        )),
        size => Ok(size),
    }
}

/// The error of a process to which nobody gave an ID: what is there of a launcher, or that nothing
/// is.
pub(crate) fn no_id() -> Error {
    let traces = job::traces().into_iter();
    let mut problems = traces.filter_map(|trace| Some((trace.launcher, trace.problem?)));
    match problems.next() {
        Some((launcher, problem)) => job::Trouble { launcher, problem }.into(),
        None => Error::Missing {
            missing: "the node ID",
            remedy: "set id, or the variable SUCI_ID, or start the program by suci run or another \
                     launcher (`suci env` lists them)",
        },
    }
}

/// A launcher that [`Node::from_env`](crate::Node::from_env) looks for, and what the environment
/// shows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LauncherState {
    /// Its name.
    pub name: &'static str,
    /// Its variables that are set, with the beginnings of their values.
    pub variables: Vec<(&'static str, String)>,
    /// Its variables are complete. The first launcher of which that is true counts.
    pub is_complete: bool,
    /// The fault, and the remedy.
    pub problem: Option<String>,
}

/// Returns what the environment shows of each launcher, in the order in which they are looked
/// for. Blocks for nothing and nobody.
#[must_use]
pub fn launchers() -> Vec<LauncherState> {
    let names = [ID, SIZE, BOOK, FD, NOTICES];
    let set = |name: &&'static str| Some((*name, std::env::var_os(name)?));
    let set = names.iter().filter_map(set);
    let variables = set
        .map(|(name, value)| (name, shown(&value.to_string_lossy())))
        .collect();
    let own = own_id();
    let first = LauncherState {
        name: "suci run",
        variables,
        is_complete: matches!(own, Ok(Some(_))),
        problem: own.err().map(|error| error.to_string()),
    };
    let others = job::traces().into_iter().map(|trace| LauncherState {
        name: trace.launcher.name(),
        variables: trace.variables,
        is_complete: trace.is_complete,
        problem: trace.problem,
    });
    std::iter::once(first).chain(others).collect()
}

/// How many seconds to wait for the launcher, if the environment tells it.
pub(crate) fn launch_timeout() -> Result<Option<u32>, Error> {
    match number(LAUNCH_TIMEOUT, "correct it, or unset the variable")? {
        Some(0) => Err(wrong(
            LAUNCH_TIMEOUT,
            "0",
            "at least 1: correct it, or unset the variable",
        )),
        seconds => Ok(seconds),
    }
}

/// The path of the library of PMIx, if the environment tells it.
pub(crate) fn pmix_library() -> Result<Option<String>, Error> {
    file(PMIX_LIBRARY)
}

/// Whether the environment names an address book.
pub(crate) fn has_book() -> bool {
    std::env::var_os(BOOK).is_some()
}

/// The address book, if the environment tells it. It must have an entry for `own`, the node whose
/// ID the environment tells, and for all others. A node that is missing in the books, or does not
/// know all others, would wait until it gives up.
pub(crate) fn book(own: Option<NodeId>) -> Result<Option<AddressBook>, Error> {
    let Some(path) = file(BOOK)? else {
        return Ok(None);
    };
    let book = AddressBook::read(&path).map_err(|error| match error {
        Error::Book(BookError::Unreadable { source, .. }) => {
            let problem = format!("{source}: name a readable file, or unset the variable");
            wrong(BOOK, &path, problem)
        }
        other => other,
    })?;
    if let Some(id) = own.filter(|&id| book.get(id).is_none()) {
        let problem = format!("not in the book {BOOK}={path}: let suci run set both");
        return Err(wrong(ID, &id.to_string(), problem));
    }
    let nodes = book.len();
    let more = |size: &u32| own.is_some() && *size as usize > nodes;
    if let Some(size) = own_size()?.filter(more) {
        let problem = format!("the book {BOOK}={path} has {nodes}: let suci run set both");
        return Err(wrong(SIZE, &size.to_string(), problem));
    }
    Ok(Some(book))
}

/// The line that a launcher writes to the pipe of each of its other processes ([`NOTICES`]) when
/// the process of `node` has ended. It is `1 died ID` if another takes its place, `1 gone ID` if
/// none does and it ended in order, and `1 failed ID` if none does and it failed. The line is in
/// ASCII, with one space between the words and a newline at the end; the first word is the version.
#[must_use]
pub fn notice(node: NodeId, end: ProcessEnd) -> String {
    launcher::line(Notice::Ended { node, end })
}

/// The line that a launcher writes to the pipe of each process ([`NOTICES`]), before any other, if
/// it starts the processes of the nodes from `first` to `last` and reports each of their ends
/// ([`notice`]). Silence of any length then shows nothing about them: a process that starts late,
/// or is stopped in a debugger, is reported as [`Quiet`](crate::Event::Quiet) instead of lost, and
/// never given up. That holds until its end is reported, or the launcher's end of the pipe is
/// closed. The line is `1 supervised FIRST LAST`, in ASCII.
#[must_use]
pub fn supervision(first: NodeId, last: NodeId) -> String {
    launcher::line(Notice::Supervised {
        first,
        last,
        supervised: true,
    })
}

/// The pipe from the launcher, if the environment tells it and no node took it yet; nothing if none
/// is open there, as in a process that the launched one started.
pub(crate) fn launcher(ignores_supervision: bool) -> Result<Option<Launcher>, Error> {
    static TAKEN: Mutex<bool> = Mutex::new(false);
    let Some(value) = value(NOTICES)? else {
        return Ok(None);
    };
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    // The number may mean nothing by now, or something else.
    let fd = value.parse::<RawFd>().ok();
    let Some(fd) = fd.filter(|&fd| fd > 2 && !*taken) else {
        return Ok(None);
    };
    // SAFETY: the launcher opened it for this process and named it by the variable alone, which is
    // read only here and acted upon only once: nothing else in the process owns it.
    let pipe = unsafe { sys::take_pipe(fd) };
    *taken = pipe.is_ok();
    let mut launcher = pipe.ok().map(Launcher::new);
    if let Some(launcher) = launcher.as_mut().filter(|_| ignores_supervision) {
        launcher.ignore_supervision();
    }
    Ok(launcher)
}

/// The faults that `node` is to suffer, if the environment tells them. Each node has a seed of its
/// own: with one for all they would lose the same packets.
pub(crate) fn faults(node: NodeId) -> Result<Option<FaultSpec>, Error> {
    let Some(text) = value(FAULTS)? else {
        return Ok(None);
    };
    let mut spec: FaultSpec = text.parse().map_err(|error: FaultSpecError| {
        let problem = format!("{error}; correct it, or unset the variable");
        wrong(FAULTS, &text, problem)
    })?;
    spec.seed = spec.seed.wrapping_add(node.0.into());
    Ok(Some(spec))
}

/// The files of the node's keys, if the environment names some.
pub(crate) fn keys() -> Result<Option<KeySource>, Error> {
    let cluster = file(KEY_FILE)?.map(KeyFile::new);
    let (own, public) = (file(NODE_KEY_FILE)?, file(PUBLIC_KEYS_FILE)?);
    Ok(match (cluster, own, public) {
        (None, None, None) => None,
        (Some(file), None, None) => Some(KeySource::ClusterFile(file)),
        (None, Some(own), Some(public)) => Some(KeySource::NodeFiles(NodeFiles {
            own: KeyFile::of_node(own),
            public: PublicKeysFile::new(public),
        })),
        (None, _, _) => return Err(KeyError::OneFile.into()),
        (Some(_), _, _) => return Err(KeyError::BothKinds.into()),
    })
}

/// The most bytes of receive buffer to ask for, if the environment tells it.
pub(crate) fn rmem_max() -> Result<Option<usize>, Error> {
    Ok(number(RMEM_MAX, "correct it, or unset the variable")?
        .map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)))
}

/// How datagrams reach the network, if the environment tells it.
pub(crate) fn backend() -> Result<Option<BackendKind>, Error> {
    let Some(text) = value(BACKEND)? else {
        return Ok(None);
    };
    let known = text.parse().map_err(|error: UnknownBackend| {
        wrong(
            BACKEND,
            &text,
            format!("{error}: correct it, or unset the variable"),
        )
    })?;
    Ok(Some(known))
}

/// Whether to use shared memory, if the environment tells it.
pub(crate) fn shared_memory() -> Result<Option<bool>, Error> {
    match value(SHARED_MEMORY)?.as_deref() {
        None => Ok(None),
        Some("1") => Ok(Some(true)),
        Some("0") => Ok(Some(false)),
        Some(other) => Err(wrong(SHARED_MEMORY, other, "set it to 1 or 0, or unset it")),
    }
}

/// The socket reserved for this process, if the environment tells it and no node took it yet.
///
/// The variable stays set (changing the environment is not safe beside other threads), but the
/// socket is marked close-on-exec, so that a grandchild finds a closed descriptor and is told so
/// instead of answering for its parent.
pub(crate) fn socket() -> Result<Option<UdpSocket>, Error> {
    static TAKEN: Mutex<bool> = Mutex::new(false);
    let Some(value) = value(FD)? else {
        return Ok(None);
    };
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if *taken {
        // The number may mean nothing by now, or something else.
        return Ok(None);
    }
    let remedy = "no UDP socket is open there: only the process that suci run started has it";
    let fd = value
        .parse::<RawFd>()
        .ok()
        .filter(|&fd| fd > 2 && sys::is_datagram_socket(fd));
    let Some(fd) = fd else {
        return Err(wrong(FD, &value, remedy));
    };
    sys::close_on_exec(fd).map_err(Error::io("marking the inherited socket close-on-exec"))?;
    *taken = true;
    // SAFETY: `fd` is an open datagram socket. The launcher opened it for this process and named it
    // by the variable alone, which is read only here and acted upon only once: nothing else in the
    // process owns it.
    Ok(Some(unsafe { UdpSocket::from_raw_fd(fd) }))
}

/// The socket that systemd opened for this process at one of these addresses, or any if there are
/// none, and that no node took yet.
pub(crate) fn activated(wanted: &[SocketAddr]) -> Result<Option<UdpSocket>, Error> {
    const FIRST: RawFd = 3;
    static TAKEN: Mutex<BTreeSet<RawFd>> = Mutex::new(BTreeSet::new());
    if value(LISTEN_PID)?.and_then(|pid| book::number(&pid)) != Some(std::process::id()) {
        return Ok(None);
    }
    let count = number(LISTEN_FDS, "let systemd set it, or unset the variable")?.unwrap_or(0);
    let end = RawFd::try_from(count).map_or(RawFd::MAX, |count| count.saturating_add(FIRST));
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let open = (FIRST..end).take_while(|fd| taken.contains(fd) || sys::is_open(*fd));
    let fits = |fd: &RawFd| {
        let at = sys::udp_address(*fd);
        at.is_some_and(|at| wanted.is_empty() || wanted.iter().any(|&to| is_same(at, to)))
    };
    let found = open.filter(|fd| !taken.contains(fd)).find(fits);
    let Some(fd) = found else {
        return Ok(None);
    };
    sys::close_on_exec(fd).map_err(Error::io("marking systemd's socket close-on-exec"))?;
    taken.insert(fd);
    // SAFETY: `fd` is an open UDP socket. systemd opened it for this process and named it by the
    // variables alone, which are read only here and acted upon only once for each descriptor:
    // nothing else in the process owns it.
    Ok(Some(unsafe { UdpSocket::from_raw_fd(fd) }))
}

/// Whether a socket at one address serves the other one. For all addresses of a host systemd opens
/// one of IPv6, which serves IPv4, too.
fn is_same(one: SocketAddr, other: SocketAddr) -> bool {
    let all = one.ip().is_unspecified() && other.ip().is_unspecified();
    one.port() == other.port() && (all || one.ip().to_canonical() == other.ip().to_canonical())
}
