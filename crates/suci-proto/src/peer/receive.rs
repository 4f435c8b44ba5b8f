//! Receiving packets of an established connection: each frame is handled by itself, but packets
//! that came together are recorded once.
//!
//! Packets that arrive together (GRO) and follow one another under the next numbers are received as
//! one range. The first of them is processed frame by frame. Those behind it join its range as long
//! as they carry only messages: all checks (of sender, duplicates, credit) have the same result as
//! for the first. The state ends up as if the packets had come one after the other; the tests
//! compare both.

use super::connected::Connected;
use super::end::Ending;
use super::session::Session;
use super::suspension::Suspension;
use super::{Closing, Connection, Peer};
use crate::arrival::Arrival;
use crate::credit::{DrainedKind, Shares, SocketReturn};
use crate::engine::{PortInput, Shared};
use crate::event::{EndReason, Event, Side};
use crate::log::LogRecord;
use core::ops::RangeInclusive;
use std::net::SocketAddr;
use suci_channels::message::{NOT_PERMITTED, Outbox};
use suci_channels::port::Port;
use suci_link::limits::MIN_MTU;
use suci_link::recovery::{AckDelays, Recovery};
use suci_link::time::Instant;
use suci_link::types::{NodeId, PacketNumber, ProtocolError};
use suci_link::wire::{
    self, Blocked, CLOSE_FINISHED, CLOSE_LEAVING, CLOSE_REVOKED, Close, ContiguousPackets, Credit,
    Frame, PacketPart,
};

/// Effects of a packet beyond those of its single frames.
#[derive(Default)]
struct Effects {
    /// Its source address, if that is not the address of the path.
    elsewhere: Option<SocketAddr>,
    eliciting: bool,
    /// It must be acknowledged at once: it held a PING, or the peer gave up its slot.
    ack_now: bool,
    /// When the packet arrived in the socket.
    arrived: Instant,
    /// When the peer was last heard before.
    previously_heard: Instant,
    close: Option<Close>,
    /// With `close`: when the connection is dropped.
    lingers_until: Instant,
    close_acked: bool,
    /// It acknowledged the last outstanding message.
    emptied: bool,
    /// It carried a message, or a part of one.
    message: bool,
    /// Its last frame of messages was a whole message of a group.
    of_group: bool,
    /// It reported that messages wait for credit.
    blocked: bool,
    /// It acknowledged bytes in flight.
    acked: bool,
    /// The peer suspended the session (true) or resumed it, in this order.
    suspensions: Vec<bool>,
}

impl Effects {
    /// Notes a SUSPEND, or a RESUME, that changes the state of the session.
    fn hear(&mut self, number: u64, suspended: bool, suspension: &mut Suspension) {
        if suspension.on_heard(number, suspended) {
            self.suspensions.push(suspended);
        }
    }
}

impl Peer {
    /// Releases the grants of earlier connections, since a packet came on this one. Data on an INIT
    /// does not count: its sender goes on with the old connection until ACCEPT comes.
    #[inline(always)]
    pub(crate) fn release_previous(&mut self, shared: &mut Shared) {
        if let Some(connection) = &mut self.connection
            && !connection.previous.is_empty()
        {
            for mut previous in connection.previous.drain(..) {
                shared.shares.release(&mut previous);
            }
        }
    }

