//! Suspension by either side, and limits of silence for one peer.

use crate::modes::without_extension;
use crate::net::{Net, id, lost, message};
use suci_proto::time::Duration;
use suci_proto::types::SessionNumber;
use suci_proto::{Config, EndReason, Event, LinkState, Outcome, Outgoing, SendError, Side};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn pair() -> Net {
    let mut net = Net::new(2, |_| Config::default());
    net.send(0, id(1), message(b"hello"));
    net.send(1, id(0), message(b"hello"));
    net.run(SECOND);
    net.discard_events();
    net
}

fn suspend(net: &mut Net, host: usize, on: bool) {
    let engine = net.engine(host);
    let done = if on {
        engine.suspend(id(1 - host))
    } else {
        engine.resume(id(1 - host))
    };
    done.unwrap();
    net.flush(host);
}

/// The side whose suspension makes a message be refused.
fn refused(net: &mut Net, host: usize) -> Option<Side> {
    let now = net.now;
    match net.engine(host).send(now, id(1 - host), message(b"now?")) {
        Err(SendError::Suspended { by, message }) => {
            assert_eq!(&message.payload[..], b"now?", "it is given back");
            Some(by)
        }
        Ok(_) => None,
        Err(error) => panic!("{error}"),
    }
}

fn state(net: &mut Net, host: usize) -> (LinkState, bool, bool) {
    let stats = net.engine(host).peer_stats(id(1 - host)).unwrap();
    (stats.link, stats.suspended_here, stats.suspended_there)
}

#[test]
fn accepted_messages_are_kept_and_sent_after_resuming() {
    for suspender in [0, 1] {
        let mut net = pair();
        let events = |host: usize, on: bool| {
            let by = match host == suspender {
                true => Side::Here,
                false => Side::There,
            };
            let node = id(1 - host);
            match on {
                true => Event::Suspended { node, by },
                false => Event::Resumed { node, by },
            }
        };
        net.queue(0, id(1), message(&[1; 1_000_000]));
        suspend(&mut net, suspender, true);
        suspend(&mut net, suspender, true);
        net.run(SECOND * 60);
        assert_eq!(net.received(1).len(), 0);
        for host in [0, 1] {
            assert_eq!(net.events(host), [events(host, true)], "no Lost, once");
            assert!(refused(&mut net, host).is_some());
        }
        assert_eq!(refused(&mut net, suspender), Some(Side::Here));
        assert_eq!(refused(&mut net, 1 - suspender), Some(Side::There));
        assert_eq!(state(&mut net, suspender), (LinkState::Up, true, false));
        assert_eq!(state(&mut net, 1 - suspender), (LinkState::Up, false, true));
        suspend(&mut net, 1 - suspender, false);
        assert_eq!(refused(&mut net, 1 - suspender), Some(Side::There));
        suspend(&mut net, suspender, false);
        net.run(SECOND);
        assert_eq!(net.received(1).len(), 1);
        for host in [0, 1] {
            assert_eq!(net.events(host), [events(host, false)]);
            assert_eq!(refused(&mut net, host), None);
        }
    }
}

#[test]
fn both_must_resume() {
    let mut net = pair();
    suspend(&mut net, 0, true);
    suspend(&mut net, 1, true);
    net.run(MS);
    suspend(&mut net, 0, false);
    net.run(MS);
    assert_eq!(refused(&mut net, 0), Some(Side::There));
    assert_eq!(refused(&mut net, 1), Some(Side::Here));
    suspend(&mut net, 1, false);
    net.run(MS);
    assert_eq!((refused(&mut net, 0), refused(&mut net, 1)), (None, None));
}

/// A driver that keeps a list of suspended peers is told of each change, and of nothing else.
#[test]
fn a_change_is_told_once() {
    let mut net = Net::new(3, |_| Config::default());
    for (from, to) in [(0, 1), (0, 2)] {
        net.send(from, id(to), message(b"hello"));
    }
    net.run(SECOND);
    assert_eq!(net.engine(0).poll_suspension(), None);
    for on in [true, true, false, true] {
        suspend(&mut net, 1, on);
        net.run(SECOND);
    }
    assert_eq!(net.engine(0).poll_suspension(), Some(id(1)));
    assert_eq!(net.engine(0).suspended_by(id(1)), Some(Side::There));
    assert_eq!(net.engine(0).poll_suspension(), None);
    let now = net.now;
    net.engine(0).reset(now, id(1)).unwrap();
    assert_eq!(net.engine(0).poll_suspension(), Some(id(1)));
    assert_eq!(net.engine(0).suspended_by(id(1)), None, "it ended with it");
}

