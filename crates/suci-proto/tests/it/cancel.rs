//! Messages that are cancelled, or expire, before any part of them was sent.

use crate::net::{Net, id, message, pair};
use bytes::Bytes;
use suci_proto::time::Duration;
use suci_proto::types::{ChannelId, NodeId};
use suci_proto::{
    CANCELLED, CallId, Config, EXPIRED, EndReason, Event, Outgoing, SendError, UNNUMBERED,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const C0: ChannelId = ChannelId(0);

fn named(token: u64, len: usize) -> Outgoing {
    Outgoing {
        token,
        notify: true,
        payload: Bytes::from(vec![token as u8; len]),
        ..message(b"")
    }
}

fn until(deadline: Duration, token: u64, len: usize) -> Outgoing {
    Outgoing {
        deadline: Some(deadline),
        ..named(token, len)
    }
}

/// The first bytes of the messages that `host` received.
fn received(net: &mut Net, host: usize) -> Vec<u8> {
    let received = net.received(host).into_iter();
    received.map(|(_, message)| message.payload[0]).collect()
}

/// Tokens and reasons of the messages that `host` was told were not delivered.
fn undelivered(net: &mut Net, host: usize) -> Vec<(u64, u64)> {
    let events = net.events(host).into_iter();
    let told = events.filter_map(|event| match event {
        Event::NotDelivered {
            token,
            reason,
            number,
            ..
        } => {
            assert_ne!(number, UNNUMBERED);
            Some((token, reason))
        }
        _ => None,
    });
    told.collect()
}

fn cancel(net: &mut Net, token: u64) -> u64 {
    let cancelled = net.engine(0).cancel(id(1), C0, token).unwrap();
    net.flush(0);
    cancelled
}

#[test]
fn messages_of_a_suspended_session_can_be_cancelled_and_expire() {
    for len in [1, 700, 10_000] {
        let mut net = pair();
        for token in 1..=5 {
            let deadline = if token == 4 { SECOND } else { 60 * SECOND };
            net.queue(0, id(1), until(deadline, token, len));
        }
        net.engine(0).suspend(id(1)).unwrap();
        net.flush(0);
        assert_eq!(cancel(&mut net, 2), 1);
        assert_eq!(undelivered(&mut net, 0), [(2, CANCELLED)]);
        net.run(SECOND - MS);
        assert_eq!(undelivered(&mut net, 0), []);
        net.run(2 * MS);
        assert_eq!(undelivered(&mut net, 0), [(4, EXPIRED)]);
        assert_eq!(net.engine(0).queue_len(id(1)), (3, 3 * len as u64));
        net.engine(0).resume(id(1)).unwrap();
        net.flush(0);
        net.run(SECOND);
        assert_eq!(received(&mut net, 1), [1, 3, 5], "{len} bytes");
        assert_eq!(net.engine(0).delivered(id(1), C0), 6);
        assert_eq!(net.engine(0).queue_len(id(1)), (0, 0));
        assert_eq!(cancel(&mut net, 1), 0, "too late");
    }
}

/// The queue gets their room back, and the program that waits for it is told.
#[test]
fn messages_to_an_absent_peer_expire_and_free_their_room() {
    let mut net = Net::new(2, |_| Config {
        send_queue: 1 << 16,
        ..Config::default()
    });
    net.meddle = Some(Box::new(|_, _| None));
    let mut taken = 0;
    for round in 0..200 {
        let blocked = loop {
            let now = net.now;
            match net.engine(0).send(now, id(1), until(SECOND, 7, 5_000)) {
                Ok(number) => assert_eq!(number, taken),
                Err(SendError::WouldBlock(message)) => break message,
                Err(error) => panic!("{error}"),
            }
            taken += 1;
        };
        assert_eq!(taken, 12 * (round + 1));
        assert_eq!(blocked.deadline, Some(SECOND), "it comes back as it was");
        net.engine(0).want_room(id(1), &blocked).unwrap();
        net.flush(0);
        net.run(SECOND + MS);
        let events = net.events(0);
        let room = |event: &&Event| matches!(event, Event::Writable { .. });
        assert_eq!(events.iter().filter(room).count(), 1);
        assert_eq!(net.engine(0).queue_len(id(1)), (0, 0));
    }
    assert_eq!(net.engine(0).untold_failures(id(1)), 0, "it wanted it so");
    net.meddle = None;
    net.queue(0, id(1), named(9, 10));
    net.run(10 * SECOND);
    let received = net.received(1);
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].1.number, taken, "numbers are not given twice");
}

