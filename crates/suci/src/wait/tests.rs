use super::*;

/// How long a receive could block.
const LIMIT: Duration = Duration::from_millis(8);

const LONG: Duration = Duration::from_micros(60);

/// Nothing but input to conditions, and an empty socket.
const IDLE: WaitConditions = WaitConditions {
    due: None,
    deadline: Deadline::NEVER,
    want_write: false,
    drained: true,
};

fn waiter() -> Waiter {
    Waiter::new(Some(LIMIT))
}

fn polls(waiter: &mut Waiter, now: Instant) -> bool {
    waiter.poll(now).is_some()
}

/// Sends a request and polls until a message comes or the time is over. Returns whether it polled
/// at all.
fn ask(waiter: &mut Waiter, comes_after: Duration) -> bool {
    waiter.on_sent(1);
    waiter.begin(WaitPolicy::Adaptive, Awaited::Message);
    waiter.on_taken(1);
    let polled = polls(waiter, Instant::ZERO);
    if polled {
        waiter.poll(Instant::ZERO + comes_after);
    }
    waiter.end();
    polled
}

/// Begins a wait for a part of a stream. Returns how it sleeps.
fn receive(waiter: &mut Waiter) -> Step {
    waiter.begin(WaitPolicy::Adaptive, Awaited::Message);
    assert_eq!(waiter.poll(Instant::ZERO), None, "no answer is awaited");
    waiter.sleep(IDLE)
}

#[test]
fn a_program_that_took_as_much_as_it_sent_expects_no_answer() {
    let mut waiter = waiter();
    waiter.on_sent(5);
    for (taken, expects) in [(4, true), (1, false)] {
        waiter.on_taken(taken);
        waiter.begin(WaitPolicy::Adaptive, Awaited::Message);
        assert_eq!(waiter.current.for_answer, expects);
        assert_eq!(waiter.current.for_stream, !expects);
    }
    // The result of an operation is an answer in any case.
    waiter.begin(WaitPolicy::Adaptive, Awaited::Answer);
    assert!(waiter.current.for_answer && !waiter.current.for_stream);
    waiter.begin(WaitPolicy::Sleep, Awaited::Answer);
    assert!(!waiter.current.for_answer);
    // A program that sent very much, and only receives from then on.
    waiter.on_sent(1_000_000);
    waiter.on_taken(MOST_UNANSWERED as usize);
    waiter.begin(WaitPolicy::Adaptive, Awaited::Message);
    assert!(waiter.current.for_stream);
}

/// Room, acknowledgements or events are no answers.
#[test]
fn only_waits_for_messages_adapt() {
    let mut waiter = waiter();
    waiter.on_sent(1);
    waiter.begin(WaitPolicy::Adaptive, Awaited::Progress);
    assert!(!polls(&mut waiter, Instant::ZERO));
    waiter.on_taken(1);
    assert_eq!(receive(&mut waiter), Step::SleepInReceive);
    waiter.on_receive(Some(Duration::ZERO));
    waiter.begin(WaitPolicy::Adaptive, Awaited::Progress);
    assert_eq!(waiter.sleep(IDLE), Step::SleepInReceive);
    assert_eq!(receive(&mut waiter), Step::TimedSleep);
}

#[test]
fn answers_that_come_late_are_looked_for_less_and_less() {
    let (soon, late) = (ANSWER / 2, ANSWER * 2);
    let mut waiter = waiter();
    assert_eq!(receive(&mut waiter), Step::SleepInReceive);
    assert!((0..100).all(|_| ask(&mut waiter, soon)));
    let polls = (0..1_000).filter(|_| ask(&mut waiter, late)).count();
    assert!((10..30).contains(&polls), "{polls} of 1000");
    // A single answer in time, and every wait polls again.
    while !ask(&mut waiter, soon) {}
    assert!((0..100).all(|_| ask(&mut waiter, soon)));
}

/// A peer that shares the processor answers only while this process sleeps.
#[test]
fn a_wait_for_an_answer_never_yields() {
    let mut waiter = waiter();
    waiter.on_sent(1);
    waiter.begin(WaitPolicy::Adaptive, Awaited::Message);
    let polls = 10 * POLLS_BEFORE_YIELD;
    assert!((0..polls).all(|_| waiter.poll(Instant::ZERO) == Some(Step::Poll)));
    assert_eq!(waiter.poll(Instant::ZERO + ANSWER), None);
    waiter.begin(WaitPolicy::SPIN, Awaited::Message);
    assert_eq!(
        (0..polls)
            .filter(|_| waiter.poll(Instant::ZERO) == Some(Step::YieldAndPoll))
            .count(),
        (polls - POLLS_BEFORE_YIELD) as usize
    );
}

