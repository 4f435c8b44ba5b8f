//! Channels that end: what is left of them, and how many there may be.

use super::*;
use crate::scheduler::Priority;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Sends every due FIN, each in a packet of its own.
fn fins(outbox: &mut Outbox) -> Vec<Packet> {
    let fin = |(channel, count)| {
        let mut bytes = Vec::new();
        Frame::Fin { channel, count }.put(&mut bytes);
        let sent = vec![SentFrame::Fin { channel }];
        Packet { bytes, sent }
    };
    std::iter::from_fn(|| outbox.poll_fin()).map(fin).collect()
}

fn finished(inbox: &mut Inbox) -> Vec<u32> {
    std::iter::from_fn(|| inbox.poll_finished())
        .map(|c| c.0)
        .collect()
}

/// One after the other is opened, used and finished. Only few are ever open.
#[test]
fn a_channel_that_ended_leaves_its_number_only() {
    let (mut outbox, mut inbox) = (outbox(), inbox());
    outbox.set_max_channels(inbox.channels_announced());
    for channel in 0..100_000 {
        push(&mut outbox, ChannelId(channel), 0..2, 10);
        assert!(outbox.finish(ChannelId(channel)).unwrap());
        assert!(!outbox.finish(ChannelId(channel)).unwrap(), "once");
        for packet in packets(&mut outbox, ROOM) {
            assert!(!outbox.has_fins(), "nothing was acknowledged");
            take(&mut inbox, &packet).unwrap();
            acked(&mut outbox, &packet);
        }
        for packet in fins(&mut outbox) {
            take(&mut inbox, &packet).unwrap();
            acked(&mut outbox, &packet);
        }
        assert_eq!(finished(&mut inbox), [], "messages wait");
        assert_eq!(pop_all(&mut inbox).len(), 2);
        assert_eq!(finished(&mut inbox), [channel]);
        answers(&mut inbox, &mut outbox);
        completions(&mut outbox);
    }
    assert_eq!((outbox.channels_held(), inbox.channels_held()), (0, 0));
    assert_eq!((outbox.finished_ranges(), inbox.finished_ranges()), (1, 1));
    assert!(outbox.footprint() + inbox.footprint() < 50_000);
}

#[test]
fn nothing_goes_on_a_finished_channel_and_no_number_is_used_again() {
    let (mut outbox, mut inbox) = (outbox(), inbox());
    push(&mut outbox, C0, 0..1, 10);
    let sent = packets(&mut outbox, ROOM);
    outbox.finish(C0).unwrap();
    let late = message(C0, Bytes::new());
    let refused = Err((NoRoom::Finished(C0), late.clone()));
    assert_eq!(outbox.push(late.clone()), refused, "before it is told");
    take(&mut inbox, &sent[0]).unwrap();
    acked(&mut outbox, &sent[0]);
    let told = fins(&mut outbox);
    take(&mut inbox, &told[0]).unwrap();
    lost(&mut outbox, &told[0]);
    let again = fins(&mut outbox);
    assert_eq!(again.len(), 1, "repeated when lost");
    take(&mut inbox, &again[0]).unwrap();
    acked(&mut outbox, &again[0]);
    acked(&mut outbox, &told[0]);
    assert_eq!(outbox.push(late.clone()), Err((NoRoom::Finished(C0), late)));
    pop_all(&mut inbox);
    // Copies that come late change nothing.
    take(&mut inbox, &sent[0]).unwrap();
    take(&mut inbox, &told[0]).unwrap();
    let large = Rts {
        message: 7,
        ..rts(7, 1_000)
    };
    inbox.on_rts(&large).unwrap();
    inbox.repeat_limit(C0);
    outbox.set_channel_limit(C0, 1 << 40);
    outbox.on_cts(C0, 0).unwrap();
    outbox.on_refused(C0, 0, 1).unwrap();
    assert_eq!(
        pop_all(&mut inbox).len() + inbox.channels_held() + outbox.channels_held(),
        0
    );
    assert_eq!(finished(&mut inbox), [0], "told once");
}

