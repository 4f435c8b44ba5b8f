//! Puts and gets, with and without a signal, and their order.
//!
//! A non-blocking put does what a blocking one does, which returns before the target has it.

use super::{Ctx, export, export_with_context, value_types};
use crate::arguments::{check, check_aligned, distance, length};
use crate::fabric::{Fabric, Strides};
use crate::fatal;
use crate::numbers::LongDouble;
use crate::runtime::runtime;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use suci::remote::SignalUpdate;

/// A block of elements at `pe` and one of this process. Neither is null, unless it has no elements.
struct Move<T> {
    fabric: Arc<Fabric>,
    pe: usize,
    dest: *mut T,
    source: *const T,
    count: usize,
}

fn at<T>(ctx: Ctx, (dest, source): (*mut T, *const T), count: usize, pe: c_int) -> Move<T> {
    let (fabric, pe) = runtime().target(ctx, pe);
    check(dest, count, "dest");
    check(source, count, "source");
    Move {
        fabric,
        pe,
        dest,
        source,
        count,
    }
}

impl<T> Move<T> {
    /// Copies the elements to `pe`.
    ///
    /// # Safety
    /// As the specification of `shmem_put` demands; so for the functions below.
    unsafe fn put(self) {
        let source = (self.source.cast(), length::<T>(self.count));
        // SAFETY: the caller's promise.
        unsafe { self.fabric.put(self.pe, self.dest.cast(), source) };
    }

    unsafe fn get(self) {
        let (source, dest) = (self.source.cast(), self.dest.cast());
        // SAFETY: the caller's promise.
        unsafe {
            self.fabric
                .get(self.pe, source, dest, length::<T>(self.count))
        };
    }

    unsafe fn get_nbi(self) {
        let (source, dest) = (self.source.cast(), self.dest.cast());
        // SAFETY: the caller's promise.
        unsafe {
            self.fabric
                .get_nbi(self.pe, source, dest, length::<T>(self.count))
        };
    }

    unsafe fn iput(self, strides: (isize, isize)) {
        let both = (self.dest.cast(), self.source.cast());
        let elements = (size_of::<T>(), self.count);
        let strides = of_elements::<T>(strides, self.count);
        // SAFETY: the caller's promise.
        unsafe { self.fabric.put_strided(self.pe, both, strides, elements) };
    }

    unsafe fn iget(self, strides: (isize, isize)) {
        let both = (self.dest.cast(), self.source.cast());
        let elements = (size_of::<T>(), self.count);
        let strides = of_elements::<T>(strides, self.count);
        // SAFETY: the caller's promise.
        unsafe { self.fabric.get_strided(self.pe, both, strides, elements) };
    }

    unsafe fn put_signal(self, (word, value, op): (*mut u64, u64, c_int)) {
        let update = match op {
            0 => SignalUpdate::Set(value),
            1 => SignalUpdate::Add(value),
            op => fatal!("sig_op is {op}: pass SHMEM_SIGNAL_SET or SHMEM_SIGNAL_ADD"),
        };
        let source = (self.source.cast(), length::<T>(self.count));
        check_aligned(word, 1, "sig_addr");
        // SAFETY: the caller's promise.
        unsafe {
            self.fabric
                .put_signal(self.pe, self.dest.cast(), source, (word, update));
        }
    }
}

unsafe fn p<T>(ctx: Ctx, dest: *mut T, value: T, pe: c_int) {
    // SAFETY: the caller's promise.
    unsafe { at(ctx, (dest, &raw const value), 1, pe).put() };
}

unsafe fn g<T>(ctx: Ctx, source: *const T, pe: c_int) -> T {
    let mut value = std::mem::MaybeUninit::uninit();
    // SAFETY: the caller's promise; a get that returns wrote all bytes, of which each is valid.
    unsafe {
        at(ctx, (value.as_mut_ptr(), source), 1, pe).get();
        value.assume_init()
    }
}

