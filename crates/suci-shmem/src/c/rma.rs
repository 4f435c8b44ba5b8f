//! Puts and gets, with and without a signal, and their order.
//!
//! A non-blocking put does what a blocking one does, which returns before the target has it.

use super::{Ctx, export, value_types};
use crate::fabric::Strides;
use crate::fatal;
use crate::numbers::LongDouble;
use crate::runtime::{CTX_DEFAULT, runtime};
use std::ffi::{c_int, c_void};
use suci::remote::SignalUpdate;

/// Copies elements to `pe`.
///
/// # Safety
/// As the specification of `shmem_put` demands; so for the functions below.
unsafe fn put<T>(ctx: Ctx, (dest, source): (*mut T, *const T), count: usize, pe: c_int) {
    let pe = runtime().pe(ctx, pe);
    // SAFETY: the caller's promise.
    unsafe {
        let bytes = bytes(source, count);
        runtime().fabric.put(pe, dest.cast(), bytes);
    }
}

unsafe fn get<T>(ctx: Ctx, (dest, source): (*mut T, *const T), count: usize, pe: c_int) {
    let pe = runtime().pe(ctx, pe);
    let length = length::<T>(count);
    // SAFETY: the caller's promise.
    unsafe { runtime().fabric.get(pe, source.cast(), dest.cast(), length) };
}

unsafe fn get_nbi<T>(ctx: Ctx, (dest, source): (*mut T, *const T), count: usize, pe: c_int) {
    let pe = runtime().pe(ctx, pe);
    let length = length::<T>(count);
    // SAFETY: the caller's promise.
    unsafe {
        let fabric = &runtime().fabric;
        fabric.get_nbi(pe, source.cast(), dest.cast(), length);
    }
}

unsafe fn p<T>(ctx: Ctx, dest: *mut T, value: T, pe: c_int) {
    // SAFETY: the caller's promise.
    unsafe { put(ctx, (dest, &raw const value), 1, pe) };
}

unsafe fn g<T>(ctx: Ctx, source: *const T, pe: c_int) -> T {
    let mut value = std::mem::MaybeUninit::uninit();
    // SAFETY: the caller's promise; a get that returns wrote all bytes, of which each is valid.
    unsafe {
        get(ctx, (value.as_mut_ptr(), source), 1, pe);
        value.assume_init()
    }
}

unsafe fn iput<T>(
    ctx: Ctx,
    (dest, source): (*mut T, *const T),
    strides: (isize, isize),
    count: usize,
    pe: c_int,
) {
    let pe = runtime().pe(ctx, pe);
    let (both, elements) = ((dest.cast(), source.cast()), (size_of::<T>(), count));
    // SAFETY: the caller's promise.
    unsafe {
        runtime()
            .fabric
            .put_strided(pe, both, of_elements::<T>(strides), elements)
    };
}

unsafe fn iget<T>(
    ctx: Ctx,
    (dest, source): (*mut T, *const T),
    strides: (isize, isize),
    count: usize,
    pe: c_int,
) {
    let pe = runtime().pe(ctx, pe);
    let (both, elements) = ((dest.cast(), source.cast()), (size_of::<T>(), count));
    // SAFETY: the caller's promise.
    unsafe {
        runtime()
            .fabric
            .get_strided(pe, both, of_elements::<T>(strides), elements)
    };
}

unsafe fn put_signal<T>(
    ctx: Ctx,
    (dest, source): (*mut T, *const T),
    count: usize,
    (word, value, op): (*mut u64, u64, c_int),
    pe: c_int,
) {
    let update = match op {
        0 => SignalUpdate::Set(value),
        1 => SignalUpdate::Add(value),
        op => fatal!("sig_op is {op}: pass SHMEM_SIGNAL_SET or SHMEM_SIGNAL_ADD"),
    };
    let pe = runtime().pe(ctx, pe);
    // SAFETY: the caller's promise.
    unsafe {
        let bytes = bytes(source, count);
        runtime()
            .fabric
            .put_signal(pe, dest.cast(), bytes, word, update);
    }
}

/// The bytes of elements.
///
/// # Safety
/// There are as many at `source`, and they stay as they are for the time of the call.
unsafe fn bytes<'a, T>(source: *const T, count: usize) -> &'a [u8] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller's promise; elements of C's numbers have no bytes that are not initialised,
    // but for those of a long double, which are copied alone.
    unsafe { std::slice::from_raw_parts(source.cast(), length::<T>(count)) }
}

fn length<T>(count: usize) -> usize {
    let length = count.checked_mul(size_of::<T>());
    length.unwrap_or_else(|| fatal!("nelems is {count}, more than there is memory"))
}

