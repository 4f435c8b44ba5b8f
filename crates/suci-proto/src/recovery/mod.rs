//! Loss recovery of one connection's packets: who was acknowledged, who is lost, when to probe.
//!
//! RFC 9002 with one packet number space, reordering thresholds that learn (RFC 8985), and a
//! pause of the whole process told from loss. Congestion control and retransmission are the
//! caller's: this part says what happened, in an [`AckSummary`] or [`LossSummary`] and through
//! a [`Sink`]. It keeps no clock; `now` never runs backwards from call to call.

mod loss;
mod pto;
mod report;
mod rtt;
mod sent;

pub use loss::{MAX_PACKET_THRESHOLD, MIN_PACKET_THRESHOLD};
pub use pto::MAX_BACKOFF;
pub use report::{AckSummary, LossSummary, RateSample, Sink, TimerAction};
pub use rtt::{AckWaits, GRANULARITY, Rtt};
pub use sent::{MAX_CONTROL, MAX_REMEMBERED, MAX_SILENT, SentFrame, SentKind};

use crate::time::{Duration, Instant};
use crate::types::{PacketNumber, ProtocolError};
use core::ops::RangeInclusive;
use loss::{LossRun, Reordering};
use pto::Pto;
use sent::{Oldest, PacketState, RateMark, Sent, SentPackets, SentRange};

/// Loss recovery for the packets of one direction of one connection.
#[derive(Debug)]
pub struct Recovery {
    sent_packets: SentPackets,
    rtt: Rtt,
    reordering: Reordering,
    pto: Pto,
    /// Largest position acknowledged, plus one.
    acked_below: u64,
    /// When the oldest packet that was overtaken counts as lost.
    loss_time: Option<Instant>,
    /// When the process last came back from a pause it did not choose.
    resumed_at: Option<Instant>,
    /// When the first of those pauses ended that count as one: they follow one another within a
    /// probe timeout, and the first that ends two timeouts later, or more, begins anew.
    held_since: Instant,
    /// What was sent before that was spared over a pause already.
    spared: Option<Instant>,
    /// Packets sent until here prove no persistent congestion: no round trip was measured yet,
    /// or the process stood still.
    persistence_from: Option<Instant>,
    delivery: RateMark,
    /// The last `now` seen.
    clock: Instant,
}

