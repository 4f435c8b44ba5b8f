//! Sealed nodes over real sockets, with the cipher for tests, which records every number.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, await_event, builder, introduce, take};
use std::sync::Arc;
use suci::{Bytes, Event, Node, RefusedReason};
use suci_proto::security::Security;
use toy_cipher::{RecordingHandshakes, SealLedger};

/// A node with these cluster keys.
fn node(id: u32, ledger: &SealLedger, keys: &[u64]) -> Node {
    let makes = Arc::new(RecordingHandshakes::new(ledger.clone(), keys));
    builder(id)
        .config(|config| config.security = Security::Sealed(makes))
        .open()
        .unwrap()
}

/// Messages of every size, in trains and alone.
#[test]
fn messages_arrive_as_they_were_sent() {
    let ledger = SealLedger::default();
    let (mut a, mut b) = (node(0, &ledger, &[1]), node(1, &ledger, &[1]));
    introduce(&mut a, &mut b);
    for length in [0, 1, 200, 1_472, 5_000, 65_536, 3_000_000] {
        let payload: Bytes = (0..length)
            .map(|at: u32| (at * 7 + at / 251) as u8)
            .collect();
        for _ in 0..3 {
            a.send(b.id(), payload.clone()).unwrap();
        }
        for _ in 0..3 {
            let message = take(&mut b);
            assert!(message.payload == payload, "{length} B");
            b.send_copy(message.from, b"answer").unwrap();
        }
        (0..3).for_each(|_| assert_eq!(&take(&mut a).payload[..], b"answer"));
    }
    assert_eq!(ledger.repeats(), []);
    assert_eq!(ledger.handshakes(), 1);
    assert!(ledger.packets() > 300);
}

#[test]
fn a_plain_node_is_told_that_the_other_is_sealed() {
    let ledger = SealLedger::default();
    let (mut a, mut b) = (builder(0).open().unwrap(), node(1, &ledger, &[1]));
    introduce(&mut a, &mut b);
    let served = std::thread::spawn(move || {
        let refused = |event: &Event| matches!(event, Event::Refused { .. });
        await_event(&mut b, refused)
    });
    a.send_copy(suci::NodeId(1), b"hello").unwrap();
    for event in [
        await_event(&mut a, |event| matches!(event, Event::Refused { .. })),
        served.join().unwrap(),
    ] {
        let mode = RefusedReason::Mode;
        assert!(matches!(event, Event::Refused { reason, .. } if reason == mode));
    }
    assert_eq!(ledger.packets(), 0);
    a.close(LONG).ok();
}
