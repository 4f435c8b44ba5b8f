//! The I/O thread: owns the driver, and stands between it and the rings.

use super::gate::{self, Gate};
use super::inner::{Command, EVENTS, Inner, MESSAGE_BYTES, Phase, lock};
use crate::clock::Deadline;
use crate::driver::Driver;
use crate::error::Error;
use crate::wait::{Spinner, Wait};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use suci_proto::types::NodeId;
use suci_proto::{Event, Outgoing};

/// The number that [`Event::NotDelivered`] names for a message that a thread's engine did not accept.
const UNNUMBERED: u64 = u64::MAX;

/// Gates of forgotten nodes that are kept in any case.
const SPARE_GATES: usize = 64;

/// What a peer's gate has let through, and how much of it was given back.
struct Account {
    gate: Arc<Gate>,
    /// Charges and messages taken out of the ring.
    taken: (u64, u64),
    /// Those credited to the gate again.
    credited: (u64, u64),
    /// Messages that the engine did not take yet: its queue is bounded by other rules too.
    stash: VecDeque<Outgoing>,
    /// What the gate was told of failures.
    failed: u64,
}

impl Account {
    /// Tells the gate how many messages failed whose events were not handed over.
    fn set_failed(&mut self, messages: u64) {
        if self.failed != messages {
            self.failed = messages;
            self.gate.set_failed(messages);
        }
    }
}

/// The thread's state.
pub(super) struct Worker {
    inner: Arc<Inner>,
    driver: Driver,
    spinner: Spinner,
    accounts: BTreeMap<NodeId, Account>,
    /// Messages are left in the engine because the program does not take them.
    left_over: bool,
    /// Events likewise.
    events_left: bool,
}

/// Whatever ends the thread, everybody hears of it.
struct Ending(Arc<Inner>);

impl Drop for Ending {
    fn drop(&mut self) {
        let inner = &self.0;
        inner.close_gates();
        {
            let mut life = lock(&inner.life);
            if life.phase != Phase::Done {
                let failure = "it panicked, which is a defect of the library";
                life.failure.get_or_insert_with(|| failure.into());
                life.phase = Phase::Done;
            }
        }
        // Whoever waits for the answer to a command learns that there is none.
        while inner.commands.pop().is_some() {}
        inner.done.store(true, Ordering::Release);
        inner.wake_all();
    }
}

impl Worker {
    pub(super) fn new(inner: Arc<Inner>, driver: Driver, wait: Wait) -> Self {
        Self {
            inner,
            driver,
            spinner: Spinner::new(wait),
            accounts: BTreeMap::new(),
            left_over: false,
            events_left: false,
        }
    }

    /// The thread's body.
    pub(super) fn run(mut self) {
        let inner = Arc::clone(&self.inner);
        let _ending = Ending(Arc::clone(&inner));
        let result = self.serve();
        let mut life = lock(&inner.life);
        match result {
            Ok(closed) => life.result = Some(closed),
            Err(error) => life.failure = Some(error.to_string()),
        }
        life.phase = Phase::Done;
    }

    /// Serves until somebody closes the node. Returns what closing found out.
    fn serve(&mut self) -> Result<Result<(), Error>, Error> {
        let mut look = true;
        loop {
            let commands = self.take_commands()?;
            let before = self.driver.engine.counters().datagrams_in;
            self.driver.step(look)?;
            self.deliver();
            self.balance();
            if self.inner.closing.load(Ordering::Acquire) {
                return Ok(self.close());
            }
            let active = commands > 0 || self.driver.engine.counters().datagrams_in != before;
            if active {
                self.spinner.restart();
            }
            look = self.spinner.pauses(self.driver.now()) || self.sleep()?;
        }
    }

    /// Executes what the handles asked for. Returns how much that was.
    fn take_commands(&mut self) -> Result<usize, Error> {
        self.unstash();
        let mut count = 0;
        while let Some(command) = self.inner.commands.pop() {
            count += 1;
            match command {
                Command::Send(to, message) => {
                    self.accept(to, message);
                    self.driver.flush_if_wanted()?;
                }
                Command::Call(call) => call(&mut self.driver),
            }
        }
        if count > 0 {
            self.inner.command_room.wake();
        }
        Ok(count)
    }

