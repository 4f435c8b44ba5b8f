//! The node that reads and changes memory of others.

use super::context::{Context, PART_BITS, is_unanswered};
use super::error::{BeginError, Cause, OperationError};
use super::layout::Layout;
use super::memory::{AtomicOp, Lent, Memory, Placement, Width};
use super::region::RegionId;
use super::wire::{Access, Action, REQUESTS, Reply, Request, Signal};
use super::{Body, Description, LONGEST_REPLY, PlaceDecision};
use crate::output::Output;
use bytes::Bytes;
use core::fmt;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use suci_proto::Outgoing;
use suci_proto::message::Held;
use suci_proto::types::NodeId;

/// Maximum number of operations that are open, or complete and not yet reported.
pub const MAX_OPERATIONS: usize = 65_536;

/// Requests to one node that may wait until they can be sent.
const MAX_QUEUED: usize = 4_096;

/// Bytes of data in these requests, beyond which no other is queued.
const MAX_QUEUED_BYTES: usize = 16 << 20;

/// Maximum number of requests of one get.
const MAX_PARTS: u64 = 1 << PART_BITS;

/// An operation that completes later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

impl OperationId {
    /// Returns the context of the operation.
    #[must_use]
    pub const fn context(self) -> Context {
        Context::of_operation(self.0)
    }
}

/// A region of another node, as that node's program told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteRegion {
    /// The node.
    pub node: NodeId,
    /// The region's number there.
    pub region: RegionId,
    /// The region's key.
    pub key: u64,
}

/// The memory that receives the bytes of a get.
#[derive(Clone)]
pub struct Destination {
    /// The memory. It is touched from the call until the operation completes or is cancelled.
    pub memory: Arc<dyn Memory>,
    /// The places of the bytes in it.
    pub layout: Layout,
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Destination")
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

/// The end of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationEnd {
    /// The operation.
    pub operation: OperationId,
    /// For an atomic operation the integer before it, for others `None`; or why it failed.
    pub result: Result<Option<u64>, OperationError>,
}

/// An open operation.
#[derive(Debug)]
enum Open {
    Put {
        node: NodeId,
    },
    Atomic {
        node: NodeId,
    },
    Get(Get),
    /// A flush or a quiet.
    Flush {
        /// The targets that did not answer yet.
        waiting: BTreeSet<NodeId>,
        /// The first failure of an earlier operation.
        failed: Option<OperationError>,
    },
}

#[derive(Debug)]
struct Get {
    node: NodeId,
    lent: Arc<Lent>,
    layout: Layout,
    /// Requests that were answered. Replies come in the order of the requests.
    answered: u64,
    failed: Option<OperationError>,
}

impl Get {
    fn parts(&self) -> u64 {
        parts(self.layout.total())
    }

    /// Returns the place of the bytes of a part, if it has `length` bytes.
    fn placement(&self, part: u64, length: u64) -> Option<Placement> {
        let base = part.checked_mul(LONGEST_REPLY as u64)?;
        let fits = part_length(self.layout.total(), part) == Some(length);
        let (lent, layout) = (Arc::clone(&self.lent), self.layout.clone());
        fits.then(|| Placement::new(lent, layout, base, length))
    }
}

/// Returns the number of requests for a get of `total` bytes.
fn parts(total: u64) -> u64 {
    total.div_ceil(LONGEST_REPLY as u64).max(1)
}

/// Returns the length of a part of a get of `total` bytes.
fn part_length(total: u64, part: u64) -> Option<u64> {
    let longest = LONGEST_REPLY as u64;
    let left = total.checked_sub(part.checked_mul(longest)?)?;
    (part < parts(total)).then_some(left.min(longest))
}