/// That holds even if no timer ran: the driver was held up, and sends before it runs its timers.
#[test]
fn nothing_is_sent_after_its_deadline() {
    let mut net = pair();
    net.queue(0, id(1), until(5 * MS, 1, 10));
    net.queue(0, id(1), named(2, 10));
    net.now += 6 * MS;
    net.flush(0);
    assert_eq!(undelivered(&mut net, 0), [(1, EXPIRED)]);
    net.run(SECOND);
    assert_eq!(received(&mut net, 1), [2]);
}

#[test]
fn a_message_that_was_sent_does_not_expire() {
    let mut net = pair();
    net.send(0, id(1), until(5 * MS, 1, 10));
    net.send(0, id(1), until(5 * MS, 2, 60_000));
    net.meddle = Some(Box::new(|_, _| None));
    net.run(3 * SECOND);
    net.meddle = None;
    net.run(3 * SECOND);
    assert_eq!(received(&mut net, 1), [1, 2]);
    assert_eq!(undelivered(&mut net, 0), []);
}

#[test]
fn the_end_of_a_session_does_not_count_cancelled_messages() {
    let mut net = pair();
    for token in 1..=3 {
        net.queue(0, id(1), named(token, 10));
    }
    net.engine(0).suspend(id(1)).unwrap();
    net.flush(0);
    assert_eq!(cancel(&mut net, 2), 1);
    let now = net.now;
    net.engine(0).close_peer(now, id(1), SECOND).unwrap();
    net.flush(0);
    net.run(2 * SECOND);
    let ends = |net: &mut Net, host| {
        let events = net.events(host).into_iter();
        let ends = events.filter_map(|event| match event {
            Event::Ended {
                reason, outcomes, ..
            } => Some((reason, outcomes.len())),
            _ => None,
        });
        ends.collect::<Vec<_>>()
    };
    assert_eq!(ends(&mut net, 0), [(EndReason::ClosedHere, 2)]);
    let missing = 2;
    assert_eq!(ends(&mut net, 1), [(EndReason::CutShort { missing }, 0)]);
}

/// The peer has the whole message sequence, as far as its program can tell.
#[test]
fn a_close_waits_until_the_peer_knows_what_was_cancelled() {
    let mut net = pair();
    (1..=3).for_each(|token| net.queue(0, id(1), named(token, 10)));
    assert_eq!(net.engine(0).cancel(id(1), C0, 3).unwrap(), 1);
    let now = net.now;
    net.engine(0).close_peer(now, id(1), SECOND).unwrap();
    net.flush(0);
    net.run(2 * SECOND);
    assert_eq!(received(&mut net, 1), [1, 2]);
    let closed = |event: &Event| matches!(event, Event::Ended { reason, .. } if *reason == EndReason::Closed);
    assert!(net.events(1).iter().any(closed));
}

/// No call would wait for the reply.
#[test]
fn the_request_of_a_call_that_is_over_is_not_sent() {
    let mut net = pair();
    let now = net.now;
    let request = |payload: &[u8]| message(payload);
    let engine = net.engine(0);
    engine
        .call(now, id(1), CallId(77), request(b"nobody waits"))
        .unwrap();
    engine
        .call(now, id(1), CallId(78), request(b"waits"))
        .unwrap();
    engine.cancel_call(CallId(77));
    assert_eq!(engine.queue_len(id(1)).0, 1);
    net.flush(0);
    net.run(SECOND);
    assert_eq!(received(&mut net, 1), [b'w']);
    // Too late.
    net.engine(0).cancel_call(CallId(78));
    assert_eq!(net.engine(0).open_calls(), 0);
}

#[test]
fn cancelling_reports_unknown_peers_and_activates_no_peer() {
    let mut net = pair();
    let engine = net.engine(0);
    let strange = NodeId(9_999);
    assert_eq!(
        engine.cancel(strange, C0, 0),
        Err(SendError::UnknownPeer(strange))
    );
    assert_eq!(engine.cancel(id(0), C0, 0), Ok(0), "itself");
    assert_eq!(engine.cancel(id(1), C0, 0), Ok(0));
    // The peers become idle.
    net.run(60 * SECOND);
    assert_eq!(net.engine(0).cancel(id(1), C0, 0), Ok(0));
    net.queue(0, id(1), named(1, 10));
    net.queue(0, id(1), named(2, 10));
    assert_eq!(cancel(&mut net, 1), 1);
    net.run(60 * SECOND);
    assert_eq!(received(&mut net, 1), [2]);
    net.send(0, id(1), named(3, 10));
    net.run(SECOND);
    assert_eq!(received(&mut net, 1), [3], "from rest again");
    assert_eq!(net.engine(0).delivered(id(1), C0), 4);
}
