//! System calls for memory and descriptors that processes of one machine have in common.

use super::{checked, owned, status};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Words that have room for a control message with one descriptor.
const CONTROL: usize = 4;

/// Bytes of a descriptor in a control message.
const DESCRIPTOR: libc::c_uint = 4;

const _: () = assert!(size_of::<libc::c_int>() == DESCRIPTOR as usize);

/// Makes a file in memory, which is gone with its last descriptor and mapping.
pub(crate) fn memory_file(length: u64) -> io::Result<OwnedFd> {
    let name = c"suci";
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a string that outlives the call.
    let make = |flags| owned(unsafe { libc::memfd_create(name.as_ptr(), flags) });
    // A kernel before 6.3 does not know the second flag.
    let file = make(flags | libc::MFD_NOEXEC_SEAL).or_else(|_| make(flags))?;
    let length = libc::off_t::try_from(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
    // SAFETY: no pointers are involved.
    checked(unsafe { libc::ftruncate(file.as_raw_fd(), length) })?;
    Ok(file)
}

/// Forbids changes to a file in memory, for ever.
pub(crate) fn seal(file: &OwnedFd, seals: libc::c_int) -> io::Result<()> {
    // SAFETY: no pointers are involved.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }).map(drop)
}

/// Returns the forbidden changes of a file in memory. Fails for another file.
pub(crate) fn seals(file: &OwnedFd) -> io::Result<libc::c_int> {
    // SAFETY: no pointers are involved.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) })
}

/// Returns the bytes of a file.
pub(crate) fn file_length(file: &OwnedFd) -> io::Result<u64> {
    let length = status(file.as_raw_fd())?.st_size;
    u64::try_from(length).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// The process at the other end of a local socket, as the kernel noted it when the two were
/// connected; for a listener, when it began to listen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credentials {
    pub(crate) user: libc::uid_t,
    /// 0 if this process cannot see it.
    pub(crate) process: libc::pid_t,
}

/// Returns the process at the other end.
pub(crate) fn credentials(stream: &UnixStream) -> io::Result<Credentials> {
    let mut found = libc::ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    };
    let mut length = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or(0);
    // SAFETY: `found` and `length` outlive the call, and `length` tells the size of `found`.
    let done = unsafe {
        let value = (&raw mut found).cast();
        let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
        libc::getsockopt(stream.as_raw_fd(), level, name, value, &raw mut length)
    };
    checked(done)?;
    Ok(Credentials {
        user: found.uid,
        process: found.pid,
    })
}

/// Returns a descriptor that is readable when the process has ended.
pub(crate) fn process_descriptor(process: libc::pid_t) -> io::Result<OwnedFd> {
    // SAFETY: no pointers are involved.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) };
    owned(libc::c_int::try_from(fd).map_err(|_| io::ErrorKind::InvalidData)?)
}

/// Waits until one of the descriptors is ready, or `timeout` is over.
pub(crate) fn poll(entries: &mut [libc::pollfd], timeout: Option<Duration>) -> io::Result<()> {
    let limit = timeout.map_or(-1, |t| {
        libc::c_int::try_from(t.as_millis()).unwrap_or(libc::c_int::MAX)
    });
    let count = libc::nfds_t::try_from(entries.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the list has this many entries, and outlives the call.
    match checked(unsafe { libc::poll(entries.as_mut_ptr(), count, limit) }) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        done => done.map(drop),
    }
}

/// Calls `use_it` with the header of a message of these bytes, which has room for one descriptor.
fn with_header<T>(bytes: &mut [u8], use_it: impl FnOnce(&mut libc::msghdr) -> T) -> T {
    let mut control = [0_u64; CONTROL];
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: a header of zeros is one without any parts.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    // SAFETY: computes a number.
    header.msg_controllen = unsafe { libc::CMSG_LEN(DESCRIPTOR) } as _;
    use_it(&mut header)
}

/// Sends a short message, and a descriptor with it, without waiting.
pub(crate) fn send(
    stream: &UnixStream,
    mut bytes: impl AsMut<[u8]>,
    file: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    let bytes = bytes.as_mut();
    let length = bytes.len();
    let sent = with_header(bytes, |header| {
        if let Some(file) = file {
            // SAFETY: the control buffer of `with_header` is aligned, and has room for the header
            // and one descriptor.
            unsafe {
                let control = libc::CMSG_FIRSTHDR(header);
                (*control).cmsg_level = libc::SOL_SOCKET;
                (*control).cmsg_type = libc::SCM_RIGHTS;
                (*control).cmsg_len = header.msg_controllen;
                let place = libc::CMSG_DATA(control).cast::<libc::c_int>();
                place.write_unaligned(file.as_fd().as_raw_fd());
            }
        } else {
            header.msg_controllen = 0;
        }
        // SAFETY: the header names buffers that outlive the call.
        unsafe { libc::sendmsg(stream.as_raw_fd(), header, flags) }
    });
    match usize::try_from(sent) {
        Ok(sent) if sent == length => Ok(()),
        // It has hundreds of kilobytes of room for one message of a few bytes.
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Receives a short message that [`send`] sent at the other end, as long as the socket may wait.
/// Returns how many bytes it has, 0 at the end, and the descriptor that came with it.
pub(crate) fn receive(
    stream: &UnixStream,
    bytes: &mut [u8],
) -> io::Result<(usize, Option<OwnedFd>)> {
    with_header(bytes, |header| {
        // SAFETY: the header names buffers that outlive the call.
        let count = unsafe { libc::recvmsg(stream.as_raw_fd(), header, libc::MSG_CMSG_CLOEXEC) };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        // SAFETY: the kernel filled the control buffer as far as `msg_controllen` says.
        let control = unsafe { libc::CMSG_FIRSTHDR(header).as_ref() };
        let has_file = |control: &&libc::cmsghdr| {
            control.cmsg_level == libc::SOL_SOCKET && control.cmsg_type == libc::SCM_RIGHTS
        };
        let file = control.filter(has_file).map(|control| {
            // SAFETY: a message of this type has at least one descriptor, which is this process's
            // since now. There is room for no other.
            unsafe {
                let place = libc::CMSG_DATA(control).cast::<libc::c_int>();
                OwnedFd::from_raw_fd(place.read_unaligned())
            }
        });
        Ok((count, file))
    })
}
