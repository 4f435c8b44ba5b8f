//! Memory credit: what a sender keeps to, what a receiver gives and checks.

use super::*;

fn bare(channel: u64, session: u64) -> Outbox {
    let mut outbox = Outbox::new(limits());
    outbox.set_initial_channel_limit(channel);
    outbox.set_session_limit(session);
    outbox
}

#[test]
fn a_channel_sends_up_to_its_limit_and_says_so_once() {
    let mut outbox = bare(1_000, 1 << 20);
    push(&mut outbox, C0, 0..10, 36);
    let sent = packets(&mut outbox, ROOM);
    assert_eq!(
        names(&sent[0]),
        (0..10).map(|n| (C0, n)).collect::<Vec<_>>(),
        "1,000 B"
    );
    push(&mut outbox, C0, 10..11, 0);
    assert!(!outbox.has_sendable());
    assert_eq!(outbox.blocked_by_session(), None);
    assert_eq!(outbox.poll_channel_blocked(), Some((C0, 1_000)));
    assert_eq!(outbox.poll_channel_blocked(), None);
    outbox.on_lost(&SentFrame::ChannelBlocked { channel: C0 });
    assert_eq!(
        outbox.poll_channel_blocked(),
        Some((C0, 1_000)),
        "the report was lost"
    );

    outbox.set_channel_limit(C0, 1_063);
    assert!(!outbox.has_sendable(), "one byte short");
    assert_eq!(outbox.poll_channel_blocked(), Some((C0, 1_063)));
    outbox.set_channel_limit(C0, 900);
    outbox.set_channel_limit(C0, 1_064);
    outbox.set_channel_limit(C1, 1 << 40);
    assert!(outbox.has_sendable());
    outbox.on_lost(&SentFrame::ChannelBlocked { channel: C0 });
    assert_eq!(outbox.poll_channel_blocked(), None, "blocked no more");
}

#[test]
fn the_session_limit_holds_over_all_channels() {
    let mut outbox = bare(1 << 20, 1_000);
    push(&mut outbox, C0, 0..1, 436);
    push(&mut outbox, C1, 0..1, 436);
    assert_eq!(packets(&mut outbox, ROOM).len(), 1);
    push(&mut outbox, C1, 1..2, 0);
    push(&mut outbox, C0, 1..2, 0);
    assert!(!outbox.has_sendable());
    assert_eq!(outbox.session_credit(), (1_000, 1_000));
    assert_eq!(outbox.blocked_by_session(), Some(1_000));
    assert_eq!(
        outbox.poll_channel_blocked(),
        None,
        "the channels have credit"
    );
    outbox.set_session_limit(900);
    outbox.set_session_limit(1_064);
    assert_eq!(
        packets(&mut outbox, ROOM)[0].sent.len(),
        1,
        "one of the two"
    );
    assert_eq!(outbox.blocked_by_session(), Some(1_064));
    outbox.set_session_limit(1_128);
    assert_eq!(packets(&mut outbox, ROOM).len(), 1);
    assert_eq!(outbox.blocked_by_session(), None);
}

/// Messages of other channels leave the reserve to replies, and the ride needs none.
#[test]
fn replies_have_session_credit_of_their_own() {
    let mut outbox = Outbox::new(OutboxLimits {
        ride: 128,
        reply_reserve: 300,
        ..limits()
    });
    outbox.set_initial_channel_limit(1 << 20);
    push(&mut outbox, C0, 0..3, 0);
    assert_eq!(packets(&mut outbox, ROOM)[0].sent.len(), 1);
    assert_eq!(outbox.session_credit(), (128, 128), "two rode");
    outbox.set_session_limit(427);
    assert!(!outbox.has_sendable(), "below the ride");
    outbox.set_session_limit(492);
    assert_eq!((outbox.room(C0), outbox.room(C1.replies())), (64, 364));
    assert_eq!(packets(&mut outbox, ROOM).len(), 1);
    push(&mut outbox, C1, 0..1, 0);
    push(&mut outbox, C1.replies(), 0..2, 86);
    assert_eq!(packets(&mut outbox, ROOM).len(), 1);
    assert_eq!(outbox.session_credit(), (492, 492));
    assert_eq!(outbox.blocked_by_session(), Some(492), "the other channel");
    push(&mut outbox, C1.replies(), 2..3, 0);
    assert!(!outbox.has_sendable(), "a reply waits, too");
    outbox.set_session_limit(556);
    assert_eq!(packets(&mut outbox, ROOM).len(), 1, "the reply");
    assert_eq!(outbox.blocked_by_session(), Some(556));
    outbox.set_session_limit(920);
    assert_eq!(packets(&mut outbox, ROOM).len(), 1);
    assert_eq!(outbox.session_credit(), (620, 920));
}

