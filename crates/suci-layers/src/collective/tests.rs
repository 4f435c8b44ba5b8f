//! Each operation among 1 to 19 members, whatever the order of messages, beside a direct
//! calculation.

use super::*;
use crate::element::{Custom, Element, Sum, bytes_of, elements_of};
use proptest::prelude::*;
use std::collections::VecDeque;
use suci_proto::LentMemory;

const LENGTHS: [usize; 6] = [0, 1, 5, LONG / 8, LONG / 8 + 3, LONGEST_MESSAGE / 8 * 2 + 1];

/// Members and the messages between them. Two members' messages keep their order; everything else
/// happens in an order that the seed decides.
struct Network {
    members: Vec<Collective>,
    /// Each says whether its bytes are in their place.
    messages: Vec<VecDeque<(Vec<u8>, bool)>>,
    seed: u64,
    /// The number of messages that were placed.
    placed: usize,
}

impl Network {
    fn new(size: usize, seed: u64, begin: impl Fn(Place) -> Collective) -> Self {
        let members = (0..size).map(|rank| begin(Place { rank, size }));
        Self {
            members: members.collect(),
            messages: vec![VecDeque::new(); size * size],
            seed,
            placed: 0,
        }
    }

    fn random(&mut self, below: usize) -> usize {
        let next = self.seed.wrapping_mul(6_364_136_223_846_793_005);
        self.seed = next.wrapping_add(1);
        (self.seed >> 33) as usize % below
    }

    fn is_done(&self) -> bool {
        self.members.iter().all(Collective::is_done)
    }

    /// Puts a message on its way. Sometimes its bytes go to their place at once, before messages of
    /// others and earlier ones of this member that are placed, too.
    fn send(&mut self, rank: usize, to: usize, bytes: Vec<u8>) {
        let pair = rank * self.members.len() + to;
        let may_place = self.messages[pair].iter().all(|(_, placed)| *placed);
        let mut place = match may_place && self.random(3) > 0 {
            true => self.members[to].place(rank, bytes.len() as u64),
            false => None,
        };
        if let Some(place) = &mut place {
            place.write(0, &bytes);
        }
        let placed = place.is_some();
        self.placed += usize::from(placed);
        self.messages[pair].push_back((bytes, placed));
    }

    /// Lets a member send all it can and take at most one message. Returns whether it did anything.
    fn step(&mut self, rank: usize) -> bool {
        let size = self.members.len();
        let mut worked = false;
        // Queues may be full: some messages are sent later.
        while self.random(5) > 0
            && let Some((to, bytes)) = self.members[rank].poll_send(|_| true)
        {
            self.send(rank, to, bytes.to_vec());
            worked = true;
        }
        let member = &self.members[rank];
        check_hazards(member);
        let mut awaited: Vec<_> = member.awaited().collect();
        awaited.retain(|from| member.can_take(*from));
        if awaited.is_empty() {
            return worked;
        }
        let from = awaited[self.random(awaited.len())];
        let message = self.messages[from * size + rank].pop_front();
        match &message {
            Some((_, true)) => self.members[rank].on_placed(from).unwrap(),
            Some((bytes, false)) => self.members[rank].on_message(from, bytes).unwrap(),
            None => {}
        }
        worked || message.is_some()
    }
}

/// Runs an operation and returns the results.
fn run(size: usize, seed: u64, begin: impl Fn(Place) -> Collective) -> Vec<Vec<u64>> {
    let mut network = Network::new(size, seed, begin);
    let mut idle = 0;
    while !network.is_done() {
        assert!(idle < 1_000 + 100 * size * size, "nobody gets further");
        let rank = network.random(size);
        idle = if network.step(rank) { 0 } else { idle + 1 };
    }
    assert!(
        network.messages.iter().all(VecDeque::is_empty),
        "a message too many"
    );
    let result = |mut member: Collective| {
        let bytes = member.take_data();
        let mut result = vec![0_u64; bytes.len() / 8];
        elements_of(&bytes, &mut result);
        result
    };
    network.members.into_iter().map(result).collect()
}

