//! Raw UDP: a datagram per message and per system call, as in a first program over UDP. Messages
//! longer than a packet become several datagrams. The receiver grants datagrams, so that none is
//! dropped; there is no other care.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use super::wire::{Mark, Received, Result, Wire};
use super::{Args, End, Wait, sys};

/// Longest datagram that needs no IP fragments at MTU 1500.
const ROOM: usize = 1472;

/// Datagrams in flight: the kernel charges 2,304 B for one at most, 8 MiB in all.
const CREDIT: u64 = 1024;

/// Datagrams received before the sender hears of it.
const GRANT_EVERY: u64 = CREDIT / 4;

/// First byte of a grant, which a message never has; the number of datagrams received follows.
const GRANT: u8 = 0x80;

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Udp {
    socket: UdpSocket,
    wait: Wait,
    /// Datagrams of data messages.
    pieces: usize,
    buffer: [u8; 2048],
    /// A datagram of several of one message: its mark comes first.
    piece: Vec<u8>,
    sent: u64,
    granted: u64,
    received: u64,
    told: u64,
    /// Pieces of the message that is being received.
    have: usize,
    length: usize,
    is_connected: bool,
}

impl Udp {
    pub(crate) fn open(args: &Args, end: End) -> Result<Self> {
        let (local, remote) = match end {
            End::Server(at) => (at, None),
            End::Client(at) => ("0.0.0.0:0".parse()?, Some(at)),
        };
        let socket = sys::udp(local, remote)?;
        socket.set_nonblocking(args.wait == Wait::Spin)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        if remote.is_none() {
            println!("ready");
        }
        Ok(Self {
            socket,
            wait: args.wait,
            pieces: match args.size {
                0..=ROOM => 1,
                more => more.div_ceil(ROOM - 1),
            },
            buffer: [0; 2048],
            piece: Vec::with_capacity(ROOM),
            sent: 0,
            granted: CREDIT,
            received: 0,
            told: 0,
            have: 0,
            length: 0,
            is_connected: remote.is_some(),
        })
    }

    fn send_datagram(&mut self, datagram: &[u8]) -> Result<()> {
        while self.sent >= self.granted {
            // A sender of a stream hears nothing but grants.
            if let Some(received) = self.recv_datagram()? {
                return Err(format!("{received:?} where only a grant can come").into());
            }
        }
        self.sent += 1;
        self.transmit(datagram)
    }

    fn transmit(&self, datagram: &[u8]) -> Result<()> {
        loop {
            match self.socket.send(datagram) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes one datagram: its mark and payload length, unless it was a grant.
    fn recv_datagram(&mut self) -> Result<Option<Received>> {
        let length = self.wait_for_datagram()?;
        if self.buffer[0] == GRANT {
            let number = self.buffer[1..].first_chunk().copied();
            self.granted = u64::from_le_bytes(number.unwrap_or_default()) + CREDIT;
            return Ok(None);
        }
        self.received += 1;
        if self.received - self.told >= GRANT_EVERY {
            self.told = self.received;
            let mut grant = [GRANT; 9];
            grant[1..].copy_from_slice(&self.received.to_le_bytes());
            self.transmit(&grant)?;
        }
        Received::touch(&self.buffer[..length]).map(Some)
    }

    fn wait_for_datagram(&mut self) -> Result<usize> {
        if !self.is_connected {
            let (length, from) = loop {
                match self.socket.recv_from(&mut self.buffer) {
                    Err(error) if self.spins(&error) => std::hint::spin_loop(),
                    done => break done?,
                }
            };
            self.socket.connect(from)?;
            self.is_connected = true;
            return Ok(length);
        }
        let mut begun = None;
        loop {
            match self.socket.recv(&mut self.buffer) {
                Err(error) if self.spins(&error) => {
                    if begun.get_or_insert_with(Instant::now).elapsed() >= PATIENCE {
                        return Err("nothing arrived: a datagram was lost?".into());
                    }
                    std::hint::spin_loop();
                }
                done => return Ok(done?),
            }
        }
    }

    fn spins(&self, error: &std::io::Error) -> bool {
        self.wait == Wait::Spin && error.kind() == ErrorKind::WouldBlock
    }
}

impl Wire for Udp {
    fn send(&mut self, message: &'static [u8]) -> Result<()> {
        if message.len() <= ROOM {
            return self.send_datagram(message);
        }
        let mut piece = std::mem::take(&mut self.piece);
        for chunk in message.chunks(ROOM - 1) {
            piece.clear();
            piece.extend_from_slice(&Mark::Data.message());
            piece.extend_from_slice(chunk);
            self.send_datagram(&piece)?;
        }
        self.piece = piece;
        Ok(())
    }

    fn recv(&mut self) -> Result<Received> {
        loop {
            let Some(received) = self.recv_datagram()? else {
                continue;
            };
            if received.mark != Mark::Data || self.pieces == 1 {
                return Ok(received);
            }
            self.have += 1;
            self.length += received.length - 1;
            if self.have == self.pieces {
                self.have = 0;
                return Ok(Received {
                    mark: Mark::Data,
                    length: std::mem::take(&mut self.length),
                });
            }
        }
    }
}
