//! Memory for received messages, shared by all sessions.
//!
//! Half of it is for *windows*: what a session's peer may have sent and the program not yet taken. The n-th
//! session is given pool / 10n at first, so that the sum stays below the pool for thousands of
//! sessions (harmonic series), and grows towards an even share as it reads. The other half is for *large* messages, which
//! ask first: it is given to whoever asked first, message by message.

use crate::message::MIN_WINDOW;
use std::collections::VecDeque;

/// Largest window of one session, in bytes.
const LARGEST: u64 = 8 << 20;
/// The n-th session begins with one part in this many times n.
const PARTS: u64 = 10;

/// How much is promised to whom, in sum.
#[derive(Debug)]
pub(crate) struct MemoryShares {
    pool: u64,
    windows: u64,
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
        Self { pool, windows: 0, sessions: 0, large: 0, waiting: VecDeque::new(), freed: false }
    }

    /// A window for one more session, if there is one.
    pub(crate) fn take(&mut self) -> Option<u64> {
        let free = self.pool.saturating_sub(self.windows);
        if free < MIN_WINDOW {
            return None;
        }
        self.sessions += 1;
        let window = (self.pool / (PARTS * self.sessions)).clamp(MIN_WINDOW, LARGEST).min(free);
        self.windows += window;
        Some(window)
    }

    /// The window that a session with `window` may have now; never less.
    pub(crate) fn grow(&mut self, window: u64) -> u64 {
        let even = (self.pool / (self.sessions + 1)).clamp(MIN_WINDOW, LARGEST);
        // One share stays free for newcomers; of the rest a quarter at a time, so that all may grow.
        let spare = self.pool.saturating_sub(self.windows).saturating_sub(even);
        let grown = window.max(even.min(window + spare / 4));
        self.windows += grown - window;
        grown
    }

    /// A session ended and its messages were taken: its window and large memory are free.
    pub(crate) fn release(&mut self, window: u64, large: u64) {
        if window > 0 {
            self.sessions = self.sessions.saturating_sub(1);
            self.windows = self.windows.saturating_sub(window);
        }
        self.freed |= large > 0;
        self.large = self.large.saturating_sub(large);
    }

    /// What a session with `promised` bytes for large messages may have, if it holds `held` and asks for
    /// `wanted` more; `peer` is looked at again when some is free.
    pub(crate) fn large(
        &mut self,
        promised: u64,
        held: u64,
        wanted: Option<u64>,
        peer: usize,
    ) -> u64 {
        let others = self.large.saturating_sub(promised);
        let mut budget = held;
        if let Some(wanted) = wanted {
            if others.saturating_add(held).saturating_add(wanted) <= self.pool {
                budget = held.saturating_add(wanted);
            } else if !self.waiting.contains(&peer) {
                self.waiting.push_back(peer);
            }
        }
        self.freed |= budget < promised;
        self.large = others.saturating_add(budget);
        budget
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
        let windows: Vec<u64> = core::iter::from_fn(|| shares.take()).take(100_000).collect();
        assert!(shares.is_sound());
        assert!(windows.len() > 1_260, "at least the peer limit of one socket: {}", windows.len());
        windows.iter().for_each(|w| shares.release(*w, 0));
        assert_eq!(shares.windows, 0);
    }

    #[test]
    fn windows_grow_towards_an_even_share_and_never_beyond_the_pool() {
        let mut shares = MemoryShares::new(32 << 20);
        let mut windows: Vec<u64> = (0..3).filter_map(|_| shares.take()).collect();
        for _ in 0..100 {
            for window in &mut windows {
                *window = shares.grow(*window);
                assert!(shares.is_sound());
            }
        }
        assert!(windows.iter().all(|w| *w >= 2 << 20), "{windows:?}");
    }

    #[test]
    fn sessions_that_grow_leave_room_for_newcomers() {
        let mut shares = MemoryShares::new(1 << 20);
        let mut windows = Vec::new();
        for _ in 0..8 {
            windows.push(shares.take().expect("a newcomer is served"));
            for _ in 0..100 {
                windows.iter_mut().for_each(|w| *w = shares.grow(*w));
            }
        }
        assert!(shares.is_sound());
    }

    #[test]
    fn large_messages_wait_their_turn_for_memory() {
        let mut shares = MemoryShares::new(20);
        assert_eq!(shares.large(0, 0, Some(8), 1), 8);
        assert_eq!(shares.large(0, 0, Some(8), 2), 0, "waits");
        assert_eq!(shares.next_waiting(), None, "nothing was freed yet");
        assert_eq!(shares.large(8, 0, None, 1), 0, "the program took it");
        assert_eq!(shares.next_waiting(), Some(2));
        assert_eq!(shares.large(0, 0, Some(8), 2), 8);
        assert!(shares.is_sound());
    }
}
