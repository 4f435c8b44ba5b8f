//! `suci run --hosts`: an [agent](super::agent) on each host, reached by `ssh`, starts the
//! processes there. The agents bind the sockets, so that the book is complete before the first
//! process starts, and tell how processes end. This side hands that on, and merges the output.
//!
//! `ssh` alone says whether a host is lost: it ends, by itself or since its server does not answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use suci::env::ProcessEnd;

use super::agent::{ANSWER, Answer, Book, Order, Start};
use super::{hostlist, names, tolerated};
use crate::args::{HostArgs, RunArgs};
use crate::error::{Context, Failure, Result, tell};
use crate::output::write_all;
use crate::signals::Signals;

/// How long hosts may take until their agents have sockets: people may have to give passwords.
const ARRIVAL: Duration = Duration::from_secs(120);

/// How long agents may take to end after all was killed.
const FAREWELL: Duration = Duration::from_secs(10);

/// How often signals are looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Longest line of an agent that is kept together: longer than those of output that it passes on.
const LONGEST: u64 = 1 << 20;

/// With these, `ssh` ends 15 s after a host stopped answering.
const SSH_OPTIONS: [&str; 6] = [
    "-T",
    "-x",
    "-o",
    "ServerAliveInterval=5",
    "-o",
    "ServerAliveCountMax=3",
];

/// Where copies go on a host, below the home directory.
const COPIES: &str = ".cache/suci";

/// Variables of this environment that are not for processes of other hosts: the launcher sets them,
/// or they name files and descriptors of this host.
const NOT_PASSED: [&str; 6] = [
    suci::env::ID,
    suci::env::SIZE,
    suci::env::BOOK,
    suci::env::FD,
    suci::env::NOTICES,
    suci::env::KEY_FILE,
];

/// Runs until all processes of all hosts have ended.
pub(super) fn run(args: &RunArgs) -> Result<ExitCode> {
    let listed = match &args.hosts.host_file {
        Some(path) => hostlist::read(path)?,
        None => hostlist::parse(&args.hosts.hosts)?,
    };
    let places = hostlist::deal(listed, args.processes)?;
    let key = key(args)?;
    let program = program(args)?;
    if args.hosts.copy {
        for (host, _) in &places {
            copy(&args.hosts, host, &program)?;
        }
    }
    let signals = Signals::catch()?;
    let (to, heard) = channel();
    let size = places.iter().map(|(_, count)| count).sum();
    let mut launch = RemoteLaunch {
        args,
        size,
        hosts: Vec::new(),
        heard,
        ended: BTreeSet::new(),
        failed: BTreeSet::new(),
        first_failure: None,
        interrupts: 0,
        killed_at: None,
    };
    let mut first = 0;
    for (name, count) in places {
        let host = Host::start(
            args,
            (name, first, count, size),
            &program,
            (launch.hosts.len(), &to),
        )?;
        first += host.count;
        launch.hosts.push(host);
    }
    // Only the threads' copies are left: without them nothing more is heard.
    drop(to);
    if launch.gather(&signals, key)? {
        launch.watch(&signals);
    }
    launch.end();
    Ok(ExitCode::from(launch.status()))
}

/// The text of the key that seals the nodes, if one does.
fn key(args: &RunArgs) -> Result<Option<String>> {
    let own = [suci::env::NODE_KEY_FILE, suci::env::PUBLIC_KEYS_FILE];
    if args.plain || own.iter().any(|name| std::env::var_os(name).is_some()) {
        return Ok(None);
    }
    match std::env::var_os(suci::env::KEY_FILE) {
        Some(path) => {
            // Errors of its content are told here, once.
            suci::security::KeyFile::new(&path)
                .read()
                .map_err(suci::Error::from)?;
            let text = std::fs::read_to_string(&path);
            text.context(format!("{}={}", suci::env::KEY_FILE, path.display()))
                .map(Some)
        }
        None => {
            let key = suci::security::ClusterKey::generate().context("a key for the processes")?;
            Ok(Some(key.to_secret_text().to_string()))
        }
    }
}

