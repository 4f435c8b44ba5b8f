//! The message module: orders to nodes to create processes.

use crate::fabric::node;
use crate::fatal;
use crate::runtime::Runtime;
use std::time::Duration;
use suci::{ChannelId, Message, OutgoingMessage};

/// The channel of orders.
pub(crate) const CHANNEL: ChannelId = ChannelId(1);

/// An order to create a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// The node that gives it.
    pub(super) creator: usize,
    /// The number of the process at its creator.
    pub(super) process: usize,
    /// The function's offset in the program.
    pub(super) function: u64,
    pub(super) argument: u64,
}

impl Order {
    fn to_bytes(self) -> Vec<u8> {
        let words = [self.process as u64, self.function, self.argument];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Reads an order of the node that sent the message.
    pub(super) fn read(message: &Message) -> Option<Self> {
        let creator = usize::try_from(message.from.0).ok()?;
        Self::of_bytes(creator, message.payload.as_ref())
    }

    fn of_bytes(creator: usize, bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.as_chunks();
        let [process, function, argument] = words else {
            return None;
        };
        rest.is_empty().then_some(Self {
            creator,
            process: usize::try_from(u64::from_le_bytes(*process)).ok()?,
            function: u64::from_le_bytes(*function),
            argument: u64::from_le_bytes(*argument),
        })
    }
}

/// Sends an order. Waits while the queue to the node is full.
pub(super) fn send(runtime: &Runtime, to: usize, order: Order) {
    let message = OutgoingMessage::new(order.to_bytes()).channel(CHANNEL);
    if let Err(error) = runtime
        .node()
        .send_timeout(node(to), message, Duration::MAX)
    {
        fatal!("{error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_as_they_are_written() {
        let order = Order {
            creator: 3,
            process: 7,
            function: 0x1234,
            argument: u64::MAX,
        };
        let bytes = order.to_bytes();
        assert_eq!(Order::of_bytes(3, &bytes), Some(order));
        assert_eq!(Order::of_bytes(3, &bytes[1..]), None);
        assert_eq!(Order::of_bytes(3, &[]), None);
    }
}
