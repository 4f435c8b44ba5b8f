//! The requirements on every backend: each test goes through all of [`worlds`].

#![expect(clippy::unwrap_used, reason = "tests")]

#[cfg(target_os = "linux")]
mod hosts;

use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use suci_net::fault::{Fault, FaultSpec};
use suci_net::memory::Hub;
use suci_net::udp_portable::{PortableOptions, UdpPortable};
use suci_net::{
    Backend, Ecn, MAX_TRAIN_BYTES, MAX_TRAIN_SEGMENTS, Meta, SendOutcome, Train, TrainError,
};

type Boxed = Box<dyn Backend>;

/// Two backends that reach each other, and the address by which the first reaches the second.
struct World {
    name: String,
    a: Boxed,
    b: Boxed,
    to_b: SocketAddr,
}

impl World {
    fn new(name: &str, a: impl Backend + 'static, b: impl Backend + 'static) -> Self {
        let to_b = b.local_addr();
        Self {
            name: name.into(),
            a: Box::new(a),
            b: Box::new(b),
            to_b,
        }
    }

    /// The same with a fault layer on both ends.
    fn wearing(self, name: &str, spec: FaultSpec) -> Self {
        let Self {
            name: inner,
            a,
            b,
            to_b,
        } = self;
        let (a, b) = (Box::new(Fault::new(a, spec)), Box::new(Fault::new(b, spec)));
        Self {
            name: format!("{name} over {inner}"),
            a,
            b,
            to_b,
        }
    }

    /// Sends `bytes` in segments as the backend takes them; everything must be taken.
    fn send(&mut self, segment: usize, bytes: &[u8], ecn: Ecn) {
        let mut rest = bytes;
        loop {
            let most = segment.max(1) * self.a.capabilities().max_segments;
            let (now, later) = rest.split_at(rest.len().min(most));
            // Cut unevenly, so that slices and segments do not coincide.
            let slices: Vec<IoSlice<'_>> =
                now.chunks(segment * 2 / 3 + 1).map(IoSlice::new).collect();
            let train = Train {
                dest: self.to_b,
                source: None,
                ecn,
                segment,
                slices: &slices,
                len: now.len(),
            };
            let outcome = self.a.send(&train).unwrap();
            assert_eq!(
                outcome,
                SendOutcome::Sent(train.segments()),
                "{}",
                self.name
            );
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
    }

    /// Receives exactly `count` datagrams, and checks that no more are there.
    fn take(&mut self, count: usize) -> Vec<(Meta, Vec<u8>)> {
        let taken = drain(&mut *self.b, count);
        assert_eq!(taken.len(), count, "{}", self.name);
        taken
    }
}

/// Receives until `count` came or nothing does.
fn drain(backend: &mut dyn Backend, count: usize) -> Vec<(Meta, Vec<u8>)> {
    let mut taken = Vec::new();
    for _ in 0..1000 {
        let before = taken.len();
        let said = backend
            .recv(usize::MAX, &mut |meta, bytes| {
                taken.extend(meta.datagrams(bytes).map(|d| (*meta, d.to_vec())));
            })
            .unwrap();
        assert_eq!(said, taken.len() - before);
        if taken.len() >= count
            || !backend
                .wait(Some(Duration::from_secs(5)), false)
                .unwrap()
                .any()
        {
            break;
        }
    }
    taken
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + (i >> 8)) as u8).collect()
}

