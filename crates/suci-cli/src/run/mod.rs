//! `suci run`: processes that know each other, on this machine, or by an [agent] on each of several
//! [hosts].
//!
//! The launcher binds every socket itself and hands each process its own, already bound. Another
//! process could take a port that is only looked up and then bound again.
//!
//! The end of a process is told to the others at once, by a [pipe](notices) that each of them
//! inherits. So nobody has to conclude an end from silence: a process may start late, or be
//! stopped.
//!
//! One thread waits for everything: signals and ends alike. It alone reaps processes, and signals
//! none that it reaped, so that no signal reaches a stranger that inherited a number. It reaps
//! every child of the launcher, also those that it did not start: as the first process of a
//! container it gets the orphans of all others.

mod agent;
mod child;
mod hostlist;
mod hosts;
mod key;
mod memory;
mod notices;
mod reserve;
mod tag;

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions, getpid, getsid, wait};
use suci::env::ProcessEnd;

use self::child::{Child, End, Refused};
use self::notices::Notices;
use self::reserve::Reserved;
use crate::args::RunArgs;
use crate::error::{Context, Failure, Result, tell};
use crate::signals::{Caught, ChildSignal, Signals};

/// Runs until every process has ended.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode> {
    if args.hosts.agent {
        return agent::run();
    }
    check_restart(args)?;
    if !args.hosts.hosts.is_empty() || args.hosts.host_file.is_some() {
        return hosts::run(args);
    }
    let signals = Signals::catch()?;
    let child_signal = ChildSignal::catch()?;
    let Reserved {
        book,
        sockets,
        tcp_ports: _tcp_ports,
    } = reserve::reserve(args)?;
    let key = match args.plain {
        true => None,
        false => key::for_processes(args.address)?,
    };
    let size = args.processes.unwrap_or(0);
    let nodes = Nodes { first: 0, size };
    let launch = Launch::new(args, nodes, (book, key), child_signal, &sockets)?;
    launch.run(sockets, &signals)
}

/// The nodes of a launch, from 0 on, and the first of those on this machine.
#[derive(Clone, Copy, Debug)]
struct Nodes {
    first: u32,
    size: u32,
}

/// Refuses `--restart 3 program`, where 3 would be the program: the number may be left out, so it
/// stands behind `=`.
fn check_restart(args: &RunArgs) -> Result<()> {
    let first = args.program.first().and_then(|word| word.to_str());
    match first.filter(|word| args.restart.is_some() && is_whole(word)) {
        None => Ok(()),
        Some(number) => Err(Failure::new(format!(
            "{number} is no program: {}",
            restart_remedy(number)
        ))),
    }
}

/// Returns the remedy for words of a command line that were refused, if `--restart` and its number
/// stand among them.
pub(crate) fn remedy_for(words: impl Iterator<Item = String>) -> Option<String> {
    let mut words = words.skip_while(|word| word != "--restart").skip(1);
    words
        .next()
        .filter(|word| is_whole(word))
        .map(|number| restart_remedy(&number))
}

fn is_whole(word: &str) -> bool {
    word.parse::<u64>().is_ok()
}

fn restart_remedy(number: &str) -> String {
    format!("the number of --restart stands behind `=`: --restart={number}")
}

/// Failed processes whose IDs are printed at most, where failures are tolerated.
const NAMED: usize = 20;

/// Returns the numbers of processes as an error names them: the first ones.
fn names<'a>(ids: impl ExactSizeIterator<Item = &'a u32>) -> String {
    let more = if ids.len() > NAMED { ", ..." } else { "" };
    let named: Vec<_> = ids.take(NAMED).map(u32::to_string).collect();
    format!("{}{more}", named.join(", "))
}

/// Names the processes that failed of so many, and returns the exit status of the whole: their
/// number.
fn tolerated(failed: &BTreeSet<u32>, size: u32) -> u8 {
    let count = failed.len();
    if count > 0 {
        let named = names(failed.iter());
        tell(format_args!(
            "suci run: {count} of {size} processes failed: {named}"
        ));
    }
    u8::try_from(count).map_or(MANY_FAILED, |count| count.min(MANY_FAILED))
}

