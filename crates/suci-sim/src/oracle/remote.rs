//! One-sided operations: the memory of each region must be as if they were applied one by one.
//!
//! [`Tap`] is the memory of a region. It shows the oracle each write as it happens, so the oracle
//! needs no word of the layer under test. Each initiator has an area of its own in each region. The
//! bytes of a put tell its number and their positions, the operand of an addition its initiator and
//! number. So the oracle knows at each write:
//!
//! * The region is not withdrawn, and the operation had its key.
//! * No byte of a later put is overwritten. A fence holds back what is behind it.
//! * An atomic operation comes after all before it, and once.
//!
//! When an operation completes, it must have been applied; a flush stands for all before it.
//! Operations whose session ended may have been applied or not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use suci_layers::remote::{AtomicOp, Cause, Memory, OperationId, Outcome, RemoteRegion, Width};

use super::{Coverage, Kind, Verdict};
use crate::packet::ProcId;
use crate::rng::mix;

/// Bytes of a region before the areas: shared integers.
const SHARED: u64 = 64;

/// Shared integers of each region.
pub const COUNTERS: u64 = 4;

/// Bytes of a region that belong to one initiator.
const AREA: u64 = 320 << 10;

/// Bytes of an area for puts. The integer for signals is behind them.
pub const DATA: u64 = AREA - 64;

/// Bits of a shared integer that count additions. The bits above name the operation that adds.
const COUNT_BITS: u32 = 20;
const NODE_BITS: u32 = 12;

/// Bits of a put's byte that number its position; the others number the put.
const POSITION_BITS: u32 = 2;

/// The operations of one number in the bytes of puts that are tried.
const CANDIDATES: usize = 16;

/// The places of an operation's bytes: `count` elements, whose beginnings are `stride` bytes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The offset of the first byte in its area.
    pub offset: u64,
    /// Bytes of an element.
    pub element: u64,
    /// Bytes from the beginning of an element to that of the next.
    pub stride: u64,
    /// The number of elements.
    pub count: u64,
}

impl Shape {
    /// Returns the number of bytes.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.element * self.count
    }

    /// Returns the position in the message of the byte at `at` of the area, if all `length` bytes
    /// from there on belong to one element.
    fn position(self, at: u64, length: u64) -> Option<u64> {
        let from_first = at.checked_sub(self.offset)?;
        let (index, within) = (from_first / self.stride, from_first % self.stride);
        let fits = index < self.count && within + length <= self.element;
        fits.then_some(index * self.element + within)
    }

    fn elements(self) -> impl Iterator<Item = (usize, usize)> {
        let begins = (0..self.count).map(move |index| self.offset + index * self.stride);
        begins.map(move |begin| (size(begin), size(begin + self.element)))
    }
}

/// The effect of an operation at its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Writes bytes, then sets the area's integer if there is a signal.
    Put(Shape, bool),
    /// Reads bytes into the sink of this number.
    Get(Shape, usize),
    /// Adds one to a shared integer.
    Add(u64),
}

/// The region that an operation names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedRegion {
    /// Its number in the oracle.
    pub region: usize,
    /// The operation has the region's key.
    pub valid: bool,
}

#[derive(Debug)]
struct Operation {
    process: ProcId,
    region: usize,
    effect: Effect,
    /// It has the region's key.
    valid: bool,
    answered: bool,
    /// Operations before this one must be applied before any of it is visible.
    fence: usize,
    covered: Coverage,
    /// All of it was applied.
    done: bool,
    /// Its session ended. If it is not done, it may still have been applied, or a part of it.
    ended: bool,
    /// The integer before an addition.
    before: Option<u64>,
}

/// The operations of one node at another, in order.
#[derive(Debug, Default)]
struct Pair {
    operations: Vec<Operation>,
    fence: usize,
    /// Operations before this one belong to an earlier flush.
    flushed: usize,
    /// The first operation that is not settled.
    unsettled: usize,
}

/// A region, with what it should hold.
#[derive(Debug)]
struct Region {
    owner: ProcId,
    node: u32,
    bytes: Vec<u8>,
    model: Vec<u8>,
    /// For each byte, one more than the number of the put that wrote it.
    writers: Vec<u32>,
    withdrawn: bool,
}

