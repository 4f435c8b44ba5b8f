//! Physical truths of a path: the measurements of nodes, judged by the emulated link, which knows
//! when each packet passed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use suci::{ControllerChoice, Node, NodeId, PeerStats, SharedNode};
use suci_proto::wire::{Frame, frames, open};
use suci_tests::{LONG, builder_at, exchange, heavy, in_full, light, nodes_across};
use xtask::emulator::{Direction, Emulator, Link, Passage, Reorder, Stage, Way};

const MS: Duration = Duration::from_millis(1);

/// How long a link stays as it is before its delay steps.
const STEP: Duration = Duration::from_millis(120);

/// Packets that the link saw in both directions.
#[derive(Debug, Default)]
struct Witness {
    /// Time at which a packet was handed on, by its way and its number.
    handed_on: HashMap<(Way, u64), Instant>,
    /// Acknowledgements seen, and the most by which one stated a longer wait than there was.
    acks: u64,
    overstated: Duration,
}

impl Witness {
    fn see(&mut self, passage: Passage<'_>) {
        let Some((header, body)) = datagram(passage.packet).and_then(|bytes| open(bytes).ok())
        else {
            return;
        };
        match passage.stage {
            Stage::Leaves => {
                let key = (passage.way, header.number);
                self.handed_on.entry(key).or_insert(passage.at);
            }
            Stage::Enters => self.judge(passage.at, passage.way, body),
        }
    }

    /// An acknowledgement has waited since its packet was handed on, at most.
    fn judge(&mut self, now: Instant, way: Way, body: &[u8]) {
        let back = if way == Way::ToA { Way::ToB } else { Way::ToA };
        for frame in frames(body) {
            let Ok(Frame::Ack(ack)) = frame else {
                continue;
            };
            if let Some(arrived) = self.handed_on.get(&(back, ack.largest)) {
                self.acks += 1;
                let most = now.duration_since(*arrived);
                self.overstated = self.overstated.max(ack.delay.saturating_sub(most));
            }
        }
    }
}

/// The payload of a UDP packet over IPv4.
fn datagram(packet: &[u8]) -> Option<&[u8]> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    packet.get(header + 8..)
}

/// A link with a witness.
struct Observed {
    emulator: Emulator,
    witness: Arc<Mutex<Witness>>,
}

impl Observed {
    fn start(link: &Link) -> Self {
        let witness = Arc::new(Mutex::new(Witness::default()));
        let sees = Arc::clone(&witness);
        let see = move |passage: Passage<'_>| {
            // A test that failed has left it as it was.
            let witness = sees.lock();
            witness.unwrap_or_else(PoisonError::into_inner).see(passage);
        };
        let emulator = Emulator::observed(link, see).unwrap();
        Self { emulator, witness }
    }

    /// Two nodes that are served by threads. They keep so many bytes in flight that no controller
    /// decides the result.
    fn nodes(&self) -> [SharedNode; 2] {
        nodes_across(self.emulator.pair(), |builder| builder.controller(WINDOW))
    }

    /// Checks that must pass on every path, whatever the machine does meanwhile; `least` is the
    /// shortest round trip that the link had.
    fn judge(&self, stats: &PeerStats, least: Duration) {
        let witness = self.witness.lock().unwrap();
        let totals = self.emulator.totals();
        assert!(witness.acks > 20, "{witness:?}");
        assert!(stats.min_rtt >= least, "{least:?}: {stats:?}");
        assert!(stats.rtt >= least, "{least:?}: {stats:?}");
        assert_eq!(witness.overstated, Duration::ZERO, "{} acks", witness.acks);
        assert_eq!((totals.to_b.dropped(), totals.to_a.dropped()), (0, 0));
    }
}

/// A fixed number of bytes in flight.
const WINDOW: ControllerChoice = ControllerChoice::Fixed { bytes: 64 << 10 };

fn stats(of: &SharedNode, peer: &SharedNode) -> PeerStats {
    of.peer(peer.id()).stats().unwrap().unwrap()
}

/// A look at the socket takes a while, and packets arrive during it. A round trip ends when its
/// acknowledgement arrived, and the wait for an acknowledgement begins when the packet did.
#[test]
fn what_a_path_takes_is_never_measured_shorter_than_it_is() {
    let _together = light();
    let round_trips: &[u32] = if in_full() {
        &[0, 50, 200, 1_000, 5_000, 20_000, 100_000]
    } else {
        &[200, 2_000]
    };
    for round_trip in round_trips {
        let round_trip = Duration::from_micros(1) * *round_trip;
        let observed = Observed::start(&Link::with_round_trip(round_trip));
        let [a, b] = observed.nodes();
        exchange(&a, &b, 300);
        observed.judge(&stats(&a, &b), round_trip);
    }
}

