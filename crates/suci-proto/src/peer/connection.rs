//! A connection: index, tag, packet numbers and path. Replaceable within a session.

use super::cwnd_validation::CwndValidation;
use super::ecn::EcnValidation;
use super::numbered_setting::NumberedSetting;
use super::path::Path;
use super::pending::Pending;
use super::size_bounds::SizeBounds;
use crate::credit::{Demand, Grant, SendCredit, data_charge};
use crate::engine::{Paths, Shared};
use crate::log::{Log, LogRecord};
use crate::steer::Decision;
use crate::transmit::Destination;
use suci_link::ack::Received;
use suci_link::congestion::{Controller, ControllerChoice};
use suci_link::limits::{self, MIN_MTU};
use suci_link::pacer::Pacer;
use suci_link::pmtu::PathMtu;
use suci_link::recovery::Recovery;
use suci_link::security::{ConnectionKeys, Sealing};
use suci_link::time::{Duration, Instant};
use suci_link::types::{Ecn, Layers, PacketNumber};
use suci_link::wire::{Credit, Mode, Params};

/// Number of unacknowledged packets that forces an acknowledgement although no PING asked for one.
/// It is only a bound: senders put a PING into one packet of each quarter of their window
/// (`wants_ping` in `peer/build/control.rs`).
const ACK_EVERY: u32 = 256;

/// The same for a peer in [`Mode::Throughput`], and for one in [`Mode::Response`].
const ACK_EVERY_THROUGHPUT: u32 = 1_024;
const ACK_EVERY_RESPONSE: u32 = 8;

/// Longest time that the acknowledgement for a peer in [`Mode::Throughput`] waits for more packets.
const THROUGHPUT_DELAY: Duration = Duration::from_millis(2);

/// Longest time that the acknowledgement for a peer in [`Mode::Response`] waits for a reply that
/// carries it, in a node whose acknowledgements wait for a timer.
const RESPONSE_DELAY: Duration = Duration::from_micros(500);

/// The index and tag by which one end recognises packets of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) index: u32,
    pub(crate) tag: u64,
}

/// Chooses packet numbers: rising, with about one in [`limits::SKIP_INTERVAL`] skipped.
#[derive(Debug)]
pub(crate) struct Numbers {
    first: PacketNumber,
    next: PacketNumber,
    skip_at: PacketNumber,
}

impl Numbers {
    pub(crate) fn new(first: PacketNumber, random: u64) -> Self {
        let mut numbers = Self {
            first,
            next: first,
            skip_at: first,
        };
        numbers.plan_skip(random);
        numbers
    }

    fn plan_skip(&mut self, random: u64) {
        let ahead = limits::SKIP_INTERVAL / 2 + random % limits::SKIP_INTERVAL;
        self.skip_at = self.next.saturating_add(ahead);
    }

    /// Returns the next number, if any is left: numbers never wrap.
    pub(crate) fn peek(&self) -> Option<PacketNumber> {
        (self.next < PacketNumber::MAX).then_some(self.next)
    }

    /// Notes that the next `count` numbers were used: one, or at most [`in_a_row`](Self::in_a_row).
    pub(crate) fn advance(&mut self, count: u64, random: impl FnOnce() -> u64) {
        debug_assert!(count <= self.in_a_row().max(1), "none of them is skipped");
        self.next = self.next.saturating_add(count);
        if self.next == self.skip_at {
            self.next = self.next.saturating_add(1);
            self.plan_skip(random());
        }
    }

    /// Returns how many consecutive numbers come before a skipped one, without the last of them.
    pub(crate) fn in_a_row(&self) -> u64 {
        self.skip_at.saturating_sub(self.next).saturating_sub(1)
    }

    /// Returns true if `number` was used or skipped.
    pub(crate) fn used(&self, number: PacketNumber) -> bool {
        (self.first..self.next).contains(&number)
    }

    /// Uses no number any more: the connection is replaced.
    pub(crate) fn use_up(&mut self) {
        self.next = PacketNumber::MAX;
    }

    /// Plans to skip the number after the next `count`.
    #[cfg(test)]
    pub(crate) fn skip_after(&mut self, count: u64) {
        self.skip_at = self.next.saturating_add(count.max(1));
    }

    /// Moves on until only `count` numbers are left.
    #[cfg(test)]
    pub(crate) fn leave(&mut self, count: u64) {
        self.next = PacketNumber::MAX - count;
        self.skip_at = PacketNumber::MAX;
    }

