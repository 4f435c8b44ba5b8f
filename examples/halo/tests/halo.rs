//! The iteration under `suci run`. Process 0 compares the result with that of one process.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use xtask::launch::Launch;

const HALO: &str = env!("CARGO_BIN_EXE_halo");

fn run(options: &[&str]) {
    let halo = Launch::start(4, options, Path::new(HALO), &["128", "400"]).unwrap();
    let ended = halo.end().unwrap();
    assert_eq!(ended.status, 0, "{}", ended.err);
    assert!(
        ended.out.ends_with(", the same as in one process\n"),
        "{}",
        ended.out
    );
}

#[test]
fn four_processes_compute_what_one_does() {
    run(&[]);
}

#[test]
fn four_processes_compute_it_over_a_network_with_faults() {
    run(&["--faults", "loss=0.02,dup=0.02,reorder=0.05,seed=5"]);
}
