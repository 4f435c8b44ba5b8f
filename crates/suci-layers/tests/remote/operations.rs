//! Bounds, and single operations beside their documentation.

use crate::memory::Locked;
use crate::network::{Network, id, source};
use bytes::Bytes;
use std::sync::Arc;
use suci_layers::remote::{
    AtomicOp, BeginError, Body, Cause, Description, Destination, Extent, Initiator, LONGEST_REPLY,
    Layout, MAX_OPERATIONS, Memory, PlaceDecision, RegionId, Regions, RemoteErrorKind,
    RemoteRegion, Reply, Rights, Target, Width,
};
use suci_proto::types::Source;

const KEY: u64 = 0x1234_5678_9abc_def0;

fn contiguous(offset: u64, length: usize) -> Layout {
    Layout::contiguous(offset, length as u64).expect("short")
}

fn region() -> RemoteRegion {
    RemoteRegion {
        node: id(1),
        region: RegionId(0),
        key: KEY,
    }
}

fn destination(length: usize) -> (Arc<Locked>, Destination) {
    let memory = Locked::new(vec![0; length]);
    let layout = contiguous(0, length);
    (memory.clone(), Destination { memory, layout })
}

/// A reply as it arrives.
fn description<'a>(reply: &Reply, header: &'a [u8], tag: u64, total: usize) -> Description<'a> {
    Description {
        tag,
        kind: reply.kind(),
        user_header: header,
        total: total as u64,
    }
}

/// Returns the tags of the requests that wait.
fn tags(initiator: &mut Initiator) -> Vec<u64> {
    let mut tags = Vec::new();
    initiator.transmit(|_, message| {
        tags.push(message.tag);
        true
    });
    tags
}

#[test]
fn long_gets_go_as_several_requests() {
    let length = 2 * LONGEST_REPLY + 12_345;
    let mut network = Network::new(2, 3);
    let bytes: Vec<_> = (0..length).map(|at| (at * 7 + at / 1_000) as u8).collect();
    let memory = Locked::new(bytes.clone());
    let region = network.register(1, &memory, Rights::READ);
    let (memory, into) = destination(length);
    let initiator = &mut network.nodes[0].initiator;
    let get = initiator.get(&region, contiguous(0, length), into);
    assert_eq!(network.wait(0, get.expect("room")), Ok(None));
    assert!(memory.bytes() == bytes);
}

#[test]
fn an_operation_that_cannot_be_is_not_begun() {
    let mut initiator = Initiator::new();
    let put = initiator.put(
        &region(),
        contiguous(0, 5),
        Bytes::from_static(b"1234"),
        None,
    );
    let (layout, given) = (5, 4);
    assert_eq!(put, Err(BeginError::Length { layout, given }));
    let (_, into) = destination(4);
    let get = initiator.get(&region(), contiguous(0, 5), into);
    assert_eq!(get, Err(BeginError::Length { layout, given }));
    let (_, mut into) = destination(4);
    into.layout = contiguous(1, 4);
    let get = initiator.get(&region(), contiguous(0, 4), into);
    assert_eq!(get, Err(BeginError::Destination));
    let long = LONGEST_REPLY as u64;
    let extents = [0, long].map(|offset| Extent {
        offset,
        length: long,
    });
    let (_, into) = destination(2 * LONGEST_REPLY);
    let get = initiator.get(&region(), Layout::extents(&extents).expect("short"), into);
    assert_eq!(get, Err(BeginError::TooLong));
    assert!(!initiator.has_output());
}

#[test]
fn operations_and_requests_are_bounded() {
    let mut initiator = Initiator::new();
    let mut begin = || initiator.fetch_atomic(&region(), 0, Width::Bits64, AtomicOp::Fetch);
    let queued = (0..).take_while(|_| begin().is_ok()).count();
    assert_eq!(begin(), Err(BeginError::QueueFull));
    assert_eq!(tags(&mut initiator).len(), queued);
    let mut open = queued;
    while initiator.flush(id(1)).is_ok() {
        open += 1;
    }
    assert_eq!(open, MAX_OPERATIONS);
    initiator.ended(id(1));
    let quiet = initiator.quiet();
    assert_eq!(quiet, Err(BeginError::TooManyOperations), "none was polled");
    assert!(initiator.poll_completion().is_some());
    assert!(initiator.quiet().is_ok());
    // Data counts, too.
    let mut initiator = Initiator::new();
    let megabyte = Bytes::from(vec![0; 1 << 20]);
    let mut put = || initiator.put(&region(), contiguous(0, 1 << 20), megabyte.clone(), None);
    assert!((0..16).all(|_| put().is_ok()));
    assert_eq!(put(), Err(BeginError::QueueFull));
}

