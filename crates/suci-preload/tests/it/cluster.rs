//! Two nodes, and the programs that run on them.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use xtask::exec::{self, Process};

/// The longest time of a program.
const PATIENCE: Duration = Duration::from_secs(60);

/// Set if the library has been built together with the tests.
const BUILT: &str = "SUCI_TEST_BUILT";

/// Builds the library, which no test links, and returns its path.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let program = std::env::current_exe().unwrap();
        let dir = program.ancestors().nth(2).unwrap();
        let library = dir.join("libsuci_preload.so");
        // A build of this package alone has other features than the tests of the workspace, and
        // would compile the engine again.
        if std::env::var_os(BUILT).is_some() {
            return library;
        }
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "-q", "--locked", "--lib", "-p", "suci-preload"]);
        if dir.ends_with("release") {
            build.arg("--release");
        }
        build.arg("--target-dir").arg(dir.parent().unwrap());
        exec::capture(build.current_dir(env!("CARGO_MANIFEST_DIR"))).unwrap();
        library
    })
}

/// Compiles a program in C, and returns its path.
fn compile(name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("preload-{name}"));
    let mut compile = Command::new("gcc");
    compile.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"]);
    compile.args(["-Wno-unused-result", "-pthread", "-o"]);
    exec::capture(compile.arg(&program).arg(source(&format!("{name}.c")))).unwrap();
    program
}

/// Returns the program in C.
fn in_c() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile("peer"))
}

/// Returns the program in C whose calls are interrupted.
fn interrupted() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compile("interrupted"))
}

fn source(name: &str) -> PathBuf {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    programs.join(name)
}

/// Runs a command, which must succeed in time. Returns what it wrote to stdout and stderr.
pub(crate) fn run(command: &mut Command) -> [String; 2] {
    let mut process =
        Process::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap();
    let (out, err) = (process.child().stdout.take(), process.child().stderr.take());
    std::thread::scope(|scope| {
        let out = scope.spawn(|| std::io::read_to_string(out.unwrap()).unwrap());
        let err = scope.spawn(|| std::io::read_to_string(err.unwrap()).unwrap());
        let end = process.finish_by(Instant::now() + PATIENCE);
        let said = [out, err].map(|reader| reader.join().unwrap());
        end.unwrap_or_else(|why| panic!("{why}\n{said:?}"));
        said
    })
}

/// Two nodes in a book.
pub(crate) struct Nodes {
    /// Their addresses.
    pub(crate) ips: [String; 2],
    pub(crate) book: PathBuf,
    _dir: tempfile::TempDir,
}

impl Nodes {
    pub(crate) fn new(ips: [String; 2]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let book = dir.path().join("book");
        let addresses = ips
            .each_ref()
            .map(|ip| SocketAddr::new(ip.parse().unwrap(), 7100));
        let [first, second] = addresses;
        std::fs::write(&book, format!("0 {first}\n1 {second}\n")).unwrap();
        Self {
            ips,
            book,
            _dir: dir,
        }
    }

    /// On this host, at addresses of loopback that no other test has.
    pub(crate) fn on_loopback() -> Self {
        static NUMBER: AtomicU8 = AtomicU8::new(1);
        let pid = std::process::id();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let ip = |host| format!("127.{}.{number}.{host}", 64 + pid % 128);
        Self::new([1 + pid / 128 % 100, 101 + pid / 128 % 100].map(ip))
    }

    /// Lets a command run as the process of a node.
    pub(crate) fn set_up<'a>(&self, node: usize, command: &'a mut Command) -> &'a mut Command {
        command
            .env("SUCI_ID", node.to_string())
            .env("SUCI_BOOK", &self.book)
            .env("SUCI_PRELOAD_PLAIN", "1")
            .env("LD_PRELOAD", library())
    }

    /// The program in Python on a node.
    pub(crate) fn python(&self, node: usize, words: &[&str]) -> Command {
        let mut command = plain_python(words);
        self.set_up(node, &mut command);
        command
    }

    /// The program in C on a node.
    pub(crate) fn c(&self, node: usize, words: &[&str]) -> Command {
        let mut command = Command::new(in_c());
        self.set_up(node, command.args(words));
        command
    }

    /// A program on node 1 whose calls to a server are interrupted in the way of `role`.
    pub(crate) fn interrupt(&self, server: &Server, role: &str) {
        let mut command = Command::new(interrupted());
        let command = command.args([role, &self.ips[0], &server.port]);
        let [_, warned] = run(self.set_up(1, command));
        assert_eq!(warned, "", "{role}");
    }

    /// Returns the lines that a server on node 0 says of clients on node 1.
    pub(crate) fn told(&self, clients: usize) -> String {
        let [server, client] = &self.ips;
        format!("client {client} at {server}\n").repeat(clients)
    }

    /// Serves on node 0.
    pub(crate) fn serve(&self, role: &str, words: &[&str]) -> Server {
        let words = [&[role, &self.ips[0]], words].concat();
        Server::start(&mut self.python(0, &words))
    }

    /// Calls the server from node 1. Returns what the client said.
    pub(crate) fn call(&self, server: &Server, role: &str, words: &[&str]) -> String {
        let words = [&[role, &self.ips[0], &server.port], words].concat();
        let [said, warned] = run(&mut self.python(1, &words));
        assert_eq!(warned, "", "{role}");
        said
    }
}

/// The program in Python, without the library.
pub(crate) fn plain_python(words: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.arg(source("peer.py")).args(words);
    command
}

/// A program that said at which port it listens.
pub(crate) struct Server {
    process: Process,
    output: BufReader<std::process::ChildStdout>,
    pub(crate) port: String,
}

impl Server {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut process = Process::spawn(command.stdout(Stdio::piped())).unwrap();
        let mut output = BufReader::new(process.child().stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let port = line
            .strip_prefix("port ")
            .unwrap_or_else(|| panic!("{command:?}: {line:?}"));
        Self {
            process,
            output,
            port: port.trim().to_owned(),
        }
    }

    /// Returns the number of its process.
    pub(crate) fn id(&mut self) -> u32 {
        self.process.child().id()
    }

    /// Waits for the end of all processes that have its output. Returns what they said.
    pub(crate) fn output(mut self) -> String {
        let mut said = String::new();
        self.output.read_to_string(&mut said).unwrap();
        said
    }

    /// Waits for its successful end. Returns what it said.
    pub(crate) fn finish(mut self) -> String {
        let mut said = String::new();
        self.output.read_to_string(&mut said).unwrap();
        self.process.finish_by(Instant::now() + PATIENCE).unwrap();
        said
    }
}
