//! Networks that lose, shrink, damage and refuse.

use std::fs::File;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use suci_tests::{Cast, DOWN, LONG, Subject, heavy, light};
use xtask::exec::{self, Process};
use xtask::netns::{INTERFACE, Netns, Pair};

/// Starts one node at each end.
fn at_both_ends(pair: &Pair, settings: [&[&str]; 2]) -> (Subject, Subject) {
    let cast = Cast::new(&[(pair.a_addr(), 7000).into(), (pair.b_addr(), 7000).into()]);
    let a = cast.start(&pair.a, 0, settings[0]);
    (a, cast.start(&pair.b, 1, settings[1]))
}

/// Sends `count` messages of `size` bytes from `a` to `b`, and waits until they are there and known
/// to be.
fn transfer(a: &mut Subject, b: &mut Subject, count: u64, size: u64) {
    let (before, known) = (b.number("/received/0"), a.number("/delivered/1"));
    a.say(&format!("send 1 {count} {size}"));
    b.reaches("/received/0", before + count);
    a.reaches("/delivered/1", known + count);
}

/// Bytes that no repetition can hide behind.
fn noise(path: &Path, length: usize) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    let bytes: Vec<u8> = words.flatten().take(length).collect();
    std::fs::write(path, bytes).unwrap();
}

/// Sends `length` bytes by `suci cat` with the two commands, to `address`; all bytes arrive.
pub(crate) fn cat([mut receiver, mut sender]: [Command; 2], address: &str, length: usize) {
    let dir = tempfile::TempDir::with_prefix("suci-tests-").unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    noise(&from, length);
    receiver.args(["--listen", address]).stdin(Stdio::null());
    receiver.stdout(File::create(&to).unwrap());
    sender.arg(address).stdin(File::open(&from).unwrap());
    sender.stdout(Stdio::null());
    let mut receiver = Process::spawn(&mut receiver).unwrap();
    let mut sender = Process::spawn(&mut sender).unwrap();
    let deadline = Instant::now() + LONG;
    sender.finish_by(deadline).unwrap();
    receiver.finish_by(deadline).unwrap();
    let same = std::fs::read(&from).unwrap() == std::fs::read(&to).unwrap();
    assert!(same, "what arrived is not what was sent");
}

/// A file through a cable that drops one packet in fifty, each way.
#[test]
fn f31_cat_through_random_drops_between_namespaces() {
    let _alone = heavy();
    let pair = Pair::new().unwrap();
    pair.offloads_off().unwrap();
    pair.drop_randomly(0.02).unwrap();
    let command = |end: &Netns| {
        let mut command = end.command(exec::built("suci").unwrap());
        command.args(["cat", "--plain"]);
        command
    };
    let ends = [command(&pair.b), command(&pair.a)];
    cat(ends, &format!("{}:7000", pair.b_addr()), 16 << 20);
}

/// Flipped bits that the UDP checksum did not see, by the command's own fault layer.
#[test]
fn f30_cat_through_corruption_arrives_unchanged() {
    let _together = light();
    let netns = Netns::new().unwrap();
    let command = |seed: u32| {
        let mut command = netns.command(exec::built("suci").unwrap());
        command.args([
            "cat",
            "--faults",
            &format!("corrupt=0.02,dup=0.01,seed={seed}"),
        ]);
        command
    };
    cat([command(1), command(2)], "127.0.0.1:7000", 4 << 20);
}

/// The same between two nodes, where the counters show that packets were damaged and refused.
#[test]
fn f30_damaged_packets_are_counted_and_repaired() {
    let _together = light();
    let (netns, cast) = (Netns::new().unwrap(), Cast::local(2));
    let mut a = cast.start(&netns, 0, &["faults=corrupt=0.02,seed=3"]);
    let mut b = cast.start(&netns, 1, &["faults=corrupt=0.02,seed=4"]);
    transfer(&mut a, &mut b, 1_000, 5_000);
    assert!(b.number("/bad_checksum") > 0);
    assert_eq!(b.number("/protocol_errors"), 0);
    a.finish();
    b.finish();
}

