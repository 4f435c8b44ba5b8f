//! Receives that take messages by tag and source, as in MPI.
//!
//! A program posts receives, each with a [`Pattern`] and a buffer. Every message for them goes to
//! the oldest receive that admits it. If a receive was posted before a long message came, the bytes
//! go from the packets straight to its buffer. Messages that no receive admits are kept, 128 MiB of
//! them for all nodes; then memory credit holds their senders back, as long as the program posts no
//! receive for what is there.
//!
//! ```
//! use std::time::Duration;
//! use suci::matching::Pattern;
//! use suci::{Node, NodeId};
//!
//! # fn main() -> Result<(), suci::Error> {
//! let mut node = Node::builder().id(NodeId(0)).open()?;
//! let matching = node.matching();
//! let (mut left, mut right) = ([0; 4], [0; 4]);
//! // A node may send to itself.
//! matching.scope(|scope| {
//!     let mut first = scope.post(Pattern::tag(7).from(NodeId(0)), &mut left)?;
//!     let mut second = scope.post(Pattern::any(), &mut right)?;
//!     matching.send(NodeId(0), 8, "four")?;
//!     matching.send(NodeId(0), 7, "left")?;
//!     let limit = Duration::from_secs(5);
//!     let got = scope.wait(&mut second, limit)?.expect("sent above");
//!     assert_eq!((got.tag, got.length), (8, 4));
//!     assert!(scope.wait(&mut first, limit)?.is_some());
//!     Ok::<_, suci::Error>(())
//! })?;
//! assert_eq!((&left, &right), (b"left", b"four"));
//! # Ok(())
//! # }
//! ```
//!
//! These messages have channels of their own: [`Pattern::on`], [`Matching::on`]. No call that
//! receives other messages takes them. [`Event::Delivered`](crate::Event::Delivered) and
//! [`Event::NotDelivered`](crate::Event::NotDelivered) tell of those that were sent with
//! [`notify`](crate::OutgoingMessage::notify), as of other messages.

mod host;
mod scope;

pub use host::MatchingNode;
pub use scope::{MatchingScope, Posted};
pub use suci_layers::matching::{
    Completion, Matched, MessageId, NoSuchMessage, Pattern, Peeked, ReceiveId, Unmatched,
};

pub(crate) use host::{AwaitedMatch, MatchingHost, MatchingState};

use crate::clock::Deadline;
use crate::error::Error;
use crate::lent::LentBytes;
use crate::message::OutgoingMessage;
use crate::node::Node;
use crate::shared_bytes::SharedBytes;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;
use suci_layers::matching::{Buffer, BufferError, Matching as Queues};
use suci_layers::remote::Memory;
use suci_proto::types::{ChannelId, NodeId};

/// A wait for messages of one node that lasts longer has that node watched: it counts as lost if it
/// is silent.
const WATCH_AFTER: Duration = Duration::from_secs(1);

/// Why matching cannot go on.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum MatchingError {
    /// The node's own call failed.
    #[error(transparent)]
    Node(#[from] Error),
    /// No message is there under this number.
    #[error(transparent)]
    NoSuchMessage(#[from] NoSuchMessage),
    /// The memory is no buffer of a receive.
    #[error(transparent)]
    Buffer(#[from] BufferError),
}

impl std::fmt::Debug for MatchingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Node(error) => error.fmt(f),
            Self::NoSuchMessage(error) => error.fmt(f),
            Self::Buffer(error) => error.fmt(f),
        }
    }
}

/// A part of the buffer of a raw receive: the address of its first byte, and their number.
pub type RawPart = (NonNull<u8>, usize);

/// The receives of a program: [`Node::matching`], [`SharedNode::matching`](crate::SharedNode).
///
/// A receive that admits messages of one node alone ends with [`Error::Ended`] when the session
/// with that node does, and so does one that a message of an ended session was on its way to.
/// Others go on.
pub struct Matching<'a, N = Node> {
    node: &'a N,
    channel: ChannelId,
}

impl<N> std::fmt::Debug for Matching<'_, N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Matching")
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}

impl<'a, N: MatchingNode> Matching<'a, N> {
    pub(crate) const fn new(node: &'a N) -> Self {
        Self {
            node,
            channel: ChannelId::of_matching(0),
        }
    }

