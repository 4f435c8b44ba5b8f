//! Programs with receives: each sends messages with tags, and posts receives for those of others.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use suci_layers::matching::{Buffer, Matching, MatchingService, MatchingTable, MessageId};
use suci_layers::remote::Memory;
use suci_proto::time::{Duration, Instant, nanos};
use suci_proto::types::{ChannelId, Kind, NodeId};
use suci_proto::{Engine, Event, Outgoing, PlacedBy};

use crate::options::MatchingPlan;
use crate::oracle::Verdict;
use crate::oracle::matching::{CHANNELS, Posted, SharedMatchingOracle, TAGS, Tray, Wanted};
use crate::packet::ProcId;
use crate::rng::Rng;

/// The longest message. Sizes are drawn so that each power of two is as likely as the next.
const LONGEST: u64 = 300_000;

/// Receives that a program which winds up keeps posted on each channel.
const LAST: usize = 4;

/// The receives and messages of one process.
#[derive(Debug)]
pub struct MatchingProgram {
    process: ProcId,
    node: u32,
    service: Arc<MatchingService>,
    oracle: SharedMatchingOracle,
    plan: MatchingPlan,
    rng: Rng,
    /// Messages to send.
    left: u32,
    next_at: Instant,
    claimed: BTreeSet<MessageId>,
    /// It sends nothing more, and receives everything.
    winds_up: bool,
}

impl MatchingProgram {
    /// Returns the program of a process.
    #[must_use]
    pub fn new(
        (process, node): (ProcId, u32),
        seed: u64,
        plan: MatchingPlan,
        oracle: SharedMatchingOracle,
        now: Instant,
    ) -> Self {
        let table = Arc::new(MatchingTable::with_memory(plan.memory));
        Self {
            process,
            node,
            service: Arc::new(MatchingService::new(table)),
            oracle,
            rng: Rng::new(seed, 0x6000 + u64::from(process)),
            left: plan.messages,
            next_at: now,
            claimed: BTreeSet::new(),
            winds_up: false,
            plan,
        }
    }

    /// Returns where the engine asks for the places of messages.
    #[must_use]
    pub fn placement(&self) -> PlacedBy {
        PlacedBy::new(self.service.clone())
    }

    /// Sends nothing more, and receives everything.
    pub fn wind_up(&mut self, now: Instant) {
        self.left = 0;
        self.winds_up = true;
        self.next_at = now;
    }

