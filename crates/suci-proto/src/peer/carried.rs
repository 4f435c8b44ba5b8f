//! The session of a peer as the cargo of its link: what goes into packets, and what comes out of
//! them.

use super::build::write_data;
use super::connection::{Link, demand_of};
use super::life::Life;
use super::{Closing, Peer, Session};
use crate::counters::Traffic;
use crate::credit::{Grant, SocketReturn};
use crate::log::LogRecord;
use crate::shared::Shared;
use core::ops::RangeInclusive;
use std::net::SocketAddr;
use suci_channels::message::SentFrame;
use suci_channels::waits::WaitReason;
use suci_link::link::{
    Cargo, Consignee, Cut, DrainedKind, Fate, FrameSink, Recorded, Returned, SentTrain, Written,
};
use suci_link::rate_cap::RateCap;
use suci_link::time::{Duration, Instant};
use suci_link::train::Train;
use suci_link::types::{NodeId, PacketNumber, ProtocolError};
use suci_link::wire::{
    Blocked, Close, ContiguousPackets, Credit, EXTENSION_CHANNELS, EXTENSION_SUSPENSION, Frame,
    Mode, PacketPart,
};

/// The parts of a peer whose content goes into packets, or which note that they were sent.
pub(super) struct Carried<'a> {
    node: NodeId,
    /// The peer's key in the engine.
    key: usize,
    session: &'a mut Session,
    grant: &'a mut Grant,
    memory_announced: &'a mut u64,
    life: &'a mut Life,
    cap: &'a mut RateCap,
    traffic: &'a mut Traffic,
    silence_timeout: Duration,
    /// The extensions that the peer announced.
    extensions: u64,
    /// CLOSE is to be sent.
    closes: bool,
    /// As [`Peer::is_up`].
    is_up: bool,
    /// As [`Peer::carries_data`].
    pub(super) carries_data: bool,
    /// The session is over: the connection only answers repeated CLOSEs.
    is_over: bool,
    /// Messages were outstanding.
    waited: bool,
    /// An acknowledgement was the last one that they waited for.
    pub(super) emptied: bool,
    /// The packet being received suspended the session (true) or resumed it, in this order.
    pub(super) heard_suspensions: Vec<bool>,
    pub(super) shared: &'a mut Shared,
}

impl Peer {
    /// Returns the link to the peer and what it carries; `None` without a connection.
    #[inline(always)]
    pub(super) fn carried<'a>(
        &'a mut self,
        shared: &'a mut Shared,
    ) -> Option<(&'a mut Link, Carried<'a>)> {
        let (is_up, carries_data) = (self.is_up(), self.carries_data());
        let waited = !self.session.outbox.is_empty();
        let connection = &mut **self.connection.as_mut()?;
        let carried = Carried {
            node: self.node,
            key: self.key,
            session: &mut self.session,
            grant: &mut connection.grant,
            memory_announced: &mut connection.memory_announced,
            life: &mut self.life,
            cap: &mut self.cap,
            traffic: &mut self.traffic,
            silence_timeout: self.options.silence_timeout,
            extensions: connection.link.params.extensions,
            closes: matches!(self.closing, Closing::Sent { .. }),
            is_up,
            carries_data,
            is_over: self.lingering.is_some(),
            waited,
            emptied: false,
            heard_suspensions: Vec::new(),
            shared,
        };
        Some((&mut connection.link, carried))
    }

    /// Returns true if nothing needs a packet now but an acknowledgement that may wait.
    pub(crate) fn has_only_deferrable_ack(&mut self, now: Instant, shared: &mut Shared) -> bool {
        let quiet = self.session.outbox.is_empty()
            && self.attempt.is_none()
            && !self.has_pending_accept()
            && self.lingering.is_none()
            && self.closing == Closing::Open
            && self.session.inbox.large_wanted().is_none();
        quiet
            && self.carried(shared).is_some_and(|(link, carried)| {
                link.path.deadline().is_none()
                    && link.pending.responds_to().is_none()
                    && !link.wants_control(now, &carried)
            })
    }
}

