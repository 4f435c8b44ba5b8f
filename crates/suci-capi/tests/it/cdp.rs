//! Sockets in the manner of CDP, `cdp.h`: programs in C that use it, and its man page.

use crate::classic::check_man_page;
use crate::fm::{check_insecure_network, run_nodes};
use crate::header::functions_of;
use crate::toolchain::{GCC, compilers, crate_dir, run, scratch};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

fn test_program() -> PathBuf {
    crate_dir().join("tests/cdp/basics.c")
}

#[test]
fn the_test_program_of_sockets_does_what_it_checks() {
    for compiler in compilers() {
        let program = compiler.compile(&test_program(), "cdp-basics", &[]);
        run_nodes(&program, &format!("cdp-{}", compiler.program), 2, &[]);
    }
}

#[test]
fn address_sanitizer_finds_nothing_in_sockets() {
    let flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
    let program = GCC.compile(&test_program(), "cdp-asan", &flags);
    run_nodes(&program, "cdp-asan", 2, &[]);
}

#[test]
fn the_example_of_sockets_echoes() {
    let source = crate_dir().join("../../examples/sockets/echo.c");
    let program = GCC.compile(&source, "cdp-echo", &["-O2"]);
    let said = run_nodes(&program, "cdp-echo", 4, &["100"]);
    assert_eq!(said[0], "300 messages\n");
    assert_eq!(said[3], "100 messages came back\n");
}

#[test]
fn the_header_of_sockets_stands_alone() {
    let source = scratch().join("cdp.c");
    let text = "#include <suci/cdp.h>\nint main(void)\n{\n    return cdp_socket() != -1;\n}\n";
    fs::write(&source, text).unwrap();
    for compiler in compilers() {
        let program = compiler.compile(&source, "cdp", &[]);
        run(&mut Command::new(program));
    }
}

#[test]
fn addresses_beyond_loopback_need_a_key_or_a_word() {
    let text = "\
#include <suci/cdp.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1 && cdp_allow_insecure_network() != 0)
        return 2;
    if (cdp_init(-1, NULL, 0, 0) != 0) {
        fprintf(stderr, \"%s\\n\", cdp_error());
        return 1;
    }
    return cdp_allow_insecure_network() != -1 || cdp_end() != 0;
}
";
    check_insecure_network("cdp", text);
}

#[test]
fn each_function_of_sockets_is_in_the_man_page() {
    let functions = functions_of("include/suci/cdp.h");
    assert_eq!(functions.len(), 20, "the header is not understood");
    check_man_page("cdp", &functions);
}
