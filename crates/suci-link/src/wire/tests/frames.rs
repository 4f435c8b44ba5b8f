use super::*;
use crate::limits::MAX_MESSAGE;
use crate::types::ProtocolError;

fn start() -> impl Strategy<Value = Start<'static>> {
    (
        0..=MAX_MESSAGE,
        0..48u32,
        prop_oneof![Just(0), number()],
        message_kind(),
        slice(255),
    )
        .prop_map(|(total, shift, tag, kind, user_header)| Start {
            total: total >> shift,
            tag,
            kind,
            user_header,
        })
}

fn frag() -> impl Strategy<Value = Frag<'static>> {
    let place = (channel(), number(), 1..=MAX_MESSAGE, 0..48u32);
    (
        place,
        any::<bool>(),
        prop::option::of(start()),
        slice(1_500),
    )
        .prop_map(|((channel, message, offset, shift), end, start, data)| {
            let len = data.len() as u64;
            let Some(mut start) = start else {
                let data = if data.is_empty() { &POOL[..1] } else { data };
                let offset = (offset >> shift).clamp(1, MAX_MESSAGE - data.len() as u64);
                return Frag {
                    channel,
                    message,
                    offset,
                    end,
                    start: None,
                    data,
                };
            };
            // A first fragment is the end exactly if it holds the total.
            start.total = if end { len } else { start.total.max(len + 1) };
            Frag {
                channel,
                message,
                offset: 0,
                end,
                start: Some(start),
                data,
            }
        })
}

fn rts() -> impl Strategy<Value = Rts<'static>> {
    (channel(), number(), start()).prop_map(|(channel, message, start)| {
        let Start {
            total,
            tag,
            kind,
            user_header,
        } = start;
        Rts {
            channel,
            message,
            total,
            tag,
            kind,
            user_header,
        }
    })
}

fn frame() -> impl Strategy<Value = Frame<'static>> {
    let about_session = prop_oneof![
        (1usize..50).prop_map(Frame::Padding),
        Just(Frame::Ping),
        credit().prop_map(Frame::Credit),
        number().prop_map(|generation| Frame::Reclaim { generation }),
        (number(), number(), number()).prop_map(|(generation, highest, size)| Frame::Return {
            generation,
            highest,
            size,
        }),
        credit().prop_map(|c| Frame::Blocked(Blocked {
            generation: c.generation,
            limit: c.limit,
            memory: c.memory,
            waiting: c.control,
        })),
        (number(), mode()).prop_map(|(number, mode)| Frame::Mode { number, mode }),
        number().prop_map(|number| Frame::Suspend { number }),
        number().prop_map(|number| Frame::Resume { number }),
        (number(), number(), number()).prop_map(|(code, sent, received)| Frame::Close(Close {
            code,
            sent,
            received
        })),
        any::<u64>().prop_map(Frame::Challenge),
        any::<u64>().prop_map(Frame::Response),
    ];
    let about_messages = prop_oneof![
        (channel(), number()).prop_map(|(channel, limit)| Frame::MaxChannel { channel, limit }),
        (channel(), number()).prop_map(|(channel, count)| Frame::Fin { channel, count }),
        number().prop_map(|limit| Frame::MaxChannels { limit }),
        (channel(), number()).prop_map(|(channel, limit)| Frame::ChannelBlocked { channel, limit }),
        rts().prop_map(Frame::Rts),
        (channel(), number()).prop_map(|(channel, message)| Frame::Cts { channel, message }),
        (channel(), number(), number()).prop_map(|(channel, message, reason)| Frame::Refuse {
            channel,
            message,
            reason
        }),
        frag().prop_map(Frame::Frag),
    ];
    prop_oneof![about_session, about_messages]
}

/// Merges adjacent paddings, which are one sequence of zeros.
fn merge_padding<'a>(list: &[Frame<'a>]) -> Vec<Frame<'a>> {
    let mut merged = Vec::new();
    for frame in list {
        match (merged.last_mut(), frame) {
            (Some(Frame::Padding(sum)), Frame::Padding(more)) => *sum += more,
            _ => merged.push(*frame),
        }
    }
    merged
}

/// Decodes frames, encodes them again and checks that they decode to the same. Returns how many
/// there are.
fn check_again(bytes: &[u8]) -> usize {
    let read: Vec<_> = frames(bytes).map_while(Result::ok).collect();
    let mut again = Vec::new();
    for frame in &read {
        let before = again.len();
        frame.put(&mut again);
        assert_eq!(again.len() - before, frame.size(), "{frame:?}");
        if let Frame::Frag(f) = frame {
            assert!(f.offset + f.data.len() as u64 <= f.total().unwrap_or(MAX_MESSAGE));
            assert!(f.total().is_none_or(|total| total <= MAX_MESSAGE));
        }
    }
    let reread: Vec<_> = frames(&again).collect::<Result<_, _>>().unwrap();
    assert_eq!(merge_padding(&read), reread);
    read.len()
}

