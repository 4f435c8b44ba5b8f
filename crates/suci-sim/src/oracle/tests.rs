//! One fabricated breach for each promise: an oracle that stays silent is worth nothing.

use bytes::Bytes;
use suci_proto::time::{Duration, Instant};
use suci_proto::types::{ChannelId, Kind as MessageKind, NodeId, SessionNumber, Source};
use suci_proto::{
    CANCELLED, EXPIRED, EndReason, Event, LostCause, Message, MessageOutcome, Outcome,
};

use super::{Kind, Oracle, Spec, Verdict};
use crate::content::Name;
use crate::packet::{Carried, ProcId};
use crate::tap::What;

/// Nodes 1 and 2 with one process each, and the messages from the first to the second.
struct Pair {
    oracle: Oracle,
    sender: ProcId,
    receiver: ProcId,
    now: Instant,
    /// Sessions whose end the sender heard of.
    ends: u32,
}

const SPEC: Spec = Spec {
    to: 2,
    channel: 5,
    length: 40,
    header: 3,
    kind: 130,
    tagged: true,
    notify: true,
    twin: false,
    deadline: None,
    cancel: None,
};

const UP: Event = Event::Up {
    node: NodeId(2),
    session: SessionNumber(0),
};

impl Pair {
    fn new() -> Self {
        let mut oracle = Oracle::new(9);
        let sender = oracle.process_started(1);
        let receiver = oracle.process_started(2);
        Self {
            oracle,
            sender,
            receiver,
            now: Instant::from_nanos(1_000),
            ends: 0,
        }
    }

    /// Accepts a message; its name and number.
    fn send(&mut self, spec: Spec, number: u64) -> Name {
        let name = self.oracle.draft(self.sender, &spec);
        self.oracle.accepted(self.now, name, spec, number).unwrap();
        name
    }

    fn message(name: Name, spec: Spec, number: u64) -> Message {
        Message {
            channel: ChannelId(spec.channel),
            number,
            tag: if spec.tagged { name.tag() } else { 0 },
            kind: MessageKind(spec.kind),
            user_header: name.header(spec.header),
            payload: name.payload(spec.length).into(),
        }
    }

    fn receive(&mut self, message: &Message) -> Verdict {
        let source = Source {
            node: NodeId(1),
            session: SessionNumber(0),
        };
        self.oracle.received(self.receiver, source, message)
    }

    /// All of a message reaches the receiving library.
    fn carry(&mut self, name: Name, end: u64) {
        let carried = [Carried {
            token: name.token,
            start: 0,
            end,
            what: What::Bytes,
        }];
        self.oracle.sent(&carried, true);
        self.oracle.handed(self.receiver, &carried);
    }

    /// The receiving program gets a message that its library was handed.
    fn take(&mut self, name: Name, spec: Spec, number: u64) -> Verdict {
        self.carry(name, spec.length);
        self.receive(&Self::message(name, spec, number))
    }

    fn delivered(&mut self, name: Name, number: u64) -> Verdict {
        let event = Event::Delivered {
            node: NodeId(2),
            channel: ChannelId(SPEC.channel),
            number,
            token: name.token,
        };
        self.oracle.event(self.sender, &event)
    }

    fn ended(&mut self, outcomes: &[(Name, u64, Outcome)]) -> Verdict {
        let outcomes = outcomes
            .iter()
            .map(|(name, number, outcome)| MessageOutcome {
                channel: ChannelId(SPEC.channel),
                number: *number,
                token: name.token,
                notify: true,
                outcome: *outcome,
            })
            .collect();
        self.ends += 1;
        let event = Event::Ended {
            node: NodeId(2),
            session: SessionNumber(self.ends - 1),
            sessions: 1,
            reason: EndReason::Silent,
            outcomes,
        };
        self.oracle.event(self.sender, &event)
    }
}

fn kind(verdict: Verdict) -> Option<Kind> {
    verdict.err().map(|violation| violation.kind)
}

