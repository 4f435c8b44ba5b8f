//! Functions of the program that combine elements.

use crate::elements::{LONGEST, read, write};
use crate::error::{BUSY, Failure};
use crate::guard::guard;
use crate::pointer;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use suci::group::{Combination, Custom, Element};

/// A function of the program: it combines the elements `lower` and `higher`, and writes the result.
pub type CombineFunction =
    Option<unsafe extern "C" fn(*const c_void, *const c_void, *mut c_void, u32)>;

/// Such a function, which is there.
type Combine = unsafe extern "C" fn(*const c_void, *const c_void, *mut c_void, u32);

/// The most functions of a process.
const MOST: usize = 256;

/// The number of the first function. Those below are for `enum suci_combination`.
const FIRST: u32 = 256;

/// The functions of the program. None is ever removed: an operation under way may use it.
static FUNCTIONS: [OnceLock<Combine>; MOST] = [const { OnceLock::new() }; MOST];

/// An element in C's byte order, as aligned as any type of `enum suci_element`.
#[repr(C, align(8))]
struct Aligned([u8; LONGEST]);

impl Aligned {
    fn of<T: Element>(element: T) -> Self {
        let mut new = Self([0; LONGEST]);
        write(element, new.bytes::<T>());
        new
    }

    fn bytes<T: Element>(&mut self) -> &mut [u8] {
        self.0.get_mut(..T::SIZE).unwrap_or_default()
    }
}

/// Returns the function of this number as a combination of elements of a type, whose value of
/// `enum suci_element` is `element`.
pub(crate) fn custom<T: Element>(
    number: u32,
    element: u32,
) -> Result<impl Combination<T>, Failure> {
    let index = number.checked_sub(FIRST).map(|index| index as usize);
    let function = index.and_then(|index| FUNCTIONS.get(index)?.get().copied());
    let Some(function) = function else {
        return Err(Failure::argument(format!(
            "combination is {number}: pass one of enum suci_combination, or a number of \
             suci_combination_new()"
        )));
    };
    Ok(Custom(move |lower: T, higher: T| {
        let (lower, higher) = (Aligned::of(lower), Aligned::of(higher));
        let mut result = Aligned([0; LONGEST]);
        // SAFETY: suci.h asks for a function that reads an element of this type at each of the two
        // places and writes one to the third. Each has room for it, is aligned for it, and outlives
        // the call.
        unsafe {
            function(
                ptr::from_ref(&lower).cast(),
                ptr::from_ref(&higher).cast(),
                ptr::from_mut(&mut result).cast(),
                element,
            );
        }
        read(result.bytes::<T>())
    }))
}

/// Makes a combination of a function of the program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn suci_combination_new(
    function: CombineFunction,
    combination: *mut u32,
) -> c_int {
    guard(|| {
        pointer::output(combination, "combination")?;
        let Some(function) = function else {
            return Err(Failure::argument(
                "function is null: pass one that combines two elements",
            ));
        };
        let is_this =
            |slot: &OnceLock<Combine>| ptr::fn_addr_eq(*slot.get_or_init(|| function), function);
        let Some(index) = FUNCTIONS.iter().position(is_this) else {
            let text = "this process has 256 functions that combine elements: use one of them";
            return Err(Failure::new(BUSY, text));
        };
        // SAFETY: as suci.h asks.
        unsafe { pointer::put(combination, FIRST + index as u32) };
        Ok(())
    })
}
