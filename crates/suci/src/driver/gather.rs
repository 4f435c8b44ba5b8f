//! Gathering: what a program sends in a row leaves together, although it made no batch.
//!
//! A message that leaves alone costs a system call and a pass through the kernel, and so does what a message of 64 KiB has
//! left after its first train. A program that sends several messages before it waits for anything, one right after the
//! other, is back before such a call would have returned. So what it sends may wait for its next call, which takes it along
//! if it is one that waits, or if 20 us are over. Nothing waits for a program that only may call again: it must have done so
//! many times in a row. Its acknowledgements, too, wait for such a row where it first asks whether there is more to answer.
//! Should it stay away, the node's helper sends what waits, within two milliseconds, and twice as many
//! calls are needed before anything waits again, until rows of a thousand and more have shown that they are worth it.
//!
//! Rejected: a timer (Nagle's, or that of a TCP that corks), and to hold back what fills no train while there is something
//! in flight. Both delay the end of every row, also where the program then waits for what comes of it.

use crate::tries::Tries;
use std::time::Duration;
use suci_proto::time::Instant;

/// The longest that a message waits while the program goes on sending.
const HOLD: Duration = Duration::from_micros(20);

/// So much waits for nothing more: it fills trains but for the last of many.
const FULL: u64 = 1 << 20;

/// A program that sends so soon after its last call was over is about to go on: a system call that sends takes as long.
const SOON: Duration = Duration::from_micros(5);

/// The same where only the beginning of that call is known.
const SOON_FROM_BEGIN: Duration = Duration::from_micros(50);

/// A hold that lasted so long was not ended by a program that goes on.
const LATE: Duration = Duration::from_micros(100);

/// Calls that came soon before the first hold; also messages in one row, if none was longer than one message of late.
const CALLS: u32 = 32;

/// Calls that come late count against so many times as many as are needed, at most.
const ENOUGH: u32 = 4;

/// Rows of so many messages may leave in halves.
const HALVES: u32 = 12;

/// Rows of one message before all are taken for such.
const ROWS: u32 = 16;

/// After how many late ends the calls needed are doubled no more: 2,048.
const MOST_MISSES: u32 = 6;

/// So many holds that ended in time make up for a late one.
const REDEEMING: u32 = 64;

/// What waits for the next call.
#[derive(Clone, Copy, Debug)]
struct Held {
    since: Instant,
    bytes: u64,
    /// There are no messages yet, only acknowledgements.
    acks: bool,
}

/// Whether what the program sends waits for its next call.
#[derive(Debug)]
pub(crate) struct Gather {
    /// Somebody looks after what waits if the program stays away.
    pub(crate) allowed: bool,
    held: Option<Held>,
    /// Holds so far.
    holds: u32,
    /// Calls that came soon after the one before; each that did not halves it. The first after a wait is neither.
    calls: u32,
    /// Holds that ended late, less those that were made up for, and how many were in time since.
    misses: u32,
    redeemed: u32,
    /// Whether it is worth it to let acknowledgements wait.
    rides: Tries,
    /// Messages sent since the program last waited.
    row: u32,
    /// Messages of the row before.
    last_row: u32,
    /// So many rows more are taken for longer ones than of one message.
    rows: u32,
    /// When the last call that sent or waited was over, or began.
    last: Instant,
    is_end: bool,
}

