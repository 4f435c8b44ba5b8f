//! One-sided operations on the memory of processes on the same machine, without the network.
//!
//! A process that allocates a region keeps its bytes in a file in memory ([`segment`]). Another
//! process of the same user that has a session with it, and the region's key, asks for the file by
//! a local socket ([`owner`], [`link`]) and maps it. Then it applies its operations itself, by the
//! rules of the target: `suci_layers::remote::DirectRegion`.
//!
//! Whatever goes wrong, an operation goes over the network instead, and has the result or the error
//! that it has there. Decision 38 has the reasons.

mod end_mark;
mod link;
mod owner;
mod segment;
mod service;
mod wire;

#[cfg(test)]
mod tests;

pub(crate) use owner::{Offer, Offers};
pub(crate) use segment::{Segment, Use};

use crate::error::Error;
use crate::fork::OriginalProcess;
use link::Link;
use service::Thread;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};
use suci_layers::remote::{
    AtomicOp, Destination, DirectRegion, Layout, RegionId, RemoteRegion, Signal, Width,
};
use suci_proto::types::{Incarnation, NodeId};

/// How long a region that could not be mapped is reached by the network, until it is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Regions of others that are noted as not to be mapped, at most.
const MAX_REFUSED: usize = 65_536;

/// A region of another process that this one has mapped.
#[derive(Debug)]
pub(crate) struct Mapped {
    link: Arc<Link>,
    pub(crate) segment: Arc<Segment>,
    direct: DirectRegion,
}

impl Mapped {
    /// Whether operations may go on here.
    fn is_valid(&self) -> bool {
        !self.link.has_ended() && !self.segment.is_withdrawn()
    }

    /// Applies a put. Returns false if it was not applied.
    pub(crate) fn put(&self, layout: &Layout, data: &[u8], signal: Option<Signal>) -> bool {
        self.is_valid() && self.direct.put(layout, data, signal)
    }

    /// Applies a get. Returns false if it was not applied.
    pub(crate) fn get(&self, layout: &Layout, into: &mut [u8]) -> bool {
        order_reads();
        self.is_valid() && self.direct.get(layout, into)
    }

    /// As `get`, into memory of this node.
    pub(crate) fn get_into(&self, layout: &Layout, into: &Destination) -> bool {
        order_reads();
        self.is_valid() && self.direct.get_into(layout, into)
    }

    /// Applies an atomic operation. Returns the integer before; nothing if it was not applied.
    pub(crate) fn atomic(&self, offset: u64, width: Width, op: AtomicOp) -> Option<u64> {
        order_reads();
        self.is_valid()
            .then(|| self.direct.atomic(offset, width, op))?
    }
}

/// Makes earlier changes of this process visible before a later read, as a target does that
/// applies operations one after the other.
pub(crate) fn order_reads() {
    fence(Ordering::SeqCst);
}

/// The names of a region: number and key.
type Names = (RegionId, u64);

#[derive(Debug)]
enum KnownRegion {
    Mapped(Arc<Mapped>),
    /// It is not tried again before this time.
    Refused(Instant),
}

/// The knowledge about one other node.
#[derive(Debug, Default)]
struct KnownTarget {
    link: Option<Arc<Link>>,
    regions: BTreeMap<Names, KnownRegion>,
}

#[derive(Debug, Default)]
struct Table {
    targets: BTreeMap<NodeId, KnownTarget>,
    /// Changes with each session that ends.
    sessions: u64,
}

/// The regions of others.
#[derive(Debug, Default)]
pub(crate) struct MappedRegions(RwLock<Table>);

impl MappedRegions {
    fn read(&self) -> RwLockReadGuard<'_, Table> {
        // No code between lock and unlock leaves it half changed.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the regions of a node, with which a session ended.
    pub(crate) fn forget(&self, node: NodeId) {
        let mut table = self.write();
        table.sessions = table.sessions.wrapping_add(1);
        let forgotten = table.targets.remove(&node);
        drop(table);
        drop(forgotten);
    }

    /// The processes that this one is connected to.
    fn links(&self) -> Vec<Arc<Link>> {
        let table = self.read();
        let links = table
            .targets
            .values()
            .filter_map(|target| target.link.as_ref());
        links.map(Arc::clone).collect()
    }

    /// Forgets the regions of a process that is gone.
    fn forget_ended(&self, link: &Arc<Link>) {
        let is_same = |target: &KnownTarget| {
            let other = target.link.as_ref();
            other.is_some_and(|other| Arc::ptr_eq(other, link))
        };
        let mut table = self.write();
        table.targets.retain(|_, target| !is_same(target));
    }
}

/// The memory that a node has in common with other processes of this machine.
#[derive(Debug)]
pub struct SharedMemory {
    pub(crate) offers: Arc<Offers>,
    pub(crate) regions: Arc<MappedRegions>,
    /// One region is mapped at a time, so that there is one connection to each process.
    mapping: Mutex<()>,
    thread: Thread,
}

