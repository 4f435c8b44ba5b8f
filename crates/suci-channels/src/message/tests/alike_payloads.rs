//! Messages of middle length that are alike and wait together, which are one segment of the queue:
//! what stands in packets is what would stand there of each alone, and what is said of them is what
//! the packets tell.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use suci_link::ranges::RangeSet;

#[derive(Clone, Copy, Debug)]
enum Step {
    Push {
        channel: u32,
        len: usize,
        count: u64,
        header: bool,
        notify: bool,
    },
    /// A packet with so much room.
    Packet(usize),
    Acked(usize),
    Lost(usize),
    AllLost,
    Credit(Option<u32>, u64),
    Answer(bool),
    /// The peer's program is asked about longer ones from now on.
    Ask(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let lens = prop_oneof![
        4 => Just(700_usize),
        4 => Just(1_472),
        2 => 257..2_049_usize,
        1 => Just(32),
        1 => Just(3_000)
    ];
    let push = (0..2_u32, lens, 1..20_u64, 0..16_u8, 0..4_u8).prop_map(
        |(channel, len, count, header, notify)| Step::Push {
            channel,
            len,
            count,
            header: header == 0,
            notify: notify > 0,
        },
    );
    prop_oneof![
        4 => push,
        16 => prop_oneof![4 => Just(ROOM), 1 => 300..ROOM, 1 => Just(150)].prop_map(Step::Packet),
        6 => (0..12_usize).prop_map(Step::Acked),
        4 => (0..12_usize).prop_map(Step::Lost),
        1 => Just(Step::AllLost),
        4 => (prop::option::of(0..2_u32), 100..40_000_u64).prop_map(|(c, by)| Step::Credit(c, by)),
        2 => prop::bool::weighted(0.8).prop_map(Step::Answer),
        1 => prop_oneof![Just(500_u64), Just(1_000), Just(100_000)].prop_map(Step::Ask),
    ]
}

/// Which bytes of which message.
type Bytewise = BTreeMap<(ChannelId, MessageNumber), RangeSet>;

/// An outbox, and what its packets say of it.
struct Side {
    outbox: Outbox,
    /// Packets that were sent and neither acknowledged nor lost.
    flying: Vec<Packet>,
    /// Packets that were lost; their acknowledgement may arrive late.
    late: Vec<Packet>,
    messages: BTreeMap<(ChannelId, MessageNumber), Outgoing>,
    sent: Bytewise,
    arrived: Bytewise,
    refused: BTreeSet<(ChannelId, MessageNumber)>,
    told: Vec<Completion>,
}

impl Side {
    fn new() -> Self {
        let mut outbox = Outbox::new(OutboxLimits {
            ride: 4_000,
            ..limits()
        });
        outbox.set_initial_channel_limit(9_000);
        Self {
            outbox,
            flying: Vec::new(),
            late: Vec::new(),
            messages: BTreeMap::new(),
            sent: BTreeMap::new(),
            arrived: BTreeMap::new(),
            refused: BTreeSet::new(),
            told: Vec::new(),
        }
    }

    fn push(&mut self, draft: Outgoing) {
        let number = self.outbox.push(draft.clone()).unwrap();
        self.messages.insert((draft.channel, number), draft);
    }

    /// Notes the bytes of messages that stand in a packet, after checking that they are those
    /// messages'.
    fn note(
        messages: &BTreeMap<(ChannelId, MessageNumber), Outgoing>,
        to: &mut Bytewise,
        bytes: &[u8],
    ) {
        for frame in wire::frames(bytes) {
            if let Frame::Frag(frag) = frame.unwrap() {
                let name = (frag.channel, frag.message);
                let (start, end) = (frag.offset, frag.offset + frag.data.len() as u64);
                let (payload, len) = (
                    &messages[&name].payload,
                    messages[&name].payload.len() as u64,
                );
                assert_eq!(
                    frag.data,
                    &payload[start as usize..end as usize],
                    "{name:?}"
                );
                assert_eq!((frag.end, frag.start.is_some()), (end == len, start == 0));
                // An empty one has no byte.
                to.entry(name)
                    .or_default()
                    .insert(start..end.max(start + u64::from(len == 0)));
            }
        }
    }

