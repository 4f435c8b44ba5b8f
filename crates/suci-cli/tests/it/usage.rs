//! Bad arguments, and the output of `ping` and `perf`.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{
    PATIENCE, Running, await_node, errors, free_address, output, path, pings, printed, suci,
};

/// The error message of a command line that is refused with this status.
fn refusal(args: &[&str], status: i32) -> String {
    let output = output(&mut suci(args));
    assert_eq!(
        output.status.code(),
        Some(status),
        "{args:?}: {}",
        errors(&output)
    );
    errors(&output)
}

#[test]
fn bad_arguments_are_named_with_value_and_remedy() {
    for (args, parts) in [
        (&["cat"][..], &["<ADDR", "--listen <ADDR>"][..]),
        (&["cat", "127.0.0.1"], &["127.0.0.1", "address:port"]),
        (
            &["cat", "127.0.0.1:1", "--listen", "127.0.0.1:2"],
            &["cannot be used with"],
        ),
        (
            &["cat", "127.0.0.1:1", "--faults", "loss=2"],
            &["loss=2", "probability"],
        ),
        (
            &["cat", "127.0.0.1:1", "--faults", "lose=0.1"],
            &["`lose` is unknown", "loss, dup"],
        ),
        (
            &["ping", "127.0.0.1:1", "--size", "0"],
            &["0", "bytes from 1"],
        ),
        (&["run", "-n", "0", "true"], &["0", "from 1 to 4096"]),
        (&["run", "-n", "2"], &["PROGRAM"]),
        (
            &["perf", "--workload", "pingpong"],
            &["pingpong", "ping-pong"],
        ),
        (&["perf", "--pin", "1"], &["two processor numbers"]),
        (
            &["ping", "127.0.0.1:1", "--timeout", "-1"],
            &["'-1'", "seconds from 0"],
        ),
        (&["ping", "--book", "b", "--id", "-1"], &["'-1'", "--id"]),
        (
            &["ping", "127.0.0.1:1", "--timeout", "0"],
            &["'0'", "seconds from 0.001"],
        ),
        (
            &["ping", "127.0.0.1:1", "--metrics", ":0"],
            &["':0'", "a port other than 0"],
        ),
        (
            &["cat", "127.0.0.1:1", "--connect-timeout", "0"],
            &["'0'", "seconds from 0.001"],
        ),
        (
            &["cat", "127.0.0.1:1", "--give-up-after", "0"],
            &["'0'", "seconds from 0.001"],
        ),
        (
            &["cat", "127.0.0.1:1", "--faults", ""],
            &["--faults", "at least one fault"],
        ),
        (&["perf", "--seconds", "0"], &["'0'", "seconds from 0.001"]),
        (
            &["perf", "--size", "1KiB..64"],
            &["1KiB..64", "smaller size first"],
        ),
        (
            &["perf", "--size", "64..9TiB"],
            &["64..9TiB", "bytes from 1"],
        ),
        (
            &["perf", "--listen", "127.0.0.1:1", "--plot", "x.svg"],
            &["cannot be used with"],
        ),
        (&["perf", "--rounds", "-1"], &["'-1'", "from 1 to 10000"]),
        (&["run", "-n", "-1", "true"], &["'-1'", "from 1 to 4096"]),
        (&["demo", "--messages", "-1"], &["'-1'", "--messages"]),
        (&["stat", "abc"], &["'abc'", "the number of a process"]),
        (&["stat", "-1"], &["'-1'", "the number of a process"]),
        (&["top", "0"], &["'0'", "the number of a process"]),
        (&["pong"], &["pong", "ping"]),
        (
            &["completions", "tcsh"],
            &["'tcsh'", "bash, elvish, fish, powershell, zsh"],
        ),
    ] {
        let said = refusal(args, 2);
        for part in parts {
            assert!(said.contains(part), "{args:?} said {said:?}, not {part:?}");
        }
    }
}

