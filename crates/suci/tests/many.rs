//! The cost of silent peers for busy ones: ten busy peers among thousands on one socket, beside ten
//! alone.
//!
//! This process has two nodes, one that knows ten others and one that knows thousands. All others
//! are engines of a second process, each with a socket of its own. Each sends a message once and is
//! then silent until its peers are idle, except for ten of each node. The two nodes take turns,
//! round by round, so that both meet the same machine. The second process does the same for both:
//! it looks at the twenty sockets in use all the time, and at one other in between.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test may panic"
)]

mod common;

use bytes::Bytes;
use common::{LONG, builder, take};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, UdpSocket};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};
use suci::{Node, NodeId};
use suci_proto::types::{ChannelId, Ecn, Incarnation, Kind, NodeId as Id};
use suci_proto::{Arrival, Config, Engine, Identity, Outgoing, TransmitResult, time};

/// Peers that are in use.
const ACTIVE: u32 = 10;
/// Silent ones: a few, or as many as are promised where the figures are judged.
const FEW: u32 = 300;
const MANY: u32 = 10_000;
/// Rounds of both nodes in turn, where the figures are judged.
const ROUNDS: usize = 9;
/// Round trips, and messages one way, of one round where the figures are judged; a tenth elsewhere.
const TRIPS: u32 = 2_000;
const STREAM: u32 = 10_000;
const LENGTH: usize = 1_024;
/// The highest allowed cost with silent peers, as a multiple of the cost without.
const WORSE: f64 = 1.05;
/// Peers that come at once.
const CROWD: usize = 200;
/// Longer than any grant lasts.
const IDLE: Duration = Duration::from_secs(25);

const ECHO: u8 = b'e';
/// Set for the second process, which runs the same test: where the two nodes are.
const SETTING: &str = "SUCI_TEST_MANY_HUBS";
const TEST: &str = "ten_of_ten_thousand_peers_are_served_like_ten_alone";

fn strict() -> bool {
    std::env::var_os("SUCI_TEST_STRICT").is_some()
}

fn silent() -> u32 {
    if strict() { MANY } else { FEW }
}

/// Round trips and messages of a round.
fn work() -> (u32, u32) {
    let part = if strict() { 1 } else { 10 };
    (TRIPS / part, STREAM / part)
}

// ---- the second process

/// One of the other nodes.
struct Spoke {
    engine: Engine,
    socket: UdpSocket,
    hub: SocketAddr,
    heard: bool,
}

impl Spoke {
    fn new(id: u32, hub: SocketAddr, now: time::Instant) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let port = u128::from(socket.local_addr().unwrap().port());
        let identity = Identity {
            node: Id(id),
            incarnation: Incarnation(u128::from(id) << 32 | port << 64 | 1),
        };
        let mut seed = [7; 32];
        seed[..4].copy_from_slice(&id.to_le_bytes());
        let mut engine = Engine::new(Config::default(), identity, seed, 400 << 10, now).unwrap();
        engine.add_peer(now, Id(0), hub).unwrap();
        Self {
            engine,
            socket,
            hub,
            heard: false,
        }
    }

    fn send(&mut self, now: time::Instant, payload: Bytes) {
        let message = Outgoing {
            channel: ChannelId(0),
            tag: 0,
            kind: Kind::USER,
            user_header: Bytes::new(),
            payload,
            notify: false,
            token: 0,
            deadline: None,
        };
        self.engine.send(now, Id(0), message).unwrap();
    }

    /// Runs one cycle: takes input, answers it, sends.
    fn run_cycle(&mut self, now: time::Instant, buffer: &mut [u8]) {
        self.engine.begin_cycle(now);
        while let Ok((length, from)) = self.socket.recv_from(buffer) {
            let arrival = Arrival {
                to: None,
                from,
                at: now,
                ecn: Ecn::NotEct,
            };
            self.engine
                .handle_datagram(now, &arrival, &mut buffer[..length]);
        }
        self.engine.handle_timeout(now);
        while let Some((_, message)) = self.engine.recv() {
            if message.payload.first() == Some(&ECHO) {
                self.send(now, message.payload.into());
            }
        }
        while self.engine.poll_event().is_some() {}
        while let Some(query) = self.engine.poll_route() {
            self.engine.set_route_mtu(query, Some(1_472));
        }
        let mut train = Vec::new();
        while let Some(transmit) = self.engine.poll_transmit(now, 64) {
            train.clear();
            transmit.copy_to(&mut train);
            let (segment, segments) = (transmit.segment, transmit.segments);
            for packet in train.chunks(segment) {
                self.socket.send_to(packet, self.hub).unwrap();
            }
            self.engine
                .transmit_done(now, TransmitResult::Sent(segments));
        }
        self.heard |= self.engine.queue_len(Id(0)) == (0, 0);
    }
}

