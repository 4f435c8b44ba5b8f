//! TCP as a careful program uses it: NODELAY, default buffers, a length before each message.

use std::ffi::CStr;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use super::frames::Frames;
use super::wire::{Received, Result, Wire};
use super::{Args, End, Wait, Workload, sys};

/// Bytes that a user who batches collects before a write.
const BATCH: usize = 64 << 10;

/// Messages up to this long are copied behind their length, so that one plain write sends both.
const SMALL: usize = 16 << 10;

/// The longest wait of either end for the other.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Tcp {
    stream: TcpStream,
    /// Whether small messages are collected.
    batch: bool,
    out: Vec<u8>,
    frames: Frames,
    message: Vec<u8>,
}

impl Tcp {
    pub(crate) fn open(args: &Args, end: End, control: &CStr, batch: bool) -> Result<Self> {
        let stream = connect(end, control)?;
        if args.workload == Workload::AllToAll {
            // No process reads before it has written to all: the data in flight must fit, or all
            // wait for one another.
            sys::set_option(&stream, libc::SOL_SOCKET, libc::SO_SNDBUF, 4 << 20)?;
        }
        stream.set_nonblocking(args.wait == Wait::Spin)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self {
            stream,
            batch,
            out: Vec::with_capacity(2 * BATCH),
            frames: Frames::new(),
            message: Vec::new(),
        })
    }

    /// Takes a message whose beginning is buffered: by one call the rest goes straight to its
    /// place, and later bytes into the buffer.
    fn take_long(&mut self, length: usize) -> Result<Received> {
        self.message.resize(length, 0);
        let mut have = self.frames.begin(&mut self.message);
        while have < length {
            let rest = &mut self.message[have..];
            let ahead = self.frames.room();
            let got = patient(|| {
                let mut parts = [IoSliceMut::new(rest), IoSliceMut::new(ahead)];
                (&self.stream).read_vectored(&mut parts)
            })?;
            self.frames.filled(got.saturating_sub(length - have));
            have = length.min(have + got);
        }
        Received::touch(&self.message)
    }
}

/// Returns a stream to the other end, which blocks.
pub(crate) fn connect(end: End, control: &CStr) -> Result<TcpStream> {
    let stream = match end {
        End::Server(at) => {
            let listener = TcpListener::bind(at)?;
            println!("ready");
            listener.accept()?.0
        }
        End::Client(at) => TcpStream::connect(at)?,
    };
    set_congestion_control(&stream, control)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Repeats a call that a spinning socket cannot do yet; 0 bytes are the end.
fn patient(mut act: impl FnMut() -> io::Result<usize>) -> Result<usize> {
    let mut begun = None;
    loop {
        match act() {
            Ok(0) => return Err("the other end has gone".into()),
            Ok(count) => return Ok(count),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // A blocking socket has already waited for that long.
                if begun.get_or_insert_with(Instant::now).elapsed() >= PATIENCE {
                    return Err(error.into());
                }
                std::hint::spin_loop();
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn write_all(stream: &TcpStream, parts: &[&[u8]]) -> Result<()> {
    let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut rest: &mut [IoSlice<'_>] = &mut slices;
    while !rest.is_empty() {
        let mut stream = stream;
        let count = match &*rest {
            [one] => patient(|| stream.write(one))?,
            several => patient(|| stream.write_vectored(several))?,
        };
        IoSlice::advance_slices(&mut rest, count);
    }
    Ok(())
}

fn set_congestion_control(stream: &TcpStream, name: &CStr) -> Result<()> {
    let length = name.count_bytes() as u32;
    let (level, option) = (libc::IPPROTO_TCP, libc::TCP_CONGESTION);
    let (fd, at) = (stream.as_raw_fd(), name.as_ptr().cast());
    // SAFETY: the descriptor is open; the name outlives the call and has the given length.
    let done = unsafe { libc::setsockopt(fd, level, option, at, length) };
    sys::checked(done as isize).map_err(|error| format!("TCP_CONGESTION={name:?}: {error}"))?;
    Ok(())
}

impl Wire for Tcp {
    fn send(&mut self, message: &'static [u8]) -> Result<()> {
        let prefix = u32::try_from(message.len())?.to_le_bytes();
        if message.len() > SMALL {
            self.flush()?;
            return write_all(&self.stream, &[&prefix, message]);
        }
        self.out.extend_from_slice(&prefix);
        self.out.extend_from_slice(message);
        if !self.batch || self.out.len() >= BATCH {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        if !self.out.is_empty() {
            write_all(&self.stream, &[&self.out])?;
            self.out.clear();
        }
        Ok(())
    }

    fn recv(&mut self) -> Result<Received> {
        loop {
            if let Some(received) = self.frames.take()? {
                return Ok(received);
            }
            match self.frames.length() {
                Some(length) if length > SMALL => return self.take_long(length),
                _ => {
                    let room = self.frames.room();
                    let count = patient(|| (&self.stream).read(room))?;
                    self.frames.filled(count);
                }
            }
        }
    }

    fn try_recv(&mut self) -> Result<Option<Received>> {
        self.frames.take()
    }
}
