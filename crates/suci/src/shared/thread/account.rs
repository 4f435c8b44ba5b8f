//! The messages of a peer's gate that the I/O thread still has to credit.

use crate::placement::Places;
use crate::shared::events::Events;
use crate::shared::gate::Gate;
use std::collections::VecDeque;
use std::sync::Arc;
use suci_proto::message::{ByClass, Held};
use suci_proto::time::Instant;
use suci_proto::types::{ChannelId, NodeId};
use suci_proto::{
    CANCELLED, CLASSES, CallId, EXPIRED, Engine, Event, Outgoing, Priority, UNNUMBERED,
};

/// A message that the engine did not take yet.
pub(super) struct DeferredMessage {
    pub(super) class: u8,
    pub(super) message: Outgoing,
    /// The call, if the message is a request.
    pub(super) call: Option<CallId>,
    /// The time from which its deadline counts.
    since: Instant,
}

impl DeferredMessage {
    /// A message whose deadline counts from `since` on.
    pub(super) const fn new(
        class: u8,
        message: Outgoing,
        call: Option<CallId>,
        since: Instant,
    ) -> Self {
        Self {
            class,
            message,
            call,
            since,
        }
    }
}

/// The remains of a message that the engine refused, or that was cancelled before the engine took
/// it. It counts in the gate until the program can hear of it, so that there are no more of them
/// than a queue takes.
pub(super) struct Refused {
    pub(super) channel: ChannelId,
    pub(super) token: u64,
    pub(super) notify: bool,
    pub(super) class: u8,
    pub(super) size: Held,
    /// The reason in its event.
    pub(super) reason: u64,
}

impl Refused {
    pub(super) fn new(class: u8, message: &Outgoing) -> Self {
        Self {
            channel: message.channel,
            token: message.token,
            notify: message.notify,
            class,
            size: Held::of(message),
            reason: 0,
        }
    }

    /// 1, unless the program took the message back.
    fn failures(&self) -> u64 {
        u64::from(!matches!(self.reason, CANCELLED | EXPIRED))
    }
}

/// The messages that a peer's gate has let through.
pub(super) struct Account {
    pub(super) gate: Arc<Gate>,
    /// Messages taken out of the ring and not yet credited to the gate.
    pub(super) held: ByClass,
    /// Messages that the engine did not take yet. It would have room for them, but the session is
    /// suspended, or the program has not received the messages of those before.
    pub(super) deferred: VecDeque<DeferredMessage>,
    /// Messages that the engine refused, since the session is closing or has too many channels, and
    /// whose events were not handed over yet.
    pub(super) refused: VecDeque<Refused>,
    /// Deferred messages, and refused ones.
    pub(super) kept: ByClass,
    /// Refused messages, and how many of them are failures.
    pub(super) refused_held: Held,
    refused_failures: u64,
    /// The program asked whether the peer has all one-sided requests: they count until it has.
    pub(super) counts_requests: bool,
    /// One-sided requests that the engine did not take yet.
    requests: Held,
    /// Refused messages without an event: there were too many, and the program did not ask to be
    /// told.
    dropped: u64,
    /// Acknowledged messages kept behind an unacknowledged one, as reported to the gate.
    pub(super) over: Held,
    /// Refused messages, as reported to the gate.
    pub(super) refused_told: Held,
    failures_told: u64,
    /// Failed messages, as reported to the gate.
    pub(super) failed: u64,
    /// The account is among the open ones.
    pub(super) open: bool,
    /// The gate changed so that its waiters should look again. They are not woken under a lock.
    pub(super) to_wake: bool,
    /// The gate may have room, and the program waits to hear of it.
    pub(super) to_tell_room: bool,
}

impl Account {
    /// The account of a peer to which nothing was sent so far.
    pub(super) fn new(gate: Arc<Gate>) -> Self {
        Self {
            gate,
            held: ByClass::default(),
            deferred: VecDeque::new(),
            refused: VecDeque::new(),
            kept: ByClass::default(),
            refused_held: Held::default(),
            refused_failures: 0,
            counts_requests: false,
            requests: Held::default(),
            dropped: 0,
            over: Held::default(),
            refused_told: Held::default(),
            failures_told: 0,
            failed: 0,
            open: false,
            to_wake: false,
            to_tell_room: false,
        }
    }

    /// Cancels the messages on `channel` with this token that the engine did not take yet. Returns
    /// how many.
    pub(super) fn cancel(&mut self, channel: ChannelId, token: u64) -> u64 {
        let (cancelled, kept) = core::mem::take(&mut self.deferred)
            .into_iter()
            .partition::<VecDeque<_>, _>(|deferred| {
                let message = &deferred.message;
                deferred.call.is_none() && (message.channel, message.token) == (channel, token)
            });
        self.deferred = kept;
        let count = cancelled.len() as u64;
        for deferred in cancelled {
            self.take_back(deferred, CANCELLED);
        }
        count
    }

