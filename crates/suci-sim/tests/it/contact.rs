//! First contact: how long a newcomer waits for its first answer, with any fault of one packet.

use crate::scenario::{MS, SECOND, ok, receive, send, spec, world};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use suci_proto::Event;
use suci_proto::time::{Duration, Instant};
use suci_sim::options::{Drive, Options, Step};
use suci_sim::packet::Packet;
use suci_sim::world::World;

/// Receive buffers: a small one, the stock limit of Linux, and the one that the library asks for.
const BUFFERS: [u64; 5] = [6_656, 20_000, 64 << 10, 212_992, 8 << 20];

/// Bytes of the server's answer.
const ANSWERS: [u64; 4] = [0, 100, 3_000, 64 << 10];

/// The probe timeout of a node that has not measured a round trip yet: three times the initial one
/// of 20 ms, and the delay of acknowledgements. HELLO and INIT are repeated after 100 ms.
const UNMEASURED: Duration = Duration::from_millis(62);

/// The packets of a first contact: the type in byte 0, and whether the client sends it.
const PACKETS: [(&str, u8, bool); 6] = [
    ("HELLO", 0x11, true),
    ("COOKIE", 0x12, false),
    ("INIT", 0x13, true),
    ("ACCEPT", 0x14, false),
    ("the client's first DATA", 0x10, true),
    ("the server's first DATA", 0x10, false),
];

/// The fault of the first packet of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Lost,
    /// The packet arrives after the next one in its direction, or after this time if none follows.
    Overtaken(Duration),
    Doubled,
}

const TROUBLES: [Trouble; 3] = [
    Trouble::Lost,
    Trouble::Overtaken(Duration::from_millis(1)),
    Trouble::Doubled,
];

/// A packet that a filter took out of the network, or is to put back.
#[derive(Debug, Default)]
struct Taken {
    seen: bool,
    packet: Option<(Instant, Packet)>,
    /// A packet in the same direction followed.
    followed: bool,
}

/// A server on host 0 that knows no peer, and clients on the others that know it.
pub(crate) fn newcomers(clients: usize, recv_buffer: u64) -> Options {
    let mut options = Options::quiet(clients + 1);
    options.clients = clients;
    options.star = true;
    options.recv_buffer = recv_buffer;
    options
}

/// The probe timeout of a connection (RFC 9002, 6.2.1) whose variation of round trips is the
/// initial half of one.
fn probe_timeout(options: &Options) -> Duration {
    let delay = options.configs[0].max_ack_delay;
    (options.round_trip() - delay) * 3 + delay
}

/// The packets that were in trouble, by the client's address.
type Troubles = Rc<RefCell<BTreeMap<SocketAddr, Taken>>>;

/// Makes `trouble` for the first packet of the kind `(first byte, sent by the client)` of each
/// client, or of the client on host `only`.
fn trouble(
    world: &mut World,
    (kind, by_client): (u8, bool),
    only: Option<usize>,
    trouble: Trouble,
) -> Troubles {
    let all = Troubles::default();
    let state = Rc::clone(&all);
    let only = only.map(|host| world.network.address(host));
    world.filter = Some(Box::new(move |now, packet| {
        if (packet.source != 0) != by_client {
            return false;
        }
        let client = if by_client { packet.from } else { packet.to };
        if only.is_some_and(|only| only != client) {
            return false;
        }
        let mut state = state.borrow_mut();
        let state = state.entry(client).or_default();
        if state.seen {
            state.followed = true;
            return false;
        }
        if packet.bytes.first() != Some(&kind) {
            return false;
        }
        state.seen = true;
        let mut copy = packet.clone();
        match trouble {
            Trouble::Lost => true,
            Trouble::Overtaken(_) => {
                copy.fate.held = true;
                state.packet = Some((now, copy));
                true
            }
            Trouble::Doubled => {
                copy.fate.duplicate = true;
                state.packet = Some((now, copy));
                false
            }
        }
    }));
    all
}

/// Puts filtered packets into the network again, once it is time.
fn release(world: &mut World, troubles: &Troubles, trouble: Trouble) {
    let mut due = Vec::new();
    for state in troubles.borrow_mut().values_mut() {
        let followed = state.followed;
        due.extend(state.packet.take_if(|(at, _)| match trouble {
            Trouble::Overtaken(longest) => followed || world.now >= *at + longest,
            Trouble::Lost | Trouble::Doubled => true,
        }));
    }
    due.into_iter().for_each(|(_, packet)| world.inject(packet));
}

/// A client asks and the server answers with `length` bytes; how long that took from the client's
/// call.
fn first_answer(
    world: &mut World,
    length: u64,
    limit: Duration,
    mut step: impl FnMut(&mut World),
) -> Option<Duration> {
    let begin = world.now;
    let before = world.oracle.delivered();
    send(world, 1, 1, spec(1, 0, 100));
    let mut answered = false;
    while world.oracle.delivered() < before + 2 {
        if world.now >= begin + limit {
            return None;
        }
        ok(world.run_for(Duration::from_micros(10)));
        step(world);
        if !answered && world.oracle.delivered() > before {
            answered = true;
            send(world, 0, 1, spec(2, 0, length));
        }
    }
    Some(world.now.since(begin))
}

