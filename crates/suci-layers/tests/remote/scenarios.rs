//! Runs of random operations, each with its oracle. Planted faults must make one of them fail.

use crate::memory::{Locked, apply};
use crate::network::{Network, Random, id};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use suci_layers::remote::{
    AtomicOp, Cause, Destination, Extent, Layout, Memory, OperationError, OperationId, RegionId,
    RemoteErrorKind, RemoteRegion, Rights, Signal, SignalUpdate, Width,
};

/// Bytes of a region that belong to one initiator.
const AREA: usize = 4_096;

/// The lower part of an area, where puts and gets are. Signals are anywhere in the area.
const DATA: usize = 4_000;

const INITIATORS: usize = 3;
const TARGETS: usize = 2;

/// A layout, and the place of each of its bytes.
struct Shape {
    layout: Layout,
    places: Vec<usize>,
}

impl Shape {
    fn contiguous(offset: usize, length: usize) -> Self {
        Self {
            layout: Layout::contiguous(offset as u64, length as u64).expect("short"),
            places: (offset..offset + length).collect(),
        }
    }

    fn strided(offset: usize, element: usize, stride: usize, count: usize) -> Self {
        let (o, e, s) = (offset as u64, element as u64, stride as u64);
        let begins = (0..count).map(|at| offset + at * stride);
        Self {
            layout: Layout::strided(o, e, s, count as u32).expect("short"),
            places: begins.flat_map(|begin| begin..begin + element).collect(),
        }
    }

    /// Extents that do not overlap, the last ones first at times.
    fn extents(offset: usize, random: &mut Random) -> Self {
        let mut at = offset;
        let mut extents = Vec::new();
        for _ in 0..=random.below(5) {
            let (begin, length) = (at + random.below(50), 1 + random.below(200));
            extents.push(Extent {
                offset: begin as u64,
                length: length as u64,
            });
            at = begin + length;
        }
        if random.once_in(2) {
            extents.reverse();
        }
        let places = extents.iter().flat_map(|e| e.offset..e.offset + e.length);
        Self {
            places: places.map(|place| place as usize).collect(),
            layout: Layout::extents(&extents).expect("short"),
        }
    }

    fn random(base: usize, random: &mut Random) -> Self {
        match random.below(3) {
            0 => {
                let length = random.below(1_500);
                Self::contiguous(base + random.below(DATA - length), length)
            }
            1 => {
                let (element, gap, count) = (random.below(16), random.below(8), random.below(60));
                let (element, stride) = (element + 1, element + 1 + gap);
                let length = stride * (count + 1);
                Self::strided(
                    base + random.below(DATA - length),
                    element,
                    stride,
                    count + 1,
                )
            }
            _ => Self::extents(base + random.below(DATA - 1_500), random),
        }
    }

    fn read(&self, bytes: &[u8]) -> Vec<u8> {
        self.places.iter().map(|place| bytes[*place]).collect()
    }

    fn write(&self, bytes: &mut [u8], data: &[u8]) {
        for (place, byte) in self.places.iter().zip(data) {
            bytes[*place] = *byte;
        }
    }
}

/// The result that an operation must have.
enum Awaited {
    Value(Option<u64>),
    /// The destination's memory has these bytes.
    Memory(Arc<Locked>, Vec<u8>),
    Error(RemoteErrorKind, u64),
}

/// The program of all initiators, with a model of each target's memory.
struct Program {
    network: Network,
    regions: Vec<RemoteRegion>,
    memories: Vec<Arc<Locked>>,
    models: Vec<Vec<u8>>,
    awaited: BTreeMap<(usize, OperationId), Awaited>,
    /// Failures that the next flush of this initiator and target reports.
    failures: BTreeMap<(usize, usize), (RemoteErrorKind, u64)>,
}

fn filled(length: usize, random: &mut Random) -> Vec<u8> {
    (0..length).map(|_| random.below(256) as u8).collect()
}