/// The knowledge about one region.
enum Lookup {
    Mapped(Arc<Mapped>),
    /// The network reaches it.
    Refused,
    Unknown,
}

impl SharedMemory {
    /// Begins to answer other processes, by a thread of its own.
    pub(crate) fn start(
        node: NodeId,
        incarnation: Incarnation,
        process: OriginalProcess,
    ) -> Result<Self, Error> {
        let trouble = Error::io("starting the thread for shared memory");
        let offers = Arc::<Offers>::default();
        let regions = Arc::<MappedRegions>::default();
        let address = wire::address(node, incarnation).map_err(&trouble)?;
        let thread = Thread::start(&address, &offers, &regions, process).map_err(&trouble)?;
        Ok(Self {
            offers,
            regions,
            mapping: Mutex::new(()),
            thread,
        })
    }

    /// Returns the descriptors that the child of a fork closes.
    pub(crate) fn descriptors(&self) -> [RawFd; 2] {
        self.thread.descriptors()
    }

    fn find(&self, region: &RemoteRegion) -> Lookup {
        let table = self.regions.read();
        let target = table.targets.get(&region.node);
        match target.and_then(|target| target.regions.get(&(region.region, region.key))) {
            Some(KnownRegion::Mapped(mapped)) => Lookup::Mapped(Arc::clone(mapped)),
            Some(KnownRegion::Refused(until)) if Instant::now() < *until => Lookup::Refused,
            Some(KnownRegion::Refused(_)) | None => Lookup::Unknown,
        }
    }

    /// Returns a region of another process of this machine, which is mapped now if it was not.
    /// `process` returns the process that the session is with; it is called only then. Returns
    /// nothing if the network must reach the region. Blocks for less than a second, for a process
    /// that is stopped.
    pub(crate) fn region(
        &self,
        region: &RemoteRegion,
        process: impl FnOnce() -> Option<Incarnation>,
    ) -> Option<Arc<Mapped>> {
        if let Lookup::Mapped(mapped) = self.find(region) {
            return Some(mapped);
        }
        let _one = self.mapping.lock().unwrap_or_else(PoisonError::into_inner);
        match self.find(region) {
            Lookup::Mapped(mapped) => return Some(mapped),
            Lookup::Refused => return None,
            Lookup::Unknown => {}
        }
        let sessions = self.regions.read().sessions;
        // Without a session the first message opens one.
        let mapped = self.map(region, process()?).ok().map(Arc::new);
        self.note(region, sessions, mapped.as_ref());
        self.thread.look();
        mapped
    }

    /// Notes that a region was mapped, or not, unless a session ended since `sessions`.
    fn note(&self, region: &RemoteRegion, sessions: u64, mapped: Option<&Arc<Mapped>>) {
        let mut table = self.regions.write();
        if table.sessions != sessions {
            return;
        }
        let target = table.targets.entry(region.node).or_default();
        if target.regions.len() >= MAX_REFUSED {
            let keeps = |entry: &KnownRegion| matches!(entry, KnownRegion::Mapped(_));
            target.regions.retain(|_, entry| keeps(entry));
        }
        let entry = match mapped {
            Some(mapped) => {
                let same = |link: &Arc<Link>| Arc::ptr_eq(link, &mapped.link);
                if !target.link.as_ref().is_some_and(same) {
                    // Regions that another connection brought are not valid any more.
                    target.regions.clear();
                    target.link = Some(Arc::clone(&mapped.link));
                }
                KnownRegion::Mapped(Arc::clone(mapped))
            }
            None => KnownRegion::Refused(Instant::now() + RETRY),
        };
        target.regions.insert((region.region, region.key), entry);
    }

    fn map(&self, region: &RemoteRegion, incarnation: Incarnation) -> io::Result<Mapped> {
        let link = self.link(region.node);
        let usable = |link: &Arc<Link>| link.incarnation == incarnation && !link.has_ended();
        let link = match link.filter(usable) {
            Some(link) => link,
            None => Arc::new(Link::open(region.node, incarnation)?),
        };
        let (segment, rights) = link.map(region)?;
        let segment = Arc::new(segment);
        let direct = DirectRegion::new(rights, Arc::clone(&segment) as _);
        Ok(Mapped {
            link,
            segment,
            direct,
        })
    }

    fn link(&self, node: NodeId) -> Option<Arc<Link>> {
        let table = self.regions.read();
        table.targets.get(&node)?.link.as_ref().map(Arc::clone)
    }

    /// Whether the process still runs that this one is connected to.
    pub(crate) fn runs(&self, node: NodeId) -> bool {
        self.link(node).is_some_and(|link| !link.has_ended())
    }
}
