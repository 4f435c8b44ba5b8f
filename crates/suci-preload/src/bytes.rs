//! The functions that programs call to read, write and wait, instead of those of the C library.

use crate::calls::{self, Sent};
use crate::link::Link;
use crate::next::next;
use crate::waits::Sets;
use crate::{direct, process, waits};
use libc::{
    c_int, c_void, epoll_event, fd_set, iovec, msghdr, nfds_t, pollfd, sigset_t, size_t, sockaddr,
    socklen_t, ssize_t, timespec, timeval,
};
use std::sync::Arc;
use std::time::Duration;

// ---- reading

/// Receives past the kernel if that is possible, else by `kernel`.
///
/// # Safety
/// `parts` name memory that may be written.
unsafe fn receive(
    fd: c_int,
    link: &Arc<Link>,
    parts: &[iovec],
    flags: c_int,
    kernel: impl FnOnce() -> ssize_t,
) -> ssize_t {
    // SAFETY: as the caller promises.
    match unsafe { calls::receive(fd, link, parts, flags) } {
        Some(done) => done.result(),
        None => calls::in_kernel(fd, link, flags, kernel),
    }
}

/// Returns memory of the program as one part.
const fn part(start: *const c_void, length: size_t) -> [iovec; 1] {
    [iovec {
        iov_base: start.cast_mut(),
        iov_len: length,
    }]
}

/// Returns the parts at `start`.
///
/// # Safety
/// `start` points to `count` parts, if that is not negative.
unsafe fn parts<'a>(start: *const iovec, count: usize) -> &'a [iovec] {
    match start.is_null() || count > libc::UIO_MAXIOV as usize {
        // The kernel says that it is wrong.
        true => &[],
        // SAFETY: not null, and as the caller promises.
        false => unsafe { std::slice::from_raw_parts(start, count) },
    }
}

/// # Safety
/// As `read(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn read(fd: c_int, to: *mut c_void, length: size_t) -> ssize_t {
    // SAFETY: the program's own arguments.
    let kernel = || unsafe { (next().read)(fd, to, length) };
    match direct::link(fd) {
        // SAFETY: the program's memory.
        Some(link) => unsafe { receive(fd, &link, &part(to, length), 0, kernel) },
        None => kernel(),
    }
}

/// # Safety
/// As `read(2)`; `room` is the room behind `to`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __read_chk(
    fd: c_int,
    to: *mut c_void,
    length: size_t,
    room: size_t,
) -> ssize_t {
    check(length, room);
    // SAFETY: the program's own arguments.
    unsafe { read(fd, to, length) }
}

/// Ends a program that would write behind its memory, as the C library does.
fn check(length: size_t, room: size_t) {
    if length > room {
        crate::tell("the program reads more than its memory has room for");
        std::process::abort();
    }
}

/// # Safety
/// As `readv(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn readv(fd: c_int, to: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the program's own arguments.
    let kernel = || unsafe { (next().readv)(fd, to, count) };
    match direct::link(fd) {
        // SAFETY: the program's memory.
        Some(link) => unsafe {
            let parts = parts(to, usize::try_from(count).unwrap_or(0));
            receive(fd, &link, parts, 0, kernel)
        },
        None => kernel(),
    }
}

/// # Safety
/// As `recv(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn recv(
    fd: c_int,
    to: *mut c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the program's own arguments.
    let kernel = || unsafe { (next().recv)(fd, to, length, flags) };
    match direct::link(fd) {
        // SAFETY: the program's memory.
        Some(link) => unsafe { receive(fd, &link, &part(to, length), flags, kernel) },
        None => kernel(),
    }
}

/// # Safety
/// As `recv(2)`; `room` is the room behind `to`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    to: *mut c_void,
    length: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    check(length, room);
    // SAFETY: the program's own arguments.
    unsafe { recv(fd, to, length, flags) }
}

/// # Safety
/// As `recvfrom(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    to: *mut c_void,
    length: size_t,
    flags: c_int,
    address: *mut sockaddr,
    room: *mut socklen_t,
) -> ssize_t {
    // SAFETY: the program's own arguments.
    let kernel = || unsafe { (next().recvfrom)(fd, to, length, flags, address, room) };
    let Some(link) = direct::link(fd) else {
        return kernel();
    };
    // SAFETY: the program's memory.
    unsafe {
        match calls::receive(fd, &link, &part(to, length), flags) {
            Some(done) => {
                // A connection has one peer, which TCP does not tell.
                if !(address.is_null() || room.is_null()) {
                    *room = 0;
                }
                done.result()
            }
            None => calls::in_kernel(fd, &link, flags, kernel),
        }
    }
}

