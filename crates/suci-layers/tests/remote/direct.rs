//! Operations that a process applies itself to a target's memory keep the target's rules, and their
//! order with requests.

use crate::memory::Locked;
use crate::network::{Network, id};
use bytes::Bytes;
use std::sync::Arc;
use suci_layers::remote::{
    AtomicOp, Cause, Destination, DirectRegion, LONGEST_REPLY, Layout, Rights, Signal,
    SignalUpdate, Width,
};

fn contiguous(offset: u64, length: usize) -> Layout {
    Layout::contiguous(offset, length as u64).unwrap()
}

fn signal(offset: u64) -> Option<Signal> {
    let update = SignalUpdate::Add(3);
    Some(Signal { offset, update })
}

#[test]
fn bytes_signals_and_integers_change() {
    let memory = Locked::new(vec![0; 64]);
    let rights = Rights::READ | Rights::WRITE | Rights::ATOMIC;
    let region = DirectRegion::new(rights, memory.clone());
    let strided = Layout::strided(16, 2, 4, 3).unwrap();
    assert!(region.put(&strided, &[1, 2, 3, 4, 5, 6], signal(8)));
    assert_eq!(memory.bytes()[8], 3);
    assert_eq!(memory.bytes()[16..26], [1, 2, 0, 0, 3, 4, 0, 0, 5, 6]);
    let mut bytes = [0; 6];
    assert!(region.get(&strided, &mut bytes));
    assert_eq!(bytes, [1, 2, 3, 4, 5, 6]);
    let add = AtomicOp::Add(1);
    assert_eq!(region.atomic(8, Width::Bits64, add), Some(3));
    assert_eq!(region.atomic(8, Width::Bits32, AtomicOp::Fetch), Some(4));
}

#[test]
fn what_breaks_a_rule_changes_nothing() {
    let memory = Locked::new(vec![0; 64]);
    let shared = || memory.clone() as Arc<_>;
    let rights = Rights::WRITE | Rights::ATOMIC;
    let region = DirectRegion::new(rights, shared());
    assert!(!region.put(&contiguous(0, 2), &[1; 3], None));
    assert!(!region.put(&contiguous(63, 2), &[1; 2], None));
    assert!(!region.put(&contiguous(0, 2), &[1; 2], signal(60)));
    assert!(!region.put(&contiguous(0, 2), &[1; 2], signal(4)));
    assert!(!region.put(&contiguous(0, 2), &[1; 2], signal(u64::MAX - 7)));
    assert!(!region.get(&contiguous(0, 2), &mut [0; 2]), "no right");
    for (at, width) in [(64, Width::Bits32), (2, Width::Bits32), (60, Width::Bits64)] {
        assert_eq!(region.atomic(at, width, AtomicOp::Set(1)), None);
    }
    let no_signal = DirectRegion::new(Rights::WRITE | Rights::READ, shared());
    assert!(!no_signal.put(&contiguous(0, 2), &[1; 2], signal(8)));
    assert_eq!(no_signal.atomic(0, Width::Bits64, AtomicOp::Fetch), None);
    assert!(!no_signal.get(&contiguous(0, 2), &mut [0; 3]));
    let no_write = DirectRegion::new(Rights::READ | Rights::ATOMIC, shared());
    assert!(!no_write.put(&contiguous(0, 2), &[1; 2], None));
    assert_eq!(memory.bytes(), [0; 64]);
}

