//! Naps: how a receiver of a stream sleeps between two trains.
//!
//! A receiver that is faster than its sender sleeps after each train, in a receive that blocks, and is woken by the next one,
//! which costs the sender's system call as much as all else in it but the copy. A nap ends by itself: nobody rings, and
//! some trains are there when it is over. Network cards moderate their interrupts so.

use crate::tries::Tries;
use std::time::Duration;
use suci_proto::time::Instant;

/// A sleep that was over so soon was between two trains of a stream, its own waking up included.
const DENSE: Duration = Duration::from_micros(25);

/// How long a nap lasts: two or three trains at 40 Gbit/s. Whatever else comes meanwhile waits for as long, hardly more than
/// for a process that is woken.
pub(super) const NAP: Duration = Duration::from_micros(30);

/// A nap of which the system made so much is none that pays: its timers are coarse, or others use the processor.
const TOO_LONG: Duration = Duration::from_micros(200);

/// Whether naps pay, as far as the last sleeps tell.
#[derive(Debug)]
pub(super) struct Naps {
    /// The last sleep was a short one: a stream.
    dense: bool,
    tries: Tries,
}

impl Default for Naps {
    fn default() -> Self {
        Self {
            dense: false,
            tries: Tries::new(6),
        }
    }
}

impl Naps {
    /// Whether the next sleep is to be a nap.
    pub(super) fn pays(&mut self) -> bool {
        self.dense && self.tries.take()
    }

    /// A sleep that something ended after `slept`, or nothing.
    pub(super) fn on_slept(&mut self, slept: Option<Duration>) {
        self.dense = slept.is_some_and(|slept| slept < DENSE);
    }

    /// A nap from `began` to `woke`, and when the newest datagram arrived that was there then. If that was in the first half,
    /// the stream was over, or its sender waited for an acknowledgement or credit, of which the nap kept it.
    pub(super) fn on_nap(&mut self, began: Instant, woke: Instant, newest: Option<Instant>) {
        let slept = woke.since(began);
        let till_end = newest.is_some_and(|newest| woke.since(newest) < slept / 2);
        self.dense = till_end && slept < TOO_LONG;
        self.tries.learn(self.dense);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_micros(60);

    /// A sleep of a stream whose sender pauses after `sends` since it began, if it is one; whether it was a nap.
    fn sleep(naps: &mut Naps, sends: Duration) -> bool {
        let began = Instant::ZERO;
        let nap = naps.pays();
        if nap {
            naps.on_nap(began, began + LONG, Some(began + sends));
        } else {
            naps.on_slept(Some(DENSE / 2));
        }
        nap
    }

    #[test]
    fn a_stream_is_slept_through_in_naps() {
        let mut naps = Naps::default();
        assert!(!naps.pays(), "nothing is known yet");
        naps.on_slept(Some(DENSE * 2));
        assert!(!naps.pays(), "messages that come now and then");
        assert!(!sleep(&mut naps, LONG));
        assert!((0..100).all(|_| sleep(&mut naps, LONG)));
        naps.on_slept(None);
        assert!(!naps.pays(), "the stream is over");
    }

    /// A sender with a small window or little credit sends nothing more until it hears of us.
    #[test]
    fn naps_that_keep_the_sender_waiting_are_seldom() {
        let mut naps = Naps::default();
        let count = (0..1_000).filter(|_| sleep(&mut naps, LONG / 4)).count();
        assert!((10..30).contains(&count), "{count} of 1000");
        // Once it sends on, naps come back.
        while !sleep(&mut naps, LONG) {}
        let count = (0..100).filter(|_| sleep(&mut naps, LONG)).count();
        assert!(count > 50, "{count} of 100");
    }

    #[test]
    fn where_naps_take_long_none_is_taken() {
        let mut naps = Naps::default();
        naps.on_slept(Some(DENSE / 2));
        assert!(naps.pays());
        let woke = Instant::ZERO + TOO_LONG;
        naps.on_nap(Instant::ZERO, woke, Some(woke));
        assert!(!naps.pays());
    }

    #[test]
    fn a_nap_in_which_nothing_came_was_too_long() {
        let mut naps = Naps::default();
        naps.on_slept(Some(DENSE / 2));
        assert!(naps.pays());
        naps.on_nap(Instant::ZERO, Instant::ZERO + LONG, None);
        assert!(!naps.pays());
    }
}