/// The state that the initiator keeps of one target.
#[derive(Debug, Default)]
struct TargetState {
    /// A request is not yet known to be applied.
    touched: bool,
    /// The last request is that of this flush, so that its reply says that all are applied.
    flush: Option<u64>,
    /// One of them asked for no reply.
    unanswered: bool,
    /// Flushes that were cancelled after their request was sent.
    cancelled: BTreeSet<u64>,
    /// A fence stands before the next request.
    fence: bool,
    /// The first failure that the next flush reports.
    failed: Option<OperationError>,
    /// The tag of the last request, until the target is known to have applied it.
    last: Option<u64>,
    /// This process itself changed memory of the target, and did not see since that the target's
    /// process still runs.
    direct: bool,
}

/// Begins one-sided operations and completes them.
///
/// Its driver calls [`transmit`](Self::transmit) after the program's calls and whenever the node
/// can send; [`place`](Self::place) for long messages of [`REPLIES`](super::REPLIES);
/// [`on_reply`](Self::on_reply) for each message of that channel in order;
/// [`undelivered`](Self::undelivered) for a request that the target's library refused;
/// [`ended`](Self::ended) when a session ended, after its last message. Then it polls
/// [`poll_completion`](Self::poll_completion).
#[derive(Debug, Default)]
pub struct Initiator {
    context: Context,
    /// The number of the last operation.
    last: u64,
    open: BTreeMap<u64, Open>,
    targets: BTreeMap<NodeId, TargetState>,
    output: Output,
    complete: VecDeque<OperationEnd>,
    stray_replies: u64,
}

impl Initiator {
    /// Returns an initiator without operations.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an initiator without operations, for those of a context. They are numbered from
    /// behind `last` on.
    #[must_use]
    pub fn of_context(context: Context, last: u64) -> Self {
        Self {
            context,
            last,
            ..Self::default()
        }
    }

    // ---- operations

    /// Writes `data` to a region. The target sends no reply; the next flush or quiet reports a
    /// failure. The data is held until it was sent. After all of it is there, the target applies
    /// the signal.
    ///
    /// # Errors
    /// [`BeginError`]
    pub fn put(
        &mut self,
        to: &RemoteRegion,
        layout: Layout,
        data: Bytes,
        signal: Option<Signal>,
    ) -> Result<(), BeginError> {
        let action = put_action(layout, &data, signal)?;
        self.check_queue(to.node)?;
        self.send_access(to, self.context.unanswered_tag(), action, data);
        Ok(())
    }

    /// As [`put`](Self::put); the operation completes when the target has applied it.
    ///
    /// # Errors
    /// [`BeginError`]
    pub fn put_answered(
        &mut self,
        to: &RemoteRegion,
        layout: Layout,
        data: Bytes,
        signal: Option<Signal>,
    ) -> Result<OperationId, BeginError> {
        let action = put_action(layout, &data, signal)?;
        self.check_queue(to.node)?;
        let id = self.begin(Open::Put { node: to.node })?;
        self.send_access(to, id.0 << PART_BITS, action, data);
        Ok(id)
    }

    /// Reads bytes of a region into memory of this node. The layouts at both ends may differ; the
    /// number of bytes must not. The operation completes when all bytes are there.
    ///
    /// # Errors
    /// [`BeginError`]; [`TooLong`](BeginError::TooLong) for more than [`LONGEST_REPLY`] bytes that
    /// are not contiguous at the target, or for more than 64 GiB.
    pub fn get(
        &mut self,
        from: &RemoteRegion,
        layout: Layout,
        into: Destination,
    ) -> Result<OperationId, BeginError> {
        let (total, given) = (layout.total(), into.layout.total());
        if total != given {
            let layout = total;
            return Err(BeginError::Length { layout, given });
        }
        if into.layout.end() > into.memory.len() {
            return Err(BeginError::Destination);
        }
        let pieces = split(&layout).ok_or(BeginError::TooLong)?;
        self.check_queue(from.node)?;
        let id = self.begin(Open::Get(Get {
            node: from.node,
            lent: Lent::new(into.memory),
            layout: into.layout,
            answered: 0,
            failed: None,
        }))?;
        for (part, layout) in (0..).zip(pieces) {
            let tag = id.0 << PART_BITS | part;
            self.send_access(from, tag, Action::Get { layout }, Bytes::new());
        }
        Ok(id)
    }

