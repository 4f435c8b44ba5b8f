//! Decisions of the program about its link with one peer: suspension, the end of channels and of
//! the session, and timeouts.

use super::Engine;
use crate::config::{self, AcceptPolicy};
use crate::error::{OptionsError, SendError};
use crate::event::Side;
use crate::options::PeerOptions;
use crate::peer::Closing;
use std::net::{IpAddr, Ipv4Addr};
use suci_channels::message::NoRoom;
use suci_channels::scheduler::Priority;
use suci_link::time::Instant;
use suci_link::types::{ChannelId, NodeId, SessionNumber};

impl Engine {
    /// Holds all messages to and from `node` back until [`Engine::resume`]. The peer is told, and
    /// holds its own back too; both sides keep accepted messages. Meanwhile [`Engine::send`] fails
    /// on both. If there is no session yet, the next one is suspended. The suspension ends with its
    /// session.
    ///
    /// # Errors
    /// `UnknownPeer`.
    pub fn suspend(&mut self, node: NodeId) -> Result<(), SendError> {
        self.set_suspended(node, true)
    }

    /// Undoes [`Engine::suspend`]. If the peer did not suspend the session too, messages flow
    /// again.
    ///
    /// # Errors
    /// `UnknownPeer`.
    pub fn resume(&mut self, node: NodeId) -> Result<(), SendError> {
        self.set_suspended(node, false)
    }

    fn set_suspended(&mut self, node: NodeId, suspended: bool) -> Result<(), SendError> {
        let key = self.known(node)?;
        self.update(key, |peer, shared| peer.set_suspended(suspended, shared));
        Ok(())
    }

    /// Returns the number of the present session with `node`, or of the next one if none has begun.
    #[must_use]
    pub fn session(&self, node: NodeId) -> Option<SessionNumber> {
        self.peer(node).map(|peer| peer.session.number)
    }

    /// Returns the side that suspended the session with `node`; this side if both did.
    #[must_use]
    pub fn suspended_by(&self, node: NodeId) -> Option<Side> {
        self.peer(node)?.session.suspended_by()
    }

    /// Returns a node whose result of [`Engine::suspended_by`] may have changed since this returned
    /// the node last. Only drivers that keep a copy of that result need it.
    pub fn poll_suspension(&mut self) -> Option<NodeId> {
        self.shared.notices.resuspended.pop_first()
    }

    /// Returns a node that was [`Lost`](crate::Event::Lost) since this returned it last. Only
    /// drivers that look the node's address up again need it.
    pub fn poll_lost(&mut self) -> Option<NodeId> {
        self.shared.notices.lost.pop_first()
    }

    /// Sends nothing more on `channel` to `node`. When all its messages were acknowledged, the peer
    /// is told, and its program gets [`Event::ChannelFinished`](crate::Event::ChannelFinished)
    /// after the last of them. Then only the channel's number is kept, which cannot be used again
    /// in this session. Replies to the peer's requests on the channel count as messages on it. The
    /// other direction goes on until the peer finishes it. Its priority is forgotten. Returns false
    /// if the channel was finished before, or the session is closing.
    ///
    /// # Errors
    /// `UnknownPeer` or `Closed`; `Channels` or `NotPermitted` if the channel was not used yet and
    /// cannot be opened.
    pub fn finish_channel(
        &mut self,
        now: Instant,
        node: NodeId,
        channel: ChannelId,
    ) -> Result<bool, SendError> {
        let key = self.reach(node)?;
        let token = self.shared.random();
        let Some(peer) = self.peers.get_mut(key) else {
            return Err(SendError::UnknownPeer(node));
        };
        if peer.closing != Closing::Open {
            return Ok(false);
        }
        let finished = match peer.session.outbox.finish(channel) {
            Ok(finished) => finished,
            Err(NoRoom::Channels(open)) => return Err(SendError::Channels { open }),
            Err(NoRoom::NotPermitted(layer)) => return Err(SendError::NotPermitted { layer }),
            Err(NoRoom::Full | NoRoom::Finished(_)) => false,
        };
        if finished && !peer.has_connection() && peer.attempt.is_none() {
            peer.open(now, token);
        }
        self.touch(key);
        Ok(finished)
    }

    /// Returns the program's options for `node`.
    ///
    /// # Errors
    /// `UnknownPeer`.
    pub fn options(&self, node: NodeId) -> Result<PeerOptions, SendError> {
        let peer = self.peers.get(self.known(node)?);
        peer.map(|peer| peer.options)
            .ok_or(SendError::UnknownPeer(node))
    }

    /// Changes the program's options for `node`, for all sessions and connections from now on.
    ///
    /// # Errors
    /// [`OptionsError`]; the ranges are those of [`crate::Config`]. Nothing changes then.
    pub fn change_options(
        &mut self,
        now: Instant,
        node: NodeId,
        change: impl FnOnce(&mut PeerOptions),
    ) -> Result<(), OptionsError> {
        let mut options = self.options(node)?;
        change(&mut options);
        config::check_patience(options.silence_timeout, options.give_up_after)?;
        let key = self.known(node)?;
        self.dirty.set_priority(key, options.priority);
        self.readable.set_priority(key, options.priority);
        self.update(key, |peer, _| peer.set_options(now, options));
        Ok(())
    }

    /// Removes a node from the book: its session ends as by [`Engine::reset`], and then it is
    /// unknown. It may connect again by itself only if the accept policy admits strangers. The
    /// engine keeps the data that reveals replays for a while, and drops it when others need the
    /// room. Returns whether there was a session whose end is told. This node itself stays known.
    ///
    /// # Errors
    /// `UnknownPeer`.
    pub fn remove_peer(&mut self, now: Instant, node: NodeId) -> Result<bool, SendError> {
        let has_begun = self.reset(now, node)?;
        let others = self
            .peer_key(node)
            .filter(|_| node != self.shared.identity.node);
        let Some(key) = others else {
            return Ok(has_begun);
        };
        if let Some(peer) = self.peers.get_mut(key) {
            let from = peer.path_address().map(|at| at.ip());
            peer.forget_settings(now, &self.shared.config);
            if peer.session.suspension.ours() {
                peer.set_suspended(false, &mut self.shared);
            }
            if peer.stranger_from.is_none() {
                // From now on the node counts as a stranger that left.
                let from = from.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
                self.shared.met += usize::from(!peer.is_met());
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

    /// Returns true if `node` is known: in the book, or a stranger that is not forgotten yet.
    #[must_use]
    pub fn knows(&self, node: NodeId) -> bool {
        self.known(node).is_ok()
    }

    /// Returns true if messages of `node` may come: it is known, or anyone may connect.
    #[must_use]
    pub fn may_hear_from(&self, node: NodeId) -> bool {
        self.shared.config.accept == AcceptPolicy::Anyone || self.knows(node)
    }

    pub(super) fn known(&self, node: NodeId) -> Result<usize, SendError> {
        let key = self
            .peer_key(node)
            .filter(|_| !self.removed.contains(&node));
        key.ok_or(SendError::UnknownPeer(node))
    }
}
