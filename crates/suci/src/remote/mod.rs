//! One-sided operations: a node reads and changes memory of another one without that node's
//! program.

mod host;
mod mapped;
mod memory;
mod region;

pub use host::RemoteNode;
pub use mapped::MappedRegion;
pub use region::{OutOfRegion, Region, RegionError};
pub use suci_layers::remote::{
    AtomicOp, BeginError, Cause, Extent, InvalidLayout, Layout, OperationError, RegionId,
    RemoteError, RemoteErrorKind, RemoteRegion, Rights, Signal, SignalUpdate, TooManyContexts,
    Width,
};

pub(crate) use host::RemoteHost;

use crate::clock::Deadline;
use crate::error::Error;
use crate::lent::Loan;
use crate::node::Node;
use crate::shared_memory::{Mapped, order_reads};
use bytes::Bytes;
use memory::Allocated;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use suci_layers::remote::{Context, Destination, Initiator, Layer, Memory, OperationId, Outcome};
use suci_proto::types::NodeId;

/// Time that an operation may take unless [`Remote::limit`] sets another.
const LIMIT: Duration = Duration::from_secs(60);

/// A call that waits for longer has its target watched: it counts as lost if it is silent.
const WATCH_AFTER: Duration = Duration::from_secs(1);

/// Why one-sided operations on a node cannot go on.
#[derive(thiserror::Error)]
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
    /// There is no context for [`Remote::context`].
    #[error(transparent)]
    TooManyContexts(#[from] TooManyContexts),
    /// The operation is neither open nor waits to be taken.
    #[error("the result was taken before, or the operation's context closed: wait for it once")]
    Taken,
}

/// An operation that was begun and completes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PendingOperation {
    /// The index of the layer that has it.
    pub(crate) layer: usize,
    pub(crate) id: OperationId,
}

/// One-sided operations of a program: [`Node::remote`],
/// [`SharedNode::remote`](crate::SharedNode::remote).
///
/// Several threads may use that of a `SharedNode` at the same time. A `fence` or `quiet` of one
/// thread covers the operations that any of them began before it. All values that a node returns
/// cover the same operations; a [context](Remote::context) has operations of its own.
///
/// Operations at one target are applied in the order of the calls, with one exception: bytes of a
/// long put may become visible before those of an earlier one. A [fence](Remote::fence) prevents
/// it. Operations at several targets have no order.
///
/// The calls without a result ([`put`](Remote::put), [`atomic`](Remote::atomic)) return at once
/// and, while the queue to the target is full, wait for room. After many in quick succession the
/// next ones of a [`Node`] wait for its next call, or for 2 ms, as its messages do, and leave
/// together. [`quiet`](Remote::quiet) waits until the targets have applied all of them and reports
/// the first failure. Others wait for their result unless their name says `begin`.
///
/// No call waits longer than a [limit](Remote::limit). If the session with the target ends, or its
/// process is known to have died, open operations fail at once; whether the target applied them is
/// unknown then.
pub struct Remote<'a, N = Node> {
    node: &'a N,
    limit: Duration,
    /// The own context at each layer; none if it is the node's.
    contexts: Vec<Context>,
}

impl<N> std::fmt::Debug for Remote<'_, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote")
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl PendingOperation {
    /// Returns the operation as two numbers, for bindings to other languages.
    #[must_use]
    pub const fn to_raw(self) -> (u64, u32) {
        // A node has far fewer threads.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "layers are as many as threads"
        )]
        (self.id.0, self.layer as u32)
    }

    /// Returns the operation of two numbers. Numbers of no operation, or of one whose result was
    /// taken, are [`RemoteFailure::Taken`] for [`Remote::wait`].
    #[must_use]
    pub const fn from_raw((id, layer): (u64, u32)) -> Self {
        Self {
            layer: layer as usize,
            id: OperationId(id),
        }
    }
}

impl<'a, N: RemoteNode> Remote<'a, N> {
    pub(crate) const fn new(node: &'a N) -> Self {
        Self {
            node,
            limit: LIMIT,
            contexts: Vec::new(),
        }
    }

