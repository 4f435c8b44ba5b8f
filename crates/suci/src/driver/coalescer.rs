//! Coalescing: messages that a program sends in a burst leave together, even without a batch.
//!
//! A program that made 32 sends in quick succession (each began within 5 us of the end of the one
//! before) has its next messages wait for its next call. They leave together when the program
//! makes a call that waits, finds no message, or changes anything; else with a send that comes
//! 20 us after the first of them, or with which they reach 1 MiB. If the program stays away, the
//! node's helper sends them within 2 ms. The program must then make twice as many quick sends, up
//! to 2,048, before a message waits again; each wait that ends in time makes that a 64th less.
//!
//! Waiting pays because a message that leaves alone costs a system call and a pass through the
//! kernel: the program would make its next call before that system call returned. Short bursts
//! between two waits count, too: 3 requests, then a wait for the answers, make 2 quick sends. A
//! lone message between two waits takes 2 quick sends back.
//!
//! Rejected: a timer (as Nagle's algorithm or `TCP_CORK` have), and holding back messages that fill
//! no train while others are in flight. Both delay the end of every burst, even if the program then
//! waits for the answer. Also rejected: acknowledgements that wait for a likely burst, and bursts
//! that leave in halves. Together they made one mix of short requests 1.1 times as fast.

use std::time::Duration;
use suci_proto::time::Instant;

/// Maximum time that a message waits while the program goes on sending.
const HOLD: Duration = Duration::from_micros(20);

/// Messages of this many bytes do not wait: of their many trains only the last is not full.
const FULL: u64 = 1 << 20;

/// A send that begins this soon after the end of the last one is quick: a system call that sends
/// takes as long.
const SOON: Duration = Duration::from_micros(5);

/// A hold that lasted this long was ended by the helper, or by a program that had stopped sending.
const LATE: Duration = Duration::from_micros(100);

/// Quick sends before the first hold...
const QUICK_SENDS: u32 = 32;

/// ... and the most that late holds make of it.
const MOST_QUICK_SENDS: u32 = 2_048;

/// As many quick sends are needed if few holds ended late.
const FEW_LATE: u32 = 4 * QUICK_SENDS;

/// A hold that ends in time lowers the number of quick sends needed by this part of it (a 64th).
const RECOVERY: u32 = 64;

/// Quick sends that a lone message between two waits takes back.
const LONE: u32 = 2;

/// Messages that wait for the next call.
#[derive(Clone, Copy, Debug)]
struct Hold {
    since: Instant,
    bytes: u64,
}

/// Decides if messages wait for the program's next call.
#[derive(Debug)]
pub(crate) struct SendCoalescer {
    /// Messages may wait: the helper sends them if the program makes no further call.
    pub(crate) allowed: bool,
    held: Option<Hold>,
    /// Number of holds so far: of messages, or of the rest of an output.
    holds: u32,
    /// Quick sends, at most twice the number needed. A send that is not quick halves the number.
    /// The first send after a wait changes nothing.
    quick: u32,
    /// Quick sends needed before a message waits.
    needed: u32,
    /// Messages sent since the program last waited.
    burst: u32,
    /// Time at which the last send ended. Without a value, it counts as just now.
    last_end: Option<Instant>,
}

impl SendCoalescer {
    pub(crate) const fn new() -> Self {
        Self {
            allowed: false,
            held: None,
            holds: 0,
            quick: 0,
            needed: QUICK_SENDS,
            burst: 0,
            last_end: None,
        }
    }

    /// The same for calls of a node that somebody sends for if they stay away.
    pub(crate) const fn allowed() -> Self {
        let mut new = Self::new();
        new.allowed = true;
        new
    }

    /// The program has more to send before it waits, as far as is known.
    pub(crate) fn expect_more(&mut self) {
        if self.needed <= FEW_LATE {
            self.quick = self.quick.max(self.needed);
        }
    }

    /// Whether a message waits.
    pub(crate) fn holds_messages(&self) -> bool {
        self.held.is_some()
    }

    /// Begins a hold for output that a call left unsent. The helper sends it as it sends other
    /// holds.
    pub(super) fn on_left_output(&mut self) {
        self.holds = self.holds.wrapping_add(1);
    }

    /// The number of the last hold.
    pub(crate) fn last_hold(&self) -> u32 {
        self.holds
    }