/// Data in flight when the session is suspended is not sent again before it is resumed, even if
/// lost; messages that had arrived are read.
#[test]
fn nothing_is_repeated_while_suspended() {
    let mut net = pair();
    net.reading = false;
    net.send(0, id(1), message(b"arrives"));
    net.run(MS);
    net.meddle = Some(Box::new(|_, _| None));
    net.send(0, id(1), message(b"is lost"));
    suspend(&mut net, 0, true);
    net.meddle = None;
    net.run(SECOND * 5);
    net.reading = true;
    net.turn();
    let texts = |net: &mut Net| -> Vec<Vec<u8>> {
        let received = net.received(1);
        received.iter().map(|(_, m)| m.payload.to_vec()).collect()
    };
    assert_eq!(texts(&mut net), [b"arrives".to_vec()]);
    suspend(&mut net, 0, false);
    net.run(SECOND);
    assert_eq!(texts(&mut net), [b"is lost".to_vec()]);
}

/// SUSPEND and RESUME are lost like other frames.
#[test]
fn f31_suspension_survives_loss() {
    let mut net = pair();
    let mut random = 1_u64;
    net.meddle = Some(Box::new(move |_, packet| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33 & 3 != 0).then_some(packet)
    }));
    for round in 0..50 {
        suspend(&mut net, round % 2, true);
        net.run(SECOND * 3);
        assert_eq!(state(&mut net, 1 - round % 2), (LinkState::Up, false, true));
        suspend(&mut net, round % 2, false);
        net.run(SECOND * 3);
        assert_eq!(
            state(&mut net, 1 - round % 2),
            (LinkState::Up, false, false)
        );
    }
}

#[test]
fn f17_lost_and_up_leave_a_suspension_as_it_was() {
    let mut net = pair();
    net.queue(0, id(1), message(b"kept"));
    suspend(&mut net, 1, true);
    suspend(&mut net, 0, true);
    net.run(SECOND);
    net.discard_events();
    net.meddle = Some(Box::new(|_, _| None));
    net.run(SECOND * 30);
    assert_eq!(net.events(0), [lost(1)]);
    assert_eq!(state(&mut net, 0), (LinkState::Lost, true, true));
    net.meddle = None;
    net.run(SECOND * 10);
    assert_eq!(
        net.events(0),
        [Event::Up {
            node: id(1),
            session: SessionNumber(0)
        }]
    );
    assert_eq!(state(&mut net, 0), (LinkState::Up, true, true));
    assert_eq!(net.received(1).len(), 0);
    suspend(&mut net, 0, false);
    suspend(&mut net, 1, false);
    net.run(SECOND);
    assert_eq!(net.received(1).len(), 1);
}

#[test]
fn f14_a_suspension_ends_with_its_session_and_outcomes_are_exact() {
    let mut net = pair();
    net.queue(0, id(1), message(b"never leaves"));
    suspend(&mut net, 0, true);
    net.run(SECOND);
    net.discard_events();
    net.restart(1);
    net.send(1, id(0), message(b"a new life"));
    net.run(SECOND);
    let ended = outcomes(&mut net, 0);
    assert_eq!(ended, (EndReason::Restarted, vec![Outcome::NotDelivered]));
    assert_eq!(state(&mut net, 0), (LinkState::Up, false, false));
    assert_eq!(refused(&mut net, 0), None);
}

/// The reason of the only ended session, and the outcomes of its messages.
fn outcomes(net: &mut Net, host: usize) -> (EndReason, Vec<Outcome>) {
    let mut ends = net
        .events(host)
        .into_iter()
        .filter_map(|event| match event {
            Event::Ended {
                reason, outcomes, ..
            } => Some((reason, outcomes.iter().map(|o| o.outcome).collect())),
            _ => None,
        });
    let end = ends.next().expect("an end");
    assert_eq!(ends.next(), None, "one");
    end
}

#[test]
fn closing_a_suspended_session_ends_at_its_deadline() {
    let mut net = pair();
    net.queue(0, id(1), message(b"never leaves"));
    suspend(&mut net, 0, true);
    let now = net.now;
    net.engine(0).close_peer(now, id(1), SECOND * 2).unwrap();
    net.flush(0);
    net.run(SECOND);
    let ended = |e: &Event| matches!(e, Event::Ended { .. });
    assert!(!net.events(0).iter().any(ended));
    net.run(SECOND * 2);
    let never_left = vec![Outcome::NotDelivered];
    assert_eq!(outcomes(&mut net, 0), (EndReason::ClosedHere, never_left));
    // The message that was given up is missing there.
    let missing = 1;
    assert_eq!(outcomes(&mut net, 1).0, EndReason::CutShort { missing });
}