    fn packet(&mut self, room: usize) -> Option<Packet> {
        let packet = packet(&mut self.outbox, room)?;
        Self::note(&self.messages, &mut self.sent, &packet.bytes);
        self.flying.push(packet.clone());
        Some(packet)
    }

    fn acked(&mut self, at: usize) {
        let packet = match at.checked_sub(self.flying.len()) {
            None => self.flying.remove(at),
            Some(late) if late < self.late.len() => self.late.remove(late),
            Some(_) => return,
        };
        Self::note(&self.messages, &mut self.arrived, &packet.bytes);
        acked(&mut self.outbox, &packet);
    }

    fn lost(&mut self, at: usize) {
        if at < self.flying.len() {
            let packet = self.flying.remove(at);
            lost(&mut self.outbox, &packet);
            self.late.push(packet);
        }
    }

    fn has_all(&self, of: &Bytewise, name: (ChannelId, MessageNumber)) -> bool {
        let len = self.messages[&name].payload.len().max(1) as u64;
        of.get(&name).is_some_and(|bytes| bytes.covers(0..len))
    }

    fn outcome(&self, name: (ChannelId, MessageNumber)) -> Outcome {
        if self.has_all(&self.arrived, name) {
            Outcome::Delivered
        } else if !self.refused.contains(&name) && self.has_all(&self.sent, name) {
            Outcome::Unknown
        } else {
            Outcome::NotDelivered
        }
    }

    /// Checks the outbox's answers against its packets.
    fn check(&mut self) {
        self.told
            .extend(std::iter::from_fn(|| self.outbox.poll_completion()));
        for completion in &self.told {
            let name = (completion.channel, completion.number);
            assert_eq!(completion.outcome, self.outcome(name), "{completion:?}");
        }
        for channel in [C0, C1] {
            let over = |number: &u64| {
                let name = (channel, *number);
                self.refused.contains(&name)
                    || (self.messages.contains_key(&name) && self.has_all(&self.arrived, name))
            };
            let over = (0..).take_while(over).count() as u64;
            assert_eq!(self.outbox.delivered(channel), over);
            let told = self.told.iter().filter(|told| told.channel == channel);
            let wants = |number: &u64| {
                let name = (channel, *number);
                self.messages[&name].notify || self.refused.contains(&name)
            };
            let numbers: Vec<_> = told.map(|told| told.number).collect();
            assert_eq!(numbers, (0..over).filter(wants).collect::<Vec<_>>());
        }
    }

    /// Ends the session: each message without an outcome gets one.
    fn end(&mut self) {
        let over = [C0, C1].map(|channel| self.outbox.delivered(channel));
        let ends = self.outbox.end();
        for end in &ends {
            let name = (end.channel, end.number);
            assert!(end.number >= over[end.channel.0 as usize]);
            assert_eq!(end.outcome, self.outcome(name), "{end:?}");
        }
        let left = self.messages.len() as u64 - over[0] - over[1];
        assert_eq!(ends.len() as u64, left);
    }
}

/// Two outboxes to which the same happens: one with them in one segment, one without, since no two
/// messages have the same token.
struct Both {
    sides: [Side; 2],
    limits: [u64; 3],
    asked: [Vec<(ChannelId, MessageNumber)>; 2],
    token: u64,
    /// Packets of which one record was several messages.
    shared: usize,
}

impl Both {
    fn new() -> Self {
        Self {
            sides: [Side::new(), Side::new()],
            limits: [9_000, 9_000, 4_000],
            asked: Default::default(),
            token: 0,
            shared: 0,
        }
    }

