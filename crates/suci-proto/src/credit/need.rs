//! What one peer needs of the budget: how much of its grant it uses, and what weight it was given.
//!
//! A receiver cannot know how fast its peers would send. It sees how near to the limit their
//! packets come: who gets near needs more, who stays far away can do with less. No clock of the
//! network is involved, so it holds for a receiver that drains all the time as for one that polls
//! every 50 ms.
//!
//! Over a long path it sees less: when a packet comes, the limit that its sender knew was raised
//! long ago. So the sender says when it was at its limit (BLOCKED).

use crate::time::{Duration, Instant};

/// A peer whose packets leave less than this part of its share unused needs more.
const NEAR: u64 = 4;

/// One whose packets always leave more than this part unused can do with half. With a quarter used
/// before it hears of new credit, half the share is still more than twice what it uses.
const FAR: u64 = 2;

/// How long a peer stays away from its limit before it counts as content: some polls of a slow
/// receiver.
const WATCH: Duration = Duration::from_millis(200);

/// How large a share a peer should have beside others that need more too. The other end may say so
/// (MODE).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Demand {
    /// A few packets suffice: requests and replies.
    Small,
    /// What a peer has that said nothing.
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

    /// The most packets that it is given, however many are free.
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

/// What a drained packet says about its sender's need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Not enough was seen.
    Unclear,
    /// It comes near its limit.
    Much,
    /// Its share suffices.
    Enough,
    /// Half of its share would.
    Little,
}

/// How one peer uses its grant.
#[derive(Debug)]
pub(super) struct Need {
    pub(super) demand: Demand,
    /// It came near its limit lately, or said that it was there: it counts among those that the
    /// budget is divided by.
    pub(super) hungry: bool,
    /// Fewest numbers that any packet left unused since `since`.
    least_left: u64,
    since: Instant,
}

impl Need {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            demand: Demand::default(),
            hungry: false,
            least_left: u64::MAX,
            since: now,
        }
    }

    /// A packet left `left` numbers of a share of `share` packets unused.
    pub(super) fn watch(&mut self, left: u64, share: u64, now: Instant) -> Use {
        if self.is_near(left, share) {
            self.begin(now);
            return Use::Much;
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

    /// Whether a packet that left so many numbers of a share unused came near its limit.
    pub(super) const fn is_near(&self, left: u64, share: u64) -> bool {
        left.saturating_mul(NEAR) < share
    }

    /// Watches from the beginning.
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
    fn who_comes_near_its_limit_needs_more_at_once() {
        let mut need = Need::new(at(0));
        assert_eq!(need.watch(20, 80, at(1)), Use::Unclear);
        assert_eq!(need.watch(19, 80, at(2)), Use::Much);
        // A share of one packet is used up by it.
        assert_eq!(need.watch(0, 1, at(3)), Use::Much);
    }

    #[test]
    fn who_stays_away_from_it_can_do_with_less() {
        let mut need = Need::new(at(0));
        assert_eq!(need.watch(41, 80, at(199)), Use::Unclear);
        assert_eq!(need.watch(60, 80, at(200)), Use::Little);
        // One packet nearer to the limit is remembered until the time is over.
        assert_eq!(need.watch(40, 80, at(300)), Use::Unclear);
        assert_eq!(need.watch(70, 80, at(400)), Use::Enough);
        assert_eq!(need.watch(70, 80, at(600)), Use::Little);
    }
}
