//! The inbox: order, duplicates, and pieces that do not fit together.

use super::*;

fn numbers(inbox: &mut Inbox) -> Vec<(u32, u64)> {
    pop_all(inbox)
        .iter()
        .map(|m| (m.channel.0, m.number))
        .collect()
}

#[test]
fn messages_are_taken_in_order_whatever_order_they_come_in() {
    let mut inbox = inbox();
    for number in [2, 1, 4] {
        inbox.on_frag(&frag(number, 1, 0, b"x")).unwrap();
        assert!(!inbox.has_ready());
    }
    inbox.on_frag(&frag(0, 1, 0, b"x")).unwrap();
    assert!(inbox.has_ready());
    assert_eq!(numbers(&mut inbox), [(0, 0), (0, 1), (0, 2)]);
    inbox.on_frag(&frag(3, 1, 0, b"x")).unwrap();
    assert_eq!(numbers(&mut inbox), [(0, 3), (0, 4)]);
    assert_eq!(inbox.received(), 5);
}

#[test]
fn channels_take_turns_and_do_not_wait_for_each_other() {
    let mut inbox = inbox();
    inbox
        .on_frag(&Frag {
            channel: ChannelId(9),
            ..frag(1, 1, 0, b"x")
        })
        .unwrap();
    for number in 0..3 {
        inbox.on_frag(&frag(number, 1, 0, b"x")).unwrap();
    }
    inbox
        .on_frag(&Frag {
            channel: C1,
            ..frag(0, 1, 0, b"x")
        })
        .unwrap();
    assert_eq!(numbers(&mut inbox), [(0, 0), (1, 0), (0, 1), (0, 2)]);
}

#[test]
fn f10_duplicates_are_ignored() {
    let mut inbox = inbox();
    let long = content(0, 3_000);
    for _ in 0..2 {
        inbox.on_frag(&frag(0, 5, 0, b"hello")).unwrap();
        inbox.on_frag(&frag(1, 3_000, 0, &long[..1_000])).unwrap();
        inbox
            .on_frag(&frag(1, 3_000, 1_000, &long[1_000..]))
            .unwrap();
    }
    assert_eq!(inbox.received(), 2);
    assert_eq!(inbox.memory_used(), 70 + 3_065);
    assert_eq!(numbers(&mut inbox), [(0, 0), (0, 1)]);
    inbox.on_frag(&frag(0, 5, 0, b"hello")).unwrap();
    inbox.on_frag(&frag(1, 3_000, 0, &long[..1_000])).unwrap();
    assert!(!inbox.has_ready());
    assert_eq!((inbox.received(), inbox.memory_used()), (2, 0));
}

#[test]
fn f07_overlapping_fragments_first_bytes_win() {
    let mut inbox = inbox();
    inbox.on_frag(&frag(0, 1_000, 200, &[1; 200])).unwrap();
    inbox.on_frag(&frag(0, 1_000, 600, &[2; 200])).unwrap();
    inbox.on_frag(&frag(0, 1_000, 0, &[3; 900])).unwrap();
    assert!(!inbox.has_ready());
    inbox.on_frag(&frag(0, 1_000, 100, &[4; 900])).unwrap();
    let payload = inbox.pop().unwrap().payload;
    let mut expected = vec![3; 900];
    expected[200..400].fill(1);
    expected[600..800].fill(2);
    expected.extend_from_slice(&[4; 100]);
    assert_eq!(payload, expected);
}