/// Messages of programs leave a reserve to groups, and these one to replies.
#[test]
fn groups_have_session_credit_of_their_own() {
    let mut outbox = Outbox::new(OutboxLimits {
        reply_reserve: 300,
        group_reserve: 200,
        ..limits()
    });
    let group = ChannelId::of_group(3);
    outbox.set_initial_channel_limit(1 << 20);
    outbox.set_session_limit(600);
    let room = |channel: ChannelId| outbox.room(channel);
    let rooms = (room(C0), room(group), room(C1.replies()));
    assert_eq!(rooms, (100, 300, 600));
    push(&mut outbox, C0, 0..2, 0);
    push(&mut outbox, group, 0..4, 0);
    packets(&mut outbox, ROOM);
    let four = (256, 600);
    assert_eq!(
        outbox.session_credit(),
        four,
        "one of the program, three of the group"
    );
    assert!(!outbox.has_sendable());
    push(&mut outbox, C1.replies(), 0..1, 0);
    assert!(outbox.has_sendable());
}

#[test]
fn f19_a_blocked_channel_does_not_block_others() {
    let mut outbox = bare(1_000, 1 << 20);
    push(&mut outbox, C0, 0..20, 100);
    push(&mut outbox, C1, 0..1, 100);
    let sent = packets(&mut outbox, ROOM);
    assert!(sent.iter().any(|packet| names(packet).contains(&(C1, 0))));
}

#[test]
fn retransmissions_need_no_credit() {
    let mut outbox = bare(1_000, 1_000);
    push(&mut outbox, C0, 0..1, 936);
    push(&mut outbox, C0, 1..2, 0);
    let sent = packets(&mut outbox, 500);
    assert_eq!(sent.len(), 2);
    sent.iter().for_each(|packet| lost(&mut outbox, packet));
    assert_eq!(packets(&mut outbox, 500).len(), 2);
    assert_eq!(outbox.session_credit().0, 1_000);
}

#[test]
fn only_the_ride_goes_before_the_handshake() {
    let mut outbox = Outbox::new(OutboxLimits {
        ride: 200,
        ..limits()
    });
    push(&mut outbox, C0, 0..3, 36);
    assert_eq!(packets(&mut outbox, ROOM)[0].sent.len(), 1);
    assert_eq!(outbox.session_credit(), (200, 200));
    outbox.set_initial_channel_limit(1 << 20);
    assert!(!outbox.has_sendable(), "the session has none yet");
    outbox.set_session_limit(1 << 20);
    assert!(outbox.has_sendable());
}

#[test]
fn consumption_moves_both_limits() {
    let mut inbox = inbox();
    let window = inbox_limits().channel_window;
    assert_eq!(inbox.channel_window(), window);
    let payload = vec![1; 10_000];
    let mut charged = 0;
    for number in 0..200 {
        inbox.on_frag(&frag(number, 10_000, 0, &payload)).unwrap();
        assert_eq!(inbox.memory_used(), 10_065);
        let before = inbox.session_limit();
        inbox.pop().unwrap();
        charged += 10_065;
        assert_eq!(inbox.session_limit(), before + 10_065);
        assert_eq!(inbox.memory_used(), 0);
        if let Some(answer) = inbox.poll_answer() {
            assert_eq!(
                answer,
                Answer::MaxChannel {
                    channel: C0,
                    limit: window + charged
                }
            );
            assert!(charged >= window / 4);
            assert!(!inbox.has_answers());
        }
    }
    assert!(charged > window, "the window was moved");
}

#[test]
fn f19_a_lost_limit_is_repeated() {
    let mut inbox = inbox();
    inbox.repeat_limit(C1);
    assert_eq!(
        inbox.poll_answer(),
        None,
        "a channel never seen needs no frame"
    );
    inbox.on_frag(&frag(0, 100, 0, &[0; 100])).unwrap();
    inbox.pop().unwrap();
    assert!(!inbox.has_answers(), "not worth a frame");
    let limit = inbox_limits().channel_window + 165;
    let answer = Answer::MaxChannel { channel: C0, limit };
    inbox.repeat_limit(C0);
    inbox.repeat_limit(C0);
    assert!(inbox.has_answers());
    assert_eq!(inbox.poll_answer(), Some(answer), "asked for");
    assert_eq!(inbox.poll_answer(), None, "once");
    inbox.on_lost(&answer.frame().1);
    assert_eq!(inbox.poll_answer(), Some(answer));
}

