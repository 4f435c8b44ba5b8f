//! Messages that the program queued and that the node did not accept yet.

use crate::memory::COPIED;
use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};
use suci::{Bytes, Error, Node, NodeId, OutgoingMessage};

/// Bytes that a message counts in the send queue beside its payload.
const PER_MESSAGE: u64 = 64;

/// Messages that are longer ask the receiver first, which may refuse them.
pub(super) const NOTIFY_FROM: usize = 256 * 1024;

/// The messages to one destination, in order.
#[derive(Default)]
struct DestinationQueue {
    messages: VecDeque<Bytes>,
    bytes: u64,
}

/// Messages by destination.
#[derive(Default)]
pub(super) struct PendingMessages {
    queues: BTreeMap<NodeId, DestinationQueue>,
}

impl PendingMessages {
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty()
    }

    /// The destinations that messages wait for.
    pub(super) fn destinations(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.queues.keys().copied()
    }

    /// The number of messages to `to`.
    pub(super) fn count(&self, to: NodeId) -> u64 {
        self.queues
            .get(&to)
            .map_or(0, |queue| queue.messages.len() as u64)
    }

    /// Queues `messages` to `to`, if they have room in a queue of `most` bytes, of which the node
    /// holds `accepted` (messages and bytes). An empty queue takes messages of any size.
    pub(super) fn push(
        &mut self,
        to: NodeId,
        messages: &mut Vec<Bytes>,
        accepted: (u64, u64),
        most: u64,
    ) -> bool {
        let charge =
            |count: u64, bytes: u64| count.saturating_mul(PER_MESSAGE).saturating_add(bytes);
        let bytes: u64 = messages.iter().map(|message| message.len() as u64).sum();
        let here = self.queues.get(&to);
        let here = here.map_or(0, |queue| charge(queue.messages.len() as u64, queue.bytes));
        let held = here.saturating_add(charge(accepted.0, accepted.1));
        let wanted = charge(messages.len() as u64, bytes);
        if held > 0 && held.saturating_add(wanted) > most {
            return false;
        }
        let queue = self.queues.entry(to).or_default();
        queue.messages.extend(messages.drain(..));
        queue.bytes = queue.bytes.saturating_add(bytes);
        true
    }

    /// Hands the messages to `node` and has it send them together. Messages that it does not accept
    /// now stay, unless it can never accept them: those errors are returned.
    pub(super) fn hand_over(&mut self, node: &mut Node) -> Result<Vec<Error>, Error> {
        let mut failed = Vec::new();
        let destinations: Vec<NodeId> = self.destinations().collect();
        node.batch(|batch| {
            for to in destinations {
                let Entry::Occupied(mut queue) = self.queues.entry(to) else {
                    continue;
                };
                while let Some(message) = queue.get().messages.front() {
                    let sent = match message.len() {
                        0..=COPIED => batch.send_copy(to, message),
                        length => batch.send(to, outgoing(message, length)),
                    };
                    match sent {
                        Ok(_) => {}
                        Err(
                            Error::WouldBlock { .. }
                            | Error::Suspended { .. }
                            | Error::Closing { .. }
                            | Error::Unread { .. },
                        ) => break,
                        Err(error) => failed.push(error),
                    }
                    queue.get_mut().pop();
                }
                if queue.get().messages.is_empty() {
                    queue.remove();
                }
            }
        })?;
        Ok(failed)
    }
}

/// Makes a message for the node. The program hears if a long one is refused.
fn outgoing(message: &Bytes, length: usize) -> OutgoingMessage {
    let outgoing = OutgoingMessage::new(message.clone());
    match length > NOTIFY_FROM {
        true => outgoing.notify(length as u64),
        false => outgoing,
    }
}

impl DestinationQueue {
    fn pop(&mut self) {
        if let Some(message) = self.messages.pop_front() {
            self.bytes = self.bytes.saturating_sub(message.len() as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: NodeId = NodeId(7);

    fn push(pending: &mut PendingMessages, bytes: usize, accepted: (u64, u64)) -> bool {
        let mut messages = vec![Bytes::from(vec![0; bytes])];
        pending.push(TO, &mut messages, accepted, 1000)
    }

    #[test]
    fn the_bound_counts_what_waits_here_and_in_the_node() {
        let mut pending = PendingMessages::default();
        assert!(
            push(&mut pending, 5000, (0, 0)),
            "an empty queue takes any message"
        );
        assert!(!push(&mut pending, 1, (0, 0)));
        let mut pending = PendingMessages::default();
        assert!(push(&mut pending, 400, (1, 300)));
        assert!(push(&mut pending, 44, (1, 300)), "400 + 300 + 44 + 4 x 64");
        assert!(!push(&mut pending, 1, (1, 300)));
        assert_eq!(pending.count(TO), 2);
    }
}