#[cfg(target_os = "linux")]
fn linux_worlds() -> Vec<World> {
    use suci_net::udp::{Udp, UdpOptions};
    let pair = |name: &str, ip: &str, options: UdpOptions| {
        let addr = format!("{ip}:0").parse().unwrap();
        let open = || Udp::bind(addr, &options).unwrap();
        World::new(name, open(), open())
    };
    let default = UdpOptions::default;
    let mut worlds = raw_worlds();
    worlds.extend([
        pair("udp 4", "127.0.0.1", default()),
        pair("udp 6", "[::1]", default()),
        pair(
            "udp 4 without gso",
            "127.0.0.1",
            UdpOptions {
                gso: false,
                ..default()
            },
        ),
        pair(
            "udp 6 without gso",
            "[::1]",
            UdpOptions {
                gso: false,
                ..default()
            },
        ),
        pair(
            "udp 4 without gro",
            "127.0.0.1",
            UdpOptions {
                gro: false,
                ..default()
            },
        ),
        pair(
            "udp 6 without gro",
            "[::1]",
            UdpOptions {
                gro: false,
                ..default()
            },
        ),
    ]);
    for (name, bound, ip) in [
        ("udp any 4", "0.0.0.0", "127.0.0.1"),
        ("udp dual, by 4", "[::]", "127.0.0.1"),
        ("udp dual, by 6", "[::]", "::1"),
    ] {
        let world = pair(name, bound, default());
        let to_b = SocketAddr::new(ip.parse().unwrap(), world.to_b.port());
        worlds.push(World { to_b, ..world });
    }
    worlds
}

/// Frames without UDP at both ends.
#[cfg(target_os = "linux")]
const OWN_TYPE: &str = "raw, own type, without gso, without gro";

/// Two hosts that are made once for all tests.
#[cfg(target_os = "linux")]
fn two_hosts() -> &'static [hosts::Host; 2] {
    static HOSTS: std::sync::OnceLock<[hosts::Host; 2]> = std::sync::OnceLock::new();
    HOSTS.get_or_init(|| hosts::pair(65_535))
}

/// Raw frames both ways, to a UDP socket, and from one, between two hosts joined by a cable. The
/// thread that asks is on the first host from now on. Needs root.
#[cfg(target_os = "linux")]
fn raw_worlds() -> Vec<World> {
    use suci_net::af_packet::{AfPacket, EtherType};
    use suci_net::udp::{Udp, UdpOptions};
    let options = UdpOptions::default();
    let [a, b] = two_hosts();
    let (at_a, at_b) = (
        "10.77.0.1:0".parse().unwrap(),
        "10.77.0.2:0".parse().unwrap(),
    );
    let raw = |at| -> Boxed { Box::new(AfPacket::bind(at, None, &options).unwrap()) };
    let own_type = Some(EtherType::LOCAL_EXPERIMENTAL);
    let own = |at| -> Boxed { Box::new(AfPacket::bind(at, own_type, &options).unwrap()) };
    let udp = |at| -> Boxed { Box::new(Udp::bind(at, &options).unwrap()) };
    let worlds = [("raw", 0), ("raw to udp", 1), ("udp to raw", 2)].map(|(name, kind)| {
        let a = a.inside(|| if kind < 2 { raw(at_a) } else { udp(at_a) });
        let b = b.inside(|| if kind != 1 { raw(at_b) } else { udp(at_b) });
        World::new(name, a, b)
    });
    let mut worlds = worlds.into_iter().collect::<Vec<_>>();
    let (at_a, at_b) = (a.inside(|| own(at_a)), b.inside(|| own(at_b)));
    worlds.push(World::new(OWN_TYPE, at_a, at_b));
    a.enter();
    for world in &mut worlds {
        // From the third train on the neighbour is known.
        for _ in 0..2 {
            world.send(1, b"-", Ecn::NotEct);
            world.take(1);
        }
    }
    // A process of the same host sends by loopback.
    for (name, ether_type) in [
        ("raw on loopback", None),
        (
            "raw on loopback, own type, without gso, without gro",
            own_type,
        ),
    ] {
        let at = "127.0.0.1:0".parse().unwrap();
        let open = || AfPacket::bind(at, ether_type, &options).unwrap();
        worlds.push(World::new(name, open(), open()));
    }
    worlds
}

