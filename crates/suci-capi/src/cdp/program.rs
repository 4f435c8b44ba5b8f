//! The node of this process and the table of its sockets.

use super::socket::CdpSocket;
use crate::error::{BUSY, ERRNO_BIT, FORKED, Failure};
use crate::handle::forks;
use std::ffi::c_int;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use suci::{Node, NodeId, SharedNode};

/// How long `cdp_end` waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sockets of a process.
const MOST_SOCKETS: usize = 1 << 20;

/// The program allows addresses beyond loopback without a key.
static INSECURE_NETWORK: AtomicBool = AtomicBool::new(false);

struct SocketProgram {
    node: SharedNode,
    sockets: Vec<Option<Arc<CdpSocket>>>,
    /// Free places below the end of `sockets`.
    free: Vec<usize>,
}

/// The node of this process, once it is opened.
static PROGRAM: Mutex<Option<SocketProgram>> = Mutex::new(None);

/// No node is open.
const NOT_OPEN: u32 = u32::MAX;

/// The number of forks before the node was opened: see `handle::forks`.
static FORKS_BEFORE: AtomicU32 = AtomicU32::new(NOT_OPEN);

fn lock() -> Result<MutexGuard<'static, Option<SocketProgram>>, Failure> {
    // First of all: in a child a thread that does not exist there may hold the lock.
    let before = FORKS_BEFORE.load(Ordering::Relaxed);
    if before != NOT_OPEN && before != forks() {
        // A thread that does not exist here may have had the lock.
        if let Ok(program) = PROGRAM.try_lock()
            && let Some(program) = &*program
        {
            program.node.abandon();
        }
        let text = "this process was forked from the one that opened the node";
        return Err(Failure::new(FORKED, text));
    }
    // No code between lock and unlock leaves it half changed.
    Ok(PROGRAM.lock().unwrap_or_else(PoisonError::into_inner))
}

fn not_open() -> Failure {
    let text = "the node is not open: call cdp_init() first";
    Failure::new(ERRNO_BIT | libc::EBADF, text)
}

fn with<T>(call: impl FnOnce(&mut SocketProgram) -> Result<T, Failure>) -> Result<T, Failure> {
    call(lock()?.as_mut().ok_or_else(not_open)?)
}

/// Returns why the node is open, if it is.
fn is_open() -> Failure {
    let text = "the node is open: call cdp_init() once, or cdp_end() before";
    Failure::new(BUSY, text)
}

pub(super) fn allow_insecure_network() -> Result<(), Failure> {
    if lock()?.is_some() {
        return Err(is_open());
    }
    INSECURE_NETWORK.store(true, Ordering::Relaxed);
    Ok(())
}

pub(super) fn initialize(node: c_int, listen: Option<&str>, forward: bool) -> Result<(), Failure> {
    let mut program = lock()?;
    if program.is_some() {
        return Err(is_open());
    }
    let mut builder = Node::builder().forward(forward);
    if INSECURE_NETWORK.load(Ordering::Relaxed) {
        builder = builder.allow_insecure_network();
    }
    match node {
        -1 => {}
        0.. => builder = builder.id(NodeId(node.cast_unsigned())),
        _ => {
            let text = format!("node is {node}: pass an ID, or -1 for that of SUCI_ID");
            return Err(Failure::argument(text));
        }
    }
    if let Some(listen) = listen {
        builder = builder.listen(parsed(listen, "ifv[0]")?);
    }
    // From now on forks are counted: opening can take seconds, and a child that is forked meanwhile
    // must not wait for the lock.
    FORKS_BEFORE.store(forks(), Ordering::Relaxed);
    let opened = builder.open_threads(1);
    *program = Some(SocketProgram {
        node: opened.inspect_err(|_| FORKS_BEFORE.store(NOT_OPEN, Ordering::Relaxed))?,
        sockets: Vec::new(),
        free: Vec::new(),
    });
    Ok(())
}

fn parsed(address: &str, name: &str) -> Result<SocketAddr, Failure> {
    address.parse().map_err(|_| {
        let text = format!("{name} is {address:?}: pass an address and a port, as 127.0.0.1:7000");
        Failure::argument(text)
    })
}

pub(super) fn end() -> Result<(), Failure> {
    let mut open = lock()?;
    let program = open.take().ok_or_else(not_open)?;
    FORKS_BEFORE.store(NOT_OPEN, Ordering::Relaxed);
    drop(open);
    // Closed before the node, so that peers get what was sent.
    drop(program.sockets);
    Ok(program.node.close(PATIENCE)?)
}

pub(super) fn node() -> Result<SharedNode, Failure> {
    with(|program| Ok(program.node.clone()))
}

pub(super) fn add_node(node: NodeId, address: &str) -> Result<(), Failure> {
    let address = parsed(address, "address")?;
    let here = self::node()?;
    Ok(here.add_peer(node, address)?)
}

pub(super) fn address() -> Result<SocketAddr, Failure> {
    with(|program| Ok(program.node.local_addr()))
}

// ---- sockets

pub(super) fn socket() -> Result<c_int, Failure> {
    insert(CdpSocket::new())
}

pub(super) fn insert(socket: CdpSocket) -> Result<c_int, Failure> {
    with(|program| {
        let SocketProgram { sockets, free, .. } = program;
        let place = match free.pop() {
            Some(place) => place,
            None if sockets.len() < MOST_SOCKETS => {
                sockets.push(None);
                sockets.len() - 1
            }
            None => {
                let text = "the process has a million sockets: close some of them";
                return Err(Failure::new(ERRNO_BIT | libc::EMFILE, text));
            }
        };
        if let Some(free) = sockets.get_mut(place) {
            *free = Some(Arc::new(socket));
        }
        // Below `MOST_SOCKETS`.
        Ok(place as c_int)
    })
}

fn no_socket(s: c_int) -> Failure {
    let text = format!("s is {s}: there is no such socket");
    Failure::new(ERRNO_BIT | libc::EBADF, text)
}

pub(super) fn find(s: c_int) -> Result<Arc<CdpSocket>, Failure> {
    with(|program| {
        let place = usize::try_from(s).ok();
        let socket = place.and_then(|place| program.sockets.get(place)?.clone());
        socket.ok_or_else(|| no_socket(s))
    })
}

pub(super) fn remove(s: c_int) -> Result<(), Failure> {
    let removed = with(|program| {
        let place = usize::try_from(s).map_err(|_| no_socket(s))?;
        let socket = program.sockets.get_mut(place).and_then(Option::take);
        let socket = socket.ok_or_else(|| no_socket(s))?;
        program.free.push(place);
        Ok(socket)
    })?;
    removed.close();
    Ok(())
}
