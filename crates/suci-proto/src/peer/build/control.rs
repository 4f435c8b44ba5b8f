//! The control part of a packet: acknowledgements, credit, probes, answers, the end of the session.

use super::{Contents, Permit};
use crate::engine::Shared;
use crate::peer::connected::Connected;
use crate::peer::{Closing, Connection, Peer, Session};
use crate::transmit::Train;
use suci_channels::message::{Inbox, Outbox};
use suci_link::ack::AckNeed;
use suci_link::recovery::{MAX_CONTROL, SentFrame};
use suci_link::time::Instant;
use suci_link::types::PacketNumber;
use suci_link::wire::{Blocked, Close, Credit, EXTENSION_CHANNELS, Frame, Mode};

/// In Throughput mode, a packet carries a PING only after this many packets without one. If that
/// many came before, the last packet of the queue carries one, too. The acknowledgement of a long
/// message's end then waits for no timer, and a single message causes no extra packets.
pub(super) const PING_EVERY: u64 = 8;

/// Bytes kept free behind an ACK for BLOCKED, RETURN and PING of their usual sizes.
const BLOCKED_ROOM: usize = 40;

impl Peer {
    /// Returns true if nothing needs a packet now but an acknowledgement that may wait.
    pub(crate) fn has_only_deferrable_ack(&self, now: Instant) -> bool {
        let connection = self.connection.as_deref();
        let settled = |c: &Connection| {
            c.path.deadline().is_none()
                && c.pending.responds_to().is_none()
                && !c.wants_control(now, &self.session, false)
        };
        self.session.outbox.is_empty()
            && self.attempt.is_none()
            && !self.has_pending_accept()
            && self.lingering.is_none()
            && self.closing == Closing::Open
            && self.session.inbox.large_wanted().is_none()
            && connection.is_some_and(settled)
    }
}

impl Connected<'_> {
    /// Returns true if control frames need a packet even if no message may be sent.
    pub(super) fn wants_control(&self, now: Instant) -> bool {
        self.connection
            .wants_control(now, self.session, self.is_over)
    }

    /// Returns true if frames wait that may be sent only within the limit of socket credit.
    pub(super) fn has_answers(&self) -> bool {
        self.connection.has_answers(self.session, self.is_over)
    }

    /// Returns the credit to announce, if an announcement is due.
    fn due_credit(&mut self) -> Option<Credit> {
        let connection = &mut *self.connection;
        let memory_due = connection.memory_due(&self.session.inbox, self.is_over);
        let memory = self.session.inbox.session_limit();
        if !(connection.pending.credit || connection.grant.ride_due() || memory_due) {
            return None;
        }
        connection.pending.credit = false;
        connection.memory_announced = memory;
        self.session.inbox.on_session_limit_announced();
        let credit = connection.grant.credit();
        Some(Credit {
            generation: credit.generation,
            limit: credit.limit,
            control: credit.control,
            memory,
        })
    }

    pub(super) fn write_ack_and_credit(
        &mut self,
        now: Instant,
        permit: Permit,
        train: &mut Train,
        frames: &mut Vec<SentFrame>,
        contents: &mut Contents,
    ) {
        let credit = self.due_credit();
        let connection = &mut *self.connection;
        let mut room = permit.size.saturating_sub(train.packet_len());
        // The packet with CLOSE also acknowledges, since no packet of the session follows it.
        let closes = connection.pending.close;
        let owed = connection.received.ack_state(now) != AckNeed::None;
        if closes || owed {
            if connection.credit.reserve_report_due(permit.number, now) && connection.may_elicit() {
                // The CREDIT that answered our PING was lost, and the peer believes that we have
                // it. Soon not even acknowledgements could be sent, so repeat it.
                let pto = connection.probe_timeout();
                connection
                    .credit
                    .report_low_reserve(permit.number, now, pto);
                room = room.saturating_sub(BLOCKED_ROOM);
            }
            let written = connection
                .received
                .write_ack(train.head(), now, room, credit);
            if let Some(largest) = written {
                self.traffic.acks_sent += 1;
                frames.push(SentFrame::Ack { largest });
                return;
            }
            contents.leaves_some |= owed;
        }
        if let Some(credit) = credit {
            Frame::Credit(credit).put(train.head());
        }
    }

    /// Writes as many control frames as fit; the others wait for the next packet. Each of them
    /// elicits an acknowledgement.
    pub(super) fn write_control(
        &mut self,
        now: Instant,
        permit: Permit,
        train: &mut Train,
        frames: &mut Vec<SentFrame>,
        contents: &mut Contents,
        shared: &Shared,
    ) {
        let closing = self.connection.pending.close;
        let close = closing.then(|| self.close_frame(shared)).flatten();
        contents.leaves_some |= !permit.within_limit || (closing && close.is_none());
        let connection = &mut *self.connection;
        let answers = connection.has_answers(self.session, self.is_over);
        let ends = connection.may_send_fins(&self.session.outbox);
        let suspension = connection.suspension_due(self.session, self.is_over);
        let suspension = suspension.filter(|_| permit.within_limit);
        if !permit.data && !connection.may_elicit() {
            contents.leaves_some = true;
            return;
        }
        let room = permit.size.saturating_sub(train.packet_len());
        let last = permit.data && self.session.outbox.fits(room);
        let ping = connection.wants_ping(now, permit.number, permit.data, last);
        let mut put = |frame: Frame<'_>, sent: Option<SentFrame>| {
            if train.packet_len() + frame.size() > permit.size {
                contents.leaves_some = true;
                return false;
            }
            contents.eliciting |= frame.is_eliciting();
            contents.ping |= matches!(frame, Frame::Ping);
            frame.put(train.head());
            frames.extend(sent);
            true
        };
        if ping && put(Frame::Ping, None) {
            connection.pending.ping = false;
        }
        connection.write_credit_frames(now, &self.session.outbox, answers, permit.data, &mut put);
        if let Some(close) = close
            && put(Frame::Close(close), Some(SentFrame::Close))
        {
            connection.pending.close = false;
        }
        if let Some((frame, number)) = suspension
            && put(frame, Some(SentFrame::Suspension { number }))
        {
            self.session.suspension.on_sent();
        }
        for nonce in connection.pending.take_responses_to(None) {
            if !put(Frame::Response(nonce), None) {
                break;
            }
        }
        if permit.within_limit
            && !self.is_over
            && let Some((number, mode)) = connection.mode_due()
            && (permit.data || connection.mode_is_wished)
            && put(
                Frame::Mode { number, mode },
                Some(SentFrame::Mode { number }),
            )
        {
            connection.modes.on_sent();
        }
        if permit.within_limit && !self.is_over {
            write_answers(self.session, ends, &mut put);
        }
    }

    /// Returns the CLOSE frame of this session, if it is closing.
    fn close_frame(&self, shared: &Shared) -> Option<Close> {
        matches!(self.closing, Closing::Sent { .. }).then(|| Close {
            code: shared.close_code(),
            sent: self.session.outbox.accepted(),
            received: self.session.inbox.received(),
        })
    }
}

