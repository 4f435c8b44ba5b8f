//! Decides where packets go.

use super::table::Routes;
use super::wire::{LONGEST, MAX_HOPS, OuterHeader};
use std::collections::{BTreeMap, BTreeSet};
use suci_proto::RoutedPacket;
use suci_proto::message::Message;
use suci_proto::time::{Duration, Instant};
use suci_proto::types::NodeId;

/// Most nodes without a route of which the neighbour is remembered from which they were heard. Of
/// others no packet is answered.
const MAX_LEARNED: usize = 4_096;

/// Time without an answer of a node after which its packets take the next of its routes.
pub(super) const NEXT_ROUTE_AFTER: Duration = Duration::from_secs(2);

/// The settings of a node's router.
#[derive(Clone, Debug)]
pub struct RouterSettings {
    /// The node.
    pub own: NodeId,
    /// It forwards packets of others.
    pub forwards: bool,
    /// It forwards packets of any nodes, not only of those in its book.
    pub anyone: bool,
    /// The nodes that it reaches by itself.
    pub neighbours: BTreeSet<NodeId>,
    /// The routes of the others.
    pub routes: Routes,
}

/// The next hop of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The neighbour that it goes to.
    pub next: NodeId,
    /// Its header there.
    pub header: OuterHeader,
}

/// The fate of a packet that came from a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is for this node, from the node named.
    Deliver(NodeId),
    /// It goes on.
    Forward(Hop),
    /// It is dropped, for this reason.
    Drop(RoutedPacket),
}

/// A node's routes, and what it knows of its neighbours.
#[derive(Clone, Debug)]
pub struct Router {
    settings: RouterSettings,
    /// Nodes without a route, and the neighbour from which each was heard last.
    learned: BTreeMap<NodeId, NodeId>,
    /// Neighbours that do not answer.
    silent: BTreeSet<NodeId>,
    /// Nodes that did not answer over the first of their routes: how many routes are passed over,
    /// and since when.
    passed: BTreeMap<NodeId, (usize, Instant)>,
}

impl Router {
    /// Returns the router of a node.
    #[must_use]
    pub fn new(settings: RouterSettings) -> Self {
        Self {
            settings,
            learned: BTreeMap::new(),
            silent: BTreeSet::new(),
            passed: BTreeMap::new(),
        }
    }

    /// Returns the first hop of a packet of this node, if there is a way.
    #[must_use]
    pub fn originate(&self, destination: NodeId) -> Option<Hop> {
        let next = self.next_hop(destination, MAX_HOPS)?;
        // A neighbour that carried its own packets would carry them for ever.
        if next == destination {
            return None;
        }
        let header = OuterHeader {
            destination,
            source: self.settings.own,
            hops: MAX_HOPS,
        };
        Some(Hop { next, header })
    }

    /// Decides about a packet that came from the neighbour `from`.
    pub fn receive(&mut self, from: NodeId, message: &Message) -> Step {
        let header = OuterHeader::read(message.kind, &message.user_header);
        let Some(header) = header.ok().filter(|_| message.payload.len() <= LONGEST) else {
            return Step::Drop(RoutedPacket::Malformed);
        };
        let (own, source) = (self.settings.own, header.source);
        if source == own {
            // One of ours that came back.
            return Step::Drop(RoutedPacket::HopLimit);
        }
        // A session that is itself carried by others carries nothing, and a neighbour of this node
        // is not behind another. Else packets could be put into packets without an end.
        let for_us = header.destination == own;
        if self.is_behind_others(from) || for_us && self.settings.neighbours.contains(&source) {
            return Step::Drop(RoutedPacket::NotAllowed);
        }
        if for_us {
            self.learn(source, from);
            return Step::Deliver(source);
        }
        if !self.permits(&header) {
            return Step::Drop(RoutedPacket::NotAllowed);
        }
        // A node that is neither in the book nor behind a route may be a neighbour that called.
        let next = self.next_hop(header.destination, MAX_HOPS);
        let next = next.unwrap_or(header.destination);
        if header.hops <= 1 || next == from || next == source {
            return Step::Drop(RoutedPacket::HopLimit);
        }
        let hops = header.hops - 1;
        let header = OuterHeader { hops, ..header };
        Step::Forward(Hop { next, header })
    }

