//! Messages that are taken back before any of them was sent.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use suci_link::time::Instant;

/// Queues a message of `len` bytes with this token.
fn push_token(outbox: &mut Outbox, number: u64, len: usize, token: u64) {
    let queued = outbox.push(Outgoing {
        token,
        ..message(C0, content(number, len))
    });
    assert_eq!(queued.unwrap(), number);
}

/// The numbers of the messages that were cancelled, and why.
fn told(outbox: &mut Outbox) -> Vec<(u64, u64)> {
    let done = std::iter::from_fn(|| outbox.poll_completion());
    let cancelled = done.filter(|done| done.outcome == Outcome::NotDelivered);
    cancelled
        .map(|done| (done.number, done.reason.unwrap()))
        .collect()
}

/// Sends and acknowledges everything. The numbers that the receiving program got.
fn received(outbox: &mut Outbox, inbox: &mut Inbox) -> Vec<u64> {
    let mut numbers = Vec::new();
    while !outbox.is_empty() {
        let packet = packet(outbox, ROOM).expect("credit for all");
        take(inbox, &packet).unwrap();
        acked(outbox, &packet);
        numbers.extend(pop_all(inbox).into_iter().map(|message| message.number));
        answers(inbox, outbox);
    }
    assert_eq!(inbox.memory_used(), 0);
    assert_eq!(outbox.queued(), Queued::default());
    outbox.audit_queued();
    numbers
}

/// Of each length that is queued in another way: empty, small, of middle length, longer, and
/// announced first.
const LENGTHS: [usize; 5] = [0, 100, 1_000, 5_000, 200_000];

#[test]
fn the_first_a_middle_and_the_last_message_can_be_cancelled() {
    for len in LENGTHS {
        for gone in [0, 3, 6] {
            let (mut outbox, mut inbox) = (outbox(), inbox());
            (0..7).for_each(|n| push_token(&mut outbox, n, len, u64::from(n == gone)));
            let before = outbox.queued().all;
            assert_eq!(outbox.cancel(C0, 1), 1, "{len} bytes, message {gone}");
            assert_eq!(outbox.cancel(C0, 1), 0, "once");
            let room = before.minus(outbox.queued().all);
            assert_eq!(room, Held::one(len as u64), "the queue has its room again");
            assert_eq!(told(&mut outbox), [(gone, CANCELLED)]);
            let left: Vec<_> = (0..7).filter(|n| *n != gone).collect();
            assert_eq!(received(&mut outbox, &mut inbox), left, "{len} bytes");
            assert_eq!(outbox.delivered(C0), 7, "its number is told to the peer");
            assert_eq!((outbox.accepted(), inbox.received()), (6, 6));
            assert_eq!(inbox.missing_of(outbox.accepted()), 0);
        }
    }
}

/// However they stand in the queue.
#[test]
fn all_messages_with_one_token_are_cancelled() {
    let (mut outbox, mut inbox) = (outbox(), inbox());
    let tokens = [1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1];
    for (n, token) in (0..).zip(tokens) {
        push_token(&mut outbox, n, LENGTHS[n as usize % LENGTHS.len()], token);
    }
    (11..400).for_each(|n| push_token(&mut outbox, n, 40, 1));
    (400..500).for_each(|n| push_token(&mut outbox, n, 900, 1));
    assert_eq!(outbox.cancel(C0, 1), 496);
    assert_eq!(outbox.queued().all.messages, 4);
    let numbers: Vec<_> = told(&mut outbox).into_iter().map(|(n, _)| n).collect();
    assert!(numbers.len() == 496 && numbers.is_sorted());
    // Later messages do not join a cancelled segment.
    (500..510).for_each(|n| push_token(&mut outbox, n, 40, 1));
    (510..520).for_each(|n| push_token(&mut outbox, n, 900, 1));
    let left: Vec<_> = [1, 4, 5, 9].into_iter().chain(500..520).collect();
    assert_eq!(received(&mut outbox, &mut inbox), left);
}

