//! Physical truths of a path: what nodes measure of it, judged by a relay that knows when each
//! packet passed.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::common::{LONG, builder};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use suci::{ControllerChoice, Error, NodeId, SharedNode, Traffic};
use suci_proto::wire::{Frame, frames, open};

/// Each packet is under way at least so long in each direction.
const DELAY: Duration = Duration::from_micros(500);

/// What the relay saw of packets in both directions.
#[derive(Debug, Default)]
struct Witness {
    /// When a packet was handed on last: by its destination and its number.
    handed_on: HashMap<(SocketAddr, u64), Instant>,
    /// Acknowledgements seen, and the most by which one stated a longer wait than there was.
    acks: u64,
    overstated: Duration,
    /// Datagrams that could not be handed on.
    dropped: u64,
}

impl Witness {
    /// `packet` came from `from` at `now`: each acknowledgement in it waited since its packet was
    /// handed on, at most.
    fn judge(&mut self, now: Instant, from: SocketAddr, packet: &[u8]) {
        let Ok((_, body)) = open(packet) else {
            return;
        };
        for frame in frames(body) {
            let Ok(Frame::Ack(ack)) = frame else {
                continue;
            };
            if let Some(sent) = self.handed_on.get(&(from, ack.largest)) {
                self.acks += 1;
                let most = now.duration_since(*sent);
                self.overstated = self.overstated.max(ack.delay.saturating_sub(most));
            }
        }
    }
}

/// Holds each packet between two nodes for [`DELAY`] or longer, and loses none on purpose.
struct Relay {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Witness>,
}

impl Relay {
    /// Makes two nodes known to each other as if both were at the relay's address. One packet of
    /// `late_one_in` is held for up to `late` longer.
    fn introduce(a: &SharedNode, b: &SharedNode, late_one_in: u64, late: Duration) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let at = socket.local_addr().unwrap();
        a.add_peer(b.id(), at).unwrap();
        b.add_peer(a.id(), at).unwrap();
        socket.set_nonblocking(true).unwrap();
        let ends = [a.local_addr(), b.local_addr()];
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || run(&socket, ends, (late_one_in, late), &stopped));
        Self { stop, thread }
    }

    /// What it saw.
    fn end(self) -> Witness {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn run(
    socket: &UdpSocket,
    ends: [SocketAddr; 2],
    (late_one_in, late): (u64, Duration),
    stop: &AtomicBool,
) -> Witness {
    let (mut witness, mut held) = (Witness::default(), BinaryHeap::new());
    let (mut packet, mut serial, mut chance) = (vec![0; 65_536], 0_u64, 1_u64);
    while !stop.load(Ordering::Relaxed) {
        while let Ok((len, from)) = socket.recv_from(&mut packet) {
            let now = Instant::now();
            witness.judge(now, from, &packet[..len]);
            let to = if from == ends[0] { ends[1] } else { ends[0] };
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (dice, share) = ((chance >> 33) % late_one_in.max(1), (chance >> 40) & 0xffff);
            let more = match dice {
                0 => late.mul_f64(share as f64 / 65_536.0),
                _ => Duration::ZERO,
            };
            serial += 1;
            held.push(Reverse((
                now + DELAY + more,
                serial,
                to,
                packet[..len].to_vec(),
            )));
        }
        while held
            .peek()
            .is_some_and(|Reverse((due, ..))| *due <= Instant::now())
        {
            let Some(Reverse((_, _, to, packet))) = held.pop() else {
                break;
            };
            if let Ok((header, _)) = open(&packet) {
                witness
                    .handed_on
                    .insert((to, header.number), Instant::now());
            }
            witness.dropped += u64::from(socket.send_to(&packet, to).is_err());
        }
        std::thread::sleep(Duration::from_micros(20));
    }
    witness
}

/// Sends as soon as there is room.
fn push(node: &SharedNode, to: NodeId, payload: Vec<u8>) {
    while let Err(error) = node.send(to, payload.clone()) {
        assert!(matches!(error, Error::WouldBlock { .. }), "{error}");
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Sends `count` messages from `a` to `b`, which takes them, and waits until all are acknowledged.
fn exchange(a: &SharedNode, b: &SharedNode, count: u32) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..count).for_each(|_| push(a, b.id(), vec![7; 20_000]));
            a.flush(LONG).unwrap();
        });
        for _ in 0..count {
            b.recv_timeout(LONG).unwrap().unwrap();
        }
    });
}

/// Two nodes of which each keeps a fixed window in flight, which the relay's socket holds.
fn nodes() -> (SharedNode, SharedNode) {
    let open = |id| {
        let window = ControllerChoice::Fixed { bytes: 64 << 10 };
        builder(id).controller(window).open_threads(1).unwrap()
    };
    (open(0), open(1))
}

/// A look at the socket takes a while, and packets arrive during it. A round trip ends when its
/// acknowledgement arrived, and the wait for an acknowledgement begins when the packet did.
#[test]
fn what_a_path_takes_is_never_measured_shorter_than_it_is() {
    let (a, b) = nodes();
    let relay = Relay::introduce(&a, &b, 0, Duration::ZERO);
    exchange(&a, &b, 4_000);
    let stats = a.peer(b.id()).stats().unwrap().unwrap();
    let witness = relay.end();
    assert!(witness.acks > 100, "{witness:?}");
    assert!(stats.min_rtt >= 2 * DELAY, "{stats:?}");
    assert_eq!(witness.overstated, Duration::ZERO, "{} acks", witness.acks);
}

/// A quarter of the packets is late by up to half a round trip, and none is lost. A machine that
/// has much else to do may hold one up for longer than any threshold allows, so there are several
/// tries.
#[test]
fn nothing_is_lost_where_packets_are_only_late() {
    let (a, b) = nodes();
    let relay = Relay::introduce(&a, &b, 4, DELAY);
    exchange(&a, &b, 2_000);
    let lost = || {
        a.peer(b.id())
            .stats()
            .unwrap()
            .unwrap()
            .traffic
            .packets_lost
    };
    let mut before = lost();
    let tries: Vec<_> = (0..20)
        .map(|_| {
            exchange(&a, &b, 200);
            lost() - std::mem::replace(&mut before, lost())
        })
        .take_while(|lost| *lost > 0)
        .collect();
    assert!(tries.len() < 20, "{tries:?}");
    let stats = a.peer(b.id()).stats().unwrap().unwrap();
    let witness = relay.end();
    let Traffic {
        packets_lost,
        spurious_losses,
        ..
    } = stats.traffic;
    assert!(spurious_losses > 0, "the thresholds had to learn");
    assert!(stats.min_rtt >= 2 * DELAY, "{stats:?}");
    assert_eq!(witness.overstated, Duration::ZERO, "{} acks", witness.acks);
    assert_eq!(packets_lost, spurious_losses, "{} dropped", witness.dropped);
}