/// Byte 4 names the socket, for datagrams alone and in trains.
#[test]
#[cfg(target_os = "linux")]
fn raw_sockets_of_a_group_divide_what_comes() {
    use suci_net::af_packet::{AfPacket, EtherType};
    use suci_net::udp::UdpOptions;
    let options = UdpOptions::default();
    let [a, b] = two_hosts();
    let own_type = Some(EtherType::LOCAL_EXPERIMENTAL);
    for (count, ether_type) in [(1_usize, None), (3, None), (4, None), (3, own_type)] {
        let bind = |at: &str| AfPacket::bind(at.parse().unwrap(), ether_type, &options).unwrap();
        let mut from = a.inside(|| bind("10.77.0.1:0"));
        let mut group = b.inside(|| bind("10.77.0.2:0").into_group(count, &options).unwrap());
        let to = group[0].local_addr();
        for byte in 0..=255_u8 {
            let bytes = [byte; 30];
            let slices = [IoSlice::new(&bytes)];
            let is_train = byte % 2 == 0 && ether_type.is_none();
            let train = Train {
                segment: if is_train { 10 } else { 30 },
                ..Train::single(to, Ecn::Ect0, &slices)
            };
            assert!(matches!(from.send(&train).unwrap(), SendOutcome::Sent(_)));
        }
        for (place, member) in group.iter_mut().enumerate() {
            let due = (0..=255).filter(|byte| byte % count == place);
            let due: Vec<usize> = due
                .flat_map(|byte| {
                    let is_train = byte % 2 == 0 && ether_type.is_none();
                    vec![byte; if is_train { 3 } else { 1 }]
                })
                .collect();
            let taken = drain(member, due.len());
            let bytes: Vec<usize> = taken.iter().map(|(_, d)| usize::from(d[0])).collect();
            assert_eq!(bytes, due, "{place} of {count}");
        }
    }
}

/// A firewall that lets nothing out does not concern raw frames: they leave past the kernel's IP.
#[test]
#[cfg(target_os = "linux")]
fn raw_frames_leave_past_the_kernels_ip() {
    let mut worlds = raw_worlds();
    let world = worlds.iter_mut().find(|world| world.name == "raw").unwrap();
    let port = world.a.local_addr().port();
    hosts::nft("table ip shut { chain out { type filter hook output priority 0; }; }");
    hosts::nft(&format!("add rule ip shut out udp sport {port} drop"));
    // The neighbour's address is asked for now and then, by a train that the kernel sends.
    let mut arrived = 0;
    let bytes = pattern(1_500);
    let slices = [IoSlice::new(&bytes)];
    let train = Train {
        segment: 500,
        ..Train::single(world.to_b, Ecn::Ect0, &slices)
    };
    for _ in 0..100 {
        if world.a.send(&train).unwrap() == SendOutcome::Sent(3) {
            arrived += drain(&mut *world.b, 3).len();
        }
    }
    hosts::nft("delete table ip shut");
    assert!(arrived >= 3 * 98, "{arrived}");
}

/// Frames of an own type arrive where the node's IP packets are dropped.
#[test]
#[cfg(target_os = "linux")]
fn frames_of_an_own_type_are_no_ip() {
    let mut worlds = raw_worlds();
    let world = worlds.iter_mut().find(|world| world.name == OWN_TYPE);
    let world = world.unwrap();
    hosts::nft(
        "table netdev no_ip { chain out { type filter hook egress device eth0 priority 0; }; }",
    );
    let port = world.a.local_addr().port();
    hosts::nft(&format!("add rule netdev no_ip out udp sport {port} drop"));
    // Now and then a train is the kernel's to send.
    let arrived = (0..100).filter(|_| {
        world.send(500, &pattern(500), Ecn::Ect0);
        let limit = Some(Duration::from_millis(200));
        world.b.wait(limit, false).unwrap().readable && drain(&mut *world.b, 1).len() == 1
    });
    let arrived = arrived.count();
    hosts::nft("delete table netdev no_ip");
    assert!(arrived >= 95, "{arrived}");
}

#[cfg(not(target_os = "linux"))]
fn linux_worlds() -> Vec<World> {
    Vec::new()
}