impl Program {
    fn new(seed: u64) -> Self {
        let mut network = Network::new(INITIATORS + TARGETS, seed);
        let (mut regions, mut memories, mut models) = (Vec::new(), Vec::new(), Vec::new());
        for target in 0..TARGETS {
            let bytes = filled(AREA * INITIATORS, &mut network.random);
            let memory = Locked::new(bytes.clone());
            let rights = Rights::READ | Rights::WRITE | Rights::ATOMIC;
            regions.push(network.register(INITIATORS + target, &memory, rights));
            memories.push(memory);
            models.push(bytes);
        }
        Self {
            network,
            regions,
            memories,
            models,
            awaited: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }

    fn operate(&mut self) {
        let (from, to) = (
            self.network.random.below(INITIATORS),
            self.network.random.below(TARGETS),
        );
        match self.network.random.below(12) {
            0..4 => self.put(from, to),
            4..6 => self.get(from, to),
            6..8 => self.atomic(from, to),
            8 => self.network.nodes[from]
                .initiator
                .fence(id(INITIATORS + to)),
            9 => self.flush(from, to),
            _ => self.mistake(from, to),
        }
    }

    fn put(&mut self, from: usize, to: usize) {
        let random = &mut self.network.random;
        let shape = Shape::random(from * AREA, random);
        let data = filled(shape.places.len(), random);
        let model = &mut self.models[to];
        shape.write(model, &data);
        let signal = random.once_in(3).then(|| {
            let offset = (from * AREA + 8 * random.below(AREA / 8)) as u64;
            let value = random.below(1_000) as u64;
            let update = match random.once_in(2) {
                true => SignalUpdate::Set(value),
                false => SignalUpdate::Add(value),
            };
            let op = match update {
                SignalUpdate::Set(value) => AtomicOp::Set(value),
                SignalUpdate::Add(value) => AtomicOp::Add(value),
            };
            apply(model, offset, Width::Bits64, op).expect("it is there");
            Signal { offset, update }
        });
        let answered = random.once_in(2);
        let initiator = &mut self.network.nodes[from].initiator;
        let region = &self.regions[to];
        let data = Bytes::from(data);
        if answered {
            let operation = initiator.put_answered(region, shape.layout, data, signal);
            let operation = operation.expect("room");
            self.awaited.insert((from, operation), Awaited::Value(None));
        } else {
            initiator
                .put(region, shape.layout, data, signal)
                .expect("room");
        }
    }

    fn get(&mut self, from: usize, to: usize) {
        let random = &mut self.network.random;
        let shape = Shape::random(from * AREA, random);
        let length = shape.places.len();
        let into = match random.once_in(2) && length > 0 {
            true => Shape::strided(random.below(9), 1, 1 + random.below(3), length),
            false => Shape::contiguous(random.below(9), length),
        };
        let mut bytes = filled(5_000, random);
        let memory = Locked::new(bytes.clone());
        into.write(&mut bytes, &shape.read(&self.models[to]));
        let destination = Destination {
            memory: memory.clone(),
            layout: into.layout,
        };
        let initiator = &mut self.network.nodes[from].initiator;
        let operation = initiator.get(&self.regions[to], shape.layout, destination);
        let awaited = Awaited::Memory(memory, bytes);
        self.awaited
            .insert((from, operation.expect("room")), awaited);
    }

    fn atomic(&mut self, from: usize, to: usize) {
        let random = &mut self.network.random;
        let width = match random.once_in(2) {
            true => Width::Bits32,
            false => Width::Bits64,
        };
        let offset = (from * AREA) as u64 + 8 * random.below(DATA / 8) as u64;
        let model = &mut self.models[to];
        let operand = random.below(1 << 31) as u64 * 3;
        let expected = match random.once_in(2) {
            true => apply(model, offset, width, AtomicOp::Fetch).expect("it is there"),
            false => operand,
        };
        let new = operand;
        let op = match random.below(8) {
            0 => AtomicOp::Fetch,
            1 => AtomicOp::Set(operand),
            2 => AtomicOp::Add(operand),
            3 => AtomicOp::And(operand),
            4 => AtomicOp::Or(operand),
            5 => AtomicOp::Xor(operand),
            6 => AtomicOp::Swap(operand),
            _ => AtomicOp::CompareSwap { expected, new },
        };
        let before = apply(model, offset, width, op);
        let initiator = &mut self.network.nodes[from].initiator;
        let region = &self.regions[to];
        if random.once_in(2) {
            let operation = initiator.fetch_atomic(region, offset, width, op);
            let awaited = Awaited::Value(before);
            self.awaited
                .insert((from, operation.expect("room")), awaited);
        } else {
            initiator.atomic(region, offset, width, op).expect("room");
        }
    }

    fn flush(&mut self, from: usize, to: usize) {
        let node = id(INITIATORS + to);
        let operation = self.network.nodes[from].initiator.flush(node);
        let awaited = match self.failures.remove(&(from, to)) {
            None => Awaited::Value(None),
            Some((kind, count)) => Awaited::Error(kind, count),
        };
        self.awaited
            .insert((from, operation.expect("room")), awaited);
    }

    /// An operation that the target must refuse.
    fn mistake(&mut self, from: usize, to: usize) {
        let random = &mut self.network.random;
        let mut region = self.regions[to];
        let shape = Shape::random(from * AREA, random);
        let (mut layout, mut data) = (shape.layout, filled(shape.places.len(), random));
        let end = (AREA * INITIATORS) as u64;
        let kind = match random.below(4) {
            0 => {
                region.key ^= 1 << random.below(64);
                RemoteErrorKind::WrongKey
            }
            1 => {
                region.region = RegionId(77);
                RemoteErrorKind::NoRegion
            }
            2 => {
                data = filled(1 + random.below(1_000), random);
                let begin = end + 1 - data.len() as u64 + random.below(1_000) as u64;
                layout = Layout::contiguous(begin, data.len() as u64).expect("short");
                RemoteErrorKind::OutOfBounds
            }
            _ => RemoteErrorKind::Unaligned,
        };
        let initiator = &mut self.network.nodes[from].initiator;
        let operation = if kind == RemoteErrorKind::Unaligned {
            let offset = 8 * random.below(100) as u64 + 1 + random.below(7) as u64;
            let op = AtomicOp::Add(1);
            initiator.fetch_atomic(&region, offset, Width::Bits64, op)
        } else if random.once_in(3) {
            let places = Layout::contiguous(0, data.len() as u64).expect("short");
            let destination = Destination {
                memory: Locked::new(data),
                layout: places,
            };
            initiator.get(&region, layout, destination)
        } else if random.once_in(2) {
            initiator.put_answered(&region, layout, data.into(), None)
        } else {
            initiator
                .put(&region, layout, data.into(), None)
                .expect("room");
            let failures = self.failures.entry((from, to)).or_insert((kind, 0));
            failures.1 += 1;
            return;
        };
        let awaited = Awaited::Error(kind, 1);
        self.awaited
            .insert((from, operation.expect("room")), awaited);
    }

    /// Compares all results and memories.
    fn check(&mut self) {
        for (name, awaited) in std::mem::take(&mut self.awaited) {
            let (from, operation) = name;
            let result = self.network.nodes[from].results.get(&operation);
            let result = *result.expect("it completes");
            match awaited {
                Awaited::Value(value) => assert_eq!(result, Ok(value)),
                Awaited::Memory(memory, bytes) => {
                    assert_eq!(result, Ok(None));
                    assert_eq!(memory.bytes(), bytes);
                }
                Awaited::Error(kind, count) => check_error(result, kind, count),
            }
        }
        for (memory, model) in self.memories.iter().zip(&self.models) {
            assert_eq!(memory.bytes(), *model);
        }
    }
}

fn check_error(result: Result<Option<u64>, OperationError>, kind: RemoteErrorKind, count: u64) {
    let error = result.expect_err("the target refused it");
    let Cause::Remote(remote) = error.cause else {
        panic!("{error}");
    };
    assert_eq!((remote.kind, error.count), (kind, count), "{error}");
}

/// Each initiator has an area of each target's memory. Its operations there take effect in order.
/// Returns how many long messages were placed, and how many buffered.
pub(crate) fn in_order(seed: u64) -> (usize, usize) {
    let mut program = Program::new(seed);
    for _ in 0..60 {
        program.operate();
        for _ in 0..program.network.random.below(60) {
            program.network.step();
        }
    }
    for from in 0..INITIATORS {
        (0..TARGETS).for_each(|to| program.flush(from, to));
    }
    program.network.settle();
    program.check();
    (program.network.placed, program.network.buffered)
}

/// The call between two puts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Between {
    Nothing,
    Fence,
    /// A fence, and a put with a wrong key.
    FenceAndMistake,
    /// A fence, and a put that is cancelled before it was sent: after or before the next one began.
    FenceAndCancelled,
    FenceAndCancelledLater,
}

