//! Null for each pointer: every function refuses it with a message, or does nothing.

use crate::toolchain::{prefix, run, within_limit};
use std::fmt::Write as _;
use std::process::Command;

/// One type of each size, and the untyped functions, unless `SUCI_TEST_FULL` is set: functions of
/// the other types are made by the same macros.
fn is_chosen(name: &str) -> bool {
    const LEFT_OUT: &[&str] = &[
        "longlong", "uint", "ulong", "int32", "int64", "int8", "int16", "float", "schar", "short",
        "uchar", "size_", "ptrdiff", "_int_", "complexf",
    ];
    let full = std::env::var_os("SUCI_TEST_FULL").is_some();
    full || !LEFT_OUT.iter().any(|part| name.contains(part))
}

/// An argument: null for a pointer, else 1, or 0 for the number of a process.
fn argument(parameter: &str) -> &'static str {
    let name = parameter.rsplit([' ', '*']).next().unwrap_or_default();
    let name = name.to_lowercase();
    let numbers = ["start", "log", "root"];
    if parameter.contains('*') {
        "NULL"
    } else if parameter.contains("shmem_ctx_t") {
        "SHMEM_CTX_DEFAULT"
    } else if parameter.contains("shmem_team_t") {
        "SHMEM_TEAM_WORLD"
    } else if name.ends_with("pe") || numbers.iter().any(|part| name.contains(part)) {
        "0"
    } else {
        "1"
    }
}

/// The calls of all chosen functions. The parentheses keep macros for any type away.
fn calls(header: &str) -> Vec<String> {
    let parts = header.split([';', '{', '}']).map(str::trim);
    let prototypes = parts.filter(|part| part.contains('(') && !part.contains("static"));
    let call = |prototype: &str| {
        let (before, rest) = prototype.split_once('(')?;
        // A call in the body of a function has no type in front.
        let (_, name) = before.rsplit_once([' ', '*', '\n'])?;
        let is_meant = name.starts_with("shmem_") && is_chosen(name);
        let parameters = rest.trim_end_matches(')').split(',').map(str::trim);
        let parameters = parameters.filter(|one| !["void", "...", ""].contains(one));
        let arguments: Vec<_> = parameters.map(argument).collect();
        is_meant.then(|| format!("(void)({name})({})", arguments.join(", ")))
    };
    prototypes.filter_map(call).collect()
}

/// Calls each function in a process of its own, and prints those that a signal ends.
const PROGRAM: &str = "
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void call(int which)
{
    switch (which) {
CASES
    }
}

int main(void)
{
    int failed = 0;

    for (int i = 0; i < COUNT; i++) {
        int ended;
        pid_t child = fork();

        if (child == 0) {
            alarm(30);
            freopen(\"/dev/null\", \"w\", stderr);
            shmem_init();
            call(i);
            exit(0);
        }
        waitpid(child, &ended, 0);
        if (WIFSIGNALED(ended)) {
            printf(\"%d: signal %d\\n\", i, WTERMSIG(ended));
            fflush(stdout);
            failed = 1;
        }
    }
    return failed;
}
";

#[test]
fn null_is_refused_by_every_function() {
    let (source, program) = (prefix().join("nulls.c"), prefix().join("nulls"));
    std::fs::write(&source, "#include <shmem.h>\n").unwrap();
    let oshcc = || Command::new(prefix().join("bin/oshcc"));
    let header = run(oshcc().args(["-E", "-P"]).arg(&source));
    let calls = calls(&header);
    assert!(calls.len() > 200, "the header is not understood");
    let mut cases = String::new();
    for (number, call) in calls.iter().enumerate() {
        writeln!(cases, "    case {number}: {call}; break;").unwrap();
    }
    let text = PROGRAM.replace("CASES", &cases);
    let text = text.replace("COUNT", &calls.len().to_string());
    std::fs::write(&source, text).unwrap();
    let quiet = ["-D_GNU_SOURCE", "-w", "-o"];
    run(oshcc().args(quiet).arg(&program).arg(&source));
    let mut start = within_limit(&program);
    let ended = crate::toolchain::output(start.env("SHMEM_SYMMETRIC_SIZE", "1m"));
    let (said, _) = crate::toolchain::texts(&ended);
    let faults = said.lines().map(|line| {
        let number = line.split(':').next().unwrap_or_default();
        let call = number.parse().ok().and_then(|at: usize| calls.get(at));
        format!("{}{line}", call.map_or("", String::as_str))
    });
    let faults: Vec<_> = faults.collect();
    assert!(ended.status.success() && faults.is_empty(), "{faults:#?}");
    println!("figure: {} functions, none crashed", calls.len());
}
