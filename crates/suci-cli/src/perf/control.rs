//! The messages between client and server: one JSON object per line over TCP.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use suci::WaitReason;

use super::usage::Spent;
use crate::args::{Prefer, Waiting, Workload};
use crate::error::{Context, Failure, Result};
use crate::node::local_for;

/// Longest line taken from the other side: HELLO names all other servers.
const LONGEST: u64 = 1 << 18;

/// How long a server of the same launch may take to appear, and any server to take a call.
pub(super) const APPEAR: Duration = Duration::from_secs(10);

/// How long a named server may take to appear: perhaps a script started it with the client.
pub(super) const APPEAR_NAMED: Duration = Duration::from_secs(1);

/// How long either side waits for the other within a measurement.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The transport that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Contender {
    Suci,
    Tcp,
    Udp,
}

impl Contender {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Suci => "suci",
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// A contender, and how it was told to go about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entrant {
    pub(super) contender: Contender,
    /// The mode of Suci, if the command line names one.
    pub(super) prefer: Option<Prefer>,
}

/// A request of a client to a server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Request {
    /// Open the node `node`, which waits so on that processor, for the node `caller`. Answered by
    /// [`Reply::Ready`].
    Hello {
        node: u32,
        caller: u32,
        wait: Waiting,
        pin: Option<usize>,
        #[serde(default = "yes")]
        payload_checksum: bool,
        /// The other servers, to which this one sends when all send to all.
        #[serde(default)]
        others: Vec<(u32, SocketAddr)>,
    },
    /// A further TCP connection of mine waits: it carries TCP's rounds. Answered by
    /// [`Reply::Ready`].
    Tcp,
    /// The next round. Answered by [`Reply::Go`], and after the round by [`Reply::Done`].
    Round(Round),
}

/// The parameters of one turn of one contender.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Round {
    pub(super) contender: Contender,
    pub(super) workload: Workload,
    /// How Suci's traffic flows in this round.
    pub(super) prefer: Prefer,
    pub(super) size: usize,
    /// Messages of each before the next, when all send to all.
    pub(super) data: usize,
    /// Port of the client's socket, for raw UDP.
    pub(super) udp_port: Option<u16>,
}

/// The answer of a server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Reply {
    Ready,
    /// `udp_port`: of the server's socket, for raw UDP.
    Go {
        udp_port: Option<u16>,
    },
    Done(Account),
    /// The server could not; why.
    Failed(String),
}

/// The counts of one side in one round.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Account {
    /// Messages (of raw UDP: datagrams) received by a server, round trips or messages sent by a
    /// client.
    pub(super) messages: u64,
    /// Payload bytes of those messages.
    pub(super) bytes: u64,
    /// Time from the first message to the last, in seconds.
    pub(super) seconds: f64,
    /// Resources used by the process, from the first message to the last word.
    pub(super) spent: Spent,
    /// Packets that this side sent, acknowledgements included.
    pub(super) packets: u64,
    /// How long round trips took.
    #[serde(default)]
    pub(super) trips: Option<Trips>,
    /// How long messages of this side waited.
    #[serde(default)]
    pub(super) waits: Waited,
}

fn yes() -> bool {
    true
}

/// Microseconds that half of the round trips did not exceed, and 99 of 100.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Trips {
    pub(super) p50: f64,
    pub(super) p99: f64,
}

impl Trips {
    /// Returns the statistics of nanoseconds; nothing if there are none.
    pub(super) fn of(mut nanos: Vec<u64>) -> Option<Self> {
        nanos.sort_unstable();
        let rank = |share: usize| {
            nanos
                .len()
                .saturating_mul(share)
                .div_ceil(100)
                .saturating_sub(1)
        };
        let at = |share| nanos.get(rank(share)).map(|nanos| micros(*nanos));
        Some(Self {
            p50: at(50)?,
            p99: at(99)?,
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

/// Nanoseconds for each reason, in the order of [`WaitReason::ALL`]; of several peers their sum.
pub(super) type Waited = [u64; WaitReason::COUNT];

/// Makes the kernel notice within half a minute that the other machine died, however long the
/// connection is silent.
fn keep_alive(stream: &TcpStream) -> Result<(), Errno> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(15))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(5))?;
    sockopt::set_tcp_keepcnt(stream, 3)
}

/// One end of the control connection.
pub(super) struct Control {
    input: BufReader<TcpStream>,
    peer: SocketAddr,
}

/// Whether `error` of a call of `address` means that no port is left here. TCP gives the same
/// answer where this host has no address of that kind.
fn has_no_port(error: &std::io::Error, address: SocketAddr) -> bool {
    let local = SocketAddr::new(local_for(address.ip()), 0);
    let no_port = |error: std::io::Error| error.kind() == ErrorKind::AddrInUse;
    error.kind() == ErrorKind::AddrNotAvailable && TcpListener::bind(local).is_err_and(no_port)
}

impl Control {
    /// Calls a server, which may take as long as `appear` to listen, at its addresses in turn.
    pub(super) fn call(addresses: &[SocketAddr], appear: Duration) -> Result<Self> {
        let end = Instant::now() + appear;
        let mut next = addresses.iter().cycle();
        loop {
            let address = next.next();
            let address = address.ok_or_else(|| Failure::new("no server: name its address"))?;
            match TcpStream::connect_timeout(address, APPEAR) {
                Ok(stream) => return Self::over(stream),
                Err(error) if has_no_port(&error, *address) => {
                    return Err(Failure::new(format!(
                        "calling {address} (TCP): {error}; all ports of net.ipv4.ip_local_port_range are taken: widen \
                         it, as root: sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\", or close some sockets"
                    )));
                }
                Err(_) if Instant::now() < end => std::thread::sleep(Duration::from_millis(50)),
                Err(error) => {
                    let remedy =
                        format!("start `suci perf --listen {address}` there, check the firewall");
                    return Err(Failure::new(format!(
                        "no server at {address} (TCP): {error}; {remedy}"
                    )));
                }
            }
        }
    }

