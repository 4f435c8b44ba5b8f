//! The frames that a link exchanges with its other end for itself: credit, questions, answers; and
//! which packets ask for an acknowledgement.

use super::{Cargo, FrameSink, Link, PING_EVERY, Recorded};
use crate::ack::AckNeed;
use crate::recovery::{Content, MAX_CONTROL};
use crate::time::Instant;
use crate::types::PacketNumber;
use crate::wire::{Blocked, EXTENSION_MODE, Frame, Mode};

/// Maximum bytes of a frame's head, but for the first one of a message.
const HEAD: usize = 24;

impl<T: Content> Link<T> {
    /// Returns the MODE that must be sent to the peer, and its number. Number 0 is the parameter of
    /// the handshake.
    pub(super) fn mode_due(&self) -> Option<(u64, Mode)> {
        let due = self.modes.due();
        due.filter(|_| self.supports(EXTENSION_MODE))
    }

    /// Returns true if MODE should be sent in a packet of its own.
    pub(super) fn wants_to_tell_mode(&self) -> bool {
        self.mode_is_wished && self.mode_due().is_some()
    }

    /// Returns true if an ack-eliciting packet of control frames may be sent. Otherwise it waits
    /// until one of those in flight is acknowledged or lost, or the probe timer gives the oldest
    /// one up. No deadlock is possible: packets in flight have a timer.
    pub(super) fn may_elicit(&self) -> bool {
        self.recovery.control_in_flight() < MAX_CONTROL
    }

    /// Returns true if a packet may be sent only to ask the peer something. While a question is
    /// under way, the last number for control is kept for an answer. If both ends used all their
    /// numbers for questions that cross, neither could answer the other for a while. After a probe
    /// timeout the question is probably lost, so another one may go. No deadlock is possible:
    /// questions have a timer.
    pub(super) fn may_ask(&self) -> bool {
        self.pending.probes > 0
            || !self.recovery.has_eliciting_in_flight()
            || !self
                .numbers
                .peek()
                .is_some_and(|number| self.credit.is_last(number))
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
            || (elicits() && self.may_elicit())
    }

    /// Returns true if packet `number` should carry a PING, which asks for an acknowledgement at
    /// once:
    ///
    /// * a probe is due;
    /// * a quarter of the window (an eighth in Response mode) was sent since a PING or an ACK,
    ///   unless the packet belongs to an exchange;
    /// * no more packets can follow until an answer arrives, because credit or window is used up
    ///   (in Throughput mode the window does not count while a PING is unanswered).
    ///
    /// An exchange, in Adaptive mode, is what leaves at once while nothing is in flight, fits the
    /// window and will probably be answered: the acknowledgement rides on the peer's reply. For the
    /// same reason half of the window needs only one PING if the packet is the `last` one of the
    /// send queue.
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

    /// Notes that packets of messages begin to leave while nothing is in flight. If the peer sent a
    /// message since that happened last, it will probably answer this one, too.
    pub(super) fn begin_exchange(&mut self, cargo: &impl Cargo<T>) {
        let size = self.mtu.current();
        let window = self.window(size as u64);
        let packets = (window / size as u64) as usize;
        let room = packets.saturating_mul(size.saturating_sub(self.overhead() + HEAD));
        let answered = core::mem::take(&mut self.answered);
        if answered && self.modes.ours() == Mode::Adaptive && cargo.fits(room) {
            self.since_ping = -((window - window / 4) as i64);
        }
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
        part.saturating_add_signed(-self.since_ping)
            .min(before_last)
    }

    /// Returns true if the last packet of a full window needs no PING, because an earlier PING is
    /// unanswered and the mode is Throughput. Each acknowledgement lets a few packets go. If the
    /// last of these carried a PING, the next acknowledgement would again cover only a few.
    fn awaits_ping_ack(&self) -> bool {
        self.modes.ours() == Mode::Throughput && self.pinged_at.is_some()
    }

    /// Writes the frames about the credit that the peer gave, until no more fit.
    /// `waiting` returns the bytes that wait for credit, and the limit of memory credit that they
    /// know. `data`: the packet itself has credit.
    pub(super) fn write_credit_frames(
        &mut self,
        now: Instant,
        data: bool,
        waiting: impl FnOnce() -> (u64, u64),
        packet: &mut impl FrameSink<T>,
    ) {
        if let Some(answer) = self.credit.return_due(now) {
            let generation = answer.generation;
            let frame = Frame::Return {
                generation,
                highest: answer.highest,
                size: answer.size as u64,
            };
            if packet.put(frame, Some(Recorded::Return { generation })) {
                self.credit.on_return_sent(now);
            }
        }
        if let Some(generation) = self.pending.reclaim
            && packet.put(Frame::Reclaim { generation }, None)
        {
            self.pending.reclaim = None;
        }
        let used_up = self.credit.used_up().filter(|_| data);
        if used_up.is_some() || self.credit.needs_blocked(now) {
            let (waiting, memory) = waiting();
            let blocked = Blocked {
                generation: self.credit.generation(),
                limit: used_up.unwrap_or_else(|| self.credit.limit()),
                memory,
                waiting,
            };
            if packet.put(Frame::Blocked(blocked), None) {
                if used_up.is_some() {
                    self.credit.on_used_up_reported(now);
                }
                self.credit.on_blocked_sent(now);
            }
        }
    }
}
