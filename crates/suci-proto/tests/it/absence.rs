//! Nobody at the port of a peer: questions end as soon as that is known, and forged reports end
//! none.

use crate::net::{Net, address, id, message};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use suci_proto::time::{Duration, Instant};
use suci_proto::types::ChannelId;
use suci_proto::{
    CallError, CallId, Config, EndReason, Event, LostCause, Outgoing, Port, PortInput, Ports,
    Undelivered, Unreachable,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Packets that were sent and did not arrive.
type Vanished = Rc<RefCell<Vec<(SocketAddr, Vec<u8>)>>>;

/// Two hosts with sockets.
fn net() -> Net {
    Net::new(2, |_| Config {
        ports: Ports::default().with(Port::Sockets),
        ..Config::default()
    })
}

/// No packet of host 0 arrives any more.
fn cut(net: &mut Net) -> Vanished {
    let vanished = Vanished::default();
    let seen = Rc::clone(&vanished);
    net.meddle = Some(Box::new(move |to, packet| {
        if to == address(0) {
            return Some(packet);
        }
        seen.borrow_mut().push((to, packet));
        None
    }));
    vanished
}

/// Reports as closed the ports to which packets of host 0 went that vanished since the last call.
/// Returns how many there were.
fn report(net: &mut Net, vanished: &Vanished, local: bool) -> usize {
    let packets = std::mem::take(&mut *vanished.borrow_mut());
    let now = net.now;
    for (to, packet) in &packets {
        let closed = Undelivered {
            to: *to,
            why: Unreachable::Port,
            local,
            quoted: &packet[..packet.len().min(32)],
        };
        net.engine(0).on_undelivered(now, &closed);
    }
    net.flush(0);
    packets.len()
}

/// Lets time pass and reports each packet at once, until sockets hear that nobody is there. Returns
/// the time that took.
fn until_absent(net: &mut Net, vanished: &Vanished, local: bool) -> Option<Duration> {
    let begun = net.now;
    while net.now.since(begun) < SECOND * 5 {
        report(net, vanished, local);
        if let Some(input) = poll_sockets(net) {
            assert_eq!(input, PortInput::NoProcess(id(1)));
            assert!(net.engine(0).peer_infos().all(|peer| peer.absent));
            return Some(net.now.since(begun));
        }
        net.run(MS);
    }
    None
}

/// A message of sockets that opens a connection, as the layer sends it.
fn open(net: &mut Net) {
    let question = Outgoing {
        channel: ChannelId::of_sockets(0),
        ..message(b"open")
    };
    net.send(0, id(1), question);
}

/// F25: nobody has the port of this machine: a connection of sockets is refused at once, and so is
/// the next one. Once a process is there, the next one opens.
#[test]
fn f25_sockets_hear_at_once_that_nobody_is_at_a_port_of_this_machine() {
    let mut net = net();
    let vanished = cut(&mut net);
    for _ in 0..3 {
        open(&mut net);
        let took = until_absent(&mut net, &vanished, true);
        assert_eq!(took, Some(Duration::ZERO));
        net.run(SECOND * 2 + MS * 300);
        vanished.borrow_mut().clear();
        assert_eq!(poll_sockets(&mut net), None, "said once");
        assert_eq!(net.events(0), [], "it may be starting");
    }
    net.meddle = None;
    open(&mut net);
    net.run(MS * 10);
    assert!(matches!(net.events(0)[..], [Event::Up { .. }]));
}

/// F25: the network reports that nobody is there: two more questions decide.
#[test]
fn f25_a_report_of_the_network_refuses_sockets_after_a_short_challenge() {
    let mut net = net();
    let vanished = cut(&mut net);
    open(&mut net);
    let took = until_absent(&mut net, &vanished, false).unwrap();
    println!("figure: refused after {took:?}");
    assert!((MS * 100..=MS * 500).contains(&took), "{took:?}");
    // Each question is decided anew.
    open(&mut net);
    let took = until_absent(&mut net, &vanished, false).unwrap();
    assert!((MS * 100..=MS * 500).contains(&took), "{took:?}");
    // A host may send few reports in a second: one is enough.
    let (mut net, reports) = (self::net(), 1);
    let vanished = cut(&mut net);
    open(&mut net);
    assert_eq!(report(&mut net, &vanished, false), reports);
    net.run(MS * 800);
    let told = poll_sockets(&mut net);
    assert_eq!(told, Some(PortInput::NoProcess(id(1))));
}

/// Returns what host 0 tells its sockets next, but that the peer answers.
fn poll_sockets(net: &mut Net) -> Option<PortInput> {
    let mut inputs = std::iter::from_fn(|| net.engine(0).poll_port(Port::Sockets));
    inputs.find(|input| !matches!(input, PortInput::Up(_)))
}

/// A host that sends six reports at once and then one in each second, as Linux does.
struct FewReports {
    left: usize,
    since: Instant,
}

impl FewReports {
    /// Lets a millisecond pass. Reports as closed the ports of packets that vanished, while it may.
    fn pass(&mut self, net: &mut Net, vanished: &Vanished) {
        if net.now.since(self.since) >= SECOND {
            *self = Self {
                left: (self.left + 1).min(6),
                since: net.now,
            };
        }
        vanished.borrow_mut().truncate(self.left);
        self.left -= report(net, vanished, false);
        net.run(MS);
    }
}

/// F25: each connection is refused as soon as the first one, whatever the program's pauses.
#[test]
fn f25_each_connection_is_refused_as_soon_as_the_first_although_reports_are_few() {
    for pause in [1, 1_000, 3_000] {
        let mut net = net();
        let vanished = cut(&mut net);
        let mut host = FewReports {
            left: 6,
            since: net.now,
        };
        let mut all = Vec::new();
        for _ in 0..20 {
            open(&mut net);
            let begun = net.now;
            while poll_sockets(&mut net) != Some(PortInput::NoProcess(id(1))) {
                assert!(net.now.since(begun) < SECOND * 5, "{all:?}");
                host.pass(&mut net, &vanished);
            }
            all.push(net.now.since(begun));
            (0..pause).for_each(|_| host.pass(&mut net, &vanished));
        }
        let longest = all.iter().max().unwrap();
        println!("figure: {pause} ms apart, refused after {longest:?} at most");
        assert!(*longest <= all[0] + MS * 2, "{all:?}");
        // The process starts: the next connection opens, also if its first packets are lost.
        let _ = std::iter::from_fn(|| poll_sockets(&mut net)).last();
        open(&mut net);
        net.run(MS * 50);
        net.meddle = None;
        net.run(MS * 200);
        assert_eq!(poll_sockets(&mut net), None);
        assert!(matches!(net.events(0)[..], [.., Event::Up { .. }]));
    }
}

/// F25: what reports showed counts for a short time, and only for the addresses that they named.
#[test]
fn f25_earlier_reports_count_for_a_short_time_and_for_their_addresses() {
    for is_moved in [false, true] {
        let mut net = net();
        let vanished = cut(&mut net);
        open(&mut net);
        assert!(until_absent(&mut net, &vanished, false).is_some());
        vanished.borrow_mut().clear();
        match is_moved {
            true => {
                let now = net.now;
                net.engine(0).add_peer(now, id(1), address(7)).unwrap();
            }
            false => net.run(SECOND * 11),
        }
        open(&mut net);
        net.run(SECOND * 5);
        let told: Vec<_> = std::iter::from_fn(|| poll_sockets(&mut net)).collect();
        let is_lost = |input: &PortInput| matches!(input, PortInput::Lost(..));
        assert!(told.iter().all(is_lost), "{is_moved} {told:?}");
    }
}

/// F25: reports say that no way leads to the host: a connection fails for that reason, and so does
/// each further one, as soon.
#[test]
fn f25_sockets_hear_that_no_way_leads_to_a_host() {
    let mut net = net();
    let vanished = cut(&mut net);
    let mut all = Vec::new();
    for _ in 0..3 {
        open(&mut net);
        let begun = net.now;
        let told = loop {
            assert!(net.now.since(begun) < SECOND * 8, "{all:?}");
            net.run(MS * 50);
            // The kernel asks the network for the host three times, a second apart.
            let waited = net.now.since(begun).as_millis() % 3_000 >= 2_950;
            let reported = vanished.borrow().len() * usize::from(waited);
            for (to, packet) in vanished.borrow_mut().drain(..reported) {
                let now = net.now;
                let absent = Undelivered {
                    to,
                    why: Unreachable::Host,
                    local: false,
                    quoted: &packet[..packet.len().min(32)],
                };
                net.engine(0).on_undelivered(now, &absent);
            }
            net.flush(0);
            if let Some(input) = poll_sockets(&mut net) {
                break input;
            }
        };
        let cause = LostCause::Unreachable(Unreachable::Host);
        let lost = PortInput::Lost(id(1), cause);
        assert!(told == PortInput::NoWay(id(1)) || told == lost, "{told:?}");
        assert!(net.engine(0).peer_infos().all(|peer| !peer.absent));
        all.push(net.now.since(begun));
    }
    println!("figure: failed after {all:?}");
    assert!(all.iter().all(|took| *took <= all[0] + SECOND), "{all:?}");
}

/// F25: forged reports, or late ones, refuse no connection to a peer that answers.
#[test]
fn f25_forged_reports_refuse_no_connection() {
    for (local, changed) in [(false, None), (true, Some(16)), (false, Some(16))] {
        let mut net = net();
        let vanished = Vanished::default();
        let seen = Rc::clone(&vanished);
        // The answers are slow.
        net.meddle = Some(Box::new(move |to, mut packet| {
            if to == address(1) {
                let arrives = packet.clone();
                if let Some(at) = changed {
                    packet[at] ^= 1;
                }
                seen.borrow_mut().push((to, packet));
                return Some(arrives);
            }
            Some(packet)
        }));
        for _ in 0..20 {
            open(&mut net);
            for _ in 0..100 {
                report(&mut net, &vanished, local);
                net.run(MS / 50);
            }
            net.run(SECOND / 10);
        }
        assert_eq!(poll_sockets(&mut net), None, "{local} {changed:?}");
        let events = net.events(0);
        assert!(matches!(events[..], [Event::Up { .. }]), "{events:?}");
    }
}

/// F25: a process on another host was killed while nothing was asked of it. Connections are refused
/// after a short challenge; messages wait for the silence timeout.
#[test]
fn f25_a_killed_process_of_another_host_refuses_sockets_but_is_not_lost() {
    let mut net = net();
    net.send(0, id(1), message(b"heard"));
    net.run(SECOND);
    net.discard_events();
    let vanished = cut(&mut net);
    open(&mut net);
    let took = until_absent(&mut net, &vanished, false).unwrap();
    println!("figure: refused after {took:?}");
    assert!(took < MS * 500, "{took:?}");
    assert_eq!(net.events(0), []);
    open(&mut net);
    let took = until_absent(&mut net, &vanished, false).unwrap();
    assert!(took < MS * 500, "{took:?}");
    net.run(SECOND * 11);
    let cause = LostCause::Unreachable(Unreachable::Port);
    assert_eq!(net.events(0), [Event::Lost { node: id(1), cause }]);
}

/// F25: a name has several addresses, and nobody is at the first ones: the next is tried at once.
#[test]
fn f25_the_next_address_is_tried_at_once_where_nobody_is_at_one() {
    for local in [true, false] {
        let mut net = net();
        let now = net.now;
        let all = [7, 8, 9, 1].map(address);
        let added = net.engine(0).add_peer(
            now,
            id(1),
            all.into_iter().collect::<suci_proto::Addresses>(),
        );
        added.unwrap();
        let vanished = Vanished::default();
        let seen = Rc::clone(&vanished);
        net.meddle = Some(Box::new(move |to, packet| {
            if to == address(0) || to == address(1) {
                return Some(packet);
            }
            seen.borrow_mut().push((to, packet));
            None
        }));
        open(&mut net);
        for _ in 0..3 {
            assert_eq!(report(&mut net, &vanished, local), 1, "{local}");
        }
        net.run(MS);
        assert!(matches!(net.events(0)[..], [Event::Up { .. }]));
        assert_eq!(poll_sockets(&mut net), None);
    }
}

/// Calls host 1, and returns the result if it comes at once, with reports of this machine's kernel.
fn call(net: &mut Net, vanished: &Vanished, number: u64) -> Option<CallError> {
    let now = net.now;
    let called = net
        .engine(0)
        .call(now, id(1), CallId(number), message(b"?"));
    called.unwrap();
    net.flush(0);
    for _ in 0..3 {
        report(net, vanished, true);
        net.turn();
    }
    let done = net.engine(0).poll_call();
    done.and_then(|(_, result)| result.err())
}

/// F17: a process of this machine was killed while idle. The kernel's answers to the question and
/// to the one after it end the call, however little is known of the round-trip time.
#[test]
fn f17_the_kernels_second_answer_ends_a_call_to_a_process_that_was_killed_while_idle() {
    // The first to speak has measured the round trip, the other one has not.
    for first in [0, 1] {
        let mut net = net();
        net.send(first, id(1 - first), message(b"heard"));
        net.run(SECOND * 20);
        net.discard_events();
        let vanished = cut(&mut net);
        assert_eq!(call(&mut net, &vanished, 1), Some(CallError::Died));
        let (node, cause) = (id(1), LostCause::ProcessDied);
        assert_eq!(net.events(0), [Event::Lost { node, cause }]);
        // Each further call asks anew, so that the next process is found at once.
        assert_eq!(call(&mut net, &vanished, 2), Some(CallError::Died));
        net.run(SECOND * 3);
        net.restart(1);
        net.meddle = None;
        assert_eq!(call(&mut net, &vanished, 3), Some(CallError::Died));
        net.run(MS);
        assert_eq!(call(&mut net, &vanished, 4), None);
        net.run(MS);
        assert_eq!(net.received(1).len(), 1);
    }
}

/// F17: the kernel's reports of packets that were sent before its first report are one report.
#[test]
fn f17_reports_of_packets_that_were_under_way_together_are_one_report() {
    let mut net = net();
    net.send(0, id(1), message(b"heard"));
    net.run(SECOND);
    net.discard_events();
    let vanished = cut(&mut net);
    for _ in 0..5 {
        net.send(0, id(1), message(b"unheard"));
    }
    assert_eq!(report(&mut net, &vanished, true), 5);
    net.turn();
    assert_eq!(net.events(0), [], "they were under way");
    report(&mut net, &vanished, true);
    net.turn();
    assert!(matches!(net.events(0)[..], [Event::Lost { .. }]));
}

/// F17: the address of the successor of a killed process ends what was known of that process: its
/// session ends, and the next call goes to the new address at once.
#[test]
fn f17_a_new_address_ends_the_verdict_about_a_killed_process() {
    let mut net = net();
    net.send(0, id(1), message(b"heard"));
    net.run(SECOND);
    net.discard_events();
    let vanished = cut(&mut net);
    assert_eq!(call(&mut net, &vanished, 1), Some(CallError::Died));
    net.discard_events();
    net.run(MS * 50);
    let now = net.now;
    net.engine(0).add_peer(now, id(1), address(1)).unwrap();
    net.flush(0);
    assert_eq!(net.events(0), [], "nothing new");
    vanished.borrow_mut().clear();
    net.engine(0).add_peer(now, id(1), address(7)).unwrap();
    net.flush(0);
    let events = net.events(0);
    let died = EndReason::ProcessDied;
    assert!(
        matches!(&events[..], [Event::Ended { reason, .. }] if *reason == died),
        "{events:?}"
    );
    let called = net.engine(0).call(now, id(1), CallId(2), message(b"?"));
    called.unwrap();
    net.flush(0);
    assert_eq!(
        net.engine(0).poll_call(),
        None,
        "the call waits for its answer"
    );
    let asked: Vec<_> = vanished.borrow().iter().map(|(to, _)| *to).collect();
    assert_eq!(asked, [address(7)]);
}

/// F13: the port of a peer changes, as a relay's does, and this machine's kernel answers for the
/// old port twice. The peer was heard just now, so only its silence would end the session.
#[test]
fn f13_reports_about_a_peer_that_was_heard_just_now_end_nothing_while_it_speaks() {
    let mut net = net();
    net.send(0, id(1), message(b"heard"));
    net.run(SECOND * 20);
    for round in 0..50 {
        net.meddle = None;
        net.send(1, id(0), message(b"here"));
        net.run(MS);
        net.discard_events();
        let vanished = cut(&mut net);
        net.send(0, id(1), message(b"unheard"));
        for _ in 0..3 {
            report(&mut net, &vanished, true);
            net.run(MS / 10);
        }
        assert_eq!(net.events(0), [], "round {round}");
    }
    // Silence ends it: by then a probe timeout would have brought an answer.
    let vanished = cut(&mut net);
    net.send(0, id(1), message(b"unheard"));
    let begun = net.now;
    while net.events(0).is_empty() {
        report(&mut net, &vanished, true);
        net.run(MS / 10);
        assert!(
            net.now.since(begun) < SECOND / 10,
            "{:?}",
            net.now.since(begun)
        );
    }
}

/// F25: a process of this machine ends within the handshake: the question is asked anew.
#[test]
fn f25_a_process_that_ends_within_the_handshake_refuses_at_once() {
    let mut net = net();
    let vanished = Vanished::default();
    let seen = Rc::clone(&vanished);
    let mut packets = 0;
    // The HELLO arrives, and nothing after it.
    net.meddle = Some(Box::new(move |to, packet| {
        packets += u32::from(to == address(1));
        if to == address(0) || packets == 1 {
            return Some(packet);
        }
        seen.borrow_mut().push((to, packet));
        None
    }));
    open(&mut net);
    let took = until_absent(&mut net, &vanished, true).unwrap();
    assert!(took < MS * 5, "{took:?}");
}

/// A host whose process runs at times, and the way there, which takes time.
struct Far {
    one_way: Duration,
    /// Packets to host 1 that are under way, by their time of arrival.
    there: Vec<(Instant, Vec<u8>)>,
    /// Reports under way to host 0.
    back: Vec<(Instant, Vec<u8>)>,
    /// When the process of host 1 starts. Before that its port is closed.
    starts: Instant,
}

impl Far {
    /// Carries packets of host 0, and reports of the host where no process is.
    fn carry(&mut self, net: &mut Net, sent: &Vanished) {
        let now = net.now;
        for (_, packet) in std::mem::take(&mut *sent.borrow_mut()) {
            self.there.push((now + self.one_way, packet));
        }
        let arrived = |queue: &mut Vec<(Instant, Vec<u8>)>| -> Vec<_> {
            queue.extract_if(.., |(at, _)| *at <= now).collect()
        };
        for (_, packet) in arrived(&mut self.there) {
            match now < self.starts {
                true => self.back.push((now + self.one_way, packet)),
                false => net.inject(1, (address(0), packet)),
            }
        }
        for (_, packet) in arrived(&mut self.back) {
            let closed = Undelivered {
                to: address(1),
                why: Unreachable::Port,
                local: false,
                quoted: &packet[..packet.len().min(32)],
            };
            net.engine(0).on_undelivered(now, &closed);
            net.flush(0);
        }
    }

    /// Lets `span` pass. Returns the time after which sockets heard that nobody is there.
    fn pass(&mut self, net: &mut Net, sent: &Vanished, span: Duration) -> Option<Duration> {
        let begun = net.now;
        while net.now.since(begun) < span {
            self.carry(net, sent);
            match poll_sockets(net) {
                Some(PortInput::NoProcess(_)) => return Some(net.now.since(begun)),
                Some(PortInput::Lost(..)) => panic!("lost within the silence timeout"),
                _ => net.run(MS),
            }
        }
        None
    }
}

/// Host 0, all of whose packets go to `Far`, and what host 1 sends takes half of `round_trip`.
fn far(round_trip: Duration) -> (Net, Vanished, Far) {
    let mut net = net();
    net.latency = round_trip / 2;
    let sent = cut(&mut net);
    let far = Far {
        one_way: round_trip / 2,
        there: Vec::new(),
        back: Vec::new(),
        starts: net.now,
    };
    (net, sent, far)
}

/// F25: round trips of 200 ms and more. Reports about an earlier process of the port come after the
/// next process has started, and after the program has asked for it: none of them refuses a
/// connection, whether a session was open or not. A process that never starts does.
#[test]
fn f25_late_reports_of_a_far_host_refuse_no_connection_to_the_next_process() {
    for round_trip in [MS * 200, MS * 500, MS * 900] {
        let mut longest = Duration::ZERO;
        for is_met in [false, true] {
            for step in 0..=14 {
                let (mut net, sent, mut far) = far(round_trip);
                if is_met {
                    net.send(0, id(1), message(b"heard"));
                    assert_eq!(far.pass(&mut net, &sent, SECOND * 5), None);
                    net.restart(1);
                }
                // The first question is refused, and packets of it are under way.
                far.starts = net.now + SECOND * 600;
                open(&mut net);
                let took = far.pass(&mut net, &sent, SECOND * 9);
                longest = longest.max(took.unwrap());
                net.discard_events();
                // The process starts before the next question, or before the packet arrives that
                // challenges the report about it.
                far.starts = net.now + round_trip * step / 10;
                open(&mut net);
                let refused = far.pass(&mut net, &sent, SECOND * 9);
                assert_eq!(refused, None, "{round_trip:?} {is_met} {step}");
                let events = net.events(0);
                let up = |event: &Event| matches!(event, Event::Up { .. });
                assert!(events.iter().any(up), "{events:?}");
            }
        }
        println!("figure: refused after {longest:?} at most, round trip {round_trip:?}");
        assert!(longest < round_trip * 10, "{longest:?}");
    }
}
