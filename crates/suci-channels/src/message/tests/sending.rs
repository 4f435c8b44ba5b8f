//! The outbox: packets, repetition, completion, outcomes.

use super::*;
use crate::scheduler::Priority;
use crate::waits::WaitReason;
use suci_link::limits::MIN_PIECE;

#[test]
fn small_messages_share_packets_and_are_remembered_as_one() {
    let mut outbox = outbox();
    push(&mut outbox, C0, 0..40, 32);
    let first = packet(&mut outbox, ROOM).unwrap();
    assert_eq!(first.sent.len(), 1);
    let count = names(&first).len();
    assert!(count >= 30, "{count} messages of 32 B in a packet");
}

/// Packets of one size make a train, however long their messages are.
#[test]
fn every_packet_but_the_last_is_full_with_what_is_next() {
    let (mut outbox, mut inbox) = (outbox(), inbox());
    push(&mut outbox, C0, 0..12, 800);
    let packets = packets(&mut outbox, ROOM);
    let (last, others) = packets.split_last().unwrap();
    let sliver = MIN_PIECE + 10;
    assert!(
        others
            .iter()
            .all(|packet| ROOM - packet.bytes.len() < sliver)
    );
    assert_eq!(others.len(), 12 * 800 / ROOM, "{} B last", last.bytes.len());
    for packet in &packets {
        take(&mut inbox, packet).unwrap();
    }
    let payloads = pop_all(&mut inbox).into_iter().map(|m| m.payload);
    let expected = (0..12).map(|number| content(number, 800));
    assert!(payloads.eq(expected));
}

/// A lost piece is cut if the packet that repeats it has room for a part only.
#[test]
fn a_whole_message_that_was_lost_fills_a_packet_too() {
    let (mut outbox, mut inbox) = (outbox(), inbox());
    let sent: Vec<_> = (0..3)
        .map(|number| {
            push(&mut outbox, C0, number..number + 1, 800);
            packet(&mut outbox, ROOM).unwrap()
        })
        .collect();
    sent.iter().for_each(|packet| lost(&mut outbox, packet));
    let again = packets(&mut outbox, ROOM);
    assert_eq!(again.len(), 2, "{again:?}");
    assert!(ROOM - again[0].bytes.len() < MIN_PIECE);
    for packet in &again {
        take(&mut inbox, packet).unwrap();
        acked(&mut outbox, packet);
    }
    assert_eq!(pop_all(&mut inbox).len(), 3);
    assert!(outbox.is_empty());
}

/// It was not lost after all: what became of the half that was sent again changes nothing.
#[test]
fn a_late_acknowledgement_of_the_whole_settles_what_is_sent_again_in_part() {
    let mut outbox = outbox();
    push(&mut outbox, C0, 0..1, 800);
    let first = packet(&mut outbox, ROOM).unwrap();
    push(&mut outbox, C0, 1..2, 800);
    let second = packet(&mut outbox, ROOM).unwrap();
    lost(&mut outbox, &first);
    lost(&mut outbox, &second);
    let again = packet(&mut outbox, ROOM).unwrap();
    assert_eq!(
        names(&again),
        [(C0, 0), (C0, 1)],
        "all of one and half of the other"
    );
    acked(&mut outbox, &second);
    assert!(!outbox.has_sendable(), "the other half is not owed");
    assert_eq!(outbox.queued().open(), Held::one(800));
    lost(&mut outbox, &again);
    assert_eq!(
        packets(&mut outbox, ROOM).len(),
        1,
        "the first, and nothing of the other"
    );
    acked(&mut outbox, &first);
    assert!(outbox.is_empty() && !outbox.has_sendable());
    acked(&mut outbox, &again);
    assert_eq!(outbox.queued(), Queued::default());
}

