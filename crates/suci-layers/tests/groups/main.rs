//! Groups of members on real engines, whose processes end, start anew or are cut off.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod network;

use network::{Ended, LONG, Network};
use std::collections::BTreeSet;
use suci_layers::Knowledge;
use suci_layers::group::{Failure, Finished, MemberFailure};
use suci_proto::time::Duration;
use suci_proto::types::NodeId;

/// Time in which messages pass, and nobody counts as silent.
const SHORT: Duration = Duration::from_millis(100);

/// All members agree on the value `!0` but those in `without`.
fn agree(network: &mut Network, without: &[usize]) {
    for rank in (0..network.members.len()).filter(|rank| !without.contains(rank)) {
        network.begin_agree(rank, !0).unwrap();
    }
}

#[track_caller]
fn failed(ended: Option<Ended>) -> BTreeSet<usize> {
    match ended {
        Some(Ok(Finished::Agreed(known))) => known.failed,
        other => panic!("no agreement: {other:?}"),
    }
}

#[track_caller]
fn assert_gave_up(ended: Option<Ended>, by: u32) {
    let Some(Err(Failure::Member { node, failure, .. })) = &ended else {
        panic!("it is over: {ended:?}");
    };
    let expected = matches!(failure, MemberFailure::GaveUp | MemberFailure::Reported(_));
    assert!(node.0 == by && expected, "{ended:?}");
}

#[test]
fn members_agree_on_what_all_contribute_and_leave_no_message() {
    let mut network = Network::new(5);
    for rank in 0..5 {
        network.begin_agree(rank, !(1 << rank)).unwrap();
    }
    network.run(SHORT);
    for rank in 0..5 {
        let Some(Ok(Finished::Agreed(known))) = network.result(rank) else {
            panic!("member {rank} waits");
        };
        assert_eq!((known.value, known.failed.len()), (!0b1_1111, 0));
        assert!(network.is_at_rest(rank), "{rank}");
    }
}

/// An agreement waits for members that do not call it, as long as they are there.
#[test]
fn an_agreement_waits_for_late_members() {
    let mut network = Network::new(3);
    agree(&mut network, &[0]);
    network.run(LONG);
    assert!(network.result(1).is_none() && network.result(2).is_none());
    network.begin_agree(0, !0).unwrap();
    network.run(SHORT);
    assert!((0..3).all(|rank| failed(network.result(rank)).is_empty()));
}

/// The launcher or the kernel says that its process ended: the usual case on one machine.
/// A member that is silent for ten minutes, as in a debugger: operations and agreements wait for
/// it, also where silence counts as death.
#[test]
fn f16_f35_operations_wait_for_a_supervised_member_that_is_silent() {
    for parts_go_on in [false, true] {
        let mut network = Network::new(4);
        network.supervise();
        for member in &network.members {
            member.group.let_parts_go_on(parts_go_on);
        }
        let others = [0, 1, 3];
        for agrees in [false, true] {
            let begin = |network: &mut Network, rank| match agrees {
                true => network.begin_agree(rank, u64::MAX).unwrap(),
                false => network.begin_barrier(rank).unwrap(),
            };
            network.divide(&[2], &others);
            others
                .into_iter()
                .for_each(|rank| begin(&mut network, rank));
            for _ in 0..10 {
                network.run(LONG);
                assert!((0..4).all(|rank| network.result(rank).is_none()));
            }
            network.heal();
            begin(&mut network, 2);
            network.run(LONG);
            assert!((0..4).all(|rank| matches!(network.result(rank), Some(Ok(_)))));
        }
    }
}

/// The end of a supervised member is no silence.
#[test]
fn f17_f35_a_supervised_member_that_died_fails_the_operation() {
    let mut network = Network::new(3);
    network.supervise();
    network.kill(2);
    for rank in [0, 1] {
        network.begin_barrier(rank).unwrap();
    }
    network.run(LONG);
    assert!(network.result(0).is_none());
    network.report_death(2);
    network.run(LONG);
    for rank in [0, 1] {
        let ended = network.result(rank);
        assert!(
            matches!(
                ended,
                Some(Err(Failure::Member {
                    node: NodeId(2),
                    ..
                }))
            ),
            "{ended:?}"
        );
    }
}

