//! Modes: their announcement, and their effects at both ends.

use crate::net::{Net, id, message};
use suci_proto::time::Duration;
use suci_proto::types::ChannelId;
use suci_proto::wire::{self, CrcScope, Frame, Header, Init, Mode, PacketType};
use suci_proto::{Config, EndReason, Event};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Two programs that poll, connected.
fn pair() -> Net {
    pair_with(|_| Config {
        ack_on_poll: true,
        ..Config::default()
    })
}

fn pair_with(config: impl Fn(usize) -> Config) -> Net {
    let mut net = Net::new(2, config);
    net.send(0, id(1), message(b"hello"));
    net.run(SECOND);
    net.discard_events();
    net
}

/// Otherwise only a probe would make the receiver acknowledge the data.
#[test]
fn data_on_the_handshake_is_acknowledged_in_the_next_cycle() {
    let mut net = Net::new(2, |_| Config {
        ack_on_poll: true,
        ..Config::default()
    });
    net.send(0, id(1), message(b"rides"));
    net.run(10 * MS);
    assert_eq!(net.received(1).len(), 1);
    assert_eq!(net.engine(0).queue_len(id(1)), (0, 0));
    assert_eq!(net.engine(0).counters().probes, 0, "unasked");
}

fn modes(net: &mut Net, host: usize) -> (Mode, Mode) {
    let stats = net.engine(host).peer_stats(id(1 - host)).unwrap();
    (stats.mode, stats.remote_mode)
}

fn prefer(net: &mut Net, host: usize, mode: Mode) {
    net.change(host, id(1 - host), |o| o.mode = mode).unwrap();
    net.flush(host);
}

fn is_mode(packet: &[u8]) -> bool {
    let Ok((header, body)) = wire::open(packet) else {
        return false;
    };
    header.kind == PacketType::Data
        && wire::frames(body).any(|frame| matches!(frame, Ok(Frame::Mode { .. })))
}

#[test]
fn a_chosen_mode_is_announced_at_once_and_each_direction_has_its_own() {
    let mut net = pair();
    prefer(&mut net, 0, Mode::Throughput);
    net.run(MS);
    assert_eq!(modes(&mut net, 1), (Mode::Adaptive, Mode::Throughput));
    prefer(&mut net, 1, Mode::Response);
    prefer(&mut net, 0, Mode::Response);
    net.run(MS);
    assert_eq!(modes(&mut net, 0), (Mode::Response, Mode::Response));
    prefer(&mut net, 0, Mode::Adaptive);
    net.send(0, id(1), message(b"rides"));
    net.run(MS);
    assert_eq!(modes(&mut net, 1), (Mode::Response, Mode::Adaptive));
}

#[test]
fn the_handshake_announces_the_mode_chosen_before() {
    let mut net = Net::new(2, |host| Config {
        mode: if host == 1 {
            Mode::Response
        } else {
            Mode::Adaptive
        },
        ..Config::default()
    });
    prefer(&mut net, 0, Mode::Throughput);
    net.meddle = Some(Box::new(|_, packet| {
        assert!(!is_mode(&packet), "no frame is needed");
        Some(packet)
    }));
    net.send(0, id(1), message(b"hello"));
    net.run(SECOND);
    assert_eq!(modes(&mut net, 0), (Mode::Throughput, Mode::Response));
    assert_eq!(modes(&mut net, 1), (Mode::Response, Mode::Throughput));
}

#[test]
fn a_lost_mode_is_told_again() {
    let mut net = pair();
    let mut losses = 3;
    net.meddle = Some(Box::new(move |_, packet| {
        let lose = losses > 0 && is_mode(&packet);
        losses -= i32::from(lose);
        (!lose).then_some(packet)
    }));
    prefer(&mut net, 0, Mode::Throughput);
    net.run(SECOND);
    assert_eq!(modes(&mut net, 1).1, Mode::Throughput);
}

#[test]
fn a_replaced_connection_knows_the_mode() {
    let mut net = pair_with(|_| Config {
        first_packet_number: u64::MAX - 300,
        ..Config::default()
    });
    prefer(&mut net, 0, Mode::Throughput);
    for _ in 0..1_000 {
        net.send(0, id(1), message(&[1; 100]));
        net.run(MS);
    }
    assert_eq!(net.received(1).len(), 1_000);
    assert_eq!(modes(&mut net, 1).1, Mode::Throughput);
    prefer(&mut net, 0, Mode::Response);
    net.run(SECOND);
    assert_eq!(modes(&mut net, 1).1, Mode::Response, "numbers begin anew");
}

