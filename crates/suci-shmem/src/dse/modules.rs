//! The tables of functions by which a program replaces modules.

use super::message::DEFAULT as MESSAGE;
use super::process::{DEFAULT as PROCESS, Function};
use super::{memory::DEFAULT as MEMORY, started};
use crate::fatal;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

/// `struct dse_memory_module`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct MemoryModule {
    pub(super) begin: Option<extern "C" fn()>,
    pub(super) alloc: Option<extern "C" fn(usize) -> u64>,
    pub(super) free: Option<extern "C" fn(u64)>,
    pub(super) read: Option<unsafe extern "C" fn(*mut c_void, u64, usize)>,
    pub(super) write: Option<unsafe extern "C" fn(u64, *const c_void, usize)>,
    pub(super) change: Option<extern "C" fn(u64, c_int, u64, u64) -> u64>,
}

/// `struct dse_process_module`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ProcessModule {
    pub(super) begin: Option<extern "C" fn()>,
    pub(super) create: Option<extern "C" fn(c_int, Option<Function>, u64) -> c_int>,
    pub(super) wait: Option<extern "C" fn(c_int) -> u64>,
    pub(super) arrived: Option<unsafe extern "C" fn(c_int, *const c_void, usize)>,
}

/// `struct dse_message_module`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct MessageModule {
    pub(super) begin: Option<extern "C" fn()>,
    pub(super) send: Option<unsafe extern "C" fn(c_int, *const c_void, usize)>,
}

/// `struct dse_modules`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Modules {
    pub(super) memory: MemoryModule,
    pub(super) process: ProcessModule,
    pub(super) message: MessageModule,
}

/// The modules that `dse_init` will use.
static CHOSEN: Mutex<Modules> = Mutex::new(Modules {
    memory: MEMORY,
    process: PROCESS,
    message: MESSAGE,
});

impl Modules {
    pub(super) fn chosen() -> Self {
        *CHOSEN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The name of a function that is null.
    fn missing(&self) -> Option<&'static str> {
        let Self {
            memory,
            process,
            message,
        } = self;
        let all = [
            ("memory.begin", memory.begin.is_some()),
            ("memory.alloc", memory.alloc.is_some()),
            ("memory.free", memory.free.is_some()),
            ("memory.read", memory.read.is_some()),
            ("memory.write", memory.write.is_some()),
            ("memory.change", memory.change.is_some()),
            ("process.begin", process.begin.is_some()),
            ("process.create", process.create.is_some()),
            ("process.await", process.wait.is_some()),
            ("process.arrived", process.arrived.is_some()),
            ("message.begin", message.begin.is_some()),
            ("message.send", message.send.is_some()),
        ];
        let missing = all.iter().find(|(_, is_there)| !is_there);
        missing.map(|(name, _)| *name)
    }
}

/// Gives the modules that are in use, or will be.
///
/// # Safety
/// `modules` points to room for them.
#[unsafe(no_mangle)]
unsafe extern "C" fn dse_get_modules(modules: *mut Modules) {
    // SAFETY: the caller's promise.
    unsafe { modules.write(Modules::chosen()) };
}

/// Replaces modules.
///
/// # Safety
/// `modules` points to tables whose functions do what dse.h says of them.
#[unsafe(no_mangle)]
unsafe extern "C" fn dse_set_modules(modules: *const Modules) {
    // SAFETY: the caller's promise.
    let modules = unsafe { *modules };
    if started() {
        fatal!("dse_init() was called before dse_set_modules(): replace modules first");
    }
    if let Some(name) = modules.missing() {
        fatal!("{name} is null: begin with dse_get_modules(), and replace functions by others");
    }
    *CHOSEN.lock().unwrap_or_else(PoisonError::into_inner) = modules;
}