/// Writes the session's answers to RTS, its channel credit and, if `ends`, the FINs of channels,
/// until `put` accepts no more.
fn write_answers(
    session: &mut Session,
    ends: bool,
    put: &mut impl FnMut(Frame<'_>, Option<SentFrame>) -> bool,
) {
    while let Some(answer) = session.inbox.poll_answer() {
        let (frame, sent) = answer.frame();
        if !put(frame, Some(sent)) {
            session.inbox.on_lost(&sent);
            return;
        }
    }
    while let Some((channel, limit)) = session.outbox.poll_channel_blocked() {
        let sent = SentFrame::ChannelBlocked { channel };
        if !put(Frame::ChannelBlocked { channel, limit }, Some(sent)) {
            session.outbox.on_lost(&sent);
            return;
        }
    }
    while ends && let Some((channel, count)) = session.outbox.poll_fin() {
        let sent = SentFrame::Fin { channel };
        if !put(Frame::Fin { channel, count }, Some(sent)) {
            session.outbox.on_lost(&sent);
            return;
        }
    }
}

impl Connection {
    /// Returns true if an ack-eliciting packet of control frames may be sent. Otherwise it waits
    /// until one of those in flight is acknowledged or lost, or the probe timer gives the oldest
    /// one up. No deadlock is possible: packets in flight have a timer.
    pub(in crate::peer) fn may_elicit(&self) -> bool {
        self.recovery.control_in_flight() < MAX_CONTROL
    }

    /// Returns true if a packet may be sent only to ask the peer something. While a question is
    /// under way, the last number for control is kept for an answer. If both ends used all their
    /// numbers for questions that cross, neither could answer the other for a while. After a probe
    /// timeout the question is probably lost, so another one may go. No deadlock is possible:
    /// questions have a timer.
    pub(in crate::peer) fn may_ask(&self) -> bool {
        self.pending.probes > 0
            || !self.recovery.has_eliciting_in_flight()
            || !self
                .numbers
                .peek()
                .is_some_and(|number| self.credit.is_last(number))
    }

    /// Returns true if control frames need a packet even if no message of `session` may be sent.
    /// `is_over`: the connection only answers repeated CLOSEs.
    fn wants_control(&self, now: Instant, session: &Session, is_over: bool) -> bool {
        let elicits =
            || (!is_over && self.wants_to_tell_mode()) || self.has_answers(session, is_over);
        self.wants_reserve(now)
            || self.memory_due(&session.inbox, is_over)
            || (elicits() && self.may_elicit())
    }

    fn has_answers(&self, session: &Session, is_over: bool) -> bool {
        let answers = session.inbox.has_answers() || self.may_send_fins(&session.outbox);
        (answers && !is_over) || self.suspension_due(session, is_over).is_some()
    }

    /// Returns true if a FIN must be sent and the peer supports it.
    fn may_send_fins(&self, outbox: &Outbox) -> bool {
        outbox.has_fins() && self.supports(EXTENSION_CHANNELS)
    }

    /// Returns true if the session's memory limit should be announced, since it moved since the
    /// last announcement.
    pub(super) fn memory_due(&self, inbox: &Inbox, is_over: bool) -> bool {
        !is_over && inbox.session_limit_due(self.memory_announced)
    }

    /// Returns true if frames wait that may use the reserve of socket credit: acknowledgements, and
    /// frames of credit, probes and closing.
    pub(super) fn wants_reserve(&self, now: Instant) -> bool {
        let asks = || self.pending.asks() || self.credit.needs_blocked(now);
        let elicits = || {
            self.pending.answers() || self.credit.return_is_urgent() || (asks() && self.may_ask())
        };
        self.received.ack_state(now) == AckNeed::Now
            || self.pending.credit
            || self.grant.update_due()
            || (elicits() && self.may_elicit())
    }

    /// Returns true if packet `number` should carry a PING, which asks for an acknowledgement at
    /// once:
    ///
    /// * a probe is due;
    /// * a quarter of the window (an eighth in Response mode) was sent since a PING or an ACK;
    /// * no more packets can follow until an answer arrives, because credit or window is used up
    ///   (in Throughput mode the window does not count while a PING is unanswered).
    ///
    /// `last`: the packet empties the send queue. No message waits for its acknowledgement, which
    /// may ride on the peer's reply. So in Adaptive mode half of the window needs only one PING.
    ///
    /// In Throughput mode a PING comes only after [`PING_EVERY`] packets, or half of the window if
    /// that is less: a quarter of a small window is only a few packets.
    pub(super) fn wants_ping(
        &self,
        now: Instant,
        number: PacketNumber,
        data: bool,
        last: bool,
    ) -> bool {
        if self.pending.ping {
            return true;
        }
        if !data && self.pending.small_ping {
            return true;
        }
        if !data {
            return self.credit.refresh_due(number, now);
        }
        let size = self.mtu.current() as u64;
        let part = match self.modes.ours() {
            Mode::Adaptive if last => self.window(size) / 2,
            _ => self.ping_part(size),
        };
        self.bytes_before_ping(size, part) < size || self.credit.data_allowance(number, now) <= 1
    }

    /// Returns the part of the window, in bytes, that is sent with one PING, in packets of `size`.
    fn ping_part(&self, size: u64) -> u64 {
        let window = self.window(size);
        match self.modes.ours() {
            Mode::Adaptive => window / 4,
            Mode::Throughput => (window / 4).max((PING_EVERY * size).min(window / 2)),
            Mode::Response => window / 8,
        }
    }

    /// Returns how many packets of `size` may be sent before the window requires a PING.
    pub(super) fn packets_before_ping(&self, size: u64) -> u64 {
        self.bytes_before_ping(size, self.ping_part(size)) / size
    }

    /// Returns the bytes that may be sent before a packet of `size` carries a PING, if one PING
    /// covers `part` bytes.
    fn bytes_before_ping(&self, size: u64, part: u64) -> u64 {
        let left = self.window(size).saturating_sub(self.recovery.in_flight());
        // The last packet that fits the window carries a PING, too.
        let before_last = if self.awaits_ping_ack() {
            left
        } else {
            left.saturating_sub(size)
        };
        part.saturating_sub(self.since_ping).min(before_last)
    }

    /// Returns true if the last packet of a full window needs no PING, because an earlier PING is
    /// unanswered and the mode is Throughput. Each acknowledgement lets a few packets go. If the
    /// last of these carried a PING, the next acknowledgement would again cover only a few.
    fn awaits_ping_ack(&self) -> bool {
        self.modes.ours() == Mode::Throughput && self.pinged_at.is_some()
    }

    /// Writes the frames about socket credit, until `put` accepts no more. They are about the
    /// messages in `outbox` and about `answers`, which need credit as messages do. `data`: the
    /// packet itself has credit.
    fn write_credit_frames(
        &mut self,
        now: Instant,
        outbox: &Outbox,
        answers: bool,
        data: bool,
        put: &mut impl FnMut(Frame<'_>, Option<SentFrame>) -> bool,
    ) {
        if let Some(answer) = self.credit.return_due(now) {
            let generation = answer.generation;
            let frame = Frame::Return {
                generation,
                highest: answer.highest,
                size: answer.size as u64,
            };
            if put(frame, Some(SentFrame::Return { generation })) {
                self.credit.on_return_sent(now);
            }
        }
        if let Some(generation) = self.pending.reclaim
            && put(Frame::Reclaim { generation }, None)
        {
            self.pending.reclaim = None;
        }
        let used_up = self.credit.used_up().filter(|_| data);
        if used_up.is_some() || self.credit.needs_blocked(now) {
            // An empty message needs a packet, too, so count at least one byte for each message.
            let queued = outbox.queued().open();
            let waiting = queued.bytes.max(queued.messages).max(answers.into());
            let (_, memory) = outbox.session_credit();
            let blocked = Blocked {
                generation: self.credit.generation(),
                limit: used_up.unwrap_or_else(|| self.credit.limit()),
                memory,
                waiting,
            };
            if put(Frame::Blocked(blocked), None) {
                if used_up.is_some() {
                    self.credit.on_used_up_reported(now);
                }
                self.credit.on_blocked_sent(now);
            }
        }
    }
}
