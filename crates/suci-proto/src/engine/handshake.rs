//! The engine's side of the handshake: which nodes may connect, and which session a new one
//! replaces.

use super::Engine;
use crate::counters::LinkState;
use crate::event::EndReason;
use crate::handshake::packets::Opened;
use crate::handshake::{
    ArrivedPacket, AttemptPhase, Backlog, Claim, InitRoom, LONGEST_WAIT, SourcePrefix, Trust, Wait,
    packets,
};
use crate::log::{DropReason, Log, LogRecord};
use crate::peer::{Accepted, Agreement, Call, Contest, End, Peer};
use crate::shared::Shared;
use std::net::SocketAddr;
use suci_link::planted;
use suci_link::time::Instant;
use suci_link::train::Train;
use suci_link::types::{Ecn, Epoch, Incarnation, NodeId, PacketNumber};
use suci_link::wire::{
    Accept, ContiguousPackets, Cookie, Header, Hello, Init, PacketType, RefusedCode,
};

/// The sender of a HELLO, as far as we know it.
struct Claimant {
    trust: Trust,
    /// The peer that waits in the queue for a slot; `None` if the HELLO came from an address where
    /// its node is not known to be, which counts as a stranger's.
    asker: Option<usize>,
}

/// Why an INIT led to no connection.
pub(super) enum NoEntry {
    /// The INIT is answered by REFUSED.
    Refused(RefusedCode),
    /// The INIT is not answered.
    Ignored(DropReason),
}

impl NoEntry {
    /// Refuses an INIT for want of this. If that is a slot, another HELLO waits for its turn.
    fn of(wanted: RefusedCode) -> Self {
        Self::Refused(match wanted {
            RefusedCode::NoSocketCredit => RefusedCode::Wait,
            other => other,
        })
    }
}

/// Decides whether another incarnation replaces the peer's session. Its INIT with this `token` came
/// `from` that address, with a cookie of the time `made`. Until that is decided, the old path is
/// challenged.
fn contest(
    peer: &mut Peer,
    now: Instant,
    from: SocketAddr,
    token: u64,
    made: Instant,
    shared: &mut Shared,
) -> Result<(), NoEntry> {
    let contest = if peer.path_address() == Some(from) || !peer.is_live() {
        Contest::Won
    } else {
        let (silence, closed_port) = (peer.options.silence_timeout, peer.closed_port_limit());
        peer.life.contest(now, token, silence, closed_port)
    };
    let outcome = match contest {
        Contest::Won => return Ok(()),
        Contest::Lost => {
            peer.newest_refused = Some(made);
            NoEntry::Refused(RefusedCode::DuplicateNode)
        }
        Contest::Open => NoEntry::Ignored(DropReason::Contested),
    };
    peer.ask_for_sign_of_life();
    if peer.connection.is_none() {
        let token = shared.random();
        peer.open(now, token);
    }
    Err(outcome)
}

