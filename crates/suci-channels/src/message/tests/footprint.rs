//! The memory that a peer can make us use, compared with its charges.

use super::*;
use crate::message::pool::CHUNKED;
use suci_link::wire::FragHead;

/// Returns the bytes allocated for each byte charged, in percent, after `send` was repeated until
/// the credit was used up.
fn cost(send: impl Fn(&mut Inbox, u64) -> Result<(), ProtocolError>) -> usize {
    let mut inbox = inbox();
    let sent = (0..).take_while(|n| send(&mut inbox, *n).is_ok()).count();
    assert!(sent > 100, "{sent}");
    inbox.footprint() * 100 / usize::try_from(inbox.memory_used()).unwrap()
}

#[test]
fn f03_no_shape_of_message_costs_much_more_than_its_charge() {
    // The first message never comes, so that none can be taken.
    let filler = [0; 2_000];
    let whole =
        |len: usize| cost(|inbox, n| inbox.on_frag(&frag(n + 1, len as u64, 0, &filler[..len])));
    let begun =
        |len: u64, got: usize| cost(|inbox, n| inbox.on_frag(&frag(n, len, 0, &filler[..got])));
    let ended = |len: u64| cost(|inbox, n| inbox.on_frag(&frag(n, len, len - 1, &filler[..1])));
    let skipped = cost(|inbox, n| inbox.on_frag(&frag(10 * n + 9, 0, 0, b"")));
    let asked = |total: u64| cost(|inbox, n| inbox.on_rts(&rts(n, total)));
    let costs = [
        ("whole, 0 B", whole(0)),
        ("whole, 1 B", whole(1)),
        ("whole, 128 B", whole(128)),
        ("begun, 129 B", begun(129, 1)),
        ("begun, 300 B", begun(300, 128)),
        ("begun, 1,500 B", begun(1_500, 1_400)),
        ("ended, 129 B", ended(129)),
        ("ended, 1,500 B", ended(1_500)),
        ("skipped", skipped),
        ("asked, 1 B", asked(1)),
        ("asked, 129 B", asked(129)),
    ];
    for (shape, percent) in costs {
        assert!(percent <= 200, "{shape}: {percent} %");
    }
}

/// Appends a whole message of zeros that tells its length.
fn put(bytes: &mut Vec<u8>, message: u64, len: usize, tag: u64) {
    let start = Start {
        total: len as u64,
        tag,
        kind: Kind::USER,
        user_header: b"",
    };
    let head = FragHead {
        channel: C0,
        message,
        offset: 0,
        end: true,
        start: Some(start),
    };
    head.put(bytes, len, false);
    bytes.resize(bytes.len() + len, 0);
}

/// As [`cost`], of packets with so many messages of `len` bytes in one run, for which the chunks
/// that they share count as they are.
fn cost_of_batches(count: u64, len: usize, tag: u64) -> usize {
    let mut inbox = inbox();
    let mut first = 0;
    loop {
        let mut bytes = Vec::new();
        for message in first..first + count {
            put(&mut bytes, message, len, tag);
        }
        let packet = Packet {
            bytes,
            sent: Vec::new(),
        };
        if take(&mut inbox, &packet).is_err() {
            break;
        }
        first += count;
        assert_eq!(inbox.held_packed(), first, "{count} of {len} B");
    }
    let held = inbox.chunks() + inbox.footprint();
    held * 100 / usize::try_from(inbox.memory_used()).unwrap()
}

#[test]
fn f03_no_batch_costs_much_more_than_its_charge() {
    let shapes = [
        (1, 0, 0),
        (1, 1, 0),
        (1, 1_024, 0),
        (2, 0, u64::MAX),
        (2, 1_000, u64::MAX),
        (30, 0, 0),
        (30, 32, 1_000),
        // More than half a chunk.
        (9, 1_000, 0),
        (200, 32, 0),
        (60, 1_024, 0),
    ];
    for (count, len, tag) in shapes {
        let percent = cost_of_batches(count, len, tag);
        assert!(percent <= 125, "{count} of {len} B: {percent} %");
    }
}

/// The same of messages of middle length in order, whole and in two pieces, with one between that
/// lets the next not fit.
#[test]
fn f03_no_chunk_costs_much_more_than_its_charge() {
    let filler = [0; CHUNKED];
    for lens in [&[1_366][..], &[CHUNKED - 1], &[1_400, 700]] {
        for cut in [usize::MAX, 600] {
            let mut inbox = inbox();
            let mixed = lens.iter().cycle().take(7).chain(&[2]);
            for (number, len) in (0..).zip(mixed.cycle()) {
                let cut = if *len > cut { cut } else { *len };
                let pieces = [(0, cut), (cut, *len)];
                let mut pieces = pieces.iter().filter(|(from, to)| from < to);
                let taken = pieces.try_for_each(|(from, to)| {
                    inbox.on_frag(&frag(
                        number,
                        *len as u64,
                        *from as u64,
                        &filler[*from..*to],
                    ))
                });
                if taken.is_err() {
                    break;
                }
            }
            let percent = inbox.chunks() * 100 / usize::try_from(inbox.memory_used()).unwrap();
            assert!(percent <= 125, "{lens:?} cut at {cut}: {percent} %");
        }
    }
}

