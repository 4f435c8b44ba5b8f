//! Messages as the program sees them.

use crate::error::Error;
use bytes::Bytes;
use std::fmt;
use std::time::Duration;
use suci_proto::message::Brief;
use suci_proto::types::{ChannelId, Kind, MessageNumber, NodeId, SessionNumber, Source};
use suci_proto::{Data, Outgoing, SmallOutgoing};

/// A message received completely.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// The node that sent it.
    pub from: NodeId,
    /// The session with the sender in which it came. A sender that started anew has a new one.
    pub session: SessionNumber,
    /// The channel it came on.
    pub channel: ChannelId,
    /// Its number there, from 0 in every session. Those of messages that were refused, or that
    /// their sender cancelled, are passed over.
    pub number: MessageNumber,
    /// The sender's tag; 0 if it named none.
    pub tag: u64,
    /// The meaning of the message; [`Kind::USER`] if the sender named none. A peer with a newer
    /// library may send kinds below 128, and messages on channels above [`ChannelId::LAST_USER`]:
    /// pass over those that the program does not know.
    pub kind: Kind,
    /// The sender's header, 0 to 255 bytes.
    pub user_header: Bytes,
    /// The bytes. Up to 32 stand here. Longer ones, up to 2 KiB, and headers may share up to 16 KiB
    /// of memory with other messages. That memory stays as long as one of them is kept, so copy a
    /// payload that is to stay for long (`Bytes::copy_from_slice`).
    pub payload: Data,
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("from", &self.from)
            .field("session", &self.session)
            .field("channel", &self.channel)
            .field("number", &self.number)
            .field("tag", &self.tag)
            .field("kind", &self.kind)
            .field("user_header", &Brief(&self.user_header))
            .field("payload", &Brief(&self.payload))
            .finish()
    }
}

impl Message {
    /// Whether its sender waits for a reply, as [`Node::call`](crate::Node::call) does.
    #[must_use]
    pub fn is_request(&self) -> bool {
        self.kind == Kind::REQUEST
    }

    /// Makes `with` the reply to this request. Send the reply to
    /// [`Message::from`](Message#structfield.from) by any call that sends. It goes on the request's
    /// channel, whatever channel `with` names, but waits for no message there. `with` may have a
    /// payload, a user header, a kind and a notification, but no tag. The caller gets the first
    /// reply. Its library drops and counts later replies, and replies to a call that is over
    /// ([`Counters::late_replies`](crate::Counters)).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use suci::{AcceptPolicy, Node, NodeId};
    /// # fn main() -> Result<(), suci::Error> {
    /// let mut server = Node::builder().id(NodeId(0)).accept(AcceptPolicy::Anyone).open()?;
    /// let address = server.local_addr();
    /// let client = std::thread::spawn(move || -> Result<_, suci::Error> {
    ///     let mut node = Node::builder().id(NodeId(1)).open()?;
    ///     node.add_peer(NodeId(0), address)?;
    ///     node.call(NodeId(0), "seven times six", Duration::from_secs(5))
    /// });
    /// let request = server.recv()?;
    /// server.send(request.from, request.reply("forty-two")?)?;
    /// server.close(Duration::from_secs(5))?;
    /// assert_eq!(&*client.join().unwrap()?.payload, b"forty-two");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NotARequest`]; [`Error::Reserved`] if `with` has a tag.
    pub fn reply(&self, with: impl Into<OutgoingMessage>) -> Result<OutgoingMessage, Error> {
        if !self.is_request() {
            return Err(Error::NotARequest(self.from));
        }
        let mut reply = with.into();
        reply.check_unused("the tag", reply.outgoing.tag != 0, "a reply")?;
        reply.outgoing.channel = self.channel.replies();
        reply.outgoing.tag = self.tag;
        reply.is_placed = true;
        Ok(reply)
    }

