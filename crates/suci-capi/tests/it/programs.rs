//! C programs that use the library, under each compiler, and watched by valgrind and ASan.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::toolchain::{GCC, archive, compilers, crate_dir, execute, run, scratch};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

fn sources(dir: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(crate_dir().join(dir)).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|it| it == "c" || it == "cc"))
        .collect();
    all.sort();
    assert!(!all.is_empty(), "{dir}");
    all
}

fn name(source: &std::path::Path) -> &str {
    source.file_stem().unwrap().to_str().unwrap()
}

#[test]
fn programs_do_what_they_check_as_c_and_cpp() {
    for source in sources("tests/c") {
        for compiler in compilers() {
            execute(&compiler.compile(&source, name(&source), &[]));
        }
    }
}

#[test]
fn examples_compile_without_a_warning_and_run() {
    for source in sources("examples") {
        let is_cpp = source.extension().is_some_and(|it| it == "cc");
        for compiler in compilers() {
            if is_cpp && !compiler.program.ends_with("++") {
                continue;
            }
            execute(&compiler.compile(&source, &format!("example-{}", name(&source)), &[]));
        }
    }
}

#[test]
fn the_static_library_suffices() {
    let program = scratch().join("static");
    run(Command::new("gcc")
        .args(["-std=c11", "-D_GNU_SOURCE", "-I"])
        .arg(crate_dir().join("include"))
        .arg(crate_dir().join("tests/c/messages.c"))
        .arg(archive())
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program));
    execute(&program);
}

#[test]
fn address_sanitizer_finds_nothing() {
    for source in sources("tests/c") {
        let flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
        let program = GCC.compile(&source, &format!("asan-{}", name(&source)), &flags);
        // The runtime must be the first library of the process.
        run(Command::new("timeout")
            .arg("60")
            .arg(&program)
            .env("ASAN_OPTIONS", "detect_leaks=1"));
    }
}

#[test]
fn valgrind_finds_nothing() {
    let source = crate_dir().join("tests/c/messages.c");
    let program = GCC.compile(&source, "valgrind-messages", &[]);
    run(Command::new("timeout")
        .args([
            "300",
            "valgrind",
            "--quiet",
            "--error-exitcode=9",
            "--leak-check=full",
        ])
        .args(["--errors-for-leak-kinds=definite"])
        .arg(program));
}