impl Recovery {
    /// For a connection whose first packet will be `first` or a little more.
    /// `initial_rtt` stands for the round trip until one is measured.
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
            spared: None,
            persistence_from: None,
            delivery: RateMark {
                delivered: 0,
                delivered_at: Instant::ZERO,
                first_sent_at: Instant::ZERO,
                app_limited_until: 0,
            },
            clock: Instant::ZERO,
        }
    }

    /// Records packets of `size` bytes each that were handed to the network under consecutive
    /// `numbers`. They are above every earlier one, else nothing is recorded; the numbers between
    /// are skipped ones, whose acknowledgement is an error. Each of them takes memory: skip few.
    ///
    /// If the packets are several, each carried an equal piece of the part of a message that
    /// `frames` consists of. They cost as much as one.
    pub fn on_sent(
        &mut self,
        numbers: RangeInclusive<PacketNumber>,
        now: Instant,
        size: usize,
        kind: SentKind,
        frames: &[SentFrame],
    ) {
        self.clock = now;
        if self.sent_packets.flying() == 0 {
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

    /// Applies an acknowledgement: `ranges` inclusive and descending. Numbers resolved long ago may
    /// be named again without effect.
    ///
    /// Costs a few steps per range and one for each 64 packets in it that are remembered, however
    /// often they are repeated (F06), plus O(1) for packets newly acknowledged that were sent as
    /// one run, and per packet newly lost.
    ///
    /// # Errors
    /// [`ProtocolError::NeverSent`] if a range names a number not sent yet or skipped (F05);
    /// nothing was applied then.
    pub fn on_ack(
        &mut self,
        now: Instant,
        waits: AckWaits,
        ranges: impl Iterator<Item = RangeInclusive<PacketNumber>> + Clone,
        sink: &mut impl Sink,
    ) -> Result<AckSummary, ProtocolError> {
        let mut summary = AckSummary::default();
        let Some(largest) = self.sent_packets.check(ranges.clone())? else {
            return Ok(summary);
        };
        self.clock = now;
        // The newest packets among those newly acknowledged, as they were, and whether any of them
        // was eliciting.
        let mut newest: Option<SentRange> = None;
        let mut eliciting = false;
        for range in ranges {
            let Some((mut from, through)) = self.sent_packets.positions(&range) else {
                continue;
            };
            while let Some(sent_range) = self.sent_packets.next_open(from, through) {
                from = sent_range.positions.end;
                self.acknowledge(&sent_range, sink);
                if sent_range.fate != PacketState::Silent {
                    eliciting = true;
                    self.note_delivered(now, waits.here, &sent_range, &mut summary);
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
            if self.is_measurable(&newest) {
                let is_largest = newest.positions.end == largest.saturating_add(1);
                if is_largest {
                    summary.path_sample = self.measure(now, sent_at, waits);
                }
                summary.rate = self.measure_rate(now, &newest.sent);
            }
        }
        summary.lost = self.detect(now, waits.announced, sink);
        self.sent_packets.expire(now);
        Ok(summary)
    }

    /// Handles whichever of the loss timer and the probe timer is due; harmless if none is.
    ///
    /// A probe finds a place among the [`MAX_CONTROL`]: if there is none, the oldest of them is
    /// given up, which is no sign of congestion.
    pub fn on_timeout(
        &mut self,
        now: Instant,
        max_ack_delay: Duration,
        sink: &mut impl Sink,
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

    /// Reports to `sink` as lost what the oldest `packets` packets in flight carried, without
    /// taking them for lost: probes repeat it (RFC 9002 6.2.4). If nothing but these is missing,
    /// the probe itself brings it; a PING would have to come back first. O(window).
    pub fn repeat_oldest(&self, packets: u32, sink: &mut impl Sink) {
        for packet in self.sent_packets.carriers().take(packets as usize) {
            sink.lost(
                self.sent_packets.numbers(&packet),
                &self.sent_packets.carried(&packet),
            );
        }
    }

    /// When [`on_timeout`](Self::on_timeout) has something to do, unless an ack comes first.
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
        let spared = || {
            self.sent_packets
                .oldest_sent_at()
                .is_some_and(|at| self.was_spared(at))
        };
        Some(if deadline >= held || spared() {
            deadline
        } else {
            held
        })
    }

    /// Bytes of the eliciting packets neither acknowledged nor lost.
    #[must_use]
    pub const fn in_flight(&self) -> u64 {
        self.sent_packets.in_flight()
    }

    /// Whether anything is in flight.
    #[must_use]
    pub const fn has_eliciting_in_flight(&self) -> bool {
        self.sent_packets.flying() > 0
    }

    /// Packets in flight that went beside the congestion window.
    #[must_use]
    pub const fn control_in_flight(&self) -> u64 {
        self.sent_packets.control()
    }

    /// Sending stopped for want of messages or credit: until what is in flight now is delivered,
    /// the rate of delivery says little about the path.
    pub fn on_app_limited(&mut self) {
        let until = self.delivery.delivered.saturating_add(self.in_flight());
        // Also if nothing is in flight: what is sent next is sent into an idle path.
        self.delivery.app_limited_until = until.max(self.delivery.delivered.saturating_add(1));
    }

    /// Bytes of eliciting packets that the peer acknowledged so far.
    #[must_use]
    pub const fn delivered(&self) -> u64 {
        self.delivery.delivered
    }

    /// The handshake measured a round trip: it stands until packets measure another.
    pub fn set_initial_rtt(&mut self, initial: Duration) {
        if !self.rtt.has_sample() {
            self.rtt = Rtt::new(initial);
        }
    }

    /// How many packets were declared lost that may still arrive: they are remembered for two probe
    /// timeouts.
    #[must_use]
    pub const fn doubtful(&self) -> u64 {
        self.sent_packets.doubtful()
    }

    /// How many packets were declared lost so far and did not arrive within that time. Only rises.
    #[must_use]
    pub const fn confirmed(&self) -> u64 {
        self.sent_packets.confirmed()
    }

    /// The round-trip time.
    #[must_use]
    pub const fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// How often the probe timer fired since the last acknowledgement.
    #[must_use]
    pub const fn pto_count(&self) -> u32 {
        self.pto.count()
    }

    /// Everything in flight counts as lost, without any sign of congestion: the connection
    /// was replaced or the path changed. Late acknowledgements are still recognised, but
    /// measure nothing. O(window).
    pub fn drop_all(&mut self, sink: &mut impl Sink) {
        self.drop_from(0, sink);
        self.pto.on_progress(self.clock);
    }

    /// What was learned belongs to a path that is no longer used (RFC 9000 9.4): the round trip
    /// and the reordering are learned anew. Usually together with [`drop_all`](Self::drop_all),
    /// so that packets of the old path measure nothing.
    pub fn on_path_changed(&mut self, initial_rtt: Duration) {
        self.rtt = Rtt::new(initial_rtt);
        self.reordering = Reordering::new();
        self.persistence_from = None;
    }

    /// The same for the packets of more than `size` bytes: the path refused them. O(window).
    pub fn drop_larger_than(&mut self, size: usize, sink: &mut impl Sink) {
        self.drop_from(size.saturating_add(1), sink);
    }

    /// The driver found that much time passed without the engine being run (SIGSTOP, a paused
    /// machine). Acknowledgements of what was in flight may wait in the socket: nothing of it is
    /// declared lost, and no probe is due for it, until one probe timeout after `now` (F16). Once:
    /// a program that is here only now and then is always late, and has heard each time what had
    /// come. Pauses within a timeout of one another are one, for two timeouts at most.
    pub fn on_resumed_after_gap(&mut self, now: Instant, max_ack_delay: Duration) {
        let longest = self.rtt.pto(max_ack_delay).saturating_mul(2);
        if now >= self.held_until(max_ack_delay) {
            self.spared = self.resumed_at;
            self.held_since = now;
        } else if now >= self.held_since + longest {
            self.spared = Some(self.held_since);
            self.held_since = now;
        }
        self.resumed_at = Some(now);
        self.persistence_from = self.persistence_from.max(Some(now));
    }

    /// Forgets what nobody waits for, and gives its memory back; false if something is in flight.
    /// Late acknowledgements of what was lost are not recognised any more, and packets that call
    /// for none count as told.
    pub(crate) fn shrink(&mut self) -> bool {
        self.spared = None;
        self.sent_packets.shrink()
    }

    /// Checks that what is remembered stays within its bounds.
    ///
    /// # Errors
    /// What does not, in words.
    pub fn audit(&self) -> Result<(), String> {
        self.sent_packets.audit()
    }

    /// Flights that take memory.
    #[cfg(test)]
    pub(crate) fn flights(&self) -> usize {
        self.sent_packets.flights()
    }

    /// Whether what was sent then has been spared over a pause before the last.
    fn was_spared(&self, sent_at: Instant) -> bool {
        self.spared.is_some_and(|until| sent_at < until)
    }

    /// Until when nothing is declared because the process stood still.
    fn held_until(&self, max_ack_delay: Duration) -> Instant {
        self.resumed_at.map_or(Instant::ZERO, |resumed| {
            resumed + self.rtt.pto(max_ack_delay)
        })
    }

    /// Settles packets that the peer has.
    fn acknowledge(&mut self, sent_range: &SentRange, sink: &mut impl Sink) {
        self.sent_packets.acknowledge(sent_range);
        sink.acked(
            self.sent_packets.numbers(sent_range),
            &self.sent_packets.carried(sent_range),
        );
    }

    /// Eliciting packets arrived.
    #[inline]
    fn note_delivered(
        &mut self,
        now: Instant,
        here: Duration,
        sent_range: &SentRange,
        summary: &mut AckSummary,
    ) {
        let bytes = sent_range.bytes();
        self.delivery.delivered = self.delivery.delivered.saturating_add(bytes);
        self.delivery.delivered_at = now;
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
                let took = now.since(sent_range.sent.sent_at).saturating_sub(here);
                for position in sent_range.positions.clone() {
                    let distance = self.acked_below.saturating_sub(position.saturating_add(1));
                    self.reordering.on_spurious(took, distance, &self.rtt);
                }
            }
            _ => {}
        }
    }

    /// Whether a packet's flight says something about the path as it is: not if this process
    /// stood still meanwhile, nor if the path was given up.
    fn is_measurable(&self, packet: &SentRange) -> bool {
        let paused = self
            .resumed_at
            .is_some_and(|resumed| packet.sent.sent_at < resumed);
        !paused && packet.fate != PacketState::Dropped
    }

    /// Takes the round trip of the largest packet acknowledged.
    fn measure(&mut self, now: Instant, sent_at: Instant, waits: AckWaits) -> Option<Duration> {
        if self.persistence_from.is_none() {
            self.persistence_from = Some(now);
        }
        self.rtt.update(now.since(sent_at), waits)
    }

    /// Delivery rate over the flight of the newest packet acknowledged
    /// (draft-ietf-ccwg-bbr section 4.1.1): the slower of sending and acknowledging it counts.
    fn measure_rate(&mut self, now: Instant, newest: &Sent) -> Option<RateSample> {
        let mark = newest.rate;
        self.delivery.first_sent_at = self.delivery.first_sent_at.max(newest.sent_at);
        let nanos = |to: Instant, from: Instant| to.as_nanos().saturating_sub(from.as_nanos());
        let sending = nanos(newest.sent_at, mark.first_sent_at);
        let interval = Duration::from_nanos(sending.max(nanos(now, mark.delivered_at)));
        let delivered = self.delivery.delivered.saturating_sub(mark.delivered);
        (!interval.is_zero()).then_some(RateSample {
            delivered,
            interval,
            app_limited: mark.delivered < mark.app_limited_until,
        })
    }

    /// Declares lost what the thresholds say and sets the loss timer for what comes next. The
    /// first packet that is spared ends the search: both thresholds fall with age.
    fn detect(
        &mut self,
        now: Instant,
        max_ack_delay: Duration,
        sink: &mut impl Sink,
    ) -> LossSummary {
        self.loss_time = None;
        if self.sent_packets.flying() == 0 {
            return LossSummary::default();
        }
        let held = now < self.held_until(max_ack_delay);
        let delay = self.reordering.delay(&self.rtt);
        let forget_at = now + self.rtt.pto(max_ack_delay).saturating_mul(2);
        let mut lost = LossSummary::default();
        let mut run = LossRun::default();
        while let Some(oldest) = self.sent_packets.oldest_flying() {
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
            if held && !self.was_spared(sent.sent_at) || !(by_packets || due <= now) {
                self.loss_time = Some(if by_packets { now } else { due });
                break;
            }
            // A probe that is missing was too large, most likely.
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

    /// Makes room for a packet with control. What the oldest one carried is sent again, if it is
    /// still true; an acknowledgement of it that comes after all would tell nothing else.
    fn abandon_oldest_control(&mut self, sink: &mut impl Sink) {
        if let Some(oldest) = self.sent_packets.oldest_control() {
            sink.lost(
                self.sent_packets.numbers(&oldest),
                &self.sent_packets.carried(&oldest),
            );
            self.sent_packets.reset(&oldest);
        }
    }

    /// Gives up packets in flight of at least `size` bytes without blaming the network.
    fn drop_from(&mut self, size: usize, sink: &mut impl Sink) {
        let forget_at = self.clock + self.rtt.pto(Duration::ZERO).saturating_mul(2);
        for sent_range in self.sent_packets.flying_from(size) {
            self.sent_packets
                .give_up(&sent_range, PacketState::Dropped, forget_at);
            sink.lost(
                self.sent_packets.numbers(&sent_range),
                &self.sent_packets.carried(&sent_range),
            );
        }
        // Whoever is oldest now has its own time to be overtaken.
        let delay = self.reordering.delay(&self.rtt);
        self.loss_time = self
            .sent_packets
            .oldest_flying()
            .filter(|oldest| oldest.position < self.acked_below)
            .map(|oldest| oldest.packet.sent.sent_at + delay);
    }
}

#[cfg(test)]
mod tests;
