//! Memory of the program that the library uses for a time, and its way back: one event with the
//! program's cookie.

use crate::entry::close_event_file;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker as TaskWaker;
use suci::Waker;

/// The cookies of memory that is the program's again, until the program takes their events.
#[derive(Default)]
pub(crate) struct Releases {
    queue: Mutex<Queue>,
    any: AtomicBool,
    /// The program lent memory at some time.
    used: AtomicBool,
}

#[derive(Default)]
struct Queue {
    cookies: VecDeque<u64>,
    /// Ends the wait of a call that takes events from a caller-driven node.
    listener: Option<Waker>,
    /// Calls that wait for events of a threaded node.
    tasks: Vec<TaskWaker>,
    /// Makes the node's descriptor readable, if the program has it.
    event_fd: Option<EventFd>,
}

impl Releases {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the program ever lent memory: otherwise there will be no event.
    pub(crate) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes the next cookie.
    pub(crate) fn take(&self) -> Option<u64> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let mut queue = self.lock();
        let cookie = queue.cookies.pop_front();
        if queue.cookies.is_empty() {
            self.any.store(false, Ordering::Release);
            queue.event_fd.iter().for_each(EventFd::clear);
        }
        cookie
    }

    fn push(&self, cookie: u64) {
        let tasks = {
            let mut queue = self.lock();
            queue.cookies.push_back(cookie);
            self.any.store(true, Ordering::Release);
            if queue.cookies.len() == 1 {
                queue.event_fd.iter().for_each(EventFd::signal);
            }
            if let Some(listener) = &queue.listener {
                listener.wake();
            }
            std::mem::take(&mut queue.tasks)
        };
        tasks.into_iter().for_each(TaskWaker::wake);
    }

    /// Ends waits of a caller-driven node by `waker` from now on, or no more.
    pub(crate) fn set_listener(&self, waker: Option<Waker>) {
        let before = std::mem::replace(&mut self.lock().listener, waker);
        drop(before);
    }

    /// Wakes the task at the next release. Look again after it.
    pub(crate) fn register(&self, task: &TaskWaker) {
        let mut queue = self.lock();
        if !queue.tasks.iter().any(|known| known.will_wake(task)) {
            queue.tasks.push(task.clone());
        }
    }

    /// Wakes the task no more.
    pub(crate) fn unregister(&self, task: &TaskWaker) {
        self.lock().tasks.retain(|known| !known.will_wake(task));
    }

    /// Returns a descriptor that is readable while events wait.
    pub(crate) fn descriptor(&self) -> io::Result<RawFd> {
        let mut queue = self.lock();
        if let Some(event_fd) = &queue.event_fd {
            return Ok(event_fd.0.as_raw_fd());
        }
        let event_fd = EventFd::new()?;
        if !queue.cookies.is_empty() {
            event_fd.signal();
        }
        let fd = event_fd.0.as_raw_fd();
        queue.event_fd = Some(event_fd);
        Ok(fd)
    }

    /// In the child of a fork: closes that descriptor, unless a thread that does not exist here had
    /// the lock.
    pub(crate) fn abandon(&self) {
        if let Ok(queue) = self.queue.try_lock()
            && let Some(event_fd) = &queue.event_fd
        {
            close_event_file(event_fd.0.as_raw_fd());
        }
    }
}

/// An eventfd, readable once it was signalled.
struct EventFd(File);

impl EventFd {
    fn new() -> io::Result<Self> {
        // SAFETY: no pointers are involved.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just returned this descriptor; nothing else knows it.
        Ok(Self(unsafe { File::from_raw_fd(fd) }))
    }

    fn signal(&self) {
        // The only error is a full counter, and a full counter is readable.
        let _ = (&self.0).write(&1_u64.to_ne_bytes());
    }

    fn clear(&self) {
        // The only error is that it was unreadable already.
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

/// The call that lends has not ended.
const PENDING: u8 = 0;
/// The call succeeded: the memory is the library's.
const ACCEPTED: u8 = 1;
/// The library needs the memory no longer, before the call ended.
const DROPPED: u8 = 2;

struct LoanState {
    state: AtomicU8,
    cookie: u64,
    releases: Arc<Releases>,
}

/// The call's end of memory that it lends.
pub(crate) struct Loan(Arc<LoanState>);

impl Loan {
    /// Begins to lend memory.
    pub(crate) fn new(releases: &Arc<Releases>, cookie: u64) -> Self {
        releases.used.store(true, Ordering::Relaxed);
        Self(Arc::new(LoanState {
            state: AtomicU8::new(PENDING),
            cookie,
            releases: Arc::clone(releases),
        }))
    }

    /// Returns the library's end, for `length` bytes at `data`.
    ///
    /// # Safety
    /// The memory can be read, and written if [`AsMut`] is used, and nothing else writes it, or
    /// reads it while it is written, until the [`Lent`] is dropped.
    pub(crate) unsafe fn lend(&self, data: *mut u8, length: usize) -> Lent {
        Lent {
            data,
            length,
            state: Arc::clone(&self.0),
        }
    }

    /// The call succeeded: the memory comes back by an event. Without this it never left.
    pub(crate) fn accept(self) {
        let Self(state) = self;
        if state.state.swap(ACCEPTED, Ordering::AcqRel) == DROPPED {
            state.releases.push(state.cookie);
        }
    }
}

/// The library's end of the memory.
pub(crate) struct Lent {
    data: *mut u8,
    length: usize,
    state: Arc<LoanState>,
}

// SAFETY: the memory is the library's alone until this is dropped, as with a `Vec`.
unsafe impl Send for Lent {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for Lent {}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the promise of `Loan::lend`.
        unsafe { std::slice::from_raw_parts(self.data, self.length) }
    }
}

impl AsMut<[u8]> for Lent {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: the promise of `Loan::lend`, and the exclusive borrow of `self`.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.length) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.state.state.swap(DROPPED, Ordering::AcqRel) == ACCEPTED {
            self.state.releases.push(self.state.cookie);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cookies(releases: &Releases) -> Vec<u64> {
        std::iter::from_fn(|| releases.take()).collect()
    }

    #[test]
    fn memory_comes_back_once_and_only_if_the_call_succeeded() {
        let releases = Arc::new(Releases::default());
        let mut memory = [7_u8; 4];
        let mut lend = |cookie| {
            let loan = Loan::new(&releases, cookie);
            // SAFETY: the array outlives what is lent.
            let lent = unsafe { loan.lend(memory.as_mut_ptr(), memory.len()) };
            (loan, lent)
        };
        let (loan, lent) = lend(1);
        assert_eq!(lent.as_ref(), [7; 4]);
        loan.accept();
        assert_eq!(cookies(&releases), []);
        drop(lent);
        assert_eq!(cookies(&releases), [1]);
        // The library may be faster than the call.
        let (loan, lent) = lend(2);
        drop(lent);
        loan.accept();
        assert_eq!(cookies(&releases), [2]);
        // The call fails.
        let (loan, lent) = lend(3);
        drop(loan);
        drop(lent);
        let (loan, lent) = lend(4);
        drop(lent);
        drop(loan);
        assert_eq!(cookies(&releases), []);
    }
}
