//! The way past the kernel: connections by the descriptors of the program, and which of them keep
//! what arrived for a call of the program.
//!
//! Bytes that arrive are *kept* if a thread of the program received them, in a call of this library
//! that is going to see them or be followed by one that does. In all other cases they are written
//! to the program's socket of the kernel at once. Bytes that no call took within a few milliseconds
//! are written there, too. So a program that reads or waits in ways that this library does not know
//! misses nothing.
//!
//! Bytes keep their order. A call takes kept bytes only if the program has read all bytes that went
//! through the kernel, as far as this library saw; and it sends past the kernel only if nothing
//! that the program wrote is still in the kernel.

use crate::interrupt::{self, Uncancelled};
use crate::kernel::{self, ProgramSocket};
use crate::link::{Link, Passed};
use crate::process;
use crate::task;
use crate::waits::{self, Registrations};
use libc::{c_int, iovec};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use suci::sockets::Attendance;

/// Descriptors from this number on always go through the kernel.
const MOST_DESCRIPTORS: usize = 1 << 16;

/// One bit for each descriptor that may be one of a connection. Most calls of a program are for
/// others, and handlers of signals make some: they read this and no more.
static MARKS: [AtomicU64; MOST_DESCRIPTORS / 64] =
    [const { AtomicU64::new(0) }; MOST_DESCRIPTORS / 64];

/// Calls that wait in the kernel for what a connection brings.
static KERNEL_WAITS: AtomicUsize = AtomicUsize::new(0);

/// The state of this process; null until it is used. The child of a fork begins anew, since a
/// thread of its parent may have locked it.
static STATE: AtomicPtr<DirectState> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    /// This thread runs a call that serves the node.
    static SERVES: Cell<bool> = const { Cell::new(false) };

    /// This thread has locked the connections by descriptor. A call that finds this is one of a
    /// signal's handler, and must not wait for the thread.
    static LOOKS_UP: Cell<bool> = const { Cell::new(false) };
}

/// Connections, and the cookies of the program's sockets, by their descriptors.
type ByDescriptor = BTreeMap<c_int, (u64, Arc<Link>)>;

#[derive(Debug, Default)]
struct DirectState {
    by_descriptor: Mutex<ByDescriptor>,
    /// Clients that the program has not accepted yet, by the address of this library's end.
    clients: Mutex<BTreeMap<SocketAddr, Arc<Link>>>,
    /// The connections that keep something.
    kept: Mutex<Vec<Arc<Link>>>,
    /// The reactor looks at them every millisecond.
    is_watched: AtomicBool,
    /// The program's epolls of connections.
    epolls: Mutex<BTreeMap<c_int, Registrations>>,
}