/// The words of the program.
fn program(args: &RunArgs) -> Result<Vec<String>> {
    let word = |word: &std::ffi::OsString| {
        word.clone().into_string().map_err(|word| {
            let word = word.display();
            Failure::new(format!(
                "{word}: not Unicode, which --hosts needs: use another name"
            ))
        })
    };
    args.program.iter().map(word).collect()
}

/// The command that runs `what` on a host.
fn command(hosts: &HostArgs, host: &str, what: &str) -> Command {
    let mut words = hosts.ssh.split_whitespace();
    let name = words.next().unwrap_or("ssh");
    let mut command = Command::new(name);
    command.args(words);
    if Path::new(name)
        .file_name()
        .is_some_and(|name| name == "ssh")
    {
        command.args(SSH_OPTIONS);
    }
    command.arg(host).arg(what);
    command
}

fn not_started(hosts: &HostArgs, error: &std::io::Error) -> Failure {
    let command = &hosts.ssh;
    Failure::new(format!(
        "{command}: {error}; install ssh, or name another command by --ssh"
    ))
}

/// A word for the shell of another host.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Whether the program is a file that goes to the hosts.
fn goes_along(hosts: &HostArgs, program: &[String]) -> bool {
    hosts.copy
        && program
            .first()
            .is_some_and(|name| Path::new(name).is_file())
}

/// Copies this command, and the program if it is a file, to a host.
fn copy(hosts: &HostArgs, host: &str, program: &[String]) -> Result<()> {
    let own = std::env::current_exe().context("the path of suci itself")?;
    let mut files = vec![(own, "suci".to_owned())];
    if let Some(name) = program.first().filter(|_| goes_along(hosts, program)) {
        let path = Path::new(name).to_owned();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name == "suci" {
            return Err(Failure::new(
                "--copy: the program cannot be called suci, too: rename it",
            ));
        }
        files.push((path, name));
    }
    for (path, name) in files {
        let file = File::open(&path).context(path.display())?;
        let (name, new) = (
            quoted(&name),
            quoted(&format!("{name}.{}", std::process::id())),
        );
        // Renamed when it is whole: a process of another run may have the old one open.
        let script = format!(
            "umask 077 && mkdir -p {COPIES} && cd {COPIES} && cat > {new} && chmod 700 {new} && \
             mv -f {new} {name}"
        );
        let status = command(hosts, host, &script).stdin(file).status();
        let status = status.map_err(|error| not_started(hosts, &error))?;
        if !status.success() {
            return Err(Failure::new(format!(
                "copying {} to {host} failed ({status}): see what {} said, and whether ~/{COPIES} \
                 can be written there",
                path.display(),
                hosts.ssh
            )));
        }
    }
    Ok(())
}

/// News of a host.
enum Heard {
    Answer(usize, Answer),
    /// Its output has ended.
    Gone(usize),
}

/// A host with processes.
struct Host {
    name: String,
    first: u32,
    count: u32,
    ssh: Child,
    to: ChildStdin,
    addresses: Vec<String>,
    is_gone: bool,
}