#[test]
fn f07_the_first_piece_that_states_the_length_pins_it() {
    let error = Err(ProtocolError::Contradiction {
        channel: 0,
        message: 0,
    });
    let tail = |offset, len: usize| Frag {
        end: true,
        ..frag(0, 0, offset, &[0; 2_000][..len])
    };

    let mut inbox = inbox();
    inbox.on_frag(&frag(0, 1_000, 0, &[0; 100])).unwrap();
    assert_eq!(
        inbox.on_frag(&frag(0, 1_001, 0, &[0; 100])),
        error,
        "another first piece"
    );
    assert_eq!(inbox.on_frag(&tail(900, 101)), error, "an end too late");
    assert_eq!(inbox.on_frag(&tail(500, 100)), error, "an end too early");
    assert_eq!(
        inbox.on_frag(&frag(0, 5_000, 950, &[0; 51])),
        error,
        "bytes beyond it"
    );
    assert_eq!(
        inbox.on_frag(&frag(0, 100, 0, &[0; 100])),
        error,
        "a whole message"
    );
    inbox.on_frag(&tail(100, 900)).unwrap();
    assert_eq!(inbox.pop().unwrap().payload.len(), 1_000);

    let mut inbox = super::inbox();
    inbox.on_frag(&frag(0, 9_999, 500, &[0; 500])).unwrap();
    assert_eq!(
        inbox.on_frag(&tail(100, 800)),
        error,
        "an end before what was seen"
    );
    assert_eq!(
        inbox.on_frag(&frag(0, 999, 0, &[0; 10])),
        error,
        "a length likewise"
    );
    inbox.on_frag(&frag(0, 1_000, 0, &[0; 500])).unwrap();
    assert!(inbox.has_ready());
}

#[test]
fn f07_the_description_is_pinned_too() {
    let mut inbox = inbox();
    let first = frag(0, 1_000, 0, &[0; 100]);
    let start = first.start.unwrap();
    inbox.on_frag(&first).unwrap();
    for other in [
        Start { tag: 6, ..start },
        Start {
            kind: Kind(1),
            ..start
        },
        Start {
            user_header: b"hh",
            ..start
        },
        Start {
            user_header: b"",
            ..start
        },
    ] {
        let result = inbox.on_frag(&Frag {
            start: Some(other),
            ..first
        });
        assert!(
            matches!(result, Err(ProtocolError::Contradiction { .. })),
            "{other:?}"
        );
    }
    inbox.on_frag(&frag(0, 1_000, 100, &[0; 900])).unwrap();
    let received = inbox.pop().unwrap();
    assert_eq!((received.tag, received.kind), (5, Kind::USER));
    assert_eq!(received.user_header, "h");
}

#[test]
fn pieces_before_the_first_one_are_kept() {
    // Odd sizes, so that the buffer grows through exact and shelved lengths before the length is
    // known.
    let data = content(0, 100_000);
    let mut inbox = inbox();
    let mut cuts: Vec<_> = (0..100_000).step_by(777).collect();
    cuts.push(100_000);
    for cut in cuts.windows(2).skip(1) {
        let piece = Frag {
            end: false,
            ..frag(0, u64::MAX, cut[0] as u64, &data[cut[0]..cut[1]])
        };
        inbox.on_frag(&piece).unwrap();
    }
    assert!(!inbox.has_ready());
    inbox.on_frag(&frag(0, 100_000, 0, &data[..777])).unwrap();
    assert_eq!(inbox.pop().unwrap().payload, data);
}

#[test]
fn a_first_piece_without_data_tells_the_description() {
    let mut inbox = inbox();
    inbox.on_frag(&frag(0, 500, 0, &[])).unwrap();
    inbox.on_frag(&frag(0, 500, 1, &[7; 499])).unwrap();
    assert!(!inbox.has_ready());
    inbox.on_frag(&frag(0, 500, 0, &[7; 1])).unwrap();
    assert_eq!(inbox.pop().unwrap().payload, vec![7; 500]);
}

#[test]
fn a_message_in_pieces_may_be_completed_by_a_whole_one() {
    let mut inbox = inbox();
    inbox.on_frag(&frag(0, 500, 100, &[1; 200])).unwrap();
    inbox.on_frag(&frag(0, 500, 0, &[2; 500])).unwrap();
    let payload = inbox.pop().unwrap().payload;
    assert_eq!(payload.iter().filter(|byte| **byte == 1).count(), 200);
}

#[test]
fn f04_gaps_in_a_message_are_bounded() {
    let mut inbox = inbox();
    let every_other = |n: u64| frag(0, 100_000, 200 + 2 * n, b"x");
    let taken = (0..10_000)
        .take_while(|n| inbox.on_frag(&every_other(*n)).is_ok())
        .count();
    assert!((4..10).contains(&taken), "{taken}");
    let mut honest = super::inbox();
    for n in 0..300 {
        honest
            .on_frag(&frag(0, 100_000, 129 + n * 129, &[0; 1]))
            .unwrap();
    }
}

