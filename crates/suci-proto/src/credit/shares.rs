//! The budget of one socket, shared by need.

use crate::credit::grant::{Booked, Grant};
use crate::credit::need::Demand;
use std::collections::BTreeMap;
use suci_link::credit::{CONTROL_MIN, SocketReturn, data_charge};
use suci_link::limits::{CONTROL_CHARGE, DATA_CHARGE};
use suci_link::planted;
use suci_link::time::{Duration, Instant};
use suci_link::types::PacketNumber;

mod division;
mod drained;
mod sizes;

use division::Activity;

/// Maximum number of control packets beyond the limit: enough for a small cluster to survive heavy
/// loss without waiting.
const CONTROL_MAX: u64 = 64;

/// One in this many bytes of the data part is for control packets beyond [`CONTROL_MIN`] of a peer.
/// The control part itself is set apart: it holds [`CONTROL_MIN`] for each slot, whatever other
/// peers hold.
const EXTRA_PART: u64 = 32;

/// A new peer takes at most this part of the free credit, so that a burst of new peers finds some
/// before the shares of the first ones have shrunk. It gets more as soon as it comes near its
/// limit.
const NEWCOMER_PART: u64 = 32;

/// The active reserve: shares do not grow into this part of the budget, so that a peer that wakes
/// up, sends BLOCKED or is new finds credit at once. It is small, since reserved credit carries no
/// data, and it fills up again within a round trip, when packets of the peers with the most credit
/// are drained.
const RESERVE_PART: u64 = 32;

/// In small budgets the reserve is this many packets, but at most one part in `RESERVE_MOST`.
const RESERVE_PACKETS: u64 = 16;
const RESERVE_MOST: u64 = 8;

/// A peer that sent nothing for this time, or for a probe timeout if that is more, may be asked to
/// return its credit, if another peer waits without any.
pub(crate) const IDLE: Duration = Duration::from_millis(100);

/// An idle peer is left alone for this time if others have credit and only need more: a busy
/// machine may run its process no sooner.
const QUIET: Duration = Duration::from_millis(250);

/// Time that a share in use of a near peer lasts while others wait without credit, and longest time
/// that a surplus over the share lasts while others need more.
pub(crate) const TURN: Duration = Duration::from_secs(1);

/// Longest turn of far peers. A connection carries nothing for its first four round trips; others
/// wait for no more than a few seconds.
const LONGEST_TURN: Duration = Duration::from_secs(3);

/// While less than one in this many slots is taken, strangers begin with as much as others.
const FEW_PEERS: u64 = 16;

/// How long a peer keeps its credit and its slot while others wait.
#[derive(Clone, Copy, Debug)]
pub struct Tenure {
    /// It counts as idle after this silence.
    pub idle: Duration,
    /// It has had its turn after this, even if it is busy.
    pub turn: Duration,
}

impl Tenure {
    /// Returns the tenure of a peer that answers within `pto`, the probe timeout of its path.
    #[must_use]
    pub fn of(pto: Duration) -> Self {
        Self {
            idle: pto.clamp(IDLE, TURN),
            turn: pto.saturating_mul(8).clamp(TURN, LONGEST_TURN),
        }
    }
}

/// RECLAIM is repeated after this until RETURN, a lapse or an emptied grant answers it.
const RECLAIM_REPEAT: Duration = Duration::from_millis(250);

/// `RECLAIM_REPEAT` doubles so often, to 4 s: a silent peer is probably gone, and its grant
/// lapses anyway.
const RECLAIM_DOUBLINGS: u32 = 4;

/// RECLAIMs without an answer, over four minutes. A peer that loses half of its packets in each
/// direction leaves this many unanswered once in a hundred million times.
const MOST_RECLAIMS: u32 = 64;