#[test]
fn what_is_right_passes() {
    let mut pair = Pair::new();
    for number in 0..20 {
        let spec = Spec {
            tagged: number % 3 == 0,
            length: number * 7,
            ..SPEC
        };
        let name = pair.send(spec, number);
        pair.carry(name, spec.length);
        pair.receive(&Pair::message(name, spec, number)).unwrap();
        pair.delivered(name, number).unwrap();
    }
    assert!(pair.oracle.is_settled());
    pair.oracle.finish().unwrap();
    assert_eq!(pair.oracle.delivered(), 20);
}

#[test]
fn an_untagged_first_message_is_told_by_its_content() {
    let mut pair = Pair::new();
    let spec = Spec {
        tagged: false,
        ..SPEC
    };
    let name = pair.send(spec, 0);
    let mut message = Pair::message(name, spec, 0);
    message.payload = Bytes::from(vec![0; 40]).into();
    assert_eq!(kind(pair.receive(&message)), Some(Kind::Invented));
    pair.take(name, spec, 0).unwrap();
}

#[test]
fn modified_payload_tag_header_and_kind_are_found() {
    let changes: [fn(&mut Message); 5] = [
        |message| message.payload = Bytes::copy_from_slice(&message.payload[1..]).into(),
        |message| message.user_header = Bytes::new(),
        |message| message.kind = MessageKind(128),
        |message| {
            let mut bytes = message.payload.to_vec();
            bytes[39] ^= 1;
            message.payload = Bytes::from(bytes).into();
        },
        |message| message.user_header = Bytes::from_static(b"abc"),
    ];
    for change in changes {
        let mut pair = Pair::new();
        let name = pair.send(SPEC, 0);
        let mut message = Pair::message(name, SPEC, 0);
        change(&mut message);
        assert_eq!(kind(pair.receive(&message)), Some(Kind::Modified));
    }
}

#[test]
fn gaps_and_returning_messages_are_found() {
    let mut pair = Pair::new();
    let names: Vec<_> = (0..3).map(|number| pair.send(SPEC, number)).collect();
    let mut take = |n: usize| pair.take(names[n], SPEC, n as u64);
    assert_eq!(kind(take(1)), Some(Kind::Gap));
    take(0).unwrap();
    assert_eq!(kind(take(2)), Some(Kind::Gap));
    assert_eq!(kind(take(0)), Some(Kind::Order));
}

#[test]
fn a_message_out_of_nowhere_is_found() {
    let mut pair = Pair::new();
    let name = Name {
        seed: 9,
        from: 0,
        to: 2,
        channel: 5,
        token: 77,
    };
    assert_eq!(
        kind(pair.receive(&Pair::message(name, SPEC, 0))),
        Some(Kind::Invented)
    );
    let elsewhere = Spec { to: 3, ..SPEC };
    let name = pair.send(elsewhere, 0);
    assert_eq!(
        kind(pair.receive(&Pair::message(name, elsewhere, 0))),
        Some(Kind::Invented)
    );
}

#[test]
fn a_message_resent_to_a_new_incarnation_is_found() {
    let mut pair = Pair::new();
    let name = pair.send(SPEC, 0);
    pair.take(name, SPEC, 0).unwrap();
    pair.oracle.process_stopped(pair.receiver, pair.now);
    pair.receiver = pair.oracle.process_started(2);
    assert_eq!(
        kind(pair.receive(&Pair::message(name, SPEC, 0))),
        Some(Kind::Twice)
    );
}

#[test]
fn a_message_of_the_old_session_in_the_new_one_is_found() {
    let mut pair = Pair::new();
    let old: Vec<_> = (0..2).map(|number| pair.send(SPEC, number)).collect();
    pair.take(old[0], SPEC, 0).unwrap();
    // The sender's session ends, numbers begin again; the receiver does not hear of it.
    let _fresh = pair.send(SPEC, 0);
    let fresh = pair.send(SPEC, 1);
    assert_eq!(kind(pair.take(fresh, SPEC, 1)), Some(Kind::OldSession));
}

