//! The scene of an attack: a victim that returns each message, an honest node that uses it, and
//! newcomers that the victim's book names.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use suci::security::ClusterKey;
use suci::{
    AcceptPolicy, AddressBook, Counters, EndReason, Event, Node, NodeBuilder, NodeId, SharedNode,
};

use crate::relay::Relay;
use crate::{Report, ensure, heap, text};

pub(crate) const VICTIM: NodeId = NodeId(1);
pub(crate) const HONEST: NodeId = NodeId(2);
const NEWCOMERS: [NodeId; 4] = [NodeId(3), NodeId(4), NodeId(5), NodeId(6)];

/// The key of the cluster.
pub(crate) const KEY: [u8; 32] = [0x5c; 32];

/// Longest wait for anything that must come. Without their defences, nodes are not waited for as
/// long.
pub(crate) const LIMIT: Duration = Duration::from_secs(if cfg!(suci_plant) { 10 } else { 60 });

/// Bytes that each node may hold for its program.
const MEMORY: u64 = 4 << 20;

/// Bytes by which the heap may grow in an attack: the caps of the nodes, and what their queues and
/// tables take beside.
const HEAP: usize = 3 * (MEMORY as usize) + (4 << 20);

/// How an attack is made.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Sealed mode, in which the attackers are outside of the cluster unless an attack says that
    /// they are members.
    pub sealed: bool,
    /// Hostile datagrams of the attacks that flood.
    pub volume: u32,
}

/// Messages that the victim took, by their sender.
type Taken = Arc<Mutex<BTreeMap<NodeId, u32>>>;

/// The victim, and the thread that returns its messages.
struct Victim {
    node: Arc<SharedNode>,
    taken: Taken,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Victim {
    fn new(setting: Setting, at: SocketAddr) -> Result<Self, String> {
        let node = builder(setting, VICTIM, at).accept(AcceptPolicy::Anyone);
        let node = Arc::new(node.open_threads(1).map_err(text)?);
        let (taken, stop) = (Taken::default(), Arc::<AtomicBool>::default());
        let (own, count, stopped) = (Arc::clone(&node), Arc::clone(&taken), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let Ok(Some(message)) = own.recv_timeout(Duration::from_millis(20)) else {
                    continue;
                };
                let mut count = count.lock().unwrap_or_else(PoisonError::into_inner);
                *count.entry(message.from).or_default() += 1;
                // A sender that takes no answers gets none.
                let _ = own.send_timeout(message.from, message.payload.to_vec(), ANSWER);
            }
        });
        let thread = Some(thread);
        Ok(Self {
            node,
            taken,
            stop,
            thread,
        })
    }
}

/// How long the victim tries to return a message.
const ANSWER: Duration = Duration::from_millis(500);

impl Drop for Victim {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // If it panicked, it has said so.
            let _ = thread.join();
        }
    }
}

fn builder(setting: Setting, id: NodeId, at: SocketAddr) -> NodeBuilder {
    let builder = Node::builder().id(id).book(AddressBook::new()).listen(at);
    let builder = builder.memory(MEMORY).statistics(false);
    match setting.sealed {
        true => builder.cluster_key(ClusterKey::from_bytes(&KEY)),
        false => builder,
    }
}

fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// A message of the honest node.
fn content(number: u32) -> Vec<u8> {
    let length = 200 + (number as usize * 37) % 1_000;
    let bytes = (0..).flat_map(|at: u32| (number ^ at).to_le_bytes());
    bytes.take(length).collect()
}

/// A newcomer on its way, with the time that it took.
type Coming = JoinHandle<Result<(SharedNode, Duration), String>>;

/// All nodes of an attack.
pub(crate) struct Scene {
    setting: Setting,
    victim: Victim,
    honest: SharedNode,
    /// Newcomers that did not come yet.
    newcomers: Vec<SharedNode>,
    coming: Option<Coming>,
    arrived: Vec<SharedNode>,
    /// How long the slowest of them took.
    slowest: Duration,
    relay: Option<Relay>,
    exchanged: u32,
    heap: usize,
    pub(crate) hostile: u64,
    /// Events of the victim, about its sessions.
    events: Vec<Event>,
}

impl Scene {
    /// Opens the nodes; the honest one and the victim have a session.
    pub(crate) fn new(setting: Setting) -> Result<Self, String> {
        Self::begin(setting, None)
    }

    /// As [`new`](Self::new), with somebody on the path between the honest node and the victim.
    pub(crate) fn with_relay(setting: Setting) -> Result<Self, String> {
        Self::begin(setting, Some(Relay::new()?))
    }