/// A direction that was never used may end as well.
#[test]
fn a_channel_without_messages_ends_at_once() {
    let (mut outbox, mut inbox) = (outbox(), inbox());
    assert!(outbox.finish(C1).unwrap());
    for packet in fins(&mut outbox) {
        take(&mut inbox, &packet).unwrap();
        acked(&mut outbox, &packet);
    }
    assert_eq!(finished(&mut inbox), [1]);
    assert_eq!(outbox.channels_held() + inbox.channels_held(), 0);
}

/// Replies are on a channel of their own, of which programs know nothing.
#[test]
fn the_replies_of_a_channel_end_with_it() {
    let (mut outbox, mut inbox) = (outbox(), inbox());
    let replies = C1.replies();
    outbox.set_priority(C1, Priority::new(6, 1).unwrap());
    push(&mut outbox, replies, 0..1, 10);
    let reply = packets(&mut outbox, ROOM);
    assert!(outbox.finish(C1).unwrap());
    let late = message(replies, Bytes::new());
    let refused = Err((NoRoom::Finished(C1), late.clone()));
    assert_eq!(outbox.push(late.clone()), refused);
    take(&mut inbox, &reply[0]).unwrap();
    acked(&mut outbox, &reply[0]);
    for packet in fins(&mut outbox) {
        take(&mut inbox, &packet).unwrap();
        acked(&mut outbox, &packet);
    }
    assert!(!outbox.has_priorities() && !outbox.is_outranked());
    assert_eq!(outbox.push(late.clone()), refused);
    assert_eq!(finished(&mut inbox), [1]);
    assert_eq!((outbox.channels_held(), inbox.channels_held()), (0, 1));
    assert!(inbox.pop_reply().is_some());
    assert_eq!(inbox.channels_held(), 0);
    assert_eq!(finished(&mut inbox), [], "the program never saw it");
    // None was ever sent.
    assert!(outbox.finish(C0).unwrap());
    let late = message(C0.replies(), Bytes::new());
    let refused = Err((NoRoom::Finished(C0), late.clone()));
    assert_eq!(outbox.push(late.clone()), refused, "before FIN is told");
    for packet in fins(&mut outbox) {
        acked(&mut outbox, &packet);
    }
    assert_eq!(outbox.push(late), refused);
}

#[test]
fn f04_an_end_that_contradicts_the_messages_is_refused() {
    let mut inbox = inbox();
    let fin = |inbox: &mut Inbox, count| inbox.on_fin(C0, count);
    inbox.on_frag(&frag(1, 1, 0, b"x")).unwrap();
    assert!(fin(&mut inbox, 2).is_err(), "the first is missing");
    inbox.on_frag(&frag(0, 400, 0, &[1; 200])).unwrap();
    assert!(fin(&mut inbox, 2).is_err(), "half of it is missing");
    inbox.on_frag(&frag(0, 400, 200, &[1; 200])).unwrap();
    assert!(fin(&mut inbox, 1).is_err() && fin(&mut inbox, 3).is_err());
    fin(&mut inbox, 2).unwrap();
    fin(&mut inbox, 2).unwrap();
    assert!(fin(&mut inbox, 3).is_err());
    let behind = ProtocolError::OutOfPlace("a message behind the end of its channel");
    assert_eq!(inbox.on_frag(&frag(2, 1, 0, b"x")), Err(behind));
    assert_eq!(inbox.on_rts(&rts(2, 1_000)), Err(behind));
    assert_eq!(pop_all(&mut inbox).len(), 2);
}

