//! F32: a day of virtual time, with every kind of trouble each hour, and the bytes on the heap at
//! its end.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "common/net.rs"]
mod net;

use net::{Net, id, message};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use suci_proto::Config;
use suci_proto::time::Duration;

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
/// outage longer than the silence timeout, a restart, and silence.
fn hour(net: &mut Net) {
    net.lose_every = Some(7);
    exchange(net);
    net.run(Duration::from_secs(900));
    net.lose_every = Some(1);
    exchange(net);
    net.run(Duration::from_secs(30));
    net.lose_every = None;
    net.run(Duration::from_secs(870));
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
#[test]
fn f32_a_day_leaves_the_heap_as_it_was() {
    let mut net = Net::new(3, |_| Config::default());
    (0..4).for_each(|_| hour(&mut net));
    let early = HELD.load(Ordering::Relaxed);
    (4..24).for_each(|_| hour(&mut net));
    let late = HELD.load(Ordering::Relaxed);
    assert!(net.delivered > 24 * 40, "{}", net.delivered);
    println!("{early} B after 4 hours, {late} B after 24");
    assert!(late < early + ALLOWANCE, "{early} B, then {late} B");
}
