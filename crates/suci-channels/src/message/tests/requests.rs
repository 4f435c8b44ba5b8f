//! Large messages: RTS, CTS, REFUSE, the budget and the program's decision.

use super::*;

fn granting(max_message: u64, max_large: u64) -> Inbox {
    Inbox::new(
        InboxLimits {
            max_message,
            max_large,
            ..inbox_limits()
        },
        Pool::new(1 << 20),
    )
}

fn asked(packets: &[Packet]) -> Vec<u64> {
    packets
        .iter()
        .flat_map(|packet| &packet.sent)
        .filter_map(|frame| match frame {
            SentFrame::Rts { message, .. } => Some(*message),
            _ => None,
        })
        .collect()
}

fn cts(message: u64) -> Answer {
    Answer::Cts {
        channel: C0,
        message,
    }
}

fn polled(inbox: &mut Inbox) -> Vec<Answer> {
    std::iter::from_fn(|| inbox.poll_answer()).collect()
}

#[test]
fn a_long_message_asks_and_holds_its_channel_until_answered() {
    let (mut outbox, mut inbox) = (outbox(), inbox());
    push(&mut outbox, C0, 0..1, 100_001);
    push(&mut outbox, C0, 1..2, 10);
    push(&mut outbox, C1, 0..1, 10);
    let first = packets(&mut outbox, ROOM);
    assert_eq!(asked(&first), [0]);
    assert_eq!(first[0].sent.len(), 2, "the other channel goes on");
    assert_eq!(
        outbox.session_credit().0,
        64 + 74,
        "charged without its length"
    );
    take(&mut inbox, &first[0]).unwrap();
    assert_eq!(pop_all(&mut inbox).len(), 1);
    assert_eq!(polled(&mut inbox), [cts(0)]);
    outbox.on_cts(C0, 0).unwrap();
    for packet in packets(&mut outbox, ROOM) {
        take(&mut inbox, &packet).unwrap();
    }
    let received = pop_all(&mut inbox);
    assert_eq!(received[0].payload, content(0, 100_001));
    assert_eq!(received.len(), 2);
    assert_eq!(outbox.session_credit().0, 64 + 74 + 74);
    assert_eq!(inbox.memory_used(), 0);
}

#[test]
fn a_threshold_is_exact_and_half_the_window_is_another() {
    let mut outbox = outbox();
    push(&mut outbox, C0, 0..1, 100_000);
    assert!(asked(&packets(&mut outbox, ROOM)).is_empty());
    push(&mut outbox, C0, 1..2, 100_001);
    assert_eq!(asked(&packets(&mut outbox, ROOM)), [1]);

    let mut outbox = Outbox::new(limits());
    outbox.set_initial_channel_limit(20_000);
    outbox.set_session_limit(1 << 20);
    push(&mut outbox, C0, 0..1, 10_000 - 64);
    push(&mut outbox, C0, 1..2, 10_001 - 64);
    assert_eq!(asked(&packets(&mut outbox, ROOM)), [1]);
}

#[test]
fn messages_above_the_peers_limit_are_requested_first() {
    let mut outbox = outbox();
    outbox.set_peer_max_message(5_000);
    push(&mut outbox, C0, 0..1, 5_000);
    push(&mut outbox, C0, 1..2, 5_001);
    assert_eq!(asked(&packets(&mut outbox, ROOM)), [1]);
}

#[test]
fn over_a_long_path_only_longer_messages_ask() {
    let whether = |round_trip: Duration, total: usize, most: u64| {
        let mut outbox = outbox();
        outbox.set_peer_max_message(most);
        outbox.set_round_trip(round_trip);
        push(&mut outbox, C0, 0..1, total);
        !asked(&packets(&mut outbox, ROOM)).is_empty()
    };
    let millis = Duration::from_millis;
    assert!(
        whether(Duration::from_micros(50), 100_001, u64::MAX),
        "short"
    );
    assert!(!whether(millis(1), 1_000_000, u64::MAX));
    assert!(whether(millis(1), 1_000_001, u64::MAX));
    assert!(!whether(millis(500), 4 << 20, u64::MAX));
    assert!(whether(millis(500), (4 << 20) + 1, u64::MAX));
    assert!(whether(millis(500), 5_001, 5_000), "its program is asked");
}

