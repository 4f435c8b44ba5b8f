//! Building one packet.
//!
//! A packet carries, in this order: acknowledgement, credit, control frames, then messages until it
//! is full.

use super::{Cargo, FrameSink, Link, PADDING_LIMIT, PING_EVERY, Recorded, SentTrain};
use crate::ack::AckNeed;
use crate::limits::CONTROL_PACKET;
use crate::recovery::{Content, MAX_CONTROL, SentKind};
use crate::time::Instant;
use crate::train::Train;
use crate::types::PacketNumber;
use crate::wire::{Frame, Mode};
use core::ops::RangeInclusive;

/// Bytes of a PING frame, which any packet of messages may carry, too.
const PING: usize = 1;

/// Bytes kept free behind an ACK for BLOCKED, RETURN and PING of their usual sizes.
const BLOCKED_ROOM: usize = 40;

/// The permission to build the next packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Permit {
    pub(super) number: PacketNumber,
    /// Largest size in bytes.
    pub(super) size: usize,
    /// The packet may carry messages.
    pub(super) data: bool,
    /// The packet is within the limit of socket credit. It may carry control frames of any kind. A
    /// packet beyond the limit, in the reserve, may not.
    pub(super) within_limit: bool,
    /// Set if the packet carries messages only, because the packet before it in the train did
    /// ([`Link::permit_to_follow`]): the number of such packets that may follow this one.
    pub(super) more: Option<u64>,
}

/// A packet under construction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contents {
    pub(super) eliciting: bool,
    pub(super) data: bool,
    pub(super) path_probe: bool,
    /// It elicits an acknowledgement, and the congestion window does not limit it.
    pub(super) control: bool,
    /// It contains a PING.
    pub(super) ping: bool,
    /// It contains an acknowledgement.
    pub(super) acknowledges: bool,
    /// Some frames that wait did not fit into it.
    pub(super) leaves_some: bool,
    /// It contains messages, perhaps padding or a PING at its end, and no other frame. No other
    /// frame waited.
    pub(super) messages_only: bool,
}

/// Control frames on their way into a packet.
struct ControlFrames<'a, T> {
    size: usize,
    train: &'a mut Train,
    frames: &'a mut Vec<Recorded<T>>,
    contents: &'a mut Contents,
}

impl<T> FrameSink<T> for ControlFrames<'_, T> {
    fn put(&mut self, frame: Frame<'_>, sent: Option<Recorded<T>>) -> bool {
        if self.train.packet_len() + frame.size() > self.size {
            self.contents.leaves_some = true;
            return false;
        }
        self.contents.eliciting |= frame.is_eliciting();
        self.contents.ping |= matches!(frame, Frame::Ping);
        frame.put(self.train.head());
        self.frames.extend(sent);
        true
    }
}

impl<T: Content> Link<T> {
    /// Builds one packet and returns its length and content. Returns `None` and changes nothing if
    /// no frame was written.
    pub(super) fn build_packet(
        &mut self,
        now: Instant,
        permit: Permit,
        cargo: &mut impl Cargo<T>,
        train: &mut Train,
        frames: &mut Vec<Recorded<T>>,
    ) -> Option<(usize, Contents)> {
        let (mark, ping_due) = (self.ecn_mark(), self.pending.ping);
        train.begin_packet();
        self.write_header(permit.number, train);
        frames.clear();
        let mut contents = Contents::default();
        if permit.more.is_none() {
            self.write_ack_and_credit(now, permit, cargo, train, frames, &mut contents);
            self.write_control(now, permit, cargo, train, frames, &mut contents);
            contents.control = contents.eliciting && !permit.data;
        }
        let before_messages = train.packet_len();
        let mut closed = false;
        if permit.data {
            closed = cargo.write(permit.size, train, frames).closed;
            contents.data = train.packet_len() > before_messages;
            contents.eliciting |= contents.data;
        }
        // A PING that was to accompany messages is not sent without them.
        let lone_ping = permit.data && !contents.data && !ping_due;
        let overhead = self.overhead();
        let least = overhead + if lone_ping { PING } else { 0 };
        if train.packet_len() <= least {
            train.abort_packet();
            return None;
        }
        if !closed {
            self.ping_at_the_end(permit, cargo, train, &mut contents);
            pad(permit, cargo, train);
        }
        let len = train.finish_packet(!self.settings.payload_checksum);
        // A path that drops marked packets must not take the few numbers beyond the limit.
        if contents.eliciting && permit.within_limit {
            train.set_ecn(mark);
        }
        let numbers = permit.number..=permit.number;
        self.record(now, numbers, len, contents, frames, cargo);
        contents.leaves_some |= self.pending.small_ping;
        contents.messages_only = before_messages == overhead && !contents.leaves_some;
        Some((len, contents))
    }

