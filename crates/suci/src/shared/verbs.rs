//! The verbs of the handles on the shared state, without waiting. Each returns at once, or makes a
//! poll function. That function registers its caller's waker and says that it is pending, until it
//! is dropped.

use super::calls::CallAnswer;
use super::inner::Inner;
use super::shard::{Command, Shard, lock};
use super::sleepers::Registration;
use crate::error::Error;
use crate::message::{Message, OutgoingMessage};
use crate::next::Next;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use suci_proto::limits::{MAX_MESSAGE, MAX_USER_HEADER};
use suci_proto::message::Held;
use suci_proto::types::NodeId;
use suci_proto::{Event, Filter, Outgoing, Priority};

/// The shard that a handle asks first for the next message or event: the one after the shard
/// that had the last. Each handle has its own, so that handles do not slow each other down.
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    messages: AtomicUsize,
    events: AtomicUsize,
}

impl Inner {
    pub(super) fn send(&self, to: NodeId, message: OutgoingMessage) -> Result<(), Error> {
        self.send_with(to, message, |_| (None, ()))
    }

    /// Sends `message` if there is room for it. It is a request if the first value of `make` is the
    /// thread's end of a call. Returns the second value of `make`.
    pub(super) fn send_with<'a, R>(
        &'a self,
        to: NodeId,
        message: OutgoingMessage,
        make: impl FnOnce(&'a Shard) -> (Option<CallAnswer>, R),
    ) -> Result<R, Error> {
        message.check()?;
        self.enqueue(to, message.into_outgoing(), make)
    }

    /// As [`Inner::send_with`], of a message whose kind and channel were checked.
    pub(super) fn enqueue<'a, R>(
        &'a self,
        to: NodeId,
        outgoing: Outgoing,
        make: impl FnOnce(&'a Shard) -> (Option<CallAnswer>, R),
    ) -> Result<R, Error> {
        self.check_open()?;
        let length = u64::try_from(outgoing.payload.len()).unwrap_or(u64::MAX);
        if length > MAX_MESSAGE {
            return Err(Error::TooLong { length });
        }
        if outgoing.user_header.len() > MAX_USER_HEADER {
            return Err(Error::HeaderTooLong {
                length: outgoing.user_header.len(),
            });
        }
        let shard = self.shard_of(to);
        let gate = shard.gate(to).filter(|gate| !gate.is_removed());
        let gate = gate.ok_or(Error::UnknownPeer(to))?;
        if let Some(by) = gate.suspended() {
            return Err(Error::suspended(to, outgoing, by));
        }
        let held = Held::of(&outgoing);
        let class = gate.class_of(outgoing.channel);
        if !gate.debit(class, held) {
            if gate.has_refused() {
                // The thread may let go of messages that were refused.
                shard.ask_for_room(to);
            }
            return Err(Error::would_block(to, outgoing));
        }
        let (answer, made) = make(shard);
        match shard.push(Command::Send(to, class, outgoing, answer)) {
            Ok(()) => {
                if class > Priority::DEFAULT.class() {
                    shard.urgent.store(true, Ordering::Relaxed);
                }
                Ok(made)
            }
            Err(command) => {
                gate.credit(class, held);
                if gate.wants_room() {
                    shard.ask_for_room(to);
                }
                self.check_open()?;
                match command {
                    Command::Send(_, _, outgoing, _) => Err(Error::would_block(to, outgoing)),
                    _ => Err(Error::Closed),
                }
            }
        }
    }

    /// Asks for the event that reports room, if this error says that the queue is full.
    #[cold]
    pub(super) fn want_room(&self, error: Error) -> Error {
        if let Error::WouldBlock { to, message } = &error {
            self.shard_of(*to).want_room(*to, message.outgoing());
        }
        error
    }

