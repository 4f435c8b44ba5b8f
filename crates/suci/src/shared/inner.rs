//! What the handles of a node and its I/O thread share.

use super::doze::Doze;
use super::gate::Gate;
use super::ring::Ring;
use super::sleepers::Sleepers;
use crate::budget::Budget;
use crate::driver::Driver;
use crate::error::Error;
use crate::fork::Birth;
use crate::message::Message;
use crate::sys::Bell;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::{JoinHandle, ThreadId};
use std::time::Duration;
use suci_proto::types::NodeId;
use suci_proto::{Event, Outgoing};

/// Commands on their way to the thread. Full means that the thread is behind, not that a peer is.
const COMMANDS: usize = 4_096;

/// Messages on their way to the program.
pub(super) const MESSAGES: usize = 1_024;

/// Payload bytes on their way to the program; one message more fits. What waits beyond stays in the
/// engine, where it counts against its sender's memory credit.
pub(super) const MESSAGE_BYTES: u64 = 4 << 20;

/// Events on their way to the program, those apart that concern its own calls. What waits beyond stays in the
/// engine, which bounds what peers can make of it (F04).
pub(super) const EVENTS: usize = 1_024;

/// What a handle asks of the thread.
pub(super) enum Command {
    /// Send a message that its peer's gate has let in.
    Send(NodeId, Outgoing),
    /// Anything else.
    Call(Box<dyn FnOnce(&mut Driver) + Send>),
}

/// Events for whichever handle takes them first.
#[derive(Default)]
pub(super) struct Events {
    pub(super) queue: VecDeque<Event>,
    /// The engine has more: the thread wants to hear when there is room.
    pub(super) more: bool,
}

/// Whether the node is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// Somebody called close; so much patience.
    Closing(Duration),
    /// The thread is done with it.
    Done,
}

/// What becomes of the node, under one lock; changes seldom.
pub(super) struct Life {
    pub(super) phase: Phase,
    /// What close found out, until somebody asks.
    pub(super) result: Option<Result<(), Error>>,
    /// Why the thread is gone, if it did not end by itself.
    pub(super) failure: Option<String>,
    pub(super) thread: Option<JoinHandle<()>>,
}

/// The shared part.
pub(super) struct Inner {
    pub(super) id: NodeId,
    pub(super) local: SocketAddr,
    pub(super) budget: Budget,
    pub(super) plain_on_network: bool,
    birth: Birth,
    abandoned: AtomicBool,
    socket: RawFd,
    /// Of the driver, beside the socket.
    others: Vec<RawFd>,
    pub(super) send_queue: u64,
    pub(super) commands: Ring<Command>,
    pub(super) command_room: Sleepers,
    pub(super) gates: RwLock<BTreeMap<NodeId, Arc<Gate>>>,
    pub(super) messages: Ring<Message>,
    /// Messages that were left when the thread ended.
    pub(super) rest: Mutex<VecDeque<Message>>,
    pub(super) message_bytes: AtomicU64,
    pub(super) message_ready: Sleepers,
    /// The thread has messages that did not fit.
    pub(super) starved: AtomicBool,
    pub(super) events: Mutex<Events>,
    pub(super) event_ready: Sleepers,
    pub(super) life: Mutex<Life>,
    /// Whether `life` left `Open`: read without the lock by every call.
    pub(super) closing: AtomicBool,
    pub(super) done: AtomicBool,
    pub(super) done_ready: Sleepers,
    pub(super) doze: Doze,
    pub(super) bell: Bell,
    pub(super) handles: AtomicUsize,
    pub(super) thread: Mutex<Option<ThreadId>>,
}

/// Locks what no code leaves half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What [`Inner`] is made from.
pub(super) struct Origin {
    pub(super) id: NodeId,
    pub(super) local: SocketAddr,
    pub(super) budget: Budget,
    pub(super) plain_on_network: bool,
    pub(super) birth: Birth,
    pub(super) socket: RawFd,
    pub(super) others: Vec<RawFd>,
    pub(super) send_queue: u64,
}

