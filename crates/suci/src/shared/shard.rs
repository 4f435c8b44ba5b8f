//! The state that the handles share with one of the I/O threads: everything about the peers that
//! this thread serves.
//!
//! No other thread uses it, except for datagrams that came to a wrong socket. So each shard has
//! cache lines of its own, and threads do not slow each other down.

use super::active::ActiveQueues;
use super::calls::CallAnswer;
use super::cross_shard::CrossShardMessage;
use super::events::Events;
use super::gate::Gate;
use super::ring::Ring;
use super::serving::Serving;
use super::sleepers::Sleepers;
use super::sorted::Sorted;
use super::thread::{Left, Worker};
use super::unanswered::Unanswered;
use crate::driver::Driver;
use crate::error::Error;
use crate::message::Message;
use crate::next::Next;
use crate::placement::Places;
use crate::sockets::SocketTable;
use crate::sys::{EventFd, IdentifiedFd};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::task::Poll;
use std::thread::Thread;
use suci_proto::message::Held;
use suci_proto::time::Instant;
use suci_proto::types::{ChannelId, MessageNumber, NodeId};
use suci_proto::{CallId, Event, Filter, Outgoing};

/// Commands on their way to the thread. Full means that the thread is behind, not that a peer is.
pub(super) const COMMANDS: usize = 4_096;

/// Messages on their way to the program.
pub(super) const MESSAGES: usize = 1_024;

/// Payload bytes on their way to the program, replies apart; one message more fits. Messages beyond
/// that stay in the engine, where they count against their sender's memory credit.
pub(super) const MESSAGE_BYTES: u64 = 4 << 20;

/// Datagrams that other threads' sockets got and that wait for this one: 16 MiB of the largest at
/// most. Datagrams beyond that are lost, as on any network (F04).
const LETTERS: usize = 256;

/// A command of a handle to the thread.
pub(super) enum Command {
    /// Send a message that its peer's gate has let in, counted in this class: a request, if a
    /// caller waits for the reply.
    Send(NodeId, u8, Outgoing, Option<CallAnswer>),
    /// Anything else.
    Run(Box<dyn FnOnce(&mut Worker) + Send>),
}

impl Command {
    pub(super) fn run(work: impl FnOnce(&mut Worker) + Send + 'static) -> Self {
        Self::Run(Box::new(work))
    }
}

/// The bytes of a message that count toward [`MESSAGE_BYTES`].
pub(super) fn length(message: &Message) -> u64 {
    u64::try_from(message.payload.len()).unwrap_or(u64::MAX)
}

type Gates = BTreeMap<NodeId, Arc<Gate>>;

/// Which of `count` shards serves `node`: by the byte that its datagrams carry.
pub(crate) fn owner(node: NodeId, count: usize) -> usize {
    let [lowest, ..] = node.0.to_le_bytes();
    usize::from(lowest) % count
}