    /// Applies an atomic operation to an integer. The target sends no reply; the next flush or
    /// quiet reports a failure.
    ///
    /// # Errors
    /// [`BeginError`]
    pub fn atomic(
        &mut self,
        at: &RemoteRegion,
        offset: u64,
        width: Width,
        op: AtomicOp,
    ) -> Result<(), BeginError> {
        self.check_queue(at.node)?;
        let action = Action::Atomic { offset, width, op };
        self.send_access(at, self.context.unanswered_tag(), action, Bytes::new());
        Ok(())
    }

    /// As [`atomic`](Self::atomic); the operation completes with the integer before.
    ///
    /// # Errors
    /// [`BeginError`]
    pub fn fetch_atomic(
        &mut self,
        at: &RemoteRegion,
        offset: u64,
        width: Width,
        op: AtomicOp,
    ) -> Result<OperationId, BeginError> {
        self.check_queue(at.node)?;
        let id = self.begin(Open::Atomic { node: at.node })?;
        let action = Action::Atomic { offset, width, op };
        self.send_access(at, id.0 << PART_BITS, action, Bytes::new());
        Ok(id)
    }

    /// Orders operations at one target: nothing of a later one becomes visible there before all
    /// earlier ones are applied. Sends nothing and waits for nothing.
    pub fn fence(&mut self, node: NodeId) {
        if let Some(target) = self.targets.get_mut(&node) {
            target.fence = true;
        }
    }

    /// Begins an operation that completes when all earlier operations at `node` are applied and
    /// complete. It fails with the first failure of those that asked for no reply.
    ///
    /// # Errors
    /// [`BeginError::TooManyOperations`]
    pub fn flush(&mut self, node: NodeId) -> Result<OperationId, BeginError> {
        self.flush_targets(&[node])
    }

    /// [`flush`](Self::flush) at every target that may not have applied everything.
    ///
    /// # Errors
    /// [`BeginError::TooManyOperations`]
    pub fn quiet(&mut self) -> Result<OperationId, BeginError> {
        let nodes: Vec<_> = self.targets.keys().copied().collect();
        self.flush_targets(&nodes)
    }

    /// Gives an operation up: it completes with [`Cause::Cancelled`], and the memory of a get is
    /// not touched any more. The target may apply it all the same. Returns false if the operation
    /// is complete.
    pub fn cancel(&mut self, operation: OperationId) -> bool {
        let Some(open) = self.open.get(&operation.0) else {
            return false;
        };
        let node = open.nodes().first().copied();
        let error = node.map(|node| OperationError::new(node, Cause::Cancelled));
        if let Open::Flush {
            failed: Some(error),
            ..
        } = *open
        {
            // The next flush reports it.
            let target = self.targets.entry(error.node).or_default();
            add_failure(&mut target.failed, error);
        }
        let is_flush = matches!(open, Open::Flush { .. });
        for node in open.nodes() {
            let of_this = |message: &Outgoing| split_tag(message.tag).0 == operation.0;
            let behind = self.output.behind(node, of_this).filter(|_| !is_flush);
            let has_next = behind.map(fence_before).is_some();
            let unsent = self.output.remove(node, of_this);
            let Some(target) = self.targets.get_mut(&node) else {
                continue;
            };
            if !is_flush {
                // A fence before a request that is not sent stands before the next one.
                target.fence |= unsent && !has_next;
                continue;
            }
            if !unsent {
                target.cancelled.insert(operation.0);
            } else if target.flush == Some(operation.0) {
                target.flush = None;
            }
        }
        error.is_some_and(|error| self.complete(operation.0, Err(error)))
    }