/// An initiator fills one place and then another with a number that rises. Returns whether the
/// second place never has a higher number than the first one.
pub(crate) fn keeps_fences(seed: u64, between: Between) -> bool {
    const LENGTH: usize = 700;
    let mut network = Network::new(2, seed);
    let memory = Locked::new(vec![0; 2 * LENGTH]);
    let region = network.register(1, &memory, Rights::WRITE);
    let mut in_order = true;
    for number in 1..6 {
        for offset in [0, LENGTH] {
            let shape = Shape::contiguous(offset, LENGTH);
            let data = vec![number; LENGTH].into();
            let initiator = &mut network.nodes[0].initiator;
            if between != Between::Nothing && offset > 0 {
                initiator.fence(id(1));
            }
            if between == Between::FenceAndMistake && offset > 0 {
                let key = region.key ^ 1;
                let mistaken = RemoteRegion { key, ..region };
                let layout = shape.layout.clone();
                let put = initiator.put(&mistaken, layout, vec![0; LENGTH].into(), None);
                put.expect("room");
            }
            let cancelled = matches!(
                between,
                Between::FenceAndCancelled | Between::FenceAndCancelledLater
            );
            let cancelled = (cancelled && offset > 0).then(|| {
                let (layout, data) = (shape.layout.clone(), vec![0; LENGTH].into());
                let put = initiator.put_answered(&region, layout, data, None);
                put.expect("room")
            });
            if let (Some(put), Between::FenceAndCancelled) = (cancelled, between) {
                assert!(initiator.cancel(put));
            }
            initiator
                .put(&region, shape.layout, data, None)
                .expect("room");
            if let (Some(put), Between::FenceAndCancelledLater) = (cancelled, between) {
                assert!(initiator.cancel(put));
            }
        }
        for _ in 0..100 {
            network.step();
            let bytes = memory.bytes();
            let (first, second) = bytes.split_at(LENGTH);
            in_order &= first.iter().min() >= second.iter().max();
        }
    }
    network.settle();
    in_order
}

