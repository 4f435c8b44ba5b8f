//! The bound: the throughput of this kernel for packets shaped like ours without any loss recovery.
//! Trains of 44 segments, each a header of 32 B and up to 1,440 B of payload; large messages are
//! gathered from where they lie, small ones copied together; the receiver takes whole trains (GRO),
//! copies each message once to its place, and grants 1 MiB. Messages are a stream of bytes, each
//! behind its length, so that every segment but the last one of a train is full.

use std::io::ErrorKind;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use super::wire::{Received, Result, Wire};
use super::{Args, End, Wait, sys};

const HEADER: usize = 32;
const PAYLOAD: usize = 1440;

/// Segments of a train: 44 x 1,472 B stay below the 65,507 B of a datagram.
const SEGMENTS: usize = 44;

/// Payload bytes in flight, and received before the sender hears of it.
const CREDIT: u64 = 1 << 20;
const GRANT_EVERY: u64 = CREDIT / 4;

/// Shorter pieces are cheaper to copy than to point to.
const GATHER: usize = 512;

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Gso {
    socket: UdpSocket,
    wait: Wait,
    is_connected: bool,
    train: Train,
    sent: u64,
    granted: u64,
    input: Input,
    told: u64,
}

/// The train under construction.
struct Train {
    /// Headers and copied payload; never grows beyond its capacity, since `parts` points into it.
    scratch: Vec<u8>,
    parts: Vec<libc::iovec>,
    segments: usize,
    /// Bytes left in the last segment.
    room: usize,
}

// SAFETY: the pointers in `parts` lead into `scratch`, which goes along, and to payloads that live
// for ever.
unsafe impl Send for Train {}

impl Train {
    fn new() -> Self {
        Self {
            scratch: Vec::with_capacity(SEGMENTS * (HEADER + PAYLOAD)),
            parts: Vec::with_capacity(4 * SEGMENTS),
            segments: 0,
            room: 0,
        }
    }

    fn begin_segment(&mut self, grant: u64) {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&grant.to_le_bytes());
        self.copy(&header);
        self.segments += 1;
        self.room = PAYLOAD;
    }

    fn copy(&mut self, bytes: &[u8]) {
        let begin = self.scratch.len();
        self.scratch.extend_from_slice(bytes);
        self.refer(&raw const self.scratch[begin], bytes.len());
    }

    fn refer(&mut self, from: *const u8, length: usize) {
        if let Some(last) = self.parts.last_mut() {
            // SAFETY: at most one past the end of the part's memory.
            let end = unsafe { last.iov_base.cast::<u8>().add(last.iov_len) };
            if end.cast_const() == from {
                last.iov_len += length;
                return;
            }
        }
        self.parts.push(libc::iovec {
            iov_base: from.cast_mut().cast(),
            iov_len: length,
        });
    }

    fn payload(&self) -> u64 {
        (self.segments * PAYLOAD - self.room) as u64
    }

    fn clear(&mut self) {
        self.scratch.clear();
        self.parts.clear();
        (self.segments, self.room) = (0, 0);
    }
}

/// The train that arrived last, and the message that is being put together.
struct Input {
    buffer: Vec<u8>,
    end: usize,
    segment: usize,
    segment_end: usize,
    at: usize,
    consumed: u64,
    /// The grant in the last header.
    granted: u64,
    prefix: [u8; 4],
    prefix_have: usize,
    message: Vec<u8>,
    have: usize,
}

impl Input {
    fn new() -> Self {
        Self {
            buffer: vec![0; 1 << 16],
            end: 0,
            segment: 1,
            segment_end: 0,
            at: 0,
            consumed: 0,
            granted: CREDIT,
            prefix: [0; 4],
            prefix_have: 0,
            message: Vec::new(),
            have: 0,
        }
    }

    fn begin(&mut self, length: usize, segment: usize) {
        (self.at, self.segment_end) = (0, 0);
        (self.end, self.segment) = (length, segment);
    }

    /// The next message that is complete; none when the train is used up.
    fn next(&mut self) -> Result<Option<Received>> {
        loop {
            if self.at == self.segment_end {
                if self.segment_end == self.end {
                    return Ok(None);
                }
                self.begin_segment()?;
                continue;
            }
            let rest = &self.buffer[self.at..self.segment_end];
            if self.prefix_have < 4 {
                let take = rest.len().min(4 - self.prefix_have);
                self.prefix[self.prefix_have..][..take].copy_from_slice(&rest[..take]);
                self.prefix_have += take;
                self.at += take;
                if self.prefix_have == 4 {
                    self.have = 0;
                    let length = u32::from_le_bytes(self.prefix) as usize;
                    self.message.resize(length, 0);
                }
                continue;
            }
            let take = rest.len().min(self.message.len() - self.have);
            self.message[self.have..][..take].copy_from_slice(&rest[..take]);
            self.have += take;
            self.at += take;
            if self.have == self.message.len() {
                self.prefix_have = 0;
                return Received::touch(&self.message).map(Some);
            }
        }
    }

