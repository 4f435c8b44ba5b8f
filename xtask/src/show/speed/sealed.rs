//! Sealed mode beside plain mode, rustls over TCP and quinn.

use super::bench::{Bound, measured, ratio};
use crate::bench::{self, Row};
use crate::error::Result;
use crate::show::Figure;

/// The only cipher that the bench lets rustls and quinn use.
const CIPHER_OF_OTHERS: &str = "AES-128-GCM";

/// 64 KiB one way. `cipher` is what the cipher called `name` alone takes for a byte at both ends,
/// in ns: without it, sealed mode may take a tenth more processor time than plain mode.
pub(in crate::show) fn sealed_stream(cipher: f64, name: &str) -> Result<Figure> {
    let (plain, sealed) = ("suci adaptive", "suci-sealed adaptive");
    let versus = "suci-sealed,tls,quinn";
    let (rows, mut judge) = measured("stream-65536@veth", versus, sealed)?;
    let rivals = [
        ("quinn block", Bound::AtLeast(1.5)),
        ("tls block", Bound::AtLeast(0.75)),
        (plain, Bound::Any),
    ];
    judge.compare_with(&rows, sealed, &rivals)?;
    // Seconds of processor time for a GB, at both ends together.
    let cpu = |who: &str| -> Result<f64> {
        let values = bench::of(&rows, who)?.rounds("cpu_values");
        Ok(crate::show::median(values.into_values().collect()))
    };
    let (of_plain, of_sealed) = (cpu(plain)?, cpu(sealed)?);
    let share = cipher / of_sealed;
    judge.note(&format!(
        "Suci chose {name}, rustls and quinn have {CIPHER_OF_OTHERS}; the cipher takes {cipher:.3} of {of_sealed:.3} s \
         per GB ({share:.2})"
    ));
    let beside = (of_sealed - cipher) / of_plain;
    judge.hold("all else / plain", beside, Bound::AtMost(1.1));
    judge.figure()
}

pub(in crate::show) fn sealed_round_trip() -> Result<Figure> {
    let (rows, mut judge) = measured("rtt-64@veth", "suci-sealed", "suci-sealed spin")?;
    for wait in ["spin", "adaptive", "block"] {
        let [sealed, plain] = [format!("suci-sealed {wait}"), format!("suci {wait}")];
        judge.hold(
            &format!("{wait}, sealed / plain"),
            of(&rows, &sealed, &plain)?,
            Bound::AtMost(1.15),
        );
    }
    judge.figure()
}

pub(in crate::show) fn sealed_batches() -> Result<Figure> {
    let (sealed, plain) = ("suci-batch-sealed adaptive", "suci-batch adaptive");
    let versus = "suci-batch-sealed";
    let (rows, mut judge) = measured("rate-32@veth", versus, sealed)?;
    judge.compare(&rows, sealed, plain, Bound::AtLeast(0.55))?;
    judge.figure()
}

fn of(rows: &[Row], ours: &str, theirs: &str) -> Result<f64> {
    ratio(rows, "values", ours, theirs)
}
