//! Memory for received messages, shared by all sessions.
//!
//! Half of it is for *windows*: what a session's peer may have sent and the program not yet taken. What was promised
//! cannot be taken back from a peer that is idle. So the n-th session is given pool / 16n at first: the
//! sum stays below three quarters of the pool for thousands of sessions (harmonic series). From the last
//! quarter those that read grow towards an even share. The other half is for *large* messages, which ask first: it is given to
//! whoever asked first, message by message.

use crate::message::MIN_WINDOW;
use std::collections::VecDeque;

/// Largest window of one session, in bytes.
const LARGEST: u64 = 8 << 20;
/// The n-th session begins with one part in this many times n.
const PARTS: u64 = 16;
/// The part of the pool from which windows grow: one in this many.
const GROWTH: u64 = 4;

/// What one session is promised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Promise {
    /// Bytes ahead of the program, 0 before the handshake.
    pub(crate) window: u64,
    /// The part of the window that it grew by.
    grown: u64,
    /// Bytes of large messages.
    pub(crate) large: u64,
}

/// How much is promised to whom, in sum.
#[derive(Debug)]
pub(crate) struct MemoryShares {
    pool: u64,
    windows: u64,
    /// The part of them beyond what sessions began with.
    grown: u64,
    sessions: u64,
    large: u64,
    /// Peers whose large messages wait for memory.
    waiting: VecDeque<usize>,
    /// Memory for large messages was given back since the waiting were looked at.
    freed: bool,
}

impl MemoryShares {
    pub(crate) fn new(memory: u64) -> Self {
        let pool = memory / 2;
        Self {
            pool,
            windows: 0,
            grown: 0,
            sessions: 0,
            large: 0,
            waiting: VecDeque::new(),
            freed: false,
        }
    }

    /// A window for one more session, if there is one.
    pub(crate) fn take(&mut self) -> Option<Promise> {
        let free = self.pool.saturating_sub(self.windows);
        if free < MIN_WINDOW {
            return None;
        }
        self.sessions += 1;
        let window = (self.pool / (PARTS * self.sessions))
            .clamp(MIN_WINDOW, LARGEST)
            .min(free);
        self.windows += window;
        Some(Promise {
            window,
            ..Promise::default()
        })
    }

    /// Widens a session's window towards the even share. True if it did.
    pub(crate) fn grow(&mut self, promise: &mut Promise) -> bool {
        let even = (self.pool / (self.sessions + 1)).clamp(MIN_WINDOW, LARGEST);
        let spare = (self.pool / GROWTH)
            .saturating_sub(self.grown)
            .min(self.pool.saturating_sub(self.windows));
        // A quarter at a time, so that all may grow.
        let more = even.saturating_sub(promise.window).min(spare / 4);
        promise.window += more;
        promise.grown += more;
        self.grown += more;
        self.windows += more;
        more > 0
    }

    /// A session ended and its messages were taken: what it was promised is free.
    pub(crate) fn release(&mut self, promise: Promise) {
        if promise.window > 0 {
            self.sessions = self.sessions.saturating_sub(1);
        }
        self.windows = self.windows.saturating_sub(promise.window);
        self.grown = self.grown.saturating_sub(promise.grown);
        self.large = self.large.saturating_sub(promise.large);
        self.freed |= promise.large > 0;
    }

    /// Settles what a session is promised for large messages, if it holds `held` and asks for `wanted` more; `peer`
    /// is looked at again when some is free.
    pub(crate) fn large(
        &mut self,
        promise: &mut Promise,
        held: u64,
        wanted: Option<u64>,
        peer: usize,
    ) {
        let others = self.large.saturating_sub(promise.large);
        let mut budget = held;
        if let Some(wanted) = wanted {
            if others.saturating_add(held).saturating_add(wanted) <= self.pool {
                budget = held.saturating_add(wanted);
            } else if !self.waiting.contains(&peer) {
                self.waiting.push_back(peer);
            }
        }
        self.freed |= budget < promise.large;
        self.large = others.saturating_add(budget);
        promise.large = budget;
    }

    /// A peer to be looked at because memory for large messages was given back.
    pub(crate) fn next_waiting(&mut self) -> Option<usize> {
        if !self.freed {
            return None;
        }
        let next = self.waiting.pop_front();
        self.freed = next.is_some();
        next
    }

    /// Whether no more was promised than there is.
    pub(crate) fn is_sound(&self) -> bool {
        self.windows <= self.pool && self.large <= self.pool
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f32_however_many_sessions_come_the_pool_is_not_exceeded() {
        let mut shares = MemoryShares::new(256 << 20);
        let promises: Vec<_> = core::iter::from_fn(|| shares.take())
            .take(100_000)
            .collect();
        assert!(shares.is_sound());
        let count = promises.len();
        assert!(
            count > 1_260,
            "at least the peer limit of one socket: {count}"
        );
        promises.into_iter().for_each(|p| shares.release(p));
        assert_eq!((shares.windows, shares.sessions), (0, 0));
    }

    #[test]
    fn sessions_that_grow_leave_room_for_newcomers() {
        let mut shares = MemoryShares::new(256 << 20);
        let mut promises = Vec::new();
        for _ in 0..1_260 {
            promises.extend(shares.take());
            promises.iter_mut().for_each(|p| {
                shares.grow(p);
            });
        }
        assert!(shares.is_sound());
        assert_eq!(promises.len(), 1_260, "every newcomer was served");
        promises.into_iter().for_each(|p| shares.release(p));
        assert_eq!((shares.windows, shares.grown), (0, 0));
    }

    #[test]
    fn large_messages_wait_their_turn_for_memory() {
        let mut shares = MemoryShares::new(20);
        let (mut one, mut two) = (Promise::default(), Promise::default());
        shares.large(&mut one, 0, Some(8), 1);
        assert_eq!(one.large, 8);
        shares.large(&mut two, 0, Some(8), 2);
        assert_eq!(two.large, 0, "waits");
        assert_eq!(shares.next_waiting(), None, "nothing was freed yet");
        shares.large(&mut one, 0, None, 1);
        assert_eq!(shares.next_waiting(), Some(2), "the program took the first");
        shares.large(&mut two, 0, Some(8), 2);
        assert_eq!(two.large, 8);
        assert!(shares.is_sound());
    }
}
