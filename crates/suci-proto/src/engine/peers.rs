//! The peers of an engine: the active ones, and the idle ones, which gave their memory back.
//!
//! A peer is idle once nothing of it waits for time to pass: no message, no acknowledgement, no
//! credit. While a connection is in use its grant always has a time to lapse, so a peer becomes
//! idle 20 s after its last packet. A peer that sends now and then stays active in between. Loops
//! over active peers do not touch the idle ones. An access to a peer activates it. It becomes idle
//! again when the engine checked it and found nothing to do.

use crate::addresses::Addresses;
use crate::config::Config;
use crate::peer::{End, Peer};
use slab::Slab;
use std::ops::RangeInclusive;
use std::sync::Arc;
use suci_channels::message::Pool;
use suci_link::planted;
use suci_link::ranges::RangeSet;
use suci_link::time::Instant;
use suci_link::types::{NodeId, SessionNumber};

/// The peers, by key.
#[derive(Debug)]
pub(super) struct Peers {
    entries: Slab<PeerEntry>,
    /// Peers that became active since they were last checked.
    woken: Vec<usize>,
    /// First session number of a new peer: sessions with forgotten peers had lower numbers.
    first_session: SessionNumber,
    /// The IDs of nodes of which a launcher reports each end.
    supervised: RangeSet,
    config: Arc<Config>,
    pool: Pool,
}

/// A peer, and whether it is idle. The flag lies beside the pointer, so that loops over active
/// peers read no memory of the idle ones.
#[derive(Debug)]
struct PeerEntry {
    peer: Box<Peer>,
    idle: bool,
}

impl Peers {
    pub(super) fn new(config: Arc<Config>, pool: Pool) -> Self {
        Self {
            entries: Slab::new(),
            woken: Vec::new(),
            first_session: SessionNumber::default(),
            supervised: RangeSet::new(),
            config,
            pool,
        }
    }

    pub(super) fn insert(&mut self, node: NodeId, addresses: Addresses, now: Instant) -> usize {
        let entry = self.entries.vacant_entry();
        let key = entry.key();
        let mut peer = Peer::new(node, key, addresses, now, &self.config, &self.pool);
        peer.session.set_number(self.first_session);
        peer.supervised = self.supervised.contains(node.0.into());
        entry.insert(PeerEntry {
            peer: Box::new(peer),
            idle: false,
        });
        key
    }

    /// Notes whether a launcher reports each end of these nodes. Returns the keys of the peers
    /// among them.
    pub(super) fn supervise(&mut self, nodes: RangeInclusive<u32>, supervised: bool) -> Vec<usize> {
        let range = u64::from(*nodes.start())..u64::from(*nodes.end()) + 1;
        match supervised {
            true => self.supervised.insert(range),
            false => self.supervised.remove(range),
        };
        let among = |key: &usize| {
            let peer = self.entries.get(*key).map(|entry| &entry.peer);
            peer.is_some_and(|peer| nodes.contains(&peer.node.0))
        };
        let keys: Vec<_> = self.keys().into_iter().filter(among).collect();
        for key in &keys {
            if let Some(peer) = self.get_mut(*key) {
                peer.supervised = supervised;
            }
        }
        keys
    }

    /// Removes a peer that has no state left to keep.
    pub(super) fn remove(&mut self, key: usize) -> Option<Box<Peer>> {
        let peer = self.entries.try_remove(key)?.peer;
        self.first_session = self.first_session.max(peer.session.number.next());
        Some(peer)
    }

    /// Returns how many peers there are beside this node itself.
    pub(super) fn len(&self) -> usize {
        self.entries.len().saturating_sub(1)
    }

    /// Returns the peer, active from now on.
    #[inline]
    pub(super) fn get_mut(&mut self, key: usize) -> Option<&mut Peer> {
        let entry = self.entries.get_mut(key)?;
        if entry.idle {
            entry.idle = false;
            self.woken.push(key);
        }
        Some(&mut entry.peer)
    }