/// A program that keeps one message of a packet does not keep the packet.
#[test]
fn f03_a_long_message_or_an_empty_one_shares_no_memory() {
    let mut inbox = inbox();
    let mut bytes = Vec::new();
    let lens = [1_000, 1_000, 0, CHUNKED + 1, 1_000];
    for (message, len) in (0..).zip(lens) {
        put(&mut bytes, message, len, 0);
    }
    let sent = Vec::new();
    take(&mut inbox, &Packet { bytes, sent }).unwrap();
    assert_eq!(inbox.held_packed(), 3);
    let got = pop_all(&mut inbox);
    assert_eq!(
        got.iter().map(|m| m.payload.len()).collect::<Vec<_>>(),
        lens
    );
    assert!(got[2].payload.is_unique());
    assert!(got[3].payload.is_unique());
}

#[test]
fn f03_short_messages_that_are_never_cut_arrive_whole() {
    let gaps = Err(ProtocolError::Limit("gaps in a message"));
    let filler = [0; 128];
    for piece in [
        frag(0, 128, 0, &filler[..127]),
        frag(0, 128, 1, &filler[..127]),
        frag(0, 2, 0, b"x"),
        frag(0, 1_000, 5, b"x"),
    ] {
        let mut inbox = inbox();
        assert_eq!(inbox.on_frag(&piece), gaps, "{piece:?}");
        assert_eq!((inbox.footprint(), inbox.memory_used()), (0, 0));
    }
    let mut inbox = inbox();
    inbox.on_rts(&rts(0, 2)).unwrap();
    assert_eq!(inbox.on_frag(&frag(0, 2, 0, b"x")), gaps);
    inbox.on_frag(&frag(0, 2, 0, b"xy")).unwrap();
    assert_eq!(pop_all(&mut inbox).len(), 1);
}

/// Channels that were full once, one after the other, cost no more than the last.
#[test]
fn f32_channels_that_are_empty_again_keep_nothing() {
    let mut inbox = inbox();
    let mut most = 0;
    for channel in 0..MIN_CHANNELS as u32 {
        for message in 0..1_000 {
            let frag = Frag {
                channel: ChannelId(channel),
                ..frag(message, 1, 0, b"x")
            };
            if inbox.on_frag(&frag).is_err() {
                break;
            }
        }
        most = most.max(inbox.footprint());
        assert!(pop_all(&mut inbox).len() > 100);
    }
    assert!(most > 50_000, "{most}");
    assert!(inbox.footprint() <= 16_384, "{}", inbox.footprint());
}

/// Returns an outbox with room for bursts, whose peer has room, too.
fn roomy() -> Outbox {
    let mut outbox = Outbox::new(OutboxLimits {
        max_queued_bytes: 1 << 30,
        max_queued_messages: 1 << 20,
        ..limits()
    });
    outbox.set_initial_channel_limit(1 << 30);
    outbox.set_session_limit(1 << 40);
    outbox
}

/// Sends and acknowledges `count` messages of these lengths, one after the other. Returns the most
/// bytes allocated meanwhile.
fn burst(outbox: &mut Outbox, channel: u32, count: usize, lens: &[usize]) -> usize {
    for len in lens.iter().cycle().take(count) {
        let draft = message(ChannelId(channel), Bytes::from(vec![1; *len]));
        outbox.push(draft).unwrap();
    }
    let built = packets(outbox, ROOM);
    let most = outbox.footprint();
    built.iter().for_each(|packet| acked(outbox, packet));
    while outbox.poll_completion().is_some() {}
    assert!(outbox.is_empty());
    most
}

#[test]
fn f32_channels_that_sent_bursts_keep_little_of_them() {
    // Many frames, many entries, and both.
    for (count, lens) in [
        (1_000, &[100][..]),
        (1_000, &[300, 301]),
        (1_000, &[30, 31]),
    ] {
        let mut outbox = roomy();
        for channel in 0..1_000 {
            let most = burst(&mut outbox, channel, count, lens);
            assert!(most > 30_000, "{most}");
        }
        let kept = outbox.footprint();
        assert!(kept <= 32_768 + 1_000 * 1_024, "{kept}");
    }
    // Channels that send a little now and then keep the buffers for that.
    let mut outbox = roomy();
    for channel in 0..1_000 {
        burst(&mut outbox, channel, 3, &[200, 300]);
    }
    let each = outbox.footprint() / 1_000;
    assert!(each <= 3_072, "{each}");
}

/// The next burst finds the memory of the one before, on whichever channel that was.
#[test]
fn bursts_one_after_the_other_share_their_memory() {
    for lens in [&[40][..], &[30, 31], &[300, 301]] {
        let mut outbox = roomy();
        let most = burst(&mut outbox, 0, 100, lens);
        assert_eq!(outbox.footprint(), most, "all of it");
        for channel in [0, 1, 0, 2] {
            // A channel has a little of its own.
            let again = burst(&mut outbox, channel, 100, lens);
            assert!(again <= most + 1_024, "{again} of {most}");
        }
    }
}