#[test]
fn a_message_sent_in_part_cannot_be_cancelled() {
    for len in [100, 1_000, 5_000] {
        let (mut outbox, mut inbox) = (outbox(), inbox());
        (0..20).for_each(|n| push_token(&mut outbox, n, len, 1));
        let first = packet(&mut outbox, ROOM).unwrap();
        let begun = sent_numbers(&first).len() as u64;
        assert_eq!(outbox.cancel(C0, 1), 20 - begun, "{len} bytes");
        // Lost or not.
        lost(&mut outbox, &first);
        assert_eq!(outbox.cancel(C0, 1), 0);
        let left: Vec<_> = (0..begun).collect();
        assert_eq!(received(&mut outbox, &mut inbox), left, "{len} bytes");
    }
}

/// Void messages that were joined leave positions unused. The packet behind them is declared lost
/// and arrives late: the unused positions must not stay lost, since no packet carries them.
#[test]
fn f31_positions_of_no_message_hold_no_channel_up() {
    for room in 140..400 {
        let (mut outbox, mut inbox) = (outbox(), inbox());
        for (n, (len, token)) in (0..).zip([(100, 0), (100, 1), (1_000, 1), (100, 1), (100, 0)]) {
            push_token(&mut outbox, n, len, token);
        }
        assert_eq!(outbox.cancel(C0, 1), 3);
        let sent = packets(&mut outbox, room);
        push_token(&mut outbox, 5, 100, 0);
        sent.iter().for_each(|packet| lost(&mut outbox, packet));
        for packet in &sent {
            take(&mut inbox, packet).unwrap();
            acked(&mut outbox, packet);
        }
        assert_eq!(received(&mut outbox, &mut inbox), [0, 4, 5], "{room} B");
    }
}

/// Returns the numbers of the messages in a packet, without void ones.
fn sent_numbers(packet: &Packet) -> BTreeSet<(ChannelId, u64)> {
    let frames = wire::frames(&packet.bytes).map(Result::unwrap);
    let numbers = frames.filter_map(|frame| match frame {
        Frame::Frag(Frag {
            start: Some(start), ..
        }) if start.kind == Kind::VOID => None,
        Frame::Frag(frag) => Some((frag.channel, frag.message)),
        Frame::Rts(rts) => Some((rts.channel, rts.message)),
        _ => None,
    });
    numbers.collect()
}

/// It is sent already, as far as its sender knows.
#[test]
fn a_message_that_asked_cannot_be_cancelled() {
    let (mut outbox, mut inbox) = (outbox(), inbox());
    push_token(&mut outbox, 0, 200_000, 1);
    let rts = packet(&mut outbox, ROOM).unwrap();
    assert_eq!(outbox.cancel(C0, 1), 0);
    take(&mut inbox, &rts).unwrap();
    answers(&mut inbox, &mut outbox);
    assert_eq!(outbox.cancel(C0, 1), 0, "granted");
    assert_eq!(received(&mut outbox, &mut inbox), [0]);
}

/// Cancelled messages leave positions out, which the next packet tells of.
#[test]
fn a_message_that_is_refused_behind_cancelled_ones_leaves_with_them() {
    let mut outbox = outbox();
    push_token(&mut outbox, 0, 100, 1);
    push_token(&mut outbox, 1, 150, 1);
    push_token(&mut outbox, 2, 200_000, 0);
    assert_eq!(outbox.cancel(C0, 1), 2);
    let sent = packet(&mut outbox, ROOM).unwrap();
    outbox.on_refused(C0, 2, 7).unwrap();
    assert!(!outbox.is_empty());
    acked(&mut outbox, &sent);
    assert!(outbox.is_empty());
    assert_eq!(
        (outbox.delivered(C0), outbox.queued()),
        (3, Queued::default())
    );
    assert!(told(&mut outbox).contains(&(2, 7)));
}

