//! Runs of programs.

use crate::toolchain::{compile, oshrun, output, prefix, run, texts, within_limit};
use std::path::Path;
use std::process::Command;

const C: &[&str] = &["-std=c11", "-pedantic"];
const CPP: &[&str] = &["-x", "c++", "-std=c++17"];

#[test]
fn each_function_does_what_the_specification_says() {
    let program = compile("basics.c", "oshcc", "gcc", C);
    for count in [1, 2, 4, 5] {
        run(&mut oshrun(&program, count, &[]));
    }
    // Alone, without a launcher.
    run(&mut within_limit(&program));
}

#[test]
fn other_compilers_and_languages_take_the_headers() {
    let mut all: Vec<(_, _, &[&str])> = vec![
        ("oshc++", "g++", CPP),
        ("oshcc", "clang", C),
        ("oshcc", "gcc", &["-std=c11", "-no-pie", "-O2"]),
    ];
    if std::env::var_os("SUCI_TEST_FULL").is_some() {
        all.push(("oshc++", "clang++", CPP));
        all.push(("oshcc", "gcc", &["-std=c99", "-fPIE", "-pie"]));
    }
    for (wrapper, compiler, flags) in all {
        let program = compile("basics.c", wrapper, compiler, flags);
        run(&mut oshrun(&program, 3, &[]));
    }
}

#[test]
fn examples_of_the_specification_do_what_it_says() {
    let program = compile("examples.c", "oshcc", "gcc", C);
    for count in [1, 3, 4] {
        run(&mut oshrun(&program, count, &[]));
    }
}

#[test]
fn nothing_is_lost_where_packets_are() {
    let faults = ["--faults", "loss=0.03,dup=0.01,reorder=0.02,seed=3"];
    for source in ["basics.c", "examples.c"] {
        let program = compile(source, "oshcc", "gcc", C);
        run(&mut oshrun(&program, 4, &faults));
    }
}

#[test]
fn heaps_are_memory_of_all_processes_if_they_share_it() {
    let program = compile("pointers.c", "oshcc", "gcc", C);
    for count in [1, 2, 4] {
        run(oshrun(&program, count, &[]).arg("shared"));
    }
    run(oshrun(&program, 3, &[])
        .env("SUCI_SHARED_MEMORY", "0")
        .arg("apart"));
    run(oshrun(&program, 2, &["--faults", "loss=0.01,seed=5"]).arg("apart"));
    // One process in the middle shares none.
    let loner = r#"[ "$SUCI_ID" != 2 ] || export SUCI_SHARED_MEMORY=0; exec "$0" mixed"#;
    run(oshrun(Path::new("sh"), 5, &[])
        .args(["-c", loner])
        .arg(&program));
    let basics = compile("basics.c", "oshcc", "gcc", C);
    run(oshrun(&basics, 3, &[]).env("SUCI_SHARED_MEMORY", "0"));
}

#[test]
fn threads_of_a_process_use_the_library_at_the_same_time() {
    let program = compile("threads.c", "oshcc", "gcc", &["-std=gnu11", "-pthread"]);
    run(&mut oshrun(&program, 3, &[]));
}

#[test]
fn threads_make_and_end_teams_at_the_same_time() {
    let program = compile(
        "team_threads.c",
        "oshcc",
        "gcc",
        &["-std=gnu11", "-pthread"],
    );
    for count in [1, 4] {
        run(&mut oshrun(&program, count, &[]));
    }
}

#[test]
fn a_process_that_dies_ends_the_others_with_a_message() {
    let program = compile("ends.c", "oshcc", "gcc", C);
    let mut command = oshrun(&program, 3, &[]);
    let ended = output(command.arg("die"));
    let (_, err) = texts(&ended);
    // The first to notice tells the other one, which may have noticed by then.
    let told = err.contains("PE 1 died") && err.contains("this process ends, too");
    assert!(!ended.status.success() && told, "{err}");
}

/// A launcher that starts processes again cannot mend a job: each process says why it ends.
#[test]
fn f14_a_process_that_is_started_again_takes_no_part() {
    let program = compile("ends.c", "oshcc", "gcc", C);
    let mut launch = within_limit(&prefix().join("bin/suci"));
    launch.args(["run", "-n", "2", "--restart=1"]);
    let ended = output(launch.arg(&program).arg("die"));
    let (_, err) = texts(&ended);
    let is_stopped = ended.status.code() == Some(124);
    assert!(!is_stopped && !ended.status.success(), "{err}");
    let words = ["PE 1 died", "no PE can take part a second time"];
    assert!(words.iter().any(|words| err.contains(words)), "{err}");
    assert!(!err.contains("is gone"), "{err}");
}

