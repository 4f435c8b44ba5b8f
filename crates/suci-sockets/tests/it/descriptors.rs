//! Descriptors: level-triggered, readable and writable apart.

use crate::nodes::{at, pair};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;
use suci::sockets::SocketKind;
use suci_sockets::{SuciListener, SuciStream};
use tokio::io::unix::AsyncFd;

/// Returns whether the descriptor is readable and writable within some time.
fn ready(descriptor: BorrowedFd<'_>, wanted: PollFlags) -> (bool, bool) {
    let mut fds = [PollFd::new(&descriptor, wanted)];
    let limit = Timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    poll(&mut fds, Some(&limit)).unwrap();
    let [fd] = &fds;
    let got = fd.revents();
    (got.contains(PollFlags::IN), got.contains(PollFlags::OUT))
}

const BOTH: PollFlags = PollFlags::IN.union(PollFlags::OUT);

#[test]
fn descriptors_show_what_a_socket_is_ready_for() {
    let (server, client) = pair();
    let listener = SuciListener::bind(&server, 80).unwrap();
    let listening = listener.descriptor().unwrap();
    assert_eq!(ready(listening, BOTH), (false, false));
    let mut stream = SuciStream::connect(&client, at(80)).unwrap();
    assert_eq!(ready(listening, PollFlags::IN), (true, false));
    let (mut accepted, _) = listener.accept().unwrap();
    assert_eq!(ready(listening, BOTH), (false, false));
    let (own, peer) = (stream.clone(), accepted.clone());
    let (out, into) = (own.descriptor().unwrap(), peer.descriptor().unwrap());
    assert_eq!(ready(out, BOTH), (false, true));
    assert_eq!(ready(into, BOTH), (false, true));
    // Bytes: level-triggered, until all of them were read.
    stream.write_all(b"12").unwrap();
    assert_eq!(ready(into, PollFlags::IN), (true, false));
    accepted.read_exact(&mut [0]).unwrap();
    assert_eq!(ready(into, BOTH), (true, true));
    accepted.read_exact(&mut [0]).unwrap();
    assert_eq!(ready(into, BOTH), (false, true));
    // A full window.
    stream.set_nonblocking(true);
    let mut sent = 0;
    let full = loop {
        match stream.write(&[0; 8192]) {
            Ok(length) => sent += length,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    assert_eq!(ready(out, BOTH), (false, false));
    accepted.read_exact(&mut vec![0; sent]).unwrap();
    assert_eq!(ready(out, PollFlags::OUT), (false, true));
    // The end of the connection.
    drop((accepted, peer));
    assert_eq!(ready(out, PollFlags::IN), (true, false));
    assert_eq!(ready(out, BOTH), (true, true));
}

/// No call waits, or asks again for ever, because of an empty part of a stream.
#[test]
fn a_descriptor_shows_no_empty_part_of_a_stream() {
    let (server, client) = pair();
    let listener = SuciListener::bind(&server, 80).unwrap();
    let connected = client.sockets().connect(None, at(80), SocketKind::Stream);
    let sender = connected.unwrap();
    let (accepted, _) = listener.accept().unwrap();
    accepted.set_nonblocking(true);
    let mut cx = Context::from_waker(Waker::noop());
    let sent = sender.poll_send(&mut cx, b"", false);
    assert!(matches!(sent, Poll::Ready(Ok(0))), "{sent:?}");
    let descriptor = accepted.descriptor().unwrap();
    assert_eq!(ready(descriptor, PollFlags::IN), (false, false));
    let none = accepted.read_bytes(100).unwrap_err();
    assert_eq!(none.kind(), ErrorKind::WouldBlock);
    let sent = sender.poll_send(&mut cx, b"x", false);
    assert!(matches!(sent, Poll::Ready(Ok(1))), "{sent:?}");
    while !ready(descriptor, PollFlags::IN).0 {}
    assert_eq!(accepted.read_bytes(100).unwrap(), "x");
    assert_eq!(ready(descriptor, PollFlags::IN), (false, false));
}

#[test]
fn an_event_loop_serves_streams() {
    let (server, client) = pair();
    let listener = SuciListener::bind(&server, 80).unwrap();
    let writer = thread::spawn(move || {
        let mut stream = SuciStream::connect(&client, at(80)).unwrap();
        for _ in 0..20 {
            stream.write_all(&[5; 50_000]).unwrap();
            thread::sleep(Duration::from_millis(1));
        }
    });
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_nonblocking(true);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    let received = runtime.unwrap().block_on(async {
        // The runtime closes what it is given.
        let copy: OwnedFd = stream.descriptor().unwrap().try_clone_to_owned().unwrap();
        // SAFETY: the runtime owns the copy, which stays open and the same until it is dropped.
        let ready = unsafe { AsyncFd::register(copy) }.unwrap();
        let (mut received, mut bytes) = (0, vec![0; 10_000]);
        loop {
            match stream.read(&mut bytes) {
                Ok(0) => return received,
                Ok(length) => received += length,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    ready.readable().await.unwrap().clear_ready();
                }
            }
        }
    });
    assert_eq!(received, 1_000_000);
    writer.join().unwrap();
    assert!(
        stream
            .descriptor()
            .unwrap()
            .as_fd()
            .try_clone_to_owned()
            .is_ok()
    );
}