impl Gather {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            allowed: false,
            held: None,
            holds: 0,
            calls: 0,
            misses: 0,
            redeemed: 0,
            rides: Tries::new(4),
            row: 0,
            last_row: 0,
            rows: 0,
            last: now,
            is_end: false,
        }
    }

    /// Whether a message waits.
    pub(crate) fn holds(&self) -> bool {
        self.held.is_some_and(|held| !held.acks)
    }

    /// Which hold it is, if anything waits, be it acknowledgements only: they have numbers.
    pub(crate) fn hold(&self) -> Option<u32> {
        self.held.map(|_| self.holds)
    }

    /// Whether the messages that wait have waited long enough.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let is_over = |held: Held| now.since(held.since) >= HOLD || held.bytes >= FULL;
        self.held.is_some_and(|held| !held.acks && is_over(held))
    }

    /// The program `called`, and a message of so many bytes was accepted `now`. Whether the message waits.
    pub(super) fn keeps(&mut self, called: Instant, now: Instant, bytes: u64) -> bool {
        let soon = if self.is_end { SOON } else { SOON_FROM_BEGIN };
        let needed = self.needed();
        // Nothing waited while the program waited, however long it took to come back.
        if self.row > 0 {
            self.calls = match called.since(self.last) < soon {
                true => (self.calls + 1).min(ENOUGH * needed),
                false => self.calls / 2,
            };
        }
        self.row = self.row.saturating_add(1);
        self.last = now;
        // A call that only queues what it accepted is over at once.
        self.is_end = true;
        self.learn_of_acks(now);
        if let Some(held) = &mut self.held {
            held.bytes = held.bytes.saturating_add(bytes);
            return !self.is_over(now);
        }
        let in_row = self.rows > 0 || self.row > CALLS;
        let begins = self.allowed && in_row && self.calls >= needed && bytes < FULL;
        if begins {
            self.begin_hold(now, bytes, false);
        } else {
            self.is_end = false;
        }
        begins
    }

    fn begin_hold(&mut self, since: Instant, bytes: u64, acks: bool) {
        self.held = Some(Held { since, bytes, acks });
        self.holds = self.holds.wrapping_add(1);
    }

    /// Calls that must have come soon before anything waits.
    const fn needed(&self) -> u32 {
        CALLS << self.misses
    }

    /// The program looks what there is, and acknowledgements are due: whether it is likely to send a row next. Not if it did
    /// not since they last waited.
    pub(super) fn is_row_likely(&mut self) -> bool {
        if self.held.take_if(|held| held.acks).is_some() {
            self.rides.learn(false);
            return false;
        }
        self.allowed && self.rows > 0 && self.calls >= self.needed() && self.rides.take()
    }

    /// Acknowledgements wait for it.
    pub(super) fn keep_acks(&mut self, now: Instant) {
        self.begin_hold(now, 0, true);
    }

    /// A message or everything leaves: if acknowledgements waited for that, they do no longer.
    fn learn_of_acks(&mut self, now: Instant) {
        if let Some(held) = self.held.take_if(|held| held.acks) {
            self.rides.learn(now.since(held.since) < LATE);
        }
    }

    /// Messages sent since the program last waited.
    pub(super) const fn row(&self) -> u32 {
        self.row
    }

    /// Whether half of a row waits, if it is as long as the last. Where nothing else is under way to the peer, that should leave:
    /// two programs that answer each other's rows are busy at the same time then, instead of by turns.
    pub(super) fn is_half(&self) -> bool {
        self.last_row >= HALVES && self.row == self.last_row / 2
    }

    /// Whether it matters when a call ends that just sent what it accepted.
    pub(super) fn wants_end(&self) -> bool {
        self.row > 1 || self.rows > 0
    }

    /// A call ended, or at least its wait.
    pub(super) fn on_end(&mut self, now: Instant) {
        self.last = now;
        self.is_end = true;
    }

    /// Everything leaves that may.
    pub(super) fn on_output(&mut self, now: Instant) {
        self.learn_of_acks(now);
        let Some(held) = self.held.take() else {
            return;
        };
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
impl Gather {
    /// What is sent next waits, however slow the program is.
    pub(crate) fn expect_row(&mut self) {
        self.expect_row_of(0);
    }

    /// As many as in the row before.
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

    /// One that may hold, and the time.
    fn gather() -> (Gather, Instant) {
        let gather = Gather {
            allowed: true,
            ..Gather::new(Instant::ZERO)
        };
        (gather, Instant::ZERO)
    }

    /// A message of 100 bytes, `pause` after the last call; whether it left, and took others along.
    fn send(gather: &mut Gather, now: &mut Instant, pause: Duration) -> bool {
        *now += pause;
        let leaves = !gather.keeps(*now, *now, 100);
        if leaves {
            gather.on_output(*now);
            gather.on_end(*now);
        }
        leaves
    }

    /// How many of so many left at once, or took others along.
    fn sends(gather: &mut Gather, now: &mut Instant, count: u32) -> usize {
        let leave = (0..count).filter(|_| send(gather, now, CALL));
        leave.count()
    }

    fn wait(gather: &mut Gather, now: Instant) {
        gather.on_output(now);
        gather.on_wait();
    }

    #[test]
    fn what_is_sent_in_a_row_leaves_together_after_a_while() {
        let (mut gather, mut now) = gather();
        assert_eq!(sends(&mut gather, &mut now, CALLS), CALLS as usize);
        let outputs = sends(&mut gather, &mut now, 2_100);
        assert_eq!(outputs, 100, "20 wait, and leave with the next");
    }

    #[test]
    fn what_is_sent_now_and_then_waits_for_nothing() {
        let (mut gather, mut now) = gather();
        assert!((0..1_000).all(|_| send(&mut gather, &mut now, SOON)));
    }

    /// A program that sends one message and waits for the answer.
    #[test]
    fn a_lone_request_waits_for_nothing() {
        let (mut gather, mut now) = gather();
        for _ in 0..1_000 {
            assert!(send(&mut gather, &mut now, CALL));
            wait(&mut gather, now);
        }
    }

    /// It sends several requests, or answers several, before it waits again.
    #[test]
    fn several_requests_leave_when_the_program_waits() {
        let (mut gather, mut now) = gather();
        let mut left = 0;
        for _ in 0..1_000 {
            left += sends(&mut gather, &mut now, 3);
            wait(&mut gather, now);
        }
        // Two of three tell how soon they come.
        assert_eq!(left, CALLS as usize * 3 / 2 - 1);
        // Pauses between them, and it is as before.
        for _ in 0..1_000 {
            left += usize::from(send(&mut gather, &mut now, SOON));
            left += usize::from(send(&mut gather, &mut now, SOON));
            wait(&mut gather, now);
        }
        assert!(left > 2_000, "{left}");
    }

    /// It takes a while to read what came before it answers the first: that says nothing about the others.
    #[test]
    fn who_begins_late_answers_together() {
        let (mut gather, mut now) = gather();
        let mut left = 0;
        for _ in 0..100 {
            now += SOON;
            left += sends(&mut gather, &mut now, 16);
            wait(&mut gather, now);
        }
        assert!(left < 2 * CALLS as usize, "{left} of 1600 by themselves");
    }

    #[test]
    fn much_waits_for_nothing_more() {
        let (mut gather, mut now) = gather();
        sends(&mut gather, &mut now, CALLS + 1);
        assert!(gather.holds());
        assert!(!gather.keeps(now, now, FULL), "the next takes it along");
        gather.on_output(now);
        assert!(!gather.keeps(now, now, FULL), "enough by itself");
    }

    /// A program that computes after each row: the last message waits for the helper.
    #[test]
    fn who_stays_away_after_rows_must_send_longer_ones() {
        let (mut gather, mut now) = gather();
        let mut late = 0;
        for _ in 0..100 {
            sends(&mut gather, &mut now, 3 * CALLS);
            late += u32::from(gather.holds());
            now += Duration::from_millis(2);
            gather.on_output(now);
        }
        assert!((1..=3).contains(&late), "{late}");
        // Long rows show that it pays.
        sends(&mut gather, &mut now, 100_000);
        assert_eq!(gather.misses, 0);
    }

    #[test]
    fn half_of_a_row_may_leave_if_the_one_before_was_as_long() {
        let (mut gather, mut now) = gather();
        let mut halves = Vec::new();
        for length in [HALVES, HALVES, 2 * HALVES, HALVES / 2, HALVES] {
            let half = (1..=length).filter(|_| {
                sends(&mut gather, &mut now, 1);
                gather.is_half()
            });
            halves.push(half.count());
            wait(&mut gather, now);
        }
        assert_eq!(halves, [0, 1, 1, 0, 0]);
    }

    /// Acknowledgements wait for a row; where none comes soon, they seldom do.
    #[test]
    fn acknowledgements_wait_while_it_is_worth_it() {
        let (mut gather, mut now) = gather();
        let mut rows = |gather: &mut Gather, away: Duration| {
            let mut kept = 0;
            for _ in 0..100 {
                if gather.is_row_likely() {
                    gather.keep_acks(now);
                    kept += 1;
                    assert!(gather.hold().is_some() && !gather.holds());
                }
                now += away;
                sends(gather, &mut now, 8);
                wait(gather, now);
            }
            kept
        };
        let kept = rows(&mut gather, CALL);
        assert!(kept > 90, "{kept} of 100");
        let kept = rows(&mut gather, LATE);
        assert!(kept < 20, "{kept} of 100");
        assert_eq!(gather.misses, 0, "the rows themselves leave together");
        let kept = rows(&mut gather, CALL);
        assert!(kept > 80, "{kept} of 100");
        // Who only looks gets a row's chance once in sixteen times.
        let looks = (0..1_000).filter(|_| {
            let likely = gather.is_row_likely();
            if likely {
                gather.keep_acks(now);
            }
            likely
        });
        let kept = looks.count();
        assert!(kept < 100, "{kept} of 1000");
    }

    #[test]
    fn where_nobody_looks_after_it_nothing_waits() {
        let (mut gather, mut now) = (Gather::new(Instant::ZERO), Instant::ZERO);
        assert_eq!(sends(&mut gather, &mut now, 1_000), 1_000);
    }
}
