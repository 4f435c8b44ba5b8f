//! Atomic operations.

use super::{Ctx, amo_types, export, export_with_context};
use crate::arguments::check;
use crate::runtime::{CTX_DEFAULT, runtime};
use std::ffi::c_int;
use suci::remote::{AtomicOp, Width};

/// A number of 32 or 64 bits, by its bits.
trait Atomic: Copy {
    const WIDTH: Width;
    fn bits(self) -> u64;
    fn of_bits(bits: u64) -> Self;
}

macro_rules! atomic {
    ($($type:ty: $width:ident, $bits:ty, |$value:ident| $to:expr, |$from:ident| $of:expr;)*) => { $(
        impl Atomic for $type {
            const WIDTH: Width = Width::$width;

            fn bits(self) -> u64 {
                let $value = self;
                $to.into()
            }

            fn of_bits(bits: u64) -> Self {
                // The upper half of a narrow one is zero.
                let $from = <$bits>::try_from(bits).unwrap_or(0);
                $of
            }
        }
    )* };
}

atomic! {
    u32: Bits32, u32, |value| value, |bits| bits;
    i32: Bits32, u32, |value| value.cast_unsigned(), |bits| bits.cast_signed();
    f32: Bits32, u32, |value| value.to_bits(), |bits| Self::from_bits(bits);
    u64: Bits64, u64, |value| value, |bits| bits;
    i64: Bits64, u64, |value| value.cast_unsigned(), |bits| bits.cast_signed();
    f64: Bits64, u64, |value| value.to_bits(), |bits| Self::from_bits(bits);
}

/// Applies an operation at `pe`.
///
/// # Safety
/// As the specification of `shmem_atomic_add` demands; so for the function below.
unsafe fn apply<T: Atomic>(ctx: Ctx, dest: *mut T, op: AtomicOp, pe: c_int) {
    let (fabric, pe) = runtime().target(ctx, pe);
    // SAFETY: the caller's promise.
    unsafe { fabric.atomic(pe, dest.cast(), T::WIDTH, op) };
}

unsafe fn fetch<T: Atomic>(ctx: Ctx, dest: *const T, op: AtomicOp, pe: c_int) -> T {
    let (fabric, pe) = runtime().target(ctx, pe);
    // SAFETY: the caller's promise.
    let before = unsafe {
        let dest = dest.cast_mut().cast();
        fabric.fetch_atomic(pe, dest, T::WIDTH, op)
    };
    T::of_bits(before)
}

unsafe fn fetch_nbi<T: Atomic>(
    ctx: Ctx,
    (dest, fetched): (*const T, *mut T),
    op: AtomicOp,
    pe: c_int,
) {
    let (fabric, pe) = runtime().target(ctx, pe);
    check(fetched, 1, "fetch");
    // SAFETY: the caller's promise.
    unsafe {
        let both = (dest.cast_mut().cast(), fetched.cast());
        fabric.fetch_atomic_nbi(pe, both, T::WIDTH, op);
    }
}

fn compare_swap<T: Atomic>(expected: T, new: T) -> AtomicOp {
    AtomicOp::CompareSwap {
        expected: expected.bits(),
        new: new.bits(),
    }
}

/// A function without a result, with and without a context. `$name` and the arguments behind the
/// address follow, and the operation.
macro_rules! change {
    ($type:ty, [$($name:literal)*] ($($argument:ident: $of:ty),*) $op:expr) => {
        export_with_context!([$($name)*]
            |ctx| (dest: *mut $type, $($argument: $of,)* pe: c_int) {
                apply(ctx, dest, $op, pe)
            });
    };
}

/// A function that returns the number before, with and without a context.
macro_rules! fetching {
    ($type:ty, [$($name:literal)*] ($($argument:ident: $of:ty),*) $op:expr) => {
        export_with_context!([$($name)*]
            |ctx| (dest: *mut $type, $($argument: $of,)* pe: c_int) -> $type {
                fetch(ctx, dest, $op, pe)
            });
        export_with_context!([$($name)* "_nbi"]
            |ctx| (fetched: *mut $type, dest: *mut $type, $($argument: $of,)* pe: c_int) {
                fetch_nbi(ctx, (dest, fetched), $op, pe)
            });
    };
}

