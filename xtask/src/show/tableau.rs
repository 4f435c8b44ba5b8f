//! The program that uses the library as its users will: satisfiability of temporal logic.

use super::tools::{median, tests_of};
use super::{Figure, Line};
use crate::error::Result;
use crate::tableau::{APART, Outcome, Programs, SLOW, promises};

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
        must: "from 1 to 2 workers at least 1.3 x, where one takes at least 10 s: median of 3 pairs",
        run: |_| speed_up(),
    },
    Line {
        name: "modes",
        must: "the modes on against off, 2 workers: p99 of numbering and total time, medians of 5; over the slow link the p99 is less",
        run: |_| modes(),
    },
];

/// Runs of the comparison.
const ROUNDS: usize = 5;

/// Pairs of runs from which the speed-up comes.
const PAIRS: usize = 3;

fn speed_up() -> Result<Figure> {
    let programs = Programs::build()?;
    let formula = promises(&[3, 4, 4, 6]);
    let (mut ones, mut twos, mut right) = (Vec::new(), Vec::new(), true);
    for _ in 0..PAIRS {
        let one = programs.run(1, true, &formula)?;
        let two = programs.run(2, true, &formula)?;
        right &= !one.answer && !two.answer;
        ones.push(one.seconds);
        twos.push(two.seconds);
    }
    let ratios: Vec<f64> = ones.iter().zip(&twos).map(|(one, two)| one / two).collect();
    let list: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
    let (ratio, one, two) = (median(ratios), median(ones), median(twos));
    Ok(Figure::new(
        right && ratio >= 1.3 && one >= 10.0,
        format!("{ratio:.2} x ({}): {one:.1} s, {two:.1} s", list.join(", ")),
    ))
}

fn modes() -> Result<Figure> {
    let programs = Programs::build()?;
    let formula = promises(&[2, 3, 4, 5]);
    let compare = |run: &dyn Fn(bool) -> Result<Outcome>| -> Result<(bool, f64, String)> {
        let (mut on, mut off) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            on.push(run(true)?);
            off.push(run(false)?);
        }
        let right = on.iter().chain(&off).all(|one| !one.answer);
        let p99 = |rounds: &[Outcome]| {
            median(rounds.iter().map(|one| one.round_trip("p99_us")).collect())
        };
        let seconds = |rounds: &[Outcome]| median(rounds.iter().map(|one| one.seconds).collect());
        let text = format!(
            "on p99 {:.1} ms, {:.2} s, off {:.1} ms, {:.2} s",
            p99(&on) / 1e3,
            seconds(&on),
            p99(&off) / 1e3,
            seconds(&off)
        );
        Ok((right, p99(&on) / p99(&off), text))
    };
    let (right, _, near) = compare(&|modes| programs.run(APART, modes, &formula))?;
    let (right_apart, ratio, apart) = compare(&|modes| programs.run_apart(APART, modes, &formula))?;
    let text = format!(
        "loopback, where bulk is never in the way: {near}; over {SLOW} Mbit/s, where questions would stand behind \
         it: {apart} ({ratio:.2} x)"
    );
    Ok(Figure::new(right && right_apart && ratio < 1.0, text))
}

fn verdicts(test: &str) -> Result<Figure> {
    tests_of("tableau", test, &[])
}