/// Sees to it that there may be as many sockets as are needed.
fn allow_descriptors() {
    let needed = libc::rlim_t::from(silent() + 2 * ACTIVE) + 64;
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: both calls get a valid place of the type that they ask for, and keep none.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        let most = limit.rlim_max;
        assert!(
            most >= needed,
            "{needed} descriptors are needed and {most} allowed: raise the hard limit (ulimit -Hn {needed})"
        );
        limit.rlim_cur = limit.rlim_cur.max(needed);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
}

/// Plays all other nodes. Prints their addresses, brings all of them in, then serves until its
/// standard input ends, which the other process holds.
fn play(hubs: &str) {
    allow_descriptors();
    let begun = Instant::now();
    let now = || time::Instant::ZERO + time::Duration::from_secs(1) + begun.elapsed();
    let hubs: Vec<SocketAddr> = hubs.split(',').map(|hub| hub.parse().unwrap()).collect();
    let mut spokes: Vec<Spoke> = Vec::new();
    for id in 1..=ACTIVE {
        hubs.iter()
            .for_each(|hub| spokes.push(Spoke::new(id, *hub, now())));
    }
    for id in ACTIVE + 1..=ACTIVE + silent() {
        spokes.push(Spoke::new(id, hubs[1], now()));
    }
    let ports = spokes
        .iter()
        .map(|s| s.socket.local_addr().unwrap().port().to_string());
    println!("\nports {}", ports.collect::<Vec<_>>().join(","));
    std::io::stdin().read_line(&mut String::new()).unwrap();
    std::thread::spawn(|| {
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
        std::process::exit(0);
    });
    let mut buffer = vec![0; 1 << 16];
    let mut came = 0;
    let mut coming = 0;
    while came < spokes.len() {
        while coming < spokes.len() && coming < came + CROWD {
            spokes[coming].send(now(), Bytes::from_static(b"here"));
            coming += 1;
        }
        spokes[..coming]
            .iter_mut()
            .for_each(|spoke| spoke.run_cycle(now(), &mut buffer));
        came = spokes.iter().filter(|spoke| spoke.heard).count();
    }
    let (active, silent) = spokes.split_at_mut(2 * ACTIVE as usize);
    for next in (0..silent.len()).cycle() {
        active
            .iter_mut()
            .for_each(|spoke| spoke.run_cycle(now(), &mut buffer));
        silent[next].run_cycle(now(), &mut buffer);
    }
}

// ---- the process that is measured

struct Others {
    child: Child,
    _go: ChildStdin,
}