/// The same INIT from a node that does not announce any extension.
pub(crate) fn without_extension(packet: Vec<u8>) -> Vec<u8> {
    let Ok((header, body)) = wire::open(&packet) else {
        return packet;
    };
    if header.kind != PacketType::Init {
        return packet;
    }
    let mut init = Init::read(body).unwrap();
    init.params.extensions = 0;
    let mut bytes = Vec::new();
    let scope = CrcScope::Datagram;
    wire::put_header(&mut bytes, &Header { scope, ..header });
    init.put(&mut bytes);
    wire::seal(&mut bytes);
    bytes
}

#[test]
fn a_mode_that_was_not_announced_by_both_is_an_unknown_frame() {
    let mut net = Net::new(2, |_| Config::default());
    net.meddle = Some(Box::new(|_, packet| Some(without_extension(packet))));
    net.send(0, id(1), message(b"hello"));
    net.run(SECOND);
    // Host 1 believes that host 0 does not know MODE, and does not send it.
    prefer(&mut net, 1, Mode::Throughput);
    net.run(SECOND);
    assert_eq!(modes(&mut net, 1).0, Mode::Throughput);
    assert_eq!(modes(&mut net, 0).1, Mode::Adaptive);
    assert_eq!(net.engine(0).counters().protocol_errors, 0);
    // Host 0 announced MODE, believes that host 1 did too, and sends it.
    prefer(&mut net, 0, Mode::Throughput);
    net.run(SECOND);
    assert_eq!(net.engine(1).counters().protocol_errors, 1);
    let ended = |event: &Event| {
        matches!(
            event,
            Event::Ended {
                reason: EndReason::PeerProtocol(2),
                ..
            }
        )
    };
    assert!(net.events(0).iter().any(ended), "told with its code");
}

/// Packets that the receiver sends per hundred packets of a stream, one every 20 us.
fn acks_of_a_stream(mode: Mode, ack_on_poll: bool) -> f64 {
    let mut net = pair_with(|_| Config {
        ack_on_poll,
        ..Config::default()
    });
    net.send(0, id(1), message(&vec![1; 5_000_000]));
    net.run(SECOND);
    prefer(&mut net, 0, mode);
    net.run(MS);
    let count = |net: &mut Net| {
        let sent = net.engine(0).counters().packets_out;
        (sent, net.engine(1).counters().packets_out)
    };
    let before = count(&mut net);
    for _ in 0..5_000 {
        net.send(0, id(1), message(&[7; 1_300]));
        net.run(MS / 50);
    }
    let after = count(&mut net);
    100.0 * (after.1 - before.1) as f64 / (after.0 - before.0) as f64
}

#[test]
fn throughput_costs_fewer_acknowledgements_than_polls_and_response_more_than_timers() {
    let adaptive = acks_of_a_stream(Mode::Adaptive, true);
    let throughput = acks_of_a_stream(Mode::Throughput, true);
    assert!(
        4.0 * throughput < adaptive,
        "{throughput} {adaptive} per 100"
    );
    let adaptive = acks_of_a_stream(Mode::Adaptive, false);
    let response = acks_of_a_stream(Mode::Response, false);
    assert!(2.0 * adaptive < response, "{adaptive} {response} per 100");
}

#[test]
fn a_request_and_its_reply_cost_two_packets_in_every_mode() {
    for mode in [Mode::Adaptive, Mode::Throughput, Mode::Response] {
        let mut net = pair();
        (0..2).for_each(|host| prefer(&mut net, host, mode));
        net.run(10 * MS);
        let packets = |net: &mut Net| {
            (0..2)
                .map(|host| net.engine(host).counters().packets_out)
                .sum::<u64>()
        };
        let before = packets(&mut net);
        for _ in 0..1_000 {
            for host in 0..2 {
                net.send(host, id(1 - host), message(&[1; 64]));
                net.run_until_received(1 - host);
            }
        }
        let each = (packets(&mut net) - before) as f64 / 1_000.0;
        assert!((2.0..2.02).contains(&each), "{each} in {mode:?}");
    }
}

/// A message of a few packets asks for no acknowledgement: the reply carries it.
#[test]
fn a_reply_of_several_packets_acknowledges_what_it_answers() {
    for (length, packets) in [(1_000, 2), (4_096, 6), (16_384, 24)] {
        let mut net = pair_with(|_| Config {
            ack_on_poll: true,
            ..Config::default()
        });
        let sent = |net: &mut Net| {
            (0..2)
                .map(|host| net.engine(host).counters().packets_out)
                .sum::<u64>()
        };
        let mut before = 0;
        for round in 0..600 {
            if round == 100 {
                before = sent(&mut net);
            }
            for host in 0..2 {
                net.send(host, id(1 - host), message(&vec![1; length]));
                net.run_until_received(1 - host);
            }
        }
        let each = (sent(&mut net) - before) as f64 / 500.0;
        let most = f64::from(packets) * 1.02;
        assert!(each <= most, "{each} packets for {length} B there and back");
    }
}

