//! Collective operations of nodes over loopback.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::calls::block_on;
use crate::common::{LONG, builder};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use suci::group::{
    BitXor, Custom, Group, GroupError, GroupNode, Max, MemberFailure, Operation, Pending, Sum,
};
use suci::{Bytes, EndReason, Event, Next, Node, NodeBuilder, NodeId, SharedNode};

/// Runs `program` on each member of a group; returns the results by rank.
fn members<T: Send>(count: u32, program: impl Fn(Group, Node) -> T + Sync) -> Vec<T> {
    let nodes = (0..count).map(|id| builder(id).open().unwrap());
    group_of(nodes.collect(), program)
}

fn group_of<T: Send>(nodes: Vec<Node>, program: impl Fn(Group, Node) -> T + Sync) -> Vec<T> {
    let add = |node: &mut Node, id, address| node.add_peer(id, address).unwrap();
    let address = |node: &Node| (node.id(), node.local_addr());
    group_of_any(nodes, address, add, program)
}

/// Runs `program` on each member of a group of nodes with threads, of which they have 1 to 3.
fn shared_members<T: Send>(count: u32, program: impl Fn(Group, SharedNode) -> T + Sync) -> Vec<T> {
    let threads = |id: u32| 1 + id as usize % 3;
    let nodes = (0..count).map(|id| builder(id).open_threads(threads(id)).unwrap());
    shared_group_of(nodes.collect(), program)
}

fn shared_group_of<T: Send>(
    nodes: Vec<SharedNode>,
    program: impl Fn(Group, SharedNode) -> T + Sync,
) -> Vec<T> {
    let add = |node: &mut SharedNode, id, address| node.add_peer(id, address).unwrap();
    let address = |node: &SharedNode| (node.id(), node.local_addr());
    group_of_any(nodes, address, add, program)
}

