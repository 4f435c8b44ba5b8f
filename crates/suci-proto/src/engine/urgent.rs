//! Peers of which a channel of a higher class than the peer itself has something: their turn comes
//! before that of others.
//!
//! The order of peers goes by what the program said of peers. A message of an urgent channel would
//! wait there until all other peers of the class had a train each. So its peer stands here, too, in
//! the class of the channel, until that has nothing more. A peer keeps its place in the order
//! meanwhile: what is urgent takes nothing from its bulk, and gives it nothing.

use super::Engine;
use crate::time::{Duration, Instant};
use crate::turns::{CLASSES, Priority, Turns};

/// A class that sent nothing for so long is not in use.
const CLASS_IN_USE: Duration = Duration::from_secs(1);

/// What counts beside the order of peers.
#[derive(Debug, Default)]
pub(super) struct Ranks {
    /// Peers that have something urgent to send, and those that have such messages for the program.
    pub(super) sending: Urgent,
    pub(super) receiving: Urgent,
    /// The class of the urgent turn in which the train was built, if it was one.
    turn: Option<u8>,
    /// When each class last sent something, to know which are in use, and the highest that ever
    /// did.
    used: [Option<Instant>; CLASSES],
    highest_used: u8,
}

/// The peers that have something urgent.
#[derive(Debug, Default)]
pub(super) struct Urgent {
    turns: Turns,
}

impl Urgent {
    /// A peer has something to do, perhaps on a channel of `class`: it stands in `order`, and here
    /// if that is urgent.
    #[inline]
    pub(super) fn list(&mut self, key: usize, class: Option<u8>, order: &mut Turns) {
        let own = order.add(key);
        self.note(key, class, own);
    }

    /// Whether no peer stands here.
    fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// The peer, whose own class is `own`, has something on a channel of `class`.
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
        let known = self.turns.priority(key).class();
        if !self.turns.is_listed(key) || known < priority.class() {
            self.turns.set_priority(key, priority);
            self.turns.add(key);
        }
    }

    /// The peer whose turn comes before that of those in `order`, and its class. `class_of` is the
    /// class of the channel that a peer has something on next.
    #[inline]
    pub(super) fn front(
        &mut self,
        order: &Turns,
        class_of: impl Fn(usize) -> Option<u8>,
    ) -> Option<(usize, u8)> {
        while let Some(class) = self.turns.front_class() {
            if Some(class) <= order.front_class() {
                return None;
            }
            let key = self.turns.front()?;
            let next = class_of(key);
            if next >= Some(class) {
                return Some((key, class));
            }
            // What was urgent has left. What is next may still be of a higher class than its peer.
            self.turns.drop_front();
            self.note(key, next, order.priority(key).class());
        }
        None
    }

    /// The first peer had a turn with so many bytes.
    pub(super) fn charge(&mut self, bytes: usize) {
        self.turns.charge(bytes);
    }

    /// The first peer can do nothing now.
    pub(super) fn drop_front(&mut self) {
        self.turns.drop_front();
    }
}

impl Engine {
    /// Whose turn it is: of a peer that has something urgent, or of the next one in order.
    pub(super) fn next_peer(&mut self) -> Option<usize> {
        let peers = &self.peers;
        let class_of = |key| peers.active(key)?.session.outbox.next_class();
        let urgent = self.ranks.sending.front(&self.dirty, class_of);
        self.ranks.turn = urgent.map(|(_, class)| class);
        urgent.map_or_else(|| self.dirty.front(), |(key, _)| Some(key))
    }

    /// Whether something may be to be sent, all of it of a lower class than the next message for
    /// the program: then the program should have that before the driver transmits.
    pub(super) fn message_outranks_output(&mut self) -> bool {
        let to_send = self.dirty.front_class();
        let class = self.next_class_received();
        to_send.is_some() && class > to_send && class > self.next_class_to_send()
    }

    /// Whether a channel of a higher class than its peer has something to send that all other
    /// peers' turns come after.
    pub fn has_urgent_output(&mut self) -> bool {
        !self.ranks.sending.is_empty() && self.next_class_to_send() > self.dirty.front_class()
    }

    /// The class of the next message for the program.
    fn next_class_received(&mut self) -> Option<u8> {
        let in_order = self.readable.front_class();
        if self.ranks.receiving.is_empty() {
            return in_order;
        }
        let peers = &self.peers;
        let class_of = |key| peers.active(key)?.session.inbox.next_class();
        let urgent = self.ranks.receiving.front(&self.readable, class_of);
        urgent.map_or(in_order, |(_, class)| Some(class))
    }

    /// The class of what is to be sent next.
    fn next_class_to_send(&mut self) -> Option<u8> {
        let in_order = self.dirty.front_class();
        if self.ranks.sending.is_empty() {
            return in_order;
        }
        let peers = &self.peers;
        let class_of = |key| peers.active(key)?.session.outbox.next_class();
        let urgent = self.ranks.sending.front(&self.dirty, class_of);
        urgent.map_or(in_order, |(_, class)| Some(class))
    }

    /// Whoever has the turn can do nothing with it.
    pub(super) fn drop_turn(&mut self) {
        match self.ranks.turn {
            Some(_) => self.ranks.sending.drop_front(),
            None => self.dirty.drop_front(),
        }
    }

    /// The class in which the peer has its turn.
    fn class_of_turn(&self, key: usize) -> u8 {
        self.ranks
            .turn
            .unwrap_or_else(|| self.dirty.priority(key).class())
    }

    /// The train that was built counts in its peer's turn, and shows that its class is in use.
    pub(super) fn note_class(&mut self, now: Instant, key: usize) {
        let class = self.class_of_turn(key);
        if let Some(used) = self.ranks.used.get_mut(usize::from(class)) {
            *used = Some(now);
        }
        self.ranks.highest_used = self.ranks.highest_used.max(class);
        if self.ranks.turn.is_some() {
            // Bulk may have filled the train: that counts among the other peers, too.
            self.ranks.sending.charge(self.train.len());
            self.dirty.owe(key, self.train.len());
        } else if self.train_is_last {
            self.dirty.finish_front(self.train.len());
        } else {
            self.dirty.charge(self.train.len());
        }
    }

    /// Whether a peer of a higher class sent something of late: a train that the socket has cannot
    /// be overtaken, so those of this peer should be short.
    pub(super) fn is_outranked(&self, now: Instant, key: usize) -> bool {
        let class = self.class_of_turn(key);
        if class >= self.ranks.highest_used {
            return false;
        }
        let higher = self.ranks.used.iter().skip(usize::from(class) + 1);
        higher.flatten().any(|at| now < *at + CLASS_IN_USE)
    }
}