/// A region is withdrawn while puts arrive.
pub(crate) fn withdrawal(seed: u64) {
    const LENGTH: usize = 2_000;
    let mut network = Network::new(2, seed);
    let memory = Locked::new(vec![0; LENGTH]);
    let region = network.register(1, &memory, Rights::WRITE);
    let put = |network: &mut Network| {
        let data = filled(LENGTH, &mut network.random).into();
        let layout = Layout::contiguous(0, LENGTH as u64).expect("short");
        let initiator = &mut network.nodes[0].initiator;
        initiator
            .put_answered(&region, layout, data, None)
            .expect("room")
    };
    let mut operations = vec![put(&mut network), put(&mut network)];
    for _ in 0..network.random.below(150) {
        network.step();
    }
    assert!(network.nodes[1].regions.withdraw(region.region));
    assert!(!network.nodes[1].regions.withdraw(region.region));
    let bytes = memory.bytes();
    operations.push(put(&mut network));
    network.settle();
    assert_eq!(memory.bytes(), bytes, "memory changed after withdrawal");
    // From the first failure on, all fail.
    let mut withdrawn = false;
    for operation in operations {
        let result = network.nodes[0].results[&operation];
        withdrawn |= result.is_err();
        if withdrawn {
            check_error(result, RemoteErrorKind::Withdrawn, 1);
        }
    }
    assert!(withdrawn && memory.len() == LENGTH as u64);
}
