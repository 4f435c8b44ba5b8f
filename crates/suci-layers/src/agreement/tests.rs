//! Members that agree while others die or are believed to be dead, in any order of messages.

use super::*;
use proptest::prelude::*;

/// Members, and the messages between them. Two members' messages keep their order; everything else
/// happens in an order that the seed decides.
struct Network {
    members: Vec<Agreement>,
    alive: Vec<bool>,
    messages: Vec<VecDeque<Vec<u8>>>,
    seed: u64,
}

impl Network {
    fn new(size: usize, seed: u64) -> Self {
        let place = |rank| Place { rank, size };
        let members = (0..size).map(|rank| Agreement::new(place(rank), contribution(rank, seed)));
        Self {
            members: members.collect(),
            alive: vec![true; size],
            messages: vec![VecDeque::new(); size * size],
            seed,
        }
    }

    fn size(&self) -> usize {
        self.members.len()
    }

    fn random(&mut self, below: usize) -> usize {
        let next = self.seed.wrapping_mul(6_364_136_223_846_793_005);
        self.seed = next.wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) as usize % below
    }

    fn is_done(&self) -> bool {
        let mut left = self.members.iter().zip(&self.alive);
        left.all(|(member, alive)| !alive || member.is_done())
    }

    /// A member dies: of its messages that are under way the last ones may be lost.
    fn kill(&mut self, rank: usize) {
        self.alive[rank] = false;
        for to in 0..self.size() {
            let link = rank * self.size() + to;
            let arrive = self.random(self.messages[link].len() + 1);
            self.messages[link].truncate(arrive);
        }
    }

    /// A member sends a message, or takes one, or notices the failure of another one.
    fn step(&mut self, rank: usize) {
        let size = self.size();
        if self.random(2) == 0 {
            // Another order between members than that in which the messages were made.
            let one = self.random(size);
            let member = &mut self.members[rank];
            let message = member.poll_send(|to| to == one);
            if let Some((to, message)) = message.or_else(|| member.poll_send(|_| true)) {
                self.messages[rank * size + to].push_back(message);
            }
            return;
        }
        let awaited: Vec<_> = self.members[rank].awaited().collect();
        if awaited.is_empty() {
            return;
        }
        let from = awaited[self.random(awaited.len())];
        if let Some(message) = self.messages[from * size + rank].pop_front() {
            let taken = self.members[rank].on_message(from, &message);
            assert_eq!(taken, Ok(()), "member {rank} of member {from}");
        } else if !self.alive[from] {
            self.members[rank].on_failed(from);
        }
    }

    /// Lets everything happen that can; up to `deaths` members die, each before one of the first
    /// `until` steps.
    fn run(&mut self, deaths: usize, until: usize) {
        let size = self.size();
        let mut killed: Vec<_> = (0..deaths)
            .map(|_| (self.random(until), self.random(size)))
            .collect();
        killed.sort_unstable();
        killed.reverse();
        for step in 0..200_000 {
            while let Some((_, rank)) = killed.pop_if(|(at, _)| *at <= step) {
                self.kill(rank);
            }
            if self.is_done() && killed.is_empty() {
                return;
            }
            let rank = self.random(size);
            if self.alive[rank] {
                self.step(rank);
            }
        }
        panic!("nobody gets further");
    }

    fn verdict(&self, rank: usize) -> &Verdict {
        self.members[rank].verdict.as_ref().unwrap()
    }
}

fn contribution(rank: usize, seed: u64) -> Knowledge {
    Knowledge {
        failed: BTreeSet::new(),
        value: !(1 << rank) & !(seed & 0xff00),
        number: (rank * 7 % 5) as u32,
    }
}

