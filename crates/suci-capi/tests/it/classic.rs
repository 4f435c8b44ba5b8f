//! The classic interface, `datagram.h`: programs in C that use it, and its man page.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use crate::header::{Function, functions_of};
use crate::toolchain::{GCC, compilers, crate_dir, read, run, scratch};
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The programs of `examples/classic`.
const EXAMPLES: [&str; 8] = [
    "loop",
    "packets",
    "pingpong",
    "broadcast",
    "ndata",
    "transactions",
    "blocks",
    "burst",
];

fn test_program(name: &str) -> PathBuf {
    crate_dir().join(format!("tests/classic/{name}.c"))
}

fn example(name: &str) -> PathBuf {
    let source = crate_dir().join(format!("../../examples/classic/{name}.c"));
    GCC.compile(&source, &format!("classic-{name}"), &["-O2"])
}

/// Returns the first of `count` ports in a row that nobody has. They lie below those that the
/// kernel gives to clients: else a client could take one before its server listens there, and the
/// port of a closed connection is not free for a minute. Each call goes on behind the ports of the
/// one before, and each process begins elsewhere.
pub(crate) fn free_ports(count: u16) -> u16 {
    const PORTS: Range<u32> = 20_300..32_000;
    /// Maximum number of ports of a call. All calls choose among the same first ports, since those
    /// of two calls could overlap otherwise.
    const MOST: u32 = 100;
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    // Not by binding them: a child that another test starts just then would hold the socket until
    // it runs its program.
    let tables =
        ["udp", "tcp"].map(|name| fs::read_to_string(format!("/proc/net/{name}")).unwrap());
    let is_free = |port: u16| {
        let address_end = format!(":{port:04X} ");
        !tables.iter().any(|table| table.contains(&address_end))
    };
    assert!(u32::from(count) <= MOST);
    for _ in 0..100 {
        let taken = TAKEN.fetch_add(count.into(), Ordering::Relaxed);
        let offset = std::process::id().wrapping_mul(61).wrapping_add(taken);
        let first = PORTS.start + offset % (PORTS.end - PORTS.start - MOST);
        let first = first as u16;
        if (first..first + count).all(is_free) {
            return first;
        }
    }
    panic!("no {count} free ports in a row");
}

/// Writes a host table of `count` nodes on loopback. Returns its path.
pub(crate) fn host_table(name: &str, count: u16) -> PathBuf {
    let (first, mut text) = (free_ports(count), String::new());
    for id in 0..count {
        writeln!(text, "{id} 127.0.0.1:{}", first + id).unwrap();
    }
    let path = scratch().join(format!("{name}.nodes"));
    fs::write(&path, text).unwrap();
    path
}

/// Runs the nodes of a program, each with the rest of its arguments. Returns what each wrote.
fn run_nodes(program: &Path, name: &str, faults: Option<&str>, nodes: &[Vec<&str>]) -> Vec<String> {
    let table = host_table(name, nodes.len() as u16);
    let start = |(id, arguments): (usize, &Vec<&str>)| -> Child {
        let mut command = Command::new("timeout");
        command
            .arg("120")
            .arg(program)
            .arg(&table)
            .arg(id.to_string());
        if let Some(faults) = faults {
            command.env("SUCI_FAULTS", faults);
        }
        let piped = command.args(arguments).stdout(Stdio::piped());
        piped.spawn().unwrap()
    };
    // The last ones first: node 0 asks, the others answer.
    let mut started: Vec<Child> = nodes.iter().enumerate().rev().map(start).collect();
    started.reverse();
    let ends = started.into_iter().map(|child| {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{name}: {}", output.status);
        String::from_utf8(output.stdout).unwrap()
    });
    ends.collect()
}

/// The number after a word of a program's output.
fn number(text: &str, word: &str) -> f64 {
    let (_, rest) = text.split_once(word).unwrap_or_else(|| panic!("{text}"));
    let rest = rest.trim_start();
    let end = rest.find(|letter: char| letter != '.' && !letter.is_ascii_digit());
    rest[..end.unwrap_or(rest.len())].parse().unwrap()
}

