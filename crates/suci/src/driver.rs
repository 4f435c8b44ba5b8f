//! Keeps the engine's driving contract over a backend: input, then timers, then output.
//!
//! [`cycle`] has the driver's cycle and the calls that run all of it or a part. The cycle takes
//! datagrams ([`input`]), transmits ([`output`]) and waits ([`waits`]). [`sends`] and [`takes`] are
//! the program's side: accepting messages, and handing them over.
//!
//! The driver goes by one time, `now`, which [`read_clock`](Driver::read_clock) brings up to date:
//! at the beginning of a call, after a sleep, after several datagrams, and before each further
//! train. All parts of the cycle use that time, so that none reads the clock again without need. A
//! method whose name ends in `_now` reads the clock first.

use crate::calls::CallIds;
use crate::clock::{Clock, ClockJumps, Deadline, Stamps};
use crate::error::Error;
use crate::group::ServedGroups;
use crate::launcher::{Launcher, Notice};
use crate::message::Message;
use crate::metrics::Responder;
use crate::names::Names;
use crate::placement::Places;
use crate::security::{KeyChanges, SharedKeys};
use crate::shared::CrossShardQueue;
use crate::shared_memory::MappedRegions;
use crate::sockets::SocketTable;
use crate::statistics::Publisher;
use crate::sys;
use crate::wait::{Awaited, WaitPolicy, Waiter};
use crate::waker::Wakes;
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use suci_layers::sockets::SocketService;
use suci_net::Backend;
use suci_proto::time::Instant;
use suci_proto::types::NodeId;
use suci_proto::{Engine, Event, PeerError, SendError};

mod coalescer;
mod cycle;
mod groups;
mod input;
mod matching;
mod membership;
mod output;
mod remote;
mod routes;
mod sends;
mod sockets;
mod takes;
mod waits;

pub(crate) use coalescer::SendCoalescer;
pub(crate) use cycle::Poll;
use cycle::STALE;
use input::{Follows, LastPoll};
pub(crate) use membership::MembershipPart;
pub(crate) use routes::RoutesPart;
use takes::Takes;
pub(crate) use waits::PlannedSleep;

/// Longest wait for repeated CLOSEs of peers after everything else is done.
const LINGER: Duration = Duration::from_millis(500);

/// An engine, its socket and its clock.
pub(crate) struct Driver {
    pub(crate) engine: Engine,
    backend: Box<dyn Backend>,
    /// The time of the last [`read_clock`](Self::read_clock).
    now: Instant,
    stamps: Stamps,
    /// The largest number of segments that a train may have.
    max_segments: usize,
    /// Decides how the program's waits are done.
    pub(crate) waiter: Waiter,
    last_poll: LastPoll,
    /// Number of sleeps in `ppoll` and of timed sleeps. The backend counts sleeps in a receive.
    sleeps: u64,
    /// Buffer into which a train with too many pieces is copied.
    spill: Vec<u8>,
    /// The socket was full at the last send.
    want_write: bool,
    /// The last output stopped early, to poll the socket first: more may be sent.
    pub(crate) tx_incomplete: bool,
    /// An output found messages that wait for an answer of a peer, a timer or the socket.
    held_up: bool,
    /// Another thread asks this one to end its input or output, since something urgent waits.
    pub(crate) interrupt: Arc<AtomicBool>,
    /// A message that the program returned. The next receiving call takes it first.
    returned: Option<Message>,
    /// The IDs of the program's requests.
    pub(crate) call_ids: CallIds,
    /// The way to the other shards of the node, if there are any.
    pub(crate) cross_shard: Option<CrossShardQueue>,
    /// The launcher's pipe, which reports ended processes, and the reports not yet handed on.
    pub(crate) launcher: Option<Launcher>,
    notices: Vec<Notice>,
    /// Peers whose names are looked up again while they are lost.
    pub(crate) names: Option<Names>,
    takes: Takes,
    /// The program takes active messages.
    takes_active: bool,
    /// Decides if messages wait for the program's next call.
    pub(crate) coalescer: SendCoalescer,
    pub(crate) publishers: Publishers,
    /// The groups whose operations this driver carries on.
    pub(crate) groups: ServedGroups,
    /// Ends the waits of the program's calls, if the program asked for it.
    pub(crate) wakes: Option<Arc<Wakes>>,
    /// The memory that the engine's messages may be put into, and one-sided operations.
    pub(crate) places: Arc<Places>,
    /// Messages of one-sided operations wait for room.
    remote_waits: bool,
    /// It had one-sided operations.
    pub(crate) served_remote: bool,
    /// In a sealed node: notices that this may be a restored snapshot.
    clock_jumps: Option<ClockJumps>,
    /// The keys of a sealed node.
    pub(crate) keys: Option<KeyChanges>,
    /// The node's membership, if it is a member.
    pub(crate) membership: Option<Box<MembershipPart>>,
    /// The node's routes.
    pub(crate) routes: Option<Box<RoutesPart>>,
    /// The sockets with this driver's peers.
    pub(crate) sockets: Arc<SocketTable>,
    socket_service: SocketService,
    /// The memory of other processes that this one has mapped.
    pub(crate) mapped: Option<Arc<MappedRegions>>,
    /// Descriptors of another thread of the node that a forked child must close.
    pub(crate) inherited: Vec<RawFd>,
}

