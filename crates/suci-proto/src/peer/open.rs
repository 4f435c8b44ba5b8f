//! Making a connection, from either side: the peer's part of the handshake.

use super::Peer;
use super::absence::Absence;
use super::attempt::{Accepted, Attempt, Handshake, Offer};
use super::begin::offer_window;
use super::connection::{AckSettings, Agreement, Beginning, Connection, End};
use crate::config::Config;
use crate::credit::{DrainedKind, Shares};
use crate::event::{EndReason, Event, RefusedReason};
use crate::handshake::{ArrivedPacket, LONGEST_WAIT, Opening, finish_handshake};
use crate::log::{DropReason, Log, LogRecord};
use crate::shared::{Notices, Promise, Shared};
use core::ops::RangeInclusive;
use std::net::SocketAddr;
use suci_channels::message::SentFrame;
use suci_link::limits::COOKIE_LIFETIME;
use suci_link::link::{LinkSettings, Recorded};
use suci_link::planted;
use suci_link::recovery::Sink;
use suci_link::security::{ConnectionKeys, HandshakeError};
use suci_link::time::{Duration, Instant};
use suci_link::types::{Epoch, Incarnation, Layers, NodeId, PacketNumber};
use suci_link::wire::{self, Header, Init, Params, RefusedCode};

/// Forged ACCEPTs after which an attempt is given up, and the next one waits a second. Each costs
/// up to three key exchanges, 0.3 ms, before it shows that it is forged. Only a node that reads our
/// INIT can make one: it could refuse the attempt as well.
const MAX_FORGED_ACCEPTS: u32 = 64;

/// Time until the next HELLO if the peer will have room shortly.
const SHORT_WAIT: Duration = Duration::from_millis(200);

/// Time for which we use a received cookie; it may have been under way for the rest of its
/// lifetime.
const COOKIE_GOOD: Duration = Duration::from_secs(COOKIE_LIFETIME.as_secs() / 2);

/// Returns the reason of this node for which it can make no handshake message.
const fn no_message(error: HandshakeError) -> RefusedCode {
    match error {
        HandshakeError::UnknownPeer => RefusedCode::NodeKey,
        HandshakeError::WrongKey | HandshakeError::Unavailable => RefusedCode::Key,
    }
}

impl Peer {
    /// Begins an attempt to open a connection, unless one is under way.
    pub(crate) fn open(&mut self, now: Instant, token: u64) {
        if self.attempt.is_none()
            && let Some(to) = self.candidate_address(0)
        {
            self.attempt = Some(Box::new(Attempt::new(Opening::new(token, now), to)));
            self.life.connecting();
        }
    }

    /// Returns when the attempt's packet is due (again). `None` while the session must wait until
    /// the program received the messages of earlier ones.
    #[inline]
    pub(crate) fn attempt_at(&self) -> Option<Instant> {
        let attempt = self.attempt.as_ref();
        attempt
            .filter(|_| self.has_room_for_session())
            .map(|a| a.opening.next_at())
    }

    /// Returns true if an attempt of ours waits for a cookie with this token.
    pub(crate) fn awaits_cookie(&self, token: u64) -> bool {
        self.attempt
            .as_ref()
            .is_some_and(|a| a.opening.token() == token && a.is_asking())
    }

    /// Returns true if our INIT offers the connection with the local end `end`, and waits for
    /// ACCEPT.
    pub(crate) fn offers(&self, end: End) -> bool {
        let offer = self.attempt.as_ref().and_then(|a| a.offer.as_ref());
        offer.is_some_and(|offer| offer.local == end)
    }

    /// As [`offers`](Self::offers), of sealed packets, which have no tag.
    pub(crate) fn offers_index(&self, index: u32) -> bool {
        let offer = self.attempt.as_ref().and_then(|a| a.offer.as_ref());
        offer.is_some_and(|offer| offer.local.index == index)
    }

    /// Handles the packet `number` of the connection that our INIT offers, which came before
    /// ACCEPT. Only the peer knows the tag, so it accepted the INIT: unless ACCEPT comes in the
    /// same cycle, INIT is repeated at once. That is done once, since the peer may send many
    /// packets before it gets that INIT.
    pub(crate) fn on_early_data(&mut self, now: Instant, number: PacketNumber) {
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        if let Some(offer) = &mut attempt.offer {
            let early = &mut offer.beginning.early;
            *early = (*early).max(Some(number));
        }
        if attempt.opening.tries() == 1 {
            attempt.opening.hasten(now);
        }
    }