/// More was granted than the budget holds: a defect of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "granted {data} of {data_budget} B for data and {control} of {control_budget} control packets"
)]
pub struct Overcommitted {
    /// Bytes that peers may put into the buffer as data.
    pub data: u64,
    /// Bytes that they may put there at most.
    pub data_budget: u64,
    /// Control packets that they may send beyond their limits.
    pub control: u64,
    /// Control packets that fit the buffer.
    pub control_budget: u64,
}

/// Returns the bytes that are kept for INITs, out of a data part of `budget` bytes: half of the
/// reserve and a packet for unknown nodes, in whole packets, at most the reserve. At least one
/// packet if the budget holds two: without it, peers that have all credit would keep new peers from
/// free slots.
const fn init_reserve(budget: u64) -> u64 {
    let reserve = reserve(budget);
    let packets = reserve / 2 / DATA_CHARGE + 1;
    let most = reserve / DATA_CHARGE;
    let packets = if packets < most { packets } else { most };
    if packets == 0 && budget >= 2 * DATA_CHARGE {
        return DATA_CHARGE;
    }
    packets * DATA_CHARGE
}

/// Returns the bytes of the reserve that are not set apart for INITs. At least one packet if the
/// budget holds eight: a node needs a packet for each connection that it opens itself.
const fn active_reserve(budget: u64, init_reserve: u64) -> u64 {
    let rest = reserve(budget).saturating_sub(init_reserve);
    if rest < DATA_CHARGE && budget >= 8 * DATA_CHARGE {
        DATA_CHARGE
    } else {
        rest
    }
}

/// Returns the reserve of a data part of `budget` bytes.
const fn reserve(budget: u64) -> u64 {
    let few = RESERVE_PACKETS.saturating_mul(DATA_CHARGE);
    let most = budget / RESERVE_MOST;
    let few = if few < most { few } else { most };
    let part = budget / RESERVE_PART;
    if part > few { part } else { few }
}

/// The credit of all peers of one socket: the packets that they may have in its receive buffer.
///
/// Three quarters of the buffer are the budget, since the kernel keeps up to a quarter charged
/// after reading. A third of the budget is for control packets: two beyond the limit for each of
/// [`peer_limit`](Self::peer_limit) peers. Of the rest, a few packets are set apart for INITs, so
/// that new peers can connect whatever others hold, and a little is for further control packets
/// beyond two for each peer. Peers share the rest by need.
///
/// * A peer whose packets come near its limit, or that reports that it had to wait there, is
///   *unsatisfied*. Unsatisfied peers divide the budget less the other peers' credit and the
///   reserve, by the weight of their [`Demand`]. A share that is too large shrinks with each packet
///   drained; one that is too small grows as far as credit is free.
/// * The other peers are *satisfied*: they keep their shares until a peer is unsatisfied or the
///   reserve is touched. Then a share of which little is used is halved, and an idle peer is asked
///   to give its credit back (RECLAIM) down to a few packets.
/// * A peer that was granted more while others needed less, and uses it up slowly, is asked to give
///   it back, too.
/// * The reserve is for peers that wake up or are new. If even the reserve is used up, peers
///   without credit send BLOCKED and are served in order, from the credit that others give back.
#[derive(Debug)]
pub struct Shares {
    /// Bytes for data that may be granted, and bytes that are set apart for INITs.
    data_budget: u64,
    init_reserve: u64,
    /// Control packets that fit the budget, and the number of peers that get [`CONTROL_MIN`] of
    /// them.
    control_budget: u64,
    peer_limit: u64,
    /// The bytes of the budget that are not for control packets.
    data_part: u64,
    /// Bytes for data that shares do not grow into.
    reserve: u64,
    peers: u64,
    /// How many more peers are expected soon.
    expected: u64,
    /// The peers that sent BLOCKED when nothing was free, by ticket: each peer and the charge of
    /// its packets.
    waiting: BTreeMap<u64, (usize, u64)>,
    next_ticket: u64,
    /// One packet of each peer that waits.
    waiting_bytes: u64,
    booked: Booked,
    unsatisfied: Unsatisfied,
}

