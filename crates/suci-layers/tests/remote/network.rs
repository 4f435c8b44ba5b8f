//! Nodes, and a network in memory that carries messages as an engine does: those of a channel are
//! handled in order, while their pieces arrive in any order. Long messages go to the memory that
//! their layer names, if all before them were handled or placed when the first piece arrived.

use crate::memory::Locked;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use suci_layers::remote::{
    Body, Description, Initiator, OperationError, OperationId, PlaceDecision, Placement, REPLIES,
    REQUESTS, Regions, RemoteRegion, Rights, Target,
};
use suci_proto::Outgoing;
use suci_proto::types::{ChannelId, NodeId, SessionNumber, Source};

/// Bytes of a message that one packet carries.
const PACKET: usize = 100;

/// Messages of a channel of which pieces may be under way at once.
const WINDOW: usize = 4;

/// Messages of a channel that a node keeps for sending.
const QUEUE: usize = 8;

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, below: usize) -> usize {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below
    }

    /// Returns true once in `times` calls.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// A message that is under way.
struct Carried {
    message: Outgoing,
    /// The pieces that did not arrive yet.
    pieces: Vec<Range<usize>>,
    began: bool,
    placement: Option<Placement>,
    buffer: Vec<u8>,
}

impl Carried {
    fn new(message: &Outgoing) -> Self {
        let length = message.payload.len();
        let begins = (0..length.max(1)).step_by(PACKET);
        Self {
            pieces: begins.map(|at| at..length.min(at + PACKET)).collect(),
            buffer: vec![0; length],
            message: message.clone(),
            began: false,
            placement: None,
        }
    }

    fn description(&self) -> Description<'_> {
        Description {
            tag: self.message.tag,
            kind: self.message.kind,
            user_header: &self.message.user_header,
            total: self.message.payload.len() as u64,
        }
    }
}

pub(crate) struct Node {
    pub(crate) initiator: Initiator,
    pub(crate) target: Target,
    pub(crate) regions: Regions,
    /// How operations ended.
    pub(crate) results: BTreeMap<OperationId, Result<Option<u64>, OperationError>>,
}

type Link = (NodeId, NodeId, ChannelId);

pub(crate) struct Network {
    pub(crate) nodes: Vec<Node>,
    pub(crate) random: Random,
    links: BTreeMap<Link, VecDeque<Carried>>,
    /// Messages that went to their places directly.
    pub(crate) placed: usize,
    /// Messages of more than one piece that did not.
    pub(crate) buffered: usize,
}

pub(crate) fn id(index: usize) -> NodeId {
    NodeId(index as u32)
}

/// Returns the session with a node, which has one number here.
pub(crate) fn source(node: NodeId) -> Source {
    let session = SessionNumber(0);
    Source { node, session }
}

impl Network {
    pub(crate) fn new(nodes: usize, seed: u64) -> Self {
        let node = |_| {
            let regions = Regions::new();
            Node {
                initiator: Initiator::new(),
                target: Target::new(regions.clone()),
                regions,
                results: BTreeMap::new(),
            }
        };
        Self {
            nodes: (0..nodes).map(node).collect(),
            random: Random::new(seed),
            links: BTreeMap::new(),
            placed: 0,
            buffered: 0,
        }
    }

    /// Opens memory at a node.
    pub(crate) fn register(
        &mut self,
        node: usize,
        memory: &Arc<Locked>,
        rights: Rights,
    ) -> RemoteRegion {
        let key = (self.random.below(1 << 31) as u64) << 32 | self.random.below(1 << 31) as u64;
        let memory = Arc::clone(memory);
        let region = self.nodes[node].regions.register(memory, rights, key);
        RemoteRegion {
            node: id(node),
            region: region.expect("room"),
            key,
        }
    }

    /// Does one thing that a network or a node may do now.
    pub(crate) fn step(&mut self) {
        let node = self.random.below(self.nodes.len());
        match self.random.below(8) {
            0 => self.transmit(node),
            1 | 2 => self.handle(),
            _ => self.deliver(),
        }
    }

    /// Lets a node send. Its queues take a part of it.
    fn transmit(&mut self, node: usize) {
        let Node {
            initiator, target, ..
        } = &mut self.nodes[node];
        let (links, random) = (&mut self.links, &mut self.random);
        let mut send = |to: NodeId, message: &Outgoing| {
            let link = links.entry((id(node), to, message.channel)).or_default();
            let takes = link.len() < QUEUE && !random.once_in(8);
            if takes {
                link.push_back(Carried::new(message));
            }
            takes
        };
        initiator.transmit(&mut send);
        target.transmit(&mut send);
    }

