//! Building packets: selects the content of the next packet, and decides whether it may be sent.
//!
//! A packet carries, in this order: acknowledgement, credit, control frames, then messages until it
//! is full. Messages are limited by the congestion window, the pacer, socket credit, the program's
//! steering function and its rate cap; the outbox itself applies memory credit. Control frames need
//! socket credit, which has a reserve for them. Ack-eliciting packets without messages are also
//! bounded in number ([`Connection::may_elicit`]).

mod control;
mod data;
mod pieces;
mod special;

use super::connected::Connected;
use super::mode::SHORT;
use super::{Connection, Peer};
use crate::credit::ControlAllowance;
use crate::engine::Shared;
use core::ops::RangeInclusive;
pub(super) use data::write_data;
use suci_channels::waits::WaitReason;
use suci_link::limits;
use suci_link::link::PacketKind;
use suci_link::recovery::{SentFrame, SentKind};
use suci_link::time::{Duration, Instant, nanos};
use suci_link::train::Train;
use suci_link::types::{Ecn, PacketNumber};
use suci_link::wire::{Mode, PLAIN_OVERHEAD};

/// Bytes of a PING frame, which any packet of messages may carry, too.
const PING: usize = 1;

/// Usual bytes of a packet of messages besides their payload: packet header, PING, and the head of
/// a frame.
pub(super) const OVERHEAD: usize = PLAIN_OVERHEAD + PING + 16;

/// A queue of more bytes than this counts as long, however large the window is.
const LONG_QUEUE: u64 = 1 << 20;

/// Longest time of a train on the wire at the pacing rate: no packet can overtake a train that the
/// socket has taken. At higher rates a train reaches its largest number of packets or bytes first.
const TRAIN: Duration = Duration::from_micros(50);

/// The same if urgent data may follow: the peer prefers response, or a higher class is in use.
const SHORT_TRAIN: Duration = Duration::from_micros(25);

/// Packets that a train may have at any pacing rate, however low.
const SHORTEST_TRAIN: usize = 2;

/// Packets of the window (at most an eighth of it) and of the pacer's budget that a class leaves to
/// higher classes on the same connection.
const RESERVE: u64 = 2;

/// Bytes of frames that an INIT carries at most. With its own fields the INIT stays below
/// [`limits::MIN_MTU`].
const MAX_RIDING: usize = 900;

/// The result of [`Peer::build`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Built {
    /// No packet may be sent now.
    Nothing,
    /// A train, and more may follow it.
    Train,
    /// A train that carries everything that waited.
    Last,
}

/// The permission to build the next packet.
#[derive(Clone, Copy, Debug)]
struct Permit {
    number: PacketNumber,
    /// Largest size in bytes.
    size: usize,
    /// The packet may carry messages.
    data: bool,
    /// The packet is within the limit of socket credit. It may carry control frames of any kind. A
    /// packet beyond the limit, in the reserve, may not.
    within_limit: bool,
    /// Set if the packet carries messages only, because the packet before it in the train did
    /// ([`Connected::permit_to_follow`]): the number of such packets that may follow this one.
    more: Option<u64>,
}

/// The newest packet of a train.
#[derive(Clone, Copy, Debug)]
struct Newest {
    /// Its length in bytes. The packets behind it have the same length, except the last.
    len: usize,
    /// As [`Contents::messages_only`].
    messages_only: bool,
    /// The number of packets with messages only that may follow it. `None` until
    /// [`Connected::permit_to_follow`] has counted them.
    more: Option<u64>,
}

/// A packet under construction.
#[derive(Clone, Copy, Debug, Default)]
struct Contents {
    eliciting: bool,
    data: bool,
    path_probe: bool,
    /// It elicits an acknowledgement, and the congestion window does not limit it.
    control: bool,
    /// It contains a PING.
    ping: bool,
    /// Some frames that wait did not fit into it.
    leaves_some: bool,
    /// It contains messages, perhaps padding or a PING at its end, and no other frame. No other
    /// frame waited.
    messages_only: bool,
}

