//! The engine: all state of the peers of one shard, driven from outside.
//!
//! One driver cycle: [`Engine::begin_cycle`], then [`Engine::handle_datagram`] or
//! [`Engine::handle_train`] for everything that arrived, then [`Engine::handle_timeout`], then the
//! program's verbs, then [`Engine::poll_transmit`] (each answered by [`Engine::transmit_done`]),
//! [`Engine::poll_event`] and [`Engine::recv`] until they return nothing, then sleep until
//! [`Engine::next_timeout`]. Input comes before time: a packet that waits in the socket must not
//! count as silence.

mod audit;
mod calls;
mod cycle;
mod departed;
mod forwarded;
mod groups;
mod handshake;
mod lease;
mod links;
mod logging;
mod paths;
mod peers;
mod ports;
mod ranks;
mod recv;
mod refusals;
mod sealed;
mod steering;
mod strangers;
mod sweep;
mod unreachable;
mod urgent;
mod verbs;

use crate::addresses::Addresses;
use crate::config::{Config, ConfigError};
use crate::counters::{Counters, PeerInfo, PeerStats};
use crate::credit::{ShareStats, Shares};
use crate::event_rate::EventRate;
use crate::handshake::{ArrivedPacket, Backlog, CookieKey, HandshakeWork, PendingInits, packets};
use crate::log::DropReason;
use crate::peer::{End, Peer};
use crate::shared::{Identity, Shared};
use crate::timer::TimerWheel;
use crate::transmit::{Built, TransmitResult};
use crate::undelivered::Undelivered;
use departed::Departed;
use peers::Peers;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use ranks::Ranks;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use suci_channels::message::Pool;
use suci_channels::port::{PORTS, Port};
use suci_channels::scheduler::Scheduler;
use suci_channels::waits::WaitReason;
use suci_link::arrival::Arrival;
use suci_link::planted;
use suci_link::time::{Instant, earlier};
use suci_link::train::{Train, Transmit};
use suci_link::types::NodeId;
use suci_link::wire::{self, ContiguousPackets, PacketType};

/// Maximum number of bytes of unused receive buffers kept for the next large messages.
const POOL: usize = 64 << 20;

/// The pool also keeps at most this part (a quarter) of the memory for messages: so several shards
/// together keep no more than one shard does.
const POOL_PART: u64 = 4;

/// UNKNOWN hints per second at most: forged packets make a node send 2.8 KB in a second. After a
/// restart it tells a hundred peers of lost connections at once, and the others when they repeat
/// their packets.
const HINTS_PER_SECOND: u64 = 100;

/// Returns the pool of unused receive buffers of an engine.
fn buffers(config: &Config) -> Pool {
    let most = usize::try_from(config.memory / POOL_PART).unwrap_or(POOL);
    Pool::new(most.min(POOL))
}

