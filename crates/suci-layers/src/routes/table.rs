//! The routes of an address book.

use core::fmt;
use core::ops::RangeInclusive;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use suci_proto::types::NodeId;

/// Maximum number of nodes through which a route may lead, in the order in which they are tried.
const MAX_VIAS: usize = 8;

/// The nodes through which others are reached. A route of a single node comes before one of a
/// range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    single: BTreeMap<NodeId, Arc<[NodeId]>>,
    /// By their last node. Ranges do not overlap.
    ranges: BTreeMap<u32, (u32, Arc<[NodeId]>)>,
}

/// Why a route cannot be entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteError {
    /// A node of it has a route already.
    Taken(NodeId),
    /// It leads through the node itself.
    ThroughItself(NodeId),
    /// It names a node twice, none, or too many.
    Vias,
    /// The range is empty.
    Empty,
}

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken(node) => write!(
                f,
                "node {node} has a route already: name all nodes behind one \"via\""
            ),
            Self::ThroughItself(node) => {
                write!(f, "node {node} via itself: name a neighbour behind \"via\"")
            }
            Self::Vias => write!(f, "name 1 to {MAX_VIAS} different nodes behind \"via\""),
            Self::Empty => f.write_str("the range has no nodes: write the lower number first"),
        }
    }
}

impl std::error::Error for RouteError {}

impl Routes {
    /// Enters a route: `nodes` are reached through the first of `vias` that answers.
    ///
    /// # Errors
    /// [`RouteError`].
    pub fn add(&mut self, nodes: RangeInclusive<u32>, vias: &[NodeId]) -> Result<(), RouteError> {
        let different: BTreeSet<_> = vias.iter().collect();
        if vias.is_empty() || vias.len() > MAX_VIAS || different.len() != vias.len() {
            return Err(RouteError::Vias);
        }
        let (first, last) = nodes.into_inner();
        if first > last {
            return Err(RouteError::Empty);
        }
        if first == last {
            let node = NodeId(first);
            if different.contains(&node) {
                return Err(RouteError::ThroughItself(node));
            }
            if self.single.contains_key(&node) {
                return Err(RouteError::Taken(node));
            }
            self.single.insert(node, vias.into());
            return Ok(());
        }
        let next = self.ranges.range(first..).next();
        if let Some((_, (begin, _))) = next.filter(|(_, (begin, _))| *begin <= last) {
            return Err(RouteError::Taken(NodeId(first.max(*begin))));
        }
        self.ranges.insert(last, (first, vias.into()));
        Ok(())
    }

    /// Returns the nodes through which a node with a route of its own is reached.
    #[must_use]
    pub fn of_single(&self, node: NodeId) -> Option<&[NodeId]> {
        self.single.get(&node).map(AsRef::as_ref)
    }

    /// Returns the nodes through which this node is reached.
    #[must_use]
    pub fn of(&self, node: NodeId) -> Option<&[NodeId]> {
        self.of_single(node).or_else(|| {
            let (_, (first, vias)) = self.ranges.range(node.0..).next()?;
            (*first <= node.0).then_some(vias.as_ref())
        })
    }

    /// Returns the nodes with a route of their own.
    pub fn singles(&self) -> impl Iterator<Item = (NodeId, &[NodeId])> + '_ {
        self.single
            .iter()
            .map(|(node, vias)| (*node, vias.as_ref()))
    }

    /// Returns the ranges of nodes with a route.
    pub fn ranges(&self) -> impl Iterator<Item = (RangeInclusive<u32>, &[NodeId])> + '_ {
        let ranges = self.ranges.iter();
        ranges.map(|(last, (first, vias))| (*first..=*last, vias.as_ref()))
    }

    /// Returns true if there are no routes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.single.is_empty() && self.ranges.is_empty()
    }

    /// Removes the route of a single node. Returns whether it had one.
    pub fn remove(&mut self, node: NodeId) -> bool {
        self.single.remove(&node).is_some()
    }

    /// Returns the nodes of a loop, in order, if a way through these routes comes back to where it
    /// was. `is_placed` tells the nodes that have an address, which comes before routes of ranges.
    #[must_use]
    pub fn find_loop(&self, is_placed: impl Fn(NodeId) -> bool) -> Option<Vec<NodeId>> {
        let begins = self
            .single
            .values()
            .chain(self.ranges.values().map(|(_, vias)| vias));
        let mut done = BTreeSet::new();
        let mut begins = begins.flat_map(|vias| vias.iter());
        begins.find_map(|via| self.follow(*via, &is_placed, &mut done))
    }

    /// Follows all ways from `start`, without recursion: a book may have a million routes.
    fn follow(
        &self,
        start: NodeId,
        is_placed: &impl Fn(NodeId) -> bool,
        done: &mut BTreeSet<NodeId>,
    ) -> Option<Vec<NodeId>> {
        // The nodes of the present way, and how many of their vias were followed.
        let mut way: Vec<(NodeId, usize)> = vec![(start, 0)];
        let mut on_it = BTreeSet::from([start]);
        while let Some((node, followed)) = way.last_mut() {
            let at = *node;
            let vias = match is_placed(at) {
                true => self.of_single(at),
                false => self.of(at),
            };
            let next = vias.and_then(|vias| vias.get(*followed)).copied();
            *followed += 1;
            match next.filter(|_| !done.contains(&at)) {
                None => {
                    done.insert(at);
                    on_it.remove(&at);
                    way.pop();
                }
                Some(via) => {
                    if !on_it.insert(via) {
                        let nodes = way.iter().map(|(node, _)| *node);
                        return Some(nodes.skip_while(|node| *node != via).collect());
                    }
                    way.push((via, 0));
                }
            }
        }
        None
    }
}
