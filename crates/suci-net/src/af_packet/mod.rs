//! UDP datagrams in Ethernet frames that this module makes and reads itself, past the kernel's UDP
//! and IP (`packet(7)`). The other end may be an ordinary UDP socket.
//!
//! A node that uses it holds two sockets: a UDP socket that has the port, and a packet socket that
//! moves the frames. The UDP socket takes nothing in (a filter drops all), but must be there, or
//! the kernel would tell senders that nobody has the port. It also sends what raw frames cannot:
//!
//! * the first train to a neighbour, and one each second, so that the kernel asks for the
//!   neighbour's Ethernet address, and keeps its answer fresh (RFC 826);
//! * trains to other networks, which go through a router, and to addresses of this host.
//!
//! Trains cross as one frame with segmentation offload, both ways (`PACKET_VNET_HDR`).
//!
//! With an EtherType the frames for neighbours carry no IP and no UDP, so that the kernel of the
//! receiver has nothing to do with them but to hand them on. What the UDP socket sends is UDP as
//! before, so both are received. An empty datagram each second makes the kernel ask for the
//! neighbour's address; receivers drop it. There is no segmentation offload for such frames.

mod filter;
mod offload;

use std::io::{self, IoSlice};
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use self::offload::LONGEST;
use crate::ethernet::frame::{self, Addresses, Datagrams};
use crate::ethernet::interface::{self, Interface, Known};
pub use crate::ethernet::own::EtherType;
use crate::ethernet::sys;
use crate::train::unmapped;
use crate::udp::addr::RawAddr;
use crate::udp::cmsg::{self, Control, RECV_CONTROL};
use crate::udp::sys::{self as socket, Empty};
use crate::udp::{Udp, UdpOptions};
use crate::{
    Backend, Capabilities, Counters, Ecn, MAX_SLICES, MAX_TRAIN_SEGMENTS, Meta, Ready, Report,
    SendOutcome, Train,
};

/// Maximum number of sockets of a group: one for each value of a byte.
const MOST: usize = 256;

/// Slices of a train, with its headers, that need no memory of their own.
const FEW: usize = 32;

/// UDP over raw Ethernet frames, IPv4, or frames of an EtherType without UDP.
///
/// Needs the capability `CAP_NET_RAW` when it is opened, not later.
#[derive(Debug)]
pub struct AfPacket {
    /// Has the port, and sends what raw frames cannot.
    udp: Udp,
    packets: Socket,
    /// That of frames to neighbours, if they are not UDP.
    ether_type: Option<EtherType>,
    local: SocketAddrV4,
    interface: Interface,
    capabilities: Capabilities,
    slot: Box<[u8]>,
    control: Box<Control<RECV_CONTROL>>,
    counters: Counters,
}

impl AfPacket {
    /// Binds the UDP port at `addr`, an IPv4 address of an Ethernet interface or of loopback, and
    /// opens the packet socket. Port 0 lets the system choose.
    ///
    /// # Errors
    /// As [`Udp::bind`] and [`AfPacket::over`].
    pub fn bind(
        addr: SocketAddr,
        ether_type: Option<EtherType>,
        options: &UdpOptions,
    ) -> io::Result<Self> {
        Self::over(Udp::bind(addr, options)?, ether_type, options)
    }

    /// Takes over the port of `udp`, which receives nothing any more. With `ether_type` neighbours
    /// get frames of that type, which only backends with the same type receive.
    ///
    /// # Errors
    /// `PermissionDenied` without the capability `CAP_NET_RAW`; `InvalidInput` if the socket is not
    /// bound to one IPv4 address of this host; `Unsupported` if the interface is no Ethernet; else
    /// the system's error.
    pub fn over(udp: Udp, ether_type: Option<EtherType>, options: &UdpOptions) -> io::Result<Self> {
        let this = Self::open(udp, ether_type, options)?;
        this.take_frames()?;
        Ok(this)
    }