/// The receiving program reads the first session only when the second has begun. Both sessions
/// begin with the same messages, which nothing else tells apart.
#[test]
fn equal_messages_of_two_sessions_are_told_apart_by_their_session() {
    let mut pair = Pair::new();
    let empty = Spec {
        length: 0,
        tagged: false,
        header: 0,
        ..SPEC
    };
    let taken = |pair: &mut Pair, name, session| {
        pair.carry(name, 0);
        let (carried, session) = (says(name, What::Bytes), SessionNumber(session));
        pair.oracle.taken(pair.receiver, &carried, session, true);
    };
    let first: Vec<_> = (0..2).map(|number| pair.send(empty, number)).collect();
    first.iter().for_each(|name| taken(&mut pair, *name, 0));
    // The second message of the second session is under way.
    let second: Vec<_> = (0..2).map(|number| pair.send(empty, number)).collect();
    taken(&mut pair, second[0], 1);
    for (name, number) in first.iter().zip(0..) {
        let message = Pair::message(*name, empty, number);
        pair.receive(&message).unwrap();
    }

    let other = Spec { channel: 6, ..SPEC };
    let name = pair.send(other, 0);
    pair.carry(name, other.length);
    let carried = says(name, What::Bytes);
    let session = SessionNumber(1);
    pair.oracle.taken(pair.receiver, &carried, session, true);
    let wrong = pair.receive(&Pair::message(name, other, 0));
    assert_eq!(kind(wrong), Some(Kind::OldSession), "it came in session 1");
}

#[test]
fn messages_of_two_processes_in_one_session_are_found() {
    let mut pair = Pair::new();
    let name = pair.send(SPEC, 0);
    pair.take(name, SPEC, 0).unwrap();
    pair.sender = pair.oracle.process_started(1);
    let other = Spec { channel: 6, ..SPEC };
    let name = pair.send(other, 0);
    assert_eq!(kind(pair.take(name, other, 0)), Some(Kind::OldSession));
}

#[test]
fn delivered_before_the_last_byte_is_found() {
    let mut pair = Pair::new();
    let name = pair.send(SPEC, 0);
    pair.carry(name, 39);
    assert_eq!(kind(pair.delivered(name, 0)), Some(Kind::FalselyDelivered));
    pair.carry(name, 40);
    pair.delivered(name, 0).unwrap();
    assert_eq!(kind(pair.delivered(name, 0)), Some(Kind::OutcomeTwice));
}

#[test]
fn false_outcomes_are_found() {
    let mut pair = Pair::new();
    let name = pair.send(SPEC, 0);
    assert_eq!(
        kind(pair.ended(&[(name, 0, Outcome::Delivered)])),
        Some(Kind::FalselyDelivered),
        "delivered, never sent"
    );
    assert_eq!(
        kind(pair.ended(&[(name, 1, Outcome::NotDelivered)])),
        Some(Kind::OutcomeInvented),
        "another number"
    );
    let mut pair = Pair::new();
    let name = pair.send(SPEC, 0);
    pair.carry(name, 10);
    assert_eq!(
        kind(pair.ended(&[(name, 0, Outcome::Unknown)])),
        Some(Kind::FalselyUnknown)
    );
    let mut pair = Pair::new();
    let name = pair.send(SPEC, 0);
    pair.carry(name, 40);
    let told = pair.ended(&[(name, 0, Outcome::NotDelivered)]);
    assert_eq!(
        kind(told),
        Some(Kind::FalselyNotDelivered),
        "all of it was sent"
    );
}

#[test]
fn a_message_received_after_not_delivered_is_found() {
    let mut pair = Pair::new();
    let name = pair.send(SPEC, 0);
    pair.ended(&[(name, 0, Outcome::NotDelivered)]).unwrap();
    let received = pair.take(name, SPEC, 0);
    assert_eq!(kind(received), Some(Kind::FalselyNotDelivered));
}

#[test]
fn a_refused_message_leaves_no_gap_and_may_be_not_delivered() {
    let mut pair = Pair::new();
    let names: Vec<_> = (0..2).map(|number| pair.send(SPEC, number)).collect();
    pair.carry(names[0], 40);
    pair.oracle
        .refused(pair.receiver, NodeId(1), SPEC.channel, 0);
    pair.take(names[1], SPEC, 1).unwrap();
    let event = Event::NotDelivered {
        node: NodeId(2),
        channel: ChannelId(SPEC.channel),
        number: 0,
        token: names[0].token,
        reason: 7,
    };
    pair.oracle.event(pair.sender, &event).unwrap();
}