#[test]
fn one_of_two_goes_on_alone_if_the_process_of_the_other_ended() {
    for dies in [0, 1] {
        let mut network = Network::new(2);
        network.kill(dies);
        network.report_death(dies);
        network.run(LONG);
        let left = 1 - dies;
        assert_eq!(
            network.shrink(&[left]),
            [(left, vec![left as u32])],
            "{dies} died"
        );
    }
}

#[test]
fn one_of_two_goes_on_alone_if_the_other_started_anew() {
    let mut network = Network::new(2);
    network.begin_agree(1, !0).unwrap();
    network.kill(0);
    network.run(SHORT);
    network.restart(0);
    network.run(LONG);
    assert_eq!(failed(network.result(1)), BTreeSet::from([0]));
}

#[test]
fn one_of_two_goes_on_alone_if_the_other_closed_its_node() {
    let mut network = Network::new(2);
    network.begin_agree(1, !0).unwrap();
    network.close(0);
    network.run(LONG);
    assert_eq!(failed(network.result(1)), BTreeSet::from([0]));
}

/// Silence is no death: the one with rank 0 may go on.
#[test]
fn of_two_that_are_cut_off_only_the_first_goes_on() {
    let mut network = Network::new(2);
    network.divide(&[0], &[1]);
    agree(&mut network, &[]);
    network.run(LONG);
    assert_eq!(failed(network.result(0)), BTreeSet::from([1]));
    assert!(matches!(network.result(1), Some(Err(Failure::CutOff))));
    network.heal();
    network.run(LONG);
    assert!(matches!(network.begin_agree(1, 0), Err(Failure::CutOff)));
    assert!(matches!(network.begin_barrier(1), Err(Failure::CutOff)));
    network.begin_agree(0, !0).unwrap();
    assert_eq!(failed(network.result(0)), BTreeSet::from([1]));
}

#[test]
fn parts_go_on_by_themselves_if_all_wish_so() {
    let mut network = Network::new(2);
    for member in &network.members {
        member.group.let_parts_go_on(true);
    }
    network.divide(&[0], &[1]);
    let shrunk = network.shrink(&[0, 1]);
    assert_eq!(shrunk, [(0, vec![0]), (1, vec![1])]);
}

#[test]
fn the_larger_part_of_a_divided_network_goes_on() {
    let mut network = Network::new(5);
    network.divide(&[0, 3], &[1, 2, 4]);
    let mut shrunk = network.shrink(&[0, 1, 2, 3, 4]);
    shrunk.sort_unstable();
    let group = vec![1, 2, 4];
    assert_eq!(shrunk, [1, 2, 4].map(|rank| (rank, group.clone())));
    for rank in [1, 2, 4] {
        network.begin_barrier(rank).unwrap();
    }
    network.heal();
    network.run(LONG);
    for rank in [1, 2, 4] {
        assert!(matches!(network.result(rank), Some(Ok(_))), "{rank}");
    }
    for rank in [0, 3] {
        let over = network.begin_agree(rank, 0);
        assert!(matches!(over, Err(Failure::CutOff | Failure::Excluded)));
    }
}

/// Its operations would fail again and again, since two members do not reach each other.
#[test]
fn a_group_goes_on_without_one_of_two_that_do_not_reach_each_other() {
    let mut network = Network::new(4);
    network.divide(&[2], &[3]);
    let shrunk = network.shrink(&[0, 1, 2, 3]);
    assert_eq!(shrunk.len(), 3, "{shrunk:?}");
    for (rank, _) in &shrunk {
        network.begin_barrier(*rank).unwrap();
    }
    network.run(LONG);
    for (rank, _) in &shrunk {
        assert!(matches!(network.result(*rank), Some(Ok(_))), "{rank}");
    }
}