#[test]
fn test_programs_do_what_they_check() {
    for name in ["basics", "packets", "connections"] {
        let program = GCC.compile(&test_program(name), &format!("classic-test-{name}"), &[]);
        let port = free_ports(4).to_string();
        run(Command::new("timeout").arg("60").arg(program).arg(port));
    }
}

#[test]
fn address_sanitizer_finds_nothing_in_classic_programs() {
    for name in ["basics", "packets", "connections"] {
        let flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
        let program = GCC.compile(&test_program(name), &format!("classic-asan-{name}"), &flags);
        let port = free_ports(4).to_string();
        // A packet of a quarter of all addresses is asked for: no more than null may come of it.
        run(Command::new("timeout")
            .arg("60")
            .arg(program)
            .arg(port)
            .env("ASAN_OPTIONS", "detect_leaks=1:allocator_may_return_null=1"));
    }
}

#[test]
fn the_header_stands_alone_in_c_and_cpp() {
    let source = scratch().join("datagram.c");
    let text = "#include <suci/datagram.h>\nint main(void)\n{\n    return datagram_ready(0, 0, 0) != -1;\n}\n";
    fs::write(&source, text).unwrap();
    for compiler in compilers() {
        run(&mut Command::new(compiler.compile(
            &source,
            "datagram",
            &[],
        )));
    }
}

/// The first listing of the paper, over 5 % loss: 10,000 messages each way.
fn loop_over_loss(name: &str, mode: &str) {
    let program = example("loop");
    let arguments = |other| vec![other, "10000", mode];
    let faults = Some("loss=0.05,seed=11");
    let nodes = [arguments("1"), arguments("0")];
    for said in run_nodes(&program, name, faults, &nodes) {
        assert!(said.contains("received 10000, lost 0, twice 0"), "{said}");
        assert!(number(&said, "packets dropped") >= 20.0, "{said}");
        if mode == "manual" {
            assert!(number(&said, "retransmissions") >= 1.0, "{said}");
        }
    }
}

#[test]
fn the_loop_of_the_paper_over_loss_with_manual_retransmission() {
    loop_over_loss("loop-manual", "manual");
}

#[test]
fn the_loop_of_the_paper_over_loss_with_automatic_retransmission() {
    loop_over_loss("loop-automatic", "automatic");
}

/// Without the program's retransmission, a manual socket resends nothing.
#[test]
fn only_the_program_retransmits_on_a_manual_socket() {
    let source = test_program("manual");
    let program = GCC.compile(&source, "classic-test-manual", &[]);
    let port = free_ports(2).to_string();
    run(Command::new("timeout").arg("60").arg(program).arg(port));
}

/// The second listing of the paper: one packet of 1 MiB to 9 receivers.
#[test]
fn the_packet_loop_of_the_paper_copies_no_payload() {
    let nodes = vec![vec!["20", "1048576"]; 10];
    let said = run_nodes(&example("packets"), "packets", None, &nodes);
    assert_eq!(said[0], "answers 180, copied 0\n");
}

