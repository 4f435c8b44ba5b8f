//! Calls: a request, and the wait for its reply.

use super::receive::wait_to_take;
use super::{Node, pause};
use crate::calls::CALL;
use crate::clock::Deadline;
use crate::error::Error;
use crate::message::{Message, OutgoingMessage};
use crate::wait::Awaited;
use std::time::Duration;
use suci_proto::types::NodeId;

impl Node {
    /// Sends a request to `to` and blocks until its reply comes, for at most `limit`. The peer's
    /// program gets the request as any message, in the order of its channel, and answers it by
    /// [`Message::reply`].
    ///
    /// Messages that arrive meanwhile wait for the calls that receive, in order and within the
    /// usual limits of memory; a reply is never among them. When the session with the peer ends,
    /// the call ends at once and says why.
    ///
    /// A call to a process that is known to have died fails at once with [`Error::ProcessDied`]:
    /// the peer is [lost](crate::Event::Lost) by
    /// [`LostCause::ProcessDied`](crate::LostCause::ProcessDied), or its session ended by
    /// [`EndReason::ProcessDied`](crate::EndReason::ProcessDied), and no process of the peer was
    /// heard since. The same news ends an open call. This node looks for the next process, which
    /// later calls reach. A peer that is lost by its silence alone may answer again: that ends no
    /// call, and new calls wait.
    ///
    /// The message may have a channel, a payload and a user header. Its tag, kind and token are the
    /// library's.
    ///
    /// # Errors
    /// [`Error::CallToItself`]: nobody would reply. [`Error::TimedOut`], after which a reply is
    /// dropped and counted; [`Error::Ended`]; [`Error::ProcessDied`];
    /// [`Error::Refused`]; [`Error::ReplyTooLong`]; [`Error::Reserved`]; as [`Node::send_timeout`],
    /// if the request could not be queued.
    pub fn call(
        &mut self,
        to: NodeId,
        message: impl Into<OutgoingMessage>,
        limit: Duration,
    ) -> Result<Message, Error> {
        if to == self.fixed.id {
            return Err(Error::CallToItself(to));
        }
        let deadline = Deadline::after(limit);
        let mut message = message.into();
        message.check()?;
        message.check_request()?;
        let wait = self.fixed.wait;
        let mut driver = self.enter_to_send()?;
        driver.waiter.begin(wait, Awaited::Progress);
        let id = loop {
            let length = message.len();
            let sent = driver.send(None, length, |driver| driver.push_call(to, message));
            match sent {
                Ok(id) => break id,
                Err(Error::WouldBlock { message: back, .. }) if !deadline.is_over() => {
                    message = *back;
                }
                Err(Error::WouldBlock { .. }) if deadline.is_over() => {
                    return Err(Error::TimedOut { what: CALL, limit });
                }
                Err(error) => return Err(error),
            }
            pause(&mut driver, deadline)?;
        };
        let awaited = (wait, Awaited::Answer);
        let result = wait_to_take(&mut driver, deadline, awaited, |driver| {
            driver.take_call(id)
        });
        match result {
            Ok(Some(Ok((from, reply)))) => Ok(Message::new(from, reply)),
            Ok(Some(Err(error))) => Err(Error::from_call(to, error)),
            over => {
                driver.engine.cancel_call(id);
                over?;
                Err(Error::TimedOut { what: CALL, limit })
            }
        }
    }
}