    /// Returns the number of the first packet.
    pub(crate) fn first(&self) -> PacketNumber {
        self.first
    }
}

/// The result of the handshake, from this side's view.
#[derive(Debug)]
pub(crate) struct Agreement {
    /// Index and tag of packets to us.
    pub(crate) local: End,
    /// Index and tag of packets to the peer.
    pub(crate) remote: End,
    /// The peer's parameters.
    pub(crate) params: Params,
    /// The layers that the peer may use, as it was told.
    pub(crate) layers: Layers,
    /// The peer's first grant.
    pub(crate) grant: Credit,
    /// When we sent the packet that this grant answers.
    pub(crate) answered: Instant,
    /// The number of the peer's first packet.
    pub(crate) first: PacketNumber,
    /// The peer's address, and the address of this host that it called.
    pub(crate) address: Destination,
    /// The keys of a sealed connection.
    pub(crate) keys: Option<ConnectionKeys>,
}

/// How long our acknowledgements wait for a packet that carries them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckSettings {
    /// Longest time that they may wait, as announced.
    pub(crate) max_delay: Duration,
    /// They wait for the next driver cycle instead of a timer.
    pub(crate) on_poll: bool,
}

/// One connection that both ends know.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) local: End,
    pub(crate) remote: End,
    /// The keys; `None` in plain mode.
    pub(crate) sealing: Option<Box<Sealing>>,
    pub(crate) params: Params,
    pub(crate) path: Path,
    pub(crate) mtu: PathMtu,
    pub(crate) numbers: Numbers,
    pub(crate) recovery: Recovery,
    pub(crate) received: Received,
    pub(crate) credit: SendCredit,
    pub(crate) grant: Grant,
    /// The sizes to which the peer bound its packets.
    pub(crate) bounds: SizeBounds,
    /// Grants of the connections before this one, on the books until this one is heard or they
    /// lapse.
    pub(crate) previous: Vec<Grant>,
    pub(crate) congestion: Box<dyn Controller>,
    pub(crate) pacer: Pacer,
    pub(crate) pending: Pending,
    /// The mode of the traffic in each direction.
    pub(crate) modes: NumberedSetting<Mode>,
    /// The program chose our mode: the peer is told at once. Otherwise MODE goes with the next
    /// messages.
    pub(crate) mode_is_wished: bool,
    pub(super) acks: AckSettings,
    /// Acknowledgements wait for a packet that carries them as long as they may. An operation of a
    /// group has several members, and the next message to this one may come some cycles later.
    pub(crate) acks_ride: bool,
    /// Bytes of the congestion window that the next packet leaves free for messages of a higher
    /// class.
    pub(crate) reserve: u64,
    pub(crate) ecn: EcnValidation,
    /// Session memory limit last announced to the peer.
    pub(crate) memory_announced: u64,
    /// Bytes of packets with messages since the last PING sent or acknowledgement received.
    pub(crate) since_ping: u64,
    /// When the last packet with a PING was sent, until it or a later one is acknowledged.
    pub(crate) pinged_at: Option<Instant>,
    /// The time until which sending waits for the pacer.
    pub(crate) paced_until: Option<Instant>,
    /// The time until which sending waits for the program's cap, and for nothing else.
    pub(crate) capped_until: Option<Instant>,
    /// The time until which control packets wait because even their reserve is used up.
    pub(crate) control_at: Option<Instant>,
    /// When the peer is asked for a sign of life, unless a packet of this connection came: until
    /// one does, the grant of the connection before counts, too.
    first_question_at: Option<Instant>,
    /// When an unanswered RECLAIM is checked again.
    pub(crate) reclaim_at: Option<Instant>,
    pub(crate) undo: CongestionUndo,
    /// When the controller last began anew because packets were too large for the path.
    pub(crate) anew_at: Option<Instant>,
    /// The last decision of the program's steering function, if there is one.
    pub(super) steered: Option<Box<Decision>>,
    /// Bytes per second that the path delivered when last measured.
    pub(crate) delivery_rate: u64,
    /// Bounds the pace while messages or credit, and not the window, are the limit.
    pub(crate) cwnd_validation: CwndValidation,
    /// True if sending last stopped for messages, credit, rate cap or `Steer`, not for the window.
    pub(crate) app_limited: bool,
}

