//! The tests of shmem4py (github.com/mpi4py/shmem4py), which calls OpenSHMEM from Python, against
//! libsma. It is not in this tree, and is built as it is.

use std::path::Path;
use std::process::Command;

use crate::conformance;
use crate::error::{Context, Failure, Result};
use crate::exec;

/// How many processes take part.
const PROCESSES: u32 = 2;

/// Builds it and runs its tests. Returns how many passed in each process.
///
/// # Errors
/// Python lacks a package, it cannot be built, or a test failed.
pub(crate) fn count(clone: &Path) -> Result<u64> {
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let wanted = "import cffi, numpy, setuptools";
    exec::capture(Command::new(&python).args(["-c", wanted])).context(
        "Python needs the packages cffi, numpy and setuptools (PYTHON names another Python)",
    )?;
    let prefix = conformance::install()?;
    let work = prefix.join("shmem4py");
    exec::run(Command::new("rm").arg("-rf").arg(&work))?;
    exec::run(Command::new("cp").arg("-r").arg(clone).arg(&work))?;
    let mut build = Command::new(&python);
    build.args(["setup.py", "-q", "build", "--build-lib", "lib"]);
    build.env("OSHCC", prefix.join("bin/oshcc"));
    exec::capture(build.current_dir(&work))?;
    let mut test = Command::new("timeout");
    test.arg("900").arg(prefix.join("bin/oshrun"));
    test.arg("-np").arg(PROCESSES.to_string()).arg(&python);
    // Python writes the results to standard error.
    let tests = "exec \"$@\" 2>&1";
    let mut shell = Command::new("sh");
    shell.args(["-c", tests, "sh"]);
    shell.arg(test.get_program()).args(test.get_args());
    shell.args(["-m", "unittest", "discover", "-f", "-s", "test"]);
    shell.env("PYTHONPATH", work.join("lib"));
    let said = exec::capture(shell.current_dir(&work))?;
    let ran = |line: &str| -> Option<u64> {
        let (count, _) = line.strip_prefix("Ran ")?.split_once(' ')?;
        count.parse().ok()
    };
    let counts: Vec<_> = said.lines().filter_map(ran).collect();
    match counts[..] {
        [one, other] if one == other => Ok(one),
        _ => Err(Failure::new(format!("{counts:?} tests ran: {said}"))),
    }
}
