//! The elements of groups' buffers, and how they are combined.

use crate::error::Failure;
use crate::pointer;
use std::ffi::c_void;
use suci::group::Element;

/// Bytes of the longest element of `enum suci_element`.
pub(crate) const LONGEST: usize = 8;

/// Evaluates an expression with the type of a value of `enum suci_element` that is an integer.
macro_rules! with_integer {
    ($element:expr, $T:ident => $call:expr, $other:ident => $else:expr) => {
        match $element {
            0 => {
                type $T = i8;
                $call
            }
            1 => {
                type $T = i16;
                $call
            }
            2 => {
                type $T = i32;
                $call
            }
            3 => {
                type $T = i64;
                $call
            }
            4 => {
                type $T = u8;
                $call
            }
            5 => {
                type $T = u16;
                $call
            }
            6 => {
                type $T = u32;
                $call
            }
            7 => {
                type $T = u64;
                $call
            }
            $other => $else,
        }
    };
}
pub(crate) use with_integer;

/// Evaluates an expression with the type of a value of `enum suci_element`.
macro_rules! with_element {
    ($element:expr, $T:ident => $call:expr) => {
        $crate::elements::with_integer!($element, $T => $call, other => match other {
            8 => { type $T = f32; $call }
            9 => { type $T = f64; $call }
            other => Err($crate::elements::no_element(other)),
        })
    };
}
pub(crate) use with_element;

/// Evaluates an expression with the type of a value of `enum suci_element`, and the operation of a
/// value of `enum suci_combination` or of a function of the program.
macro_rules! with_combination {
    ($element:expr, $combination:expr, ($T:ident, $operation:ident) => $call:expr) => {
        match $combination {
            0 => $crate::elements::with_element!($element, $T => {
                let $operation = suci::group::Sum;
                $call
            }),
            1 => $crate::elements::with_element!($element, $T => {
                let $operation = suci::group::Product;
                $call
            }),
            2 => $crate::elements::with_element!($element, $T => {
                let $operation = suci::group::Min;
                $call
            }),
            3 => $crate::elements::with_element!($element, $T => {
                let $operation = suci::group::Max;
                $call
            }),
            4 => $crate::elements::with_integer!($element, $T => {
                let $operation = suci::group::BitAnd;
                $call
            }, other => Err($crate::elements::no_element(other))),
            5 => $crate::elements::with_integer!($element, $T => {
                let $operation = suci::group::BitOr;
                $call
            }, other => Err($crate::elements::no_element(other))),
            6 => $crate::elements::with_integer!($element, $T => {
                let $operation = suci::group::BitXor;
                $call
            }, other => Err($crate::elements::no_element(other))),
            other => $crate::elements::with_element!($element, $T => {
                let $operation = $crate::combination::custom::<$T>(other, $element)?;
                $call
            }),
        }
    };
}
pub(crate) use with_combination;

#[cold]
pub(crate) fn no_element(element: u32) -> Failure {
    Failure::argument(format!(
        "element is {element}: pass one of enum suci_element, an integer for bits"
    ))
}

/// Checks that the program has room for as many elements as come.
pub(crate) fn room_for(wanted: usize, room: usize) -> Result<(), Failure> {
    match wanted == room || wanted == 0 {
        true => Ok(()),
        false => Err(Failure::argument(format!(
            "room is {room}: {wanted} elements come, so name memory for as many"
        ))),
    }
}

/// Reads an element from C's memory, where it has the byte order of the machine.
pub(crate) fn read<T: Element>(bytes: &[u8]) -> T {
    read_in(bytes, cfg!(target_endian = "big"))
}

/// Writes an element to C's memory, in the byte order of the machine.
pub(crate) fn write<T: Element>(element: T, bytes: &mut [u8]) {
    write_in(element, bytes, cfg!(target_endian = "big"));
}

/// Reads an element from memory of a machine that is big-endian or not.
fn read_in<T: Element>(bytes: &[u8], is_big: bool) -> T {
    let mut copy = [0; LONGEST];
    let copy = copy.get_mut(..T::SIZE).unwrap_or_default();
    copy.copy_from_slice(bytes);
    if is_big {
        copy.reverse();
    }
    T::read(copy)
}

/// Writes an element to memory of a machine that is big-endian or not.
fn write_in<T: Element>(element: T, bytes: &mut [u8], is_big: bool) {
    element.write(bytes);
    if is_big {
        bytes.reverse();
    }
}

/// Returns the bytes of `count` elements.
fn bytes_of<T: Element>(count: usize, name: &str) -> Result<usize, Failure> {
    let bytes = count.checked_mul(T::SIZE);
    bytes.ok_or_else(|| {
        Failure::argument(format!(
            "{name} has {count} elements: that is more than memory can hold"
        ))
    })
}

/// Returns a copy of the `count` elements at `data`.
///
/// # Safety
/// If `data` is not null, it points to as many elements, which nothing changes meanwhile.
pub(crate) unsafe fn elements<T: Element>(
    data: *const c_void,
    count: usize,
    name: &str,
) -> Result<Vec<T>, Failure> {
    // SAFETY: the caller's promise.
    let bytes = unsafe { pointer::bytes(data, bytes_of::<T>(count, name)?, name) }?;
    Ok(bytes.chunks_exact(T::SIZE).map(read).collect())
}

/// Room of the program for a result, which may come after the call that names it.
pub(crate) struct Room {
    data: *mut u8,
    bytes: usize,
}

// SAFETY: suci.h asks that nothing else uses the memory until the operation is over, whichever
// thread waits for it.
unsafe impl Send for Room {}

impl Room {
    /// Returns the memory of `count` elements at `data`.
    ///
    /// # Safety
    /// If `data` is not null, it points to as many elements, which nothing else uses as long as the
    /// result exists.
    pub(crate) unsafe fn new<T: Element>(
        data: *mut c_void,
        count: usize,
        name: &str,
    ) -> Result<Self, Failure> {
        let bytes = bytes_of::<T>(count, name)?;
        // SAFETY: the caller's promise. The reference ends here, and the result alone is used.
        let data = unsafe { pointer::bytes_mut(data, bytes, name) }?.as_mut_ptr();
        Ok(Self { data, bytes })
    }

    /// Writes elements there, as many as there are and as have room.
    pub(crate) fn write<T: Element>(&self, list: &[T]) {
        // SAFETY: the promise of the one that called `new`, which checked the length.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.data, self.bytes) };
        for (place, element) in bytes.chunks_exact_mut(T::SIZE).zip(list) {
            write(*element, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Element + PartialEq + std::fmt::Debug>(element: T, little: &[u8], big: &[u8]) {
        for (bytes, is_big) in [(little, false), (big, true)] {
            assert_eq!(read_in::<T>(bytes, is_big), element);
            let mut written = vec![0; T::SIZE];
            write_in(element, &mut written, is_big);
            assert_eq!(written, bytes);
        }
    }

    #[test]
    fn elements_have_the_byte_order_of_the_machine_in_c() {
        check(-2_i8, &[0xfe], &[0xfe]);
        check(0x0102_u16, &[2, 1], &[1, 2]);
        check(1.5_f64, &1.5_f64.to_le_bytes(), &1.5_f64.to_be_bytes());
        let number = 0x0102_0304_0506_0708_i64;
        check(number, &number.to_le_bytes(), &number.to_be_bytes());
        let mut native = number.to_ne_bytes();
        assert_eq!(read::<i64>(&native), number);
        write(-number, &mut native);
        assert_eq!(i64::from_ne_bytes(native), -number);
    }
}