/// The next message lacks less credit than a quarter of the window: the answer to its sender's
/// question had the limit of that time, and no other question follows.
#[test]
fn f19_a_sender_that_waits_hears_of_any_rise() {
    let mut inbox = inbox();
    let window = inbox_limits().channel_window;
    for number in 0..2 {
        inbox.on_frag(&frag(number, 100, 0, &[0; 100])).unwrap();
    }
    inbox.repeat_limit(C0);
    let limit = |limit| {
        Some(Answer::MaxChannel {
            channel: C0,
            limit: window + limit,
        })
    };
    assert_eq!(inbox.poll_answer(), limit(0));
    inbox.pop().unwrap();
    assert_eq!(inbox.poll_answer(), limit(165));
    inbox.pop().unwrap();
    assert!(!inbox.has_answers(), "it does not wait any more");
}

#[test]
fn f03_data_beyond_the_credit_is_refused_before_memory_is_taken() {
    let window = inbox_limits().channel_window;
    let mut inbox = inbox();
    let error = Err(ProtocolError::MemoryCredit(0));
    assert_eq!(
        inbox.on_frag(&frag(0, window, 0, &[0; 10])),
        error,
        "a claimed length counts"
    );
    assert_eq!(
        inbox.on_frag(&frag(0, 1 << 47, (1 << 47) - 1, &[0])),
        error,
        "so does an offset"
    );
    assert_eq!(
        inbox.on_frag(&frag(window / 64, 1, 0, &[0])),
        error,
        "so do messages not seen"
    );
    assert_eq!(inbox.on_frag(&frag(u64::MAX, 1, 0, &[0])), error);
    assert_eq!(inbox.memory_used(), 0);
    let fits = window - 65;
    assert_eq!(
        inbox.on_frag(&frag(0, fits, 0, &[0; 10])),
        Ok(()),
        "up to the last byte"
    );
    assert_eq!(inbox.memory_used(), window);
    assert_eq!(inbox.on_frag(&frag(1, 0, 0, &[])), error);
    assert_eq!(
        inbox.on_frag(&frag(0, fits, 10, &[0; 10])),
        Ok(()),
        "what is charged may come"
    );
}

#[test]
fn f03_the_session_is_checked_over_its_channels() {
    let limits = InboxLimits {
        session_window: 1_000,
        ..inbox_limits()
    };
    let mut inbox = Inbox::new(limits, Pool::new(0));
    let one = |channel, len: usize| {
        let start = Start {
            total: len as u64,
            tag: 0,
            kind: Kind::USER,
            user_header: &[],
        };
        let channel = ChannelId(channel);
        let data = &[0; 1_000][..len];
        Frag {
            channel,
            message: 0,
            offset: 0,
            end: true,
            start: Some(start),
            data,
        }
    };
    inbox.on_frag(&one(0, 436)).unwrap();
    inbox.on_frag(&one(1, 436)).unwrap();
    assert_eq!(
        inbox.on_frag(&one(2, 0)),
        Err(ProtocolError::MemoryCredit(2))
    );
    inbox.pop().unwrap();
    inbox.on_frag(&one(2, 436)).unwrap();
    assert_eq!(
        inbox.on_frag(&one(3, 0)),
        Err(ProtocolError::MemoryCredit(3))
    );
}

#[test]
fn messages_not_seen_count_until_their_length_is_known() {
    let mut inbox = inbox();
    inbox.on_frag(&frag(3, 10, 0, &[0; 10])).unwrap();
    assert_eq!(inbox.memory_used(), 3 * 64 + 75);
    inbox.on_frag(&frag(1, 2_000, 900, &[0; 100])).unwrap();
    assert_eq!(
        inbox.memory_used(),
        2 * 64 + 75 + 64 + 1_000,
        "as far as seen"
    );
    inbox.on_frag(&frag(1, 2_000, 1_900, &[0; 100])).unwrap();
    assert_eq!(
        inbox.memory_used(),
        2 * 64 + 75 + 64 + 2_000,
        "the end tells the length"
    );
    inbox.on_frag(&frag(1, 2_000, 0, &[0; 900])).unwrap();
    assert_eq!(
        inbox.memory_used(),
        2 * 64 + 75 + 65 + 2_000,
        "the header too"
    );
}

