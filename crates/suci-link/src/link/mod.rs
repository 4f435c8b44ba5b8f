//! One connection: its two ends, packet numbers, keys and path; what was sent and received on it;
//! how much may be sent.
//!
//! [`Link`] knows nothing of other peers or of the program, and of its [`Cargo`] only whether it
//! can go. What a packet carried it knows by a small token `T` of the cargo.
//!
//! | file | question it answers |
//! |---|---|
//! | `fill`, `pace` | which packets may go now? |
//! | `build`, `follow`, `header`, `recorded` | what is in them? |
//! | `receive` | what do the frames of a packet mean? |
//! | `probes`, `path`, `ecn`, `size_bounds` | which path, which sizes, which marks? |
//! | `answers`, `fates`, `undo`, `cwnd_validation` | what does an acknowledgement, or its absence, mean? |
//! | `control`, `pending`, `numbered_setting` | what do the two ends tell each other? |

mod answers;
mod build;
mod cargo;
mod control;
mod cwnd_validation;
mod decision;
mod ecn;
mod fates;
mod fill;
mod follow;
mod header;
mod numbered_setting;
mod numbers;
mod pace;
mod path;
mod pending;
mod probes;
mod receive;
mod recorded;
mod size_bounds;
mod undo;

pub use cargo::{
    Cargo, Consignee, Cut, DrainedKind, Fate, FrameSink, Held, Returned, SentTrain, Written,
};
pub use decision::Decision;
pub use ecn::EcnValidation;
pub use numbered_setting::NumberedSetting;
pub use numbers::Numbers;
pub use path::Path;
pub use pending::Pending;
pub use receive::Heard;
pub use recorded::Recorded;

use cwnd_validation::CwndValidation;
use size_bounds::SizeBounds;
use undo::CongestionUndo;

use crate::ack::Received;
use crate::congestion::{Controller, ControllerChoice};
use crate::credit::{SendCredit, data_charge};
use crate::limits::MIN_MTU;
use crate::pacer::Pacer;
use crate::pmtu::PathMtu;
use crate::recovery::{Content, Recovery};
use crate::security::{ConnectionKeys, Sealing};
use crate::time::{Duration, Instant};
use crate::train::Destination;
use crate::types::{Ecn, PacketNumber};
use crate::wire::{Credit, Mode, Params};

/// Number of unacknowledged packets that forces an acknowledgement although no PING asked for one.
/// It is only a bound: senders put a PING into one packet of each quarter of their window
/// (`wants_ping` in `control.rs`).
const ACK_EVERY: u32 = 256;

/// The same for a peer in [`Mode::Throughput`], and for one in [`Mode::Response`].
const ACK_EVERY_THROUGHPUT: u32 = 1_024;
const ACK_EVERY_RESPONSE: u32 = 8;

/// Longest time that the acknowledgement for a peer in [`Mode::Throughput`] waits for more packets.
const THROUGHPUT_DELAY: Duration = Duration::from_millis(2);

/// Longest time that the acknowledgement for a peer in [`Mode::Response`] waits for a reply that
/// carries it, in a node whose acknowledgements wait for a timer.
const RESPONSE_DELAY: Duration = Duration::from_micros(500);

/// Bound of padding in a packet that is shorter than its train's segments. A packet that would need
/// more ends the train instead. More room is left only if a message with a long header of its own
/// did not fit.
pub const PADDING_LIMIT: usize = 288;

/// In Throughput mode, a packet carries a PING only after this many packets without one. If that
/// many came before, the last packet of the queue carries one, too. The acknowledgement of a long
/// message's end then waits for no timer, and a single message causes no extra packets.
const PING_EVERY: u64 = 8;

/// The index and tag by which one end recognises packets of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The index.
    pub index: u32,
    /// The tag.
    pub tag: u64,
}

impl End {
    /// Returns the end of this index and tag.
    #[must_use]
    pub const fn of(index: u32, tag: u64) -> Self {
        Self { index, tag }
    }
}