impl Engine {
    /// Handles HELLO: answers it without keeping a peer, if the socket's budget can take the INIT
    /// (F01, F02). Otherwise the HELLO waits. Repetitions of it are answered by REFUSED, which
    /// shows the caller that we live.
    pub(super) fn on_hello(&mut self, packet: &ArrivedPacket<'_>) {
        let (now, arrival, header, body) = (packet.now, packet.arrival, packet.header, packet.body);
        let Ok(hello) = Hello::read(body) else {
            return self.reject_malformed(packet);
        };
        self.log_received(packet);
        let node = NodeId(header.index);
        if let Some(code) = self.entry_refusal(now, arrival.from, node, hello.target) {
            return self.send_refused(packet, hello.target, code, Trust::Stranger);
        }
        let claim = Claim {
            origin: arrival.origin(),
            node,
            incarnation: hello.incarnation,
            token: header.tag,
        };
        let claimant = self.claimant(&claim);
        let trust = claimant.trust;
        if planted("hello-keeps-peer") && self.peer_key(node).is_none() {
            self.insert_stranger(now, node, arrival.from.ip());
        }
        if !self.is_open_to(node) {
            self.shared.counters.hello_unanswered += 1;
            self.log_dropped(packet, DropReason::Closing);
            return;
        }
        // A caller that needs a slot does not overtake earlier callers, unless it was answered
        // before: the COOKIE may be lost.
        let admitted = trust == Trust::Admitted;
        let first =
            admitted || self.callers(&claimant).is_empty() || self.awaits(now, &claim, trust);
        if first && self.may_answer(now, &claim, &claimant) {
            return self.answer_hello(now, &claim);
        }
        self.shared.counters.hello_unanswered += 1;
        let wait = match admitted {
            true => Wait::Refused,
            false => self.callers(&claimant).enter(now, &claim),
        };
        // The caller keeps its position in the queue for slots as long as it waits.
        if claimant.asker.is_some() && wait != Wait::Refused {
            self.shared.has_slot(now, claimant.asker);
        }
        let is_full = self.shared.shares.free_slots() == 0;
        let is_told = match wait {
            Wait::Begins => false,
            Wait::GoesOn => is_full,
            Wait::IsLong | Wait::IsVeryLong => true,
            // A flood of strangers gets no answer.
            Wait::Refused => trust != Trust::Stranger,
        };
        if is_told {
            let is_long = matches!(wait, Wait::IsVeryLong | Wait::Refused) && !admitted;
            let code = match is_full && is_long {
                true => RefusedCode::NoSocketCredit,
                false => RefusedCode::Wait,
            };
            return self.send_refused(packet, hello.target, code, trust);
        }
        self.log_dropped(packet, DropReason::NoRoom);
    }

    /// Returns the queue in which this caller's HELLO waits. Anyone can call in the name of a node
    /// from another address: such a HELLO waits among those of strangers.
    fn callers(&mut self, claimant: &Claimant) -> &mut Backlog {
        match claimant.asker {
            Some(_) => &mut self.known_callers,
            None => &mut self.strange_callers,
        }
    }

    /// Returns true if this caller was answered lately, and its INIT did not come.
    fn awaits(&mut self, now: Instant, claim: &Claim, trust: Trust) -> bool {
        let caller = self.cookie_key.caller(claim, trust);
        self.pending_inits.awaits(now, caller)
    }

    /// Sends the COOKIE that a HELLO asked for. The caller made sure that there is room.
    fn answer_hello(&mut self, now: Instant, claim: &Claim) {
        let cookie = Cookie {
            target: claim.node,
            incarnation: self.shared.identity.incarnation,
            cookie: self.cookie_key.make(now, claim),
            epoch: self.next_epoch(claim.node, claim.incarnation),
        };
        let bytes = packets::build(
            self.shared.identity.node,
            PacketType::Cookie,
            0,
            claim.token,
            |b| cookie.put(b),
        );
        self.shared.log.add_unproven(now, || LogRecord::Sent {
            packet: PacketType::Cookie,
            peer: claim.node,
            to: claim.origin.to,
            tries: 1,
        });
        if planted("cookie-sent-twice") {
            self.shared
                .replies
                .add(claim.origin, bytes.clone(), &mut self.shared.counters);
        }
        self.shared
            .replies
            .add(claim.origin, bytes, &mut self.shared.counters);
        self.shared.paths.look_up(now, claim.origin.to);
    }

    /// Forgets HELLOs that wait and are not repeated any more.
    pub(super) fn forget_callers(&mut self, now: Instant) {
        self.known_callers.forget(now);
        self.strange_callers.forget(now);
    }

