//! Messages as the program sees them.

use crate::error::Error;
use bytes::Bytes;
use std::fmt;
use suci_proto::message::Brief;
use suci_proto::types::{ChannelId, Kind, MessageNumber, NodeId, SessionNumber, Source};
use suci_proto::{Data, Outgoing, SmallOutgoing};

/// A message received completely.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// Who sent it.
    pub from: NodeId,
    /// Which of this node's sessions with the sender it came in. A sender that started anew has a new one.
    pub session: SessionNumber,
    /// The channel it came on.
    pub channel: ChannelId,
    /// Its number there, from 0 in every session.
    pub number: MessageNumber,
    /// The sender's tag; 0 if it named none.
    pub tag: u64,
    /// What it means; [`Kind::USER`] if the sender named nothing. A peer with a newer library may send kinds below 128, and
    /// messages on channels above [`ChannelId::LAST_USER`]: pass over those that the program does not know.
    pub kind: Kind,
    /// The sender's header, 0 to 255 bytes.
    pub user_header: Bytes,
    /// The bytes. Up to 32 stand here. Longer ones, up to 2 KiB, and headers may share up to 16 KiB of memory with other messages, all
    /// of which stays as long as one is kept: copy what is to stay for long (`Bytes::copy_from_slice`).
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
    pub(crate) fn new(from: Source, message: suci_proto::Message) -> Self {
        let suci_proto::Message {
            channel,
            number,
            tag,
            kind,
            user_header,
            payload,
        } = message;
        Self {
            from: from.node,
            session: from.session,
            channel,
            number,
            tag,
            kind,
            user_header,
            payload,
        }
    }

    /// Where it came from.
    pub(crate) const fn source(&self) -> Source {
        Source {
            node: self.from,
            session: self.session,
        }
    }
}

/// A message to be sent: a payload, and what else the receiver should know.
///
/// Anything that becomes [`Bytes`] without copying (`Bytes`, `Vec<u8>`, `String`, `&'static str`) is a draft
/// on channel 0 by itself.
///
/// ```
/// use suci::{ChannelId, Draft};
/// let draft = Draft::new("hello").channel(ChannelId(3)).tag(9).notify(1);
/// # let _ = draft;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    outgoing: Outgoing,
}

impl Draft {
    /// A message on channel 0 with tag 0, no header and no notification.
    #[must_use]
    pub fn new(payload: impl Into<Bytes>) -> Self {
        Self::from_outgoing(Outgoing {
            channel: ChannelId(0),
            tag: 0,
            kind: Kind::USER,
            user_header: Bytes::new(),
            payload: payload.into(),
            notify: false,
            token: 0,
        })
    }

    /// On this channel, 0 to 16,777,215 ([`ChannelId::LAST_USER`]); sending on another fails with
    /// [`Error::ReservedChannel`]. Messages on one channel keep their order; channels never block one another.
    #[must_use]
    pub fn channel(mut self, channel: ChannelId) -> Self {
        self.outgoing.channel = channel;
        self
    }

    /// With this tag, free for the program's use.
    #[must_use]
    pub fn tag(mut self, tag: u64) -> Self {
        self.outgoing.tag = tag;
        self
    }

    /// Of this kind, 128 to 255; sending another fails with [`Error::ReservedKind`].
    #[must_use]
    pub fn kind(mut self, kind: Kind) -> Self {
        self.outgoing.kind = kind;
        self
    }

    /// With a header of at most 255 bytes beside the payload.
    #[must_use]
    pub fn user_header(mut self, header: impl Into<Bytes>) -> Self {
        self.outgoing.user_header = header.into();
        self
    }

    /// Asks for [`Event::Delivered`](crate::Event::Delivered) when the peer's library holds it. `token`
    /// is returned there and in the message's outcome.
    #[must_use]
    pub fn notify(mut self, token: u64) -> Self {
        self.outgoing.notify = true;
        self.outgoing.token = token;
        self
    }

    /// Names the message in its outcome, without asking to be told of its delivery.
    #[must_use]
    pub fn token(mut self, token: u64) -> Self {
        self.outgoing.token = token;
        self
    }

    /// The payload, given back.
    #[must_use]
    pub fn into_payload(self) -> Bytes {
        self.outgoing.payload
    }

    /// Refuses what programs may not send: kinds of the library, and channels of its other layers. The library's own
    /// messages do not pass here.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let Outgoing { kind, channel, .. } = self.outgoing;
        if !kind.is_user() {
            return Err(Error::ReservedKind { kind });
        }
        Error::check_channel(channel)
    }

    /// The same as a small message, if it is.
    pub(crate) fn as_small(&self) -> Option<SmallOutgoing<'_>> {
        self.outgoing.as_small()
    }

    /// Bytes of the payload.
    pub(crate) fn len(&self) -> usize {
        self.outgoing.payload.len()
    }

    pub(crate) fn from_outgoing(outgoing: Outgoing) -> Self {
        Self { outgoing }
    }

    pub(crate) fn into_outgoing(self) -> Outgoing {
        self.outgoing
    }
}

impl<T: Into<Bytes>> From<T> for Draft {
    fn from(payload: T) -> Self {
        Self::new(payload)
    }
}

/// A small message of these bytes, on channel 0 with nothing else to say.
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
