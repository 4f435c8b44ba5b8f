//! The objects that C holds.
//!
//! C may use an object that it has closed. So the memory of an object never goes back to the
//! allocator: it becomes an object of the same kind again. Until then its class is
//! `FI_CLASS_UNSPEC`, and each call with it returns an error.

use crate::abi::{FiOps, Fid, class};
use crate::code::{Code, Outcome};
use core::ffi::{c_int, c_void};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The C structure of a kind of object, which begins with a [`Fid`].
///
/// # Safety
/// The structure is `repr(C)`, and its first field is a [`Fid`]. [`Self::CLASS`] is the class of
/// this kind alone.
pub(crate) unsafe trait Header: Sized + 'static {
    /// The provider's own part of the object.
    type Place: Clone + Send + 'static;

    /// `FI_CLASS_...`.
    const CLASS: usize;

    /// The objects of this kind that were closed.
    fn closed() -> &'static Mutex<Closed>;
}

/// Memory of closed objects of one kind, by address.
pub(crate) type Closed = Vec<usize>;

/// An object: the structure that C knows, and behind it the provider's part.
#[repr(C)]
struct Object<H: Header> {
    header: H,
    /// Nothing if it was closed.
    place: Mutex<Option<H::Place>>,
}

/// The first part of each object.
pub(crate) const fn fid(class: usize, context: *mut c_void, ops: &'static FiOps) -> Fid {
    Fid {
        class: AtomicUsize::new(class),
        context,
        ops,
    }
}

/// Makes an object. C has it until [`close`].
pub(crate) fn open<H: Header>(header: H, place: H::Place) -> *mut H {
    let reused = lock(H::closed()).pop();
    let Some(memory) = reused.and_then(|address| NonNull::new(address as *mut Object<H>)) else {
        let place = Mutex::new(Some(place));
        return Box::into_raw(Box::new(Object { header, place })).cast();
    };
    let memory = memory.as_ptr();
    // SAFETY: the address is that of an object of this kind, which `close` put into the list, and
    // which left the list just now. It is never freed, and its lock stays what it is.
    *lock(unsafe { &(*memory).place }) = Some(place);
    // SAFETY: as above. The old header needs no drop. Others read of it at most the class, if C
    // uses an object that it has closed.
    unsafe { (&raw mut (*memory).header).write(header) };
    memory.cast()
}

/// Returns the provider's part of an object.
///
/// # Safety
/// `header` is null, or [`open`] returned it (for an object of any kind).
pub(crate) unsafe fn place<H: Header>(header: *const H) -> Outcome<H::Place> {
    // SAFETY: as the caller promises.
    let object = unsafe { object(header) }?;
    lock(&object.place).clone().ok_or(Code::BADF)
}

/// Returns the provider's part of an object, if `fid` is one of this kind.
///
/// # Safety
/// As for [`place`].
pub(crate) unsafe fn place_of<H: Header>(fid: *const Fid) -> Outcome<H::Place> {
    // SAFETY: as the caller promises.
    unsafe { place(fid.cast::<H>()) }
}

/// Closes an object, whose provider's part `end` ends, unless that fails.
///
/// # Safety
/// As for [`place`].
pub(crate) unsafe fn close<H: Header>(
    fid: *const Fid,
    end: impl FnOnce(&H::Place) -> Outcome<()>,
) -> Outcome<()> {
    let header = fid.cast::<H>();
    // SAFETY: as the caller promises.
    let object = unsafe { object(header) }?;
    let place = lock(&object.place).take().ok_or(Code::BADF)?;
    if let Err(code) = end(&place) {
        *lock(&object.place) = Some(place);
        return Err(code);
    }
    // SAFETY: the object is one of this kind, which begins with a `Fid`.
    let fid = unsafe { &*fid };
    fid.class.store(class::UNSPEC, Ordering::Release);
    lock(H::closed()).push(header as usize);
    Ok(())
}

/// Returns the class of an object.
///
/// # Safety
/// As for [`place`].
pub(crate) unsafe fn class_of(fid: *const Fid) -> usize {
    // SAFETY: it is null or an object, which begins with a `Fid` and is never freed.
    unsafe { fid.as_ref() }.map_or(class::UNSPEC, |fid| fid.class.load(Ordering::Acquire))
}

/// # Safety
/// As for [`place`].
unsafe fn object<'a, H: Header>(header: *const H) -> Outcome<&'a Object<H>> {
    // SAFETY: each object begins with a `Fid`, and the caller promises the rest.
    let class = unsafe { class_of(header.cast()) };
    if class == class::UNSPEC && !header.is_null() {
        return Err(Code::BADF);
    }
    if class != H::CLASS {
        return Err(Code::INVAL);
    }
    // SAFETY: objects of this class are made by `open` of this kind, and are never freed.
    Ok(unsafe { &*header.cast::<Object<H>>() })
}

/// Locks, also if a thread panicked meanwhile: the state is consistent between calls.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Implements [`Header`].
macro_rules! header {
    ($header:ty, $class:expr, $place:ty) => {
        // SAFETY: the structure is `repr(C)`, begins with a `Fid`, and has a class of its own.
        unsafe impl crate::handle::Header for $header {
            type Place = $place;

            const CLASS: usize = $class;

            fn closed() -> &'static std::sync::Mutex<crate::handle::Closed> {
                static CLOSED: std::sync::Mutex<crate::handle::Closed> =
                    std::sync::Mutex::new(Vec::new());
                &CLOSED
            }
        }
    };
}

pub(crate) use header;

/// `fi_bind` of an object that binds nothing.
pub(crate) unsafe extern "C" fn no_bind(_: *const Fid, _: *const Fid, _: u64) -> c_int {
    -libc::ENOSYS
}

/// `fi_control` of an object that has no commands.
pub(crate) unsafe extern "C" fn no_control(_: *const Fid, _: c_int, _: *mut c_void) -> c_int {
    -libc::ENOSYS
}