    fn packet(&mut self, room: usize) {
        let packets = self.sides.each_mut().map(|side| side.packet(room));
        for (packet, asked) in packets.iter().zip(&mut self.asked) {
            for frame in packet.iter().flat_map(|packet| &packet.sent) {
                if let SentFrame::Rts { channel, message } = *frame {
                    asked.push((channel, message));
                }
            }
        }
        let [a, b] = packets;
        let shared = |packet: &Packet| packet.sent.len() < names(packet).len();
        self.shared += usize::from(a.as_ref().is_some_and(shared));
        let [sent, other] = [&a, &b].map(|packet| packet.as_ref().map(|packet| &packet.sent));
        let bytes = [&a, &b].map(|packet| packet.as_ref().map(|packet| &packet.bytes));
        assert!(bytes[0] == bytes[1], "{sent:?} for {other:?}");
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Push {
                channel,
                len,
                count,
                header,
                notify,
            } => {
                for _ in 0..count {
                    self.token += 1;
                    let draft = Outgoing {
                        notify,
                        user_header: Bytes::from_static(if header { b"head" } else { b"" }),
                        ..message(ChannelId(channel), content(self.token, len))
                    };
                    let single = Outgoing {
                        token: self.token,
                        ..draft.clone()
                    };
                    let [alike, singles] = &mut self.sides;
                    alike.push(draft);
                    singles.push(single);
                }
            }
            Step::Packet(room) => self.packet(room),
            Step::Acked(at) => self.sides.iter_mut().for_each(|side| side.acked(at)),
            Step::Lost(at) => {
                self.sides.iter_mut().for_each(|side| side.lost(at));
            }
            Step::AllLost => {
                for side in &mut self.sides {
                    side.outbox.on_all_lost();
                    side.late.append(&mut side.flying);
                }
            }
            Step::Credit(channel, by) => {
                let index = channel.map_or(2, |channel| channel as usize);
                self.limits[index] += by;
                let limit = self.limits[index];
                for side in &mut self.sides {
                    match channel {
                        Some(channel) => side.outbox.set_channel_limit(ChannelId(channel), limit),
                        None => side.outbox.set_session_limit(limit),
                    }
                }
            }
            Step::Answer(yes) => {
                for (side, asked) in self.sides.iter_mut().zip(&mut self.asked) {
                    for (channel, number) in core::mem::take(asked) {
                        if yes {
                            side.outbox.on_cts(channel, number).unwrap();
                        } else if side.outbox.on_refused(channel, number, 7).is_ok()
                            && !side.sent.contains_key(&(channel, number))
                        {
                            side.refused.insert((channel, number));
                        }
                    }
                }
            }
            Step::Ask(beyond) => {
                for side in &mut self.sides {
                    side.outbox.set_peer_max_message(beyond);
                }
            }
        }
        self.sides.iter_mut().for_each(Side::check);
        self.sides
            .iter()
            .for_each(|side| side.outbox.audit_queued());
    }

    /// Sends and acknowledges everything.
    fn finish(&mut self) {
        for index in 0..3 {
            let channel = (index < 2).then_some(index);
            self.step(Step::Credit(channel, 1 << 30));
        }
        while !self.sides.iter().all(|side| side.outbox.is_empty()) {
            self.step(Step::Packet(ROOM));
            self.step(Step::Answer(true));
            self.step(Step::Acked(0));
        }
        for side in &self.sides {
            assert_eq!(side.outbox.queued().all, Held::default());
        }
    }

    fn end(&mut self) {
        self.sides.iter_mut().for_each(Side::end);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn alike_payloads_equal_payloads_queued_one_by_one(
        steps in prop::collection::vec(step(), 1..120),
        arrives in any::<bool>(),
    ) {
        let mut both = Both::new();
        for step in steps {
            both.step(step);
        }
        if arrives {
            both.finish();
        }
        both.end();
    }
}

#[test]
fn messages_queued_together_are_one_segment_however_they_are_sent() {
    let mut both = Both::new();
    both.step(Step::Push {
        channel: 0,
        len: 1_472,
        count: 100,
        header: false,
        notify: true,
    });
    both.step(Step::Credit(None, 1 << 20));
    both.step(Step::Credit(Some(0), 1 << 20));
    for _ in 0..50 {
        both.step(Step::Packet(ROOM));
    }
    assert!(both.shared > 45, "{}", both.shared);
    // Every third is lost, and arrives late; the others come in between.
    for at in (0..48).rev().step_by(3) {
        both.step(Step::Lost(at));
    }
    for _ in 0..20 {
        both.step(Step::Packet(900));
        both.step(Step::Acked(0));
    }
    both.step(Step::Acked(both.sides[0].flying.len() + 3));
    both.finish();
    both.end();
}
