//! DSE, `dse.h`: processes on any node, global memory, barriers, semaphores and locks.
//!
//! As in the paper, three modules know nothing of each other's inside, so that each can be
//! replaced: [`memory`], [`process`] and [`message`]. A program does so by [`modules`]: all calls
//! go through its tables. Synchronisation rests on atomic operations of the first.

mod memory;
pub(crate) mod message;
mod modules;
mod process;

use crate::arguments::check;
use crate::fatal;
use crate::runtime::{ever_begun, init, runtime};
use crate::wait::until;
use memory::{ADD, COMPARE_SWAP, FETCH, SET};
use modules::Modules;
use process::Function;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

/// The modules of this node, all of which have begun.
static MODULES: OnceLock<Modules> = OnceLock::new();

fn started() -> bool {
    MODULES.get().is_some()
}

/// A function of a module. `dse_set_modules` took none that is null.
macro_rules! call {
    ($module:ident.$function:ident($($argument:expr),*)) => {
        match MODULES.get().and_then(|modules| modules.$module.$function) {
            Some(function) => function($($argument),*),
            None => fatal!("call dse_init() first"),
        }
    };
}

/// Sends a message of the process module.
fn send(to: usize, bytes: &[u8]) {
    let to = c_int::try_from(to).unwrap_or(-1);
    // SAFETY: the bytes are there for the time of the call.
    unsafe { call!(message.send(to, bytes.as_ptr().cast(), bytes.len())) };
}

/// Gives a message to the process module. It came after its sender was through `dse_init`, which
/// waits for all.
fn deliver(from: c_int, bytes: &[u8]) {
    until(|| MODULES.get());
    // SAFETY: as above.
    unsafe { call!(process.arrived(from, bytes.as_ptr().cast(), bytes.len())) };
}

/// # Safety
/// `message` has `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn dse_arrived(from: c_int, message: *const c_void, length: usize) {
    check(message, length, "message");
    let bytes = match length {
        0 => &[],
        // SAFETY: as dse.h demands.
        length => unsafe { std::slice::from_raw_parts(message.cast(), length) },
    };
    deliver(from, bytes);
}

#[unsafe(no_mangle)]
extern "C" fn dse_init() {
    const MULTIPLE: c_int = 3;
    init(MULTIPLE);
    if !started() {
        let modules = Modules::chosen();
        let begins = [
            modules.memory.begin,
            modules.process.begin,
            modules.message.begin,
        ];
        begins.into_iter().flatten().for_each(|begin| begin());
        let _ = MODULES.set(modules);
        // From now on all nodes take orders.
        runtime().barrier_all();
    }
}

#[unsafe(no_mangle)]
extern "C" fn dse_finalize() {
    ever_begun().finalize();
}

#[unsafe(no_mangle)]
extern "C" fn dse_node() -> c_int {
    c_int::try_from(ever_begun().fabric.me).unwrap_or(-1)
}

#[unsafe(no_mangle)]
extern "C" fn dse_nodes() -> c_int {
    c_int::try_from(ever_begun().fabric.size).unwrap_or(-1)
}

// ---- global memory

#[unsafe(no_mangle)]
extern "C" fn dse_alloc(size: usize) -> u64 {
    call!(memory.alloc(size))
}

#[unsafe(no_mangle)]
extern "C" fn dse_free(block: u64) {
    call!(memory.free(block));
}

/// # Safety
/// `into` has room for `size` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn dse_read(into: *mut c_void, from: u64, size: usize) {
    // SAFETY: as dse.h demands.
    unsafe { call!(memory.read(into, from, size)) };
}

/// # Safety
/// `from` has `size` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn dse_write(to: u64, from: *const c_void, size: usize) {
    // SAFETY: as dse.h demands.
    unsafe { call!(memory.write(to, from, size)) };
}

#[unsafe(no_mangle)]
extern "C" fn dse_fetch_add(at: u64, value: u64) -> u64 {
    change(at, ADD, value, 0)
}

/// Changes a 64-bit integer; returns it as it was before.
fn change(at: u64, kind: c_int, operand: u64, expected: u64) -> u64 {
    call!(memory.change(at, kind, operand, expected))
}

// ---- processes

#[unsafe(no_mangle)]
extern "C" fn dse_create(node: c_int, function: Option<Function>, argument: u64) -> c_int {
    call!(process.create(node, function, argument))
}

#[unsafe(no_mangle)]
extern "C" fn dse_await(process: c_int) -> u64 {
    call!(process.wait(process))
}

// ---- synchronisation

/// The word of a barrier that counts the processes that came, and the one that counts how often it
/// opened.
const ARRIVED: u64 = 0;
const OPENED: u64 = 8;

#[unsafe(no_mangle)]
extern "C" fn dse_barrier(barrier: u64, count: u64) {
    let opened = || change(barrier + OPENED, FETCH, 0, 0);
    let before = opened();
    // Everything that this process did is there for those that come out.
    runtime().fabric.quiet();
    if change(barrier + ARRIVED, ADD, 1, 0) + 1 >= count {
        change(barrier + ARRIVED, SET, 0, 0);
        change(barrier + OPENED, ADD, 1, 0);
    } else {
        until(|| (opened() != before).then_some(()));
    }
}

/// Replaces a word's value as soon as `next` has one for it.
fn replace(word: u64, next: impl Fn(u64) -> Option<u64>) {
    let mut expected = change(word, FETCH, 0, 0);
    until(|| {
        let Some(new) = next(expected) else {
            expected = change(word, FETCH, 0, 0);
            return None;
        };
        let before = change(word, COMPARE_SWAP, new, expected);
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
    change(semaphore, ADD, 1, 0);
}

#[unsafe(no_mangle)]
extern "C" fn dse_lock(lock: u64) {
    replace(lock, |value| (value == 0).then_some(1));
}

#[unsafe(no_mangle)]
extern "C" fn dse_unlock(lock: u64) {
    runtime().fabric.quiet();
    change(lock, SET, 0, 0);
}