fn error(bytes: &[u8]) -> Option<ProtocolError> {
    let mut all = frames(bytes);
    let error = all.find_map(Result::err);
    assert!(
        error.is_none() || all.next().is_none(),
        "an error is the last"
    );
    error
}

fn malformed(what: &'static str) -> Option<ProtocolError> {
    Some(ProtocolError::Malformed(what))
}

/// A FRAG of type `bits` with these varint fields, then `data`.
fn raw_frag(bits: u8, fields: &[u64], data: &[u8]) -> Vec<u8> {
    let mut buf = vec![0x80 | bits];
    fields
        .iter()
        .for_each(|field| varint::put(&mut buf, *field));
    buf.extend_from_slice(data);
    buf
}

const FIRST: u8 = 1;
const END: u8 = 2;
const LEN: u8 = 4;
const TAG: u8 = 8;
const KIND: u8 = 16;
const UHDR: u8 = 32;

#[test]
fn f07_fragments_beyond_the_longest_message_are_refused() {
    let beyond = malformed("fragment beyond the longest message");
    assert_eq!(error(&raw_frag(0, &[0, 0, MAX_MESSAGE - 1], b"x")), None);
    assert_eq!(error(&raw_frag(END, &[0, 0, MAX_MESSAGE - 1], b"x")), None);
    assert_eq!(error(&raw_frag(0, &[0, 0, MAX_MESSAGE], b"x")), beyond);
    assert_eq!(error(&raw_frag(END, &[0, 0, u64::MAX], b"x")), beyond);
    assert_eq!(error(&raw_frag(FIRST, &[0, 0, MAX_MESSAGE], b"x")), None);
    assert_eq!(
        error(&raw_frag(FIRST, &[0, 0, MAX_MESSAGE + 1], b"x")),
        malformed("message too long")
    );
}

#[test]
fn f07_first_fragment_that_contradicts_its_total_is_refused() {
    let covers = malformed("first fragment covers its message but is not the end");
    assert_eq!(error(&raw_frag(FIRST, &[0, 0, 4], b"abc")), None);
    assert_eq!(error(&raw_frag(FIRST, &[0, 0, 3], b"abc")), covers);
    assert_eq!(error(&raw_frag(FIRST, &[0, 0, 2], b"abc")), covers);
    assert_eq!(error(&raw_frag(FIRST, &[0, 0, 0], b"")), covers);
    assert_eq!(
        error(&raw_frag(FIRST | END, &[0, 0], b"")),
        None,
        "an empty message"
    );
}

#[test]
fn f07_later_fragments_have_an_offset_and_data_and_no_description() {
    let empty = malformed("later fragment at offset 0 or empty");
    assert_eq!(error(&raw_frag(0, &[0, 0, 0], b"x")), empty);
    assert_eq!(error(&raw_frag(0, &[0, 0, 5], b"")), empty);
    assert_eq!(error(&raw_frag(LEN | END, &[0, 0, 5, 0], b"")), empty);
    for bit in [TAG, KIND, UHDR] {
        assert_eq!(
            error(&raw_frag(bit, &[0, 0, 5], b"xxxx")),
            malformed("description on a later fragment")
        );
    }
}

#[test]
fn f03_claimed_lengths_beyond_the_packet_are_refused() {
    let truncated = malformed("truncated");
    assert_eq!(
        error(&raw_frag(FIRST | END | LEN, &[0, 0, 3], b"abc")),
        None
    );
    assert_eq!(
        error(&raw_frag(FIRST | END | LEN, &[0, 0, 4], b"abc")),
        truncated
    );
    assert_eq!(
        error(&raw_frag(FIRST | END | LEN, &[0, 0, u64::MAX], b"abc")),
        truncated
    );
    assert_eq!(
        error(&raw_frag(FIRST | END | UHDR, &[0, 0], &[4, 1, 2, 3])),
        truncated
    );
    assert_eq!(
        error(&raw_frag(FIRST | END | UHDR, &[0, 0], &[0])),
        malformed("user header announced but empty")
    );
}

