//! A member, as engines drive it.

use super::MembershipCounters;
use super::protocol::{Change, Contact, JoinState, Membership};
use super::record::Record;
use bytes::Bytes;
use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use suci_proto::time::Instant;
use suci_proto::types::{ChannelId, Incarnation, Kind, MessageNumber, NodeId, SessionNumber};
use suci_proto::{
    Engine, LinkState, LostCause, MemberChange, MemberState, Outgoing, Port, PortInput, SendError,
};

/// The kind of all messages of this layer.
const KIND: Kind = Kind(64);

/// Maximum number of messages taken in one turn.
const BUDGET: usize = 64;

/// A member and what it knows of the engines that drive it. A node with several threads has an
/// engine for each; they share the member, and each serves its own peers.
#[derive(Debug)]
struct MembershipLayer {
    member: Membership,
    /// When the member is to be called next.
    next_at: Instant,
    /// The message to each node that was not acknowledged yet: a node gets one at a time.
    sent: BTreeMap<NodeId, (SessionNumber, MessageNumber)>,
    /// The nodes that an engine watches.
    watched: BTreeSet<NodeId>,
    /// Nodes whose engine has another address than the table.
    moved: BTreeSet<NodeId>,
    /// Nodes that this layer entered into an engine's book.
    entered: BTreeSet<NodeId>,
    /// The process of each node whose link was up at the last look.
    live: BTreeMap<NodeId, Incarnation>,
}

/// One engine's turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MembershipTurn {
    /// Something is to be sent.
    pub sent: bool,
    /// Nodes that the engine now knows, or no longer knows.
    pub known: Vec<NodeId>,
}

/// A member that one or several engines drive.
#[derive(Debug)]
pub struct SharedMembership(Mutex<MembershipLayer>);