#[test]
fn the_next_request_goes_while_data_flows_but_only_one() {
    let mut outbox = outbox();
    push(&mut outbox, C0, 0..4, 200_000);
    assert_eq!(asked(&packets(&mut outbox, ROOM)), [0]);
    outbox.on_cts(C0, 0).unwrap();
    let first = packet(&mut outbox, ROOM).unwrap();
    assert_eq!(asked(&[first]), [1], "in the first packet of data");
    outbox.on_cts(C0, 1).unwrap();
    let second = packet(&mut outbox, ROOM).unwrap();
    assert!(
        asked(&[second]).is_empty(),
        "each grant ties up the receiver's memory"
    );
    let rest = packets(&mut outbox, ROOM);
    assert_eq!(asked(&rest), [2], "once the data of 0 is out");
    outbox.on_refused(C0, 2, 9).unwrap();
    assert_eq!(asked(&packets(&mut outbox, ROOM)), [3]);
}

#[test]
fn a_refused_message_ahead_is_passed_over() {
    let (mut outbox, mut inbox) = (outbox(), granting(250_000, 1 << 20));
    push(&mut outbox, C0, 0..1, 200_000);
    push(&mut outbox, C0, 1..2, 300_000);
    push(&mut outbox, C0, 2..3, 10);
    take(&mut inbox, &packet(&mut outbox, ROOM).unwrap()).unwrap();
    answers(&mut inbox, &mut outbox);
    let first = packet(&mut outbox, ROOM).unwrap();
    take(&mut inbox, &first).unwrap();
    assert_eq!(inbox.poll_incoming().unwrap().number, 1);
    inbox.refuse(C0, 1, 7).unwrap();
    answers(&mut inbox, &mut outbox);
    for packet in std::iter::once(first).chain(packets(&mut outbox, ROOM)) {
        take(&mut inbox, &packet).unwrap();
        acked(&mut outbox, &packet);
    }
    let numbers: Vec<_> = pop_all(&mut inbox).iter().map(|m| m.number).collect();
    assert_eq!(numbers, [0, 2]);
    let ends = [
        (0, Outcome::Delivered),
        (1, Outcome::NotDelivered),
        (2, Outcome::Delivered),
    ];
    assert_eq!(completions(&mut outbox), ends);
    assert_eq!(inbox.memory_used(), 0);
    assert_eq!(outbox.delivered(C0), 3);
    assert!(outbox.is_empty());
    assert_eq!(outbox.queued().open().bytes, 0);
}

#[test]
fn a_refusal_is_reported_with_its_reason_although_nobody_asked() {
    let mut outbox = outbox();
    let payload = content(0, 200_000);
    let quiet = Outgoing {
        notify: false,
        token: 5,
        ..message(C0, payload.clone())
    };
    outbox.push(quiet).unwrap();
    packets(&mut outbox, ROOM);
    outbox.on_refused(C0, 0, 42).unwrap();
    assert!(payload.is_unique(), "released");
    let (outcome, reason) = (Outcome::NotDelivered, Some(42));
    let expected = Completion {
        channel: C0,
        number: 0,
        token: 5,
        notify: false,
        outcome,
        reason,
    };
    assert_eq!(outbox.poll_completion(), Some(expected));
    assert!(outbox.is_empty());
    outbox.on_refused(C0, 0, 42).unwrap();
    assert_eq!(
        outbox.poll_completion(),
        None,
        "a repetition is nothing new"
    );
}

#[test]
fn answers_to_what_never_asked_are_errors_and_repetitions_are_not() {
    let mut outbox = outbox();
    let protocol_error = |result| assert!(matches!(result, Err(ProtocolError::OutOfPlace(_))));
    protocol_error(outbox.on_cts(C0, 0));
    push(&mut outbox, C0, 0..1, 10);
    push(&mut outbox, C0, 1..3, 200_000);
    protocol_error(outbox.on_cts(C0, 1));
    let sent = packets(&mut outbox, ROOM);
    protocol_error(outbox.on_cts(C0, 0));
    protocol_error(outbox.on_refused(C0, 0, 1));
    protocol_error(outbox.on_cts(C0, 2));
    protocol_error(outbox.on_cts(C0, u64::MAX));
    protocol_error(outbox.on_refused(C1, 0, 1));
    outbox.on_cts(C0, 1).unwrap();
    outbox.on_cts(C0, 1).unwrap();
    outbox.on_refused(C0, 1, 1).unwrap();
    for packet in sent.iter().chain(&packets(&mut outbox, ROOM)) {
        acked(&mut outbox, packet);
    }
    assert_eq!(
        completions(&mut outbox).len(),
        2,
        "a refusal after the permission is too late"
    );
    outbox.on_cts(C0, 1).unwrap();
    outbox.on_refused(C0, 1, 1).unwrap();
    protocol_error(outbox.on_cts(C0, 3));
}

