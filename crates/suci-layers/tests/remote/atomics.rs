//! Atomic operations of several initiators on one integer.

use crate::memory::Locked;
use crate::network::Network;
use proptest::prelude::*;
use std::collections::BTreeSet;
use suci_layers::remote::{AtomicOp, OperationId, RemoteRegion, Rights, Width};

const INITIATORS: usize = 4;
const TIMES: u64 = 20;

fn network(seed: u64) -> (Network, RemoteRegion, std::sync::Arc<Locked>) {
    let mut network = Network::new(INITIATORS + 1, seed);
    let memory = Locked::new(vec![0; 16]);
    let region = network.register(INITIATORS, &memory, Rights::ATOMIC);
    (network, region, memory)
}

fn integer(memory: &Locked) -> u64 {
    u64::from_le_bytes(memory.bytes()[8..].try_into().expect("8 bytes"))
}

fn begin(network: &mut Network, node: usize, region: &RemoteRegion, op: AtomicOp) -> OperationId {
    let initiator = &mut network.nodes[node].initiator;
    let operation = initiator.fetch_atomic(region, 8, Width::Bits64, op);
    operation.expect("room")
}

proptest! {
    /// Each addition sees another sum, and the sums are complete.
    #[test]
    fn additions_are_linearizable(seed: u64) {
        let (mut network, region, memory) = network(seed);
        let mut operations = Vec::new();
        for _ in 0..TIMES {
            for node in 0..INITIATORS {
                operations.push((node, begin(&mut network, node, &region, AtomicOp::Add(1))));
                network.nodes[node].initiator.atomic(&region, 0, Width::Bits32, AtomicOp::Add(3))
                    .expect("room");
                (0..network.random.below(20)).for_each(|_| network.step());
            }
        }
        network.settle();
        let sums: BTreeSet<_> = operations
            .iter()
            .map(|(node, operation)| network.nodes[*node].results[operation])
            .collect::<Result<_, _>>()
            .expect("all succeed");
        let all = TIMES * INITIATORS as u64;
        prop_assert!(sums.into_iter().eq((0..all).map(Some)));
        prop_assert_eq!(integer(&memory), all);
        prop_assert_eq!(u64::from(memory.bytes()[0]), 3 * all);
    }

    /// Of those who saw the same number, one replaces it.
    #[test]
    fn each_number_is_replaced_once(seed: u64) {
        let (mut network, region, memory) = network(seed);
        let mut seen = [0_u64; INITIATORS];
        let mut replaced = 0;
        for _ in 0..TIMES {
            let swap = |seen: u64| AtomicOp::CompareSwap { expected: seen, new: seen + 1 };
            let operations: Vec<_> = (0..INITIATORS)
                .map(|node| begin(&mut network, node, &region, swap(seen[node])))
                .collect();
            for (node, operation) in operations.into_iter().enumerate() {
                let before = network.wait(node, operation).expect("it succeeds");
                let before = before.expect("it has a value");
                replaced += u64::from(before == seen[node]);
                seen[node] = before;
            }
        }
        prop_assert_eq!(integer(&memory), replaced);
        prop_assert!(replaced >= TIMES / 2);
    }
}
