//! The functions behind those of this library.

use libc::{
    c_int, c_void, epoll_event, fd_set, iovec, msghdr, nfds_t, pollfd, pthread_t, sigset_t, size_t,
    sockaddr, socklen_t, ssize_t, timespec,
};
use std::ffi::CStr;
use std::sync::OnceLock;

type Cancel = unsafe extern "C-unwind" fn(pthread_t) -> c_int;
type Connect = unsafe extern "C-unwind" fn(c_int, *const sockaddr, socklen_t) -> c_int;
type Listen = unsafe extern "C-unwind" fn(c_int, c_int) -> c_int;
type Name = unsafe extern "C-unwind" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
type Accept4 = unsafe extern "C-unwind" fn(c_int, *mut sockaddr, *mut socklen_t, c_int) -> c_int;
type GetOption =
    unsafe extern "C-unwind" fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;

type Read = unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t) -> ssize_t;
type ReadVector = unsafe extern "C-unwind" fn(c_int, *const iovec, c_int) -> ssize_t;
type Receive = unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t, c_int) -> ssize_t;
type ReceiveFrom = unsafe extern "C-unwind" fn(
    c_int,
    *mut c_void,
    size_t,
    c_int,
    *mut sockaddr,
    *mut socklen_t,
) -> ssize_t;
type ReceiveMessage = unsafe extern "C-unwind" fn(c_int, *mut msghdr, c_int) -> ssize_t;
type Write = unsafe extern "C-unwind" fn(c_int, *const c_void, size_t) -> ssize_t;
type Send = unsafe extern "C-unwind" fn(c_int, *const c_void, size_t, c_int) -> ssize_t;
type SendTo = unsafe extern "C-unwind" fn(
    c_int,
    *const c_void,
    size_t,
    c_int,
    *const sockaddr,
    socklen_t,
) -> ssize_t;
type SendMessage = unsafe extern "C-unwind" fn(c_int, *const msghdr, c_int) -> ssize_t;
type PPoll =
    unsafe extern "C-unwind" fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int;
type PSelect = unsafe extern "C-unwind" fn(
    c_int,
    *mut fd_set,
    *mut fd_set,
    *mut fd_set,
    *const timespec,
    *const sigset_t,
) -> c_int;
type Shutdown = unsafe extern "C-unwind" fn(c_int, c_int) -> c_int;
type EpollCreate = unsafe extern "C-unwind" fn(c_int) -> c_int;
type EpollControl = unsafe extern "C-unwind" fn(c_int, c_int, c_int, *mut epoll_event) -> c_int;
type EpollWait =
    unsafe extern "C-unwind" fn(c_int, *mut epoll_event, c_int, c_int, *const sigset_t) -> c_int;

/// The next definition of each function: that of the C library, or of another preloaded one.
pub(crate) struct Next {
    pub(crate) connect: Connect,
    pub(crate) listen: Listen,
    pub(crate) accept4: Accept4,
    pub(crate) getsockname: Name,
    pub(crate) getpeername: Name,
    pub(crate) getsockopt: GetOption,
    pub(crate) read: Read,
    pub(crate) readv: ReadVector,
    pub(crate) recv: Receive,
    pub(crate) recvfrom: ReceiveFrom,
    pub(crate) recvmsg: ReceiveMessage,
    pub(crate) write: Write,
    pub(crate) writev: ReadVector,
    pub(crate) send: Send,
    pub(crate) sendto: SendTo,
    pub(crate) sendmsg: SendMessage,
    pub(crate) ppoll: PPoll,
    pub(crate) pselect: PSelect,
    pub(crate) shutdown: Shutdown,
    pub(crate) epoll_create: EpollCreate,
    pub(crate) epoll_create1: EpollCreate,
    pub(crate) epoll_ctl: EpollControl,
    pub(crate) epoll_pwait: EpollWait,
    pub(crate) pthread_cancel: Cancel,
}

/// Returns the functions, which are looked up once.
pub(crate) fn next() -> &'static Next {
    static NEXT: OnceLock<Next> = OnceLock::new();
    NEXT.get_or_init(|| {
        // SAFETY: the C library declares these functions with these types.
        unsafe {
            Next {
                connect: look_up(c"connect"),
                listen: look_up(c"listen"),
                accept4: look_up(c"accept4"),
                getsockname: look_up(c"getsockname"),
                getpeername: look_up(c"getpeername"),
                getsockopt: look_up(c"getsockopt"),
                read: look_up(c"read"),
                readv: look_up(c"readv"),
                recv: look_up(c"recv"),
                recvfrom: look_up(c"recvfrom"),
                recvmsg: look_up(c"recvmsg"),
                write: look_up(c"write"),
                writev: look_up(c"writev"),
                send: look_up(c"send"),
                sendto: look_up(c"sendto"),
                sendmsg: look_up(c"sendmsg"),
                ppoll: look_up(c"ppoll"),
                pselect: look_up(c"pselect"),
                shutdown: look_up(c"shutdown"),
                epoll_create: look_up(c"epoll_create"),
                epoll_create1: look_up(c"epoll_create1"),
                epoll_ctl: look_up(c"epoll_ctl"),
                epoll_pwait: look_up(c"epoll_pwait"),
                pthread_cancel: look_up(c"pthread_cancel"),
            }
        }
    })
}

/// Looks a function up.
///
/// # Safety
/// `F` is the type of a pointer to the function.
unsafe fn look_up<F: Copy>(name: &CStr) -> F {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the name is a string of C.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if found.is_null() {
        crate::tell(format!("{name:?} is missing: use a dynamic C library"));
        std::process::abort();
    }
    // SAFETY: not null, and of the function's type, as the caller promises.
    unsafe { std::mem::transmute_copy(&found) }
}