fn plain_worlds() -> Vec<World> {
    let portable = |name: &str, ip: &str| {
        let addr = format!("{ip}:0").parse().unwrap();
        let open = || UdpPortable::bind(addr, &PortableOptions::default()).unwrap();
        World::new(name, open(), open())
    };
    let memory = |name: &str, ip: &str| {
        let hub = Hub::new(1 << 20);
        // Ports that the system gives to no socket that asks for any.
        let open = |port| {
            hub.endpoint(format!("{ip}:{port}").parse().unwrap())
                .unwrap()
        };
        World::new(name, open(1), open(2))
    };
    let mut worlds = linux_worlds();
    worlds.push(portable("portable 4", "127.0.0.1"));
    worlds.push(portable("portable 6", "[::1]"));
    worlds.push(memory("memory 4", "10.0.0.1"));
    worlds.push(memory("memory 6", "[fd00::1]"));
    worlds
}

/// Every backend bare; in a fault layer without faults; and in one whose machinery runs but whose
/// one fault is less likely than anything the dice can show but zero.
fn worlds() -> Vec<World> {
    let mut worlds = plain_worlds();
    let idle = FaultSpec::default();
    worlds.extend(
        plain_worlds()
            .into_iter()
            .map(|w| w.wearing("no fault", idle)),
    );
    let harmless = FaultSpec {
        loss: 1e-300,
        ..idle
    };
    worlds.extend(
        plain_worlds()
            .into_iter()
            .map(|w| w.wearing("harmless fault", harmless)),
    );
    worlds
}

#[test]
fn datagrams_of_every_size_arrive_whole() {
    for mut world in worlds() {
        let largest = world.a.path_mtu(world.to_b).unwrap_or(60_000);
        assert!(largest >= 60_000, "{}: {largest}", world.name);
        for size in [0, 1, 2, 1_199, 1_472, 9_000, largest - 1, largest] {
            let bytes = pattern(size);
            world.send(size, &bytes, Ecn::NotEct);
            let taken = world.take(1);
            assert!(taken[0].1 == bytes, "{}: {size}", world.name);
        }
    }
}

#[test]
fn the_largest_datagram_of_ipv4_crosses_loopback() {
    for mut world in worlds().into_iter().filter(|w| w.to_b.is_ipv4()) {
        let bytes = pattern(MAX_TRAIN_BYTES);
        world.send(bytes.len(), &bytes, Ecn::NotEct);
        assert!(world.take(1)[0].1 == bytes, "{}", world.name);
    }
}

#[test]
fn f29_trains_are_split_where_they_were_joined() {
    for mut world in worlds() {
        for (segment, len) in [
            (1_000, 5_137),
            (1_000, 1_001),
            (1_472, 2 * 1_472),
            (1, 64),
            (7, 64 * 7 - 3),
            (32_000, 64_001),
        ] {
            let bytes = pattern(len);
            world.send(segment, &bytes, Ecn::NotEct);
            let taken = world.take(len.div_ceil(segment));
            let sent: Vec<&[u8]> = bytes.chunks(segment).collect();
            let got: Vec<&[u8]> = taken.iter().map(|(_, bytes)| bytes.as_slice()).collect();
            assert!(sent == got, "{}: {len} bytes in {segment}", world.name);
        }
    }
}

#[test]
fn full_trains_arrive() {
    for mut world in worlds() {
        for segment in [100, 1_000, MAX_TRAIN_BYTES / MAX_TRAIN_SEGMENTS] {
            let bytes = pattern(segment * MAX_TRAIN_SEGMENTS);
            world.send(segment, &bytes, Ecn::NotEct);
            let taken = world.take(MAX_TRAIN_SEGMENTS);
            assert!(taken.concat_bytes() == bytes, "{}: {segment}", world.name);
        }
    }
}

trait Concat {
    fn concat_bytes(&self) -> Vec<u8>;
}

impl Concat for Vec<(Meta, Vec<u8>)> {
    fn concat_bytes(&self) -> Vec<u8> {
        self.iter()
            .flat_map(|(_, bytes)| bytes.iter().copied())
            .collect()
    }
}

#[test]
fn ecn_marks_cross_singly_and_on_trains() {
    for mut world in worlds() {
        for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::Ce, Ecn::NotEct] {
            let expected = if world.a.capabilities().ecn {
                ecn
            } else {
                Ecn::NotEct
            };
            world.send(500, &pattern(400), ecn);
            world.send(500, &pattern(2_200), ecn);
            for (meta, _) in world.take(6) {
                assert_eq!(meta.ecn, expected, "{}", world.name);
            }
        }
    }
}

