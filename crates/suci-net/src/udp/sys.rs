//! The six system calls of the fast path, each made safe: every pointer handed to the kernel is
//! derived here from a reference that outlives the call, with that reference's length.

use std::io::{self, IoSlice};
use std::mem::offset_of;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use libc::{c_int, c_void};

use super::addr::{CAPACITY, RawAddr};
use super::cmsg::{Control, RECV_CONTROL, SEND_CONTROL};
use crate::Ready;

/// Sets an integer option.
pub(crate) fn set_int(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: c_int,
) -> io::Result<()> {
    let length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the value lives through the call and is as long as said; the kernel only reads it.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw const value).cast::<c_void>(),
            length,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Gives the socket a filter that takes everything, unless it has one already, which its former
/// owner may need. Returns whether it has one now.
pub(crate) fn ensure_filter(fd: BorrowedFd<'_>) -> bool {
    match filter_length(fd) {
        Ok(0) => attach(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &[TAKE_ALL]).is_ok(),
        Ok(_) => true,
        // The filter is an eBPF program, whose length the kernel does not tell.
        Err(error) => error.raw_os_error() == Some(libc::EACCES),
    }
}

/// How many instructions the socket's classic filter has; 0 without a filter.
pub(crate) fn filter_length(fd: BorrowedFd<'_>) -> io::Result<usize> {
    get_words(fd, libc::SOL_SOCKET, libc::SO_GET_FILTER, &mut [])
}

/// The instruction of classic BPF "take the whole packet".
pub(crate) const TAKE_ALL: libc::sock_filter = libc::sock_filter {
    code: (libc::BPF_RET | libc::BPF_K) as u16,
    jt: 0,
    jf: 0,
    k: u32::MAX,
};

/// The instruction "drop the packet".
pub(crate) const DROP_ALL: libc::sock_filter = libc::sock_filter { k: 0, ..TAKE_ALL };

/// `libc::sock_fprog` with its padding as a field: the kernel copies all bytes, and without the
/// field some of them would be left over from other uses of the stack.
#[repr(C)]
struct Program {
    len: u16,
    padding: [u8; size_of::<usize>() - size_of::<u16>()],
    filter: *const libc::sock_filter,
}

const _: () = assert!(
    size_of::<Program>() == size_of::<libc::sock_fprog>()
        && offset_of!(Program, filter) == offset_of!(libc::sock_fprog, filter)
);

