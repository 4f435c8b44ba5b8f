//! Sealed clusters under all faults, with keys that are rotated, revoked and restored.

use std::process::Command;

use crate::scenario::SEALED;
use suci_sim::profiles::Profile;
use suci_sim::runner::run_seed;

/// F15: whatever happens, no number is sealed twice under one key: the run fails if one is.
#[test]
fn f15_sealed_runs_keep_every_promise() {
    let (mut handshakes, mut phases, mut messages) = (0, 0, 0);
    for seed in 0..20 {
        let outcome = run_seed(seed, Profile::Sealed, None, false);
        assert_eq!(outcome.failure, None, "seed {seed}");
        handshakes += outcome.tally.handshakes;
        phases += outcome.tally.phases;
        messages += outcome.tally.messages;
    }
    assert!(handshakes > 100 && phases > 10 && messages > 10_000);
}

/// The tests of faults (`faults_*.rs`) again, with sealed packets.
#[test]
fn each_fault_is_survived_with_keys_too() {
    let program = std::env::current_exe().unwrap_or_else(|why| panic!("this program: {why}"));
    let mut again = Command::new(program);
    let output = again.arg("faults_").env(SEALED, "1").output();
    let output = output.unwrap_or_else(|why| panic!("{again:?}: {why}"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "in sealed mode:\n{said}");
    assert!(!said.contains(" 0 passed"), "no test ran:\n{said}");
}
