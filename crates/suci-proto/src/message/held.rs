//! What messages count against the bounds of a send queue: decided here for the queue itself, and
//! for those who let messages in before it sees them.

use super::{Outgoing, len64};
use crate::limits::{MAX_QUEUED_MESSAGES, MESSAGE_CHARGE};
use crate::scheduler::CLASSES;

const _: () = assert!(MAX_QUEUED_MESSAGES as u64 <= u64::MAX / MESSAGE_CHARGE);

/// Messages, and their bytes of payload and header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// How many.
    pub messages: u64,
    /// Bytes in all.
    pub bytes: u64,
}

impl Held {
    /// So many messages, with so many bytes in all.
    #[must_use]
    pub const fn new(messages: u64, bytes: u64) -> Self {
        Self { messages, bytes }
    }

    /// Returns one message with so many bytes.
    #[must_use]
    pub const fn one(bytes: u64) -> Self {
        Self::new(1, bytes)
    }

    /// This message.
    #[must_use]
    pub fn of(message: &Outgoing) -> Self {
        let payload = len64(message.payload.len());
        Self::one(payload.saturating_add(len64(message.user_header.len())))
    }

    /// Returns what they count: their bytes, and [`MESSAGE_CHARGE`] for each, which is about what
    /// its entry takes. Nothing only where there is none.
    #[must_use]
    pub const fn charge(self) -> u64 {
        // No queue holds so many that this wraps, and each message that is accepted asks.
        let own = self.messages.wrapping_mul(MESSAGE_CHARGE);
        self.bytes.saturating_add(own)
    }

    /// Returns the same messages, without so many of their bytes.
    #[must_use]
    pub const fn without(self, bytes: u64) -> Self {
        Self::new(self.messages, self.bytes.saturating_sub(bytes))
    }

    /// These and others.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_add(other.messages),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// These without some of them.
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
    /// A bit for each class of channels in which it waits.
    classes: u8,
    /// What the smallest message counts that waits in each of these classes.
    charges: [u64; CLASSES],
}

impl WantedRoom {
    /// Returns true if the program waits for none.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.classes == 0
    }

    /// A message that counts `charge` waits in `class`, too.
    pub fn add(&mut self, class: u8, charge: u64) {
        let waits = self.classes & Self::bit(class) != 0;
        if let Some(smallest) = self.charges.get_mut(usize::from(class)) {
            *smallest = if waits { charge.min(*smallest) } else { charge };
            self.classes |= Self::bit(class);
        }
    }

    /// What waited in `class` when it was removed last waits again.
    pub const fn restore(&mut self, class: u8) {
        self.classes |= Self::bit(class);
    }

    /// Nothing waits in `class` any more.
    pub const fn remove(&mut self, class: u8) {
        self.classes &= !Self::bit(class);
    }

    /// Returns the first class of those in which something waits that has room for the smallest
    /// message, as `has_room` says of a class and of what a message counts.
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

/// Returns true if a queue that holds what counts `held` takes what counts `charge`, if `most` is
/// its bound. An empty one takes any message.
#[must_use]
pub const fn has_room(held: u64, charge: u64, most: u64) -> bool {
    match held.checked_add(charge) {
        Some(sum) => sum <= most || held == 0,
        None => false,
    }
}

/// The messages in a send queue, by the class of their channels. Each class has the queue's bounds
/// for itself, so that no message waits because another class has many queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByClass([Held; CLASSES]);

impl ByClass {
    /// Returns what channels of `class` hold.
    #[inline]
    #[must_use]
    pub fn get(&self, class: u8) -> Held {
        self.0[usize::from(class) % CLASSES]
    }

    /// Changes what channels of `class` hold.
    #[inline]
    pub fn change(&mut self, class: u8, change: impl FnOnce(Held) -> Held) {
        let held = &mut self.0[usize::from(class) % CLASSES];
        *held = change(*held);
    }

    /// Returns what all classes hold.
    #[must_use]
    pub fn all(&self) -> Held {
        self.0.into_iter().fold(Held::default(), Held::plus)
    }

    /// Returns true if no class holds a message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|held| held.messages == 0)
    }
}

/// What a send queue holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// All that counts against its bounds: a peer that leaves the first message unacknowledged
    /// makes us keep those behind it.
    pub all: Held,
    /// Of these, messages that are acknowledged or refused, behind one that is not: what is kept of
    /// them until that one is, too.
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
