//! Clusters whose members come and go.

use crate::network::{Network, SILENCE};
use std::time::Duration;
use suci_layers::membership::{Change, JoinState};
use suci_proto::types::NodeId;

/// A member that fails is known to all after this time: it is lost, it does not refute that, and
/// the news spreads.
const DEATH: Duration = Duration::from_secs(30);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A settled cluster of members that joined through node 0.
fn cluster(count: u32) -> Network {
    let mut network = Network::new(u64::from(count));
    for node in 0..count {
        network.start(node, &[0]);
        network.run(Duration::from_millis(2));
    }
    network.settle(secs(30));
    network
}

fn failures(network: &Network) -> usize {
    let all = network.processes.values().flat_map(|it| &it.changes);
    all.filter(|(_, change)| matches!(change, Change::Failed(_)))
        .count()
}

#[test]
fn all_learn_of_all_through_one_seed() {
    for count in [1, 2, 3, 5, 30] {
        let network = cluster(count);
        for (node, process) in &network.processes {
            assert_eq!(process.member.join_state(), JoinState::Joined);
            let joined: Vec<_> = process.changes.iter().map(|(_, it)| it.node()).collect();
            assert_eq!(
                joined.len(),
                count as usize - 1,
                "{node} {:?}",
                process.changes
            );
        }
        assert_eq!(failures(&network), 0);
    }
}

#[test]
fn a_member_that_leaves_is_told_as_left() {
    let mut network = cluster(20);
    network.leave(7);
    let took = network.settle(secs(10));
    assert!(took <= secs(2), "{took:?}");
    for (_, process) in network.processes.iter().filter(|it| *it.0 != NodeId(7)) {
        assert_eq!(process.changes.last().unwrap().1, Change::Left(NodeId(7)));
    }
    assert_eq!(failures(&network), 0);
}

#[test]
fn a_member_that_dies_is_told_as_failed() {
    let mut network = cluster(20);
    network.kill(7);
    let took = network.settle(DEATH);
    assert!(took > SILENCE, "{took:?}");
    for (_, process) in network.processes.iter().filter(|it| it.1.is_alive) {
        assert_eq!(process.changes.last().unwrap().1, Change::Failed(NodeId(7)));
    }
    assert_eq!(failures(&network), 19);
}

#[test]
fn a_member_that_stood_still_refutes_its_death() {
    let mut network = cluster(20);
    network.processes.get_mut(&NodeId(7)).unwrap().is_stopped = true;
    network.run(SILENCE + secs(3));
    network.processes.get_mut(&NodeId(7)).unwrap().is_stopped = false;
    network.run(DEATH);
    assert!(network.wrong().is_empty());
    assert_eq!(failures(&network), 0);
}

#[test]
fn a_restarted_member_with_another_address_replaces_the_earlier_one() {
    let mut network = cluster(20);
    network.kill(7);
    network.run(secs(1));
    let process = network.start(7, &[0]);
    network.run(DEATH + secs(30));
    for process_of in network.processes.values() {
        let record = process_of.member.record(NodeId(7)).unwrap();
        assert_eq!(record.incarnation, process);
    }
    assert!(network.wrong().is_empty());
}

#[test]
fn a_divided_network_comes_together_again() {
    let mut network = cluster(20);
    for node in 0..10 {
        network.processes.get_mut(&NodeId(node)).unwrap().side = 1;
    }
    // Many neighbours died at once: those behind them are found only then.
    let took = network.settle(2 * DEATH);
    println!("apart after {took:?}");
    for process in network.processes.values_mut() {
        process.side = 0;
    }
    let took = network.settle(secs(60));
    println!("together after {took:?}");
}

#[test]
fn members_find_others_after_their_seed_died() {
    let mut network = cluster(10);
    network.kill(0);
    network.settle(DEATH);
    network.start(10, &[0, 1]);
    let took = network.settle(secs(40));
    println!("joined by the second seed after {took:?}");
}

/// 1,000 members come and go for 2 minutes. All learn of joins and deaths in time, nobody who lives
/// is told dead, and what each sends is bounded.
#[test]
fn a_thousand_members_come_and_go() {
    const COUNT: u32 = 1_000;
    let mut network = cluster(COUNT);
    let warm: Vec<_> = network
        .processes
        .values()
        .map(|it| it.member.counters())
        .collect();
    let each = |sum: u64| sum / u64::from(COUNT);
    let bytes = each(warm.iter().map(|it| it.bytes_out).sum());
    let messages = each(warm.iter().map(|it| it.messages_out).sum());
    println!("until all had joined: {bytes} B and {messages} messages of each");
    let (began, mut dead, mut restarts) = (network.now, Vec::new(), 0);
    for step in 0..25 {
        let node = u32::try_from(1 + network.below(u64::from(COUNT) - 1)).unwrap();
        if network.alive().contains(&NodeId(node)) {
            match step % 2 {
                0 => network.kill(node),
                _ => network.leave(node),
            }
            dead.push(node);
        }
        if dead.len() > 20 {
            network.start(dead.remove(0), &[0, 1]);
            restarts += 1;
        }
        network.run(secs(1));
    }
    let took = network.settle(DEATH);
    println!("{restarts} restarts; all know all {took:?} after the last change");
    let seconds = network.now.since(began).as_secs();
    let stayed = network.processes.values().zip(&warm);
    let stayed = stayed.filter(|(it, _)| it.is_alive && it.incarnation.0 <= u128::from(COUNT));
    let mut sent: Vec<_> = stayed
        .map(|(it, before)| (it.member.counters(), before))
        .map(|(after, before)| {
            let messages = (after.messages_out - before.messages_out) / seconds;
            ((after.bytes_out - before.bytes_out) / seconds, messages)
        })
        .collect();
    sent.sort_unstable();
    let (most, messages) = *sent.last().unwrap();
    let median = sent[sent.len() / 2].0;
    println!("each second: {median} B of a member, at most {most} B in {messages} messages");
    assert!(most < 20_000, "{most} B each second");
}