fn state() -> &'static DirectState {
    let found = STATE.load(Ordering::Acquire);
    if !found.is_null() {
        // SAFETY: not null, so it was leaked below.
        return unsafe { &*found };
    }
    let new = Box::into_raw(Box::<DirectState>::default());
    match STATE.compare_exchange(
        std::ptr::null_mut(),
        new,
        Ordering::AcqRel,
        Ordering::Acquire,
    ) {
        // SAFETY: it was leaked just now.
        Ok(_) => unsafe { &*new },
        Err(found) => {
            // SAFETY: it was leaked just now, and no other thread has seen it.
            drop(unsafe { Box::from_raw(new) });
            // SAFETY: another thread leaked it.
            unsafe { &*found }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets all connections, in the child of a fork.
pub(crate) fn begin_anew() {
    STATE.store(std::ptr::null_mut(), Ordering::Release);
    KERNEL_WAITS.store(0, Ordering::Relaxed);
    for marks in &MARKS {
        marks.store(0, Ordering::Relaxed);
    }
}

/// Locks the program's epolls of connections.
pub(crate) fn epolls() -> MutexGuard<'static, BTreeMap<c_int, Registrations>> {
    lock(&state().epolls)
}

/// Has the I/O thread of a connection's node serve it.
pub(crate) fn hand_back(link: &Link) {
    interrupt::uncancelled(|| {
        if let Some(attendance) = Attendance::begin(link.node()) {
            attendance.hand_back();
        }
    });
}

fn mark(fd: c_int) -> Option<(&'static AtomicU64, u64)> {
    let at = usize::try_from(fd).ok()?;
    Some((MARKS.get(at / 64)?, 1 << (at % 64)))
}

/// Returns true if a descriptor may be one of a connection.
pub(crate) fn is_marked(fd: c_int) -> bool {
    mark(fd).is_some_and(|(marks, bit)| marks.load(Ordering::Relaxed) & bit != 0)
}

/// Enters the connection of a socket of the program.
pub(crate) fn enter(socket: ProgramSocket, link: &Arc<Link>) {
    let Some((marks, bit)) = mark(socket.fd) else {
        return;
    };
    let entry = (socket.cookie, Arc::clone(link));
    let before = by_descriptor(|known| known.insert(socket.fd, entry));
    drop(before);
    marks.fetch_or(bit, Ordering::Relaxed);
}

/// Enters a client that `make` makes. The program may accept it before `make` returns; then its
/// call waits for this one.
pub(crate) fn expect(
    own_end: SocketAddr,
    make: impl FnOnce() -> io::Result<Arc<Link>>,
) -> io::Result<Arc<Link>> {
    let mut clients = lock(&state().clients);
    let link = make()?;
    let before = clients.insert(own_end, Arc::clone(&link));
    drop(clients);
    drop(before);
    Ok(link)
}

/// The program accepted a client of another node as `fd`, whose peer, to the kernel, is at
/// `own_end`.
pub(crate) fn accepted(fd: c_int, own_end: SocketAddr) {
    let link = lock(&state().clients).remove(&own_end);
    if let Some(link) = link
        && let Some(Ok(socket)) = kernel::with(fd, ProgramSocket::new)
    {
        enter(socket, &link);
    }
}

/// Forgets a connection that is over. Its descriptor is known until another one has its number.
pub(crate) fn forget(link: &Arc<Link>) {
    lock(&state().clients).retain(|_, it| !Arc::ptr_eq(it, link));
    waits::forget(link);
}

/// Uses the connections by descriptor.
fn by_descriptor<T>(work: impl FnOnce(&mut ByDescriptor) -> T) -> T {
    LOOKS_UP.set(true);
    let result = work(&mut lock(&state().by_descriptor));
    LOOKS_UP.set(false);
    result
}

/// Returns the connection of a descriptor of the program; nothing in a call of this library. It
/// frees no memory: a signal's handler may use a number that was one of a connection.
pub(crate) fn link(fd: c_int) -> Option<Arc<Link>> {
    if !is_marked(fd) || process::is_inside() || LOOKS_UP.get() {
        return None;
    }
    let cookie = by_descriptor(|known| Some(known.get(&fd)?.0))?;
    // The program may have closed the descriptor, and got the number again for another file.
    let is_open = ProgramSocket { fd, cookie }.is_open();
    by_descriptor(|known| {
        let (_, link) = known.get(&fd).filter(|(it, _)| *it == cookie)?;
        if !is_open && let Some((marks, bit)) = mark(fd) {
            marks.fetch_and(!bit, Ordering::Relaxed);
        }
        is_open.then(|| Arc::clone(link))
    })
}

// ---- calls

/// A call of the program that serves the node. Calls of this library within are not the program's.
#[derive(Debug)]
pub(crate) struct DirectCall<'a> {
    attendance: Option<Attendance<'a>>,
    /// The last field: the thread may end when it is dropped.
    uncancelled: Uncancelled,
}

impl<'a> DirectCall<'a> {
    /// Begins a call for a connection. Returns nothing if the node cannot be served by it.
    pub(crate) fn begin(link: &'a Link) -> Option<Self> {
        let uncancelled = Uncancelled::begin();
        let attendance = Attendance::begin(link.node())?;
        process::set_inside(true);
        SERVES.set(true);
        Some(Self {
            attendance: Some(attendance),
            uncancelled,
        })
    }

    /// Returns true if its thread may be cancelled. A call that waits goes on in the kernel then.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.uncancelled.is_in_doubt()
    }

    /// Goes on past the kernel, unless its thread may be cancelled.
    pub(crate) fn go_on(&self, pass: impl FnOnce() -> Passed) -> Passed {
        match self.is_in_doubt() {
            true => Passed::Kernel,
            false => pass(),
        }
    }

    pub(crate) fn attendance(&self) -> Option<&Attendance<'a>> {
        self.attendance.as_ref()
    }
}

impl Drop for DirectCall<'_> {
    fn drop(&mut self) {
        if let Some(attendance) = &self.attendance
            && KERNEL_WAITS.load(Ordering::SeqCst) > 0
        {
            attendance.hand_back();
        }
        // The thread sends what the call left.
        drop(self.attendance.take());
        watch_kept();
        SERVES.set(false);
        process::set_inside(false);
    }
}

