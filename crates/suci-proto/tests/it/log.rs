//! Records of the engine for its driver's log.

use crate::net::{Net, address, id, message};
use std::net::SocketAddr;
use suci_proto::time::Duration;
use suci_proto::types::NodeId;
use suci_proto::wire::{Header, PacketType, put_header, seal};
use suci_proto::{Config, DropReason, EndReason, LogRecord, RefusedReason};

const MS: Duration = Duration::from_millis(1);

/// Two nodes that make records.
fn net() -> Net {
    let mut net = Net::new(2, |_| Config::default());
    for host in 0..2 {
        net.engine(host).set_logging(true);
    }
    net
}

fn told(net: &mut Net, host: usize) -> Vec<LogRecord> {
    std::iter::from_fn(|| net.engine(host).poll_log()).collect()
}

/// Returns why `host` dropped packets of type `packet`.
fn drops(net: &mut Net, host: usize, packet: PacketType) -> Vec<DropReason> {
    let dropped = |record| match record {
        LogRecord::Dropped {
            packet: Some(kind),
            reason,
            ..
        } if kind == packet => Some(reason),
        _ => None,
    };
    told(net, host).into_iter().filter_map(dropped).collect()
}

fn kind(bytes: &[u8]) -> Option<PacketType> {
    PacketType::from_wire(bytes[0] & 15)
}

/// Passes the first packet of type `packet` through `change`.
fn meddle_once(
    net: &mut Net,
    packet: PacketType,
    mut change: impl FnMut(Vec<u8>) -> Option<Vec<u8>> + 'static,
) {
    let mut done = false;
    net.meddle = Some(Box::new(move |_, bytes| {
        let wanted = !done && kind(&bytes) == Some(packet);
        done |= wanted;
        if wanted { change(bytes) } else { Some(bytes) }
    }));
}

/// A packet of `kind` from node `from` that no engine made.
fn forged(kind: PacketType, from: NodeId) -> Vec<u8> {
    let header = Header {
        kind,
        scope: Default::default(),
        index: from.0,
        number: 0,
        tag: 77,
    };
    let mut bytes = Vec::new();
    put_header(&mut bytes, &header);
    bytes.resize(64, 0);
    seal(&mut bytes);
    bytes
}

#[test]
fn an_engine_whose_driver_did_not_ask_makes_no_records() {
    let mut net = Net::new(2, |_| Config::default());
    net.send(0, id(1), message(b"a"));
    net.run(MS * 10);
    assert_eq!((told(&mut net, 0), told(&mut net, 1)), (vec![], vec![]));
}

#[test]
fn messages_make_no_records() {
    let mut net = net();
    net.send(0, id(1), message(b"a"));
    net.run(MS * 100);
    let (first, second) = (told(&mut net, 0), told(&mut net, 1));
    let up = |records: &[LogRecord]| {
        let up = records.iter().filter(|r| matches!(r, LogRecord::Up { .. }));
        up.count()
    };
    assert_eq!((up(&first), up(&second)), (1, 1), "{first:?} {second:?}");
    for _ in 0..1_000 {
        net.send(0, id(1), message(&[0; 1_000]));
        net.run(MS);
    }
    assert_eq!((told(&mut net, 0), told(&mut net, 1)), (vec![], vec![]));
}

#[test]
fn a_lost_answer_shows_as_init_and_accept_sent_twice() {
    let mut net = net();
    meddle_once(&mut net, PacketType::Accept, |_| None);
    net.send(0, id(1), message(b"a"));
    net.run(MS * 500);
    let sent = |net: &mut Net, host, wanted| {
        let tries = |record| match record {
            LogRecord::Sent { packet, tries, .. } if packet == wanted => Some(tries),
            _ => None,
        };
        told(net, host)
            .into_iter()
            .filter_map(tries)
            .collect::<Vec<_>>()
    };
    assert_eq!(sent(&mut net, 0, PacketType::Init), [1, 2]);
    assert_eq!(sent(&mut net, 1, PacketType::Accept), [1, 2]);
}

#[test]
fn data_before_accept_is_told() {
    let mut net = net();
    meddle_once(&mut net, PacketType::Accept, |_| None);
    net.send(0, id(1), message(b"a"));
    net.run(MS);
    net.send(1, id(0), message(b"b"));
    net.run(MS);
    assert_eq!(
        drops(&mut net, 0, PacketType::Data),
        [DropReason::BeforeAccept]
    );
}

