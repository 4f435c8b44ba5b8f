//! F32: a day of virtual time, with every kind of trouble each hour, and the bytes on the heap at
//! its end.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "common/net.rs"]
mod net;

use net::{Net, id, message};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use suci_proto::security::Security;
use suci_proto::time::Duration;
use suci_proto::{Config, Renewal};
use toy_cipher::{RecordingHandshakes, SealLedger};

/// Bytes allocated and not freed. The only test of this program is the only one that allocates
/// much.
static HELD: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: everything is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are the system's requirements.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes by which the heap may grow: tables double when they grow, and may be fullest late.
const ALLOWANCE: usize = 64 << 10;

/// An hour of a small cluster: messages of many sizes on several channels, a lossy quarter, an
/// outage longer than the silence timeout, changed keys, a restart, and silence.
fn hour(net: &mut Net) {
    net.lose_every = Some(7);
    exchange(net);
    net.run(Duration::from_secs(900));
    net.lose_every = Some(1);
    exchange(net);
    net.run(Duration::from_secs(30));
    net.lose_every = None;
    net.run(Duration::from_secs(870));
    let now = net.now;
    net.hosts[0].engine.renew_keys(now, Renewal::Revoke);
    net.restart(2);
    exchange(net);
    net.run(Duration::from_secs(1_800));
    net.discard_events();
}

fn exchange(net: &mut Net) {
    for size in [0, 100, 5_000, 300_000] {
        for from in 0..net.len() {
            for to in (0..net.len()).filter(|to| *to != from) {
                net.send(from, id(to), message(&vec![7; size]));
            }
        }
    }
}

/// After the first hours, when tables and buffers have found their size, nothing grows any more.
fn day(mut net: Net, ledger: &SealLedger) {
    let mut hours = |count| {
        for _ in 0..count {
            hour(&mut net);
            assert_eq!(ledger.repeats(), []);
            ledger.forget();
        }
        HELD.load(Ordering::Relaxed)
    };
    let (early, late) = (hours(4), hours(20));
    assert!(net.delivered > 24 * 40, "{}", net.delivered);
    println!("{early} B after 4 hours, {late} B after 24");
    assert!(late < early + ALLOWANCE, "{early} B, then {late} B");
}

/// In both modes. Key phases end after 10 minutes, and connections get new keys each hour.
#[test]
fn f32_a_day_leaves_the_heap_as_it_was() {
    let ledger = SealLedger::default();
    day(Net::new(3, |_| Config::default()), &ledger);
    assert_eq!(ledger.handshakes(), 0);
    let security = Security::Sealed(Arc::new(RecordingHandshakes::new(ledger.clone(), &[1])));
    let config = |_| Config {
        security: security.clone(),
        ..Config::default()
    };
    day(Net::new(3, config), &ledger);
    let (handshakes, phases) = (ledger.handshakes(), ledger.phases());
    println!("{handshakes} handshakes, {phases} key phases");
    assert!(handshakes >= 24 * 2 && phases >= 24 * 4);
}