#[test]
fn f04_ranges_of_a_message_are_bounded_however_long_it_is() {
    let window = 8 << 20;
    let limits = InboxLimits {
        channel_window: window,
        session_window: window,
        ..inbox_limits()
    };
    let mut inbox = Inbox::new(limits, Pool::new(0));
    let taken = (1..16_000)
        .take_while(|n| inbox.on_frag(&frag(0, 4 << 20, n * 256, &[0; 128])).is_ok())
        .count();
    assert_eq!(taken, 8_192);
}

#[test]
fn f04_channels_of_a_peer_are_bounded() {
    let mut inbox = Inbox::new(
        InboxLimits {
            max_channels: 3,
            ..inbox_limits()
        },
        Pool::new(0),
    );
    let on = |channel| Frag {
        channel: ChannelId(channel),
        ..frag(0, 1, 0, b"x")
    };
    for channel in [5, 6, 7, 5] {
        inbox.on_frag(&on(channel)).unwrap();
    }
    assert_eq!(inbox.on_frag(&on(8)), Err(ProtocolError::Limit("channels")));
    let request = Rts {
        channel: ChannelId(8),
        ..rts(0, 10)
    };
    assert_eq!(
        inbox.on_rts(&request),
        Err(ProtocolError::Limit("channels"))
    );
    inbox.on_frag(&on(6)).unwrap();
}

#[test]
fn small_messages_in_order_share_memory_and_others_do_not() {
    let mut inbox = inbox();
    for number in [0, 1, 3, 2] {
        inbox
            .on_frag(&frag(number, 100, 0, &[number as u8; 100]))
            .unwrap();
    }
    let all = pop_all(&mut inbox);
    let address = |n: usize| all[n].user_header.as_ptr() as usize;
    assert_eq!(address(1), address(0) + 101);
    assert_eq!(address(2), address(1) + 101, "2 closed the gap");
    assert_ne!(
        address(3),
        address(2) + 101,
        "3 came before its turn: alone, lest it hold a chunk"
    );
    for (number, message) in all.iter().enumerate() {
        assert_eq!(message.payload, vec![number as u8; 100]);
    }
}

#[test]
fn f32_long_messages_use_memory_again() {
    let pool = Pool::new(1 << 20);
    let mut inbox = Inbox::new(inbox_limits(), pool.clone());
    let data = content(0, 50_000);
    let mut addresses = std::collections::BTreeSet::new();
    for number in 0..100 {
        inbox
            .on_frag(&frag(number, 50_000, 0, &data[..20_000]))
            .unwrap();
        inbox
            .on_frag(&frag(number, 50_000, 20_000, &data[20_000..]))
            .unwrap();
        let message = inbox.pop().unwrap();
        assert_eq!(message.payload, data);
        addresses.insert(message.payload.as_ptr());
        while inbox.poll_answer().is_some() {}
    }
    assert_eq!(addresses.len(), 1);
    assert!(pool.kept() < 65_536);
}

/// Buffers of other lengths, from an earlier part of a job, do not keep the pool from serving the
/// next part.
#[test]
fn f32_buffers_of_unused_lengths_make_room() {
    const KEPT: usize = 1 << 20;
    let pool = Pool::new(KEPT);
    let of = |len: usize, count: usize| (0..count).map(|_| pool.take(len)).collect::<Vec<_>>();
    drop(of(32_768, 32));
    assert_eq!(pool.kept(), KEPT);
    drop(of(100_000, 1));
    let kept = pool.kept();
    let again = of(100_000, 1);
    assert!(pool.kept() + 100_000 <= kept, "it was kept for the next");
    drop(again);
    drop(of(100_000, 20));
    assert!(pool.kept() <= KEPT && pool.kept() > KEPT - 131_072);
    drop(of(2 * KEPT, 1));
    assert!(
        pool.kept() > KEPT - 131_072,
        "what is longer than all costs none"
    );
}

