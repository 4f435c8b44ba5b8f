//! Small messages that are alike and side by side, which are one segment of the queue: all that
//! others see of them is what they would be one by one.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    Push {
        channel: u32,
        len: usize,
        count: u64,
        header: bool,
        notify: bool,
        /// The sender uses leases, which accept messages themselves.
        lent: bool,
    },
    /// A packet with so much room.
    Packet(usize),
    Acked(usize),
    Lost(usize),
    AllLost,
    /// More memory credit for a channel or for all.
    Credit(Option<u32>, u64),
    /// The answer to a request that was sent.
    Answer(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let lens = prop_oneof![Just(32_usize), 0..40_usize, Just(200), Just(256), Just(700)];
    let push = (0..2_u32, lens, 1..60_u64, 0..8_u8, 0..8_u8, any::<bool>()).prop_map(
        |(channel, len, count, header, notify, lent)| Step::Push {
            channel,
            len,
            count,
            header: header == 0,
            notify: notify == 0,
            lent,
        },
    );
    prop_oneof![
        4 => push,
        8 => prop_oneof![Just(ROOM), 300..ROOM, Just(128)].prop_map(Step::Packet),
        4 => (0..6_usize).prop_map(Step::Acked),
        4 => (0..6_usize).prop_map(Step::Lost),
        1 => Just(Step::AllLost),
        4 => (prop::option::of(0..2_u32), 100..20_000_u64).prop_map(|(c, by)| Step::Credit(c, by)),
        2 => any::<bool>().prop_map(Step::Answer),
    ]
}

/// Two outboxes that send the same messages: in one of them as batches, in the other one by one,
/// since no two messages have the same token.
struct Both {
    outboxes: [Outbox; 2],
    limits: [u64; 3],
    /// Packets that were sent and neither acknowledged nor lost.
    flying: Vec<Packet>,
    /// Packets that were lost; their acknowledgement may arrive late.
    late: Vec<Packet>,
    asked: Vec<(ChannelId, MessageNumber)>,
    token: u64,
    /// Pieces of packets that were several messages.
    shared: usize,
    /// Messages that a lease accepted.
    leased: u64,
}

impl Both {
    fn new() -> Self {
        let outbox = || {
            let mut outbox = Outbox::new(OutboxLimits {
                rts_threshold: 220,
                max_queued_bytes: 20_000,
                max_queued_messages: 300,
                ride: 2_000,
                reply_reserve: 0,
                group_reserve: 0,
            });
            outbox.set_initial_channel_limit(4_000);
            outbox
        };
        Self {
            outboxes: [outbox(), outbox()],
            limits: [4_000, 4_000, 2_000],
            flying: Vec::new(),
            late: Vec::new(),
            asked: Vec::new(),
            token: 0,
            shared: 0,
            leased: 0,
        }
    }

    fn push(&mut self, draft: &Outgoing, lease: &mut Option<ChannelLease>, lent: bool) {
        self.token += 1;
        let token = self.token;
        let [batched, singles] = &mut self.outboxes;
        let single = Outgoing {
            token,
            ..draft.clone()
        };
        let small = draft.as_small();
        let leased = lease.as_mut().zip(small).and_then(|(l, s)| l.push(&s));
        let a = leased.map_or_else(
            || {
                lease.take().into_iter().for_each(|l| batched.give_back(l));
                let pushed = batched.push(draft.clone());
                *lease = lent.then(|| batched.lend(draft.channel)).flatten();
                pushed
            },
            Ok,
        );
        self.leased += u64::from(leased.is_some());
        let b = singles.push(single);
        assert_eq!(a.map_err(|(no, _)| no), b.map_err(|(no, _)| no));
    }

