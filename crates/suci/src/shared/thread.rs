//! The work for a shard: stands between its driver and the rings. Its I/O thread does the work, or
//! a caller that waits.

mod account;
mod calls;
mod groups;
mod serve;

use super::calls::{CallAnswer, OpenCalls};
use super::cross_shard::CrossShardQueue;
use super::events::{Before, EVENTS};
use super::inner::{Inner, Phase, both};
use super::ring::has_reached;
use super::shard::{COMMANDS, Command, MESSAGES, Shard, lock};
use crate::clock::Deadline;
use crate::driver::{Driver, PlannedSleep, Poll, SendCoalescer};
use crate::error::Error;
use crate::group::ServedGroups;
use crate::message::Message;
use crate::sys::{self, Ready};
use crate::wait::Awaited;
use account::{Account, DeferredMessage, Refused};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;
use suci_layers::sockets::Sockets;
use suci_proto::message::Held;
use suci_proto::time::Instant;
use suci_proto::types::{ChannelId, NodeId};
use suci_proto::{Event, Filter, NOT_PERMITTED, Outgoing, SendError, TOO_MANY_CHANNELS};

/// Maximum number of commands taken in one driver cycle. All that wait when the node closes fit
/// into one cycle. So many small messages take 20 ms, during which nothing is acknowledged. With a
/// bound of one ring's length, threads that send small messages without a pause sent a quarter
/// fewer.
const MAX_COMMANDS: usize = 16 * COMMANDS;

/// Gates of forgotten nodes that are kept in any case.
const SPARE_GATES: usize = 64;

/// The state of the work.
pub(super) struct Worker {
    pub(super) driver: Driver,
    accounts: BTreeMap<NodeId, Account>,
    /// Peers whose accounts are not settled. Only these accounts are checked in each cycle.
    open: Vec<NodeId>,
    /// Messages are left in the engine because the program does not take them.
    left_over: bool,
    /// Events of refused messages are left, because the program does not take those that came
    /// before.
    refused_left: bool,
    /// Replies are left, because their callers do not take earlier replies.
    replies_left: bool,
    /// Active messages are left, because the program does not take those that came before.
    pub(super) active_left: bool,
    /// The program's calls to this thread's peers.
    pub(super) calls: OpenCalls,
    /// The groups whose operations this thread carries on.
    pub(super) groups: ServedGroups,
    /// The peers and channels of the messages that were handed over just now.
    delivered_from: Vec<(NodeId, ChannelId)>,
    /// The same of the last messages handed over, as many as the ring holds.
    handed_over: VecDeque<(NodeId, ChannelId)>,
    /// How the next turn polls the socket.
    poll: Poll,
    /// Decides if what calls send for sockets waits for the next call.
    coalescer: SendCoalescer,
    /// The error of a turn of a caller. The I/O thread ends with it.
    failed: Option<Error>,
    /// The last field, so that everything else is gone when all callers hear of the end.
    pub(super) guard: ThreadGuard,
}

/// The step that follows a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Another turn.
    Turn,
    Sleep,
    /// The end: a handle closes the node.
    Close,
}

/// A sleep on behalf of a shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nap {
    sleep: PlannedSleep,
    left: Left,
}

impl Nap {
    pub(super) const fn interest(&self) -> sys::Interest {
        self.sleep.interest
    }

    pub(super) const fn limit(&self) -> Option<Duration> {
        self.sleep.limit
    }

    /// Returns when it ends at the latest.
    pub(super) fn until(&self) -> Option<Instant> {
        self.sleep.until()
    }

    pub(super) const fn left(&self) -> Left {
        self.left
    }
}

/// Work that was left because the program does not take earlier messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    pub(super) messages: bool,
    pub(super) refused: bool,
    pub(super) replies: bool,
    pub(super) active: bool,
}

/// The result of closing.
type Closed = Result<(), Error>;

/// Tells all callers that the thread has ended, for whatever reason.
pub(super) struct ThreadGuard {
    pub(super) inner: Arc<Inner>,
    /// The index of this thread's shard among the node's.
    index: usize,
    /// The rest of a thread that did not panic: its driver, and its result.
    left: Option<(Driver, Result<Closed, Error>)>,
}

impl ThreadGuard {
    pub(super) fn shard(&self) -> &Shard {
        // One of the shards is this thread's.
        &self.inner.shards[self.index]
    }