/// Messages of middle length, each in two pieces, have their bytes in memory that they share if
/// they come in order; of those that are not complete, one at a time.
#[test]
fn f03_pieces_in_order_share_memory_with_others() {
    pieces_in_order(b"h");
    pieces_in_order(b"");
}

/// A fragment of a message with this header.
fn with_header<'a>(frag: Frag<'a>, user_header: &'a [u8]) -> Frag<'a> {
    let start = frag.start.map(|start| Start {
        user_header,
        ..start
    });
    Frag { start, ..frag }
}

fn pieces_in_order(header: &[u8]) {
    let mut inbox = inbox();
    let bytes = content(0, 1_400);
    let first = |number| with_header(frag(number, 1_400, 0, &bytes[..600]), header);
    let second = |number| frag(number, 1_400, 600, &bytes[600..]);
    for number in 0..6 {
        inbox.on_frag(&first(number)).unwrap();
        inbox.on_frag(&second(number)).unwrap();
    }
    let taken = pop_all(&mut inbox);
    assert!(taken.iter().all(|m| m.payload == bytes));
    // The first two had chunks as small as they are.
    assert!(taken[2..].iter().all(|m| !m.payload.is_unique()));
    // The one before it is missing: the program could not take it.
    inbox.on_frag(&first(7)).unwrap();
    inbox.on_frag(&second(7)).unwrap();
    inbox.on_frag(&first(6)).unwrap();
    for piece in [first(0), second(0)] {
        let other = Frag {
            channel: C1,
            ..piece
        };
        inbox.on_frag(&other).unwrap();
    }
    inbox.on_frag(&second(6)).unwrap();
    let taken = pop_all(&mut inbox);
    assert!(taken.iter().all(|m| m.payload == bytes));
    let mut alone: Vec<_> = taken
        .iter()
        .map(|m| (m.channel.0, m.number, m.payload.is_unique()))
        .collect();
    alone.sort_unstable();
    assert_eq!(alone, [(0, 6, false), (0, 7, true), (1, 0, true)]);
}

/// The assembly that one message leaves for the next is empty.
#[test]
fn a_message_in_pieces_begins_with_nothing_of_the_one_before() {
    let mut inbox = inbox();
    let (long, short) = (content(1, 1_400), content(2, 900));
    let mut first = with_header(frag(0, 1_400, 0, &long[..600]), b"");
    first.start = first.start.map(|start| Start { tag: 77, ..start });
    inbox.on_frag(&first).unwrap();
    inbox.on_frag(&frag(0, 1_400, 600, &long[600..])).unwrap();
    // Its end comes first, and tells no length.
    let middle = Frag {
        end: false,
        ..frag(1, 900, 300, &short[300..700])
    };
    inbox.on_frag(&middle).unwrap();
    inbox
        .on_frag(&with_header(frag(1, 900, 0, &short[..300]), b""))
        .unwrap();
    assert_eq!(pop_all(&mut inbox).len(), 1, "200 bytes are missing");
    inbox.on_frag(&frag(1, 900, 700, &short[700..])).unwrap();
    let taken = pop_all(&mut inbox);
    assert_eq!((taken[0].tag, &taken[0].payload[..]), (5, &short[..]));
}

/// While a message is not complete, a session that lies idle does not forget that it has a position
/// in a chunk.
#[test]
fn f03_an_idle_session_lends_no_second_position() {
    let mut inbox = inbox();
    let bytes = content(0, 1_400);
    let piece = |channel, offset: usize, end: usize| Frag {
        channel,
        ..frag(0, 1_400, offset as u64, &bytes[offset..end])
    };
    inbox.on_frag(&piece(C0, 0, 600)).unwrap();
    assert!(!inbox.shrink());
    inbox.on_frag(&piece(C1, 0, 600)).unwrap();
    inbox.on_frag(&piece(C1, 600, 1_400)).unwrap();
    assert!(pop_all(&mut inbox)[0].payload.is_unique());
    inbox.on_frag(&piece(C0, 600, 1_400)).unwrap();
    assert_eq!(pop_all(&mut inbox)[0].payload, bytes);
    assert!(inbox.shrink());
}
