//! Active messages of a shared node: the threads hand them over, and a thread of the program
//! extracts them.
//!
//! Each shard has two queues, so that messages of programs, which wait while replies do, leave room
//! for those of handlers.

use super::SharedNode;
use super::gate::Gate;
use super::inner::Inner;
use super::shard::{Shard, lock};
use super::sleepers::{Registration, Sleepers};
use super::thread::Worker;
use crate::active::{ActiveCarrier, ActiveHost};
use crate::clock::Deadline;
use crate::error::Error;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use suci_proto::types::{ChannelId, NodeId, Source};
use suci_proto::{Message, Outgoing};

/// Messages of each of the two queues; one that was taken out of the engine fits in any case.
const MESSAGES: usize = 512;

/// Bytes of their payloads.
const BYTES: usize = 1 << 20;

/// The active messages of a shard on their way to the program.
#[derive(Default)]
pub(super) struct ActiveQueues {
    queues: Mutex<Queues>,
    /// The program extracted once: the messages are for it from then on.
    taken: AtomicBool,
    /// The thread has messages that did not fit.
    waits: AtomicBool,
}

#[derive(Default)]
struct Queues {
    programs: Queue,
    handlers: Queue,
    /// The number of the next message, which orders the two queues.
    next: u64,
}

#[derive(Default)]
struct Queue {
    messages: VecDeque<(u64, Source, Message)>,
    bytes: usize,
}

/// The messages for which there is room.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Any,
    OfHandlers,
    Nothing,
}

impl Queue {
    fn has_room(&self) -> bool {
        self.messages.len() < MESSAGES && self.bytes < BYTES
    }

    fn first(&self) -> u64 {
        self.messages
            .front()
            .map_or(u64::MAX, |(number, ..)| *number)
    }

    fn pop(&mut self) -> Option<(Source, Message)> {
        let (_, from, message) = self.messages.pop_front()?;
        self.bytes = self.bytes.saturating_sub(message.payload.len());
        Some((from, message))
    }
}

impl ActiveQueues {
    fn room(&self) -> Room {
        let queues = lock(&self.queues);
        match (queues.handlers.has_room(), queues.programs.has_room()) {
            (true, true) => Room::Any,
            (true, false) => Room::OfHandlers,
            (false, _) => Room::Nothing,
        }
    }

    fn push(&self, from: Source, message: Message) {
        let mut queues = lock(&self.queues);
        let number = queues.next;
        queues.next += 1;
        let queue = match message.channel {
            ChannelId::ACTIVE_BY_HANDLERS => &mut queues.handlers,
            _ => &mut queues.programs,
        };
        queue.bytes = queue.bytes.saturating_add(message.payload.len());
        queue.messages.push_back((number, from, message));
    }

    /// Takes the next message, or the next of handlers.
    fn pop(&self, only_of_handlers: bool) -> Option<(Source, Message)> {
        let mut queues = lock(&self.queues);
        match only_of_handlers || queues.handlers.first() < queues.programs.first() {
            true => queues.handlers.pop(),
            false => queues.programs.pop(),
        }
    }

    fn is_empty(&self) -> bool {
        let queues = lock(&self.queues);
        queues.programs.messages.is_empty() && queues.handlers.messages.is_empty()
    }
}

impl Shard {
    /// Whether an active message waits for the program, which takes them.
    pub(super) fn has_active(&self) -> bool {
        self.active.taken.load(Ordering::Relaxed) && !self.active.is_empty()
    }

    /// Whether the thread, which has active messages left, should hand some over.
    pub(super) fn wants_active(&self) -> bool {
        !self.active.waits.load(Ordering::Relaxed)
    }
}

impl Worker {
    /// Hands active messages over, as many as there is room for; those of a node that ends, all.
    pub(super) fn deliver_active(&mut self, ends: bool) {
        let mut delivered = false;
        self.active_left = false;
        while self.driver.engine.has_active() {
            let queues = &self.guard.shard().active;
            let room = if ends { Room::Any } else { queues.room() };
            let taken = match room {
                Room::Any => self.driver.take_active(None),
                Room::OfHandlers => {
                    let only = ChannelId::ACTIVE_BY_HANDLERS;
                    self.driver.take_active(Some(only))
                }
                Room::Nothing => None,
            };
            match taken {
                Some((from, message)) => {
                    queues.push(from, message);
                    delivered = true;
                }
                None if room == Room::Any => break,
                None if queues.waits.swap(true, Ordering::Relaxed) => {
                    self.active_left = true;
                    break;
                }
                // `waits` is set only now: messages taken meanwhile made room unnoticed.
                None => fence(Ordering::SeqCst),
            }
        }
        if delivered {
            self.guard.inner.message_ready.0.wake();
        }
    }
}

