//! Members of a cluster that come and go, over the engine.

use crate::scenario::{MS, SECOND, ok, world};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use suci_proto::Event;
use suci_proto::time::{Duration, Instant};
use suci_proto::types::NodeId;
use suci_sim::options::{Options, Step};
use suci_sim::world::World;

/// All know of a member that died after this time: silence (10 s), suspicion (5 s), and the news.
/// Neighbours that die together are noticed one after another.
const DEATH: Duration = Duration::from_secs(40);

fn options(nodes: usize, seeds: usize) -> Options {
    Options {
        seeds,
        start_within: SECOND * 2,
        ..Options::quiet(nodes)
    }
}

/// The processes that a host's process knows as members.
fn known(world: &World, host: usize) -> Option<BTreeSet<(NodeId, u128)>> {
    let members = world.member(host)?.members();
    let processes = members.iter().map(|it| (it.node, it.incarnation.0));
    Some(processes.collect())
}

/// Returns the hosts of a group whose process does not know exactly the processes of the group.
fn wrong(world: &World, group: &[usize]) -> Vec<usize> {
    let own = |host: &usize| {
        let node = NodeId(world.options.node(*host));
        known(world, *host)?.into_iter().find(|it| it.0 == node)
    };
    let processes: BTreeSet<_> = group.iter().filter_map(own).collect();
    let is_wrong = |host: &&usize| known(world, **host).is_some_and(|it| it != processes);
    group.iter().filter(is_wrong).copied().collect()
}

/// Runs until all of the group know all of it. Returns how long that took.
fn settle(world: &mut World, group: &[usize], limit: Duration) -> Duration {
    let began = world.now;
    loop {
        ok(world.run_for(MS * 100));
        let wrong = wrong(world, group);
        if wrong.is_empty() {
            return world.now.since(began);
        }
        assert!(world.now.since(began) < limit, "{wrong:?} do not know all");
    }
}

fn failures(world: &World, hosts: usize) -> usize {
    let failed = |(_, event): &&(Instant, Event)| matches!(event, Event::MemberFailed { .. });
    (0..hosts)
        .map(|host| world.events(host).iter().filter(failed).count())
        .sum()
}

/// The number that the environment gives.
fn count(variable: &str, otherwise: usize) -> usize {
    let said = std::env::var(variable).ok();
    said.map_or(otherwise, |said| {
        let number = said.parse();
        number.unwrap_or_else(|_| panic!("{variable} is {said}, no number"))
    })
}

/// `SUCI_SIM_SEEDS=1000` tries a thousand seeds.
#[test]
fn members_come_and_go_under_loss_and_none_is_told_dead_by_mistake() {
    let seeds = count("SUCI_SIM_SEEDS", 1) as u64;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                let seeds_of_thread = std::iter::repeat_with(|| next.fetch_add(1, Relaxed));
                for seed in seeds_of_thread.take_while(|seed| *seed < seeds) {
                    println!("seed {seed}");
                    members_come_and_go(seed);
                }
            });
        }
    });
    println!("figure: {seeds} seeds");
}

fn members_come_and_go(seed: u64) {
    const COUNT: usize = 40;
    let all: Vec<usize> = (0..COUNT).collect();
    let mut options = options(COUNT, 2);
    options.seed = seed;
    options.faults.loss = 20_000;
    options.faults.reorder = 20_000;
    options.faults.reorder_by = MS * 5;
    let mut world = world(options);
    ok(world.run_for(SECOND * 3));
    settle(&mut world, &all, SECOND * 20);
    assert_eq!(failures(&world, COUNT), 0);
    // Four leave and come back, under the same IDs.
    for host in [3, 9, 17, 30] {
        world.apply(&Step::Close(host, SECOND * 5, SECOND * 3));
        ok(world.run_for(SECOND));
    }
    settle(&mut world, &all, SECOND * 20);
    assert_eq!(failures(&world, COUNT), 0);
    // Three die.
    for host in [0, 8, 25] {
        world.apply(&Step::Crash(host, None));
    }
    settle(&mut world, &all, DEATH);
    assert_eq!(failures(&world, COUNT), 3 * (COUNT - 3));
    // The first seed comes back.
    world.start(0);
    settle(&mut world, &all, SECOND * 20);
    // One is replaced at once, without a word: those that had a session with it find out.
    world.apply(&Step::Crash(5, Some(MS * 10)));
    ok(world.run_for(SECOND));
    settle(&mut world, &all, DEATH);
}

