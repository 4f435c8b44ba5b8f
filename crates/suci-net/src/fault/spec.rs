//! The faults to inject, and their notation on a command line.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Longest delay that may be asked for.
pub const MAX_DELAY: Duration = Duration::from_secs(60);

/// Faults to inject into sent packets, each decided per packet.
///
/// Written as `loss=0.05,dup=0.05,reorder=0.1,corrupt=0.001,delay=1ms..5ms,seed=7`, every part
/// optional; times in `ns`, `us`, `ms` or `s`. Probabilities outside 0..=1 cannot be parsed; set
/// directly they count as 0 or 1.
///
/// ```
/// use suci_net::fault::FaultSpec;
///
/// let spec: FaultSpec = "loss=0.05,delay=5ms".parse()?;
/// assert_eq!(spec.loss, 0.05);
/// let wrong = "loss=5".parse::<FaultSpec>().expect_err("not a probability");
/// assert_eq!(wrong.to_string(), "fault `loss=5`: expected a probability from 0 to 1");
/// # Ok::<(), suci_net::fault::FaultSpecError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FaultSpec {
    /// Probability that a packet vanishes.
    pub loss: f64,
    /// Probability that a second, sound copy follows a packet.
    pub dup: f64,
    /// Probability that a packet is held back until up to eight later ones have passed it.
    pub reorder: f64,
    /// Probability that one bit of a packet is flipped.
    pub corrupt: f64,
    /// Shortest time that every packet is delayed.
    pub delay_min: Duration,
    /// Longest time; each packet draws its own between the two. Equal: a constant delay.
    pub delay_max: Duration,
    /// Decides everything: the n-th packet sent meets the same fate under the same seed.
    pub seed: u64,
}

/// Why a fault specification was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultSpecError {
    /// A part that is not `key=value`.
    #[error("fault `{part}`: expected key=value")]
    NoValue {
        /// The part as written.
        part: String,
    },
    /// A key that does not exist.
    #[error("fault `{key}` is unknown: expected loss, dup, reorder, corrupt, delay or seed")]
    UnknownKey {
        /// The key as written.
        key: String,
    },
    /// A key given twice.
    #[error("fault `{key}` is given twice")]
    Repeated {
        /// The key as written.
        key: String,
    },
    /// Not a number, or not a probability.
    #[error("fault `{key}={value}`: expected a probability from 0 to 1")]
    Probability {
        /// The key.
        key: String,
        /// The value as written.
        value: String,
    },
    /// Not a time or range of times, or too long.
    #[error(
        "fault `delay={value}`: expected a time such as 5ms or a range such as 1ms..5ms, \
         in ns, us, ms or s, from 0 to {} s",
        MAX_DELAY.as_secs()
    )]
    Delay {
        /// The value as written.
        value: String,
    },
    /// Not an unsigned number of 64 bits.
    #[error("fault `seed={value}`: expected a whole number from 0 to {}", u64::MAX)]
    Seed {
        /// The value as written.
        value: String,
    },
}

impl FaultSpec {
    /// Whether nothing at all would be injected.
    #[must_use]
    pub fn is_none(&self) -> bool {
        let some = |p: f64| p > 0.0;
        !(some(self.loss) || some(self.dup) || some(self.reorder) || some(self.corrupt))
            && self.delay_max.is_zero()
    }
}

impl FromStr for FaultSpec {
    type Err = FaultSpecError;

    fn from_str(text: &str) -> Result<Self, FaultSpecError> {
        let mut spec = Self::default();
        let mut seen: Vec<&str> = Vec::new();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let Some((key, value)) = part.split_once('=') else {
                return Err(FaultSpecError::NoValue { part: part.into() });
            };
            let (key, value) = (key.trim(), value.trim());
            match key {
                "loss" => spec.loss = probability(key, value)?,
                "dup" => spec.dup = probability(key, value)?,
                "reorder" => spec.reorder = probability(key, value)?,
                "corrupt" => spec.corrupt = probability(key, value)?,
                "delay" => (spec.delay_min, spec.delay_max) = delay(value)?,
                "seed" => {
                    let wrong = |_| FaultSpecError::Seed {
                        value: value.into(),
                    };
                    spec.seed = value.parse().map_err(wrong)?;
                }
                _ => return Err(FaultSpecError::UnknownKey { key: key.into() }),
            }
            if seen.contains(&key) {
                return Err(FaultSpecError::Repeated { key: key.into() });
            }
            seen.push(key);
        }
        Ok(spec)
    }
}

impl fmt::Display for FaultSpec {
    /// The form that parses back to the same value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            loss,
            dup,
            reorder,
            corrupt,
            delay_min,
            delay_max,
            seed,
        } = self;
        write!(
            f,
            "loss={loss},dup={dup},reorder={reorder},corrupt={corrupt},"
        )?;
        write!(
            f,
            "delay={}ns..{}ns,seed={seed}",
            delay_min.as_nanos(),
            delay_max.as_nanos()
        )
    }
}

fn probability(key: &str, value: &str) -> Result<f64, FaultSpecError> {
    let parsed = value.parse().ok().filter(|p| (0.0..=1.0).contains(p));
    parsed.ok_or_else(|| FaultSpecError::Probability {
        key: key.into(),
        value: value.into(),
    })
}

fn delay(value: &str) -> Result<(Duration, Duration), FaultSpecError> {
    let (low, high) = value.split_once("..").unwrap_or((value, value));
    match (time(low), time(high)) {
        (Some(low), Some(high)) if low <= high => Ok((low, high)),
        _ => Err(FaultSpecError::Delay {
            value: value.into(),
        }),
    }
}

/// A whole number with a unit; a bare 0 needs none.
fn time(text: &str) -> Option<Duration> {
    let text = text.trim();
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let nanos_per_unit: u64 = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "" if number == "0" => 1,
        _ => return None,
    };
    let nanos = number.parse::<u64>().ok()?.checked_mul(nanos_per_unit)?;
    Some(Duration::from_nanos(nanos)).filter(|time| *time <= MAX_DELAY)
}
