//! Receiving packets: each frame is handled by itself, but packets that came together are recorded
//! once.
//!
//! Packets that arrive together (GRO) and follow one another under the next numbers are received as
//! one range. The first of them is processed frame by frame. Those behind it join its range as long
//! as they carry only messages: all checks (of sender, duplicates, credit) have the same result as
//! for the first. The state ends up as if the packets had come one after the other; the tests
//! compare both.

use super::{Consignee, DrainedKind, Link};
use crate::arrival::Arrival;
use crate::credit::SocketReturn;
use crate::limits::MIN_MTU;
use crate::recovery::{AckDelays, Content, Recovery};
use crate::time::Instant;
use crate::types::{PacketNumber, ProtocolError};
use crate::wire::{self, Close, ContiguousPackets, Credit, Frame, PacketPart};
use core::ops::RangeInclusive;
use std::net::SocketAddr;

/// The content of packets, beside the frames that the cargo took.
#[derive(Debug, Default)]
pub struct Heard {
    /// How many packets they were.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// They must be acknowledged.
    pub eliciting: bool,
    /// They carried a message, or a part of one.
    pub message: bool,
    /// They acknowledged bytes in flight.
    pub acked: bool,
    /// They acknowledged a CLOSE.
    pub close_acked: bool,
    /// The peer's CLOSE, and when the connection ceases to answer it.
    pub close: Option<(Close, Instant)>,
    /// Number of packets declared lost.
    pub lost: u32,
    /// Number of lost packets that arrived after all.
    pub spurious: u32,
    /// The peer's new address.
    pub moved: Option<SocketAddr>,
    /// They must be acknowledged at once: they held a PING, or the peer gave up its slot.
    ack_now: bool,
    /// They reported that messages wait for credit.
    blocked: bool,
    /// The source address, if that is not the address of the path.
    elsewhere: Option<SocketAddr>,
}

impl<T: Content> Link<T> {
    /// Takes the first of `packets`, a fresh and authentic one, and those that follow it and carry
    /// only messages. `is_newest`: no packet with a higher number came before.
    ///
    /// # Errors
    /// A breach of the protocol. The packets count as received all the same.
    pub fn receive<C: Consignee<T>>(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        is_newest: bool,
        packets: &mut ContiguousPackets<'_>,
        cargo: &mut C,
    ) -> (Heard, Result<(), ProtocolError>) {
        let elsewhere = !self.path.leads_to(&arrival.from);
        let mut heard = Heard {
            elsewhere: elsewhere.then_some(arrival.from),
            ..Heard::default()
        };
        let number = packets.number();
        let payload = packets.payload();
        let waiting = packets.rest().len();
        let overhead = self.overhead();
        // The packets that follow are as long as the first, or shorter.
        let outcome = match payload.len() + overhead > self.longest(number) {
            true => Err(ProtocolError::Limit("a datagram longer than agreed")),
            false => self.take_frames(now, arrival, number, payload, &mut heard, cargo),
        };
        let joins = waiting > 0 && is_newest && outcome.is_ok();
        if joins && self.may_join(arrival, &heard, cargo) {
            cargo.on_contiguous(packets);
        }
        let numbers = number..=packets.number();
        heard.packets = numbers.end() - numbers.start() + 1;
        heard.bytes = (payload.len() + overhead + waiting - packets.rest().len()) as u64;
        self.note_received(now, arrival, numbers, &heard, cargo);
        if outcome.is_ok()
            && let Some((_, until)) = &mut heard.close
        {
            *until = self.begin_draining(now, cargo.is_over());
        }
        (heard, outcome)
    }

    /// Acknowledges CLOSE at once. Forgets the packets in flight, which belonged to the session
    /// that is over. Returns the time until which the connection acknowledges repetitions (F20).
    fn begin_draining(&mut self, now: Instant, was_over: bool) -> Instant {
        self.received.force();
        let until = now + self.probe_timeout() * 3;
        if !was_over {
            let rtt = self.recovery.rtt().smoothed();
            let next = self.numbers.peek().unwrap_or(PacketNumber::MAX);
            self.recovery = Recovery::new(next, rtt);
        }
        until
    }