#[test]
fn a_channel_that_is_finished_ends_once_cancelled_numbers_were_told() {
    let (mut outbox, mut inbox) = (outbox(), inbox());
    (0..3).for_each(|n| push_token(&mut outbox, n, 100, n / 2));
    assert!(outbox.finish(C0).unwrap());
    assert_eq!(outbox.cancel(C0, 1), 1);
    assert!(outbox.poll_fin().is_none());
    assert_eq!(received(&mut outbox, &mut inbox), [0, 1]);
    let (channel, count) = outbox.poll_fin().unwrap();
    assert_eq!((channel, count), (C0, 3));
    inbox.on_fin(channel, count).unwrap();
    assert_eq!(inbox.poll_finished(), Some(C0));
}

/// The message behind it needs less credit.
#[test]
fn cancelling_unblocks_messages_behind() {
    let mut outbox = Outbox::new(limits());
    outbox.set_initial_channel_limit(600);
    outbox.set_session_limit(600);
    push_token(&mut outbox, 0, 1_000, 1);
    push_token(&mut outbox, 1, 300, 0);
    assert!(!outbox.has_sendable());
    assert_eq!(outbox.cancel(C0, 1), 1);
    let packet = packet(&mut outbox, ROOM).unwrap();
    assert_eq!(sent_numbers(&packet), [(C0, 1)].into());
}

#[test]
fn cold_channels_and_unknown_ones_have_nothing_to_cancel() {
    let (mut outbox, mut inbox) = (outbox(), inbox());
    assert_eq!(outbox.cancel(C0, 0), 0);
    for channel in 0..10 {
        push(&mut outbox, ChannelId(channel), 0..1, 10);
    }
    assert_eq!(outbox.cancel(ChannelId(3), 0), 1);
    assert_eq!(received(&mut outbox, &mut inbox).len(), 9);
    while outbox.poll_completion().is_some() {}
    assert!(outbox.shrink() && inbox.shrink());
    assert_eq!(outbox.cancel(ChannelId(3), 0), 0);
    assert_eq!(outbox.delivered(ChannelId(3)), 1);
    push(&mut outbox, ChannelId(3), 1..2, 10);
    assert_eq!(received(&mut outbox, &mut inbox), [1]);
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Queues a message that expires at this time.
fn push_until(outbox: &mut Outbox, number: u64, len: usize, until: Instant) {
    let queued = outbox.push(Outgoing {
        deadline: Some(Duration::ZERO),
        ..message(C0, content(number, len))
    });
    assert_eq!(queued.unwrap(), number);
    outbox.set_deadline(C0, number, until);
}

#[test]
fn a_message_expires_if_none_of_it_was_sent() {
    for len in LENGTHS {
        let (mut outbox, mut inbox) = (outbox(), inbox());
        push_until(&mut outbox, 0, len, at(5));
        push_until(&mut outbox, 1, len, at(3));
        push_until(&mut outbox, 2, len, at(7));
        assert_eq!(outbox.next_deadline(), Some(at(3)));
        outbox.expire(at(2));
        assert_eq!(told(&mut outbox), []);
        outbox.expire(at(5));
        assert_eq!(told(&mut outbox), [(1, EXPIRED), (0, EXPIRED)]);
        assert_eq!(outbox.next_deadline(), Some(at(7)));
        let sent = packet(&mut outbox, ROOM).unwrap();
        assert_eq!(sent_numbers(&sent), [(C0, 2)].into());
        assert_eq!(outbox.next_deadline(), None, "some of it was sent");
        outbox.expire(at(9));
        lost(&mut outbox, &sent);
        assert_eq!(received(&mut outbox, &mut inbox), [2]);
    }
}

/// A program that sends what soon is of no use to a peer that does not answer.
#[test]
fn messages_that_expire_leave_no_memory() {
    let (mut outbox, mut inbox) = (outbox(), inbox());
    push(&mut outbox, C0, 0..1, 10);
    let kept = outbox.footprint();
    for n in 1..20_000 {
        push_until(&mut outbox, n, 100, at(n));
        if n % 10 == 0 {
            outbox.expire(at(n));
        }
    }
    outbox.expire(at(20_000));
    assert_eq!(outbox.queued().all, Held::one(10));
    assert!(outbox.footprint() <= kept + 2_000, "{}", outbox.footprint());
    assert_eq!(received(&mut outbox, &mut inbox), [0]);
}

/// Small messages stand side by side in memory, which those that are cancelled give back, too.
#[test]
fn small_messages_that_are_cancelled_leave_little_memory() {
    let (mut outbox, mut inbox) = (outbox(), inbox());
    push_token(&mut outbox, 0, 10, 0);
    for n in 1..20_000 {
        push_token(&mut outbox, n, 200, 1);
        if n % 100 == 0 {
            assert_eq!(outbox.cancel(C0, 1), 100);
        }
    }
    assert_eq!(outbox.cancel(C0, 1), 99);
    assert!(outbox.footprint() <= 60_000, "{}", outbox.footprint());
    assert_eq!(received(&mut outbox, &mut inbox), [0]);
    assert_eq!(outbox.frames_held(), 0);
}

/// This holds for any void message within the credit, whatever the peer's reason is.
#[test]
fn void_messages_are_discarded_whatever_they_hold() {
    let mut inbox = inbox();
    let void = |message, offset: usize, end, len: usize, data: &'static [u8]| Frag {
        channel: C0,
        message,
        offset: offset as u64,
        end,
        start: (offset == 0).then_some(Start {
            total: len as u64,
            tag: 7,
            kind: Kind::VOID,
            user_header: b"h",
        }),
        data,
    };
    let whole = void(1, 0, true, 3, b"abc");
    for _ in 0..2 {
        inbox.on_frag(&whole).unwrap();
    }
    assert!(!inbox.has_ready(), "one before it is missing");
    let pieces: &'static [u8] = &[1; 300];
    inbox.on_frag(&void(0, 200, true, 500, pieces)).unwrap();
    inbox
        .on_frag(&void(0, 0, false, 500, &pieces[..200]))
        .unwrap();
    inbox.on_frag(&whole).unwrap();
    assert_eq!((inbox.memory_used(), inbox.received()), (0, 0));
    let rts = Rts {
        channel: C0,
        message: 2,
        total: 1_000,
        tag: 0,
        kind: Kind::VOID,
        user_header: &[],
    };
    assert!(matches!(
        inbox.on_rts(&rts),
        Err(ProtocolError::OutOfPlace(_))
    ));
}