#[test]
fn a_lost_request_is_repeated_until_it_arrives_or_is_answered() {
    let mut outbox = outbox();
    push(&mut outbox, C0, 0..1, 200_000);
    let sent = packet(&mut outbox, ROOM).unwrap();
    lost(&mut outbox, &sent);
    let again = packets(&mut outbox, ROOM);
    assert_eq!((again.len(), asked(&again)), (1, vec![0]));
    assert_eq!(outbox.session_credit().0, 64, "charged once");
    lost(&mut outbox, &again[0]);
    acked(&mut outbox, &sent);
    assert!(!outbox.has_sendable(), "it did arrive");
    lost(&mut outbox, &sent);
    outbox.on_cts(C0, 0).unwrap();
    assert!(asked(&packets(&mut outbox, ROOM)).is_empty());
    lost(&mut outbox, &sent);
    assert!(!outbox.has_sendable());
}

#[test]
fn a_request_does_not_go_into_too_little_room() {
    let mut outbox = outbox();
    push(&mut outbox, C0, 0..1, 200_000);
    assert!(outbox.next(8, &mut Vec::new()).is_none());
    assert_eq!(outbox.session_credit().0, 0);
    let sent = packet(&mut outbox, ROOM).unwrap();
    lost(&mut outbox, &sent);
    assert!(outbox.next(8, &mut Vec::new()).is_none());
    assert_eq!(asked(&packets(&mut outbox, ROOM)), [0]);
}

