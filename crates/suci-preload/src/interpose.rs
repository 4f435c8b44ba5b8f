//! The functions that programs call instead of those of the C library.
//!
//! A thread that waits in `accept` may be cancelled; nothing is dropped on its way out.

use crate::address::{self, Raw, canonical};
use crate::next::next;
use crate::question::{self, Question};
use crate::table::{self, Ends};
use crate::{connect, direct, door, interrupt, kernel, process, settings};
use libc::{c_int, c_void, pthread_t, sockaddr, socklen_t};
use rustix::io::Errno;
use rustix::net::sockopt;
use std::net::SocketAddr;

/// Ends a call as the C library does.
fn result(done: Result<(), Errno>) -> c_int {
    match done {
        Ok(()) => 0,
        Err(error) => {
            // SAFETY: the C library's place for this thread's error.
            unsafe { *libc::__errno_location() = error.raw_os_error() };
            -1
        }
    }
}

/// # Safety
/// As `connect(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn connect(
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    if !process::is_inside() {
        // SAFETY: the program passes an address of this length.
        let destination = unsafe { address::read(address, length) };
        let connect = |to| interrupt::uncancelled(|| connect::connect(fd, to));
        if let Some(done) = destination.and_then(connect) {
            return result(done);
        }
    }
    // SAFETY: the program's own arguments.
    unsafe { (next().connect)(fd, address, length) }
}

/// # Safety
/// As `listen(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn listen(fd: c_int, backlog: c_int) -> c_int {
    // SAFETY: the program's own arguments.
    let done = unsafe { (next().listen)(fd, backlog) };
    if done == 0 && !process::is_inside() {
        interrupt::uncancelled(|| door::listen(fd, backlog));
    }
    done
}

/// # Safety
/// As `accept(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn accept(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { accept4(fd, address, length, 0) }
}

/// # Safety
/// As `accept4(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn accept4(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    let mut peer = Raw::new();
    let (to, room) = peer.pointers();
    // SAFETY: `to` has room for any address, and `room` says how much.
    let accepted = unsafe { (next().accept4)(fd, to, room, flags) };
    if accepted < 0 {
        return accepted;
    }
    let told = told_peer(accepted, &peer);
    if address.is_null() {
        return accepted;
    }
    // SAFETY: the program's own arguments.
    match unsafe { told.copy_to(address, length) } {
        Ok(()) => accepted,
        Err(error) => {
            // As in the kernel, the client is gone then.
            // SAFETY: the program does not know this descriptor yet.
            unsafe { libc::close(accepted) };
            result(Err(error))
        }
    }
}

/// Returns the address that the program is told of a client.
fn told_peer(accepted: c_int, peer: &Raw) -> Raw {
    match ends_of(accepted, peer, Question::Accepted) {
        Some(ends) => {
            if process::has_node()
                && let Some(client) = peer.get()
            {
                direct::accepted(accepted, canonical(client));
            }
            // Written bytes stay on this host for a moment only: TCP need not collect them.
            kernel::with(accepted, |socket| {
                let _ = sockopt::set_tcp_nodelay(socket, true);
            });
            ends.peer.into()
        }
        None => peer.clone(),
    }
}

/// Returns the addresses of a connection whose peer, to the kernel, is at `peer`. The process that
/// has the node knows them, and this one remembers its answer.
fn ends_of(fd: c_int, peer: &Raw, question: Question) -> Option<Ends> {
    let peer = peer.get().filter(|_| !process::is_inside())?;
    interrupt::uncancelled(|| find_ends(fd, peer, question))
}

fn find_ends(fd: c_int, peer: SocketAddr, question: Question) -> Option<Ends> {
    let known = match question {
        Question::Accepted => table::lock().accepted(peer),
        Question::Connected => table::lock().ends(peer),
    };
    if known.is_none() && process::has_node() {
        return None;
    }
    if !kernel::with(fd, kernel::is_tcp)? {
        return None;
    }
    known.or_else(|| {
        let settings = settings::get()?;
        let ends = question::ask(settings, question, canonical(peer))?;
        Some(table::lock().learn(peer, ends))
    })
}

/// # Safety
/// As `getpeername(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn getpeername(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    let mut peer = Raw::new();
    let (to, room) = peer.pointers();
    // SAFETY: `to` has room for any address, and `room` says how much.
    let done = unsafe { (next().getpeername)(fd, to, room) };
    if done != 0 {
        return done;
    }
    let told = ends_of(fd, &peer, Question::Connected).map_or(peer, |ends| ends.peer.into());
    // SAFETY: the program's own arguments.
    result(unsafe { told.copy_to(address, length) })
}

/// # Safety
/// As `getsockname(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn getsockname(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    let mut peer = Raw::new();
    let (to, room) = peer.pointers();
    // SAFETY: `to` has room for any address, and `room` says how much.
    let is_connected = unsafe { (next().getpeername)(fd, to, room) } == 0;
    if let Some(ends) = is_connected
        .then(|| ends_of(fd, &peer, Question::Connected))
        .flatten()
    {
        // SAFETY: the program's own arguments.
        return result(unsafe { Raw::from(ends.local).copy_to(address, length) });
    }
    // SAFETY: the program's own arguments.
    unsafe { (next().getsockname)(fd, address, length) }
}

/// # Safety
/// As `getsockopt(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    // SAFETY: the program's own arguments.
    let done = unsafe { (next().getsockopt)(fd, level, name, value, length) };
    if done == 0 && level == libc::SOL_SOCKET && name == libc::SO_ERROR {
        let error = value.cast::<c_int>();
        // SAFETY: the kernel wrote an error there; if the program has less room than for one, no
        // error of this library is written.
        unsafe {
            if length.read_unaligned() as usize == size_of::<c_int>()
                && error.read_unaligned() == libc::ECONNRESET
                && let Some(Some(failure)) = kernel::with(fd, connect::failure_of)
            {
                error.write_unaligned(failure.raw_os_error());
            }
        }
    }
    done
}

/// # Safety
/// As `pthread_cancel(3)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pthread_cancel(thread: pthread_t) -> c_int {
    // SAFETY: the program's own arguments.
    let done = unsafe { (next().pthread_cancel)(thread) };
    interrupt::cancelled();
    done
}