    /// Sends `message` as soon as there is room; it is taken when sent.
    pub(super) fn sending<'a>(
        &'a self,
        to: NodeId,
        message: &'a mut Option<OutgoingMessage>,
    ) -> impl FnMut(&mut Context<'_>) -> Poll<Result<(), Error>> {
        self.sending_with(to, message, move |message| self.send(to, message))
    }

    /// Sends `message` with `send` as soon as there is room; it is taken when sent.
    pub(super) fn sending_with<'a, R: Default>(
        &'a self,
        to: NodeId,
        message: &'a mut Option<OutgoingMessage>,
        mut send: impl FnMut(OutgoingMessage) -> Result<R, Error>,
    ) -> impl FnMut(&mut Context<'_>) -> Poll<Result<R, Error>> {
        let shard = self.shard_of(to);
        let mut room = None;
        let mut command_room = Registration::new(&shard.command_room);
        move |cx| {
            for entered in [false, true] {
                let Some(taken) = message.take() else {
                    return Poll::Ready(Ok(R::default()));
                };
                match send(taken) {
                    Err(Error::WouldBlock { message: back, .. }) => *message = Some(*back),
                    done => return Poll::Ready(done),
                }
                if !entered {
                    room = room
                        .take()
                        .or_else(|| shard.gate(to).map(Registration::new));
                    if let Some(room) = &mut room {
                        room.enter(cx.waker());
                    }
                    command_room.enter(cx.waker());
                }
            }
            Poll::Pending
        }
    }

    /// Polls for room in the ring for a command. There is some soon, because the thread empties the
    /// ring whatever the peers do.
    pub(super) fn pushing(
        &self,
        shard: &Shard,
        command: Command,
    ) -> impl FnMut(&mut Context<'_>) -> Poll<Result<(), Error>> {
        let mut registration = Registration::new(&shard.command_room);
        let mut command = Some(command);
        move |cx| {
            registration.poll(cx, || {
                let Some(pushed) = command.take() else {
                    return Poll::Ready(Ok(()));
                };
                let Err(back) = shard.push(pushed) else {
                    return Poll::Ready(Ok(()));
                };
                self.check_open()?;
                command = Some(back);
                Poll::Pending
            })
        }
    }

    /// Takes from one shard after the other, beginning with `next`. Ready with an
    /// error when none of them will have anything.
    fn take<T>(
        &self,
        next: &AtomicUsize,
        take: impl FnMut(&Shard) -> Poll<Option<T>>,
    ) -> Poll<Result<T, Error>> {
        let taken = self.take_any(next, take);
        if taken.is_pending() {
            self.nothing_found();
        }
        taken
    }

    /// As [`take`](Self::take), but leaves the node's descriptor readable: a call that wants
    /// certain messages may find none although others wait.
    fn take_any<T>(
        &self,
        next: &AtomicUsize,
        mut take: impl FnMut(&Shard) -> Poll<Option<T>>,
    ) -> Poll<Result<T, Error>> {
        if self.is_forked() {
            return Poll::Ready(Err(Error::Forked));
        }
        let count = self.shards.len();
        let first = match count {
            1 => 0,
            _ => next.load(Ordering::Relaxed) % count,
        };
        let mut ended = true;
        let (before, from) = self.shards.split_at(first);
        for (passed, shard) in from.iter().chain(before).enumerate() {
            match take(shard) {
                Poll::Ready(Some(taken)) => {
                    if count > 1 {
                        next.store(first + passed + 1, Ordering::Relaxed);
                    }
                    self.after_taking(shard);
                    return Poll::Ready(Ok(taken));
                }
                Poll::Ready(None) => {}
                Poll::Pending => ended = false,
            }
        }
        if ended {
            return Poll::Ready(Err(self.end()));
        }
        Poll::Pending
    }

    /// Calls that wait for events look again if some waited for the message that was taken.
    fn after_taking(&self, shard: &Shard) {
        if shard.holds_events.load(Ordering::Relaxed) {
            self.event_ready.0.wake();
        }
    }

    /// The next message: ready with an error when there will be none.
    pub(super) fn take_message(&self, round_robin: &RoundRobin) -> Poll<Result<Message, Error>> {
        self.take(&round_robin.messages, Shard::take_message)
    }

    pub(super) fn receiving(
        &self,
        round_robin: &RoundRobin,
    ) -> impl FnMut(&mut Context<'_>) -> Poll<Result<Message, Error>> {
        self.receiving_by(|| self.take_message(round_robin))
    }

    /// Polls `take` until it finds something, or until the call waits for something that only the
    /// program can end.
    fn receiving_by<T>(
        &self,
        mut take: impl FnMut() -> Poll<Result<T, Error>>,
    ) -> impl FnMut(&mut Context<'_>) -> Poll<Result<T, Error>> {
        let mut registration = Registration::new(&self.message_ready.0);
        move |cx| {
            registration.poll(cx, || match take() {
                Poll::Pending => self.take_unanswered(),
                ready @ Poll::Ready(_) => ready,
            })
        }
    }

    /// Fails if the call waits for something that only the program can end.
    fn take_unanswered<T>(&self) -> Poll<Result<T, Error>> {
        let mut shards = self.shards.iter();
        let unanswered = shards.find_map(|shard| shard.unanswered.take());
        unanswered.map_or(Poll::Pending, |error| Poll::Ready(Err(error)))
    }

    /// Takes messages that are there, once from each shard that has some. Ready with an error if
    /// none will come any more.
    fn take_messages(
        &self,
        round_robin: &RoundRobin,
        most: usize,
        messages: &mut Vec<Message>,
    ) -> Poll<Result<usize, Error>> {
        let before = messages.len();
        for _ in 0..self.shards.len() {
            let left = most - (messages.len() - before);
            let took = self.take(&round_robin.messages, |shard| {
                shard.take_messages(left, messages)
            });
            let taken = messages.len() - before;
            match took {
                Poll::Ready(Ok(_)) if taken < most => {}
                _ if taken > 0 => break,
                nothing => return nothing,
            }
        }
        Poll::Ready(Ok(messages.len() - before))
    }

    pub(super) fn receiving_many(
        &self,
        round_robin: &RoundRobin,
        most: usize,
        messages: &mut Vec<Message>,
    ) -> impl FnMut(&mut Context<'_>) -> Poll<Result<usize, Error>> {
        self.receiving_by(move || self.take_messages(round_robin, most, messages))
    }

    /// The number of ends of sessions that the program knows, with the only peer that `wanted`
    /// admits.
    pub(super) fn ends_told(&self, wanted: Filter) -> u64 {
        let gate = wanted
            .node()
            .and_then(|node| self.shard_of(node).gate(node));
        gate.map_or(0, |gate| gate.ends_told())
    }

    /// Takes the next message that `wanted` admits. Ready with an error when there will be none. If
    /// `wanted` admits a single peer, ready with an error also when there is none and more sessions
    /// with that peer ended than the `known` ones.
    pub(super) fn take_from(
        &self,
        round_robin: &RoundRobin,
        wanted: Filter,
        known: u64,
    ) -> Poll<Result<Message, Error>> {
        let Some(node) = wanted.node() else {
            return self.take_any(&round_robin.messages, |shard| shard.take_from(wanted));
        };
        if self.is_forked() {
            return Poll::Ready(Err(Error::Forked));
        }
        let shard = self.shard_of(node);
        // Asked before looking: the messages before an end are there when it is.
        let ended = shard.gate(node).filter(|gate| gate.has_ended_since(known));
        match shard.take_from(wanted) {
            Poll::Ready(Some(message)) => {
                self.after_taking(shard);
                Poll::Ready(Ok(message))
            }
            Poll::Ready(None) => Poll::Ready(Err(self.end())),
            Poll::Pending => match ended.and_then(|gate| gate.tell_end_since(known)) {
                Some(reason) => Poll::Ready(Err(Error::Ended { node, reason })),
                None => Poll::Pending,
            },
        }
    }

    pub(super) fn receiving_from(
        &self,
        round_robin: &RoundRobin,
        wanted: Filter,
    ) -> impl FnMut(&mut Context<'_>) -> Poll<Result<Message, Error>> {
        let known = self.ends_told(wanted);
        let concerned = |shard: &&Shard| {
            let only = wanted.node().map(|node| self.shard_of(node));
            only.is_none_or(|only| std::ptr::eq(only, *shard))
        };
        let shards = self.shards.iter().filter(concerned);
        let mut registrations: Vec<_> = shards
            .map(|shard| (shard, Registration::wanting(&shard.wants, wanted)))
            .collect();
        move |cx| {
            if let ready @ Poll::Ready(_) = self.take_from(round_robin, wanted, known) {
                return ready;
            }
            for (shard, registration) in &mut registrations {
                registration.enter(cx.waker());
                shard.ask_for_wanted();
            }
            self.take_from(round_robin, wanted, known)
        }
    }

    /// The next event: ready with an error when there will be none.
    pub(super) fn take_event(&self, round_robin: &RoundRobin) -> Poll<Result<Event, Error>> {
        self.take(&round_robin.events, Shard::take_event)
    }

    pub(super) fn hearing(
        &self,
        round_robin: &RoundRobin,
    ) -> impl FnMut(&mut Context<'_>) -> Poll<Result<Event, Error>> {
        let mut registration = Registration::new(&self.event_ready.0);
        move |cx| registration.poll(cx, || self.take_event(round_robin))
    }

    /// The next message or event: ready with an error when there will be none.
    pub(super) fn take_next(&self, round_robin: &RoundRobin) -> Poll<Result<Next, Error>> {
        self.take(&round_robin.messages, Shard::take_next)
    }

    pub(super) fn awaiting_next(
        &self,
        round_robin: &RoundRobin,
    ) -> impl FnMut(&mut Context<'_>) -> Poll<Result<Next, Error>> {
        let mut at_messages = Registration::new(&self.message_ready.0);
        let mut at_events = Registration::new(&self.event_ready.0);
        move |cx| {
            if let ready @ Poll::Ready(_) = self.take_next(round_robin) {
                return ready;
            }
            at_messages.enter(cx.waker());
            at_events.enter(cx.waker());
            self.take_next(round_robin)
        }
    }

    pub(super) fn flushing(&self) -> impl FnMut(&mut Context<'_>) -> Poll<Result<(), Error>> {
        // Waits at the first gate that is not flushed.
        let mut registration = None;
        move |cx| {
            self.check_open()?;
            for shard in self.shards.iter() {
                let gates: Vec<_> = shard.gates().values().map(Arc::clone).collect();
                for gate in gates {
                    let mut here = Registration::new(Arc::clone(&gate));
                    if here.poll_until(cx, || gate.is_flushed()).is_pending() {
                        drop(registration.replace(here));
                        return Poll::Pending;
                    }
                }
            }
            let (peers, failed) = self.unflushed()?;
            // Messages that others have sent since are not waited for.
            Poll::Ready(match failed {
                true => Err(Error::NotFlushed { peers }),
                false => Ok(()),
            })
        }
    }

    /// Nothing if every peer has everything, as far as the program was not told otherwise.
    pub(super) fn flushed(&self) -> Result<(), Error> {
        let (peers, _) = self.unflushed()?;
        match peers.is_empty() {
            true => Ok(()),
            false => Err(Error::NotFlushed { peers }),
        }
    }

    /// Peers that do not have everything, with counts; and whether some messages failed without the
    /// program being told.
    fn unflushed(&self) -> Result<(Vec<(NodeId, u64)>, bool), Error> {
        self.check_open()?;
        let mut counts = BTreeMap::<NodeId, u64>::new();
        let mut failed = false;
        for shard in self.shards.iter() {
            failed |= shard.count_unflushed(&mut counts);
        }
        counts.retain(|_, messages| *messages > 0);
        Ok((counts.into_iter().collect(), failed))
    }

    /// Asks the threads to close the node.
    pub(super) fn begin_close(&self, patience: Duration) -> Result<(), Error> {
        self.check_open()?;
        self.begin_end(patience)
    }

    pub(super) fn finishing(&self) -> impl FnMut(&mut Context<'_>) -> Poll<()> {
        let mut registration = Registration::new(&self.done_ready);
        move |cx| registration.poll_until(cx, || self.done.load(Ordering::Acquire))
    }

    /// Returns the result of closing. The threads are done, so joining them takes no time.
    pub(super) fn take_result(&self) -> Result<(), Error> {
        let (result, threads) = {
            let mut life = lock(&self.life);
            (life.result.take(), std::mem::take(&mut life.threads))
        };
        // A waker may have polled for the result on one of these threads, which cannot wait for
        // itself.
        for thread in threads.into_iter().filter(|_| !self.is_served_here()) {
            // A thread that panicked has said so on stderr.
            let _ = thread.join();
        }
        result.unwrap_or_else(|| Err(self.end()))
    }
}
