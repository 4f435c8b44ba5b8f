//! Messages sent and received, with every message checked.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use suci::{Message, MessageOutcome, Outcome, OutgoingMessage};

/// This process's number, so that receivers tell it from its successor.
static LIFE: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one("life"));

/// Bytes in front of the filling: the sender's life, and the message's index in it.
const HEAD: usize = 16;

/// The filling: each word depends on its place and on its message, and on nothing of this process.
/// It is made word by word: the next message waits while one is made or checked, and figures are to
/// be the library's.
fn words(index: u64) -> impl Iterator<Item = [u8; 8]> {
    let word =
        move |place: u64| (index.rotate_left(32) ^ place).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..).map(move |place| word(place).to_le_bytes())
}

/// Whether these bytes are the filling of message `index`.
fn is_right(index: u64, filling: &[u8]) -> bool {
    let (whole, rest) = filling.as_chunks();
    let mut words = words(index);
    whole
        .iter()
        .zip(&mut words)
        .all(|(is, should)| *is == should)
        && words.next().is_some_and(|word| word.starts_with(rest))
}

/// The messages to one peer.
#[derive(Default)]
pub(crate) struct Outflow {
    left: u64,
    window: u64,
    size: usize,
    next: u64,
    outstanding: BTreeSet<u64>,
    delivered: u64,
}

impl Outflow {
    pub(crate) fn load(&mut self, window: u64, size: u64) {
        (self.left, self.window) = (u64::MAX, window);
        self.size = usize::try_from(size).expect("a size");
    }

    pub(crate) fn send(&mut self, count: u64, size: u64) {
        (self.left, self.window) = (count, u64::MAX);
        self.size = usize::try_from(size).expect("a size");
    }

    pub(crate) fn rest(&mut self) {
        self.left = 0;
    }

    /// The next message to send now, if any.
    pub(crate) fn next(&self) -> Option<OutgoingMessage> {
        if self.left == 0 || self.outstanding.len() as u64 >= self.window {
            return None;
        }
        let size = self.size.max(HEAD);
        let mut payload = Vec::with_capacity(size + 8);
        payload.extend_from_slice(&LIFE.to_le_bytes());
        payload.extend_from_slice(&self.next.to_le_bytes());
        let filling = (size - HEAD).div_ceil(8);
        for word in words(self.next).take(filling) {
            payload.extend_from_slice(&word);
        }
        payload.truncate(size);
        Some(OutgoingMessage::new(payload).notify(self.next))
    }

    /// The library took the message of `next`.
    pub(crate) fn accepted(&mut self) {
        self.outstanding.insert(self.next);
        self.next += 1;
        self.left -= 1;
    }

    pub(crate) fn delivered(&mut self, token: u64) {
        assert!(self.outstanding.remove(&token), "delivered twice: {token}");
        self.delivered += 1;
    }

    /// Every outstanding message has exactly one outcome, and no other has one. Counts them:
    /// delivered, not delivered, unknown.
    pub(crate) fn ended(&mut self, outcomes: &[MessageOutcome]) -> [u64; 3] {
        let mut counts = [0; 3];
        for outcome in outcomes {
            let token = outcome.token;
            assert!(self.outstanding.remove(&token), "no such message: {token}");
            counts[match outcome.outcome {
                Outcome::Delivered => 0,
                Outcome::NotDelivered => 1,
                Outcome::Unknown => 2,
            }] += 1;
        }
        let forgotten = std::mem::take(&mut self.outstanding);
        assert!(forgotten.is_empty(), "without an outcome: {forgotten:?}");
        // A new session would only be opened by sending more.
        self.left = 0;
        counts
    }

    pub(crate) fn total_accepted(&self) -> u64 {
        self.next
    }

    pub(crate) fn total_delivered(&self) -> u64 {
        self.delivered
    }
}

/// The messages from one peer.
#[derive(Default)]
pub(crate) struct Inflow {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    life: u64,
    /// The index that must come next; unknown at the beginning of a session.
    next: Option<u64>,
    /// The last index plus one.
    reached: u64,
}

impl Inflow {
    pub(crate) fn take(&mut self, message: &Message) {
        let (life, rest) = message.payload.split_first_chunk().expect("a life");
        let (index, filling) = rest.split_first_chunk().expect("an index");
        let (life, index) = (u64::from_le_bytes(*life), u64::from_le_bytes(*index));
        // A successor's messages may be taken before the event that tells of the restart.
        if life == self.life {
            let right = self
                .next
                .map_or(index >= self.reached, |next| index == next);
            assert!(
                right,
                "{index} from {} after {}",
                message.from, self.reached
            );
        }
        let right = is_right(index, filling);
        assert!(right, "message {index} from {} is damaged", message.from);
        (self.life, self.next, self.reached) = (life, Some(index + 1), index + 1);
        self.messages += 1;
        self.bytes += message.payload.len() as u64;
    }

    pub(crate) fn session_ended(&mut self) {
        self.next = None;
    }
}
