//! The credit that a peer gives for its socket: which packet numbers may be used, for what, when
//! BLOCKED is due, and what a packet is charged. The receiver's half is the engine's.

use crate::limits::{
    CONTROL_CHARGE, CONTROL_PACKET, CREDIT_LAPSE, DATA_CHARGE, ETHERNET_MTU, EXTRA_PAUSE,
    MAX_DATAGRAM, SECOND_PAUSE,
};
use crate::planted;
use crate::time::{Duration, Instant, nanos};
use crate::types::PacketNumber;
use crate::wire;

/// Fewest control packets that every grant allows beyond its limit; the peer limit follows from it.
pub const CONTROL_MIN: u64 = 2;

/// The socket half of a CREDIT body: which packet numbers a sender may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketCredit {
    /// The generation that this grant belongs to; a higher one replaces it.
    pub generation: u64,
    /// Highest packet number for data. In INIT and ACCEPT it counts from the first packet number of
    /// its reader (0: only that packet), since the writer of INIT does not know that number yet.
    /// The first number is 0 except in tests.
    pub limit: PacketNumber,
    /// How many numbers beyond the limit control packets may use.
    pub control: u64,
}

impl From<&wire::Credit> for SocketCredit {
    fn from(body: &wire::Credit) -> Self {
        Self {
            generation: body.generation,
            limit: body.limit,
            control: body.control,
        }
    }
}

/// The content of a RETURN: the answer to a RECLAIM, or the notice that a generation lapsed at its
/// sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketReturn {
    /// The generation that ended.
    pub generation: u64,
    /// Highest packet number sent so far; 0 also if nothing was sent yet.
    pub highest: PacketNumber,
    /// Largest UDP payload, in bytes, of packets with a higher number; 0 if the agreed size still
    /// holds.
    pub size: usize,
}

/// Returns the charge in bytes of one UDP payload of at most `max_datagram` bytes in the receiver's
/// socket buffer, measured on Linux (true size). Between 4 KiB and 64 KiB a linear buffer is
/// rounded up to a power of two; beyond 32 KiB the kernel uses pages.
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

/// Longest pause between two BLOCKED frames while control numbers last.
const BLOCKED_MAX: Duration = Duration::from_secs(1);

/// Shortest first pause before BLOCKED: a grant is usually under way already.
const BLOCKED_MIN: Duration = Duration::from_millis(1);

/// Shortest time between two reports that the credit is used up: a few of them fit into the
/// receiver's period (`WATCH` in `suci-proto/src/credit/need.rs`).
const USED_UP_REPEAT: Duration = Duration::from_millis(50);

/// Pause between ack-eliciting packets sent only to keep the grant alive.
const REFRESH_REPEAT: Duration = Duration::from_millis(1_250);

/// The permission to send a control packet (ACK, CREDIT, RECLAIM, RETURN, BLOCKED, PING, CHALLENGE,
/// RESPONSE, CLOSE) now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlAllowance {
    /// The packet is within the limit and may have any size.
    WithinLimit,
    /// The packet is in the reserve beyond the limit: at most
    /// [`CONTROL_PACKET`] bytes of UDP payload.
    Reserve,
    /// Even the reserve is used up: no packet before this instant.
    NotBefore(Instant),
}

/// The credit that one peer gave us for one connection.
///
/// Handle a packet's acknowledgements before its credit ([`on_acked`](Self::on_acked), then
/// [`on_grant`](Self::on_grant)): a new generation that arrives with no fresh acknowledgement may
/// be older than the receiver's patience, and is returned instead of used.
#[derive(Debug)]
pub struct SendCredit {
    generation: u64,
    /// One past the highest number that may carry data. It falls to one past the highest number
    /// sent, if that is less, when the generation ends. The numbers for control begin here.
    limit_end: PacketNumber,
    control: u64,
    /// False once this generation was returned or lapsed.
    live: bool,
    /// One past the highest number sent.
    sent_end: PacketNumber,
    /// When we sent the newest packet that the receiver acknowledged.
    acked_sent_at: Instant,
    /// When the newest control packet beyond the limit was sent; `None` if another may go at once.
    beyond_at: Option<Instant>,
    /// Packets sent although all numbers were used up, since the last within them.
    extras: u8,
    refresh: Refresh,
    blocked: Option<CreditWait>,
    used_up: UsedUp,
    /// The newest packet with a PING because the reserve was low, and the time until which its
    /// answer may come.
    reserve_reported: Option<(PacketNumber, Instant)>,
    returning: Option<Returning>,
    /// Largest UDP payload, in bytes, to which packets are bound; 0 if the agreed size holds.
    size: usize,
}