/// Three members agree. The last one does not hear that, and gives up. Returns the result of the
/// others, which count it in; they hear of it later.
fn give_up_late() -> (Network, Knowledge) {
    for wait in 0..100 {
        let mut network = Network::new(3);
        agree(&mut network, &[]);
        // At some time its message has come to the leader, and the decision has not come to it.
        network.run(Duration::from_micros(10 * wait));
        network.divide(&[2], &[0, 1]);
        network.run(SHORT);
        let [one, other, last] = [0, 1, 2].map(|rank| network.result(rank));
        if last.is_some() || one.is_none() {
            continue;
        }
        assert!(failed(other).is_empty());
        let Some(Ok(Finished::Agreed(known))) = one else {
            panic!("{one:?}");
        };
        network.give_up(2);
        assert!(matches!(network.result(2), Some(Err(Failure::Here(())))));
        network.heal();
        return (network, known);
    }
    panic!("there is no such time");
}

/// The others must not wait for it.
#[test]
fn a_member_that_gives_an_agreement_up_too_late_fails_the_next_operation() {
    let (mut network, _) = give_up_late();
    for rank in [0, 1] {
        network.begin_barrier(rank).unwrap();
    }
    network.run(LONG);
    for rank in [0, 1] {
        assert_gave_up(network.result(rank), 2);
    }
    assert!(matches!(network.begin_barrier(2), Err(Failure::Excluded)));
}

#[test]
fn a_member_that_gave_an_agreement_up_too_late_is_left_out_of_the_next() {
    let (mut network, _) = give_up_late();
    agree(&mut network, &[2]);
    network.run(LONG);
    for rank in [0, 1] {
        assert_eq!(failed(network.result(rank)), BTreeSet::from([2]));
    }
}

/// Its last message comes when the others have a new group, or just before.
#[test]
fn a_member_that_gives_a_shrink_up_too_late_fails_the_new_group() {
    for (agrees, wait) in [false, true]
        .map(|agrees| [Duration::ZERO, LONG].map(|w| (agrees, w)))
        .concat()
    {
        let (mut network, known) = give_up_late();
        network.run(wait);
        for rank in [0, 1] {
            network.go_on(rank, &known, 1 << 21 | 5);
            match agrees {
                true => network.begin_agree(rank, !0).unwrap(),
                false => network.begin_barrier(rank).unwrap(),
            }
        }
        network.run(LONG);
        for rank in [0, 1] {
            match agrees {
                true => assert_eq!(failed(network.result(rank)), BTreeSet::from([2])),
                false => assert_gave_up(network.result(rank), 2),
            }
        }
    }
}

/// A member hears of the decision although its leader died.
#[test]
fn the_decision_of_a_leader_that_died_reaches_all() {
    for steps in 0..40 {
        let mut network = Network::new(4);
        agree(&mut network, &[]);
        network.run(Duration::from_micros(10 * steps));
        network.kill(0);
        network.run(LONG);
        let results: Vec<_> = (1..4).map(|rank| failed(network.result(rank))).collect();
        assert!(results.iter().all(|one| *one == results[0]), "{results:?}");
    }
}

#[track_caller]
fn assert_outdated(ended: Option<Ended>, own: u32) {
    let Some(Err(Failure::Member { node, failure, .. })) = &ended else {
        panic!("it is over: {ended:?}");
    };
    let expected = matches!(failure, MemberFailure::Outdated(_));
    assert!(node.0 == own && expected, "{ended:?}");
}

