//! C and OpenSHMEM.

use super::super::flow::STRICT;
use super::super::tools::tests_of;
use super::super::{Figure, Line};
use crate::error::{Context, Result};
use crate::{conformance, shmem4py};

pub(super) const LINES: &[Line] = &[
    Line {
        name: "silence-engine",
        must: "f35: a supervised peer, late or silent for an hour: Quiet, no Lost, no end; its death is noticed; without a launcher silence counts",
        run: |_| tests_of("suci-proto", "supervise", &[]),
    },
    Line {
        name: "silence-groups",
        must: "f35: collective operations and agreements wait for a supervised member that is silent for 10 minutes",
        run: |_| tests_of("suci-layers", "f35_", &[]),
    },
    Line {
        name: "silence-openshmem",
        must: "f35: a PE that begins 15 and 30 s late, and is stopped for as long, ends no job; a variable sets a limit",
        run: |_| silence(),
    },
    Line {
        name: "shmem-null",
        must: "null for each pointer of each function of shmem.h: a message or nothing, no crash",
        run: |_| tests_of("suci-shmem", "null_is_refused", &[FULL]),
    },
    Line {
        name: "shmem-misuse",
        must: "wrong arguments, and calls after shmem_finalize(): the text names the argument and the remedy",
        run: |_| tests_of("suci-shmem", "misuse_is_told", &[STRICT]),
    },
    Line {
        name: "shmem-packages",
        must: "libsma-dev beside Open MPI's commands in both orders; ldconfig after make install; oshrun's options in any order",
        run: |_| tests_of("suci-shmem", "packaging::", &[]),
    },
    Line {
        name: "c-headers",
        must: "each header alone with -pedantic, C99 to C2x and C++11 to C++20, gcc and clang: no warning",
        run: |_| headers(),
    },
    Line {
        name: "classic-papers",
        must: "datagram.h marks the 18 functions of the papers, and no other",
        run: |_| tests_of("suci-capi", "marks_the_functions_of_the_papers", &[]),
    },
    Line {
        name: "shmem-suites",
        must: "tests-sos with 2 and 4 PEs, unit and examples: all that apply pass",
        run: |_| suites(),
    },
    Line {
        name: "shmem4py",
        must: "the 110 tests of shmem4py, unpatched, with 2 PEs",
        run: |_| python(),
    },
];

const FULL: (&str, &str) = ("SUCI_TEST_FULL", "1");

/// The variables that name clones of openshmem-org/tests-sos and mpi4py/shmem4py.
const TESTS: &str = "SUCI_SHMEM_TESTS";
const SHMEM4PY: &str = "SUCI_SHMEM4PY";

fn silence() -> Result<Figure> {
    let late = "f16_f35_a_process_that_starts_late";
    let mut texts = Vec::new();
    for seconds in ["15", "30"] {
        let set = [("SUCI_TEST_SILENCE", seconds)];
        texts.push(tests_of("suci-shmem", late, &set)?);
    }
    texts.push(tests_of("suci-shmem", "f35_silence_counts", &[])?);
    Ok(together(&texts))
}

fn headers() -> Result<Figure> {
    let of = |package| tests_of(package, "headers_cause_no_warning", &[]);
    Ok(together(&[of("suci-shmem")?, of("suci-capi")?]))
}

fn together(figures: &[Figure]) -> Figure {
    let texts: Vec<_> = figures.iter().map(|figure| figure.text.as_str()).collect();
    let hold = figures.iter().all(|figure| figure.holds);
    Figure::new(hold, texts.join("; "))
}

/// A clone that a variable names.
fn clone_of(variable: &str, repository: &str) -> Result<std::ffi::OsString> {
    let problem = format!("{variable} names no clone of {repository}: set it");
    std::env::var_os(variable).context(problem)
}

fn suites() -> Result<Figure> {
    let tests = clone_of(TESTS, "openshmem-org/tests-sos")?;
    let [passed, failed, not] = conformance::count(conformance::Choice {
        tests: tests.as_ref(),
        only: None,
        faults: None,
        json: false,
    })?;
    let text = format!("{passed} passed, {failed} failed, {not} not applicable, each with 2 and 4");
    Ok(Figure::new(passed > 0 && failed == 0, text))
}

fn python() -> Result<Figure> {
    let clone = clone_of(SHMEM4PY, "mpi4py/shmem4py")?;
    let passed = shmem4py::count(clone.as_ref())?;
    Ok(Figure::new(passed >= 110, format!("{passed} tests passed")))
}
