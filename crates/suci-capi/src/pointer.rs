//! The caller's memory, checked as far as it can be: null, sizes and lengths.

use crate::error::{Failure, SIZE};

/// A struct that may grow. The first four bytes tell the size that its program knows.
///
/// # Safety
/// The type is `repr(C)`, begins with a `u32` that is the size, and any bytes are a valid value.
pub(crate) unsafe trait Growable: Copy + Default {
    /// Its name in suci.h.
    const NAME: &'static str;
    /// The size of its first version.
    const SMALLEST: usize;
}

#[cold]
fn null(name: &str) -> Failure {
    Failure::argument(format!("{name} is null: name memory for it"))
}

/// Returns what `pointer` points to.
///
/// # Safety
/// If it is not null, it points to a value that lives for `'a`, and nothing changes it meanwhile.
pub(crate) unsafe fn input<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// Checks that a result can be written.
pub(crate) fn output<T>(pointer: *mut T, name: &str) -> Result<(), Failure> {
    match pointer.is_null() {
        true => Err(null(name)),
        false => Ok(()),
    }
}

/// Writes a result, if C wants it.
///
/// # Safety
/// If `pointer` is not null, a value may be written there.
pub(crate) unsafe fn put<T>(pointer: *mut T, value: T) {
    if !pointer.is_null() {
        // SAFETY: the caller's promise.
        unsafe { pointer.write(value) };
    }
}

/// Writes a result that C has to take.
///
/// # Safety
/// As [`put`].
pub(crate) unsafe fn give<T>(pointer: *mut T, value: T, name: &str) -> Result<(), Failure> {
    output(pointer, name)?;
    // SAFETY: the caller's promise.
    unsafe { put(pointer, value) };
    Ok(())
}

/// Returns the bytes at `data`.
///
/// # Safety
/// If `data` is not null, it points to `length` bytes that live for `'a`, and nothing changes them
/// meanwhile.
#[inline]
pub(crate) unsafe fn bytes<'a, T>(
    data: *const T,
    length: usize,
    name: &str,
) -> Result<&'a [u8], Failure> {
    // SAFETY: the caller's promise.
    unsafe { items(data.cast(), length, name) }
}

/// Returns the bytes at `data`, to be written.
///
/// # Safety
/// If `data` is not null, it points to `length` bytes that live for `'a`, and nothing else uses
/// them meanwhile.
pub(crate) unsafe fn bytes_mut<'a, T>(
    data: *mut T,
    length: usize,
    name: &str,
) -> Result<&'a mut [u8], Failure> {
    check_length::<u8>(length, name)?;
    if length == 0 {
        return Ok(&mut []);
    }
    output(data, name)?;
    // SAFETY: the caller's promise; the length is at most `isize::MAX` bytes.
    Ok(unsafe { std::slice::from_raw_parts_mut(data.cast(), length) })
}

/// Returns the `count` values at `data`.
///
/// # Safety
/// As [`bytes`].
#[inline]
pub(crate) unsafe fn items<'a, T>(
    data: *const T,
    count: usize,
    name: &str,
) -> Result<&'a [T], Failure> {
    check_length::<T>(count, name)?;
    if count == 0 {
        return Ok(&[]);
    }
    if data.is_null() {
        return Err(null(name));
    }
    // SAFETY: the caller's promise; the length is at most `isize::MAX` bytes.
    Ok(unsafe { std::slice::from_raw_parts(data, count) })
}

/// Checks that memory of this many values can exist.
#[inline]
pub(crate) fn check_length<T>(count: usize, name: &str) -> Result<(), Failure> {
    let most = isize::MAX.cast_unsigned() / size_of::<T>().max(1);
    if count > most {
        return Err(too_many(count, most, name));
    }
    Ok(())
}

#[cold]
fn too_many(count: usize, most: usize, name: &str) -> Failure {
    let text = format!("{name} has the length {count}: at most {most} are possible");
    Failure::argument(text)
}

/// Returns `size` if the library knows a struct `T` of that size.
fn known<T: Growable>(size: usize) -> Result<usize, Failure> {
    const { assert!(T::SMALLEST <= size_of::<T>(), "later versions only grow") };
    let range = T::SMALLEST..=size_of::<T>();
    if range.contains(&size) && size.is_multiple_of(align_of::<T>()) {
        return Ok(size);
    }
    Err(Failure::new(
        SIZE,
        format!(
            "{} of {size} bytes: this library knows {} to {}; initialise the struct, or install the library that the \
             program was compiled for",
            T::NAME,
            T::SMALLEST,
            size_of::<T>(),
        ),
    ))
}

/// Returns a struct that the program filled. What its version does not have is as in `default`.
///
/// # Safety
/// If `pointer` is not null, it points to as many readable bytes as its first word says.
pub(crate) unsafe fn read<T: Growable>(pointer: *const T, default: T) -> Result<T, Failure> {
    if pointer.is_null() {
        return Ok(default);
    }
    // SAFETY: the caller's promise; the first word is the size.
    let size = known::<T>(unsafe { pointer.cast::<u32>().read() } as usize)?;
    let mut value = default;
    // SAFETY: `size` bytes can be read, and `value` has at least as many. Any bytes are a `T`.
    unsafe { std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), (&raw mut value).cast(), size) };
    Ok(value)
}

/// Writes the part of `value` that the program's version of the struct has.
///
/// # Safety
/// If `pointer` is not null, it points to as many writable bytes as its first word says.
pub(crate) unsafe fn fill<T: Growable>(pointer: *mut T, value: T) -> Result<(), Failure> {
    output(pointer, T::NAME)?;
    // SAFETY: the caller's promise; the first word is the size.
    let size = unsafe { pointer.cast::<u32>().read() } as usize;
    // SAFETY: the caller's promise.
    unsafe { begin(pointer, size, value) }
}

/// Writes a struct of `size` bytes, and its size.
///
/// # Safety
/// If `pointer` is not null, it points to `size` writable bytes.
pub(crate) unsafe fn begin<T: Growable>(
    pointer: *mut T,
    size: usize,
    mut value: T,
) -> Result<(), Failure> {
    output(pointer, T::NAME)?;
    let size = known::<T>(size)?;
    // SAFETY: `value` is a `T`, which begins with the word; `size` bytes can be written, and
    // `value` has as many.
    unsafe {
        (&raw mut value).cast::<u32>().write(size as u32);
        std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), pointer.cast(), size);
    }
    Ok(())
}

/// Writes a list, as far as there is room, and its full length.
///
/// # Safety
/// If `list` is not null, `capacity` values may be written there; if `count` is not null, a number.
pub(crate) unsafe fn fill_list<T>(
    list: *mut T,
    capacity: usize,
    count: *mut usize,
    values: impl ExactSizeIterator<Item = T>,
) -> Result<(), Failure> {
    check_length::<T>(capacity, "the list")?;
    output(count, "count")?;
    if capacity > 0 {
        output(list, "the list")?;
    }
    let length = values.len();
    for (index, value) in values.take(capacity).enumerate() {
        // SAFETY: the index is below `capacity`.
        unsafe { list.add(index).write(value) };
    }
    // SAFETY: the caller's promise.
    unsafe { put(count, length) };
    Ok(())
}
