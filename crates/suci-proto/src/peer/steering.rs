//! The program's steering function of a peer: when it is called, and its observations.

use super::Peer;
use crate::steer::{Decision, MIN_AGAIN, Observation, PAUSED_AGAIN, Steer};
use core::fmt;
use suci_link::time::Instant;

/// An installed steering function. It survives connections and sessions.
pub(crate) struct Steering {
    steer: Box<dyn Steer>,
    decision: Decision,
    /// The time at which it is asked, even if nothing is acknowledged before.
    due: Option<Instant>,
}

impl fmt::Debug for Steering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steering")
            .field("decision", &self.decision)
            .field("due", &self.due)
            .finish_non_exhaustive()
    }
}

impl Peer {
    /// Installs the program's steering function and asks it at once; `None` removes the one
    /// installed.
    pub(crate) fn set_steer(&mut self, now: Instant, steer: Option<Box<dyn Steer>>) {
        self.steering = steer.map(|steer| {
            Box::new(Steering {
                steer,
                decision: Decision::default(),
                due: None,
            })
        });
        self.consult(now);
        self.apply_decision();
    }

    /// Returns the last decision of the program's steering function.
    fn decision(&self) -> Decision {
        self.steering
            .as_ref()
            .map_or_else(Decision::default, |s| s.decision)
    }

    /// Returns true if the program's steering function pauses messages, also on an INIT.
    pub(super) fn is_paused(&self) -> bool {
        self.decision().window == Some(0)
    }

    /// Applies the last decision to the connection.
    pub(super) fn apply_decision(&mut self) {
        let decision = self.decision();
        if let Some(connection) = &mut self.connection {
            connection.link.steered = self.steering.as_ref().map(|_| Box::new(decision));
            connection
                .link
                .received
                .set_ack_bound(decision.ack_interval);
        }
    }

    /// Asks the program's steering function, if there is one.
    pub(super) fn consult(&mut self, now: Instant) {
        let Some(mut steering) = self.steering.take() else {
            return;
        };
        let decision = steering.steer.steer(&self.observe(now));
        steering.decision = decision;
        steering.due = decision.again.map(|again| now + again.max(MIN_AGAIN));
        if decision.window == Some(0) {
            let latest = now + PAUSED_AGAIN;
            steering.due = Some(steering.due.map_or(latest, |due| due.min(latest)));
        }
        self.steering = Some(steering);
        self.apply_decision();
    }

    /// Returns when the program's steering function is asked without an acknowledgement; `None`
    /// while no messages wait.
    pub(super) fn steering_deadline(&self) -> Option<Instant> {
        self.steering
            .as_ref()?
            .due
            .filter(|_| !self.session.outbox.is_empty())
    }

    /// Sends everything unacknowledged again, including data in flight.
    pub(crate) fn retransmit(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.link.pinged_at = None;
            connection.link.drop_all(&mut self.session);
        }
        self.session.outbox.on_all_lost();
    }

    fn observe(&self, now: Instant) -> Observation {
        let stats = self.stats(now);
        let connection = self.connection.as_ref();
        Observation {
            now,
            rtt: stats.rtt,
            min_rtt: stats.min_rtt,
            delivery_rate: connection.map_or(0, |c| c.link.delivery_rate),
            marks: connection.map_or(0, |c| c.link.ecn.congested()),
            losses: stats.traffic.packets_lost,
            window: stats.congestion_window,
            in_flight: stats.in_flight,
            socket_credit: stats.socket_credit,
            packet: stats.mtu,
            queued_messages: stats.queued_messages,
            queued_bytes: stats.queued_bytes,
        }
    }
}
