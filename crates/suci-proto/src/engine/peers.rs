//! The peers of an engine: those that are busy as they are, those that rest [folded](crate::fold).
//!
//! A peer rests once nothing of it waits for time to pass: no message, no acknowledgement, no
//! credit. While a connection is in use its grant always has a time to lapse, so this is 20 s after
//! its last packet, and nobody who sends now and then pays for it. Whoever needs a peer gets it
//! awake; it rests again when it was looked at and has nothing to do.

use crate::addresses::Addresses;
use crate::config::Config;
use crate::fold::{Fold, Words, folds};
use crate::message::Pool;
use crate::peer::{End, Peer};
use crate::time::Instant;
use crate::types::{NodeId, SessionNumber};
use crate::wire::varint;
use core::num::NonZeroU32;
use core::ops::Deref;
use slab::Slab;
use std::sync::Arc;

/// The peers, by key.
#[derive(Debug)]
pub(super) struct Peers {
    seats: Slab<Seat>,
    /// Those that woke up since they were last looked at.
    woken: Vec<usize>,
    /// Sessions with peers that were forgotten had lower numbers.
    first_session: SessionNumber,
    config: Arc<Config>,
    pool: Pool,
}

#[derive(Debug)]
enum Seat {
    Awake(Box<Peer>),
    Resting(Resting),
}

/// Where assertions are on, so many peers that rest, and one in so many of the others, are compared
/// with what they would wake up as: writing a crowd out took most of its tests' time.
const COMPARED: usize = 32;

/// So many bytes hold the first words, whatever they are: a mask and eight of the longest.
const HEAD: usize = 1 + 8 * varint::MAX;

/// A peer that rests, folded. Small: one stands in each place of the table.
#[derive(Debug)]
pub(super) struct Resting {
    node: NodeId,
    /// The index of its connection, plus one; no connection has the highest.
    index: Option<NonZeroU32>,
    tag: u64,
    /// A [`Summary`], then everything else.
    state: Box<[u8]>,
}

const _: () = assert!(size_of::<Resting>() <= 32);

/// What others look for among all peers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Summary {
    /// Sent and received.
    packets: u64,
    /// Since when it has not used its place among those who have shares of the socket's buffer.
    pub(super) idle_since: Instant,
    /// It came without being in the book.
    pub(super) stranger: bool,
}

folds!(Summary {
    packets,
    idle_since,
    stranger
});

/// A peer to look at.
pub(super) enum Look<'a> {
    Awake(&'a Peer),
    Read(Box<Peer>),
}

impl Deref for Look<'_> {
    type Target = Peer;

    fn deref(&self) -> &Peer {
        match self {
            Self::Awake(peer) => peer,
            Self::Read(peer) => peer,
        }
    }
}

impl Resting {
    fn new(peer: &Peer, config: &Config) -> Self {
        let connection = peer.connection.as_ref();
        let grant = connection.map(|connection| &connection.grant);
        let summary = Summary {
            packets: peer.packets(),
            idle_since: grant.map_or(Instant::ZERO, |grant| grant.idle_since()),
            stranger: peer.stranger_from.is_some(),
        };
        let index = connection.and_then(|c| NonZeroU32::new(c.local.index.wrapping_add(1)));
        debug_assert_eq!(index.is_some(), connection.is_some());
        Self {
            node: peer.node,
            index,
            tag: connection.map_or(0, |connection| connection.local.tag),
            state: peer.fold(&summary, config),
        }
    }

    /// Where its connection ends, if it has one.
    fn end(&self) -> Option<End> {
        let index = self.index?.get() - 1;
        let tag = self.tag;
        Some(End { index, tag })
    }

    pub(super) fn has_connection(&self) -> bool {
        self.index.is_some()
    }

    pub(super) fn summary(&self) -> Summary {
        Summary::unfold(&mut Words::unpack(
            self.state.get(..HEAD).unwrap_or(&self.state),
        ))
    }

    #[cold]
    fn read(&self, key: usize, config: &Config, pool: &Pool) -> Box<Peer> {
        let mut words = Words::unpack(&self.state);
        Summary::unfold(&mut words);
        let mut peer = Peer::new(
            self.node,
            key,
            Addresses::default(),
            Instant::ZERO,
            config,
            pool,
        );
        peer.restore(self.end(), &mut words);
        Box::new(peer)
    }
}

impl Peers {
    pub(super) fn new(config: Arc<Config>, pool: Pool) -> Self {
        Self {
            seats: Slab::new(),
            woken: Vec::new(),
            first_session: SessionNumber::default(),
            config,
            pool,
        }
    }

    pub(super) fn insert(&mut self, node: NodeId, addresses: Addresses, now: Instant) -> usize {
        let seat = self.seats.vacant_entry();
        let key = seat.key();
        let mut peer = Peer::new(node, key, addresses, now, &self.config, &self.pool);
        peer.session.number = self.first_session;
        seat.insert(Seat::Awake(Box::new(peer)));
        key
    }

    /// Removes a peer of which nothing is left.
    pub(super) fn remove(&mut self, key: usize) -> Option<Box<Peer>> {
        let peer = match self.seats.try_remove(key)? {
            Seat::Awake(peer) => peer,
            Seat::Resting(resting) => resting.read(key, &self.config, &self.pool),
        };
        self.first_session = self.first_session.max(peer.session.number.next());
        Some(peer)
    }

    pub(super) fn len(&self) -> usize {
        self.seats.len()
    }