/// No receive of a round touches what another receive writes.
fn check_hazards(member: &Collective) {
    let Some(round) = member.rounds.get(member.round) else {
        return;
    };
    for (at, receive) in round.receives.iter().enumerate() {
        for other in round.receives.iter().skip(at + 1) {
            assert!(!receive.slice.overlaps(&other.slice), "{round:?}");
        }
    }
}

/// Members that send to each other acknowledge with their messages.
#[test]
fn members_of_a_barrier_send_to_those_that_send_to_them() {
    for size in [2, 4, 8, 16] {
        for rank in 0..size {
            for round in Collective::barrier(Place { rank, size }).rounds {
                let peer = |one: &Transfer| one.peer;
                let to: Vec<_> = round.sends.iter().map(peer).collect();
                let from: Vec<_> = round.receives.iter().map(peer).collect();
                assert_eq!(to, from);
            }
        }
    }
}

/// The bytes of messages that replace data go to these as they come; others are combined later, and
/// those that another length, or an earlier message of the member is for, do not.
#[test]
fn messages_that_replace_data_have_a_place() {
    let at = |rank| Place { rank, size: 2 };
    let length = LONGEST_MESSAGE + 8;
    let mut leaf = Collective::broadcast(at(1), 0, vec![0; length]);
    assert!(leaf.place(0, 8).is_none() && leaf.place(1, 8).is_none());
    let mut first = leaf.place(0, LONGEST_MESSAGE as u64).unwrap();
    let mut second = leaf.place(0, 8).unwrap();
    assert!(leaf.place(0, 8).is_none(), "there is no third");
    second.write(4, &[2; 4]);
    second.write(5, &[3; 4]);
    first.write(0, &vec![1; LONGEST_MESSAGE]);
    second.write(0, &[2; 4]);
    leaf.on_placed(0).unwrap();
    assert!(!leaf.is_done());
    leaf.on_placed(0).unwrap();
    assert_eq!(leaf.on_placed(0), Err(Unexpected::NotAwaited));
    assert!(leaf.is_done());
    let data = leaf.take_data();
    assert!(data.iter().eq([1; LONGEST_MESSAGE].iter().chain(&[2; 8])));
    // Late bytes change nothing.
    first.write(0, &[9]);
    let sum = Combine::new::<u64, _>(Sum);
    let mut root = Collective::reduce(at(0), 0, vec![0; 8], sum);
    assert!(root.place(1, 8).is_none());
    assert_eq!(root.on_placed(1), Err(Unexpected::NotAwaited));
}

/// The data of a member.
fn input(rank: usize, length: usize) -> Vec<u64> {
    let element = |at: usize| (rank as u64 + 1) * 0x1_0000_0001 + at as u64 * 97;
    (0..length).map(element).collect()
}

/// Combines two affine functions x -> ax + b, each as two halves of a word: not commutative.
fn after(left: u64, right: u64) -> u64 {
    let halves = |word: u64| ((word >> 32) as u32, word as u32);
    let ((a, b), (c, d)) = (halves(left), halves(right));
    let (e, f) = (a.wrapping_mul(c), a.wrapping_mul(d).wrapping_add(b));
    (u64::from(e) << 32) | u64::from(f)
}

/// Combines the inputs of members `from` to `to`, in their order.
fn fold(members: core::ops::Range<usize>, length: usize, sum: bool) -> Vec<u64> {
    let inputs = members.map(|rank| input(rank, length));
    let pair = |left: Vec<u64>, right: Vec<u64>| {
        let apply = |(left, right): (&u64, &u64)| match sum {
            true => left.wrapping_add(*right),
            false => after(*left, *right),
        };
        left.iter().zip(&right).map(apply).collect()
    };
    inputs.reduce(pair).unwrap_or_default()
}

fn combine(sum: bool) -> Combine {
    match sum {
        true => Combine::new::<u64, _>(Sum),
        false => Combine::new::<u64, _>(Custom(after)),
    }
}

