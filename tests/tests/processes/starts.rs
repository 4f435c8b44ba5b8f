//! Processes that start under one node ID again and again, against a server that stays.

use std::net::SocketAddr;

use suci_tests::{Cast, STARTS, Subject, count, light};
use xtask::netns::Netns;

/// KiB that the server's memory may grow from the first fifth of the starts to the last start.
const GROWTH: u64 = 1_024;

/// Address of the server.
const SERVER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7_000);

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Close,
    Kill,
}

/// Starts node 1 again and again, each time at the address that `place` gives for the number of the
/// start. Each process sends one message, waits until it is delivered, and ends. Every message
/// arrives, and the server needs no more memory.
fn start_again_and_again(end: End, place: impl Fn(u16) -> SocketAddr) {
    let _together = light();
    let starts = count(STARTS, 30);
    let netns = Netns::new().unwrap();
    let cast = Cast::new(&[SERVER, place(0)]);
    let mut server = cast.start(&netns, 0, &[]);
    let mut early = 0;
    for number in 0..starts {
        let place = place(u16::try_from(number).unwrap());
        let mut client = Cast::new(&[SERVER, place]).start(&netns, 1, &[]);
        client.say("send 0 1 100");
        client.reaches("/delivered/0", 1);
        match end {
            End::Close => client.finish(),
            End::Kill => client.kill(),
        }
        if number == starts / 5 {
            early = server.resident();
        }
    }
    arrived(&mut server, starts);
    let late = server.resident();
    let grown = late.saturating_sub(early);
    println!(
        "figure: {starts} starts, each first message arrived, memory {early} KiB, then {late} KiB"
    );
    assert!(grown <= GROWTH, "{grown} KiB more");
    drop(server);
}

/// Every message of `starts` sessions arrived, and each session but the last one ended.
fn arrived(server: &mut Subject, starts: u32) {
    server.reaches("/received/1", starts.into());
    let ended = server.events("ended 1").len();
    assert!(ended + 1 >= starts as usize, "{ended} sessions ended");
    assert_eq!(server.events("up 1").len(), starts as usize);
}

#[test]
fn starts_in_order_on_one_port() {
    start_again_and_again(End::Close, |_| SocketAddr::new(SERVER.ip(), 7_001));
}

#[test]
fn starts_in_order_on_other_ports() {
    start_again_and_again(End::Close, |number| {
        SocketAddr::new(SERVER.ip(), 8_000 + number)
    });
}

#[test]
fn starts_after_a_kill_on_one_port() {
    start_again_and_again(End::Kill, |_| SocketAddr::new(SERVER.ip(), 7_001));
}

#[test]
fn starts_after_a_kill_on_other_ports() {
    start_again_and_again(End::Kill, |number| {
        SocketAddr::new(SERVER.ip(), 8_000 + number)
    });
}
