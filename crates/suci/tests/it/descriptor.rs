//! One descriptor for the program's own epoll.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, pair, take};
use std::os::fd::AsRawFd;
use std::time::Duration;
use suci::{Draft, Event, Node};

/// Whether the descriptor is readable within `limit`.
fn readable(node: &Node, limit: Duration) -> bool {
    let mut fd = libc::pollfd {
        fd: node.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let limit = libc::c_int::try_from(limit.as_millis()).unwrap();
    // SAFETY: `fd` is one entry and outlives the call.
    unsafe { libc::poll(&raw mut fd, 1, limit) == 1 }
}

#[test]
fn it_is_readable_while_something_waits() {
    let (mut a, mut b) = pair();
    assert!(!readable(&b, Duration::ZERO));
    a.send(b.id(), "x").unwrap();
    assert!(readable(&b, LONG), "a datagram came");
    while !b.poll(Duration::ZERO).unwrap() {
        assert!(readable(&b, LONG), "the handshake goes on");
    }
    // The message left the socket but not the node.
    assert!(readable(&b, Duration::ZERO), "a message waits");
    take(&mut b);
    b.events().unwrap();
    b.poll(Duration::ZERO).unwrap();
}

#[test]
fn a_program_that_only_waits_on_it_misses_nothing() {
    let (mut a, mut b) = pair();
    let to = a.id();
    // Its helper may take what arrives first; the descriptor tells all the same.
    let waiter = std::thread::spawn(move || {
        let mut got = 0;
        while got < 50 {
            assert!(readable(&b, LONG), "{got} messages came");
            b.poll(Duration::ZERO).unwrap();
            b.events().unwrap();
            while let Some(message) = b.try_recv().unwrap() {
                got += 1;
                b.send(to, message.payload).unwrap();
            }
        }
        b.flush(LONG).unwrap();
        b
    });
    for round in 0..50_u64 {
        // Longer than the helper waits before it serves a node that nobody calls.
        if round % 25 == 24 {
            std::thread::sleep(Duration::from_millis(250));
        }
        a.send(suci::NodeId(1), Draft::new(round.to_le_bytes().to_vec()))
            .unwrap();
        assert_eq!(take(&mut a).payload[..], round.to_le_bytes());
    }
    a.poll(Duration::ZERO).unwrap();
    waiter.join().unwrap();
}

#[test]
fn timers_make_it_readable() {
    let mut a = crate::common::builder(0).open().unwrap();
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    a.add_peer(suci::NodeId(1), nobody.local_addr().unwrap())
        .unwrap();
    assert!(!readable(&a, Duration::ZERO));
    a.send(suci::NodeId(1), "x").unwrap();
    // Nothing arrives, ever: only the timer that repeats the HELLO can wake us.
    assert!(readable(&a, LONG));
    a.abandon(suci::NodeId(1)).unwrap();
    let ended = crate::common::await_event(&mut a, |e| matches!(e, Event::Ended { .. }));
    assert!(matches!(ended, Event::Ended { .. }));
}