    /// Talks over an accepted connection.
    pub(super) fn over(stream: TcpStream) -> Result<Self> {
        let peer = stream.peer_addr().context("the control connection")?;
        stream.set_nodelay(true).context("the control connection")?;
        keep_alive(&stream).context("the control connection")?;
        Ok(Self {
            input: BufReader::new(stream),
            peer,
        })
    }

    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Says `message`.
    pub(super) fn say(&mut self, message: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(message).context("JSON")?;
        line.push(b'\n');
        self.input
            .get_mut()
            .write_all(&line)
            .context(format_args!("telling {}", self.peer))
    }

    /// Waits for a message, for ever if `limit` is nothing; `None` when the other side hung up.
    pub(super) fn hear<T: DeserializeOwned>(
        &mut self,
        limit: Option<Duration>,
    ) -> Result<Option<T>> {
        let peer = self.peer;
        let what = || format!("hearing from {peer}");
        self.input
            .get_ref()
            .set_read_timeout(limit)
            .context(what())?;
        let mut line = String::new();
        let got = (&mut self.input)
            .take(LONGEST)
            .read_line(&mut line)
            // A server that was killed before it had read everything.
            .or_else(|error| match error.kind() {
                ErrorKind::ConnectionReset => Ok(0),
                _ => Err(error),
            })
            .context(what())?;
        if got == 0 {
            return Ok(None);
        }
        if !line.ends_with('\n') && line.len() as u64 == LONGEST {
            return Err(Failure::new(format!(
                "{peer} said more than {LONGEST} bytes at once"
            )));
        }
        let remedy = "is it suci perf of the same release?";
        let message = serde_json::from_str(&line);
        message
            .map(Some)
            .map_err(|error| Failure::new(format!("{peer} said {line:?}: {error}; {remedy}")))
    }

    /// Returns true if the other side closed the connection. Its earlier messages can still be
    /// read.
    pub(super) fn has_hung_up(&self) -> bool {
        has_hung_up(self.input.get_ref())
    }

    /// Returns the next reply of a server, which must come.
    pub(super) fn reply(&mut self) -> Result<Reply> {
        match self.hear(Some(PATIENCE))? {
            Some(Reply::Failed(why)) => Err(Failure::new(format!("server {}: {why}", self.peer))),
            Some(reply) => Ok(reply),
            None => Err(Failure::new(format!(
                "the server at {} has gone: see its error output, and start it again",
                self.peer
            ))),
        }
    }

    /// Makes the error for a reply out of turn.
    pub(super) fn unexpected(&self, reply: &Reply) -> Failure {
        Failure::new(format!(
            "server {} said {reply:?} out of turn: use the same release",
            self.peer
        ))
    }
}

fn has_hung_up(stream: &TcpStream) -> bool {
    let mut fd = PollFd::new(stream, PollFlags::RDHUP);
    let looked = poll(std::slice::from_mut(&mut fd), Some(&Timespec::default()));
    looked.is_ok() && !fd.revents().is_empty()
}

/// The servers of this process, if it measures. Static, because else every loop and every wire
/// would carry them along.
static WATCHED: Mutex<Vec<TcpStream>> = Mutex::new(Vec::new());

/// Watches these servers, and no others, from now on: they have to be there.
pub(super) fn watch<'a>(servers: impl Iterator<Item = &'a Control>) -> Result<()> {
    let streams: std::io::Result<_> = servers.map(|it| it.input.get_ref().try_clone()).collect();
    *WATCHED.lock().unwrap_or_else(PoisonError::into_inner) =
        streams.context("the control connection")?;
    Ok(())
}

/// Fails when a server has hung up: its node, if killed, would only be silent. This makes system
/// calls, so call it only after a wait without result.
#[cold]
pub(super) fn check_servers() -> Result<()> {
    let watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    match watched.iter().any(has_hung_up) {
        true => Err(Failure::new("a server has gone")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_hello_of_a_launch_is_taken() {
        let address = "[fe80::1234:5678:9abc:def0%4294967295]:65535"
            .parse()
            .unwrap();
        let most = u32::try_from(crate::args::MAX_PROCESSES).unwrap();
        let hello = Request::Hello {
            node: u32::MAX,
            caller: u32::MAX,
            wait: Waiting::Adaptive,
            pin: Some(4_095),
            payload_checksum: false,
            others: (0..most).map(|id| (id, address)).collect(),
        };
        let length = serde_json::to_vec(&hello).unwrap().len() as u64;
        assert!(length < LONGEST, "{length}");
    }
}