/// Sums over the unsatisfied peers.
#[derive(Clone, Copy, Debug, Default)]
struct Unsatisfied {
    /// The sum of their weights.
    weight: u64,
    /// The bytes booked for them.
    bytes: u64,
    /// The most bytes that the unsatisfied peers of bounded demand take, and their weight.
    bounded: u64,
    bounded_weight: u64,
}

impl Shares {
    /// Makes the budget of a socket whose buffer holds `recv_buffer` bytes as the kernel charges
    /// them (what SO_RCVBUF reads back).
    #[must_use]
    pub const fn new(recv_buffer: u64) -> Self {
        let budget = recv_buffer / 4 * 3;
        let control = budget / 3;
        let data = budget - control;
        let init_reserve = init_reserve(data);
        let extra = data / EXTRA_PART / CONTROL_CHARGE;
        let control = control / CONTROL_CHARGE;
        Self {
            data_budget: data - init_reserve - extra * CONTROL_CHARGE,
            init_reserve,
            reserve: active_reserve(data, init_reserve),
            control_budget: control + extra,
            peer_limit: control / CONTROL_MIN,
            data_part: data,
            peers: 0,
            expected: 0,
            waiting: BTreeMap::new(),
            next_ticket: 0,
            waiting_bytes: 0,
            booked: Booked {
                bytes: 0,
                beyond: 0,
                control: 0,
            },
            unsatisfied: Unsatisfied {
                weight: 0,
                bytes: 0,
                bounded: 0,
                bounded_weight: 0,
            },
        }
    }

    /// Returns how many peers this socket can serve (1,260 with 8 MiB).
    #[must_use]
    pub const fn peer_limit(&self) -> u64 {
        self.peer_limit
    }

    /// Returns how many grants are registered.
    #[must_use]
    pub const fn peers(&self) -> u64 {
        self.peers
    }

    /// Returns the bytes that may be granted for data and are not.
    #[must_use]
    pub const fn free(&self) -> u64 {
        self.data_budget.saturating_sub(self.booked.bytes)
    }

    /// Returns the number of control packets that are granted to no peer, without those set apart
    /// for free slots.
    pub(super) fn control_free(&self) -> u64 {
        let apart = self.control_apart();
        let used = self.booked.control.saturating_add(apart);
        self.control_budget.saturating_sub(used)
    }

    /// Returns the number of control packets set apart for slots that no peer has.
    fn control_apart(&self) -> u64 {
        match planted("reserve-by-what-is-left") {
            true => 0,
            false => self.free_slots().saturating_mul(CONTROL_MIN),
        }
    }

    /// Returns the number of whole packets for INITs, from the free bytes and those set apart.
    const fn init_packets(&self) -> u64 {
        self.free().saturating_add(self.init_reserve) / DATA_CHARGE
    }

    /// Returns the bytes for data that peers may have or put into the buffer.
    pub(super) const fn booked_bytes(&self) -> u64 {
        self.booked.bytes
    }

    /// Returns the bytes that peers were granted beyond the buffer, as the kernel would charge
    /// them.
    pub(super) const fn beyond(&self) -> u64 {
        self.booked.beyond
    }

    /// Returns how many peers wait for credit.
    pub(super) fn waiting(&self) -> u64 {
        self.waiting.len() as u64
    }

    /// Returns the bytes for data that shares do not grow into.
    #[must_use]
    pub const fn reserve(&self) -> u64 {
        self.reserve
    }

