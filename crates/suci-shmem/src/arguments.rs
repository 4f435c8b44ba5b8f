//! Arguments of C functions, checked as far as they can be: null, lengths, alignment. A wrong one
//! ends the program with a message that names it.

use crate::fatal;

/// Checks that there can be `count` elements at a pointer.
pub(crate) fn check<T>(pointer: *const T, count: usize, name: &str) {
    if count > 0 && pointer.is_null() {
        fatal!("{name} is null: pass memory of {count} elements");
    }
    let _ = length::<T>(count);
}

/// As [`check`], for integers that another thread or process may change meanwhile.
pub(crate) fn check_aligned<T>(pointer: *const T, count: usize, name: &str) {
    check(pointer, count, name);
    if count > 0 && !pointer.is_aligned() {
        fatal!(
            "{name} is {pointer:p}, which is not aligned: waits and atomic operations need that"
        );
    }
}

/// Bytes that a process of Linux can have at most: its addresses have 48 bits, unless it asks for
/// longer ones.
const MOST_BYTES: usize = 1 << 48;

/// The bytes of `count` elements.
pub(crate) fn length<T>(count: usize) -> usize {
    let length = count.checked_mul(size_of::<T>());
    let length = length.filter(|length| *length <= MOST_BYTES);
    length.unwrap_or_else(|| fatal!("nelems is {count}, more than there is memory"))
}

/// The distance in bytes of `count` elements that are `stride` elements apart. A single element has
/// no other to be apart from.
pub(crate) fn distance<T>(stride: isize, count: usize) -> usize {
    let distance = usize::try_from(stride).ok().filter(|stride| *stride > 0);
    let distance = distance.unwrap_or_else(|| fatal!("the stride is {stride}: pass 1 or more"));
    if count < 2 {
        return size_of::<T>();
    }
    let all = distance
        .checked_mul(count)
        .and_then(|all| all.checked_mul(size_of::<T>()));
    match all.filter(|all| *all <= MOST_BYTES) {
        Some(all) => all / count,
        None => fatal!(
            "the stride is {stride}, with which {count} elements reach further than there is memory"
        ),
    }
}

/// Writes a result.
///
/// # Safety
/// If `place` is not null, there is room for it.
pub(crate) unsafe fn give<T>(place: *mut T, value: T, name: &str) {
    check(place, 1, name);
    // SAFETY: the caller's promise. A packed structure may hold it anywhere.
    unsafe { place.write_unaligned(value) };
}
