//! How blocking calls wait.

use crate::backoff::Backoff;
use std::time::Duration;
use suci_proto::time::Instant;

/// Looks before a spinning thread yields to others. If each thread has a processor, the awaited
/// message has come by then; otherwise spinning on keeps the peer from answering.
const UNDISTURBED: u32 = 64;

/// How long to poll for an answer before sleeping: as long as waking up costs on both sides, with
/// some room. Polling for as long as a sleep costs never takes more than twice what the better
/// choice would have cost (Karlin, Li, Manasse and Owicki, "Empirical Studies of Competitive
/// Spinning", 1991).
const ANSWER: Duration = Duration::from_micros(50);

/// The most unanswered messages that are counted. A program that sent more counts as one that only
/// receives after it took this many.
const MANY: u32 = 64;

/// How a blocking call waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wait {
    /// Sleeps until something happens, with two exceptions. A call that waits for an answer (the
    /// program sent something after the last message it took) first polls for up to 50 us, if
    /// polling paid lately: a round trip within a rack is over before a sleeping process would be
    /// awake. It sleeps at once like [`Block`](Self::Block) if answers take longer, if many
    /// processes share a processor, and in [`SharedNode`](crate::SharedNode). A call that receives
    /// a stream, whose next part comes before the process would sleep, sleeps for 30 us whatever
    /// comes: waking a sleeper for each part costs its sender more than sending it.
    #[default]
    Adaptive,
    /// Sleeps until something happens. Costs no processor time.
    Block,
    /// Polls for this long, then sleeps. Saves the time of waking up (microseconds) at the price of
    /// one processor.
    Spin(Duration),
}

impl Wait {
    /// Spinning for up to 5 ms: longer than any round trip of a local network.
    pub const SPIN: Self = Self::Spin(Duration::from_millis(5));
}

/// One wait: polls at first, sleeps later.
#[derive(Debug)]
pub(crate) struct Spinner {
    bound: Duration,
    /// It may use timed sleeps, which last their time whatever arrives.
    may_sleep: bool,
    /// Looks before other threads may run in between.
    undisturbed: u32,
    until: Option<Instant>,
    looks: u32,
    /// It polled for as long as it may, and nothing came.
    over: bool,
}

/// The step that a wait takes between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Pause,
    LetOthersRun,
    Sleep,
}

impl Spinner {
    pub(crate) fn new(wait: Wait) -> Self {
        Self::bounded(match wait {
            Wait::Adaptive | Wait::Block => Duration::ZERO,
            Wait::Spin(bound) => bound,
        })
    }

    fn bounded(bound: Duration) -> Self {
        Self {
            bound,
            may_sleep: false,
            undisturbed: UNDISTURBED,
            until: None,
            looks: 0,
            over: false,
        }
    }

    /// A wait for an answer, if [`SpinPolicy`] finds polling worth while. It never yields: if the
    /// peer shares this processor, the answer would come because of the yield, and polling would
    /// seem to pay.
    fn for_answer() -> Self {
        Self {
            undisturbed: u32::MAX,
            ..Self::bounded(ANSWER)
        }
    }

    /// Whether a timed sleep may be used although a datagram may arrive meanwhile.
    pub(crate) fn may_sleep(&self) -> bool {
        self.may_sleep
    }

    /// Whether it looked exactly once.
    pub(crate) fn looked_once(&self) -> bool {
        self.looks == 1
    }

    /// The awaited message came: the next wait begins.
    pub(crate) fn restart(&mut self) {
        *self = Self {
            may_sleep: self.may_sleep,
            undisturbed: self.undisturbed,
            ..Self::bounded(self.bound)
        };
    }

    /// Pauses for a moment and returns true if the caller should look again, false if it should
    /// sleep.
    pub(crate) fn pauses(&mut self, now: Instant) -> bool {
        match self.next(now) {
            Step::Pause => std::hint::spin_loop(),
            Step::LetOthersRun => std::thread::yield_now(),
            Step::Sleep => return false,
        }
        true
    }

    fn next(&mut self, now: Instant) -> Step {
        if self.bound.is_zero() {
            return Step::Sleep;
        }
        if now >= *self.until.get_or_insert(now + self.bound) {
            self.over = true;
            return Step::Sleep;
        }
        self.looks = self.looks.saturating_add(1);
        if self.looks <= self.undisturbed {
            Step::Pause
        } else {
            Step::LetOthersRun
        }
    }
}

/// Decides if polling for answers pays, from how the last ones came.
#[derive(Debug)]
pub(crate) struct SpinPolicy {
    /// The program sent something after the last message that it took: the next one may be the
    /// answer.
    asked: bool,
    /// Messages that the program sent minus those that it took: as many answers may still come. At
    /// most [`MANY`].
    open: u32,
    looks: Backoff,
}