/// The same of nodes that their programs look after.
#[test]
fn a_program_that_polls_measures_no_path_shorter_than_it_is() {
    let _together = light();
    let observed = Observed::start(&Link::with_round_trip(MS));
    let pair = observed.emulator.pair();
    let [at_a, at_b] = [pair.a_addr(), pair.b_addr()].map(|address| (address, 7000));
    let open = |id, at, (other, to): (u32, (_, u16))| {
        let mut node = builder_at(id, at).controller(WINDOW).open().unwrap();
        node.add_peer(NodeId(other), to.into()).unwrap();
        node
    };
    let receive = || {
        let mut node = open(1, at_b, (0, at_a));
        for _ in 0..500 {
            node.recv_timeout(LONG).unwrap().unwrap();
        }
        node.close(LONG).unwrap();
    };
    let send = || -> PeerStats {
        let mut node: Node = open(0, at_a, (1, at_b));
        for _ in 1..500 {
            node.send(NodeId(1), vec![7; 20_000]).unwrap();
            // At other moments than those at which something arrives.
            std::thread::sleep(MS / 3);
            node.poll(Duration::ZERO).unwrap();
        }
        node.flush(LONG).unwrap();
        // Once the other node has the last message it ends the session.
        let stats = node.peer(NodeId(1)).stats().unwrap().unwrap();
        node.send(NodeId(1), vec![7; 20_000]).unwrap();
        node.flush(LONG).unwrap();
        stats
    };
    let stats = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| pair.b.inside(receive).unwrap());
        let stats = pair.a.inside(send).unwrap();
        receiver.join().unwrap();
        stats
    });
    observed.judge(&stats, MS);
}

/// A quarter of the packets is late by up to half a round trip, and none is lost. A machine that
/// has much else to do may hold one up for longer than any threshold allows, so there are several
/// tries.
#[test]
fn nothing_is_lost_where_packets_are_only_late() {
    let _alone = heavy();
    let round_trips: &[u32] = if in_full() { &[1, 5, 20] } else { &[1] };
    for round_trip in round_trips {
        let round_trip = MS * *round_trip;
        let late = Direction {
            delay: round_trip / 2,
            reorder: Reorder {
                share: 0.25,
                late: round_trip / 2,
            },
            ..Direction::default()
        };
        let observed = Observed::start(&Link::symmetric(late));
        let [a, b] = observed.nodes();
        // The thresholds learn.
        exchange(&a, &b, 1_000);
        let lost = || stats(&a, &b).traffic.packets_lost;
        let mut before = lost();
        let tries: Vec<_> = (0..20)
            .map(|_| {
                exchange(&a, &b, 200);
                lost() - std::mem::replace(&mut before, lost())
            })
            .take_while(|lost| *lost > 0)
            .collect();
        assert!(tries.len() < 20, "{round_trip:?}: {tries:?}");
        let stats = stats(&a, &b);
        assert!(stats.traffic.spurious_losses > 0, "they had to learn");
        assert_eq!(stats.traffic.packets_lost, stats.traffic.spurious_losses);
        observed.judge(&stats, round_trip);
    }
}

/// If packets keep their order, no node declares a loss because of a delay that steps or varies, or
/// because of copies.
#[test]
fn nothing_is_lost_where_the_delay_steps() {
    let _together = light();
    let direction = |delay: Duration| Direction {
        delay,
        ..Direction::default()
    };
    let varied = Direction {
        jitter: 4 * MS,
        ..direction(MS)
    };
    let doubled = Direction {
        duplicate: 0.1,
        ..direction(MS)
    };
    let queued = Direction {
        rate: Some(100_000_000),
        ..direction(MS)
    };
    let constant = direction(MS);
    for steps in [
        &[MS, 10 * MS, 2 * MS, 40 * MS, MS].map(direction)[..],
        &[varied, constant.clone()],
        &[doubled],
        &[queued, constant],
    ] {
        let observed = Observed::start(&Link::symmetric(steps[0].clone()));
        for (number, step) in (1..).zip(&steps[1..]) {
            let at = STEP * number;
            let link = Link::symmetric(step.clone());
            observed.emulator.change_at(at, &link).unwrap();
        }
        let [a, b] = observed.nodes();
        let begun = Instant::now();
        while begun.elapsed() < STEP * u32::try_from(steps.len()).unwrap() {
            exchange(&a, &b, 20);
        }
        let stats = stats(&a, &b);
        assert_eq!(stats.traffic.packets_lost, 0, "{steps:?}: {stats:?}");
        observed.judge(&stats, 2 * MS);
    }
}
