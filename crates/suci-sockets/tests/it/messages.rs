//! Message sockets: boundaries, lengths, parts.

use crate::nodes::{at, pair};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::ErrorKind;
use std::thread;
use std::time::Duration;
use suci::{Error, NodeId};
use suci_sockets::{DEFAULT_MAX_MESSAGE, MessageListener, MessageSocket};

/// For what is not waited for at all, or for what comes soon.
const PATIENCE: Duration = Duration::from_secs(20);

fn connected() -> (
    (suci::SharedNode, suci::SharedNode),
    MessageSocket,
    MessageSocket,
) {
    let (server, client) = pair();
    let listener = MessageListener::bind(&server, 80).unwrap();
    let socket = MessageSocket::connect(&client, at(80)).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    ((server, client), socket, accepted)
}

#[test]
fn boundaries_are_kept_at_any_length() {
    let (_nodes, sender, receiver) = connected();
    receiver.set_max_message(5_000_000);
    let lengths = [0, 1, 1480, 65_535, 65_536, 65_537, 0, 300_000, 5_000_000, 3];
    let sending = thread::spawn(move || {
        for (index, length) in lengths.into_iter().enumerate() {
            sender.send(&vec![index as u8; length]).unwrap();
        }
    });
    for (index, length) in lengths.into_iter().enumerate() {
        let message = receiver.recv().unwrap().unwrap();
        assert_eq!(message.len(), length);
        assert!(message.iter().all(|byte| *byte == index as u8));
    }
    sending.join().unwrap();
    assert!(receiver.recv().unwrap().is_none());
}

#[test]
fn a_message_that_was_accepted_goes_on_by_itself() {
    let (_nodes, sender, receiver) = connected();
    receiver.set_max_message(2_000_000);
    sender.set_nonblocking(true);
    sender.send(&vec![1; 2_000_000]).unwrap();
    // Its rest waits.
    let refused = sender.send(b"next").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::WouldBlock);
    // The connection stays open until all was sent.
    drop(sender);
    assert_eq!(receiver.recv().unwrap().unwrap().len(), 2_000_000);
    assert!(receiver.recv().unwrap().is_none());
}

#[test]
fn a_program_that_must_not_wait_gets_messages_whole() {
    let (_nodes, sender, receiver) = connected();
    receiver.set_nonblocking(true);
    let sending = thread::spawn(move || sender.send(&vec![9; 1_000_000]).map(|()| sender));
    let message = loop {
        match receiver.recv() {
            Ok(message) => break message.unwrap(),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        thread::sleep(Duration::from_millis(1));
    };
    assert_eq!(message.len(), 1_000_000);
    drop(sending.join().unwrap().unwrap());
}

#[test]
fn a_message_longer_than_the_program_takes_is_an_error() {
    let (_nodes, sender, receiver) = connected();
    receiver.set_max_message(1000);
    sender.send(&[0; 1000]).unwrap();
    sender.send(&[0; 1001]).unwrap();
    assert_eq!(receiver.recv().unwrap().unwrap().len(), 1000);
    assert_eq!(receiver.recv().unwrap_err().kind(), ErrorKind::InvalidData);
    // It is there once more is allowed.
    sender.send(b"next").unwrap();
    assert_eq!(receiver.recv().unwrap_err().kind(), ErrorKind::InvalidData);
    receiver.set_max_message(1001);
    assert_eq!(receiver.recv().unwrap().unwrap().len(), 1001);
    assert_eq!(receiver.recv().unwrap().unwrap(), b"next"[..]);
}

#[test]
fn a_long_message_that_was_refused_does_not_merge_with_the_next() {
    let (_nodes, sender, receiver) = connected();
    let long = DEFAULT_MAX_MESSAGE + 500_000;
    let sending = thread::spawn(move || {
        sender.send(&vec![1; long]).unwrap();
        sender.send(b"next").unwrap();
        sender
    });
    for _ in 0..2 {
        assert_eq!(receiver.recv().unwrap_err().kind(), ErrorKind::InvalidData);
        assert!(is_readable(&receiver), "the error is there at once");
    }
    receiver.set_max_message(long);
    let message = receiver.recv().unwrap().unwrap();
    assert_eq!(message.len(), long);
    assert!(message.iter().all(|byte| *byte == 1));
    assert_eq!(receiver.recv().unwrap().unwrap(), b"next"[..]);
    drop(sending.join().unwrap());
}

fn is_readable(socket: &MessageSocket) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(
        socket.descriptor().unwrap(),
        PollFlags::IN,
    )];
    poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
}

