//! The interface between the programs and a network.

use suci::Bytes;

/// Any failure. Its text is for the person at the terminal.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// The longest message, in bytes: what a node of Suci takes without asking its program.
pub(crate) const LONGEST: usize = 64 << 20;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(pub(crate) u8);

/// A received message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    /// The rank of its sender.
    pub(crate) from: usize,
    pub(crate) tag: Tag,
    pub(crate) payload: Bytes,
}

/// A network of processes whose ranks are 0 to `size` - 1. Messages between two processes arrive in
/// order, once, and complete.
pub(crate) trait Transport: Send {
    fn rank(&self) -> usize;

    fn size(&self) -> usize;

    /// Sends a message of at most [`LONGEST`] bytes. May block while the network is full.
    fn send(&mut self, to: usize, tag: Tag, payload: Bytes) -> Result<()>;

    /// Waits for the next message of any process. Fails if process `from`, or without one any
    /// process, has ended: the awaited message may never come.
    fn recv(&mut self, from: Option<usize>) -> Result<Message>;

    /// Returns the next message if one is there.
    fn try_recv(&mut self) -> Result<Option<Message>>;

    /// Leaves the network, after everything that was sent has arrived. All processes call it, each
    /// when it needs no more messages.
    fn close(&mut self) -> Result<()>;
}