/// The library's log of its connections goes to standard error, if asked for.
#[test]
fn rust_log_shows_why_no_answer_comes() {
    let nobody = free_address().to_string();
    for (filter, shown) in [("suci=debug", true), ("suci=info", false)] {
        let mut ping = suci(&["ping", &nobody, "--count", "1", "--timeout", "0.3"]);
        let said = errors(&output(ping.env("RUST_LOG", filter)));
        for part in ["packet=HELLO", "reason=Port", &format!("address={nobody}")] {
            assert_eq!(said.contains(part), shown, "{filter}: {part} in {said}");
        }
    }
}

#[test]
fn the_network_needs_plain() {
    for args in [
        &["cat", "192.0.2.7:7000"][..],
        &["cat", "--listen", "0.0.0.0:0"],
        &["ping", "192.0.2.7:7000"],
    ] {
        let said = refusal(args, 1);
        assert!(
            said.contains("not a loopback address") && said.contains("--plain"),
            "{said}"
        );
    }
    let said = refusal(&["perf", "192.0.2.7:7000"], 1);
    assert!(
        said.contains("192.0.2.7:7000") && said.contains("--plain"),
        "{said}"
    );
}

#[test]
fn ping_requires_a_target() {
    assert!(refusal(&["ping"], 1).contains("suci run"));
    assert!(refusal(&["ping", "7"], 1).contains("--book"));
    assert!(refusal(&["ping", "7", "--book", "x"], 2).contains("--id"));
    let said = refusal(&["ping", "7", "--book", "/no/such/book", "--id", "0"], 1);
    assert!(said.contains("/no/such/book"), "{said}");
}

#[test]
fn an_address_book_maps_ids_to_addresses() {
    let dir = tempfile::tempdir().unwrap();
    let book = dir.path().join("book");
    let (zero, three) = (free_address(), free_address());
    std::fs::write(&book, format!("0 {zero}\n3 {three} # the other one\n")).unwrap();
    let book = book.to_str().unwrap();
    let mut answering = Running::start(&mut suci(&["ping", "--book", book, "--id", "3"]));
    assert!(
        answering
            .first_error_line()
            .contains(&format!("node 3 answering at {three}"))
    );
    let args = [
        "ping",
        "--book",
        book,
        "--id",
        "0",
        "3",
        "--count",
        "2",
        "--interval",
        "0.01",
    ];
    let output = output(&mut suci(&args));
    assert!(output.status.success(), "{}", errors(&output));
    assert!(
        printed(&output).contains("64 B from node 3: number 1, "),
        "{}",
        printed(&output)
    );
    assert!(
        refusal(&["ping", "--book", book, "--id", "0", "4"], 1)
            .contains(&format!("\"4\" is no node of the book {book}"))
    );
}

