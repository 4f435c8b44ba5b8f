//! A session, to which the delivery promises apply. It outlives connections.

use crate::config::Config;
use crate::shared::Promise;
use std::collections::VecDeque;
use suci_channels::message::{Inbox, InboxLimits, Outbox, OutboxLimits, Pool};
use suci_link::limits::{self, MAX_RETIRED};
use suci_link::link::NumberedSetting;
use suci_link::planted;
use suci_link::time::Instant;
use suci_link::types::{Epoch, Incarnation, Layers, NodeId, SessionNumber, Source};

/// Whether each side suspended a session. It ends with the session.
pub(crate) type Suspension = NumberedSetting<bool>;

/// The progress of this side in closing the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closing {
    /// Not closing.
    Open,
    /// Waiting until everything is acknowledged, at most until the deadline.
    Draining { deadline: Instant },
    /// CLOSE was sent, or is due.
    Sent { deadline: Instant },
}

/// The messages of one pair of incarnations and epoch, in both directions.
#[derive(Debug)]
pub(crate) struct Session {
    /// The peer's incarnation; none until a handshake told it.
    pub(crate) remote: Option<Incarnation>,
    pub(crate) epoch: Epoch,
    /// The number of this session among this node's sessions with the peer.
    pub(crate) number: SessionNumber,
    /// A connection was made in this session, so the peer has the session, too.
    pub(crate) connected: bool,
    /// When the first INIT was made from which the peer may have taken messages. `None` if no INIT
    /// carried any, or if the peer certainly took none.
    pub(crate) rode_at: Option<Instant>,
    pub(crate) outbox: Outbox,
    pub(crate) inbox: Inbox,
    /// Memory promised to the peer, none before the handshake.
    pub(crate) promise: Promise,
    /// The program alone decides when messages are sent again, not timers or losses.
    pub(crate) manual: bool,
    /// The suspension by either side.
    pub(crate) suspension: Suspension,
    /// Calls made in the session that have no reply yet.
    pub(crate) open_calls: u32,
}

impl Session {
    /// Returns a session before any exchange.
    pub(crate) fn new(node: NodeId, config: &Config, pool: &Pool) -> Self {
        let outbox = Outbox::new(OutboxLimits {
            rts_threshold: config.rts_threshold,
            max_queued_bytes: config.send_queue,
            max_queued_messages: limits::MAX_QUEUED_MESSAGES,
            ride: limits::RIDE_CREDIT,
            reply_reserve: limits::REPLY_RESERVE,
            group_reserve: limits::GROUP_RESERVE,
        });
        let mut inbox = Inbox::new(
            InboxLimits {
                channel_window: 0,
                session_window: 0,
                max_message: config.max_message,
                max_channels: limits::MIN_CHANNELS,
                max_large: config.memory / 2,
            },
            pool.clone(),
        );
        inbox.set_large_budget(0);
        let (number, by) = (SessionNumber(0), config.placement.clone());
        let session = number;
        inbox.set_layers(Source { node, session }, by, config.ports);
        Self {
            remote: None,
            epoch: Epoch(0),
            number,
            connected: false,
            rode_at: None,
            outbox,
            inbox,
            promise: Promise::default(),
            manual: false,
            suspension: Suspension::default(),
            open_calls: 0,
        }
    }

    /// Gives the session its number.
    pub(crate) fn set_number(&mut self, number: SessionNumber) {
        self.number = number;
        self.inbox.set_session(number);
    }

    /// Returns true if the session got past the handshake.
    pub(crate) fn is_established(&self) -> bool {
        self.remote.is_some()
    }

    /// Notes that an INIT to `incarnation`, made at `now`, carries messages: that incarnation may
    /// take them, so they go to no other.
    pub(crate) fn ride_to(&mut self, incarnation: Incarnation, epoch: Epoch, now: Instant) {
        self.remote = Some(incarnation);
        self.epoch = epoch;
        self.rode_at.get_or_insert(now);
    }

    /// Notes that the peer took nothing of the INIT made at `made`, and never will. If no other
    /// INIT carried messages, the session is reset as if none had been sent.
    pub(crate) fn ride_refused(&mut self, made: Instant) {
        if !self.connected && self.rode_at == Some(made) {
            self.rode_at = None;
            self.remote = None;
            self.epoch = Epoch::default();
        }
    }