/// An operation that a program waits for.
#[derive(Debug)]
enum Awaited {
    One((u32, u32), usize),
    Get((u32, u32), usize, usize),
    Flush {
        /// For each pair the operations that it stands for.
        ranges: Vec<((u32, u32), usize, usize)>,
        ended: bool,
    },
}

/// Memory for the result of a get, and the bytes that it should get.
#[derive(Debug)]
struct Sink {
    bytes: Vec<u8>,
    expected: Vec<u8>,
    closed: bool,
}

/// All one-sided operations of a run.
#[derive(Debug, Default)]
pub struct RemoteOracle {
    regions: Vec<Region>,
    sinks: Vec<Sink>,
    pairs: BTreeMap<(u32, u32), Pair>,
    awaited: BTreeMap<(ProcId, OperationId), Awaited>,
    /// The region that each node has now, and those that it had.
    handles: BTreeMap<u32, Vec<(usize, RemoteRegion)>>,
    nodes: usize,
    verdict: Option<super::Violation>,
    /// Operations that were applied and reported.
    completed: u64,
}

/// The oracle of a run, which all memory of the run shows its writes.
#[derive(Clone, Debug)]
pub struct SharedOracle(Arc<Mutex<RemoteOracle>>);

/// Memory that the oracle sees.
#[derive(Debug)]
pub struct Tap {
    oracle: SharedOracle,
    place: TapPlace,
    length: u64,
}

#[derive(Clone, Copy, Debug)]
enum TapPlace {
    Region(usize),
    Sink(usize),
}

fn size(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn wrong<T>(text: impl Into<String>) -> Result<T, super::Violation> {
    Err(super::Violation {
        kind: Kind::Remote,
        text: text.into(),
    })
}

/// Returns the byte at a position of a put.
fn byte(operation: usize, position: u64) -> u8 {
    const IN_A_WORD: u64 = 64 / POSITION_BITS as u64;
    let word = mix((operation as u64) << 32 ^ (position / IN_A_WORD));
    let mixed = word >> (position % IN_A_WORD * u64::from(POSITION_BITS));
    let number = (operation as u64) << POSITION_BITS;
    let mask = (1 << POSITION_BITS) - 1;
    u8::try_from((number | mixed & mask) & 0xff).unwrap_or(0)
}

/// Returns the offset of a node's area.
fn area(node: u32) -> u64 {
    SHARED + u64::from(node.saturating_sub(1)) * AREA
}

/// Returns the offset of a shared integer.
#[must_use]
pub const fn counter(number: u64) -> u64 {
    number * 8
}

impl SharedOracle {
    /// Returns the oracle of a run with this many nodes.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self(Arc::new(Mutex::new(RemoteOracle {
            nodes,
            ..RemoteOracle::default()
        })))
    }

    /// Locks it. Nobody may touch a region meanwhile.
    pub fn lock(&self) -> MutexGuard<'_, RemoteOracle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the memory of a new region of `process`, and its number here.
    #[must_use]
    pub fn region(&self, process: ProcId, node: u32) -> (usize, Arc<dyn Memory>) {
        let mut oracle = self.lock();
        let length = SHARED + AREA * oracle.nodes as u64;
        oracle.regions.push(Region {
            owner: process,
            node,
            bytes: vec![0; size(length)],
            model: vec![0; size(length)],
            writers: vec![0; size(length)],
            withdrawn: false,
        });
        let number = oracle.regions.len() - 1;
        (number, self.tap(TapPlace::Region(number), length))
    }

    /// Returns memory for the result of a get of these bytes.
    #[must_use]
    pub fn sink(&self, node: u32, region: usize, shape: Shape) -> (usize, Arc<dyn Memory>) {
        let mut oracle = self.lock();
        let expected = oracle.expected(node, region, shape);
        let length = expected.len() as u64;
        oracle.sinks.push(Sink {
            bytes: vec![0; expected.len()],
            expected,
            closed: false,
        });
        let number = oracle.sinks.len() - 1;
        (number, self.tap(TapPlace::Sink(number), length))
    }

    fn tap(&self, place: TapPlace, length: u64) -> Arc<dyn Memory> {
        let oracle = self.clone();
        Arc::new(Tap {
            oracle,
            place,
            length,
        })
    }
}

