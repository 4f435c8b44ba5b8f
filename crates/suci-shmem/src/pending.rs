//! Operations that were begun and are complete after the next quiet.

use std::sync::{Mutex, PoisonError};
use suci::remote::{PendingOperation, Width};

/// Operations that are kept at most: the next one waits for all. The node has room for 65,536.
const MOST: usize = 4_096;

/// An operation, and the place of its result, if it has one.
struct Begun {
    operation: PendingOperation,
    result: Option<(Result, Width)>,
}

/// The place where the program wants the result of an atomic operation.
struct Result(*mut u8);

// SAFETY: the specification lets nobody use the place before a quiet, which may be that of another
// thread.
unsafe impl Send for Result {}

/// The operations of this process.
#[derive(Default)]
pub(crate) struct Pending(Mutex<Vec<Begun>>);

impl Pending {
    /// Keeps an operation. `wait` waits for one and returns its result.
    ///
    /// # Safety
    /// The place of the result, if there is one, has room for it until the operation is settled.
    pub(crate) unsafe fn add(
        &self,
        operation: PendingOperation,
        result: Option<(*mut u8, Width)>,
        wait: impl Fn(PendingOperation) -> u64,
    ) {
        let mut begun = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if begun.len() >= MOST {
            settle(&mut begun, wait);
        }
        let result = result.map(|(place, width)| (Result(place), width));
        begun.push(Begun { operation, result });
    }

    /// Waits for all operations, also those of other threads, and writes their results. A quiet of
    /// another thread that does so at the same time is waited for.
    pub(crate) fn settle(&self, wait: impl Fn(PendingOperation) -> u64) {
        settle(
            &mut self.0.lock().unwrap_or_else(PoisonError::into_inner),
            wait,
        );
    }
}

fn settle(begun: &mut Vec<Begun>, wait: impl Fn(PendingOperation) -> u64) {
    for Begun { operation, result } in begun.drain(..) {
        let value = wait(operation);
        // SAFETY: `add` has the promise of its caller for the place.
        unsafe {
            match result {
                Some((Result(place), Width::Bits32)) => {
                    let value = u32::try_from(value).unwrap_or(0);
                    place.cast::<u32>().write_unaligned(value);
                }
                Some((Result(place), Width::Bits64)) => {
                    place.cast::<u64>().write_unaligned(value);
                }
                None => {}
            }
        }
    }
}
