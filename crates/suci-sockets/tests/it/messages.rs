//! Message sockets: boundaries, lengths, parts.

use crate::nodes::{at, pair};
use std::io::ErrorKind;
use std::thread;
use std::time::Duration;
use suci_sockets::{MessageListener, MessageSocket};

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