/// A sender and a receiver whose program knows which messages it must get.
struct Pair {
    outbox: Outbox,
    inbox: Inbox,
    now: Instant,
    sent: Vec<VecDeque<u64>>,
    next: [u64; 2],
    /// Messages of which nothing was sent: their tokens and deadlines.
    waiting: BTreeMap<(ChannelId, u64), (u64, Option<Instant>)>,
    cancelled: BTreeSet<(ChannelId, u64)>,
    way: Vec<Packet>,
}

/// Messages that expire out of order cost about the same each, however many wait: what they leave
/// is moved together once half of the queue is void.
#[test]
fn many_messages_expire_out_of_order_in_little_time() {
    let mut outbox = Outbox::new(limits());
    const COUNT: u64 = 100_000;
    for number in 0..COUNT {
        let due = Duration::from_millis(number * 7_919 % 1_000);
        let pushed = outbox.push(Outgoing {
            deadline: Some(due),
            ..message(C0, content(number, 1))
        });
        assert_eq!(pushed.unwrap(), number);
        outbox.set_deadline(C0, number, Instant::ZERO + due);
    }
    for millis in 0..1_000 {
        outbox.expire(Instant::ZERO + Duration::from_millis(millis));
    }
    assert_eq!(outbox.queued(), Queued::default());
    let completions = core::iter::from_fn(|| outbox.poll_completion()).count();
    assert_eq!(completions as u64, COUNT);
}

