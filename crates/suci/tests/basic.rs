#![allow(clippy::unwrap_used, clippy::expect_used)] // A test may panic.
//! Two nodes in one process over loopback: each verb of the API.

mod common;

use common::{LONG, pair};
use suci::{Draft, NodeId};

#[test]
fn a_message_arrives_and_is_answered() {
    let (mut a, mut b) = pair();
    a.send(b.id(), Draft::new("question").tag(9)).unwrap();
    let message = b.recv_timeout(LONG).unwrap().expect("a message");
    assert_eq!((message.from, message.tag, &message.payload[..]), (NodeId(0), 9, &b"question"[..]));
    b.send_copy(message.from, b"answer").unwrap();
    let message = a.recv_timeout(LONG).unwrap().expect("a message");
    assert_eq!(&message.payload[..], b"answer");
}