    /// Returns the time at which it has something to do.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Instant> {
        (self.left > 0).then_some(self.next_at)
    }

    /// Returns true if messages wait for the layer.
    #[must_use]
    pub fn has_input(&self, engine: &Engine) -> bool {
        self.service.has_work(engine)
    }

    /// Serves the layer, as a driver does before it sends.
    pub fn serve(&self, engine: &mut Engine) {
        if self.service.has_work(engine) {
            self.service.serve(engine, || true);
        }
    }

    /// Takes note of an event of the process.
    pub fn event(&self, event: &Event) {
        if let Event::Ended { node, .. } = event {
            self.oracle.lock().ended(self.process, node.0);
        }
    }

    /// Takes completions, and does what is due, as a program does. `nodes` are all of the run.
    ///
    /// # Errors
    /// The promise that broke.
    pub fn run(&mut self, engine: &mut Engine, now: Instant, nodes: &[u32]) -> Verdict {
        self.take()?;
        if self.winds_up {
            self.receive_everything()?;
        } else if self.left > 0 && self.next_at <= now {
            let burst = self.rng.range(1, u64::from(self.plan.burst) + 1);
            for _ in 0..burst {
                self.step(engine, now, nodes)?;
            }
            let gap = self.rng.scale(1_000, nanos(self.plan.gap).max(2_000));
            self.next_at = now + Duration::from_nanos(gap);
        }
        self.service.serve(engine, || true);
        self.take()?;
        self.oracle.lock().held(
            self.node,
            self.change(|table| table.unexpected().1),
            self.plan.memory,
        )
    }

    fn change<T>(&self, change: impl FnOnce(&mut Matching) -> T) -> T {
        self.service.table.with(change)
    }

    fn step(&mut self, engine: &mut Engine, now: Instant, nodes: &[u32]) -> Verdict {
        match self.rng.range(0, 100) {
            0..45 => {
                let to = nodes.get(self.rng.index(0, nodes.len())).copied();
                self.send(engine, now, to.unwrap_or(self.node));
            }
            45..85 => {
                let wanted = self.wanted(nodes);
                let length = self.rng.scale(1, 2 * LONGEST);
                let least = self
                    .rng
                    .chance(250_000)
                    .then(|| self.rng.range(1, length + 1));
                return self.post(wanted, length, least);
            }
            85..92 => self.claim(nodes),
            92..96 => return self.take_claimed(),
            _ => self.cancel(),
        }
        Ok(())
    }

    fn send(&mut self, engine: &mut Engine, now: Instant, to: u32) {
        let (channel, tag) = (self.rng.range(0, CHANNELS), self.rng.range(0, TAGS));
        let length = self.rng.scale(1, LONGEST) - 1;
        let channel = u32::try_from(channel).unwrap_or(0);
        let mut oracle = self.oracle.lock();
        let sent = oracle.describe(self.process, to, channel, tag, length);
        let message = Outgoing {
            channel: ChannelId::of_matching(channel),
            tag,
            kind: Kind::USER,
            user_header: Bytes::copy_from_slice(&sent.token().to_le_bytes()),
            payload: sent.payload(),
            notify: false,
            token: 0,
            deadline: None,
        };
        if engine.send(now, NodeId(to), message).is_ok() {
            oracle.sent(sent);
            self.left = self.left.saturating_sub(1);
        }
    }

    fn wanted(&mut self, nodes: &[u32]) -> Wanted {
        let node = nodes.get(self.rng.index(0, nodes.len())).copied();
        Wanted {
            channel: u32::try_from(self.rng.range(0, CHANNELS)).unwrap_or(0),
            from: node.filter(|_| self.rng.chance(500_000)),
            tag: self.rng.range(0, TAGS),
            ignore: self.rng.pick(&[0, 0, 1, 2, u64::MAX]),
        }
    }

    fn post(&mut self, wanted: Wanted, length: u64, least: Option<u64>) -> Verdict {
        let tray = Tray::new(length);
        let mut buffer = Buffer::from(tray.clone() as Arc<dyn Memory>);
        if let Some(least) = least
            && let Ok(several) = buffer.clone().for_several(least)
        {
            buffer = several;
        }
        let receive = self.change(|table| table.post(wanted.pattern(), buffer));
        let posted = Posted::new(Some(wanted), tray, least.is_some());
        self.oracle.lock().posted(self.process, receive, posted);
        self.take()
    }

    /// Takes all completions.
    fn take(&mut self) -> Verdict {
        let mut oracle = self.oracle.lock();
        while let Some(done) = self.change(Matching::poll_completion) {
            oracle.completed(self.process, self.node, done)?;
        }
        Ok(())
    }

    fn claim(&mut self, nodes: &[u32]) {
        let pattern = self.wanted(nodes).pattern();
        if let Some(peeked) = self.change(|table| table.claim(&pattern)) {
            self.claimed.insert(peeked.message);
            self.oracle.lock().claimed(&peeked.user_header);
        }
    }

    /// Receives the first message that was claimed, or discards it. Its session may have ended.
    fn take_claimed(&mut self) -> Verdict {
        let Some(message) = self.claimed.pop_first() else {
            return Ok(());
        };
        let tray = Tray::new(self.rng.scale(1, LONGEST));
        let buffer = Buffer::from(tray.clone() as Arc<dyn Memory>);
        let received = self.change(|table| table.receive_claimed(message, buffer));
        if let Ok(receive) = received {
            let posted = Posted::new(None, tray, false);
            self.oracle.lock().posted(self.process, receive, posted);
        }
        self.take()
    }

    fn cancel(&mut self) {
        let mut oracle = self.oracle.lock();
        let open = oracle.open(self.process);
        if let Some(receive) = open.get(self.rng.index(0, open.len()))
            && self.change(|table| table.cancel(*receive))
        {
            oracle.cancelled(self.process, *receive);
        }
    }

    fn receive_everything(&mut self) -> Verdict {
        while !self.claimed.is_empty() {
            self.take_claimed()?;
        }
        for channel in 0..u32::try_from(CHANNELS).unwrap_or(0) {
            let all = Wanted::all(channel);
            while self.oracle.lock().waiting(self.process, all) < LAST {
                self.post(all, LONGEST, None)?;
            }
        }
        Ok(())
    }
}