    /// Returns true if an ACCEPT must be sent.
    pub(crate) fn has_pending_accept(&self) -> bool {
        self.accepted.as_ref().is_some_and(|accepted| accepted.due)
    }

    /// Takes the ACCEPT that must be sent, and counts it as sent.
    pub(crate) fn take_accept_due(&mut self) -> Option<&Accepted> {
        let accepted = self.accepted.as_mut().filter(|a| a.due)?;
        accepted.due = false;
        accepted.tries = accepted.tries.saturating_add(1);
        Some(accepted)
    }

    /// Returns true if an INIT of ours was sent and waits for ACCEPT.
    pub(crate) fn has_offer(&self) -> bool {
        let attempt = self.attempt.as_ref();
        attempt.is_some_and(|attempt| attempt.offer.is_some())
    }

    /// Handles REFUSED for the attempt with this token: a new attempt begins later. If a HELLO
    /// found no room, the attempt goes on, since the peer may still answer it. Returns false if no
    /// such attempt is under way.
    pub(crate) fn on_refused(
        &mut self,
        now: Instant,
        token: u64,
        code: RefusedCode,
        shared: &mut Shared,
    ) -> bool {
        let attempt = self.attempt.as_mut();
        let Some(attempt) = attempt.filter(|a| a.opening.token() == token) else {
            return false;
        };
        let wait = match code {
            RefusedCode::Wait => SHORT_WAIT,
            _ => LONGEST_WAIT,
        };
        let no_room = matches!(code, RefusedCode::NoSocketCredit | RefusedCode::Wait);
        if no_room && attempt.is_asking() {
            attempt.opening.put_off(now, wait);
            attempt.absence = Absence::default();
            return true;
        }
        let made = attempt.offer.as_ref().map(|offer| offer.sent_at);
        // The process at that address is not the node, or does not admit this one: try another
        // address.
        let address_index = match code {
            RefusedCode::WrongNode
            | RefusedCode::NotAllowed
            | RefusedCode::Mode
            | RefusedCode::Version => attempt.address_index + 1,
            _ => attempt.address_index,
        };
        let keys_refused = match code {
            RefusedCode::Key | RefusedCode::NodeKey => attempt.keys_refused.wrapping_add(1),
            _ => 0,
        };
        self.try_later(now, wait, address_index, shared);
        if let Some(attempt) = &mut self.attempt {
            attempt.keys_refused = keys_refused;
        }
        // Other refusals may answer a repeated HELLO of the attempt, whose INIT may still be
        // accepted.
        if code == RefusedCode::DuplicateNode
            && let Some(made) = made
        {
            self.session.ride_refused(made);
        }
        true
    }

    /// Replaces the present attempt by one that begins after `wait`, at the address with the index
    /// `address_index`.
    pub(crate) fn try_later(
        &mut self,
        now: Instant,
        wait: Duration,
        address_index: usize,
        shared: &mut Shared,
    ) {
        self.drop_attempt(shared);
        let opening = Opening::later(shared.random(), now, wait);
        self.attempt = self.candidate_address(address_index).map(|to| {
            Box::new(Attempt {
                address_index,
                ..Attempt::new(opening, to)
            })
        });
    }

    /// Gives up our attempt. The next connection sends the data on its INIT again.
    pub(crate) fn drop_attempt(&mut self, shared: &mut Shared) {
        if let Some(offer) = self.attempt.take().and_then(|attempt| attempt.offer) {
            self.discard(offer, shared);
        }
    }

    fn discard(&mut self, offer: Offer, shared: &mut Shared) {
        self.put_back(offer.local, offer.beginning, offer.promise, shared);
    }

    /// Gives back what an INIT took, and requeues the data on it.
    fn put_back(
        &mut self,
        local: End,
        mut beginning: Beginning,
        promise: Option<Promise>,
        shared: &mut Shared,
    ) {
        let mut ride = Requeue { peer: self };
        beginning.recovery.drop_all(&mut ride);
        shared.indices.free(local.index);
        shared.shares.release(&mut beginning.grant);
        shared.memory.release(promise.unwrap_or_default());
    }