    /// Answers HELLOs that wait, as far as there is room now: those of known nodes, then those of
    /// strangers. It ends with the room: an INIT does not look through all that wait.
    pub(super) fn answer_waiting(&mut self, now: Instant) {
        self.pending_inits.try_again();
        if self.shared.shares.room_for_inits(false) == 0 {
            return;
        }
        let mut waiting = self.known_callers.first_from(0);
        while let Some((ticket, claim)) = waiting {
            if !self.has_room_for_newcomer(now) {
                self.pending_inits.on_known_waits();
                break;
            }
            // A claim that is not the next in the queue for a slot does not delay the others.
            self.answer_if_possible(now, &claim);
            waiting = self.known_callers.first_from(ticket.saturating_add(1));
        }
        self.answer_strangers(now);
    }

    /// Answers strangers that wait, except those of sources that have their part of the room.
    fn answer_strangers(&mut self, now: Instant) {
        let mut full: Vec<SourcePrefix> = Vec::new();
        while let Some(claim) = self.strange_callers.first_except(&full) {
            if self.answer_if_possible(now, &claim) {
                continue;
            }
            let (room, trust) = (self.init_room(), self.claimant(&claim).trust);
            let caller = self.cookie_key.caller(&claim, trust);
            if !self.pending_inits.has_full_source(now, caller, room) {
                return;
            }
            full.push(claim.origin.to.ip().into());
        }
    }

    /// Returns how many INITs there is room for.
    fn init_room(&self) -> InitRoom {
        InitRoom {
            packets: self.shared.shares.room_for_inits(true),
            slots: self.shared.shares.room_for_inits(false),
            strangers: self.shared.shares.room_for_strangers(),
        }
    }

    /// Returns true if there is a free slot that no expected INIT needs.
    fn has_room_for_newcomer(&mut self, now: Instant) -> bool {
        self.pending_inits.newcomers(now) < self.shared.shares.room_for_inits(false)
    }

    /// Answers a HELLO that waited, if that is possible now. Its sender is looked up again: it may
    /// have connected or lost its slot since.
    fn answer_if_possible(&mut self, now: Instant, claim: &Claim) -> bool {
        let claimant = self.claimant(claim);
        let answers = self.is_open_to(claim.node) && self.may_answer(now, claim, &claimant);
        if answers {
            self.remove_from_backlogs(claim);
            self.answer_hello(now, claim);
        }
        answers
    }

    fn remove_from_backlogs(&mut self, claim: &Claim) {
        self.known_callers.leave(claim);
        self.strange_callers.leave(claim);
    }

    /// Tells the socket credit how many new peers may come soon: answered callers and waiting
    /// callers. Each INIT of a cycle changes their number.
    pub(super) fn expect_newcomers(&mut self, now: Instant) {
        let waiting = self.known_callers.len() + self.strange_callers.len();
        let answered = self.pending_inits.newcomers(now);
        let newcomers = answered.saturating_add(waiting as u64);
        self.shared.shares.set_expected(newcomers);
    }

    /// Returns the epoch in which a session with the process `incarnation` of `node` would begin
    /// now.
    fn next_epoch(&self, node: NodeId, incarnation: Incarnation) -> Epoch {
        let peer = self.peer(node);
        peer.map_or_else(Epoch::default, |peer| peer.next_epoch(incarnation))
    }

    /// Returns the peer that an answer comes from, if it is active. An idle peer was asked nothing:
    /// an answer in its name is forged, and leaves it idle.
    pub(super) fn active_key(&self, answer: &Header) -> Option<usize> {
        Some(self.active_peer(NodeId(answer.index))?.key)
    }

    /// Finds the sender of a HELLO. It leaves an idle peer idle; if that peer has a connection, a
    /// HELLO changes nothing.
    fn claimant(&self, claim: &Claim) -> Claimant {
        let mut claimant = Claimant {
            trust: Trust::Stranger,
            asker: None,
        };
        let Some(key) = self.peer_key(claim.node) else {
            return claimant;
        };
        if self.peers.is_idle_connected(key) {
            claimant.trust = Trust::Admitted;
        } else if let Some(peer) = self.peers.get(key) {
            let from = claim.origin.to;
            claimant.trust = peer.trust();
            let known = claimant.trust == Trust::Known;
            claimant.asker = (known && peer.may_be_at(from)).then_some(key);
        }
        claimant
    }

