//! Decides where packets go.

use super::address::Behind;
use super::table::Routes;
use super::wire::{LONGEST, MAX_HOPS, OuterHeader, TURNS};
use std::collections::{BTreeMap, BTreeSet};
use suci_proto::RoutedPacket;
use suci_proto::message::Message;
use suci_proto::time::{Duration, Instant};
use suci_proto::types::NodeId;

/// Maximum number of nodes for which passed-over routes are remembered. A further node replaces
/// another.
const MAX_PASSED: usize = 4_096;

/// Maximum number of nodes that are examined to find a packet's next hop: routes may lead to
/// routes, by eight ways each.
const MAX_LOOKED_AT: u8 = 64;

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
    Deliver(Behind),
    /// It goes on.
    Forward(Hop),
    /// It is dropped, for this reason.
    Drop(RoutedPacket),
}

/// A node's routes, and what it knows of its neighbours.
#[derive(Clone, Debug)]
pub struct Router {
    settings: RouterSettings,
    /// The nodes that routes name behind "via".
    vias: BTreeSet<NodeId>,
    /// Those of them that are neighbours.
    carriers: BTreeSet<NodeId>,
    /// A node without a route came by a neighbour.
    had_strangers: bool,
    /// Neighbours that do not answer.
    silent: BTreeSet<NodeId>,
    /// Nodes that did not answer over the first of their routes: the turn of their packets, and
    /// since when.
    passed: BTreeMap<NodeId, (u8, Instant)>,
}

impl Router {
    /// Returns the router of a node.
    #[must_use]
    pub fn new(settings: RouterSettings) -> Self {
        let singles = settings.routes.singles().flat_map(|(_, vias)| vias);
        let ranges = settings.routes.ranges().flat_map(|(_, vias)| vias);
        let vias: BTreeSet<_> = singles.chain(ranges).copied().collect();
        let carriers = vias.intersection(&settings.neighbours).copied().collect();
        Self {
            settings,
            vias,
            carriers,
            had_strangers: false,
            silent: BTreeSet::new(),
            passed: BTreeMap::new(),
        }
    }

    /// Returns the first hop of a packet of this node, if there is a way.
    #[must_use]
    pub fn originate(&self, to: Behind) -> Option<Hop> {
        // A neighbour that carried its own packets would carry them for ever.
        if self.settings.neighbours.contains(&to.node) {
            return None;
        }
        let turn = self.passed.get(&to.node).map_or(0, |(turn, _)| *turn);
        let (next, turn) = match to.neighbour {
            None => self.next_hop(to.node, turn)?,
            Some(it) if turn == 0 && !self.silent.contains(&it) => (it, 0),
            // It has had the first turn; the routes of a range have those that follow.
            Some(it) => self
                .next_hop(to.node, turn.saturating_sub(1))
                .unwrap_or((it, 0)),
        };
        let header = OuterHeader {
            destination: to.node,
            source: self.settings.own,
            hops: MAX_HOPS,
            turn: turn % TURNS,
        };
        (next != to.node).then_some(Hop { next, header })
    }