    /// Opens a context, whose `fence` and `quiet` cover its operations alone. It has the limit of
    /// this value.
    ///
    /// # Errors
    /// [`RemoteFailure::TooManyContexts`], [`Error::Closed`], [`Error::Forked`].
    pub fn context(&self) -> Result<RemoteContext<'a, N>, RemoteFailure> {
        let context = self.open_context()?;
        let remote = Self::new(self.node).limit(self.limit).within(&context);
        Ok(RemoteContext { remote })
    }

    /// As [`context`](Self::context), for bindings to other languages: the result borrows nothing.
    /// It is in use until [`close_context`](Self::close_context).
    ///
    /// # Errors
    /// As [`context`](Self::context).
    pub fn open_context(&self) -> Result<OpenContext, RemoteFailure> {
        self.node.check_open()?;
        let mut context = OpenContext(Vec::new());
        for layer in 0..self.node.layers() {
            let opened = self.node.layer(layer).open_context();
            match opened {
                Ok(opened) => context.0.push(opened),
                Err(error) => {
                    self.close_context(&context);
                    return Err(error.into());
                }
            }
        }
        Ok(context)
    }

    /// The operations of a context that this node opened.
    #[must_use]
    pub fn within(mut self, context: &OpenContext) -> Self {
        self.contexts.clone_from(&context.0);
        self
    }

    /// Closes a context, as dropping a [`RemoteContext`] does.
    pub fn close_context(&self, context: &OpenContext) {
        for (layer, context) in context.0.iter().enumerate() {
            // In the child of a fork a thread may hold the lock for ever that does not exist there.
            if self.node.check_open().is_ok() {
                self.node.layer(layer).close_context(*context);
                // Nothing is sent if the node is closed meanwhile.
                _ = self.node.send_requests(layer);
            }
        }
    }

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
        &self,
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
        &self,
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
        &self,
        to: &RemoteRegion,
        layout: Layout,
        data: impl Into<Bytes>,
        signal: Option<Signal>,
    ) -> Result<(), RemoteFailure> {
        let data = data.into();
        match self.put_directly(to, &layout, &data, signal)? {
            true => Ok(()),
            false => self.send_put(to, &layout, &data, signal),
        }
    }

    /// As [`put`](Self::put) or [`put_signal`](Self::put_signal), of bytes that the caller may
    /// change when this returns. They are copied: if this process has [mapped](Self::map) the
    /// region, once to their place.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn put_slice(
        &self,
        to: &RemoteRegion,
        offset: u64,
        data: &[u8],
        signal: Option<Signal>,
    ) -> Result<(), RemoteFailure> {
        let layout = Layout::contiguous(offset, data.len() as u64).map_err(BeginError::from)?;
        match self.put_directly(to, &layout, data, signal)? {
            true => Ok(()),
            false => self.send_put(to, &layout, &Bytes::copy_from_slice(data), signal),
        }
    }

    fn send_put(
        &self,
        to: &RemoteRegion,
        layout: &Layout,
        data: &Bytes,
        signal: Option<Signal>,
    ) -> Result<(), RemoteFailure> {
        let put =
            |initiator: &mut Initiator| initiator.put(to, layout.clone(), data.clone(), signal);
        self.begin(to.node, data.len(), put)
    }

    // ---- gets

    /// Reads the bytes at `offset` of a region. Blocks until they are there.
    ///
    /// # Errors
    /// [`RemoteFailure`]; the content of `into` is unspecified then.
    pub fn get(
        &self,
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
        &self,
        from: &RemoteRegion,
        layout: Layout,
        into: &mut [u8],
    ) -> Result<(), RemoteFailure> {
        let directly = |mapped: &Mapped| mapped.get(&layout, into).then_some(());
        if self.directly(from, false, directly)?.is_some() {
            return Ok(());
        }
        let given = Layout::contiguous(0, into.len() as u64).map_err(BeginError::from)?;
        // Whatever happens, nothing touches the buffer once this call is over.
        let mut loan = Loan::new(into);
        let begin = |initiator: &mut Initiator| {
            let (memory, layout) = (loan.lend(), layout.clone());
            let into = Destination {
                memory,
                layout: given.clone(),
            };
            initiator.get(from, layout, into)
        };
        let deadline = Deadline::after(self.limit);
        let operation = self.begin_pending(from.node, begin)?;
        self.wait_or_cancel(operation, deadline)?;
        Ok(())
    }

    /// Begins to read bytes into a region of this node. [`wait`](Self::wait) says when they are
    /// there.
    ///
    /// # Errors
    /// [`RemoteFailure`].
    pub fn begin_get(
        &self,
        from: &RemoteRegion,
        layout: Layout,
        into: &Region,
        at: Layout,
    ) -> Result<PendingOperation, RemoteFailure> {
        let into = Destination {
            memory: into.memory(),
            layout: at,
        };
        let directly = |mapped: &Mapped| mapped.get_into(&layout, &into).then_some(());
        if self.directly(from, false, directly)?.is_some() {
            return self.complete_direct(from.node, None);
        }
        let begin = |initiator: &mut Initiator| initiator.get(from, layout.clone(), into.clone());
        self.begin_pending(from.node, begin)
    }

    // ---- atomic operations

    /// Applies an atomic operation to the integer at `offset`, without a result.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    pub fn atomic(
        &self,
        at: &RemoteRegion,
        offset: u64,
        width: Width,
        op: AtomicOp,
    ) -> Result<(), RemoteFailure> {
        let directly = |mapped: &Mapped| mapped.atomic(offset, width, op);
        if self.directly(at, true, directly)?.is_some() {
            return Ok(());
        }
        let atomic = |initiator: &mut Initiator| initiator.atomic(at, offset, width, op);
        self.begin(at.node, 0, atomic)
    }

    /// Applies an atomic operation to the integer at `offset`, and blocks until its value from
    /// before is there.
    ///
    /// # Errors
    /// [`RemoteFailure`].
    pub fn fetch_atomic(
        &self,
        at: &RemoteRegion,
        offset: u64,
        width: Width,
        op: AtomicOp,
    ) -> Result<u64, RemoteFailure> {
        let directly = |mapped: &Mapped| mapped.atomic(offset, width, op);
        if let Some(before) = self.directly(at, false, directly)? {
            return Ok(before);
        }
        let deadline = Deadline::after(self.limit);
        let operation = self.begin_pending(at.node, |initiator| {
            initiator.fetch_atomic(at, offset, width, op)
        })?;
        Ok(self.wait_or_cancel(operation, deadline)?.unwrap_or(0))
    }

    /// Begins a [`fetch_atomic`](Self::fetch_atomic). [`wait`](Self::wait) returns its result.
    ///
    /// # Errors
    /// [`RemoteFailure`].
    pub fn begin_fetch_atomic(
        &self,
        at: &RemoteRegion,
        offset: u64,
        width: Width,
        op: AtomicOp,
    ) -> Result<PendingOperation, RemoteFailure> {
        let directly = |mapped: &Mapped| mapped.atomic(offset, width, op);
        if let Some(before) = self.directly(at, false, directly)? {
            return self.complete_direct(at.node, Some(before));
        }
        self.begin_pending(at.node, |initiator| {
            initiator.fetch_atomic(at, offset, width, op)
        })
    }

    /// Adds to a 64-bit integer. Returns it as it was before.
    ///
    /// # Errors
    /// [`RemoteFailure`].
    pub fn fetch_add(
        &self,
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
        &self,
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
    pub fn fence(&self, node: NodeId) -> Result<(), RemoteFailure> {
        self.node.check_open()?;
        let index = self.node.layer_of(node);
        let mut layer = self.node.layer(index);
        layer.initiator_of(self.context_at(index)).fence(node);
        Ok(())
    }

    /// Blocks until all earlier operations at all targets were applied.
    ///
    /// # Errors
    /// [`RemoteFailure::Operation`]: the first failure since the last call of this.
    pub fn quiet(&self) -> Result<(), RemoteFailure> {
        let deadline = Deadline::after(self.limit);
        let wait = |begun: Result<_, RemoteFailure>| self.wait_or_cancel(begun?, deadline);
        // All are awaited whichever fails.
        let results: Vec<_> = self.begin_quiet()?.into_iter().map(wait).collect();
        results.into_iter().try_for_each(|result| result.map(drop))
    }

    /// Begins to wait at each layer until all earlier operations were applied.
    pub(crate) fn begin_quiet(
        &self,
    ) -> Result<Vec<Result<PendingOperation, RemoteFailure>>, RemoteFailure> {
        self.node.check_open()?;
        let begin = |index| {
            self.settle_direct(index);
            let mut layer = self.node.layer(index);
            let id = layer.initiator_of(self.context_at(index)).quiet()?;
            let has_output = layer.has_output();
            drop(layer);
            if has_output {
                self.node.send_requests(index)?;
            }
            Ok(PendingOperation { layer: index, id })
        };
        Ok((0..self.node.layers()).map(begin).collect())
    }

    /// Blocks until an operation that was begun is complete. Returns the result of an atomic
    /// operation. Each operation is waited for, or [tested](Self::test), once.
    ///
    /// # Errors
    /// [`RemoteFailure::Operation`]; [`Error::TimedOut`], after which it is still open.
    pub fn wait(&self, operation: PendingOperation) -> Result<Option<u64>, RemoteFailure> {
        match self.result_until(operation, Deadline::after(self.limit))? {
            Some(result) => Ok(result?),
            None => Err(self.timed_out()),
        }
    }

    /// Returns the result of an operation that was begun, if it is complete. A
    /// [`Node`] polls its socket.
    ///
    /// # Errors
    /// [`RemoteFailure`].
    pub fn test(&self, operation: PendingOperation) -> Result<Option<Option<u64>>, RemoteFailure> {
        self.node.turn()?;
        match self.take(operation)? {
            Some(result) => Ok(Some(result?)),
            None => Ok(None),
        }
    }

    // ---- inside

    /// The context of the operations at a layer.
    pub(crate) fn context_at(&self, layer: usize) -> Context {
        self.contexts.get(layer).copied().unwrap_or_default()
    }

    // ---- shared memory

    /// Returns a region of another process of this machine as memory of this process, if both share
    /// memory ([`NodeBuilder::shared_memory`](crate::NodeBuilder::shared_memory)) and have a
    /// session. It takes a few system calls; less than a second, if the other process is stopped.
    ///
    /// # Errors
    /// [`RemoteFailure`].
    pub fn map(&self, region: &RemoteRegion) -> Result<Option<MappedRegion>, RemoteFailure> {
        self.node.check_target(region.node)?;
        Ok(self.mapped(region).map(MappedRegion))
    }

    fn mapped(&self, region: &RemoteRegion) -> Option<Arc<Mapped>> {
        let memory = self.node.shared_memory()?;
        memory.region(region, || self.node.process_of(region.node))
    }

    /// Applies an operation to the memory of a region, if this process has mapped it and the
    /// operation would not overtake earlier ones. Returns nothing if the target must apply it. A
    /// quiet covers operations that have `changes` and no result.
    fn directly<T>(
        &self,
        at: &RemoteRegion,
        changes: bool,
        apply: impl FnOnce(&Mapped) -> Option<T>,
    ) -> Result<Option<T>, RemoteFailure> {
        if self.node.shared_memory().is_none() {
            return Ok(None);
        }
        self.node.check_target(at.node)?;
        let Some(mapped) = self.mapped(at) else {
            return Ok(None);
        };
        let index = self.node.layer_of(at.node);
        let mut layer = self.node.layer(index);
        let initiator = layer.initiator_of(self.context_at(index));
        let is_next = initiator.begin_direct(at.node, changes);
        drop(layer);
        Ok(is_next.then(|| apply(&mapped)).flatten())
    }

    /// Applies a put directly, if that may be. Returns true if it did.
    fn put_directly(
        &self,
        to: &RemoteRegion,
        layout: &Layout,
        data: &[u8],
        signal: Option<Signal>,
    ) -> Result<bool, RemoteFailure> {
        let directly = |mapped: &Mapped| mapped.put(layout, data, signal).then_some(());
        Ok(self.directly(to, true, directly)?.is_some())
    }

    /// Returns an operation that is complete.
    fn complete_direct(
        &self,
        target: NodeId,
        result: Option<u64>,
    ) -> Result<PendingOperation, RemoteFailure> {
        let index = self.node.layer_of(target);
        let mut layer = self.node.layer(index);
        layer.check_results()?;
        let initiator = layer.initiator_of(self.context_at(index));
        let id = initiator.complete_direct(target, result)?;
        Ok(PendingOperation { layer: index, id })
    }

    /// Makes the changes visible that this process applied itself, and sees whether the processes
    /// still run that have them.
    fn settle_direct(&self, index: usize) {
        let Some(memory) = self.node.shared_memory() else {
            return;
        };
        order_reads();
        let context = self.context_at(index);
        let targets = self
            .node
            .layer(index)
            .initiator_of(context)
            .direct_targets();
        for target in targets {
            let runs = memory.runs(target);
            let mut layer = self.node.layer(index);
            layer.initiator_of(context).settle_direct(target, runs);
        }
    }

    /// Begins an operation that sends this many bytes of data, as soon as there is room. Has it
    /// sent.
    fn begin<T>(
        &self,
        to: NodeId,
        bytes: usize,
        mut begin: impl FnMut(&mut Initiator) -> Result<T, BeginError>,
    ) -> Result<T, RemoteFailure> {
        let context = self.context_at(self.node.layer_of(to));
        let unless_full_of_results = |layer: &mut Layer| {
            layer.check_results()?;
            begin(layer.initiator_of(context))
        };
        let deadline = Deadline::after(self.limit);
        let begun = self
            .node
            .begin(to, bytes, deadline, unless_full_of_results)?;
        begun.ok_or_else(|| self.timed_out())
    }

    /// Begins an operation with a result.
    fn begin_pending(
        &self,
        to: NodeId,
        begin: impl FnMut(&mut Initiator) -> Result<OperationId, BeginError>,
    ) -> Result<PendingOperation, RemoteFailure> {
        let (layer, id) = (self.node.layer_of(to), self.begin(to, 0, begin)?);
        Ok(PendingOperation { layer, id })
    }

    /// Takes the result of an operation, if it is complete.
    pub(crate) fn take(
        &self,
        operation: PendingOperation,
    ) -> Result<Option<Outcome>, RemoteFailure> {
        if operation.layer >= self.node.layers() {
            return Err(RemoteFailure::Taken);
        }
        take_result(&mut self.node.layer(operation.layer), operation.id)
    }

    /// Waits for an operation; cancels it if that takes too long or fails.
    fn wait_or_cancel(
        &self,
        operation: PendingOperation,
        deadline: Deadline,
    ) -> Result<Option<u64>, RemoteFailure> {
        let result = self.result_until(operation, deadline);
        if !matches!(result, Ok(Some(_))) {
            self.cancel(operation);
        }
        match result? {
            Some(result) => Ok(result?),
            None => Err(self.timed_out()),
        }
    }

    /// Gives an operation up; nobody takes its result.
    pub(crate) fn cancel(&self, operation: PendingOperation) {
        let mut layer = self.node.layer(operation.layer);
        let initiator = layer.initiator_of(operation.id.context());
        initiator.cancel(operation.id);
        layer.take(operation.id);
    }

    /// Returns the node.
    pub(crate) const fn node(&self) -> &'a N {
        self.node
    }

    /// Returns the nodes whose replies an operation awaits.
    pub(crate) fn targets(&self, operation: PendingOperation) -> Vec<NodeId> {
        let targets = self.node.layer(operation.layer).awaited(operation.id);
        targets.unwrap_or_default()
    }

    /// Waits for the result of an operation. After a while its targets are watched.
    fn result_until(
        &self,
        operation: PendingOperation,
        deadline: Deadline,
    ) -> Result<Option<Outcome>, RemoteFailure> {
        self.node.check_open()?;
        if let Some(result) = self.take(operation)? {
            return Ok(Some(result));
        }
        let soon = deadline.earlier(Deadline::after(WATCH_AFTER));
        let result = self.node.await_result(operation, soon)?;
        if result.is_some() || deadline.is_over() {
            return Ok(result);
        }
        let targets = self.targets(operation);
        self.node.watch(&targets, true)?;
        let result = self.node.await_result(operation, deadline);
        self.node.watch(&targets, false)?;
        result
    }

    fn timed_out(&self) -> RemoteFailure {
        Error::TimedOut {
            what: "a one-sided operation",
            limit: self.limit,
        }
        .into()
    }
}

