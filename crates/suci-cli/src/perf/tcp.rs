//! Plain TCP as a careful program uses it: CUBIC, NODELAY, default buffers, a length before each
//! message.

use std::io::{self, BufReader, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use rustix::net::sockopt::set_tcp_congestion;
use suci::Bytes;

use super::control::PATIENCE;
use super::wire::{COLLECTED, Mark, Received, Wire, touch};
use crate::args::{MAX_SIZE, Waiting};
use crate::error::{Context, Failure, Result};

/// Bytes asked of the kernel at once.
const BUFFER: usize = 256 << 10;

/// Messages up to this long are copied behind their length, so that one plain write sends both.
const SMALL: usize = 16 << 10;

/// Bits of the prefix that are the length; the two above are the mark.
const LENGTH_BITS: u32 = 30;

/// A socket whose reads and writes wait for something to do, asleep or spinning.
struct Patient(TcpStream);

impl Patient {
    fn retry(
        &mut self,
        mut act: impl FnMut(&mut TcpStream) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut begun = None;
        loop {
            match act(&mut self.0) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    // A blocking socket has already waited for that long.
                    if begun.get_or_insert_with(Instant::now).elapsed() >= PATIENCE {
                        return Err(error);
                    }
                    std::hint::spin_loop();
                }
                done => return done,
            }
        }
    }
}

impl Read for Patient {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.retry(|stream| stream.read(into))
    }
}

/// One TCP connection.
pub(super) struct Tcp {
    input: BufReader<Patient>,
    message: Vec<u8>,
    out: Vec<u8>,
}

impl Tcp {
    pub(super) fn new(stream: TcpStream, wait: Waiting) -> Result<Self> {
        set_tcp_congestion(&stream, "cubic")
            .context("TCP_CONGESTION=cubic (modprobe tcp_cubic if the kernel lacks it)")?;
        stream.set_nodelay(true).context("TCP_NODELAY")?;
        stream
            .set_nonblocking(wait == Waiting::Spin)
            .context("TCP socket")?;
        stream
            .set_read_timeout(Some(PATIENCE))
            .context("TCP socket")?;
        // Long messages pass the buffer by, except for the part that came with their prefix.
        let input = BufReader::with_capacity(BUFFER, Patient(stream));
        Ok(Self {
            input,
            message: Vec::new(),
            out: Vec::new(),
        })
    }

    fn receive(&mut self) -> io::Result<Received> {
        let mut prefix = [0; 4];
        self.input.read_exact(&mut prefix)?;
        let mark = u8::try_from(u32::from_le_bytes(prefix) >> LENGTH_BITS);
        let mark = mark.ok().and_then(Mark::of);
        let mark = mark.ok_or_else(|| io::Error::other("a message prefix that no client sends"))?;
        let length = length(prefix);
        if length > MAX_SIZE {
            return Err(io::Error::other(format!(
                "a message of {length} bytes, longer than any client sends"
            )));
        }
        self.message.resize(length, 0);
        self.input.read_exact(&mut self.message)?;
        touch(&self.message);
        Ok(Received { mark, length })
    }

    fn transmit(&mut self, payload: &[u8], mark: Mark) -> io::Result<()> {
        if payload.len() <= SMALL {
            self.collect(payload, mark)?;
            return self.flush();
        }
        let prefix = prefix(payload.len(), mark)?;
        write_all(self.input.get_mut(), &[&prefix, payload])
    }

    /// Writes all messages at once: what batching means to a program over TCP.
    fn transmit_together<'p>(
        &mut self,
        all: impl Iterator<Item = (&'p Bytes, Mark)>,
    ) -> io::Result<()> {
        let mut bytes = 0;
        for (payload, mark) in all {
            if payload.len() > SMALL {
                self.flush()?;
                bytes = 0;
                self.transmit(payload, mark)?;
                continue;
            }
            self.collect(payload, mark)?;
            bytes += payload.len();
            if bytes >= COLLECTED {
                self.flush()?;
                bytes = 0;
            }
        }
        self.flush()
    }

