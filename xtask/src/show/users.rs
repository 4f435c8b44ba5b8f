//! Programs as users write them: they get right results, and their mistakes harm nobody.

use super::tools::process_tests;
use super::{Line, foundation};
use crate::soak;

pub(super) const LINES: &[Line] = &[
    Line {
        name: "snippets",
        must: "every README snippet and each example 5 times in a row with the stock rmem_max: no refusal, no hang",
        run: |_| {
            soak::build()?;
            process_tests("snippets_", &[])
        },
    },
    Line {
        name: "soak",
        must: "the same 200 times in a row",
        run: |_| {
            soak::build()?;
            process_tests("snippets_", &[(soak::ROUNDS, "200")])
        },
    },
    Line {
        name: "test",
        must: "fresh clone, make test in under 900 s",
        run: foundation::test,
    },
];