#[derive(Clone, Debug)]
enum Step {
    Push(u32, usize, u64, Option<u64>, usize),
    Cancel(u32, u64),
    Wait(u64),
    Send,
    Arrive(usize),
    Lose(usize),
    Read,
    Answer,
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop::sample::select(vec![0, 1, 8, 200, 300, 1_000, 1_900, 9_000, 150_000]);
    let deadline = prop::option::weighted(0.3, 0..20_u64);
    let push = (0..2_u32, len, 0..3_u64, deadline, 1..8_usize);
    prop_oneof![
        6 => push.prop_map(|(c, len, token, deadline, n)| Step::Push(c, len, token, deadline, n)),
        3 => (0..2_u32, 0..3_u64).prop_map(|(channel, token)| Step::Cancel(channel, token)),
        2 => (0..10_u64).prop_map(Step::Wait),
        4 => Just(Step::Send),
        3 => (0..8_usize).prop_map(Step::Arrive),
        2 => (0..8_usize).prop_map(Step::Lose),
        2 => Just(Step::Read),
        2 => Just(Step::Answer),
    ]
}

impl Pair {
    fn new() -> Self {
        let mut outbox = Outbox::new(limits());
        // The limits that the sender learns below.
        let told = InboxLimits {
            channel_window: 20_000,
            session_window: 30_000,
            ..inbox_limits()
        };
        let mut inbox = Inbox::new(told, Pool::new(1 << 20));
        inbox.set_windows(30_000, 50_000);
        outbox.set_initial_channel_limit(20_000);
        outbox.set_session_limit(30_000);
        Self {
            outbox,
            inbox,
            now: Instant::ZERO,
            sent: vec![VecDeque::new(); 2],
            next: [0; 2],
            waiting: BTreeMap::new(),
            cancelled: BTreeSet::new(),
            way: Vec::new(),
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Push(channel, len, token, deadline, count) => {
                for _ in 0..count {
                    self.push(ChannelId(channel), len, token, deadline);
                }
            }
            Step::Cancel(channel, token) => {
                let channel = ChannelId(channel);
                let mine = |(at, _): &(ChannelId, u64), (t, _): &mut (u64, _)| {
                    *at == channel && *t == token
                };
                let gone: Vec<_> = self.waiting.extract_if(.., mine).collect();
                assert_eq!(self.outbox.cancel(channel, token), gone.len() as u64);
                self.gone(gone.into_iter().map(|(name, _)| name).collect(), CANCELLED);
            }
            Step::Wait(millis) => {
                self.now += Duration::from_millis(millis);
                let now = self.now;
                let due = |_: &(ChannelId, u64), (_, at): &mut (_, Option<Instant>)| {
                    at.is_some_and(|at| at <= now)
                };
                let gone: Vec<_> = self.waiting.extract_if(.., due).collect();
                self.outbox.expire(now);
                self.gone(gone.into_iter().map(|(name, _)| name).collect(), EXPIRED);
            }
            Step::Send => {
                if let Some(packet) = packet(&mut self.outbox, ROOM) {
                    for name in sent_numbers(&packet) {
                        assert!(!self.cancelled.contains(&name), "{name:?} was cancelled");
                        self.waiting.remove(&name);
                    }
                    self.way.push(packet);
                }
            }
            Step::Arrive(at) if at < self.way.len() => {
                let packet = self.way.remove(at);
                take(&mut self.inbox, &packet).unwrap();
                acked(&mut self.outbox, &packet);
            }
            Step::Lose(at) if at < self.way.len() => {
                let packet = self.way.remove(at);
                lost(&mut self.outbox, &packet);
            }
            Step::Read => {
                while let Some(message) = self.inbox.pop() {
                    let (channel, number) = (message.channel, message.number);
                    let next = &mut self.next[channel.0 as usize];
                    while self.cancelled.contains(&(channel, *next)) {
                        *next += 1;
                    }
                    assert_eq!(number, *next, "without a gap");
                    *next += 1;
                    let len = self.sent[channel.0 as usize][number as usize];
                    assert!(message.payload == content(number, len as usize));
                }
            }
            Step::Answer => answers(&mut self.inbox, &mut self.outbox),
            _ => {}
        }
        self.outbox.audit_queued();
        let (used, limit) = self.outbox.session_credit();
        assert!(used <= limit && limit <= self.inbox.session_limit().max(30_000));
        let first = self.waiting.values().filter_map(|(_, at)| *at).min();
        assert_eq!(self.outbox.next_deadline(), first);
    }

