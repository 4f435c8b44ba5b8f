//! Random programs and peers, against the rules of MPI written down as searches in two lists.

use super::super::ReceiveId;
use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use suci_proto::LentMemory;

const NODES: u32 = 2;
const CHANNELS: u32 = 2;

#[derive(Clone, Debug)]
enum Step {
    Posting(Pattern, usize, Option<u64>),
    Cancel(usize),
    /// A message is sent; the layer is asked about it when it begins, if it may be.
    Send(u32, u32, u64, usize, bool),
    /// The oldest incomplete message of a channel becomes complete.
    Complete(u32, u32),
    Peek(Pattern),
    Claim(Pattern),
    ReceiveClaimed(usize),
    /// Answers to announced messages, which the engine takes or not.
    Decide(bool),
    End(u32),
}

fn pattern() -> impl Strategy<Value = Pattern> {
    let ignore = prop_oneof![Just(0), Just(1), Just(u64::MAX), Just(2)];
    let node = prop::option::of(0..NODES);
    (0..4_u64, ignore, node, 0..CHANNELS).prop_map(|(tag, ignore, node, channel)| {
        let pattern = Pattern::tag(tag).ignoring(ignore).on(channel);
        match node {
            Some(node) => pattern.from(NodeId(node)),
            None => pattern,
        }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let send = (0..NODES, 0..CHANNELS, 0..4_u64, 0..12_usize, any::<bool>());
    prop_oneof![
        6 => (pattern(), 1..30_usize, prop::option::of(1..6_u64))
            .prop_map(|(pattern, length, least)| Step::Posting(pattern, length, least)),
        1 => (0..30_usize).prop_map(Step::Cancel),
        8 => send.prop_map(|(a, b, c, d, e)| Step::Send(a, b, c, d, e)),
        8 => (0..NODES, 0..CHANNELS).prop_map(|(node, channel)| Step::Complete(node, channel)),
        1 => pattern().prop_map(Step::Peek),
        1 => pattern().prop_map(Step::Claim),
        2 => (0..4_usize).prop_map(Step::ReceiveClaimed),
        2 => any::<bool>().prop_map(Step::Decide),
        1 => (0..NODES).prop_map(Step::End),
    ]
}

/// Where a message goes, as the rules say.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    NotMatched,
    Free,
    Claimed,
    Receive {
        index: usize,
        offset: u64,
        room: u64,
    },
}

#[derive(Debug)]
struct Sent {
    from: Source,
    channel: u32,
    number: u64,
    tag: u64,
    length: usize,
    is_complete: bool,
    fate: Fate,
    /// Its place among messages that were matched.
    order: u64,
    named: Option<super::super::table::RevocablePlace>,
}

#[derive(Debug)]
struct Posted {
    id: ReceiveId,
    pattern: Pattern,
    memory: Arc<Bytes8>,
    least: Option<u64>,
    used: u64,
    open: usize,
    is_full: bool,
}

/// A completion: the receive, the message that it took (source, tag and two lengths), and whether
/// its memory is released.
type Expected = (ReceiveId, Option<(Source, u64, u64, u64)>, bool);

#[derive(Default)]
struct World {
    table: Matching,
    posted: Vec<Posted>,
    sent: Vec<Sent>,
    expected: VecDeque<Expected>,
    sessions: [u32; NODES as usize],
    numbers: [[u64; CHANNELS as usize]; NODES as usize],
    orders: u64,
}

fn admits(pattern: &Pattern, one: &Sent) -> bool {
    let exact = pattern.tag & !pattern.ignore == one.tag & !pattern.ignore;
    let node = pattern.from.is_none_or(|node| node == one.from.node);
    exact && node && pattern.channel == ChannelId::of_matching(one.channel)
}

impl World {
    /// Matches a message that begins, or is complete.
    fn match_message(&mut self, at: usize) {
        self.sent[at].order = self.orders;
        self.orders += 1;
        let one = &self.sent[at];
        let receive = self
            .posted
            .iter()
            .position(|r| !r.is_full && admits(&r.pattern, one));
        match receive {
            Some(index) => self.bind(at, index),
            None => self.sent[at].fate = Fate::Free,
        }
    }

    fn bind(&mut self, at: usize, index: usize) {
        let (total, receive) = (self.sent[at].length as u64, &mut self.posted[index]);
        let room = receive.memory.len() - receive.used;
        let offset = receive.used;
        receive.used += room.min(total);
        receive.open += 1;
        let left = room.saturating_sub(total);
        receive.is_full |= receive.least.is_none_or(|least| left < least);
        self.sent[at].fate = Fate::Receive {
            index,
            offset,
            room,
        };
        if self.sent[at].is_complete {
            self.finish(at);
        }
    }

    fn finish(&mut self, at: usize) {
        let one = &self.sent[at];
        let Fate::Receive {
            index,
            offset,
            room,
        } = one.fate
        else {
            return;
        };
        let receive = &mut self.posted[index];
        receive.open -= 1;
        let released = receive.is_full && receive.open == 0;
        let got = room.min(one.length as u64);
        let result = Some((one.from, one.number, offset, got));
        self.expected.push_back((receive.id, result, released));
        let bytes = payload(one.from, one.number, one.length);
        let start = usize::try_from(offset).unwrap();
        let got = usize::try_from(got).unwrap();
        assert_eq!(receive.memory.all()[start..start + got], bytes[..got]);
    }

    fn free(&self, pattern: &Pattern) -> Option<usize> {
        let all = self.sent.iter().enumerate();
        let free = all.filter(|(_, one)| one.fate == Fate::Free && admits(pattern, one));
        free.min_by_key(|(_, one)| one.order).map(|(at, _)| at)
    }

    fn post(&mut self, pattern: Pattern, length: usize, least: Option<u64>) {
        let memory = Bytes8::new(length);
        let mut given = buffer(&memory);
        let least = least.filter(|least| *least <= length as u64);
        if let Some(least) = least {
            given = given.for_several(least).unwrap();
        }
        let id = self.table.post(pattern, given);
        self.posted.push(Posted {
            id,
            pattern,
            memory,
            least,
            used: 0,
            open: 0,
            is_full: false,
        });
        let index = self.posted.len() - 1;
        while !self.posted[index].is_full
            && let Some(at) = self.free(&pattern)
        {
            self.bind(at, index);
        }
    }

    fn cancel(&mut self, index: usize) {
        let Some(receive) = self.posted.get_mut(index) else {
            return;
        };
        let is_over = receive.is_full && receive.open == 0;
        receive.is_full = true;
        let expected = !is_over && receive.open == 0;
        assert_eq!(self.table.cancel(receive.id), expected);
    }

    fn send(&mut self, node: u32, channel: u32, tag: u64, length: usize, begins: bool) {
        let from = source(node, self.sessions[node as usize]);
        let number = &mut self.numbers[node as usize][channel as usize];
        self.sent.push(Sent {
            from,
            channel,
            number: *number,
            tag,
            length,
            is_complete: false,
            fate: Fate::NotMatched,
            order: 0,
            named: None,
        });
        *number += 1;
        let at = self.sent.len() - 1;
        // The engine asks only if the earlier ones of the channel were taken, or are named.
        let earlier = self.sent[..at].iter();
        let mut earlier = earlier.filter(|one| one.from == from && one.channel == channel);
        if begins && earlier.all(|one| one.is_complete || one.named.is_some()) {
            let one = &self.sent[at];
            let asked = info(channel, one.number, tag, length);
            let named = begin(&mut self.table, from, &asked);
            self.match_message(at);
            let is_bound = matches!(self.sent[at].fate, Fate::Receive { .. });
            assert_eq!(named.is_some(), is_bound);
            self.sent[at].named = named;
        }
    }

    fn complete(&mut self, node: u32, channel: u32) {
        let from = source(node, self.sessions[node as usize]);
        let mut all = self.sent.iter_mut();
        let next =
            all.position(|one| one.from == from && one.channel == channel && !one.is_complete);
        let Some(at) = next else {
            return;
        };
        let one = &mut self.sent[at];
        one.is_complete = true;
        if let Some(named) = &mut one.named {
            named.write(0, &payload(from, one.number, one.length));
        }
        self.table
            .on_input(message(from, channel, one.number, one.tag, one.length));
        match one.fate {
            Fate::NotMatched => self.match_message(at),
            _ => self.finish(at),
        }
    }

    fn claim(&mut self, pattern: &Pattern, keeps: bool) {
        let peeked = match keeps {
            true => self.table.claim(pattern),
            false => self.table.peek(pattern),
        };
        let free = self.free(pattern);
        let of = |at: usize| {
            (
                self.sent[at].from,
                self.sent[at].tag,
                self.sent[at].length as u64,
            )
        };
        assert_eq!(
            peeked.map(|one| (one.from, one.tag, one.total)),
            free.map(of)
        );
        if let Some(at) = free.filter(|_| keeps) {
            self.sent[at].fate = Fate::Claimed;
        }
    }

    fn receive_claimed(&mut self, nth: usize) {
        let all = self.sent.iter().enumerate();
        let claimed = all.filter(|(_, one)| one.fate == Fate::Claimed);
        let Some((at, one)) = { claimed }.nth(nth) else {
            return;
        };
        // Messages have their numbers in the order in which none was found for them.
        let memory = Bytes8::new(8);
        let all = 0..self.orders + 1;
        let id = { all }.find_map(|id| {
            let id = super::super::MessageId(id);
            let claimed = self.table.claimed(id)?;
            (claimed == (one.from, ChannelId::of_matching(one.channel), one.number)).then_some(id)
        });
        let id = self
            .table
            .receive_claimed(id.unwrap(), buffer(&memory))
            .unwrap();
        self.posted.push(Posted {
            id,
            pattern: Pattern::any(),
            memory,
            least: None,
            used: 0,
            open: 0,
            is_full: true,
        });
        self.bind(at, self.posted.len() - 1);
    }

    fn decide(&mut self, takes: bool) {
        while let Some((decision, named)) = self.table.poll_decision(|_| true) {
            let place = decision.place;
            let is_named = named.is_some();
            if !takes {
                continue;
            }
            self.table.on_decided(decision);
            let of = |one: &&mut Sent| {
                (one.from, ChannelId::of_matching(one.channel), one.number)
                    == (place.from, place.channel, place.number)
            };
            let one = self.sent.iter_mut().find(of).unwrap();
            // The engine takes no answer for a message that is complete.
            assert!(!is_named || !one.is_complete);
            one.named = named;
        }
    }

    fn end(&mut self, node: u32) {
        let from = source(node, self.sessions[node as usize]);
        self.sessions[node as usize] += 1;
        self.numbers[node as usize] = [0; CHANNELS as usize];
        self.table.on_input(ended(from));
        let mut over: Vec<_> = (0..self.sent.len())
            .filter(|at| self.sent[*at].from == from && !self.sent[*at].is_complete)
            .collect();
        over.sort_by_key(|at| (self.sent[*at].channel, self.sent[*at].number));
        for at in over {
            if let Fate::Receive { index, .. } = self.sent[at].fate {
                let receive = &mut self.posted[index];
                receive.open -= 1;
                let released = receive.is_full && receive.open == 0;
                self.expected.push_back((receive.id, None, released));
            }
            self.sent[at].is_complete = true;
            self.sent[at].fate = Fate::NotMatched;
        }
        for receive in &mut self.posted {
            if receive.pattern.from == Some(from.node) && !receive.is_full {
                receive.is_full = true;
                if receive.open == 0 {
                    self.expected.push_back((receive.id, None, true));
                }
            }
        }
    }

    fn check(&mut self) {
        for done in completions(&mut self.table) {
            let result = done.result.ok();
            let result = result.map(|one| (one.from, one.number, one.offset, one.length));
            let expected = self.expected.pop_front();
            assert_eq!(Some((done.receive, result, done.released)), expected);
        }
        assert!(self.expected.is_empty(), "{:?}", self.expected);
        let free = self.sent.iter().filter(|one| one.fate == Fate::Free);
        assert_eq!(self.table.unexpected().0, free.count());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Every receive gets the message that the rules of MPI give it, in any order of calls.
    #[test]
    fn messages_and_receives_match_as_in_mpi(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::default();
        for step in steps {
            match step {
                Step::Posting(pattern, length, least) => world.post(pattern, length, least),
                Step::Cancel(index) => world.cancel(index),
                Step::Send(node, channel, tag, length, begins) => {
                    world.send(node, channel, tag, length, begins);
                }
                Step::Complete(node, channel) => world.complete(node, channel),
                Step::Peek(pattern) => world.claim(&pattern, false),
                Step::Claim(pattern) => world.claim(&pattern, true),
                Step::ReceiveClaimed(nth) => world.receive_claimed(nth),
                Step::Decide(takes) => world.decide(takes),
                Step::End(node) => world.end(node),
            }
            world.check();
        }
    }
}