/// While its replies cannot be sent, a target takes no more than a few requests.
#[test]
fn a_target_takes_no_request_while_replies_wait() {
    let regions = Regions::new();
    let memory = Locked::new(vec![0; 8]);
    regions.register(memory, Rights::ATOMIC, KEY).expect("room");
    let mut target = Target::new(regions);
    let mut initiator = Initiator::new();
    let begin = |initiator: &mut Initiator| {
        initiator
            .fetch_atomic(&region(), 0, Width::Bits64, AtomicOp::Add(1))
            .expect("room");
    };
    (0..100).for_each(|_| begin(&mut initiator));
    let mut refused = 0;
    initiator.transmit(|_, message| {
        if !target.takes(id(0)) {
            refused += 1;
            return false;
        }
        let message = Description {
            tag: message.tag,
            kind: message.kind,
            user_header: &message.user_header,
            total: 0,
        };
        target.on_request(source(id(0)), &message, Body::Bytes(&[]));
        true
    });
    assert!(refused == 1 && initiator.has_output());
    assert!(target.takes(id(2)), "others are served");
    let mut sent = 0;
    target.transmit(|_, _| {
        sent += 1;
        sent <= 10
    });
    assert!(target.takes(id(0)) && target.has_output());
}

/// Few puts of a node are placed at once, since each is compared with the others.
#[test]
fn a_target_places_a_bounded_number_of_puts() {
    let regions = Regions::new();
    let memory = Locked::new(vec![0; 10_000]);
    regions.register(memory, Rights::WRITE, KEY).expect("room");
    let mut target = Target::new(regions);
    let mut initiator = Initiator::new();
    for offset in (0..10_000).step_by(100) {
        let data = Bytes::from(vec![1; 100]);
        initiator
            .put(&region(), contiguous(offset, 100), data, None)
            .expect("room");
    }
    let mut placed = 0;
    initiator.transmit(|_, message| {
        let message = Description {
            tag: message.tag,
            kind: message.kind,
            user_header: &message.user_header,
            total: 100,
        };
        match target.place(source(id(0)), &message) {
            PlaceDecision::Direct(_) => placed += 1,
            _ => target.on_request(source(id(0)), &message, Body::Placed),
        }
        true
    });
    // Each that found no room was handled, which made room for one more.
    assert_eq!(placed, 64 + (100 - 64) / 2);
}

#[test]
fn a_cancelled_get_touches_its_memory_no_more() {
    let mut initiator = Initiator::new();
    let (memory, into) = destination(500);
    let get = initiator
        .get(&region(), contiguous(0, 500), into)
        .expect("room");
    let [tag] = tags(&mut initiator)[..] else {
        panic!("one request");
    };
    let header = Reply::Data.header();
    let message = description(&Reply::Data, &header, tag, 500);
    let PlaceDecision::Direct(placement) = initiator.place(id(1), &message) else {
        panic!("its place is known");
    };
    assert!(
        !placement.write(401, &[1; 100]),
        "no byte beyond the message"
    );
    assert!(placement.write(400, &[1; 100]));
    assert!(initiator.cancel(get) && !initiator.cancel(get));
    assert!(!placement.write(0, &[1; 100]));
    initiator.on_reply(id(1), &message, Body::Placed);
    assert_eq!(initiator.stray_replies(), 1);
    let completion = initiator.poll_completion().expect("it was cancelled");
    let error = completion.result.expect_err("it was cancelled");
    assert_eq!(error.cause, Cause::Cancelled);
    assert_eq!(memory.bytes(), [vec![0; 400], vec![1; 100]].concat());
}

/// Replies of another node, of another kind, or of another length.
#[test]
fn replies_that_do_not_suit_complete_nothing_wrongly() {
    let mut initiator = Initiator::new();
    let (_, into) = destination(500);
    initiator
        .get(&region(), contiguous(0, 500), into)
        .expect("room");
    let [tag] = tags(&mut initiator)[..] else {
        panic!("one request");
    };
    let (data, done) = (Reply::Data, Reply::Done);
    for (from, length, tag) in [(2, 500, tag), (1, 499, tag), (1, 500, tag + 1)] {
        let message = description(&data, &[], tag, length);
        let place = initiator.place(id(from), &message);
        assert!(matches!(place, PlaceDecision::Buffer));
    }
    initiator.on_reply(id(2), &description(&done, &[], tag, 0), Body::Bytes(&[]));
    assert_eq!(initiator.stray_replies(), 1);
    assert_eq!(initiator.poll_completion(), None);
    initiator.on_reply(id(1), &description(&done, &[], tag, 0), Body::Bytes(&[]));
    let completion = initiator.poll_completion().expect("it failed");
    let error = completion.result.expect_err("it failed");
    assert_eq!(error.cause, Cause::InvalidReply);
}

