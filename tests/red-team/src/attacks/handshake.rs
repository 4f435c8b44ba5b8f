//! Attacks on the handshake, by somebody who has no session.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use suci_proto::types::{Epoch, Incarnation, NodeId};
use suci_proto::wire::{self, Accept, Cookie, HELLO_LEN, Init, PacketType, Params};

use crate::heap;
use crate::rogue::{Rogue, answer, hello, invited, member, packet, socket_to};
use crate::scene::{Scene, Setting, VICTIM};
use crate::{Report, ensure, text};

/// The first of the forged node IDs: no other node has one.
const NOBODY: u32 = 1 << 20;

/// Hostile datagrams between two messages of the honest node: fewer than fill a socket buffer.
const BURST: u32 = 50;

/// Maximum number of bytes that a flood of HELLOs may leave on the heap: what waits is bounded.
const LEFT: usize = 1 << 20;

/// A socket at one of the many addresses of loopback.
fn elsewhere(number: u32) -> Result<UdpSocket, String> {
    let [_, a, b, c] = number.to_be_bytes();
    let at = Ipv4Addr::new(127, 16 + a % 64, b, c);
    UdpSocket::bind((at, 0)).map_err(text)
}

/// Reads all that came. Returns its bytes, and those of the longest datagram.
fn heard(socket: &UdpSocket) -> Result<(usize, usize), String> {
    socket.set_nonblocking(true).map_err(text)?;
    let (mut all, mut longest) = (0, 0);
    let mut buffer = [0; 2_048];
    while let Ok(len) = socket.recv(&mut buffer) {
        all += len;
        longest = longest.max(len);
    }
    Ok((all, longest))
}

pub(super) fn spoofed_hellos(setting: Setting) -> Result<Report, String> {
    let mut scene = Scene::new(setting)?;
    let (peers, before) = (scene.peers()?, scene.counters()?.datagrams_in);
    let held = heap::held();
    (0..setting.volume).try_for_each(|number| spoofed_hello(&mut scene, number))?;
    scene.exchange(1)?;
    let taken = scene.counters()?.datagrams_in - before;
    let volume = u64::from(setting.volume);
    ensure(taken >= volume, || format!("only {taken} of {volume} came"))?;
    let now = scene.peers()?;
    ensure(now == peers, || format!("{peers} peers became {now}"))?;
    let left = heap::held().saturating_sub(held);
    ensure(left <= LEFT, || format!("{left} B stayed on the heap"))?;
    // The flood lasts while newcomers come.
    let mut number = setting.volume;
    while scene.newcomers_come()? {
        spoofed_hello(&mut scene, number)?;
        number += 1;
    }
    scene.finish()
}

/// Sends one HELLO of an address and a node that no other one has.
fn spoofed_hello(scene: &mut Scene, number: u32) -> Result<(), String> {
    let socket = elsewhere(number)?;
    let call = hello(NOBODY + number, u64::from(number) + 1);
    socket.send_to(&call, scene.address()).map_err(text)?;
    scene.hostile += 1;
    match number.is_multiple_of(BURST) {
        true => scene.exchange(1),
        false => Ok(()),
    }
}

pub(super) fn reflection(setting: Setting) -> Result<Report, String> {
    let mut scene = Scene::new(setting)?;
    // A HELLO, a packet of no connection, and HELLO to another node: COOKIE, UNKNOWN, REFUSED.
    let mut wrong = hello(NOBODY, 9);
    if let Some(target) = wrong.get_mut(wire::PLAIN_OVERHEAD..wire::PLAIN_OVERHEAD + 4) {
        target.copy_from_slice(&99_u32.to_le_bytes());
    }
    wire::seal(&mut wrong);
    let unknown = packet(PacketType::Data, 0x00ff_ff42, 7, 11, &[0; 20]);
    let causes = [hello(NOBODY, 8), unknown, wrong];
    let mut answers = 0;
    for round in 0..30 {
        for cause in &causes {
            let socket = elsewhere(round)?;
            socket.send_to(cause, scene.address()).map_err(text)?;
            scene.hostile += 1;
            scene.exchange(1)?;
            std::thread::sleep(Duration::from_millis(2));
            let (all, longest) = heard(&socket)?;
            answers += usize::from(all > 0);
            ensure(all <= cause.len() && longest <= HELLO_LEN, || {
                format!("{} B were answered by {all} B", cause.len())
            })?;
        }
    }
    ensure(answers > 30, || format!("only {answers} answers"))?;
    let rogue = Rogue::connect(&scene, NOBODY)?;
    let (init, accept) = (rogue.init_len, rogue.accept_len);
    ensure(accept <= init, || {
        format!("INIT of {init} B, ACCEPT of {accept} B")
    })?;
    scene.finish()
}