/// Channels are idle most of the time. They go on where they were.
#[test]
fn a_cold_channel_continues_where_it_was() {
    let (mut outbox, mut inbox) = (outbox(), inbox());
    for round in 0..4 {
        for channel in (0..500).map(ChannelId) {
            push(&mut outbox, channel, round..round + 1, 20);
        }
        for packet in packets(&mut outbox, ROOM) {
            take(&mut inbox, &packet).unwrap();
            acked(&mut outbox, &packet);
            // A copy that comes late warms nothing for long.
            take(&mut inbox, &packet).unwrap();
        }
        let got = pop_all(&mut inbox);
        assert_eq!(got.len(), 500);
        assert!(
            got.iter()
                .all(|m| m.number == round && m.payload == content(round, 20))
        );
        answers(&mut inbox, &mut outbox);
        completions(&mut outbox);
        assert!(!outbox.has_sendable());
        assert!(outbox.warm() <= WARM && inbox.warm() <= WARM);
        assert_eq!(outbox.delivered(ChannelId(499)), round + 1);
    }
    assert_eq!((outbox.channels_held(), inbox.channels_held()), (500, 500));
}

/// The peer's memory allows some; gaps between finished numbers count as channels do.
#[test]
fn f04_channels_and_gaps_between_finished_ones_are_bounded() {
    let open = |outbox: &mut Outbox, channel| {
        let pushed = outbox.push(message(ChannelId(channel), Bytes::new()));
        pushed.map_err(|(no, _)| no)
    };
    let run = |outbox: &mut Outbox, inbox: &mut Inbox| {
        for packet in packets(outbox, ROOM).into_iter().chain(fins(outbox)) {
            take(inbox, &packet).unwrap();
            acked(outbox, &packet);
        }
        for packet in fins(outbox) {
            take(inbox, &packet).unwrap();
            acked(outbox, &packet);
        }
        pop_all(inbox);
        answers(inbox, outbox);
        completions(outbox);
    };
    let most = u32::try_from(MIN_CHANNELS).unwrap();
    let least = InboxLimits {
        max_channels: MIN_CHANNELS,
        session_window: 1 << 24,
        ..inbox_limits()
    };
    let (mut outbox, mut inbox) = (outbox(), Inbox::new(least, Pool::new(1 << 20)));
    // Every other number.
    for n in 0..most {
        open(&mut outbox, 2 * n).unwrap();
    }
    let full = NoRoom::Channels(MIN_CHANNELS);
    assert_eq!(open(&mut outbox, 1), Err(full));
    run(&mut outbox, &mut inbox);
    for n in 0..most {
        outbox.finish(ChannelId(2 * n)).unwrap();
    }
    run(&mut outbox, &mut inbox);
    assert_eq!(outbox.finished_ranges(), most as usize);
    assert_eq!(open(&mut outbox, 1), Err(NoRoom::Channels(0)), "all gaps");
    let (other, too_many) = (ChannelId(1), Err(ProtocolError::Limit("channels")));
    assert_eq!(inbox.on_fin(other, 0), too_many);
    // Channels finished in the order of their numbers leave no gaps.
    let (mut outbox, mut inbox) = (super::outbox(), Inbox::new(least, Pool::new(1 << 20)));
    for n in 0..4 * most {
        open(&mut outbox, n).unwrap();
        outbox.finish(ChannelId(n)).unwrap();
        run(&mut outbox, &mut inbox);
    }
}

/// A program that takes no events holds nothing up, and costs little.
#[test]
fn f04_untaken_channel_ends_are_few_ranges() {
    let mut inbox = inbox();
    for channel in 0..200_000 {
        inbox.on_fin(ChannelId(channel), 0).unwrap();
        while inbox.poll_answer().is_some() {}
    }
    assert_eq!((inbox.channels_held(), inbox.finished_ranges()), (0, 1));
    assert_eq!(finished(&mut inbox).len(), 200_000);
}

