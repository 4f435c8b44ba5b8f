//! The state that all peers of an engine share: settings, randomness, counters, budgets and the
//! queues to the program.

mod admission_queue;
mod calls;
mod indices;
mod input;
mod memory;
mod notices;
mod paths;
mod replies;

pub(crate) use admission_queue::{AdmissionQueue, Asker};
pub use calls::{CallError, CallId, CallResult};
pub(crate) use calls::{Calls, OpenCall};
pub(crate) use indices::Indices;
pub use input::{MemberChange, PortInput};
pub(crate) use memory::{MemoryShares, Promise};
pub(crate) use notices::Notices;
pub(crate) use paths::Paths;
pub use paths::RouteQuery;
pub(crate) use replies::Replies;

use crate::config::Config;
use crate::counters::Counters;
use crate::credit::Shares;
use crate::handshake::packets::Issuer;
use crate::log::Log;
use rand_chacha::ChaCha8Rng;
use rand_core::Rng;
use std::net::SocketAddr;
use std::sync::Arc;
use suci_channels::message::{Pool, SentFrame};
use suci_link::link::Recorded;
use suci_link::time::Instant;
use suci_link::types::{Incarnation, NodeId};
use suci_link::wire::{CLOSE_FINISHED, CLOSE_LEAVING};

/// The identity of this engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its node ID.
    pub node: NodeId,
    /// This start of the process: 128 random bits.
    pub incarnation: Incarnation,
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
    pub(crate) notices: Notices,
    pub(crate) indices: Indices,
    pub(crate) replies: Replies,
    pub(crate) paths: Paths,
    /// How many peers are known.
    pub(crate) acquaintances: usize,
    /// How many of the known peers are strangers or were connected at some time. Nodes of the book
    /// that never were connected do not count against `max_peers`.
    pub(crate) met: usize,
    /// The frames of the packet being built: kept to spare the allocation.
    pub(crate) frames: Vec<Recorded<SentFrame>>,
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
            notices: Notices::new(config.ports),
            indices: Indices::default(),
            replies: Replies::default(),
            paths: Paths::default(),
            acquaintances: 0,
            met: 0,
            frames: Vec::new(),
            #[cfg(test)]
            one_by_one: false,
            #[cfg(test)]
            built_together: 0,
            #[cfg(test)]
            taken_together: 0,
            config,
        }
    }

    /// Returns what packets of the handshake are made with.
    pub(crate) fn issuer(&self) -> Issuer<'_> {
        Issuer {
            node: self.identity.node,
            security: &self.config.security,
        }
    }

    /// Returns a random number.
    pub(crate) fn random(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// Notes that a session with `node` was suspended or resumed, or ended while it was suspended.
    pub(crate) fn on_suspension(&mut self, node: NodeId) {
        self.counters.suspensions += 1;
        self.notices.resuspended.insert(node);
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

    /// Returns the code of a CLOSE that ends a session because the program wants it.
    pub(crate) fn close_code(&self) -> u64 {
        match self.closing {
            true => CLOSE_LEAVING,
            false => CLOSE_FINISHED,
        }
    }
}