    /// Gives all open operations up, as [`cancel`](Self::cancel) does.
    pub fn cancel_all(&mut self) {
        let open: Vec<_> = self.open.keys().copied().map(OperationId).collect();
        for operation in open {
            self.cancel(operation);
        }
    }

    /// Returns the nodes whose replies an operation awaits; `None` if it is not open.
    #[must_use]
    pub fn awaited(&self, operation: OperationId) -> Option<Vec<NodeId>> {
        self.open.get(&operation.0).map(Open::nodes)
    }

    /// Returns true if an operation is open.
    #[must_use]
    pub fn is_open(&self, operation: OperationId) -> bool {
        self.open.contains_key(&operation.0)
    }

    /// The number of the last operation, without its context.
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    /// Returns the next operation that completed. Until it was returned, an operation counts
    /// against [`MAX_OPERATIONS`].
    pub fn poll_completion(&mut self) -> Option<OperationEnd> {
        self.complete.pop_front()
    }

    // ---- operations that this process applies itself

    /// Returns true if the target is known to have applied all requests, so that an operation that
    /// this process applies itself to the target's memory comes after them. If it `changes` the
    /// memory, the next quiet covers it.
    pub fn begin_direct(&mut self, node: NodeId, changes: bool) -> bool {
        if let Some(target) = self.targets.get_mut(&node) {
            target.direct |= changes && target.last.is_none();
            return target.last.is_none();
        }
        if changes {
            let direct = TargetState {
                direct: true,
                ..TargetState::default()
            };
            self.targets.insert(node, direct);
        }
        true
    }

    /// Completes an operation that this process applied itself.
    ///
    /// # Errors
    /// [`BeginError::TooManyOperations`]
    pub fn complete_direct(
        &mut self,
        node: NodeId,
        result: Option<u64>,
    ) -> Result<OperationId, BeginError> {
        let id = self.begin(Open::Atomic { node })?;
        self.complete(id.0, Ok(result));
        Ok(id)
    }

    /// Returns the targets whose memory this process changed itself since it last saw that they
    /// run.
    #[must_use]
    pub fn direct_targets(&self) -> Vec<NodeId> {
        let direct = self.targets.iter().filter(|(_, target)| target.direct);
        direct.map(|(node, _)| *node).collect()
    }

    /// Notes that the process of a target still runs, so that it has the changes; or that it does
    /// not seem to, so that the next quiet asks the target.
    pub fn settle_direct(&mut self, node: NodeId, runs: bool) {
        if let Some(target) = self.targets.get_mut(&node)
            && core::mem::take(&mut target.direct)
            && !runs
        {
            target.touched = true;
            target.unanswered = true;
        }
    }

    // ---- messages

    /// Gives the requests that wait to `send`, which returns false if it cannot take one now. Those
    /// to the same node then wait for the next call.
    pub fn transmit(&mut self, send: impl FnMut(NodeId, &Outgoing) -> bool) {
        self.output.transmit(send);
    }

    /// Returns true if requests wait for [`transmit`](Self::transmit).
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Returns the nodes that may not have all requests: none was answered since the last one.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = NodeId> {
        let targets = self.targets.iter();
        let some = targets.filter(|(_, target)| target.last.is_some());
        some.map(|(node, _)| *node)
    }

    /// Returns the requests to a node that wait to be sent.
    pub(super) fn waiting(&self, node: NodeId) -> Held {
        Held::new(
            self.output.count(node) as u64,
            self.output.bytes(node) as u64,
        )
    }

    /// Decides where the bytes of a message of [`REPLIES`](super::REPLIES) go, before they arrive.
    #[must_use]
    pub fn place(&self, from: NodeId, message: &Description<'_>) -> PlaceDecision {
        let reply = Reply::read(message.kind, message.user_header, message.total);
        let (number, part) = split_tag(message.tag);
        let placement = match (reply, self.open.get(&number)) {
            (Ok(Reply::Data), Some(Open::Get(get))) if get.node == from => {
                get.placement(part, message.total)
            }
            _ => None,
        };
        placement.map_or(PlaceDecision::Buffer, PlaceDecision::Direct)
    }

