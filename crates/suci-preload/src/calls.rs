//! Reading and writing past the kernel.

use crate::direct::{self, Awaited, Buffers, DirectCall, KernelWait};
use crate::kernel;
use crate::link::{Link, Passed};
use crate::waits;
use libc::{c_int, iovec, pollfd, ssize_t};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::net::sockopt::{self, Timeout};
use std::sync::Arc;
use std::time::{Duration, Instant};
use suci::sockets::Waited;

/// How long a call that does not block serves the node while a stream takes no byte, before the
/// kernel takes the bytes. They would be copied twice more. A peer that reads makes room sooner.
const ROOM: Duration = Duration::from_millis(1);

/// Flags with which a call may go past the kernel.
const RECEIVES: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_CMSG_CLOEXEC;
const SENDS: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE;

/// The end of a call that went past the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Done {
    Bytes(usize),
    Error(c_int),
}

impl Done {
    /// Ends the call as the C library does.
    pub(crate) fn result(self) -> ssize_t {
        match self {
            Self::Bytes(bytes) => ssize_t::try_from(bytes).unwrap_or(ssize_t::MAX),
            Self::Error(error) => {
                // SAFETY: the C library's place for this thread's error.
                unsafe { *libc::__errno_location() = error };
                -1
            }
        }
    }
}

/// How long a call of the program may wait.
#[derive(Clone, Copy, Debug)]
enum Patience {
    None,
    /// At most so long, if there is a limit.
    Within(Option<Duration>),
}

impl Patience {
    /// Returns that of a call with these flags for the socket `fd`.
    fn of(fd: c_int, flags: c_int, timeout: Timeout) -> Self {
        let set = kernel::with(fd, |fd| fcntl_getfl(fd));
        let blocks = matches!(set, Some(Ok(set)) if !set.contains(OFlags::NONBLOCK));
        if !blocks || flags & libc::MSG_DONTWAIT != 0 {
            return Self::None;
        }
        let limit = kernel::with(fd, |fd| sockopt::socket_timeout(fd, timeout));
        Self::Within(limit.and_then(Result::ok).flatten())
    }
}

/// Returns true if a call goes on that a signal interrupted: if all handlers of the program ask for
/// that (`SA_RESTART`). Which handler ran is not known.
fn restarts() -> bool {
    (1..=libc::SIGRTMAX()).all(|signal| {
        // SAFETY: a `sigaction` is numbers and pointers, for which all bits may be 0; the call
        // writes it, and changes nothing.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let known = libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0;
            let has_handler = known
                && action.sa_sigaction != libc::SIG_DFL
                && action.sa_sigaction != libc::SIG_IGN;
            !has_handler || action.sa_flags & libc::SA_RESTART != 0
        }
    })
}

/// Receives for a call of the program. Returns nothing if the kernel has to be asked, by
/// [`in_kernel`].
///
/// # Safety
/// `parts` name memory that may be written.
pub(crate) unsafe fn receive(
    fd: c_int,
    link: &Arc<Link>,
    parts: &[iovec],
    flags: c_int,
) -> Option<Done> {
    if flags & !RECEIVES != 0 || length(parts).is_none() {
        return None;
    }
    // SAFETY: the caller promises it.
    let mut to = unsafe { Buffers::new(parts) };
    if to.is_full() {
        return None;
    }
    let call = DirectCall::begin(link)?;
    match link.receive(&mut to) {
        Passed::Bytes(bytes) => return Some(Done::Bytes(bytes)),
        Passed::Kernel => return None,
        Passed::None => {}
    }
    let patience = Patience::of(fd, flags, Timeout::Recv);
    let deadline = match patience {
        Patience::None => Some(Instant::now()),
        Patience::Within(limit) => limit.map(|limit| Instant::now() + limit),
    };
    let awaited = Awaited::new(link);
    loop {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let mut received = Passed::None;
        let mut own = [readable(fd)];
        let waited = call.attendance()?.wait(&mut own, None, left, || {
            received = call.go_on(|| awaited.link().receive(&mut to));
            received != Passed::None
        });
        return match (received, waited) {
            (Passed::Bytes(bytes), _) => Some(Done::Bytes(bytes)),
            (Passed::Kernel, _) => None,
            (_, Ok(Waited::TimedOut)) => Some(Done::Error(libc::EAGAIN)),
            (_, Ok(Waited::Interrupted)) if restarts() => continue,
            (_, Ok(Waited::Interrupted)) => Some(Done::Error(libc::EINTR)),
            // The kernel has something, or another thread waits for the node's input.
            (_, Ok(Waited::Ready | Waited::Polled | Waited::Elsewhere) | Err(_)) => None,
        };
    }
}

const fn readable(fd: c_int) -> pollfd {
    pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}