    fn begin(setting: Setting, relay: Option<Relay>) -> Result<Self, String> {
        let victim = Victim::new(setting, anywhere())?;
        let open = |id| {
            builder(setting, id, anywhere())
                .open_threads(1)
                .map_err(text)
        };
        let mut scene = Self {
            setting,
            victim,
            honest: open(HONEST)?,
            newcomers: NEWCOMERS.into_iter().map(open).collect::<Result<_, _>>()?,
            coming: None,
            arrived: Vec::new(),
            slowest: Duration::ZERO,
            relay,
            exchanged: 0,
            heap: 0,
            hostile: 0,
            events: Vec::new(),
        };
        scene.introduce()?;
        scene.exchange(20)?;
        scene.heap = heap::held();
        Ok(scene)
    }

    fn introduce(&self) -> Result<(), String> {
        let (victim, honest) = (self.address(), self.honest.local_addr());
        let between = match &self.relay {
            Some(relay) => {
                relay.join(victim, honest);
                Some(relay.address()?)
            }
            None => None,
        };
        let node = &self.victim.node;
        node.add_peer(HONEST, between.unwrap_or(honest))
            .map_err(text)?;
        let add = |from: &SharedNode, at| from.add_peer(VICTIM, at).map_err(text);
        for newcomer in &self.newcomers {
            node.add_peer(newcomer.id(), newcomer.local_addr())
                .map_err(text)?;
            add(newcomer, victim)?;
        }
        add(&self.honest, between.unwrap_or(victim))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.victim.node.local_addr()
    }

    /// Lets the victim send a message to `node`, at an address of the attackers.
    pub(crate) fn call(&self, node: NodeId, at: SocketAddr) -> Result<(), String> {
        let victim = &self.victim.node;
        victim.add_peer(node, at).map_err(text)?;
        victim.send_timeout(node, "hello", LIMIT).map_err(text)?;
        Ok(())
    }

    pub(crate) fn sealed(&self) -> bool {
        self.setting.sealed
    }

    pub(crate) fn relay(&self) -> Result<&Relay, String> {
        self.relay
            .as_ref()
            .ok_or_else(|| "nobody is on the path".into())
    }

    pub(crate) fn counters(&self) -> Result<Counters, String> {
        self.victim.node.counters().map_err(text)
    }

    /// Returns how many peers the victim knows.
    pub(crate) fn peers(&self) -> Result<usize, String> {
        Ok(self.victim.node.peers().map_err(text)?.len())
    }

    /// Exchanges `count` messages: each must come back unchanged and in order. Earlier
    /// datagrams of the attackers were then taken from the victim's socket, too.
    pub(crate) fn exchange(&mut self, count: u32) -> Result<(), String> {
        let numbers = self.exchanged..self.exchanged + count;
        for number in numbers {
            let sent = self.honest.send_timeout(VICTIM, content(number), LIMIT);
            sent.map_err(|error| format!("message {number}: {error}"))?;
            let back = self.honest.recv_timeout(LIMIT).map_err(text)?;
            let back = back.ok_or_else(|| format!("message {number} did not come back"))?;
            let is_same = back.payload.to_vec() == content(number);
            ensure(is_same, || format!("message {number} came back changed"))?;
            self.exchanged += 1;
        }
        Ok(())
    }

    /// Checks that no message came back twice.
    pub(crate) fn check_quiet(&self) -> Result<(), String> {
        let more = self
            .honest
            .recv_timeout(Duration::from_millis(50))
            .map_err(text)?;
        ensure(more.is_none(), || "a message came back twice".into())
    }

    /// Returns how many messages the victim took from `node`.
    pub(crate) fn taken(&self, node: NodeId) -> u32 {
        let taken = self
            .victim
            .taken
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        taken.get(&node).copied().unwrap_or(0)
    }

    fn collect_events(&mut self) -> Result<(), String> {
        let new = self.victim.node.events().map_err(text)?;
        self.events.extend(new);
        Ok(())
    }

    /// Checks that no session of an honest node ended or was lost.
    pub(crate) fn watch(&mut self) -> Result<(), String> {
        self.collect_events()?;
        let honest = |node: NodeId| node == HONEST || NEWCOMERS.contains(&node);
        let bad = self.events.iter().find(|event| match event {
            Event::Ended { node, .. } | Event::Lost { node, .. } => honest(*node),
            _ => false,
        });
        bad.map_or(Ok(()), |event| Err(format!("{event:?}")))
    }

    /// Checks that a session of `node` began at no time.
    pub(crate) fn check_never_up(&mut self, wanted: NodeId) -> Result<(), String> {
        self.collect_events()?;
        let up = |event: &Event| matches!(event, Event::Up { node, .. } if *node == wanted);
        ensure(!self.events.iter().any(up), || {
            format!("a session of node {} began", wanted.0)
        })
    }