/// A call that waits in the kernel: meanwhile nothing is kept.
#[derive(Debug)]
pub(crate) struct KernelWait(());

impl KernelWait {
    /// Begins it. Writes what is kept to the kernel.
    pub(crate) fn begin() -> Self {
        KERNEL_WAITS.fetch_add(1, Ordering::SeqCst);
        let kept = std::mem::take(&mut *lock(&state().kept));
        for link in kept {
            link.keeping.unlist();
            task::run(link);
        }
        Self(())
    }
}

impl Drop for KernelWait {
    fn drop(&mut self) {
        KERNEL_WAITS.fetch_sub(1, Ordering::SeqCst);
    }
}

// ---- what is kept

/// Whether a connection keeps what arrives, and what it keeps.
#[derive(Debug)]
pub(crate) struct Keeping {
    /// Calls that wait for the connection.
    waits: AtomicUsize,
    /// The program has registered it with an epoll of which this library knows.
    is_registered: AtomicBool,
    /// The program uses it in a way that this library does not follow.
    is_kernels: AtomicBool,
    /// Something is kept.
    has_bytes: AtomicBool,
    /// It is among the connections that keep something.
    is_listed: AtomicBool,
    /// It keeps something since the reactor looked last.
    is_old: AtomicBool,
    /// How often it began to keep something.
    arrivals: AtomicU64,
    /// The bytes that calls of this library read from the kernel for the program.
    taken: AtomicU64,
}

impl Keeping {
    pub(crate) const fn new() -> Self {
        Self {
            waits: AtomicUsize::new(0),
            is_registered: AtomicBool::new(false),
            is_kernels: AtomicBool::new(false),
            has_bytes: AtomicBool::new(false),
            is_listed: AtomicBool::new(false),
            is_old: AtomicBool::new(false),
            arrivals: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        }
    }

    /// Returns true if the program has read all bytes of those that were written to the kernel.
    pub(crate) fn is_level(&self, pushed: u64) -> bool {
        self.taken.load(Ordering::Relaxed) == pushed
    }

