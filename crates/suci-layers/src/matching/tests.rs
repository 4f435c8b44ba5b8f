//! Cases of the table, and every order of events against a model.

mod cases;
mod model;

use super::table::{Begin, RevocablePlace};
use super::{Buffer, Completion, Matching, Pattern};
use crate::remote::{AtomicOp, Memory, Width};
use bytes::Bytes;
use std::sync::{Arc, Mutex};
use suci_proto::message::IncomingInfo;
use suci_proto::types::{ChannelId, Kind, NodeId, SessionNumber, Source};
use suci_proto::{Data, EndReason, Message, PortInput};

/// Bytes of a test.
#[derive(Debug)]
struct Bytes8(Mutex<Vec<u8>>);

impl Bytes8 {
    fn new(length: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(vec![0; length])))
    }

    fn all(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Memory for Bytes8 {
    fn len(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let bytes = self.0.lock().unwrap();
        let at = usize::try_from(at).unwrap();
        let from = bytes.get(at..at.saturating_add(into.len()));
        from.map(|from| into.copy_from_slice(from)).is_some()
    }

    fn write(&self, at: u64, from: &[u8]) -> bool {
        let mut bytes = self.0.lock().unwrap();
        let at = usize::try_from(at).unwrap();
        let into = bytes.get_mut(at..at.saturating_add(from.len()));
        assert!(
            into.is_some(),
            "{} B at {at} are beyond the end",
            from.len()
        );
        into.map(|into| into.copy_from_slice(from)).is_some()
    }

    fn atomic(&self, _: u64, _: Width, _: AtomicOp) -> Option<u64> {
        None
    }
}

fn buffer(memory: &Arc<Bytes8>) -> Buffer {
    Buffer::new([Arc::clone(memory) as Arc<dyn Memory>]).unwrap()
}

fn source(node: u32, session: u32) -> Source {
    Source {
        node: NodeId(node),
        session: SessionNumber(session),
    }
}

/// The bytes of a message: they tell its node, its number and its length.
fn payload(from: Source, number: u64, length: usize) -> Vec<u8> {
    let seed = u64::from(from.node.0) * 31 + number * 7 + length as u64;
    (0..length as u64).map(|at| (seed + at) as u8 | 1).collect()
}

fn message(from: Source, channel: u32, number: u64, tag: u64, length: usize) -> PortInput {
    let bytes = payload(from, number, length);
    let message = Message {
        channel: ChannelId::of_matching(channel),
        number,
        tag,
        kind: Kind::USER,
        user_header: Bytes::new(),
        payload: Data::from(Bytes::from(bytes)),
    };
    PortInput::Message(from, message)
}

fn info(channel: u32, number: u64, tag: u64, length: usize) -> IncomingInfo {
    IncomingInfo {
        channel: ChannelId::of_matching(channel),
        number,
        total: length as u64,
        tag,
        kind: Kind::USER,
        user_header: Bytes::new(),
    }
}

/// As [`Matching::begin`]: the memory that it names.
fn begin(table: &mut Matching, from: Source, info: &IncomingInfo) -> Option<RevocablePlace> {
    match table.begin(from, info) {
        Begin::Placed(memory) => Some(memory),
        Begin::Kept | Begin::TooEarly => None,
    }
}

fn completions(table: &mut Matching) -> Vec<Completion> {
    core::iter::from_fn(|| table.poll_completion()).collect()
}

/// The number of the message of each completion, as far as it has one.
fn numbers(table: &mut Matching) -> Vec<u64> {
    let all = completions(table).into_iter();
    all.filter_map(|one| Some(one.result.ok()?.number))
        .collect()
}

fn ended(from: Source) -> PortInput {
    PortInput::Ended(from.node, from.session, EndReason::Restarted)
}

fn exact(node: u32, tag: u64) -> Pattern {
    Pattern::tag(tag).from(NodeId(node))
}