#[test]
fn a_long_message_is_cut_into_full_packets_without_slivers() {
    let mut outbox = outbox();
    push(&mut outbox, C0, 0..1, 300);
    push(&mut outbox, C0, 1..2, 50_000);
    let packets = packets(&mut outbox, ROOM);
    assert_eq!(
        names(&packets[0]),
        [(C0, 0), (C0, 1)],
        "the long one begins in the first packet"
    );
    for packet in &packets[..packets.len() - 1] {
        assert!(packet.bytes.len() == ROOM, "full");
    }
    let mut inbox = inbox();
    for packet in &packets {
        take(&mut inbox, packet).unwrap();
    }
    let received = pop_all(&mut inbox);
    assert_eq!(received.len(), 2);
    assert_eq!(received[1].payload, content(1, 50_000));

    push(&mut outbox, C0, 2..3, 1_350);
    push(&mut outbox, C0, 3..4, 50_000);
    let sliver = packet(&mut outbox, ROOM).unwrap();
    assert_eq!(names(&sliver), [(C0, 2)]);
    assert!(
        ROOM - sliver.bytes.len() < MIN_PIECE + 10,
        "less than a piece was left over"
    );
}

#[test]
fn every_field_arrives() {
    let (mut outbox, mut inbox) = (outbox(), inbox());
    for len in [0, 1, 1_000, 40_000] {
        let sent = Outgoing {
            channel: ChannelId::LAST_USER,
            tag: u64::MAX,
            kind: Kind(3),
            user_header: Bytes::from(vec![9; 255]),
            payload: content(len as u64, len),
            notify: false,
            token: 1,
            deadline: None,
        };
        let number = outbox.push(sent.clone()).unwrap();
        for packet in packets(&mut outbox, ROOM) {
            take(&mut inbox, &packet).unwrap();
        }
        let Outgoing {
            channel,
            tag,
            kind,
            user_header,
            payload,
            ..
        } = sent;
        let expected = Message {
            channel,
            number,
            tag,
            kind,
            user_header,
            payload: payload.into(),
        };
        assert_eq!(inbox.pop(), Some(expected));
    }
}

#[test]
fn f26_the_queue_is_bounded_and_returns_messages_that_it_refuses() {
    let limits = OutboxLimits {
        max_queued_bytes: 1_000,
        max_queued_messages: 3,
        ..limits()
    };
    let mut outbox = Outbox::new(limits);
    outbox.set_initial_channel_limit(1 << 20);
    outbox.set_session_limit(1 << 20);
    push(&mut outbox, C0, 0..1, 5_000);
    assert_eq!(
        (
            outbox.queued().open().messages,
            outbox.queued().open().bytes
        ),
        (1, 5_000),
        "alone, however long"
    );
    let more = message(C0, content(1, 1));
    assert_eq!(outbox.push(more.clone()), Err((NoRoom::Full, more.clone())));
    let sent = packets(&mut outbox, ROOM);
    assert_eq!(
        outbox.push(more.clone()),
        Err((NoRoom::Full, more)),
        "sent is not acknowledged"
    );
    sent.iter().for_each(|packet| acked(&mut outbox, packet));
    assert!(outbox.is_empty());
    assert_eq!(outbox.queued().open().bytes, 0);
    push(&mut outbox, C0, 1..4, 0);
    let fourth = message(C0, Bytes::new());
    assert_eq!(
        outbox.push(fourth.clone()),
        Err((NoRoom::Full, fourth)),
        "three messages"
    );
    assert_eq!(outbox.accepted(), 4);
    assert_eq!(outbox.queue_len(C0), 3);
}

