//! `suci.Node`: a node that one I/O thread serves, with calls that block.
//!
//! A [`SharedNode`] is under it, not the library's caller-driven node: several Python threads use
//! one node at the same time, and it is served while the program computes. A call that waits serves
//! the node itself, so that a round trip takes no hop between threads.

use crate::arguments::{self, FOREVER, node_id};
use crate::buffer::{self, HeldBuffer, WritableBuffer};
use crate::error::{OrRaise, exception, raise};
use crate::event;
use crate::group::Group;
use crate::message::{Message, Sending, sending};
use crate::peer::Peer;
use crate::settings;
use crate::stats;
use crate::wait::{SLICE, wait, wait_to_send};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyMemoryView, PyTuple};
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::ThreadId;
use std::time::{Duration, Instant};
use suci::sockets::Attendance;
use suci::{ChannelId, Error, Filter, Next, NodeId, ReceiveBuffer, SharedNode};

/// How long a node that the program does not close waits for what it accepted.
const DROP_PATIENCE: Duration = Duration::from_secs(1);

/// How long `close` waits unless it is told.
const CLOSE_PATIENCE: f64 = 5.0;

/// Copies longer than this let other threads of the interpreter run.
const LONG_COPY: usize = 64 << 10;

/// The state that the objects of one node share.
pub(crate) struct Core {
    pub(crate) shared: SharedNode,
    closed: AtomicBool,
    /// Messages that a call gave back, because they did not fit its buffer. They come first.
    returned: Mutex<VecDeque<suci::Message>>,
    has_returned: AtomicBool,
    /// The next send is probably an answer to what was received: its own thread transmits it.
    answers: AtomicBool,
    pub(crate) process: u32,
}

/// The open nodes, which are closed before the interpreter ends.
static OPEN: Mutex<Vec<Weak<Core>>> = Mutex::new(Vec::new());

impl Core {
    fn open(shared: SharedNode) -> Arc<Self> {
        let core = Arc::new(Self {
            shared,
            closed: AtomicBool::new(false),
            returned: Mutex::default(),
            has_returned: AtomicBool::new(false),
            answers: AtomicBool::new(true),
            process: std::process::id(),
        });
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|core| core.strong_count() > 0);
        open.push(Arc::downgrade(&core));
        core
    }

    /// Begins a send. The first one after a receive leaves by the thread of its caller, without a
    /// hop to the I/O thread. Those that follow are left to the I/O thread, where they share
    /// packets.
    pub(crate) fn begin_send(&self) -> Option<Attendance<'_>> {
        let answers = self.answers.swap(false, Ordering::Relaxed);
        answers.then(|| Attendance::begin(&self.shared)).flatten()
    }

    /// Notes that something was received.
    pub(crate) fn received(&self) {
        self.answers.store(true, Ordering::Relaxed);
    }

    /// Notes that the node is being closed. Returns false if it was before.
    pub(crate) fn begin_close(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }

    /// Takes a message that another call gave back.
    pub(crate) fn take_returned(&self, wanted: Wanted) -> Option<suci::Message> {
        if !self.has_returned.load(Ordering::Acquire) {
            return None;
        }
        let mut returned = self.returned.lock().unwrap_or_else(PoisonError::into_inner);
        let at = returned.iter().position(|message| wanted.admits(message))?;
        let message = returned.remove(at);
        self.has_returned
            .store(!returned.is_empty(), Ordering::Release);
        message
    }

    /// Copies a message into memory of the program, or keeps it if it does not fit.
    pub(crate) fn place(
        &self,
        message: suci::Message,
        buffer: &Bound<'_, PyAny>,
    ) -> PyResult<Message> {
        let py = buffer.py();
        let mut target = match WritableBuffer::new(buffer, "buffer") {
            Ok(target) => target,
            Err(error) => {
                self.give_back(message);
                return Err(error);
            }
        };
        let (length, room) = (message.payload.len(), target.bytes().len());
        let Some(place) = target.bytes().get_mut(..length) else {
            self.give_back(message);
            let [length, buffer] = [length, room].map(|n| u64::try_from(n).unwrap_or(u64::MAX));
            return Err(raise(py, &Error::BufferTooShort { length, buffer }));
        };
        match length > LONG_COPY {
            true => py.detach(|| place.copy_from_slice(&message.payload)),
            false => place.copy_from_slice(&message.payload),
        }
        Ok(Message::placed(py, message, view_of_start(buffer, length)?))
    }

    fn give_back(&self, message: suci::Message) {
        let mut returned = self.returned.lock().unwrap_or_else(PoisonError::into_inner);
        returned.push_front(message);
        self.has_returned.store(true, Ordering::Release);
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if self.begin_close() {
            let close = || drop(self.shared.close(DROP_PATIENCE));
            // Other threads of the interpreter run meanwhile.
            if Python::try_attach(|py| py.detach(close)).is_none() {
                drop(self.shared.close(DROP_PATIENCE));
            }
        }
    }
}

