//! The next message or event for the program.

use crate::message::Message;
use suci_proto::Event;

/// The next message or event, in order.
///
/// For each peer: the events of a session, its messages, its [`Event::Ended`], then the events and
/// messages of the next session. An event comes before a message that waits with it, but for the
/// end of that message's session.
///
/// # Which call waits for what
///
/// | calls | return with | what they pass over |
/// |---|---|---|
/// | `next`, `next_timeout`, `try_next`, `next_async` | a message or an event | nothing |
/// | `recv`, `recv_timeout`, `recv_many`, `recv_into`, `try_recv`, `recv_async` | a message | events stay until they are taken |
/// | `next_event`, `events`, `event_timeout`, `event_async` | an event | messages stay; the end of their session waits for them |
/// | [`Node::poll`](crate::Node::poll), the descriptor | a message or an event is there | nothing is taken |
///
/// A program that only receives never has to take events: ends that it does not take become one for
/// each peer. It recognises a peer that started anew by
/// [`Message::session`](crate::Message::session).
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
