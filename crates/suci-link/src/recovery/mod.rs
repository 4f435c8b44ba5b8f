//! Loss recovery of one connection's packets: which packets were acknowledged, which are lost, when
//! a probe is due.
//!
//! This is RFC 9002 with one packet number space. It adds two things: reordering thresholds that
//! adapt (RFC 8985), and a rule that tells a pause of the whole process from loss. Congestion
//! control and retransmission are the caller's tasks. This part reports events in an [`AckSummary`]
//! or [`LossSummary`] and through a [`Sink`]. It has no clock; `now` must not decrease from call to
//! call.

mod loss;
mod pto;
mod report;
mod rtt;
mod sent;

pub use loss::{MAX_PACKET_THRESHOLD, MIN_PACKET_THRESHOLD};
pub use pto::MAX_BACKOFF;
pub use report::{AckSummary, LossSummary, RateSample, Sink, TimerAction};
pub use rtt::{AckDelays, GRANULARITY, Rtt};
pub use sent::{Content, MAX_CONTROL, MAX_REMEMBERED, MAX_SILENT, SentKind};

use crate::time::{Duration, Instant};
use crate::types::{PacketNumber, ProtocolError};
use core::ops::RangeInclusive;
use loss::{PersistentCongestion, Reordering};
use pto::Pto;
use sent::{Oldest, PacketState, RateSnapshot, Sent, SentPackets, SentRange};

/// Loss recovery for the packets of one direction of one connection.
#[derive(Debug)]
pub struct Recovery<T> {
    sent_packets: SentPackets<T>,
    rtt: Rtt,
    reordering: Reordering,
    pto: Pto,
    /// Largest position (packet number counted from the first one) acknowledged, plus one.
    acked_below: u64,
    /// Time at which the oldest packet below `acked_below` counts as lost.
    loss_time: Option<Instant>,
    /// Time at which the process last resumed from a pause that it did not choose.
    resumed_at: Option<Instant>,
    /// End of the first pause of the present group. A pause joins the group if it comes within one
    /// probe timeout of the last one. After two probe timeouts a new group begins.
    held_since: Instant,
    /// Packets sent before this time were already exempted from loss detection during one pause.
    /// They are not exempted again.
    already_exempted: Option<Instant>,
    /// Packets sent until this time do not count towards persistent congestion: no round trip was
    /// measured yet, or the process was stopped.
    persistence_from: Option<Instant>,
    delivery: RateSnapshot,
    /// The last `now` seen.
    clock: Instant,
}

impl<T: Content> Recovery<T> {
    /// Returns the state for a connection whose first packet number is `first` or slightly higher.
    /// `initial_rtt` is the round-trip time until one is measured.
    #[must_use]
    pub fn new(first: PacketNumber, initial_rtt: Duration) -> Self {
        Self {
            sent_packets: SentPackets::new(first),
            rtt: Rtt::new(initial_rtt),
            reordering: Reordering::new(),
            pto: Pto::default(),
            acked_below: 0,
            loss_time: None,
            resumed_at: None,
            held_since: Instant::ZERO,
            already_exempted: None,
            persistence_from: None,
            delivery: RateSnapshot {
                delivered: 0,
                delivered_at: Instant::ZERO,
                first_sent_at: Instant::ZERO,
                app_limited_until: 0,
            },
            clock: Instant::ZERO,
        }
    }

    /// Records packets of `size` bytes each that were handed to the network under consecutive
    /// `numbers`. The numbers must be above all earlier ones, otherwise nothing is recorded.
    /// Numbers in between count as skipped: an acknowledgement of one is an error. Each skipped
    /// range takes memory, so callers should skip few.
    ///
    /// If there are several packets, `frames` is one part of a message, and each packet carried an
    /// equal piece of it. They then cost as much as one packet.
    pub fn on_sent(
        &mut self,
        numbers: RangeInclusive<PacketNumber>,
        now: Instant,
        size: usize,
        kind: SentKind,
        frames: &[T],
    ) {
        self.clock = now;
        if self.sent_packets.packets_in_flight() == 0 {
            // An idle path delivers nothing: the rate is measured from here.
            self.delivery.first_sent_at = now;
            self.delivery.delivered_at = now;
        }
        let sent = Sent {
            eliciting: kind.eliciting,
            path_probe: kind.path_probe,
            control: kind.control,
            size: u32::try_from(size).unwrap_or(u32::MAX),
            sent_at: now,
            rate: self.delivery,
        };
        self.sent_packets.record(numbers, sent, frames);
        if kind.eliciting {
            self.pto.restart(now);
        }
    }

