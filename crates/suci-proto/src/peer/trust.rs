//! Our relation to a peer: known or a stranger, with a slot or without, to be kept or forgotten.

use super::{Connection, Peer};
use crate::addresses::Addresses;
use crate::config::Config;
use crate::counters::LinkState;
use crate::credit::{IDLE, TURN, Tenure};
use crate::handshake::Trust;
use crate::options::PeerOptions;
use crate::shared::Shared;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use suci_link::planted;
use suci_link::time::{Duration, Instant};
use suci_link::types::Incarnation;

/// Shortest silence after which a peer that sent only INIT counts as idle.
const UNHEARD: Duration = Duration::from_millis(250);

impl Peer {
    /// Returns our relation to the peer. A dismissed peer counts as one without a slot, and so does
    /// one whose session is over: its slot is free soon.
    pub(crate) fn trust(&self) -> Trust {
        if self.has_connection() && !self.is_dismissed() {
            Trust::Admitted
        } else if !self.book.is_empty() || self.session.is_established() {
            Trust::Known
        } else {
            Trust::Stranger
        }
    }

    /// Returns true if the session belongs to another start of the peer than `incarnation`.
    pub(crate) fn is_other_incarnation(&self, incarnation: Incarnation) -> bool {
        if planted("stale-incarnation") {
            return false;
        }
        self.session
            .remote
            .is_some_and(|remote| remote != incarnation)
    }

    /// Returns true if the peer's process may still be alive.
    pub(crate) fn is_live(&self) -> bool {
        self.session.is_established()
            && matches!(
                self.life.link(),
                LinkState::Up | LinkState::Lost | LinkState::Quiet
            )
    }

    /// Returns true if the peer must give up its slot.
    pub(crate) fn is_dismissed(&self) -> bool {
        let connection = self.connection.as_ref();
        connection.is_some_and(|connection| connection.grant.is_dismissed())
    }

    /// Returns true if `from` is a known address of the peer.
    pub(crate) fn may_be_at(&self, from: SocketAddr) -> bool {
        self.book.contains(from) || [self.last_source, self.path_address()].contains(&Some(from))
    }

    /// Returns true if the peer can be forgotten, unless it is in a queue of the engine. Such a
    /// peer is not in the book, has nothing waiting, and the program set nothing for it. Untaken
    /// events prevent that unless `events` is set.
    pub(crate) fn is_forgettable(&self, events: bool, config: &Config) -> bool {
        let busy = self.has_connection() || self.attempt.is_some();
        let unfinished = (self.has_untold() && !events)
            || !self.session.outbox.is_empty()
            || self.session.suspension.ours();
        self.book.is_empty()
            && self.stranger_from.is_some()
            && !(self.ack_waits || busy || unfinished || self.has_message())
            && !self.has_settings(config)
            && self.life.link() == LinkState::Idle
    }

    /// Returns the time of the newest cookie whose INIT was accepted or refused for good: a copy of
    /// it, or of an older one, must not be accepted.
    pub(crate) fn newest_claim(&self) -> Option<Instant> {
        self.newest_cookie.max(self.newest_refused)
    }

    /// Returns true if the program changed any setting of this peer.
    fn has_settings(&self, config: &Config) -> bool {
        self.steering.is_some()
            || self.session.outbox.has_priorities()
            || self.options != PeerOptions::new(config)
    }

    /// Applies the program's options from now on.
    pub(crate) fn set_options(&mut self, now: Instant, options: PeerOptions) {
        let old = core::mem::replace(&mut self.options, options);
        if options.controller != old.controller
            && let Some(connection) = &mut self.connection
        {
            connection.link.set_controller(options.controller);
        }
        if options.rate_cap != old.rate_cap {
            self.cap.set(now, options.rate_cap);
        }
        self.session.manual = options.manual_retransmission;
        if old.manual_retransmission && !options.manual_retransmission {
            self.retransmit();
        }
    }

    /// Resets the peer when the program removes it: it is in no book, and has the default settings.
    pub(crate) fn forget_settings(&mut self, now: Instant, config: &Config) {
        self.book = Addresses::default();
        self.steering = None;
        self.set_options(now, PeerOptions::new(config));
        drop(self.session.outbox.take_priorities());
        self.session.inbox.set_priorities(BTreeMap::new());
    }

    /// Returns true if its session goes on without a connection and nothing of it was heard for as
    /// long as a peer is waited for, all of it after `resumed`.
    pub(crate) fn is_long_silent(&self, now: Instant, resumed: Instant) -> bool {
        let limits = self.silence_limits();
        self.session.is_established()
            && !(self.connection.is_some() || self.attempt.is_some() || limits.presumed_alive)
            && now >= self.life.sign_at().max(resumed) + limits.give_up_after
    }

    /// Notes that one side has no room for the other, which is neither silence nor its end.
    pub(crate) fn put_off(&mut self, now: Instant) {
        self.put_off = true;
        self.life.put_off(now);
    }

    /// Returns how long the peer of `connection` keeps its slot. It counts as idle in three cases.
    ///
    /// * Nothing came after its INIT: it may have stopped there. Two of the round trips from COOKIE
    ///   to INIT suffice for its first packet.
    /// * The last exchange is over: as many messages were sent as received, and all are
    ///   acknowledged. In one probe timeout a next message would have come.
    /// * Otherwise it may wait for a packet of ours, and its own takes as long again. Far peers
    ///   would lose each connection before it carried anything. A path of which nothing was
    ///   acknowledged yet may be as long as the handshake, of which packets were perhaps repeated.
    pub(crate) fn tenure(&self, connection: &Connection) -> Tenure {
        let grant = &connection.grant;
        let rtt = connection.link.recovery.rtt();
        let handshake = match self.newest_cookie {
            _ if grant.was_heard() && rtt.has_sample() => Duration::ZERO,
            Some(cookie) => grant.begun_at().since(cookie).min(TURN),
            None => TURN,
        };
        let answer = (handshake * 2).min(TURN);
        if !grant.was_heard() {
            let idle = answer.max(UNHEARD);
            return Tenure { idle, turn: TURN };
        }
        let pto = rtt.pto(Duration::ZERO);
        let tenure = Tenure::of(pto);
        let sent = self.session.outbox.accepted();
        let answered = sent > 0 && sent == self.session.inbox.received();
        let over = answered && !(self.is_waiting() || self.has_message() || self.has_reply());
        let idle = match over {
            true => pto.min(IDLE),
            false => tenure.idle.max(answer),
        };
        Tenure { idle, ..tenure }
    }

    /// Gives up the connection's slot for others. The session goes on without a connection until
    /// there is something to send.
    pub(crate) fn give_up_slot(&mut self, now: Instant, shared: &mut Shared) {
        self.drop_connection(shared);
        self.put_off(now);
        self.close_again();
        // A repeated INIT is obsolete, as its connection is gone.
        self.accepted = None;
        if self.options.keep_alive || self.awaited > 0 || !self.session.outbox.is_empty() {
            let token = shared.random();
            self.open(now, token);
        }
        let waiting = self.is_waiting();
        self.life.set_waiting(now, waiting);
    }
}
