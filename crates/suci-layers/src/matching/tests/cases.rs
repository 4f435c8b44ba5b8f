//! Single cases.

use super::super::{BufferError, MESSAGE_CHARGE, MessageId, NoSuchMessage, ReceiveId, Unmatched};
use super::*;
use suci_proto::{LentMemory, LostCause};

const A: Source = Source {
    node: NodeId(1),
    session: SessionNumber(0),
};

#[test]
fn the_oldest_receive_gets_the_message_whatever_its_pattern() {
    let patterns = [
        Pattern::any(),
        exact(1, 5),
        Pattern::tag(5),
        Pattern::tag(4).ignoring(1),
        exact(1, 4).ignoring(1),
    ];
    for first in 0..patterns.len() {
        let mut table = Matching::default();
        let memory = Bytes8::new(8);
        let order = (0..patterns.len()).map(|at| patterns[(first + at) % patterns.len()]);
        let posted: Vec<_> = order.map(|one| table.post(one, buffer(&memory))).collect();
        for number in 0..patterns.len() as u64 {
            table.on_input(message(A, 0, number, 5, 1));
        }
        let got: Vec<_> = completions(&mut table).iter().map(|c| c.receive).collect();
        assert_eq!(got, posted, "from {first}");
    }
}

#[test]
fn a_receive_gets_the_oldest_message_that_it_admits() {
    let mut table = Matching::default();
    let memory = Bytes8::new(8);
    for (number, tag) in [7, 5, 6, 5].into_iter().enumerate() {
        table.on_input(message(A, 0, number as u64, tag, 1));
    }
    table.post(exact(1, 5), buffer(&memory));
    table.post(Pattern::tag(4).ignoring(3), buffer(&memory));
    table.post(exact(2, 5), buffer(&memory));
    table.post(Pattern::any().on(1), buffer(&memory));
    table.post(Pattern::any(), buffer(&memory));
    table.post(exact(1, 5), buffer(&memory));
    assert_eq!(numbers(&mut table), [1, 0, 2, 3]);
    assert_eq!(table.unexpected(), (0, 0));
}

#[test]
fn bytes_go_to_the_buffer_and_the_rest_is_discarded() {
    let mut table = Matching::default();
    let parts = [
        Bytes8::new(3),
        Bytes8::new(0),
        Bytes8::new(4),
        Bytes8::new(5),
    ];
    let dynamic = parts.iter().map(|part| Arc::clone(part) as Arc<dyn Memory>);
    let scattered = Buffer::new(dynamic).unwrap();
    table.post(exact(1, 5), scattered.clone());
    table.on_input(message(A, 0, 0, 5, 40));
    let done = completions(&mut table).remove(0).result.unwrap();
    assert_eq!(
        (done.length, done.total, done.is_truncated()),
        (12, 40, true)
    );
    let got = parts
        .iter()
        .map(|part| part.all())
        .collect::<Vec<_>>()
        .concat();
    assert_eq!(got, payload(A, 0, 40)[..12]);

    // The same, in pieces and in any order, into memory that was named before.
    table.post(exact(1, 5), scattered);
    let mut memory = begin(&mut table, A, &info(0, 1, 5, 40)).unwrap();
    let bytes = payload(A, 1, 40);
    assert_eq!(memory.length(), 40);
    memory.write(20, &bytes[20..]);
    memory.write(5, &bytes[5..20]);
    memory.write(0, &bytes[..5]);
    let mut read = [0; 6];
    memory.read(2, &mut read);
    assert_eq!(read, bytes[2..8]);
    let got = parts
        .iter()
        .map(|part| part.all())
        .collect::<Vec<_>>()
        .concat();
    assert_eq!(got, bytes[..12]);
}

