//! `suci run`: local processes that know each other.
//!
//! The launcher binds every socket itself and hands each process its own, already bound: a port that is
//! only looked up and then bound again by the process could be taken in between by anybody.
//!
//! One thread waits for everything at once, signals and ends alike. Processes are named by pidfd, so that
//! no signal ever reaches a stranger that inherited the number of a process already reaped.

mod child;
mod tag;

use std::fs::{DirEntry, File};
use std::io::Write;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Signal, geteuid, getpid, getsid};

use self::child::{Child, End};
use crate::args::RunArgs;
use crate::error::{Context, Failure, Result, tell};
use crate::signals::{self, Caught, Signals};

/// Runs until every process has ended.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode> {
    let signals = Signals::catch()?;
    signals::notice_children()?;
    let (book, sockets) = reserve(args.processes)?;
    let mut launch = Launch {
        explained: args.explained,
        ..Launch::default()
    };
    let mut tags = tag::Tags::default();
    for (id, socket) in (0..).zip(sockets) {
        let place = child::Place {
            id,
            size: args.processes,
            book: book.path(),
            faults: args.faults.as_deref(),
        };
        match Child::start(&args.program, &place, socket, args.tag_output) {
            Ok(mut child) => {
                if args.tag_output {
                    tags.follow(id, &mut child)?;
                }
                launch.children.push(child);
            }
            Err(refused) => {
                launch.kill();
                launch.wait(&signals, false)?;
                tell(format_args!("suci run: {}", refused.message));
                return Ok(ExitCode::from(refused.status));
            }
        }
    }
    // What the terminal sent meanwhile missed those that were not there yet; the others may hear it twice.
    for Caught { signal, .. } in signals.take() {
        let by_kernel = false;
        launch.pass_on(Caught { signal, by_kernel });
    }
    launch.wait(&signals, args.kill_on_failure)?;
    if let Err(failure) = tags.finish(|| !signals.take().is_empty()) {
        tell(format_args!("suci run: {failure}"));
        launch.first_failure.get_or_insert(1);
    }
    Ok(ExitCode::from(launch.first_failure.unwrap_or(0)))
}

/// How the names of address books begin.
const BOOK: &str = "suci-book-";

/// How old a book without a lock must be before its launcher is taken for dead: a new one is locked a
/// moment after it was made.
const SETTLED: Duration = Duration::from_secs(60);

/// Removes the books of one's own launchers that were killed before they could. Whatever cannot be looked
/// at stays.
fn sweep() {
    let is_left_over = |entry: &DirEntry| {
        let info = entry.metadata()?;
        let old = info.modified()?.elapsed().is_ok_and(|age| age > SETTLED);
        // Of others' files not even the kind can be trusted.
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

/// Binds a socket for each process, and writes the book that names them.
fn reserve(count: u32) -> Result<(tempfile::NamedTempFile, Vec<UdpSocket>)> {
    sweep();
    let mut book = tempfile::Builder::new()
        .prefix(BOOK)
        .tempfile()
        .context("the address book, a temporary file (TMPDIR says where)")?;
    // Says that its launcher lives.
    book.as_file().lock().context(book.path().display())?;
    let mut sockets = Vec::new();
    for id in 0..count {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context(format_args!(
            "a UDP socket on 127.0.0.1 for process {id} (`ulimit -n` limits how many there can be)"
        ))?;
        let address = socket.local_addr().context("a socket's address")?;
        writeln!(book, "{id} {address}").context(book.path().display())?;
        sockets.push(socket);
    }
    book.flush().context(book.path().display())?;
    Ok((book, sockets))
}

/// The processes and what became of them.
#[derive(Default)]
struct Launch {
    children: Vec<Child>,
    first_failure: Option<u8>,
    interrupts: u32,
    /// All that are left were killed from here.
    killed: bool,
    /// Those that exit with a failure have said why.
    explained: bool,
}

impl Launch {
    /// Until all have ended.
    fn wait(&mut self, signals: &Signals, kill_on_failure: bool) -> Result<()> {
        while !self.children.is_empty() {
            let (caught, ended) = self.sleep(signals)?;
            for caught in caught {
                self.pass_on(caught);
            }
            if ended {
                self.reap(kill_on_failure)?;
            }
        }
        Ok(())
    }

    /// Sleeps until a signal was caught or a process ended.
    fn sleep(&self, signals: &Signals) -> Result<(Vec<Caught>, bool)> {
        let pipes = signals.pipes();
        let before = pipes.len();
        let pipes = pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN));
        let children = self
            .children
            .iter()
            .map(|child| PollFd::new(child.pidfd(), PollFlags::IN));
        let mut fds: Vec<PollFd<'_>> = pipes.chain(children).collect();
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Failure::new(format!("waiting for processes: {error}"))),
        }
        let ended = fds.iter().skip(before).any(|fd| !fd.revents().is_empty());
        Ok((signals.take(), ended))
    }

    /// A key pressed at the terminal signals every process of the launcher's group, so those have it already. But of the
    /// terminal's end the kernel tells whoever leads its session alone.
    fn pass_on(&mut self, Caught { signal, by_kernel }: Caught) {
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
        self.killed = true;
        for child in &self.children {
            child.signal(Signal::KILL);
        }
    }

    /// Takes note of everyone that ended. What follows from our own killing is not reported as news.
    fn reap(&mut self, kill_on_failure: bool) -> Result<()> {
        let mut at = 0;
        while let Some(child) = self.children.get_mut(at) {
            let Some(end) = child.try_end()? else {
                at += 1;
                continue;
            };
            if let End::Failed {
                status,
                how,
                signal,
            } = end
            {
                let is_known = match signal {
                    Some(signal) => self.killed && signal == Signal::KILL.as_raw(),
                    None => self.explained,
                };
                let (id, pid) = (child.id(), child.pid());
                if self.first_failure.is_none() {
                    self.first_failure = Some(status);
                    // Before anything is said: nobody may be reading.
                    if kill_on_failure {
                        self.kill();
                    }
                }
                if !is_known {
                    tell(format_args!("suci run: process {id} (pid {pid}) {how}"));
                }
            }
            self.children.swap_remove(at);
        }
        Ok(())
    }
}