/// The result of the handshake, from this side's view.
#[derive(Debug)]
pub struct Agreed<T> {
    /// Index and tag of packets to us.
    pub local: End,
    /// Index and tag of packets to the peer.
    pub remote: End,
    /// The peer's parameters.
    pub params: Params,
    /// The peer's first grant.
    pub grant: Credit,
    /// When we sent the packet that this grant answers.
    pub answered: Instant,
    /// The number of the peer's first packet.
    pub first: PacketNumber,
    /// The peer's address, and the address of this host that it called.
    pub address: Destination,
    /// The keys of a sealed connection.
    pub keys: Option<ConnectionKeys>,
    /// The numbers of our packets, and those that went with the handshake.
    pub numbers: Numbers,
    /// The fate of those.
    pub recovery: Recovery<Recorded<T>>,
    /// Our mode, as we told the peer.
    pub mode: Mode,
}

/// The settings of this side.
#[derive(Clone, Copy, Debug)]
pub struct LinkSettings {
    /// How long acknowledgements wait.
    pub acks: AckSettings,
    /// Packets are marked as ECN-capable.
    pub ecn: bool,
    /// The checksum of plain packets covers the payload.
    pub payload_checksum: bool,
}

impl Default for LinkSettings {
    /// Returns the settings of a link whose acknowledgements wait for at most a millisecond.
    fn default() -> Self {
        Self {
            acks: AckSettings {
                max_delay: Duration::from_millis(1),
                on_poll: false,
            },
            ecn: true,
            payload_checksum: true,
        }
    }
}

/// How long our acknowledgements wait for a packet that carries them.
#[derive(Clone, Copy, Debug)]
pub struct AckSettings {
    /// Longest time that they may wait, as announced.
    pub max_delay: Duration,
    /// They wait for the next driver cycle instead of a timer.
    pub on_poll: bool,
}

impl AckSettings {
    /// Adapts our acknowledgements to the mode of the peer's traffic.
    fn apply(self, mode: Mode, received: &mut Received) {
        let Self { max_delay, on_poll } = self;
        let (every, delay) = match mode {
            Mode::Adaptive => (ACK_EVERY, max_delay),
            Mode::Throughput => (ACK_EVERY_THROUGHPUT, max_delay.min(THROUGHPUT_DELAY)),
            // The next poll is early enough, and even a program that was held up for long should
            // reply first.
            Mode::Response if on_poll => (ACK_EVERY_RESPONSE, max_delay),
            Mode::Response => (ACK_EVERY_RESPONSE, max_delay.min(RESPONSE_DELAY)),
        };
        received.set_ack_every(every);
        received.set_max_ack_delay(delay);
    }
}