#[test]
fn a_buffer_for_several_messages_takes_them_behind_each_other() {
    let mut table = Matching::default();
    let memory = Bytes8::new(20);
    assert_eq!(
        buffer(&memory).for_several(21).unwrap_err(),
        BufferError::Least {
            length: 20,
            least: 21
        }
    );
    table.on_input(message(A, 0, 0, 5, 6));
    let several = buffer(&memory).for_several(8).unwrap();
    let receive = table.post(Pattern::any(), several);
    // The second is on its way when the third comes, which leaves too little.
    assert!(begin(&mut table, A, &info(0, 1, 5, 3)).is_some());
    let b = source(2, 0);
    table.on_input(message(b, 0, 0, 5, 4));
    table.on_input(message(b, 0, 1, 5, 1));
    table.on_input(message(A, 0, 1, 5, 3));
    let done = completions(&mut table);
    let got: Vec<_> = done
        .iter()
        .map(|one| {
            (
                one.receive,
                one.result.clone().unwrap().offset,
                one.released,
            )
        })
        .collect();
    let expected = [(receive, 0, false), (receive, 9, false), (receive, 6, true)];
    assert_eq!(got, expected);
    assert_eq!(table.unexpected().0, 1, "the fourth waits");
    let all = [payload(A, 0, 6), payload(A, 1, 3), payload(b, 0, 4)].concat();
    assert_eq!(memory.all()[..13], all);
}

#[test]
fn a_cancelled_receive_gets_nothing_unless_a_message_is_on_its_way() {
    let mut table = Matching::default();
    let memory = Bytes8::new(4);
    let first = table.post(exact(1, 5), buffer(&memory));
    let second = table.post(exact(1, 5), buffer(&memory));
    let third = table.post(exact(1, 5), buffer(&memory));
    assert!(table.cancel(first) && !table.cancel(first));
    assert!(begin(&mut table, A, &info(0, 0, 5, 4)).is_some());
    assert!(!table.cancel(second), "a message comes");
    table.abandon(third);
    table.on_input(message(A, 0, 0, 5, 4));
    let done = completions(&mut table);
    assert_eq!((done.len(), done[0].receive), (1, second));
    assert!(!table.cancel(second) && !table.cancel(ReceiveId(99)));

    // Nobody hears of an abandoned one, and what it had got is dropped.
    let fourth = table.post(exact(1, 6), buffer(&memory));
    assert!(begin(&mut table, A, &info(0, 1, 6, 4)).is_some());
    table.abandon(fourth);
    table.on_input(message(A, 0, 1, 6, 4));
    table.on_input(message(A, 0, 2, 6, 4));
    let fifth = table.post(exact(1, 6), buffer(&memory));
    assert!(table.is_complete(fifth));
    table.abandon(fifth);
    assert!(!table.has_completion() && !table.is_open(fourth));
}

#[test]
fn a_claimed_message_goes_to_its_receive_alone() {
    let mut table = Matching::default();
    let memory = Bytes8::new(4);
    table.on_input(message(A, 0, 0, 5, 4));
    let peeked = table.peek(&Pattern::any()).unwrap();
    assert_eq!((peeked.tag, peeked.total, peeked.from), (5, 4, A));
    assert_eq!(table.claim(&exact(1, 5)), Some(peeked.clone()));
    assert_eq!(
        (table.peek(&Pattern::any()), table.claim(&exact(1, 5))),
        (None, None)
    );
    table.post(Pattern::any(), buffer(&memory));
    assert!(!table.has_completion());
    let id = table
        .receive_claimed(peeked.message, buffer(&memory))
        .unwrap();
    assert!(table.take_completion(id).unwrap().released);
    let gone = NoSuchMessage(peeked.message);
    assert_eq!(
        table.receive_claimed(peeked.message, buffer(&memory)),
        Err(gone)
    );
    assert_eq!(
        table.discard(MessageId(99)),
        Err(NoSuchMessage(MessageId(99)))
    );

    // One that is still on its way is known before its bytes.
    assert!(begin(&mut table, A, &info(3, 1, 8, 4)).is_none());
    let coming = table.claim(&Pattern::tag(8).on(3)).unwrap();
    let id = table
        .receive_claimed(coming.message, buffer(&memory))
        .unwrap();
    assert!(!table.is_complete(id));
    table.on_input(message(A, 3, 1, 8, 4));
    assert_eq!(numbers(&mut table), [1]);
    assert_eq!(memory.all(), payload(A, 1, 4));

    assert!(begin(&mut table, A, &info(3, 2, 8, 4)).is_none());
    let coming = table.claim(&Pattern::tag(8).on(3)).unwrap();
    table.discard(coming.message).unwrap();
    table.on_input(message(A, 3, 2, 8, 4));
    assert_eq!(
        (table.has_completion(), table.unexpected()),
        (false, (0, 0))
    );
}

