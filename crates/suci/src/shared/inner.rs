//! The state that all handles of a node and all its I/O threads share. It changes seldom, except
//! for the lists of sleepers.

use super::descriptor::NodeDescriptor;
use super::shard::{Shard, lock, owner};
use super::sleepers::{Registration, Sleepers};
use super::wakes::WakeMark;
use crate::calls::CallIds;
use crate::driver::Driver;
use crate::error::Error;
use crate::opened::Fixed;
use crate::sys;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;
use suci_layers::sockets::Ports;
use suci_proto::types::NodeId;

/// Whether the node is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// A handle called close, or a thread failed; with the patience to close with.
    Closing(Duration),
}

/// The life of the node, under one lock; it changes seldom.
pub(super) struct Life {
    pub(super) phase: Phase,
    /// Threads that have not ended.
    serving: usize,
    /// The drivers of threads that have ended. Their sockets stay open until all threads have
    /// ended: if one were missing, the kernel would steer datagrams wrongly.
    retired: Vec<Driver>,
    /// The result of closing so far. At the end, until a caller takes it.
    pub(super) result: Option<Result<(), Error>>,
    /// Reason why a thread is gone, if it did not end by itself.
    pub(super) failure: Option<String>,
    pub(super) threads: Vec<JoinHandle<()>>,
}

/// Sleepers on cache lines of their own: they are written whenever a thread waits.
#[repr(align(128))]
pub(super) struct PaddedSleepers(pub(super) Sleepers);

/// The shared part.
pub(crate) struct Inner {
    pub(super) fixed: Fixed,
    abandoned: AtomicBool,
    /// One shard for each thread, each with its peers.
    pub(super) shards: Arc<[Shard]>,
    /// The network namespace of the node's sockets. The driver asks the kernel about routes and
    /// ports, and a thread in another namespace would be told of others.
    network: Option<u64>,
    /// Names of the program's calls.
    pub(super) call_ids: CallIds,
    pub(super) life: Mutex<Life>,
    /// Whether `life` left `Open`: read without the lock by every call.
    pub(super) closing: AtomicBool,
    pub(super) done: AtomicBool,
    pub(super) handles: AtomicUsize,
    pub(super) message_ready: PaddedSleepers,
    pub(super) event_ready: PaddedSleepers,
    pub(super) done_ready: Sleepers,
    /// The descriptor that the program's own epoll watches.
    pub(super) descriptor: Arc<NodeDescriptor>,
    pub(super) wakes: WakeMark,
    /// The ports of sockets.
    pub(super) ports: Mutex<Ports>,
}

impl Inner {
    /// Whether the node was opened in the network namespace of the calling thread.
    pub(super) fn is_of_this_network(&self) -> bool {
        self.network == sys::first_network()
    }

    pub(super) fn new(fixed: Fixed, shards: Arc<[Shard]>) -> Result<Self, Error> {
        Ok(Self {
            fixed,
            abandoned: AtomicBool::new(false),
            life: Mutex::new(Life {
                phase: Phase::Open,
                serving: shards.len(),
                retired: Vec::new(),
                result: Some(Ok(())),
                failure: None,
                threads: Vec::new(),
            }),
            shards,
            network: sys::network(),
            call_ids: CallIds::new()?,
            closing: AtomicBool::new(false),
            done: AtomicBool::new(false),
            handles: AtomicUsize::new(1),
            message_ready: PaddedSleepers(Sleepers::new()),
            event_ready: PaddedSleepers(Sleepers::new()),
            done_ready: Sleepers::new(),
            descriptor: Arc::new(NodeDescriptor::new()?),
            wakes: WakeMark::default(),
            ports: Mutex::default(),
        })
    }

    /// The shard that serves `node`.
    pub(super) fn shard_of(&self, node: NodeId) -> &Shard {
        // Less than the number of shards, which is not 0.
        &self.shards[owner(node, self.shards.len())]
    }

    /// In the child of a fork: closes every descriptor that the node had when it forked. The
    /// program gives its last handle back.
    pub(super) fn abandon(&self) {
        if self.is_forked() {
            self.descriptor.close_copy();
        }
    }

