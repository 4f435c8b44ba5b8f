//! The faults of the n-th packet: a pure function of the seed and n.
//!
//! Drawing by number instead of from a running generator keeps the decision when a full socket
//! makes the caller offer the same packet again, so that a run repeats exactly, with any timing.
//! The generator is SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
//! generators", OOPSLA 2014), started per packet.

use std::time::Duration;

use super::spec::FaultSpec;

/// Maximum number of later packets that a held-back one waits for.
pub(super) const MAX_OVERTAKING: u64 = 8;

/// The faults of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) lost: bool,
    pub(super) doubled: bool,
    /// A number from which the bit to flip is chosen.
    pub(super) flip: Option<u64>,
    /// How many later packets pass first.
    pub(super) overtaken_by: Option<u64>,
    pub(super) delay: Duration,
}

struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// True with probability `p`; never at 0 (or NaN), always at 1.
    fn chance(&mut self, p: f64) -> bool {
        const ONE: f64 = (1_u64 << 53) as f64;
        ((self.next() >> 11) as f64 / ONE) < p
    }
}

fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The fate of packet `number`. Every draw is made whether needed or not, so that changing one
/// probability leaves the other faults where they were.
pub(super) fn fate(spec: &FaultSpec, number: u64) -> Fate {
    let mut dice = SplitMix64(mix(spec.seed) ^ mix(!number));
    let lost = dice.chance(spec.loss);
    let doubled = dice.chance(spec.dup);
    let held = dice.chance(spec.reorder);
    let flipped = dice.chance(spec.corrupt);
    let overtaking = 1 + dice.next() % MAX_OVERTAKING;
    let bit = dice.next();
    let range = spec.delay_max.saturating_sub(spec.delay_min).as_nanos();
    let share = (u128::from(dice.next()) * (range + 1)) >> 64;
    let extra = Duration::from_nanos(u64::try_from(share).unwrap_or(u64::MAX));
    Fate {
        lost,
        doubled: doubled && !lost,
        flip: (flipped && !lost).then_some(bit),
        overtaken_by: (held && !lost).then_some(overtaking),
        delay: spec.delay_min.saturating_add(extra),
    }
}

/// Flips one bit; an empty packet has none.
pub(super) fn flip(bytes: &mut [u8], choice: u64) {
    let bits = bytes.len() as u64 * 8;
    if let Some(bit) = choice.checked_rem(bits)
        && let Some(byte) = usize::try_from(bit / 8)
            .ok()
            .and_then(|at| bytes.get_mut(at))
    {
        *byte ^= 1 << (bit % 8);
    }
}