#[test]
fn a_missing_outcome_is_found() {
    let mut pair = Pair::new();
    let first = pair.send(SPEC, 0);
    let _second = pair.send(SPEC, 1);
    assert_eq!(
        kind(pair.ended(&[(first, 0, Outcome::NotDelivered)])),
        Some(Kind::OutcomeMissing)
    );
}

#[test]
fn a_message_that_never_arrives_is_found_at_the_end() {
    let mut pair = Pair::new();
    let name = pair.send(SPEC, 0);
    assert!(!pair.oracle.is_settled());
    assert_eq!(kind(pair.oracle.finish()), Some(Kind::Undelivered));
    pair.carry(name, 40);
    pair.delivered(name, 0).unwrap();
    assert_eq!(
        kind(pair.oracle.finish()),
        Some(Kind::Undelivered),
        "held, never handed over"
    );
    assert!(!pair.oracle.is_settled(), "its program may yet take it");
    pair.oracle
        .process_stopped(pair.receiver, pair.now + Duration::from_secs(1));
    pair.oracle.finish().unwrap();
}

#[test]
fn numbers_that_jump_are_found() {
    let mut pair = Pair::new();
    pair.send(SPEC, 0);
    let name = pair.oracle.draft(pair.sender, &SPEC);
    assert_eq!(
        kind(pair.oracle.accepted(pair.now, name, SPEC, 2)),
        Some(Kind::Order)
    );
}

#[test]
fn events_out_of_order_are_found() {
    let mut pair = Pair::new();
    let lost = Event::Lost {
        node: NodeId(2),
        cause: LostCause::NoAnswer,
    };
    let up = UP;
    for _ in 0..2 {
        pair.oracle.event(pair.sender, &up).unwrap();
        pair.oracle.event(pair.sender, &lost).unwrap();
    }
    assert_eq!(
        kind(pair.oracle.event(pair.sender, &lost)),
        Some(Kind::Events),
        "lost twice"
    );
    let mut pair = Pair::new();
    for event in [&up, &lost, &up] {
        pair.oracle.event(pair.sender, event).unwrap();
    }
    assert_eq!(
        kind(pair.oracle.event(pair.sender, &up)),
        Some(Kind::Events),
        "up twice"
    );
}

#[test]
fn several_ends_heard_at_once_are_told_apart_by_their_numbers() {
    let mut pair = Pair::new();
    let first = pair.send(SPEC, 0);
    let second = pair.send(SPEC, 0);
    let third = pair.send(SPEC, 0);
    pair.ended(&[(first, 0, Outcome::NotDelivered)]).unwrap();
    pair.ended(&[(second, 0, Outcome::NotDelivered)]).unwrap();
    pair.take(third, SPEC, 0).unwrap();
}

/// `Ended` of a session, `Up` of the next one, and messages of both: only their order of sessions
/// passes.
#[test]
fn sessions_out_of_order_are_found() {
    let up = |session| Event::Up {
        node: NodeId(2),
        session: SessionNumber(session),
    };
    let mut pair = Pair::new();
    pair.oracle.event(pair.sender, &up(0)).unwrap();
    let early = pair.oracle.event(pair.sender, &up(1));
    assert_eq!(kind(early), Some(Kind::OldSession), "session 0 did not end");
    pair.ended(&[]).unwrap();
    let late = pair.oracle.event(pair.sender, &up(0));
    assert_eq!(kind(late), Some(Kind::OldSession), "session 0 ended");
    pair.oracle.event(pair.sender, &up(3)).unwrap();
    assert_eq!(kind(pair.ended(&[])), Some(Kind::Events), "session 1 ends");
}

#[test]
fn a_peer_lost_without_reason_is_found() {
    let mut pair = Pair::new();
    pair.oracle.peers_stay(pair.sender);
    let node = NodeId(2);
    pair.oracle.event(pair.sender, &UP).unwrap();
    let cause = LostCause::NoAnswer;
    let lost = Event::Lost { node, cause };
    let lost = pair.oracle.event(pair.sender, &lost);
    assert_eq!(kind(lost), Some(Kind::Events));
}

