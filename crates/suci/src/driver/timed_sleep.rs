//! Timed sleeps: how a receiver of a stream sleeps between two trains.
//!
//! A receiver that is faster than its sender sleeps after each train in a receive that blocks. The
//! next train wakes it, which costs as much as the rest of the sender's system call without the
//! copy. A timed sleep ends by itself: the sender wakes nobody, and some trains are there when it
//! is over. Network cards moderate their interrupts in the same way.

use crate::backoff::Backoff;
use std::time::Duration;
use suci_proto::time::Instant;

/// A sleep that was over this soon, with the time to wake up, lay between two trains of a stream.
const DENSE: Duration = Duration::from_micros(25);

/// How long a timed sleep lasts: two or three trains at 40 Gbit/s. Anything else that arrives
/// meanwhile waits for as long, hardly more than a process takes to wake up.
pub(super) const TIMED_SLEEP: Duration = Duration::from_micros(30);

/// If a timed sleep lasts this long, it does not pay: the system's timers are coarse, or other
/// processes use the processor.
const TOO_LONG: Duration = Duration::from_micros(200);

/// Whether timed sleeps pay, as far as the last sleeps tell.
#[derive(Debug)]
pub(super) struct TimedSleep {
    /// The last sleep was a short one: a stream.
    dense: bool,
    backoff: Backoff,
}

impl Default for TimedSleep {
    fn default() -> Self {
        Self {
            dense: false,
            backoff: Backoff::new(6),
        }
    }
}

impl TimedSleep {
    /// Whether the next sleep is to be a timed sleep.
    pub(super) fn pays(&mut self) -> bool {
        self.dense && self.backoff.take()
    }

    /// Takes note of a sleep in a receive: `slept` until a datagram ended it, or none did.
    pub(super) fn on_slept(&mut self, slept: Option<Duration>) {
        self.dense = slept.is_some_and(|slept| slept < DENSE);
    }

    /// Takes note of a timed sleep from `began` to `woke`, and of when the newest datagram then
    /// found had arrived. If that was in the first half, the stream was over, or its sender waited
    /// for an acknowledgement or credit that the sleep delayed.
    pub(super) fn on_sleep(&mut self, began: Instant, woke: Instant, newest: Option<Instant>) {
        let slept = woke.since(began);
        let till_end = newest.is_some_and(|newest| woke.since(newest) < slept / 2);
        self.dense = till_end && slept < TOO_LONG;
        self.backoff.learn(self.dense);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_micros(60);

    /// A sleep of a stream whose sender pauses after `sends` since it began, if it is one; whether
    /// it was a timed sleep.
    fn sleep(timed_sleep: &mut TimedSleep, sends: Duration) -> bool {
        let began = Instant::ZERO;
        let sleep_for = timed_sleep.pays();
        if sleep_for {
            timed_sleep.on_sleep(began, began + LONG, Some(began + sends));
        } else {
            timed_sleep.on_slept(Some(DENSE / 2));
        }
        sleep_for
    }

    #[test]
    fn a_stream_is_slept_through_in_naps() {
        let mut timed_sleep = TimedSleep::default();
        assert!(!timed_sleep.pays(), "nothing is known yet");
        timed_sleep.on_slept(Some(DENSE * 2));
        assert!(!timed_sleep.pays(), "messages that come now and then");
        assert!(!sleep(&mut timed_sleep, LONG));
        assert!((0..100).all(|_| sleep(&mut timed_sleep, LONG)));
        timed_sleep.on_slept(None);
        assert!(!timed_sleep.pays(), "the stream is over");
    }

    /// A sender with a small window or little credit sends nothing more until it hears of us.
    #[test]
    fn naps_that_keep_the_sender_waiting_are_seldom() {
        let mut timed_sleep = TimedSleep::default();
        let count = (0..1_000)
            .filter(|_| sleep(&mut timed_sleep, LONG / 4))
            .count();
        assert!((10..30).contains(&count), "{count} of 1000");
        // Once it sends on, timed sleeps come back.
        while !sleep(&mut timed_sleep, LONG) {}
        let count = (0..100).filter(|_| sleep(&mut timed_sleep, LONG)).count();
        assert!(count > 50, "{count} of 100");
    }

    #[test]
    fn where_naps_take_long_none_is_taken() {
        let mut timed_sleep = TimedSleep::default();
        timed_sleep.on_slept(Some(DENSE / 2));
        assert!(timed_sleep.pays());
        let woke = Instant::ZERO + TOO_LONG;
        timed_sleep.on_sleep(Instant::ZERO, woke, Some(woke));
        assert!(!timed_sleep.pays());
    }

    #[test]
    fn a_nap_in_which_nothing_came_was_too_long() {
        let mut timed_sleep = TimedSleep::default();
        timed_sleep.on_slept(Some(DENSE / 2));
        assert!(timed_sleep.pays());
        timed_sleep.on_sleep(Instant::ZERO, Instant::ZERO + LONG, None);
        assert!(!timed_sleep.pays());
    }
}