/// Decides whether the controller's reactions to losses may be undone. If packets are late again
/// and again, the next congestion event begins before the losses of the last one prove spurious.
/// Such events overlap: when all their losses prove spurious, all reactions are undone together. A
/// confirmed loss leaves the reactions as they are.
#[derive(Debug, Default)]
pub(crate) struct CongestionUndo {
    /// The count of confirmed losses at the first of the events that may be undone.
    since: Option<u64>,
}

impl CongestionUndo {
    /// Notes that packets were declared lost. Returns whether this event overlaps the ones before,
    /// whose reactions may still be undone.
    pub(crate) fn on_losses(&mut self, recovery: &Recovery) -> bool {
        let confirmed = Some(recovery.confirmed());
        let overlaps = self.since == confirmed;
        self.since = confirmed;
        overlaps
    }

    /// Notes that a packet declared lost arrived after all. Returns true if that was the last of
    /// those losses.
    pub(crate) fn on_spurious(&mut self, recovery: &Recovery) -> bool {
        let refuted = self.since == Some(recovery.confirmed()) && recovery.doubtful() == 0;
        if refuted {
            self.since = None;
        }
        refuted
    }
}

/// This side's part of a connection before the other end answered.
#[derive(Debug)]
pub(crate) struct Beginning {
    pub(crate) numbers: Numbers,
    pub(crate) recovery: Recovery,
    pub(crate) grant: Grant,
    /// The largest UDP payload in the parameters.
    pub(crate) max_datagram: usize,
    /// Session memory limit in the first grant.
    pub(crate) memory_announced: u64,
    /// The mode in the parameters.
    pub(crate) mode: Mode,
    /// The highest packet number that came before ACCEPT. It was drained from our socket, so it
    /// counts for the grant.
    pub(crate) early: Option<PacketNumber>,
}

impl Connection {
    /// Makes a connection. `controller` and `acks` are ours. The packet size is the floor until the
    /// route is known.
    pub(crate) fn new(
        agreement: Agreement,
        beginning: Beginning,
        controller: ControllerChoice,
        acks: AckSettings,
        now: Instant,
    ) -> Self {
        let Agreement {
            local,
            remote,
            params,
            layers: _,
            grant: grant_of_peer,
            answered,
            first,
            address,
            keys,
        } = agreement;
        let Beginning {
            numbers,
            recovery,
            grant,
            memory_announced,
            mode,
            ..
        } = beginning;
        let mtu = PathMtu::new(Some(MIN_MTU), MIN_MTU);
        let size = mtu.current();
        let mut connection = Self {
            local,
            remote,
            sealing: keys.map(|keys| Box::new(Sealing::new(keys))),
            path: Path::new(address),
            congestion: controller.make(size),
            pacer: Pacer::new(now, size),
            credit: SendCredit::new(numbers.first(), &grant_of_peer, answered),
            mtu,
            numbers,
            recovery,
            received: Received::new(first),
            grant,
            bounds: SizeBounds::default(),
            previous: Vec::new(),
            modes: NumberedSetting::new(mode, params.mode),
            mode_is_wished: false,
            params,
            pending: Pending::default(),
            acks,
            acks_ride: false,
            reserve: 0,
            ecn: EcnValidation::default(),
            memory_announced,
            since_ping: 0,
            pinged_at: None,
            paced_until: None,
            capped_until: None,
            control_at: None,
            first_question_at: None,
            reclaim_at: None,
            undo: CongestionUndo::default(),
            anew_at: None,
            steered: None,
            delivery_rate: 0,
            cwnd_validation: CwndValidation::default(),
            app_limited: true,
        };
        connection.apply_peer_mode();
        connection.first_question_at = Some(now + connection.probe_timeout());
        connection
    }

    /// Returns when a peer that has sent no packet of this connection is asked for one.
    #[inline]
    pub(crate) fn first_question_at(&self) -> Option<Instant> {
        self.first_question_at
            .filter(|_| self.received.highest().is_none())
    }

    /// Asks a peer that has sent no packet of this connection for one, if that is due. The probe
    /// timer repeats the question.
    pub(crate) fn ask_first_question(&mut self, now: Instant) {
        if self.first_question_at().is_some_and(|at| at <= now) {
            self.first_question_at = None;
            self.pending.ping = true;
        }
    }