/// The shared part of one shard.
#[repr(align(128))]
pub(crate) struct Shard {
    /// The descriptors that the child of a fork closes: the eventfd, then the thread's: those of
    /// its driver, its socket last.
    pub(super) descriptors: Vec<IdentifiedFd>,
    /// The thread's are closed.
    pub(super) gone: AtomicBool,
    send_queue: u64,
    pub(super) commands: Ring<Command>,
    pub(super) command_room: Sleepers,
    /// An urgent message is among the commands: the thread should interrupt its work.
    pub(super) urgent: Arc<AtomicBool>,
    /// Peers of whose gates the program asked when they have room, and whether there are any.
    room_asked: Mutex<BTreeSet<NodeId>>,
    pub(super) asks_room: AtomicBool,
    gates: RwLock<Gates>,
    pub(super) messages: Ring<Message>,
    /// The messages, once a call wants only some of them or the thread has ended; and their number.
    pub(super) sorted: Mutex<Sorted>,
    pub(super) sorted_len: AtomicUsize,
    /// Calls that want only some of the messages.
    pub(super) wants: Sleepers<Filter>,
    /// The number of messages that had no room in the ring when the thread ended.
    pub(super) left: AtomicUsize,
    pub(super) message_bytes: AtomicU64,
    /// The thread has messages that did not fit.
    pub(super) starved: AtomicBool,
    /// Payload bytes of replies on their way to their callers.
    pub(super) reply_bytes: AtomicU64,
    /// The thread has replies that did not fit.
    pub(super) replies_wait: AtomicBool,
    /// Calls were cancelled, and the ring had no room to say so.
    pub(super) cancelled: AtomicBool,
    pub(super) events: Mutex<Events>,
    /// Some of these wait until the program takes messages.
    pub(super) holds_events: AtomicBool,
    pub(super) active: ActiveQueues,
    /// The thread's one-sided operations.
    pub(super) places: Arc<Places>,
    /// The program entered requests into their layer.
    pub(super) asks_remote: AtomicBool,
    pub(super) unanswered: Unanswered,
    /// No call gets past its check any more.
    pub(super) closing: AtomicBool,
    /// The thread has closed its engine, and stands by until the others have.
    pub(super) closed: AtomicBool,
    /// The thread is done: nothing more comes.
    pub(super) done: AtomicBool,
    /// Datagrams that came to other sockets.
    pub(super) forwarded: Ring<CrossShardMessage>,
    /// The work, and which thread does it.
    pub(super) serving: Serving<Box<Worker>>,
    /// Ends the sleep of the thread that serves.
    pub(super) event_fd: EventFd,
    /// The I/O thread, and whether it sleeps otherwise than on `event_fd`.
    pub(super) thread: OnceLock<Thread>,
    pub(super) dozes: AtomicBool,
    /// When the sleep of the thread that serves ends at the latest, in nanoseconds.
    planned: AtomicU64,
    /// The I/O thread is to serve at once.
    pub(super) handed_back: AtomicBool,
    /// The number of the last hold of bytes that wait for the next call.
    hold: AtomicU32,
    /// The sockets with this shard's peers.
    pub(super) sockets: Arc<SocketTable>,
}