impl Tap {
    fn range(&self, at: u64, length: usize) -> Option<core::ops::Range<usize>> {
        let end = at.checked_add(length as u64)?;
        (end <= self.length).then(|| size(at)..size(end))
    }
}

impl Memory for Tap {
    fn len(&self) -> u64 {
        self.length
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let Some(range) = self.range(at, into.len()) else {
            return false;
        };
        if let Some(bytes) = self.oracle.lock().bytes(self.place).get(range) {
            into.copy_from_slice(bytes);
        }
        true
    }

    fn write(&self, at: u64, bytes: &[u8]) -> bool {
        let Some(range) = self.range(at, bytes.len()) else {
            return false;
        };
        let mut oracle = self.oracle.lock();
        let verdict = match self.place {
            TapPlace::Region(region) => oracle.on_write(region, at, bytes),
            TapPlace::Sink(sink) => oracle.on_result(sink),
        };
        oracle.note(verdict);
        if let Some(to) = oracle.bytes(self.place).get_mut(range) {
            to.copy_from_slice(bytes);
        }
        true
    }

    fn atomic(&self, at: u64, width: Width, op: AtomicOp) -> Option<u64> {
        let range = self.range(at, size(width.bytes()))?;
        let mut oracle = self.oracle.lock();
        let word = oracle.bytes(self.place).get(range.clone());
        let before = match word.and_then(|word| word.try_into().ok()) {
            Some(word) => u64::from_le_bytes(word),
            // The process is gone.
            None => 0,
        };
        if let TapPlace::Region(region) = self.place {
            let verdict = oracle.on_atomic(region, at, op, before);
            oracle.note(verdict);
        }
        if let Some(word) = oracle.bytes(self.place).get_mut(range) {
            word.copy_from_slice(&op.apply(before, width).to_le_bytes());
        }
        Some(before)
    }
}

// ---- programs

impl RemoteOracle {
    fn note(&mut self, verdict: Verdict) {
        if let Err(violation) = verdict {
            self.verdict.get_or_insert(violation);
        }
    }

    /// Returns what went wrong at the memory since the last call.
    ///
    /// # Errors
    /// The promise that broke.
    pub fn verdict(&mut self) -> Verdict {
        self.verdict.take().map_or(Ok(()), Err)
    }

    /// Returns how many operations were reported.
    #[must_use]
    pub const fn completed(&self) -> u64 {
        self.completed
    }

    fn bytes(&mut self, place: TapPlace) -> &mut Vec<u8> {
        match place {
            TapPlace::Region(region) => &mut self.regions[region].bytes,
            TapPlace::Sink(sink) => &mut self.sinks[sink].bytes,
        }
    }

    /// Tells all programs the handle of a region.
    pub fn publish(&mut self, region: usize, handle: RemoteRegion) {
        let handles = self.handles.entry(handle.node.0).or_default();
        handles.push((region, handle));
    }

    /// Returns the handles that a node published.
    #[must_use]
    pub fn handles(&self, node: u32) -> &[(usize, RemoteRegion)] {
        self.handles.get(&node).map_or(&[], Vec::as_slice)
    }

    /// Notes that a region was withdrawn: it gets no byte more.
    pub fn withdrawn(&mut self, region: usize) {
        if let Some(region) = self.regions.get_mut(region) {
            region.withdrawn = true;
            (region.bytes, region.model, region.writers) = Default::default();
        }
    }

    /// Notes that a process is gone, with its regions and operations.
    pub fn process_stopped(&mut self, process: ProcId) {
        for region in 0..self.regions.len() {
            if self.regions[region].owner == process {
                self.withdrawn(region);
            }
        }
        for pair in self.pairs.values_mut() {
            pair.end(process);
        }
        self.awaited.retain(|(owner, _), _| *owner != process);
    }

    /// Notes that the operations of a process at a node ended.
    pub fn ended(&mut self, process: ProcId, from: u32, to: u32) {
        if let Some(pair) = self.pairs.get_mut(&(from, to)) {
            pair.end(process);
        }
        for ((owner, _), awaited) in &mut self.awaited {
            if let Awaited::Flush { ranges, ended } = awaited
                && *owner == process
            {
                *ended |= ranges.iter().any(|(pair, ..)| *pair == (from, to));
            }
        }
    }

