//! The receiver's half: the packets that one peer may still put into our socket buffer.

use crate::credit::need::Need;
use suci_link::credit::SocketCredit;
use suci_link::limits::CREDIT_LAPSE;
use suci_link::planted;
use suci_link::time::Instant;
use suci_link::types::PacketNumber;

mod long_path;
mod surplus;

use long_path::LongPath;
use surplus::Surplus;

/// The part of a share that is held back for packets that arrive late: one in this many.
const LATE_PART: u64 = 8;

/// The credit that we gave to one peer on one connection. On the line of its packet numbers:
///
/// ```text
///       drained_end              limit_end
///  drained   |   granted for data    |   control packets only
/// -----------+-----------------------+------------------------+-------->
///  of these  |                       |                        |
///  `late` may still arrive           |<-- control.charged --->|
/// ```
///
/// The peer may know a lower limit: the one that was `announced`. The share counts the numbers
/// between `drained_end` and `limit_end`, plus `late`.
///
/// Only [`Shares`](crate::credit::Shares) changes a grant, since it keeps the sum of all.
#[derive(Debug)]
pub struct Grant {
    generation: u64,
    /// False once this generation was returned or lapsed; the next share starts another.
    live: bool,
    /// One past the highest number drained.
    drained_end: PacketNumber,
    /// One past the highest number granted.
    limit_end: PacketNumber,
    /// Numbers below `drained_end` that may still arrive.
    late: u64,
    /// Packets that the policy allots; 0 while the peer must first send BLOCKED.
    share: u64,
    announced: Option<Announced>,
    control: Control,
    /// Bytes that the kernel charges for one of this peer's packets.
    pub(super) charge: u64,
    last_drained: Instant,
    /// When the share was given.
    given_at: Instant,
    /// When the connection was made.
    begun_at: Instant,
    reclaimed_at: Option<Instant>,
    /// How often this generation was reclaimed without an answer.
    reclaims: u32,
    surplus: Option<Surplus>,
    /// The grant beyond the share, for packets that are on the wire.
    long_path: LongPath,
    /// A CREDIT is due at once: the peer sent BLOCKED, went beyond its limit, or waited until
    /// now.
    forced: bool,
    /// An ack-eliciting packet was drained since the last announcement.
    eliciting: bool,
    pub(super) need: Need,
    /// The peer's ticket in the queue for credit, if it waits.
    pub(super) waiting: Option<u64>,
    pub(super) retired: bool,
    /// Other peers need this slot: the peer gets no more credit, and its connection ends once none
    /// of its packets can still arrive.
    pub(super) dismissed: bool,
    pub(super) booked: Booked,
}

#[derive(Clone, Copy, Debug)]
struct Announced {
    generation: u64,
    limit_end: PacketNumber,
}

/// Packets beyond the limit. A smaller reserve counts only once the peer must have seen it.
#[derive(Debug)]
struct Control {
    /// The number that the next announcement gives.
    target: u64,
    /// The number that the peer may still know, and that is therefore charged.
    charged: u64,
    /// The highest number announced in this generation. A RETURN of it proves that no older
    /// announcement counts.
    most: u64,
    /// A drained number from here on proves that the peer saw `target`.
    proof: Option<PacketNumber>,
}

/// How a share is divided.
#[derive(Clone, Copy, Debug)]
struct Division {
    /// Packets beyond the highest number drained.
    ahead: u64,
    /// Packets held back for those that arrive late.
    late: u64,
}

/// The amounts that [`Shares`](crate::credit::Shares) has on its books for this grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Booked {
    pub(super) bytes: u64,
    /// Bytes granted beyond those, for packets on the wire.
    pub(super) beyond: u64,
    pub(super) control: u64,
}

