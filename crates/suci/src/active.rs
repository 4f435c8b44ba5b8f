//! Active messages: messages that run a handler of the program at their receiver.
//!
//! After Illinois Fast Messages (Pakin, Lauria and Chien, Supercomputing 1995): a message names the
//! handler that runs at its receiver, and handlers run only where the program asks for it, in
//! [`ActiveMessages::extract`]. No interrupt and no other thread runs them.

use crate::error::Error;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;
use suci_layers::ActiveHeader;
use suci_proto::types::{ChannelId, Kind, NodeId, SessionNumber, Source};
use suci_proto::{Data, Message, Outgoing, Side};

pub use suci_layers::MAX_WORDS;

/// Messages of handlers that may wait for room in the queues of the node.
pub const MAX_WAITING: usize = 1_024;

/// Bytes of their payloads, if there is more than one.
pub const MAX_WAITING_BYTES: usize = 16 << 20;

/// Why an active message was not sent, or not handled.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ActiveError {
    /// A call of the node failed.
    #[error(transparent)]
    Node(#[from] Error),
    /// A message has more than [`MAX_WORDS`] words.
    #[error("{count} words: at most {MAX_WORDS} are possible; put the rest into the payload")]
    TooManyWords {
        /// Their number.
        count: usize,
    },
    /// The program filled the half of the queue to a node that it may fill. The payload comes back.
    #[error(
        "the queue of active messages to node {to} is full: extract, and send again, or raise send_queue"
    )]
    QueueFull {
        /// The receiver.
        to: NodeId,
        /// The payload.
        payload: Bytes,
    },
    /// The handlers sent more than may wait ([`MAX_WAITING`], [`MAX_WAITING_BYTES`]). The payload
    /// comes back.
    #[error(
        "messages of handlers wait for room, {MAX_WAITING} or {MAX_WAITING_BYTES} bytes: send fewer from one handler"
    )]
    HandlersFull {
        /// The receiver.
        to: NodeId,
        /// The payload.
        payload: Bytes,
    },
    /// A message of a handler was not sent: it is dropped.
    #[error("a message that a handler sent to node {to} was dropped: {source}")]
    Dropped {
        /// The receiver.
        to: NodeId,
        /// The reason.
        source: Error,
    },
    /// A message names a handler that the program does not have: it is dropped.
    #[error(
        "a message of node {from} for handler {handler} was dropped: set a handler with that number before extracting"
    )]
    NoHandler {
        /// The sender.
        from: NodeId,
        /// The number.
        handler: u16,
    },
    /// A message is no active message, though it came on one of their channels: it is dropped.
    #[error(
        "a message of node {from} was dropped, since it is no active message: run the same version of the library there"
    )]
    Malformed {
        /// The sender.
        from: NodeId,
    },
}

/// An active message, as its handler gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveMessage {
    /// The node that sent it.
    pub from: NodeId,
    /// The session with the sender in which it came. A sender that started anew has a new one.
    pub session: SessionNumber,
    /// The bytes.
    pub payload: Data,
    header: ActiveHeader,
}

impl ActiveMessage {
    /// Returns the number of the handler that it names.
    #[must_use]
    pub const fn handler(&self) -> u16 {
        self.header.handler()
    }

    /// Returns its words, at most [`MAX_WORDS`].
    #[must_use]
    pub fn words(&self) -> &[u64] {
        self.header.words()
    }
}

/// A message that was taken, or the failure of one that a handler sent.
type Next = Result<(Source, Message), ActiveError>;

type Handler<'h> = Box<dyn FnMut(&mut Replies, ActiveMessage) + 'h>;

/// A node whose active messages a program takes: a [`Node`](crate::Node) or a
/// [`SharedNode`](crate::SharedNode).
pub trait ActiveNode: ActiveHost {}

impl<N: ActiveHost> ActiveNode for N {}

/// The verbs that active messages need of their node.
pub trait ActiveHost {
    /// Queues a message of the program, if it finds room in the half of the queue that such
    /// messages may fill.
    fn send_active(&mut self, to: NodeId, message: Outgoing) -> Result<(), Error>;

    /// Does input and output, if that is not done without the program. Fails if the node was closed
    /// and has no message left.
    fn poll_for_active(&mut self) -> Result<(), Error>;

