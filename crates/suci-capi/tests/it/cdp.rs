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

fn ends() -> PathBuf {
    let source = crate_dir().join("tests/cdp/ends.c");
    GCC.compile(
        &source,
        &format!("cdp-ends-{:?}", std::thread::current().id()),
        &[],
    )
}

/// The messages by which sockets tell each other of their end are nobody's loss.
#[test]
fn f20_both_ends_of_many_sockets_close_at_once() {
    const SOCKETS: &str = "3000";
    let ends = ends();
    let took = [(); 3].map(|()| {
        run_nodes(&ends, "cdp-ends", 2, &["close", SOCKETS])
            .iter()
            .map(|said| seconds(said))
            .fold(0.0, f64::max)
    });
    println!("figure: {SOCKETS} sockets closed at both ends, cdp_end() took {took:.3?} s");
}

/// A node that is silent until sockets fail is given up with them.
#[test]
fn f20_the_node_ends_with_the_last_socket() {
    let ends = ends();
    for (words, most) in [
        (["die", ""], 5.0),
        (["stop", ""], 5.0),
        (["stop", "early"], 20.0),
    ] {
        let said = run(Command::new("timeout").arg("120").arg(&ends).args(words));
        let took = seconds(&said);
        assert!(took < most, "{words:?}: {took} s");
        println!("figure: cdp_end() after {words:?} took {took:.1} s");
    }
}

fn seconds(said: &str) -> f64 {
    said.trim().parse().unwrap_or(f64::INFINITY)
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

/// F25: no process has the port of the peer's node: connections are refused at once, as by TCP.
#[test]
fn f25_a_node_without_process_refuses_at_once() {
    let text = "\
#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <suci/cdp.h>
int main(void)
{
    struct timespec begun, now;
    cdp_addr nobody = {1, 80};
    if (cdp_init(-1, NULL, 0, 0) != 0)
        return 2;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (int count = 0; count < 5; count++) {
        int s = cdp_socket();
        if (cdp_connect(s, &nobody) != -1 || errno != ECONNREFUSED)
            return 3;
        cdp_close(s);
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf(\"figure: 5 refused after %.1f ms\\n\",
           (now.tv_sec - begun.tv_sec) * 1e3 + (now.tv_nsec - begun.tv_nsec) / 1e6);
    return now.tv_sec - begun.tv_sec > 2 || cdp_end() != 0;
}
";
    let source = scratch().join("cdp-nobody.c");
    fs::write(&source, text).unwrap();
    let program = GCC.compile(&source, "cdp-nobody", &[]);
    let free = || std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let addresses = [free(), free()].map(|socket| socket.local_addr().unwrap());
    let book = scratch().join("cdp-nobody.nodes");
    let [own, nobody] = addresses;
    fs::write(&book, format!("0 {own}\n1 {nobody}\n")).unwrap();
    let mut command = Command::new(program);
    print!(
        "{}",
        run(command.env("SUCI_ID", "0").env("SUCI_BOOK", &book))
    );
}

#[test]
fn each_function_of_sockets_is_in_the_man_page() {
    let functions = functions_of("include/suci/cdp.h");
    assert_eq!(functions.len(), 20, "the header is not understood");
    check_man_page("cdp", &functions);
}