#[test]
fn the_end_of_a_session_fails_what_waits_for_it_and_no_other() {
    let mut table = Matching::default();
    let memory = Bytes8::new(4);
    let directed = table.post(exact(1, 5), buffer(&memory));
    let placed = table.post(Pattern::any(), buffer(&memory));
    let any = table.post(Pattern::any(), buffer(&memory));
    let other = table.post(exact(2, 5), buffer(&memory));
    let mut late = begin(&mut table, A, &info(0, 0, 7, 4)).unwrap();
    assert!(
        begin(&mut table, A, &info(1, 0, 7, 4)).is_none(),
        "no receive"
    );
    table.on_input(message(A, 2, 0, 7, 4));
    table.on_input(ended(A));
    let reason = EndReason::Restarted;
    let failed = |receive| Completion {
        receive,
        result: Err(Unmatched {
            node: NodeId(1),
            reason,
        }),
        released: true,
    };
    assert_eq!(completions(&mut table), [failed(placed), failed(directed)]);
    late.write(0, &[1, 2, 3, 4]);
    assert_eq!(memory.all(), [0; 4], "the buffer is the program's again");
    assert!(table.is_open(any) && table.is_open(other));
    // Complete messages stay; others are gone.
    assert_eq!(table.unexpected().0, 1);
    assert!(table.peek(&Pattern::any().on(2)).is_some());
}

#[test]
fn a_process_that_died_fails_what_it_had_begun() {
    let mut table = Matching::default();
    let memory = Bytes8::new(4);
    let placed = table.post(Pattern::any(), buffer(&memory));
    let directed = table.post(exact(1, 9), buffer(&memory));
    let mut late = begin(&mut table, A, &info(0, 0, 7, 4)).unwrap();
    assert!(begin(&mut table, A, &info(1, 0, 8, 4)).is_none());
    let bound = table.post(Pattern::tag(8).on(1), buffer(&memory));
    table.on_input(PortInput::Lost(A.node, LostCause::ProcessDied));
    let done: Vec<_> = completions(&mut table).iter().map(|c| c.receive).collect();
    assert_eq!(done, [directed, placed, bound]);
    late.write(0, &[1; 4]);
    assert_eq!(memory.all(), [0; 4]);
}

/// The layer hears of the end of a session only after messages of the next one have begun.
#[test]
fn a_message_of_the_next_session_does_not_get_ahead() {
    let mut table = Matching::default();
    let memory = Bytes8::new(4);
    table.on_input(message(A, 0, 0, 1, 4));
    let next = source(1, 1);
    table.post(exact(1, 5), buffer(&memory));
    let any = table.post(Pattern::tag(5), buffer(&memory));
    let early = table.begin(next, &info(0, 0, 5, 4));
    assert!(matches!(early, Begin::TooEarly), "{early:?}");
    let PortInput::Message(from, last) = message(A, 0, 1, 5, 4) else {
        unreachable!();
    };
    table.on_input(PortInput::Last(from, last));
    table.on_input(ended(A));
    table.on_input(message(next, 0, 0, 5, 4));
    let done = completions(&mut table);
    let got: Vec<_> = done
        .iter()
        .map(|one| one.result.clone().unwrap().from)
        .collect();
    assert_eq!((got, done[1].receive), (vec![A, next], any));
}

#[test]
fn f04_a_node_without_memory_is_held_and_others_are_not() {
    let charge = |bytes: u64| bytes + MESSAGE_CHARGE;
    let mut table = Matching::with_memory(8 * charge(100));
    let memory = Bytes8::new(200);
    let mut sent = 0;
    while table.takes(A.node) {
        table.on_input(message(A, 0, sent, 5, 100));
        sent += 1;
    }
    assert_eq!(sent, 4, "half of the memory");
    let b = source(2, 0);
    assert!(table.takes(b.node));
    let mut others = 0;
    while table.takes(b.node) {
        table.on_input(message(b, 0, others, 5, 100));
        others += 1;
    }
    assert_eq!(others, 2, "an even part of the other half");
    assert_eq!(table.unexpected(), (6, 6 * charge(100)));

    // An announced message stays with its sender until a receive admits it, or there is room.
    let c = source(3, 0);
    let long = info(1, 0, 9, 1000);
    assert!(begin(&mut table, c, &long).is_none() && !table.has_decisions());
    let short = info(1, 0, 9, 100);
    assert!(begin(&mut table, b, &short).is_none() && !table.has_decisions());
    for _ in 0..3 {
        assert!(!table.has_decisions());
        table.post(exact(1, 5), buffer(&memory));
    }
    let (decision, place) = table.poll_decision(|_| true).unwrap();
    assert_eq!((decision.place.from, place.is_none()), (b, true));
    assert!(!table.has_decisions(), "too long");
    table.post(exact(3, 9).on(1), buffer(&memory));
    assert!(table.poll_decision(|node| node == NodeId(7)).is_none());
    let (decision, place) = table.poll_decision(|_| true).unwrap();
    assert_eq!((decision.place.from, place.unwrap().length()), (c, 1000));
    table.on_decided(decision);
    // The bytes are placed: the copy that the message carries here is not needed.
    table.on_input(message(c, 1, 0, 9, 1000));
    let done = completions(&mut table).pop().unwrap().result.unwrap();
    assert_eq!((done.length, done.total), (200, 1000));
}

