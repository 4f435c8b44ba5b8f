//! A shared node's links with its peers, as its program decides.

use super::SharedNode;
use crate::error::Error;
use std::time::Duration;
use suci_proto::types::NodeId;

impl SharedNode {
    /// As [`Node::suspend`](crate::Node::suspend); blocks for a turn of the thread. What other
    /// handles hand over in the same moment may still be accepted; it is kept like what was
    /// accepted before.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Itself`].
    pub fn suspend(&self, node: NodeId) -> Result<(), Error> {
        self.set_suspended(node, true)
    }

    /// As [`Node::resume`](crate::Node::resume); blocks for a turn of the thread.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Itself`].
    pub fn resume(&self, node: NodeId) -> Result<(), Error> {
        self.set_suspended(node, false)
    }

    fn set_suspended(&self, node: NodeId, suspended: bool) -> Result<(), Error> {
        let gate = self.inner.shard_of(node).gate(node);
        let done = self.ask(node, move |driver| {
            let engine = &mut driver.engine;
            let done = match suspended {
                true => engine.suspend(node),
                false => engine.resume(node),
            };
            // The caller's next message meets a gate that knows.
            if let Some(gate) = gate {
                gate.set_suspended(engine.suspended_by(node));
            }
            done
        })?;
        done.map_err(|error| Error::from_send(node, error))
    }

    /// As [`Node::set_patience`](crate::Node::set_patience); blocks for a turn of the thread.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Itself`], [`Error::Config`].
    pub fn set_patience(
        &self,
        node: NodeId,
        silence_timeout: Duration,
        give_up_after: Duration,
    ) -> Result<(), Error> {
        self.ask(node, move |driver| {
            driver
                .engine
                .set_patience(node, silence_timeout, give_up_after)
        })?
        .map_err(|error| Error::from_patience(node, error))
    }

    /// As [`Node::watch`](crate::Node::watch); blocks for a turn of the thread.
    ///
    /// # Errors
    /// [`Error::UnknownPeer`], [`Error::Itself`].
    pub fn watch(&self, node: NodeId, on: bool) -> Result<(), Error> {
        self.ask(node, move |driver| driver.engine.watch(node, on))?
            .map_err(|error| Error::from_send(node, error))
    }
}