    /// Sleeps until the socket is ready, a thread leaves work, something is due, or `deadline`; not
    /// at all, if the thread is not `idle`.
    fn park(
        &self,
        driver: &mut Driver,
        deadline: Deadline,
        idle: impl FnOnce() -> bool,
    ) -> Result<Option<Ready>, Error> {
        let shard = self.shard();
        let sleep = || driver.sleep(Some(shard.event_fd.as_raw_fd()), deadline);
        let ready = shard.serving.park_thread(idle, sleep).transpose()?;
        // A caller that waits still has to notice it.
        if ready.is_some_and(|ready| ready.signalled) && shard.serving.waits() & 1 == 0 {
            shard.event_fd.clear();
        }
        Ok(ready)
    }

    /// Notes that this thread no longer needs its socket. Threads that wait for the others then
    /// check if all have noted that.
    fn say_closed(&self) {
        self.shard().closed.store(true, Ordering::SeqCst);
        if self.inner.all_closed() {
            self.inner.shards.iter().for_each(Shard::unpark);
        }
    }
}

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        let (driver, closed) = match self.left.take() {
            Some((driver, Ok(closed))) => (Some(driver), Some(closed)),
            Some((driver, Err(error))) => {
                self.inner.fail(error.to_string());
                (Some(driver), None)
            }
            None => {
                // Its descriptors were closed with its driver.
                self.shard().gone.store(true, Ordering::Relaxed);
                let failure = "it panicked, which is a defect of the library";
                self.inner.fail(failure.into());
                (None, None)
            }
        };
        self.say_closed();
        let shard = self.shard();
        shard.close_gates();
        // A caller that waits for the answer to a command learns that there is none.
        while shard.commands.pop().is_some() {}
        shard.done.store(true, Ordering::Release);
        shard.sockets.update(Sockets::give_up);
        self.inner.retire(driver, closed);
        self.inner.wake_all();
    }
}

impl Worker {
    /// For the shard at `index`.
    pub(super) fn new(inner: Arc<Inner>, index: usize, mut driver: Driver) -> Self {
        if inner.shards.len() > 1 {
            driver.cross_shard = Some(CrossShardQueue::new(index, Arc::clone(&inner.shards)));
        }
        driver.waiter.begin(inner.fixed.wait, Awaited::Progress);
        let groups = ServedGroups::new(Arc::clone(&driver.places.groups));
        Self {
            driver,
            accounts: BTreeMap::new(),
            open: Vec::new(),
            left_over: false,
            refused_left: false,
            replies_left: false,
            active_left: false,
            calls: OpenCalls::default(),
            groups,
            delivered_from: Vec::new(),
            handed_over: VecDeque::with_capacity(MESSAGES),
            poll: Poll::OneFirst,
            coalescer: SendCoalescer::allowed(),
            failed: None,
            guard: ThreadGuard {
                inner,
                index,
                left: None,
            },
        }
    }

