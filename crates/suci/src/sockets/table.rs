//! The sockets of one shard under their lock, and the tasks that wait for them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use suci_layers::sockets::{SharedSockets, SocketId, Sockets};

/// The sockets of one shard. The thread of the shard and those of the program share them.
///
/// Wakers run after the lock is released: they may call into the sockets again.
#[derive(Debug, Default)]
pub(crate) struct SocketTable {
    shared: Mutex<SocketState>,
    /// A call of the program left messages that the shard's thread has not seen.
    left_output: AtomicBool,
}

/// The part under the lock.
#[derive(Debug, Default)]
struct SocketState {
    sockets: Sockets,
    waiters: BTreeMap<SocketId, Vec<Waker>>,
}

impl SocketState {
    /// Notes that the task waits for a change of the socket.
    fn wait(&mut self, id: SocketId, cx: &Context<'_>) {
        if cx.waker().will_wake(Waker::noop()) {
            return;
        }
        let waiters = self.waiters.entry(id).or_default();
        if !waiters.iter().any(|waker| waker.will_wake(cx.waker())) {
            waiters.push(cx.waker().clone());
        }
    }

    /// Returns the waiters of the sockets that changed.
    fn take_waiters(&mut self) -> Vec<Waker> {
        let mut woken = Vec::new();
        while let Some(id) = self.sockets.poll_changed() {
            woken.extend(self.waiters.remove(&id).into_iter().flatten());
        }
        woken
    }
}

impl SocketTable {
    fn lock(&self) -> MutexGuard<'_, SocketState> {
        // A panic in the layer is a fault of the library; the node goes on with what is there.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the sockets, then wakes the tasks for which something changed.
    pub(crate) fn update<T>(&self, change: impl FnOnce(&mut Sockets) -> T) -> T {
        self.update_or_wait(|shared| change(&mut shared.sockets))
    }

    /// The same for a call that may have to wait.
    fn update_or_wait<T>(&self, change: impl FnOnce(&mut SocketState) -> T) -> T {
        self.change(|shared| {
            let result = change(shared);
            if shared.sockets.has_output() {
                self.left_output.store(true, Ordering::Release);
            }
            result
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut SocketState) -> T) -> T {
        let mut shared = self.lock();
        let result = change(&mut shared);
        let woken = shared.take_waiters();
        drop(shared);
        woken.into_iter().for_each(Waker::wake);
        result
    }

    /// Calls `check` until it is ready. A change of the socket wakes the task.
    pub(crate) fn poll<T>(
        &self,
        cx: &Context<'_>,
        id: SocketId,
        check: impl FnOnce(&mut Sockets) -> Poll<T>,
    ) -> Poll<T> {
        self.update_or_wait(|shared| {
            let result = check(&mut shared.sockets);
            if result.is_pending() {
                shared.wait(id, cx);
            }
            result
        })
    }

    /// Notes that the task waits for a change of the socket, and returns what `ask` returns.
    pub(crate) fn watch<T>(
        &self,
        cx: &Context<'_>,
        id: SocketId,
        ask: impl FnOnce(&mut Sockets) -> T,
    ) -> T {
        self.update_or_wait(|shared| {
            shared.wait(id, cx);
            ask(&mut shared.sockets)
        })
    }

    /// Returns true if messages were left since [`SocketTable::begin_serving`].
    pub(crate) fn has_left_output(&self) -> bool {
        self.left_output.load(Ordering::Acquire)
    }

    /// Notes that the thread looks at the messages now.
    pub(crate) fn begin_serving(&self) {
        self.left_output.store(false, Ordering::Release);
    }
}

impl SharedSockets for SocketTable {
    /// For the thread of the shard, which sends what there is.
    fn serve<T>(&self, change: impl FnOnce(&mut Sockets) -> T) -> T {
        self.change(|shared| change(&mut shared.sockets))
    }
}