/// The others are told, by the end of the session, and take nothing more from the member. It must
/// not wait for them: they do not wait for it.
#[test]
fn a_member_whose_session_is_over_at_the_others_hears_so() {
    for (agrees, shrinks) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut network = Network::new(3);
        network.begin_barrier(0).unwrap();
        network.begin_barrier(1).unwrap();
        network.kill(2);
        network.run(SHORT);
        network.restart(2);
        network.run(LONG);
        for rank in [0, 1] {
            let result = network.result(rank);
            assert!(
                matches!(result, Some(Err(Failure::Member { .. }))),
                "{result:?}"
            );
        }
        if shrinks {
            assert_eq!(network.shrink(&[0, 1]).len(), 2);
        }
        match agrees {
            false => network.begin_barrier(2).unwrap(),
            true => network.begin_agree(2, !0).unwrap(),
        }
        network.run(LONG);
        match agrees {
            false => assert_outdated(network.result(2), 2),
            true => assert!(matches!(network.result(2), Some(Err(Failure::Excluded)))),
        }
        assert!(matches!(network.begin_agree(2, 0), Err(Failure::Excluded)));
        // It says that it left, also without an agreement. Without a shrink that waits for the
        // others' next agreement.
        let ranks = if shrinks { 0..3 } else { 2..3 };
        for rank in ranks {
            assert!(network.is_at_rest(rank), "{rank} {agrees} {shrinks}");
        }
    }
}

/// The others call their operation after it asked what it waits for.
#[test]
fn a_member_whose_session_is_over_fails_the_next_operation_of_the_others() {
    let mut network = Network::new(3);
    network.kill(0);
    network.run(SHORT);
    network.restart(0);
    network.begin_barrier(0).unwrap();
    network.run(LONG);
    assert!(network.result(0).is_none(), "the others compute");
    network.begin_barrier(1).unwrap();
    network.begin_barrier(2).unwrap();
    network.run(LONG);
    for rank in [1, 2] {
        let Some(Err(Failure::Member { node, .. })) = network.result(rank) else {
            panic!("{rank} waits");
        };
        assert_eq!(node.0, 0);
    }
    assert_outdated(network.result(0), 0);
}

#[track_caller]
fn assert_done(network: &Network) {
    for rank in 0..network.members.len() {
        let result = network.result(rank);
        assert!(matches!(result, Some(Ok(_))), "{rank}: {result:?}");
    }
}

/// A member may have done its part of an operation when another one asks what it waits in. The
/// question then waits for the next group of the number, whose operations are others.
#[test]
fn questions_of_an_earlier_group_of_the_number_fail_no_operation() {
    let mut network = Network::new(3);
    network.renew();
    network.begin_gather(1, 0);
    network.run(SHORT);
    network.begin_gather(0, 0);
    network.run(SHORT);
    network.begin_gather(2, 0);
    network.run(SHORT);
    assert_done(&network);
    network.renew();
    for _ in 0..3 {
        for rank in [1, 0, 2] {
            network.begin_barrier(rank).unwrap();
            network.run(SHORT);
        }
        network.run(LONG);
        assert_done(&network);
    }
    assert!((0..3).all(|rank| network.is_at_rest(rank)));
}

/// Members that wait in different operations for each other say so to each other.
#[test]
fn members_in_different_operations_fail() {
    for first in [0, 1] {
        let mut network = Network::new(2);
        for rank in [first, 1 - first] {
            match rank {
                0 => network.begin_gather(0, 0),
                _ => network.begin_barrier(1).unwrap(),
            }
            network.run(SHORT);
        }
        network.run(LONG);
        for rank in 0..2 {
            let Some(Err(Failure::Member { node, failure, .. })) = network.result(rank) else {
                panic!("{rank} waits");
            };
            let expected = matches!(
                failure,
                MemberFailure::Other { .. } | MemberFailure::Reported(_)
            );
            assert!(expected, "{rank}: node {node}, {failure:?}");
        }
    }
}

/// A member that asks again and again, and has no room for answers, gets one in the end.
#[test]
fn answers_to_a_member_without_room_do_not_pile_up() {
    let mut network = Network::new(2);
    network.renew();
    network.begin_barrier(0).unwrap();
    network.block(0, true);
    for question in 0..20 {
        network.ask(1, 0, 2 * question);
        network.run(SHORT);
    }
    network.block(0, false);
    network.run(SHORT);
    let answers = network.answers(1, 0);
    let to_last = answers.iter().filter(|tag| *tag % 2 == 1);
    assert_eq!(to_last.collect::<Vec<_>>(), [&39]);
}