/// The stream is locked while a process waits for input.
#[test]
fn a_process_that_waits_for_input_ends_with_the_others() {
    let program = compile("ends.c", "oshcc", "gcc", C);
    let (input, _open) = std::io::pipe().unwrap();
    let ended = output(oshrun(&program, 2, &[]).arg("input").stdin(input));
    let (_, err) = texts(&ended);
    let is_stopped = ended.status.code() == Some(124);
    assert!(!is_stopped && err.contains("PE 1 died"), "{err}");
}

#[test]
fn shmem_global_exit_ends_all_with_its_status() {
    let program = compile("ends.c", "oshcc", "gcc", C);
    let ended = output(oshrun(&program, 4, &[]).arg("succeed"));
    assert!(ended.status.success(), "{:?}", texts(&ended));
    let ended = output(oshrun(&program, 4, &[]).arg("exit"));
    assert_eq!(ended.status.code(), Some(42), "{:?}", texts(&ended));
    // Earlier output is there, though other processes were inside of calls.
    assert_eq!(texts(&ended).0.matches("begins").count(), 4);
}

#[test]
fn a_program_that_does_not_finalize_is_finalized() {
    let program = compile("ends.c", "oshcc", "gcc", C);
    run(oshrun(&program, 3, &[]).arg("forget"));
}

/// The library's end of the process is not the child's.
#[test]
fn a_child_of_a_fork_ends_with_its_own_status() {
    let program = compile("ends.c", "oshcc", "gcc", C);
    let ended = output(oshrun(&program, 2, &[]).arg("fork"));
    let (_, err) = texts(&ended);
    assert!(ended.status.success() && err.is_empty(), "{err}");
}

const AFTER: &str = "shmem_finalize() was called: call no function of OpenSHMEM after it";

/// F16, F35: a process that begins late, and one that is stopped, both for longer than the silence
/// timeout, are waited for. How long, `SUCI_TEST_SILENCE` says, in seconds.
#[test]
fn f16_f35_a_process_that_starts_late_or_is_stopped_ends_no_job() {
    let program = compile("late.c", "oshcc", "gcc", &["-std=gnu11"]);
    let seconds = std::env::var("SUCI_TEST_SILENCE").unwrap_or_else(|_| "12".to_owned());
    for options in [&[] as &[&str], &["--faults", "loss=0"]] {
        let said = run(oshrun(&program, 3, options).arg(&seconds));
        assert_eq!(said, "all went on\n");
    }
    println!(
        "figure: late by {seconds} s, stopped for {seconds} s, with and without shared memory"
    );
}

/// F35: a program may set a limit.
#[test]
fn f35_silence_counts_if_a_variable_says_so() {
    let program = compile("late.c", "oshcc", "gcc", &["-std=gnu11"]);
    let mut command = oshrun(&program, 3, &[]);
    let ended = output(command.arg("30").env("SHMEM_SILENCE_TIMEOUT", "1.5"));
    let (_, err) = texts(&ended);
    let told = err.contains("PE 1 does not answer") && !err.contains("group");
    assert!(!ended.status.success() && told, "{err}");
    let mut command = oshrun(&program, 3, &[]);
    let ended = output(command.env("SHMEM_SILENCE_TIMEOUT", "soon"));
    assert!(texts(&ended).1.contains("SHMEM_SILENCE_TIMEOUT is soon"));
}

/// Each header by itself, in each language and by each compiler.
#[test]
fn headers_cause_no_warning() {
    let c = ["-std=c99", "-std=gnu99", "-std=c11", "-std=c2x"];
    let cpp = ["-std=c++11", "-std=c++17", "-std=c++20"];
    for header in ["shmem.h", "pshmem.h", "dse.h"] {
        let source = crate::toolchain::prefix().join(format!("only-{header}.c"));
        std::fs::write(&source, format!("#include <{header}>\n")).unwrap();
        for (wrapper, compiler, language, standards) in [
            ("oshcc", "gcc", "c", &c[..]),
            ("oshcc", "clang", "c", &c[..]),
            ("oshc++", "g++", "c++", &cpp[..]),
            ("oshc++", "clang++", "c++", &cpp[..]),
        ] {
            for standard in standards {
                let wrapper = crate::toolchain::prefix().join("bin").join(wrapper);
                let mut command = Command::new(wrapper);
                command.env("CC", compiler).env("CXX", compiler);
                command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]);
                run(command.args([standard, "-x", language]).arg(&source));
            }
        }
    }
}

