//! Sockets, preload, raw Ethernet.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::super::flow::STRICT;
use super::super::tools::{process_tests, tests_of};
use super::super::{Figure, Line};
use crate::error::{Context, Failure, Result};
use crate::exec::{self, Process};

pub(super) const LINES: &[Line] = &[
    Line {
        name: "cdp-end",
        must: "3,000 sockets whose ends close at once: cdp_end() returns 0; after the peer's death at once, after its silence within 15 s",
        run: |_| tests_of("suci-capi", "f20_", &[]),
    },
    Line {
        name: "daemon-forks",
        must: "programs that listen, fork and end, and killed ones with workers: a child serves clients of the node",
        run: |_| tests_of("suci-preload", "f24_", &[]),
    },
    Line {
        name: "daemon-nginx",
        must: "nginx as delivered (daemon, master, workers), reloaded in between: all answers, $remote_addr is the client's",
        run: |_| nginx(),
    },
    Line {
        name: "daemon-sshd",
        must: "sshd: what it starts for a client sees the client's address",
        run: |_| sshd(),
    },
    Line {
        name: "command-forwards",
        must: "suci ping --forward between two nodes without a way: ping --book reaches the other",
        run: |_| tests_of("suci-cli", "a_node_is_pinged_through", &[]),
    },
    Line {
        name: "raw-clients",
        must: "ping, cat and perf as clients on af_packet, ethernet and af_xdp",
        run: |_| process_tests("commands_are_clients_on_raw_backends", &[STRICT]),
    },
];

/// The longest time of a step.
const PATIENCE: Duration = Duration::from_secs(30);

/// The server's node and the client's, at addresses of loopback that nothing else has.
const SERVER: &str = "127.77.51.1";
const CLIENT: &str = "127.77.51.2";

/// Answers of nginx in each of its two lives.
const ANSWERS: usize = 100;

/// A folder with the book and the files of a daemon.
struct Daemon {
    library: PathBuf,
    dir: tempfile::TempDir,
}

impl Daemon {
    fn new(programs: &[&str]) -> Result<Self> {
        for program in programs {
            let is_there = Path::new(program).exists();
            is_there.then_some(()).context(format_args!(
                "{program} is missing; `make setup-preload` installs it"
            ))?;
        }
        exec::run(&mut exec::cargo([
            "build",
            "-q",
            "--locked",
            "--release",
            "-p",
            "suci-preload",
        ]))?;
        let daemon = Self {
            library: exec::target_dir().join("release/libsuci_preload.so"),
            dir: tempfile::tempdir()?,
        };
        daemon.write("book", &format!("0 {SERVER}:7000\n1 {CLIENT}:7000\n"))?;
        Ok(daemon)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        Ok(std::fs::write(self.at(name), text)?)
    }

    /// A program of a node under the library, which ends in time.
    fn command(&self, node: &str, program: &str) -> Command {
        let mut command = Command::new("timeout");
        command.args([&PATIENCE.as_secs().to_string(), program]);
        self.set_up(node, command)
    }

    /// Lets a program run as the process of a node.
    fn set_up(&self, node: &str, mut command: Command) -> Command {
        command
            .env("LD_PRELOAD", &self.library)
            .env("SUCI_BOOK", self.at("book"))
            .env("SUCI_ID", node);
        command
    }
}

/// Repeats a step that may fail while a process takes the node over. Returns its result.
fn until<T>(mut step: impl FnMut() -> Result<T>) -> Result<T> {
    let end = Instant::now() + PATIENCE;
    loop {
        match step() {
            Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(10)),
            done => return done,
        }
    }
}

fn nginx() -> Result<Figure> {
    let daemon = Daemon::new(&["/usr/sbin/nginx", "/usr/bin/curl"])?;
    let dir = daemon.dir.path().display();
    daemon.write(
        "nginx.conf",
        &format!(
            "daemon on; master_process on; worker_processes 2; pid {dir}/pid;\n\
             error_log {dir}/error.log;\nevents {{}}\n\
             http {{ access_log off; client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy;\n\
             fastcgi_temp_path {dir}/fcgi; uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;\n\
             server {{ listen {SERVER}:8080; return 200 \"$remote_addr\\n\"; }} }}\n"
        ),
    )?;
    let run = |words: &[&str]| {
        let mut nginx = daemon.command("0", "/usr/sbin/nginx");
        exec::capture(nginx.arg("-c").arg(daemon.at("nginx.conf")).args(words))
    };
    let ask = || {
        let url = format!("http://{SERVER}:8080/");
        exec::capture(daemon.command("1", "/usr/bin/curl").args(["-sS", &url]))
    };
    run(&[])?;
    let served = || -> Result<(Duration, usize)> {
        let began = Instant::now();
        until(ask)?;
        let first = began.elapsed();
        let answers: Result<Vec<_>> = (0..ANSWERS).map(|_| ask()).collect();
        let told = answers?.iter().filter(|it| it.trim() == CLIENT).count();
        Ok((first, told))
    };
    let lives = served().and_then(|before| {
        run(&["-s", "reload"])?;
        Ok([before, served()?])
    });
    // The daemon ends, whatever was found.
    run(&["-s", "stop"])?;
    let mut said = String::new();
    let lives = lives?;
    for (when, (first, told)) in ["after the start", "after a reload"].iter().zip(lives) {
        let _ = write!(
            said,
            "{told} of {ANSWERS} {when} (the first in {first:.2?}) "
        );
    }
    let holds = lives.iter().all(|(_, told)| *told == ANSWERS);
    Ok(Figure::new(holds, said.trim()))
}

fn sshd() -> Result<Figure> {
    let daemon = Daemon::new(&["/usr/sbin/sshd", "/usr/bin/ssh"])?;
    let key = daemon.at("key");
    let mut keygen = Command::new("ssh-keygen");
    exec::capture(
        keygen
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(&key),
    )?;
    let dir = daemon.dir.path().display();
    daemon.write(
        "sshd.conf",
        &format!(
            "Port 8022\nListenAddress {SERVER}\nHostKey {dir}/key\nPidFile none\nUsePAM no\n\
             AuthorizedKeysFile {dir}/key.pub\nStrictModes no\nPermitRootLogin yes\n"
        ),
    )?;
    // The system's service makes it.
    std::fs::create_dir_all("/run/sshd")?;
    // Without `timeout`, whose child would outlive it.
    let mut server = daemon.set_up("0", Command::new("/usr/sbin/sshd"));
    server.args(["-D", "-e", "-f"]).arg(daemon.at("sshd.conf"));
    let _server = Process::spawn(server.stderr(std::process::Stdio::null()))?;
    let said = until(|| {
        let mut client = daemon.command("1", "/usr/bin/ssh");
        client.args(["-p", "8022", "-F", "none", "-i"]).arg(&key);
        for option in [
            "BatchMode=yes",
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
        ] {
            client.args(["-o", option]);
        }
        exec::capture(client.args([SERVER, "echo $SSH_CONNECTION"]))
    })?;
    let words: Vec<_> = said.split_whitespace().collect();
    let [client, _, server, "8022"] = words[..] else {
        return Err(Failure::new(format!("SSH_CONNECTION is {said:?}")));
    };
    let holds = (client, server) == (CLIENT, SERVER);
    Ok(Figure::new(
        holds,
        format!("SSH_CONNECTION names {client} and {server}"),
    ))
}
