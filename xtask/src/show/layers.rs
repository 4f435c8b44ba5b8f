//! One-sided operations, collective operations and what runs on them.

use std::collections::BTreeMap;

use super::tools::tests_of;
use super::{Figure, Line};
use crate::error::{Context, Result};
use crate::{bench, conformance};

pub(super) const LINES: &[Line] = &[
    Line {
        name: "one-sided",
        must: "put and get of 8 B to 1 MiB and fetch-and-add in less time than MPICH over TCP, and at most 2 x its shared memory",
        run: |_| beside_mpich("put,get,add"),
    },
    Line {
        name: "collectives",
        must: "barrier and allreduce of 8 B and 1 MiB, 2, 4 and 8 processes, in less time than MPICH over TCP, and at most 2 x its shared memory",
        run: |_| beside_mpich("barrier,allreduce"),
    },
    Line {
        name: "killed-member",
        must: "kill -9 of one of 8 in an allreduce: the others have the error within 1.25 x the silence timeout, shrink, and have the right sum",
        run: |_| tests_of("suci-tests", "f17_a_group_whose_member_is_killed", &[]),
    },
    Line {
        name: "openshmem",
        must: "each function of OpenSHMEM and examples of its specification, 1 to 5 processes, also under 3 % loss",
        run: |_| tests_of("suci-shmem", "", &[]),
    },
    Line {
        name: "conformance",
        must: "the public unit tests of OpenSHMEM with 2 and 4 processes: all that apply pass, without and with 3 % loss",
        run: |_| conformance(),
    },
    Line {
        name: "applications",
        must: "the applications of DSE: results of 1, 2 and 4 processes equal the sequential ones",
        run: |_| tests_of("dse", "", &[]),
    },
];

/// The variable that names a clone of github.com/openshmem-org/tests-sos.
const TESTS: &str = "SUCI_SHMEM_TESTS";

fn conformance() -> Result<Figure> {
    let tests = std::env::var_os(TESTS);
    let tests = tests.context(format!(
        "{TESTS} names no clone of openshmem-org/tests-sos: set it"
    ))?;
    let count = |faults| {
        conformance::count(conformance::Choice {
            tests: tests.as_ref(),
            only: None,
            faults,
            json: false,
        })
    };
    let (plain, lossy) = (count(None)?, count(Some("loss=0.03"))?);
    let holds = [plain, lossy]
        .iter()
        .all(|[passed, failed, _]| *passed > 0 && *failed == 0);
    let said = |[passed, failed, not]: [usize; 3]| {
        format!("{passed} passed, {failed} failed, {not} not applicable")
    };
    Ok(Figure::new(
        holds,
        format!("{}; under loss {}", said(plain), said(lossy)),
    ))
}

/// The bench's rows of these operations. Its figures are of processes of this machine.
fn beside_mpich(only: &str) -> Result<Figure> {
    let rows = bench::layers(&["--only", only])?;
    let mut said: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut holds = !rows.is_empty();
    for row in rows.iter().filter(|row| row["contender"] != "suci") {
        let number = |name: &str| row[name].as_f64().context(format!("the bench's {name}"));
        let (processes, bytes, ratio) = (
            number("processes")?,
            number("bytes")?,
            number("suci_of_it")?,
        );
        let contender = row["contender"].as_str().unwrap_or_default();
        holds &= match contender {
            "mpich-tcp" => ratio < 1.0,
            _ => ratio <= 2.0,
        };
        let operation = row["operation"].as_str().unwrap_or_default();
        let label = format!("{operation} {bytes} B, {processes} processes");
        said.entry(label)
            .or_default()
            .push(format!("{ratio:.2} of {contender}"));
    }
    let said = said
        .iter()
        .map(|(label, ratios)| format!("{label}: {}", ratios.join(", ")));
    Ok(Figure::new(holds, said.collect::<Vec<_>>().join("; ")))
}
