//! How a node waits: the policy that the program chooses, and the state machine that carries it
//! out.
//!
//! A wait is a sequence of steps ([`Step`]) until something arrives, is due, or the call's time is
//! over. [`Waiter`] decides each step, from the policy and from how the last waits ended:
//!
//! 1. *Polling.* With [`WaitPolicy::Spin`] a wait polls for as long as it is told. With
//!    [`WaitPolicy::Adaptive`] a wait for an answer polls for up to [`ANSWER`], if that paid of
//!    late. Polling for as long as a sleep costs never takes more than twice what the better choice
//!    would have cost (Karlin, Li, Manasse and Owicki, "Empirical Studies of Competitive Spinning",
//!    1991).
//! 2. *A sleep beside the socket* (`ppoll`), if something else than input ends the sleep: a timer
//!    that is due soon, the call's own limit, or a full socket that takes packets again.
//! 3. *A timed sleep* in the middle of a stream. A receiver that is faster than its sender sleeps
//!    after each train, and waking it costs as much as the rest of the sender's system call without
//!    the copy. A timed sleep ends by itself: the sender wakes nobody, and some trains are there
//!    when it is over. Network cards moderate their interrupts in the same way.
//! 4. *A sleep in a receive that blocks*: one system call, without a timer to set.

use crate::backoff::Backoff;
use crate::clock::Deadline;
use crate::error::Error;
use std::time::Duration;
use suci_proto::time::Instant;

/// How long to poll for an answer before sleeping: as long as waking up costs on both sides, with
/// some room.
const ANSWER: Duration = Duration::from_micros(50);

/// Polls before a thread that was told to spin lets others run. If each thread has a processor, the
/// awaited message has come by then; otherwise polling on keeps the peer from answering.
const POLLS_BEFORE_YIELD: u32 = 64;

/// The most unanswered messages that are counted. After a program has sent more and taken this
/// many, it counts as one that only receives.
const MOST_UNANSWERED: u32 = 64;

/// Timers nearer than this are precise: acknowledgements and pacing. Later ones, such as probes,
/// may be late by one or two of the system's ticks.
pub(crate) const PRECISE: Duration = Duration::from_millis(2);

/// A sleep no longer than this, the time to wake up included, lay between two trains of a stream.
const DENSE: Duration = Duration::from_micros(25);

/// How long a timed sleep lasts: two or three trains at 40 Gbit/s. Anything else that arrives
/// meanwhile waits for as long, hardly more than a process takes to wake up.
pub(crate) const TIMED_SLEEP: Duration = Duration::from_micros(30);

/// If a timed sleep lasts this long, it does not pay: the system's timers are coarse, or other
/// processes use the processor.
const TOO_LONG: Duration = Duration::from_micros(200);

/// How a blocking call waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitPolicy {
    /// Polls the socket for this long, then sleeps. Saves the time of waking up (microseconds) at
    /// the price of one processor.
    Spin(Duration),
    /// Sleeps until something happens, with two exceptions in a [`Node`](crate::Node); a
    /// [`SharedNode`](crate::SharedNode) has none.
    ///
    /// A call that waits for an answer (the program sent more messages than it took, or the call is
    /// a one-sided or a collective operation) first polls for up to 50 us, as long as answers
    /// mostly come by then: a round trip within a rack is over before a sleeping process would be
    /// awake.
    ///
    /// A call that receives a stream, whose next part comes before the process would sleep, sleeps
    /// for 30 us whatever comes: waking a sleeper for each part costs its sender more than sending
    /// it.
    #[default]
    Adaptive,
    /// Sleeps until something happens. Costs no processor time.
    Sleep,
}

impl WaitPolicy {
    /// Spinning for up to 5 ms: longer than any round trip of a local network.
    pub const SPIN: Self = Self::Spin(Duration::from_millis(5));
}

/// The result for which a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// The next message, which may be an answer or the next part of a stream.
    Message,
    /// The answer to a request that was sent, or the result of a one-sided or collective operation.
    Answer,
    /// Anything else: room in a queue, acknowledgements, events, work of other threads.
    Progress,
}

/// The next step of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Poll the socket once more.
    Poll,
    /// The same, after other threads had a chance to run.
    YieldAndPoll,
    /// Sleep for [`TIMED_SLEEP`], whatever arrives.
    TimedSleep,
    /// Sleep in a receive that blocks.
    SleepInReceive,
    /// Sleep on descriptors, with a precise limit.
    SleepInPoll,
}

/// Events other than input that end a sleep, and conditions that decide its kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitConditions {
    /// How soon a timer is due, if any is.
    pub(crate) due: Option<Duration>,
    /// The end of the call's time.
    pub(crate) deadline: Deadline,
    /// The socket was full: it may become writable.
    pub(crate) want_write: bool,
    /// The last poll left nothing in the socket.
    pub(crate) drained: bool,
}

/// The state of the current wait.
#[derive(Debug, Default)]
struct Current {
    /// How long it polls before it sleeps.
    bound: Duration,
    /// It polls for an answer, and learns whether that paid. It never yields: if the peer shares
    /// this processor, the answer would come because of the yield, and polling would seem to pay.
    for_answer: bool,
    /// It may use timed sleeps.
    for_stream: bool,
    until: Option<Instant>,
    polls: u32,
    /// It polled for as long as it may, and nothing came.
    over: bool,
}

