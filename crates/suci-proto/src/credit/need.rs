//! A peer's need of the budget: how much of its grant it uses, and its weight.
//!
//! A receiver cannot know how fast its peers would send. It sees how near to the limit their
//! packets come: a peer that gets near needs more, a peer that stays far away can do with less. No
//! time of the network is involved, so the rule fits a receiver that drains all the time and one
//! that polls every 50 ms.
//!
//! Over a long path the receiver sees less: when a packet comes, the limit that its sender knew was
//! raised long ago. So the sender reports that it reached its limit (BLOCKED).

use suci_link::link::DrainedKind;
use suci_link::time::{Duration, Instant};

/// A peer whose packets leave less than this part of its share unused needs more.
const NEAR: u64 = 4;

/// A peer whose packets always leave more than this part unused can do with half. It hears of new
/// credit once it has used a quarter, so half the share is still more than it uses.
const FAR: u64 = 2;

/// Time away from the limit after which a peer counts as satisfied: some polls of a slow receiver.
const WATCH: Duration = Duration::from_millis(200);

/// The share that a peer should have beside other peers that need more too. The peer may state it
/// (MODE).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Demand {
    /// A few packets suffice: requests and replies.
    Small,
    /// The demand of a peer that stated none.
    #[default]
    Normal,
    /// Bulk data: as much as there is.
    Large,
}

impl Demand {
    pub(super) const fn weight(self) -> u64 {
        match self {
            Self::Small => 1,
            Self::Normal => 4,
            Self::Large => 8,
        }
    }

    /// Returns the most packets that a peer with this demand gets, however many are free.
    pub(super) const fn most(self) -> u64 {
        match self {
            Self::Small => 16,
            Self::Normal | Self::Large => u64::MAX,
        }
    }

    pub(super) const fn is_bounded(self) -> bool {
        self.most() < u64::MAX
    }
}

/// The need of a sender as one drained packet shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Too little was seen to tell.
    Unclear,
    /// The sender comes near its limit.
    Much,
    /// Its share suffices.
    Enough,
    /// Half of its share suffices.
    Little,
}

/// How one peer uses its grant.
#[derive(Debug)]
pub(super) struct Need {
    pub(super) demand: Demand,
    /// The peer came near its limit lately, or reported that it reached it: the budget is divided
    /// among the unsatisfied peers.
    pub(super) unsatisfied: bool,
    /// Fewest numbers that any packet left unused since `since`.
    least_left: u64,
    since: Instant,
}

impl Need {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            demand: Demand::default(),
            unsatisfied: false,
            least_left: u64::MAX,
            since: now,
        }
    }

    /// Notes that a packet left `left` numbers of a share of `share` packets unused.
    pub(super) fn watch(&mut self, left: u64, share: u64, kind: DrainedKind, now: Instant) -> Use {
        if self.is_near(left, share) {
            self.begin(now);
            return match kind {
                DrainedKind::Data => Use::Much,
                // Keep-alives of an idle peer come near the limit of a small share.
                DrainedKind::Control | DrainedKind::Ack => Use::Unclear,
            };
        }
        self.least_left = self.least_left.min(left);
        if now < self.since + WATCH {
            return Use::Unclear;
        }
        let least = self.least_left;
        self.begin(now);
        if least.saturating_mul(FAR) > share {
            Use::Little
        } else {
            Use::Enough
        }
    }

    /// Returns true if a packet that left `left` numbers of `share` unused came near its limit.
    pub(super) const fn is_near(&self, left: u64, share: u64) -> bool {
        left.saturating_mul(NEAR) < share
    }

    /// Starts the observation anew.
    pub(super) fn begin(&mut self, now: Instant) {
        self.least_left = u64::MAX;
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn a_peer_near_its_limit_needs_more_at_once() {
        let mut need = Need::new(at(0));
        assert_eq!(need.watch(20, 80, DrainedKind::Data, at(1)), Use::Unclear);
        assert_eq!(need.watch(19, 80, DrainedKind::Data, at(2)), Use::Much);
        // A share of one packet is used up by it.
        assert_eq!(need.watch(0, 1, DrainedKind::Data, at(3)), Use::Much);
    }

    /// Of a share of two packets each keep-alive leaves one: with others of such shares, each would
    /// take credit from the next for ever.
    #[test]
    fn keep_alives_near_the_limit_of_a_small_share_show_no_need() {
        let mut need = Need::new(at(0));
        for second in 0..100 {
            let seen = need.watch(0, 2, DrainedKind::Control, at(1_000 * second));
            assert_eq!(seen, Use::Unclear);
        }
        let seen = need.watch(0, 2, DrainedKind::Data, at(100_000));
        assert_eq!(seen, Use::Much);
    }

    #[test]
    fn a_peer_far_below_its_limit_needs_less() {
        let mut need = Need::new(at(0));
        assert_eq!(need.watch(41, 80, DrainedKind::Data, at(199)), Use::Unclear);
        assert_eq!(need.watch(60, 80, DrainedKind::Data, at(200)), Use::Little);
        // One packet nearer to the limit is remembered until the time is over.
        assert_eq!(need.watch(40, 80, DrainedKind::Data, at(300)), Use::Unclear);
        assert_eq!(need.watch(70, 80, DrainedKind::Data, at(400)), Use::Enough);
        assert_eq!(need.watch(70, 80, DrainedKind::Data, at(600)), Use::Little);
    }
}
