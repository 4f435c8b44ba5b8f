//! Programs with one-sided operations: each opens a region, and reads and changes those of others.

use std::collections::BTreeSet;
use std::sync::Arc;

use suci_layers::remote::{
    AtomicOp, BeginError, Destination, Initiator, Layout, OperationId, RegionId, Regions,
    RemoteRegion, Rights, SharedLayer, Signal, SignalUpdate, Width,
};
use suci_proto::time::{Duration, Instant, nanos};
use suci_proto::types::NodeId;
use suci_proto::{Engine, PlacedBy, Port};

use crate::options::RemotePlan;
use crate::oracle::remote::{
    COUNTERS, DATA, Effect, NamedRegion, Shape, SharedOracle, content, counter, in_area, operand,
    signal_of,
};
use crate::oracle::{Kind, Verdict, Violation, broken};
use crate::packet::ProcId;
use crate::rng::Rng;

/// Longest put.
const LONGEST_PUT: u64 = 300_000;

/// Longest get. Sizes of both are drawn so that each power of two is as likely as the next.
const LONGEST_GET: u64 = 100_000;

/// The wait after the queue to a node was full.
const RETRY: Duration = Duration::from_millis(3);

/// The time after which a program that waits has its targets watched.
const WATCH_AFTER: Duration = Duration::from_secs(1);

/// The one-sided operations of one process.
#[derive(Debug)]
pub struct RemoteProgram {
    process: ProcId,
    node: u32,
    layer: Arc<SharedLayer>,
    regions: Regions,
    oracle: SharedOracle,
    plan: RemotePlan,
    rng: Rng,
    /// The region that is open, and its number in the oracle.
    own: Option<(RegionId, usize)>,
    /// Operations to begin.
    left: u32,
    next_at: Instant,
    /// Operations that did not complete.
    open: Vec<OperationId>,
    /// When the program will have waited for long: then it has its targets watched, as a call does
    /// that waits. They count as lost if they are silent.
    watches_at: Option<Instant>,
    watched: BTreeSet<NodeId>,
    /// Messages of the layer wait for room.
    waits: bool,
}

impl RemoteProgram {
    /// Returns the program of a process.
    #[must_use]
    pub fn new(
        process: ProcId,
        node: u32,
        seed: u64,
        plan: RemotePlan,
        oracle: SharedOracle,
        now: Instant,
    ) -> Self {
        let regions = Regions::new();
        Self {
            process,
            node,
            layer: Arc::new(SharedLayer::new(regions.clone())),
            regions,
            oracle,
            rng: Rng::new(seed, 0x3000 + u64::from(process)),
            own: None,
            left: plan.operations,
            next_at: now,
            open: Vec::new(),
            watches_at: None,
            watched: BTreeSet::new(),
            waits: false,
            plan,
        }
    }

    /// Returns where the engine asks for the places of messages.
    #[must_use]
    pub fn placement(&self) -> PlacedBy {
        PlacedBy::new(self.layer.clone())
    }

    /// Begins nothing more, but a last quiet.
    pub fn wind_up(&mut self, now: Instant) {
        self.left = 1;
        self.next_at = now;
    }

