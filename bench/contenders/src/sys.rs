//! System calls that std lacks.

use std::io;
use std::mem;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use super::wire::Result;

/// Processor seconds that this process has used, all threads, user and system.
pub(crate) fn cpu_seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes one timespec; the clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Keeps this thread, and those it starts from now on, on one processor.
pub(crate) fn pin(processor: usize) -> Result<()> {
    // SAFETY: a cpu_set_t is an array of bits, of which none set is a valid value.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the set is ours; libc checks the number against its size.
    unsafe { libc::CPU_SET(processor, &mut set) };
    // SAFETY: the set outlives the call and has the given size.
    let done = unsafe { libc::sched_setaffinity(0, mem::size_of_val(&set), &raw const set) };
    checked(done as isize)?;
    Ok(())
}

/// Sets an option that is a number.
pub(crate) fn set_option(fd: &impl AsRawFd, level: i32, option: i32, value: i32) -> io::Result<()> {
    let (at, length) = ((&raw const value).cast(), mem::size_of_val(&value));
    // SAFETY: the descriptor is open; the kernel reads the four bytes of `value`.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, at, length as u32) };
    checked(done as isize).map(drop)
}

/// A UDP socket with buffers of 4 MiB. A server's learns where its client is from the first
/// datagram.
pub(crate) fn udp(local: SocketAddr, remote: Option<SocketAddr>) -> Result<UdpSocket> {
    let socket = UdpSocket::bind(local)?;
    for option in [libc::SO_RCVBUF, libc::SO_SNDBUF] {
        set_option(&socket, libc::SOL_SOCKET, option, 4 << 20)?;
    }
    if let Some(remote) = remote {
        socket.connect(remote)?;
    }
    Ok(socket)
}

/// Room for one control message with a number.
#[repr(C, align(8))]
struct Control([u8; 32]);

/// Sends the bytes of `parts` as one train of datagrams of `segment` bytes each, the last one
/// perhaps shorter.
pub(crate) fn send_train(
    socket: &UdpSocket,
    parts: &[libc::iovec],
    segment: u16,
) -> io::Result<usize> {
    let mut control = Control([0; 32]);
    // SAFETY: all-zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = parts.as_ptr().cast_mut();
    message.msg_iovlen = parts.len();
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: arithmetic only.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(mem::size_of::<u16>() as u32) } as usize;
    // SAFETY: `control` is aligned and has room for one message of two bytes, which is written
    // here.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_UDP;
        (*header).cmsg_type = libc::UDP_SEGMENT;
        (*header).cmsg_len = libc::CMSG_LEN(mem::size_of::<u16>() as u32) as usize;
        libc::CMSG_DATA(header)
            .cast::<u16>()
            .write_unaligned(segment);
    }
    // SAFETY: the parts point to memory that lives (the caller's contract), the control message to
    // ours.
    checked(unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, 0) })
}

/// Receives one datagram or train into `buffer`: its length, and the length of each segment of it.
pub(crate) fn recv_train(
    socket: &UdpSocket,
    buffer: &mut [u8],
    flags: i32,
) -> io::Result<(usize, usize)> {
    let mut control = Control([0; 32]);
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: all-zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    // SAFETY: everything that `message` points to is ours and lives until the call returns.
    let length = checked(unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) })?;
    // SAFETY: the kernel has filled `control` and its length.
    let segment = unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let is_train = !header.is_null()
            && (*header).cmsg_level == libc::SOL_UDP
            && (*header).cmsg_type == libc::UDP_GRO;
        is_train.then(|| libc::CMSG_DATA(header).cast::<i32>().read_unaligned())
    };
    let segment = segment.and_then(|length| usize::try_from(length).ok());
    Ok((length, segment.unwrap_or(length).max(1)))
}

pub(crate) fn checked(done: isize) -> io::Result<usize> {
    usize::try_from(done).map_err(|_| io::Error::last_os_error())
}

/// Sleeps until something can be read, for at most `millis` milliseconds.
pub(crate) fn wait_readable(fd: i32, millis: i32) -> io::Result<()> {
    let mut wanted = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one pollfd, ours, for the time of the call.
    match checked(unsafe { libc::poll(&raw mut wanted, 1, millis) } as isize) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(()),
    }
}
