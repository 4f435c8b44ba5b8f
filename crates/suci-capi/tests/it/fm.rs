//! Fast Messages, `fm.h`: programs in C that use it, and its man page.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::classic::{check_man_page, host_table};
use crate::header::functions_of;
use crate::toolchain::{GCC, compilers, crate_dir, run, scratch};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Runs a program as `count` nodes, as `suci run` does. Returns what each wrote.
pub(crate) fn run_nodes(program: &Path, name: &str, count: u16, arguments: &[&str]) -> Vec<String> {
    let book = host_table(name, count);
    let start = |id: u16| -> Child {
        let mut command = Command::new("timeout");
        command.arg("120").arg(program).args(arguments);
        command.env("SUCI_ID", id.to_string());
        command.env("SUCI_SIZE", count.to_string());
        command.env("SUCI_BOOK", &book);
        command.env("ASAN_OPTIONS", "allocator_may_return_null=1");
        command.stdout(Stdio::piped()).spawn().unwrap()
    };
    let started: Vec<Child> = (0..count).map(start).collect();
    let ends = started.into_iter().map(|child| {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{name}: {}", output.status);
        String::from_utf8(output.stdout).unwrap()
    });
    ends.collect()
}

fn test_program() -> PathBuf {
    crate_dir().join("tests/fm/basics.c")
}

#[test]
fn the_test_program_does_what_it_checks() {
    for compiler in compilers() {
        let program = compiler.compile(&test_program(), "fm-basics", &[]);
        run_nodes(&program, &format!("fm-{}", compiler.program), 2, &[]);
    }
}

#[test]
fn address_sanitizer_finds_nothing_in_fast_messages() {
    let flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let program = GCC.compile(&test_program(), "fm-asan", &flags);
    run_nodes(&program, "fm-asan", 2, &[]);
}

#[test]
fn the_example_counts_at_one_node_and_copies_no_buffer() {
    let source = crate_dir().join("../../examples/fm/counter.c");
    let program = GCC.compile(&source, "fm-counter", &["-O2"]);
    for count in [1, 4] {
        let said = run_nodes(&program, &format!("fm-counter-{count}"), count, &["200"]);
        assert_eq!(
            said[0],
            format!("counter {}, bytes 10000000\n", 200 * count)
        );
    }
}

#[test]
fn the_header_stands_alone_and_its_program_needs_the_environment() {
    let source = scratch().join("fm.c");
    let text = "#include <suci/fm.h>\nint main(void)\n{\n    return FM_initialize() != -1;\n}\n";
    fs::write(&source, text).unwrap();
    for compiler in compilers() {
        let program = compiler.compile(&source, "fm", &[]);
        run(Command::new(program).env_remove("SUCI_SIZE"));
    }
}

/// Runs a program at an address beyond loopback, without a key. With an argument it is to allow
/// that.
pub(crate) fn check_insecure_network(name: &str, text: &str) {
    let source = scratch().join(format!("{name}-network.c"));
    fs::write(&source, text).unwrap();
    let program = GCC.compile(&source, &format!("{name}-network"), &[]);
    let book = scratch().join(format!("{name}-network.nodes"));
    fs::write(&book, "0 10.9.8.7:7000\n").unwrap();
    let start = |arguments: &[&str]| {
        let line = "ip link set lo up && ip addr add 10.9.8.7/24 dev lo && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", line, "sh"]);
        command.arg(&program).args(arguments);
        command
            .env("SUCI_ID", "0")
            .env("SUCI_SIZE", "1")
            .env("SUCI_BOOK", &book);
        let output = command.output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, text) = start(&[]);
    assert!(
        code == Some(1) && text.contains("10.9.8.7"),
        "{code:?} {text}"
    );
    assert_eq!(start(&["allowed"]), (Some(0), String::new()));
}

#[test]
fn addresses_beyond_loopback_need_a_key_or_a_word() {
    let text = "\
#include <suci/fm.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1 && FM_allow_insecure_network() != 0)
        return 2;
    if (FM_initialize() != 0) {
        fprintf(stderr, \"%s\\n\", FM_error());
        return 1;
    }
    return FM_allow_insecure_network() != -1 || FM_finalize() != 0;
}
";
    check_insecure_network("fm", text);
}

#[test]
fn each_function_of_fast_messages_is_in_the_man_page() {
    let functions = functions_of("include/suci/fm.h");
    assert_eq!(functions.len(), 18, "the header is not understood");
    check_man_page("fm", &functions);
}