#[test]
fn windows_shared_out_later_never_take_credit_back() {
    let limits = InboxLimits {
        channel_window: 0,
        session_window: 0,
        ..inbox_limits()
    };
    let mut inbox = Inbox::new(limits, Pool::new(0));
    assert_eq!((inbox.session_limit(), inbox.session_window()), (0, 0));
    assert_eq!(
        inbox.on_frag(&frag(0, 1, 0, b"x")),
        Err(ProtocolError::MemoryCredit(0))
    );
    inbox.set_windows(40_000, 80_000);
    assert_eq!(
        (inbox.session_limit(), inbox.session_window()),
        (80_000, 80_000)
    );
    assert_eq!(inbox.channel_window(), 40_000);
    while inbox.poll_answer().is_some() {}

    inbox.on_frag(&frag(0, 1, 0, b"x")).unwrap();
    inbox.set_windows(100_000, 200_000);
    assert_eq!(inbox.session_limit(), 200_000);
    assert_eq!(inbox.channel_window(), 40_000, "what handshakes say stays");
    assert_eq!(
        inbox.poll_answer(),
        Some(Answer::MaxChannel {
            channel: C0,
            limit: 100_000
        })
    );
    let other = Frag {
        channel: C1,
        ..frag(0, 1, 0, b"x")
    };
    inbox.on_frag(&other).unwrap();
    assert_eq!(
        inbox.poll_answer(),
        Some(Answer::MaxChannel {
            channel: C1,
            limit: 100_000
        }),
        "a channel opened later began with 40,000"
    );
    inbox.set_windows(20_000, 20_000);
    assert_eq!(inbox.session_limit(), 200_000);
    inbox.pop().unwrap();
    assert_eq!(inbox.session_limit(), 200_000);
    inbox.on_frag(&frag(1, 90_000, 0, b"x")).unwrap();
}

#[test]
fn a_window_smaller_than_a_message_makes_it_ask() {
    let mut outbox = bare(200_000, 20_000);
    push(&mut outbox, C0, 0..1, 1_000);
    push(&mut outbox, C0, 1..2, 30_000);
    let first = packets(&mut outbox, ROOM);
    assert_eq!(
        first.len(),
        1,
        "30,000 B wait for credit as long as it may come"
    );
    assert_eq!(outbox.blocked_by_session(), Some(20_000));
    acked(&mut outbox, &first[0]);
    assert!(outbox.has_sendable(), "now nothing else could bring it");
    let asked = packets(&mut outbox, ROOM);
    assert_eq!(
        asked[0].sent,
        [SentFrame::Rts {
            channel: C0,
            message: 1
        }]
    );
    assert_eq!(outbox.session_credit().0, 1_064 + 64);

    let mut outbox = bare(200_000, 100);
    push(&mut outbox, C0, 0..1, 4_096);
    assert!(!outbox.has_sendable(), "a short one waits");
}

/// A channel that becomes blocked while another one sends a long message is reported before more
/// pieces of that message are built together.
#[test]
fn pieces_are_built_together_only_after_a_blocked_channel_is_reported() {
    let mut outbox = Outbox::new(OutboxLimits {
        rts_threshold: 1 << 20,
        ..limits()
    });
    let limit = 400_000;
    outbox.set_initial_channel_limit(limit);
    outbox.set_session_limit(1 << 30);
    // Each is charged 64 more.
    push(&mut outbox, C1, 0..98, 4_000);
    packets(&mut outbox, ROOM);
    push(&mut outbox, C0, 0..1, 190_000);
    push(&mut outbox, C1, 98..99, 4_000);
    let newest = loop {
        let newest = packet(&mut outbox, ROOM).unwrap().sent[0];
        assert!(outbox.has_sendable(), "the message is longer than a turn");
        if outbox.has_blocked_channels() {
            break newest;
        }
    };
    assert!(outbox.rest_after(&newest).is_none());
    assert_eq!(outbox.poll_channel_blocked(), Some((C1, limit)));
    assert!(outbox.rest_after(&newest).is_some());
}