    /// Returns the number of the next operation of one node at another.
    #[must_use]
    pub fn next(&self, from: u32, to: u32) -> usize {
        self.pairs
            .get(&(from, to))
            .map_or(0, |pair| pair.operations.len())
    }

    /// Notes an operation that a process began.
    pub fn began(
        &mut self,
        process: ProcId,
        pair: (u32, u32),
        named: NamedRegion,
        effect: Effect,
        answered: Option<OperationId>,
    ) {
        let NamedRegion { region, valid } = named;
        let key = pair;
        let pair = self.pairs.entry(key).or_default();
        let number = pair.operations.len();
        pair.operations.push(Operation {
            process,
            region,
            effect,
            valid,
            answered: answered.is_some(),
            fence: pair.fence,
            covered: Coverage::Nothing,
            done: false,
            ended: false,
            before: None,
        });
        if let Some(id) = answered {
            let awaited = match effect {
                Effect::Get(_, sink) => Awaited::Get(key, number, sink),
                _ => Awaited::One(key, number),
            };
            self.awaited.insert((process, id), awaited);
        }
        if valid {
            self.apply(region, key.0, number, effect);
        }
    }

    /// Applies a put to the model.
    fn apply(&mut self, region: usize, from: u32, number: usize, effect: Effect) {
        let model = &mut self.regions[region].model;
        let (Effect::Put(shape, signal), false) = (effect, model.is_empty()) else {
            return;
        };
        let area = &mut model[size(area(from))..size(area(from) + AREA)];
        let mut content = content(number, shape.total()).into_iter();
        for (begin, end) in shape.elements() {
            let bytes = area[begin..end].iter_mut();
            bytes
                .zip(content.by_ref())
                .for_each(|(to, from)| *to = from);
        }
        if signal {
            area[size(DATA)..size(DATA) + 8].copy_from_slice(&signal_of(number).to_le_bytes());
        }
    }

    fn expected(&self, node: u32, region: usize, shape: Shape) -> Vec<u8> {
        let Some(area) = self.regions[region].model.get(size(area(node))..) else {
            return vec![0; size(shape.total())];
        };
        let elements = shape.elements();
        elements
            .flat_map(|(begin, end)| area[begin..end].to_vec())
            .collect()
    }

    /// Notes a fence before the next operation.
    pub fn fence(&mut self, from: u32, to: u32) {
        let pair = self.pairs.entry((from, to)).or_default();
        pair.fence = pair.operations.len();
    }

    /// Notes a flush at one node, or a quiet at all.
    pub fn flush(&mut self, process: ProcId, from: u32, to: Option<u32>, id: OperationId) {
        let mut ranges = Vec::new();
        for (key, pair) in &mut self.pairs {
            if key.0 == from && to.is_none_or(|to| to == key.1) {
                let end = pair.operations.len();
                ranges.push((*key, core::mem::replace(&mut pair.flushed, end), end));
            }
        }
        let ended = false;
        self.awaited
            .insert((process, id), Awaited::Flush { ranges, ended });
    }

    /// Checks the result of an operation.
    ///
    /// # Errors
    /// The promise that it breaks.
    pub fn completed_with(&mut self, process: ProcId, id: OperationId, result: Outcome) -> Verdict {
        let Some(awaited) = self.awaited.remove(&(process, id)) else {
            return wrong(format!("process {process}: {id:?} completes again"));
        };
        self.completed += 1;
        match awaited {
            Awaited::One(pair, number) => self.check_one(pair, number, result),
            Awaited::Get(pair, number, sink) => {
                self.sinks[sink].closed = true;
                self.check_get(pair, number, sink, result)
            }
            Awaited::Flush { ranges, ended } => match result {
                Ok(_) => self.check_flushed(process, &ranges),
                Err(_) if ended => Ok(()),
                Err(error) => self.check_failure(&ranges, error.cause),
            },
        }
    }

    fn check_one(&self, pair: (u32, u32), number: usize, result: Outcome) -> Verdict {
        let operation = &self.pairs[&pair].operations[number];
        let named = || format!("operation {number} of {pair:?}: {result:?}, but {operation:?}");
        let right = match result {
            Ok(value) => operation.done && value == operation.before,
            Err(error) => self.may_fail(operation, error.cause),
        };
        if right { Ok(()) } else { wrong(named()) }
    }