    fn collect(&mut self, payload: &[u8], mark: Mark) -> io::Result<()> {
        self.out.extend_from_slice(&prefix(payload.len(), mark)?);
        self.out.extend_from_slice(payload);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.out.is_empty() {
            write_all(self.input.get_mut(), &[&self.out])?;
            self.out.clear();
        }
        Ok(())
    }
}

fn failure(error: &io::Error) -> Failure {
    let how = match error.kind() {
        ErrorKind::WouldBlock => format!("nothing moved for {PATIENCE:?}"),
        _ => error.to_string(),
    };
    Failure::new(format!(
        "TCP contender: {how}; see the other side's error output"
    ))
}

/// Returns the length in a prefix.
fn length(prefix: [u8; 4]) -> usize {
    let length = u32::from_le_bytes(prefix) & ((1 << LENGTH_BITS) - 1);
    usize::try_from(length).unwrap_or(usize::MAX)
}

fn prefix(length: usize, mark: Mark) -> io::Result<[u8; 4]> {
    let length = u32::try_from(length).map_err(io::Error::other)?;
    Ok((length | u32::from(mark.number()) << LENGTH_BITS).to_le_bytes())
}

fn write_all(stream: &mut Patient, parts: &[&[u8]]) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut rest: &mut [IoSlice<'_>] = &mut slices;
    while !rest.is_empty() {
        match stream.retry(|stream| stream.write_vectored(rest))? {
            0 => return Err(ErrorKind::WriteZero.into()),
            count => IoSlice::advance_slices(&mut rest, count),
        }
    }
    Ok(())
}

impl Wire for Tcp {
    fn send(&mut self, payload: &Bytes, mark: Mark) -> Result<()> {
        self.transmit(payload, mark)
            .map_err(|error| failure(&error))
    }

    fn send_together<'p>(&mut self, all: impl Iterator<Item = (&'p Bytes, Mark)>) -> Result<()> {
        self.transmit_together(all).map_err(|error| failure(&error))
    }

    fn recv(&mut self) -> Result<Option<Received>> {
        self.receive().map(Some).map_err(|error| failure(&error))
    }

    fn try_recv(&mut self) -> Result<Option<Received>> {
        let buffered = self.input.buffer();
        let length = buffered.first_chunk().map(|prefix| length(*prefix));
        match length.is_some_and(|length| buffered.len() >= 4 + length) {
            true => self.recv(),
            false => Ok(None),
        }
    }

    fn silent(&mut self) -> Failure {
        failure(&ErrorKind::WouldBlock.into())
    }

    fn packets(&mut self) -> Result<u64> {
        usage::segments_sent(&self.input.get_ref().0)
    }
}

mod usage {
    //! The kernel's counters of a connection.

    use super::{Context, Result, TcpStream};
    use std::os::fd::AsRawFd;

    /// Offset of `tcpi_segs_out` in `struct tcp_info` (linux/tcp.h, since 4.2; later kernels
    /// append).
    const SEGS_OUT: usize = 136;

    /// Segments sent, retransmissions and pure acknowledgements included.
    pub(super) fn segments_sent(stream: &TcpStream) -> Result<u64> {
        let mut info = [0_u8; SEGS_OUT + 4];
        let mut length = libc::socklen_t::try_from(info.len()).context("TCP_INFO")?;
        let fd = stream.as_raw_fd();
        let (level, option, to) = (libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast());
        // SAFETY: the descriptor is open; the kernel writes at most `length` bytes, which `info`
        // has.
        let done = unsafe { libc::getsockopt(fd, level, option, to, &raw mut length) };
        if done != 0 {
            return Err(std::io::Error::last_os_error()).context("TCP_INFO");
        }
        let mut count = [0; 4];
        count.copy_from_slice(&info[SEGS_OUT..]);
        Ok(u32::from_ne_bytes(count).into())
    }
}