/// Nodes 0 and 1 have no address of each other, only a route by node 2, which is a command, too.
#[test]
fn a_node_is_pinged_through_one_that_forwards() {
    let dir = tempfile::tempdir().unwrap();
    let [zero, one, two] = [0; 3].map(|_| free_address());
    let book = |name: &str, lines: String| {
        let file = dir.path().join(name);
        std::fs::write(&file, lines).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let books = [
        book("0", format!("0 {zero}\n2 {two}\n1 via 2\n")),
        book("1", format!("1 {one}\n2 {two}\n0 via 2\n")),
        book("2", format!("0 {zero}\n1 {one}\n2 {two}\n")),
    ];
    let ping = |id: usize, more: &[&str]| {
        let id = id.to_string();
        suci(
            &[
                &[
                    "ping",
                    "--book",
                    &books[id.parse::<usize>().unwrap()],
                    "--id",
                    &id,
                ],
                more,
            ]
            .concat(),
        )
    };
    let mut answering = Running::start(&mut ping(1, &[]));
    assert!(answering.first_error_line().contains("node 1 answering"));
    let mut forwarding = Running::start(&mut ping(2, &["--forward"]));
    assert!(forwarding.first_error_line().contains("node 2 answering"));
    let output = output(&mut ping(0, &["1", "--count", "3", "--interval", "0.01"]));
    assert!(output.status.success(), "{}", errors(&output));
    let said = printed(&output);
    assert!(said.contains("64 B from node 1: number 2, "), "{said}");
    println!("figure: {}", said.lines().last().unwrap());
    let said = refusal(&["ping", "--book", &books[0], "--id", "0", "3"], 1);
    assert!(said.contains("\"3\" is no node of the book"), "{said}");
}

#[test]
fn ping_counts_round_trips_and_survives_faults() {
    let at = free_address().to_string();
    let mut answering = Running::start(&mut suci(&["ping", "--listen", &at]));
    assert!(answering.first_error_line().contains("answering"));
    let more = [
        "--size",
        "5000",
        "--json",
        "--faults",
        "loss=0.2,dup=0.2,seed=3",
    ];
    let output = output(pings(&at, "30").args(more));
    assert!(output.status.success(), "{}", errors(&output));
    let said = printed(&output);
    for part in [
        r#""count":30"#,
        r#""size":5000"#,
        r#""unit":"us""#,
        r#""median":"#,
        r#""p99":"#,
    ] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn an_unanswered_ping_says_so_and_that_the_port_is_closed() {
    let at = free_address().to_string();
    let said = refusal(&["ping", &at, "--timeout", "0.4"], 1);
    assert!(
        said.contains(&format!("no answer from {at}"))
            && said.contains("its port is closed")
            && said.contains("--listen"),
        "{said}"
    );
}

#[test]
fn a_ping_that_a_signal_ends_reports_what_it_has() {
    let at = free_address().to_string();
    let mut answering = Running::start(&mut suci(&["ping", "--listen", &at]));
    assert!(answering.first_error_line().contains("answering"));
    for (form, part) in [
        (&["--interval", "0.05"][..], " round trips, min "),
        (&["--interval", "3600", "--json"], "\"count\":1,"),
    ] {
        let args = [&["ping", &at, "--count", "100000"][..], form].concat();
        let ping = Running::start(&mut suci(&args));
        await_node(&ping, |node| node["counters"]["messages_received"] != 0);
        // The command notes the time of a message after it has counted it.
        std::thread::sleep(Duration::from_millis(300));
        kill_process(Pid::from_child(&ping.0), Signal::INT).unwrap();
        let output = ping.finish();
        assert_eq!(output.status.signal(), Some(2), "{}", errors(&output));
        let said = printed(&output);
        let last = said.lines().last().unwrap_or_default();
        assert!(last.contains(part), "{said}");
    }
}

#[test]
fn a_ping_whose_answers_end_reports_what_it_has() {
    let at = free_address().to_string();
    let mut answering = Running::start(&mut suci(&["ping", "--listen", &at]));
    assert!(answering.first_error_line().contains("answering"));
    let args = ["--count", "100000", "--interval", "0.05", "--timeout", "1"];
    let mut ping = Running::start(&mut suci(&[&["ping", &at][..], &args].concat()));
    assert!(ping.first_line().contains("number 0"));
    drop(answering);
    let output = ping.finish();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        errors(&output).contains("no answer from"),
        "{}",
        errors(&output)
    );
    let said = printed(&output);
    let last = said.lines().last().unwrap_or_default();
    assert!(last.contains(" round trips, min "), "{said}");
}

/// Pieces would mix with the output of other processes to the same file.
#[test]
fn a_report_is_written_in_one_piece() {
    for (args, status) in [
        (&["ping", "7"][..], 1),
        (&["ping", "--seconds"], 2),
        (&["run", "-n", "1", "sh", "-c", "exit 3"], 3),
    ] {
        // Each write becomes a datagram of its own.
        let (to, from) = UnixDatagram::pair().unwrap();
        let mut command = suci(args);
        let child = command.stdin(Stdio::null()).stderr(OwnedFd::from(to));
        let mut child = Running(child.spawn().unwrap());
        assert_eq!(child.wait().code(), Some(status));
        from.set_nonblocking(true).unwrap();
        let mut piece = [0; 4096];
        let length = from.recv(&mut piece).unwrap();
        let said = String::from_utf8_lossy(&piece[..length]).into_owned();
        assert!(said.ends_with('\n'), "{args:?} first said {said:?}");
        assert!(
            from.recv(&mut piece).is_err(),
            "{args:?} said {said:?} and more"
        );
    }
}

/// The output of a command that a shell runs with its standard output closed or redirected.
fn redirected(redirection: &str, args: &[&str]) -> std::process::Output {
    let script = format!("\"$@\" {redirection}");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script, "sh", path()]).args(args);
    output(&mut shell)
}