/// The packets that make the receiver acknowledge and renew its grant.
#[derive(Debug)]
struct Refresh {
    /// Numbers that were unused when the newest grant came.
    window: u64,
    /// An ack-eliciting packet was sent since that grant ran low.
    elicited: bool,
    /// When the newest ack-eliciting packet was sent.
    eliciting_at: Option<Instant>,
}

/// The timer of BLOCKED while packets wait for credit.
#[derive(Debug)]
struct CreditWait {
    due: Instant,
    /// Nanoseconds from the next BLOCKED to the one after it. Each peer has room for them: a
    /// `Duration` takes twice as much.
    pause: u64,
}

/// The report about limits that were too low. Over a long path the receiver cannot see that itself:
/// when a packet comes, the limit that its sender knew was raised long ago.
#[derive(Debug, Default)]
struct UsedUp {
    /// The newest limit at which messages had to wait; `None` once it was reported.
    limit: Option<PacketNumber>,
    reported_at: Option<Instant>,
}

#[derive(Debug)]
struct Returning {
    answer: SocketReturn,
    sent: bool,
    reclaimed: bool,
    /// The RETURN gives a smaller size of packets.
    binds: bool,
}

impl SendCredit {
    /// Starts with the grant from INIT or ACCEPT, for packet numbers from `first`.
    ///
    /// `answered` is when we sent the packet that this grant answers, since the grant is no
    /// younger: INIT's sending time or, for the grant in INIT, the time in the cookie that it
    /// brought back.
    #[must_use]
    pub fn new(first: PacketNumber, initial: impl Into<SocketCredit>, answered: Instant) -> Self {
        let initial = initial.into();
        let limit_end = first.saturating_add(initial.limit).saturating_add(1);
        Self {
            generation: initial.generation,
            limit_end,
            control: initial.control,
            live: true,
            sent_end: first,
            acked_sent_at: answered,
            beyond_at: None,
            extras: 0,
            refresh: Refresh {
                window: limit_end.saturating_sub(first),
                elicited: false,
                eliciting_at: None,
            },
            blocked: None,
            used_up: UsedUp::default(),
            reserve_reported: None,
            returning: None,
            size: 0,
        }
    }

    /// Returns the generation in use or, once it ended, the last one.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the highest number for data that was granted.
    #[must_use]
    pub const fn limit(&self) -> PacketNumber {
        self.limit_end.saturating_sub(1)
    }

    /// Returns when the grant lapses unless something newer is acknowledged; `None` once it ended.
    #[must_use]
    pub fn lapse_at(&self) -> Option<Instant> {
        self.live.then(|| self.acked_sent_at + CREDIT_LAPSE)
    }

    /// Returns true if the grant may no longer be used: returned, reclaimed or out of time.
    #[must_use]
    pub fn lapsed(&self, now: Instant) -> bool {
        self.lapse_at().is_none_or(|at| now >= at)
    }

    /// Returns when a question of a sender that waits stays unanswered for a `pto` after the
    /// receiver asked for the grant back. The receiver has probably given the slot to another peer:
    /// the numbers for control that are left are of no use then.
    pub fn unanswered_at(&self, pto: impl FnOnce() -> Duration) -> Option<Instant> {
        if self.live || self.blocked.is_none() || !self.is_reclaimed() {
            return None;
        }
        self.beyond_at.map(|at| at + pto())
    }

    /// Returns true if the receiver asked for the grant back.
    #[must_use]
    pub fn is_reclaimed(&self) -> bool {
        !self.live && self.returning.as_ref().is_some_and(|r| r.reclaimed)
    }

    /// Returns true if `number` may carry data.
    #[must_use]
    pub fn may_send_data(&self, number: PacketNumber, now: Instant) -> bool {
        self.data_allowance(number, now) > 0
    }

    /// Returns how many numbers from `next` on may carry data.
    #[must_use]
    pub fn data_allowance(&self, next: PacketNumber, now: Instant) -> u64 {
        if self.lapsed(now) {
            0
        } else {
            self.limit_end.saturating_sub(next)
        }
    }

    /// Returns whether and how a control packet with this number may be sent.
    #[must_use]
    pub fn may_send_control(&self, number: PacketNumber, now: Instant) -> ControlAllowance {
        if self.may_send_data(number, now) {
            return ControlAllowance::WithinLimit;
        }
        if !self.is_beyond_reserve(number, now) {
            return ControlAllowance::Reserve;
        }
        match self.beyond_at.map(|at| at + self.extra_pause()) {
            Some(at) if now < at => ControlAllowance::NotBefore(at),
            _ => ControlAllowance::Reserve,
        }
    }

