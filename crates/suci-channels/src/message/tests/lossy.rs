//! Everything together: any messages, over a network that loses, repeats and reorders, with packets
//! of changing size and a program that reads when it likes.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

/// The action of one step, drawn by proptest.
#[derive(Clone, Debug)]
enum Step {
    /// The program sends a message of this length.
    Push {
        channel: u32,
        len: usize,
        header: usize,
    },
    /// Up to so many packets of this size are built.
    Build { count: usize, size: usize },
    /// The packet at this position on the way arrives and is acknowledged...
    Arrive { at: usize },
    /// ...or arrives and is not, so that the sender believes it lost...
    ArriveUnheard { at: usize },
    /// ...or is lost.
    Lose { at: usize },
    /// Up to so many messages are read.
    Read { count: usize },
    /// The answers of the inbox arrive.
    Answer,
    /// An answer is lost.
    LoseAnswer,
    /// The connection is replaced.
    Replace,
    /// The session's window changes.
    Window { bytes: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![
        4 => 0..200_usize,
        2 => 200..3_000_usize,
        1 => 3_000..40_000_usize,
    ];
    prop_oneof![
        4 => (0..3_u32, len, prop_oneof![3 => Just(0), 1 => 0..256_usize])
            .prop_map(|(channel, len, header)| Step::Push { channel, len, header }),
        6 => (1..6_usize, 1_172..3_000_usize)
            .prop_map(|(count, size)| Step::Build { count, size }),
        8 => (0..8_usize).prop_map(|at| Step::Arrive { at }),
        1 => (0..8_usize).prop_map(|at| Step::ArriveUnheard { at }),
        2 => (0..8_usize).prop_map(|at| Step::Lose { at }),
        3 => (1..10_usize).prop_map(|count| Step::Read { count }),
        3 => Just(Step::Answer),
        1 => Just(Step::LoseAnswer),
        1 => Just(Step::Replace),
        1 => (MIN_WINDOW..100_000).prop_map(|bytes| Step::Window { bytes }),
    ]
}

/// Messages longer than this are refused by the receiving program.
const WANTED: usize = 30_000;

/// Longest message accepted without asking the program.
const UNASKED: usize = 20_000;

const LARGE: u64 = 40_000;

struct Pair {
    outbox: Outbox,
    inbox: Inbox,
    way: VecDeque<Packet>,
    /// Per channel: what was sent, what arrived, what was reported.
    sent: [Vec<Outgoing>; 3],
    received: [u64; 3],
    reported: [u64; 3],
    next_token: u64,
    window: u64,
}

impl Pair {
    fn new() -> Self {
        let window = 60_000;
        let limits = InboxLimits {
            channel_window: 30_000,
            session_window: window,
            max_message: UNASKED as u64,
            max_channels: 3,
            max_large: LARGE,
        };
        let mut outbox = Outbox::new(OutboxLimits {
            rts_threshold: 10_000,
            ..super::limits()
        });
        outbox.set_initial_channel_limit(30_000);
        outbox.set_session_limit(window);
        Self {
            outbox,
            inbox: Inbox::new(limits, Pool::new(100_000)),
            way: VecDeque::new(),
            sent: Default::default(),
            received: [0; 3],
            reported: [0; 3],
            next_token: 0,
            window,
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Push {
                channel,
                len,
                header,
            } => self.push(channel, len, header),
            Step::Build { count, size } => {
                for _ in 0..count {
                    self.way.extend(packet(&mut self.outbox, size));
                }
            }
            Step::Arrive { at } => {
                if let Some(packet) = self.way.remove(at) {
                    take(&mut self.inbox, &packet).unwrap();
                    acked(&mut self.outbox, &packet);
                }
            }
            Step::ArriveUnheard { at } => {
                if let Some(packet) = self.way.remove(at) {
                    take(&mut self.inbox, &packet).unwrap();
                    lost(&mut self.outbox, &packet);
                }
            }
            Step::Lose { at } => {
                if let Some(packet) = self.way.remove(at) {
                    lost(&mut self.outbox, &packet);
                }
            }
            Step::Read { count } => {
                for _ in 0..count {
                    if !self.read() {
                        break;
                    }
                }
            }
            Step::Answer => answers(&mut self.inbox, &mut self.outbox),
            Step::LoseAnswer => {
                if let Some(answer) = self.inbox.poll_answer() {
                    self.inbox.on_lost(&answer.frame().1);
                }
            }
            Step::Replace => {
                self.way
                    .iter()
                    .for_each(|packet| lost(&mut self.outbox, packet));
                self.way.clear();
            }
            Step::Window { bytes } => {
                self.window = self.window.max(bytes);
                self.inbox.set_windows(bytes / 2, bytes);
            }
        }
        self.check();
    }