#[test]
fn output_that_has_nowhere_to_go_is_an_error() {
    let at = free_address().to_string();
    let mut answering = Running::start(&mut suci(&["ping", "--listen", &at]));
    assert!(answering.first_error_line().contains("answering"));
    let perf = [&["perf", "--workload", "ping-pong"][..], &QUICK].concat();
    for args in [
        &["stat"][..],
        &["ping", &at, "--count", "1"],
        &perf,
        &["run", "-n", "2", "--tag-output", "echo", "hi"],
        &["run", "-n", "2", "echo", "hi"],
        &["cat", "--listen", "127.0.0.1:0"],
        &["completions", "bash"],
        &["man"],
        &["--help"],
        &["ping", "--help"],
        &["--version"],
    ] {
        let closed = redirected(">&-", args);
        assert_eq!(closed.status.code(), Some(1), "{args:?}");
        let said = errors(&closed);
        assert!(
            said.contains("standard output is closed: write to"),
            "{args:?}: {said}"
        );
    }
    for args in [
        &["stat"][..],
        &["completions", "bash"],
        &["man"],
        &["--help"],
        &["ping", "--help"],
        &["--version"],
    ] {
        let full = redirected(">/dev/full", args);
        assert_eq!(full.status.code(), Some(1), "{args:?}");
        let said = errors(&full);
        assert!(
            said.contains("standard output: No space left"),
            "{args:?}: {said}"
        );
        let (reader, pipe) = std::io::pipe().unwrap();
        drop(reader);
        let child = suci(args).stdout(pipe).stderr(Stdio::piped()).spawn();
        let broken = Running(child.unwrap()).finish();
        assert_eq!(broken.status.code(), Some(1), "{args:?}");
        let said = errors(&broken);
        assert!(
            said.contains("standard output: Broken pipe"),
            "{args:?}: {said}"
        );
    }
    // Users end a table that goes on when they have seen enough; a picture of the whole is drawn
    // all the same.
    let dir = tempfile::tempdir().unwrap();
    let picture = dir.path().join("sizes.svg");
    for args in [&[][..], &["--plot", picture.to_str().unwrap()]] {
        let (reader, pipe) = std::io::pipe().unwrap();
        drop(reader);
        let child = suci(&[&perf, args].concat())
            .stdout(pipe)
            .stderr(Stdio::piped())
            .spawn();
        let broken = Running(child.unwrap()).finish();
        assert_eq!(
            (broken.status.code(), errors(&broken)),
            (Some(0), String::new()),
            "{args:?}"
        );
    }
    assert!(picture.exists());
    // Commands that print nothing do not fail.
    let written = redirected(">&-", &["man", dir.path().to_str().unwrap()]);
    assert!(written.status.success(), "{}", errors(&written));
    let at = free_address().to_string();
    let script = format!("exec {} ping --listen {at} >&-", path());
    let mut quiet = Running::start(std::process::Command::new("sh").args(["-c", &script]));
    assert!(quiet.first_error_line().contains("answering"));
}

#[test]
fn ping_names_unknown_nodes_and_silent_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let book = dir.path().join("book");
    let (zero, one) = (free_address(), free_address());
    std::fs::write(&book, format!("0 {zero}\n1 {one}\n")).unwrap();
    let book = book.to_str().unwrap();
    let begun = Instant::now();
    for target in [&[][..], &["1"]] {
        let args = [&["ping", "--book", book, "--id", "7"], target].concat();
        let said = refusal(&args, 1);
        let part = format!("node 7 is not in the book {book}: add it");
        assert!(said.contains(&part), "{said}");
    }
    assert!(begun.elapsed() < Duration::from_secs(8));
    let args = ["ping", "--book", book, "--id", "0", "1", "--timeout", "0.3"];
    let said = refusal(&args, 1);
    assert!(
        said.contains("suci ping --id 1 with the same --book"),
        "{said}"
    );
    assert!(!said.contains("--listen"), "{said}");
}