/// Table 7
macro_rules! extended {
    ($($name:literal: $type:ty,)*) => { $(
        fetching!($type, [$name "_atomic_fetch"] () AtomicOp::Fetch);
        change!($type, [$name "_atomic_set"] (value: $type) AtomicOp::Set(value.bits()));
        fetching!($type, [$name "_atomic_swap"] (value: $type) AtomicOp::Swap(value.bits()));
    )* };
}

/// Table 6
macro_rules! standard {
    ($($name:literal: $type:ty,)*) => { $(
        change!($type, [$name "_atomic_inc"] () AtomicOp::Add(1));
        fetching!($type, [$name "_atomic_fetch_inc"] () AtomicOp::Add(1));
        change!($type, [$name "_atomic_add"] (value: $type) AtomicOp::Add(value.bits()));
        fetching!($type, [$name "_atomic_fetch_add"] (value: $type) AtomicOp::Add(value.bits()));
        fetching!($type, [$name "_atomic_compare_swap"] (cond: $type, value: $type)
            compare_swap(cond, value));
    )* };
}

/// Table 8
macro_rules! bitwise {
    ($($name:literal: $type:ty,)*) => { $(
        change!($type, [$name "_atomic_and"] (value: $type) AtomicOp::And(value.bits()));
        fetching!($type, [$name "_atomic_fetch_and"] (value: $type) AtomicOp::And(value.bits()));
        change!($type, [$name "_atomic_or"] (value: $type) AtomicOp::Or(value.bits()));
        fetching!($type, [$name "_atomic_fetch_or"] (value: $type) AtomicOp::Or(value.bits()));
        change!($type, [$name "_atomic_xor"] (value: $type) AtomicOp::Xor(value.bits()));
        fetching!($type, [$name "_atomic_fetch_xor"] (value: $type) AtomicOp::Xor(value.bits()));
    )* };
}

amo_types!(extended);
extended! { "float": f32, "double": f64, }
amo_types!(standard);
bitwise! {
    "uint": u32, "ulong": u64, "ulonglong": u64, "int32": i32, "int64": i64, "uint32": u32,
    "uint64": u64,
}

/// Deprecated names.
macro_rules! deprecated {
    ($($name:literal: $type:ty,)*) => { $(
        export!([$name "_cswap"]
            (dest: *mut $type, cond: $type, value: $type, pe: c_int) -> $type {
                fetch(CTX_DEFAULT, dest, compare_swap(cond, value), pe)
            });
        export!([$name "_finc"] (dest: *mut $type, pe: c_int) -> $type {
            fetch(CTX_DEFAULT, dest, AtomicOp::Add(1), pe)
        });
        export!([$name "_inc"] (dest: *mut $type, pe: c_int) {
            apply(CTX_DEFAULT, dest, AtomicOp::Add(1), pe)
        });
        export!([$name "_fadd"] (dest: *mut $type, value: $type, pe: c_int) -> $type {
            fetch(CTX_DEFAULT, dest, AtomicOp::Add(value.bits()), pe)
        });
        export!([$name "_add"] (dest: *mut $type, value: $type, pe: c_int) {
            apply(CTX_DEFAULT, dest, AtomicOp::Add(value.bits()), pe)
        });
    )* };
}

macro_rules! deprecated_swaps {
    ($($name:literal: $type:ty,)*) => { $(
        export!([$name "_swap"] (dest: *mut $type, value: $type, pe: c_int) -> $type {
            fetch(CTX_DEFAULT, dest, AtomicOp::Swap(value.bits()), pe)
        });
        export!([$name "_fetch"] (source: *const $type, pe: c_int) -> $type {
            fetch(CTX_DEFAULT, source, AtomicOp::Fetch, pe)
        });
        export!([$name "_set"] (dest: *mut $type, value: $type, pe: c_int) {
            apply(CTX_DEFAULT, dest, AtomicOp::Set(value.bits()), pe)
        });
    )* };
}

amo_types!(deprecated);
amo_types!(deprecated_swaps);
deprecated_swaps! { "float": f32, "double": f64, }
