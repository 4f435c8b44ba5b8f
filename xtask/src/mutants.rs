//! Mutation tests of the parts whose mistakes lose messages quietly.

use serde_json::Value;

use crate::error::{Context, Failure, Result};
use crate::exec;

/// Recovery, credit and reassembly, by path.
const FILES: &[&str] = &[
    "crates/suci-proto/src/**/*recovery*",
    "crates/suci-proto/src/**/recovery/*",
    "crates/suci-proto/src/**/*credit*",
    "crates/suci-proto/src/**/credit/*",
    "crates/suci-proto/src/**/*assembl*",
    "crates/suci-proto/src/**/*assembl*/*",
];

/// Share of viable mutants, in percent, that tests must catch.
pub const BOUND: f64 = 85.0;

/// What a run found.
#[derive(Clone, Copy, Debug)]
pub struct Score {
    /// Mutants that a test caught, those that hung included.
    pub caught: u64,
    /// Mutants that every test passed.
    pub missed: u64,
}

impl Score {
    /// Percent of viable mutants that were caught; 0 when there were none.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "mutants number thousands at most"
    )]
    pub fn percent(self) -> f64 {
        let viable = self.caught.saturating_add(self.missed);
        if viable == 0 {
            0.0
        } else {
            100.0 * self.caught as f64 / viable as f64
        }
    }
}

/// Runs cargo-mutants (hours on a slow machine) and reads its verdicts.
///
/// # Errors
/// cargo-mutants is missing or cannot run the tests of the unchanged tree.
pub fn measure() -> Result<Score> {
    let out = exec::target_dir().join("mutants");
    std::fs::create_dir_all(&out)?;
    let mut mutants = exec::cargo(["mutants", "--package", "suci-proto", "--jobs", "2"]);
    mutants.arg("--output").arg(&out);
    for file in FILES {
        mutants.args(["--file", file]);
    }
    let status = mutants.status().context(exec::shown(&mutants))?;
    // 2: some were missed, 3: some hung; both are counted below.
    if !matches!(status.code(), Some(0 | 2 | 3)) {
        return Err(Failure::new(format!(
            "`{}` ended with {status}",
            exec::shown(&mutants)
        )));
    }
    let verdicts = out.join("mutants.out/outcomes.json");
    let text = std::fs::read_to_string(&verdicts).context(verdicts.display())?;
    score(&serde_json::from_str(&text)?)
}

fn score(verdicts: &Value) -> Result<Score> {
    let count = |name: &str| {
        verdicts[name]
            .as_u64()
            .context(format!("outcomes.json: no {name}"))
    };
    Ok(Score {
        caught: count("caught")?.saturating_add(count("timeout")?),
        missed: count("missed")?,
    })
}

/// [`measure`], judged by [`BOUND`].
///
/// # Errors
/// As [`measure`], or too few mutants were caught.
pub fn check() -> Result<()> {
    let score = measure()?;
    let text = format!(
        "{} caught, {} missed: {:.1} %",
        score.caught,
        score.missed,
        score.percent()
    );
    println!("{text}");
    if score.percent() >= BOUND {
        return Ok(());
    }
    Err(Failure::new(format!("{text}, at least {BOUND} % required")))
}