    /// Handles the next message of [`REPLIES`](super::REPLIES) of this node.
    pub fn on_reply(&mut self, from: NodeId, message: &Description<'_>, body: Body<'_>) {
        let reply = Reply::read(message.kind, message.user_header, message.total).ok();
        let (number, part) = split_tag(message.tag);
        let open = self.open.get_mut(&number);
        let open = open.filter(|open| open.awaits(from));
        if let Some(target) = self.targets.get_mut(&from) {
            // Requests are applied in their order.
            target.last.take_if(|last| *last == message.tag);
            if target.flush == Some(number) {
                target.flush = None;
                target.touched = false;
                target.unanswered = false;
            }
        }
        let Some(open) = open else {
            if let Some(target) = self.targets.get_mut(&from)
                && target.cancelled.remove(&number)
                && let Some(error) = flush_error(from, reply)
            {
                // The next flush reports what this one would have.
                add_failure(&mut target.failed, error);
            }
            self.stray_replies = self.stray_replies.saturating_add(1);
            return;
        };
        let invalid = OperationError::new(from, Cause::InvalidReply);
        let result = match (open, reply) {
            (Open::Flush { waiting, failed }, reply) => {
                waiting.remove(&from);
                // The failure that a cancelled flush did not report comes first.
                let target = self.targets.get_mut(&from);
                let earlier = target.and_then(|target| target.failed.take());
                if let Some(error) = earlier.or(flush_error(from, reply)) {
                    failed.get_or_insert(error);
                }
                waiting.is_empty().then(|| failed.map_or(Ok(None), Err))
            }
            (Open::Get(get), Some(Reply::Data | Reply::Error { .. })) if part != get.answered => {
                Some(Err(invalid))
            }
            (Open::Get(get), Some(Reply::Data)) => get.on_data(message.total, body),
            (Open::Get(get), Some(Reply::Error { error, .. })) => {
                get.failed
                    .get_or_insert(OperationError::new(from, Cause::Remote(error)));
                get.on_part()
            }
            (Open::Put { .. }, Some(Reply::Done)) => Some(Ok(None)),
            (Open::Atomic { .. }, Some(Reply::Value { before })) => Some(Ok(Some(before))),
            (_, Some(Reply::Error { error, .. })) => {
                Some(Err(OperationError::new(from, Cause::Remote(error))))
            }
            _ => Some(Err(invalid)),
        };
        if let Some(result) = result {
            self.complete(number, result);
        }
    }

    /// Notes that the library of `node` refused a request, whose token is `token`.
    pub fn undelivered(&mut self, node: NodeId, token: u64, cause: Cause) {
        let error = OperationError::new(node, cause);
        let (number, _) = split_tag(token);
        if is_unanswered(token) {
            let target = self.targets.entry(node).or_default();
            add_failure(&mut target.failed, error);
        } else {
            self.fail(number, error);
        }
    }

    /// Completes everything that is open at `node`, whose session ended. The next flush or quiet
    /// reports that the fate of unanswered operations is unknown.
    pub fn ended(&mut self, node: NodeId) {
        self.end_all(node, Cause::Ended);
    }

    /// Completes everything that is open at `node`, which does not permit one-sided operations.
    pub fn denied(&mut self, node: NodeId) {
        self.end_all(node, Cause::NotPermitted);
    }

    fn end_all(&mut self, node: NodeId, cause: Cause) {
        let error = OperationError::new(node, cause);
        self.output.clear(node);
        let awaiting = self.open.iter().filter(|(_, open)| open.awaits(node));
        let numbers: Vec<_> = awaiting.map(|(number, _)| *number).collect();
        for number in numbers {
            self.fail(number, error);
        }
        let Some(target) = self.targets.get_mut(&node) else {
            return;
        };
        if target.unanswered || target.direct {
            add_failure(&mut target.failed, error);
        }
        let failed = target.failed;
        *target = TargetState {
            failed,
            ..TargetState::default()
        };
        if failed.is_none() {
            self.targets.remove(&node);
        }
    }