/// The node, as the calls see it that take active messages.
struct QueueCarrier<'a> {
    inner: &'a Inner,
    /// The node whose queue was full for the last message.
    full: Option<NodeId>,
}

impl ActiveCarrier for QueueCarrier<'_> {
    fn offer_active(&mut self, to: NodeId, message: Outgoing) -> Result<(), Error> {
        let offered = self.inner.enqueue(to, message, |_| (None, ()));
        let waits = matches!(
            offered,
            Err(Error::WouldBlock { .. } | Error::Suspended { .. })
        );
        self.full = waits.then_some(to);
        offered
    }

    fn take_active(&mut self, only: Option<ChannelId>) -> Option<(Source, Message)> {
        self.inner.shards.iter().find_map(|shard| {
            if !shard.active.taken.load(Ordering::Relaxed) {
                shard.active.taken.store(true, Ordering::Relaxed);
            }
            let taken = shard.active.pop(only.is_some())?;
            shard.made_room(&shard.active.waits);
            Some(taken)
        })
    }
}

/// A wait for room for a message of a handler.
struct WaitForRoom<'a> {
    to: NodeId,
    gate: Registration<Arc<Gate>>,
    commands: Registration<&'a Sleepers>,
}

impl Inner {
    fn wait_for_room(&self, to: NodeId) -> Option<WaitForRoom<'_>> {
        let shard = self.shard_of(to);
        Some(WaitForRoom {
            to,
            gate: Registration::new(shard.gate(to)?),
            commands: Registration::new(&shard.command_room),
        })
    }

    fn carrier(&self) -> QueueCarrier<'_> {
        QueueCarrier {
            inner: self,
            full: None,
        }
    }

    /// Polls until `take` finds an active message. A message of a handler that waits for room is
    /// offered again when there is some.
    fn extracting<'a, M>(
        &'a self,
        mut take: impl FnMut(&mut dyn ActiveCarrier) -> Option<M> + 'a,
    ) -> impl FnMut(&mut Context<'_>) -> Poll<Result<M, Error>> {
        let mut at_messages = Registration::new(&self.message_ready.0);
        let mut at_room: Option<WaitForRoom<'a>> = None;
        let mut ending = self.ending();
        move |cx| {
            let mut carrier = self.carrier();
            for entered in [false, true] {
                if let Some(taken) = take(&mut carrier) {
                    return Poll::Ready(Ok(taken));
                }
                if entered {
                    break;
                }
                at_messages.enter(cx.waker());
                let known = at_room.take();
                let known = known.filter(|wait| Some(wait.to) == carrier.full);
                at_room = known.or_else(|| self.wait_for_room(carrier.full?));
                if let Some(wait) = &mut at_room {
                    wait.gate.enter(cx.waker());
                    wait.commands.enter(cx.waker());
                }
            }
            self.nothing_found();
            ending(cx).map(Err)
        }
    }
}

impl ActiveHost for SharedNode {
    fn send_active(&mut self, to: NodeId, message: Outgoing) -> Result<(), Error> {
        let gate = self.inner.shard_of(to).gate(to);
        let bytes = message.payload.len() as u64;
        if gate.is_some_and(|gate| !gate.has_room_for_active(bytes)) {
            return Err(Error::would_block(to, message));
        }
        self.inner.enqueue(to, message, |_| (None, ()))
    }

    fn poll_for_active(&mut self) -> Result<(), Error> {
        let open = self.inner.check_open();
        match self
            .inner
            .shards
            .iter()
            .all(|shard| shard.active.is_empty())
        {
            true => open,
            false if self.inner.is_forked() => Err(Error::Forked),
            false => Ok(()),
        }
    }

    fn take_active_now<M>(
        &mut self,
        take: impl FnOnce(&mut dyn ActiveCarrier) -> Option<M>,
    ) -> Result<Option<M>, Error> {
        if self.inner.is_forked() {
            return Err(Error::Forked);
        }
        let taken = take(&mut self.inner.carrier());
        if taken.is_none() {
            self.inner.nothing_found();
        }
        Ok(taken)
    }

    fn take_active_within<M>(
        &mut self,
        limit: Duration,
        take: impl FnMut(&mut dyn ActiveCarrier) -> Option<M>,
    ) -> Result<Option<M>, Error> {
        let extracting = self.inner.extracting(take);
        self.inner
            .wait_until(Deadline::after(limit), extracting)?
            .transpose()
    }
}