    /// Adapts our acknowledgements to the peer's mode.
    pub(crate) fn apply_peer_mode(&mut self) {
        let AckSettings { max_delay, on_poll } = self.acks;
        let (every, delay) = match self.modes.theirs() {
            Mode::Adaptive => (ACK_EVERY, max_delay),
            Mode::Throughput => (ACK_EVERY_THROUGHPUT, max_delay.min(THROUGHPUT_DELAY)),
            // The next poll is early enough, and even a program that was held up for long should
            // reply first.
            Mode::Response if on_poll => (ACK_EVERY_RESPONSE, max_delay),
            Mode::Response => (ACK_EVERY_RESPONSE, max_delay.min(RESPONSE_DELAY)),
        };
        self.received.set_ack_every(every);
        self.received.set_max_ack_delay(delay);
    }

    /// Adapts the peer's share of the socket's budget to its mode.
    pub(crate) fn share_by_mode(&mut self, shared: &mut Shared) {
        let demand = match self.modes.theirs() {
            Mode::Adaptive => Demand::Normal,
            Mode::Throughput => Demand::Large,
            Mode::Response => Demand::Small,
        };
        shared.shares.set_demand(&mut self.grant, demand);
    }

    /// Returns true if acknowledgements wait for the next cycle rather than for a timer.
    pub(crate) fn acks_on_poll(&self) -> bool {
        self.acks.on_poll && !self.acks_ride && self.modes.theirs() != Mode::Throughput
    }

    /// Returns true if the peer announced this extension. We announce all that we support.
    pub(crate) fn supports(&self, extension: u64) -> bool {
        self.params.extensions & extension != 0
    }

    /// Returns where packets go, and from which address of this host.
    pub(super) fn destination(&self) -> Destination {
        self.path.destination(self.recovery.pto_count())
    }

    /// Returns the probe timeout, including the peer's acknowledgement delay.
    pub(crate) fn probe_timeout(&self) -> Duration {
        self.recovery.rtt().pto(self.params.max_ack_delay)
    }

    /// Starts on a new path. `route` is the UDP payload that the route carries, in bytes, if the
    /// system can tell. Packets bound to a size stay bound, even if this path carries larger ones:
    /// larger ones need a new connection.
    pub(crate) fn begin_on_route(&mut self, route: Option<usize>, now: Instant) {
        let bound = self.credit.bound().unwrap_or(usize::MAX);
        let limit = bound.min(self.params.max_datagram);
        self.begin_on(PathMtu::new(route, limit), now);
    }

    /// Starts on a new path with the driver's answer about its route, or at the floor if there is
    /// none. Returns false if the driver must be asked.
    pub(crate) fn begin_on_path(&mut self, paths: &Paths, now: Instant) -> bool {
        let known = paths.known(self.path.address());
        match known {
            Some(route) => self.begin_on_route(route, now),
            None => self.begin_on(PathMtu::new(Some(MIN_MTU), MIN_MTU), now),
        }
        known.is_some()
    }

    /// Starts on the path of `old`: the packet size need not be learnt again.
    pub(crate) fn inherit_path(&mut self, old: &Self, now: Instant) {
        self.begin_on(old.mtu.inherit(self.params.max_datagram), now);
        self.ecn = old.ecn.inherit();
    }

    /// Sets the packet size, which also determines the first window and the first burst.
    fn begin_on(&mut self, mtu: PathMtu, now: Instant) {
        let size = mtu.current();
        self.mtu = mtu;
        self.congestion.on_path_changed(size);
        self.pacer = Pacer::new(now, size);
    }

    /// Replaces the congestion controller. The new one starts as on a new connection.
    pub(crate) fn set_controller(&mut self, controller: ControllerChoice) {
        self.congestion = controller.make(self.mtu.current());
        self.undo = CongestionUndo::default();
    }

    /// Gives back the memory for packets under way. Returns false if packets are under way, frames
    /// are pending, or a grant is live or being taken back.
    pub(crate) fn shrink(&mut self) -> bool {
        let rests = !self.pending.has_any()
            && !self.grant.is_live()
            && self.previous.is_empty()
            && !self.grant.is_dismissed()
            && self.recovery.shrink();
        if rests {
            self.ecn.shrink();
            self.received.shrink();
            if let Some(sealing) = &mut self.sealing {
                sealing.shrink();
            }
        }
        rests
    }

    /// Returns the most bytes of UDP payload that the peer's packet `number` may have.
    pub(super) fn longest(&self, number: PacketNumber) -> usize {
        self.bounds.of(number, self.params.max_datagram)
    }

