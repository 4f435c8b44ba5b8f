//! Collective operations of teams, and the deprecated ones of active sets.

use super::{TeamHandle, export, value_types};
use crate::arguments::{check, distance, length};
use crate::fatal;
use crate::numbers::{Complex, LongDouble};
use crate::runtime::runtime;
use crate::team::Team;
use std::ffi::{c_int, c_long};
use suci::group::{BitAnd, BitOr, BitXor, Combination, Element, Max, Min, Product, Sum};

export!(safe ["barrier_all"] () { runtime().barrier_all() });
export!(safe ["sync_all"] () { runtime().sync(&runtime().world) });
export!(safe ["team_sync"] (team: TeamHandle) -> c_int {
    match runtime().find_team(team) {
        Some(team) => runtime().sync(&team),
        None => return -1,
    }
    0
});

/// A place where elements are written, one where they are read.
type Buffers<T> = (*mut T, *const T);

/// Elements at `source`. It is null at most if there are none.
///
/// # Safety
/// There are as many; so for the functions below, as the specification demands.
unsafe fn read<T: Copy>(source: *const T, count: usize) -> Vec<T> {
    check(source, count, "source");
    // SAFETY: the caller's promise. The elements may lie at any address.
    (0..count)
        .map(|index| unsafe { source.add(index).read_unaligned() })
        .collect()
}

unsafe fn write<T: Copy>(dest: *mut T, elements: &[T]) {
    check(dest, elements.len(), "dest");
    if elements.is_empty() {
        return;
    }
    let (dest, source): (*mut u8, *const u8) = (dest.cast(), elements.as_ptr().cast());
    // SAFETY: the caller's promise, for any address; a vector is no memory of the program.
    unsafe { dest.copy_from_nonoverlapping(source, size_of_val(elements)) };
}

/// Copies the root's elements to all, to itself if `also_root`.
unsafe fn broadcast<T: Element>(
    team: &Team,
    (dest, source): Buffers<T>,
    count: usize,
    root: c_int,
    also_root: bool,
) {
    let root = usize::try_from(root).unwrap_or(usize::MAX);
    if root >= team.members.size() {
        fatal!(
            "PE_root is {root}: name a PE of the {} of the team",
            team.members.size()
        );
    }
    let is_root = team.rank == root;
    // SAFETY: the caller's promise. What others have at `dest` is replaced.
    let mut data = unsafe { read(if is_root { source } else { dest.cast_const() }, count) };
    if team.members.size() > 1 && count > 0 {
        team.run(runtime().node(), |group, node| {
            group.broadcast(node, root, &mut data)
        });
    }
    if !is_root || also_root {
        // SAFETY: the caller's promise.
        unsafe { write(dest, &data) };
    }
}

/// Collects the elements of all, each as many as it says.
unsafe fn collect<T: Element>(team: &Team, (dest, source): Buffers<T>, count: usize) {
    // SAFETY: the caller's promise.
    let mut data = unsafe { read(source, count) };
    if team.members.size() > 1 {
        data = team.run(runtime().node(), |group, node| {
            let counts = group.allgather(node, &[count as u64])?;
            let count = |count: &u64| usize::try_from(*count).unwrap_or(usize::MAX);
            let counts: Vec<_> = counts.iter().map(count).collect();
            group.allgatherv(node, &data, &counts)
        });
    }
    // SAFETY: the caller's promise.
    unsafe { write(dest, &data) };
}

/// Collects the elements of all, each the same number.
unsafe fn fcollect<T: Element>(team: &Team, (dest, source): Buffers<T>, count: usize) {
    // SAFETY: the caller's promise.
    let mut data = unsafe { read(source, count) };
    if team.members.size() > 1 && count > 0 {
        data = team.run(runtime().node(), |group, node| group.allgather(node, &data));
    }
    // SAFETY: the caller's promise.
    unsafe { write(dest, &data) };
}

