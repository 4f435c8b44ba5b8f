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
    let mut kept = VecDeque::new();
    for number in 0..20_000_u64 {
        kept.push_back((
            number,
            queue.push(number, &small(&number.to_le_bytes(), 1), false),
        ));
        if kept.len() == 2_000 {
            let done: Vec<_> = kept.drain(..7).collect();
            queue.release(done[6].1.span(1).1);
            for (number, entry) in [kept.front(), kept.back()].into_iter().flatten() {
                let message = queue.read(entry).unwrap();
                assert_eq!(message.payload[..], number.to_le_bytes());
            }
        }
    }
    let live = 2_000 * usize::from(kept[0].1.frame);
    assert!(
        queue.footprint() < live + 3 * BLOCK,
        "{} bytes for {live}",
        queue.footprint()
    );
    let (_, last) = kept.pop_back().unwrap();
    queue.release(last.span(1).1);
    assert_eq!(queue.held(), 0);
}

/// Whatever their length, and so wherever in a block the last of them ends.
#[test]
fn messages_that_follow_stand_as_if_each_were_written_by_itself() {
    for len in 0..=SMALL {
        let payload = vec![7; len];
        let message = SmallOutgoing {
            user_header: &[],
            ..small(&payload, 0)
        };
        let mut queue = FrameQueue::default();
        let mut runs: Vec<Small> = Vec::new();
        for number in 0..3 * BLOCK as u64 / (len as u64 + 3) {
            let follows = runs
                .last_mut()
                .is_some_and(|run| run.extend_if(|| queue.follow(number, &message)));
            if follows {
                continue;
            }
            let next = queue.push(number, &message, true);
            if !runs.last_mut().is_some_and(|run| run.join(&next)) {
                runs.push(next);
            }
        }
        let mut number = 0;
        for run in &runs {
            let (start, end) = run.span(run.count());
            for frame in wire::frames(queue.get(start, end)) {
                let Ok(Frame::Frag(frag)) = frame else {
                    panic!("{len} B: {frame:?}")
                };
                assert_eq!((frag.message, frag.data), (number, &payload[..]));
                number += 1;
            }
        }
        let counts: u32 = runs.iter().map(Small::count).sum();
        assert_eq!(number, u64::from(counts), "{len} B");
        assert!(runs.len() < 20, "{len} B: {} runs", runs.len());
        queue.release(runs[runs.len() - 1].span(u32::MAX).1);
        assert_eq!((queue.held(), queue.full.len()), (0, 0), "{len} B");
    }
}