    fn accept(&mut self, to: NodeId, message: Outgoing) {
        let inner = &self.inner;
        let account = self.accounts.entry(to).or_insert_with(|| Account {
            gate: inner.gate_or_new(to),
            taken: (0, 0),
            credited: (0, 0),
            stash: VecDeque::new(),
            failed: 0,
        });
        account.taken.0 += gate::charge_of(message.payload.len());
        account.taken.1 += 1;
        account.stash.push_back(message);
        if account.stash.len() == 1 {
            Self::offer(inner, &mut self.driver, to, account);
        }
    }

    /// Offers the engine what it did not take before.
    fn unstash(&mut self) {
        for (&to, account) in &mut self.accounts {
            if !account.stash.is_empty() {
                Self::offer(&self.inner, &mut self.driver, to, account);
            }
        }
    }

    fn offer(inner: &Inner, driver: &mut Driver, to: NodeId, account: &mut Account) {
        while let Some(message) = account.stash.pop_front() {
            let (channel, token) = (message.channel, message.token);
            match driver.offer(to, message) {
                Ok(_) => {}
                // The gate let it in before it knew of the suspension: it is accepted, and kept.
                Err(Error::WouldBlock { message, .. } | Error::Suspended { message, .. }) => {
                    account.stash.push_front(message.into_outgoing());
                    return;
                }
                // The session is closing, or has too many channels: the message has its outcome.
                Err(_) => {
                    lock(&inner.events).queue.push_back(Event::NotDelivered {
                        node: to,
                        channel,
                        number: UNNUMBERED,
                        token,
                        reason: UNNUMBERED,
                    });
                    inner.event_ready.wake();
                }
            }
        }
    }

    /// Hands events and messages over, as many messages as there is room for.
    fn deliver(&mut self) {
        self.tell_suspensions();
        let inner = Arc::clone(&self.inner);
        let mut delivered = false;
        loop {
            self.deliver_events(EVENTS);
            let Some(message) = self.driver.take_message() else {
                self.left_over = false;
                break;
            };
            if self.events_left {
                // The event that would have made it possible to answer is among them.
                inner.gate_or_new(message.from);
            }
            let length = u64::try_from(message.payload.len()).unwrap_or(u64::MAX);
            let before = inner.message_bytes.fetch_add(length, Ordering::AcqRel);
            let refused = match before <= MESSAGE_BYTES {
                true => inner.messages.push(message).err(),
                false => Some(message),
            };
            let Some(message) = refused else {
                delivered = true;
                continue;
            };
            inner.message_bytes.fetch_sub(length, Ordering::AcqRel);
            self.driver.put_back(message);
            if inner.starved.swap(true, Ordering::Relaxed) {
                self.left_over = true;
                break;
            }
            // Announced only now: what was taken meanwhile made room unnoticed.
            fence(Ordering::SeqCst);
        }
        if delivered {
            inner.message_ready.wake();
        }
    }

    /// Hands events over until `most` wait for the program.
    fn deliver_events(&mut self, most: usize) {
        let engine = &mut self.driver.engine;
        self.events_left = engine.has_event();
        if !self.events_left {
            return;
        }
        let mut came = false;
        {
            let mut events = lock(&self.inner.events);
            while events.queue.len() < most
                && let Some(event) = engine.poll_event()
            {
                if let Event::Up { node } = event {
                    // A node that nobody entered may be answered once it came by itself.
                    self.inner.gate_or_new(node);
                    came = true;
                }
                if event.failures() > 0
                    && let Some(account) = self.accounts.get_mut(&event.node())
                {
                    account.set_failed(engine.untold_failures(event.node()));
                }
                events.queue.push_back(event);
            }
            self.events_left = engine.has_event();
            events.more = self.events_left;
        }
        self.inner.event_ready.wake();
        if came {
            self.forget_strangers();
        }
    }

    /// Forgets gates and accounts of nodes that the engine forgot, once they are more than those that it knows: so
    /// whoever comes pays for one who left.
    fn forget_strangers(&mut self) {
        let engine = &self.driver.engine;
        if !self
            .inner
            .has_gates_beyond(2 * engine.peer_count() + SPARE_GATES)
        {
            return;
        }
        let is_settled = |account: &Account| {
            account.stash.is_empty() && account.taken == account.credited && account.failed == 0
        };
        self.accounts
            .retain(|&node, account| engine.knows(node) || !is_settled(account));
        self.inner.forget_gates(|node| !engine.knows(node));
    }