/// The protocol engine of one shard.
#[derive(Debug)]
pub struct Engine {
    shared: Shared,
    cookie_key: CookieKey,
    /// When silent peers may next be asked for a sign of life, and when silent strangers may.
    ask_at: Instant,
    ask_strangers_at: Instant,
    /// Nodes whose INIT may come soon.
    pending_inits: PendingInits,
    handshake_work: HandshakeWork,
    peers: Peers,
    by_node: HashMap<NodeId, u32>,
    /// The node to which a message went last: the next one often goes there too.
    recent: Option<(NodeId, usize)>,
    wheel: TimerWheel,
    /// Peers to check: something happened that may let them send or change their deadline.
    dirty: Scheduler,
    /// The peers in `dirty` and `readable` that have something urgent, and the classes in use.
    ranks: Ranks,
    /// Peers with messages for the program, one message at a time.
    readable: Scheduler,
    /// Peers with messages of groups.
    with_group_messages: Scheduler,
    /// Peers with messages at each [`Port`], one message at a time.
    by_port: [Scheduler; PORTS],
    /// The peer whose message about one-sided operations was taken last.
    remote_taken: Option<usize>,
    /// While peers at some addresses are closed before the others: tells these addresses.
    closes_first: Option<fn(SocketAddr) -> bool>,
    /// Peers with replies, one reply at a time.
    answered: Scheduler,
    /// Peers whose acknowledgements wait for the next cycle.
    ack_waits: Vec<usize>,
    /// Buffer for the peers whose timers expired.
    due: Vec<usize>,
    train: Train,
    /// The peer whose packets are in the train; `None` for handshake packets.
    train_peer: Option<usize>,
    /// The peer of the train has nothing more to send, unless something happens.
    train_is_last: bool,
    /// Since when output waits for the program to take an urgent message.
    yields_since: Option<Instant>,
    /// A message waits that should leave without waiting for others.
    flush: bool,
    /// The time by which the driver should run again, and the time when it last ran.
    expected: Option<Instant>,
    last_run: Instant,
    /// When the driver last came back after it may have been stopped.
    resumed_at: Instant,
    /// When the last sweep over all peers was.
    swept_at: Instant,
    /// HELLOs of known nodes and of strangers that wait for room.
    known_callers: Backlog,
    strange_callers: Backlog,
    /// Hints sent: UNKNOWN, and REFUSED to other versions.
    hints: EventRate,
    /// Reports of undelivered datagrams that were handled: from the network, and from this
    /// machine's kernel.
    reports_of_network: EventRate,
    reports_of_kernel: EventRate,
    /// Nodes that the program removed, that are not forgotten yet, and that did not connect by
    /// themselves since.
    removed: BTreeSet<NodeId>,
    /// Number of nodes that are not in the book, by the address from which they connected.
    strangers: HashMap<IpAddr, usize>,
    /// When the full table is next searched for strangers that left.
    search_at: Instant,
    departed: Departed,
}

impl Engine {
    /// Makes an engine for the node `identity`, whose socket buffer holds `recv_buffer` bytes as
    /// the kernel charges them (what SO_RCVBUF reads back). All randomness comes from `seed`;
    /// except in a simulator it must be unpredictable.
    ///
    /// # Errors
    /// The first setting of `config` that is out of range.
    pub fn new(
        config: Config,
        identity: Identity,
        seed: [u8; 32],
        recv_buffer: u64,
        now: Instant,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let (shares, config) = (Shares::new(recv_buffer), Arc::new(config));
        let mut rng = ChaCha8Rng::from_seed(seed);
        let mut key = [0; 16];
        rng.fill_bytes(&mut key);
        let pool = buffers(&config);
        let mut engine = Self {
            pending_inits: PendingInits::new(),
            handshake_work: HandshakeWork::new(now),
            peers: Peers::new(config.clone(), pool.clone()),
            shared: Shared::new(config, identity, rng, shares, pool),
            cookie_key: CookieKey::new(key),
            ask_at: now,
            ask_strangers_at: now,
            by_node: HashMap::new(),
            recent: None,
            wheel: TimerWheel::new(),
            dirty: Scheduler::default(),
            ranks: Ranks::default(),
            readable: Scheduler::default(),
            with_group_messages: Scheduler::default(),
            by_port: Default::default(),
            remote_taken: None,
            closes_first: None,
            answered: Scheduler::default(),
            ack_waits: Vec::new(),
            due: Vec::new(),
            train: Train::default(),
            train_peer: None,
            train_is_last: false,
            yields_since: None,
            flush: false,
            expected: None,
            last_run: now,
            resumed_at: now,
            swept_at: now,
            known_callers: Backlog::of_known(),
            strange_callers: Backlog::of_strangers(),
            hints: EventRate::default(),
            reports_of_network: EventRate::default(),
            reports_of_kernel: EventRate::default(),
            removed: BTreeSet::new(),
            strangers: HashMap::new(),
            search_at: now,
            departed: Departed::default(),
        };
        engine.insert_itself(now);
        Ok(engine)
    }

    /// Enters this node as a peer of itself.
    fn insert_itself(&mut self, now: Instant) {
        let key = self.insert_peer(self.shared.identity.node, Addresses::default(), now);
        if let Some(peer) = self.peers.get_mut(key) {
            peer.is_itself = true;
            peer.life.hear(now);
        }
        self.peers.make_idle(key, now);
    }

