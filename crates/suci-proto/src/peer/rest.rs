//! A peer with which nothing happens: when it may rest, and what is written down of it.
//!
//! Everything that a promise rests on is kept exactly: incarnations and epochs, the numbers of
//! messages and packets, which packets were received, memory credit and socket credit both ways.
//! What was learnt of the path and what was counted is kept too. Forgotten is what can only concern
//! packets that were given up long ago.

use super::{Closing, Connection, End, Peer};
use crate::config::Config;
use crate::counters::Traffic;
use crate::fold::{Fold, Words};
use crate::limits::COOKIE_LIFETIME;
use crate::time::{Duration, Instant};

impl Peer {
    /// Whether nothing waits: for the peer, for the program, or for time to pass. Gives back memory
    /// that only what was busy needed.
    pub(crate) fn rest(&mut self, now: Instant) -> bool {
        // An INIT whose cookie lapsed is not answered again.
        if self
            .newest_baked
            .is_some_and(|at| now > at + COOKIE_LIFETIME)
        {
            self.accepted = None;
        }
        let quiet = self.deadline().is_none()
            && self.closing == Closing::Open
            && self.lingering.is_none()
            && self.attempt.is_none()
            && self.accepted.is_none();
        let untold = self.ack_waits || self.newsworthy || self.read || self.has_untold();
        let steered = self.steering.is_some();
        let waiting = self.is_waiting() || self.session.promise.is_waiting();
        if !quiet || untold || steered || waiting {
            return false;
        }
        if let Some(connection) = &mut self.connection {
            // It goes on counting in the connection.
            self.traffic = Traffic::default();
            if !connection.rest() {
                return false;
            }
        }
        self.cap.rest();
        self.session.outbox.rest() && self.session.inbox.rest()
    }

    /// Writes it down once it [rests](Self::rest). Who it is, where it is in the engine and how
    /// packets to it are recognised here is known without. `first` stands before everything else.
    pub(crate) fn fold(&self, first: &dyn Fold, config: &Config) -> Box<[u8]> {
        let Self {
            node: _,
            key: _,
            book,
            stranger_from,
            heard_at,
            heard_before,
            session,
            steering: _,
            cap,
            controller,
            connection,
            lingering: _,
            attempt: _,
            accepted: _,
            newest_baked,
            newest_refused,
            life,
            history,
            news: _,
            closing: _,
            wish,
            lean,
            last_refusal,
            newsworthy: _,
            ack_waits: _,
            kept_alive,
            traffic,
            waits,
            silence_timeout,
            give_up_after,
            watched,
            unattended,
            read: _,
            put_off,
        } = self;
        let mut to = Words::default();
        first.fold(&mut to);
        // Nearly all are borne as long as the configuration says.
        let borne = |span: &Duration, usual| (*span != usual).then_some(*span);
        let silence_timeout = borne(silence_timeout, config.silence_timeout);
        let all: [&dyn Fold; 21] = [
            book,
            heard_at,
            heard_before,
            stranger_from,
            cap,
            controller,
            newest_baked,
            newest_refused,
            life,
            kept_alive,
            history,
            wish,
            lean,
            last_refusal,
            traffic,
            waits,
            &silence_timeout,
            &borne(give_up_after, config.give_up_after),
            watched,
            unattended,
            put_off,
        ];
        all.into_iter().for_each(|part| part.fold(&mut to));
        session.fold(&mut to);
        connection.iter().for_each(|c| c.fold(&mut to));
        to.pack()
    }

    /// Reads back what was written down into a new one, whose connection, if it had one, ends at
    /// `local`.
    pub(crate) fn restore(&mut self, local: Option<End>, from: &mut Words) {
        let peer = self;
        peer.book = Fold::unfold(from);
        peer.heard_at = Fold::unfold(from);
        peer.heard_before = Fold::unfold(from);
        peer.stranger_from = Fold::unfold(from);
        peer.cap = Fold::unfold(from);
        peer.controller = Fold::unfold(from);
        peer.newest_baked = Fold::unfold(from);
        peer.newest_refused = Fold::unfold(from);
        peer.life = Fold::unfold(from);
        peer.kept_alive = Fold::unfold(from);
        peer.history = Fold::unfold(from);
        peer.wish = Fold::unfold(from);
        peer.lean = Fold::unfold(from);
        peer.last_refusal = Fold::unfold(from);
        peer.traffic = Fold::unfold(from);
        peer.waits = Fold::unfold(from);
        let (silence_timeout, give_up_after) = <(Option<_>, Option<_>)>::unfold(from);
        peer.silence_timeout = silence_timeout.unwrap_or(peer.silence_timeout);
        peer.give_up_after = give_up_after.unwrap_or(peer.give_up_after);
        peer.watched = Fold::unfold(from);
        peer.unattended = Fold::unfold(from);
        peer.put_off = Fold::unfold(from);
        peer.session.restore(from);
        peer.connection = local.map(|local| Connection::unfold_at(local, from));
    }
}

impl Connection {
    /// Writes it down, but for where it ends here.
    fn fold(&self, to: &mut Words) {
        let Self {
            local: _,
            remote,
            params,
            path,
            mtu,
            numbers,
            recovery,
            received,
            credit,
            grant,
            previous,
            congestion,
            pacer,
            pending,
            modes,
            acks,
            reserve,
            marks,
            memory_told,
            unasked,
            asked_at,
            paced_until,
            capped_until,
            control_at,
            reclaim_at,
            blame,
            anew_at,
            steered,
            delivery_rate,
            cwnd_validation,
            app_limited,
            traffic,
        } = self;
        let all: [&dyn Fold; 31] = [
            remote,
            params,
            path,
            mtu,
            numbers,
            recovery,
            received,
            credit,
            grant,
            previous,
            congestion,
            pacer,
            pending,
            modes,
            acks,
            reserve,
            marks,
            memory_told,
            unasked,
            asked_at,
            paced_until,
            capped_until,
            control_at,
            reclaim_at,
            blame,
            anew_at,
            steered,
            delivery_rate,
            cwnd_validation,
            app_limited,
            traffic,
        ];
        all.into_iter().for_each(|part| part.fold(to));
    }

    /// Reads it back; it ends at `local`.
    fn unfold_at(local: End, from: &mut Words) -> Self {
        Self {
            local,
            remote: Fold::unfold(from),
            params: Fold::unfold(from),
            path: Fold::unfold(from),
            mtu: Fold::unfold(from),
            numbers: Fold::unfold(from),
            recovery: Fold::unfold(from),
            received: Fold::unfold(from),
            credit: Fold::unfold(from),
            grant: Fold::unfold(from),
            previous: Fold::unfold(from),
            congestion: Fold::unfold(from),
            pacer: Fold::unfold(from),
            pending: Fold::unfold(from),
            modes: Fold::unfold(from),
            acks: Fold::unfold(from),
            reserve: Fold::unfold(from),
            marks: Fold::unfold(from),
            memory_told: Fold::unfold(from),
            unasked: Fold::unfold(from),
            asked_at: Fold::unfold(from),
            paced_until: Fold::unfold(from),
            capped_until: Fold::unfold(from),
            control_at: Fold::unfold(from),
            reclaim_at: Fold::unfold(from),
            blame: Fold::unfold(from),
            anew_at: Fold::unfold(from),
            steered: Fold::unfold(from),
            delivery_rate: Fold::unfold(from),
            cwnd_validation: Fold::unfold(from),
            app_limited: Fold::unfold(from),
            traffic: Fold::unfold(from),
        }
    }
}
