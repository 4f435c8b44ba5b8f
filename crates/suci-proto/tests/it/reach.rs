//! Unreachable peers: when the program is told, and the known cause.

use crate::net::{Net, address, id, lost, message};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use suci_proto::ProcessEnd::{Failed, Finished, Replaced};
use suci_proto::time::Duration;
use suci_proto::types::NodeId;
use suci_proto::wire::PacketType;
use suci_proto::{
    AcceptPolicy, Addresses, CallError, CallId, CallResult, Config, EndReason, Event, LinkState,
    LostCause, PeerInfo, Priority, ProcessEnd, RefusedReason, SendError, Undelivered, Unreachable,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Two nodes; no packet reaches the second.
fn cut_off() -> Net {
    let mut net = Net::new(2, |_| Config::default());
    net.meddle = Some(Box::new(|_, _| None));
    net
}

#[test]
fn f17_a_peer_that_was_never_reached_is_lost_after_the_silence_timeout() {
    let mut net = cut_off();
    net.send(0, id(1), message(b"unheard"));
    net.run(SECOND * 9);
    assert_eq!(net.events(0), []);
    net.run(SECOND * 2);
    assert_eq!(net.events(0), [lost(1)]);
    net.run(SECOND * 280);
    assert_eq!(net.events(0), [], "said once");
    net.run(SECOND * 20);
    let events = net.events(0);
    let silent = EndReason::Silent;
    assert!(
        matches!(&events[..], [Event::Ended { reason, outcomes, .. }] if *reason == silent && outcomes.len() == 1),
        "{events:?}"
    );
    // The next session is judged like the first.
    net.send(0, id(1), message(b"unheard, too"));
    net.run(SECOND * 11);
    assert_eq!(net.events(0), [lost(1)]);
}

#[test]
fn f17_an_attempt_that_carries_nothing_is_lost_too_and_goes_on() {
    let mut net = cut_off();
    let now = net.now;
    net.engine(0).connect(now, id(1)).unwrap();
    net.flush(0);
    net.run(SECOND * 11);
    assert_eq!(net.events(0), [lost(1)]);
    net.run(SECOND * 1_000);
    assert_eq!(net.events(0), []);
    net.meddle = None;
    net.run(SECOND * 2);
    assert!(matches!(net.events(0)[..], [Event::Up { .. }]));
}

#[test]
fn f23_a_peer_that_starts_within_the_silence_timeout_was_never_lost() {
    let mut net = cut_off();
    net.send(0, id(1), message(b"early"));
    net.run(SECOND * 9);
    net.meddle = None;
    net.run(SECOND * 2);
    assert!(matches!(net.events(0)[..], [Event::Up { .. }]));
    assert_eq!(net.received(1).len(), 1);
}

#[test]
fn f17_a_peer_that_refuses_is_lost_with_its_reason() {
    // The second admits only nodes of its book, and the first is not in it.
    let config = |host| Config {
        accept: if host == 1 {
            AcceptPolicy::Book
        } else {
            AcceptPolicy::Anyone
        },
        ..Config::default()
    };
    let mut net = Net::new(3, config);
    let now = net.now;
    let stranger = address(1);
    net.engine(0).add_peer(now, id(7), stranger).unwrap();
    net.send(0, id(7), message(b"to another"));
    net.run(SECOND * 9);
    let reason = RefusedReason::WrongNode;
    let node = id(7);
    assert_eq!(net.events(0), [Event::Refused { node, reason }]);
    net.run(SECOND * 2);
    let cause = LostCause::Refused(reason);
    assert_eq!(net.events(0), [Event::Lost { node, cause }]);
}

/// Two nodes that know each other, and the last packet of the first one to the second, which did
/// not arrive.
fn unanswered() -> (Net, SocketAddr, Vec<u8>) {
    let mut net = Net::new(2, |_| Config::default());
    net.send(0, id(1), message(b"heard"));
    net.run(SECOND);
    net.discard_events();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let packets = Rc::clone(&seen);
    net.meddle = Some(Box::new(move |to, packet| {
        if to == address(1) {
            *packets.borrow_mut() = packet;
            return None;
        }
        Some(packet)
    }));
    net.send(0, id(1), message(b"unheard"));
    let packet = seen.borrow().clone();
    (net, address(1), packet)
}

fn report(net: &mut Net, report: &Undelivered<'_>) {
    let now = net.now;
    net.engine(0).on_undelivered(now, report);
    net.flush(0);
}

/// This machine's kernel reports that the port is closed to which `packet` went.
fn report_closed(net: &mut Net, to: SocketAddr, packet: &[u8]) {
    let closed = Undelivered {
        to,
        why: Unreachable::Port,
        local: true,
        quoted: &packet[..32],
    };
    report(net, &closed);
}

#[test]
fn f17_a_closed_port_of_this_machine_makes_a_peer_lost_within_a_few_probe_timeouts() {
    let (mut net, to, packet) = unanswered();
    report_closed(&mut net, to, &packet);
    report_closed(&mut net, to, &packet);
    net.run(MS * 50);
    let (node, cause) = (id(1), LostCause::ProcessDied);
    assert_eq!(net.events(0), [Event::Lost { node, cause }]);
    assert_eq!(net.engine(0).counters().unreachable, 2);
    // It was not dead after all.
    net.meddle = None;
    net.run(SECOND * 3);
    assert!(matches!(net.events(0)[..], [Event::Up { .. }]));
    assert_eq!(net.received(1).len(), 1);
}

fn process_ended(net: &mut Net, end: ProcessEnd) {
    let now = net.now;
    net.engine(0).begin_cycle(now);
    net.engine(0).on_process_ended(now, id(1), end);
    net.flush(0);
}

fn is_end(event: &Event, unknown: usize) -> bool {
    let died = EndReason::ProcessDied;
    matches!(event, Event::Ended { reason, outcomes, .. } if *reason == died && outcomes.len() == unknown)
}

/// F17: the launcher of a process reports that it has ended: its peers report the loss within a few
/// probe timeouts, whether they were talking to it or not, and the end if no other process follows.
#[test]
fn f17_a_process_that_has_ended_is_lost_at_once_and_ends_if_it_is_gone() {
    let (node, cause) = (id(1), LostCause::ProcessDied);
    for (talking, idle) in [(true, SECOND), (false, SECOND), (false, SECOND * 120)] {
        let (mut net, ..) = unanswered();
        if !talking {
            net.meddle = None;
            net.run(idle);
            net.discard_events();
            net.meddle = Some(Box::new(|_, _| None));
        }
        process_ended(&mut net, Replaced);
        net.run(MS * 400);
        assert_eq!(
            net.events(0),
            [Event::Lost { node, cause }],
            "{talking} {idle:?}"
        );
        net.run(SECOND * 5);
        assert_eq!(net.events(0), [], "another process may follow");
        process_ended(&mut net, Finished);
        let events = net.events(0);
        let [end] = &events[..] else {
            panic!("{events:?}");
        };
        assert!(is_end(end, usize::from(talking)), "{end:?}");
        // The same in one step, for a session that begins after that.
        net.send(0, id(1), message(b"to nobody"));
        net.run(MS * 400);
        let events = net.events(0);
        let [
            Event::Lost {
                node: told,
                cause: why,
            },
            end,
        ] = &events[..]
        else {
            panic!("{events:?}");
        };
        assert!((*told, *why) == (node, cause) && is_end(end, 1), "{end:?}");
        net.run(SECOND * 400);
        assert_eq!(net.events(0), [], "it is not called any more");
    }
}

/// Sets whether a launcher supervises the second node.
fn supervise(net: &mut Net, supervised: bool) {
    net.engine(0).set_supervised(0..=9, supervised);
    net.flush(0);
}

/// A supervised peer that starts late: it is quiet, and hears everything in the end.
#[test]
fn f35_a_supervised_peer_that_starts_late_is_not_given_up() {
    let mut net = cut_off();
    supervise(&mut net, true);
    net.send(0, id(1), message(b"early"));
    net.run(SECOND * 3_600);
    assert_eq!(net.events(0), [Event::Quiet { node: id(1) }]);
    net.meddle = None;
    net.run(SECOND * 4);
    assert!(matches!(net.events(0)[..], [Event::Up { .. }]));
    assert_eq!(net.received(1).len(), 1);
}

/// A supervised peer that is stopped, as in a debugger: it goes on where it was.
#[test]
fn f16_f35_a_supervised_peer_that_is_stopped_is_not_given_up() {
    let (mut net, ..) = unanswered();
    supervise(&mut net, true);
    let call = CallId(3);
    let now = net.now;
    net.engine(0).call(now, id(1), call, message(b"?")).unwrap();
    net.run(SECOND * 3_600);
    assert_eq!(net.events(0), [Event::Quiet { node: id(1) }]);
    assert_eq!(net.engine(0).poll_call(), None);
    assert_eq!(
        net.engine(0).member_state(id(1)).unwrap().link,
        LinkState::Quiet
    );
    net.meddle = None;
    // A sender without socket credit asks once in 10 s.
    net.run(SECOND * 11);
    assert!(matches!(net.events(0)[..], [Event::Up { .. }]));
    assert_eq!(net.received(1).len(), 2, "the message and the call");
}

/// Its end is noticed as ever, and its next process may take its time to start.
#[test]
fn f14_f17_f35_the_next_process_of_a_supervised_peer_may_start_late() {
    let (mut net, ..) = unanswered();
    supervise(&mut net, true);
    net.run(SECOND * 20);
    net.discard_events();
    process_ended(&mut net, Replaced);
    net.run(MS * 400);
    let (node, cause) = (id(1), LostCause::ProcessDied);
    assert_eq!(net.events(0), [Event::Lost { node, cause }]);
    net.run(SECOND * 3_600);
    assert_eq!(net.events(0), []);
    net.restart(1);
    net.meddle = None;
    net.run(SECOND * 4);
    let events = net.events(0);
    let restarted = |event: &Event| matches!(event, Event::Ended { reason, .. } if *reason == EndReason::Restarted);
    assert!(events.iter().any(restarted), "{events:?}");
    // Another one does not follow.
    net.meddle = Some(Box::new(|_, _| None));
    net.send(0, id(1), message(b"unheard"));
    process_ended(&mut net, Finished);
    net.run(SECOND * 2);
    let events = net.events(0);
    assert!(events.iter().any(|event| is_end(event, 1)), "{events:?}");
}

/// Silence counts again when the launcher is gone, and for a node of whose end it told.
#[test]
fn f17_silence_counts_again_when_no_launcher_supervises_the_peer() {
    for by_end in [true, false] {
        let (mut net, ..) = unanswered();
        supervise(&mut net, true);
        net.run(SECOND * 100);
        net.discard_events();
        if by_end {
            // The report was early: it answers once more.
            net.meddle = None;
            process_ended(&mut net, Finished);
            net.run(SECOND * 10);
            net.discard_events();
            net.meddle = Some(Box::new(|_, _| None));
            net.send(0, id(1), message(b"unheard, too"));
            net.run(SECOND * 20);
            assert_eq!(net.events(0), [lost(1)]);
        } else {
            supervise(&mut net, false);
        }
        net.run(SECOND * 300);
        let events = net.events(0);
        assert!(
            matches!(&events[..], [Event::Ended { reason, .. }] if *reason == EndReason::Silent),
            "{events:?}"
        );
    }
}

/// A launcher may say so before the program names the node. One that refuses is not silent.
#[test]
fn f35_a_supervised_peer_that_refuses_is_lost_and_given_up() {
    let config = |host| Config {
        accept: if host == 1 {
            AcceptPolicy::Book
        } else {
            AcceptPolicy::Anyone
        },
        ..Config::default()
    };
    let mut net = Net::new(3, config);
    net.engine(0).set_supervised(0..=9, true);
    let now = net.now;
    net.engine(0).add_peer(now, id(7), address(1)).unwrap();
    net.engine(0).add_peer(now, id(8), address(9)).unwrap();
    net.send(0, id(7), message(b"to another"));
    net.send(0, id(8), message(b"to one that starts late"));
    net.run(SECOND * 400);
    let (events, reason) = (net.events(0), RefusedReason::WrongNode);
    let quiet = Event::Quiet { node: id(8) };
    let refused = Event::Refused {
        node: id(7),
        reason,
    };
    assert!(events.contains(&quiet) && events.contains(&refused));
    assert!(
        matches!(events.last(), Some(Event::Ended { node, reason, .. }) if *node == id(7) && *reason == EndReason::Silent),
        "{events:?}"
    );
}

/// F17: an unattended peer that was silent is not computing if its process has ended.
#[test]
fn f17_a_quiet_peer_whose_process_has_ended_is_lost() {
    let mut net = Net::new(2, |host| Config {
        unattended: host == 1,
        ..Config::default()
    });
    net.send(0, id(1), message(b"heard"));
    net.run(SECOND);
    net.meddle = Some(Box::new(|_, _| None));
    net.send(0, id(1), message(b"unheard"));
    net.run(SECOND * 20);
    net.discard_events();
    process_ended(&mut net, Finished);
    net.run(SECOND * 2);
    let events = net.events(0);
    assert!(
        matches!(&events[..], [Event::Lost { .. }, end] if is_end(end, 1)),
        "{events:?}"
    );
}

/// F17: a process announced that it may be quiet, and closed. The next process at its address gives
/// cookies, but never accepts: it announced nothing, although messages may be on their way to it.
#[test]
fn f17_what_an_unattended_process_announced_ends_with_its_session() {
    let mut net = Net::new(2, |host| Config {
        unattended: host == 1,
        ..Config::default()
    });
    net.send(0, id(1), message(b"heard"));
    net.run(SECOND);
    let now = net.now;
    net.engine(1).close(now, SECOND);
    net.flush(1);
    net.run(SECOND);
    assert!(matches!(net.events(0)[..], [.., Event::Ended { .. }]));
    net.restart(1);
    net.discard_events();
    let accepts = |bytes: &[u8]| PacketType::from_wire(bytes[0] & 15) == Some(PacketType::Accept);
    net.meddle = Some(Box::new(move |to, bytes| {
        (to != address(0) || !accepts(&bytes) && bytes[0] & 15 != 0).then_some(bytes)
    }));
    net.send(0, id(1), message(b"unheard"));
    net.run(SECOND * 5);
    net.meddle = Some(Box::new(|_, _| None));
    net.run(SECOND * 60);
    let events = net.events(0);
    assert!(matches!(&events[..], [Event::Lost { .. }]), "{events:?}");
}

/// The launcher's report about a process may come when another one has taken its place, or the
/// process was not the node.
#[test]
fn f14_a_peer_that_answers_has_not_ended_whatever_its_launcher_says() {
    for end in [Replaced, Finished, Failed] {
        let (mut net, ..) = unanswered();
        net.meddle = None;
        process_ended(&mut net, end);
        net.run(SECOND * 30);
        assert_eq!(net.events(0), []);
        assert_eq!(net.received(1).len(), 1);
        // A node that connects again by itself is heard, and its silence is judged as any other.
        net.meddle = Some(Box::new(|_, _| None));
        net.send(0, id(1), message(b"unheard"));
        net.run(SECOND * 9);
        assert_eq!(net.events(0), []);
    }
}

/// A peer that never answered may be starting: only the report that no process follows ends the
/// waiting messages.
#[test]
fn f23_messages_before_the_first_contact_end_with_the_last_process() {
    let mut net = cut_off();
    net.send(0, id(1), message(b"early"));
    process_ended(&mut net, Replaced);
    net.run(SECOND * 9);
    assert_eq!(net.events(0), []);
    process_ended(&mut net, Finished);
    net.run(SECOND * 2);
    let events = net.events(0);
    assert!(
        matches!(&events[..], [Event::Lost { .. }, end] if is_end(end, 1)),
        "{events:?}"
    );
}

/// A program may wait for the first message of a process that dies before it sent one.
#[test]
fn f17_a_process_that_fails_before_it_ever_talked_is_lost_at_once() {
    let (node, cause) = (id(1), LostCause::ProcessDied);
    let mut net = cut_off();
    supervise(&mut net, true);
    for end in [Replaced, Finished] {
        process_ended(&mut net, end);
        net.run(SECOND * 30);
        assert_eq!(net.events(0), [], "{end:?}");
    }
    process_ended(&mut net, Failed);
    net.run(SECOND * 2);
    let events = net.events(0);
    assert_eq!(events[0], Event::Lost { node, cause });
    assert!(is_end(&events[1], 0) && events.len() == 2, "{events:?}");
    net.run(SECOND * 400);
    assert_eq!(net.events(0), [], "said once");
}

/// A session that was closed in order is over: its peer's failure afterwards is nobody's loss.
#[test]
fn f17_a_process_that_fails_after_it_closed_its_node_is_not_lost() {
    let (mut net, ..) = unanswered();
    net.meddle = None;
    net.run(SECOND);
    let now = net.now;
    net.engine(1).close(now, SECOND);
    net.flush(1);
    net.run(SECOND * 20);
    net.discard_events();
    net.meddle = Some(Box::new(|_, _| None));
    process_ended(&mut net, Failed);
    net.run(SECOND * 20);
    assert_eq!(net.events(0), []);
}

/// A call does not wait for the next process with this node ID.
#[test]
fn f17_a_death_that_the_kernel_reports_ends_the_calls_to_the_process() {
    let (mut net, to, packet) = unanswered();
    let now = net.now;
    let call = CallId(7);
    net.engine(0).call(now, id(1), call, message(b"?")).unwrap();
    report_closed(&mut net, to, &packet);
    net.run(MS * 50);
    assert_eq!(
        net.engine(0).poll_call(),
        Some((call, Err(CallError::Died)))
    );
    assert_eq!(net.engine(0).open_calls(), 0);
    let (node, cause) = (id(1), LostCause::ProcessDied);
    assert_eq!(net.events(0), [Event::Lost { node, cause }]);
}

/// Makes a call of host 0 and returns its result, if it has one at once.
fn call_at_once(net: &mut Net, id_of_call: u64) -> Option<CallResult> {
    let (now, call) = (net.now, CallId(id_of_call));
    (net.engine(0).call(now, id(1), call, message(b"?"))).unwrap();
    let done = net.engine(0).poll_call();
    net.flush(0);
    done.map(|(done, result)| {
        assert_eq!(done, call);
        result
    })
}

/// A call to a process that is known to have died fails at once, and sends nothing to the next one.
#[test]
fn f17_a_call_to_a_process_that_has_died_fails_at_once() {
    let (mut net, to, packet) = unanswered();
    report_closed(&mut net, to, &packet);
    assert_eq!(call_at_once(&mut net, 1), None, "it may answer");
    net.run(MS * 50);
    assert_eq!(net.engine(0).poll_call().unwrap().1, Err(CallError::Died));
    let queued = net.engine(0).queue_len(id(1));
    for number in 2..5 {
        assert_eq!(call_at_once(&mut net, number), Some(Err(CallError::Died)));
        net.run(SECOND);
    }
    assert_eq!(net.engine(0).queue_len(id(1)), queued);
    // A full queue holds no call up.
    let now = net.now;
    while (net.engine(0).send(now, id(1), message(&[1; 100_000]))).is_ok() {}
    assert_eq!(call_at_once(&mut net, 5), Some(Err(CallError::Died)));
    // The next process is found, although the calls sent nothing.
    net.restart(1);
    net.meddle = None;
    net.run(SECOND * 2);
    net.discard_events();
    assert_eq!(call_at_once(&mut net, 6), None);
    net.run(SECOND);
    assert_eq!(net.received(1).len(), 1);
}

/// Silence alone ends no call: the peer may answer again. The report of its death does, even if it
/// comes later.
#[test]
fn f17_a_death_that_is_reported_after_the_silence_ends_the_calls() {
    for by_launcher in [false, true] {
        let (mut net, to, packet) = unanswered();
        net.run(SECOND * 11);
        assert_eq!(net.events(0), [lost(1)]);
        assert_eq!(call_at_once(&mut net, 1), None);
        net.run(SECOND * 11);
        assert_eq!(net.engine(0).poll_call(), None);
        match by_launcher {
            true => process_ended(&mut net, Replaced),
            false => report_closed(&mut net, to, &packet),
        }
        let died = Err(CallError::Died);
        assert_eq!(
            net.engine(0).poll_call(),
            Some((CallId(1), died)),
            "{by_launcher}"
        );
        assert_eq!(net.engine(0).open_calls(), 0);
    }
}

/// No other process follows, as the launcher says. One that comes all the same is found.
#[test]
fn f17_a_call_to_a_process_that_is_gone_fails_at_once_and_looks_for_another() {
    let (mut net, ..) = unanswered();
    process_ended(&mut net, Finished);
    net.run(MS * 400);
    let events = net.events(0);
    assert!(is_end(&events[1], 1), "{events:?}");
    for number in 0..3 {
        let result = call_at_once(&mut net, number);
        assert_eq!(result, Some(Err(CallError::Died)));
        net.run(SECOND * 20);
    }
    net.meddle = None;
    net.restart(1);
    assert_eq!(call_at_once(&mut net, 3), Some(Err(CallError::Died)));
    net.run(SECOND);
    assert_eq!(call_at_once(&mut net, 4), None);
    net.run(SECOND);
    assert_eq!(net.received(1).len(), 1);
}

/// Forged reports do not use up the rate limit of true ones.
#[test]
fn f25_a_closed_port_is_noticed_among_thousands_of_forged_reports() {
    let (mut net, to, packet) = unanswered();
    let why = Unreachable::Port;
    let quoted = &packet[..32];
    for number in 0..5_000 {
        // The last one is the kernel's own.
        let local = number == 4_999;
        let reported = Undelivered {
            to,
            why,
            local,
            quoted,
        };
        report(&mut net, &reported);
    }
    net.run(MS * 50);
    let (node, cause) = (id(1), LostCause::ProcessDied);
    assert_eq!(net.events(0), [Event::Lost { node, cause }]);
}

/// F25: reports from the network, and reports about others, end and shorten nothing.
#[test]
fn f25_forged_reports_end_nothing() {
    let why = Unreachable::Port;
    let (_, there, packet) = unanswered();
    let mut other = packet.clone();
    other[16] ^= 1;
    for (to, why, local, quoted) in [
        (there, why, false, &packet[..]),
        (there, why, true, &other[..]),
        (there, why, true, &packet[..20]),
        (there, Unreachable::Host, true, &packet[..]),
        (address(7), why, true, &packet[..]),
    ] {
        let (mut net, ..) = unanswered();
        for _ in 0..1_500 {
            report(
                &mut net,
                &Undelivered {
                    to,
                    why,
                    local,
                    quoted,
                },
            );
        }
        net.run(SECOND * 9);
        assert_eq!(net.events(0), [], "{to} {why:?} {local}");
        net.run(SECOND * 2);
        // The report is told as the cause, if it was about that peer.
        let cause = match to == there {
            true => LostCause::Unreachable(why),
            false => LostCause::NoAnswer,
        };
        let node = id(1);
        assert_eq!(net.events(0), [Event::Lost { node, cause }]);
    }
}

/// F25: a peer that answers is not lost, even if this machine's kernel reported its port as closed.
#[test]
fn f25_a_report_about_a_peer_that_answers_changes_nothing() {
    let (mut net, to, packet) = unanswered();
    net.meddle = None;
    let why = Unreachable::Port;
    let (local, quoted) = (true, &packet[..]);
    report(
        &mut net,
        &Undelivered {
            to,
            why,
            local,
            quoted,
        },
    );
    net.run(SECOND * 30);
    assert_eq!(net.events(0), []);
    assert_eq!(net.received(1).len(), 1);
}

#[test]
fn f25_a_peer_that_was_never_reached_is_lost_with_the_systems_report() {
    let mut net = cut_off();
    net.send(0, id(1), message(b"unheard"));
    let why = Unreachable::Network;
    let (to, local, quoted) = (address(1), false, &[][..]);
    report(
        &mut net,
        &Undelivered {
            to,
            why,
            local,
            quoted,
        },
    );
    net.run(SECOND * 11);
    let (node, cause) = (id(1), LostCause::Unreachable(why));
    assert_eq!(net.events(0), [Event::Lost { node, cause }]);
}

/// A name may have addresses without a process: the others are tried while the peer is silent.
#[test]
fn f23_all_addresses_of_a_peer_are_tried_in_turn() {
    for place in 0..8 {
        let mut net = Net::new(2, |_| Config::default());
        let nowhere = |port| SocketAddr::from(([10, 9, 9, 9], port));
        let mut all: Vec<_> = (1..8).map(nowhere).collect();
        all.insert(place, address(1));
        let now = net.now;
        let addresses: Addresses = all.into_iter().collect();
        net.engine(0).add_peer(now, id(1), addresses).unwrap();
        net.send(0, id(1), message(b"found"));
        net.run(if place < 2 { MS * 150 } else { SECOND * 7 });
        assert_eq!(net.received(1).len(), 1, "at {place}");
        assert!(matches!(net.events(0)[..], [Event::Up { .. }]));
    }
}

/// The others are also tried when another node has the first address and refuses.
#[test]
fn f23_the_next_address_is_tried_when_another_node_has_this_one() {
    let mut net = Net::new(3, |_| Config::default());
    let now = net.now;
    let addresses: Addresses = [address(2), address(1)].into_iter().collect();
    net.engine(0).add_peer(now, id(1), addresses).unwrap();
    net.send(0, id(1), message(b"found"));
    net.run(SECOND * 3);
    assert_eq!(net.received(1).len(), 1);
}

#[test]
fn a_peer_that_is_removed_ends_and_is_unknown() {
    let mut net = Net::new(3, |_| Config::default());
    for peer in [1, 2] {
        net.send(0, id(peer), message(b"heard"));
    }
    net.run(SECOND);
    net.discard_events();
    let now = net.now;
    assert!(net.engine(0).remove_peer(now, id(1)).unwrap());
    net.flush(0);
    net.run(SECOND);
    let abandoned = EndReason::Reset;
    let events = net.events(0);
    assert!(
        matches!(&events[..], [Event::Ended { reason, .. }] if *reason == abandoned),
        "{events:?}"
    );
    let unknown = SendError::UnknownPeer(id(1));
    assert_eq!(
        net.engine(0).send(now, id(1), message(b"more")),
        Err(unknown.clone())
    );
    assert_eq!(net.engine(0).connect(now, id(1)), Err(unknown.clone()));
    assert_eq!(net.engine(0).remove_peer(now, id(1)), Err(unknown));
    assert!(!net.engine(0).knows(id(1)));
    // The other peer stays, and the removed one cannot connect by itself: only nodes of the book
    // may.
    let infos = net.engine(0).peer_infos().collect::<Vec<_>>();
    assert!(
        matches!(
            infos[..],
            [PeerInfo {
                link: LinkState::Up,
                known: true,
                ..
            }]
        ),
        "{infos:?}"
    );
    net.send(1, id(0), message(b"let me in"));
    net.run(SECOND * 2);
    assert_eq!(net.received(0).len(), 0);
    let (node, reason) = (id(0), RefusedReason::NotAllowed);
    assert!(net.events(1).contains(&Event::Refused { node, reason }));
    // The program may enter it again.
    let now = net.now;
    net.engine(0).add_peer(now, id(1), address(1)).unwrap();
    net.run(SECOND * 2);
    assert_eq!(net.received(0).len(), 1);
}

/// A service whose members change: members that left make room for others.
#[test]
fn f04_peers_that_are_removed_make_room_for_others() {
    let config = |_| Config {
        max_peers: 8,
        ..Config::default()
    };
    let mut net = Net::new(2, config);
    for member in 0..100 {
        let now = net.now;
        let node = NodeId(1_000 + member);
        net.engine(0).add_peer(now, node, address(200)).unwrap();
        net.engine(0).connect(now, node).unwrap();
        let urgent = Priority::new(6, 1).unwrap();
        net.change(0, node, |o| o.priority = urgent).unwrap();
        net.flush(0);
        net.run(SECOND);
        net.engine(0).remove_peer(now, node).unwrap();
        net.flush(0);
        net.run(SECOND * 20);
        // This many removed peers, and as many in the book.
        assert!(net.engine(0).peer_count() <= 2 * 8);
    }
    assert_eq!(net.engine(0).peer_infos().count(), 1);
}

/// F17: questions whether the peer lives end with what waited for it, also on a path that takes
/// longer than the time between two of them, and becomes slower.
#[test]
fn f17_no_question_is_the_reason_for_the_next() {
    let mut net = Net::new(2, |_| Config {
        silence_timeout: SECOND,
        ..Config::default()
    });
    net.latency = MS * 350;
    let (now, call) = (net.now, CallId(1));
    net.engine(0).call(now, id(1), call, message(b"?")).unwrap();
    net.flush(0);
    let slower = |net: &mut Net| {
        for _ in 0..50 {
            net.run(MS * 100);
            net.latency += MS;
        }
        net.engine(0)
            .peer_stats(id(1))
            .unwrap()
            .traffic
            .packets_sent
    };
    let asked = slower(&mut net);
    net.engine(0).cancel_call(call);
    let last = slower(&mut net);
    assert!(last <= asked + 3, "{asked} and {last} packets");
    assert_eq!(slower(&mut net), last);
}