    /// Applies an acknowledgement with inclusive, descending `ranges`. A number that was resolved
    /// earlier has no effect.
    ///
    /// The cost is a few steps per range, and one step for each 64 packets of the range that are
    /// remembered, also when a peer repeats the range (F06). Packets that were sent as one batch
    /// and are newly acknowledged cost O(1); each newly lost packet costs O(1).
    ///
    /// # Errors
    /// [`ProtocolError::NeverSent`] if a range names a number that was skipped or not yet sent
    /// (F05). Nothing was applied then.
    pub fn on_ack(
        &mut self,
        now: Instant,
        delays: AckDelays,
        ranges: impl Iterator<Item = RangeInclusive<PacketNumber>> + Clone,
        sink: &mut impl Sink<T>,
    ) -> Result<AckSummary, ProtocolError> {
        let mut summary = AckSummary::default();
        let Some(largest) = self.sent_packets.check(ranges.clone())? else {
            return Ok(summary);
        };
        self.clock = now;
        // The newest packets that this acknowledgement resolves, in their earlier state; and
        // whether any packet that it resolves was eliciting.
        let mut newest: Option<SentRange> = None;
        let mut eliciting = false;
        // When our kernel received the acknowledgement: a busy host is not a slow path.
        let acknowledged_at = now - delays.local;
        for range in ranges {
            let Some((mut from, through)) = self.sent_packets.positions(&range) else {
                continue;
            };
            while let Some(sent_range) = self.sent_packets.next_open(from, through) {
                from = sent_range.positions.end;
                self.acknowledge(&sent_range, sink);
                if sent_range.fate != PacketState::Silent {
                    eliciting = true;
                    self.note_delivered(acknowledged_at, &sent_range, &mut summary);
                }
                let is_newer = |newest: &SentRange| newest.positions.end < from;
                if newest.as_ref().is_none_or(is_newer) {
                    newest = Some(sent_range);
                }
            }
        }
        let Some(newest) = newest else {
            return Ok(summary);
        };
        let sent_at = newest.sent.sent_at;
        self.acked_below = self.acked_below.max(largest.saturating_add(1));
        summary.largest_newly_acked_sent_at = Some(sent_at);
        if eliciting {
            self.pto.on_progress(now);
            let delivered_at = acknowledged_at - delays.reported;
            self.delivery.delivered_at = self.delivery.delivered_at.max(delivered_at);
            if self.is_measurable(&newest) {
                let is_largest = newest.positions.end == largest.saturating_add(1);
                if is_largest {
                    summary.path_sample = self.measure(now, sent_at, delays);
                }
                summary.rate = self.measure_rate(acknowledged_at, &newest.sent);
            }
        }
        summary.lost = self.detect(now, delays.max, sink);
        self.sent_packets.expire(now);
        Ok(summary)
    }

    /// Handles the loss timer or the probe timer, whichever is due. Does nothing if none is due.
    ///
    /// A probe counts among the [`MAX_CONTROL`] control packets in flight. If all are in use, the
    /// oldest is given up first, which is no sign of congestion.
    pub fn on_timeout(
        &mut self,
        now: Instant,
        max_ack_delay: Duration,
        sink: &mut impl Sink<T>,
    ) -> TimerAction {
        let due = self
            .next_timeout(max_ack_delay)
            .is_some_and(|deadline| deadline <= now);
        if !due {
            return TimerAction::None;
        }
        self.clock = now;
        if self.loss_time.is_some() {
            let lost = self.detect(now, max_ack_delay, sink);
            self.sent_packets.expire(now);
            self.pto.restart(now);
            return if lost == LossSummary::default() {
                TimerAction::None
            } else {
                TimerAction::LossesDeclared(lost)
            };
        }
        if self.control_in_flight() >= MAX_CONTROL {
            self.abandon_oldest_control(sink);
        }
        TimerAction::Probe {
            count: self.pto.on_fired(now),
        }
    }

    /// Reports the content of the oldest `packets` packets in flight to `sink` as lost, without
    /// declaring the packets lost: probes then repeat it (RFC 9002 6.2.4). If only this content is
    /// missing, the probe itself delivers it; after a PING, the sender would wait for one more
    /// round trip. O(window).
    pub fn repeat_oldest(&self, packets: u32, sink: &mut impl Sink<T>) {
        for packet in self.sent_packets.carriers().take(packets as usize) {
            sink.lost(
                self.sent_packets.numbers(&packet),
                &self.sent_packets.carried(&packet),
            );
        }
    }