pub(super) fn forged_cookies(setting: Setting) -> Result<Report, String> {
    let mut scene = Scene::new(setting)?;
    let peers = scene.peers()?;
    let makes = setting.sealed.then(member).transpose()?;
    let socket = socket_to(scene.address())?;
    let mut invitation = invited(&socket, NOBODY, 1)?;
    // Everything is right but the cookie.
    for round in 0..setting.volume / 20 {
        let cookie = &mut invitation.cookie.cookie;
        let at = (round as usize) % cookie.len();
        if let Some(byte) = cookie.get_mut(at) {
            *byte = byte.wrapping_add(1 + (round / 24) as u8);
        }
        let (init, _) = invitation.init(makes.as_ref())?;
        socket.send(&init).map_err(text)?;
        scene.hostile += 1;
        if round.is_multiple_of(BURST) {
            scene.exchange(1)?;
        }
    }
    scene.exchange(1)?;
    let now = scene.peers()?;
    ensure(now == peers, || format!("{peers} peers became {now}"))?;
    scene.finish()
}

/// Callers that say hello again and again and never go on: more than get places, and few enough
/// that each repeats its HELLO within the 100 ms after which it might lose its place.
const SLOW_CALLERS: u64 = 1_024;

pub(super) fn slow_handshakes(setting: Setting) -> Result<Report, String> {
    let mut scene = Scene::new(setting)?;
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, victim) = (Arc::clone(&stop), scene.address());
    let flood = std::thread::spawn(move || -> Result<u64, String> {
        let socket = elsewhere(1)?;
        let mut sent = 0_u64;
        while !stopped.load(Ordering::Relaxed) {
            for _ in 0..BURST {
                sent += 1;
                let caller = sent % SLOW_CALLERS;
                let call = hello(NOBODY + caller as u32, caller);
                socket.send_to(&call, victim).map_err(text)?;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(sent)
    });
    // Until all room that the flood can take is taken.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(500) {
        scene.exchange(1)?;
    }
    let mut came = Ok(Duration::ZERO);
    for host in 1..=3 {
        came = came.and_then(|_| scene.stranger_comes([127, 8, 0, host]));
        scene.exchange(1)?;
    }
    stop.store(true, Ordering::Relaxed);
    let sent = flood.join().map_err(|_| "the flood panicked")??;
    scene.hostile += sent;
    came?;
    scene.finish()
}

/// Messages of the key that one address may have read in vain: so many at once, so many a second.
const FAILURES: [u64; 2] = [1_024, 128];

pub(super) fn key_guessing(setting: Setting) -> Result<Report, String> {
    let mut scene = Scene::new(setting)?;
    let socket = socket_to(scene.address())?;
    let invitation = invited(&socket, NOBODY, 1)?;
    let (mut init, _) = invitation.init(Some(&member()?))?;
    if let Some(last) = init.last_mut() {
        *last ^= 1;
    }
    wire::seal(&mut init);
    let begun = Instant::now();
    let mut refused = 0;
    socket.set_nonblocking(true).map_err(text)?;
    for _ in 0..60 {
        for _ in 0..BURST {
            socket.send(&init).map_err(text)?;
            scene.hostile += 1;
        }
        scene.exchange(1)?;
        let mut buffer = [0; 2_048];
        while socket.recv(&mut buffer).is_ok() {
            refused += 1;
        }
    }
    let [burst, rate] = FAILURES;
    let most = burst + rate * (begun.elapsed().as_secs() + 1);
    ensure(refused <= most, || {
        format!("{refused} messages were read, {most} may be")
    })?;
    scene.finish()
}

/// INITs of the attacker's own, to see if messages of its address are read.
const PROBES: usize = 50;

