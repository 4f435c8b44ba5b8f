//! What the program decides about its link with one peer: whether messages flow, and how silence is borne.

use super::{Engine, SendError};
use crate::config::{self, ConfigError};
use crate::event::Side;
use crate::time::{Duration, Instant};
use crate::turns::Priority;
use crate::types::NodeId;
use std::net::{IpAddr, Ipv4Addr};

/// Why a peer's limits of silence were not set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatienceError {
    /// No such node.
    #[error(transparent)]
    Peer(#[from] SendError),
    /// A limit is out of its range.
    #[error(transparent)]
    Range(#[from] ConfigError),
}

impl Engine {
    /// Holds all messages to and from `node` back until [`Engine::resume`]. The peer is told, and holds its
    /// own back too; what was accepted is kept on both sides. Meanwhile [`Engine::send`] fails on both.
    /// Without a session yet, this is about the next one; with the session it ends.
    ///
    /// # Errors
    /// `UnknownPeer` or `Itself`.
    pub fn suspend(&mut self, node: NodeId) -> Result<(), SendError> {
        self.set_suspended(node, true)
    }

    /// Undoes [`Engine::suspend`]. If the peer did not suspend the session too, messages flow again.
    ///
    /// # Errors
    /// `UnknownPeer` or `Itself`.
    pub fn resume(&mut self, node: NodeId) -> Result<(), SendError> {
        self.set_suspended(node, false)
    }

    fn set_suspended(&mut self, node: NodeId, suspended: bool) -> Result<(), SendError> {
        let key = self.known(node)?;
        if let Some(peer) = self.peers.get_mut(key) {
            peer.set_suspended(suspended, &mut self.shared);
        }
        self.touch(key);
        Ok(())
    }

    /// Who suspended the session with `node`; this side if both did.
    #[must_use]
    pub fn suspended_by(&self, node: NodeId) -> Option<Side> {
        let peer = self.peers.get(self.peer_key(node)?)?;
        peer.session.suspension.by()
    }

    /// A node of which [`Engine::suspended_by`] may say something else than when this named it last. For drivers
    /// that keep what it says elsewhere; others need not ask.
    pub fn poll_suspension(&mut self) -> Option<NodeId> {
        self.shared.resuspended.pop_first()
    }

    /// How long the silence of `node` is borne before it counts as lost, and before its session ends,
    /// instead of what the configuration says for all.
    ///
    /// # Errors
    /// [`PatienceError`]; the ranges are those of [`crate::Config`].
    pub fn set_patience(
        &mut self,
        node: NodeId,
        silence_timeout: Duration,
        give_up_after: Duration,
    ) -> Result<(), PatienceError> {
        config::check_patience(silence_timeout, give_up_after)?;
        let key = self.known(node)?;
        if let Some(peer) = self.peers.get_mut(key) {
            peer.silence_timeout = silence_timeout;
            peer.give_up_after = give_up_after;
        }
        self.touch(key);
        Ok(())
    }

    /// Whether the silence of `node` is noticed when nothing waits for it, too, by asking it for a sign of
    /// life three times per silence timeout. Needs a connection: [`Engine::connect`] opens one.
    ///
    /// # Errors
    /// `UnknownPeer` or `Itself`.
    pub fn watch(&mut self, node: NodeId, on: bool) -> Result<(), SendError> {
        let key = self.known(node)?;
        if let Some(peer) = self.peers.get_mut(key) {
            peer.watched = on;
        }
        self.touch(key);
        Ok(())
    }

    /// Removes a node from the book: its session ends as by [`Engine::abandon`], and then it is unknown. It may come back by
    /// itself only where anybody may. What replays are told by is kept for a while, and leaves when others need the room.
    /// Returns whether there was a session whose end is told.
    ///
    /// # Errors
    /// `UnknownPeer` or `Itself`.
    pub fn remove_peer(&mut self, now: Instant, node: NodeId) -> Result<bool, SendError> {
        let has_begun = self.abandon(now, node)?;
        let Some(key) = self.peer_key(node) else {
            return Ok(has_begun);
        };
        if let Some(peer) = self.peers.get_mut(key) {
            let from = peer.path_address().map(|at| at.ip());
            peer.forget_settings(now, &self.shared.config);
            if peer.session.suspension.is_here() {
                peer.set_suspended(false, &mut self.shared);
            }
            if peer.stranger_from.is_none() {
                // From now on it is one of those that came by themselves, and left.
                let from = from.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
                peer.stranger_from = Some(from);
                *self.strangers.entry(from).or_default() += 1;
            }
        }
        self.dirty.set_priority(key, Priority::default());
        self.readable.set_priority(key, Priority::default());
        self.removed.insert(node);
        self.recent = None;
        self.touch(key);
        Ok(has_begun)
    }

    /// Whether `node` is known: of the book, or come by itself and not forgotten yet.
    #[must_use]
    pub fn knows(&self, node: NodeId) -> bool {
        self.known(node).is_ok()
    }

    pub(super) fn known(&self, node: NodeId) -> Result<usize, SendError> {
        if node == self.shared.identity.node {
            return Err(SendError::Itself(node));
        }
        let key = self
            .peer_key(node)
            .filter(|_| !self.removed.contains(&node));
        key.ok_or(SendError::UnknownPeer(node))
    }
}
