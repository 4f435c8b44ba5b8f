//! The few system calls that std does not offer, each behind a safe function.

pub(crate) mod local;

use std::io;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// The readiness of descriptors after a sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    /// The socket has something to read, or an error to report.
    pub(crate) input: bool,
    /// The event descriptor was signalled.
    pub(crate) signalled: bool,
    /// The launcher's pipe can be read.
    pub(crate) launcher: bool,
}

/// The error of the last call, or `value`.
fn checked(value: libc::c_int) -> io::Result<libc::c_int> {
    if value < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(value)
    }
}

fn owned(fd: libc::c_int) -> io::Result<OwnedFd> {
    let fd = checked(fd)?;
    // SAFETY: the kernel just returned this descriptor; nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

thread_local! {
    static NETWORK: Option<u64> = network();
}

/// Returns the number of the calling thread's network namespace; `None` if it is unknown.
pub(crate) fn network() -> Option<u64> {
    let namespace = std::fs::metadata("/proc/thread-self/ns/net").ok()?;
    Some(std::os::unix::fs::MetadataExt::ino(&namespace))
}

/// Returns the same as when the thread called this first.
pub(crate) fn first_network() -> Option<u64> {
    NETWORK.try_with(|it| *it).ok().flatten()
}

/// A duration as the kernel takes it; one that does not fit is for ever.
fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(duration.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(duration.subsec_nanos().cast_signed()),
    }
}

/// Sleeps until `socket` or `event_fd` can be read, or `timeout` is over. Returns nothing ready if
/// a signal of the system interrupts it.
pub(crate) fn sleep(
    socket: RawFd,
    event_fd: Option<RawFd>,
    timeout: Option<Duration>,
) -> io::Result<Ready> {
    let interest = Interest {
        socket,
        write: false,
        launcher: None,
    };
    sleep_on(interest, event_fd, timeout)
}

/// The descriptors and conditions that a driver waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interest {
    pub(crate) socket: RawFd,
    /// Whether to wait for room in the socket, too.
    pub(crate) write: bool,
    pub(crate) launcher: Option<RawFd>,
}

/// As [`sleep`], until anything of `interest` is ready.
pub(crate) fn sleep_on(
    interest: Interest,
    event_fd: Option<RawFd>,
    timeout: Option<Duration>,
) -> io::Result<Ready> {
    let Interest {
        socket,
        write,
        launcher,
    } = interest;
    let interest = if write {
        libc::POLLIN | libc::POLLOUT
    } else {
        libc::POLLIN
    };
    let entry = |fd, events| libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // A negative descriptor is passed over.
    let others = [event_fd, launcher].map(|fd| entry(fd.unwrap_or(-1), libc::POLLIN));
    let mut fds = [entry(socket, interest), others[0], others[1]];
    let used = if launcher.is_some() { 3 } else { 2 };
    let limit = timeout.map(timespec);
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `fds` is an array of three initialised entries and outlives the call; `limit` is null
    // or points to a timespec that outlives it; a null signal mask is allowed.
    let count = unsafe { libc::ppoll(fds.as_mut_ptr(), used, limit, std::ptr::null()) };
    if count < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::Interrupted => Ok(Ready::default()),
            _ => Err(error),
        };
    }
    let [socket, event_fd, launcher] = fds;
    Ok(Ready {
        input: socket.revents & !libc::POLLOUT != 0,
        signalled: event_fd.revents != 0,
        launcher: launcher.revents != 0,
    })
}

/// How a sleep among descriptors of the program ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slept {
    /// A signal's handler ran.
    Interrupted,
    /// The descriptors of the node that are ready, and whether one of the others is. None is if the
    /// time is over.
    Woken { ready: Ready, others: bool },
}