fn arguments() -> impl Strategy<Value = (usize, usize, usize, u64, bool)> {
    let length = prop::sample::select(LENGTHS.to_vec());
    let sizes = (1_usize..20).prop_flat_map(|size| (Just(size), 0..size));
    (sizes, length, any::<u64>(), any::<bool>())
        .prop_map(|((size, root), length, seed, sum)| (size, root, length, seed, sum))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 150,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_barrier_ends_for_nobody_before_all_began((size, late, _, seed, _) in arguments()) {
        let mut network = Network::new(size, seed, Collective::barrier);
        let others: Vec<_> = (0..size).filter(|rank| *rank != late).collect();
        for _ in 0..40 * size * others.len().min(1) {
            let rank = others[network.random(others.len())];
            network.step(rank);
        }
        prop_assert!(others.iter().all(|rank| !network.members[*rank].is_done()));
        for _ in 0..100 {
            (0..size).for_each(|rank| _ = network.step(rank));
        }
        prop_assert!(network.is_done());
    }

    #[test]
    fn all_get_the_roots_data((size, root, length, seed, _) in arguments()) {
        let results = run(size, seed, |place| {
            let own = if place.rank == root { input(root, length) } else { vec![0; length] };
            Collective::broadcast(place, root, bytes_of(&own))
        });
        for result in results {
            prop_assert_eq!(&result, &input(root, length));
        }
    }

    #[test]
    fn the_root_gets_the_combination((size, root, length, seed, sum) in arguments()) {
        let results = run(size, seed, |place| {
            let own = bytes_of(&input(place.rank, length));
            Collective::reduce(place, root, own, combine(sum))
        });
        prop_assert_eq!(&results[root], &fold(0..size, length, sum));
    }

    #[test]
    fn all_get_the_combination((size, _, length, seed, sum) in arguments()) {
        let results = run(size, seed, |place| {
            Collective::allreduce(place, bytes_of(&input(place.rank, length)), combine(sum))
        });
        for result in results {
            prop_assert_eq!(&result, &fold(0..size, length, sum));
        }
    }

    #[test]
    fn scans_combine_up_to_the_member((size, _, length, seed, sum) in arguments()) {
        let own = |place: Place| bytes_of(&input(place.rank, length));
        let scans = run(size, seed, |place| Collective::scan(place, own(place), combine(sum)));
        let exclusive =
            run(size, seed, |place| Collective::exclusive_scan(place, own(place), combine(sum)));
        for rank in 0..size {
            prop_assert_eq!(&scans[rank], &fold(0..rank + 1, length, sum));
            if rank > 0 {
                prop_assert_eq!(&exclusive[rank], &fold(0..rank, length, sum));
            }
        }
    }

    #[test]
    fn parts_come_together_in_order(
        (size, root, length, seed, equal) in arguments(),
    ) {
        let elements = |rank: usize| match equal {
            true => length,
            false => (length + rank * 7) % (length + 9),
        };
        let lengths: Vec<_> = (0..size).map(|rank| 8 * elements(rank)).collect();
        let all: Vec<_> = (0..size).flat_map(|rank| input(rank, elements(rank))).collect();
        let own = |place: Place| bytes_of(&input(place.rank, elements(place.rank)));
        let gathered =
            run(size, seed, |place| Collective::gather(place, root, &lengths, own(place)));
        prop_assert_eq!(&gathered[root], &all);
        for everywhere in run(size, seed, |place| {
            Collective::allgather(place, &lengths, &own(place))
        }) {
            prop_assert_eq!(&everywhere, &all);
        }
        let scattered = run(size, seed, |place| {
            let all = if place.rank == root { bytes_of(&all) } else { Vec::new() };
            Collective::scatter(place, root, &lengths, all)
        });
        for rank in (0..size).filter(|rank| *rank != root) {
            prop_assert_eq!(&scattered[rank], &input(rank, elements(rank)));
        }
    }

    #[test]
    fn each_part_reaches_its_member((size, _, length, seed, equal) in arguments()) {
        let elements = |from: usize, to: usize| match equal {
            true => length / size,
            false => (from * 5 + to * 3) % 11,
        };
        let part = |from: usize, to: usize| input(from * size + to, elements(from, to));
        let results = run(size, seed, |place| {
            let rank = place.rank;
            let sent: Vec<_> = (0..size).map(|to| 8 * elements(rank, to)).collect();
            let received: Vec<_> = (0..size).map(|from| 8 * elements(from, rank)).collect();
            let all: Vec<_> = (0..size).flat_map(|to| part(rank, to)).collect();
            Collective::all_to_all(place, &sent, &received, &bytes_of(&all))
        });
        for (rank, result) in results.iter().enumerate() {
            let wanted: Vec<_> = (0..size).flat_map(|from| part(from, rank)).collect();
            prop_assert_eq!(result, &wanted);
        }
    }
}