/// A message longer than the bound is taken when its class has nothing queued. Packets of others
/// that this node sends on may come without end, so they must not count there.
#[test]
fn packets_of_others_leave_the_programs_room_alone() {
    let mut outbox = Outbox::new(OutboxLimits {
        max_queued_bytes: 2_000,
        ..limits()
    });
    outbox.set_initial_channel_limit(1 << 30);
    outbox.set_session_limit(1 << 30);
    let forwarded = ChannelId::of_forwarded(7);
    push(&mut outbox, forwarded, 0..1, 1_500);
    let more = message(forwarded, content(1, 1_500));
    let refused = outbox.push(more).unwrap_err();
    assert_eq!(refused.0, NoRoom::Full, "their own bound");
    push(&mut outbox, C0, 0..1, 5_000);
    let next = message(C0, content(1, 5_000));
    assert!(outbox.push(next.clone()).is_err());
    outbox.want_room(&next);
    outbox.set_priority(forwarded, Priority::new(6, 1).unwrap());
    outbox.audit_queued();
    let sent = packets(&mut outbox, ROOM);
    sent.iter().for_each(|packet| acked(&mut outbox, packet));
    push(&mut outbox, forwarded, 1..2, 1_500);
    assert_eq!(outbox.poll_room(), Some(Priority::default().class()));
    push(&mut outbox, C0, 1..2, 5_000);
    assert_eq!(outbox.queued().open(), Held::new(2, 6_500));
    outbox.audit_queued();
}

#[test]
fn f04_channels_are_bounded() {
    let mut outbox = outbox();
    for channel in 0..MIN_CHANNELS as u32 {
        outbox
            .push(message(ChannelId(channel), Bytes::new()))
            .unwrap();
    }
    let over = message(ChannelId(u32::MAX), Bytes::new());
    assert_eq!(
        outbox.push(over.clone()),
        Err((NoRoom::Channels(MIN_CHANNELS), over))
    );
    outbox.push(message(C0, Bytes::new())).unwrap();
}

#[test]
fn completions_come_in_order_and_only_if_wanted() {
    let mut outbox = outbox();
    for notify in [true, false, true] {
        let message = Outgoing {
            notify,
            token: 70,
            ..message(C0, content(0, 1_350))
        };
        outbox.push(message).unwrap();
    }
    let packets = packets(&mut outbox, ROOM);
    acked(&mut outbox, &packets[2]);
    acked(&mut outbox, &packets[1]);
    assert_eq!(outbox.poll_completion(), None, "number 0 is missing");
    assert_eq!(
        (outbox.delivered(C0), outbox.queued().open().messages),
        (0, 1)
    );
    acked(&mut outbox, &packets[0]);
    assert_eq!(outbox.delivered(C0), 3);
    let first = outbox.poll_completion().unwrap();
    let (outcome, reason) = (Outcome::Delivered, None);
    let expected = Completion {
        channel: C0,
        number: 0,
        token: 70,
        notify: true,
        outcome,
        reason,
    };
    assert_eq!(first, expected);
    assert_eq!(completions(&mut outbox), [(2, Outcome::Delivered)]);
}

#[test]
fn the_payload_is_released_with_delivery() {
    let mut outbox = outbox();
    let payload = content(0, 5_000);
    outbox.push(message(C0, payload.clone())).unwrap();
    let packets = packets(&mut outbox, ROOM);
    assert!(!payload.is_unique());
    packets.iter().for_each(|packet| acked(&mut outbox, packet));
    assert!(payload.is_unique());
}

#[test]
fn lost_small_messages_are_sent_again_and_before_new_ones() {
    let (mut outbox, mut inbox) = (outbox(), inbox());
    push(&mut outbox, C0, 0..3, 100);
    let gone = packet(&mut outbox, ROOM).unwrap();
    assert!(!outbox.has_sendable());
    push(&mut outbox, C0, 3..4, 100);
    lost(&mut outbox, &gone);
    let again = packet(&mut outbox, ROOM).unwrap();
    assert_eq!(again.sent.len(), 1);
    assert_eq!(names(&again), [(C0, 0), (C0, 1), (C0, 2), (C0, 3)]);
    take(&mut inbox, &again).unwrap();
    assert_eq!(pop_all(&mut inbox).len(), 4);
}