    /// Does all that is to be done now, within bounds.
    pub(super) fn turn(&mut self) -> Result<After, Error> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.guard.index == 0 {
            self.guard.inner.forward_wake();
        }
        if self.coalescer.holds_messages() {
            self.coalescer.on_output(self.driver.read_clock());
        }
        let poll = core::mem::replace(&mut self.poll, Poll::OneFirst);
        let commands = self.take_commands();
        if commands > 0 {
            self.driver.output_urgent()?;
        }
        let before = self.driver.engine.counters().datagrams_in;
        self.driver.run_cycle_with(poll)?;
        // Before the program can act on the messages that came with an acknowledgement.
        self.balance();
        self.deliver();
        self.deliver_active(false);
        self.end_calls();
        let mut offered = self.settle(EVENTS);
        if !self.groups.is_empty() || self.driver.engine.has_late_of_group() {
            offered |= self.progress_groups();
        }
        // Sending brought an event: a step more is due. It is in any case if something was left
        // to be sent.
        let heard = self.driver.output_rest()?;
        if self.guard.shard().closing.load(Ordering::Acquire) {
            return Ok(After::Close);
        }
        let active = commands > 0 || self.driver.engine.counters().datagrams_in != before;
        if active {
            let wait = self.guard.inner.fixed.wait;
            self.driver.waiter.begin(wait, Awaited::Progress);
        }
        Ok(match offered || heard {
            true => After::Turn,
            false => After::Sleep,
        })
    }

    /// Keeps the error of a turn for the I/O thread, which ends with it.
    pub(super) fn fail(&mut self, error: Error) {
        self.failed = Some(error);
    }

    /// The next turn leaves the socket alone, unless a timer is due.
    pub(super) fn expect_no_input(&mut self) {
        self.poll = Poll::IfTimerDue;
    }

    /// The next turn asks for several datagrams at once, if it polls the socket.
    pub(super) fn expect_many(&mut self) {
        if self.poll == Poll::OneFirst {
            self.poll = Poll::Several;
        }
    }

    /// Notes that a caller waits.
    pub(super) fn on_wait(&mut self) {
        self.coalescer.on_wait();
    }

    /// Whether the bytes that a call left, which began at `called`, wait for the next call.
    /// `more`: the program is going to send more.
    pub(super) fn keeps(&mut self, called: Instant, bytes: u64, more: bool) -> bool {
        let now = self.driver.read_clock();
        if more {
            self.coalescer.expect_more();
        }
        let keeps = self.coalescer.keeps(called, now, bytes);
        self.guard.shard().note_hold(self.coalescer.last_hold());
        keeps
    }

    /// Notes that a call ended that sent what it left.
    pub(super) fn on_sent(&mut self) {
        let now = self.driver.read_clock();
        self.coalescer.on_end(now);
    }

    /// Returns when the next turn is due.
    pub(super) fn due(&mut self) -> Option<Instant> {
        self.plan_sleep().until()
    }

    /// Executes commands of the handles, [`MAX_COMMANDS`] at most, and takes their one-sided
    /// operations. Returns how much there was to do.
    fn take_commands(&mut self) -> usize {
        let mut count = 0;
        // A command that comes after this line may still be taken below. `urgent` then stays set,
        // and the next poll ends early, once.
        self.guard.shard().urgent.store(false, Ordering::Relaxed);
        while count < MAX_COMMANDS
            && let Some(command) = self.guard.shard().commands.pop()
        {
            count += 1;
            match command {
                Command::Send(to, class, message, answer) => {
                    self.accept(to, class, message, answer);
                    self.driver.output_if_wanted();
                }
                Command::Run(work) => work(self),
            }
        }
        if count > 0 {
            self.guard.shard().command_room.wake();
        }
        // Requests that come after this line may be sent now; the next call then finds none.
        if self.guard.shard().take_remote_asked() {
            self.driver.read_clock();
            self.driver.serve_remote();
            count += 1;
        }
        count
    }

    /// Counts the program's one-sided requests in the gates of their targets, as messages, until
    /// these have them.
    pub(super) fn count_requests(&mut self) {
        self.driver.read_clock();
        self.driver.serve_remote();
        let shard = self.guard.shard();
        let targets = shard.places.remote().unanswered();
        for node in targets {
            let (accounts, open) = (&mut self.accounts, &mut self.open);
            let account = open_account(accounts, open, &self.guard, node);
            account.counts_requests = true;
            account.count_requests(node, &shard.places);
            account.balance(node, &self.driver.engine);
        }
    }

    fn accept(&mut self, to: NodeId, class: u8, message: Outgoing, answer: Option<CallAnswer>) {
        let account = open_account(&mut self.accounts, &mut self.open, &self.guard, to);
        let size = Held::of(&message);
        account.held.change(class, |held| held.plus(size));
        account.kept.change(class, |kept| kept.plus(size));
        let call = answer.map(|answer| self.calls.insert(answer));
        let now = self.driver.read_clock();
        let deferred = DeferredMessage::new(class, message, call, now);
        account.deferred.push_back(deferred);
        if account.deferred.len() == 1 {
            Self::offer(&mut self.driver, &mut self.calls, to, account, now);
        }
    }

    /// Cancels the messages for `to` on `channel` with this token, and returns how many. The gate
    /// has their room then.
    pub(super) fn cancel_messages(
        &mut self,
        to: NodeId,
        channel: ChannelId,
        token: u64,
    ) -> Result<u64, SendError> {
        let engine = &mut self.driver.engine;
        let cancelled = engine.cancel(to, channel, token)?;
        let Some(account) = self.accounts.get_mut(&to) else {
            return Ok(cancelled);
        };
        let deferred = account.cancel(channel, token);
        account.balance(to, engine);
        Ok(cancelled + deferred)
    }

    /// Offers the engine the deferred messages. Returns whether it took any of them.
    fn offer(
        driver: &mut Driver,
        calls: &mut OpenCalls,
        to: NodeId,
        account: &mut Account,
        now: Instant,
    ) -> bool {
        let before = account.deferred.len();
        while let Some(deferred) = account.deferred.pop_front() {
            let Some(DeferredMessage {
                class,
                message,
                call,
                ..
            }) = account.unless_expired(deferred, now)
            else {
                continue;
            };
            let refused = Refused::new(class, &message);
            let size = refused.size;
            if call.is_some_and(|id| !calls.has(id)) {
                // The call was cancelled, or its time is over.
                account.kept.change(class, |kept| kept.minus(size));
                continue;
            }
            let offered = match call {
                None => driver.offer(to, message).map(drop),
                Some(id) => driver.offer_call(to, id, message),
            };
            match offered {
                Ok(()) => account.kept.change(class, |kept| kept.minus(size)),
                // The gate let it in before it knew of the suspension, of unread messages, of the
                // channel's new class, or of one-sided operations: it is accepted, and kept.
                Err(
                    Error::WouldBlock { message, .. }
                    | Error::Unread { message, .. }
                    | Error::Suspended { message, .. },
                ) => {
                    let held = || driver.engine.queued_by_class(to).get(class);
                    debug_assert!(
                        account.gate.has_classes()
                            || driver.served_remote
                            || driver.sends_for_sockets()
                            || account.gate.admits(held(), size),
                        "where the gate has room the engine has"
                    );
                    let deferred = DeferredMessage::new(class, message.into_outgoing(), call, now);
                    account.deferred.push_front(deferred);
                    break;
                }
                Err(error) if let Some(answer) = call.and_then(|id| calls.remove(id)) => {
                    account.kept.change(class, |kept| kept.minus(size));
                    // A caller that does not wait any more needs no reason.
                    let _ = answer.give(Err(error));
                }
                Err(error) => {
                    let reason = match error {
                        Error::NotPermitted { .. } => NOT_PERMITTED,
                        Error::Channels { .. } => TOO_MANY_CHANNELS,
                        _ => refused.reason,
                    };
                    account.refuse(Refused { reason, ..refused });
                }
            }
        }
        account.deferred.len() < before
    }

    /// Hands events and messages over, as many messages as there is room for.
    fn deliver(&mut self) {
        self.tell_suspensions();
        for node in self.driver.take_known() {
            let known = self.driver.engine.knows(node);
            let gate = self.guard.shard().gate_or_new(node);
            gate.set_removed(!known);
        }
        let mut delivered = false;
        // A thread that waits for events hears of announced messages by these.
        let hears = self.guard.inner.event_ready.0.has_any();
        // Asked before their events are handed over, told after the messages that are there.
        let engine = &mut self.driver.engine;
        let announced: Vec<_> = std::iter::from_fn(|| engine.poll_unanswered()).collect();
        loop {
            self.deliver_events(&[]);
            self.left_over = self.driver.engine.has_message();
            let shard = self.guard.shard();
            // Asked before a message is taken, since the end of its session would not wait for it
            // any more.
            if self.left_over && !shard.has_room() {
                if shard.starved.swap(true, Ordering::Relaxed) {
                    break;
                }
                // `starved` is set only now: messages taken meanwhile made room unnoticed.
                fence(Ordering::SeqCst);
                continue;
            }
            let Some(message) = self.driver.take_message() else {
                break;
            };
            self.hand_over(message);
            delivered = true;
        }
        if !(hears || announced.is_empty()) {
            self.guard.shard().unanswered.announce(announced);
            delivered = true;
        }
        self.deliver_wanted();
        if delivered || !self.delivered_from.is_empty() {
            self.guard.inner.message_ready.0.wake();
            let delivered = &self.delivered_from;
            let concerns = |filter: Filter| {
                let mut delivered = delivered.iter();
                delivered.any(|(node, channel)| filter.admits(*node, *channel))
            };
            self.guard.shard().wants.wake_those(concerns);
            self.delivered_from.clear();
        }
    }

    /// Hands over messages that calls wait for, although the program does not take those before:
    /// one message for each call.
    fn deliver_wanted(&mut self) {
        if !self.left_over {
            return;
        }
        for wanted in self.guard.shard().wants.wanted() {
            if !self.guard.shard().messages.has_room() {
                return;
            }
            if let Some(message) = self.driver.take_wanted(wanted) {
                self.hand_over(message);
            }
        }
    }

    /// Hands a message over: there must be room.
    fn hand_over(&mut self, message: Message) {
        let from = (message.from, message.channel);
        self.delivered_from.push(from);
        if self.handed_over.len() == MESSAGES {
            self.handed_over.pop_front();
        }
        self.handed_over.push_back(from);
        self.guard.shard().deliver(message);
    }

    /// Hands events over; the messages that are `left`, which came before them, are still here.
    fn deliver_events(&mut self, left: &[Message]) {
        let engine = &mut self.driver.engine;
        if !engine.has_event() {
            return;
        }
        let mut came = false;
        // The node whose account was balanced last: only failures require that again.
        let mut balanced = None;
        let mut ended = Vec::new();
        {
            let shard = self.guard.shard();
            let mut events = lock(&shard.events);
            while let Some(event) = engine.poll_event() {
                if let Event::Up { node, .. } = event {
                    // A node that is not in the book, or that was removed, may be answered once it
                    // came by itself.
                    let known = engine.knows(node);
                    shard.gate_or_new(node).set_removed(!known);
                    came = true;
                }
                let node = event.node();
                if let Event::Ended {
                    reason,
                    session,
                    sessions,
                    ..
                } = event
                {
                    shard.unanswered.forget_until(node, session);
                    if let Some(gate) = shard.gate(node) {
                        gate.note_end(reason, sessions);
                        ended.push(node);
                    }
                }
                let ends = matches!(event, Event::Delivered { .. } | Event::Ended { .. });
                let mut failed = event.failures();
                if (failed > 0 || (ends && balanced != Some(node)))
                    && let Some(account) = self.accounts.get_mut(&node)
                {
                    failed = account.gate.hand_over(failed);
                    account.balance(node, engine);
                    balanced = Some(node);
                    if !core::mem::replace(&mut account.open, true) {
                        self.open.push(node);
                    }
                }
                let after = follows(&event).and_then(|(node, channel)| {
                    untaken_end(shard, &self.handed_over, left, node, channel)
                });
                events.push(event, failed, after);
            }
            let most = 2 * engine.peer_count() + SPARE_GATES;
            events.forget(most, |node| engine.knows(node));
            shard.note_held(&events);
        }
        self.guard.inner.event_ready.0.wake();
        if !ended.is_empty() {
            let concerns = |filter: Filter| filter.node().is_some_and(|node| ended.contains(&node));
            self.guard.shard().wants.wake_those(concerns);
        }
        if came {
            self.forget_strangers();
        }
    }

    /// Forgets gates and accounts of nodes that the engine forgot, once there are more of them than
    /// nodes that it knows. So each new node pays for a forgotten one.
    fn forget_strangers(&mut self) {
        let engine = &self.driver.engine;
        let shard = self.guard.shard();
        if shard.gates().len() <= 2 * engine.peer_count() + SPARE_GATES {
            return;
        }
        self.accounts
            .retain(|&node, account| engine.knows(node) || !account.is_settled());
        shard.forget_gates(|node| !engine.knows(node));
    }

    /// Tells the gates whose suspension changed: before the program hears of it.
    fn tell_suspensions(&mut self) {
        let engine = &mut self.driver.engine;
        while let Some(node) = engine.poll_suspension() {
            let gate = self.guard.shard().gate_or_new(node);
            gate.set_suspended(engine.suspended_by(node));
        }
    }

    /// Credits the gates with messages that are acknowledged or ended.
    fn balance(&mut self) {
        for node in &self.open {
            if let Some(account) = self.accounts.get_mut(node) {
                account.balance(*node, &self.driver.engine);
                if core::mem::take(&mut account.to_wake) {
                    account.gate.room.wake();
                }
            }
        }
    }

    /// Offers the engine its deferred messages again, hands over the events of refused ones until
    /// `most` wait for the program, tells the gates of failures without a handed-over event, and
    /// credits them with messages that are acknowledged or ended.
    ///
    /// It comes after the engine's step, as the last thing before the thread sleeps. An
    /// acknowledgement, a peer that resumes, or an event that was handed over makes room, and may
    /// be the last thing that wakes the thread. Returns whether the engine took something: then one
    /// more step is due.
    fn settle(&mut self, most: usize) -> bool {
        for node in self.guard.shard().take_room_asked() {
            let (accounts, open) = (&mut self.accounts, &mut self.open);
            open_account(accounts, open, &self.guard, node).to_tell_room = true;
        }
        let Self {
            guard,
            driver,
            accounts,
            refused_left,
            calls,
            ..
        } = self;
        if core::mem::take(refused_left) {
            lock(&guard.shard().events).has_refill = false;
        }
        let mut offered = false;
        self.open.retain(|&node| {
            let Some(account) = accounts.get_mut(&node) else {
                return false;
            };
            account.count_requests(node, &guard.shard().places);
            if !account.deferred.is_empty() {
                let now = driver.read_clock();
                offered |= Self::offer(driver, calls, node, account, now);
            }
            if account.refused.is_empty() {
                account.balance(node, &driver.engine);
            } else {
                let shard = guard.shard();
                let mut events = lock(&shard.events);
                *refused_left |= account.tell_refused(node, &mut events, most);
                account.balance(node, &driver.engine);
                if account.gate.turns_away() && !events.are_taken() {
                    account.drop_refused();
                    account.balance(node, &driver.engine);
                }
                drop(events);
                guard.inner.event_ready.0.wake();
            }
            if core::mem::take(&mut account.to_wake) {
                account.gate.room.wake();
            }
            if account.to_tell_room {
                let shard = guard.shard();
                let mut events = lock(&shard.events);
                account.tell_room(node, &mut events);
                drop(events);
                guard.inner.event_ready.0.wake();
            }
            account.open = !account.is_settled();
            account.open
        });
        offered
    }

    /// Returns what a sleep waits for that begins now.
    pub(super) fn plan_sleep(&mut self) -> Nap {
        let mut sleep = self.driver.plan_sleep();
        let now = self.driver.read_clock();
        let due = self.calls.next_due().map(|at| at.since(now));
        sleep.limit = sleep.limit.into_iter().chain(due).min();
        Nap {
            sleep,
            left: Left {
                messages: self.left_over,
                refused: self.refused_left,
                replies: self.replies_left,
                active: self.active_left,
            },
        }
    }

    /// Notes what a sleep found ready; nothing, if there was work instead.
    pub(super) fn on_woken(&mut self, nap: &Nap, ready: Option<Ready>) {
        if let Some(ready) = ready {
            self.driver.on_woken(&nap.sleep, ready);
        }
        let polls = ready.is_none_or(|ready| ready.input || !ready.signalled);
        self.poll = if polls {
            Poll::OneFirst
        } else {
            Poll::IfTimerDue
        };
    }

    /// Closes the engine.
    fn close(&mut self) -> Result<(), Error> {
        // No handle gets past its check any more: this is all.
        self.take_commands();
        self.settle(EVENTS);
        let patience = match lock(&self.guard.inner.life).phase {
            Phase::Closing(patience) => patience,
            Phase::Open => std::time::Duration::ZERO,
        };
        let guard = &self.guard;
        let deadline = Deadline::after(patience);
        // The last quarter is for the other messages, and for the peers' answers.
        let sockets_end = Deadline::after(patience / 4 * 3);
        let sent = Self::send_for_sockets(guard, &mut self.driver, sockets_end)?;
        let patience = deadline.left().unwrap_or(patience);
        let closed = self.driver.close_with(patience, |driver, deadline| {
            guard.park(driver, deadline, || guard.shard().forwarded.is_empty())?;
            guard.inner.forward_wake();
            driver.run_cycle()
        });
        self.leave();
        let result = self.refuse_deferred(both(closed, sent));
        self.stand_by();
        result
    }

    /// Hands the engine the messages that sockets accepted before the node was closed. They wait
    /// while its queues are full, and the rests of long ones until their receivers read. Other
    /// sockets end now. Returns what was not sent as the result of closing.
    fn send_for_sockets(
        guard: &ThreadGuard,
        driver: &mut Driver,
        deadline: Deadline,
    ) -> Result<Closed, Error> {
        let table = Arc::clone(&guard.shard().sockets);
        table.update(Sockets::end);
        let mut left = BTreeMap::<NodeId, u64>::new();
        let is_sending = |sockets: &mut Sockets| sockets.has_output() || sockets.has_unsent();
        while table.update(is_sending) && !deadline.is_over() {
            driver.run_cycle()?;
            let is_lost = |node| driver.engine.is_lost(node);
            add(&mut left, table.update(|it| it.drop_output(is_lost)));
            let idle = || guard.shard().forwarded.is_empty() && !table.has_left_output();
            if table.update(is_sending) {
                guard.park(driver, deadline, idle)?;
            }
        }
        add(&mut left, table.update(Sockets::give_up));
        Ok(match left.is_empty() {
            true => Ok(()),
            false => Err(Error::NotFlushed {
                peers: left.into_iter().collect(),
            }),
        })
    }

    /// Leaves the messages that the program has not taken where it finds them. They are bounded,
    /// and the engine is not asked again.
    fn leave(&mut self) {
        self.deliver();
        self.deliver_active(true);
        self.end_calls();
        let mut rest = Vec::new();
        loop {
            self.deliver_events(&rest);
            let Some(message) = self.driver.take_message() else {
                break;
            };
            rest.push(message);
        }
        self.guard.shard().leave(rest);
        self.guard.inner.message_ready.0.wake();
        self.guard.shard().wants.wake();
    }

    /// Forwards datagrams that come to this socket for others, until they have closed too, and goes
    /// on answering peers.
    fn stand_by(&mut self) {
        let guard = &self.guard;
        guard.say_closed();
        let idle = || guard.shard().forwarded.is_empty() && !guard.inner.all_closed();
        while !guard.inner.all_closed() {
            let slept = guard.park(&mut self.driver, Deadline::NEVER, idle);
            // The result of closing stands, even if the socket fails now.
            if slept.is_err() || self.driver.run_cycle().is_err() {
                return;
            }
        }
    }

    /// Refuses the messages that the closed engine never took. Each has its event, and counts in
    /// the result of closing unless the program could hear of it before.
    fn refuse_deferred(&mut self, closed: Result<(), Error>) -> Result<(), Error> {
        let deferred = |(&node, account): (&NodeId, &Account)| {
            let count = account.deferred.len() + account.refused.len();
            (count > 0).then_some((node, count as u64))
        };
        let peers: Vec<_> = self.accounts.iter().filter_map(deferred).collect();
        self.settle(usize::MAX);
        match peers.is_empty() {
            true => closed,
            false => both(closed, Err(Error::NotFlushed { peers })),
        }
    }
}

