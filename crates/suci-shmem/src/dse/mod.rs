//! DSE, `dse.h`: processes on any node, global memory, barriers, semaphores and locks.
//!
//! As in the paper, three modules know nothing of each other's inside, so that each can be
//! replaced: [`memory`], [`process`] and [`message`]. Synchronisation rests on atomic operations of
//! the first.

mod memory;
pub(crate) mod message;
mod process;

use crate::fatal;
use crate::runtime::{Runtime, init, runtime};
use crate::wait::until;
use memory::GlobalMemory;
use message::Order;
use process::{Function, Processes};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use suci::Message;
use suci::remote::AtomicOp;

/// The modules of this node.
struct Dse {
    memory: GlobalMemory,
    processes: Processes,
}

static DSE: OnceLock<Dse> = OnceLock::new();

fn dse() -> &'static Dse {
    match DSE.get() {
        Some(dse) => dse,
        None => fatal!("call dse_init() first"),
    }
}

impl Dse {
    fn new(runtime: &Runtime) -> Self {
        Self {
            memory: GlobalMemory::new(runtime),
            processes: Processes::new(runtime),
        }
    }
}

/// Carries out an order of another node. It came after that node was through `dse_init`, which
/// waits for all.
pub(crate) fn on_message(message: &Message) {
    let dse = until(|| DSE.get());
    match Order::read(message).filter(|order| dse.processes.accepts(*order)) {
        Some(order) => dse.processes.run(order),
        None => fatal!("PE {} sent an order that makes no sense", message.from),
    }
}

#[unsafe(no_mangle)]
extern "C" fn dse_init() {
    const MULTIPLE: c_int = 3;
    init(MULTIPLE);
    if DSE.get().is_none() {
        let made = Dse::new(runtime());
        let _ = DSE.set(made);
        // From now on all nodes take orders.
        runtime().barrier_all();
    }
}

#[unsafe(no_mangle)]
extern "C" fn dse_finalize() {
    runtime().finalize();
}

#[unsafe(no_mangle)]
extern "C" fn dse_node() -> c_int {
    c_int::try_from(runtime().fabric.me).unwrap_or(-1)
}

#[unsafe(no_mangle)]
extern "C" fn dse_nodes() -> c_int {
    c_int::try_from(runtime().fabric.size).unwrap_or(-1)
}

// ---- global memory

#[unsafe(no_mangle)]
extern "C" fn dse_alloc(size: usize) -> u64 {
    dse().memory.allocate(size)
}

#[unsafe(no_mangle)]
extern "C" fn dse_free(block: u64) {
    dse().memory.free(block);
}

/// # Safety
/// `into` has room for `size` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn dse_read(into: *mut c_void, from: u64, size: usize) {
    if size > 0 {
        // SAFETY: as dse.h demands.
        let into = unsafe { std::slice::from_raw_parts_mut(into.cast(), size) };
        dse().memory.read(from, into);
    }
}

/// # Safety
/// `from` has `size` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn dse_write(to: u64, from: *const c_void, size: usize) {
    if size > 0 {
        // SAFETY: as dse.h demands.
        let bytes: &[u8] = unsafe { std::slice::from_raw_parts(from.cast(), size) };
        dse().memory.write(to, bytes.to_vec());
    }
}

#[unsafe(no_mangle)]
extern "C" fn dse_fetch_add(at: u64, value: u64) -> u64 {
    dse().memory.change(at, AtomicOp::Add(value))
}

// ---- processes

#[unsafe(no_mangle)]
extern "C" fn dse_create(node: c_int, function: Option<Function>, argument: u64) -> c_int {
    let on = usize::try_from(node).ok();
    let Some(on) = on.filter(|node| *node < runtime().fabric.size) else {
        fatal!(
            "there is no node {node}: name one from 0 to {}",
            dse_nodes() - 1
        );
    };
    let Some(function) = function else {
        fatal!("the function is null: pass one of the program");
    };
    let process = dse().processes.create(on, function, argument);
    process.map_or(-1, |process| c_int::try_from(process).unwrap_or(-1))
}

#[unsafe(no_mangle)]
extern "C" fn dse_await(process: c_int) -> u64 {
    dse()
        .processes
        .wait(usize::try_from(process).unwrap_or(usize::MAX))
}

// ---- synchronisation

/// The word of a barrier that counts the processes that came, and the one that counts how often it
/// opened.
const ARRIVED: u64 = 0;
const OPENED: u64 = 8;

#[unsafe(no_mangle)]
extern "C" fn dse_barrier(barrier: u64, count: u64) {
    let memory = &dse().memory;
    let opened = || memory.change(barrier + OPENED, AtomicOp::Fetch);
    let before = opened();
    // Everything that this process did is there for those that come out.
    runtime().fabric.quiet();
    if memory.change(barrier + ARRIVED, AtomicOp::Add(1)) + 1 >= count {
        memory.change(barrier + ARRIVED, AtomicOp::Set(0));
        memory.change(barrier + OPENED, AtomicOp::Add(1));
    } else {
        until(|| (opened() != before).then_some(()));
    }
}

/// Replaces a word's value as soon as `next` has one for it.
fn replace(word: u64, next: impl Fn(u64) -> Option<u64>) {
    let memory = &dse().memory;
    let mut expected = memory.change(word, AtomicOp::Fetch);
    until(|| {
        let Some(new) = next(expected) else {
            expected = memory.change(word, AtomicOp::Fetch);
            return None;
        };
        let before = memory.change(word, AtomicOp::CompareSwap { expected, new });
        let done = before == expected;
        expected = before;
        done.then_some(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn dse_semaphore_take(semaphore: u64) {
    replace(semaphore, |value| value.checked_sub(1));
}

#[unsafe(no_mangle)]
extern "C" fn dse_semaphore_give(semaphore: u64) {
    runtime().fabric.quiet();
    dse().memory.change(semaphore, AtomicOp::Add(1));
}

#[unsafe(no_mangle)]
extern "C" fn dse_lock(lock: u64) {
    replace(lock, |value| (value == 0).then_some(1));
}

#[unsafe(no_mangle)]
extern "C" fn dse_unlock(lock: u64) {
    runtime().fabric.quiet();
    dse().memory.change(lock, AtomicOp::Set(0));
}
