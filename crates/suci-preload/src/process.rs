//! The node of this process: opened when it is needed first, closed at the end. Children of a fork
//! leave it alone until the parent has ended. Then one that has listeners takes it over. The start
//! prepares for forks.

use crate::address::of_ip;
use crate::reactor::Reactor;
use crate::settings::{KeyFiles, PLAIN, Settings};
use crate::succession::{self, Parent};
use crate::table::{self, Table};
use crate::{direct, door, kernel, next, settings};
use rustix::net::Shutdown;
use std::cell::{Cell, RefCell};
use std::ffi::c_int;
use std::fmt::Display;
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use suci::Node;
use suci::sockets::Attendance;

/// How long the end of the process waits for bytes that the program wrote, in each of two steps: to
/// the node, and from the node to its peers.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often it looks.
const LOOK: Duration = Duration::from_millis(1);

/// The node of this process.
enum State {
    Unopened,
    Open(Arc<Reactor>),
    /// It could not be opened, or the process ends.
    Unusable,
}

static STATE: Mutex<State> = Mutex::new(State::Unopened);

/// This process has the node.
static HAS_NODE: AtomicBool = AtomicBool::new(false);

/// The user was told that another process has the node.
static WAS_TOLD: AtomicBool = AtomicBool::new(false);

/// All locks that calls of the program take before they know whether this is a child, and the
/// process that took them.
type Locks = (
    MutexGuard<'static, ()>,
    MutexGuard<'static, State>,
    MutexGuard<'static, Table>,
    Parent,
);

// Functions that run at the end of a thread or of the process use these, so they have no
// destructors.
thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };

    /// The thread sleeps in a call of this library, and holds no lock.
    static IS_ASLEEP: Cell<bool> = const { Cell::new(false) };

    /// The locks, while this thread forks.
    static HELD: RefCell<ManuallyDrop<Option<Locks>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
}

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if this thread is opening the node: its calls are not the program's.
pub(crate) fn is_inside() -> bool {
    IS_INSIDE.get()
}

/// Does something whose calls are not the program's.
pub(crate) fn inside<T>(work: impl FnOnce() -> T) -> T {
    let was_inside = IS_INSIDE.replace(true);
    let result = work();
    IS_INSIDE.set(was_inside);
    result
}

/// Sets whether the calls of this thread are not the program's.
pub(crate) fn set_inside(is_inside: bool) {
    IS_INSIDE.set(is_inside);
}

/// Sleeps in a call of this library.
pub(crate) fn asleep<T>(sleep: impl FnOnce() -> T) -> T {
    IS_ASLEEP.set(true);
    let result = sleep();
    IS_ASLEEP.set(false);
    result
}

/// Ends the sleep of the reactor, if there is one.
pub(crate) fn wake_reactor() {
    if let State::Open(reactor) = &*lock() {
        reactor.wake();
    }
}

/// Has the call look why that waits for the node's input, if one does.
pub(crate) fn rouse_waiting() {
    let reactor = match &*lock() {
        State::Open(reactor) => Arc::clone(reactor),
        State::Unopened | State::Unusable => return,
    };
    inside(|| {
        if let Some(attendance) = Attendance::begin(&reactor.node) {
            attendance.rouse();
        }
    });
}

/// Returns true if this process has the node, and so knows all connections with other nodes.
pub(crate) fn has_node() -> bool {
    HAS_NODE.load(Ordering::Acquire)
}

/// Returns the connections of the node, which is opened at the first call. Returns nothing if that
/// failed, or if another process has it, which the user is told.
pub(crate) fn reactor(settings: &'static Settings) -> Option<Arc<Reactor>> {
    let mut state = lock();
    if let State::Unopened = *state {
        if let Err(holder) = succession::take() {
            if !WAS_TOLD.swap(true, Ordering::AcqRel) {
                tell_unopened(settings, holder);
            }
            return None;
        }
        *state = match inside(|| open(settings)) {
            Ok(reactor) => State::Open(reactor),
            Err(problem) => {
                tell_unopened(settings, problem);
                State::Unusable
            }
        };
        HAS_NODE.store(matches!(*state, State::Open(_)), Ordering::Release);
    }
    match &*state {
        State::Open(reactor) => Some(Arc::clone(reactor)),
        State::Unopened | State::Unusable => None,
    }
}

fn tell_unopened(settings: &Settings, problem: impl Display) {
    crate::tell(format_args!(
        "node {} cannot be opened: {problem}. Connections to other nodes fail; listeners serve TCP \
         only",
        settings.own
    ));
}

fn open(settings: &'static Settings) -> Result<Arc<Reactor>, String> {
    let mut builder = Node::builder().id(settings.own).book(settings.book.clone());
    if settings.allows_plain {
        builder = builder.allow_insecure_network();
    }
    builder = match settings.keys.clone()? {
        KeyFiles::Unnamed => builder,
        KeyFiles::Cluster(file) => builder.key_file(file),
        KeyFiles::Node(own, public) => builder.node_key_files(own, public),
    };
    without_signals(|| {
        let node = builder.open_threads(1).map_err(|error| match error {
            suci::Error::PlainOnNetwork { .. } => format!("{error}, here by {PLAIN}=1"),
            other => other.to_string(),
        })?;
        Reactor::start(node, settings).map_err(|error| error.to_string())
    })
}

/// Blocks signals for the threads that `work` starts: handlers of the program run on its threads.
fn without_signals<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: a set is numbers; the calls write it and read it while it lives. `before` is the mask
    // of this thread.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before);
        let result = work();
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        result
    }
}

