//! KCP: nodelay, fast resend after 2, no congestion window, windows of 1,024 packets, output at
//! once. Its messages end at its window, so long ones go in pieces of 64 KiB.

use std::io::{self, ErrorKind, Write};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::wire::{Mark, Received, Result, Wire};
use super::{Args, End, Wait, sys};

const WINDOW: u16 = 1024;
const PACKET: usize = 1472;
const PIECE: usize = 64 << 10;

/// First byte of a piece that another one follows; of the others it is the message's mark.
const MORE: u8 = 0x80;

/// Packets that wait for their acknowledgement, or for room in the window.
const OUTSTANDING: usize = 2 * WINDOW as usize;

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Kcp {
    kcp: kcp::Kcp<Output>,
    socket: Arc<UdpSocket>,
    wait: Wait,
    is_connected: bool,
    begun: Instant,
    packet: Vec<u8>,
    piece: Vec<u8>,
    message: Vec<u8>,
}

/// The destination of packets. Packets that the socket does not take are lost, as elsewhere on the
/// way.
struct Output(Arc<UdpSocket>);

impl Write for Output {
    fn write(&mut self, packet: &[u8]) -> io::Result<usize> {
        let _ = self.0.send(packet);
        Ok(packet.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Kcp {
    pub(crate) fn open(args: &Args, end: End) -> Result<Self> {
        let (local, remote) = match end {
            End::Server(at) => (at, None),
            End::Client(at) => ("0.0.0.0:0".parse()?, Some(at)),
        };
        let socket = Arc::new(sys::udp(local, remote)?);
        socket.set_nonblocking(true)?;
        let mut kcp = kcp::Kcp::new(1, Output(Arc::clone(&socket)));
        kcp.set_nodelay(true, 10, 2, true);
        kcp.set_wndsize(WINDOW, WINDOW);
        kcp.set_mtu(PACKET)?;
        kcp.set_maximum_resend_times(1000);
        if remote.is_none() {
            println!("ready");
        }
        let mut wire = Self {
            kcp,
            socket,
            wait: args.wait,
            is_connected: remote.is_some(),
            begun: Instant::now(),
            packet: vec![0; 2048],
            piece: vec![0; PIECE + 1],
            message: Vec::new(),
        };
        wire.output()?;
        Ok(wire)
    }

    fn now(&self) -> u32 {
        self.begun.elapsed().as_millis() as u32
    }

    /// Sends acknowledgements, new data, and retransmissions that are due.
    fn output(&mut self) -> Result<()> {
        self.kcp.update(self.now())?;
        self.kcp.flush()?;
        Ok(())
    }

    /// Takes packets that have come and answers them. If none have, sleeps first, at most until
    /// something is due.
    fn exchange(&mut self, wait: bool) -> Result<()> {
        if self.input()? == 0 && wait {
            if self.wait == Wait::Block {
                let due = self.kcp.check(self.now()).clamp(1, 10);
                sys::wait_readable(self.socket.as_raw_fd(), due as i32)?;
            }
            self.input()?;
        }
        self.output()
    }

    fn input(&mut self) -> Result<usize> {
        for count in 0..256 {
            match self.socket.recv_from(&mut self.packet) {
                Ok((length, from)) => {
                    if !self.is_connected {
                        self.socket.connect(from)?;
                        self.is_connected = true;
                    }
                    self.kcp.input(&self.packet[..length])?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(count),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(256)
    }

    fn take(&mut self) -> Result<Option<Received>> {
        while let Ok(length) = self.kcp.peeksize() {
            self.piece.resize(length.max(1), 0);
            let length = self.kcp.recv(&mut self.piece)?;
            let is_last = self.piece.first() != Some(&MORE);
            if is_last && self.message.is_empty() {
                return Received::touch(&self.piece[..length]).map(Some);
            }
            self.message.extend_from_slice(&self.piece[1..length]);
            if is_last {
                let length = self.message.len();
                Received::touch(&self.message)?;
                self.message.clear();
                let mark = Mark::Data;
                return Ok(Some(Received { mark, length }));
            }
        }
        Ok(None)
    }
}

impl Wire for Kcp {
    fn send(&mut self, message: &'static [u8]) -> Result<()> {
        let mut begun = None;
        while self.kcp.wait_snd() >= OUTSTANDING {
            self.exchange(true)?;
            if begun.get_or_insert_with(Instant::now).elapsed() >= PATIENCE {
                return Err("nothing was acknowledged".into());
            }
        }
        if message.len() <= PIECE {
            self.kcp.send(message)?;
            return Ok(());
        }
        let mut pieces = message.chunks(PIECE).peekable();
        while let Some(piece) = pieces.next() {
            let first = if pieces.peek().is_some() { MORE } else { 0 };
            let framed = [&[first], piece].concat();
            self.kcp.send(&framed)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.output()
    }

    fn recv(&mut self) -> Result<Received> {
        let begun = Instant::now();
        loop {
            if let Some(received) = self.take()? {
                return Ok(received);
            }
            self.exchange(true)?;
            if begun.elapsed() >= PATIENCE {
                return Err("nothing arrived".into());
            }
        }
    }

    fn try_recv(&mut self) -> Result<Option<Received>> {
        self.take()
    }

    fn close(&mut self) -> Result<()> {
        let begun = Instant::now();
        while self.kcp.wait_snd() > 0 && begun.elapsed() < Duration::from_secs(1) {
            // A side that has heard the last word is gone, and refuses later packets.
            let _ = self.exchange(true);
        }
        Ok(())
    }
}
