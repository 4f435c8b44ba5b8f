//! The budget of one socket, shared evenly.

use crate::credit::grant::Booked;
use crate::credit::{CONTROL_MIN, Grant};
use crate::limits::{CONTROL_CHARGE, CONTROL_PACKET, DATA_CHARGE, ETHERNET_MTU, MAX_DATAGRAM};
use crate::time::{Duration, Instant};
use crate::types::PacketNumber;
use std::collections::BTreeMap;

/// Most control packets beyond the limit: what a small cluster is given to survive heavy loss without waiting.
const CONTROL_MAX: u64 = 64;

/// A newcomer takes at most this part of what is left, so that a burst of newcomers finds some
/// before the first ones have shrunk. Its first packet brings it the even share.
const NEWCOMER_PART: u64 = 32;

/// But it should start with this many packets (the initial window of RFC 6928)...
const FIRST_PACKETS: u64 = 10;

/// ... unless they are more than this part of what is left.
const FIRST_PART: u64 = 8;

/// The budget should hold at least so many of the largest packets, or few peers would have to take turns.
const FEWEST_PACKETS: u64 = 256;

/// Largest payloads to choose from: what usual MTUs carry over IPv4.
const DATAGRAM_SIZES: [usize; 5] = [MAX_DATAGRAM, 32_740, 16_356, 8_972, 4_068];

/// A peer that sent nothing for so long may be asked to return what it does not use.
const IDLE: Duration = Duration::from_millis(100);

/// While others wait with nothing, a share lasts so long even in use.
const TURN: Duration = Duration::from_secs(1);

/// RECLAIM is repeated after this until RETURN, a lapse or an emptied grant answers it.
const RECLAIM_REPEAT: Duration = Duration::from_millis(250);

/// What one UDP payload of at most `max_datagram` bytes is charged in the receiver's socket
/// buffer, measured on Linux (true size). Between 4 KiB and 64 KiB a linear buffer is rounded up to
/// a power of two; beyond 32 KiB the kernel uses pages.
#[must_use]
pub fn data_charge(max_datagram: usize) -> u64 {
    const MEASURED: [(usize, u64); 4] = [
        (CONTROL_PACKET, CONTROL_CHARGE),
        (512, 1_280),
        (ETHERNET_MTU, DATA_CHARGE),
        (4_096, 8_448),
    ];
    const LARGEST: u64 = 66_339;
    MEASURED
        .iter()
        .find(|(payload, _)| max_datagram <= *payload)
        .map_or_else(
            || {
                let payload = u64::try_from(max_datagram.min(MAX_DATAGRAM)).unwrap_or(LARGEST);
                payload.saturating_mul(2).saturating_add(1_280).min(LARGEST)
            },
            |(_, charge)| *charge,
        )
}

/// More was granted than the budget holds: a defect of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "granted {data} of {data_budget} B for data and {control} of {control_budget} control packets"
)]
pub struct Overcommitted {
    /// Bytes that peers may put into the buffer as data.
    pub data: u64,
    /// Bytes that they may put there.
    pub data_budget: u64,
    /// Control packets that they may send beyond their limits.
    pub control: u64,
    /// Control packets that fit.
    pub control_budget: u64,
}

/// What every peer of one socket may have in its receive buffer, in sum.
///
/// Three quarters of the buffer are the budget, since the kernel keeps up to a quarter charged after
/// reading. A third of the budget is for control packets: two beyond the limit for each of
/// [`peer_limit`](Self::peer_limit) peers. The rest is divided evenly by one more than there are peers, so
/// that a newcomer finds a share at once; the policy by need will replace this. Where
/// the division leaves less than a packet, peers without one ask (BLOCKED) and others are asked
/// to give back (RECLAIM).
#[derive(Debug)]
pub struct Shares {
    data_budget: u64,
    control_budget: u64,
    peers: u64,
    /// Who asked (BLOCKED) when nothing was free, by turn: its peer and what one packet costs.
    waiting: BTreeMap<u64, (usize, u64)>,
    next_turn: u64,
    /// One packet of each peer that waits.
    waiting_bytes: u64,
    booked: Booked,
}