/// Each packet of a first contact is lost, overtaken or doubled once.
#[test]
fn f31_one_faulty_packet_delays_a_first_answer_by_a_few_probe_timeouts() {
    let mut late = Vec::new();
    for recv_buffer in BUFFERS {
        for length in ANSWERS {
            for (name, kind, by_client) in PACKETS {
                for fault in TROUBLES {
                    let options = newcomers(1, recv_buffer);
                    let probe = probe_timeout(&options);
                    let repeated = kind != 0x10 && fault == Trouble::Lost;
                    let bound = 5 * if repeated { UNMEASURED } else { probe };
                    let mut world = world(options);
                    let taken = trouble(&mut world, (kind, by_client), None, fault);
                    let time = first_answer(&mut world, length, SECOND * 20, |world| {
                        release(world, &taken, fault)
                    });
                    if time.is_none_or(|time| time > bound) {
                        late.push(format!("{name} {fault:?} with {recv_buffer} B, answer of {length} B: {time:?} of {bound:?}"));
                    }
                }
            }
        }
    }
    assert!(late.is_empty(), "{}", late.join("\n"));
}

/// The first packets of an end are lost, as many as use up the smallest grant: the other end, which
/// hears nothing, asks. Its question lets another packet go. Without it both sides would be silent
/// for `CREDIT_LAPSE`, 10 s.
#[test]
fn f19_a_newcomer_whose_first_packets_are_lost_is_asked() {
    const MESSAGE: u64 = 2_000;
    for recv_buffer in BUFFERS {
        for (lost, by_client) in (1..=2).flat_map(|lost| [(lost, true), (lost, false)]) {
            let options = newcomers(1, recv_buffer);
            // Each loss in a row doubles the probe timeout, at either end.
            let bound = UNMEASURED * (5 + 2 * (1 << lost));
            let mut world = world(options);
            let mut left = lost;
            world.filter = Some(Box::new(move |_, packet| {
                let data = packet.bytes.first() == Some(&0x10);
                let falls = left > 0 && data && (packet.source != 0) == by_client;
                left -= u32::from(falls);
                falls
            }));
            let begin = world.now;
            send(&mut world, 1, 1, spec(1, 0, MESSAGE));
            while world.oracle.delivered() == 0 {
                let time = world.now.since(begin);
                let who = if by_client { "client" } else { "server" };
                assert!(
                    time < bound,
                    "{lost} lost of the {who}, {recv_buffer} B: {time:?}"
                );
                ok(world.run_for(MS));
            }
        }
    }
}

/// The state of the nodes that called before.
#[derive(Clone, Copy, Debug)]
enum Earlier {
    Answer,
    TakeNothing,
    Stopped,
    Dead,
}

/// Each of `hosts` asks the first one at the same time. Returns how long it takes until all have
/// its answer; `None` if that is longer than `limit`.
pub(crate) fn all_answered(
    world: &mut World,
    hosts: core::ops::Range<usize>,
    limit: Duration,
    mut step: impl FnMut(&mut World),
) -> Option<Duration> {
    let (begin, before) = (world.now, world.oracle.delivered());
    let messages = 2 * hosts.len() as u64;
    for host in hosts {
        send(world, host, 1, spec(1, 0, 100));
    }
    while world.oracle.delivered() < before + messages {
        if world.now >= begin + limit {
            return None;
        }
        ok(world.run_for(MS));
        step(world);
    }
    Some(world.now.since(begin))
}

/// The number of refusals for want of room: there must be none while there are peer slots.
pub(crate) fn refusals(world: &World, hosts: core::ops::Range<usize>) -> usize {
    let refused = |host| {
        let events = world.events(host);
        let refused = |(_, event): &(Instant, Event)| matches!(event, Event::Refused { .. });
        events.iter().filter(|told| refused(told)).count()
    };
    hosts.map(refused).sum()
}

/// A thousand nodes of the book call at once. Others called before them and hold credit, whatever
/// they do meanwhile.
#[test]
fn f31_many_callers_are_answered_at_once_whatever_earlier_ones_do() {
    const BEFORE: usize = 200;
    const CROWD: usize = 1_000;
    for earlier in [
        Earlier::Answer,
        Earlier::TakeNothing,
        Earlier::Stopped,
        Earlier::Dead,
    ] {
        let mut options = Options::quiet(1 + BEFORE + CROWD);
        options.star = true;
        options.traffic.reply = 1_000_000;
        let mut world = world(options);
        for host in 1..=BEFORE {
            send(&mut world, host, 1, spec(1, 0, 20_000));
        }
        receive(&mut world, 2 * BEFORE as u64, SECOND);
        for host in 1..=BEFORE {
            match earlier {
                Earlier::Answer => {}
                Earlier::TakeNothing => world.apply(&Step::StopConsuming(host, SECOND * 60)),
                Earlier::Stopped => world.apply(&Step::Pause(host, SECOND * 60)),
                Earlier::Dead => world.apply(&Step::Crash(host, None)),
            }
        }
        let crowd = 1 + BEFORE..1 + BEFORE + CROWD;
        let time = all_answered(&mut world, crowd.clone(), SECOND, |_| ());
        assert!(
            time.is_some_and(|time| time < SECOND / 2),
            "{earlier:?}: {time:?}"
        );
        assert_eq!(refusals(&world, crowd), 0, "{earlier:?}");
    }
}

