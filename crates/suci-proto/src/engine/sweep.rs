//! While credit, places or memory are short: who has some gives back, who waits is served.

use super::Engine;
use super::peers::Resting;
use crate::event::EndReason;
use crate::time::{Duration, Instant, earlier};

/// While peers wait for socket credit, how often the others are asked to return what they do not use.
const SWEEP: Duration = Duration::from_millis(100);

/// When somebody finds no room, whoever was not heard for so long is asked for a sign of life...
const SILENT: Duration = Duration::from_secs(10);

/// ... and so often at most: those that answer may rest meanwhile.
const ASKING: Duration = Duration::from_secs(60);

impl Engine {
    /// Whether credit or places are short.
    fn is_sweep_needed(&self) -> bool {
        self.shared.shares.is_short() || !self.shared.line.is_empty()
    }

    /// When all peers are looked at next; in the past if at once. Whatever makes credit short and ends that again, as a
    /// peer can each round trip, the looks keep their distance.
    pub(super) fn next_sweep(&self) -> Option<Instant> {
        // Packets alone make credit short, too, so it may have been due before.
        let at = self.sweep_at.max(self.last_run);
        let sweep = self.is_sweep_needed().then_some(at);
        let wanted = self.shared.memory.is_wanted();
        earlier(sweep, wanted.then_some(self.ask_at))
    }

    /// While something is short: asks idle peers to return theirs, serves those that wait.
    pub(super) fn sweep(&mut self, now: Instant) {
        if now >= self.ask_at && self.shared.memory.take_up_want() {
            self.ask_at = now + ASKING;
            self.ask_the_silent(now, false);
        }
        let crowd = self.shared.line.len(now);
        if self.sweep_at > now || !self.is_sweep_needed() {
            return;
        }
        self.sweep_at = now + SWEEP;
        self.make_places(now, crowd);
        self.wake_the_generous();
        let mut touched = Vec::new();
        for (key, peer) in self.peers.iter_awake_mut() {
            if peer.balance_credit(now, &mut self.shared) {
                touched.push(key);
            }
        }
        touched.into_iter().for_each(|key| self.touch(key));
        self.serve_waiting(now);
    }

    /// Others miss what some that rest may send beyond their limits: these are to be told that it is less.
    fn wake_the_generous(&mut self) {
        let shares = &self.shared.shares;
        let excessive = |resting: &Resting| {
            resting.has_connection() && shares.is_reserve_excessive(resting.summary().control)
        };
        let resting = self.peers.iter_resting().filter(|(_, r)| excessive(r));
        for key in resting.map(|(key, _)| key).collect::<Vec<_>>() {
            self.peers.get_mut(key);
        }
    }

    /// While `crowd` nodes wait for a place, as many others lose theirs, as soon as they were idle or had a turn.
    fn make_places(&mut self, now: Instant, crowd: usize) {
        #[cfg(suci_plant)]
        if crate::plant::active("places-never-freed") {
            return;
        }
        let shares = &self.shared.shares;
        let free = usize::try_from(shares.places()).unwrap_or(usize::MAX);
        let mut going = 0;
        let mut others = Vec::new();
        if crowd <= free {
            return;
        }
        for (key, peer) in self.peers.iter_awake() {
            if let Some(connection) = &peer.connection {
                let grant = &connection.grant;
                going += usize::from(grant.is_dismissed());
                others.extend(shares.may_dismiss(grant, now).map(|rank| (rank, key)));
            }
        }
        for (key, resting) in self.peers.iter_resting() {
            if resting.has_connection() {
                others.push(((false, resting.summary().idle_since), key));
            }
        }
        others.sort_unstable();
        for (_, key) in others.into_iter().take(crowd.saturating_sub(free + going)) {
            if let Some(connection) = self.peers.get_mut(key).and_then(|p| p.connection.as_mut()) {
                self.shared.shares.dismiss(&mut connection.grant);
                self.touch(key);
            }
        }
    }

    /// Somebody found no room in the table. Only strangers leave it, and who comes proved nothing yet: the others are not
    /// disturbed.
    pub(super) fn ask_silent_strangers(&mut self, now: Instant) {
        if now >= self.ask_strangers_at {
            self.ask_strangers_at = now + ASKING;
            self.ask_the_silent(now, true);
        }
    }

    /// Somebody found no room: peers that were not heard for long, although nothing waits for them, are asked for a sign
    /// of life. Those that died without a word would keep what they were promised for ever. Whom to ask takes a place that
    /// others want is not asked: its session ends when that of one that was would.
    fn ask_the_silent(&mut self, now: Instant, only_strangers: bool) {
        let resumed = self.resumed_at;
        let meant = |stranger| stranger || !only_strangers;
        let gone = self.peers.iter_unconnected(only_strangers);
        let gone = gone.filter(|(_, peer)| peer.is_long_silent(now, resumed));
        for key in gone.map(|(key, _)| key).collect::<Vec<_>>() {
            if let Some(peer) = self.peers.get_mut(key) {
                peer.end(now, EndReason::Silent, &mut self.shared);
            }
            self.touch(key);
        }
        let mut asked = Vec::new();
        let resting = self
            .peers
            .iter_resting()
            .filter(|(_, r)| r.has_connection() && meant(r.summary().stranger));
        for key in resting.map(|(key, _)| key).collect::<Vec<_>>() {
            self.peers.get_mut(key);
        }
        for (key, peer) in self.peers.iter_awake_mut() {
            let silent = now >= peer.life.heard_at() + SILENT;
            if silent && peer.has_connection() && meant(peer.stranger_from.is_some()) {
                peer.challenge_claim();
                asked.push(key);
            }
        }
        asked.into_iter().for_each(|key| self.touch(key));
    }

    /// Gives credit to those who wait for some, in their order, as far as it reaches.
    pub(super) fn serve_waiting(&mut self, now: Instant) {
        while let Some(key) = self.shared.shares.next_to_serve() {
            let served = self
                .peers
                .get_mut(key)
                .is_some_and(|p| p.serve(now, &mut self.shared));
            self.touch(key);
            // Who is still first took nothing: asking again would not end.
            if !served || self.shared.shares.next_to_serve() == Some(key) {
                break;
            }
        }
    }
}