    /// Returns true if some peers lack credit and others may have to give some. Then call
    /// [`satisfy_if_silent`](Self::satisfy_if_silent) and [`reclaim_due`](Self::reclaim_due) for
    /// all.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.unsatisfied.weight > 0 || !self.waiting.is_empty() || self.free() < self.reserve()
    }

    /// Returns the number of control packets beyond the limit that each peer is given in the long
    /// run.
    #[must_use]
    pub fn control_target(&self) -> u64 {
        if planted("reserve-by-what-is-left") {
            return CONTROL_MAX;
        }
        let least = self.peer_limit.saturating_mul(CONTROL_MIN);
        let extra = self.control_budget.saturating_sub(least) / self.peers.max(1);
        CONTROL_MIN.saturating_add(extra).min(CONTROL_MAX)
    }

    /// Returns the most bytes that the kernel may charge to the socket's buffer if every peer keeps
    /// to its grant: everything on the books, and the quarter of the buffer that the kernel may
    /// keep charged after reading.
    #[must_use]
    pub const fn allowed(&self) -> u64 {
        let control = self.booked.control.saturating_mul(CONTROL_CHARGE);
        self.booked
            .bytes
            .saturating_add(self.booked.beyond)
            .saturating_add(control)
            .saturating_add(self.data_part / 2)
    }

    /// Checks that nothing was granted beyond the budget.
    ///
    /// # Errors
    /// [`Overcommitted`] with both sums.
    pub const fn check(&self) -> Result<(), Overcommitted> {
        if self.booked.bytes > self.data_budget || self.booked.control > self.control_budget {
            return Err(Overcommitted {
                data: self.booked.bytes,
                data_budget: self.data_budget,
                control: self.booked.control,
                control_budget: self.control_budget,
            });
        }
        Ok(())
    }

    /// Returns how many INITs (of a size that fits every path) the budget has room for. Each needs
    /// one packet and, unless its sender is `admitted` already, a slot among the peers.
    #[must_use]
    pub fn room_for_inits(&self, admitted: bool) -> u64 {
        let packets = self.init_packets();
        if admitted {
            return packets;
        }
        packets.min(self.free_slots())
    }

    /// Returns how many INITs of unknown nodes the budget has room for. Half of the reserve is for
    /// known nodes that connect or wake up, since unknown nodes that vanish keep their grants for
    /// up to 2 L.
    #[must_use]
    pub fn room_for_strangers(&self) -> u64 {
        let kept = (self.init_reserve / DATA_CHARGE).saturating_sub(1);
        let packets = self.init_packets().saturating_sub(kept);
        self.room_for_inits(false).min(packets)
    }

    /// Sets how many more peers are expected soon: the next new peer leaves credit for them.
    pub const fn set_expected(&mut self, peers: u64) {
        self.expected = peers;
    }

    /// Returns how many more peers there is a slot for.
    #[must_use]
    pub const fn free_slots(&self) -> u64 {
        self.peer_limit().saturating_sub(self.peers)
    }

    /// Returns whether this peer's slot may be given to a node that waits for one, and its rank
    /// among such peers; the least rank goes first. Idle peers come before those that had their
    /// turn.
    #[must_use]
    pub fn may_dismiss(
        &self,
        grant: &Grant,
        tenure: Tenure,
        now: Instant,
    ) -> Option<(bool, Instant)> {
        if grant.retired || grant.dismissed {
            return None;
        }
        let idle_since = grant.idle_since();
        if now >= idle_since + tenure.idle {
            return Some((false, idle_since));
        }
        let begun = grant.begun_at();
        (now >= begun + tenure.turn).then_some((true, begun))
    }

    /// Takes a peer's slot away for another: the peer gets no more credit, and its grant is to be
    /// [reclaimed](Self::reclaim_due). Once the grant [is over](Grant::is_over), release it.
    pub fn dismiss(&mut self, grant: &mut Grant) {
        self.stop_waiting(grant);
        self.mark_satisfied(grant);
        grant.dismissed = true;
    }

    /// Registers a peer that numbers its packets from `first` and sends UDP payloads of at most
    /// `max_datagram` bytes, and that sent an INIT. `None` if the socket has no free slot. The
    /// share may be 0; then the peer sends BLOCKED before its next packet.
    pub fn admit(
        &mut self,
        first: PacketNumber,
        max_datagram: usize,
        now: Instant,
    ) -> Option<Grant> {
        self.admit_with(first, data_charge(max_datagram), u64::MAX, now)
    }

    /// As [`admit`](Self::admit), for a stranger. If it stops within the handshake, its grant lasts
    /// until it lapses. So if more than a few slots are taken, strangers begin with so little that
    /// each free slot may have as much. A stranger that sends more than that gets more.
    pub(crate) fn admit_stranger(
        &mut self,
        first: PacketNumber,
        max_datagram: usize,
        now: Instant,
    ) -> Option<Grant> {
        let charge = data_charge(max_datagram);
        let even = self.free().saturating_mul(2) / self.free_slots().max(1);
        let most = match self.peers < self.peer_limit() / FEW_PEERS {
            true => u64::MAX,
            false => (even / charge.max(1)).max(1),
        };
        self.admit_with(first, charge, most, now)
    }

    /// Registers a peer whose packets are charged `charge` bytes, with a share of at most `most`
    /// packets.
    fn admit_with(
        &mut self,
        first: PacketNumber,
        charge: u64,
        most: u64,
        now: Instant,
    ) -> Option<Grant> {
        if self.peers >= self.peer_limit() {
            return None;
        }
        if planted("reserve-by-what-is-left") && self.control_free() < CONTROL_MIN {
            return None;
        }
        self.peers = self.peers.saturating_add(1);
        Some(self.start(first, charge, most, now))
    }

    /// As [`admit`](Self::admit), for an INIT that we send: its answer needs a packet. Also `None`
    /// if no packet is free.
    pub fn admit_for_own_init(
        &mut self,
        first: PacketNumber,
        max_datagram: usize,
        now: Instant,
    ) -> Option<Grant> {
        if self.room_for_newcomer(0, data_charge(max_datagram)) == 0 {
            return None;
        }
        self.admit(first, max_datagram, now)
    }

    /// Registers a connection that replaces `old`. The old grant hands its control reserve over,
    /// and keeps its data on the books until it is [released](Self::release). That is when the
    /// first packet of the new connection was drained: no more of the old one comes then. `None` if
    /// `old` was replaced before.
    pub fn replace(
        &mut self,
        old: &mut Grant,
        first: PacketNumber,
        max_datagram: usize,
        now: Instant,
    ) -> Option<Grant> {
        if old.retired {
            return None;
        }
        let reserve = core::mem::take(&mut old.booked.control);
        self.booked.control = self.booked.control.saturating_sub(reserve);
        let grant = self.start(first, data_charge(max_datagram), u64::MAX, now);
        self.stop_waiting(old);
        self.mark_satisfied(old);
        old.retired = true;
        Some(grant)
    }

    /// Makes the first grant of a peer that has its slot, of at most `most` packets.
    fn start(&mut self, first: PacketNumber, charge: u64, most: u64, now: Instant) -> Grant {
        let share = self.room_for_newcomer(0, charge).min(most);
        // Book the control packets that are set apart for this slot, so that they do not count as
        // free for it once more.
        self.booked.control = self.booked.control.saturating_add(CONTROL_MIN);
        let control = self.control_for(CONTROL_MIN);
        self.booked.control = self.booked.control.saturating_sub(CONTROL_MIN);
        let mut grant = Grant::new(first, share, control, charge, now);
        self.settle(&mut grant);
        grant
    }

    /// Takes a grant off the books: its connection is gone, and none of its packets can still
    /// arrive.
    pub fn release(&mut self, grant: &mut Grant) {
        self.stop_waiting(grant);
        self.mark_satisfied(grant);
        self.booked = self.booked.replacing(grant.booked, Booked::default());
        grant.booked = Booked::default();
        if !grant.retired {
            self.peers = self.peers.saturating_sub(1);
        }
        grant.retired = true;
    }

    /// Sets the weight of this peer's share beside other peers that need more too.
    pub fn set_demand(&mut self, grant: &mut Grant, demand: Demand) {
        let unsatisfied = grant.need.unsatisfied;
        self.mark_satisfied(grant);
        grant.need.demand = demand;
        if unsatisfied {
            self.mark_unsatisfied(grant);
        }
    }

    /// Answers BLOCKED: makes a CREDIT due; a peer that gets no share joins the queue. `peer` is
    /// the index by which [`next_to_serve`](Self::next_to_serve) will name it.
    pub fn on_blocked(&mut self, grant: &mut Grant, peer: usize, now: Instant) {
        grant.blocked();
        self.allot(grant, Activity::Blocked, now);
        if grant.is_dormant() && grant.waiting.is_none() && !grant.retired && !grant.dismissed {
            let ticket = self.next_ticket;
            self.next_ticket = ticket.saturating_add(1);
            grant.waiting = Some(ticket);
            self.waiting.insert(ticket, (peer, grant.charge()));
            self.waiting_bytes = self.waiting_bytes.saturating_add(grant.charge());
        }
    }

    /// Answers a BLOCKED of a peer that has no messages to send, but needs numbers for control. It
    /// gets those, and credit for messages only as far as idle peers may have some: otherwise a
    /// small buffer would grant and reclaim for ever.
    pub fn on_reserve_low(&mut self, grant: &mut Grant, now: Instant) {
        grant.blocked();
        self.allot(grant, Activity::Idle, now);
    }

    /// Applies a RETURN; one of another generation is ignored. Returns whether it was applied.
    pub fn on_return(
        &mut self,
        grant: &mut Grant,
        SocketReturn {
            generation,
            highest,
            size,
        }: SocketReturn,
        now: Instant,
    ) -> bool {
        let applies = grant.returned(generation, highest);
        if applies {
            self.mark_satisfied(grant);
            if size > 0 {
                self.bind(grant, size);
            }
            self.settle(grant);
            self.allot(grant, Activity::Idle, now);
        }
        applies
    }

    /// Charges less for a grant that ended just now: its sender now sends UDP payloads of at most
    /// `size` bytes.
    fn bind(&mut self, grant: &mut Grant, size: usize) {
        let before = grant.charge();
        grant.bind(data_charge(size));
        let waiting = grant
            .waiting
            .and_then(|ticket| self.waiting.get_mut(&ticket));
        if let Some((_, charge)) = waiting {
            *charge = grant.charge();
            self.waiting_bytes = self
                .waiting_bytes
                .saturating_sub(before)
                .saturating_add(grant.charge());
        }
    }

    /// Gives credit to a peer that waited, if some is free.
    pub fn serve(&mut self, grant: &mut Grant, now: Instant) {
        self.allot(grant, Activity::Blocked, now);
    }

    /// Ends a grant whose sender was silent for 2L; returns true if it did. Call it only after
    /// everything that had arrived by `now` was drained: a pause of ours is not the peer's silence.
    pub fn expire(&mut self, grant: &mut Grant, now: Instant) -> bool {
        let lapsed = grant.lapse(now);
        if lapsed {
            self.stop_waiting(grant);
            self.mark_satisfied(grant);
            self.settle(grant);
        }
        lapsed
    }

    /// Returns the peer that waited longest, if there is credit for it now: [`serve`](Self::serve)
    /// its grant, then call this again. Call it whenever a RETURN, a lapse or a departure freed
    /// credit.
    #[must_use]
    pub fn next_to_serve(&self) -> Option<usize> {
        let (_, (peer, charge)) = self.waiting.first_key_value()?;
        (*charge <= self.free()).then_some(*peer)
    }

    /// Returns true if a RECLAIM of this grant is due, the first or a repeated one.
    #[must_use]
    pub fn reclaim_due(&self, grant: &Grant, tenure: Tenure, now: Instant) -> bool {
        if let Some(at) = self.reclaim_at(grant) {
            return now >= at;
        }
        if grant.retired || !grant.is_live() || grant.dismissed {
            return grant.dismissed && grant.is_live();
        }
        if grant.share() == 0 {
            return false;
        }
        let idle = now >= grant.idle_since() + tenure.idle;
        let had_turn = now >= grant.given_at() + tenure.turn;
        let starving = !self.waiting.is_empty() && self.free() < self.waiting_bytes;
        let quiet = now >= grant.idle_since() + QUIET;
        let lasting = grant.has_lasting_surplus(now, TURN);
        let scarce = self.free() < self.scarce();
        let unused = scarce
            && self.is_wanted_by_others(grant)
            && grant.outstanding() > self.idle_packets(grant);
        (starving && (idle || had_turn)) || (unused && (quiet || lasting))
    }

    /// Returns when a RECLAIM that was not answered is due again.
    #[must_use]
    pub fn reclaim_at(&self, grant: &Grant) -> Option<Instant> {
        let (at, times) = grant.reclaimed()?;
        let doubled = times.saturating_sub(1).min(RECLAIM_DOUBLINGS);
        Some(at + RECLAIM_REPEAT.saturating_mul(1 << doubled))
    }

    /// Returns true if the peer left more than 64 RECLAIMs unanswered, for longer than `patience`.
    /// Such a peer goes on sending, so nothing lapses, but may hear nothing of us. RECLAIMs that
    /// were due count even if they could not be sent: a peer that grants us no packet for RECLAIM
    /// keeps its slot no longer.
    pub(crate) fn ignores_reclaim(&self, grant: &Grant, patience: Duration) -> bool {
        let longest = RECLAIM_REPEAT.saturating_mul(1 << RECLAIM_DOUBLINGS);
        grant.reclaimed().is_some_and(|(_, times)| {
            let waited = longest.saturating_mul(times.saturating_sub(RECLAIM_DOUBLINGS + 1));
            times > MOST_RECLAIMS && waited > patience
        })
    }

    /// Begins or repeats a reclaim. Returns the generation to name in RECLAIM; `None` if there is
    /// nothing to reclaim.
    pub fn reclaim(&mut self, grant: &mut Grant, now: Instant) -> Option<u64> {
        if grant.retired || !grant.is_live() || (grant.is_dormant() && !grant.dismissed) {
            return None;
        }
        self.stop_waiting(grant);
        self.mark_satisfied(grant);
        grant.begin_reclaim(now);
        Some(grant.generation())
    }

    /// Counts a silent peer as satisfied. Call it while credit is [short](Self::is_short).
    pub fn satisfy_if_silent(&mut self, grant: &mut Grant, now: Instant) {
        if now >= grant.idle_since() + TURN {
            self.mark_satisfied(grant);
        }
    }

    /// Takes a grant out of the queue: it was served, is being reclaimed, or its connection was
    /// replaced.
    pub(crate) fn stop_waiting(&mut self, grant: &mut Grant) {
        if let Some(ticket) = grant.waiting.take() {
            self.waiting.remove(&ticket);
            self.waiting_bytes = self.waiting_bytes.saturating_sub(grant.charge());
        }
    }

    fn settle(&mut self, grant: &mut Grant) {
        let mut booking = grant.booking();
        if grant.retired {
            // The replacement has the control reserve; after release nothing is booked at all.
            booking.control = 0;
            booking.bytes = booking.bytes.min(grant.booked.bytes);
        }
        self.booked = self.booked.replacing(grant.booked, booking);
        if grant.need.unsatisfied {
            self.unsatisfied.bytes = self
                .unsatisfied
                .bytes
                .saturating_sub(grant.booked.bytes)
                .saturating_add(booking.bytes);
        }
        grant.booked = booking;
    }
}
