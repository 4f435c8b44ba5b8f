//! Messages that are cancelled, or expire, before any part of them was sent.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, await_event, builder, introduce, pair, set_option, shared_pair, take};
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use suci::{
    CANCELLED, ChannelId, EXPIRED, Error, Event, Mode, NodeId, OutgoingMessage, SharedNode,
};

const C3: ChannelId = ChannelId(3);

fn draft(token: u64, len: usize) -> OutgoingMessage {
    let payload = vec![token as u8; len];
    OutgoingMessage::new(payload).channel(C3).notify(token)
}

/// Token and reason, if the event says that a message is not delivered.
fn undelivered(event: &Event) -> Option<(u64, u64)> {
    match *event {
        Event::NotDelivered {
            channel,
            token,
            reason,
            ..
        } => {
            assert_eq!(channel, C3);
            Some((token, reason))
        }
        _ => None,
    }
}

/// A port that does not answer, until it is dropped.
fn nobody() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").unwrap()
}

#[test]
fn a_node_cancels_what_it_did_not_send() {
    for len in [5, 1_000, 100_000] {
        let (mut a, mut b) = pair();
        let to = b.id();
        a.batch(|batch| {
            for token in 1..=4 {
                batch.send(to, draft(token, len)).unwrap();
            }
        })
        .unwrap();
        // There is no connection yet.
        assert_eq!(a.peer(to).cancel(C3, 2).unwrap(), 1);
        assert_eq!(a.peer(to).cancel(C3, 9).unwrap(), 0);
        assert_eq!(a.peer(to).cancel(ChannelId(0), 3).unwrap(), 0);
        let event = await_event(&mut a, |event| undelivered(event).is_some());
        assert_eq!(undelivered(&event), Some((2, CANCELLED)));
        let receiver = std::thread::spawn(move || {
            let tokens: Vec<_> = (0..3).map(|_| take(&mut b).payload[0]).collect();
            (b, tokens)
        });
        a.flush(LONG).unwrap();
        assert_eq!(a.peer(to).cancel(C3, 1).unwrap(), 0, "too late");
        assert_eq!(a.peer(to).delivered(C3).unwrap(), 4);
        let (_b, tokens) = receiver.join().unwrap();
        assert_eq!(tokens, [1, 3, 4], "{len} bytes");
    }
}

/// Messages expire although the program does not poll: the helper looks at the clock.
#[test]
fn messages_of_a_node_expire() {
    let nobody = nobody();
    let mut a = builder(0).send_queue(1 << 16).open().unwrap();
    a.add_peer(NodeId(1), nobody.local_addr().unwrap()).unwrap();
    let within = Duration::from_millis(200);
    let begin = Instant::now();
    let message = || draft(5, 50_000).deadline(within);
    a.send(NodeId(1), message()).unwrap();
    a.send(NodeId(1), draft(6, 100)).unwrap();
    let Err(Error::WouldBlock { message, .. }) = a.send(NodeId(1), message()) else {
        panic!("the queue is full");
    };
    // Waits for the room of the one that expires, and expires itself.
    a.send_timeout(NodeId(1), *message, LONG).unwrap();
    assert!(begin.elapsed() >= within && begin.elapsed() < LONG);
    for _ in 0..2 {
        let event = await_event(&mut a, |event| undelivered(event).is_some());
        assert_eq!(undelivered(&event), Some((5, EXPIRED)));
    }
    assert!(begin.elapsed() >= 2 * within);
    assert_eq!(a.peer(NodeId(1)).queue_len().unwrap(), (1, 100));
    assert_eq!(a.peer(NodeId(1)).cancel(C3, 6).unwrap(), 1);
    a.flush(Duration::ZERO).unwrap();
    a.peer(NodeId(1)).reset().unwrap();
}

#[test]
fn a_shared_node_cancels_what_it_did_not_send() {
    let nobody = nobody();
    let a = builder(0).send_queue(1 << 16).open_threads(1).unwrap();
    let to = NodeId(1);
    a.add_peer(to, nobody.local_addr().unwrap()).unwrap();
    for token in 1..=6 {
        a.send(to, draft(token % 2, 10_000)).unwrap();
    }
    let full = a.send(to, draft(7, 10_000)).unwrap_err();
    assert!(full.is_would_block(), "{full}");
    assert_eq!(a.peer(to).cancel(C3, 1).unwrap(), 3);
    assert_eq!(a.peer(to).cancel(C3, 1).unwrap(), 0);
    assert_eq!(a.peer(to).queue_len().unwrap(), (3, 30_000));
    // The room is there at once, and told.
    a.send(to, draft(7, 10_000)).unwrap();
    let (mut cancelled, mut room) = (0, 0);
    while cancelled < 3 || room < 1 {
        match a.event_timeout(LONG).unwrap().expect("an event") {
            Event::Writable { .. } => room += 1,
            event => {
                assert_eq!(undelivered(&event), Some((1, CANCELLED)));
                cancelled += 1;
            }
        }
    }
    assert!(matches!(
        a.peer(NodeId(9)).cancel(C3, 0),
        Err(Error::UnknownPeer(_))
    ));
    assert_eq!(
        a.peer(to).cancel(C3, 0).unwrap() + a.peer(to).cancel(C3, 7).unwrap(),
        4
    );
    a.flush(LONG).unwrap();
    a.peer(to).reset().unwrap();
}

