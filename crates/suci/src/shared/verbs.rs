//! What the handles do with what they share, without the waiting: every verb returns at once, or registers
//! its caller's waker and says that it is pending.

use super::gate;
use super::inner::{Command, EVENTS, Inner, Phase, lock};
use crate::error::Error;
use crate::message::{Draft, Message};
use std::collections::BTreeMap;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use suci_proto::Event;
use suci_proto::limits::{MAX_MESSAGE, MAX_USER_HEADER};
use suci_proto::types::NodeId;

impl Inner {
    /// Sets the closing mark when no call is between its check and the ring.
    pub(super) fn close_gates(&self) {
        let gates = self.gates.write().unwrap_or_else(PoisonError::into_inner);
        self.closing.store(true, Ordering::SeqCst);
        drop(gates);
    }

    /// Puts a command into the ring, if the node is open and the ring has room.
    pub(super) fn push(&self, command: Command) -> Result<(), Command> {
        let gates = self.gates.read().unwrap_or_else(PoisonError::into_inner);
        if self.closing.load(Ordering::Acquire) {
            return Err(command);
        }
        let pushed = self.commands.push(command);
        drop(gates);
        if pushed.is_ok() {
            self.nudge();
        }
        pushed
    }

    pub(super) fn send(&self, to: NodeId, message: Draft) -> Result<(), Error> {
        self.check_open()?;
        if to == self.id {
            return Err(Error::Itself(to));
        }
        let outgoing = message.into_outgoing();
        let length = u64::try_from(outgoing.payload.len()).unwrap_or(u64::MAX);
        if length > MAX_MESSAGE {
            return Err(Error::TooLong { length });
        }
        if outgoing.user_header.len() > MAX_USER_HEADER {
            return Err(Error::HeaderTooLong {
                length: outgoing.user_header.len(),
            });
        }
        let gate = self.gate(to).ok_or(Error::UnknownPeer(to))?;
        if let Some(by) = gate.suspended() {
            return Err(Error::suspended(to, outgoing, by));
        }
        let charge = gate::charge_of(outgoing.payload.len());
        if !gate.debit(charge) {
            return Err(Error::would_block(to, outgoing));
        }
        match self.push(Command::Send(to, outgoing)) {
            Ok(()) => Ok(()),
            Err(command) => {
                gate.credit(1, charge);
                self.check_open()?;
                match command {
                    Command::Send(_, outgoing) => Err(Error::would_block(to, outgoing)),
                    Command::Call(_) => Err(Error::Closed),
                }
            }
        }
    }

    /// Sends `message` as soon as there is room; it is taken when sent.
    pub(super) fn poll_send(
        &self,
        cx: &mut Context<'_>,
        to: NodeId,
        message: &mut Option<Draft>,
    ) -> Poll<Result<(), Error>> {
        for entered in [false, true] {
            let Some(draft) = message.take() else {
                return Poll::Ready(Ok(()));
            };
            match self.send(to, draft) {
                Err(Error::WouldBlock { message: back, .. }) => *message = Some(*back),
                done => return Poll::Ready(done),
            }
            if !entered {
                if let Some(gate) = self.gate(to) {
                    gate.room.enter(cx.waker());
                }
                self.command_room.enter(cx.waker());
            }
        }
        Poll::Pending
    }

    /// The next message: ready with an error when there will be none.
    pub(super) fn take_message(&self) -> Poll<Result<Message, Error>> {
        if self.is_forked() {
            return Poll::Ready(Err(Error::Forked));
        }
        // Asked before looking: what the thread left is complete when it is done.
        let done = self.done.load(Ordering::Acquire);
        if let Some(message) = self.messages.pop() {
            let length = u64::try_from(message.payload.len()).unwrap_or(u64::MAX);
            self.message_bytes.fetch_sub(length, Ordering::AcqRel);
            fence(Ordering::SeqCst);
            if self.starved.load(Ordering::Relaxed) && self.starved.swap(false, Ordering::Relaxed) {
                self.nudge();
            }
            return Poll::Ready(Ok(message));
        }
        if !done {
            return Poll::Pending;
        }
        let rest = lock(&self.rest).pop_front();
        Poll::Ready(rest.ok_or_else(|| self.end()))
    }

    pub(super) fn poll_recv(&self, cx: &mut Context<'_>) -> Poll<Result<Message, Error>> {
        self.message_ready.poll(cx, || self.take_message())
    }

    pub(super) fn take_event(&self) -> Poll<Result<Event, Error>> {
        if self.is_forked() {
            return Poll::Ready(Err(Error::Forked));
        }
        let done = self.done.load(Ordering::Acquire);
        let (event, refill) = {
            let mut events = lock(&self.events);
            let event = events.queue.pop_front();
            let refill = events.more && events.queue.len() <= EVENTS / 2;
            events.more &= !refill;
            (event, refill)
        };
        if refill {
            self.nudge();
        }
        match event {
            Some(event) => Poll::Ready(Ok(event)),
            None if done => Poll::Ready(Err(self.end())),
            None => Poll::Pending,
        }
    }

    pub(super) fn poll_event(&self, cx: &mut Context<'_>) -> Poll<Result<Event, Error>> {
        self.event_ready.poll(cx, || self.take_event())
    }

    pub(super) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.check_open()?;
        let gates: Vec<_> = {
            let gates = self.gates.read().unwrap_or_else(PoisonError::into_inner);
            gates.values().map(Arc::clone).collect()
        };
        for gate in gates {
            let empty = || {
                if gate.is_empty() {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            };
            if gate.room.poll(cx, empty).is_pending() {
                return Poll::Pending;
            }
        }
        Poll::Ready(self.flushed())
    }

    /// Nothing if every peer has everything, as far as the program was not told otherwise.
    pub(super) fn flushed(&self) -> Result<(), Error> {
        self.check_open()?;
        let mut counts = BTreeMap::<NodeId, u64>::new();
        // While this is held, no failure moves from a gate to the events.
        let events = lock(&self.events);
        {
            let gates = self.gates.read().unwrap_or_else(PoisonError::into_inner);
            for (&node, gate) in gates.iter() {
                let queued = match gate.is_empty() {
                    true => 0,
                    false => gate.queued().0.max(1),
                };
                counts.insert(node, queued.saturating_add(gate.failed()));
            }
        }
        for event in &events.queue {
            *counts.entry(event.node()).or_default() += event.failures();
        }
        drop(events);
        counts.retain(|_, messages| *messages > 0);
        let peers: Vec<_> = counts.into_iter().collect();
        if peers.is_empty() {
            Ok(())
        } else {
            Err(Error::NotFlushed { peers })
        }
    }

    /// Asks the thread to close the node.
    pub(super) fn begin_close(&self, patience: Duration) -> Result<(), Error> {
        self.check_open()?;
        {
            let mut life = lock(&self.life);
            if life.phase != Phase::Open {
                return Err(Error::Closed);
            }
            life.phase = Phase::Closing(patience);
        }
        self.close_gates();
        self.wake_all();
        self.nudge();
        Ok(())
    }

    pub(super) fn poll_done(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.done_ready
            .poll(cx, || match self.done.load(Ordering::Acquire) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
    }

    /// What closing found out. The thread is done; it takes no time to end.
    pub(super) fn take_result(&self) -> Result<(), Error> {
        let (result, thread) = {
            let mut life = lock(&self.life);
            (life.result.take(), life.thread.take())
        };
        if let Some(thread) = thread {
            // One that panicked has said so on stderr.
            let _ = thread.join();
        }
        result.unwrap_or_else(|| Err(self.end()))
    }
}