#[test]
fn an_init_with_a_cookie_that_was_not_made_here_is_told() {
    let mut net = net();
    // The initiator gets a changed cookie, and returns it.
    meddle_once(&mut net, PacketType::Cookie, |mut bytes| {
        // The epoch follows the cookie.
        let last = bytes.len() - size_of::<u64>() - 1;
        bytes[last] ^= 1;
        seal(&mut bytes);
        Some(bytes)
    });
    net.send(0, id(1), message(b"a"));
    net.run(MS * 10);
    let reasons = drops(&mut net, 1, PacketType::Init);
    assert_eq!(reasons, [DropReason::BadCookie]);
}

#[test]
fn an_init_to_the_process_before_is_told() {
    let mut net = net();
    net.send(0, id(1), message(b"a"));
    // HELLO and COOKIE take 50 us each: INIT is under way.
    net.run(Duration::from_micros(120));
    net.restart(1);
    net.engine(1).set_logging(true);
    net.run(MS);
    let reasons = drops(&mut net, 1, PacketType::Init);
    assert_eq!(reasons, [DropReason::OtherIncarnation]);
}

#[test]
fn an_accept_from_another_address_is_told() {
    let mut net = net();
    let caught = std::rc::Rc::new(std::cell::RefCell::new(None));
    let kept = caught.clone();
    meddle_once(&mut net, PacketType::Accept, move |bytes| {
        *kept.borrow_mut() = Some(bytes);
        None
    });
    net.send(0, id(1), message(b"a"));
    net.run(MS);
    let accept = caught.borrow_mut().take().unwrap();
    let elsewhere = SocketAddr::from(([10, 0, 0, 77], 7_000));
    net.inject(0, (elsewhere, accept));
    let reasons = drops(&mut net, 0, PacketType::Accept);
    assert_eq!(reasons, [DropReason::OtherAddress]);
}

#[test]
fn crossing_inits_are_told() {
    let mut net = net();
    net.send(0, id(1), message(b"a"));
    net.send(1, id(0), message(b"b"));
    net.run(MS * 10);
    let crossed = [DropReason::Crossing];
    assert_eq!(drops(&mut net, 0, PacketType::Init), crossed, "1 < 2");
    assert_eq!(drops(&mut net, 1, PacketType::Init), []);
}

#[test]
fn packets_without_a_connection_are_logged() {
    use PacketType::{Accept, Cookie, Data, Hello, Init, Refused, Unknown};
    let mut net = net();
    for (packet, reason) in [
        (Data, DropReason::UnknownConnection),
        (Hello, DropReason::Malformed),
        (Init, DropReason::Malformed),
        (Cookie, DropReason::Unsolicited),
        (Accept, DropReason::Unsolicited),
        (Refused, DropReason::Unsolicited),
        (Unknown, DropReason::Unsolicited),
    ] {
        net.inject(0, (address(1), forged(packet, id(1))));
        assert_eq!(drops(&mut net, 0, packet), [reason], "{packet}");
    }
}

#[test]
fn a_closing_node_logs_why_it_does_not_answer() {
    let mut net = net();
    let now = net.now;
    net.engine(1).close(now, MS * 100);
    net.send(0, id(1), message(b"a"));
    net.run(MS);
    let reasons = drops(&mut net, 1, PacketType::Hello);
    assert_eq!(reasons, [DropReason::Closing]);
}

#[test]
fn an_end_is_reported_with_its_reason_and_undelivered_messages() {
    let mut net = net();
    net.send(0, id(1), message(b"a"));
    net.run(MS * 100);
    told(&mut net, 0);
    net.meddle = Some(Box::new(|_, _| None));
    net.send(0, id(1), message(b"b"));
    let now = net.now;
    net.engine(0).reset(now, id(1)).unwrap();
    let ended = |record: &LogRecord| {
        matches!(record, LogRecord::Ended { peer, reason, undelivered: 1, .. }
            if *peer == id(1) && *reason == EndReason::Reset)
    };
    let records = told(&mut net, 0);
    assert!(records.iter().any(ended), "{records:?}");
}

/// A refusal is an event only once; the log has each.
#[test]
fn each_refusal_is_told() {
    let mut net = net();
    let now = net.now;
    net.engine(0).add_peer(now, NodeId(99), address(1)).unwrap();
    net.send(0, NodeId(99), message(b"a"));
    net.run(MS * 2_500);
    let refused = LogRecord::Refused {
        peer: NodeId(99),
        reason: RefusedReason::WrongNode,
    };
    let records = told(&mut net, 0);
    let count = records.iter().filter(|r| **r == refused).count();
    assert_eq!(count, 3, "{records:?}");
    let refuses = LogRecord::Refuses {
        peer: id(0),
        to: address(0),
        reason: RefusedReason::WrongNode,
    };
    let records = told(&mut net, 1);
    assert_eq!(records.iter().filter(|r| **r == refuses).count(), 3);
}