    fn insert_peer(&mut self, node: NodeId, addresses: Addresses, now: Instant) -> usize {
        let key = self.peers.insert(node, addresses, now);
        self.by_node.insert(node, key as u32);
        self.shared.acquaintances = self.peers.len();
        key
    }

    fn peer_key(&self, node: NodeId) -> Option<usize> {
        self.by_node.get(&node).map(|key| *key as usize)
    }

    fn peer(&self, node: NodeId) -> Option<&Peer> {
        self.peers.get(self.peer_key(node)?)
    }

    /// Returns the peer `node`, if it is active.
    fn active_peer(&self, node: NodeId) -> Option<&Peer> {
        self.peers.active(self.peer_key(node)?)
    }

    /// Changes the peer at `key`, and touches it.
    fn update<R: Default>(
        &mut self,
        key: usize,
        change: impl FnOnce(&mut Peer, &mut Shared) -> R,
    ) -> R {
        let Some(peer) = self.peers.get_mut(key) else {
            debug_assert!(false, "no peer has the key {key}");
            return R::default();
        };
        let result = change(peer, &mut self.shared);
        self.touch(key);
        result
    }

    /// Notes that something happened to a peer: [`Engine::poll_transmit`] will check it.
    fn touch(&mut self, key: usize) {
        let Some(peer) = self.peers.active(key) else {
            return;
        };
        let (outbox, inbox) = (&peer.session.outbox, &peer.session.inbox);
        self.ranks
            .sending
            .list(key, outbox.next_class(), &mut self.dirty);
        if peer.has_message() {
            self.ranks
                .receiving
                .list(key, inbox.next_class(), &mut self.readable);
        }
        self.list_for_layers(key);
    }

    /// Lists a peer that has messages for others than the program.
    fn list_for_layers(&mut self, key: usize) {
        let Some(peer) = self.peers.active(key) else {
            return;
        };
        let (of_group, reply) = (peer.has_group_message(), peer.has_reply());
        if peer.may_have_for_layers() {
            for port in Port::ALL.iter().filter(|port| peer.has_for(**port)) {
                self.by_port[*port as usize].add(key);
            }
        }
        if of_group || !self.with_group_messages.is_empty() {
            self.on_group_message(key);
        }
        if reply {
            self.on_reply(key);
        }
    }

    // ---- handlers

    /// Takes one datagram. An invalid datagram is counted or, if an authentic peer is at fault,
    /// ends that peer's session; it is never an error of ours. Sealed packets are decrypted in
    /// `bytes`.
    pub fn handle_datagram(&mut self, now: Instant, arrival: &Arrival, bytes: &mut [u8]) {
        self.handle_train(now, arrival, bytes.len(), bytes);
    }

    /// Takes datagrams of one sender that arrived together. Each has `segment` bytes; the last one
    /// may be shorter. The effect is that of one [`handle_datagram`](Self::handle_datagram) for
    /// each, but datagrams that carry messages take less time.
    pub fn handle_train(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        segment: usize,
        bytes: &mut [u8],
    ) {
        let segment = segment.max(1);
        let datagrams = bytes.len().div_ceil(segment).max(1);
        self.shared.counters.datagrams_in += datagrams as u64;
        self.shared.counters.bytes_in += bytes.len() as u64;
        if self.shared.config.security.is_sealed() {
            return self.take_sealed_train(now, arrival, segment, bytes);
        }
        let mut rest = &*bytes;
        loop {
            let (datagram, behind) = rest.split_at(segment.min(rest.len()));
            rest = self.take_first(now, arrival, datagram, behind);
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Takes a datagram, and the first datagrams of `rest` as far as [`Peer::receive`] handles them
    /// together with it. Returns the others.
    #[inline(always)]
    fn take_first<'a>(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        datagram: &'a [u8],
        rest: &'a [u8],
    ) -> &'a [u8] {
        let (header, body) = match wire::open(datagram) {
            Ok(opened) => opened,
            Err(error) => {
                self.on_no_packet(now, arrival.from, error);
                if matches!(error, wire::HeaderError::Version(_)) {
                    self.on_other_version(now, arrival, datagram);
                }
                return rest;
            }
        };
        let packet = ArrivedPacket {
            now,
            arrival,
            header: &header,
            body,
            datagram,
        };
        match header.kind {
            PacketType::Data => {
                let mut packets = ContiguousPackets::new(header.number, datagram, rest);
                self.on_data(&packet, &mut packets);
                return packets.rest();
            }
            PacketType::Hello => self.on_hello(&packet),
            PacketType::Cookie => self.on_cookie(&packet),
            PacketType::Init => self.on_init(&packet),
            PacketType::Accept => self.on_accept(&packet),
            PacketType::Unknown => self.on_unknown(&packet),
            PacketType::Refused => self.on_refused(&packet),
        }
        rest
    }