    /// Returns how many replies belonged to no open operation: those of cancelled operations, and
    /// those that a target invented.
    #[must_use]
    pub const fn stray_replies(&self) -> u64 {
        self.stray_replies
    }

    // ---- within

    fn check_queue(&self, node: NodeId) -> Result<(), BeginError> {
        let full =
            self.output.count(node) >= MAX_QUEUED || self.output.bytes(node) >= MAX_QUEUED_BYTES;
        match full {
            true => Err(BeginError::QueueFull),
            false => Ok(()),
        }
    }

    fn begin(&mut self, open: Open) -> Result<OperationId, BeginError> {
        if self.open.len().saturating_add(self.complete.len()) >= MAX_OPERATIONS {
            return Err(BeginError::TooManyOperations);
        }
        // 40 bits of numbers last for days. A number of an operation that is open since is passed
        // over, and so is 0.
        let number = loop {
            self.last = self.last.wrapping_add(1);
            let number = self.context.operation(self.last);
            if number != self.context.operation(0) && !self.open.contains_key(&number) {
                break number;
            }
        };
        self.open.insert(number, open);
        Ok(OperationId(number))
    }

    /// Completes an operation. Returns false if it is not open.
    fn complete(&mut self, number: u64, result: Result<Option<u64>, OperationError>) -> bool {
        let Some(open) = self.open.remove(&number) else {
            return false;
        };
        // The memory is the program's again: a reply that is still arriving must not write to it.
        if let Open::Get(get) = &open {
            get.lent.withdraw();
        }
        let operation = OperationId(number);
        self.complete.push_back(OperationEnd { operation, result });
        true
    }

    /// Completes an operation with an error of one target. A quiet goes on at the other targets.
    fn fail(&mut self, number: u64, error: OperationError) {
        if let Some(Open::Flush { waiting, failed }) = self.open.get_mut(&number) {
            waiting.remove(&error.node);
            let first = *failed.get_or_insert(error);
            if waiting.is_empty() {
                self.complete(number, Err(first));
            }
        } else {
            self.complete(number, Err(error));
        }
    }

    fn send_access(&mut self, to: &RemoteRegion, tag: u64, action: Action, payload: Bytes) {
        let target = self.targets.entry(to.node).or_default();
        target.touched = true;
        target.flush = None;
        target.unanswered |= is_unanswered(tag);
        target.last = Some(tag);
        // Requests other than puts are handled in order, and hold back all behind them.
        let fenced = core::mem::take(&mut target.fence);
        let (region, key) = (to.region, to.key);
        let request = Request::Access(Access {
            region,
            key,
            action: action.with_fence(fenced),
        });
        self.send(to.node, tag, &request, payload);
    }

    fn send(&mut self, to: NodeId, tag: u64, request: &Request, payload: Bytes) {
        let message = Outgoing {
            channel: REQUESTS,
            tag,
            kind: request.kind(),
            user_header: request.header().into(),
            payload,
            notify: false,
            token: tag,
            deadline: None,
        };
        self.output.push(to, message);
    }

    fn flush_targets(&mut self, nodes: &[NodeId]) -> Result<OperationId, BeginError> {
        let mut waiting = BTreeSet::new();
        let mut failed: Option<OperationError> = None;
        let id = self.begin(Open::Flush {
            waiting: BTreeSet::new(),
            failed,
        })?;
        for node in nodes {
            let Some(target) = self.targets.get_mut(node) else {
                continue;
            };
            if let Some(error) = target.failed.take() {
                failed.get_or_insert(error);
            }
            if target.touched {
                target.flush = Some(id.0);
                target.last = Some(id.0 << PART_BITS);
                waiting.insert(*node);
                self.send(*node, id.0 << PART_BITS, &Request::Flush, Bytes::new());
            }
        }
        if waiting.is_empty() {
            self.complete(id.0, failed.map_or(Ok(None), Err));
        } else {
            self.open.insert(id.0, Open::Flush { waiting, failed });
        }
        Ok(id)
    }
}