#[test]
fn misuse_is_told() {
    let program = compile("ends.c", "oshcc", "gcc", C);
    for (misuse, told) in [
        ("early", "shmem: call shmem_init() first"),
        ("pe", "PE 1: there is no PE 9: name one from 0 to 1"),
        ("local", "are not symmetric: pass memory of shmem_malloc()"),
        ("unset", "PE 1: no PE has the lock at 0x"),
        ("twice", "PE 1: this PE has the lock at 0x"),
        ("lengths", "bytes instead of"),
        ("null-put", "dest is null: pass memory of 1 elements"),
        ("null-source", "source is null"),
        ("null-get", "dest is null"),
        ("null-atomic", "the address of the integer is null"),
        ("null-far", "the address of the integer is null"),
        ("odd-atomic", "is not aligned: atomic operations need that"),
        ("odd-fetch", "is not aligned: atomic operations need that"),
        ("null-fetch", "fetch is null"),
        ("null-wait", "ivar is null"),
        ("null-some", "indices is null"),
        ("null-signal", "sig_addr is null"),
        ("null-lock", "lock is null"),
        ("null-reduce", "dest is null"),
        ("null-collect", "source is null"),
        ("null-team", "new_team is null"),
        ("null-context", "ctx is null"),
        ("null-version", "major is null"),
        ("null-name", "name is null"),
        ("huge", "more than there is memory"),
        ("huge-gather", "more than there is memory"),
        ("far-put", "with which 3 elements reach further than"),
        ("far-get", "with which 3 elements reach further than"),
        ("far-all", "with which 2 elements reach further than"),
        ("stride", "the strides are 0 and 1: pass 1 or more"),
        ("after-put", AFTER),
        ("after-barrier", AFTER),
        ("after-wait", AFTER),
        ("after-lock", AFTER),
        ("after-free", AFTER),
        ("after-init", AFTER),
    ] {
        let ended = output(oshrun(&program, 2, &[]).arg(misuse));
        let (_, err) = texts(&ended);
        assert!(
            !ended.status.success() && err.contains(told),
            "{misuse}: {err}"
        );
    }
    let program = compile("basics.c", "oshcc", "gcc", C);
    let ended = output(oshrun(&program, 1, &[]).env("SHMEM_SYMMETRIC_SIZE", "much"));
    assert!(texts(&ended).1.contains("SHMEM_SYMMETRIC_SIZE is much"));
}

#[test]
fn a_profiling_library_takes_the_place_of_functions() {
    let program = compile("profile.c", "oshcc", "gcc", C);
    let said = run(&mut oshrun(&program, 2, &[]));
    assert_eq!(said.matches("3 puts\n").count(), 2, "{said}");
}

#[test]
fn a_program_in_rust_uses_the_same_memory() {
    // Cargo builds the examples of a crate with its tests.
    let program = std::env::current_exe().unwrap();
    let built = program.ancestors().nth(2).unwrap();
    for count in [1, 3] {
        let said = run(&mut oshrun(&built.join("examples/shmem_ring"), count, &[]));
        assert_eq!(
            said,
            format!("{count} processes counted to {}\n", 100 * count)
        );
    }
}

#[test]
fn processes_of_dse_run_on_all_nodes_and_share_memory() {
    let program = compile("dse.c", "oshcc", "gcc", C);
    for (count, faults) in [(1, "loss=0"), (3, "loss=0"), (4, "loss=0.03")] {
        run(&mut oshrun(&program, count, &["--faults", faults]));
    }
}

#[test]
fn a_program_replaces_modules_of_dse() {
    let flags = ["-std=gnu11", "-pthread"];
    let program = compile("dse_modules.c", "oshcc", "gcc", &flags);
    for count in [1, 3] {
        run(&mut oshrun(&program, count, &[]));
    }
}

#[test]
fn modules_of_dse_are_complete_and_set_in_time() {
    let program = compile("ends.c", "oshcc", "gcc", C);
    for (misuse, told) in [
        (
            "module",
            "memory.write is null: begin with dse_get_modules()",
        ),
        ("late", "dse_init() was called before dse_set_modules()"),
    ] {
        let ended = output(oshrun(&program, 1, &[]).arg(misuse));
        let (_, err) = texts(&ended);
        let failed = !ended.status.success() && err.contains(told);
        assert!(failed, "{misuse}: {err}");
    }
}

#[test]
fn the_example_of_dse_multiplies_matrices() {
    let source = "../../../../examples/dse/c/matrix.c";
    let program = compile(source, "oshcc", "gcc", C);
    for count in [1, 3] {
        let said = run(oshrun(&program, count, &[]).arg("50"));
        let told = format!("50 x 50 by {count} nodes: as in one process\n");
        assert_eq!(said, told);
    }
}
