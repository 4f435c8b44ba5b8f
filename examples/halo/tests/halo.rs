//! The iteration under `suci run`. Process 0 compares the result with that of one process.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use xtask::launch::{Ended, Launch};

const HALO: &str = env!("CARGO_BIN_EXE_halo");

fn run(options: &[&str], points: &str, iterations: &str) -> Ended {
    let arguments = [points, iterations];
    let halo = Launch::start(4, options, Path::new(HALO), &arguments).unwrap();
    halo.end().unwrap()
}

fn is_right(ended: &Ended) {
    assert_eq!(ended.status, 0, "{ended:?}");
    let text = ", the same as in one process\n";
    assert!(ended.out.ends_with(text), "{ended:?}");
}

#[test]
fn four_processes_compute_what_one_does() {
    is_right(&run(&[], "128", "400"));
}

/// A part of one point has its whole edge in both its halos.
#[test]
fn the_smallest_plate_is_computed() {
    is_right(&run(&[], "2", "41"));
}

#[test]
fn four_processes_compute_it_over_a_network_with_faults() {
    let faults = ["--faults", "loss=0.02,dup=0.02,reorder=0.05,seed=5"];
    is_right(&run(&faults, "128", "100"));
}

/// Kills a process. No other can go on without its part: the others say so and fail.
fn others_fail_without(killed: u32) {
    let arguments = ["64", "1000000000"];
    let mut halo = Launch::start(4, &[], Path::new(HALO), &arguments).unwrap();
    halo.says("iteration 40 of").unwrap();
    halo.kill(killed).unwrap();
    let ended = halo.end().unwrap();
    assert_eq!(ended.status, 137, "{ended:?}");
    // A process may hear of the end of one that heard of the first.
    let first = format!("halo: the session with node {killed} ended: ");
    assert!(ended.err.contains(&first), "{ended:?}");
    let failures = ended.err.matches("halo: the session with node ").count();
    assert_eq!(failures, 3, "{ended:?}");
}

#[test]
fn the_others_fail_if_the_root_is_killed() {
    others_fail_without(0);
}

#[test]
fn the_others_fail_if_another_process_is_killed() {
    others_fail_without(3);
}