    /// Handles COOKIE from `from`: makes INIT due. The process there lives and may have room later,
    /// unless it refused this node for another reason: then its cookies change nothing.
    pub(crate) fn on_cookie(&mut self, now: Instant, from: SocketAddr, cookie: wire::Cookie) {
        if !self.life.is_refused_for_good() {
            self.put_off(now);
        }
        if let Some(attempt) = &mut self.attempt {
            attempt.to = from;
            attempt.cookie = Some((cookie, now));
            attempt.opening.cookie_came(now);
        }
    }

    /// Prepares the attempt's next packet: makes the INIT if the cookie came, changes the address
    /// if no answer came, begins anew if INIT got no answer. Returns false if nothing is to be sent
    /// now.
    pub(crate) fn advance_attempt(&mut self, now: Instant, shared: &mut Shared) -> bool {
        self.expire_messages(now, shared);
        let Some(attempt) = &mut self.attempt else {
            return false;
        };
        let rode = attempt.offer.as_ref().is_some_and(|offer| offer.rode);
        if attempt.opening.is_stale(now, rode) {
            let token = shared.random();
            self.drop_attempt(shared);
            self.open(now, token);
            if let Some(next) = &mut self.attempt {
                next.small = rode;
            }
            return true;
        }
        if !attempt.is_asking() {
            return true;
        }
        match attempt.cookie {
            Some((cookie, came)) if now.since(came) < COOKIE_GOOD => {
                let to = attempt.to;
                self.make_init(now, to, &cookie, shared)
            }
            _ => {
                attempt.cookie = None;
                let sent = attempt.opening.tries().saturating_add(1);
                self.judge_absence(now, sent, &mut shared.notices);
                self.change_to_next_address();
                true
            }
        }
    }

    /// Changes to the next address for a repeated HELLO, since no answer came from the last one (as
    /// in RFC 8305, section 5). A late answer counts, too.
    fn change_to_next_address(&mut self) {
        let address_index = self.attempt.as_ref().map_or(0, |a| a.address_index + 1);
        let candidate_address = self.candidate_address(address_index);
        if let Some(attempt) = &mut self.attempt
            && attempt.opening.tries() > 0
            && let Some(to) = candidate_address
        {
            attempt.address_index = address_index;
            attempt.to = to;
        }
    }

    /// Makes the INIT once the cookie came, with the first packet's frames if they belong to that
    /// incarnation. If credit or memory is missing, it is tried again later with the same cookie:
    /// another HELLO would only reserve more of the responder's budget.
    fn make_init(
        &mut self,
        now: Instant,
        to: SocketAddr,
        cookie: &wire::Cookie,
        shared: &mut Shared,
    ) -> bool {
        let offer = match shared.has_slot(now, Some(self.key)) {
            true => self.begin(now, cookie.incarnation, to, None, shared),
            false => Err(RefusedCode::NoSocketCredit),
        };
        let (mut beginning, promise) = match offer {
            Ok(offer) => offer,
            Err(code) => {
                self.postpone(now, code, shared);
                return false;
            }
        };
        let local = self.new_end(shared);
        let epoch = self.epoch_to_offer(cookie);
        let mut params = self.params(beginning.max_datagram, &shared.config);
        if let Some(promise) = &promise {
            offer_window(&mut params, promise.window);
        }
        let grant = self.first_grant(&mut beginning);
        let incarnation = cookie.incarnation;
        let ride = self.ride(now, incarnation, epoch, &mut beginning, &shared.config);
        let Some(attempt) = &mut self.attempt else {
            return false;
        };
        let mut init = Init {
            target: self.node,
            incarnation: shared.identity.incarnation,
            peer_incarnation: incarnation,
            epoch,
            index: local.index,
            tag: local.tag,
            cookie: cookie.cookie,
            grant,
            params,
            ride: &ride,
        };
        let (token, first) = (attempt.opening.token(), beginning.numbers.first());
        let made = (shared.issuer()).init(first, token, attempt.keys_refused, &mut init);
        let (bytes, handshake) = match made {
            Ok((bytes, initiator)) => (bytes, Handshake(initiator)),
            Err(error) => {
                self.put_back(local, beginning, promise, shared);
                self.postpone(now, no_message(error), shared);
                return false;
            }
        };
        if let Some(round_trip) = attempt.opening.begin_init(now, bytes) {
            beginning.recovery.set_initial_rtt(round_trip);
        }
        // The first number belongs to INIT, with or without frames.
        beginning.numbers.advance(1, || shared.random());
        attempt.offer = Some(Offer {
            local,
            beginning,
            incarnation,
            epoch,
            layers: init.params.layers,
            promise,
            sent_at: now,
            rode: !ride.is_empty(),
            handshake,
        });
        true
    }

