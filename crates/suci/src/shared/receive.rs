//! Taking messages and events: trying, blocking and timed.

use super::SharedNode;
use super::blocking::if_ready;
use crate::error::Error;
use crate::message::Message;
use crate::next::Next;
use std::time::Duration;
use suci_proto::Event;

impl SharedNode {
    /// Blocks until a message or an event is there, and takes it: in exact order, see [`Next`].
    /// Handles that call this at once take turns.
    ///
    /// # Errors
    /// [`Error::Closed`] when closed and everything was taken.
    pub fn next(&self) -> Result<Next, Error> {
        self.inner.wait(self.inner.awaiting_next(&self.round_robin))
    }

    /// As [`SharedNode::next`], for at most `limit`.
    ///
    /// # Errors
    /// As [`SharedNode::next`].
    pub fn next_timeout(&self, limit: Duration) -> Result<Option<Next>, Error> {
        let awaiting = self.inner.awaiting_next(&self.round_robin);
        self.inner.wait_within(limit, awaiting)
    }

    /// The next message or event, if there is one now.
    ///
    /// # Errors
    /// As [`SharedNode::next`].
    pub fn try_next(&self) -> Result<Option<Next>, Error> {
        if_ready(self.inner.take_next(&self.round_robin))
    }

    /// The next message, if there is one now.
    ///
    /// # Errors
    /// [`Error::Closed`] when closed and everything that had arrived was taken.
    pub fn try_recv(&self) -> Result<Option<Message>, Error> {
        if_ready(self.inner.take_message(&self.round_robin))
    }

    /// Blocks until a message arrives.
    ///
    /// # Errors
    /// As [`SharedNode::try_recv`]. [`Error::NeedsAnswer`] if no message is there and an announced
    /// one waits for the program's answer. Each is told once, so that the next call receives from
    /// others; and none while a call waits for events, which tell of it, too.
    pub fn recv(&self) -> Result<Message, Error> {
        self.inner.wait(self.inner.receiving(&self.round_robin))
    }

    /// Blocks until a message arrives, for at most `limit`.
    ///
    /// # Errors
    /// As [`SharedNode::recv`].
    pub fn recv_timeout(&self, limit: Duration) -> Result<Option<Message>, Error> {
        let receiving = self.inner.receiving(&self.round_robin);
        self.inner.wait_within(limit, receiving)
    }

    /// As [`SharedNode::recv_timeout`], and takes the messages that are already there, up to `most`
    /// in all. Appends them to `messages` and returns their number; 0 if none came. For many small
    /// messages this costs less than taking them one by one.
    ///
    /// # Errors
    /// As [`SharedNode::recv`].
    pub fn recv_many(
        &self,
        messages: &mut Vec<Message>,
        most: usize,
        limit: Duration,
    ) -> Result<usize, Error> {
        if most == 0 {
            return Ok(0);
        }
        let receiving = self.inner.receiving_many(&self.round_robin, most, messages);
        let received = self.inner.wait_within(limit, receiving)?;
        Ok(received.unwrap_or(0))
    }

    /// The next event, if there is one now.
    ///
    /// # Errors
    /// [`Error::Closed`] when closed and all were taken.
    pub fn next_event(&self) -> Result<Option<Event>, Error> {
        if_ready(self.inner.take_event(&self.round_robin))
    }

    /// All events that are there.
    ///
    /// # Errors
    /// [`Error::Forked`].
    pub fn events(&self) -> Result<Vec<Event>, Error> {
        let mut events = Vec::new();
        loop {
            match self.next_event() {
                Ok(Some(event)) => events.push(event),
                Ok(None) | Err(Error::Closed) => return Ok(events),
                Err(error) => return Err(error),
            }
        }
    }

    /// Blocks until something happens, for at most `limit`. Messages do not end the wait.
    ///
    /// # Errors
    /// As [`SharedNode::next_event`].
    pub fn event_timeout(&self, limit: Duration) -> Result<Option<Event>, Error> {
        let hearing = self.inner.hearing(&self.round_robin);
        self.inner.wait_within(limit, hearing)
    }
}
