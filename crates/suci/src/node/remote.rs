//! One-sided operations of a node.

use super::receive::wait_to_take;
use super::{Node, serve, wait_for_progress};
use crate::clock::Deadline;
use crate::driver::Driver;
use crate::error::Error;
use crate::remote::{PendingOperation, Region, RegionError, Remote};
use crate::remote::{RemoteFailure, RemoteHost, Rights, take_result};
use crate::shared_memory::SharedMemory;
use crate::wait::Awaited;
use std::ptr::NonNull;
use std::sync::MutexGuard;
use std::time::Duration;
use suci_layers::remote::{BeginError, Layer, Outcome};
use suci_proto::types::{Incarnation, NodeId};

impl Node {
    /// Allocates memory that other nodes read and change, as far as they have `rights`.
    ///
    /// # Errors
    /// [`RegionError`].
    pub fn allocate_region(&self, bytes: usize, rights: Rights) -> Result<Region, RegionError> {
        self.enter_open()?;
        Region::allocate(&self.fixed, bytes, rights)
    }

    /// As [`allocate_region`](Self::allocate_region), on huge pages (2 MiB), as far as the system
    /// gives some, else on usual ones: [`Region::bytes_on_huge_pages`] tells. All of the memory is
    /// in use at once, which takes the system about 0.2 s for each GiB.
    ///
    /// # Errors
    /// [`RegionError`].
    pub fn allocate_region_on_huge_pages(
        &self,
        bytes: usize,
        rights: Rights,
    ) -> Result<Region, RegionError> {
        self.enter_open()?;
        Region::allocate_on_huge_pages(&self.fixed, bytes, rights)
    }

    /// Opens memory of the program to other nodes, as far as they have `rights`: the `length` bytes
    /// from `first` on. For atomic operations `first` must be a multiple of 8. The bytes are the
    /// program's again when the region is dropped; that waits until nothing touches them any more.
    ///
    /// # Safety
    /// Until the region is dropped, and for ever if it never is, the bytes stay allocated,
    /// initialised and writable. Other nodes' operations, and those of this one, read and change
    /// them meanwhile. So the program holds no reference to bytes that they change, except to
    /// atomics, and uses bytes that they use only by atomic operations or at other times: before it
    /// tells others of the region, or ordered with their operations by messages, signals or
    /// barriers.
    ///
    /// # Errors
    /// [`RegionError`].
    pub unsafe fn lend_region(
        &self,
        first: NonNull<u8>,
        length: usize,
        rights: Rights,
    ) -> Result<Region, RegionError> {
        self.enter_open()?;
        // SAFETY: the caller promises it.
        unsafe { Region::lend(&self.fixed, first, length, rights) }
    }

    /// The program's one-sided operations on memory of other nodes, and of this one.
    pub fn remote(&mut self) -> Remote<'_> {
        Remote::new(self)
    }

    /// Blocks until `ready` returns something, for at most `limit`; nothing if it never did. It is
    /// asked at once, and again each time that operations of other nodes were applied to regions
    /// of this node. So a program waits for bytes of a region to change, for example for a signal.
    /// Changes through [shared memory](crate::NodeBuilder::shared_memory) are found within 1 ms.
    ///
    /// `ready` is not asked when the program itself changes a region. It should look at memory by
    /// [`Region::read`] or atomic loads, and call nothing of the node.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use suci::{Node, NodeId};
    /// use suci::remote::{AtomicOp, Rights, Width};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let mut node = Node::builder().id(NodeId(0)).open()?;
    /// let flags = node.allocate_region(8, Rights::WRITE | Rights::ATOMIC)?;
    /// # flags.atomic(0, Width::Bits64, AtomicOp::Set(1))?;
    /// let flag = || flags.atomic(0, Width::Bits64, AtomicOp::Fetch).ok();
    /// let set = || flag().filter(|flag| *flag != 0);
    /// assert_eq!(node.wait_until(Duration::from_secs(5), set)?, Some(1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::Woken`]; [`Error::Io`].
    pub fn wait_until<T>(
        &mut self,
        limit: Duration,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let awaited = (self.fixed.wait, Awaited::Message);
        let end = Deadline::after(limit);
        loop {
            let look = self.fixed.next_look();
            let mut driver = self.enter_open()?;
            if let Some(value) = ready() {
                return Ok(Some(value));
            }
            let value = wait_to_take(&mut driver, end.earlier(look), awaited, |_| ready())?;
            if value.is_some() || end.is_over() {
                return Ok(value);
            }
        }
    }
}

/// Fails unless operations at `to` may begin.
fn check_target(driver: &Driver, to: NodeId) -> Result<(), RemoteFailure> {
    match driver.engine.member_state(to) {
        None => Err(Error::UnknownPeer(to).into()),
        Some(state) if state.suspended_here => Err(RemoteFailure::Suspended(to)),
        Some(_) => Ok(()),
    }
}

impl RemoteHost for Node {
    fn check_open(&self) -> Result<(), Error> {
        match (self.core.is_forked(), self.closed) {
            (true, _) => Err(Error::Forked),
            (false, true) => Err(Error::Closed),
            (false, false) => Ok(()),
        }
    }

    fn check_target(&self, to: NodeId) -> Result<(), RemoteFailure> {
        let mut driver = self.enter_to_send()?;
        serve(&mut driver);
        check_target(&driver, to)
    }

    fn shared_memory(&self) -> Option<&SharedMemory> {
        self.fixed.shared_memory.as_deref()
    }

    fn process_of(&self, to: NodeId) -> Option<Incarnation> {
        let driver = self.enter_to_send().ok()?;
        driver.engine.member_state(to)?.incarnation
    }

    fn layers(&self) -> usize {
        1
    }

    fn layer_of(&self, _: NodeId) -> usize {
        0
    }

    fn layer(&self, _: usize) -> MutexGuard<'_, Layer> {
        self.places.remote()
    }

    fn begin<T>(
        &self,
        to: NodeId,
        bytes: usize,
        deadline: Deadline,
        mut begin: impl FnMut(&mut Layer) -> Result<T, BeginError>,
    ) -> Result<Option<T>, RemoteFailure> {
        let mut driver = self.enter_to_send()?;
        check_target(&driver, to)?;
        driver.read_clock();
        loop {
            let begun = begin(&mut driver.places.remote());
            match begun {
                Ok(begun) => {
                    driver.send_requests(bytes);
                    return Ok(Some(begun));
                }
                Err(BeginError::QueueFull) if deadline.is_over() => return Ok(None),
                Err(BeginError::QueueFull) => {
                    wait_for_progress(&mut driver, deadline, self.fixed.wait)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn send_requests(&self, _: usize) -> Result<(), Error> {
        self.enter_to_send()?.send_requests(0);
        Ok(())
    }

    fn turn(&self) -> Result<(), Error> {
        self.enter_to_send()?.run_cycle()
    }

    fn await_result(
        &self,
        operation: PendingOperation,
        deadline: Deadline,
    ) -> Result<Option<Outcome>, RemoteFailure> {
        let mut driver = self.enter_to_send()?;
        let awaited = (self.fixed.wait, Awaited::Answer);
        let taken = wait_to_take(&mut driver, deadline, awaited, |driver| {
            take_result(&mut driver.places.remote(), operation.id).transpose()
        });
        taken?.transpose()
    }

    fn watch(&self, nodes: &[NodeId], awaited: bool) -> Result<(), Error> {
        let mut driver = self.enter_to_send()?;
        let now = driver.read_clock();
        for node in nodes {
            driver.engine.await_member(now, *node, awaited);
        }
        Ok(())
    }
}