    /// Tells the gates whose suspension changed: before the program hears of it.
    fn tell_suspensions(&mut self) {
        let engine = &mut self.driver.engine;
        while let Some(node) = engine.poll_suspension() {
            let gate = self.inner.gate_or_new(node);
            gate.set_suspended(engine.suspended_by(node));
        }
    }

    /// Tells the gates of failures that are not among the events handed over, then credits them with what is
    /// acknowledged or ended.
    fn balance(&mut self) {
        for (&node, account) in &mut self.accounts {
            if account.taken == account.credited && account.failed == 0 {
                continue;
            }
            account.set_failed(self.driver.engine.untold_failures(node));
            let (messages, bytes) = self.driver.engine.queue_len(node);
            let waiting: u64 = account
                .stash
                .iter()
                .map(|m| gate::charge_of(m.payload.len()))
                .sum();
            let stashed = u64::try_from(account.stash.len()).unwrap_or(u64::MAX);
            let used = gate::charge(messages, bytes).saturating_add(waiting);
            let charge = account
                .taken
                .0
                .saturating_sub(used)
                .saturating_sub(account.credited.0);
            let count = account
                .taken
                .1
                .saturating_sub(messages.saturating_add(stashed));
            let count = count.saturating_sub(account.credited.1);
            if charge > 0 {
                account.credited.0 += charge;
                account.credited.1 += count;
                account.gate.credit(count, charge);
            }
        }
    }

    /// Sleeps until something may have happened. Returns whether the socket should be looked at.
    fn sleep(&mut self) -> Result<bool, Error> {
        let Self {
            inner,
            driver,
            left_over,
            events_left,
            ..
        } = self;
        let idle = || {
            let refill = *left_over && !inner.starved.load(Ordering::Relaxed);
            let room = *events_left && !lock(&inner.events).more;
            !refill && !room && inner.commands.is_empty() && !inner.closing.load(Ordering::Relaxed)
        };
        let sleep = || driver.sleep(Some(inner.bell.as_raw_fd()), Deadline::NEVER);
        let Some(ready) = inner.doze.doze(idle, sleep).transpose()? else {
            return Ok(true);
        };
        if ready.rung {
            inner.bell.hush();
        }
        Ok(ready.input || !ready.rung)
    }

    /// Closes the engine, and leaves what the program has not taken where it finds it.
    fn close(&mut self) -> Result<(), Error> {
        // No handle gets past its check any more: this is all.
        let taken = self.take_commands();
        let patience = match lock(&self.inner.life).phase {
            Phase::Closing(patience) => patience,
            Phase::Open | Phase::Done => std::time::Duration::ZERO,
        };
        let result = taken.and(self.driver.close(patience));
        self.deliver();
        {
            let mut rest = lock(&self.inner.rest);
            rest.extend(std::iter::from_fn(|| self.driver.take_message()));
        }
        // Whatever is left is bounded, and nobody will ask the engine again.
        self.deliver_events(usize::MAX);
        let result = self.refuse_stashed(result);
        self.balance();
        result
    }

    /// What the closed engine never took is not delivered: each message has its event, and what closing found out
    /// counts it.
    fn refuse_stashed(&mut self, closed: Result<(), Error>) -> Result<(), Error> {
        let stashed = |(&node, account): (&NodeId, &Account)| {
            let count = u64::try_from(account.stash.len()).unwrap_or(u64::MAX);
            (count > 0).then_some((node, count))
        };
        let mut left: BTreeMap<NodeId, u64> = self.accounts.iter().filter_map(stashed).collect();
        if left.is_empty() {
            return closed;
        }
        self.unstash();
        match closed {
            Ok(()) => {}
            Err(Error::NotFlushed { peers }) => {
                for (node, count) in peers {
                    *left.entry(node).or_default() += count;
                }
            }
            Err(error) => return Err(error),
        }
        Err(Error::NotFlushed {
            peers: left.into_iter().collect(),
        })
    }
}
