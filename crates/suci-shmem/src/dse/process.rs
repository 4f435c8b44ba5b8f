//! The process module: functions of the program that run on any node, and their results.

use super::message::{self, Order};
use crate::fabric::Place;
use crate::fatal;
use crate::heap::ALIGNMENT;
use crate::memory;
use crate::runtime::{Runtime, runtime};
use crate::wait::until;
use std::sync::{Mutex, PoisonError};
use suci::remote::{AtomicOp, Width};

/// Processes of one creator that were not awaited.
const MOST: usize = 1_024;

/// Bytes of the entry of a process: its end, and its result.
const ENTRY: usize = 16;

pub(super) type Function = unsafe extern "C" fn(u64) -> u64;

/// The processes that this node created.
pub(super) struct Processes {
    /// The entries, at each node in its heap.
    entries: Place,
    taken: Mutex<[bool; MOST]>,
}

impl Processes {
    /// Blocks until all nodes do so.
    pub(super) fn new(runtime: &Runtime) -> Self {
        let first = runtime.allocate(MOST * ENTRY, ALIGNMENT);
        if first.is_null() {
            fatal!(
                "the heap has no room for the table of processes: set SHMEM_SYMMETRIC_SIZE to more"
            );
        }
        let entries = runtime.fabric.place_of(first.addr(), MOST * ENTRY);
        let taken = Mutex::new([false; MOST]);
        Self { entries, taken }
    }

    /// Orders a process. Returns its number, if there is one.
    pub(super) fn create(&self, node: usize, function: Function, argument: u64) -> Option<usize> {
        let runtime = runtime();
        let code =
            memory::code().unwrap_or_else(|| fatal!("the code of the program was not found"));
        let Some(function) = code.offset(function as usize, 1) else {
            fatal!("the function is not of the program: pass one that all nodes have");
        };
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let process = taken.iter().position(|taken| !taken)?;
        if let Some(taken) = taken.get_mut(process) {
            *taken = true;
        }
        drop(taken);
        runtime
            .fabric
            .write(self.entries, process * ENTRY, &[0; ENTRY]);
        let order = Order {
            creator: runtime.fabric.me,
            process,
            function: function as u64,
            argument,
        };
        match node == runtime.fabric.me {
            true => self.run(order),
            false => message::send(runtime, node, order),
        }
        Some(process)
    }

    /// Waits for the end of a process, and returns its result.
    pub(super) fn wait(&self, process: usize) -> u64 {
        let taken = |taken: &[bool; MOST]| taken.get(process).copied().unwrap_or(false);
        if !taken(&self.taken.lock().unwrap_or_else(PoisonError::into_inner)) {
            fatal!("process {process} is not of this node, or was awaited: await each once");
        }
        let word = |at: usize| {
            let mut word = [0; 8];
            runtime()
                .fabric
                .read(self.entries, process * ENTRY + at, &mut word);
            u64::from_le_bytes(word)
        };
        until(|| (word(0) != 0).then_some(()));
        let result = word(8);
        let mut table = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = table.get_mut(process) {
            *taken = false;
        }
        result
    }

    /// Runs an ordered process in a thread.
    pub(super) fn run(&self, order: Order) {
        let code = memory::code().filter(|code| {
            let function = usize::try_from(order.function).unwrap_or(usize::MAX);
            function < code.length
        });
        let Some(code) = code else {
            fatal!(
                "node {} ordered a function that this program has not",
                order.creator
            );
        };
        let address = code.pointer(usize::try_from(order.function).unwrap_or(0));
        // SAFETY: the offset is that of a function of this type in the same program, by `create` of
        // a node of this user's, whose program is the same as `Fabric` compared by its variables.
        let function = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Function>(address) };
        let entries = self.entries;
        let work = move || {
            // SAFETY: as dse.h demands of the function.
            let result = unsafe { function(order.argument) };
            let fabric = &runtime().fabric;
            // All that the process wrote is there before its end is.
            fabric.quiet();
            let at = order.process * ENTRY;
            let set = |at, value| {
                fabric.fetch_atomic_at(
                    order.creator,
                    entries,
                    at,
                    Width::Bits64,
                    AtomicOp::Set(value),
                )
            };
            set(at + 8, result);
            set(at, 1);
        };
        let thread = std::thread::Builder::new().name("dse-process".into());
        if let Err(error) = thread.spawn(work) {
            fatal!("no thread for a process: {error}");
        }
    }

    /// Whether orders of a node make sense.
    pub(super) fn accepts(&self, order: Order) -> bool {
        order.process < MOST && order.creator < runtime().fabric.size
    }
}
