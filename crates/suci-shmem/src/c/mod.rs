//! The functions of `shmem.h`. Those of one kind differ in their types alone, so macros make them
//! of the header's tables.
//!
//! Each is exported by two names: `shmem_…`, and `pshmem_…` for libraries that define the first.

mod atomics;
mod collectives;
mod memory;
mod rma;
mod setup;
mod sync;
mod teams;

use std::ffi::{c_long, c_longlong};

// The tables below name the types by their sizes.
const _: () = assert!(size_of::<c_long>() == 8 && size_of::<c_longlong>() == 8);

/// `shmem_ctx_t`: a handle.
pub(crate) type Ctx = usize;

/// `shmem_team_t`: a handle.
pub(crate) type TeamHandle = usize;

/// Exports a function by both names, made of the literals in brackets. The body of one that is not
/// `safe` may do what the specification of OpenSHMEM allows with its arguments.
macro_rules! export {
    (safe $name:tt $arguments:tt $(-> $result:ty)? $body:block) => {
        $crate::c::export!(@both $name $arguments ($(-> $result)?) [] $body);
    };
    ([$($name:literal)*] $arguments:tt $(-> $result:ty)? $body:block) => {
        $crate::c::export!(@both [$($name)*] $arguments ($(-> $result)?) [unsafe] {
            // SAFETY: callers pass what the specification demands.
            unsafe { $body }
        });
    };
    (@both [$($name:literal)*] $arguments:tt $result:tt $qualifier:tt $body:block) => {
        $crate::c::export!(@one ["shmem_" $($name)*] $arguments $result $qualifier $body);
        $crate::c::export!(@one ["pshmem_" $($name)*] $arguments $result $qualifier $body);
    };
    (@one [$($name:literal)*] ($($argument:ident: $type:ty),* $(,)?) ($($result:tt)*)
        [$($qualifier:ident)?] $body:block) => {
        const _: () = {
            #[unsafe(export_name = concat!($($name),*))]
            $($qualifier)? extern "C" fn function($($argument: $type),*) $($result)* $body
        };
    };
}
pub(crate) use export;

/// Exports a function of the default context, and the one beside it whose name begins with `ctx_`
/// and whose first argument is the context.
macro_rules! export_with_context {
    ([$($name:literal)*] |$ctx:ident| ($($arguments:tt)*) $(-> $result:ty)? $body:block) => {
        $crate::c::export!([$($name)*] ($($arguments)*) $(-> $result)? {
            let $ctx = $crate::runtime::CTX_DEFAULT;
            $body
        });
        $crate::c::export!(["ctx_" $($name)*] ($ctx: $crate::c::Ctx, $($arguments)*)
            $(-> $result)? $body);
    };
}
pub(crate) use export_with_context;

/// Calls a macro with the types of values: `SHMEM_VALUE_TYPES`.
macro_rules! value_types {
    ($macro:ident) => {
        $macro! {
            "int": i32, "long": i64, "longlong": i64, "uint": u32, "ulong": u64, "ulonglong": u64,
            "int32": i32, "int64": i64, "uint32": u32, "uint64": u64, "float": f32, "double": f64,
            "char": i8, "schar": i8, "short": i16, "uchar": u8, "ushort": u16, "int8": i8,
            "int16": i16, "uint8": u8, "uint16": u16, "size": u64, "ptrdiff": i64,
        }
    };
}
pub(crate) use value_types;

/// Calls a macro with the types of atomic operations: `SHMEM_AMO_TYPES`.
macro_rules! amo_types {
    ($macro:ident) => {
        $macro! {
            "int": i32, "long": i64, "longlong": i64, "uint": u32, "ulong": u64, "ulonglong": u64,
            "int32": i32, "int64": i64, "uint32": u32, "uint64": u64, "size": u64, "ptrdiff": i64,
        }
    };
}
pub(crate) use amo_types;