    /// Returns how long after the newest packet beyond the limit one more may go although all
    /// numbers are used up.
    const fn extra_pause(&self) -> Duration {
        match self.extras {
            0 => EXTRA_PAUSE,
            1 => SECOND_PAUSE,
            _ => CREDIT_LAPSE,
        }
    }

    /// Returns true if even the numbers for control end before this one. Then a packet may be sent
    /// only after a pause.
    #[must_use]
    pub fn is_beyond_reserve(&self, number: PacketNumber, now: Instant) -> bool {
        number >= self.closed_end(now).saturating_add(self.control)
    }

    /// Returns true if `number` is the last one for control.
    #[must_use]
    pub const fn is_last(&self, number: PacketNumber) -> bool {
        number.saturating_add(1) == self.limit_end.saturating_add(self.control)
    }

    /// Returns the first number for control: one past the limit, or past the highest number sent if
    /// the grant lapsed.
    fn closed_end(&self, now: Instant) -> PacketNumber {
        if self.live && self.lapsed(now) {
            self.limit_end.min(self.sent_end)
        } else {
            self.limit_end
        }
    }

    /// Notes that packets up to the number `last` were sent. `eliciting`: they are ack-eliciting.
    pub fn on_sent(&mut self, last: PacketNumber, now: Instant, eliciting: bool) {
        self.end_if_lapsed(now);
        if last >= self.limit_end || !self.live {
            self.extras = match self.is_beyond_reserve(last, now) {
                true => self.extras.saturating_add(1),
                false => 0,
            };
            self.beyond_at = Some(now);
        }
        if eliciting {
            self.refresh.eliciting_at = Some(now);
            self.refresh.elicited = self.refresh.elicited || self.is_low(last);
        }
        self.sent_end = self.sent_end.max(last.saturating_add(1));
    }

    /// Notes when the newest acknowledged packet was *sent*: the time to the lapse counts from
    /// then.
    pub fn on_acked(&mut self, sent_at: Instant, now: Instant) {
        self.end_if_lapsed(now);
        self.acked_sent_at = self.acked_sent_at.max(sent_at);
    }

    /// Applies a CREDIT. Returns true if it raised the limit or began a generation, and data may be
    /// sent.
    pub fn on_grant(&mut self, credit: impl Into<SocketCredit>, now: Instant) -> bool {
        let credit = credit.into();
        self.end_if_lapsed(now);
        let before = self.data_allowance(self.sent_end, now);
        let limit_end = credit.limit.saturating_add(1);
        if credit.generation > self.generation {
            self.used_up.limit = None;
            self.generation = credit.generation;
            self.limit_end = limit_end;
            self.control = credit.control;
            self.returning = None;
            self.live = true;
            self.end_if_lapsed(now);
        } else if credit.generation == self.generation && self.live {
            // Limits only rise, so the higher one is the newer announcement. Between equals the
            // order is unknown and the smaller reserve is safe.
            if limit_end == self.limit_end {
                self.control = self.control.min(credit.control);
            }
            if limit_end <= self.limit_end {
                return false;
            }
            self.limit_end = limit_end;
            self.control = credit.control;
        } else {
            if credit.generation == self.generation {
                self.make_room_for_return(limit_end);
            }
            return false;
        }
        let window = self.data_allowance(self.sent_end, now);
        self.refresh.window = window;
        self.refresh.elicited = false;
        // If there was credit before, messages wait for memory, which this CREDIT does not give.
        if window > 0 && before == 0 {
            self.blocked = None;
        }
        window > 0
    }

    /// Moves the numbers for control behind the packets that the granter drained beyond the limit
    /// of a generation that it reclaims, since RETURN may need such a number.
    fn make_room_for_return(&mut self, limit_end: PacketNumber) {
        if let Some(returning) = self.returning.as_ref().filter(|it| it.reclaimed) {
            let returned_end = returning.answer.highest.saturating_add(1);
            self.limit_end = self.limit_end.max(limit_end.min(returned_end));
        }
    }

    /// Notes that there is memory credit again: messages that wait for more of it start the timer
    /// of BLOCKED anew, without back-off.
    pub fn on_memory(&mut self) {
        self.blocked = None;
    }