    /// Sends on the channel with this number, of which the lower 24 bits count. Messages on several
    /// channels have no order, and are matched with receives on the same channel only.
    #[must_use]
    pub const fn on(mut self, channel: u32) -> Self {
        self.channel = ChannelId::of_matching(channel);
        self
    }

    // ---- sending

    /// Sends a message for a receive of `to`, with this tag. The message itself has no tag and no
    /// channel; it may have a kind, a user header, a deadline and a notification. Returns at once.
    /// [`OutgoingMessage::matched`] makes messages for all other calls that send.
    ///
    /// # Errors
    /// As [`Node::send`]; [`Error::Reserved`].
    pub fn send(
        &self,
        to: NodeId,
        tag: u64,
        message: impl Into<OutgoingMessage>,
    ) -> Result<(), Error> {
        let message = message.into().for_receives(self.channel, tag)?;
        message.check()?;
        self.node.send_matched(to, message)
    }

    // ---- receives

    /// Blocks until a message that `pattern` admits is in `buffer`, for at most `limit`; nothing if
    /// none came.
    ///
    /// # Errors
    /// [`Error::Ended`]; [`Error::Closed`]; [`Error::Woken`]; [`Error::Io`].
    pub fn receive(
        &self,
        pattern: Pattern,
        buffer: &mut [u8],
        limit: Duration,
    ) -> Result<Option<Matched>, Error> {
        self.scope(|scope| {
            let mut posted = scope.post(pattern, buffer)?;
            scope.wait(&mut posted, limit)
        })
    }