/// A message that nobody answers asks within the window, although its receiver would acknowledge
/// it by a timer: the sender's queue may be full of it.
#[test]
fn a_message_of_several_packets_that_has_no_reply_asks_for_an_acknowledgement() {
    let mut net = pair_with(|_| Config {
        ack_on_poll: false,
        ..Config::default()
    });
    for round in 0..50 {
        net.send(0, id(1), message(&vec![1; 16_384]));
        let before = net.engine(1).counters().packets_out;
        net.run(MS);
        let answers = net.engine(1).counters().packets_out - before;
        assert!(answers > 0, "none in round {round}");
        net.run(10 * MS);
        while net.engine(1).recv().is_some() {}
    }
}

#[test]
fn an_adaptive_peer_follows_its_traffic() {
    let mut net = pair();
    for _ in 0..20 {
        for host in 0..2 {
            net.send(host, id(1 - host), message(&[1; 64]));
            net.run_until_received(1 - host);
        }
    }
    assert_eq!(modes(&mut net, 0).0, Mode::Response);
    net.lose_every = Some(50);
    for _ in 0..3_000 {
        net.queue(0, id(1), message(&vec![1; 20_000]));
    }
    net.flush(0);
    net.run(50 * MS);
    assert_eq!(modes(&mut net, 0).0, Mode::Throughput);
    assert_eq!(modes(&mut net, 1).1, Mode::Throughput);
    net.lose_every = None;
    net.run(10 * SECOND);
    net.send(0, id(1), message(b"one more"));
    net.run(SECOND);
    net.send(0, id(1), message(b"and the last"));
    net.run(SECOND);
    assert_eq!(modes(&mut net, 0).0, Mode::Adaptive);
    assert_eq!(modes(&mut net, 1).1, Mode::Adaptive);
}

#[test]
fn the_end_of_a_long_queue_is_acknowledged_without_a_timer() {
    let mut net = pair();
    prefer(&mut net, 0, Mode::Throughput);
    for _ in 0..20 {
        net.send(0, id(1), message(&vec![1; 100_000]));
    }
    let begun = net.now;
    while net.engine(0).queue_len(id(1)).0 > 0 {
        net.run(MS / 20);
    }
    let took = net.now.since(begun);
    assert!(took < 2 * MS, "{took:?}");
}

#[test]
fn a_message_that_prefers_response_wants_to_leave_a_batch() {
    let mut net = pair();
    net.queue(0, id(1), message(b"waits"));
    assert!(!net.engine(0).wants_flush());
    prefer(&mut net, 0, Mode::Response);
    assert!(!net.engine(0).wants_flush());
    net.queue(0, id(1), message(b"does not"));
    assert!(net.engine(0).wants_flush());
    net.flush(0);
    assert!(!net.engine(0).wants_flush());
}

fn window(net: &mut Net) -> u64 {
    let now = net.now;
    net.engine(0).remote_window(now, id(1), ChannelId(0))
}

#[test]
fn the_remote_window_is_what_goes_without_the_program_reading() {
    let mut net = Net::new(2, |_| Config {
        memory: 1 << 20,
        max_message: 1 << 19,
        ..Config::default()
    });
    assert_eq!(window(&mut net), 0, "nothing is known");
    net.send(0, id(1), message(b"hello"));
    net.run(SECOND);
    net.reading = false;
    let room = window(&mut net);
    let mut sent = 0;
    while window(&mut net) >= 4_000 {
        net.send(0, id(1), message(&[1; 4_000]));
        net.run(SECOND);
        assert_eq!(net.engine(0).queue_len(id(1)).0, 0, "all of it was taken");
        sent += 4_064;
    }
    assert!((room - 4_064..=room).contains(&sent), "{sent} of {room}");
    net.send(0, id(1), message(&[1; 4_000]));
    net.run(SECOND);
    assert_eq!(net.engine(0).queue_len(id(1)).0, 1, "more waits");
    net.reading = true;
    net.turn();
    net.run(SECOND);
    assert!(window(&mut net) > room / 2, "and free again");
    net.meddle = Some(Box::new(|_, _| None));
    net.send(0, id(1), message(b"into the void"));
    net.run(15 * SECOND);
    assert_eq!(window(&mut net), 0, "lost");
}

#[test]
fn credit_of_the_socket_bounds_the_remote_window_too() {
    let mut net = pair();
    let credit = |net: &mut Net| net.engine(0).peer_stats(id(1)).unwrap().socket_credit;
    net.reading = false;
    let (room, packets) = (window(&mut net), credit(&mut net));
    assert!(room <= packets * 1_472);
    assert!(room > 0 && packets > 0);
}