/// An orderly end although messages are missing, and an end that was cut short although fewer are:
/// both are found.
#[test]
fn an_end_that_says_wrongly_what_is_missing_is_found() {
    for (reason, found) in [
        (EndReason::Closed, Some(Kind::Events)),
        (EndReason::CutShort { missing: 1 }, Some(Kind::Events)),
        (EndReason::CutShort { missing: 2 }, None),
        (EndReason::CutShort { missing: 3 }, Some(Kind::Events)),
        (EndReason::Restarted, None),
    ] {
        let mut pair = Pair::new();
        let first = pair.send(SPEC, 0);
        pair.send(SPEC, 1);
        pair.send(SPEC, 2);
        pair.take(first, SPEC, 0).unwrap();
        let event = Event::Ended {
            node: NodeId(1),
            session: SessionNumber(0),
            sessions: 1,
            reason,
            outcomes: Vec::new(),
        };
        let verdict = pair.oracle.event(pair.receiver, &event);
        assert_eq!(kind(verdict), found, "{reason:?}");
    }
}

/// The first message between two processes is late, and lost packets explain some of that or not.
#[test]
fn a_first_message_that_takes_longer_than_losses_explain_is_found() {
    const PROBE: Duration = Duration::from_millis(100);
    for (losses, late_after) in [
        (0, Some(5)),
        (1, Some(7)),
        (2, Some(11)),
        (3, Some(19)),
        (4, None),
    ] {
        let mut pair = Pair::new();
        pair.oracle.judge_contacts(PROBE);
        pair.oracle.takes_at_once(pair.receiver);
        pair.send(SPEC, 0);
        for _ in 0..losses {
            pair.oracle.lost_between(pair.receiver, pair.sender);
        }
        let found = (0..100).find(|probes| {
            let verdict = pair.oracle.judge_due(pair.now + PROBE * *probes);
            kind(verdict) == Some(Kind::Late)
        });
        assert_eq!(found, late_after, "{losses} losses");
    }
}

/// A message that waits behind another one waits for the packets that this one lost.
#[test]
fn a_question_is_late_when_all_losses_since_the_one_before_it_do_not_explain_it() {
    const PROBE: Duration = Duration::from_millis(100);
    let late_after = |first_is_open: bool| {
        let mut pair = Pair::new();
        pair.oracle.judge_questions(PROBE * 10, PROBE);
        pair.oracle.takes_at_once(pair.receiver);
        let first = pair.send(SPEC, 0);
        for _ in 0..3 {
            pair.oracle.lost_between(pair.receiver, pair.sender);
        }
        if !first_is_open {
            pair.take(first, SPEC, 0).unwrap();
        }
        pair.send(SPEC, 1);
        (0..100).find(|probes| {
            let verdict = pair.oracle.judge_due(pair.now + PROBE * *probes);
            kind(verdict) == Some(Kind::Late)
        })
    };
    assert_eq!(late_after(true), Some(24));
    assert_eq!(late_after(false), Some(10));
}

#[test]
fn only_a_contact_that_nothing_holds_up_is_judged() {
    const PROBE: Duration = Duration::from_millis(100);
    const LATER: Duration = Duration::from_secs(100);
    let verdict = |prepare: fn(&mut Pair), length| {
        let mut pair = Pair::new();
        pair.oracle.judge_contacts(PROBE);
        prepare(&mut pair);
        pair.send(Spec { length, ..SPEC }, 0);
        kind(pair.oracle.judge_due(pair.now + LATER))
    };
    let eager = |pair: &mut Pair| pair.oracle.takes_at_once(pair.receiver);
    assert_eq!(verdict(eager, 40), Some(Kind::Late));
    assert_eq!(verdict(eager, 1 << 20), None, "long");
    assert_eq!(verdict(|_| (), 40), None, "a program that takes its time");
    let excused = |pair: &mut Pair| {
        pair.oracle.takes_at_once(pair.receiver);
        pair.oracle.excuse_contacts();
    };
    assert_eq!(verdict(excused, 40), None, "a fault that lasts");
    let early = |pair: &mut Pair| {
        let (sender, now) = (pair.sender, pair.now);
        pair.oracle.process_stopped(pair.receiver, now);
        pair.send(SPEC, 0);
        let after = pair.oracle.process_started(2);
        pair.oracle.takes_at_once(after);
        assert_ne!(after, sender);
    };
    let begun_early = {
        let mut pair = Pair::new();
        pair.oracle.judge_contacts(PROBE);
        early(&mut pair);
        pair.send(SPEC, 1);
        kind(pair.oracle.judge_due(pair.now + LATER))
    };
    assert_eq!(begun_early, None, "sent before the peer ran");
}