    pub(crate) fn new(from: Source, message: suci_proto::Message) -> Self {
        Self {
            from: from.node,
            session: from.session,
            channel: message.channel,
            number: message.number,
            tag: message.tag,
            kind: message.kind,
            user_header: message.user_header,
            payload: message.payload,
        }
    }

    /// Returns the node and the session that it came from.
    pub(crate) const fn source(&self) -> Source {
        Source {
            node: self.from,
            session: self.session,
        }
    }
}

/// A message to be sent: a payload, and other values for the receiver.
///
/// Anything that becomes [`Bytes`] without copying (`Bytes`, `Vec<u8>`, `String`, `&'static str`)
/// becomes a message on channel 0 by itself.
///
/// ```
/// use suci::{ChannelId, OutgoingMessage};
/// let message = OutgoingMessage::new("hello").channel(ChannelId(3)).tag(9).notify(1);
/// # let _ = message;
/// ```
#[must_use = "a message is not sent before it is given to `send`, `call` or the like"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutgoingMessage {
    outgoing: Outgoing,
    /// A call of the library named the channel, which is one of its own: of a reply, or of a
    /// message for a receive.
    is_placed: bool,
}

impl OutgoingMessage {
    /// A message on channel 0 with tag 0, no header and no notification.
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self::from_outgoing(Outgoing {
            channel: ChannelId(0),
            tag: 0,
            kind: Kind::USER,
            user_header: Bytes::new(),
            payload: payload.into(),
            notify: false,
            token: 0,
            deadline: None,
        })
    }

    /// On this channel, 0 to 16,777,215 ([`ChannelId::LAST_USER`]); sending on another fails with
    /// [`Error::ReservedChannel`]. Messages on one channel keep their order; channels never block
    /// one another.
    pub fn channel(mut self, channel: ChannelId) -> Self {
        self.outgoing.channel = channel;
        self.is_placed = false;
        self
    }

    /// For a [receive](crate::matching) of the peer on the channel of matching with this number, of
    /// which the lower 24 bits count. The tag decides which receive takes it. All calls that send
    /// may send it.
    ///
    /// ```
    /// use suci::OutgoingMessage;
    /// let message = OutgoingMessage::new("hello").matched(0).tag(7);
    /// # let _ = message;
    /// ```
    pub fn matched(mut self, channel: u32) -> Self {
        self.outgoing.channel = ChannelId::of_matching(channel);
        self.is_placed = true;
        self
    }

    /// Sets the tag, which is free for the program's use.
    pub fn tag(mut self, tag: u64) -> Self {
        self.outgoing.tag = tag;
        self
    }

    /// Sets the kind, 128 to 255; sending another fails with [`Error::ReservedKind`].
    pub fn kind(mut self, kind: Kind) -> Self {
        self.outgoing.kind = kind;
        self
    }

    /// Sets the header that goes beside the payload: at most 255 bytes.
    pub fn user_header(mut self, header: impl Into<Bytes>) -> Self {
        self.outgoing.user_header = header.into();
        self
    }

    /// Asks for [`Event::Delivered`](crate::Event::Delivered) when the peer's library holds it.
    /// `token` is returned there and in the message's outcome.
    pub fn notify(mut self, token: u64) -> Self {
        self.outgoing.notify = true;
        self.outgoing.token = token;
        self
    }

    /// Names the message in its outcome, and for [`Peer::cancel`](crate::Peer::cancel), without
    /// asking to be told of its delivery.
    pub fn token(mut self, token: u64) -> Self {
        self.outgoing.token = token;
        self
    }

    /// Cancels the message if none of it was sent `within` this time after it was accepted. A
    /// cancelled message is never sent, and the queue has its room again. With
    /// [`OutgoingMessage::notify`], [`Event::NotDelivered`](crate::Event::NotDelivered) says so
    /// with the reason [`EXPIRED`](crate::EXPIRED). A message that the peer is asked about first
    /// ([`rts_threshold`](crate::NodeBuilder::rts_threshold)) counts as sent once it was asked. The
    /// time runs on while there is no connection, and while the session is suspended. A message
    /// that is sent in time may arrive at any time later. Messages of a burst may wait for one
    /// another for 2 ms: a shorter time may cancel one that could have been sent. `Duration::ZERO`
    /// cancels always.
    ///
    /// ```
    /// use std::time::Duration;
    /// use suci::OutgoingMessage;
    /// let message = OutgoingMessage::new("temperature 21").deadline(Duration::from_secs(1));
    /// # let _ = message;
    /// ```
    pub fn deadline(mut self, within: Duration) -> Self {
        self.outgoing.deadline = Some(within);
        self
    }

    /// The payload, given back.
    #[must_use]
    pub fn into_payload(self) -> Bytes {
        self.outgoing.payload
    }

    /// Refuses values that programs may not use: kinds of the library, and channels of its other
    /// layers. The library's own messages do not pass here.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Outgoing { kind, channel, .. } = self.outgoing;
        if !kind.is_user() {
            return Err(Error::ReservedKind { kind });
        }
        match self.is_placed {
            true => Ok(()),
            false => Error::check_channel(channel),
        }
    }

    /// The message for receives on a channel of matching, with a tag. A message that was not sent
    /// before may have neither of its own.
    pub(crate) fn for_receives(mut self, channel: ChannelId, tag: u64) -> Result<Self, Error> {
        let of = "a message for a receive (the call names it)";
        let given = &self.outgoing;
        let is_new = !given.channel.carries_matched();
        self.check_unused("the channel", is_new && given.channel.0 != 0, of)?;
        self.check_unused("the tag", is_new && given.tag != 0, of)?;
        self.outgoing.channel = channel;
        self.outgoing.tag = tag;
        self.is_placed = true;
        Ok(self)
    }

    /// Returns the message as a small one, if it is small.
    pub(crate) fn as_small(&self) -> Option<SmallOutgoing<'_>> {
        self.outgoing.as_small()
    }

    /// Checks that it can become a request: the tag names the call, and a request has no kind,
    /// token, deadline or notification.
    pub(crate) fn check_request(&self) -> Result<(), Error> {
        let of = "a request";
        self.check_unused("the tag", self.outgoing.tag != 0, of)?;
        self.check_unused("the kind", self.outgoing.kind != Kind::USER, of)?;
        self.check_unused("the token (in C the cookie)", self.outgoing.token != 0, of)?;
        self.check_unused("the deadline", self.outgoing.deadline.is_some(), of)?;
        self.check_unused("the notification", self.outgoing.notify, of)
    }

    fn check_unused(&self, what: &'static str, used: bool, of: &'static str) -> Result<(), Error> {
        match used {
            true => Err(Error::Reserved { what, of }),
            false => Ok(()),
        }
    }

    /// Bytes of the payload.
    pub(crate) fn len(&self) -> usize {
        self.outgoing.payload.len()
    }

    /// Restores a message that the engine gave back. It was checked when it was made.
    pub(crate) fn from_outgoing(outgoing: Outgoing) -> Self {
        let channel = outgoing.channel;
        let is_placed = channel.carries_replies() || channel.carries_matched();
        Self {
            outgoing,
            is_placed,
        }
    }

    pub(crate) fn outgoing(&self) -> &Outgoing {
        &self.outgoing
    }

    pub(crate) fn into_outgoing(self) -> Outgoing {
        self.outgoing
    }
}

impl<T: Into<Bytes>> From<T> for OutgoingMessage {
    fn from(payload: T) -> Self {
        Self::new(payload)
    }
}

/// A small message of these bytes, on channel 0, without tag or header.
pub(crate) fn small(payload: &[u8]) -> SmallOutgoing<'_> {
    SmallOutgoing {
        channel: ChannelId(0),
        tag: 0,
        kind: Kind::USER,
        user_header: &[],
        payload,
        notify: false,
        token: 0,
    }
}