#[derive(Clone, Debug)]
enum Step {
    Push {
        channel: u32,
        len: usize,
    },
    Finish {
        channel: u32,
    },
    Build {
        count: usize,
        size: usize,
    },
    /// A packet arrives, and its sender hears of it, or not...
    Arrive {
        at: usize,
        heard: bool,
    },
    /// ... or it is lost.
    Lose {
        at: usize,
    },
    /// A copy of an earlier one arrives: of any that was ever built.
    Copy {
        at: usize,
    },
    Read {
        count: usize,
    },
    Answer {
        copy: usize,
        lost: bool,
    },
    /// Both sides give memory back.
    Shrink,
}

fn step() -> impl Strategy<Value = Step> {
    let channel = 0..12_u32;
    let len = prop_oneof![3 => 0..100_usize, 1 => 100..5_000_usize];
    prop_oneof![
        8 => (channel.clone(), len).prop_map(|(channel, len)| Step::Push { channel, len }),
        2 => channel.prop_map(|channel| Step::Finish { channel }),
        6 => (1..6_usize, 1_172..2_000_usize).prop_map(|(count, size)| Step::Build { count, size }),
        8 => (0..6_usize, any::<bool>()).prop_map(|(at, heard)| Step::Arrive { at, heard }),
        2 => (0..6_usize).prop_map(|at| Step::Lose { at }),
        3 => any::<usize>().prop_map(|at| Step::Copy { at }),
        3 => (1..10_usize).prop_map(|count| Step::Read { count }),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(copy, lost)| Step::Answer { copy, lost }),
        1 => Just(Step::Shrink),
    ]
}

/// How many channels may be open, and gaps: some of the twelve find no room.
const PLACES: u64 = 8;

struct Pair {
    outbox: Outbox,
    inbox: Inbox,
    way: VecDeque<Packet>,
    past: Vec<Packet>,
    said: Vec<Answer>,
    sent: BTreeMap<u32, u64>,
    lens: BTreeMap<(u32, u64), usize>,
    received: BTreeMap<u32, u64>,
    ended: BTreeSet<u32>,
    told: BTreeSet<u32>,
}

impl Pair {
    fn new() -> Self {
        let limits = InboxLimits {
            channel_window: 20_000,
            session_window: 60_000,
            max_channels: PLACES,
            ..inbox_limits()
        };
        let mut outbox = Outbox::new(OutboxLimits {
            rts_threshold: 3_000,
            ..super::limits()
        });
        outbox.limit_channels(PLACES);
        outbox.set_initial_channel_limit(20_000);
        outbox.set_session_limit(60_000);
        Self {
            outbox,
            inbox: Inbox::new(limits, Pool::new(100_000)),
            way: VecDeque::new(),
            past: Vec::new(),
            said: Vec::new(),
            sent: BTreeMap::new(),
            lens: BTreeMap::new(),
            received: BTreeMap::new(),
            ended: BTreeSet::new(),
            told: BTreeSet::new(),
        }
    }