    /// Binds our packets to the size that path MTU discovery found, once the search is over, so
    /// that the peer charges only for that. Otherwise it would charge for the size that both ends
    /// can receive, though the path carries less.
    pub(super) fn bind_size(&mut self, now: Instant) {
        let Some(size) = self.mtu.found(now) else {
            return;
        };
        if data_charge(size) < data_charge(self.mtu.limit()) && self.credit.bind(size, now) {
            self.mtu.bind();
        }
    }

    /// Returns true if packets are bound to a size, and larger ones should be tried again.
    pub(super) fn doubts_size(&self, now: Instant) -> bool {
        self.mtu.limit() < self.params.max_datagram && self.mtu.in_doubt(now)
    }

    /// Returns the ECN mark of an ack-eliciting datagram. Other datagrams are not
    /// marked: the sender would not notice that a path drops marked ones.
    pub(super) fn ecn_mark(&self, shared: &Shared) -> Ecn {
        if shared.config.ecn && !self.ecn.is_stopped() {
            Ecn::Ect0
        } else {
            Ecn::NotEct
        }
    }

    /// Passes a change of the packet size on to the log, controller and pacer.
    pub(crate) fn mtu_changed(&mut self, now: Instant, log: &mut Log) {
        let size = self.mtu.current();
        log.add(now, || LogRecord::PacketSize {
            to: self.path.address(),
            datagram: size,
        });
        self.congestion.on_mtu(size);
        self.pacer.set_mtu(size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ops::RangeInclusive;
    use suci_link::recovery::{AckDelays, AckSummary, SentFrame, SentKind, Sink};

    struct Nobody;

    impl Sink for Nobody {
        fn acked(&mut self, _: RangeInclusive<PacketNumber>, _: &[SentFrame]) {}
        fn lost(&mut self, _: RangeInclusive<PacketNumber>, _: &[SentFrame]) {}
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn send(recovery: &mut Recovery, numbers: RangeInclusive<u64>, millis: u64) {
        let kind = SentKind {
            eliciting: true,
            path_probe: false,
            control: false,
        };
        numbers.for_each(|number| recovery.on_sent(number..=number, at(millis), 1_000, kind, &[]));
    }

    fn ack(recovery: &mut Recovery, millis: u64, ranges: &[RangeInclusive<u64>]) -> AckSummary {
        let ranges = ranges.iter().cloned();
        recovery
            .on_ack(at(millis), AckDelays::default(), ranges, &mut Nobody)
            .unwrap()
    }

    #[test]
    fn losses_of_overlapping_events_are_refuted_together() {
        let (mut recovery, mut undo) = (
            Recovery::new(0, Duration::from_millis(100)),
            CongestionUndo::default(),
        );
        send(&mut recovery, 0..=3, 0);
        assert_eq!(ack(&mut recovery, 100, &[3..=3]).lost.packets, 1);
        assert!(!undo.on_losses(&recovery), "the first");
        send(&mut recovery, 4..=7, 110);
        assert_eq!(ack(&mut recovery, 210, &[5..=7]).lost.packets, 3);
        assert!(undo.on_losses(&recovery), "the last one's loss is in doubt");
        assert_eq!(ack(&mut recovery, 215, &[0..=0]).spurious, 1);
        assert!(!undo.on_spurious(&recovery), "those of the second stand");
        assert_eq!(ack(&mut recovery, 220, &[4..=4, 0..=2]).spurious, 3);
        assert!(undo.on_spurious(&recovery));
        assert!(!undo.on_spurious(&recovery), "once");
    }

    #[test]
    fn a_confirmed_loss_keeps_the_reactions() {
        let (mut recovery, mut undo) = (
            Recovery::new(0, Duration::from_millis(100)),
            CongestionUndo::default(),
        );
        send(&mut recovery, 0..=3, 0);
        ack(&mut recovery, 100, &[3..=3]);
        assert!(!undo.on_losses(&recovery));
        send(&mut recovery, 4..=4, 9_000);
        ack(&mut recovery, 9_100, &[4..=4]);
        assert_eq!((recovery.doubtful(), recovery.confirmed()), (2, 1));
        assert!(!undo.on_losses(&recovery), "1 and 2 are a new event");
        assert_eq!(ack(&mut recovery, 9_110, &[1..=2]).spurious, 2);
        assert!(undo.on_spurious(&recovery));
    }
}
