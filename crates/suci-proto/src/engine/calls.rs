//! Calls: requests whose replies go to the caller, and not to the program's queue of messages.
//!
//! A request is a message of kind [`Kind::REQUEST`] whose tag is the call's number. The receiving
//! program takes it as it takes any message. The reply goes back on a channel of its own
//! ([`ChannelId::replies`](suci_link::types::ChannelId::replies)) with the same tag. So a reply
//! never waits behind messages that the calling program has not taken: it needs no memory credit of
//! their channel.
//!
//! Numbers begin at a random one. A late reply to an earlier process with the same node ID names no
//! call of this one.

use super::Engine;
use crate::error::SendError;
use crate::peer::Peer;
use crate::shared::{CallError, CallId, CallResult, OpenCall};
use suci_channels::message::Outgoing;
use suci_link::time::Instant;
use suci_link::types::{Kind, NodeId, Source};

impl Engine {
    /// Sends `message` as a request, the call `id`. [`Engine::poll_call`] returns the reply. The
    /// request's kind, tag, token and notification are set here. While a call is open, the peer
    /// counts as watched: its death ends the call.
    ///
    /// If the peer's process is known to have died, the request is not sent, and the call has the
    /// result [`CallError::Died`] at once. The peer is asked for a sign of life, so that later
    /// calls reach the next process.
    ///
    /// # Errors
    /// As [`Engine::send`]; the message comes back as it was.
    pub fn call(
        &mut self,
        now: Instant,
        node: NodeId,
        id: CallId,
        message: Outgoing,
    ) -> Result<(), SendError> {
        let key = self.reach(node)?;
        if self.peers.get(key).is_some_and(Peer::has_died) {
            let token = self.shared.random();
            self.update(key, |peer, shared| {
                shared
                    .notices
                    .calls
                    .done
                    .push_back((id, Err(CallError::Died)));
                peer.open(now, token);
                peer.ask_for_process(now, shared);
            });
            return Ok(());
        }
        let Outgoing {
            channel,
            tag,
            kind,
            notify,
            token,
            ..
        } = message;
        let request = Outgoing {
            tag: id.0,
            kind: Kind::REQUEST,
            notify: false,
            token: id.0,
            ..message
        };
        let count = |peer: &mut Peer| peer.session.open_calls += 1;
        let sent = self.send_and(now, node, request, count);
        let number = sent.map_err(|mut error| {
            if let Some(message) = error.message_mut() {
                (message.tag, message.kind) = (tag, kind);
                (message.notify, message.token) = (notify, token);
            }
            error
        })?;
        let open = OpenCall {
            node,
            channel,
            number,
        };
        self.shared.notices.calls.open.insert(id, open);
        Ok(())
    }

    /// Drops all replies of the peer `key`: no call waits for one, so they are late.
    #[cold]
    fn drop_replies(&mut self, key: usize) {
        if let Some(peer) = self.peers.get_mut(key) {
            while peer.next_reply(&mut self.shared.counters).is_some() {
                self.shared.counters.late_replies += 1;
            }
        }
    }

    /// Handles a reply of the peer `key`.
    pub(super) fn on_reply(&mut self, key: usize) {
        let open = self
            .peers
            .active(key)
            .map_or(0, |peer| peer.session.open_calls);
        if open > 0 {
            self.answered.add(key);
        } else {
            self.drop_replies(key);
        }
    }

    /// Returns the next call that ended without a reply.
    pub fn poll_failed_call(&mut self) -> Option<(CallId, CallResult)> {
        let done = &mut self.shared.notices.calls.done;
        let failed = done.iter().position(|(_, result)| result.is_err())?;
        done.remove(failed)
    }

    /// Returns the next call that has a result. Taking a reply gives memory credit back to the
    /// peer.
    pub fn poll_call(&mut self) -> Option<(CallId, CallResult)> {
        if let Some(done) = self.shared.notices.calls.done.pop_front() {
            return Some(done);
        }
        while let Some(key) = self.answered.front() {
            let reply = self
                .peers
                .get_mut(key)
                .and_then(|peer| peer.next_reply(&mut self.shared.counters));
            let Some((peer, message)) = reply else {
                self.answered.drop_front();
                continue;
            };
            // The peer must be told its new credit.
            self.dirty.add(key);
            match self.shared.notices.calls.answered(peer.node, &message) {
                Some(id) => {
                    peer.session.open_calls = peer.session.open_calls.saturating_sub(1);
                    let source = Source {
                        node: peer.node,
                        session: peer.session.number,
                    };
                    return Some((id, Ok((source, message))));
                }
                None => self.shared.counters.late_replies += 1,
            }
        }
        None
    }

    /// Returns true if [`Engine::poll_call`] may have something.
    #[must_use]
    pub fn has_call(&self) -> bool {
        !self.shared.notices.calls.done.is_empty() || !self.answered.is_empty()
    }

    /// Cancels a call: its request is not sent, if no part of it was, and its reply will be late.
    /// The result of an ended call is dropped, too.
    pub fn cancel_call(&mut self, id: CallId) {
        if let Some(open) = self.shared.notices.calls.open.remove(&id) {
            let Some(key) = self.peer_key(open.node) else {
                return;
            };
            // The peer may become idle now.
            return self.update(key, |peer, shared| {
                peer.session.open_calls = peer.session.open_calls.saturating_sub(1);
                peer.cancel_request(open.channel, open.number, &mut shared.notices);
            });
        }
        let done = &mut self.shared.notices.calls.done;
        let before = done.len();
        done.retain(|(other, result)| *other != id || result.is_err());
        self.shared.counters.late_replies += (before - done.len()) as u64;
        done.retain(|(other, _)| *other != id);
    }

    /// Returns true if the process of `node` is known to have died, so that calls to it fail at
    /// once.
    #[must_use]
    pub fn has_died(&self, node: NodeId) -> bool {
        self.active_peer(node).is_some_and(Peer::has_died)
    }

    /// Counts replies that the driver took for callers that waited no more.
    pub fn count_late_replies(&mut self, replies: u64) {
        self.shared.counters.late_replies += replies;
    }

    /// Returns how many calls have no reply yet.
    #[must_use]
    pub fn open_calls(&self) -> usize {
        self.shared.notices.calls.open.len()
    }
}