/// As [`sleep_on`], until one of `fds` is ready, too, which are changed as `ppoll` does. The
/// signals of `mask` are blocked meanwhile. Entries of the node are appended.
pub(crate) fn sleep_among(
    fds: &mut Vec<libc::pollfd>,
    interest: Interest,
    event_fd: RawFd,
    timeout: Option<Duration>,
    mask: Option<&libc::sigset_t>,
) -> io::Result<Slept> {
    let events = match interest.write {
        true => libc::POLLIN | libc::POLLOUT,
        false => libc::POLLIN,
    };
    let entry = |fd, events| libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    let own = [
        entry(interest.socket, events),
        entry(event_fd, libc::POLLIN),
        // A negative descriptor is passed over.
        entry(interest.launcher.unwrap_or(-1), libc::POLLIN),
    ];
    fds.extend(own);
    let limit = timeout.map(timespec);
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let mask = mask.map_or(std::ptr::null(), std::ptr::from_ref);
    let used = libc::nfds_t::try_from(fds.len()).unwrap_or(libc::nfds_t::MAX);
    // SAFETY: `fds` has so many initialised entries and outlives the call; `limit` and `mask` are
    // null or point to values that outlive it.
    let count = unsafe { libc::ppoll(fds.as_mut_ptr(), used, limit, mask) };
    if count < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::Interrupted => Ok(Slept::Interrupted),
            _ => Err(error),
        };
    }
    let launcher = fds.pop().is_some_and(|it| it.revents != 0);
    let signalled = fds.pop().is_some_and(|it| it.revents != 0);
    let input = fds.pop().is_some_and(|it| it.revents & !libc::POLLOUT != 0);
    Ok(Slept::Woken {
        ready: Ready {
            input,
            signalled,
            launcher,
        },
        others: fds.iter().any(|it| it.revents != 0),
    })
}

/// An eventfd: a counter that wakes the threads that poll it.
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers are involved.
        owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }).map(Self)
    }

    /// Makes it readable, which wakes the threads that wait for it. Signalling twice is the same as
    /// once.
    pub(crate) fn signal(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the buffer holds the eight bytes that an eventfd takes. The only error is a full
        // counter, and a full counter is readable.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Makes it unreadable. Returns whether it was readable.
    pub(crate) fn clear(&self) -> bool {
        let mut count = [0_u8; 8];
        // SAFETY: the buffer has room for the eight bytes that an eventfd gives. The only error is
        // that it was unreadable already.
        let got = unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        got > 0
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sleeps for `time`, whatever comes, and not for the 50 us more that the system takes for its own
/// convenience: the thread's timer slack is 1 us meanwhile.
pub(crate) fn sleep_for(time: Duration) {
    const SLACK: libc::c_ulong = 1_000;
    // SAFETY: no pointers are involved; it is this thread's own setting.
    let before = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
    let set = |nanos: libc::c_ulong| {
        // SAFETY: as above.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanos) };
    };
    set(SLACK);
    std::thread::sleep(time);
    // A slack of 0 cannot be set: that would be the default. Threads with real-time priority have a
    // slack of 0 and keep it.
    if let Ok(before @ 1..) = libc::c_ulong::try_from(before) {
        set(before);
    }
}

/// A timerfd: a timer that becomes readable.
#[derive(Debug)]
pub(crate) struct TimerFd(OwnedFd);

impl TimerFd {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: no pointers are involved.
        owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) }).map(Self)
    }

    /// Becomes readable after `delay`; never, without one. Setting it makes it unreadable until
    /// then.
    pub(crate) fn set(&self, delay: Option<Duration>) -> io::Result<()> {
        // Zero would disarm it: something already due is due in a nanosecond.
        let value = timespec(delay.map_or(Duration::ZERO, |d| d.max(Duration::from_nanos(1))));
        let interval = timespec(Duration::ZERO);
        let setting = libc::itimerspec {
            it_interval: interval,
            it_value: value,
        };
        // SAFETY: `setting` outlives the call; the old setting is not asked for.
        let done = unsafe {
            libc::timerfd_settime(
                self.0.as_raw_fd(),
                0,
                &raw const setting,
                std::ptr::null_mut(),
            )
        };
        checked(done).map(drop)
    }
}

