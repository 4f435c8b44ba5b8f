//! Tries something less often while it does not pay.

/// The results of the last tries. One success makes up for one failure: among many it may be
/// chance.
#[derive(Debug)]
pub(crate) struct Backoff {
    /// After one failure the next two chances are skipped, after two the next four, and so on up to
    /// two to this power.
    most: u32,
    /// Failures minus successes, at least zero.
    misses: u32,
    /// Chances to skip before the next try.
    rests: u32,
}

impl Backoff {
    /// Begins without any results. If every try fails, one chance in two to the power of `most` is
    /// taken.
    pub(crate) const fn new(most: u32) -> Self {
        let (misses, rests) = (0, 0);
        Self {
            most,
            misses,
            rests,
        }
    }

    /// Returns whether to take the chance that is there now.
    pub(crate) fn take(&mut self) -> bool {
        let rest = self.rests > 0;
        self.rests = self.rests.saturating_sub(1);
        !rest
    }

    /// Takes note of whether a chance that was taken was `worth` it.
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
    fn failing_tries_become_rarer() {
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
