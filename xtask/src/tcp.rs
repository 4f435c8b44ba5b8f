//! The plainest TCP there is, to stand beside ours on one cable. The congestion controller is
//! the namespace's default, which [`Contender::start`] sets to CUBIC.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::error::{Context, Result};
use crate::exec::Process;
use crate::netns::{Netns, Pair};

/// Bytes per call: what a program that cares about speed would use.
const CHUNK: usize = 64 * 1024;

/// How long the source keeps trying to connect.
const PATIENCE: Duration = Duration::from_secs(5);

/// Accepts one connection at `at` and writes what arrives to the standard output.
///
/// # Errors
/// The address cannot be listened on, or the connection or the output fails.
pub fn sink(at: SocketAddr) -> Result<()> {
    let (mut stream, _) = TcpListener::bind(at).context(at)?.accept()?;
    copy(&mut stream, &mut std::io::stdout().lock())
}

/// Connects to `to` and sends it the standard input.
///
/// # Errors
/// Nobody listens within five seconds, or the connection or the input fails.
pub fn source(to: SocketAddr) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let mut stream = loop {
        match TcpStream::connect(to) {
            Ok(stream) => break stream,
            Err(error)
                if error.kind() == ErrorKind::ConnectionRefused && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => return Err(error).context(to),
        }
    };
    copy(&mut std::io::stdin().lock(), &mut stream)
}

fn copy(from: &mut impl Read, to: &mut impl Write) -> Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        let length = from.read(&mut buffer)?;
        if length == 0 {
            return Ok(to.flush()?);
        }
        to.write_all(buffer.get(..length).unwrap_or_default())?;
    }
}

/// A TCP CUBIC flow from `a` to `b` of a pair, sending zeros until dropped.
#[derive(Debug)]
pub struct Contender {
    _sink: Process,
    _source: Process,
}

impl Contender {
    /// Starts the flow; what arrives is written to `out`, whose length thus tells its progress.
    ///
    /// # Errors
    /// A process cannot be started, or the kernel has no CUBIC.
    pub fn start(pair: &Pair, port: u16, out: &Path) -> Result<Self> {
        let to = SocketAddr::from((pair.b_addr(), port)).to_string();
        let own = std::env::current_exe()?;
        let end = |at: &Netns, chore: &str| -> Result<std::process::Command> {
            at.run(&[
                "sysctl",
                "-q",
                "-w",
                "net.ipv4.tcp_congestion_control=cubic",
            ])?;
            let mut command = at.command(&own);
            command.args([chore, &to]);
            Ok(command)
        };
        let sink = Process::spawn(end(&pair.b, "tcp-sink")?.stdout(File::create(out)?))?;
        let mut source = end(&pair.a, "tcp-source")?;
        source.stdin(File::open("/dev/zero")?).stdout(Stdio::null());
        Ok(Self {
            _sink: sink,
            _source: Process::spawn(&mut source)?,
        })
    }
}
