//! Memory of keys, of which nothing is left behind.
//!
//! A value on the stack is copied when it is moved, and the old copies stay there until something
//! else happens to overwrite them. So the bytes of a key are on the heap from the first one on, and
//! a move moves a pointer. The cryptographic library keeps input in values of its own, which it
//! moves over the stack: the calls that take a key, or make what can stand for one, run on a part
//! of the stack that is cleared afterwards.

use super::noise::LENGTH;
use crate::sys;
use std::io;
use std::ops::{Deref, DerefMut};
use zeroize::Zeroize;

/// The bytes of a key, in memory of their own that is cleared when they are dropped.
#[derive(PartialEq, Eq)]
pub(super) struct KeyBytes(Box<[u8; LENGTH]>);

impl KeyBytes {
    /// Zeros, to be overwritten.
    pub(super) fn zeroed() -> Self {
        Self(Box::new([0; LENGTH]))
    }

    /// A copy of bytes, whose owner clears the original.
    pub(super) fn copy_of(bytes: &[u8; LENGTH]) -> Self {
        let mut copy = Self::zeroed();
        copy.copy_from_slice(bytes);
        copy
    }

    /// Random bytes of the system.
    pub(super) fn random() -> io::Result<Self> {
        let mut bytes = Self::zeroed();
        sys::fill_random(&mut bytes)?;
        Ok(bytes)
    }
}

impl Clone for KeyBytes {
    fn clone(&self) -> Self {
        Self::copy_of(self)
    }
}

impl Deref for KeyBytes {
    type Target = [u8; LENGTH];

    fn deref(&self) -> &[u8; LENGTH] {
        &self.0
    }
}

impl DerefMut for KeyBytes {
    fn deref_mut(&mut self) -> &mut [u8; LENGTH] {
        &mut self.0
    }
}

impl Drop for KeyBytes {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Bytes of stack that are cleared: several times what the cryptographic library uses for a key
/// exchange, and a small part of the smallest stack of a thread.
const CLEARED: usize = 32 << 10;

/// Calls `work`, then clears the part of the stack that it used. Its result should hold secrets by
/// reference only: the result itself is on the caller's part.
pub(super) fn on_cleared_stack<T>(work: impl FnOnce() -> T) -> T {
    /// A frame of its own, where that of [`clear`] will be.
    #[inline(never)]
    fn call<T>(work: impl FnOnce() -> T) -> T {
        work()
    }
    #[inline(never)]
    fn clear() {
        let mut area = [0_u64; CLEARED / size_of::<u64>()];
        area.as_mut_slice().zeroize();
    }
    let result = call(work);
    clear();
    result
}
