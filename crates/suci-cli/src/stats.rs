//! Order statistics of a few samples.

/// Samples in ascending order; never empty.
#[derive(Clone, Debug)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    /// Returns the samples in order, or `None` if there are none.
    pub(crate) fn new(mut samples: Vec<f64>) -> Option<Self> {
        samples.sort_unstable_by(f64::total_cmp);
        (!samples.is_empty()).then_some(Self(samples))
    }

    /// Returns the smallest sample that at least the share `q` (0 to 1) of all does not exceed.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank: q is 0 to 1, and nobody takes 2^52 samples"
    )]
    pub(crate) fn quantile(&self, q: f64) -> f64 {
        let rank = (q.clamp(0.0, 1.0) * self.0.len() as f64).ceil() as usize;
        let at = rank.saturating_sub(1).min(self.0.len().saturating_sub(1));
        self.0.get(at).copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    pub(crate) fn min(&self) -> f64 {
        self.quantile(0.0)
    }

    pub(crate) fn max(&self) -> f64 {
        self.quantile(1.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples() {
        let samples = Samples::new((1..=100).rev().map(f64::from).collect()).unwrap();
        assert_eq!(samples.min(), 1.0);
        assert_eq!(samples.median(), 50.0);
        assert_eq!(samples.quantile(0.99), 99.0);
        assert_eq!(samples.max(), 100.0);
    }

    #[test]
    fn one_sample_is_minimum_median_and_maximum() {
        let one = Samples::new(vec![3.5]).unwrap();
        assert_eq!([one.min(), one.median(), one.max()], [3.5; 3]);
        assert!(Samples::new(Vec::new()).is_none());
    }
}