    /// Returns true if there are a slot, room for the INIT, and room for the COOKIE that asks for
    /// the INIT.
    fn may_answer(&mut self, now: Instant, claim: &Claim, claimant: &Claimant) -> bool {
        let trust = claimant.trust;
        if trust != Trust::Admitted && !self.shared.has_slot(now, claimant.asker) {
            return false;
        }
        let room = self.init_room();
        let caller = self.cookie_key.caller(claim, trust);
        if self.known_callers.is_empty() {
            self.pending_inits.try_again();
        }
        self.shared.replies.has_room_for(trust != Trust::Stranger)
            && self.pending_inits.admits(now, caller, room)
    }

    /// Returns a reason to refuse `node` before any other check.
    fn entry_refusal(
        &mut self,
        now: Instant,
        from: SocketAddr,
        node: NodeId,
        target: NodeId,
    ) -> Option<RefusedCode> {
        if target != self.shared.identity.node {
            return Some(RefusedCode::WrongNode);
        }
        if node == self.shared.identity.node {
            return Some(RefusedCode::DuplicateNode);
        }
        match self.peer_key(node) {
            Some(_) if !self.removed.contains(&node) => None,
            _ => self.stranger_refusal(now, from),
        }
    }

    /// Handles COOKIE: the responder is there; INIT follows.
    pub(super) fn on_cookie(&mut self, packet: &ArrivedPacket<'_>) {
        let (now, arrival, header, body) = (packet.now, packet.arrival, packet.header, packet.body);
        let (Ok(cookie), Some(key)) = (Cookie::read(body), self.active_key(header)) else {
            return self.reject(packet, DropReason::Unsolicited);
        };
        let awaits = |peer: &Peer| peer.awaits_cookie(header.tag);
        if cookie.target != self.shared.identity.node || !self.peers.get(key).is_some_and(awaits) {
            return self.reject(packet, DropReason::Unsolicited);
        }
        self.log_answer(packet);
        self.update(key, |peer, _| peer.on_cookie(now, arrival.from, cookie));
    }

    /// Handles INIT: the initiator proved its address, so state is kept from here on.
    pub(super) fn on_init(&mut self, packet: &ArrivedPacket<'_>) {
        let (now, arrival, header, body) = (packet.now, packet.arrival, packet.header, packet.body);
        let Ok(init) = Init::read(body) else {
            return self.reject_malformed(packet);
        };
        self.log_received(packet);
        let node = NodeId(header.index);
        let claim = Claim {
            origin: arrival.origin(),
            node,
            incarnation: init.incarnation,
            token: header.tag,
        };
        let unbound = planted("init-unbound");
        let made = self.cookie_key.check(now, &claim, &init.cookie);
        let made = made.or(unbound.then_some(now));
        let trust = self.claimant(&claim).trust;
        if made.is_some() {
            let caller = self.cookie_key.caller(&claim, trust);
            self.pending_inits.came(now, caller);
            self.remove_from_backlogs(&claim);
        }
        let for_us = init.peer_incarnation == self.shared.identity.incarnation || unbound;
        let is_open = self.is_open_to(node);
        let (Some(made), true, true) = (made, for_us, is_open) else {
            let reason = match (for_us, is_open) {
                (false, _) => DropReason::OtherIncarnation,
                (true, false) => DropReason::Closing,
                (true, true) => DropReason::BadCookie,
            };
            self.reject(packet, reason);
            return;
        };
        if let Some(code) = self.entry_refusal(now, arrival.from, node, init.target) {
            return self.send_refused(packet, init.target, code, Trust::Stranger);
        }
        let source = self.cookie_key.source(&claim);
        if planted("repetitions-read") && self.open_init(packet, source, &init).is_ok() {
            self.handshake_work.on_exchange(now);
        }
        if self.is_repetition(packet, made) {
            self.expect_newcomers(now);
            return self.answer_waiting(now);
        }
        let opened = match self.open_init(packet, source, &init) {
            Ok(opened) => opened,
            Err(NoEntry::Refused(code)) => return self.refuse_init(packet, &init, code),
            Err(NoEntry::Ignored(reason)) => return self.reject(packet, reason),
        };
        let key = match self.peer_key(node) {
            Some(key) => key,
            None => self.insert_stranger(now, node, arrival.from.ip()),
        };
        // If strangers may connect, removed nodes may, too.
        self.removed.remove(&node);
        self.expect_newcomers(now);
        let is_sealed = opened.is_some();
        let admitted = self.admit(key, packet, &init, made, opened);
        if is_sealed {
            self.count_handshake(now, source, &admitted);
        }
        match admitted {
            Ok(()) if trust == Trust::Stranger => self.shared.admission_queue.leave(None),
            Ok(()) => {}
            Err(NoEntry::Ignored(reason)) => self.reject(packet, reason),
            Err(NoEntry::Refused(code)) => self.send_refused(packet, init.target, code, trust),
        }
        self.on_received(key);
        self.answer_waiting(now);
    }