#[test]
fn gets_into_memory_of_this_node_have_any_length() {
    let length = LONGEST_REPLY + 12_345;
    let bytes: Vec<_> = (0..length).map(|at| (at * 7 + at / 1_000) as u8).collect();
    let region = DirectRegion::new(Rights::READ, Locked::new(bytes.clone()));
    let memory = Locked::new(vec![0; length + 3]);
    let mut into = Destination {
        memory: memory.clone(),
        layout: contiguous(2, length),
    };
    assert!(region.get_into(&contiguous(0, length), &into));
    assert!(memory.bytes()[2..length + 2] == bytes);
    let strided = Layout::strided(1, 1, 2, 40_000).unwrap();
    into.layout = contiguous(0, 40_000);
    assert!(region.get_into(&strided, &into));
    let expected: Vec<_> = bytes[1..].iter().step_by(2).copied().take(40_000).collect();
    assert!(memory.bytes()[..40_000] == expected);
    assert!(!region.get_into(&contiguous(0, length), &into));
    into.layout = contiguous(4, length);
    assert!(!region.get_into(&contiguous(0, length), &into));
    // One request has no room for so many that are apart, so the network could not do it.
    let long = Layout::strided(0, 20, 30, 60_000).unwrap();
    let mut there = vec![0; 1_200_000];
    let large = DirectRegion::new(Rights::READ, Locked::new(vec![0; 2_000_000]));
    assert!(!large.get(&long, &mut there));
}

/// Not before the target answered the last request: then all are applied.
#[test]
fn no_operation_overtakes_a_request() {
    let mut network = Network::new(2, 5);
    let memory = Locked::new(vec![0; 16]);
    let rights = Rights::WRITE | Rights::ATOMIC;
    let region = network.register(1, &memory, rights);
    let initiator = &mut network.nodes[0].initiator;
    assert!(initiator.begin_direct(id(1), true));
    let data = Bytes::from_static(&[1; 8]);
    initiator
        .put(&region, contiguous(0, 8), data, None)
        .unwrap();
    assert!(!initiator.begin_direct(id(1), false));
    assert!(initiator.begin_direct(id(2), false), "another target");
    network.settle();
    // It was applied, but nothing says so.
    let initiator = &mut network.nodes[0].initiator;
    assert!(!initiator.begin_direct(id(1), true));
    let fetch = initiator.fetch_atomic(&region, 8, Width::Bits64, AtomicOp::Fetch);
    assert!(!initiator.begin_direct(id(1), true));
    assert_eq!(network.wait(0, fetch.unwrap()), Ok(Some(0)));
    let initiator = &mut network.nodes[0].initiator;
    assert!(initiator.begin_direct(id(1), true));
    initiator
        .atomic(&region, 8, Width::Bits64, AtomicOp::Add(1))
        .unwrap();
    let quiet = initiator.quiet().unwrap();
    assert_eq!(network.wait(0, quiet), Ok(None));
    assert!(network.nodes[0].initiator.begin_direct(id(1), true));
}

#[test]
fn a_quiet_after_the_end_of_a_target_says_so() {
    let ended = |runs, ends: bool| {
        let mut network = Network::new(2, 6);
        network.register(1, &Locked::new(vec![0; 8]), Rights::WRITE);
        let initiator = &mut network.nodes[0].initiator;
        assert!(initiator.begin_direct(id(1), true));
        assert_eq!(initiator.direct_targets(), [id(1)]);
        if ends {
            initiator.ended(id(1));
        }
        initiator.settle_direct(id(1), runs);
        assert!(initiator.direct_targets().is_empty());
        let quiet = initiator.quiet().unwrap();
        let asks = initiator.has_output();
        let result = network.wait(0, quiet);
        (asks, result.map_err(|error| error.cause))
    };
    assert_eq!(ended(true, false), (false, Ok(None)));
    // It is asked, and answers.
    assert_eq!(ended(false, false), (true, Ok(None)));
    assert_eq!(ended(false, true), (false, Err(Cause::Ended)));
    let mut network = Network::new(2, 7);
    let initiator = &mut network.nodes[0].initiator;
    assert!(initiator.begin_direct(id(1), true));
    initiator.settle_direct(id(1), false);
    let quiet = initiator.quiet().unwrap();
    initiator.ended(id(1));
    let result = network.wait(0, quiet);
    assert_eq!(result.map_err(|error| error.cause), Err(Cause::Ended));
}

#[test]
fn an_operation_may_be_complete_at_once() {
    let mut network = Network::new(1, 8);
    let initiator = &mut network.nodes[0].initiator;
    let done = initiator.complete_direct(id(1), Some(7)).unwrap();
    assert_eq!(network.wait(0, done), Ok(Some(7)));
}