impl Peer {
    /// Fills `train` with packets for this peer: at most `max_segments`, fewer if the peer is
    /// `outranked` by others. If no packet may be sent or nothing is left, [`Peer::deadline`] is
    /// the time at which that may change.
    pub(crate) fn build(
        &mut self,
        now: Instant,
        max_segments: usize,
        outranked: bool,
        train: &mut Train,
        shared: &mut Shared,
    ) -> Built {
        let mut built = self.build_train(now, max_segments, outranked, train, shared);
        if let Some(connection) = &mut self.connection
            && let Some(sealing) = &mut connection.link.sealing
        {
            train.seal(sealing);
        }
        let over = |connection: &Connection| connection.grant.is_over();
        if self.connection.as_deref().is_some_and(over) && self.lingering.is_none() {
            match built {
                Built::Nothing => self.give_up_slot(now, shared),
                Built::Train | Built::Last => built = Built::Train,
            }
        }
        // After `Built::Train` the caller comes again, unless the socket is full. So an empty queue
        // is noted at once: its messages wait no more.
        if built != Built::Train || self.session.outbox.is_empty() {
            let reason = self.wait_reason(now);
            self.waits.note(now, reason);
            shared.found_waiting |= self.is_held_up();
        }
        if built == Built::Last {
            // The packets just built may await an answer.
            let waiting = self.is_waiting();
            self.life.set_waiting(now, waiting);
        }
        built
    }

    fn build_train(
        &mut self,
        now: Instant,
        max_segments: usize,
        outranked: bool,
        train: &mut Train,
        shared: &mut Shared,
    ) -> Built {
        self.expire_messages(now, shared);
        self.advance_closing(now, shared);
        self.renew_memory(shared);
        let waiting = self.is_waiting();
        self.life.set_waiting(now, waiting);
        if let Some(mut connected) = self.connected() {
            connected.connection.link.control_at = None;
            connected
                .connection
                .link
                .prepare_keys(now, || shared.config.phase_limit());
            if connected.build_path_validation(now, train, shared)
                || connected.build_path_probe(now, train, shared)
            {
                return Built::Train;
            }
        }
        self.replace_if_used_up(now, shared);
        self.update_mode(now);
        let Some(mut connected) = self.connected() else {
            return Built::Nothing;
        };
        connected.begin(now, train);
        let filled = connected.fill(now, max_segments, outranked, train, shared);
        let last = filled && !connected.has_more_by_itself(now);
        shared.counters.payload_copied += train.copied();
        connected.note_blocked(now);
        match train.segments() {
            0 => Built::Nothing,
            _ if last => Built::Last,
            _ => Built::Train,
        }
    }

    /// Opens a new connection of the same session if the packet numbers are used up (they never
    /// wrap, F15), or if packets are bound to a size that is in doubt.
    fn replace_if_used_up(&mut self, now: Instant, shared: &mut Shared) {
        let used_up = self
            .connection
            .as_ref()
            .is_some_and(|c| c.link.numbers.peek().is_none() || c.link.doubts_size(now));
        if used_up && self.lingering.is_none() {
            let token = shared.random();
            self.open(now, token);
        }
    }

    /// Updates the mode of the traffic, and announces a change to the peer.
    fn update_mode(&mut self, now: Instant) {
        if let Some(connection) = &mut self.connection {
            let window = connection.link.congestion.window();
            let queued = self.session.outbox.queued().open().bytes;
            self.classifier
                .on_queue(now, queued > window.min(LONG_QUEUE));
            if queued > SHORT * connection.link.mtu.current() as u64 {
                self.classifier.on_long_message();
            }
        }
        let (mode, wished) = (self.mode(), self.options.mode != Mode::Adaptive);
        if let Some(connection) = &mut self.connection
            && connection.link.modes.set_ours(mode)
        {
            connection.link.mode_is_wished = wished;
        }
    }

    /// Returns the limit that stops all messages; `None` if none waits, or if a new connection is
    /// due.
    fn wait_reason(&mut self, now: Instant) -> Option<WaitReason> {
        if self.session.outbox.is_empty() {
            return None;
        }
        match self.connected() {
            Some(mut connected) => connected.data_permit(now).err().flatten(),
            None => Some(WaitReason::Link),
        }
    }