#[test]
fn spins_for_its_bound_then_sleeps_until_restarted() {
    let start = Instant::ZERO;
    let spin = WaitPolicy::Spin(Duration::from_millis(1));
    let mut waiter = waiter();
    waiter.begin(spin, Awaited::Progress);
    assert!(polls(&mut waiter, start));
    assert!(polls(&mut waiter, start + Duration::from_micros(999)));
    assert!(!polls(&mut waiter, start + Duration::from_millis(1)));
    waiter.begin(spin, Awaited::Progress);
    assert!(polls(&mut waiter, start + Duration::from_millis(2)));
    for policy in [WaitPolicy::Sleep, WaitPolicy::Adaptive] {
        waiter.begin(policy, Awaited::Message);
        assert!(!polls(&mut waiter, start));
    }
}

#[test]
fn timers_limits_and_a_full_socket_need_a_sleep_beside_the_socket() {
    let mut waiter = waiter();
    waiter.begin(WaitPolicy::Sleep, Awaited::Message);
    assert_eq!(waiter.sleep(IDLE), Step::SleepInReceive);
    let left = Deadline::after(LIMIT / 2);
    let beside = [
        WaitConditions {
            due: Some(PRECISE / 2),
            ..IDLE
        },
        WaitConditions {
            deadline: left,
            ..IDLE
        },
        WaitConditions {
            want_write: true,
            ..IDLE
        },
    ];
    for conditions in beside {
        assert_eq!(
            waiter.sleep(conditions),
            Step::SleepInPoll,
            "{conditions:?}"
        );
    }
    // The rest of a long wait is one sleep.
    waiter.on_receive(None);
    assert_eq!(waiter.sleep(IDLE), Step::SleepInPoll);
    waiter.on_input();
    assert_eq!(waiter.sleep(IDLE), Step::SleepInReceive);
    assert_eq!(Waiter::new(None).sleep(IDLE), Step::SleepInPoll);
}

/// A sleep of a stream whose sender pauses after `sends` since it began, if it is one. Returns
/// whether it was a timed sleep.
fn stream(waiter: &mut Waiter, sends: Duration) -> bool {
    let began = Instant::ZERO;
    let step = receive(waiter);
    if step == Step::TimedSleep {
        waiter.on_timed_sleep(began, began + LONG, Some(began + sends));
    } else {
        waiter.on_receive(Some(DENSE / 2));
    }
    step == Step::TimedSleep
}

/// A waiter in the middle of a stream.
fn in_stream() -> Waiter {
    let mut waiter = waiter();
    assert!(!stream(&mut waiter, LONG), "nothing is known yet");
    assert_eq!(receive(&mut waiter), Step::TimedSleep);
    waiter
}

#[test]
fn a_stream_is_slept_through_in_timed_sleeps() {
    let mut waiter = waiter();
    assert_eq!(receive(&mut waiter), Step::SleepInReceive);
    waiter.on_receive(Some(DENSE * 2));
    let step = receive(&mut waiter);
    assert_eq!(
        step,
        Step::SleepInReceive,
        "messages that come now and then"
    );
    waiter.on_receive(Some(DENSE / 2));
    assert!((0..100).all(|_| stream(&mut waiter, LONG)));
    let left = WaitConditions {
        drained: false,
        ..IDLE
    };
    waiter.begin(WaitPolicy::Adaptive, Awaited::Message);
    assert_eq!(
        waiter.sleep(left),
        Step::SleepInReceive,
        "it is taken at once"
    );
    waiter.on_receive(None);
    waiter.on_input();
    assert_eq!(receive(&mut waiter), Step::SleepInReceive, "it is over");
}

/// A sender with a small window or little credit sends nothing more until it hears of us.
#[test]
fn timed_sleeps_that_keep_the_sender_waiting_are_seldom() {
    let mut waiter = waiter();
    let count = (0..1_000).filter(|_| stream(&mut waiter, LONG / 4)).count();
    assert!((10..30).contains(&count), "{count} of 1000");
    // Once it sends on, timed sleeps come back.
    while !stream(&mut waiter, LONG) {}
    let count = (0..100).filter(|_| stream(&mut waiter, LONG)).count();
    assert!(count > 50, "{count} of 100");
}

#[test]
fn where_timed_sleeps_take_long_none_is_taken() {
    let mut waiter = in_stream();
    let woke = Instant::ZERO + TOO_LONG;
    waiter.on_timed_sleep(Instant::ZERO, woke, Some(woke));
    assert_eq!(receive(&mut waiter), Step::SleepInReceive);
}

#[test]
fn a_timed_sleep_in_which_nothing_came_was_too_long() {
    let mut waiter = in_stream();
    waiter.on_timed_sleep(Instant::ZERO, Instant::ZERO + LONG, None);
    assert_eq!(receive(&mut waiter), Step::SleepInReceive);
}