    fn payload(channel: u32, number: u64, len: usize) -> Bytes {
        content(u64::from(channel) << 16 | number, len)
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Push { channel, len } => self.push(channel, len),
            Step::Finish { channel } => {
                if self.outbox.finish(ChannelId(channel)).is_ok() {
                    self.ended.insert(channel);
                }
            }
            Step::Build { count, size } => {
                let some = (0..count).filter_map(|_| packet(&mut self.outbox, size));
                self.way.extend(some.collect::<Vec<_>>());
                self.way.extend(fins(&mut self.outbox));
            }
            Step::Arrive { at, heard } => {
                if let Some(packet) = self.way.remove(at) {
                    self.arrive(packet, heard);
                }
            }
            Step::Lose { at } => {
                if let Some(packet) = self.way.remove(at) {
                    lost(&mut self.outbox, &packet);
                    self.past.push(packet);
                }
            }
            Step::Copy { at } => {
                if let Some(packet) = self.past.get(at % self.past.len().max(1)) {
                    take(&mut self.inbox, packet).unwrap();
                }
            }
            Step::Read { count } => (0..count).for_each(|_| self.read()),
            Step::Answer { copy, lost } => self.answer(copy, lost),
            Step::Shrink => self.shrink(),
        }
    }

    fn push(&mut self, channel: u32, len: usize) {
        let number = self.sent.get(&channel).copied().unwrap_or_default();
        let payload = Self::payload(channel, number, len);
        match self.outbox.push(message(ChannelId(channel), payload)) {
            Ok(got) => {
                assert_eq!(got, number);
                assert!(!self.ended.contains(&channel));
                self.sent.insert(channel, number + 1);
                self.lens.insert((channel, number), len);
            }
            Err((NoRoom::Finished(_), _)) => assert!(self.ended.contains(&channel)),
            Err((NoRoom::Channels(_), _)) => assert_eq!(number, 0),
            Err((NoRoom::Full, _)) => panic!("there is room"),
            Err((NoRoom::NotPermitted(layer), _)) => panic!("{layer} is permitted"),
        }
    }

    fn arrive(&mut self, packet: Packet, heard: bool) {
        take(&mut self.inbox, &packet).unwrap();
        match heard {
            true => acked(&mut self.outbox, &packet),
            false => lost(&mut self.outbox, &packet),
        }
        self.past.push(packet);
    }

    fn read(&mut self) {
        if let Some(message) = self.inbox.pop() {
            let channel = message.channel.0;
            let expected = self.received.entry(channel).or_default();
            assert_eq!(message.number, *expected, "in order, once");
            let len = self.lens[&(channel, message.number)];
            assert_eq!(message.payload, Self::payload(channel, message.number, len));
            *expected += 1;
        }
        while let Some(ChannelId(channel)) = self.inbox.poll_finished() {
            assert!(self.ended.contains(&channel) && self.told.insert(channel));
            let received = self.received.get(&channel).copied();
            assert_eq!(
                received,
                self.sent.get(&channel).copied(),
                "after the last message"
            );
        }
    }

    fn answer(&mut self, copy: usize, lost: bool) {
        self.outbox.set_session_limit(self.inbox.session_limit());
        if let Some(answer) = self.inbox.poll_answer() {
            self.said.push(answer);
            if lost {
                self.inbox.on_lost(&answer.frame().1);
            } else {
                answer_one(answer, &mut self.outbox);
            }
        }
        if let Some(old) = self.said.get(copy % self.said.len().max(1)) {
            answer_one(*old, &mut self.outbox);
        }
    }

    fn shrink(&mut self) {
        while self.outbox.poll_completion().is_some() {}
        if !self.way.is_empty() {
            return;
        }
        let _ = (self.outbox.shrink(), self.inbox.shrink());
    }

    /// Delivers everything.
    fn settle(&mut self) {
        for _ in 0..1_000 {
            self.step(&Step::Build {
                count: 100,
                size: ROOM,
            });
            while let Some(packet) = self.way.pop_front() {
                self.arrive(packet, true);
            }
            (0..100).for_each(|_| self.read());
            (0..100).for_each(|_| self.answer(0, false));
            while self.outbox.poll_completion().is_some() {}
        }
        assert_eq!(self.received, self.sent);
        assert_eq!(self.told, self.ended);
        let open = self
            .sent
            .keys()
            .filter(|c| !self.ended.contains(*c))
            .count();
        assert_eq!(
            (self.outbox.channels_held(), self.inbox.channels_held()),
            (open, open)
        );
        assert_eq!(self.outbox.finished_ranges(), self.inbox.finished_ranges());
        for copy in 0..self.past.len() {
            self.step(&Step::Copy { at: copy });
        }
        assert!(self.inbox.pop().is_none() && self.inbox.poll_finished().is_none());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]
    #[test]
    fn channels_end_whatever_is_lost_repeated_or_late(
        steps in prop::collection::vec(step(), 0..300),
    ) {
        let mut pair = Pair::new();
        steps.iter().for_each(|step| pair.step(step));
        pair.settle();
    }
}