    /// Returns true if an operation may fail for this cause.
    fn may_fail(&self, operation: &Operation, cause: Cause) -> bool {
        let void = !operation.valid || self.regions[operation.region].withdrawn;
        match cause {
            Cause::Ended => operation.ended,
            Cause::Remote(_) | Cause::Refused => void,
            // No run denies a layer.
            Cause::NotPermitted | Cause::Cancelled | Cause::InvalidReply => false,
        }
    }

    fn check_get(
        &mut self,
        pair: (u32, u32),
        number: usize,
        sink: usize,
        result: Outcome,
    ) -> Verdict {
        let sink = core::mem::replace(
            &mut self.sinks[sink],
            Sink {
                bytes: Vec::new(),
                expected: Vec::new(),
                closed: true,
            },
        );
        if let Some(operation) = self.operation_mut(pair, number) {
            operation.done = result.is_ok();
        }
        let operation = &self.pairs[&pair].operations[number];
        if let Err(error) = result {
            let right = self.may_fail(operation, error.cause);
            let text = || format!("get {number} of {pair:?} fails: {error:?}, {operation:?}");
            return if right { Ok(()) } else { wrong(text()) };
        }
        if !operation.valid {
            return wrong(format!(
                "get {number} of {pair:?} was answered without its key"
            ));
        }
        let differs = sink
            .bytes
            .iter()
            .zip(&sink.expected)
            .position(|(got, due)| got != due);
        match differs {
            Some(at) if !self.is_unsure(pair, operation.region, number) => wrong(format!(
                "get {number} of {pair:?} has a wrong byte {at}: {operation:?}"
            )),
            _ => Ok(()),
        }
    }

    /// Returns true if it is not known what of the operations before `number` was applied.
    fn is_unsure(&self, pair: (u32, u32), region: usize, number: usize) -> bool {
        let operations = self.pairs[&pair].operations.iter().take(number);
        let mut here = operations.filter(|operation| operation.region == region);
        here.any(|operation| operation.ended && !operation.done)
    }

    /// Checks that everything before a flush that succeeded was applied, and the memory itself if
    /// nothing was begun since.
    fn check_flushed(&self, process: ProcId, ranges: &[((u32, u32), usize, usize)]) -> Verdict {
        for (pair, begin, end) in ranges {
            let operations = &self.pairs[pair].operations;
            let range = operations.iter().enumerate().take(*end).skip(*begin);
            for (number, operation) in range.filter(|(_, it)| it.process == process) {
                let applied = operation.done || matches!(operation.effect, Effect::Get(..));
                let settled = match operation.answered {
                    true => applied || self.is_void(operation),
                    false => applied,
                };
                if !settled {
                    return wrong(format!(
                        "flush of {begin}..{end} of {pair:?} succeeds before {number}: {operation:?}"
                    ));
                }
            }
            if operations.len() == *end {
                self.check_areas(*pair)?;
            }
        }
        Ok(())
    }

    fn check_failure(&self, ranges: &[((u32, u32), usize, usize)], cause: Cause) -> Verdict {
        let mut failed = ranges.iter().flat_map(|(pair, _, end)| {
            let operations = self.pairs[pair].operations.iter().take(*end);
            operations.filter(|operation| self.may_fail(operation, cause))
        });
        match failed.next() {
            Some(_) => Ok(()),
            None => wrong(format!(
                "flush of {ranges:?} fails without cause: {cause:?}"
            )),
        }
    }

    /// Checks the memory of one node's areas at another.
    fn check_areas(&self, pair: (u32, u32)) -> Verdict {
        let range = size(area(pair.0))..size(area(pair.0) + AREA);
        for (number, region) in self.regions.iter().enumerate() {
            if region.withdrawn || region.node != pair.1 {
                continue;
            }
            let sure = !self.is_unsure(pair, number, usize::MAX);
            if sure && region.bytes[range.clone()] != region.model[range.clone()] {
                return wrong(format!("region {number} is wrong in the area of {pair:?}"));
            }
        }
        Ok(())
    }

