//! `suci run`: local processes that know each other.
//!
//! The launcher binds every socket itself and hands each process its own, already bound. Another
//! process could take a port that is only looked up and then bound again.
//!
//! The end of a process is told to the others at once, by a [pipe](notices) that each of them
//! inherits.
//!
//! One thread waits for everything: signals and ends alike. Processes are named by pidfd, so that
//! no signal ever reaches a stranger that inherited the number of a process already reaped.

mod child;
mod key;
mod notices;
mod tag;

use std::collections::BTreeSet;
use std::fs::{DirEntry, File};
use std::io::Write;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::process::{Signal, geteuid, getpid, getsid};

use self::child::{Child, End, Refused};
use self::notices::Notices;
use crate::args::RunArgs;
use crate::error::{Context, Failure, Result, tell};
use crate::signals::{self, Caught, Signals};

/// Runs until every process has ended.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode> {
    let signals = Signals::catch()?;
    signals::notice_children()?;
    let (book, sockets, _tcp_ports) = reserve(args)?;
    let key = key::for_processes(args.address)?;
    let mut launch = Launch::new(args, &book, key, &sockets)?;
    for (id, socket) in (0..).zip(sockets) {
        if let Err(refused) = launch.start(id, socket)? {
            launch.kill();
            launch.wait(&signals)?;
            tell(format_args!("suci run: {}", refused.message));
            return Ok(ExitCode::from(refused.status));
        }
    }
    // A signal from the terminal did not reach processes that were not there yet. The others may
    // get it twice.
    for Caught { signal, .. } in signals.take() {
        let by_kernel = false;
        launch.pass_on(Caught { signal, by_kernel });
    }
    launch.wait(&signals)?;
    let status = launch.status();
    if let Err(failure) = launch.tags.finish(|| !signals.take().is_empty()) {
        tell(format_args!("suci run: {failure}"));
        return Ok(ExitCode::from(if status == 0 { 1 } else { status }));
    }
    Ok(ExitCode::from(status))
}

/// Failed processes whose IDs are printed at most, where failures are tolerated.
const NAMED: usize = 20;

/// The exit status where more than 100 processes failed, as GNU parallel has it.
const MANY_FAILED: u8 = 101;

/// How the names of address books begin.
const BOOK: &str = "suci-book-";

/// How old a book without a lock must be before its launcher is taken for dead: a new one is locked
/// a moment after it was made.
const SETTLED: Duration = Duration::from_secs(60);