#[test]
fn the_budget_is_granted_in_the_order_of_requests() {
    let mut inbox = granting(1_000, 1_000);
    let on = |channel, total| Rts {
        channel: ChannelId(channel),
        ..rts(0, total)
    };
    for (channel, total) in [(0, 600), (1, 600), (2, 300)] {
        inbox.on_rts(&on(channel, total)).unwrap();
    }
    assert_eq!(polled(&mut inbox), [cts(0)]);
    assert_eq!(
        (inbox.large_held(), inbox.large_wanted()),
        (600, Some(600)),
        "2 waits behind 1"
    );
    assert_eq!(inbox.memory_used(), 3 * 65 + 600);
    inbox.on_frag(&frag(0, 600, 0, &[0; 600])).unwrap();
    assert!(polled(&mut inbox).is_empty());
    inbox.pop().unwrap();
    let granted: Vec<_> = polled(&mut inbox)
        .iter()
        .map(|answer| match answer {
            Answer::Cts { channel, .. } => channel.0,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(granted, [1, 2]);
    assert_eq!((inbox.large_held(), inbox.large_wanted()), (900, None));
    assert_eq!(inbox.poll_incoming(), None);
}

#[test]
fn a_larger_budget_grants_waiting_messages_and_a_smaller_one_revokes_none() {
    let mut inbox = granting(1_000, 1_000);
    inbox.set_large_budget(100);
    inbox.on_rts(&rts(0, 600)).unwrap();
    assert!(polled(&mut inbox).is_empty());
    inbox.set_large_budget(599);
    assert!(polled(&mut inbox).is_empty());
    inbox.set_large_budget(600);
    assert_eq!(polled(&mut inbox), [cts(0)]);
    inbox.set_large_budget(0);
    inbox.on_frag(&frag(0, 600, 0, &[1; 600])).unwrap();
    assert_eq!(inbox.pop().unwrap().payload.len(), 600);
    inbox.set_large_budget(u64::MAX);
    inbox.on_rts(&rts(1, 1_001)).unwrap();
    assert!(inbox.poll_incoming().is_some(), "max_large stays the most");
}

#[test]
fn f22_at_least_one_large_message_is_always_under_way() {
    // Both sides send their huge messages first, on many channels, with room for one each.
    let len = 150_000;
    let mut sides = [0, 1].map(|_| {
        (
            outbox(),
            granting(len as u64, len as u64),
            Vec::<Message>::new(),
        )
    });
    for (outbox, ..) in &mut sides {
        for channel in 0..5 {
            push(outbox, ChannelId(channel), 0..3, len);
            push(outbox, ChannelId(channel), 3..4, 10);
        }
    }
    for _ in 0..200 {
        for way in [0, 1] {
            let [left, right] = &mut sides;
            let (from, to) = if way == 0 {
                (left, right)
            } else {
                (right, left)
            };
            for packet in packets(&mut from.0, ROOM) {
                take(&mut to.1, &packet).unwrap();
                acked(&mut from.0, &packet);
            }
            assert!(to.1.large_held() <= len as u64);
            to.2.extend(pop_all(&mut to.1));
            answers(&mut to.1, &mut from.0);
        }
    }
    for (outbox, inbox, received) in &sides {
        assert!(outbox.is_empty());
        assert_eq!(received.len(), 20);
        assert_eq!(inbox.memory_used(), 0);
    }
}

#[test]
fn a_message_over_the_limit_needs_the_program() {
    let mut inbox = granting(1_000, 5_000);
    inbox.on_rts(&rts(0, 1_001)).unwrap();
    inbox.on_rts(&rts(0, 1_001)).unwrap();
    let info = inbox.poll_incoming().unwrap();
    let (channel, number, total, tag, kind) = (C0, 0, 1_001, 5, Kind::USER);
    let user_header = Bytes::from_static(b"h");
    assert_eq!(
        info,
        IncomingInfo {
            channel,
            number,
            total,
            tag,
            kind,
            user_header
        }
    );
    assert_eq!(
        inbox.poll_incoming(),
        None,
        "a repetition is not told again"
    );
    assert!(polled(&mut inbox).is_empty());
    assert_eq!(inbox.accept(C1, 0, None), Err(AnswerError::NotWaiting));
    assert_eq!(inbox.accept(C0, 1, None), Err(AnswerError::NotWaiting));
    inbox.accept(C0, 0, None).unwrap();
    assert_eq!(polled(&mut inbox), [cts(0)]);
    assert_eq!(inbox.accept(C0, 0, None), Err(AnswerError::NotWaiting));
    assert_eq!(inbox.refuse(C0, 0, 1), Err(AnswerError::NotWaiting));
    assert_eq!(inbox.large_held(), 1_001);
}

#[test]
fn a_supplied_buffer_becomes_the_payload() {
    let mut inbox = granting(1_000, 5_000);
    inbox.on_rts(&rts(0, 6_000)).unwrap();
    let needs = AnswerError::NeedsBuffer {
        total: 6_000,
        max: 5_000,
    };
    assert_eq!(inbox.accept(C0, 0, None), Err(needs));
    let short = AnswerError::TooShort {
        buffer: vec![0; 5_999].into(),
        needed: 6_000,
    };
    assert_eq!(inbox.accept(C0, 0, Some(vec![0; 5_999].into())), Err(short));
    let buffer = vec![0; 7_000];
    let address = buffer.as_ptr();
    inbox.accept(C0, 0, Some(buffer.into())).unwrap();
    assert_eq!(polled(&mut inbox), [cts(0)]);
    assert_eq!(inbox.poll_incoming(), None, "answered before it was polled");
    assert_eq!(
        (inbox.large_held(), inbox.memory_used()),
        (0, 65),
        "the program's own memory"
    );
    let data = content(0, 6_000);
    inbox
        .on_frag(&frag(0, 6_000, 3_000, &data[3_000..]))
        .unwrap();
    inbox.on_frag(&frag(0, 6_000, 0, &data[..3_000])).unwrap();
    let payload = inbox.pop().unwrap().payload;
    assert_eq!(payload.as_ptr(), address);
    assert_eq!(payload, data);
    assert_eq!(inbox.memory_used(), 0);
}

#[test]
fn a_supplied_buffer_becomes_the_payload_however_short() {
    let mut inbox = granting(5, 5_000);
    inbox.on_rts(&rts(0, 9)).unwrap();
    let buffer = vec![0; 9];
    let address = buffer.as_ptr();
    inbox.accept(C0, 0, Some(buffer.into())).unwrap();
    inbox.on_frag(&frag(0, 9, 0, &content(0, 9))).unwrap();
    let payload = inbox.pop().unwrap().payload;
    assert_eq!(
        (payload.as_ptr(), &payload[..]),
        (address, &content(0, 9)[..])
    );
}

#[test]
fn an_accepted_message_without_buffer_waits_for_the_budget() {
    let mut inbox = granting(1_000, 5_000);
    inbox.on_rts(&rts(0, 4_000)).unwrap();
    inbox.accept(C0, 0, None).unwrap();
    let second = Rts {
        channel: C1,
        ..rts(0, 4_000)
    };
    inbox.on_rts(&second).unwrap();
    inbox.accept(C1, 0, None).unwrap();
    inbox.accept(C1, 0, None).unwrap();
    assert_eq!(polled(&mut inbox), [cts(0)]);
    assert_eq!(inbox.large_wanted(), Some(4_000));
    inbox.accept(C1, 0, Some(vec![0; 4_000].into())).unwrap();
    assert_eq!(inbox.large_wanted(), None, "a buffer after all");
    assert_eq!(polled(&mut inbox).len(), 1);
    assert_eq!(inbox.large_held(), 4_000);
}

#[test]
fn refusing_what_waits_first_lets_the_next_go() {
    let mut inbox = granting(1_000, 1_000);
    inbox.set_large_budget(500);
    inbox.on_rts(&rts(0, 600)).unwrap();
    inbox
        .on_rts(&Rts {
            channel: C1,
            ..rts(0, 400)
        })
        .unwrap();
    assert!(polled(&mut inbox).is_empty());
    inbox.refuse(C0, 0, 3).unwrap();
    let refuse = Answer::Refuse {
        channel: C0,
        message: 0,
        reason: 3,
    };
    assert_eq!(
        polled(&mut inbox),
        [
            refuse,
            Answer::Cts {
                channel: C1,
                message: 0
            }
        ]
    );
}

#[test]
fn a_lost_answer_and_a_repeated_request_are_answered_again() {
    let mut inbox = granting(1_000, 5_000);
    inbox.on_rts(&rts(0, 600)).unwrap();
    let sent = inbox.poll_answer().unwrap();
    assert!(!inbox.has_answers());
    inbox.on_lost(&sent.frame().1);
    inbox.on_lost(&sent.frame().1);
    assert_eq!(polled(&mut inbox), [cts(0)]);
    inbox.on_rts(&rts(0, 600)).unwrap();
    assert_eq!(polled(&mut inbox), [cts(0)]);
    inbox.on_frag(&frag(0, 600, 0, &[0; 600])).unwrap();
    inbox.pop().unwrap();
    inbox.on_rts(&rts(0, 600)).unwrap();
    assert_eq!(polled(&mut inbox), [cts(0)], "although the program has it");

    inbox.on_rts(&rts(1, 2_000)).unwrap();
    inbox.on_lost(&SentFrame::Cts {
        channel: C0,
        message: 0,
    });
    assert!(
        polled(&mut inbox).is_empty(),
        "who asks again had the answer"
    );
    inbox.refuse(C0, 1, 8).unwrap();
    let refuse = Answer::Refuse {
        channel: C0,
        message: 1,
        reason: 8,
    };
    assert_eq!(polled(&mut inbox), [refuse]);
    inbox.on_lost(&SentFrame::Cts {
        channel: C0,
        message: 0,
    });
    assert!(
        polled(&mut inbox).is_empty(),
        "the newest answer was not lost"
    );
    inbox.on_lost(&refuse.frame().1);
    assert_eq!(polled(&mut inbox), [refuse]);
    inbox.on_rts(&rts(1, 2_000)).unwrap();
    assert_eq!(polled(&mut inbox), [refuse]);
    inbox.on_rts(&rts(0, 600)).unwrap();
    assert!(polled(&mut inbox).is_empty(), "older than the newest");
}

#[test]
fn a_refused_number_is_passed_over_and_its_credit_returns() {
    let mut inbox = granting(1_000, 5_000);
    let before = inbox.session_limit();
    inbox.on_rts(&rts(1, 2_000)).unwrap();
    inbox.on_frag(&frag(2, 3, 0, b"two")).unwrap();
    inbox.refuse(C0, 1, 0).unwrap();
    assert_eq!(inbox.pop(), None, "0 is missing");
    inbox.on_frag(&frag(0, 4, 0, b"zero")).unwrap();
    let payloads: Vec<_> = pop_all(&mut inbox).into_iter().map(|m| m.payload).collect();
    assert_eq!(payloads, ["zero", "two"]);
    assert_eq!(inbox.session_limit() - before, 3 * 65 + 7);
    assert_eq!(inbox.memory_used(), 0);
    inbox.on_rts(&rts(3, 2_000)).unwrap();
    inbox.refuse(C0, 3, 0).unwrap();
    assert_eq!(inbox.memory_used(), 0, "at once, if it is next");
    assert_eq!(inbox.received(), 2);
    inbox.on_frag(&frag(4, 1, 0, b"x")).unwrap();
    assert!(inbox.pop().is_some());
}

#[test]
fn data_of_a_message_that_asked_needs_its_permission() {
    let mut inbox = granting(1_000, 5_000);
    let out_of_place = |result| assert!(matches!(result, Err(ProtocolError::OutOfPlace(_))));
    inbox.on_rts(&rts(0, 2_000)).unwrap();
    out_of_place(inbox.on_frag(&frag(0, 2_000, 0, b"early")));
    inbox.on_frag(&frag(1, 1, 0, b"x")).unwrap();
    inbox
        .on_rts(&Rts {
            channel: C1,
            ..rts(1, 2_000)
        })
        .unwrap();
    inbox.refuse(C1, 1, 0).unwrap();
    out_of_place(inbox.on_frag(&Frag {
        channel: C1,
        ..frag(1, 2_000, 0, b"not wanted")
    }));
    out_of_place(inbox.on_rts(&Rts {
        channel: ChannelId(2),
        ..rts(0, 0)
    }));
}

#[test]
fn f04_requests_at_once_are_bounded() {
    let mut inbox = granting(1_000, 5_000);
    inbox.on_rts(&rts(0, 2_000)).unwrap();
    assert!(matches!(
        inbox.on_rts(&rts(1, 2_000)),
        Err(ProtocolError::Limit(_))
    ));
    let mut inbox = granting(1_000, 5_000);
    inbox.set_large_budget(0);
    inbox.on_rts(&rts(0, 500)).unwrap();
    assert!(matches!(
        inbox.on_rts(&rts(1, 500)),
        Err(ProtocolError::Limit(_))
    ));
}

#[test]
fn f07_contradictory_requests_are_refused() {
    let contradiction =
        |result| assert!(matches!(result, Err(ProtocolError::Contradiction { .. })));
    let mut inbox = granting(1_000, 5_000);
    inbox.on_frag(&frag(0, 500, 0, &[0; 100])).unwrap();
    contradiction(inbox.on_rts(&rts(0, 500)));
    inbox.on_frag(&frag(1, 5, 0, b"whole")).unwrap();
    contradiction(inbox.on_rts(&rts(1, 5)));
    inbox.on_frag(&frag(0, 500, 100, &[0; 400])).unwrap();
    pop_all(&mut inbox);
    contradiction(inbox.on_rts(&rts(0, 500)));
    inbox.on_rts(&rts(2, 700)).unwrap();
    contradiction(inbox.on_rts(&rts(2, 701)));
    contradiction(inbox.on_frag(&frag(2, 701, 0, &[0; 10])));
    let other = Start {
        total: 700,
        tag: 6,
        kind: Kind::USER,
        user_header: b"h",
    };
    contradiction(inbox.on_frag(&Frag {
        start: Some(other),
        ..frag(2, 700, 0, &[0; 10])
    }));
    inbox.on_frag(&frag(2, 700, 0, &[0; 700])).unwrap();
    inbox.on_rts(&rts(5, 700)).unwrap();
    inbox.on_rts(&rts(2, 700)).unwrap();
    contradiction(inbox.on_rts(&rts(3, 700)));
}

#[test]
fn f03_requests_count_against_credit() {
    let limits = InboxLimits {
        channel_window: 200,
        ..inbox_limits()
    };
    let mut inbox = Inbox::new(limits, Pool::new(0));
    assert_eq!(
        inbox.on_rts(&rts(3, 1 << 40)),
        Err(ProtocolError::MemoryCredit(0))
    );
    inbox.on_rts(&rts(2, 1 << 40)).unwrap();
    assert_eq!(inbox.memory_used(), 2 * 64 + 65);
}

/// A retransmitted piece carries no request, although one is due. The next packet carries it, and
/// until then no pieces are built together.
#[test]
fn pieces_are_built_together_only_after_a_due_request() {
    let mut outbox = outbox();
    push(&mut outbox, C0, 0..1, 90_000);
    packet(&mut outbox, ROOM).unwrap();
    let piece = packet(&mut outbox, ROOM).unwrap();
    let frame = piece.sent[0];
    assert!(outbox.rest_after(&frame).is_some());
    lost(&mut outbox, &piece);
    push(&mut outbox, C0, 1..2, 200_000);
    let again = packet(&mut outbox, ROOM).unwrap();
    assert_eq!(again.sent, [frame]);
    assert!(outbox.rest_after(&frame).is_none());
    let request = packet(&mut outbox, ROOM).unwrap();
    assert_eq!(asked(&[request]), [1]);
    let next = packet(&mut outbox, ROOM).unwrap();
    assert!(outbox.rest_after(&next.sent[0]).is_some());
}