#[test]
fn rights_are_needed_and_errors_say_what_to_do() {
    let all = [Rights::READ, Rights::WRITE, Rights::ATOMIC];
    for rights in all {
        let mut network = Network::new(2, 5);
        let memory = Locked::new(vec![0; 64]);
        let region = network.register(1, &memory, rights);
        let initiator = &mut network.nodes[0].initiator;
        let layout = contiguous(8, 16);
        let data = Bytes::from(vec![0; 16]);
        let operations = [
            initiator.get(&region, layout.clone(), destination(16).1),
            initiator.put_answered(&region, layout, data, None),
            initiator.fetch_atomic(&region, 8, Width::Bits32, AtomicOp::Fetch),
        ];
        for (operation, needed) in operations.into_iter().zip(all) {
            let result = network.wait(0, operation.expect("room"));
            if rights == needed {
                assert!(result.is_ok());
                continue;
            }
            let error = result.expect_err("the right is missing");
            let Cause::Remote(remote) = error.cause else {
                panic!("{error}");
            };
            let (kind, offset) = (remote.kind, remote.offset);
            assert_eq!((kind, offset), (RemoteErrorKind::NoRight, 8));
            let text = error.to_string();
            assert!(text.starts_with("node 1: region 0, offset 8, "), "{text}");
            assert!(
                text.ends_with("register it with read, write or atomic"),
                "{text}"
            );
        }
        assert_eq!(memory.len(), 64);
    }
}

/// A put whose signal cannot follow changes nothing.
#[test]
fn a_signal_is_checked_before_the_data_is_written() {
    use suci_layers::remote::{Signal, SignalUpdate};
    let mut network = Network::new(2, 5);
    let memory = Locked::new(vec![0; 64]);
    let region = network.register(1, &memory, Rights::WRITE | Rights::ATOMIC);
    for offset in [4, 64, u64::MAX, u64::MAX - 7] {
        let update = SignalUpdate::Set(1);
        let signal = Some(Signal { offset, update });
        let initiator = &mut network.nodes[0].initiator;
        let data = Bytes::from(vec![1; 16]);
        let put = initiator.put_answered(&region, contiguous(0, 16), data, signal);
        assert!(network.wait(0, put.expect("room")).is_err());
    }
    assert_eq!(memory.bytes(), vec![0; 64]);
}

/// The bytes of a put that breaks a rule go nowhere, and it fails in its turn, before the flush
/// behind it. Refused by the node instead, it would fail later.
#[test]
fn a_long_put_that_breaks_a_rule_fails_before_the_next_flush() {
    let regions = Regions::new();
    let memory = Locked::new(vec![0; 1_000]);
    regions
        .register(memory.clone(), Rights::WRITE, KEY + 1)
        .expect("room");
    let mut target = Target::new(regions);
    let mut initiator = Initiator::new();
    let data = Bytes::from(vec![1; 1_000]);
    let put = initiator.put(&region(), contiguous(0, 1_000), data, None);
    put.expect("room");
    let flush = initiator.flush(id(1)).expect("room");
    let from = source(id(0));
    initiator.transmit(|_, message| {
        let request = Description {
            tag: message.tag,
            kind: message.kind,
            user_header: &message.user_header,
            total: message.payload.len() as u64,
        };
        let body = match target.place(from, &request) {
            PlaceDecision::Direct(placement) => {
                assert!(!placement.write(0, &message.payload), "it goes nowhere");
                Body::Placed
            }
            _ => Body::Bytes(&message.payload),
        };
        assert_eq!(matches!(body, Body::Placed), request.total > 0);
        target.on_request(from, &request, body);
        true
    });
    target.transmit(|_, message| {
        let reply = Description {
            tag: message.tag,
            kind: message.kind,
            user_header: &message.user_header,
            total: 0,
        };
        initiator.on_reply(id(1), &reply, Body::Bytes(&[]));
        true
    });
    let completion = initiator.poll_completion().expect("the flush");
    assert_eq!(completion.operation, flush);
    let error = completion.result.expect_err("the key is wrong");
    let Cause::Remote(error) = error.cause else {
        panic!("{error:?}");
    };
    assert_eq!(error.kind, RemoteErrorKind::WrongKey);
    assert_eq!(memory.bytes(), vec![0; 1_000]);
}

/// Messages of a session may be placed before the target hears of the end of the one before.
#[test]
fn the_end_of_a_session_does_not_touch_the_next_one() {
    let regions = Regions::new();
    let memory = Locked::new(vec![0; 1_000]);
    regions.register(memory, Rights::WRITE, KEY).expect("room");
    let mut target = Target::new(regions);
    let mut initiator = Initiator::new();
    for _ in 0..3 {
        let data = Bytes::from(vec![1; 1_000]);
        let put = initiator.put(&region(), contiguous(0, 1_000), data, None);
        put.expect("room");
    }
    let first = source(id(0));
    let second = Source {
        session: first.session.next(),
        ..first
    };
    let mut decisions = Vec::new();
    initiator.transmit(|_, message| {
        let request = Description {
            tag: message.tag,
            kind: message.kind,
            user_header: &message.user_header,
            total: 1_000,
        };
        let session = if decisions.is_empty() { first } else { second };
        decisions.push(target.place(session, &request));
        if decisions.len() == 2 {
            target.ended(first);
        }
        true
    });
    let direct = |decision: &PlaceDecision| matches!(decision, PlaceDecision::Direct(_));
    let direct: Vec<_> = decisions.iter().map(direct).collect();
    assert_eq!(direct, [true, true, false], "the third overlaps the second");
}
