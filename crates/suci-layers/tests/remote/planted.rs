//! Each planted fault makes a scenario fail: the tests can find such mistakes.

use crate::scenarios;
use std::panic::catch_unwind;
use suci_proto::plant;

/// Seeds within which a fault must be found.
const SEEDS: u64 = 500;

#[test]
fn every_planted_fault_is_found() {
    for fault in plant::OF_LAYERS {
        assert!(plant::select(fault));
        let found = (0..SEEDS).any(|seed| {
            let fenced = catch_unwind(|| assert!(scenarios::keeps_fences(seed, true)));
            let in_order = catch_unwind(|| scenarios::in_order(seed));
            let withdrawal = catch_unwind(|| scenarios::withdrawal(seed));
            fenced.is_err() || in_order.is_err() || withdrawal.is_err()
        });
        assert!(found, "{fault} is not found");
    }
}
