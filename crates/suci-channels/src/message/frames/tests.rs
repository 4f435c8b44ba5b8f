//! Frames that stand ready, and the messages in them.

use super::*;
use suci_link::types::{ChannelId, Kind};

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

/// Returns where the frame begins and ends.
fn ends((at, shape): (u64, EncodedShape)) -> (u64, u64) {
    (at, at + u64::from(shape.len))
}

/// The frame there, decoded.
fn read(queue: &FrameQueue, start: u64, end: u64) -> wire::Frag<'_> {
    let mut frames = wire::frames(queue.get(start, end));
    match (frames.next(), frames.next()) {
        (Some(Ok(Frame::Frag(frag))), None) => frag,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_frame_says_all_of_its_message() {
    let mut queue = FrameQueue::default();
    let longest = [5; SMALL];
    for (number, tag, payload) in [(0, 0, &[][..]), (u64::MAX, u64::MAX, &longest)] {
        let message = small(payload, tag);
        let (at, shape) = queue.push(number, &message, false);
        let (start, end) = ends((at, shape));
        let frag = read(&queue, start, end);
        assert_eq!((frag.channel, frag.message), (message.channel, number));
        assert_eq!((frag.end, frag.data), (true, payload));
        let description = Start {
            total: payload.len() as u64,
            tag,
            kind: message.kind,
            user_header: message.user_header,
        };
        assert_eq!(frag.start, Some(description));
        assert_eq!(queue.description(start, end), Some(description));
        assert_eq!((shape.payload.into(), shape.header), (payload.len(), 4));
    }
}

#[test]
fn acknowledged_frames_are_freed_and_others_stay_readable() {
    let mut queue = FrameQueue::default();
    let mut kept = VecDeque::new();
    for number in 0..20_000_u64 {
        let message = number.to_le_bytes();
        let frame = queue.push(number, &small(&message, 1), false);
        kept.push_back((number, ends(frame)));
        if kept.len() == 2_000 {
            let done: Vec<_> = kept.drain(..7).collect();
            queue.release(done[6].1.1);
            for (number, (start, end)) in [kept.front(), kept.back()].into_iter().flatten() {
                let frag = read(&queue, *start, *end);
                assert_eq!(frag.data, number.to_le_bytes());
            }
        }
    }
    let (start, end) = kept[0].1;
    let live = 2_000 * (end - start) as usize;
    assert!(
        queue.footprint() < live + 3 * BLOCK,
        "{} bytes for {live}",
        queue.footprint()
    );
    let (_, (_, end)) = kept.pop_back().unwrap();
    queue.release(end);
    assert_eq!(queue.held(), 0);
}

/// This holds for messages of any length, so for any position in a block at which the last of them
/// ends.
#[test]
fn messages_that_follow_stand_as_if_each_were_written_by_itself() {
    for len in 0..=SMALL {
        let payload = vec![7; len];
        let message = SmallOutgoing {
            user_header: &[],
            ..small(&payload, 0)
        };
        let mut queue = FrameQueue::default();
        // Where frames begin and end that stand side by side.
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let (mut written, mut each) = (0, 0);
        for number in 0..3 * BLOCK as u64 / (len as u64 + 3) {
            written += 1;
            if queue.follow(number, &message) {
                runs.last_mut().unwrap().1 += each;
                continue;
            }
            let (start, end) = ends(queue.push(number, &message, true));
            match runs.last_mut() {
                Some(run) if run.1 == start && each == end - start => run.1 = end,
                _ => runs.push((start, end)),
            }
            each = end - start;
        }
        let mut number = 0;
        for (start, end) in &runs {
            for frame in wire::frames(queue.get(*start, *end)) {
                let Ok(Frame::Frag(frag)) = frame else {
                    panic!("{len} B: {frame:?}")
                };
                assert_eq!((frag.message, frag.data), (number, &payload[..]));
                number += 1;
            }
        }
        assert_eq!(number, written, "{len} B");
        assert!(runs.len() < 20, "{len} B: {} runs", runs.len());
        queue.release(runs[runs.len() - 1].1);
        assert_eq!((queue.held(), queue.full.len()), (0, 0), "{len} B");
    }
}
