//! Drivers of sealed nodes: changes of keys, and restored snapshots.

use super::*;
use crate::clock::ClockJumps;
use crate::security::{ClusterKey, KeyChanges, KeySource, Keyring, SharedKeys};
use crate::sys;
use std::sync::atomic::AtomicU64;
use toy_cipher::{RecordingHandshakes, SealLedger};

/// Two drivers with a connection, of these modes.
fn connected_by(security: [Security; 2]) -> (Driver, Driver) {
    let hub = Hub::new(8 << 20).with_mtu(1_472);
    let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let [first, second] = security;
    let (mut a, _) = driver_with(&hub, 0, address(1), first);
    let (mut b, _) = driver_with(&hub, 1, address(2), second);
    a.engine
        .add_peer(Clock.now(), NodeId(1), address(2))
        .unwrap();
    exchange(&mut a, &mut b);
    (a, b)
}

/// A message each way.
fn exchange(a: &mut Driver, b: &mut Driver) {
    a.push(NodeId(1), "question".into()).unwrap();
    until(a, b, |_, b| b.take_message().is_some());
    b.push(NodeId(0), "answer".into()).unwrap();
    until(a, b, |a, _| a.take_message().is_some());
    until(a, b, |a, b| a.is_flushed() && b.is_flushed());
}

fn key(byte: u8) -> ClusterKey {
    ClusterKey::from_bytes(&[byte; 32])
}

/// Nothing under a key that was taken out is opened, even if it is in the socket already.
#[test]
fn what_waits_in_the_socket_is_not_opened_under_a_key_that_was_taken_out() {
    for (changed, opens) in [
        (Keyring::of_two(key(2), key(1)), true),
        (key(2).into(), false),
    ] {
        let keys = [0, 1].map(|node| {
            let keys = SharedKeys::new(NodeId(node), KeySource::Cluster(key(1).into()));
            Arc::new(keys.unwrap())
        });
        let (mut a, mut b) = connected_by(keys.each_ref().map(|keys| keys.security()));
        let [ours, _] = keys;
        a.keys = Some(KeyChanges::new(ours, Clock.now()));
        b.push(NodeId(0), "late".into()).unwrap();
        b.output_now().unwrap();
        a.change_keys(|shared| shared.set(changed)).unwrap();
        a.run_cycle().unwrap();
        assert_eq!(a.take_message().is_some(), opens);
    }
}

/// The machine may have been restored from a snapshot, and another one may have the same keys.
#[test]
fn nothing_is_sealed_between_a_jump_of_the_wall_clock_and_a_fresh_handshake() {
    let ledger = SealLedger::default();
    let security = || Security::Sealed(Arc::new(RecordingHandshakes::new(ledger.clone(), &[1])));
    let (mut a, mut b) = connected_by([security(), security()]);
    let ahead = Arc::new(AtomicU64::new(0));
    let read = Arc::clone(&ahead);
    let wall = move || sys::wall_nanos() + read.load(Ordering::Relaxed);
    a.clock_jumps = Some(ClockJumps::new(wall));
    exchange(&mut a, &mut b);
    assert_eq!(ledger.handshakes(), 1);
    let sealed = ledger.packets();
    ahead.store(3_600_000_000_000, Ordering::Relaxed);
    a.push(NodeId(1), "question".into()).unwrap();
    a.output_now().unwrap();
    assert_eq!(ledger.packets(), sealed);
    until(&mut a, &mut b, |_, b| b.take_message().is_some());
    exchange(&mut a, &mut b);
    assert_eq!(ledger.handshakes(), 2);
}