/// Locks state that no code leaves half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    /// For the thread that will own `driver`.
    pub(super) fn new(driver: &Driver, send_queue: u64) -> Result<Self, Error> {
        let event_fd =
            EventFd::new().map_err(Error::io("making a descriptor to wake the I/O thread"))?;
        let descriptors = [event_fd.as_raw_fd()]
            .into_iter()
            .chain(driver.descriptors());
        let descriptors = descriptors.map(IdentifiedFd::new).collect();
        let shard = Self {
            descriptors,
            gone: AtomicBool::new(false),
            send_queue,
            commands: Ring::new(COMMANDS),
            command_room: Sleepers::new(),
            urgent: Arc::clone(&driver.interrupt),
            room_asked: Mutex::default(),
            asks_room: AtomicBool::new(false),
            gates: RwLock::new(BTreeMap::new()),
            messages: Ring::new(MESSAGES),
            sorted: Mutex::default(),
            sorted_len: AtomicUsize::new(0),
            wants: Sleepers::new(),
            left: AtomicUsize::new(0),
            message_bytes: AtomicU64::new(0),
            starved: AtomicBool::new(false),
            reply_bytes: AtomicU64::new(0),
            replies_wait: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            events: Mutex::new(Events::default()),
            holds_events: AtomicBool::new(false),
            active: ActiveQueues::default(),
            places: Arc::clone(&driver.places),
            asks_remote: AtomicBool::new(false),
            unanswered: Unanswered::new(driver.engine.max_unannounced()),
            closing: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            done: AtomicBool::new(false),
            forwarded: Ring::new(LETTERS),
            serving: Serving::new(),
            event_fd,
            thread: OnceLock::new(),
            dozes: AtomicBool::new(false),
            planned: AtomicU64::new(0),
            handed_back: AtomicBool::new(false),
            hold: AtomicU32::new(0),
            sockets: Arc::clone(&driver.sockets),
        };
        let itself = [driver.engine.node()];
        for node in driver.engine.peers().chain(itself) {
            shard.gate_or_new(node);
        }
        Ok(shard)
    }

    /// The gates of all peers that are known.
    pub(super) fn gates(&self) -> RwLockReadGuard<'_, Gates> {
        self.gates.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn gates_mut(&self) -> RwLockWriteGuard<'_, Gates> {
        self.gates.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The gate of a peer, if it is known.
    pub(super) fn gate(&self, node: NodeId) -> Option<Arc<Gate>> {
        self.gates().get(&node).cloned()
    }

    /// The gate of a peer, made if need be.
    pub(super) fn gate_or_new(&self, node: NodeId) -> Arc<Gate> {
        if let Some(gate) = self.gate(node) {
            return gate;
        }
        let new = || Arc::new(Gate::new(self.send_queue));
        Arc::clone(self.gates_mut().entry(node).or_insert_with(new))
    }

    /// Forgets the gates of nodes that are `gone`, but for those that a call is using or that hold
    /// messages.
    pub(super) fn forget_gates(&self, gone: impl Fn(NodeId) -> bool) {
        self.gates_mut().retain(|&node, gate| {
            let unused = Arc::get_mut(gate).is_some_and(|gate| gate.is_empty());
            !(unused && gone(node))
        });
    }

    /// Sets the closing mark when no call is between its check and the ring.
    pub(super) fn close_gates(&self) {
        let gates = self.gates_mut();
        self.closing.store(true, Ordering::SeqCst);
        drop(gates);
    }

    /// Puts a command into the ring, if the node is open and the ring has room.
    pub(super) fn push(&self, command: Command) -> Result<(), Command> {
        let gates = self.gates();
        if self.closing.load(Ordering::Acquire) {
            return Err(command);
        }
        let pushed = self.commands.push(command);
        drop(gates);
        if pushed.is_ok() {
            self.unpark();
        }
        pushed
    }

    /// The program is to hear when there is room for this message.
    pub(super) fn want_room(&self, to: NodeId, message: &Outgoing) {
        if let Some(gate) = self.gate(to) {
            let class = gate.class_of(message.channel);
            let mut events = lock(&self.events);
            gate.want_room(class, Held::of(message), || {
                events.take_back_room(to, class)
            });
            drop(events);
            self.ask_for_room(to);
        }
    }

    /// The thread looks whether the gate of `to` has the room that the program waits for.
    pub(super) fn ask_for_room(&self, to: NodeId) {
        lock(&self.room_asked).insert(to);
        self.asks_room.store(true, Ordering::SeqCst);
        self.unpark();
    }

    /// The peers of whose gates the program asked since.
    pub(super) fn take_room_asked(&self) -> BTreeSet<NodeId> {
        match self.asks_room.load(Ordering::Relaxed) {
            true => {
                self.asks_room.store(false, Ordering::SeqCst);
                core::mem::take(&mut *lock(&self.room_asked))
            }
            false => BTreeSet::new(),
        }
    }

    /// The thread sends the requests that the program entered into the layer of one-sided
    /// operations.
    pub(super) fn serve_remote(&self) {
        self.asks_remote.store(true, Ordering::Release);
        self.unpark();
    }

    /// Whether the program entered such requests since.
    pub(super) fn take_remote_asked(&self) -> bool {
        self.asks_remote.load(Ordering::Relaxed) && self.asks_remote.swap(false, Ordering::Acquire)
    }

    /// Has the thread that serves look for work. Call it after the change.
    pub(super) fn unpark(&self) {
        let wake_caller = || self.event_fd.signal();
        self.serving.notify(wake_caller, || self.wake_thread());
    }

    /// Ends the sleep of the thread that serves.
    pub(super) fn rouse(&self) {
        let wake_caller = || self.event_fd.signal();
        self.serving.rouse(wake_caller, || self.wake_thread());
    }

    /// Ends the sleep of the caller that waits.
    pub(super) fn rouse_caller(&self) {
        self.serving.wake_caller(|| self.event_fd.signal());
    }

    /// Has the I/O thread look who serves.
    pub(super) fn rouse_thread(&self) {
        self.serving.wake_thread(|| self.wake_thread());
    }

    /// Has the I/O thread serve.
    pub(super) fn hand_back(&self) {
        self.handed_back.store(true, Ordering::SeqCst);
        self.rouse_thread();
    }

    /// A caller that waits was woken by the event descriptor. It stays signalled for an I/O thread
    /// that sleeps on it, too, until that one has noticed that the caller serves.
    pub(super) fn clear_for_caller(&self) {
        if !self.serving.thread_serves() {
            self.event_fd.clear();
        }
    }

    pub(super) fn wake_thread(&self) {
        match self.thread.get() {
            Some(thread) if self.dozes.load(Ordering::Relaxed) => thread.unpark(),
            _ => self.event_fd.signal(),
        }
    }

    /// Notes the number of the last hold.
    pub(super) fn note_hold(&self, hold: u32) {
        self.hold.store(hold, Ordering::Relaxed);
    }

    /// Returns the number of the last hold.
    pub(super) fn hold(&self) -> u32 {
        self.hold.load(Ordering::Relaxed)
    }

    /// Whether other threads left work.
    pub(super) fn has_work(&self) -> bool {
        self.sockets.has_left_output() || !self.has_only_bytes()
    }

    /// Whether other threads left nothing but bytes of sockets, if anything.
    pub(super) fn has_only_bytes(&self) -> bool {
        self.commands.is_empty()
            && self.forwarded.is_empty()
            && !self.asks_remote.load(Ordering::Relaxed)
            && !self.asks_room.load(Ordering::Relaxed)
            && !self.closing.load(Ordering::Relaxed)
    }

    /// Whether a thread that serves may sleep.
    pub(super) fn is_idle(&self, left: Left) -> bool {
        let starved = self.starved.load(Ordering::Relaxed);
        let refill = left.messages && (!starved || self.wants.has_fresh())
            || left.active && self.wants_active()
            || left.replies && !self.replies_wait.load(Ordering::Relaxed);
        let room = left.refused && lock(&self.events).has_refill;
        !refill && !room && !self.has_work()
    }

    /// Notes until when the thread that serves may sleep.
    pub(super) fn plan(&self, until: Option<Instant>) {
        let until = until.map_or(u64::MAX, Instant::as_nanos);
        self.planned.store(until, Ordering::Relaxed);
    }

    /// Notes that a caller that served sleeps no more.
    pub(super) fn plan_nothing(&self) {
        self.planned.store(0, Ordering::Relaxed);
    }

    /// Whether the thread that serves may sleep for longer than until `due`.
    pub(super) fn sleeps_past(&self, due: Option<Instant>) -> bool {
        due.is_some_and(|due| due.as_nanos() < self.planned.load(Ordering::Relaxed))
    }

    /// Whether there is room for another message on its way to the program. Only the thread asks,
    /// and fills it.
    pub(super) fn has_room(&self) -> bool {
        self.message_bytes.load(Ordering::Acquire) <= MESSAGE_BYTES
            && self.sorted_len.load(Ordering::Acquire) < MESSAGES
            && self.messages.has_room()
    }

    /// Hands a message over: there must be room.
    pub(super) fn deliver(&self, message: Message) {
        self.message_bytes
            .fetch_add(length(&message), Ordering::AcqRel);
        let pushed = self.messages.push(message);
        debug_assert!(pushed.is_ok(), "nobody else fills it");
    }

    /// The next message; ready with none when there will be none.
    pub(super) fn take_message(&self) -> Poll<Option<Message>> {
        // Read before looking: all messages are there by then.
        let done = self.done.load(Ordering::Acquire);
        match self.messages.pop() {
            Some(message) => {
                self.took(length(&message));
                Poll::Ready(Some(message))
            }
            None if self.messages.is_closed() => self.take_sorted(|_| true),
            None if done => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// Appends the next messages, `most` at most; ready with none when there will be none. The
    /// thread hears of the room at the end.
    pub(super) fn take_messages(
        &self,
        most: usize,
        messages: &mut Vec<Message>,
    ) -> Poll<Option<usize>> {
        let done = self.done.load(Ordering::Acquire);
        let before = messages.len();
        let mut bytes = 0;
        let there = std::iter::from_fn(|| self.messages.pop());
        messages.extend(
            there
                .take(most.min(MESSAGES))
                .inspect(|message| bytes += length(message)),
        );
        if messages.len() > before {
            self.took(bytes);
        } else if self.messages.is_closed() {
            let take = || self.take_out(self.sort(), |_| true);
            messages.extend(std::iter::from_fn(take).take(most));
        }
        match messages.len() - before {
            0 if !done => Poll::Pending,
            0 => Poll::Ready(None),
            taken => Poll::Ready(Some(taken)),
        }
    }

    /// A call waits for messages of some only. The thread looks for them, if it has more than lie
    /// ready.
    pub(super) fn ask_for_wanted(&self) {
        if self.starved.load(Ordering::Relaxed) {
            self.unpark();
        }
    }

    /// The program took messages of this many bytes: there is room for others.
    pub(super) fn took(&self, bytes: u64) {
        self.message_bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.made_room(&self.starved);
    }

    /// Wakes the thread if it waits for the room that there is now, as this mark says.
    pub(super) fn made_room(&self, waits: &AtomicBool) {
        fence(Ordering::SeqCst);
        if waits.load(Ordering::Relaxed) && waits.swap(false, Ordering::Relaxed) {
            self.unpark();
        }
    }

    /// Whether there is room for another reply on its way to its caller.
    pub(super) fn has_reply_room(&self) -> bool {
        self.reply_bytes.load(Ordering::Acquire) <= MESSAGE_BYTES
    }

    /// A reply goes to its caller.
    pub(super) fn gives_reply(&self, reply: &Message) {
        self.reply_bytes.fetch_add(length(reply), Ordering::AcqRel);
    }

    /// Its caller has it, or is gone: there is room for others.
    pub(super) fn took_reply(&self, reply: &Message) {
        self.reply_bytes.fetch_sub(length(reply), Ordering::AcqRel);
        self.made_room(&self.replies_wait);
    }

    /// The caller of this call waits no longer. `late`: its reply was there already.
    pub(super) fn cancel(&self, id: CallId, late: bool) {
        let cancel = Command::run(move |worker| worker.cancel_call(id, late));
        if self.push(cancel).is_err() {
            self.cancelled.store(true, Ordering::Release);
        }
    }

    /// The next event; ready with none when there will be none. The end of a session waits until
    /// its messages were taken.
    pub(super) fn take_event(&self) -> Poll<Option<Event>> {
        let done = self.done.load(Ordering::Acquire);
        let mut events = lock(&self.events);
        self.release_events(&mut events);
        match self.pop_event(events) {
            Ok(event) => Poll::Ready(Some(event)),
            Err(_) if done => Poll::Ready(None),
            Err(_) => Poll::Pending,
        }
    }

    /// Takes the next event that may be taken, of which no call has to tell the program from then
    /// on. Gives the lock back if there is none.
    fn pop_event<'a>(
        &self,
        mut events: MutexGuard<'a, Events>,
    ) -> Result<Event, MutexGuard<'a, Events>> {
        let (event, refill) = events.pop();
        let Some(event) = event else {
            return Err(events);
        };
        self.note_held(&events);
        drop(events);
        if refill {
            self.unpark();
        }
        self.unanswered.forget(&event);
        if let Event::Ended { node, sessions, .. } = event
            && let Some(gate) = self.gate(node)
        {
            gate.note_end_told(sessions);
        }
        Ok(event)
    }

    /// The program answered this announced message: it need not hear of it any more.
    pub(super) fn answered(&self, node: NodeId, channel: ChannelId, number: MessageNumber) {
        lock(&self.events).withdraw(node, channel, number);
        self.unanswered.answered(node, channel, number);
    }

    /// How many messages the thread has handed over; wraps. Only the thread calls it.
    pub(super) fn delivered(&self) -> usize {
        let left = self.left.load(Ordering::Relaxed);
        self.messages.filled().wrapping_add(left)
    }

    /// The next event that may be taken, or else the next message, as a [`Node`](crate::Node) has
    /// them; ready with none when there will be none.
    pub(super) fn take_next(&self) -> Poll<Option<Next>> {
        let done = self.done.load(Ordering::Acquire);
        // While this is held, no event comes between those that are there and a message that is
        // taken.
        let mut events = lock(&self.events);
        let message = loop {
            self.release_events(&mut events);
            events = match self.pop_event(events) {
                Ok(event) => return Poll::Ready(Some(Next::Event(event))),
                Err(none) => none,
            };
            let Some(taken) = self.messages.emptied_open() else {
                let sorted = self.sort();
                // Another handle may just have taken messages before an event.
                if events.is_released(|before| !sorted.holds(before)) {
                    continue;
                }
                break self.take_out(sorted, |_| true);
            };
            if let Some(message) = self.messages.pop_before(events.held_until(taken)) {
                drop(events);
                self.took(length(&message));
                break Some(message);
            }
            // Another handle may have taken the messages before an event, or closed the ring.
            if self.messages.emptied_open() == Some(taken) {
                break None;
            }
        };
        match message {
            None if !done => Poll::Pending,
            message => Poll::Ready(message.map(Next::Message)),
        }
    }

    /// Whether a call that takes something would not have to wait.
    pub(super) fn has_message_or_event(&self) -> bool {
        let done = self.done.load(Ordering::Acquire);
        done || !self.messages.is_empty()
            || self.sorted_len.load(Ordering::Acquire) > 0
            || self.has_active()
            || {
                let mut events = lock(&self.events);
                self.release_events(&mut events);
                !events.is_empty()
            }
    }

    /// Adds the messages that are not flushed, by peers: those in the gates, and failures of which
    /// the program was not told. Counts those as told. Returns whether there are such failures.
    pub(super) fn count_unflushed(&self, counts: &mut BTreeMap<NodeId, u64>) -> bool {
        let mut failed = false;
        // While this is held, no failure moves from a gate to the events.
        let mut events = lock(&self.events);
        let gates = self.gates();
        for (&node, gate) in gates.iter() {
            let open = gate.open_messages();
            counts.insert(node, open.saturating_add(gate.failed()));
            failed |= gate.has_failures();
            gate.flush_failures();
        }
        drop(gates);
        for (node, unflushed) in events.flush_failures() {
            *counts.entry(node).or_default() += unflushed;
            failed = true;
        }
        failed
    }

    /// Closes the descriptors in the child of a fork.
    pub(super) fn close_copies(&self) {
        let gone = self.gone.load(Ordering::Relaxed);
        let count = if gone { 1 } else { self.descriptors.len() };
        for copy in self.descriptors.iter().take(count) {
            // SAFETY: the descriptors belong to this node. No call serves it in this process, and
            // the owner of the descriptors is never dropped here (`SharedNode::drop` leaks it), so
            // nothing uses or closes them after this.
            unsafe { copy.close_if_same() };
        }
    }

    /// Wakes every waiter for something of this shard: it looks again.
    pub(super) fn wake_all(&self) {
        self.command_room.wake();
        self.wants.wake();
        self.places.remote_waiters.wake();
        self.gates().values().for_each(|gate| gate.room.wake());
    }
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shard").finish_non_exhaustive()
    }
}