    /// Returns the time at which [`on_timeout`](Self::on_timeout) must be called, unless an
    /// acknowledgement arrives first.
    #[must_use]
    pub fn next_timeout(&self, max_ack_delay: Duration) -> Option<Instant> {
        let deadline = match self.loss_time {
            Some(loss_time) => loss_time,
            None if self.has_eliciting_in_flight() => {
                self.pto.deadline(&self.rtt, max_ack_delay)?
            }
            None => return None,
        };
        let held = self.held_until(max_ack_delay);
        let already_exempted = || {
            self.sent_packets
                .oldest_sent_at()
                .is_some_and(|at| self.was_exempted(at))
        };
        Some(if deadline >= held || already_exempted() {
            deadline
        } else {
            held
        })
    }

    /// Returns the bytes of eliciting packets that are neither acknowledged nor lost.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        self.sent_packets.in_flight()
    }

    /// Returns true if any eliciting packet is in flight.
    #[must_use]
    pub const fn has_eliciting_in_flight(&self) -> bool {
        self.sent_packets.packets_in_flight() > 0
    }

    /// Returns the number of packets in flight that were sent outside the congestion window.
    #[must_use]
    pub const fn control_in_flight(&self) -> u64 {
        self.sent_packets.control()
    }

    /// Notes that the sender stopped for lack of messages or credit. Until the packets in flight
    /// are delivered, rate samples are marked as limited by the application.
    pub fn on_app_limited(&mut self) {
        let until = self.delivery.delivered.saturating_add(self.in_flight());
        // This holds also if nothing is in flight: the next packets enter an idle path.
        self.delivery.app_limited_until = until.max(self.delivery.delivered.saturating_add(1));
    }

    /// Returns the bytes of eliciting packets that the peer acknowledged so far.
    #[must_use]
    pub const fn delivered(&self) -> u64 {
        self.delivery.delivered
    }

    /// Sets the round-trip time that the handshake measured. It is used until packets give a
    /// sample.
    pub fn set_initial_rtt(&mut self, initial: Duration) {
        if !self.rtt.has_sample() {
            self.rtt = Rtt::new(initial);
        }
    }

    /// Returns the number of packets declared lost that may still arrive. A lost packet is
    /// remembered for two probe timeouts.
    #[must_use]
    pub const fn doubtful(&self) -> u64 {
        self.sent_packets.doubtful()
    }

    /// Returns the number of packets declared lost that did not arrive within that time. Never
    /// decreases.
    #[must_use]
    pub const fn confirmed(&self) -> u64 {
        self.sent_packets.confirmed()
    }

    /// Returns the estimate of the round-trip time.
    #[must_use]
    pub const fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// Returns how often the probe timer fired since the last acknowledgement.
    #[must_use]
    pub const fn pto_count(&self) -> u32 {
        self.pto.count()
    }

    /// Gives up all packets in flight, without a sign of congestion: the connection was replaced,
    /// or the path changed. Late acknowledgements are still recognised, but give no sample.
    /// O(window).
    pub fn drop_all(&mut self, sink: &mut impl Sink<T>) {
        self.drop_from(0, sink);
        self.pto.on_progress(self.clock);
    }

    /// Resets the round-trip time and the reordering thresholds, since the path changed (RFC 9000
    /// 9.4). Callers usually call [`drop_all`](Self::drop_all), too, so that packets of the old
    /// path give no sample.
    pub fn on_path_changed(&mut self, initial_rtt: Duration) {
        self.rtt = Rtt::new(initial_rtt);
        self.reordering = Reordering::new();
        self.persistence_from = None;
    }

    /// Gives up the packets in flight of more than `size` bytes, as [`drop_all`](Self::drop_all)
    /// does: the path refused them. O(window).
    pub fn drop_larger_than(&mut self, size: usize, sink: &mut impl Sink<T>) {
        self.drop_from(size.saturating_add(1), sink);
    }

    /// Notes that the engine did not run for a long time (SIGSTOP, a paused machine), until `now`.
    ///
    /// Acknowledgements may wait in the socket. So no packet in flight is declared lost, and no
    /// probe is due, until one probe timeout after `now` (F16). Each packet is exempted only once:
    /// a program that calls seldom is always late, and it read all acknowledgements at each call.
    /// Pauses within one probe timeout of each other count as one, for at most two probe timeouts.
    pub fn on_resumed_after_gap(&mut self, now: Instant, max_ack_delay: Duration) {
        let longest = self.rtt.pto(max_ack_delay).saturating_mul(2);
        if now >= self.held_until(max_ack_delay) {
            self.already_exempted = self.resumed_at;
            self.held_since = now;
        } else if now >= self.held_since + longest {
            self.already_exempted = Some(self.held_since);
            self.held_since = now;
        }
        self.resumed_at = Some(now);
        self.persistence_from = self.persistence_from.max(Some(now));
    }

    /// Frees the memory of resolved packets. Returns false if a packet is in flight. Afterwards,
    /// late acknowledgements of lost packets are not recognised, and packets that elicit no
    /// acknowledgement count as delivered.
    pub fn shrink(&mut self) -> bool {
        self.already_exempted = None;
        self.sent_packets.shrink()
    }

    /// Checks that the remembered packets stay within their bounds.
    ///
    /// # Errors
    /// A description of the violation.
    pub fn audit(&self) -> Result<(), String> {
        self.sent_packets.audit()
    }

    /// Returns the number of batches that are stored.
    #[doc(hidden)]
    #[must_use]
    pub fn batches(&self) -> usize {
        self.sent_packets.batches()
    }

    /// Returns true if a packet sent at that time was already exempted during an earlier pause.
    fn was_exempted(&self, sent_at: Instant) -> bool {
        self.already_exempted.is_some_and(|until| sent_at < until)
    }

    /// Returns the time until which no packet is declared lost because the process was stopped.
    fn held_until(&self, max_ack_delay: Duration) -> Instant {
        self.resumed_at.map_or(Instant::ZERO, |resumed| {
            resumed + self.rtt.pto(max_ack_delay)
        })
    }

    /// Marks packets as acknowledged and reports them to `sink`.
    fn acknowledge(&mut self, sent_range: &SentRange, sink: &mut impl Sink<T>) {
        self.sent_packets.acknowledge(sent_range);
        sink.acked(
            self.sent_packets.numbers(sent_range),
            &self.sent_packets.carried(sent_range),
        );
    }

    /// Counts eliciting packets that the peer acknowledged.
    #[inline]
    fn note_delivered(
        &mut self,
        acknowledged_at: Instant,
        sent_range: &SentRange,
        summary: &mut AckSummary,
    ) {
        let bytes = sent_range.bytes();
        self.delivery.delivered = self.delivery.delivered.saturating_add(bytes);
        let size = sent_range.sent.size as usize;
        let packets = u32::try_from(sent_range.count()).unwrap_or(u32::MAX);
        summary.largest_acked_size = summary.largest_acked_size.max(size);
        if sent_range.sent.path_probe {
            summary.mtu_probe_acked = summary.mtu_probe_acked.max(Some(size));
        }
        match sent_range.fate {
            PacketState::InFlight => {
                summary.newly_acked_bytes = summary.newly_acked_bytes.saturating_add(bytes);
                summary.newly_acked_packets = summary.newly_acked_packets.saturating_add(packets);
            }
            PacketState::Lost => {
                summary.spurious = summary.spurious.saturating_add(packets);
                let took = acknowledged_at.since(sent_range.sent.sent_at);
                for position in sent_range.positions.clone() {
                    let distance = self.acked_below.saturating_sub(position.saturating_add(1));
                    self.reordering.on_spurious(took, distance, &self.rtt);
                }
            }
            _ => {}
        }
    }

    /// Returns true if a packet may give samples of the path: the process was not stopped after it
    /// was sent, and its path was not given up.
    fn is_measurable(&self, packet: &SentRange) -> bool {
        let paused = self
            .resumed_at
            .is_some_and(|resumed| packet.sent.sent_at < resumed);
        !paused && packet.fate != PacketState::Dropped
    }

    /// Takes a sample of the round-trip time from the largest acknowledged packet.
    fn measure(&mut self, now: Instant, sent_at: Instant, delays: AckDelays) -> Option<Duration> {
        if self.persistence_from.is_none() {
            self.persistence_from = Some(now);
        }
        self.rtt.update(now.since(sent_at), delays)
    }

    /// Returns the delivery rate while the newest acknowledged packet was in flight
    /// (draft-ietf-ccwg-bbr section 4.1.1). The slower of sending and acknowledging determines it.
    /// It is measured from kernel to kernel: from the time at which the peer's kernel had received
    /// what was delivered before, until ours received this acknowledgement.
    fn measure_rate(&mut self, acknowledged_at: Instant, newest: &Sent) -> Option<RateSample> {
        let snapshot = newest.rate;
        self.delivery.first_sent_at = self.delivery.first_sent_at.max(newest.sent_at);
        let nanos = |to: Instant, from: Instant| to.as_nanos().saturating_sub(from.as_nanos());
        let sending = nanos(newest.sent_at, snapshot.first_sent_at);
        let interval =
            Duration::from_nanos(sending.max(nanos(acknowledged_at, snapshot.delivered_at)));
        let delivered = self.delivery.delivered.saturating_sub(snapshot.delivered);
        (!interval.is_zero()).then_some(RateSample {
            delivered,
            interval,
            app_limited: snapshot.delivered < snapshot.app_limited_until,
        })
    }

    /// Declares the packets lost that exceed a threshold, and sets the loss timer for the next one.
    /// The search ends at the first packet that exceeds none: packets that were sent later exceed
    /// none either.
    fn detect(
        &mut self,
        now: Instant,
        max_ack_delay: Duration,
        sink: &mut impl Sink<T>,
    ) -> LossSummary {
        self.loss_time = None;
        if self.sent_packets.packets_in_flight() == 0 {
            return LossSummary::default();
        }
        let held = now < self.held_until(max_ack_delay);
        let delay = self.reordering.delay(&self.rtt);
        let forget_at = now + self.rtt.pto(max_ack_delay).saturating_mul(2);
        let mut lost = LossSummary::default();
        let mut run = PersistentCongestion::default();
        while let Some(oldest) = self.sent_packets.oldest_in_flight() {
            let Oldest {
                position,
                packet,
                crossed_acked,
            } = oldest;
            let sent = packet.sent;
            let overtaken_by = self.acked_below.saturating_sub(position.saturating_add(1));
            if overtaken_by == 0 {
                break;
            }
            let by_packets = overtaken_by >= self.reordering.packets();
            let due = sent.sent_at + delay;
            if held && !self.was_exempted(sent.sent_at) || !(by_packets || due <= now) {
                self.loss_time = Some(if by_packets { now } else { due });
                break;
            }
            // A lost path probe was most likely too large: it is no sign of congestion.
            let fate = if sent.path_probe {
                PacketState::Dropped
            } else {
                PacketState::Lost
            };
            self.sent_packets.give_up(&packet, fate, forget_at);
            sink.lost(
                self.sent_packets.numbers(&packet),
                &self.sent_packets.carried(&packet),
            );
            if crossed_acked {
                run.interrupt();
            }
            let size = sent.size as usize;
            if sent.path_probe {
                lost.mtu_probe_lost = Some(lost.mtu_probe_lost.map_or(size, |s| s.min(size)));
                continue;
            }
            lost.bytes = lost.bytes.saturating_add(u64::from(sent.size));
            lost.packets = lost.packets.saturating_add(1);
            lost.largest_size = lost.largest_size.max(size);
            lost.largest_lost_sent_at = Some(sent.sent_at);
            if self
                .persistence_from
                .is_some_and(|from| sent.sent_at > from)
            {
                run.extend(sent.sent_at);
            }
        }
        if let Some(sent_at) = lost.largest_lost_sent_at {
            self.reordering.on_losses(now, sent_at);
        }
        lost.persistent = run.is_persistent(&self.rtt, max_ack_delay);
        lost
    }

    /// Makes room for one more control packet: gives up the oldest one. Its content is sent again
    /// if it is still valid; its late acknowledgement would say nothing more.
    fn abandon_oldest_control(&mut self, sink: &mut impl Sink<T>) {
        if let Some(oldest) = self.sent_packets.oldest_control() {
            sink.lost(
                self.sent_packets.numbers(&oldest),
                &self.sent_packets.carried(&oldest),
            );
            self.sent_packets.reset(&oldest);
        }
    }

    /// Gives up the packets in flight of at least `size` bytes, without a sign of congestion.
    fn drop_from(&mut self, size: usize, sink: &mut impl Sink<T>) {
        let forget_at = self.clock + self.rtt.pto(Duration::ZERO).saturating_mul(2);
        for sent_range in self.sent_packets.in_flight_from(size) {
            self.sent_packets
                .give_up(&sent_range, PacketState::Dropped, forget_at);
            sink.lost(
                self.sent_packets.numbers(&sent_range),
                &self.sent_packets.carried(&sent_range),
            );
        }
        // The oldest remaining packet determines the loss timer.
        let delay = self.reordering.delay(&self.rtt);
        self.loss_time = self
            .sent_packets
            .oldest_in_flight()
            .filter(|oldest| oldest.position < self.acked_below)
            .map(|oldest| oldest.packet.sent.sent_at + delay);
    }
}

#[cfg(test)]
mod tests;
