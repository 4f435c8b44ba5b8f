//! Floods of newcomers, seen by whole engines in virtual time.

use crate::net::{Net, id, message};
use std::net::SocketAddr;
use suci_proto::limits::COOKIE_LIFETIME;
use suci_proto::time::Duration;
use suci_proto::types::Incarnation;
use suci_proto::wire::{self, CrcScope, Header, Hello, PacketType};
use suci_proto::{AcceptPolicy, Config, EndReason, Event, RefusedReason};

const SECOND: Duration = Duration::from_secs(1);

/// Host 0 serves anyone, at most `max_peers`; the others know it from their books.
fn one_server(clients: usize, max_peers: usize) -> Net {
    Net::new(1 + clients, |host| {
        if host == 0 {
            Config {
                accept: AcceptPolicy::Anyone,
                max_peers,
                ..Config::default()
            }
        } else {
            Config::default()
        }
    })
}

/// A HELLO to host 0 from a node that does not exist.
fn hello(node: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let header = Header {
        kind: PacketType::Hello,
        scope: CrcScope::Datagram,
        index: node,
        number: 0,
        tag: u64::from(node),
    };
    wire::put_header(&mut bytes, &header);
    let hello = Hello {
        target: id(0),
        incarnation: Incarnation(u128::from(node)),
    };
    hello.put(&mut bytes);
    wire::seal(&mut bytes);
    bytes
}

fn exchange(net: &mut Net, client: usize) {
    net.send(client, id(0), message(b"to the server"));
    net.run(SECOND);
    assert_eq!(net.received(0).len(), 1);
    net.send(0, id(client), message(b"to the client"));
    net.run(SECOND);
    assert_eq!(net.received(client).len(), 1);
}

/// F01 and F02: HELLOs from thousands of forged addresses. They create no peer, no answer is longer
/// than its HELLO, and HELLOs beyond the INITs that the socket can take get no answer. Connected
/// peers notice nothing, and two seconds after the flood new nodes are admitted again.
#[test]
fn f01_f02_a_flood_of_hellos_leaves_no_state_and_costs_the_connected_nothing() {
    let mut net = one_server(2, 100);
    exchange(&mut net, 1);
    let asked = 5_000_u32;
    let length = hello(0).len();
    for node in 0..asked {
        let [_, _, high, low] = node.to_be_bytes();
        let nobody = SocketAddr::from(([192, 0, high, low], 9));
        net.inject(0, (nobody, hello(1_000 + node)));
        if node % 100 == 0 {
            // No time passes: after a second the earlier HELLOs would no longer count.
            net.send(1, id(0), message(b"to the server"));
            assert_eq!(net.run_until_received(0).len(), 1);
            net.send(0, id(1), message(b"to the client"));
            assert_eq!(net.run_until_received(1).len(), 1);
        }
    }
    net.run(SECOND / 10);
    let answers = std::mem::take(&mut net.astray);
    assert!(!answers.is_empty());
    assert!(answers.iter().all(|(_, bytes)| bytes.len() <= length));
    let unanswered = net.engine(0).counters().hello_unanswered;
    assert_eq!(answers.len() as u64 + unanswered, u64::from(asked));
    assert!(unanswered > 0, "cookies are bounded by the socket's budget");
    assert_eq!(net.engine(0).peers().collect::<Vec<_>>(), [id(1)]);
    exchange(&mut net, 1);
    net.run(2 * SECOND);
    exchange(&mut net, 2);
}

/// The table of peers is full: new nodes are told so, and the known peers go on.
#[test]
fn f02_newcomers_beyond_the_cap_are_refused_and_the_connected_kept() {
    let mut net = one_server(5, 3);
    (1..=3).for_each(|client| exchange(&mut net, client));
    for client in 4..=5 {
        net.send(client, id(0), message(b"too late"));
        net.run(2 * SECOND);
        let full = Event::Refused {
            node: id(0),
            reason: RefusedReason::TooManyPeers,
        };
        assert!(net.events(client).contains(&full));
    }
    assert_eq!(net.received(0).len(), 0);
    assert_eq!(net.engine(0).peers().count(), 3);
    (1..=3).for_each(|client| exchange(&mut net, client));
    assert!(net.events(0).iter().all(|e| matches!(e, Event::Up { .. })));
}

/// F02: who finds no room is not lost, and gives up at its own limit, however short that is.
#[test]
fn f02_a_newcomer_without_room_gives_up_in_time() {
    let limit = 4 * SECOND;
    let mut net = Net::new(3, |host| match host {
        0 => Config {
            accept: AcceptPolicy::Anyone,
            max_peers: 1,
            ..Config::default()
        },
        _ => Config {
            silence_timeout: SECOND,
            give_up_after: limit,
            ..Config::default()
        },
    });
    exchange(&mut net, 1);
    net.send(2, id(0), message(b"too late"));
    net.run(limit - SECOND / 10);
    let refused = Event::Refused {
        node: id(0),
        reason: RefusedReason::TooManyPeers,
    };
    assert_eq!(net.events(2), [refused]);
    net.run(SECOND / 5);
    let events = net.events(2);
    let silent = EndReason::Silent;
    assert!(
        matches!(&events[..], [Event::Ended { reason, .. }] if *reason == silent),
        "{events:?}"
    );
}

/// F16: a process is stopped in the middle of a cycle, after it drained its socket and before it
/// ran its timers. It continues after any time without counting that time as a peer's silence.
#[test]
fn f16_a_stop_between_input_and_timers_is_no_silence() {
    let mut net = one_server(1, 10);
    exchange(&mut net, 1);
    net.events(1);
    net.send(1, id(0), message(b"under way"));
    let stopped = net.now;
    net.engine(1).begin_cycle(stopped);
    net.now += 20 * SECOND;
    let now = net.now;
    net.engine(1).handle_timeout(now);
    net.run(SECOND);
    assert_eq!(net.events(1), []);
    assert_eq!(net.received(0).len(), 1);
}

/// F02: strangers that closed and left make room for others once no INIT of theirs can still come.
#[test]
fn f02_strangers_that_left_make_room() {
    let mut net = one_server(3, 2);
    for client in 1..=2 {
        exchange(&mut net, client);
        let now = net.now;
        net.engine(client).close(now, SECOND);
        net.run(2 * SECOND);
    }
    net.run(2 * COOKIE_LIFETIME);
    exchange(&mut net, 3);
}