    /// Returns the message with the rest of its deadline, counted from `now`, unless that has
    /// passed.
    pub(super) fn unless_expired(
        &mut self,
        mut deferred: DeferredMessage,
        now: Instant,
    ) -> Option<DeferredMessage> {
        if let Some(deadline) = &mut deferred.message.deadline {
            let waited = now.since(deferred.since);
            if waited > *deadline {
                self.take_back(deferred, EXPIRED);
                return None;
            }
            *deadline -= waited;
        }
        Some(deferred)
    }

    /// Takes note that a message was cancelled before the engine took it.
    fn take_back(&mut self, deferred: DeferredMessage, reason: u64) {
        let mut refused = Refused::new(deferred.class, &deferred.message);
        refused.reason = reason;
        match refused.notify {
            true => self.refuse(refused),
            false => (self.kept).change(refused.class, |kept| kept.minus(refused.size)),
        }
    }

    /// Keeps the remains of a message until the program can hear of it.
    pub(super) fn refuse(&mut self, refused: Refused) {
        self.refused_held = self.refused_held.plus(refused.size);
        self.refused_failures += refused.failures();
        self.refused.push_back(refused);
    }

    /// Tells the gate how many messages failed whose events were not handed over.
    fn set_failed(&mut self, messages: u64) {
        if self.failed != messages {
            self.failed = messages;
            self.gate.set_failed(messages);
        }
    }

    /// Hands over the events of refused messages until `most` events of the node wait for the
    /// program. The others are kept, and take room in the gate, until the program takes events.
    /// Tells the gate which messages are kept. Returns whether there are any.
    pub(super) fn tell_refused(&mut self, node: NodeId, events: &mut Events, most: usize) -> bool {
        while events.len_of(node) < most
            && let Some(refused) = self.refused.pop_front()
        {
            self.let_go(&refused);
            let event = Event::NotDelivered {
                node,
                channel: refused.channel,
                number: UNNUMBERED,
                token: refused.token,
                reason: refused.reason,
            };
            let failed = self.gate.hand_over(event.failures());
            events.push(event, failed, None);
        }
        self.note_refused();
        let left = !self.refused.is_empty();
        if left {
            events.keep_back(node);
        }
        left
    }

    /// Drops refused messages that were sent without `notify`: they fill the queue of a program
    /// that never took an event. Only a flush tells of them.
    pub(super) fn drop_refused(&mut self) {
        let (kept, dropped) = core::mem::take(&mut self.refused)
            .into_iter()
            .partition::<VecDeque<_>, _>(|refused| refused.notify);
        self.refused = kept;
        for refused in &dropped {
            self.dropped += refused.failures();
            self.let_go(refused);
        }
        self.note_refused();
    }

    fn let_go(&mut self, refused: &Refused) {
        self.refused_held = self.refused_held.minus(refused.size);
        self.refused_failures -= refused.failures();
        self.kept
            .change(refused.class, |kept| kept.minus(refused.size));
    }

    /// Tells the gate which refused messages are kept. Only after others were let go: a flush that
    /// comes before this waits. Otherwise it would count most failures twice, first as refused,
    /// then as dropped.
    fn note_refused(&mut self) {
        if self.refused_told != self.refused_held {
            self.refused_told = self.refused_held;
            self.failures_told = self.refused_failures;
            self.gate.set_refused(self.refused_held);
            self.to_wake = true;
        }
    }

    /// Tells the program in which classes the gate has the room that it waits for.
    pub(super) fn tell_room(&mut self, node: NodeId, events: &mut Events) {
        self.to_tell_room = false;
        self.gate
            .tell_room(|class| events.push(Event::Writable { node, class }, 0, None));
    }

    /// Counts the one-sided requests that wait in the layer, if they count.
    pub(super) fn count_requests(&mut self, node: NodeId, places: &Places) {
        if self.counts_requests {
            let mut layer = places.remote();
            self.requests = layer.waiting(node);
            self.counts_requests = self.requests != Held::default();
        }
    }

    /// Tells the gate of failures without a handed-over event, then credits it with messages that
    /// are acknowledged or ended. This comes before the program can hear of them, so that it finds
    /// the room.
    pub(super) fn balance(&mut self, node: NodeId, engine: &Engine) {
        let kept = self.dropped.saturating_add(self.failures_told);
        self.set_failed(engine.untold_failures(node).saturating_add(kept));
        let queued = engine.queued(node);
        if self.over != queued.over {
            self.over = queued.over;
            self.gate.set_over(queued.over);
        }
        let mut held = engine.queued_by_class(node);
        for class in 0..CLASSES as u8 {
            held.change(class, |queued| queued.plus(self.kept.get(class)));
        }
        let class = Priority::DEFAULT.class();
        held.change(class, |queued| queued.plus(self.requests));
        // An empty gate needs no mark, and has none once the account is closed.
        let died = held != ByClass::default() && engine.has_died(node);
        // Calls that wait for room look again.
        self.to_wake |= self.gate.set_died(died);
        if held != self.held {
            self.gate.settle(&self.held, &held);
            self.held = held;
            self.to_wake = true;
            self.to_tell_room |= self.gate.wants_room();
        }
    }

    /// Whether the gate has everything back.
    pub(super) fn is_settled(&self) -> bool {
        self.held == ByClass::default() && self.failed == self.dropped && !self.to_tell_room
    }
}
