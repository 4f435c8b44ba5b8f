//! The farm under `suci run`, with a worker that is killed.

use std::path::Path;
use xtask::launch::Launch;

const FARM: &str = env!("CARGO_BIN_EXE_task-farm");

#[test]
fn primes_are_counted() {
    let farm = Launch::start(4, &[], Path::new(FARM), &["300000"]).unwrap();
    let ended = farm.end().unwrap();
    assert_eq!(ended.out, "25997 primes below 300000\n", "{}", ended.err);
    assert_eq!(ended.status, 0);
}

/// The others do its task.
#[test]
fn a_worker_that_is_killed_changes_nothing() {
    let mut farm = Launch::start(4, &[], Path::new(FARM), &["3000000"]).unwrap();
    farm.says("10 of 150 tasks").unwrap();
    farm.kill(2).unwrap();
    let ended = farm.end().unwrap();
    assert_eq!(ended.out, "216816 primes below 3000000\n", "{}", ended.err);
    // `suci run` reports the end of process 2.
    assert_eq!(ended.status, 137);
}
