//! Sessions that end, and requests that are refused.

use crate::memory::Locked;
use crate::network::{Network, id};
use bytes::Bytes;
use proptest::prelude::*;
use std::sync::Arc;
use suci_layers::remote::{
    AtomicOp, Cause, Destination, Layout, OperationError, OperationId, RemoteRegion, Rights, Width,
};

const LENGTH: usize = 1_000;

fn whole() -> Layout {
    Layout::contiguous(0, LENGTH as u64).expect("short")
}

fn network(seed: u64) -> (Network, RemoteRegion, Arc<Locked>) {
    let mut network = Network::new(3, seed);
    let memory = Locked::new(vec![0; LENGTH]);
    let rights = Rights::READ | Rights::WRITE | Rights::ATOMIC;
    let region = network.register(2, &memory, rights);
    (network, region, memory)
}

fn begin(network: &mut Network, region: &RemoteRegion) -> OperationId {
    let kind = network.random.below(5);
    let initiator = &mut network.nodes[0].initiator;
    let data = Bytes::from(vec![7; LENGTH]);
    let operation = match kind {
        0 => initiator.put_answered(region, whole(), data, None),
        1 => initiator.fetch_atomic(region, 8, Width::Bits64, AtomicOp::Add(1)),
        2 => {
            let memory = Locked::new(vec![0; LENGTH]);
            let layout = whole();
            initiator.get(region, whole(), Destination { memory, layout })
        }
        3 => initiator.flush(region.node),
        _ => initiator.quiet(),
    };
    operation.expect("room")
}

fn ended(node: usize) -> Result<Option<u64>, OperationError> {
    Err(OperationError {
        node: id(node),
        cause: Cause::Ended,
        count: 1,
    })
}

proptest! {
    /// Each operation completes once, also when its session ends; the next session works.
    #[test]
    fn the_end_of_a_session_completes_everything(seed: u64) {
        let (mut network, region, memory) = network(seed);
        for _ in 0..3 {
            let operations: Vec<_> = (0..12).map(|_| begin(&mut network, &region)).collect();
            (0..network.random.below(300)).for_each(|_| network.step());
            network.end_session(0, 2);
            let mut lost = false;
            for operation in operations {
                let result = network.nodes[0].results[&operation];
                lost |= result.is_err();
                prop_assert!(!lost || result == ended(2), "completed behind a lost one");
            }
        }
        let data = Bytes::from(vec![9; LENGTH]);
        let initiator = &mut network.nodes[0].initiator;
        initiator.put(&region, whole(), data, None).expect("room");
        let quiet = initiator.quiet().expect("room");
        prop_assert_eq!(network.wait(0, quiet), Ok(None));
        prop_assert_eq!(memory.bytes(), vec![9; LENGTH]);
        prop_assert_eq!(network.nodes[0].initiator.stray_replies(), 0);
    }

    /// A quiet waits for the other targets when the session with one ends.
    #[test]
    fn a_quiet_outlives_the_session_with_one_target(seed: u64) {
        let (mut network, region, memory) = network(seed);
        let other = Locked::new(vec![0; LENGTH]);
        let lost = network.register(1, &other, Rights::WRITE);
        let initiator = &mut network.nodes[0].initiator;
        for region in [&region, &lost] {
            let data = Bytes::from(vec![5; LENGTH]);
            initiator.put(region, whole(), data, None).expect("room");
        }
        let quiet = initiator.quiet().expect("room");
        network.end_session(0, 1);
        prop_assert_eq!(network.wait(0, quiet), ended(1));
        prop_assert_eq!(memory.bytes(), vec![5; LENGTH]);
    }
}

/// A flush waits for what was before, also if an earlier flush does so already.
#[test]
fn a_second_flush_waits_too() {
    let (mut network, region, memory) = network(1);
    let initiator = &mut network.nodes[0].initiator;
    let data = Bytes::from(vec![5; LENGTH]);
    initiator.put(&region, whole(), data, None).expect("room");
    let first = initiator.flush(region.node).expect("room");
    let second = initiator.quiet().expect("room");
    assert!(initiator.cancel(first));
    assert_eq!(network.wait(0, second), Ok(None));
    assert_eq!(memory.bytes(), vec![5; LENGTH]);
    // Nothing is to be asked now.
    let initiator = &mut network.nodes[0].initiator;
    initiator.quiet().expect("room");
    assert!(!initiator.has_output() && initiator.poll_completion().is_some());
}

/// A flush that is cancelled, at any time, leaves the failures of earlier operations to the next.
#[test]
fn a_cancelled_flush_hides_no_failure() {
    for steps in 0..40 {
        for ends in [false, true] {
            let (mut network, region, _) = network(steps);
            let wrong = RemoteRegion {
                key: region.key ^ 1,
                ..region
            };
            let initiator = &mut network.nodes[0].initiator;
            let data = Bytes::from(vec![5; LENGTH]);
            initiator.put(&wrong, whole(), data, None).expect("room");
            let flush = initiator.flush(region.node).expect("room");
            (0..steps).for_each(|_| network.step());
            let initiator = &mut network.nodes[0].initiator;
            if !initiator.cancel(flush) {
                // It was complete, and has reported the failure.
                assert_eq!(initiator.awaited(flush), None);
                continue;
            }
            if ends {
                network.end_session(0, 2);
            }
            let next = network.nodes[0].initiator.quiet().expect("room");
            assert!(
                network.wait(0, next).is_err(),
                "{steps} steps, ends: {ends}"
            );
            let last = network.nodes[0].initiator.quiet().expect("room");
            assert_eq!(network.wait(0, last), Ok(None));
        }
    }
}

/// The end of a session is reported by the next quiet, if an operation asked for no reply; and by
/// that one only.
#[test]
fn unanswered_operations_of_an_ended_session_are_reported() {
    let (mut network, region, _) = network(1);
    let initiator = &mut network.nodes[0].initiator;
    let data = Bytes::from(vec![5; LENGTH]);
    initiator.put(&region, whole(), data, None).expect("room");
    network.end_session(0, 2);
    for expected in [ended(2), Ok(None)] {
        let quiet = network.nodes[0].initiator.quiet().expect("room");
        assert_eq!(network.wait(0, quiet), expected);
    }
}

/// A request that the library of the target refused fails, or the next flush does.
#[test]
fn refused_requests_are_reported() {
    let (mut network, region, memory) = network(1);
    let data = Bytes::from(vec![5; LENGTH]);
    let initiator = &mut network.nodes[0].initiator;
    let put = initiator.put_answered(&region, whole(), data.clone(), None);
    let put = put.expect("room");
    initiator.put(&region, whole(), data, None).expect("room");
    // The network refuses both.
    let mut tokens = Vec::new();
    initiator.transmit(|_, message| {
        tokens.push(message.token);
        true
    });
    for token in tokens {
        initiator.undelivered(region.node, token, Cause::Refused);
    }
    let flush = initiator.flush(region.node).expect("room");
    for operation in [put, flush] {
        let error = network.wait(0, operation).expect_err("it was refused");
        assert_eq!((error.cause, error.count), (Cause::Refused, 1));
    }
    assert_eq!(memory.bytes(), vec![0; LENGTH]);
}
