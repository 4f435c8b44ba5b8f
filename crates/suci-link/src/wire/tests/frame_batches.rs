//! The parser of frame batches agrees with the parser of frames for any bytes.

use super::both_ways::read_both_ways;
use super::*;

/// Adjacent whole messages, most of them in a row.
fn row() -> impl Strategy<Value = Vec<u8>> {
    let len = prop_oneof![8 => 0..40_usize, 1 => LONGEST - 2..LONGEST + 3];
    let tag = prop_oneof![4 => Just(0), 1 => number()];
    let messages = prop::collection::vec((len, tag, 0..12_u64, any::<bool>()), 1..20);
    let from = prop_oneof![number(), Just(u64::MAX - 5)];
    (channel(), from, messages).prop_map(|(channel, from, messages)| {
        let mut bytes = Vec::new();
        for (at, (len, tag, odd, described)) in (0..).zip(messages) {
            let header: &[u8] = if odd == 0 && described { b"head" } else { b"" };
            let start = Start {
                total: len as u64,
                tag,
                kind: if odd == 1 { Kind(200) } else { Kind::USER },
                user_header: header,
            };
            let head = FragHead {
                channel: if odd == 2 { ChannelId(3) } else { channel },
                message: from.saturating_add(if odd == 3 { at + 1 } else { at }),
                offset: 0,
                end: true,
                start: Some(start),
            };
            head.put(&mut bytes, len, false);
            bytes.extend_from_slice(&POOL[..len]);
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn f07_a_batch_equals_its_frames(
        rows in prop::collection::vec(row(), 1..4),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = rows.concat();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        read_both_ways(&bytes);
    }

    #[test]
    fn f07_whatever_the_bytes(
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0x80..0x90_u8, 0..9_u8], 0..80),
    ) {
        read_both_ways(&bytes);
    }
}

#[test]
fn consecutive_messages_make_batches_of_bounded_length() {
    for (len, count) in [(0, 500), (32, 500), (LONGEST, 50), (LONGEST + 1, 50)] {
        let mut bytes = Vec::new();
        for message in 0..count {
            let start = Start {
                total: len as u64,
                tag: 0,
                kind: Kind::USER,
                user_header: b"",
            };
            let head = FragHead {
                channel: ChannelId(1),
                message,
                offset: 0,
                end: true,
                start: Some(start),
            };
            head.put(&mut bytes, len, false);
            bytes.extend_from_slice(&POOL[..len]);
        }
        let expected = if len > LONGEST { 0 } else { count };
        assert_eq!(read_both_ways(&bytes), expected, "{len} B");
    }
}