    fn write_ack_and_credit(
        &mut self,
        now: Instant,
        permit: Permit,
        cargo: &mut impl Cargo<T>,
        train: &mut Train,
        frames: &mut Vec<Recorded<T>>,
        contents: &mut Contents,
    ) {
        let credit = cargo.take_credit(core::mem::take(&mut self.pending.credit));
        let mut room = permit.size.saturating_sub(train.packet_len());
        // The packet with CLOSE also acknowledges, since no packet of the session follows it.
        let closes = self.pending.close;
        let owed = self.received.ack_state(now) != AckNeed::None;
        if closes || owed {
            if self.credit.reserve_report_due(permit.number, now) && self.may_elicit() {
                // The CREDIT that answered our PING was lost, and the peer believes that we have
                // it. Soon not even acknowledgements could be sent, so repeat it.
                let pto = self.probe_timeout();
                self.credit.report_low_reserve(permit.number, now, pto);
                room = room.saturating_sub(BLOCKED_ROOM);
            }
            let written = self.received.write_ack(train.head(), now, room, credit);
            if let Some(largest) = written {
                contents.acknowledges = true;
                frames.push(Recorded::Ack { largest });
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
    fn write_control(
        &mut self,
        now: Instant,
        permit: Permit,
        cargo: &mut impl Cargo<T>,
        train: &mut Train,
        frames: &mut Vec<Recorded<T>>,
        contents: &mut Contents,
    ) {
        let closing = self.pending.close;
        let close = closing.then(|| cargo.close()).flatten();
        contents.leaves_some |= !permit.within_limit || (closing && close.is_none());
        if !permit.data && !self.may_elicit() {
            contents.leaves_some = true;
            return;
        }
        let room = permit.size.saturating_sub(train.packet_len());
        let last = permit.data && cargo.fits(room);
        if permit.data && !last && self.recovery.in_flight() == 0 {
            self.begin_exchange(cargo);
        }
        let ping = self.wants_ping(now, permit.number, permit.data, last);
        let mut packet = ControlFrames {
            size: permit.size,
            train,
            frames,
            contents,
        };
        if ping && packet.put(Frame::Ping, None) {
            self.pending.ping = false;
        }
        self.write_credit_frames(now, permit.data, || cargo.waiting(), &mut packet);
        if let Some(close) = close
            && packet.put(Frame::Close(close), Some(Recorded::Close))
        {
            self.pending.close = false;
        }
        for nonce in self.pending.take_responses_to(None) {
            if !packet.put(Frame::Response(nonce), None) {
                break;
            }
        }
        if permit.within_limit && !cargo.is_over() {
            self.write_mode(permit.data, &mut packet);
        }
        cargo.write_answers(permit.within_limit, &mut packet);
    }

    /// Writes MODE, if it is due. Unless the program chose the mode, it only goes with messages
    /// (`data`).
    fn write_mode(&mut self, data: bool, packet: &mut impl FrameSink<T>) {
        if let Some((number, mode)) = self.mode_due()
            && (data || self.mode_is_wished)
            && packet.put(
                Frame::Mode { number, mode },
                Some(Recorded::Mode { number }),
            )
        {
            self.modes.on_sent();
        }
    }

    /// Adds a PING if this packet is the last one of a long queue in Throughput mode, or if it is a
    /// control packet and half of the permitted control packets are in flight.
    fn ping_at_the_end(
        &self,
        permit: Permit,
        cargo: &mut impl Cargo<T>,
        train: &mut Train,
        contents: &mut Contents,
    ) {
        let many = self.since_ping >= (PING_EVERY * self.mtu.current() as u64) as i64;
        let seldom = self.modes.ours() == Mode::Throughput;
        let crowded = contents.control && self.recovery.control_in_flight() >= MAX_CONTROL / 2;
        let last = many && seldom && contents.data && !cargo.is_sendable();
        if (last || crowded) && train.packet_len() < permit.size {
            Frame::Ping.put(train.head());
            contents.ping = true;
        }
    }

    /// Records packets of `len` bytes each with consecutive `numbers` as sent. If there are
    /// several, `frames` is one part of a message, and each packet carried an equal piece of it.
    pub(super) fn record(
        &mut self,
        now: Instant,
        numbers: RangeInclusive<PacketNumber>,
        len: usize,
        contents: Contents,
        frames: &[Recorded<T>],
        cargo: &mut impl Cargo<T>,
    ) {
        let last = *numbers.end();
        let count = last.saturating_sub(*numbers.start()) + 1;
        let bytes = count.saturating_mul(len as u64);
        let kind = SentKind {
            eliciting: contents.eliciting,
            path_probe: contents.path_probe,
            control: contents.control,
        };
        self.recovery.on_sent(numbers, now, len, kind, frames);
        self.credit.on_sent(last, now, contents.eliciting);
        self.numbers.advance(count, || cargo.random());
        if contents.eliciting {
            let in_flight = self.recovery.in_flight();
            self.congestion.on_sent(now, bytes, in_flight);
            self.pending.probes = self.pending.probes.saturating_sub(1);
            self.pending.small_ping &= len > CONTROL_PACKET;
        }
        if contents.ping {
            self.since_ping = 0;
            self.pinged_at = Some(now);
        }
        if contents.data {
            self.pacer.consume(bytes);
            self.since_ping = self.since_ping.saturating_add_unsigned(bytes);
        }
        cargo.on_sent(
            now,
            &SentTrain {
                last,
                count,
                bytes,
                eliciting: contents.eliciting,
                data: contents.data,
                acknowledges: contents.acknowledges,
            },
        );
    }
}

/// Fills the packet up with padding if another of the same size can follow.
fn pad<T>(permit: Permit, cargo: &mut impl Cargo<T>, train: &mut Train) {
    let short = permit.size.saturating_sub(train.packet_len());
    if permit.data && (1..=PADDING_LIMIT).contains(&short) && cargo.is_sendable() {
        Frame::Padding(short).put(train.head());
    }
}