#[test]
fn a_divided_cluster_comes_together_again() {
    const COUNT: usize = 20;
    let all: Vec<usize> = (0..COUNT).collect();
    let (left, right) = all.split_at(COUNT / 2);
    let mut world = world(options(COUNT, 1));
    ok(world.run_for(SECOND * 3));
    settle(&mut world, &all, SECOND * 20);
    let apart = SECOND * 120;
    world.apply(&Step::Cut(left.to_vec(), true, true, apart));
    let cut = world.now;
    settle(&mut world, left, apart);
    settle(&mut world, right, apart);
    ok(world.run_until(cut + apart));
    settle(&mut world, &all, SECOND * 60);
}

#[test]
fn a_short_cut_kills_nobody() {
    const COUNT: usize = 20;
    let all: Vec<usize> = (0..COUNT).collect();
    let mut world = world(options(COUNT, 1));
    ok(world.run_for(SECOND * 3));
    settle(&mut world, &all, SECOND * 20);
    world.apply(&Step::Cut(vec![4, 5], true, true, SECOND * 12));
    ok(world.run_for(SECOND * 60));
    assert_eq!(failures(&world, COUNT), 0);
    assert_eq!(wrong(&world, &all), [0; 0]);
}

/// A crowd over real engines: all know all soon, nobody is told dead by mistake, and the traffic of
/// each is bounded. `SUCI_SIM_MEMBERS=1000` takes a thousand members.
#[test]
fn a_crowd_comes_and_goes() {
    let count = count("SUCI_SIM_MEMBERS", 100);
    let all: Vec<usize> = (0..count).collect();
    let mut world = world(options(count, 2));
    ok(world.run_for(SECOND * 3));
    let joined = settle(&mut world, &all, SECOND * 30);
    println!("all {count} know all {joined:?} after the last one started");
    let sent = |world: &World| -> Vec<_> {
        let of = |host: &usize| world.member(*host).map(|member| member.sent());
        all.iter().map(of).collect()
    };
    let (before, packets, began) = (sent(&world), world.tally.packets, world.now);
    // Each second one leaves, and comes back.
    for turn in 0..20 {
        let host = 2 + turn * 7 % (count - 2);
        world.apply(&Step::Close(host, SECOND * 5, SECOND * 2));
        ok(world.run_for(SECOND));
    }
    ok(world.run_for(SECOND * 5));
    let took = settle(&mut world, &all, SECOND * 20);
    println!("all know all {took:?} later");
    assert_eq!(failures(&world, count), 0);
    world.apply(&Step::Crash(1, None));
    let took = settle(&mut world, &all, DEATH);
    println!("all know of a death after {took:?}");
    assert_eq!(failures(&world, count), count - 1);
    let seconds = world.now.since(began).as_secs();
    // Those that were started again count from then on.
    let both = before.into_iter().zip(sent(&world));
    let both = both.filter_map(|(before, after)| Some((before?, after?)));
    let stayed = both.filter(|(before, after)| after.0 >= before.0 && after.1 >= before.1);
    let rate = |before, after| (after - before) / seconds;
    let rates = stayed.map(|(before, after)| (rate(before.1, after.1), rate(before.0, after.0)));
    let mut rates: Vec<_> = rates.collect();
    rates.sort_unstable();
    let (most, messages) = rates[rates.len() - 1];
    let median = rates[rates.len() / 2].0;
    let packets = (world.tally.packets - packets) / seconds / count as u64;
    println!(
        "each second: {median} B of a member, at most {most} B in {messages} messages; {packets} packets"
    );
    assert!(most < 20_000, "{most} B each second");
}