/// One connection that both ends know.
#[derive(Debug)]
pub struct Link<T> {
    /// The end at which the peer's packets arrive.
    pub local: End,
    /// The end to which ours go.
    pub remote: End,
    /// The keys; `None` in plain mode.
    pub sealing: Option<Box<Sealing>>,
    /// The peer's parameters.
    pub params: Params,
    /// Where packets go.
    pub path: Path,
    /// How large they may be.
    pub mtu: PathMtu,
    /// Their numbers.
    pub numbers: Numbers,
    /// The fate of those sent.
    pub recovery: Recovery<Recorded<T>>,
    /// Which packets of the peer came, and what it was told of them.
    pub received: Received,
    /// The numbers that the peer's socket has room for.
    pub credit: SendCredit,
    /// The sizes to which the peer bound its packets.
    pub bounds: SizeBounds,
    /// How much may be in flight.
    pub congestion: Box<dyn Controller>,
    /// How fast it may go.
    pub pacer: Pacer,
    /// Control frames that wait for a packet.
    pub pending: Pending,
    /// The mode of the traffic in each direction.
    pub modes: NumberedSetting<Mode>,
    /// The program chose our mode: the peer is told at once. Otherwise MODE goes with the next
    /// messages.
    pub mode_is_wished: bool,
    /// Acknowledgements wait for a packet that carries them as long as they may. An operation of a
    /// group has several members, and the next message to this one may come some cycles later.
    acks_ride: bool,
    /// Bytes of the congestion window that the next packet leaves free for messages of a higher
    /// class.
    reserve: u64,
    /// Whether marked packets arrive.
    pub ecn: EcnValidation,
    /// Bytes of packets with messages since the last PING sent or acknowledgement received. Below 0
    /// are those that an [exchange](Link::begin_exchange) may send besides.
    since_ping: i64,
    /// The peer sent a message since messages last began to leave with nothing in flight.
    answered: bool,
    /// When the last packet with a PING was sent, until it or a later one is acknowledged.
    pub pinged_at: Option<Instant>,
    /// The time until which sending waits for the pacer.
    paced_until: Option<Instant>,
    /// The time until which sending waits for the program's cap, and for nothing else.
    capped_until: Option<Instant>,
    /// The time until which control packets wait because even their reserve is used up.
    pub control_at: Option<Instant>,
    /// When the peer is asked for a sign of life, unless a packet of this connection came: until
    /// one does, the grant of the connection before counts, too.
    first_question_at: Option<Instant>,
    /// Whether reactions to losses may be undone.
    undo: CongestionUndo,
    /// When the controller last began anew because packets were too large for the path.
    anew_at: Option<Instant>,
    /// The last decision of the program's steering function, if there is one.
    pub steered: Option<Box<Decision>>,
    /// Bytes per second that the path delivered when last measured.
    pub delivery_rate: u64,
    /// Bounds the pace while messages or credit, and not the window, are the limit.
    cwnd_validation: CwndValidation,
    /// True if sending last stopped for messages, credit, rate cap or `Steer`, not for the window.
    app_limited: bool,
    settings: LinkSettings,
    /// The packet size changed, and the owner was not told.
    resized: bool,
}

impl<T: Content> Link<T> {
    /// Makes a connection. The packet size is the floor until the route is known.
    #[inline(always)]
    #[must_use]
    pub fn new(
        agreed: Agreed<T>,
        controller: ControllerChoice,
        settings: LinkSettings,
        now: Instant,
    ) -> Self {
        let Agreed {
            local,
            remote,
            params,
            grant,
            answered,
            first,
            address,
            keys,
            numbers,
            recovery,
            mode,
        } = agreed;
        let mtu = PathMtu::new(Some(MIN_MTU), MIN_MTU);
        let size = mtu.current();
        let mut received = Received::new(first);
        settings.acks.apply(params.mode, &mut received);
        let unheard_for = recovery.rtt().pto(params.max_ack_delay);
        // The last expression, so that it is made where the caller wants it: it is large.
        Self {
            local,
            remote,
            sealing: keys.map(|keys| Box::new(Sealing::new(keys))),
            path: Path::new(address),
            congestion: controller.make(size),
            pacer: Pacer::new(now, size),
            credit: SendCredit::new(numbers.first(), &grant, answered),
            mtu,
            numbers,
            recovery,
            received,
            bounds: SizeBounds::default(),
            modes: NumberedSetting::new(mode, params.mode),
            mode_is_wished: false,
            params,
            pending: Pending::default(),
            acks_ride: false,
            reserve: 0,
            ecn: EcnValidation::default(),
            since_ping: 0,
            answered: false,
            pinged_at: None,
            paced_until: None,
            capped_until: None,
            control_at: None,
            first_question_at: Some(now + unheard_for),
            undo: CongestionUndo::default(),
            anew_at: None,
            steered: None,
            delivery_rate: 0,
            cwnd_validation: CwndValidation::default(),
            app_limited: true,
            settings,
            resized: false,
        }
    }

    /// Returns when a peer that has sent no packet of this connection is asked for one.
    #[inline]
    fn first_question_at(&self) -> Option<Instant> {
        self.first_question_at
            .filter(|_| self.received.highest().is_none())
    }

    /// Asks a peer that has sent no packet of this connection for one, if that is due. The probe
    /// timer repeats the question.
    fn ask_first_question(&mut self, now: Instant) {
        if self.first_question_at().is_some_and(|at| at <= now) {
            self.first_question_at = None;
            self.pending.ping = true;
        }
    }