/// Takes the result of an operation of a layer, if it is complete. Fails if it gets none any more.
pub(crate) fn take_result(
    layer: &mut Layer,
    operation: OperationId,
) -> Result<Option<Outcome>, RemoteFailure> {
    match layer.take(operation) {
        None if !layer.is_open(operation) => Err(RemoteFailure::Taken),
        result => Ok(result),
    }
}

/// Returns memory of the library for bytes that are read; nothing if there is none.
pub(crate) fn buffer(length: u64) -> Option<Arc<dyn Memory>> {
    let memory = Allocated::new(usize::try_from(length).ok()?)?;
    Some(Arc::new(memory))
}

/// One-sided operations apart from the others of the node: [`Remote::context`].
///
/// A fence or quiet of a context covers only operations that were begun on it: those of others
/// neither hold it up nor report their failures here. A node has up to 255 contexts.
///
/// Dropping a context gives up the operations that were begun and not waited for. Those without a
/// result are still applied, and their failures are not reported.
pub struct RemoteContext<'a, N: RemoteNode = Node> {
    remote: Remote<'a, N>,
}

impl<N: RemoteNode> std::fmt::Debug for RemoteContext<'_, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteContext")
            .field("remote", &self.remote)
            .finish()
    }
}

impl<'a, N: RemoteNode> Deref for RemoteContext<'a, N> {
    type Target = Remote<'a, N>;

    fn deref(&self) -> &Self::Target {
        &self.remote
    }
}

impl<N: RemoteNode> Drop for RemoteContext<'_, N> {
    fn drop(&mut self) {
        let contexts = std::mem::take(&mut self.remote.contexts);
        self.remote.close_context(&OpenContext(contexts));
    }
}

/// A context that a node opened: [`Remote::open_context`].
#[derive(Clone, Debug)]
pub struct OpenContext(Vec<Context>);
