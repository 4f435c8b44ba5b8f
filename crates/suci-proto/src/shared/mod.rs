//! The state that all peers of an engine share: settings, randomness, counters, budgets and the
//! queues to the program.

mod admission_queue;
mod calls;
mod input;
mod memory;
mod paths;

pub(crate) use admission_queue::{AdmissionQueue, Asker};
pub use calls::{CallError, CallId, CallResult};
pub(crate) use calls::{Calls, OpenCall};
pub use input::{MemberChange, PortInput};
pub(crate) use memory::{MemoryShares, Promise};
pub(crate) use paths::Paths;
pub use paths::RouteQuery;

use crate::config::Config;
use crate::counters::Counters;
use crate::credit::Shares;
use crate::log::Log;
use rand_chacha::ChaCha8Rng;
use rand_core::Rng;
use slab::Slab;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use suci_channels::message::Pool;
use suci_channels::port::{PORTS, Port};
use suci_link::ranges::RangeSet;
use suci_link::recovery::SentFrame;
use suci_link::security::Sealing;
use suci_link::time::Instant;
use suci_link::train::{Destination, Train};
use suci_link::types::{ChannelId, Ecn, Incarnation, NodeId, SessionNumber};
use suci_link::wire::{CLOSE_FINISHED, CLOSE_LEAVING};

/// The identity of this engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its node ID.
    pub node: NodeId,
    /// This start of the process: 128 random bits.
    pub incarnation: Incarnation,
}

/// Replies of the stateless kind that may wait for the socket; more are dropped (F04). They take at
/// most some hundred KiB, and a node whose reply was dropped asks again.
const MAX_REPLIES: usize = 256;

/// A packet outside of any session state that waits for the socket.
#[derive(Debug)]
pub(crate) struct Reply {
    to: Destination,
    bytes: Vec<u8>,
    /// The keys under which it is sealed when it is sent for the first time: nothing may be sealed
    /// between a jump of the clock, which the driver looks for before it sends, and a fresh
    /// handshake.
    sealing: Option<Box<Sealing>>,
    /// How often it is still to be sent.
    times: u32,
}

impl Reply {
    fn once(to: Destination, bytes: Vec<u8>) -> Self {
        Self {
            to,
            bytes,
            sealing: None,
            times: 1,
        }
    }
}

/// The state of an engine that belongs to no single peer.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Arc<Config>,
    pub(crate) identity: Identity,
    pub(crate) rng: ChaCha8Rng,
    pub(crate) counters: Counters,
    pub(crate) log: Log,
    pub(crate) shares: Shares,
    /// The nodes that wait for a slot among the peers with shares.
    pub(crate) admission_queue: AdmissionQueue,
    pub(crate) memory: MemoryShares,
    pub(crate) pool: Pool,
    /// True if the node closes: its CLOSEs say so, and no new session begins.
    pub(crate) closing: bool,
    /// Peers with events for the program, each once.
    pub(crate) peers_with_events: VecDeque<usize>,
    /// Number of announced messages, over all peers, of which no event and no receiving call told
    /// the program.
    pub(crate) unreported: usize,
    /// Messages were found to wait for a peer, a timer or the socket since the driver asked.
    pub(crate) found_waiting: bool,
    /// Peers whose suspension changed since the driver asked: at most every peer known, each once.
    pub(crate) resuspended: BTreeSet<NodeId>,
    /// Peers that were lost since the driver asked: at most every peer known, each once.
    pub(crate) lost: BTreeSet<NodeId>,
    /// Channels of groups that ended, by their numbers: messages that come there are dropped.
    /// Groups that are numbered one after the other take few ranges.
    pub(crate) ended_groups: RangeSet,
    /// Peers in the book whose messages on these channels were dropped, in which sessions, until
    /// somebody [asks](crate::Engine::poll_late_of_group). Bounded by the book and the groups that
    /// ended.
    pub(crate) late_of_groups: BTreeMap<(NodeId, ChannelId), SessionNumber>,
    pub(crate) calls: Calls,
    /// Input of each port that comes before the messages of present sessions.
    pub(crate) news: [VecDeque<PortInput>; PORTS],
    /// The peer that each connection index leads to.
    pub(crate) routes: Slab<u32>,
    /// Handshake packets and hints that wait to be sent.
    pub(crate) replies: VecDeque<Reply>,
    pub(crate) paths: Paths,
    /// How many peers are known.
    pub(crate) acquaintances: usize,
    /// How many of the known peers are strangers or were connected at some time. Nodes of the book
    /// that never were connected do not count against `max_peers`.
    pub(crate) met: usize,
    /// The frames of the packet being built: kept to spare the allocation.
    pub(crate) frames: Vec<SentFrame>,
    /// The packet being received suspended its session (true) or resumed it, in this order.
    pub(crate) heard_suspensions: Vec<bool>,
    /// Disables building packets together, for tests that compare both ways.
    #[cfg(test)]
    pub(crate) one_by_one: bool,
    /// Packets that were built together, and received packets that joined the range of the one
    /// before.
    #[cfg(test)]
    pub(crate) built_together: u64,
    #[cfg(test)]
    pub(crate) taken_together: u64,
}

impl Shared {
    /// Puts input at a port, if a layer takes it there.
    pub(crate) fn tell_port(&mut self, port: Port, input: PortInput) {
        if self.config.ports.has(port) {
            self.news[port as usize].push_back(input);
        }
    }

    /// Puts input at each port that hears of peers.
    pub(crate) fn tell_ports(&mut self, input: impl Fn() -> PortInput) {
        for port in Port::ALL.into_iter().filter(|port| port.hears_of_peers()) {
            self.tell_port(port, input());
        }
    }

