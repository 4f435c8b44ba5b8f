//! The control part of a packet: acknowledgements, credit, probes, answers, the end of the session.

use super::{Contents, Permit};
use crate::engine::Shared;
use crate::peer::connected::Connected;
use crate::peer::{Closing, Connection, Peer, Session};
use suci_channels::message::{Inbox, Outbox};
use suci_link::ack::AckNeed;
use suci_link::recovery::SentFrame;
use suci_link::time::Instant;
use suci_link::train::Train;
use suci_link::wire::{Close, Credit, EXTENSION_CHANNELS, Frame};

/// Bytes kept free behind an ACK for BLOCKED, RETURN and PING of their usual sizes.
const BLOCKED_ROOM: usize = 40;

impl Peer {
    /// Returns true if nothing needs a packet now but an acknowledgement that may wait.
    pub(crate) fn has_only_deferrable_ack(&self, now: Instant) -> bool {
        let connection = self.connection.as_deref();
        let settled = |c: &Connection| {
            c.link.path.deadline().is_none()
                && c.link.pending.responds_to().is_none()
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
        if !(connection.link.pending.credit || connection.grant.ride_due() || memory_due) {
            return None;
        }
        connection.link.pending.credit = false;
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
        let closes = connection.link.pending.close;
        let owed = connection.link.received.ack_state(now) != AckNeed::None;
        if closes || owed {
            if connection
                .link
                .credit
                .reserve_report_due(permit.number, now)
                && connection.link.may_elicit()
            {
                // The CREDIT that answered our PING was lost, and the peer believes that we have
                // it. Soon not even acknowledgements could be sent, so repeat it.
                let pto = connection.link.probe_timeout();
                connection
                    .link
                    .credit
                    .report_low_reserve(permit.number, now, pto);
                room = room.saturating_sub(BLOCKED_ROOM);
            }
            let written = connection
                .link
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
        let closing = self.connection.link.pending.close;
        let close = closing.then(|| self.close_frame(shared)).flatten();
        contents.leaves_some |= !permit.within_limit || (closing && close.is_none());
        let connection = &mut *self.connection;
        let answers = connection.has_answers(self.session, self.is_over);
        let ends = connection.may_send_fins(&self.session.outbox);
        let suspension = connection.suspension_due(self.session, self.is_over);
        let suspension = suspension.filter(|_| permit.within_limit);
        if !permit.data && !connection.link.may_elicit() {
            contents.leaves_some = true;
            return;
        }
        let room = permit.size.saturating_sub(train.packet_len());
        let last = permit.data && self.session.outbox.fits(room);
        let ping = connection
            .link
            .wants_ping(now, permit.number, permit.data, last);
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
            connection.link.pending.ping = false;
        }
        let outbox = &self.session.outbox;
        let waiting = || {
            // An empty message needs a packet, too, so count at least one byte for each message.
            let queued = outbox.queued().open();
            let bytes = queued.bytes.max(queued.messages).max(answers.into());
            (bytes, outbox.session_credit().1)
        };
        connection
            .link
            .write_credit_frames(now, permit.data, waiting, &mut put);
        if let Some(close) = close
            && put(Frame::Close(close), Some(SentFrame::Close))
        {
            connection.link.pending.close = false;
        }
        if let Some((frame, number)) = suspension
            && put(frame, Some(SentFrame::Suspension { number }))
        {
            self.session.suspension.on_sent();
        }
        for nonce in connection.link.pending.take_responses_to(None) {
            if !put(Frame::Response(nonce), None) {
                break;
            }
        }
        if permit.within_limit
            && !self.is_over
            && let Some((number, mode)) = connection.mode_due()
            && (permit.data || connection.link.mode_is_wished)
            && put(
                Frame::Mode { number, mode },
                Some(SentFrame::Mode { number }),
            )
        {
            connection.link.modes.on_sent();
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
    /// Returns true if control frames need a packet even if no message of `session` may be sent.
    /// `is_over`: the connection only answers repeated CLOSEs.
    fn wants_control(&self, now: Instant, session: &Session, is_over: bool) -> bool {
        let elicits =
            || (!is_over && self.wants_to_tell_mode()) || self.has_answers(session, is_over);
        self.wants_reserve(now)
            || self.memory_due(&session.inbox, is_over)
            || (elicits() && self.link.may_elicit())
    }

    fn has_answers(&self, session: &Session, is_over: bool) -> bool {
        let answers = session.inbox.has_answers() || self.may_send_fins(&session.outbox);
        (answers && !is_over) || self.suspension_due(session, is_over).is_some()
    }

    /// Returns true if a FIN must be sent and the peer supports it.
    fn may_send_fins(&self, outbox: &Outbox) -> bool {
        outbox.has_fins() && self.link.supports(EXTENSION_CHANNELS)
    }

    /// Returns true if the session's memory limit should be announced, since it moved since the
    /// last announcement.
    pub(super) fn memory_due(&self, inbox: &Inbox, is_over: bool) -> bool {
        !is_over && inbox.session_limit_due(self.memory_announced)
    }

    /// Returns true if frames wait that may use the reserve of socket credit: acknowledgements, and
    /// frames of credit, probes and closing.
    pub(super) fn wants_reserve(&self, now: Instant) -> bool {
        self.grant.update_due() || self.link.wants_reserve(now)
    }
}
