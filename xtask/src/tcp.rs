//! The plainest TCP there is, to stand beside ours on one cable.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::error::{Context, Result};
use crate::netns::Pair;

/// Bytes per call: as many as a fast program would use.
const CHUNK: usize = 64 * 1024;

/// The settings of a flow that differ from the kernel's defaults.
#[derive(Clone, Copy, Debug)]
pub struct Tuning<'a> {
    /// The congestion control, as the kernel calls it.
    pub congestion_control: &'a str,
    /// The receive buffer in bytes, which Linux doubles; the kernel sizes it itself without it.
    pub recv_buffer: Option<u32>,
}

/// A TCP flow of zeros from `a` to `b` of a pair; ended when dropped.
#[derive(Debug)]
pub struct Flow {
    arrived: Arc<AtomicU64>,
    ends: [TcpStream; 2],
    threads: Vec<JoinHandle<()>>,
}

impl Flow {
    /// Connects and starts to send, under CUBIC.
    ///
    /// # Errors
    /// The kernel has no CUBIC, or the port is in use.
    pub fn start(pair: &Pair, port: u16) -> Result<Self> {
        let tuning = Tuning {
            congestion_control: "cubic",
            recv_buffer: None,
        };
        Self::tuned(pair, port, tuning)
    }

    /// The same with the settings of `tuning`.
    ///
    /// # Errors
    /// The kernel has no such congestion control, or the port is in use.
    pub fn tuned(pair: &Pair, port: u16, tuning: Tuning<'_>) -> Result<Self> {
        let at = SocketAddr::from((pair.b_addr(), port));
        let listener = pair.b.inside(|| TcpListener::bind(at))?.context(at)?;
        if let Some(bytes) = tuning.recv_buffer {
            // Accepted connections inherit it.
            let bytes = bytes.to_ne_bytes();
            set_option(&listener, libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes)?;
        }
        let source = pair.a.inside(|| TcpStream::connect(at))?.context(at)?;
        let name = tuning.congestion_control;
        // By socket option: as a namespace's default the kernel refuses controls that it calls
        // restricted.
        let (level, option) = (libc::IPPROTO_TCP, libc::TCP_CONGESTION);
        set_option(&source, level, option, name.as_bytes()).context(name)?;
        let (sink, _) = listener.accept()?;
        let arrived = Arc::new(AtomicU64::new(0));
        let ends = [source.try_clone()?, sink.try_clone()?];
        let counter = Arc::clone(&arrived);
        let threads = vec![
            std::thread::spawn(move || send_zeros(source)),
            std::thread::spawn(move || count(sink, &counter)),
        ];
        Ok(Self {
            arrived,
            ends,
            threads,
        })
    }

    /// Bytes that the receiving program has read so far.
    #[must_use]
    pub fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }
}

/// Requests of `size` bytes from `a` to `b` of a pair over a connection of their own, without delay
/// (NODELAY), each when the one before was answered: how long each took, shortest first.
///
/// # Errors
/// The port is in use, or the connection breaks.
pub fn ping(pair: &Pair, port: u16, count: u32, size: usize) -> Result<Vec<Duration>> {
    let at = SocketAddr::from((pair.b_addr(), port));
    let listener = pair.b.inside(|| TcpListener::bind(at))?.context(at)?;
    let mut here = pair.a.inside(|| TcpStream::connect(at))?.context(at)?;
    let (mut there, _) = listener.accept()?;
    for end in [&here, &there] {
        end.set_nodelay(true)?;
    }
    let echo = std::thread::spawn(move || {
        let mut buffer = vec![0; size];
        while there.read_exact(&mut buffer).is_ok() && there.write_all(&buffer).is_ok() {}
    });
    let mut buffer = vec![7; size];
    let mut times = Vec::new();
    for _ in 0..count {
        let begun = Instant::now();
        here.write_all(&buffer)?;
        here.read_exact(&mut buffer)?;
        times.push(begun.elapsed());
    }
    drop(here);
    let _ = echo.join();
    times.sort_unstable();
    Ok(times)
}

impl Drop for Flow {
    fn drop(&mut self) {
        // Both ends: a path may carry nothing, not even the end of the stream.
        for end in &self.ends {
            let _ = end.shutdown(Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn set_option(
    socket: &impl AsRawFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &[u8],
) -> std::io::Result<()> {
    let length = libc::socklen_t::try_from(value.len()).unwrap_or(0);
    let value = value.as_ptr().cast();
    // SAFETY: the descriptor is open; the value outlives the call and has the given length.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, length) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn send_zeros(mut to: TcpStream) {
    let zeros = vec![0; CHUNK];
    while to.write_all(&zeros).is_ok() {}
}

fn count(mut from: TcpStream, arrived: &AtomicU64) {
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                arrived.fetch_add(u64::try_from(length).unwrap_or(0), Ordering::Relaxed);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