impl Host {
    fn start(
        args: &RunArgs,
        (name, first, count, size): (String, u32, u32, u32),
        program: &[String],
        (index, heard): (usize, &Sender<Heard>),
    ) -> Result<Self> {
        let own = std::env::current_exe().context("the path of suci itself")?;
        let suci = match args.hosts.copy {
            true => format!("./{COPIES}/suci"),
            false => quoted(&own.to_string_lossy()),
        };
        let mut command = command(&args.hosts, &name, &format!("{suci} run --agent"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // The terminal's Ctrl-C goes to the whole group; this launcher passes it on, and needs the
        // connection for that. `ssh` leaves signals alone that were ignored before it.
        // SAFETY: between fork and exec; `signal` is async-signal-safe, and sets no handler.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_IGN);
                libc::signal(libc::SIGHUP, libc::SIG_IGN);
                Ok(())
            })
        };
        let mut ssh = command
            .spawn()
            .map_err(|error| not_started(&args.hosts, &error))?;
        let pipes = ssh.stdin.take().zip(ssh.stdout.take());
        let (to, from) = pipes.ok_or_else(|| Failure::new("ssh has no pipes"))?;
        follow(from, index, heard.clone())?;
        let mut host = Self {
            name,
            first,
            count,
            ssh,
            to,
            addresses: Vec::new(),
            is_gone: false,
        };
        let directory = std::env::current_dir().context("the current directory")?;
        host.say(&Start {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            first,
            processes: count,
            size,
            program: program.to_vec(),
            is_copied: goes_along(&args.hosts, program),
            directory: directory.to_string_lossy().into_owned(),
            variables: passed(std::env::vars_os()),
            restart: args.restart,
            faults: args.faults.clone(),
            plain: args.plain,
        });
        Ok(host)
    }

    fn say(&mut self, what: &impl serde::Serialize) {
        let line = serde_json::to_string(what).unwrap_or_default();
        self.write(&format!("{line}\n"));
    }

    /// Writes to the agent. If the way is broken, its other direction ends, too, which is told.
    fn write(&mut self, line: &str) {
        let _ = self
            .to
            .write_all(line.as_bytes())
            .and_then(|()| self.to.flush());
    }

    fn processes(&self) -> std::ops::Range<u32> {
        self.first..self.first + self.count
    }
}

/// The variables that processes of other hosts get.
fn passed(
    all: impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
) -> Vec<(String, String)> {
    let texts =
        all.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let is_passed = |name: &str| name.starts_with("SUCI_") || name == "RUST_LOG";
    texts
        .filter(|(name, _)| is_passed(name) && !NOT_PASSED.contains(&name.as_str()))
        .collect()
}

/// Copies a host's output, and hands its answers on, by a thread.
fn follow(from: ChildStdout, index: usize, heard: Sender<Heard>) -> Result<()> {
    let work = move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        loop {
            line.clear();
            match (&mut from).take(LONGEST).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
            let text = std::str::from_utf8(&line).ok();
            let answer = text
                .and_then(|text| text.strip_prefix(ANSWER))
                .map(Answer::parse);
            match answer {
                Some(Some(answer)) => drop(heard.send(Heard::Answer(index, answer))),
                // Of a later version, perhaps.
                Some(None) => {}
                // Nobody reads it: the processes go on, as they do on one machine.
                None => drop(write_all(std::io::stdout().lock(), &line)),
            }
        }
        let _ = heard.send(Heard::Gone(index));
    };
    let thread = std::thread::Builder::new().spawn(work);
    thread.context("a thread for output").map(drop)
}

/// All hosts and their states.
struct RemoteLaunch<'a> {
    args: &'a RunArgs,
    /// How many processes there are on all hosts.
    size: u32,
    hosts: Vec<Host>,
    heard: Receiver<Heard>,
    /// Processes that have ended for good.
    ended: BTreeSet<u32>,
    failed: BTreeSet<u32>,
    first_failure: Option<u8>,
    interrupts: u32,
    killed_at: Option<Instant>,
}