    fn push(&mut self, channel: ChannelId, len: usize, token: u64, deadline: Option<u64>) {
        let sent = &mut self.sent[channel.0 as usize];
        let number = sent.len() as u64;
        let deadline = deadline.map(Duration::from_millis);
        let pushed = self.outbox.push(Outgoing {
            token,
            deadline,
            ..message(channel, content(number, len))
        });
        assert_eq!(pushed.unwrap(), number);
        sent.push_back(len as u64);
        let until = deadline.map(|deadline| self.now + deadline);
        if let Some(until) = until {
            self.outbox.set_deadline(channel, number, until);
        }
        self.waiting.insert((channel, number), (token, until));
    }

    /// Notes cancelled messages: the program is told of each.
    fn gone(&mut self, gone: BTreeSet<(ChannelId, u64)>, reason: u64) {
        let mut told = BTreeSet::new();
        while let Some(done) = self.outbox.poll_completion() {
            let name = (done.channel, done.number);
            if done.outcome == Outcome::Delivered {
                assert!(!self.cancelled.contains(&name) && !gone.contains(&name));
                continue;
            }
            assert_eq!(
                (done.outcome, done.reason),
                (Outcome::NotDelivered, Some(reason))
            );
            assert!(told.insert(name));
        }
        assert_eq!(told, gone);
        self.cancelled.extend(gone);
    }

    /// Delivers everything that is left.
    fn finish(&mut self) {
        // The longest input has 150 steps of 7 messages of 150,000 bytes.
        let most = 7 * 150 * (150_000 / ROOM + 10);
        for _ in 0..most {
            if self.outbox.is_empty() {
                break;
            }
            for step in [Step::Send, Step::Arrive(0), Step::Read, Step::Answer] {
                self.step(&step);
            }
            while let Some((channel, _)) = self.outbox.poll_channel_blocked() {
                self.inbox.repeat_limit(channel);
            }
        }
        assert!(self.outbox.is_empty(), "{:?}", self.outbox);
        // The program takes the messages that arrived before, and its library announces that.
        for step in [Step::Read, Step::Answer] {
            self.step(&step);
        }
        assert_eq!(self.outbox.queued(), Queued::default());
        assert_eq!(self.inbox.memory_used(), 0);
        assert_eq!(self.outbox.frames_held(), 0);
        for channel in [C0, C1] {
            let all = self.sent[channel.0 as usize].len() as u64;
            assert_eq!(self.outbox.delivered(channel), all);
            let live = |number: &u64| !self.cancelled.contains(&(channel, *number));
            let last = (0..all).rev().find(live);
            assert!(self.next[channel.0 as usize] >= last.map_or(0, |last| last + 1));
        }
        let accepted = self.outbox.accepted();
        assert_eq!(
            (self.inbox.received(), self.inbox.missing_of(accepted)),
            (accepted, 0)
        );
        while self.outbox.poll_completion().is_some() {}
        assert!(self.outbox.shrink() && self.inbox.shrink());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn the_receiver_gets_exactly_what_was_not_cancelled(
        steps in prop::collection::vec(step(), 1..150)
    ) {
        let mut pair = Pair::new();
        steps.iter().for_each(|step| pair.step(step));
        pair.finish();
    }
}
