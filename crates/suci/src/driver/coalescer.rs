//! Coalescing: messages that a program sends in a row leave together, even without a batch.
//!
//! A message that leaves alone costs a system call and a pass through the kernel. So does the rest
//! of a message of 64 KiB after its first train. A program that sends several messages one right
//! after the other, before it waits, would make its next call before that system call returned. So
//! its messages may wait for that call. It sends them if it waits for something, or if 20 us are
//! over. Messages wait only after the program has made such calls many times in a row.
//! Acknowledgements, too, wait for such a row, if the program polls for more to answer first. If no
//! call follows, the node's helper sends what waits within two milliseconds, and the program then
//! needs twice as many quick calls before anything waits again. Rows of a thousand messages and
//! more undo that.
//!
//! Rejected: a timer (as Nagle's algorithm or `TCP_CORK` have), and holding back messages that fill
//! no train while others are in flight. Both delay the end of every row, even if the program then
//! waits for the answer.

use crate::backoff::Backoff;
use std::time::Duration;
use suci_proto::time::Instant;
use suci_proto::types::NodeId;

/// The longest that a message waits while the program goes on sending.
const HOLD: Duration = Duration::from_micros(20);

/// This many bytes do not wait for more messages: they fill all trains but the last of many.
const FULL: u64 = 1 << 20;

/// A call this soon after the end of the last one shows that the program goes on sending: a system
/// call that sends takes as long.
const SOON: Duration = Duration::from_micros(5);

/// The same bound, if only the beginning of the last call is known.
const SOON_FROM_BEGIN: Duration = Duration::from_micros(50);

/// A hold that lasted this long was not ended by a program that goes on sending.
const LATE: Duration = Duration::from_micros(100);

/// Quick calls before the first hold. Also the messages in one row, if recent rows had one message
/// each.
const CALLS: u32 = 32;

/// Quick calls count up to this many times the number needed. Calls that come late reduce the
/// count.
const ENOUGH: u32 = 4;

/// Rows of at least this many messages may leave in halves. One more system call costs both sides
/// about 6 us, a message 0.25 us: half of a row should be worth a quarter of that.
const HALVES: u32 = 12;

/// After this many rows of one message, the next row is expected to have one, too.
const ROWS: u32 = 16;

/// The most doublings of the calls needed: 2,048 calls.
const MOST_MISSES: u32 = 6;

/// Holds in time that undo one late hold.
const REDEEMING: u32 = 64;

/// Messages that wait for the next call.
#[derive(Clone, Copy, Debug)]
struct Held {
    since: Instant,
    bytes: u64,
    messages: u32,
    /// The peer, if all of them are for one.
    to: Option<NodeId>,
}

/// Acknowledgements that wait for a row.
#[derive(Clone, Copy, Debug)]
struct Acks {
    since: Instant,
    /// The look after which they wait found messages: the program has more to answer first.
    found: bool,
    /// Messages were sent since they began to wait.
    answered: bool,
}

/// Decides if messages and acknowledgements wait for the program's next call.
#[derive(Debug)]
pub(crate) struct SendCoalescer {
    /// The helper sends what waits if the program stays away.
    pub(crate) allowed: bool,
    held: Option<Held>,
    acks: Option<Acks>,
    /// Holds so far, of messages or acknowledgements.
    holds: u32,
    /// Quick calls. Each call that is not quick halves the number. The first call after a wait does
    /// not count.
    calls: u32,
    /// Holds that ended late, minus those made up for; and the holds in time since.
    misses: u32,
    redeemed: u32,
    /// Whether letting acknowledgements wait pays. If not, one look in sixteen tries it.
    ack_rides: Backoff,
    /// Messages sent since the program last waited.
    row: u32,
    /// Messages of the row before.
    last_row: u32,
    /// This many of the next rows are expected to have more than one message.
    rows: u32,
    /// Time at which the last call that sent or waited ended (`is_end`) or began.
    last: Instant,
    is_end: bool,
}