/// Where no packet is lost, the first message must arrive in time. A program that takes its time
/// may get it later: if the library has it, in the end; if not, the sender must be told at last.
#[test]
fn a_first_message_to_a_slow_program_is_judged_later() {
    const WITHIN: Duration = Duration::from_secs(10);
    let first = |eager: bool| {
        let mut pair = Pair::new();
        if eager {
            pair.oracle.takes_at_once(pair.receiver);
        }
        pair.oracle.judge_first(pair.sender, WITHIN, true);
        let name = pair.send(SPEC, 0);
        (pair, name)
    };
    for (eager, found) in [(true, Some(Kind::Undelivered)), (false, None)] {
        let (mut pair, name) = first(eager);
        let late = pair.oracle.judge_due(pair.now + WITHIN);
        assert_eq!(kind(late), found, "no room for it, {eager}");
        let closed = pair.oracle.closed_in_order(pair.sender);
        assert_eq!(kind(closed), Some(Kind::Undelivered), "not told, {eager}");
        pair.carry(name, SPEC.length);
        pair.delivered(name, 0).unwrap();
        let closed = pair.oracle.closed_in_order(pair.sender);
        assert_eq!(kind(closed), found, "the library has it, {eager}");
        assert_eq!(kind(pair.oracle.finish()), Some(Kind::Undelivered));
    }
    // Nothing tells of a message without notice but that its process closed in order.
    let mut pair = Pair::new();
    pair.oracle.judge_first(pair.sender, WITHIN, true);
    let spec = Spec {
        notify: false,
        ..SPEC
    };
    let name = pair.send(spec, 0);
    pair.carry(name, spec.length);
    pair.oracle.closed_in_order(pair.sender).unwrap();
    pair.oracle.process_stopped(pair.sender, pair.now);
    assert_eq!(kind(pair.oracle.finish()), Some(Kind::Undelivered));
    pair.receive(&Pair::message(name, spec, 0)).unwrap();
    pair.oracle.finish().unwrap();
}

#[test]
fn room_that_is_not_told_or_that_nobody_waits_for_is_found() {
    let mut pair = Pair::new();
    let room = Event::Writable {
        node: NodeId(2),
        class: 4,
    };
    let sender = pair.sender;
    pair.oracle.wants_room(sender, 2, 4);
    assert_eq!(kind(pair.oracle.finish_wants()), Some(Kind::Events));
    pair.oracle.event(sender, &room).unwrap();
    pair.oracle.finish_wants().unwrap();
    assert_eq!(
        kind(pair.oracle.event(sender, &room)),
        Some(Kind::Events),
        "once"
    );
}

/// The contents of a packet about a message.
fn says(name: Name, what: What) -> [Carried; 1] {
    [Carried {
        token: name.token,
        start: 0,
        end: 0,
        what,
    }]
}

fn cancel(pair: &mut Pair, name: Name, count: u64) -> Verdict {
    let (sender, channel) = (pair.sender, SPEC.channel);
    (pair.oracle).cancelled(sender, SPEC.to, channel, name.token, count)
}

/// The sender is told that it took a message back.
fn taken_back(pair: &mut Pair, name: Name, number: u64, reason: u64) -> Verdict {
    let event = Event::NotDelivered {
        node: NodeId(2),
        channel: ChannelId(SPEC.channel),
        number,
        token: name.token,
        reason,
    };
    pair.oracle.event(pair.sender, &event)
}