    /// Applies a RECLAIM: the generation it names ends, and [`return_due`](Self::return_due) has
    /// the answer. A repeated RECLAIM is answered again, one of a past generation is ignored.
    pub fn on_reclaim(&mut self, generation: u64, now: Instant) {
        self.end_if_lapsed(now);
        if generation < self.generation {
            return;
        }
        if generation > self.generation {
            // Reclaimed before its first grant got here, with a reserve that we do not know.
            self.generation = generation;
            self.control = self.control.min(CONTROL_MIN);
        }
        if planted("reclaimed-credit-used") {
            let answer = self.answer();
            self.returning = Some(Returning {
                answer,
                sent: false,
                reclaimed: true,
                binds: false,
            });
            return;
        }
        self.end(true, now);
    }

    /// Returns the content of the RETURN frame that the next packet should carry, if any. Every
    /// BLOCKED carries it too: a receiver that missed the RETURN would answer with grants that we
    /// ignore.
    #[must_use]
    pub fn return_due(&self, now: Instant) -> Option<SocketReturn> {
        match &self.returning {
            Some(returning) => {
                (!returning.sent || self.needs_blocked(now)).then_some(returning.answer)
            }
            None => (self.live && self.lapsed(now)).then(|| self.answer()),
        }
    }

    /// Returns true if the RETURN answers a RECLAIM or binds the size of packets: it is worth a
    /// packet of its own.
    #[must_use]
    pub fn return_is_urgent(&self) -> bool {
        self.returning
            .as_ref()
            .is_some_and(|returning| (returning.reclaimed || returning.binds) && !returning.sent)
    }

    /// Binds packets from now on to at most `size` bytes of UDP payload, fewer than so far. Gives
    /// the grant back: the next one has more packets, since each is charged less. Does nothing and
    /// returns false if there is no grant to give back.
    pub fn bind(&mut self, size: usize, now: Instant) -> bool {
        if self.lapsed(now) {
            return false;
        }
        self.size = size;
        self.end(false, now);
        if let Some(returning) = &mut self.returning {
            returning.binds = true;
        }
        true
    }

    /// Returns the size, in bytes of UDP payload, to which packets are bound, if they are.
    #[must_use]
    pub fn bound(&self) -> Option<usize> {
        (self.size > 0).then_some(self.size)
    }

    /// Notes that the RETURN of [`return_due`](Self::return_due) was sent.
    pub fn on_return_sent(&mut self, now: Instant) {
        self.end_if_lapsed(now);
        if let Some(returning) = &mut self.returning {
            returning.sent = true;
        }
    }

    /// Notes that the RETURN of this generation was lost: it is due again.
    pub fn on_return_lost(&mut self, generation: u64) {
        if let Some(returning) = &mut self.returning
            && returning.answer.generation == generation
        {
            returning.sent = false;
        }
    }

    /// Returns true if the next packet should elicit an acknowledgement for the grant's sake, by a
    /// PING beside an ACK. A node that sends only ACKs is never acknowledged, so its grant would
    /// run out or lapse under a steady stream.
    #[must_use]
    pub fn refresh_due(&self, next: PacketNumber, now: Instant) -> bool {
        let stale = now >= self.acked_sent_at + CREDIT_LAPSE / 2;
        let paused = self
            .refresh
            .eliciting_at
            .is_none_or(|at| now >= at + REFRESH_REPEAT);
        (self.is_low(next) && !self.refresh.elicited) || (stale && paused)
    }

    /// Returns true if a quarter of the newest grant is left, or less.
    fn is_low(&self, next: PacketNumber) -> bool {
        let left = self.limit_end.saturating_sub(next);
        self.live && self.refresh.window > 0 && left <= self.refresh.window / 4
    }

    /// Notes that data, or acks that may not go, wait for credit: BLOCKED becomes due one `pto`
    /// from now, at once if the grant has ended. Call as often as you like.
    pub fn on_waiting(&mut self, now: Instant, pto: Duration) {
        self.end_if_lapsed(now);
        if self.blocked.is_none() {
            let pause = pto.clamp(BLOCKED_MIN, BLOCKED_MAX);
            let due = if self.live { now + pause } else { now };
            let pause = nanos(pause);
            self.blocked = Some(CreditWait { due, pause });
        }
    }

    /// Notes that messages wait because the limit is reached. Call as often as you like. Does
    /// nothing for a grant that ended.
    pub fn on_used_up(&mut self, now: Instant) {
        if self.live && !self.lapsed(now) && self.may_report(now) {
            self.used_up.limit = Some(self.limit());
        }
    }