#[test]
fn meta_names_both_ends_and_replies_find_back() {
    for mut world in worlds() {
        world.send(10, &pattern(10), Ecn::NotEct);
        let meta = world.take(1)[0].0;
        assert_eq!(
            meta.from.port(),
            world.a.local_addr().port(),
            "{}",
            world.name
        );
        assert_eq!(meta.from.is_ipv4(), world.to_b.is_ipv4(), "{}", world.name);
        let reply = [1, 2, 3];
        let slices = [IoSlice::new(&reply)];
        let sent = world
            .b
            .send(&Train::single(meta.from, Ecn::NotEct, &slices))
            .unwrap();
        assert_eq!(sent, SendOutcome::Sent(1), "{}", world.name);
        let back = drain(&mut *world.a, 1);
        assert_eq!(back[0].1, reply, "{}", world.name);
        assert_eq!(back[0].0.from, world.to_b, "{}", world.name);
    }
}

#[test]
fn arrival_is_told_by_the_wall_clock_where_it_is_known() {
    let mut worlds = worlds();
    for world in &mut worlds {
        world.send(10, &pattern(10), Ecn::NotEct);
    }
    thread::sleep(Duration::from_millis(50));
    for mut world in worlds {
        let arrived = world.take(1)[0].0.arrived;
        if world.b.capabilities().kernel_timestamps {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            let age = now.saturating_sub(arrived.unwrap());
            assert!(age >= Duration::from_millis(25), "{}: {age:?}", world.name);
            assert!(age < Duration::from_secs(600), "{}: {age:?}", world.name);
        } else {
            assert_eq!(arrived, None, "{}", world.name);
        }
    }
}

#[test]
fn recv_stops_at_its_limit_and_says_when_nothing_is_left() {
    for mut world in worlds() {
        for i in 0..10 {
            world.send(1, &[i], Ecn::NotEct);
        }
        let mut taken = Vec::new();
        assert_eq!(
            world.b.recv(0, &mut |_, _| ()).unwrap(),
            0,
            "{}",
            world.name
        );
        let mut counts = Vec::new();
        for max in [3, 1, 100] {
            assert!(
                world
                    .b
                    .wait(Some(Duration::from_secs(5)), false)
                    .unwrap()
                    .readable
            );
            let mut sink = |_: &Meta, bytes: &mut [u8]| taken.extend_from_slice(bytes);
            counts.push(world.b.recv(max, &mut sink).unwrap());
        }
        assert_eq!(counts, [3, 1, 6], "{}", world.name);
        assert_eq!(taken, (0..10).collect::<Vec<u8>>(), "{}", world.name);
        assert_eq!(
            world.b.recv(100, &mut |_, _| ()).unwrap(),
            0,
            "{}",
            world.name
        );
    }
}

#[test]
fn wait_tells_readable_and_writable_apart() {
    for mut world in worlds() {
        let name = &world.name;
        let moment = Some(Duration::from_millis(1));
        assert!(!world.b.wait(moment, false).unwrap().any(), "{name}");
        assert!(
            !world.b.wait(Some(Duration::ZERO), false).unwrap().any(),
            "{name}"
        );
        let ready = world.b.wait(moment, true).unwrap();
        assert!(ready.writable && !ready.readable, "{name}");
        world.send(1, &[7], Ecn::NotEct);
        let ready = world.b.wait(None, false).unwrap();
        assert!(ready.readable && !ready.writable, "{}", world.name);
        let ready = world.b.wait(None, true).unwrap();
        assert!(ready.readable && ready.writable, "{}", world.name);
        world.take(1);
    }
}

