//! Memory for received messages, shared by all sessions.
//!
//! Half of it is for *windows*: the bytes that a session's peer may have sent and the program not
//! yet taken. A promised window cannot be taken back from an idle peer. So the n-th session gets
//! pool / 16n at first: the sum stays below three quarters of the pool for thousands of sessions
//! (harmonic series). The last quarter lets the windows of sessions whose messages are read grow
//! towards an even share. The other half is for *large* messages, which ask first: it is given
//! message by message, in the order in which sessions asked. A session that asks later waits even
//! if its message would fit; otherwise many middling messages could keep a very large one waiting
//! for ever. The first message always fits once the program took the ones before, since a message
//! longer than the whole half never gets memory of ours. A session is passed over only while it
//! would have to wait for memory that an absent peer (lost or suspended) holds.

use std::collections::BTreeMap;
use suci_channels::message::MIN_WINDOW;

/// Largest window of one session, in bytes.
const LARGEST: u64 = 8 << 20;
/// The n-th session begins with one part in this many times n.
const PARTS: u64 = 16;
/// The part of the pool from which windows grow: one in this many.
const GROWTH: u64 = 4;

/// The memory that one session is promised.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Promise {
    /// Bytes ahead of the program, 0 before the handshake.
    pub(crate) window: u64,
    /// The part of the window that it grew by.
    grown: u64,
    /// Bytes of large messages.
    pub(crate) large: u64,
    /// The session's ticket in the queue for memory for large messages, if it waits.
    ticket: Option<u64>,
    /// Bytes of `large` that are held while the peer is absent.
    stalled: u64,
}

impl Promise {
    /// Returns true if the session waits for memory for a large message.
    pub(crate) fn is_waiting(&self) -> bool {
        self.ticket.is_some()
    }
}