/// Removes the books of this user's launchers that were killed before they could do so. A file that
/// cannot be examined stays.
fn sweep() {
    let is_left_over = |entry: &DirEntry| {
        let info = entry.metadata()?;
        let old = info.modified()?.elapsed().is_ok_and(|age| age > SETTLED);
        // For files of other users not even the kind can be trusted.
        let mine = info.is_file() && info.uid() == geteuid().as_raw();
        let named = entry.file_name().to_string_lossy().starts_with(BOOK);
        std::io::Result::Ok(named && mine && old && File::open(entry.path())?.try_lock().is_ok())
    };
    let entries = std::fs::read_dir(std::env::temp_dir());
    for entry in entries.into_iter().flatten().flatten() {
        if is_left_over(&entry).unwrap_or(false) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Binds a socket for each process, and writes the book that names them. Returns the book, the
/// sockets, and what keeps others from the same ports of TCP, if that is wanted.
fn reserve(args: &RunArgs) -> Result<(tempfile::NamedTempFile, Vec<UdpSocket>, Vec<OwnedFd>)> {
    sweep();
    let mut book = tempfile::Builder::new()
        .prefix(BOOK)
        .tempfile()
        .context("the address book, a temporary file (TMPDIR says where)")?;
    // Says that its launcher lives.
    book.as_file().lock().context(book.path().display())?;
    let (mut sockets, mut tcp_ports) = (Vec::new(), Vec::new());
    for id in 0..args.processes {
        let ip = args.address;
        let (socket, tcp) = free_port(ip).context(format_args!(
            "a UDP socket on {ip} for process {id} (`ulimit -n` limits how many there can be; \
             `ip address` lists the addresses of this machine)"
        ))?;
        let address = socket.local_addr().context("a socket's address")?;
        writeln!(book, "{id} {address}").context(book.path().display())?;
        sockets.push(socket);
        if args.keeps_tcp_ports {
            tcp_ports.push(tcp);
        }
    }
    book.flush().context(book.path().display())?;
    Ok((book, sockets, tcp_ports))
}

/// Returns a socket at a port that is free for TCP, too, since `suci perf` talks over that. While
/// the second result is open, the kernel gives this port of TCP to nobody who does not ask for it.
fn free_port(ip: IpAddr) -> std::io::Result<(UdpSocket, OwnedFd)> {
    const TRIES: u32 = 16;
    let mut tries = 1;
    loop {
        let socket = UdpSocket::bind((ip, 0))?;
        let family = match ip {
            IpAddr::V4(_) => AddressFamily::INET,
            IpAddr::V6(_) => AddressFamily::INET6,
        };
        let tcp = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // A program that sets this, too, may then listen there.
        sockopt::set_socket_reuseaddr(&tcp, true)?;
        match rustix::net::bind(&tcp, &socket.local_addr()?) {
            Err(error) if tries == TRIES => return Err(error.into()),
            Err(_) => tries += 1,
            Ok(()) => return Ok((socket, tcp)),
        }
    }
}

/// The processes and their states.
struct Launch<'a> {
    args: &'a RunArgs,
    book: &'a Path,
    /// The key of this run, if the launcher made one.
    key: Option<OwnedFd>,
    /// Address at which each process listens.
    addresses: Vec<SocketAddr>,
    /// How often each process was started again.
    restarts: Vec<u32>,
    children: Vec<Child>,
    notices: Notices,
    tags: tag::Tags,
    first_failure: Option<u8>,
    /// Processes that failed for good.
    failed: BTreeSet<u32>,
    interrupts: u32,
    /// A signal asks all to end: none is started again.
    ending: bool,
    /// All that are left were killed from here.
    killed: bool,
}

impl<'a> Launch<'a> {
    fn new(
        args: &'a RunArgs,
        book: &'a tempfile::NamedTempFile,
        key: Option<OwnedFd>,
        sockets: &[UdpSocket],
    ) -> Result<Self> {
        let addresses = sockets.iter().map(UdpSocket::local_addr);
        let addresses: std::io::Result<Vec<_>> = addresses.collect();
        Ok(Self {
            args,
            book: book.path(),
            key,
            addresses: addresses.context("a socket's address")?,
            restarts: vec![0; sockets.len()],
            children: Vec::new(),
            notices: Notices::default(),
            tags: tag::Tags::default(),
            first_failure: None,
            failed: BTreeSet::new(),
            interrupts: 0,
            ending: false,
            killed: false,
        })
    }

    /// Starts process `id` with its socket.
    fn start(&mut self, id: u32, socket: UdpSocket) -> Result<Result<(), Refused>> {
        let environment = child::ChildEnvironment {
            id,
            size: self.args.processes,
            book: self.book,
            faults: self.args.faults.as_deref(),
            key: self.key.as_ref(),
        };
        let (program, piped) = (&self.args.program, self.args.tag_output);
        let mut child = match Child::start(program, &environment, socket, &self.notices, piped) {
            Ok(child) => child,
            Err(refused) => return Ok(Err(refused)),
        };
        if piped {
            self.tags.follow(id, &mut child)?;
        }
        self.children.push(child);
        Ok(Ok(()))
    }

    /// Waits until all processes have ended.
    fn wait(&mut self, signals: &Signals) -> Result<()> {
        while !self.children.is_empty() {
            let (caught, ended) = self.sleep(signals)?;
            for caught in caught {
                self.pass_on(caught);
            }
            if ended {
                self.reap()?;
            }
        }
        Ok(())
    }

    /// Returns the exit status of the whole. Names those that failed, if failures are tolerated.
    fn status(&self) -> u8 {
        if !self.args.tolerate_failures {
            return self.first_failure.unwrap_or(0);
        }
        let count = self.failed.len();
        if count > 0 {
            let named: Vec<_> = self.failed.iter().take(NAMED).map(u32::to_string).collect();
            let more = if count > NAMED { ", ..." } else { "" };
            let (size, named) = (self.args.processes, named.join(", "));
            tell(format_args!(
                "suci run: {count} of {size} processes failed: {named}{more}"
            ));
        }
        u8::try_from(count).map_or(MANY_FAILED, |count| count.min(MANY_FAILED))
    }

    /// Sleeps until a signal was caught or a process ended. Meanwhile writes notices to the
    /// processes.
    fn sleep(&mut self, signals: &Signals) -> Result<(Vec<Caught>, bool)> {
        let pipes = signals.pipes();
        let before = pipes.len();
        let pipes = pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN));
        let children = self.children.iter();
        let ends = children.map(|child| PollFd::new(child.pidfd(), PollFlags::IN));
        let outboxes = self.children.iter().map(Child::outbox).enumerate();
        let waiting = outboxes.filter_map(|(at, outbox)| Some((at, outbox.wants(&self.notices)?)));
        let waiting: Vec<_> = waiting.collect();
        let rooms = waiting.iter();
        let rooms = rooms.map(|(_, pipe)| PollFd::new(*pipe, PollFlags::OUT));
        let mut fds: Vec<PollFd<'_>> = pipes.chain(ends).chain(rooms).collect();
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Failure::new(format!("waiting for processes: {error}"))),
        }
        let ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let mut fds = fds.iter().skip(before);
        let ended = fds
            .by_ref()
            .take(self.children.len())
            .filter(|fd| ready(fd));
        let ended = ended.count() > 0;
        let writable = waiting.iter().zip(fds).filter(|(_, fd)| ready(fd));
        let writable: Vec<_> = writable.map(|((at, _), _)| *at).collect();
        for at in writable {
            if let Some(child) = self.children.get_mut(at) {
                child.outbox_mut().write(&self.notices);
            }
        }
        Ok((signals.take(), ended))
    }

    /// A key pressed at the terminal signals every process of the launcher's group, so those have
    /// it already. But the kernel reports the end of the terminal only to the leader of its
    /// session.
    fn pass_on(&mut self, Caught { signal, by_kernel }: Caught) {
        self.ending = true;
        self.interrupts += u32::from(signal == Signal::INT);
        if self.interrupts > 1 {
            return self.kill();
        }
        let leads = signal == Signal::HUP && getsid(None) == Ok(getpid());
        for child in &self.children {
            if !by_kernel || leads || !child.is_in_group() {
                child.signal(signal);
            }
        }
    }

    fn kill(&mut self) {
        (self.killed, self.ending) = (true, true);
        for child in &self.children {
            child.signal(Signal::KILL);
        }
    }

    /// Takes note of everyone that ended, and starts those again that may be.
    fn reap(&mut self) -> Result<()> {
        let mut at = 0;
        while let Some(child) = self.children.get_mut(at) {
            let Some(end) = child.try_end()? else {
                at += 1;
                continue;
            };
            let (id, pid) = (child.id(), child.pid());
            self.children.swap_remove(at);
            match end {
                End::Well => self.notices.add(id, true),
                End::Failed {
                    status,
                    how,
                    signal,
                } => self.on_failure(Failed {
                    id,
                    pid,
                    status,
                    how,
                    signal,
                })?,
            }
        }
        Ok(())
    }

    /// Handles the failure of a process: it is started again, or the others are told that it is
    /// gone. Failures caused by our own killing are not reported.
    fn on_failure(&mut self, failed: Failed) -> Result<()> {
        let Failed { id, pid, .. } = failed;
        let again = self.take_restart(id);
        self.notices.add(id, again.is_none());
        let is_known = match failed.signal {
            Some(signal) => self.killed && signal == Signal::KILL.as_raw(),
            None => self.args.explained,
        };
        if again.is_none() {
            self.count_failure(id, failed.status);
        }
        let how = failed.how;
        let Some((number, most)) = again else {
            if !is_known {
                tell(format_args!("suci run: process {id} (pid {pid}) {how}"));
            }
            return Ok(());
        };
        let refused = match self.bind_again(id) {
            Ok(socket) => self.start(id, socket)?,
            Err(refused) => Err(refused),
        };
        let and = format!("is started again, {number} of {most} times");
        tell(format_args!(
            "suci run: process {id} (pid {pid}) {how}; it {and}"
        ));
        if let Err(Refused { message, status }) = refused {
            tell(format_args!("suci run: process {id}: {message}"));
            self.notices.add(id, true);
            self.count_failure(id, status);
        }
        Ok(())
    }

    /// Counts a restart of process `id`, if it may be started again: which one it is, and of how
    /// many.
    fn take_restart(&mut self, id: u32) -> Option<(u32, u32)> {
        let most = self.args.restart.filter(|_| !self.ending)?;
        let count = self.restarts.get_mut(usize::try_from(id).ok()?)?;
        (*count < most).then(|| {
            *count += 1;
            (*count, most)
        })
    }

    /// Returns a socket at the address of process `id`, which has ended.
    fn bind_again(&self, id: u32) -> Result<UdpSocket, Refused> {
        let index = usize::try_from(id).ok();
        let address = index.and_then(|index| self.addresses.get(index));
        let bound = address.map(UdpSocket::bind).unwrap_or_else(|| {
            let unknown = std::io::ErrorKind::AddrNotAvailable;
            Err(unknown.into())
        });
        bound.map_err(|error| Refused {
            message: format!("its UDP port could not be had again: {error}"),
            status: 1,
        })
    }

    /// Counts a failed process that is not started again.
    fn count_failure(&mut self, id: u32, status: u8) {
        self.failed.insert(id);
        if self.first_failure.is_none() {
            self.first_failure = Some(status);
            // Before anything is printed: the output may have no reader.
            if self.args.kill_on_failure {
                self.kill();
            }
        }
    }
}

/// A process that ended and did not succeed.
struct Failed {
    id: u32,
    pid: u32,
    status: u8,
    how: String,
    signal: Option<i32>,
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use rustix::net::{AddressFamily, SocketType};

    use super::free_port;

    #[test]
    fn a_kept_port_of_tcp_serves_those_alone_who_ask_for_it() {
        let (udp, kept) = free_port(std::net::Ipv4Addr::LOCALHOST.into()).unwrap();
        let address = udp.local_addr().unwrap();
        let another = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        assert!(rustix::net::bind(&another, &address).is_err());
        let listener = TcpListener::bind(address).unwrap();
        drop((listener, kept));
        rustix::net::bind(&another, &address).unwrap();
    }
}
