//! The process module: functions of the program that run on any node, and their results.

use super::modules::ProcessModule;
use super::send;
use crate::fabric::Place;
use crate::fatal;
use crate::heap::ALIGNMENT;
use crate::memory;
use crate::runtime::{Runtime, runtime};
use crate::wait::until;
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock, PoisonError};
use suci::remote::{AtomicOp, Width};

/// The functions of this module.
pub(super) const DEFAULT: ProcessModule = ProcessModule {
    begin: Some(begin),
    create: Some(create),
    wait: Some(wait),
    arrived: Some(arrived),
};

static PROCESSES: OnceLock<Processes> = OnceLock::new();

fn processes() -> &'static Processes {
    match PROCESSES.get() {
        Some(processes) => processes,
        None => fatal!("call the process module's begin first, or dse_init()"),
    }
}

extern "C" fn begin() {
    let made = Processes::new(runtime());
    let _ = PROCESSES.set(made);
}

extern "C" fn create(node: c_int, function: Option<Function>, argument: u64) -> c_int {
    let size = runtime().fabric.size;
    let on = usize::try_from(node).ok();
    let Some(on) = on.filter(|node| *node < size) else {
        fatal!("there is no node {node}: name one from 0 to {}", size - 1);
    };
    let Some(function) = function else {
        fatal!("the function is null: pass one of the program");
    };
    let process = processes().create(on, function, argument);
    process.map_or(-1, |process| c_int::try_from(process).unwrap_or(-1))
}

extern "C" fn wait(process: c_int) -> u64 {
    processes().wait(usize::try_from(process).unwrap_or(usize::MAX))
}

/// # Safety
/// `message` has `length` bytes.
unsafe extern "C" fn arrived(from: c_int, message: *const c_void, length: usize) {
    // SAFETY: the caller's promise.
    let bytes: &[u8] = unsafe { std::slice::from_raw_parts(message.cast(), length) };
    let creator = usize::try_from(from).ok();
    let order = creator.and_then(|creator| Order::of_bytes(creator, bytes));
    match order.filter(|order| processes().accepts(*order)) {
        Some(order) => processes().run(order),
        None => fatal!("node {from} sent an order that makes no sense"),
    }
}

/// An order to create a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Order {
    /// The node that gives it.
    creator: usize,
    /// The number of the process at its creator.
    process: usize,
    /// The function's offset in the program.
    function: u64,
    argument: u64,
}

impl Order {
    fn to_bytes(self) -> Vec<u8> {
        let words = [self.process as u64, self.function, self.argument];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn of_bytes(creator: usize, bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.as_chunks();
        let [process, function, argument] = words else {
            return None;
        };
        rest.is_empty().then_some(Self {
            creator,
            process: usize::try_from(u64::from_le_bytes(*process)).ok()?,
            function: u64::from_le_bytes(*function),
            argument: u64::from_le_bytes(*argument),
        })
    }
}

/// Processes of one creator that were not awaited.
const MOST: usize = 1_024;

/// Bytes of the entry of a process: its end, and its result.
const ENTRY: usize = 16;

pub(super) type Function = unsafe extern "C" fn(u64) -> u64;

/// The processes that this node created.
struct Processes {
    /// The entries, at each node in its heap.
    entries: Place,
    taken: Mutex<[bool; MOST]>,
}

impl Processes {
    /// Blocks until all nodes do so.
    fn new(runtime: &Runtime) -> Self {
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
    fn create(&self, node: usize, function: Function, argument: u64) -> Option<usize> {
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
            false => send(node, &order.to_bytes()),
        }
        Some(process)
    }

    /// Waits for the end of a process, and returns its result.
    fn wait(&self, process: usize) -> u64 {
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
    fn run(&self, order: Order) {
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
            let Runtime {
                fabric, reports, ..
            } = runtime();
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
            reports.fetch_add(1, Ordering::SeqCst);
            set(at + 8, result);
            set(at, 1);
            reports.fetch_sub(1, Ordering::SeqCst);
        };
        let thread = std::thread::Builder::new().name("dse-process".into());
        if let Err(error) = thread.spawn(work) {
            fatal!("no thread for a process: {error}");
        }
    }

    /// Whether orders of a node make sense.
    fn accepts(&self, order: Order) -> bool {
        order.process < MOST && order.creator < runtime().fabric.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_as_they_are_written() {
        let order = Order {
            creator: 3,
            process: 7,
            function: 0x1234,
            argument: u64::MAX,
        };
        let bytes = order.to_bytes();
        assert_eq!(Order::of_bytes(3, &bytes), Some(order));
        assert_eq!(Order::of_bytes(3, &bytes[1..]), None);
        assert_eq!(Order::of_bytes(3, &[]), None);
    }
}
