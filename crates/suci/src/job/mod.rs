//! The launcher that started this process: which one it is, which of its processes this one is, and
//! how the processes learn each other's addresses and keys.
//!
//! Recognition reads variables only, so that it can be asked anywhere. Addresses and keys are
//! exchanged once for each process, when its first node without an ID of its own is opened: a
//! launcher's barrier cannot be repeated. docs/launchers.md has the order and the reasons.

mod card;
mod host;
mod kubernetes;
mod pmi;
mod pmix;
mod recognise;
mod slurm;

pub(crate) use recognise::{LauncherKind, traces};

use crate::book::AddressBook;
use crate::env;
use crate::error::{Error, bind_error};
use crate::reach::check_listen;
use crate::security::{KeySource, Keyring, NodeKey, PublicKeys};
use card::Card;
use recognise::{FoundLauncher, Kind};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use suci_proto::types::NodeId;

/// How long a process waits for its launcher unless [`env::LAUNCH_TIMEOUT`] says otherwise: the
/// others may start minutes later, on hosts that load the program from a slow disk.
const DEFAULT_LIMIT: Duration = Duration::from_secs(120);

/// Why a launcher is of no use: what was found, what is missing, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) launcher: LauncherKind,
    pub(crate) problem: String,
}

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Self {
        Self::Launcher {
            launcher: trouble.launcher.name(),
            problem: trouble.problem,
        }
    }
}

/// How far the process has come with its launcher.
enum State {
    /// Nothing was said.
    Silent,
    /// A connection that told the rank.
    Connected(pmi::Pmi),
    /// The others' addresses and keys are known.
    Joined(Box<Joined>),
    /// The launcher failed, for good.
    Failed(Trouble),
}

/// The result of the first exchange.
#[derive(Clone)]
struct Joined {
    rank_and_size: (u32, u32),
    /// Where this process said that it is.
    local: SocketAddr,
    book: AddressBook,
    keys: Option<(NodeKey, PublicKeys)>,
}

/// A node's place under its launcher.
pub(crate) struct Place {
    /// Bound to the address at which the others know this process.
    pub(crate) socket: UdpSocket,
    /// All processes.
    pub(crate) book: AddressBook,
    /// Keys that the launcher carried, if the node has none.
    pub(crate) keys: Option<KeySource>,
}

static STATE: Mutex<State> = Mutex::new(State::Silent);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The launcher that the environment shows; nothing if it shows none that is complete.
fn found() -> Result<Option<&'static FoundLauncher>, Error> {
    static FOUND: OnceLock<Result<Option<FoundLauncher>, Trouble>> = OnceLock::new();
    let found = FOUND.get_or_init(|| recognise::recognise(&recognise::Surroundings::real()));
    match found {
        Ok(found) => Ok(found.as_ref()),
        Err(trouble) => Err(trouble.clone().into()),
    }
}

/// This process's number among those of its launcher. Blocks, with a limit, if the launcher must be
/// asked.
pub(crate) fn rank() -> Result<Option<NodeId>, Error> {
    let Some(found) = found()? else {
        return Ok(None);
    };
    Ok(Some(NodeId(match &found.kind {
        Kind::PmiPort(port) => by_port(port)?.0,
        _ => found.rank,
    })))
}

/// The number of processes of the launcher. Blocks, with a limit, if the launcher must be asked.
pub(crate) fn size() -> Result<Option<u32>, Error> {
    let Some(found) = found()? else {
        return Ok(None);
    };
    Ok(Some(match (&found.kind, found.size) {
        (Kind::PmiPort(port), _) => by_port(port)?.1,
        (_, Some(size)) => size,
        (_, None) => by_server(found.rank)?,
    }))
}

/// Asks the server of PMIx, which alone knows the size, if no exchange told it already.
fn by_server(rank: u32) -> Result<u32, Error> {
    static KNOWN: Mutex<Option<u32>> = Mutex::new(None);
    if let State::Joined(joined) = &*state() {
        return Ok(joined.rank_and_size.1);
    }
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(size) = *known {
        return Ok(size);
    }
    let size = pmix::size(rank, limit()?);
    let size = size.map_err(|problem| trouble(LauncherKind::Pmix, problem))?;
    Ok(*known.insert(size))
}

fn trouble(launcher: LauncherKind, problem: String) -> Trouble {
    Trouble { launcher, problem }
}

