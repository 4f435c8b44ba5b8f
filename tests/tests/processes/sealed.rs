//! Commands with a cluster key, between hosts.

use std::path::Path;
use std::process::Command;

use suci_tests::{heavy, light};
use xtask::exec;
use xtask::netns::{Netns, Pair};

use crate::network::cat;

fn suci(host: &Netns) -> Command {
    host.command(exec::built("suci").unwrap())
}

/// Makes a key file.
fn keygen(file: &Path) {
    let mut keygen = Command::new(exec::built("suci").unwrap());
    exec::capture(keygen.arg("keygen").arg(file)).unwrap();
}

/// A sealed file through a cable that drops one packet in fifty, each way. One side has the key by
/// option, the other by the environment.
#[test]
fn a_sealed_file_arrives_between_namespaces_that_lose_packets() {
    let _alone = heavy();
    let dir = tempfile::TempDir::with_prefix("suci-tests-").unwrap();
    let key = dir.path().join("cluster.key");
    keygen(&key);
    let pair = Pair::new().unwrap();
    pair.offloads_off().unwrap();
    pair.drop_randomly(0.02).unwrap();
    let (mut receiver, mut sender) = (suci(&pair.b), suci(&pair.a));
    receiver.arg("cat").arg("--key-file").arg(&key);
    sender.arg("cat").env("SUCI_KEY_FILE", &key);
    cat(
        [receiver, sender],
        &format!("{}:7000", pair.b_addr()),
        16 << 20,
    );
}

/// Bytes that change on the way are not authentic, and are sent again.
#[test]
fn f30_sealed_bytes_that_were_changed_are_sent_again() {
    let _together = light();
    let dir = tempfile::TempDir::with_prefix("suci-tests-").unwrap();
    let key = dir.path().join("cluster.key");
    keygen(&key);
    let netns = Netns::new().unwrap();
    let command = |seed: u32| {
        let faults = format!("corrupt=0.02,dup=0.01,seed={seed}");
        let mut command = suci(&netns);
        command
            .args(["cat", "--faults", &faults])
            .env("SUCI_KEY_FILE", &key);
        command
    };
    cat([command(1), command(2)], "127.0.0.1:7000", 4 << 20);
}

/// Processes at an address of the network get a key by themselves, those on loopback none.
#[test]
fn a_launch_beyond_loopback_is_sealed() {
    let _together = light();
    let pair = Pair::new().unwrap();
    for (address, sealed) in [
        (pair.a_addr().to_string(), true),
        ("127.0.0.1".into(), false),
    ] {
        let program = exec::built("suci").unwrap();
        let mut run = suci(&pair.a);
        run.args(["run", "-n", "3", "--address", &address]);
        run.arg(program)
            .args(["ping", "--count", "3"])
            .env("RUST_LOG", "suci=debug");
        let output = run.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert_eq!(
            said.matches("packets are sealed").count() >= 3,
            sealed,
            "{said}"
        );
        assert!(!said.contains("suci-key-1"), "{said}");
    }
}
