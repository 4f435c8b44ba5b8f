//! The node behind a handle.

use crate::error::Failure;
use crate::lent::Releases;
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use suci::{Filter, Message, Node, SharedNode, Waker};

/// A node of either kind.
enum Kind {
    Alone(UnsafeCell<Node>),
    Shared(SharedNode),
}

/// A node, as a call may use it.
pub(crate) enum Host<'a> {
    /// Caller-driven.
    Alone(&'a mut Node),
    /// Threaded.
    Shared(&'a SharedNode),
}

/// Calls a method that both kinds of node have.
macro_rules! on_host {
    ($host:expr, $node:ident => $call:expr) => {
        match $host {
            $crate::entry::Host::Alone($node) => $call,
            $crate::entry::Host::Shared($node) => $call,
        }
    };
}
pub(crate) use on_host;

/// A node, and what this crate keeps beside it.
pub(crate) struct Entry {
    kind: Kind,
    waker: Waker,
    /// `suci_wake` was called and no call noticed so far: a wake of a caller-driven node without
    /// this mark says that memory was released.
    woken: AtomicBool,
    /// Threads between the two steps of a wake.
    waking: AtomicU32,
    pub(crate) releases: Arc<Releases>,
    /// Messages of a threaded node for which a buffer of `suci_recv_copy` was too short.
    kept: Mutex<VecDeque<Message>>,
    kept_count: AtomicUsize,
    /// Nests the node's descriptor and that of released memory.
    epoll: OnceLock<OwnedFd>,
}

impl Entry {
    pub(crate) fn alone(node: Node) -> Result<Self, Failure> {
        let waker = node.waker()?;
        Ok(Self::new(Kind::Alone(UnsafeCell::new(node)), waker))
    }

    pub(crate) fn shared(node: SharedNode) -> Result<Self, Failure> {
        let waker = node.waker()?;
        Ok(Self::new(Kind::Shared(node), waker))
    }

    fn new(kind: Kind, waker: Waker) -> Self {
        Self {
            kind,
            waker,
            woken: AtomicBool::new(false),
            waking: AtomicU32::new(0),
            releases: Arc::default(),
            kept: Mutex::default(),
            kept_count: AtomicUsize::new(0),
            epoll: OnceLock::new(),
        }
    }

    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.kind, Kind::Shared(_))
    }

    /// Returns the node.
    ///
    /// # Safety
    /// If the node is caller-driven, no other reference to it exists while the result does.
    #[inline]
    pub(crate) unsafe fn host(&self) -> Host<'_> {
        match &self.kind {
            // SAFETY: the caller's promise.
            Kind::Alone(node) => Host::Alone(unsafe { &mut *node.get() }),
            Kind::Shared(node) => Host::Shared(node),
        }
    }

    // ---- wakes

    /// Ends one wait of the program. Async-signal-safe.
    pub(crate) fn wake(&self) {
        self.waking.fetch_add(1, Ordering::SeqCst);
        self.woken.store(true, Ordering::SeqCst);
        self.waker.wake();
        self.waking.fetch_sub(1, Ordering::SeqCst);
    }

    /// Takes the program's wake, if there is one, after a call of the node was woken or not.
    pub(crate) fn take_woken(&self) -> bool {
        if !self.woken.load(Ordering::Relaxed) || !self.woken.swap(false, Ordering::SeqCst) {
            return false;
        }
        // The second step of that wake must not end a later call.
        while self.waking.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        let _ = self.waker.take();
        true
    }

    /// Begins a wait that the release of memory ends.
    pub(crate) fn listen(&self) {
        self.releases.set_listener(Some(self.waker.clone()));
    }

    /// Ends such a wait. A wake that released memory caused is taken back.
    pub(crate) fn unlisten(&self) {
        self.releases.set_listener(None);
        if self.waker.take() && self.woken.load(Ordering::SeqCst) {
            self.waker.wake();
        }
    }

    // ---- the descriptor

    /// Returns the descriptor for the program's own epoll; `node` is that of the node.
    pub(crate) fn descriptor(&self, node: RawFd) -> io::Result<RawFd> {
        if let Some(epoll) = self.epoll.get() {
            return Ok(epoll.as_raw_fd());
        }
        // SAFETY: no pointers are involved.
        let epoll = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the kernel just returned this descriptor; nothing else knows it.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        for member in [node, self.releases.descriptor()?] {
            let mut event = libc::epoll_event {
                events: libc::EPOLLIN.cast_unsigned(),
                u64: 0,
            };
            let (fd, event) = (epoll.as_raw_fd(), &raw mut event);
            // SAFETY: `event` outlives the call.
            checked(unsafe { libc::epoll_ctl(fd, libc::EPOLL_CTL_ADD, member, event) })?;
        }
        Ok(self.epoll.get_or_init(|| epoll).as_raw_fd())
    }

    /// In the child of a fork: closes the descriptors that the parent's node had. Threads that do
    /// not exist here may have been inside calls.
    pub(crate) fn abandon(&self) {
        match &self.kind {
            // SAFETY: `abandon` takes a shared reference, and reads what no call changes. The
            // exclusive references of calls are those of threads that do not exist here.
            Kind::Alone(node) => unsafe { (*node.get().cast_const()).abandon() },
            Kind::Shared(node) => node.abandon(),
        }
        self.releases.abandon();
        if let Some(epoll) = self.epoll.get() {
            close_event_file(epoll.as_raw_fd());
        }
    }

    // ---- messages that were too long for a buffer

    fn kept(&self) -> MutexGuard<'_, VecDeque<Message>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a message for the next call that receives.
    pub(crate) fn keep(&self, message: Message) {
        let mut kept = self.kept();
        kept.push_front(message);
        self.kept_count.store(kept.len(), Ordering::Release);
    }

    /// Takes a message that was kept and that `filter` admits.
    #[inline]
    pub(crate) fn take_kept(&self, filter: Option<Filter>) -> Option<Message> {
        if self.kept_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut kept = self.kept();
        let admits = |message: &Message| {
            filter.is_none_or(|filter| filter.admits(message.from, message.channel))
        };
        let index = kept.iter().position(admits)?;
        let message = kept.remove(index);
        self.kept_count.store(kept.len(), Ordering::Release);
        message
    }
}

/// Closes a descriptor of events in the child of a fork, which may have closed it before, and
/// opened another file under its number.
pub(crate) fn close_event_file(fd: RawFd) {
    let file = std::fs::read_link(format!("/proc/self/fd/{fd}")).unwrap_or_default();
    if file.to_string_lossy().starts_with("anon_inode:[event") {
        // SAFETY: it is an eventfd or an epoll of this crate. Its owner is never dropped in this
        // process: `Handle::remove` leaks it.
        unsafe { libc::close(fd) };
    }
}

fn checked(value: c_int) -> io::Result<c_int> {
    match value {
        0.. => Ok(value),
        _ => Err(io::Error::last_os_error()),
    }
}