/// Messages that wait in the engine for their node to be released count until receives take them.
#[test]
fn f04_receives_release_the_nodes_whose_messages_they_take() {
    let mut table = Matching::with_memory(1_000 + MESSAGE_CHARGE);
    let memory = Bytes8::new(1_000);
    let (b, c) = (source(2, 0), source(3, 0));
    table.on_input(message(A, 0, 0, 5, 1_000));
    for from in [b, c] {
        assert!(begin(&mut table, from, &info(0, 0, 5, 300)).is_none());
    }
    table.post(exact(1, 5), buffer(&memory));
    assert!(!table.takes(b.node) && !table.takes(c.node));
    for node in [2, 3] {
        table.post(exact(node, 5), buffer(&memory));
    }
    assert!(table.takes(b.node) && table.takes(c.node));
    assert_eq!(table.unexpected(), (0, 0));
    for from in [b, c] {
        table.on_input(message(from, 0, 0, 5, 300));
    }
    assert_eq!(completions(&mut table).len(), 3);
    assert_eq!(table.unexpected(), (0, 0));
}

/// A peer whose sessions end again and again leaves no more than the memory holds.
#[test]
fn f04_what_ended_sessions_leave_is_bounded() {
    let charge = 100 + MESSAGE_CHARGE;
    let most = 3 * charge + 2 * MESSAGE_CHARGE + 50;
    let mut table = Matching::with_memory(most);
    let memory = Bytes8::new(100);
    let last = |session, number, length| match message(source(1, session), 0, number, 5, length) {
        PortInput::Message(from, message) => PortInput::Last(from, message),
        other => other,
    };
    for session in 0..3 {
        for number in 0..3 {
            table.on_input(last(session, number, 100));
        }
        // There is room for it. But in later sessions it follows one that is lost.
        table.on_input(last(session, 3, 0));
        table.on_input(ended(source(1, session)));
    }
    // The first session left four messages, and there was no room for what others left.
    assert_eq!(table.unexpected().0, 4);
    assert!(table.unexpected().1 <= most);
    // A receive that waits needs no memory.
    table.post(Pattern::tag(5).on(1), buffer(&memory));
    for _ in 0..5 {
        table.post(exact(1, 5), buffer(&memory));
    }
    table.on_input(last(3, 0, 100));
    assert_eq!(numbers(&mut table), [0, 1, 2, 3, 0]);
}

#[test]
fn memory_for_a_message_that_is_always_too_long_is_given_back() {
    let mut table = Matching::default();
    assert!(begin(&mut table, A, &info(0, 0, 5, 1000)).is_none());
    let (decision, _) = table.poll_decision(|_| true).unwrap();
    assert!(table.unexpected().1 > 1000);
    table.on_too_long(&decision);
    assert_eq!(table.unexpected(), (1, 0));
    let memory = Bytes8::new(1000);
    table.post(exact(1, 5), buffer(&memory));
    assert!(table.poll_decision(|_| true).unwrap().1.is_some());
}

/// Completions that are asked for one by one leave no trace, in any order.
#[test]
fn completions_are_taken_by_receive_or_in_order() {
    let mut table = Matching::default();
    let memory = Bytes8::new(4);
    let receives: Vec<_> = (0..1000)
        .map(|tag| table.post(Pattern::tag(tag), buffer(&memory)))
        .collect();
    for number in 0..1000 {
        table.on_input(message(A, 0, number, number, 1));
    }
    for id in receives.iter().rev().take(998) {
        assert!(table.take_completion(*id).is_some() && !table.is_complete(*id));
    }
    assert_eq!(numbers(&mut table), [0, 1]);
    assert!(!table.has_completion() && !table.is_open(receives[5]));
}