#[test]
fn messages_that_were_taken_back_leave_no_gap() {
    let mut pair = Pair::new();
    let soon = Spec {
        deadline: Some(Duration::from_millis(1)),
        ..SPEC
    };
    let names: Vec<_> = (0..3)
        .map(|number| pair.send(if number == 1 { soon } else { SPEC }, number))
        .collect();
    cancel(&mut pair, names[0], 1).unwrap();
    taken_back(&mut pair, names[0], 0, CANCELLED).unwrap();
    taken_back(&mut pair, names[1], 1, EXPIRED).unwrap();
    let third = |pair: &mut Pair| pair.take(names[2], SPEC, 2);
    assert_eq!(kind(third(&mut pair)), Some(Kind::Gap), "not told there");
    let late = Some(pair.now + Duration::from_millis(1));
    for name in &names[..2] {
        let void = says(*name, What::Void);
        pair.oracle.check_withdrawn(late, &void).unwrap();
    }
    third(&mut pair).unwrap();
    pair.delivered(names[2], 2).unwrap();
    pair.oracle.finish().unwrap();
    assert_eq!(pair.oracle.withdrawn(), 2);
}

#[test]
fn a_wrong_withdrawal_is_found() {
    let now = |pair: &Pair| Some(pair.now);
    let mut pair = Pair::new();
    let name = pair.send(SPEC, 0);
    let at = now(&pair);
    let void = says(name, What::Void);
    let verdict = pair.oracle.check_withdrawn(at, &void);
    assert_eq!(kind(verdict), Some(Kind::Withdrawn), "for no reason");
    let told = taken_back(&mut pair, name, 0, CANCELLED);
    assert_eq!(kind(told), Some(Kind::Withdrawn), "nobody cancelled it");
    cancel(&mut pair, name, 1).unwrap();
    let bytes = says(name, What::Bytes);
    let verdict = pair.oracle.check_withdrawn(at, &bytes);
    assert_eq!(kind(verdict), Some(Kind::Withdrawn), "sent all the same");
    let again = cancel(&mut pair, name, 1);
    assert_eq!(kind(again), Some(Kind::Withdrawn), "twice");

    let other = pair.send(SPEC, 1);
    pair.oracle.sent(&says(other, What::Request), true);
    let verdict = cancel(&mut pair, other, 1);
    assert_eq!(kind(verdict), Some(Kind::Withdrawn), "it was asked about");

    let soon = Spec {
        deadline: Some(Duration::ZERO),
        ..SPEC
    };
    let late = pair.send(soon, 2);
    let bytes = says(late, What::Bytes);
    let verdict = pair.oracle.check_withdrawn(at, &bytes);
    assert_eq!(kind(verdict), Some(Kind::Withdrawn), "after its deadline");
}

/// A message behind one that was taken back may be delivered and never handed over, if the session
/// ended before the void message came.
#[test]
fn a_void_message_that_did_not_come_leaves_a_gap() {
    // The packet with the void message may end the session before the library reads that message.
    let sure = Some(true);
    for (comes, ends) in [
        (None, true),
        (Some(false), true),
        (sure, true),
        (None, false),
    ] {
        let mut pair = Pair::new();
        let names: Vec<_> = (0..2).map(|number| pair.send(SPEC, number)).collect();
        cancel(&mut pair, names[0], 1).unwrap();
        taken_back(&mut pair, names[0], 0, CANCELLED).unwrap();
        let void = says(names[0], What::Void);
        pair.oracle.check_withdrawn(Some(pair.now), &void).unwrap();
        if let Some(surely) = comes {
            let session = SessionNumber(0);
            pair.oracle.taken(pair.receiver, &void, session, surely);
        }
        pair.carry(names[1], 40);
        match ends {
            true => pair.ended(&[(names[1], 1, Outcome::Delivered)]).unwrap(),
            false => pair.delivered(names[1], 1).unwrap(),
        }
        let wrong = comes == sure || !ends;
        let verdict = kind(pair.oracle.finish());
        assert_eq!(verdict, wrong.then_some(Kind::Undelivered));
    }
}