/// Decides how the next wait is done.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// Maximum time that a receive of the backend blocks, if it can.
    block_limit: Option<Duration>,
    current: Current,
    /// Messages that the program sent minus those that it took: as many answers may still come. At
    /// most [`MOST_UNANSWERED`].
    unanswered: u32,
    /// Whether polling for answers pays.
    polls: Backoff,
    /// The last sleep lay between two trains of a stream.
    in_stream: bool,
    /// Whether timed sleeps pay.
    timed_sleeps: Backoff,
    /// The last receive that blocked returned nothing, and nothing came since. The next sleep is
    /// then beside the socket: a receive blocks for a short time only, so one long sleep would
    /// become many short ones.
    silent: bool,
}

impl Waiter {
    pub(crate) fn new(block_limit: Option<Duration>) -> Self {
        Self {
            block_limit,
            current: Current::default(),
            unanswered: 0,
            polls: Backoff::new(6),
            in_stream: false,
            timed_sleeps: Backoff::new(6),
            silent: false,
        }
    }

    // ---- one wait

    /// Begins a wait. A wait for a message or an answer has an [`end`](Self::end).
    pub(crate) fn begin(&mut self, policy: WaitPolicy, awaited: Awaited) {
        let adapts = policy == WaitPolicy::Adaptive;
        let (may_be_answer, for_stream) = match awaited {
            Awaited::Message => (self.unanswered > 0, self.unanswered == 0),
            Awaited::Answer => (true, false),
            Awaited::Progress => (false, false),
        };
        let for_answer = adapts && may_be_answer && self.polls.take();
        let bound = match policy {
            WaitPolicy::Spin(bound) => bound,
            _ if for_answer => ANSWER,
            _ => Duration::ZERO,
        };
        self.current = Current {
            bound,
            for_answer,
            for_stream: adapts && for_stream,
            ..Current::default()
        };
    }

    /// Returns how to poll once more, if the wait polls still. Otherwise it sleeps.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Step> {
        let current = &mut self.current;
        if current.bound.is_zero() {
            return None;
        }
        if now >= *current.until.get_or_insert(now + current.bound) {
            current.over = true;
            return None;
        }
        current.polls = current.polls.saturating_add(1);
        let yields = !current.for_answer && current.polls > POLLS_BEFORE_YIELD;
        Some(if yields {
            Step::YieldAndPoll
        } else {
            Step::Poll
        })
    }

    /// Returns how to sleep.
    pub(crate) fn sleep(&mut self, conditions: WaitConditions) -> Step {
        let blocks = |limit| {
            !conditions.want_write
                && !self.silent
                && conditions.due.is_none_or(|due| due >= PRECISE)
                && conditions.deadline.left().is_none_or(|left| left >= limit)
        };
        if !self.block_limit.is_some_and(blocks) {
            return Step::SleepInPoll;
        }
        let in_stream = self.current.for_stream && self.in_stream && conditions.drained;
        if in_stream && self.timed_sleeps.take() {
            Step::TimedSleep
        } else {
            Step::SleepInReceive
        }
    }

    /// Notes that a wait for a message or an answer ended.
    pub(crate) fn end(&mut self) {
        let Current { over, polls, .. } = self.current;
        if self.current.for_answer && (over || polls > 0) {
            self.polls.learn(!over);
        }
    }

    // ---- what it learns

    /// Notes that the program sent this many messages.
    pub(crate) fn on_sent(&mut self, messages: u64) {
        let sent = u32::try_from(messages).unwrap_or(u32::MAX);
        self.unanswered = self.unanswered.saturating_add(sent).min(MOST_UNANSWERED);
    }

    /// Notes that the program took this many messages.
    pub(crate) fn on_taken(&mut self, messages: usize) {
        let taken = u32::try_from(messages).unwrap_or(u32::MAX);
        self.unanswered = self.unanswered.saturating_sub(taken);
    }

    /// Notes that a poll of the socket found something.
    pub(crate) fn on_input(&mut self) {
        self.silent = false;
    }

    /// Notes that a sleep in a receive ended: after this time, by a datagram, or without one
    /// (`None`).
    pub(crate) fn on_receive(&mut self, slept: Option<Duration>) {
        self.silent = slept.is_none();
        if self.current.for_stream {
            self.in_stream = slept.is_some_and(|slept| slept < DENSE);
        }
    }

    /// A timed sleep lasted from `began` to `woke`. The newest datagram then found had arrived at
    /// `newest`. If that was in the first half, the stream was over, or its sender waited for an
    /// acknowledgement or credit that the sleep delayed.
    pub(crate) fn on_timed_sleep(
        &mut self,
        began: Instant,
        woke: Instant,
        newest: Option<Instant>,
    ) {
        let slept = woke.since(began);
        let till_end = newest.is_some_and(|newest| woke.since(newest) < slept / 2);
        self.in_stream = till_end && slept < TOO_LONG;
        self.timed_sleeps.learn(self.in_stream);
    }
}

/// Repeats a call that waits without a limit until it has a value.
pub(crate) fn until_some<T>(
    mut call: impl FnMut() -> Result<Option<T>, Error>,
) -> Result<T, Error> {
    loop {
        if let Some(value) = call()? {
            return Ok(value);
        }
    }
}

impl Step {
    /// Waits for as long as a step takes that polls.
    pub(crate) fn pause(self) {
        match self {
            Self::YieldAndPoll => std::thread::yield_now(),
            _ => std::hint::spin_loop(),
        }
    }
}

#[cfg(test)]
mod tests;