pub(super) fn repeated_inits(setting: Setting) -> Result<Report, String> {
    let mut scene = Scene::with_relay(setting)?;
    let recorded = scene.relay()?.recorded();
    let is_init = |bytes: &&Vec<u8>| {
        let opened = wire::open(bytes).ok();
        opened.is_some_and(|(header, _)| header.kind == PacketType::Init)
    };
    let init = recorded
        .iter()
        .find(is_init)
        .ok_or("no INIT was recorded")?;
    let mut changed = init.clone();
    if let Some(last) = changed.last_mut() {
        *last ^= 1;
    }
    wire::seal(&mut changed);
    // While the recorded cookie is good.
    for _ in 0..100 {
        for _ in 0..BURST / 2 {
            scene.relay()?.send(init, scene.address())?;
            scene.relay()?.send(&changed, scene.address())?;
            scene.hostile += 2;
        }
        scene.exchange(1)?;
    }
    // A node with another key behind the same address still hears that keys differ.
    let socket = socket_to(scene.address())?;
    let (mut probe, _) = invited(&socket, NOBODY, 1)?.init(Some(&member()?))?;
    if let Some(last) = probe.last_mut() {
        *last ^= 1;
    }
    wire::seal(&mut probe);
    for _ in 0..PROBES {
        socket.send(&probe).map_err(text)?;
        scene.hostile += 1;
    }
    scene.exchange(1)?;
    let answers = std::iter::from_fn(|| answer(&socket));
    let refused = answers.filter(|(header, _)| header.kind == PacketType::Refused);
    let refused = refused.count();
    ensure(refused > PROBES / 2, || {
        format!("only {refused} of {PROBES} messages were read")
    })?;
    scene.finish()
}

/// The node that the victim calls, and whose answers the attacker forges.
const CALLED: NodeId = NodeId(NOBODY + 7);

/// The next packet of that kind from the victim, within the time: its token and its body.
fn next_of(socket: &UdpSocket, kind: PacketType, limit: Duration) -> Option<(u64, Vec<u8>)> {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if let Some((header, bytes)) = answer(socket)
            && header.kind == kind
        {
            let body = bytes.get(wire::PLAIN_OVERHEAD..)?.to_vec();
            return Some((header.tag, body));
        }
    }
    None
}

/// An ACCEPT for this INIT that fits it but for its message.
fn forged_accept(token: u64, init: &Init<'_>) -> Vec<u8> {
    let mut body = Vec::new();
    Accept {
        target: VICTIM,
        incarnation: init.peer_incarnation,
        peer_incarnation: init.incarnation,
        epoch: init.epoch,
        index: 7,
        tag: 7,
        grant: init.grant,
        params: Params {
            sealed: init.params.sealed.as_ref().map(|m| vec![7; m.len()]),
            ..Params::default()
        },
    }
    .put(&mut body);
    packet(PacketType::Accept, CALLED.0, 1, token, &body)
}

pub(super) fn forged_accepts(setting: Setting) -> Result<Report, String> {
    let mut scene = Scene::new(setting)?;
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(text)?;
    let wait = Some(Duration::from_millis(100));
    socket.set_read_timeout(wait).map_err(text)?;
    scene.call(CALLED, socket.local_addr().map_err(text)?)?;
    let long = Duration::from_secs(10);
    let hello = next_of(&socket, PacketType::Hello, long);
    let (token, _) = hello.ok_or("the victim calls nobody")?;
    let mut body = Vec::new();
    Cookie {
        target: VICTIM,
        incarnation: Incarnation(7),
        cookie: [7; wire::COOKIE],
        epoch: Epoch(0),
    }
    .put(&mut body);
    let cookie = packet(PacketType::Cookie, CALLED.0, 0, token, &body);
    socket.send_to(&cookie, scene.address()).map_err(text)?;
    let (token, init) = next_of(&socket, PacketType::Init, long).ok_or("no INIT came")?;
    let forged = forged_accept(token, &Init::read(&init).map_err(text)?);
    for _ in 0..10 {
        for _ in 0..BURST {
            socket.send_to(&forged, scene.address()).map_err(text)?;
            scene.hostile += 1;
        }
        scene.exchange(1)?;
    }
    // A node that would try more of them repeats its INIT.
    while answer(&socket).is_some() {}
    let repeated = next_of(&socket, PacketType::Init, Duration::from_millis(1_500));
    ensure(repeated.is_none(), || {
        format!("the attempt goes on after {} forged ACCEPTs", scene.hostile)
    })?;
    scene.finish()
}