impl Default for SpinPolicy {
    fn default() -> Self {
        Self {
            asked: false,
            open: 0,
            looks: Backoff::new(6),
        }
    }
}

impl SpinPolicy {
    /// The program sent a message.
    pub(crate) fn on_sent(&mut self) {
        self.on_sent_many(1);
    }

    /// The program sent this many messages: at least one.
    pub(crate) fn on_sent_many(&mut self, messages: u64) {
        self.asked = true;
        let sent = u32::try_from(messages).unwrap_or(u32::MAX);
        self.open = self.open.saturating_add(sent).min(MANY);
    }

    /// The program took this many messages: at least one.
    pub(crate) fn on_taken(&mut self, messages: usize) {
        self.asked = false;
        let taken = u32::try_from(messages).unwrap_or(u32::MAX);
        self.open = self.open.saturating_sub(taken);
    }

    /// Begins a wait for the next message. [`SpinPolicy::learn`] follows it.
    pub(crate) fn message(&mut self, wait: Wait) -> Spinner {
        if wait != Wait::Adaptive || !self.asked {
            return Spinner {
                may_sleep: wait == Wait::Adaptive && self.open == 0,
                ..Spinner::new(wait)
            };
        }
        if self.looks.take() {
            Spinner::for_answer()
        } else {
            Spinner::bounded(Duration::ZERO)
        }
    }

    /// Takes note of how that wait ended.
    pub(crate) fn learn(&mut self, spinner: &Spinner) {
        if spinner.over || spinner.looks > 0 {
            self.looks.learn(!spinner.over);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls until a message comes or the time is over. Returns whether it polled at all.
    fn look(spin_policy: &mut SpinPolicy, comes_after: Duration) -> bool {
        spin_policy.on_sent();
        let mut spinner = spin_policy.message(Wait::Adaptive);
        spin_policy.on_taken(1);
        let start = Instant::ZERO;
        let looked = spinner.pauses(start);
        if looked {
            spinner.pauses(start + comes_after);
        }
        spin_policy.learn(&spinner);
        looked
    }

    #[test]
    fn who_sent_as_much_as_it_took_expects_nothing_more() {
        let mut spin_policy = SpinPolicy::default();
        (0..5).for_each(|_| spin_policy.on_sent());
        for (taken, may_sleep) in [(4, false), (3, true)] {
            spin_policy.on_taken(taken);
            assert_eq!(spin_policy.message(Wait::Adaptive).may_sleep(), may_sleep);
        }
    }

    #[test]
    fn answers_that_come_late_are_looked_for_less_and_less() {
        let (soon, late) = (ANSWER / 2, ANSWER * 2);
        let mut spin_policy = SpinPolicy::default();
        assert!(!spin_policy.message(Wait::Adaptive).pauses(Instant::ZERO));
        assert!((0..100).all(|_| look(&mut spin_policy, soon)));
        let looks = (0..1_000).filter(|_| look(&mut spin_policy, late)).count();
        assert!((10..30).contains(&looks), "{looks} of 1000");
        // A single answer in time, and every wait looks again.
        while !look(&mut spin_policy, soon) {}
        assert!((0..100).all(|_| look(&mut spin_policy, soon)));
    }

    /// A peer that shares the processor answers only while this process sleeps.
    #[test]
    fn who_looks_for_an_answer_lets_nobody_run_in_between() {
        let mut spin_policy = SpinPolicy::default();
        spin_policy.on_sent();
        let mut spinner = spin_policy.message(Wait::Adaptive);
        let looks = 10 * UNDISTURBED;
        assert!((0..looks).all(|_| spinner.next(Instant::ZERO) == Step::Pause));
        assert_eq!(spinner.next(Instant::ZERO + ANSWER), Step::Sleep);
        let mut spinner = Spinner::new(Wait::SPIN);
        assert_eq!(
            (0..looks)
                .filter(|_| spinner.next(Instant::ZERO) == Step::LetOthersRun)
                .count(),
            (looks - UNDISTURBED) as usize
        );
    }

    #[test]
    fn spins_for_its_bound_then_sleeps_until_restarted() {
        let start = Instant::ZERO;
        let mut spinner = Spinner::new(Wait::Spin(Duration::from_millis(1)));
        assert!(spinner.pauses(start));
        assert!(spinner.pauses(start + Duration::from_micros(999)));
        assert!(!spinner.pauses(start + Duration::from_millis(1)));
        spinner.restart();
        assert!(spinner.pauses(start + Duration::from_millis(2)));
        assert!(!Spinner::new(Wait::Block).pauses(start));
        assert!(!Spinner::new(Wait::Adaptive).pauses(start));
    }
}
