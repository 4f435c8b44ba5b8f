//! While credit, places or memory are short: who has some gives back, who waits is served.

use super::Engine;
use crate::event::EndReason;
use crate::peer::Peer;
use crate::time::{Duration, Instant, earlier};

/// How often all peers are looked at while some wait for socket credit.
const SWEEP: Duration = Duration::from_millis(100);

/// How often while somebody waits for a place: about the time in which an exchange on a local
/// network is over and acknowledged. With many peers [`SWEEP_EACH`] for each of them, so that
/// the looks take a small part of the time.
const SWEEP_FOR_PLACES: Duration = Duration::from_millis(4);
const SWEEP_EACH: Duration = Duration::from_micros(2);

/// When somebody finds no room, whoever was not heard for so long is asked for a sign of life...
const SILENT: Duration = Duration::from_secs(10);

/// ... and so often at most: those that answer may be idle meanwhile.
const ASKING: Duration = Duration::from_secs(60);

impl Engine {
    /// Whether credit or places are short.
    fn is_sweep_needed(&self) -> bool {
        self.shared.shares.is_short() || self.is_place_wanted()
    }

    /// Whether somebody waits for a place.
    fn is_place_wanted(&self) -> bool {
        let callers = self.known_callers.len() + self.strange_callers.len();
        callers > 0 || !self.shared.line.is_empty()
    }

    /// When all peers may be looked at next. Whatever makes credit or places short and ends that
    /// again, as a peer can each round trip, the looks keep their distance.
    fn sweep_at(&self) -> Instant {
        let pause = if self.is_place_wanted() {
            let each = SWEEP_EACH.saturating_mul(self.peers.len() as u32);
            SWEEP_FOR_PLACES.max(each).min(SWEEP)
        } else {
            SWEEP
        };
        self.swept_at + pause
    }

    /// When all peers are looked at next; in the past if at once.
    pub(super) fn next_sweep(&self) -> Option<Instant> {
        // Packets alone make credit short, too, so it may have been due before.
        let at = self.sweep_at().max(self.last_run);
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
        if self.sweep_at() > now || !self.is_sweep_needed() {
            return;
        }
        self.swept_at = now;
        // No more strangers get a place than may be answered.
        let most = self.shared.shares.peer_limit();
        let strangers = self.pending_inits.strangers_to_come(now, most) as usize;
        self.make_places(now, crowd, strangers.min(self.strange_callers.len()));
        self.answer_waiting(now);
        let mut touched = Vec::new();
        for (key, peer) in self.peers.iter_active_mut() {
            if peer.balance_credit(now, &mut self.shared) {
                touched.push(key);
            }
        }
        touched.into_iter().for_each(|key| self.touch(key));
        self.serve_waiting(now);
    }

    /// While `crowd` nodes wait for a place, all strangers as one, as many others lose theirs, as
    /// soon as they were idle or had a turn. Other strangers that wait get those of idle strangers:
    /// however many somebody claims to be, nobody else loses a place for that.
    fn make_places(&mut self, now: Instant, crowd: usize, strangers: usize) {
        #[cfg(suci_plant)]
        if crate::plant::active("places-never-freed") {
            return;
        }
        let shares = &self.shared.shares;
        let free = usize::try_from(shares.places()).unwrap_or(usize::MAX);
        let mut going = 0;
        let mut others = Vec::new();
        if crowd.max(strangers) <= free {
            return;
        }
        for (key, peer) in self.peers.iter_active() {
            if let Some(connection) = &peer.connection {
                let grant = &connection.grant;
                going += usize::from(grant.is_going());
                let idle = peer.counts_as_idle_after();
                let rank = shares.may_dismiss(grant, idle, now);
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
            let Some(peer) = self.peers.get_mut(key) else {
                continue;
            };
            if let Some(connection) = &mut peer.connection {
                self.shared.shares.dismiss(&mut connection.grant);
            }
            self.touch(key);
        }
    }

    /// Somebody found no room in the table. Only strangers leave it, and who comes proved nothing
    /// yet: the others are not disturbed.
    pub(super) fn ask_silent_strangers(&mut self, now: Instant) {
        if now >= self.ask_strangers_at {
            self.ask_strangers_at = now + ASKING;
            self.ask_the_silent(now, true);
        }
    }

    /// Somebody found no room: peers that were not heard for long, although nothing waits for them,
    /// are asked for a sign of life. Those that died without a word would keep what they were
    /// promised for ever. Whom to ask takes a place that others want is not asked: its session ends
    /// when that of one that was would.
    fn ask_the_silent(&mut self, now: Instant, only_strangers: bool) {
        let resumed = self.resumed_at;
        let meant = |stranger| stranger || !only_strangers;
        let peers = self.peers.iter();
        let meant = peers.filter(|(_, peer)| meant(peer.stranger_from.is_some()));
        let (asked, others): (Vec<_>, Vec<_>) = meant.partition(|(_, peer)| peer.has_connection());
        let silent = |peer: &Peer| now >= peer.life.heard_at() + SILENT;
        let asked = asked.into_iter().filter(|(_, peer)| silent(peer));
        let gone = others
            .into_iter()
            .filter(|(_, peer)| peer.is_long_silent(now, resumed));
        let asked: Vec<_> = asked.map(|(key, _)| key).collect();
        let gone: Vec<_> = gone.map(|(key, _)| key).collect();
        for key in gone {
            if let Some(peer) = self.peers.get_mut(key) {
                peer.end(now, EndReason::Silent, &mut self.shared);
            }
            self.touch(key);
        }
        for key in asked {
            if let Some(peer) = self.peers.get_mut(key) {
                peer.challenge_claim();
            }
            self.touch(key);
        }
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