    fn packet(&mut self, room: usize) {
        let [a, b] = self.outboxes.each_mut().map(|outbox| packet(outbox, room));
        let (Some(a), Some(b)) = (&a, &b) else {
            assert_eq!(a.is_some(), b.is_some());
            return;
        };
        assert_eq!((&a.bytes, &a.sent), (&b.bytes, &b.sent));
        for frame in &a.sent {
            match *frame {
                SentFrame::Rts { channel, message } => self.asked.push((channel, message)),
                SentFrame::Data { .. } if names(a).len() > a.sent.len() => self.shared += 1,
                _ => {}
            }
        }
        self.flying.push(a.clone());
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Push {
                channel,
                len,
                count,
                header,
                notify,
                lent,
            } => {
                let mut lease = None;
                for _ in 0..count {
                    let draft = Outgoing {
                        notify,
                        user_header: Bytes::from_static(if header { b"head" } else { b"" }),
                        ..message(ChannelId(channel), content(self.token, len))
                    };
                    self.push(&draft, &mut lease, lent);
                }
                let lease = lease.into_iter();
                lease.for_each(|lease| self.outboxes[0].give_back(lease));
            }
            Step::Packet(room) => self.packet(room),
            Step::Acked(at) => {
                let packet = match at.checked_sub(self.flying.len()) {
                    None => self.flying.remove(at),
                    Some(late) if late < self.late.len() => self.late.remove(late),
                    Some(_) => return,
                };
                self.outboxes.iter_mut().for_each(|o| acked(o, &packet));
            }
            Step::Lost(at) if at < self.flying.len() => {
                let packet = self.flying.remove(at);
                self.outboxes.iter_mut().for_each(|o| lost(o, &packet));
                self.late.push(packet);
            }
            Step::Lost(_) => {}
            Step::AllLost => {
                self.outboxes.iter_mut().for_each(Outbox::on_all_lost);
                self.late.append(&mut self.flying);
            }
            Step::Credit(channel, by) => {
                let index = channel.map_or(2, |channel| channel as usize);
                self.limits[index] += by;
                let limit = self.limits[index];
                for outbox in &mut self.outboxes {
                    match channel {
                        Some(channel) => outbox.set_channel_limit(ChannelId(channel), limit),
                        None => outbox.set_session_limit(limit),
                    }
                }
            }
            Step::Answer(yes) => {
                for (channel, number) in core::mem::take(&mut self.asked) {
                    for outbox in &mut self.outboxes {
                        match yes {
                            true => outbox.on_cts(channel, number).unwrap(),
                            false => outbox.on_refused(channel, number, 7).unwrap(),
                        }
                    }
                }
            }
        }
        self.compare();
    }

    /// Compares all that callers can see of the two.
    fn compare(&mut self) {
        let [a, b] = self.outboxes.each_mut().map(|outbox| {
            let flags = (outbox.has_sendable(), outbox.is_empty());
            let done: Vec<_> = std::iter::from_fn(|| outbox.poll_completion()).collect();
            let channels = [C0, C1].map(|channel| {
                let len = (outbox.queue_len(channel), outbox.delivered(channel));
                (len, outbox.room(channel))
            });
            (
                flags,
                done.into_iter().map(unnamed).collect::<Vec<_>>(),
                channels,
                outbox.session_credit(),
                (
                    outbox.queued().open().bytes,
                    outbox.queued().open().messages,
                ),
                (outbox.wait_reason(), outbox.poll_channel_blocked()),
            )
        });
        assert_eq!(a, b);
        self.outboxes.iter().for_each(Outbox::audit_queued);
    }

    fn end(&mut self) {
        let [a, b] = self.outboxes.each_mut().map(|outbox| {
            let ends = outbox.end().into_iter().map(unnamed);
            ends.collect::<Vec<_>>()
        });
        assert_eq!(a, b);
    }
}

/// Returns the completion without its token, which keeps messages from being joined here.
fn unnamed(completion: Completion) -> Completion {
    Completion {
        token: 0,
        ..completion
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn alike_frames_equal_frames_written_one_by_one(
        steps in prop::collection::vec(step(), 1..80)
    ) {
        let mut both = Both::new();
        for step in steps {
            both.step(step);
        }
        both.end();
    }
}

#[test]
fn alike_adjacent_messages_are_one_segment_however_they_are_sent() {
    let mut both = Both::new();
    for step in [
        Step::Push {
            channel: 0,
            len: 32,
            count: 60,
            header: false,
            notify: true,
            lent: true,
        },
        Step::Credit(None, 20_000),
        Step::Credit(Some(0), 20_000),
        Step::Packet(ROOM),
        Step::Lost(0),
        Step::Packet(300),
        Step::Packet(700),
        Step::Acked(1),
        Step::Lost(0),
        Step::Packet(ROOM),
    ] {
        both.step(step);
    }
    // The last packet repeats two ranges, the second of which continues with unsent bytes.
    assert_eq!(both.shared, 5);
    // Two show that they are alike, and for three their memory grows.
    assert_eq!(both.leased, 55);
    // The lost packets arrive after all, then everything else.
    while !both.flying.is_empty() {
        both.step(Step::Acked(0));
    }
    both.step(Step::Acked(0));
    both.step(Step::Packet(ROOM));
    both.step(Step::Acked(0));
    assert!(both.outboxes.iter().all(Outbox::is_empty));
}