/// The thread in which the interpreter ends. Its other threads are daemons.
static ENDS_IN: OnceLock<ThreadId> = OnceLock::new();

/// Whether the interpreter ends in another thread.
pub(crate) fn ends_elsewhere() -> bool {
    let here = || std::thread::current().id();
    ENDS_IN.get().is_some_and(|thread| *thread != here())
}

/// Closes all nodes: called before the interpreter ends.
#[pyfunction]
pub(crate) fn close_all(py: Python<'_>) {
    // Called once.
    let _ = ENDS_IN.set(std::thread::current().id());
    let open = std::mem::take(&mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner));
    let open: Vec<_> = open.iter().filter_map(Weak::upgrade).collect();
    py.detach(|| {
        for core in open {
            if core.begin_close() {
                drop(core.shared.close(DROP_PATIENCE));
            }
        }
    });
    buffer::begin_exit();
    buffer::release(py);
}

/// The messages that a call wants.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    node: Option<NodeId>,
    channel: Option<ChannelId>,
}

impl Wanted {
    pub(crate) const ALL: Self = Self {
        node: None,
        channel: None,
    };

    pub(crate) fn new(
        source: Option<&Bound<'_, PyAny>>,
        channel: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let channel = channel.map(|channel| arguments::channel(channel, "channel"));
        Ok(Self {
            node: source.map(|source| node_id(source, "source")).transpose()?,
            channel: channel.transpose()?,
        })
    }

    /// The library's filter; none for all messages.
    pub(crate) fn filter(self) -> Option<Filter> {
        match (self.node, self.channel) {
            (None, None) => None,
            (Some(node), None) => Some(node.into()),
            (None, Some(channel)) => Some(channel.into()),
            (Some(node), Some(channel)) => Some((node, channel).into()),
        }
    }

    fn admits(self, message: &suci::Message) -> bool {
        self.node.is_none_or(|node| node == message.from)
            && self
                .channel
                .is_none_or(|channel| channel == message.channel)
    }
}

pub(crate) fn timed_out(py: Python<'_>, what: &str, limit: Option<Duration>) -> PyErr {
    let limit = limit.unwrap_or_default();
    let text = format!("{what} within {limit:?}: call again, or allow more time (timeout)");
    exception(py, "TimedOut", &text, |_| Ok(()))
}