/// A process without an entry in the book would wait for the others for ever.
#[test]
fn an_id_of_the_environment_that_its_book_does_not_have_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let book = dir.path().join("book");
    let (zero, one) = (free_address(), free_address());
    std::fs::write(&book, format!("0 {zero}\n1 {one}\n")).unwrap();
    for command in ["demo", "ping", "perf"] {
        let mut command = suci(&[command]);
        let variables = [("SUCI_ID", "5"), ("SUCI_SIZE", "9")];
        command.envs(variables).env("SUCI_BOOK", &book);
        let begun = Instant::now();
        let output = output(&mut command);
        assert!(begun.elapsed() < Duration::from_secs(8));
        let said = errors(&output);
        let part = format!("SUCI_ID=5: not in the book SUCI_BOOK={}: ", book.display());
        assert!(!output.status.success() && said.contains(&part), "{said}");
    }
}

#[test]
fn perf_without_a_server_says_so_soon() {
    let at = free_address().to_string();
    let begun = Instant::now();
    let said = refusal(&["perf", &at], 1);
    assert!(said.contains(&format!("no server at {at}")), "{said}");
    assert!(
        begun.elapsed() < Duration::from_secs(8),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn the_demo_looks_at_file_and_directory_first() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "content").unwrap();
    let (file, into) = (file.to_str().unwrap(), dir.path().to_str().unwrap());
    for (file, into, part) in [
        ("/nope", into, "/nope: No such file or directory"),
        (into, into, "is no regular file: name a regular file"),
        ("/dev/zero", into, "/dev/zero is no regular file: name"),
        (file, "/nope", "name a directory to write to with --into"),
        (file, file, "name a directory to write to with --into"),
    ] {
        let demo = ["demo", "--messages", "5", "--file", file, "--into", into];
        let output = output(&mut suci(
            &[&["run", "-n", "2", path()], &demo[..]].concat(),
        ));
        assert_eq!(output.status.code(), Some(1), "{file} {into}");
        assert!(
            errors(&output).contains(part),
            "{file} {into}: {}",
            errors(&output)
        );
        assert_eq!(printed(&output), "", "{file} {into}");
    }
}