    /// The peer, awake from now on.
    #[inline]
    pub(super) fn get_mut(&mut self, key: usize) -> Option<&mut Peer> {
        let seat = self.seats.get_mut(key)?;
        if let Seat::Resting(resting) = seat {
            *seat = Seat::Awake(resting.read(key, &self.config, &self.pool));
            self.woken.push(key);
        }
        match seat {
            Seat::Awake(peer) => Some(peer),
            Seat::Resting(_) => None,
        }
    }

    /// The same for a packet to `end`, if that is where its connection ends: no other wakes it.
    #[inline]
    pub(super) fn addressed(&mut self, key: usize, end: End) -> Option<&mut Peer> {
        let expected = match self.seats.get(key)? {
            Seat::Awake(peer) => peer.connection.as_ref()?.local,
            Seat::Resting(resting) => resting.end()?,
        };
        if expected != end {
            return None;
        }
        self.get_mut(key)
    }

    /// The peer, if it is awake.
    #[inline]
    pub(super) fn awake(&self, key: usize) -> Option<&Peer> {
        match self.seats.get(key)? {
            Seat::Awake(peer) => Some(peer),
            Seat::Resting(_) => None,
        }
    }

    /// Whether the peer rests, and has a connection.
    pub(super) fn rests_connected(&self, key: usize) -> bool {
        let resting = |seat: &Seat| matches!(seat, Seat::Resting(r) if r.has_connection());
        self.seats.get(key).is_some_and(resting)
    }

    /// The peer as it is, without waking it.
    pub(super) fn get(&self, key: usize) -> Option<Look<'_>> {
        self.seats.get(key).map(|seat| self.look(key, seat))
    }

    fn look<'a>(&self, key: usize, seat: &'a Seat) -> Look<'a> {
        match seat {
            Seat::Awake(peer) => Look::Awake(peer),
            Seat::Resting(resting) => Look::Read(resting.read(key, &self.config, &self.pool)),
        }
    }

    /// All of them, without waking any. Reads each one that rests: not for what happens often.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, Look<'_>)> {
        let seats = self.seats.iter();
        seats.map(|(key, seat)| (key, self.look(key, seat)))
    }

    /// Those without a connection, or the strangers among them. Reads each of these that rests.
    pub(super) fn iter_unconnected(
        &self,
        only_strangers: bool,
    ) -> impl Iterator<Item = (usize, Look<'_>)> {
        let meant = move |stranger| stranger || !only_strangers;
        let without = move |seat: &Seat| match seat {
            Seat::Awake(peer) => peer.connection.is_none() && meant(peer.stranger_from.is_some()),
            Seat::Resting(resting) => {
                !resting.has_connection() && meant(resting.summary().stranger)
            }
        };
        let seats = self.seats.iter().filter(move |(_, seat)| without(seat));
        seats.map(|(key, seat)| (key, self.look(key, seat)))
    }

    /// Those that are awake.
    pub(super) fn iter_awake(&self) -> impl Iterator<Item = (usize, &Peer)> {
        self.seats.iter().filter_map(|(key, seat)| match seat {
            Seat::Awake(peer) => Some((key, &**peer)),
            Seat::Resting(_) => None,
        })
    }

    pub(super) fn iter_awake_mut(&mut self) -> impl Iterator<Item = (usize, &mut Peer)> {
        self.seats.iter_mut().filter_map(|(key, seat)| match seat {
            Seat::Awake(peer) => Some((key, &mut **peer)),
            Seat::Resting(_) => None,
        })
    }

    /// Those that rest.
    pub(super) fn iter_resting(&self) -> impl Iterator<Item = (usize, &Resting)> {
        self.seats.iter().filter_map(|(key, seat)| match seat {
            Seat::Awake(_) => None,
            Seat::Resting(resting) => Some((key, resting)),
        })
    }

    /// All keys.
    pub(super) fn keys(&self) -> Vec<usize> {
        self.seats.iter().map(|(key, _)| key).collect()
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.seats.iter().map(|(_, seat)| match seat {
            Seat::Awake(peer) => peer.node,
            Seat::Resting(resting) => resting.node,
        })
    }

    /// Each one's node, and how many packets went there and came from there.
    pub(super) fn packets(&self) -> impl Iterator<Item = (NodeId, u64)> {
        self.seats.iter().map(|(_, seat)| match seat {
            Seat::Awake(peer) => (peer.node, peer.packets()),
            Seat::Resting(resting) => (resting.node, resting.summary().packets),
        })
    }

    /// A peer that woke up since this was last asked: somebody has to look whether it may rest
    /// again.
    #[inline]
    pub(super) fn next_woken(&mut self) -> Option<usize> {
        self.woken.pop()
    }

    /// Whether [`next_woken`](Self::next_woken) has one.
    pub(super) fn has_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    /// The peer was looked at and waits for no moment: it rests, unless something keeps it awake.
    #[cold]
    pub(super) fn rest(&mut self, key: usize, now: Instant) {
        if let Some(seat) = self.seats.get_mut(key)
            && let Seat::Awake(peer) = seat
            && peer.rest(now)
        {
            let resting = Resting::new(peer, &self.config);
            if cfg!(debug_assertions) && (key < COMPARED || key.is_multiple_of(COMPARED)) {
                let woken = resting.read(key, &self.config, &self.pool);
                assert_eq!(
                    format!("{peer:?}"),
                    format!("{woken:?}"),
                    "what rests wakes up as it was"
                );
            }
            *seat = Seat::Resting(resting);
        }
    }
}
