//! Ending the wait of a call from another thread.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, builder, pair, shared_pair, take};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use suci::{Error, Node, NodeId, SharedNode, Waker};

/// Long enough that the other thread waits by then.
const SOON: Duration = Duration::from_millis(50);

/// Calls that wait, without their results.
type NodeCall = fn(&mut Node) -> Result<(), Error>;
type SharedCall = fn(&SharedNode) -> Result<(), Error>;

fn woken<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(matches!(result, Err(Error::Woken)), "{result:?}");
}

/// Wakes a node while the caller waits in it.
fn soon(waker: &Waker) -> std::thread::JoinHandle<()> {
    let waker = waker.clone();
    std::thread::spawn(move || {
        std::thread::sleep(SOON);
        waker.wake();
    })
}

fn is_readable(node: &impl AsRawFd, limit: Duration) -> bool {
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
fn a_wake_ends_each_kind_of_wait_of_a_node() {
    let (mut a, b) = pair();
    let waker = a.waker().unwrap();
    let calls: [NodeCall; 9] = [
        |node| node.recv().map(drop),
        |node| node.recv_timeout(LONG).map(drop),
        |node| node.recv_many(&mut Vec::new(), 9, LONG).map(drop),
        |node| node.recv_into(&mut [0; 9], LONG).map(drop),
        |node| node.recv_from(NodeId(1)).map(drop),
        |node| node.next().map(drop),
        |node| node.event_timeout(LONG).map(drop),
        |node| node.poll(LONG).map(drop),
        |node| node.call(NodeId(1), "no reply", LONG).map(drop),
    ];
    for (index, call) in calls.into_iter().enumerate() {
        let begin = Instant::now();
        let thread = soon(&waker);
        if index == 6 || index == 7 {
            // The first contact would end these.
            a.events().unwrap();
        }
        let mut result = call(&mut a);
        while !matches!(result, Err(Error::Woken)) && begin.elapsed() < LONG {
            a.events().unwrap();
            result = call(&mut a);
        }
        woken(result);
        assert!(begin.elapsed() < LONG / 2, "call {index}");
        thread.join().unwrap();
    }
    drop(b);
}

#[test]
fn a_wake_waits_for_the_next_wait_and_several_are_one() {
    let (mut a, mut b) = pair();
    let waker = b.waker().unwrap();
    waker.wake();
    waker.wake();
    woken(b.recv_timeout(Duration::ZERO));
    assert!(b.recv_timeout(Duration::ZERO).unwrap().is_none());
    waker.wake();
    a.send(b.id(), "first").unwrap();
    // Calls that do not wait leave the wake.
    assert!(b.id() == NodeId(1) && b.peers().unwrap().len() == 1);
    let got = loop {
        match b.recv_timeout(LONG) {
            Ok(Some(message)) => break message,
            Err(Error::Woken) => {}
            other => panic!("{other:?}"),
        }
        a.poll(Duration::ZERO).unwrap();
    };
    assert_eq!(&*got.payload, b"first");
    assert!(!waker.take());
    waker.wake();
    assert!(waker.take() && !waker.take());
    assert!(b.recv_timeout(Duration::ZERO).unwrap().is_none());
}

#[test]
fn a_woken_send_gives_its_message_back() {
    let mut a = builder(0).send_queue(1 << 16).open().unwrap();
    a.add_peer(NodeId(1), "127.0.0.1:9".parse().unwrap())
        .unwrap();
    let waker = a.waker().unwrap();
    a.send(NodeId(1), vec![1; 1 << 16]).unwrap();
    let thread = soon(&waker);
    let begin = Instant::now();
    let Err(Error::WouldBlock { message, .. }) = a.send_timeout(NodeId(1), vec![2; 100], LONG)
    else {
        panic!("there was room");
    };
    assert!(begin.elapsed() < LONG / 2);
    assert_eq!(message.into_payload(), vec![2; 100]);
    thread.join().unwrap();
    assert!(!waker.take(), "the call took it");
    let thread = soon(&waker);
    woken(a.flush(LONG));
    thread.join().unwrap();
    // Closing is not woken, and does not spin until its time is over.
    waker.wake();
    let before = a.socket_counters().unwrap().wait_calls;
    a.close(Duration::from_millis(200)).unwrap_err();
    let waits = a.socket_counters().unwrap().wait_calls - before;
    assert!(waits < 1_000, "{waits} waits");
}

#[test]
fn the_descriptor_tells_of_a_wake() {
    let (mut a, _b) = pair();
    let waker = a.waker().unwrap();
    while a.recv_timeout(Duration::ZERO).unwrap().is_some() {}
    assert!(!is_readable(&a, Duration::ZERO));
    waker.wake();
    assert!(is_readable(&a, Duration::ZERO));
    woken(a.recv_timeout(Duration::ZERO));
    assert!(!is_readable(&a, Duration::ZERO));
    waker.wake();
    assert!(waker.take());
    assert!(!is_readable(&a, Duration::ZERO));

    let (c, _d) = shared_pair();
    let waker = c.waker().unwrap();
    assert!(c.try_next().unwrap().is_none());
    assert!(!is_readable(&c, Duration::ZERO));
    waker.wake();
    assert!(is_readable(&c, LONG));
    assert!(c.try_next().unwrap().is_none());
    assert!(is_readable(&c, LONG), "no call took the wake");
    woken(c.next_timeout(Duration::ZERO));
    assert!(c.try_next().unwrap().is_none());
    assert!(!is_readable(&c, SOON));
}

#[test]
fn a_wake_ends_each_kind_of_wait_of_a_shared_node() {
    let (a, _b) = shared_pair();
    let waker = a.waker().unwrap();
    let calls: [SharedCall; 7] = [
        |node| node.recv().map(drop),
        |node| node.recv_timeout(LONG).map(drop),
        |node| node.recv_many(&mut Vec::new(), 9, LONG).map(drop),
        |node| node.recv_from(NodeId(1)).map(drop),
        |node| node.next().map(drop),
        |node| node.event_timeout(LONG).map(drop),
        |node| node.call(NodeId(7), "nobody", LONG).map(drop),
    ];
    a.add_peer(NodeId(7), "127.0.0.1:9".parse().unwrap())
        .unwrap();
    for call in calls {
        let thread = soon(&waker);
        let mut result = call(&a);
        while result.is_ok() {
            // An event about the peer that is not there.
            result = call(&a);
        }
        woken(result);
        thread.join().unwrap();
    }
    a.send(NodeId(7), "is not acknowledged").unwrap();
    let thread = soon(&waker);
    woken(a.flush(LONG));
    thread.join().unwrap();
    // A call that only asks an I/O thread is not ended.
    waker.wake();
    assert_eq!(a.peers().unwrap().len(), 2);
    assert!(waker.take());
}

#[test]
fn one_wake_ends_one_of_two_waits() {
    let (a, b) = shared_pair();
    let waker = a.waker().unwrap();
    let waits: Vec<_> = (0..2)
        .map(|_| {
            let node = a.clone();
            std::thread::spawn(move || node.recv())
        })
        .collect();
    std::thread::sleep(SOON);
    waker.wake();
    let end = Instant::now() + LONG;
    while !waits.iter().any(|wait| wait.is_finished()) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(SOON);
    b.send(a.id(), "for the other").unwrap();
    let results = waits.into_iter().map(|wait| wait.join().unwrap());
    let (got, ended): (Vec<_>, Vec<_>) = results.partition(Result::is_ok);
    assert_eq!((got.len(), ended.len()), (1, 1));
}

#[tokio::test]
async fn a_task_waits_for_a_wake() {
    let (a, _b) = shared_pair();
    let waker = a.waker().unwrap();
    let thread = soon(&waker);
    a.woken_async().await;
    thread.join().unwrap();
    assert!(!waker.take(), "the task took it");
}

#[test]
fn messages_come_while_wakes_do() {
    const MESSAGES: u32 = 2_000;
    let (mut a, mut b) = pair();
    let waker = b.waker().unwrap();
    let sender = std::thread::spawn(move || {
        for number in 0..MESSAGES {
            a.send(NodeId(1), number.to_le_bytes().to_vec()).unwrap();
            waker.wake();
        }
        a.flush(LONG).unwrap();
        a
    });
    let mut got = 0;
    while got < MESSAGES {
        match b.recv() {
            Ok(message) => {
                assert_eq!(&*message.payload, got.to_le_bytes());
                got += 1;
            }
            Err(Error::Woken) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let mut a = loop {
        // The acknowledgement of the last ones.
        b.poll(Duration::from_millis(1)).ok();
        if sender.is_finished() {
            break sender.join().unwrap();
        }
    };
    b.send(a.id(), "end").unwrap();
    assert_eq!(&*take(&mut a).payload, b"end");
}