// ---- the start

/// Runs when the library is loaded, before the program has threads.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = start;

extern "C" fn start() {
    // A thread that looked for the functions later could leave the child of a fork without them.
    next::next();
    settings::note_environment();
    watch_forks();
}

// ---- forks

/// Keeps the locks during forks, so that no child finds them taken by a thread that it lacks.
fn watch_forks() {
    // SAFETY: the functions stay where they are: nothing unloads this library.
    let done = unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
    if done != 0 {
        crate::tell("no memory to watch forks: programs that fork may hang");
    }
}

unsafe extern "C" fn before_fork() {
    HELD.set(ManuallyDrop::new(Some((
        settings::lock(),
        lock(),
        table::lock(),
        Parent::current(),
    ))));
}

/// Takes the locks that [`before_fork`] left.
fn take_held() -> Option<Locks> {
    HELD.with_borrow_mut(|held| held.take())
}

unsafe extern "C" fn in_parent() {
    drop(take_held());
}

/// The child has its sockets; the bytes go on in the parent. This library's ends are closed, so
/// that connections end when the parent says so.
unsafe extern "C" fn in_child() {
    let Some((reading, mut state, mut table, parent)) = take_held() else {
        return;
    };
    HAS_NODE.store(false, Ordering::Release);
    direct::begin_anew();
    IS_INSIDE.set(false);
    if let State::Open(reactor) = std::mem::replace(&mut *state, State::Unopened) {
        let own = reactor.descriptors();
        for fd in own_descriptors(&table).into_iter().chain(own) {
            close_copy(fd);
        }
        let all = kernel::descriptors().into_iter();
        table.inherit(
            &all.filter_map(|fd| kernel::with(fd, peer).flatten())
                .collect(),
        );
        // In a child a handle closes the node's descriptors.
        drop(reactor.node.clone());
        // Its other threads are not here; what they worked on is not to be touched.
        std::mem::forget(reactor);
    }
    drop((reading, state, table));
    if succession::is_known() && !door::listeners().is_empty() {
        // The child has one thread, and this one waits for no lock that it holds.
        let heir = thread::Builder::new().name("suci-preload".to_owned());
        if without_signals(|| heir.spawn(move || take_over(parent))).is_err() {
            crate::tell("no thread waits for the end of the parent: its node ends with it");
        }
    }
}

/// Waits until this process may have the node, and opens it for the listeners that it has.
fn take_over(parent: Parent) {
    if let Err(error) = succession::inherit(parent) {
        crate::tell(format_args!(
            "the program closed a descriptor of this library ({error}), so its listeners serve TCP \
             only; it must close only its own"
        ));
        return;
    }
    let listeners = door::listeners();
    if listeners.is_empty() {
        let state = lock();
        // A call of the program may have opened it.
        if let State::Unopened = *state {
            succession::release();
        }
    }
    for (fd, backlog) in listeners {
        door::listen(fd, backlog);
    }
}

/// Returns the descriptors of this library's ends.
fn own_descriptors(table: &Table) -> Vec<c_int> {
    let is_own = |fd: &c_int| {
        let local = kernel::with(*fd, |fd| kernel::is_tcp(fd).then(|| kernel::local(fd)));
        let local = local.flatten().and_then(Result::ok);
        local.is_some_and(|local| table.has(local))
    };
    let all = kernel::descriptors().into_iter();
    all.filter(is_own).collect()
}

/// Returns the peer of a TCP socket.
fn peer(socket: BorrowedFd<'_>) -> Option<SocketAddr> {
    let peer = kernel::is_tcp(socket).then(|| rustix::net::getpeername(socket).ok());
    peer.flatten().flatten().and_then(of_ip)
}

fn close_copy(fd: c_int) {
    use std::os::fd::FromRawFd;
    // SAFETY: only the connections of the parent own it, which the child never touches again.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
}

// ---- the end

/// Runs when the process exits, after the functions that the program registered.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = close;

extern "C" fn close() {
    if is_inside() && !IS_ASLEEP.get() {
        // A handler of a signal ended the process within a call of this library, whose locks nobody
        // gives back.
        return;
    }
    let State::Open(reactor) = std::mem::replace(&mut *lock(), State::Unusable) else {
        return;
    };
    // A thread of its own, because this one's local variables are gone.
    let thread = without_signals(|| std::thread::Builder::new().spawn(move || deliver(&reactor)));
    if let Ok(thread) = thread {
        // A panic was reported, and nothing is left to do.
        let _ = thread.join();
    }
}

/// Delivers what the program wrote, and closes the node. The kernel would do so for TCP after the
/// end of the process.
fn deliver(reactor: &Reactor) {
    shut_down_all();
    let end = Instant::now() + PATIENCE;
    while !reactor.is_drained() && Instant::now() < end {
        std::thread::sleep(LOOK);
    }
    reactor.close_all();
    // Peers that are gone miss something, as they would with TCP.
    let _ = reactor.node.close(PATIENCE);
}

/// Ends the program's direction of all connections with other nodes.
fn shut_down_all() {
    for fd in kernel::descriptors() {
        kernel::with(fd, |socket| {
            if peer(socket).is_some_and(|peer| table::lock().ends(peer).is_some()) {
                // It fails if the connection is over.
                let _ = rustix::net::shutdown(socket, Shutdown::Write);
            }
        });
    }
}
