//! Frames that stand ready, and the messages in them.

use super::*;

fn small(payload: &[u8], tag: u64) -> SmallOutgoing<'_> {
    SmallOutgoing {
        channel: ChannelId(7),
        tag,
        kind: Kind(130),
        user_header: b"head",
        payload,
        notify: true,
        token: 9,
    }
}

#[test]
fn a_frame_says_all_of_its_message() {
    let mut queue = FrameQueue::default();
    let longest = [5; SMALL];
    for (number, tag, payload) in [(0, 0, &[][..]), (u64::MAX, u64::MAX, &longest)] {
        let message = small(payload, tag);
        let entry = queue.push(number, &message, false);
        assert_eq!(queue.read(&entry), Some(message.to_outgoing()));
        assert_eq!(entry.held(), payload.len() as u64 + 4);
        let (start, end) = entry.span(1);
        assert_eq!(queue.get(start, end).len(), usize::from(entry.frame));
    }
}

#[test]
fn what_is_acknowledged_is_given_up_and_what_is_not_stays_readable() {
    let mut queue = FrameQueue::default();
    let mut kept = std::collections::VecDeque::new();
    let mut most = 0;
    for number in 0..20_000_u64 {
        kept.push_back((
            number,
            queue.push(number, &small(&number.to_le_bytes(), 1), false),
        ));
        if kept.len() == 300 {
            let done: Vec<_> = kept.drain(..7).collect();
            queue.release(done[6].1.span(1).1);
            let (first, entry) = &kept[0];
            let message = queue.read(entry).unwrap();
            assert_eq!(message.payload[..], first.to_le_bytes());
        }
        most = most.max(queue.bytes.len());
    }
    assert!(most < 4 * WORTH_MOVING, "{most} bytes for 300 messages");
    let (_, last) = kept.pop_back().unwrap();
    queue.release(last.span(1).1);
    assert!(queue.bytes.is_empty() && queue.gone == 0);
}