    fn permits(&self, header: &OuterHeader) -> bool {
        let settings = &self.settings;
        let known = |node: NodeId| {
            settings.neighbours.contains(&node) || settings.routes.of(node).is_some()
        };
        let both = settings.anyone || (known(header.source) && known(header.destination));
        settings.forwards && both
    }

    /// Returns true if packets for this node go to a neighbour that sends them on.
    fn is_behind_others(&self, node: NodeId) -> bool {
        let settings = &self.settings;
        !settings.neighbours.contains(&node)
            && (settings.routes.of(node).is_some() || self.learned.contains_key(&node))
    }

    /// Remembers where a node without a route was heard, so that it can be answered. Nodes that
    /// were heard through it are forgotten.
    fn learn(&mut self, source: NodeId, from: NodeId) {
        if self.settings.routes.of(source).is_some() {
            return;
        }
        if self.learned.len() < MAX_LEARNED || self.learned.contains_key(&source) {
            self.learned.insert(source, from);
            self.learned.retain(|_, neighbour| *neighbour != source);
        }
    }

    /// Returns the neighbour through which a node is reached: of several the first that answers, or
    /// the first if none does. `depth` bounds how far routes through routes are followed.
    fn next_hop(&self, node: NodeId, depth: u8) -> Option<NodeId> {
        if depth == 0 {
            return None;
        }
        if self.settings.neighbours.contains(&node) {
            return Some(node);
        }
        let Some(vias) = self.settings.routes.of(node) else {
            return self.learned.get(&node).copied();
        };
        let passed = self.passed.get(&node).map_or(0, |(count, _)| *count);
        let mut fallback = None;
        for index in 0..vias.len() {
            let via = vias.get((index + passed) % vias.len())?;
            let Some(next) = self.next_hop(*via, depth - 1) else {
                continue;
            };
            if !self.silent.contains(&next) {
                return Some(next);
            }
            fallback = fallback.or(Some(next));
        }
        fallback
    }

    /// Returns the neighbours that carry packets of this node.
    #[must_use]
    pub fn carriers(&self) -> BTreeSet<NodeId> {
        let routes = &self.settings.routes;
        let vias = routes.singles().flat_map(|(_, vias)| vias);
        let vias = vias.chain(routes.ranges().flat_map(|(_, vias)| vias));
        let neighbours = vias.filter_map(|via| self.next_hop(*via, MAX_HOPS));
        neighbours.chain(self.learned.values().copied()).collect()
    }

    /// Returns the nodes with several routes.
    pub fn choices(&self) -> impl Iterator<Item = NodeId> + '_ {
        let singles = self.settings.routes.singles();
        let several = singles.filter(|(_, vias)| vias.len() > 1);
        several.map(|(node, _)| node)
    }

    /// Notes that the program entered a neighbour, or removed it.
    pub fn set_neighbour(&mut self, node: NodeId, entered: bool) {
        match entered {
            true => self.settings.neighbours.insert(node),
            false => self.settings.neighbours.remove(&node),
        };
        self.learned.remove(&node);
    }

    /// Notes whether a neighbour leaves questions unanswered.
    pub fn set_silent(&mut self, neighbour: NodeId, silent: bool) {
        match silent {
            true => self.silent.insert(neighbour),
            false => self.silent.remove(&neighbour),
        };
    }

    /// Notes that a node with several routes does not answer. Its packets take the next route, if
    /// they took this one for a while.
    pub fn on_unanswered(&mut self, now: Instant, node: NodeId) {
        let passed = self.passed.entry(node).or_insert((0, now));
        if passed.0 == 0 || now >= passed.1 + NEXT_ROUTE_AFTER {
            *passed = (passed.0.wrapping_add(1), now);
        }
    }
}
