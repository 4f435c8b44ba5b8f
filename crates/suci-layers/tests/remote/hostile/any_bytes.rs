//! Messages made of arbitrary bytes: each is refused or has a meaning that survives encoding, and
//! none touches memory that its sender may not touch.

use std::sync::{Arc, Mutex};
use suci_layers::remote::{
    AtomicOp, Body, Description, Destination, Initiator, Layout, Memory, PlaceDecision, RegionId,
    Regions, RemoteRegion, Reply, Request, Rights, Target, Width,
};
use suci_proto::types::{Kind, NodeId, SessionNumber, Source};

const PEER: NodeId = NodeId(1);
const SESSION: Source = Source {
    node: PEER,
    session: SessionNumber(0),
};

/// The key that half of all requests have.
const KEY: u64 = 0x0101_0101_0101_0101;

/// Memory of which only a part is open, so that a write behind the end is noticed.
struct Guarded(Mutex<[u8; 96]>);

/// Bytes of it that are open.
const OPEN: u64 = 64;

impl Guarded {
    fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new([0; 96])))
    }

    fn range(at: u64, length: usize) -> std::ops::Range<usize> {
        let end = at.checked_add(length as u64).filter(|end| *end <= OPEN);
        assert!(end.is_some(), "the layer checks bounds");
        at as usize..at as usize + length
    }

    fn is_zero(&self) -> bool {
        *self.0.lock().expect("no panic") == [0; 96]
    }
}

impl Memory for Guarded {
    fn len(&self) -> u64 {
        OPEN
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let bytes = self.0.lock().expect("no panic");
        into.copy_from_slice(&bytes[Self::range(at, into.len())]);
        true
    }

    fn write(&self, at: u64, bytes: &[u8]) -> bool {
        let mut own = self.0.lock().expect("no panic");
        own[Self::range(at, bytes.len())].copy_from_slice(bytes);
        true
    }

    fn atomic(&self, at: u64, width: Width, op: AtomicOp) -> Option<u64> {
        let range = Self::range(at, width.bytes() as usize);
        assert!(at.is_multiple_of(width.bytes()), "the layer checks it");
        let mut own = self.0.lock().expect("no panic");
        let before = u64::from(own[range.start]);
        own[range.start] = op.apply(before, width) as u8;
        Some(before)
    }
}

/// Cuts the input into messages and hands each to a target and to an initiator.
pub(crate) fn run(input: &[u8]) {
    let (open, closed) = (Guarded::new(), Guarded::new());
    let regions = Regions::new();
    let all = Rights::READ | Rights::WRITE | Rights::ATOMIC;
    for (memory, key) in [(&open, KEY), (&closed, u64::MAX / 3)] {
        let memory = Arc::clone(memory);
        regions.register(memory, all, key).expect("room");
    }
    let mut target = Target::new(regions);
    let mut initiator = Initiator::new();
    begin(&mut initiator);
    let mut rest = input;
    while let [kind, tag, header, payload, tail @ ..] = rest {
        let (user_header, tail) = tail.split_at(tail.len().min(usize::from(*header)));
        let (payload, tail) = tail.split_at(tail.len().min(usize::from(*payload)));
        rest = tail;
        let message = Description {
            tag: u64::from(*tag & 3) << 16 | u64::from(*tag >> 2),
            kind: Kind(16 + kind % 4 + (kind & 16)),
            user_header,
            total: payload.len() as u64,
        };
        encode_again(&message);
        request(&mut target, &message, payload);
        reply(&mut initiator, &message, payload);
    }
    initiator.ended(PEER);
    assert!(closed.is_zero(), "its key is another one");
}

/// Opens operations, whose replies the input then forges.
fn begin(initiator: &mut Initiator) {
    let (region, key) = (RegionId(0), 0);
    let node = PEER;
    let region = RemoteRegion { node, region, key };
    let layout = Layout::strided(3, 1, 3, 10).expect("short");
    let memory = Guarded::new();
    let into = Destination { memory, layout };
    let layout = Layout::contiguous(0, 10).expect("short");
    initiator.get(&region, layout, into).expect("room");
    let op = AtomicOp::Fetch;
    let atomic = initiator.fetch_atomic(&region, 0, Width::Bits32, op);
    atomic.expect("room");
    initiator.quiet().expect("room");
}

fn encode_again(message: &Description<'_>) {
    let Description {
        kind,
        user_header,
        total,
        ..
    } = *message;
    if let Ok(request) = Request::read(kind, user_header, total) {
        assert_eq!(request.kind(), kind);
        assert_eq!(Request::read(kind, &request.header(), total), Ok(request));
    }
    if let Ok(reply) = Reply::read(kind, user_header, total) {
        assert_eq!(reply.kind(), kind);
        assert_eq!(Reply::read(kind, &reply.header(), total), Ok(reply));
    }
}

fn request(target: &mut Target, message: &Description<'_>, payload: &[u8]) {
    if !target.takes(PEER) {
        target.transmit(|_, _| true);
    }
    let body = match target.place(SESSION, message) {
        PlaceDecision::Direct(placement) => {
            // The bytes of a put that breaks a rule go nowhere.
            placement.write(0, payload);
            Body::Placed
        }
        PlaceDecision::AfterEarlier | PlaceDecision::Buffer => Body::Bytes(payload),
    };
    target.on_request(SESSION, message, body);
}

fn reply(initiator: &mut Initiator, message: &Description<'_>, payload: &[u8]) {
    let body = match initiator.place(PEER, message) {
        PlaceDecision::Direct(placement) => {
            assert!(placement.write(0, payload));
            Body::Placed
        }
        PlaceDecision::AfterEarlier | PlaceDecision::Buffer => Body::Bytes(payload),
    };
    initiator.on_reply(PEER, message, body);
    while initiator.poll_completion().is_some() {}
}