    /// Returns true if the packets behind one that had these effects may join its range.
    fn may_join(&self, arrival: &Arrival, heard: &Heard, cargo: &impl Consignee<T>) -> bool {
        let same_address = self.path.address() == arrival.from;
        let goes_on = heard.close.is_none() && !heard.close_acked && !cargo.is_over();
        heard.eliciting && goes_on && same_address
    }

    /// Updates the records for packets that were received together. Several packets are all
    /// ack-eliciting; a single one may not be.
    fn note_received(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        numbers: RangeInclusive<PacketNumber>,
        heard: &Heard,
        cargo: &mut impl Consignee<T>,
    ) {
        let (ecn, eliciting) = (arrival.ecn, heard.eliciting);
        self.received
            .on_packets(numbers.clone(), arrival.at, eliciting, ecn, now);
        if heard.ack_now {
            self.received.force();
        }
        self.answered |= heard.message;
        let kind = match (heard.message || heard.blocked, eliciting) {
            (true, _) => DrainedKind::Data,
            (false, true) => DrainedKind::Control,
            (false, false) => DrainedKind::Ack,
        };
        let rtt = self.recovery.rtt();
        let round_trip = rtt.has_sample().then(|| rtt.min());
        cargo.on_drained(now, arrival.at, numbers, kind, round_trip);
    }

