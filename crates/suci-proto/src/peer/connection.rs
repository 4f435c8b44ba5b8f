//! A connection: index, tag, packet numbers and path. Replaceable within a session.

use super::cwnd_validation::CwndValidation;
use super::marks::Marks;
use super::mode::Modes;
use super::path::Path;
use super::pending::Pending;
use crate::ack::Received;
use crate::congestion::{Controller, ControllerChoice};
use crate::counters::Traffic;
use crate::credit::{Demand, Grant, SendCredit, data_charge};
use crate::engine::{Paths, Shared};
use crate::limits::{self, MIN_MTU};
use crate::log::{Log, LogRecord};
use crate::pacer::Pacer;
use crate::pmtu::PathMtu;
use crate::recovery::Recovery;
use crate::steer::Decision;
use crate::time::{Duration, Instant};
use crate::transmit::Destination;
use crate::types::{Ecn, PacketNumber};
use crate::wire::{Credit, EXTENSION_MODE, Mode, Params};

/// Packets that force an acknowledgement although their sender did not ask for one at once: senders
/// ask with a PING in every quarter of their window, so this is only a bound.
const ACK_EVERY: u32 = 256;

/// The same for a peer that prefers throughput, and for one that prefers response.
const ACK_EVERY_THROUGHPUT: u32 = 1_024;
const ACK_EVERY_RESPONSE: u32 = 8;

/// How long the acknowledgement of a throughput peer's packets waits for more of them, at most.
const THROUGHPUT_DELAY: Duration = Duration::from_millis(2);

/// How long that of a response peer's packets waits for a reply to ride on, at most, where timers
/// say so.
const RESPONSE_DELAY: Duration = Duration::from_micros(500);

/// How packets to one end are recognised there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) index: u32,
    pub(crate) tag: u64,
}

/// Chooses packet numbers: rising, with about one in [`limits::SKIP_INTERVAL`] left out.
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

    /// The next number, if any is left: numbers never wrap.
    pub(crate) fn peek(&self) -> Option<PacketNumber> {
        (self.next < PacketNumber::MAX).then_some(self.next)
    }

    /// The next `count` numbers were used: one, or at most [`in_a_row`](Self::in_a_row).
    pub(crate) fn advance(&mut self, count: u64, random: impl FnOnce() -> u64) {
        debug_assert!(count <= self.in_a_row().max(1), "none of them is skipped");
        self.next = self.next.saturating_add(count);
        if self.next == self.skip_at {
            self.next = self.next.saturating_add(1);
            self.plan_skip(random());
        }
    }

    /// How many numbers follow one another before one is skipped, the last one before it left out.
    pub(crate) fn in_a_row(&self) -> u64 {
        self.skip_at.saturating_sub(self.next).saturating_sub(1)
    }

    /// The number after the next `count` is skipped.
    #[cfg(test)]
    pub(crate) fn skip_after(&mut self, count: u64) {
        self.skip_at = self.next.saturating_add(count.max(1));
    }

    /// So many numbers are left.
    #[cfg(test)]
    pub(crate) fn leave(&mut self, count: u64) {
        self.next = PacketNumber::MAX - count;
        self.skip_at = PacketNumber::MAX;
    }

    /// The number of the first packet.
    pub(crate) fn first(&self) -> PacketNumber {
        self.first
    }
}

/// What both ends said in the handshake, from this side's view.
#[derive(Debug)]
pub(crate) struct Agreement {
    /// What packets to us carry.
    pub(crate) local: End,
    /// What packets to the peer carry.
    pub(crate) remote: End,
    /// The peer's parameters.
    pub(crate) params: Params,
    /// The peer's first grant.
    pub(crate) grant: Credit,
    /// When we sent what that grant answers.
    pub(crate) answered: Instant,
    /// The number of the peer's first packet.
    pub(crate) first: PacketNumber,
    /// Where the peer is, and at which address it called us.
    pub(crate) address: Destination,
}

/// When our acknowledgements go, by configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckSettings {
    /// How long they may wait, as announced.
    pub(crate) max_delay: Duration,
    /// They wait for the next turn instead of a timer.
    pub(crate) on_poll: bool,
}

