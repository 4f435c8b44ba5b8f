//! The records of a member, ordered by the positions of the nodes on a ring.

use super::record::{Record, Status};
use super::wire::{fnv, write_record};
use core::ops::RangeInclusive;
use std::collections::{BTreeMap, BTreeSet};
use suci_proto::time::Instant;
use suci_proto::types::NodeId;

/// Number of parts of a digest. With 1,000 members each has 16, so that few differences cost little
/// more than their own records.
pub const BUCKETS: usize = 64;

/// The bits of a position below those that name the bucket.
const BUCKET_BITS: u32 = 32 - BUCKETS.trailing_zeros();

/// Members right after this one on the ring that it sends to and watches. With two, the ring holds
/// together when any single member dies unnoticed.
const SUCCESSORS: usize = 2;

/// Maximum number of suspects among the successors: the members behind them are watched already, so
/// that many that die together are noticed soon.
const MAX_SUSPECTS: usize = 8;

/// Each further neighbour is this many times nearer than the one before. With 4, news crosses 1,000
/// members in 15 steps at most, and each member has about 7 neighbours.
const NEARER: u64 = 4;

/// Returns the position of a node on the ring: a permutation of all node IDs that scatters nodes in
/// a row, which often share a machine (the finalizer of MurmurHash3, Appleby 2011).
#[must_use]
pub fn position(node: NodeId) -> u32 {
    let mut bits = node.0;
    bits = (bits ^ (bits >> 16)).wrapping_mul(0x85eb_ca6b);
    bits = (bits ^ (bits >> 13)).wrapping_mul(0xc2b2_ae35);
    bits ^ (bits >> 16)
}

/// Returns the bucket of a position.
pub(super) fn bucket(position: u32) -> usize {
    (position >> BUCKET_BITS) as usize
}

/// Returns the positions of a bucket.
pub(super) fn positions(bucket: usize) -> RangeInclusive<u32> {
    let bucket = u32::try_from(bucket).unwrap_or(0);
    let first = bucket << BUCKET_BITS;
    first..=(first | ((1 << BUCKET_BITS) - 1))
}

/// A record, and its state at this member.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) record: Record,
    /// When the record's version, state or process changed.
    pub(super) since: Instant,
    /// The record's share of its bucket's digest.
    digest: u32,
    /// Since when another process than the record's answers under this node ID.
    pub(super) replaced_since: Option<Instant>,
    /// Since when its process is known to have ended, by the link to it alone.
    pub(super) ended_since: Option<Instant>,
    /// The link was up since the record came.
    pub(super) was_up: bool,
}

/// All records, with at most one for each node.
#[derive(Clone, Debug, Default)]
pub(super) struct MemberTable {
    entries: BTreeMap<u32, Entry>,
    /// Positions of the members that are present.
    ring: BTreeSet<u32>,
    /// Positions of the members that are not alive: time changes their records.
    waning: BTreeSet<u32>,
}

impl MemberTable {
    pub(super) fn get(&self, node: NodeId) -> Option<&Entry> {
        self.at(position(node))
    }

    pub(super) fn at(&self, position: u32) -> Option<&Entry> {
        self.entries.get(&position)
    }

    pub(super) fn get_mut(&mut self, node: NodeId) -> Option<&mut Entry> {
        self.entries.get_mut(&position(node))
    }

    /// Enters a record, in place of an earlier one of its node.
    pub(super) fn set(&mut self, record: Record, now: Instant) {
        let at = position(record.node);
        match record.status.is_present() {
            true => self.ring.insert(at),
            false => self.ring.remove(&at),
        };
        match record.status {
            Status::Alive => self.waning.remove(&at),
            _ => self.waning.insert(at),
        };
        let entry = Entry {
            record,
            since: now,
            digest: digest(&record),
            replaced_since: None,
            ended_since: None,
            was_up: false,
        };
        self.entries.insert(at, entry);
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        let at = position(node);
        self.entries.remove(&at);
        self.ring.remove(&at);
        self.waning.remove(&at);
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of members that are present.
    pub(super) fn present(&self) -> usize {
        self.ring.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.values()
    }

    /// Returns the members that are not alive.
    pub(super) fn waning(&self) -> impl Iterator<Item = &Entry> {
        let entries = self.waning.iter().map(|at| self.entries.get(at));
        entries.flatten()
    }

    /// Returns the members present at these positions.
    pub(super) fn present_in(
        &self,
        positions: RangeInclusive<u32>,
    ) -> impl Iterator<Item = (u32, &Record)> {
        let entries = self.entries.range(positions);
        let present = entries.filter(|(_, entry)| entry.record.status.is_present());
        present.map(|(at, entry)| (*at, &entry.record))
    }

    /// Returns the sum of the digests of the members present in each bucket. Records of members
    /// that are gone do not count: each member forgets them at a time of its own.
    pub(super) fn digest(&self) -> Box<[u32; BUCKETS]> {
        let mut sums = Box::new([0u32; BUCKETS]);
        for (at, entry) in &self.entries {
            if entry.record.status.is_present()
                && let Some(sum) = sums.get_mut(bucket(*at))
            {
                *sum = sum.wrapping_add(entry.digest);
            }
        }
        sums
    }

    /// Returns the neighbours of the node at `own`: its successors on the ring, and the members
    /// behind the points at a quarter of the ring, a sixteenth, and so on, as the fingers of Chord
    /// (Stoica and others, SIGCOMM 2001). A member that comes or goes changes the neighbours of few
    /// others.
    pub(super) fn neighbours(&self, own: u32) -> BTreeSet<NodeId> {
        let mut at = own;
        let mut positions = BTreeSet::new();
        let (mut alive, mut suspect) = (0, 0);
        while alive < SUCCESSORS && suspect < MAX_SUSPECTS {
            at = self.successor(at.wrapping_add(1)).unwrap_or(own);
            positions.insert(at);
            match self.waning.contains(&at) {
                true => suspect += 1,
                false => alive += 1,
            }
        }
        let mut distance = (1 << 32) / NEARER;
        let mut reach = NEARER;
        while reach < NEARER * self.ring.len() as u64 && distance > 0 {
            let point = own.wrapping_add(u32::try_from(distance).unwrap_or(0));
            positions.insert(self.successor(point).unwrap_or(own));
            distance /= NEARER;
            reach *= NEARER;
        }
        positions.remove(&own);
        let nodes = positions.iter().filter_map(|at| self.entries.get(at));
        nodes.map(|entry| entry.record.node).collect()
    }

    /// Returns the first member present from this position on, around the ring.
    fn successor(&self, from: u32) -> Option<u32> {
        let first = self.ring.range(from..).next();
        first.or_else(|| self.ring.first()).copied()
    }
}

/// Returns a record's share of its bucket's digest.
fn digest(record: &Record) -> u32 {
    let mut bytes = Vec::new();
    write_record(&mut bytes, record);
    let hash = fnv(&bytes);
    ((hash >> 32) ^ (hash & 0xffff_ffff)) as u32
}
