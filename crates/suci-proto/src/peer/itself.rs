//! Messages that a node sends to itself.
//!
//! The messages pass from the session's send queue to its inbox as frames of a packet that no
//! socket sees. So limits, order and answers are those of messages between nodes. No frame is lost,
//! so each is acknowledged at once. There is no handshake and no connection; the link is always up.

use super::Peer;
use super::build::write_data;
use crate::counters::Counters;
use crate::shared::Shared;
use suci_channels::message::{Answer, SentFrame};
use suci_channels::waits::WaitReason;
use suci_link::limits;
use suci_link::link::Recorded;
use suci_link::time::Instant;
use suci_link::train::Train;
use suci_link::types::ProtocolError;
use suci_link::wire::{self, Frame, PacketPart};

impl Peer {
    /// Passes on messages to this node itself, as many as a packet carries. Returns whether it
    /// passed anything on: then more may follow, and something may wait for the program.
    pub(crate) fn pass_to_itself(&mut self, now: Instant, shared: &mut Shared) -> bool {
        self.expire_messages(now, shared);
        self.advance_closing(now, shared);
        self.renew_memory(&mut shared.memory);
        let passed = match self.carries_data() && self.begin_with_itself(shared) {
            true => self.pass_frames(shared),
            false => Ok(false),
        };
        let passed = passed.unwrap_or_else(|error| {
            debug_assert!(false, "the two halves of a session disagree: {error}");
            self.fail(now, error, shared);
            false
        });
        self.report_messages(shared);
        let reason = self.wait_reason_for_itself();
        self.waits.note(now, reason);
        passed
    }

    /// Begins the session once it has something to pass on. Returns true if it has begun. Without
    /// memory for it, the session waits until another one returns its window.
    fn begin_with_itself(&mut self, shared: &mut Shared) -> bool {
        if self.session.is_established() {
            return true;
        }
        if self.session.outbox.is_empty() && !self.session.outbox.has_fins() {
            return false;
        }
        let Some(promise) = shared.memory.take() else {
            shared.memory.wait_for_window(self.key);
            return false;
        };
        self.set_promise(promise);
        let session = &mut self.session;
        let channel_window = session.inbox.channel_window();
        session.outbox.set_initial_channel_limit(channel_window);
        session
            .outbox
            .set_peer_max_message(shared.config.max_message);
        session
            .outbox
            .set_max_channels(session.inbox.channels_announced());
        session.remote = Some(shared.identity.incarnation);
        // Messages on more channels than that are not delivered.
        self.report_completions(shared);
        true
    }

    fn pass_frames(&mut self, shared: &mut Shared) -> Result<bool, ProtocolError> {
        let mut passed = self.pass_answers()?;
        let (mut train, mut packet) = (Train::default(), Vec::new());
        let mut sent = core::mem::take(&mut shared.frames);
        sent.clear();
        train.begin_packet();
        let outbox = &mut self.session.outbox;
        write_data(outbox, limits::MAX_DATAGRAM, &mut train, &mut sent);
        train.finish_raw(&mut packet);
        passed |= !packet.is_empty();
        let taken = self.take_packet(&packet, &mut shared.counters);
        for frame in sent.drain(..) {
            if let Recorded::Cargo(content) = frame {
                self.session.outbox.on_acked(&content);
            }
        }
        shared.frames = sent;
        taken?;
        let session = &mut self.session;
        if !session.outbox.has_sendable() {
            if let Some(limit) = session.outbox.blocked_by_session() {
                session.inbox.on_blocked(limit);
            }
            while let Some((channel, _)) = session.outbox.poll_channel_blocked() {
                session.inbox.repeat_limit(channel);
            }
        }
        Ok(passed || session.inbox.has_answers())
    }

    fn take_packet(&mut self, packet: &[u8], counters: &mut Counters) -> Result<(), ProtocolError> {
        let inbox = &mut self.session.inbox;
        let mut frames = wire::frames(packet);
        while !frames.is_empty() {
            if let Some(part) = frames.next_part() {
                let part = part?;
                inbox.on_part(&part)?;
                counters.payload_copied += match part {
                    PacketPart::FrameBatch(batch) => batch.payload(),
                    PacketPart::Frag(frag) => frag.data.len() as u64,
                };
            } else if let Some(frame) = frames.next()
                && let Frame::Rts(rts) = frame?
            {
                inbox.on_rts(&rts)?;
            }
        }
        Ok(())
    }

    /// Passes the inbox's answers about memory, channels and requests to the send queue, and the
    /// ends of channels to the inbox. Returns whether there were any, so that more messages may be
    /// passed on.
    fn pass_answers(&mut self) -> Result<bool, ProtocolError> {
        let (inbox, outbox) = (&mut self.session.inbox, &mut self.session.outbox);
        let mut passed = false;
        inbox.on_session_limit_announced();
        outbox.set_session_limit(inbox.session_limit());
        while let Some(answer) = inbox.poll_answer() {
            passed = true;
            match answer {
                Answer::Cts { channel, message } => outbox.on_cts(channel, message)?,
                Answer::Refuse {
                    channel,
                    message,
                    reason,
                } => outbox.on_refused(channel, message, reason)?,
                Answer::MaxChannel { channel, limit } => outbox.set_channel_limit(channel, limit),
                Answer::MaxChannels { limit } => outbox.set_max_channels(limit),
            }
        }
        while let Some((channel, count)) = outbox.poll_fin() {
            passed = true;
            inbox.on_fin(channel, count)?;
            outbox.on_acked(&SentFrame::Fin { channel });
        }
        Ok(passed)
    }

    /// Returns the reason why messages were not passed on.
    fn wait_reason_for_itself(&mut self) -> Option<WaitReason> {
        if self.session.outbox.is_empty() {
            None
        } else if !self.carries_data() {
            Some(WaitReason::Suspended)
        } else if !self.session.is_established() {
            Some(WaitReason::SessionMemory)
        } else if self.session.outbox.has_sendable() {
            None
        } else {
            self.session.outbox.wait_reason()
        }
    }
}
