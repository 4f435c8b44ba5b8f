//! Calls of a shared node: the request goes to the thread that serves the peer, and the reply comes
//! back to the caller.
//!
//! | part | owns |
//! |---|---|
//! | [`CallAnswer`] | the thread's end of one call: where its result goes |
//! | [`PendingCall`] | the caller's end; dropped, it cancels the call |
//! | [`OpenCalls`] | the calls of one thread, and when they are over |

use super::inner::Inner;
use super::reply::{Answer, Reply, pair_about};
use super::shard::{Command, Shard};
use crate::calls::CALL;
use crate::clock::{Clock, Deadline};
use crate::error::Error;
use crate::message::{Message, OutgoingMessage};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use suci_proto::CallId;
use suci_proto::time::Instant;
use suci_proto::types::NodeId;

/// The result of a call.
pub(super) type Outcome = Result<Message, Error>;

/// The properties of a call that both ends know.
#[derive(Clone, Copy)]
pub(super) struct CallInfo {
    pub(super) id: CallId,
    pub(super) to: NodeId,
    /// The time at which the thread ends the call, and its timeout, unless the caller ends it.
    due: Option<(Instant, Duration)>,
}

/// The thread's end of a call. If it is dropped without a result, the caller learns that the node
/// is closed.
pub(super) type CallAnswer = Answer<Outcome, CallInfo>;

/// The caller's end of a call. If it is dropped before its result was taken, it cancels the call.
pub(super) struct PendingCall<'a> {
    shard: &'a Shard,
    reply: Reply<Outcome, CallInfo>,
    /// The thread was told, and has not given a result that was taken.
    open: bool,
}

impl<'a> PendingCall<'a> {
    /// A call to a peer of `shard`, and the thread's end of it, which the thread has not got yet.
    fn new(shard: &'a Shard, about: CallInfo) -> (CallAnswer, Self) {
        let (answer, reply) = pair_about(about);
        let open = false;
        (answer, Self { shard, reply, open })
    }

    /// Polls for the result; ready with nothing if the thread went away.
    fn waiting(&mut self) -> impl FnMut(&mut Context<'_>) -> Poll<Option<Outcome>> + use<'_, 'a> {
        let Self { shard, reply, open } = self;
        let mut poll = reply.waiting();
        move |cx| {
            let result = ready!(poll(cx));
            *open = false;
            if let Some(Ok(message)) = &result {
                shard.took_reply(message);
            }
            Poll::Ready(result)
        }
    }
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let untaken = self.reply.close();
        if let Some(Ok(message)) = &untaken {
            self.shard.took_reply(message);
        }
        self.shard
            .cancel(self.reply.about().id, untaken.is_some_and(|r| r.is_ok()));
    }
}

impl Inner {
    fn about(&self, to: NodeId, due: Option<(Instant, Duration)>) -> CallInfo {
        let id = self.call_ids.next();
        CallInfo { id, to, due }
    }