/// The rows of a measurement, one JSON object per line.
fn rows(args: &[&str]) -> Vec<Value> {
    let output = output(&mut suci(args));
    assert!(output.status.success(), "{}", errors(&output));
    printed(&output)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

const QUICK: [&str; 5] = ["--rounds", "2", "--seconds", "0.05", "--json"];

#[test]
fn perf_measures_every_workload_beside_tcp_and_udp() {
    let rows = rows(&[&["perf", "--vs", "tcp,udp", "--receivers", "2"], &QUICK[..]].concat());
    for workload in [
        "ping-pong",
        "stream",
        "stream-batch",
        "rate",
        "rate-batch",
        "broadcast",
        "n-data",
        "n-data-batch",
        "all-to-all",
        "all-to-all-batch",
        "mix",
        "mix-batch",
    ] {
        let rivals = match workload {
            "all-to-all" | "all-to-all-batch" => &["suci"][..],
            // UDP would wait for ever for lost packets.
            "mix" | "mix-batch" | "n-data" | "n-data-batch" => &["suci", "tcp"][..],
            _ => &["suci", "tcp", "udp"],
        };
        for &contender in rivals {
            let mut found = rows
                .iter()
                .filter(|row| row["workload"] == workload && row["contender"] == contender);
            let row = found.next().unwrap();
            assert!(row["median"].as_f64().unwrap() > 0.0, "{row}");
            assert!(row["min"].as_f64() <= row["median"].as_f64(), "{row}");
            assert!(row["packets"].as_u64().unwrap() > 0, "{row}");
            assert_eq!(row["rounds"], 2);
            // Where time was lost: only Suci knows, of both sides.
            let sides = ["client", "server"].map(|side| row["waited"][side].is_object());
            assert_eq!(sides, [contender == "suci"; 2], "{row}");
            assert!(found.next().is_none());
        }
    }
}

#[test]
fn perf_tells_where_the_time_goes_and_draws_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let picture = dir.path().join("sizes.svg");
    let args = [
        "perf",
        "--profile",
        "--vs",
        "tcp",
        "--plot",
        picture.to_str().unwrap(),
    ];
    let sweep = ["--workload", "ping-pong,stream", "--size", "64..256"];
    let rows = rows(&[&args[..], &sweep, &QUICK].concat());
    assert_eq!(rows.len(), 2 * 3 * 2);
    for row in &rows {
        for side in ["client", "server"] {
            let split = &row["profile"][side];
            let part = |name: &str| split[name].as_f64().unwrap();
            let (work, waiting) = (part("user") + part("kernel"), part("waiting"));
            // The time without work is waiting; helper threads can only add work.
            assert!(
                work > 0.0 && (waiting - (1.0 - work).max(0.0)).abs() < 1e-6,
                "{row}"
            );
        }
    }
    let drawn = std::fs::read_to_string(&picture).unwrap();
    let panels = suci_plot::Picture::read(&drawn).unwrap().panels;
    let titles: Vec<&str> = panels.iter().map(|panel| panel.title.as_str()).collect();
    assert_eq!(titles, ["ping-pong", "stream"]);
    for panel in &panels {
        let lines = panel
            .series
            .iter()
            .map(|it| (it.name.as_str(), it.points.len()));
        assert_eq!(lines.collect::<Vec<_>>(), [("suci", 3), ("tcp cubic", 3)]);
    }
}

#[test]
fn a_picture_that_could_not_be_kept_is_refused_before_measuring() {
    for path in ["/nope/sizes.svg", "/"] {
        let args = ["perf", "--rounds", "10000", "--plot", path];
        let began = Instant::now();
        let said = refusal(&args, 1);
        assert!(said.contains(&format!("--plot {path}")), "{said}");
        assert!(began.elapsed() < PATIENCE, "{said}");
    }
}

/// The file that standard output goes to holds both: replaced, it would lose the table.
#[test]
fn a_picture_at_standard_output_follows_the_table() {
    let dir = tempfile::tempdir().unwrap();
    let both = dir.path().join("both");
    let redirected = std::fs::File::create(&both).unwrap();
    // As /dev/stdout, which a test had better not name: wrong code might replace it.
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("/proc/self/fd/1", &link).unwrap();
    let link = link.to_str().unwrap();
    let args = ["perf", "--workload", "ping-pong", "--plot", link];
    let mut perf = suci(&[&args[..], &QUICK].concat());
    let out = perf.stdout(redirected).output().unwrap();
    assert!(out.status.success(), "{}", errors(&out));
    let both = std::fs::read_to_string(&both).unwrap();
    let (table, picture) = both.split_once("<svg").unwrap();
    assert!(
        table.contains("ping-pong") && picture.contains("</svg>"),
        "{both}"
    );
}

#[test]
fn perf_compares_the_modes_in_one_table() {
    let modes = ["adaptive", "throughput", "response"];
    let args = ["perf", "--prefer", "adaptive,throughput,response"];
    let workloads = ["--workload", "ping-pong,stream"];
    let rows = rows(&[&args[..], &workloads, &QUICK].concat());
    assert_eq!(rows.len(), 6);
    for row in &rows {
        assert!(modes.iter().any(|mode| row["prefer"] == *mode), "{row}");
        let acks = row["acks_per_packet"].as_f64();
        assert_eq!(acks.is_some(), row["workload"] == "stream", "{row}");
    }
}