/// Attaches a program of classic BPF, which needs no privilege: as the socket's filter
/// (`SO_ATTACH_FILTER`), or as the program that chooses among the sockets of its group
/// (`SO_ATTACH_REUSEPORT_CBPF`, `PACKET_FANOUT_DATA`).
pub(crate) fn attach(
    fd: BorrowedFd<'_>,
    level: c_int,
    option: c_int,
    program: &[libc::sock_filter],
) -> io::Result<()> {
    let program = Program {
        len: program.len().try_into().unwrap_or(u16::MAX),
        padding: Default::default(),
        filter: program.as_ptr(),
    };
    // SAFETY: the program and its instructions outlive the call, and are as long as said (longer
    // ones are refused); the kernel only reads them.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            (&raw const program).cast::<c_void>(),
            size_of::<Program>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads an option made of integers. Returns the length that the kernel tells, in bytes but for
/// `SO_GET_FILTER`.
fn get_words<const N: usize>(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    words: &mut [u32; N],
) -> io::Result<usize> {
    let mut length = size_of::<[u32; N]>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which is the size of `words`; any bit
    // pattern is a valid u32; both references outlive the call.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            level,
            name,
            words.as_mut_ptr().cast::<c_void>(),
            &raw mut length,
        )
    };
    if result == 0 {
        Ok(length as usize)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Reads an integer option; a negative value reads as 0.
pub(crate) fn get_size(fd: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<usize> {
    let mut words = [0_u32; 1];
    get_words(fd, level, name, &mut words)?;
    let [word] = words;
    Ok(usize::try_from(word.cast_signed()).unwrap_or(0))
}

/// Datagrams the kernel dropped at this socket: `SO_MEMINFO`, which unlike `SO_RXQ_OVFL` tells
/// without a further datagram having to arrive.
pub(crate) fn drops(fd: BorrowedFd<'_>) -> io::Result<u64> {
    const SK_MEMINFO_DROPS: usize = 8;
    memory_word(fd, SK_MEMINFO_DROPS)
}

/// Bytes charged to the receive buffer of this socket.
pub(crate) fn charged(fd: BorrowedFd<'_>) -> io::Result<u64> {
    const SK_MEMINFO_RMEM_ALLOC: usize = 0;
    memory_word(fd, SK_MEMINFO_RMEM_ALLOC)
}

/// One number of `SO_MEMINFO` (linux/sock_diag.h); 0 if this kernel does not tell it.
fn memory_word(fd: BorrowedFd<'_>, place: usize) -> io::Result<u64> {
    let mut words = [0_u32; 16];
    let written = get_words(fd, libc::SOL_SOCKET, libc::SO_MEMINFO, &mut words)?;
    let words = words.get(..written / size_of::<u32>()).unwrap_or_default();
    Ok(words.get(place).copied().map_or(0, u64::from))
}

/// Sends the gathered slices, without blocking; retries when a signal interrupts.
pub(crate) fn send(
    fd: BorrowedFd<'_>,
    dest: &mut RawAddr,
    slices: &[IoSlice<'_>],
    control: &mut Control<SEND_CONTROL>,
) -> io::Result<usize> {
    if let ([slice], 0) = (slices, control.len) {
        return send_one(fd, dest, slice);
    }
    let mut header = empty_header();
    header.msg_name = dest.bytes.as_mut_ptr().cast();
    header.msg_namelen = dest.len.min(CAPACITY) as libc::socklen_t;
    header.msg_iov = slices.as_ptr().cast::<libc::iovec>().cast_mut();
    header.msg_iovlen = slices.len() as _;
    if control.len > 0 {
        header.msg_control = control.bytes.as_mut_ptr().cast();
        header.msg_controllen = control.len.min(SEND_CONTROL) as _;
    }
    loop {
        // SAFETY: every pointer in the header comes from a reference of this function's arguments,
        // which outlive the call, with that reference's length. `IoSlice` is documented to be ABI
        // compatible with `iovec`, and sendmsg only reads through it.
        let result =
            unsafe { libc::sendmsg(fd.as_raw_fd(), &raw const header, libc::MSG_DONTWAIT) };
        if let Some(done) = finished(result) {
            return done;
        }
    }
}

/// The same for a single slice without control messages: the kernel has a header and a list less to
/// copy, 0.1 us.
fn send_one(fd: BorrowedFd<'_>, dest: &RawAddr, slice: &[u8]) -> io::Result<usize> {
    let length = dest.len.min(CAPACITY) as libc::socklen_t;
    loop {
        // SAFETY: both pointers come from references of this function's arguments, which outlive
        // the call, with their lengths; sendto only reads.
        let result = unsafe {
            libc::sendto(
                fd.as_raw_fd(),
                slice.as_ptr().cast(),
                slice.len(),
                libc::MSG_DONTWAIT,
                dest.bytes.as_ptr().cast(),
                length,
            )
        };
        if let Some(done) = finished(result) {
            return done;
        }
    }
}

/// The result of one receive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    /// Bytes on the wire, more than the buffer holds if they were cut. For a report: bytes in the
    /// buffer.
    pub(crate) len: usize,
    /// The control messages did not fit.
    pub(crate) control_cut: bool,
}

/// The behaviour of a receive at an empty buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Empty {
    /// The call returns.
    Return,
    /// The call sleeps, until the socket's time limit or a signal.
    Sleep,
    /// The call returns, and does not look at the datagrams: it takes the next report of one that
    /// was not delivered. It receives the beginning of that datagram, and "from" is that datagram's
    /// destination.
    Reports,
}

/// Receives one datagram or GRO train; retries when a signal interrupts, unless it slept.
pub(crate) fn recv(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    from: &mut RawAddr,
    control: &mut Control<RECV_CONTROL>,
    empty: Empty,
) -> io::Result<Arrival> {
    let mut vector = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast::<c_void>(),
        iov_len: buffer.len(),
    };
    let mut header = empty_header();
    header.msg_name = from.bytes.as_mut_ptr().cast();
    header.msg_namelen = CAPACITY as libc::socklen_t;
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.bytes.as_mut_ptr().cast();
    header.msg_controllen = RECV_CONTROL as _;
    // MSG_TRUNC as a flag makes the kernel return the true length.
    let flags = match empty {
        Empty::Return => libc::MSG_DONTWAIT | libc::MSG_TRUNC,
        Empty::Sleep => libc::MSG_TRUNC,
        Empty::Reports => libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE,
    };
    loop {
        // SAFETY: every pointer in the header comes from a mutable reference of this function's
        // arguments or from `vector`, which outlive the call, with that reference's length; the
        // kernel writes plain bytes.
        let result = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, flags) };
        let done = match empty {
            Empty::Return | Empty::Reports => finished(result),
            Empty::Sleep => Some(finished(result).unwrap_or(Err(io::ErrorKind::WouldBlock.into()))),
        };
        if let Some(done) = done {
            from.len = header.msg_namelen as usize;
            // A usize or, with musl, a u32.
            let written: usize = header.msg_controllen as _;
            control.len = written.min(RECV_CONTROL);
            let control_cut = header.msg_flags & libc::MSG_CTRUNC != 0;
            return done.map(|len| Arrival { len, control_cut });
        }
    }
}

/// Polls one descriptor. A signal ends the wait with nothing ready, so that the caller can act on
/// it.
pub(crate) fn wait(
    fd: BorrowedFd<'_>,
    timeout: Option<Duration>,
    want_write: bool,
) -> io::Result<Ready> {
    let events = if want_write {
        libc::POLLIN | libc::POLLOUT
    } else {
        libc::POLLIN
    };
    let mut entry = libc::pollfd {
        fd: fd.as_raw_fd(),
        events,
        revents: 0,
    };
    let limit = timeout.map(|t| libc::timespec {
        tv_sec: libc::time_t::try_from(t.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: t.subsec_nanos() as _,
    });
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: one pollfd, as said; the time limit is null or a valid timespec; the null signal mask
    // is allowed. All outlive the call.
    let result = unsafe { libc::ppoll(&raw mut entry, 1, limit, std::ptr::null()) };
    if result < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::Interrupted => Ok(Ready::default()),
            _ => Err(error),
        };
    }
    if entry.revents & libc::POLLNVAL != 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // An error report is something to receive: reading clears it.
    let readable = entry.revents & (libc::POLLIN | libc::POLLERR | libc::POLLHUP) != 0;
    Ok(Ready {
        readable,
        writable: entry.revents & libc::POLLOUT != 0,
    })
}

fn empty_header() -> libc::msghdr {
    // SAFETY: msghdr is plain integers and pointers, for which all zero bits are valid. It cannot
    // be written as a literal because musl's has private padding.
    unsafe { std::mem::zeroed() }
}

/// `None` if a signal interrupted the call, which is then to be repeated.
fn finished(result: libc::ssize_t) -> Option<io::Result<usize>> {
    if let Ok(bytes) = usize::try_from(result) {
        return Some(Ok(bytes));
    }
    let error = io::Error::last_os_error();
    (error.kind() != io::ErrorKind::Interrupted).then_some(Err(error))
}
