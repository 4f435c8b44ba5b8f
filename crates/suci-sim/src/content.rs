//! The content of messages: bytes that follow from the message's name. So a received message is
//! compared with the bytes that must have been sent, without a copy of them.

use std::sync::OnceLock;

use bytes::Bytes;

use crate::rng::{Rng, mix};

/// Longest message that a simulated program sends.
pub const MAX_PAYLOAD: u64 = 6 << 20;

/// Bytes to cut payloads from. Payloads are windows of one pool whose offset follows from the
/// message's name: regenerating one is a comparison, and thousands in flight cost no memory.
const POOL: usize = (MAX_PAYLOAD as usize) + (1 << 20);

fn pool() -> &'static Bytes {
    static CELL: OnceLock<Bytes> = OnceLock::new();
    CELL.get_or_init(|| {
        let mut rng = Rng::new(0x5355_4349, 0);
        let mut bytes = Vec::with_capacity(POOL);
        while bytes.len() < POOL {
            bytes.extend_from_slice(&rng.word().to_le_bytes());
        }
        Bytes::from(bytes)
    })
}

/// The name of a message's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// The run's seed.
    pub seed: u64,
    /// The sending process.
    pub from: u32,
    /// The destination node.
    pub to: u32,
    /// The channel.
    pub channel: u32,
    /// The token of the message, unique in the run.
    pub token: u64,
}

impl Name {
    fn offset(self, salt: u64, length: usize) -> usize {
        let ends = (u64::from(self.from) << 32) | u64::from(self.to);
        let hash =
            mix(self.seed ^ mix(ends ^ mix(u64::from(self.channel) ^ mix(self.token ^ salt))));
        let span = (POOL - length.min(POOL)) as u64;
        usize::try_from(hash % (span + 1)).unwrap_or(0)
    }

    /// Returns the payload of that many bytes.
    #[must_use]
    pub fn payload(self, length: u64) -> Bytes {
        let length = usize::try_from(length).unwrap_or(POOL).min(POOL);
        let start = self.offset(1, length);
        pool().slice(start..start + length)
    }

    /// Returns the user header of that many bytes.
    #[must_use]
    pub fn header(self, length: u8) -> Bytes {
        let start = self.offset(2, usize::from(length));
        pool().slice(start..start + usize::from(length))
    }

    /// Returns the tag of a message that carries one: never 0, and it gives the token back.
    #[must_use]
    pub fn tag(self) -> u64 {
        (self.token + 1) ^ key(self.seed)
    }
}

/// Returns the token that a tag was made from.
#[must_use]
pub fn token_of(seed: u64, tag: u64) -> Option<u64> {
    (tag ^ key(seed)).checked_sub(1)
}

/// Returns the key of tags. It has high bits only, so that no token makes the tag 0.
fn key(seed: u64) -> u64 {
    mix(seed ^ 0x7461_6700) | (1 << 63)
}