    fn on_data(&mut self, packet: &ArrivedPacket<'_>, packets: &mut ContiguousPackets<'_>) {
        let (now, arrival, header) = (packet.now, packet.arrival, packet.header);
        let key = self.shared.indices.peer(header.index);
        let (index, tag) = (header.index, header.tag);
        let addressed = key.and_then(|key| {
            let peer = self.peers.addressed(key, End { index, tag })?;
            Some((key, peer))
        });
        let Some((key, peer)) = addressed else {
            let end = End { index, tag };
            let early = key.is_some_and(|key| self.on_early_data(now, key, end, header.number));
            self.shared.counters.unknown_connection += 1;
            let reason = match early {
                true => DropReason::BeforeAccept,
                false => DropReason::UnknownConnection,
            };
            self.hint_unknown(packet, reason);
            return;
        };
        peer.release_previous(&mut self.shared.shares);
        peer.receive(now, arrival, packets, &mut self.shared);
        self.on_received(key);
    }

    /// Notes that a packet of a connection was taken. Its acknowledgement may wait for the next
    /// driver cycle, and it may let the peer send or give the program a message.
    fn on_received(&mut self, key: usize) {
        if let Some(peer) = self.peers.get_mut(key)
            && !peer.ack_waits
            && peer.has_deferred_ack()
        {
            peer.ack_waits = true;
            self.ack_waits.push(key);
        }
        self.touch(key);
    }

    /// Logs the drop of a packet of no connection, and sends UNKNOWN to its sender, at a bounded
    /// rate. Sends nothing if the packet came before ACCEPT, after which its connection is known.
    fn hint_unknown(&mut self, packet: &ArrivedPacket<'_>, reason: DropReason) {
        if planted("window-before-authentication")
            && let Some(key) = self.shared.indices.peer(packet.header.index)
            && let Some(peer) = self.peers.get_mut(key)
            && let Some(connection) = &mut peer.connection
        {
            let (now, number) = (packet.now, packet.header.number);
            let received = &mut connection.link.received;
            received.on_packets(number..=number, now, true, packet.arrival.ecn, now);
            self.on_received(key);
        }
        self.log_dropped(packet, reason);
        if reason != DropReason::BeforeAccept && self.may_hint(packet.now) {
            self.shared.counters.unknown_sent += 1;
            let bytes = packets::unknown(self.shared.identity.node, packet.header);
            self.shared.replies.add_for_anyone(
                packet.arrival.origin(),
                bytes,
                &mut self.shared.counters,
            );
        }
    }

    /// Returns true if a packet that anybody may have sent may be answered now, and counts that.
    fn may_hint(&mut self, now: Instant) -> bool {
        self.hints.admit(now, HINTS_PER_SECOND)
    }