    /// Takes the first of `packets`, an authentic one, and those that follow it and carry only
    /// messages. Ignores duplicates.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        packets: &mut ContiguousPackets<'_>,
        shared: &mut Shared,
    ) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        let number = packets.number();
        if !connection.link.received.is_fresh(number) {
            shared.counters.duplicates += 1;
            self.traffic.duplicates += 1;
            return;
        }
        let is_newest = connection.link.received.highest() < Some(number);
        if is_newest {
            connection
                .link
                .path
                .heard_from(arrival.from, || shared.random(), now);
        }
        let previously_heard = self.life.last_heard();
        self.hear(now, shared);
        let Some(mut connected) = self.connected() else {
            return;
        };
        let elsewhere = !connected.connection.link.path.leads_to(&arrival.from);
        let mut effects = Effects {
            elsewhere: elsewhere.then_some(arrival.from),
            arrived: arrival.at,
            previously_heard,
            ..Effects::default()
        };
        let outcome =
            connected.take_packets(now, arrival, is_newest, packets, &mut effects, shared);
        for suspended in core::mem::take(&mut effects.suspensions) {
            self.tell_suspension(Side::There, suspended, shared);
        }
        match outcome {
            Err(error) => self.fail(now, error, shared),
            Ok(()) => self.after_frames(now, &effects, shared),
        }
    }

    /// Handles the effects of the frames, after the packet is recorded.
    fn after_frames(&mut self, now: Instant, effects: &Effects, shared: &mut Shared) {
        if effects.emptied {
            self.classifier.on_exchange(effects.message);
        }
        if effects.acked {
            self.consult(now);
            self.report_narrow(now, shared);
        }
        self.report_messages(shared);
        if let Some(close) = effects.close {
            self.on_close(now, close, effects.lingers_until, shared);
        } else if effects.close_acked && matches!(self.closing, Closing::Sent { .. }) {
            self.end(now, EndReason::ClosedHere, shared);
        }
    }

    /// Handles CLOSE: the session is over; the connection stays until then to acknowledge
    /// repetitions (F20).
    fn on_close(&mut self, now: Instant, close: Close, until: Instant, shared: &mut Shared) {
        if self.lingering.is_some() {
            return;
        }
        let ending = match close.code {
            CLOSE_FINISHED | CLOSE_LEAVING => Ending::ByPeer { sent: close.sent },
            CLOSE_REVOKED => Ending::For(EndReason::RevokedThere),
            code => Ending::For(EndReason::PeerProtocol(code)),
        };
        self.finish_session(now, ending, shared);
        if close.code == CLOSE_LEAVING {
            self.life.leave();
            self.last_is_dead = true;
        }
        self.lingering = Some(until);
    }

    /// Reports the outcomes of messages, messages that need a decision, and channels that are
    /// finished.
    #[inline(always)]
    pub(super) fn report_messages(&mut self, shared: &mut Shared) {
        self.report_completions(shared);
        self.report_incoming(shared);
        if self.session.inbox.has_finished() {
            self.list_events(shared);
        }
    }

    pub(super) fn report_completions(&mut self, shared: &mut Shared) {
        let node = self.node;
        while let Some(done) = self.session.outbox.poll_completion() {
            let (channel, number, token) = (done.channel, done.number, done.token);
            // Its group is over at the peer, which tells members so itself, or the peer does not
            // permit groups: the state of the member says so.
            if channel.is_of_group() {
                continue;
            }
            if let Some(reason) = done.reason
                && shared.calls.refused(node, &done, reason)
            {
                self.session.open_calls = self.session.open_calls.saturating_sub(1);
                continue;
            }
            if let Some(reason) = done.reason
                && channel.is_handled()
                && Port::of(channel).hears_of_peers()
                && shared.config.ports.has(Port::of(channel))
            {
                let input = PortInput::Refused {
                    node,
                    channel,
                    token,
                    reason,
                };
                shared.tell_port(Port::of(channel), input);
                continue;
            }
            if channel.is_internal() {
                if done.reason == Some(NOT_PERMITTED) {
                    self.tell_denied(channel.layer(), shared);
                }
                continue;
            }
            let event = match done.reason {
                None => Event::Delivered {
                    node,
                    channel,
                    number,
                    token,
                },
                Some(reason) => Event::NotDelivered {
                    node,
                    channel,
                    number,
                    token,
                    reason,
                },
            };
            self.push_event(event, shared);
        }
        self.report_room(shared);
    }

    /// Tells the program if the send queue has room for which it waits.
    #[inline]
    pub(crate) fn report_room(&mut self, shared: &mut Shared) {
        if self.session.outbox.has_wanted_room() {
            self.list_events(shared);
        }
    }

    /// Tells the program of messages that need its decision.
    pub(crate) fn report_incoming(&mut self, shared: &mut Shared) {
        let node = self.node;
        while let Some(info) = self.session.inbox.poll_incoming() {
            if info.channel.carries_replies() {
                self.refuse_reply(&info, shared);
                continue;
            }
            if info.channel.is_of_group() {
                self.judge_for_group(&info, shared);
                continue;
            }
            let event = Event::Incoming {
                node,
                channel: info.channel,
                number: info.number,
                total: info.total,
                tag: info.tag,
                kind: info.kind,
                user_header: info.user_header,
            };
            self.push_event(event, shared);
        }
    }
}