    fn begin_segment(&mut self) -> Result<()> {
        let begin = self.segment_end;
        self.segment_end = self.end.min(begin + self.segment);
        let grant = self.buffer[begin..self.segment_end].first_chunk::<8>();
        let grant = u64::from_le_bytes(*grant.ok_or("a packet without a header")?);
        self.granted = self.granted.max(grant);
        self.at = begin + HEADER;
        self.consumed += (self.segment_end - self.at) as u64;
        Ok(())
    }
}

impl Gso {
    pub(crate) fn open(args: &Args, end: End) -> Result<Self> {
        let (local, remote) = match end {
            End::Server(at) => (at, None),
            End::Client(at) => ("0.0.0.0:0".parse()?, Some(at)),
        };
        let socket = sys::udp(local, remote)?;
        sys::set_option(&socket, libc::SOL_UDP, libc::UDP_GRO, 1)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        if remote.is_none() {
            println!("ready");
        }
        Ok(Self {
            socket,
            wait: args.wait,
            is_connected: remote.is_some(),
            train: Train::new(),
            sent: 0,
            granted: CREDIT,
            input: Input::new(),
            told: 0,
        })
    }

    fn push(&mut self, mut bytes: &[u8], lives: bool) -> Result<()> {
        while !bytes.is_empty() {
            if self.train.room == 0 {
                if self.train.segments == SEGMENTS {
                    self.transmit()?;
                }
                self.train.begin_segment(self.input.consumed + CREDIT);
            }
            let (now, rest) = bytes.split_at(self.train.room.min(bytes.len()));
            if lives && now.len() >= GATHER {
                self.train.refer(now.as_ptr(), now.len());
            } else {
                self.train.copy(now);
            }
            self.train.room -= now.len();
            bytes = rest;
        }
        Ok(())
    }

    fn transmit(&mut self) -> Result<()> {
        let payload = self.train.payload();
        while self.sent + payload > self.granted {
            self.recv_train()?;
            if let Some(received) = self.input.next()? {
                return Err(format!("{received:?} where only a grant can come").into());
            }
            self.granted = self.granted.max(self.input.granted);
        }
        self.sent += payload;
        self.told = self.input.consumed;
        sys::send_train(&self.socket, &self.train.parts, (HEADER + PAYLOAD) as u16)?;
        self.train.clear();
        Ok(())
    }

    fn grant(&mut self) -> Result<()> {
        if self.input.consumed - self.told >= GRANT_EVERY {
            self.told = self.input.consumed;
            let mut header = [0; HEADER];
            header[..8].copy_from_slice(&(self.told + CREDIT).to_le_bytes());
            self.socket.send(&header)?;
        }
        Ok(())
    }

    fn recv_train(&mut self) -> Result<()> {
        if !self.is_connected {
            // Waits for the first packet and leaves it where it is.
            let (_, from) = self.socket.peek_from(&mut self.input.buffer)?;
            self.socket.connect(from)?;
            self.is_connected = true;
        }
        let flags = match self.wait {
            Wait::Block => 0,
            Wait::Spin => libc::MSG_DONTWAIT,
        };
        let mut begun = None;
        loop {
            match sys::recv_train(&self.socket, &mut self.input.buffer, flags) {
                Ok((length, segment)) => {
                    self.input.begin(length, segment);
                    return Ok(());
                }
                Err(error) if self.wait == Wait::Spin && error.kind() == ErrorKind::WouldBlock => {
                    if begun.get_or_insert_with(Instant::now).elapsed() >= PATIENCE {
                        return Err("nothing arrived: a packet was lost?".into());
                    }
                    std::hint::spin_loop();
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Wire for Gso {
    fn send(&mut self, message: &'static [u8]) -> Result<()> {
        let length = u32::try_from(message.len())?.to_le_bytes();
        self.push(&length, false)?;
        self.push(message, true)
    }

    fn flush(&mut self) -> Result<()> {
        match self.train.segments {
            0 => Ok(()),
            _ => self.transmit(),
        }
    }

    fn recv(&mut self) -> Result<Received> {
        loop {
            if let Some(received) = self.input.next()? {
                return Ok(received);
            }
            self.granted = self.granted.max(self.input.granted);
            self.grant()?;
            self.recv_train()?;
        }
    }

    fn try_recv(&mut self) -> Result<Option<Received>> {
        self.input.next()
    }
}
