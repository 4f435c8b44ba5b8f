//! Calls that wait for messages and take them.

use super::Node;
use crate::clock::Deadline;
use crate::driver::Driver;
use crate::error::Error;
use crate::message::Message;
use std::time::Duration;

impl Node {
    /// As [`Node::recv_timeout`], and takes what else is there already, `most` messages in all: appends them to
    /// `messages`. Returns how many; none if none came. For many small messages, which it takes for less than one by one.
    ///
    /// # Errors
    /// As [`Node::recv`].
    pub fn recv_many(
        &mut self,
        messages: &mut Vec<Message>,
        most: usize,
        limit: Duration,
    ) -> Result<usize, Error> {
        if most == 0 {
            return Ok(0);
        }
        let taken = self.take_within(Some(limit), |driver| {
            let taken = driver.take_messages(most, messages);
            (taken > 0).then_some((taken, taken))
        })?;
        Ok(taken.unwrap_or(0))
    }

    pub(super) fn recv_within(
        &mut self,
        limit: Option<Duration>,
    ) -> Result<Option<Message>, Error> {
        self.take_within(limit, |driver| Some((driver.take_message()?, 1)))
    }

    /// What `take` finds, as soon as it finds something: a message or more, and how many.
    fn take_within<M>(
        &mut self,
        limit: Option<Duration>,
        mut take: impl FnMut(&mut Driver) -> Option<(M, usize)>,
    ) -> Result<Option<M>, Error> {
        let closed = self.closed;
        let mut turn = self.enter()?;
        if let Some((taken, messages)) = take(&mut turn) {
            // Input and output go on meanwhile.
            if !closed {
                turn.refresh_taking(messages);
            }
            return Ok(Some(taken));
        }
        if closed {
            return Err(Error::Closed);
        }
        let deadline = limit.map_or(Deadline::NEVER, Deadline::after);
        let mut now = turn.settle()?;
        let mut spinner = turn.habit.message(self.wait);
        loop {
            turn.wait_for_message(now.take(), deadline, &mut spinner)?;
            turn.show_life();
            let taken = take(&mut turn);
            if taken.is_some() || deadline.is_over() {
                turn.habit.learn(&spinner);
                return Ok(taken.map(|(taken, _)| taken));
            }
        }
    }
}
