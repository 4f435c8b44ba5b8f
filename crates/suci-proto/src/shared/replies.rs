//! Packets outside of any session state that wait for the socket.

use crate::counters::Counters;
use std::collections::VecDeque;
use suci_link::security::Sealing;
use suci_link::train::{Destination, Train};
use suci_link::types::Ecn;

/// Replies of the stateless kind that may wait for the socket; more are dropped (F04). They take at
/// most some hundred KiB, and a node whose reply was dropped asks again.
const MAX_REPLIES: usize = 256;

/// A packet outside of any session state that waits for the socket.
#[derive(Debug)]
struct Reply {
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

/// Handshake packets and hints that wait to be sent.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    queue: VecDeque<Reply>,
}

impl Replies {
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns true if a handshake packet would be queued. A packet to an unknown node only uses
    /// the first half of the queue.
    pub(crate) fn has_room_for(&self, known: bool) -> bool {
        let most = if known { MAX_REPLIES } else { MAX_REPLIES / 2 };
        self.queue.len() < most
    }

    /// Queues a handshake packet to a node that is known or proved its address; drops the packet if
    /// too many wait. Returns whether it is queued.
    pub(crate) fn add(&mut self, to: Destination, bytes: Vec<u8>, counters: &mut Counters) -> bool {
        self.enter(Reply::once(to, bytes), true, counters)
    }

    /// As [`add`](Self::add), for the last packet of a connection, header and frames, which is
    /// not repeated when lost: it is sent `times` times at once.
    pub(crate) fn add_last(
        &mut self,
        times: u32,
        to: Destination,
        bytes: Vec<u8>,
        sealing: Option<Box<Sealing>>,
        counters: &mut Counters,
    ) {
        let reply = Reply {
            to,
            bytes,
            sealing,
            times,
        };
        self.enter(reply, true, counters);
    }

    /// Drops the packets that wait and are not sealed yet.
    pub(crate) fn drop_unsealed(&mut self) {
        self.queue.retain(|reply| reply.sealing.is_none());
    }

    /// As [`add`](Self::add), for answers that anyone can ask for, even with a forged address.
    pub(crate) fn add_for_anyone(
        &mut self,
        to: Destination,
        bytes: Vec<u8>,
        counters: &mut Counters,
    ) -> bool {
        self.enter(Reply::once(to, bytes), false, counters)
    }

    fn enter(&mut self, reply: Reply, known: bool, counters: &mut Counters) -> bool {
        let queued = self.has_room_for(known);
        if queued {
            self.queue.push_back(reply);
        } else {
            counters.handshake_rejected += 1;
        }
        queued
    }

    /// Puts the next reply into `train`. A reply that is sent several times goes to the end of the
    /// queue after each. Returns whether there was one.
    pub(crate) fn write_next(&mut self, train: &mut Train) -> bool {
        let Some(mut reply) = self.queue.pop_front() else {
            return false;
        };
        if let Some(mut sealing) = reply.sealing.take() {
            reply.bytes = sealing.seal_alone(&reply.bytes);
        }
        train.begin(reply.to, Ecn::NotEct);
        train.single(&reply.bytes);
        reply.times = reply.times.saturating_sub(1);
        if reply.times > 0 {
            self.queue.push_back(reply);
        }
        true
    }
}
