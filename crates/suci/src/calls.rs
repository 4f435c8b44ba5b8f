//! Names of calls.

use crate::error::Error;
use crate::sys;
use std::sync::atomic::{AtomicU64, Ordering};
use suci_proto::CallId;

/// The operation that [`Error::TimedOut`](crate::Error::TimedOut) names for a call.
pub(crate) const CALL: &str = "a call";

/// The names of one node's calls. The first is random: a late reply to an earlier process with the
/// same node ID then names no call of this one.
#[derive(Debug, Default)]
pub(crate) struct CallIds(AtomicU64);

impl CallIds {
    /// Begins at a random one.
    pub(crate) fn new() -> Result<Self, Error> {
        let first = sys::random().map_err(Error::io("asking the system for random bytes"))?;
        Ok(Self(AtomicU64::new(u64::from_le_bytes(first))))
    }

    /// Another one.
    pub(crate) fn next(&self) -> CallId {
        CallId(self.0.fetch_add(1, Ordering::Relaxed))
    }
}