impl Shares {
    /// For a socket whose buffer holds `recv_buffer` bytes as the kernel charges them (what
    /// SO_RCVBUF reads back).
    #[must_use]
    pub const fn new(recv_buffer: u64) -> Self {
        let budget = recv_buffer / 4 * 3;
        let control = budget / 3;
        Self {
            data_budget: budget - control,
            control_budget: control / CONTROL_CHARGE,
            peers: 0,
            waiting: BTreeMap::new(),
            next_turn: 0,
            waiting_bytes: 0,
            booked: Booked {
                bytes: 0,
                control: 0,
            },
        }
    }

    /// Largest UDP payload that peers should be allowed: the budget holds 256 of them, or
    /// they are of Ethernet's size.
    #[must_use]
    pub fn largest_datagram(&self) -> usize {
        let fits = |payload: &usize| {
            data_charge(*payload).saturating_mul(FEWEST_PACKETS) <= self.data_budget
        };
        DATAGRAM_SIZES
            .into_iter()
            .find(fits)
            .unwrap_or(ETHERNET_MTU)
    }

    /// How many peers this socket can serve (1,260 with 8 MiB).
    #[must_use]
    pub const fn peer_limit(&self) -> u64 {
        self.control_budget / CONTROL_MIN
    }

    /// How many grants are registered.
    #[must_use]
    pub const fn peers(&self) -> u64 {
        self.peers
    }

    /// Bytes for data that nobody was granted.
    #[must_use]
    pub const fn free(&self) -> u64 {
        self.data_budget.saturating_sub(self.booked.bytes)
    }

    /// The even share of a peer in bytes: one share stays free.
    #[must_use]
    pub const fn even(&self) -> u64 {
        self.data_budget / self.peers.saturating_add(1)
    }

    /// Control packets beyond the limit that each peer is given in the long run.
    #[must_use]
    pub fn control_target(&self) -> u64 {
        let half = self.control_budget / 2;
        half.checked_div(self.peers)
            .unwrap_or(half)
            .clamp(CONTROL_MIN, CONTROL_MAX)
    }

    /// Control packets beyond the limits that nobody was given.
    #[must_use]
    pub const fn control_free(&self) -> u64 {
        self.control_budget.saturating_sub(self.booked.control)
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

    /// Whether a HELLO may be answered while `cookies` earlier answers may still bring back
    /// an INIT: each needs room for one full packet and for a peer.
    #[must_use]
    pub fn may_answer_hello(&self, cookies: u64, max_datagram: usize) -> bool {
        let comers = cookies.saturating_add(1);
        comers.saturating_mul(data_charge(max_datagram)) <= self.free()
            && comers.saturating_mul(CONTROL_MIN) <= self.control_free()
            && self.peers.saturating_add(comers) <= self.peer_limit()
    }

    /// Registers a peer that numbers its packets from `first` and sends UDP payloads of at most
    /// `max_datagram` bytes. `None` if the socket serves as many as it can, or has no packet to give.
    pub fn admit(
        &mut self,
        first: PacketNumber,
        max_datagram: usize,
        now: Instant,
    ) -> Option<Grant> {
        if self.peers >= self.peer_limit() || self.control_free() < CONTROL_MIN {
            return None;
        }
        self.peers = self.peers.saturating_add(1);
        let grant = self.start(first, data_charge(max_datagram), now);
        if grant.is_none() {
            self.peers = self.peers.saturating_sub(1);
        }
        grant
    }

    /// Registers a connection that replaces `old`, which keeps its data on the books until it is
    /// [released](Self::release) (the first packet of its replacement was drained, so nothing more
    /// of the old one comes), and hands its control reserve over. `None` if no packet is free.
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
        self.stop_waiting(old);
        let reserve = core::mem::take(&mut old.booked.control);
        self.booked.control = self.booked.control.saturating_sub(reserve);
        let grant = self.start(first, data_charge(max_datagram), now);
        if grant.is_none() {
            old.booked.control = reserve;
            self.booked.control = self.booked.control.saturating_add(reserve);
            return None;
        }
        old.retired = true;
        grant
    }

    fn start(&mut self, first: PacketNumber, charge: u64, now: Instant) -> Option<Grant> {
        let share = self.room_for_newcomer(0, charge);
        if share == 0 {
            return None;
        }
        let mut grant = Grant::new(first, share, self.newcomer_control(0), charge, now);
        self.settle(&mut grant);
        Some(grant)
    }