/// How long to wait for the launcher.
pub(crate) fn limit() -> Result<Duration, Error> {
    let seconds = env::launch_timeout()?;
    Ok(seconds.map_or(DEFAULT_LIMIT, |it| Duration::from_secs(it.into())))
}

/// Connects to the process manager's port, which alone knows rank and size.
fn by_port(port: &pmi::Port) -> Result<(u32, u32), Error> {
    let until = Instant::now() + limit()?;
    let mut state = state();
    match &*state {
        State::Silent => {}
        State::Connected(pmi) => return Ok((pmi.rank, pmi.size)),
        State::Joined(joined) => return Ok(joined.rank_and_size),
        State::Failed(trouble) => return Err(trouble.clone().into()),
    }
    match pmi::Pmi::connect(port, until) {
        Ok(pmi) => {
            let told = (pmi.rank, pmi.size);
            *state = State::Connected(pmi);
            Ok(told)
        }
        Err(problem) => {
            let trouble = trouble(LauncherKind::Pmi, problem);
            *state = State::Failed(trouble.clone());
            Err(trouble.into())
        }
    }
}

/// Takes this process's place among those of its launcher: binds its socket, and learns where the
/// others are, and their keys unless the node `is_safe` without. Returns nothing if no launcher is
/// there. Blocks until all processes came, at most for [`limit`].
pub(crate) fn join(listen: Option<SocketAddr>, is_safe: bool) -> Result<Option<Place>, Error> {
    let Some(found) = found()? else {
        return Ok(None);
    };
    let Some(rank) = rank()? else {
        return Ok(None);
    };
    // The exchange tells it: a session with the server less.
    let size = match found.kind {
        Kind::Pmix => 0,
        _ => size()?.unwrap_or(0),
    };
    let limit = limit()?;
    let mut state = state();
    match &*state {
        State::Failed(trouble) => return Err(trouble.clone().into()),
        State::Joined(joined) => return joined.again(listen).map(Some),
        State::Silent | State::Connected(_) => {}
    }
    let own = Own {
        launcher: found.launcher(),
        rank,
        size,
        listen,
        is_safe,
        until: Instant::now() + limit,
    };
    let before = std::mem::replace(&mut *state, State::Silent);
    let done = match &found.kind {
        Kind::Slurm(step) => own.join_step(step),
        Kind::Pods(pods) => own.join_pods(pods),
        Kind::Ranks(remedy) => Err(own.trouble((*remedy).to_owned()).into()),
        Kind::Pmix => own.exchange(|card| pmix::exchange(rank.0, card, limit)),
        Kind::PmiFd(fd) => own.exchange(|card| {
            let pmi = pmi::Pmi::inherit(*fd, rank.0, size, own.until)?;
            pmi.exchange(card, own.until)
        }),
        Kind::PmiPort(_) => own.exchange(|card| match before {
            State::Connected(pmi) => pmi.exchange(card, own.until),
            _ => Err("the connection is gone: start the program again".to_owned()),
        }),
    };
    match done {
        Ok((socket, joined)) => {
            let place = joined.place(socket);
            *state = State::Joined(Box::new(joined));
            Ok(Some(place))
        }
        Err(error) => {
            // A second try would wait at a barrier that the others have passed.
            if found.exchanges() {
                let problem = match &error {
                    Error::Launcher { problem, .. } => problem.clone(),
                    other => other.to_string(),
                };
                *state = State::Failed(own.trouble(problem));
            }
            Err(error)
        }
    }
}

impl Joined {
    fn place(&self, socket: UdpSocket) -> Place {
        let keys = self.keys.clone();
        Place {
            socket,
            book: self.book.clone(),
            keys: keys.map(|(own, public)| KeySource::Node(Keyring::from(own), public)),
        }
    }

    /// A later node of the process, at the same address.
    fn again(&self, listen: Option<SocketAddr>) -> Result<Place, Error> {
        let at = self.local;
        let fits =
            |wanted: &SocketAddr| *wanted == at || (wanted.ip() == at.ip() && wanted.port() == 0);
        if let Some(other) = listen.filter(|wanted| !fits(wanted)) {
            return Err(Error::Bind {
                address: other,
                source: io::Error::other(format!(
                    "the other processes know this one at {at}: listen there, or at no address \
                     of your own"
                )),
            });
        }
        let socket = UdpSocket::bind(at).map_err(|error| bind_error(at, error))?;
        Ok(self.place(socket))
    }
}

