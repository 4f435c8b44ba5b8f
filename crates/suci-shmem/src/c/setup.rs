//! Beginning and end, processes, threads, and what is to be known of them.

use super::{TeamHandle, export};
use crate::arguments::{check, give};
use crate::runtime::{CTX_DEFAULT, ever_begun, init, runtime};
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::Ordering;

/// `SHMEM_THREAD_SINGLE`
const SINGLE: c_int = 0;
/// `SHMEM_THREAD_MULTIPLE`
const MULTIPLE: c_int = 3;

/// `SHMEM_VENDOR_STRING`
const NAME: &std::ffi::CStr = c"Suci";

export!(safe ["init"] () { init(SINGLE) });
export!(["init_thread"] (requested: c_int, provided: *mut c_int) -> c_int {
    let threads = requested.clamp(SINGLE, MULTIPLE);
    init(threads);
    runtime().set_threads(threads);
    give(provided, threads, "provided");
    0
});
export!(["query_thread"] (provided: *mut c_int) {
    give(provided, runtime().threads.load(Ordering::Relaxed), "provided");
});
export!(safe ["finalize"] () { ever_begun().finalize() });
export!(safe ["global_exit"] (status: c_int) { ever_begun().exit_all(status) });
export!(safe ["my_pe"] () -> c_int { own() });
export!(safe ["n_pes"] () -> c_int { count() });
export!(safe ["pe_accessible"] (pe: c_int) -> c_int {
    (0..count()).contains(&pe).into()
});
export!(safe ["addr_accessible"] (addr: *const c_void, pe: c_int) -> c_int {
    let pe = usize::try_from(pe).unwrap_or(usize::MAX);
    runtime().fabric.is_accessible(addr.addr(), pe).into()
});
export!(safe ["ptr"] (dest: *const c_void, pe: c_int) -> *mut c_void {
    pointer(dest, runtime().target(CTX_DEFAULT, pe).1)
});
export!(safe ["team_ptr"] (team: TeamHandle, dest: *const c_void, pe: c_int) -> *mut c_void {
    let team = runtime().find_team(team);
    let pe = team.and_then(|team| team.members.pe(usize::try_from(pe).ok()?));
    pe.map_or(std::ptr::null_mut(), |pe| pointer(dest, pe))
});
export!(["info_get_version"] (major: *mut c_int, minor: *mut c_int) {
    give(major, 1, "major");
    give(minor, 5, "minor");
});
export!(["info_get_name"] (name: *mut c_char) {
    let bytes = NAME.to_bytes_with_nul();
    check(name, bytes.len(), "name");
    name.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
});
// Its variable arguments are for profiling libraries alone, and are not read.
export!(safe ["pcontrol"] (_level: c_int) {});

/// Where this process has the memory of another one: its heap, if both share memory.
fn pointer(dest: *const c_void, pe: usize) -> *mut c_void {
    let fabric = &runtime().fabric;
    if !fabric.is_accessible(dest.addr(), pe) {
        return std::ptr::null_mut();
    }
    if pe == fabric.me {
        return dest.cast_mut();
    }
    let there = fabric.pointer_to(pe, dest.addr());
    there.map_or(std::ptr::null_mut(), <*mut u8>::cast)
}

// A program may ask for these numbers after the end, too.
fn own() -> c_int {
    c_int::try_from(ever_begun().fabric.me).unwrap_or(c_int::MAX)
}

fn count() -> c_int {
    c_int::try_from(ever_begun().fabric.size).unwrap_or(c_int::MAX)
}

#[unsafe(no_mangle)]
extern "C" fn start_pes(_: c_int) {
    init(SINGLE);
}

#[unsafe(no_mangle)]
extern "C" fn _my_pe() -> c_int {
    own()
}

#[unsafe(no_mangle)]
extern "C" fn _num_pes() -> c_int {
    count()
}