    /// Takes a grant off the books: its connection is gone, and nothing of it arrives any more.
    pub fn release(&mut self, grant: &mut Grant) {
        self.stop_waiting(grant);
        self.booked.bytes = self.booked.bytes.saturating_sub(grant.booked.bytes);
        self.booked.control = self.booked.control.saturating_sub(grant.booked.control);
        grant.booked = Booked::default();
        if !grant.retired {
            self.peers = self.peers.saturating_sub(1);
        }
        grant.retired = true;
    }

    /// Notes that an authentic packet was read from the socket. `eliciting`: it asks for an
    /// acknowledgement.
    pub fn on_drained(
        &mut self,
        grant: &mut Grant,
        number: PacketNumber,
        eliciting: bool,
        now: Instant,
    ) {
        grant.drained(number, eliciting, self.target(grant), now);
        self.allot(grant, now);
    }

    /// Answers BLOCKED: a CREDIT is due if the peer has any, and if not it waits for its turn.
    /// `peer` is what [`next_to_serve`](Self::next_to_serve) will call it.
    pub fn on_blocked(&mut self, grant: &mut Grant, peer: usize, now: Instant) {
        grant.blocked();
        self.allot(grant, now);
        if grant.is_dormant() && grant.waiting.is_none() && !grant.retired {
            let turn = self.next_turn;
            self.next_turn = turn.saturating_add(1);
            grant.waiting = Some(turn);
            self.waiting.insert(turn, (peer, grant.charge()));
            self.waiting_bytes = self.waiting_bytes.saturating_add(grant.charge());
        }
    }

    /// Applies a RETURN; one of another generation is ignored.
    pub fn on_return(
        &mut self,
        grant: &mut Grant,
        generation: u64,
        highest: PacketNumber,
        now: Instant,
    ) {
        if grant.returned(generation, highest) {
            self.settle(grant);
            self.allot(grant, now);
        }
    }

    /// Gives a dormant peer credit if there is some: because we are about to send to it and it
    /// must acknowledge, or because it waits and another peer returned some.
    pub fn wake(&mut self, grant: &mut Grant, now: Instant) {
        self.allot(grant, now);
    }

    /// Ends a grant whose sender was silent for 2L; true if it did. Only after everything that
    /// had arrived by `now` was drained: a pause of ours is not the peer's silence.
    pub fn expire(&mut self, grant: &mut Grant, now: Instant) -> bool {
        let lapsed = grant.lapse(now);
        if lapsed {
            self.stop_waiting(grant);
            self.settle(grant);
        }
        lapsed
    }

    /// The peer that waited longest, if there is credit for it now: [`wake`](Self::wake) its
    /// grant, then ask again. Look here whenever a RETURN, a lapse or a departure freed some.
    #[must_use]
    pub fn next_to_serve(&self) -> Option<usize> {
        let (_, (peer, charge)) = self.waiting.first_key_value()?;
        (*charge <= self.free()).then_some(*peer)
    }

    /// Whether this grant should be RECLAIMed, first or again.
    #[must_use]
    pub fn reclaim_due(&self, grant: &Grant, now: Instant) -> bool {
        if let Some(at) = grant.reclaimed_at() {
            return now >= at + RECLAIM_REPEAT;
        }
        if grant.retired || !grant.is_live() {
            return false;
        }
        let idle = now >= grant.idle_since() + IDLE;
        let control_short = self.is_reserve_excessive(grant);
        if grant.share() == 0 {
            return control_short && idle;
        }
        let had_turn = now >= grant.given_at() + TURN;
        let starving = !self.waiting.is_empty() && self.free() < self.waiting_bytes;
        let narrow = self.free() < self.even() && grant.outstanding() > self.target(grant);
        (starving && (idle || had_turn)) || ((narrow || control_short) && idle)
    }

    /// Begins or repeats a reclaim; the generation to name in RECLAIM, `None` if there is nothing to
    /// reclaim.
    pub fn reclaim(&mut self, grant: &mut Grant, now: Instant) -> Option<u64> {
        if grant.retired
            || !grant.is_live()
            || (grant.is_dormant() && !self.is_reserve_excessive(grant))
        {
            return None;
        }
        self.stop_waiting(grant);
        grant.begin_reclaim(now);
        Some(grant.generation())
    }