impl Booked {
    /// Returns these sums with the amounts `old` of one grant replaced by `new`.
    pub(super) fn replacing(self, old: Self, new: Self) -> Self {
        let sum = |all: u64, old, new| all.saturating_sub(old).saturating_add(new);
        Self {
            bytes: sum(self.bytes, old.bytes, new.bytes),
            beyond: sum(self.beyond, old.beyond, new.beyond),
            control: sum(self.control, old.control, new.control),
        }
    }
}

impl Grant {
    pub(super) fn new(
        first: PacketNumber,
        share: u64,
        control: u64,
        charge: u64,
        now: Instant,
    ) -> Self {
        let mut grant = Self {
            generation: 0,
            live: true,
            drained_end: first,
            limit_end: first,
            late: 0,
            share,
            announced: None,
            control: Control {
                target: control,
                charged: control,
                most: control,
                proof: None,
            },
            charge,
            last_drained: now,
            given_at: now,
            begun_at: now,
            reclaimed_at: None,
            reclaims: 0,
            surplus: None,
            long_path: LongPath::new(first, now),
            forced: false,
            eliciting: false,
            need: Need::new(now),
            waiting: None,
            retired: false,
            dismissed: false,
            booked: Booked::default(),
        };
        grant.raise();
        grant
    }

    /// Returns the current generation.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the highest number granted, announced or not.
    #[must_use]
    pub const fn limit(&self) -> PacketNumber {
        self.limit_end.saturating_sub(1)
    }

    /// Returns one past the highest number drained.
    #[must_use]
    pub const fn drained_end(&self) -> PacketNumber {
        self.drained_end
    }

    /// Returns the packets that the policy allots; 0 while the peer must first send BLOCKED.
    #[must_use]
    pub const fn share(&self) -> u64 {
        self.share
    }

    /// Returns the number of data packets that this peer may still have in our socket buffer or
    /// send to it.
    #[must_use]
    pub const fn outstanding(&self) -> u64 {
        self.ahead().saturating_add(self.late)
    }

    /// Returns the same in bytes as the kernel charges them.
    #[must_use]
    pub const fn outstanding_bytes(&self) -> u64 {
        self.outstanding().saturating_mul(self.charge)
    }

    /// Returns the number of control packets beyond its limit that the peer may believe it was
    /// granted.
    #[must_use]
    pub const fn control(&self) -> u64 {
        self.control.charged
    }

    /// Returns the number that the next announcement gives.
    pub(super) const fn next_control(&self) -> u64 {
        self.control.target
    }

    /// Returns the bytes that the kernel charges for one of this peer's packets.
    #[must_use]
    pub const fn charge(&self) -> u64 {
        self.charge
    }

    /// Returns true if the peer has to send BLOCKED before it may send data.
    #[must_use]
    pub const fn is_dormant(&self) -> bool {
        self.share == 0 && self.reclaimed_at.is_none()
    }

    /// Returns the share in bytes for each unit of the peer's weight; `None` unless the peer is
    /// unsatisfied.
    pub(super) fn part(&self) -> Option<f64> {
        let bytes = self.share.saturating_mul(self.charge) as f64;
        self.need
            .unsatisfied
            .then(|| bytes / self.need.demand.weight() as f64)
    }

    /// Returns true until the generation ends. RECLAIM can only ask for a live one.
    pub(crate) const fn is_live(&self) -> bool {
        self.live
    }

    /// Returns true if this grant was [dismissed](crate::credit::Shares::dismiss): we send its peer
    /// no more messages.
    #[must_use]
    pub const fn is_dismissed(&self) -> bool {
        self.dismissed
    }