    /// Makes an INIT due that waits for room at this node, if one does.
    pub(crate) fn hasten_init(&mut self, now: Instant) {
        if let Some(attempt) = &mut self.attempt
            && attempt.is_asking()
            && attempt.cookie.is_some()
        {
            attempt.opening.hasten(now);
        }
    }

    /// Delays the attempt because this node has no room for the connection, and tells the program
    /// once what is missing.
    fn postpone(&mut self, now: Instant, code: RefusedCode, shared: &mut Shared) {
        if let Some(attempt) = &mut self.attempt {
            attempt.opening.postpone(now);
        }
        self.put_off(now);
        if code == RefusedCode::NoSocketCredit {
            // There may be a slot, but no packet: the next free one is for this INIT.
            shared.admission_queue.wait(now, Some(self.key));
        }
        let reason = match code {
            RefusedCode::NoMemory => RefusedReason::NoMemoryHere,
            RefusedCode::Key => RefusedReason::NoKeysHere,
            RefusedCode::NodeKey => RefusedReason::NoNodeKeyHere,
            _ => RefusedReason::NoSocketCreditHere,
        };
        self.log_refused(now, reason, &mut shared.log);
        self.tell_refused(reason, &mut shared.notices);
    }

    /// Logs that an attempt was refused, each time.
    pub(crate) fn log_refused(&self, now: Instant, reason: RefusedReason, log: &mut Log) {
        let peer = self.node;
        let record = LogRecord::Refused { peer, reason };
        log.add(now, || record);
    }

    /// Tells the program why there is no connection, unless it was told the same before.
    pub(crate) fn tell_refused(&mut self, reason: RefusedReason, notices: &mut Notices) {
        let node = self.node;
        if self.last_refusal.replace(reason) != Some(reason) {
            self.push_event(Event::Refused { node, reason }, notices);
        }
    }

    /// Returns the frames that an INIT to `incarnation` may carry. In sealed mode there are none:
    /// message 1 of a handshake has no forward secrecy and can be replayed.
    fn ride(
        &mut self,
        now: Instant,
        incarnation: Incarnation,
        epoch: Epoch,
        beginning: &mut Beginning,
        config: &Config,
    ) -> Vec<u8> {
        let mut ride = Vec::new();
        let session = &self.session;
        let same = session.remote.is_none_or(|remote| remote == incarnation);
        let small = self.attempt.as_ref().is_some_and(|attempt| attempt.small);
        let may = same && !small && !self.is_paused() && session.suspended_by().is_none();
        if may && !config.security.is_sealed() {
            self.write_ride(now, &mut ride, beginning);
        }
        if !ride.is_empty() {
            self.session.ride_to(incarnation, epoch, now);
        }
        ride
    }

    /// Returns the epoch of an INIT that returns `cookie`: the one in which the peer would begin,
    /// unless this node knows a higher one. The peer discards data on an INIT of a lower epoch. It
    /// begins higher with every unknown incarnation, once it forgot some (rule 11).
    fn epoch_to_offer(&self, cookie: &wire::Cookie) -> Epoch {
        let ours = self.epoch_for(cookie.incarnation);
        // Data on an earlier INIT belongs to the epoch of that INIT.
        let bound = self.session.remote == Some(cookie.incarnation);
        let higher = cookie.epoch.reaches(ours) && !super::session::planted_end();
        if higher && !bound { cookie.epoch } else { ours }
    }

    /// Returns the epoch in which a session with the peer's process `incarnation` would begin now.
    /// A session with another process of the peer would end first.
    pub(crate) fn next_epoch(&self, incarnation: Incarnation) -> Epoch {
        match self.session.remote {
            Some(other) if other != incarnation => {
                let mut history = self.history.clone();
                history.ended(other, self.session.epoch);
                history.next_epoch(incarnation)
            }
            _ => self.epoch_for(incarnation),
        }
    }