impl SendCoalescer {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            allowed: false,
            held: None,
            acks: None,
            holds: 0,
            calls: 0,
            misses: 0,
            redeemed: 0,
            ack_rides: Backoff::new(4),
            row: 0,
            last_row: 0,
            rows: 0,
            last: now,
            is_end: false,
        }
    }

    /// Whether a message waits.
    pub(crate) fn holds_messages(&self) -> bool {
        self.held.is_some()
    }

    /// Begins a hold for output that a call left unsent. The helper sends it as it sends other
    /// holds.
    pub(super) fn on_tx_incomplete(&mut self) {
        self.holds = self.holds.wrapping_add(1);
    }

    /// The number of the last hold.
    pub(super) fn last_hold(&self) -> u32 {
        self.holds
    }

    /// The number of the hold, if messages or acknowledgements wait.
    pub(crate) fn hold_number(&self) -> Option<u32> {
        (self.held.is_some() || self.acks.is_some()).then_some(self.holds)
    }

    /// Whether the messages that wait have waited long enough.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let is_over = |held: Held| now.since(held.since) >= HOLD || held.bytes >= FULL;
        self.held.is_some_and(is_over)
    }

    /// Decides if a message of `bytes` waits. The program `called`, and the message was accepted
    /// `now`, for one peer or for several (`None`).
    pub(super) fn keeps(
        &mut self,
        called: Instant,
        now: Instant,
        to: Option<NodeId>,
        bytes: u64,
    ) -> bool {
        let soon = if self.is_end { SOON } else { SOON_FROM_BEGIN };
        let needed = self.needed();
        // A wait before this call says nothing about how quick the program is.
        if self.row > 0 {
            self.calls = match called.since(self.last) < soon {
                true => (self.calls + 1).min(ENOUGH * needed),
                false => self.calls / 2,
            };
        }
        self.row = self.row.saturating_add(1);
        self.last = now;
        // A call that only queues its message ends at once.
        self.is_end = true;
        if let Some(acks) = &mut self.acks {
            acks.answered = true;
        }
        if let Some(held) = &mut self.held {
            held.bytes = held.bytes.saturating_add(bytes);
            held.messages += 1;
            held.to = held.to.filter(|&before| to == Some(before));
            return !self.is_over(now);
        }
        let in_row = self.rows > 0 || self.row > CALLS;
        let begins = self.allowed && in_row && self.calls >= needed && bytes < FULL;
        if begins {
            self.holds = self.holds.wrapping_add(1);
            self.held = Some(Held {
                since: now,
                bytes,
                messages: 1,
                to,
            });
        } else {
            self.is_end = false;
        }
        begins
    }

    /// Quick calls needed before anything waits.
    const fn needed(&self) -> u32 {
        CALLS << self.misses
    }

    /// The program polls at `now`, and acknowledgements are due. Returns since when they wait, if
    /// they are to wait for the row that the program is likely to send next. If it sent none since
    /// they last waited, they do not wait.
    pub(super) fn take_row_chance(&mut self, now: Instant) -> Option<Instant> {
        if let Some(Acks { since, found, .. }) = self.acks.take() {
            if !found {
                self.ack_rides.learn(false);
            }
            return Some(since).filter(|_| found && now.since(since) < HOLD);
        }
        let likely = self.allowed && self.rows > 0 && self.calls >= self.needed();
        (likely && self.ack_rides.take()).then_some(now)
    }

    /// Acknowledgements wait from now on; `found` tells whether the look found messages.
    pub(super) fn keep_acks(&mut self, since: Instant, found: bool) {
        self.holds = self.holds.wrapping_add(1);
        self.acks = Some(Acks {
            since,
            found,
            answered: false,
        });
    }

    /// Returns the peer and the number of messages, if the messages that wait are half of a row
    /// like the last one and for one peer. If nothing else is in flight to that peer, they should
    /// leave: two programs that answer each other's rows then work at the same time instead of by
    /// turns.
    pub(super) fn half(&self) -> Option<(NodeId, u64)> {
        let held = self.held?;
        let half = self.last_row >= HALVES && held.messages == self.last_row / 2;
        Some((held.to.filter(|_| half)?, held.messages.into()))
    }

    /// Whether the end of a call that just sent its message must be noted by `on_end`.
    pub(super) fn wants_end(&self) -> bool {
        self.row > 1 || self.rows > 0
    }

    /// A call ended, or at least its wait.
    pub(super) fn on_end(&mut self, now: Instant) {
        self.last = now;
        self.is_end = true;
    }

    /// Everything that may leave now does. Returns whether acknowledgements had waited.
    pub(super) fn on_output(&mut self, now: Instant) -> bool {
        let acks = self.acks.take();
        if let Some(acks) = acks {
            let soon = now.since(acks.since) < LATE;
            if acks.answered || !acks.found {
                self.ack_rides.learn(acks.answered && soon);
            }
        }
        if let Some(held) = self.held.take() {
            self.learn(now, held);
        }
        acks.is_some()
    }

    /// Takes note of when messages that waited leave.
    fn learn(&mut self, now: Instant, held: Held) {
        if now.since(held.since) >= LATE {
            self.calls = 0;
            self.misses = (self.misses + 1).min(MOST_MISSES);
            self.redeemed = 0;
        } else {
            self.redeemed += 1;
        }
        if self.redeemed == REDEEMING {
            self.redeemed = 0;
            self.misses = self.misses.saturating_sub(1);
        }
    }

    /// The program waits for something.
    pub(super) fn on_wait(&mut self) {
        let row = core::mem::take(&mut self.row);
        if row == 0 {
            return;
        }
        self.last_row = row;
        self.rows = match row {
            1 => self.rows.saturating_sub(1),
            _ => ROWS,
        };
    }
}

