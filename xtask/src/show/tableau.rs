//! The program that uses the library as its users will: satisfiability of temporal logic.

use super::tools::tests_of;
use super::{Figure, Line};
use crate::error::Result;

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
        must: "counters of 1 to 8 bits count, and in no model leave a number out",
        run: |_| verdicts("counters_count"),
    },
];

fn verdicts(test: &str) -> Result<Figure> {
    tests_of("tableau", test, &[])
}