impl Carried<'_> {
    /// Returns true if the session's memory limit should be announced, since it moved since the
    /// last announcement.
    fn owes_memory(&self) -> bool {
        !self.is_over && self.session.inbox.session_limit_due(*self.memory_announced)
    }

    /// Returns true if a FIN must be sent and the peer supports it.
    fn may_send_fins(&self) -> bool {
        self.session.outbox.has_fins() && self.extensions & EXTENSION_CHANNELS != 0
    }

    /// Takes a SUSPEND, or a RESUME.
    fn hear_suspension(&mut self, number: u64, suspended: bool) {
        if self.session.suspension.on_heard(number, suspended) {
            self.heard_suspensions.push(suspended);
        }
    }

    /// Returns the SUSPEND or RESUME that must be sent to the peer. Without the extension, messages
    /// are only held back on this side.
    fn suspension_due(&self) -> Option<(Frame<'static>, u64)> {
        let may_be_told = self.extensions & EXTENSION_SUSPENSION != 0 && !self.is_over;
        let (number, suspended) = self.session.suspension.due().filter(|_| may_be_told)?;
        let frame = match suspended {
            true => Frame::Suspend { number },
            false => Frame::Resume { number },
        };
        Some((frame, number))
    }
}

impl Cargo<SentFrame> for Carried<'_> {
    type Wait = WaitReason;

    fn is_sendable(&mut self) -> bool {
        self.carries_data && self.session.outbox.has_sendable()
    }

    fn wait_reason(&mut self) -> Option<WaitReason> {
        let outbox = &mut self.session.outbox;
        if outbox.is_empty() {
            None
        } else if !self.is_up {
            Some(WaitReason::Link)
        } else if !self.carries_data {
            Some(WaitReason::Suspended)
        } else {
            outbox.wait_reason()
        }
    }

    fn is_dismissed(&self) -> bool {
        self.grant.is_dismissed()
    }

    fn write(
        &mut self,
        size: usize,
        train: &mut Train,
        frames: &mut Vec<Recorded<SentFrame>>,
    ) -> Written {
        let written = write_data(&mut self.session.outbox, size, train, frames);
        self.traffic.bytes_resent += written.resent;
        Written {
            closed: written.closed,
        }
    }

    fn random(&mut self) -> u64 {
        self.shared.random()
    }

    fn fits(&self, room: usize) -> bool {
        self.session.outbox.fits(room)
    }

    fn goes_on(&mut self) -> bool {
        #[cfg(test)]
        if self.shared.one_by_one {
            return false;
        }
        let outbox = &mut self.session.outbox;
        outbox.has_sendable() && !outbox.has_blocked_channels()
    }

    fn is_outranked(&mut self) -> bool {
        self.session.outbox.is_outranked()
    }

    fn cut(
        &mut self,
        frames: &[Recorded<SentFrame>],
        room: usize,
        most: usize,
        take: impl FnOnce(&Cut<SentFrame>) -> bool,
    ) -> Option<Cut<SentFrame>> {
        let &[Recorded::Cargo(piece @ SentFrame::Data { start, end, .. })] = frames else {
            return None;
        };
        let outbox = &mut self.session.outbox;
        let mut rest = outbox.rest_after(&piece)?;
        // A retransmitted piece may be shorter than its packet. Its frame then has a length field.
        let head = rest.head_at(start).size(0, true);
        if end.saturating_sub(start) != room.saturating_sub(head) as u64 {
            return None;
        }
        let cut = rest.cut(room, most)?;
        if !take(&cut) {
            return None;
        }
        #[cfg(test)]
        {
            self.shared.built_together += cut.count as u64;
        }
        outbox.on_cut(&rest);
        Some(cut)
    }

    fn cap(&mut self) -> Option<&mut RateCap> {
        Some(self.cap)
    }

    fn owes_credit(&self) -> bool {
        self.grant.update_due() || self.owes_memory()
    }

    fn take_credit(&mut self, asked: bool) -> Option<Credit> {
        if !(asked || self.grant.ride_due() || self.owes_memory()) {
            return None;
        }
        let memory = self.session.inbox.session_limit();
        *self.memory_announced = memory;
        self.session.inbox.on_session_limit_announced();
        let credit = self.grant.credit();
        Some(Credit {
            generation: credit.generation,
            limit: credit.limit,
            control: credit.control,
            memory,
        })
    }

    fn has_answers(&self) -> bool {
        let answers = self.session.inbox.has_answers() || self.may_send_fins();
        (answers && !self.is_over) || self.suspension_due().is_some()
    }

    fn write_answers(&mut self, within_limit: bool, packet: &mut impl FrameSink<SentFrame>) {
        if !within_limit || self.is_over {
            return;
        }
        if let Some((frame, number)) = self.suspension_due()
            && packet.put(
                frame,
                Some(Recorded::Cargo(SentFrame::Suspension { number })),
            )
        {
            self.session.suspension.on_sent();
        }
        write_answers(self.session, self.may_send_fins(), packet);
    }

    /// Returns the CLOSE frame of this session, if it is closing.
    fn close(&self) -> Option<Close> {
        self.closes.then(|| Close {
            code: self.shared.close_code(),
            sent: self.session.outbox.accepted(),
            received: self.session.inbox.received(),
        })
    }

    fn waiting(&self) -> (u64, u64) {
        let outbox = &self.session.outbox;
        // An empty message needs a packet, too, so count at least one byte for each message.
        let queued = outbox.queued().open();
        let bytes = queued.bytes.max(queued.messages);
        (
            bytes.max(self.has_answers().into()),
            outbox.session_credit().1,
        )
    }

    fn is_short_of_memory(&self) -> bool {
        self.carries_data && self.session.outbox.blocked_by_session().is_some()
    }

    fn is_up(&self) -> bool {
        self.is_up
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn on_sent(&mut self, now: Instant, sent: &SentTrain) {
        self.traffic.packets_sent += sent.count;
        self.traffic.bytes_sent += sent.bytes;
        self.traffic.acks_sent += u64::from(sent.acknowledges);
        if sent.eliciting {
            self.life.ask(now, self.silence_timeout);
        }
        if sent.data {
            self.cap.consume(sent.bytes);
        }
    }
}

