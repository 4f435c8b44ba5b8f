//! The server under `suci run`, with a worker that is killed.

use std::path::Path;
use xtask::launch::{Ended, Launch};

const SERVER: &str = env!("CARGO_BIN_EXE_parameter-server");

/// `workers` checked all their parameters, and the monitor heard of the last step.
fn succeeded(ended: &Ended, workers: usize, steps: &str) {
    let right = ended.out.matches(": all parameters right\n").count();
    assert_eq!(right, workers, "{ended:?}");
    assert!(ended.out.contains(&format!("{steps} steps, ")), "{ended:?}");
}

#[test]
fn every_worker_gets_the_right_parameters() {
    let server = Launch::start(5, &[], Path::new(SERVER), &["16", "6"]).unwrap();
    let ended = server.end().unwrap();
    succeeded(&ended, 3, "6");
    assert_eq!(ended.status, 0);
}

#[test]
fn a_worker_that_is_killed_is_missed_by_nobody() {
    let mut server = Launch::start(5, &[], Path::new(SERVER), &["4", "30"]).unwrap();
    server.says("step 3 of 30").unwrap();
    server.kill(2).unwrap();
    let ended = server.end().unwrap();
    succeeded(&ended, 2, "30");
    assert_eq!(ended.status, 137);
}