/// Sends the i-th part to the i-th process. Elements lie `strides` apart.
unsafe fn alltoalls<T: Element>(
    team: &Team,
    (dest, source): Buffers<T>,
    (dst, sst): (isize, isize),
    count: usize,
) {
    let all = length::<u8>(count.saturating_mul(team.members.size()));
    check(dest, all, "dest");
    check(source, all, "source");
    if dst < 1 || sst < 1 {
        fatal!("the strides are {dst} and {sst}: pass 1 or more");
    }
    for stride in [dst, sst] {
        distance::<T>(stride, all);
    }
    let strided = |index: usize, stride: isize| index.cast_signed().wrapping_mul(stride);
    let element = |index| {
        // SAFETY: the caller's promise.
        unsafe { source.offset(strided(index, sst)).read_unaligned() }
    };
    let mut data: Vec<T> = (0..all).map(element).collect();
    if team.members.size() > 1 && count > 0 {
        data = team.run(runtime().node(), |group, node| {
            group.all_to_all(node, &data)
        });
    }
    for (index, element) in data.into_iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { dest.offset(strided(index, dst)).write_unaligned(element) };
    }
}

/// Combines the elements at equal places.
unsafe fn reduce<T: Element>(
    team: &Team,
    (dest, source): Buffers<T>,
    count: usize,
    operation: impl Combination<T>,
) {
    // SAFETY: the caller's promise.
    let mut data = unsafe { read(source, count) };
    if team.members.size() > 1 && count > 0 {
        team.run(runtime().node(), |group, node| {
            group.allreduce(node, &mut data, operation)
        });
    }
    // SAFETY: the caller's promise.
    unsafe { write(dest, &data) };
}

/// Runs an operation of a team; -1 if there is no such team.
fn with(team: TeamHandle, operation: impl FnOnce(&Team)) -> c_int {
    match runtime().find_team(team) {
        Some(team) => operation(&team),
        None => return -1,
    }
    0
}

/// The operations that move elements, by the beginnings and ends of their names.
macro_rules! moves {
    ([$($before:literal)*] [$($after:literal)*] $type:ty) => {
        export!([$($before)* "broadcast" $($after)*] (team: TeamHandle, dest: *mut $type,
            source: *const $type, nelems: usize, root: c_int) -> c_int {
                with(team, |team| broadcast(team, (dest, source), nelems, root, true))
            });
        export!([$($before)* "collect" $($after)*] (team: TeamHandle, dest: *mut $type,
            source: *const $type, nelems: usize) -> c_int {
                with(team, |team| collect(team, (dest, source), nelems))
            });
        export!([$($before)* "fcollect" $($after)*] (team: TeamHandle, dest: *mut $type,
            source: *const $type, nelems: usize) -> c_int {
                with(team, |team| fcollect(team, (dest, source), nelems))
            });
        export!([$($before)* "alltoall" $($after)*] (team: TeamHandle, dest: *mut $type,
            source: *const $type, nelems: usize) -> c_int {
                with(team, |team| alltoalls(team, (dest, source), (1, 1), nelems))
            });
        export!([$($before)* "alltoalls" $($after)*] (team: TeamHandle, dest: *mut $type,
            source: *const $type, dst: isize, sst: isize, nelems: usize) -> c_int {
                with(team, |team| alltoalls(team, (dest, source), (dst, sst), nelems))
            });
    };
}

macro_rules! typed {
    ($($name:literal: $type:ty,)*) => { $( moves!([$name "_"] [] $type); )* };
}

value_types!(typed);
typed! { "longdouble": LongDouble, }
moves!([] ["mem"] u8);

/// Reductions of teams: the name of the operation, its type here, and the element types.
macro_rules! reductions {
    ($operation:ident $of:literal: $($name:literal: $type:ty,)*) => { $(
        export!([$name "_" $of "_reduce"] (team: TeamHandle, dest: *mut $type,
            source: *const $type, nreduce: usize) -> c_int {
                with(team, |team| reduce(team, (dest, source), nreduce, $operation))
            });
    )* };
}

/// Table 10: and, or, xor.
macro_rules! bitwise_reductions {
    ($($operation:ident $of:literal,)*) => { $(
        reductions! { $operation $of:
            "int": i32, "long": i64, "longlong": i64, "uint": u32, "ulong": u64, "ulonglong": u64,
            "int32": i32, "int64": i64, "uint32": u32, "uint64": u64, "schar": i8, "uchar": u8,
            "short": i16, "ushort": u16, "int8": i8, "int16": i16, "uint8": u8, "uint16": u16,
            "size": u64,
        }
    )* };
}