#[test]
fn perf_measures_against_a_server_that_listens() {
    let at = free_address().to_string();
    let mut server = Running::start(&mut suci(&["perf", "--listen", &at]));
    assert!(server.first_error_line().contains("serving at"));
    let args = [
        "perf",
        &at,
        "--workload",
        "ping-pong,rate",
        "--size",
        "64,200",
        "--wait",
        "spin",
        "--vs",
        "tcp",
    ];
    // Twice: a server outlives its clients.
    for _ in 0..2 {
        let rows = rows(&[&args[..], &QUICK].concat());
        assert_eq!(rows.len(), 8);
        assert!(
            rows.iter()
                .all(|row| row["size"] == 64 || row["size"] == 200)
        );
    }
}

/// Beyond loopback a server with a key is no plain one.
#[test]
fn perf_serves_at_all_addresses_with_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("cluster.key");
    let made = output(suci(&["keygen"]).arg(&key));
    assert!(made.status.success(), "{}", errors(&made));
    let at = format!("0.0.0.0:{}", free_address().port());
    let mut server = Running::start(suci(&["perf", "--listen", &at, "--key-file"]).arg(&key));
    let said = server.first_error_line();
    assert!(said.contains("serving at"), "{said}");
    drop(server);
    let said = refusal(&["perf", "--listen", &at], 1);
    assert!(said.contains("loopback"), "{said}");
}

#[test]
fn perf_takes_faults_and_processors() {
    let faults = ["--faults", "loss=0.01,seed=1", "--pin", "0,0"];
    let args = [
        &["perf", "--workload", "stream", "--size", "100000"],
        &faults[..],
        &QUICK,
    ]
    .concat();
    assert_eq!(rows(&args).len(), 1);
    let said = refusal(
        &[
            "perf",
            "--workload",
            "stream",
            "--pin",
            "99999,0",
            "--seconds",
            "0.1",
        ],
        1,
    );
    assert!(said.contains("--pin 99999"), "{said}");
    // The user did not use `run`.
    assert!(!said.contains("suci run"), "{said}");
}

#[test]
fn perf_under_a_launch_broadcasts_to_all() {
    let launch = ["run", "-n", "4", path(), "perf"];
    let what = [
        "--workload",
        "broadcast,n-data,n-data-batch,all-to-all,all-to-all-batch",
        "--size",
        "50000",
    ];
    let answers = ["--vs", "tcp", "--data", "7"];
    let rows = rows(&[&launch[..], &what, &answers, &QUICK].concat());
    assert_eq!(rows.len(), 8);
    for row in &rows {
        assert_eq!(row["receivers"], 3, "{row}");
    }
    for row in rows.iter().filter(|row| row["workload"] != "broadcast") {
        // Seven to each of three, then the answers, or the same of all four.
        let to_all = row["workload"].as_str().unwrap().starts_with("all-to-all");
        let group = if to_all { 84 } else { 21 };
        let messages = row["messages"].as_u64().unwrap();
        assert_eq!(messages % group, 0, "{row}");
        assert_eq!(row["bytes"], messages * 50_000, "{row}");
        assert!(row["p99"].as_f64() >= row["p50"].as_f64(), "{row}");
        assert_eq!(row["unit"], "us", "{row}");
    }
}

#[test]
fn a_udp_port_in_use_is_reported_before_any_client_comes() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let said = refusal(&["perf", "--listen", &at], 1);
    assert!(said.contains(&format!("UDP port of {at}")), "{said}");
}

#[test]
fn batches_of_large_messages_end() {
    let args = [
        "perf",
        "--workload",
        "rate-batch",
        "--size",
        "67108864",
        "--rounds",
        "1",
        "--seconds",
        "0.01",
    ];
    let output = output(&mut suci(&args));
    assert!(output.status.success(), "{}", errors(&output));
}

