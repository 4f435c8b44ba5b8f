//! Whatever the network does, operations have the effect of their order.

use crate::scenarios::{self, Between};
use proptest::prelude::*;

proptest! {
    /// Memory and results are those of the operations applied one after the other.
    #[test]
    fn operations_take_effect_in_order(seed: u64) {
        scenarios::in_order(seed);
    }

    /// Nothing behind a fence is visible before everything in front of it.
    #[test]
    fn fences_order_what_others_see(seed: u64) {
        prop_assert!(scenarios::keeps_fences(seed, Between::Fence));
    }

    /// Nor if the put behind the fence breaks a rule, so that it is not applied itself.
    #[test]
    fn fences_before_mistakes_order_what_others_see(seed: u64) {
        prop_assert!(scenarios::keeps_fences(seed, Between::FenceAndMistake));
    }

    /// Nor if that put is cancelled before it was sent.
    #[test]
    fn fences_before_cancelled_puts_order_what_others_see(seed: u64) {
        prop_assert!(scenarios::keeps_fences(seed, Between::FenceAndCancelled));
        prop_assert!(scenarios::keeps_fences(seed, Between::FenceAndCancelledLater));
    }

    /// No byte of withdrawn memory changes.
    #[test]
    fn withdrawn_memory_gets_no_byte_more(seed: u64) {
        scenarios::withdrawal(seed);
    }
}

/// Without a fence, later puts are visible first at times: the test above can fail.
#[test]
fn puts_without_a_fence_are_seen_in_any_order() {
    assert!((0..200).any(|seed| !scenarios::keeps_fences(seed, Between::Nothing)));
}

/// The network of these tests carries long messages both ways.
#[test]
fn long_messages_are_placed_and_buffered() {
    let runs = (0..30).map(scenarios::in_order);
    let sum = |(p, b): (usize, usize), (placed, buffered)| (p + placed, b + buffered);
    let (placed, buffered) = runs.fold((0, 0), sum);
    assert!(placed > 50 && buffered > 50, "{placed} {buffered}");
}
