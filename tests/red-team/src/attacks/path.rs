//! Attacks on sessions of others: by somebody on the path, or who guesses.

use std::time::Instant;

use suci_proto::security::AEAD_TAG;
use suci_proto::wire::{self, PacketType, SealedHeader};

use crate::rogue::{packet, socket_to};
use crate::scene::{HONEST, Scene, Setting};
use crate::{Report, ensure, text};

/// Hostile datagrams between two messages of the honest node.
const BURST: usize = 50;

/// A CLOSE frame: code, messages sent, messages received.
const CLOSE: [u8; 4] = [0x0f, 0x01, 0x01, 0x01];

/// Numbers without a pattern (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

pub(super) fn replay(setting: Setting) -> Result<Report, String> {
    let mut scene = Scene::with_relay(setting)?;
    scene.exchange(100)?;
    let recorded = scene.relay()?.recorded();
    let data = recorded
        .iter()
        .filter(|packet| wire::is_data(packet))
        .count() as u64;
    let (taken, before) = (scene.taken(HONEST), scene.counters()?.duplicates);
    for packets in recorded.chunks(BURST) {
        for packet in packets {
            scene.relay()?.send(packet, scene.address())?;
            scene.hostile += 1;
        }
        scene.exchange(1)?;
    }
    scene.check_quiet()?;
    let bursts = recorded.chunks(BURST).count() as u32;
    let now = scene.taken(HONEST);
    ensure(now == taken + bursts, || {
        format!("{now} messages were taken, {taken} before")
    })?;
    let duplicates = scene.counters()?.duplicates - before;
    ensure(duplicates >= data, || {
        format!("{data} packets came again, {duplicates} were noticed")
    })?;
    scene.finish()
}

pub(super) fn replay_to_restarted(setting: Setting) -> Result<Report, String> {
    let mut scene = Scene::with_relay(setting)?;
    scene.exchange(100)?;
    let recorded = scene.relay()?.recorded();
    scene.restart()?;
    for packets in recorded.chunks(BURST) {
        for packet in packets {
            scene.relay()?.send(packet, scene.address())?;
            scene.hostile += 1;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    scene.check_never_up(HONEST)?;
    let taken = scene.taken(HONEST);
    ensure(taken == 0, || {
        format!("{taken} messages of the past were taken")
    })?;
    scene.resume()?;
    scene.finish()
}

pub(super) fn noise(setting: Setting) -> Result<Report, String> {
    let mut scene = Scene::with_relay(setting)?;
    let socket = socket_to(scene.address())?;
    let mut random = Random(7);
    scene.relay()?.damage();
    for round in 0..setting.volume / 10 {
        let length = random.next() as usize % 600;
        let mut bytes = random.bytes(length);
        // Most begin like packets of this version.
        if let (Some(first), true) = (bytes.first_mut(), round % 4 > 0) {
            *first = 0x10 | (*first & 7);
        }
        socket.send(&bytes).map_err(text)?;
        scene.hostile += 1;
        if (round as usize).is_multiple_of(BURST) {
            scene.exchange(1)?;
        }
    }
    scene.exchange(50)?;
    let counters = scene.counters()?;
    let dropped = counters.malformed + counters.bad_checksum + counters.wrong_version;
    ensure(
        dropped + counters.unknown_connection > scene.hostile / 2,
        || format!("only {dropped} were noticed"),
    )?;
    scene.check_quiet()?;
    scene.finish()
}

/// A packet that closes a session, for the connection that has the `guess`th index of the honest
/// node's shard, which everybody knows: it is the lowest byte of the node's ID.
fn forged_close(sealed: bool, guess: u32, number: u64, random: &mut Random) -> Vec<u8> {
    let index = (guess % 64) << 8 | (HONEST.0 & 0xff);
    if !sealed {
        return packet(PacketType::Data, index, number, random.next(), &CLOSE);
    }
    let phase = 0;
    let header = SealedHeader {
        index,
        number,
        phase,
    };
    [&header.bytes()[..], &CLOSE, &random.bytes(AEAD_TAG)].concat()
}

pub(super) fn forged_numbers(setting: Setting) -> Result<Report, String> {
    let mut scene = Scene::new(setting)?;
    let socket = socket_to(scene.address())?;
    let mut random = Random(17);
    for round in 0..10 {
        for guess in 0..64 {
            let number = 1 << 40 | round;
            let forged = forged_close(setting.sealed, guess, number, &mut random);
            socket.send(&forged).map_err(text)?;
            scene.hostile += 1;
        }
        // A node that took one of them acknowledges it within this time.
        std::thread::sleep(std::time::Duration::from_millis(50));
        scene.watch()?;
        scene.exchange(1)?;
    }
    scene.finish()
}

pub(super) fn index_guessing(setting: Setting) -> Result<Report, String> {
    let mut scene = Scene::new(setting)?;
    let socket = socket_to(scene.address())?;
    let mut random = Random(11);
    let begun = Instant::now();
    let before = scene.counters()?;
    for round in 0..setting.volume / 10 {
        let number = 10_000 + u64::from(round);
        let bytes = forged_close(setting.sealed, round, number, &mut random);
        socket.send(&bytes).map_err(text)?;
        scene.hostile += 1;
        if (round as usize).is_multiple_of(BURST) {
            scene.exchange(1)?;
            scene.watch()?;
        }
    }
    scene.exchange(1)?;
    let after = scene.counters()?;
    let hints = after.unknown_sent - before.unknown_sent;
    let most = 100 * (begun.elapsed().as_secs() + 2);
    ensure(hints <= most, || format!("{hints} hints, {most} may be"))?;
    scene.finish()
}

pub(super) fn forged_hints(setting: Setting) -> Result<Report, String> {
    let mut scene = Scene::with_relay(setting)?;
    let mut random = Random(13);
    let kinds = [
        (PacketType::Unknown, 0),
        (PacketType::Cookie, 52),
        (PacketType::Accept, 200),
        (PacketType::Refused, 21),
    ];
    for round in 0..200 {
        for (kind, length) in kinds {
            let (number, tag) = (random.next(), random.next());
            let body = random.bytes(length);
            let forged = packet(kind, HONEST.0, number, tag, &body);
            scene.relay()?.send(&forged, scene.address())?;
            scene.hostile += 1;
        }
        if round % 10 == 0 {
            scene.exchange(1)?;
            scene.watch()?;
        }
    }
    scene.finish()
}