    /// Makes this socket and others for its port a group, `count` in all, as
    /// [`Udp::into_group`] does: each gets the datagrams whose byte 4 modulo `count` is its place.
    ///
    /// # Errors
    /// `InvalidInput` for a count of 0 or more than 256; else the system's error.
    pub fn into_group(self, count: usize, options: &UdpOptions) -> io::Result<Vec<Self>> {
        if count == 0 || count > MOST {
            return Err(invalid("1 to 256 sockets can share a port"));
        }
        // A frame that comes to two of them would count twice, so none takes any before all are in
        // the group.
        let members: io::Result<Vec<Self>> = (0..count)
            .map(|_| Self::open(self.udp.again(options)?, self.ether_type, options))
            .collect();
        let members = members?;
        let mut id = None;
        for member in members.iter().filter(|_| count > 1) {
            id = Some(join(member.packets.as_fd(), id)?);
        }
        if count > 1
            && let Some(first) = members.first()
        {
            let program = filter::steering(u32::try_from(count).unwrap_or(1), self.ether_type);
            let (fd, option) = (first.packets.as_fd(), libc::PACKET_FANOUT_DATA);
            socket::attach(fd, libc::SOL_PACKET, option, &program)?;
        }
        drop(self);
        for member in &members {
            member.take_frames()?;
        }
        Ok(members)
    }

    /// Opens a packet socket that takes no frames yet.
    fn open(udp: Udp, ether_type: Option<EtherType>, options: &UdpOptions) -> io::Result<Self> {
        let local = Interface::own_address(udp.local_addr())?;
        let interface = Interface::of(*local.ip(), udp.as_fd())?;
        let packets = open_packets(options)?;
        let fd = packets.as_fd();
        for fd in [udp.as_fd(), fd] {
            socket::attach(
                fd,
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                &[socket::DROP_ALL],
            )?;
        }
        // A socket takes frames of one type or of all: the filter chooses.
        let of_type = ether_type.map_or(libc::ETH_P_IP, |_| libc::ETH_P_ALL);
        sys::bind(fd, &sys::link_address(of_type as u16, 0, [0; 6]))?;
        let on = |name| socket::set_int(fd, libc::SOL_SOCKET, name, 1).is_ok();
        let capabilities = Capabilities {
            max_segments: match options.gso && ether_type.is_none() {
                true => MAX_TRAIN_SEGMENTS,
                false => 1,
            },
            gro: ether_type.is_none(),
            ecn: true,
            kernel_timestamps: on(libc::SO_TIMESTAMPNS),
            recv_buffer: socket::get_size(fd, libc::SOL_SOCKET, libc::SO_RCVBUF)?,
            send_buffer: socket::get_size(fd, libc::SOL_SOCKET, libc::SO_SNDBUF)?,
            block_limit: packets.read_timeout()?.map(|tick| 2 * tick),
        };
        Ok(Self {
            udp,
            packets,
            ether_type,
            local,
            interface,
            capabilities,
            slot: vec![0; LONGEST].into_boxed_slice(),
            control: Box::new(Control::new()),
            counters: Counters::default(),
        })
    }