    /// Does everything that is due at `now`. Call it after everything that arrived was handed over.
    /// It also detects that the process was stopped since the cycle began, after its socket was
    /// drained.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.notice_gap(now, self.last_run);
        self.last_run = now;
        let mut due = core::mem::take(&mut self.due);
        due.clear();
        self.wheel.expire(now, &mut due);
        // Touch all peers first. Then no other peer loses its timer if a steering function panics.
        due.iter().for_each(|&key| self.touch(key));
        for &key in &due {
            self.update(key, |peer, shared| peer.on_timeout(now, shared));
        }
        self.due = due;
        self.sweep(now);
    }

    // ---- polls

    /// Returns the packets to send now, at most `max_segments` of one size to one destination;
    /// answer with [`Engine::transmit_done`]. Returns `None` when there is nothing more to send at
    /// `now`.
    pub fn poll_transmit(&mut self, now: Instant, max_segments: usize) -> Option<Transmit<'_>> {
        if !self.has_output() || !self.train.is_pending() && !self.build_next(now, max_segments) {
            self.expected = self.next_timeout();
            self.flush = false;
            return None;
        }
        self.train.view(max_segments)
    }

    /// Returns true if [`Engine::poll_transmit`] may have something more, and should be called.
    #[must_use]
    pub fn has_output(&self) -> bool {
        self.train.is_pending()
            || !self.dirty.is_empty()
            || !self.shared.replies.is_empty()
            || self.peers.has_woken()
            || self.shared.memory.has_freed()
    }

    /// Fills the train with the next thing to send.
    fn build_next(&mut self, now: Instant, max_segments: usize) -> bool {
        while let Some(key) = self.peers.next_woken() {
            self.touch(key);
        }
        loop {
            if self.shared.replies.write_next(&mut self.train) {
                self.train_peer = None;
                return true;
            }
            self.serve_large();
            let Some(key) = self.next_peer() else {
                return false;
            };
            let outranked = self.is_outranked(now, key);
            let Some(peer) = self.peers.get_mut(key) else {
                self.drop_turn();
                continue;
            };
            if peer.has_pending_accept() || peer.attempt_at().is_some_and(|at| at <= now) {
                if Self::build_accept(now, peer, &mut self.train, &mut self.shared.log) {
                    self.train_peer = None;
                    return true;
                }
                Self::attempt_packet(now, peer, &mut self.shared);
            }
            if peer.is_itself {
                self.pass_to_itself(now, key);
                continue;
            }
            let built = peer.build(
                now,
                max_segments,
                outranked,
                &mut self.train,
                &mut self.shared,
            );
            if built == Built::Nothing {
                // A peer that may not send must not delay others.
                self.drop_turn();
                self.arm(now, key);
                continue;
            }
            self.train_peer = Some(key);
            self.train_is_last = built == Built::Last;
            self.note_class(now, key);
            return true;
        }
    }

    /// Passes messages to this node itself. If there were any, the next driver cycle is due at
    /// once, in which the program finds them.
    #[cold]
    #[inline(never)]
    fn pass_to_itself(&mut self, now: Instant, key: usize) {
        let peer = self.peers.get_mut(key);
        let passed = peer.is_some_and(|peer| peer.pass_to_itself(now, &mut self.shared));
        self.drop_turn();
        if !passed {
            // A peer with an urgent channel has two turns: the first one may have passed messages
            // on, and set its timer.
            if self.wheel.deadline(key).is_none_or(|at| at > now) {
                self.arm(now, key);
            }
            return;
        }
        self.wheel.set(key, now);
        let Some(peer) = self.peers.active(key) else {
            return;
        };
        if peer.has_message() {
            let class = peer.session.inbox.next_class();
            self.ranks.receiving.list(key, class, &mut self.readable);
        }
        self.list_for_layers(key);
    }

    /// Takes the result of sending the packets of [`Engine::poll_transmit`].
    pub fn transmit_done(&mut self, now: Instant, result: TransmitResult) {
        let peer = self.train_peer;
        match result {
            TransmitResult::Sent(segments) => self.sent(segments),
            TransmitResult::Again => {
                self.shared.counters.socket_full += 1;
                if let Some(peer) = peer.and_then(|key| self.peers.get_mut(key))
                    && !peer.session.outbox.is_empty()
                {
                    peer.waits.note(now, Some(WaitReason::Socket));
                }
            }
            TransmitResult::NoGso => {}
            TransmitResult::TooBig => {
                self.shared.counters.too_big += 1;
                let size = self.train.view(1).map_or(0, |t| t.segment);
                self.train.taken(usize::MAX);
                if let Some(peer) = peer.and_then(|key| self.peers.get_mut(key)) {
                    peer.on_too_big(now, size, &mut self.shared);
                }
            }
            TransmitResult::Unreachable(why) => {
                if let Some(to) = self.train.view(1).map(|train| train.dest) {
                    let (local, quoted) = (false, &[][..]);
                    let report = Undelivered {
                        to,
                        why,
                        local,
                        quoted,
                    };
                    self.on_undelivered(now, &report);
                }
                self.train.taken(usize::MAX);
            }
        }
        let Some(key) = peer.filter(|_| !self.train.is_pending()) else {
            return;
        };
        if self.train_is_last && matches!(result, TransmitResult::Sent(_)) {
            self.arm(now, key);
        } else {
            self.touch(key);
        }
    }

    fn sent(&mut self, segments: usize) {
        let (packets, bytes) = self.train.taken(segments);
        let counters = &mut self.shared.counters;
        counters.trains_out += u64::from(packets > 0);
        counters.packets_out += packets as u64;
        counters.bytes_out += bytes as u64;
    }

    /// Returns the time until which the driver may sleep if nothing arrives; `None`: for ever. If
    /// it lies in the past, [`Engine::handle_timeout`] has something to do at once.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        earlier(self.wheel.next(), self.next_sweep())
    }

    /// Touches the peers that wait for memory for large messages, if some may be free.
    fn serve_large(&mut self) {
        while let Some(key) = self.shared.memory.next_waiting() {
            self.touch(key);
        }
    }

    /// Returns how many peers the socket's receive buffer serves.
    #[must_use]
    pub fn peer_limit(&self) -> u64 {
        self.shared.shares.peer_limit()
    }

    /// Returns the present division of the socket's receive buffer. Looks at every peer.
    #[must_use]
    pub fn share_stats(&self) -> ShareStats {
        let peers: Vec<_> = self.peers.iter().map(|(_, peer)| peer).collect();
        let connections = peers.iter().filter_map(|p| p.connection.as_ref());
        ShareStats::new(&self.shared.shares, connections.map(|c| &c.grant))
    }

    /// Compares the `bytes` that the kernel charges to the socket's receive buffer with what peers
    /// may have there. Counts a larger charge ([`Counters::overcharged`]): a packet costs more than
    /// we charge for it, or senders other than our peers fill the buffer.
    pub fn on_charged(&mut self, bytes: u64) {
        let known = self.shared.shares.allowed();
        self.shared.counters.overcharged += u64::from(bytes > known);
    }

    /// Notes that this shard's socket got a datagram of another shard, which was forwarded, or
    /// dropped because too many wait there.
    pub fn on_misdirected(&mut self, forwarded: bool) {
        let counters = &mut self.shared.counters;
        counters.misdirected += 1;
        counters.misdirected_dropped += u64::from(!forwarded);
    }

    /// Returns the counters since the engine began.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    /// Returns the statistics of one peer, as of the last cycle.
    #[must_use]
    pub fn peer_stats(&self, node: NodeId) -> Option<PeerStats> {
        Some(self.peer(node)?.stats(self.last_run))
    }

    /// Returns the packets sent to and received from each peer, which shows the busy peers.
    pub fn peer_packets(&self) -> impl Iterator<Item = (NodeId, u64)> + '_ {
        let peers = self.peers.iter_others();
        peers.map(|(_, peer)| (peer.node, peer.packets()))
    }

    /// Returns how many peers are known; this node itself is not counted.
    #[must_use]
    pub fn peer_count(&self) -> usize {
        self.peers.len()
    }

    /// Returns all peers but this node itself, in no particular order, and the state of their
    /// links. Looks at each of them. Omits a removed peer once the end of its session was told.
    pub fn peer_infos(&self) -> impl Iterator<Item = PeerInfo> + '_ {
        self.peers.iter_others().filter_map(|(_, peer)| peer.info())
    }

    /// Returns all peers known but this node itself, in no particular order.
    pub fn peers(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.peers.iter_others().map(|(_, peer)| peer.node)
    }
}

#[cfg(test)]
mod tests;
