//! Namespaces behave as the tests that use them assume. Needs root.

#![expect(clippy::unwrap_used, reason = "a test ends at the first surprise")]

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::RwLock;
use std::time::{Duration, Instant};

use xtask::exec::Process;
use xtask::netns::{Cluster, Netns, Pair};
use xtask::tcp;

/// A test that makes a namespace removes leftovers of killed processes. All such tests hold this
/// lock together; the test that looks for leftovers holds it alone.
static MAKERS: RwLock<()> = RwLock::new(());

/// Runs `make` while no other test looks for leftovers.
fn making<T>(make: impl FnOnce() -> T) -> T {
    // A test that panicked with the lock left nothing half done.
    let _others = MAKERS
        .read()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    make()
}

fn pair() -> Pair {
    making(Pair::new).unwrap()
}

fn exists(name: &str) -> bool {
    Path::new("/run/netns").join(name).exists()
}

/// A socket of `host` at `address`.
fn socket(host: &Netns, address: impl Into<IpAddr>) -> UdpSocket {
    let address = address.into();
    let socket = host
        .inside(|| UdpSocket::bind((address, 0)))
        .unwrap()
        .unwrap();
    // Far beyond the delay of a veth: datagrams that have not come by then were dropped.
    socket
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    socket
}

/// How many of `count` datagrams of 100 bytes arrive, sent few at a time.
fn arrivals(from: &UdpSocket, to: &UdpSocket, count: u32) -> u32 {
    let mut buffer = [0; 2000];
    to.set_nonblocking(true).unwrap();
    let mut arrived = 0;
    for _ in 0..count {
        from.send_to(&[7; 100], to.local_addr().unwrap()).unwrap();
        arrived += u32::from(to.recv(&mut buffer).is_ok());
    }
    to.set_nonblocking(false).unwrap();
    while to.recv(&mut buffer).is_ok() {
        arrived += 1;
    }
    arrived
}

#[test]
fn dropping_removes_namespaces() {
    let pair = pair();
    let names = [pair.a.name().to_owned(), pair.b.name().to_owned()];
    assert!(names.iter().all(|name| exists(name)));
    drop(pair);
    assert!(!names.iter().any(|name| exists(name)));
}

#[test]
fn both_families_cross_the_cable() {
    let pair = pair();
    let (a, b) = (
        socket(&pair.a, pair.a_addr()),
        socket(&pair.b, pair.b_addr()),
    );
    assert_eq!(arrivals(&a, &b, 10), 10);
    assert_eq!(arrivals(&b, &a, 10), 10);
    let (a, b) = (
        socket(&pair.a, pair.a_addr6()),
        socket(&pair.b, pair.b_addr6()),
    );
    assert_eq!(arrivals(&a, &b, 10), 10);
}

#[test]
fn every_host_of_a_cluster_reaches_every_other() {
    let cluster = making(|| Cluster::new(3)).unwrap();
    let sockets: Vec<UdpSocket> = (0..3)
        .map(|i| socket(&cluster.hosts[usize::from(i)], cluster.addr(i)))
        .collect();
    for (i, from) in sockets.iter().enumerate() {
        for (j, to) in sockets.iter().enumerate() {
            assert!(i == j || arrivals(from, to, 3) == 3);
        }
    }
}

#[test]
fn drops_take_their_share() {
    let pair = pair();
    let (a, b) = (
        socket(&pair.a, pair.a_addr()),
        socket(&pair.b, pair.b_addr()),
    );
    pair.drop_randomly(1.0).unwrap();
    assert_eq!(arrivals(&a, &b, 50), 0);
    pair.drop_randomly(0.5).unwrap();
    // Twelve standard deviations to either side.
    assert!((400..=800).contains(&arrivals(&a, &b, 1_200)));
    pair.drop_randomly(0.0).unwrap();
    assert_eq!(arrivals(&b, &a, 50), 50);
}