    /// Whether this is the child of a fork; the first time, its copies of the descriptors are
    /// closed.
    pub(super) fn is_forked(&self) -> bool {
        let forked = self.fixed.process.is_forked();
        if forked && !self.abandoned.swap(true, Ordering::Relaxed) {
            // The descriptor of `NodeDescriptor` stays open, because the program may hold it.
            self.shards.iter().for_each(Shard::close_copies);
        }
        forked
    }

    /// Returns the error of a call that needs an open node, if the node is not open.
    pub(super) fn check_open(&self) -> Result<(), Error> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        if self.closing.load(Ordering::Acquire) {
            Err(self.end())
        } else {
            Ok(())
        }
    }

    /// Polls for why a thread did not answer, which is known soon.
    pub(super) fn ending(&self) -> impl FnMut(&mut Context<'_>) -> Poll<Error> {
        let mut registration = Registration::new(&self.done_ready);
        move |cx| {
            let closing = registration.poll_until(cx, || self.closing.load(Ordering::Acquire));
            closing.map(|()| self.end())
        }
    }

    /// The error of calls when the node is closed.
    pub(super) fn end(&self) -> Error {
        match &lock(&self.life).failure {
            Some(failure) => Error::ThreadGone(failure.clone()),
            None => Error::Closed,
        }
    }

    /// Tells all threads to close, with this patience, unless they were told before.
    pub(super) fn begin_end(&self, patience: Duration) -> Result<(), Error> {
        {
            let mut life = lock(&self.life);
            if life.phase != Phase::Open {
                return Err(Error::Closed);
            }
            life.phase = Phase::Closing(patience);
        }
        self.closing.store(true, Ordering::SeqCst);
        self.shards.iter().for_each(Shard::close_gates);
        self.wake_all();
        self.shards.iter().for_each(Shard::unpark);
        // A handler of a signal may have left a call that served for good, to end the process.
        self.shards.iter().for_each(Shard::hand_back);
        Ok(())
    }

    /// Whether no thread needs its socket any more.
    pub(super) fn all_closed(&self) -> bool {
        let mut shards = self.shards.iter();
        shards.all(|shard| shard.closed.load(Ordering::SeqCst))
    }

    /// A thread failed: calls say so from now on, and the other threads tell their peers and end.
    pub(super) fn fail(&self, failure: String) {
        lock(&self.life).failure.get_or_insert(failure);
        // If it is closing already, it goes on so.
        let _ = self.begin_end(Duration::ZERO);
    }

    /// A thread has ended, and left its driver unless it failed. `closed` is the result of closing.
    pub(super) fn retire(&self, driver: Option<Driver>, closed: Option<Result<(), Error>>) {
        let retired = {
            let mut life = lock(&self.life);
            let before = life.result.take().unwrap_or(Ok(()));
            life.result = Some(both(before, closed.unwrap_or(Ok(()))));
            life.retired.extend(driver);
            life.serving -= 1;
            if life.serving > 0 {
                return;
            }
            if life.failure.is_some() {
                life.result = None;
            }
            std::mem::take(&mut life.retired)
        };
        for shard in self.shards.iter() {
            shard.gone.store(true, Ordering::Relaxed);
        }
        drop(retired);
        self.done.store(true, Ordering::Release);
    }

    /// Wakes every waiter: it looks again.
    pub(super) fn wake_all(&self) {
        self.message_ready.0.wake();
        self.event_ready.0.wake();
        self.done_ready.wake();
        self.shards.iter().for_each(Shard::wake_all);
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").finish_non_exhaustive()
    }
}

/// Joins two results of closing: all peers that did not get everything, or the first other error.
pub(super) fn both(one: Result<(), Error>, other: Result<(), Error>) -> Result<(), Error> {
    match (one, other) {
        (Err(Error::NotFlushed { peers }), Err(Error::NotFlushed { peers: more })) => {
            let mut counts = BTreeMap::<NodeId, u64>::new();
            for (node, count) in peers.into_iter().chain(more) {
                *counts.entry(node).or_default() += count;
            }
            let peers = counts.into_iter().collect();
            Err(Error::NotFlushed { peers })
        }
        (Err(Error::NotFlushed { .. }) | Ok(()), worse @ Err(_)) => worse,
        (one, _) => one,
    }
}