#[test]
fn messages_of_a_shared_node_expire_and_its_senders_go_on() {
    let nobody = nobody();
    let a = builder(0).send_queue(1 << 16).open_threads(1).unwrap();
    let to = NodeId(1);
    a.add_peer(to, nobody.local_addr().unwrap()).unwrap();
    let within = Duration::from_millis(100);
    let begin = Instant::now();
    // Each fills the queue, and waits until the one before expired.
    for token in 0..3 {
        let message = draft(token, 60_000).deadline(within);
        a.send_timeout(to, message, LONG).unwrap();
    }
    assert!(begin.elapsed() >= 2 * within);
    let waits = a.send_async(to, draft(3, 60_000).deadline(within));
    block_on(waits).unwrap();
    for token in 0..4 {
        let event = a.event_timeout(LONG).unwrap().expect("an event");
        assert_eq!(undelivered(&event), Some((token, EXPIRED)));
    }
    a.flush(LONG).unwrap();
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut cx = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut cx) {
            std::task::Poll::Ready(value) => return value,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

/// All the time messages are on their way, cancelled or not.
#[test]
fn the_receiver_gets_what_was_not_cancelled() {
    let (a, b) = shared_pair();
    set_option(a.peer(b.id()), |o| o.mode = Mode::Throughput).unwrap();
    let to = b.id();
    let receiver = std::thread::spawn(move || (received(&b), b));
    let (mut cancelled, mut last) = (Vec::new(), 0);
    for token in 1..3_000_u64 {
        let len = [4, 300, 3_000, 70_000][token as usize % 4];
        let mut payload = vec![0; len];
        payload[..4].copy_from_slice(&(token as u32).to_le_bytes());
        let message = OutgoingMessage::new(payload).channel(C3).token(token);
        a.send_timeout(to, message, LONG).unwrap();
        if token % 50 == 0 {
            for token in (last + 1..token).step_by(2) {
                cancelled
                    .extend((a.peer(to).cancel(C3, token).unwrap() == 1).then_some(token as u32));
            }
            last = token;
        }
    }
    a.send(to, OutgoingMessage::new("end").channel(C3)).unwrap();
    a.flush(LONG).unwrap();
    let (got, _b) = receiver.join().unwrap();
    let expected = (1..3_000).filter(|token| !cancelled.contains(token));
    assert_eq!(got, expected.collect::<Vec<_>>());
    assert_eq!(a.peer(to).delivered(C3).unwrap(), 3_000);
}

/// The tokens of the messages that come, until the end.
fn received(node: &SharedNode) -> Vec<u32> {
    let mut tokens = Vec::new();
    loop {
        let message = node.recv_timeout(LONG).unwrap().unwrap();
        match message.payload.first_chunk() {
            Some(token) => tokens.push(u32::from_le_bytes(*token)),
            None => return tokens,
        }
    }
}

#[test]
fn a_call_has_its_limit_and_no_deadline() {
    let (mut a, mut b) = (builder(0).open().unwrap(), builder(1).open().unwrap());
    introduce(&mut a, &mut b);
    let request = || OutgoingMessage::new("why").deadline(Duration::from_secs(1));
    let refused = a.call(b.id(), request(), LONG).unwrap_err().to_string();
    assert!(refused.contains("the deadline"), "{refused}");
    let nobody = nobody();
    a.add_peer(NodeId(2), nobody.local_addr().unwrap()).unwrap();
    let late = a.call(NodeId(2), "why", Duration::from_millis(50));
    assert!(matches!(late, Err(Error::TimedOut { .. })), "{late:?}");
    assert_eq!(
        a.peer(NodeId(2)).queue_len().unwrap().0,
        0,
        "the request is cancelled"
    );
    a.peer(NodeId(2)).reset().unwrap();
}
