//! One descriptor for the program's own epoll.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, builder, pair, take};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};
use suci::{Event, Message, Node, OutgoingMessage};

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

/// An epoll that tells of each time a descriptor becomes readable, as tokio's does, and not of its
/// being so.
struct Edges(OwnedFd);

impl Edges {
    fn of(node: &impl AsRawFd) -> Self {
        // SAFETY: a call without pointers.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(epoll >= 0);
        // SAFETY: the descriptor is new and has no other owner.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        let mut wanted = libc::epoll_event {
            events: (libc::EPOLLIN | libc::EPOLLET).cast_unsigned(),
            u64: 0,
        };
        let (op, fd) = (libc::EPOLL_CTL_ADD, node.as_raw_fd());
        // SAFETY: `wanted` outlives the call.
        let added = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), op, fd, &raw mut wanted) };
        assert_eq!(added, 0);
        Self(epoll)
    }

    /// Waits for the next one. False if none comes.
    fn next(&self) -> bool {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        let limit = libc::c_int::try_from(LONG.as_millis()).unwrap();
        // SAFETY: `event` is one entry and outlives the call.
        unsafe { libc::epoll_wait(self.0.as_raw_fd(), &raw mut event, 1, limit) == 1 }
    }
}

/// All messages and events that are there.
fn all_of(node: &mut Node) -> Vec<Message> {
    let next = || node.recv_timeout(Duration::ZERO).unwrap();
    let messages = std::iter::from_fn(next).collect();
    node.events().unwrap();
    messages
}

#[test]
fn a_message_to_itself_makes_the_descriptor_readable() {
    let mut node = builder(3).open().unwrap();
    let own = node.id();
    let edges = Edges::of(&node);
    assert!(!readable(&node, Duration::ZERO));
    for round in 0..50_u8 {
        node.send(own, vec![round; 200_000]).unwrap();
        let mut got = Vec::new();
        while got.is_empty() {
            assert!(edges.next(), "round {round}");
            got = all_of(&mut node);
        }
        assert_eq!(got[0].payload, [round; 200_000]);
    }
    assert!(!readable(&node, Duration::from_millis(5)));
}

/// Nothing is left in the socket, where it would wait for more to arrive.
#[test]
fn a_program_that_waits_for_edges_misses_nothing() {
    const ROUNDS: usize = 300;
    let (mut a, mut b) = pair();
    let (to, back) = (b.id(), a.id());
    for burst in [1, 40] {
        let echo = std::thread::spawn(move || {
            let edges = Edges::of(&b);
            let mut got = 0;
            while got < ROUNDS * burst {
                assert!(edges.next(), "{got} messages came");
                for message in all_of(&mut b) {
                    got += 1;
                    b.send(back, message.payload).unwrap();
                }
            }
            b.flush(LONG).unwrap();
            b
        });
        let edges = Edges::of(&a);
        let begun = Instant::now();
        for round in 0..ROUNDS {
            for _ in 0..burst {
                a.send(to, "question").unwrap();
            }
            let mut got = 0;
            while got < burst {
                assert!(edges.next(), "round {round}");
                got += all_of(&mut a).len();
            }
        }
        // The helper, which serves a program that misses an edge, comes too late for that; so does
        // a probe.
        assert!(begun.elapsed() < LONG);
        a.poll(Duration::ZERO).unwrap();
        b = echo.join().unwrap();
    }
}

/// The descriptor is signalled for arrivals after a call that found nothing, even if that call came
/// before the signalling thread was done.
#[test]
fn a_program_of_several_threads_that_waits_for_edges_misses_nothing() {
    let [a, b] = [0, 1].map(|id| builder(id).open_threads(1).unwrap());
    a.add_peer(b.id(), b.local_addr()).unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
    let other = b.clone();
    let echo = std::thread::spawn(move || {
        while let Ok(message) = other.recv() {
            other.send(message.from, message.payload).unwrap();
        }
    });
    let edges = Edges::of(&a);
    for round in 0..1_000 {
        a.send(b.id(), "question").unwrap();
        let mut answered = false;
        while !answered {
            assert!(edges.next(), "round {round}");
            while a.try_recv().unwrap().is_some() {
                answered = true;
            }
            while a.next_event().unwrap().is_some() {}
        }
    }
    b.close(LONG).unwrap();
    echo.join().unwrap();
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
    // The helper may take the first arrivals; the descriptor tells all the same.
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
        // Longer than the helper waits before it serves a node that is not called.
        if round % 25 == 24 {
            std::thread::sleep(Duration::from_millis(250));
        }
        a.send(
            suci::NodeId(1),
            OutgoingMessage::new(round.to_le_bytes().to_vec()),
        )
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
    a.peer(suci::NodeId(1)).reset().unwrap();
    let ended = crate::common::await_event(&mut a, |e| matches!(e, Event::Ended { .. }));
    assert!(matches!(ended, Event::Ended { .. }));
}