#[test]
fn a_receive_that_blocks_takes_one_group_and_tells_when_there_was_none() {
    for mut world in worlds() {
        let mut taken = Vec::new();
        let mut receive = |world: &mut World| {
            let mut sink = |_: &Meta, bytes: &mut [u8]| taken.extend_from_slice(bytes);
            world.b.recv_blocking(&mut sink).unwrap()
        };
        let begun = Instant::now();
        let got = [(); 2].map(|()| receive(&mut world));
        assert_eq!(got, [None; 2], "{}", world.name);
        // The first may end with a tick that is nearly over; the second then waits for a whole one.
        let limit = world.b.capabilities().block_limit.unwrap_or_default();
        assert!(begun.elapsed() >= limit / 4, "{}", world.name);
        world.send(1, &[1], Ecn::NotEct);
        world.send(1, &[2], Ecn::NotEct);
        let got = [(); 3].map(|()| receive(&mut world));
        assert_eq!(got, [Some(1), Some(1), None], "{}", world.name);
        assert_eq!(taken, [1, 2], "{}", world.name);
    }
}

#[test]
fn a_sleeping_receiver_is_woken_by_a_sender_elsewhere() {
    for mut world in worlds() {
        let mut b = world.b;
        let waiter = thread::spawn(move || {
            // A signal or a fault layer may end a wait early.
            while !b.wait(None, false).unwrap().readable {}
            drain(&mut *b, 3).len()
        });
        let slices = [IoSlice::new(&[0; 3])];
        for _ in 0..3 {
            let train = Train::single(world.to_b, Ecn::NotEct, &slices);
            assert_eq!(
                world.a.send(&train).unwrap(),
                SendOutcome::Sent(1),
                "{}",
                world.name
            );
        }
        assert_eq!(waiter.join().unwrap(), 3, "{}", world.name);
    }
}

#[test]
fn f27_more_than_fits_is_too_big_and_less_still_goes() {
    for mut world in worlds() {
        let bytes = pattern(MAX_TRAIN_BYTES + 1);
        let slices = [IoSlice::new(&bytes)];
        let whole = Train::single(world.to_b, Ecn::NotEct, &slices);
        assert_eq!(
            world.a.send(&whole).unwrap(),
            SendOutcome::TooBig,
            "{}",
            world.name
        );
        world.send(1_200, &pattern(1_200), Ecn::NotEct);
        assert_eq!(world.take(1)[0].1.len(), 1_200, "{}", world.name);
    }
}

#[test]
fn a_train_against_the_contract_is_an_error_and_harms_nothing() {
    for mut world in worlds() {
        let bytes = pattern(1_000);
        let slices = [IoSlice::new(&bytes)];
        let train = Train {
            len: 999,
            ..Train::single(world.to_b, Ecn::NotEct, &slices)
        };
        let error = world.a.send(&train).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{}", world.name);
        let inner = error.get_ref().and_then(|e| e.downcast_ref::<TrainError>());
        assert_eq!(
            inner,
            Some(&TrainError::Length {
                len: 999,
                held: 1_000
            }),
            "{}",
            world.name
        );
        let train = Train {
            segment: 10,
            ..Train::single(world.to_b, Ecn::NotEct, &slices)
        };
        match world.a.send(&train) {
            Ok(outcome) => assert_eq!(outcome, SendOutcome::NoGso, "{}", world.name),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{}", world.name),
        }
        world.send(10, &pattern(10), Ecn::NotEct);
        world.take(1);
    }
}

#[test]
fn f25_nobody_at_the_destination_is_a_hint_and_others_are_still_heard() {
    for mut world in worlds() {
        // Connected elsewhere: keeps the port from other tests and refuses our packets. In memory
        // there is no endpoint at all.
        let ip = if world.to_b.is_ipv4() {
            "127.0.0.1"
        } else {
            "::1"
        };
        let deaf = UdpSocket::bind(format!("{}", SocketAddr::new(ip.parse().unwrap(), 0))).unwrap();
        deaf.connect(SocketAddr::new(ip.parse().unwrap(), 1))
            .unwrap();
        let nowhere = SocketAddr::new(world.to_b.ip(), deaf.local_addr().unwrap().port());
        let slices = [IoSlice::new(&[0; 9])];
        for _ in 0..5 {
            let train = Train::single(nowhere, Ecn::NotEct, &slices);
            match world.a.send(&train).unwrap() {
                SendOutcome::Sent(1) | SendOutcome::Unreachable(_) => {}
                other => panic!("{}: {other:?}", world.name),
            }
            let mut from_nowhere = 0;
            world.a.recv(100, &mut |_, _| from_nowhere += 1).unwrap();
            assert_eq!(from_nowhere, 0, "{}", world.name);
        }
        world.send(10, &pattern(10), Ecn::NotEct);
        let (meta, _) = world.take(1)[0].clone();
        let reply = Train::single(meta.from, Ecn::NotEct, &slices);
        assert_eq!(
            world.b.send(&reply).unwrap(),
            SendOutcome::Sent(1),
            "{}",
            world.name
        );
        assert_eq!(drain(&mut *world.a, 1).len(), 1, "{}", world.name);
    }
}