/// Its partner needs the data as they were.
#[test]
fn data_that_are_to_be_sent_are_not_combined_before() {
    let place = Place { rank: 0, size: 2 };
    let mut member = Collective::allreduce(place, bytes_of(&[5_u64]), combine(true));
    let theirs = bytes_of(&[7_u64]);
    assert!(!member.can_take(1));
    assert_eq!(member.on_message(1, &theirs), Err(Unexpected::NotAwaited));
    assert_eq!(
        member.poll_send(|_| true),
        Some((1, bytes_of(&[5_u64]).into()))
    );
    member.unsend();
    assert!(!member.can_take(1));
    let before = member.stage();
    assert!(member.poll_send(|_| true).is_some());
    assert_ne!(
        member.stage(),
        before,
        "another driver may have the message"
    );
    assert_eq!(member.on_message(1, &theirs), Ok(()));
    assert!(member.is_done());
    assert_eq!(member.take_data(), bytes_of(&[12_u64]));
}

/// A program's element, of a size that no message has a multiple of.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pair(u64, u32);

impl Element for Pair {
    const SIZE: usize = 12;
    const NAME: &'static str = "pair";

    fn read(bytes: &[u8]) -> Self {
        let (word, half) = bytes.split_at(8);
        Self(u64::read(word), u32::read(half))
    }

    fn write(self, bytes: &mut [u8]) {
        let (word, half) = bytes.split_at_mut(8);
        self.0.write(word);
        self.1.write(half);
    }
}

#[test]
fn elements_are_not_cut() {
    let add = |a: Pair, b: Pair| Pair(a.0 + b.0, a.1 + b.1);
    let element = |rank: usize, at: usize| Pair((rank + at) as u64 * 0xffff_ffff, at as u32);
    let length = 2 * LONGEST_MESSAGE / Pair::SIZE + 5;
    for size in 2..5 {
        let list = |rank: usize| (0..length).map(move |at| element(rank, at));
        let begin = |place: Place| {
            let own: Vec<_> = list(place.rank).collect();
            let combine = Combine::new::<Pair, _>(Custom(add));
            Collective::allreduce(place, bytes_of(&own), combine)
        };
        let mut network = Network::new(size, 3, begin);
        while !network.is_done() {
            let rank = network.random(size);
            network.step(rank);
        }
        let mut result = vec![Pair(0, 0); length];
        elements_of(&network.members[0].take_data(), &mut result);
        let sum = |at: usize| (0..size).map(|rank| element(rank, at)).reduce(add).unwrap();
        assert!(result.iter().enumerate().all(|(at, one)| *one == sum(at)));
    }
}

#[test]
fn a_message_of_another_length_or_member_is_refused() {
    let place = Place { rank: 1, size: 3 };
    let mut member = Collective::broadcast(place, 0, vec![0; 4]);
    assert!(member.poll_send(|_| true).is_none());
    assert_eq!(member.on_message(2, &[1; 4]), Err(Unexpected::NotAwaited));
    let wrong = Unexpected::Length {
        came: 5,
        awaited: 4,
    };
    assert_eq!(member.on_message(0, &[1; 5]), Err(wrong));
    assert_eq!(member.on_message(0, &[1; 4]), Ok(()));
    assert!(member.poll_send(|_| true).is_none() && member.is_done());
}

#[test]
fn long_buffers_cross_each_link_about_twice_however_many_members_there_are() {
    for size in [3, 8, 17] {
        let length = 8 * (LONG / 8) * 3;
        let sent = |rank| -> usize {
            let place = Place { rank, size };
            let member = Collective::allreduce(place, vec![0; length], combine(true));
            let sends = member.rounds.iter().flat_map(|round| &round.sends);
            sends.map(|send| send.slice.range.len()).sum()
        };
        let sent: Vec<_> = (0..size).map(sent).collect();
        assert!(
            sent.iter().all(|bytes| *bytes <= 2 * length),
            "{size}: {sent:?}"
        );
    }
}
