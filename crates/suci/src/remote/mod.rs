//! One-sided operations: a node reads and changes memory of another one without that node's
//! program.

mod memory;

pub use suci_layers::remote::{
    AtomicOp, BeginError, Cause, Extent, InvalidLayout, Layout, OperationError, OperationId,
    RegionId, RemoteError, RemoteErrorKind, RemoteRegion, Rights, Signal, SignalUpdate, Width,
};

use crate::builder::Fixed;
use crate::clock::Deadline;
use crate::core::DriverGuard;
use crate::error::Error;
use crate::fork::OriginalProcess;
use crate::node::{Node, wait_for_progress, wait_to_take};
use crate::shared::SharedNode;
use crate::sys;
use bytes::Bytes;
use memory::{LentSlice, SharedWords};
use std::sync::Arc;
use std::time::Duration;
use suci_layers::remote::{Destination, Initiator, Memory, Outcome, Regions, TooManyRegions};
use suci_proto::types::NodeId;

/// Time that an operation may take unless [`Remote::limit`] sets another.
const LIMIT: Duration = Duration::from_secs(60);

/// A call that waits for longer has its target watched: it counts as lost if it is silent.
const WATCH_AFTER: Duration = Duration::from_secs(1);

/// Why one-sided operations on a node cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteFailure {
    /// The node's own call failed.
    #[error(transparent)]
    Node(#[from] Error),
    /// The operation was not begun.
    #[error(transparent)]
    NotBegun(#[from] BeginError),
    /// The operation failed.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// This node suspended the session with the target.
    #[error("this node suspended the session with node {0}: resume it first")]
    Suspended(NodeId),
    /// The operation is neither open nor waits to be taken.
    #[error("the result of the operation was taken before: wait for it once")]
    Taken,
}

/// Memory of this node that others read and change. The library allocates it; it begins with zeros.
///
/// Others name it by its [handle](Region::handle), which the program sends them. Their operations
/// need no call of this program: they are applied by each call that uses the node and, if the
/// program makes none for 100 ms, by the helper thread; at a [`SharedNode`], by the thread that
/// serves the peer, at once. Dropping the region withdraws it: no operation touches the memory any
/// more.
///
/// ```
/// # use suci::{AddressBook, Node, NodeId};
/// use suci::remote::Rights;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let mut node = Node::builder().id(NodeId(0)).book(AddressBook::new()).open()?;
/// let counters = node.allocate_region(64, Rights::READ | Rights::WRITE | Rights::ATOMIC)?;
/// // Usually another node's program does this, which was sent the handle.
/// let handle = counters.handle();
/// let mut remote = node.remote();
/// remote.put(&handle, 8, &b"eight by"[..])?;
/// assert_eq!(remote.fetch_add(&handle, 0, 5)?, 0);
/// remote.quiet()?;
/// let mut bytes = [0; 8];
/// counters.read(8, &mut bytes)?;
/// assert_eq!(&bytes, b"eight by");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Region {
    memory: Arc<SharedWords>,
    regions: Regions,
    handle: RemoteRegion,
    process: OriginalProcess,
}

impl Region {
    fn allocate(fixed: &Fixed, bytes: usize, rights: Rights) -> Result<Self, RegionError> {
        let Fixed {
            id: node,
            regions,
            process,
            ..
        } = fixed;
        let key = sys::random().map_err(Error::io("asking the system for random bytes"))?;
        let key = u64::from_le_bytes(key);
        let memory = SharedWords::new(bytes).ok_or(RegionError::TooLarge { bytes })?;
        let memory = Arc::new(memory);
        let region = regions.register(Arc::clone(&memory) as Arc<dyn Memory>, rights, key)?;
        Ok(Self {
            memory,
            regions: regions.clone(),
            handle: RemoteRegion {
                node: *node,
                region,
                key,
            },
            process: *process,
        })
    }

    /// Names the region to other nodes. Whoever has it can use the region, within its rights.
    #[must_use]
    pub fn handle(&self) -> RemoteRegion {
        self.handle
    }