#[test]
fn a_late_acknowledgement_spares_the_repetition() {
    let mut outbox = outbox();
    push(&mut outbox, C0, 0..2, 100);
    push(&mut outbox, C0, 2..3, 20_000);
    let sent = packets(&mut outbox, ROOM);
    sent.iter().for_each(|packet| lost(&mut outbox, packet));
    assert!(outbox.has_sendable());
    sent.iter().for_each(|packet| acked(&mut outbox, packet));
    assert!(!outbox.has_sendable());
    assert!(outbox.next(ROOM, &mut Vec::new()).is_none());
    assert!(outbox.is_empty());
    // And the other way round: the loss of a second copy means nothing any more.
    sent.iter().for_each(|packet| lost(&mut outbox, packet));
    assert!(!outbox.has_sendable());
}

/// Not even on a channel that was idle meanwhile, and of which little is kept then.
#[test]
fn a_late_acknowledgement_says_nothing_of_later_messages() {
    let mut outbox = outbox();
    push(&mut outbox, C0, 0..2, 1_000);
    let first = packets(&mut outbox, ROOM);
    first.iter().for_each(|packet| lost(&mut outbox, packet));
    let again = packets(&mut outbox, ROOM);
    again.iter().for_each(|packet| acked(&mut outbox, packet));
    completions(&mut outbox);
    assert!(outbox.shrink());
    push(&mut outbox, C0, 2..4, 1_000);
    packets(&mut outbox, ROOM);
    first.iter().for_each(|packet| acked(&mut outbox, packet));
    assert_eq!(
        (outbox.delivered(C0), outbox.queued().open().messages),
        (2, 2)
    );
    first.iter().for_each(|packet| lost(&mut outbox, packet));
    assert!(!outbox.has_sendable());
}

#[test]
fn of_a_long_message_only_the_lost_range_is_repeated() {
    let mut outbox = outbox();
    push(&mut outbox, C0, 0..1, 20_000);
    let sent = packets(&mut outbox, ROOM);
    for (at, packet) in sent.iter().enumerate() {
        if at == 3 {
            lost(&mut outbox, packet)
        } else {
            acked(&mut outbox, packet)
        }
    }
    let again = packets(&mut outbox, ROOM);
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].sent, sent[3].sent);
    assert_eq!(again[0].bytes.len(), sent[3].bytes.len());
    // Bytes acknowledged by another packet are not repeated.
    let SentFrame::Data { start, end, .. } = sent[3].sent[0] else {
        panic!()
    };
    let wider = SentFrame::Data {
        channel: C0,
        start: start - 500,
        end: end + 500,
    };
    outbox.on_lost(&wider);
    assert_eq!(packets(&mut outbox, ROOM)[0].sent, sent[3].sent);
    acked(&mut outbox, &again[0]);
    assert_eq!(completions(&mut outbox), [(0, Outcome::Delivered)]);
}

#[test]
fn f27_a_whole_message_is_cut_when_packets_become_smaller() {
    for late in [false, true] {
        let (mut outbox, mut inbox) = (outbox(), inbox());
        push(&mut outbox, C0, 0..1, 8_000);
        let jumbo = packet(&mut outbox, 9_000).unwrap();
        assert_eq!(names(&jumbo), [(C0, 0)]);
        assert!(jumbo.bytes.len() > 8_000, "in one piece");
        lost(&mut outbox, &jumbo);
        let pieces = packets(&mut outbox, 1_172);
        assert_eq!(pieces.len(), 7);
        if late {
            acked(&mut outbox, &pieces[1]);
            acked(&mut outbox, &jumbo);
            pieces.iter().for_each(|piece| lost(&mut outbox, piece));
            assert!(!outbox.has_sendable());
        } else {
            // The whole one counted as lost once more does no harm.
            acked(&mut outbox, &pieces[0]);
            lost(&mut outbox, &jumbo);
            for piece in pieces.iter().chain(&packets(&mut outbox, 1_172)) {
                take(&mut inbox, piece).unwrap();
                acked(&mut outbox, piece);
            }
            assert_eq!(inbox.pop().unwrap().payload, content(0, 8_000));
        }
        assert_eq!(completions(&mut outbox), [(0, Outcome::Delivered)]);
    }
}

