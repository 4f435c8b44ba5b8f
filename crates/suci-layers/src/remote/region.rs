//! The regions of memory that a node opened to others.

use super::error::RemoteErrorKind;
use super::memory::{Lent, Memory};
use core::fmt;
use core::ops::BitOr;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Maximum number of regions of a node at one time.
pub const MAX_REGIONS: usize = 65_536;

/// The number of a region at the node that registered it. No number is used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(pub u32);

impl fmt::Display for RegionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The kinds of access that others have to a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights(u8);

impl Rights {
    /// Gets.
    pub const READ: Self = Self(1);
    /// Puts.
    pub const WRITE: Self = Self(2);
    /// Atomic operations, also those that only read, and signals.
    pub const ATOMIC: Self = Self(4);

    /// Returns true if all of `needed` are among them.
    #[must_use]
    pub const fn contains(self, needed: Self) -> bool {
        self.0 & needed.0 == needed.0
    }
}

impl BitOr for Rights {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

#[derive(Debug)]
struct Region {
    key: u64,
    rights: Rights,
    lent: Arc<Lent>,
}

/// The node has as many regions as it may ([`MAX_REGIONS`]), or used up all numbers: withdraw some,
/// or register larger ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyRegions;

impl fmt::Display for TooManyRegions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the node has 65,536 regions: withdraw some, or register larger ones")
    }
}

impl core::error::Error for TooManyRegions {}

/// The regions of a node. Clones share them, so that a program registers and withdraws while
/// another thread serves requests.
#[derive(Clone, Debug, Default)]
pub struct Regions(Arc<RwLock<Table>>);

#[derive(Debug, Default)]
struct Table {
    regions: BTreeMap<RegionId, Region>,
    /// The number of the next region.
    next: u32,
}

impl Regions {
    /// Returns no regions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens `memory` to every node that knows the number and `key`. The key must be random: it is
    /// all that keeps other nodes out.
    ///
    /// # Errors
    /// [`TooManyRegions`]
    pub fn register(
        &self,
        memory: Arc<dyn Memory>,
        rights: Rights,
        key: u64,
    ) -> Result<RegionId, TooManyRegions> {
        let mut table = self.write();
        let next = table.next.checked_add(1).ok_or(TooManyRegions)?;
        if table.regions.len() >= MAX_REGIONS {
            return Err(TooManyRegions);
        }
        let id = RegionId(core::mem::replace(&mut table.next, next));
        let lent = Lent::new(memory);
        table.regions.insert(id, Region { key, rights, lent });
        Ok(id)
    }

    /// Withdraws a region. When this returns, no operation touches its memory any more, also none
    /// that had begun. Returns false if there is no such region.
    pub fn withdraw(&self, id: RegionId) -> bool {
        let region = self.write().regions.remove(&id);
        #[cfg(suci_plant)]
        if suci_proto::plant::active("placement-after-withdrawal") {
            return region.is_some();
        }
        // Outside of the table's lock: it may wait until an access ends.
        region.is_some_and(|region| {
            region.lent.withdraw();
            true
        })
    }

    /// Returns the memory of a region, if the request may touch its bytes below `end`.
    pub(super) fn admit(
        &self,
        id: RegionId,
        key: u64,
        needed: Rights,
        end: u64,
    ) -> Result<Arc<Lent>, RemoteErrorKind> {
        let table = self.read();
        let Some(region) = table.regions.get(&id) else {
            return Err(match id.0 < table.next {
                true => RemoteErrorKind::Withdrawn,
                false => RemoteErrorKind::NoRegion,
            });
        };
        if !key_matches(region.key, key) {
            return Err(RemoteErrorKind::WrongKey);
        }
        if !region.rights.contains(needed) {
            return Err(RemoteErrorKind::NoRight);
        }
        if end > region.lent.length() {
            return Err(RemoteErrorKind::OutOfBounds);
        }
        Ok(Arc::clone(&region.lent))
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key_matches(key: u64, given: u64) -> bool {
    #[cfg(suci_plant)]
    if suci_proto::plant::active("region-key-unchecked") {
        return true;
    }
    key == given
}
