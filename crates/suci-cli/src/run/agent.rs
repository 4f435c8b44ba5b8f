//! The part of `suci run --hosts` on one host. Standard input brings what the launcher says, in
//! lines; its end means that the launcher, or the way to it, is gone. Standard output has the
//! processes' lines with their numbers in front, and between them answers that begin with
//! [`ANSWER`], which no such line does.

use std::io::{BufRead, BufReader, Read, Stdin};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use suci::env::ProcessEnd;

use super::{Launch, Nodes, memory, reserve};
use crate::args::{HostArgs, RunArgs};
use crate::error::{Context, Failure, Result};
use crate::output::write_all;
use crate::signals::{ChildSignal, Signals};

/// Begins a line to the launcher.
pub(super) const ANSWER: char = '\u{1}';

/// The first line of the launcher: what to start.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Start {
    /// The launcher's version, which must be this one's.
    pub(super) version: String,
    pub(super) first: u32,
    pub(super) processes: u32,
    /// Of all hosts.
    pub(super) size: u32,
    pub(super) program: Vec<String>,
    /// The program was copied beside this command.
    pub(super) is_copied: bool,
    pub(super) directory: String,
    pub(super) variables: Vec<(String, String)>,
    pub(super) restart: Option<u32>,
    pub(super) faults: Option<String>,
    pub(super) plain: bool,
}

/// The second line: where all processes are.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Book {
    pub(super) book: String,
    /// The text of a file of keys.
    pub(super) key: Option<String>,
}

/// A later line of the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// A process of another host has ended.
    Ended(u32, ProcessEnd),
    Signal(Signal),
    Kill,
}

impl Order {
    /// The line of an order.
    pub(super) fn line(self) -> String {
        match self {
            Self::Ended(id, end) => format!("{} {id}\n", word(end)),
            Self::Signal(signal) => format!("signal {}\n", signal.as_raw()),
            Self::Kill => "kill\n".to_owned(),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["kill"] => Some(Self::Kill),
            ["signal", number] => {
                let all = [Signal::INT, Signal::TERM, Signal::HUP];
                let fits = |signal: &Signal| signal.as_raw().to_string() == number;
                all.into_iter().find(fits).map(Self::Signal)
            }
            [end, id] => Some(Self::Ended(id.parse().ok()?, end_of(end)?)),
            _ => None,
        }
    }
}

fn word(end: ProcessEnd) -> &'static str {
    match end {
        ProcessEnd::Replaced => "died",
        ProcessEnd::Finished => "gone",
        ProcessEnd::Failed => "failed",
    }
}

fn end_of(word: &str) -> Option<ProcessEnd> {
    let all = [
        ProcessEnd::Replaced,
        ProcessEnd::Finished,
        ProcessEnd::Failed,
    ];
    all.into_iter().find(|end| self::word(*end) == word)
}

/// A line of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The addresses of its processes, in the order of their numbers.
    At(Vec<String>),
    /// A process has ended; with the status of a failure.
    Ended(u32, ProcessEnd, u8),
}

impl Answer {
    /// Parses a line behind [`ANSWER`].
    pub(super) fn parse(line: &str) -> Option<Self> {
        let words: Vec<_> = line.split_whitespace().collect();
        match &words[..] {
            ["at", addresses @ ..] => Some(Self::At(
                addresses.iter().map(|it| (*it).to_owned()).collect(),
            )),
            [end, id, status] => {
                let (id, status) = (id.parse().ok()?, status.parse().ok()?);
                Some(Self::Ended(id, end_of(end)?, status))
            }
            _ => None,
        }
    }
}

/// Tells the launcher how a process ended.
pub(super) fn tell_end(id: u32, end: ProcessEnd, status: u8) {
    // A launcher that is gone closes standard input, too.
    let _ = answer(&format!("{} {id} {status}", word(end)));
}

fn answer(text: &str) -> std::io::Result<()> {
    let out = std::io::stdout().lock();
    write_all(&out, format!("{ANSWER}{text}\n").as_bytes())
}

/// The way from the launcher.
pub(super) struct Link {
    orders: Receiver<Order>,
    /// Becomes readable with each order.
    wake: UnixStream,
}

