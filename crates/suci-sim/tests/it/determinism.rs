//! A seed is a run: the same twice, and another for another seed.

use std::num::NonZeroUsize;
use suci_sim::profiles::{PROFILES, Profile};
use suci_sim::runner::{self, run_seed};

#[test]
fn the_same_seed_is_the_same_run() {
    for (name, profile) in PROFILES {
        let nodes = matches!(profile, Profile::Big | Profile::Incast | Profile::Vast).then_some(12);
        let first = run_seed(5, profile, nodes, false);
        let again = run_seed(5, profile, nodes, false);
        assert_eq!(first.trace, again.trace, "{name}");
        assert_eq!(first.tally, again.tally, "{name}");
    }
}

#[test]
fn another_seed_is_another_run() {
    let traces: Vec<_> = (0..8)
        .map(|seed| run_seed(seed, Profile::Lossy, Some(2), false).trace)
        .collect();
    let mut distinct = traces.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), traces.len());
}

#[test]
fn outcomes_come_in_the_order_of_seeds_whatever_the_threads_do() {
    let plan = runner::Plan {
        from: 3,
        to: 11,
        profile: Profile::Default,
        nodes: Some(2),
        jobs: NonZeroUsize::new(3).unwrap_or(NonZeroUsize::MIN),
        stop: false,
        print: false,
    };
    let mut seen = Vec::new();
    let (tally, failed) = runner::run_plan(&plan, |outcome| seen.push(outcome.seed));
    assert_eq!(seen, (3..11).collect::<Vec<_>>());
    assert_eq!((tally.seeds, failed), (8, 0));
}

#[test]
fn the_seeds_of_a_full_run_include_big_ones() {
    let big = (0..10_000)
        .filter(|seed| suci_sim::profiles::options(*seed, Profile::Default, None).nodes == 100);
    assert!(big.count() >= 10);
}
