//! What is queued for one peer, debited before anything enters the common ring.
//!
//! A peer that takes nothing fills its own gate and nothing else: the ring is emptied whatever the
//! peers do.

use super::sleepers::Sleepers;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use suci_proto::Side;

/// What a message counts beside its payload.
const PER_MESSAGE: u64 = suci_proto::limits::MESSAGE_CHARGE;

/// The queue of one peer, as sums.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Payload bytes and charges of messages accepted and not yet acknowledged.
    held: AtomicU64,
    /// How many messages those are.
    messages: AtomicU64,
    /// Messages whose failure stands in events that the thread did not hand over yet.
    failed: AtomicU64,
    /// Which side suspended the session: 0 none, 1 this one, 2 the peer.
    suspended: AtomicU8,
    limit: u64,
    pub(crate) room: Sleepers,
}

/// What messages of so many bytes in all count.
pub(crate) fn charge(messages: u64, bytes: u64) -> u64 {
    bytes.saturating_add(messages.saturating_mul(PER_MESSAGE))
}

/// What one message counts.
pub(crate) fn charge_of(length: usize) -> u64 {
    charge(1, u64::try_from(length).unwrap_or(u64::MAX))
}

impl Gate {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            held: AtomicU64::new(0),
            messages: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            suspended: AtomicU8::new(0),
            limit,
            room: Sleepers::new(),
        }
    }

    /// The thread says which side suspended the session. Who waits for room looks again.
    pub(crate) fn set_suspended(&self, by: Option<Side>) {
        let word = match by {
            None => 0,
            Some(Side::Here) => 1,
            Some(Side::There) => 2,
        };
        if self.suspended.swap(word, Ordering::AcqRel) != word {
            self.room.wake();
        }
    }

    /// Which side suspended the session.
    pub(crate) fn suspended(&self) -> Option<Side> {
        match self.suspended.load(Ordering::Acquire) {
            0 => None,
            1 => Some(Side::Here),
            _ => Some(Side::There),
        }
    }

    /// Takes a message in; anything fits an empty queue.
    pub(crate) fn debit(&self, charge: u64) -> bool {
        let sum = |held: u64| {
            let sum = held.saturating_add(charge);
            (held == 0 || sum <= self.limit).then_some(sum)
        };
        // First the count, so that whoever finds a sum finds a count too.
        self.messages.fetch_add(1, Ordering::AcqRel);
        let fits = self
            .held
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, sum)
            .is_ok();
        if !fits {
            self.messages.fetch_sub(1, Ordering::AcqRel);
        }
        fits
    }

    /// So many messages were acknowledged, or did not enter after all.
    pub(crate) fn credit(&self, messages: u64, charge: u64) {
        self.held.fetch_sub(charge, Ordering::AcqRel);
        self.messages.fetch_sub(messages, Ordering::AcqRel);
        self.room.wake();
    }

    /// The thread says how many messages failed whose events it has not handed over; before it credits them,
    /// so that whoever finds nothing queued finds them here.
    pub(crate) fn set_failed(&self, messages: u64) {
        self.failed.store(messages, Ordering::Release);
    }

    /// Messages whose failure is not among the events that were handed over.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Acquire)
    }

    /// Whether nothing is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.load(Ordering::Acquire) == 0
    }

    /// Messages and payload bytes queued; between two changes a little of both.
    pub(crate) fn queued(&self) -> (u64, u64) {
        let held = self.held.load(Ordering::Acquire);
        let messages = self.messages.load(Ordering::Acquire);
        (
            messages,
            held.saturating_sub(messages.saturating_mul(PER_MESSAGE)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_fits_an_empty_queue_whatever_its_length() {
        let gate = Gate::new(1_000);
        assert!(gate.debit(5_000));
        assert!(!gate.debit(1), "full");
        gate.credit(1, 5_000);
        assert!(gate.debit(600) && !gate.debit(600) && gate.debit(400));
        assert_eq!(gate.queued(), (2, 1_000 - 2 * PER_MESSAGE));
    }
}
