//! Calls that wait for messages and take them.

use super::Node;
use crate::clock::Deadline;
use crate::core::{Core, DriverGuard};
use crate::driver::{Driver, Poll};
use crate::error::Error;
use crate::message::Message;
use crate::next::Next;
use crate::placement::LentBuffer;
use crate::wait::{Awaited, WaitPolicy, until_some};
use std::sync::Arc;
use std::time::Duration;
use suci_proto::Data;

impl Node {
    /// Blocks until a message or an event is there, and takes it: in exact order, see [`Next`].
    ///
    /// # Errors
    /// [`Error::Closed`] when closed and everything was taken; [`Error::Io`].
    #[expect(
        clippy::should_implement_trait,
        reason = "as an iterator it would have to end, and could not fail"
    )]
    pub fn next(&mut self) -> Result<Next, Error> {
        until_some(|| self.next_within(None))
    }

    /// As [`Node::next`], for at most `limit`.
    ///
    /// # Errors
    /// As [`Node::next`].
    pub fn next_timeout(&mut self, limit: Duration) -> Result<Option<Next>, Error> {
        self.next_within(Some(limit))
    }

    /// The next message or event, if there is one now. Looks at the socket as [`Node::try_recv`]
    /// does.
    ///
    /// # Errors
    /// As [`Node::next`].
    pub fn try_next(&mut self) -> Result<Option<Next>, Error> {
        self.try_take(Driver::take_next)
    }

    fn next_within(&mut self, limit: Option<Duration>) -> Result<Option<Next>, Error> {
        self.take_within(limit, |driver| Some((driver.take_next()?, 1)))
    }

    /// Returns the result of `take`, or of a second try after one cycle; nothing if both found
    /// nothing.
    pub(super) fn try_take<M>(
        &mut self,
        take: impl Fn(&mut Driver) -> Option<M>,
    ) -> Result<Option<M>, Error> {
        let closed = self.closed;
        let mut driver = self.enter()?;
        if let Some(taken) = take(&mut driver) {
            // Input and output go on meanwhile.
            if !closed {
                driver.after_taking(1);
            }
            return Ok(Some(taken));
        }
        if closed {
            return Err(Error::Closed);
        }
        driver.run_cycle()?;
        Ok(take(&mut driver))
    }

    /// As [`Node::recv_timeout`], and takes the messages that are already there, up to `most` in
    /// all. Appends them to `messages` and returns their number; 0 if none came. For many small
    /// messages this costs less than taking them one by one.
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
            (taken > 0)
                .then_some((Ok(taken), taken))
                .or_else(|| refuse_to_wait(driver))
        })?;
        taken.unwrap_or(Ok(0))
    }

    /// Blocks until a message arrives, for at most `limit`, and puts it into `buffer`. Returns its
    /// length and the rest of it (with an empty payload); nothing if none came. If the message is
    /// longer than a packet and begins during the call, its bytes go to `buffer` straight from the
    /// packets; others are copied. A message that was announced because of its length
    /// ([`Event::Incoming`](crate::Event::Incoming)) is accepted if `buffer` has room for it and
    /// its event was not taken. A longer one is an error of each call that finds no message, until
    /// you give it room, or take its event and refuse it ([`Node::refuse`]).
    ///
    /// # Errors
    /// [`Error::BufferTooShort`] leaves the message where it is; [`Error::Closed`] as
    /// [`Node::recv`].
    pub fn recv_into(
        &mut self,
        buffer: &mut [u8],
        limit: Duration,
    ) -> Result<Option<(usize, Message)>, Error> {
        let (core, places) = (Arc::clone(&self.core), Arc::clone(&self.places));
        let mut lending = Lending {
            core: &core,
            buffer: places.lend(buffer),
        };
        let buffer = &mut lending.buffer;
        let room = u64::try_from(buffer.len()).unwrap_or(u64::MAX);
        let mut accepted = false;
        let taken = self.take_within(Some(limit), |driver| {
            if let Some(message) = driver.take_message() {
                return Some((put(driver, message, buffer), 1));
            }
            buffer.begin();
            match driver.accept_announced(room) {
                Ok(more) => accepted |= more,
                // The accepted message is on its way.
                Err(Error::BufferTooShort { .. }) if accepted => {}
                // The program may pass over it and call again: without a cycle it would never hear
                // of anything else.
                Err(error) => {
                    let turned = driver.run_cycle();
                    return Some(match driver.take_message() {
                        Some(message) => (put(driver, message, buffer), 1),
                        None => (turned.and(Err(error)), 0),
                    });
                }
            }
            None
        })?;
        taken.transpose()
    }

    pub(super) fn recv_within(
        &mut self,
        limit: Option<Duration>,
    ) -> Result<Option<Message>, Error> {
        let taken = self.take_within(limit, |driver| match driver.take_message() {
            Some(message) => Some((Ok(message), 1)),
            None => refuse_to_wait(driver),
        })?;
        taken.transpose()
    }

    /// Waits until `take` finds something, and returns it: one or more messages. `take` also
    /// returns their number.
    pub(super) fn take_within<M>(
        &mut self,
        limit: Option<Duration>,
        mut take: impl FnMut(&mut Driver) -> Option<(M, usize)>,
    ) -> Result<Option<M>, Error> {
        let closed = self.closed;
        let mut driver = self.enter()?;
        if let Some((taken, messages)) = take(&mut driver) {
            // Input and output go on meanwhile.
            if !closed {
                driver.after_taking(messages);
            }
            return Ok(Some(taken));
        }
        if closed {
            return Err(Error::Closed);
        }
        let deadline = limit.map_or(Deadline::NEVER, Deadline::after);
        let awaited = (self.fixed.wait, Awaited::Message);
        wait_to_take(&mut driver, deadline, awaited, |driver| {
            Some(take(driver)?.0)
        })
    }
}

