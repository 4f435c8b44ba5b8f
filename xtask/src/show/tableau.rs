//! The program that uses the library as its users will: satisfiability of temporal logic.

use super::tools::{median, tests_of};
use super::{Figure, Line};
use crate::error::Result;
use crate::tableau::{Outcome, Programs, promises};

pub(super) const LINES: &[Line] = &[
    Line {
        name: "random",
        must: "5,000 random formulas, 20 % without a model: another procedure's verdicts, every witness a model",
        run: |_| verdicts("random_formulas_get_the_verdicts"),
    },
    Line {
        name: "families",
        must: "E, S, U, U2, C1, C2, Q and R of Rozier and Vardi, their negations, and both: the known verdicts",
        run: |_| verdicts("families_have_their_known_verdicts"),
    },
    Line {
        name: "counters",
        must: "the four counters of Rozier and Vardi, of 1 to 8 bits, count, and in no model leave a number out",
        run: |_| verdicts("counters_count"),
    },
    Line {
        name: "parallel",
        must: "5,000 random and 3 large formulas through 3 workers in one run: the right verdicts, every witness a model",
        run: |_| {
            tests_of(
                "tableau",
                "parallel_verdicts",
                &[("TABLEAU_TEST_FORMULAS", "5000")],
            )
        },
    },
    Line {
        name: "end",
        must: "the end of 780 simulated questions is seen at last and never early, whatever the network delays",
        run: |_| verdicts("the_end_is_seen"),
    },
    Line {
        name: "loss",
        must: "16 workers over 5 % injected loss finish with the right verdicts",
        run: |_| verdicts("sixteen_workers_over_loss"),
    },
    Line {
        name: "death",
        must: "a killed worker, or hub, ends the run, and every survivor says who it was",
        run: |_| verdicts("is_killed_ends_the_run"),
    },
    Line {
        name: "speed-up",
        must: "from 1 to 2 workers at least 1.3 x, where one takes at least 10 s",
        run: |_| speed_up(),
    },
    Line {
        name: "modes",
        must: "the modes on against off, 2 workers: p99 of numbering and total time, medians of 5; the verdict alone is judged",
        run: |_| modes(),
    },
];

/// Runs of the comparison.
const ROUNDS: usize = 5;

fn speed_up() -> Result<Figure> {
    let programs = Programs::build()?;
    let formula = promises(&[3, 4, 4, 6]);
    let one = programs.run(1, true, &formula)?;
    let two = programs.run(2, true, &formula)?;
    let ratio = one.seconds / two.seconds;
    let right = !one.answer && !two.answer;
    Ok(Figure::new(
        right && ratio >= 1.3 && one.seconds >= 10.0,
        format!("{ratio:.2} x: {:.1} s, {:.1} s", one.seconds, two.seconds),
    ))
}

fn modes() -> Result<Figure> {
    let programs = Programs::build()?;
    let formula = promises(&[2, 3, 4, 5]);
    let (mut on, mut off) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        on.push(programs.run(2, true, &formula)?);
        off.push(programs.run(2, false, &formula)?);
    }
    let right = on.iter().chain(&off).all(|one| !one.answer);
    let shown = |rounds: &[Outcome]| {
        let p99 = median(rounds.iter().map(|one| one.round_trip("p99_us")).collect());
        let seconds = median(rounds.iter().map(|one| one.seconds).collect());
        format!("p99 {p99:.0} us, {seconds:.2} s")
    };
    let text = format!(
        "on {}; off {}; bulk is never in the way on loopback, and the scheduler makes the p99",
        shown(&on),
        shown(&off)
    );
    Ok(Figure::new(right, text))
}

fn verdicts(test: &str) -> Result<Figure> {
    tests_of("tableau", test, &[])
}