    /// Returns true if `node` may open a connection. A closing node accepts no new ones, except
    /// from a node that it calls itself: that node may be closing, too, and of two crossing INITs
    /// one wins, whose connection alone carries messages and CLOSE.
    fn is_open_to(&self, node: NodeId) -> bool {
        !self.shared.closing || self.peer(node).is_some_and(|peer| peer.attempt.is_some())
    }

    /// Returns true if the INIT in `packet` needs no look at its handshake message: it repeats the
    /// one accepted last, whose ACCEPT is then due again, or its cookie, of the time `made`, is not
    /// newer. Anybody on the path can record an INIT and send it again: it must cost the limits of
    /// handshake work nothing, which honest INITs need.
    fn is_repetition(&mut self, packet: &ArrivedPacket<'_>, made: Instant) -> bool {
        let (token, node) = (packet.header.tag, NodeId(packet.header.index));
        let Some(key) = self.peer_key(node) else {
            let is_old = self.departed.is_old(node, made);
            if is_old {
                self.reject(packet, DropReason::Outdated);
            }
            return is_old;
        };
        let peer = self.peers.get(key);
        let repeats = |peer: &Peer| peer.accepted.as_ref().is_some_and(|a| a.token == token);
        let is_old = |peer: &Peer| peer.newest_cookie.is_some_and(|newest| made <= newest);
        if peer.is_some_and(repeats) {
            if let Some(accepted) = self.peers.get_mut(key).and_then(|p| p.accepted.as_mut()) {
                accepted.due = true;
            }
            self.on_received(key);
            return true;
        }
        if peer.is_some_and(is_old) {
            self.reject(packet, DropReason::Outdated);
            return true;
        }
        false
    }