    fn push(&mut self, channel: u32, len: usize, header: usize) {
        self.next_token += 1;
        let message = Outgoing {
            channel: ChannelId(channel),
            tag: self.next_token * 3,
            kind: Kind(128 + (len % 128) as u8),
            user_header: content(self.next_token + 1_000_000, header),
            payload: content(self.next_token, len),
            notify: true,
            token: self.next_token,
            deadline: None,
        };
        let sent = &mut self.sent[channel as usize];
        assert_eq!(
            self.outbox.push(message.clone()).unwrap(),
            sent.len() as u64
        );
        sent.push(message);
    }

    /// Takes the next message; false if there is none.
    fn read(&mut self) -> bool {
        let Some(got) = self.inbox.pop() else {
            return false;
        };
        let channel = got.channel.0 as usize;
        let next = &mut self.received[channel];
        while self.sent[channel][*next as usize].payload.len() > WANTED {
            *next += 1;
        }
        assert_eq!(got.number, *next, "in order, without gaps");
        let sent = &self.sent[channel][*next as usize];
        assert_eq!((got.tag, got.kind), (sent.tag, sent.kind));
        assert_eq!(got.user_header, sent.user_header);
        assert!(
            got.payload == sent.payload,
            "message {} of channel {channel}",
            got.number
        );
        *next += 1;
        true
    }

    fn check(&mut self) {
        while let Some(info) = self.inbox.poll_incoming() {
            let (channel, number) = (info.channel, info.number);
            assert!(info.total > UNASKED as u64);
            match info.total {
                total if total > WANTED as u64 => self.inbox.refuse(channel, number, 1).unwrap(),
                total if total % 2 == 0 => self.inbox.accept(channel, number, None).unwrap(),
                total => {
                    let buffer = Some(vec![0; total as usize + 5].into());
                    self.inbox.accept(channel, number, buffer).unwrap();
                }
            }
        }
        while let Some(done) = self.outbox.poll_completion() {
            let channel = done.channel.0 as usize;
            let next = &mut self.reported[channel];
            assert_eq!(done.number, *next, "completions in order");
            let sent = &self.sent[channel][*next as usize];
            assert_eq!(done.token, sent.token);
            let wanted = sent.payload.len() <= WANTED;
            assert_eq!(done.outcome == Outcome::Delivered, wanted);
            assert_eq!(done.reason, (!wanted).then_some(1));
            *next += 1;
        }
        self.outbox.audit_queued();
        let (used, limit) = self.outbox.session_credit();
        assert!(used <= limit && limit <= self.inbox.session_limit());
        assert!(self.inbox.memory_used() <= self.window + LARGE);
        assert!(self.inbox.large_held() <= LARGE);
    }

    /// Stops losing packets: everything must arrive.
    fn finish(&mut self) {
        self.step(&Step::Window { bytes: 60_000 });
        for _ in 0..2_000 {
            self.way
                .extend(std::iter::from_fn(|| packet(&mut self.outbox, ROOM)));
            while let Some((channel, _)) = self.outbox.poll_channel_blocked() {
                self.inbox.repeat_limit(channel);
            }
            while !self.way.is_empty() {
                self.step(&Step::Arrive { at: 0 });
            }
            self.step(&Step::Read { count: 1_000 });
            self.step(&Step::Answer);
        }
        assert!(self.outbox.is_empty(), "{:?}", self.outbox);
        assert_eq!(self.outbox.queued().open().bytes, 0);
        assert_eq!(self.inbox.memory_used(), 0);
        for channel in 0..3 {
            let all = self.sent[channel].len() as u64;
            assert_eq!(self.reported[channel], all);
            assert_eq!(self.outbox.delivered(ChannelId(channel as u32)), all);
            let wanted = self.sent[channel]
                .iter()
                .rposition(|m| m.payload.len() <= WANTED);
            assert!(self.received[channel] >= wanted.map_or(0, |last| last as u64 + 1));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn f31_all_messages_arrive_once_in_order_and_unchanged(
        steps in prop::collection::vec(step(), 1..200)
    ) {
        let mut pair = Pair::new();
        steps.iter().for_each(|step| pair.step(step));
        pair.finish();
    }

    #[test]
    fn outcomes_are_never_better_than_the_truth(
        steps in prop::collection::vec(step(), 1..150)
    ) {
        let mut pair = Pair::new();
        steps.iter().for_each(|step| pair.step(step));
        let outcomes = pair.outbox.end();
        let done: u64 = pair.reported.iter().sum();
        prop_assert_eq!(outcomes.len() as u64 + done, pair.next_token, "each exactly once");
        // Messages that arrived before the session ended stay readable.
        while pair.read() {}
        for outcome in outcomes {
            let channel = outcome.channel.0 as usize;
            let received = pair.received[channel] > outcome.number;
            let short = pair.sent[channel][outcome.number as usize].payload.len() <= WANTED;
            if received && short {
                prop_assert_ne!(outcome.outcome, Outcome::NotDelivered);
            }
        }
    }
}
