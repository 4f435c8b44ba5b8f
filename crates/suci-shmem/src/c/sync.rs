//! Waits for and tests of this process's memory, signals, and locks.

use super::{amo_types, export};
use crate::arguments::{check, check_aligned};
use crate::lock::Lock;
use crate::runtime::runtime;
use crate::wait::{Comparison, Word, until};
use std::ffi::{c_int, c_long};
use std::sync::Mutex;

/// `SIZE_MAX`: no index.
const NONE: usize = usize::MAX;

/// Integers and the values that they are compared to.
struct Integers<T> {
    ivars: *mut T,
    count: usize,
    /// Those whose entry is not 0 are left out; null leaves out none.
    status: *const c_int,
    comparison: Comparison,
    values: Values<T>,
}

/// The value for all integers, or a pointer to that of each.
enum Values<T> {
    All(T),
    Each(*const T),
}

impl<T: Word> Integers<T> {
    /// The indices that are not left out.
    ///
    /// # Safety
    /// The pointers are those that the specification demands; so for the functions below.
    unsafe fn wanted(&self) -> impl Iterator<Item = usize> {
        // SAFETY: the caller's promise.
        let is_wanted = |index| self.status.is_null() || unsafe { *self.status.add(index) } == 0;
        (0..self.count).filter(move |index| is_wanted(*index))
    }

    unsafe fn holds(&self, index: usize) -> bool {
        // SAFETY: the caller's promise.
        let (now, value) = unsafe {
            let value = match self.values {
                Values::All(value) => value,
                Values::Each(values) => *values.add(index),
            };
            (T::load(self.ivars.add(index)), value)
        };
        self.comparison.holds(now, value)
    }

    /// Whether all hold, or none is wanted.
    unsafe fn all(&self) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.wanted().all(|index| self.holds(index)) }
    }

    /// An integer that holds. Calls look at each in turn, so that none is passed over for ever.
    unsafe fn any(&self) -> Option<usize> {
        static NEXT: Mutex<usize> = Mutex::new(0);
        let mut next = NEXT
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let first = next.checked_rem(self.count)?;
        // SAFETY: the caller's promise.
        let holding = unsafe { self.wanted().filter(|index| self.holds(*index)) };
        let found = holding.min_by_key(|index| (*index < first, *index))?;
        *next = found + 1;
        Some(found)
    }

    /// Writes the indices of those that hold; returns how many.
    unsafe fn some(&self, indices: *mut usize) -> usize {
        check(indices, self.count, "indices");
        let mut count = 0;
        // SAFETY: the caller's promise.
        unsafe {
            for index in self.wanted().filter(|index| self.holds(*index)) {
                indices.add(count).write(index);
                count += 1;
            }
        }
        count
    }

    unsafe fn wait_any(&self) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            match self.wanted().next() {
                None => NONE,
                Some(_) => until(|| self.any()),
            }
        }
    }

    unsafe fn wait_some(&self, indices: *mut usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe {
            match self.wanted().next() {
                None => 0,
                Some(_) => until(|| Some(self.some(indices)).filter(|count| *count > 0)),
            }
        }
    }
}

fn one<T>(ivar: *mut T, cmp: c_int, value: T) -> Integers<T> {
    many((ivar, 1, std::ptr::null()), cmp, Values::All(value))
}

fn many<T>(
    (ivars, count, status): (*mut T, usize, *const c_int),
    cmp: c_int,
    values: Values<T>,
) -> Integers<T> {
    // Before the beginning and after the end nothing would come.
    runtime();
    check_aligned(ivars, count, "ivar");
    if let Values::Each(values) = values {
        check(values, count, "cmp_values");
    }
    let comparison = Comparison::new(cmp);
    Integers {
        ivars,
        count,
        status,
        comparison,
        values,
    }
}

fn when(ready: bool) -> Option<()> {
    ready.then_some(())
}