    /// Decides which session an INIT replaces, and accepts it.
    fn admit(
        &mut self,
        key: usize,
        packet: &ArrivedPacket<'_>,
        init: &Init<'_>,
        made: Instant,
        opened: Opened,
    ) -> Result<(), NoEntry> {
        let (now, arrival, header) = (packet.now, packet.arrival, packet.header);
        let Some(peer) = self.peers.get_mut(key) else {
            return Err(NoEntry::Ignored(DropReason::Outdated));
        };
        // A dismissed peer waits for its turn for a slot, even if its connection is gone.
        if peer.is_dismissed() && !self.shared.has_slot(now, Some(key)) {
            return Err(NoEntry::Refused(RefusedCode::Wait));
        }
        if peer.wins_crossing(self.shared.identity.node, init.incarnation) {
            return Err(NoEntry::Ignored(DropReason::Crossing));
        }
        // A refused INIT stays refused: its sender relies on REFUSED to mean that no data was
        // taken.
        if peer.session.remote != Some(init.incarnation)
            && peer.newest_refused.is_some_and(|newest| made <= newest)
        {
            return Err(NoEntry::Refused(RefusedCode::DuplicateNode));
        }
        if peer.is_other_incarnation(init.incarnation) {
            contest(peer, now, arrival.from, header.tag, made, &mut self.shared)?;
        }
        let stranger = peer.trust() == Trust::Stranger;
        // A peer that took our messages and ended that session asked for this cookie afterwards.
        let (incarnation, epoch, layers) = (init.incarnation, init.epoch, init.params.layers);
        peer.end_before(now, incarnation, epoch, made, layers, &mut self.shared);
        if !peer.has_room_for_session() {
            return Err(NoEntry::Refused(RefusedCode::Unread));
        }
        // A cookie is valid for longer than room is kept for its INIT.
        if stranger && self.shared.shares.room_for_strangers() == 0 {
            return Err(NoEntry::Refused(RefusedCode::Wait));
        }
        Self::accept_init(peer, packet, init, made, opened, &mut self.shared)
    }

    /// Makes the connection, answers with ACCEPT and takes the data that came with INIT.
    fn accept_init(
        peer: &mut Peer,
        packet: &ArrivedPacket<'_>,
        init: &Init<'_>,
        made: Instant,
        opened: Opened,
        shared: &mut Shared,
    ) -> Result<(), NoEntry> {
        let (now, arrival, header) = (packet.now, packet.arrival, packet.header);
        let attempted = peer.attempt.is_some();
        peer.drop_attempt(shared);
        let call = Some(Call {
            round_trip: now.since(made),
            params: &init.params,
        });
        // A session with another incarnation was ended before.
        let begun = peer.begin(now, init.incarnation, arrival.from, call, shared);
        if begun.is_err() && attempted {
            peer.try_later(now, LONGEST_WAIT, 0, shared);
        }
        let (mut beginning, _) = begun.map_err(NoEntry::of)?;
        // A stranger that is refused leaves nothing behind; a node of the book keeps its window.
        let same_epoch = peer.agree_epoch(init.incarnation, init.epoch);
        let local = peer.new_end(shared);
        let mut answer = Accept {
            target: peer.node,
            incarnation: shared.identity.incarnation,
            peer_incarnation: init.incarnation,
            epoch: peer.session.epoch,
            index: local.index,
            tag: local.tag,
            grant: peer.first_grant(&mut beginning),
            params: peer.params(beginning.max_datagram, &shared.config),
        };
        let first = beginning.numbers.first();
        let accepted = (shared.issuer()).accept(first, header.tag, &mut answer, opened);
        let Ok((bytes, keys)) = accepted else {
            // The initiator repeats its INIT.
            shared.indices.free(local.index);
            shared.shares.release(&mut beginning.grant);
            return Err(NoEntry::Ignored(DropReason::NoKeys));
        };
        peer.newest_cookie = Some(made);
        peer.accepted = Some(Box::new(Accepted {
            token: header.tag,
            to: arrival.origin(),
            bytes,
            due: true,
            tries: 0,
        }));
        let agreement = Agreement {
            local,
            remote: End::of(init.index, init.tag),
            params: init.params.clone(),
            layers: answer.params.layers,
            grant: init.grant,
            answered: made,
            first: header.number,
            address: arrival.origin(),
            keys,
        };
        peer.connect(now, agreement, beginning, shared);
        if same_epoch && !init.ride.is_empty() {
            let mut packet = ContiguousPackets::alone(header.number, init.ride);
            peer.receive(now, arrival, &mut packet, shared);
        }
        Ok(())
    }