impl Drop for Others {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Starts the second process and lets it come; `nodes` take a message of each.
fn bring_in(nodes: &mut [Node; 2]) -> Others {
    let [few, many] = nodes;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture"])
        .env(
            SETTING,
            format!("{},{}", few.local_addr(), many.local_addr()),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut go = child.stdin.take().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let ports = said.find_map(|line| Some(line.unwrap().strip_prefix("ports ")?.to_owned()));
    let ports: Vec<u16> = ports
        .expect("the second process says where its sockets are")
        .split(',')
        .map(|port| port.parse().unwrap())
        .collect();
    let at = |port: &u16| SocketAddr::from(([127, 0, 0, 1], *port));
    let (active, silent) = ports.split_at(2 * ACTIVE as usize);
    for (id, pair) in (1..).zip(active.chunks(2)) {
        few.add_peer(NodeId(id), at(&pair[0])).unwrap();
        many.add_peer(NodeId(id), at(&pair[1])).unwrap();
    }
    for (id, port) in (ACTIVE + 1..).zip(silent) {
        many.add_peer(NodeId(id), at(port)).unwrap();
    }
    writeln!(go, "go").unwrap();
    let others = Others { child, _go: go };
    let begun = Instant::now();
    let mut missing = ports.len();
    while missing > 0 {
        assert!(begun.elapsed() < 10 * LONG, "{missing} did not come");
        for node in [&mut *few, &mut *many] {
            while node
                .recv_timeout(Duration::from_millis(1))
                .unwrap()
                .is_some()
            {
                missing -= 1;
            }
            while node.next_event().unwrap().is_some() {}
        }
    }
    others
}

/// Processor time that this process used so far, of all its threads.
fn processor() -> Duration {
    let mut usage = core::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the place is of the type asked for; all zeros are one of its values.
    let usage = unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()), 0);
        usage.assume_init()
    };
    let of = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1_000);
    of(usage.ru_utime) + of(usage.ru_stime)
}

/// Microseconds of a round trip, of a message one way, and of the processor for such a message.
fn measure(node: &mut Node) -> [f64; 3] {
    let peer = |n: u32| NodeId(1 + n % ACTIVE);
    let micros = |time: Duration, count: u32| time.as_secs_f64() * 1e6 / f64::from(count);
    let mut ask = vec![0; 64];
    ask[0] = ECHO;
    let (ask, part) = (Bytes::from(ask), Bytes::from(vec![0; LENGTH]));
    let (trips, stream) = work();
    let begun = Instant::now();
    for n in 0..trips {
        node.send(peer(n), ask.clone()).unwrap();
        assert_eq!(take(node).from, peer(n));
    }
    let trip = micros(begun.elapsed(), trips);
    let (begun, before) = (Instant::now(), processor());
    for n in 0..stream {
        node.send_timeout(peer(n), part.clone(), LONG).unwrap();
    }
    node.flush(LONG).unwrap();
    let one_way = micros(begun.elapsed(), stream);
    [trip, one_way, micros(processor() - before, stream)]
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

#[test]
fn ten_of_ten_thousand_peers_are_served_like_ten_alone() {
    if let Ok(hubs) = std::env::var(SETTING) {
        return play(&hubs);
    }
    let hub = || {
        let roomy = |c: &mut Config| c.memory = 2 << 30;
        builder(0).config(roomy).open().unwrap()
    };
    let mut nodes = [hub(), hub()];
    let others = bring_in(&mut nodes);
    let idle = Instant::now();
    while strict() && idle.elapsed() < IDLE {
        for node in &mut nodes {
            assert!(
                node.recv_timeout(Duration::from_millis(10))
                    .unwrap()
                    .is_none()
            );
            while node.next_event().unwrap().is_some() {}
        }
    }
    // The first round warms up.
    let _ = nodes.each_mut().map(measure);
    let (mut figures, mut ratios) = ([const { Vec::new() }; 3], [const { Vec::new() }; 3]);
    for _ in 0..if strict() { ROUNDS } else { 1 } {
        let [few, many] = nodes.each_mut().map(measure);
        for kind in 0..3 {
            figures[kind].push(many[kind]);
            ratios[kind].push(many[kind] / few[kind]);
        }
    }
    drop(others);
    let [trip, one_way, processor] = figures.map(median);
    let [trips, one_ways, processors] = ratios.map(median);
    println!(
        "figure: {} silent peers: round trip {trip:.1} us ({trips:.2} x), {LENGTH} B one way {one_way:.2} us \
         ({one_ways:.2} x), processor {processor:.2} us ({processors:.2} x)",
        silent()
    );
    if strict() {
        assert!(
            trips <= WORSE && one_ways <= WORSE,
            "{trips:.3} x, {one_ways:.3} x"
        );
    }
}
