//! A batch of frames has the same effects as its frames one by one: for the program, for the peer,
//! and in the accounts.

use super::*;
use proptest::prelude::*;
use suci_link::wire::FragHead;

/// The content of a packet. Numbers count from the first message that the program did not take.
#[derive(Clone, Debug)]
enum Fragment {
    /// Whole messages with consecutive numbers, side by side.
    Batch { from: u64, count: u64, len: usize },
    /// Anything else about a message.
    Other { number: u64, what: Other },
    /// Bytes that are not a frame.
    Noise,
}

#[derive(Clone, Copy, Debug)]
enum Other {
    /// Whole, with a header.
    Described,
    /// Its first piece, or its last.
    First,
    Last,
    /// Its announcement.
    Rts,
}

#[derive(Clone, Debug)]
enum Step {
    Packet {
        /// Numbers begin with what was never seen, or with what the program takes next.
        fresh: bool,
        parts: Vec<(u32, Fragment)>,
    },
    /// A packet that came before comes again.
    Again(usize),
    Pop(usize),
    Decide(bool),
    Window(u64),
}

/// Bytes of a message that comes in pieces, and where it is cut.
const LONG: u64 = 1_000;
const CUT: usize = 600;

fn part() -> impl Strategy<Value = Fragment> {
    let other = prop_oneof![
        Just(Other::Described),
        Just(Other::First),
        Just(Other::Last),
        Just(Other::Rts)
    ];
    let from = prop_oneof![6 => Just(0_u64), 2 => 0..20_u64];
    prop_oneof![
        8 => (from, 1..30_u64, prop_oneof![0..3_usize, 0..300_usize])
            .prop_map(|(from, count, len)| Fragment::Batch { from, count, len }),
        3 => (0..6_u64, other).prop_map(|(number, what)| Fragment::Other { number, what }),
        1 => Just(Fragment::Noise),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let channel = prop_oneof![5 => Just(0_u32), 1 => 1..3_u32];
    let parts = prop::collection::vec((channel, part()), 1..5);
    prop_oneof![
        8 => (prop::bool::weighted(0.8), parts)
            .prop_map(|(fresh, parts)| Step::Packet { fresh, parts }),
        2 => (0..50_usize).prop_map(Step::Again),
        5 => (1..60_usize).prop_map(Step::Pop),
        1 => any::<bool>().prop_map(Step::Decide),
        1 => (MIN_WINDOW..60_000).prop_map(Step::Window),
    ]
}

/// Appends a frame of message `number`: bytes from `offset` on, of `total`. Tags tell messages
/// apart; some have none.
fn put(
    bytes: &mut Vec<u8>,
    channel: u32,
    number: u64,
    total: u64,
    part: Range<usize>,
    header: &[u8],
) {
    let data = &content(number, to_usize(total))[part.clone()];
    let start = Start {
        total,
        tag: number % 3 * 1_000,
        kind: Kind::USER,
        user_header: header,
    };
    let head = FragHead {
        channel: ChannelId(channel),
        message: number,
        offset: len64(part.start),
        end: len64(part.end) == total,
        start: (part.start == 0).then_some(start),
    };
    head.put(bytes, data.len(), false);
    bytes.extend_from_slice(data);
}

/// Two inboxes that get the same packets: one as batches, the other frame by frame.
struct Both {
    batches: Inbox,
    frames: Inbox,
    /// By channel: the next number never sent, and the next that the program takes.
    next: [u64; 3],
    taken: [u64; 3],
    /// Packets as they were.
    packets: Vec<Packet>,
    /// Messages that wait for a decision.
    asked: Vec<IncomingInfo>,
    /// Messages that came as batches and were taken as such.
    at_once: u64,
}

impl Both {
    fn new() -> Self {
        let limits = InboxLimits {
            channel_window: MIN_WINDOW,
            session_window: 2 * MIN_WINDOW,
            max_message: 2_000,
            max_channels: 2,
            max_large: 3_000,
        };
        let inbox = || Inbox::new(limits, Pool::new(1 << 20));
        Self {
            batches: inbox(),
            frames: inbox(),
            next: [0; 3],
            taken: [0; 3],
            packets: Vec::new(),
            asked: Vec::new(),
            at_once: 0,
        }
    }

    fn build(&mut self, fresh: bool, parts: &[(u32, Fragment)]) -> Packet {
        let mut bytes = Vec::new();
        for (channel, part) in parts {
            let index = to_usize(u64::from(*channel));
            let base = if fresh {
                self.next[index]
            } else {
                self.taken[index]
            };
            let end = match *part {
                Fragment::Batch { from, count, len } => {
                    for number in (base + from..).take(to_usize(count)) {
                        put(&mut bytes, *channel, number, len64(len), 0..len, b"");
                    }
                    base + from + count
                }
                Fragment::Other { number, what } => {
                    let number = base + number;
                    match what {
                        Other::Described => put(&mut bytes, *channel, number, 40, 0..40, b"head"),
                        Other::First => put(&mut bytes, *channel, number, LONG, 0..CUT, b""),
                        Other::Last => put(&mut bytes, *channel, number, LONG, CUT..1_000, b""),
                        Other::Rts => Frame::Rts(Rts {
                            channel: ChannelId(*channel),
                            total: 1_000 + number % 3 * 700,
                            ..rts(number, 0)
                        })
                        .put(&mut bytes),
                    }
                    number + 1
                }
                Fragment::Noise => {
                    bytes.extend_from_slice(&[0x83, 1]);
                    base
                }
            };
            self.next[index] = self.next[index].max(end);
        }
        let sent = Vec::new();
        Packet { bytes, sent }
    }

    /// Hands it to both. Whether it broke a rule.
    fn arrive(&mut self, packet: &Packet) -> bool {
        let before = self.batches.held_packed();
        let as_batches = take(&mut self.batches, packet);
        self.at_once += self.batches.held_packed() - before;
        let one_by_one = wire::frames(&packet.bytes).try_for_each(|frame| match frame? {
            Frame::Frag(frag) => self.frames.on_frag(&frag),
            Frame::Rts(rts) => self.frames.on_rts(&rts),
            other => panic!("{other:?}"),
        });
        assert_eq!(as_batches, one_by_one);
        as_batches.is_err()
    }

    fn step(&mut self, step: Step) -> bool {
        let mut broken = false;
        match step {
            Step::Packet { fresh, parts } => {
                let packet = self.build(fresh, &parts);
                broken = self.arrive(&packet);
                self.packets.push(packet);
            }
            Step::Again(at) => {
                if let Some(packet) = self.packets.get(at).cloned() {
                    broken = self.arrive(&packet);
                }
            }
            Step::Pop(most) => {
                let mut left = most;
                while left > 0 {
                    let mut some = Vec::new();
                    left -= self
                        .batches
                        .pop_some(left, &mut |message| some.push(message));
                    if some.is_empty() {
                        assert_eq!(self.frames.pop(), None);
                        break;
                    }
                    for message in some {
                        self.taken[message.channel.0 as usize] = message.number + 1;
                        assert_eq!(self.frames.pop(), Some(message));
                    }
                    self.compare();
                }
            }
            Step::Decide(yes) => {
                let waiting = core::mem::take(&mut self.asked);
                for IncomingInfo {
                    channel, number, ..
                } in waiting
                {
                    let [a, b] = [&mut self.batches, &mut self.frames].map(|inbox| match yes {
                        true => inbox.accept(channel, number, None),
                        false => inbox.refuse(channel, number, 7),
                    });
                    assert_eq!(a, b);
                }
            }
            Step::Window(bytes) => {
                for inbox in [&mut self.batches, &mut self.frames] {
                    inbox.set_windows(bytes, bytes * 3 / 2);
                }
            }
        }
        self.compare();
        broken
    }

    /// Compares all that callers can see of the two.
    fn compare(&mut self) {
        let seen = [&mut self.batches, &mut self.frames].map(|inbox| {
            let books = (
                inbox.session_limit(),
                inbox.memory_used(),
                inbox.received(),
                inbox.large_held(),
                inbox.unfinished_bytes(),
                inbox.large_wanted(),
            );
            let flags = (
                inbox.has_ready(),
                inbox.has_answers(),
                inbox.has_unfinished(),
            );
            let incoming: Vec<_> = std::iter::from_fn(|| inbox.poll_incoming()).collect();
            let answers: Vec<_> = std::iter::from_fn(|| inbox.poll_answer()).collect();
            (books, flags, incoming, answers)
        });
        let [(.., incoming, _), _] = &seen;
        self.asked.extend_from_slice(incoming);
        assert_eq!(seen[0], seen[1]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_batch_equals_its_frames_one_by_one(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        let mut both = Both::new();
        for step in steps {
            // A peer that broke a rule is not heard any more; what came before stays good.
            if both.step(step) {
                break;
            }
        }
        both.step(Step::Pop(usize::MAX));
    }
}

#[test]
fn a_refused_message_behind_a_batch_is_skipped_in_order() {
    let batch = |count| {
        (
            0,
            Fragment::Batch {
                from: 0,
                count,
                len: 32,
            },
        )
    };
    let asks = (
        0,
        Fragment::Other {
            number: 0,
            what: Other::Rts,
        },
    );
    let mut both = Both::new();
    let parts = vec![batch(2), asks];
    assert!(!both.step(Step::Packet { fresh: true, parts }));
    assert_eq!((both.at_once, both.asked.len()), (2, 1));
    both.step(Step::Decide(false));
    both.step(Step::Pop(1));
    let parts = vec![batch(3)];
    both.step(Step::Packet { fresh: true, parts });
    both.step(Step::Pop(1));
    both.step(Step::Pop(usize::MAX));
    assert_eq!(both.taken[0], 6);
}

#[test]
fn batches_in_order_are_taken_at_once_and_others_frame_by_frame() {
    let batch = |from, count| {
        vec![(
            0,
            Fragment::Batch {
                from,
                count,
                len: 32,
            },
        )]
    };
    let fresh = |parts| Step::Packet { fresh: true, parts };
    let mut both = Both::new();
    both.step(fresh(batch(0, 30)));
    both.step(fresh(batch(0, 30)));
    assert_eq!(both.at_once, 60, "in order");
    both.step(fresh(batch(1, 30)));
    assert_eq!(both.at_once, 60, "behind a gap");
    both.step(Step::Pop(70));
    let missing = vec![(
        0,
        Fragment::Batch {
            from: 0,
            count: 1,
            len: 32,
        },
    )];
    both.step(Step::Packet {
        fresh: false,
        parts: missing,
    });
    both.step(Step::Pop(usize::MAX));
    both.step(fresh(batch(0, 30)));
    assert_eq!(both.at_once, 90, "the gap is closed");
    while !both.step(fresh(batch(0, 29))) {}
    let within = both.at_once - 90;
    assert!(
        within > 0 && within.is_multiple_of(29),
        "the last was beyond the credit: {within}"
    );
}

#[test]
fn popping_no_messages_takes_none() {
    let mut both = Both::new();
    let batch = Fragment::Batch {
        from: 0,
        count: 2,
        len: 32,
    };
    let described = Fragment::Other {
        number: 0,
        what: Other::Described,
    };
    let parts = vec![(0, batch), (0, described)];
    both.step(Step::Packet { fresh: true, parts });
    assert_eq!(both.at_once, 2);
    let inbox = &mut both.batches;
    assert_eq!(inbox.pop_some(0, &mut |message| panic!("{message:?}")), 0);
    assert_eq!(pop_all(inbox).len(), 3, "in order");
}