impl AsRawFd for TimerFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Makes a descriptor that is readable when any of `members` is.
pub(crate) fn epoll_of(members: &[RawFd]) -> io::Result<OwnedFd> {
    // SAFETY: no pointers are involved.
    let epoll = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
    for &member in members {
        watch(&epoll, member)?;
    }
    Ok(epoll)
}

/// Adds `member` to an epoll descriptor.
pub(crate) fn watch(epoll: &OwnedFd, member: RawFd) -> io::Result<()> {
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN.cast_unsigned(),
        u64: 0,
    };
    let fd = epoll.as_raw_fd();
    // SAFETY: `event` outlives the call.
    checked(unsafe { libc::epoll_ctl(fd, libc::EPOLL_CTL_ADD, member, &raw mut event) })?;
    Ok(())
}

/// Nanoseconds of `CLOCK_MONOTONIC`. It costs a fraction of `std::time::Instant`, whose checked
/// arithmetic on seconds and nanoseconds is not needed.
pub(crate) fn monotonic_nanos() -> u64 {
    nanos_of(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of `CLOCK_REALTIME`, by which the kernel stamps datagrams.
pub(crate) fn wall_nanos() -> u64 {
    nanos_of(libc::CLOCK_REALTIME)
}

fn nanos_of(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` outlives the call, which cannot fail: every Linux has these clocks.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    let nanos = time.tv_nsec.cast_unsigned();
    time.tv_sec
        .cast_unsigned()
        .saturating_mul(1_000_000_000)
        .saturating_add(nanos)
}

/// Bytes that cannot be guessed.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0_u8; N];
    fill_random(&mut bytes)?;
    Ok(bytes)
}

/// The same in the caller's memory: for secrets, which should have no copy elsewhere.
pub(crate) fn fill_random<const N: usize>(bytes: &mut [u8; N]) -> io::Result<()> {
    const { assert!(N <= 256, "longer requests may be cut short") };
    loop {
        // SAFETY: the buffer is N bytes long.
        let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
        match usize::try_from(count) {
            Ok(count) if count == N => return Ok(()),
            Ok(_) => {}
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

/// A descriptor, and the identity of its file. In the child of a fork its number may stand for
/// another file by now, if the child closed its inherited descriptors, as daemons do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdentifiedFd {
    fd: RawFd,
    /// Device and inode. Events, timers and epolls share one: among these none is told from
    /// another.
    what: Option<(libc::dev_t, libc::ino_t)>,
}

impl IdentifiedFd {
    pub(crate) fn new(fd: RawFd) -> Self {
        let what = identity(fd);
        Self { fd, what }
    }

    #[cfg(test)]
    pub(crate) fn fd(self) -> RawFd {
        self.fd
    }

    /// Closes the descriptor if it is still the same.
    ///
    /// # Safety
    /// If it is, nothing may use or close it after this.
    pub(crate) unsafe fn close_if_same(self) {
        if self.what.is_some() && identity(self.fd) == self.what {
            // SAFETY: the caller's promise.
            unsafe { libc::close(self.fd) };
        }
    }
}

fn identity(fd: RawFd) -> Option<(libc::dev_t, libc::ino_t)> {
    let about = status(fd).ok()?;
    Some((about.st_dev, about.st_ino))
}

/// The user that this process acts for.
pub(crate) fn user() -> libc::uid_t {
    // SAFETY: asks for a number, and cannot fail.
    unsafe { libc::geteuid() }
}

/// The groups that this process acts for.
pub(crate) fn groups() -> Vec<libc::gid_t> {
    // SAFETY: asks for a number, and cannot fail.
    let mut all = vec![unsafe { libc::getegid() }];
    // SAFETY: with a size of 0 the call only returns the number of groups.
    let count = unsafe { libc::getgroups(0, std::ptr::null_mut()) };
    let mut others = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: `others` has room for `count` groups; if there are more by now, the call fails.
    let count = unsafe { libc::getgroups(count.max(0), others.as_mut_ptr()) };
    others.truncate(usize::try_from(count).unwrap_or(0));
    all.append(&mut others);
    all
}

fn status(fd: RawFd) -> io::Result<libc::stat> {
    let mut about = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `about` has the type that the kernel fills, outlives the call, and is read only if it
    // was filled.
    unsafe {
        checked(libc::fstat(fd, about.as_mut_ptr()))?;
        Ok(about.assume_init())
    }
}

/// Marks an inherited descriptor close-on-exec. Fails if it is not open.
pub(crate) fn close_on_exec(fd: RawFd) -> io::Result<()> {
    // SAFETY: no pointers are involved; a descriptor that is not open gives an error.
    let flags = checked(unsafe { libc::fcntl(fd, libc::F_GETFD) })?;
    // SAFETY: as above.
    checked(unsafe { libc::fcntl(fd, libc::F_SETFD, flags | libc::FD_CLOEXEC) }).map(drop)
}

/// Whether `fd` is open and a datagram socket.
pub(crate) fn is_datagram_socket(fd: RawFd) -> bool {
    let mut kind: libc::c_int = 0;
    let mut len = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(0);
    // SAFETY: `kind` and `len` outlive the call, and `len` tells the size of `kind`.
    let done = unsafe {
        let value = (&raw mut kind).cast();
        libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_TYPE, value, &raw mut len)
    };
    done == 0 && kind == libc::SOCK_DGRAM
}

/// Whether `fd` is open.
pub(crate) fn is_open(fd: RawFd) -> bool {
    // SAFETY: asks for the flags of a descriptor, open or not.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

/// Sleeps until `fd` is ready for `events` (`POLLIN`, `POLLOUT`) or broken, at most for `limit`.
/// Returns false if it is not, also because a signal came.
pub(crate) fn await_events(fd: RawFd, events: i16, limit: Duration) -> io::Result<bool> {
    let mut entry = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    let limit = timespec(limit);
    // SAFETY: the entry and the limit outlive the call; a null signal mask is allowed.
    let count = unsafe { libc::ppoll(&raw mut entry, 1, &raw const limit, std::ptr::null()) };
    match checked(count) {
        Ok(count) => Ok(count > 0),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(error) => Err(error),
    }
}

/// The address of `fd`, if it is a UDP socket.
pub(crate) fn udp_address(fd: RawFd) -> Option<SocketAddr> {
    if !is_datagram_socket(fd) {
        return None;
    }
    // SAFETY: it is an open socket, and is not closed here.
    let socket = unsafe { ManuallyDrop::new(UdpSocket::from_raw_fd(fd)) };
    // One of another family, as of Unix, has no such address.
    socket.local_addr().ok()
}

/// Lets `listener` accept connections only once they brought data, for as long as the client may
/// take for its first byte.
pub(crate) fn defer_accept(listener: &TcpListener, patience: Duration) -> io::Result<()> {
    let seconds = libc::c_int::try_from(patience.as_secs()).unwrap_or(libc::c_int::MAX);
    let len = libc::socklen_t::try_from(size_of::<libc::c_int>()).unwrap_or(0);
    // SAFETY: `seconds` outlives the call, and `len` is its size.
    let done = unsafe {
        let value = (&raw const seconds).cast();
        let (level, name) = (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT);
        libc::setsockopt(listener.as_raw_fd(), level, name, value, len)
    };
    checked(done).map(drop)
}

/// Takes an inherited descriptor that is open and the reading end of a pipe, so that reading never
/// blocks and no program that this process starts inherits it.
///
/// # Safety
/// Nothing else may use or close the descriptor, if it is a pipe.
pub(crate) unsafe fn take_pipe(fd: RawFd) -> io::Result<OwnedFd> {
    let about = status(fd)?;
    // SAFETY: no pointers are involved.
    let flags = checked(unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
    let is_pipe = about.st_mode & libc::S_IFMT == libc::S_IFIFO;
    if !is_pipe || flags & libc::O_ACCMODE != libc::O_RDONLY {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    close_on_exec(fd)?;
    // SAFETY: no pointers are involved.
    checked(unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    // SAFETY: it is open, and the caller's promise.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests;
