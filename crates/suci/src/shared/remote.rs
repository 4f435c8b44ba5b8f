//! One-sided operations of a shared node.
//!
//! Any thread of the program enters a request into the layer of the target's shard, under the
//! layer's lock, and wakes the I/O thread, which sends it and takes the answer. So a call waits for
//! no cycle of that thread unless it needs a result.

use super::SharedNode;
use super::inner::Inner;
use super::shard::{Command, Shard, owner};
use super::sleepers::Registration;
use crate::clock::Deadline;
use crate::error::Error;
use crate::placement::AwaitedOfLayer;
use crate::remote::{PendingOperation, Region, RegionError, Remote};
use crate::remote::{RemoteFailure, RemoteHost, Rights, take_result};
use crate::shared_memory::SharedMemory;
use std::ptr::NonNull;
use std::sync::MutexGuard;
use std::task::{Context, Poll};
use std::time::Duration;
use suci_layers::remote::{BeginError, Layer, Outcome};
use suci_proto::Side;
use suci_proto::types::{Incarnation, NodeId};

impl SharedNode {
    /// Allocates memory that other nodes read and change, as far as they have `rights`.
    ///
    /// # Errors
    /// [`RegionError`].
    pub fn allocate_region(&self, bytes: usize, rights: Rights) -> Result<Region, RegionError> {
        self.inner.check_open()?;
        Region::allocate(&self.inner.fixed, bytes, rights)
    }

    /// As [`Node::allocate_region_on_huge_pages`](crate::Node::allocate_region_on_huge_pages).
    ///
    /// # Errors
    /// [`RegionError`].
    pub fn allocate_region_on_huge_pages(
        &self,
        bytes: usize,
        rights: Rights,
    ) -> Result<Region, RegionError> {
        self.inner.check_open()?;
        Region::allocate_on_huge_pages(&self.inner.fixed, bytes, rights)
    }

    /// As [`Node::lend_region`](crate::Node::lend_region).
    ///
    /// # Safety
    /// As there.
    ///
    /// # Errors
    /// [`RegionError`].
    pub unsafe fn lend_region(
        &self,
        first: NonNull<u8>,
        length: usize,
        rights: Rights,
    ) -> Result<Region, RegionError> {
        self.inner.check_open()?;
        // SAFETY: the caller promises it.
        unsafe { Region::lend(&self.inner.fixed, first, length, rights) }
    }

    /// The program's one-sided operations on memory of other nodes, and of this one. Several
    /// threads may use it at the same time.
    #[must_use]
    pub fn remote(&self) -> Remote<'_, Self> {
        Remote::new(self)
    }

    /// As [`Node::wait_until`](crate::Node::wait_until). The calling thread sleeps in between.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::Woken`]; [`Error::Forked`].
    pub fn wait_until<T>(
        &self,
        limit: Duration,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Result<Option<T>, Error> {
        self.inner.check_open()?;
        let end = Deadline::after(limit);
        loop {
            let until = end.earlier(self.inner.fixed.next_look());
            let waiting = self.inner.awaiting_change(&mut ready);
            let value = self.inner.wait_until(until, waiting)?.transpose()?;
            if value.is_some() || end.is_over() {
                return Ok(value);
            }
        }
    }
}

