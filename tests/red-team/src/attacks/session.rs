//! Attacks by a peer with a session: in plain mode anybody, in sealed mode a member with the key.

use suci_proto::wire::varint;

use crate::rogue::Rogue;
use crate::scene::{HONEST, Scene, Setting};
use crate::{Report, ensure};

/// The attackers' node ID; its lowest byte is not that of an honest node.
const ROGUE: u32 = 66;

/// FRAG bits: FIRST, END, LEN.
const FRAG: u8 = 0x80;
pub(super) const FIRST: u8 = 1;
pub(super) const END: u8 = 2;
const LEN: u8 = 4;

const ACK: u8 = 0x10;
const CHALLENGE: u8 = 0x18;
const RESPONSE: u8 = 0x19;
const CLOSE: u8 = 0x0f;

/// A frame of this type with these numbers.
pub(super) fn frame(kind: u8, numbers: &[u64]) -> Vec<u8> {
    let mut bytes = vec![kind];
    numbers.iter().for_each(|n| varint::put(&mut bytes, *n));
    bytes
}

/// Bytes of a message in a FRAG frame.
pub(super) fn fragment(kind: u8, numbers: &[u64], data: &[u8]) -> Vec<u8> {
    let mut bytes = frame(FRAG | LEN | kind, numbers);
    varint::put(&mut bytes, data.len() as u64);
    bytes.extend_from_slice(data);
    bytes
}

/// Acknowledges `largest` and the `below` numbers before it.
fn ack(largest: u64, below: u64) -> Vec<u8> {
    frame(ACK, &[largest, 0, 0, below])
}

pub(super) fn optimistic_acks(setting: Setting) -> Result<Report, String> {
    let mut scene = Scene::new(setting)?;
    // A number that was never sent; all numbers from 0 on; the highest number that there is.
    let lies = [
        ack(1 << 20, 0),
        ack(1 << 62, 1 << 62),
        ack(u64::MAX, u64::MAX),
    ];
    for (node, lie) in (ROGUE..).zip(lies) {
        let mut rogue = Rogue::connect(&scene, node)?;
        rogue.send(&fragment(FIRST | END, &[0, 0], b"a message"))?;
        scene.exchange(1)?;
        // Absurd ranges below it: the last ends below 0, which is malformed.
        rogue.send(&lie)?;
        scene.hostile += 2;
        scene.await_breach(rogue.node())?;
    }
    scene.finish()
}

pub(super) fn fragment_bomb(setting: Setting) -> Result<Report, String> {
    let mut scene = Scene::new(setting)?;
    let mut rogue = Rogue::connect(&scene, ROGUE)?;
    let (session, channel) = rogue.memory();
    let total = (session.min(channel) / 2).min(60_000);
    ensure(total > 4_000, || format!("{total} B of credit are too few"))?;
    rogue.send(&fragment(FIRST, &[0, 0, total], b"x"))?;
    // Every other byte, in packets of 100.
    let offsets: Vec<u64> = (1..total / 2).map(|half| 2 * half).collect();
    for some in offsets.chunks(100) {
        let pieces = some.iter().map(|at| fragment(0, &[0, 0, *at], b"x"));
        rogue.send(&pieces.flatten().collect::<Vec<u8>>())?;
        scene.hostile += 1;
        if scene.hostile.is_multiple_of(10) {
            scene.exchange(1)?;
        }
    }
    scene.await_breach(rogue.node())?;
    scene.finish()
}

pub(super) fn contradictory_lengths(setting: Setting) -> Result<Report, String> {
    let mut scene = Scene::new(setting)?;
    let mut rogue = Rogue::connect(&scene, ROGUE)?;
    let piece = [b'x'; 500];
    rogue.send(&fragment(FIRST, &[0, 0, 2_000], &piece))?;
    // The message ends at 1,000 B, and then at 2,000.
    rogue.send(&fragment(END, &[0, 0, 500], &piece))?;
    rogue.send(&fragment(0, &[0, 0, 1_000], &piece))?;
    rogue.send(&fragment(END, &[0, 0, 1_500], &piece))?;
    scene.hostile += 3;
    scene.exchange(20)?;
    let taken = scene.taken(rogue.node());
    ensure(taken == 0, || "a message of two lengths was taken".into())?;
    scene.await_breach(rogue.node())?;
    scene.finish()
}

/// Maximum number of responses that one packet may hold: of challenges on the path, and from
/// elsewhere.
const RESPONSES: usize = 8;

pub(super) fn challenge_flood(setting: Setting) -> Result<Report, String> {
    let mut scene = Scene::new(setting)?;
    let mut rogue = Rogue::connect(&scene, ROGUE)?;
    let mut responses = 0;
    for round in 0..50_u64 {
        let nonce = |number: u64| (u64::MAX - (round << 8 | number)).to_le_bytes();
        let flood = (0..100).flat_map(|number| [&[CHALLENGE][..], &nonce(number)].concat());
        rogue.send(&flood.collect::<Vec<u8>>())?;
        scene.hostile += 1;
        scene.exchange(1)?;
        while let Some(body) = rogue.heard()? {
            let frames = body.windows(9).filter(|frame| {
                let nonce = frame.last_chunk().map_or(0, |n| u64::from_le_bytes(*n));
                frame.first() == Some(&RESPONSE) && u64::MAX - nonce < 50 << 8
            });
            let count = frames.count();
            responses += count;
            ensure(count <= RESPONSES, || format!("{count} responses at once"))?;
        }
    }
    ensure(responses > 0, || "no challenge was answered".into())?;
    scene.finish()
}

pub(super) fn credit_overflow(setting: Setting) -> Result<Report, String> {
    let mut scene = Scene::new(setting)?;
    let mut rogue = Rogue::connect(&scene, ROGUE)?;
    // 60 MB, of which each message has its first bytes.
    for channel in 0..1_000 {
        rogue.send(&fragment(FIRST, &[channel, 0, 60_000], &[7; 1_000]))?;
        scene.hostile += 1;
        if channel % 20 == 0 {
            scene.exchange(1)?;
        }
    }
    scene.await_breach(rogue.node())?;
    scene.finish()
}

pub(super) fn foreign_session(setting: Setting) -> Result<Report, String> {
    let mut scene = Scene::new(setting)?;
    let mut rogue = Rogue::connect(&scene, ROGUE)?;
    rogue.skip_ahead();
    for round in 0..640 {
        // The lowest byte is that of the honest node's ID, as everybody knows.
        let index = (round % 64) << 8 | (HONEST.0 & 0xff);
        rogue.send_to(index, &frame(CLOSE, &[0, 0, 0]))?;
        scene.hostile += 1;
        if round.is_multiple_of(20) {
            scene.exchange(1)?;
            scene.watch()?;
        }
    }
    scene.finish()
}

pub(super) fn unknown_frames(setting: Setting) -> Result<Report, String> {
    let mut scene = Scene::new(setting)?;
    for (node, kind) in (ROGUE..).zip([0x02, 0x20, 0x45, 0x7f, 0xc0, 0xff]) {
        let mut rogue = Rogue::connect(&scene, node)?;
        rogue.send(&[kind])?;
        scene.hostile += 1;
        scene.await_breach(rogue.node())?;
    }
    scene.finish()
}