#[test]
fn channels_take_turns_and_small_messages_of_one_stay_together() {
    let mut outbox = outbox();
    push(&mut outbox, C0, 0..1, 99_000);
    push(&mut outbox, C1, 0..1, 99_000);
    let order: Vec<u32> = packets(&mut outbox, ROOM)
        .iter()
        .flat_map(|packet| &packet.sent)
        .map(|frame| match frame {
            SentFrame::Data { channel, .. } => channel.0,
            other => panic!("{other:?}"),
        })
        .collect();
    let mut turns = order.clone();
    turns.dedup();
    assert_eq!(turns, [0, 1, 0, 1], "turns of about a train");

    for number in 0..10 {
        push(&mut outbox, C0, 1 + number..2 + number, 10);
        push(&mut outbox, C1, 1 + number..2 + number, 10);
    }
    let together = packet(&mut outbox, ROOM).unwrap();
    assert_eq!(together.sent.len(), 2, "{together:?}");
}

#[test]
fn the_end_gives_every_outstanding_message_one_outcome() {
    use Outcome::{Delivered, NotDelivered, Unknown};
    let mut outbox = outbox();
    push(&mut outbox, C0, 0..3, 1_350);
    push(&mut outbox, C0, 3..4, 5_000);
    push(&mut outbox, C0, 4..5, 20_000);
    push(&mut outbox, C0, 5..6, 10);
    push(&mut outbox, C1, 0..1, 200_000);
    push(&mut outbox, C1, 1..2, 10);
    let sent: Vec<_> = (0..10).map_while(|_| packet(&mut outbox, ROOM)).collect();
    acked(&mut outbox, &sent[0]);
    acked(&mut outbox, &sent[2]);
    let outcomes: Vec<_> = outbox
        .end()
        .into_iter()
        .map(|c| (c.channel.0, c.number, c.outcome))
        .collect();
    let expected = [
        (0, 1, Unknown),
        (0, 2, Delivered),
        (0, 3, Unknown),
        (0, 4, NotDelivered),
        (0, 5, NotDelivered),
        (1, 0, NotDelivered),
        (1, 1, NotDelivered),
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(
        completions(&mut outbox),
        [(0, Delivered)],
        "what was complete before stays"
    );
    assert!(outbox.end().is_empty(), "once");
    assert!(outbox.is_empty() && !outbox.has_sendable());
    assert_eq!(outbox.blocked_by_session(), None);
    sent.iter().for_each(|packet| lost(&mut outbox, packet));
    sent.iter().for_each(|packet| acked(&mut outbox, packet));
    assert!(!outbox.has_sendable());
}

#[test]
fn an_acknowledged_part_of_an_unfinished_message_is_no_delivery() {
    let mut outbox = outbox();
    push(&mut outbox, C0, 0..1, 50_000);
    let first = packet(&mut outbox, ROOM).unwrap();
    acked(&mut outbox, &first);
    assert_eq!(outbox.end()[0].outcome, Outcome::NotDelivered);
}

#[test]
fn a_replaced_connection_loses_nothing() {
    let (mut outbox, mut inbox) = (outbox(), inbox());
    push(&mut outbox, C0, 0..5, 700);
    push(&mut outbox, C1, 0..1, 30_000);
    let before = packets(&mut outbox, ROOM);
    for packet in before.iter().step_by(2) {
        take(&mut inbox, packet).unwrap();
    }
    before.iter().for_each(|packet| lost(&mut outbox, packet));
    for packet in packets(&mut outbox, 1_172) {
        take(&mut inbox, &packet).unwrap();
        acked(&mut outbox, &packet);
    }
    assert_eq!(pop_all(&mut inbox).len(), 6);
    assert!(outbox.is_empty());
}

#[test]
fn small_messages_leave_the_programs_memory_when_they_are_accepted() {
    let mut outbox = outbox();
    let payload = content(1, SMALL);
    outbox.push(message(C0, payload.clone())).unwrap();
    assert!(payload.is_unique(), "copied");
    let long = content(2, SMALL + 1);
    outbox.push(message(C0, long.clone())).unwrap();
    assert!(!long.is_unique(), "referred to");
}

#[test]
fn a_lost_small_message_goes_before_those_never_sent_and_is_released_once() {
    let mut outbox = outbox();
    push(&mut outbox, C0, 0..60, 100);
    let first = packet(&mut outbox, ROOM).unwrap();
    let second = packet(&mut outbox, ROOM).unwrap();
    lost(&mut outbox, &first);
    let again = packet(&mut outbox, ROOM).unwrap();
    assert_eq!(
        again.bytes[..1_000],
        first.bytes[..1_000],
        "the same frames"
    );
    acked(&mut outbox, &second);
    acked(&mut outbox, &first);
    let queued = outbox.queued().open().messages;
    acked(&mut outbox, &again);
    assert_eq!(
        outbox.queued().open().messages,
        queued,
        "they were released before"
    );
}

#[test]
fn a_small_message_asks_first_where_the_peers_program_decides_about_all() {
    let mut outbox = outbox();
    outbox.set_peer_max_message(10);
    push(&mut outbox, C0, 0..1, 10);
    push(&mut outbox, C0, 1..2, 11);
    push(&mut outbox, C0, 2..3, 10);
    let built = packets(&mut outbox, ROOM);
    assert!(matches!(
        built[0].sent[..],
        [SentFrame::Data { .. }, SentFrame::Rts { message: 1, .. }]
    ));
    assert_eq!(names(&built[0]), [(C0, 0)]);
    outbox.on_cts(C0, 1).unwrap();
    let rest = packets(&mut outbox, ROOM);
    let mut inbox = inbox();
    take(&mut inbox, &built[0]).unwrap();
    answers(&mut inbox, &mut outbox);
    rest.iter().for_each(|p| take(&mut inbox, p).unwrap());
    let got = pop_all(&mut inbox);
    assert_eq!(got.len(), 3);
    assert_eq!(got[1].payload, content(1, 11));
    built
        .iter()
        .chain(&rest)
        .for_each(|p| acked(&mut outbox, p));
    assert!(outbox.is_empty());
    assert_eq!(completions(&mut outbox).len(), 3);
}

/// The last is small, and goes without another look at whether there is more.
#[test]
fn no_answer_is_awaited_once_all_messages_are_in_flight() {
    for permitted in [true, false] {
        let mut outbox = outbox();
        push(&mut outbox, C0, 0..1, 100_001);
        push(&mut outbox, C0, 1..2, 10);
        assert_eq!(packets(&mut outbox, ROOM).len(), 1);
        assert_eq!(outbox.wait_reason(), Some(WaitReason::Answer));
        if permitted {
            outbox.on_cts(C0, 0).unwrap();
        } else {
            outbox.on_refused(C0, 0, 1).unwrap();
        }
        assert!(!packets(&mut outbox, ROOM).is_empty());
        assert_eq!(outbox.wait_reason(), None, "permitted: {permitted}");
    }
}

#[test]
fn f04_messages_that_asked_first_leave_no_frame() {
    let (mut outbox, mut inbox) = (
        outbox(),
        Inbox::new(
            InboxLimits {
                max_message: 10,
                ..inbox_limits()
            },
            Pool::new(1 << 20),
        ),
    );
    outbox.set_peer_max_message(10);
    for number in 0..10_000 {
        push(&mut outbox, C0, number..number + 1, 11);
        while !outbox.is_empty() {
            for packet in packets(&mut outbox, ROOM) {
                take(&mut inbox, &packet).unwrap();
                acked(&mut outbox, &packet);
            }
            while let Some(asks) = inbox.poll_incoming() {
                inbox.accept(asks.channel, asks.number, None).unwrap();
            }
            answers(&mut inbox, &mut outbox);
        }
        assert_eq!(pop_all(&mut inbox).len(), 1);
        assert_eq!(outbox.frames_held(), 0, "message {number}");
    }
}

/// The peer acknowledges all but the packet with the first message. The bytes kept behind that
/// message are as many as if the peer acknowledged nothing. Each class has the queue's bounds for
/// itself, whatever the others hold. If a channel's class changes, its messages count in the new
/// class.
#[test]
fn messages_of_one_class_use_no_room_of_others() {
    let limits = OutboxLimits {
        max_queued_bytes: 1_000,
        max_queued_messages: 3,
        ..limits()
    };
    let mut outbox = Outbox::new(limits);
    outbox.set_initial_channel_limit(1 << 20);
    outbox.set_session_limit(1 << 20);
    let class = |class| Priority::new(class, 1).unwrap();
    let [bulk, urgent, other] = [C0, ChannelId(7), ChannelId(8)];
    outbox.set_priority(urgent, class(6));
    let takes = |outbox: &mut Outbox, channel, len| {
        let pushed = outbox.push(message(channel, content(0, len)));
        assert!(!matches!(pushed, Err((NoRoom::Channels(_), _))));
        pushed.is_ok()
    };
    // Long ones, small ones, and many.
    assert!(takes(&mut outbox, bulk, 900) && !takes(&mut outbox, bulk, 900));
    assert!(!takes(&mut outbox, other, 10), "of the same class");
    assert!((0..3).all(|_| takes(&mut outbox, urgent, 10)));
    assert!(
        !takes(&mut outbox, urgent, 10),
        "as many as a class may hold"
    );
    // The other way round, too.
    outbox.set_priority(other, class(0));
    assert!(takes(&mut outbox, other, 900) && !takes(&mut outbox, other, 900));
    let held = |outbox: &Outbox| [0, 3, 6].map(|class| outbox.queued_by_class().get(class).bytes);
    assert_eq!(held(&outbox), [900, 900, 30]);
    outbox.set_priority(bulk, class(6));
    assert_eq!(held(&outbox), [900, 0, 930]);
    outbox.set_priority(other, class(3));
    assert_eq!(held(&outbox), [0, 900, 930]);
    assert!(
        !takes(&mut outbox, ChannelId(9), 20),
        "what was moved counts"
    );
    for packet in packets(&mut outbox, ROOM) {
        acked(&mut outbox, &packet);
    }
    assert_eq!(outbox.queued_by_class(), ByClass::default());
    assert_eq!(outbox.queued(), Queued::default());
}

#[test]
fn f04_messages_acknowledged_behind_an_open_one_count_in_the_queue() {
    let limits = OutboxLimits {
        max_queued_bytes: 10_000,
        max_queued_messages: 150,
        ..limits()
    };
    // 10,000 bytes at 164 for each.
    for (len, most, ask) in [(100, 60, false), (0, 150, false), (100, 60, true)] {
        let mut outbox = Outbox::new(limits);
        outbox.set_initial_channel_limit(1 << 20);
        outbox.set_session_limit(1 << 20);
        push(&mut outbox, C0, 0..1, len);
        let first = packets(&mut outbox, ROOM);
        if ask {
            outbox.set_peer_max_message(10);
        }
        let mut pushed = 1;
        while let Ok(number) = outbox.push(message(C0, content(pushed, len))) {
            assert!(number < 1_000, "without end");
            for packet in packets(&mut outbox, ROOM) {
                acked(&mut outbox, &packet);
            }
            if ask {
                outbox.on_cts(C0, number).unwrap();
                let data = packets(&mut outbox, ROOM);
                data.iter().for_each(|packet| acked(&mut outbox, packet));
            }
            pushed = number + 1;
        }
        assert_eq!(pushed, most, "messages of {len} B");
        assert_eq!(outbox.queued().open().messages, 1, "as the program sees it");
        first.iter().for_each(|packet| acked(&mut outbox, packet));
        assert_eq!(outbox.frames_held(), 0);
        push(&mut outbox, C0, pushed..pushed + most, len);
    }
}
