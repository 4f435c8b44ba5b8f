//! The program decides how messages flow to a peer, over real sockets.

use crate::common::{LONG, pair, set_option, shared_pair, take};
use std::time::{Duration, Instant};
use suci::{Bytes, ControllerChoice, Decision, Error, NodeId, Observation};

const PAUSED: Decision = Decision {
    window: Some(0),
    pace: None,
    ack_interval: None,
    again: None,
};

#[test]
fn a_paused_peer_gets_its_messages_when_it_is_paused_no_more() {
    let (mut a, mut b) = pair();
    a.peer(b.id()).steer(|_: &Observation| PAUSED).unwrap();
    a.send(b.id(), "waits").unwrap();
    for _ in 0..20 {
        a.poll(Duration::from_millis(10)).unwrap();
        assert!(b.try_recv().unwrap().is_none());
    }
    a.peer(b.id()).unsteer().unwrap();
    a.send(b.id(), "and goes").unwrap();
    let node = std::thread::spawn(move || {
        a.flush(LONG).unwrap();
        a
    });
    assert_eq!(&take(&mut b).payload[..], b"waits");
    assert_eq!(&take(&mut b).payload[..], b"and goes");
    while !node.is_finished() {
        b.poll(Duration::from_millis(10)).unwrap();
    }
    node.join().unwrap();
}

#[test]
fn a_cap_slows_one_peer_down_and_is_lifted() {
    // 100 s of it at the cap, longer than the rest may take.
    const MESSAGES: usize = 1_000;
    const SLOW: usize = 5;
    let (a, b) = shared_pair();
    let to = b.id();
    let begun = Instant::now();
    set_option(a.peer(to), |o| o.rate_cap = Some(100_000)).unwrap();
    let payload = Bytes::from(vec![7; 10_000]);
    for _ in 0..MESSAGES {
        a.send(to, payload.clone()).unwrap();
    }
    let take = |count: usize| {
        let end = Instant::now() + LONG;
        for _ in 0..count {
            let left = end.saturating_duration_since(Instant::now());
            assert!(b.recv_timeout(left).unwrap().is_some());
        }
    };
    // A burst of ten packets of at most 1,472 bytes, then seventy in a second.
    take(SLOW);
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(350), "{took:?}");
    let stats = a.peer(to).stats().unwrap().unwrap();
    assert_eq!(stats.waiting, Some(suci::WaitReason::Cap));
    set_option(a.peer(to), |o| o.rate_cap = None).unwrap();
    take(MESSAGES - SLOW);
    a.flush(LONG).unwrap();
    assert!(b.try_recv().unwrap().is_none());
}

#[test]
fn every_verb_knows_its_peers() {
    let (a, _b) = pair();
    let nobody = NodeId(77);
    let unknown = |result: Result<(), Error>| {
        assert!(matches!(result, Err(Error::UnknownPeer(node)) if node == nobody));
    };
    unknown(set_option(a.peer(nobody), |o| {
        o.controller = ControllerChoice::Cubic
    }));
    unknown(a.peer(nobody).steer(|_: &Observation| PAUSED));
    unknown(a.peer(nobody).unsteer());
    unknown(set_option(a.peer(nobody), |o| o.rate_cap = Some(1)));
    unknown(set_option(a.peer(nobody), |o| {
        o.manual_retransmission = true
    }));
    unknown(a.peer(nobody).retransmit());
    assert_eq!(a.peer(nobody).controller().unwrap(), None);
}

#[test]
fn a_shared_node_is_steered_too() {
    let (a, b) = shared_pair();
    let to = b.id();
    a.send(to, "first").unwrap();
    assert!(b.recv_timeout(LONG).unwrap().is_some());
    a.flush(LONG).unwrap();
    assert_eq!(a.peer(to).controller().unwrap(), Some("lan"));
    set_option(a.peer(to), |o| o.controller = ControllerChoice::Wan).unwrap();
    assert_eq!(a.peer(to).controller().unwrap(), Some("wan"));
    set_option(a.peer(to), |o| o.manual_retransmission = true).unwrap();
    a.peer(to).steer(|_: &Observation| PAUSED).unwrap();
    a.send(to, "second").unwrap();
    assert!(
        b.recv_timeout(Duration::from_millis(200))
            .unwrap()
            .is_none()
    );
    a.peer(to).unsteer().unwrap();
    a.peer(to).retransmit().unwrap();
    assert_eq!(
        &b.recv_timeout(LONG).unwrap().unwrap().payload[..],
        b"second"
    );
}

/// Its controller runs on the thread that would have to answer.
#[test]
fn a_controller_that_would_wait_for_its_own_thread_is_told_so() {
    let (a, b) = shared_pair();
    let to = b.id();
    let (told, answers) = std::sync::mpsc::channel();
    let node = a.clone();
    a.peer(to)
        .steer(move |_: &Observation| {
            let answers = [
                node.peer(to).stats().map(drop),
                node.recv().map(drop),
                node.recv_timeout(LONG).map(drop),
                node.close(LONG),
            ];
            // The steering function is asked while the node closes, too.
            let sent = node.send_timeout(to, "from within", LONG);
            let _ = told.send((answers, sent));
            Decision::default()
        })
        .unwrap();
    let (answers, sent) = answers.recv_timeout(LONG).unwrap();
    sent.expect("what need not wait is done");
    for answer in answers {
        assert!(matches!(answer, Err(Error::OwnThread)), "{answer:?}");
    }
    a.send(to, "still served").unwrap();
    assert!(b.recv_timeout(LONG).unwrap().is_some());
    a.close(LONG).unwrap();
}