    /// A peer whose grant lapsed may still send as many control packets as it was told, so they stay on the
    /// books. While they are missed, a new generation without data begins that allows fewer; its RETURN proves
    /// that the peer knows.
    pub fn revive(&mut self, grant: &mut Grant, now: Instant) {
        if !grant.retired && !grant.is_live() && self.is_reserve_excessive(grant) {
            grant.set_share(0, self.control_for(grant), now);
            self.settle(grant);
        }
    }

    /// Whether others miss what this peer may send beyond its limit.
    fn is_reserve_excessive(&self, grant: &Grant) -> bool {
        self.control_free() < NEWCOMER_PART
            && grant.control() > self.control_target().max(CONTROL_MIN)
    }

    /// The even share of this peer in packets.
    fn target(&self, grant: &Grant) -> u64 {
        packets(self.even(), grant.charge()).max(1)
    }

    /// Packets for a peer that has none: a part of what is free, at least one if there is one,
    /// at most the even share.
    fn room_for_newcomer(&self, booked: u64, charge: u64) -> u64 {
        let free = self.free();
        let first = (free / FIRST_PART).min(charge.saturating_mul(FIRST_PACKETS));
        let bytes = (free / NEWCOMER_PART).max(first).max(free.min(charge));
        packets(booked.saturating_add(bytes), charge).min(packets(self.even(), charge).max(1))
    }

    fn newcomer_control(&self, booked: u64) -> u64 {
        let free = self.control_free().saturating_add(booked);
        (free / NEWCOMER_PART)
            .clamp(CONTROL_MIN, CONTROL_MAX)
            .min(self.control_target())
    }

    /// Brings a share to what the policy allows now, and the books with it.
    fn allot(&mut self, grant: &mut Grant, now: Instant) {
        if !grant.retired && !grant.is_reclaiming() {
            let share = if grant.share() == 0 {
                self.share_for_dormant(grant)
            } else {
                self.share_for_active(grant)
            };
            if share > 0 {
                self.stop_waiting(grant);
            }
            grant.set_share(share, self.control_for(grant), now);
        }
        self.settle(grant);
    }

    /// Those who wait come in their order, and before everybody else.
    fn share_for_dormant(&self, grant: &Grant) -> u64 {
        let before = match grant.waiting {
            Some(turn) => self
                .waiting
                .range(..turn)
                .map(|(_, (_, charge))| *charge)
                .sum(),
            None => self.waiting_bytes,
        };
        if self.free() < before.saturating_add(grant.charge()) {
            return 0;
        }
        let newcomer = self.room_for_newcomer(grant.booked.bytes, grant.charge());
        newcomer.max(self.share_for_active(grant))
    }

    fn share_for_active(&self, grant: &Grant) -> u64 {
        let target = self.target(grant);
        if target <= grant.share() {
            return target;
        }
        let spare = self
            .free()
            .saturating_sub(self.even().max(self.waiting_bytes));
        let bytes = grant.booked.bytes.saturating_add(spare);
        packets(bytes, grant.charge()).clamp(grant.share(), target)
    }

    /// Falls to the target at once (it takes effect when the peer knows), rises when there is
    /// plenty.
    fn control_for(&self, grant: &Grant) -> u64 {
        let plenty = self.newcomer_control(grant.booked.control);
        self.control_target().min(plenty.max(grant.booked.control))
    }

    /// A grant waits no more: it was served, is being reclaimed, or its connection was replaced.
    pub(crate) fn stop_waiting(&mut self, grant: &mut Grant) {
        if let Some(turn) = grant.waiting.take() {
            self.waiting.remove(&turn);
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
        self.booked.bytes = self
            .booked
            .bytes
            .saturating_sub(grant.booked.bytes)
            .saturating_add(booking.bytes);
        self.booked.control = self
            .booked
            .control
            .saturating_sub(grant.booked.control)
            .saturating_add(booking.control);
        grant.booked = booking;
    }
}

/// Whole packets of `charge` bytes in `bytes`.
const fn packets(bytes: u64, charge: u64) -> u64 {
    match bytes.checked_div(charge) {
        Some(packets) => packets,
        None => 0,
    }
}