/// # Safety
/// As `recvfrom(2)`; `memory` is the room behind `to`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    to: *mut c_void,
    length: size_t,
    memory: size_t,
    flags: c_int,
    address: *mut sockaddr,
    room: *mut socklen_t,
) -> ssize_t {
    check(length, memory);
    // SAFETY: the program's own arguments.
    unsafe { recvfrom(fd, to, length, flags, address, room) }
}

/// # Safety
/// As `recvmsg(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the program's own arguments.
    let kernel = || unsafe { (next().recvmsg)(fd, message, flags) };
    let Some(link) = direct::link(fd).filter(|_| !message.is_null()) else {
        return kernel();
    };
    // SAFETY: not null, and the program's memory.
    unsafe {
        let parts = parts((*message).msg_iov, (*message).msg_iovlen);
        match calls::receive(fd, &link, parts, flags) {
            Some(done) => {
                ((*message).msg_namelen, (*message).msg_controllen) = (0, 0);
                (*message).msg_flags = 0;
                done.result()
            }
            None => calls::in_kernel(fd, &link, flags, kernel),
        }
    }
}

// ---- writing

/// Sends past the kernel as far as that is possible, and the rest by `kernel`, which is called with
/// the bytes that are sent already.
///
/// # Safety
/// `parts` name memory that may be read.
unsafe fn send_parts(
    fd: c_int,
    parts: &[iovec],
    flags: c_int,
    kernel: impl FnOnce(usize) -> ssize_t,
) -> ssize_t {
    let is_possible = calls::length(parts).is_some_and(|length| length > 0);
    let Some(link) = direct::link(fd).filter(|_| is_possible) else {
        return kernel(0);
    };
    // SAFETY: as the caller promises.
    match unsafe { calls::send(fd, &link, parts, flags) } {
        Sent::All(done) => done.result(),
        Sent::Rest(0) => kernel(0),
        Sent::Rest(sent) => {
            let begun = ssize_t::try_from(sent).unwrap_or(ssize_t::MAX);
            begun + kernel(sent).max(0)
        }
    }
}

/// Returns the parts behind the first `sent` bytes.
fn behind(parts: &[iovec], mut sent: usize) -> Vec<iovec> {
    let mut left = Vec::new();
    for part in parts {
        let skipped = sent.min(part.iov_len);
        sent -= skipped;
        if skipped < part.iov_len {
            left.push(iovec {
                iov_base: part.iov_base.wrapping_byte_add(skipped),
                iov_len: part.iov_len - skipped,
            });
        }
    }
    left
}

/// # Safety
/// As `write(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn write(fd: c_int, from: *const c_void, length: size_t) -> ssize_t {
    // SAFETY: the program's own arguments, or the rest of its memory.
    unsafe {
        let kernel = |sent| (next().write)(fd, from.wrapping_byte_add(sent), length - sent);
        send_parts(fd, &part(from, length), 0, kernel)
    }
}

/// # Safety
/// As `writev(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn writev(fd: c_int, from: *const iovec, count: c_int) -> ssize_t {
    if !direct::is_marked(fd) {
        // SAFETY: the program's own arguments.
        return unsafe { (next().writev)(fd, from, count) };
    }
    // SAFETY: the program's own arguments, or the rest of its memory.
    unsafe {
        let all = parts(from, usize::try_from(count).unwrap_or(0));
        let kernel = |sent| match sent {
            0 => (next().writev)(fd, from, count),
            sent => {
                let left = behind(all, sent);
                (next().writev)(fd, left.as_ptr(), left.len() as c_int)
            }
        };
        send_parts(fd, all, 0, kernel)
    }
}

/// # Safety
/// As `send(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn send(
    fd: c_int,
    from: *const c_void,
    length: size_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the program's own arguments, or the rest of its memory.
    unsafe {
        let kernel = |sent| (next().send)(fd, from.wrapping_byte_add(sent), length - sent, flags);
        send_parts(fd, &part(from, length), flags, kernel)
    }
}

/// # Safety
/// As `sendto(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    from: *const c_void,
    length: size_t,
    flags: c_int,
    address: *const sockaddr,
    room: socklen_t,
) -> ssize_t {
    // SAFETY: the program's own arguments, or the rest of its memory.
    unsafe {
        let kernel = |sent| {
            let rest = from.wrapping_byte_add(sent);
            (next().sendto)(fd, rest, length - sent, flags, address, room)
        };
        // A connection has one peer: TCP takes no notice of the address.
        send_parts(fd, &part(from, length), flags, kernel)
    }
}

