//! Messages that wait until the node takes them for sending.

use std::collections::{BTreeMap, VecDeque};
use suci_proto::Outgoing;
use suci_proto::types::NodeId;

/// A queue of messages to each node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Output {
    queues: BTreeMap<NodeId, Queue>,
}

#[derive(Clone, Debug, Default)]
struct Queue {
    messages: VecDeque<Outgoing>,
    /// Bytes of the payloads.
    bytes: usize,
}

impl Output {
    pub(crate) fn push(&mut self, node: NodeId, message: Outgoing) {
        let queue = self.queues.entry(node).or_default();
        queue.bytes = queue.bytes.saturating_add(message.payload.len());
        queue.messages.push_back(message);
    }

    /// Returns the number of messages to `node` that wait.
    pub(crate) fn count(&self, node: NodeId) -> usize {
        self.queues.get(&node).map_or(0, |q| q.messages.len())
    }

    /// Returns the messages to `node` that wait, in order.
    pub(crate) fn messages(&self, node: NodeId) -> impl Iterator<Item = &Outgoing> {
        let queue = self.queues.get(&node).into_iter();
        queue.flat_map(|queue| &queue.messages)
    }

    /// Returns all messages that wait, each with its receiver.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NodeId, &Outgoing)> {
        self.queues.iter().flat_map(|(node, queue)| {
            let messages = queue.messages.iter();
            messages.map(move |message| (*node, message))
        })
    }

    /// Returns the bytes of the payloads that wait for `node`.
    pub(crate) fn bytes(&self, node: NodeId) -> usize {
        self.queues.get(&node).map_or(0, |queue| queue.bytes)
    }

    /// Gives all messages to `send`, those to one node in order, until it refuses one to that node
    /// by returning false. Those that it refused stay.
    pub(crate) fn transmit(&mut self, mut send: impl FnMut(NodeId, &Outgoing) -> bool) {
        self.queues.retain(|node, queue| {
            while let Some(message) = queue.messages.front() {
                if !send(*node, message) {
                    return true;
                }
                queue.bytes = queue.bytes.saturating_sub(message.payload.len());
                queue.messages.pop_front();
            }
            false
        });
    }

    /// Returns the message to `node` that waits behind the last one that `is_before`.
    pub(crate) fn behind(
        &mut self,
        node: NodeId,
        is_before: impl Fn(&Outgoing) -> bool,
    ) -> Option<&mut Outgoing> {
        let messages = &mut self.queues.get_mut(&node)?.messages;
        let last = messages.iter().rposition(is_before)?;
        messages.get_mut(last.checked_add(1)?)
    }

    /// Drops the messages to `node` that are `unwanted`. Returns whether there were any.
    pub(crate) fn remove(&mut self, node: NodeId, unwanted: impl Fn(&Outgoing) -> bool) -> bool {
        let Some(queue) = self.queues.get_mut(&node) else {
            return false;
        };
        let before = queue.messages.len();
        queue.messages.retain(|message| !unwanted(message));
        let bytes = queue.messages.iter().map(|message| message.payload.len());
        queue.bytes = bytes.sum();
        let removed = queue.messages.len() < before;
        if queue.messages.is_empty() {
            self.queues.remove(&node);
        }
        removed
    }

    pub(crate) fn clear(&mut self, node: NodeId) {
        self.queues.remove(&node);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }
}
