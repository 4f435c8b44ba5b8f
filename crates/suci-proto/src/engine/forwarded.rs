//! Packets that nodes forward for others. Each is a message to a neighbour, and needs no program at
//! either end. The layer of routes decides where packets go.

use super::Engine;
use crate::counters::RoutedPacket;
use std::net::SocketAddr;
use suci_link::time::{Duration, Instant};
use suci_link::types::{ChannelId, NodeId};

impl Engine {
    /// Counts a packet that nodes carry for others.
    pub fn count_routed(&mut self, packet: RoutedPacket) {
        let counters = &mut self.shared.counters;
        let count = match packet {
            RoutedPacket::Sent => &mut counters.routes.sent,
            RoutedPacket::Received => &mut counters.routes.received,
            RoutedPacket::Forwarded => &mut counters.routes.forwarded,
            RoutedPacket::NoCredit => &mut counters.routes.no_credit,
            RoutedPacket::HopLimit => &mut counters.routes.hop_limit,
            RoutedPacket::NotAllowed => &mut counters.routes.not_allowed,
            RoutedPacket::Unknown => &mut counters.routes.unknown,
            RoutedPacket::Malformed => &mut counters.malformed,
        };
        *count += 1;
    }

    /// Returns the number of messages to `node` on this channel that are neither acknowledged nor
    /// refused, and of those between them.
    #[must_use]
    pub fn open_on(&self, node: NodeId, channel: ChannelId) -> u64 {
        let peer = self.active_peer(node);
        peer.map_or(0, |peer| peer.session.outbox.open_on(channel))
    }

    /// Returns true if `node` is lost, or has left a question unanswered for at least `time`.
    #[must_use]
    pub fn is_silent(&self, now: Instant, node: NodeId, time: Duration) -> bool {
        let peer = self.active_peer(node);
        peer.is_some_and(|peer| peer.life.is_silent(now, time))
    }

    /// Returns the address where `node` is presumed: that of its connection, or else where it was
    /// heard last, or else the first of the book.
    #[must_use]
    pub fn presumed_address(&self, node: NodeId) -> Option<SocketAddr> {
        self.peer(node)?.path_address()
    }

    /// As [`Engine::close`], but closes only the sessions with peers at addresses for which `first`
    /// returns true: other peers carry their packets. [`Engine::close`] closes these, too.
    pub fn close_first(&mut self, now: Instant, patience: Duration, first: fn(SocketAddr) -> bool) {
        if !self.shared.closing {
            self.shared.closing = true;
            self.closes_first = Some(first);
            self.close_due(now + patience);
        }
    }

    /// Returns true if no session is left of those that [`Engine::close_first`] closes.
    #[must_use]
    pub fn has_closed_first(&self) -> bool {
        self.shared.closing && self.has_closed_all()
    }
}
