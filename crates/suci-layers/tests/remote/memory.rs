//! Memory without unsafe code.

use std::sync::{Arc, Mutex};
use suci_layers::remote::{AtomicOp, Memory, Width};

/// Bytes behind a lock.
#[derive(Debug)]
pub(crate) struct Locked(Mutex<Vec<u8>>);

impl Locked {
    pub(crate) fn new(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(bytes)))
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().expect("no panic").clone()
    }
}

impl Memory for Locked {
    fn len(&self) -> u64 {
        self.0.lock().expect("no panic").len() as u64
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let bytes = self.0.lock().expect("no panic");
        let from = bytes.get(at as usize..).and_then(|b| b.get(..into.len()));
        from.map(|from| into.copy_from_slice(from)).is_some()
    }

    fn write(&self, at: u64, from: &[u8]) -> bool {
        let mut bytes = self.0.lock().expect("no panic");
        let into = bytes.get_mut(at as usize..);
        let into = into.and_then(|bytes| bytes.get_mut(..from.len()));
        into.map(|into| into.copy_from_slice(from)).is_some()
    }

    fn atomic(&self, at: u64, width: Width, op: AtomicOp) -> Option<u64> {
        let mut bytes = self.0.lock().expect("no panic");
        apply(&mut bytes, at, width, op)
    }
}

/// Applies an atomic operation to bytes.
pub(crate) fn apply(bytes: &mut [u8], at: u64, width: Width, op: AtomicOp) -> Option<u64> {
    let size = width.bytes() as usize;
    let place = bytes.get_mut(at as usize..)?.get_mut(..size)?;
    if !at.is_multiple_of(width.bytes()) {
        return None;
    }
    let mut word = [0; 8];
    word[..size].copy_from_slice(place);
    let before = u64::from_le_bytes(word);
    let after = op.apply(before, width).to_le_bytes();
    place.copy_from_slice(&after[..size]);
    Some(before)
}
