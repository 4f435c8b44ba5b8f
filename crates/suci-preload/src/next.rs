//! The functions behind those of this library.

use libc::{c_int, c_void, sockaddr, socklen_t};
use std::ffi::CStr;
use std::sync::OnceLock;

type Connect = unsafe extern "C-unwind" fn(c_int, *const sockaddr, socklen_t) -> c_int;
type Listen = unsafe extern "C-unwind" fn(c_int, c_int) -> c_int;
type Name = unsafe extern "C-unwind" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
type Accept4 = unsafe extern "C-unwind" fn(c_int, *mut sockaddr, *mut socklen_t, c_int) -> c_int;
type GetOption =
    unsafe extern "C-unwind" fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;

/// The next definition of each function: that of the C library, or of another preloaded one.
pub(crate) struct Next {
    pub(crate) connect: Connect,
    pub(crate) listen: Listen,
    pub(crate) accept4: Accept4,
    pub(crate) getsockname: Name,
    pub(crate) getpeername: Name,
    pub(crate) getsockopt: GetOption,
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