fn joined(ranks: impl Iterator<Item = usize>, seed: u64) -> Knowledge {
    ranks
        .map(|rank| contribution(rank, seed))
        .reduce(|mut one, other| {
            one.join(&other);
            one
        })
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 6_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn members_that_are_left_agree_whoever_dies_when(
        (size, deaths) in (2_usize..9).prop_flat_map(|size| (Just(size), 0..size)),
        until in prop::sample::select(vec![1_usize, 20, 100, 400, 1_500]),
        seed in any::<u64>(),
    ) {
        let mut network = Network::new(size, seed);
        network.run(deaths, until);
        let left: Vec<_> = (0..size).filter(|rank| network.alive[*rank]).collect();
        for rank in &left {
            prop_assert_eq!(network.verdict(*rank), network.verdict(left[0]));
        }
        let Verdict::Agreed(known) = network.verdict(left[0]) else {
            return Err(TestCaseError::fail("nobody is out who lives"));
        };
        prop_assert!(known.failed.iter().all(|rank| !network.alive[*rank]));
        // Values of those that died may count.
        let (most, least) = (joined(left.iter().copied(), seed), joined(0..size, seed));
        prop_assert_eq!(known.value & !most.value, 0);
        prop_assert_eq!(known.value & least.value, least.value);
        prop_assert!((most.number..=least.number).contains(&known.number));
        let rounds = network.members.iter().map(|member| member.round).max();
        prop_assert!(rounds.unwrap() as usize <= size - left.len() + 2, "{rounds:?}");
    }

    /// Two members agree, unless one of them believes that the other one failed.
    #[test]
    fn members_that_count_each_other_as_there_agree_whatever_else_they_believe(
        size in 2_usize..9,
        doubts in 0_usize..6,
        deaths in 0_usize..3,
        seed in any::<u64>(),
    ) {
        let mut network = Network::new(size, seed);
        for _ in 0..doubts {
            for _ in 0..network.random(60) {
                let rank = network.random(size);
                network.step(rank);
            }
            let (one, other) = (network.random(size), network.random(size));
            if network.members[one].awaited().any(|rank| rank == other) {
                network.members[one].on_failed(other);
            }
        }
        network.run(deaths.min(size - 1), 200);
        let agreed = |rank: usize| match &network.members[rank].verdict {
            Some(Verdict::Agreed(known)) if network.alive[rank] => Some(known),
            _ => None,
        };
        for one in 0..size {
            for other in 0..one {
                let (Some(first), Some(second)) = (agreed(one), agreed(other)) else {
                    continue;
                };
                if !first.failed.contains(&other) && !second.failed.contains(&one) {
                    prop_assert_eq!(first, second);
                }
            }
        }
    }
}

#[test]
fn equal_values_need_one_round_and_others_two() {
    for (equal, rounds) in [(true, 0), (false, 1)] {
        let mut network = Network::new(4, 9);
        if equal {
            let known = contribution(0, 9);
            let begin = |rank| Agreement::new(Place { rank, size: 4 }, known.clone());
            network.members = (0..4).map(begin).collect();
        }
        network.run(0, 1);
        assert!(network.members.iter().all(|member| member.round == rounds));
    }
}

#[test]
fn a_member_that_leaves_or_is_counted_out_is_told() {
    let mut network = Network::new(3, 1);
    network.members[2].leave();
    network.members[0].on_failed(1);
    network.run(0, 1);
    assert_eq!(network.verdict(2), &Verdict::Excluded);
    assert_eq!(network.verdict(1), &Verdict::Excluded);
    let Verdict::Agreed(known) = network.verdict(0) else {
        panic!("it is there");
    };
    assert_eq!(known.failed, BTreeSet::from([1, 2]));
}

#[test]
fn bytes_that_no_member_sends_are_refused() {
    let mut member = Agreement::new(Place { rank: 0, size: 3 }, contribution(0, 0));
    let state = |round, rank| {
        let failed = BTreeSet::from([rank]);
        let known = Knowledge {
            failed,
            ..contribution(1, 0)
        };
        Message::Round(round, known).to_bytes()
    };
    let mut cut = state(0, 2);
    cut.pop();
    for bytes in [vec![], vec![3], vec![9; 17], cut, state(0, 3), state(1, 2)] {
        assert_eq!(member.on_message(1, &bytes), Err(Unexpected::NotAwaited));
    }
    assert_eq!(member.on_message(1, &state(0, 2)), Ok(()));
}
