//! The next message or event for the program.

use crate::message::Message;
use suci_proto::Event;

/// The next message or event, in order.
///
/// For each peer: the events of a session, its messages, its [`Event::Ended`], then the events and
/// messages of the next session. An event comes before a message that waits with it, but for the
/// end of that message's session, or of its channel.
///
/// # What the calls take
///
/// Both kinds of node have this table. A name stands for its other forms, too: `next` for
/// `next_timeout`, `try_next` and `next_async`; `recv` for `recv_timeout`, `try_recv`, `recv_many`,
/// `recv_into` and `recv_async`; `recv_from` likewise; `next_event` for `events`, `event_timeout`
/// and `event_async`. Where a cell says that a call waits, its trying form returns with nothing.
///
/// | what is there | `next` | `recv` | `recv_from` | `next_event` |
/// |---|---|---|---|---|
/// | nothing | waits | waits | waits | waits |
/// | a message | takes it | takes it | takes it if the filter admits it, else waits | waits; it stays |
/// | an event | takes it | waits; it stays | waits; it stays | takes it |
/// | both | takes the event, then the message | takes the message | takes the message | takes the event |
/// | messages of a session that is over | takes them, then `Ended` | takes them, then waits | takes them; then fails with [`Error::Ended`](crate::Error::Ended), once for each end that the program has not heard of | takes the events of the session, then waits; `Ended` comes once the messages were taken |
/// | messages of that session and of the next | takes those of the first, `Ended`, the events and messages of the next | takes the messages in order; [`Message::session`](crate::Message::session) tells them apart | as `recv` | after the messages of the first: `Ended` and the events of the next |
/// | several ends, the messages between them taken | takes one `Ended` that counts them | | fails once | takes one `Ended` |
/// | a channel that the peer finished, and messages on it | takes these, then `ChannelFinished` | takes them | takes them | `ChannelFinished` comes once the messages on the channel were taken |
/// | a message announced by `Incoming`, nothing else | takes the event | fails with [`Error::NeedsAnswer`](crate::Error::NeedsAnswer), once, unless the event was taken | waits | takes the event, unless the program answered meanwhile |
/// | the outcome of a message, or room for one | takes it before messages | waits; it stays | waits; it stays | takes it, whatever messages wait |
/// | a closed node | takes what had come, in this order, then fails with [`Error::Closed`](crate::Error::Closed) | likewise | likewise | likewise; fails also while `Ended` waits for messages |
///
/// [`Node::poll`](crate::Node::poll) and the node's descriptor say that a message or an event is
/// there, and take nothing.
///
/// A program that only receives never has to take events: ends that it does not take become one for
/// each peer. Outcomes of messages wait for it if they were sent with
/// [`notify`](crate::OutgoingMessage::notify).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// A message.
    Message(Message),
    /// Something happened to a peer or to a message.
    Event(Event),
}

impl Next {
    /// The message, if it is one.
    #[must_use]
    pub fn into_message(self) -> Option<Message> {
        match self {
            Self::Message(message) => Some(message),
            Self::Event(_) => None,
        }
    }
}