impl Connected<'_> {
    /// Takes the frames of the first of `packets`, and those that follow it if they carry only
    /// messages, and records the packets. `is_newest`: no packet with a higher number came before.
    fn take_packets(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        is_newest: bool,
        packets: &mut ContiguousPackets<'_>,
        effects: &mut Effects,
        shared: &mut Shared,
    ) -> Result<(), ProtocolError> {
        let number = packets.number();
        let payload = packets.payload();
        let waiting = packets.rest().len();
        let overhead = self.connection.link.overhead();
        // The packets that follow are as long as the first, or shorter.
        let outcome = match payload.len() + overhead > self.connection.link.longest(number) {
            true => Err(ProtocolError::Limit("a datagram longer than agreed")),
            false => self.take_frames(now, number, payload, effects, shared),
        };
        if waiting > 0 && is_newest && outcome.is_ok() && self.may_join(arrival, effects) {
            self.session.inbox.on_contiguous(packets);
        }
        let numbers = number..=packets.number();
        let bytes = payload.len() + overhead + waiting - packets.rest().len();
        self.note_received(now, arrival, numbers, bytes, effects, shared);
        outcome?;
        if effects.close.is_some() {
            effects.lingers_until = self.begin_lingering(now);
        }
        Ok(())
    }

    /// Acknowledges CLOSE at once. Forgets the packets in flight, which belonged to the session
    /// that is over. Returns the time until which the connection acknowledges repetitions (F20).
    fn begin_lingering(&mut self, now: Instant) -> Instant {
        let connection = &mut *self.connection;
        connection.link.received.force();
        let until = now + connection.link.probe_timeout() * 3;
        if !self.is_over {
            let rtt = connection.link.recovery.rtt().smoothed();
            let next = connection.link.numbers.peek().unwrap_or(PacketNumber::MAX);
            connection.link.recovery = Recovery::new(next, rtt);
        }
        until
    }

    /// Returns true if the packets behind one that had these effects may join its range.
    fn may_join(&self, arrival: &Arrival, effects: &Effects) -> bool {
        let same_address = self.connection.link.path.address() == arrival.from;
        let goes_on = effects.close.is_none() && !effects.close_acked && !self.is_over;
        effects.eliciting && goes_on && same_address
    }

    /// Updates the records for packets that were received together, `bytes` in all. Several packets
    /// are all ack-eliciting; a single one may not be.
    fn note_received(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        numbers: RangeInclusive<PacketNumber>,
        bytes: usize,
        effects: &Effects,
        shared: &mut Shared,
    ) {
        let followers = numbers.end() - numbers.start();
        #[cfg(test)]
        {
            shared.taken_together += followers;
        }
        if effects.acked {
            self.life.end_stream();
        }
        if effects.eliciting {
            let streamed = followers + u64::from(!effects.acked);
            self.life.on_streamed(streamed, effects.previously_heard);
        }
        self.traffic.packets_received += followers + 1;
        self.traffic.bytes_received += bytes as u64;
        let connection = &mut *self.connection;
        let eliciting = effects.eliciting;
        connection.link.received.on_packets(
            numbers.clone(),
            arrival.at,
            eliciting,
            arrival.ecn,
            now,
        );
        if effects.message {
            connection.link.acks_ride = effects.of_group;
        }
        if effects.ack_now {
            connection.link.received.force();
        }
        let kind = match (effects.message || effects.blocked, eliciting) {
            (true, _) => DrainedKind::Data,
            (false, true) => DrainedKind::Control,
            (false, false) => DrainedKind::Ack,
        };
        connection.on_drained(now, arrival.at, numbers, kind, shared);
    }

    fn take_frames(
        &mut self,
        now: Instant,
        packet: PacketNumber,
        payload: &[u8],
        effects: &mut Effects,
        shared: &mut Shared,
    ) -> Result<(), ProtocolError> {
        let mut frames = wire::frames(payload);
        while !frames.is_empty() {
            if let Some(part) = frames.next_part() {
                self.take_messages(&part?, effects)?;
            } else if let Some(ack) = frames.next_ack() {
                self.on_ack(now, &ack?, effects, shared)?;
            } else if let Some(frame) = frames.next() {
                let frame = frame?;
                effects.eliciting |= frame.is_eliciting();
                if !self.is_over || is_allowed_while_draining(&frame) {
                    self.take_control(now, packet, &frame, effects, shared)?;
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn take_messages(
        &mut self,
        part: &PacketPart<'_>,
        effects: &mut Effects,
    ) -> Result<(), ProtocolError> {
        effects.eliciting = true;
        if self.is_over {
            return Ok(());
        }
        effects.message = true;
        effects.of_group = matches!(part, PacketPart::Frag(frag)
            if frag.channel.is_of_group() && frag.start.is_some() && frag.end);
        self.session.inbox.on_part(part)
    }

    #[inline(never)]
    fn take_control(
        &mut self,
        now: Instant,
        packet: PacketNumber,
        frame: &Frame<'_>,
        effects: &mut Effects,
        shared: &mut Shared,
    ) -> Result<(), ProtocolError> {
        let connection = &mut *self.connection;
        if let Some((extension, kind)) = frame.extension()
            && !connection.link.supports(extension)
        {
            return Err(ProtocolError::UnknownFrame(kind));
        }
        let session = &mut *self.session;
        match *frame {
            Frame::Padding(_) | Frame::Ack(_) | Frame::Frag(_) => {}
            Frame::Ping => effects.ack_now = true,
            Frame::Credit(credit) => connection.on_credit(now, &credit, &mut session.outbox),
            Frame::Reclaim { generation } => connection.link.credit.on_reclaim(generation, now),
            Frame::Return {
                generation,
                highest,
                size,
            } => {
                connection.on_return(now, generation, highest, size, &mut shared.shares);
                // A peer that gives up its slot gets an acknowledgement, and then nothing more.
                effects.ack_now |= connection.grant.is_over();
            }
            Frame::Blocked(blocked) => {
                effects.blocked = true;
                connection.on_blocked(now, packet, &blocked, self.key, &mut shared.shares);
                session.inbox.on_blocked(blocked.memory);
            }
            Frame::MaxChannel { channel, limit } => {
                session.outbox.set_channel_limit(channel, limit)
            }
            Frame::ChannelBlocked { channel, .. } => session.inbox.repeat_limit(channel),
            Frame::Rts(rts) => session.inbox.on_rts(&rts)?,
            Frame::Cts { channel, message } => session.outbox.on_cts(channel, message)?,
            Frame::Refuse {
                channel,
                message,
                reason,
            } => {
                session.outbox.on_refused(channel, message, reason)?;
            }
            Frame::Close(close) => effects.close = Some(close),
            Frame::Challenge(nonce) => connection.link.pending.respond(nonce, effects.elsewhere),
            Frame::Response(nonce) => {
                let moved = connection.on_response(now, nonce, self.node, session, shared);
                *self.last_source = moved.or(*self.last_source);
            }
            Frame::Mode { number, mode } => {
                if connection.link.modes.on_heard(number, mode) {
                    connection.link.apply_peer_mode();
                    connection.share_by_mode(shared);
                }
            }
            Frame::Suspend { number } => effects.hear(number, true, &mut session.suspension),
            Frame::Resume { number } => effects.hear(number, false, &mut session.suspension),
            Frame::Fin { channel, count } => session.inbox.on_fin(channel, count)?,
            Frame::MaxChannels { limit } => session.outbox.set_max_channels(limit),
        }
        Ok(())
    }

    #[inline(never)]
    fn on_ack(
        &mut self,
        now: Instant,
        ack: &wire::Ack<'_>,
        effects: &mut Effects,
        shared: &mut Shared,
    ) -> Result<(), ProtocolError> {
        let connection = &mut *self.connection;
        let delays = AckDelays {
            local: now.since(effects.arrived),
            reported: ack.delay,
            max: connection.link.params.max_ack_delay,
        };
        connection.link.note_late(now, effects.arrived);
        let in_flight = connection.link.recovery.in_flight();
        let waited = !self.session.outbox.is_empty();
        let (recovery, mut fate) = connection.fates(self.session);
        let summary = recovery.on_ack(now, delays, ack.ranges(), &mut fate)?;
        fate.settle();
        effects.close_acked |= fate.close_acked;
        effects.emptied |= waited && self.session.outbox.is_empty();
        effects.acked |= summary.newly_acked_bytes > 0;
        if let Some(sealing) = &mut connection.link.sealing
            && let Some(range) = ack.ranges().next()
        {
            sealing.on_acked(*range.end());
        }
        self.traffic.spurious_losses += u64::from(summary.spurious);
        self.traffic.packets_lost += u64::from(summary.lost.packets);
        shared.counters.spurious_losses += u64::from(summary.spurious);
        shared.counters.packets_lost += u64::from(summary.lost.packets);
        connection.link.on_ack_summary(now, in_flight, &summary);
        connection.log_resized(now, shared);
        let round_trip = connection.link.recovery.rtt().min();
        self.session.outbox.set_round_trip(round_trip);
        connection
            .link
            .on_ecn_counts(now, ack.ecn.unwrap_or_default(), &summary);
        // The session that a lingering connection's credit was for is over.
        if let Some(credit) = ack.credit
            && !self.is_over
        {
            connection.on_credit(now, &credit, &mut self.session.outbox);
        }
        Ok(())
    }
}

/// Returns true if a frame still means something on a connection whose session is over.
fn is_allowed_while_draining(frame: &Frame<'_>) -> bool {
    matches!(frame, Frame::Ping | Frame::Close(_) | Frame::Challenge(_))
}

impl Connection {
    /// Handles RESPONSE: if it answers our challenge of a new address, the path moves there.
    /// Measurements of the old path, and packets still under way to it, do not apply to the new one
    /// (RFC 9000 9.4). Returns the new address.
    fn on_response(
        &mut self,
        now: Instant,
        nonce: u64,
        peer: NodeId,
        session: &mut Session,
        shared: &mut Shared,
    ) -> Option<SocketAddr> {
        let from = self.link.path.address();
        let round_trip = self.link.path.on_response(nonce, now)?;
        let to = self.link.path.address();
        shared.log.add(now, || LogRecord::Moved { peer, from, to });
        self.begin_on_path(&shared.paths, now);
        let (recovery, mut fate) = self.fates(session);
        recovery.drop_all(&mut fate);
        self.link.on_moved(round_trip);
        shared.paths.ask(peer, to);
        Some(to)
    }

    /// Handles a credit for the messages in `outbox`.
    fn on_credit(&mut self, now: Instant, credit: &Credit, outbox: &mut Outbox) {
        self.link.credit.on_grant(credit, now);
        let (_, known) = outbox.session_credit();
        if credit.memory > known {
            self.link.credit.on_memory();
            outbox.set_session_limit(credit.memory);
        }
    }

    /// Notes that packets which arrived at `arrived` were read from the socket: their sender may
    /// send more.
    fn on_drained(
        &mut self,
        now: Instant,
        arrived: Instant,
        numbers: RangeInclusive<PacketNumber>,
        kind: DrainedKind,
        shared: &mut Shared,
    ) {
        let rtt = self.link.recovery.rtt();
        let round_trip = rtt.has_sample().then(|| rtt.min());
        self.grant.on_path(now, round_trip, now.since(arrived));
        shared
            .shares
            .on_drained(&mut self.grant, numbers, kind, now);
    }

    /// Handles RETURN: the peer gives credit back, and may bind its packets to a size.
    fn on_return(
        &mut self,
        now: Instant,
        generation: u64,
        highest: PacketNumber,
        size: u64,
        shares: &mut Shares,
    ) {
        let size = match usize::try_from(size) {
            Ok(0) => 0,
            size => size.unwrap_or(usize::MAX).max(MIN_MTU),
        };
        let is_bound = size > 0 && self.link.bounds.admit(size, self.link.params.max_datagram);
        // Packets that the grant allows may be under way with the size before, and no others.
        let allowed = self.grant.limit().saturating_add(self.grant.control());
        let answer = SocketReturn {
            generation,
            highest,
            size: if is_bound { size } else { 0 },
        };
        if shares.on_return(&mut self.grant, answer, now) && is_bound {
            self.link.bounds.add(highest.min(allowed), size);
        }
    }

    /// Handles BLOCKED in the packet `number`: messages of the peer `key`, or its control packets,
    /// wait for credit.
    fn on_blocked(
        &mut self,
        now: Instant,
        number: PacketNumber,
        blocked: &Blocked,
        key: usize,
        shares: &mut Shares,
    ) {
        let grant = &mut self.grant;
        if blocked.waiting == 0 {
            shares.on_reserve_low(grant, now);
        } else {
            // In an ended generation the limit does not show whether more was needed.
            if blocked.generation == grant.generation() && number > blocked.limit {
                shares.on_used_up(grant, now);
            }
            shares.on_blocked(grant, key, now);
        }
        self.link.pending.credit = true;
    }
}