    pub(crate) fn new(
        config: Arc<Config>,
        identity: Identity,
        rng: ChaCha8Rng,
        shares: Shares,
        pool: Pool,
    ) -> Self {
        Self {
            identity,
            rng,
            counters: Counters::default(),
            log: Log::default(),
            shares,
            admission_queue: AdmissionQueue::default(),
            memory: MemoryShares::new(config.memory),
            pool,
            closing: false,
            peers_with_events: VecDeque::new(),
            unreported: 0,
            found_waiting: false,
            resuspended: BTreeSet::new(),
            lost: BTreeSet::new(),
            ended_groups: RangeSet::new(),
            late_of_groups: BTreeMap::new(),
            calls: Calls::default(),
            news: Default::default(),
            routes: Slab::new(),
            replies: VecDeque::new(),
            paths: Paths::default(),
            acquaintances: 0,
            met: 0,
            frames: Vec::new(),
            heard_suspensions: Vec::new(),
            #[cfg(test)]
            one_by_one: false,
            #[cfg(test)]
            built_together: 0,
            #[cfg(test)]
            taken_together: 0,
            config,
        }
    }

    /// Returns a random number.
    pub(crate) fn random(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// Notes that a session with `node` was suspended or resumed, or ended while it was suspended.
    pub(crate) fn on_suspension(&mut self, node: NodeId) {
        self.counters.suspensions += 1;
        self.resuspended.insert(node);
    }

    /// Returns the largest UDP payload, in bytes, that a peer at `address` should send over a
    /// connection made now: the path carries it, and the socket's budget takes it from all known
    /// peers.
    pub(crate) fn datagram_from(&self, address: SocketAddr) -> usize {
        let path = self.paths.largest_from(address);
        let most = path.min(self.config.max_datagram);
        self.shares.datagram_for(most, self.acquaintances)
    }

    /// Returns true if one more connection, with `who`, gets a slot now. If not, `who` waits for
    /// its turn.
    pub(crate) fn has_slot(&mut self, now: Instant, who: Asker) -> bool {
        let slots = self.shares.free_slots();
        if slots > 0 && self.admission_queue.len(now) == 0 {
            return true;
        }
        self.admission_queue.ask(now, who, slots)
    }

    /// Returns true if a handshake packet would be queued. A packet to an unknown node only uses
    /// the first half of the queue.
    pub(crate) fn may_reply(&self, known: bool) -> bool {
        let most = if known { MAX_REPLIES } else { MAX_REPLIES / 2 };
        self.replies.len() < most
    }

    /// Queues a handshake packet to a node that is known or proved its address; drops the packet if
    /// too many wait. Returns whether it is queued.
    pub(crate) fn reply(&mut self, to: Destination, bytes: Vec<u8>) -> bool {
        self.queue_reply(Reply::once(to, bytes), true)
    }

    /// Returns the code of a CLOSE that ends a session because the program wants it.
    pub(crate) fn close_code(&self) -> u64 {
        match self.closing {
            true => CLOSE_LEAVING,
            false => CLOSE_FINISHED,
        }
    }

    /// As [`reply`](Self::reply), for the last packet of a connection, header and frames, which is
    /// not repeated when lost: it is sent `times` times at once.
    pub(crate) fn reply_last(
        &mut self,
        times: u32,
        to: Destination,
        bytes: Vec<u8>,
        sealing: Option<Box<Sealing>>,
    ) {
        let reply = Reply {
            to,
            bytes,
            sealing,
            times,
        };
        self.queue_reply(reply, true);
    }

    /// Drops the packets that wait and are not sealed yet.
    pub(crate) fn drop_unsealed(&mut self) {
        self.replies.retain(|reply| reply.sealing.is_none());
    }

    /// As [`reply`](Self::reply), for answers that anyone can ask for, even with a forged address.
    pub(crate) fn reply_to_anyone(&mut self, to: Destination, bytes: Vec<u8>) -> bool {
        self.queue_reply(Reply::once(to, bytes), false)
    }

    fn queue_reply(&mut self, reply: Reply, known: bool) -> bool {
        let queued = self.may_reply(known);
        if queued {
            self.replies.push_back(reply);
        } else {
            self.counters.handshake_rejected += 1;
        }
        queued
    }

    /// Puts the next reply into `train`. A reply that is sent several times goes to the end of the
    /// queue after each. Returns whether there was one.
    pub(crate) fn write_reply(&mut self, train: &mut Train) -> bool {
        let Some(mut reply) = self.replies.pop_front() else {
            return false;
        };
        if let Some(mut sealing) = reply.sealing.take() {
            reply.bytes = sealing.seal_alone(&reply.bytes);
        }
        train.begin(reply.to, Ecn::NotEct);
        train.single(&reply.bytes);
        reply.times = reply.times.saturating_sub(1);
        if reply.times > 0 {
            self.replies.push_back(reply);
        }
        true
    }

    /// Returns an index for packets from `node` to us: its lowest byte is that of the node's ID,
    /// which names the shard; the rest is an index into `routes`.
    pub(crate) fn allocate_index(&mut self, node: NodeId, peer: usize) -> u32 {
        let route = self.routes.insert(peer as u32) as u32;
        (route << 8) | (node.0 & 0xff)
    }

    /// Gives an index back.
    pub(crate) fn free_index(&mut self, index: u32) {
        let route = (index >> 8) as usize;
        if self.routes.contains(route) {
            self.routes.remove(route);
        }
    }

    /// Returns the peer that `index` leads to.
    pub(crate) fn route(&self, index: u32) -> Option<usize> {
        let peer = self.routes.get((index >> 8) as usize)?;
        Some(*peer as usize)
    }
}