/// The exit status where more than 100 processes failed, as GNU parallel has it.
const MANY_FAILED: u8 = 101;

/// The processes of this machine and their states.
struct Launch<'a> {
    args: &'a RunArgs,
    nodes: Nodes,
    /// The launcher of all hosts, if this one serves a host.
    agent: Option<agent::Link>,
    /// Further variables of the processes.
    variables: Vec<(String, String)>,
    book: OwnedFd,
    /// The key of this run, if the launcher made one.
    key: Option<OwnedFd>,
    child_signal: ChildSignal,
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
        nodes: Nodes,
        (book, key): (OwnedFd, Option<OwnedFd>),
        child_signal: ChildSignal,
        sockets: &[UdpSocket],
    ) -> Result<Self> {
        let addresses = sockets.iter().map(UdpSocket::local_addr);
        let addresses: std::io::Result<Vec<_>> = addresses.collect();
        Ok(Self {
            args,
            nodes,
            agent: None,
            variables: Vec::new(),
            book,
            key,
            child_signal,
            addresses: addresses.context("a socket's address")?,
            restarts: vec![0; sockets.len()],
            children: Vec::new(),
            notices: Notices::new(nodes.size),
            tags: tag::Tags::default(),
            first_failure: None,
            failed: BTreeSet::new(),
            interrupts: 0,
            ending: false,
            killed: false,
        })
    }

    /// Starts all, and waits until they have ended.
    fn run(mut self, sockets: Vec<UdpSocket>, signals: &Signals) -> Result<ExitCode> {
        for (id, socket) in (self.nodes.first..).zip(sockets) {
            if let Err(refused) = self.start(id, socket)? {
                self.kill();
                self.wait(signals)?;
                tell(format_args!("suci run: {}", refused.message));
                return Ok(ExitCode::from(refused.status));
            }
        }
        // A signal from the terminal did not reach processes that were not there yet. The others
        // may get it twice.
        for Caught { signal, .. } in signals.take() {
            let by_kernel = false;
            self.pass_on(Caught { signal, by_kernel });
        }
        self.wait(signals)?;
        let status = self.status();
        if let Err(failure) = self.tags.finish(|| !signals.take().is_empty()) {
            tell(format_args!("suci run: {failure}"));
            return Ok(ExitCode::from(if status == 0 { 1 } else { status }));
        }
        Ok(ExitCode::from(status))
    }

    /// Starts process `id` with its socket.
    fn start(&mut self, id: u32, socket: UdpSocket) -> Result<Result<(), Refused>> {
        let environment = child::ChildEnvironment {
            id,
            size: self.nodes.size,
            book: &self.book,
            faults: self.args.faults.as_deref(),
            key: self.key.as_ref(),
            plain: self.args.plain,
            has_input: id == 0 && self.agent.is_none(),
            variables: &self.variables,
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
            self.obey();
            if ended {
                self.reap()?;
            }
        }
        Ok(())
    }

    /// Does what the launcher of all hosts says.
    fn obey(&mut self) {
        let orders = self
            .agent
            .as_ref()
            .map(agent::Link::take)
            .unwrap_or_default();
        for order in orders {
            match order {
                agent::Order::Ended(id, end) => self.notices.add(id, end),
                agent::Order::Signal(signal) => self.pass_on(Caught {
                    signal,
                    by_kernel: false,
                }),
                agent::Order::Kill => self.kill(),
            }
        }
    }

    /// Tells all processes that `id` has ended; with the status of a failure.
    fn tell_end(&mut self, id: u32, end: ProcessEnd, status: u8) {
        self.notices.add(id, end);
        if self.agent.is_some() {
            agent::tell_end(id, end, status);
        }
    }

    /// Returns the exit status of the whole. Names those that failed, if failures are tolerated.
    fn status(&self) -> u8 {
        match self.args.tolerate_failures {
            true => tolerated(&self.failed, self.nodes.size),
            false => self.first_failure.unwrap_or(0),
        }
    }

    /// Sleeps until a signal was caught or a process ended. Meanwhile writes notices to the
    /// processes.
    fn sleep(&mut self, signals: &Signals) -> Result<(Vec<Caught>, bool)> {
        let ends = PollFd::new(self.child_signal.pipe(), PollFlags::IN);
        let orders = self.agent.iter().map(agent::Link::pipe);
        let pipes = signals.pipes().chain(orders);
        let pipes = pipes.map(|pipe| PollFd::new(pipe, PollFlags::IN));
        let outboxes = self.children.iter().map(Child::outbox).enumerate();
        let waiting = outboxes.filter_map(|(at, outbox)| Some((at, outbox.wants(&self.notices)?)));
        let waiting: Vec<_> = waiting.collect();
        let rooms = waiting.iter();
        let rooms = rooms.map(|(_, pipe)| PollFd::new(*pipe, PollFlags::OUT));
        let mut fds: Vec<PollFd<'_>> = rooms.chain([ends]).chain(pipes).collect();
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Failure::new(format!("waiting for processes: {error}"))),
        }
        let ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let writable = waiting.iter().zip(&fds).filter(|(_, fd)| ready(fd));
        let writable: Vec<_> = writable.map(|((at, _), _)| *at).collect();
        for at in writable {
            if let Some(child) = self.children.get_mut(at) {
                child.outbox_mut().write(&self.notices);
            }
        }
        Ok((signals.take(), self.child_signal.take()))
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

    /// Reaps everyone that ended, and starts those again that may be. A child that this launcher
    /// did not start is an orphan of another process, or a child of the program before it in this
    /// process (`exec suci run`).
    fn reap(&mut self) -> Result<()> {
        loop {
            let (pid, status) = match wait(WaitOptions::NOHANG) {
                Ok(Some(ended)) => ended,
                Ok(None) | Err(Errno::CHILD) => return Ok(()),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error).context("waiting for a process"),
            };
            let Some(at) = self.children.iter().position(|child| child.pid() == pid) else {
                continue;
            };
            let id = self.children.swap_remove(at).id();
            match child::judge(status) {
                End::Well => self.tell_end(id, ProcessEnd::Finished, 0),
                End::Failed {
                    status,
                    how,
                    signal,
                } => self.on_failure(Failed {
                    id,
                    pid: pid.as_raw_nonzero().get(),
                    status,
                    how,
                    signal,
                })?,
            }
        }
    }

    /// Handles the failure of a process: it is started again, or the others are told that it is
    /// gone. Failures caused by our own killing are not reported.
    fn on_failure(&mut self, failed: Failed) -> Result<()> {
        let Failed { id, pid, .. } = failed;
        let again = self.take_restart(id);
        let end = match again {
            Some(_) => ProcessEnd::Replaced,
            None => ProcessEnd::Failed,
        };
        self.tell_end(id, end, failed.status);
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
            self.tell_end(id, ProcessEnd::Failed, status);
            self.count_failure(id, status);
        }
        Ok(())
    }

    /// Counts a restart of process `id`, if it may be started again: which one it is, and of how
    /// many.
    fn take_restart(&mut self, id: u32) -> Option<(u32, u32)> {
        let most = self.args.restart.filter(|_| !self.ending)?;
        let index = usize::try_from(id.checked_sub(self.nodes.first)?).ok()?;
        let count = self.restarts.get_mut(index)?;
        (*count < most).then(|| {
            *count += 1;
            (*count, most)
        })
    }

    /// Returns a socket at the address of process `id`, which has ended.
    fn bind_again(&self, id: u32) -> Result<UdpSocket, Refused> {
        let index = id.checked_sub(self.nodes.first);
        let index = index.and_then(|index| usize::try_from(index).ok());
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
    pid: i32,
    status: u8,
    how: String,
    signal: Option<i32>,
}
