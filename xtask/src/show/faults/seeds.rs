//! Random seeds, and the faults that they found.

use super::super::tools::{count, simulate, tests_of};
use super::super::{Ctx, Figure, Line};
use crate::error::Result;
use crate::planted::PROFILES;

/// Seeds drawn anew, of all profiles together.
const SEEDS: u64 = 30_000;

pub(super) const LINES: &[Line] = &[
    Line {
        name: "seeds-drawn",
        must: "30,000 seeds drawn at random, of all profiles: none fails",
        run: drawn,
    },
    Line {
        name: "narrow-told",
        must: "a path below 1,200 B is told within 5 s: from the first packet, after small messages, midway",
        run: |_| tests_of("suci-sim", "f27_a_path_below", &[]),
    },
    Line {
        name: "groups-room",
        must: "groups do not wait for each other's room in a send queue, nor for the program's",
        run: |_| tests_of("suci-proto", "f19_messages_of_a_group", &[]),
    },
    Line {
        name: "fence-mistake",
        must: "a fence holds also before a put that breaks a rule, or that is cancelled before it was sent",
        run: |_| tests_of("suci-layers", "fences_", &[]),
    },
];

fn drawn(ctx: &Ctx) -> Result<Figure> {
    let each = SEEDS.div_ceil(PROFILES.len() as u64).to_string();
    let (mut seeds, mut failed, mut from) = (0, 0, Vec::new());
    for profile in PROFILES {
        let summary = simulate(ctx, &["--random", &each, "--profile", profile])?;
        seeds += count(&summary, "seeds")?;
        failed += count(&summary, "failed")?;
        from.push(format!("{profile} from {}", count(&summary, "first")?));
    }
    let text = format!("{seeds} seeds, {failed} failed: {}", from.join(", "));
    Ok(Figure::new(failed == 0 && seeds >= SEEDS, text))
}
