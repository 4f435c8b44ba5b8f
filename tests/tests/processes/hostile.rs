//! Strangers, forks, consumers that do not consume, and peers that are not there.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::FromRawFd;
use std::time::{Duration, Instant};

use suci::{AddressBook, Node, NodeId};
use suci_tests::{Cast, heavy, light};
use xtask::netns::{Netns, Pair};

/// Datagrams of other versions and plain garbage, of every length, reach a node that serves others.
#[test]
fn f08_garbage_and_other_versions_are_counted_and_disturb_nobody() {
    let _together = light();
    let (netns, cast) = (Netns::new().unwrap(), Cast::local(2));
    let mut server = cast.start(&netns, 0, &["silence=1000"]);
    let mut client = cast.start(&netns, 1, &["silence=1000"]);
    client.say("load 0 16 2000");
    server.reaches("/received/1", 100);
    let stranger = netns
        .inside(|| UdpSocket::bind("127.0.0.1:0"))
        .unwrap()
        .unwrap();
    let mut state = 1_u64;
    for length in 0..1_400 {
        let mut datagram: Vec<u8> = (0..length)
            .map(|_| {
                state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        // A third says that it is of version 2, a third of version 1.
        if let (Some(first), version @ 1..=2) = (datagram.first_mut(), length % 3) {
            *first = (version as u8) << 4;
        }
        stranger.send_to(&datagram, cast.address(0)).unwrap();
        if length % 50 == 0 {
            // Not more at once than the socket has room for: the server looks at it between two
            // answers.
            server.stat();
        }
    }
    let received = server.number("/received/1");
    server.reaches("/received/1", received + 100);
    let stat = server.stat();
    let count = |name: &str| stat[name].as_u64().unwrap();
    assert!(count("wrong_version") > 300, "{stat}");
    assert!(count("malformed") + count("bad_checksum") > 300, "{stat}");
    assert_eq!(count("protocol_errors"), 0);
    assert_eq!(server.events("lost"), []);
    assert_eq!(server.events("ended"), []);
    client.say("rest 0");
    client.finish();
    server.finish();
}

/// An attacker sends datagrams with wrong UDP checksums, less than a tick of the kernel apart. A
/// node that waits for a message keeps its time.
#[test]
fn f08_wrong_checksums_keep_no_receive_from_ending() {
    let _together = light();
    let netns = Netns::new().unwrap();
    let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 7000);
    let open = || {
        let node = Node::builder().id(NodeId(0)).book(AddressBook::new());
        node.listen(to.into()).unattended().open().unwrap()
    };
    let mut node = netns.inside(open).unwrap();
    let socket = netns.inside(raw_socket).unwrap();
    let noise = std::thread::spawn(move || {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(3) {
            socket.send_to(&with_wrong_checksum(to), to).unwrap();
            std::thread::sleep(Duration::from_micros(500));
        }
    });
    // The first datagram is on its way.
    while netns.counter("UdpInCsumErrors").unwrap() == 0 {
        assert!(!noise.is_finished(), "the kernel takes it for good");
        node.poll(Duration::ZERO).unwrap();
    }
    let begun = Instant::now();
    let received = node.recv_timeout(Duration::from_millis(500)).unwrap();
    let took = begun.elapsed();
    assert!(received.is_none());
    assert!(took < Duration::from_millis(1_500), "{took:?}");
    assert!(!noise.is_finished(), "it was to go on meanwhile");
    noise.join().unwrap();
    assert_eq!(node.counters().unwrap().datagrams_in, 0);
}

/// A socket that sends whole IP packets.
fn raw_socket() -> UdpSocket {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: makes a descriptor; no pointers are involved.
    let fd = unsafe { libc::socket(libc::AF_INET, kind, libc::IPPROTO_RAW) };
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the descriptor was made above and has no other owner.
    unsafe { UdpSocket::from_raw_fd(fd) }
}

/// An IPv4 packet with a UDP datagram from port 9 whose checksum is not right, of more than the 76
/// bytes below which the kernel always looks at it at once (`CHECKSUM_BREAK`). It fills in the
/// checksum of the IP header.
fn with_wrong_checksum(to: SocketAddrV4) -> Vec<u8> {
    const LENGTH: u16 = 20 + 8 + 200;
    let mut packet = vec![0x45, 0];
    packet.extend(LENGTH.to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    packet.extend(to.ip().octets());
    packet.extend(to.ip().octets());
    for word in [9, to.port(), LENGTH - 20, 1] {
        packet.extend(word.to_be_bytes());
    }
    packet.resize(LENGTH.into(), 0);
    packet
}

/// The child of a fork gets errors; its parent goes on as if nothing had been.
#[test]
fn f24_a_forked_child_gets_errors_and_its_parent_goes_on() {
    let _together = light();
    let (netns, cast) = (Netns::new().unwrap(), Cast::local(2));
    let mut parent = cast.start(&netns, 0, &["silence=1000"]);
    let mut peer = cast.start(&netns, 1, &["silence=1000"]);
    parent.say("load 1 16 1000");
    peer.say("load 0 16 1000");
    for round in 1..=3_u64 {
        parent.reaches("/delivered/1", round * 50);
        peer.reaches("/delivered/0", round * 50);
        parent.say("fork");
        parent.stat();
    }
    assert_eq!(parent.events("forked").len(), 3);
    assert_eq!(parent.events("forked 0").len(), 3, "each child was refused");
    let delivered = parent.number("/delivered/1");
    parent.reaches("/delivered/1", delivered + 100);
    assert_eq!(parent.events("ended"), []);
    assert_eq!(peer.events("ended"), []);
    parent.rest(1);
    peer.rest(0);
    parent.finish();
    peer.finish();
}

/// One address of the book has no listener. The kernel's reports of it are hints, other peers are
/// served meanwhile, and when the process comes it gets the messages that waited for it.
#[test]
fn f25_a_port_that_refuses_is_a_hint_and_may_open_later() {
    let _together = light();
    let (netns, cast) = (Netns::new().unwrap(), Cast::local(3));
    let mut early = cast.start(&netns, 0, &[]);
    let mut other = cast.start(&netns, 1, &[]);
    early.say("send 2 20 1000");
    early.say("load 1 16 1000");
    early.reaches("/delivered/1", 500);
    assert_eq!(early.number("/delivered/2"), 0);
    let mut late = cast.start(&netns, 2, &[]);
    late.reaches("/received/0", 20);
    early.reaches("/delivered/2", 20);
    assert_eq!(early.events("ended"), []);
    assert_eq!(early.events("lost"), []);
    let delivered = early.number("/delivered/1");
    early.reaches("/delivered/1", delivered + 100);
    early.say("rest 1");
    other.reaches("/received/0", delivered);
    early.finish();
    other.finish();
    late.finish();
}

/// A program stops polling, then its process is stopped altogether, while two others send as fast
/// as they can: they are held back, the kernel drops nothing, and everything arrives.
#[test]
fn f18_a_flooded_program_that_does_not_poll_loses_nothing() {
    let _alone = heavy();
    let pair = Pair::new().unwrap();
    let netns = [&pair.b, &pair.a, &pair.a];
    let cast = Cast::new(&[
        (pair.b_addr(), 7000).into(),
        (pair.a_addr(), 7001).into(),
        (pair.a_addr(), 7002).into(),
    ]);
    let drops = || -> Vec<u64> {
        let count = |name| [&pair.a, &pair.b].map(|end| end.counter(name).unwrap());
        [count("UdpRcvbufErrors"), count("UdpMemErrors")].concat()
    };
    let before = drops();
    let mut slow = cast.start(
        netns[0],
        0,
        &["silence=1000", "give_up=30000", "memory=4194304"],
    );
    let settings = ["silence=1000", "give_up=30000"];
    let mut senders = [1, 2].map(|id| cast.start(netns[id as usize], id, &settings));
    for sender in &mut senders {
        sender.say("load 0 4000 3000");
    }
    slow.reaches("/received/1", 100);
    slow.reaches("/received/2", 100);
    // Longer than the rest takes, even on a busy machine.
    slow.say("compute 6000");
    std::thread::sleep(Duration::from_millis(2_500));
    let held: Vec<u64> = senders
        .iter_mut()
        .map(|s| s.number("/delivered/0"))
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    for (sender, held) in senders.iter_mut().zip(held) {
        assert_eq!(
            sender.number("/delivered/0"),
            held,
            "memory is full long ago"
        );
        assert_eq!(sender.events("lost"), [], "its helper answers");
    }
    slow.reaches("/received/1", 500);
    slow.signal(libc::SIGSTOP);
    std::thread::sleep(Duration::from_millis(1_500));
    slow.signal(libc::SIGCONT);
    for (sender, id) in senders.iter_mut().zip(1..) {
        sender.say("rest 0");
        let accepted = sender.number("/accepted/0");
        slow.reaches(&format!("/received/{id}"), accepted);
        assert_eq!(sender.events("ended"), []);
    }
    assert_eq!(slow.number("/recv_drops"), 0);
    assert_eq!(drops(), before, "the kernel dropped something");
    senders.into_iter().for_each(suci_tests::Subject::finish);
    slow.finish();
}
