//! The messages that wait for each node.

use super::record::Record;
use super::table::{BUCKETS, MemberTable, positions};
use super::wire::{LONGEST_HEADER, LONGEST_RECORD, MAX_MESSAGE, MembershipBody};
use core::ops::RangeInclusive;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use suci_proto::time::Instant;
use suci_proto::types::NodeId;

/// Maximum number of records that wait for one node. A digest is sent in the place of more: a node
/// that many changes were kept for asks for what it lacks.
const MAX_RECORDS: usize = 512;

/// Maximum number of records of a message.
const MOST: usize = (MAX_MESSAGE - LONGEST_HEADER) / LONGEST_RECORD;

/// The contents that wait for one node.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// It must be told that this is another cluster.
    pub(super) other_cluster: bool,
    /// It gets the digest of the table.
    pub(super) digest: bool,
    /// A record of another process in its place, which is not in the table: the node may not know
    /// that it is told.
    claim: Option<Record>,
    /// Positions of records.
    records: BTreeSet<u32>,
    /// Ranges of positions.
    ranges: VecDeque<(u32, u32)>,
    /// No further message goes before then.
    next_at: Option<Instant>,
    /// Since when it waits, as far as that was noticed.
    since: Option<Instant>,
}

impl Pending {
    fn is_empty(&self) -> bool {
        let is_asked = self.other_cluster || self.digest || self.claim.is_some();
        !is_asked && self.records.is_empty() && self.ranges.is_empty()
    }

    /// Adds the record of another process in the place of the node itself.
    pub(super) fn claim(&mut self, record: Record) {
        if self.claim.is_none_or(|claim| record.replaces(&claim)) {
            self.claim = Some(record);
        }
    }

    /// Adds a record.
    pub(super) fn insert(&mut self, position: u32) {
        if self.records.len() < MAX_RECORDS {
            self.records.insert(position);
        } else {
            self.digest = true;
        }
    }

    /// Answers a digest with the ranges that differ, in place of an earlier answer.
    pub(super) fn answer(&mut self, ours: &[u32; BUCKETS], theirs: &[u32; BUCKETS]) {
        let both = ours.iter().zip(theirs).enumerate();
        let different = both.filter(|(_, (ours, theirs))| ours != theirs);
        self.ranges.clear();
        for (bucket, _) in different {
            let (first, last) = positions(bucket).into_inner();
            match self.ranges.back_mut() {
                Some((_, end)) if end.checked_add(1) == Some(first) => *end = last,
                _ => self.ranges.push_back((first, last)),
            }
        }
    }

    /// Returns the content of the next message. It may turn out that none is needed.
    fn next(&mut self, table: &MemberTable, own: &Record) -> Option<MembershipBody> {
        if core::mem::take(&mut self.other_cluster) {
            return Some(MembershipBody::OtherCluster(String::new()));
        }
        if core::mem::take(&mut self.digest) {
            return Some(MembershipBody::Digest {
                own: *own,
                buckets: table.digest(),
            });
        }
        if let Some(claim) = self.claim.take() {
            return Some(MembershipBody::Records(vec![claim]));
        }
        if !self.records.is_empty() {
            let positions: Vec<_> = self.records.iter().copied().take(MOST).collect();
            self.records.retain(|it| positions.last() < Some(it));
            let entries = positions.iter().filter_map(|it| table.at(*it));
            let records: Vec<_> = entries.map(|entry| entry.record).collect();
            return (!records.is_empty()).then_some(MembershipBody::Records(records));
        }
        let (first, last) = self.ranges.pop_front()?;
        Some(self.range(table, first..=last))
    }

    /// Returns the members in a range, or in its beginning; the rest waits.
    fn range(&mut self, table: &MemberTable, positions: RangeInclusive<u32>) -> MembershipBody {
        let (first, mut last) = (*positions.start(), *positions.end());
        let mut present = table.present_in(positions);
        let records: Vec<_> = present.by_ref().take(MOST).collect();
        if let Some((next, _)) = present.next() {
            self.ranges.push_front((next, last));
            last = next.saturating_sub(1);
        }
        let records = records.into_iter().map(|(_, record)| *record).collect();
        MembershipBody::Range {
            first,
            last,
            records,
        }
    }
}

/// The contents that wait for all nodes.
#[derive(Debug, Default)]
pub(super) struct Outbox(BTreeMap<NodeId, Pending>);

impl Outbox {
    /// Returns what is to be sent to `node`.
    pub(super) fn to(&mut self, node: NodeId) -> &mut Pending {
        self.0.entry(node).or_default()
    }

    /// The node knows the record by itself.
    pub(super) fn forget(&mut self, node: NodeId, position: u32) {
        if let Some(pending) = self.0.get_mut(&node) {
            pending.records.remove(&position);
        }
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        self.0.remove(&node);
    }

    /// Returns true if nothing is to be sent.
    pub(super) fn is_empty(&self) -> bool {
        self.0.values().all(Pending::is_empty)
    }

    /// Returns the nodes to which something is to be sent.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        let waiting = self.0.iter().filter(|(_, pending)| !pending.is_empty());
        waiting.map(|(node, _)| *node)
    }

    /// Returns the nodes to which something was sent lately, or is to be sent.
    pub(super) fn partners(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.0.keys().copied()
    }

    /// Drops what waited for longer than `limit` for nodes that are not among the `neighbours`.
    pub(super) fn expire(&mut self, now: Instant, limit: Duration, neighbours: &BTreeSet<NodeId>) {
        self.0.retain(|node, pending| {
            let since = *pending.since.get_or_insert(now);
            match pending.is_empty() {
                true => pending.next_at.is_some_and(|at| now < at),
                false => now < since + limit || neighbours.contains(node),
            }
        });
    }

    /// Returns the next message to a node for which `may_get` returns true, after which no other
    /// goes to the node for `interval`.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        interval: Duration,
        table: &MemberTable,
        own: &Record,
        may_get: impl Fn(NodeId) -> bool,
    ) -> Option<(NodeId, MembershipBody)> {
        let ready = |(node, pending): &(&NodeId, &mut Pending)| {
            !pending.is_empty() && pending.next_at.is_none_or(|at| at <= now) && may_get(**node)
        };
        for (node, pending) in self.0.iter_mut().filter(ready) {
            while !pending.is_empty() {
                if let Some(body) = pending.next(table, own) {
                    pending.next_at = Some(now + interval);
                    pending.since = None;
                    return Some((*node, body));
                }
            }
        }
        None
    }
}