#[test]
fn perf_serves_the_next_client_when_one_was_killed() {
    let at = free_address().to_string();
    let mut server = Running::start(&mut suci(&["perf", "--listen", &at]));
    assert!(server.first_error_line().contains("serving at"));
    let args = ["perf", &at, "--workload", "stream", "--seconds", "600"];
    let client = Running::start(&mut suci(&args));
    // A client that hangs up between its measurements is through. The first only warms up, for a
    // tenth of a second.
    let received = |node: &Value| node["counters"]["messages_received"].as_u64().unwrap();
    await_node(&server, |node| received(node) > 0);
    std::thread::sleep(Duration::from_secs(1));
    let before = received(&await_node(&server, |_| true));
    await_node(&server, |node| received(node) > before);
    let begun = Instant::now();
    drop(client);
    assert!(server.first_error_line().contains("the client has gone"));
    assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
    let rows = rows(&[&["perf", &at, "--workload", "ping-pong"][..], &QUICK].concat());
    assert_eq!(rows.len(), 1);
}

#[test]
fn perf_notices_that_its_server_was_killed() {
    for workload in ["stream", "ping-pong", "n-data"] {
        let at = free_address().to_string();
        let mut server = Running::start(&mut suci(&["perf", "--listen", &at]));
        assert!(server.first_error_line().contains("serving at"));
        let args = ["perf", &at, "--workload", workload, "--seconds", "600"];
        let client = Running::start(&mut suci(&args));
        await_node(&server, |node| node["counters"]["messages_received"] != 0);
        // Past the warm-up, which lasts for a tenth of a second.
        std::thread::sleep(Duration::from_secs(1));
        let begun = Instant::now();
        drop(server);
        let output = client.finish();
        assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
        assert_eq!(output.status.code(), Some(1));
        let said = errors(&output);
        let part = format!("the server at {at} has gone: see its error output");
        assert!(said.contains(&part), "{workload}: {said}");
    }
}

/// The behaviour of one client does not keep others from being answered.
#[test]
fn ping_outlives_peers_that_send_and_suspend() {
    let at = free_address();
    let mut answering = Running::start(&mut suci(&["ping", "--listen", &at.to_string()]));
    answering.first_error_line();
    let server = Pid::from_child(&answering.0);
    let mut node = suci::Node::builder().id(suci::NodeId(9)).open().unwrap();
    let to = suci::NodeId(2);
    node.add_peer(to, at).unwrap();
    node.send(to, "first").unwrap();
    assert!(node.recv_timeout(PATIENCE).unwrap().is_some());
    node.flush(PATIENCE).unwrap();
    // The server finds both in its socket, but may answer the one before it takes the other.
    let refused = (0..200).any(|_| {
        kill_process(server, Signal::STOP).unwrap();
        node.send(to, "second").unwrap();
        node.peer(to).suspend().unwrap();
        kill_process(server, Signal::CONT).unwrap();
        let while_suspended = node.recv_timeout(Duration::from_millis(300)).unwrap();
        let mut refused = while_suspended.is_none();
        node.peer(to).resume().unwrap();
        node.send(to, "third").unwrap();
        while node.recv_timeout(PATIENCE).unwrap().unwrap().payload != "third" {
            refused = false;
        }
        refused
    });
    assert!(refused, "it answered every time");
}

#[test]
fn perf_refuses_more_than_the_command_line_would_ask_for() {
    let at = free_address();
    let mut serving = Running::start(&mut suci(&["perf", "--listen", &at.to_string()]));
    serving.first_error_line();
    for data in ["0", "100001", "1000000000000"] {
        let mut control = TcpStream::connect(at).unwrap();
        control.set_read_timeout(Some(PATIENCE)).unwrap();
        let lines = format!(
            "{}\n{}{data}{}\n",
            r#"{"hello":{"node":16,"caller":9,"wait":"sleep","pin":null}}"#,
            r#"{"round":{"contender":"suci","workload":"all-to-all","prefer":"adaptive","size":64,"data":"#,
            r#","udp_port":null}}"#
        );
        control.write_all(lines.as_bytes()).unwrap();
        let mut replies = BufReader::new(control).lines().map(Result::unwrap);
        assert_eq!(replies.next().as_deref(), Some("\"ready\""));
        let said = replies.next().unwrap();
        assert!(said.contains("1 to 100000 are possible"), "{said}");
    }
}
