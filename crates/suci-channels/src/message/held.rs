//! The sizes that messages count against the bounds of a send queue. The queue itself uses them,
//! and callers that admit messages before the queue sees them.

use super::Outgoing;
use super::sizes::len64;
use crate::scheduler::CLASSES;
use suci_link::limits::{MAX_QUEUED_MESSAGES, MESSAGE_CHARGE};

const _: () = assert!(MAX_QUEUED_MESSAGES as u64 <= u64::MAX / MESSAGE_CHARGE);

/// A number of messages and their bytes of payload and header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The number of messages.
    pub messages: u64,
    /// Bytes of all messages.
    pub bytes: u64,
}

impl Held {
    /// Returns `messages` messages with `bytes` bytes in all.
    #[must_use]
    pub const fn new(messages: u64, bytes: u64) -> Self {
        Self { messages, bytes }
    }

    /// Returns one message of `bytes` bytes.
    #[must_use]
    pub const fn one(bytes: u64) -> Self {
        Self::new(1, bytes)
    }

    /// Returns the size of `message`.
    #[must_use]
    pub fn of(message: &Outgoing) -> Self {
        let payload = len64(message.payload.len());
        Self::one(payload.saturating_add(len64(message.user_header.len())))
    }

    /// Returns the size that the bounds count: the bytes, and [`MESSAGE_CHARGE`] for each message,
    /// which is about the size of its entry. Zero only if there is no message.
    #[must_use]
    pub const fn charge(self) -> u64 {
        // No queue holds so many messages that this wraps. Plain arithmetic is faster here, and
        // every accepted message calls this.
        let own = self.messages.wrapping_mul(MESSAGE_CHARGE);
        self.bytes.saturating_add(own)
    }

    /// Returns the same messages with `bytes` bytes less.
    #[must_use]
    pub const fn without(self, bytes: u64) -> Self {
        Self::new(self.messages, self.bytes.saturating_sub(bytes))
    }

    /// Returns the sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_add(other.messages),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// Returns the difference of both.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_sub(other.messages),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

/// The room in a send queue that the program waits for.
#[derive(Debug, Default)]
pub struct WantedRoom {
    /// A bit for each class of channels in which a message waits.
    classes: u8,
    /// The size of the smallest waiting message of each of these classes.
    charges: [u64; CLASSES],
}

impl WantedRoom {
    /// Returns true if the program waits for no room.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.classes == 0
    }

    /// Notes that a message of size `charge` waits in `class`, too.
    pub fn add(&mut self, class: u8, charge: u64) {
        let waits = self.classes & Self::bit(class) != 0;
        if let Some(smallest) = self.charges.get_mut(usize::from(class)) {
            *smallest = if waits { charge.min(*smallest) } else { charge };
            self.classes |= Self::bit(class);
        }
    }

    /// Makes the messages that waited in `class` before its last removal wait again.
    pub const fn restore(&mut self, class: u8) {
        self.classes |= Self::bit(class);
    }

    /// Notes that no message waits in `class`.
    pub const fn remove(&mut self, class: u8) {
        self.classes &= !Self::bit(class);
    }

    /// Returns the first class with a waiting message that has room for its smallest one.
    /// `has_room` tells whether a class has room for a size.
    #[must_use]
    pub fn find(&self, has_room: impl Fn(u8, u64) -> bool) -> Option<u8> {
        let wanted = (0..).zip(self.charges);
        let mut wanted = wanted.filter(|(class, _)| self.classes & Self::bit(*class) != 0);
        let found = wanted.find(|(class, charge)| has_room(*class, *charge));
        found.map(|(class, _)| class)
    }

    /// Returns the bit of a class.
    const fn bit(class: u8) -> u8 {
        // Classes are 0 to 7.
        1 << (class & 7)
    }
}

/// Returns true if a queue that holds `held` accepts `charge` more with the bound `most`. An empty
/// queue accepts a message of any size.
#[must_use]
pub const fn has_room(held: u64, charge: u64, most: u64) -> bool {
    match held.checked_add(charge) {
        Some(sum) => sum <= most || held == 0,
        None => false,
    }
}

/// The number of sums in a [`ByClass`].
const SUMS: usize = CLASSES + 1;

/// The messages in a send queue by the class of their channels; those that no program sends,
/// whatever their class, apart. Each of these sums has the queue's bounds for itself, so that no
/// message waits because another class has many queued, or because this node sends on packets of
/// others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByClass([Held; SUMS]);

impl ByClass {
    /// In place of a class: the messages that no program sends.
    pub const INTERNAL: u8 = CLASSES as u8;

    /// Returns the messages on channels of `class`.
    #[inline]
    #[must_use]
    pub fn get(&self, class: u8) -> Held {
        self.0[usize::from(class) % SUMS]
    }

    /// Changes the count of channels of `class`.
    #[inline]
    pub fn change(&mut self, class: u8, change: impl FnOnce(Held) -> Held) {
        let held = &mut self.0[usize::from(class) % SUMS];
        *held = change(*held);
    }

    /// Returns the messages of all sums.
    #[must_use]
    pub fn all(&self) -> Held {
        self.0.into_iter().fold(Held::default(), Held::plus)
    }

    /// Returns true if no sum holds a message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|held| held.messages == 0)
    }
}

/// The content of a send queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// All messages that count against the bounds. A peer that leaves the first message
    /// unacknowledged makes us keep those behind it.
    pub all: Held,
    /// The part of the programs' messages that is acknowledged or refused, behind one that is not.
    /// It is kept until the earlier one is resolved, too.
    pub over: Held,
}

impl Queued {
    /// Returns the messages not yet acknowledged or refused.
    #[must_use]
    pub const fn open(self) -> Held {
        self.all.minus(self.over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_takes_what_its_bound_allows_and_any_message_when_it_is_empty() {
        assert!(has_room(0, 5_000, 1_000) && has_room(600, 400, 1_000));
        assert!(!has_room(600, 401, 1_000) && !has_room(1_001, 1, 1_000));
        assert!(has_room(1, u64::MAX - 1, u64::MAX));
        assert!(!has_room(2, u64::MAX - 1, u64::MAX), "sums stay exact");
        let empty = Held::one(0);
        assert!(empty.charge() > 0 && Held::default() == Held::new(0, 0));
        let two = empty.plus(Held::one(9));
        assert_eq!((two, two.charge()), (Held::new(2, 9), 137));
        assert_eq!(two.minus(empty), Held::one(9));
        assert_eq!(two.without(9), Held::new(2, 0));
    }
}