    /// Returns the time at which it begins operations next.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        (self.left > 0).then_some(self.next_at)
    }

    /// Returns the time at which it has something to do.
    #[must_use]
    pub fn wakes_at(&self) -> Option<Instant> {
        self.next_at().into_iter().chain(self.watches_at).min()
    }

    /// Serves the layer, as a driver does before it sends.
    ///
    /// # Errors
    /// The promise that broke.
    pub fn serve(&mut self, engine: &mut Engine, now: Instant) -> Verdict {
        if self.waits || engine.has_port_input(Port::Remote) {
            self.serve_now(engine, now);
        }
        self.oracle.lock().verdict()
    }

    fn serve_now(&mut self, engine: &mut Engine, now: Instant) {
        let served = self.layer.serve(engine, now, || true);
        self.waits = served.waits;
        let mut oracle = self.oracle.lock();
        for node in served.ended {
            oracle.ended(self.process, self.node, node.0);
        }
    }

    /// Takes results and begins what is due, as a program does. `nodes` are all of the run; the
    /// last operation of all, `at_end`, is a quiet.
    ///
    /// # Errors
    /// The promise that broke.
    pub fn run(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        nodes: &[u32],
        at_end: bool,
    ) -> Verdict {
        self.take_results()?;
        self.watch(engine, now);
        if self.left == 0 || self.next_at > now {
            return Ok(());
        }
        // The program must know of the sessions that ended: otherwise it is not known which
        // operations end with them.
        while engine.has_port_input(Port::Remote) {
            self.serve_now(engine, now);
        }
        if at_end {
            self.left = 0;
            self.flush(None)?;
        }
        self.change_region();
        let burst = self.rng.range(1, u64::from(self.plan.burst) + 1);
        let mut wait = Duration::from_nanos(self.rng.scale(1_000, nanos(self.plan.gap).max(2_000)));
        for _ in 0..burst.min(u64::from(self.left)) {
            let to = nodes.get(self.rng.index(0, nodes.len())).copied();
            if !self.begin(to.unwrap_or(self.node))? {
                wait = RETRY;
                break;
            }
            self.left -= 1;
        }
        self.next_at = now + wait;
        self.serve_now(engine, now);
        self.take_results()?;
        self.watch(engine, now);
        Ok(())
    }

    fn watch(&mut self, engine: &mut Engine, now: Instant) {
        match self.watches_at {
            _ if self.open.is_empty() => {
                self.watches_at = None;
                for node in core::mem::take(&mut self.watched) {
                    engine.await_member(now, node, false);
                }
            }
            None => self.watches_at = Some(now + WATCH_AFTER),
            Some(at) if at <= now => {
                self.watches_at = Some(now + WATCH_AFTER);
                let awaited: BTreeSet<NodeId> = {
                    let layer = self.layer.lock();
                    let open = self.open.iter();
                    open.filter_map(|operation| layer.initiator.awaited(*operation))
                        .flatten()
                        .collect()
                };
                for node in awaited {
                    if self.watched.insert(node) {
                        engine.await_member(now, node, true);
                    }
                }
            }
            _ => {}
        }
    }

    fn take_results(&mut self) -> Verdict {
        let mut layer = self.layer.lock();
        let mut oracle = self.oracle.lock();
        let mut verdict = Ok(());
        self.open.retain(|id| match layer.take(*id) {
            Some(result) => {
                let checked = oracle.completed_with(self.process, *id, result);
                verdict = verdict.clone().and(checked);
                false
            }
            None => true,
        });
        verdict
    }

    /// Opens a region if there is none; withdraws it now and then.
    fn change_region(&mut self) {
        match self.own {
            Some((id, number)) if self.rng.chance(self.plan.withdraw) => {
                self.own = None;
                self.regions.withdraw(id);
                self.oracle.lock().withdrawn(number);
            }
            Some(_) => {}
            None => {
                let (number, memory) = self.oracle.region(self.process, self.node);
                let rights = Rights::READ | Rights::WRITE | Rights::ATOMIC;
                let key = self.rng.word();
                // There are far fewer regions than a node may have.
                let Ok(region) = self.regions.register(memory, rights, key) else {
                    return;
                };
                self.own = Some((region, number));
                let node = NodeId(self.node);
                let handle = RemoteRegion { node, region, key };
                self.oracle.lock().publish(number, handle);
            }
        }
    }

    /// Returns the region of a node for the next operation: mostly the one that it has now.
    fn name(&mut self, to: u32) -> Option<(NamedRegion, RemoteRegion)> {
        let oracle = self.oracle.lock();
        let handles = oracle.handles(to);
        let (region, handle) = match self.rng.chance(self.plan.mistakes) {
            true => handles.get(self.rng.index(0, handles.len())),
            false => handles.last(),
        }
        .copied()?;
        let wrong = self.rng.chance(self.plan.mistakes);
        let handle = RemoteRegion {
            key: if wrong { handle.key ^ 1 } else { handle.key },
            ..handle
        };
        let valid = !wrong;
        Some((NamedRegion { region, valid }, handle))
    }

    /// Begins one operation. Returns false if the queue is full.
    fn begin(&mut self, to: u32) -> Result<bool, Violation> {
        let Some(named) = self.name(to) else {
            return Ok(true);
        };
        match self.rng.range(0, 100) {
            0..50 => self.put(to, named),
            50..62 => self.get(to, named),
            62..80 => self.add(to, named),
            80..90 => {
                self.layer.lock().initiator.fence(NodeId(to));
                self.oracle.lock().fence(self.node, to);
                Ok(true)
            }
            90..96 => self.flush(Some(to)),
            _ => self.flush(None),
        }
    }

    fn shape(&mut self, longest: u64) -> Shape {
        let total = self.rng.scale(1, longest);
        let (element, stride, count) = match self.rng.chance(300_000) {
            true => {
                let element = self.rng.range(1, 65);
                let stride = element + self.rng.range(0, 65);
                let count = (total / element).min(LONGEST_PUT / stride).clamp(1, 2_000);
                (element, stride, count)
            }
            false => (total, total, 1),
        };
        let room = DATA - stride * count;
        // Half of them are near the beginning, so that many overlap.
        let most = if self.rng.chance(500_000) {
            room
        } else {
            room.min(2_000)
        };
        Shape {
            offset: self.rng.range(0, most + 1),
            element,
            stride,
            count,
        }
    }

    fn layout(&self, shape: Shape) -> Result<Layout, BeginError> {
        let offset = in_area(self.node, shape.offset);
        let count = u32::try_from(shape.count).unwrap_or(u32::MAX);
        let layout = match count {
            1 => Layout::contiguous(offset, shape.element),
            count => Layout::strided(offset, shape.element, shape.stride, count),
        };
        Ok(layout?)
    }

    fn put(&mut self, to: u32, named: (NamedRegion, RemoteRegion)) -> Result<bool, Violation> {
        let shape = self.shape(LONGEST_PUT);
        let number = self.oracle.lock().next(self.node, to);
        let data = content(number, shape.total());
        let signal = self.rng.chance(300_000).then(|| Signal {
            offset: in_area(self.node, DATA),
            update: SignalUpdate::Set(signal_of(number)),
        });
        let answered = self.rng.chance(500_000);
        let begun = self.layout(shape).and_then(|layout| {
            let initiator = &mut self.layer.lock().initiator;
            if answered {
                let id = initiator.put_answered(&named.1, layout, data.into(), signal)?;
                return Ok(Some(id));
            }
            initiator.put(&named.1, layout, data.into(), signal)?;
            Ok(None)
        });
        self.began(to, named, Effect::Put(shape, signal.is_some()), begun)
    }

    fn get(&mut self, to: u32, named: (NamedRegion, RemoteRegion)) -> Result<bool, Violation> {
        let shape = self.shape(LONGEST_GET);
        let (sink, memory) = self.oracle.sink(self.node, named.0.region, shape);
        let begun = self.layout(shape).and_then(|layout| {
            let into = Destination {
                memory,
                layout: Layout::contiguous(0, shape.total())?,
            };
            let initiator = &mut self.layer.lock().initiator;
            initiator.get(&named.1, layout, into).map(Some)
        });
        self.began(to, named, Effect::Get(shape, sink), begun)
    }

    fn add(&mut self, to: u32, named: (NamedRegion, RemoteRegion)) -> Result<bool, Violation> {
        let number = self.rng.range(0, COUNTERS);
        let place = counter(number);
        let op = AtomicOp::Add(operand(self.node, self.oracle.lock().next(self.node, to)));
        let fetch = self.rng.chance(600_000);
        let begin = |initiator: &mut Initiator| {
            if fetch {
                let id = initiator.fetch_atomic(&named.1, place, Width::Bits64, op)?;
                return Ok(Some(id));
            }
            initiator.atomic(&named.1, place, Width::Bits64, op)?;
            Ok(None)
        };
        let begun = begin(&mut self.layer.lock().initiator);
        self.began(to, named, Effect::Add(number), begun)
    }

    fn flush(&mut self, to: Option<u32>) -> Result<bool, Violation> {
        let mut layer = self.layer.lock();
        let begun = match to {
            Some(to) => layer.initiator.flush(NodeId(to)),
            None => layer.initiator.quiet(),
        };
        match begun {
            Ok(id) => {
                self.open.push(id);
                self.oracle.lock().flush(self.process, self.node, to, id);
                Ok(true)
            }
            Err(error) => refused(error),
        }
    }

    fn began(
        &mut self,
        to: u32,
        named: (NamedRegion, RemoteRegion),
        effect: Effect,
        begun: Result<Option<OperationId>, BeginError>,
    ) -> Result<bool, Violation> {
        let id = match begun {
            Ok(id) => id,
            Err(error) => return refused(error),
        };
        self.open.extend(id);
        let pair = (self.node, to);
        let mut oracle = self.oracle.lock();
        oracle.began(self.process, pair, named.0, effect, id);
        Ok(true)
    }
}

/// Returns false if the program is to try again; no other error may come.
fn refused(error: BeginError) -> Result<bool, Violation> {
    match error {
        BeginError::QueueFull => Ok(false),
        error => broken(Kind::Remote, format!("not begun: {error}")).map(|()| false),
    }
}