    /// Returns true if all operations of living processes completed.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.awaited.is_empty()
    }

    /// Returns the bytes of operations that may be under way.
    #[must_use]
    pub fn owed(&self) -> u64 {
        let all = self.pairs.values().flat_map(|pair| &pair.operations);
        let open = all.filter(|operation| !operation.done && !operation.ended);
        open.map(|operation| match operation.effect {
            Effect::Put(shape, _) | Effect::Get(shape, _) => shape.total() + 64,
            Effect::Add(_) => 64,
        })
        .sum()
    }

    /// Checks that every operation completed, and all memory.
    ///
    /// # Errors
    /// The promise that broke.
    pub fn finish(&self) -> Verdict {
        if let Some(((process, id), awaited)) = self.awaited.iter().next() {
            let operation = match awaited {
                Awaited::One(pair, number) | Awaited::Get(pair, number, _) => {
                    self.pairs[pair].operations.get(*number)
                }
                Awaited::Flush { .. } => None,
            };
            return wrong(format!(
                "process {process}: {id:?} never completes: {awaited:?}, {operation:?}"
            ));
        }
        self.pairs
            .keys()
            .try_for_each(|pair| self.check_areas(*pair))
    }

    // ---- memory

    fn operation_mut(&mut self, pair: (u32, u32), number: usize) -> Option<&mut Operation> {
        self.pairs.get_mut(&pair)?.operations.get_mut(number)
    }

    fn is_void(&self, operation: &Operation) -> bool {
        operation.ended || !operation.valid || self.regions[operation.region].withdrawn
    }

    /// Checks that all operations before `number` were applied, unless they need not be.
    fn check_before(&mut self, key: (u32, u32), number: usize, what: &str) -> Verdict {
        let mut at = self.pairs[&key].unsettled;
        let pair = &self.pairs[&key];
        while let Some(operation) = pair.operations.get(at).filter(|_| at < number) {
            let read = matches!(operation.effect, Effect::Get(..));
            if !(operation.done || read || self.is_void(operation)) {
                return wrong(format!(
                    "{what} {number} of {key:?} before {at}: {operation:?}"
                ));
            }
            at += 1;
        }
        if let Some(pair) = self.pairs.get_mut(&key) {
            pair.unsettled = at;
        }
        Ok(())
    }

    fn on_result(&self, sink: usize) -> Verdict {
        match self.sinks[sink].closed {
            true => wrong("a get writes after it completed"),
            false => Ok(()),
        }
    }

    /// Checks bytes of a put.
    fn on_write(&mut self, region: usize, at: u64, bytes: &[u8]) -> Verdict {
        let node = self.regions[region].node;
        if self.regions[region].withdrawn {
            return wrong(format!(
                "region {region} of node {node} was withdrawn and is written"
            ));
        }
        let from = u32::try_from(at.saturating_sub(SHARED) / AREA + 1).unwrap_or(u32::MAX);
        let within = at.saturating_sub(area(from));
        let Some(number) = self.writer((from, node), region, within, bytes) else {
            let length = bytes.len();
            return wrong(format!(
                "region {region} of node {node} gets {length} B at {within} of {from} of no put"
            ));
        };
        self.check_overwritten(region, at, bytes.len(), number)?;
        let pair = &self.pairs[&(from, node)];
        self.check_before((from, node), pair.operations[number].fence, "fence before")?;
        if let Some(operation) = self.operation_mut((from, node), number)
            && let Effect::Put(shape, signal) = operation.effect
            && let Some(position) = shape.position(within, bytes.len() as u64)
        {
            let covered = &mut operation.covered;
            covered.add(position, position + bytes.len() as u64, shape.total());
            operation.done |= covered.is_whole() && !signal;
        }
        Ok(())
    }

    /// Returns the put that has these bytes in that place. A few bytes may fit several puts. Those
    /// to one place are applied in order, so it is the first that is not done.
    fn writer(&self, pair: (u32, u32), region: usize, within: u64, bytes: &[u8]) -> Option<usize> {
        const NUMBERS: usize = 256 >> POSITION_BITS;
        let number = usize::from(*bytes.first()?) >> POSITION_BITS;
        let operations = &self.pairs.get(&pair)?.operations;
        let all = (number..operations.len()).step_by(NUMBERS).rev();
        let open = |number: &usize| !operations[*number].done && !operations[*number].ended;
        let fits = |number: &usize| {
            let operation = &operations[*number];
            let Effect::Put(shape, _) = operation.effect else {
                return false;
            };
            let position = shape.position(within, bytes.len() as u64);
            let position = position.filter(|_| operation.region == region && operation.valid);
            position.is_some_and(|position| {
                let due = (position..).map(|position| byte(*number, position));
                bytes.iter().copied().eq(due.take(bytes.len()))
            })
        };
        let mut fitting: Vec<_> = all.take(CANDIDATES).filter(fits).collect();
        let first_open = fitting.iter().rposition(open);
        let at = first_open.unwrap_or(0);
        (at < fitting.len()).then(|| fitting.swap_remove(at))
    }

    fn check_overwritten(
        &mut self,
        region: usize,
        at: u64,
        length: usize,
        number: usize,
    ) -> Verdict {
        let mark = u32::try_from(number + 1).unwrap_or(u32::MAX);
        let writers = &mut self.regions[region].writers[size(at)..size(at) + length];
        let later = writers.iter().copied().find(|writer| *writer > mark);
        writers.fill(mark);
        match later {
            Some(later) => wrong(format!(
                "region {region}: put {number} overwrites put {} at {at}",
                later - 1
            )),
            None => Ok(()),
        }
    }

    /// Checks an addition or a signal.
    fn on_atomic(&mut self, region: usize, at: u64, op: AtomicOp, before: u64) -> Verdict {
        let node = self.regions[region].node;
        let (from, number) = match op {
            AtomicOp::Fetch => return Ok(()),
            AtomicOp::Add(operand) => named_by(operand),
            AtomicOp::Set(value) => {
                let from = at.saturating_sub(SHARED) / AREA + 1;
                (u32::try_from(from).unwrap_or(0), size(value) - 1)
            }
            other => return wrong(format!("nobody asked for {other:?}")),
        };
        if self.regions[region].withdrawn {
            return wrong(format!(
                "region {region} of node {node} was withdrawn and is changed"
            ));
        }
        let key = (from, node);
        let operation = self
            .pairs
            .get(&key)
            .and_then(|pair| pair.operations.get(number));
        let Some(operation) = operation.filter(|it| it.region == region && it.valid) else {
            return wrong(format!(
                "region {region} of node {node}: {op:?} of no operation"
            ));
        };
        let whole = match operation.effect {
            Effect::Put(_, true) => operation.covered.is_whole(),
            Effect::Add(at_counter) => counter(at_counter) == at,
            _ => false,
        };
        if operation.done || !whole {
            return wrong(format!(
                "{op:?} at {at} of region {region}, {number}: {operation:?}"
            ));
        }
        self.check_before(key, number, "atomic operation")?;
        if let Some(operation) = self.operation_mut(key, number) {
            operation.done = true;
            let adds = matches!(operation.effect, Effect::Add(_));
            operation.before = adds.then_some(before);
        }
        Ok(())
    }
}