/// One connection that both ends know.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) local: End,
    pub(crate) remote: End,
    pub(crate) params: Params,
    pub(crate) path: Path,
    pub(crate) mtu: PathMtu,
    pub(crate) numbers: Numbers,
    pub(crate) recovery: Recovery,
    pub(crate) received: Received,
    pub(crate) credit: SendCredit,
    pub(crate) grant: Grant,
    /// Packets with higher numbers than this are no longer than so many bytes of UDP payload: so
    /// the peer said.
    pub(crate) bound: Option<(PacketNumber, usize)>,
    /// What the connections before this one were granted, on the books until this one is heard or
    /// that lapses.
    pub(crate) previous: Vec<Grant>,
    pub(crate) congestion: Box<dyn Controller>,
    pub(crate) pacer: Pacer,
    pub(crate) pending: Pending,
    pub(crate) modes: Modes,
    pub(super) acks: AckSettings,
    /// Bytes of the window that the next packet leaves free, because a message of a higher class
    /// may come.
    pub(crate) reserve: u64,
    pub(crate) marks: Marks,
    /// Session memory limit that the peer was last told.
    pub(crate) memory_told: u64,
    /// Bytes sent since a packet last asked for an acknowledgement at once.
    pub(crate) unasked: u64,
    /// When the last packet went that asked so, until it or a later one is acknowledged.
    pub(crate) asked_at: Option<Instant>,
    /// Until when sending waits for the pacer.
    pub(crate) paced_until: Option<Instant>,
    /// Until when sending waits for the program's cap, and for nothing else.
    pub(crate) capped_until: Option<Instant>,
    /// Until when control packets wait because even their reserve is used up.
    pub(crate) control_at: Option<Instant>,
    /// When an unanswered RECLAIM is looked at again.
    pub(crate) reclaim_at: Option<Instant>,
    pub(crate) blame: Blame,
    /// When the controller last began anew because packets were too large for the path.
    pub(crate) anew_at: Option<Instant>,
    /// What the program's controller decided.
    pub(crate) steered: Decision,
    /// Bytes per second that the path delivered when last measured.
    pub(crate) delivery_rate: u64,
    /// How fast to send while messages or credit limit, and not the window.
    pub(crate) cwnd_validation: CwndValidation,
    /// Whether sending last stopped for want of messages or credit, not of window.
    pub(crate) app_limited: bool,
    /// The peer's, handed on from connection to connection.
    pub(crate) traffic: Traffic,
}

/// Whether the controller's answer to losses may be undone. Where packets are late again and again,
/// the next congestion event begins before the losses of the last one are refuted. Such events
/// overlap: when all their losses turn out to have been mere lateness, all their answers are undone
/// together. One loss that is confirmed leaves the answers as they are.
#[derive(Debug, Default)]
pub(crate) struct Blame {
    /// How many losses were confirmed when the first of the events was noticed that may be undone.
    since: Option<u64>,
}

impl Blame {
    /// Packets were declared lost. Returns whether all that the controller answered since the last
    /// time without may still be undone.
    pub(crate) fn charge(&mut self, recovery: &Recovery) -> bool {
        let confirmed = Some(recovery.confirmed());
        let overlaps = self.since == confirmed;
        self.since = confirmed;
        overlaps
    }

    /// A packet declared lost arrived after all. Returns true if that was the last of those losses.
    pub(crate) fn refute(&mut self, recovery: &Recovery) -> bool {
        let refuted = self.since == Some(recovery.confirmed()) && recovery.doubtful() == 0;
        if refuted {
            self.since = None;
        }
        refuted
    }
}

/// What this side brings into a connection before the other end answered.
#[derive(Debug)]
pub(crate) struct Beginning {
    pub(crate) numbers: Numbers,
    pub(crate) recovery: Recovery,
    pub(crate) grant: Grant,
    /// The largest UDP payload that the parameters say.
    pub(crate) max_datagram: usize,
    /// Session memory limit that the first grant says.
    pub(crate) memory_told: u64,
    /// The mode that the parameters say.
    pub(crate) mode: Mode,
    /// The highest packet number that came before ACCEPT. It was drained from our socket like any
    /// other, so it counts for the grant.
    pub(crate) early: Option<PacketNumber>,
}

