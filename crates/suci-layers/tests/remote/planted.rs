//! Each planted fault makes a scenario fail: the tests can find such mistakes.
//! `RUSTFLAGS="--cfg suci_plant" cargo test -p suci-layers --target-dir target/planted`

use crate::scenarios::{self, Between};
use std::panic::catch_unwind;
use suci_proto::plant;

/// Seeds within which a fault must be found.
const SEEDS: u64 = 100;

#[test]
fn every_planted_fault_is_found() {
    for fault in plant::OF_LAYERS {
        assert!(plant::select(fault));
        assert!((0..SEEDS).any(fails), "{fault} is not found");
    }
    assert!(!plant::select("none"));
    assert!(!(0..SEEDS).any(fails), "the scenarios fail without a fault");
}

fn fails(seed: u64) -> bool {
    let fenced = catch_unwind(|| assert!(scenarios::keeps_fences(seed, Between::Fence)));
    let in_order = catch_unwind(|| scenarios::in_order(seed));
    let withdrawal = catch_unwind(|| scenarios::withdrawal(seed));
    fenced.is_err() || in_order.is_err() || withdrawal.is_err()
}