impl Get {
    /// Takes the bytes of the next part.
    fn on_data(
        &mut self,
        length: u64,
        body: Body<'_>,
    ) -> Option<Result<Option<u64>, OperationError>> {
        let written = match (self.placement(self.answered, length), body) {
            (None, _) => false,
            (Some(_), Body::Placed) => true,
            (Some(placement), Body::Bytes(bytes)) => placement.write(0, bytes),
        };
        if !written {
            let error = OperationError::new(self.node, Cause::InvalidReply);
            self.failed.get_or_insert(error);
        }
        self.on_part()
    }

    /// Notes that a part was answered. Returns the result after the last one.
    fn on_part(&mut self) -> Option<Result<Option<u64>, OperationError>> {
        self.answered = self.answered.saturating_add(1);
        let all = self.answered >= self.parts();
        all.then(|| self.failed.map_or(Ok(None), Err))
    }
}

impl Open {
    /// Returns true if it awaits a reply of `node`.
    fn awaits(&self, node: NodeId) -> bool {
        match self {
            Self::Put { node: of } | Self::Atomic { node: of } => *of == node,
            Self::Get(get) => get.node == node,
            Self::Flush { waiting, .. } => waiting.contains(&node),
        }
    }

    /// Returns the nodes whose replies it awaits.
    fn nodes(&self) -> Vec<NodeId> {
        match self {
            Self::Put { node } | Self::Atomic { node } => vec![*node],
            Self::Get(get) => vec![get.node],
            Self::Flush { waiting, .. } => waiting.iter().copied().collect(),
        }
    }
}

fn put_action(layout: Layout, data: &Bytes, signal: Option<Signal>) -> Result<Action, BeginError> {
    let (total, given) = (layout.total(), data.len() as u64);
    if total != given {
        let layout = total;
        return Err(BeginError::Length { layout, given });
    }
    Ok(Action::Put {
        layout,
        signal,
        fenced: false,
    })
}

/// Returns the layouts of the requests of a get; `None` if they would be too many, or if a layout
/// that is not contiguous is too long for one.
fn split(layout: &Layout) -> Option<Vec<Layout>> {
    let total = layout.total();
    match parts(total) {
        1 => Some(vec![layout.clone()]),
        many if many > MAX_PARTS => None,
        many => (0..many)
            .map(|part| {
                let at = part.checked_mul(LONGEST_REPLY as u64)?;
                layout.part(at, part_length(total, part)?)
            })
            .collect(),
    }
}

/// Puts a fence before a request that waits to be sent.
fn fence_before(message: &mut Outgoing) {
    let total = message.payload.len() as u64;
    if let Ok(Request::Access(access)) = Request::read(message.kind, &message.user_header, total) {
        let action = access.action.with_fence(true);
        message.user_header = Request::Access(Access { action, ..access }).header().into();
    }
}

/// Returns the number of the operation and of the part.
const fn split_tag(tag: u64) -> (u64, u64) {
    (tag >> PART_BITS, tag & (MAX_PARTS - 1))
}

/// Returns the failure that the reply to a flush reports.
fn flush_error(from: NodeId, reply: Option<Reply>) -> Option<OperationError> {
    match reply {
        Some(Reply::Done) => None,
        Some(Reply::Error { error, count }) => Some(OperationError {
            node: from,
            cause: Cause::Remote(error),
            count,
        }),
        _ => Some(OperationError::new(from, Cause::InvalidReply)),
    }
}

/// Keeps the first failure and counts the others.
fn add_failure(first: &mut Option<OperationError>, error: OperationError) {
    match first {
        Some(first) => first.count = first.count.saturating_add(error.count),
        None => *first = Some(error),
    }
}
