//! The simulator's own generator: every choice of a run comes from its seed.
//!
//! xoshiro256++ (Blackman and Vigna, 2019) seeded through SplitMix64, as its authors advise. It is
//! written out because a run must replay from its seed years later, with any version of a library.

use suci_proto::time::{Duration, nanos};

/// One million: chances are given in parts per million, so that no float decides anything.
pub const MILLION: u32 = 1_000_000;

/// A stream of pseudo-random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

/// Spreads one word over all 64 bits (SplitMix64's finaliser).
#[must_use]
pub const fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// Returns the stream named by `seed` and `stream`: parts of a run draw from streams of their
    /// own, so that one more draw in the network does not change the workload.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        let base = mix(seed) ^ mix(stream.wrapping_mul(0xa076_1d64_78bd_642f));
        let word = |n: u64| mix(base.wrapping_add(n));
        Self {
            state: [word(1), word(2), word(3), word(4)],
        }
    }

    /// Returns the next 64 bits.
    pub fn word(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let t = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= t;
        *d = d.rotate_left(45);
        result
    }

    /// Returns a number in `low..high`; `low` when the range is empty.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        let span = high.saturating_sub(low);
        if span == 0 {
            return low;
        }
        // Multiply-shift (Lemire 2019); the bias over 64 bits is of no consequence here.
        let scaled = (u128::from(self.word()) * u128::from(span)) >> 64;
        low + u64::try_from(scaled).unwrap_or(0)
    }

    /// Returns a number in `low..high` as an index.
    pub fn index(&mut self, low: usize, high: usize) -> usize {
        usize::try_from(self.range(low as u64, high as u64)).unwrap_or(low)
    }

    /// Draws like [`Rng::range`], each power of two being as likely as the next.
    pub fn scale(&mut self, low: u64, high: u64) -> u64 {
        let low = low.max(1);
        if high <= low {
            return low;
        }
        let octaves = u64::from((high / low).ilog2()) + 1;
        let floor = low << self.range(0, octaves);
        self.range(floor, (floor * 2).min(high).max(floor + 1))
            .min(high)
    }

    /// Returns true if something of `ppm` parts per million happens.
    pub fn chance(&mut self, ppm: u32) -> bool {
        ppm != 0 && self.range(0, u64::from(MILLION)) < u64::from(ppm)
    }

    /// Returns a duration in `low..high`, each order of magnitude being as likely as the next.
    pub fn duration(&mut self, low: Duration, high: Duration) -> Duration {
        Duration::from_nanos(self.scale(nanos(low), nanos(high)))
    }

    /// Returns one of `choices`; they must not be empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(0, choices.len())]
    }
}