    /// The program read bytes from the kernel.
    pub(crate) fn took(&self, bytes: usize) {
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns true if what arrives is kept, after so many bytes were written to the kernel.
    pub(crate) fn keeps(&self, pushed: u64) -> bool {
        let is_seen =
            self.is_registered.load(Ordering::Relaxed) || self.waits.load(Ordering::Relaxed) > 0;
        SERVES.get()
            && is_seen
            && !self.is_kernels()
            && KERNEL_WAITS.load(Ordering::SeqCst) == 0
            && self.is_level(pushed)
    }

    /// Something is kept.
    pub(crate) fn keep(&self) {
        if !self.has_bytes.swap(true, Ordering::AcqRel) {
            self.is_old.store(false, Ordering::Relaxed);
            self.arrivals.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A call took a part of what is kept.
    pub(crate) fn go_on(&self) {
        self.is_old.store(false, Ordering::Relaxed);
    }

    /// Nothing is kept.
    pub(crate) fn release(&self) {
        if self.has_bytes.load(Ordering::Relaxed) {
            self.has_bytes.store(false, Ordering::Release);
        }
    }

    /// Returns true if something is kept.
    pub(crate) fn has_bytes(&self) -> bool {
        self.has_bytes.load(Ordering::Acquire)
    }

    pub(crate) fn arrivals(&self) -> u64 {
        self.arrivals.load(Ordering::Relaxed)
    }

    pub(crate) fn set_registered(&self) {
        self.is_registered.store(true, Ordering::Relaxed);
    }

    /// Returns true if nothing is to be kept any more.
    pub(crate) fn is_kernels(&self) -> bool {
        self.is_kernels.load(Ordering::Relaxed)
    }

    /// Returns true if the connection was not listed.
    fn list(&self) -> bool {
        !self.is_listed.swap(true, Ordering::AcqRel)
    }

    fn unlist(&self) {
        self.is_listed.store(false, Ordering::Release);
    }
}

/// A call that waits for a connection, until this is dropped.
#[derive(Debug)]
pub(crate) struct Awaited(Arc<Link>);

impl Awaited {
    pub(crate) fn new(link: &Arc<Link>) -> Self {
        link.keeping.waits.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(link))
    }

    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.0
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.0.keeping.waits.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Has a connection keep nothing any more, and writes to the kernel what it keeps. If another
/// thread is just keeping something, that one does.
pub(crate) fn leave_to_kernel(link: Arc<Link>) {
    if !link.keeping.is_kernels.swap(true, Ordering::AcqRel) {
        task::run(link);
    }
}

/// Lists a connection that keeps something. The thread may wait for others, and for long.
pub(crate) fn list(link: &Arc<Link>) {
    if link.keeping.list() {
        lock(&state().kept).push(Arc::clone(link));
        watch_kept();
    }
}

/// Returns true if a connection stays listed.
fn stays_listed(link: &Arc<Link>) -> bool {
    if link.keeping.has_bytes() {
        return true;
    }
    link.keeping.unlist();
    // It may keep something again since.
    link.keeping.has_bytes() && link.keeping.list()
}

/// Removes the connections from the list that keep nothing. Returns them, for the caller to drop
/// when it has given the list back.
fn unlist_empty(kept: &mut Vec<Arc<Link>>) -> Vec<Arc<Link>> {
    kept.extract_if(.., |link| !stays_listed(link)).collect()
}

/// Calls `visit` for the connections that keep something, until it returns nothing.
pub(crate) fn among_kept(mut visit: impl FnMut(&Arc<Link>) -> Option<()>) {
    let mut kept = lock(&state().kept);
    let gone = unlist_empty(&mut kept);
    for link in &*kept {
        if visit(link).is_none() {
            break;
        }
    }
    drop(kept);
    drop(gone);
}

/// Has the reactor look at what is kept, if something is.
fn watch_kept() {
    let state = state();
    if state.is_watched.load(Ordering::Relaxed) {
        return;
    }
    let mut kept = lock(&state.kept);
    let gone = unlist_empty(&mut kept);
    let is_empty = kept.is_empty();
    drop(kept);
    drop(gone);
    if !is_empty && !state.is_watched.swap(true, Ordering::AcqRel) {
        process::wake_reactor();
    }
}

/// The reactor looks: writes to the kernel what was kept already when it looked last. Returns false
/// if nothing is kept, and it need not look again.
pub(crate) fn look_at_kept() -> bool {
    let state = state();
    let mut kept = lock(&state.kept);
    let gone = unlist_empty(&mut kept);
    let goes_on = !kept.is_empty();
    let was_seen = |link: &mut Arc<Link>| link.keeping.is_old.swap(true, Ordering::AcqRel);
    let old: Vec<_> = kept.extract_if(.., was_seen).collect();
    old.iter().for_each(|link| link.keeping.unlist());
    drop(kept);
    drop(gone);
    old.into_iter().for_each(|link| task::run(link));
    goes_on
}

/// The reactor stops looking, unless something is kept by now. Returns whether it stops.
pub(crate) fn stop_looking() -> bool {
    let state = state();
    state.is_watched.store(false, Ordering::Release);
    let is_empty = lock(&state.kept).is_empty();
    is_empty || state.is_watched.swap(true, Ordering::AcqRel)
}

// ---- the program's memory

/// The memory of a call that reads.
#[derive(Debug)]
pub(crate) struct Buffers<'a> {
    parts: &'a [iovec],
    /// The bytes that are filled of the first part.
    filled: usize,
}

impl<'a> Buffers<'a> {
    /// # Safety
    /// Each part names memory that may be written as long as this lives.
    pub(crate) const unsafe fn new(parts: &'a [iovec]) -> Self {
        Self { parts, filled: 0 }
    }

    /// Returns true if there is no room. Empty parts are passed over.
    pub(crate) fn is_full(&mut self) -> bool {
        while let [part, rest @ ..] = self.parts
            && part.iov_len == self.filled
        {
            (self.parts, self.filled) = (rest, 0);
        }
        self.parts.is_empty()
    }

    /// Copies bytes, as many as there is room for in the first part. Returns how many.
    pub(crate) fn fill(&mut self, bytes: &[u8]) -> usize {
        let Some(part) = self.parts.first() else {
            return 0;
        };
        let copied = bytes.len().min(part.iov_len - self.filled);
        // SAFETY: the part has so much room behind the bytes that are filled, as `new` was
        // promised, and `bytes` is memory of this library.
        unsafe {
            let to = part.iov_base.cast::<u8>().add(self.filled);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, copied);
        }
        self.filled += copied;
        copied
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that was one of a connection is used in a handler, which runs while its thread has
    /// the lock.
    #[test]
    fn a_handler_does_not_wait_for_its_own_thread() {
        let fd = 7_000;
        let (marks, bit) = mark(fd).unwrap();
        marks.fetch_or(bit, Ordering::Relaxed);
        by_descriptor(|_| assert!(link(fd).is_none()));
        assert!(link(fd).is_none());
    }
}
