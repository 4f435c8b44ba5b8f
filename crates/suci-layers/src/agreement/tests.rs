//! Members that agree while others die, are silent or leave, in any order of messages.

use super::*;
use proptest::prelude::*;

/// Members, and the messages between them. Two members' messages keep their order; everything else
/// happens in an order that the seed decides.
struct Network {
    members: Vec<Agreement>,
    alive: Vec<bool>,
    /// By sender and receiver.
    messages: Vec<VecDeque<Vec<u8>>>,
    /// Pairs whose messages wait, by sender and receiver: both may take each other for silent.
    cut: BTreeSet<(usize, usize)>,
    seed: u64,
}

impl Network {
    fn new(size: usize, seed: u64) -> Self {
        let member = |rank| begun(Place { rank, size }, start(rank, seed));
        Self::of((0..size).map(member).collect(), seed)
    }

    fn of(members: Vec<Agreement>, seed: u64) -> Self {
        let size = members.len();
        Self {
            members,
            alive: vec![true; size],
            messages: vec![VecDeque::new(); size * size],
            cut: BTreeSet::new(),
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
        left.all(|(member, alive)| !alive || member.verdict.is_some())
    }

    /// A member dies: of its messages that are under way the last ones may be lost.
    fn kill(&mut self, rank: usize) {
        self.alive[rank] = false;
        self.send(rank);
        for to in 0..self.size() {
            let link = rank * self.size() + to;
            let arrive = self.random(self.messages[link].len() + 1);
            self.messages[link].truncate(arrive);
        }
    }

    /// The messages of two members wait, in both directions or in one.
    fn cut(&mut self, one: usize, other: usize) {
        self.cut.insert((one, other));
        if self.random(4) != 0 {
            self.cut.insert((other, one));
        }
    }

    fn send(&mut self, rank: usize) {
        let size = self.size();
        while let Some((to, message)) = self.members[rank].poll_send() {
            self.messages[rank * size + to].push_back(message);
        }
    }

    /// A member takes a message of `from`, or notices its failure.
    fn step(&mut self, rank: usize, from: usize) {
        let size = self.size();
        self.send(rank);
        if !self.members[rank].awaited().any(|one| one == from) {
            return;
        }
        let is_cut = self.cut.contains(&(from, rank));
        let message = match is_cut {
            true => None,
            false => self.messages[from * size + rank].pop_front(),
        };
        if let Some(message) = message {
            let taken = self.members[rank].on_message(from, &message);
            assert_eq!(taken, Ok(()), "member {rank} of member {from}: {message:?}");
        } else if !self.alive[from] && (!is_cut || self.random(4) == 0) {
            self.members[rank].on_failed(from, Absence::Dead);
        } else if is_cut && self.random(8) == 0 {
            self.members[rank].on_failed(from, Absence::Silent);
        }
        self.send(rank);
    }

    fn any_step(&mut self) {
        let (rank, from) = (self.random(self.size()), self.random(self.size()));
        if self.alive[rank] {
            self.step(rank, from);
        }
    }

    /// Lets everything happen that can, until all that live have a result. Before one of the first
    /// `until` steps `deaths` members die, as many leave as `leaves` says, and pairs are cut off.
    fn run(&mut self, (deaths, leaves, cuts): (usize, usize, usize), until: usize) {
        let mut faults = Vec::new();
        for fault in 0..deaths + leaves + cuts {
            let pair = (self.random(self.size()), self.random(self.size()));
            faults.push((self.random(until), fault, pair));
        }
        faults.sort_unstable();
        faults.reverse();
        for step in 0..100_000 {
            while let Some((_, fault, (one, other))) = faults.pop_if(|(at, ..)| *at <= step) {
                if fault < deaths {
                    self.kill(one);
                } else if fault >= deaths + leaves {
                    self.cut(one, other);
                } else if self.alive[one] {
                    self.members[one].leave();
                    self.send(one);
                }
            }
            // Messages that were cut off come, late.
            if step % 64 == 63 && self.random(4) == 0 {
                self.cut.pop_first();
            }
            if self.is_done() && faults.is_empty() {
                return;
            }
            self.any_step();
        }
        panic!("nobody gets further");
    }

    fn verdict(&self, rank: usize) -> &Verdict {
        self.members[rank].verdict.as_ref().unwrap()
    }

    fn agreed_by(&self, rank: usize) -> &Knowledge {
        let mut agreed = self.agreed();
        agreed.find(|(by, _)| *by == rank).unwrap().1
    }

    fn agreed(&self) -> impl Iterator<Item = (usize, &Knowledge)> {
        let alive = (0..self.size()).filter(|rank| self.alive[*rank]);
        alive.filter_map(|rank| match &self.members[rank].verdict {
            Some(Verdict::Agreed(known)) => Some((rank, known)),
            _ => None,
        })
    }

    /// Checks that the members that are left have one result, of those that contributed to it.
    fn check(&self, seed: u64) {
        let mut agreed = self.agreed();
        let Some((first, known)) = agreed.next() else {
            return;
        };
        assert!(!known.failed.contains(&first), "{first} {known:?}");
        for (rank, other) in agreed {
            assert_eq!(known, other, "of {first} and {rank}");
        }
        let left = (0..self.size()).filter(|rank| !known.failed.contains(rank));
        assert_eq!(*known, joined(left, self.size(), seed));
    }
}

fn begun(place: Place, start: AgreementStart) -> Agreement {
    let mut member = Agreement::new(place, start);
    assert!(member.begin() && !member.begin());
    member
}

fn start(rank: usize, seed: u64) -> AgreementStart {
    AgreementStart {
        known: Knowledge {
            failed: BTreeSet::new(),
            value: !(1 << rank) & !(seed & 0xff00),
            number: (rank * 7 % 5) as u32,
        },
        ..AgreementStart::default()
    }
}

/// Returns what these members of `size` agree on.
fn joined(left: impl Iterator<Item = usize>, size: usize, seed: u64) -> Knowledge {
    let mut known = Knowledge {
        failed: (0..size).collect(),
        value: u64::MAX,
        number: 0,
    };
    for rank in left {
        let own = start(rank, seed).known;
        known.failed.remove(&rank);
        known.value &= own.value;
        known.number = known.number.max(own.number);
    }
    known
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 6_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Only members that died are left out, and nobody that lives.
    #[test]
    fn members_that_are_left_agree_whoever_dies_when(
        (size, deaths) in (2_usize..9).prop_flat_map(|size| (Just(size), 0..size)),
        until in prop::sample::select(vec![1_usize, 20, 100, 400, 1_500]),
        seed in any::<u64>(),
    ) {
        let mut network = Network::new(size, seed);
        network.run((deaths, 0, 0), until);
        network.check(seed);
        prop_assert_eq!(
            network.agreed().count(),
            network.alive.iter().filter(|alive| **alive).count()
        );
        if let Some((_, known)) = network.agreed().next() {
            prop_assert!(known.failed.iter().all(|rank| !network.alive[*rank]));
        }
    }

    /// Nobody waits for ever, whichever members die, leave or are cut off in between.
    #[test]
    fn all_that_get_a_result_get_the_same_whatever_happens(
        size in 2_usize..8,
        faults in (0_usize..4, 0_usize..3, 0_usize..12),
        until in prop::sample::select(vec![1_usize, 20, 100, 400]),
        seed in any::<u64>(),
    ) {
        let mut network = Network::new(size, seed);
        network.run(faults, until);
        network.check(seed);
    }

    /// Of two parts that do not hear each other, the larger one goes on, or the one with rank 0.
    #[test]
    fn one_part_of_a_divided_network_goes_on(
        size in 2_usize..8,
        parts in any::<u8>(),
        before in 0_usize..40,
        seed in any::<u64>(),
    ) {
        let mut network = Network::new(size, seed);
        for _ in 0..before {
            network.any_step();
        }
        let in_first = |rank: usize| parts >> rank & 1 == parts & 1;
        let first = (0..size).filter(|rank| in_first(*rank)).count();
        for one in 0..size {
            let others = (0..size).filter(|other| in_first(one) != in_first(*other));
            network.cut.extend(others.map(|other| (one, other)));
        }
        for _ in 0..20_000 {
            if !network.is_done() {
                network.any_step();
            }
        }
        prop_assert!(network.is_done());
        network.check(seed);
        let larger = 2 * first >= size;
        for rank in (0..size).filter(|rank| in_first(*rank) == larger) {
            prop_assert!(matches!(network.verdict(rank), Verdict::Agreed(_)), "{rank}");
        }
    }
}

/// Returns a network of members that all begin as `change` says.
fn network(size: usize, change: impl Fn(&mut AgreementStart)) -> Network {
    let member = |rank| {
        let mut start = start(rank, 1);
        change(&mut start);
        begun(Place { rank, size }, start)
    };
    Network::of((0..size).map(member).collect(), 1)
}

fn ranks<const N: usize>(ranks: [usize; N]) -> BTreeSet<usize> {
    BTreeSet::from(ranks)
}

/// Takes all messages of one member that another one gets.
fn deliver(network: &mut Network, from: usize, to: usize) {
    network.send(from);
    while !network.messages[from * network.size() + to].is_empty() {
        network.step(to, from);
    }
}

#[test]
fn without_failures_each_member_sends_its_leader_two_messages() {
    let mut network = network(5, |_| {});
    network.run((0, 0, 0), 1);
    network.check(1);
    // Join, accept, and the decision to each; the leader proposes.
    let sent: Vec<_> = network.members.iter().map(Agreement::stage).collect();
    assert!(sent.iter().all(|sent| (4..=8).contains(sent)), "{sent:?}");
    assert!(
        network
            .members
            .iter()
            .all(|member| member.failed.is_empty())
    );
}

#[test]
fn a_member_that_leaves_or_is_counted_out_is_told() {
    let mut network = network(5, |_| {});
    network.members[3].leave();
    deliver(&mut network, 3, 0);
    network.members[0].on_failed(1, Absence::Silent);
    network.run((0, 0, 0), 1);
    assert_eq!(network.verdict(3), &Verdict::Excluded);
    assert_eq!(network.verdict(1), &Verdict::Excluded);
    let agreed: Vec<_> = network.agreed().map(|(rank, _)| rank).collect();
    assert_eq!(agreed, [0, 2, 4]);
    let (_, known) = network.agreed().next().unwrap();
    assert_eq!(known.failed, ranks([1, 3]));
}

/// Their operations would fail again and again, if both went on.
#[test]
fn of_two_members_that_do_not_hear_each_other_one_goes_on() {
    for (silent, out) in [(vec![(2, 3)], 3), (vec![(2, 3), (4, 2)], 2)] {
        let place = |rank| Place { rank, size: 5 };
        let member = |rank| Agreement::new(place(rank), start(rank, 1));
        let mut members: Vec<_> = (0..5).map(member).collect();
        for (one, other) in silent {
            members[one].on_failed(other, Absence::Silent);
        }
        for member in &mut members {
            member.begin();
        }
        let mut network = Network::of(members, 1);
        network.run((0, 0, 0), 1);
        network.check(1);
        assert_eq!(network.agreed().next().unwrap().1.failed, ranks([out]));
        assert_eq!(network.agreed().count(), 4);
    }
}

/// The other member may hear that one, and think that all is well.
#[test]
fn a_leader_tells_a_member_who_does_not_hear_it() {
    let place = |rank| Place { rank, size: 3 };
    let mut members: Vec<_> = (0..3)
        .map(|rank| Agreement::new(place(rank), start(rank, 1)))
        .collect();
    members[2].on_failed(1, Absence::Silent);
    // The message for the other one is lost with their session.
    while members[2].poll_send().is_some() {}
    for member in &mut members {
        member.begin();
    }
    let mut network = Network::of(members, 1);
    network.run((0, 0, 0), 1);
    network.check(1);
    assert_eq!(network.agreed_by(0).failed, ranks([2]));
}

/// It is counted in, since it accepted, but takes part in nothing more.
#[test]
fn members_know_who_left_and_who_has_not_spoken_last() {
    let mut network = network(4, |_| {});
    for rank in 1..4 {
        deliver(&mut network, rank, 0);
    }
    deliver(&mut network, 0, 1);
    network.members[3].leave();
    deliver(&mut network, 3, 0);
    deliver(&mut network, 1, 0);
    assert_eq!(network.agreed_by(0).failed, ranks([]));
    assert_eq!(network.members[0].left(), &ranks([3]));
    assert_eq!(network.members[0].unheard(), ranks([1, 2]));
}

/// The one of two that is left cannot know whether the other one goes on, but if that died.
#[test]
fn of_two_members_the_second_goes_on_only_if_the_first_is_dead() {
    for (absence, verdict) in [
        (Absence::Silent, Verdict::CutOff),
        (
            Absence::Dead,
            Verdict::Agreed(joined([1].into_iter(), 2, 1)),
        ),
    ] {
        let mut network = network(2, |_| {});
        network.members[1].on_failed(0, absence);
        assert_eq!(network.verdict(1), &verdict);
    }
    let mut first = network(2, |_| {});
    first.members[0].on_failed(1, Absence::Silent);
    assert_eq!(
        first.verdict(0),
        &Verdict::Agreed(joined([0].into_iter(), 2, 1))
    );
}

#[test]
fn parts_go_on_if_all_members_wish_so() {
    let mut network = network(2, |start| start.parts_go_on = true);
    network.members[0].on_failed(1, Absence::Silent);
    network.members[1].on_failed(0, Absence::Silent);
    for rank in 0..2 {
        let alone = joined([rank].into_iter(), 2, 1);
        assert_eq!(network.verdict(rank), &Verdict::Agreed(alone));
    }
}

/// The dead leader may have decided, and died with a member that heard of it.
#[test]
fn a_leader_proposes_what_members_accepted_from_an_earlier_one() {
    let mut network = network(5, |_| {});
    // The first leader counts on 0, 1 and 2 only, and only 1 gets its proposal.
    network.members[0].on_failed(3, Absence::Silent);
    network.members[0].on_failed(4, Absence::Silent);
    for rank in 1..3 {
        deliver(&mut network, rank, 0);
    }
    deliver(&mut network, 0, 1);
    network.kill(0);
    network.messages[..5].iter_mut().for_each(VecDeque::clear);
    network.run((0, 0, 0), 1);
    let decided = joined(0..3, 5, 1);
    for rank in 1..3 {
        assert_eq!(network.verdict(rank), &Verdict::Agreed(decided.clone()));
    }
    assert_eq!(network.verdict(3), &Verdict::Excluded);
}

/// The others may have gone on with one that is only silent now.
#[test]
fn a_member_is_cut_off_that_reaches_neither_half_nor_all_that_live() {
    let mut network = network(5, |_| {});
    for dead in [1, 2] {
        network.members[3].on_failed(dead, Absence::Dead);
        network.members[4].on_failed(dead, Absence::Dead);
    }
    assert_eq!(network.members[3].verdict(), None);
    network.members[3].on_failed(0, Absence::Silent);
    assert_eq!(network.verdict(3), &Verdict::CutOff);
    // With the news that it is dead, too, they would have gone on.
    network.members[4].on_failed(0, Absence::Dead);
    deliver(&mut network, 3, 4);
    let alone = joined([4].into_iter(), 5, 1);
    assert_eq!(network.verdict(4), &Verdict::Agreed(alone));
}

/// Another member knows for certain of what is only silence here.
#[test]
fn members_learn_of_deaths_from_each_other() {
    let mut network = network(3, |_| {});
    for dead in [0, 1] {
        network.alive[dead] = false;
    }
    network.members[1].on_failed(0, Absence::Dead);
    deliver(&mut network, 1, 2);
    assert!(network.members[2].dead.contains(&0));
    network.members[2].on_failed(1, Absence::Dead);
    assert!(matches!(network.verdict(2), Verdict::Agreed(_)));
}

/// It may have told some members that died with it something else.
#[test]
fn a_decision_of_a_dead_member_comes_too_late_after_its_death_was_told() {
    let mut network = network(2, |_| {});
    network.members[1].on_failed(0, Absence::Dead);
    let late = Message::Decided(Knowledge::default()).to_bytes();
    assert_eq!(
        network.members[1].on_message(0, &late),
        Err(Unexpected::NotAwaited)
    );
}

/// A leader counts members as dead only once those that accepted take nothing from them.
#[test]
fn a_leader_waits_until_members_take_nothing_from_the_dead() {
    let mut network = network(4, |_| {});
    network.members[1].on_failed(0, Absence::Dead);
    for rank in [2, 3] {
        network.members[rank].on_failed(0, Absence::Dead);
        deliver(&mut network, rank, 1);
    }
    deliver(&mut network, 1, 2);
    deliver(&mut network, 2, 1);
    assert_eq!(network.members[1].verdict(), None, "two of four without 0");
    network.members[1].on_failed(3, Absence::Dead);
    assert_eq!(network.members[1].verdict(), None, "2 may hear of 3 still");
    deliver(&mut network, 1, 2);
    deliver(&mut network, 2, 1);
    assert!(matches!(network.verdict(1), Verdict::Agreed(_)));
}

/// It may have left an earlier agreement after the others decided to count it in.
#[test]
fn a_member_that_is_dead_from_the_beginning_is_left_out() {
    let mut network = network(3, |_| {});
    network.alive[0] = false;
    let start = AgreementStart {
        dead: ranks([0]),
        ..start(1, 1)
    };
    network.members[1] = begun(Place { rank: 1, size: 3 }, start);
    network.run((0, 0, 0), 1);
    assert_eq!(network.agreed().next().unwrap().1.failed, ranks([0]));
    assert_eq!(network.agreed().count(), 2);
}

#[test]
fn messages_tell_whether_their_sender_has_a_result() {
    let result = |message: Message| Agreement::has_result(&message.to_bytes(), 3);
    assert_eq!(result(Message::Decided(Knowledge::default())), Some(true));
    assert_eq!(result(Message::Left), Some(false));
    assert_eq!(result(Message::Doubt(ranks([1]))), None);
}

#[test]
fn messages_are_parsed_as_they_were_made() {
    let known = Knowledge {
        failed: ranks([0, 2]),
        value: 7 << 40,
        number: 9,
    };
    let join = |accepted| {
        Message::Join(Join {
            value: 3,
            number: 4,
            silent: ranks([2]),
            accepted,
        })
    };
    for message in [
        join(None),
        join(Some((1, known.clone()))),
        Message::Propose(known.clone()),
        Message::Accept(ranks([1])),
        Message::Decided(known),
        Message::Dead(ranks([0, 1, 2])),
        Message::Doubt(ranks([2])),
        Message::Left,
    ] {
        let bytes = message.to_bytes();
        assert_eq!(Message::from_bytes(&bytes, 3), Some(message));
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(Message::from_bytes(&longer, 3), None);
    }
}

#[test]
fn bytes_that_no_member_sends_are_refused() {
    let mut network = network(3, |_| {});
    let member = &mut network.members[2];
    let dead = |rank| Message::Dead(ranks([rank])).to_bytes();
    let mut cut = dead(0);
    cut.pop();
    let proposal = Message::Propose(Knowledge::default()).to_bytes();
    let accept = Message::Accept(BTreeSet::new()).to_bytes();
    // It joined member 0, and proposed nothing.
    for bytes in [vec![], vec![9], vec![1; 12], cut, dead(3), proposal, accept] {
        assert_eq!(member.on_message(1, &bytes), Err(Unexpected::NotAwaited));
    }
    assert_eq!(member.on_message(1, &dead(0)), Ok(()));
}

/// Else messages to a member that takes none would pile up.
#[test]
fn messages_again_and_again_are_answered_once() {
    let place = |rank| Place { rank, size: 4 };
    let sent = |member: &mut Agreement| std::iter::from_fn(|| member.poll_send()).count();
    // A leader that proposes.
    let mut member = begun(place(1), start(1, 1));
    sent(&mut member);
    let proposal = Message::Propose(start(0, 1).known).to_bytes();
    assert!(member.on_message(0, &proposal).is_ok());
    assert_eq!(sent(&mut member), 1);
    assert!(member.on_message(0, &proposal).is_err());
    assert_eq!(sent(&mut member), 0);
    // A member that hears others and does not hear them, in turns, and its leader and itself.
    let mut leader = begun(place(0), start(0, 1));
    sent(&mut leader);
    for silent in [ranks([0, 1, 3]), ranks([]), ranks([0, 1, 2])] {
        let known = start(3, 1).known;
        let join = Message::Join(Join {
            value: known.value,
            number: known.number,
            silent,
            accepted: None,
        });
        leader.on_message(3, &join.to_bytes()).unwrap();
    }
    assert_eq!(sent(&mut leader), 2);
}
