//! Sockets under all faults.

use suci_sim::profiles::Profile;
use suci_sim::runner::run_seed;

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