#[test]
fn an_idle_suspended_session_closes_at_once() {
    let mut net = pair();
    suspend(&mut net, 0, true);
    net.run(MS);
    let now = net.now;
    net.engine(0).close(now, SECOND * 5);
    net.flush(0);
    net.run(MS * 10);
    assert!(net.engine(0).is_closed());
}

#[test]
fn a_session_is_suspended_before_it_begins() {
    let mut net = Net::new(2, |_| Config::default());
    suspend(&mut net, 0, true);
    assert_eq!(refused(&mut net, 0), Some(Side::Here));
    net.send(1, id(0), message(b"rides before anybody knows"));
    net.run(MS * 10);
    assert_eq!(refused(&mut net, 1), Some(Side::There));
    suspend(&mut net, 0, false);
    net.run(MS * 10);
    assert_eq!(refused(&mut net, 1), None);
    assert_eq!(net.received(0).len(), 1);
}

#[test]
fn a_peer_that_does_not_know_suspension_is_only_held_back_here() {
    let mut net = Net::new(2, |_| Config::default());
    net.meddle = Some(Box::new(|_, packet| Some(without_extension(packet))));
    net.send(0, id(1), message(b"hello"));
    net.run(SECOND);
    net.discard_events();
    // Host 1 believes that host 0 does not know it.
    suspend(&mut net, 1, true);
    net.run(SECOND);
    assert_eq!(refused(&mut net, 1), Some(Side::Here));
    net.send(0, id(1), message(b"goes on"));
    net.run(SECOND);
    assert_eq!(net.received(1).len(), 1);
    // Host 0 believes that both know it, and sends SUSPEND.
    suspend(&mut net, 0, true);
    net.run(SECOND);
    assert_eq!(net.engine(1).counters().protocol_errors, 1);
}

#[test]
fn patience_is_each_peers_own() {
    let mut net = Net::new(3, |_| Config::default());
    for peer in [1, 2] {
        net.send(0, id(peer), message(b"hello"));
    }
    net.run(SECOND);
    net.discard_events();
    let mut patience = |node, silence_timeout, give_up_after| {
        net.change(0, id(node), |o| {
            (o.silence_timeout, o.give_up_after) = (silence_timeout, give_up_after);
        })
    };
    let set = patience(1, SECOND, SECOND * 20);
    assert_eq!(set, Ok(()));
    let short = patience(1, MS * 99, SECOND * 20);
    assert!(short.is_err_and(|e| e.to_string().contains("silence_timeout = 99ms")));
    let reversed = patience(1, SECOND, MS * 999);
    assert!(reversed.is_err_and(|e| e.to_string().contains("give_up_after = 999ms")));
    let unknown = patience(7, SECOND, SECOND);
    assert!(unknown.is_err());
    net.meddle = Some(Box::new(|_, _| None));
    for peer in [1, 2] {
        net.send(0, id(peer), message(b"unheard"));
    }
    net.run(SECOND * 2);
    assert_eq!(net.events(0), [lost(1)]);
    net.run(SECOND * 20);
    let events = net.events(0);
    assert!(matches!(
        events[..],
        [
            Event::Lost { .. },
            Event::Ended {
                reason: EndReason::Silent,
                ..
            }
        ]
    ));
}

#[test]
fn f17_a_watched_peer_is_lost_although_nothing_is_said() {
    let mut net = pair();
    net.run(SECOND * 100);
    net.change(0, id(1), |o| o.keep_alive = true).unwrap();
    net.flush(0);
    net.run(SECOND * 100);
    assert_eq!(net.events(0), [], "it answers");
    net.meddle = Some(Box::new(|_, _| None));
    net.run(SECOND * 15);
    assert_eq!(net.events(0), [lost(1)]);
    assert_eq!(net.events(1), [], "who does not watch does not notice");
}

#[test]
fn a_peer_that_is_abandoned_hears_of_it_at_once() {
    let mut net = pair();
    net.meddle = Some(Box::new(|to, packet| (to.port() == 0).then_some(packet)));
    net.send(0, id(1), message(b"may have arrived"));
    net.meddle = None;
    let now = net.now;
    net.engine(0).reset(now, id(1)).unwrap();
    net.flush(0);
    net.run(MS);
    assert_eq!(
        outcomes(&mut net, 0),
        (EndReason::Reset, vec![Outcome::Unknown])
    );
    let missing = 1;
    assert_eq!(outcomes(&mut net, 1).0, EndReason::CutShort { missing });
    let after: Outgoing = message(b"a new session");
    net.send(1, id(0), after);
    net.run(SECOND);
    assert_eq!(net.received(0).len(), 1);
}