/// Nodes that make their own Ethernet frames, and one that does with one that does not: small
/// messages and long ones both ways, also where packets are lost, and where the interface goes down
/// for a while.
#[test]
fn raw_ethernet_carries_what_udp_does() {
    let _alone = heavy();
    let (raw, udp, xdp) = ("backend=af_packet", "backend=udp", "backend=af_xdp");
    let own = "backend=ethernet";
    for (settings, loss) in [
        ([xdp, xdp], 0.0),
        ([xdp, udp], 0.0),
        ([raw, xdp], 0.02),
        ([raw, raw], 0.0),
        ([raw, udp], 0.0),
        ([udp, raw], 0.0),
        ([raw, raw], 0.02),
        ([own, own], 0.0),
        ([own, own], 0.02),
    ] {
        let pair = Pair::new().unwrap();
        if loss > 0.0 {
            pair.offloads_off().unwrap();
            pair.drop_randomly(loss).unwrap();
        }
        let [a, b] = &settings;
        let (mut a, mut b) = at_both_ends(&pair, [&[*a], &[*b]]);
        for (count, size) in [(2_000, 100), (40, 1_000_000)] {
            transfer(&mut a, &mut b, count, size);
            b.say(&format!("send 0 {count} {size}"));
        }
        a.reaches("/received/1", 2_040);
        for way in ["down", "up"] {
            pair.a.run(&["ip", "link", "set", INTERFACE, way]).unwrap();
            std::thread::sleep(Duration::from_millis(200));
        }
        transfer(&mut a, &mut b, 20, 100_000);
        assert_eq!((a.number("/recv_drops"), b.number("/recv_drops")), (0, 0));
        a.finish();
        b.finish();
    }
}

/// A node at each end: that of `b` is bound to the wildcard address of its host, has `second`
/// beside its first address, and is called there.
fn with_two_addresses(pair: &Pair, second: Ipv4Addr) -> (Subject, Subject) {
    let address = format!("{second}/16");
    pair.b
        .run(&["ip", "addr", "add", &address, "dev", INTERFACE])
        .unwrap();
    let cast = Cast::new(&[(pair.a_addr(), 7000).into(), (second, 7000).into()]);
    let bound = (pair.b).inside(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 7000)));
    let b = cast.start_with(&pair.b, 1, bound.unwrap().unwrap());
    (cast.start(&pair.a, 0, &[]), b)
}

/// A node that is bound to the wildcard address of a host with two addresses answers from the one
/// that was called. The caller cannot reach the other one.
#[test]
fn f40_a_node_answers_from_the_address_that_was_called() {
    let _together = light();
    let pair = Pair::new().unwrap();
    let (first, second) = (pair.b_addr(), Ipv4Addr::from(u32::from(pair.b_addr()) + 10));
    pair.a
        .run(&["ip", "route", "add", "blackhole", &first.to_string()])
        .unwrap();
    let (mut a, mut b) = with_two_addresses(&pair, second);
    transfer(&mut a, &mut b, 20, 100_000);
    b.say("send 0 20 100000");
    a.reaches("/received/1", 20);
    b.reaches("/delivered/0", 20);
    a.finish();
    b.finish();
}

/// The host loses the address that was called: its node goes on from the other one, and its peer
/// follows.
#[test]
fn f40_an_address_that_is_gone_is_left_alone() {
    let _together = light();
    let pair = Pair::new().unwrap();
    let second = Ipv4Addr::from(u32::from(pair.b_addr()) + 10);
    let (mut a, mut b) = with_two_addresses(&pair, second);
    transfer(&mut a, &mut b, 20, 100_000);
    let address = format!("{second}/16");
    pair.b
        .run(&["ip", "addr", "del", &address, "dev", INTERFACE])
        .unwrap();
    let begun = Instant::now();
    b.say("send 0 20 100000");
    a.reaches("/received/1", 20);
    assert!(begun.elapsed() < Duration::from_secs(5));
    transfer(&mut a, &mut b, 20, 100_000);
    assert_eq!(b.events("ended"), []);
    a.finish();
    b.finish();
}