impl RemoteLaunch<'_> {
    /// Waits until all agents have sockets, and tells all of them where the processes are. Returns
    /// false if a signal came before.
    fn gather(&mut self, signals: &Signals, key: Option<String>) -> Result<bool> {
        let until = Instant::now() + ARRIVAL;
        while self.hosts.iter().any(|host| host.addresses.is_empty()) {
            if let Some(caught) = signals.take().first() {
                self.first_failure = Some(128_u8.saturating_add(low_byte(caught.signal.as_raw())));
                return Ok(false);
            }
            match self.heard.recv_timeout(LOOK) {
                Ok(Heard::Answer(index, Answer::At(addresses))) => {
                    if let Some(host) = self.hosts.get_mut(index)
                        && addresses.len() == usize::try_from(host.count).unwrap_or(0)
                    {
                        host.addresses = addresses;
                    }
                }
                Ok(Heard::Gone(index)) => return Err(self.lost_early(index)),
                Ok(Heard::Answer(..)) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if Instant::now() > until {
                let silent = self.hosts.iter().find(|host| host.addresses.is_empty());
                let name = silent.map(|host| host.name.clone()).unwrap_or_default();
                self.end();
                return Err(Failure::new(format!(
                    "host {name} did not start suci within {} s: try `{} {name} true`",
                    ARRIVAL.as_secs(),
                    self.args.hosts.ssh
                )));
            }
        }
        self.check_addresses()?;
        let all = self
            .hosts
            .iter()
            .flat_map(|host| host.processes().zip(&host.addresses));
        let book: String = all
            .map(|(id, address)| format!("{id} {address}\n"))
            .collect();
        for host in &mut self.hosts {
            host.say(&Book {
                book: book.clone(),
                key: key.clone(),
            });
        }
        Ok(true)
    }

    /// An agent that ended before it had sockets has said why, or `ssh` has.
    fn lost_early(&mut self, index: usize) -> Failure {
        let (ssh, name) = match self.hosts.get_mut(index) {
            Some(host) => (host.ssh.wait().ok(), host.name.clone()),
            None => (None, String::new()),
        };
        self.end();
        let how = ssh.map(|status| status.to_string()).unwrap_or_default();
        Failure::new(format!(
            "host {name}: nothing was started ({how}): see the message above; `{} {name} true` must \
             work without a question, and suci must be there at the same path, or add --copy",
            self.args.hosts.ssh
        ))
    }

    /// Refuses loopback addresses of some hosts among others: nobody else would reach these.
    fn check_addresses(&mut self) -> Result<()> {
        let is_loopback = |host: &&Host| {
            let ip = host
                .addresses
                .first()
                .and_then(|at| at.parse::<std::net::SocketAddr>().ok());
            ip.is_some_and(|at| at.ip().is_loopback())
        };
        let local: Vec<_> = self
            .hosts
            .iter()
            .filter(is_loopback)
            .map(|it| it.name.clone())
            .collect();
        match local.first() {
            Some(name) if local.len() < self.hosts.len() => {
                let name = name.clone();
                self.end();
                Err(Failure::new(format!(
                    "host {name} was reached at a loopback address, where the others do not reach \
                     it: name it by an address of the network"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Hands on what agents tell, until all are gone.
    fn watch(&mut self, signals: &Signals) {
        while self.hosts.iter().any(|host| !host.is_gone) {
            for caught in signals.take() {
                self.pass_on(caught.signal);
            }
            match self.heard.recv_timeout(LOOK) {
                Ok(Heard::Answer(index, Answer::Ended(id, end, status))) => {
                    self.on_end(index, id, end, status);
                }
                Ok(Heard::Gone(index)) => self.on_gone(index),
                Ok(Heard::Answer(_, Answer::At(_))) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.killed_at.is_some_and(|at| at.elapsed() > FAREWELL) {
                return;
            }
        }
    }

    fn tell_all(&mut self, except: Option<usize>, order: Order) {
        for (index, host) in self.hosts.iter_mut().enumerate() {
            if Some(index) != except && !host.is_gone {
                host.write(&order.line());
            }
        }
    }

    fn kill(&mut self) {
        self.killed_at.get_or_insert_with(Instant::now);
        self.tell_all(None, Order::Kill);
    }

    fn pass_on(&mut self, signal: Signal) {
        self.interrupts += u32::from(signal == Signal::INT);
        match self.interrupts {
            0 | 1 => self.tell_all(None, Order::Signal(signal)),
            _ => self.kill(),
        }
    }

    fn on_end(&mut self, index: usize, id: u32, end: ProcessEnd, status: u8) {
        let is_there = self
            .hosts
            .get(index)
            .is_some_and(|host| host.processes().contains(&id));
        if !is_there {
            return;
        }
        self.tell_all(Some(index), Order::Ended(id, end));
        if end != ProcessEnd::Replaced {
            self.ended.insert(id);
        }
        if end == ProcessEnd::Failed {
            self.count_failure(id, status);
        }
    }

    fn count_failure(&mut self, id: u32, status: u8) {
        self.failed.insert(id);
        if self.first_failure.is_none() {
            self.first_failure = Some(status);
            if self.args.kill_on_failure {
                self.kill();
            }
        }
    }

    /// An agent's output has ended: all its processes have, or the host is lost.
    fn on_gone(&mut self, index: usize) {
        let Some(host) = self.hosts.get_mut(index) else {
            return;
        };
        host.is_gone = true;
        let (how, name) = (host.ssh.wait(), host.name.clone());
        let lost: Vec<_> = host
            .processes()
            .filter(|id| !self.ended.contains(id))
            .collect();
        if lost.is_empty() {
            return;
        }
        let named = names(lost.iter());
        let how_text = how.as_ref().map(ExitStatus::to_string).unwrap_or_default();
        tell(format_args!(
            "suci run: host {name} is gone ({how_text}), and processes {named} with it"
        ));
        let status = how.map_or(1, |how| status_of(how).max(1));
        for id in lost {
            self.tell_all(Some(index), Order::Ended(id, ProcessEnd::Failed));
            self.ended.insert(id);
            self.count_failure(id, status);
        }
    }

    /// Ends what is left: the agents by the end of their input, `ssh` by a signal.
    fn end(&mut self) {
        let mut left: BTreeMap<usize, Child> = BTreeMap::new();
        for (index, host) in std::mem::take(&mut self.hosts).into_iter().enumerate() {
            // The agent kills its processes when this closes.
            drop(host.to);
            left.insert(index, host.ssh);
        }
        let until = Instant::now() + FAREWELL;
        while !left.is_empty() {
            left.retain(|_, ssh| matches!(ssh.try_wait(), Ok(None)));
            if Instant::now() > until {
                for ssh in left.values_mut() {
                    let _ = ssh.kill();
                    let _ = ssh.wait();
                }
                return;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Returns the exit status of the whole, as on one machine.
    fn status(&self) -> u8 {
        match self.args.tolerate_failures {
            true => tolerated(&self.failed, self.size),
            false => self.first_failure.unwrap_or(0),
        }
    }
}

fn low_byte(number: i32) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

fn status_of(how: ExitStatus) -> u8 {
    match (how.code(), how.signal()) {
        (Some(code), _) => low_byte(code),
        (None, Some(signal)) => 128_u8.saturating_add(low_byte(signal)),
        (None, None) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_suci_are_passed_except_those_of_this_host() {
        let all = [
            ("SUCI_RMEM_MAX", "1"),
            ("SUCI_ID", "1"),
            ("SUCI_KEY_FILE", "/k"),
            ("RUST_LOG", "suci=debug"),
            ("HOME", "/root"),
        ];
        let all = all.map(|(name, value)| (name.into(), value.into()));
        let names: Vec<_> = passed(all.into_iter())
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["SUCI_RMEM_MAX", "RUST_LOG"]);
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn options_are_those_of_ssh_alone() {
        let words = |ssh: &str| {
            let hosts = HostArgs {
                ssh: ssh.to_owned(),
                ..HostArgs::default()
            };
            let command = command(&hosts, "a", "true");
            let args: Vec<_> = command
                .get_args()
                .map(|it| it.to_string_lossy().into_owned())
                .collect();
            args.join(" ")
        };
        assert_eq!(words("rsh -n"), "-n a true");
        let own = SSH_OPTIONS.join(" ");
        assert_eq!(words("/usr/bin/ssh -p 22"), format!("-p 22 {own} a true"));
    }
}