    /// Sends `message` as a request as soon as there is room; it is taken when sent. Fails if the
    /// queue is full of messages for a process that has died.
    fn requesting<'a>(
        &'a self,
        about: CallInfo,
        message: &'a mut Option<OutgoingMessage>,
    ) -> impl FnMut(&mut Context<'_>) -> Poll<Result<Option<PendingCall<'a>>, Error>> {
        let shard = self.shard_of(about.to);
        self.sending_with(about.to, message, move |message| {
            let make = |shard: &'a Shard| {
                let (answer, pending) = PendingCall::new(shard, about);
                (Some(answer), pending)
            };
            let sent = self.send_with(about.to, message, make);
            let has_died = || shard.gate(about.to).is_some_and(|gate| gate.has_died());
            if matches!(sent, Err(Error::WouldBlock { .. })) && has_died() {
                return Err(Error::ProcessDied(about.to));
            }
            let mut pending = sent?;
            pending.open = true;
            Ok(Some(pending))
        })
    }

    /// The call, by a thread that parks while it waits.
    pub(super) fn call(&self, to: NodeId, message: OutgoingMessage, limit: Duration) -> Outcome {
        message.check_request()?;
        let deadline = Deadline::after(limit);
        let mut message = Some(message);
        let requesting = self.requesting(self.about(to, None), &mut message);
        let sent = self.wait_until(deadline, requesting)?;
        let timed_out = Error::TimedOut { what: CALL, limit };
        let Some(mut pending) = sent.transpose()?.flatten() else {
            return Err(timed_out);
        };
        match self.wait_until(deadline, pending.waiting())? {
            Some(Some(result)) => result,
            Some(None) => Err(self.wait_for(self.ending())?),
            None => Err(timed_out),
        }
    }

    /// The call, as a future. The thread that serves the peer ends it when its time is over.
    pub(super) async fn call_async(
        &self,
        to: NodeId,
        message: OutgoingMessage,
        limit: Duration,
    ) -> Outcome {
        message.check_request()?;
        let due = Some((Clock.now() + limit, limit));
        let mut message = Some(message);
        let mut requesting = self.requesting(self.about(to, due), &mut message);
        // Mostly there is room at once.
        let sent = match poll_fn(|cx| Poll::Ready(requesting(cx))).await {
            Poll::Ready(sent) => sent?,
            Poll::Pending => {
                let mut alarm = self.alarm(self.about(to, due)).await?;
                let mut late = alarm.waiting();
                poll_fn(|cx| match requesting(cx) {
                    Poll::Pending => late(cx).map(|over| match over {
                        Some(over) => over.map(|_| None),
                        None => Err(self.end()),
                    }),
                    sent => sent,
                })
                .await?
            }
        };
        let Some(mut pending) = sent else {
            return Err(Error::TimedOut { what: CALL, limit });
        };
        match poll_fn(pending.waiting()).await {
            Some(result) => result,
            None => Err(poll_fn(self.ending()).await),
        }
    }

    /// Registers a call whose request the thread has not got yet, so that the thread ends it in
    /// time.
    async fn alarm(&self, about: CallInfo) -> Result<PendingCall<'_>, Error> {
        let shard = self.shard_of(about.to);
        let (answer, mut pending) = PendingCall::new(shard, about);
        let insert = Command::run(move |worker| {
            worker.calls.insert(answer);
        });
        poll_fn(self.pushing(shard, insert)).await?;
        pending.open = true;
        Ok(pending)
    }
}

impl CallInfo {
    /// The error of a call whose time is over.
    pub(super) fn timed_out(&self) -> Error {
        let limit = self.due.map_or(Duration::ZERO, |(_, limit)| limit);
        Error::TimedOut { what: CALL, limit }
    }
}

/// The calls that one thread serves.
#[derive(Default)]
pub(super) struct OpenCalls {
    open: BTreeMap<CallId, CallAnswer>,
    /// The calls that the thread ends, by the time at which it does.
    due: BTreeSet<(Instant, CallId)>,
}

impl OpenCalls {
    /// A call begins.
    pub(super) fn insert(&mut self, answer: CallAnswer) -> CallId {
        let CallInfo { id, due, .. } = *answer.about();
        if let Some((at, _)) = due {
            self.due.insert((at, id));
        }
        self.open.insert(id, answer);
        id
    }

    /// Whether a caller waits for the call.
    pub(super) fn has(&self, id: CallId) -> bool {
        self.open.contains_key(&id)
    }

    /// Takes out a call that is over, with any result.
    pub(super) fn remove(&mut self, id: CallId) -> Option<CallAnswer> {
        let answer = self.open.remove(&id)?;
        if let Some((at, _)) = answer.about().due {
            self.due.remove(&(at, id));
        }
        Some(answer)
    }

    /// Returns the time at which the next call is over.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes out a call whose time is over at `now`.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<CallAnswer> {
        let (at, id) = *self.due.first()?;
        if at > now {
            return None;
        }
        self.remove(id)
    }

    /// The calls whose callers wait no longer.
    pub(super) fn unwanted(&self) -> Vec<CallId> {
        let unwanted = self.open.iter().filter(|(_, answer)| !answer.is_wanted());
        unwanted.map(|(id, _)| *id).collect()
    }
}
