//! Channels of one destination: strict classes, and who sends how much within one.

use super::*;
use crate::scheduler::Priority;
use std::collections::BTreeMap;

fn rank(outbox: &mut Outbox, channel: ChannelId, class: u8, weight: u8) {
    assert!(outbox.set_priority(channel, Priority::new(class, weight).unwrap()));
}

fn channel_of(frame: &SentFrame) -> ChannelId {
    match frame {
        SentFrame::Data { channel, .. } | SentFrame::Rts { channel, .. } => *channel,
        other => panic!("{other:?}"),
    }
}

/// The channels of the pieces of so many packets.
fn order(outbox: &mut Outbox, packets: usize) -> Vec<ChannelId> {
    let built = (0..packets).filter_map(|_| packet(outbox, ROOM));
    built
        .flat_map(|p| p.sent)
        .map(|frame| channel_of(&frame))
        .collect()
}

#[test]
fn a_higher_class_overtakes_at_the_next_packet() {
    let mut outbox = outbox();
    rank(&mut outbox, C1, 5, 16);
    push(&mut outbox, C0, 0..1, 50_000);
    assert_eq!(order(&mut outbox, 3), [C0; 3]);
    assert!(!outbox.is_outranked(), "nobody uses the higher class");
    push(&mut outbox, C1, 0..2, 3_000);
    let pieces = order(&mut outbox, 6);
    let first_low = pieces.iter().position(|c| *c == C0).unwrap();
    assert!(pieces[..first_low].len() >= 4, "{pieces:?}");
    assert!(pieces[first_low..].iter().all(|c| *c == C0), "{pieces:?}");
    assert!(outbox.is_outranked(), "it may want to send at any time");
}

#[test]
fn a_higher_class_without_credit_delays_no_other() {
    let mut outbox = Outbox::new(limits());
    outbox.set_session_limit(1 << 30);
    outbox.set_initial_channel_limit(10_000);
    outbox.set_channel_limit(C0, 1 << 20);
    rank(&mut outbox, C1, 7, 255);
    push(&mut outbox, C0, 0..1, 100);
    outbox.set_channel_limit(C0, 1 << 20);
    push(&mut outbox, C0, 1..100, 2_000);
    push(&mut outbox, C1, 0..20, 2_000);
    let pieces = order(&mut outbox, usize::from(u8::MAX));
    let high = pieces.iter().filter(|c| **c == C1).count();
    assert!(high >= 4, "as far as its credit reaches");
    assert!(pieces.ends_with(&[C0; 50]));
    outbox.set_channel_limit(C1, 1 << 20);
    assert_eq!(
        order(&mut outbox, 1).first(),
        Some(&C1),
        "and at once when it has more"
    );
}

#[test]
fn retransmissions_keep_their_class() {
    let mut outbox = outbox();
    rank(&mut outbox, C1, 4, 16);
    push(&mut outbox, C0, 0..1, 20_000);
    let low = packet(&mut outbox, ROOM).unwrap();
    push(&mut outbox, C1, 0..1, 1_000);
    let high = packet(&mut outbox, ROOM).unwrap();
    lost(&mut outbox, &low);
    lost(&mut outbox, &high);
    assert_eq!(order(&mut outbox, 1).first(), Some(&C1));
    lost(&mut outbox, &low);
    push(&mut outbox, C1, 1..2, 1_000);
    assert_eq!(
        order(&mut outbox, 1).first(),
        Some(&C1),
        "new before repeated of a lower class"
    );
}

#[test]
fn channels_of_a_class_share_by_weight() {
    let mut outbox = outbox();
    let channels = [(ChannelId(1), 16_u8), (ChannelId(2), 64), (ChannelId(3), 8)];
    for (channel, weight) in channels {
        rank(&mut outbox, channel, 3, weight);
        push(&mut outbox, channel, 0..30, 90_000);
    }
    let mut sent = BTreeMap::<ChannelId, f64>::new();
    for _ in 0..2_000 {
        for frame in packet(&mut outbox, ROOM).unwrap().sent {
            if let SentFrame::Data {
                channel,
                start,
                end,
                ..
            } = frame
            {
                *sent.entry(channel).or_default() += (end - start) as f64;
            }
        }
    }
    let share = |channel| sent[&ChannelId(channel)] / sent[&ChannelId(1)];
    assert!((share(2) - 4.0).abs() < 0.8, "{sent:?}");
    assert!((share(3) - 0.5).abs() < 0.2, "{sent:?}");
}

#[test]
fn priorities_hold_for_channels_opened_later_and_in_the_next_session() {
    let mut first = outbox();
    rank(&mut first, C1, 6, 16);
    let mut next = outbox();
    next.set_priorities(first.take_priorities());
    push(&mut next, C0, 0..5, 1_000);
    push(&mut next, C1, 0..1, 1_000);
    assert_eq!(order(&mut next, 1).first(), Some(&C1));
}

#[test]
fn f04_priorities_are_bounded_as_channels_are() {
    let mut outbox = outbox();
    let priority = Priority::default();
    for channel in 0..MAX_CHANNELS {
        assert!(outbox.set_priority(ChannelId(channel as u32), priority));
    }
    assert!(!outbox.set_priority(ChannelId(u32::MAX), priority));
    assert!(outbox.set_priority(C0, priority), "a known one changes");
}

#[test]
fn the_program_takes_higher_classes_first() {
    let (mut outbox, mut inbox) = (outbox(), inbox());
    push(&mut outbox, C0, 0..3, 100);
    push(&mut outbox, C1, 0..3, 100);
    for packet in packets(&mut outbox, ROOM) {
        take(&mut inbox, &packet).unwrap();
    }
    inbox.set_priority(C1, Priority::new(4, 1).unwrap());
    let from: Vec<_> = pop_all(&mut inbox).into_iter().map(|m| m.channel).collect();
    assert_eq!(from, [C1, C1, C1, C0, C0, C0]);
}