    /// Returns the peer, active from now on, if `end` is the local end of its connection. A packet
    /// to any other end leaves the peer idle.
    #[inline]
    pub(super) fn addressed(&mut self, key: usize, end: End) -> Option<&mut Peer> {
        let expected = self.get(key)?.connection.as_ref()?.link.local;
        let is_ours = expected == end || planted("tag-unchecked") && expected.index == end.index;
        is_ours.then(|| self.get_mut(key)).flatten()
    }

    /// Returns the peer as it is, if its connection is sealed and has this local index.
    pub(super) fn sealed(&self, key: usize, index: u32) -> Option<&Peer> {
        let connection = self.get(key)?.connection.as_ref()?;
        let addressed = connection.link.local.index == index && connection.link.sealing.is_some();
        addressed.then(|| self.get(key)).flatten()
    }

    /// Returns the peer, if it is active.
    #[inline]
    pub(super) fn active(&self, key: usize) -> Option<&Peer> {
        let entry = self.entries.get(key)?;
        (!entry.idle).then_some(&*entry.peer)
    }

    /// Returns the peer, if it is active.
    #[inline]
    pub(super) fn active_mut(&mut self, key: usize) -> Option<&mut Peer> {
        let entry = self.entries.get_mut(key)?;
        (!entry.idle).then_some(&mut *entry.peer)
    }

    /// Returns true if the peer is idle and has a connection.
    pub(super) fn is_idle_connected(&self, key: usize) -> bool {
        self.entries
            .get(key)
            .is_some_and(|entry| entry.idle && entry.peer.connection.is_some())
    }

    /// Returns the peer as it is, without activating it.
    #[inline]
    pub(super) fn get(&self, key: usize) -> Option<&Peer> {
        self.entries.get(key).map(|entry| &*entry.peer)
    }

    /// Returns all peers, without activating any.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Peer)> {
        self.entries.iter().map(|(key, entry)| (key, &*entry.peer))
    }

    /// Returns all peers but this node itself, without activating any.
    pub(super) fn iter_others(&self) -> impl Iterator<Item = (usize, &Peer)> {
        self.iter().filter(|(_, peer)| !peer.is_itself)
    }

    /// Returns the active peers.
    pub(super) fn iter_active(&self) -> impl Iterator<Item = (usize, &Peer)> {
        let active = self.entries.iter().filter(|(_, entry)| !entry.idle);
        active.map(|(key, entry)| (key, &*entry.peer))
    }

    pub(super) fn iter_active_mut(&mut self) -> impl Iterator<Item = (usize, &mut Peer)> {
        let active = self.entries.iter_mut().filter(|(_, entry)| !entry.idle);
        active.map(|(key, entry)| (key, &mut *entry.peer))
    }

    /// Returns the idle peers.
    pub(super) fn iter_idle(&self) -> impl Iterator<Item = (usize, &Peer)> {
        let idle = self.entries.iter().filter(|(_, entry)| entry.idle);
        idle.map(|(key, entry)| (key, &*entry.peer))
    }

    /// Returns all keys.
    pub(super) fn keys(&self) -> Vec<usize> {
        self.entries.iter().map(|(key, _)| key).collect()
    }

    /// Returns a peer that became active and was not returned here since. The caller checks whether
    /// the peer may become idle again.
    #[inline]
    pub(super) fn next_woken(&mut self) -> Option<usize> {
        self.woken.pop()
    }

    /// Returns true if [`next_woken`](Self::next_woken) would return a peer.
    pub(super) fn has_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    /// Makes a peer idle that the engine checked and that has no deadline, unless other state keeps
    /// it active.
    #[cold]
    pub(super) fn make_idle(&mut self, key: usize, now: Instant) {
        if let Some(entry) = self.entries.get_mut(key)
            && !entry.idle
        {
            entry.idle = entry.peer.shrink(now);
        }
    }
}
