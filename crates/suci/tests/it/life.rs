//! Peers that are not there, not yet, silent, or merely busy.

use crate::common::{LONG, Relay, await_event, builder, introduce, pair, take};
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use suci::{
    EndReason, Error, Event, FaultSpec, LostCause, NodeId, Outcome, OutgoingMessage, SessionNumber,
};

const SILENCE: Duration = Duration::from_millis(300);

#[test]
fn f25_a_peer_that_is_not_there_harms_no_other_and_may_come_later() {
    // On a host of its own: meanwhile other tests take any ports of 127.0.0.1.
    let place = UdpSocket::bind("127.0.25.1:0").unwrap();
    let address = place.local_addr().unwrap();
    // From here on the port refuses.
    drop(place);
    let mut a = builder(0).open().unwrap();
    let mut b = builder(1).open().unwrap();
    introduce(&mut a, &mut b);
    a.add_peer(NodeId(2), address).unwrap();
    a.send(NodeId(2), "early").unwrap();
    for _ in 0..20 {
        a.send(b.id(), "in between").unwrap();
        take(&mut b);
    }
    let mut late = builder(2).listen(address).open().unwrap();
    late.add_peer(a.id(), a.local_addr()).unwrap();
    let flusher = std::thread::spawn(move || a.flush(LONG).map(|()| a));
    assert_eq!(&take(&mut late).payload[..], b"early");
    flusher.join().unwrap().unwrap();
}

#[test]
fn f17_a_silent_peer_is_lost_once_then_ended_with_outcomes() {
    let mut a = builder(0)
        .silence_timeout(SILENCE)
        .give_up_after(2 * SILENCE)
        .open()
        .unwrap();
    let mut b = builder(1).open().unwrap();
    let relay = Relay::introduce(&mut a, &mut b);
    a.send(b.id(), "heard").unwrap();
    take(&mut b);
    b.poll(Duration::ZERO).unwrap();
    a.flush(LONG).unwrap();
    a.events().unwrap();
    // From here on nothing reaches b, nor comes from it.
    let _bound = relay.silence();
    a.send(b.id(), OutgoingMessage::new("unheard").token(5))
        .unwrap();
    let lost = Event::Lost {
        node: b.id(),
        cause: LostCause::NoAnswer,
    };
    assert_eq!(await_event(&mut a, |_| true), lost);
    let ended = await_event(&mut a, |_| true);
    let Event::Ended {
        reason, outcomes, ..
    } = ended
    else {
        panic!("{ended:?}")
    };
    assert_eq!(reason, EndReason::Silent);
    let [outcome] = outcomes[..] else {
        panic!("{outcomes:?}")
    };
    assert_eq!((outcome.token, outcome.outcome), (5, Outcome::Unknown));
}

#[test]
fn f17_a_silent_unattended_peer_is_quiet_and_not_given_up() {
    let mut a = builder(0)
        .silence_timeout(SILENCE)
        .give_up_after(SILENCE)
        .open()
        .unwrap();
    let mut b = builder(1).unattended().open().unwrap();
    introduce(&mut a, &mut b);
    a.send(b.id(), "heard").unwrap();
    take(&mut b);
    while a.flush(SILENCE / 10).is_err() {
        b.poll(Duration::ZERO).unwrap();
    }
    a.events().unwrap();
    // Nothing serves b while its program is elsewhere.
    a.send(b.id(), "unheard").unwrap();
    assert_eq!(await_event(&mut a, |_| true), Event::Quiet { node: b.id() });
    assert!(a.recv_timeout(2 * SILENCE).unwrap().is_none());
    assert_eq!(a.next_event().unwrap(), None, "nothing more is said of it");
    assert_eq!(&take(&mut b).payload[..], b"unheard");
    while a.flush(SILENCE / 10).is_err() {
        b.poll(Duration::ZERO).unwrap();
    }
    assert_eq!(
        await_event(&mut a, |_| true),
        Event::Up {
            node: b.id(),
            session: SessionNumber(0)
        }
    );
}

#[test]
fn a_program_that_computes_is_served_and_not_lost() {
    // The helper comes after 200 ms at most: a busy machine must not make that look like silence.
    let mut a = builder(0).silence_timeout(10 * SILENCE).open().unwrap();
    let mut b = builder(1).open().unwrap();
    introduce(&mut a, &mut b);
    // b's program never calls it again: its helper answers for it.
    for round in 0..3 {
        a.send(b.id(), OutgoingMessage::new("for later").notify(round))
            .unwrap();
        let event = await_event(&mut a, |e| !matches!(e, Event::Up { .. }));
        assert!(
            matches!(event, Event::Delivered { token, .. } if token == round),
            "{event:?}"
        );
        a.recv_timeout(SILENCE).unwrap();
    }
    for _ in 0..3 {
        assert_eq!(&take(&mut b).payload[..], b"for later");
    }
}