/// This process, about to take its place.
struct Own {
    launcher: LauncherKind,
    rank: NodeId,
    /// 0 if the exchange tells it.
    size: u32,
    listen: Option<SocketAddr>,
    is_safe: bool,
    until: Instant,
}

type Taken = Result<(UdpSocket, Joined), Error>;

impl Own {
    fn trouble(&self, problem: String) -> Trouble {
        trouble(self.launcher, problem)
    }

    /// Puts this process's card, and gets those of all. `exchange` returns them by rank.
    fn exchange(&self, exchange: impl FnOnce(&str) -> Result<Vec<String>, String>) -> Taken {
        let wanted = self.listen.unwrap_or_else(|| host::anywhere(0));
        let (socket, local) = bind(wanted, |error| bind_error(wanted, error))?;
        let key = match self.is_safe {
            true => None,
            false => Some(NodeKey::generate().map_err(Error::io("making a key for this node"))?),
        };
        let here = host::OwnHost::this().map_err(Error::io("reading this host's addresses"))?;
        let card = Card::new(&here, local, key.as_ref().map(NodeKey::public));
        let told = exchange(&card.to_string()).map_err(|problem| self.trouble(problem))?;
        let cards = Card::read_all(&told).map_err(|problem| self.trouble(problem))?;
        let book = card::book(&here, &cards, (self.rank, local));
        let book = book.map_err(|problem| self.trouble(problem))?;
        let public = card::public_keys(&cards, key.is_some());
        let public = public.map_err(|problem| self.trouble(problem))?;
        Ok((socket, self.joined(local, book, key.zip(public))))
    }

    /// Refuses to listen beyond loopback without keys, where the processes cannot exchange some.
    fn check_keys(&self) -> Result<(), Error> {
        let stays_here = self.listen.is_some_and(|at| at.ip().is_loopback());
        match self.is_safe || stays_here {
            true => Ok(()),
            false => Err(self.trouble(self.launcher.no_key()).into()),
        }
    }

    fn join_step(&self, step: &slurm::JobStep) -> Taken {
        self.check_keys()?;
        let book = step
            .book(self.size)
            .map_err(|problem| self.trouble(problem))?;
        let port = step.port(self.rank.0, self.size);
        let port = port.map_err(|problem| self.trouble(problem))?;
        self.join_named(
            port,
            AddressBook::parse(&book, "the nodes of the job step")?,
        )
    }

    fn join_pods(&self, pods: &kubernetes::Pods) -> Taken {
        self.check_keys()?;
        pods.await_names(self.size, self.until)
            .map_err(|problem| self.trouble(problem))?;
        let book = AddressBook::parse(&pods.book(self.size), "the pods")?;
        self.join_named(pods.port, book)
    }

    /// Binds `port` at all addresses: the host's own name may stand for loopback alone.
    fn join_named(&self, port: u16, book: AddressBook) -> Taken {
        let wanted = self.listen.unwrap_or_else(|| host::anywhere(port));
        let (socket, local) = bind(wanted, |error| match error.kind() {
            io::ErrorKind::AddrInUse => self
                .trouble(format!(
                    "UDP port {port} of this host is taken: set {} to another number on all \
                     processes (process r listens at {})",
                    env::PORT,
                    self.launcher.port_rule()
                ))
                .into(),
            _ => bind_error(wanted, error),
        })?;
        Ok((socket, self.joined(local, book, None)))
    }

    fn joined(
        &self,
        local: SocketAddr,
        book: AddressBook,
        keys: Option<(NodeKey, PublicKeys)>,
    ) -> Joined {
        let size = u32::try_from(book.len()).unwrap_or(u32::MAX);
        Joined {
            rank_and_size: (self.rank.0, size),
            local,
            book,
            keys,
        }
    }
}

fn bind(
    wanted: SocketAddr,
    explain: impl FnOnce(io::Error) -> Error,
) -> Result<(UdpSocket, SocketAddr), Error> {
    check_listen(wanted)?;
    let socket = UdpSocket::bind(wanted).map_err(explain)?;
    let local = socket
        .local_addr()
        .map_err(Error::io("the address of a socket"))?;
    Ok((socket, local))
}