/// The next message or event as Python sees it.
pub(crate) fn next_object(py: Python<'_>, next: Next) -> PyResult<Bound<'_, PyAny>> {
    match next {
        Next::Message(message) => Ok(Bound::new(py, Message::new(message))?.into_any()),
        Next::Event(event) => event::event(py, event),
    }
}

/// A node of a cluster: one UDP socket that reaches all others.
///
/// Node(id=None, *, book=None, listen=None, accept='book', ...)
///
/// `id` is the node's number, unique in the cluster. `book` says where the nodes are: the path of
/// an address book, or a dict such as {0: '10.0.0.1:7000'}. Without them the environment decides
/// that `suci run` makes. Further settings (docs/python.md explains them): listen, accept ('book'
/// or 'anyone'), key_file, node_key_files, allow_insecure_network, memory, max_message, send_queue,
/// rts_threshold, max_peers, silence_timeout, give_up_after, payload_checksum, mode, keep_alive,
/// controller, rate_cap, wait, statistics, metrics, shared_memory, forward, ignore_supervision,
/// recv_buffer, send_buffer, backend, faults, threads. Times are in seconds, sizes in bytes.
///
/// Any number of threads may use a node. A context manager closes it:
///
///     with suci.Node(1, book={0: '127.0.0.1:7000', 1: '127.0.0.1:7001'}) as node:
///         node.send(0, b'hello')
///
/// Raises suci.ConfigurationError for settings that cannot work.
#[pyclass(frozen, module = "suci")]
pub(crate) struct Node {
    pub(crate) core: Arc<Core>,
}

impl Node {
    fn receive(
        &self,
        py: Python<'_>,
        limit: Option<Duration>,
        wanted: Wanted,
    ) -> PyResult<suci::Message> {
        if let Some(message) = self.core.take_returned(wanted) {
            return Ok(message);
        }
        let node = &self.core.shared;
        let received = match wanted.filter() {
            None => wait(py, node, limit, node.recv_async())?,
            Some(filter) => wait(py, node, limit, node.recv_from_async(filter))?,
        };
        self.core.received();
        received.ok_or_else(|| timed_out(py, "no message came", limit))
    }
}

#[pymethods]
impl Node {
    #[new]
    #[pyo3(signature = (id=None, **settings), text_signature = "(id=None, **settings)")]
    fn new(
        py: Python<'_>,
        id: Option<&Bound<'_, PyAny>>,
        settings: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let core = Core::open(settings::open(py, id, settings)?);
        Ok(Self { core })
    }

    /// Opens the node that the environment describes, as `suci run` makes it.
    #[staticmethod]
    #[pyo3(signature = (**settings))]
    fn from_env(py: Python<'_>, settings: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        Self::new(py, None, settings)
    }

    // ---- who and where

    /// This node's ID.
    #[getter]
    fn id(&self) -> u32 {
        self.core.shared.id().0
    }

    /// The local address, such as '127.0.0.1:7000', with the port that the system chose.
    #[getter]
    fn address(&self) -> String {
        self.core.shared.local_addr().to_string()
    }

    /// Whether the node is closed or closing.
    #[getter]
    fn closed(&self) -> bool {
        self.core.closed.load(Ordering::Acquire)
    }

    /// The system's setting that keeps the node from working well, and the remedy; None if all is
    /// well.
    #[getter]
    fn warning(&self) -> Option<String> {
        self.core
            .shared
            .warning()
            .map(|warning| warning.to_string())
    }

    /// How many peers the receive buffer serves at once.
    #[getter]
    fn peer_limit(&self) -> u64 {
        self.core.shared.peer_limit()
    }

    /// Enters a node and its address into the book. A known node's address is replaced for its next
    /// connection.
    fn add_peer(
        &self,
        py: Python<'_>,
        node: &Bound<'_, PyAny>,
        address: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let node = node_id(node, "node")?;
        let address = arguments::address(address, "address")?;
        py.detach(|| self.core.shared.add_peer(node, address))
            .or_raise(py)
    }

    /// Removes a node from the book and ends its session at once. Returns whether there was one.
    fn remove_peer(&self, py: Python<'_>, node: &Bound<'_, PyAny>) -> PyResult<bool> {
        let node = node_id(node, "node")?;
        py.detach(|| self.core.shared.remove_peer(node))
            .or_raise(py)
    }

    /// All peers, by ID, as a list of PeerInfo.
    fn peers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let peers = py.detach(|| self.core.shared.peers()).or_raise(py)?;
        let list = PyList::empty(py);
        for peer in &peers {
            list.append(stats::peer_info(py, peer)?)?;
        }
        Ok(list)
    }

    /// One peer: its options, its statistics, its end. Makes no connection.
    fn peer(&self, node: &Bound<'_, PyAny>) -> PyResult<Peer> {
        let id = node_id(node, "node")?;
        Ok(Peer::new(Arc::clone(&self.core), id))
    }

    // ---- sending

    /// Sends a message; waits while the queue to the peer is full.
    ///
    /// `data` is any object with the buffer protocol. Up to 4 KiB are copied. More is held: do not
    /// change it before it was delivered. Options: channel (0 to 16777215), tag, kind (128 to 255),
    /// user_header (up to 255 bytes), notify (True: the event Delivered follows), token (names the
    /// message in events), deadline (seconds after which it is not begun any more), timeout
    /// (seconds to wait for room). Raises WouldBlock after the timeout.
    #[pyo3(signature = (dest, data, **options))]
    fn send(
        &self,
        py: Python<'_>,
        dest: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let to = node_id(dest, "dest")?;
        let sending = sending(data, options)?;
        self.send_waiting(py, to, sending)
    }

    /// Sends a message if there is room for it now; raises WouldBlock if not. The event Writable
    /// says when there is. Options as those of send.
    #[pyo3(signature = (dest, data, **options))]
    fn try_send(
        &self,
        py: Python<'_>,
        dest: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let to = node_id(dest, "dest")?;
        let Sending { message, .. } = sending(data, options)?;
        let sent = py.detach(|| {
            let _attendance = self.core.begin_send();
            self.core.shared.send(to, message)
        });
        buffer::release(py);
        sent.or_raise(py)
    }

    /// Sends one payload to many nodes, and holds it once. Waits while a queue is full. Returns a
    /// dict of the exceptions of those nodes that did not accept it.
    #[pyo3(signature = (dests, data, **options))]
    fn broadcast<'py>(
        &self,
        py: Python<'py>,
        dests: &Bound<'py, PyAny>,
        data: &Bound<'py, PyAny>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let Sending { message, limit } = sending(data, options)?;
        let to: PyResult<Vec<_>> = dests
            .try_iter()?
            .map(|dest| node_id(&dest?, "dest"))
            .collect();
        let failed = PyDict::new(py);
        for to in to? {
            let message = message.clone();
            if let Err(error) = self.send_waiting(py, to, Sending { message, limit }) {
                if !error.is_instance_of::<pyo3::exceptions::PyException>(py) {
                    return Err(error);
                }
                failed.set_item(to.0, error)?;
            }
        }
        Ok(failed)
    }

    /// Sends a request and waits for its reply, which it returns. Options: channel, user_header,
    /// timeout. Raises TimedOut, PeerEnded, PeerDied, CallRefused.
    #[pyo3(signature = (dest, data, **options))]
    fn call(
        &self,
        py: Python<'_>,
        dest: &Bound<'_, PyAny>,
        data: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Message> {
        let to = node_id(dest, "dest")?;
        let Sending { message, limit } = sending(data, options)?;
        let calling = self
            .core
            .shared
            .call_async(to, message, limit.unwrap_or(FOREVER));
        self.core.received();
        let reply = wait_to_send(py, &self.core, None, calling);
        buffer::release(py);
        let reply = reply?.ok_or_else(|| timed_out(py, "no reply came", limit))?;
        Ok(Message::new(reply))
    }

    /// Answers a request. Options: user_header, kind, notify, token, timeout.
    #[pyo3(signature = (request, data, **options))]
    fn reply(
        &self,
        py: Python<'_>,
        request: &Bound<'_, Message>,
        data: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let Sending { message, limit } = sending(data, options)?;
        let request = request.get().inner();
        let message = request.reply(message).or_raise(py)?;
        self.send_waiting(py, request.from, Sending { message, limit })
    }

    // ---- receiving

    /// Waits for the next message, of one node (source), on one channel, or any. Raises TimedOut
    /// after timeout seconds, and Closed once the node is closed and everything was taken. With
    /// source: PeerEnded when its session is over and nothing of it is left.
    #[pyo3(signature = (timeout=None, *, source=None, channel=None))]
    fn recv(
        &self,
        py: Python<'_>,
        timeout: Option<&Bound<'_, PyAny>>,
        source: Option<&Bound<'_, PyAny>>,
        channel: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Message> {
        let limit = arguments::timeout(timeout)?;
        let wanted = Wanted::new(source, channel)?;
        self.receive(py, limit, wanted).map(Message::new)
    }

    /// The next message if there is one now, else None.
    #[pyo3(signature = (*, source=None, channel=None))]
    fn try_recv(
        &self,
        py: Python<'_>,
        source: Option<&Bound<'_, PyAny>>,
        channel: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Option<Message>> {
        buffer::release(py);
        let wanted = Wanted::new(source, channel)?;
        if let Some(message) = self.core.take_returned(wanted) {
            return Ok(Some(Message::new(message)));
        }
        let node = &self.core.shared;
        let received = match wanted.filter() {
            None => node.try_recv(),
            Some(filter) => node.try_recv_from(filter),
        };
        let received = received.or_raise(py)?;
        if received.is_some() {
            self.core.received();
        }
        Ok(received.map(Message::new))
    }

    /// Waits for the next message and copies it into `buffer`, writable contiguous memory such as a
    /// numpy array. Returns the message; its payload is a view of the buffer. Raises BufferTooShort
    /// if it does not fit, and keeps it for the next call that receives.
    #[pyo3(signature = (buffer, timeout=None, *, source=None, channel=None))]
    fn recv_into<'py>(
        &self,
        py: Python<'py>,
        buffer: &Bound<'py, PyAny>,
        timeout: Option<&Bound<'py, PyAny>>,
        source: Option<&Bound<'py, PyAny>>,
        channel: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Message> {
        let limit = arguments::timeout(timeout)?;
        let wanted = Wanted::new(source, channel)?;
        // It is held meanwhile, so that its size cannot change.
        let _held = WritableBuffer::new(buffer, "buffer")?;
        self.core.place(self.receive(py, limit, wanted)?, buffer)
    }

    /// Waits for the next message or event, in exact order.
    #[pyo3(signature = (timeout=None))]
    fn next<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let limit = arguments::timeout(timeout)?;
        if let Some(message) = self.core.take_returned(Wanted::ALL) {
            return next_object(py, Next::Message(message));
        }
        let node = &self.core.shared;
        let next = wait(py, node, limit, node.next_async())?;
        self.core.received();
        let next = next.ok_or_else(|| timed_out(py, "no message or event came", limit))?;
        next_object(py, next)
    }

    /// The next message or event if there is one now, else None.
    fn try_next<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        buffer::release(py);
        if let Some(message) = self.core.take_returned(Wanted::ALL) {
            return next_object(py, Next::Message(message)).map(Some);
        }
        let next = self.core.shared.try_next().or_raise(py)?;
        if next.is_some() {
            self.core.received();
        }
        next.map(|next| next_object(py, next)).transpose()
    }

    /// Waits for the next event; messages stay.
    #[pyo3(signature = (timeout=None))]
    fn next_event<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let limit = arguments::timeout(timeout)?;
        let node = &self.core.shared;
        let next = wait(py, node, limit, node.event_async())?;
        let next = next.ok_or_else(|| timed_out(py, "no event came", limit))?;
        event::event(py, next)
    }

    /// The events that are there, as a list; messages stay.
    fn events<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for next in self.core.shared.events().or_raise(py)? {
            list.append(event::event(py, next)?)?;
        }
        Ok(list)
    }

    /// Takes the long message that the event Incoming announced. It comes as any other, into memory
    /// of the library, or into `buffer` (writable, contiguous, of exactly that length), which is
    /// held until then.
    #[pyo3(signature = (event, buffer=None))]
    fn accept(
        &self,
        py: Python<'_>,
        event: &Bound<'_, PyAny>,
        buffer: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (node, channel, number) = event::announced(event)?;
        let shared = &self.core.shared;
        let accepted = match buffer {
            None => py.detach(|| shared.accept(node, channel, number)),
            Some(buffer) => {
                let buffer = HeldBuffer::writable(buffer, "buffer")?;
                let buffer = ReceiveBuffer::from_owner(buffer);
                py.detach(|| shared.accept_into(node, channel, number, buffer))
            }
        };
        buffer::release(py);
        accepted.or_raise(py)
    }

    /// Refuses the long message that the event Incoming announced. Its sender hears the reason.
    #[pyo3(signature = (event, reason=None))]
    fn refuse(
        &self,
        py: Python<'_>,
        event: &Bound<'_, PyAny>,
        reason: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (node, channel, number) = event::announced(event)?;
        let reason = reason.map_or(Ok(0), |reason| arguments::word(reason, "reason"))?;
        py.detach(|| self.core.shared.refuse(node, channel, number, reason))
            .or_raise(py)
    }

    // ---- groups and members

    /// Makes a group of `members`, node IDs of which this one is one, in an order that all of them
    /// name alike. `number`, below 2097152, tells groups apart that have members in common.
    fn group(
        &self,
        py: Python<'_>,
        number: &Bound<'_, PyAny>,
        members: &Bound<'_, PyAny>,
    ) -> PyResult<Group> {
        Group::new(py, &self.core, number, members)
    }

    /// The members of the cluster (setting `cluster`) that are known and alive, as a list of
    /// Member.
    fn members<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let members = py.detach(|| self.core.shared.members()).or_raise(py)?;
        let list = PyList::empty(py);
        for member in &members {
            list.append(stats::member(py, member)?)?;
        }
        Ok(list)
    }

    /// Waits until this node has joined its cluster. Raises Error, which says of each seed why not,
    /// after timeout seconds.
    #[pyo3(signature = (timeout=None))]
    fn wait_joined(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let limit = arguments::timeout(timeout)?.unwrap_or(FOREVER);
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let (begun, slice) = (Instant::now(), left.min(SLICE));
            match py.detach(|| self.core.shared.wait_joined(slice)) {
                // The program's time is not over. What cannot change is told at once.
                Err(Error::NotJoined { .. }) if left > slice && begun.elapsed() >= slice => {
                    py.check_signals()?;
                }
                joined => return joined.or_raise(py),
            }
        }
    }

    // ---- statistics

    /// The counters since the node was opened, as a dict.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = py.detach(|| self.core.shared.counters()).or_raise(py)?;
        stats::counters(py, &counters)
    }

    /// The counters of the socket, as a dict.
    fn socket_counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = py
            .detach(|| self.core.shared.socket_counters())
            .or_raise(py)?;
        stats::socket_counters(py, &counters)
    }

    // ---- the descriptor and the end

    /// A descriptor for select, poll, epoll and event loops: readable while a message or an event
    /// waits. try_next() that returns None makes it unreadable.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        if self.closed() {
            return Err(raise(py, &Error::Closed));
        }
        if self.core.process != std::process::id() {
            return Err(raise(py, &Error::Forked));
        }
        Ok(self.core.shared.as_raw_fd())
    }

    /// Waits until every accepted message was acknowledged or has failed. Raises NotFlushed for
    /// those that were not.
    #[pyo3(signature = (timeout=None))]
    fn flush(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let limit = arguments::timeout(timeout)?;
        let node = &self.core.shared;
        match wait(py, node, limit, node.flush_async())? {
            Some(()) => Ok(()),
            // Says which peers have not acknowledged everything.
            None => py.detach(|| node.flush(Duration::ZERO)).or_raise(py),
        }
    }

    /// Closes the node: waits until every peer has everything and knows of the end, for at most
    /// timeout seconds (5). Raises NotFlushed if some do not; the node is closed all the same. What
    /// was received can still be taken. A second close does nothing.
    #[pyo3(signature = (timeout=None))]
    fn close(&self, py: Python<'_>, timeout: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let limit = arguments::timeout(timeout)?;
        let limit = limit.unwrap_or(Duration::from_secs_f64(CLOSE_PATIENCE));
        self.close_within(py, limit)
    }

    fn __enter__(this: Bound<'_, Self>) -> Bound<'_, Self> {
        this
    }

    /// Closes the node; at once, if the block failed.
    #[pyo3(signature = (kind, value, trace))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let _ = (value, trace);
        if kind.is_none() {
            return self.close_within(py, Duration::from_secs_f64(CLOSE_PATIENCE));
        }
        // The failure of the block is what the program must see.
        let _ = self.close_within(py, Duration::ZERO);
        Ok(())
    }

    fn __repr__(&self) -> String {
        let state = if self.closed() { ", closed" } else { "" };
        format!("<suci.Node {} at {}{state}>", self.id(), self.address())
    }

    fn __reduce__(&self) -> PyResult<Bound<'_, PyTuple>> {
        Err(pyo3::exceptions::PyTypeError::new_err(
            "a Node cannot be pickled: it belongs to its process; open one in each process",
        ))
    }
}