    fn take_frames(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        packet: PacketNumber,
        payload: &[u8],
        heard: &mut Heard,
        cargo: &mut impl Consignee<T>,
    ) -> Result<(), ProtocolError> {
        let mut frames = wire::frames(payload);
        while !frames.is_empty() {
            if let Some(part) = frames.next_part() {
                self.take_messages(&part?, heard, cargo)?;
            } else if let Some(ack) = frames.next_ack() {
                self.on_ack(now, arrival.at, &ack?, heard, cargo)?;
            } else if let Some(frame) = frames.next() {
                let frame = frame?;
                heard.eliciting |= frame.is_eliciting();
                if !cargo.is_over() || is_allowed_while_draining(&frame) {
                    self.take_control(now, packet, &frame, heard, cargo)?;
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn take_messages(
        &mut self,
        part: &PacketPart<'_>,
        heard: &mut Heard,
        cargo: &mut impl Consignee<T>,
    ) -> Result<(), ProtocolError> {
        heard.eliciting = true;
        if cargo.is_over() {
            return Ok(());
        }
        heard.message = true;
        self.acks_ride = cargo.on_part(part)?;
        Ok(())
    }

    #[inline(never)]
    fn take_control<C: Consignee<T>>(
        &mut self,
        now: Instant,
        packet: PacketNumber,
        frame: &Frame<'_>,
        heard: &mut Heard,
        cargo: &mut C,
    ) -> Result<(), ProtocolError> {
        if let Some((extension, kind)) = frame.extension()
            && !self.supports(extension)
        {
            return Err(ProtocolError::UnknownFrame(kind));
        }
        match *frame {
            Frame::Padding(_) | Frame::Ack(_) | Frame::Frag(_) => {}
            Frame::Ping => heard.ack_now = true,
            Frame::Credit(credit) => self.on_credit(now, &credit, cargo),
            Frame::Reclaim { generation } => self.credit.on_reclaim(generation, now),
            Frame::Return {
                generation,
                highest,
                size,
            } => heard.ack_now |= self.on_return(now, generation, highest, size, cargo),
            Frame::Blocked(blocked) => {
                heard.blocked = true;
                self.pending.credit = true;
                cargo.on_blocked(now, packet, &blocked);
            }
            Frame::Close(close) => heard.close = Some((close, now)),
            Frame::Challenge(nonce) => self.pending.respond(nonce, heard.elsewhere),
            Frame::Response(nonce) => {
                let moved = self.on_response(now, nonce, cargo);
                heard.moved = moved.or(heard.moved);
            }
            Frame::Mode { number, mode } => {
                if self.modes.on_heard(number, mode) {
                    self.apply_peer_mode();
                    cargo.on_mode(mode);
                }
            }
            Frame::MaxChannel { .. }
            | Frame::ChannelBlocked { .. }
            | Frame::Rts(_)
            | Frame::Cts { .. }
            | Frame::Refuse { .. }
            | Frame::Suspend { .. }
            | Frame::Resume { .. }
            | Frame::Fin { .. }
            | Frame::MaxChannels { .. } => cargo.on_frame(frame)?,
        }
        Ok(())
    }

    #[inline(never)]
    fn on_ack(
        &mut self,
        now: Instant,
        arrived: Instant,
        ack: &wire::Ack<'_>,
        heard: &mut Heard,
        cargo: &mut impl Consignee<T>,
    ) -> Result<(), ProtocolError> {
        let delays = AckDelays {
            local: now.since(arrived),
            reported: ack.delay,
            max: self.params.max_ack_delay,
        };
        self.note_late(now, arrived);
        let in_flight = self.recovery.in_flight();
        let (recovery, mut fates) = self.fates(cargo);
        let summary = recovery.on_ack(now, delays, ack.ranges(), &mut fates)?;
        fates.settle();
        heard.close_acked |= fates.close_acked;
        heard.acked |= summary.newly_acked_bytes > 0;
        heard.spurious += summary.spurious;
        heard.lost += summary.lost.packets;
        if let Some(sealing) = &mut self.sealing
            && let Some(range) = ack.ranges().next()
        {
            sealing.on_acked(*range.end());
        }
        self.on_ack_summary(now, in_flight, &summary);
        cargo.on_ack(self.recovery.rtt().min());
        self.on_ecn_counts(now, ack.ecn.unwrap_or_default(), &summary);
        // The session that a draining connection's credit was for is over.
        if let Some(credit) = ack.credit
            && !cargo.is_over()
        {
            self.on_credit(now, &credit, cargo);
        }
        Ok(())
    }

    /// Handles a credit for the cargo.
    fn on_credit(&mut self, now: Instant, credit: &Credit, cargo: &mut impl Consignee<T>) {
        self.credit.on_grant(credit, now);
        if cargo.on_memory(credit.memory) {
            self.credit.on_memory();
        }
    }

    /// Handles RETURN: the peer gives credit back, and may bind its packets to a size. Returns true
    /// if it gave up its slot: it gets an acknowledgement, and then nothing more.
    fn on_return(
        &mut self,
        now: Instant,
        generation: u64,
        highest: PacketNumber,
        size: u64,
        cargo: &mut impl Consignee<T>,
    ) -> bool {
        let size = match usize::try_from(size) {
            Ok(0) => 0,
            size => size.unwrap_or(usize::MAX).max(MIN_MTU),
        };
        let is_bound = size > 0 && self.bounds.admit(size, self.params.max_datagram);
        let answer = SocketReturn {
            generation,
            highest,
            size: if is_bound { size } else { 0 },
        };
        let returned = cargo.on_return(now, answer);
        if is_bound && let Some(allowed) = returned.allowed {
            // Packets that the grant allows may be under way with the size before, and no others.
            self.bounds.add(highest.min(allowed), size);
        }
        returned.is_over
    }

    /// Handles RESPONSE: if it answers our challenge of a new address, the path moves there.
    /// Measurements of the old path, and packets still under way to it, do not apply to the new one
    /// (RFC 9000 9.4). Returns the new address.
    fn on_response<C: Consignee<T>>(
        &mut self,
        now: Instant,
        nonce: u64,
        cargo: &mut C,
    ) -> Option<SocketAddr> {
        let from = self.path.address();
        let round_trip = self.path.on_response(nonce, now)?;
        let to = self.path.address();
        let route = cargo.on_moved(now, from, to);
        self.begin_on_known(route, now);
        self.drop_all(cargo);
        self.on_moved(round_trip);
        Some(to)
    }
}

/// Returns true if a frame still means something on a connection whose session is over.
const fn is_allowed_while_draining(frame: &Frame<'_>) -> bool {
    matches!(frame, Frame::Ping | Frame::Close(_) | Frame::Challenge(_))
}
