//! Programs as users write them: they get right results, and their mistakes harm nobody.

use super::flow::STRICT;
use super::tools::{process_tests, tests_of};
use super::{Figure, Line, foundation};
use crate::error::Result;
use crate::soak;

pub(super) const LINES: &[Line] = &[
    Line {
        name: "program-task-farm",
        must: "work is shared out, a worker is killed: the right number",
        run: |_| tests_of("task-farm", "", &[STRICT]),
    },
    Line {
        name: "program-halo",
        must: "Jacobi iteration on 2 x 2 processes: the result of one process",
        run: |_| tests_of("halo", "", &[STRICT]),
    },
    Line {
        name: "program-kv",
        must: "500 tokio clients come and go, calls are cancelled half-way: right answers",
        run: |_| tests_of("kv", "", &[STRICT]),
    },
    Line {
        name: "program-parameter-server",
        must: "gradients and parameters, a question meanwhile, a worker is killed: right parameters",
        run: |_| tests_of("parameter-server", "", &[STRICT]),
    },
    Line {
        name: "program-members",
        must: "500 joins and leaves under reused node IDs: each is heard",
        run: |_| tests_of("members", "", &[STRICT]),
    },
    Line {
        name: "starts-order",
        must: "1,000 starts under one node ID, on one port and on others: each first message arrives, memory flat",
        run: |_| starts("starts_in_order"),
    },
    Line {
        name: "starts-kill",
        must: "the same, each ended by kill -9",
        run: |_| starts("starts_after_a_kill"),
    },
    Line {
        name: "restart-port",
        must: "killed and started on another port of one machine: accepted within 1 s",
        run: |_| process_tests("starts_again_on_another_port", &[STRICT]),
    },
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

/// Tests in which a process starts again and again, at full length.
fn starts(filter: &str) -> Result<Figure> {
    process_tests(filter, &[STRICT, ("SUCI_TEST_STARTS", "1000")])
}