    /// Returns what `take` finds now. Input and output go on beside, and if it finds nothing, all
    /// is sent that handlers sent.
    fn take_active_now<M>(
        &mut self,
        take: impl FnOnce(&mut dyn ActiveCarrier) -> Option<M>,
    ) -> Result<Option<M>, Error>;

    /// Waits until `take` finds something, for at most `limit`.
    fn take_active_within<M>(
        &mut self,
        limit: Duration,
        take: impl FnMut(&mut dyn ActiveCarrier) -> Option<M>,
    ) -> Result<Option<M>, Error>;
}

/// The engine of a node, or the queues before those of its threads.
pub trait ActiveCarrier {
    /// Queues a message of a handler, if there is room.
    fn offer_active(&mut self, to: NodeId, message: Outgoing) -> Result<(), Error>;

    /// Takes the next active message, on the channel `only` if one is named.
    fn take_active(&mut self, only: Option<ChannelId>) -> Option<(Source, Message)>;
}

/// The active messages of a program: its handlers, and what they sent.
///
/// Use one for a node: it takes all active messages of the node that it is given. Handlers run in
/// the thread that extracts, also of a [`SharedNode`](crate::SharedNode), whose own threads run
/// none.
///
/// Messages that the program sends to a node are handled there in their order, each once, and so
/// are those that its handlers send to the node. Between the two there is no order: a handler's
/// message must not wait for the program's.
///
/// Memory is bounded. A program that does not extract holds its senders back by memory credit. If
/// the queue to a node has no room for what a handler sent, the message waits here, and
/// [`extract`](Self::extract) takes no messages of programs until it was sent. It still takes
/// messages of handlers while fewer than half of [`MAX_WAITING`] messages and
/// [`MAX_WAITING_BYTES`] wait. So nodes that flood each other with messages whose handlers reply
/// come to no deadlock, if the handlers of the replies send nothing, and if no other unread
/// messages fill the memory of the session. A program whose handlers answer replies must bound how
/// many messages are underway. Messages of more than 256 KiB wait for memory in the order in which
/// they were announced, so that large replies may wait for large messages of programs.
///
/// ```
/// use std::time::Duration;
/// use suci::active::{ActiveError, ActiveMessages};
/// use suci::{AcceptPolicy, Node, NodeId};
///
/// const SQUARE: u16 = 1;
/// const RESULT: u16 = 2;
///
/// fn main() -> Result<(), ActiveError> {
///     let mut server = Node::builder().id(NodeId(0)).accept(AcceptPolicy::Anyone).open()?;
///     let address = server.local_addr();
///     let client = std::thread::spawn(move || -> Result<u64, ActiveError> {
///         let mut node = Node::builder().id(NodeId(1)).open()?;
///         node.add_peer(NodeId(0), address)?;
///         let mut result = 0;
///         let mut active = ActiveMessages::new();
///         active.set_handler(RESULT, |_, message| result = message.words()[0]);
///         active.send(&mut node, NodeId(0), SQUARE, &[12], "")?;
///         active.extract_timeout(&mut node, 1, Duration::from_secs(5))?;
///         drop(active);
///         Ok(result)
///     });
///     let mut active = ActiveMessages::new();
///     active.set_handler(SQUARE, |replies, message| {
///         let square = message.words().iter().map(|word| word * word).sum();
///         let sent = replies.send(message.from, RESULT, &[square], "");
///         assert!(sent.is_ok());
///     });
///     active.extract_timeout(&mut server, 1, Duration::from_secs(5))?;
///     server.close(Duration::from_secs(5))?;
///     assert_eq!(client.join().expect("the client ran")?, 144);
///     Ok(())
/// }
/// ```
#[derive(Default)]
pub struct ActiveMessages<'h> {
    handlers: BTreeMap<u16, Handler<'h>>,
    replies: Replies,
    /// The failure that the next call of `extract` tells.
    failure: Option<ActiveError>,
    dropped: u64,
}

impl fmt::Debug for ActiveMessages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActiveMessages")
            .field("handlers", &self.handlers.keys())
            .field("replies", &self.replies)
            .field("dropped", &self.dropped)
            .finish_non_exhaustive()
    }
}

