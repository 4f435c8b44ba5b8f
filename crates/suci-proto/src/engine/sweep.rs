//! Sweeps over all peers while credit, slots or memory are short: some peers give back, waiting
//! peers are served.

use super::Engine;
use crate::event::EndReason;
use crate::peer::Peer;
use suci_link::limits::DATA_CHARGE;
use suci_link::planted;
use suci_link::time::{Duration, Instant, earlier};

/// Time between two sweeps over all peers while some wait for socket credit.
const SWEEP: Duration = Duration::from_millis(100);

/// Time between two sweeps while a node waits for a slot: about the time of an acknowledged
/// exchange on a local network. With many peers [`SWEEP_EACH`] for each of them, so that sweeps
/// take a small part of the time.
const SWEEP_FOR_SLOTS: Duration = Duration::from_millis(4);
const SWEEP_EACH: Duration = Duration::from_micros(2);

/// Silence after which a peer is asked for a sign of life when another node finds no room.
const SILENT: Duration = Duration::from_secs(10);

/// Shortest time between two such rounds: peers that answered may be idle meanwhile.
const ASKING: Duration = Duration::from_secs(60);

impl Engine {
    /// Returns true if credit or slots are short.
    fn is_sweep_needed(&self) -> bool {
        self.shared.shares.is_short() || self.is_slot_wanted()
    }

    /// Returns true if a node waits for a slot.
    fn is_slot_wanted(&self) -> bool {
        let callers = self.known_callers.len() + self.strange_callers.len();
        callers > 0 || !self.shared.admission_queue.is_empty()
    }

    /// Returns the earliest time of the next sweep. Sweeps keep this distance however often a
    /// shortage begins and ends: a peer can begin and end one in each round trip.
    fn sweep_at(&self) -> Instant {
        let pause = if self.is_slot_wanted() {
            let each = SWEEP_EACH.saturating_mul(self.peers.len() as u32);
            SWEEP_FOR_SLOTS.max(each).min(SWEEP)
        } else {
            SWEEP
        };
        self.swept_at + pause
    }

    /// Returns the time of the next sweep; in the past if it is due at once.
    pub(super) fn next_sweep(&self) -> Option<Instant> {
        // Packets make credit short at any time, so the sweep may have been due before.
        let at = self.sweep_at().max(self.last_run);
        let sweep = self.is_sweep_needed().then_some(at);
        let wanted = self.shared.memory.is_wanted();
        earlier(sweep, wanted.then_some(self.ask_at))
    }

    /// Asks idle peers to return credit, and serves the waiting peers, while something is short.
    pub(super) fn sweep(&mut self, now: Instant) {
        if now >= self.ask_at && self.shared.memory.take_wanted() {
            self.ask_at = now + ASKING;
            self.ask_silent_peers(now, false);
        }
        let queue = self.shared.admission_queue.len(now);
        if self.sweep_at() > now || !self.is_sweep_needed() {
            return;
        }
        self.swept_at = now;
        self.forget_callers(now);
        let waiting = self.strange_callers.len() as u64;
        let limit = self.shared.shares.peer_limit();
        let strangers = self.pending_inits.free_for_strangers(now, waiting, limit);
        // A free slot may be kept for a node whose INIT does not come.
        let crowd = match self.known_callers.len() {
            0 => queue,
            callers => queue.max(callers + self.pending_inits.known(now) as usize),
        };
        self.free_slots(now, crowd, strangers as usize);
        self.answer_waiting(now);
        self.hasten_inits(now);
        let mut touched = Vec::new();
        for (key, peer) in self.peers.iter_active_mut() {
            if peer.balance_credit(now, &mut self.shared.shares) {
                touched.push(key);
            }
        }
        touched.into_iter().for_each(|key| self.touch(key));
        self.serve_waiting(now);
    }

