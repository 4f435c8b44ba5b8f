//! Urgent peers: a channel of a higher class than the peer's own has something to send or to hand
//! over. Their turn comes before that of other peers.
//!
//! The order of peers follows the priorities that the program gave to peers. There a message of an
//! urgent channel would wait until all other peers of the class had a train each. So its peer is
//! listed here, too, in the class of the channel, until that channel has nothing more. The peer
//! keeps its position in the order meanwhile: its bulk data neither loses nor gains by urgent
//! messages.

use super::Engine;
use super::ranks::CLASS_IN_USE;
use suci_link::time::Instant;

impl Engine {
    /// Returns the first urgent peer with messages to send, and the class of its next message.
    #[inline]
    fn urgent_to_send(&mut self) -> Option<(usize, u8)> {
        let peers = &self.peers;
        let class_of = |key| peers.active(key)?.session.outbox.next_class();
        self.ranks.sending.front(&self.dirty, class_of)
    }

    /// Returns the first urgent peer with messages for the program, and the class of the next one.
    #[inline]
    pub(super) fn urgent_received(&mut self) -> Option<(usize, u8)> {
        let peers = &self.peers;
        let class_of = |key| peers.active(key)?.session.inbox.next_class();
        self.ranks.receiving.front(&self.readable, class_of)
    }

    /// Returns the peer whose turn it is: an urgent one, or the next in order.
    pub(super) fn next_peer(&mut self) -> Option<usize> {
        let urgent = self.urgent_to_send();
        self.ranks.turn = urgent.map(|(_, class)| class);
        urgent.map_or_else(|| self.dirty.front(), |(key, _)| Some(key))
    }

    /// Returns true if there may be something to send, and all of it has a lower class than the
    /// next message for the program. Then the program should get that message before the driver
    /// transmits.
    pub(super) fn message_outranks_output(&mut self) -> bool {
        let to_send = self.dirty.front_class();
        let urgent = self.urgent_received();
        let class = urgent.map_or(self.readable.front_class(), |(_, class)| Some(class));
        to_send.is_some() && class > to_send && class > self.next_class_to_send()
    }

    /// Returns true if an urgent channel has something to send that comes before the data of all
    /// other peers.
    pub fn has_urgent_output(&mut self) -> bool {
        self.next_class_to_send() > self.dirty.front_class()
    }

    /// Returns the class of the next message to send.
    fn next_class_to_send(&mut self) -> Option<u8> {
        let urgent = self.urgent_to_send();
        urgent.map_or(self.dirty.front_class(), |(_, class)| Some(class))
    }

    /// Ends the turn of the current peer, which can do nothing with it.
    pub(super) fn drop_turn(&mut self) {
        match self.ranks.turn {
            Some(_) => self.ranks.sending.drop_front(),
            None => self.dirty.drop_front(),
        }
    }

    /// Returns the class in which the peer has its turn.
    fn class_of_turn(&self, key: usize) -> u8 {
        self.ranks
            .turn
            .unwrap_or_else(|| self.dirty.priority(key).class())
    }

    /// Charges the train that was built to its peer's turn, and notes that its class is in use.
    pub(super) fn note_class(&mut self, now: Instant, key: usize) {
        let class = self.class_of_turn(key);
        if let Some(used) = self.ranks.used.get_mut(usize::from(class)) {
            *used = Some(now);
        }
        self.ranks.highest_used = self.ranks.highest_used.max(class);
        if self.ranks.turn.is_some() {
            // Bulk data may have filled the train: charge it in the order of peers, too.
            self.ranks.sending.charge(self.train.bytes());
            self.dirty.debit(key, self.train.bytes());
        } else if self.train_is_last {
            self.dirty.finish_front(self.train.bytes());
        } else {
            self.dirty.charge(self.train.bytes());
        }
    }

    /// Returns true if a higher class sent something within the last second. A train in the socket
    /// cannot be overtaken, so the trains of this peer should then be short.
    pub(super) fn is_outranked(&self, now: Instant, key: usize) -> bool {
        let class = self.class_of_turn(key);
        if class >= self.ranks.highest_used {
            return false;
        }
        let higher = self.ranks.used.iter().skip(usize::from(class) + 1);
        higher.flatten().any(|at| now < *at + CLASS_IN_USE)
    }
}
