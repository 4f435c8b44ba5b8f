//! The order in which urgent peers have their turns, and the classes in use.

use suci_channels::scheduler::{CLASSES, Priority, Scheduler};
use suci_link::time::{Duration, Instant};

/// A class that sent nothing for this time is not in use.
pub(super) const CLASS_IN_USE: Duration = Duration::from_secs(1);

/// Urgent peers of both directions, and the classes in use.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    /// Peers that have urgent messages to send, and peers that have urgent messages for the
    /// program.
    pub(super) sending: Urgent,
    pub(super) receiving: Urgent,
    /// The class of the urgent channel for which the train was built; `None` if the peer was served
    /// in the usual order.
    pub(super) turn: Option<u8>,
    /// When each class last sent something, which tells the classes in use, and the highest class
    /// that ever did.
    pub(super) used: [Option<Instant>; CLASSES],
    pub(super) highest_used: u8,
}

/// The urgent peers of one direction.
#[derive(Debug, Default)]
pub(super) struct Urgent {
    scheduler: Scheduler,
}

impl Urgent {
    /// Lists a peer that has something, perhaps on a channel of `class`: in `order`, and here if
    /// that class is urgent.
    #[inline]
    pub(super) fn list(&mut self, key: usize, class: Option<u8>, order: &mut Scheduler) {
        let own = order.add(key);
        self.note(key, class, own);
    }

    /// Lists the peer here if `class`, of the channel that has something, is above `own`, its own
    /// class.
    #[inline]
    fn note(&mut self, key: usize, class: Option<u8>, own: u8) {
        if class > Some(own) {
            self.enter(key, class);
        }
    }

    #[cold]
    fn enter(&mut self, key: usize, class: Option<u8>) {
        let Some(Ok(priority)) = class.map(|class| Priority::new(class, 1)) else {
            return;
        };
        let known = self.scheduler.priority(key).class();
        if !self.scheduler.is_listed(key) || known < priority.class() {
            self.scheduler.set_priority(key, priority);
            self.scheduler.add(key);
        }
    }

    /// Returns the urgent peer whose turn comes before the peers in `order`, and its class.
    /// `class_of` returns the class of the channel that is next at a peer.
    #[inline]
    pub(super) fn front(
        &mut self,
        order: &Scheduler,
        class_of: impl Fn(usize) -> Option<u8>,
    ) -> Option<(usize, u8)> {
        while let Some(class) = self.scheduler.front_class() {
            if Some(class) <= order.front_class() {
                return None;
            }
            let key = self.scheduler.front()?;
            let next = class_of(key);
            if next >= Some(class) {
                return Some((key, class));
            }
            // The urgent message has left. The next one may still be of a higher class than its
            // peer.
            self.scheduler.drop_front();
            self.note(key, next, order.priority(key).class());
        }
        None
    }

    /// Notes that the first peer had a turn with `bytes` bytes.
    pub(super) fn charge(&mut self, bytes: usize) {
        self.scheduler.charge(bytes);
    }

    /// Removes the first peer, which can do nothing now.
    pub(super) fn drop_front(&mut self) {
        self.scheduler.drop_front();
    }
}