    /// Handles ACCEPT: the connection is made.
    pub(super) fn on_accept(&mut self, packet: &ArrivedPacket<'_>) {
        let (header, body) = (packet.header, packet.body);
        let (Ok(accept), Some(key)) = (Accept::read(body), self.active_key(header)) else {
            return self.reject(packet, DropReason::Unsolicited);
        };
        let ours = accept.target == self.shared.identity.node
            && accept.peer_incarnation == self.shared.identity.incarnation;
        let shared = &mut self.shared;
        let taken = match self.peers.get_mut(key).filter(|_| ours) {
            Some(peer) => peer.on_accept(packet, &accept, shared),
            None => Err(DropReason::Unsolicited),
        };
        match taken {
            Ok(()) => {}
            Err(reason) => self.reject(packet, reason),
        }
        self.touch(key);
    }

    /// Handles UNKNOWN, a hint that the peer does not know our connection any more; it only starts
    /// a new HELLO (F11).
    pub(super) fn on_unknown(&mut self, packet: &ArrivedPacket<'_>) {
        let (now, header) = (packet.now, packet.header);
        let token = self.shared.random();
        let key = self.active_key(header);
        if planted("hint-ends-session")
            && let Some(key) = key
        {
            return self.update(key, |peer, shared| {
                peer.end(now, EndReason::PeerEnded, shared)
            });
        }
        let peer = key.and_then(|key| self.peers.get_mut(key));
        let Some(peer) = peer
            .filter(|peer| peer.is_current_tag(header.tag) && peer.life.link() != LinkState::Idle)
        else {
            return self.reject(packet, DropReason::Unsolicited);
        };
        peer.on_forgotten(now, token, &mut self.shared);
        let key = peer.key;
        self.log_answer(packet);
        self.touch(key);
    }

    /// Fills the train with the ACCEPT that is due to a peer, if one is. ACCEPT bypasses the queue
    /// of replies: it goes before any DATA of its connection, and is never dropped for lack of
    /// room.
    pub(super) fn build_accept(
        now: Instant,
        peer: &mut Peer,
        train: &mut Train,
        log: &mut Log,
    ) -> bool {
        let node = peer.node;
        let Some(accepted) = peer.take_accept_due() else {
            return false;
        };
        log.add(now, || LogRecord::Sent {
            packet: PacketType::Accept,
            peer: node,
            to: accepted.to.to,
            tries: accepted.tries,
        });
        train.begin(accepted.to, Ecn::NotEct);
        train.single(&accepted.bytes);
        true
    }

    /// Handles a packet for `end` that is no connection of this peer. Returns true if our INIT
    /// offers that connection: the packet overtook ACCEPT, or ACCEPT was lost.
    pub(super) fn on_early_data(
        &mut self,
        now: Instant,
        key: usize,
        end: End,
        number: PacketNumber,
    ) -> bool {
        if !self.peers.active(key).is_some_and(|peer| peer.offers(end)) {
            return false;
        }
        self.update(key, |peer, _| peer.on_early_data(now, number));
        true
    }

    /// Queues the packet that a peer's attempt repeats, if it is due.
    pub(super) fn attempt_packet(now: Instant, peer: &mut Peer, shared: &mut Shared) {
        if !peer.advance_attempt(now, shared) {
            return;
        }
        let Some(attempt) = &mut peer.attempt else {
            return;
        };
        let bytes = match attempt.opening.phase() {
            AttemptPhase::Hello => {
                packets::hello(shared.identity, peer.node, attempt.opening.token())
            }
            AttemptPhase::Init(bytes) => bytes.clone(),
        };
        if attempt.is_asking() {
            shared.paths.look_up(now, attempt.to);
        }
        attempt.opening.sent(now);
        peer.life.ask(now, peer.options.silence_timeout);
        let to = attempt.to;
        let record = LogRecord::Sent {
            packet: match attempt.is_asking() {
                true => PacketType::Hello,
                false => PacketType::Init,
            },
            peer: peer.node,
            to,
            tries: attempt.opening.tries(),
        };
        if shared.replies.add(to.into(), bytes, &mut shared.counters) {
            shared.log.add(now, || record);
        }
    }
}