/// Sends for a call of the program. The kernel has to be asked for the bytes that are left
/// ([`Sent::Rest`]).
///
/// # Safety
/// `parts` name memory that may be read.
pub(crate) unsafe fn send(fd: c_int, link: &Arc<Link>, parts: &[iovec], flags: c_int) -> Sent {
    let none = Sent::Rest(0);
    if flags & !SENDS != 0 {
        return none;
    }
    let (Some(call), Some(all)) = (DirectCall::begin(link), length(parts)) else {
        return none;
    };
    if let Some(attendance) = call.attendance() {
        attendance.sends(all, waits::answer_event());
    }
    let mut sent = 0;
    let mut transmit = || {
        while sent < all {
            // SAFETY: the caller promises it, and the length was found.
            let bytes = unsafe { rest(parts, sent) };
            match link.transmit(fd, bytes) {
                Passed::Bytes(bytes) => sent += bytes,
                other => return other,
            }
        }
        Passed::Bytes(all)
    };
    match transmit() {
        Passed::Bytes(all) => return Sent::All(Done::Bytes(all)),
        Passed::Kernel => return Sent::Rest(sent),
        Passed::None => {}
    }
    let patience = Patience::of(fd, flags, Timeout::Send);
    let limit = match patience {
        Patience::None => Some(ROOM),
        Patience::Within(limit) => limit,
    };
    let deadline = limit.map(|limit| Instant::now() + limit);
    loop {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let mut last = Passed::None;
        let Some(attendance) = call.attendance() else {
            return Sent::Rest(sent);
        };
        let waited = attendance.wait(&mut [], None, left, || {
            last = call.go_on(&mut transmit);
            last != Passed::None
        });
        return match (last, waited, patience) {
            (Passed::Bytes(all), ..) => Sent::All(Done::Bytes(all)),
            (_, Ok(Waited::Interrupted), Patience::Within(_)) if restarts() => continue,
            (_, Ok(Waited::Interrupted), Patience::Within(_)) if sent > 0 => {
                Sent::All(Done::Bytes(sent))
            }
            (_, Ok(Waited::Interrupted), Patience::Within(_)) => {
                Sent::All(Done::Error(libc::EINTR))
            }
            (_, Ok(Waited::TimedOut | Waited::Interrupted), Patience::None)
            | (_, Ok(Waited::TimedOut), Patience::Within(_))
                if sent > 0 =>
            {
                Sent::All(Done::Bytes(sent))
            }
            (_, Ok(Waited::TimedOut), Patience::Within(_)) => Sent::All(Done::Error(libc::EAGAIN)),
            (_, Ok(Waited::TimedOut), Patience::None) => {
                // The peer does not read: the kernel tells when there is room.
                link.leave_to_kernel();
                Sent::Rest(sent)
            }
            _ => Sent::Rest(sent),
        };
    }
}

/// How far a call that sends went past the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sent {
    /// It is done.
    All(Done),
    /// So many bytes are sent; the kernel takes the rest.
    Rest(usize),
}

/// Returns the length of all parts; nothing if no memory is so long, which the kernel refuses.
pub(crate) fn length(parts: &[iovec]) -> Option<usize> {
    let mut lengths = parts.iter().map(|part| part.iov_len);
    let all = lengths.try_fold(0_usize, |all, length| all.checked_add(length));
    all.filter(|all| isize::try_from(*all).is_ok())
}

/// Returns the bytes behind the first `sent` of all parts, as far as one part has them.
///
/// # Safety
/// `parts` name memory that may be read, and have a [`length`].
unsafe fn rest(parts: &[iovec], mut sent: usize) -> &[u8] {
    for part in parts {
        if sent < part.iov_len {
            // SAFETY: the part has so many bytes, as the caller promises.
            return unsafe {
                let from = part.iov_base.cast::<u8>().add(sent);
                std::slice::from_raw_parts(from, part.iov_len - sent)
            };
        }
        sent -= part.iov_len;
    }
    &[]
}

/// Receives from the kernel by `receive`, which returns its result.
pub(crate) fn in_kernel(
    fd: c_int,
    link: &Arc<Link>,
    flags: c_int,
    receive: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let blocks = matches!(Patience::of(fd, flags, Timeout::Recv), Patience::Within(_));
    let is_plain = flags & !RECEIVES == 0;
    // A call with these flags finds bytes that are kept in the kernel only.
    let wait = (blocks || !is_plain).then(KernelWait::begin);
    if blocks {
        // Another thread may have left the node alone.
        direct::hand_back(link);
    }
    let received = receive();
    drop(wait);
    if flags & libc::MSG_PEEK == 0
        && let Ok(bytes) = usize::try_from(received)
    {
        link.keeping.took(bytes);
    }
    received
}