#[test]
fn evaluations_run_with_each_method() {
    let brief = |methods: &[&'static str]| -> Vec<Vec<&'static str>> {
        methods
            .iter()
            .map(|method| vec![*method, "0.002"])
            .collect()
    };
    let three = brief(&["write", "packet", "tcp"]);
    let runs = [
        ("pingpong", 2, three.clone()),
        ("broadcast", 3, three.clone()),
        ("ndata", 10, brief(&["each", "end", "packet", "tcp"])),
        (
            "transactions",
            9,
            vec![
                vec!["suci", "30"],
                vec!["tcp-each", "30"],
                vec!["tcp-kept", "30"],
            ],
        ),
        ("blocks", 2, three),
        ("burst", 2, brief(&["window", "adaptive", "tcp"])),
    ];
    for (name, nodes, methods) in runs {
        let program = example(name);
        for arguments in methods {
            let table = format!("{name}-{}", arguments[0]);
            let said = run_nodes(&program, &table, None, &vec![arguments; nodes]);
            let lines: Vec<&str> = said[0].lines().collect();
            assert!(lines.len() >= 4, "{table}: {lines:?}");
            for line in lines {
                let (_, value) = line.split_once(' ').unwrap();
                assert!(value.parse::<f64>().unwrap() > 0.0, "{table}: {line}");
            }
        }
    }
    for name in EXAMPLES {
        let path = crate_dir().join(format!("../../examples/classic/{name}.c"));
        assert!(path.exists(), "{name}");
    }
}

/// Checks that the page `man/PAGE.3` has each function of a header, and that the pages of the
/// functions name it.
pub(crate) fn check_man_page(page: &str, functions: &[Function]) {
    let of_page = page;
    let page = read(&format!("man/{page}.3"));
    let page = page.replace("\" ", "").replace(" \"", "");
    for function in functions {
        let name = &function.name;
        let heading = page.split(".SH SYNOPSIS").next().unwrap();
        let words = |text: &str| -> Vec<String> {
            let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
            let words = text.split(|letter| !is_part(letter));
            words.map(str::to_owned).collect()
        };
        assert!(words(heading).contains(name), "{name} is not named");
        let start = page.find(&format!("{name}(")).unwrap();
        let synopsis = page[start..].split(';').next().unwrap();
        for (_, parameter) in &function.parameters {
            assert!(words(synopsis).contains(parameter), "{name}: {parameter}");
        }
        if name != of_page {
            let alias = read(&format!("man/{name}.3"));
            assert_eq!(alias, format!(".so man3/{of_page}.3\n"), "{name}");
        }
    }
}

#[test]
fn each_classic_function_is_in_the_man_page() {
    let functions = functions_of("include/suci/datagram.h");
    assert!(functions.len() > 25, "the header is not understood");
    check_man_page("datagram", &functions);
}

/// The 18 functions that the papers name.
const PAPERS: [&str; 18] = [
    "ack_sync",
    "addressdb_lex",
    "datagram",
    "datagram_destination",
    "datagram_disconnect",
    "datagram_getdestbuf",
    "datagram_new_packet",
    "datagram_packet_get",
    "datagram_packet_put",
    "datagram_queue_length",
    "datagram_rapid",
    "datagram_read",
    "datagram_ready",
    "datagram_reconnect",
    "datagram_retransmission",
    "datagram_state",
    "datagram_through",
    "datagram_write",
];

#[test]
fn the_header_marks_the_functions_of_the_papers() {
    let header = read("include/suci/datagram.h");
    let marked = header.split("; /* papers */").map(|before| {
        let declaration = before.rsplit("*/").next().unwrap_or_default();
        let head = declaration.split('(').next().unwrap_or_default();
        head.rsplit([' ', '*', '\n']).next().unwrap_or_default()
    });
    let count = header.matches("; /* papers */").count();
    let mut marked: Vec<_> = marked.take(count).collect();
    marked.sort_unstable();
    assert_eq!(marked, PAPERS);
}

/// Each header by itself, in each language and by each compiler.
#[test]
fn headers_cause_no_warning() {
    let c = ["-std=c99", "-std=gnu99", "-std=c11", "-std=c2x"];
    let cpp = ["-std=c++11", "-std=c++17", "-std=c++20"];
    for header in ["suci", "datagram", "fm", "cdp"] {
        let source = scratch().join(format!("only-{header}.c"));
        fs::write(&source, format!("#include <suci/{header}.h>\n")).unwrap();
        for (compiler, language, standards) in [
            ("gcc", "c", &c[..]),
            ("clang", "c", &c[..]),
            ("g++", "c++", &cpp[..]),
            ("clang++", "c++", &cpp[..]),
        ] {
            for standard in standards {
                let mut command = Command::new(compiler);
                command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]);
                command.arg("-I").arg(crate_dir().join("include"));
                run(command.args([standard, "-x", language]).arg(&source));
            }
        }
    }
}