/// The parts that publish the node's counters: an HTTP responder and a statistics file.
#[derive(Default)]
pub(crate) struct Publishers {
    pub(crate) responder: Option<Responder>,
    pub(crate) publisher: Option<Publisher>,
}

impl Driver {
    pub(crate) fn new(engine: Engine, backend: Box<dyn Backend>, places: Arc<Places>) -> Self {
        let now = Clock.now();
        let sealed = engine.is_sealed();
        let clock_jumps = sealed.then(|| ClockJumps::new(sys::wall_nanos));
        Self {
            max_segments: backend.capabilities().max_segments,
            waiter: Waiter::new(backend.capabilities().block_limit),
            last_poll: LastPoll::new(now),
            sleeps: 0,
            engine,
            backend,
            now,
            stamps: Stamps::default(),
            spill: Vec::new(),
            want_write: false,
            tx_incomplete: false,
            held_up: false,
            interrupt: Arc::default(),
            returned: None,
            call_ids: CallIds::default(),
            cross_shard: None,
            launcher: None,
            notices: Vec::new(),
            names: None,
            takes: Takes::default(),
            takes_active: false,
            coalescer: SendCoalescer::new(),
            publishers: Publishers::default(),
            groups: ServedGroups::new(Arc::clone(&places.groups)),
            wakes: None,
            places,
            remote_waits: false,
            served_remote: false,
            clock_jumps,
            keys: None,
            membership: None,
            routes: None,
            sockets: Arc::default(),
            socket_service: SocketService::default(),
            mapped: None,
            inherited: Vec::new(),
        }
    }

    /// The program enters a peer: its address counts, and no name.
    pub(crate) fn add_peer(&mut self, node: NodeId, address: SocketAddr) -> Result<(), PeerError> {
        self.forget_name(node);
        self.set_neighbour(node, true);
        let now = self.read_clock();
        self.engine.add_peer(now, node, address)
    }

    /// The program removes a peer. Returns whether there was a session.
    pub(crate) fn remove_peer(&mut self, node: NodeId) -> Result<bool, SendError> {
        self.forget_name(node);
        self.set_neighbour(node, false);
        let now = self.read_clock();
        self.engine.remove_peer(now, node)
    }

    fn forget_name(&mut self, node: NodeId) {
        if let Some(names) = &mut self.names {
            names.forget(node);
        }
    }

    /// Takes the wake that ends the call's wait, if there is one.
    pub(crate) fn take_wake(&self) -> bool {
        self.wakes.as_ref().is_some_and(|wakes| wakes.take())
    }