fn group_of_any<N: GroupNode + Send, T: Send>(
    nodes: Vec<N>,
    address: impl Fn(&N) -> (NodeId, SocketAddr),
    add: impl Fn(&mut N, NodeId, SocketAddr) + Sync,
    program: impl Fn(Group, N) -> T + Sync,
) -> Vec<T> {
    let all: Vec<_> = nodes.iter().map(address).collect();
    let ids: Vec<_> = all.iter().map(|(id, _)| *id).collect();
    // A call from a node that is not in the book yet would go unanswered, and come again later.
    let all_know_each_other = std::sync::Barrier::new(all.len());
    let run = |own: NodeId, mut node: N| {
        for (id, address) in all.iter().filter(|(id, _)| *id != own) {
            add(&mut node, *id, *address);
        }
        all_know_each_other.wait();
        let mut group = Group::new(&node, 7, &ids).unwrap();
        group.set_limit(LONG);
        program(group, node)
    };
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = nodes
            .into_iter()
            .zip(&ids)
            .map(|(node, own)| scope.spawn(move || run(*own, node)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

#[test]
fn tasks_wait_for_operations_that_were_begun() {
    let sums = shared_members(4, |mut group, mut node| {
        let sum = group.begin_allreduce(&mut node, vec![group.rank() as u64], Sum);
        let sum = block_on(sum.unwrap().wait_async(&node)).unwrap();
        let barrier = group.begin_barrier(&mut node).unwrap();
        block_on(barrier.wait_async(&node)).unwrap();
        if group.rank() == 3 {
            node.close(LONG).unwrap();
            return (sum, true);
        }
        let part = group.begin_barrier(&mut node);
        let ended = part.map(|part| block_on(part.wait_async(&node)));
        (sum, !matches!(ended, Ok(Ok(()))))
    });
    for (sum, failed) in sums {
        assert_eq!(sum, [6]);
        assert!(failed, "a member closed its node");
    }
}

#[test]
fn each_operation_has_the_right_result_at_each_member() {
    for size in [1, 2, 3, 5, 8] {
        members(size, |mut group, mut node| {
            check_each_operation(&mut group, &mut node);
            node.close(LONG).unwrap();
        });
    }
}

#[test]
fn each_operation_has_the_right_result_at_each_member_with_threads() {
    for size in [1, 2, 3, 5, 8] {
        shared_members(size, |mut group, mut node| {
            check_each_operation(&mut group, &mut node);
            node.close(LONG).unwrap();
        });
    }
}

fn check_each_operation(group: &mut Group, node: &mut impl GroupNode) {
    let (rank, size) = (group.rank(), group.size());
    let ranks = || (0..size as u64).map(|rank| rank + 1);
    let own = rank as u64 + 1;
    for length in [1, 50_000] {
        let mut data = vec![own; length];
        group.allreduce(node, &mut data, Sum).unwrap();
        assert_eq!(data, vec![ranks().sum(); length]);
        group.barrier(node).unwrap();
        let root = size - 1;
        let mut data = vec![own as f64 / 2.0; length];
        group.reduce(node, root, &mut data, Max).unwrap();
        let most = if rank == root {
            size as f64 / 2.0
        } else {
            own as f64 / 2.0
        };
        assert_eq!(data, vec![most; length]);
        let mut data = vec![own as u8; length];
        group.broadcast(node, root, &mut data).unwrap();
        assert_eq!(data, vec![size as u8; length]);
        let lists = group.allgather(node, &vec![own; length]).unwrap();
        let all: Vec<_> = ranks().flat_map(|rank| vec![rank; length]).collect();
        assert_eq!(lists, all);
        let lists = group.gather(node, root, &vec![own; length]).unwrap();
        assert_eq!(
            lists,
            if rank == root {
                all.clone()
            } else {
                Vec::new()
            }
        );
        let part = group.scatter(node, root, &all, length).unwrap();
        assert_eq!(part, vec![own; length]);
        let parts: Vec<_> = ranks()
            .flat_map(|to| vec![own * 100 + to; length])
            .collect();
        let parts = group.all_to_all(node, &parts).unwrap();
        let wanted: Vec<_> = ranks()
            .flat_map(|from| vec![from * 100 + own; length])
            .collect();
        assert_eq!(parts, wanted);
        let mut data = vec![own; length];
        group.scan(node, &mut data, Sum).unwrap();
        assert_eq!(data, vec![own * (own + 1) / 2; length]);
        let mut data = vec![own; length];
        let last = Custom(|_, right| right);
        group.exclusive_scan(node, &mut data, last).unwrap();
        assert_eq!(data, vec![own.max(2) - 1; length]);
    }
}

#[test]
fn parts_of_different_lengths_reach_their_members() {
    members(4, |mut group, mut node| {
        let node = &mut node;
        let own = group.rank();
        let lengths = [3, 0, 40_000, 1];
        let data = vec![own as i32; lengths[own]];
        let all: Vec<_> = (0..4)
            .flat_map(|rank| vec![rank as i32; lengths[rank]])
            .collect();
        assert_eq!(group.allgatherv(node, &data, &lengths).unwrap(), all);
        let gathered = group.gatherv(node, 2, &data, &lengths).unwrap();
        assert_eq!(gathered, if own == 2 { all.clone() } else { Vec::new() });
        assert_eq!(group.scatterv(node, 1, &all, &lengths).unwrap(), data);
        let length = |from: usize, to: usize| from * 3 + to;
        let sent: Vec<_> = (0..4).map(|to| length(own, to)).collect();
        let received: Vec<_> = (0..4).map(|from| length(from, own)).collect();
        let data: Vec<_> = (0..4)
            .flat_map(|to| vec![(own * 10 + to) as u16; length(own, to)])
            .collect();
        let wanted: Vec<_> = (0..4)
            .flat_map(|from| vec![(from * 10 + own) as u16; length(from, own)])
            .collect();
        assert_eq!(
            group.all_to_allv(node, &data, &sent, &received).unwrap(),
            wanted
        );
        node.close(LONG).unwrap();
    });
}

/// Each form that is begun has the result of the form that blocks.
#[test]
fn operations_that_are_begun_have_the_same_results() {
    members(3, |mut group, mut node| {
        check_begun(&mut group, &mut node);
        node.close(LONG).unwrap();
    });
    shared_members(3, |mut group, mut node| {
        check_begun(&mut group, &mut node);
        node.close(LONG).unwrap();
    });
}

fn check_begun(group: &mut Group, node: &mut impl GroupNode) {
    fn end<R: 'static>(pending: Result<Pending<R>, GroupError>, node: &mut impl GroupNode) -> R {
        let mut pending = pending.unwrap();
        while !pending.test(node).unwrap() {
            std::thread::yield_now();
        }
        pending.wait(node).unwrap()
    }
    let rank = group.rank();
    let own = rank as u32 + 1;
    let (data, pair) = (vec![own; 2], |element| vec![element; 2]);
    end(group.begin_barrier(node), node);
    assert_eq!(
        end(group.begin_broadcast(node, 1, data.clone()), node),
        pair(2)
    );
    let reduced = end(group.begin_reduce(node, 1, data.clone(), Sum), node);
    assert_eq!(reduced, pair(if rank == 1 { 6 } else { own }));
    assert_eq!(
        end(group.begin_allreduce(node, data.clone(), Sum), node),
        pair(6)
    );
    let sums = [1, 3, 6];
    assert_eq!(
        end(group.begin_scan(node, data.clone(), Sum), node),
        pair(sums[rank])
    );
    let exclusive = end(group.begin_exclusive_scan(node, data.clone(), Sum), node);
    assert_eq!(exclusive, pair([1, 1, 3][rank]));
    let all = vec![1, 1, 2, 2, 3, 3];
    assert_eq!(end(group.begin_allgather(node, &data), node), all);
    let gathered = end(group.begin_gather(node, 0, &data), node);
    assert_eq!(gathered, if rank == 0 { all.clone() } else { Vec::new() });
    assert_eq!(end(group.begin_scatter(node, 2, &all, 2), node), data);
    assert_eq!(
        end(group.begin_all_to_all(node, &[own; 3]), node),
        [1, 2, 3]
    );
}

/// Two groups have an operation each under way, and a member only receives messages meanwhile.
#[test]
fn operations_of_several_groups_go_on_in_calls_for_something_else() {
    members(3, |mut group, mut node| {
        let node = &mut node;
        let mut second = Group::new(node, 8, group.members()).unwrap();
        let sum = group
            .begin_allreduce(node, vec![group.rank() as u64], Sum)
            .unwrap();
        let greatest = second
            .begin_allreduce(node, vec![group.rank() as u64], Max)
            .unwrap();
        let busy = group.begin_barrier(node).unwrap_err().to_string();
        assert!(busy.contains("an operation is under way"), "{busy}");
        if group.rank() == 1 {
            // The others end only with its part, which needs several messages of theirs.
            for _ in 0..2 {
                assert!(node.recv_timeout(LONG).unwrap().is_some());
            }
        }
        assert_eq!(sum.wait(node).unwrap(), [3]);
        assert_eq!(greatest.wait(node).unwrap(), [2]);
        if group.rank() != 1 {
            node.send(NodeId(1), "both ended").unwrap();
        }
        // An operation that is dropped ends all the same, and then the group is free.
        drop(group.begin_barrier(node).unwrap());
        second.barrier(node).unwrap();
        let end = Instant::now() + LONG;
        while let Err(error) = group.barrier(node) {
            assert!(matches!(error, GroupError::Argument { .. }), "{error}");
            assert!(Instant::now() < end);
            second.barrier(node).ok();
        }
        node.close(LONG).unwrap();
    });
}

/// Another node of the process would take other messages into the operation.
#[test]
fn an_operation_goes_on_by_its_own_node_alone() {
    let all_have_sent = std::sync::Barrier::new(2);
    members(2, |mut group, mut node| {
        let mut other = Node::builder().id(NodeId(99)).open().unwrap();
        let mut barrier = group.begin_barrier(&mut node).unwrap();
        let said = barrier.test(&mut other).unwrap_err().to_string();
        assert!(said.contains("node 99 did not make it"), "{said}");
        barrier.wait(&mut node).unwrap();
        let barrier = group.begin_barrier(&mut node).unwrap();
        assert!(barrier.wait(&mut other).is_err());
        other.close(LONG).unwrap();
        // A message to a member that closes first is not delivered.
        node.flush(LONG).unwrap();
        all_have_sent.wait();
        node.close(LONG).unwrap();
    });
}

/// Each takes what the other sent while its own queue is full.
#[test]
fn members_whose_queues_are_full_exchange_buffers() {
    let nodes = (0..2).map(|id| {
        builder(id)
            .send_queue(100_000)
            .memory(1 << 20)
            .max_message(1_000)
    });
    let nodes = nodes.map(|builder| builder.open().unwrap()).collect();
    group_of(nodes, |mut group, mut node| {
        let mut data = vec![1_u64; 500_000];
        group.allreduce(&mut node, &mut data, Sum).unwrap();
        assert_eq!(data, vec![2; 500_000]);
        node.close(LONG).unwrap();
    });
}

/// Neither program takes a message before the operations end, and no other one can be sent.
#[test]
fn f19_operations_pass_while_unread_messages_fill_the_queues_of_members() {
    const MESSAGE: Bytes = Bytes::from_static(&[1; 900]);
    const TRIES: u64 = 3_000;
    const PAUSE: Duration = Duration::from_millis(1);
    let small = |id| {
        let builder = builder(id).memory(1 << 20).max_message(1 << 16);
        builder.send_queue(1 << 16)
    };
    let nodes = (0..2).map(|id| small(id).open().unwrap());
    group_of(nodes.collect(), |mut group, mut node| {
        let other = NodeId(1 - node.id().0);
        let mut sent = [0];
        for _ in 0..TRIES {
            match node.send(other, MESSAGE) {
                Ok(_) => sent[0] += 1,
                Err(_) => _ = node.poll(PAUSE),
            }
        }
        let own = sent[0];
        assert!(own < TRIES, "the queue is full");
        group.allreduce(&mut node, &mut sent, Sum).unwrap();
        for _ in own..sent[0] {
            node.recv().unwrap();
        }
        node.close(LONG).unwrap();
    });
    let nodes = (0..2).map(|id| small(id).open_threads(1).unwrap());
    shared_group_of(nodes.collect(), |mut group, mut node| {
        let other = NodeId(1 - node.id().0);
        let mut sent = [0];
        for _ in 0..TRIES {
            match node.send(other, MESSAGE) {
                Ok(_) => sent[0] += 1,
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
        let own = sent[0];
        assert!(own < TRIES, "the queue is full");
        group.allreduce(&mut node, &mut sent, Sum).unwrap();
        for _ in own..sent[0] {
            node.recv().unwrap();
        }
        node.close(LONG).unwrap();
    });
}

/// Neither program takes a message before the operations end.
#[test]
fn f19_operations_pass_while_unread_messages_fill_the_memory_of_members() {
    let small = |id| builder(id).config(|config| config.memory = 1 << 20);
    let nodes = (0..2).map(|id| small(id).open().unwrap());
    group_of(nodes.collect(), |mut group, mut node| {
        let other = NodeId(1 - node.id().0);
        for _ in 0..2_000 {
            node.send(other, Bytes::from_static(&[1; 900])).unwrap();
        }
        for round in 0..20_u64 {
            group.barrier(&mut node).unwrap();
            let mut data = vec![round; 400];
            group.allreduce(&mut node, &mut data, Sum).unwrap();
            assert_eq!(data, vec![2 * round; 400]);
        }
        assert!(
            node.peer(other).queue_len().unwrap().0 > 0,
            "no credit is left"
        );
        for _ in 0..2_000 {
            node.recv().unwrap();
        }
        node.close(LONG).unwrap();
    });
}

/// A node with little memory and a short queue.
fn small(id: u32) -> NodeBuilder {
    let settings = builder(id).send_queue(8 << 20);
    settings.config(|config| config.memory = 1 << 20)
}

#[test]
fn f19_operations_of_a_group_pass_while_another_group_is_ahead() {
    let nodes = (0..2).map(|id| small(id).open().unwrap());
    group_of(nodes.collect(), |mut group, mut node| {
        take_part_in_a_group_later(&mut group, &mut node);
        node.close(LONG).unwrap();
    });
}

#[test]
fn f19_operations_of_a_group_with_threads_pass_while_another_group_is_ahead() {
    let nodes = (0..2).map(|id| small(id).open_threads(1).unwrap());
    shared_group_of(nodes.collect(), |mut group, mut node| {
        take_part_in_a_group_later(&mut group, &mut node);
        node.close(LONG).unwrap();
    });
}

/// The root is ahead with long and with many operations of two groups. The other member takes part
/// in them only after operations of a third group.
fn take_part_in_a_group_later(group: &mut Group, node: &mut impl GroupNode) {
    let is_root = group.rank() == 0;
    let [mut many, mut long] = [8, 9].map(|number| {
        let mut new = Group::new(node, number, group.members()).unwrap();
        new.set_limit(LONG);
        new
    });
    let begin = |long: &mut Group, node: &mut _| {
        let data = vec![7_u64; (12 << 20) / 8];
        long.begin_broadcast(node, 0, data).unwrap()
    };
    let begun = is_root.then(|| begin(&mut long, node));
    for turn in [true, false] {
        if is_root == turn {
            for _ in 0..2_000 {
                many.broadcast(node, 0, &mut [0; 100]).unwrap();
            }
        }
        for round in 0..20_u64 {
            group.barrier(node).unwrap();
            let mut data = vec![round; 400];
            group.allreduce(node, &mut data, Sum).unwrap();
            assert_eq!(data, vec![2 * round; 400]);
        }
    }
    let begun = begun.unwrap_or_else(|| begin(&mut long, node));
    begun.wait(node).unwrap();
}

/// Only this program could resume it, and it waits for the operation.
#[test]
fn an_operation_fails_if_its_program_suspended_a_member() {
    let said = members(2, |mut group, mut node| {
        group.barrier(&mut node).unwrap();
        if group.rank() == 0 {
            node.peer(NodeId(1)).suspend().unwrap();
        }
        let error = group.barrier(&mut node).unwrap_err().to_string();
        if group.rank() == 0 {
            node.peer(NodeId(1)).resume().unwrap();
        }
        let _ = node.close(Duration::from_secs(1));
        error
    });
    assert!(
        said[0].contains("resume it, and make a new group"),
        "{said:?}"
    );
}

/// The program's messages and the group's do not get into each other's way, and a member may be
/// late with its part.
#[test]
fn a_group_works_beside_messages_and_for_members_that_come_late() {
    members(3, |mut group, mut node| {
        let (rank, own) = (group.rank() as u32, node.id());
        let others: Vec<_> = group
            .members()
            .iter()
            .copied()
            .filter(|id| *id != own)
            .collect();
        for to in &others {
            node.send(*to, format!("from {rank}")).unwrap();
        }
        std::thread::sleep(Duration::from_millis(u64::from(rank) * 120));
        let mut data = [1_u32 << rank];
        group.allreduce(&mut node, &mut data, BitXor).unwrap();
        assert_eq!(data, [7]);
        for _ in &others {
            let message = node.recv_timeout(LONG).unwrap().unwrap();
            assert_eq!(
                *message.payload,
                *format!("from {}", message.from.0).as_bytes()
            );
        }
        assert!(node.try_recv().unwrap().is_none());
        node.close(LONG).unwrap();
    });
}

/// Messages that a member sent before it closed count, though its end was told long ago.
#[test]
fn a_member_that_has_closed_keeps_nobody_from_an_operation() {
    members(2, |mut group, mut node| {
        let mut data = [5_u64];
        if group.rank() == 0 {
            group.broadcast(&mut node, 0, &mut data).unwrap();
            node.close(LONG).unwrap();
            return;
        }
        let end = Instant::now() + LONG;
        let step = Duration::from_millis(100);
        while !matches!(
            node.next_timeout(step),
            Ok(Some(Next::Event(Event::Ended { .. })))
        ) {
            assert!(Instant::now() < end);
        }
        data = [0];
        group.broadcast(&mut node, 0, &mut data).unwrap();
        assert_eq!(data, [5]);
        // It takes part in nothing more.
        let error = group.barrier(&mut node).unwrap_err();
        let GroupError::Member {
            node: of,
            operation,
            failure,
            ..
        } = error
        else {
            panic!("{error}");
        };
        let closed = MemberFailure::Ended(EndReason::Closed);
        assert_eq!(
            (of, operation, failure),
            (NodeId(0), Operation::Barrier, closed)
        );
    });
}

/// Members that wait for it directly tell the others.
#[test]
fn f17_an_operation_without_one_member_fails_at_all_others_and_names_it() {
    let errors = members(8, |mut group, mut node| {
        group.barrier(&mut node).unwrap();
        if group.rank() == 5 {
            node.close(LONG).unwrap();
            return None;
        }
        let error = group.allreduce(&mut node, &mut [1], Sum).unwrap_err();
        let again = group.barrier(&mut node).unwrap_err();
        assert_eq!(error.to_string(), again.to_string());
        let same = Group::new(&node, 7, group.members()).unwrap_err();
        assert!(same.to_string().contains("take another number"), "{same}");
        let _ = node.close(LONG);
        Some(error)
    });
    let errors: Vec<_> = errors.into_iter().flatten().collect();
    assert_eq!(errors.len(), 7);
    for error in errors {
        let named = matches!(
            error,
            GroupError::Member {
                node: NodeId(5),
                ..
            }
        );
        assert!(named, "{error}");
    }
}

#[test]
fn members_that_call_different_operations_are_told_which() {
    let errors = members(2, |mut group, mut node| {
        let failed = match group.rank() {
            0 => group.barrier(&mut node),
            _ => group.allreduce(&mut node, &mut [1], Sum),
        };
        let _ = node.close(LONG);
        failed.unwrap_err().to_string()
    });
    let one = "it is at another operation, ";
    assert!(errors.iter().any(|error| error.contains(one)), "{errors:?}");
    let errors = members(2, |mut group, mut node| {
        let mut data = vec![0_u8; 4 + group.rank()];
        let failed = group.allreduce(&mut node, &mut data, Sum);
        let _ = node.close(LONG);
        failed.unwrap_err().to_string()
    });
    assert!(
        errors
            .iter()
            .any(|error| error.contains("bytes instead of")),
        "{errors:?}"
    );
}

/// No member takes data of one that named another root, length or combination.
#[test]
fn members_whose_arguments_differ_are_told_how() {
    type Call = fn(&mut Group, &mut Node) -> Result<(), GroupError>;
    let calls: [(Call, &str); 5] = [
        (
            |group, node| {
                let mut data = vec![0_u8; if group.rank() == 0 { 100_000 } else { 9 }];
                group.broadcast(node, 0, &mut data)?;
                group.barrier(node)
            },
            "bytes instead of",
        ),
        // They only wait for each other, or not at all.
        (
            |group, node| group.gather(node, group.rank(), &[1]).map(drop),
            "as the root instead of",
        ),
        (
            |group, node| {
                group.broadcast(node, group.rank(), &mut [1])?;
                group.barrier(node)
            },
            "as the root instead of",
        ),
        (
            |group, node| match group.rank() {
                0 => group.allreduce(node, &mut [1], Sum),
                _ => group.allreduce(node, &mut [1], Max),
            },
            "another combination",
        ),
        (
            |group, node| match group.rank() {
                0 => group.allreduce(node, &mut [1_u32], Sum),
                _ => group.allreduce(node, &mut [1_f32], Sum),
            },
            "other elements",
        ),
    ];
    for (call, said) in calls {
        let errors = members(2, |mut group, mut node| {
            let failed = call(&mut group, &mut node);
            let _ = node.close(LONG);
            failed.unwrap_err().to_string()
        });
        assert!(
            errors.iter().any(|error| error.contains(said)),
            "{errors:?}"
        );
    }
}

#[test]
fn an_operation_whose_time_is_over_fails_everywhere() {
    check_limit(&members(3, |mut group, mut node| {
        let error = end_in_time(&mut group, &mut node);
        let _ = node.close(LONG);
        error
    }));
    check_limit(&shared_members(3, |mut group, mut node| {
        let error = end_in_time(&mut group, &mut node);
        let _ = node.close(LONG);
        error
    }));
}

/// Rank 0 is late, and rank 1 waits for too short a time.
fn end_in_time(group: &mut Group, node: &mut impl GroupNode) -> GroupError {
    match group.rank() {
        0 => std::thread::sleep(Duration::from_millis(400)),
        1 => group.set_limit(Duration::from_millis(50)),
        _ => {}
    }
    group.barrier(node).unwrap_err()
}

fn check_limit(errors: &[GroupError]) {
    assert!(
        matches!(&errors[1], GroupError::TimedOut { .. }),
        "{}",
        errors[1]
    );
    for other in [&errors[0], &errors[2]] {
        let gave_up = matches!(
            other,
            GroupError::Member {
                node: NodeId(1),
                failure: MemberFailure::GaveUp | MemberFailure::Reported(_),
                ..
            }
        );
        assert!(gave_up, "{other}");
    }
}

/// Members whose programs compute keep nobody from an operation that they have begun: the helper,
/// or the threads, carry it on.
#[test]
fn an_operation_goes_on_while_a_program_computes() {
    let ended = AtomicUsize::new(0);
    members(3, |mut group, mut node| {
        compute_meanwhile(&mut group, &mut node, &ended);
        node.close(LONG).unwrap();
    });
    let ended = AtomicUsize::new(0);
    shared_members(3, |mut group, mut node| {
        compute_meanwhile(&mut group, &mut node, &ended);
        node.close(LONG).unwrap();
    });
}

/// Rank 0 makes no call after it began, until both others have their results.
fn compute_meanwhile(group: &mut Group, node: &mut impl GroupNode, ended: &AtomicUsize) {
    let data = vec![group.rank() as u32; 50_000];
    let pending = group.begin_allreduce(node, data, Sum).unwrap();
    let end = Instant::now() + LONG;
    while group.rank() == 0 && ended.load(Ordering::SeqCst) < 2 {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(pending.wait(node).unwrap(), vec![3; 50_000]);
    if group.rank() != 0 {
        ended.fetch_add(1, Ordering::SeqCst);
    }
    group.barrier(node).unwrap();
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let mut node = builder(3).open().unwrap();
    let refused = |members: &[u32], number: u32| {
        let members: Vec<_> = members.iter().map(|id| NodeId(*id)).collect();
        Group::new(&node, number, &members).unwrap_err().to_string()
    };
    assert!(refused(&[1, 2], 0).contains("node 3, this one, is not in the list"));
    assert!(refused(&[3, 3], 0).contains("node 3 is in the list twice"));
    assert!(refused(&[3], 1 << 21).contains("below 2097152"));
    assert!(refused(&[3, 9], 0).contains("node 9 is unknown"));
    let mut group = Group::new(&node, 0, &[NodeId(3)]).unwrap();
    let said = |result: Result<(), GroupError>| result.unwrap_err().to_string();
    let node = &mut node;
    assert!(said(group.broadcast(node, 1, &mut [0_u8])).contains("root 1 is no rank"));
    let gathered = group.gatherv(node, 0, &[0_u8], &[2]);
    assert!(said(gathered.map(drop)).contains("1 elements and the lengths say 2"));
    let gathered = group.allgatherv(node, &[0_u8], &[1, 1]);
    assert!(said(gathered.map(drop)).contains("2 lengths for 1 members"));
    let huge = group.allgatherv::<u64>(node, &[], &[usize::MAX]);
    assert!(said(huge.map(drop)).contains("more than memory can hold"));
    group.barrier(node).unwrap();
    let mut other = builder(4).open().unwrap();
    assert!(said(group.barrier(&mut other)).contains("node 4 did not make it"));
}

/// F17: members that are left agree, and go on as a group of their own, again and again.
#[test]
fn f17_members_that_are_left_agree_and_shrink() {
    members(6, |mut group, mut node| {
        go_on_without(&mut group, &mut node, |node| drop(node.close(LONG)));
        let _ = node.close(LONG);
    });
}

/// F17: the same with threads.
#[test]
fn f17_members_with_threads_that_are_left_agree_and_shrink() {
    shared_members(6, |mut group, mut node| {
        go_on_without(&mut group, &mut node, |node| drop(node.close(LONG)));
        let _ = node.close(LONG);
    });
}

/// Ranks 1 and 4 go at once, rank 2 in the group of the others.
fn go_on_without<N: GroupNode>(group: &mut Group, node: &mut N, go: fn(&mut N)) {
    let rank = group.rank();
    group.barrier(node).unwrap();
    let healthy = group.agree(node, !(1 << rank)).unwrap();
    assert_eq!((healthy.value, healthy.failed), (!0b11_1111, vec![]));
    if rank == 1 || rank == 4 {
        return go(node);
    }
    while group.allreduce(node, &mut [1], Sum).is_ok() {}
    let begun = group.begin_agree(node, 0xff - rank as u64).unwrap();
    let agreed = begun.wait(node).unwrap();
    assert_eq!(agreed.value, 0xff & (0xff - 2) & (0xff - 3) & (0xff - 5));
    let mut left = group.shrink(node).unwrap();
    while left.size() > 4 || left.barrier(node).is_err() {
        left = left.shrink(node).unwrap();
    }
    assert_eq!(left.members(), [0, 2, 3, 5].map(NodeId));
    let over = group.barrier(node).unwrap_err().to_string();
    assert!(over.contains("it has shrunk"), "{over}");
    let mut sum = [rank as u64];
    left.allreduce(node, &mut sum, Sum).unwrap();
    assert_eq!(sum, [10]);
    if rank == 2 {
        return go(node);
    }
    while left.barrier(node).is_ok() {}
    let mut last = left.shrink(node).unwrap();
    while last.size() > 3 || last.barrier(node).is_err() {
        last = last.shrink(node).unwrap();
    }
    assert_eq!(last.allgather(node, &[rank as u8]).unwrap(), [0, 3, 5]);
}

/// A member that gives an agreement up is out; the others, which need a second round, agree without
/// it.
#[test]
fn a_member_that_gives_an_agreement_up_is_counted_out() {
    let others_know = std::sync::Barrier::new(3);
    let results = members(3, |mut group, mut node| {
        let node = &mut node;
        if group.rank() == 1 {
            group.set_limit(Duration::from_millis(10));
            let error = group.agree(node, 2).unwrap_err();
            assert!(matches!(error, GroupError::TimedOut { .. }), "{error}");
            let error = group.agree(node, 1).unwrap_err();
            assert!(matches!(error, GroupError::Excluded { .. }), "{error}");
            node.flush(LONG).unwrap();
            others_know.wait();
            let _ = node.close(LONG);
            return Vec::new();
        }
        others_know.wait();
        let failed = group.agree(node, 1).unwrap().failed;
        let _ = node.close(LONG);
        failed
    });
    assert_eq!(results, [vec![NodeId(1)], vec![], vec![NodeId(1)]]);
}