    /// From now on the packet socket takes the frames with this port's datagrams.
    fn take_frames(&self) -> io::Result<()> {
        let (index, loopback) = (self.interface.index, interface::loopback()?);
        let filter = filter::filter(self.local, index, loopback, self.ether_type);
        let fd = self.packets.as_fd();
        socket::attach(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
    }

    /// Sends a train as one frame to a neighbour.
    fn send_frame(
        &mut self,
        train: &Train<'_>,
        to: SocketAddrV4,
        ethernet: [u8; 6],
    ) -> io::Result<SendOutcome> {
        let segments = train.segments();
        let longest = train.segment.min(train.len);
        if longest + frame::IP_AND_UDP > self.interface.mtu {
            self.interface.ask_mtu(self.udp.as_fd())?;
            if longest + frame::IP_AND_UDP > self.interface.mtu {
                return Ok(SendOutcome::TooBig);
            }
        }
        let addresses = Addresses {
            ethernet: (self.interface.ethernet, ethernet),
            from: self.local,
            to,
        };
        let (udp, own);
        let (ether_type, headers): (u16, &[u8]) = match self.ether_type {
            None => {
                udp = offload::headers(&addresses, train);
                (libc::ETH_P_IP as u16, &udp)
            }
            Some(ether_type) => {
                own = offload::own_headers(ether_type, &addresses, train);
                (ether_type.get(), &own)
            }
        };
        let mut to = self.interface.link_address(ether_type, ethernet);
        self.counters.send_calls += 1;
        let mut few = [IoSlice::new(&[]); FEW];
        let mut many = Vec::new();
        let slices = match few.get_mut(..=train.slices.len()) {
            Some(slices) => slices,
            None => {
                many.resize(train.slices.len() + 1, IoSlice::new(&[]));
                many.as_mut_slice()
            }
        };
        if let [first, rest @ ..] = slices {
            *first = IoSlice::new(headers);
            rest.copy_from_slice(train.slices);
        }
        let sent = socket::send(self.packets.as_fd(), &mut to, slices, &mut Control::new());
        Ok(match sent {
            Ok(_) => SendOutcome::Sent(segments),
            Err(error) => match error.raw_os_error().unwrap_or(0) {
                libc::EAGAIN | libc::ENOMEM => SendOutcome::Again,
                // The device dropped it: lost, as by any other hop.
                libc::ENOBUFS => SendOutcome::Sent(segments),
                libc::EMSGSIZE => SendOutcome::TooBig,
                libc::EINVAL | libc::EIO if segments > 1 => {
                    self.capabilities.max_segments = 1;
                    self.counters.gso_refused += 1;
                    SendOutcome::NoGso
                }
                libc::EBADF | libc::ENOTSOCK | libc::EFAULT => return Err(error),
                _ => SendOutcome::Unreachable(error.kind()),
            },
        })
    }

    fn count_sent(&mut self, train: &Train<'_>, outcome: SendOutcome) {
        let counters = &mut self.counters;
        match outcome {
            SendOutcome::Sent(segments) => {
                counters.datagrams_sent += segments as u64;
                counters.bytes_sent += train.len as u64;
                counters.trains_sent += u64::from(segments > 1);
            }
            SendOutcome::Again => counters.again += 1,
            SendOutcome::TooBig => counters.too_big += 1,
            SendOutcome::Unreachable(_) => counters.unreachable += 1,
            SendOutcome::NoGso => {}
        }
    }

    /// Receives one frame. `None` if there is none; 0 if it was damaged.
    fn recv_once(
        &mut self,
        empty: Empty,
        sink: &mut dyn FnMut(&Meta, &mut [u8]),
    ) -> io::Result<Option<usize>> {
        let mut from = RawAddr::empty();
        self.counters.recv_calls += 1;
        let fd = self.packets.as_fd();
        match socket::recv(fd, &mut self.slot, &mut from, &mut self.control, empty) {
            Ok(arrival) => Ok(Some(self.deliver(arrival.len, &from, sink))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => match error.raw_os_error() {
                // The interface went down. It may come back.
                Some(libc::ENETDOWN) => {
                    self.counters.recv_errors += 1;
                    Ok(Some(0))
                }
                _ => Err(error),
            },
        }
    }

    fn deliver(
        &mut self,
        length: usize,
        link: &RawAddr,
        sink: &mut dyn FnMut(&Meta, &mut [u8]),
    ) -> usize {
        let Some(Datagrams {
            from,
            ecn,
            segment,
            bytes,
        }) = self.slot.get(..length).and_then(offload::read)
        else {
            self.counters.truncated += 1;
            return 0;
        };
        if sys::index_of(link) == Some(self.interface.index) {
            if self.interface.is_impossible(*from.ip()) {
                self.counters.recv_errors += 1;
                return 0;
            }
            // An empty datagram of UDP: the sender's kernel asked for this host's address.
            let is_empty = bytes == (offload::HEADERS..offload::HEADERS);
            if is_empty && self.ether_type.is_some() && !self.interface.is_loopback {
                return 0;
            }
        }
        let control = self.control.bytes.get(..self.control.len);
        let meta = Meta {
            from: from.into(),
            to: None,
            ecn,
            arrived: cmsg::parse(control.unwrap_or_default()).arrived,
            segment,
        };
        let bytes = self.slot.get_mut(bytes).unwrap_or_default();
        let count = bytes.len().div_ceil(segment).max(1);
        sink(&meta, bytes);
        self.counters.datagrams_received += count as u64;
        self.counters.bytes_received += bytes.len() as u64;
        self.counters.trains_received += u64::from(count > 1);
        count
    }
}

impl Backend for AfPacket {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn local_addr(&self) -> SocketAddr {
        self.local.into()
    }

    fn send(&mut self, train: &Train<'_>) -> io::Result<SendOutcome> {
        let outcome = match (
            train.admit(self.capabilities.max_segments)?,
            unmapped(train.dest),
        ) {
            (Some(outcome), _) => outcome,
            (None, SocketAddr::V6(_)) => SendOutcome::Unreachable(io::ErrorKind::Unsupported),
            (None, SocketAddr::V4(to)) => {
                let known = self.interface.neighbour(*to.ip(), self.udp.as_fd());
                let near = match known {
                    Known::Fresh(ethernet) => Some(ethernet),
                    Known::Old(ethernet) => self.ether_type.and(Some(ethernet)),
                    Known::No => None,
                };
                match near {
                    Some(ethernet) if train.slices.len() < MAX_SLICES => {
                        if let Known::Old(_) = known {
                            // A failure is no loss.
                            let _ = self
                                .udp
                                .send(&Train::single(train.dest, Ecn::NotEct, &[]))?;
                        }
                        self.send_frame(train, to, ethernet)?
                    }
                    _ => self.udp.send(train)?,
                }
            }
        };
        self.count_sent(train, outcome);
        Ok(outcome)
    }

    fn recv(&mut self, max: usize, sink: &mut dyn FnMut(&Meta, &mut [u8])) -> io::Result<usize> {
        /// Frames that are not handed on, after which one call returns.
        const MOST_DAMAGED: usize = 64;
        let (mut count, mut damaged) = (0, 0);
        while count < max && damaged < MOST_DAMAGED {
            match self.recv_once(Empty::Return, sink)? {
                None => break,
                Some(0) => damaged += 1,
                Some(some) => count += some,
            }
        }
        Ok(count)
    }

    fn recv_blocking(
        &mut self,
        sink: &mut dyn FnMut(&Meta, &mut [u8]),
    ) -> io::Result<Option<usize>> {
        self.recv_once(Empty::Sleep, sink)
    }

    fn next_report(&mut self) -> Option<Report> {
        self.udp.next_report()
    }

    fn wait(&mut self, timeout: Option<Duration>, want_write: bool) -> io::Result<Ready> {
        self.counters.wait_calls += 1;
        socket::wait(self.packets.as_fd(), timeout, want_write)
    }

    fn path_mtu(&self, dest: SocketAddr) -> Option<usize> {
        self.udp.path_mtu(dest)
    }

    fn counters(&self) -> Counters {
        let udp = self.udp.counters();
        Counters {
            recv_drops: socket::drops(self.packets.as_fd()).unwrap_or(0),
            send_calls: self.counters.send_calls + udp.send_calls,
            recv_errors: self.counters.recv_errors + udp.recv_errors,
            ..self.counters
        }
    }

    fn charged(&mut self) -> Option<u64> {
        let charged = socket::charged(self.packets.as_fd()).ok()?;
        self.counters.recv_charged = charged;
        self.counters.recv_charged_max = self.counters.recv_charged_max.max(charged);
        Some(charged)
    }

    fn raw_fd(&self) -> Option<RawFd> {
        Some(self.packets.as_raw_fd())
    }
}

/// A packet socket that is not bound yet.
fn open_packets(options: &UdpOptions) -> io::Result<Socket> {
    let kind = Type::RAW.cloexec();
    let opened = Socket::new(Domain::PACKET, kind, Some(Protocol::from(0)));
    let packets = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM) => {
            let text = "raw Ethernet frames need the capability CAP_NET_RAW: run `setcap \
                        cap_net_raw+ep PROGRAM` as root, or use the UDP backend";
            io::Error::new(io::ErrorKind::PermissionDenied, text)
        }
        _ => error,
    })?;
    packets.set_recv_buffer_size(options.recv_buffer.min(i32::MAX as usize / 2))?;
    packets.set_send_buffer_size(options.send_buffer.min(i32::MAX as usize / 2))?;
    for option in [libc::PACKET_VNET_HDR, libc::PACKET_IGNORE_OUTGOING] {
        socket::set_int(packets.as_fd(), libc::SOL_PACKET, option, 1)?;
    }
    // The shortest there is: the kernel rounds it up to its tick.
    packets.set_read_timeout(Some(Duration::from_micros(1)))?;
    Ok(packets)
}

/// Joins the group `id`, or makes one, and returns it.
fn join(fd: BorrowedFd<'_>, id: Option<u16>) -> io::Result<u16> {
    let kind = match id {
        Some(_) => libc::PACKET_FANOUT_CBPF,
        None => libc::PACKET_FANOUT_CBPF | libc::PACKET_FANOUT_FLAG_UNIQUEID,
    };
    let value = (kind << 16 | u32::from(id.unwrap_or(0))).cast_signed();
    socket::set_int(fd, libc::SOL_PACKET, libc::PACKET_FANOUT, value)?;
    let got = socket::get_size(fd, libc::SOL_PACKET, libc::PACKET_FANOUT)?;
    Ok((got & 0xffff) as u16)
}

fn invalid(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

#[cfg(test)]
mod tests;