    /// Returns the descriptors that a forked child must close, the socket last.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        let responder = self.publishers.responder.iter();
        let launcher = self.launcher.iter().map(Launcher::descriptor);
        let responder = responder.flat_map(Responder::descriptors);
        let socket = [self.interest().socket];
        let others = responder.chain(launcher);
        others.chain(self.inherited.clone()).chain(socket).collect()
    }

    /// Whether input or output should end, since another thread has something urgent for this one.
    fn is_interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    /// Brings the driver's time up to date, and returns it.
    #[inline]
    pub(crate) fn read_clock(&mut self) -> Instant {
        self.now = Clock.now();
        self.now
    }

    /// Changes the node's keys. What arrives afterwards is not opened under a key that was taken
    /// out, even if it waits in the socket already.
    pub(crate) fn change_keys(
        &mut self,
        change: impl FnOnce(&SharedKeys) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let changes = self.keys.as_ref().ok_or(Error::NotSealed)?;
        change(changes.keys())?;
        self.read_clock();
        self.renew_keys();
        Ok(())
    }

    /// Makes fresh handshakes if the node's keys changed.
    pub(crate) fn renew_keys(&mut self) {
        let Some(keys) = &mut self.keys else {
            return;
        };
        for (peer, renewal) in keys.take(self.now) {
            match peer {
                Some(peer) => self.engine.renew_keys_of(self.now, peer, renewal),
                None => self.engine.renew_keys(self.now, renewal),
            }
        }
    }

    // ---- the program's side

    /// Whether a message or an event waits for the program, or an active message, if it takes them.
    pub(crate) fn has_message_or_event(&self) -> bool {
        self.has_message()
            || self.engine.has_event()
            || self.takes_active && self.engine.has_active()
    }

    fn has_message(&self) -> bool {
        self.returned.is_some() || self.engine.has_message()
    }

    /// Accepts the first announced message of at most `room` bytes that waits for a decision, into
    /// memory of its own. Returns whether there was one.
    ///
    /// # Errors
    /// [`Error::BufferTooShort`] if all announced messages are longer.
    pub(crate) fn accept_announced(&mut self, room: u64) -> Result<bool, Error> {
        let mut longer = None;
        let mut waiting = self.engine.announcements();
        let fitting = waiting.find_map(|event| match *event {
            Event::Incoming {
                node,
                channel,
                number,
                total,
                ..
            } if total <= room => Some((node, channel, number, usize::try_from(total).ok()?)),
            Event::Incoming { total, .. } => {
                longer = longer.or(Some(total));
                None
            }
            _ => None,
        });
        drop(waiting);
        let Some((node, channel, number, total)) = fitting else {
            return longer.map_or(Ok(false), |length| {
                let buffer = room;
                Err(Error::BufferTooShort { length, buffer })
            });
        };
        let buffer = Some(vec![0; total].into());
        self.engine.accept(node, channel, number, buffer)?;
        self.output_now()?;
        Ok(true)
    }

    /// Peers with messages that are not acknowledged, or that failed without an event that the
    /// program took. Each comes with the number of those messages.
    pub(crate) fn unflushed(&self) -> Vec<(NodeId, u64)> {
        let all = self.engine.unflushed();
        let mut peers: Vec<_> = all
            .map(|(node, open, failed)| (node, open.saturating_add(failed)))
            .collect();
        peers.sort_unstable();
        peers
    }

    /// Whether every peer has acknowledged everything.
    pub(crate) fn is_flushed(&self) -> bool {
        self.engine.unflushed().all(|(_, open, _)| open == 0)
    }

    /// Returns an error if a peer did not get everything and the program does not know it yet. From
    /// then on it counts as known.
    pub(crate) fn flushed(&mut self) -> Result<(), Error> {
        let peers = self.unflushed();
        if peers.is_empty() {
            Ok(())
        } else {
            self.engine.flush_failures();
            Err(Error::NotFlushed { peers })
        }
    }

    /// Blocks until every peer has everything and knows of the end, for at most `patience`.
    pub(crate) fn close(&mut self, patience: Duration) -> Result<(), Error> {
        self.waiter.begin(WaitPolicy::Sleep, Awaited::Progress);
        self.close_with(patience, Self::wait_and_run_cycle)
    }

    /// As [`Driver::close`], with a `wait` that may also wait for other things than the socket.
    pub(crate) fn close_with(
        &mut self,
        patience: Duration,
        mut wait: impl FnMut(&mut Self, Deadline) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let now = self.read_clock();
        // Begins later than the engine's own deadline, which is therefore over when this one is.
        let deadline = Deadline::after(patience);
        self.leave_cluster();
        self.close_routed(now, patience / 2, &mut wait)?;
        let now = self.read_clock();
        self.engine.close(now, deadline.left().unwrap_or(patience));
        self.run_cycle()?;
        while !self.engine.is_closed() && !deadline.is_over() {
            wait(self, deadline)?;
        }
        // Messages that are left get their outcome, and every peer hears of the end.
        let end = Deadline::after(LINGER);
        self.run_cycle()?;
        while self.tx_incomplete && !end.is_over() {
            self.output_now()?;
        }
        let result = self.flushed();
        // A peer that closed first may not know that we received its CLOSE; it repeats the CLOSE.
        let linger = deadline.earlier(end);
        while self.engine.next_timeout().is_some() && !linger.is_over() {
            wait(self, linger)?;
        }
        if let Some(mut publisher) = self.publishers.publisher.take() {
            publisher.publish(self.read_clock(), &self.engine, &self.backend_counters());
        }
        result
    }

    pub(crate) fn backend_counters(&self) -> suci_net::Counters {
        let mut counters = self.backend.counters();
        counters.wait_calls += self.sleeps;
        counters
    }
}

/// The error of a driver without a descriptor to sleep on.
pub(crate) fn no_descriptor() -> Error {
    let source = io::Error::from(io::ErrorKind::Unsupported);
    Error::Io {
        doing: "the backend has no descriptor to wait on",
        source,
    }
}

#[cfg(test)]
mod tests;