    /// Returns true if messages wait for something that the program need not do: an answer of the
    /// peer, a timer or room in the socket.
    pub(crate) fn is_held_up(&self) -> bool {
        let reason = self.waits.reason();
        reason.is_some_and(|reason| reason != WaitReason::Suspended)
    }
}

impl Connected<'_> {
    /// Begins a train on the path, and forgets the limits of the one before.
    fn begin(&mut self, now: Instant, train: &mut Train) {
        let connection = &mut *self.connection;
        connection.link.bind_size(now);
        if let Some(until) = connection.link.paced_until {
            connection.link.note_late(now, until);
            connection.link.paced_until = None;
        }
        connection.link.capped_until = None;
        connection.link.reserve = 0;
        connection
            .link
            .begin_train(connection.link.destination(), Ecn::NotEct, train);
    }

    /// Fills `train` with as many packets of one size as may be sent. Returns true if nothing is
    /// left that could be sent later.
    fn fill(
        &mut self,
        now: Instant,
        max_segments: usize,
        outranked: bool,
        train: &mut Train,
        shared: &mut Shared,
    ) -> bool {
        let mut newest: Option<Newest> = None;
        let mut most = max_segments;
        let mut last = false;
        while train.segments() < most {
            // Most trains have one packet, for which this bound is not needed.
            if train.segments() == 1 {
                most = most.min(self.train_packets(now, outranked));
            }
            let follow = newest.and_then(|newest| self.permit_to_follow(now, newest));
            if let (Some(newest), Some(follow)) = (&mut newest, follow)
                && let Some(more) = self.build_pieces(now, follow, most, train, shared)
            {
                newest.more = Some(more);
                continue;
            }
            let mut permit = match follow.map_or_else(|| self.permit(now), Ok) {
                Ok(permit) => permit,
                Err(wait) => {
                    // Messages that wait for memory credit are reported in a later packet.
                    last = wait.is_none();
                    break;
                }
            };
            if let Some(Newest { len, .. }) = newest {
                if permit.size < len || (train.segments() + 1) * len > limits::MAX_DATAGRAM {
                    break;
                }
                permit.size = len;
            }
            let Some((len, contents)) = self.build_packet(now, permit, train, shared) else {
                break;
            };
            debug_assert!(
                len <= permit.size,
                "{len} bytes in a packet of {}",
                permit.size
            );
            if len < permit.size {
                // A shorter packet ends its train.
                last = !contents.leaves_some
                    && !self.wants_data()
                    && self.session.outbox.wait_reason().is_none();
                debug_assert!(!last || !self.wants_control(now), "{contents:?}");
                break;
            }
            newest = Some(Newest {
                len,
                messages_only: contents.messages_only,
                more: permit.more,
            });
        }
        last
    }

    /// Returns true if the packets just built require another train, for which no timer is set: a
    /// path probe, which is sent only while packets are in flight, or the handshake of a new
    /// connection if the packet numbers are used up.
    fn has_more_by_itself(&self, now: Instant) -> bool {
        self.path_probe_due(now).is_some() || self.connection.link.numbers.peek().is_none()
    }

    /// Returns the maximum number of packets in a train.
    fn train_packets(&mut self, now: Instant, outranked: bool) -> usize {
        let sendable = self.session.outbox.has_sendable();
        let outranked = outranked || (sendable && self.session.outbox.is_outranked());
        let connection = &*self.connection;
        let Some(rate) = connection
            .link
            .rate(now, connection.link.mtu.current() as u64)
        else {
            return limits::MAX_SEGMENTS;
        };
        let urgent = outranked || connection.link.modes.ours() == Mode::Response;
        let time = if urgent { SHORT_TRAIN } else { TRAIN };
        let bytes = rate.saturating_mul(nanos(time)) / 1_000_000_000;
        let packets = bytes / connection.link.mtu.current() as u64;
        usize::try_from(packets)
            .unwrap_or(usize::MAX)
            .max(SHORTEST_TRAIN)
    }

    /// Returns true if messages can be sent, as far as memory credit goes.
    fn wants_data(&mut self) -> bool {
        self.carries_data && self.session.outbox.has_sendable()
    }

    /// Decides about the next packet: returns its permit, or the limit for which messages or
    /// control frames wait. The limit is `None` if there is nothing to send.
    fn permit(&mut self, now: Instant) -> Result<Permit, Option<WaitReason>> {
        let pending = &self.connection.link.pending;
        if pending.small_ping
            && pending.probes <= 1
            && let Some(permit) = self.control_permit(now)
        {
            return Ok(Permit {
                size: limits::CONTROL_PACKET,
                ..permit
            });
        }
        match self.data_permit(now) {
            Err(wait) if self.wants_control(now) => {
                let wait = wait.unwrap_or(WaitReason::SocketCredit);
                self.control_permit(now).ok_or(Some(wait))
            }
            decided => decided,
        }
    }

    /// Returns the permit of a packet that carries messages, or the first limit that stops all of
    /// them: `None` if no message waits, or if a new connection is due.
    fn data_permit(&mut self, now: Instant) -> Result<Permit, Option<WaitReason>> {
        if self.session.outbox.is_empty() {
            return Err(None);
        }
        if !self.is_up {
            return Err(Some(WaitReason::Link));
        }
        if !self.carries_data {
            return Err(Some(WaitReason::Suspended));
        }
        if !self.session.outbox.has_sendable() {
            return Err(self.session.outbox.wait_reason());
        }
        let connection = &mut *self.connection;
        if connection.grant.is_dismissed() {
            return Err(Some(WaitReason::Link));
        }
        let number = connection.link.numbers.peek().ok_or(None)?;
        if !connection.link.credit.may_send_data(number, now) {
            return Err(Some(WaitReason::SocketCredit));
        }
        let size = connection.link.mtu.current();
        connection.link.reserve = match self.session.outbox.is_outranked() {
            true => RESERVE * size as u64,
            false => 0,
        };
        connection
            .link
            .may_send(now, size as u64)
            .map_err(|held| Some(held.into()))?;
        connection.link.capped_until = self.cap.until(now, size as u64);
        if connection.link.capped_until.is_some() {
            return Err(Some(WaitReason::Cap));
        }
        Ok(Permit {
            number,
            size,
            data: true,
            within_limit: true,
            more: None,
        })
    }

    /// Returns the permit of a packet of control frames, if socket credit allows it.
    fn control_permit(&mut self, now: Instant) -> Option<Permit> {
        let connection = &mut *self.connection;
        let number = connection.link.numbers.peek()?;
        let memory_due = || connection.memory_due(&self.session.inbox, self.is_over);
        let (size, within_limit) = match connection.link.credit.may_send_control(number, now) {
            ControlAllowance::WithinLimit => (connection.link.mtu.current(), true),
            ControlAllowance::Reserve if connection.wants_reserve(now) || memory_due() => {
                (limits::CONTROL_PACKET, false)
            }
            ControlAllowance::Reserve => return None,
            ControlAllowance::NotBefore(until) => {
                connection.link.control_at = Some(until);
                return None;
            }
        };
        Some(Permit {
            number,
            size,
            data: false,
            within_limit,
            more: None,
        })
    }

    /// Builds one packet and returns its length and content. Returns `None` and changes nothing if
    /// no frame was written.
    fn build_packet(
        &mut self,
        now: Instant,
        permit: Permit,
        train: &mut Train,
        shared: &mut Shared,
    ) -> Option<(usize, Contents)> {
        let connection = &*self.connection;
        let (mark, ping_due) = (connection.link.ecn_mark(), connection.link.pending.ping);
        train.begin_packet();
        connection.link.write_header(permit.number, train);
        let mut frames = core::mem::take(&mut shared.frames);
        frames.clear();
        let mut contents = Contents::default();
        if permit.more.is_none() {
            self.write_ack_and_credit(now, permit, train, &mut frames, &mut contents);
            self.write_control(now, permit, train, &mut frames, &mut contents, shared);
            contents.control = contents.eliciting && !permit.data;
        }
        let before_messages = train.packet_len();
        let mut closed = false;
        if permit.data {
            let written = write_data(&mut self.session.outbox, permit.size, train, &mut frames);
            self.traffic.bytes_resent += written.resent;
            closed = written.closed;
            contents.data = train.packet_len() > before_messages;
            contents.eliciting |= contents.data;
        }
        // A PING that was to accompany messages is not sent without them.
        let lone_ping = permit.data && !contents.data && !ping_due;
        let overhead = self.connection.link.overhead();
        let least = overhead + if lone_ping { PING } else { 0 };
        let empty = train.packet_len() <= least;
        let len = if empty {
            train.abort_packet();
            None
        } else {
            if !closed {
                self.ping_at_the_end(permit, train, &mut contents);
                self.pad(permit, train);
            }
            let len = train.finish_packet(!shared.config.payload_checksum);
            // A path that drops marked packets must not take the few numbers beyond the limit.
            if contents.eliciting && permit.within_limit {
                train.set_ecn(mark);
            }
            let numbers = permit.number..=permit.number;
            self.record(now, numbers, len, contents, &frames, shared);
            contents.leaves_some |= self.connection.link.pending.small_ping;
            contents.messages_only = before_messages == overhead && !contents.leaves_some;
            #[cfg(test)]
            {
                contents.messages_only &= !shared.one_by_one;
            }
            Some(len)
        };
        shared.frames = frames;
        Some((len?, contents))
    }

    /// Records packets of `len` bytes each with consecutive `numbers` as sent. If there are
    /// several, `frames` is one part of a message, and each packet carried an equal piece of it.
    fn record(
        &mut self,
        now: Instant,
        numbers: RangeInclusive<PacketNumber>,
        len: usize,
        contents: Contents,
        frames: &[SentFrame],
        shared: &mut Shared,
    ) {
        let count = numbers.end().saturating_sub(*numbers.start()) + 1;
        let bytes = count.saturating_mul(len as u64);
        let kind = PacketKind {
            sent: SentKind {
                eliciting: contents.eliciting,
                path_probe: contents.path_probe,
                control: contents.control,
            },
            data: contents.data,
            ping: contents.ping,
        };
        let link = &mut self.connection.link;
        link.record(now, numbers, len, kind, frames, || shared.random());
        self.traffic.packets_sent += count;
        self.traffic.bytes_sent += bytes;
        if contents.eliciting {
            self.life.ask(now, self.silence_timeout);
        }
        if contents.data {
            self.cap.consume(bytes);
        }
    }

    /// Starts the timer of BLOCKED if messages wait for credit, and stops it otherwise.
    fn note_blocked(&mut self, now: Instant) {
        let answers = self.has_answers();
        let outbox = &mut self.session.outbox;
        let sendable = outbox.has_sendable();
        let memory_short = outbox.blocked_by_session().is_some();
        let connection = &mut *self.connection;
        let Some(number) = connection.link.numbers.peek() else {
            return;
        };
        let socket_short = sendable && !connection.link.credit.may_send_data(number, now);
        let held = connection.link.capped_until.is_some()
            || connection
                .link
                .is_held(connection.link.mtu.current() as u64);
        connection.link.app_limited = !sendable || socket_short || held;
        if !sendable || socket_short {
            connection.link.cwnd_validation.on_short();
        } else if connection
            .link
            .is_full(connection.link.mtu.current() as u64)
        {
            connection.link.cwnd_validation.on_full_window();
        }
        if connection.link.app_limited {
            connection.link.recovery.on_app_limited();
        }
        if self.carries_data && socket_short {
            connection.link.credit.on_used_up(now);
        }
        let answers_short = answers && !connection.link.credit.may_send_data(number, now);
        let data_short = socket_short || (memory_short && !sendable);
        if (self.is_up && answers_short) || (self.carries_data && data_short) {
            connection
                .link
                .credit
                .on_waiting(now, connection.link.probe_timeout());
        } else {
            connection.link.credit.on_idle(now);
        }
    }
}