impl Node {
    pub(crate) fn send_waiting(
        &self,
        py: Python<'_>,
        to: NodeId,
        sending: Sending,
    ) -> PyResult<()> {
        let Sending { message, limit } = sending;
        let sending = self.core.shared.send_async(to, message);
        let sent = wait_to_send(py, &self.core, limit, sending);
        buffer::release(py);
        match sent? {
            Some(()) => Ok(()),
            None => Err(exception(
                py,
                "WouldBlock",
                &format!(
                    "the queue to node {to} is full: allow more time (timeout), or raise send_queue"
                ),
                |with| with.set_item("node", to.0),
            )),
        }
    }

    fn close_within(&self, py: Python<'_>, limit: Duration) -> PyResult<()> {
        if self.core.process != std::process::id() {
            return Err(raise(py, &Error::Forked));
        }
        if !self.core.begin_close() {
            return Ok(());
        }
        let node = &self.core.shared;
        wait(py, node, None, node.close_async(limit)).map(drop)
    }
}

/// A view of the first bytes of an object's memory.
fn view_of_start<'py>(
    object: &Bound<'py, PyAny>,
    length: usize,
) -> PyResult<Bound<'py, PyMemoryView>> {
    let py = object.py();
    if length == 0 {
        // Views of arrays without elements have no bytes to cast to.
        return PyMemoryView::from(&pyo3::types::PyBytes::new(py, b""));
    }
    let view = PyMemoryView::from(object)?.call_method1("cast", ("B",))?;
    let slice = pyo3::types::PySlice::new(py, 0, isize::try_from(length)?, 1);
    Ok(view.get_item(slice)?.cast_into::<PyMemoryView>()?)
}