/// A send buffer far smaller than the data: the socket is full again and again, and nothing is
/// lost.
#[test]
fn f26_a_tiny_send_buffer_is_back_pressure() {
    let _together = light();
    let pair = Pair::new().unwrap();
    pair.a.limit_rate(50, 200).unwrap();
    let (mut a, mut b) = at_both_ends(&pair, [&["send_buffer=4608"], &[]]);
    transfer(&mut a, &mut b, 40, 100_000);
    let stat = a.stat();
    assert!(stat["socket_full"].as_u64().unwrap() > 0, "{stat}");
    a.finish();
    b.finish();
}

/// Ways of packets that must bear a wrong MTU.
const BACKENDS: [&str; 4] = [
    "backend=udp",
    "backend=af_packet",
    "backend=af_xdp",
    "backend=ethernet",
];

/// The far end of the cable begins to drop large packets in the middle of a transfer, without a
/// word.
#[test]
fn f27_a_cable_that_shrinks_midway_swallows_large_packets() {
    let _together = light();
    BACKENDS.into_iter().for_each(swallows_large_packets);
}

fn swallows_large_packets(backend: &str) {
    let pair = Pair::new().unwrap();
    pair.offloads_off().unwrap();
    let (mut a, mut b) = at_both_ends(&pair, [&[backend], &[backend]]);
    transfer(&mut a, &mut b, 20, 100_000);
    assert_eq!(a.number("/mtu/1"), 1_472);
    pair.b
        .run(&["ip", "link", "set", INTERFACE, "mtu", "1300"])
        .unwrap();
    transfer(&mut a, &mut b, 20, 100_000);
    let mtu = a.number("/mtu/1");
    // The kernel lets four bytes more in than the device's MTU, for a VLAN tag
    // (`is_skb_forwardable`). Frames without IP and UDP have 12 bytes less in front.
    assert!((1_200..=1_288).contains(&mtu), "{backend}: {mtu}");
    assert_eq!(a.events("ended"), []);
    a.finish();
    b.finish();
}

/// The near end shrinks: the kernel says EMSGSIZE, and raw backends ask it each second.
#[test]
fn f27_emsgsize_midway_lowers_the_size() {
    let _together = light();
    BACKENDS.into_iter().for_each(lowers_the_size);
}

fn lowers_the_size(backend: &str) {
    let pair = Pair::new().unwrap();
    let (mut a, mut b) = at_both_ends(&pair, [&[backend], &[backend]]);
    transfer(&mut a, &mut b, 20, 100_000);
    pair.mtu(1_350).unwrap();
    let begun = Instant::now();
    let mut mtu = 1_472;
    while mtu > 1_322 && begun.elapsed() < LONG {
        transfer(&mut a, &mut b, 20, 100_000);
        mtu = a.number("/mtu/1");
    }
    assert!((1_200..=1_322).contains(&mtu), "{backend}: {mtu}");
    a.finish();
    b.finish();
}

/// A socket that sends without UDP checksums makes the kernel refuse segmentation offload (EINVAL).
/// The offload is switched off for that socket, and the refused packets are sent without it.
#[test]
fn f28_refused_segmentation_offload_is_switched_off_and_nothing_is_lost() {
    let _together = light();
    let (netns, cast) = (Netns::new().unwrap(), Cast::local(2));
    let bound = netns.inside(|| UdpSocket::bind(cast.address(0)));
    let socket = bound.unwrap().unwrap();
    without_checksums(&socket);
    let mut a = cast.start_with(&netns, 0, socket);
    let mut b = cast.start(&netns, 1, &[]);
    transfer(&mut a, &mut b, 20, 100_000);
    let stat = a.stat();
    assert_eq!(stat["gso_refused"], 1, "{stat}");
    assert_eq!(stat["trains_sent"], 0, "{stat}");
    b.say("send 0 20 100000");
    a.reaches("/received/1", 20);
    b.reaches("/delivered/0", 20);
    assert!(b.number("/trains_sent") > 0, "it goes on where it works");
    a.finish();
    b.finish();
}