#[test]
fn channels_have_32_bits() {
    let wide = malformed("channel beyond 32 bits");
    assert_eq!(
        error(&raw_frag(FIRST | END, &[u32::MAX.into(), 0], b"")),
        None
    );
    assert_eq!(error(&raw_frag(FIRST | END, &[1 << 32, 0], b"")), wide);
    for kind in [0x07, 0x08, 0x09, 0x0a, 0x0b, 0x1a] {
        let mut buf = vec![kind];
        varint::put(&mut buf, 1 << 32);
        buf.extend_from_slice(&[1; 8]);
        assert_eq!(error(&buf), wide, "{kind:#04x}");
    }
}

#[test]
fn unannounced_frame_types_end_the_packet() {
    let known = |byte: u8| matches!(byte, 0..=1 | 3..=0x13 | 0x18..=0x1b | 0x80..=0xbf);
    for byte in 0..=u8::MAX {
        let unknown = error(&[byte, 1]) == Some(ProtocolError::UnknownFrame(byte));
        assert_eq!(unknown, !known(byte), "{byte:#04x}");
    }
    let read: Vec<_> = frames(&[0x01, 0x20, 0x01]).collect();
    assert_eq!(
        read,
        [Ok(Frame::Ping), Err(ProtocolError::UnknownFrame(0x20))]
    );
}

#[test]
fn unknown_modes_are_refused() {
    assert_eq!(error(&[0x0c, 1, 2]), None);
    assert_eq!(error(&[0x0c, 1, 3]), malformed("unknown mode"));
}

#[test]
fn messages_beyond_the_longest_are_not_announced() {
    let mut buf = Vec::new();
    let rts = Rts {
        channel: ChannelId(1),
        message: 2,
        total: MAX_MESSAGE + 1,
        tag: 0,
        kind: Kind::USER,
        user_header: &[],
    };
    Frame::Rts(rts).put(&mut buf);
    assert_eq!(error(&buf), malformed("message too long"));
}

#[test]
fn frames_that_are_repeated_anyway_elicit_no_ack() {
    let ack = [0x10, 1, 1, 1, 1];
    let quiet = [&[0u8][..], &ack, &[0x03, 1, 1, 1, 1]];
    for bytes in quiet {
        assert!(frames(bytes).all(|frame| !frame.unwrap().is_eliciting()));
    }
    assert!(Frame::Ping.is_eliciting() && Frame::Suspend { number: 0 }.is_eliciting());
}

#[test]
fn close_codes_are_distinct() {
    let errors = [
        ProtocolError::Malformed(""),
        ProtocolError::UnknownFrame(0),
        ProtocolError::NeverSent(0),
        ProtocolError::MemoryCredit(0),
        ProtocolError::Contradiction {
            channel: 0,
            message: 0,
        },
        ProtocolError::OutOfPlace(""),
        ProtocolError::Limit(""),
    ];
    let codes: Vec<_> = errors.iter().map(close_code).collect();
    assert_eq!(codes, [1, 2, 3, 4, 5, 6, 7]);
    let ends = [CLOSE_FINISHED, CLOSE_LEAVING];
    assert!(
        codes
            .iter()
            .all(|code| *code < CLOSE_USER && !ends.contains(code))
    );
}

proptest! {
    #[test]
    fn frames_round_trip(list in prop::collection::vec(frame(), 1..8)) {
        let mut buf = Vec::new();
        for frame in &list {
            let before = buf.len();
            frame.put(&mut buf);
            prop_assert_eq!(buf.len() - before, frame.size());
        }
        let read: Vec<_> = frames(&buf).collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(read, merge_padding(&list));
    }

    #[test]
    fn last_fragment_needs_no_length(frag in frag()) {
        let mut buf = Vec::new();
        frag.head().put(&mut buf, frag.data.len(), true);
        prop_assert_eq!(buf.len(), frag.head().size(frag.data.len(), true));
        let room = buf.len() + frag.data.len();
        prop_assert_eq!(frag.head().capacity(room), Some(frag.data.len()));
        prop_assert_eq!(frag.head().capacity(buf.len() - 1), None);
        buf.extend_from_slice(frag.data);
        let read: Vec<_> = frames(&buf).collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(read, [Frame::Frag(frag)]);
    }

    #[test]
    fn f08_any_payload_decodes_or_is_refused(bytes: Vec<u8>) {
        check_again(&bytes);
    }

    #[test]
    fn f08_damaged_payloads_decode_or_are_refused(
        list in prop::collection::vec(frame(), 1..5),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut buf = Vec::new();
        list.iter().for_each(|frame| frame.put(&mut buf));
        for (at, value) in damage {
            let at = at.index(buf.len());
            buf[at] = value;
        }
        check_again(&buf);
        buf.truncate(cut.index(buf.len()));
        check_again(&buf);
    }
}