/// The memory promised to all sessions.
#[derive(Debug)]
pub(crate) struct MemoryShares {
    pool: u64,
    windows: u64,
    /// The part of `windows` by which sessions grew.
    grown: u64,
    sessions: u64,
    large: u64,
    /// The part of `large` that absent peers hold.
    stalled: u64,
    /// Peers whose large messages wait for memory, by ticket, and how much each wants; one ticket
    /// for each session.
    waiting: BTreeMap<u64, (usize, u64)>,
    next_ticket: u64,
    /// The first waiting session may be served now and was not checked yet.
    freed: bool,
    /// A session got no window, and silent peers were not asked yet whether they still live.
    wanted: bool,
    /// The peer whose session begins once a window is free. Others repeat their handshake instead.
    waits_for_window: Option<usize>,
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
            stalled: 0,
            waiting: BTreeMap::new(),
            next_ticket: 0,
            freed: false,
            wanted: false,
            waits_for_window: None,
        }
    }

    /// Returns a window for one more session, if there is one.
    pub(crate) fn take(&mut self) -> Option<Promise> {
        let free = self.pool.saturating_sub(self.windows);
        if free < MIN_WINDOW {
            self.wanted = true;
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

    /// Names `peer` by [`next_waiting`](Self::next_waiting) once a window is given back.
    pub(crate) fn wait_for_window(&mut self, peer: usize) {
        self.waits_for_window = Some(peer);
    }

    /// Returns true if a session found no window since [`take_wanted`](Self::take_wanted) was last
    /// called.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// As [`is_wanted`](Self::is_wanted), and resets it.
    pub(crate) fn take_wanted(&mut self) -> bool {
        core::mem::take(&mut self.wanted)
    }

    /// Widens a session's window towards the even share. Returns true if it did.
    pub(crate) fn grow(&mut self, promise: &mut Promise) -> bool {
        if promise.window >= LARGEST {
            return false;
        }
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

    /// Frees what a session that ended was promised for large messages, except for the `held` bytes
    /// that wait for the program: no more will come.
    pub(crate) fn end(&mut self, promise: &mut Promise, held: u64) {
        self.leave(promise);
        self.set_stalled(promise, 0);
        let freed = promise.large.saturating_sub(held);
        promise.large -= freed;
        self.large = self.large.saturating_sub(freed);
        self.freed |= freed > 0;
    }

    /// Frees the memory promised to a session that ended and whose messages were taken.
    pub(crate) fn release(&mut self, mut promise: Promise) {
        self.leave(&mut promise);
        if promise.window > 0 {
            self.sessions = self.sessions.saturating_sub(1);
        }
        self.windows = self.windows.saturating_sub(promise.window);
        self.grown = self.grown.saturating_sub(promise.grown);
        self.set_stalled(&mut promise, 0);
        self.large = self.large.saturating_sub(promise.large);
        self.freed |= promise.large > 0 || (promise.window > 0 && self.waits_for_window.is_some());
    }

    /// Notes that the session's peer is absent and `bytes` held for its large messages are not
    /// received yet; 0 if the peer is back.
    pub(crate) fn set_stalled(&mut self, promise: &mut Promise, bytes: u64) {
        if promise.stalled == bytes {
            return;
        }
        self.stalled = self
            .stalled
            .saturating_sub(promise.stalled)
            .saturating_add(bytes);
        promise.stalled = bytes;
        // Another session may be the first now.
        self.freed = true;
    }

    /// Sets the memory that a session is promised for large messages, if it holds `held` and asks
    /// for `wanted` more. If that has to wait, `peer` is named by
    /// [`next_waiting`](Self::next_waiting) when it is first in the queue.
    pub(crate) fn large(
        &mut self,
        promise: &mut Promise,
        held: u64,
        wanted: Option<u64>,
        peer: usize,
    ) {
        let others = self.large.saturating_sub(promise.large);
        let mut budget = held;
        match wanted {
            None => self.leave(promise),
            Some(wanted) => {
                let own = held.saturating_add(wanted);
                if self.is_next(promise) && others.saturating_add(own) <= self.pool {
                    self.leave(promise);
                    budget = own;
                } else {
                    let ticket = *promise.ticket.get_or_insert(self.next_ticket);
                    self.next_ticket = self.next_ticket.max(ticket.saturating_add(1));
                    self.waiting.insert(ticket, (peer, wanted));
                }
            }
        }
        self.freed |= budget < promise.large;
        self.large = others.saturating_add(budget);
        promise.large = budget;
    }

    /// Takes a session out of the queue: it was served, has nothing to ask for, or ended.
    pub(crate) fn leave(&mut self, promise: &mut Promise) {
        if let Some(ticket) = promise.ticket.take() {
            self.waiting.remove(&ticket);
            // Another session is the first now.
            self.freed = true;
        }
    }

    /// Returns the ticket and the peer of the first waiting session that needs no memory held by
    /// absent peers.
    fn first(&self) -> Option<(u64, usize)> {
        let room = self.pool.saturating_sub(self.stalled);
        let mut able = self
            .waiting
            .iter()
            .filter(|(_, (_, wanted))| *wanted <= room);
        able.next().map(|(ticket, (peer, _))| (*ticket, *peer))
    }

    /// Returns true if no session waits before this one.
    fn is_next(&self, promise: &Promise) -> bool {
        self.first()
            .is_none_or(|(first, _)| promise.ticket == Some(first))
    }

    /// Returns true if [`next_waiting`](Self::next_waiting) may return a peer.
    pub(crate) const fn has_freed(&self) -> bool {
        self.freed
    }

    /// Returns the peer that waited longest, if there may be memory for it now: the caller checks
    /// it.
    #[inline]
    pub(crate) fn next_waiting(&mut self) -> Option<usize> {
        if !core::mem::take(&mut self.freed) {
            return None;
        }
        if let Some(peer) = self.waits_for_window.take() {
            self.freed = true;
            return Some(peer);
        }
        self.first().map(|(_, peer)| peer)
    }

    /// Returns true if the promises stay within the pool.
    pub(crate) fn is_sound(&self) -> bool {
        self.windows <= self.pool && self.large <= self.pool && self.stalled <= self.large
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
        assert!(shares.is_sound() && shares.waiting.is_empty());
    }

    /// A very large message asked first; middling ones that would fit come without end.
    #[test]
    fn f32_the_first_request_is_served_first_though_later_ones_would_fit() {
        let mut shares = MemoryShares::new(20);
        let mut huge = Promise::default();
        let mut middling = [(); 4].map(|()| Promise::default());
        shares.large(&mut middling[0], 0, Some(3), 0);
        shares.large(&mut huge, 0, Some(10), 9);
        for (peer, promise) in middling.iter_mut().enumerate().skip(1) {
            shares.large(promise, 0, Some(3), peer);
            assert_eq!(promise.large, 0, "peer {peer} came later");
        }
        // The program takes the first peer's message; that peer's next message has to queue like
        // all others.
        shares.large(&mut middling[0], 0, Some(3), 0);
        assert_eq!(shares.next_waiting(), Some(9));
        assert_eq!(shares.next_waiting(), None, "told once");
        shares.large(&mut huge, 0, Some(10), 9);
        assert_eq!(huge.large, 10);
        shares.large(&mut huge, 0, None, 9);
        for peer in [1, 2, 3] {
            assert_eq!(shares.next_waiting(), Some(peer), "in their order");
            shares.large(&mut middling[peer], 0, Some(3), peer);
            assert_eq!(middling[peer].large, 3);
        }
        assert_eq!(shares.next_waiting(), Some(0));
        shares.large(&mut middling[0], 0, Some(3), 0);
        assert_eq!(middling[0].large, 0, "nothing is left");
        assert!(shares.is_sound());
    }

    /// A session ended amid a large message, and another message of it waits for the program: only
    /// that one's memory is kept.
    #[test]
    fn f22_a_session_that_ended_keeps_no_memory_for_what_cannot_come() {
        let mut shares = MemoryShares::new(2_000);
        let [mut ended, mut waits] = [Promise::default(), Promise::default()];
        shares.large(&mut ended, 100, Some(800), 1);
        assert_eq!(ended.large, 900);
        shares.set_stalled(&mut ended, 800);
        shares.large(&mut waits, 0, Some(700), 2);
        assert!(waits.is_waiting());
        shares.end(&mut ended, 100);
        assert_eq!((ended.large, shares.stalled), (100, 0));
        assert_eq!(shares.next_waiting(), Some(2));
        shares.large(&mut waits, 0, Some(700), 2);
        assert_eq!(waits.large, 700);
        shares.release(ended);
        shares.release(waits);
        assert_eq!(shares.large, 0);
    }

    /// Two absent peers hold almost all memory; a third peer wants much, a fourth little.
    #[test]
    fn f32_a_peer_that_waits_for_memory_of_absent_peers_delays_no_other() {
        let mut shares = MemoryShares::new(20);
        let mut promises = [(); 5].map(|()| Promise::default());
        shares.large(&mut promises[0], 0, Some(4), 0);
        shares.large(&mut promises[1], 0, Some(4), 1);
        shares.large(&mut promises[2], 0, Some(4), 2);
        shares.large(&mut promises[3], 0, Some(2), 3);
        assert!(promises[2].is_waiting() && promises[3].is_waiting());
        shares.set_stalled(&mut promises[0], 4);
        assert_eq!(shares.next_waiting(), Some(2), "the other's will be free");
        shares.set_stalled(&mut promises[1], 4);
        assert_eq!(shares.next_waiting(), Some(3));
        shares.large(&mut promises[3], 0, Some(2), 3);
        assert_eq!(promises[3].large, 2);
        // One peer is back: the session that waited longest comes first again.
        shares.set_stalled(&mut promises[0], 0);
        assert_eq!(shares.next_waiting(), Some(2));
        shares.large(&mut promises[4], 0, Some(1), 4);
        assert!(promises[4].is_waiting());
        shares.large(&mut promises[0], 0, None, 0);
        assert_eq!(shares.next_waiting(), Some(2));
        shares.large(&mut promises[2], 0, Some(4), 2);
        assert_eq!(promises[2].large, 4);
        assert!(shares.is_sound());
        promises.into_iter().for_each(|p| shares.release(p));
        assert_eq!(
            (shares.large, shares.stalled, shares.waiting.len()),
            (0, 0, 0)
        );
    }

    #[test]
    fn f32_a_peer_that_ends_or_stops_waiting_delays_no_other() {
        let mut shares = MemoryShares::new(20);
        let mut promises = [(); 4].map(|()| Promise::default());
        shares.large(&mut promises[0], 0, Some(6), 0);
        for (peer, wanted) in [(1, 10), (2, 7), (3, 2)] {
            shares.large(&mut promises[peer], 0, Some(wanted), peer);
            assert!(promises[peer].is_waiting());
        }
        // The first session in the queue ends, the program refuses the second's message: the third
        // has its ticket.
        shares.release(core::mem::take(&mut promises[1]));
        assert_eq!(shares.next_waiting(), Some(2));
        shares.large(&mut promises[2], 0, None, 2);
        assert_eq!(shares.next_waiting(), Some(3));
        shares.large(&mut promises[3], 0, Some(2), 3);
        assert_eq!(promises[3].large, 2);
        promises.into_iter().for_each(|p| shares.release(p));
        assert_eq!((shares.large, shares.waiting.len()), (0, 0));
        assert_eq!(shares.next_waiting(), None);
    }

    /// The promise in the documentation of `Config::memory` holds however much windows grew before
    /// the last session came; ended sessions with untaken messages fit as well.
    #[test]
    fn f32_128_kib_for_each_peer_suffice_for_a_session_of_each() {
        for peers in [1, 2, 9, 64, 1_260, 16_384] {
            let mut shares = MemoryShares::new(peers * (128 << 10));
            for session in 0..peers * 7 / 5 {
                let promise = shares.take();
                assert!(promise.is_some(), "session {session} with {peers} peers");
                let mut promise = promise.unwrap_or_default();
                while shares.grow(&mut promise) {}
            }
        }
    }
}