#[cfg(test)]
impl SendCoalescer {
    /// Makes the next messages wait, however slow the program is.
    pub(crate) fn expect_row(&mut self) {
        self.expect_row_of(0);
    }

    /// The same, after a row of `last_row` messages.
    pub(crate) fn expect_row_of(&mut self, last_row: u32) {
        let allowed = true;
        let (calls, rows) = (u32::MAX / 2, ROWS);
        *self = Self {
            allowed,
            calls,
            rows,
            last_row,
            ..Self::new(self.last)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Duration = Duration::from_micros(1);

    const PEER: Option<NodeId> = Some(NodeId(1));

    /// A coalescer that may hold messages, and the time.
    fn coalescer() -> (SendCoalescer, Instant) {
        let coalescer = SendCoalescer {
            allowed: true,
            ..SendCoalescer::new(Instant::ZERO)
        };
        (coalescer, Instant::ZERO)
    }

    /// A message of 100 bytes, `pause` after the last call; whether it left, and took others along.
    fn send(coalescer: &mut SendCoalescer, now: &mut Instant, pause: Duration) -> bool {
        *now += pause;
        let leaves = !coalescer.keeps(*now, *now, PEER, 100);
        if leaves {
            coalescer.on_output(*now);
            coalescer.on_end(*now);
        }
        leaves
    }

    /// Sends `count` messages. Returns how many of the calls sent at once, for themselves or
    /// others.
    fn sends(coalescer: &mut SendCoalescer, now: &mut Instant, count: u32) -> usize {
        let leave = (0..count).filter(|_| send(coalescer, now, CALL));
        leave.count()
    }

    fn wait(coalescer: &mut SendCoalescer, now: Instant) {
        coalescer.on_output(now);
        coalescer.on_wait();
    }

    #[test]
    fn what_is_sent_in_a_row_leaves_together_after_a_while() {
        let (mut coalescer, mut now) = coalescer();
        assert_eq!(sends(&mut coalescer, &mut now, CALLS), CALLS as usize);
        let outputs = sends(&mut coalescer, &mut now, 2_100);
        assert_eq!(outputs, 100, "20 wait, and leave with the next");
    }

    #[test]
    fn what_is_sent_now_and_then_waits_for_nothing() {
        let (mut coalescer, mut now) = coalescer();
        assert!((0..1_000).all(|_| send(&mut coalescer, &mut now, SOON)));
    }

    /// A program that sends one message and waits for the answer.
    #[test]
    fn a_lone_request_waits_for_nothing() {
        let (mut coalescer, mut now) = coalescer();
        for _ in 0..1_000 {
            assert!(send(&mut coalescer, &mut now, CALL));
            wait(&mut coalescer, now);
        }
    }

    /// The program sends several requests, or answers several, before it waits again.
    #[test]
    fn several_requests_leave_when_the_program_waits() {
        let (mut coalescer, mut now) = coalescer();
        let mut left = 0;
        for _ in 0..1_000 {
            left += sends(&mut coalescer, &mut now, 3);
            wait(&mut coalescer, now);
        }
        // Two of three tell how soon they come.
        assert_eq!(left, CALLS as usize * 3 / 2 - 1);
        // Pauses between them, and it is as before.
        for _ in 0..1_000 {
            left += usize::from(send(&mut coalescer, &mut now, SOON));
            left += usize::from(send(&mut coalescer, &mut now, SOON));
            wait(&mut coalescer, now);
        }
        assert!(left > 2_000, "{left}");
    }

    /// The program takes a while to read before it answers the first. That says nothing about the
    /// other answers.
    #[test]
    fn who_begins_late_answers_together() {
        let (mut coalescer, mut now) = coalescer();
        let mut left = 0;
        for _ in 0..100 {
            now += SOON;
            left += sends(&mut coalescer, &mut now, 16);
            wait(&mut coalescer, now);
        }
        assert!(left < 2 * CALLS as usize, "{left} of 1600 by themselves");
    }

    #[test]
    fn much_waits_for_nothing_more() {
        let (mut coalescer, mut now) = coalescer();
        sends(&mut coalescer, &mut now, CALLS + 1);
        assert!(coalescer.holds_messages());
        assert!(
            !coalescer.keeps(now, now, PEER, FULL),
            "the next takes it along"
        );
        coalescer.on_output(now);
        assert!(!coalescer.keeps(now, now, PEER, FULL), "enough by itself");
    }

    /// A program that computes after each row: the last message waits for the helper.
    #[test]
    fn who_stays_away_after_rows_must_send_longer_ones() {
        let (mut coalescer, mut now) = coalescer();
        let mut late = 0;
        for _ in 0..100 {
            sends(&mut coalescer, &mut now, 3 * CALLS);
            late += u32::from(coalescer.holds_messages());
            now += Duration::from_millis(2);
            coalescer.on_output(now);
        }
        assert!((1..=3).contains(&late), "{late}");
        // Long rows show that it pays.
        sends(&mut coalescer, &mut now, 100_000);
        assert_eq!(coalescer.misses, 0);
    }

    #[test]
    fn half_of_a_row_may_leave_if_the_one_before_was_as_long() {
        let (mut coalescer, mut now) = coalescer();
        let mut row = |length: u32, other: Option<NodeId>| {
            let half = (0..length).filter(|at| {
                now += CALL;
                let to = if at % 2 == 0 { PEER } else { other };
                if !coalescer.keeps(now, now, to, 100) {
                    coalescer.on_output(now);
                }
                coalescer.half().is_some()
            });
            let halves = half.count();
            wait(&mut coalescer, now);
            halves
        };
        for _ in 0..4 {
            row(HALVES, PEER);
        }
        assert_eq!(row(HALVES, PEER), 1);
        assert_eq!(row(HALVES, None), 0, "not of a row for several peers");
        assert_eq!(row(HALVES / 2, PEER), 1);
        assert_eq!(row(HALVES, PEER), 0, "the one before was short");
    }

    /// Acknowledgements wait for a row; where none comes soon, they seldom do.
    #[test]
    fn acknowledgements_wait_while_it_is_worth_it() {
        let (mut coalescer, mut now) = coalescer();
        let mut rows = |coalescer: &mut SendCoalescer, away: Duration| {
            let mut kept = 0;
            for _ in 0..100 {
                if let Some(since) = coalescer.take_row_chance(now) {
                    coalescer.keep_acks(since, false);
                    kept += 1;
                    assert!(coalescer.hold_number().is_some() && !coalescer.holds_messages());
                }
                now += away;
                sends(coalescer, &mut now, 8);
                wait(coalescer, now);
                assert!(coalescer.hold_number().is_none());
            }
            kept
        };
        let kept = rows(&mut coalescer, CALL);
        assert!(kept > 90, "{kept} of 100");
        let kept = rows(&mut coalescer, LATE);
        assert!(kept < 20, "{kept} of 100");
        assert_eq!(coalescer.misses, 0, "the rows themselves leave together");
        let kept = rows(&mut coalescer, CALL);
        assert!(kept > 80, "{kept} of 100");
        // A program that only polls lets acknowledgements wait at one poll in sixteen. So does one
        // that then does something other than send.
        for looks_only in [true, false] {
            let mut kept = 0;
            for _ in 0..1_000 {
                if let Some(since) = coalescer.take_row_chance(now) {
                    coalescer.keep_acks(since, false);
                    kept += 1;
                }
                if !looks_only {
                    coalescer.on_output(now);
                }
            }
            assert!((10..100).contains(&kept), "{kept} of 1000");
        }
    }

    /// More to answer is found at each look: they wait a little longer, but not for ever.
    #[test]
    fn acknowledgements_wait_no_longer_than_messages() {
        let (mut coalescer, mut now) = coalescer();
        coalescer.expect_row();
        let begun = now;
        while let Some(since) = coalescer.take_row_chance(now) {
            assert_eq!(since, begun);
            coalescer.keep_acks(since, true);
            now += CALL;
        }
        assert_eq!(now.since(begun), HOLD);
        assert!(coalescer.take_row_chance(now).is_some(), "nobody was late");
    }

    #[test]
    fn where_nobody_looks_after_it_nothing_waits() {
        let (mut coalescer, mut now) = (SendCoalescer::new(Instant::ZERO), Instant::ZERO);
        assert_eq!(sends(&mut coalescer, &mut now, 1_000), 1_000);
    }
}
