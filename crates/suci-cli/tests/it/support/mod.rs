//! Running the built command.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// How long anything may take before the test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// The option by which `env` starts a program that does not ignore these signals: `nohup make test`
/// ignores the first, a shell's `make test &` the others, and so do all processes that they start.
pub(crate) const HEARING: &str = "--default-signal=HUP,INT,QUIT";

/// The command, without the variables that an outer launch may have set.
pub(crate) fn suci(args: &[&str]) -> Command {
    let mut command = program("env");
    command.args([HEARING, path()]).args(args);
    command
}

/// A program, without these variables.
pub(crate) fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    for name in [
        "LISTEN_FDS",
        "LISTEN_PID",
        "SUCI_ID",
        "SUCI_SIZE",
        "SUCI_BOOK",
        "SUCI_FD",
        "SUCI_FAULTS",
        "SUCI_KEY_FILE",
        "SUCI_NODE_KEY_FILE",
        "SUCI_PUBLIC_KEYS_FILE",
        "SUCI_NOTICES",
        "SUCI_RMEM_MAX",
        "SUCI_SHARED_MEMORY",
        "PMIX_RANK",
        "PMI_FD",
        "PMI_PORT",
        "PMI_RANK",
        "SLURM_PROCID",
        "JOB_COMPLETION_INDEX",
        "OMPI_COMM_WORLD_RANK",
    ] {
        command.env_remove(name);
    }
    command
}

/// The path of the command, to be run by `suci run`.
pub(crate) fn path() -> &'static str {
    env!("CARGO_BIN_EXE_suci")
}

/// A child that is killed, by its own pid, when the test is over.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Starts with pipes at all ends.
    pub(crate) fn start(command: &mut Command) -> Self {
        let pipes = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self(pipes.spawn().unwrap())
    }

    /// The first line that it writes to its error output.
    pub(crate) fn first_error_line(&mut self) -> String {
        let mut line = String::new();
        let err = self.0.stderr.as_mut().unwrap();
        // Byte by byte: bytes read too far would be missing from the output later.
        let mut byte = [0];
        loop {
            let mut ready = [PollFd::new(err, PollFlags::IN)];
            let ready = poll(&mut ready, Some(&PATIENCE.try_into().unwrap())).unwrap();
            assert!(
                ready == 1,
                "no line of errors within {PATIENCE:?}, only {line:?}"
            );
            if err.read(&mut byte).unwrap() == 0 || byte == *b"\n" {
                return line;
            }
            line.push(char::from(byte[0]));
        }
    }

    /// The first line of its output.
    pub(crate) fn first_line(&mut self) -> String {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        line
    }

    /// Feeds it from a thread, then closes its input.
    pub(crate) fn feed(&mut self, bytes: Vec<u8>) {
        let mut input = self.0.stdin.take().unwrap();
        std::thread::spawn(move || {
            // The process may end before it has read everything; the test looks at its exit status.
            let _ = input.write_all(&bytes);
        });
    }

    /// Waits for its end and takes the rest of its output.
    pub(crate) fn finish(mut self) -> Output {
        drop(self.0.stdin.take());
        let out = self.0.stdout.take().map(collect);
        let err = self.0.stderr.take().map(collect);
        let status = self.wait();
        let gather = |thread: Option<std::thread::JoinHandle<Vec<u8>>>| {
            thread
                .map(|thread| thread.join().unwrap())
                .unwrap_or_default()
        };
        Output {
            status,
            stdout: gather(out),
            stderr: gather(err),
        }
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(
                Instant::now() < end,
                "the process did not end within {PATIENCE:?}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn collect(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// Runs to the end with nothing to read.
pub(crate) fn output(command: &mut Command) -> Output {
    Running::start(command).finish()
}

/// The standard error of a finished command.
pub(crate) fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The standard output of a finished command.
pub(crate) fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The text after the line `heading` of `suci ARGS --help`, up to an empty line.
pub(crate) fn help(args: &[&str], heading: &str) -> Vec<String> {
    // So wide that nothing is wrapped.
    let text = printed(&output(suci(args).arg("--help").env("COLUMNS", "1000")));
    let lines = text.lines().skip_while(|line| *line != heading).skip(1);
    let part = lines.take_while(|line| !line.is_empty());
    part.map(|line| line.trim_start().to_owned()).collect()
}

/// The names of all subcommands that help shows, but for `help`.
pub(crate) fn commands() -> Vec<String> {
    let lines = help(&[], "Commands:");
    let names = lines.iter().filter_map(|line| line.split(' ').next());
    let names: Vec<_> = names
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect();
    assert!(names.len() >= 7, "{names:?}");
    names
}

/// Makes this many round trips to `at`, one right after the other.
pub(crate) fn pings(at: &str, count: &str) -> Command {
    suci(&["ping", at, "--interval", "0", "--count", count])
}

/// Waits until `suci stat PID --json` shows the only node of `process`, and `enough` of it.
pub(crate) fn await_node(process: &Running, enough: impl Fn(&Value) -> bool) -> Value {
    let (pid, end) = (process.0.id().to_string(), Instant::now() + PATIENCE);
    loop {
        let out = output(&mut suci(&["stat", &pid, "--json"]));
        if out.status.success() {
            let mut all: Value = serde_json::from_str(&printed(&out)).unwrap();
            assert_eq!(all["nodes"].as_array().unwrap().len(), 1);
            let node = all["nodes"][0].take();
            if enough(&node) {
                return node;
            }
        }
        assert!(Instant::now() < end, "{}{}", printed(&out), errors(&out));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An address on loopback that nobody else uses: each is of another host, those of each process are
/// of another network, and its port is none that the system chooses for anybody. It is not tried
/// here: a child that another test starts just then would hold the socket until it runs its
/// program.
pub(crate) fn free_address() -> SocketAddr {
    static HOSTS: AtomicU8 = AtomicU8::new(1);
    let host = HOSTS.fetch_add(1, Ordering::Relaxed);
    let [low, high, ..] = std::process::id().to_le_bytes();
    // 127.0 has what others use.
    let ip = Ipv4Addr::new(127, 1 + high % 250, low, host);
    (ip, 20_000 + u16::from(host)).into()
}

/// Bytes that repeat only after a long time.
pub(crate) fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..length).map(|_| next()).collect()
}

/// A pseudo-terminal: the end that a person would have, and the one that programs have.
pub(crate) fn terminal() -> (File, File) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let outer = openpt(flags).unwrap();
    grantpt(&outer).unwrap();
    unlockpt(&outer).unwrap();
    let name = ptsname(&outer, Vec::new()).unwrap();
    // A child's session takes it as its terminal; this one's must not.
    let mut options = OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOCTTY);
    let inside = options
        .read(true)
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    (File::from(outer), inside)
}