/// The forms for one value, and for a value of each.
macro_rules! several {
    ($type:ty, $values:ident: $of:ty, $make:expr, $name:literal, [$($suffix:literal)?]) => {
        export!([$name "_wait_until_all" $($suffix)?] (ivars: *mut $type, nelems: usize,
            status: *const c_int, cmp: c_int, $values: $of) {
                let integers = many((ivars, nelems, status), cmp, $make);
                until(|| when(integers.all()))
            });
        export!([$name "_wait_until_any" $($suffix)?] (ivars: *mut $type, nelems: usize,
            status: *const c_int, cmp: c_int, $values: $of) -> usize {
                many((ivars, nelems, status), cmp, $make).wait_any()
            });
        export!([$name "_wait_until_some" $($suffix)?] (ivars: *mut $type, nelems: usize,
            indices: *mut usize, status: *const c_int, cmp: c_int, $values: $of) -> usize {
                many((ivars, nelems, status), cmp, $make).wait_some(indices)
            });
        export!([$name "_test_all" $($suffix)?] (ivars: *mut $type, nelems: usize,
            status: *const c_int, cmp: c_int, $values: $of) -> c_int {
                let integers = many((ivars, nelems, status), cmp, $make);
                tested(integers.all()).into()
            });
        export!([$name "_test_any" $($suffix)?] (ivars: *mut $type, nelems: usize,
            status: *const c_int, cmp: c_int, $values: $of) -> usize {
                let found = many((ivars, nelems, status), cmp, $make).any();
                tested(found.is_some());
                found.unwrap_or(NONE)
            });
        export!([$name "_test_some" $($suffix)?] (ivars: *mut $type, nelems: usize,
            indices: *mut usize, status: *const c_int, cmp: c_int, $values: $of) -> usize {
                let count = many((ivars, nelems, status), cmp, $make).some(indices);
                tested(count > 0);
                count
            });
    };
}

/// Lets others run after a test that fails: a program that tests in a loop waits for them.
fn tested(holds: bool) -> bool {
    if !holds {
        std::thread::yield_now();
    }
    holds
}

macro_rules! waits {
    ($($name:literal: $type:ty,)*) => { $(
        export!([$name "_wait_until"] (ivar: *mut $type, cmp: c_int, value: $type) {
            let integers = one(ivar, cmp, value);
            until(|| when(integers.all()))
        });
        export!([$name "_test"] (ivar: *mut $type, cmp: c_int, value: $type) -> c_int {
            tested(one(ivar, cmp, value).all()).into()
        });
        several!($type, value: $type, Values::All(value), $name, []);
        several!($type, values: *const $type, Values::Each(values), $name, ["_vector"]);
    )* };
}

/// `SHMEM_CMP_NE`
const NOT_EQUAL: c_int = 2;

/// Deprecated: waits until the integer is not the value.
macro_rules! changes {
    ($([$($name:literal)*]: $type:ty,)*) => { $(
        export!([$($name)* "wait"] (ivar: *mut $type, value: $type) {
            let integers = one(ivar, NOT_EQUAL, value);
            until(|| when(integers.all()))
        });
    )* };
}

amo_types!(waits);
waits! { "short": i16, "ushort": u16, }
changes! {
    ["short_"]: i16, ["int_"]: i32, ["long_"]: i64, ["longlong_"]: i64, []: i64,
}
export!(["wait_until"] (ivar: *mut c_long, cmp: c_int, value: c_long) {
    let integers = one(ivar, cmp, value);
    until(|| when(integers.all()))
});

export!(["signal_fetch"] (sig_addr: *const u64) -> u64 {
    runtime();
    check_aligned(sig_addr, 1, "sig_addr");
    u64::load(sig_addr)
});
export!(["signal_wait_until"] (sig_addr: *mut u64, cmp: c_int, value: u64) -> u64 {
    runtime();
    check_aligned(sig_addr, 1, "sig_addr");
    let comparison = Comparison::new(cmp);
    until(|| {
        let now = u64::load(sig_addr);
        comparison.holds(now, value).then_some(now)
    })
});

/// A lock at an address.
///
/// # Safety
/// As [`Lock::new`], but it may be null.
unsafe fn at(lock: *mut c_long) -> Lock<'static> {
    check_aligned(lock, 1, "lock");
    // SAFETY: the caller's promise.
    unsafe { Lock::new(runtime(), lock) }
}

export!(["set_lock"] (lock: *mut c_long) { at(lock).set() });
export!(["clear_lock"] (lock: *mut c_long) { at(lock).clear() });
export!(["test_lock"] (lock: *mut c_long) -> c_int { (!at(lock).test()).into() });