fn of_elements<T>((dest, source): (isize, isize), count: usize) -> Strides {
    Strides {
        dest: distance::<T>(dest, count),
        source: distance::<T>(source, count),
    }
}

/// Copies of blocks, by these names; the body says how a [`Move`] is done.
macro_rules! blocks {
    ($type:ty, [$($name:literal)*], $function:ident) => {
        export_with_context!([$($name)*]
            |ctx| (dest: *mut $type, source: *const $type, nelems: usize, pe: c_int) {
                at(ctx, (dest, source), nelems, pe).$function()
            });
    };
}

macro_rules! moves {
    ($type:ty, [$($put:literal)*], [$($get:literal)*]) => {
        blocks!($type, [$($put)*], put);
        blocks!($type, [$($put)* "_nbi"], put);
        blocks!($type, [$($get)*], get);
        blocks!($type, [$($get)* "_nbi"], get_nbi);
    };
}

macro_rules! strided {
    ($function:ident, $type:ty, [$($name:literal)*]) => {
        export_with_context!([$($name)*] |ctx| (dest: *mut $type, source: *const $type,
            dst: isize, sst: isize, nelems: usize, pe: c_int) {
                at(ctx, (dest, source), nelems, pe).$function((dst, sst))
            });
    };
}

macro_rules! signals {
    ($type:ty, [$($name:literal)*]) => {
        signals!(@one $type, [$($name)*]);
        signals!(@one $type, [$($name)* "_nbi"]);
    };
    (@one $type:ty, [$($name:literal)*]) => {
        export_with_context!([$($name)*] |ctx| (dest: *mut $type, source: *const $type,
            nelems: usize, sig_addr: *mut u64, signal: u64, sig_op: c_int, pe: c_int) {
                at(ctx, (dest, source), nelems, pe).put_signal((sig_addr, signal, sig_op))
            });
    };
}

/// All functions of a type whose names have it behind or before those of its operations.
macro_rules! families {
    ($type:ty, [$($before:literal)*], [$($behind:literal)*]) => {
        moves!($type, [$($before)* "put" $($behind)*], [$($before)* "get" $($behind)*]);
        strided!(iput, $type, [$($before)* "iput" $($behind)*]);
        strided!(iget, $type, [$($before)* "iget" $($behind)*]);
        signals!($type, [$($before)* "put" $($behind)* "_signal"]);
    };
}

macro_rules! typed {
    ($($name:literal: $type:ty,)*) => { $( families!($type, [$name "_"], []); )* };
}

macro_rules! sized {
    ($($bits:literal: $type:ty,)*) => { $( families!($type, [], [$bits]); )* };
}

macro_rules! values {
    ($($name:literal: $type:ty,)*) => { $(
        export_with_context!([$name "_p"] |ctx| (dest: *mut $type, value: $type, pe: c_int) {
            p(ctx, dest, value, pe)
        });
        export_with_context!([$name "_g"] |ctx| (source: *const $type, pe: c_int) -> $type {
            g(ctx, source, pe)
        });
    )* };
}

value_types!(typed);
value_types!(values);
typed! { "longdouble": LongDouble, }
sized! { "8": u8, "16": u16, "32": u32, "64": u64, "128": u128, }
moves!(u8, ["putmem"], ["getmem"]);
signals!(u8, ["putmem_signal"]);

export!(safe ["fence"] () { runtime().fabric.fence() });
export!(safe ["ctx_fence"] (ctx: Ctx) {
    if let Some(fabric) = runtime().fabric_of(ctx) {
        fabric.fence();
    }
});
export!(safe ["quiet"] () { runtime().fabric.quiet() });
export!(safe ["ctx_quiet"] (ctx: Ctx) {
    if let Some(fabric) = runtime().fabric_of(ctx) {
        fabric.quiet();
    }
});

const _: () = assert!(size_of::<c_void>() == 1, "void of shmem_putmem is a byte");