impl Fate<SentFrame> for Carried<'_> {
    fn acked(&mut self, content: &SentFrame) {
        self.session.acked(content);
    }

    fn lost(&mut self, content: &SentFrame) {
        self.session.lost(content);
    }
}

impl Consignee<SentFrame> for Carried<'_> {
    fn on_part(&mut self, part: &PacketPart<'_>) -> Result<bool, ProtocolError> {
        self.session.inbox.on_part(part)?;
        // An operation of a group has several members, and the next message to this one may come
        // some cycles later.
        Ok(matches!(part, PacketPart::Frag(frag)
            if frag.channel.is_of_group() && frag.start.is_some() && frag.end))
    }

    fn on_contiguous(&mut self, packets: &mut ContiguousPackets<'_>) {
        self.session.inbox.on_contiguous(packets);
    }

    fn on_frame(&mut self, frame: &Frame<'_>) -> Result<(), ProtocolError> {
        let session = &mut *self.session;
        match *frame {
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
            } => session.outbox.on_refused(channel, message, reason)?,
            Frame::Suspend { number } => self.hear_suspension(number, true),
            Frame::Resume { number } => self.hear_suspension(number, false),
            Frame::Fin { channel, count } => session.inbox.on_fin(channel, count)?,
            Frame::MaxChannels { limit } => session.outbox.set_max_channels(limit),
            // The link takes these.
            Frame::Padding(_)
            | Frame::Ping
            | Frame::Ack(_)
            | Frame::Credit(_)
            | Frame::Reclaim { .. }
            | Frame::Return { .. }
            | Frame::Blocked(_)
            | Frame::Mode { .. }
            | Frame::Close(_)
            | Frame::Challenge(_)
            | Frame::Response(_)
            | Frame::Frag(_) => {}
        }
        Ok(())
    }

    fn on_memory(&mut self, limit: u64) -> bool {
        let rose = limit > self.session.outbox.session_credit().1;
        if rose {
            self.session.outbox.set_session_limit(limit);
        }
        rose
    }

    fn on_blocked(&mut self, now: Instant, number: PacketNumber, blocked: &Blocked) {
        let (grant, shares) = (&mut *self.grant, &mut self.shared.shares);
        if blocked.waiting == 0 {
            shares.on_reserve_low(grant, now);
        } else {
            // In an ended generation the limit does not show whether more was needed.
            if blocked.generation == grant.generation() && number > blocked.limit {
                shares.on_used_up(grant, now);
            }
            shares.on_blocked(grant, self.key, now);
        }
        self.session.inbox.on_blocked(blocked.memory);
    }

    fn on_return(&mut self, now: Instant, answer: SocketReturn) -> Returned {
        let allowed = self.grant.limit().saturating_add(self.grant.control());
        let applied = self.shared.shares.on_return(self.grant, answer, now);
        Returned {
            allowed: applied.then_some(allowed),
            is_over: self.grant.is_over(),
        }
    }

    fn on_mode(&mut self, mode: Mode) {
        let demand = demand_of(mode);
        self.shared.shares.set_demand(self.grant, demand);
    }

    fn on_ack(&mut self, least: Duration) {
        self.emptied |= self.waited && self.session.outbox.is_empty();
        self.session.outbox.set_round_trip(least);
    }

    fn on_moved(
        &mut self,
        now: Instant,
        from: SocketAddr,
        to: SocketAddr,
    ) -> Option<Option<usize>> {
        let peer = self.node;
        let shared = &mut *self.shared;
        shared.log.add(now, || LogRecord::Moved { peer, from, to });
        let known = shared.paths.known(to);
        shared.paths.ask(peer, to);
        known
    }

    fn on_drained(
        &mut self,
        now: Instant,
        arrived: Instant,
        numbers: RangeInclusive<PacketNumber>,
        kind: DrainedKind,
        round_trip: Option<Duration>,
    ) {
        self.grant.on_path(now, round_trip, now.since(arrived));
        let shares = &mut self.shared.shares;
        shares.on_drained(self.grant, numbers, kind, now);
    }
}

/// Writes the session's answers to RTS, its channel credit and, if `ends`, the FINs of channels,
/// until no more fit.
fn write_answers(session: &mut Session, ends: bool, packet: &mut impl FrameSink<SentFrame>) {
    while let Some(answer) = session.inbox.poll_answer() {
        let (frame, sent) = answer.frame();
        if !packet.put(frame, Some(Recorded::Cargo(sent))) {
            session.inbox.on_lost(&sent);
            return;
        }
    }
    while let Some((channel, limit)) = session.outbox.poll_channel_blocked() {
        let sent = SentFrame::ChannelBlocked { channel };
        if !packet.put(
            Frame::ChannelBlocked { channel, limit },
            Some(Recorded::Cargo(sent)),
        ) {
            session.outbox.on_lost(&sent);
            return;
        }
    }
    while ends && let Some((channel, count)) = session.outbox.poll_fin() {
        let sent = SentFrame::Fin { channel };
        if !packet.put(Frame::Fin { channel, count }, Some(Recorded::Cargo(sent))) {
            session.outbox.on_lost(&sent);
            return;
        }
    }
}