    /// Adapts our acknowledgements to the peer's mode.
    fn apply_peer_mode(&mut self) {
        let mode = self.modes.theirs();
        self.settings.acks.apply(mode, &mut self.received);
    }

    /// Returns true if acknowledgements wait for the next cycle rather than for a timer.
    pub fn acks_on_poll(&self) -> bool {
        self.settings.acks.on_poll && !self.acks_ride && self.modes.theirs() != Mode::Throughput
    }

    /// Returns true if the peer announced this extension. We announce all that we support.
    pub fn supports(&self, extension: u64) -> bool {
        self.params.extensions & extension != 0
    }

    /// Returns where packets go, and from which address of this host.
    pub fn destination(&self) -> Destination {
        self.path.destination(self.recovery.pto_count())
    }

    /// Returns the probe timeout, including the peer's acknowledgement delay.
    pub fn probe_timeout(&self) -> Duration {
        self.recovery.rtt().pto(self.params.max_ack_delay)
    }

    /// Starts on a new path. `route` is the UDP payload that the route carries, in bytes, if the
    /// system can tell. Packets bound to a size stay bound, even if this path carries larger ones:
    /// larger ones need a new connection.
    pub fn begin_on_route(&mut self, route: Option<usize>, now: Instant) {
        let bound = self.credit.bound().unwrap_or(usize::MAX);
        let limit = bound.min(self.params.max_datagram);
        self.begin_on(PathMtu::new(route, limit), now);
    }

    /// Starts on a path of which `known` is known, as [`Consignee::on_moved`] tells it.
    pub fn begin_on_known(&mut self, known: Option<Option<usize>>, now: Instant) {
        match known {
            Some(route) => self.begin_on_route(route, now),
            None => self.begin_on(PathMtu::new(Some(MIN_MTU), MIN_MTU), now),
        }
    }

    /// Starts on the path of `old`: the packet size need not be learnt again.
    pub fn inherit_path(&mut self, old: &Self, now: Instant) {
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
    pub fn set_controller(&mut self, controller: ControllerChoice) {
        self.congestion = controller.make(self.mtu.current());
        self.undo = CongestionUndo::default();
    }

    /// Gives back the memory for packets under way. Returns false if packets are under way or
    /// frames are pending.
    pub fn shrink(&mut self) -> bool {
        let rests = !self.pending.has_any() && self.recovery.shrink();
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
    fn longest(&self, number: PacketNumber) -> usize {
        self.bounds.of(number, self.params.max_datagram)
    }

    /// Binds our packets to the size that path MTU discovery found, once the search is over, so
    /// that the peer charges only for that. Otherwise it would charge for the size that both ends
    /// can receive, though the path carries less.
    fn bind_size(&mut self, now: Instant) {
        let Some(size) = self.mtu.found(now) else {
            return;
        };
        if data_charge(size) < data_charge(self.mtu.limit()) && self.credit.bind(size, now) {
            self.mtu.bind();
        }
    }

    /// Returns true if packets are bound to a size, and larger ones should be tried again.
    pub fn doubts_size(&self, now: Instant) -> bool {
        self.mtu.limit() < self.params.max_datagram && self.mtu.in_doubt(now)
    }

    /// Returns the ECN mark of an ack-eliciting datagram. Other datagrams are not
    /// marked: the sender would not notice that a path drops marked ones.
    fn ecn_mark(&self) -> Ecn {
        if self.settings.ecn && !self.ecn.is_stopped() {
            Ecn::Ect0
        } else {
            Ecn::NotEct
        }
    }

    /// Passes a change of the packet size on to controller and pacer.
    pub fn mtu_changed(&mut self) {
        let size = self.mtu.current();
        self.resized = true;
        self.congestion.on_mtu(size);
        self.pacer.set_mtu(size);
    }

    /// Returns the packet size if it changed since this was asked last.
    pub fn take_resized(&mut self) -> Option<usize> {
        core::mem::take(&mut self.resized).then(|| self.mtu.current())
    }
}
