//! Sockets under all faults.

use suci_sim::profiles::{Profile, options};
use suci_sim::runner::{run, run_seed};

/// Bytes and messages arrive in order and once, whole or with an error at both ends.
#[test]
fn sockets_keep_their_promises() {
    let (mut connections, mut failed) = (0, 0);
    for seed in 0..20 {
        let outcome = run_seed(seed, Profile::Sockets, None, false);
        assert_eq!(outcome.failure, None, "seed {seed}");
        connections += outcome.tally.connections;
        failed += outcome.tally.connections_failed;
    }
    println!("{connections} connections, {failed} ends failed");
    assert!(connections > 1_000 && failed > 100);
}

/// F04: a node takes the places of listeners with a backlog of 1 again and again, and confirms
/// nothing. It loses each place in time, so in the end every other node is served by each.
#[test]
fn f04_a_silent_node_holds_a_backlog_of_one_for_a_while_only() {
    for seed in 0..10 {
        let mut options = options(seed, Profile::Sockets, None);
        let sockets = options.sockets.as_mut().expect("a profile with sockets");
        (sockets.backlog, sockets.silent) = (1, true);
        let outcome = run(options, false);
        assert_eq!(outcome.failure, None, "seed {seed}");
        assert!(outcome.tally.connections > 0, "seed {seed}");
    }
}