    /// Bytes of the region.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.memory.len()
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// Copies the bytes from `offset` on to `into`. Words of 8 bytes at multiples of 8 are read
    /// whole; others may change them between one word and the next.
    ///
    /// # Errors
    /// [`OutOfRegion`].
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), OutOfRegion> {
        let length = into.len() as u64;
        self.check(self.memory.read(offset, into), offset, length)
    }

    /// Copies `bytes` to `offset`. Words of 8 bytes at multiples of 8 are written whole.
    ///
    /// # Errors
    /// [`OutOfRegion`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), OutOfRegion> {
        self.check(self.memory.write(offset, bytes), offset, bytes.len() as u64)
    }

    /// Applies an atomic operation to the integer at `offset`, a multiple of its width. Returns the
    /// integer before. It is atomic beside those of other nodes.
    ///
    /// # Errors
    /// [`OutOfRegion`].
    pub fn atomic(&self, offset: u64, width: Width, op: AtomicOp) -> Result<u64, OutOfRegion> {
        let before = self.memory.atomic(offset, width, op);
        self.check(before.is_some(), offset, width.bytes())?;
        Ok(before.unwrap_or(0))
    }

    fn check(&self, done: bool, offset: u64, length: u64) -> Result<(), OutOfRegion> {
        match done {
            true => Ok(()),
            false => Err(OutOfRegion {
                offset,
                length,
                region: self.len(),
            }),
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // In the child of a fork a thread may hold a lock for ever that does not exist there.
        if !self.process.is_forked() {
            self.regions.withdraw(self.handle.region);
        }
    }
}

/// Why there is no region.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// The node's own call failed.
    #[error(transparent)]
    Node(#[from] Error),
    /// There is no memory for it.
    #[error("no memory for a region of {bytes} bytes: allocate less")]
    TooLarge {
        /// Bytes that were asked for.
        bytes: usize,
    },
    /// The node has as many regions as it may.
    #[error(transparent)]
    TooMany(#[from] TooManyRegions),
}

/// The bytes are not in the region, or the integer is not aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{length} bytes at offset {offset} of a region of {region} bytes: stay within it; integers begin at multiples of their width"
)]
pub struct OutOfRegion {
    /// The offset.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
    /// Bytes of the region.
    pub region: u64,
}

impl Node {
    /// Allocates memory that other nodes read and change, as far as they have `rights`.
    ///
    /// # Errors
    /// [`RegionError`].
    pub fn allocate_region(&self, bytes: usize, rights: Rights) -> Result<Region, RegionError> {
        self.enter_open()?;
        Region::allocate(&self.fixed, bytes, rights)
    }

    /// The program's one-sided operations on memory of other nodes, and of this one.
    pub fn remote(&mut self) -> Remote<'_> {
        Remote {
            node: self,
            limit: LIMIT,
        }
    }
}

impl SharedNode {
    /// Allocates memory that other nodes read and change, as far as they have `rights`.
    ///
    /// # Errors
    /// [`RegionError`].
    pub fn allocate_region(&self, bytes: usize, rights: Rights) -> Result<Region, RegionError> {
        Region::allocate(self.fixed(), bytes, rights)
    }
}

/// One-sided operations of a program: [`Node::remote`].
///
/// Operations at one target are applied in the order of the calls, with one exception: bytes of a
/// long put may become visible before those of an earlier one. A [fence](Remote::fence) prevents
/// it. Operations at several targets have no order.
///
/// The calls without a result ([`put`](Remote::put), [`atomic`](Remote::atomic)) return at once
/// and, while the queue to the target is full, wait for room. [`quiet`](Remote::quiet) waits until
/// the targets have applied all of them and reports the first failure. Others wait for their result
/// unless their name says `begin`.
///
/// No call waits longer than a [limit](Remote::limit). If the session with the target ends, or its
/// process is known to have died, open operations fail at once; whether the target applied them is
/// unknown then.
pub struct Remote<'a> {
    node: &'a mut Node,
    limit: Duration,
}

