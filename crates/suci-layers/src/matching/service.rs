//! Carries the messages of matching over an engine.

use super::Matching;
use super::table::Begin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use suci_proto::message::{AnswerError, IncomingInfo};
use suci_proto::types::{NodeId, Source};
use suci_proto::{Engine, IncomingError, Place, Placement, Port, PortInput, ReceiveBuffer};

/// A [`Matching`] and its lock. All engines of a node share it: a receive may admit messages of any
/// node.
#[derive(Debug, Default)]
pub struct MatchingTable {
    table: Mutex<Matching>,
    /// Announced messages wait for an answer.
    decides: AtomicBool,
}

impl MatchingTable {
    /// Returns a table that keeps at most `memory` bytes of messages, beside one of each node.
    #[must_use]
    pub fn with_memory(memory: u64) -> Self {
        Self {
            table: Mutex::new(Matching::with_memory(memory)),
            ..Self::default()
        }
    }

    /// Changes the table, under its lock. `change` must not call an engine.
    pub fn with<T>(&self, change: impl FnOnce(&mut Matching) -> T) -> T {
        // A panic in the layer is a fault of the library; the node goes on with what is there.
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut table);
        // Threads that serve an engine look at it without the lock.
        self.decides.store(table.has_decisions(), Ordering::Release);
        result
    }

    /// Returns true if announced messages wait for an answer, which
    /// [`MatchingService::serve`] gives.
    #[must_use]
    pub fn wants_service(&self) -> bool {
        self.decides.load(Ordering::Acquire)
    }
}

/// The part of a driver that serves a [`MatchingTable`] with one engine. It is the engine's
/// [`Placement`] for messages on channels of matching.
#[derive(Debug, Default)]
pub struct MatchingService {
    /// The queues.
    pub table: Arc<MatchingTable>,
    /// While the driver takes a message out of the engine, the announced messages behind it. They
    /// are matched after that message.
    behind: Mutex<Option<Vec<(Source, IncomingInfo)>>>,
    /// Messages of sessions before which the end of another one has to be heard of.
    early: Mutex<Vec<(Source, IncomingInfo)>>,
    /// Nodes for whose messages there is no memory.
    held: Mutex<Vec<NodeId>>,
    /// There are such nodes, or such messages.
    waits: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code between lock and unlock leaves it half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MatchingService {
    /// Returns the service of one engine of a node with these queues.
    #[must_use]
    pub fn new(table: Arc<MatchingTable>) -> Self {
        Self {
            table,
            ..Self::default()
        }
    }

    /// Returns true if [`serve`](Self::serve) has something to do.
    #[must_use]
    pub fn has_work(&self, engine: &Engine) -> bool {
        engine.has_port_input(Port::Matching)
            || self.waits.load(Ordering::Relaxed)
            || self.table.wants_service()
    }

    /// Takes what came, as long as `goes_on` returns true, and answers announced messages. Returns
    /// true if there are completions. It never blocks.
    pub fn serve(&self, engine: &mut Engine, mut goes_on: impl FnMut() -> bool) -> bool {
        while engine.has_port_news(Port::Matching) || goes_on() {
            *lock(&self.behind) = Some(Vec::new());
            let input = engine.poll_port(Port::Matching);
            let behind = lock(&self.behind).take();
            if let Some(input) = input {
                self.take(engine, input);
            } else {
                break;
            }
            for (from, info) in behind.into_iter().flatten() {
                self.begin(engine, from, info);
            }
        }
        let early = core::mem::take(&mut *lock(&self.early));
        for (from, info) in early {
            self.table.with(|table| table.hear_of(from));
            self.begin(engine, from, info);
        }
        self.decide(engine);
        let mut held = lock(&self.held);
        let (freed, completes) = self.table.with(|table| {
            let freed = held.extract_if(.., |node| table.takes(*node));
            (freed.collect::<Vec<_>>(), table.has_completion())
        });
        self.waits.store(!held.is_empty(), Ordering::Relaxed);
        for node in freed {
            engine.hold_port(Port::Matching, node, false);
        }
        completes
    }

    fn take(&self, engine: &mut Engine, input: PortInput) {
        let from = match &input {
            PortInput::Message(from, _) => Some(from.node),
            _ => None,
        };
        let takes = self.table.with(|table| {
            table.on_input(input);
            from.is_none_or(|node| table.takes(node))
        });
        if let Some(node) = from.filter(|_| !takes) {
            engine.hold_port(Port::Matching, node, true);
            lock(&self.held).push(node);
        }
    }

    /// Matches a message about which the engine asked before.
    fn begin(&self, engine: &mut Engine, from: Source, info: IncomingInfo) {
        match self.table.with(|table| table.begin(from, &info)) {
            Begin::Placed(memory) => {
                let buffer = Some(ReceiveBuffer::lent(memory));
                // If it is not taken, the bytes come to the engine, and are copied.
                let _ = engine.accept(from.node, info.channel, info.number, buffer);
            }
            Begin::Kept => {}
            Begin::TooEarly => lock(&self.early).push((from, info)),
        }
    }

    /// Answers announced messages.
    fn decide(&self, engine: &mut Engine) {
        loop {
            let knows = |node| engine.knows(node);
            let next = self.table.with(|table| table.poll_decision(knows));
            let Some((decision, memory)) = next else {
                return;
            };
            let place = decision.place;
            let buffer = memory.map(ReceiveBuffer::lent);
            let answered = engine.accept(place.from.node, place.channel, place.number, buffer);
            match answered {
                Ok(()) => self.table.with(|table| table.on_decided(decision)),
                // The engine never has so much memory: it stays with its sender.
                Err(IncomingError::Inbox(AnswerError::NeedsBuffer { .. })) => {
                    self.table.with(|table| table.on_too_long(&decision));
                }
                // It was not announced: its bytes come to the engine. Or its session ends.
                Err(_) => {}
            }
        }
    }
}

impl Placement for MatchingService {
    fn place(&self, from: Source, message: &IncomingInfo) -> Place {
        if !message.channel.carries_matched() {
            return Place::Own;
        }
        if let Some(behind) = &mut *lock(&self.behind) {
            behind.push((from, message.clone()));
            return Place::Later;
        }
        match self.table.with(|table| table.begin(from, message)) {
            Begin::Placed(memory) => Place::Named(ReceiveBuffer::lent(memory)),
            Begin::Kept => Place::Later,
            Begin::TooEarly => {
                lock(&self.early).push((from, message.clone()));
                self.waits.store(true, Ordering::Relaxed);
                Place::Later
            }
        }
    }
}
