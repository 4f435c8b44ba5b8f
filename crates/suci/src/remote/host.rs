//! The verbs for one-sided operations that both kinds of node have.

use super::{PendingOperation, RemoteFailure};
use crate::clock::Deadline;
use crate::error::Error;
use crate::shared_memory::SharedMemory;
use std::sync::MutexGuard;
use suci_layers::remote::{BeginError, Layer, Outcome};
use suci_proto::types::{Incarnation, NodeId};

/// A node that begins one-sided operations: a [`Node`](crate::Node) or a
/// [`SharedNode`](crate::SharedNode).
pub trait RemoteNode: RemoteHost {}

impl<N: RemoteHost> RemoteNode for N {}

/// The verbs that one-sided operations need of their node. Each of its threads has a layer for the
/// targets that it serves.
pub trait RemoteHost {
    /// Returns the error of a call that needs an open node, if the node is not open.
    fn check_open(&self) -> Result<(), Error>;

    /// Fails unless operations at `to` may begin. A node that works in its program's calls takes
    /// what has arrived, now and then.
    fn check_target(&self, to: NodeId) -> Result<(), RemoteFailure>;

    /// The memory in common with other processes of the machine, if the node uses some.
    fn shared_memory(&self) -> Option<&SharedMemory>;

    /// The process that the session with `to` is with, if there is a session.
    fn process_of(&self, to: NodeId) -> Option<Incarnation>;

    /// The number of layers.
    fn layers(&self) -> usize;

    /// The index of the layer that serves a target.
    fn layer_of(&self, target: NodeId) -> usize;

    /// Locks the layer at an index.
    fn layer(&self, index: usize) -> MutexGuard<'_, Layer>;

    /// Begins an operation that sends `bytes` bytes of data, at the layer of `to`, as soon as
    /// `begin` does not fail because the queue is full. Has its requests sent; they may wait for
    /// the next call, as messages may. Returns nothing if `deadline` comes first.
    fn begin<T>(
        &self,
        to: NodeId,
        bytes: usize,
        deadline: Deadline,
        begin: impl FnMut(&mut Layer) -> Result<T, BeginError>,
    ) -> Result<Option<T>, RemoteFailure>;

    /// Has the requests of a layer sent.
    fn send_requests(&self, index: usize) -> Result<(), Error>;

    /// Takes what has arrived, if that is not done without the program.
    fn turn(&self) -> Result<(), Error>;

    /// Waits until an operation has a result, and takes it. Returns nothing if `deadline` comes
    /// first. Fails if there will be none: another thread took it, or closed the context.
    fn await_result(
        &self,
        operation: PendingOperation,
        deadline: Deadline,
    ) -> Result<Option<Outcome>, RemoteFailure>;

    /// Notes that a wait for answers of `nodes` began or, if they are not `awaited` any more,
    /// ended. A node that is awaited counts as lost if it is silent.
    fn watch(&self, nodes: &[NodeId], awaited: bool) -> Result<(), Error>;
}