#[test]
fn port_zero_is_unreachable_and_costs_nobody_the_fast_path() {
    for mut world in worlds() {
        let before = world.a.capabilities();
        let bytes = pattern(before.max_segments * 100);
        let slices = [IoSlice::new(&bytes)];
        let dest = SocketAddr::new(world.to_b.ip(), 0);
        let train = Train {
            dest,
            source: None,
            ecn: Ecn::NotEct,
            segment: 100,
            slices: &slices,
            len: bytes.len(),
        };
        let outcome = world.a.send(&train).unwrap();
        assert_eq!(
            outcome,
            SendOutcome::Unreachable(io::ErrorKind::InvalidInput),
            "{}",
            world.name
        );
        assert_eq!(world.a.capabilities(), before, "{}", world.name);
    }
}

#[test]
fn counters_count_datagrams_and_bytes_of_both_directions() {
    for mut world in worlds() {
        let sent = |world: &World| {
            let counters = world.a.counters();
            (counters.datagrams_sent, counters.bytes_sent)
        };
        let received = |world: &World| {
            let counters = world.b.counters();
            (counters.datagrams_received, counters.bytes_received)
        };
        let (sent_before, received_before) = (sent(&world), received(&world));
        world.send(100, &pattern(950), Ecn::NotEct);
        world.send(0, &[], Ecn::NotEct);
        world.take(11);
        let grown = |(count, bytes): (u64, u64)| (count + 11, bytes + 950);
        assert_eq!(sent(&world), grown(sent_before), "{}", world.name);
        assert_eq!(received(&world), grown(received_before), "{}", world.name);
        let (a, b) = (world.a.counters(), world.b.counters());
        assert!(a.send_calls >= 2 && b.recv_calls >= 1, "{}", world.name);
        assert_eq!(
            (b.recv_drops, b.truncated, b.recv_errors),
            (0, 0, 0),
            "{}",
            world.name
        );
        let trains = u64::from(world.a.capabilities().max_segments > 1);
        assert_eq!(a.trains_sent, trains, "{}", world.name);
        let joined = trains * u64::from(world.b.capabilities().gro);
        assert_eq!(b.trains_received, joined, "{}", world.name);
        assert_eq!(a.faults.total(), 0, "{}", world.name);
    }
}

#[test]
fn capabilities_are_within_the_documented_bounds() {
    for world in worlds() {
        let can = world.a.capabilities();
        assert!(
            (1..=MAX_TRAIN_SEGMENTS).contains(&can.max_segments),
            "{}",
            world.name
        );
        assert!(can.recv_buffer > 0 && can.send_buffer > 0, "{}", world.name);
        // A fault layer has packets of its own to let go in time.
        let blocks = can.block_limit.is_some();
        let uses_linux = world.name.starts_with("udp") || world.name.starts_with("raw");
        assert_eq!(blocks, uses_linux, "{}", world.name);
        if uses_linux {
            assert_eq!(
                can.max_segments == 1,
                world.name.contains("without gso"),
                "{}",
                world.name
            );
            assert_eq!(
                can.gro,
                !world.name.contains("without gro"),
                "{}",
                world.name
            );
            assert!(can.ecn && can.kernel_timestamps, "{}", world.name);
        }
    }
}