/// Sets SO_NO_CHECK.
fn without_checksums(socket: &UdpSocket) {
    let on: libc::c_int = 1;
    let length = libc::socklen_t::try_from(size_of_val(&on)).unwrap();
    let (level, option) = (libc::SOL_SOCKET, libc::SO_NO_CHECK);
    // SAFETY: the descriptor is open; the value outlives the call and has the given length.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const on).cast(),
            length,
        )
    };
    assert_eq!(set, 0, "SO_NO_CHECK");
}

/// Offloads switched off by configuration, at either end: the other one need not know.
#[test]
fn f28_offloads_can_be_switched_off_by_configuration() {
    let _together = light();
    let pair = Pair::new().unwrap();
    let (mut a, mut b) = at_both_ends(&pair, [&["gso=off"], &["gro=off"]]);
    transfer(&mut a, &mut b, 20, 100_000);
    assert_eq!(a.number("/trains_sent"), 0);
    a.finish();
    b.finish();
}

/// Delayed beyond every timer at the beginning, then slow: a long path is not a broken one.
#[test]
fn a_long_path_is_not_a_broken_one() {
    let _together = light();
    let (netns, cast) = (Netns::new().unwrap(), Cast::local(2));
    let mut a = cast.start(&netns, 0, &["faults=delay=150ms..200ms,seed=5"]);
    let mut b = cast.start(&netns, 1, &["faults=delay=150ms..200ms,seed=6"]);
    let begun = Instant::now();
    transfer(&mut a, &mut b, 50, 2_000);
    assert!(begun.elapsed() > Duration::from_millis(300));
    assert_eq!(a.events("lost"), []);
    a.finish();
    b.finish();
}

/// A cable is taken away for long and put back: each side sees the other lost and up again once,
/// and everything arrives once.
#[test]
fn f31_a_cable_that_is_down_for_long_loses_nothing() {
    let _together = light();
    let time = std::env::var(DOWN).map_or(3_000, |time| time.parse::<u64>().unwrap());
    let pair = Pair::new().unwrap();
    let silence = format!("silence={}", time / 6);
    let (mut a, mut b) = at_both_ends(&pair, [&[&silence], &[&silence]]);
    for (subject, other) in [(&mut a, 1), (&mut b, 0)] {
        subject.say(&format!("load {other} 16 1000"));
        subject.reaches(&format!("/delivered/{other}"), 100);
    }
    let cable = |state: &str| {
        pair.b
            .run(&["ip", "link", "set", INTERFACE, state])
            .unwrap()
    };
    cable("down");
    std::thread::sleep(Duration::from_millis(time));
    let before = [a.number("/delivered/1"), b.number("/delivered/0")];
    cable("up");
    a.reaches("/delivered/1", before[0] + 100);
    b.reaches("/delivered/0", before[1] + 100);
    for (subject, other) in [(&mut a, 1), (&mut b, 0)] {
        subject.rest(other);
        assert_eq!(subject.events("lost").len(), 1);
        assert_eq!(subject.events("up").len(), 2, "at first and afterwards");
        assert_eq!(subject.events("ended"), []);
    }
    let (sent, back) = (a.number("/accepted/1"), b.number("/accepted/0"));
    b.reaches("/received/0", sent);
    a.reaches("/received/1", back);
    println!(
        "figure: down for {time} ms, lost and up once, {} messages arrived",
        sent + back
    );
    a.finish();
    b.finish();
}