impl Inner {
    /// Polls `take` under the lock of a shard's layer until it returns something, which `awaited`
    /// describes.
    fn polling_layer<'a, T>(
        &'a self,
        shard: &'a Shard,
        awaited: AwaitedOfLayer,
        mut take: impl FnMut(&mut Layer) -> Option<T>,
    ) -> impl FnMut(&mut Context<'_>) -> Poll<Result<T, Error>> {
        let places = &shard.places;
        let mut registration = Registration::wanting(&places.remote_waiters, awaited);
        let mut ending = self.ending();
        move |cx| {
            let taken = registration.poll(cx, || match take(&mut places.remote()) {
                Some(taken) => Poll::Ready(Ok(taken)),
                None => Poll::Pending,
            });
            match taken {
                Poll::Pending => ending(cx).map(Err),
                ready => ready,
            }
        }
    }

    /// Waits until `take` returns something. Returns nothing if `deadline` comes first.
    fn await_layer<T>(
        &self,
        shard: &Shard,
        awaited: AwaitedOfLayer,
        deadline: Deadline,
        take: impl FnMut(&mut Layer) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let taken = self.wait_until(deadline, self.polling_layer(shard, awaited, take))?;
        taken.transpose()
    }

    /// Polls `begin` until there is room at the layer of `to`, and has its requests sent.
    pub(super) fn beginning<'a, T>(
        &'a self,
        to: NodeId,
        mut begin: impl FnMut(&mut Layer) -> Result<T, BeginError> + 'a,
    ) -> Result<impl FnMut(&mut Context<'_>) -> Poll<Result<T, RemoteFailure>>, RemoteFailure> {
        self.check_target(to)?;
        let shard = self.shard_of(to);
        let unless_full = move |layer: &mut Layer| match begin(layer) {
            Err(BeginError::QueueFull) => None,
            begun => Some(begun),
        };
        let mut polling = self.polling_layer(shard, AwaitedOfLayer::Room, unless_full);
        Ok(move |cx: &mut Context<'_>| {
            polling(cx).map(|begun| {
                shard.serve_remote();
                Ok(begun??)
            })
        })
    }

    /// Polls for the result of an operation.
    pub(super) fn awaiting_result(
        &self,
        operation: PendingOperation,
    ) -> impl FnMut(&mut Context<'_>) -> Poll<Result<Outcome, RemoteFailure>> {
        let awaited = AwaitedOfLayer::Result(operation.id);
        let shard = &self.shards[operation.layer];
        let take = move |layer: &mut Layer| take_result(layer, operation.id).transpose();
        let mut polling = self.polling_layer(shard, awaited, take);
        move |cx| polling(cx).map(|taken| taken?)
    }

    /// The command that has a thread note that a wait for answers of `node` began or ended.
    pub(super) fn watching(node: NodeId, awaited: bool) -> Command {
        Command::run(move |worker| {
            let now = worker.driver.read_clock();
            worker.driver.engine.await_member(now, node, awaited);
        })
    }

    /// Polls `ready`, again whenever other nodes' operations were applied by one of the threads.
    pub(super) fn awaiting_change<T>(
        &self,
        mut ready: impl FnMut() -> Option<T>,
    ) -> impl FnMut(&mut Context<'_>) -> Poll<Result<T, Error>> {
        let waiters = self.shards.iter().map(|shard| &shard.places.remote_waiters);
        let register = |waiters| Registration::wanting(waiters, AwaitedOfLayer::Change);
        let mut registrations: Vec<_> = waiters.map(register).collect();
        let mut ending = self.ending();
        move |cx| {
            if let Some(value) = ready() {
                return Poll::Ready(Ok(value));
            }
            for registration in &mut registrations {
                registration.enter(cx.waker());
            }
            // A change between the two looks woke nobody.
            match ready() {
                Some(value) => Poll::Ready(Ok(value)),
                None => ending(cx).map(Err),
            }
        }
    }

    /// Fails unless operations at `to` may begin.
    fn check_target(&self, to: NodeId) -> Result<(), RemoteFailure> {
        self.check_open()?;
        let gate = self.shard_of(to).gate(to);
        let gate = gate.filter(|gate| !gate.is_removed());
        match gate.ok_or(Error::UnknownPeer(to))?.suspended() {
            Some(Side::Here) => Err(RemoteFailure::Suspended(to)),
            Some(Side::There) | None => Ok(()),
        }
    }
}

impl RemoteHost for SharedNode {
    fn check_open(&self) -> Result<(), Error> {
        self.inner.check_open()
    }

    fn check_target(&self, to: NodeId) -> Result<(), RemoteFailure> {
        self.inner.check_target(to)
    }

    fn shared_memory(&self) -> Option<&SharedMemory> {
        self.inner.fixed.shared_memory.as_deref()
    }

    fn process_of(&self, to: NodeId) -> Option<Incarnation> {
        let state = self.ask(to, move |driver| driver.engine.member_state(to));
        state.ok()??.incarnation
    }

    fn layers(&self) -> usize {
        self.inner.shards.len()
    }

    fn layer_of(&self, target: NodeId) -> usize {
        owner(target, self.inner.shards.len())
    }

    fn layer(&self, index: usize) -> MutexGuard<'_, Layer> {
        self.inner.shards[index].places.remote()
    }

    fn begin<T>(
        &self,
        to: NodeId,
        _: usize,
        deadline: Deadline,
        mut begin: impl FnMut(&mut Layer) -> Result<T, BeginError>,
    ) -> Result<Option<T>, RemoteFailure> {
        self.inner.check_target(to)?;
        let shard = self.inner.shard_of(to);
        let mut unless_full = |layer: &mut Layer| match begin(layer) {
            Err(BeginError::QueueFull) => None,
            begun => Some(begun),
        };
        // Mostly there is room at once.
        let begun = unless_full(&mut shard.places.remote());
        let begun = match begun {
            None => self
                .inner
                .await_layer(shard, AwaitedOfLayer::Room, deadline, unless_full)?,
            begun => begun,
        };
        shard.serve_remote();
        Ok(begun.transpose()?)
    }

    fn send_requests(&self, index: usize) -> Result<(), Error> {
        self.inner.shards[index].serve_remote();
        Ok(())
    }

    fn turn(&self) -> Result<(), Error> {
        self.inner.check_open()
    }

    fn await_result(
        &self,
        operation: PendingOperation,
        deadline: Deadline,
    ) -> Result<Option<Outcome>, RemoteFailure> {
        let result = self.inner.awaiting_result(operation);
        self.inner.wait_until(deadline, result)?.transpose()
    }

    fn watch(&self, nodes: &[NodeId], awaited: bool) -> Result<(), Error> {
        for &node in nodes {
            let (shard, watch) = (self.inner.shard_of(node), Inner::watching(node, awaited));
            self.inner.wait_for(self.inner.pushing(shard, watch))??;
        }
        Ok(())
    }
}
