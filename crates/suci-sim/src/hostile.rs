//! An attacker: overhears packets, repeats them, damages them, invents others.
//!
//! In plain mode the 64-bit tag and the checksum keep accidents out, not attackers on the path
//! (plain mode: ARCHITECTURE.md). So this attacker may repeat overheard packets and lie in hints,
//! but forges packets of a connection only with a wrong tag. Scenario tests play the peer that
//! knows the tag and breaks the protocol.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use bytes::Bytes;

use crate::network::{Network, damage};
use crate::packet::Packet;
use crate::rng::Rng;
use crate::tap::{self, DATA, Head, UNKNOWN};

/// Bytes of the body of a HELLO.
const HELLO_BODY: usize = 44;

/// Packets remembered.
const MEMORY: usize = 256;

/// The attacker.
#[derive(Debug)]
pub struct Hostile {
    /// True if it listens at all: a run without attacks need not keep packets.
    pub listens: bool,
    overheard: VecDeque<Packet>,
    rng: Rng,
}

impl Hostile {
    /// Returns an attacker that has overheard nothing yet.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            listens: false,
            overheard: VecDeque::new(),
            rng: Rng::new(seed, 5),
        }
    }

    /// Overhears a packet.
    pub fn overhear(&mut self, packet: &Packet) {
        if !self.listens || packet.fate.hostile {
            return;
        }
        if self.overheard.len() < MEMORY {
            self.overheard.push_back(packet.clone());
        } else {
            // Some old ones stay: repeating them minutes later is an attack of its own.
            let at = self.rng.index(0, MEMORY);
            if let Some(kept) = self.overheard.get_mut(at) {
                *kept = packet.clone();
            }
        }
    }

    /// Makes one packet to do harm with, if anything was overheard.
    pub fn strike(&mut self, network: &Network) -> Option<Packet> {
        let at = self.rng.index(0, self.overheard.len());
        let mut packet = self.overheard.get(at)?.clone();
        packet.fate.hostile = true;
        let head = tap::head(&packet.bytes);
        let bytes = match (self.rng.range(0, 8), head) {
            (0, _) => self.noise(),
            (1, _) => self.damaged(&packet.bytes),
            (2, _) => self.shortened(&packet.bytes),
            (3, Some(head)) => self.stranger(head),
            (4, Some(head)) => tap::forge(
                Head {
                    first: UNKNOWN,
                    ..head
                },
                &[],
            ),
            (5, Some(head)) => self.handshake(head, &packet.bytes),
            (6, _) => Vec::new(),
            _ => packet.bytes.to_vec(),
        };
        if packet.bytes != bytes {
            packet.carries = Rc::new([]);
            packet.fate.damaged = true;
        }
        packet.bytes = Bytes::from(bytes);
        if self.rng.chance(300_000) {
            // From an address without a node, or in another node's name.
            let host = self.rng.index(0, 4);
            packet.from = network.book_address(host);
            if self.rng.chance(500_000) {
                packet
                    .from
                    .set_port(1_024 + u16::try_from(self.rng.range(0, 5_000)).unwrap_or(0));
            }
        }
        Some(packet)
    }

    /// Returns a well-formed HELLO for node `target`, from an address without a node: in the name
    /// of an unknown node, or of one of the first `nodes`.
    pub fn hello(&mut self, target: u32, nodes: usize) -> Packet {
        let known = self.rng.chance(500_000);
        let index = match known {
            true => u32::try_from(self.rng.index(0, nodes)).unwrap_or(0),
            false => u32::try_from(self.rng.range(1 << 20, 1 << 30)).unwrap_or(0),
        };
        let mut body = target.to_le_bytes().to_vec();
        body.extend_from_slice(&self.rng.word().to_le_bytes());
        body.resize(HELLO_BODY, 0);
        let head = Head {
            first: DATA + 1,
            index,
            number: 0,
            tag: self.rng.word(),
        };
        let mut packet = Packet::raw(tap::forge(head, &body), 0);
        let host = u32::try_from(self.rng.range(0, 1 << 16)).unwrap_or(0);
        packet.from = SocketAddr::from((Ipv4Addr::from_bits(0xc000_0000 + host), 9));
        packet
    }

    /// Returns random bytes, some behind a plausible first byte.
    fn noise(&mut self) -> Vec<u8> {
        let length = self.rng.index(0, 1_400);
        let mut bytes: Vec<u8> = (0..length)
            .map(|_| self.rng.word().to_le_bytes()[0])
            .collect();
        if let (Some(first), true) = (bytes.first_mut(), self.rng.chance(700_000)) {
            *first = DATA | (*first & 7);
        }
        bytes
    }

    fn damaged(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        damage(&mut self.rng, &mut bytes);
        bytes
    }

    fn shortened(&mut self, bytes: &[u8]) -> Vec<u8> {
        let length = self.rng.index(0, bytes.len());
        bytes.get(..length).unwrap_or_default().to_vec()
    }

    /// Returns a packet with a right checksum and a wrong tag: a CLOSE, an ACK of everything, or
    /// data.
    fn stranger(&mut self, head: Head) -> Vec<u8> {
        let mut body = Vec::new();
        match self.rng.range(0, 3) {
            0 => {
                body.push(0x0f);
                (0..3).for_each(|_| tap::put_varint(&mut body, 0));
            }
            1 => {
                body.push(0x10);
                [u64::MAX >> 1, 0, 0, 1 << 40]
                    .iter()
                    .for_each(|n| tap::put_varint(&mut body, *n));
            }
            _ => {
                body.push(0x80 | 0b11);
                [0, 0].iter().for_each(|n| tap::put_varint(&mut body, *n));
                body.extend_from_slice(b"invented");
            }
        }
        tap::forge(
            Head {
                first: DATA,
                tag: head.tag ^ (1 << self.rng.range(0, 64)),
                ..head
            },
            &body,
        )
    }

    /// Returns a handshake packet of random type with overheard bytes as its body.
    fn handshake(&mut self, head: Head, bytes: &[u8]) -> Vec<u8> {
        let first = DATA + 1 + u8::try_from(self.rng.range(0, 6)).unwrap_or(0);
        let index = u32::try_from(self.rng.range(0, 10)).unwrap_or(0);
        let body = bytes.get(tap::HEADER..).unwrap_or_default();
        tap::forge(
            Head {
                first,
                index,
                tag: self.rng.word(),
                ..head
            },
            body,
        )
    }
}