/// More strangers than there are peer slots call at once, and each has one question.
#[test]
fn f31_400_unknown_newcomers_take_turns() {
    for (recv_buffer, clients, limit) in [
        (425_984, 128, MS * 50),
        (64 << 10, CROWD, MS * 600),
        (212_992, CROWD, MS * 150),
        (8 << 20, CROWD, MS * 50),
    ] {
        let mut options = newcomers(clients, recv_buffer);
        options.traffic.reply = 1_000_000;
        let mut world = world(options);
        let time = all_answered(&mut world, 1..1 + clients, limit, |_| ());
        println!("{clients} at {recv_buffer} B: {time:?}");
        assert!(time.is_some(), "{clients} at {recv_buffer} B");
    }
}

/// Strangers that call at once.
const CROWD: usize = 400;

/// Returns the bound for the first answers to all of the crowd, if this packet of each of
/// `troubled` strangers meets the fault. As many strangers as 3/8 of the slots are answered at a
/// time; if these are not all, a lost COOKIE or INIT keeps its slot until HELLO or INIT is
/// repeated.
fn crowd_bound(recv_buffer: u64, name: &str, fault: Trouble, troubled: usize) -> Duration {
    let at_once = recv_buffer / 6_656 * 3 / 8;
    if at_once >= CROWD as u64 {
        return 5 * UNMEASURED;
    }
    let turns = (troubled as u64).div_ceil(at_once) as u32;
    let wait = match (name, fault) {
        ("COOKIE", Trouble::Lost) => MS * 1_500,
        ("INIT", Trouble::Lost) => MS * 150,
        _ => Duration::ZERO,
    };
    SECOND + wait * turns
}

/// Each packet of a first contact is lost, overtaken or doubled once, of each of 400 strangers or
/// of one of them.
fn check_crowd(recv_buffer: u64, drive: Drive) {
    let mut late = Vec::new();
    for (name, kind, by_client) in PACKETS {
        let all = TROUBLES.map(|fault| (fault, None));
        for (fault, only) in all.into_iter().chain([(Trouble::Lost, Some(CROWD / 2))]) {
            let mut options = newcomers(CROWD, recv_buffer);
            options.traffic.reply = 1_000_000;
            options.drives = vec![options.drives[0]; CROWD + 1];
            options.drives[0] = drive;
            let mut world = world(options);
            let troubles = trouble(&mut world, (kind, by_client), only, fault);
            let bound = crowd_bound(recv_buffer, name, fault, only.map_or(CROWD, |_| 1));
            let time = all_answered(&mut world, 1..1 + CROWD, bound, |world| {
                release(world, &troubles, fault);
            });
            let what = format!("{name} {fault:?} of {only:?} with {recv_buffer} B, {drive:?}");
            println!("{what}: {time:?} of {bound:?}");
            if time.is_none() {
                late.push(what);
            }
            if let Drive::Polls(_) = drive {
                let counters = world.engine(0).map(|engine| *engine.counters());
                let unanswered = counters.map_or(0, |counters| counters.hello_unanswered);
                assert!(unanswered > 0, "the queue of replies was never full");
            }
        }
    }
    assert!(late.is_empty(), "{}", late.join("\n"));
}

#[test]
fn f31_one_faulty_packet_of_each_of_400_newcomers_delays_a_turn_at_most() {
    for recv_buffer in [64 << 10, 212_992, 8 << 20] {
        check_crowd(recv_buffer, Options::quiet(1).drives[0]);
    }
}

/// The server takes all HELLOs in one cycle, so that its queue of replies is full.
#[test]
fn f31_one_faulty_packet_of_each_of_400_newcomers_beside_a_full_queue_of_replies() {
    check_crowd(8 << 20, Drive::Polls(MS));
}

/// More nodes of the book than peer slots call within half a second, and packets are lost: callers
/// that come late or again hold up no other while peer slots are free.
#[test]
fn f31_nodes_of_the_book_take_turns_while_packets_are_lost() {
    const CLIENTS: usize = 400;
    for recv_buffer in [64 << 10, 212_992] {
        let mut options = Options::quiet(1 + CLIENTS);
        options.star = true;
        options.recv_buffer = recv_buffer;
        options.traffic.reply = 1_000_000;
        options.faults.loss = 10_000;
        let mut world = world(options);
        let begin = world.now;
        for host in 1..=CLIENTS {
            send(&mut world, host, 1, spec(1, 0, 100));
            ok(world.run_for(MS));
        }
        receive(&mut world, 2 * CLIENTS as u64, SECOND * 30);
        let time = world.now.since(begin);
        println!("{CLIENTS} at {recv_buffer} B: {time:?}");
        assert!(time < SECOND * 5, "{recv_buffer} B: {time:?}");
    }
}
