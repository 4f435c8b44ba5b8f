//! The one-sided operations of a [`SharedNode`] that wait, as futures.

use super::SharedNode;
use super::inner::Inner;
use crate::remote::{
    AtomicOp, BeginError, Layout, PendingOperation, Remote, RemoteFailure, RemoteHost,
    RemoteRegion, Width, buffer,
};
use bytes::Bytes;
use std::future::poll_fn;
use std::sync::Arc;
use suci_layers::remote::{Destination, Initiator, Layer, OperationId};
use suci_proto::types::NodeId;

/// Futures have no [limit](Remote::limit): use that of the runtime. An operation whose future is
/// dropped before it is ready is given up; whether the target applied it is unknown then.
impl Remote<'_, SharedNode> {
    /// As [`put`](Remote::put): waits until there is room for it.
    ///
    /// # Errors
    /// As [`put`](Remote::put).
    pub async fn put_async(
        &self,
        to: &RemoteRegion,
        offset: u64,
        data: impl Into<Bytes>,
    ) -> Result<(), RemoteFailure> {
        let data = data.into();
        let layout = Layout::contiguous(offset, data.len() as u64).map_err(BeginError::from)?;
        let put = |initiator: &mut Initiator| initiator.put(to, layout.clone(), data.clone(), None);
        self.begin_async(to.node, put).await.map(drop)
    }

    /// As [`get_layout`](Remote::get_layout): waits for the bytes, and returns them.
    ///
    /// # Errors
    /// As [`get`](Remote::get).
    pub async fn get_async(
        &self,
        from: &RemoteRegion,
        layout: Layout,
    ) -> Result<Vec<u8>, RemoteFailure> {
        let length = layout.total();
        let given = Layout::contiguous(0, length).map_err(BeginError::from)?;
        let memory = buffer(length).ok_or(BeginError::TooLong)?;
        let get = |initiator: &mut Initiator| {
            let into = Destination {
                memory: Arc::clone(&memory),
                layout: given.clone(),
            };
            initiator.get(from, layout.clone(), into)
        };
        self.finish_async(from.node, get).await?;
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        memory.read(0, &mut bytes);
        Ok(bytes)
    }

    /// As [`atomic`](Remote::atomic): waits until there is room for it.
    ///
    /// # Errors
    /// As [`put`](Remote::put).
    pub async fn atomic_async(
        &self,
        at: &RemoteRegion,
        offset: u64,
        width: Width,
        op: AtomicOp,
    ) -> Result<(), RemoteFailure> {
        let atomic = |initiator: &mut Initiator| initiator.atomic(at, offset, width, op);
        self.begin_async(at.node, atomic).await
    }

    /// As [`fetch_atomic`](Remote::fetch_atomic): waits for the integer from before.
    ///
    /// # Errors
    /// [`RemoteFailure`].
    pub async fn fetch_atomic_async(
        &self,
        at: &RemoteRegion,
        offset: u64,
        width: Width,
        op: AtomicOp,
    ) -> Result<u64, RemoteFailure> {
        let fetch = |initiator: &mut Initiator| initiator.fetch_atomic(at, offset, width, op);
        Ok(self.finish_async(at.node, fetch).await?.unwrap_or(0))
    }

    /// As [`quiet`](Remote::quiet): waits until all earlier operations were applied.
    ///
    /// # Errors
    /// As [`quiet`](Remote::quiet).
    pub async fn quiet_async(&self) -> Result<(), RemoteFailure> {
        let open = |begun: PendingOperation| Open::new(self, begun);
        let begun = self.begin_quiet()?.into_iter();
        let begun: Vec<_> = begun.map(|begun| begun.map(open)).collect();
        let mut result = Ok(());
        for one in begun {
            let done = match one {
                Ok(open) => open.result().await.map(drop),
                Err(error) => Err(error),
            };
            // All are awaited whichever fails.
            result = result.and(done);
        }
        result
    }

    /// As [`wait`](Remote::wait): waits for the result of an operation that was begun. If the
    /// future is dropped before, the operation can be waited for again.
    ///
    /// # Errors
    /// [`RemoteFailure::Operation`].
    pub async fn wait_async(
        &self,
        operation: PendingOperation,
    ) -> Result<Option<u64>, RemoteFailure> {
        if let Some(result) = self.take(operation)? {
            return Ok(result?);
        }
        let inner = &self.node().inner;
        // There is no timer to do so later: a target that is silent counts as lost from now on.
        let watch = AnswerWatch::begin(inner, self.targets(operation)).await?;
        let result = poll_fn(inner.awaiting_result(operation)).await;
        watch.end().await?;
        Ok(result??)
    }

    /// Begins an operation, as soon as there is room, and sends it.
    async fn begin_async<T>(
        &self,
        to: NodeId,
        mut begin: impl FnMut(&mut Initiator) -> Result<T, BeginError>,
    ) -> Result<T, RemoteFailure> {
        let node = self.node();
        let context = self.context_at(node.layer_of(to));
        let begin = |layer: &mut Layer| {
            layer.check_results()?;
            begin(layer.initiator_of(context))
        };
        poll_fn(node.inner.beginning(to, begin)?).await
    }

    /// Begins an operation, and waits for its result.
    async fn finish_async(
        &self,
        to: NodeId,
        begin: impl FnMut(&mut Initiator) -> Result<OperationId, BeginError>,
    ) -> Result<Option<u64>, RemoteFailure> {
        let (layer, id) = (self.node().layer_of(to), self.begin_async(to, begin).await?);
        Open::new(self, PendingOperation { layer, id })
            .result()
            .await
    }
}

/// An operation that is given up if this is dropped.
struct Open<'a, 'n> {
    remote: &'a Remote<'n, SharedNode>,
    operation: PendingOperation,
    taken: bool,
}

impl<'a, 'n> Open<'a, 'n> {
    const fn new(remote: &'a Remote<'n, SharedNode>, operation: PendingOperation) -> Self {
        let taken = false;
        Self {
            remote,
            operation,
            taken,
        }
    }

    async fn result(mut self) -> Result<Option<u64>, RemoteFailure> {
        let result = self.remote.wait_async(self.operation).await;
        self.taken = true;
        result
    }
}

impl Drop for Open<'_, '_> {
    fn drop(&mut self) {
        // In the child of a fork a thread may hold the lock for ever that does not exist there.
        if !self.taken && self.remote.node().check_open().is_ok() {
            self.remote.cancel(self.operation);
        }
    }
}

/// A wait for answers of nodes, which count as lost meanwhile if they are silent.
struct AnswerWatch<'a> {
    inner: &'a Inner,
    nodes: Vec<NodeId>,
}

impl<'a> AnswerWatch<'a> {
    async fn begin(inner: &'a Inner, nodes: Vec<NodeId>) -> Result<Self, RemoteFailure> {
        let mut watch = Self {
            inner,
            nodes: Vec::new(),
        };
        for node in nodes {
            poll_fn(inner.pushing(inner.shard_of(node), Inner::watching(node, true))).await?;
            watch.nodes.push(node);
        }
        Ok(watch)
    }

    async fn end(mut self) -> Result<(), RemoteFailure> {
        while let Some(node) = self.nodes.pop() {
            let shard = self.inner.shard_of(node);
            poll_fn(self.inner.pushing(shard, Inner::watching(node, false))).await?;
        }
        Ok(())
    }
}

impl Drop for AnswerWatch<'_> {
    fn drop(&mut self) {
        for node in self.nodes.drain(..) {
            // If the ring is full, the node stays watched: that costs probes and nothing else.
            _ = self.inner.shard_of(node).push(Inner::watching(node, false));
        }
    }
}