#[test]
fn without_offloads_a_train_crosses_as_packets() {
    let pair = pair();
    let (a, b) = (
        socket(&pair.a, pair.a_addr()),
        socket(&pair.b, pair.b_addr()),
    );
    let segment: libc::c_int = 1_000;
    // SAFETY: the descriptor is open and the option is an int that outlives the call.
    let set = unsafe {
        libc::setsockopt(
            a.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const segment).cast(),
            4,
        )
    };
    assert_eq!(set, 0);
    let crossed = || {
        let before = pair.a.sent().unwrap().packets;
        a.send_to(&[7; 20_000], b.local_addr().unwrap()).unwrap();
        pair.a.sent().unwrap().packets - before
    };
    pair.offloads_off().unwrap();
    // The kernel may add a packet or two of its own (IPv6 group membership).
    let packets = crossed();
    assert!((20..25).contains(&packets), "{packets}");
}

#[test]
fn a_slow_cable_drops_at_its_queue() {
    let pair = pair();
    let (a, b) = (
        socket(&pair.a, pair.a_addr()),
        socket(&pair.b, pair.b_addr()),
    );
    pair.offloads_off().unwrap();
    pair.limit_rate(10, 10).unwrap();
    // As many datagrams as take two seconds to pass. Sending them takes only a small part of that,
    // whatever else the machine does.
    let sent = 2_000;
    for _ in 0..sent {
        // The queue holds 12 KB; the kernel may report a dropped datagram to the sender.
        let _ = a.send_to(&[7; 1_400], b.local_addr().unwrap());
    }
    let mut buffer = [0; 2_000];
    let mut arrived = 0;
    while b.recv(&mut buffer).is_ok() {
        arrived += 1;
    }
    let queue = pair.a.queue().unwrap();
    assert!(arrived > 5 && arrived < sent / 2, "{arrived}");
    assert!(queue.dropped > sent / 2 && queue.loss() > 0.5, "{queue:?}");
}

#[test]
fn kernel_counters_are_per_namespace() {
    let pair = pair();
    let (a, b) = (
        socket(&pair.a, pair.a_addr()),
        socket(&pair.b, pair.b_addr()),
    );
    assert_eq!(pair.b.counter("UdpInDatagrams").unwrap(), 0);
    assert_eq!(arrivals(&a, &b, 5), 5);
    assert_eq!(pair.b.counter("UdpInDatagrams").unwrap(), 5);
    assert_eq!(pair.a.counter("UdpInDatagrams").unwrap(), 0);
}

#[test]
fn tcp_crosses_and_ends() {
    let pair = pair();
    let flow = tcp::Flow::start(&pair, 7_000).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while flow.arrived() < 1_000_000 {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A process that holds a pair, and the names of its namespaces.
fn holder() -> (Process, Vec<String>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let mut process = Process::spawn(command.arg("pair").stdout(Stdio::piped())).unwrap();
    let said = BufReader::new(process.child().stdout.take().unwrap());
    // The first line names the program, then comes one line per namespace.
    let names = said.lines().skip(1).take(2).map(|line| {
        let line = line.unwrap();
        let name = line
            .split_whitespace()
            .find(|word| word.starts_with("suci-"));
        name.unwrap().to_owned()
    });
    let names: Vec<String> = names.collect();
    assert!(names.iter().all(|name| exists(name)));
    (process, names)
}

#[test]
fn an_interrupt_removes_namespaces() {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let (mut process, names) = making(holder);
        let pid = libc::pid_t::try_from(process.pid()).unwrap();
        // SAFETY: kill has no memory effects; the process is our unreaped child.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
        let ended = process
            .finish_by(Instant::now() + Duration::from_secs(20))
            .unwrap_err();
        assert!(
            ended
                .to_string()
                .contains(&format!("exit status: {}", 128 + signal)),
            "{ended}"
        );
        assert!(!names.iter().any(|name| exists(name)));
    }
}

#[test]
fn the_next_maker_removes_what_a_killed_process_left() {
    let _alone = MAKERS
        .write()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let (mut process, names) = holder();
    process.kill();
    assert!(names.iter().all(|name| exists(name)));
    let _next = Netns::new().unwrap();
    assert!(!names.iter().any(|name| exists(name)));
}