macro_rules! number_reductions {
    ($($operation:ident $of:literal,)*) => { $(
        bitwise_reductions! { $operation $of, }
        reductions! { $operation $of:
            "char": i8, "ptrdiff": i64, "float": f32, "double": f64, "longdouble": LongDouble,
        }
    )* };
}

bitwise_reductions! { BitAnd "and", BitOr "or", BitXor "xor", }
number_reductions! { Max "max", Min "min", Sum "sum", Product "prod", }
reductions! { Sum "sum": "complexd": Complex<f64>, "complexf": Complex<f32>, }
reductions! { Product "prod": "complexd": Complex<f64>, "complexf": Complex<f32>, }

// ---- active sets

export!(safe ["barrier"] (start: c_int, log: c_int, size: c_int, _sync: *mut c_long) {
    runtime().fabric.quiet();
    runtime().sync(&runtime().active_set(start, log, size))
});
export!(safe ["sync"] (start: c_int, log: c_int, size: c_int, _sync: *mut c_long) {
    runtime().sync(&runtime().active_set(start, log, size))
});

macro_rules! active_sets {
    ($($bits:literal: $type:ty,)*) => { $(
        export!(["broadcast" $bits] (dest: *mut $type, source: *const $type, nelems: usize,
            root: c_int, start: c_int, log: c_int, size: c_int, _sync: *mut c_long) {
                let set = runtime().active_set(start, log, size);
                broadcast(&set, (dest, source), nelems, root, false)
            });
        export!(["collect" $bits] (dest: *mut $type, source: *const $type, nelems: usize,
            start: c_int, log: c_int, size: c_int, _sync: *mut c_long) {
                collect(&runtime().active_set(start, log, size), (dest, source), nelems)
            });
        export!(["fcollect" $bits] (dest: *mut $type, source: *const $type, nelems: usize,
            start: c_int, log: c_int, size: c_int, _sync: *mut c_long) {
                fcollect(&runtime().active_set(start, log, size), (dest, source), nelems)
            });
        export!(["alltoall" $bits] (dest: *mut $type, source: *const $type, nelems: usize,
            start: c_int, log: c_int, size: c_int, _sync: *mut c_long) {
                let set = runtime().active_set(start, log, size);
                alltoalls(&set, (dest, source), (1, 1), nelems)
            });
        export!(["alltoalls" $bits] (dest: *mut $type, source: *const $type, dst: isize,
            sst: isize, nelems: usize, start: c_int, log: c_int, size: c_int,
            _sync: *mut c_long) {
                let set = runtime().active_set(start, log, size);
                alltoalls(&set, (dest, source), (dst, sst), nelems)
            });
    )* };
}

active_sets! { "32": u32, "64": u64, }

macro_rules! to_all {
    ($operation:ident $of:literal: $($name:literal: $type:ty,)*) => { $(
        export!([$name "_" $of "_to_all"] (dest: *mut $type, source: *const $type, nreduce: c_int,
            start: c_int, log: c_int, size: c_int, _work: *mut $type, _sync: *mut c_long) {
                let set = runtime().active_set(start, log, size);
                let count = usize::try_from(nreduce).unwrap_or(0);
                reduce(&set, (dest, source), count, $operation)
            });
    )* };
}

macro_rules! bitwise_to_all {
    ($($operation:ident $of:literal,)*) => { $(
        to_all! { $operation $of: "short": i16, "int": i32, "long": i64, "longlong": i64, }
    )* };
}

macro_rules! numbers_to_all {
    ($($operation:ident $of:literal,)*) => { $(
        bitwise_to_all! { $operation $of, }
        to_all! { $operation $of: "float": f32, "double": f64, "longdouble": LongDouble, }
    )* };
}

bitwise_to_all! { BitAnd "and", BitOr "or", BitXor "xor", }
numbers_to_all! { Max "max", Min "min", Sum "sum", Product "prod", }
to_all! { Sum "sum": "complexd": Complex<f64>, "complexf": Complex<f32>, }
to_all! { Product "prod": "complexd": Complex<f64>, "complexf": Complex<f32>, }