    /// Dismisses one peer for each of the `crowd` nodes that need a slot, but only peers that
    /// were idle or had their slot for long enough. `crowd` counts all waiting strangers as one.
    /// The other strangers need `strangers` free slots. They only get those of idle strangers, so
    /// that an attacker with many names takes no slot of a known node.
    fn free_slots(&mut self, now: Instant, crowd: usize, strangers: usize) {
        if planted("slots-never-freed") {
            return;
        }
        let shares = &self.shared.shares;
        let free = usize::try_from(shares.free_slots()).unwrap_or(usize::MAX);
        let mut going = 0;
        let mut others = Vec::new();
        let wanted = crowd.max(strangers).saturating_sub(free);
        if wanted == 0 || self.drop_lingering(wanted) {
            return;
        }
        let shares = &self.shared.shares;
        let free = usize::try_from(shares.free_slots()).unwrap_or(usize::MAX);
        for (key, peer) in self.peers.iter_active() {
            if let Some(connection) = &peer.connection {
                let grant = &connection.grant;
                going += usize::from(grant.is_going());
                let rank = shares.may_dismiss(grant, peer.tenure(connection), now);
                others.extend(rank.map(|rank| (rank, key, peer.stranger_from.is_some())));
            }
        }
        for (key, peer) in self.peers.iter_idle() {
            if let Some(connection) = &peer.connection {
                let rank = (false, connection.grant.idle_since());
                others.push((rank, key, peer.stranger_from.is_some()));
            }
        }
        others.sort_unstable();
        let mut any = crowd.saturating_sub(free + going);
        let mut strange = strangers.saturating_sub(free + going + any);
        for ((busy, _), key, stranger) in others {
            if any > 0 {
                any -= 1;
            } else if stranger && !busy && strange > 0 {
                strange -= 1;
            } else {
                continue;
            }
            self.update(key, |peer, shared| {
                if let Some(connection) = &mut peer.connection {
                    shared.shares.dismiss(&mut connection.grant);
                }
            });
        }
    }

    /// Takes the slots of up to `wanted` peers whose sessions are over, and which are kept only to
    /// acknowledge repetitions of CLOSE: UNKNOWN answers these, too. Returns true if there were
    /// enough.
    fn drop_lingering(&mut self, wanted: usize) -> bool {
        let active = self.peers.iter_active();
        let lingering = active.filter(|(_, peer)| peer.lingering.is_some());
        let keys: Vec<_> = lingering.map(|(key, _)| key).take(wanted).collect();
        let enough = keys.len() == wanted;
        for key in keys {
            self.update(key, |peer, shared| peer.drop_connection(shared));
        }
        enough
    }

    /// Lets the first nodes in the queue for slots that this node calls itself have theirs.
    fn hasten_inits(&mut self, now: Instant) {
        let shares = &self.shared.shares;
        if shares.free() < DATA_CHARGE {
            return;
        }
        for key in self.shared.admission_queue.first(shares.free_slots()) {
            self.update(key, |peer, _| peer.hasten_init(now));
        }
    }

    /// Asks silent strangers for a sign of life, since a node found no room in the table. Only
    /// strangers leave the table, and the caller proved nothing yet, so nodes of the book are not
    /// disturbed.
    pub(super) fn ask_silent_strangers(&mut self, now: Instant) {
        if now >= self.ask_strangers_at {
            self.ask_strangers_at = now + ASKING;
            self.ask_silent_peers(now, true);
        }
    }

    /// Asks peers that were not heard for long for a sign of life, since a node found no room. A
    /// peer that died silently would keep its memory for ever. A peer without a connection would
    /// need a contended slot to answer: it is not asked, and its session ends after the usual
    /// silence.
    fn ask_silent_peers(&mut self, now: Instant, only_strangers: bool) {
        let resumed = self.resumed_at;
        let meant = |stranger| stranger || !only_strangers;
        let peers = self.peers.iter_others();
        let meant = peers.filter(|(_, peer)| meant(peer.stranger_from.is_some()));
        let (asked, others): (Vec<_>, Vec<_>) = meant.partition(|(_, peer)| peer.has_connection());
        let silent = |peer: &Peer| now >= peer.life.last_heard() + SILENT;
        let asked = asked.into_iter().filter(|(_, peer)| silent(peer));
        let gone = others
            .into_iter()
            .filter(|(_, peer)| peer.is_long_silent(now, resumed));
        let asked: Vec<_> = asked.map(|(key, _)| key).collect();
        let gone: Vec<_> = gone.map(|(key, _)| key).collect();
        for key in gone {
            self.update(key, |peer, shared| peer.end(now, EndReason::Silent, shared));
        }
        for key in asked {
            self.update(key, |peer, _| peer.ask_for_sign_of_life());
        }
    }

    /// Gives credit to the waiting peers, in order, as far as it reaches.
    pub(super) fn serve_waiting(&mut self, now: Instant) {
        while let Some(key) = self.shared.shares.next_to_serve() {
            let served = self.update(key, |peer, shared| peer.serve(now, &mut shared.shares));
            // A peer that is still first took nothing: serving it again would not end.
            if !served || self.shared.shares.next_to_serve() == Some(key) {
                break;
            }
        }
    }
}