    /// Whether the messages that wait have waited long enough.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        let is_over = |held: Hold| now.since(held.since) >= HOLD || held.bytes >= FULL;
        self.held.is_some_and(is_over)
    }

    /// Notes that messages of `bytes` in all were accepted at `now`, in a call that began at
    /// `called`. Returns true if they wait for the program's next call.
    pub(crate) fn keeps(&mut self, called: Instant, now: Instant, bytes: u64) -> bool {
        // A wait before this call says nothing about how quick the program is.
        if self.burst > 0 {
            let is_soon = |end| called.since(end) < SOON;
            self.quick = match self.last_end.is_none_or(is_soon) {
                true => (self.quick + 1).min(2 * self.needed),
                false => self.quick / 2,
            };
        }
        self.burst = self.burst.saturating_add(1);
        if let Some(held) = &mut self.held {
            held.bytes = held.bytes.saturating_add(bytes);
        } else if self.allowed && self.quick >= self.needed && bytes < FULL {
            self.holds = self.holds.wrapping_add(1);
            self.held = Some(Hold { since: now, bytes });
        }
        let keeps = self.held.is_some() && !self.is_over(now);
        // A call that only queues its message ends at once.
        self.last_end = keeps.then_some(now);
        keeps
    }

    /// Whether the end of a call that just sent its message must be noted by `on_end`. A program
    /// that sends one message and waits is not asked for the time once more.
    pub(super) fn wants_end(&self) -> bool {
        self.burst > 1 || self.quick > 0
    }

    /// Notes that a call that sent its message ended.
    pub(crate) fn on_end(&mut self, now: Instant) {
        self.last_end = Some(now);
    }

    /// Notes that an output begins: the messages that wait leave with it.
    pub(crate) fn on_output(&mut self, now: Instant) {
        let Some(held) = self.held.take() else {
            return;
        };
        if now.since(held.since) >= LATE {
            self.quick = 0;
            self.needed = (2 * self.needed).min(MOST_QUICK_SENDS);
        } else {
            let less = self.needed.div_ceil(RECOVERY);
            self.needed = (self.needed - less).max(QUICK_SENDS);
        }
    }

    /// Notes that the program waits.
    pub(crate) fn on_wait(&mut self) {
        if core::mem::take(&mut self.burst) == 1 {
            self.quick = self.quick.saturating_sub(LONE);
        }
    }
}

#[cfg(test)]
impl SendCoalescer {
    /// Makes the next messages wait, however slow the program is.
    pub(crate) fn expect_burst(&mut self) {
        *self = Self {
            allowed: true,
            quick: u32::MAX / 2,
            needed: QUICK_SENDS,
            ..Self::new()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Duration = Duration::from_micros(1);

    /// A coalescer that may hold messages, and the time.
    fn coalescer() -> (SendCoalescer, Instant) {
        let coalescer = SendCoalescer {
            allowed: true,
            ..SendCoalescer::new()
        };
        (coalescer, Instant::ZERO)
    }

    /// A message of 100 bytes, `pause` after the last call; whether it left, and took others along.
    fn send(coalescer: &mut SendCoalescer, now: &mut Instant, pause: Duration) -> bool {
        *now += pause;
        let leaves = !coalescer.keeps(*now, *now, 100);
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
    fn messages_of_a_burst_leave_together_after_a_while() {
        let (mut coalescer, mut now) = coalescer();
        assert_eq!(
            sends(&mut coalescer, &mut now, QUICK_SENDS),
            QUICK_SENDS as usize
        );
        let outputs = sends(&mut coalescer, &mut now, 2_100);
        assert_eq!(outputs, 100, "20 wait, and leave with the next");
    }

    #[test]
    fn messages_sent_now_and_then_do_not_wait() {
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
        assert_eq!(left, QUICK_SENDS as usize * 3 / 2 - 1);
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
    fn answers_that_begin_late_leave_together() {
        let (mut coalescer, mut now) = coalescer();
        let mut left = 0;
        for _ in 0..100 {
            now += SOON;
            left += sends(&mut coalescer, &mut now, 16);
            wait(&mut coalescer, now);
        }
        assert!(
            left < 2 * QUICK_SENDS as usize,
            "{left} of 1600 by themselves"
        );
    }

    #[test]
    fn a_mebibyte_does_not_wait_for_more() {
        let (mut coalescer, mut now) = coalescer();
        sends(&mut coalescer, &mut now, QUICK_SENDS + 1);
        assert!(coalescer.holds_messages());
        assert!(!coalescer.keeps(now, now, FULL), "the next takes it along");
        coalescer.on_output(now);
        assert!(!coalescer.keeps(now, now, FULL), "enough by itself");
    }

    /// A program that computes after each burst: the last message waits for the helper.
    #[test]
    fn a_program_that_stays_away_after_bursts_must_send_longer_ones() {
        let (mut coalescer, mut now) = coalescer();
        let mut late = 0;
        for _ in 0..100 {
            sends(&mut coalescer, &mut now, 3 * QUICK_SENDS);
            late += u32::from(coalescer.holds_messages());
            now += Duration::from_millis(2);
            coalescer.on_output(now);
        }
        assert!((1..=3).contains(&late), "{late}");
        // Long bursts show that it pays.
        sends(&mut coalescer, &mut now, 100_000);
        assert_eq!(coalescer.needed, QUICK_SENDS);
    }

    /// A program that sent a stream, and from then on sends one message and waits for the answer.
    #[test]
    fn lone_requests_after_a_stream_soon_wait_for_nothing() {
        let (mut coalescer, mut now) = coalescer();
        sends(&mut coalescer, &mut now, 1_000);
        wait(&mut coalescer, now);
        let left = (0..1_000).filter(|_| {
            let left = send(&mut coalescer, &mut now, CALL);
            wait(&mut coalescer, now);
            left
        });
        let held = 1_000 - left.count() as u32;
        assert!((1..=QUICK_SENDS / LONE + 1).contains(&held), "{held}");
        assert!(!coalescer.wants_end(), "nobody reads the clock once more");
    }

    #[test]
    fn nothing_waits_without_a_helper() {
        let (mut coalescer, mut now) = (SendCoalescer::new(), Instant::ZERO);
        assert_eq!(sends(&mut coalescer, &mut now, 1_000), 1_000);
    }
}