/// Waits until `take` finds something of the kind that is `awaited`, after it has found nothing so
/// far. Returns nothing if the deadline comes first.
pub(super) fn wait_to_take<T>(
    driver: &mut DriverGuard<'_>,
    deadline: Deadline,
    (wait, awaited): (WaitPolicy, Awaited),
    mut take: impl FnMut(&mut Driver) -> Option<T>,
) -> Result<Option<T>, Error> {
    // Send the acknowledgements that no packet carried. That takes time, so read the clock again.
    if driver.run_cycle_with(Poll::IfTimerDue)? {
        driver.read_clock();
    }
    // The cycle polled the socket if a timer was due.
    if let Some(taken) = take(driver) {
        return Ok(Some(taken));
    }
    driver.waiter.begin(wait, awaited);
    loop {
        if driver.take_wake() {
            return Err(Error::Woken);
        }
        let exposed = driver.is_exposed();
        driver.wait_for_message(deadline, exposed)?;
        driver.show_life();
        let taken = take(driver);
        if taken.is_some() || deadline.is_over() {
            driver.waiter.end();
            return Ok(taken);
        }
        // The call does not wait for this message, so that no answer to it follows now. Its
        // acknowledgement leaves.
        driver.output_rest()?;
        driver.read_clock();
    }
}

/// The error of a receiving call that finds no message, where only the program can make one come.
fn refuse_to_wait<M>(driver: &mut Driver) -> Option<(Result<M, Error>, usize)> {
    driver.unanswered().map(|error| (Err(error), 0))
}

/// A buffer that a call lends. However the call ends, the bytes of a message that uses the buffer
/// move to the engine's memory before it is withdrawn.
struct Lending<'a> {
    core: &'a Core,
    buffer: LentBuffer<'a>,
}

impl Drop for Lending<'_> {
    fn drop(&mut self) {
        if let Some(from) = self.buffer.taken_by()
            && let Ok(mut driver) = self.core.enter()
        {
            driver.engine.take_back(from);
        }
    }
}

/// Has the payload in `buffer`, or puts the message back.
fn put(
    driver: &mut Driver,
    mut message: Message,
    buffer: &mut LentBuffer<'_>,
) -> Result<(usize, Message), Error> {
    if let Some(length) = message.payload.placed() {
        buffer.withdraw();
        message.payload = Data::new();
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        return Ok((length, message));
    }
    if let Some(from) = buffer.taken_by() {
        // Another message came first.
        driver.engine.take_back(from);
    }
    let (length, room) = (message.payload.len(), buffer.len());
    let Some(target) = buffer.withdraw().get_mut(..length) else {
        driver.put_back(message);
        let [length, buffer] = [length, room].map(|n| u64::try_from(n).unwrap_or(u64::MAX));
        return Err(Error::BufferTooShort { length, buffer });
    };
    target.copy_from_slice(&message.payload);
    message.payload = Data::new();
    Ok((length, message))
}