    fn any_link(&mut self) -> Option<Link> {
        let with_messages = self.links.iter().filter(|(_, link)| !link.is_empty());
        let keys: Vec<_> = with_messages.map(|(key, _)| *key).collect();
        (!keys.is_empty()).then(|| keys[self.random.below(keys.len())])
    }

    /// Delivers one piece of a message.
    fn deliver(&mut self) {
        let Some(key) = self.any_link() else { return };
        let link = self.links.get_mut(&key).expect("it was found");
        let at = self.random.below(link.len().min(WINDOW));
        if link[at].pieces.is_empty() {
            return;
        }
        if !link[at].began && link[at].pieces.len() > 1 {
            let in_turn = link.range(..at).all(|earlier| earlier.placement.is_some());
            let (from, to, channel) = key;
            let node = &mut self.nodes[to.0 as usize];
            let message = link[at].description();
            let decision = match (in_turn, channel) {
                (false, _) => PlaceDecision::Buffer,
                (true, REQUESTS) => node.target.place(source(from), &message),
                (true, _) => node.initiator.place(from, &message),
            };
            match decision {
                PlaceDecision::Direct(placement) => {
                    assert_eq!(placement.len(), message.total);
                    self.placed += 1;
                    link[at].placement = Some(placement);
                }
                PlaceDecision::AfterEarlier if self.random.once_in(2) => return,
                PlaceDecision::AfterEarlier | PlaceDecision::Buffer => self.buffered += 1,
            }
        }
        let carried = &mut link[at];
        carried.began = true;
        let piece = self.random.below(carried.pieces.len());
        let piece = carried.pieces.swap_remove(piece);
        let bytes = &carried.message.payload[piece.clone()];
        match &carried.placement {
            Some(placement) => drop(placement.write(piece.start as u64, bytes)),
            None => carried.buffer[piece].copy_from_slice(bytes),
        }
    }

    /// Handles the first message of a channel, if it is complete and its layer takes it.
    fn handle(&mut self) {
        let Some(key) = self.any_link() else { return };
        let (from, to, channel) = key;
        let node = &mut self.nodes[to.0 as usize];
        let link = self.links.get_mut(&key).expect("it was found");
        let complete = link.front().is_some_and(|first| first.pieces.is_empty());
        let takes = channel == REPLIES || node.target.takes(from);
        if !complete || !takes {
            return;
        }
        let carried = link.pop_front().expect("it is complete");
        let body = match carried.placement {
            Some(_) => Body::Placed,
            None => Body::Bytes(&carried.buffer),
        };
        match channel {
            REQUESTS => node
                .target
                .on_request(source(from), &carried.description(), body),
            _ => node.initiator.on_reply(from, &carried.description(), body),
        }
        self.collect(to.0 as usize);
    }

    /// Takes completions. None comes twice.
    pub(crate) fn collect(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        while let Some(completion) = node.initiator.poll_completion() {
            let earlier = node.results.insert(completion.operation, completion.result);
            assert_eq!(earlier, None, "completed twice");
        }
    }

    /// Goes on until nothing is under way.
    pub(crate) fn settle(&mut self) {
        let mut steps = 0_u64;
        while self.is_busy() {
            self.step();
            steps += 1;
            assert!(steps < 10_000_000, "nobody gets further");
        }
        (0..self.nodes.len()).for_each(|node| self.collect(node));
    }

    fn is_busy(&self) -> bool {
        let waits = |node: &Node| node.target.has_output() || node.initiator.has_output();
        self.links.values().any(|link| !link.is_empty()) || self.nodes.iter().any(waits)
    }
}

// No scenario with planted faults needs these.
#[cfg(not(suci_plant))]
impl Network {
    /// Ends the session of two nodes: what is under way is lost.
    pub(crate) fn end_session(&mut self, one: usize, other: usize) {
        let (one, other) = (id(one), id(other));
        self.links.retain(|(from, to, _), _| {
            (*from, *to) != (one, other) && (*from, *to) != (other, one)
        });
        for (node, peer) in [(one, other), (other, one)] {
            let node = node.0 as usize;
            self.nodes[node].initiator.ended(peer);
            self.nodes[node].target.ended(source(peer));
            self.collect(node);
        }
    }

    /// Waits for an operation and returns its result.
    pub(crate) fn wait(
        &mut self,
        node: usize,
        operation: OperationId,
    ) -> Result<Option<u64>, OperationError> {
        for _ in 0..10_000_000 {
            self.collect(node);
            if let Some(result) = self.nodes[node].results.get(&operation) {
                return *result;
            }
            self.step();
        }
        panic!("{operation:?} does not complete");
    }
}