/// A program that calls `recv` late may find its timers due: then the socket is looked at before
/// the program sleeps.
#[test]
fn a_message_that_came_meanwhile_is_not_slept_on() {
    // Behind faults, though these are none, a wait does not begin with a look at the socket.
    let none = FaultSpec::default();
    let a = builder(0).wait(suci::WaitPolicy::Sleep).faults(none);
    let mut a = a.open().unwrap();
    let mut b = builder(1).open().unwrap();
    introduce(&mut a, &mut b);
    let mut times = Vec::new();
    for _ in 0..20 {
        a.send(b.id(), "question").unwrap();
        take(&mut b);
        b.send(a.id(), "answer").unwrap();
        // Longer than a probe waits, less than the helper.
        std::thread::sleep(Duration::from_millis(50));
        let begun = Instant::now();
        take(&mut a);
        times.push(begun.elapsed());
    }
    // Else some last until the peer's probe, seconds later.
    let longest = times.iter().max().unwrap();
    assert!(*longest < Duration::from_secs(1), "{times:?}");
}

/// Sessions that ended unheard keep nothing from being sent.
#[test]
fn sending_waits_for_no_event_that_only_its_caller_could_take() {
    let mut a = builder(0).open().unwrap();
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
    a.add_peer(NodeId(1), nobody.local_addr().unwrap()).unwrap();
    for _ in 0..10 {
        a.send_timeout(NodeId(1), "fails", LONG).unwrap();
        a.peer(NodeId(1)).reset().unwrap();
    }
    // Each failure is told once, by a flush or by its event.
    let Err(Error::NotFlushed { peers }) = a.flush(LONG) else {
        panic!("ten messages failed");
    };
    assert_eq!(peers, [(NodeId(1), 10)]);
    a.flush(LONG).unwrap();
    let ended = a.next_event().unwrap();
    assert!(
        matches!(ended, Some(Event::Ended { sessions: 10, .. })),
        "{ended:?}"
    );
}

#[test]
fn f23_both_open_at_once() {
    for _ in 0..20 {
        let (mut a, mut b) = crate::common::pair();
        a.send(b.id(), "from a").unwrap();
        b.send(a.id(), "from b").unwrap();
        assert_eq!(&take(&mut b).payload[..], b"from a");
        assert_eq!(&take(&mut a).payload[..], b"from b");
    }
}

#[test]
fn f14_a_restarted_peer_is_a_new_session() {
    let mut a = builder(0).silence_timeout(SILENCE).open().unwrap();
    let mut b = builder(1).unattended().open().unwrap();
    introduce(&mut a, &mut b);
    a.send(b.id(), "first life").unwrap();
    take(&mut b);
    // Like a process that was stopped for ever: no CLOSE leaves it, and its port stays taken.
    std::mem::forget(b);
    let mut b = builder(1).open().unwrap();
    b.add_peer(a.id(), a.local_addr()).unwrap();
    b.send(a.id(), "second life").unwrap();
    let thread = std::thread::spawn(move || {
        let ended = await_event(&mut a, |e| matches!(e, Event::Ended { .. }));
        assert!(
            matches!(
                ended,
                Event::Ended {
                    reason: EndReason::Restarted,
                    ..
                }
            ),
            "{ended:?}"
        );
        assert_eq!(&take(&mut a).payload[..], b"second life");
        a.send(NodeId(1), "welcome back").unwrap();
        a.flush(LONG).unwrap();
    });
    assert_eq!(&take(&mut b).payload[..], b"welcome back");
    b.poll(Duration::ZERO).unwrap();
    thread.join().unwrap();
}

#[test]
fn f31_everything_arrives_through_a_bad_network() {
    let spec: FaultSpec = "loss=0.05,dup=0.05,reorder=0.1,corrupt=0.001,seed=7"
        .parse()
        .unwrap();
    let mut a = builder(0).faults(spec).open().unwrap();
    let mut b = builder(1).faults(spec).open().unwrap();
    introduce(&mut a, &mut b);
    let to = b.id();
    let receiver = std::thread::spawn(move || {
        for number in 0..300_u32 {
            let message = take(&mut b);
            assert_eq!(message.payload.len(), 5_000);
            assert_eq!(message.payload[..4], number.to_le_bytes());
        }
        b
    });
    for number in 0..300_u32 {
        let mut payload = vec![0; 5_000];
        payload[..4].copy_from_slice(&number.to_le_bytes());
        a.send_timeout(to, payload, LONG).unwrap();
    }
    a.flush(LONG).unwrap();
    receiver.join().unwrap();
    assert!(a.socket_counters().unwrap().faults.lost > 0);
}

/// The question's sender closed its node, so nothing takes the answer. The close does not wait for
/// it.
#[test]
fn f20_a_close_does_not_wait_for_an_answer_to_a_node_that_closed() {
    let (mut a, mut b) = pair();
    let caller = a.id();
    a.send(b.id(), "question").unwrap();
    let closing = std::thread::spawn(move || a.close(LONG));
    take(&mut b);
    await_event(&mut b, |event| matches!(event, Event::Ended { .. }));
    closing.join().unwrap().unwrap();
    b.send(caller, "answer").unwrap();
    let begun = Instant::now();
    let result = b.close(LONG);
    assert!(
        matches!(result, Err(Error::NotFlushed { .. })),
        "{result:?}"
    );
    assert!(begun.elapsed() < LONG / 10, "{:?}", begun.elapsed());
}