    /// Decides about a packet that came from the neighbour `from`. `is_carried` tells that the
    /// session with this neighbour goes through others itself.
    pub fn receive(&mut self, from: NodeId, is_carried: bool, message: &Message) -> Step {
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
        let is_near = source == from || self.settings.neighbours.contains(&source);
        if is_carried || for_us && is_near {
            return Step::Drop(RoutedPacket::NotAllowed);
        }
        if for_us {
            return Step::Deliver(self.behind(source, from));
        }
        if !self.permits(&header) {
            return Step::Drop(RoutedPacket::NotAllowed);
        }
        // A node that no route leads to may be a neighbour that called.
        let next = self.next_hop(header.destination, header.turn);
        let (next, turn) = next.unwrap_or((header.destination, 0));
        if header.hops <= 1 || next == from || next == source {
            return Step::Drop(RoutedPacket::HopLimit);
        }
        let hops = header.hops - 1;
        let header = OuterHeader {
            hops,
            turn,
            ..header
        };
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

    /// Returns where the source of a packet is, which came from the neighbour `from`. If the book
    /// has a route to it, no other neighbour can speak for it. A node that has a route of its own
    /// is one that this node may call, too; its answers may come by any way.
    fn behind(&mut self, node: NodeId, from: NodeId) -> Behind {
        let routes = &self.settings.routes;
        let is_by_book = routes.of_single(node).is_some()
            || self.next_hop(node, 0).is_some()
                && !self.leads_through(node, from, &mut MAX_LOOKED_AT.clone());
        if is_by_book {
            return Behind::by_route(node);
        }
        self.had_strangers = true;
        let neighbour = Some(from);
        Behind { node, neighbour }
    }

    /// Returns true if a route to `node` begins with this neighbour.
    fn leads_through(&self, node: NodeId, neighbour: NodeId, left: &mut u8) -> bool {
        if self.settings.neighbours.contains(&node) {
            return node == neighbour;
        }
        let Some(after) = left.checked_sub(1) else {
            return false;
        };
        *left = after;
        let mut vias = self.settings.routes.of(node).into_iter().flatten();
        vias.any(|via| self.leads_through(*via, neighbour, left))
    }

    /// Returns the neighbour through which a node is reached, and the turn of its packets from
    /// there on. Of several routes that is the one of the turn, or else the first behind it whose
    /// neighbour answers. If none does, it is the one of the turn.
    fn next_hop(&self, node: NodeId, turn: u8) -> Option<(NodeId, u8)> {
        self.search(node, turn, &mut MAX_LOOKED_AT.clone())
    }

    fn search(&self, node: NodeId, turn: u8, left: &mut u8) -> Option<(NodeId, u8)> {
        *left = left.checked_sub(1)?;
        if self.settings.neighbours.contains(&node) {
            return Some((node, turn));
        }
        // A node that is reached through this one is a neighbour, once it called.
        let vias = self.settings.routes.of(node)?;
        if vias.contains(&self.settings.own) {
            return None;
        }
        // A turn is a number with one digit for each choice on the way: all combinations come up.
        let count = u8::try_from(vias.len()).ok()?;
        let (first, rest) = (turn.checked_rem(count)?, turn.checked_div(count)?);
        let (before, behind) = vias.split_at_checked(first.into())?;
        let mut fallback = None;
        for via in behind.iter().chain(before) {
            let Some(found) = self.search(*via, rest, left) else {
                continue;
            };
            if !self.silent.contains(&found.0) {
                return Some(found);
            }
            fallback = fallback.or(Some(found));
        }
        fallback
    }

    /// Returns the neighbours that routes lead through.
    #[must_use]
    pub fn carriers(&self) -> &BTreeSet<NodeId> {
        &self.carriers
    }

    /// Returns true if sessions of this node may go through others.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.had_strangers || !self.settings.routes.is_empty()
    }

    /// Notes that the program entered a neighbour, or removed it.
    pub fn set_neighbour(&mut self, node: NodeId, entered: bool) {
        match entered {
            true => self.settings.neighbours.insert(node),
            false => self.settings.neighbours.remove(&node),
        };
        match entered && self.vias.contains(&node) {
            true => self.carriers.insert(node),
            false => self.carriers.remove(&node),
        };
    }

    /// Notes whether a neighbour leaves questions unanswered.
    pub fn set_silent(&mut self, neighbour: NodeId, silent: bool) {
        match silent {
            true => self.silent.insert(neighbour),
            false => self.silent.remove(&neighbour),
        };
    }

    /// Notes that a node does not answer. Its packets take the next route, if they took this one
    /// for a while: the next of this node, or of one on the way.
    pub fn on_unanswered(&mut self, now: Instant, node: NodeId) {
        if self.settings.routes.of(node).is_none() {
            return;
        }
        if self.passed.len() >= MAX_PASSED && !self.passed.contains_key(&node) {
            self.passed.pop_first();
        }
        let passed = self.passed.entry(node).or_insert((0, now));
        if passed.0 == 0 || now >= passed.1 + NEXT_ROUTE_AFTER {
            *passed = (passed.0.wrapping_add(1), now);
        }
    }

    /// Returns how many nodes have routes that are passed over.
    #[cfg(test)]
    pub(super) fn passed(&self) -> usize {
        self.passed.len()
    }
}
