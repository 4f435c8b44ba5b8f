//! Raw UDP: the kernel's throughput without any reliability. Messages longer than a datagram become
//! several datagrams. Lost ones stay lost, and only those that arrived are counted.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{ip_mtu, ipv6_mtu};
use suci::Bytes;

use super::control::{PATIENCE, check_servers};
use super::wire::{Mark, Received, Wire, touch};
use crate::args::Waiting;
use crate::error::{Context, Failure, Result};
use crate::node::local_for;

/// Silence after which something counts as lost.
const SILENCE: Duration = Duration::from_millis(100);

/// Longest payload of any datagram, less the mark.
const LONGEST: usize = 65_507 - 1;

/// A connected socket.
pub(super) struct Udp {
    socket: UdpSocket,
    wait: Waiting,
    /// Payload per datagram.
    room: usize,
    buffer: Vec<u8>,
    packets: u64,
}

impl Udp {
    /// Returns a socket that can reach `remote`.
    pub(super) fn bind(remote: SocketAddr) -> Result<UdpSocket> {
        UdpSocket::bind((local_for(remote.ip()), 0)).context("a raw UDP socket")
    }

    pub(super) fn new(socket: UdpSocket, remote: SocketAddr, wait: Waiting) -> Result<Self> {
        let what = || format!("a raw UDP socket to {remote}");
        socket.connect(remote).context(what())?;
        socket
            .set_nonblocking(wait == Waiting::Spin)
            .context(what())?;
        socket.set_read_timeout(Some(SILENCE)).context(what())?;
        // IP and UDP headers of 20 or 40 and 8 bytes, and the mark.
        let (mtu, headers) = if remote.is_ipv4() {
            (ip_mtu(&socket), 29)
        } else {
            (ipv6_mtu(&socket), 49)
        };
        let mtu = usize::try_from(mtu.context(what())?).context(what())?;
        let room = mtu.saturating_sub(headers).clamp(1, LONGEST);
        Ok(Self {
            socket,
            wait,
            room,
            buffer: vec![0; LONGEST + 1],
            packets: 0,
        })
    }

    /// Returns the longest message that stays one datagram.
    pub(super) fn room(&self) -> usize {
        self.room
    }

    fn send_one(&mut self, piece: &[u8], mark: Mark) -> Result<()> {
        let Some((first, rest)) = self.buffer.split_first_mut() else {
            return Ok(());
        };
        let Some(payload) = rest.get_mut(..piece.len()) else {
            return Ok(());
        };
        *first = mark.number();
        payload.copy_from_slice(piece);
        let datagram = self.buffer.get(..=piece.len()).unwrap_or_default();
        loop {
            match self.socket.send(datagram) {
                Ok(_) => {
                    self.packets += 1;
                    return Ok(());
                }
                Err(error) => match error.kind() {
                    ErrorKind::Interrupted | ErrorKind::WouldBlock => std::hint::spin_loop(),
                    // A hint about an earlier datagram: it is lost, like any other, if the server
                    // is still there.
                    ErrorKind::ConnectionRefused => check_servers()?,
                    _ => return Err(Failure::new(format!("raw UDP: {error}"))),
                },
            }
        }
    }
}

impl Wire for Udp {
    fn send(&mut self, payload: &Bytes, mark: Mark) -> Result<()> {
        if payload.is_empty() {
            return self.send_one(&[], mark);
        }
        let room = self.room;
        payload
            .chunks(room)
            .try_for_each(|piece| self.send_one(piece, mark))
    }

    fn recv(&mut self) -> Result<Option<Received>> {
        let begun = Instant::now();
        loop {
            match self.socket.recv(&mut self.buffer) {
                Ok(length) => {
                    let Some((mark, payload)) =
                        self.buffer.get(..length).and_then(|d| d.split_first())
                    else {
                        continue;
                    };
                    let Some(mark) = Mark::of(*mark) else {
                        continue;
                    };
                    touch(payload);
                    return Ok(Some(Received {
                        mark,
                        length: payload.len(),
                    }));
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock
                        if self.wait != Waiting::Spin || begun.elapsed() >= SILENCE =>
                    {
                        return check_servers().map(|()| None);
                    }
                    ErrorKind::WouldBlock => std::hint::spin_loop(),
                    ErrorKind::Interrupted | ErrorKind::ConnectionRefused => {}
                    _ => return Err(Failure::new(format!("raw UDP: {error}"))),
                },
            }
        }
    }

    /// Returns nothing: only the kernel knows if a datagram is already here.
    fn try_recv(&mut self) -> Result<Option<Received>> {
        Ok(None)
    }

    fn silent(&mut self) -> Failure {
        Failure::new(format!(
            "raw UDP: nothing arrived for {PATIENCE:?}; check the firewall"
        ))
    }

    fn packets(&mut self) -> Result<u64> {
        Ok(self.packets)
    }

    fn is_reliable(&self) -> bool {
        false
    }
}