/// # Safety
/// As `sendmsg(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the program's own arguments.
    let whole = || unsafe { (next().sendmsg)(fd, message, flags) };
    if !direct::is_marked(fd) || message.is_null() {
        return whole();
    }
    // SAFETY: not null, and the program's memory.
    unsafe {
        if (*message).msg_controllen > 0 {
            return whole();
        }
        let all = parts((*message).msg_iov, (*message).msg_iovlen);
        let kernel = |sent| match sent {
            0 => whole(),
            sent => {
                let mut left = behind(all, sent);
                let mut rest = *message;
                (rest.msg_iov, rest.msg_iovlen) = (left.as_mut_ptr(), left.len());
                (next().sendmsg)(fd, &raw const rest, flags)
            }
        };
        send_parts(fd, all, flags, kernel)
    }
}

/// # Safety
/// As `shutdown(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn shutdown(fd: c_int, how: c_int) -> c_int {
    // SAFETY: the program's own arguments.
    let done = unsafe { (next().shutdown)(fd, how) };
    // SAFETY: the C library's place for this thread's error.
    let error = unsafe { *libc::__errno_location() };
    let link = direct::link(fd);
    if done != 0 {
        // If the peer reset the connection a moment ago, the next call that reads says so.
        let was_reset = link.is_some() && error == libc::ENOTCONN;
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = error };
        return if was_reset { 0 } else { done };
    }
    if let Some(link) = link.filter(|_| how != libc::SHUT_WR) {
        // Calls that read find the end in the kernel.
        direct::leave_to_kernel(link);
    }
    done
}

// ---- waiting

/// Returns a time of C, without one for none.
///
/// # Safety
/// `time` is null or points to a time.
unsafe fn duration(time: *const timespec) -> Option<Duration> {
    // SAFETY: as the caller promises.
    let time = unsafe { time.as_ref() }?;
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Some(Duration::new(seconds, nanos))
}

/// Returns a time in milliseconds, without one for a negative number.
fn of_millis(millis: c_int) -> Option<Duration> {
    u64::try_from(millis).ok().map(Duration::from_millis)
}

fn timespec_of(time: Duration) -> timespec {
    timespec {
        tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(time.subsec_nanos().cast_signed()),
    }
}

fn pointer<T>(value: Option<&T>) -> *const T {
    value.map_or(std::ptr::null(), std::ptr::from_ref)
}

/// # Safety
/// As `ppoll(2)`.
unsafe fn poll_within(
    fds: *mut pollfd,
    count: nfds_t,
    limit: Option<Duration>,
    mask: *const sigset_t,
) -> c_int {
    let kernel = |fds: *mut pollfd, limit: Option<Duration>| {
        let limit = limit.map(timespec_of);
        // SAFETY: the program's own arguments, and a time that lives until the call returns.
        unsafe { (next().ppoll)(fds, count, pointer(limit.as_ref()), mask) }
    };
    let length = usize::try_from(count).unwrap_or(0);
    if fds.is_null() || length == 0 {
        return kernel(fds, limit);
    }
    // SAFETY: not null; the program's own arguments.
    let (polled, mask) = unsafe {
        let polled = std::slice::from_raw_parts_mut(fds, length);
        (polled, mask.as_ref())
    };
    waits::poll(polled, mask, limit, kernel).unwrap_or_else(|| kernel(fds, limit))
}

/// # Safety
/// As `poll(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn poll(fds: *mut pollfd, count: nfds_t, limit: c_int) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { poll_within(fds, count, of_millis(limit), std::ptr::null()) }
}

/// # Safety
/// As `poll(2)`; `room` is that of the array in bytes.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __poll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    limit: c_int,
    room: size_t,
) -> c_int {
    check(
        usize::try_from(count).unwrap_or(usize::MAX),
        room / size_of::<pollfd>(),
    );
    // SAFETY: the program's own arguments.
    unsafe { poll(fds, count, limit) }
}

/// # Safety
/// As `ppoll(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    limit: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    if process::is_inside() {
        // SAFETY: the arguments of a sleep of this library.
        return process::asleep(|| unsafe { (next().ppoll)(fds, count, limit, mask) });
    }
    // SAFETY: the program's own arguments.
    unsafe { poll_within(fds, count, duration(limit), mask) }
}

/// # Safety
/// As `ppoll(2)`; `room` is that of the array in bytes.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    limit: *const timespec,
    mask: *const sigset_t,
    room: size_t,
) -> c_int {
    check(
        usize::try_from(count).unwrap_or(usize::MAX),
        room / size_of::<pollfd>(),
    );
    // SAFETY: the program's own arguments.
    unsafe { ppoll(fds, count, limit, mask) }
}