impl Link {
    /// Reads orders by a thread.
    fn follow(mut input: BufReader<Stdin>) -> Result<Self> {
        let (wake, waker) = UnixStream::pair().context("a pipe for orders")?;
        wake.set_nonblocking(true).context("a pipe for orders")?;
        let (to, orders) = channel();
        let work = move || {
            loop {
                let mut line = String::new();
                // After the end, or a broken way, nobody would stop the processes.
                let order = match input.read_line(&mut line) {
                    Ok(0) | Err(_) => Some(Order::Kill),
                    Ok(_) => Order::parse(&line),
                };
                let is_over = line.is_empty();
                if let Some(order) = order
                    && (to.send(order).is_err() || write_all(&waker, &[0]).is_err())
                {
                    return;
                }
                if is_over {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().spawn(work);
        thread.context("a thread for orders")?;
        Ok(Self { orders, wake })
    }

    pub(super) fn pipe(&self) -> &UnixStream {
        &self.wake
    }

    /// Returns the orders since the last call.
    pub(super) fn take(&self) -> Vec<Order> {
        // An empty pipe is an error here.
        while (&mut &self.wake)
            .read(&mut [0; 256])
            .is_ok_and(|count| count == 256)
        {}
        self.orders.try_iter().collect()
    }
}

/// Serves a launcher until all processes of this host have ended.
pub(super) fn run() -> Result<ExitCode> {
    let signals = Signals::catch()?;
    let child_signal = ChildSignal::catch()?;
    let mut input = BufReader::new(std::io::stdin());
    let start: Start = read(&mut input)?.ok_or_else(|| {
        Failure::new("this is a part of suci run --hosts, which starts it: use that")
    })?;
    if start.version != env!("CARGO_PKG_VERSION") {
        return Err(Failure::new(format!(
            "this command has version {}, and the launcher {}: install the same on all hosts, or \
             add --copy",
            env!("CARGO_PKG_VERSION"),
            start.version
        )));
    }
    let directory = &start.directory;
    std::env::set_current_dir(directory).context(format!(
        "directory {directory}, from which the launcher was started (make it on this host)"
    ))?;
    let ids = start.first..start.first.saturating_add(start.processes);
    let address = own_address();
    let bound = reserve::bind_all(address, ids)?;
    let sockets: Vec<UdpSocket> = bound.into_iter().map(|(socket, _)| socket).collect();
    let mut told = "at".to_owned();
    for socket in &sockets {
        let at = socket.local_addr().context("a socket's address")?;
        told.push_str(&format!(" {at}"));
    }
    answer(&told).context("standard output")?;
    // The launcher ends where another host has no agent, and says so itself.
    let Some(Book { book, key }) = read(&mut input)? else {
        return Ok(ExitCode::FAILURE);
    };
    let book = memory::file(c"suci-book", book.as_bytes(), "the address book")?;
    let key = key.map(|key| memory::file(c"suci-key", key.as_bytes(), "the key"));
    let (first, size) = (start.first, start.size);
    let (args, variables) = arguments(start, address)?;
    let nodes = Nodes { first, size };
    let secrets = (book, key.transpose()?);
    let mut launch = Launch::new(&args, nodes, secrets, child_signal, &sockets)?;
    launch.agent = Some(Link::follow(input)?);
    launch.variables = variables;
    launch.run(sockets, &signals)
}

/// Reads a line of the launcher; nothing if it is gone.
fn read<T: for<'a> Deserialize<'a>>(input: &mut BufReader<Stdin>) -> Result<Option<T>> {
    let mut line = String::new();
    if input.read_line(&mut line).context("standard input")? == 0 {
        return Ok(None);
    }
    serde_json::from_str(&line)
        .context("what the launcher said")
        .map(Some)
}

type Variables = Vec<(String, String)>;

/// The arguments of the launch on this host.
fn arguments(start: Start, address: IpAddr) -> Result<(RunArgs, Variables)> {
    let mut program: Vec<std::ffi::OsString> = start.program.into_iter().map(Into::into).collect();
    if let Some(first) = program.first_mut().filter(|_| start.is_copied) {
        let own = std::env::current_exe().context("the path of suci itself")?;
        let name = std::path::Path::new(first).file_name().unwrap_or_default();
        *first = own.with_file_name(name).into();
    }
    let args = RunArgs {
        processes: Some(start.processes),
        hosts: HostArgs::default(),
        tag_output: true,
        kill_on_failure: false,
        restart: start.restart,
        tolerate_failures: false,
        address,
        plain: start.plain,
        faults: start.faults,
        program,
        explained: false,
        keeps_tcp_ports: false,
    };
    Ok((args, start.variables))
}

/// The address by which the launcher reached this host, so that other hosts may, too.
fn own_address() -> IpAddr {
    let connection = std::env::var("SSH_CONNECTION").unwrap_or_default();
    address_in(&connection).unwrap_or(Ipv4Addr::LOCALHOST.into())
}

/// The server's address in what `sshd` tells: client, its port, server, its port.
fn address_in(connection: &str) -> Option<IpAddr> {
    connection.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_and_answers_are_read_as_they_are_written() {
        for order in [
            Order::Ended(7, ProcessEnd::Replaced),
            Order::Ended(0, ProcessEnd::Finished),
            Order::Ended(u32::MAX, ProcessEnd::Failed),
            Order::Signal(Signal::INT),
            Order::Signal(Signal::HUP),
            Order::Kill,
        ] {
            assert_eq!(Order::parse(&order.line()), Some(order));
        }
        for unknown in [
            "", "kill now", "signal 9", "signal x", "lost 3", "gone -1", "gone",
        ] {
            assert_eq!(Order::parse(unknown), None, "{unknown}");
        }
        assert_eq!(
            Answer::parse("failed 3 139"),
            Some(Answer::Ended(3, ProcessEnd::Failed, 139))
        );
        assert_eq!(Answer::parse("at"), Some(Answer::At(Vec::new())));
        for unknown in ["", "failed 3", "failed 3 256", "lost 3 1", "gone x 0"] {
            assert_eq!(Answer::parse(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn the_address_is_that_by_which_the_launcher_came() {
        let of = |text| address_in(text).map(|it| it.to_string());
        assert_eq!(
            of("10.0.0.1 50000 10.0.0.2 22").as_deref(),
            Some("10.0.0.2")
        );
        assert_eq!(of("fd00::1 5 fd00::2 22").as_deref(), Some("fd00::2"));
        assert_eq!(of(""), None);
        assert_eq!(of("UNKNOWN 65535 UNKNOWN 65535"), None);
    }
}