impl Connection {
    /// `controller` and `acks` are ours. The packet size is the floor until the route is known.
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
            grant,
            answered,
            first,
            address,
        } = agreement;
        let grant_of_peer = grant;
        let Beginning {
            numbers,
            recovery,
            grant,
            max_datagram: _,
            memory_told,
            mode,
            early: _,
        } = beginning;
        let mtu = PathMtu::new(Some(MIN_MTU), MIN_MTU);
        let size = mtu.current();
        let speak_modes = params.extensions & EXTENSION_MODE != 0;
        let modes = Modes::new(speak_modes, mode, params.mode);
        let mut connection = Self {
            local,
            remote,
            path: Path::new(address),
            congestion: controller.make(size),
            pacer: Pacer::new(now, size),
            credit: SendCredit::new(numbers.first(), &grant_of_peer, answered),
            mtu,
            numbers,
            recovery,
            received: Received::new(first),
            grant,
            bound: None,
            previous: Vec::new(),
            params,
            pending: Pending::default(),
            modes,
            acks,
            reserve: 0,
            marks: Marks::default(),
            memory_told,
            unasked: 0,
            asked_at: None,
            paced_until: None,
            capped_until: None,
            control_at: None,
            reclaim_at: None,
            blame: Blame::default(),
            anew_at: None,
            steered: Decision::default(),
            delivery_rate: 0,
            cwnd_validation: CwndValidation::default(),
            app_limited: true,
            traffic: Traffic::default(),
        };
        connection.heed_mode();
        connection
    }

    /// The peer said how its traffic flows: acknowledges accordingly.
    pub(crate) fn heed_mode(&mut self) {
        let AckSettings { max_delay, on_poll } = self.acks;
        let (every, delay) = match self.modes.theirs() {
            Mode::Adaptive => (ACK_EVERY, max_delay),
            Mode::Throughput => (ACK_EVERY_THROUGHPUT, max_delay.min(THROUGHPUT_DELAY)),
            // The next poll is early enough, and a program held up for long should still reply
            // first.
            Mode::Response if on_poll => (ACK_EVERY_RESPONSE, max_delay),
            Mode::Response => (ACK_EVERY_RESPONSE, max_delay.min(RESPONSE_DELAY)),
        };
        self.received.set_ack_every(every);
        self.received.set_max_ack_delay(delay);
    }

    /// The peer said how its traffic flows: shares the socket's budget accordingly.
    pub(crate) fn share_by_mode(&mut self, shared: &mut Shared) {
        let demand = match self.modes.theirs() {
            Mode::Adaptive => Demand::Normal,
            Mode::Throughput => Demand::Large,
            Mode::Response => Demand::Small,
        };
        shared.shares.set_demand(&mut self.grant, demand);
    }

    /// Whether acknowledgements wait for the next turn rather than for a timer.
    pub(crate) fn acks_on_poll(&self) -> bool {
        self.acks.on_poll && self.modes.theirs() != Mode::Throughput
    }

    /// Whether the peer announced this extension. We announce all that we know.
    pub(crate) fn speaks(&self, extension: u64) -> bool {
        self.params.extensions & extension != 0
    }

    /// Where packets go, and from which address of this host.
    pub(super) fn destination(&self) -> Destination {
        self.path.destination(self.recovery.pto_count())
    }

    /// The probe timeout, the peer's ack delay included.
    pub(crate) fn probe_timeout(&self) -> Duration {
        self.recovery.rtt().pto(self.params.max_ack_delay)
    }

    /// Begins on a path of which nothing is known but that its route carries UDP payloads of
    /// `route` bytes, as far as the system can tell.
    pub(crate) fn begin_on_route(&mut self, route: Option<usize>, now: Instant) {
        self.begin_on(PathMtu::new(route, self.params.max_datagram), now);
    }

    /// The same before the driver was asked, unless it was shortly before. False if it is to be.
    pub(crate) fn begin_on_path(&mut self, paths: &Paths, now: Instant) -> bool {
        let known = paths.known(self.path.address());
        match known {
            Some(route) => self.begin_on_route(route, now),
            None => self.begin_on(PathMtu::new(Some(MIN_MTU), MIN_MTU), now),
        }
        known.is_some()
    }

    /// Begins where `old` went: what packets the path carries need not be learnt again.
    pub(crate) fn inherit_path(&mut self, old: &Self, now: Instant) {
        self.begin_on(old.mtu.inherit(self.params.max_datagram), now);
        self.marks = old.marks.inherit();
    }

    /// The first window and the first burst are of such packets.
    fn begin_on(&mut self, mtu: PathMtu, now: Instant) {
        let size = mtu.current();
        self.mtu = mtu;
        self.congestion.on_path_changed(size);
        self.pacer = Pacer::new(now, size);
    }

    /// Another controller decides from now on. It begins with what a new connection has.
    pub(crate) fn set_controller(&mut self, controller: ControllerChoice) {
        self.congestion = controller.make(self.mtu.current());
        self.blame = Blame::default();
    }

    /// Gives back what packets under way needed. False if there are any, or something is to be
    /// said.
    pub(crate) fn shrink(&mut self) -> bool {
        let rests = !self.pending.has_any()
            && !self.grant.is_live()
            && self.previous.is_empty()
            && !self.grant.is_dismissed()
            && self.recovery.shrink();
        if rests {
            self.marks.shrink();
            self.received.shrink();
        }
        rests
    }

    /// Bytes of UDP payload that the peer's packet `number` may have.
    pub(super) fn longest(&self, number: PacketNumber) -> usize {
        let most = self.params.max_datagram;
        let bound = self.bound.filter(|(last, _)| number > *last);
        bound.map_or(most, |(_, size)| size.min(most))
    }

    /// Has the peer charge what path discovery found, once that searches no more: else it would
    /// charge for what both ends can receive, though the path carries less.
    pub(super) fn bind_size(&mut self, now: Instant) {
        let Some(size) = self.mtu.found(now) else {
            return;
        };
        if data_charge(size) < data_charge(self.mtu.limit()) && self.credit.bind(size, now) {
            self.mtu.bind();
        }
    }

    /// Whether packets were bound to a size that is worth being doubted.
    pub(super) fn doubts_size(&self, now: Instant) -> bool {
        self.mtu.limit() < self.params.max_datagram && self.mtu.in_doubt(now)
    }

    /// The mark of a datagram that asks for an acknowledgement. Other datagrams carry none: their
    /// sender would not notice that a path drops marked ones.
    pub(super) fn mark(&self, shared: &Shared) -> Ecn {
        if shared.config.ecn && !self.marks.is_stopped() {
            Ecn::Ect0
        } else {
            Ecn::NotEct
        }
    }

    /// The packet size fell or rose: whoever counts in packets learns it.
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
    use crate::recovery::{AckSummary, AckWaits, SentFrame, SentKind, Sink};
    use core::ops::RangeInclusive;

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
            .on_ack(at(millis), AckWaits::default(), ranges, &mut Nobody)
            .unwrap()
    }

    #[test]
    fn losses_of_overlapping_events_are_refuted_together() {
        let (mut recovery, mut blame) = (
            Recovery::new(0, Duration::from_millis(100)),
            Blame::default(),
        );
        send(&mut recovery, 0..=3, 0);
        assert_eq!(ack(&mut recovery, 100, &[3..=3]).lost.packets, 1);
        assert!(!blame.charge(&recovery), "the first");
        send(&mut recovery, 4..=7, 110);
        assert_eq!(ack(&mut recovery, 210, &[5..=7]).lost.packets, 3);
        assert!(blame.charge(&recovery), "the last one's loss is in doubt");
        assert_eq!(ack(&mut recovery, 215, &[0..=0]).spurious, 1);
        assert!(!blame.refute(&recovery), "those of the second stand");
        assert_eq!(ack(&mut recovery, 220, &[4..=4, 0..=2]).spurious, 3);
        assert!(blame.refute(&recovery));
        assert!(!blame.refute(&recovery), "once");
    }

    #[test]
    fn a_confirmed_loss_leaves_what_was_done_as_it_is() {
        let (mut recovery, mut blame) = (
            Recovery::new(0, Duration::from_millis(100)),
            Blame::default(),
        );
        send(&mut recovery, 0..=3, 0);
        ack(&mut recovery, 100, &[3..=3]);
        assert!(!blame.charge(&recovery));
        send(&mut recovery, 4..=4, 9_000);
        ack(&mut recovery, 9_100, &[4..=4]);
        assert_eq!((recovery.doubtful(), recovery.confirmed()), (2, 1));
        assert!(!blame.charge(&recovery), "1 and 2 are a new event");
        assert_eq!(ack(&mut recovery, 9_110, &[1..=2]).spurious, 2);
        assert!(blame.refute(&recovery));
    }
}