impl SharedMembership {
    /// Returns the member for engines to drive.
    #[must_use]
    pub fn new(now: Instant, member: Membership) -> Self {
        Self(Mutex::new(MembershipLayer {
            member,
            next_at: now,
            sent: BTreeMap::new(),
            watched: BTreeSet::new(),
            moved: BTreeSet::new(),
            entered: BTreeSet::new(),
            live: BTreeMap::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, MembershipLayer> {
        // A panic in the layer is a fault of the library; the node goes on with what is there.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what members sent, does what is due, and sends. Call it if
    /// [`Engine::has_port_input`] and at [`next_at`](Self::next_at). `serves` tells the nodes that
    /// the engine serves.
    pub fn serve(
        &self,
        engine: &mut Engine,
        now: Instant,
        serves: impl Fn(NodeId) -> bool,
    ) -> MembershipTurn {
        let mut layer = self.lock();
        let mut turn = MembershipTurn::default();
        layer.take(engine, now, &serves);
        if now >= layer.next_at {
            layer.look(engine, now, &serves);
            layer.member.on_time(now);
            layer.next_at = layer.member.next_time(now);
        }
        layer.apply_changes(engine, now, &serves, &mut turn);
        layer.send(engine, now, &serves, &mut turn);
        turn
    }

    /// Returns the time at which [`serve`](Self::serve) is to be called next.
    #[must_use]
    pub fn next_at(&self) -> Instant {
        self.lock().next_at
    }

    /// Leaves the cluster. The engine is closed after the next [`serve`](Self::serve), which sends
    /// the last messages. Gives up sessions in which only a message of this layer waits for a node
    /// that does not answer: closing would wait for it.
    pub fn leave(&self, engine: &mut Engine, now: Instant) {
        let mut layer = self.lock();
        layer.member.leave(now);
        layer.next_at = Instant::MAX;
        // The last messages wait for nothing.
        for node in core::mem::take(&mut layer.sent).keys() {
            let answers = engine
                .member_state(*node)
                .is_some_and(|it| it.link == LinkState::Up);
            if !answers && engine.queue_len(*node).0 <= 1 {
                // It may be unknown by now.
                let _ = engine.reset(now, *node);
            }
        }
    }

    /// Returns the members that are present, by node ID.
    #[must_use]
    pub fn members(&self) -> Vec<Record> {
        self.lock().member.members()
    }

    /// Returns whether it joined.
    #[must_use]
    pub fn join_state(&self) -> JoinState {
        self.lock().member.join_state()
    }

    /// Returns the seeds.
    #[must_use]
    pub fn seeds(&self) -> Vec<NodeId> {
        self.lock().member.seeds().collect()
    }

    /// Returns true if this seed does not permit this node membership.
    #[must_use]
    pub fn is_denied_by(&self, seed: NodeId) -> bool {
        self.lock().member.is_denied_by(seed)
    }

    /// Returns the counters.
    #[must_use]
    pub fn counters(&self) -> MembershipCounters {
        self.lock().member.counters()
    }
}

impl MembershipLayer {
    /// Takes messages, and all that ended sessions left: no memory credit holds those back.
    fn take(&mut self, engine: &mut Engine, now: Instant, serves: &impl Fn(NodeId) -> bool) {
        let mut taken = 0;
        while engine.has_port_news(Port::Membership) || taken < BUDGET {
            taken += 1;
            let (from, message) = match engine.poll_port(Port::Membership) {
                Some(PortInput::Message(from, message) | PortInput::Last(from, message)) => {
                    (from, message)
                }
                Some(_) => continue,
                None => return,
            };
            let live = |node| match serves(node) {
                true => engine.member_state(node).and_then(|it| process_up(&it)),
                false => self.live.get(&node).copied(),
            };
            (self.member).on_message(now, from.node, &message.payload, live);
        }
    }

    /// Looks at the links to the nodes that count, and opens those that are missing.
    fn look(&mut self, engine: &mut Engine, now: Instant, serves: &impl Fn(NodeId) -> bool) {
        let contacts = self.member.contacts().filter(|(node, _)| serves(*node));
        let contacts: BTreeMap<_, _> = contacts.collect();
        self.watched.retain(|node| {
            let keep = !serves(*node) || contacts.get(node) == Some(&true);
            if !keep {
                engine.await_member(now, *node, false);
            }
            keep
        });
        for (node, is_watched) in contacts {
            let Some(state) = engine.member_state(node) else {
                continue;
            };
            match process_up(&state) {
                Some(process) => drop(self.live.insert(node, process)),
                None => drop(self.live.remove(&node)),
            }
            self.renew(engine, now, node, &state);
            if is_watched && self.watched.insert(node) {
                engine.await_member(now, node, true);
            }
            if matches!(state.link, LinkState::Idle) {
                // A node that is unknown by now needs no connection.
                let _ = engine.connect(now, node);
            }
            self.member.on_contact(now, node, contact(&state));
        }
        let moved: Vec<_> = self
            .moved
            .iter()
            .copied()
            .filter(|it| serves(*it))
            .collect();
        for node in moved {
            if let Some(state) = engine.member_state(node) {
                self.renew(engine, now, node, &state);
            }
        }
        self.live
            .retain(|node, _| self.member.record(*node).is_some());
    }

    /// Lets the engine connect to the address in the table, unless its own session proves that the
    /// node is elsewhere. A session with an earlier process that does not answer is given up.
    fn renew(&mut self, engine: &mut Engine, now: Instant, node: NodeId, state: &MemberState) {
        let Some(record) = self.member.record(node).copied() else {
            self.moved.remove(&node);
            return;
        };
        let is_replaced = state.incarnation.is_some_and(|it| it != record.incarnation);
        if is_replaced && state.link == LinkState::Lost && record.status.is_present() {
            // It is known: it has a state.
            let _ = engine.reset(now, node);
            self.moved.insert(node);
        }
        if self.moved.contains(&node) && state.link != LinkState::Up {
            self.moved.remove(&node);
            // The book has room for it, since it is in it.
            let _ = engine.add_peer(now, node, record.address);
        } else if !is_replaced {
            self.moved.remove(&node);
        }
    }

    /// Tells the engine and its program of changes.
    fn apply_changes(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        serves: &impl Fn(NodeId) -> bool,
        turn: &mut MembershipTurn,
    ) {
        while let Some(change) = self.member.poll_change(serves) {
            match change {
                Change::Joined(node, address) => {
                    self.enter(engine, now, node, address, turn);
                    engine.report_member(node, MemberChange::Joined);
                }
                Change::Moved(node, _) => drop(self.moved.insert(node)),
                Change::Left(node) => engine.report_member(node, MemberChange::Left),
                Change::Failed(node) => engine.report_member(node, MemberChange::Failed),
                Change::Forgotten(node) => {
                    let state = engine.member_state(node);
                    let is_up = state.is_some_and(|state| state.link == LinkState::Up);
                    if self.entered.remove(&node) && !is_up {
                        // The program may have removed it.
                        let _ = engine.remove_peer(now, node);
                        turn.known.push(node);
                    }
                }
            }
        }
    }

    /// Enters a node that joined into the engine's book, unless it is there.
    fn enter(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        node: NodeId,
        address: SocketAddr,
        turn: &mut MembershipTurn,
    ) {
        let state = engine.member_state(node);
        if state.is_some_and(|state| state.known) {
            // At an address that may be an earlier one.
            self.moved.insert(node);
        } else if engine.add_peer(now, node, address).is_ok() {
            self.entered.insert(node);
        }
        turn.known.push(node);
    }

    fn send(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        serves: &impl Fn(NodeId) -> bool,
        turn: &mut MembershipTurn,
    ) {
        loop {
            let (sent, shared) = (&mut self.sent, &*engine);
            sent.retain(|node, (session, number)| {
                !serves(*node)
                    || shared.session(*node) == Some(*session)
                        && shared.delivered(*node, ChannelId::MEMBERSHIP) <= *number
            });
            let may_get = |node| {
                let state = serves(node).then(|| shared.member_state(node)).flatten();
                let is_up = state.is_some_and(|it| it.link == LinkState::Up && !it.suspended_here);
                is_up && !sent.contains_key(&node)
            };
            let observed = |node| shared.peer_stats(node).and_then(|it| it.address);
            let Some((to, bytes)) = self.member.poll_message(now, may_get, observed) else {
                return;
            };
            let session = engine.session(to).unwrap_or_default();
            let queued = engine.send(now, to, outgoing(bytes));
            match queued {
                Ok(number) => {
                    self.member.set_denied(to, false);
                    self.sent.insert(to, (session, number));
                    turn.sent = true;
                }
                Err(SendError::NotPermitted { layer }) => {
                    self.member.set_denied(to, true);
                    engine.report_denied(to, layer);
                }
                // It found no room. The next comparison repeats it.
                Err(_) => {}
            }
        }
    }
}

fn process_up(state: &MemberState) -> Option<Incarnation> {
    state.incarnation.filter(|_| state.link == LinkState::Up)
}

fn contact(state: &MemberState) -> Contact {
    match (state.link, state.incarnation) {
        (LinkState::Up, Some(process)) => Contact::Up(process),
        (LinkState::Lost, process) if state.cause == LostCause::ProcessDied => {
            Contact::Ended(process)
        }
        (LinkState::Lost, process) => Contact::Silent(process),
        _ => Contact::Unknown,
    }
}

fn outgoing(bytes: Vec<u8>) -> Outgoing {
    Outgoing {
        channel: ChannelId::MEMBERSHIP,
        tag: 0,
        kind: KIND,
        user_header: Bytes::new(),
        payload: bytes.into(),
        notify: false,
        token: 0,
        deadline: None,
    }
}
