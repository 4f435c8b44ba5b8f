//! 500 joins under four node IDs.

use std::path::Path;
use xtask::launch::Launch;

const MEMBERS: &str = env!("CARGO_BIN_EXE_members");

#[test]
fn five_hundred_joins() {
    let members = Launch::start(5, &[], Path::new(MEMBERS), &["125"]).unwrap();
    let ended = members.end().unwrap();
    let expected = "500 joins, 500 leaves, 0 members left\n";
    assert_eq!(ended.out, expected, "{}", ended.err);
    assert_eq!(ended.status, 0);
}