/// # Safety
/// As `pselect(2)`.
unsafe fn select_within(
    count: c_int,
    pointers: [*mut fd_set; 3],
    limit: Option<Duration>,
    mask: *const sigset_t,
) -> c_int {
    let kernel = |[read, write, except]: [*mut fd_set; 3], limit: Option<Duration>| {
        let limit = limit.map(timespec_of);
        // SAFETY: the program's own sets or copies of them, and a time that lives until the call
        // returns.
        unsafe { (next().pselect)(count, read, write, except, pointer(limit.as_ref()), mask) }
    };
    // SAFETY: the program's own sets.
    let sets = pointers.map(|set| unsafe { set.as_ref().copied() });
    // A program may have longer sets than the C library knows.
    let is_known = usize::try_from(count).is_ok_and(|count| count <= libc::FD_SETSIZE);
    if !is_known || !(0..count).any(direct::is_marked) {
        return kernel(pointers, limit);
    }
    let mut sets = Sets { count, sets };
    // SAFETY: the program's own mask.
    let mask = unsafe { mask.as_ref() };
    let ready = waits::select(&mut sets, mask, limit, |sets, limit| {
        let copies = sets.sets.each_mut();
        let copies = copies.map(|set| {
            set.as_mut()
                .map_or(std::ptr::null_mut(), std::ptr::from_mut)
        });
        kernel(copies, limit)
    });
    let Some(ready) = ready else {
        return kernel(pointers, limit);
    };
    if ready >= 0 {
        for (to, set) in pointers.into_iter().zip(sets.sets) {
            if let Some(set) = set {
                // SAFETY: the set comes from this pointer.
                unsafe { *to = set };
            }
        }
    }
    ready
}

/// # Safety
/// As `select(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    limit: *mut timeval,
) -> c_int {
    // SAFETY: null, or the program's own time.
    let time = unsafe { limit.as_ref() };
    let time = time.map(|time| {
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        let micros = u64::try_from(time.tv_usec).unwrap_or(0);
        Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros))
    });
    let deadline = waits::deadline(time);
    // SAFETY: the program's own arguments.
    let ready = unsafe { select_within(count, [read, write, except], time, std::ptr::null()) };
    if let Some(deadline) = deadline {
        // As the kernel does.
        let left = deadline.saturating_duration_since(std::time::Instant::now());
        // SAFETY: not null, since there is a time.
        unsafe {
            (*limit).tv_sec = libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX);
            (*limit).tv_usec = libc::suseconds_t::from(left.subsec_micros().cast_signed());
        }
    }
    ready
}

/// # Safety
/// As `pselect(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    limit: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { select_within(count, [read, write, except], duration(limit), mask) }
}

/// # Safety
/// As `epoll_create(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_create(size: c_int) -> c_int {
    // SAFETY: the program's own arguments.
    let epoll = unsafe { (next().epoll_create)(size) };
    waits::made(epoll);
    epoll
}

/// # Safety
/// As `epoll_create1(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_create1(flags: c_int) -> c_int {
    // SAFETY: the program's own arguments.
    let epoll = unsafe { (next().epoll_create1)(flags) };
    waits::made(epoll);
    epoll
}

/// # Safety
/// As `epoll_ctl(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_ctl(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    // SAFETY: the program's own arguments.
    let done = unsafe { (next().epoll_ctl)(epoll, operation, fd, event) };
    if done == 0 {
        let event = match operation {
            libc::EPOLL_CTL_DEL => None,
            // SAFETY: null, or the event that the kernel just read.
            _ => unsafe { event.as_ref().copied() },
        };
        waits::registered(epoll, fd, event);
    }
    done
}

/// # Safety
/// As `epoll_wait(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_wait(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    limit: c_int,
) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { epoll_pwait(epoll, events, most, limit, std::ptr::null()) }
}

/// # Safety
/// As `epoll_pwait(2)`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    most: c_int,
    limit: c_int,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the program's own arguments.
    let whole = || unsafe { (next().epoll_pwait)(epoll, events, most, limit, mask) };
    let length = usize::try_from(most).unwrap_or(0);
    if events.is_null() || length == 0 {
        return whole();
    }
    // SAFETY: not null; the program's own arguments.
    let (room, signals) = unsafe {
        let room = std::slice::from_raw_parts_mut(events, length);
        (room, mask.as_ref())
    };
    let kernel = |events: &mut [epoll_event], limit: Option<Duration>| {
        // Rounded up, so that no time is left when the call returns.
        let millis = limit.map_or(-1, |limit| {
            c_int::try_from(limit.as_micros().div_ceil(1000)).unwrap_or(c_int::MAX)
        });
        // SAFETY: the program's own memory.
        unsafe { (next().epoll_pwait)(epoll, events.as_mut_ptr(), most, millis, mask) }
    };
    waits::epoll_wait(epoll, room, signals, of_millis(limit), kernel).unwrap_or_else(whole)
}