/// Adds counts for each node.
fn add(sum: &mut BTreeMap<NodeId, u64>, more: BTreeMap<NodeId, u64>) {
    for (node, count) in more {
        *sum.entry(node).or_default() += count;
    }
}

/// The messages that an event must not come before: those of a node, or of one of its channels.
fn follows(event: &Event) -> Option<(NodeId, Option<ChannelId>)> {
    match *event {
        Event::Ended { node, .. } => Some((node, None)),
        Event::ChannelFinished { node, channel } => Some((node, Some(channel))),
        _ => None,
    }
}

/// The position after the last message of `node` (on `channel`) that the program did not take. The
/// messages that are `left` come after those that were handed over.
fn untaken_end(
    shard: &Shard,
    handed_over: &VecDeque<(NodeId, ChannelId)>,
    left: &[Message],
    node: NodeId,
    channel: Option<ChannelId>,
) -> Option<usize> {
    let is_one = |(from, on): (NodeId, ChannelId)| {
        from == node && channel.is_none_or(|channel| on == channel)
    };
    let end = shard.delivered();
    let among_left = left.iter().rposition(|m| is_one((m.from, m.channel)));
    if let Some(index) = among_left {
        return Some(end.wrapping_add(index).wrapping_add(1));
    }
    let Some(taken) = shard.messages.emptied_open() else {
        return shard.sort().end_of(Before { node, channel, end });
    };
    let behind = handed_over.iter().rev().position(|from| is_one(*from))?;
    let after = end.wrapping_sub(behind);
    (!has_reached(taken, after)).then_some(after)
}

/// The account of a peer, which is among the open ones now.
fn open_account<'a>(
    accounts: &'a mut BTreeMap<NodeId, Account>,
    open: &mut Vec<NodeId>,
    guard: &ThreadGuard,
    node: NodeId,
) -> &'a mut Account {
    let account = accounts
        .entry(node)
        .or_insert_with(|| Account::new(guard.shard().gate_or_new(node)));
    if !core::mem::replace(&mut account.open, true) {
        open.push(node);
    }
    account
}