#[test]
fn a_descriptor_is_readable_while_a_message_has_a_rest() {
    let (_nodes, sender, receiver) = connected();
    sender.send(b"0123456789").unwrap();
    for part in [&b"012"[..], b"345", b"678"] {
        assert_eq!(receiver.recv_part(3).unwrap().unwrap(), part);
        assert!(receiver.has_rest() && is_readable(&receiver));
    }
    assert_eq!(receiver.recv_part(3).unwrap().unwrap(), b"9"[..]);
    assert!(!receiver.has_rest() && !is_readable(&receiver));
    // Nothing of the next message comes with the rest of one.
    sender.send(b"long").unwrap();
    sender.send(b"next").unwrap();
    assert_eq!(receiver.recv_part(1).unwrap().unwrap(), b"l"[..]);
    assert_eq!(receiver.recv().unwrap().unwrap(), b"ong"[..]);
    assert_eq!(receiver.recv().unwrap().unwrap(), b"next"[..]);
}

#[test]
fn threads_that_take_parts_of_messages_lose_nothing() {
    const COUNT: usize = 2_000;
    let (_nodes, sender, receiver) = connected();
    let sending = thread::spawn(move || {
        (0..COUNT).for_each(|_| sender.send(&[1; 10]).unwrap());
        sender.send(b"").unwrap();
    });
    let take = || {
        let mut count = 0;
        while let Some(part) = receiver.recv_part(3).unwrap() {
            count += part.len();
        }
        count
    };
    let taken: usize = thread::scope(|scope| {
        let takers: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
        takers.into_iter().map(|taker| taker.join().unwrap()).sum()
    });
    assert_eq!(taken, 10 * COUNT);
    sending.join().unwrap();
}

#[test]
fn a_node_that_closes_sends_the_messages_that_were_accepted() {
    for is_dropped in [false, true] {
        let ((_server, client), sender, receiver) = connected();
        receiver.set_max_message(2_000_000);
        sender.send(&vec![1; 2_000_000]).unwrap();
        let held = (!is_dropped).then_some(sender);
        let closing = thread::spawn(move || client.close(PATIENCE));
        // Whatever was not sent by now is sent by a node that is being closed.
        thread::sleep(Duration::from_millis(50));
        assert_eq!(receiver.recv().unwrap().unwrap().len(), 2_000_000);
        closing.join().unwrap().unwrap();
        drop(held);
    }
}

#[test]
fn a_node_whose_handles_are_dropped_sends_the_messages_that_were_accepted() {
    let ((_server, client), sender, receiver) = connected();
    receiver.set_max_message(2_000_000);
    sender.send(&vec![1; 2_000_000]).unwrap();
    let receiving = thread::spawn(move || receiver.recv().unwrap().unwrap().len());
    drop(sender);
    // This waits, since no handle is left.
    drop(client);
    assert_eq!(receiving.join().unwrap(), 2_000_000);
}

#[test]
fn a_node_that_closes_names_the_messages_that_were_not_sent() {
    let ((_server, client), sender, receiver) = connected();
    sender.send(&vec![1; 2_000_000]).unwrap();
    let closed = client.close(Duration::from_millis(400));
    let Err(Error::NotFlushed { peers }) = closed else {
        panic!("{closed:?}");
    };
    assert_eq!(peers, [(NodeId(0), 1)]);
    let cut = receiver.recv().unwrap_err();
    assert_eq!(cut.kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_socket_that_is_not_read_holds_up_no_other() {
    let ((server, client), sender, _unread) = connected();
    sender.set_nonblocking(true);
    while sender.send(&[0; 10_000]).is_ok() {}
    let listener = MessageListener::bind(&server, 81).unwrap();
    let other = MessageSocket::connect(&client, at(81)).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    for _ in 0..100 {
        other.send(&[1; 10_000]).unwrap();
        assert_eq!(accepted.recv().unwrap().unwrap().len(), 10_000);
    }
}
