//! What is worth trying as long as it was worth it of late.

/// What became of the last tries. A success makes up for one in vain: among many it may be chance.
#[derive(Debug)]
pub(crate) struct Backoff {
    /// After one try in vain the next two chances are let pass; after two the next four, and so on
    /// up to two to this power.
    most: u32,
    /// In vain, less those that were not.
    misses: u32,
    /// Chances to let pass before the next try.
    rests: u32,
}

impl Backoff {
    /// Where nothing is known yet. If all are in vain, one chance in two to the power of `most` is
    /// taken.
    pub(crate) const fn new(most: u32) -> Self {
        let (misses, rests) = (0, 0);
        Self {
            most,
            misses,
            rests,
        }
    }

    /// Here is a chance: whether to take it.
    pub(crate) fn take(&mut self) -> bool {
        let rest = self.rests > 0;
        self.rests = self.rests.saturating_sub(1);
        !rest
    }

    /// It was taken: whether that was worth it.
    pub(crate) fn learn(&mut self, worth: bool) {
        if worth {
            self.misses = self.misses.saturating_sub(1);
        } else {
            self.misses = (self.misses + 1).min(self.most);
            self.rests = 1 << self.misses;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_vain_is_tried_less_and_less() {
        let mut backoff = Backoff::new(6);
        let mut count = |worth, chances| {
            let taken = (0..chances).filter(|_| {
                let take = backoff.take();
                if take {
                    backoff.learn(worth);
                }
                take
            });
            taken.count()
        };
        assert_eq!(count(true, 100), 100);
        let vain = count(false, 1_000);
        assert!((10..30).contains(&vain), "{vain} of 1000");
        let again = count(true, 1_000);
        assert!(again > 900, "{again} of 1000 once the first rest is over");
    }
}