    /// Returns true if this grant was dismissed, and its peer returned it or let it lapse.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.dismissed && !self.live
    }

    /// Returns true if RECLAIM was sent and RETURN has not come back.
    #[must_use]
    pub const fn is_reclaiming(&self) -> bool {
        self.reclaimed_at.is_some()
    }

    /// Returns when the grant lapses unless something more is drained; `None` once it did. The time
    /// starts anew with each generation, however long the peer was silent before.
    #[must_use]
    pub fn lapse_at(&self) -> Option<Instant> {
        (self.outstanding() > 0 || self.live || self.waiting.is_some())
            .then(|| self.idle_since() + CREDIT_LAPSE * 2)
    }

    /// Returns true if a CREDIT should ride on the next packet to this peer.
    #[must_use]
    pub fn ride_due(&self) -> bool {
        let Some(announced) = self.announced else {
            return true;
        };
        if !self.live {
            return false;
        }
        if self.forced || announced.generation != self.generation {
            return true;
        }
        let advance = self.limit_end.saturating_sub(announced.limit_end);
        advance > 0 && advance >= self.share / 4
    }

    /// Returns true if a CREDIT is worth a packet of its own: the peer sent BLOCKED, or half the
    /// share was used before another packet carried the CREDIT. (A reply usually goes earlier, and
    /// costs no packet.) Packets that need no acknowledgement (ACKs, other CREDITs) never make it
    /// due: two small grants would renew each other forever.
    #[must_use]
    pub fn update_due(&self) -> bool {
        let Some(announced) = self.announced else {
            return true;
        };
        if announced.generation != self.generation {
            return self.live;
        }
        let advance = self.limit_end.saturating_sub(announced.limit_end);
        let pressing = self.eliciting && advance > 0 && advance >= self.share / 2;
        self.live && (self.forced || pressing)
    }

    /// Returns the content of a CREDIT now, and notes it as announced. Any ACK may repeat it.
    pub fn credit(&mut self) -> SocketCredit {
        self.announce();
        SocketCredit {
            generation: self.generation,
            limit: planted_limit(self.limit()),
            control: self.control.target,
        }
    }

    /// Returns the content of the grant in INIT or ACCEPT, and notes it as announced. Its limit
    /// counts from the `first` that this grant was made with.
    pub fn handshake_credit(&mut self, first: PacketNumber) -> SocketCredit {
        let credit = self.credit();
        SocketCredit {
            limit: credit.limit.saturating_sub(first),
            ..credit
        }
    }

    /// Moves a grant that was made for 0 to a peer that numbers its packets from `first`. Call it
    /// before any packet was drained.
    pub fn start_at(&mut self, first: PacketNumber) {
        self.drained_end = self.drained_end.saturating_add(first);
        self.limit_end = self.limit_end.saturating_add(first);
        self.long_path.skip(first);
        if let Some(announced) = &mut self.announced {
            announced.limit_end = announced.limit_end.saturating_add(first);
        }
    }

    /// Returns the packets granted and not drained for which the buffer has room.
    const fn ahead(&self) -> u64 {
        let all = self.limit_end.saturating_sub(self.drained_end);
        all.saturating_sub(self.long_path.granted)
    }

    /// Returns how many announced numbers lie behind the packet `number`; `None` if no grant of
    /// this generation was announced.
    pub(super) fn left_after(&self, number: PacketNumber) -> Option<u64> {
        let announced = self.announced.filter(|announced| {
            self.live && self.reclaimed_at.is_none() && announced.generation == self.generation
        })?;
        let end = number.saturating_add(1).max(self.drained_end);
        Some(announced.limit_end.saturating_sub(end))
    }

    /// Lowers the share: the limit stops until it fits.
    pub(super) fn lower(&mut self, share: u64) {
        if share < self.share {
            self.share = share;
        }
    }

    pub(super) const fn booking(&self) -> Booked {
        Booked {
            bytes: self.outstanding_bytes(),
            beyond: self.long_path.granted.saturating_mul(self.charge),
            control: self.control.charged,
        }
    }

    /// Returns true if draining the packets up to `last`, which follow one that was drained just
    /// now, only moves the numbers drained and granted as long as the share and the reserve stay.
    pub(super) fn advances_linearly_to(&self, last: PacketNumber) -> bool {
        let Division { ahead, late } = self.division();
        let unmoved = match self.left_after(last) {
            Some(left) => self.need.unsatisfied || !self.need.is_near(left, self.share),
            None => true,
        };
        self.share > 0
            && self.live
            && self.reclaimed_at.is_none()
            && !self.retired
            && !self.dismissed
            && self.late == late
            && self.long_path.granted == self.beyond()
            && self
                .drained_end
                .checked_add(ahead.saturating_add(self.long_path.granted))
                == Some(self.limit_end)
            && self
                .limit_end
                .checked_add(self.limit_end - self.drained_end)
                .is_some()
            && last < self.limit_end
            && !self.is_beyond(last)
            && !self.proves(last)
            && self.booking() == self.booked
            && unmoved
    }

    fn division(&self) -> Division {
        let late = self.share / LATE_PART;
        let ahead = self.share.saturating_sub(late);
        Division { ahead, late }
    }

    /// Returns true if the peer was not told that it may send the packet `number`.
    fn is_beyond(&self, number: PacketNumber) -> bool {
        self.announced.is_some_and(|told| number >= told.limit_end)
    }

    /// Returns true if the packet `number` proves that the peer knows its smaller reserve.
    fn proves(&self, number: PacketNumber) -> bool {
        self.control.proof.is_some_and(|proof| number >= proof)
    }

    /// Returns the time since which the peer has not used its credit.
    pub(crate) fn idle_since(&self) -> Instant {
        self.last_drained.max(self.given_at)
    }

    /// Returns true if a packet was drained after the peer got its slot.
    pub(crate) fn was_heard(&self) -> bool {
        self.last_drained > self.begun_at
    }

    pub(super) fn given_at(&self) -> Instant {
        self.given_at
    }

    /// Returns when the peer got its slot.
    pub(crate) fn begun_at(&self) -> Instant {
        self.begun_at
    }

    /// Returns true if this slot was taken away and will soon be free. It may take long if RECLAIM
    /// has to be repeated, because RECLAIM or RETURN was lost or the peer does not answer.
    pub(crate) fn is_going(&self) -> bool {
        self.dismissed && self.reclaims <= 1
    }

    /// Returns the time of the last unanswered RECLAIM, and the number of RECLAIMs so far.
    pub(super) fn reclaimed(&self) -> Option<(Instant, u32)> {
        self.reclaimed_at.map(|at| (at, self.reclaims))
    }

    /// Notes that packets up to `number` were drained; the share falls to `target` if it is more.
    pub(super) fn drained(
        &mut self,
        number: PacketNumber,
        eliciting: bool,
        target: u64,
        now: Instant,
    ) {
        self.lower(target);
        self.last_drained = self.last_drained.max(now);
        self.eliciting |= eliciting;
        self.forced |= eliciting && self.is_beyond(number);
        let end = number.saturating_add(1);
        let end = match planted("credit-not-moved-after-loss") {
            true => self.drained_end.saturating_add(1),
            false => end,
        };
        if end <= self.drained_end {
            return;
        }
        self.drained_end = end;
        self.update_long_path();
        let late = self.division().late;
        self.late = self.late.min(late.max(self.ahead() / (LATE_PART - 1)));
        if self.proves(number) {
            self.control.charged = self.control.target;
            self.control.proof = None;
        }
        let granted = self.ahead().saturating_add(self.long_path.granted);
        if self.reclaimed_at.is_some() && granted == 0 && !self.dismissed {
            // The peer holds nothing but its slot, so RECLAIM needs no answer any more.
            self.reclaimed_at = None;
            self.reclaims = 0;
        }
        self.raise();
        self.note_surplus(now);
    }

    /// Sets the share. A larger one counts at once; a smaller one stops the limit until it fits,
    /// since announced numbers stay granted. A share of 0 still follows the highest number drained,
    /// which renews the numbers for control: a waiting peer must be able to repeat BLOCKED. A lower
    /// `control` takes effect once the peer has proved that it knows it.
    pub(super) fn set_share(&mut self, share: u64, control: u64, now: Instant) {
        if self.reclaimed_at.is_some() {
            return;
        }
        self.set_control(control);
        if !self.live {
            self.live = true;
            self.generation = self.generation.saturating_add(1);
            self.control.most = control;
            self.given_at = now;
        }
        if self.share == 0 && share > 0 {
            self.given_at = now;
            self.forced = true;
        }
        self.share = share;
        self.raise();
    }

    fn set_control(&mut self, control: u64) {
        if control == self.control.target {
            return;
        }
        self.control.target = control;
        self.control.charged = self.control.charged.max(control);
        self.control.most = self.control.most.max(control);
        self.control.proof = None;
    }

    /// Moves the limit up to the share, if the outstanding packets leave room. While the share is
    /// reclaimed the limit follows the highest number drained: the peer needs numbers for RETURN.
    fn raise(&mut self) {
        if !self.live || self.outstanding() > self.share {
            return;
        }
        let Division { ahead, late } = self.division();
        self.late = late.min(self.share.saturating_sub(self.ahead()));
        let all = ahead.saturating_add(self.beyond());
        let end = self.drained_end.saturating_add(all);
        self.limit_end = self.limit_end.max(end);
        self.update_long_path();
    }

    fn announce(&mut self) {
        if self.control.target < self.control.charged && self.control.proof.is_none() {
            let before = self
                .announced
                .map_or(self.limit_end, |announced| announced.limit_end);
            self.control.proof = Some(before.saturating_add(self.control.charged));
        }
        self.announced = Some(Announced {
            generation: self.generation,
            limit_end: self.limit_end,
        });
        self.forced = false;
        self.eliciting = false;
    }

    /// Handles BLOCKED: the peer has no credit, and may have missed our last announcement.
    pub(super) fn blocked(&mut self) {
        self.forced = true;
    }

    pub(super) fn begin_reclaim(&mut self, now: Instant) {
        self.share = 0;
        self.reclaimed_at = Some(now);
        self.reclaims = self.reclaims.saturating_add(1);
    }

    /// Ends the generation by a RETURN. True if it was the current one.
    pub(super) fn returned(&mut self, generation: u64, highest: PacketNumber) -> bool {
        if !self.live || generation != self.generation {
            return false;
        }
        self.end();
        let sent_end = highest.saturating_add(1).max(self.drained_end);
        self.limit_end = self.limit_end.min(sent_end);
        self.update_long_path();
        self.control.charged = self.control.charged.min(self.control.most);
        true
    }

    /// The sender of a grant that ended just now bound its packets to a size that is charged
    /// `charge`. Does nothing unless that is less than so far. The larger packets under way count
    /// as that many more of the new ones that may still arrive late.
    pub(super) fn bind(&mut self, charge: u64) {
        if charge >= self.charge {
            return;
        }
        let under_way = self.outstanding_bytes();
        // The granted numbers were not drained: the path did not carry them in this round trip.
        self.long_path
            .skip(self.limit_end.saturating_sub(self.drained_end));
        self.drained_end = self.drained_end.max(self.limit_end);
        self.update_long_path();
        self.late = under_way.div_ceil(charge.max(1));
        self.charge = charge;
    }

    /// Ends the generation if its sender was silent for too long. Returns true if it ended.
    pub(super) fn lapse(&mut self, now: Instant) -> bool {
        if self.lapse_at().is_none_or(|at| now < at) {
            return false;
        }
        self.end();
        self.limit_end = self.limit_end.min(self.drained_end);
        self.update_long_path();
        self.late = 0;
        true
    }

    fn end(&mut self) {
        self.live = false;
        self.share = 0;
        self.reclaimed_at = None;
        self.reclaims = 0;
        self.surplus = None;
    }
}

/// Returns the limit to announce: `limit`, unless the fault `unlimited-grants` is planted.
fn planted_limit(limit: PacketNumber) -> PacketNumber {
    if planted("unlimited-grants") {
        return limit.saturating_add(1 << 20);
    }
    limit
}
