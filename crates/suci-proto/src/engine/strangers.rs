//! Strangers, nodes that connected without being in the book: how many one address may bring, and
//! when they are forgotten (F02). Nodes of the book are neither counted nor forgotten.

use super::Engine;
use crate::addresses::Addresses;
use crate::config::AcceptPolicy;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use suci_channels::scheduler::Priority;
use suci_link::limits::COOKIE_LIFETIME;
use suci_link::time::{Duration, Instant};
use suci_link::types::NodeId;
use suci_link::wire::RefusedCode;

/// While the table is full for one address or for all, it is searched for strangers that left: not
/// more often than this for each entry, so that searches take a small part of the time.
const SEARCH_EACH: Duration = Duration::from_micros(1);

impl Engine {
    /// Returns a reason to refuse a node that is not known yet.
    pub(super) fn stranger_refusal(
        &mut self,
        now: Instant,
        from: SocketAddr,
    ) -> Option<RefusedCode> {
        if self.shared.config.accept == AcceptPolicy::Book {
            return Some(RefusedCode::NotAllowed);
        }
        if self.is_full_for(from.ip()) && now >= self.search_at {
            self.forget_strangers(now);
            let entries = self.peers.len() + self.departed.len();
            self.search_at = now + SEARCH_EACH.saturating_mul(entries as u32);
        }
        let full = self.is_full_for(from.ip());
        if full {
            self.ask_silent_strangers(now);
        }
        full.then_some(RefusedCode::TooManyPeers)
    }

    /// Returns true if the table takes no more strangers from this address. Strangers of one
    /// address get at most half of it.
    fn is_full_for(&self, from: IpAddr) -> bool {
        let most = self.shared.config.max_peers;
        let here = self.strangers.get(&from).copied().unwrap_or(0);
        self.shared.met >= most || here >= most.div_ceil(2)
    }

    /// Enters a node that is not in the book.
    pub(super) fn insert_stranger(&mut self, now: Instant, node: NodeId, from: IpAddr) -> usize {
        let key = self.insert_peer(node, Addresses::default(), now);
        if let Some(peer) = self.peers.get_mut(key) {
            peer.stranger_from = Some(from);
        }
        self.shared.met += 1;
        *self.strangers.entry(from).or_default() += 1;
        key
    }

    /// Forgets the strangers without state to keep: no session, no message, and no setting of the
    /// program's. Copies of their INITs may still be under way: their cookies are remembered. If
    /// all such strangers have untaken events, the events are dropped, too: otherwise a program
    /// that takes no events would serve no new node any more.
    pub(super) fn forget_strangers(&mut self, now: Instant) {
        let room = self.departed.room(now);
        let mut gone = self.forgettable(now, false, room);
        if gone.is_empty() {
            gone = self.forgettable(now, true, room);
            let forgotten: BTreeSet<_> = gone.iter().copied().collect();
            let listed = &mut self.shared.notices.peers_with_events;
            listed.retain(|key| !forgotten.contains(key));
        }
        self.forget(gone);
    }

    /// Strangers without state to keep; with `events` untaken events do not count as such. Beyond
    /// the `room` for their cookies only those count whose cookies have expired.
    fn forgettable(&self, now: Instant, events: bool, room: usize) -> Vec<usize> {
        let mut left = room;
        self.peers
            .iter()
            .filter(|(key, peer)| {
                let stranger = peer.stranger_from.is_some() && !peer.has_connection();
                let listed = self.dirty.is_listed(*key) || self.readable.is_listed(*key);
                let ranked = self.dirty.priority(*key) != Priority::default();
                stranger && !(listed || ranked) && peer.is_forgettable(events, &self.shared.config)
            })
            .filter(|(_, peer)| {
                let newest = peer.newest_claim();
                let is_past = newest.is_none_or(|at| now > at + COOKIE_LIFETIME);
                let fits = is_past || left > 0;
                left -= usize::from(fits && !is_past);
                fits
            })
            .map(|(key, _)| key)
            .collect()
    }

    fn forget(&mut self, gone: Vec<usize>) {
        for key in gone {
            self.wheel.cancel(key);
            self.dirty.forget(key);
            self.readable.forget(key);
            self.answered.forget(key);
            self.with_group_messages.forget(key);
            for peers in &mut self.by_port {
                peers.forget(key);
            }
            let Some(mut peer) = self.peers.remove(key) else {
                continue;
            };
            peer.drop_connection(&mut self.shared);
            if let Some(newest) = peer.newest_claim() {
                self.departed.remember(peer.node, newest);
            }
            self.shared.met -= usize::from(peer.is_met());
            let unreported = peer.events.unreported();
            self.shared.notices.unreported =
                self.shared.notices.unreported.saturating_sub(unreported);
            peer.drop_layer_remains(&mut self.shared.memory);
            self.shared.memory.release(peer.session.promise);
            self.by_node.remove(&peer.node);
            self.removed.remove(&peer.node);
            self.shared.acquaintances = self.peers.len();
            self.recent = None;
            self.shared.notices.resuspended.remove(&peer.node);
            self.shared.notices.lost.remove(&peer.node);
            // Another peer may get this key.
            self.shared.admission_queue.leave(Some(key));
            self.uncount_stranger(peer.stranger_from);
        }
    }

    /// Notes that a stranger from this address left, or is in the book now.
    pub(super) fn uncount_stranger(&mut self, from: Option<IpAddr>) {
        if let Some(from) = from
            && let Some(count) = self.strangers.get_mut(&from)
        {
            *count -= 1;
            if *count == 0 {
                self.strangers.remove(&from);
            }
        }
    }
}