impl Pair {
    /// Notes that a session of the process ended.
    fn end(&mut self, process: ProcId) {
        let operations = self.operations.iter_mut();
        for operation in operations.filter(|operation| operation.process == process) {
            operation.ended = true;
        }
    }
}

/// Returns the bytes of a put.
#[must_use]
pub fn content(number: usize, length: u64) -> Vec<u8> {
    (0..length).map(|position| byte(number, position)).collect()
}

/// Returns the value that the signal of a put sets.
#[must_use]
pub const fn signal_of(number: usize) -> u64 {
    number as u64 + 1
}

/// Returns the operand of an addition: one, and the name of the operation in the bits above.
#[must_use]
pub fn operand(from: u32, number: usize) -> u64 {
    1 | u64::from(from) << COUNT_BITS | (number as u64) << (COUNT_BITS + NODE_BITS)
}

fn named_by(operand: u64) -> (u32, usize) {
    let node = operand >> COUNT_BITS & ((1 << NODE_BITS) - 1);
    (
        u32::try_from(node).unwrap_or(0),
        size(operand >> (COUNT_BITS + NODE_BITS)),
    )
}

/// Returns the offset in a region of what a node has at `at` in its area.
#[must_use]
pub fn in_area(node: u32, at: u64) -> u64 {
    area(node) + at
}