impl Inner {
    pub(super) fn new(origin: Origin) -> Result<Self, Error> {
        let Origin {
            id,
            local,
            budget,
            plain_on_network,
            birth,
            socket,
            others,
            send_queue,
        } = origin;
        Ok(Self {
            id,
            local,
            budget,
            plain_on_network,
            birth,
            abandoned: AtomicBool::new(false),
            socket,
            others,
            send_queue,
            commands: Ring::new(COMMANDS),
            command_room: Sleepers::new(),
            gates: RwLock::new(BTreeMap::new()),
            messages: Ring::new(MESSAGES),
            rest: Mutex::new(VecDeque::new()),
            message_bytes: AtomicU64::new(0),
            message_ready: Sleepers::new(),
            starved: AtomicBool::new(false),
            events: Mutex::new(Events::default()),
            event_ready: Sleepers::new(),
            life: Mutex::new(Life {
                phase: Phase::Open,
                result: None,
                failure: None,
                thread: None,
            }),
            closing: AtomicBool::new(false),
            done: AtomicBool::new(false),
            done_ready: Sleepers::new(),
            doze: Doze::new(),
            bell: Bell::new().map_err(Error::io("making a descriptor to wake the I/O thread"))?,
            handles: AtomicUsize::new(1),
            thread: Mutex::new(None),
        })
    }

    /// The gate of a peer, if it is known.
    pub(super) fn gate(&self, node: NodeId) -> Option<Arc<Gate>> {
        self.gates
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&node)
            .cloned()
    }

    /// The gate of a peer, made if need be.
    pub(super) fn gate_or_new(&self, node: NodeId) -> Arc<Gate> {
        if let Some(gate) = self.gate(node) {
            return gate;
        }
        let mut gates = self.gates.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(
            gates
                .entry(node)
                .or_insert_with(|| Arc::new(Gate::new(self.send_queue))),
        )
    }

    /// Whether there are more gates than `most`.
    pub(super) fn has_gates_beyond(&self, most: usize) -> bool {
        let gates = self.gates.read().unwrap_or_else(PoisonError::into_inner);
        gates.len() > most
    }

    /// Forgets the gates of nodes that are `gone`, but for those that a call is using or that hold messages.
    pub(super) fn forget_gates(&self, gone: impl Fn(NodeId) -> bool) {
        let mut gates = self.gates.write().unwrap_or_else(PoisonError::into_inner);
        gates.retain(|&node, gate| {
            let unused = Arc::get_mut(gate).is_some_and(|gate| gate.is_empty());
            !(unused && gone(node))
        });
    }

    /// Wakes the thread if it sleeps. Call it after the change.
    pub(super) fn nudge(&self) {
        self.doze.nudge(|| self.bell.ring());
    }

    /// Whether this is the child of a fork; the first time, its copies of the descriptors are closed.
    pub(super) fn is_forked(&self) -> bool {
        let forked = self.birth.is_forked();
        if forked && !self.abandoned.swap(true, Ordering::Relaxed) {
            // What a thread owned that ended before is closed already.
            let gone = self.done.load(Ordering::Relaxed);
            let theirs = self.others.iter().copied().chain([self.socket]);
            let theirs = theirs.filter(|_| !gone);
            for fd in theirs.chain([self.bell.as_raw_fd()]) {
                // SAFETY: the descriptors belong to this node. Its I/O thread, which owns the socket, does
                // not exist in this process, and `Inner` is never dropped here (`SharedNode::drop` leaks
                // it), so nobody uses or closes them after this.
                unsafe { libc::close(fd) };
            }
        }
        forked
    }

    /// Why a call that needs an open node cannot be done.
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

    /// What to say when the node is closed.
    pub(super) fn end(&self) -> Error {
        match &lock(&self.life).failure {
            Some(failure) => Error::ThreadGone(failure.clone()),
            None => Error::Closed,
        }
    }

    /// Everybody who waits for anything looks again.
    pub(super) fn wake_all(&self) {
        self.message_ready.wake();
        self.event_ready.wake();
        self.command_room.wake();
        self.done_ready.wake();
        let gates = self.gates.read().unwrap_or_else(PoisonError::into_inner);
        gates.values().for_each(|gate| gate.room.wake());
    }
}