    /// Returns true if the peer's process `incarnation`, which is at `epoch`, ended this session. A
    /// higher epoch alone does not prove it: a peer that forgot some incarnations begins higher
    /// with every unknown one. The peer ended the session if it had it: by a connection, or perhaps
    /// by messages on an INIT before `since`.
    pub(crate) fn was_ended_by(
        &self,
        incarnation: Incarnation,
        epoch: Epoch,
        since: Instant,
    ) -> bool {
        let ours = self.epoch;
        let behind = self.remote == Some(incarnation) && epoch != ours && epoch.reaches(ours);
        behind && (self.connected || self.rode_at.is_some_and(|at| at < since) || planted_end())
    }

    /// Returns true if the peer's process `incarnation` told this node that it may use more layers
    /// in this session than `layers`, which it permits now. They never become fewer within a
    /// session that it knows.
    pub(crate) fn exceeds(&self, incarnation: Incarnation, layers: Layers) -> bool {
        let is_its = self.connected && self.remote == Some(incarnation);
        is_its && !layers.contains(self.outbox.permitted())
    }

    /// Returns true if the peer's answer shows that the session is over: it ended it, or does not
    /// know it.
    pub(crate) fn is_over_at(
        &self,
        incarnation: Incarnation,
        epoch: Epoch,
        since: Instant,
        layers: Layers,
    ) -> bool {
        self.was_ended_by(incarnation, epoch, since) || self.exceeds(incarnation, layers)
    }

    /// Returns true if the program learns of the session's end by an event.
    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        self.is_established() || !self.outbox.is_empty()
    }
}

/// Returns true if the fault `higher-epoch-ends-session` is planted: a session that the peer never
/// had ends if the peer begins higher, and no INIT uses the epoch of COOKIE.
pub(super) fn planted_end() -> bool {
    planted("higher-epoch-ends-session")
}

/// The memory of ended sessions, which keeps them ended: for each incarnation the first epoch that
/// it may still open. An incarnation may come back after another one (two processes may claim one
/// node ID), but not to a session that ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// The newest last.
    known: VecDeque<(Incarnation, Epoch)>,
    /// The first epoch of incarnations that are unknown or forgotten.
    floor: Epoch,
}

impl History {
    /// Returns true if no session with any process has ended.
    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Notes that the session (`incarnation`, `epoch`) ended.
    pub(crate) fn ended(&mut self, incarnation: Incarnation, epoch: Epoch) {
        self.go_on_at(incarnation, epoch.next());
    }

    /// Notes that all sessions with `incarnation` before the one of epoch `next` are over.
    pub(crate) fn go_on_at(&mut self, incarnation: Incarnation, next: Epoch) {
        self.known.retain(|(known, _)| *known != incarnation);
        if self.known.len() == MAX_RETIRED
            && let Some((_, next)) = self.known.pop_front()
            && next.reaches(self.floor)
        {
            self.floor = next;
        }
        self.known.push_back((incarnation, next));
    }

    /// Returns the first epoch that `incarnation` may still open.
    pub(crate) fn next_epoch(&self, incarnation: Incarnation) -> Epoch {
        let known = self.known.iter().find(|(known, _)| *known == incarnation);
        known.map_or(self.floor, |(_, next)| *next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f14_a_session_that_ended_is_never_taken_up_again() {
        let (old, new) = (Incarnation(1), Incarnation(2));
        let mut history = History::default();
        history.ended(old, Epoch(0));
        assert_eq!(history.next_epoch(old), Epoch(1));
        assert_eq!(history.next_epoch(new), Epoch(0));
        history.ended(new, Epoch(0));
        assert_eq!(history.next_epoch(old), Epoch(1), "whoever came between");
    }

    #[test]
    fn f04_the_memory_of_incarnations_is_bounded_and_errs_upwards() {
        let mut history = History::default();
        for n in 0..100 {
            history.ended(Incarnation(n), Epoch(u64::try_from(n % 7).unwrap_or(0)));
        }
        assert_eq!(history.known.len(), MAX_RETIRED);
        assert_eq!(
            history.next_epoch(Incarnation(3)),
            Epoch(7),
            "forgotten: above all that were"
        );
    }
}