impl<'h> ActiveMessages<'h> {
    /// Makes one without handlers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the handler with this number, in the place of an earlier one. All nodes of a program
    /// give handlers the same numbers. Set all that a message may name before the first
    /// [`extract`](Self::extract).
    ///
    /// A handler runs in a call that extracts. It must not block for long: no other message is
    /// handled meanwhile. It sends by the [`Replies`] that it is given.
    pub fn set_handler(
        &mut self,
        number: u16,
        handler: impl FnMut(&mut Replies, ActiveMessage) + 'h,
    ) {
        self.handlers.insert(number, Box::new(handler));
    }

    /// Sends a message that runs the handler with the number `handler` at the node `to`, which may
    /// be this node. It has up to [`MAX_WORDS`] words, and a payload, which is handled as
    /// [`Node::send`](crate::Node::send) does. Does not block.
    ///
    /// # Errors
    /// [`ActiveError::QueueFull`] gives the payload back; [`ActiveError::TooManyWords`]; and as
    /// [`Node::send`](crate::Node::send).
    pub fn send(
        &mut self,
        node: &mut impl ActiveNode,
        to: NodeId,
        handler: u16,
        words: &[u64],
        payload: impl Into<Bytes>,
    ) -> Result<(), ActiveError> {
        let message = outgoing(ChannelId::ACTIVE, handler, words, payload.into())?;
        match node.send_active(to, message) {
            Ok(()) => Ok(()),
            Err(Error::WouldBlock { to, message }) => {
                let payload = message.into_payload();
                Err(ActiveError::QueueFull { to, payload })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Does input and output once, then runs the handlers of messages that are there, `most` at
    /// most, and sends what they send. Returns how many handlers ran. Waits for nothing.
    ///
    /// A program that waits on the node's descriptor first extracts until no handler ran.
    ///
    /// # Errors
    /// [`ActiveError::NoHandler`], [`ActiveError::Malformed`] and [`ActiveError::Dropped`] tell of
    /// a message that was dropped, each once: the next call goes on. Handlers that ran before in
    /// the same call are counted first: the next call tells of the message.
    /// [`ActiveError::Node`] as [`Node::try_recv`](crate::Node::try_recv).
    pub fn extract(
        &mut self,
        node: &mut impl ActiveNode,
        most: usize,
    ) -> Result<usize, ActiveError> {
        self.tell_failure()?;
        if most == 0 {
            return Ok(0);
        }
        node.poll_for_active()?;
        self.run(node, most, None)
    }

    /// As [`extract`](Self::extract), but blocks until at least one handler ran, for at most
    /// `limit`. Returns 0 if none did.
    ///
    /// # Errors
    /// As [`extract`](Self::extract); [`Error::Woken`].
    pub fn extract_timeout(
        &mut self,
        node: &mut impl ActiveNode,
        most: usize,
        limit: Duration,
    ) -> Result<usize, ActiveError> {
        self.tell_failure()?;
        if most == 0 {
            return Ok(0);
        }
        let replies = &mut self.replies;
        match node.take_active_within(limit, |carrier| replies.next(carrier))? {
            None => Ok(0),
            next => self.run(node, most, next),
        }
    }

    /// Returns the number of messages that were dropped: those that named no handler or were no
    /// active messages, and those of handlers that could not be sent.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the number of messages of handlers that wait for room in the queues of the node.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.replies.messages.len()
    }

    fn tell_failure(&mut self) -> Result<(), ActiveError> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Runs the handler of `first`, if there is one, and of further messages, until `most` ran.
    fn run(
        &mut self,
        node: &mut impl ActiveNode,
        most: usize,
        mut first: Option<Next>,
    ) -> Result<usize, ActiveError> {
        let mut handled = 0;
        loop {
            let next = match first.take() {
                Some(next) => Some(next),
                None if handled < most => {
                    node.take_active_now(|carrier| self.replies.next(carrier))?
                }
                // Messages of the last handler go even if no further message is to be taken.
                None => {
                    node.take_active_now(|carrier| self.replies.flush(carrier).err().map(Err))?
                }
            };
            let Some(next) = next else {
                return Ok(handled);
            };
            let Err(error) = self.handle(next) else {
                handled += 1;
                continue;
            };
            node.take_active_now(|_| None::<Next>)?;
            if handled == 0 {
                return Err(error);
            }
            self.failure = Some(error);
            return Ok(handled);
        }
    }

    /// Runs the handler of a message.
    fn handle(&mut self, next: Next) -> Result<(), ActiveError> {
        let handled = next.and_then(|(from, message)| {
            let message = parse(from, message)?;
            let (from, handler) = (message.from, message.handler());
            let run = self.handlers.get_mut(&handler);
            let run = run.ok_or(ActiveError::NoHandler { from, handler })?;
            run(&mut self.replies, message);
            Ok(())
        });
        self.dropped += u64::from(handled.is_err());
        handled
    }
}

fn parse(from: Source, message: Message) -> Result<ActiveMessage, ActiveError> {
    let header = match message.kind {
        Kind::ACTIVE => ActiveHeader::read(&message.user_header),
        _ => None,
    };
    Ok(ActiveMessage {
        from: from.node,
        session: from.session,
        payload: message.payload,
        header: header.ok_or(ActiveError::Malformed { from: from.node })?,
    })
}

fn outgoing(
    channel: ChannelId,
    handler: u16,
    words: &[u64],
    payload: Bytes,
) -> Result<Outgoing, ActiveError> {
    let count = words.len();
    let header = ActiveHeader::new(handler, words).ok_or(ActiveError::TooManyWords { count })?;
    Ok(Outgoing {
        channel,
        tag: 0,
        kind: Kind::ACTIVE,
        user_header: header.write(),
        payload,
        notify: false,
        token: 0,
        deadline: None,
    })
}

/// The messages that handlers send and that the node did not accept yet, in order.
#[derive(Debug, Default)]
pub struct Replies {
    messages: VecDeque<(NodeId, Outgoing)>,
    /// Bytes of their payloads.
    bytes: usize,
}

impl Replies {
    /// Sends a message as [`ActiveMessages::send`] does, but on behalf of a handler: it goes when
    /// the handler returned, by the same call that extracts. It may go to any node: a reply goes to
    /// the [sender](ActiveMessage#structfield.from).
    ///
    /// A handler of a message of a program may send at least [`MAX_WAITING`] messages with
    /// [`MAX_WAITING_BYTES`] in all, or one message of any length; one of a message of a handler
    /// half of it. If the node cannot take a message, as when it knows no such receiver, the call
    /// that extracts tells it.
    ///
    /// # Errors
    /// [`ActiveError::HandlersFull`] gives the payload back; [`ActiveError::TooManyWords`].
    pub fn send(
        &mut self,
        to: NodeId,
        handler: u16,
        words: &[u64],
        payload: impl Into<Bytes>,
    ) -> Result<(), ActiveError> {
        let payload = payload.into();
        let bytes = self.bytes.saturating_add(payload.len());
        let full = self.messages.len() >= MAX_WAITING || bytes > MAX_WAITING_BYTES;
        if full && !self.messages.is_empty() {
            return Err(ActiveError::HandlersFull { to, payload });
        }
        let channel = ChannelId::ACTIVE_BY_HANDLERS;
        let message = outgoing(channel, handler, words, payload)?;
        self.messages.push_back((to, message));
        self.bytes = bytes;
        Ok(())
    }

    /// Hands the messages to the engine, and takes the next message from it: nothing if there is
    /// none, or if none may be handled before more was sent.
    fn next(&mut self, carrier: &mut dyn ActiveCarrier) -> Option<Next> {
        if let Err(error) = self.flush(carrier) {
            return Some(Err(error));
        }
        let only = match self.messages.len() {
            0 => None,
            waiting if waiting > MAX_WAITING / 2 || self.bytes > MAX_WAITING_BYTES / 2 => {
                return None;
            }
            _ => Some(ChannelId::ACTIVE_BY_HANDLERS),
        };
        carrier.take_active(only).map(Ok)
    }

    /// Hands messages to the engine, until one finds no room.
    ///
    /// # Errors
    /// [`ActiveError::Dropped`]: the engine will never take the message.
    fn flush(&mut self, carrier: &mut dyn ActiveCarrier) -> Result<(), ActiveError> {
        while let Some((to, message)) = self.messages.pop_front() {
            let bytes = message.payload.len();
            match carrier.offer_active(to, message) {
                Err(
                    Error::WouldBlock { message, .. }
                    | Error::Suspended {
                        message,
                        by: Side::There,
                        ..
                    },
                ) => {
                    self.messages.push_front((to, message.into_outgoing()));
                    return Ok(());
                }
                offered => {
                    self.bytes = self.bytes.saturating_sub(bytes);
                    offered.map_err(|source| ActiveError::Dropped { to, source })?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AcceptPolicy, AddressBook, Node};

    const LONG: Duration = Duration::from_secs(30);

    /// Nodes 0 and 1, of which 0 knows 1, with queues of so many bytes.
    fn pair_with(send_queue: u64) -> (Node, Node) {
        let open = |id| {
            let builder = Node::builder().id(NodeId(id)).book(AddressBook::new());
            let listen = "127.0.0.1:0".parse().unwrap();
            let builder = builder.accept(AcceptPolicy::Anyone).listen(listen);
            builder.send_queue(send_queue).open().unwrap()
        };
        let (mut a, b) = (open(0), open(1));
        a.add_peer(b.id(), b.local_addr()).unwrap();
        (a, b)
    }

    /// Sends a message that this library would not send.
    fn send_raw(node: &mut Node, channel: u32, kind: Kind, user_header: &[u8]) {
        let message = Outgoing {
            channel: ChannelId::of_active_messages(channel),
            kind,
            user_header: Bytes::copy_from_slice(user_header),
            ..outgoing(ChannelId::ACTIVE, 1, &[], Bytes::new()).unwrap()
        };
        let mut driver = node.enter().unwrap();
        driver.read_clock();
        driver.offer(NodeId(1), message).unwrap();
        driver.send_accepted_now();
    }

    #[test]
    fn f13_messages_with_another_header_or_kind_are_dropped_and_counted() {
        let (mut a, mut b) = pair_with(1 << 20);
        let mut ran = 0;
        let mut active = ActiveMessages::new();
        active.set_handler(1, |_, message| {
            assert!(message.words().is_empty());
            ran += 1;
        });
        let longest = [0; 2 + 9 * 8];
        let hostile: [(Kind, &[u8]); 6] = [
            (Kind::ACTIVE, &[]),
            (Kind::ACTIVE, &[1]),
            (Kind::ACTIVE, &[1, 0, 9, 9, 9]),
            (Kind::ACTIVE, &longest),
            (Kind::USER, &[1, 0]),
            (Kind::REQUEST, &[1, 0]),
        ];
        for (kind, header) in hostile {
            send_raw(&mut a, 0, kind, header);
        }
        for channel in 0..3 {
            send_raw(&mut a, channel, Kind::ACTIVE, &[1, 0]);
        }
        let (mut handled, mut refused) = (0, 0);
        while handled + refused < 9 {
            match active.extract_timeout(&mut b, 1, LONG) {
                Ok(ran) => handled += ran,
                Err(ActiveError::Malformed { from }) if from == a.id() => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!((handled, refused, active.dropped()), (3, 6, 6));
        drop(active);
        assert_eq!(ran, 3);
    }

    #[test]
    fn while_replies_wait_only_messages_of_handlers_are_taken() {
        let (mut a, mut b) = pair_with(1 << 16);
        let mut sender = ActiveMessages::new();
        sender.send(&mut a, b.id(), 1, &[], "").unwrap();
        send_raw(&mut a, 1, Kind::ACTIVE, &[2, 0]);
        a.flush(LONG).unwrap();
        // A node that does not answer: the first message fills the queue to it.
        let nobody = NodeId(9);
        b.add_peer(nobody, "127.0.0.1:9".parse().unwrap()).unwrap();
        let mut replies = Replies::default();
        for _ in 0..2 {
            replies.send(nobody, 1, &[], vec![0; 1 << 16]).unwrap();
        }
        b.poll_for_active().unwrap();
        let mut driver = b.enter().unwrap();
        let handler = |next: Option<Next>| {
            let (from, message) = next.unwrap().unwrap();
            parse(from, message).unwrap().handler()
        };
        assert_eq!(handler(replies.next(&mut *driver)), 2);
        assert_eq!(replies.messages.len(), 1);
        assert!(replies.next(&mut *driver).is_none());
        replies = Replies::default();
        assert_eq!(handler(replies.next(&mut *driver)), 1);
    }
}