    /// Calls `work`, which may post receives into buffers that outlive this call, and wait for
    /// them. Receives that are open when `work` returns are withdrawn.
    pub fn scope<'env, T>(&self, work: impl FnOnce(&MatchingScope<'_, 'env, N>) -> T) -> T {
        work(&MatchingScope::new(self.node))
    }

    /// Posts a receive into memory that is named by addresses, for bindings to other languages. Its
    /// parts are filled one after the other. With `least`, the buffer takes several messages, until
    /// fewer than `least` bytes are free.
    ///
    /// # Safety
    /// The memory stays valid for writes, and the program does not use it, until a completion of
    /// the receive is taken that says [`released`](Completion::released), or
    /// [`cancel`](Self::cancel) returned true for it, or the node was closed.
    ///
    /// # Errors
    /// [`MatchingError::Buffer`]; [`Error::Closed`]; [`Error::Forked`].
    pub unsafe fn post_raw(
        &self,
        pattern: Pattern,
        parts: &[RawPart],
        least: Option<u64>,
    ) -> Result<ReceiveId, MatchingError> {
        self.node.check_open()?;
        // SAFETY: the caller promises it.
        let buffer = unsafe { raw_buffer(parts, least) }?;
        let receive = self.with(|table| table.post(pattern, buffer));
        self.after_change()?;
        Ok(receive)
    }

    /// As [`post_raw`](Self::post_raw), for a message that was [claimed](Self::claim).
    ///
    /// # Safety
    /// As there.
    ///
    /// # Errors
    /// As there; [`MatchingError::NoSuchMessage`].
    pub unsafe fn receive_claimed_raw(
        &self,
        message: MessageId,
        parts: &[RawPart],
    ) -> Result<ReceiveId, MatchingError> {
        self.node.check_open()?;
        // SAFETY: the caller promises it.
        let buffer = unsafe { raw_buffer(parts, None) }?;
        let receive = self.with(|table| table.receive_claimed(message, buffer))?;
        self.after_change()?;
        Ok(receive)
    }

    /// Withdraws a receive. Returns true if nothing more is heard of it; false if a message has
    /// come to it, or is on its way to it: its completion follows.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn cancel(&self, receive: ReceiveId) -> Result<bool, Error> {
        self.node.check_open()?;
        Ok(self.with(|table| table.cancel(receive)))
    }

    // ---- completions

    /// Takes the oldest completion. Blocks for at most `limit`; nothing if none came.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::Woken`]; [`Error::Io`].
    pub fn next_completion(&self, limit: Duration) -> Result<Option<Completion>, Error> {
        let take = |table: &mut Queues| table.poll_completion();
        self.take(AwaitedMatch::AnyCompletion, limit, take)
    }

    /// Takes the oldest completion of one receive. Blocks for at most `limit`; nothing if none
    /// came.
    ///
    /// # Errors
    /// As [`next_completion`](Self::next_completion).
    pub fn completion_of(
        &self,
        receive: ReceiveId,
        limit: Duration,
    ) -> Result<Option<Completion>, Error> {
        let take = |table: &mut Queues| table.take_completion(receive);
        self.take(AwaitedMatch::Completion(receive), limit, take)
    }

    // ---- messages that no receive has taken

    /// Returns the oldest message that `pattern` admits and no receive has taken. Blocks for at
    /// most `limit` until there is one. It stays where it is, and its bytes may still be on their
    /// way.
    ///
    /// # Errors
    /// As [`next_completion`](Self::next_completion).
    pub fn peek(&self, pattern: &Pattern, limit: Duration) -> Result<Option<Peeked>, Error> {
        self.take(AwaitedMatch::Message, limit, |table| table.peek(pattern))
    }

    /// As [`peek`](Self::peek), and keeps the message: only
    /// [`MatchingScope::receive_claimed`] and [`discard`](Self::discard) take it.
    ///
    /// # Errors
    /// As [`next_completion`](Self::next_completion).
    pub fn claim(&self, pattern: &Pattern, limit: Duration) -> Result<Option<Peeked>, Error> {
        self.take(AwaitedMatch::Message, limit, |table| table.claim(pattern))
    }

    /// Discards a message that was claimed.
    ///
    /// # Errors
    /// [`MatchingError::NoSuchMessage`]; [`Error::Closed`].
    pub fn discard(&self, message: MessageId) -> Result<(), MatchingError> {
        self.node.check_open()?;
        self.with(|table| table.discard(message))?;
        Ok(self.after_change()?)
    }

    /// Returns how many messages no receive has taken, and the bytes that they count.
    #[must_use]
    pub fn unexpected(&self) -> (usize, u64) {
        self.with(|table| table.unexpected())
    }

    // ---- inside

    fn with<T>(&self, change: impl FnOnce(&mut Queues) -> T) -> T {
        self.node.state().table.with(change)
    }

    /// Has announced messages answered, if the change concerned some.
    fn after_change(&self) -> Result<(), Error> {
        match self.node.state().table.wants_service() {
            true => self.node.serve(),
            false => Ok(()),
        }
    }

    fn take<T>(
        &self,
        awaited: AwaitedMatch,
        limit: Duration,
        mut take: impl FnMut(&mut Queues) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        self.node.check_open()?;
        if let Some(taken) = self.with(&mut take) {
            return Ok(Some(taken));
        }
        if limit.is_zero() {
            self.node.turn()?;
            return Ok(self.with(take));
        }
        self.node.await_match(awaited, Deadline::after(limit), take)
    }
}

/// Waits for a completion of a receive that admits messages of the node `from` alone, or of any.
fn await_completion<N: MatchingNode>(
    node: &N,
    receive: ReceiveId,
    from: Option<NodeId>,
    limit: Duration,
) -> Result<Option<Completion>, Error> {
    let matching = Matching::new(node);
    let Some(from) = from.filter(|_| limit > WATCH_AFTER) else {
        return matching.completion_of(receive, limit);
    };
    let soon = matching.completion_of(receive, WATCH_AFTER)?;
    if soon.is_some() {
        return Ok(soon);
    }
    node.watch(from, true)?;
    let late = matching.completion_of(receive, limit.saturating_sub(WATCH_AFTER));
    node.watch(from, false)?;
    late
}

/// The buffer of a receive in memory that addresses name.
///
/// # Safety
/// The memory stays valid for writes, and nobody else uses it, until the receive is over.
unsafe fn raw_buffer(parts: &[RawPart], least: Option<u64>) -> Result<Buffer, BufferError> {
    let lend = |&(first, length): &RawPart| {
        // SAFETY: the caller promises that the memory stays valid, and that it is lent until then.
        let bytes = unsafe { SharedBytes::new(first, length) };
        LentBytes::exclusive(bytes) as Arc<dyn Memory>
    };
    let buffer = Buffer::new(parts.iter().map(lend))?;
    match least {
        Some(least) => buffer.for_several(least),
        None => Ok(buffer),
    }
}