    /// Waits until the victim ends the session of `wanted` for a breach of the protocol.
    pub(crate) fn await_breach(&mut self, wanted: NodeId) -> Result<(), String> {
        let end = Instant::now() + LIMIT;
        while Instant::now() < end {
            self.collect_events()?;
            let breach = self.events.iter().any(|event| match event {
                Event::Ended { node, reason, .. } => {
                    *node == wanted && matches!(reason, EndReason::Protocol(_))
                }
                _ => false,
            });
            if breach {
                return Ok(());
            }
            self.exchange(1)?;
            std::thread::sleep(Duration::from_millis(5));
        }
        Err("the attacker's session goes on".into())
    }

    /// Lets the victim's process die and another take its place. The honest node goes, too.
    pub(crate) fn restart(&mut self) -> Result<(), String> {
        let at = self.address();
        let nobody = builder(self.setting, HONEST, anywhere());
        self.honest = nobody.open_threads(1).map_err(text)?;
        // The old process leaves its port before the new one takes it.
        self.victim.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.victim.thread.take() {
            let _ = thread.join();
        }
        let placeholder = builder(self.setting, VICTIM, anywhere());
        let placeholder = Arc::new(placeholder.open_threads(1).map_err(text)?);
        drop(std::mem::replace(&mut self.victim.node, placeholder));
        self.victim = retry(|| Victim::new(self.setting, at))?;
        self.events.clear();
        Ok(())
    }

    /// Introduces the honest node to a restarted victim.
    pub(crate) fn resume(&mut self) -> Result<(), String> {
        self.introduce()
    }

    /// A stranger at an address of its own exchanges a message.
    pub(crate) fn stranger_comes(&self, at: [u8; 4]) -> Result<Duration, String> {
        let stranger = builder(self.setting, NodeId(77), SocketAddr::from((at, 0)));
        let stranger = stranger.open_threads(1).map_err(text)?;
        stranger.add_peer(VICTIM, self.address()).map_err(text)?;
        first_exchange(&stranger, LIMIT)
    }

    /// Lets newcomers come one after the other, and returns whether one is on its way. The last of
    /// them waits for the end of the attack.
    pub(crate) fn newcomers_come(&mut self) -> Result<bool, String> {
        if self.coming.as_ref().is_some_and(|it| !it.is_finished()) {
            return Ok(true);
        }
        self.welcome()?;
        if self.newcomers.len() <= 1 {
            return Ok(false);
        }
        self.invite()?;
        Ok(true)
    }

    fn invite(&mut self) -> Result<(), String> {
        let newcomer = self.newcomers.pop().ok_or("all newcomers came")?;
        let comes = || first_exchange(&newcomer, LIMIT).map(|time| (newcomer, time));
        self.coming = Some(std::thread::spawn(comes));
        Ok(())
    }

    /// Waits for the newcomer on its way, if there is one.
    fn welcome(&mut self) -> Result<(), String> {
        if let Some(coming) = self.coming.take() {
            let (newcomer, time) = coming.join().map_err(|_| "a newcomer panicked")??;
            self.arrived.push(newcomer);
            self.slowest = self.slowest.max(time);
        }
        Ok(())
    }

    /// Ends the attack: messages still pass, a newcomer comes in, no session of honest nodes ended,
    /// and memory is within its cap.
    pub(crate) fn finish(mut self) -> Result<Report, String> {
        self.exchange(20)?;
        self.invite()?;
        self.welcome()?;
        self.watch()?;
        let heap = heap::held().saturating_sub(self.heap);
        ensure(heap <= HEAP, || format!("the heap grew by {heap} B"))?;
        Ok(Report {
            hostile: self.hostile,
            exchanged: self.exchanged,
            heap,
            newcomer: Some(self.slowest),
        })
    }
}

/// Sends the first message of a node to the victim, and waits for it to come back.
fn first_exchange(node: &SharedNode, limit: Duration) -> Result<Duration, String> {
    let begun = Instant::now();
    node.send(VICTIM, b"new here".to_vec()).map_err(text)?;
    let back = node.recv_timeout(limit).map_err(text)?;
    ensure(back.is_some(), || "a newcomer stays outside".into())?;
    Ok(begun.elapsed())
}

/// Tries until a port is free again.
fn retry<T>(attempt: impl Fn() -> Result<T, String>) -> Result<T, String> {
    let end = Instant::now() + LIMIT;
    loop {
        match attempt() {
            Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(20)),
            done => return done,
        }
    }
}