impl std::fmt::Debug for Remote<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl Remote<'_> {
    /// Sets the time that a call may take; one minute unless set.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    // ---- puts

    /// Writes `data` to `offset` of a region. The payload is held, not copied, until it was sent.
    ///
    /// # Errors
    /// [`RemoteFailure`]; one of the target is reported by [`quiet`](Self::quiet).
    pub fn put(
        &mut self,
        to: &RemoteRegion,
        offset: u64,
        data: impl Into<Bytes>,
    ) -> Result<(), RemoteFailure> {
        let data = data.into();
        let layout = Layout::contiguous(offset, data.len() as u64);
        self.put_layout(to, layout.map_err(BeginError::from)?, data, None)
    }

    /// As [`put`](Self::put), and updates a 64-bit integer of the region once the data is there.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_signal(
        &mut self,
        to: &RemoteRegion,
        offset: u64,
        data: impl Into<Bytes>,
        signal: Signal,
    ) -> Result<(), RemoteFailure> {
        let data = data.into();
        let layout = Layout::contiguous(offset, data.len() as u64);
        self.put_layout(to, layout.map_err(BeginError::from)?, data, Some(signal))
    }

    /// As [`put_signal`](Self::put_signal), to the places of a [`Layout`]: strided or scattered.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_layout(
        &mut self,
        to: &RemoteRegion,
        layout: Layout,
        data: impl Into<Bytes>,
        signal: Option<Signal>,
    ) -> Result<(), RemoteFailure> {
        let data = data.into();
        let put =
            |initiator: &mut Initiator| initiator.put(to, layout.clone(), data.clone(), signal);
        self.begin(to.node, put)
    }

    // ---- gets

    /// Reads the bytes at `offset` of a region. Blocks until they are there.
    ///
    /// # Errors
    /// [`RemoteFailure`]; the content of `into` is unspecified then.
    pub fn get(
        &mut self,
        from: &RemoteRegion,
        offset: u64,
        into: &mut [u8],
    ) -> Result<(), RemoteFailure> {
        let layout = Layout::contiguous(offset, into.len() as u64);
        self.get_layout(from, layout.map_err(BeginError::from)?, into)
    }

    /// As [`get`](Self::get), from the places of a [`Layout`]: strided or gathered.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_layout(
        &mut self,
        from: &RemoteRegion,
        layout: Layout,
        into: &mut [u8],
    ) -> Result<(), RemoteFailure> {
        let given = Layout::contiguous(0, into.len() as u64).map_err(BeginError::from)?;
        // Whatever happens, nothing touches the buffer once this call is over.
        let lent = LentSlice::new(into);
        let begin = |initiator: &mut Initiator| {
            let (memory, layout) = (lent.memory(), layout.clone());
            let into = Destination {
                memory,
                layout: given.clone(),
            };
            initiator.get(from, layout, into)
        };
        let operation = self.begin(from.node, begin)?;
        self.wait_or_cancel(operation)?;
        Ok(())
    }

    /// Begins to read bytes into a region of this node. [`wait`](Self::wait) says when they are
    /// there.
    ///
    /// # Errors
    /// [`RemoteFailure`].
    pub fn begin_get(
        &mut self,
        from: &RemoteRegion,
        layout: Layout,
        into: &Region,
        at: Layout,
    ) -> Result<OperationId, RemoteFailure> {
        let begin = |initiator: &mut Initiator| {
            let memory = Arc::clone(&into.memory) as Arc<dyn Memory>;
            let into = Destination {
                memory,
                layout: at.clone(),
            };
            initiator.get(from, layout.clone(), into)
        };
        self.begin(from.node, begin)
    }

    // ---- atomic operations

    /// Applies an atomic operation to the integer at `offset`, without a result.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn atomic(
        &mut self,
        at: &RemoteRegion,
        offset: u64,
        width: Width,
        op: AtomicOp,
    ) -> Result<(), RemoteFailure> {
        self.begin(at.node, |initiator| initiator.atomic(at, offset, width, op))
    }

    /// Applies an atomic operation to the integer at `offset`, and blocks until its value from
    /// before is there.
    ///
    /// # Errors
    /// [`RemoteFailure`].
    pub fn fetch_atomic(
        &mut self,
        at: &RemoteRegion,
        offset: u64,
        width: Width,
        op: AtomicOp,
    ) -> Result<u64, RemoteFailure> {
        let operation = self.begin_fetch_atomic(at, offset, width, op)?;
        Ok(self.wait_or_cancel(operation)?.unwrap_or(0))
    }

    /// Begins a [`fetch_atomic`](Self::fetch_atomic). [`wait`](Self::wait) returns its result.
    ///
    /// # Errors
    /// [`RemoteFailure`].
    pub fn begin_fetch_atomic(
        &mut self,
        at: &RemoteRegion,
        offset: u64,
        width: Width,
        op: AtomicOp,
    ) -> Result<OperationId, RemoteFailure> {
        self.begin(at.node, |initiator| {
            initiator.fetch_atomic(at, offset, width, op)
        })
    }

    /// Adds to a 64-bit integer. Returns it as it was before.
    ///
    /// # Errors
    /// [`RemoteFailure`].
    pub fn fetch_add(
        &mut self,
        at: &RemoteRegion,
        offset: u64,
        operand: u64,
    ) -> Result<u64, RemoteFailure> {
        self.fetch_atomic(at, offset, Width::Bits64, AtomicOp::Add(operand))
    }

    /// Writes `new` to a 64-bit integer if it is `expected`. Returns it as it was before.
    ///
    /// # Errors
    /// [`RemoteFailure`].
    pub fn compare_swap(
        &mut self,
        at: &RemoteRegion,
        offset: u64,
        expected: u64,
        new: u64,
    ) -> Result<u64, RemoteFailure> {
        let op = AtomicOp::CompareSwap { expected, new };
        self.fetch_atomic(at, offset, Width::Bits64, op)
    }

    // ---- order and completion

    /// Orders operations at one target: nothing of a later one becomes visible before all earlier
    /// ones are applied. Sends nothing and waits for nothing.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Forked`].
    pub fn fence(&mut self, node: NodeId) -> Result<(), RemoteFailure> {
        let driver = self.node.enter_to_send()?;
        driver.places.remote().initiator.fence(node);
        Ok(())
    }

    /// Blocks until all earlier operations at all targets were applied.
    ///
    /// # Errors
    /// [`RemoteFailure::Operation`]: the first failure since the last call of this.
    pub fn quiet(&mut self) -> Result<(), RemoteFailure> {
        let mut driver = self.node.enter_to_send()?;
        let operation = driver.places.remote().initiator.quiet()?;
        driver.serve_remote();
        driver.send_on();
        drop(driver);
        self.wait_or_cancel(operation)?;
        Ok(())
    }

    /// Blocks until an operation that was begun is complete. Returns the result of an atomic
    /// operation. Each operation is waited for, or [tested](Self::test), once.
    ///
    /// # Errors
    /// [`RemoteFailure::Operation`]; [`Error::TimedOut`], after which it is still open.
    pub fn wait(&mut self, operation: OperationId) -> Result<Option<u64>, RemoteFailure> {
        match self.result_within(operation)? {
            Some(result) => Ok(result?),
            None => Err(self.timed_out()),
        }
    }

    /// Returns the result of an operation that was begun, if it is complete. Polls the socket.
    ///
    /// # Errors
    /// [`RemoteFailure`].
    pub fn test(&mut self, operation: OperationId) -> Result<Option<Option<u64>>, RemoteFailure> {
        let mut driver = self.node.enter_to_send()?;
        driver.run_cycle()?;
        let mut layer = driver.places.remote();
        match layer.take(operation) {
            Some(result) => Ok(Some(result?)),
            None if layer.initiator.awaited(operation).is_none() => Err(RemoteFailure::Taken),
            None => Ok(None),
        }
    }

    // ---- inside

    /// Begins an operation, as soon as there is room, and sends it.
    fn begin<T>(
        &mut self,
        to: NodeId,
        mut begin: impl FnMut(&mut Initiator) -> Result<T, BeginError>,
    ) -> Result<T, RemoteFailure> {
        let (deadline, wait) = (Deadline::after(self.limit), self.node.fixed.wait);
        let timed_out = self.timed_out();
        let mut driver = self.node.enter_to_send()?;
        match driver.engine.member_state(to) {
            None => return Err(Error::UnknownPeer(to).into()),
            Some(state) if state.suspended_here => return Err(RemoteFailure::Suspended(to)),
            Some(_) => {}
        }
        driver.read_clock();
        loop {
            let mut layer = driver.places.remote();
            layer.check_results()?;
            let begun = begin(&mut layer.initiator);
            drop(layer);
            match begun {
                Ok(begun) => {
                    driver.serve_remote();
                    driver.send_on();
                    return Ok(begun);
                }
                Err(BeginError::QueueFull) if deadline.is_over() => return Err(timed_out),
                Err(BeginError::QueueFull) => wait_for_progress(&mut driver, deadline, wait)?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for an operation; cancels it if that takes too long or fails.
    fn wait_or_cancel(&mut self, operation: OperationId) -> Result<Option<u64>, RemoteFailure> {
        let result = self.result_within(operation);
        if !matches!(result, Ok(Some(_))) {
            let mut layer = self.node.places().remote();
            layer.initiator.cancel(operation);
            layer.take(operation);
        }
        match result? {
            Some(result) => Ok(result?),
            None => Err(self.timed_out()),
        }
    }

    /// Waits for the result of an operation. After a while its targets are watched.
    fn result_within(&mut self, operation: OperationId) -> Result<Option<Outcome>, RemoteFailure> {
        let deadline = Deadline::after(self.limit);
        let wait = self.node.fixed.wait;
        let mut driver = self.node.enter_to_send()?;
        let mut take = |driver: &mut crate::driver::Driver| driver.places.remote().take(operation);
        if let Some(result) = take(&mut driver) {
            return Ok(Some(result));
        }
        let targets = driver.places.remote().initiator.awaited(operation);
        let targets = targets.ok_or(RemoteFailure::Taken)?;
        let soon = deadline.earlier(Deadline::after(WATCH_AFTER));
        let result = wait_to_take(&mut driver, soon, wait, &mut take)?;
        if result.is_some() || deadline.is_over() {
            return Ok(result);
        }
        watch(&mut driver, &targets, true);
        let result = wait_to_take(&mut driver, deadline, wait, &mut take);
        watch(&mut driver, &targets, false);
        Ok(result?)
    }

    fn timed_out(&self) -> RemoteFailure {
        Error::TimedOut {
            what: "a one-sided operation",
            limit: self.limit,
        }
        .into()
    }
}

fn watch(driver: &mut DriverGuard<'_>, nodes: &[NodeId], on: bool) {
    let now = driver.read_clock();
    for node in nodes {
        driver.engine.await_member(now, *node, on);
    }
}
