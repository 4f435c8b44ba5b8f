//! Commands on raw backends, as servers and as clients.

use std::io::{BufRead, BufReader};
use std::process::Command;

use suci_tests::light;
use xtask::exec::{self, Process};
use xtask::netns::{Netns, Pair};

use crate::network::cat;

/// A client names no address of its own, and a raw backend needs one interface.
#[test]
fn commands_are_clients_on_raw_backends() {
    let _together = light();
    let backends = ["af_packet", "ethernet", "af_xdp"];
    let mut said = Vec::new();
    for backend in backends {
        let pair = Pair::new().unwrap();
        let at = format!("{}:7000", pair.b_addr());
        let suci = |host: &Netns, words: &[&str]| {
            let mut command = host.command(exec::built("suci").unwrap());
            command
                .args(words)
                .arg("--plain")
                .env("SUCI_BACKEND", backend);
            command
        };
        {
            let _answering = start(&mut suci(&pair.b, &["ping", "--listen", &at]));
            let words = ["ping", &at, "--count", "5", "--interval", "0.01"];
            let pinged = exec::capture(&mut suci(&pair.a, &words)).unwrap();
            let line = pinged.lines().last().unwrap();
            assert!(line.contains("5 round trips"), "{backend}: {pinged}");
            said.push(format!("{backend} {line}"));
        }
        let ends = [suci(&pair.b, &["cat"]), suci(&pair.a, &["cat"])];
        cat(ends, &at, 1 << 20);
        let _serving = start(&mut suci(&pair.b, &["perf", "--listen", &at]));
        let words = ["perf", &at, "--workload", "ping-pong", "--rounds", "1"];
        let mut perf = suci(&pair.a, &words);
        exec::capture(perf.args(["--size", "64", "--seconds", "0.1"])).unwrap();
    }
    println!("figure: {}", said.join("; "));
}

/// Starts a server, and waits until it says that it serves.
fn start(command: &mut Command) -> Process {
    let (read, write) = std::io::pipe().unwrap();
    let server = Process::spawn(command.stderr(write)).unwrap();
    let mut line = String::new();
    BufReader::new(read).read_line(&mut line).unwrap();
    assert!(line.contains("; Ctrl-C ends it"), "{line:?}");
    server
}