    /// Returns the epoch that a session with `incarnation` has or would have.
    fn epoch_for(&self, incarnation: Incarnation) -> Epoch {
        match self.session.remote {
            Some(remote) if remote == incarnation => self.session.epoch,
            _ => self.history.next_epoch(incarnation),
        }
    }

    /// Returns true if our INIT wins against one from `incarnation`: of crossing INITs that of the
    /// lower node ID wins.
    pub(crate) fn wins_crossing(&self, me: NodeId, incarnation: Incarnation) -> bool {
        let offered = self.attempt.as_ref().and_then(|a| a.offer.as_ref());
        offered.is_some_and(|offer| me < self.node && offer.incarnation == incarnation)
    }

    /// Asks the peer for a sign of life on the path in use.
    pub(crate) fn ask_for_sign_of_life(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.link.pending.ping = true;
        }
    }

    /// Ends a session that the peer has ended: its process `incarnation` was at `epoch` when it
    /// answered a packet that we sent at `since`. Ends one in which we may use more `layers` than
    /// the peer permits now, too: the peer never knew it, since the ACCEPT that began it was lost,
    /// or we did not receive its CLOSE.
    pub(crate) fn end_before(
        &mut self,
        now: Instant,
        incarnation: Incarnation,
        epoch: Epoch,
        since: Instant,
        layers: Layers,
        shared: &mut Shared,
    ) {
        if self.is_other_incarnation(incarnation) {
            self.end(now, EndReason::Restarted, shared);
        } else if self.session.exceeds(incarnation, layers) {
            self.end(now, EndReason::RevokedThere, shared);
        } else if self.session.was_ended_by(incarnation, epoch, since) {
            self.end(now, EndReason::PeerEnded, shared);
        }
    }

    /// Agrees on the epoch with an initiator that offers `theirs` and ended no session of ours.
    /// Returns false if that is lower than ours: the initiator's data belongs to a session that is
    /// over.
    pub(crate) fn agree_epoch(&mut self, incarnation: Incarnation, theirs: Epoch) -> bool {
        let ours = self.epoch_for(incarnation);
        let same = theirs.reaches(ours);
        self.session.remote = Some(incarnation);
        self.session.epoch = if same { theirs } else { ours };
        same
    }

    /// Makes the connection. It replaces an older one, whose unacknowledged data is sent again.
    pub(crate) fn connect(
        &mut self,
        now: Instant,
        mut agreement: Agreement,
        mut beginning: Beginning,
        shared: &mut Shared,
    ) {
        // Both send packets of a size that both can receive: the acceptor knows its own route to
        // us, which may carry less than ours.
        let max_datagram = &mut agreement.params.max_datagram;
        *max_datagram = beginning.max_datagram.min(*max_datagram);
        shared.shares.recharge(&mut beginning.grant, *max_datagram);
        let address = agreement.address.to;
        let layers = agreement.layers;
        let first = agreement.first;
        let memory = agreement.grant.memory;
        beginning.grant.start_at(first);
        let early = beginning.early;
        let settings = LinkSettings {
            acks: AckSettings {
                max_delay: shared.config.max_ack_delay,
                on_poll: shared.config.ack_on_poll,
            },
            ecn: shared.config.ecn,
            payload_checksum: shared.config.payload_checksum,
        };
        let mut connection =
            Connection::new(agreement, beginning, self.options.controller, settings, now);
        connection.share_by_mode(&mut shared.shares);
        let mut known_path = false;
        if let Some(mut old) = self.connection.take() {
            known_path = old.link.path.address() == address;
            if known_path {
                connection.link.inherit_path(&old.link, now);
            }
            self.requeue(&mut old);
            self.close_again();
            shared.indices.free(old.link.local.index);
            // If the old connection was never heard, packets of earlier ones may still come, too.
            shared.shares.stop_waiting(&mut old.grant);
            connection.previous = old.previous;
            connection.previous.push(old.grant);
        }
        self.lingering = None;
        if self.last_source.is_some_and(|before| before != address) {
            self.previous_source = self.last_source.map(Box::new);
        }
        shared.met += usize::from(!self.is_met());
        self.last_source = Some(address);
        self.apply_params(&connection.link.params, memory, layers);
        if !known_path && !connection.begin_on_path(&shared.paths, now) {
            shared.paths.ask(self.node, address);
        }
        self.connection = Some(Box::new(connection));
        if let Some(number) = early {
            self.repay_early(now, number, &mut shared.shares);
        }
        shared.admission_queue.leave(Some(self.key));
        self.put_off = false;
        self.log_connected(now, &mut shared.log);
        self.apply_decision();
        self.hear(now, shared);
        // Messages on channels that the peer does not permit are not delivered.
        self.report_completions(shared);
    }

    /// Applies the peer's parameters to the session, its first memory credit, and the layers that
    /// the peer may use, as it was told: others may be in the file by now.
    fn apply_params(&mut self, params: &Params, memory: u64, permitted_here: Layers) {
        self.unattended = params.unattended;
        let session = &mut self.session;
        let is_first = !core::mem::replace(&mut session.connected, true);
        session.suspension.on_connected();
        session.inbox.set_permitted(permitted_here);
        let outbox = &mut session.outbox;
        outbox.set_initial_channel_limit(params.channel_memory);
        outbox.set_session_limit(memory);
        outbox.set_peer_max_message(params.max_message);
        outbox.set_max_channels(params.max_channels);
        outbox.set_permitted(params.layers, is_first);
    }

    fn log_connected(&self, now: Instant, log: &mut Log) {
        if let Some(connection) = &self.connection {
            log.add(now, || LogRecord::Connected {
                peer: self.node,
                to: connection.link.path.address(),
                epoch: self.session.epoch,
                datagram: connection.link.mtu.current(),
            });
        }
    }

    /// Returns the time when the INIT that `accept` answers was made. An error if `accept` answers
    /// no INIT of ours, belongs to an earlier session, or comes from another address than the INIT
    /// went to. Packets would go to that address, which was not proved.
    fn made_init_for(
        &self,
        from: SocketAddr,
        header: &Header,
        accept: &wire::Accept,
    ) -> Result<Instant, DropReason> {
        let attempt = self.attempt.as_ref().ok_or(DropReason::Unsolicited)?;
        let offer = attempt.offer.as_ref().ok_or(DropReason::Unsolicited)?;
        let answers =
            attempt.opening.token() == header.tag && offer.incarnation == accept.incarnation;
        let later = accept.epoch.reaches(self.epoch_for(accept.incarnation));
        match (answers, attempt.to == from, later) {
            (true, true, true) => Ok(offer.sent_at),
            (true, true, false) => Err(DropReason::OldSession),
            (true, false, _) => Err(DropReason::OtherAddress),
            (false, _, _) => Err(DropReason::Unsolicited),
        }
    }

    /// Reads the handshake message of an ACCEPT that answers our INIT. An error if it is not
    /// authentic, or of the other mode.
    fn finish_handshake(
        &mut self,
        now: Instant,
        params: &Params,
        datagram: &[u8],
        shared: &mut Shared,
    ) -> Result<Option<ConnectionKeys>, DropReason> {
        let offer = self.attempt.as_mut().and_then(|a| a.offer.as_mut());
        let Handshake(initiator) = &mut offer.ok_or(DropReason::Unsolicited)?.handshake;
        let keys = match initiator {
            None => finish_handshake(None, params, datagram),
            Some(initiator) => finish_handshake(Some(&mut **initiator), params, datagram),
        };
        if keys.is_err() {
            self.on_forged_accept(now, shared);
        }
        keys
    }

    /// Counts an ACCEPT that answers our INIT and is not authentic. After some of them the attempt
    /// is given up: its handshake is not tried without end.
    fn on_forged_accept(&mut self, now: Instant, shared: &mut Shared) {
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        attempt.forged_accepts = attempt.forged_accepts.saturating_add(1);
        if attempt.forged_accepts < MAX_FORGED_ACCEPTS || planted("accepts-unlimited") {
            return;
        }
        let (address_index, keys_refused) = (attempt.address_index, attempt.keys_refused);
        self.try_later(now, LONGEST_WAIT, address_index, shared);
        if let Some(attempt) = &mut self.attempt {
            attempt.keys_refused = keys_refused;
        }
    }

    /// Handles ACCEPT. An error if it does not fit our INIT.
    pub(crate) fn on_accept(
        &mut self,
        packet: &ArrivedPacket<'_>,
        accept: &wire::Accept,
        shared: &mut Shared,
    ) -> Result<(), DropReason> {
        let (now, from, header) = (packet.now, packet.arrival.from, packet.header);
        let made = self.made_init_for(from, header, accept)?;
        let keys = self.finish_handshake(now, &accept.params, packet.datagram, shared)?;
        shared.log.add(now, || LogRecord::Received {
            packet: header.kind,
            peer: self.node,
            from,
        });
        // Data on this INIT was discarded with it if its epoch was too low.
        let (incarnation, epoch, layers) = (accept.incarnation, accept.epoch, accept.params.layers);
        if self.session.is_over_at(incarnation, epoch, made, layers) {
            self.catch_up(now, accept, made, shared);
            return Ok(());
        }
        let attempt = self.attempt.take().ok_or(DropReason::Unsolicited)?;
        let (opening, Some(mut offer)) = (attempt.opening, attempt.offer) else {
            return Err(DropReason::Unsolicited);
        };
        if opening.tries() > 1 || accept.epoch != offer.epoch {
            // Send the data on INIT again: after a repeated INIT it would measure a wrong round
            // trip, and with a lower epoch the peer discarded it.
            let recovery = &mut offer.beginning.recovery;
            recovery.drop_all(&mut Requeue { peer: self });
        }
        self.end_before(now, incarnation, epoch, made, layers, shared);
        if !self.has_room_for_session() {
            // The peer learns from UNKNOWN that we did not go on, and is refused until there is
            // room.
            self.discard(offer, shared);
            self.open(now, shared.random());
            return Ok(());
        }
        // Take ACCEPT's epoch: the session that ended just now may have raised the epoch in which
        // unknown incarnations begin.
        self.session.remote = Some(accept.incarnation);
        self.session.epoch = accept.epoch;
        let Offer {
            local,
            beginning,
            layers,
            promise,
            sent_at,
            ..
        } = offer;
        if let Some(promise) = promise {
            self.set_promise(promise);
        }
        let agreement = Agreement {
            local,
            remote: End {
                index: accept.index,
                tag: accept.tag,
            },
            params: accept.params.clone(),
            layers,
            grant: accept.grant,
            answered: sent_at,
            first: header.number,
            address: from.into(),
            keys,
        };
        self.connect(now, agreement, beginning, shared);
        Ok(())
    }

    /// Repays packets up to `number`, which came before ACCEPT and were not taken. They are not
    /// acknowledged, but the grant moves on, and the peer gets a CREDIT at once. Otherwise it might
    /// have spent all its credit on them.
    fn repay_early(&mut self, now: Instant, number: PacketNumber, shares: &mut Shares) {
        self.release_previous(shares);
        if let Some(connection) = &mut self.connection {
            shares.on_drained(
                &mut connection.grant,
                number..=number,
                DrainedKind::Data,
                now,
            );
        }
    }

    /// Ends the session that the peer ended, or in which we may use fewer layers now, and opens the
    /// next one. It needs a new INIT: the grants of the one `made` then counted in the old session.
    fn catch_up(
        &mut self,
        now: Instant,
        accept: &wire::Accept,
        made: Instant,
        shared: &mut Shared,
    ) {
        let token = shared.random();
        self.drop_attempt(shared);
        let (incarnation, epoch) = (accept.incarnation, accept.epoch);
        let layers = accept.params.layers;
        self.end_before(now, incarnation, epoch, made, layers, shared);
        if epoch.reaches(self.history.next_epoch(incarnation)) {
            self.history.go_on_at(incarnation, epoch);
        }
        self.open(now, token);
    }

    /// Returns true if packets that carry `tag` belong to the connection in use. In sealed mode,
    /// `tag` is the end of a packet.
    pub(crate) fn is_current_tag(&self, tag: u64) -> bool {
        self.connection
            .as_ref()
            .is_some_and(|c| match &c.link.sealing {
                None => c.link.remote.tag == tag,
                Some(sealing) => sealing.sent_lately(tag),
            })
    }
}

/// Puts the data on an INIT back into the session's queues.
struct Requeue<'a> {
    peer: &'a mut Peer,
}

impl Sink<Recorded<SentFrame>> for Requeue<'_> {
    fn acked(&mut self, _: RangeInclusive<u64>, _: &[Recorded<SentFrame>]) {}

    fn lost(&mut self, _: RangeInclusive<u64>, frames: &[Recorded<SentFrame>]) {
        for frame in frames {
            if let Recorded::Cargo(content) = frame {
                self.peer.session.outbox.on_lost(content);
            }
        }
    }
}