fn of_elements<T>((dest, source): (isize, isize)) -> Strides {
    let bytes = |stride: isize| {
        let bytes = usize::try_from(stride).ok().filter(|stride| *stride > 0);
        let bytes = bytes.and_then(|stride| stride.checked_mul(size_of::<T>()));
        bytes.unwrap_or_else(|| fatal!("the stride is {stride}: pass 1 or more"))
    };
    Strides {
        dest: bytes(dest),
        source: bytes(source),
    }
}

/// Puts and gets of one type, by these names.
macro_rules! moves {
    ($type:ty, [$($put:literal)*], [$($get:literal)*]) => {
        moves!(@one put, $type, [$($put)*]);
        moves!(@one put, $type, [$($put)* "_nbi"]);
        moves!(@one get, $type, [$($get)*]);
        moves!(@one get_nbi, $type, [$($get)* "_nbi"]);
    };
    (@one $function:ident, $type:ty, [$($name:literal)*]) => {
        export!([$($name)*]
            (dest: *mut $type, source: *const $type, nelems: usize, pe: c_int) {
                $function(CTX_DEFAULT, (dest, source), nelems, pe)
            });
        export!(["ctx_" $($name)*]
            (ctx: Ctx, dest: *mut $type, source: *const $type, nelems: usize, pe: c_int) {
                $function(ctx, (dest, source), nelems, pe)
            });
    };
}

macro_rules! strided {
    ($function:ident, $type:ty, [$($name:literal)*]) => {
        export!([$($name)*] (dest: *mut $type, source: *const $type, dst: isize, sst: isize,
            nelems: usize, pe: c_int) {
                $function(CTX_DEFAULT, (dest, source), (dst, sst), nelems, pe)
            });
        export!(["ctx_" $($name)*] (ctx: Ctx, dest: *mut $type, source: *const $type, dst: isize,
            sst: isize, nelems: usize, pe: c_int) {
                $function(ctx, (dest, source), (dst, sst), nelems, pe)
            });
    };
}

macro_rules! signals {
    ($type:ty, [$($name:literal)*]) => {
        signals!(@one $type, [$($name)*]);
        signals!(@one $type, [$($name)* "_nbi"]);
    };
    (@one $type:ty, [$($name:literal)*]) => {
        export!([$($name)*] (dest: *mut $type, source: *const $type, nelems: usize,
            sig_addr: *mut u64, signal: u64, sig_op: c_int, pe: c_int) {
                put_signal(CTX_DEFAULT, (dest, source), nelems, (sig_addr, signal, sig_op), pe)
            });
        export!(["ctx_" $($name)*] (ctx: Ctx, dest: *mut $type, source: *const $type,
            nelems: usize, sig_addr: *mut u64, signal: u64, sig_op: c_int, pe: c_int) {
                put_signal(ctx, (dest, source), nelems, (sig_addr, signal, sig_op), pe)
            });
    };
}

macro_rules! typed {
    ($($name:literal: $type:ty,)*) => { $(
        moves!($type, [$name "_put"], [$name "_get"]);
        strided!(iput, $type, [$name "_iput"]);
        strided!(iget, $type, [$name "_iget"]);
        signals!($type, [$name "_put_signal"]);
    )* };
}

macro_rules! values {
    ($($name:literal: $type:ty,)*) => { $(
        export!([$name "_p"] (dest: *mut $type, value: $type, pe: c_int) {
            p(CTX_DEFAULT, dest, value, pe)
        });
        export!(["ctx_" $name "_p"] (ctx: Ctx, dest: *mut $type, value: $type, pe: c_int) {
            p(ctx, dest, value, pe)
        });
        export!([$name "_g"] (source: *const $type, pe: c_int) -> $type {
            g(CTX_DEFAULT, source, pe)
        });
        export!(["ctx_" $name "_g"] (ctx: Ctx, source: *const $type, pe: c_int) -> $type {
            g(ctx, source, pe)
        });
    )* };
}

macro_rules! sized {
    ($($bits:literal: $type:ty,)*) => { $(
        moves!($type, ["put" $bits], ["get" $bits]);
        strided!(iput, $type, ["iput" $bits]);
        strided!(iget, $type, ["iget" $bits]);
        signals!($type, ["put" $bits "_signal"]);
    )* };
}

value_types!(typed);
value_types!(values);
typed! { "longdouble": LongDouble, }
sized! { "8": u8, "16": u16, "32": u32, "64": u64, "128": u128, }
moves!(u8, ["putmem"], ["getmem"]);
signals!(u8, ["putmem_signal"]);

export!(safe ["fence"] () { runtime().fabric.fence() });
export!(safe ["ctx_fence"] (_ctx: Ctx) { runtime().fabric.fence() });
export!(safe ["quiet"] () { runtime().fabric.quiet() });
// Completes the operations of all contexts, which is more than it must.
export!(safe ["ctx_quiet"] (_ctx: Ctx) { runtime().fabric.quiet() });

const _: () = assert!(size_of::<c_void>() == 1, "void of shmem_putmem is a byte");