    fn may_report(&self, now: Instant) -> bool {
        let reported_at = self.used_up.reported_at;
        reported_at.is_none_or(|at| now >= at + USED_UP_REPEAT)
    }

    /// Returns the limit that was too low in this generation, if it is to be reported: the next
    /// packet that carries messages should carry BLOCKED with it.
    #[must_use]
    pub const fn used_up(&self) -> Option<PacketNumber> {
        self.used_up.limit
    }

    /// Notes that BLOCKED with [`used_up`](Self::used_up) was sent.
    pub fn on_used_up_reported(&mut self, now: Instant) {
        self.used_up = UsedUp {
            limit: None,
            reported_at: Some(now),
        };
    }

    /// Returns true if a control packet with this number takes from the second half of the reserve,
    /// or lies beyond it.
    fn is_reserve_low(&self, number: PacketNumber, now: Instant) -> bool {
        number >= self.closed_end(now).saturating_add(self.control / 2)
    }

    /// Returns true if the packet `number` should [report](Self::report_low_reserve) that the
    /// reserve is low. Returns false while the answer to the last report may be under way. A packet
    /// with BLOCKED is acknowledged, so two ends whose reserves are low would otherwise answer each
    /// other without end.
    #[must_use]
    pub fn reserve_report_due(&self, number: PacketNumber, now: Instant) -> bool {
        let answered = |reported: PacketNumber| self.limit_end > reported;
        self.is_reserve_low(number, now)
            && self
                .reserve_reported
                .is_none_or(|(reported, until)| answered(reported) || now >= until)
    }

    /// Makes BLOCKED due at once because the reserve is low: the packet `number` carries it.
    pub fn report_low_reserve(&mut self, number: PacketNumber, now: Instant, pto: Duration) {
        self.reserve_reported = Some((number, now + pto));
        self.on_waiting(now, pto);
        if let Some(blocked) = &mut self.blocked {
            blocked.due = blocked.due.min(now);
        }
    }

    /// Returns when BLOCKED is due, while something waits.
    #[must_use]
    pub fn blocked_timer(&self) -> Option<Instant> {
        self.blocked.as_ref().map(|blocked| blocked.due)
    }

    /// Returns true if BLOCKED is due.
    #[must_use]
    pub fn needs_blocked(&self, now: Instant) -> bool {
        self.blocked_timer().is_some_and(|due| now >= due)
    }

    /// Notes that BLOCKED was sent: the next one follows after twice the pause.
    pub fn on_blocked_sent(&mut self, now: Instant) {
        if let Some(blocked) = &mut self.blocked {
            let pause = Duration::from_nanos(blocked.pause);
            blocked.due = now + pause;
            blocked.pause = nanos(pause.saturating_mul(2).min(BLOCKED_MAX));
            if planted("lost-blocked") {
                blocked.due = now + Duration::from_secs(86_400);
            }
        }
    }

    /// Checks that BLOCKED is due in time while packets wait for credit.
    ///
    /// # Errors
    /// The time when BLOCKED is due, if that is later than one second (`BLOCKED_MAX`) from now.
    pub fn check(&self, now: Instant) -> Result<(), Instant> {
        match self.blocked_timer() {
            Some(due) if due > now + BLOCKED_MAX => Err(due),
            _ => Ok(()),
        }
    }

    /// Notes that nothing waits for credit now.
    pub fn on_idle(&mut self, now: Instant) {
        self.blocked = None;
        if self.may_report(now) {
            self.used_up.reported_at = None;
        }
    }

    /// Ends the generation if it has lapsed. It never comes back: the receiver may have given its
    /// budget to others.
    fn end_if_lapsed(&mut self, now: Instant) {
        if self.live && self.lapsed(now) {
            self.end(false, now);
        }
    }

    fn end(&mut self, reclaimed: bool, now: Instant) {
        if self.live {
            self.used_up.limit = None;
            self.limit_end = self.limit_end.min(self.sent_end);
            if let Some(blocked) = &mut self.blocked {
                blocked.due = now;
            }
        }
        self.live = false;
        let unsent = |returning: &Returning| returning.reclaimed && !returning.sent;
        let reclaimed = reclaimed || self.returning.as_ref().is_some_and(unsent);
        self.returning = Some(Returning {
            answer: self.answer(),
            sent: false,
            reclaimed,
            binds: false,
        });
    }

    fn answer(&self) -> SocketReturn {
        SocketReturn {
            generation: self.generation,
            highest: self.sent_end.saturating_sub(1),
            size: self.size,
        }
    }
}
